#pragma once
/// Samples that are too long for one rank, split over groups of ranks.

#include <cstdint>
#include <vector>

#include "base/handle.h"
#include "sab/balance.h"
#include "sizes/columns.h"

namespace sab {

struct ContextPlan {
    std::vector<uint64_t> offsets{};  ///< of each rank's first part; one more at the end
    std::vector<sab_context_part> parts{};
    uint64_t samples = 0;
    double makespan = 0;
    double lower_bound = 0;

    sab_context_plan_view view() const;
};

ContextPlan plan_context(const Columns& lengths, uint64_t world_size, uint64_t limit,
                         const sab_context_options& options);

}  // namespace sab

struct sab_context_plan {
    sab::Tag<sab_context_plan> tag{};
    sab::ContextPlan impl;
};
