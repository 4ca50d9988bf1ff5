#include "balance/balanced.h"
#include "balance/step_plan.h"
#include "balance/vector_partition.h"
#include "base/guard.h"
#include "base/options.h"
#include "sab/balance.h"
#include "sampler/cursor.h"

extern "C" {

sab_status sab_items_partition(const double* costs, size_t count, uint64_t parts,
                               const sab_partition_options* options, uint32_t* part_of) noexcept {
    return sab::guard([&] {
        auto given = sab::read_options(options);
        sab::default_to(given.cost_count, 1);
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
        const auto rules = sab::read_options(balanced, "balanced");
        const sab::SamplerOptions given(sab::read_options(options));
        sab::refuse_costliest_first(given, "the steps of this sampler cost the same");
        return sab::new_cursor(std::make_unique<sab::BalancedSequence>(sizes->impl, rules, given),
                               given);
    });
}

sab_status sab_balanced_sampler_get_report(sab_sampler* sampler,
                                           const sab_progress_options* options,
                                           sab_balanced_report* report) noexcept {
    return sab::guard([&] {
        sab::require(sampler, "sampler");
        sab::check_result(report, "report");
        sab::write_result(sab::report_balance(*sampler, sab::read_progress(options)), report);
    });
}

sab_status sab_step_plan_new(const sab_sizes* sizes, const sab_step_plan_options* options,
                             sab_step_plan** plan) noexcept {
    return sab::guard_new(plan, "plan", [&] {
        sab::require(sizes, "sizes");
        sab::require(options, "options");
        auto given = sab::read_options(options);
        sab::default_to(given.world_size, 1);
        sab::default_to(given.multiple, 1);
        return new sab_step_plan{{}, sab::make_step_plan(sizes->impl, given)};
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
        plan->impl.loss_weights(weighting, tokens, {weights, plan->impl.nodes});
    });
}

void sab_step_plan_free(sab_step_plan* plan) noexcept {
    sab::free_handle(plan);
}

}  // extern "C"
