#include "plan/pages.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/hasher.h"

namespace sab {

std::vector<uint64_t> page_checksums(std::size_t begin,
                                     std::span<const std::span<const std::byte>> sections) {
    std::vector<uint64_t> checksums;
    Hasher hash;
    std::size_t room = page_bytes - begin % page_bytes;
    const auto end_page = [&] {
        checksums.push_back(hash.digest());
        hash.reset();
        room = page_bytes;
    };
    for (std::span<const std::byte> left : sections)
        while (!left.empty()) {
            const std::span<const std::byte> next = left.first(std::min(room, left.size()));
            hash.add_all(next);
            left = left.subspan(next.size());
            room -= next.size();
            if (room == 0) end_page();
        }
    if (room < page_bytes) end_page();
    return checksums;
}

void fail_page(std::string_view name, std::size_t begin, std::size_t page) {
    const std::size_t first = begin / page_bytes * page_bytes + page * page_bytes;
    fail_format(
        name, "bytes ", std::max(begin, first), " to ", first + page_bytes - 1,
        " do not have their checksum; the plan's file is damaged or was changed while it was "
        "mapped");
}

VerifiedPages::VerifiedPages(std::string_view name, std::span<const std::byte> image,
                             std::size_t begin, std::size_t end,
                             std::span<const std::byte> checksums)
    : name_(name),
      image_(image.data()),
      begin_(begin),
      end_(end),
      grid_(begin / page_bytes * page_bytes),
      checksums_(checksums),
      known_(page_count(begin, end) / 64 + 1) {}

void VerifiedPages::verify(std::size_t page) const {
    const std::size_t first = grid_ + page * page_bytes, begin = std::max(begin_, first),
                      end = std::min(end_, first + page_bytes);
    uint64_t checksum;
    std::memcpy(&checksum, &checksums_[page * sizeof checksum], sizeof checksum);
    if (XXH3_64bits(image_ + begin, end - begin) != checksum) fail_page(name_, begin_, page);
    known_[page / 64].fetch_or(uint64_t{1} << page % 64, std::memory_order_relaxed);
}

}  // namespace sab
