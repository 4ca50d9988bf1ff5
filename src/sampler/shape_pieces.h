#pragma once
/// Batches of few shapes: they are divided into pieces of the same shapes, so that ranks share a
/// step.

#include <cstdint>
#include <span>
#include <vector>

#include "plan/plan.h"
#include "plan/shapes.h"

namespace sab {

/// Equal batches of a bucket, and its tail that follows them.
struct DivisibleBatch {
    std::size_t bucket;
    uint64_t samples;  ///< of each
    uint64_t batches;
    uint64_t tail = 0;  ///< samples of the tail; 0: none
};

/// Batches that are divided as if they were one.
struct DividedBatches {
    std::size_t which;                ///< of the given ones
    uint64_t batches;                 ///< how many, from the last one on, without the tail
    bool has_tail;                    ///< the tail is one of them, after the others
    std::vector<std::size_t> shapes;  ///< of the pieces: numbers of the given shapes
};

/// Batches of a bucket that divide_by_shapes() divides together, at most.
inline constexpr uint64_t most_joined = 16;

/// Divides batches so that there are `more` of them, or as many more as the shapes allow. Touches
/// few batches. Divides up to `joined` batches together, into at most 63 pieces and of at most 2^22
/// samples. A piece has the id of its samples, no sample that is longer than its shape, and a cost
/// within the budgets.
std::vector<DividedBatches> divide_by_shapes(const Plan& plan, std::span<const BucketShape> shapes,
                                             std::span<const DivisibleBatch> batches, uint64_t more,
                                             uint64_t joined);

}  // namespace sab
