#include <algorithm>

#include "balance/pipeline.h"
#include "base/guard.h"
#include "base/progress.h"
#include "sab/balance.h"

namespace {

sab::PipelineInput read_input(const double* forward, const double* backward, size_t micro_batches,
                              uint64_t stages, const sab_pipeline_options& options,
                              const sab_pipeline_report* report) {
    if (micro_batches > 0) sab::require(forward, "forward");
    if (report != nullptr) sab::check_result(report, "report");
    return {forward, backward, micro_batches, stages, options};
}

}  // namespace

extern "C" {

sab_status sab_pipeline_simulate(const double* forward, const double* backward,
                                 size_t micro_batches, uint64_t stages, const uint32_t* order,
                                 const sab_pipeline_options* options, sab_pipeline_task* tasks,
                                 sab_pipeline_report* report) noexcept {
    return sab::guard([&] {
        const auto given =
            sab::read_options(options, sab_pipeline_options SAB_PIPELINE_OPTIONS_INIT);
        const auto input = read_input(forward, backward, micro_batches, stages, given, report);
        const auto read = sab::read_order(order, micro_batches);
        sab::PipelineSchedule pipeline(input);
        const sab_pipeline_report own = pipeline.report(pipeline.simulate(read));
        if (tasks != nullptr) pipeline.simulate(read, {tasks, pipeline.task_count()});
        if (report != nullptr) sab::write_result(own, report);
    });
}

sab_status sab_pipeline_order_find(const double* forward, const double* backward,
                                   size_t micro_batches, uint64_t stages,
                                   const sab_pipeline_options* options, uint32_t* order,
                                   sab_pipeline_report* report) noexcept {
    return sab::guard([&] {
        if (micro_batches > 0) sab::require(order, "order");
        const auto given =
            sab::read_options(options, sab_pipeline_options SAB_PIPELINE_OPTIONS_INIT);
        const auto input = read_input(forward, backward, micro_batches, stages, given, report);
        const sab::Progress progress(given.progress, given.progress_ctx);
        const sab::CurrentProgress current(&progress);
        sab::PipelineSchedule pipeline(input);
        const auto found = sab::OrderSearch(input, pipeline).run();
        const sab_pipeline_report own = pipeline.report(pipeline.simulate(found));
        std::ranges::copy(found, order);
        if (report != nullptr) sab::write_result(own, report);
    });
}

}  // extern "C"
