#pragma once
/// A copy of the options of a plan, for plans that are made later.

#include <memory>
#include <vector>

#include "plan/plan.h"

namespace sab {

class KeptPlanOptions {
public:
    /// Options with which a plan of sizes with so many columns was made. See check_kept_costs().
    KeptPlanOptions(const sab_plan_options& options, std::size_t columns);
    KeptPlanOptions(const KeptPlanOptions&) = delete;

    /// Without a progress callback. The pointers are to what this object holds.
    const sab_plan_options& get() const { return options_; }

private:
    sab_plan_options options_;
    std::vector<std::unique_ptr<sab_cost>> costs_{};
    std::vector<sab_budget> budgets_{};
    std::vector<double> boundaries_{}, length_multiples_{};
    std::vector<uint64_t> batch_sizes_{};
    std::vector<int64_t> ids_{};
    std::vector<std::size_t> id_shapes_{};
};

/// Refuses costs that are callbacks.
void check_kept_costs(const sab_plan_options& options);

}  // namespace sab
