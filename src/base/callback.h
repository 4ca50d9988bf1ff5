#pragma once
/// How the caller's callbacks are run.

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>

#if __has_include(<cxxabi.h>)
#include <cxxabi.h>
#endif

#include "base/error.h"

namespace sab {

/// glibc ends a thread (pthread_exit) by this exception. Handlers must rethrow it. Python ends
/// threads this way after the interpreter has exited.
#if defined(__GLIBCXX__) && defined(__GLIBC__)
using ThreadEnd = abi::__forced_unwind;
#else
class ThreadEnd {};
#endif

class Progress;

/// What is told of a call that takes long, by the thread that is in it: of the stream that is
/// asked, or whether a thread is to stop. None in a callback: runtimes whose tasks share a thread
/// may let another call in there begin, and end after this one.
const Progress* current_progress() noexcept;
class CurrentProgress {
public:
    explicit CurrentProgress(const Progress* progress) noexcept;
    ~CurrentProgress();
    CurrentProgress(const CurrentProgress&) = delete;
    CurrentProgress& operator=(const CurrentProgress&) = delete;

private:
    const Progress* before_;
};

/// For a thread that ends in a callback. Functions of the C ABI are noexcept, so the exception that
/// ends the thread would abort the process.
[[noreturn]] void sleep_until_exit();

/// In a handler: the failure of a callback whose C++ exception is being handled.
[[noreturn, gnu::cold]] void fail_as_thrown(std::string_view what);

/// Runs a caller's callback: its code. A C++ exception that leaves it is a failure of the callback,
/// its text in the message.
template <class Call>
int32_t called_back(std::string_view what, Call&& call) {
    const CurrentProgress none(nullptr);
    try {
        return call();
    } catch (...) {
        fail_as_thrown(what);
    }
}

[[noreturn, gnu::cold]] void fail_with_code(std::string_view what, int32_t code);

/// What results of callbacks hold before the call. Where an exception of another language ends a
/// callback, its runtime often returns 0, and nothing is set. Numbers that are checked anyway are
/// NaN before.
inline constexpr double unset_number = std::numeric_limits<double>::quiet_NaN();
inline constexpr int64_t unset_bytes = std::numeric_limits<int64_t>::min();
inline constexpr std::size_t unset_size = std::numeric_limits<std::size_t>::max();
[[noreturn, gnu::cold]] void fail_unset(std::string_view what, std::string_view result);

/// As called_back() of what must not fail: any code but 0 is thrown, unchanged.
template <class Call>
void call_back(std::string_view what, Call&& call) {
    if (const int32_t code = called_back(what, call); code != 0) fail_with_code(what, code);
}

}  // namespace sab
