#pragma once
/// Which samples share a row of rows that mix, under one capacity or one for each column of sizes.

#include <cstdint>
#include <span>
#include <vector>

#include "sampler/sequence.h"

namespace sab {

/// Samples, and the row that they go into.
struct RowItems {
    std::size_t columns = 0;
    std::vector<uint32_t> capacities;  ///< one a column
    uint32_t most_samples = 0;         ///< in a row
    std::vector<uint32_t> sizes;       ///< one a column of the first sample, then of the next
    std::vector<uint32_t> largest;     ///< size in each column
    double mean_length = 0, length_deviation = 0;  ///< of one column
    /// Of several columns, that with the narrowest range, and the upper limits of its classes: one
    /// for each of its values if they are few, otherwise classes of about as many samples each.
    std::size_t class_column = 0;
    std::vector<uint32_t> class_limits;

    /// Of a mixture that has copies of samples: the first one of each. Else empty.
    std::vector<uint32_t> first_copies;

    std::size_t count() const { return sizes.size() / columns; }
    const uint32_t* sizes_of(uint32_t item) const { return &sizes[item * columns]; }
    /// Sets what is derived from the sizes.
    void classify();
};

/// The rows of an epoch.
struct RowLayout {
    std::vector<uint32_t> items;  ///< of the first row, then of the second
    std::vector<uint32_t> ends;   ///< of each row in `items`
    /// of each row, the sum of the squares of its lengths, if there is one column
    std::vector<double> squares;

    std::span<const uint32_t> row(std::size_t number) const {
        const uint32_t begin = number == 0 ? 0 : ends[number - 1];
        return std::span(items).subspan(begin, ends[number] - begin);
    }
};

struct RowSearch {
    uint64_t window = 1000;  ///< samples that a row is chosen from
    /// of one column: endings of a row that are tried; of several: fillings, of which the best is
    /// kept
    uint64_t tries = 100;
    double spare = 0;  ///< of one column: room that the lower bound leaves in each row
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
