#pragma once
/// Steps of samples that are spread over the ranks.

#include <memory>
#include <span>
#include <vector>

#include "plan/plan.h"
#include "ranks/ranks.h"
#include "sampler/permutation.h"
#include "sampler/sequence.h"

namespace sab {

/// The samples of a shard that have one size.
struct Bar {
    double size;
    uint64_t count;
};

/// The sizes of all shards.
struct Histograms {
    std::vector<Bar> bars;                  ///< as many for each rank; the first of them are used
    std::vector<uint64_t> distinct_counts;  ///< by rank: how many

    std::span<const Bar> of(std::size_t rank) const {
        return std::span(bars).subspan(rank * width(), distinct_counts[rank]);
    }
    std::size_t width() const { return bars.size() / distinct_counts.size(); }
};

/// The samples of each shard. Refuses what no rank gave, and more samples than there may be.
std::vector<uint64_t> count_samples(const Histograms& histograms);
/// Writes the bars of a shard.
void write_bars(const Sorted& shard, std::span<Bar> bars);

/// The plan of the samples of all shards. It has no order.
std::shared_ptr<const Plan> make_shared_plan(const Histograms& histograms,
                                             const PlanOptions& options);

/// What each rank made of the bars of all.
struct Made {
    uint64_t plan;   ///< 0: it could not be made
    uint64_t order;  ///< hash of the shard's samples by size
};

class ShardedSequence : public Sequence {
public:
    /// `own`: the samples of this rank by size.
    ShardedSequence(Sorted own, const Histograms& histograms, const PlanOptions& options,
                    const Ranks& ranks);

    /// Of the plan, and of what only this rank knows: which of its samples have which size.
    Made made(std::span<const Bar> bars) const;
    void set_fingerprint(uint64_t fingerprint) { fingerprint_ = fingerprint; }

    std::unique_ptr<Sequence> copy() const override {
        return std::make_unique<ShardedSequence>(*this);
    }
    SamplerKind kind() const override { return kind_of("sab_sharded_sampler_new"); }
    uint64_t fingerprint() const override { return fingerprint_; }
    std::size_t skipped(std::span<int64_t> room) const override;
    uint64_t batches() const override { return last_step_.empty() ? 0 : last_step_.back(); }
    std::unique_ptr<EpochOrder> make_epoch_order(const EpochOptions& epoch_options) const override {
        return std::make_unique<EpochOrderOf<Steps>>(with_options(epoch_options));
    }
    void exchange(EpochOrder& epoch_order) noexcept override {
        std::swap(steps_, static_cast<EpochOrderOf<Steps>&>(epoch_order).value);
    }

    bool has_others() const override { return ranks_ > 1; }
    uint64_t samples_of_ranks(uint64_t position) const override;
    uint64_t samples(uint64_t position) const override { return samples_of(find(position), rank_); }
    double cost(uint64_t position) const override;
    PerColumn total(uint64_t position) const override;
    BatchSums sums() const override;
    /// The totals of other ranks are not known: samples count as the mean of their bucket.
    BatchSums sums_at(uint64_t position) const override;
    std::size_t bucket(uint64_t position) const override { return find(position).bucket; }
    void fill(uint64_t position, uint64_t first, uint64_t count, Batch& batch) const override;

private:
    /// The order of the steps of an epoch.
    struct Steps {
        EpochOptions epoch_options;
        Permutation order;
    };
    Steps with_options(const EpochOptions& epoch_options) const;

    /// A step of a bucket: each rank takes the same part of its own samples.
    struct Piece {
        std::size_t bucket;
        uint64_t step;
        uint64_t steps;
        uint64_t boundary(uint64_t step_, uint64_t samples) const {
            return step_ * samples / steps;
        }
    };

    void divide(const Histograms& histograms);
    void divide_size(std::size_t rank, uint64_t first, uint64_t begin, uint64_t end,
                     std::size_t& bucket);
    uint64_t steps_of(std::size_t bucket);
    void leave_out();
    /// The samples that a rank has in the steps of a bucket.
    uint64_t used(std::size_t bucket, std::size_t rank) const;
    Piece find(uint64_t position) const;
    uint64_t samples_of(const Piece& piece, std::size_t rank) const;
    BatchSums share(std::size_t bucket, uint64_t samples) const;
    std::span<const uint32_t> offsets(const Piece& piece, uint64_t first, uint64_t count) const;
    std::span<const uint32_t> offsets_of(std::size_t bucket, uint64_t first, uint64_t count) const;
    const Sorted& own_shard() const { return *own_; }

    const uint64_t ranks_, rank_;
    std::shared_ptr<const Sorted> own_;
    std::shared_ptr<const Plan> plan_;  ///< of all shards' samples; without their order
    std::vector<uint64_t> counts_;      ///< samples by bucket and rank
    std::vector<uint32_t> begin_;       ///< in the order of the shard: the first of these samples
    std::vector<uint32_t> first_kept_;  ///< by rank: the first of all buckets
    std::vector<uint64_t> last_step_;   ///< steps up to each bucket's end
    uint32_t kept_begin_ = 0, kept_end_ = 0;  ///< offsets in the own shard
    uint64_t fingerprint_ = 0;
    Steps steps_;
    mutable std::vector<uint32_t> offsets_;
};

}  // namespace sab
