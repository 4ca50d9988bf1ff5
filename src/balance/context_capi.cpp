#include "balance/context_plan.h"
#include "base/guard.h"
#include "sab/balance.h"

extern "C" {

sab_status sab_context_plan_new(const sab_sizes* lengths, uint64_t world_size, uint64_t limit,
                                const sab_context_options* options,
                                sab_context_plan** plan) noexcept {
    return sab::guard_new(plan, "plan", [&] {
        sab::require(lengths, "lengths");
        const auto given = sab::read_options(options);
        return new sab_context_plan{{}, sab::plan_context(lengths->impl, world_size, limit, given)};
    });
}

sab_status sab_context_plan_get_view(const sab_context_plan* plan,
                                     sab_context_plan_view* view) noexcept {
    return sab::guard([&] {
        sab::require(plan, "plan");
        sab::check_result(view, "view");
        sab::write_result(plan->impl.view(), view);
    });
}

void sab_context_plan_free(sab_context_plan* plan) noexcept {
    sab::free_handle(plan);
}

}  // extern "C"
