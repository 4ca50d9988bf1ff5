#pragma once
/// Where lengths are cut into groups.

#include <vector>

#include "sab/group.h"
#include "sizes/columns.h"

namespace sab {

/// `k` thresholds for the lengths of the only column, ascending; fills `info` but for its size.
std::vector<double> find_thresholds(const Columns& columns, uint64_t k,
                                    const sab_thresholds_options& options,
                                    sab_thresholds_info& info);

}  // namespace sab
