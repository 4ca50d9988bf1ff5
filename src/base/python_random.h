#pragma once
/// CPython's `random.Random`: the same numbers for the same seed.

#include <cstdint>
#include <utility>
#include <vector>

#include "base/mersenne_twister.h"

namespace sab {

class PythonRandom {
public:
    /// As `random.Random(seed)` for a whole number.
    explicit PythonRandom(uint64_t seed);

    /// As `random()`: uniform in [0, 1), 53 bits.
    double real();
    /// As `getrandbits(count)`, from 1 to 64.
    uint64_t bits(int count);
    /// As `randrange(limit)`; `limit` at least 1.
    uint64_t below(uint64_t limit);
    /// As `shuffle()`.
    template <class Value>
    void shuffle(std::vector<Value>& values) {
        for (std::size_t i = values.size(); i-- > 1;) std::swap(values[i], values[below(i + 1)]);
    }

    MersenneTwister& generator() { return generator_; }
    const MersenneTwister& generator() const { return generator_; }

private:
    MersenneTwister generator_;
};

}  // namespace sab
