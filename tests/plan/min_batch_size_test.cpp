/// sab_plan_options.min_batch_size: no batch of any rank has fewer samples.
#include <sab.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "../c/one.h"
#include "../rounds.h"

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

/// How few samples can be in no batch, of sizes of one column.
uint64_t least_left_out(const std::vector<uint32_t>& lengths, double limit,
                        const sab_plan_options& options) {
    std::map<int64_t, std::vector<uint32_t>> by_id;
    for (std::size_t i = 0; i < lengths.size(); ++i)
        by_id[options.separate_by == nullptr ? 0 : options.separate_by[i]].push_back(lengths[i]);
    const uint64_t multiple = std::max<uint64_t>(options.batch_size_multiple, 1);
    uint64_t sum = 0;
    for (auto& [id, of_id] : by_id) {
        std::ranges::sort(of_id, std::greater());
        std::vector<uint64_t> least(of_id.size() + 1);  // of those from one on, longest first
        for (std::size_t i = of_id.size(); i-- > 0;) {
            uint64_t most = static_cast<uint64_t>(limit) / of_id[i];
            if (options.max_batch_size > 0) most = std::min(most, options.max_batch_size);
            if (most >= multiple) most -= most % multiple;
            least[i] = least[i + 1] + 1;
            for (uint64_t count = options.min_batch_size; count <= most; ++count)
                if (i + count < least.size()) least[i] = std::min(least[i], least[i + count]);
        }
        sum += least[0];
    }
    return sum;
}

TEST(MinBatchSize, HoldsOnAllRanks) {
    std::mt19937_64 random(1);
    int walked = 0;
    for (int round = 0; round < ROUNDS_OF(1500); ++round) {
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
        if (columns == 1 && options.tail == SAB_TAIL_KEEP) {
            ASSERT_EQ(skipped_count, least_left_out(lengths[0], budget.limit, options));
        }
        Counts counts = walk(handle, samples, walk_options);
        ASSERT_GE(counts.smallest, options.min_batch_size);
        for (std::size_t i = 0; i < skipped_count; ++i)
            ++counts.seen[static_cast<std::size_t>(skipped[i])];
        ASSERT_LE(std::ranges::max(counts.seen), 1);
        ASSERT_EQ(static_cast<uint64_t>(std::ranges::count(counts.seen, 0)), report.dropped);
        ++walked;
    }
    EXPECT_GT(walked, ROUNDS_OF(1000));
}

/// Sizes of one data set, or of a mixture.
Owned<sab_sizes> mixed(const std::vector<std::vector<uint32_t>>& parts,
                       const std::vector<double>& repeats) {
    if (parts.size() == 1) return sizes_of(parts);
    std::vector<Owned<sab_sizes>> owners;
    std::vector<const sab_sizes*> handles;
    for (const std::vector<uint32_t>& part : parts) {
        sab_sizes* own = nullptr;
        EXPECT_EQ(sab_sizes_new(part.data(), part.size(), SAB_UINT32, nullptr, &own), SAB_OK);
        owners.emplace_back(own);
        handles.push_back(owners.back().get());
    }
    sab_mixture_options options SAB_MIXTURE_OPTIONS_INIT;
    options.repeats = repeats.data();
    options.repeat_count = repeats.size();
    sab_sizes* sizes = nullptr;
    EXPECT_EQ(sab_mixture_new(handles.data(), handles.size(), &options, &sizes), SAB_OK)
        << sab_last_error_message();
    return Owned<sab_sizes>(sizes);
}

/// All ranks, of which each has a sampler. The epochs of mixtures give samples several times.
class Walk {
public:
    Walk(const sab_plan* plan, sab_sampler_options options, std::size_t samples) : times_(samples) {
        for (options.rank = 0; options.rank < options.world_size; ++options.rank) {
            sab_sampler* handle = nullptr;
            EXPECT_EQ(options.seed == 0 ? sab_sequential_sampler_new(plan, &options, &handle)
                                        : sab_bucket_sampler_new(plan, &options, &handle),
                      SAB_OK)
                << sab_last_error_message();
            ranks_.emplace_back(handle);
        }
    }
    const std::vector<Owned<sab_sampler>>& ranks() const { return ranks_; }
    const std::vector<int>& times() const { return times_; }
    uint64_t smallest() const { return smallest_; }
    double costliest() const { return costliest_; }
    uint64_t left() const {
        uint64_t epoch = 0, position = 0, count = 0;
        EXPECT_EQ(sab_sampler_tell(ranks_[0].get(), &epoch, &position), SAB_OK);
        EXPECT_EQ(sab_sampler_get_batch_count(ranks_[0].get(), &count), SAB_OK);
        return count - position;
    }
    void step() {
        for (const Owned<sab_sampler>& rank : ranks_) {
            sab_batch batch SAB_BATCH_INIT;
            ASSERT_EQ(sab_next_batch(rank.get(), &batch), SAB_OK);
            smallest_ = std::min<uint64_t>(smallest_, batch.count);
            costliest_ =
                std::max(costliest_, static_cast<double>(batch.count) * *batch.padded_length);
            for (uint64_t i = 0; i < batch.count; ++i)
                ++times_[static_cast<std::size_t>(batch.indices[i])];
        }
    }
    /// Whether it pays for the fewest samples of any bucket.
    bool set_budget(double limit) {
        costliest_ = 0;
        bool is_set = true;
        for (const Owned<sab_sampler>& rank : ranks_)
            is_set = is_set && sab_sampler_set_budget(rank.get(), 0, limit) == SAB_OK;
        return is_set;
    }

private:
    std::vector<Owned<sab_sampler>> ranks_;
    std::vector<int> times_;
    uint64_t smallest_ = UINT64_MAX;
    double costliest_ = 0;
};

/// Small data, where a longest sample may have to go so that more others stay; and more samples
/// than are looked at one by one.
TEST(MinBatchSize, LeavesOutAsFewSamplesAsCanBe) {
    std::mt19937_64 random(4);
    int few = 0, none = 0;
    for (int round = 0; round < ROUNDS_OF(4000); ++round) {
        SCOPED_TRACE(round);
        std::vector<uint32_t> lengths(1 + random() % 12);
        for (uint32_t& length : lengths) length = 4 + static_cast<uint32_t>(random() % 9);
        if (round == 0) lengths.assign(1'300'001, 8);
        const sab_budget budget{nullptr,
                                round == 0 ? 16.0 : 24 + static_cast<double>(random() % 30)};
        sab_plan_options options SAB_PLAN_OPTIONS_INIT;
        options.budgets = &budget;
        options.budget_count = 1;
        options.min_batch_size = 2 + (round == 0 ? 0 : random() % 3);
        const uint64_t least = least_left_out(lengths, budget.limit, options);
        sab_plan* handle = nullptr;
        const sab_status status = sab_plan_new(sizes_of({lengths}).get(), &options, &handle);
        ASSERT_EQ(status == SAB_OK, least < lengths.size()) << sab_last_error_message();
        if (status != SAB_OK) continue;
        const Owned<sab_plan> plan(handle);
        sab_sampler_options one_rank SAB_SAMPLER_OPTIONS_INIT;
        one_rank.world_size = 1;
        const Counts counts = walk(handle, lengths.size(), one_rank);
        ASSERT_GE(counts.smallest, options.min_batch_size);
        ASSERT_EQ(static_cast<uint64_t>(std::ranges::count(counts.seen, 0)), least);
        ++(least > 0 ? few : none);
    }
    EXPECT_GT(few, ROUNDS_OF(300));
    EXPECT_GT(none, ROUNDS_OF(1000));
}

TEST(MinBatchSize, HoldsInMixtures_AndUnderLoweredBudgets) {
    std::mt19937_64 random(2);
    int walked = 0, left_out = 0;
    for (int round = 0; round < ROUNDS_OF(1500); ++round) {
        SCOPED_TRACE(round);
        std::vector<std::vector<uint32_t>> parts(1 + random() % 3);
        std::vector<double> repeats;
        std::size_t samples = 0;
        for (std::vector<uint32_t>& part : parts) {
            part.resize(2 + random() % 150);
            samples += part.size();
            for (uint32_t& length : part)
                length = 1 + static_cast<uint32_t>(random() % (random() % 10 == 0 ? 900 : 60));
            repeats.push_back(parts.size() == 1 ? 1 : 0.5 + static_cast<double>(random() % 3) / 2);
        }
        const sab_budget budget{nullptr, static_cast<double>(2000 + random() % 4000)};
        sab_plan_options options SAB_PLAN_OPTIONS_INIT;
        options.budgets = &budget;
        options.budget_count = 1;
        options.min_batch_size = 2 + random() % 6;
        const Owned<sab_sizes> sizes = mixed(parts, repeats);
        sab_plan* handle = nullptr;
        if (sab_plan_new(sizes.get(), &options, &handle) != SAB_OK) continue;
        const Owned<sab_plan> plan(handle);
        sab_sampler_options order SAB_SAMPLER_OPTIONS_INIT;
        order.world_size = random() % 2 == 0 ? 1 : 2 + random() % 5;
        order.seed = random() % 3;
        sab_plan_report report SAB_PLAN_REPORT_INIT;
        if (sab_plan_get_report(handle, &order, nullptr, &report) != SAB_OK) continue;  // few
        Walk walk(handle, order, samples);
        for (uint64_t steps = random() % (walk.left() + 1); steps > 0; --steps) walk.step();
        const double lowered = budget.limit * (0.3 + static_cast<double>(random() % 7) / 10);
        if (!walk.set_budget(lowered)) continue;
        while (walk.left() > 0) walk.step();
        ASSERT_GE(walk.smallest(), options.min_batch_size);
        ASSERT_LE(walk.costliest(), lowered);
        std::vector<int64_t> skipped(2 * samples);
        std::size_t count = 0;
        ASSERT_EQ(
            sab_sampler_get_skipped(walk.ranks()[0].get(), skipped.data(), skipped.size(), &count),
            SAB_OK);
        std::vector<int> times = walk.times();
        for (std::size_t i = 0; i < count; ++i) ++times[static_cast<std::size_t>(skipped[i])];
        uint64_t all = 0;
        for (std::size_t i = 0; i < samples; ++i) {
            ASSERT_LE(times[i], parts.size() == 1 ? 1 : 2);
            all += static_cast<uint64_t>(times[i]);
        }
        sab_plan_info info SAB_PLAN_INFO_INIT;
        ASSERT_EQ(sab_plan_get_info(handle, &info), SAB_OK);
        ASSERT_LE(all, info.samples);
        if (order.world_size == 1) {  // else a last step may be left out
            ASSERT_EQ(all, info.samples);
        }
        left_out += count > info.skipped;
        ++walked;
    }
    EXPECT_GT(walked, ROUNDS_OF(1000));
    EXPECT_GT(left_out, ROUNDS_OF(100));
}

/// Ranks as threads, which wait for each other.
struct World {
    explicit World(std::size_t ranks) : parts(ranks) {}
    void wait() {
        std::unique_lock lock(mutex);
        const uint64_t turn = turns;
        if (++waiting == parts.size()) {
            waiting = 0;
            ++turns;
            all_here.notify_all();
        } else {
            all_here.wait(lock, [&] { return turns != turn; });
        }
    }
    std::vector<std::vector<char>> parts;
    std::mutex mutex{};
    std::condition_variable all_here{};
    std::size_t waiting = 0;
    uint64_t turns = 0;
};

struct Rank {
    World* world;
    std::size_t number;
};

int32_t gather(void* ctx, const void* mine, size_t size, void* all) {
    const Rank& rank = *static_cast<const Rank*>(ctx);
    const auto* const bytes = static_cast<const char*>(mine);
    rank.world->parts[rank.number].assign(bytes, bytes + size);
    rank.world->wait();
    auto* to = static_cast<char*>(all);
    for (const std::vector<char>& part : rank.world->parts) to = std::ranges::copy(part, to).out;
    rank.world->wait();
    return 0;
}

TEST(MinBatchSize, HoldsInShards) {
    std::mt19937_64 random(3);
    int walked = 0, left_out = 0;
    for (int round = 0; round < ROUNDS_OF(600); ++round) {
        SCOPED_TRACE(round);
        const std::size_t world_size = 1 + random() % 4, sources = 1 + random() % 3;
        std::vector<std::vector<std::vector<uint32_t>>> shards(world_size);  // by source
        for (std::vector<std::vector<uint32_t>>& shard : shards) {
            shard.resize(sources);
            for (std::vector<uint32_t>& part : shard) {
                part.resize(20 + random() % (round % 3 == 0 ? 200 : 10));
                for (uint32_t& length : part)
                    length = 1 + static_cast<uint32_t>(random() % (random() % 20 == 0 ? 3000 : 60));
            }
        }
        std::vector<double> repeats(sources, 1);
        if (sources > 1) repeats[1] = 2;
        const bool is_separated = sources > 1 && random() % 2 == 0;
        const sab_budget budget{nullptr, static_cast<double>(4000 + random() % 4000)};
        sab_plan_options options SAB_PLAN_OPTIONS_INIT;
        options.budgets = &budget;
        options.budget_count = 1;
        options.min_batch_size = 2 + random() % 3;
        World world(world_size);
        std::vector<std::vector<int>> times(world_size);
        std::vector<uint64_t> steps(world_size), smallest(world_size, UINT64_MAX);
        std::vector<double> weights(world_size);
        std::vector<std::size_t> skipped(world_size);
        std::vector<std::thread> threads;
        for (std::size_t r = 0; r < world_size; ++r)
            threads.emplace_back([&, r] {
                Rank rank{&world, r};
                sab_sampler_options order SAB_SAMPLER_OPTIONS_INIT;
                order.rank = r;
                order.world_size = world_size;
                order.epoch = 3;
                std::vector<int64_t> ids;
                for (std::size_t source = 0; source < sources; ++source) {
                    ids.insert(ids.end(), shards[r][source].size(), static_cast<int64_t>(source));
                    times[r].insert(times[r].end(), shards[r][source].size(),
                                    -static_cast<int>(repeats[source]));
                }
                sab_plan_options mine = options;
                if (is_separated) mine.separate_by = ids.data();
                if (is_separated) mine.separate_by_count = ids.size();
                sab_sampler* handle = nullptr;
                if (sab_sharded_sampler_new(mixed(shards[r], repeats).get(), &mine, &order, gather,
                                            &rank, &handle) != SAB_OK) {
                    EXPECT_TRUE(std::string(sab_last_error_message()).find("min_batch_size") !=
                                std::string::npos)
                        << sab_last_error_message();
                    return;
                }
                const Owned<sab_sampler> sampler(handle);
                sab_batch batch SAB_BATCH_INIT;
                for (; sab_next_batch(handle, &batch) == SAB_OK; ++steps[r]) {
                    smallest[r] = std::min<uint64_t>(smallest[r], batch.count);
                    EXPECT_LE(static_cast<double>(batch.count) * *batch.padded_length,
                              budget.limit);
                    weights[r] += batch.sample_weight;
                    for (uint64_t i = 0; i < batch.count; ++i) {
                        const auto index = static_cast<std::size_t>(batch.indices[i]);
                        ++times[r][index];
                        EXPECT_TRUE(!is_separated ||
                                    ids[index] == ids[static_cast<std::size_t>(batch.indices[0])]);
                    }
                }
                std::vector<int64_t> indices(2 * times[r].size());
                EXPECT_EQ(
                    sab_sampler_get_skipped(handle, indices.data(), indices.size(), &skipped[r]),
                    SAB_OK);
                for (std::size_t i = 0; i < skipped[r]; ++i)
                    ++times[r][static_cast<std::size_t>(indices[i])];
            });
        for (std::thread& thread : threads) thread.join();
        double mean_weight = 0;
        for (std::size_t r = 0; r < world_size; ++r) {
            ASSERT_EQ(steps[r], steps[0]);
            if (steps[0] == 0) continue;
            ASSERT_GE(smallest[r], options.min_batch_size);
            ASSERT_EQ(std::ranges::count(times[r], 0),
                      static_cast<std::ptrdiff_t>(times[r].size()));
            left_out += skipped[r] > 0;
            mean_weight += weights[r] / static_cast<double>(steps[0] * world_size);
        }
        if (steps[0] == 0) continue;
        ASSERT_NEAR(mean_weight, 1, 1e-9);
        ++walked;
    }
    EXPECT_GT(walked, ROUNDS_OF(500));
    EXPECT_GT(left_out, ROUNDS_OF(30));
}

TEST(MinBatchSize, UnderALoweredBudget_LeavesOutOnlySamplesWithoutRoom) {
    sab_plan_options options SAB_PLAN_OPTIONS_INIT;
    const sab_budget budget{nullptr, 100};
    options.budgets = &budget;
    options.budget_count = 1;
    options.min_batch_size = 8;
    const std::vector<uint32_t> lengths(41, 10);  // 5 batches: 4 of 8 and one of 9
    sab_plan* handle = nullptr;
    ASSERT_EQ(sab_plan_new(sizes_of({lengths}).get(), &options, &handle), SAB_OK);
    const Owned<sab_plan> plan(handle);
    sab_plan_info info SAB_PLAN_INFO_INIT;
    ASSERT_EQ(sab_plan_get_info(handle, &info), SAB_OK);
    EXPECT_EQ(info.batches, 5u);
    EXPECT_EQ(info.skipped, 0u);
    sab_sampler_options order SAB_SAMPLER_OPTIONS_INIT;
    order.world_size = 1;
    order.seed = 1;
    Walk walk(handle, order, lengths.size());
    ASSERT_TRUE(walk.set_budget(80));  // 8 samples
    while (walk.left() > 0) walk.step();
    EXPECT_EQ(walk.smallest(), 8u);
    std::size_t count = 0;
    int64_t skipped[2];
    ASSERT_EQ(sab_sampler_get_skipped(walk.ranks()[0].get(), skipped, 2, &count), SAB_OK);
    ASSERT_EQ(count, 1u);
    EXPECT_EQ(walk.times()[static_cast<std::size_t>(skipped[0])], 0);
    Walk other(handle, order, lengths.size());
    EXPECT_EQ(sab_sampler_set_budget(other.ranks()[0].get(), 0, 79), SAB_E_ARGUMENT);
    EXPECT_STREQ(sab_last_error_message(),
                 "limit = 79: must pay for 8 samples, the plan's min_batch_size, of one of its "
                 "buckets");
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
              "options.min_batch_size = 2: must not be given with options.max_shapes");
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
