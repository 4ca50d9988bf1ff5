#pragma once
/// Keyed permutations that need no memory: order version 1.

#include <cstdint>
#include <span>

namespace sab {

/// 64 bits that look random and differ for different inputs: the finaliser of splitmix64 (Steele, Lea, Flood 2014).
constexpr uint64_t mix(uint64_t x) {
    x += 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

/// floor(a * b / 2^64).
constexpr uint64_t multiply_high(uint64_t a, uint64_t b) {
    __extension__ using Wide = unsigned __int128;
    return static_cast<uint64_t>((static_cast<Wide>(a) * b) >> 64);
}

/// What a permutation is for, so that no two of an epoch are alike.
enum class Purpose : uint64_t { samples = 1, steps = 2, batches = 3, sequences = 4, units = 5, cohorts = 6, parts = 7 };

/// The key of one permutation of one epoch.
constexpr uint64_t permutation_key(uint64_t seed, uint64_t epoch, Purpose purpose, uint64_t which) {
    return mix(mix(mix(mix(seed) ^ epoch) ^ static_cast<uint64_t>(purpose)) ^ which);
}

/// A permutation of [0, count), count up to 2^32.
///
/// Rounds of add key, odd multiply, xor-shift on the next power of two; values outside [0, count) walk on until they fall inside (expected
/// tries below 2). Up to `table_count` a keyed Fisher-Yates shuffle instead, exactly uniform up to its 64-bit draws, since a few bits leave the
/// rounds too little to mix. Statistics: tests/sampler/permutation_test.cpp.
class Permutation {
public:
    static constexpr uint64_t table_count = 32;

    Permutation() : Permutation(1, 0) {}
    Permutation(uint64_t count, uint64_t key);

    uint64_t count() const { return count_; }
    uint32_t operator()(uint64_t i) const;
    /// The values at first, first + 1, ...: the same as the operator's, many at a time.
    void fill(uint64_t first, std::span<uint32_t> out) const;

private:
    static constexpr int rounds = 4;        ///< on a large domain
    static constexpr int most_rounds = 8;   ///< on fewer than 10 bits, which mix less a round
    struct Rounds {
        uint32_t mask;
        uint32_t shift;
        int rounds;
        uint32_t add[most_rounds];
        uint32_t multiply[most_rounds];
    };
    static uint32_t apply(const Rounds& keys, uint32_t x);
    static void apply(const Rounds& keys, uint32_t* values, std::size_t count);

    uint64_t count_;
    union {
        Rounds keys_;
        uint8_t table_[table_count];
    };
};

}  // namespace sab
