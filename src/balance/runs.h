#pragma once
/// Padded micro-batches of samples that are sorted by size: runs.

#include <cstdint>
#include <span>
#include <vector>

#include "balance/samples.h"
#include "cost/cost.h"

namespace sab {

/// What samples are padded to, and how many there are.
struct PaddedShape {
    uint64_t count = 0;
    PerColumn longest{};

    void add(std::span<const double> lengths);
    /// 0 without samples.
    double cost(const Cost& cost, std::size_t columns) const;
};

/// Cuts samples into runs. Lengths are those of samples sorted by size, longest first: of several
/// columns all lengths of the first sample, then those of the second, and so on.
class Runs {
public:
    /// What it is given must outlive it. `scales`: balanced costs are multiplied by them before
    /// they are compared.
    Runs(std::size_t columns, std::span<const Budget> budgets, std::span<const Cost> balance,
         const PerBudget& scales)
        : columns_(columns), budgets_(budgets), balance_(balance), scales_(scales) {}

    /// The number of runs that keep all budgets: with one column the fewest.
    std::size_t fewest(std::span<const double> lengths) const;
    /// The ends of at most so many runs, with the smallest largest cost. `most`: at least fewest().
    std::vector<std::size_t> even(std::span<const double> lengths, std::size_t most) const;
    /// Makes these runs the micro-batches from `part` on: `put(i, part)` of sample number i. Writes
    /// what they cost into `costs`: the first of all micro-batches, then the second of all, and so
    /// on. False where there are more of them.
    template <class Put>
    bool divide(std::span<const double> lengths, std::size_t most, std::size_t part,
                std::span<double> costs, Put&& put) const {
        const std::vector<std::size_t> ends = even(lengths, most);
        if (ends.size() > most) return false;
        std::size_t i = 0;
        for (const std::size_t end : ends) {
            PaddedShape run;
            for (; i < end; ++i) {
                run.add(lengths.subspan(i * columns_, columns_));
                put(i, static_cast<uint32_t>(part));
            }
            for (std::size_t k = 0; k < balance_.size(); ++k)
                costs[k * costs.size() / balance_.size() + part] = run.cost(balance_[k], columns_);
            ++part;
        }
        return true;
    }

private:
    std::size_t run_length(std::span<const double> lengths, double limit) const;
    std::vector<std::size_t> cut(std::span<const double> lengths, double limit) const;
    double largest_cost(std::span<const double> lengths, std::span<const std::size_t> ends) const;

    std::size_t columns_;
    std::span<const Budget> budgets_;
    std::span<const Cost> balance_;
    PerBudget scales_;
};

}  // namespace sab
