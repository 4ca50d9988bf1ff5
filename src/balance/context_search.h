#pragma once
/// How many ranks each sample of a step has, so that the step ends early.

#include "balance/context_placement.h"

namespace sab {

/// The schedule with the least makespan that was found. The work is bounded by counts, so that the
/// same problem has the same schedule everywhere.
ContextSchedule find_context_schedule(const ContextProblem& problem, double lower_bound);

}  // namespace sab
