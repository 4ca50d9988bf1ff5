#pragma once
/// Saved bytes as an attacker would change them.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

using Saved = std::vector<unsigned char>;

/// Calls `test` with each forgery of the bytes in [begin, end): each bit flipped, and each field of
/// 8 bytes set to numbers with which sums and products overflow. The caller repairs the checksum.
template <class Test>
void for_each_forgery(const Saved& saved, std::size_t begin, std::size_t end, Test&& test) {
    for (std::size_t bit = 8 * begin; bit < 8 * end; ++bit) {
        Saved forged = saved;
        forged[bit / 8] ^= static_cast<unsigned char>(1u << bit % 8);
        test(forged);
    }
    // Fields of 4 bytes, and those behind bytes of any length, begin anywhere.
    for (std::size_t at = begin; at + 8 <= end; ++at)
        for (const uint64_t number : {uint64_t{0}, uint64_t{1}, uint64_t{0xFFFFFFFF},
                                      uint64_t{1} << 62, uint64_t{1} << 63, ~uint64_t{0}}) {
            Saved forged = saved;
            std::memcpy(&forged[at], &number, sizeof number);
            test(forged);
        }
}
