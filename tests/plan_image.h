#pragma once
/// Where a plan file has its sections; see docs/formats.md.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

/// Makes all checksums right that the length allows, so that the deeper checks are reached.
/// `hash(data, size)` is XXH3.
template <class Hash>
void repair_plan(std::vector<unsigned char>& image, Hash&& hash) {
    constexpr std::size_t header_bytes = 344, first_checksum = 272;
    if (image.size() < header_bytes) return;
    const auto at = [&](std::size_t offset, auto number) {
        std::memcpy(&number, &image[offset], sizeof number);
        return number;
    };
    const auto set = [&](std::size_t offset, uint64_t checksum) {
        std::memcpy(&image[offset], &checksum, sizeof checksum);
    };
    const uint64_t columns = at(264, uint32_t{}), has_ids = at(268, uint32_t{}),
                   samples = at(64, uint64_t{}), buckets = at(56, uint64_t{}),
                   distinct = at(48, uint64_t{});
    const bool coded = columns > 1 || has_ids != 0;
    const uint64_t items[][2] = {{columns, 72},
                                 {at(32, uint64_t{}), 16},
                                 {at(40, uint64_t{}), 48},
                                 {buckets, 56},
                                 {buckets * 6 * columns, 8},
                                 {distinct, 8},
                                 {coded ? 0 : distinct + 1, 4},
                                 {samples, 4},
                                 {coded ? samples * columns : 0, 4}};
    std::size_t offset = header_bytes, place = first_checksum;
    for (const auto& [count, bytes] : items) {
        if (count > (image.size() - offset) / bytes) break;
        set(place, hash(image.data() + offset, count * bytes));
        offset += count * bytes;
        place += 8;
    }
    set(16, hash(image.data() + 24, header_bytes - 24));
}
