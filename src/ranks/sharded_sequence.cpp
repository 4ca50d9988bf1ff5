#include "ranks/sharded_sequence.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "base/error.h"
#include "base/log.h"
#include "base/xxhash.h"

namespace sab {

std::vector<uint64_t> count_samples(const Histograms& histograms) {
    std::vector<uint64_t> counts(histograms.distinct_counts.size());
    uint64_t all = 0;
    for (std::size_t r = 0; r < counts.size(); ++r) {
        const std::span<const Bar> bars = histograms.of(r);
        for (std::size_t i = 0; i < bars.size(); ++i) {
            const Bar& bar = bars[i];
            const bool ascends = i == 0 || bar.size > bars[i - 1].size;
            if (!(bar.size >= 0 && std::isfinite(bar.size) && ascends && bar.count >= 1 &&
                  bar.count <= largest_sample_count))
                fail_about(SAB_E_MISMATCH, "all_gather", no_value, "slot ", r, " holds ", bar.count,
                           " samples of size ", bar.size, ", which no rank gave");
            counts[r] += bar.count;
            all += bar.count;
            check(all <= largest_sample_count, "sizes.count", all,
                  "must be at most 4294967295 over all ranks");
        }
    }
    return counts;
}

void write_bars(const Sorted& shard, std::span<Bar> bars) {
    for (std::size_t i = 0; i < shard.distinct_sizes.size(); ++i)
        bars[i] = {shard.distinct_sizes[i], shard.first_offsets[i + 1] - shard.first_offsets[i]};
}

std::shared_ptr<const Plan> make_shared_plan(const Histograms& histograms,
                                             const PlanOptions& options) {
    Sorted sorted;
    for (const uint64_t count : count_samples(histograms)) sorted.count += count;
    std::map<double, uint64_t> sums;
    for (std::size_t r = 0; r < histograms.distinct_counts.size(); ++r)
        for (const Bar& bar : histograms.of(r)) sums[bar.size] += bar.count;
    sorted.first_offsets.push_back(0);
    for (const auto& [size, samples] : sums) {
        sorted.distinct_sizes.push_back(size);
        sorted.first_offsets.push_back(sorted.first_offsets.back() +
                                       static_cast<uint32_t>(samples));
    }
    PlanOptions of_all = options;
    of_all.has_one_set = true;
    return Plan::make_sorted(std::move(sorted), of_all);
}

ShardedSequence::ShardedSequence(Sorted own, const Histograms& histograms,
                                 const PlanOptions& options, const Ranks& ranks)
    : ranks_(ranks.world_size),
      rank_(ranks.rank),
      own_(std::make_shared<const Sorted>(std::move(own))),
      plan_(make_shared_plan(histograms, options)) {
    divide(histograms);
    steps_ = with_options({});
}

/// Divides the samples of each rank over the buckets. Samples of one size stand in the order of
/// their ranks, so that a bucket may begin inside a size.
void ShardedSequence::divide(const Histograms& histograms) {
    const std::span<const Bucket> buckets = plan_->buckets();
    counts_.assign(buckets.size() * ranks_, 0);
    begin_.assign(buckets.size() * ranks_, 0);
    // samples of the size on lower ranks
    std::vector<uint64_t> before(plan_->distinct_sizes().size());
    for (std::size_t r = 0; r < ranks_; ++r) {
        uint64_t own = 0;  // samples of the rank that stand before
        std::size_t bucket = 0, distinct = 0;
        for (const Bar& bar : histograms.of(r)) {
            while (plan_->distinct_sizes()[distinct] != bar.size) ++distinct;
            const uint64_t begin = plan_->first_offsets()[distinct] + before[distinct];
            before[distinct] += bar.count;
            divide_size(r, own, begin, begin + bar.count, bucket);
            own += bar.count;
        }
    }
    last_step_.resize(buckets.size());
    first_kept_.assign(ranks_, 0);
    for (std::size_t r = 0; r < ranks_; ++r)
        for (std::size_t b = buckets.size(); b-- > 0;)
            if (counts_[b * ranks_ + r] > 0) first_kept_[r] = begin_[b * ranks_ + r];
    for (std::size_t b = buckets.size(); b-- > 0;) last_step_[b] = steps_of(b);
    std::partial_sum(last_step_.begin(), last_step_.end(), last_step_.begin());
    if (plan_->fewest() > 1) leave_out();
}

/// Of a bucket. If a rank has fewer samples there than the fewest of all these batches, it takes
/// its longest ones of shorter buckets, too; if it has none, there are fewer steps.
uint64_t ShardedSequence::steps_of(std::size_t bucket) {
    const std::span counts = std::span(counts_).subspan(bucket * ranks_, ranks_);
    const uint64_t size = plan_->buckets()[bucket].batch_size, fewest = plan_->fewest();
    uint64_t steps = (std::ranges::max(counts) + size - 1) / size;
    if (fewest == 1) return steps;
    const uint64_t needed = steps * fewest;
    for (std::size_t r = 0; r < ranks_; ++r) {
        for (std::size_t shorter = bucket; counts[r] < needed && shorter-- > 0;) {
            uint64_t& others = counts_[shorter * ranks_ + r];
            const uint64_t moved = std::min(others, needed - counts[r]);
            others -= moved;
            counts[r] += moved;
        }
        steps = std::min(steps, counts[r] / fewest);
    }
    return steps;
}

/// Where the samples of a rank begin in each bucket, and how many of them no step has room for.
void ShardedSequence::leave_out() {
    if (batches() == 0)
        refuse_argument("plan.min_batch_size", plan_->fewest(),
                        "some rank has fewer samples in its shard");
    uint64_t left_out = 0;
    for (std::size_t r = 0; r < ranks_; ++r) {
        uint32_t begin = first_kept_[r];
        for (std::size_t b = 0; b < plan_->buckets().size(); ++b) {
            const std::size_t at = b * ranks_ + r;
            begin_[at] = begin;
            begin += static_cast<uint32_t>(counts_[at]);
            left_out += counts_[at] - used(b, r);
        }
    }
    if (left_out > 0)
        log(SAB_LOG_WARNING, "each epoch leaves out ", left_out,
            " samples of all ranks: not every rank has samples for a batch of ", plan_->fewest(),
            ", the plan's min_batch_size");
}

uint64_t ShardedSequence::used(std::size_t bucket, std::size_t rank) const {
    const uint64_t steps = last_step_[bucket] - (bucket == 0 ? 0 : last_step_[bucket - 1]);
    return std::min(counts_[bucket * ranks_ + rank], steps * plan_->buckets()[bucket].batch_size);
}

/// Samples of a rank which have one size: places [begin, end) of the plan, and of the shard's order
/// from `first` on. `bucket`: the first that may have some, of any later size, too.
void ShardedSequence::divide_size(std::size_t rank, uint64_t first, uint64_t begin, uint64_t end,
                                  std::size_t& bucket) {
    const std::span<const Bucket> buckets = plan_->buckets();
    while (bucket < buckets.size() && buckets[bucket].end <= begin) ++bucket;
    for (std::size_t b = bucket; b < buckets.size() && buckets[b].begin < end; ++b) {
        const uint64_t from = std::max<uint64_t>(begin, buckets[b].begin),
                       to = std::min<uint64_t>(end, buckets[b].end);
        if (from >= to) continue;
        uint64_t& samples = counts_[b * ranks_ + rank];
        if (samples == 0) begin_[b * ranks_ + rank] = static_cast<uint32_t>(first + (from - begin));
        samples += to - from;
        if (rank != rank_) continue;
        if (kept_end_ == 0) kept_begin_ = static_cast<uint32_t>(first + (from - begin));
        kept_end_ = static_cast<uint32_t>(first + (to - begin));
    }
}

Made ShardedSequence::made(std::span<const Bar> bars) const {
    return {XXH3_64bits_withSeed(bars.data(), bars.size_bytes(), plan_->fingerprint()) | 1,
            own_shard().order == nullptr
                ? 0
                : XXH3_64bits(own_shard().order.get(), own_shard().count * sizeof(uint32_t))};
}

std::size_t ShardedSequence::skipped(std::span<int64_t> room) const {
    // The kept samples are one range of the sorted shard.
    const std::span<const uint32_t> order(own_shard().order.get(), own_shard().count);
    std::vector<int64_t> indices(order.begin(), order.begin() + kept_begin_);
    indices.insert(indices.end(), order.begin() + kept_end_, order.end());
    for (std::size_t b = 0; b < plan_->buckets().size(); ++b) {  // of this epoch
        const uint64_t first = used(b, rank_), count = counts_[b * ranks_ + rank_] - first;
        for (const uint32_t offset : offsets_of(b, first, count)) indices.push_back(order[offset]);
    }
    return copy_indices<int64_t>(indices, room);
}

uint64_t ShardedSequence::samples_of_ranks(uint64_t position) const {
    const Piece piece = find(position);
    uint64_t sum = 0;
    for (std::size_t r = 0; r < ranks_; ++r) sum += samples_of(piece, r);
    return sum;
}

double ShardedSequence::cost(uint64_t position) const {
    const Bucket& bucket = plan_->buckets()[find(position).bucket];
    return bucket.cost * static_cast<double>(samples(position)) /
           static_cast<double>(bucket.batch_size);
}

PerColumn ShardedSequence::total(uint64_t position) const {
    const Piece piece = find(position);
    double sum = 0;
    for (const uint32_t offset : offsets(piece, 0, samples_of(piece, rank_)))
        sum += own_shard().distinct_sizes[distinct_of(own_shard().first_offsets, offset)];
    return {sum};
}

BatchSums ShardedSequence::sums() const {
    BatchSums sums;
    for (std::size_t b = 0; b < plan_->buckets().size(); ++b)
        for (std::size_t r = 0; r < ranks_; ++r) sums.add(share(b, used(b, r)));
    return sums;
}

BatchSums ShardedSequence::sums_at(uint64_t position) const {
    if (ranks_ == 1) return Sequence::sums_at(position);
    return share(find(position).bucket, samples_of_ranks(position));
}

/// Samples of a bucket, of all ranks, as a mean of the ranks.
BatchSums ShardedSequence::share(std::size_t bucket, uint64_t samples) const {
    const auto planned = static_cast<double>(plan_->buckets()[bucket].samples());
    BatchSums sums;
    if (samples > 0)
        sums.add({planned, {plan_->lengths(bucket).total[0]}},
                 static_cast<double>(samples) / planned / static_cast<double>(ranks_));
    return sums;
}

void ShardedSequence::fill(uint64_t position, uint64_t first, uint64_t count, Batch& batch) const {
    const Piece piece = find(position);
    const std::span<const uint32_t> places = offsets(piece, first, count);
    batch.fill(count, [&](uint64_t i) {
        return Sample{
            own_shard().order[places[i]],
            own_shard().distinct_sizes[distinct_of(own_shard().first_offsets, places[i])]};
    });
    if (count == 0) return;
    batch.bucket = static_cast<int64_t>(piece.bucket);
    if (plan_->has_few_shapes())
        pad_to(*plan_, piece.bucket, batch);
    else
        batch.padded_length[0] = plan_->padded(batch.longest[0]);
}

ShardedSequence::Steps ShardedSequence::with_options(const EpochOptions& epoch_options) const {
    return {epoch_options,
            Permutation(batches(), permutation_key(epoch_options.seed, epoch_options.epoch,
                                                   Purpose::steps, 0))};
}

ShardedSequence::Piece ShardedSequence::find(uint64_t position) const {
    const uint64_t id = steps_.order(position);
    const auto next = std::ranges::upper_bound(last_step_, id);
    const uint64_t first = next == last_step_.begin() ? 0 : *std::prev(next);
    return {static_cast<std::size_t>(next - last_step_.begin()), id - first, *next - first};
}

uint64_t ShardedSequence::samples_of(const Piece& piece, std::size_t rank) const {
    const uint64_t all = used(piece.bucket, rank);
    return piece.boundary(piece.step + 1, all) - piece.boundary(piece.step, all);
}

/// Places in the sorted order of a shard.
std::span<const uint32_t> ShardedSequence::offsets(const Piece& piece, uint64_t first,
                                                   uint64_t count) const {
    return offsets_of(piece.bucket, piece.boundary(piece.step, used(piece.bucket, rank_)) + first,
                      count);
}

/// The same of the permuted samples of a bucket from one on.
std::span<const uint32_t> ShardedSequence::offsets_of(std::size_t bucket, uint64_t first,
                                                      uint64_t count) const {
    offsets_.resize(count);
    if (count == 0) return offsets_;
    const Permutation permutation(
        counts_[bucket * ranks_ + rank_],
        permutation_key(steps_.epoch_options.seed, steps_.epoch_options.epoch, Purpose::samples,
                        bucket));
    permutation.fill(first, offsets_);
    for (uint32_t& offset : offsets_) offset += begin_[bucket * ranks_ + rank_];
    return offsets_;
}

}  // namespace sab
