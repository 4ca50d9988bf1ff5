#include "engine/bucket_locator.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "sampler/bucket_classes.h"
#include "sampler/cursor.h"

namespace sab {
namespace {

std::unique_ptr<Sequence> sequence_of(const std::shared_ptr<const Plan>& plan,
                                      const Cost* balance) {
    constexpr std::string_view caller = "sab_histogram_plan_locate";
    if (!plan->is_counted() && plan->columns() > 1)
        fail(SAB_E_UNSUPPORTED, caller, ": the plan has ", plan->columns(),
             " columns and sample indices: must be made from a histogram");
    if (plan->facts().has_ids != 0)
        fail(SAB_E_UNSUPPORTED, caller, ": ids separate the samples of the plan");
    return make_bucket_sequence(plan, balance);
}

}  // namespace

BucketLocator::BucketLocator(const std::shared_ptr<const Plan>& plan, const SamplerOptions& options)
    : BucketLocator(plan, options, read_balance(options, plan->names())) {}

BucketLocator::BucketLocator(const std::shared_ptr<const Plan>& plan, const SamplerOptions& options,
                             const std::optional<Cost>& balance)
    : BucketLocator(
          plan, options, balance ? &*balance : nullptr,
          filling_steps(*plan, bucket_classes(*plan, balance ? &*balance : nullptr),
                        options.last_step == SAB_LAST_STEP_SPLIT ? options.world_size : 1)) {}

BucketLocator::BucketLocator(std::shared_ptr<const Plan> plan, const SamplerOptions& options,
                             const Cost* balance, const std::vector<BucketClass>& classes)
    : Locator(sequence_of(plan, balance), cost_order(*plan, classes), options, "plan"),
      plan_(std::move(plan)),
      exchange_(*plan_) {
    for (std::size_t k = 0; k < exchange_.classes(); ++k)
        classes_.push_back(exchange_.permutation(k, order_.epoch_options()));
    std::vector<uint64_t> members(classes_.size());  // so far
    for (const SharedRun& run : plan_->shared_runs()) {
        run_begins_.push_back(run.begin);
        const uint64_t count = run.end - run.begin;
        runs_.push_back({run.begin, run.end,
                         std::exchange(members[run.size_class], members[run.size_class] + count),
                         run.size_class});
    }
    std::vector<BucketOrder> all(plan_->buckets().size());
    for (std::size_t b = 0; b < all.size(); ++b) {
        const Bucket& bucket = plan_->buckets()[b];
        all[b].begin = bucket.begin;
        all[b].end = bucket.end;
        all[b].batch_size = bucket.batch_size;
        if (bucket.samples() > 0)
            all[b].permutation = Permutation(bucket.samples(), order_.samples_key(b));
        all[b].is_of_one_class = exchange_.is_of_one_class(bucket, b);
    }
    const std::vector<CostOrder::ClassIds> ids = order_.class_ids();
    for (std::size_t k = 0; k < classes.size(); ++k) {
        BucketOrder& bucket = all[classes[k].bucket];
        const uint64_t samples = classes[k].batches.samples * classes[k].batches.batches;
        bucket.all = std::max(bucket.all, classes[k].first + samples);
        // the class of full batches; tails and pieces are alone in theirs, and have fewer samples
        if (classes[k].batches.samples == bucket.batch_size) {
            bucket.full = samples;
            bucket.full_ids = ids[k];
        } else {
            bucket.others.emplace_back(classes[k].first, ids[k].of(0));
        }
    }
    for (BucketOrder& bucket : all) std::ranges::sort(bucket.others);
    if (!plan_->run_places().empty()) {
        first_runs_.resize(plan_->distinct_sizes(0).size() + 1);
        for (std::size_t run = 0; run < plan_->run_places().size(); ++run)
            ++first_runs_[plan_->codes()[run * plan_->columns()] + 1];
        std::partial_sum(first_runs_.begin(), first_runs_.end(), first_runs_.begin());
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

Locator::Found BucketLocator::find(uint64_t, const double* sizes, uint64_t number) const {
    const std::size_t columns = plan_->columns();
    const std::span<const uint64_t> first_places = plan_->first_places();
    if (columns == 1)
        return plan_->is_counted()
                   ? find_by_size(*sizes, number, plan_->distinct_sizes(), first_places)
                   : find_by_size(*sizes, number, plan_->distinct_sizes(), plan_->first_offsets());
    // the runs [begin, end) with the sizes of one column after the other
    std::size_t begin = 0, end = 0;
    for (std::size_t j = 0; j < columns; ++j) {
        const std::span<const double> distinct = plan_->distinct_sizes(j);
        const std::size_t code = last_at_most(distinct, sizes[j]);
        if (distinct[code] != sizes[j]) return {0};
        const uint32_t* const codes = plan_->codes().data() + j;
        const auto first_from = [&](std::size_t first, std::size_t least) {
            for (std::size_t left = end - first; left > 0;) {  // without branches
                const std::size_t half = left / 2;
                const bool is_below = codes[(first + half) * columns] < least;
                first = is_below ? first + half + 1 : first;
                left = is_below ? left - half - 1 : half;
            }
            return first;
        };
        begin = j == 0 ? first_runs_[code] : first_from(begin, code);
        end = j == 0 ? first_runs_[code + 1] : first_from(begin, code + 1);
    }
    if (begin == end) return {0};
    const uint64_t first = first_places[begin];
    const std::size_t run =
        begin + last_at_most(first_places.subspan(begin, end - begin), first + number);
    const uint64_t place = plan_->run_places()[run] + (first + number - first_places[run]);
    return {first_places[end] - first, place};
}

void BucketLocator::exchange(std::span<uint64_t> places) const {
    if (runs_.empty()) return;
    std::size_t runs[block], which[block], count = 0;
    last_at_most(run_begins_, places, runs);
    for (std::size_t i = 0; i < places.size(); ++i) prefetch(runs_[runs[i]]);
    const Permutation* permutations[block];
    uint64_t members[block];
    for (std::size_t i = 0; i < places.size(); ++i) {
        const Run& run = runs_[runs[i]];
        if (places[i] < run.begin || places[i] >= run.end) continue;
        members[count] = run.first + (places[i] - run.begin);
        permutations[count] = &classes_[run.size_class];
        prefetch(*permutations[count]);
        which[count++] = i;
    }
    Permutation::invert({permutations, count}, {members, count});
    for (std::size_t k = 0; k < count; ++k)
        places[which[k]] = exchange_.place(runs_[runs[which[k]]].size_class, members[k]);
}

/// In several passes, so that a sample does not wait for the memory and the permutations of the one
/// before.
void BucketLocator::find_batches(std::span<const uint64_t> given, Appearances* found) const {
    uint64_t room[block];
    std::ranges::copy(given, room);
    const std::span<uint64_t> places(room, given.size());
    exchange(places);
    const BucketOrder* buckets[block];
    for (std::size_t i = 0; i < places.size(); ++i) {
        buckets[i] = &buckets_[last_at_most<uint64_t>(begins_, places[i])];
        prefetch(*buckets[i]);
    }
    const Permutation* permutations[block];
    uint64_t offsets[block];
    std::size_t which[block], count = 0;
    for (std::size_t i = 0; i < places.size(); ++i) {
        const BucketOrder& bucket = *buckets[i];
        if (places[i] < bucket.begin || places[i] >= bucket.end) {
            buckets[i] = nullptr;
            continue;
        }
        places[i] -= bucket.begin;
        if (bucket.is_of_one_class) continue;  // it has no permutation of its own
        permutations[count] = &bucket.permutation;
        offsets[count] = places[i];
        which[count++] = i;
    }
    Permutation::invert({permutations, count}, {offsets, count});
    for (std::size_t k = 0; k < count; ++k) places[which[k]] = offsets[k];
    for (std::size_t i = 0; i < places.size(); ++i) {
        found[i].count = 0;
        if (buckets[i] != nullptr) find_batches(*buckets[i], places[i], found[i]);
    }
}

/// None for a sample that is left out, two for one that SAB_TAIL_WRAP repeats.
void BucketLocator::find_batches(const BucketOrder& bucket, uint64_t offset, Appearances& found) {
    for (; offset < bucket.all; offset += bucket.samples()) {
        const uint32_t k = found.count++;
        if (offset >= bucket.full) {
            const auto& [first, id] =
                *std::prev(std::ranges::upper_bound(bucket.others, offset, {}, &First::first));
            found.position[k] = id;
            found.slot[k] = offset - first;
        } else {
            const uint64_t batch = offset / bucket.batch_size;
            found.position[k] = bucket.full_ids.of(batch);
            found.slot[k] = offset - batch * bucket.batch_size;
        }
    }
}

}  // namespace sab
