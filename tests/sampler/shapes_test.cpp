/// Plans of few shapes: no batch of any sampler has another one, on any ranks, and nothing is lost
/// or repeated.
#include <gtest/gtest.h>
#include <sab.h>
#include "../c/one.h"
#include "handles.h"

#include <algorithm>
#include <random>
#include <set>
#include <vector>

namespace few_shapes {  // files are compiled together in unity builds
namespace {

using handles::Plan;
using handles::Sampler;
using handles::Sizes;
using Shape = std::pair<uint64_t, std::vector<double>>;
using Shapes = std::set<Shape>;

class Random {
public:
    explicit Random(uint64_t seed) : engine_(seed) {}
    uint64_t below(uint64_t n) { return engine_() % n; }
    bool one_in(uint64_t n) { return below(n) == 0; }

private:
    std::mt19937_64 engine_;
};

template <class Handle, class Get>
Shapes listed(Handle* handle, Get get) {
    Shapes shapes;
    sab_shape shape = SAB_SHAPE_INIT;
    for (std::size_t i = 0; get(handle, i, &shape) == SAB_OK; ++i)
        EXPECT_TRUE(
            shapes.insert({shape.count, {shape.padded_length, shape.padded_length + shape.columns}})
                .second);
    return shapes;
}

Sizes sizes_of(const std::vector<int32_t>& lengths) {
    sab_sizes* made = nullptr;
    EXPECT_DONE(sab_sizes_new(lengths.data(), lengths.size(), SAB_INT32, nullptr, &made));
    return Sizes(made);
}

/// A plan, and how it is walked.
struct Job {
    std::vector<std::vector<int32_t>> lengths{};  ///< by column
    Sizes sizes{};
    Plan plan{};
    double budget = 0;
    uint64_t most_shapes = 0;
    bool is_sequential = false;
    sab_sampler_options options = SAB_SAMPLER_OPTIONS_INIT;
    bool drops = false, repeats = false;

    Sampler sampler(uint64_t rank, uint64_t world_size) const {
        sab_sampler_options own = options;
        if (is_sequential) own.seed = 0;
        own.rank = rank;
        own.world_size = world_size;
        sab_sampler* made = nullptr;
        const sab_status status = is_sequential
                                      ? sab_sequential_sampler_new(plan.get(), &own, &made)
                                      : sab_bucket_sampler_new(plan.get(), &own, &made);
        EXPECT_TRUE(status == SAB_OK || own.last_step == SAB_LAST_STEP_DROP);
        return Sampler(made);
    }
};

Job make_job(Random& random) {
    Job job;
    const std::size_t count = 20 + random.below(400), columns = random.one_in(4) ? 2 : 1;
    const uint64_t longest = 1 + random.below(60);
    std::vector<Sizes> each;
    std::vector<const sab_sizes*> all;
    for (std::size_t c = 0; c < columns; ++c) {
        std::vector<int32_t>& own = job.lengths.emplace_back();
        for (std::size_t i = 0; i < count; ++i)
            own.push_back(static_cast<int32_t>(1 + random.below(1 + random.below(longest))));
        each.push_back(sizes_of(own));
        all.push_back(each.back().get());
    }
    sab_sizes* sizes = nullptr;
    EXPECT_DONE(sab_sizes_columns_new(all.data(), nullptr, columns, &sizes));
    job.sizes.reset(sizes);
    sab_plan_options options = SAB_PLAN_OPTIONS_INIT;
    job.budget = static_cast<double>(columns * longest * (1 + random.below(12)));
    const sab_budget budget{nullptr, job.budget};
    options.budgets = &budget;
    options.budget_count = 1;
    options.tail = static_cast<sab_tail>(random.below(3));
    options.oversize = SAB_OVERSIZE_SKIP;
    std::vector<int64_t> ids;
    job.most_shapes = 2 + random.below(8);
    if (random.one_in(4)) {
        for (std::size_t i = 0; i < count; ++i) ids.push_back(static_cast<int64_t>(i % 3 / 2));
        options.separate_by = ids.data();
        options.separate_by_count = count;
        job.most_shapes += 2;
    }
    options.max_shapes = &job.most_shapes;
    options.max_shape_count = 1;
    sab_plan* plan = nullptr;
    sab_plan_new(job.sizes.get(), &options, &plan);
    job.plan.reset(plan);
    job.is_sequential = random.one_in(4);
    job.options.seed = random.below(1000);
    job.options.epoch = random.below(3);
    job.options.micro_batches = random.below(3);
    job.options.last_step = static_cast<sab_last_step>(random.below(3));
    job.drops = options.tail == SAB_TAIL_DROP || job.options.last_step == SAB_LAST_STEP_DROP;
    job.repeats = options.tail == SAB_TAIL_WRAP || job.options.last_step == SAB_LAST_STEP_WRAP;
    return job;
}

/// What ranks took.
struct Taken {
    std::vector<uint64_t> times;
    Shapes shapes{};
    uint64_t empty = 0;

    void add(const Job& job, const sab_batch& batch) {
        if (batch.count == 0) {
            EXPECT_EQ(batch.sample_weight, 0);
            ++empty;
            return;
        }
        const std::vector<double> lengths(batch.padded_length, batch.padded_length + batch.columns);
        double padded = 0;
        for (std::size_t c = 0; c < lengths.size(); ++c) {
            EXPECT_LE(batch.longest[c], lengths[c]);
            padded += lengths[c] * static_cast<double>(batch.count);
            for (std::size_t i = 0; i < batch.count; ++i)
                EXPECT_LE(job.lengths[c][static_cast<std::size_t>(batch.indices[i])], lengths[c]);
        }
        EXPECT_LE(padded, job.budget);
        shapes.insert({batch.count, lengths});
        for (std::size_t i = 0; i < batch.count; ++i)
            ++times[static_cast<std::size_t>(batch.indices[i])];
    }
    void check_times(const Job& job) const {
        std::vector<int64_t> skipped(times.size());
        std::size_t count = 0;
        EXPECT_DONE(sab_plan_get_skipped(job.plan.get(), skipped.data(), skipped.size(), &count));
        std::vector<bool> is_skipped(times.size());
        for (std::size_t i = 0; i < count; ++i)
            is_skipped[static_cast<std::size_t>(skipped[i])] = true;
        for (std::size_t i = 0; i < times.size(); ++i) {
            if (is_skipped[i])
                EXPECT_EQ(times[i], 0u);
            else
                EXPECT_TRUE((times[i] > 0 || job.drops) && (times[i] < 2 || job.repeats));
        }
    }
};

bool is_within(const Shapes& inner, const Shapes& outer) {
    return std::ranges::includes(outer, inner);
}

/// Takes so many batches of each rank; all: the rest.
void take(const Job& job, std::vector<Sampler>& ranks, uint64_t batches, Taken& taken) {
    sab_batch batch = SAB_BATCH_INIT;
    for (const Sampler& rank : ranks)
        for (uint64_t i = 0; i < batches && sab_next_batch(rank.get(), &batch) == SAB_OK; ++i)
            taken.add(job, batch);
}

std::vector<Sampler> ranks_of(const Job& job, uint64_t world_size) {
    std::vector<Sampler> ranks;
    for (uint64_t rank = 0; rank < world_size; ++rank) {
        ranks.push_back(job.sampler(rank, world_size));
        if (ranks.back() == nullptr) return {};
    }
    return ranks;
}

TEST(FewShapes, OnAnyRanks_NoSamplerHasAnother) {
    Random random(1);
    for (int trial = 0; trial < 200; ++trial) {
        const Job job = make_job(random);
        if (job.plan == nullptr) continue;
        const Shapes shapes = listed(job.plan.get(), sab_plan_get_shape);
        EXPECT_LE(shapes.size(), job.most_shapes);
        const uint64_t world_size = 1 + random.below(64);
        std::vector<Sampler> ranks = ranks_of(job, world_size);
        if (ranks.empty()) continue;
        EXPECT_EQ(listed(ranks[0].get(), sab_sampler_get_shape), shapes);
        Taken taken{std::vector<uint64_t>(job.lengths[0].size())};
        take(job, ranks, UINT64_MAX, taken);
        taken.check_times(job);
        EXPECT_TRUE(is_within(taken.shapes, shapes));
        if (job.options.last_step != SAB_LAST_STEP_SPLIT) EXPECT_EQ(taken.empty, 0u);
        if (job.is_sequential) continue;
        sab_sampler_options options = job.options;
        options.world_size = world_size;
        sab_plan_report report = SAB_PLAN_REPORT_INIT;
        ASSERT_DONE(sab_plan_get_report(job.plan.get(), &options, nullptr, &report));
        EXPECT_EQ(report.shapes, taken.shapes.size());
        EXPECT_EQ(report.empty_batches, taken.empty);
    }
}

TEST(FewShapes, ResumedOnOtherRanks_HaveNoOther) {
    Random random(2);
    for (int trial = 0; trial < 100; ++trial) {
        Job job = make_job(random);
        if (job.plan == nullptr) continue;
        job.options.micro_batches = 0;
        const Shapes shapes = listed(job.plan.get(), sab_plan_get_shape);
        std::vector<Sampler> ranks = ranks_of(job, 1 + random.below(64));
        Taken taken{std::vector<uint64_t>(job.lengths[0].size())};
        for (int stop = 0; stop < 3 && !ranks.empty(); ++stop) {
            uint64_t count = 0;
            ASSERT_DONE(sab_sampler_get_batch_count(ranks[0].get(), &count));
            take(job, ranks, random.below(count + 1), taken);
            std::vector<unsigned char> state(4096);
            std::size_t size = 0;
            ASSERT_DONE(sab_sampler_state_save(ranks[0].get(), state.data(), state.size(), &size));
            ranks = ranks_of(job, 1 + random.below(64));
            for (const Sampler& rank : ranks)
                ASSERT_DONE(sab_sampler_state_restore(rank.get(), state.data(), size));
        }
        if (ranks.empty()) continue;
        take(job, ranks, UINT64_MAX, taken);
        EXPECT_TRUE(is_within(taken.shapes, shapes));
        taken.check_times(job);
    }
}

TEST(FewShapes, UnderLoweredBudgets_AreThoseOfTheSampler) {
    Random random(3);
    for (int trial = 0; trial < 100; ++trial) {
        const Job job = make_job(random);
        if (job.plan == nullptr) continue;
        std::vector<Sampler> ranks = ranks_of(job, 1 + random.below(64));
        if (ranks.empty()) continue;
        Taken taken{std::vector<uint64_t>(job.lengths[0].size())};
        take(job, ranks, random.below(4), taken);
        sab_plan_info info = SAB_PLAN_INFO_INIT;
        ASSERT_DONE(sab_plan_get_info(job.plan.get(), &info));
        const double limit = job.budget * (0.5 + 0.04 * static_cast<double>(random.below(10)));
        bool is_lowered = true;
        for (const Sampler& rank : ranks)
            is_lowered &= sab_sampler_set_budget(rank.get(), 0, limit) == SAB_OK;
        if (!is_lowered) continue;
        const Shapes shapes = listed(ranks[0].get(), sab_sampler_get_shape);
        EXPECT_LE(shapes.size(), 2 * info.buckets);
        Taken rest{taken.times};
        take(job, ranks, UINT64_MAX, rest);
        rest.check_times(job);
        EXPECT_TRUE(is_within(rest.shapes, shapes));
    }
}

Job job_of_three_shapes(const std::vector<int32_t>& lengths, double limit) {
    Job job{{lengths}, sizes_of(lengths)};
    job.budget = limit;
    sab_plan_options options = SAB_PLAN_OPTIONS_INIT;
    const sab_budget budget{nullptr, limit};
    options.budgets = &budget;
    options.budget_count = 1;
    options.max_shapes = one_count(3), options.max_shape_count = 1;
    sab_plan* plan = nullptr;
    EXPECT_EQ(sab_plan_new(job.sizes.get(), &options, &plan), SAB_OK) << sab_last_error_message();
    job.plan.reset(plan);
    return job;
}

/// Batches of 8 of length 1 can be divided into pieces of 4 of length 2, but into no others.
TEST(FewShapes, LastStep_IsDividedAsFarAsTheyAllow) {
    for (uint64_t world_size = 1; world_size <= 12; ++world_size) {
        std::vector<int32_t> lengths(24, 1);
        lengths.insert(lengths.end(), 8, 2);
        const Job job = job_of_three_shapes(lengths, 8);
        const Shapes two{{8, {1}}, {4, {2}}};
        ASSERT_EQ(listed(job.plan.get(), sab_plan_get_shape), two);
        std::vector<Sampler> ranks = ranks_of(job, world_size);
        Taken taken{std::vector<uint64_t>(lengths.size())};
        take(job, ranks, UINT64_MAX, taken);
        taken.check_times(job);
        EXPECT_TRUE(is_within(taken.shapes, two));
        // 3 + 2 batches; 8 if all are divided that can be
        const uint64_t steps = (5 + world_size - 1) / world_size;
        EXPECT_EQ(taken.empty, steps * world_size - std::min<uint64_t>(8, steps * world_size))
            << world_size;
    }
}

/// 12 and 3 of the length 5 are 5, 5 and 5 that are padded to 11: the last full batch of a bucket
/// is divided with its tail.
TEST(FewShapes, LastFullBatchAndTail_AreDividedTogether) {
    std::vector<int32_t> lengths(15, 5);
    lengths.insert(lengths.end(), 5, 11);
    const Job job = job_of_three_shapes(lengths, 60);
    std::vector<Sampler> ranks = ranks_of(job, 4);
    Taken taken{std::vector<uint64_t>(lengths.size())};
    take(job, ranks, UINT64_MAX, taken);
    taken.check_times(job);
    EXPECT_EQ(taken.empty, 0U);
    EXPECT_EQ(taken.shapes, (Shapes{{5, {11}}}));
}

}  // namespace
}  // namespace few_shapes
