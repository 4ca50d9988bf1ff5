#pragma once
/// Which samples each epoch exchanges: those of equal size that lie in several buckets.

#include <functional>
#include <span>
#include <vector>

#include "plan/coded_plan.h"
#include "plan/plan.h"
#include "plan/sorted.h"

namespace sab {

/// The runs in an order by size that cross borders between buckets. `borders`: where these begin,
/// ascending, and the end of the last one. `padded`: the padded length of a size.
std::vector<SharedRun> runs_across(const SizeCounts& counts, std::span<const uint64_t> borders,
                                   const std::function<double(double)>& padded);

/// Of buckets of samples in one order by size. They get the sizes that exchanged
/// samples may bring.
void share_runs(const SizeCounts& counts, const BatchSizes& batch_sizes, const PlanFacts& facts,
                PlanBuckets& buckets);

/// The same of a plan with codes. `drafts`: of its buckets.
void share_runs(const CodedSamples& samples, std::span<const Draft> drafts, PlanArrays& arrays);

}  // namespace sab
