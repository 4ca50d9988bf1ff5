#pragma once
/// The samples of one step, divided among ranks and micro-batches.

#include <cstdint>
#include <span>
#include <vector>

#include "balance/samples.h"
#include "base/handle.h"
#include "sab/balance.h"
#include "sizes/columns.h"

namespace sab {

/// What sab_step_plan_view shows.
struct StepPlan {
    uint64_t world_size = 1;
    uint64_t micro_batches = 1;
    uint64_t least_micro_batches = 1;
    std::size_t nodes = 1;
    std::size_t columns = 1;
    std::vector<int64_t> indices;
    std::vector<uint64_t> offsets;
    std::vector<int64_t> inverse;
    std::vector<int32_t> cu_seqlens;  ///< of the first column, then the second, ...; may be empty
    std::vector<const int32_t*> cu_seqlens_of;  ///< each column
    std::vector<sab_step_segment> segments;
    std::vector<uint64_t> segment_offsets;  ///< none without shared tokens
    std::vector<int64_t> leaves;            ///< with parents, the node of each sample; else none
    std::size_t balances = 1;
    std::vector<double> costs;  ///< by balanced cost, then by micro-batch
    PerBudget rank_imbalance{}, least_rank_imbalance{}, micro_step_imbalance{};
    std::vector<double> totals;          ///< of each sample, over all columns
    std::vector<uint32_t> group_of;      ///< of each sample; none without groups
    std::vector<uint32_t> group_counts;  ///< samples of each group

    sab_step_plan_view view() const;
    void loss_weights(sab_loss_weighting weighting, const double* tokens,
                      std::span<double> weights) const;
};

/// Throws for what sab/balance.h says is refused.
StepPlan make_step_plan(const Columns& sizes, const sab_step_plan_options& options);

}  // namespace sab

struct sab_step_plan {
    sab::Tag<sab_step_plan> tag{};
    sab::StepPlan impl;
};
