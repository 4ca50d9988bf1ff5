#pragma once
/// Slots of a Redis Cluster: which keys are at one server.

#include <string_view>

namespace sab::cache {

constexpr int slots = 16384;

/// CRC-16/XMODEM of the key, or of what stands in its first braces, if that is anything.
inline unsigned slot_of(std::string_view key) {
    if (const std::size_t open = key.find('{'); open != key.npos)
        if (const std::size_t close = key.find('}', open + 1);
            close != key.npos && close > open + 1)
            key = key.substr(open + 1, close - open - 1);
    unsigned crc = 0;
    for (const char c : key) {
        crc ^= static_cast<unsigned>(static_cast<unsigned char>(c)) << 8;
        for (int bit = 0; bit < 8; ++bit)
            crc = ((crc << 1) ^ ((crc & 0x8000u) != 0 ? 0x1021u : 0u)) & 0xffffu;
    }
    return crc % slots;
}

}  // namespace sab::cache
