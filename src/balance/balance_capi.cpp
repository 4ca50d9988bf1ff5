#include "balance/balanced.h"
#include "balance/step_plan.h"
#include "balance/vector_partition.h"
#include "base/guard.h"
#include "sab/balance.h"
#include "sampler/cursor.h"

extern "C" {

sab_status sab_items_partition(const double* costs, size_t count, uint64_t parts,
                               const sab_partition_options* options, uint32_t* part_of) noexcept {
    return sab::guard([&] {
        const auto given =
            sab::read_options(options, sab_partition_options SAB_PARTITION_OPTIONS_INIT);
        if (count > 0) {
            sab::require(costs, "costs");
            sab::require(part_of, "part_of");
        }
        sab::partition(costs, count, parts, given, {part_of, count});
    });
}

sab_status sab_balanced_sampler_new(const sab_sizes* sizes, const sab_balanced_options* balanced,
                                    const sab_sampler_options* options,
                                    sab_sampler** sampler) noexcept {
    return sab::guard_new(sampler, "sampler", [&] {
        sab::require(sizes, "sizes");
        sab::require(balanced, "balanced");
        const auto rules =
            sab::read_options(balanced, sab_balanced_options SAB_BALANCED_OPTIONS_INIT);
        const sab::SamplerOptions given(
            sab::read_options(options, sab_sampler_options SAB_SAMPLER_OPTIONS_INIT));
        return sab::new_cursor(std::make_unique<sab::BalancedSequence>(sizes->impl, rules, given),
                               given);
    });
}

sab_status sab_balanced_sampler_get_report(sab_sampler* sampler, sab_progress_fn progress,
                                           void* progress_ctx,
                                           sab_balanced_report* report) noexcept {
    return sab::guard([&] {
        sab::require(sampler, "sampler");
        sab::check_result(report, "report");
        sab::write_result(
            sab::report_balance(*sampler->impl, sab::Progress(progress, progress_ctx)), report);
    });
}

sab_status sab_step_plan_new(const sab_sizes* sizes, const sab_step_plan_options* options,
                             sab_step_plan** plan) noexcept {
    return sab::guard_new(plan, "plan", [&] {
        sab::require(sizes, "sizes");
        sab::require(options, "options");
        const auto given =
            sab::read_options(options, sab_step_plan_options SAB_STEP_PLAN_OPTIONS_INIT);
        return new sab_step_plan{sab::make_step_plan(sizes->impl, given)};
    });
}

sab_status sab_step_plan_get_view(const sab_step_plan* plan, sab_step_plan_view* view) noexcept {
    return sab::guard([&] {
        sab::require(plan, "plan");
        sab::check_result(view, "view");
        sab::write_result(plan->impl.view(), view);
    });
}

sab_status sab_step_plan_get_loss_weights(const sab_step_plan* plan, sab_loss_weighting weighting,
                                          const double* tokens, double* weights) noexcept {
    return sab::guard([&] {
        sab::require(plan, "plan");
        sab::require(weights, "weights");
        plan->impl.loss_weights(weighting, tokens, {weights, plan->impl.indices.size()});
    });
}

void sab_step_plan_free(sab_step_plan* plan) noexcept {
    delete plan;
}

}  // extern "C"
