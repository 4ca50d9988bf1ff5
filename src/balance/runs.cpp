#include "balance/runs.h"

#include <algorithm>
#include <limits>

namespace sab {
namespace {

constexpr double unlimited = std::numeric_limits<double>::infinity();
constexpr double least_interval = 1e-6;  // of the bisection, to the largest cost

}  // namespace

void PaddedShape::add(std::span<const double> lengths) {
    ++count;
    for (std::size_t j = 0; j < lengths.size(); ++j) longest[j] = std::max(longest[j], lengths[j]);
}

double PaddedShape::cost(const Cost& cost, std::size_t columns) const {
    return count == 0 ? 0 : cost(count, first_of(longest, columns));
}

/// How many of the first samples are in one run: all budgets are kept, and no balanced cost is more
/// than `limit`.
std::size_t Runs::run_length(std::span<const double> lengths, double limit) const {
    const std::size_t samples = lengths.size() / columns_;
    const auto fits = [&](uint64_t count, std::span<const double> longest) {
        for (const Budget& budget : budgets_)
            if (budget.cost(count, longest) > budget.limit) return false;
        for (std::size_t k = 0; k < balance_.size() && limit < unlimited; ++k)
            if (balance_[k](count, longest) * scales_[k] > limit) return false;
        return true;
    };
    std::size_t length = 1;
    if (columns_ == 1) {  // the first is the longest
        const std::span<const double> longest = lengths.first(1);
        std::size_t too_many = samples + 1;
        for (std::size_t step = 1; length + step < too_many; step *= 2)
            fits(length + step, longest) ? length += step : too_many = length + step;
        while (too_many - length > 1) {
            const std::size_t middle = length + (too_many - length) / 2;
            (fits(middle, longest) ? length : too_many) = middle;
        }
        return length;
    }
    PaddedShape run;
    run.add(lengths.first(columns_));
    for (; length < samples; ++length) {
        run.add(lengths.subspan(length * columns_, columns_));
        if (!fits(length + 1, first_of(run.longest, columns_))) break;
    }
    return length;
}

std::size_t Runs::fewest(std::span<const double> lengths) const {
    std::size_t runs = 0;
    for (; !lengths.empty(); ++runs)
        lengths = lengths.subspan(run_length(lengths, unlimited) * columns_);
    return runs;
}

/// The ends of the runs.
std::vector<std::size_t> Runs::cut(std::span<const double> lengths, double limit) const {
    std::vector<std::size_t> ends;
    for (std::size_t first = 0; first * columns_ < lengths.size(); ends.push_back(first))
        first += run_length(lengths.subspan(first * columns_), limit);
    return ends;
}

double Runs::largest_cost(std::span<const double> lengths,
                          std::span<const std::size_t> ends) const {
    double largest = 0;
    std::size_t begin = 0;
    for (const std::size_t end : ends) {
        PaddedShape run;
        for (; begin < end; ++begin) run.add(lengths.subspan(begin * columns_, columns_));
        for (std::size_t k = 0; k < balance_.size(); ++k)
            largest = std::max(largest, run.cost(balance_[k], columns_) * scales_[k]);
    }
    return largest;
}

std::vector<std::size_t> Runs::even(std::span<const double> lengths, std::size_t most) const {
    std::vector<std::size_t> best = cut(lengths, unlimited);
    double high = largest_cost(lengths, best), low = 0;
    while (high - low > least_interval * high) {
        const double middle = low + (high - low) / 2;
        std::vector<std::size_t> ends = cut(lengths, middle);
        const bool is_enough = ends.size() <= most;
        (is_enough ? high : low) = middle;
        if (is_enough) best = std::move(ends);
    }
    return best;
}

}  // namespace sab
