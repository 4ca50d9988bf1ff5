#pragma once
/// Which samples share a row where each column of sizes has a capacity of its own.

#include <cstdint>
#include <vector>

#include "sampler/sequence.h"

namespace sab {

/// Samples of several columns, and the row that they go into.
struct RowItems {
    std::size_t columns = 0;
    std::vector<uint32_t> capacities;  ///< one a column
    uint32_t most_samples = 0;         ///< in a row
    std::vector<uint32_t> sizes;       ///< one a column of the first sample, then of the next
    std::vector<uint32_t> largest;     ///< size in each column
    /// The column with the narrowest range, and the upper limits of its classes: one for each of
    /// its values if they are few, otherwise classes of about as many samples each.
    std::size_t class_column = 0;
    std::vector<uint32_t> class_limits;

    std::size_t count() const { return sizes.size() / columns; }
    const uint32_t* sizes_of(uint32_t item) const { return &sizes[item * columns]; }
    /// Sets what is derived from the sizes.
    void classify();
};

/// The rows of an epoch.
struct RowLayout {
    std::vector<uint32_t> items;  ///< of the first row, then of the second
    std::vector<uint32_t> ends;   ///< of each row in `items`
};

struct RowSearch {
    uint64_t window = 1000;  ///< samples that a row is chosen from
    uint64_t tries = 100;    ///< fillings of a row, of which the best is kept
};

/// Lays out an epoch: the same on every machine.
RowLayout lay_out_rows(const RowItems& items, const RowSearch& search,
                       const EpochOptions& epoch_options);

/// Lays out items that come one after the other, until at most `left` of them are in no row:
/// `rest`.
RowLayout lay_out_stream(const RowItems& items, const RowSearch& search,
                         const EpochOptions& epoch_options, uint32_t left,
                         std::vector<uint32_t>& rest);

}  // namespace sab
