// Partitions that begin longest-first, as those of balanced steps do, beside differencing.
#include "balance/partition.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "base/progress.h"
#include "base/sorting.h"

namespace sab {
namespace {

using Numbers = std::vector<double>;

/// The same in every run, with every library.
class Random {
public:
    explicit Random(uint32_t seed) : engine_(seed) {}
    uint32_t below(uint32_t limit) { return static_cast<uint32_t>(engine_() % limit); }
    /// Many short, few long.
    double length() { return 1 + below(1 + below(1 + below(4096))); }

private:
    std::minstd_rand engine_;
};

struct Limits {
    bool equal_counts = false;
    Numbers weights{};
    double capacity = 0;
};

PartitionRules rules_of(uint64_t parts, const Limits& limits, bool is_longest_first = true) {
    PartitionRules rules{parts, limits.equal_counts, limits.capacity};
    rules.is_longest_first = is_longest_first;
    return rules;
}

/// The largest sum of costs of a part; checks that the limits are kept, in the order of the items.
double largest_of(const Numbers& costs, uint64_t parts, const Limits& limits,
                  const std::vector<uint32_t>& part_of) {
    Numbers sums(parts), held(parts);
    std::vector<std::size_t> counts(parts);
    for (std::size_t i = 0; i < costs.size(); ++i) {
        EXPECT_LT(part_of[i], parts);
        sums[part_of[i]] += costs[i];
        if (!limits.weights.empty()) held[part_of[i]] += limits.weights[i];
        ++counts[part_of[i]];
    }
    if (!limits.weights.empty()) {
        EXPECT_LE(std::ranges::max(held), limits.capacity);
    }
    if (limits.equal_counts) {
        EXPECT_EQ(counts, std::vector(parts, costs.size() / parts));
    }
    return std::ranges::max(sums);
}

/// As largest_of(), or -1 when no assignment was found.
double partition_of(const Numbers& costs, uint64_t parts, const Limits& limits = {},
                    bool is_longest_first = true) {
    std::vector<uint32_t> part_of(costs.size());
    if (!Partitioner().partition(costs, limits.weights, rules_of(parts, limits, is_longest_first),
                                 part_of))
        return -1;
    return largest_of(costs, parts, limits, part_of);
}

TEST(LongestFirst, OfSmallCases_IsTheOptimum) {
    const struct {
        Numbers costs;
        uint64_t parts;
        bool equal_counts;
        double optimum;
    } cases[] = {
        {{4, 5, 6, 7, 8}, 2, false, 15},
        {{4, 5, 6, 7, 8}, 3, false, 11},
        {{3, 3, 2, 2, 2}, 2, false, 6},
        {{5, 5, 4, 4, 3, 3, 3}, 3, false, 9},
        {{9, 7, 6, 5, 5, 4}, 3, true, 13},
        {{10, 1, 1, 1}, 2, true, 11},
        {{10, 1, 1, 1}, 2, false, 10},
        {{1, 2, 3}, 5, false, 3},
        {{0, 0, 0}, 2, false, 0},
        {{7}, 1, true, 7},
        {{0.5, 0.25, 0.25, 1}, 2, false, 1},
        {{1, 2, 3, 4}, 1, false, 10},
    };
    for (const auto& each : cases)
        EXPECT_EQ(partition_of(each.costs, each.parts, {each.equal_counts}), each.optimum);
}

TEST(LongestFirst, OfRandomCosts_IsNotMoreEvenThanDifferencing) {
    Random random(1);
    double differencing = 0, longest_first = 0;
    for (int round = 0; round < 300; ++round) {
        const uint64_t parts = 1 + random.below(round % 3 == 0 ? 300 : 20);
        std::size_t count = 1 + random.below(round % 10 == 0 ? 5000 : 400);
        const Limits limits{round % 2 == 1};
        if (limits.equal_counts) count = std::max(parts, count - count % parts);
        Numbers costs(count);
        for (double& cost : costs) {
            cost = random.length();
            if (round % 4 == 2) cost *= cost;
            // half of them 0, the others no whole numbers
            if (round % 4 == 3) cost = random.below(2) * cost / 3;
        }
        const double mean = std::accumulate(costs.begin(), costs.end(), 0.0) /
                            static_cast<double>(parts),
                     most = std::ranges::max(costs), bound = std::max({mean, most, 1e-9});
        const double largest = partition_of(costs, parts, limits);
        EXPECT_LE(largest, mean + most);
        longest_first += largest / bound;
        differencing += partition_of(costs, parts, limits, false) / bound;
    }
    EXPECT_LE(differencing, longest_first);
}

TEST(LongestFirst, KeepsCapacities) {
    Random random(5);
    int refused = 0;
    for (int round = 0; round < 300; ++round) {
        const uint64_t parts = 1 + random.below(40);
        const std::size_t count = parts * (4 + random.below(30));
        Limits limits{round % 5 == 0, Numbers(count)};
        Numbers costs(count);
        for (std::size_t i = 0; i < count; ++i) {
            const double weight = limits.weights[i] = random.length();
            costs[i] = round % 3 == 0   ? weight * weight
                       : round % 3 == 1 ? random.length()
                                        : 1000 / weight;
        }
        const double sum = std::accumulate(limits.weights.begin(), limits.weights.end(), 0.0);
        limits.capacity =
            std::max(sum / static_cast<double>(parts), std::ranges::max(limits.weights)) *
            (1.02 + random.below(50) / 100.0);
        if (partition_of(costs, parts, limits) < 0) ++refused;
    }
    EXPECT_LE(refused, 3);  // some have 2 % of room, with four items a part
}

// Capacities that the sums of some parts meet exactly, in one order and not in another.
TEST(LongestFirst, KeepsTightCapacitiesOfTenths) {
    Random random(9);
    int found = 0;
    for (int round = 0; round < 1000; ++round) {
        const uint64_t parts = 1 + random.below(5);
        const std::size_t count = parts * (1 + random.below(8));
        Limits limits{round % 5 == 0, Numbers(count)};
        Numbers costs(count), sums(parts);
        for (std::size_t i = 0; i < count; ++i) {
            limits.weights[i] = (1 + random.below(9)) / 10.0;
            costs[i] = round % 2 == 1 ? limits.weights[i] : random.below(1000);
            sums[i % parts] += limits.weights[i];
        }
        limits.capacity = std::ranges::max(sums);
        if (partition_of(costs, parts, limits) >= 0) ++found;
    }
    EXPECT_GT(found, 900);
}

TEST(LongestFirst, TakesAKnownOrder) {
    Random random(3);
    Numbers costs(1000);
    for (double& cost : costs) cost = random.length();
    PartitionRules rules = rules_of(7, {});
    std::vector<uint32_t> part_of(costs.size()), again(costs.size());
    ASSERT_TRUE(Partitioner().partition(costs, {}, rules, part_of));
    const std::vector<uint32_t> sorted = by_descending(costs);
    rules.by_cost = sorted;
    ASSERT_TRUE(Partitioner().partition(costs, {}, rules, again));
    EXPECT_EQ(part_of, again);
}

// As many parts as there may be, or half as many as items: no item looks at them all.
TEST(LongestFirst, OfManyParts_TakesAboutTheTimeOfSorting) {
    constexpr std::size_t items = 50000;
    constexpr double most_cost = 1 << 24;
    Random random(3);
    Numbers costs(items), weights(items);
    for (std::size_t i = 0; i < items; ++i) {
        costs[i] = random.below(1 << 24);
        weights[i] = random.below(1 << 24) / 3.0;
    }
    for (const uint64_t parts : {uint64_t{250}, uint64_t{items / 2}, uint64_t{items}, most_parts})
        for (const bool is_capped : {false, true})
            for (const bool equal_counts : {false, true}) {
                if (equal_counts && items % parts != 0) continue;
                const double each = static_cast<double>(items) / static_cast<double>(parts);
                Limits limits{equal_counts};
                if (is_capped) {
                    limits.weights = weights;
                    limits.capacity = std::max(most_cost / 3, each * most_cost / 2 / 3 * 1.1);
                }
                const double largest = partition_of(costs, parts, limits);
                EXPECT_GE(largest, 0);
                EXPECT_LT(largest,
                          std::max((is_capped ? 2 : 1.01) * each * most_cost / 2, most_cost));
            }
}

struct Follower {
    int calls = 0, cancel_at = 0;
    bool is_ascending = true;
    uint64_t done = 0;
};

int32_t follow(void* ctx, uint64_t done, uint64_t total) {
    auto& follower = *static_cast<Follower*>(ctx);
    follower.is_ascending = follower.is_ascending && done >= follower.done && done <= total;
    follower.done = done;
    return ++follower.calls == follower.cancel_at ? 55 : 0;
}

TEST(LongestFirst, CanBeFollowedAndCancelledAllTheWay) {
    Random random(1);
    Numbers costs(100000);
    for (std::size_t i = 0; i < costs.size(); ++i)
        costs[i] = random.length() + 1.0 / static_cast<double>(i + 1);
    Follower follower;
    const Progress progress(follow, &follower);
    const CurrentProgress current(&progress);
    std::vector<uint32_t> part_of(costs.size());
    Partitioner partitioner;
    EXPECT_TRUE(partitioner.partition(costs, {}, rules_of(50, {}), part_of));
    EXPECT_GE(follower.calls, 10);
    EXPECT_TRUE(follower.is_ascending);
    for (int at = 1, calls = follower.calls; at <= calls; ++at) {
        follower = {0, at};
        EXPECT_THROW(partitioner.partition(costs, {}, rules_of(50, {}), part_of), Error);
        EXPECT_EQ(follower.calls, at);
    }
}

}  // namespace
}  // namespace sab
