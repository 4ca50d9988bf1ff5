/// sab_plan_options.min_batch_size: no batch of any rank has fewer samples.
#include <sab.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "../c/one.h"

namespace min_batch_size {  // files are compiled together in unity builds
namespace {

struct Freed {
    void operator()(sab_sizes* sizes) const { sab_sizes_free(sizes); }
    void operator()(sab_plan* plan) const { sab_plan_free(plan); }
    void operator()(sab_sampler* sampler) const { sab_sampler_free(sampler); }
};
template <class Handle>
using Owned = std::unique_ptr<Handle, Freed>;

Owned<sab_sizes> sizes_of(const std::vector<std::vector<uint32_t>>& columns) {
    std::vector<sab_sizes*> handles;
    std::vector<Owned<sab_sizes>> owners;
    for (const std::vector<uint32_t>& column : columns) {
        sab_sizes* sizes = nullptr;
        EXPECT_EQ(sab_sizes_new(column.data(), column.size(), SAB_UINT32, nullptr, &sizes), SAB_OK);
        owners.emplace_back(sizes);
        handles.push_back(sizes);
    }
    if (columns.size() == 1) return std::move(owners[0]);
    sab_sizes* sizes = nullptr;
    EXPECT_EQ(sab_sizes_columns_new(handles.data(), nullptr, handles.size(), &sizes), SAB_OK)
        << sab_last_error_message();
    return Owned<sab_sizes>(sizes);
}

std::string refusal(const std::vector<uint32_t>& lengths, const sab_plan_options& options) {
    sab_plan* plan = nullptr;
    EXPECT_EQ(sab_plan_new(sizes_of({lengths}).get(), &options, &plan), SAB_E_ARGUMENT);
    return sab_last_error_message();
}

struct Counts {
    std::vector<int> seen;
    uint64_t smallest = UINT64_MAX, steps = 0;
};

/// Walks an epoch of all ranks.
Counts walk(const sab_plan* plan, std::size_t samples, sab_sampler_options options) {
    Counts counts{std::vector<int>(samples)};
    for (options.rank = 0; options.rank < options.world_size; ++options.rank) {
        sab_sampler* handle = nullptr;
        EXPECT_EQ(sab_bucket_sampler_new(plan, &options, &handle), SAB_OK)
            << sab_last_error_message();
        const Owned<sab_sampler> sampler(handle);
        sab_batch batch SAB_BATCH_INIT;
        uint64_t steps = 0;
        for (; sab_next_batch(handle, &batch) == SAB_OK; ++steps) {
            counts.smallest = std::min(counts.smallest, batch.count);
            for (uint64_t i = 0; i < batch.count; ++i)
                ++counts.seen[static_cast<std::size_t>(batch.indices[i])];
        }
        EXPECT_TRUE(options.rank == 0 || steps == counts.steps);
        counts.steps = steps;
    }
    return counts;
}

TEST(MinBatchSize, HoldsOnAllRanks) {
    std::mt19937_64 random(1);
    int walked = 0;
    for (int round = 0; round < 1500; ++round) {
        const std::size_t samples = 2 + random() % 300, columns = random() % 4 == 0 ? 2 : 1;
        std::vector<std::vector<uint32_t>> lengths(columns, std::vector<uint32_t>(samples));
        for (std::vector<uint32_t>& column : lengths)
            for (uint32_t& length : column)
                length = 1 + static_cast<uint32_t>(random() % (random() % 10 == 0 ? 1000 : 60));
        const sab_budget budget{nullptr, static_cast<double>(1000 * columns + random() % 4000)};
        sab_plan_options options SAB_PLAN_OPTIONS_INIT;
        options.budgets = &budget;
        options.budget_count = 1;
        options.min_batch_size = 2 + random() % 6;
        options.bucket_batches = random() % 4;
        options.tail = random() % 4 == 0 ? SAB_TAIL_DROP : SAB_TAIL_KEEP;
        if (random() % 4 == 0) options.max_batch_size = options.min_batch_size + random() % 3;
        if (random() % 4 == 0) options.batch_size_multiple = 1 + random() % 4;
        std::vector<int64_t> ids(samples);
        for (int64_t& id : ids) id = static_cast<int64_t>(random() % 3);
        if (random() % 4 == 0)
            options.separate_by = ids.data(), options.separate_by_count = samples;
        SCOPED_TRACE(round);
        const Owned<sab_sizes> sizes = sizes_of(lengths);
        sab_plan* handle = nullptr;
        if (sab_plan_new(sizes.get(), &options, &handle) != SAB_OK) {
            const std::string message = sab_last_error_message();
            ASSERT_TRUE(message.find("min_batch_size") != std::string::npos ||
                        message.find("SAB_TAIL_DROP: must leave a batch") != std::string::npos)
                << message;
            continue;
        }
        const Owned<sab_plan> plan(handle);
        std::vector<int64_t> skipped(samples);
        std::size_t skipped_count = 0;
        ASSERT_EQ(sab_plan_get_skipped(handle, skipped.data(), samples, &skipped_count), SAB_OK);
        sab_sampler_options walk_options SAB_SAMPLER_OPTIONS_INIT;
        walk_options.seed = random();
        walk_options.world_size = 1 + random() % 9;
        walk_options.micro_batches = 1 + random() % 3;
        sab_plan_report report SAB_PLAN_REPORT_INIT;
        if (sab_plan_get_report(handle, &walk_options, nullptr, &report) != SAB_OK) {
            ASSERT_EQ(sab_last_error_message(),
                      "sampler.world_size = " + std::to_string(walk_options.world_size) +
                          ": must be so small that epoch 0 has " +
                          std::to_string(options.min_batch_size) +
                          " samples, the plan's min_batch_size, for each rank");
            continue;
        }
        ASSERT_EQ(report.skipped, skipped_count);
        Counts counts = walk(handle, samples, walk_options);
        ASSERT_GE(counts.smallest, options.min_batch_size);
        for (std::size_t i = 0; i < skipped_count; ++i)
            ++counts.seen[static_cast<std::size_t>(skipped[i])];
        ASSERT_LE(std::ranges::max(counts.seen), 1);
        ASSERT_EQ(static_cast<uint64_t>(std::ranges::count(counts.seen, 0)), report.dropped);
        ++walked;
    }
    EXPECT_GT(walked, 1000);
}

TEST(MinBatchSize, LeavesOutOnlySamplesWithoutRoom) {
    sab_plan_options options SAB_PLAN_OPTIONS_INIT;
    const sab_budget budget{nullptr, 100};
    options.budgets = &budget;
    options.budget_count = 1;
    options.min_batch_size = 2;
    std::vector<uint32_t> lengths(61, 25);  // 15 batches of 4 and one sample
    lengths.push_back(60);                  // two of it cost 120
    sab_plan* handle = nullptr;
    ASSERT_EQ(sab_plan_new(sizes_of({lengths}).get(), &options, &handle), SAB_OK);
    const Owned<sab_plan> plan(handle);
    int64_t skipped[2];
    std::size_t count = 0;
    ASSERT_EQ(sab_plan_get_skipped(handle, skipped, 2, &count), SAB_OK);
    ASSERT_EQ(count, 1u);
    EXPECT_EQ(skipped[0], 61);
    sab_plan_info info SAB_PLAN_INFO_INIT;
    ASSERT_EQ(sab_plan_get_info(handle, &info), SAB_OK);
    EXPECT_EQ(info.batches, 16u);
    EXPECT_EQ(info.skipped, 1u);
}

TEST(MinBatchSize, RefusesWhatItDoesNotGoWith) {
    const std::vector<uint32_t> lengths(10, 7);
    sab_plan_options options SAB_PLAN_OPTIONS_INIT;
    const sab_budget budget{nullptr, 100};
    options.budgets = &budget;
    options.budget_count = 1;
    options.min_batch_size = 2;
    sab_plan_options other = options;
    other.oversize = SAB_OVERSIZE_SINGLE;
    EXPECT_EQ(refusal(lengths, other),
              "options.min_batch_size = 2: does not go with SAB_OVERSIZE_SINGLE (2), whose batches "
              "have one sample");
    other = options;
    other.max_batch_size = 1;
    EXPECT_EQ(refusal(lengths, other),
              "options.min_batch_size = 2: must be at most options.max_batch_size");
    other = options;
    other.max_shapes = one_count(3);
    other.max_shape_count = 1;
    EXPECT_EQ(refusal(lengths, other),
              "options.min_batch_size = 2: goes with SAB_BUCKETS_AUTO (0) without max_shapes only");
    other = options;
    other.min_batch_size = 11;
    EXPECT_EQ(refusal(lengths, other),
              "options.min_batch_size = 11: no batch has so many of the 10 samples; use a smaller "
              "one or a larger budget");
    other = options;
    other.min_batch_size = 15;
    EXPECT_EQ(refusal(std::vector<uint32_t>(40, 7), other),
              "options.min_batch_size = 15: no batch has so many of the 40 samples; use a smaller "
              "one or a larger budget");
}

}  // namespace
}  // namespace min_batch_size
