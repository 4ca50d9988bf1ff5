#pragma once
/// How a sampler walks: sab_sampler_options, checked.

#include <cstdint>
#include <optional>
#include <string_view>

#include "cost/cost.h"
#include "sab/sampler.h"

namespace sab {

inline constexpr uint64_t largest_world_size = 0xFFFFFFFFu;
inline constexpr uint64_t most_micro_batches = uint64_t{1} << 20;
inline constexpr uint64_t most_epoch_steps = uint64_t{1} << 32;  ///< of an epoch

/// Default ones have the defaults.
struct SamplerOptions {
    SamplerOptions() = default;
    /// Refuses options that break a rule. `has_buckets`: the order has options of the bucket order.
    explicit SamplerOptions(const sab_sampler_options& given, bool has_buckets = false);

    uint64_t seed = 0;
    uint64_t epoch = 0;  ///< the first one
    uint64_t rank = 0;
    uint64_t world_size = 1;
    uint64_t micro_batches = 1;  ///< of a step, of each rank
    sab_last_step last_step = SAB_LAST_STEP_SPLIT;
    uint64_t costliest_first = 0;
    bool mix_lengths = false;
    uint64_t steps_per_epoch = 0;  ///< 0: an epoch has each sample once
    /// valid during the call
    const sab_cost* const* balance = nullptr;
    std::size_t balance_count = 0;
};

/// The cost that steps even out, checked, for sizes of these columns; none when none is given.
std::optional<Cost> read_balance(const SamplerOptions& options, ColumnNames columns);

/// Refuses `costliest_first` of a sampler whose batches have another order.
void refuse_costliest_first(const SamplerOptions& options, std::string_view why);
/// Refuses `steps_per_epoch` of what is about epochs of the data.
void refuse_steps_per_epoch(const SamplerOptions& options, std::string_view why);
/// Refuses what an order that is not shuffled does not use.
void refuse_shuffling(const SamplerOptions& options);

}  // namespace sab
