#include "base/sorting.h"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

namespace sab {
namespace {

constexpr std::size_t few = 1024;  // are sorted faster by comparing
constexpr unsigned digit_bits = 11;
constexpr std::size_t digits = std::size_t{1} << digit_bits;
constexpr std::size_t stretch_of_keys = std::size_t{1} << 16;  // after which `worked` is called

using Worked = std::function<void(std::size_t)>;

struct Keyed {
    uint64_t key;
    uint32_t number;
};

/// Bits that are in the order of the numbers.
uint64_t bits_of(double number) {
    const auto bits = std::bit_cast<uint64_t>(number + 0.0);  // -0.0 becomes 0.0
    return bits >> 63 != 0 ? ~bits : bits | uint64_t{1} << 63;
}

/// By one digit; equal ones keep their order. False if all have the same.
bool sort_by_digit(std::span<const Keyed> from, std::vector<Keyed>& to, unsigned shift,
                   const Worked& worked) {
    std::array<std::size_t, digits> begins{};
    const auto digit_of = [shift](const Keyed& each) { return each.key >> shift & (digits - 1); };
    for (const Keyed& each : from) ++begins[digit_of(each)];
    if (begins[digit_of(from[0])] == from.size()) return false;
    std::size_t begin = 0;
    for (std::size_t& each : begins) begin += std::exchange(each, begin);
    while (!from.empty()) {
        const std::span<const Keyed> now = from.first(std::min(stretch_of_keys, from.size()));
        for (const Keyed& each : now) to[begins[digit_of(each)]++] = each;
        if (worked) worked(now.size());
        from = from.subspan(now.size());
    }
    return true;
}

std::vector<uint32_t> by_keys(std::span<const double> keys, double sign, const Worked& worked) {
    std::vector<Keyed> sorted;
    sorted.reserve(keys.size());
    for (const double key : keys)
        sorted.push_back({bits_of(key * sign), static_cast<uint32_t>(sorted.size())});
    if (keys.size() <= few) {
        std::ranges::stable_sort(sorted, {}, &Keyed::key);
    } else {
        std::vector<Keyed> other(sorted.size());
        for (unsigned shift = 0; shift < 64; shift += digit_bits)
            if (sort_by_digit(sorted, other, shift, worked)) sorted.swap(other);
    }
    std::vector<uint32_t> numbers;
    numbers.reserve(sorted.size());
    for (const Keyed& each : sorted) numbers.push_back(each.number);
    return numbers;
}

}  // namespace

std::vector<uint32_t> by_ascending(std::span<const double> keys) {
    return by_keys(keys, 1, {});
}

std::vector<uint32_t> by_descending(std::span<const double> keys, const Worked& worked) {
    return by_keys(keys, -1, worked);
}

}  // namespace sab
