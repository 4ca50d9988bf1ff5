#pragma once
/// The bucket order of a mixture of one column, laid out in memory.

#include <memory>
#include <optional>

#include "plan/mixed_plans.h"
#include "sampler/sequence.h"

namespace sab {

/// `balance`: the cost that steps even out; none: that of the first budget.
std::unique_ptr<Sequence> make_mixed_buckets(std::shared_ptr<const MixedPlans> plans,
                                             std::optional<Cost> balance, uint64_t fingerprint);

}  // namespace sab
