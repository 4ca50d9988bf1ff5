#pragma once
/// Where little room is free in micro-batches: a bound on their number, and searches.

#include <cstdint>
#include <span>
#include <vector>

#include "balance/step_samples.h"

namespace sab {

/// A lower bound on the bins that hold some weights. `order`: heaviest first.
double least_bins(std::span<const double> weights, double capacity,
                  std::span<const uint32_t> order);

/// Bins that are as full as possible, of one budget. False when some samples are left.
bool pack_fullest(const StepItems& samples, uint64_t bins, std::span<uint32_t> part_of);

/// First fit decreasing, of any number of budgets: each sample, those with the largest share of a
/// capacity first, to the first bin with room for all of its weights. Returns the number of bins
/// that are not empty; 0 when a sample has no room.
uint64_t pack_first_fit(const StepItems& samples, uint64_t bins, std::span<uint32_t> part_of);

/// Looks at all ways, depth first, with a bounded amount of work. Groups stay on one rank.
bool search_fitting(const StepItems& samples, uint64_t ranks, uint64_t micro_batches,
                    std::span<uint32_t> part_of);

}  // namespace sab
