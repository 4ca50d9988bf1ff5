#include "base/sorting.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

namespace {

/// Few and many numbers, with equal ones, both signs and both zeros.
std::vector<double> numbers_of(std::size_t count) {
    std::mt19937_64 random(count);
    std::vector<double> numbers(count);
    for (double& number : numbers) {
        const uint64_t drawn = random();
        number = static_cast<double>(drawn % 7 == 0 ? drawn >> 11 : drawn % 100) - 30;
        if (number == 0 && drawn % 2 == 0) number = -0.0;
    }
    return numbers;
}

TEST(Sorting, EqualNumbersKeepTheirOrder) {
    for (const std::size_t count : {0u, 1u, 2u, 1024u, 1025u, 20000u}) {
        const std::vector<double> numbers = numbers_of(count);
        std::vector<uint32_t> expected(count);
        std::iota(expected.begin(), expected.end(), 0u);
        std::ranges::stable_sort(expected, {}, [&](uint32_t i) { return numbers[i]; });
        EXPECT_EQ(sab::by_ascending(numbers), expected);
        std::iota(expected.begin(), expected.end(), 0u);
        std::ranges::stable_sort(expected, std::ranges::greater{},
                                 [&](uint32_t i) { return numbers[i]; });
        EXPECT_EQ(sab::by_descending(numbers), expected);
    }
}

}  // namespace
