#pragma once
/// The bits of a double, and back: std::bit_cast also for g++ 10, which lacks it.

#include <cstdint>
#include <cstring>

namespace sab {

inline uint64_t bits_of(double number) {
    uint64_t bits;
    std::memcpy(&bits, &number, sizeof bits);
    return bits;
}

inline double number_of(uint64_t bits) {
    double number;
    std::memcpy(&number, &bits, sizeof number);
    return number;
}

}  // namespace sab
