#pragma once
/// Orders in which successive steps have equal sums.

#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

namespace sab {

/// Things whose order is to be steady: each has `kinds` amounts, finite and at least 0, at most
/// 2 * SAB_MAX_BUDGETS of them. All those of the first thing come first.
struct SteadyAmounts {
    std::span<const double> amounts;
    std::size_t kinds;

    std::size_t things() const { return amounts.size() / kinds; }
};

/// Orders things, of which `of_step` follow each other in a step, such that the sum of each amount
/// is nearly the same in all steps. No thing moves by more than `most_moved` steps. The things fill
/// whole steps and are fewer than 2^32. Returns which thing is at each place.
std::vector<uint32_t> steady_order(const SteadyAmounts& amounts, uint64_t of_step,
                                   uint64_t most_moved);

/// Rearranges the batches of a step, by their costs, in micro-steps of one batch a rank. Those of a
/// micro-step cost about the same, the costliest come first, and the sums of the ranks are about
/// the same. Batch r of each micro-step belongs to the same rank.
void even_out_ranks(std::span<uint32_t> step, std::span<const double> costs, uint64_t ranks);

/// How much the costs of successive steps differ.
class StepDeviation {
public:
    void add(double cost) {
        if (steps_ > 0) {  // the last step is not counted
            const double from_mean = last_ - mean_;
            mean_ += from_mean / static_cast<double>(steps_);
            squares_ += from_mean * (last_ - mean_);
        }
        last_ = cost;
        ++steps_;
    }
    /// Standard deviation, to the mean.
    double value() const {
        return steps_ > 2 && mean_ > 0
                   ? std::sqrt(squares_ / static_cast<double>(steps_ - 1)) / mean_
                   : 0;
    }

private:
    uint64_t steps_ = 0;
    double last_ = 0, mean_ = 0, squares_ = 0;  ///< of the steps before the last: mean, and the
                                                ///< sum of squares of the differences from it
};

}  // namespace sab
