#pragma once
/// A mixture whose samples are spread over the ranks.

#include <memory>
#include <span>
#include <vector>

#include "plan/mixed_plans.h"
#include "ranks/sharded_sequence.h"
#include "sampler/mixed_sequence.h"

namespace sab {

/// What a rank tells of a sample: which of the sizes of its shard it has, and its source.
struct ToldSample {
    uint16_t size_low, size_high, source;
};
static_assert(sizeof(ToldSample) == 6);

/// Writes what a rank tells of its samples.
void write_samples(const Sorted& shard, std::span<const uint16_t> source_of,
                   std::span<ToldSample> told);

/// Every rank knows the sizes and sources of all shards, and so the samples of every epoch. They
/// are numbered one shard after the other.
class ShardedMixture : public std::enable_shared_from_this<ShardedMixture> {
public:
    /// `choice`: of this rank's shard. `told`: of all ranks, as many for each; the first of them
    /// are used. If the options separate samples, then by source. Refuses what no rank gave, and
    /// options under which an epoch would fail.
    ShardedMixture(const EpochChoice& choice, const Histograms& histograms,
                   std::span<const ToldSample> told, const PlanOptions& options,
                   const Ranks& ranks);

    const std::shared_ptr<const EpochChoice>& choice() const { return plans_->choice(); }
    uint64_t fingerprint() const { return fingerprint_; }
    EpochSequence make(uint64_t epoch) const;

    uint64_t ranks() const { return first_.size() - 1; }
    uint64_t rank() const { return rank_; }
    /// The rank that has a sample.
    uint64_t rank_of(uint32_t sample) const;
    /// Number of a rank's first sample.
    uint32_t first(uint64_t rank) const { return first_[rank]; }

private:
    uint64_t rank_;
    std::vector<uint32_t> first_;  ///< by rank; one more at the end: all samples
    std::unique_ptr<const MixedPlans> plans_;
    uint64_t fingerprint_;
};

}  // namespace sab
