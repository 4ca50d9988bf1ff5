#pragma once
/// XXH3 (64 bits) of data that comes in pieces.

#include <cstddef>
#include <cstdint>
#include <ranges>
#include <type_traits>

#include "base/xxhash.h"

namespace sab {

class Hasher {
public:
    Hasher() { reset(); }
    void reset() { XXH3_64bits_reset(&state_); }
    void add_bytes(const void* bytes, std::size_t size) {
        if (size > 0) XXH3_64bits_update(&state_, bytes, size);
    }
    /// The bytes of a number or of plain data without padding.
    template <class Value>
        requires std::is_trivially_copyable_v<Value>
    void add(const Value& value) {
        add_bytes(&value, sizeof value);
    }
    template <std::ranges::contiguous_range Items>
    void add_all(const Items& items) {
        add_bytes(std::ranges::data(items),
                  std::ranges::size(items) * sizeof(std::ranges::range_value_t<Items>));
    }
    uint64_t digest() const { return XXH3_64bits_digest(&state_); }

private:
    XXH3_state_t state_;
};

}  // namespace sab
