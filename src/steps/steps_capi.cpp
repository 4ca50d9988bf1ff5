#include "base/guard.h"
#include "steps/chunked_step.h"

extern "C" {

sab_status sab_grow_batch(sab_batch_increase_fn increase, void* ctx, uint64_t epoch,
                          uint64_t current, uint64_t maximum, uint64_t* batch_size) noexcept {
    return sab::guard([&] {
        sab::require(reinterpret_cast<const void*>(increase), "increase");
        sab::require(batch_size, "batch_size");
        sab::check(current >= 1, "current", current, "must be at least 1");
        int64_t more = 0;
        sab::Probe::hook([&] { return increase(ctx, epoch, current, &more); }, "increase");
        sab::check(more >= 0, "increase", more, "must be at least 0");
        const auto added = static_cast<uint64_t>(more);
        *batch_size = current <= maximum && added <= maximum - current ? current + added : current;
    });
}

sab_status sab_grow_linear(uint64_t epoch, uint64_t start, uint64_t amount, uint64_t period,
                           uint64_t maximum, uint64_t* batch_size) noexcept {
    return sab::guard([&] {
        sab::require(batch_size, "batch_size");
        sab::check(start >= 1, "start", start, "must be at least 1");
        sab::check(period >= 1, "period", period, "must be at least 1");
        sab::check(maximum >= start, "maximum", maximum, "must be at least start, ", start);
        const uint64_t times = epoch / period, room = maximum - start;
        *batch_size = amount > 0 && times > room / amount ? maximum : start + times * amount;
    });
}

sab_status sab_grow_doubling(uint64_t epoch, uint64_t start, const uint64_t* milestones,
                             size_t milestone_count, uint64_t maximum,
                             uint64_t* batch_size) noexcept {
    return sab::guard([&] {
        sab::require(batch_size, "batch_size");
        if (milestone_count > 0) sab::require(milestones, "milestones");
        sab::check(start >= 1, "start", start, "must be at least 1");
        sab::check(maximum >= start, "maximum", maximum, "must be at least start, ", start);
        uint64_t size = start;
        for (std::size_t i = 0; i < milestone_count; ++i)
            if (milestones[i] <= epoch) size = size > maximum / 2 ? maximum : size * 2;
        *batch_size = size;
    });
}

sab_status sab_chunked_step(sab_probe* probe, uint64_t count,
                            const sab_chunked_step_options* options,
                            uint64_t* chunk_size) noexcept {
    return sab::guard([&] {
        sab::require(probe, "probe");
        sab::require(options, "options");
        const auto given =
            sab::read_options(options, sab_chunked_step_options SAB_CHUNKED_STEP_OPTIONS_INIT);
        const auto step = sab::chunked_step(*std::shared_ptr(probe->impl), count, given);
        if (chunk_size != nullptr) *chunk_size = step.chunk_size;
    });
}

sab_status sab_memory_guard_step(sab_memory_guard* guard, const sab_batch* batch,
                                 const sab_chunked_step_options* options) noexcept {
    return sab::guard([&] {
        sab::require(guard, "guard");
        sab::check_result(batch, "batch");
        sab::require(options, "options");
        const auto given =
            sab::read_options(options, sab_chunked_step_options SAB_CHUNKED_STEP_OPTIONS_INIT);
        sab::guarded_step(guard->impl, *batch, given);
    });
}

}  // extern "C"
