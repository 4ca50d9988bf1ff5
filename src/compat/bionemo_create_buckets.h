#pragma once
/// The bucket boundaries of bionemo-size-aware-batching.

#include <cstddef>
#include <cstdint>
#include <span>

#include "sab/compat.h"
#include "sizes/sizes.h"

namespace sab {

/// Writes the buckets where they fit, and says how many there are. `boundaries` has room for one
/// more than `bucket_sizes`.
std::size_t create_buckets(const Sizes& sizes, int64_t max_width, int64_t min_bucket_count,
                           std::span<int64_t> boundaries, std::span<int64_t> bucket_sizes);

}  // namespace sab
