#include "engine/bucket_locator.h"

#include <algorithm>

#include "sampler/bucket_classes.h"
#include "sampler/cursor.h"

namespace sab {
namespace {

std::unique_ptr<Sequence> sequence_of(const std::shared_ptr<const Plan>& plan) {
    plan->need_one_column("sab_plan_locate");
    return make_bucket_sequence(plan);
}

}  // namespace

BucketLocator::BucketLocator(std::shared_ptr<const Plan> plan, const sab_sampler_options& options)
    : Locator(sequence_of(plan), cost_order(bucket_classes(*plan)), options, "plan"),
      plan_(std::move(plan)) {
    std::vector<BucketOrder> all(plan_->buckets().size());
    for (std::size_t b = 0; b < all.size(); ++b) {
        const Bucket& bucket = plan_->buckets()[b];
        all[b].begin = bucket.begin;
        all[b].end = bucket.end;
        all[b].batch_size = bucket.batch_size;
        if (bucket.samples() > 0)
            all[b].permutation = Permutation(bucket.samples(), order_.samples_key(b));
    }
    const std::vector<BucketClass> classes = bucket_classes(*plan_);
    const std::vector<CostOrder::ClassIds> ids = order_.class_ids();
    for (std::size_t k = 0; k < classes.size(); ++k) {
        BucketOrder& bucket = all[classes[k].bucket];
        const uint64_t samples = classes[k].batches.samples * classes[k].batches.batches;
        bucket.all = std::max(bucket.all, classes[k].first + samples);
        // the class of full batches; a tail is alone in its class, and has fewer samples
        if (classes[k].batches.samples == bucket.batch_size) {
            bucket.full = samples;
            bucket.full_ids = ids[k];
        } else {
            bucket.tail_id = ids[k].of(0);
        }
    }
    std::vector<std::size_t> sorted;  // the buckets with samples
    for (std::size_t b = 0; b < all.size(); ++b)
        if (all[b].samples() > 0) sorted.push_back(b);
    std::ranges::sort(sorted, {}, [&](std::size_t b) { return all[b].begin; });
    for (const std::size_t b : sorted) {
        begins_.push_back(all[b].begin);
        buckets_.push_back(all[b]);
    }
}

/// In several passes, so that a sample does not wait for the memory and the permutations of the one
/// before.
void BucketLocator::find_batches(std::span<const uint64_t> places, Appearances* found) const {
    const BucketOrder* buckets[block];
    const Permutation* permutations[block];
    uint64_t offsets[block];
    for (std::size_t i = 0; i < places.size(); ++i) {
        buckets[i] = &buckets_[last_at_most<uint64_t>(begins_, places[i])];
        for (std::size_t byte = 0; byte < sizeof(BucketOrder); byte += 64)
            __builtin_prefetch(reinterpret_cast<const char*>(buckets[i]) + byte);
    }
    for (std::size_t i = 0; i < places.size(); ++i) {
        const BucketOrder& bucket = *buckets[i];
        const bool is_in_bucket = places[i] >= bucket.begin && places[i] < bucket.end;
        permutations[i] = &bucket.permutation;
        offsets[i] = is_in_bucket ? places[i] - bucket.begin : 0;
        if (!is_in_bucket) buckets[i] = nullptr;
    }
    Permutation::invert({permutations, places.size()}, {offsets, places.size()});
    for (std::size_t i = 0; i < places.size(); ++i) {
        found[i].count = 0;
        if (buckets[i] != nullptr) find_batches(*buckets[i], offsets[i], found[i]);
    }
}

/// None for a sample that is left out, two for one that SAB_TAIL_WRAP repeats.
void BucketLocator::find_batches(const BucketOrder& bucket, uint64_t offset, Appearances& found) {
    for (; offset < bucket.all; offset += bucket.samples()) {
        const uint32_t k = found.count++;
        if (offset >= bucket.full) {
            found.position[k] = bucket.tail_id;
            found.slot[k] = offset - bucket.full;
        } else {
            const uint64_t batch = offset / bucket.batch_size;
            found.position[k] = bucket.full_ids.of(batch);
            found.slot[k] = offset - batch * bucket.batch_size;
        }
    }
}

}  // namespace sab
