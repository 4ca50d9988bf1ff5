#include "base/sorting.h"

#include <algorithm>
#include <numeric>

namespace sab {
namespace {

std::vector<uint32_t> by_keys(std::span<const double> keys, double sign) {
    std::vector<uint32_t> numbers(keys.size());
    std::iota(numbers.begin(), numbers.end(), 0u);
    std::ranges::sort(numbers, [&](uint32_t a, uint32_t b) {
        const double left = keys[a] * sign, right = keys[b] * sign;
        return left < right || (left == right && a < b);
    });
    return numbers;
}

}  // namespace

std::vector<uint32_t> by_ascending(std::span<const double> keys) {
    return by_keys(keys, 1);
}

std::vector<uint32_t> by_descending(std::span<const double> keys) {
    return by_keys(keys, -1);
}

}  // namespace sab
