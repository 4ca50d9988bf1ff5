#pragma once
/// The largest batch that fits.

#include <span>
#include <vector>

#include "memory/probe.h"
#include "sab/steps.h"

namespace sab {

/// Options already checked against struct sizes; `batch_sizes` empty or one a length.
sab_max_batch find_max_batch(Probe& probe, sab_trial_fn trial, void* ctx,
                             const sab_max_batch_options& options, std::span<uint64_t> batch_sizes);

}  // namespace sab
