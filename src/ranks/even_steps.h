#pragma once
/// The order in which ranks take batches of their own shards of a mixture.

#include <cstdint>
#include <span>
#include <vector>

#include "sampler/sequence.h"
#include "sampler/source_dues.h"

namespace sab {

/// Orders the batches of each of the ranks, which have as many each, so that every source is near
/// its due over all ranks together. `amounts`, `costs`: of the batches of the first rank, then of
/// the second, and so on. The result has them in the same order of ranks.
std::vector<uint32_t> even_steps(const SourceAmounts& amounts, std::span<const double> costs,
                                 std::size_t ranks, const EpochOptions& epoch_options);

}  // namespace sab
