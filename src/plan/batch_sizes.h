#pragma once
/// How many samples make a batch, by the budgets and the other rules of a plan.

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plan/plan_options.h"

namespace sab {

double round_up(double length, double multiple);
/// What a caller may have forgotten, in messages: a length is over a budget once it is rounded up.
/// "" where lengths are as they are.
std::string rounding_hint(std::span<const double> multiples);

class BatchSizes {
public:
    /// `distinct`: the distinct sizes of each column, ascending. `count`: of the samples.
    BatchSizes(PlanOptions options, std::span<const std::span<const double>> distinct,
               std::size_t count);

    const PlanOptions& options() const { return options_; }
    std::size_t columns() const { return columns_; }
    std::span<const Budget> budgets() const { return options_.budgets; }
    /// The cost of the first budget; the padded total where there is none.
    const Cost& cost() const { return cost_; }
    /// Of a bucket of the boundaries, which may have a batch size of its own. `fits`: by the
    /// budgets.
    uint64_t of_bucket(std::size_t bucket, uint64_t fits) const;

    double padded(double size, std::size_t column) const {
        return round_up(size, options_.length_multiples[column]);
    }
    PerColumn padded(std::span<const double> sizes) const;

    // Lengths are padded.
    /// How many samples make a batch under some of the budgets; 0 when not even one fits them.
    uint64_t largest(std::span<const double> lengths, std::span<const Budget> budgets) const;
    uint64_t largest(std::span<const double> lengths) const { return largest(lengths, budgets()); }
    /// largest(), at least 1, or a little off where one evaluation of the costs tells it.
    uint64_t estimate(std::span<const double> lengths) const;
    /// A number of samples that is not whole, to compare costs of lengths. With several budgets it
    /// also falls where another one still limits the samples; it is then largest() or more.
    double smooth(std::span<const double> lengths) const;
    bool fits_alone(std::span<const double> lengths) const;
    /// Whether the fewest samples that a batch may have fit the budgets.
    bool fits_fewest(std::span<const double> lengths) const {
        return options_.min_batch_size <= 1 || largest(lengths) >= options_.min_batch_size;
    }
    /// No batch holds more samples of a size than a budget pays for, so each sample takes at least
    /// its share of one batch. The sum of the shares by the budget that needs most batches.
    /// `each_size(add)` calls add(sizes, samples) for all sizes, which are not padded.
    template <class EachSize>
    double least_batches(EachSize&& each_size) const {
        if (budgets().empty()) return sum_of_shares({}, each_size);
        double most = 0;
        for (const Budget& budget : budgets())
            most = std::max(most, sum_of_shares({&budget, 1}, each_size));
        return most;
    }

    // For messages:
    std::string limits() const;
    /// The first budget that a sample of these lengths exceeds alone.
    std::string exceeded(std::span<const double> lengths) const;
    std::string rounding() const;
    /// Refuses costs that fall: terms of which two of the shortest samples cost less than one, and
    /// callbacks that decrease as a column grows, the others being the shortest.
    void check_rises(std::span<const std::span<const double>> distinct) const;
    /// Refuses callbacks by which a batch of these lengths costs less than one that is as short as
    /// `shortest` in a column.
    void check_rises(uint64_t count, PerColumn shortest, PerColumn longest) const;

private:
    void refuse_fall(std::size_t budget, uint64_t count, const PerColumn& lengths,
                     const PerColumn& shorter) const;
    template <class EachSize>
    double sum_of_shares(std::span<const Budget> budgets, EachSize&& each_size) const {
        const bool by_cost =
            !budgets.empty() && budgets[0].cost.is_proportional() && options_.batch_sizes.empty();
        double sum = 0;
        uint64_t count = 0;
        each_size([&](std::span<const double> sizes, uint64_t samples) {
            count += samples;
            sum +=
                by_cost
                    ? budgets[0].cost(samples, sizes)
                    : static_cast<double>(samples) /
                          static_cast<double>(largest(first_of(padded(sizes), columns_), budgets));
        });
        if (!by_cost) return sum;
        sum /= budgets[0].limit;
        return options_.max_batch_size == 0
                   ? sum
                   : std::max(sum, static_cast<double>(count) /
                                       static_cast<double>(options_.max_batch_size));
    }

    PlanOptions options_;
    std::size_t columns_, count_;
    Cost cost_;
    /// of the budgets, if all are padded totals and nothing else limits a batch but a largest size
    std::vector<PerColumn> weights_{};
};

}  // namespace sab
