#include "sampler/permutation.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

#include "sampler/vector_clones.h"

namespace sab {

Permutation::Permutation(uint64_t count, uint64_t key) : count_(count) {
    if (count <= table_count) {
        std::iota(table_, table_ + table_count, uint8_t{0});
        for (uint64_t left = count; left > 1; --left) {
            key = mix(key);
            const auto pick = multiply_high(key, left);
            std::swap(table_[left - 1], table_[pick]);
        }
        return;
    }
    const auto bits = static_cast<uint32_t>(std::bit_width(count - 1));
    keys_.mask = bits == 32 ? ~uint32_t{0} : (uint32_t{1} << bits) - 1;
    keys_.shift = (bits + 1) / 2;
    keys_.rounds = bits < 10 ? most_rounds : rounds;
    for (int r = 0; r < keys_.rounds; ++r) {
        key = mix(key);
        keys_.add[r] = static_cast<uint32_t>(key);
        keys_.multiply[r] = static_cast<uint32_t>(key >> 32) | 1;
    }
}

uint32_t Permutation::apply(const Rounds& keys, uint32_t x) {
    for (int r = 0; r < keys.rounds; ++r) {
        x = ((x + keys.add[r]) * keys.multiply[r]) & keys.mask;
        x ^= x >> keys.shift;
    }
    return x;
}

template <int count_of_rounds>
[[gnu::always_inline]] static inline void run_rounds(const uint32_t mask, const uint32_t shift, const uint32_t* add, const uint32_t* multiply,
                                                     uint32_t* values, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
        uint32_t x = values[i];
        for (int r = 0; r < count_of_rounds; ++r) {
            x = ((x + add[r]) * multiply[r]) & mask;
            x ^= x >> shift;
        }
        values[i] = x;
    }
}

SAB_VECTOR_CLONES void Permutation::apply(const Rounds& keys, uint32_t* values, std::size_t count) {
    const Rounds k = keys;  // a copy that the values cannot alias
    if (k.rounds == rounds)
        run_rounds<rounds>(k.mask, k.shift, k.add, k.multiply, values, count);
    else
        run_rounds<most_rounds>(k.mask, k.shift, k.add, k.multiply, values, count);
}

uint32_t Permutation::operator()(uint64_t i) const {
    if (count_ <= table_count) return table_[i];
    auto x = static_cast<uint32_t>(i);
    do x = apply(keys_, x);
    while (x >= count_);
    return x;
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
