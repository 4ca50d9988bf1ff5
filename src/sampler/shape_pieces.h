#pragma once
/// Batches of few shapes: they are divided into pieces of the same shapes, so that ranks share a
/// step.

#include <cstdint>
#include <span>
#include <vector>

#include "plan/plan.h"
#include "plan/shapes.h"

namespace sab {

/// Equal batches of a bucket.
struct DivisibleBatch {
    std::size_t bucket;
    uint64_t samples;  ///< of each
    uint64_t batches;
};

/// A batch that is divided.
struct DividedBatch {
    std::size_t which;                ///< of the given ones
    std::vector<std::size_t> shapes;  ///< of its pieces: numbers of the given shapes
};

/// Divides batches so that there are `more` of them, or as many more as the shapes allow. Touches
/// few batches. A piece has the id of its samples, no sample that is longer than its shape, and a
/// cost within the budgets. A batch is divided into at most 63 pieces; one of over 2^22 samples is
/// not.
std::vector<DividedBatch> divide_by_shapes(const Plan& plan, std::span<const BucketShape> shapes,
                                           std::span<const DivisibleBatch> batches, uint64_t more);

}  // namespace sab
