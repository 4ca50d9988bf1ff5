#pragma once
/// The samples of a step plan: what they cost, what they take of the budgets, and their groups.

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "balance/forest.h"
#include "balance/samples.h"
#include "balance/vector_partition.h"
#include "cost/cost.h"
#include "sab/balance.h"
#include "sizes/columns.h"

namespace sab {

/// Samples that are divided among ranks and micro-batches, in rows.
struct StepItems {
    std::size_t count = 0;
    bool is_one_cost = false;  ///< the balanced cost is that of the only budget
    // Of each sample alone: the first of all samples, then the second of all, and so on. Of rows
    // without the constant term.
    std::vector<double> costs;           ///< one a balanced cost
    std::vector<double> weights;         ///< one a budget
    std::vector<double> capacities;      ///< for the weights of a micro-batch
    std::vector<uint32_t> group_of;      ///< none without groups
    std::vector<uint32_t> group_counts;  ///< samples of each group

    StepItems() = default;
    /// Some samples of an epoch, by their offsets.
    StepItems(std::span<const uint32_t> offsets, const WeighedSamples& epoch);

    /// Some of these, in this order, without groups.
    StepItems of(std::span<const uint32_t> some) const;

    ItemTable cost_table() const {
        return {costs, costs.size() / std::max<std::size_t>(count, 1), count};
    }
    ItemTable weight_table() const { return {weights, capacities.size(), count}; }
};

struct StepSamples : StepItems {
    std::size_t columns = 1;
    bool is_padded = false;
    std::vector<double> sizes;  ///< of the first column, then of the second, ...
    std::vector<Budget> budgets;
    std::vector<Cost> balance;
    bool is_rounded = false;  ///< sums of some weights
    /// With options.prefix or options.parents. Sizes are those of whole samples; the groups of
    /// samples that have parents are their trees
    std::optional<Forest> forest;

    bool has_parents() const { return forest && forest->has_parents; }
    /// Throws for samples, budgets, costs and groups that sab/balance.h says are refused.
    StepSamples(const Columns& all_sizes, const sab_step_plan_options& options);

    PerColumn lengths_of(std::size_t sample) const {
        PerColumn lengths{};
        for (std::size_t j = 0; j < columns; ++j) lengths[j] = sizes[j * count + sample];
        return lengths;
    }
    /// Sums of whole numbers are exact. Others are rounded, differently in each order: the
    /// capacities are so low that none of them exceeds a budget, or so high that rounding alone
    /// refuses none.
    void round_capacities(bool is_strict);
    /// Whether the weights of each micro-batch, added up in the order of the samples, are within
    /// the budgets.
    bool keep_budgets(std::span<const uint32_t> part_of, uint64_t parts) const;
    /// "options.budgets[0].limit = 16".
    std::string limit_text(std::size_t budget) const;

private:
    void share(const sab_step_plan_options& options);
    void read_costs(const sab_step_plan_options& options, ColumnNames names);
    void evaluate(const Cost& cost, const std::string& name, std::span<double> out) const;
    void weigh();
    void refuse_oversize(std::size_t budget) const;
    void read_groups(const int64_t* ids);

    std::vector<double> rooms_, given_weights_;  ///< capacities and weights before they are rounded
};

}  // namespace sab
