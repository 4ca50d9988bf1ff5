/// A plan as bytes: a header, then the arrays, each aligned. ARCHITECTURE.md describes the format.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/files.h"
#include "base/xxhash.h"
#include "plan/plan.h"
#include "plan/plan_file.h"

namespace sab {
namespace {

template <class Item>
std::span<const std::byte> bytes_of(std::span<const Item> items) {
    return std::as_bytes(items);
}

/// Takes `count` items off the front of `rest`.
template <class Item>
std::span<const Item> take(std::span<const std::byte>& rest, uint64_t count,
                           const std::function<void(const char*)>& refuse) {
    if (count > rest.size() / sizeof(Item)) refuse("its arrays do not fit its length");
    const std::span<const Item> items(reinterpret_cast<const Item*>(rest.data()), count);
    rest = rest.subspan(items.size_bytes());
    return items;
}

/// What places and counts are computed from is copied before it is checked: a mapped file may
/// change at any time.
struct Copied {
    std::shared_ptr<const void> image;
    std::vector<double> coefficients;
    std::vector<Bucket> buckets;
};

}  // namespace

std::vector<std::span<const std::byte>> Plan::sections() const {
    return {bytes_of(coefficients_), bytes_of(level_size_), bytes_of(buckets_),
            bytes_of(level_first_), bytes_of(order_)};
}

static PlanFileHeader header_of(const Plan& plan, uint64_t length) {
    PlanFileHeader header{};
    std::memcpy(header.magic, plan_magic, sizeof header.magic);
    header.byte_order = plan_byte_order;
    header.version = plan_file_version;
    header.length = length;
    header.coefficients = plan.coefficients().size();
    header.levels = plan.level_size().size();
    header.buckets = plan.buckets().size();
    header.facts = plan.facts();
    return header;
}

static uint64_t checksum_of(const PlanFileHeader& header,
                            std::span<const std::span<const std::byte>> sections) {
    XXH3_state_t state;
    XXH3_64bits_reset(&state);
    // all after the checksum itself
    constexpr std::size_t covered = offsetof(PlanFileHeader, length);
    XXH3_64bits_update(&state, reinterpret_cast<const char*>(&header) + covered,
                       sizeof header - covered);
    for (const auto section : sections) XXH3_64bits_update(&state, section.data(), section.size());
    return XXH3_64bits_digest(&state);
}

uint64_t Plan::checksum() const {
    return checksum_of(header_of(*this, image_size()), sections());
}

std::size_t Plan::image_size() const {
    std::size_t size = sizeof(PlanFileHeader);
    for (const auto section : sections()) size += section.size();
    return size;
}

void Plan::write(std::byte* image) const {
    PlanFileHeader header = header_of(*this, image_size());
    header.checksum = fingerprint_;
    const auto all = sections();
    std::memcpy(image, &header, sizeof header);
    image += sizeof header;
    for (const auto section : all) {
        if (!section.empty()) std::memcpy(image, section.data(), section.size());
        image += section.size();
    }
}

void Plan::save(const char* path) const {
    PlanFileHeader header = header_of(*this, image_size());
    header.checksum = fingerprint_;
    std::vector<std::span<const std::byte>> parts = sections();
    parts.insert(parts.begin(), std::as_bytes(std::span(&header, 1)));
    replace_file(path, parts);
}

std::shared_ptr<const Plan> Plan::from_image(std::span<const std::byte> image,
                                             std::shared_ptr<const void> owner,
                                             std::string_view name) {
    const std::function<void(const char*)> refuse = [&](const char* what) {
        fail(SAB_E_FORMAT, name, " is not a plan that can be used: ", what);
    };
    if (image.size() < sizeof plan_magic ||
        std::memcmp(image.data(), plan_magic, sizeof plan_magic) != 0)
        refuse("it does not begin as a plan does");
    if (image.size() < sizeof(PlanFileHeader)) refuse("it is truncated inside its header");
    PlanFileHeader header;
    std::memcpy(&header, image.data(), sizeof header);
    if (header.byte_order != plan_byte_order)
        refuse("it was written on a machine of the other byte order");
    if (header.version != plan_file_version)
        fail(SAB_E_FORMAT, name, " is not a plan that can be used: its format version is ",
             header.version, ", this library reads ", plan_file_version);
    if (header.length != image.size())
        fail(SAB_E_FORMAT, name, " is not a plan that can be used: it has ", image.size(),
             " bytes of ", header.length);

    std::shared_ptr<Plan> plan(new Plan);
    std::span<const std::byte> rest = image.subspan(sizeof header);
    plan->facts_ = header.facts;
    const auto coefficients = take<double>(rest, header.coefficients, refuse);
    plan->level_size_ = take<double>(rest, header.levels, refuse);
    const auto buckets = take<Bucket>(rest, header.buckets, refuse);
    if (header.levels >= largest_sample_count) refuse("it has too many sizes");
    plan->level_first_ = take<uint32_t>(rest, header.levels + 1, refuse);
    plan->order_ = take<uint32_t>(rest, header.facts.samples, refuse);
    if (!rest.empty()) refuse("its arrays do not fit its length");
    const auto copied =
        std::make_shared<const Copied>(Copied{std::move(owner),
                                              {coefficients.begin(), coefficients.end()},
                                              {buckets.begin(), buckets.end()}});
    plan->coefficients_ = copied->coefficients;
    plan->buckets_ = copied->buckets;
    plan->owner_ = copied;
    plan->fingerprint_ = plan->checksum();
    if (plan->fingerprint_ != header.checksum) refuse("its checksum does not match: it is damaged");
    plan->check_sound(refuse);
    return plan;
}

/// Bytes with a right checksum may still be wrong: nothing that a sampler relies on is taken on
/// trust.
void Plan::check_sound(const std::function<void(const char*)>& refuse) const {
    const auto proper = [](double number) { return number >= 0 && number <= largest_size; };
    const PlanFacts& facts = facts_;
    if (facts.samples < 1 || facts.samples > largest_sample_count ||
        facts.skipped >= facts.samples + 1)
        refuse("its number of samples is off");
    if (facts.tail < SAB_TAIL_KEEP || facts.tail > SAB_TAIL_WRAP || facts.cost < SAB_COST_PADDED ||
        facts.cost > SAB_COST_TERMS || facts.edges < SAB_BUCKETS_AUTO ||
        facts.edges > SAB_BUCKETS_RANK || !proper(facts.length_multiple) || !(facts.total >= 0) ||
        !(facts.budget >= 0) || !(facts.padding_target >= 0) ||
        !(facts.nearest_target >= facts.padding_target) ||
        (facts.cost != SAB_COST_POLYNOMIAL && facts.cost != SAB_COST_TERMS &&
         !coefficients_.empty()))
        refuse("one of its options is off");
    if (facts.cost != SAB_COST_CALLBACK) try {
            Cost(facts.cost, {coefficients_.begin(), coefficients_.end()}, nullptr, nullptr);
        } catch (const Error&) {
            refuse("its cost is off");
        }
    if (level_size_.empty() || level_first_.front() != 0 || level_first_.back() != facts.samples)
        refuse("its sizes are off");
    for (std::size_t i = 0; i < level_size_.size(); ++i)
        if (!proper(level_size_[i]) || level_first_[i] >= level_first_[i + 1] ||
            (i > 0 && level_size_[i - 1] >= level_size_[i]))
            refuse("its sizes are off");
    uint32_t largest = 0;
    for (const uint32_t index : order_) largest = std::max(largest, index);
    if (largest >= facts.samples) refuse("it names a sample that there is not");
    uint64_t batches = 0;
    std::vector<std::pair<uint32_t, uint32_t>> places;
    for (const Bucket& bucket : buckets_) {
        const uint64_t samples = bucket.samples();
        if (bucket.begin > bucket.end || bucket.end > facts.samples || bucket.batch_size < 1)
            refuse("a bucket is off");
        const uint64_t expected =
            facts.tail == SAB_TAIL_DROP
                ? samples / bucket.batch_size
                : samples / bucket.batch_size + (samples % bucket.batch_size != 0);
        if (bucket.batches != expected ||
            (facts.tail == SAB_TAIL_WRAP && bucket.batch_size > std::max<uint64_t>(samples, 1)))
            refuse("a bucket is off");
        batches += expected;
        if (samples == 0) continue;
        if (bucket.level_begin >= bucket.level_end || bucket.level_end > level_size_.size() ||
            level_first_[bucket.level_begin] > bucket.begin ||
            level_first_[bucket.level_begin + 1] <= bucket.begin ||
            level_first_[bucket.level_end] < bucket.end ||
            level_first_[bucket.level_end - 1] >= bucket.end || !(bucket.cost >= 0) ||
            !(bucket.padded_length >= bucket.longest))
            refuse("a bucket is off");
        places.emplace_back(bucket.begin, bucket.end);
    }
    if (batches != facts.batches) refuse("its number of batches is off");
    std::ranges::sort(places);
    for (std::size_t i = 1; i < places.size(); ++i)
        if (places[i].first != places[i - 1].second) refuse("its buckets overlap or leave a gap");
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
