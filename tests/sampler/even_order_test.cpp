#include "sampler/even_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <numeric>
#include <random>

namespace sab {
namespace {

/// The amounts of each source in each batch.
using Batches = std::vector<std::vector<double>>;

SourceAmounts amounts_of(const Batches& batches) {
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
    return amounts;
}

std::vector<uint32_t> ids_of(const Batches& batches) {
    std::vector<uint32_t> all(batches.size());
    std::iota(all.begin(), all.end(), 0u);
    return all;
}

/// The order that even_epoch() makes of the batches.
std::vector<uint32_t> order_of(const Batches& batches, const std::vector<double>& costs,
                               uint64_t step_batches, uint64_t fixed) {
    return even_epoch(amounts_of(batches), ids_of(batches), costs, {0, 0, step_batches, fixed});
}

/// The largest distance of each source from its due after a step, found anew.
std::vector<double> deviation_of(const Batches& batches, const std::vector<uint32_t>& order,
                                 std::size_t step = 1) {
    const std::size_t sources = batches[0].size();
    std::vector<double> share(sources), given(sources), most(sources);
    double all = 0, total = 0, unit = 0;
    for (const std::vector<double>& batch : batches) {
        const double size = std::accumulate(batch.begin(), batch.end(), 0.0);
        for (std::size_t s = 0; s < sources; ++s) share[s] += batch[s];
        all += size;
        unit = std::max(unit, size);
    }
    for (std::size_t i = 0; i < order.size(); ++i) {
        for (std::size_t s = 0; s < sources; ++s) {
            given[s] += batches[order[i]][s];
            total += batches[order[i]][s];
        }
        for (std::size_t s = 0; s < sources && (i + 1) % step == 0; ++s)
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

/// It is proved for them, whatever their sizes, costs and number.
TEST(EvenOrder, BatchesOfOneSource_StayWithinABatch_AndTheirStepsHaveSimilarCosts) {
    std::mt19937 random(12);
    constexpr std::size_t step = 8;
    for (const std::size_t sources : {2, 7, 300}) {
        Batches batches;
        std::vector<double> costs;
        for (int b = 0; b < 4000; ++b) {
            std::vector<double> batch(sources);
            batch[random() % (1 + random() % sources)] = 1 + random() % 9;
            batches.push_back(batch);
            costs.push_back(random() % 2 == 0 ? 100 : 1);
        }
        const std::vector<uint32_t> order = order_of(batches, costs, step, 0);
        for (const double each : deviation_of(batches, order)) EXPECT_LE(each, 1 + 1e-6);
        std::size_t unlike = 0;
        for (std::size_t i = 0; i < order.size(); ++i)
            unlike += costs[order[i]] != costs[order[i / step * step]];
        EXPECT_LT(unlike, order.size() / 4);  // of 7/16 at random
    }
}

/// Few batches of several sources among those of one, to which no proof applies.
TEST(EvenOrder, MostBatchesOfOneSource_StayWithinABatch) {
    std::mt19937 random(77);
    for (const std::size_t large : {1, 2, 4})
        for (const std::size_t small : {5, 20, 150})
            for (const int each : {1, 5}) {
                Batches batches;
                for (std::size_t s = 0; s < large + small; ++s)
                    for (int b = s < large ? 600 : each; b > 0; --b) {
                        std::vector<double> batch(large + small);
                        batch[s] = 3 + random() % 7;
                        if (random() % 100 < 3) batch[random() % (large + small)] += random() % 5;
                        batches.push_back(batch);
                    }
                std::ranges::shuffle(batches, random);
                const std::vector<double> costs(batches.size(), 1);
                for (const double found : deviation_of(batches, order_of(batches, costs, 1, 0)))
                    EXPECT_LE(found, 1);
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

/// Small sources of equal shares are behind together, each of them only a little.
TEST(EvenOrder, ManySmallSources_BesideLargeOnes_StayWithinABatch) {
    std::mt19937 random(3);
    for (const std::size_t large : {1, 2})
        for (const std::size_t small : {5, 20, 150})
            for (const int each : {1, 2, 5}) {
                Batches batches;
                for (std::size_t s = 0; s < large + small; ++s)
                    for (int b = s < large ? 1000 : each; b > 0; --b) {
                        std::vector<double> batch(large + small);
                        batch[s] = b > 1 ? 9 + 0.1 * (random() % 10) : 3 + random() % 7;
                        batches.push_back(batch);
                    }
                std::ranges::shuffle(batches, random);
                const std::vector<double> costs(batches.size(), 1);
                for (const double found : deviation_of(batches, order_of(batches, costs, 1, 0)))
                    EXPECT_LT(found, 1);
            }
}

/// Batches of similar lengths, which sum up to at most the longest one, in random order. Each
/// source has lengths and a number of samples of its own.
Batches planned(std::size_t sources, bool are_separate, std::mt19937& random) {
    using Sized = std::pair<double, std::size_t>;  // a length and its source
    std::vector<std::vector<Sized>> groups(are_separate ? sources : 1);
    std::uniform_real_distribution<double> uniform;
    double longest = 0;
    for (std::size_t s = 0; s < sources; ++s) {
        std::lognormal_distribution<double> length(1 + 5 * uniform(random),
                                                   0.1 + 1.1 * uniform(random));
        const double samples = std::pow(10, (sources > 50 ? 2 : 3) * uniform(random));
        for (double i = 0; i < samples; ++i) {
            const double each = std::clamp(std::floor(length(random)), 1.0, 2000.0);
            groups[are_separate ? s : 0].emplace_back(each, s);
            longest = std::max(longest, each);
        }
    }
    Batches batches;
    for (std::vector<Sized>& group : groups) {
        std::ranges::sort(group, std::greater{});
        for (std::size_t begin = 0; begin < group.size();) {  // a bucket of four batches
            const auto size = static_cast<std::size_t>(longest / group[begin].first);
            const std::size_t end = std::min(group.size(), begin + 4 * size);
            std::shuffle(&group[begin], group.data() + end, random);
            for (std::size_t i = begin; i < end; ++i) {
                if ((i - begin) % size == 0) batches.emplace_back(sources);
                batches.back()[group[i].second] += group[i].first;
            }
            begin = end;
        }
    }
    std::ranges::shuffle(batches, random);
    return batches;
}

TEST(EvenOrder, SourcesOfManySizes_StayWithinABatch_AfterEachStep) {
    std::mt19937 random(21);
    constexpr std::array<std::size_t, 5> sources{2, 3, 10, 30, 100}, steps{1, 1, 2, 8, 64};
    for (std::size_t round = 0; round < 600; ++round) {
        const std::size_t step = steps[round / 5 % 5];
        const Batches batches = planned(sources[round % 5], round % 2 == 0, random);
        const std::vector<double> costs(batches.size(), 1);
        for (const double found : deviation_of(batches, order_of(batches, costs, step, 0), step))
            ASSERT_LE(found, 1) << "round " << round;
    }
}

/// A fixed number of samples: some batches have many times the size of others.
TEST(EvenOrder, WindowsOfUnlikeBatches_HaveTheProportions) {
    std::mt19937 random(11);
    constexpr std::size_t sources = 5, window = 100;
    Batches batches;
    std::vector<double> costs, all(sources);
    for (int b = 0; b < 3000; ++b) {
        std::vector<double> batch(sources);
        const std::size_t length = random() % sources;
        for (int i = 0; i < 16; ++i)
            batch[std::min(sources - 1, length + random() % 2)] +=
                double(1u << length) * double(2 + random() % 2) / 4;
        for (std::size_t s = 0; s < sources; ++s) all[s] += batch[s];
        batches.push_back(batch);
        costs.push_back(double(1u << length));
    }
    const double total = std::accumulate(all.begin(), all.end(), 0.0);
    for (const uint64_t step : {1, 8, 64}) {
        const std::vector<uint32_t> order = order_of(batches, costs, step, 0);
        double off = 0;
        for (std::size_t first = 0; first + window <= order.size(); ++first) {
            std::vector<double> sums(sources);
            for (std::size_t i = first; i < first + window; ++i)
                for (std::size_t s = 0; s < sources; ++s) sums[s] += batches[order[i]][s];
            const double size = std::accumulate(sums.begin(), sums.end(), 0.0);
            for (std::size_t s = 0; s < sources; ++s)
                off = std::max(off, std::abs(sums[s] / size - all[s] / total));
        }
        EXPECT_LT(off, 0.02);
    }
}

/// Batches, with pieces of them where the last step needs these, in order.
struct Ordered {
    std::vector<uint32_t> batches;
    std::vector<uint64_t> samples;
    Batches amounts;
};

Ordered ordered(const Batches& batches, const std::vector<uint64_t>& samples, uint64_t world) {
    SourceAmounts amounts = amounts_of(batches);
    std::vector<double> costs(batches.size(), 1);
    std::vector<uint64_t> divided(batches.size());
    Ordered made{{}, samples, batches};
    const auto add = [&](const BatchPiece& piece) {
        EXPECT_EQ(piece.first, divided[piece.batch]);  // one after the other
        EXPECT_GT(piece.count, 0u);
        divided[piece.batch] += piece.count;
        std::vector<double> part(batches[piece.batch]);
        for (double& amount : part) amount *= double(piece.count) / double(samples[piece.batch]);
        amounts.add(part.size(), [&](std::size_t s) { return SourceAmounts::Part{s, part[s]}; });
        amounts.finish_piece();
        made.samples.push_back(piece.count);
        made.amounts.push_back(part);
        return 1.0;
    };
    made.batches = even_epoch_in_pieces(amounts, ids_of(batches), costs, samples, {0, 0, world, 0},
                                        nullptr, add);
    for (std::size_t b = 0; b < divided.size(); ++b)
        if (divided[b] > 0) {
            EXPECT_EQ(divided[b], samples[b]);
            made.amounts[b].assign(made.amounts[b].size(), 0);  // its pieces have it
        }
    return made;
}

TEST(EvenOrder, ALastStepOfFewSamples_IsFilledWithPieces_AndTheSourcesStayNearTheirDues) {
    for (const uint64_t world : {8, 64, 256}) {
        Batches batches;
        std::vector<uint64_t> samples;
        for (int b = 0; b < 662; ++b) {  // only few batches of the second source can be divided
            const bool is_short = b % 30 == 7;
            batches.push_back({is_short ? 0.0 : 10.0, is_short ? 9.9 : 0.0});
            samples.push_back(is_short ? 3 : 1);
        }
        const Ordered made = ordered(batches, samples, world);
        uint64_t all = 0;
        for (const uint32_t batch : made.batches) all += made.samples[batch];
        EXPECT_EQ(all, std::accumulate(samples.begin(), samples.end(), uint64_t{0}));
        // Every step has a batch for each rank, or there is no batch of several samples.
        if (made.batches.size() % world != 0) {
            for (const uint32_t batch : made.batches) EXPECT_EQ(made.samples[batch], 1u);
        }
        for (const double each : deviation_of(made.amounts, made.batches)) EXPECT_LT(each, 1);
    }
}

TEST(EvenOrder, ALastStepOfEnoughSamples_HasNoPieces) {
    const Batches batches(9, {1, 2});
    const auto has_pieces = [&](const std::vector<uint64_t>& samples, uint64_t world) {
        return ordered(batches, samples, world).samples.size() > samples.size();
    };
    const std::vector<uint64_t> large(9, 4), small(9, 2);
    EXPECT_FALSE(has_pieces(large, 4));
    EXPECT_FALSE(has_pieces(small, 3));   // whole steps
    EXPECT_FALSE(has_pieces(small, 16));  // only one step
    EXPECT_TRUE(has_pieces(small, 4));
    EXPECT_TRUE(has_pieces(large, 8));
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

/// Batches of buckets that keep their order: of short samples, which are mostly of the first
/// source, to long ones.
TEST(EvenMerge, KeepsTheOrderOfBucketsAndSourcesNearTheirDues) {
    std::mt19937 random(4);
    for (const std::size_t sources : {2, 5})
        for (const uint64_t step : {1, 4}) {
            Batches batches;
            std::vector<uint32_t> buckets;
            for (int b = 0; b < 2000; ++b) {
                buckets.push_back(static_cast<uint32_t>(random() % 30));
                std::vector<double> batch(sources);
                for (int i = 0; i < 10; ++i)
                    ++batch[std::min<std::size_t>(sources - 1,
                                                  (buckets.back() + random() % 15) * sources / 45)];
                batches.push_back(batch);
            }
            const auto largest = [&](const std::vector<uint32_t>& order) {
                return std::ranges::max(deviation_of(batches, order));
            };
            const std::vector<double> costs(batches.size(), 1);
            const std::vector<uint32_t> order =
                even_merge(amounts_of(batches), buckets, costs, 8, step);
            EXPECT_GT(largest(ids_of(batches)), 5);
            EXPECT_LT(largest(order), 3);
            EXPECT_TRUE(std::ranges::is_permutation(order, ids_of(batches)));
            EXPECT_TRUE(std::equal(order.begin(), order.begin() + 8, ids_of(batches).begin()));
            std::vector<uint32_t> last(30);
            for (const uint32_t batch : order) {
                EXPECT_GE(batch, last[buckets[batch]]);
                last[buckets[batch]] = batch;
            }
        }
}

}  // namespace
}  // namespace sab
