#pragma once
/// Saved objects as bytes: a header, then arrays. The same in files and in memory.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace sab {

/// What the header of every image begins with.
struct ImageHeader {
    char magic[8];
    uint32_t byte_order;  ///< reads as image_byte_order on a machine of the writer's byte order
    uint32_t version;
    uint64_t checksum;  ///< XXH3 (64 bits) of all that follows it
    uint64_t length;    ///< of the whole image
};
static_assert(sizeof(ImageHeader) == 32);

/// A kind of image. `object` is its name in messages.
struct ImageKind {
    char magic[8];
    uint32_t version;
    const char* object;
};

/// The first part is the header.
using ImageParts = std::vector<std::span<const std::byte>>;

/// Begins a header whose image has `length` bytes; the checksum is not set.
ImageHeader begin_image(const ImageKind& kind, uint64_t length);
uint64_t image_checksum(const ImageParts& parts);
std::size_t image_size(const ImageParts& parts);
/// Copies the image if it fits. Returns its size.
std::size_t write_image(const ImageParts& parts, std::span<std::byte> room);

/// The refusal of an image that cannot be used.
class ImageRefusal {
public:
    ImageRefusal(const ImageKind& kind, std::string_view name) : kind_(kind), name_(name) {}
    template <class... Why>
    [[noreturn]] void operator()(const Why&... why) const {
        fail_format(name_, "is not a valid ", kind_.object, ": ", why...);
    }

private:
    const ImageKind& kind_;
    std::string_view name_;
};

/// Reads the header, of `size` bytes. Refuses an image of another kind, version, byte order or
/// length. The checksum is not compared.
void read_image_header(const ImageKind& kind, std::span<const std::byte> image,
                       const ImageRefusal& refuse, void* header, std::size_t size);

}  // namespace sab
