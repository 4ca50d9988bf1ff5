/// Batch sizes that grow stay within their maximum, also where sums and products would overflow.
#include "steps/growth.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/error.h"

namespace sab {
namespace {

constexpr uint64_t largest = std::numeric_limits<uint64_t>::max();

int32_t add(void* ctx, uint64_t, uint64_t, int64_t* more) {
    *more = *static_cast<int64_t*>(ctx);
    return 0;
}

TEST(Growth, ByCallback_StaysWhereTheMaximumWouldBeExceeded) {
    int64_t more = 3;
    EXPECT_EQ(grown(add, &more, 0, 5, 8), 8u);
    EXPECT_EQ(grown(add, &more, 0, 6, 8), 6u);
    EXPECT_EQ(grown(add, &more, 0, 9, 8), 9u);
    EXPECT_EQ(grown(add, &more, 0, largest - 1, largest), largest - 1);
    more = -1;
    EXPECT_THROW(grown(add, &more, 0, 5, 8), Error);
}

TEST(Growth, Linear_AddsEveryPeriodUpToTheMaximum) {
    EXPECT_EQ(grown_linearly(0, 4, 2, 3, 9), 4u);
    EXPECT_EQ(grown_linearly(2, 4, 2, 3, 9), 4u);
    EXPECT_EQ(grown_linearly(3, 4, 2, 3, 9), 6u);
    EXPECT_EQ(grown_linearly(8, 4, 2, 3, 9), 8u);
    EXPECT_EQ(grown_linearly(9, 4, 2, 3, 9), 9u);
    EXPECT_EQ(grown_linearly(largest, 1, largest, 1, largest), largest);
    EXPECT_EQ(grown_linearly(largest, 4, 0, 1, 9), 4u);
}

TEST(Growth, Doubling_DoublesAtEachMilestoneUpToTheMaximum) {
    const uint64_t milestones[] = {7, 2, 4};  // in any order
    EXPECT_EQ(grown_by_doubling(1, 4, milestones, 20), 4u);
    EXPECT_EQ(grown_by_doubling(2, 4, milestones, 20), 8u);
    EXPECT_EQ(grown_by_doubling(4, 4, milestones, 20), 16u);
    EXPECT_EQ(grown_by_doubling(7, 4, milestones, 20), 20u);
    EXPECT_EQ(grown_by_doubling(4, largest / 2 + 1, milestones, largest), largest);
}

}  // namespace
}  // namespace sab
