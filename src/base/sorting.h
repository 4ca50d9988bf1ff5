#pragma once
/// Numbers in the order of their keys.

#include <cstdint>
#include <functional>
#include <numeric>
#include <span>
#include <vector>

namespace sab {

/// The indices of `keys`, smallest key first. Equal keys keep their order. Not for NaN.
std::vector<uint32_t> by_ascending(std::span<const double> keys);
/// The same, largest key first. `worked`: called after each stretch of many keys that a pass went
/// over, with their number; it may throw.
std::vector<uint32_t> by_descending(std::span<const double> keys,
                                    const std::function<void(std::size_t)>& worked = {});

/// The key of each item.
template <class Items, class Key>
std::vector<double> keys_of(const Items& items, Key&& key_of) {
    std::vector<double> keys;
    keys.reserve(items.size());
    for (const auto& item : items) keys.push_back(static_cast<double>(std::invoke(key_of, item)));
    return keys;
}

/// Puts items 0, 1, ... in the order of their groups by `put(item, place)`. Those of a group keep
/// their order. `begins`: the first place of each group; one more at the end.
template <class Begins, class GroupOf, class Put>
void group_items(std::size_t count, std::size_t groups, Begins& begins, GroupOf&& group_of,
                 Put&& put) {
    begins.assign(groups + 1, 0);
    for (std::size_t i = 0; i < count; ++i) ++begins[group_of(i) + 1];
    std::partial_sum(begins.begin(), begins.end(), begins.begin());
    Begins next = begins;
    for (std::size_t i = 0; i < count; ++i) put(i, next[group_of(i)]++);
}

/// Puts an item in the place of the first of a heap.
template <class Item, class IsLess>
void replace_first(std::span<Item> heap, const Item& item, const IsLess& is_less) {
    std::size_t hole = 0;
    for (std::size_t child = 1; child < heap.size(); child = 2 * hole + 1) {
        if (child + 1 < heap.size())  // without a branch, which would be mispredicted
            child += static_cast<std::size_t>(is_less(heap[child], heap[child + 1]));
        if (!is_less(item, heap[child])) break;
        heap[hole] = heap[child];
        hole = child;
    }
    heap[hole] = item;
}

}  // namespace sab
