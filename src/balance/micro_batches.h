#pragma once
/// The micro-batches of a step. Number r * micro_batches + m is micro-batch m of rank r.

#include <cstdint>
#include <span>
#include <vector>

#include "balance/vector_partition.h"

namespace sab {

/// Numbers the micro-batches again so that ranks with the same number of them are even.
/// `part_of`: of each sample.
void parts_to_ranks(const ItemTable& part_costs, uint64_t world_size, std::span<uint32_t> part_of);

/// Empty micro-batches take the cheapest samples of those that have several, of their own rank.
/// `may_change_rank`: then of any rank.
void fill_empty(std::span<const double> costs, uint64_t parts, uint64_t micro_batches,
                bool may_change_rank, std::span<uint32_t> part_of);

/// How many micro-batches of its rank come before each when the costliest is the first. Of several
/// costs the largest counts, each divided by its mean.
std::vector<uint32_t> places_by_cost(const ItemTable& part_costs, uint64_t micro_batches);

}  // namespace sab
