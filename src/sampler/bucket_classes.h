#pragma once
/// The batches of the bucket order by class.

#include <vector>

#include "plan/plan.h"
#include "sampler/cost_order.h"
#include "sampler/shape_pieces.h"

namespace sab {

/// Equal batches of one bucket: its full ones, its tail, or a piece of one of them.
struct BucketClass {
    std::size_t bucket;
    uint64_t first;  ///< position of its first sample in the bucket's permutation
    BatchClass batches;
    std::size_t padded_to = bucket;  ///< the bucket that has their padded lengths
};

/// By cost of the first budget, highest first. `balance`: the cost that steps even out; null: that
/// of the first budget.
std::vector<BucketClass> bucket_classes(const Plan& plan, const Cost* balance = nullptr);
/// The same where batches of few shapes are divided, so that they fill steps of `step_batches` as
/// far as the shapes allow. A piece has the shape and the cost of another class. `joined`: batches
/// that may be divided together; 1 where no piece may have samples of two batches.
std::vector<BucketClass> filling_steps(const Plan& plan, const std::vector<BucketClass>& classes,
                                       uint64_t step_batches, uint64_t joined = most_joined);
/// Their order.
CostOrder cost_order(const Plan& plan, const std::vector<BucketClass>& classes);

}  // namespace sab
