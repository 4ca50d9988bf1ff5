#pragma once
/// Steps in parts that are halved until they fit.

#include <cstdint>

#include "sab/steps.h"
#include "steps/memory_guard.h"

namespace sab {

/// The size of part that fitted, and how often the step ran out of memory.
struct ChunkedStep {
    uint64_t chunk_size;
    uint64_t out_of_memory;
};
ChunkedStep step_in_chunks(Probe& probe, uint64_t count, const sab_step_in_chunks_options& options);

/// A step in parts, measured by the guard.
void guarded_step(MemoryGuard& guard, const sab_batch& batch,
                  const sab_step_in_chunks_options& options);

}  // namespace sab
