#pragma once
/// MT19937 (Matsumoto, Nishimura 1998), as torch's CPU generator and CPython's `random` run it.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace sab {

class MersenneTwister {
public:
    static constexpr std::size_t state_words = 625;  ///< 624 words, then how many of them are used

    explicit MersenneTwister(uint32_t seed);
    /// Seeded by several words: init_by_array of the reference code.
    explicit MersenneTwister(std::span<const uint32_t> key);
    uint32_t operator()() {
        if (used_ == size) renew();
        uint32_t y = words_[used_++];
        y ^= y >> 11;
        y ^= (y << 7) & 0x9D2C5680u;
        y ^= (y << 15) & 0xEFC60000u;
        return y ^ (y >> 18);
    }
    void save(std::span<uint32_t, state_words> words) const;
    void load(std::span<const uint32_t, state_words> words);

private:
    void renew();  ///< the words, when all are used

    static constexpr std::size_t size = state_words - 1;
    std::array<uint32_t, size> words_;
    std::size_t used_ = size;
};

/// torch.randperm(count) of a CPU generator.
std::vector<uint32_t> torch_permutation(MersenneTwister& generator, std::size_t count);
/// One number of torch.randint(range, ...) of a CPU generator. Ranges from 2^28 on as current
/// versions draw them; 1.13 took one word up to 2^32.
uint64_t torch_below(MersenneTwister& generator, uint64_t range);

}  // namespace sab
