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
    /// sample at each sorted offset; equal sizes by index. Null when only the distinct_count were
    /// asked for
    std::unique_ptr<uint32_t[]> order;
    std::vector<double> distinct_sizes;  ///< the distinct sizes, ascending
    /// sorted offset where each begins; one more at the end: `count`
    std::vector<uint32_t> first_offsets;
};

/// Which of the distinct_count that begin at the offsets `first` a offset lies in. The first
/// distinct is not compared: in a mapped file that was changed it might begin behind the offset.
inline std::size_t distinct_of(std::span<const uint32_t> first, uint32_t offset) {
    const auto later = first.subspan(1);
    return static_cast<std::size_t>(std::ranges::upper_bound(later, offset) - later.begin());
}

/// Sorts by counting where sizes are whole numbers in a narrow range, by radix otherwise. Throws
/// for a size that breaks the rules.
Sorted sort_by_size(const Sizes& sizes, bool with_order, const Progress& progress);

}  // namespace sab
