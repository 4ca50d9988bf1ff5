#include "sampler/even_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

namespace sab {
namespace {

/// The amounts of each source in each batch.
using Batches = std::vector<std::vector<double>>;

/// The order that even_epoch() makes of the batches.
std::vector<uint32_t> order_of(const Batches& batches, const std::vector<double>& costs,
                               uint64_t step_batches, uint64_t fixed,
                               std::vector<uint64_t> samples = {}) {
    const std::size_t sources = batches.empty() ? 1 : batches[0].size();
    SourceAmounts amounts(sources, 10);
    for (std::size_t b = 0; b < batches.size(); ++b) {
        // Both ways to add a batch are the same.
        std::vector<double> sums(batches[b]);
        sums.resize(amounts.width());
        if (b % 2 == 0) {
            amounts.finish(sums.data());
            EXPECT_EQ(sums, std::vector<double>(sums.size()));
        } else {
            amounts.add(sources, [&](std::size_t s) { return SourceAmounts::Part{s, sums[s]}; });
            amounts.finish();
        }
    }
    std::vector<uint32_t> all(batches.size());
    std::iota(all.begin(), all.end(), 0u);
    samples.resize(batches.size(), 9);
    return even_epoch(amounts, all, costs, samples, {0, 0, step_batches, fixed});
}

/// The largest distance of each source from its due, found anew.
std::vector<double> deviation_of(const Batches& batches, const std::vector<uint32_t>& order) {
    const std::size_t sources = batches[0].size();
    std::vector<double> share(sources), given(sources), most(sources);
    double all = 0, total = 0, unit = 0;
    for (const std::vector<double>& batch : batches) {
        const double size = std::accumulate(batch.begin(), batch.end(), 0.0);
        for (std::size_t s = 0; s < sources; ++s) share[s] += batch[s];
        all += size;
        unit = std::max(unit, size);
    }
    for (const uint32_t batch : order) {
        for (std::size_t s = 0; s < sources; ++s) {
            given[s] += batches[batch][s];
            total += batches[batch][s];
        }
        for (std::size_t s = 0; s < sources; ++s)
            most[s] = std::max(most[s], std::abs(given[s] - share[s] / all * total) / unit);
    }
    return most;
}

TEST(EvenOrder, BatchesOfOneSource_StayWithinABatch_WhateverTheirSizes) {
    std::mt19937 random(5);
    for (std::size_t sources = 1; sources <= 40; sources += 3)
        for (int round = 0; round < 5; ++round) {
            Batches batches;
            for (int b = 0; b < 300; ++b) {
                std::vector<double> batch(sources);
                // Few batches of the last sources, many of the first.
                const std::size_t source = random() % (1 + random() % sources);
                batch[source] = round == 0 ? 10 : 1 + random() % 10;
                batches.push_back(batch);
            }
            const std::vector<double> costs(300, 1);
            const std::vector<double> found = deviation_of(batches, order_of(batches, costs, 1, 0));
            for (const double each : found) EXPECT_LT(each, 1);
        }
}

/// What a bucket of similar lengths has: the samples of some sources are short, of others long.
TEST(EvenOrder, BatchesOfUnlikeSources_StayWithinABatch) {
    std::mt19937 random(8);
    for (const std::size_t sources : {2, 3, 8, 64})
        for (const uint64_t step : {1, 8}) {
            Batches batches;
            std::vector<double> costs;
            for (int b = 0; b < 4000; ++b) {
                std::vector<double> batch(sources);
                const std::size_t length = random() % sources;
                for (int i = 0; i < 20; ++i)
                    batch[std::min(sources - 1, (length + random() % 3) % sources)] +=
                        1 + random() % 3;
                batches.push_back(batch);
                costs.push_back(1 + static_cast<double>(length));
            }
            for (const double each : deviation_of(batches, order_of(batches, costs, step, 0)))
                EXPECT_LT(each, 1);
        }
}

TEST(EvenOrder, TheLastStep_HasASampleForEachRank_IfThereAreAsMany) {
    Batches batches;
    std::vector<uint64_t> samples;
    for (int b = 0; b < 35; ++b) {  // the last step has three batches
        batches.push_back({b % 2 == 0 ? 4.0 : 0.0, b % 2 == 0 ? 0.0 : 4.0});
        samples.push_back(b % 5 == 0 ? 4 : 1);
    }
    const std::vector<double> costs(35, 1);
    const std::vector<uint32_t> order = order_of(batches, costs, 8, 0, samples);
    EXPECT_GE(samples[order[32]] + samples[order[33]] + samples[order[34]], 8u);
    // Where all have the same, none is chosen for the last step.
    samples.assign(35, 1);
    EXPECT_EQ(order_of(batches, costs, 8, 0, samples), order_of(batches, costs, 8, 0));
}

/// Batches of few samples are of one source, and the last step needs those of many.
TEST(EvenOrder, TheLastStep_LeavesTheSourcesNearTheirDues) {
    std::mt19937 random(9);
    for (const std::size_t sources : {2, 5, 16})
        for (const uint64_t world : {8, 16, 64}) {
            Batches batches;
            std::vector<uint64_t> samples;
            const std::size_t count = 20 * world + 1 + random() % (world / 4);
            for (std::size_t b = 0; b < count; ++b) {
                std::vector<double> batch(sources);
                const std::size_t source = random() % sources;
                samples.push_back(b % 3 > 0 ? 1 : 8 * (1 + random() % 2));
                batch[source] = samples.back() == 1 ? 16 : 8;
                batch[(source + 1) % sources] += samples.back() == 1 ? 0 : 8;
                batches.push_back(batch);
            }
            const std::vector<double> costs(count, 1);
            const std::vector<uint32_t> order = order_of(batches, costs, world, 0, samples);
            uint64_t last = 0;
            for (std::size_t b = count - count % world; b < count; ++b) last += samples[order[b]];
            EXPECT_GE(last, std::min(world, count % world * 16));
            for (const double each : deviation_of(batches, order)) EXPECT_LT(each, 1);
        }
}

TEST(EvenOrder, IsAPermutation_ThatLeavesTheFirstBatchesWhereTheyAre) {
    std::mt19937 random(6);
    Batches batches;
    std::vector<double> costs;
    for (int b = 0; b < 500; ++b) {
        batches.push_back({double(random() % 9), double(random() % 4), double(1 + random() % 2)});
        costs.push_back(1 + random() % 100);
    }
    for (const uint64_t fixed : {0, 1, 8, 500, 900}) {
        std::vector<uint32_t> order = order_of(batches, costs, 4, fixed);
        for (uint64_t i = 0; i < std::min<uint64_t>(fixed, 500); ++i) EXPECT_EQ(order[i], i);
        std::ranges::sort(order);
        std::vector<uint32_t> all(500);
        std::iota(all.begin(), all.end(), 0);
        EXPECT_EQ(order, all);
    }
}

TEST(EvenOrder, BatchesOfAStep_HaveSimilarCosts) {
    std::mt19937 random(7);
    Batches batches;
    std::vector<double> costs;
    for (int b = 0; b < 800; ++b) {
        batches.push_back({random() % 2 == 0 ? 10.0 : 0.0, 5.0});
        costs.push_back(random() % 2 == 0 ? 100 : 1);
    }
    const auto unlike = [&](const std::vector<uint32_t>& order) {
        double sum = 0;
        for (std::size_t i = 0; i < order.size(); i += 4)
            for (std::size_t j = 1; j < 4; ++j) sum += costs[order[i]] != costs[order[i + j]];
        return sum;
    };
    EXPECT_LT(unlike(order_of(batches, costs, 4, 0)), unlike(order_of(batches, costs, 1, 0)) / 2);
}

TEST(EvenOrder, BatchesOfNoSize_AndNoBatches_HaveAnOrder) {
    EXPECT_EQ(order_of(Batches(5, {0, 0}), std::vector<double>(5, 1), 2, 0).size(), 5u);
    EXPECT_TRUE(order_of({}, {}, 2, 0).empty());
}

}  // namespace
}  // namespace sab
