#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "base/python_random.h"

/// Numbers of CPython 3.11.
TEST(PythonRandom, DrawsAsCPython) {
    sab::PythonRandom random(1337);
    EXPECT_EQ(random.real(), 0.6177528569514706);
    EXPECT_EQ(random.real(), 0.5332655736050008);
    EXPECT_EQ(random.below(10), 5u);
    EXPECT_EQ(random.below(1), 0u);
    EXPECT_EQ(random.below(1000000007), 832364258u);
    EXPECT_EQ(random.below(uint64_t{1} << 40), 733685098606u);
    sab::PythonRandom large(0x123456789ABCDEF0u);
    EXPECT_EQ(large.real(), 0.849063363578306);
    sab::PythonRandom zero(0);
    EXPECT_EQ(zero.real(), 0.8444218515250481);
}

TEST(PythonRandom, ShufflesAsCPython) {
    std::vector<int> values(20);
    std::iota(values.begin(), values.end(), 0);
    sab::PythonRandom random(42);
    random.shuffle(values);
    EXPECT_EQ(values, (std::vector<int>{19, 5,  14, 4,  9, 13, 15, 18, 6, 12,
                                        17, 10, 1,  11, 2, 16, 7,  8,  0, 3}));
}
