#pragma once
/// Rows of numbers, of which the first that is within some limits is found.

#include <algorithm>
#include <bit>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

namespace sab {

/// A binary tree over rows of as many numbers each: every node has the least of those below it.
/// With one number a row, a search takes logarithmic time.
class LeastTree {
public:
    static constexpr double infinity = std::numeric_limits<double>::infinity();

    /// `fill` is called with each row and its numbers, from the last row to the first.
    template <class Fill>
    void reset(std::size_t rows, std::size_t numbers, Fill&& fill) {
        leaves_ = std::bit_ceil(std::max<std::size_t>(rows, 1));
        numbers_ = numbers;
        least_.assign(2 * leaves_ * numbers, infinity);
        for (std::size_t row = rows; row-- > 0;) fill(row, at(leaves_ + row));
        for (std::size_t node = leaves_; --node > 0;) find_least(node);
    }
    std::span<const double> operator[](std::size_t row) const {
        return {least_.data() + (leaves_ + row) * numbers_, numbers_};
    }
    /// Changes a row: `change` is called with its numbers.
    template <class Change>
    void change(std::size_t row, Change&& change) {
        change(at(leaves_ + row));
        for (std::size_t node = (leaves_ + row) / 2; node > 0; node /= 2) find_least(node);
    }
    /// The first row from `from` to below `end` with no number above its limit; else `end`, also
    /// after `looks` at nodes: with several numbers a row there may be as many as nodes.
    std::size_t first(std::size_t from, std::size_t end, const double* limits,
                      std::size_t looks = std::numeric_limits<std::size_t>::max()) const {
        if (from >= end) return end;
        std::size_t node = leaves_ + from;
        while (node % 2 == 0) node /= 2;
        for (; looks > 0; --looks) {
            if (is_within(node, limits)) {
                if (node >= leaves_) return std::min(node - leaves_, end);
                node *= 2;
                continue;
            }
            while (node % 2 == 1) node /= 2;
            if (node == 0) return end;
            ++node;
            const auto levels = std::bit_width(leaves_) - std::bit_width(node);
            if ((node << levels) - leaves_ >= end) return end;
        }
        return end;
    }

private:
    std::span<double> at(std::size_t node) { return {least_.data() + node * numbers_, numbers_}; }
    bool is_within(std::size_t node, const double* limits) const {
        for (std::size_t k = 0; k < numbers_; ++k)
            if (!(least_[node * numbers_ + k] <= limits[k])) return false;
        return true;
    }
    void find_least(std::size_t node) {
        for (std::size_t k = 0; k < numbers_; ++k)
            least_[node * numbers_ + k] =
                std::min(least_[2 * node * numbers_ + k], least_[(2 * node + 1) * numbers_ + k]);
    }

    std::size_t leaves_ = 1, numbers_ = 0;
    std::vector<double> least_;
};

}  // namespace sab
