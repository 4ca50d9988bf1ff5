#pragma once
/// How even an epoch of balanced steps or of packed rows is on all ranks.

#include "base/progress.h"
#include "sab/balance.h"
#include "sampler/sampler.h"

namespace sab {

/// Of the present epoch of a sampler of sab_balanced_sampler_new() or sab_packed_sampler_new();
/// refuses another one.
sab_balanced_report report_balance(Sampler& sampler, const Progress& progress);

}  // namespace sab
