#include "plan/batch_sizes.h"

#include <algorithm>
#include <cmath>

namespace sab {

double round_up(double length, double multiple) {
    if (multiple <= 0) return length;
    const double rounded = std::ceil(length / multiple) * multiple;
    // A multiple too fine for the length's own precision may round to less.
    return std::max(length, rounded < length ? rounded + multiple : rounded);
}

std::string rounding_hint(std::span<const double> multiples) {
    for (const double multiple : multiples)
        if (multiple > 0) return text(" (lengths are rounded up to multiples of ", multiple, ")");
    return "";
}

BatchSizes::BatchSizes(PlanOptions options, std::span<const std::span<const double>> distinct,
                       std::size_t count)
    : options_(std::move(options)),
      columns_(distinct.size()),
      count_(count),
      cost_(budgets().empty() ? Cost(nullptr, columns_) : budgets()[0].cost) {
    if (options_.batch_sizes.empty() && options_.batch_size_multiple == 1)
        for (const Budget& budget : budgets())
            if (const auto weights = budget.cost.weights()) weights_.push_back(*weights);
}

PerColumn BatchSizes::padded(std::span<const double> sizes) const {
    PerColumn lengths{};
    for (std::size_t j = 0; j < columns_; ++j) lengths[j] = padded(sizes[j], j);
    return lengths;
}

uint64_t BatchSizes::largest(std::span<const double> lengths,
                             std::span<const Budget> budgets) const {
    // A batch of all samples may be a tail, if tails are kept: rounding down would make two of it.
    const uint64_t multiple = options_.batch_size_multiple;
    uint64_t fits = count_;
    if (options_.tail == SAB_TAIL_KEEP && fits > multiple)
        fits += (multiple - fits % multiple) % multiple;
    if (options_.max_batch_size > 0) fits = std::min(fits, options_.max_batch_size);
    for (const Budget& budget : budgets)
        fits = budget.cost.largest_count(lengths, budget.limit, fits);
    if (fits >= multiple) fits -= fits % multiple;
    if (options_.batch_sizes.size() == 1 && fits > 0)
        fits = budgets.empty() ? options_.batch_sizes[0] : std::min(fits, options_.batch_sizes[0]);
    if (options_.max_batch_size > 0) fits = std::min(fits, options_.max_batch_size);
    return fits;
}

uint64_t BatchSizes::of_bucket(std::size_t bucket, uint64_t fits) const {
    const std::vector<uint64_t>& sizes = options_.batch_sizes;
    if (sizes.empty()) return fits;
    const uint64_t given = sizes[sizes.size() == 1 ? 0 : bucket];
    fits = budgets().empty() ? given : std::min(fits, given);
    return options_.max_batch_size > 0 ? std::min(fits, options_.max_batch_size) : fits;
}

uint64_t BatchSizes::estimate(std::span<const double> lengths) const {
    if (weights_.size() != budgets().size() || weights_.empty())
        return std::max<uint64_t>(largest(lengths), 1);
    auto fits = static_cast<double>(
        options_.max_batch_size > 0 ? std::min<uint64_t>(count_, options_.max_batch_size) : count_);
    for (std::size_t i = 0; i < weights_.size(); ++i) {
        double cost = 0;
        for (std::size_t j = 0; j < columns_; ++j) cost += weights_[i][j] * lengths[j];
        // Rounding must not make it less than largest(), whose batches a box is made of.
        fits = std::min(fits, budgets()[i].limit / cost * (1 + 1e-9));
    }
    return std::max<uint64_t>(static_cast<uint64_t>(fits), 1);
}

double BatchSizes::smooth(std::span<const double> lengths) const {
    uint64_t most = count_;
    if (options_.max_batch_size > 0) most = std::min(most, options_.max_batch_size);
    if (options_.batch_sizes.size() == 1) most = std::min(most, options_.batch_sizes[0]);
    double squares = 0;
    for (const Budget& budget : budgets()) {
        double share = budget.cost(1, lengths) / budget.limit;
        if (share <= 1 && !budget.cost.is_proportional()) {
            const uint64_t fits = budget.cost.largest_count(lengths, budget.limit, most);
            const double cost = budget.cost(fits, lengths), next = budget.cost(fits + 1, lengths),
                         part = next > cost ? (budget.limit - cost) / (next - cost) : 1;
            share = 1 / (static_cast<double>(fits) + std::clamp(part, 0.0, 1.0));
        }
        squares += share * share;
    }
    const auto limit = static_cast<double>(most);
    const double mean = std::sqrt(squares / static_cast<double>(budgets().size()));
    return mean * limit > 1 ? 1 / mean : limit;
}

bool BatchSizes::fits_alone(std::span<const double> lengths) const {
    return std::ranges::all_of(
        budgets(), [&](const Budget& budget) { return budget.cost(1, lengths) <= budget.limit; });
}

std::string BatchSizes::limits() const {
    std::string list = budgets().size() > 1 ? "budgets" : "budget";
    for (const Budget& budget : budgets()) list += text(", ", budget.limit);
    return list + rounding();
}

std::string BatchSizes::rounding() const {
    return rounding_hint(first_of(options_.length_multiples, columns_));
}

std::string BatchSizes::exceeded(std::span<const double> lengths) const {
    std::size_t i = 0;
    while (i + 1 < budgets().size() && budgets()[i].cost(1, lengths) <= budgets()[i].limit) ++i;
    return (budgets().size() == 1 ? text("the budget, ", budgets()[i].limit)
                                  : text("options.budgets[", i, "].limit = ", budgets()[i].limit)) +
           rounding();
}

void BatchSizes::refuse_fall(std::size_t budget, uint64_t count, const PerColumn& lengths,
                             const PerColumn& shorter) const {
    const Cost& cost = budgets()[budget].cost;
    const std::span<const double> long_ones = first_of(lengths, columns_),
                                  short_ones = first_of(shorter, columns_);
    const double here = cost(count, long_ones), before = cost(count, short_ones);
    if (here < before * (1 - 1e-9))
        refuse_argument(named("options.budgets[", budget, "].cost"), no_value,
                        cost_text(count, long_ones), " = ", here, " must not be less than ",
                        cost_text(count, short_ones), " = ", before);
}

void BatchSizes::check_rises(std::span<const std::span<const double>> distinct) const {
    constexpr std::size_t most_tried = 256;  // lengths of a column
    PerColumn least{};
    for (std::size_t j = 0; j < columns_; ++j) least[j] = padded(distinct[j][0], j);
    for (std::size_t i = 0; i < budgets().size(); ++i) {
        const Cost& cost = budgets()[i].cost;
        if (!cost.is_callback()) {
            const std::span<const double> given = first_of(least, columns_);
            const double one = cost(1, given), two = cost(2, given);
            if (two < one)
                refuse_argument(named("options.budgets[", i, "].cost"), no_value,
                                cost_text(2, given), " = ", two, " is less than ",
                                cost_text(1, given), " = ", one,
                                ": its terms do not hold for lengths so short");
            continue;
        }
        for (std::size_t j = 0; j < columns_; ++j) {
            const std::size_t last = distinct[j].size() - 1, steps = std::min(last, most_tried);
            PerColumn before = least, lengths = least;
            for (std::size_t step = 1; step <= steps; ++step) {
                if (cost(1, first_of(before, columns_)) > budgets()[i].limit) break;
                lengths[j] = padded(distinct[j][step * last / steps], j);
                refuse_fall(i, 1, lengths, before);
                before = lengths;
            }
        }
    }
}

void BatchSizes::check_rises(uint64_t count, PerColumn shortest, PerColumn longest) const {
    for (std::size_t i = 0; i < budgets().size(); ++i)
        for (std::size_t j = 0; j < columns_ && budgets()[i].cost.is_callback(); ++j) {
            PerColumn shorter = longest;
            shorter[j] = shortest[j];
            refuse_fall(i, count, longest, shorter);
        }
}

}  // namespace sab
