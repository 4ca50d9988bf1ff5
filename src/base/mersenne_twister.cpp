#include "base/mersenne_twister.h"

#include <algorithm>

#include "base/error.h"

namespace sab {

MersenneTwister::MersenneTwister(uint32_t seed) {
    words_[0] = seed;
    for (uint32_t i = 1; i < size; ++i)
        words_[i] = 1812433253u * (words_[i - 1] ^ (words_[i - 1] >> 30)) + i;
}

MersenneTwister::MersenneTwister(std::span<const uint32_t> key) : MersenneTwister(19650218u) {
    std::size_t i = 1;
    const auto step = [&] {
        if (++i == size) {
            words_[0] = words_[size - 1];
            i = 1;
        }
    };
    for (std::size_t k = std::max(size, key.size()), j = 0; k > 0; --k, j = (j + 1) % key.size()) {
        words_[i] = (words_[i] ^ ((words_[i - 1] ^ (words_[i - 1] >> 30)) * 1664525u)) + key[j] +
                    static_cast<uint32_t>(j);
        step();
    }
    for (std::size_t k = size - 1; k > 0; --k) {
        words_[i] = (words_[i] ^ ((words_[i - 1] ^ (words_[i - 1] >> 30)) * 1566083941u)) -
                    static_cast<uint32_t>(i);
        step();
    }
    words_[0] = 0x80000000u;
}

/// Without the remainders of a division by the size, so that vector loops are compiled.
void MersenneTwister::renew() {
    constexpr std::size_t middle = 397;
    const auto twist = [this](std::size_t i, std::size_t next) {
        const uint32_t y = (words_[i] & 0x80000000u) | (words_[next] & 0x7FFFFFFFu);
        return (y >> 1) ^ ((words_[next] & 1) != 0 ? 0x9908B0DFu : 0u);
    };
    for (std::size_t i = 0; i < size - middle; ++i)
        words_[i] = words_[i + middle] ^ twist(i, i + 1);
    for (std::size_t i = size - middle; i < size - 1; ++i)
        words_[i] = words_[i + middle - size] ^ twist(i, i + 1);
    words_[size - 1] = words_[middle - 1] ^ twist(size - 1, 0);
    used_ = 0;
}

void MersenneTwister::save(std::span<uint32_t, state_words> words) const {
    std::ranges::copy(words_, words.begin());
    words[size] = static_cast<uint32_t>(used_);
}

void MersenneTwister::load(std::span<const uint32_t, state_words> words) {
    check(words[size] <= size, "words[624]", words[size], "must be at most 624");
    std::ranges::copy(words.first<size>(), words_.begin());
    used_ = words[size];
}

std::vector<uint32_t> torch_permutation(MersenneTwister& generator, std::size_t count) {
    std::vector<uint32_t> drawn(count);
    for (uint32_t i = 0; i < count; ++i) drawn[i] = i;
    for (std::size_t i = 0; i + 1 < count; ++i)
        std::swap(drawn[i], drawn[i + generator() % (count - i)]);
    return drawn;
}

uint64_t torch_below(MersenneTwister& generator, uint64_t range) {
    constexpr uint64_t two_words = uint64_t{1} << 28;
    uint64_t word = generator();
    if (range >= two_words) word = word << 32 | generator();
    return word % range;
}

}  // namespace sab
