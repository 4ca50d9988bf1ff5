/// The ranges of a sorted order against slow and obvious ways to find them.
#include "plan/boundaries.h"
#include "plan/plan.h"
#include "plan/segmentation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>

namespace sab {
namespace {

Sizes sizes_of(const std::vector<uint32_t>& numbers) {
    return Sizes(numbers.data(), numbers.size(), SAB_UINT32, sizeof(uint32_t), nullptr);
}

/// Least padded total of `sorted` in at most `count` intervals, by trying all.
double least_padded(const std::vector<uint32_t>& sorted, std::size_t count) {
    const std::size_t n = sorted.size();
    std::vector<double> best(n + 1, std::numeric_limits<double>::infinity());
    best[0] = 0;
    for (std::size_t k = 0; k < count; ++k) {
        std::vector<double> next = best;
        for (std::size_t end = 1; end <= n; ++end)
            for (std::size_t begin = 0; begin < end; ++begin)
                next[end] = std::min(
                    next[end], best[begin] + static_cast<double>(end - begin) * sorted[end - 1]);
        best = next;
    }
    return best[n];
}

TEST(BoundaryFinder, Optimal_EqualsTryingAll) {
    std::mt19937 random(1);
    for (int round = 0; round < 300; ++round) {
        std::vector<uint32_t> numbers(1 + random() % 40);
        const uint32_t widest = 1 + random() % 60;
        for (uint32_t& number : numbers) number = random() % widest;
        const std::size_t count = 1 + random() % 8;
        const Sorted sorted = sort_by_size(sizes_of(numbers), true, Progress());
        const SizeCounts counts(sorted);
        BoundaryFinder finder(
            counts, 0, static_cast<uint32_t>(numbers.size()), [](double size) { return size; },
            [](double) { return 4; });
        std::ranges::sort(numbers);
        double padded = 0;
        uint64_t begin = 0;
        const std::vector<BucketRange> ranges = finder.optimal(count, Progress());
        ASSERT_LE(ranges.size(), count);
        for (const BucketRange& range : ranges) {
            ASSERT_EQ(range.begin, begin);
            ASSERT_LT(range.begin, range.end);
            padded += static_cast<double>(range.end - range.begin) * numbers[range.end - 1];
            begin = range.end;
        }
        ASSERT_EQ(begin, numbers.size());
        ASSERT_EQ(padded, least_padded(numbers, count)) << "round " << round;
    }
}

TEST(Segmentation, LinesAndDivided_EqualPlain) {
    std::mt19937 random(1);
    for (int round = 0; round < 2000; ++round) {
        const std::size_t offsets = 1 + random() % (round % 100 == 0 ? 1000 : 40),
                          count = 1 + random() % std::min<std::size_t>(offsets, 20);
        const bool is_whole = random() % 2 == 0;
        const std::vector<double> fixed(offsets, random() % 3 == 0 ? random() % 1000 : 0);
        std::vector<double> each;
        std::vector<double> first{0};
        double length = 0;
        for (std::size_t i = 0; i < offsets; ++i) {
            each.push_back(length +=
                           is_whole ? random() % 3 : std::uniform_real_distribution<>()(random));
            first.push_back(first.back() + 1 + random() % 4);
        }
        const LinearCost cost{fixed.data(), each.data(), first.data()};
        const auto as_any = [&](std::size_t begin, std::size_t end) { return cost(begin, end); };
        const std::vector<Ends> ends = all_ends(offsets, count, random() % 2 == 0);
        const std::vector<uint32_t> plain = optimal_segments(ends, Rows::plain, Progress(), as_any);
        ASSERT_EQ(optimal_segments(ends, Rows::divided, Progress(), as_any), plain)
            << "round " << round;
        ASSERT_EQ(optimal_segments(ends, Rows::divided, Progress(), cost), plain)
            << "round " << round;
        ASSERT_EQ(optimal_segments(ends, Rows::divided, Progress(), cost, 0), plain)
            << "in blocks of rows, round " << round;
        ASSERT_EQ(optimal_segments(ends, Rows::plain, Progress(), as_any, 0), plain)
            << "in blocks of rows, round " << round;
    }
}

TEST(BoundaryFinder, ByRank_HasOneTailAmongTheShortest) {
    std::mt19937 random(2);
    std::vector<uint32_t> numbers(5000);
    for (uint32_t& number : numbers) number = 1 + random() % 300;
    const Sorted sorted = sort_by_size(sizes_of(numbers), true, Progress());
    const SizeCounts counts(sorted);
    BoundaryFinder finder(
        counts, 0, 5000, [](double size) { return size; },
        [](double size) { return static_cast<uint64_t>(3000 / size); });
    const std::vector<BucketRange> ranges = finder.equal_buckets(8);
    for (std::size_t i = 1; i < ranges.size(); ++i) {
        EXPECT_EQ(ranges[i].end - ranges[i].begin, 8 * ranges[i].batch_size);
        EXPECT_EQ(ranges[i].begin, ranges[i - 1].end);
    }
    EXPECT_GE((ranges[0].end - ranges[0].begin) / ranges[0].batch_size, 8u);
}

TEST(SortBySize, RadixAndCounting_GiveTheSameOrder) {
    std::mt19937 random(3);
    std::vector<uint32_t> whole(3000);
    for (uint32_t& number : whole) number = random() % 700;
    std::vector<double> real(whole.begin(), whole.end());
    for (double& number : real) number += 0.25;  // not whole: sorted by radix
    const Sorted counted = sort_by_size(sizes_of(whole), true, Progress());
    const Sorted radixed = sort_by_size(
        Sizes(real.data(), real.size(), SAB_FLOAT64, sizeof(double), nullptr), true, Progress());
    ASSERT_EQ(counted.first_offsets, radixed.first_offsets);
    for (std::size_t i = 0; i < whole.size(); ++i) ASSERT_EQ(counted.order[i], radixed.order[i]);
    for (std::size_t i = 1; i < whole.size(); ++i) {
        const auto a = std::pair(whole[counted.order[i - 1]], counted.order[i - 1]),
                   b = std::pair(whole[counted.order[i]], counted.order[i]);
        ASSERT_LT(a, b);
    }
}

TEST(RoundUp, IsAMultipleAndNeverBelowTheLength) {
    EXPECT_EQ(round_up(13, 8), 16);
    EXPECT_EQ(round_up(16, 8), 16);
    EXPECT_EQ(round_up(13, 0), 13);
    std::mt19937_64 random(5);
    for (int round = 0; round < 100000; ++round) {
        const auto length = static_cast<double>(random() >> (11 + random() % 52));
        for (const double multiple : {0.1, 0.3, 1.0, 7.0, 1e6})
            ASSERT_GE(round_up(length, multiple), length) << multiple;
    }
}

}  // namespace
}  // namespace sab
