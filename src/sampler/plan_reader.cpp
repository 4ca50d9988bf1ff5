#include <algorithm>

#include "sampler/sequence.h"
#include "sampler/vector_clones.h"

namespace sab {
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

/// Whether all indices are at most `last`. A sum of sign bits: neither a branch nor a maximum,
/// whose latency would be that of the loop.
bool look_up(const uint32_t* order, const uint32_t* places, std::size_t count, int64_t last,
             int64_t* indices) {
    int64_t differences = 0;
    for (std::size_t i = 0; i < count; ++i) {
        const int64_t index = order[places[i]];
        differences |= last - index;
        indices[i] = index;
    }
    return differences >= 0;
}

}  // namespace

double PlanReader::size_at(const Bucket& bucket, uint32_t place) const {
    const auto levels =
        plan_->level_first().subspan(bucket.level_begin, bucket.level_end - bucket.level_begin);
    return plan_->level_size()[bucket.level_begin + level_of(levels, bucket.begin + place)];
}

double PlanReader::total(const Bucket& bucket, std::span<const uint32_t> places) const {
    const std::span<const double> size = plan_->level_size();
    const uint32_t levels = bucket.level_end - bucket.level_begin;
    const auto count = static_cast<double>(places.size());
    if (levels == 1) return count * size[bucket.level_begin];
    constexpr uint32_t few = 8;
    if (plan_->facts().whole_sizes && levels <= few) {
        // Exact in any order: count the places at or above each step of the sizes.
        double total = count * size[bucket.level_begin];
        for (uint32_t level = bucket.level_begin + 1; level < bucket.level_end; ++level) {
            const uint32_t first = plan_->level_first()[level] - bucket.begin;
            total +=
                count_from(places.data(), places.size(), first) * (size[level] - size[level - 1]);
        }
        return total;
    }
    double total = 0;
    for (const uint32_t place : places) total += size_at(bucket, place);
    return total;
}

void PlanReader::read(std::size_t index, std::span<const uint32_t> places, Batch& batch) const {
    const Bucket& bucket = plan_->buckets()[index];
    const auto last = static_cast<int64_t>(plan_->facts().samples) - 1;
    const std::span<int64_t> indices = batch.room(places.size());
    if (!look_up(plan_->order().data() + bucket.begin, places.data(), places.size(), last,
                 indices.data())) [[unlikely]]
        for (const int64_t sample : indices) plan_->check_sample(static_cast<uint32_t>(sample));
    batch.bucket = places.empty() ? -1 : static_cast<int64_t>(index);
    batch.total = total(bucket, places);
    batch.longest = places.empty() ? 0 : size_at(bucket, highest_of(places.data(), places.size()));
    batch.padded_length = places.empty()                  ? 0
                          : plan_->facts().pads_to_bucket ? bucket.padded_length
                                                          : plan_->padded(batch.longest);
}

}  // namespace sab
