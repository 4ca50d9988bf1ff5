#pragma once
/// How a sampler walks: sab_sampler_options, checked.

#include <cstdint>
#include <string_view>

#include "sab/sampler.h"

namespace sab {

inline constexpr uint64_t largest_world_size = 0xFFFFFFFFu;
inline constexpr uint64_t most_micro_batches = uint64_t{1} << 20;

/// Default ones have the defaults.
struct SamplerOptions {
    SamplerOptions() = default;
    /// Refuses options that break a rule.
    explicit SamplerOptions(const sab_sampler_options& given);

    uint64_t seed = 0;
    uint64_t epoch = 0;  ///< the first one
    uint64_t rank = 0;
    uint64_t world_size = 1;
    uint64_t micro_batches = 1;  ///< of a step, of each rank
    sab_last_step last_step = SAB_LAST_STEP_SPLIT;
    uint64_t costliest_first = 0;
};

/// Refuses `costliest_first` of a sampler whose batches have another order.
void refuse_costliest_first(const SamplerOptions& options, std::string_view why);
/// Refuses what an order that is not shuffled does not use.
void refuse_shuffling(const SamplerOptions& options);

}  // namespace sab
