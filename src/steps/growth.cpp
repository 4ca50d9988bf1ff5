#include "steps/growth.h"

#include "base/error.h"
#include "memory/probe.h"

namespace sab {
namespace {

void check_start(uint64_t start, uint64_t maximum) {
    check(start >= 1, "start", start, "must be at least 1");
    check(maximum >= start, "maximum", maximum, "must be at least start, ", start);
}

}  // namespace

uint64_t grown(sab_batch_increase_fn increase, void* ctx, uint64_t epoch, uint64_t current,
               uint64_t maximum) {
    check(current >= 1, "current", current, "must be at least 1");
    int64_t more = 0;
    Probe::hook([&] { return increase(ctx, epoch, current, &more); }, "increase");
    check(more >= 0, "increase", more, "must be at least 0");
    const auto added = static_cast<uint64_t>(more);
    return current <= maximum && added <= maximum - current ? current + added : current;
}

uint64_t grown_linearly(uint64_t epoch, uint64_t start, uint64_t amount, uint64_t period,
                        uint64_t maximum) {
    check_start(start, maximum);
    check(period >= 1, "period", period, "must be at least 1");
    const uint64_t times = epoch / period, room = maximum - start;
    return amount > 0 && times > room / amount ? maximum : start + times * amount;
}

uint64_t grown_by_doubling(uint64_t epoch, uint64_t start, std::span<const uint64_t> milestones,
                           uint64_t maximum) {
    check_start(start, maximum);
    uint64_t size = start;
    for (const uint64_t milestone : milestones)
        if (milestone <= epoch) size = size > maximum / 2 ? maximum : size * 2;
    return size;
}

}  // namespace sab
