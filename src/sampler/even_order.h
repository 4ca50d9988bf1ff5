#pragma once
/// An order of batches in which every source stays near its due.

#include <cstdint>
#include <span>
#include <vector>

#include "sampler/sequence.h"

namespace sab {

/// What each batch holds of each source, by size.
struct SourceAmounts {
    std::vector<uint32_t> ends;  ///< of each batch in the arrays below
    std::vector<uint16_t> source;
    std::vector<double> amount;

    std::size_t batches() const { return ends.size(); }
    std::size_t begin(std::size_t batch) const { return batch == 0 ? 0 : ends[batch - 1]; }
};

/// Orders batches that come in random order. `costs`: of each; those of the `step_batches` of a
/// step are as alike as the dues allow. The first `fixed` stay where they are.
std::vector<uint32_t> even_order(const SourceAmounts& amounts, std::size_t sources,
                                 std::span<const double> costs, uint64_t step_batches,
                                 uint64_t fixed);

/// Orders the batches of an epoch: those that EpochOptions::costliest_first asks for stay first,
/// and a last step of fewer batches than ranks has a sample for each rank, if there are as many.
std::vector<uint32_t> even_epoch(const SourceAmounts& amounts, std::size_t sources,
                                 std::span<const double> costs, std::span<const uint64_t> samples,
                                 const EpochOptions& epoch_options);

}  // namespace sab
