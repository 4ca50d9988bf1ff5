/// The bytes of a value: "SABV", u32 version 1, u64 XXH3 of the value, seeded by that of its key;
/// then the value.
#include <cstring>

#include "base/xxhash.h"
#include "cache/cache.h"

namespace sab::cache {
namespace {

constexpr char magic[8] = {'S', 'A', 'B', 'V', 1, 0, 0, 0};

uint64_t checksum(std::string_view key, std::string_view value) {
    return XXH3_64bits_withSeed(value.data(), value.size(), XXH3_64bits(key.data(), key.size()));
}

}  // namespace

void append_frame(std::string& out, std::string_view key, std::string_view value) {
    const uint64_t sum = checksum(key, value);
    out.append(magic, sizeof magic);
    for (int i = 0; i < 8; ++i) out += static_cast<char>(sum >> (8 * i));
    out += value;
}

std::string framed(std::string_view key, std::string_view value) {
    std::string frame;
    frame.reserve(frame_header_size + value.size());
    append_frame(frame, key, value);
    return frame;
}

std::optional<std::string_view> unframed(std::string_view key, std::string_view frame) {
    if (frame.size() < frame_header_size || std::memcmp(frame.data(), magic, sizeof magic) != 0)
        return std::nullopt;
    uint64_t sum = 0;
    for (std::size_t i = 0; i < 8; ++i)
        sum |= uint64_t{static_cast<unsigned char>(frame[8 + i])} << (8 * i);
    const std::string_view value = frame.substr(frame_header_size);
    if (sum != checksum(key, value)) return std::nullopt;
    return value;
}

}  // namespace sab::cache
