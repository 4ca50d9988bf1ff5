#include "sampler/permutation.h"

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>
#include <utility>

#include "sampler/vector_clones.h"

namespace sab {

Permutation::Permutation(uint64_t count, uint64_t key) : count_(count) {
    const auto draw = [&key] {
        const uint64_t drawn = mix(key);
        key += golden_gamma;
        return drawn;
    };
    if (count <= table_count) {
        std::iota(table_, table_ + table_count, uint8_t{0});
        for (uint64_t left = count; left > 1; --left) std::swap(table_[left - 1], table_[multiply_high(draw(), left)]);
        return;
    }
    const auto bits = static_cast<uint32_t>(std::bit_width(count - 1));
    keys_.mask = (uint64_t{1} << bits) - 1;
    keys_.shift = bits / 2;
    keys_.rounds = bits < 10 ? most_rounds : rounds;
    for (int r = 0; r <= keys_.rounds; ++r) keys_.add[r] = draw();
}

namespace {

/// The quadratic, on words of any width.
template <class Word>
[[gnu::always_inline]] constexpr Word quadratic(Word x) {
    return x * (2 * x + 1);
}

/// Of a byte: the x with quadratic(x) = byte modulo 2^64, and two factors for what is above the byte; see inverse_quadratic().
struct Root {
    uint64_t x;
    uint64_t linear;
    uint64_t square;
};

constexpr auto roots = [] {
    std::array<Root, 256> table{};
    for (uint64_t byte = 0; byte < table.size(); ++byte) {
        uint64_t x = 0, slope = 1;
        for (int bit = 0; bit < 64; ++bit) x |= (quadratic(x) ^ byte) & (uint64_t{1} << bit);
        for (int i = 0; i < 6; ++i) slope *= 2 - (4 * x + 1) * slope;  // Newton: doubles the bits of the reciprocal that are right, first 2
        table[byte] = {x, slope, uint64_t{0} - 2 * slope * slope};
    }
    return table;
}();

/// The x with quadratic(x) = y modulo 2^32, or 2^48: root + h (1 + s + 2 s^2 + 5 s^3 + 14 s^4 + ...), where root belongs to the low byte of y, h is the
/// rest of y over the slope at the root, s = -2 h / slope, and the coefficients are Catalan's numbers. h has 8 low zero bits, s 9.
template <int bits>
uint64_t inverse_quadratic(uint64_t y) {
    const Root& root = roots[y & 255];
    const uint64_t rest = y & ~uint64_t{255}, h = rest * root.linear, s = rest * root.square;
    uint64_t series = 1 + s + 2 * s * s;
    if constexpr (bits > 32) series += s * s * s * (5 + 14 * s);
    return root.x + h * series;
}

}  // namespace

uint64_t Permutation::operator()(uint64_t i) const {
    if (count_ <= table_count) return table_[i];
    uint64_t x = i;
    do {
        x += keys_.add[0];
        for (int r = 1; r <= keys_.rounds; ++r) {
            x &= keys_.mask;
            x ^= x >> keys_.shift;
            x = quadratic(x + keys_.add[r]);
        }
        x &= keys_.mask;
        x ^= x >> keys_.shift;
    } while (x >= count_);
    return x;
}

template <int bits>
uint64_t Permutation::unapply(const Rounds& keys, uint64_t x) {
    const auto unshifted = [&](uint64_t shifted) {
        shifted &= keys.mask;
        return shifted ^ (shifted >> keys.shift) ^ (shifted >> (2 * keys.shift));  // three shifts would move everything out
    };
    for (int r = keys.rounds; r > 0; --r) x = inverse_quadratic<bits>(unshifted(x)) - keys.add[r];
    return (unshifted(x) - keys.add[0]) & keys.mask;
}

uint64_t Permutation::inverse(uint64_t value) const {
    if (count_ <= table_count) return static_cast<uint64_t>(std::find(table_, table_ + count_, value) - table_);
    uint64_t x = value;
    do x = keys_.mask >> 32 == 0 ? unapply<32>(keys_, x) : unapply<48>(keys_, x);
    while (x >= count_);
    return x;
}

template <int count_of_rounds>
[[gnu::always_inline]] static inline void run_rounds(const uint32_t mask, const uint32_t shift, const uint32_t* add, uint32_t* values, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
        uint32_t x = values[i] + add[0];
        for (int r = 1; r <= count_of_rounds; ++r) {
            x &= mask;
            x ^= x >> shift;
            x = quadratic(x + add[r]);
        }
        x &= mask;
        values[i] = x ^ (x >> shift);
    }
}

/// The rounds of at most 32 bits, on whole vectors.
SAB_VECTOR_CLONES void Permutation::apply(const Rounds& keys, uint32_t* values, std::size_t count) {
    uint32_t add[most_rounds + 1];  // copies that the values cannot alias
    for (int r = 0; r <= keys.rounds; ++r) add[r] = static_cast<uint32_t>(keys.add[r]);
    const auto mask = static_cast<uint32_t>(keys.mask);
    if (keys.rounds == rounds)
        run_rounds<rounds>(mask, keys.shift, add, values, count);
    else
        run_rounds<most_rounds>(mask, keys.shift, add, values, count);
}

void Permutation::fill(uint64_t first, std::span<uint32_t> out) const {
    if (count_ <= table_count) {
        for (std::size_t i = 0; i < out.size(); ++i) out[i] = table_[first + i];
        return;
    }
    // Passes instead of a loop a value, so that the rounds run on whole vectors: values that fell outside are gathered and tried again.
    constexpr std::size_t block = 512;
    uint32_t again[block];
    uint16_t where[block];
    for (std::size_t start = 0; start < out.size(); start += block) {
        uint32_t* values = out.data() + start;
        const std::size_t size = std::min(block, out.size() - start);
        for (std::size_t i = 0; i < size; ++i) values[i] = static_cast<uint32_t>(first + start + i);
        apply(keys_, values, size);
        std::size_t outside = 0;
        for (std::size_t i = 0; i < size; ++i) {
            where[outside] = static_cast<uint16_t>(i);
            outside += values[i] >= count_;
        }
        for (std::size_t i = 0; i < outside; ++i) again[i] = values[where[i]];
        while (outside > 0) {
            apply(keys_, again, outside);
            std::size_t still = 0;
            for (std::size_t i = 0; i < outside; ++i) {
                const uint32_t value = again[i];
                const uint16_t place = where[i];
                values[place] = value;  // overwritten later when it is still outside
                again[still] = value;
                where[still] = place;
                still += value >= count_;
            }
            outside = still;
        }
    }
}

}  // namespace sab
