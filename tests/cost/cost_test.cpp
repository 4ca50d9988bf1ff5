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
        const std::vector<CostTerm> polynomial{{real(random), 0, {}, 0},
                                               {real(random), 1, {}, 0},
                                               {real(random), 1, {1}, 0},
                                               {0.01, 2, {2}, 0}};
        const Cost cost = round % 3 == 0   ? Cost()
                          : round % 3 == 1 ? Cost({{1, 1, {2}, 0}}, false)
                                           : Cost(polynomial, false);
        const double length = real(random), limit = real(random) * real(random) * real(random);
        const uint64_t most = 1 + random() % 100000;
        const uint64_t count = cost.largest_count({&length, 1}, limit, most);
        ASSERT_LE(count, most);
        if (count > 0) ASSERT_LE(cost(count, length), limit);
        if (count < most) ASSERT_GT(cost(count + 1, length), limit);
    }
}

TEST(Cost, PaddedTotal_IsCountTimesLengthBitForBit) {
    std::mt19937 random(5);
    std::uniform_real_distribution<double> real(0, 1e6);
    for (int round = 0; round < 1000; ++round) {
        const double length = real(random);
        const uint64_t count = random();
        ASSERT_EQ(Cost()(count, length), static_cast<double>(count) * length);
        ASSERT_EQ(Cost({{1, 1, {2}, 0}}, false)(count, length),
                  static_cast<double>(count) * (length * length));
    }
}

}  // namespace
}  // namespace sab
