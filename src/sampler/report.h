#pragma once
/// What an epoch of the bucket order is like.

#include <memory>

#include "base/progress.h"
#include "plan/plan.h"
#include "sab/sampler.h"
#include "sampler/sampler_options.h"

namespace sab {

sab_plan_report make_report(const sab_plan& plan, SamplerOptions options, const Progress& progress);

}  // namespace sab
