/// Samples that are padded to the same lengths are exchanged between buckets: each comes to all
/// buckets of its class and meets all others of it, and batches are padded as without it.
#include <gtest/gtest.h>
#include <sab.h>
#include "../c/one.h"
#include "handles.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <set>
#include <utility>
#include <vector>

namespace exchange {  // files are compiled together in unity builds
namespace {

using handles::Plan;
using handles::Sampler;
using handles::Sizes;
using Lengths = std::vector<double>;

/// A plan and what it was made of.
struct Case {
    std::vector<Lengths> columns;
    double multiple = 0;
    std::vector<int64_t> ids{};
    double budget = 200;
    uint64_t bucket_batches = 2;
    uint64_t max_shapes = 0;
    sab_tail tail = SAB_TAIL_KEEP;
    std::vector<Sizes> sizes{};
    Plan plan{};

    void make() {
        std::vector<const sab_sizes*> handles;
        for (const Lengths& column : columns) {
            sab_sizes* made = nullptr;
            ASSERT_DONE(sab_sizes_new(column.data(), column.size(), SAB_FLOAT64, nullptr, &made));
            sizes.emplace_back(made);
            handles.push_back(made);
        }
        if (handles.size() > 1) {
            sab_sizes* all = nullptr;
            ASSERT_DONE(sab_sizes_columns_new(handles.data(), nullptr, handles.size(), &all));
            sizes.emplace_back(all);
        }
        sab_plan_options options = SAB_PLAN_OPTIONS_INIT;
        const sab_budget limit{nullptr, budget};
        options.budgets = &limit;
        options.budget_count = 1;
        options.bucket_batches = max_shapes > 0 ? 0 : bucket_batches;
        options.max_shapes = max_shapes > 0 ? &max_shapes : nullptr;
        options.max_shape_count = max_shapes > 0 ? 1 : 0;
        options.tail = tail;
        const std::vector<double> multiples(columns.size(), multiple);
        options.length_multiples = multiples.data();
        options.length_multiple_count = multiples.size();
        options.separate_by = ids.empty() ? nullptr : ids.data();
        options.separate_by_count = ids.size();
        sab_plan* made = nullptr;
        ASSERT_DONE(sab_plan_new(sizes.back().get(), &options, &made));
        plan.reset(made);
    }
    /// What a sample is padded to alone, and its id.
    Lengths padded(int64_t sample) const {
        Lengths lengths;
        for (const Lengths& column : columns) {
            const double length = column[static_cast<std::size_t>(sample)];
            lengths.push_back(multiple > 0 ? std::ceil(length / multiple) * multiple : length);
        }
        lengths.push_back(ids.empty() ? 0
                                      : static_cast<double>(ids[static_cast<std::size_t>(sample)]));
        return lengths;
    }
};

/// Calls `visit(batch)` for each batch of an epoch.
template <class Visit>
void walk(sab_sampler* sampler, uint64_t epoch, Visit&& visit) {
    ASSERT_DONE(sab_sampler_set_epoch(sampler, epoch));
    sab_batch batch = SAB_BATCH_INIT;
    sab_status status = SAB_OK;
    while ((status = sab_next_batch(sampler, &batch)) == SAB_OK) visit(batch);
    ASSERT_EQ(status, SAB_END) << sab_last_error_message();
}

Sampler bucket_sampler(const Case& of, uint64_t seed) {
    sab_sampler_options options = SAB_SAMPLER_OPTIONS_INIT;
    options.seed = seed;
    sab_sampler* made = nullptr;
    EXPECT_DONE(sab_bucket_sampler_new(of.plan.get(), &options, &made));
    return Sampler(made);
}

Lengths drawn(std::size_t count, int most, uint64_t seed, double step = 1) {
    std::mt19937_64 random(seed);
    Lengths lengths(count);
    for (double& length : lengths)
        length = step * static_cast<double>(1 + random() % static_cast<uint64_t>(most));
    return lengths;
}

/// All kinds of plans.
std::vector<Case> some_cases() {
    std::vector<Case> cases;
    cases.push_back({{drawn(1200, 6, 1)}});
    cases.push_back({{drawn(1200, 40, 2)}, 8});
    cases.push_back({{drawn(1200, 40, 3, 0.37)}, 2.5});
    cases.push_back({{drawn(900, 12, 4), drawn(900, 3, 5)}});
    cases.push_back({{drawn(900, 30, 6), drawn(900, 30, 7)}, 8});
    Case separated{{drawn(1000, 9, 8)}, 4};
    for (std::size_t i = 0; i < 1000; ++i) separated.ids.push_back(static_cast<int64_t>(i % 3));
    cases.push_back(std::move(separated));
    Case shaped{{drawn(1200, 40, 9)}, 8};
    shaped.max_shapes = 7;
    cases.push_back(std::move(shaped));
    for (const sab_tail tail : {SAB_TAIL_DROP, SAB_TAIL_WRAP}) {
        Case of{{drawn(1000, 25, 10)}, 4};
        of.tail = tail;
        cases.push_back(std::move(of));
    }
    for (Case& of : cases) of.make();
    return cases;
}

/// The padded lengths of the samples of each bucket.
using Contents = std::map<int64_t, std::multiset<Lengths>>;

TEST(Exchange, KeepsThePaddedLengthsOfEachBucketAndBatch) {
    for (const Case& of : some_cases()) {
        sab_sampler* made = nullptr;
        ASSERT_DONE(sab_sequential_sampler_new(of.plan.get(), nullptr, &made));
        const Sampler sequential(made);
        Contents expected;
        walk(sequential.get(), 0, [&](const sab_batch& batch) {
            for (std::size_t i = 0; i < batch.count; ++i)
                expected[batch.bucket].insert(of.padded(batch.indices[i]));
        });
        const Sampler sampler = bucket_sampler(of, 5);
        for (uint64_t epoch = 0; epoch < 4; ++epoch) {
            Contents found;
            std::vector<int> times(of.columns[0].size());
            walk(sampler.get(), epoch, [&](const sab_batch& batch) {
                Lengths most(of.columns.size()), sum(of.columns.size());
                for (std::size_t i = 0; i < batch.count; ++i) {
                    const auto sample = static_cast<std::size_t>(batch.indices[i]);
                    ++times[sample];
                    found[batch.bucket].insert(of.padded(batch.indices[i]));
                    for (std::size_t j = 0; j < most.size(); ++j) {
                        most[j] = std::max(most[j], of.columns[j][sample]);
                        sum[j] += of.columns[j][sample];
                    }
                }
                sab_bucket bucket = SAB_BUCKET_INIT;
                ASSERT_DONE(sab_plan_get_bucket(of.plan.get(),
                                                static_cast<std::size_t>(batch.bucket), &bucket));
                ASSERT_LE(batch.count, bucket.batch_size);
                for (std::size_t j = 0; j < most.size(); ++j) {
                    ASSERT_EQ(batch.longest[j], most[j]);
                    ASSERT_NEAR(batch.total[j], sum[j], 1e-9 * sum[j]);
                    ASSERT_GE(batch.padded_length[j], most[j]);
                    ASSERT_LE(batch.padded_length[j], bucket.padded_length[j]);
                    ASSERT_LE(most[j], bucket.longest[j]);
                }
            });
            if (of.tail != SAB_TAIL_DROP) {
                for (const int each : times) ASSERT_GE(each, 1);
            }
            if (of.tail == SAB_TAIL_KEEP) {
                ASSERT_EQ(found, expected);
            }
            for (const int each : times) ASSERT_LE(each, of.tail == SAB_TAIL_WRAP ? 2 : 1);
        }
    }
}

TEST(Exchange, OfEveryPlan_MovesSamplesBetweenBuckets) {
    for (const Case& of : some_cases()) {
        const Sampler sampler = bucket_sampler(of, 1);
        std::vector<std::set<int64_t>> buckets(of.columns[0].size());
        std::map<Lengths, std::set<int64_t>> of_class;
        for (uint64_t epoch = 0; epoch < 60; ++epoch)
            walk(sampler.get(), epoch, [&](const sab_batch& batch) {
                for (std::size_t i = 0; i < batch.count; ++i) {
                    buckets[static_cast<std::size_t>(batch.indices[i])].insert(batch.bucket);
                    of_class[of.padded(batch.indices[i])].insert(batch.bucket);
                }
            });
        std::size_t several = 0, moved = 0;
        for (std::size_t i = 0; i < buckets.size(); ++i)
            if (of_class[of.padded(static_cast<int64_t>(i))].size() > 1) {
                ++several;
                moved += buckets[i].size() > 1;
            }
        // a class may have few samples in all of its buckets but one
        EXPECT_GT(moved, several / 2);
        EXPECT_GT(several, 0u);
    }
}

TEST(Exchange, OfOneSize_LetsAllMeetWithTheChanceOfARandomOrder) {
    Case of{{Lengths(160, 10.0)}};
    of.budget = 80;
    of.make();
    const Sampler sampler = bucket_sampler(of, 3);
    constexpr uint64_t epochs = 4000;
    std::vector<uint32_t> met(160 * 160);
    uint64_t pairs = 0;
    for (uint64_t epoch = 0; epoch < epochs; ++epoch)
        walk(sampler.get(), epoch, [&](const sab_batch& batch) {
            for (std::size_t i = 0; i < batch.count; ++i)
                for (std::size_t k = 0; k < i; ++k, ++pairs)
                    ++met[static_cast<std::size_t>(
                        160 * std::max(batch.indices[i], batch.indices[k]) +
                        std::min(batch.indices[i], batch.indices[k]))];
        });
    const double all = 160.0 * 159 / 2, mean = static_cast<double>(pairs) / all;
    double chi = 0;
    for (std::size_t i = 0; i < 160; ++i)
        for (std::size_t k = 0; k < i; ++k) {
            const double off = met[160 * i + k] - mean;
            EXPECT_GT(met[160 * i + k], 0u);
            chi += off * off / mean;
        }
    // pairs of a batch are nearly independent: six standard deviations of chi square
    EXPECT_NEAR(chi, all, 6 * std::sqrt(2 * all) + 0.05 * all);
}

TEST(Exchange, OfGivenBoundaries_IsNone) {
    const Lengths lengths = drawn(600, 30, 12);
    sab_sizes* made = nullptr;
    ASSERT_DONE(sab_sizes_new(lengths.data(), lengths.size(), SAB_FLOAT64, nullptr, &made));
    const Sizes sizes(made);
    sab_plan_options options = SAB_PLAN_OPTIONS_INIT;
    const double boundaries[] = {0, 5, 11, 31}, multiple = 8;
    const uint64_t batch_size = 4;
    options.bucket_rule = SAB_BUCKETS_BOUNDARIES;
    options.boundaries = boundaries;
    options.boundary_count = 4;
    options.batch_sizes = &batch_size;
    options.batch_size_count = 1;
    options.length_multiples = &multiple;
    options.length_multiple_count = 1;
    sab_plan* plan = nullptr;
    ASSERT_DONE(sab_plan_new(sizes.get(), &options, &plan));
    const Plan owner(plan);
    sab_sampler* sampler = nullptr;
    ASSERT_DONE(sab_bucket_sampler_new(plan, nullptr, &sampler));
    const Sampler of(sampler);
    for (uint64_t epoch = 0; epoch < 5; ++epoch)
        walk(sampler, epoch, [&](const sab_batch& batch) {
            for (std::size_t i = 0; i < batch.count; ++i) {
                const double length = lengths[static_cast<std::size_t>(batch.indices[i])];
                ASSERT_TRUE(length >= boundaries[batch.bucket] &&
                            length < boundaries[batch.bucket + 1]);
            }
        });
}

}  // namespace
}  // namespace exchange
