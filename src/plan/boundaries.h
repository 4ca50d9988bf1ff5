#pragma once
/// Where the sorted order is range into buckets.

#include <cstdint>
#include <functional>
#include <vector>

#include "plan/sorted.h"

namespace sab {

/// A bucket: the sorted offsets [begin, end) and the samples in a full batch of them.
struct BucketRange {
    uint32_t begin;
    uint32_t end;
    uint64_t batch_size;
    // a tail counts
    uint64_t batches() const { return (end - begin + batch_size - 1) / batch_size; }
};

/// Ranges the offsets [begin, end) of a sorted order. All ranges are given in ascending order and
/// cover the offsets without a gap.
class BoundaryFinder {
public:
    /// `padded` is the padded length of a size; `batch_size_for` the samples in a full batch whose
    /// longest has that size, at least 1.
    BoundaryFinder(const Sorted& sorted, uint32_t begin, uint32_t end,
                   std::function<double(double)> padded,
                   std::function<uint64_t(double)> batch_size_for);

    /// [b0, b1), [b1, b2), ... of ascending `boundaries`: one range each, possibly empty.
    std::vector<BucketRange> by_boundaries(const std::vector<double>& boundaries);

    /// At most `count` intervals of size with the least padding when each sample is padded to its
    /// interval's longest: exact. Dynamic programming by divide and conquer, which the quadrangle
    /// inequality of the cost allows (F. F. Yao, 1980).
    std::vector<BucketRange> optimal(std::size_t count, const Progress& progress);

    /// Runs of `batches` full batches, from the longest down; what is left joins the last run.
    std::vector<BucketRange> equal_buckets(uint64_t batches);

    /// Runs of at least `fewest` whole batches (a quarter of it, but up to 4, among the longest 1 %
    /// of the samples), with as few batches in sum as can be, and of those the least padding; never
    /// more than `equal`, which equal_buckets(fewest) gives. Dynamic programming over the number of
    /// batches so far, from the longest sample down: for each number of batches, the way that
    /// leaves the fewest samples is best. A run is never so long that it could be two.
    std::vector<BucketRange> by_fewest_batches(uint64_t fewest, std::vector<BucketRange> equal);

    struct Automatic {
        std::vector<BucketRange> ranges;
        uint64_t fewest;  ///< batches in a run
        double overhead;  ///< what overhead_of says of the ranges
        double nearest;   ///< the target where it was met, else the least overhead that was found
    };
    /// Whole-batch runs whose overhead, as `overhead_of` gives it, is at most `target`: those of
    /// by_fewest_batches() with the largest least number of batches that meets it, from `most` up,
    /// or, where that misses it, down to `fewest`.
    Automatic automatic(double target, uint64_t fewest, uint64_t most,
                        const std::function<double(const std::vector<BucketRange>&)>& overhead_of,
                        const Progress& progress);

    /// `count` runs of full batches with one tail, from the optimal intervals on by moving batches
    /// while that pads less: within about 1 % of the least padded total.
    std::vector<BucketRange> by_shapes(std::size_t count, const Progress& progress);

    struct Waste {
        double padded = 0;  ///< each sample padded to its range's longest
        double padding = 0;
        uint64_t batches = 0;
    };
    Waste waste(const std::vector<BucketRange>& ranges) const;

    double total(uint32_t begin, uint32_t end) const {
        return total_before(end) - total_before(begin);
    }
    std::size_t distinct_at(uint32_t offset) const;

private:
    double total_before(uint32_t offset) const;
    double padded_at(uint32_t offset) {
        return padded_(sorted_.distinct_sizes[distinct_at(offset)]);
    }
    uint64_t batch_size_at(uint32_t offset) { return batch_size_of(distinct_at(offset)); }
    BucketRange range(uint32_t begin, uint32_t end);
    std::size_t distinct_near(uint32_t offset, std::size_t hint) const;
    uint64_t batch_size_of(std::size_t distinct);
    std::vector<uint32_t> optimal_ends(std::size_t count, const Progress& progress);

    const Sorted& sorted_;
    uint32_t begin_, end_;
    std::function<double(double)> padded_;
    std::function<uint64_t(double)> batch_size_for_;
    std::vector<double> totals_;  ///< sum of sizes before each distinct
    /// by distinct, 0: not asked for yet, since a callback may be slow
    std::vector<uint64_t> batch_sizes_;
};

}  // namespace sab
