/// The batches of a step take all ranks nearly as long, whatever time depends on.
#include <gtest/gtest.h>
#include <sab.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <vector>

namespace sab {
namespace {

using Sizes = std::vector<double>;

/// Roughly normal, the same on every machine.
double normal(std::mt19937_64& random) {
    double sum = -6;
    for (int i = 0; i < 12; ++i) sum += static_cast<double>(random() >> 11) * 0x1p-53;
    return sum;
}

Sizes log_normal(std::size_t count, double median, double sigma, double most) {
    std::mt19937_64 random(4);
    Sizes sizes(count);
    for (double& size : sizes)
        size = std::clamp(std::floor(median * std::exp(sigma * normal(random))), 1.0, most);
    return sizes;
}

/// Headings and paragraphs.
Sizes of_text(std::size_t count) {
    Sizes sizes = log_normal(count, 145, 0.4, 1000);
    std::mt19937_64 random(5);
    for (std::size_t i = 0; i < count * 35 / 100; ++i)
        sizes[i] = 3 + static_cast<double>(random() % 10);
    return sizes;
}

struct Handles {
    explicit Handles(const Sizes& given, double limit) {
        EXPECT_EQ(sab_sizes_new(given.data(), given.size(), SAB_FLOAT64, nullptr, &sizes), SAB_OK);
        sab_plan_options options = SAB_PLAN_OPTIONS_INIT;
        const sab_budget budget{nullptr, limit};
        options.budgets = &budget;
        options.budget_count = 1;
        EXPECT_EQ(sab_plan_new(sizes, &options, &plan), SAB_OK);
    }
    ~Handles() {
        sab_plan_free(plan);
        sab_sizes_free(sizes);
    }
    sab_sizes* sizes = nullptr;
    sab_plan* plan = nullptr;
};

struct Step {
    std::vector<double> counts, lengths;  ///< of each rank's batch
};

std::vector<Step> steps_of(const sab_plan* plan, sab_sampler_options options) {
    std::vector<Step> steps;
    for (options.rank = 0; options.rank < options.world_size; ++options.rank) {
        sab_sampler* sampler = nullptr;
        EXPECT_EQ(sab_bucket_sampler_new(plan, &options, &sampler), SAB_OK);
        sab_batch batch = SAB_BATCH_INIT;
        for (std::size_t step = 0; sab_next_batch(sampler, &batch) == SAB_OK; ++step) {
            if (step == steps.size()) steps.emplace_back();
            steps[step].counts.push_back(static_cast<double>(batch.count));
            steps[step].lengths.push_back(batch.count == 0 ? 0 : *batch.longest);
        }
        sab_sampler_free(sampler);
    }
    return steps;
}

using Price = std::function<double(double count, double length)>;

double padded(double count, double length) {
    return count * length;
}
double squared(double count, double length) {
    return count * length * length;
}

struct Wait {
    double imbalance = 0;  ///< mean over steps of the costliest rank over the mean rank
    double lost = 0;       ///< share of an epoch that the mean rank waits
};

Wait wait_of(const std::vector<Step>& steps, const Price& price) {
    Wait wait;
    double all = 0, slowest = 0;
    for (const Step& step : steps) {
        double sum = 0, most = 0;
        for (std::size_t rank = 0; rank < step.counts.size(); ++rank) {
            const double cost = price(step.counts[rank], step.lengths[rank]);
            sum += cost;
            most = std::max(most, cost);
        }
        const auto ranks = static_cast<double>(step.counts.size());
        wait.imbalance += most * ranks / sum / static_cast<double>(steps.size());
        all += sum / ranks;
        slowest += most;
    }
    wait.lost = 1 - all / slowest;
    return wait;
}

sab_sampler_options of_ranks(uint64_t world_size, bool mix_lengths = false) {
    sab_sampler_options options = SAB_SAMPLER_OPTIONS_INIT;
    options.seed = 3;
    options.world_size = world_size;
    options.mix_lengths = mix_lengths ? 1 : 0;
    return options;
}

TEST(EvenSteps, LikeLengths_CostTheSamePaddedAndSquared) {
    const Handles glosses(log_normal(117'000, 11, 0.5, 82), 1024), text(of_text(120'000), 16384);
    for (const Handles* of : {&glosses, &text})
        for (const auto& [ranks, most_padded, most_squared] :
             {std::tuple{8u, 1.01, 1.06}, std::tuple{64u, 1.03, 1.2}}) {
            const std::vector<Step> steps = steps_of(of->plan, of_ranks(ranks)),
                                    mixed = steps_of(of->plan, of_ranks(ranks, true));
            EXPECT_LE(wait_of(steps, padded).imbalance, most_padded) << ranks << " ranks";
            EXPECT_LE(wait_of(steps, squared).imbalance, most_squared) << ranks << " ranks";
            EXPECT_GE(wait_of(mixed, squared).imbalance, 1.5) << ranks << " ranks";
        }
}

TEST(EvenSteps, LongTails_CostTheSamePaddedAndNearlySoSquared) {
    const Handles proteins(log_normal(20'000, 330, 0.75, 8081), 16384);
    const std::vector<Step> steps = steps_of(proteins.plan, of_ranks(8));
    EXPECT_LE(wait_of(steps, padded).imbalance, 1.01);
    EXPECT_LE(wait_of(steps, squared).imbalance, 1.06);
    EXPECT_LE(wait_of(steps_of(proteins.plan, of_ranks(64)), padded).imbalance, 1.03);
}

TEST(EvenSteps, LastStep_IsDividedEvenly) {
    for (const std::size_t count : {7'700u, 7'800u, 7'900u, 8'000u, 8'100u, 8'200u, 8'300u}) {
        const Handles of(log_normal(count, 11, 0.5, 82), 1024);
        for (const uint64_t ranks : {8u, 16u}) {
            const std::vector<Step> steps = steps_of(of.plan, of_ranks(ranks));
            const Wait last = wait_of({steps.back()}, padded);
            const bool is_coarse = std::ranges::min(steps.back().counts) < 8;
            EXPECT_LE(last.imbalance, is_coarse ? 1.4 : 1.12)
                << count << " samples, " << ranks << " ranks";
            EXPECT_LE(wait_of(steps, padded).lost, 0.02) << count << " samples";
        }
    }
}

TEST(EvenSteps, MicroBatches_HaveDifferentLengths) {
    const Handles of(log_normal(60'000, 11, 0.5, 82), 1024);
    constexpr uint64_t micro_batches = 4;
    sab_sampler_options options = of_ranks(2);
    options.micro_batches = micro_batches;
    const std::vector<Step> steps = steps_of(of.plan, options);
    std::vector<double> sorted;
    for (const Step& step : steps) sorted.push_back(step.lengths[0]);
    std::ranges::sort(sorted);
    for (std::size_t first = 0; first + micro_batches < steps.size(); first += micro_batches) {
        std::vector<double> lengths;
        for (std::size_t i = first; i < first + micro_batches; ++i)
            lengths.push_back(steps[i].lengths[0]);
        std::ranges::sort(lengths);
        for (std::size_t quarter = 0; quarter < micro_batches; ++quarter) {
            const std::size_t from = quarter * sorted.size() / micro_batches,
                              to = std::min((quarter + 1) * sorted.size() / micro_batches + 8,
                                            sorted.size() - 1);
            EXPECT_GE(lengths[quarter], sorted[from > 8 ? from - 8 : 0] * 0.97);
            EXPECT_LE(lengths[quarter], sorted[to] * 1.03);
        }
    }
}

TEST(EvenSteps, Balance_IsTheCostThatIsEven) {
    // a bucket for each length, with three batches of any number of samples
    std::mt19937_64 random(6);
    Sizes sizes, boundaries{1};
    std::vector<uint64_t> batch_sizes;
    for (int length = 1; length <= 1200; ++length) {
        batch_sizes.push_back(2 + random() % 30);
        sizes.insert(sizes.end(), 3 * batch_sizes.back(), length);
        boundaries.push_back(length + 1);
    }
    sab_sizes* handle = nullptr;
    ASSERT_EQ(sab_sizes_new(sizes.data(), sizes.size(), SAB_FLOAT64, nullptr, &handle), SAB_OK);
    sab_plan_options options = SAB_PLAN_OPTIONS_INIT;
    options.bucket_rule = SAB_BUCKETS_BOUNDARIES;
    options.boundaries = boundaries.data();
    options.boundary_count = boundaries.size();
    options.batch_sizes = batch_sizes.data();
    options.batch_size_count = batch_sizes.size();
    sab_plan* plan = nullptr;
    ASSERT_EQ(sab_plan_new(handle, &options, &plan), SAB_OK);
    const uint32_t power = 2;
    const sab_cost_term term{1, 1, 1, &power, {}};
    sab_cost *quadratic = nullptr, *model = nullptr;
    ASSERT_EQ(sab_cost_terms_new(&term, 1, &quadratic), SAB_OK);
    ASSERT_EQ(sab_cost_transformer_new(64, 2, &model), SAB_OK);
    for (const sab_cost* balance : {quadratic, model}) {
        sab_sampler_options ranks = of_ranks(8);
        sab_plan_report even = SAB_PLAN_REPORT_INIT;
        ranks.balance = &balance;
        ranks.balance_count = 1;
        ASSERT_EQ(sab_plan_get_report(plan, &ranks, nullptr, &even), SAB_OK);
        const Price price = [&](double count, double length) {
            double value = 0;
            EXPECT_EQ(sab_cost_evaluate(balance, static_cast<uint64_t>(count), &length, nullptr, 1,
                                        &value),
                      SAB_OK);
            return value;
        };
        const Wait with = wait_of(steps_of(plan, ranks), price),
                   without = wait_of(steps_of(plan, of_ranks(8)), price);
        EXPECT_NEAR(with.imbalance, even.rank_imbalance, 1e-9);
        EXPECT_LT(with.lost, 0.05);
        EXPECT_GT(without.lost, 2 * with.lost);
    }
    sab_cost_free(quadratic);
    sab_cost_free(model);
    sab_plan_free(plan);
    sab_sizes_free(handle);
}

}  // namespace
}  // namespace sab
