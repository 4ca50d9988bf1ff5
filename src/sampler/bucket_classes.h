#pragma once
/// The batches of the bucket order by class.

#include <vector>

#include "plan/plan.h"
#include "sampler/cost_order.h"

namespace sab {

/// Equal batches of one bucket: its full ones, or its tail.
struct BucketClass {
    std::size_t bucket;
    uint64_t first;  ///< position of its first sample in the bucket's permutation
    BatchClass batches;
};

/// By cost of the first budget, highest first. `balance`: the cost that steps even out; null: that
/// of the first budget.
std::vector<BucketClass> bucket_classes(const Plan& plan, const Cost* balance = nullptr);
/// Their order.
CostOrder cost_order(const Plan& plan, const std::vector<BucketClass>& classes);

}  // namespace sab
