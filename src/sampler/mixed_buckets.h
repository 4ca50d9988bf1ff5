#pragma once
/// The bucket order of a mixture of one column, laid out in memory.

#include <memory>

#include "plan/mixed_plans.h"
#include "sampler/sequence.h"

namespace sab {

std::unique_ptr<Sequence> make_mixed_buckets(std::shared_ptr<const MixedPlans> plans);

}  // namespace sab
