#pragma once
/// What the searches of plans have in common: which steps they take, and how much they may do.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/progress.h"
#include "sampler/permutation.h"

namespace sab {

/// Late acceptance (Burke and Bykov 2017): a step is taken if it is no worse than the present, or
/// than the state some steps before. Unlike annealing it needs no exponential function, whose last
/// bits differ between platforms.
class LateAcceptance {
public:
    LateAcceptance(std::size_t memory, double value) : before_(memory, value), value_(value) {}
    bool accepts(double value) {
        double& before = before_[step_++ % before_.size()];
        const bool is_taken = value <= value_ || value <= before;
        if (is_taken) value_ = value;
        before = std::min(before, value_);
        return is_taken;
    }

private:
    std::vector<double> before_;
    double value_;
    std::size_t step_ = 0;
};

/// The same numbers in each search.
class SearchDraws {
public:
    uint32_t below(std::size_t count) {
        return static_cast<uint32_t>(multiply_high(mix(++drawn_), count));
    }

private:
    uint64_t drawn_ = 0;
};

/// Counts the work of a search, tells the thread's progress, and says when it is used up. Of
/// several searches, this one begins when `before` is done of `total`.
class SearchWork {
public:
    SearchWork(uint64_t most, uint64_t before, uint64_t total)
        : most_(most), before_(before), total_(total) {}
    bool is_left() const { return done_ < most_; }
    void add(uint64_t work) {
        done_ += work;
        if (done_ < next_) return;
        next_ = done_ + reported;
        report_progress(before_ + std::min(done_, most_), total_);
    }

private:
    static constexpr uint64_t reported = 65'536;
    uint64_t most_, before_, total_, done_ = 0, next_ = 0;
};

}  // namespace sab
