#pragma once
/// The largest batch that fits, and steps that are halved until they fit.

#include <span>
#include <vector>

#include "memory/probe.h"

namespace sab {

/// Options already checked against struct sizes; `batch_sizes` empty or one a length.
sab_max_batch find_max_batch(Probe& probe, sab_trial_fn trial, void* ctx,
                             const sab_find_max_batch_options& options,
                             std::span<uint64_t> batch_sizes);

/// The size of part that fitted, and how often the step ran out of memory.
struct ChunkedStep {
    uint64_t chunk_size;
    uint64_t out_of_memory;
};
ChunkedStep chunked_step(Probe& probe, uint64_t count, const sab_chunked_step_options& options);

}  // namespace sab
