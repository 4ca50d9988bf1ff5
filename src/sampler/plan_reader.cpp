#include <algorithm>

#include "sampler/sequence.h"
#include "sampler/vector_clones.h"

namespace sab {
namespace {

SAB_VECTOR_CLONES uint32_t highest_of(const uint32_t* offsets, std::size_t count) {
    uint32_t highest = 0;
    for (std::size_t i = 0; i < count; ++i) highest = std::max(highest, offsets[i]);
    return highest;
}

SAB_VECTOR_CLONES uint32_t count_from(const uint32_t* offsets, std::size_t count, uint32_t first) {
    uint32_t from = 0;
    for (std::size_t i = 0; i < count; ++i) from += offsets[i] >= first;
    return from;
}

/// Whether all indices are at most `last`. A sum of sign bits: neither a branch nor a maximum,
/// whose latency would be that of the loop.
bool look_up(const uint32_t* order, const uint32_t* offsets, std::size_t count, int64_t last,
             int64_t* indices) {
    int64_t differences = 0;
    for (std::size_t i = 0; i < count; ++i) {
        const int64_t index = order[offsets[i]];
        differences |= last - index;
        indices[i] = index;
    }
    return differences >= 0;
}

}  // namespace

double PlanReader::size_at(const Bucket& bucket, uint32_t offset) const {
    const auto distinct_count = plan_->first_offsets().subspan(
        bucket.distinct_begin, bucket.distinct_end - bucket.distinct_begin);
    return plan_->distinct_sizes()[bucket.distinct_begin +
                                   distinct_of(distinct_count, bucket.begin + offset)];
}

double PlanReader::total(const Bucket& bucket, std::span<const uint32_t> offsets) const {
    const std::span<const double> size = plan_->distinct_sizes();
    const uint32_t distinct_count = bucket.distinct_end - bucket.distinct_begin;
    const auto count = static_cast<double>(offsets.size());
    if (distinct_count == 1) return count * size[bucket.distinct_begin];
    constexpr uint32_t few = 8;
    if (plan_->facts().whole_sizes && distinct_count <= few) {
        // Exact in any order: counts the samples of at least each distinct size.
        double total = count * size[bucket.distinct_begin];
        for (uint32_t distinct = bucket.distinct_begin + 1; distinct < bucket.distinct_end;
             ++distinct) {
            const uint32_t first = plan_->first_offsets()[distinct] - bucket.begin;
            total += count_from(offsets.data(), offsets.size(), first) *
                     (size[distinct] - size[distinct - 1]);
        }
        return total;
    }
    double total = 0;
    for (const uint32_t offset : offsets) total += size_at(bucket, offset);
    return total;
}

void PlanReader::read(std::size_t index, std::span<const uint32_t> offsets, Batch& batch) const {
    const Bucket& bucket = plan_->buckets()[index];
    const auto last = static_cast<int64_t>(plan_->facts().samples) - 1;
    const std::span<int64_t> indices = batch.room(offsets.size());
    if (!look_up(plan_->order().data() + bucket.begin, offsets.data(), offsets.size(), last,
                 indices.data())) [[unlikely]]
        for (const int64_t sample : indices) plan_->check_sample(static_cast<uint32_t>(sample));
    batch.bucket = offsets.empty() ? -1 : static_cast<int64_t>(index);
    batch.total = total(bucket, offsets);
    batch.longest =
        offsets.empty() ? 0 : size_at(bucket, highest_of(offsets.data(), offsets.size()));
    batch.padded_length = offsets.empty()                 ? 0
                          : plan_->facts().pads_to_bucket ? bucket.padded_length
                                                          : plan_->padded(batch.longest);
}

}  // namespace sab
