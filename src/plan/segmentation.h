#pragma once
/// Divides a sequence into segments whose total cost is least.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <type_traits>
#include <vector>

#include "base/progress.h"

namespace sab {

/// How a row of the dynamic programme is filled. Not used with LinearCost.
enum class Rows {
    /// by divide and conquer, which costs allow that satisfy the quadrangle inequality (F. F. Yao,
    /// 1980)
    divided,
    plain  ///< by trying all: for any cost
};

/// A segment costs fixed[end - 1] + each[end - 1] * (first[end] - first[begin]), where `each` never
/// decreases and `first` always increases. A row takes time in proportion to its length.
struct LinearCost {
    const double* fixed;
    const double* each;
    const double* first;  ///< whole numbers
    double operator()(std::size_t begin, std::size_t end) const {
        return fixed[end - 1] + each[end - 1] * (first[end] - first[begin]);
    }
};

/// Where a segment may end.
struct Ends {
    std::size_t low, high;
};

/// Where each of `count` segments of [0, items) may end. No segment is empty. With `or_one_fewer`
/// the last but one may also end at the end.
inline std::vector<Ends> all_ends(std::size_t items, std::size_t count, bool or_one_fewer) {
    std::vector<Ends> ends;
    for (std::size_t k = 1; k < count; ++k) ends.push_back({k, items - (count - k) + or_one_fewer});
    ends.push_back({items, items});
    return ends;
}

template <class CostOf>
class Segmentation {
public:
    Segmentation(std::span<const Ends> ends, Rows rows, const CostOf& cost, std::size_t most_kept)
        : ends_(ends),
          rows_(rows),
          cost_(cost),
          most_kept_(most_kept),
          best_(ends.back().high + 1, infinite),
          next_(best_),
          from_(ends.size()) {}

    /// Fills rows in blocks. If there are several blocks, only the choices of the last block are
    /// kept. Those of the others are computed again, from the row before the block, with the same
    /// result.
    std::vector<uint32_t> find(const Progress& progress) {
        const std::size_t items = ends_.back().high, block = rows_of_a_block();
        std::size_t count = ends_.size();
        std::vector<std::vector<double>> before;
        total_ = block < count ? 2 * count : count;
        for (std::size_t j = ends_[0].low; j <= ends_[0].high; ++j)
            best_[j] = cost_(std::size_t{0}, j);
        for (std::size_t first = 1; first < count; first += block) {
            if (block < count) before.push_back(best_);
            fill_rows(first, std::min(first + block, count), progress);
        }
        if (count > 1 && ends_[count - 2].high == items && next_[items] < best_[items]) --count;
        std::vector<uint32_t> found(count);
        std::size_t j = items;
        for (std::size_t k = count; k-- > 0;) {
            found[k] = static_cast<uint32_t>(j);
            if (k == 0) break;
            if (from_[k].empty()) {
                const std::size_t which = (k - 1) / block;
                best_ = std::move(before[which]);
                fill_rows(1 + which * block, k + 1, progress);
            }
            j = from_[k][j - ends_[k].low];
        }
        return found;
    }

private:
    static constexpr double infinite = std::numeric_limits<double>::infinity();

    /// A block of b rows takes 4 bytes for each row and element, and 8 bytes for each block and
    /// element: least at b = sqrt(2 * rows).
    std::size_t rows_of_a_block() const {
        const std::size_t count = ends_.size();
        if (count * ends_.back().high <= most_kept_ / sizeof(uint32_t)) return count;
        return static_cast<std::size_t>(std::ceil(std::sqrt(2.0 * static_cast<double>(count))));
    }

    void fill_rows(std::size_t first, std::size_t last, const Progress& progress) {
        for (std::vector<uint32_t>& row : from_) std::vector<uint32_t>().swap(row);
        for (k_ = first; k_ < last; ++k_) {
            progress.report(++done_, total_);
            from_[k_].resize(ends_[k_].high - ends_[k_].low + 1);
            if constexpr (std::is_same_v<CostOf, LinearCost>)
                fill_by_lines();
            else if (rows_ == Rows::divided)
                fill_divided();
            else
                for (std::size_t j = ends_[k_].low; j <= ends_[k_].high; ++j) {
                    progress.report(done_, total_);
                    fill(j, ends_[k_ - 1].low, ends_[k_ - 1].high);
                }
            best_.swap(next_);
        }
    }

    struct Line {
        double best, first;
        uint32_t begin;
    };

    void set(std::size_t j, double least, std::size_t where) {
        next_[j] = least;
        from_[k_][j - ends_[k_].low] = static_cast<uint32_t>(where);
    }

    /// The last segment before j begins between `first` and `last`; the first of the cheapest is
    /// taken.
    std::size_t fill(std::size_t j, std::size_t first, std::size_t last) {
        last = std::min(last, j - 1);
        double least = infinite;
        // if all are infinite, those of further j are, too
        std::size_t where = last;
        for (std::size_t i = first; i <= last; ++i) {
            const double sum = best_[i] + cost_(i, j);
            if (sum < least) {
                least = sum;
                where = i;
            }
        }
        set(j, least, where);
        return where;
    }

    void fill_divided() {
        struct Task {
            std::size_t low, high, from_low, from_high;
        };
        std::vector<Task> tasks{
            {ends_[k_].low, ends_[k_].high, ends_[k_ - 1].low, ends_[k_ - 1].high}};
        while (!tasks.empty()) {
            const Task task = tasks.back();
            tasks.pop_back();
            if (task.low > task.high) continue;
            const std::size_t middle = (task.low + task.high) / 2;
            const std::size_t where = fill(middle, task.from_low, task.from_high);
            tasks.push_back({middle + 1, task.high, where, task.from_high});
            tasks.push_back({task.low, middle - 1, task.from_low, where});
        }
    }

    /// A segment that begins at i costs best[i] - each * first[i], a line over `each`, plus a term
    /// that is the same for all i. Each line falls more steeply than the one before and `each`
    /// never decreases, so the lowest line moves along the lower hull (convex hull trick).
    void fill_by_lines() {
        std::vector<Line>& hull = hull_;
        hull.resize(std::max(hull.size(), ends_[k_ - 1].high - ends_[k_ - 1].low + 1));
        const auto apart = [](const Line& a, const Line& b) { return b.first - a.first; };
        std::size_t lowest = 0, size = 0, i = ends_[k_ - 1].low;
        for (std::size_t j = ends_[k_].low; j <= ends_[k_].high; ++j) {
            for (; i < j && i <= ends_[k_ - 1].high; ++i) {
                const Line c{best_[i], cost_.first[i], static_cast<uint32_t>(i)};
                for (; size >= lowest + 2; --size) {
                    const Line &a = hull[size - 2], &b = hull[size - 1];
                    if ((b.best - a.best) * apart(b, c) < (c.best - b.best) * apart(a, b)) break;
                }
                hull[size++] = c;
            }
            const double each = cost_.each[j - 1];
            while (lowest + 1 < size && hull[lowest + 1].best - hull[lowest].best <
                                            each * apart(hull[lowest], hull[lowest + 1]))
                ++lowest;
            set(j, hull[lowest].best + cost_(hull[lowest].begin, j), hull[lowest].begin);
        }
    }

    std::span<const Ends> ends_;
    Rows rows_;
    const CostOf& cost_;
    std::size_t most_kept_;
    /// [j]: least cost of the elements before j in k_ segments, and in one more
    std::vector<double> best_, next_;
    std::vector<std::vector<uint32_t>> from_;  ///< by j: where the last of k_ + 1 segments begins
    std::vector<Line> hull_;
    std::size_t k_ = 0;
    uint64_t done_ = 0, total_ = 0;  ///< rows, for the progress
};

/// The ends of the segments whose total cost is least. If the last but one may end at the end, one
/// segment fewer if that costs less. `ends`: a subset of those of all_ends(); low and high always
/// increase, and low <= high. `cost(begin, end)` is infinite for a segment that is not allowed;
/// then no longer segment around it is allowed. Uses 4 bytes for each row and element up to
/// `most_kept` bytes. Beyond that it uses about 12 * sqrt(rows) bytes an element and takes twice
/// the time.
template <class CostOf>
std::vector<uint32_t> optimal_segments(std::span<const Ends> ends, Rows rows,
                                       const Progress& progress, const CostOf& cost,
                                       std::size_t most_kept = 64 << 20) {
    return Segmentation(ends, rows, cost, most_kept).find(progress);
}

}  // namespace sab
