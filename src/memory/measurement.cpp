/// Which batches to measure for a model.
#include <Eigen/Cholesky>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "memory/model.h"

namespace sab {

namespace {

struct Point {
    uint64_t count;
    double length;
};

void check_options(const sab_measurement_options& options) {
    const auto is_length = [](double length) { return length > 0 && std::isfinite(length); };
    check(is_length(options.shortest), "options.shortest", options.shortest,
          "must be finite and above 0");
    check(is_length(options.longest) && options.longest >= options.shortest, "options.longest",
          options.longest, "must be finite and at least the shortest, ", options.shortest);
    check(options.max_count >= 2, "options.max_count", options.max_count, "must be at least 2");
    check(options.degree == 1 || options.degree == 2, "options.degree", options.degree,
          "must be 1 or 2");
    const double limit = options.budget.limit;
    const bool has_cost = options.budget.cost != nullptr;
    check((has_cost ? limit > 0 : limit >= 0) && std::isfinite(limit), "options.budget.limit",
          limit,
          has_cost ? "must be finite and above 0 with a cost" : "must be finite and at least 0");
    check(options.max_count <= uint64_t{1} << 53, "options.max_count", options.max_count,
          "must be at most 2^53");
    check(options.longest <= 1e60, "options.longest", options.longest, "must be at most 1e60");
}

/// Lengths to choose from: evenly spaced ones, and ones with an even ratio.
std::vector<double> grid_of(const sab_measurement_options& options, std::size_t points) {
    const bool whole = options.shortest == std::floor(options.shortest) &&
                       options.longest == std::floor(options.longest);
    std::vector<double> grid;
    const int steps = std::max(16, static_cast<int>(std::sqrt(static_cast<double>(points))) * 2);
    for (int i = 0; i <= steps; ++i)
        for (const double length :
             {options.shortest + (options.longest - options.shortest) * i / steps,
              options.shortest *
                  std::pow(options.longest / options.shortest, static_cast<double>(i) / steps)})
            grid.push_back(
                std::clamp(whole ? std::round(length) : length, options.shortest, options.longest));
    std::ranges::sort(grid);
    grid.erase(std::unique(grid.begin(), grid.end()), grid.end());
    return grid;
}

/// Batches that are neither too large nor, by the cost that is given, too small to tell much.
std::vector<Point> candidates_of(const sab_measurement_options& options, std::size_t points) {
    const bool has_cost = options.budget.cost != nullptr;
    const Cost cost = read_cost(options.budget.cost, "options.budget.cost");
    const double limit = options.budget.limit, least = has_cost ? limit / 3 : 0,
                 most = has_cost    ? 0.9 * limit
                        : limit > 0 ? limit
                                    : 4 * options.longest;
    std::vector<Point> candidates;
    for (const double length : grid_of(options, points))
        for (uint64_t count = 1; count <= options.max_count;
             count += std::max<uint64_t>(1, count / 8)) {
            const double value = cost(count, length);
            if (value > most) break;
            if (value >= least) candidates.push_back({count, length});
        }
    if (candidates.size() < points && has_cost) {
        const double one = cost(1, options.shortest);
        check(one <= most, "options.budget.limit", limit, "one sample of length ", options.shortest,
              " costs ", one, ", more than nine tenths of it");
        const double all = cost(options.max_count, options.longest);
        check(all >= least, "options.budget.limit", limit,
              "no batch costs a third of it: ", options.max_count, " samples of length ",
              options.longest, " cost ", all);
    }
    check(candidates.size() >= points, "points", points, "the range has only ", candidates.size(),
          " different points: widen it (of one length alone sab_max_batch_find() says all)");
    return candidates;
}

/// The candidates that tell most of the terms, by a greedy D-optimal design: each point taken is
/// the one that multiplies the determinant of the information most.
std::vector<std::size_t> most_telling(const std::vector<Point>& candidates,
                                      const std::vector<std::vector<uint32_t>>& terms,
                                      std::size_t points) {
    const auto size = static_cast<Eigen::Index>(terms.size());
    Eigen::MatrixXd rows(static_cast<Eigen::Index>(candidates.size()), size);
    for (std::size_t i = 0; i < candidates.size(); ++i)
        for (Eigen::Index j = 0; j < size; ++j)
            rows(static_cast<Eigen::Index>(i), j) = term_value(
                std::array{static_cast<double>(candidates[i].count), candidates[i].length},
                terms[static_cast<std::size_t>(j)]);
    for (Eigen::Index j = 0; j < size; ++j) rows.col(j) /= rows.col(j).cwiseAbs().maxCoeff();

    Eigen::MatrixXd information = 1e-6 * Eigen::MatrixXd::Identity(size, size);
    std::vector<std::size_t> chosen;
    std::vector<bool> taken(candidates.size());
    while (chosen.size() < points) {
        const Eigen::LDLT<Eigen::MatrixXd> factor(information);
        std::size_t best = candidates.size();
        double most_said = -1;
        for (std::size_t i = 0; i < candidates.size(); ++i) {
            if (taken[i]) continue;
            const Eigen::VectorXd row = rows.row(static_cast<Eigen::Index>(i));
            const double said = row.dot(factor.solve(row));
            if (said > most_said) best = i, most_said = said;
        }
        taken[best] = true;
        chosen.push_back(best);
        const auto row = rows.row(static_cast<Eigen::Index>(best));
        information += row.transpose() * row;
    }
    return chosen;
}

}  // namespace

void measurement_points(const sab_measurement_options& options, std::span<uint64_t> counts,
                        std::span<double> lengths) {
    check_options(options);
    const auto terms = model_terms(SAB_MODEL_BATCH, options.degree, 2);
    const std::size_t points = counts.size();
    check(points > terms.size() && points <= 1000, "points", points, "must be from ",
          terms.size() + 1, " to 1000 for degree ", options.degree);
    const std::vector<Point> candidates = candidates_of(options, points);
    std::vector<std::size_t> chosen = most_telling(candidates, terms, points);
    std::ranges::sort(chosen, {}, [&](std::size_t i) {
        return static_cast<double>(candidates[i].count) * candidates[i].length;
    });
    for (std::size_t i = 0; i < chosen.size(); ++i) {
        counts[i] = candidates[chosen[i]].count;
        lengths[i] = candidates[chosen[i]].length;
    }
}

}  // namespace sab
