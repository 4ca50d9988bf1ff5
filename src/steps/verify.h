#pragma once
/// A run of the costliest batches of a plan, to see whether they fit the memory.

#include "base/progress.h"
#include "memory/probe.h"
#include "plan/plan.h"
#include "sab/steps.h"

namespace sab {

/// Runs the costliest batches. `result` is filled on success and before SAB_E_DEVICE_MEMORY.
void verify(const sab_plan& plan, Probe& probe, uint64_t count, sab_batch_fn run, void* ctx,
            const Progress& progress, sab_verification* result);

}  // namespace sab
