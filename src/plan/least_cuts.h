#pragma once
/// A row of places cut into stretches that cost least in sum.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "base/progress.h"

namespace sab {

/// How a row of the dynamic programme is filled.
enum class Rows {
    divided,  ///< by divide and conquer, which costs allow that satisfy the quadrangle inequality (F. F. Yao, 1980)
    plain     ///< by trying all: for any cost
};

/// The ends of `count` stretches of [0, places), none empty, whose costs have the least sum; with `or_one_fewer` of count - 1 where that is less. `count` is from 1 to
/// `places`. `cost(begin, end)` may be infinite, for what must not be; then it is for all longer stretches around it too.
template <class CostOf>
std::vector<uint32_t> least_cuts(std::size_t places, std::size_t count, Rows rows, bool or_one_fewer, const Progress& progress, const CostOf& cost) {
    constexpr double infinite = std::numeric_limits<double>::infinity();
    // best[j]: least cost of the places before j in k stretches; from[k][j]: where the last of them begins.
    std::vector<double> best(places + 1, infinite), next(places + 1, infinite);
    for (std::size_t j = 1; j <= places; ++j) best[j] = cost(std::size_t{0}, j);
    std::vector<std::vector<uint32_t>> from(count + 1);
    struct Task {
        std::size_t low, high, from_low, from_high;
    };
    std::vector<Task> tasks;
    for (std::size_t k = 2; k <= count; ++k) {
        progress.report(k, count);
        from[k].resize(places + 1);
        const auto fill = [&](std::size_t j, std::size_t first, std::size_t last) {
            double least = infinite;
            std::size_t where = std::min(last, j - 1);  // all infinite: so are all further j, and those before are not limited by this one
            for (std::size_t i = first; i <= std::min(last, j - 1); ++i) {
                const double sum = best[i] + cost(i, j);
                if (sum < least) {
                    least = sum;
                    where = i;
                }
            }
            next[j] = least;
            from[k][j] = static_cast<uint32_t>(where);
            return where;
        };
        if (rows == Rows::plain) {
            for (std::size_t j = k; j <= places; ++j) fill(j, k - 1, j - 1);
        } else {
            tasks.push_back({k, places, k - 1, places - 1});
        }
        while (!tasks.empty()) {
            const Task task = tasks.back();
            tasks.pop_back();
            if (task.low > task.high) continue;
            const std::size_t middle = (task.low + task.high) / 2;
            const std::size_t where = fill(middle, task.from_low, task.from_high);
            tasks.push_back({middle + 1, task.high, where, task.from_high});
            tasks.push_back({task.low, middle - 1, task.from_low, where});
        }
        best.swap(next);
    }
    if (or_one_fewer && count > 1 && next[places] < best[places]) --count;
    std::vector<uint32_t> ends(count);
    std::size_t j = places;
    for (std::size_t k = count; k >= 1; --k) {
        ends[k - 1] = static_cast<uint32_t>(j);
        if (k > 1) j = from[k][j];
    }
    return ends;
}

}  // namespace sab
