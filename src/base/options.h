#pragma once
/// What options have in common: 0 that stands for another number, words that are kept free.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/error.h"

namespace sab {

template <class Number>
constexpr void default_to(Number& option, std::type_identity_t<Number> value) {
    if (option == 0) option = value;
}

/// The items of an array of options. Refuses a count without an array, and an array without a
/// count.
template <class Item>
std::span<const Item> items(const Item* first, std::size_t count, std::string_view name,
                            std::string_view count_name) {
    if (count > 0) require(first, name);
    check(first == nullptr || count > 0, count_name, count, "must be at least 1 where ", name,
          " is given");
    return {first, count};
}

template <std::size_t Words>
void check_reserved(const uint64_t (&reserved)[Words], const std::string& name) {
    for (std::size_t i = 0; i < Words; ++i)
        check(reserved[i] == 0, text(name, ".reserved[", i, "]"), reserved[i],
              "must be 0: set the whole struct to zero first");
}

}  // namespace sab
