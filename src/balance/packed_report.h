#pragma once
/// How even an epoch of packed rows is on all ranks.

#include "base/progress.h"
#include "sab/balance.h"
#include "sampler/sampler.h"

namespace sab {

/// Of the present epoch of a sampler of sab_packed_sampler_new().
sab_balanced_report report_of_rows(Sampler& sampler, const Progress& progress);

}  // namespace sab
