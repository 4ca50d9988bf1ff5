#pragma once
/// Samples in ascending order of size, and where each distinct size begins.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <vector>

#include "base/pages.h"
#include "base/progress.h"
#include "sizes/choice.h"
#include "sizes/sizes.h"

namespace sab {

struct Sorted {
    std::size_t count = 0;
    /// sample indices by size; equal sizes by index. Null without `with_order`
    HugeArray<uint32_t> order;
    std::vector<double> distinct_sizes;  ///< the distinct sizes, ascending
    /// offset in `order` of the first sample of each; one more at the end: `count`
    std::vector<uint32_t> first_offsets;
};

/// Index of the distinct size at an offset of the sorted order, from the offsets `first` of the
/// distinct sizes. The first one is not compared: in a mapped file that was changed it might be
/// larger than the offset.
template <class Offsets>
std::size_t distinct_of(const Offsets& first, std::ranges::range_value_t<Offsets> offset) {
    const auto later = std::span(first).subspan(1);
    return static_cast<std::size_t>(std::ranges::upper_bound(later, offset) - later.begin());
}

/// How many samples have each size: what buckets are made of. It views the sizes and the order.
struct SizeCounts {
    explicit SizeCounts(const Sorted& sorted)
        : count(sorted.count),
          distinct_sizes(sorted.distinct_sizes),
          first_places(sorted.first_offsets.begin(), sorted.first_offsets.end()),
          order(sorted.order.get()) {}
    /// Of samples without indices, of which there may be more than an order has.
    SizeCounts(std::span<const double> sizes, std::vector<uint64_t> places)
        : count(places.back()), distinct_sizes(sizes), first_places(std::move(places)) {}

    uint64_t count;
    std::span<const double> distinct_sizes;  ///< ascending
    /// place by size of the first sample of each; one more at the end: `count`
    std::vector<uint64_t> first_places;
    const uint32_t* order = nullptr;

    std::size_t distinct_at(uint64_t place) const {
        return static_cast<std::size_t>(std::ranges::upper_bound(first_places, place) -
                                        first_places.begin()) -
               1;
    }
};

/// The place of the sample with the lowest index among the places [begin, end), which are not
/// empty.
inline uint64_t first_sample(const SizeCounts& counts, uint64_t begin, uint64_t end) {
    if (counts.order == nullptr) return begin;
    return static_cast<uint64_t>(std::min_element(counts.order + begin, counts.order + end) -
                                 counts.order);
}

/// "sizes[3]" and its size for the sample at a place; "size" if the indices are not known.
NamedValue named_size(const SizeCounts& counts, uint64_t place);

/// The distinct sizes of the samples of an epoch, without their order; none where sizes are not
/// whole numbers in a narrow range, which must be sorted.
std::optional<Sorted> count_by_size(const Sizes& sizes, const EpochTurns& turns,
                                    std::span<const uint16_t> source_of, std::string_view name);

/// Sorts by counting where sizes are whole numbers in a narrow range, by radix otherwise. Throws
/// for a size that breaks the rules; `name` is that of the sizes in messages. The result is the
/// same for any number of threads, of which there are at most `threads`.
Sorted sort_by_size(const Sizes& sizes, bool with_order, const Progress& progress,
                    std::string_view name = "sizes", std::size_t threads = 1);

}  // namespace sab
