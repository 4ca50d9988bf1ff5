#include <algorithm>

#include "base/guard.h"
#include "base/options.h"
#include "steps/memory_guard.h"
#include "steps/search.h"
#include "steps/step_in_chunks.h"
#include "steps/verify.h"

extern "C" {

sab_status sab_max_batch_find(sab_probe* probe, sab_trial_fn trial, void* ctx,
                              const sab_max_batch_options* options, uint64_t* batch_sizes,
                              sab_max_batch* result) noexcept {
    return sab::guard([&] {
        sab::require(probe, "probe");
        sab::require(reinterpret_cast<const void*>(trial), "trial");
        sab::check_result(result, "result");
        auto given = sab::read_options(options);
        sab::default_to(given.max_batch_size, 100000);
        const std::size_t lengths = std::max<std::size_t>(given.length_count, 1);
        sab::write_result(sab::find_max_batch(*std::shared_ptr(probe->impl), trial, ctx, given,
                                              {batch_sizes, batch_sizes == nullptr ? 0 : lengths}),
                          result);
    });
}

sab_status sab_plan_verify(const sab_plan* plan, sab_probe* probe, sab_batch_fn run, void* ctx,
                           const sab_verification_options* options,
                           sab_verification* result) noexcept {
    return sab::guard([&] {
        sab::require(plan, "plan");
        sab::require(probe, "probe");
        sab::require(reinterpret_cast<const void*>(run), "run");
        sab::check_result(result, "result");
        auto given = sab::read_options(options);
        sab::default_to(given.count, 16);
        sab::verify(*plan, *std::shared_ptr(probe->impl), given.count, run, ctx,
                    sab::Progress(given.progress, given.progress_ctx), result);
    });
}

sab_status sab_step_run_in_chunks(sab_probe* probe, uint64_t count,
                                  const sab_step_in_chunks_options* options,
                                  uint64_t* chunk_size) noexcept {
    return sab::guard([&] {
        sab::require(probe, "probe");
        sab::require(options, "options");
        const auto given = sab::read_options(options);
        const auto step = sab::step_in_chunks(*std::shared_ptr(probe->impl), count, given);
        if (chunk_size != nullptr) *chunk_size = step.chunk_size;
    });
}

sab_status sab_memory_guard_new(sab_probe* probe, sab_sampler* sampler,
                                const sab_memory_guard_options* options,
                                sab_memory_guard** guard) noexcept {
    return sab::guard_new(guard, "guard", [&] {
        sab::require(probe, "probe");
        sab::require(sampler, "sampler");
        auto given = sab::read_options(options);
        sab::default_to(given.interval, 16);
        sab::default_to(given.window, 64);
        return new sab_memory_guard{{}, sab::MemoryGuard(probe->impl, *sampler->impl, given)};
    });
}

sab_status sab_memory_guard_begin(sab_memory_guard* guard) noexcept {
    return sab::guard([&] {
        sab::require(guard, "guard");
        guard->impl.begin();
    });
}

sab_status sab_memory_guard_end(sab_memory_guard* guard, const sab_batch* batch,
                                int32_t out_of_memory) noexcept {
    return sab::guard([&] {
        sab::require(guard, "guard");
        sab::check_result(batch, "batch");
        sab::check(out_of_memory == 0 || out_of_memory == 1, "out_of_memory", out_of_memory,
                   "must be 0 or 1");
        guard->impl.end(*batch, out_of_memory == 1);
    });
}

sab_status sab_memory_guard_get_info(const sab_memory_guard* guard,
                                     sab_memory_guard_info* info) noexcept {
    return sab::guard([&] {
        sab::require(guard, "guard");
        sab::check_result(info, "info");
        sab::write_result(guard->impl.info(), info);
    });
}

sab_status sab_memory_guard_step(sab_memory_guard* guard, const sab_batch* batch,
                                 const sab_step_in_chunks_options* options) noexcept {
    return sab::guard([&] {
        sab::require(guard, "guard");
        sab::check_result(batch, "batch");
        sab::require(options, "options");
        const auto given = sab::read_options(options);
        sab::guarded_step(guard->impl, *batch, given);
    });
}

void sab_memory_guard_free(sab_memory_guard* guard) noexcept {
    sab::free_handle(guard);
}

}  // extern "C"
