#pragma once
/// The quadratic of keyed permutations, and its inverse.

#include <array>
#include <cstdint>
#include <type_traits>

namespace sab {

/// The quadratic. Words of 16 bits would be multiplied as signed numbers.
template <class Word>
[[gnu::always_inline]] constexpr Word quadratic(Word x) {
    using Wide = std::common_type_t<Word, uint32_t>;
    return static_cast<Word>(Wide{x} * static_cast<Word>(Wide{2} * x + 1));
}

/// Of six bits: the x with quadratic(x) = bits modulo 2^64, and two factors for the bits above; see
/// inverse_quadratic().
struct Root {
    uint64_t x;
    uint64_t linear;
    uint64_t square;
};

inline constexpr auto roots = [] {
    std::array<Root, 64> table{};
    for (uint64_t low = 0; low < table.size(); ++low) {
        uint64_t x = 0, slope = 1;
        for (int bit = 0; bit < 64; ++bit) x |= (quadratic(x) ^ low) & (uint64_t{1} << bit);
        // Newton: doubles the bits of the reciprocal that are right, first 2
        for (int i = 0; i < 6; ++i) slope *= 2 - (4 * x + 1) * slope;
        table[low] = {x, slope, uint64_t{0} - 2 * slope * slope};
    }
    return table;
}();

/// The x with quadratic(x) = y modulo 2^32, or 2^48: root + h (1 + s + 2 s^2 + 5 s^3 + 14 s^4 +
/// ...), where root belongs to the six low bits of y, h is the rest of y over the slope at the
/// root, s = -2 h / slope, and the coefficients are Catalan's numbers. h has 6 low zero bits, s 7.
template <int bits>
uint64_t inverse_quadratic(uint64_t y) {
    const Root& root = roots[y & 63];
    const uint64_t rest = y & ~uint64_t{63}, h = rest * root.linear, s = rest * root.square;
    const uint64_t square = s * s;
    uint64_t series = 1 + s + square * (2 + 5 * s);
    if constexpr (bits > 32) series += square * square * (14 + 42 * s);
    return root.x + h * series;
}

}  // namespace sab
