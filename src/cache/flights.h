#pragma once
/// Who in this process makes which value.

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>

namespace sab::cache {

class Flights {
public:
    struct Flight {
        std::thread::id pilot;
        bool is_over = false;
        std::shared_ptr<const std::string> value;  // framed; null when it failed
    };

    /// The flight of a key, and whether the calling thread is to make it.
    std::pair<std::shared_ptr<Flight>, bool> join(const std::string& key) {
        const std::scoped_lock lock(mutex_);
        if (const auto known = all_.find(key); known != all_.end()) return {known->second, false};
        auto flight = std::make_shared<Flight>(Flight{std::this_thread::get_id(), false, nullptr});
        all_.emplace(key, flight);
        return {std::move(flight), true};
    }

    /// Whether it cannot be over before the calling thread gets on: its pilot is this thread, or
    /// waits for it.
    bool waits_for_me(const Flight& flight) {
        const std::scoped_lock lock(mutex_);
        for (const Flight* on = &flight; on != nullptr && !on->is_over;) {
            if (on->pilot == std::this_thread::get_id()) return true;
            const auto next = waiting_.find(on->pilot);
            on = next == waiting_.end() ? nullptr : next->second;
        }
        return false;
    }

    /// Waits until it is over; false when it is not by then.
    bool wait(const Flight& flight, std::chrono::steady_clock::time_point until) {
        std::unique_lock lock(mutex_);
        const auto me = waiting_.insert_or_assign(std::this_thread::get_id(), &flight).first->first;
        const bool is_over = over_.wait_until(lock, until, [&] { return flight.is_over; });
        waiting_.erase(me);
        return is_over;
    }

    void land(const std::string& key, const std::shared_ptr<Flight>& flight,
              std::shared_ptr<const std::string> value) noexcept {
        {
            const std::scoped_lock lock(mutex_);
            flight->is_over = true;
            flight->value = std::move(value);
            all_.erase(key);
        }
        over_.notify_all();
    }

private:
    std::mutex mutex_;
    std::condition_variable over_;
    std::unordered_map<std::string, std::shared_ptr<Flight>> all_;
    std::unordered_map<std::thread::id, const Flight*> waiting_;  // what threads wait for
};

}  // namespace sab::cache
