#include "base/image.h"

#include <cstring>

#include "base/hasher.h"

namespace sab {
namespace {

constexpr uint32_t image_byte_order = 0x01020304;

}  // namespace

ImageHeader begin_image(const ImageKind& kind, uint64_t length) {
    ImageHeader header{{}, image_byte_order, kind.version, 0, length};
    std::memcpy(header.magic, kind.magic, sizeof header.magic);
    return header;
}

uint64_t image_checksum(const ImageParts& parts) {
    Hasher hash;
    hash.add_all(parts[0].subspan(offsetof(ImageHeader, length)));
    for (std::size_t i = 1; i < parts.size(); ++i) hash.add_all(parts[i]);
    return hash.digest();
}

std::size_t image_size(const ImageParts& parts) {
    std::size_t size = 0;
    for (const auto part : parts) size += part.size();
    return size;
}

std::size_t write_image(const ImageParts& parts, std::span<std::byte> room) {
    const std::size_t size = image_size(parts);
    if (room.size() < size) return size;
    std::byte* to = room.data();
    for (const auto part : parts) {
        if (!part.empty()) std::memcpy(to, part.data(), part.size());
        to += part.size();
    }
    return size;
}

void read_image_header(const ImageKind& kind, std::span<const std::byte> image,
                       const ImageRefusal& refuse, void* header, std::size_t size) {
    if (image.size() < sizeof kind.magic ||
        std::memcmp(image.data(), kind.magic, sizeof kind.magic) != 0)
        refuse("its first bytes are not those of a ", kind.object);
    if (image.size() < size) refuse("it is truncated inside its header");
    std::memcpy(header, image.data(), size);
    ImageHeader common;
    std::memcpy(&common, image.data(), sizeof common);
    if (common.byte_order != image_byte_order)
        refuse("it was written on a machine of another byte order");
    if (common.version != kind.version)
        refuse("its format version is ", common.version, ", this library reads ", kind.version);
    if (common.length != image.size())
        refuse("it has ", image.size(), " bytes, must have ", common.length);
}

}  // namespace sab
