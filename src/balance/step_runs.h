#pragma once
/// The samples of a step to the ranks and micro-batches, padded to the longest of a micro-batch.

#include <cstdint>
#include <span>
#include <vector>

#include "balance/runs.h"
#include "balance/step_samples.h"

namespace sab {

/// Samples sorted by size are cut into runs, which are micro-batches.
class StepRuns {
public:
    StepRuns(const StepSamples& samples, uint64_t world_size);

    /// A lower bound on the micro-batches of a rank.
    uint64_t least() const { return least_; }
    /// Those that a rank needs. Fewest with one column and without groups.
    uint64_t needed() const { return needed_; }
    /// At least as many as are needed. Micro-batch m of rank r is r * micro_batches + m.
    void assign(uint64_t micro_batches, std::span<uint32_t> part_of) const;

private:
    void sort();
    void group_ranks(std::span<const uint32_t> all);
    void give_groups(std::span<const uint32_t> all, std::span<const uint32_t> rank_of);
    void find_least(std::span<const uint32_t> all);
    std::vector<double> lengths_of(std::span<const uint32_t> sorted) const;
    std::size_t runs_in(std::span<const uint32_t> sorted) const {
        return runs_.fewest(lengths_of(sorted));
    }

    const StepSamples& samples_;
    const uint64_t ranks_;
    const PerBudget scales_;  ///< of the balanced costs: 1 / mean of the samples alone
    const Runs runs_;
    uint64_t least_ = 1, needed_ = 1;
    /// samples, longest first: all, or with groups those of each rank
    std::vector<std::vector<uint32_t>> sorted_;
};

}  // namespace sab
