#pragma once
/// What streams with threads of their own share.

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/forks.h"
#include "base/progress.h"

namespace sab {

/// Whether LeavingThreads holds in this thread.
bool are_threads_left() noexcept;

/// Waits for a condition; the caller may follow and cancel meanwhile.
template <class Ready>
void wait(std::unique_lock<std::mutex>& lock, std::condition_variable& changed, Ready&& ready) {
    while (!changed.wait_for(lock, std::chrono::milliseconds(50), ready)) {
        lock.unlock();
        report_progress(0, 0);
        lock.lock();
    }
}

/// The threads of a stage. Each shares what it works on with the stage, so that it can outlive it:
/// what C calls is released by the last one that lets go.
class Threads {
public:
    Threads() = default;
    ~Threads() { end(false); }
    Threads(const Threads&) = delete;
    Threads& operator=(const Threads&) = delete;

    std::size_t count() const { return threads_ == nullptr ? 0 : threads_->size(); }
    /// Starts a thread; throws SAB_E_NO_MEMORY where there can be none.
    template <class... Work>
    void start(std::size_t most, Work&&... work) {
        if (threads_ == nullptr) threads_ = std::make_unique<std::vector<std::thread>>();
        threads_->reserve(most);
        try {
            threads_->emplace_back(std::forward<Work>(work)...);
        } catch (const std::system_error& error) {
            fail(SAB_E_NO_MEMORY,
                 "a thread could not be started: ", std::string_view(error.what()));
        }
    }
    /// Starts threads until there are so many. Fewer do as well, if there is one.
    template <class... Work>
    void start_all(std::size_t wanted, const Work&... work) {
        while (count() < wanted) {
            try {
                start(wanted, work...);
            } catch (const Error&) {
                if (count() == 0) throw;
                return;
            }
        }
    }
    bool is_one_of_them() const;
    /// Waits for their ends, or leaves them to themselves.
    void end(bool leaves) noexcept;
    /// In the child of a fork: they are gone. Their shares are never given back, so that nothing
    /// that they touched is freed.
    void forget() noexcept { (void)threads_.release(); }

private:
    std::unique_ptr<std::vector<std::thread>> threads_;
};

}  // namespace sab
