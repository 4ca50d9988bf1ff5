/// What a batch costs, and how many samples a budget pays for.
#include "cost/cost.h"

#include <gtest/gtest.h>

#include <random>

namespace sab {
namespace {

TEST(Cost, LargestCount_IsTheLargestThatFits) {
    std::mt19937 random(4);
    std::uniform_real_distribution<double> real(0.01, 100);
    for (int round = 0; round < 3000; ++round) {
        const Cost cost(round % 3,
                        round % 3 == SAB_COST_POLYNOMIAL
                            ? std::vector<double>{real(random), real(random), real(random), 0.01}
                            : std::vector<double>{},
                        nullptr, nullptr);
        const double length = real(random), budget = real(random) * real(random) * real(random);
        const uint64_t limit = 1 + random() % 100000;
        const uint64_t count = cost.largest_count(length, budget, limit);
        ASSERT_LE(count, limit);
        if (count > 0) ASSERT_LE(cost(count, length), budget);
        if (count < limit) ASSERT_GT(cost(count + 1, length), budget);
    }
}

}  // namespace
}  // namespace sab
