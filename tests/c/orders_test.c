/* What every order promises: coverage, equal steps, budget, near-equal ranks, resume; whatever the
 * plan, the ranks and the policies. */
#define _GNU_SOURCE
#include <math.h>
#include <stdlib.h>

#include "helpers.h"

#define SAMPLES 400
#define BUDGET 300

enum order { NATIVE, SEQUENTIAL, SIZE_AWARE, ORDERS };

static sab_sampler *sampler_of(enum order order, const sab_plan *plan, const sab_sizes *sizes,
                               const sab_sampler_options *options) {
    sab_sampler *sampler = NULL;
    EXPECT_OK(order == NATIVE ? sab_bucket_sampler_new(plan, options, &sampler)
              : order == SEQUENTIAL
                  ? sab_sequential_sampler_new(plan, options, &sampler)
                  : sab_size_aware_sampler_new(NULL, SAMPLES, sizes, BUDGET, options, &sampler));
    return sampler;
}

static sab_sampler_options ranks(uint64_t rank, uint64_t world_size) {
    sab_sampler_options options = SAB_SAMPLER_OPTIONS_INIT;
    options.rank = rank;
    options.world_size = world_size;
    return options;
}

/* A plan of each way to cut, over lengths(SAMPLES). */
static sab_plan *plan_of(sab_buckets buckets, sab_tail tail) {
    static const double boundaries[] = {0, 8, 20, 50, 100};
    sab_plan_options options = budget(BUDGET);
    options.buckets = buckets;
    options.tail = tail;
    if (buckets == SAB_BUCKETS_BOUNDARIES) {
        options.boundaries = boundaries;
        options.boundary_count = 5;
    }
    options.bucket_count = buckets == SAB_BUCKETS_OPTIMAL ? 5 : 0;
    options.bucket_batches = buckets == SAB_BUCKETS_RANK ? 3 : 0;
    return plan_with(lengths(SAMPLES), SAMPLES, &options);
}

static void EveryPlanAndOrder_KeepsCoverageStepsAndBudget(void) {
    sab_sizes *sizes = sizes_of(lengths(SAMPLES), SAMPLES);
    for (sab_buckets buckets = SAB_BUCKETS_AUTO; buckets <= SAB_BUCKETS_RANK; ++buckets)
        for (sab_tail tail = SAB_TAIL_KEEP; tail <= SAB_TAIL_WRAP; ++tail) {
            sab_plan *plan = plan_of(buckets, tail);
            for (enum order order = NATIVE; order < ORDERS; ++order)
                for (uint64_t world_size = 1; world_size <= 9; ++world_size)
                    for (sab_last_step last_step = SAB_LAST_STEP_SPLIT;
                         last_step <= SAB_LAST_STEP_WRAP; ++last_step) {
                        int seen[SAMPLES] = {0};
                        uint64_t steps = 0, count = 0, batches = 0;
                        for (uint64_t rank = 0; rank < world_size; ++rank) {
                            sab_sampler_options options = ranks(rank, world_size);
                            options.last_step = last_step;
                            sab_sampler *sampler = sampler_of(order, plan, sizes, &options);
                            EXPECT_OK(sab_sampler_batch_count(sampler, &count));
                            sab_batch batch = SAB_BATCH_INIT;
                            uint64_t walked = 0;
                            while (sab_next_batch(sampler, &batch) == SAB_OK) {
                                double total = 0, longest = 0;
                                for (uint64_t i = 0; i < batch.count; ++i) {
                                    const int32_t size = lengths(SAMPLES)[batch.indices[i]];
                                    ++seen[batch.indices[i]];
                                    total += size;
                                    longest = fmax(longest, size);
                                }
                                EXPECT(batch.total == total && batch.longest == longest &&
                                       batch.step == walked);
                                EXPECT((order == SIZE_AWARE ? batch.total : batch.padded_total) <=
                                       BUDGET);
                                EXPECT(batch.count > 0 || last_step == SAB_LAST_STEP_SPLIT);
                                ++walked;
                            }
                            EXPECT(walked == count && (rank == 0 || walked == steps));
                            steps = walked;
                            sab_sampler_free(sampler);
                        }
                        if (order == SIZE_AWARE || (tail != SAB_TAIL_DROP && tail != SAB_TAIL_WRAP))
                            for (int i = 0; i < SAMPLES; ++i)
                                EXPECT(last_step == SAB_LAST_STEP_SPLIT ? seen[i] == 1
                                       : last_step == SAB_LAST_STEP_DROP
                                           ? seen[i] <= 1
                                           : seen[i] == 1 || seen[i] == 2);
                        sab_sampler_options one = ranks(0, 1);
                        sab_sampler *alone = sampler_of(order, plan, sizes, &one);
                        EXPECT_OK(sab_sampler_batch_count(alone, &batches));
                        EXPECT(steps == batches / world_size + (last_step != SAB_LAST_STEP_DROP &&
                                                                batches % world_size > 0));
                        sab_sampler_free(alone);
                    }
            sab_plan_free(plan);
        }
    sab_sizes_free(sizes);
}

static void StepTotals_AreTheTrueSumsUnderEveryPolicy(void) {
    sab_sizes *sizes = sizes_of(lengths(SAMPLES), SAMPLES);
    sab_plan *plan = plan_of(SAB_BUCKETS_AUTO, SAB_TAIL_KEEP);
    const uint64_t worlds[] = {1, 2, 3, 7, 64, 200}; /* the last: more ranks than batches */
    for (enum order order = NATIVE; order < ORDERS; ++order)
        for (size_t w = 0; w < COUNT(worlds); ++w)
            for (sab_last_step last_step = SAB_LAST_STEP_SPLIT; last_step <= SAB_LAST_STEP_WRAP;
                 ++last_step) {
                enum { most_steps = 400 };
                uint64_t samples[most_steps] = {0}, said[most_steps] = {0}, steps = 0;
                double totals[most_steps] = {0}, said_total[most_steps] = {0};
                for (uint64_t rank = 0; rank < worlds[w]; ++rank) {
                    sab_sampler_options options = ranks(rank, worlds[w]);
                    options.last_step = last_step;
                    sab_sampler *sampler = sampler_of(order, plan, sizes, &options);
                    sab_batch batch = SAB_BATCH_INIT;
                    for (steps = 0; sab_next_batch(sampler, &batch) == SAB_OK; ++steps) {
                        samples[steps] += batch.count;
                        totals[steps] += batch.total;
                        EXPECT(rank == 0 || (batch.step_samples == said[steps] &&
                                             batch.step_total == said_total[steps]));
                        said[steps] = batch.step_samples;
                        said_total[steps] = batch.step_total;
                    }
                    sab_sampler_free(sampler);
                }
                for (uint64_t step = 0; step < steps; ++step)
                    EXPECT(samples[step] == said[step] && totals[step] == said_total[step]);
            }
    sab_sampler_options without = ranks(0, 2);
    without.step_totals = 0;
    sab_sampler *sampler = sampler_of(NATIVE, plan, sizes, &without);
    sab_batch batch = SAB_BATCH_INIT;
    EXPECT_OK(sab_next_batch(sampler, &batch));
    EXPECT(batch.step_samples == 0 && batch.step_total == -1);
    sab_sampler_free(sampler);
    sab_plan_free(plan);
    sab_sizes_free(sizes);
}

static void MoreRanksThanSamples_GiveEmptyBatches(void) {
    const int32_t numbers[] = {4, 5, 6};
    const sab_plan_options options = budget(20);
    sab_plan *plan = plan_with(numbers, 3, &options);
    int seen[3] = {0}, empty = 0;
    for (uint64_t rank = 0; rank < 5; ++rank) {
        sab_sampler *sampler = rank_of(plan, rank, 5);
        sab_batch batch = SAB_BATCH_INIT;
        EXPECT_OK(sab_next_batch(sampler, &batch));
        EXPECT(batch.count <= 1 && batch.step_samples == 3 && batch.step_total == 15);
        EXPECT(batch.count > 0 ||
               (batch.total == 0 && batch.padded_total == 0 && batch.bucket == -1));
        empty += batch.count == 0;
        for (uint64_t i = 0; i < batch.count; ++i) ++seen[batch.indices[i]];
        EXPECT(sab_next_batch(sampler, &batch) == SAB_END);
        sab_sampler_free(sampler);
    }
    EXPECT(all_are(seen, 3, 1) && empty == 2);
    sab_plan_free(plan);
}

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Mean over steps of largest cost / mean cost, if neighbours in the order of cost were taken
 * together: as equal as it gets. */
static double least_imbalance(const sab_plan *plan, uint64_t world_size) {
    double costs[2000], sum = 0;
    sab_sampler *sampler = rank_of(plan, 0, 1);
    sab_batch batch = SAB_BATCH_INIT;
    uint64_t batches = 0;
    while (sab_next_batch(sampler, &batch) == SAB_OK) costs[batches++] = batch.padded_total;
    sab_sampler_free(sampler);
    qsort(costs, batches, sizeof *costs, by_value);
    const uint64_t steps = batches / world_size;
    for (uint64_t step = 0; step < steps; ++step) {
        /* from the costliest down */
        const double *of_step = costs + (batches - (step + 1) * world_size);
        double total = 0;
        for (uint64_t rank = 0; rank < world_size; ++rank) total += of_step[rank];
        sum += of_step[world_size - 1] * (double)world_size / total;
    }
    return sum / (double)steps;
}

static void RanksOfOneStep_CostNearlyTheSame(void) {
    const uint64_t eight = 8;
    for (int by_budget = 0; by_budget <= 1; ++by_budget) {
        sab_plan_options options = budget(300);
        if (!by_budget) { /* batches of eight cost from 8 to 776 */
            options.budget = 0;
            options.batch_sizes = &eight;
            options.batch_size_count = 1;
        }
        sab_plan *plan = plan_with(lengths(2000), 2000, &options);
        for (uint64_t world_size = 2; world_size <= 16; world_size *= 2) {
            const double least = least_imbalance(plan, world_size);
            sab_sampler_options walk_options = ranks(0, world_size);
            walk_options.last_step = SAB_LAST_STEP_DROP; /* whole batches only */
            sab_report report = SAB_REPORT_INIT;
            EXPECT_OK(sab_plan_report(plan, &walk_options, NULL, NULL, &report));
            EXPECT(report.rank_imbalance >= 1 && report.rank_imbalance < 1.08 * least);
            walk_options.last_step = SAB_LAST_STEP_SPLIT;
            EXPECT_OK(sab_plan_report(plan, &walk_options, NULL, NULL, &report));
            EXPECT(report.rank_imbalance >= 1 && report.rank_imbalance < 1.12 * least);
        }
        sab_plan_free(plan);
    }
}

static void Order_DependsOnSeedAndEpochAlone(void) {
    sab_plan *plan = a_plan(), *equal = a_plan();
    static char first[8192], again[8192], other[8192];
    sab_sampler_options options = SAB_SAMPLER_OPTIONS_INIT;
    sab_sampler *sampler = NULL, *twin = NULL;
    EXPECT_OK(sab_bucket_sampler_new(plan, &options, &sampler));
    print_epoch(sampler, first);
    EXPECT_OK(sab_bucket_sampler_new(equal, NULL, &twin)); /* an equal plan, default options */
    print_epoch(twin, again);
    EXPECT(strcmp(first, again) == 0);
    EXPECT_OK(sab_sampler_set_epoch(sampler, 5));
    print_epoch(sampler, other);
    EXPECT(strcmp(first, other) != 0);
    sab_sampler_free(twin);
    options.epoch = 5; /* begins there, instead of going there */
    EXPECT_OK(sab_bucket_sampler_new(plan, &options, &twin));
    print_epoch(twin, again);
    EXPECT(strcmp(other, again) == 0);
    EXPECT_OK(sab_sampler_set_epoch(sampler, 0));
    print_epoch(sampler, again);
    EXPECT(strcmp(first, again) == 0);
    sab_sampler_free(twin);
    options.epoch = 0;
    options.seed = 1;
    EXPECT_OK(sab_bucket_sampler_new(plan, &options, &twin));
    print_epoch(twin, other);
    EXPECT(strcmp(first, other) != 0);
    sab_sampler_free(twin);
    EXPECT_OK(sab_sequential_sampler_new(plan, NULL, &twin));
    print_epoch(twin, first);
    sab_sampler_free(twin);
    EXPECT_OK(sab_sequential_sampler_new(plan, &options, &twin)); /* the seed is not used */
    print_epoch(twin, other);
    EXPECT(strcmp(first, other) == 0);
    sab_sampler_free(twin);
    sab_sampler_free(sampler);
    sab_plan_free(plan);
    sab_plan_free(equal);
}

static void Sequential_GoesUpBySizeThenIndex(void) {
    const int32_t numbers[] = {5, 3, 5, 1, 3, 9, 5};
    sab_plan_options options = budget(10);
    options.buckets = SAB_BUCKETS_OPTIMAL;
    options.bucket_count = 99;
    sab_plan *plan = plan_with(numbers, 7, &options);
    sab_sampler *sampler = NULL;
    char text[256];
    EXPECT_OK(sab_sequential_sampler_new(plan, NULL, &sampler));
    print_epoch(sampler, text);
    EXPECT(strcmp(text, "[[3], [1, 4], [0, 2], [6], [5]]") == 0);
    sab_sampler_free(sampler);
    sab_plan_free(plan);
}

static void WorstFirst_BeginsWithTheCostliest(void) {
    sab_plan *plan = a_plan();
    for (uint64_t worst = 1; worst <= 100; worst *= 3) {
        sab_sampler_options options = SAB_SAMPLER_OPTIONS_INIT;
        options.worst_first = worst;
        sab_sampler *sampler = NULL;
        EXPECT_OK(sab_bucket_sampler_new(plan, &options, &sampler));
        sab_batch batch = SAB_BATCH_INIT;
        int seen[500] = {0};
        double least_of_first = INFINITY, most_of_rest = 0;
        for (uint64_t step = 0; sab_next_batch(sampler, &batch) == SAB_OK; ++step) {
            sab_bucket bucket = SAB_BUCKET_INIT;
            EXPECT_OK(sab_plan_get_bucket(plan, (size_t)batch.bucket, &bucket));
            const double may_cost = bucket.cost * (double)batch.count / (double)bucket.batch_size;
            if (step < worst)
                least_of_first = fmin(least_of_first, may_cost);
            else
                most_of_rest = fmax(most_of_rest, may_cost);
            for (uint64_t i = 0; i < batch.count; ++i) ++seen[batch.indices[i]];
        }
        EXPECT(least_of_first >= most_of_rest && all_are(seen, 500, 1));
        sab_sampler_free(sampler);
    }
    sab_plan_free(plan);
}

static void WorstBatches_AreNeverExceededInAnyEpoch(void) {
    for (sab_buckets buckets = SAB_BUCKETS_AUTO; buckets <= SAB_BUCKETS_RANK; ++buckets) {
        sab_plan *plan = plan_of(buckets, SAB_TAIL_KEEP);
        sab_sampler *worst = NULL, *all = NULL, *sampler = rank_of(plan, 0, 1);
        sab_batch first = SAB_BATCH_INIT, batch = SAB_BATCH_INIT;
        EXPECT_OK(sab_plan_worst_batches(plan, 1, &worst));
        EXPECT_OK(sab_next_batch(worst, &first));
        EXPECT(first.padded_total <= BUDGET);
        EXPECT(sab_next_batch(worst, &batch) == SAB_END);
        for (uint64_t epoch = 0; epoch < 20; ++epoch) {
            EXPECT_OK(sab_sampler_set_epoch(sampler, epoch));
            while (sab_next_batch(sampler, &batch) == SAB_OK)
                EXPECT(batch.padded_total <= first.padded_total);
        }
        uint64_t count = 0;
        sab_plan_info info = SAB_PLAN_INFO_INIT;
        EXPECT_OK(sab_plan_get_info(plan, &info));
        EXPECT_OK(sab_plan_worst_batches(plan, UINT64_MAX, &all)); /* how many at most */
        EXPECT_OK(sab_sampler_batch_count(all, &count));
        EXPECT(count == info.batches);
        int seen[SAMPLES] = {0};
        walk(all, seen);
        EXPECT(all_are(seen, SAMPLES, 1));
        sab_sampler_free(worst);
        sab_sampler_free(all);
        sab_sampler_free(sampler);
        sab_plan_free(plan);
    }
}

/* Size-aware */

static void SizeAware_GivesTheDocumentedBatches(void) {
    const int32_t twos[] = {2, 2, 2, 2, 2};
    sab_sizes *sizes = sizes_of(twos, 5);
    sab_sampler *sampler = NULL;
    char text[128];
    EXPECT_OK(sab_size_aware_sampler_new(NULL, 5, sizes, 4, NULL, &sampler));
    print_epoch(sampler, text);
    EXPECT(strcmp(text, "[[0, 1], [2, 3], [4]]") == 0);
    sab_sampler_free(sampler);
    sab_sizes_free(sizes);
}

static int32_t from_lengths(void *ctx, uint64_t epoch, uint64_t position, int64_t *index,
                            double *size) {
    const int64_t *order = ctx;
    if (position == SAMPLES) return SAB_END;
    *index = order[(position + epoch) % SAMPLES];
    *size = lengths(SAMPLES)[*index];
    return 0;
}

static void SizeAware_FollowsTheRuleWrittenOut(void) {
    sab_sizes *sizes = sizes_of(lengths(SAMPLES), SAMPLES);
    int64_t order[SAMPLES];
    for (int64_t i = 0; i < SAMPLES; ++i) order[i] = i * 177 % SAMPLES;
    for (int32_t most = 0; most <= 200; most += 25) {
        sab_sampler *sampler = NULL, *stream = NULL;
        EXPECT_OK(sab_size_aware_sampler_new(order, SAMPLES, sizes, most, NULL, &sampler));
        EXPECT_OK(sab_size_aware_stream_sampler_new(from_lengths, order, NULL, most, &stream));
        sab_batch batch = SAB_BATCH_INIT, streamed = SAB_BATCH_INIT;
        int64_t open[SAMPLES];
        uint64_t count = 0, skipped = 0, said = 1, said_by_stream = 1;
        int32_t total = 0;
        for (int i = 0; i <= SAMPLES; ++i) {
            const int32_t size = i < SAMPLES ? lengths(SAMPLES)[order[i]] : 0;
            if (i < SAMPLES && size > most) {
                ++skipped;
                continue;
            }
            /* the batch closes before it would exceed */
            if (count > 0 && (i == SAMPLES || total + size > most)) {
                EXPECT_OK(sab_next_batch(sampler, &batch));
                EXPECT_OK(sab_next_batch(stream, &streamed));
                EXPECT(batch.count == count && batch.total == total &&
                       memcmp(batch.indices, open, count * sizeof *open) == 0);
                EXPECT(streamed.count == count && streamed.total == total &&
                       memcmp(streamed.indices, open, count * sizeof *open) == 0);
                count = 0;
                total = 0;
            }
            if (i == SAMPLES) break;
            open[count++] = order[i];
            total += size;
        }
        EXPECT(sab_next_batch(sampler, &batch) == SAB_END &&
               sab_next_batch(stream, &streamed) == SAB_END);
        EXPECT_OK(sab_sampler_skipped_count(sampler, &said));
        EXPECT_OK(sab_sampler_skipped_count(stream, &said_by_stream));
        EXPECT(said == skipped && said_by_stream == skipped);
        sab_sampler_free(sampler);
        sab_sampler_free(stream);
    }
    sab_sizes_free(sizes);
}

static void Stream_BeginsAgainWithTheEpoch(void) {
    int64_t order[SAMPLES];
    for (int64_t i = 0; i < SAMPLES; ++i) order[i] = i;
    sab_sampler *stream = NULL;
    EXPECT_OK(sab_size_aware_stream_sampler_new(from_lengths, order, NULL, 500, &stream));
    sab_batch batch = SAB_BATCH_INIT;
    EXPECT_OK(sab_next_batch(stream, &batch));
    EXPECT(batch.indices[0] == 0 && batch.epoch == 0 && batch.step == 0);
    EXPECT_OK(sab_sampler_set_epoch(stream, 7));
    EXPECT_OK(sab_next_batch(stream, &batch));
    EXPECT(batch.indices[0] == 7 && batch.epoch == 7 && batch.step == 0 &&
           batch.step_samples == batch.count);
    uint64_t epoch = 0, step = 0;
    EXPECT_OK(sab_sampler_tell(stream, &epoch, &step));
    EXPECT(epoch == 7 && step == 1);
    EXPECT_OK(sab_sampler_seek(stream, 0));
    EXPECT_OK(sab_next_batch(stream, &batch));
    EXPECT(batch.indices[0] == 7);
    sab_sampler_free(stream);
}

/* Resume */

static void SavedAndRestored_GivesTheSameBytesAndBatches(void) {
    sab_sizes *sizes = sizes_of(lengths(SAMPLES), SAMPLES);
    sab_plan *plan = plan_of(SAB_BUCKETS_AUTO, SAB_TAIL_KEEP);
    for (enum order order = NATIVE; order < ORDERS; ++order)
        for (sab_last_step last_step = SAB_LAST_STEP_SPLIT; last_step <= SAB_LAST_STEP_WRAP;
             ++last_step) {
            sab_sampler_options options = ranks(1, 3);
            options.last_step = last_step;
            options.epoch = 2;
            sab_sampler *sampler = sampler_of(order, plan, sizes, &options), *other = NULL;
            uint64_t steps = 0;
            EXPECT_OK(sab_sampler_batch_count(sampler, &steps));
            for (uint64_t stop = 0; stop <= steps; ++stop) {
                unsigned char state[SAB_STATE_SIZE], again[SAB_STATE_SIZE];
                options.epoch = 9; /* the state says where, not the options */
                other = sampler_of(order, plan, sizes, &options);
                EXPECT_OK(sab_sampler_seek(sampler, stop));
                EXPECT_OK(sab_sampler_state_save(sampler, state));
                EXPECT_OK(sab_sampler_state_restore(other, state, sizeof state));
                EXPECT_OK(sab_sampler_state_save(other, again));
                EXPECT(memcmp(state, again, sizeof state) == 0);
                sab_batch batch = SAB_BATCH_INIT, same = SAB_BATCH_INIT;
                sab_status status;
                while ((status = sab_next_batch(sampler, &batch)) == SAB_OK) {
                    EXPECT_OK(sab_next_batch(other, &same));
                    EXPECT(batch.count == same.count &&
                           (batch.count == 0 ||
                            memcmp(batch.indices, same.indices, batch.count * 8) == 0));
                    EXPECT(batch.epoch == 2 && same.epoch == 2 && batch.step == same.step);
                }
                EXPECT(status == SAB_END && sab_next_batch(other, &same) == SAB_END);
                sab_sampler_free(other);
            }
            sab_sampler_free(sampler);
        }
    sab_plan_free(plan);
    sab_sizes_free(sizes);
}

static void ThreeResumes_OnOtherNumbersOfRanks_LoseNothing(void) {
    sab_sizes *sizes = sizes_of(lengths(SAMPLES), SAMPLES);
    sab_plan *plan = plan_of(SAB_BUCKETS_AUTO, SAB_TAIL_KEEP);
    for (enum order order = NATIVE; order < ORDERS; ++order)
        for (uint64_t round = 0; round < 30; ++round) {
            const uint64_t worlds[] = {1 + round % 7, 1 + round / 2 % 5, 1 + (round + 3) % 6,
                                       1 + round / 5};
            unsigned char state[SAB_STATE_SIZE], saved[SAB_STATE_SIZE];
            int seen[SAMPLES] = {0};
            uint64_t step_before = 0;
            for (size_t leg = 0; leg < COUNT(worlds); ++leg) {
                uint64_t step = 0, epoch = 0;
                for (uint64_t rank = 0; rank < worlds[leg]; ++rank) {
                    const sab_sampler_options options = ranks(rank, worlds[leg]);
                    sab_sampler *sampler = sampler_of(order, plan, sizes, &options);
                    if (leg > 0) EXPECT_OK(sab_sampler_state_restore(sampler, state, sizeof state));
                    EXPECT_OK(sab_sampler_tell(sampler, &epoch, &step));
                    EXPECT(epoch == 0 && step == step_before);
                    sab_batch batch = SAB_BATCH_INIT;
                    const uint64_t most = leg + 1 == COUNT(worlds) ? UINT64_MAX : round % 4;
                    for (uint64_t i = 0; i < most && sab_next_batch(sampler, &batch) == SAB_OK;
                         ++i) {
                        EXPECT(batch.step == step_before + i);
                        for (uint64_t k = 0; k < batch.count; ++k) ++seen[batch.indices[k]];
                    }
                    EXPECT_OK(sab_sampler_state_save(sampler, saved));
                    EXPECT_OK(sab_sampler_tell(sampler, &epoch, &step));
                    sab_sampler_free(sampler);
                }
                memcpy(state, saved, sizeof state);
                step_before = step;
            }
            EXPECT(all_are(seen, SAMPLES, 1));
        }
    sab_plan_free(plan);
    sab_sizes_free(sizes);
}

static void AfterAResumeOnOtherRanks_EarlierStepsAreRefused(void) {
    sab_plan *plan = a_plan();
    sab_sampler *two = rank_of(plan, 0, 2), *three = rank_of(plan, 1, 3);
    unsigned char state[SAB_STATE_SIZE];
    sab_batch batch = SAB_BATCH_INIT;
    EXPECT_OK(sab_sampler_seek(two, 4));
    EXPECT_OK(sab_sampler_state_save(two, state));
    EXPECT_OK(sab_sampler_state_restore(three, state, sizeof state));
    EXPECT_FAILS(sab_sampler_at(three, 3, &batch), SAB_E_ARGUMENT,
                 "position = 3: must not be before step 4");
    EXPECT_FAILS(sab_sampler_seek(three, 3), SAB_E_ARGUMENT,
                 "position = 3: must not be before step 4");
    EXPECT_OK(sab_sampler_at(three, 4, &batch));
    EXPECT_OK(sab_sampler_set_epoch(three, 0)); /* a whole epoch of its own again */
    EXPECT_OK(sab_sampler_at(three, 3, &batch));
    sab_sampler_free(two);
    sab_sampler_free(three);
    sab_plan_free(plan);
}

static void State_OfAnotherSampler_IsRefusedAndChangesNothing(void) {
    sab_sizes *sizes = sizes_of(lengths(SAMPLES), SAMPLES);
    sab_plan *plan = plan_of(SAB_BUCKETS_AUTO, SAB_TAIL_KEEP);
    sab_sampler_options options = ranks(0, 2);
    sab_sampler *sampler = sampler_of(NATIVE, plan, sizes, &options), *other = NULL;
    unsigned char state[SAB_STATE_SIZE], after[SAB_STATE_SIZE], longer[SAB_STATE_SIZE + 1] = {0};
    EXPECT_OK(sab_sampler_seek(sampler, 3));
    EXPECT_OK(sab_sampler_state_save(sampler, state));
    const struct {
        sab_last_step last_step;
        uint64_t seed, worst_first;
        const char *words;
    } others[] = {{SAB_LAST_STEP_DROP, 0, 0, "last_step 1, this sampler has 0"},
                  {SAB_LAST_STEP_SPLIT, 5, 0, "seed 5, this sampler has 0"},
                  {SAB_LAST_STEP_SPLIT, 0, 4, "worst_first 4, this sampler has 0"}};
    for (size_t i = 0; i < COUNT(others); ++i) {
        options = ranks(1, 4);
        options.last_step = others[i].last_step;
        options.seed = others[i].seed;
        options.worst_first = others[i].worst_first;
        other = sampler_of(NATIVE, plan, sizes, &options);
        unsigned char foreign[SAB_STATE_SIZE];
        EXPECT_OK(sab_sampler_state_save(other, foreign));
        EXPECT_FAILS(sab_sampler_state_restore(sampler, foreign, sizeof foreign), SAB_E_MISMATCH,
                     others[i].words);
        sab_sampler_free(other);
    }
    memcpy(longer, state, sizeof state);
    EXPECT_FAILS(sab_sampler_state_restore(sampler, longer, sizeof longer), SAB_E_FORMAT,
                 "has 137 bytes, must have 136");
    longer[4] = 2;
    EXPECT_FAILS(sab_sampler_state_restore(sampler, longer, SAB_STATE_SIZE), SAB_E_FORMAT,
                 "has version 2, this library reads 1");
    sab_sampler *worst = NULL;
    EXPECT_OK(sab_plan_worst_batches(plan, 2, &worst));
    EXPECT_FAILS(sab_sampler_state_restore(worst, state, sizeof state), SAB_E_MISMATCH,
                 "order 1, this sampler has 4");
    sab_sampler_free(worst);
    EXPECT_OK(sab_size_aware_sampler_new(NULL, SAMPLES, sizes, 200, NULL, &other));
    sab_sampler *more = NULL;
    EXPECT_OK(sab_size_aware_sampler_new(NULL, SAMPLES, sizes, 201, NULL, &more));
    unsigned char of_size_aware[SAB_STATE_SIZE];
    EXPECT_OK(sab_sampler_state_save(other, of_size_aware));
    EXPECT_FAILS(sab_sampler_state_restore(more, of_size_aware, SAB_STATE_SIZE), SAB_E_MISMATCH,
                 "fingerprint");
    sab_sampler_free(other);
    sab_sampler_free(more);
    EXPECT_OK(sab_sampler_state_save(sampler, after)); /* it stands where it stood */
    EXPECT(memcmp(state, after, sizeof state) == 0);
    sab_sampler_free(sampler);
    sab_plan_free(plan);
    sab_sizes_free(sizes);
}

int main(void) {
    RUN(EveryPlanAndOrder_KeepsCoverageStepsAndBudget);
    RUN(StepTotals_AreTheTrueSumsUnderEveryPolicy);
    RUN(MoreRanksThanSamples_GiveEmptyBatches);
    RUN(RanksOfOneStep_CostNearlyTheSame);
    RUN(Order_DependsOnSeedAndEpochAlone);
    RUN(Sequential_GoesUpBySizeThenIndex);
    RUN(WorstFirst_BeginsWithTheCostliest);
    RUN(WorstBatches_AreNeverExceededInAnyEpoch);
    RUN(SizeAware_GivesTheDocumentedBatches);
    RUN(SizeAware_FollowsTheRuleWrittenOut);
    RUN(Stream_BeginsAgainWithTheEpoch);
    RUN(SavedAndRestored_GivesTheSameBytesAndBatches);
    RUN(ThreeResumes_OnOtherNumbersOfRanks_LoseNothing);
    RUN(AfterAResumeOnOtherRanks_EarlierStepsAreRefused);
    RUN(State_OfAnotherSampler_IsRefusedAndChangesNothing);
    return finish();
}
