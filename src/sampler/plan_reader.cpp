#include <algorithm>

#include "base/files.h"
#include "sampler/sequence.h"
#include "sampler/vector_clones.h"

namespace sab {

BatchSums sums_of(const Plan& plan) {
    BatchSums sums;
    for (std::size_t b = 0; b < plan.bucket_count(); ++b) {
        const Bucket& bucket = plan.buckets()[b];
        if (bucket.batches == 0) continue;
        const auto planned = static_cast<double>(bucket.samples());
        const double samples = plan.facts().tail == SAB_TAIL_KEEP
                                   ? planned
                                   : static_cast<double>(bucket.batches * bucket.batch_size);
        BatchSums of_bucket{planned, {}};
        std::ranges::copy(plan.lengths(b).total, of_bucket.total.begin());
        sums.add(of_bucket, samples / planned);
    }
    return sums;
}

void pad_to(const Plan& plan, std::size_t bucket, Batch& batch) {
    std::ranges::copy(plan.lengths(bucket).padded_length, batch.padded_length.begin());
}

namespace {

SAB_VECTOR_CLONES uint32_t highest_of(const uint32_t* places, std::size_t count) {
    uint32_t highest = 0;
    for (std::size_t i = 0; i < count; ++i) highest = std::max(highest, places[i]);
    return highest;
}

SAB_VECTOR_CLONES uint32_t count_from(const uint32_t* places, std::size_t count, uint32_t first) {
    uint32_t from = 0;
    for (std::size_t i = 0; i < count; ++i) from += places[i] >= first;
    return from;
}

/// From this many samples on, an order is larger than most caches. Reads of a smaller one would
/// become slower by prefetching.
constexpr std::size_t prefetch_from = std::size_t{1} << 22;
constexpr std::size_t prefetch_distance = 256;
/// A bucket with more distinct sizes is searched, which needs few of them.
constexpr std::size_t most_expected = std::size_t{1} << 16;

/// Reads the indices at the places. Returns whether all are at most `last`.
bool look_up(const uint32_t* order, std::span<const uint32_t> places, int64_t last, bool prefetches,
             int64_t* indices) {
    // A sum of sign bits: neither a branch nor a maximum, whose latency would be that of the loop.
    int64_t differences = 0;
    const auto read = [&](std::size_t i) {
        const int64_t index = order[places[i]];
        differences |= last - index;
        indices[i] = index;
    };
    const std::size_t count = places.size();
    std::size_t i = 0;
    if (prefetches) {
        const std::size_t distance = std::min(prefetch_distance, count);
        for (const uint32_t place : places.first(distance)) __builtin_prefetch(order + place);
        for (; i + distance < count; ++i) {
            __builtin_prefetch(order + places[i + distance]);
            read(i);
        }
    }
    for (; i < count; ++i) read(i);
    return differences >= 0;
}

}  // namespace

double PlanReader::size_at(const Bucket& bucket, uint32_t place) const {
    const std::span<const uint32_t> first = plan_->first_offsets();
    const std::size_t distinct =
        bucket.distinct_begin +
        distinct_of(
            first.subspan(bucket.distinct_begin, bucket.distinct_end - bucket.distinct_begin),
            place);
    if (plan_->is_mapped()) {  // the search may have read damaged pages, but found the right size
        plan_->verify(first.subspan(distinct, 2));
        plan_->verify(plan_->distinct_sizes().subspan(distinct, 1));
        plan_->check_size(first[distinct] <= place && place < first[distinct + 1]);
    }
    return plan_->distinct_sizes()[distinct];
}

/// Of plans whose order is by size. `range`: of the bucket.
double PlanReader::total_of_one(const Bucket& bucket, const SizeRange& range,
                                std::span<const uint32_t> places) const {
    if (places.empty()) return 0;
    const std::span<const double> sizes = plan_->distinct_sizes();
    const uint32_t distinct_count = bucket.distinct_end - bucket.distinct_begin;
    constexpr uint32_t few = 32;
    bool is_sound = true;
    double total = 0;
    if (distinct_count == 1 || (plan_->facts().whole_sizes && distinct_count <= few)) {
        // Exact in any order: counts the samples of at least each distinct size.
        plan_->verify(sizes.subspan(bucket.distinct_begin, distinct_count));
        plan_->verify(plan_->first_offsets().subspan(bucket.distinct_begin, distinct_count));
        double size = sizes[bucket.distinct_begin];
        uint32_t before = 0;
        is_sound = range.has(size);
        total = static_cast<double>(places.size()) * size;
        for (uint32_t distinct = bucket.distinct_begin + 1; distinct < bucket.distinct_end;
             ++distinct) {
            const uint32_t first = plan_->first_offsets()[distinct];
            const double next = sizes[distinct];
            is_sound = is_sound && first > before && first < plan_->order().size() && next > size &&
                       range.has(next);
            total += count_from(places.data(), places.size(), first) * (next - size);
            before = first;
            size = next;
        }
    } else {
        for (const uint32_t place : places) {
            const double size = size_at(bucket, place);
            is_sound &= range.has(size);
            total += size;
        }
    }
    plan_->check_size(is_sound);
    return total;
}

/// Of a mapped plan: throws if its file is damaged where it has the sizes of these samples.
[[gnu::noinline]] void PlanReader::verify_codes(std::span<const uint32_t> places) const {
    const std::size_t columns = plan_->columns();
    for (const uint32_t place : places) {
        const auto codes = plan_->codes().subspan(std::size_t{place} * columns, columns);
        plan_->verify(codes);
        for (std::size_t j = 0; j < columns; ++j) {
            const uint32_t code = codes[j];  // read once: the file might change
            const std::span<const double> sizes = plan_->distinct_sizes(j);
            if (code < sizes.size()) plan_->verify(sizes.subspan(code, 1));
        }
    }
}

/// Of plans whose sizes are codes.
void PlanReader::measure(std::size_t index, std::span<const uint32_t> places, PerColumn& longest,
                         PerColumn& total) const {
    const std::size_t columns = plan_->columns();
    longest = total = {};
    if (plan_->is_mapped()) verify_codes(places);
    bool is_sound = true;
    for (std::size_t j = 0; j < columns; ++j) {
        const uint32_t* const codes = plan_->codes().data() + j;
        const std::span<const double> sizes = plan_->distinct_sizes(j);
        const SizeRange range = plan_->size_range(index, j);
        double most = 0, sum = 0;
        for (const uint32_t place : places) {
            const double size = decoded(codes[place * columns], sizes);
            is_sound &= range.has(size);
            most = std::max(most, size);
            sum += size;
        }
        total[j] = sum;
        longest[j] = most;
    }
    plan_->check_size(is_sound);
}

/// Starts to read the first batch of a mapped plan, of all of its samples at once. Without this it
/// would wait for the disk at most of its samples, each time with many pages around one that it
/// needs. These pages make later batches quicker, so only the first batch is read like this.
[[gnu::cold]] void PlanReader::expect(const Bucket& bucket,
                                      std::span<const uint32_t> places) const {
    is_first_ = false;
    const std::size_t columns = plan_->columns();
    const std::size_t distinct_count = bucket.distinct_end - bucket.distinct_begin;
    if (distinct_count <= most_expected) {
        const auto expect = [&](auto all) {
            read_ahead(std::as_bytes(all.subspan(bucket.distinct_begin, distinct_count)));
        };
        expect(plan_->distinct_sizes());
        if (!plan_->is_coded()) expect(plan_->first_offsets());
    }
    for (const uint32_t place : places) {
        read_ahead(std::as_bytes(plan_->order().subspan(place, 1)));
        if (plan_->is_coded())
            read_ahead(
                std::as_bytes(plan_->codes().subspan(std::size_t{place} * columns, columns)));
    }
}

/// Of a mapped plan: throws if its file is damaged where it has these samples.
[[gnu::noinline]] void PlanReader::verify_order(const Bucket& bucket,
                                                std::span<const uint32_t> places) const {
    if (is_first_) expect(bucket, places);
    for (const uint32_t place : places) plan_->verify(plan_->order().subspan(place, 1));
}

PerColumn PlanReader::total(std::size_t index, std::span<const uint32_t> places) const {
    const Bucket& bucket = plan_->buckets()[index];
    if (!plan_->is_coded()) return {total_of_one(bucket, plan_->size_range(index), places)};
    PerColumn longest, total;
    measure(index, places, longest, total);
    return total;
}

void PlanReader::read(std::size_t index, std::span<const uint32_t> places, Batch& batch) const {
    const Bucket& bucket = plan_->buckets()[index];
    const auto last = static_cast<int64_t>(plan_->facts().samples) - 1;
    const std::span<int64_t> indices = batch.room(places.size());
    const std::span<const uint32_t> order = plan_->order();
    if (plan_->is_mapped()) verify_order(bucket, places);
    if (!look_up(order.data(), places, last, order.size() >= prefetch_from, indices.data()))
        [[unlikely]]
        for (const int64_t sample : indices) plan_->check_sample(static_cast<uint32_t>(sample));
    batch.bucket = places.empty() ? -1 : static_cast<int64_t>(plan_->first_number() + index);
    batch.id = bucket.id;
    batch.columns = plan_->columns();
    if (plan_->is_coded()) {
        measure(index, places, batch.longest, batch.total);
    } else {
        const SizeRange range = plan_->size_range(index);
        batch.total[0] = total_of_one(bucket, range, places);
        batch.longest[0] =
            places.empty() ? 0 : size_at(bucket, highest_of(places.data(), places.size()));
        plan_->check_size(places.empty() || range.has(batch.longest[0]));
    }
    if (plan_->has_few_shapes() && !places.empty()) return pad_to(*plan_, index, batch);
    for (std::size_t j = 0; j < batch.columns; ++j)
        batch.padded_length[j] = places.empty() ? 0 : plan_->padded(batch.longest[j], j);
}

}  // namespace sab
