#pragma once
/// How the batches of a last step are divided among ranks.

#include <cstdint>
#include <span>
#include <vector>

namespace sab {

/// Batches whose samples can be divided as if they were one batch.
struct BatchRun {
    uint64_t batches;      ///< fewest pieces
    uint64_t most_pieces;  ///< at least as many
    double cost;           ///< of all of them
};

/// The number of pieces of each run, so that the costliest piece costs least. `ranks`: pieces at
/// most, at least as many as there are batches. There are fewer where runs cannot be divided
/// further.
std::vector<uint64_t> divide(std::span<const BatchRun> runs, uint64_t ranks);

}  // namespace sab
