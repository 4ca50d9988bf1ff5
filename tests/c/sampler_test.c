/* Batches of a plan: coverage, ranks, seeking, states. */
#define _GNU_SOURCE
#include <math.h>
#include <pthread.h>
#include <stdlib.h>

#include "helpers.h"
#include "one.h"

#define SAMPLES 400
#define BUDGET 300

enum order { NATIVE, SEQUENTIAL, SIZE_AWARE, ORDERS };

static sab_sampler *sampler_of(enum order order, const sab_plan *plan, const sab_sizes *sizes,
                               const sab_sampler_options *options) {
    sab_sampler *sampler = NULL;
    EXPECT_OK(order == NATIVE ? sab_bucket_sampler_new(plan, options, &sampler)
              : order == SEQUENTIAL
                  ? sab_sequential_sampler_new(plan, options, &sampler)
                  : sab_ordered_sampler_new(NULL, SAMPLES, sizes, BUDGET, options, &sampler));
    return sampler;
}

/* A plan of each way to cut, over lengths(SAMPLES). */
static sab_plan *plan_of(sab_bucket_rule buckets, sab_tail tail) {
    static const double boundaries[] = {0, 8, 20, 50, 100};
    sab_plan_options options = budget(BUDGET);
    options.bucket_rule = buckets;
    options.tail = tail;
    if (buckets == SAB_BUCKETS_BOUNDARIES) {
        options.boundaries = boundaries;
        options.boundary_count = 5;
    }
    options.bucket_count = buckets == SAB_BUCKETS_OPTIMAL ? 5 : 0;
    return plan_with(lengths(SAMPLES), SAMPLES, &options);
}

static void EveryPlanAndOrder_KeepsCoverageStepsAndBudget(void) {
    sab_sizes *sizes = sizes_of(lengths(SAMPLES), SAMPLES);
    for (sab_bucket_rule buckets = SAB_BUCKETS_AUTO; buckets <= SAB_BUCKETS_OPTIMAL; ++buckets)
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
                            EXPECT_OK(sab_sampler_get_batch_count(sampler, &count));
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
                                EXPECT(*batch.total == total && *batch.longest == longest &&
                                       batch.step == walked);
                                EXPECT((order == SIZE_AWARE ? *batch.total
                                                            : padded_total(&batch)) <= BUDGET);
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
                        EXPECT_OK(sab_sampler_get_batch_count(alone, &batches));
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
                if (last_step == SAB_LAST_STEP_DROP && worlds[w] > 7) continue; /* none is left */
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
                        totals[steps] += *batch.total;
                        const sab_step step = step_of(sampler);
                        EXPECT(step.micro_batches == 1);
                        EXPECT(rank == 0 ||
                               (step.samples == said[steps] && *step.totals == said_total[steps]));
                        said[steps] = step.samples;
                        said_total[steps] = *step.totals;
                    }
                    sab_sampler_free(sampler);
                }
                for (uint64_t step = 0; step < steps; ++step)
                    EXPECT(samples[step] == said[step] && totals[step] == said_total[step]);
            }
    sab_plan_free(plan);
    sab_sizes_free(sizes);
}

static void DropOfAllBatches_IsRefused(void) {
    const int32_t numbers[] = {4, 5, 6, 7};
    sab_plan_options options = budget(20);
    options.max_batch_size = 1;
    sab_plan *plan = plan_with(numbers, 4, &options);
    sab_sizes *sizes = sizes_of(numbers, 4);
    sab_packed_options pack = SAB_PACKED_OPTIONS_INIT;
    pack.capacities = one_count(7), pack.capacity_count = 1;
    const uint64_t shapes[][2] = {{5, 1}, {1, 5}, {3, 2}, {4, 1}, {2, 2}};
    for (size_t i = 0; i < COUNT(shapes); ++i) {
        sab_sampler_options walk = ranks(0, shapes[i][0]);
        walk.micro_batches = shapes[i][1];
        walk.last_step = SAB_LAST_STEP_DROP;
        sab_sampler *made[3] = {NULL};
        const sab_status statuses[] = {
            sab_bucket_sampler_new(plan, &walk, &made[0]),
            sab_sequential_sampler_new(plan, &walk, &made[1]),
            sab_packed_sampler_new(sizes, &pack, &walk, &made[2]),
        };
        const int is_refused = shapes[i][0] * shapes[i][1] > 4;
        for (size_t k = 0; k < COUNT(statuses); ++k)
            EXPECT(statuses[k] == (is_refused ? SAB_E_ARGUMENT : SAB_OK));
        EXPECT(!is_refused || leaves_nothing(statuses[2])); /* the last message */
        for (size_t k = 0; k < COUNT(made); ++k) sab_sampler_free(made[k]);
    }
    sab_balanced_options balanced = SAB_BALANCED_OPTIONS_INIT;
    balanced.samples = 5;
    sab_sampler_options alone = ranks(0, 1);
    alone.last_step = SAB_LAST_STEP_DROP;
    sab_sampler *sampler = NULL;
    EXPECT(leaves_nothing(sab_balanced_sampler_new(sizes, &balanced, &alone, &sampler)));
    sab_plan_report report = SAB_PLAN_REPORT_INIT;
    alone.world_size = 5;
    EXPECT_FAILS(sab_plan_get_report(plan, &alone, NULL, &report), SAB_E_ARGUMENT,
                 "sampler.last_step = SAB_LAST_STEP_DROP: must leave");
    sab_sizes_free(sizes);
    sab_plan_free(plan);
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
        const sab_step step = step_of(sampler);
        EXPECT(batch.count <= 1 && step.samples == 3 && *step.totals == 15);
        EXPECT(batch.count > 0 ||
               (*batch.total == 0 && padded_total(&batch) == 0 && batch.bucket == -1));
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
    while (sab_next_batch(sampler, &batch) == SAB_OK) costs[batches++] = padded_total(&batch);
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
            options.budget_count = 0, options.budgets = NULL;
            options.batch_sizes = &eight;
            options.batch_size_count = 1;
        }
        sab_plan *plan = plan_with(lengths(2000), 2000, &options);
        for (uint64_t world_size = 2; world_size <= 16; world_size *= 2) {
            const double least = least_imbalance(plan, world_size);
            sab_sampler_options walk_options = ranks(0, world_size);
            walk_options.last_step = SAB_LAST_STEP_DROP; /* whole batches only */
            sab_plan_report report = SAB_PLAN_REPORT_INIT;
            EXPECT_OK(sab_plan_get_report(plan, &walk_options, NULL, &report));
            EXPECT(report.rank_imbalance >= 1 && report.rank_imbalance < 1.08 * least);
            walk_options.last_step = SAB_LAST_STEP_SPLIT;
            EXPECT_OK(sab_plan_get_report(plan, &walk_options, NULL, &report));
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
    EXPECT_FAILS(sab_sequential_sampler_new(plan, &options, &twin), SAB_E_ARGUMENT,
                 "options.seed = 1: must be 0: this order is not shuffled");
    sab_sampler_free(sampler);
    sab_plan_free(plan);
    sab_plan_free(equal);
}

static void Sequential_GoesUpBySizeThenIndex(void) {
    const int32_t numbers[] = {5, 3, 5, 1, 3, 9, 5};
    sab_plan_options options = budget(10);
    options.bucket_rule = SAB_BUCKETS_OPTIMAL;
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

static void CostliestFirst_BeginsWithTheCostliest(void) {
    sab_plan *plan = a_plan();
    for (uint64_t costliest = 1; costliest <= 100; costliest *= 3) {
        sab_sampler_options options = SAB_SAMPLER_OPTIONS_INIT;
        options.costliest_first = costliest;
        sab_sampler *sampler = NULL;
        EXPECT_OK(sab_bucket_sampler_new(plan, &options, &sampler));
        sab_batch batch = SAB_BATCH_INIT;
        int seen[500] = {0};
        double least_of_first = INFINITY, most_of_rest = 0;
        for (uint64_t step = 0; sab_next_batch(sampler, &batch) == SAB_OK; ++step) {
            sab_bucket bucket = SAB_BUCKET_INIT;
            EXPECT_OK(sab_plan_get_bucket(plan, (size_t)batch.bucket, &bucket));
            const double may_cost = bucket.cost * (double)batch.count / (double)bucket.batch_size;
            if (step < costliest)
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

static void CostliestFirst_OfMoreThanAllBatches_OrdersAllOfThem(void) {
    sab_plan *plan = a_plan();
    const uint64_t numbers[] = {1000, UINT64_MAX};
    for (uint64_t world_size = 1; world_size <= 3; ++world_size) {
        char epochs[2][8192];
        for (int i = 0; i < 2; ++i) {
            sab_sampler_options options = ranks(0, world_size);
            options.costliest_first = numbers[i];
            sab_sampler *sampler = NULL;
            EXPECT_OK(sab_bucket_sampler_new(plan, &options, &sampler));
            print_epoch(sampler, epochs[i]);
            sab_sampler_free(sampler);
        }
        EXPECT(strcmp(epochs[0], epochs[1]) == 0);
    }
    sab_plan_free(plan);
}

static void CostliestBatches_AreNeverExceededInAnyEpoch(void) {
    for (sab_bucket_rule buckets = SAB_BUCKETS_AUTO; buckets <= SAB_BUCKETS_OPTIMAL; ++buckets) {
        sab_plan *plan = plan_of(buckets, SAB_TAIL_KEEP);
        sab_sampler *costliest = NULL, *all = NULL, *sampler = rank_of(plan, 0, 1);
        sab_batch first = SAB_BATCH_INIT, batch = SAB_BATCH_INIT;
        EXPECT_OK(sab_costliest_sampler_new(plan, 1, &costliest));
        EXPECT_OK(sab_next_batch(costliest, &first));
        EXPECT(padded_total(&first) <= BUDGET);
        EXPECT(sab_next_batch(costliest, &batch) == SAB_END);
        for (uint64_t epoch = 0; epoch < 20; ++epoch) {
            EXPECT_OK(sab_sampler_set_epoch(sampler, epoch));
            while (sab_next_batch(sampler, &batch) == SAB_OK)
                EXPECT(padded_total(&batch) <= padded_total(&first));
        }
        uint64_t count = 0;
        sab_plan_info info = SAB_PLAN_INFO_INIT;
        EXPECT_OK(sab_plan_get_info(plan, &info));
        EXPECT_OK(sab_costliest_sampler_new(plan, UINT64_MAX, &all)); /* how many at most */
        EXPECT_OK(sab_sampler_get_batch_count(all, &count));
        EXPECT(count == info.batches);
        sab_sampler *none = NULL;
        EXPECT_FAILS(sab_costliest_sampler_new(plan, 0, &none), SAB_E_ARGUMENT, "count = 0");
        int seen[SAMPLES] = {0};
        walk(all, seen);
        EXPECT(all_are(seen, SAMPLES, 1));
        sab_sampler_free(costliest);
        sab_sampler_free(all);
        sab_sampler_free(sampler);
        sab_plan_free(plan);
    }
}

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
            EXPECT_OK(sab_sampler_get_batch_count(sampler, &steps));
            for (uint64_t stop = 0; stop <= steps; ++stop) {
                struct state state, again;
                options.epoch = 9; /* the state says where, not the options */
                other = sampler_of(order, plan, sizes, &options);
                EXPECT_OK(sab_sampler_seek(sampler, stop));
                EXPECT_OK(save_state(sampler, &state));
                EXPECT_OK(restore_state(other, &state));
                EXPECT_OK(save_state(other, &again));
                EXPECT(memcmp(&state, &again, sizeof state) == 0);
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
            struct state state, saved;
            int seen[SAMPLES] = {0};
            uint64_t step_before = 0;
            for (size_t leg = 0; leg < COUNT(worlds); ++leg) {
                uint64_t step = 0, epoch = 0;
                for (uint64_t rank = 0; rank < worlds[leg]; ++rank) {
                    const sab_sampler_options options = ranks(rank, worlds[leg]);
                    sab_sampler *sampler = sampler_of(order, plan, sizes, &options);
                    if (leg > 0) EXPECT_OK(restore_state(sampler, &state));
                    EXPECT_OK(sab_sampler_tell(sampler, &epoch, &step));
                    EXPECT(epoch == 0 && step == step_before);
                    sab_batch batch = SAB_BATCH_INIT;
                    const uint64_t most = leg + 1 == COUNT(worlds) ? UINT64_MAX : round % 4;
                    for (uint64_t i = 0; i < most && sab_next_batch(sampler, &batch) == SAB_OK;
                         ++i) {
                        EXPECT(batch.step == step_before + i);
                        for (uint64_t k = 0; k < batch.count; ++k) ++seen[batch.indices[k]];
                    }
                    EXPECT_OK(save_state(sampler, &saved));
                    EXPECT_OK(sab_sampler_tell(sampler, &epoch, &step));
                    sab_sampler_free(sampler);
                }
                state = saved;
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
    struct state state;
    sab_batch batch = SAB_BATCH_INIT;
    EXPECT_OK(sab_sampler_seek(two, 4));
    EXPECT_OK(save_state(two, &state));
    EXPECT_OK(restore_state(three, &state));
    EXPECT_FAILS(sab_sampler_at(three, 3, &batch), SAB_E_ARGUMENT,
                 "position = 3: must not be before position 4");
    EXPECT_FAILS(sab_sampler_seek(three, 3), SAB_E_ARGUMENT,
                 "position = 3: must not be before position 4");
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
    struct state state, after;
    EXPECT_OK(sab_sampler_seek(sampler, 3));
    EXPECT_OK(save_state(sampler, &state));
    const struct {
        sab_last_step last_step;
        uint64_t seed, costliest_first;
        const char *words;
    } others[] = {{SAB_LAST_STEP_DROP, 0, 0,
                   "last_step SAB_LAST_STEP_DROP (1), this sampler has SAB_LAST_STEP_SPLIT (0)"},
                  {SAB_LAST_STEP_SPLIT, 5, 0, "seed 5, this sampler has 0"},
                  {SAB_LAST_STEP_SPLIT, 0, 4, "costliest_first 4, this sampler has 0"}};
    for (size_t i = 0; i < COUNT(others); ++i) {
        options = ranks(1, 4);
        options.last_step = others[i].last_step;
        options.seed = others[i].seed;
        options.costliest_first = others[i].costliest_first;
        other = sampler_of(NATIVE, plan, sizes, &options);
        struct state foreign;
        EXPECT_OK(save_state(other, &foreign));
        EXPECT_FAILS(restore_state(sampler, &foreign), SAB_E_MISMATCH, others[i].words);
        sab_sampler_free(other);
    }
    struct state changed = state;
    ++changed.size;
    EXPECT_FAILS(restore_state(sampler, &changed), SAB_E_FORMAT, "has 209 bytes, must have 208");
    changed = state;
    changed.bytes[4] = 4;
    EXPECT_FAILS(restore_state(sampler, &changed), SAB_E_FORMAT,
                 "has version 4, this library reads 6");
    changed.bytes[4] = 0, changed.bytes[7] = 6;
    EXPECT_FAILS(restore_state(sampler, &changed), SAB_E_FORMAT, "another byte order");
    sab_sampler *costliest = NULL;
    EXPECT_OK(sab_costliest_sampler_new(plan, 2, &costliest));
    EXPECT_FAILS(restore_state(costliest, &state), SAB_E_MISMATCH,
                 "saved by another kind of sampler");
    sab_sampler_free(costliest);
    EXPECT_OK(sab_ordered_sampler_new(NULL, SAMPLES, sizes, 200, NULL, &other));
    sab_sampler *more = NULL;
    EXPECT_OK(sab_ordered_sampler_new(NULL, SAMPLES, sizes, 201, NULL, &more));
    struct state of_size_aware;
    EXPECT_OK(save_state(other, &of_size_aware));
    EXPECT_FAILS(restore_state(more, &of_size_aware), SAB_E_MISMATCH, "fingerprint");
    sab_sampler_free(other);
    sab_sampler_free(more);
    EXPECT_OK(save_state(sampler, &after)); /* it stands where it stood */
    EXPECT(memcmp(&state, &after, sizeof state) == 0);
    sab_sampler_free(sampler);
    sab_plan_free(plan);
    sab_sizes_free(sizes);
}

static void SizesPlanSampler_GiveEverySampleOnce(void) {
    const int32_t tokens[] = {12, 7, 30, 8, 9, 31, 7, 12, 29, 8};
    sab_sizes *sizes = NULL;
    EXPECT_OK(sab_sizes_new(tokens, 10, SAB_INT32, NULL, &sizes));
    sab_plan_options options = SAB_PLAN_OPTIONS_INIT;
    SET_BUDGET(options, 64); /* padded tokens a batch */
    sab_plan *plan = NULL;
    EXPECT_OK(sab_plan_new(sizes, &options, &plan));
    sab_sampler *sampler = NULL;
    EXPECT_OK(sab_bucket_sampler_new(plan, NULL, &sampler));
    sab_sizes_free(sizes); /* handles may go in any order */
    sab_plan_free(plan);

    int seen[10] = {0};
    sab_batch batch = SAB_BATCH_INIT;
    while (sab_next_batch(sampler, &batch) == SAB_OK) {
        double total = 0, longest = 0;
        for (uint64_t i = 0; i < batch.count; ++i) {
            ++seen[batch.indices[i]];
            total += tokens[batch.indices[i]];
            longest = fmax(longest, tokens[batch.indices[i]]);
        }
        EXPECT(*batch.total == total && *batch.longest == longest);
        EXPECT(padded_total(&batch) == (double)batch.count * longest && padded_total(&batch) <= 64);
        const sab_step step = step_of(sampler);
        EXPECT(step.samples == batch.count && *step.totals == *batch.total);
    }
    EXPECT(all_are(seen, 10, 1));
    sab_sampler_free(sampler);
}

static void NextBatch_AfterEnd_ReturnsEndAgain(void) {
    sab_plan *plan = a_plan();
    sab_sampler *sampler = rank_of(plan, 0, 1);
    int seen[500] = {0};
    walk(sampler, seen);
    sab_batch batch = SAB_BATCH_INIT, untouched = SAB_BATCH_INIT;
    for (int i = 0; i < 3; ++i) EXPECT(sab_next_batch(sampler, &batch) == SAB_END);
    EXPECT(memcmp(&batch, &untouched, sizeof batch) == 0);
    EXPECT_OK(sab_sampler_set_epoch(sampler, 1));
    EXPECT(sab_next_batch(sampler, &batch) == SAB_OK);
    sab_sampler_free(sampler);
    sab_plan_free(plan);
}

static void Tail_EachPolicy_DoesWhatItSays(void) {
    int32_t fives[10];
    for (int i = 0; i < 10; ++i) fives[i] = 5;
    const double boundaries[] = {5, 6};
    for (sab_tail tail = SAB_TAIL_KEEP; tail <= SAB_TAIL_WRAP; ++tail) {
        sab_plan_options options = budget(20); /* batches of 4: 4 + 4 + 2 */
        options.bucket_rule = SAB_BUCKETS_BOUNDARIES;
        options.boundaries = boundaries;
        options.boundary_count = 2;
        options.tail = tail;
        sab_plan *plan = plan_with(fives, 10, &options);
        sab_sampler *sampler = rank_of(plan, 0, 1);
        int seen[10] = {0}, sum = 0;
        const uint64_t steps = walk(sampler, seen);
        for (int i = 0; i < 10; ++i) sum += seen[i];
        EXPECT(steps == (tail == SAB_TAIL_DROP ? 2u : 3u));
        EXPECT(sum == (tail == SAB_TAIL_DROP ? 8 : tail == SAB_TAIL_WRAP ? 12 : 10));
        sab_sampler_free(sampler);
        sab_plan_free(plan);
    }
}

static void TailWrap_InABucketSmallerThanABatch_ShowsEachSampleOnce(void) {
    const int32_t numbers[] = {1, 2, 3};
    const uint64_t huge = UINT64_C(1) << 40;
    const double boundaries[] = {0, 9};
    sab_plan_options options = SAB_PLAN_OPTIONS_INIT;
    options.bucket_rule = SAB_BUCKETS_BOUNDARIES;
    options.boundaries = boundaries;
    options.boundary_count = 2;
    options.batch_sizes = &huge;
    options.batch_size_count = 1;
    options.tail = SAB_TAIL_WRAP;
    sab_plan *plan = plan_with(numbers, 3, &options);
    sab_sampler *sampler = rank_of(plan, 0, 1);
    int seen[3] = {0};
    EXPECT(walk(sampler, seen) == 1 && all_are(seen, 3, 1));
    sab_sampler_free(sampler);
    sab_plan_free(plan);
}

static void AtSeekAndBlocks_ShowWhatNextShows(void) {
    sab_plan *plan = a_plan();
    sab_sampler *sampler = rank_of(plan, 1, 3), *other = rank_of(plan, 1, 3);
    uint64_t steps = 0, epoch = 9, place = 9;
    EXPECT_OK(sab_sampler_get_batch_count(sampler, &steps));
    sab_batch batch = SAB_BATCH_INIT, shown = SAB_BATCH_INIT;
    sab_block block = SAB_BLOCK_INIT;
    int64_t indices[500];
    uint64_t offsets[8];
    size_t count = 0, in_block = 0;
    for (uint64_t step = 0; step < steps; ++step) {
        EXPECT_OK(sab_next_batch(sampler, &batch));
        EXPECT(batch.step == step && batch.epoch == 0);
        EXPECT_OK(sab_sampler_at(other, step, &shown));
        EXPECT(batch.count == shown.count &&
               memcmp(batch.indices, shown.indices, batch.count * 8) == 0);
        EXPECT_OK(sab_sampler_seek(other, step));
        EXPECT_OK(sab_next_batch(other, &shown));
        EXPECT(batch.count == shown.count &&
               memcmp(batch.indices, shown.indices, batch.count * 8) == 0);
        if (in_block == count) {
            EXPECT_OK(sab_sampler_seek(other, step));
            EXPECT_OK(sab_next_block(other, 7, &block));
            in_block = 0;
            count = block.count;
            EXPECT(count < COUNT(offsets) && block.offsets[count] <= COUNT(indices));
            memcpy(offsets, block.offsets, (count + 1) * sizeof *offsets);
            memcpy(indices, block.indices, offsets[count] * sizeof *indices);
        }
        EXPECT(offsets[in_block + 1] - offsets[in_block] == batch.count);
        EXPECT(memcmp(indices + offsets[in_block], batch.indices, batch.count * 8) == 0);
        ++in_block;
    }
    EXPECT_OK(sab_sampler_tell(sampler, &epoch, &place));
    EXPECT(epoch == 0 && place == steps);
    EXPECT_FAILS(sab_sampler_at(sampler, steps, &batch), SAB_E_ARGUMENT, "position");
    EXPECT_FAILS(sab_sampler_seek(sampler, steps + 1), SAB_E_ARGUMENT, "position");
    EXPECT_OK(sab_sampler_seek(sampler, steps));
    EXPECT(sab_next_batch(sampler, &batch) == SAB_END);
    EXPECT(sab_next_block(sampler, 7, &block) == SAB_END);
    sab_sampler_free(sampler);
    sab_sampler_free(other);
    sab_plan_free(plan);
}

static void Resume_AtEveryStepOnAnyRanks_LosesNothing(void) {
    sab_plan_options options = budget(150);
    sab_plan *plan = plan_with(lengths(120), 120, &options);
    for (uint64_t before = 1; before <= 6; ++before) {
        sab_sampler *counter = rank_of(plan, 0, before);
        uint64_t steps = 0;
        EXPECT_OK(sab_sampler_get_batch_count(counter, &steps));
        sab_sampler_free(counter);
        for (uint64_t stop = 0; stop <= steps; ++stop)
            for (uint64_t after = 1; after <= 6; ++after) {
                int seen[120] = {0};
                struct state state, same;
                sab_batch batch = SAB_BATCH_INIT;
                for (uint64_t rank = 0; rank < before; ++rank) {
                    sab_sampler *sampler = rank_of(plan, rank, before);
                    for (uint64_t step = 0; step < stop; ++step) {
                        EXPECT_OK(sab_next_batch(sampler, &batch));
                        for (uint64_t i = 0; i < batch.count; ++i) ++seen[batch.indices[i]];
                    }
                    EXPECT_OK(save_state(sampler, rank == 0 ? &state : &same));
                    EXPECT(rank == 0 || memcmp(&state, &same, sizeof state) == 0);
                    sab_sampler_free(sampler);
                }
                uint64_t walked = 0;
                for (uint64_t rank = 0; rank < after; ++rank) {
                    sab_sampler *sampler = rank_of(plan, rank, after);
                    EXPECT_OK(restore_state(sampler, &state));
                    const uint64_t rest = walk(sampler, seen);
                    EXPECT(rank == 0 || rest == walked);
                    walked = rest;
                    sab_sampler_free(sampler);
                }
                EXPECT(all_are(seen, 120, 1));
            }
    }
    sab_plan_free(plan);
}

static void State_DamagedOrForeign_IsRefused(void) {
    sab_plan *plan = a_plan();
    sab_sampler *sampler = rank_of(plan, 0, 1), *sequential = NULL;
    struct state state, damaged;
    EXPECT_OK(save_state(sampler, &state));
    for (size_t size = 0; size < state.size; ++size)
        EXPECT(sab_sampler_state_restore(sampler, state.bytes, size) == SAB_E_FORMAT);
    for (size_t bit = 0; bit < 8 * state.size; ++bit) {
        damaged = state;
        damaged.bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
        EXPECT(restore_state(sampler, &damaged) == SAB_E_FORMAT);
    }
    EXPECT_OK(sab_sequential_sampler_new(plan, NULL, &sequential));
    EXPECT_FAILS(restore_state(sequential, &state), SAB_E_MISMATCH,
                 "saved by another kind of sampler");
    sab_plan_options changed = budget(301);
    sab_plan *foreign = plan_with(lengths(500), 500, &changed);
    sab_sampler *other = rank_of(foreign, 0, 1);
    EXPECT_FAILS(restore_state(other, &state), SAB_E_MISMATCH, "fingerprint");
    EXPECT_FAILS(sab_sampler_state_restore(other, NULL, 3), SAB_E_ARGUMENT, "state = NULL");
    size_t size = 0;
    EXPECT_FAILS(sab_sampler_state_save(other, NULL, 1, &size), SAB_E_ARGUMENT, "state = NULL");
    EXPECT_FAILS(sab_sampler_state_save(other, NULL, 0, NULL), SAB_E_ARGUMENT, "size = NULL");
    sab_sampler_free(other);
    sab_sampler_free(sampler);
    sab_sampler_free(sequential);
    sab_plan_free(foreign);
    sab_plan_free(plan);
}

static void SamplerOptions_BadOnes_AreNamed(void) {
    sab_plan *plan = a_plan();
    sab_sampler *sampler = NULL;
    sab_sampler_options options;
#define SAMPLER_REFUSED(words, ...)                                                                \
    do {                                                                                           \
        options = (sab_sampler_options)SAB_SAMPLER_OPTIONS_INIT;                                   \
        __VA_ARGS__;                                                                               \
        EXPECT_FAILS(sab_bucket_sampler_new(plan, &options, &sampler), SAB_E_ARGUMENT, words);     \
        EXPECT_FAILS(sab_sequential_sampler_new(plan, &options, &sampler), SAB_E_ARGUMENT, words); \
    } while (0)
    SAMPLER_REFUSED("rank = 1", options.rank = 1);
    SAMPLER_REFUSED("world_size = 4294967296", options.world_size = UINT64_C(1) << 32);
    SAMPLER_REFUSED("last_step = 3", options.last_step = 3);
    SAMPLER_REFUSED("micro_batches = 1048577: must be at most 1048576",
                    options.micro_batches = (1 << 20) + 1);
    SAMPLER_REFUSED("struct_size = 1", options.struct_size = 1);
    SAMPLER_REFUSED("mix_lengths = 2: must be 0 or 1", options.mix_lengths = 2);
    sab_cost *cost = NULL;
    EXPECT_OK(sab_cost_padded_new(NULL, 1, &cost));
    const sab_cost *const both[] = {cost, cost};
    options = (sab_sampler_options)SAB_SAMPLER_OPTIONS_INIT;
    options.balance = both;
    options.balance_count = 2;
    EXPECT_FAILS(sab_bucket_sampler_new(plan, &options, &sampler), SAB_E_ARGUMENT,
                 "options.balance_count = 2: must be at most 1");
    options.balance_count = 1;
    EXPECT_FAILS(sab_sequential_sampler_new(plan, &options, &sampler), SAB_E_ARGUMENT,
                 "options.balance_count = 1: must be 0: only the bucket order has this option");
    options.balance_count = 0;
    EXPECT_FAILS(sab_sequential_sampler_new(plan, &options, &sampler), SAB_E_ARGUMENT,
                 "options.balance_count = 0: must be at least 1 where options.balance is given");
    options.balance = NULL;
    options.balance_count = 1;
    EXPECT_FAILS(sab_bucket_sampler_new(plan, &options, &sampler), SAB_E_ARGUMENT,
                 "options.balance = NULL");
    options.balance_count = 0;
    options.mix_lengths = 1;
    EXPECT_FAILS(sab_sequential_sampler_new(plan, &options, &sampler), SAB_E_ARGUMENT,
                 "options.mix_lengths = 1: must be 0: only the bucket order has this option");
    sab_cost_free(cost);
    EXPECT_FAILS(sab_bucket_sampler_new(NULL, NULL, &sampler), SAB_E_ARGUMENT, "plan = NULL");
    EXPECT_FAILS(sab_bucket_sampler_new(plan, NULL, NULL), SAB_E_ARGUMENT, "sampler = NULL");
    sab_batch batch = SAB_BATCH_INIT;
    uint64_t number;
    size_t count;
    EXPECT_FAILS(sab_next_batch(NULL, &batch), SAB_E_ARGUMENT, "sampler = NULL");
    EXPECT_FAILS(sab_sampler_at(NULL, 0, &batch), SAB_E_ARGUMENT, "sampler = NULL");
    EXPECT_FAILS(sab_sampler_get_batch_count(NULL, &number), SAB_E_ARGUMENT, "sampler = NULL");
    EXPECT_FAILS(sab_sampler_get_skipped(NULL, NULL, 0, &count), SAB_E_ARGUMENT, "sampler = NULL");
    EXPECT_FAILS(sab_sampler_set_epoch(NULL, 0), SAB_E_ARGUMENT, "sampler = NULL");
    EXPECT_FAILS(sab_sampler_seek(NULL, 0), SAB_E_ARGUMENT, "sampler = NULL");
    EXPECT_FAILS(sab_sampler_tell(NULL, &number, &number), SAB_E_ARGUMENT, "sampler = NULL");
    sab_sampler_free(NULL);
    sampler = rank_of(plan, 0, 1);
    EXPECT_FAILS(sab_next_batch(sampler, NULL), SAB_E_ARGUMENT, "batch = NULL");
    EXPECT_FAILS(sab_sampler_get_batch_count(sampler, NULL), SAB_E_ARGUMENT, "count = NULL");
    EXPECT_FAILS(sab_sampler_tell(sampler, NULL, &number), SAB_E_ARGUMENT, "epoch = NULL");
    sab_sampler_free(sampler);
    sab_plan_free(plan);
}

struct walker {
    const sab_plan *plan;
    uint64_t steps;
    int seen[500];
    int message_is_own;
};

static void *walk_in_thread(void *ctx) {
    struct walker *walker = ctx;
    for (int round = 0; round < 20; ++round) {
        sab_sampler *sampler = rank_of(walker->plan, 0, 1);
        memset(walker->seen, 0, sizeof walker->seen);
        walker->steps = walk(sampler, walker->seen);
        sab_sampler_free(sampler);
        sab_sampler_free(NULL);
        walker->message_is_own =
            sab_next_batch(NULL, NULL) == SAB_E_ARGUMENT &&
            strcmp(sab_last_error_message(), "sampler = NULL: must be given") == 0;
    }
    return NULL;
}

static void TwoThreads_OnOnePlan_AreIndependent(void) {
    sab_plan *plan = a_plan();
    struct walker walkers[2] = {{plan, 0, {0}, 0}, {plan, 0, {0}, 0}};
    pthread_t threads[2];
    for (int i = 0; i < 2; ++i) pthread_create(&threads[i], NULL, walk_in_thread, &walkers[i]);
    for (int i = 0; i < 2; ++i) pthread_join(threads[i], NULL);
    EXPECT(walkers[0].steps == walkers[1].steps && all_are(walkers[0].seen, 500, 1) &&
           all_are(walkers[1].seen, 500, 1));
    EXPECT(walkers[0].message_is_own && walkers[1].message_is_own);
    sab_plan_free(plan);
}

static void BatchStep_AfterACallThatShowsNoBatch_IsRefused(void) {
    sab_plan *plan = a_plan();
    sab_sampler *sampler = rank_of(plan, 0, 1);
    sab_batch batch = SAB_BATCH_INIT, small = SAB_BATCH_INIT;
    small.struct_size = 8;
    sab_step step = SAB_STEP_INIT;
    sab_rows rows = SAB_ROWS_INIT;
    for (int i = 0; i < 3; ++i) {
        EXPECT_OK(sab_next_batch(sampler, &batch));
        EXPECT_OK(sab_sampler_get_step(sampler, &step));
        EXPECT((i == 0   ? sab_sampler_at(sampler, 1000000, &batch)
                : i == 1 ? sab_sampler_at(sampler, 0, &small)
                         : sab_next_batch(sampler, &small)) == SAB_E_ARGUMENT);
        EXPECT_FAILS(sab_sampler_get_step(sampler, &step), SAB_E_ARGUMENT, "shows no batch");
        EXPECT_FAILS(sab_sampler_get_rows(sampler, &rows), SAB_E_ARGUMENT, "shows no batch");
    }
    sab_sampler_free(sampler);
    sab_plan_free(plan);
}

int main(void) {
    RUN(EveryPlanAndOrder_KeepsCoverageStepsAndBudget);
    RUN(StepTotals_AreTheTrueSumsUnderEveryPolicy);
    RUN(DropOfAllBatches_IsRefused);
    RUN(MoreRanksThanSamples_GiveEmptyBatches);
    RUN(RanksOfOneStep_CostNearlyTheSame);
    RUN(Order_DependsOnSeedAndEpochAlone);
    RUN(Sequential_GoesUpBySizeThenIndex);
    RUN(CostliestFirst_BeginsWithTheCostliest);
    RUN(CostliestFirst_OfMoreThanAllBatches_OrdersAllOfThem);
    RUN(CostliestBatches_AreNeverExceededInAnyEpoch);
    RUN(SavedAndRestored_GivesTheSameBytesAndBatches);
    RUN(ThreeResumes_OnOtherNumbersOfRanks_LoseNothing);
    RUN(AfterAResumeOnOtherRanks_EarlierStepsAreRefused);
    RUN(State_OfAnotherSampler_IsRefusedAndChangesNothing);
    RUN(SizesPlanSampler_GiveEverySampleOnce);
    RUN(NextBatch_AfterEnd_ReturnsEndAgain);
    RUN(Tail_EachPolicy_DoesWhatItSays);
    RUN(TailWrap_InABucketSmallerThanABatch_ShowsEachSampleOnce);
    RUN(AtSeekAndBlocks_ShowWhatNextShows);
    RUN(Resume_AtEveryStepOnAnyRanks_LosesNothing);
    RUN(State_DamagedOrForeign_IsRefused);
    RUN(SamplerOptions_BadOnes_AreNamed);
    RUN(TwoThreads_OnOnePlan_AreIndependent);
    RUN(BatchStep_AfterACallThatShowsNoBatch_IsRefused);
    return finish();
}
