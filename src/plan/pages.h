#pragma once
/// The pages of a plan's image. Each has a checksum, so that what a batch reads of a mapped file is
/// verified without the rest.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sab {

inline constexpr std::size_t page_bytes = 4096;

/// The checksums of the pages that an image has of `sections`, which follow one another in it from
/// byte `begin` on. The first page and the last one may have fewer than page_bytes of them.
std::vector<uint64_t> page_checksums(std::size_t begin,
                                     std::span<const std::span<const std::byte>> sections);

/// How many they are, for sections that end at byte `end`.
constexpr std::size_t page_count(std::size_t begin, std::size_t end) {
    return (end + page_bytes - 1) / page_bytes - begin / page_bytes;
}

/// The refusal of a page of such sections, of the plan with this name.
[[noreturn, gnu::cold]] void fail_page(std::string_view name, std::size_t begin, std::size_t page);

/// The pages of a mapped image. Each is verified when it is needed first. Threads may share it.
class VerifiedPages {
public:
    /// Of bytes `begin` to `end` of `image`. The views must stay valid.
    VerifiedPages(std::string_view name, std::span<const std::byte> image, std::size_t begin,
                  std::size_t end, std::span<const std::byte> checksums);
    /// Throws if a page of `bytes`, which are in the image, is damaged.
    void need(std::span<const std::byte> bytes) const {
        if (bytes.empty()) return;
        const std::size_t place = static_cast<std::size_t>(bytes.data() - image_) - grid_,
                          last = (place + bytes.size() - 1) / page_bytes;
        for (std::size_t page = place / page_bytes; page <= last; ++page)
            if ((known_[page / 64].load(std::memory_order_relaxed) >> page % 64 & 1) == 0)
                [[unlikely]]
                verify(page);
    }

private:
    [[gnu::noinline]] void verify(std::size_t page) const;

    std::string name_;
    const std::byte* image_;
    std::size_t begin_, end_;
    std::size_t grid_;  ///< where the first page would begin if it were whole
    std::span<const std::byte> checksums_;
    mutable std::vector<std::atomic<uint64_t>> known_;  ///< a bit for each page: it was verified
};

}  // namespace sab
