#include "base/callback.h"

#include <chrono>
#include <thread>
#include <utility>

namespace sab {

namespace {
thread_local const Progress* progress_of_thread = nullptr;
}

const Progress* current_progress() noexcept {
    return progress_of_thread;
}
CurrentProgress::CurrentProgress(const Progress* progress) noexcept
    : before_(std::exchange(progress_of_thread, progress)) {}
CurrentProgress::~CurrentProgress() {
    progress_of_thread = before_;
}

void sleep_until_exit() {
    for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
}

void fail_as_thrown(std::string_view what) {
    try {
        throw;
    } catch (const ThreadEnd&) {
        throw;
    } catch (const std::exception& error) {
        throw Error(SAB_E_CALLBACK, text(what, " threw: ", error.what()));
    } catch (...) {
        throw Error(SAB_E_CALLBACK, text(what, " threw something that is no std::exception"));
    }
}

void fail_with_code(std::string_view what, int32_t code) {
    throw Error(SAB_E_CALLBACK, text(what, " failed with code ", code), code);
}

void fail_unset(std::string_view what, std::string_view result) {
    throw Error(SAB_E_CALLBACK, text(what, " returned 0 and did not set ", result));
}

}  // namespace sab
