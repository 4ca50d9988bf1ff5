#pragma once
/// What a sampler can do beside walking its batches, and the refusals where it cannot.

#include "sampler/cursor.h"

namespace sab {

/// The sum of the SAB_SAMPLER_... that it supports.
uint64_t capabilities(Sampler& sampler);

// What a function of the ABI needs; SAB_E_UNSUPPORTED with its name for a sampler that lacks it.
RandomAccess& need_random_access(Sampler& sampler, const char* function);
/// For what shows the batches of all ranks.
Cursor& need_all_ranks(Sampler& sampler, const char* function);
Cursor& need_budget(Sampler& sampler, std::size_t index, const char* function);
/// The same for a budget that can be lowered.
Cursor& need_lowerable(Sampler& sampler, std::size_t index, const char* function);
/// Of a sampler whose batches are a plan's.
Cursor& need_plan(Sampler& sampler, const char* function);
uint64_t need_batch_count(const Sampler& sampler, const char* function);

/// SAB_E_ARGUMENT for a sampler that another function has made.
void need_kind(const Sampler& sampler, const char* constructor);

/// Limit 0 is the plan's own.
void set_limit(Sampler& sampler, std::size_t index, double limit);

/// Position 0 begins the epoch again, which every sampler can do.
void seek(Sampler& sampler, uint64_t position);

}  // namespace sab
