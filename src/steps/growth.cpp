#include "steps/growth.h"

#include "base/error.h"
#include "memory/probe.h"

namespace sab {
namespace {

void check_start(uint64_t start, uint64_t max_batch_size) {
    check(start >= 1, "start", start, "must be at least 1");
    check(max_batch_size >= start, "max_batch_size", max_batch_size, "must be at least start, ",
          start);
}

}  // namespace

uint64_t grown(sab_batch_increase_fn increase, void* ctx, uint64_t epoch, uint64_t current,
               uint64_t max_batch_size) {
    check(current >= 1, "current", current, "must be at least 1");
    int64_t more = 0;
    Probe::hook([&] { return increase(ctx, epoch, current, &more); }, "increase");
    check(more >= 0, "increase", more, "must be at least 0");
    const auto added = static_cast<uint64_t>(more);
    return current <= max_batch_size && added <= max_batch_size - current ? current + added
                                                                          : current;
}

uint64_t grown_linearly(uint64_t epoch, uint64_t start, uint64_t amount, uint64_t period,
                        uint64_t max_batch_size) {
    check_start(start, max_batch_size);
    check(period >= 1, "period", period, "must be at least 1");
    const uint64_t times = epoch / period, room = max_batch_size - start;
    return amount > 0 && times > room / amount ? max_batch_size : start + times * amount;
}

uint64_t grown_by_doubling(uint64_t epoch, uint64_t start, std::span<const uint64_t> milestones,
                           uint64_t max_batch_size) {
    check_start(start, max_batch_size);
    uint64_t size = start;
    for (const uint64_t milestone : milestones)
        if (milestone <= epoch) size = size > max_batch_size / 2 ? max_batch_size : size * 2;
    return size;
}

}  // namespace sab
