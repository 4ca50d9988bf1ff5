#include "base/python_random.h"

#include <array>
#include <span>

namespace sab {
namespace {

MersenneTwister seeded(uint64_t seed) {
    const std::array<uint32_t, 2> words{static_cast<uint32_t>(seed),
                                        static_cast<uint32_t>(seed >> 32)};
    return MersenneTwister(std::span<const uint32_t>(words).first(words[1] != 0 ? 2 : 1));
}

}  // namespace

PythonRandom::PythonRandom(uint64_t seed) : generator_(seeded(seed)) {}

double PythonRandom::real() {
    const uint32_t high = generator_() >> 5, low = generator_() >> 6;
    return (high * 67108864.0 + low) / 9007199254740992.0;
}

}  // namespace sab
