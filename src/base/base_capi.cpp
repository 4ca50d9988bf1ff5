#include <pthread.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <new>
#include <stdexcept>
#include <thread>

#include "base/callback.h"
#include "base/guard.h"
#include "base/version.h"

namespace sab {
namespace {

/// Plain arrays without destructors, so that a thread may end at any time and the library may be
/// unloaded.
thread_local char last_message[1024] = "";
thread_local int32_t last_callback_code = 0;

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

/// For a thread that ends in a callback of a call. Functions of the C ABI are noexcept, so the
/// exception that ends the thread would abort the process.
[[noreturn]] void sleep_until_exit() {
    for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
}

}  // namespace

sab_status set_last_error(sab_status status, const char* message, int32_t callback_code) noexcept {
    std::size_t length = std::strlen(message);
    if (length > sizeof last_message - 1) {
        length = sizeof last_message - 1;
        // do not cut a UTF-8 character
        while (length > 0 && (static_cast<unsigned char>(message[length]) & 0xC0) == 0x80) --length;
    }
    std::memcpy(last_message, message, length);
    last_message[length] = '\0';
    last_callback_code = callback_code;
    return status;
}

sab_status set_caught_error() noexcept {
    try {
        throw;
    } catch (const ThreadEnd&) {
        sleep_until_exit();
    } catch (const Error& error) {
        return set_last_error(error.status(), error.what(), error.callback_code());
    } catch (const std::bad_alloc&) {
        return set_last_error(SAB_E_NO_MEMORY, "memory could not be had", 0);
    } catch (const std::length_error&) {
        return set_last_error(SAB_E_NO_MEMORY, "more memory is needed than there can be", 0);
    } catch (const std::exception& error) {
        return set_last_error(SAB_E_INTERNAL, error.what(), 0);
    } catch (...) {
        return set_last_error(SAB_E_INTERNAL, "an unknown C++ exception", 0);
    }
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

extern "C" {

const char* sab_status_name(sab_status status) noexcept {
    switch (status) {
        case SAB_OK: return "SAB_OK";
        case SAB_END: return "SAB_END";
        case SAB_E_ARGUMENT: return "SAB_E_ARGUMENT";
        case SAB_E_NO_MEMORY: return "SAB_E_NO_MEMORY";
        case SAB_E_CALLBACK: return "SAB_E_CALLBACK";
        case SAB_E_TIMEOUT: return "SAB_E_TIMEOUT";
        case SAB_E_CANCELLED: return "SAB_E_CANCELLED";
        case SAB_E_IO: return "SAB_E_IO";
        case SAB_E_FORMAT: return "SAB_E_FORMAT";
        case SAB_E_MISMATCH: return "SAB_E_MISMATCH";
        case SAB_E_UNSUPPORTED: return "SAB_E_UNSUPPORTED";
        case SAB_E_INTERNAL: return "SAB_E_INTERNAL";
        case SAB_E_DEVICE_MEMORY: return "SAB_E_DEVICE_MEMORY";
        default: return "unknown status";
    }
}

const char* sab_last_error_message(void) noexcept {
    return sab::last_message;
}

int32_t sab_last_callback_code(void) noexcept {
    return sab::last_callback_code;
}

uint32_t sab_abi_version(void) noexcept {
    return SAB_ABI_MAJOR * 1000 + SAB_ABI_MINOR;
}

const char* sab_version_string(void) noexcept {
    return SAB_VERSION;
}

void sab_log_set_callback(sab_log_fn callback, void* ctx) noexcept {
    static std::atomic<bool> is_watching{false};
    if (!is_watching.exchange(true)) pthread_atfork(nullptr, nullptr, sab::drop_half_written);
    // Writers take turns: one makes the count odd, the others wait for it to be even again.
    uint64_t count = sab::log_sequence.load(std::memory_order_relaxed) & ~uint64_t{1};
    while (!sab::log_sequence.compare_exchange_weak(count, count + 1, std::memory_order_acq_rel))
        count &= ~uint64_t{1};
    sab::log_callback.store(callback, std::memory_order_release);
    sab::log_ctx.store(ctx, std::memory_order_release);
    sab::log_sequence.store(count + 2, std::memory_order_release);
}

}  // extern "C"
