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
    /// sample at each sorted place; equal sizes by index. Null when only the levels were asked for
    std::unique_ptr<uint32_t[]> order;
    std::vector<double> level_size;  ///< the distinct sizes, ascending
    /// sorted place where each begins; one more at the end: `count`
    std::vector<uint32_t> level_first;
};

/// Which of the levels that begin at the places `first` a place lies in. The first level is not
/// compared: in a mapped file that was changed it might begin behind the place.
inline std::size_t level_of(std::span<const uint32_t> first, uint32_t place) {
    const auto later = first.subspan(1);
    return static_cast<std::size_t>(std::ranges::upper_bound(later, place) - later.begin());
}

/// Sorts by counting where sizes are whole numbers in a narrow range, by radix otherwise. Throws
/// for a size that breaks the rules.
Sorted sort_by_size(const Sizes& sizes, bool with_order, const Progress& progress);

}  // namespace sab
