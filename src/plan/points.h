#pragma once
/// Samples with several sizes, or with ids that separate them, in order.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/pages.h"
#include "base/progress.h"
#include "plan/sorted.h"
#include "sizes/columns.h"

namespace sab {

/// Samples that have the same id and the same sizes are a point.
struct Points {
    std::size_t columns = 0;
    std::size_t count = 0;  ///< of samples
    /// sample indices by id, then by the size in each column; equal ones by index. Null where the
    /// samples have no indices
    HugeArray<uint32_t> order;
    std::vector<uint64_t> first_offsets;  ///< of each point, in this order; one more: `count`
    std::vector<uint32_t> codes;  ///< of each point: the number of its size among `distinct[j]`
    std::vector<std::vector<double>> distinct;  ///< the distinct sizes of each column, ascending
    std::vector<int64_t> ids;                   ///< distinct, ascending; without ids only 0
    std::vector<uint32_t> first_points;         ///< of each id; one more: the number of points

    std::size_t size() const { return first_offsets.size() - 1; }
    double value(std::size_t point, std::size_t column) const {
        return distinct[column][codes[point * columns + column]];
    }
};

/// Each once, ascending.
std::vector<int64_t> ids_in_order(std::span<const int64_t> ids);

/// Throws for a size that breaks the rules. `ids`: one a sample, or none.
Points sort_points(const Columns& sizes, std::span<const int64_t> ids, const Progress& progress,
                   std::size_t threads = 1);

}  // namespace sab
