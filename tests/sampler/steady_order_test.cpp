#include "sampler/steady_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

namespace sab {
namespace {

/// Log-normal amounts, of two kinds that depend on each other.
std::vector<double> amounts_of(std::size_t things, std::size_t kinds, unsigned seed) {
    std::mt19937 random(seed);
    std::vector<double> amounts;
    for (std::size_t i = 0; i < things; ++i) {
        double sum = 0;
        for (int k = 0; k < 12; ++k) sum += static_cast<double>(random()) / 4294967296.0;
        const double size = std::exp(0.4 * (sum - 6));
        amounts.push_back(size * size);
        if (kinds == 2) amounts.push_back(size);
    }
    return amounts;
}

struct Outcome {
    double deviation = 0;  ///< the largest of a step's sum, to the mean
    uint64_t moved = 0;    ///< the largest number of steps
};

/// Checks that each thing comes once.
Outcome outcome_of(const SteadyAmounts& given, uint64_t of_step,
                   const std::vector<uint32_t>& order) {
    std::vector<uint32_t> sorted = order, all(given.things());
    std::ranges::sort(sorted);
    std::iota(all.begin(), all.end(), 0u);
    EXPECT_EQ(sorted, all);
    const uint64_t steps = order.size() / of_step;
    Outcome outcome;
    for (std::size_t k = 0; k < given.kinds; ++k) {
        std::vector<double> sums(steps);
        for (std::size_t i = 0; i < order.size(); ++i) {
            const uint64_t step = i / of_step, before = order[i] / of_step;
            sums[step] += given.amounts[order[i] * given.kinds + k];
            outcome.moved =
                std::max(outcome.moved, std::max(step, before) - std::min(step, before));
        }
        const double mean =
            std::accumulate(sums.begin(), sums.end(), 0.0) / static_cast<double>(steps);
        for (const double sum : sums)
            outcome.deviation = std::max(outcome.deviation, std::abs(sum / mean - 1));
    }
    return outcome;
}

TEST(SteadyOrder, StepsOfManyThings_HaveEqualSums) {
    for (const std::size_t kinds : {1, 2})
        for (const uint64_t of_step : {32, 200})
            for (unsigned seed = 0; seed < 2; ++seed) {
                const std::vector<double> amounts = amounts_of(60 * of_step, kinds, seed);
                const SteadyAmounts given{amounts, kinds};
                const Outcome found = outcome_of(given, of_step, steady_order(given, of_step, 16));
                // Few things cannot meet two sums as nearly as one.
                EXPECT_LT(found.deviation, kinds == 1 || of_step == 200 ? 0.01 : 0.03);
                EXPECT_LE(found.moved, 16u);
            }
}

TEST(SteadyOrder, MovesByAtMostSoManySteps) {
    for (const uint64_t of_step : {1, 2, 3, 7, 32})
        for (const uint64_t most : {1, 2, 5, 1000})
            for (const std::size_t steps : {1, 2, 5, 40}) {
                const std::vector<double> amounts = amounts_of(steps * of_step, 1, 9);
                const SteadyAmounts given{amounts, 1};
                const Outcome found =
                    outcome_of(given, of_step, steady_order(given, of_step, most));
                EXPECT_LE(found.moved, most);
            }
}

TEST(SteadyOrder, OfHeavyTails_IsSteadierWithinTheSameMoves) {
    constexpr uint64_t of_step = 32, most_moved = 16;
    std::vector<double> amounts = amounts_of(300 * of_step, 2, 4);
    for (std::size_t i = 0; i < amounts.size(); ++i)
        amounts[i] = std::pow(amounts[i], i % 2 == 0 ? 6 : 3);  // no step reaches the means
    const SteadyAmounts given{amounts, 2};
    std::vector<uint32_t> before(given.things());
    std::iota(before.begin(), before.end(), 0u);
    const Outcome found = outcome_of(given, of_step, steady_order(given, of_step, most_moved));
    EXPECT_LE(found.moved, most_moved);
    EXPECT_GT(found.deviation, 0.1);
    EXPECT_LT(found.deviation, outcome_of(given, of_step, before).deviation);
}

TEST(SteadyOrder, OfThingsWithoutAmounts_HasEachOnce) {
    const std::vector<double> amounts(400, 0);
    outcome_of({amounts, 2}, 10, steady_order({amounts, 2}, 10, 3));
}

TEST(SteadyOrder, EvenOutRanks_GivesRanksEqualSums_AndMicroStepsOfSimilarCost) {
    constexpr uint64_t ranks = 8, micro_steps = 4, count = ranks * micro_steps;
    for (unsigned seed = 0; seed < 20; ++seed) {
        std::vector<double> costs = amounts_of(count, 1, seed);
        for (double& cost : costs) cost = std::sqrt(cost);
        std::vector<uint32_t> step(count), sorted;
        std::iota(step.begin(), step.end(), 0u);
        even_out_ranks(step, costs, ranks);
        sorted = step;
        std::ranges::sort(sorted);
        for (uint32_t i = 0; i < count; ++i) EXPECT_EQ(sorted[i], i);
        std::vector<double> sums(ranks), least;
        for (uint64_t i = 0; i < count; ++i) sums[i % ranks] += costs[step[i]];
        const double mean = std::accumulate(sums.begin(), sums.end(), 0.0) / ranks;
        const double costliest = std::ranges::max(costs);
        EXPECT_LT(std::ranges::max(sums), std::max(1.15 * mean, 1.5 * costliest));
        // The costliest batches of all ranks are in one micro-step.
        std::vector<double> most(ranks);
        for (uint64_t i = 0; i < count; ++i)
            most[i % ranks] = std::max(most[i % ranks], costs[step[i]]);
        bool is_found = false;
        for (uint64_t m = 0; m < micro_steps; ++m) {
            bool is_this = true;
            for (uint64_t r = 0; r < ranks; ++r)
                is_this = is_this && costs[step[m * ranks + r]] == most[r];
            is_found = is_found || is_this;
        }
        EXPECT_TRUE(is_found);
    }
}

TEST(StepDeviation, IsThatOfAllStepsButTheLast) {
    StepDeviation deviation;
    for (const double cost : {1.0, 3.0, 1.0, 3.0, 100.0}) deviation.add(cost);
    EXPECT_DOUBLE_EQ(deviation.value(), 0.5);
    EXPECT_EQ(StepDeviation().value(), 0);
}

}  // namespace
}  // namespace sab
