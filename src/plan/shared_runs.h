#pragma once
/// Which samples each epoch exchanges: those of equal size that lie in several buckets.

#include <span>
#include <vector>

#include "plan/coded_plan.h"
#include "plan/plan.h"
#include "plan/sorted.h"

namespace sab {

/// Of a plan whose samples are in one order by size. Its buckets get the sizes that exchanged
/// samples may bring.
void share_runs(const SizeCounts& counts, const BatchSizes& batch_sizes, PlanArrays& arrays);

/// The same of a plan with codes. `drafts`: of its buckets.
void share_runs(const CodedSamples& samples, std::span<const Draft> drafts, PlanArrays& arrays);

}  // namespace sab
