#pragma once
/// A plan of numbers of samples.

#include <memory>

#include "engine/histogram.h"
#include "plan/plan.h"

namespace sab {

std::shared_ptr<const Plan> make_plan(const Histogram& histogram, const PlanOptions& options);

}  // namespace sab
