#pragma once
/// Which samples are in which group, and how to restore their order.

#include <cstdint>
#include <span>
#include <vector>

#include "base/handle.h"
#include "sab/group.h"

namespace sab {

/// The arrays of sab_grouping_view.
struct Grouping {
    std::vector<int64_t> offsets, permutation, inverse, group_of, intervals;
    std::size_t dimensions = 0;
    std::size_t groups() const { return offsets.size() - 1; }
    sab_grouping_view view() const;
};

Grouping group_by_thresholds(std::span<const sab_grouping_dimension> dimensions);
Grouping group_by_numbers(std::span<const int64_t> group_of, std::size_t groups);
/// `indices`: NULL: 0, 1, 2, ...
Grouping group_by_partition(const int64_t* indices, std::span<const uint64_t> counts);

}  // namespace sab

struct sab_grouping {
    sab::Tag<sab_grouping> tag{};
    sab::Grouping impl;
};
