#pragma once
/// Numbers at even distances.

#include <cstdint>
#include <numeric>

namespace sab {

/// A number without a divisor of `count`, near count * (sqrt(2) - 1): the multiples of it, modulo
/// `count`, are all numbers below, and any of them in a row are at even distances.
inline uint64_t even_stride(uint64_t count) {
    if (count <= 2) return 1;
    auto stride = static_cast<uint64_t>(static_cast<double>(count) * 0.41421356237309503);
    while (std::gcd(stride, count) != 1) ++stride;
    return stride;
}

}  // namespace sab
