#pragma once
/// Buckets for epochs with odd numbers, whose borders lie where those of the others do not.

#include <vector>

#include "plan/boundaries.h"
#include "plan/plan_options.h"

namespace sab {

/// The buckets of a plan: those of all epochs or, if there are others, of even ones.
struct PlanRanges {
    std::vector<BucketRange> first, second;
    std::vector<ShapePadding>
        shape_paddings{};  ///< that were tried, if it chose a number of shapes
};

/// Adds a second set to `only`, automatic buckets, which may change for it. Its borders lie in the
/// middle half of the buckets of the first one; the longest samples may have the same buckets in
/// both. Both have the same number of batches. There is none if that would add more than 1 % of the
/// batches, break a rule of the options, or win less than a tenth: the share of mates that meet
/// again times the padding. `singles`: batches of one sample beside the buckets.
PlanRanges with_second_buckets(BoundaryFinder& finder, std::vector<BucketRange> only,
                               const PlanOptions& options, uint64_t lower_bound,
                               const Waste& singles);

}  // namespace sab
