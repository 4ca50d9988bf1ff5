/// Samples that are spread over the ranks: one plan from their histograms, and as many steps for
/// every shard.
#include <algorithm>
#include <cmath>
#include <exception>
#include <map>

#include "base/guard.h"
#include "base/hasher.h"
#include "base/xxhash.h"
#include "ranks/ranks.h"
#include "sampler/cursor.h"
#include "sampler/permutation.h"
#include "sampler/state.h"

namespace sab {
namespace {

/// What each rank tells of its shard before all else.
struct Shard {
    int64_t status;
    uint64_t distinct_count;
    uint64_t options;  ///< hash
};

struct Bar {
    double size;
    uint64_t count;
};

/// What each rank made of the bars of all.
struct Made {
    uint64_t plan;   ///< 0: it could not be made
    uint64_t order;  ///< hash of the shard's samples by size
};

/// Of all that says what the plan is, but for callbacks.
uint64_t hash_of(const sab_plan_options& options, const EpochOptions& epoch_options,
                 uint64_t micro_batches, const Ranks& ranks) {
    Hasher hash;
    const auto add = [&](const auto& value) { hash.add(value); };
    const auto add_all = [&](const auto* values, std::size_t count) {
        add(uint64_t{count});
        if (values != nullptr) hash.add_all(std::span(values, count));
    };
    add(uint64_t{order_version});
    add(ranks.world_size);
    add(epoch_options.seed);
    add(epoch_options.epoch);
    add(micro_batches);
    for (const int32_t value : {options.bucket_rule, options.tail, options.oversize}) add(value);
    for (const double value : {options.padding_target, options.length_multiple}) add(value);
    for (const uint64_t value :
         {uint64_t{options.bucket_count}, options.bucket_batches, options.max_batch_size,
          options.batch_size_multiple, uint64_t{options.max_shapes}})
        add(value);
    add_all(options.boundaries, options.boundary_count);
    add_all(options.batch_sizes, options.batch_size_count);
    add(uint64_t{options.budget_count});
    const std::size_t budgets = std::min<std::size_t>(options.budget_count, SAB_MAX_BUDGETS);
    for (std::size_t i = 0; options.budgets != nullptr && i < budgets; ++i) {
        const auto& [cost, limit] = options.budgets[i];
        add(limit);
        add(uint64_t{cost != nullptr});
        if (cost != nullptr) hash.add_all(cost->impl.terms());
    }
    return hash.digest();
}

[[noreturn]] void fail_as(std::size_t rank, int64_t status, sab_status with) {
    const char* const name = sab_status_name(static_cast<sab_status>(status));
    fail(with, "sizes: rank ", rank, " failed with ", name, "; see the error on that rank");
}

/// Checks what the ranks tell of their shards; gives the most distinct sizes of one.
uint64_t check_shards(std::span<const Shard> shards, const Ranks& ranks) {
    const Shard& mine = shards[ranks.rank];
    uint64_t most_distinct = 0;
    for (std::size_t r = 0; r < shards.size(); ++r) {
        if (shards[r].status != SAB_OK)
            fail_as(r, shards[r].status,
                    shards[r].status == SAB_E_ARGUMENT ? SAB_E_ARGUMENT : SAB_E_MISMATCH);
        if (shards[r].options != mine.options)
            fail(SAB_E_MISMATCH,
                 "plan: its options, the seed, the epoch, the world size or the micro-batches are "
                 "not the same on ranks ",
                 ranks.rank, " and ", r);
        if (shards[r].distinct_count > largest_sample_count)
            fail(SAB_E_MISMATCH, "all_gather: slot ", r, " holds ", shards[r].distinct_count,
                 " distinct sizes, which no rank gave");
        most_distinct = std::max(most_distinct, shards[r].distinct_count);
    }
    check(most_distinct > 0, "sizes.count", 0, "must be at least 1 on some rank");
    return most_distinct;
}

class ShardedSequence : public Sequence {
public:
    ShardedSequence(Sorted own, std::span<const Bar> bars, std::span<const Shard> shards,
                    const sab_plan_options& options, const Ranks& ranks)
        : ranks_(ranks.world_size), rank_(ranks.rank), own_(std::move(own)) {
        make_epoch_order(bars, shards, options);
        steps_ = with_options({});
    }

    /// Of the plan, and of what only this rank knows: which of its samples have which size.
    Made made(std::span<const Bar> bars) const {
        return {XXH3_64bits_withSeed(bars.data(), bars.size_bytes(), plan_->fingerprint()) | 1,
                own_.order == nullptr
                    ? 0
                    : XXH3_64bits(own_.order.get(), own_.count * sizeof(uint32_t))};
    }
    void set_fingerprint(uint64_t fingerprint) { fingerprint_ = fingerprint; }

    SamplerKind kind() const override { return kind_of("sab_sharded_sampler_new"); }
    uint64_t fingerprint() const override { return fingerprint_; }
    std::size_t skipped(std::span<int64_t> room) const override {
        // The kept samples are one range of the sorted shard.
        const std::span<const uint32_t> order(own_.order.get(), own_.count);
        const std::size_t before = copy_indices(order.first(kept_begin_), room);
        return before +
               copy_indices(order.subspan(kept_end_), room.subspan(std::min(before, room.size())));
    }
    uint64_t batches() const override { return last_step_.empty() ? 0 : last_step_.back(); }
    std::unique_ptr<EpochOrder> make_epoch_order(const EpochOptions& epoch_options) const override {
        return std::make_unique<EpochOrderOf<Steps>>(with_options(epoch_options));
    }
    void exchange(EpochOrder& epoch_order) noexcept override {
        std::swap(steps_, static_cast<EpochOrderOf<Steps>&>(epoch_order).value);
    }

    bool has_others() const override { return ranks_ > 1; }
    uint64_t samples_of_ranks(uint64_t position) const override {
        const Piece piece = find(position);
        uint64_t sum = 0;
        for (uint64_t r = 0; r < ranks_; ++r)
            sum += piece.boundary(piece.step + 1, counts_[piece.bucket * ranks_ + r]) -
                   piece.boundary(piece.step, counts_[piece.bucket * ranks_ + r]);
        return sum;
    }
    uint64_t samples(uint64_t position) const override {
        const Piece piece = find(position);
        const uint64_t own = own_count(piece.bucket);
        return piece.boundary(piece.step + 1, own) - piece.boundary(piece.step, own);
    }
    double cost(uint64_t position) const override {
        const Bucket& bucket = plan_->buckets()[find(position).bucket];
        return bucket.cost * static_cast<double>(samples(position)) /
               static_cast<double>(bucket.batch_size);
    }
    double total(uint64_t position) const override {
        double sum = 0;
        for (const uint32_t offset : offsets(position, 0, samples(position)))
            sum += size_at(offset);
        return sum;
    }
    std::size_t bucket(uint64_t position) const override { return find(position).bucket; }
    void fill(uint64_t position, uint64_t first, uint64_t count, Batch& batch) const override {
        const std::span<const uint32_t> own = offsets(position, first, count);
        batch.fill(count, [&](uint64_t i) { return Sample{own_.order[own[i]], size_at(own[i])}; });
        if (count == 0) return;
        const std::size_t in = find(position).bucket;
        batch.bucket = static_cast<int64_t>(in);
        batch.padded_length = plan_->facts().pads_to_bucket != 0
                                  ? plan_->buckets()[in].padded_length
                                  : plan_->padded(batch.longest);
    }

private:
    /// The order of the steps of an epoch.
    struct Steps {
        EpochOptions epoch_options;
        Permutation order;
    };
    Steps with_options(const EpochOptions& epoch_options) const {
        return {epoch_options,
                Permutation(batches(), permutation_key(epoch_options.seed, epoch_options.epoch,
                                                       Purpose::steps, 0))};
    }

    /// A step of a bucket: each rank takes the same part of its own samples.
    struct Piece {
        std::size_t bucket;
        uint64_t step;
        uint64_t steps;
        uint64_t boundary(uint64_t step_, uint64_t samples) const {
            return step_ * samples / steps;
        }
    };

    void make_epoch_order(std::span<const Bar> all, std::span<const Shard> shards,
                          const sab_plan_options& options) {
        const std::size_t width = all.size() / ranks_;
        std::map<double, uint64_t> sums;
        uint64_t count = 0;
        for (std::size_t r = 0; r < ranks_; ++r)
            for (std::size_t i = 0; i < shards[r].distinct_count; ++i) {
                const Bar& bar = all[r * width + i];
                const bool ascends = i == 0 || bar.size > all[r * width + i - 1].size;
                if (!(bar.size >= 0 && std::isfinite(bar.size) && ascends && bar.count >= 1 &&
                      bar.count <= largest_sample_count))
                    fail(SAB_E_MISMATCH, "all_gather: slot ", r, " holds ", bar.count,
                         " samples of size ", bar.size, ", which no rank gave");
                sums[bar.size] += bar.count;
                count += bar.count;
                check(count <= largest_sample_count, "sizes.count", count,
                      "must be at most 4294967295 over all ranks");
            }
        Sorted sorted;
        sorted.count = count;
        sorted.first_offsets.push_back(0);
        for (const auto& [size, samples] : sums) {
            sorted.distinct_sizes.push_back(size);
            sorted.first_offsets.push_back(sorted.first_offsets.back() +
                                           static_cast<uint32_t>(samples));
        }
        plan_ = Plan::make(std::move(sorted), options);

        // Samples of one size stand in the order of their ranks, so that a bucket may begin inside
        // a size.
        const std::span<const Bucket> buckets = plan_->buckets();
        counts_.assign(buckets.size() * ranks_, 0);
        own_begin_.assign(buckets.size(), 0);
        // samples of the size on lower ranks
        std::vector<uint64_t> before(plan_->distinct_sizes().size());
        for (std::size_t r = 0; r < ranks_; ++r) {
            uint64_t own = 0;  // samples of the rank that stand before
            std::size_t b = 0;
            for (std::size_t i = 0, distinct = 0; i < shards[r].distinct_count; ++i) {
                const Bar& bar = all[r * width + i];
                while (plan_->distinct_sizes()[distinct] != bar.size) ++distinct;
                const uint64_t begin = plan_->first_offsets()[distinct] + before[distinct],
                               end = begin + bar.count;
                before[distinct] += bar.count;
                while (b < buckets.size() && buckets[b].end <= begin) ++b;
                for (std::size_t each = b; each < buckets.size() && buckets[each].begin < end;
                     ++each) {
                    const uint64_t from = std::max<uint64_t>(begin, buckets[each].begin),
                                   to = std::min<uint64_t>(end, buckets[each].end);
                    if (from >= to) continue;
                    uint64_t& samples = counts_[each * ranks_ + r];
                    if (r == rank_ && samples == 0)
                        own_begin_[each] = static_cast<uint32_t>(own + (from - begin));
                    samples += to - from;
                    if (r == rank_ && kept_end_ == 0)
                        kept_begin_ = static_cast<uint32_t>(own + (from - begin));
                    if (r == rank_) kept_end_ = static_cast<uint32_t>(own + (to - begin));
                }
                own += bar.count;
            }
        }
        uint64_t steps = 0;
        for (std::size_t b = 0; b < buckets.size(); ++b) {
            const uint64_t most =
                *std::max_element(counts_.begin() + static_cast<std::ptrdiff_t>(b * ranks_),
                                  counts_.begin() + static_cast<std::ptrdiff_t>((b + 1) * ranks_));
            steps += (most + buckets[b].batch_size - 1) / buckets[b].batch_size;
            last_step_.push_back(steps);
        }
    }

    uint64_t own_count(std::size_t bucket) const { return counts_[bucket * ranks_ + rank_]; }

    Piece find(uint64_t position) const {
        const uint64_t id = steps_.order(position);
        const auto next = std::ranges::upper_bound(last_step_, id);
        const uint64_t first = next == last_step_.begin() ? 0 : *std::prev(next);
        return {static_cast<std::size_t>(next - last_step_.begin()), id - first, *next - first};
    }

    /// Places in the shard's sorted order.
    std::span<const uint32_t> offsets(uint64_t position, uint64_t first, uint64_t count) const {
        const Piece piece = find(position);
        offsets_.resize(count);
        if (count == 0) return offsets_;
        const uint64_t own = own_count(piece.bucket);
        const Permutation permutation(
            own, permutation_key(steps_.epoch_options.seed, steps_.epoch_options.epoch,
                                 Purpose::samples, piece.bucket));
        permutation.fill(piece.boundary(piece.step, own) + first, offsets_);
        for (uint32_t& offset : offsets_) offset += own_begin_[piece.bucket];
        return offsets_;
    }

    double size_at(uint32_t offset) const {
        return own_.distinct_sizes[distinct_of(own_.first_offsets, offset)];
    }

    const uint64_t ranks_, rank_;
    Sorted own_;                        ///< the shard
    std::shared_ptr<const Plan> plan_;  ///< of all shards' samples; without their order
    std::vector<uint64_t> counts_;      ///< samples by bucket and rank
    std::vector<uint32_t> own_begin_;   ///< offset in own_.order of each bucket's first sample
    std::vector<uint64_t> last_step_;   ///< steps up to each bucket's end
    uint32_t kept_begin_ = 0, kept_end_ = 0;  ///< offsets in own_
    uint64_t fingerprint_ = 0;
    Steps steps_;
    mutable std::vector<uint32_t> offsets_;
};

}  // namespace

std::unique_ptr<sab_sampler> make_sharded_sampler(const Sizes& sizes,
                                                  const sab_plan_options& options,
                                                  const sab_sampler_options& given,
                                                  const Ranks& ranks) {
    // A rank that fails reports its status in the next gathering, so that the others do not wait
    // for it. The memory for their answers is there before.
    Shard mine{SAB_OK, 0, hash_of(options, {given.seed, given.epoch}, given.micro_batches, ranks)};
    Sorted own;
    std::vector<Shard> shards;
    std::vector<Made> plans;
    std::vector<int64_t> statuses;
    std::exception_ptr failure = caught(
        [&] {
            check(options.tail == SAB_TAIL_KEEP, "plan.tail", options.tail,
                  "must be SAB_TAIL_KEEP (0) for samples that are spread over ranks");
            check(options.oversize != SAB_OVERSIZE_SINGLE, "plan.oversize", options.oversize,
                  "must not be SAB_OVERSIZE_SINGLE (2) for samples that are spread over ranks");
            shards.resize(ranks.world_size);
            statuses.resize(ranks.world_size);
            plans.resize(ranks.world_size);
            if (sizes.count() > 0)
                own = sort_by_size(sizes, true, Progress(options.progress, options.progress_ctx));
            mine.distinct_count = own.distinct_sizes.size();
        },
        mine.status);
    if (failure) {
        ranks.tell(mine, shards);
        std::rethrow_exception(failure);
    }
    ranks.gather<Shard>({&mine, 1}, shards);
    const uint64_t most_distinct = check_shards(shards, ranks);

    std::vector<Bar> bars, all;
    int64_t status = SAB_OK;
    failure = caught(
        [&] {
            bars.resize(most_distinct);
            all.resize(most_distinct * ranks.world_size);
        },
        status);
    ranks.gather<int64_t>({&status, 1}, statuses);
    if (failure) std::rethrow_exception(failure);
    for (std::size_t r = 0; r < statuses.size(); ++r)
        if (statuses[r] != SAB_OK) fail_as(r, statuses[r], SAB_E_MISMATCH);
    for (std::size_t i = 0; i < own.distinct_sizes.size(); ++i)
        bars[i] = {own.distinct_sizes[i], own.first_offsets[i + 1] - own.first_offsets[i]};
    ranks.gather<Bar>(bars, all);

    // All that the sampler needs is made before the last gathering: after it no rank can fail
    // alone.
    std::unique_ptr<sab_sampler> sampler;
    ShardedSequence* sequence = nullptr;
    Made made{0, 0};
    failure = caught(
        [&] {
            auto owned =
                std::make_unique<ShardedSequence>(std::move(own), all, shards, options, ranks);
            sequence = owned.get();
            // no other rank takes samples of this shard
            sab_sampler_options alone SAB_SAMPLER_OPTIONS_INIT;
            alone.seed = given.seed;
            alone.epoch = given.epoch;
            alone.micro_batches = given.micro_batches;
            sampler.reset(new_cursor(std::move(owned), alone));
            made = sequence->made(all);
        },
        status);
    ranks.gather<Made>({&made, 1}, plans);
    if (failure) std::rethrow_exception(failure);
    for (std::size_t r = 0; r < plans.size(); ++r)
        if (plans[r].plan != made.plan)
            fail(SAB_E_MISMATCH, "plan: rank ", r,
                 plans[r].plan == 0 ? " could not make it"
                                    : " made another one; options match; check that the cost is "
                                      "the same on all ranks");
    sequence->set_fingerprint(XXH3_64bits(plans.data(), plans.size() * sizeof(Made)));
    return sampler;
}

}  // namespace sab
