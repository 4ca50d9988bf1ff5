#include "base/guard.h"
#include "steps/growth.h"
#include "steps/step_in_chunks.h"

extern "C" {

sab_status sab_batch_size_grow(sab_batch_increase_fn increase, void* ctx, uint64_t epoch,
                               uint64_t current, uint64_t max_batch_size,
                               uint64_t* batch_size) noexcept {
    return sab::guard([&] {
        sab::require(reinterpret_cast<const void*>(increase), "increase");
        sab::require(batch_size, "batch_size");
        *batch_size = sab::grown(increase, ctx, epoch, current, max_batch_size);
    });
}

sab_status sab_batch_size_grow_linear(uint64_t epoch, uint64_t start, uint64_t amount,
                                      uint64_t period, uint64_t max_batch_size,
                                      uint64_t* batch_size) noexcept {
    return sab::guard([&] {
        sab::require(batch_size, "batch_size");
        *batch_size = sab::grown_linearly(epoch, start, amount, period, max_batch_size);
    });
}

sab_status sab_batch_size_grow_doubling(uint64_t epoch, uint64_t start, const uint64_t* milestones,
                                        size_t milestone_count, uint64_t max_batch_size,
                                        uint64_t* batch_size) noexcept {
    return sab::guard([&] {
        sab::require(batch_size, "batch_size");
        if (milestone_count > 0) sab::require(milestones, "milestones");
        *batch_size =
            sab::grown_by_doubling(epoch, start, {milestones, milestone_count}, max_batch_size);
    });
}

sab_status sab_step_in_chunks(sab_probe* probe, uint64_t count,
                              const sab_step_in_chunks_options* options,
                              uint64_t* chunk_size) noexcept {
    return sab::guard([&] {
        sab::require(probe, "probe");
        sab::require(options, "options");
        const auto given =
            sab::read_options(options, sab_step_in_chunks_options SAB_STEP_IN_CHUNKS_OPTIONS_INIT);
        const auto step = sab::step_in_chunks(*std::shared_ptr(probe->impl), count, given);
        if (chunk_size != nullptr) *chunk_size = step.chunk_size;
    });
}

sab_status sab_memory_guard_step(sab_memory_guard* guard, const sab_batch* batch,
                                 const sab_step_in_chunks_options* options) noexcept {
    return sab::guard([&] {
        sab::require(guard, "guard");
        sab::check_result(batch, "batch");
        sab::require(options, "options");
        const auto given =
            sab::read_options(options, sab_step_in_chunks_options SAB_STEP_IN_CHUNKS_OPTIONS_INIT);
        sab::guarded_step(guard->impl, *batch, given);
    });
}

}  // extern "C"
