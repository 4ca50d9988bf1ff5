#pragma once
/// How well the rows of an epoch mix the samples.

#include "sampler/sequence.h"

namespace sab {

struct RowMixing {
    double meet_again = 0;        ///< share of the pairs of a row that share one in the next epoch
    double length_deviation = 0;  ///< standard deviation of the mean length of a row
    // The same of random rows: shuffled samples, of which one that does not fit begins a row.
    double random_meet_again = 0;
    double random_length_deviation = 0;
};

/// Of the epoch and the one after it. Of several columns, the lengths are those of the fullest.
RowMixing measure_mixing(const Sequence& rows, uint64_t seed, uint64_t epoch);

}  // namespace sab
