/// The keyed permutation: a permutation for every count, the same values by both ways, and no trace
/// of structure in chi-square tests over many keys (permutation_statistics_test.cpp tests single
/// keys). Keys are fixed, so the tests are exact repetitions of a run that passed; the thresholds
/// are five standard deviations.
#include "sampler/permutation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <unordered_map>
#include <vector>

namespace sab {
namespace {

std::vector<uint32_t> values(uint64_t count, uint64_t key) {
    std::vector<uint32_t> out(count);
    Permutation(count, key).fill(0, out);
    return out;
}

/// How many standard deviations the chi-square of `seen` lies above that of equal chances.
double deviations(const std::vector<uint64_t>& seen, double draws) {
    const double expected = draws / static_cast<double>(seen.size());
    double chi_square = 0;
    for (const uint64_t n : seen)
        chi_square +=
            (static_cast<double>(n) - expected) * (static_cast<double>(n) - expected) / expected;
    const double freedom = static_cast<double>(seen.size()) - 1;
    return (chi_square - freedom) / std::sqrt(2 * freedom);
}

TEST(Permutation, EveryCount_IsAPermutation) {
    std::vector<uint64_t> counts(300);
    std::iota(counts.begin(), counts.end(), 1);
    for (const uint64_t power : {512u, 1024u, 4096u, 65536u, 1048576u})
        for (const uint64_t count : {power - 1, power, power + 1}) counts.push_back(count);
    for (const uint64_t count : counts) {
        std::vector<uint32_t> all = values(count, permutation_key(1, 2, Purpose::samples, count));
        std::ranges::sort(all);
        for (uint64_t i = 0; i < count; ++i) ASSERT_EQ(all[i], i) << "count " << count;
    }
}

TEST(Permutation, Fill_EqualsTheOperatorFromAnyFirst) {
    for (const uint64_t count : {1u, 2u, 31u, 32u, 33u, 100u, 511u, 512u, 513u, 700u, 5000u, 32769u,
                                 65535u, 65536u, 65537u, 100000u, 131073u}) {
        const Permutation permutation(count, permutation_key(3, 1, Purpose::samples, 0));
        for (uint64_t first = 0; first < count; first += 1 + count / 7) {
            std::vector<uint32_t> out(count - first);
            permutation.fill(first, out);
            for (uint64_t i = 0; i < out.size(); ++i)
                ASSERT_EQ(out[i], permutation(first + i)) << count << " from " << first;
            std::vector<uint32_t> narrow(out.size());
            permutation.fill_narrow(first, narrow);
            ASSERT_EQ(narrow, out) << count << " from " << first;
        }
        // places 100 to 100 + some of many in any order are 3, 4, ... here
        const auto some = static_cast<uint32_t>(count - std::min<uint64_t>(count, 3));
        std::vector<uint32_t> places, expected;
        for (uint64_t i = 0; i < 3000; ++i)
            places.push_back(static_cast<uint32_t>(mix(i) % (count + 200)));
        for (const uint32_t place : places)
            expected.push_back(place >= 100 && place < 100 + some
                                   ? 7 + static_cast<uint32_t>(permutation(place - 97))
                                   : place);
        std::vector<uint32_t> narrow = places;
        permutation.map({100, some, 3, 7}, places);
        ASSERT_EQ(places, expected) << count;
        permutation.map_narrow({100, some, 3, 7}, narrow);
        ASSERT_EQ(narrow, expected) << count;
    }
}

TEST(Permutation, Inverse_IsThePlaceOfAValue) {
    for (uint64_t count = 1; count <= 1100; ++count) {
        const Permutation permutation(count, permutation_key(3, 2, Purpose::samples, count));
        for (uint64_t i = 0; i < count; ++i)
            ASSERT_EQ(permutation.inverse(permutation(i)), i) << count;
    }
    for (int bits = 11; bits <= 48; ++bits)
        for (const uint64_t count :
             {(uint64_t{1} << bits) - 1, uint64_t{1} << bits, (uint64_t{3} << (bits - 2)) + 1}) {
            const Permutation permutation(count, permutation_key(4, 7, Purpose::samples, count));
            for (uint64_t i = 0; i < 300; ++i)
                for (const uint64_t place : {i, count - 1 - i, mix(i) % count}) {
                    const uint64_t value = permutation(place);
                    ASSERT_LT(value, count);
                    ASSERT_EQ(permutation.inverse(value), place) << count;
                }
        }
}

TEST(Permutation, BeyondThirtyTwoBits_NoDifferenceOfPlacesGivesADifferenceOfValues) {
    // 2^14 pairs of places at a power-of-two distance: two of the about 2^47 differences of their
    // values agree with chance 2^-20 or less.
    for (const uint64_t count :
         {(uint64_t{1} << 32) + 1, uint64_t{1} << 40, Permutation::largest_count})
        for (uint64_t epoch = 0; epoch < 5; ++epoch) {
            const Permutation permutation(count, permutation_key(8, epoch, Purpose::samples, 0));
            for (uint64_t distance = 1; distance < count; distance *= 2) {
                std::unordered_map<uint64_t, int> seen;
                int most = 0;
                for (uint64_t i = 0; i < 16384; ++i) {
                    const uint64_t place = mix(i) % count & ~distance;
                    if ((place | distance) < count)
                        most = std::max(most,
                                        ++seen[permutation(place) ^ permutation(place | distance)]);
                }
                ASSERT_LE(most, 3) << count << " at " << distance;
            }
        }
}

TEST(Permutation, LargestCountOfFill_StaysInside) {
    const Permutation permutation(0xFFFFFFFFu, permutation_key(1, 1, Purpose::samples, 0));
    std::vector<uint32_t> out(1000);
    permutation.fill(0xFFFFFFFFu - 1000, out);
    for (std::size_t i = 0; i < out.size(); ++i) {
        EXPECT_LT(out[i], 0xFFFFFFFFu);
        EXPECT_EQ(out[i], permutation(0xFFFFFFFFu - 1000 + i));
    }
    std::ranges::sort(out);
    EXPECT_EQ(std::ranges::adjacent_find(out), out.end());
}

TEST(Permutation, SmallCounts_GiveAllOrdersEquallyOften) {
    for (const uint64_t count : {2u, 3u, 4u, 5u}) {
        std::map<std::vector<uint32_t>, uint64_t> seen;
        constexpr uint64_t draws = 60000;
        for (uint64_t epoch = 0; epoch < draws; ++epoch)
            ++seen[values(count, permutation_key(11, epoch, Purpose::samples, 4))];
        uint64_t orders = 1;
        for (uint64_t i = 2; i <= count; ++i) orders *= i;
        ASSERT_EQ(seen.size(), orders);
        std::vector<uint64_t> counts;
        for (const auto& [order, n] : seen) counts.push_back(n);
        EXPECT_LT(std::abs(deviations(counts, draws)), 5) << "count " << count;
    }
}

class Uniformity : public testing::TestWithParam<uint64_t> {};

TEST_P(Uniformity, PositionsAndNeighbours) {
    const uint64_t count = GetParam();
    const uint64_t draws = std::max<uint64_t>(20000, 20 * count);
    std::vector<uint64_t> watched{0, count / 3, count / 2, count - 1};
    std::vector<std::vector<uint64_t>> at(watched.size(), std::vector<uint64_t>(count));
    std::vector<std::vector<uint64_t>> next(watched.size(), std::vector<uint64_t>(count - 1)),
        far = next;
    for (uint64_t epoch = 0; epoch < draws; ++epoch) {
        const std::vector<uint32_t> out =
            values(count, permutation_key(7, epoch, Purpose::samples, 3));
        const auto step = [&](uint64_t from, uint64_t to) {
            return (out[to % count] + count - out[from]) % count - 1;
        };
        for (std::size_t w = 0; w < watched.size(); ++w) {
            ++at[w][out[watched[w]]];
            ++next[w][step(watched[w], watched[w] + 1)];
            ++far[w][step(watched[w], watched[w] + std::max<uint64_t>(1, count / 3))];
        }
    }
    const auto n = static_cast<double>(draws);
    for (std::size_t w = 0; w < watched.size(); ++w) {
        EXPECT_LT(deviations(at[w], n), 5) << "where place " << watched[w] << " goes";
        EXPECT_LT(deviations(next[w], n), 5) << "from place " << watched[w] << " to the next";
        EXPECT_LT(deviations(far[w], n), 5) << "from place " << watched[w] << " to a third on";
    }
}

INSTANTIATE_TEST_SUITE_P(Counts, Uniformity,
                         testing::Values(3, 7, 31, 32, 33, 48, 63, 64, 65, 96, 127, 128, 129, 255,
                                         256, 257, 511, 512, 513, 1000, 1023, 1024, 1025, 2047,
                                         2048, 2049));

TEST(Permutation, BatchMates_MeetAgainByChanceOnly) {
    // 16 batches of 64: two mates of one epoch are mates of the next with chance 63 / 1023.
    constexpr uint64_t count = 1024, batch = 64;
    uint64_t met = 0, pairs = 0;
    for (uint64_t epoch = 0; epoch < 200; ++epoch) {
        const auto now = values(count, permutation_key(5, epoch, Purpose::samples, 0));
        const auto then = values(count, permutation_key(5, epoch + 1, Purpose::samples, 0));
        std::vector<uint64_t> batch_then(count);
        for (uint64_t i = 0; i < count; ++i) batch_then[then[i]] = i / batch;
        for (uint64_t i = 0; i < count; ++i)
            for (uint64_t j = i + 1; j < (i / batch + 1) * batch; ++j) {
                ++pairs;
                met += batch_then[now[i]] == batch_then[now[j]];
            }
    }
    const double chance = 63.0 / 1023.0;
    const auto n = static_cast<double>(pairs);
    EXPECT_NEAR(static_cast<double>(met) / n, chance, 5 * std::sqrt(chance / n) * 4);
}

TEST(Permutation, DifferentPurposesEpochsAndBuckets_HaveDifferentKeys) {
    std::vector<uint64_t> keys;
    for (uint64_t seed = 0; seed < 4; ++seed)
        for (uint64_t epoch = 0; epoch < 4; ++epoch)
            for (const Purpose purpose : {Purpose::samples, Purpose::steps, Purpose::batches})
                for (uint64_t which = 0; which < 4; ++which)
                    keys.push_back(permutation_key(seed, epoch, purpose, which));
    std::ranges::sort(keys);
    EXPECT_EQ(std::ranges::adjacent_find(keys), keys.end());
}

}  // namespace
}  // namespace sab
