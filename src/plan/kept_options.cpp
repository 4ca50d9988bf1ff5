#include "plan/kept_options.h"

namespace sab {
namespace {

template <class Item>
const Item* copy_array(const Item* items, std::size_t count, std::vector<Item>& copy) {
    if (items == nullptr) return nullptr;
    copy.assign(items, items + count);
    return copy.data();
}

}  // namespace

void check_kept_costs(const sab_plan_options& options) {
    check(options.budget_count <= SAB_MAX_BUDGETS, "number of options.budgets",
          options.budget_count, "must be at most ", SAB_MAX_BUDGETS);
    for (std::size_t i = 0; i < options.budget_count && options.budgets != nullptr; ++i)
        if (const sab_cost* cost = options.budgets[i].cost;
            cost != nullptr && cost->impl.is_callback())
            fail(SAB_E_ARGUMENT, "options.budgets[", i,
                 "].cost is a callback: the plan of a mixture is made again in each epoch, and "
                 "must have costs of terms");
}

KeptPlanOptions::KeptPlanOptions(const sab_plan_options& options, std::size_t columns)
    : options_(options) {
    if (options.budgets != nullptr) {
        for (std::size_t i = 0; i < options.budget_count; ++i) {
            budgets_.push_back(options.budgets[i]);
            const sab_cost* const cost = options.budgets[i].cost;
            if (cost == nullptr) continue;
            costs_.push_back(std::unique_ptr<sab_cost>(
                new sab_cost{cost->impl, {nullptr, nullptr}, cost->columns}));
            budgets_.back().cost = costs_.back().get();
        }
        options_.budgets = budgets_.data();
    }
    options_.boundaries =
        copy_array(options.boundaries, options.boundary_count * columns, boundaries_);
    options_.batch_sizes = copy_array(options.batch_sizes, options.batch_size_count, batch_sizes_);
    options_.length_multiples = copy_array(options.length_multiples, columns, length_multiples_);
    options_.id_shapes = copy_array(options.id_shapes, options.id_shape_count, id_shapes_);
    options_.separate_by = copy_array(options.separate_by, options.separate_by_count, ids_);
    options_.progress = nullptr;
    options_.progress_ctx = nullptr;
}

}  // namespace sab
