#pragma once
/// Where a plan file has its sections; see docs/internals/formats.md.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <vector>

/// Makes all checksums right that the length allows, so that the deeper checks are reached.
/// `hash(data, size)` is XXH3.
template <class Hash>
void repair_plan(std::vector<unsigned char>& image, Hash&& hash) {
    constexpr std::size_t header_bytes = 392, first_checksum = 312, page = 4096,
                          pages = 9;  // the first section with pages
    if (image.size() < header_bytes) return;
    const auto at = [&](std::size_t offset, auto number) {
        std::memcpy(&number, &image[offset], sizeof number);
        return number;
    };
    const auto set = [&](std::size_t place, std::size_t begin, std::size_t end) {
        const uint64_t checksum = hash(image.data() + begin, end - begin);
        std::memcpy(&image[place], &checksum, sizeof checksum);
    };
    const bool counted = std::memcmp(image.data(), "SABCPLN", 8) == 0;
    const uint64_t columns = at(296, uint32_t{}), has_ids = at(300, uint32_t{}),
                   samples = at(96, uint64_t{}), buckets = at(56, uint64_t{}),
                   distinct = at(48, uint64_t{}), runs = at(64, uint64_t{}),
                   second_buckets = at(80, uint64_t{});
    const bool coded = columns > 1 || has_ids != 0;
    const uint64_t offset_bytes = counted ? 8 : 4, in_order = counted ? runs : samples;
    const uint64_t items[][2] = {{columns, 72},
                                 {at(32, uint64_t{}), 16},
                                 {at(40, uint64_t{}), 48},
                                 {buckets, 56},
                                 {buckets * 6 * columns, 8},
                                 {at(72, uint64_t{}), 24},
                                 {second_buckets, 56},
                                 {second_buckets * 6 * columns, 8},
                                 {at(88, uint64_t{}), 24},
                                 {distinct, 8},
                                 {!coded    ? distinct + 1
                                  : counted ? runs + 1
                                            : 0,
                                  offset_bytes},
                                 {in_order, offset_bytes},
                                 {coded ? in_order * columns : 0, 4}};
    std::size_t end = header_bytes, first_page = 0, section = 0;
    for (const auto& [count, bytes] : items) {
        if (section == pages) first_page = end;
        if (count > (image.size() - end) / bytes) break;
        if (section < pages) set(first_checksum + 8 * section, end, end + count * bytes);
        end += count * bytes;
        ++section;
    }
    if (section == std::size(items)) {
        std::size_t place = end;
        for (std::size_t begin = first_page; begin < end && place + 8 <= image.size(); place += 8) {
            const std::size_t next = std::min(end, begin / page * page + page);
            set(place, begin, next);
            begin = next;
        }
        set(first_checksum + 8 * pages, end, place);
    }
    set(16, 24, header_bytes);
}
