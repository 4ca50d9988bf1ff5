/// A plan as bytes. docs/internals/formats.md describes the format.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "base/files.h"
#include "base/hasher.h"
#include "base/image.h"
#include "base/pages.h"
#include "plan/plan.h"

namespace sab {

/// A column in a file.
struct ColumnRecord {
    uint64_t distinct;  ///< number of its distinct sizes
    NameField name;
};

namespace {

constexpr ImageKind plan_image{{'S', 'A', 'B', 'P', 'L', 'A', 'N', '\0'}, 11, "plan"};
/// Of a plan that was made from a histogram. Its places have 64 bits, and it has no order.
constexpr ImageKind counted_image{
    {'S', 'A', 'B', 'C', 'P', 'L', 'N', '\0'}, 6, "plan of a histogram"};

/// A budget in a file. Its terms follow those of the budgets before it.
struct BudgetRecord {
    double limit;       ///< 0: none, of the only one
    uint32_t terms;     ///< number of; 0: the cost was a callback
    uint32_t in_bytes;  ///< 1: the cost predicts memory
};

/// The sections of a file, in this order and without gaps. The small ones are verified and copied
/// when a plan is opened, the buckets and their lengths when they are needed. The sections with
/// pages grow with the samples; of these a batch reads and verifies the pages that it needs.
enum Section : std::size_t {
    columns_section,      ///< ColumnRecord
    budgets_section,      ///< BudgetRecord
    terms_section,        ///< of the budgets: CostTerm
    buckets_section,      ///< Bucket
    lengths_section,      ///< of the buckets, float64: the fields of BucketLengths
    shared_runs_section,  ///< SharedRun
    second_section,       ///< the same three of Plan::second(), which may be empty
    second_lengths_section,
    second_shared_runs_section,
    distinct_sizes_section,  ///< of the columns, float64
    first_offsets_section,   ///< of one column Plan::first_offsets(); or first_places()
    order_section,           ///< Plan::order() or run_places()
    codes_section,           ///< of several columns, or with ids: Plan::codes()
    pages_section,           ///< uint64: page_checksums() of the sections before it with pages
    section_count
};
constexpr std::size_t small_sections = buckets_section, first_with_pages = distinct_sizes_section;

struct SectionKind {
    const char* name;  ///< in messages
    std::size_t item_bytes;
};
constexpr SectionKind section_kinds[section_count] = {{"columns", sizeof(ColumnRecord)},
                                                      {"budgets", sizeof(BudgetRecord)},
                                                      {"cost terms", sizeof(CostTerm)},
                                                      {"buckets", sizeof(Bucket)},
                                                      {"lengths", sizeof(double)},
                                                      {"shared runs", sizeof(SharedRun)},
                                                      {"second buckets", sizeof(Bucket)},
                                                      {"second lengths", sizeof(double)},
                                                      {"second shared runs", sizeof(SharedRun)},
                                                      {"distinct sizes", sizeof(double)},
                                                      {"first offsets", sizeof(uint32_t)},
                                                      {"order", sizeof(uint32_t)},
                                                      {"codes", sizeof(uint32_t)},
                                                      {"page checksums", sizeof(uint64_t)}};

using Sections = std::array<std::span<const std::byte>, section_count>;

/// The checksum in `image` is of the header alone, so it depends on the content of all sections. It
/// is also the plan's fingerprint.
struct PlanHeader {
    ImageHeader image;
    uint64_t budgets;  ///< number of
    uint64_t terms;
    uint64_t distinct_count;  ///< over all columns
    uint64_t buckets;
    uint64_t runs;  ///< of a plan of a histogram that has codes
    uint64_t shared_runs;
    uint64_t second_buckets;  ///< 0: all epochs have the same
    uint64_t second_shared_runs;
    PlanFacts facts;
    std::array<uint64_t, first_with_pages> checksums;  ///< of the sections before it
    uint64_t checksum_of_pages;                        ///< of the section of page checksums
};

// The bytes are a format: a change of layout needs a new version.
static_assert(sizeof(PlanHeader) == 392 && sizeof(PlanFacts) == 216 && sizeof(Bucket) == 56 &&
              sizeof(SharedRun) == 24 && sizeof(BudgetRecord) == 16 && sizeof(CostTerm) == 48 &&
              sizeof(ColumnRecord) == 72);

uint64_t section_checksum(std::span<const std::byte> section) {
    Hasher hash;
    hash.add_all(section);
    return hash.digest();
}

bool is_counted(std::span<const std::byte> image) {
    return image.size() >= sizeof counted_image.magic &&
           std::memcmp(image.data(), counted_image.magic, sizeof counted_image.magic) == 0;
}

const ImageKind& kind_of(bool is_counted) {
    return is_counted ? counted_image : plan_image;
}

/// Bytes of an item of a section.
std::size_t item_bytes(std::size_t section, bool is_counted) {
    if (is_counted && (section == first_offsets_section || section == order_section))
        return sizeof(uint64_t);
    return section_kinds[section].item_bytes;
}

bool is_coded(const PlanFacts& facts) {
    return facts.columns > 1 || facts.has_ids != 0;
}

/// Divides what follows the header.
Sections divide(const PlanHeader& header, bool is_counted, std::span<const std::byte> image,
                const ImageRefusal& refuse) {
    const uint64_t columns = header.facts.columns, samples = header.facts.samples;
    const bool coded = is_coded(header.facts);
    if (header.runs > 0 && !(coded && is_counted)) refuse("it has runs");
    const uint64_t in_order = is_counted ? header.runs : samples;
    const uint64_t first_offsets = !coded       ? header.distinct_count + 1
                                   : is_counted ? header.runs + 1
                                                : 0;
    uint64_t counts[section_count] = {columns,
                                      header.budgets,
                                      header.terms,
                                      header.buckets,
                                      header.buckets * BucketLengths::fields * columns,
                                      header.shared_runs,
                                      header.second_buckets,
                                      header.second_buckets * BucketLengths::fields * columns,
                                      header.second_shared_runs,
                                      header.distinct_count,
                                      first_offsets,
                                      in_order,
                                      coded ? in_order * columns : 0,
                                      0};
    Sections sections;
    std::size_t begin = sizeof header, first_page = 0;
    for (std::size_t i = 0; i < section_count; ++i) {
        if (i == first_with_pages) first_page = begin;
        if (i == pages_section) counts[i] = page_count(first_page, begin);
        const std::size_t bytes = item_bytes(i, is_counted);
        if (counts[i] > (image.size() - begin) / bytes)
            refuse("its sections do not fit its length");
        sections[i] = image.subspan(begin, counts[i] * bytes);
        begin += sections[i].size();
    }
    if (begin < image.size()) refuse("its sections do not fit its length");
    return sections;
}

/// The items of a section that is aligned for them.
template <class Item>
std::span<const Item> items(const Sections& sections, std::size_t section) {
    const std::span<const std::byte> bytes = sections[section];
    return {reinterpret_cast<const Item*>(bytes.data()), bytes.size() / sizeof(Item)};
}

bool is_proper(double size) {
    return size >= 0 && size <= largest_size;
}

std::vector<Budget> read_budgets(const PlanHeader& header, const Sections& sections,
                                 const ImageRefusal& refuse) {
    const uint64_t count = header.budgets;
    if (count < 1 || count > SAB_MAX_BUDGETS) refuse("its number of budgets is invalid");
    std::vector<Budget> budgets;
    std::span<const CostTerm> left = items<CostTerm>(sections, terms_section);
    for (const BudgetRecord& record : items<BudgetRecord>(sections, budgets_section)) {
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
        if (budget.cost.columns() > header.facts.columns)
            refuse("the cost of one of its budgets has more columns than its sizes");
    if (!left.empty()) refuse("its budgets do not have all of its cost terms");
    return budgets;
}

void check_facts(const PlanFacts& facts, uint64_t distinct_count, bool is_counted,
                 const ImageRefusal& refuse) {
    if (is_counted && facts.has_ids != 0) refuse("it has ids");
    if (facts.columns < 1 || facts.columns > SAB_MAX_COLUMNS || facts.has_ids < 0 ||
        facts.has_ids > 1)
        refuse("it has ", facts.columns, " columns");
    if (facts.samples < 1 ||
        facts.samples > (is_counted ? largest_counted_samples : largest_sample_count) ||
        facts.skipped >= facts.samples + 1)
        refuse("it has ", facts.samples, " samples, of which ", facts.skipped, " are skipped");
    if (distinct_count >= facts.columns * largest_sample_count) refuse("it has too many sizes");
    if (facts.tail < SAB_TAIL_KEEP || facts.tail > SAB_TAIL_WRAP ||
        facts.bucket_rule < SAB_BUCKETS_AUTO || facts.bucket_rule > SAB_BUCKETS_OPTIMAL ||
        !std::ranges::all_of(facts.length_multiples, is_proper) || !(facts.total >= 0) ||
        !(facts.padding_target >= 0) || !(facts.nearest_target >= facts.padding_target))
        refuse("one of its options is invalid");
}

}  // namespace

void Plan::make_head() {
    std::vector<ColumnRecord> columns;
    columns.reserve(names_.size());
    for (std::size_t j = 0; j < names_.size(); ++j)
        columns.push_back({distinct_sizes(j).size(), name_field(names_[j])});
    std::vector<BudgetRecord> budgets;
    std::vector<CostTerm> terms;
    for (const Budget& budget : budgets_) {
        const std::span<const CostTerm> own = budget.cost.terms();
        budgets.push_back(
            {budget.limit, static_cast<uint32_t>(own.size()), budget.cost.is_in_bytes() ? 1u : 0u});
        terms.insert(terms.end(), own.begin(), own.end());
    }
    PlanHeader header{begin_image(kind_of(is_counted()), sizeof header),
                      budgets.size(),
                      terms.size(),
                      distinct_sizes_.size(),
                      buckets_.size(),
                      run_places_.size(),
                      shared_runs_.size(),
                      second_ ? second_->buckets_.size() : 0,
                      second_ ? second_->shared_runs_.size() : 0,
                      facts_,
                      {},
                      0};
    const ImageParts small{std::as_bytes(std::span(&header, 1)), std::as_bytes(std::span(columns)),
                           std::as_bytes(std::span(budgets)), std::as_bytes(std::span(terms))};
    head_.resize(image_size(small));
    made_checksums_ = checksums_of_pages();
    page_checksums_ = std::as_bytes(std::span(made_checksums_));
    for (std::size_t i = 0; i < small_sections; ++i)
        header.checksums[i] = section_checksum(small[1 + i]);
    const ImageParts parts = image_parts();
    for (std::size_t i = small_sections; i < first_with_pages; ++i)
        header.checksums[i] = section_checksum(parts[1 + i - small_sections]);
    header.checksum_of_pages = section_checksum(page_checksums_);
    header.image.length = image_size(image_parts());
    header.image.checksum = fingerprint_ = image_checksum({small[0]});
    write_image(small, head_);
}

/// Where the sections with pages begin.
std::size_t Plan::pages_begin() const {
    const ImageParts parts = image_parts();
    std::size_t begin = 0;
    for (std::size_t i = 0; i <= first_with_pages - small_sections; ++i) begin += parts[i].size();
    return begin;
}

/// As they are now.
std::vector<uint64_t> Plan::checksums_of_pages() const {
    const ImageParts parts = image_parts();
    return page_checksums(pages_begin(), std::span(parts).last(5).first(4));
}

ImageParts Plan::image_parts() const {
    const auto of_second = [&](auto member) {
        return second_ ? std::as_bytes((*second_).*member) : std::span<const std::byte>();
    };
    return {head_,
            std::as_bytes(buckets_),
            std::as_bytes(lengths_),
            std::as_bytes(shared_runs_),
            of_second(&Plan::buckets_),
            of_second(&Plan::lengths_),
            of_second(&Plan::shared_runs_),
            std::as_bytes(distinct_sizes_),
            is_counted() ? std::as_bytes(first_places_) : std::as_bytes(first_offsets_),
            is_counted() ? std::as_bytes(run_places_) : std::as_bytes(order_),
            std::as_bytes(codes_),
            page_checksums_};
}

std::size_t Plan::write(std::span<std::byte> room) const {
    return write_image(image_parts(), room);
}

void Plan::save(const char* path) const {
    replace_file(path, image_parts());
}

std::shared_ptr<Plan> Plan::from_image(std::span<const std::byte> image,
                                       std::shared_ptr<const void> owner, std::string name) {
    const bool counted = sab::is_counted(image);
    const ImageRefusal refuse(kind_of(counted), name);
    PlanHeader header;
    read_image_header(kind_of(counted), image, refuse, &header, sizeof header);
    if (header.image.checksum != image_checksum({std::as_bytes(std::span(&header, 1))}))
        refuse("its header is damaged: the checksum does not match");
    check_facts(header.facts, header.distinct_count, counted, refuse);
    Sections sections = divide(header, counted, image, refuse);

    // Copied before it is verified: a mapped file may change at any time.
    std::shared_ptr<Plan> plan(new Plan);
    plan->head_.assign(image.data(), sections[small_sections].data());
    std::memcpy(plan->head_.data(), &header, sizeof header);
    for (std::size_t i = 0; i < small_sections; ++i)
        sections[i] = {plan->head_.data() + (sections[i].data() - image.data()),
                       sections[i].size()};
    plan->verify_sections(std::span(sections).first(small_sections), 0, refuse);

    plan->facts_ = header.facts;
    plan->read_columns(items<ColumnRecord>(sections, columns_section), header.distinct_count,
                       refuse);
    plan->budgets_ = read_budgets(header, sections, refuse);
    plan->distinct_sizes_ = items<double>(sections, distinct_sizes_section);
    if (counted) {
        plan->first_places_ = items<uint64_t>(sections, first_offsets_section);
        plan->run_places_ = items<uint64_t>(sections, order_section);
    } else {
        plan->first_offsets_ = items<uint32_t>(sections, first_offsets_section);
        plan->order_ = items<uint32_t>(sections, order_section);
    }
    plan->codes_ = items<uint32_t>(sections, codes_section);
    plan->page_checksums_ = sections[pages_section];
    plan->fingerprint_ = header.image.checksum;
    plan->name_ = std::move(name);
    plan->owner_ = std::move(owner);
    if (header.second_buckets > 0) plan->second_.reset(new Plan(*plan));
    const auto set_buckets = [&](Plan& of, std::size_t section) {
        of.buckets_section_ = section;
        of.buckets_ = items<Bucket>(sections, section);
        of.lengths_ = items<double>(sections, section + 1);
        of.shared_runs_ = items<SharedRun>(sections, section + 2);
        of.known_buckets_ = std::make_shared<const MadeOnce<PlanBuckets>>();
    };
    set_buckets(*plan, buckets_section);
    if (!plan->second_) return plan;
    set_buckets(*plan->second_, second_section);
    plan->second_->first_number_ = plan->bucket_count();
    return plan;
}

/// The names of the columns, and how the distinct sizes are divided between them.
void Plan::read_columns(std::span<const ColumnRecord> columns, uint64_t distinct_count,
                        const ImageRefusal& refuse) {
    first_distinct_ = {0};
    for (const ColumnRecord& record : columns) {
        const uint64_t before = first_distinct_.back();
        if (record.distinct < 1 || record.distinct > distinct_count - before)
            refuse("column ", names_.size(), " has ", record.distinct, " sizes");
        first_distinct_.push_back(before + record.distinct);
        const std::optional<std::string> name = read_name(record.name);
        if (!name) refuse("the name of column ", names_.size(), " is not UTF-8 followed by zeros");
        names_.push_back(*name);
        if (names_.back().empty() != names_[0].empty()) refuse("only some columns have names");
    }
    if (first_distinct_.back() != distinct_count) refuse("its columns do not have all sizes");
}

const PlanBuckets& Plan::read_buckets() const {
    return known_buckets_->get([&] {
        read_ahead(std::as_bytes(buckets_));
        read_ahead(std::as_bytes(lengths_));
        read_ahead(std::as_bytes(shared_runs_));
        // Copied before it is verified: a mapped file may change at any time.
        auto read =
            std::make_unique<PlanBuckets>(PlanBuckets{{buckets_.begin(), buckets_.end()},
                                                      {lengths_.begin(), lengths_.end()},
                                                      {shared_runs_.begin(), shared_runs_.end()}});
        const ImageRefusal refuse(kind_of(is_counted()), name_);
        const std::span<const std::byte> sections[] = {std::as_bytes(std::span(read->buckets)),
                                                       std::as_bytes(std::span(read->lengths)),
                                                       std::as_bytes(std::span(read->shared_runs))};
        verify_sections(sections, buckets_section_, refuse);
        check_buckets(*read, refuse);
        check_shared_runs(*read, refuse);
        return read;
    });
}

void Plan::check_buckets(const PlanBuckets& read, const ImageRefusal& refuse) const {
    uint64_t batches = 0;
    std::vector<std::pair<uint64_t, uint64_t>> offsets;
    for (std::size_t number = 0; number < read.buckets.size(); ++number) {
        const Bucket& bucket = read.buckets[number];
        const uint64_t samples = bucket.samples();
        const uint32_t most_distinct =
            is_coded() ? 0 : static_cast<uint32_t>(distinct_sizes_.size());
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
        if (bucket.distinct_begin > bucket.distinct_end || bucket.distinct_end > most_distinct)
            refuse("bucket ", number, " has the distinct sizes from ", bucket.distinct_begin,
                   " to ", bucket.distinct_end, " of ", most_distinct);
        batches += expected;
        if (samples == 0) continue;
        const bool has_sizes = is_coded() || bucket.distinct_begin < bucket.distinct_end;
        const BucketLengths own = read.lengths_of(number, columns());
        bool has_lengths = true;
        for (std::size_t j = 0; j < columns(); ++j)
            has_lengths = has_lengths && is_proper(own.shortest[j]) && is_proper(own.longest[j]) &&
                          own.shortest[j] <= own.longest[j] &&
                          own.padded_length[j] >= own.longest[j];
        if (!(bucket.cost >= 0) || !has_lengths || !has_sizes)
            refuse("the sizes or the cost of bucket ", number, " do not match its samples");
        offsets.emplace_back(bucket.begin, bucket.end);
    }
    if (batches != facts_.batches)
        refuse("it has ", facts_.batches, " batches, but its buckets have ", batches);
    std::ranges::sort(offsets);
    for (std::size_t i = 1; i < offsets.size(); ++i)
        if (offsets[i].first != offsets[i - 1].second) refuse("its buckets overlap or leave a gap");
}

void Plan::check_shared_runs(const PlanBuckets& read, const ImageRefusal& refuse) const {
    uint64_t begin = facts_.samples, end = 0, classes = 0;
    for (const Bucket& bucket : read.buckets) {
        if (bucket.samples() == 0) continue;
        begin = std::min(begin, bucket.begin);
        end = std::max(end, bucket.end);
    }
    for (std::size_t i = 0; i < read.shared_runs.size(); ++i) {
        const SharedRun& run = read.shared_runs[i];
        if (run.begin < begin || run.begin >= run.end || run.end > end || run.size_class > classes)
            refuse("shared run ", i, " has the places from ", run.begin, " to ", run.end,
                   " and class ", run.size_class);
        classes = std::max(classes, run.size_class + 1);
        begin = run.end;
    }
}

/// Compares the checksums of `sections`, which begin with section `first`.
void Plan::verify_sections(std::span<const std::span<const std::byte>> sections, std::size_t first,
                           const ImageRefusal& refuse) const {
    PlanHeader header;
    std::memcpy(&header, head_.data(), sizeof header);
    for (std::size_t i = 0; i < sections.size(); ++i)
        if (section_checksum(sections[i]) != header.checksums[first + i])
            refuse("its section \"", section_kinds[first + i].name,
                   "\" is damaged: the checksum does not match");
}

/// Those that are not verified when a plan is opened.
void Plan::verify_large_sections(const ImageRefusal& refuse) const {
    const ImageParts parts = image_parts();
    verify_sections(std::span(parts).subspan(1, first_with_pages - buckets_section),
                    buckets_section, refuse);
    PlanHeader header;
    std::memcpy(&header, head_.data(), sizeof header);
    if (section_checksum(page_checksums_) != header.checksum_of_pages)
        refuse("its section \"", section_kinds[pages_section].name,
               "\" is damaged: the checksum does not match");
    const std::vector<uint64_t> pages = checksums_of_pages();
    for (std::size_t i = 0; i < pages.size(); ++i)
        if (std::memcmp(&pages[i], &page_checksums_[i * sizeof pages[i]], sizeof pages[i]) != 0)
            fail_page(name_, pages_begin(), i);
}

/// Content with correct checksums may still be wrong, so all rules are checked, too.
void Plan::check_all() const {
    const ImageRefusal refuse(kind_of(is_counted()), name_);
    verify_large_sections(refuse);
    check_distinct_sizes(refuse);
    if (!is_counted()) check_order(refuse);
    if (is_counted() && is_coded()) check_runs(refuse);
    check_sizes(refuse);
    if (!second_) return;
    second_->check_sizes(refuse);
    if (second_->places() != places())
        refuse("its second buckets do not have the samples of the first");
}

/// Visits places in ascending order, by stretches of samples with equal sizes, which are given as
/// numbers among the distinct ones of each column.
template <class Visit>
void Plan::each_stretch(const ImageRefusal& refuse, Visit&& visit) const {
    const auto codes = [&](std::size_t i) { return codes_.subspan(i * columns(), columns()); };
    if (!is_coded()) {
        for (uint32_t k = 0; k < distinct_sizes_.size(); ++k)
            visit(first_place(k), first_place(k + 1), std::span<const uint32_t>(&k, 1));
    } else if (!is_counted()) {
        for (uint64_t place = 0; place < facts_.samples; ++place)
            visit(place, place + 1, codes(place));
    } else {
        std::vector<std::size_t> order(run_places_.size());
        std::iota(order.begin(), order.end(), std::size_t{0});
        std::ranges::sort(order, {}, [&](std::size_t run) { return run_places_[run]; });
        uint64_t place = 0;
        for (const std::size_t run : order) {
            if (run_places_[run] != place) refuse("its runs overlap or leave a gap");
            place += first_places_[run + 1] - first_places_[run];
            visit(run_places_[run], place, codes(run));
        }
    }
}

/// Each bucket has the sizes of its samples. Those of a class are padded to the same lengths.
void Plan::check_sizes(const ImageRefusal& refuse) const {
    const std::span<const Bucket> all = buckets();
    const std::span<const SharedRun> shared = shared_runs();
    std::vector<std::size_t> filled;  // buckets with samples, by place
    for (std::size_t number = 0; number < all.size(); ++number)
        if (all[number].samples() > 0) filled.push_back(number);
    std::ranges::sort(filled, {}, [&](std::size_t number) { return all[number].begin; });
    std::vector<PerColumn> of_class;  // padded lengths
    std::size_t next = 0, next_shared = 0;
    each_stretch(refuse, [&](uint64_t begin, uint64_t end, std::span<const uint32_t> codes) {
        PerColumn sizes{};
        for (std::size_t j = 0; j < columns(); ++j) sizes[j] = decoded(codes[j], distinct_sizes(j));
        while (next < filled.size() && all[filled[next]].end <= begin) ++next;
        for (std::size_t i = next; i < filled.size() && all[filled[i]].begin < end; ++i) {
            const Bucket& own = all[filled[i]];
            bool is_inside = is_coded()
                                 ? own.begin <= begin && end <= own.end
                                 : own.distinct_begin <= codes[0] && codes[0] < own.distinct_end;
            for (std::size_t j = 0; j < columns(); ++j)
                is_inside = is_inside && size_range(filled[i], j).has(sizes[j]);
            if (!is_inside) refuse("bucket ", filled[i], " does not have the sizes of its samples");
        }
        while (next_shared < shared.size() && shared[next_shared].end <= begin) ++next_shared;
        for (std::size_t i = next_shared; i < shared.size() && shared[i].begin < end; ++i) {
            PerColumn lengths{};
            for (std::size_t j = 0; j < columns(); ++j) lengths[j] = padded(sizes[j], j);
            if (shared[i].size_class == of_class.size()) of_class.push_back(lengths);
            if (lengths != of_class[shared[i].size_class])
                refuse("shared run ", i, " has samples of several padded lengths");
        }
    });
    for (const std::size_t number : filled) {
        const SizeRange range = size_range(number);
        if (!is_coded() && (distinct_sizes_[all[number].distinct_begin] != range.least ||
                            distinct_sizes_[all[number].distinct_end - 1] != range.most))
            refuse("bucket ", number, " does not have the sizes of its samples");
    }
}

void Plan::check_distinct_sizes(const ImageRefusal& refuse) const {
    for (std::size_t j = 0; j < columns(); ++j) {
        const std::span<const double> sizes = distinct_sizes(j);
        for (std::size_t i = 0; i < sizes.size(); ++i)
            if (!is_proper(sizes[i]) || (i > 0 && sizes[i - 1] >= sizes[i]))
                refuse("distinct size ", i, " is ", sizes[i], ": out of order or range");
    }
    if (is_coded()) return;
    const std::size_t count = distinct_sizes_.size();
    for (std::size_t i = 0; i < count; ++i)
        if (first_place(i) >= first_place(i + 1)) refuse("distinct size ", i, " has no samples");
    if (first_place(0) != 0 || first_place(count) != facts_.samples)
        refuse("its distinct sizes do not have all samples");
}

void Plan::check_order(const ImageRefusal& refuse) const {
    const uint64_t samples = facts_.samples;
    const auto seen = make_huge_array<uint64_t>(samples / 64 + 1);
    std::fill_n(seen.get(), samples / 64 + 1, uint64_t{0});
    for (const uint32_t index : order_) {
        if (index >= samples) refuse("sample index ", index, ": must be below ", samples);
        uint64_t& word = seen[index / 64];
        const uint64_t bit = uint64_t{1} << index % 64;
        if ((word & bit) != 0) refuse("its order has sample ", index, " twice");
        word |= bit;
    }
}

/// The runs have all samples, each once, in ascending order of size.
void Plan::check_runs(const ImageRefusal& refuse) const {
    const std::size_t count = run_places_.size();
    if (first_places_[0] != 0 || first_places_[count] != facts_.samples)
        refuse("its runs do not have all samples");
    const auto codes = [&](std::size_t run) { return codes_.subspan(run * columns(), columns()); };
    for (std::size_t run = 0; run < count; ++run) {
        if (first_places_[run] >= first_places_[run + 1] ||
            (run > 0 && std::ranges::lexicographical_compare(codes(run), codes(run - 1))))
            refuse("run ", run, " is out of order");
        for (std::size_t j = 0; j < columns(); ++j)
            if (codes(run)[j] >= distinct_sizes(j).size()) refuse("run ", run, " has no size");
    }
}

void Plan::fail_index(uint32_t index) const {
    fail_format(name_, "sample index ", index, ": must be below ", facts_.samples,
                "; the plan's file is damaged or was changed while it was mapped");
}

void Plan::fail_size() const {
    fail_format(
        name_,
        "the size of a sample is not in the range of its bucket; the plan's file is damaged or "
        "was changed while it was mapped");
}

std::shared_ptr<const Plan> Plan::open(std::shared_ptr<const std::span<const std::byte>> file,
                                       std::string name) {
    const std::span<const std::byte> image = *file;
    if (sab::is_counted(image)) return read(image, name);
    auto plan = from_image(image, std::move(file), std::move(name));
    const std::span<const std::byte> pages = plan->page_checksums_;
    plan->pages_ = std::make_shared<const VerifiedPages>(
        plan->name_, image, plan->pages_begin(),
        static_cast<std::size_t>(pages.data() - image.data()), pages);
    if (plan->second_) plan->second_->pages_ = plan->pages_;
    return plan;
}

/// All of the image was read when it was copied, so all of it is verified. A plan of a histogram is
/// small, and sab_histogram_plan_locate() relies on it, so its content is checked, too.
std::shared_ptr<const Plan> Plan::from_memory(HugeArray<std::byte> memory, std::size_t size,
                                              std::string_view name) {
    const std::span<const std::byte> image(memory.get(), size);
    auto plan =
        from_image(image, std::shared_ptr<const std::byte[]>(std::move(memory)), std::string(name));
    if (plan->is_counted()) {
        plan->check_all();
    } else {
        plan->verify_large_sections(ImageRefusal(plan_image, name));
        plan->known_buckets();
        if (plan->second_) plan->second_->known_buckets();
    }
    return plan;
}

std::shared_ptr<const Plan> Plan::read(std::span<const std::byte> image, std::string_view name) {
    auto memory = make_huge_array<std::byte>(image.size());
    if (!image.empty()) std::memcpy(memory.get(), image.data(), image.size());
    return from_memory(std::move(memory), image.size(), name);
}

std::shared_ptr<const Plan> Plan::copy() const {
    const std::size_t size = image_size(image_parts());
    auto memory = make_huge_array<std::byte>(size);
    write({memory.get(), size});
    return from_memory(std::move(memory), size, "plan");
}

}  // namespace sab
