/// Epochs with odd numbers have buckets of their own, where these pay: they keep the rules of the
/// plan, have as many batches, and fewer mates meet again.
#include <gtest/gtest.h>
#include <sab.h>
#include "handles.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <random>
#include <vector>

namespace second_buckets {  // files are compiled together in unity builds
namespace {

using handles::Plan;
using handles::Sampler;
using handles::Sizes;
using Cost = std::unique_ptr<sab_cost, handles::Free<sab_cost_free>>;
using Lengths = std::vector<double>;
using Batches = std::vector<std::vector<int64_t>>;

Lengths log_normal(std::size_t count, uint64_t seed, double step = 0) {
    std::mt19937_64 random(seed);
    std::lognormal_distribution<double> distribution(4, 0.6);
    Lengths lengths(count);
    for (double& length : lengths) {
        length = 1 + std::min(distribution(random), 400.0);
        if (step > 0) length = std::ceil(length / step) * step;
    }
    return lengths;
}

/// A plan and what it was made of.
struct Case {
    Lengths lengths;
    double budget = 4000;
    bool is_quadratic = false;
    double length_multiple = 0;
    uint64_t batch_size_multiple = 0, max_batch_size = 0, bucket_batches = 0, one_set = 0;
    sab_tail tail = SAB_TAIL_KEEP;
    double target = 0;
    Plan plan{};

    double padded(double length) const {
        return length_multiple > 0 ? std::ceil(length / length_multiple) * length_multiple : length;
    }
    double cost(double count, double length) const {
        return is_quadratic ? count * length * length : count * length;
    }
    void make() {
        sab_sizes* sizes = nullptr;
        ASSERT_DONE(sab_sizes_new(lengths.data(), lengths.size(), SAB_FLOAT64, nullptr, &sizes));
        const Sizes kept(sizes);
        const uint32_t square = 2;
        sab_cost_term term{};
        term.coefficient = 1;
        term.count_power = 1;
        term.length_powers = &square;
        term.column_count = 1;
        sab_cost* quadratic = nullptr;
        if (is_quadratic) ASSERT_DONE(sab_cost_terms_new(&term, 1, &quadratic));
        const Cost own(quadratic);
        sab_plan_options options = SAB_PLAN_OPTIONS_INIT;
        const sab_budget limit{quadratic, budget};
        options.budgets = &limit;
        options.budget_count = 1;
        options.length_multiples = &length_multiple;
        options.length_multiple_count = 1;
        options.batch_size_multiple = batch_size_multiple;
        options.max_batch_size = max_batch_size;
        options.bucket_batches = bucket_batches;
        options.padding_target = target;
        options.tail = tail;
        const std::vector<int64_t> ids(lengths.size());
        if (one_set != 0) {  // plans with ids have one set of buckets
            options.separate_by = ids.data();
            options.separate_by_count = ids.size();
        }
        sab_plan* made = nullptr;
        ASSERT_DONE(sab_plan_new(kept.get(), &options, &made));
        plan.reset(made);
    }
    sab_plan_info info() const {
        sab_plan_info info = SAB_PLAN_INFO_INIT;
        EXPECT_DONE(sab_plan_get_info(plan.get(), &info));
        return info;
    }
    sab_bucket bucket(std::size_t index) const {
        sab_bucket bucket = SAB_BUCKET_INIT;
        EXPECT_DONE(sab_plan_get_bucket(plan.get(), index, &bucket));
        return bucket;
    }
    sab_plan_report report(uint64_t epoch) const {
        sab_sampler_options options = SAB_SAMPLER_OPTIONS_INIT;
        options.epoch = epoch;
        sab_plan_report report = SAB_PLAN_REPORT_INIT;
        EXPECT_DONE(sab_plan_get_report(plan.get(), &options, nullptr, &report));
        return report;
    }
};

/// Plans of all kinds that have a second set. Whether the numbers of batches of two sets agree is a
/// matter of chance in small plans, so not all have one.
std::vector<Case> some_cases() {
    std::vector<Case> cases;
    cases.push_back({log_normal(50'000, 1)});
    cases.push_back({log_normal(50'000, 1, 0.1)});
    cases.push_back({log_normal(50'000, 1), 4e5, true});
    cases.push_back({log_normal(30'000, 3), 4000, false, 0.25});
    cases.push_back({log_normal(60'000, 1), 8000, false, 0, 2});
    cases.push_back({log_normal(30'000, 1), 4000, false, 0, 0, 70});
    cases.push_back({log_normal(40'000, 7), 4000, false, 0, 0, 0, 16});
    Case wraps{log_normal(20'000, 2)}, drops{log_normal(20'000, 3)}, wide{log_normal(30'000, 10)};
    wraps.tail = SAB_TAIL_WRAP;
    drops.tail = SAB_TAIL_DROP;
    wide.target = 0.1;
    cases.push_back(std::move(wraps));
    cases.push_back(std::move(drops));
    cases.push_back(std::move(wide));
    for (Case& of : cases) of.make();
    std::erase_if(cases, [](const Case& of) { return of.info().second_buckets == 0; });
    EXPECT_GE(cases.size(), 7u);
    return cases;
}

Sampler sampler_of(const sab_plan* plan, uint64_t epoch, uint64_t rank = 0,
                   uint64_t world_size = 1) {
    sab_sampler_options options = SAB_SAMPLER_OPTIONS_INIT;
    options.seed = 7;
    options.epoch = epoch;
    options.rank = rank;
    options.world_size = world_size;
    sab_sampler* made = nullptr;
    EXPECT_DONE(sab_bucket_sampler_new(plan, &options, &made));
    return Sampler(made);
}

/// Calls `visit(batch)` for each batch to come.
template <class Visit>
void walk(sab_sampler* sampler, Visit&& visit) {
    sab_batch batch = SAB_BATCH_INIT;
    sab_status status = SAB_OK;
    while ((status = sab_next_batch(sampler, &batch)) == SAB_OK) visit(batch);
    ASSERT_EQ(status, SAB_END) << sab_last_error_message();
}

Batches batches_of(sab_sampler* sampler) {
    Batches batches;
    walk(sampler, [&](const sab_batch& batch) {
        batches.emplace_back(batch.indices, batch.indices + batch.count);
    });
    return batches;
}

TEST(SecondBuckets, HaveTheSamplesAndTheBatchesOfTheFirst_AndKeepTheRules) {
    for (const Case& of : some_cases()) {
        const sab_plan_info info = of.info();
        ASSERT_GT(info.second_buckets, 0u);
        struct Sums {
            uint64_t samples = 0, batches = 0, waste_batches = 0;
            double padded = 0;
        } sums[2];
        for (std::size_t b = 0; b < info.buckets + info.second_buckets; ++b) {
            const sab_bucket bucket = of.bucket(b);
            Sums& own = sums[b < info.buckets ? 0 : 1];
            own.samples += bucket.samples;
            own.batches += bucket.batches;
            own.padded += static_cast<double>(bucket.samples) * bucket.padded_length[0];
            EXPECT_LE(bucket.cost, of.budget);
            EXPECT_LE(of.cost(static_cast<double>(bucket.batch_size), bucket.padded_length[0]),
                      of.budget);
            if (of.batch_size_multiple > 1)
                EXPECT_EQ(bucket.batch_size % of.batch_size_multiple, 0);
            if (of.max_batch_size > 0) EXPECT_LE(bucket.batch_size, of.max_batch_size);
        }
        for (const Sums& each : sums) {
            EXPECT_EQ(each.samples, of.lengths.size());
            EXPECT_EQ(each.batches, info.batches);
            const double padding = 1 - info.total / each.padded;
            if (of.report(0).target_met) EXPECT_LE(padding, of.target > 0 ? of.target : 0.01);
        }
        if (of.report(0).target_met)
            EXPECT_LE(static_cast<double>(info.batches), (1 + (of.target > 0 ? of.target : 0.01)) *
                                                             static_cast<double>(info.lower_bound));
        sab_bucket none = SAB_BUCKET_INIT;
        EXPECT_EQ(sab_plan_get_bucket(of.plan.get(), info.buckets + info.second_buckets, &none),
                  SAB_E_ARGUMENT);
    }
}

TEST(SecondBuckets, AreThoseOfOddEpochs) {
    for (const Case& of : some_cases()) {
        const sab_plan_info info = of.info();
        for (uint64_t epoch = 0; epoch < 4; ++epoch) {
            std::vector<int> seen(of.lengths.size());
            uint64_t batches = 0, samples = 0;
            const uint64_t first = epoch % 2 == 0 ? 0 : info.buckets,
                           end = epoch % 2 == 0 ? info.buckets : info.buckets + info.second_buckets;
            walk(sampler_of(of.plan.get(), epoch).get(), [&](const sab_batch& batch) {
                ++batches;
                samples += batch.count;
                ASSERT_GE(batch.bucket, static_cast<int64_t>(first));
                ASSERT_LT(batch.bucket, static_cast<int64_t>(end));
                const sab_bucket bucket = of.bucket(static_cast<std::size_t>(batch.bucket));
                ASSERT_LE(batch.count, bucket.batch_size);
                ASSERT_LE(batch.longest[0], bucket.longest[0]);
                ASSERT_LE(of.cost(static_cast<double>(batch.count), batch.padded_length[0]),
                          of.budget);
                double longest = 0;
                for (std::size_t i = 0; i < batch.count; ++i) {
                    const auto sample = static_cast<std::size_t>(batch.indices[i]);
                    seen[sample] = 1;
                    longest = std::max(longest, of.lengths[sample]);
                }
                ASSERT_EQ(batch.longest[0], longest);
                ASSERT_EQ(batch.padded_length[0], of.padded(longest));
            });
            EXPECT_EQ(batches, info.batches);
            if (of.tail != SAB_TAIL_DROP)
                EXPECT_EQ(std::count(seen.begin(), seen.end(), 1), std::ssize(seen));
            if (of.tail == SAB_TAIL_KEEP) EXPECT_EQ(samples, of.lengths.size());
            if (of.tail == SAB_TAIL_DROP) EXPECT_LE(samples, of.lengths.size());
        }
    }
}

TEST(SecondBuckets, MatesMeetAgainLessOften_ThanThePaddingRises) {
    for (Case& of : some_cases()) {
        Case one;
        one.lengths = of.lengths;
        one.budget = of.budget;
        one.is_quadratic = of.is_quadratic;
        one.length_multiple = of.length_multiple;
        one.batch_size_multiple = of.batch_size_multiple;
        one.max_batch_size = of.max_batch_size;
        one.bucket_batches = of.bucket_batches;
        one.tail = of.tail;
        one.target = of.target;
        one.one_set = 1;
        one.make();
        EXPECT_EQ(one.info().second_buckets, 0u);
        const sab_plan_report alone = one.report(0), even = of.report(0), odd = of.report(1);
        EXPECT_LE(static_cast<double>(even.batches), 1.005 * static_cast<double>(alone.batches));
        const double meet = (even.meet_again + odd.meet_again) / 2 / alone.meet_again,
                     padding = (even.padding + odd.padding) / 2 / alone.padding;
        EXPECT_LT(meet, 0.95);
        EXPECT_LT(meet * padding, 0.95);
    }
}

TEST(SecondBuckets, CostliestBatchesAreThoseOfAllEpochs) {
    for (const Case& of : some_cases()) {
        sab_sampler* made = nullptr;
        ASSERT_DONE(sab_costliest_sampler_new(of.plan.get(), 3, &made));
        const Sampler costliest(made);
        sab_batch batch = SAB_BATCH_INIT;
        ASSERT_DONE(sab_next_batch(costliest.get(), &batch));
        const double most = of.cost(static_cast<double>(batch.count), batch.padded_length[0]);
        for (uint64_t epoch = 0; epoch < 4; ++epoch)
            walk(sampler_of(of.plan.get(), epoch).get(), [&](const sab_batch& other) {
                ASSERT_LE(of.cost(static_cast<double>(other.count), other.padded_length[0]), most);
            });
    }
}

TEST(SecondBuckets, AStateOfAnOddEpochContinuesOnOtherRanks_AlsoUnderALoweredBudget) {
    for (const Case& of : some_cases()) {
        if (of.tail != SAB_TAIL_KEEP) continue;
        for (const double lowered : {0.0, 0.6 * of.budget}) {
            std::vector<int> seen(of.lengths.size());
            const auto see = [&](const sab_batch& batch) {
                for (std::size_t i = 0; i < batch.count; ++i)
                    ++seen[static_cast<std::size_t>(batch.indices[i])];
                if (lowered > 0 && batch.count > 1)
                    EXPECT_LE(of.cost(static_cast<double>(batch.count), batch.padded_length[0]),
                              lowered);
            };
            std::vector<unsigned char> state(4096);
            std::size_t size = 0;
            for (uint64_t rank = 0; rank < 3; ++rank) {
                const Sampler sampler = sampler_of(of.plan.get(), 1, rank, 3);
                if (lowered > 0) ASSERT_DONE(sab_sampler_set_budget(sampler.get(), 0, lowered));
                sab_batch batch = SAB_BATCH_INIT;
                for (int i = 0; i < 40; ++i) {
                    ASSERT_DONE(sab_next_batch(sampler.get(), &batch));
                    see(batch);
                }
                ASSERT_DONE(sab_sampler_state_save(sampler.get(), nullptr, 0, &size));
                state.resize(size);
                ASSERT_DONE(sab_sampler_state_save(sampler.get(), state.data(), size, &size));
            }
            for (uint64_t rank = 0; rank < 2; ++rank) {
                const Sampler sampler = sampler_of(of.plan.get(), 0, rank, 2);
                ASSERT_DONE(sab_sampler_state_restore(sampler.get(), state.data(), size));
                walk(sampler.get(), see);
            }
            EXPECT_EQ(std::count(seen.begin(), seen.end(), 1), std::ssize(seen));
        }
    }
}

TEST(SecondBuckets, SeekShowsTheBatchesOfTheWalk) {
    const std::vector<Case> cases = some_cases();
    const Sampler sampler = sampler_of(cases[0].plan.get(), 3, 1, 2);
    const Batches all = batches_of(sampler.get());
    sab_batch batch = SAB_BATCH_INIT;
    for (const std::size_t position : {all.size() - 1, std::size_t{5}, all.size() / 2}) {
        ASSERT_DONE(sab_sampler_seek(sampler.get(), position));
        ASSERT_DONE(sab_next_batch(sampler.get(), &batch));
        EXPECT_EQ(std::vector(batch.indices, batch.indices + batch.count), all[position]);
    }
}

TEST(SecondBuckets, AreInPlanFiles) {
    for (const Case& of : some_cases()) {
        std::size_t size = 0;
        ASSERT_DONE(sab_plan_write(of.plan.get(), nullptr, 0, &size));
        std::vector<unsigned char> image(size);
        ASSERT_DONE(sab_plan_write(of.plan.get(), image.data(), size, &size));
        sab_plan *read = nullptr, *copied = nullptr;
        ASSERT_DONE(sab_plan_bytes_new(image.data(), size, &read));
        const Plan kept(read);
        ASSERT_DONE(sab_plan_check(read));
        ASSERT_DONE(sab_plan_copy_new(read, &copied));
        const Plan copy(copied);
        for (uint64_t epoch = 0; epoch < 2; ++epoch)
            EXPECT_EQ(batches_of(sampler_of(copied, epoch).get()),
                      batches_of(sampler_of(of.plan.get(), epoch).get()));
        // Behind the header, a column, a budget, its terms and the first set.
        uint64_t numbers[8];  // budgets, terms, sizes, buckets, runs, shared runs, second set
        std::memcpy(numbers, image.data() + 32, sizeof numbers);
        const std::size_t second =
            392 + 72 + 16 + numbers[1] * 48 + numbers[3] * (56 + 48) + numbers[5] * 24;
        image[second + 3] ^= 1;
        EXPECT_EQ(sab_plan_bytes_new(image.data(), size, &read), SAB_E_FORMAT);
        EXPECT_NE(std::strstr(sab_last_error_message(), "section \"second buckets\" is damaged"),
                  nullptr)
            << sab_last_error_message();
    }
}

#if SAB_WITH_ENGINE
TEST(SecondBuckets, SamplesArePlacedWhereBatchesHaveThem) {
    for (const Case& of : some_cases()) {
        std::map<double, uint64_t> next;
        std::vector<uint64_t> numbers;
        for (const double length : of.lengths) numbers.push_back(next[length]++);
        const std::size_t count = of.lengths.size();
        for (uint64_t epoch = 0; epoch < 2; ++epoch) {
            const Batches batches = batches_of(sampler_of(of.plan.get(), epoch).get());
            std::vector<int64_t> where(count), slots(count);
            sab_places places = SAB_PLACES_INIT;
            places.batches = where.data();
            places.slots = slots.data();
            sab_sampler_options options = SAB_SAMPLER_OPTIONS_INIT;
            options.seed = 7;
            options.epoch = epoch;
            if (of.tail == SAB_TAIL_DROP) continue;  // some have no place
            ASSERT_DONE(sab_histogram_plan_locate(of.plan.get(), &options, nullptr,
                                                  of.lengths.data(), numbers.data(), nullptr, count,
                                                  &places));
            for (std::size_t i = 0; i < count; ++i)
                ASSERT_EQ(
                    batches[static_cast<std::size_t>(where[i])][static_cast<std::size_t>(slots[i])],
                    static_cast<int64_t>(i));
        }
    }
}
#endif

TEST(SecondBuckets, AreLeftOut_WhereTheyWinLittle) {
    Case few_sizes{log_normal(20'000, 11, 40)}, few_samples{log_normal(100, 12)};
    few_sizes.make();
    few_samples.make();
    EXPECT_EQ(few_sizes.info().second_buckets, 0u);
    EXPECT_EQ(few_samples.info().second_buckets, 0u);
}

}  // namespace
}  // namespace second_buckets
