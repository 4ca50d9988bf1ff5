/// Which batches to measure for a model.
#include <Eigen/Cholesky>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "base/options.h"
#include "memory/model.h"

namespace sab {

namespace {

/// The range of padded lengths of a column.
struct Range {
    double shortest, longest;
};

struct Point {
    uint64_t count;
    PerColumn lengths;
};

std::vector<Range> read_ranges(const sab_measurement_options& options) {
    const std::string why = refused_columns(options.column_count, options.degree);
    check(why.empty(), "options.column_count", options.column_count, std::string_view(why));
    require(options.shortest, "options.shortest");
    require(options.longest, "options.longest");
    std::vector<Range> ranges;
    for (std::size_t j = 0; j < options.column_count; ++j) {
        const Range range{options.shortest[j], options.longest[j]};
        const bool may_be_zero = options.column_count > 1;
        check((range.shortest > 0 || (may_be_zero && range.shortest == 0)) &&
                  std::isfinite(range.shortest),
              text("options.shortest[", j, "]"), range.shortest,
              may_be_zero ? "must be finite and at least 0" : "must be finite and above 0");
        check(range.longest > 0 && std::isfinite(range.longest) && range.longest >= range.shortest,
              text("options.longest[", j, "]"), range.longest,
              "must be finite and at least the shortest, ", range.shortest);
        check(range.longest <= 1e60, text("options.longest[", j, "]"), range.longest,
              "must be at most 1e60");
        ranges.push_back(range);
    }
    return ranges;
}

void check_options(const sab_measurement_options& options) {
    check(options.max_count >= 2, "options.max_count", options.max_count, "must be at least 2");
    check(options.degree == 1 || options.degree == 2, "options.degree", options.degree,
          "must be 1 or 2");
    if (options.budget != nullptr) {
        const double limit = options.budget->limit;
        check(limit > 0 && std::isfinite(limit), "options.budget.limit", limit,
              "must be finite and above 0");
        check_reserved(options.budget->reserved, "options.budget");
    }
    check(options.max_count <= uint64_t{1} << 53, "options.max_count", options.max_count,
          "must be at most 2^53");
}

/// Lengths of a column to choose from: evenly spaced ones, and ones with an even ratio.
std::vector<double> grid_of(const Range& range, int steps) {
    const auto [shortest, longest] = range;
    const bool whole = shortest == std::floor(shortest) && longest == std::floor(longest);
    const double first = shortest > 0 ? shortest : longest / steps;
    std::vector<double> grid;
    for (int i = 0; i <= steps; ++i)
        for (const double length :
             {shortest + (longest - shortest) * i / steps,
              first * std::pow(longest / first, static_cast<double>(i) / steps)})
            grid.push_back(std::clamp(whole ? std::round(length) : length, shortest, longest));
    std::ranges::sort(grid);
    grid.erase(std::unique(grid.begin(), grid.end()), grid.end());
    return grid;
}

/// Calls `visit` with all combinations of the columns' lengths.
template <class Visit>
void each_shape(std::span<const std::vector<double>> grids, PerColumn& lengths, std::size_t column,
                const Visit& visit) {
    if (column == grids.size()) return visit();
    for (const double length : grids[column]) {
        lengths[column] = length;
        each_shape(grids, lengths, column + 1, visit);
    }
}

/// Batches that are neither too large nor, by the cost that is given, too small to tell much.
std::vector<Point> candidates_of(const sab_measurement_options& options,
                                 std::span<const Range> ranges, std::size_t points) {
    const std::size_t columns = ranges.size();
    const sab_budget budget = options.budget == nullptr ? sab_budget{} : *options.budget;
    const bool has_cost = budget.cost != nullptr;
    const Cost cost =
        read_cost(budget.cost, std::vector<std::string>(columns), "options.budget.cost");
    PerColumn shortest{}, longest{}, lengths{};
    // Of several columns there are fewer lengths in each, and fewer counts.
    const int finest = std::max(16, static_cast<int>(std::sqrt(static_cast<double>(points))) * 2);
    const int steps = std::max(2, columns == 1 ? finest : 16 >> (columns - 1));
    const uint64_t share = std::max(2, 8 >> (columns - 1));
    double longest_sum = 0;
    std::vector<std::vector<double>> grids;
    for (std::size_t j = 0; j < columns; ++j) {
        shortest[j] = ranges[j].shortest;
        longest[j] = ranges[j].longest;
        longest_sum += longest[j];
        grids.push_back(grid_of(ranges[j], steps));
    }
    const double limit = budget.limit, least = has_cost ? limit / 3 : 0,
                 most = has_cost    ? 0.9 * limit
                        : limit > 0 ? limit
                                    : 4 * longest_sum;
    std::vector<Point> candidates;
    each_shape(grids, lengths, 0, [&] {
        for (uint64_t count = 1; count <= options.max_count;
             count += std::max<uint64_t>(1, count / share)) {
            const double value = cost(count, first_of(lengths, columns));
            if (value > most) break;
            if (value >= least) candidates.push_back({count, lengths});
        }
    });
    if (candidates.size() < points && has_cost) {
        const double one = cost(1, first_of(shortest, columns));
        check(one <= most, "options.budget.limit", limit, "one sample of length ",
              lengths_text(first_of(shortest, columns)), " costs ", one,
              ", more than nine tenths of it");
        const double all = cost(options.max_count, first_of(longest, columns));
        check(all >= least, "options.budget.limit", limit,
              "no batch costs a third of it: ", options.max_count, " samples of length ",
              lengths_text(first_of(longest, columns)), " cost ", all);
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
    std::vector<double> features(terms[0].size());
    for (std::size_t i = 0; i < candidates.size(); ++i) {
        features[0] = static_cast<double>(candidates[i].count);
        std::copy_n(candidates[i].lengths.begin(), features.size() - 1, features.begin() + 1);
        for (Eigen::Index j = 0; j < size; ++j)
            rows(static_cast<Eigen::Index>(i), j) =
                term_value(features, terms[static_cast<std::size_t>(j)]);
    }
    for (Eigen::Index j = 0; j < size; ++j) rows.col(j) /= rows.col(j).cwiseAbs().maxCoeff();

    Eigen::MatrixXd information = 1e-6 * Eigen::MatrixXd::Identity(size, size);
    std::vector<std::size_t> chosen;
    std::vector<bool> taken(candidates.size());
    // What a point tells only becomes less: a point that told too little is not looked at again.
    constexpr double rounding = 1e-6;
    std::vector<double> told(candidates.size(), std::numeric_limits<double>::infinity());
    while (chosen.size() < points) {
        const Eigen::LDLT<Eigen::MatrixXd> factor(information);
        std::size_t best = candidates.size();
        double most_said = -1;
        for (std::size_t i = 0; i < candidates.size(); ++i) {
            if (taken[i] || told[i] < most_said * (1 - rounding)) continue;
            const Eigen::VectorXd row = rows.row(static_cast<Eigen::Index>(i));
            told[i] = row.dot(factor.solve(row));
            if (told[i] > most_said) best = i, most_said = told[i];
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
                        double* lengths) {
    check_options(options);
    const std::vector<Range> ranges = read_ranges(options);
    const auto terms = model_terms(SAB_MODEL_BATCH, options.degree, ranges.size() + 1);
    const std::size_t points = counts.size();
    check(points > terms.size() && points <= 1000, "points", points, "must be from ",
          terms.size() + 1, " to 1000 for degree ", options.degree);
    const std::vector<Point> candidates = candidates_of(options, ranges, points);
    std::vector<std::size_t> chosen = most_telling(candidates, terms, points);
    std::ranges::sort(chosen, {}, [&](std::size_t i) {
        const auto& each = candidates[i].lengths;
        return static_cast<double>(candidates[i].count) *
               std::accumulate(each.begin(), each.end(), 0.0);
    });
    for (std::size_t i = 0; i < chosen.size(); ++i) {
        counts[i] = candidates[chosen[i]].count;
        lengths = std::copy_n(candidates[chosen[i]].lengths.begin(), ranges.size(), lengths);
    }
}

}  // namespace sab
