#include "sampler/permutation.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>
#include <utility>

#include "sampler/quadratic.h"
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
        for (uint64_t left = count; left > 1; --left)
            std::swap(table_[left - 1], table_[multiply_high(draw(), left)]);
        return;
    }
    const auto bits = static_cast<uint32_t>(std::bit_width(count - 1));
    keys_.mask = (uint64_t{1} << bits) - 1;
    keys_.shift = bits / 2;
    keys_.rounds = bits < 10 ? most_rounds : rounds;
    for (int r = 0; r <= keys_.rounds; ++r) keys_.add[r] = draw();
}

/// Rounds until the value is inside.
uint64_t Permutation::walk(uint64_t x) const {
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

uint64_t Permutation::operator()(uint64_t i) const {
    return count_ <= table_count ? table_[i] : walk(i);
}

template <int bits>
uint64_t Permutation::unapply(const Rounds& keys, uint64_t x) {
    const auto unshifted = [&](uint64_t shifted) {
        shifted &= keys.mask;
        // three shifts would move everything out
        return shifted ^ (shifted >> keys.shift) ^ (shifted >> (2 * keys.shift));
    };
    for (int r = keys.rounds; r > 0; --r) x = inverse_quadratic<bits>(unshifted(x)) - keys.add[r];
    return (unshifted(x) - keys.add[0]) & keys.mask;
}

uint64_t Permutation::inverse(uint64_t value) const {
    if (count_ <= table_count)
        return static_cast<uint64_t>(std::find(table_, table_ + count_, value) - table_);
    uint64_t x = value;
    do x = keys_.mask >> 32 == 0 ? unapply<32>(keys_, x) : unapply<48>(keys_, x);
    while (x >= count_);
    return x;
}

/// The rounds on a vector; compilers do not shift vectors of 16 bits by a variable by themselves.
template <int count_of_rounds, class Word, class Vector>
[[gnu::always_inline]] static inline void run_rounds(const Word mask, const Word shift,
                                                     const Vector* add, Vector& x) {
    x += add[0];
    for (int r = 1; r <= count_of_rounds; ++r) {
        x &= mask;
        x ^= x >> shift;
        x += add[r];
        x = x * (x + x + 1);
    }
    x &= mask;
    x ^= x >> shift;
}

/// The same on all values. `count` is rounded up to full vectors, for which `values` has room.
template <int count_of_rounds, class Word>
[[gnu::always_inline]] static inline void run_all_rounds(const Word mask, const Word shift,
                                                         const uint64_t* keys, Word* values,
                                                         std::size_t count) {
    typedef Word Vector __attribute__((vector_size(32)));
    Vector add[count_of_rounds + 1];
    for (int r = 0; r <= count_of_rounds; ++r) add[r] = Vector{} + static_cast<Word>(keys[r]);
    for (std::size_t i = 0; i < count; i += sizeof(Vector) / sizeof(Word)) {
        Vector x;
        std::memcpy(&x, values + i, sizeof x);
        run_rounds<count_of_rounds>(mask, shift, add, x);
        std::memcpy(values + i, &x, sizeof x);
    }
}

SAB_VECTOR_CLONES void Permutation::apply(const Rounds& keys, uint16_t* values, std::size_t count) {
    const auto mask = static_cast<uint16_t>(keys.mask), shift = static_cast<uint16_t>(keys.shift);
    if (keys.rounds == rounds)
        run_all_rounds<rounds>(mask, shift, keys.add, values, count);
    else
        run_all_rounds<most_rounds>(mask, shift, keys.add, values, count);
}

SAB_VECTOR_CLONES void Permutation::apply(const Rounds& keys, uint32_t* values, std::size_t count) {
    run_all_rounds<rounds>(static_cast<uint32_t>(keys.mask), keys.shift, keys.add, values, count);
}

/// Replaces the places by their values. Passes instead of a loop a value, so that the rounds run on
/// whole vectors: values that fell outside are gathered and tried again. There is room for `full`
/// more values.
template <class Word>
void Permutation::settle_narrow(Word* values, std::size_t count) const {
    constexpr std::size_t few = 4;  // so few are quicker one by one
    const bool has_outside = keys_.mask >= count_;
    const auto limit = static_cast<Word>(count_);
    Word again[block + full];
    uint16_t where[block];
    apply(keys_, values, count);
    std::size_t outside = 0;
    for (std::size_t i = 0; i < count && has_outside; ++i) {
        again[outside] = values[i];
        where[outside] = static_cast<uint16_t>(i);
        outside += values[i] >= limit;
    }
    std::fill_n(again + outside, full, Word{});
    while (outside > few) {
        apply(keys_, again, outside);
        std::size_t still = 0;
        for (std::size_t i = 0; i < outside; ++i) {
            const Word value = again[i];
            const uint16_t place = where[i];
            values[place] = value;  // overwritten later when it is still outside
            again[still] = value;
            where[still] = place;
            still += value >= limit;
        }
        outside = still;
    }
    for (std::size_t i = 0; i < outside; ++i) values[where[i]] = static_cast<Word>(walk(again[i]));
}

template <class Word>
void Permutation::fill_narrow_by(uint64_t first, std::span<uint32_t> out) const {
    Word values[block + full];
    for (std::size_t start = 0; start < out.size(); start += block) {
        const std::size_t size = std::min(block, out.size() - start);
        for (std::size_t i = 0; i < size + full; ++i)
            values[i] = static_cast<Word>(first + start + i);
        settle_narrow(values, size);
        std::copy_n(values, size, out.begin() + static_cast<std::ptrdiff_t>(start));
    }
}

template <class Word>
void Permutation::map_narrow_by(const Range& range, std::span<uint32_t> places) const {
    Word values[block + full];
    uint16_t where[block];
    for (; !places.empty(); places = places.subspan(std::min(block, places.size()))) {
        std::size_t found = 0;
        for (std::size_t i = 0; i < std::min(block, places.size()); ++i) {
            const uint32_t offset = places[i] - range.begin;  // large if it is before the range
            values[found] = static_cast<Word>(range.first + offset);
            where[found] = static_cast<uint16_t>(i);
            found += offset < range.count;
        }
        std::fill_n(values + found, full, Word{});
        settle_narrow(values, found);
        for (std::size_t k = 0; k < found; ++k) places[where[k]] = range.to + values[k];
    }
}

#ifdef SAB_AVX512

namespace {

// Of a vector of 16 or 32 bits a value: which values are above the last one inside; those that a
// mask chooses, moved to the front; and the other way round.

SAB_AVX512 inline __mmask32 outside_of(__m512i values, uint16_t last) {
    return _mm512_cmpgt_epu16_mask(values, _mm512_set1_epi16(static_cast<int16_t>(last)));
}
SAB_AVX512 inline __mmask16 outside_of(__m512i values, uint32_t last) {
    return _mm512_cmpgt_epu32_mask(values, _mm512_set1_epi32(static_cast<int32_t>(last)));
}
SAB_AVX512 inline __m512i compress(__mmask32 mask, __m512i values) {
    return _mm512_maskz_compress_epi16(mask, values);
}
SAB_AVX512 inline __m512i compress(__mmask16 mask, __m512i values) {
    return _mm512_maskz_compress_epi32(mask, values);
}
SAB_AVX512 inline __m512i expand(__m512i values, __mmask32 mask, __m512i chosen) {
    return _mm512_mask_expand_epi16(values, mask, chosen);
}
SAB_AVX512 inline __m512i expand(__m512i values, __mmask16 mask, __m512i chosen) {
    return _mm512_mask_expand_epi32(values, mask, chosen);
}

SAB_AVX512 inline __m512i blend(__mmask32 mask, __m512i values, __m512i chosen) {
    return _mm512_mask_blend_epi16(mask, values, chosen);
}
SAB_AVX512 inline __m512i blend(__mmask16 mask, __m512i values, __m512i chosen) {
    return _mm512_mask_blend_epi32(mask, values, chosen);
}

/// The rounds on lists of values.
template <int count_of_rounds, class Word>
struct WideRounds {
    typedef Word Vector __attribute__((vector_size(64)));
    using Mask = decltype(outside_of(__m512i{}, Word{}));
    static constexpr std::size_t lanes = sizeof(Vector) / sizeof(Word);

    SAB_AVX512 WideRounds(uint64_t bits, uint32_t shifted, const uint64_t* keys, Word last_inside)
        : mask(static_cast<Word>(bits)), shift(static_cast<Word>(shifted)), last(last_inside) {
        for (int r = 0; r <= count_of_rounds; ++r) add[r] = Vector{} + static_cast<Word>(keys[r]);
    }

    SAB_AVX512 __m512i run(__m512i values) const {
        Vector x;
        std::memcpy(&x, &values, sizeof x);
        run_rounds<count_of_rounds>(mask, shift, add, x);
        std::memcpy(&values, &x, sizeof x);
        return values;
    }
    SAB_AVX512 static Mask first(std::size_t count) {
        return static_cast<Mask>(count < lanes ? (1u << count) - 1 : ~0u);
    }

    /// Once. Copies the values that are outside then. Returns their number.
    SAB_AVX512 std::size_t once(Word* values, std::size_t count, Word* outside) const {
        std::size_t taken = 0;
        for (std::size_t i = 0; i < count; i += lanes) {
            const __m512i x = run(_mm512_loadu_si512(values + i));
            _mm512_storeu_si512(values + i, x);
            const auto chosen = static_cast<Mask>(outside_of(x, last) & first(count - i));
            _mm512_storeu_si512(outside + taken, compress(chosen, x));
            taken += static_cast<std::size_t>(_mm_popcnt_u32(chosen));
        }
        return taken;
    }
    /// Until all values are inside.
    SAB_AVX512 void all(Word* values, std::size_t count) const {
        for (std::size_t i = 0; i < count; i += lanes) {
            __m512i x = _mm512_loadu_si512(values + i);
            for (Mask left = first(count - i); left != 0; left &= outside_of(x, last))
                x = blend(left, x, run(x));
            _mm512_storeu_si512(values + i, x);
        }
    }
    /// Replaces the values that are outside by `settled`, in their order.
    SAB_AVX512 void put_back(Word* values, std::size_t count, const Word* settled) const {
        for (std::size_t i = 0; i < count; i += lanes) {
            const __m512i x = _mm512_loadu_si512(values + i);
            const Mask chosen = outside_of(x, last);
            _mm512_storeu_si512(values + i, expand(x, chosen, _mm512_loadu_si512(settled)));
            settled += _mm_popcnt_u32(chosen);
        }
    }

    Word mask, shift, last;
    Vector add[count_of_rounds + 1];
};

// Of 16 values of 32 bits: as words.
SAB_AVX512 inline void store(__m512i values, uint32_t* out) {
    _mm512_storeu_si512(out, values);
}
SAB_AVX512 inline void store(__m512i values, uint16_t* out) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out),
                        _mm512_maskz_cvtepi32_epi16(0xFFFF, values));
}
SAB_AVX512 inline __m512i load(const uint32_t* values) {
    return _mm512_loadu_si512(values);
}
SAB_AVX512 inline __m512i load(const uint16_t* values) {
    return _mm512_maskz_cvtepu16_epi32(
        0xFFFF, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(values)));
}

/// Which of 16 places from `i` on are in the range; `offsets`: in the range.
SAB_AVX512 inline __mmask16 in_range(const uint32_t* places, std::size_t i, std::size_t count,
                                     const Permutation::Range& range, __m512i& offsets) {
    const auto there = static_cast<__mmask16>(count - i < 16 ? (1u << (count - i)) - 1 : 0xFFFFu);
    offsets = _mm512_sub_epi32(_mm512_maskz_loadu_epi32(there, places + i),
                               _mm512_set1_epi32(static_cast<int32_t>(range.begin)));
    return _mm512_mask_cmplt_epu32_mask(there, offsets,
                                        _mm512_set1_epi32(static_cast<int32_t>(range.count)));
}

/// Copies what the places in the range are in the permutation. Returns their number.
template <class Word>
SAB_AVX512 std::size_t take_range(const uint32_t* places, std::size_t count,
                                  const Permutation::Range& range, Word* out) {
    std::size_t taken = 0;
    for (std::size_t i = 0; i < count; i += 16) {
        __m512i offsets;
        const __mmask16 mask = in_range(places, i, count, range, offsets);
        const __m512i first = _mm512_set1_epi32(static_cast<int32_t>(range.first));
        store(_mm512_maskz_compress_epi32(mask, _mm512_add_epi32(offsets, first)), out + taken);
        taken += static_cast<std::size_t>(_mm_popcnt_u32(mask));
    }
    return taken;
}

/// Replaces the places in the range by the values, in their order.
template <class Word>
SAB_AVX512 void put_range(uint32_t* places, std::size_t count, const Permutation::Range& range,
                          const Word* values) {
    for (std::size_t i = 0; i < count; i += 16) {
        __m512i offsets;
        const __mmask16 mask = in_range(places, i, count, range, offsets);
        const __m512i to = _mm512_set1_epi32(static_cast<int32_t>(range.to));
        _mm512_mask_storeu_epi32(
            places + i, mask, _mm512_maskz_expand_epi32(mask, _mm512_add_epi32(load(values), to)));
        values += _mm_popcnt_u32(mask);
    }
}

}  // namespace

/// settle_narrow() with vectors of 64 bytes. Values that are outside become a list of their own,
/// which goes through the rounds again, and so on, until a list fits a vector. From the last list
/// back, each list replaces the values that are outside in the one before.
template <int count_of_rounds, class Word>
SAB_AVX512 void Permutation::settle_wide_by(Word* values, std::size_t count) const {
    constexpr std::size_t most_lists = 8;
    const WideRounds<count_of_rounds, Word> wide(keys_.mask, keys_.shift, keys_.add,
                                                 static_cast<Word>(count_ - 1));
    Word room[most_lists][block + full];
    Word* lists[most_lists + 1] = {values};
    for (std::size_t k = 0; k < most_lists; ++k) lists[k + 1] = room[k];
    std::size_t counts[most_lists + 1] = {count}, last = 0;
    for (; counts[last] > wide.lanes && last < most_lists; ++last)
        counts[last + 1] = wide.once(lists[last], counts[last], lists[last + 1]);
    wide.all(lists[last], counts[last]);
    for (; last > 0; --last) wide.put_back(lists[last - 1], counts[last - 1], lists[last]);
}

template <class Word>
SAB_AVX512 void Permutation::settle_wide(Word* values, std::size_t count) const {
    if (sizeof(Word) > 2 || keys_.rounds == rounds)  // words of 32 bits are for more than 16 bits
        settle_wide_by<rounds>(values, count);
    else
        settle_wide_by<most_rounds>(values, count);
}

template <class Word>
SAB_AVX512 void Permutation::fill_wide_by(uint64_t first, std::span<uint32_t> out) const {
    Word values[block + full];
    for (std::size_t start = 0; start < out.size(); start += block) {
        const std::size_t size = std::min(block, out.size() - start);
        for (std::size_t i = 0; i < size + full; ++i)
            values[i] = static_cast<Word>(first + start + i);
        settle_wide(values, size);
        std::copy_n(values, size, out.begin() + static_cast<std::ptrdiff_t>(start));
    }
}

template <class Word>
SAB_AVX512 void Permutation::map_wide_by(const Range& range, std::span<uint32_t> places) const {
    Word values[block + full];
    for (; !places.empty(); places = places.subspan(std::min(block, places.size()))) {
        const std::size_t size = std::min(block, places.size());
        const std::size_t found = take_range(places.data(), size, range, values);
        std::fill_n(values + found, full, Word{});
        settle_wide(values, found);
        put_range(places.data(), size, range, values);
    }
}

#endif

void Permutation::fill_narrow(uint64_t first, std::span<uint32_t> out) const {
    if (count_ <= table_count) {
        for (std::size_t i = 0; i < out.size(); ++i) out[i] = table_[first + i];
    } else if (keys_.mask <= 0xFFFF) {
        fill_narrow_by<uint16_t>(first, out);  // twice as many to a vector
    } else {
        fill_narrow_by<uint32_t>(first, out);
    }
}

void Permutation::map_narrow(const Range& range, std::span<uint32_t> places) const {
    if (count_ <= table_count) {
        for (uint32_t& place : places)
            if (place - range.begin < range.count)
                place = range.to + table_[range.first + (place - range.begin)];
    } else if (keys_.mask <= 0xFFFF) {
        map_narrow_by<uint16_t>(range, places);
    } else {
        map_narrow_by<uint32_t>(range, places);
    }
}

void Permutation::fill(uint64_t first, std::span<uint32_t> out) const {
#ifdef SAB_AVX512
    if (count_ > table_count && has_avx512()) {
        if (keys_.mask <= 0xFFFF)
            fill_wide_by<uint16_t>(first, out);
        else
            fill_wide_by<uint32_t>(first, out);
        return;
    }
#endif
    fill_narrow(first, out);
}

void Permutation::map(const Range& range, std::span<uint32_t> places) const {
#ifdef SAB_AVX512
    if (count_ > table_count && has_avx512()) {
        if (keys_.mask <= 0xFFFF)
            map_wide_by<uint16_t>(range, places);
        else
            map_wide_by<uint32_t>(range, places);
        return;
    }
#endif
    map_narrow(range, places);
}

}  // namespace sab
