#pragma once
/// Finds where buckets begin in the sorted order.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "plan/automatic.h"
#include "plan/sorted.h"
#include "sab/plan.h"

namespace sab {

/// The samples of a bucket, [begin, end) of the sorted order, and the samples in a full batch.
struct BucketRange {
    uint64_t begin;
    uint64_t end;
    uint64_t batch_size;  /// with a smaller last one
    uint64_t batches() const { return (end - begin + batch_size - 1) / batch_size; }
};

/// The fewest batches of a bucket whose longest sample is among the longest 1 %: larger buckets
/// there would take many batches for few samples.
inline uint64_t fewest_of_longest(uint64_t fewest) {
    return std::max(std::min<uint64_t>(fewest, 4), fewest / 4);
}

/// Divides [begin, end) of a sorted order into buckets. The ranges are in ascending order and cover
/// it without a gap.
class BoundaryFinder {
public:
    /// `padded` is the padded length of a size; `batch_size_for` the samples in a full batch whose
    /// longest has that size, at least 1. The counts must outlive it.
    BoundaryFinder(const SizeCounts& counts, uint64_t begin, uint64_t end,
                   std::function<double(double)> padded,
                   std::function<uint64_t(double)> batch_size_for);

    /// [b0, b1), [b1, b2), ... of ascending `boundaries`: one range each, possibly empty.
    std::vector<BucketRange> by_boundaries(const std::vector<double>& boundaries);

    /// At most `count` intervals of size with the least padding when each sample is padded to its
    /// interval's longest: exact. Dynamic programming by divide and conquer, which the quadrangle
    /// inequality of the cost allows (F. F. Yao, 1980).
    std::vector<BucketRange> optimal(std::size_t count, const Progress& progress);

    /// Buckets of `batches` full batches, from the longest down. The remaining samples `join` the
    /// last bucket, or are buckets of fewer batches.
    std::vector<BucketRange> equal_buckets(uint64_t batches, bool join = true);

    /// Buckets of at least `fewest` whole batches (a quarter of it, but up to 4, among the longest
    /// 1 % of the samples) with the fewest batches in total and, among those, the least padding.
    /// Never more batches than `equal`, the result of equal_buckets(fewest). Dynamic programming
    /// over the number of batches so far, from the longest sample down: for each number of batches,
    /// the solution that leaves the fewest samples is best. No bucket is large enough to be divided
    /// into two.
    std::vector<BucketRange> by_fewest_batches(uint64_t fewest,
                                               const std::vector<BucketRange>& equal);
    /// The same of the samples of `others`, which begin with the shortest, with borders in the
    /// middle half of these, and with as few of `least` to `most` batches as can be. Empty if there
    /// are none.
    std::vector<BucketRange> between(std::span<const BucketRange> others, uint64_t fewest,
                                     uint64_t least, uint64_t most);

    using Tried = Automatic<std::vector<BucketRange>>;
    using OverheadOf = std::function<double(const std::vector<BucketRange>&)>;
    /// by_fewest_batches(), or equal buckets where these waste less and the others miss the target.
    Tried best_with(uint64_t batches, double target, const OverheadOf& overhead_of);
    /// Buckets of whole batches with an overhead of at most `target`: see find_automatic().
    Tried automatic(double target, uint64_t fewest, uint64_t most, const OverheadOf& overhead_of,
                    const Progress& progress);

    /// The number of batches when each one, from the longest samples down, has as many samples as
    /// fit. No division has fewer.
    uint64_t sorted_cut();

    /// What buckets are compared by that may have any number of batches.
    struct Charges {
        uint64_t fewest;     ///< batches of a bucket that has no surcharge
        uint64_t surcharge;  ///< in batches, for each bucket with fewer
        uint64_t cut;        ///< the result of sorted_cut()
        /// samples that a tail has at least; as large as can be: each bucket needs a whole batch,
        /// since its tail is left out
        uint64_t least_tail;
    };
    /// Buckets of whole batches, but for the tail of the shortest samples, with the least sum of
    /// batches and surcharges. Without a surcharge there are as many batches as in sorted_cut(), or
    /// up to a 32,768th more. Dynamic programming as in by_fewest_batches().
    std::vector<BucketRange> by_least_charge(const Charges& charges);
    /// Buckets that end where a size begins, each with a tail, with the least sum of batches,
    /// surcharges and padded total; all samples without padding count as much as the batches of
    /// sorted_cut(). Exact for sizes that differ by more than a 64th.
    std::vector<BucketRange> by_borders(const Charges& charges);
    /// Buckets of whole batches, but for the tail of the shortest samples, with the fewest batches
    /// and at most `most` shapes. Empty if they have more than `limit` batches, or are too many to
    /// try all.
    std::vector<BucketRange> by_few_shapes(std::size_t most, sab_tail tail, uint64_t limit);
    /// Of the results of both for falling surcharges, and at most `limit` batches, the first that
    /// meets the target. If none does, the first of whose padded total no other saves more than a
    /// quarter. Up to `loose_limit` batches are taken if that saves more than it adds.
    Tried with_small_buckets(double target, Charges charges, uint64_t limit, uint64_t loose_limit,
                             const OverheadOf& overhead_of, const Progress& progress);

    /// By number of the shortest samples: how few of these are left out if the others are divided
    /// into batches of at least `fewest`. Of at most 2^20 samples.
    std::vector<uint32_t> left_out(uint64_t fewest);
    /// `ranges`, of which the batches of the shortest samples are made anew so that as few samples
    /// are left out as `left_out` allows. As many batches as can be stay as they are.
    std::vector<BucketRange> with_least_left_out(std::span<const BucketRange> ranges,
                                                 std::span<const uint32_t> left_out);

    /// `count` buckets of full batches with one tail. Begins with the optimal intervals and moves
    /// batches between neighbours while that reduces the padding: within about 1 % of the least
    /// padded total.
    std::vector<BucketRange> by_shapes(std::size_t count, const Progress& progress);

    Waste waste(const std::vector<BucketRange>& ranges) const;
    /// The expected share of the pairs of batch mates that are mates in an epoch with the buckets
    /// `next`, too. `are_exchanged`: samples that are padded to the same length, and lie in several
    /// buckets.
    double meet_again(const std::vector<BucketRange>& ranges, const std::vector<BucketRange>& next,
                      bool are_exchanged) const;
    /// The samples of [begin, end) as batches of one.
    Waste waste_of_singles(uint64_t begin, uint64_t end) const;

    uint64_t samples() const { return end_ - begin_; }
    double total(uint64_t begin, uint64_t end) const {
        return total_before(end) - total_before(begin);
    }
    std::size_t distinct_at(uint64_t offset) const { return counts_.distinct_at(offset); }

private:
    struct Middle;
    std::vector<BucketRange> by_fewest_batches(uint64_t fewest, uint64_t samples,
                                               const Waste& limit, uint64_t at_least,
                                               const std::vector<Middle>& middles);
    double total_before(uint64_t offset) const;
    double padded_at(uint64_t offset) {
        return padded_(counts_.distinct_sizes[distinct_at(offset)]);
    }
    uint64_t batch_size_at(uint64_t offset) { return batch_size_of(distinct_at(offset)); }
    BucketRange range(uint64_t begin, uint64_t end);
    std::size_t distinct_near(uint64_t offset, std::size_t hint) const;
    uint64_t batch_size_of(std::size_t distinct);
    std::vector<uint64_t> optimal_ends(std::size_t count, const Progress& progress);

    const SizeCounts& counts_;
    uint64_t begin_, end_;
    std::function<double(double)> padded_;
    std::function<uint64_t(double)> batch_size_for_;
    std::vector<double> totals_;  ///< sum of the sizes before each distinct size
    /// of each distinct size; 0: not computed yet, since a callback may be slow
    std::vector<uint64_t> batch_sizes_;
};

}  // namespace sab
