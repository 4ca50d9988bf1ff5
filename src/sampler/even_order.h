#pragma once
/// An order of batches in which every source stays near its due.

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "sampler/sequence.h"
#include "sampler/source_dues.h"

namespace sab {

/// Orders the batches of an epoch, which are given in random order. `costs`: of each batch. The
/// batches of a step cost as alike as the dues allow. Those that EpochOptions::costliest_first asks
/// for stay first.
std::vector<uint32_t> even_epoch(const SourceAmounts& amounts, std::span<const uint32_t> batches,
                                 std::span<const double> costs, const EpochOptions& epoch_options);

/// The same where the batches of a bucket must keep their order. The batches are 0, 1 and so on,
/// and each stays near its place. `buckets`: of each batch. The first `fixed` stay where they are.
std::vector<uint32_t> even_merge(const SourceAmounts& amounts, std::span<const uint32_t> buckets,
                                 std::span<const double> costs, uint64_t fixed,
                                 uint64_t step_batches);

/// Some of the samples of a batch.
struct BatchPiece {
    uint32_t batch;
    uint64_t first, count;
};

/// even_epoch(), and if the last step has fewer samples than ranks, again with pieces of batches in
/// the place of those that are divided. `plan`: that of the batches, or null; those of few shapes
/// are not divided. `samples`: of each batch. `add` adds a piece to the amounts and returns its
/// cost, which is added to `costs`.
std::vector<uint32_t> even_epoch_in_pieces(const SourceAmounts& amounts,
                                           std::span<const uint32_t> batches,
                                           std::vector<double>& costs,
                                           std::span<const uint64_t> samples,
                                           const EpochOptions& epoch_options, const Plan* plan,
                                           const std::function<double(const BatchPiece&)>& add);

}  // namespace sab
