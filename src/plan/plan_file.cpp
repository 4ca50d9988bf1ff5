/// A plan as bytes. docs/formats.md describes the format.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/files.h"
#include "base/image.h"
#include "plan/plan.h"

namespace sab {
namespace {

constexpr ImageKind plan_image{{'S', 'A', 'B', 'P', 'L', 'A', 'N', '\0'}, 3, "plan"};

/// A budget in a file. Its terms follow those of the budgets before it.
struct BudgetRecord {
    double limit;       ///< 0: none, of the only one
    uint32_t terms;     ///< number of; 0: the cost was a callback
    uint32_t in_bytes;  ///< 1: the cost predicts memory
};

/// Sections follow in this order, without gaps: budgets (BudgetRecord), their terms (CostTerm),
/// distinct sizes (float64), buckets (Bucket), the offset in the order of each distinct size
/// (uint32, one more than there are sizes), order (uint32). The checksum is also the plan's
/// fingerprint.
struct PlanHeader {
    ImageHeader image;
    uint64_t budgets;  ///< number of
    uint64_t terms;
    uint64_t distinct_count;
    uint64_t buckets;
    PlanFacts facts;
};

// The bytes are a format: a change of layout needs a new version.
static_assert(sizeof(PlanHeader) == 144 && sizeof(PlanFacts) == 80 && sizeof(Bucket) == 88 &&
              sizeof(BudgetRecord) == 16 && sizeof(CostTerm) == 48);

/// A plan as a file has it. The plan must outlive it.
class PlanImage {
public:
    explicit PlanImage(const Plan& plan) : plan_(plan) {
        for (const Budget& budget : plan.budgets()) {
            const std::span<const CostTerm> terms = budget.cost.terms();
            budgets_.push_back({budget.limit, static_cast<uint32_t>(terms.size()),
                                budget.cost.is_in_bytes() ? 1u : 0u});
            terms_.insert(terms_.end(), terms.begin(), terms.end());
        }
        header_ = {begin_image(plan_image, 0),   budgets_.size(),       terms_.size(),
                   plan.distinct_sizes().size(), plan.buckets().size(), plan.facts()};
        header_.image.length = image_size(parts());
    }

    uint64_t checksum() const { return image_checksum(parts()); }
    void set_checksum(uint64_t checksum) { header_.image.checksum = checksum; }

    /// The first one is the header.
    ImageParts parts() const {
        return {std::as_bytes(std::span(&header_, 1)), std::as_bytes(std::span(budgets_)),
                std::as_bytes(std::span(terms_)),      std::as_bytes(plan_.distinct_sizes()),
                std::as_bytes(plan_.buckets()),        std::as_bytes(plan_.first_offsets()),
                std::as_bytes(plan_.order())};
    }

private:
    const Plan& plan_;
    std::vector<BudgetRecord> budgets_;
    std::vector<CostTerm> terms_;
    PlanHeader header_{};
};

bool is_proper(double size) {
    return size >= 0 && size <= largest_size;
}

/// Takes `count` items off the front of `rest`.
template <class Item>
std::span<const Item> take(std::span<const std::byte>& rest, uint64_t count,
                           const ImageRefusal& refuse) {
    if (count > rest.size() / sizeof(Item)) refuse("its arrays do not fit its length");
    const std::span<const Item> items(reinterpret_cast<const Item*>(rest.data()), count);
    rest = rest.subspan(items.size_bytes());
    return items;
}

/// The arrays that offsets and counts are computed from are copied before they are checked: a
/// mapped file may change at any time.
struct Copied {
    std::shared_ptr<const void> image;
    std::vector<Bucket> buckets;
};

/// The budgets of the next `count` records and the terms behind them.
std::vector<Budget> take_budgets(std::span<const std::byte>& rest, uint64_t count, uint64_t terms,
                                 const ImageRefusal& refuse) {
    if (count < 1 || count > SAB_MAX_BUDGETS) refuse("its number of budgets is invalid");
    std::vector<Budget> budgets;
    const auto records = take<BudgetRecord>(rest, count, refuse);
    std::span<const CostTerm> left = take<CostTerm>(rest, terms, refuse);
    for (const BudgetRecord record : records) {
        const bool has_limit = record.limit > 0 || (record.limit == 0 && count == 1);
        if (record.terms > left.size() || !has_limit || !std::isfinite(record.limit))
            refuse("one of its budgets is invalid");
        const std::span<const CostTerm> own = left.first(record.terms);
        left = left.subspan(record.terms);
        try {
            budgets.push_back({own.empty() ? Cost::unknown()
                                           : Cost({own.begin(), own.end()}, record.in_bytes != 0),
                               record.limit});
        } catch (const Error&) {
            refuse("the cost of one of its budgets is invalid");
        }
    }
    for (const Budget& budget : budgets)
        if (budget.cost.columns() > 1) refuse("the cost of one of its budgets has several columns");
    if (!left.empty()) refuse("its arrays do not fit its length");
    return budgets;
}

}  // namespace

uint64_t Plan::checksum() const {
    return PlanImage(*this).checksum();
}

std::size_t Plan::write(std::span<std::byte> room) const {
    PlanImage image(*this);
    image.set_checksum(fingerprint_);
    return write_image(image.parts(), room);
}

void Plan::save(const char* path) const {
    PlanImage image(*this);
    image.set_checksum(fingerprint_);
    replace_file(path, image.parts());
}

std::shared_ptr<const Plan> Plan::from_image(std::span<const std::byte> image,
                                             std::shared_ptr<const void> owner,
                                             std::string_view name) {
    const ImageRefusal refuse(plan_image, name);
    PlanHeader header;
    read_image_header(plan_image, image, refuse, &header, sizeof header);

    std::shared_ptr<Plan> plan(new Plan);
    std::span<const std::byte> rest = image.subspan(sizeof header);
    plan->facts_ = header.facts;
    plan->budgets_ = take_budgets(rest, header.budgets, header.terms, refuse);
    plan->distinct_sizes_ = take<double>(rest, header.distinct_count, refuse);
    const auto buckets = take<Bucket>(rest, header.buckets, refuse);
    if (header.distinct_count >= largest_sample_count) refuse("it has too many sizes");
    plan->first_offsets_ = take<uint32_t>(rest, header.distinct_count + 1, refuse);
    plan->order_ = take<uint32_t>(rest, header.facts.samples, refuse);
    if (!rest.empty()) refuse("its arrays do not fit its length");
    const auto copied =
        std::make_shared<const Copied>(Copied{std::move(owner), {buckets.begin(), buckets.end()}});
    plan->buckets_ = copied->buckets;
    plan->owner_ = copied;
    plan->fingerprint_ = plan->checksum();
    if (plan->fingerprint_ != header.image.checksum)
        refuse("its checksum does not match: it is damaged");
    plan->check_sound(refuse);
    return plan;
}

/// Bytes with a right checksum may still be wrong: nothing that a sampler relies on is taken on
/// trust.
void Plan::check_sound(const ImageRefusal& refuse) const {
    check_facts(refuse);
    check_distinct_sizes(refuse);
    check_buckets(refuse);
}

void Plan::check_facts(const ImageRefusal& refuse) const {
    const PlanFacts& facts = facts_;
    if (facts.samples < 1 || facts.samples > largest_sample_count ||
        facts.skipped >= facts.samples + 1)
        refuse("it has ", facts.samples, " samples, of which ", facts.skipped, " are skipped");
    if (facts.tail < SAB_TAIL_KEEP || facts.tail > SAB_TAIL_WRAP ||
        facts.bucket_rule < SAB_BUCKETS_AUTO || facts.bucket_rule > SAB_BUCKETS_EQUAL ||
        !is_proper(facts.length_multiple) || !(facts.total >= 0) || !(facts.padding_target >= 0) ||
        !(facts.nearest_target >= facts.padding_target))
        refuse("one of its options is invalid");
}

void Plan::check_distinct_sizes(const ImageRefusal& refuse) const {
    if (distinct_sizes_.empty() || first_offsets_.front() != 0 ||
        first_offsets_.back() != facts_.samples)
        refuse("its distinct sizes do not have all samples");
    for (std::size_t i = 0; i < distinct_sizes_.size(); ++i)
        if (!is_proper(distinct_sizes_[i]) || first_offsets_[i] >= first_offsets_[i + 1] ||
            (i > 0 && distinct_sizes_[i - 1] >= distinct_sizes_[i]))
            refuse("distinct size ", i, " is ", distinct_sizes_[i], ": out of order or range");
    uint32_t largest = 0;
    for (const uint32_t index : order_) largest = std::max(largest, index);
    if (largest >= facts_.samples)
        refuse("sample index ", largest, ": must be below ", facts_.samples);
}

void Plan::check_buckets(const ImageRefusal& refuse) const {
    uint64_t batches = 0;
    std::vector<std::pair<uint32_t, uint32_t>> offsets;
    for (std::size_t number = 0; number < buckets_.size(); ++number) {
        const Bucket& bucket = buckets_[number];
        const uint64_t samples = bucket.samples();
        if (bucket.begin > bucket.end || bucket.end > facts_.samples || bucket.batch_size < 1)
            refuse("bucket ", number, " begins at ", bucket.begin, " and ends at ", bucket.end,
                   ", with a batch size of ", bucket.batch_size);
        const uint64_t expected =
            facts_.tail == SAB_TAIL_DROP
                ? samples / bucket.batch_size
                : samples / bucket.batch_size + (samples % bucket.batch_size != 0);
        if (bucket.batches != expected ||
            (facts_.tail == SAB_TAIL_WRAP && bucket.batch_size > std::max<uint64_t>(samples, 1)))
            refuse("bucket ", number, " has ", bucket.batches, " batches of ", bucket.batch_size,
                   " for ", samples, " samples");
        batches += expected;
        if (samples == 0) continue;
        if (bucket.distinct_begin >= bucket.distinct_end ||
            bucket.distinct_end > distinct_sizes_.size() ||
            first_offsets_[bucket.distinct_begin] > bucket.begin ||
            first_offsets_[bucket.distinct_begin + 1] <= bucket.begin ||
            first_offsets_[bucket.distinct_end] < bucket.end ||
            first_offsets_[bucket.distinct_end - 1] >= bucket.end || !(bucket.cost >= 0) ||
            !(bucket.padded_length >= bucket.longest))
            refuse("the sizes or the cost of bucket ", number, " do not match its samples");
        offsets.emplace_back(bucket.begin, bucket.end);
    }
    if (batches != facts_.batches)
        refuse("it has ", facts_.batches, " batches, but its buckets have ", batches);
    std::ranges::sort(offsets);
    for (std::size_t i = 1; i < offsets.size(); ++i)
        if (offsets[i].first != offsets[i - 1].second) refuse("its buckets overlap or leave a gap");
}

void Plan::fail_changed(uint32_t index) const {
    fail(SAB_E_FORMAT, "plan: sample index ", index, ": must be below ", facts_.samples,
         "; the plan's file was changed while it was mapped");
}

std::shared_ptr<const Plan> Plan::open(const char* path) {
    auto file = map_file(path);
    const std::span<const std::byte> image = *file;
    return from_image(image, std::move(file), text("\"", path, "\""));
}

std::shared_ptr<const Plan> Plan::read(std::span<const std::byte> image) {
    // Copied into 8-byte words, since the arrays need their alignment.
    auto words = std::make_shared<std::vector<uint64_t>>((image.size() + 7) / 8);
    if (!image.empty()) std::memcpy(words->data(), image.data(), image.size());
    const std::span<const std::byte> copy(reinterpret_cast<const std::byte*>(words->data()),
                                          image.size());
    return from_image(copy, std::move(words), "data");
}

}  // namespace sab
