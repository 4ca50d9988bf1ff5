#pragma once
/// Where the sorted order is cut into buckets.

#include <cstdint>
#include <functional>
#include <unordered_map>
#include <vector>

#include "plan/sorted.h"

namespace sab {

/// A bucket: the sorted places [begin, end) and the samples in a full batch of them.
struct Cut {
    uint32_t begin;
    uint32_t end;
    uint64_t batch_size;
    uint64_t batches() const { return (end - begin + batch_size - 1) / batch_size; }  // a tail counts
};

/// Cuts the places [begin, end) of a sorted order. All cuts are given in ascending order and cover the places without a gap.
class Cutter {
public:
    /// `padded` is the padded length of a size; `capacity` the samples in a full batch whose longest has that size, at least 1.
    Cutter(const Sorted& sorted, uint32_t begin, uint32_t end, std::function<double(double)> padded, std::function<uint64_t(double)> capacity);

    /// [b0, b1), [b1, b2), ... of ascending `boundaries`: one cut each, possibly empty.
    std::vector<Cut> by_boundaries(const std::vector<double>& boundaries);

    /// At most `count` intervals of size with the least padding when each sample is padded to its interval's longest: exact. Dynamic programming
    /// by divide and conquer, which the quadrangle inequality of the cost allows (F. F. Yao, 1980).
    std::vector<Cut> optimal(std::size_t count, const Progress& progress);

    /// Runs of `batches` full batches, from the longest down; what is left joins the last run.
    std::vector<Cut> by_rank(uint64_t batches);

    /// Whole-batch runs, as long as each adds about the same padding: at the optimum of (padding + weight * buckets) every bucket pads the same
    /// amount. The amount is searched for, so that the share of padding stays under `target` and, with a `lower_bound`, the batches under
    /// (1 + target) * lower_bound. Runs have at least `most` batches, but among the longest 1 % of the samples; where the target is out of reach
    /// with that, half as many and so on, down to `fewest`.
    std::vector<Cut> automatic(double target, uint64_t fewest, uint64_t most, uint64_t lower_bound, const Progress& progress);

    /// `count` runs of full batches with one tail, from the optimal intervals on by moving batches while that pads less: within about 1 % of
    /// the least padded total.
    std::vector<Cut> by_shapes(std::size_t count, const Progress& progress);

    struct Waste {
        double padded = 0;  ///< each sample padded to its cut's longest
        double padding = 0;
        uint64_t batches = 0;
    };
    Waste waste(const std::vector<Cut>& cuts);

    double total(uint32_t begin, uint32_t end) const { return total_before(end) - total_before(begin); }
    std::size_t level_at(uint32_t place) const;

private:
    double total_before(uint32_t place) const;
    double padded_at(uint32_t place) { return padded_(sorted_.level_size[level_at(place)]); }
    uint64_t capacity_at(uint32_t place);
    Cut cut(uint32_t begin, uint32_t end);
    double padding(const Cut& cut);
    /// Whole-batch runs from the longest down; `wanted(end, batch_size, most)` says how many batches. A rest of under `fewest` joins the last run.
    std::vector<Cut> runs(uint64_t fewest, const std::function<uint64_t(uint32_t, uint64_t, uint64_t)>& wanted);
    std::vector<uint32_t> optimal_ends(std::size_t count, const Progress& progress);

    const Sorted& sorted_;
    uint32_t begin_, end_;
    std::function<double(double)> padded_;
    std::function<uint64_t(double)> capacity_;
    std::vector<double> totals_;                            ///< sum of sizes before each level
    std::unordered_map<std::size_t, uint64_t> capacities_;  ///< of the levels asked about: a callback may be dear
};

}  // namespace sab
