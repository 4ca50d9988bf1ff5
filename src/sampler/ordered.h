#pragma once
/// Greedy batches in the order of the indices, known from the beginning.

#include <memory>

#include "sampler/sequence.h"
#include "sizes/sizes.h"

namespace sab {

/// Of a batch: finite and at least 0.
void check_limit(double limit);

/// Greedy batches of `indices` (all samples in order when null).
std::unique_ptr<Sequence> make_ordered_sequence(const int64_t* indices, std::size_t count,
                                                const Sizes& sizes, double limit);

}  // namespace sab
