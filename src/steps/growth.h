#pragma once
/// Batch sizes that grow from epoch to epoch, up to a maximum.

#include <cstdint>
#include <span>

#include "sab/steps.h"

namespace sab {

/// `current` and what the callback adds; `current` alone where that would exceed the maximum.
uint64_t grown(sab_batch_increase_fn increase, void* ctx, uint64_t epoch, uint64_t current,
               uint64_t max_batch_size);

/// `amount` more every `period` epochs.
uint64_t grown_linearly(uint64_t epoch, uint64_t start, uint64_t amount, uint64_t period,
                        uint64_t max_batch_size);

/// Twice as large from each milestone on.
uint64_t grown_by_doubling(uint64_t epoch, uint64_t start, std::span<const uint64_t> milestones,
                           uint64_t max_batch_size);

}  // namespace sab
