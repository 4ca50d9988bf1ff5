#pragma once
/// Whole numbers near others.

#include <cmath>
#include <cstdint>

namespace sab {

/// To the nearest whole number, halves to even, whatever the rounding mode is. From 0 to 2^63.
inline uint64_t rounded(double number) {
    const double below = std::floor(number), rest = number - below;
    const auto whole = static_cast<uint64_t>(below);
    return whole + (rest > 0.5 || (rest == 0.5 && whole % 2 == 1));
}

/// number / divisor, rounded up.
constexpr uint64_t ceiling(uint64_t number, uint64_t divisor) {
    return (number + divisor - 1) / divisor;
}

/// The least multiple that is not below a number.
constexpr uint64_t next_multiple(uint64_t number, uint64_t multiple) {
    return ceiling(number, multiple) * multiple;
}

}  // namespace sab
