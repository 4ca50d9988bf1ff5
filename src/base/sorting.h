#pragma once
/// Numbers in the order of their keys.

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace sab {

/// The indices of `keys`, smallest key first. Equal keys keep their order. Not for NaN.
std::vector<uint32_t> by_ascending(std::span<const double> keys);
/// The same, largest key first. `worked`: called after each stretch of many keys that a pass went
/// over, with their number; it may throw.
std::vector<uint32_t> by_descending(std::span<const double> keys,
                                    const std::function<void(std::size_t)>& worked = {});

}  // namespace sab
