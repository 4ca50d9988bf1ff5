#include "base/log.h"

#include <pthread.h>

#include <atomic>

#include "base/callback.h"

namespace sab {
namespace {

/// The log callback and its ctx belong together: a sequence lock lets any thread read the pair
/// without waiting, also in a child after fork(). An odd count means that a writer is at work.
std::atomic<uint64_t> log_sequence{0};
std::atomic<sab_log_fn> log_callback{nullptr};
std::atomic<void*> log_ctx{nullptr};

/// The writer that was at work when another thread forked is not in the child, which drops what was
/// half written. Unused on Windows, where pthread_atfork() is a macro that ignores its arguments.
[[maybe_unused]] void drop_half_written() {
    const uint64_t count = log_sequence.load();
    if (count % 2 == 0) return;
    log_callback.store(nullptr);
    log_sequence.store(count + 1);
}

}  // namespace

void set_log_callback(sab_log_fn callback, void* ctx) noexcept {
    static std::atomic<bool> is_watching{false};
    if (!is_watching.exchange(true)) pthread_atfork(nullptr, nullptr, drop_half_written);
    // Writers take turns: one makes the count odd, the others wait for it to be even again.
    uint64_t count = log_sequence.load(std::memory_order_relaxed) & ~uint64_t{1};
    while (!log_sequence.compare_exchange_weak(count, count + 1, std::memory_order_acq_rel))
        count &= ~uint64_t{1};
    log_callback.store(callback, std::memory_order_release);
    log_ctx.store(ctx, std::memory_order_release);
    log_sequence.store(count + 2, std::memory_order_release);
}

void log_line(sab_log_level level, std::initializer_list<TextPart> parts) noexcept {
    for (int tries = 0; tries < 1000; ++tries) {
        const uint64_t before = log_sequence.load(std::memory_order_acquire);
        const sab_log_fn callback = log_callback.load(std::memory_order_acquire);
        void* ctx = log_ctx.load(std::memory_order_acquire);
        if (before % 2 == 0 && log_sequence.load(std::memory_order_acquire) == before) {
            try {
                if (callback != nullptr) callback(ctx, level, joined(parts).c_str());
            } catch (const ThreadEnd&) {
                sleep_until_exit();
            } catch (...) {  // ignored: a log message that fails has no caller
            }
            return;
        }
    }
}

}  // namespace sab
