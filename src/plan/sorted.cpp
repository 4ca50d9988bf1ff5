#include "plan/sorted.h"

#include <algorithm>
#include <array>
#include <limits>
#include <type_traits>
#include <utility>

#include "base/bits.h"
#include "base/error.h"
#include "base/parts.h"

namespace sab {
namespace {

/// The memory under sizes is the caller's or a mapped file. Whatever happens to it meanwhile,
/// nothing is written outside of an array.
[[noreturn, gnu::cold]] void fail_changed() {
    refuse_argument("sizes", no_value, "were changed while they were read");
}

struct Range {
    double least = std::numeric_limits<double>::infinity();
    double most = 0;
    bool whole = true;

    void add(const Range& other) {
        least = std::min(least, other.least);
        most = std::max(most, other.most);
        whole = whole && other.whole;
    }
};

/// Of `count` samples; fewer than `most` where threads would have too little to do.
Parts parts_of(std::size_t count, std::size_t most) {
    constexpr std::size_t least = std::size_t{1} << 16;
    return {count, std::clamp<std::size_t>(count / least, 1, most)};
}

/// Least and most size; every size is checked against the rules.
template <class Reader>
Range find_range(const Sizes& sizes, const Reader& read, const Parts& parts, std::string_view name,
                 const Progress& progress) {
    using Number = typename Reader::number_type;
    std::vector<Range> ranges(parts.parts);
    in_parts(
        parts, progress, {0, parts.count, 3 * parts.count},
        [&](std::size_t part, std::size_t first, std::size_t last) {
            Number least = std::numeric_limits<Number>::max(), most = 0;
            bool proper = true, whole = true;
            read(first, last, [&](auto numbers, std::size_t, std::size_t count) {
                for (std::size_t i = 0; i < count; ++i) {
                    const Number number = numbers[i];
                    least = std::min(least, number);
                    most = std::max(most, number);
                    if constexpr (std::is_floating_point_v<Number>) {
                        proper = proper && is_size(number);
                        whole = whole && number == std::floor(number);
                    }
                }
            });
            if constexpr (std::is_integral_v<Number>) proper = is_size(least) && is_size(most);
            if (!proper) sizes.refuse(first, last - first, name);
            ranges[part].add({static_cast<double>(least) + 0.0, static_cast<double>(most), whole});
        });
    for (const Range& range : ranges) ranges[0].add(range);
    return ranges[0];
}

/// The samples of each size from `least` on, counted in `parts` tables of `width` counters. They
/// become the offsets where the samples of each part begin.
Sorted make_distinct_sizes(std::vector<uint32_t>& next, std::size_t width, std::size_t count,
                           double least) {
    Sorted sorted;
    sorted.count = count;
    uint32_t offset = 0;
    for (std::size_t k = 0; k < width; ++k) {
        const uint32_t begin = offset;
        for (std::size_t i = k; i < next.size(); i += width)
            offset += std::exchange(next[i], offset);
        if (offset == begin) continue;
        sorted.distinct_sizes.push_back(least + static_cast<double>(k));
        sorted.first_offsets.push_back(begin);
    }
    sorted.first_offsets.push_back(offset);
    return sorted;
}

template <class Reader>
Sorted sort_by_counting(const Reader& read, const Parts& all, const Range& range, bool with_order,
                        const Progress& progress) {
    using Number = typename Reader::number_type;
    const auto least = static_cast<Number>(range.least);
    const auto width = static_cast<std::size_t>(range.most - range.least) + 1;
    // A number that is outside of the range by now is counted in the last counter.
    const auto key = [least, width](Number number) __attribute__((always_inline)) {
        if constexpr (std::is_integral_v<Number>) {
            return std::min<uint64_t>(static_cast<uint64_t>(number) - static_cast<uint64_t>(least),
                                      width);
        } else {
            const Number above = number - least;
            return above >= 0 && above < static_cast<Number>(width) ? static_cast<uint64_t>(above)
                                                                    : width;
        }
    };
    // A row of counters for each part, which get at most 8 bytes a sample.
    const std::size_t row = width + 1;
    const Parts parts{all.count, std::min(all.parts, std::max<std::size_t>(all.count / row, 1))};
    const std::size_t count = parts.count;
    std::vector<uint32_t> next(parts.parts * row);
    in_parts(parts, progress, {count, 2 * count, 3 * count},
             [&](std::size_t part, std::size_t first, std::size_t last) {
                 uint32_t* const counts = next.data() + part * row;
                 read(first, last, [&](auto numbers, std::size_t, std::size_t some) {
                     for (std::size_t i = 0; i < some; ++i) ++counts[key(numbers[i])];
                 });
             });
    for (std::size_t part = 0; part < parts.parts; ++part)
        if (next[part * row + width] != 0) fail_changed();

    Sorted sorted = make_distinct_sizes(next, row, count, range.least);
    if (!with_order) return sorted;
    const std::vector<uint32_t> begins = next;
    // The last element takes the samples that have no offset.
    sorted.order = make_huge_array<uint32_t>(count + 1);
    uint32_t* const order = sorted.order.get();
    in_parts(parts, progress, {2 * count, 3 * count, 3 * count},
             [&](std::size_t part, std::size_t first, std::size_t last) {
                 uint32_t* const offsets = next.data() + part * row;
                 read(first, last, [&](auto numbers, std::size_t at, std::size_t some) {
                     for (std::size_t i = 0; i < some; ++i)
                         order[std::min<std::size_t>(offsets[key(numbers[i])]++, count)] =
                             static_cast<uint32_t>(at + i);
                 });
             });
    // If each part has as many samples of each size as were counted, every element was written.
    for (std::size_t part = 0; part < parts.parts; ++part)
        for (std::size_t k = 0; k < width; ++k) {
            const uint32_t end =
                part + 1 < parts.parts ? begins[(part + 1) * row + k] : begins[k + 1];
            if (next[part * row + k] != end) fail_changed();
        }
    return sorted;
}

/// Whether counting pays: its counters take less than a byte a sample.
bool is_narrow(const Range& range, std::size_t count) {
    const double widest = static_cast<double>(std::max<std::size_t>(65536, count / 4));
    return count > 0 && range.whole && range.most - range.least < widest;
}

struct Keyed {
    uint64_t key;  ///< bits of the size as a double: ascending, since no size is negative
    uint32_t index;
};

/// How many items have each value of each of the eight bytes of their keys.
using Digits = std::array<std::array<uint32_t, 256>, 8>;

/// Sorts by one byte of the key; equal ones keep their order.
void sort_by_byte(const std::vector<Keyed>& items, std::vector<Keyed>& sorted, unsigned byte,
                  const Digits& digits, const Parts& parts, const Progress& progress,
                  const ProgressRange& range) {
    const auto digit = [&](std::size_t i) { return items[i].key >> (8 * byte) & 255; };
    std::vector<std::array<uint32_t, 256>> next(parts.parts);
    if (parts.parts == 1)
        next[0] = digits[byte];
    else
        in_parts(parts, Progress(), range,
                 [&](std::size_t part, std::size_t first, std::size_t last) {
                     for (std::size_t i = first; i < last; ++i) ++next[part][digit(i)];
                 });
    uint32_t offset = 0;
    for (std::size_t k = 0; k < 256; ++k)
        for (auto& of_part : next) offset += std::exchange(of_part[k], offset);
    in_parts(parts, progress, range, [&](std::size_t part, std::size_t first, std::size_t last) {
        for (std::size_t i = first; i < last; ++i) sorted[next[part][digit(i)]++] = items[i];
    });
}

/// What does not depend on how the sizes lie in memory.
Sorted sort_by_digits(std::vector<Keyed> items, const Digits& digits, const Parts& parts,
                      bool with_order, const Progress& progress) {
    const std::size_t count = items.size();
    std::vector<Keyed> other(count);
    for (unsigned d = 0; d < 8; ++d) {
        // all alike in this digit
        if (std::ranges::any_of(digits[d], [&](uint32_t n) { return n == count; })) continue;
        sort_by_byte(items, other, d, digits, parts, progress,
                     {2 * count + d * count / 8, 2 * count + (d + 1) * count / 8, 3 * count});
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
    sorted.order = make_huge_array<uint32_t>(count);
    std::ranges::transform(items, sorted.order.get(), &Keyed::index);
    return sorted;
}

/// One loop for all number types, since sorting takes far longer than loading doubles.
Sorted sort_by_radix(const Sizes& sizes, const Parts& parts, bool with_order,
                     const Progress& progress) {
    const Sizes::BlockReader<double> read{sizes};
    const std::size_t count = parts.count;
    std::vector<Keyed> items(count);
    std::vector<Digits> digits(parts.parts);
    in_parts(parts, progress, {count, 2 * count, 3 * count},
             [&](std::size_t part, std::size_t first, std::size_t last) {
                 Digits& own = digits[part];
                 read(first, last, [&](auto numbers, std::size_t at, std::size_t some) {
                     for (std::size_t i = 0; i < some; ++i) {
                         const uint64_t key = bits_of(numbers[i] + 0.0);
                         items[at + i] = {key, static_cast<uint32_t>(at + i)};
                         for (std::size_t d = 0; d < 8; ++d) ++own[d][(key >> (8 * d)) & 255];
                     }
                 });
             });
    for (std::size_t part = 1; part < digits.size(); ++part)
        for (std::size_t d = 0; d < 8; ++d)
            for (std::size_t k = 0; k < 256; ++k) digits[0][d][k] += digits[part][d][k];
    return sort_by_digits(std::move(items), digits[0], parts, with_order, progress);
}

}  // namespace

NamedValue named_size(const SizeCounts& counts, uint64_t place) {
    const double size = counts.distinct_sizes[counts.distinct_at(place)];
    return {counts.order == nullptr ? "size" : text("sizes[", counts.order[place], "]"),
            text(size)};
}

Sorted sort_by_size(const Sizes& sizes, bool with_order, const Progress& progress,
                    std::string_view name, std::size_t threads) {
    const Parts parts = parts_of(sizes.count(), threads);
    return sizes.visit([&](const auto& read) {
        const Range range = find_range(sizes, read, parts, name, progress);
        if (is_narrow(range, parts.count))
            return sort_by_counting(read, parts, range, with_order, progress);
        return sort_by_radix(sizes, parts, with_order, progress);
    });
}

std::optional<Sorted> count_by_size(const Sizes& sizes, const EpochTurns& turns,
                                    std::span<const uint16_t> source_of, std::string_view name) {
    const std::size_t count = sizes.count();
    return sizes.visit([&](const auto& read) -> std::optional<Sorted> {
        const Range range = find_range(sizes, read, Parts{count}, name, Progress());
        if (!is_narrow(range, count)) return std::nullopt;
        std::vector<uint32_t> next(static_cast<std::size_t>(range.most - range.least) + 1);
        std::size_t all = 0;
        read(0, count, [&](auto numbers, std::size_t first, std::size_t some) {
            for (std::size_t i = 0; i < some; ++i) {
                const uint32_t times = turns.of(first + i, source_of[first + i]);
                next[static_cast<std::size_t>(static_cast<double>(numbers[i]) - range.least)] +=
                    times;
                all += times;
            }
        });
        return make_distinct_sizes(next, next.size(), all, range.least);
    });
}

}  // namespace sab
