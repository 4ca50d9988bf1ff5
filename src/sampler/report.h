#pragma once
/// What an epoch of the bucket order is like.

#include <memory>

#include "base/progress.h"
#include "plan/plan.h"
#include "sab/plan.h"
#include "sampler/sampler_options.h"

namespace sab {

/// Fills the arrays that `report` names, and the report.
void make_report(const sab_plan& plan, SamplerOptions options, const Progress& progress,
                 sab_plan_report* report);

}  // namespace sab
