#include "base/parts.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <thread>
#include <vector>

namespace sab {
namespace {

constexpr std::size_t stretch = std::size_t{1} << 20;

/// Threads that are told to stop, and waited for, when the caller's part fails.
struct Helpers {
    std::atomic<bool>& is_stopped;
    std::vector<std::thread> threads{};

    ~Helpers() {
        is_stopped = true;
        join();
    }
    void join() {
        for (std::thread& thread : threads) thread.join();
        threads.clear();
    }
};

}  // namespace

void in_parts(const Parts& parts, const Progress& progress, const ProgressRange& range,
              const std::function<void(std::size_t, std::size_t, std::size_t)>& block) {
    std::atomic<bool> is_stopped{false};
    std::vector<std::exception_ptr> errors(parts.parts);
    const auto help = [&](std::size_t part) noexcept {
        try {
            const std::size_t end = parts.begin(part + 1);
            for (std::size_t first = parts.begin(part); first < end && !is_stopped;
                 first += stretch)
                block(part, first, std::min(first + stretch, end));
        } catch (...) {
            errors[part] = std::current_exception();
        }
    };
    Helpers helpers{is_stopped};
    helpers.threads.reserve(parts.parts - 1);
    std::size_t started = 1;
    try {
        for (; started < parts.parts; ++started)
            helpers.threads.emplace_back([&help, started] { help(started); });
    } catch (const std::exception&) {  // ignored: this thread does the rest
    }
    const std::size_t own = parts.begin(1) + parts.count - parts.begin(started);
    std::size_t done = 0;
    const auto run = [&](std::size_t part) {
        const std::size_t end = parts.begin(part + 1);
        for (std::size_t first = parts.begin(part); first < end; first += stretch) {
            // both factors are at most 2^32
            progress.report(range.begin + (range.end - range.begin) * done / own, range.total);
            const std::size_t last = std::min(first + stretch, end);
            block(part, first, last);
            done += last - first;
        }
    };
    run(0);
    for (std::size_t part = started; part < parts.parts; ++part) run(part);
    helpers.join();
    for (const std::exception_ptr& error : errors)
        if (error) std::rethrow_exception(error);
}

}  // namespace sab
