#pragma once
/// CPython's `random.Random`: the same numbers for the same seed.

#include <bit>
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
    uint64_t bits(int count) {
        if (count <= 32) return generator_() >> (32 - count);
        const uint64_t low = generator_();  // which comes first
        return low | static_cast<uint64_t>(generator_() >> (64 - count)) << 32;
    }
    /// As `randrange(limit)`; `limit` at least 1.
    uint64_t below(uint64_t limit) {
        const auto count = static_cast<int>(std::bit_width(limit));
        for (;;)
            if (const uint64_t drawn = bits(count); drawn < limit) return drawn;
    }
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
