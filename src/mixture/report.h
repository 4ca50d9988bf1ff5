#pragma once
/// What a sampler gives of each source of a mixture.

#include <vector>

#include "base/progress.h"
#include "sab/mixture.h"
#include "sampler/sampler.h"

namespace sab {

/// Reads the present epoch of all ranks. `count` is the number of sources that the caller expects.
std::vector<sab_mixture_report> report_sources(Sampler& sampler, const Progress& progress,
                                               std::size_t count);

}  // namespace sab
