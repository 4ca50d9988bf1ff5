#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>
#include <utility>

#include "base/pages.h"

namespace {

/// The flags that Linux shows for the mapping of an address: "rd wr mr ...".
std::string flags_of(const void* address) {
    const auto wanted = reinterpret_cast<uintptr_t>(address);
    std::ifstream maps("/proc/self/smaps");
    std::string line;
    bool is_inside = false;
    while (std::getline(maps, line)) {
        uintptr_t begin = 0, end = 0;
        if (std::sscanf(line.c_str(), "%lx-%lx", &begin, &end) == 2)
            is_inside = wanted >= begin && wanted < end;
        if (is_inside && line.rfind("VmFlags:", 0) == 0) return line + " ";
    }
    return "";
}

bool has_huge_pages() {
    return std::ifstream("/sys/kernel/mm/transparent_hugepage/enabled").good();
}

}  // namespace

TEST(HugeArray, LargeArray_AsksForHugePages) {
    if (!has_huge_pages()) GTEST_SKIP() << "this system has no huge pages";
    auto large = sab::make_huge_array<uint32_t>(sab::huge_memory_from / 4);
    EXPECT_NE(flags_of(large.get()).find(" hg "), std::string::npos) << flags_of(large.get());
    EXPECT_EQ(reinterpret_cast<uintptr_t>(large.get()) % (uintptr_t{2} << 20), 0u);
}

TEST(HugeArray, SmallArray_TakesPlainMemory) {
    const auto small = sab::make_huge_array<uint32_t>(sab::huge_memory_from / 4 - 1);
    EXPECT_EQ(flags_of(small.get()).find(" hg "), std::string::npos);
}

TEST(HugeArray, Moves_AndIsEmptyAfterwards) {
    for (const std::size_t count : {std::size_t{0}, std::size_t{3}, std::size_t{2} << 20}) {
        auto array = sab::make_huge_array<uint32_t>(count);
        for (std::size_t i = 0; i < count; ++i) array[i] = static_cast<uint32_t>(i);
        const sab::HugeArray<uint32_t> moved = std::move(array);
        EXPECT_EQ(array, nullptr);
        for (std::size_t i = 0; i < count; i += 1000) EXPECT_EQ(moved[i], i);
    }
}

TEST(HugeArray, MoreBytesThanThereAre_ThrowsBadAlloc) {
    EXPECT_THROW(sab::make_huge_array<uint32_t>(SIZE_MAX / 2), std::bad_alloc);
}
