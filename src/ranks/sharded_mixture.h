#pragma once
/// A mixture whose samples are spread over the ranks.

#include <memory>
#include <span>
#include <vector>

#include "plan/kept_options.h"
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
class ShardedMixture {
public:
    /// `choice`: of this rank's shard. `told`: of all ranks, as many for each; the first of them
    /// are used. Refuses what no rank gave, and options under which an epoch would fail.
    ShardedMixture(const EpochChoice& choice, const Histograms& histograms,
                   std::span<const ToldSample> told, const sab_plan_options& options,
                   const Ranks& ranks);

    const std::shared_ptr<const EpochChoice>& choice() const { return choice_; }
    uint64_t fingerprint() const { return fingerprint_; }
    EpochSequence make(uint64_t epoch) const;

private:
    using Shards = std::vector<std::shared_ptr<const Sorted>>;
    static Histograms histograms_of(const Shards& shards);
    Shards chosen(std::span<const uint32_t> samples) const;

    Ranks ranks_;
    std::vector<uint64_t> first_;  ///< by rank: number of its first sample
    std::vector<Sorted> shards_;   ///< all samples of each rank
    std::shared_ptr<const EpochChoice> choice_;
    std::unique_ptr<const KeptPlanOptions> options_;
    uint64_t fingerprint_;
};

}  // namespace sab
