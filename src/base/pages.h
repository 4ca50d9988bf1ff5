#pragma once
/// Memory of large arrays, in huge pages where the system grants them. Random reads of a large
/// array then miss fewer page tables.

#include <cstddef>
#include <limits>
#include <memory>
#include <new>
#include <type_traits>

namespace sab {

/// Uninitialized memory; throws std::bad_alloc. From `huge_memory_from` bytes on it asks for huge
/// pages, which are advice: a system without them gives plain memory.
void* allocate_huge(std::size_t bytes);
/// `bytes` as they were allocated.
void free_huge(void* memory, std::size_t bytes) noexcept;
constexpr std::size_t huge_memory_from = std::size_t{4} << 20;

struct HugeDeleter {
    std::size_t bytes = 0;
    void operator()(void* memory) const noexcept { free_huge(memory, bytes); }
};

/// An array of numbers. The elements are not initialized.
template <class Item>
using HugeArray = std::unique_ptr<Item[], HugeDeleter>;

template <class Item>
HugeArray<Item> make_huge_array(std::size_t count) {
    static_assert(std::is_trivially_default_constructible_v<Item> &&
                  std::is_trivially_destructible_v<Item>);
    if (count > std::numeric_limits<std::size_t>::max() / sizeof(Item)) throw std::bad_alloc();
    const std::size_t bytes = count * sizeof(Item);
    return HugeArray<Item>(static_cast<Item*>(allocate_huge(bytes)), HugeDeleter{bytes});
}

}  // namespace sab
