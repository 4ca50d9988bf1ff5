#pragma once
/// Ranks of a step that are made more even.

#include <cstdint>
#include <span>
#include <vector>

#include "balance/step_samples.h"

namespace sab {

/// The `count` ranks that cost least, cheapest first.
std::vector<uint32_t> cheapest_ranks(std::span<const double> costs, std::size_t count);

/// Exchanges samples between micro-batches with room, so that ranks cost the same. `enough`: what
/// the costliest may be over the mean, as a share of it.
void even_ranks(const StepItems& samples, uint32_t ranks, uint32_t micro_batches, double enough,
                std::span<uint32_t> part_of);

}  // namespace sab
