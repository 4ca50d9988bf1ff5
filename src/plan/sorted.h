#pragma once
/// Samples in ascending order of size, and where each distinct size begins.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/progress.h"
#include "sizes/sizes.h"

namespace sab {

struct Sorted {
    std::size_t count = 0;
    /// sample indices by size; equal sizes by index. Null without `with_order`
    std::unique_ptr<uint32_t[]> order;
    std::vector<double> distinct_sizes;  ///< the distinct sizes, ascending
    /// offset in `order` of the first sample of each; one more at the end: `count`
    std::vector<uint32_t> first_offsets;
};

/// Index of the distinct size at an offset of the sorted order, from the offsets `first` of the
/// distinct sizes. The first one is not compared: in a mapped file that was changed it might be
/// larger than the offset.
inline std::size_t distinct_of(std::span<const uint32_t> first, uint32_t offset) {
    const auto later = first.subspan(1);
    return static_cast<std::size_t>(std::ranges::upper_bound(later, offset) - later.begin());
}

/// Sorts by counting where sizes are whole numbers in a narrow range, by radix otherwise. Throws
/// for a size that breaks the rules.
Sorted sort_by_size(const Sizes& sizes, bool with_order, const Progress& progress);

}  // namespace sab
