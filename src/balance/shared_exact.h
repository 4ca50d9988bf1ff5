#pragma once
/// The best division of a few samples that share tokens.

#include <cstdint>
#include <span>
#include <vector>

#include "balance/shared_items.h"

namespace sab {

/// By dynamic programming over all sets of n leaves: 3^n steps for each micro-batch and rank.
class SharedExact {
public:
    static constexpr std::size_t most_leaves = 9;

    /// `unit_of`: of each leaf; empty: they may be on several ranks.
    SharedExact(const SharedItems& items, uint64_t ranks, std::span<const uint32_t> unit_of);

    /// Allows one more micro-batch. Returns the least cost of the costliest rank; infinite when the
    /// leaves do not fit.
    double next();
    /// The division of the last call. Micro-batch m of rank r is r * micro_batches + m.
    void write(uint64_t micro_batches, std::span<uint32_t> part_of) const;

private:
    using Set = uint32_t;  ///< of leaves, a bit each

    const SharedItems& items_;
    std::size_t ranks_;  ///< more than leaves are not needed
    Set all_;
    std::vector<double> loads_;   ///< of a micro-batch of each set; infinite where it does not fit
    std::vector<bool> is_whole_;  ///< of each set: no unit is cut
    std::vector<std::vector<Set>> parts_;  ///< of each number of micro-batches and set: the first
    std::vector<double> costs_;            ///< of a rank with each set
    std::vector<std::vector<Set>> rank_sets_;  ///< of each number of ranks and set: the first
};

}  // namespace sab
