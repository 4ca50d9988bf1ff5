#include "plan/sorted.h"

#include <algorithm>
#include <array>
#include <limits>
#include <type_traits>
#include <utility>

#include "base/bits.h"
#include "base/error.h"

namespace sab {
namespace {

/// The memory under sizes is the caller's or a mapped file. Whatever happens to it meanwhile,
/// nothing is written outside of an array.
[[noreturn, gnu::cold]] void fail_changed() {
    fail(SAB_E_ARGUMENT, "sizes: were changed while they were read");
}

struct Range {
    double least = std::numeric_limits<double>::infinity();
    double most = 0;
    bool whole = true;
};

/// Least and most size; every size is checked against the rules.
template <class View>
Range find_range(const View& view, std::size_t count, const Progress& progress) {
    using Number = typename View::number_type;
    Range range;
    progress.blocks(count, 0, 3 * count, [&](std::size_t first, std::size_t last) {
        Number least = view[first], most = view[first];
        bool proper = true, whole = true;
        for (std::size_t i = first; i < last; ++i) {
            const Number number = view[i];
            least = std::min(least, number);
            most = std::max(most, number);
            if constexpr (std::is_floating_point_v<Number>) {
                proper = proper && is_size(number);
                whole = whole && number == std::floor(number);
            }
        }
        if constexpr (std::is_integral_v<Number>) proper = is_size(least) && is_size(most);
        if (!proper)
            for (std::size_t i = first; i <= last; ++i) {  // throws at the first that breaks a rule
                if (i == last) fail_changed();
                checked_size(view[i], i);
            }
        range.least = std::min(range.least, static_cast<double>(least) + 0.0);
        range.most = std::max(range.most, static_cast<double>(most));
        range.whole = range.whole && whole;
    });
    return range;
}

/// Levels from how many samples have each size from `least` on; `next` becomes where each size
/// begins.
Sorted make_distinct_sizes(std::vector<uint32_t>& next, std::size_t count, double least) {
    Sorted sorted;
    sorted.count = count;
    uint32_t offset = 0;
    for (std::size_t k = 0; k < next.size(); ++k) {
        const uint32_t here = next[k];
        next[k] = offset;
        if (here == 0) continue;
        sorted.distinct_sizes.push_back(least + static_cast<double>(k));
        sorted.first_offsets.push_back(offset);
        offset += here;
    }
    sorted.first_offsets.push_back(offset);
    return sorted;
}

template <class View>
Sorted sort_by_counting(const View& view, std::size_t count, const Range& range, bool with_order,
                        const Progress& progress) {
    using Number = typename View::number_type;
    const auto least = static_cast<Number>(range.least);
    const auto width = static_cast<std::size_t>(range.most - range.least) + 1;
    // A number that is outside of the range by now is counted in the last counter.
    const auto key = [view, least, width](std::size_t i) __attribute__((always_inline)) {
        if constexpr (std::is_integral_v<Number>) {
            return std::min<uint64_t>(static_cast<uint64_t>(view[i]) - static_cast<uint64_t>(least),
                                      width);
        } else {
            const Number above = view[i] - least;
            return above >= 0 && above < static_cast<Number>(width) ? static_cast<uint64_t>(above)
                                                                    : width;
        }
    };
    std::vector<uint32_t> next(width + 1);
    uint32_t* const counts = next.data();
    progress.blocks(count, count, 3 * count, [&](std::size_t first, std::size_t last) {
        for (std::size_t i = first; i < last; ++i) ++counts[key(i)];
    });
    if (next[width] != 0) fail_changed();

    Sorted sorted = make_distinct_sizes(next, count, range.least);
    if (!with_order) return sorted;
    // The last element takes the samples that have no offset.
    sorted.order = std::unique_ptr<uint32_t[]>(new uint32_t[count + 1]);
    uint32_t* order = sorted.order.get();
    progress.blocks(count, 2 * count, 3 * count, [&](std::size_t first, std::size_t last) {
        for (std::size_t i = first; i < last; ++i)
            order[std::min<std::size_t>(counts[key(i)]++, count)] = static_cast<uint32_t>(i);
    });
    // If each size has as many samples as were counted, every element was written.
    for (std::size_t distinct = 0; distinct < sorted.distinct_sizes.size(); ++distinct)
        if (next[static_cast<std::size_t>(sorted.distinct_sizes[distinct] - range.least)] !=
            sorted.first_offsets[distinct + 1])
            fail_changed();
    return sorted;
}

struct Keyed {
    uint64_t key;  ///< bits of the size as a double: ascending, since no size is negative
    uint32_t index;
};

using Digits = std::array<std::array<uint32_t, 256>, 8>;

/// What does not depend on how the sizes lie in memory.
Sorted sort_by_digits(std::vector<Keyed> items, const Digits& digits, bool with_order,
                      const Progress& progress) {
    constexpr std::size_t stretch = std::size_t{1} << 18;
    const std::size_t count = items.size();
    std::vector<Keyed> other(count);
    for (std::size_t d = 0; d < 8; ++d) {
        // all alike in this digit
        if (std::ranges::any_of(digits[d], [&](uint32_t n) { return n == count; })) continue;
        std::array<uint32_t, 256> next{};
        for (std::size_t k = 1; k < 256; ++k) next[k] = next[k - 1] + digits[d][k - 1];
        for (std::size_t first = 0; first < count; first += stretch) {
            progress.report(2 * count + (d * count + first) / 8, 3 * count);
            for (std::size_t i = first; i < std::min(first + stretch, count); ++i)
                other[next[(items[i].key >> (8 * d)) & 255]++] = items[i];
        }
        items.swap(other);
    }
    std::vector<Keyed>().swap(other);

    Sorted sorted;
    sorted.count = count;
    for (std::size_t offset = 0; offset < count; ++offset) {
        if (offset > 0 && items[offset].key == items[offset - 1].key) continue;
        sorted.distinct_sizes.push_back(number_of(items[offset].key));
        sorted.first_offsets.push_back(static_cast<uint32_t>(offset));
    }
    sorted.first_offsets.push_back(static_cast<uint32_t>(count));
    if (!with_order) return sorted;
    sorted.order = std::unique_ptr<uint32_t[]>(new uint32_t[count]);
    std::ranges::transform(items, sorted.order.get(), &Keyed::index);
    return sorted;
}

template <class View>
Sorted sort_by_radix(const View& view, std::size_t count, bool with_order,
                     const Progress& progress) {
    std::vector<Keyed> items(count);
    Digits digits{};
    progress.blocks(count, count, 3 * count, [&](std::size_t first, std::size_t last) {
        for (std::size_t i = first; i < last; ++i) {
            const uint64_t key = bits_of(static_cast<double>(view[i]) + 0.0);
            items[i] = {key, static_cast<uint32_t>(i)};
            for (std::size_t d = 0; d < 8; ++d) ++digits[d][(key >> (8 * d)) & 255];
        }
    });
    return sort_by_digits(std::move(items), digits, with_order, progress);
}

}  // namespace

std::string described(const Sorted& sorted, uint32_t offset) {
    const double size = sorted.distinct_sizes[distinct_of(sorted.first_offsets, offset)];
    if (sorted.order == nullptr) return text("a size = ", size);
    return text("sizes[", sorted.order[offset], "] = ", size);
}

Sorted sort_by_size(const Sizes& sizes, bool with_order, const Progress& progress) {
    const DenseSizes dense = sizes.dense();
    const std::size_t count = dense.count();
    return dense.visit([&](auto view) {
        const Range range = find_range(view, count, progress);
        // Counting pays while its counters take less than a byte a sample.
        const double widest = static_cast<double>(std::max<std::size_t>(65536, count / 4));
        if (count > 0 && range.whole && range.most - range.least < widest)
            return sort_by_counting(view, count, range, with_order, progress);
        return sort_by_radix(view, count, with_order, progress);
    });
}

}  // namespace sab
