#pragma once
/// Ranks that are made more even by cutting trees.

#include <cstdint>
#include <span>
#include <vector>

#include "balance/shared_branches.h"
#include "balance/shared_items.h"

namespace sab {

/// Moves parts of trees from the costliest rank to the cheapest ones, where that lowers its cost
/// though the tokens above them are computed once more.
class SharedEvener {
public:
    /// `part_of`: of each leaf; changed by even_out().
    SharedEvener(const SharedItems& items, uint32_t ranks, uint32_t micro_batches,
                 std::span<uint32_t> part_of);
    void even_out();

private:
    struct Move {
        uint32_t from, to;  ///< micro-batches
        double cost;        ///< of the costlier one of their ranks afterwards
        std::vector<uint32_t> leaves;
    };

    double& cost_of(uint32_t part) { return costs_[part / micro_batches_]; }
    uint32_t emptiest_part(uint32_t rank) const;
    void find_moves(uint32_t from, uint32_t to, Move& best);
    void apply(const Move& move);

    const SharedItems& items_;
    uint32_t micro_batches_;
    std::span<uint32_t> part_of_;
    SharedBranches branches_;
    std::vector<std::vector<uint32_t>> leaves_;  ///< of each micro-batch, ascending
    std::vector<Load> loads_;                    ///< of each micro-batch
    std::vector<double> costs_;                  ///< of each rank
};

}  // namespace sab
