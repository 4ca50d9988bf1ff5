#pragma once
/// The buckets of samples with one size each.

#include <string>
#include <utility>
#include <vector>

#include "plan/batch_sizes.h"
#include "plan/boundaries.h"
#include "plan/plan.h"
#include "plan/second_buckets.h"

namespace sab {

/// The steps of making a plan of one column. The counts must outlive it.
class PlanBuilder {
public:
    PlanBuilder(const SizeCounts& counts, PlanOptions options);

    const BatchSizes& batch_sizes() const { return batch_sizes_; }
    BoundaryFinder finder() const {
        return BoundaryFinder(
            counts_, begin_, end_, [this](double size) { return batch_sizes_.padded(size, 0); },
            [this](double size) { return std::max<uint64_t>(largest_batch(size), 1); });
    }
    PlanFacts facts(const BoundaryFinder& finder) const;
    /// Divides the samples into buckets, of which there may be none. Sets the lower bound and the
    /// targets of the facts, and what automatic buckets waste.
    PlanRanges ranges(BoundaryFinder& finder, PlanFacts& facts, Waste& waste) const;
    /// The facts, the buckets and their lengths.
    PlanArrays make(std::string name) const;

private:
    const PlanOptions& options() const { return batch_sizes_.options(); }
    bool has_singles() const { return options().has_singles(); }
    uint64_t outside() const { return count_ - (end_ - begin_); }
    uint64_t largest_batch(double size) const {
        const double length = batch_sizes_.padded(size, 0);
        return batch_sizes_.largest({&length, 1});
    }
    void find_usable_samples();
    void leave_out_fewest();
    void check_any_left() const;
    [[noreturn]] void refuse_oversize() const;
    double least_batches() const;
    std::vector<BucketRange> shaped_ranges(BoundaryFinder& finder, std::size_t shapes) const;
    std::vector<BucketRange> singles(BoundaryFinder& finder, std::size_t& shapes) const;
    std::pair<std::vector<BucketRange>, Waste> ranges_of_shapes(BoundaryFinder& finder,
                                                                std::size_t shapes) const;
    std::vector<BucketRange> ranges_of_chosen_shapes(BoundaryFinder& finder, PlanFacts& facts,
                                                     std::vector<ShapePadding>& tried) const;
    PlanBuckets buckets(const BoundaryFinder& finder, const std::vector<BucketRange>& ranges,
                        const PlanFacts& facts) const;
    void add_bucket(const BoundaryFinder& finder, const BucketRange& range, std::size_t number,
                    PlanBuckets& made) const;

    const SizeCounts& counts_;
    const std::span<const double> distinct_;
    const BatchSizes batch_sizes_;
    const std::vector<double> boundaries_;
    const uint64_t count_;
    uint64_t begin_ = 0, end_ = 0;          ///< the samples within the boundaries and the budget
    std::vector<uint32_t> least_left_out_;  ///< see BoundaryFinder::left_out()
};

}  // namespace sab
