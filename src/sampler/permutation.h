#pragma once
/// Keyed permutations that need no memory: order version 3.

#include <cstddef>
#include <cstdint>
#include <span>

namespace sab {

inline constexpr uint64_t golden_gamma = 0x9E3779B97F4A7C15u;

/// 64 bits that look random and differ for different inputs: the finaliser of splitmix64 (Steele,
/// Lea, Flood 2014).
constexpr uint64_t mix(uint64_t x) {
    x += golden_gamma;
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
enum class Purpose : uint64_t {
    samples = 1,
    steps = 2,
    batches = 3,
    sequences = 4,
    units = 5,
    cohorts = 6,
    parts = 7,
    ranks = 8,
    rows = 9,
    sizes = 10,
    micro_steps = 11,
    bands = 12
};

/// What the keys of an epoch's permutations for one purpose have in common.
constexpr uint64_t epoch_key(uint64_t seed, uint64_t epoch, Purpose purpose) {
    return mix(mix(mix(seed) ^ epoch) ^ static_cast<uint64_t>(purpose));
}

/// The key of one permutation of one epoch.
constexpr uint64_t permutation_key(uint64_t seed, uint64_t epoch, Purpose purpose, uint64_t which) {
    return mix(epoch_key(seed, epoch, purpose) ^ which);
}

/// A permutation of [0, count), count up to 2^48.
///
/// It works on [0, 2^k), the next power of two: keyed rounds of x ^= x >> k/2, x += add, x = x (2x
/// + 1), the quadratic of the cipher RC6. The quadratic is a bijection modulo 2^k. Unlike a product
/// with a constant, it spreads a difference in a way that depends on the value, so no key leaves
/// the pairs at some distance together. Values outside [0, count) go through the rounds again until
/// they fall inside (on average fewer than two times). Up to `table_count` the permutation is a
/// Fisher-Yates shuffle of a table, since a few bits leave the rounds too little to mix.
/// tests/sampler/permutation_statistics_test.cpp checks single keys, permutation_test.cpp averages
/// over keys.
class Permutation {
public:
    static constexpr uint64_t table_count = 32;
    static constexpr uint64_t largest_count = uint64_t{1} << 48;

    Permutation() : Permutation(1, 0) {}
    Permutation(uint64_t count, uint64_t key);

    uint64_t count() const { return count_; }
    /// The value at place i.
    uint64_t operator()(uint64_t i) const;
    /// The place of a value.
    uint64_t inverse(uint64_t value) const;
    /// Replaces each value by its place in the permutation beside it: the same as inverse(),
    /// several at a time.
    static void invert(std::span<const Permutation* const> permutations,
                       std::span<uint64_t> values);
    /// The values at first, first + 1, ...: the same as the operator's, many at a time. For counts
    /// up to 2^32.
    void fill(uint64_t first, std::span<uint32_t> out) const;
    /// Replaces each of the places that is in a range by the value there. For counts up to 2^32.
    struct Range {
        uint32_t begin, count;  ///< the range has the places from `begin` on
        uint32_t first;         ///< what the first of them is here
        uint32_t to;            ///< is added to the values
    };
    void map(const Range& range, std::span<uint32_t> places) const;
    /// The same values without AVX-512, as on processors that do not have it.
    void fill_narrow(uint64_t first, std::span<uint32_t> out) const;
    void map_narrow(const Range& range, std::span<uint32_t> places) const;

private:
    static constexpr int rounds = 5;            ///< from 10 bits on
    static constexpr int lanes = 4;             ///< values that are inverted at a time
    static constexpr int most_rounds = 7;       ///< on fewer bits, which mix less a round
    static constexpr std::size_t block = 1024;  ///< values that go through the rounds together
    static constexpr std::size_t full = 32;     ///< words that may be needed to fill a vector
    struct Rounds {
        uint64_t mask;
        uint32_t shift;
        int rounds;
        uint64_t add[most_rounds + 1];  ///< one before the rounds, then one a round
    };
    uint64_t walk(uint64_t x) const;
    template <int bits>
    static uint64_t unapply(const Rounds& keys, uint64_t x);
    template <int bits>
    static void unapply(const Permutation* const* permutations, uint64_t* values);
    static void apply(const Rounds& keys, uint16_t* values, std::size_t count);
    static void apply(const Rounds& keys, uint32_t* values, std::size_t count);
    template <class Word>
    void fill_narrow_by(uint64_t first, std::span<uint32_t> out) const;
    template <class Word>
    void map_narrow_by(const Range& range, std::span<uint32_t> places) const;
    template <class Word>
    void settle_narrow(Word* values, std::size_t count) const;
    template <class Word>
    void fill_wide_by(uint64_t first, std::span<uint32_t> out) const;
    template <class Word>
    void map_wide_by(const Range& range, std::span<uint32_t> places) const;
    template <class Word>
    void settle_wide(Word* values, std::size_t count) const;
    template <int count_of_rounds, class Word>
    void settle_wide_by(Word* values, std::size_t count) const;

    uint64_t count_;
    union {
        Rounds keys_;
        uint8_t table_[table_count];
    };
};

}  // namespace sab
