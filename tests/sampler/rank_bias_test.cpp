/// Over many epochs no rank gets longer batches than the others, and no sample stays on one rank.
#include <gtest/gtest.h>
#include <sab.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include "plan/plan.h"
#include "sampler/sequence.h"

namespace sab {
namespace {

constexpr uint64_t epochs = 200;

struct Walked {
    /// of each rank's batch, rank by rank, step by step, epoch by epoch
    std::vector<double> longest;
    std::vector<std::vector<uint32_t>> times;  ///< by sample and rank
    uint64_t steps = 0;                        ///< of an epoch
};

sab_plan* plan_of(uint64_t count, double limit) {
    std::mt19937_64 random(7);
    std::vector<double> lengths(count);
    for (double& length : lengths) {  // roughly log-normal
        double sum = 0;
        for (int i = 0; i < 12; ++i) sum += static_cast<double>(random() >> 11) * 0x1p-53;
        length = std::min(1000.0, std::floor(std::exp(3.5 + 0.8 * (sum - 6))) + 1);
    }
    sab_sizes* sizes = nullptr;
    EXPECT_EQ(sab_sizes_new(lengths.data(), lengths.size(), SAB_FLOAT64, nullptr, &sizes), SAB_OK);
    sab_plan_options options = SAB_PLAN_OPTIONS_INIT;
    const sab_budget budget{nullptr, limit};
    options.budgets = &budget;
    options.budget_count = 1;
    sab_plan* plan = nullptr;
    EXPECT_EQ(sab_plan_new(sizes, &options, &plan), SAB_OK);
    sab_sizes_free(sizes);
    return plan;
}

Walked walk(const sab_plan* plan, uint64_t count, uint64_t ranks, sab_last_step last_step,
            uint64_t costliest_first) {
    Walked walked;
    walked.times.assign(count, std::vector<uint32_t>(ranks));
    for (uint64_t rank = 0; rank < ranks; ++rank) {
        sab_sampler_options options = SAB_SAMPLER_OPTIONS_INIT;
        options.seed = 3;
        options.rank = rank;
        options.world_size = ranks;
        options.last_step = last_step;
        options.costliest_first = costliest_first;
        sab_sampler* sampler = nullptr;
        EXPECT_EQ(sab_bucket_sampler_new(plan, &options, &sampler), SAB_OK);
        EXPECT_EQ(sab_sampler_get_batch_count(sampler, &walked.steps), SAB_OK);
        walked.longest.resize(epochs * walked.steps * ranks);
        sab_batch batch = SAB_BATCH_INIT;
        for (uint64_t epoch = 0; epoch < epochs; ++epoch) {
            EXPECT_EQ(sab_sampler_set_epoch(sampler, epoch), SAB_OK);
            while (sab_next_batch(sampler, &batch) == SAB_OK) {
                walked.longest[(epoch * walked.steps + batch.step) * ranks + rank] = *batch.longest;
                for (uint64_t i = 0; i < batch.count; ++i)
                    ++walked.times[static_cast<std::size_t>(batch.indices[i])][rank];
            }
        }
        sab_sampler_free(sampler);
    }
    return walked;
}

/// The largest deviation of a rank's mean from the mean over ranks.
double largest_deviation(const std::vector<double>& sums) {
    const double mean =
        std::accumulate(sums.begin(), sums.end(), 0.0) / static_cast<double>(sums.size());
    double most = 0;
    for (const double sum : sums) most = std::max(most, std::abs(sum / mean - 1));
    return most;
}

/// The largest deviation among 1,000 uniform redraws of the places in the same steps.
double largest_of_redraws(std::vector<double> longest, uint64_t ranks) {
    std::mt19937_64 random(1);
    double most = 0;
    std::vector<double> sums(ranks);
    for (int draw = 0; draw < 1000; ++draw) {
        std::ranges::fill(sums, 0);
        for (auto step = longest.begin(); step != longest.end();
             step += static_cast<std::ptrdiff_t>(ranks))
            for (uint64_t rank = ranks; rank-- > 0;) {
                std::swap(step[static_cast<std::ptrdiff_t>(rank)],
                          step[static_cast<std::ptrdiff_t>(((random() >> 32) * (rank + 1)) >> 32)]);
                sums[rank] += step[static_cast<std::ptrdiff_t>(rank)];
            }
        most = std::max(most, largest_deviation(sums));
    }
    return most;
}

/// Whatever rank begins, a step holds the next batches of the global order, whose lengths are near
/// each other.
void expect_steps_of_the_order(const sab_plan* plan, const Walked& walked, uint64_t ranks,
                               uint64_t costliest_first) {
    const std::unique_ptr<Sequence> sequence = make_bucket_sequence(plan->impl);
    Batch batch;
    for (uint64_t epoch = 0; epoch < 3; ++epoch) {
        sequence->exchange(*sequence->make_epoch_order({3, epoch, ranks, costliest_first}));
        for (uint64_t step = 0; (step + 1) * ranks <= sequence->batches(); ++step) {
            std::vector<double> in_order;
            for (uint64_t i = 0; i < ranks; ++i) {
                sequence->fill(step * ranks + i, 0, sequence->samples(step * ranks + i), batch);
                in_order.push_back(batch.longest[0]);
            }
            const auto begin = walked.longest.begin() +
                               static_cast<std::ptrdiff_t>((epoch * walked.steps + step) * ranks);
            EXPECT_TRUE(std::is_permutation(in_order.begin(), in_order.end(), begin))
                << ranks << " ranks, epoch " << epoch << ", step " << step;
        }
    }
}

TEST(RankBias, NoRankGetsLongerBatches) {
    struct Case {
        uint64_t samples;
        double budget;
    };
    for (const auto& [samples, budget] : {Case{2000, 4000}, Case{10000, 4000}})
        for (const uint64_t ranks : {2u, 5u, 13u, 64u})
            for (const sab_last_step last_step :
                 {SAB_LAST_STEP_SPLIT, SAB_LAST_STEP_DROP, SAB_LAST_STEP_WRAP}) {
                sab_plan* plan = plan_of(samples, budget);
                sab_plan_info info = SAB_PLAN_INFO_INIT;
                EXPECT_EQ(sab_plan_get_info(plan, &info), SAB_OK);
                if (last_step == SAB_LAST_STEP_DROP && info.batches < ranks) {
                    sab_plan_free(plan);  // all batches would be dropped
                    continue;
                }
                const uint64_t costliest_first = last_step == SAB_LAST_STEP_WRAP ? ranks : 0;
                const Walked walked = walk(plan, samples, ranks, last_step, costliest_first);
                expect_steps_of_the_order(plan, walked, ranks, costliest_first);
                sab_plan_free(plan);
                if (walked.steps < 2) continue;
                std::vector<double> sums(ranks);
                for (std::size_t i = 0; i < walked.longest.size(); ++i)
                    sums[i % ranks] += walked.longest[i];
                const double deviation = largest_deviation(sums);
                const auto where = testing::Message()
                                   << samples << " samples, " << ranks << " ranks, " << walked.steps
                                   << " steps, last_step " << last_step;
                if (deviation > 0.02) {
                    EXPECT_LE(deviation, largest_of_redraws(walked.longest, ranks)) << where;
                }
                // A sample that was seen often enough was seen by more than one rank.
                uint64_t stuck = 0;
                for (const std::vector<uint32_t>& times : walked.times) {
                    const uint32_t all = std::accumulate(times.begin(), times.end(), 0u);
                    stuck += all >= 30 && std::ranges::max(times) == all;
                }
                EXPECT_EQ(stuck, 0u) << where;
            }
}

}  // namespace
}  // namespace sab
