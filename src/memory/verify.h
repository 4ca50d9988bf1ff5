#pragma once
/// A dry run of the batches that may cost most.

#include "base/progress.h"
#include "memory/probe.h"
#include "plan/plan.h"
#include "sab/memory.h"

namespace sab {

/// Runs the costliest batches; SAB_E_DEVICE_MEMORY still fills `seen`.
void verify(std::shared_ptr<const Plan> plan, Probe& probe, uint64_t count, sab_batch_fn run,
            void* ctx, const Progress& progress, sab_verification& seen);

}  // namespace sab
