#pragma once
/// Something that may be out of reach: left alone for a while after it failed, then tried again by
/// one caller.

#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

namespace sab::cache {

using Clock = std::chrono::steady_clock;

class Outage {
public:
    /// `what` is back, the log says; why it failed is said by who found out.
    explicit Outage(std::string what) : what_(std::move(what)) {}

    /// The right to use it once. Says how it went, if it knows.
    class Turn {
    public:
        Turn(Outage& outage, uint64_t number, bool is_trial)
            : outage_(&outage), number_(number), is_trial_(is_trial) {}
        Turn(Turn&& other) noexcept
            : outage_(std::exchange(other.outage_, nullptr)),
              number_(other.number_),
              is_trial_(other.is_trial_) {}
        Turn(const Turn&) = delete;
        Turn& operator=(const Turn&) = delete;
        Turn& operator=(Turn&&) = delete;
        ~Turn();
        void failed(const std::string& why);
        void succeeded();

    private:
        Outage* outage_;
        uint64_t number_;  // of outages when it was given
        bool is_trial_;
    };

    /// None while it is to be left alone; `why` is then what it failed for.
    std::optional<Turn> turn(std::string& why);
    /// It may be over: the next caller tries.
    void try_again();

private:
    const std::string what_;
    std::mutex mutex_;
    bool is_out_ = false, is_tried_ = false;
    uint64_t number_ = 0;
    std::string why_;
    Clock::duration pause_{};
    Clock::time_point again_;
};

}  // namespace sab::cache
