/* Plans: buckets, batch sizes, costs, files. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include "helpers.h"
#include "one.h"

/* Writes the buckets as "3..5 n4 b2 x2; ...": sizes, samples, samples a batch, batches. */
static const char *buckets_of(const sab_plan *plan) {
    static char text[2048];
    char *end = text;
    sab_plan_info info = SAB_PLAN_INFO_INIT;
    EXPECT_OK(sab_plan_get_info(plan, &info));
    *end = '\0';
    for (size_t i = 0; i < info.buckets && end < text + sizeof text - 100; ++i) {
        sab_bucket bucket = SAB_BUCKET_INIT;
        EXPECT_OK(sab_plan_get_bucket(plan, i, &bucket));
        end += sprintf(end, "%s%g..%g n%d b%d x%d", i == 0 ? "" : "; ", *bucket.shortest,
                       *bucket.longest, (int)bucket.samples, (int)bucket.batch_size,
                       (int)bucket.batches);
    }
    return text;
}

#define EXPECT_BUCKETS(numbers, options, expected)                                 \
    do {                                                                           \
        sab_plan *plan_ = plan_with(numbers, COUNT(numbers), options);             \
        const char *got_ = buckets_of(plan_);                                      \
        EXPECT(strcmp(got_, expected) == 0 ||                                      \
               (fprintf(stderr, "%s:%d: has %s\n", __FILE__, __LINE__, got_), 0)); \
        sab_plan_free(plan_);                                                      \
    } while (0)

static sab_plan_options bounded(const double *boundaries, size_t count, double most) {
    sab_plan_options options = budget(most);
    options.bucket_rule = SAB_BUCKETS_BOUNDARIES;
    options.boundaries = boundaries;
    options.boundary_count = count;
    return options;
}

static sab_plan_info info_of(const sab_plan *plan) {
    sab_plan_info info = SAB_PLAN_INFO_INIT;
    EXPECT_OK(sab_plan_get_info(plan, &info));
    return info;
}

static sab_plan_report report_of(const sab_plan *plan) {
    sab_plan_report report = SAB_PLAN_REPORT_INIT;
    EXPECT_OK(sab_plan_get_report(plan, NULL, NULL, &report));
    return report;
}

static void Boundaries_IncludeTheLowerAndNotTheUpper(void) {
    const int32_t numbers[] = {9, 4, 5, 6, 10, 3};
    const double boundaries[] = {10, 4, 6}; /* in any order */
    sab_plan_options options = bounded(boundaries, 3, 20);
    options.oversize = SAB_OVERSIZE_SKIP;
    EXPECT_BUCKETS(numbers, &options, "4..5 n2 b4 x1; 6..9 n2 b2 x1");
    sab_plan *plan = plan_with(numbers, 6, &options);
    int64_t skipped[6] = {0};
    size_t count = 0;
    EXPECT_OK(sab_plan_get_skipped(plan, skipped, 6, &count));
    EXPECT(count == 2 && skipped[0] == 5 && skipped[1] == 4); /* by ascending size */
    sab_plan_free(plan);
}

static void Boundaries_MayBeEmptyOrInfinite(void) {
    const int32_t numbers[] = {1, 2, 90};
    const double boundaries[] = {-INFINITY, 5, 50, INFINITY};
    const sab_plan_options options = bounded(boundaries, 4, 100);
    EXPECT_BUCKETS(numbers, &options, "1..2 n2 b3 x1; 0..0 n0 b1 x0; 90..90 n1 b1 x1");
}

static void BatchSizes_OneForAllOrOneABucket(void) {
    int32_t range[25];
    for (int i = 0; i < 25; ++i) range[i] = i;
    const double boundaries[] = {0, 6, 15, 25};
    const uint64_t each[] = {2, 3, 5}, one = 4;
    sab_plan_options options = bounded(boundaries, 4, 0);
    options.batch_sizes = each;
    options.batch_size_count = 3;
    EXPECT_BUCKETS(range, &options, "0..5 n6 b2 x3; 6..14 n9 b3 x3; 15..24 n10 b5 x2");
    options.batch_size_count = 1;
    options.batch_sizes = &one;
    EXPECT_BUCKETS(range, &options, "0..5 n6 b4 x2; 6..14 n9 b4 x3; 15..24 n10 b4 x3");
    options.batch_sizes = each;
    options.batch_size_count = 3;
    SET_BUDGET(options, 50); /* with both, the smaller batch wins: 50 / 24 = 2 */
    EXPECT_BUCKETS(range, &options, "0..5 n6 b2 x3; 6..14 n9 b3 x3; 15..24 n10 b2 x5");
}

static void BatchSize_LargerThanAnyPlan_IsOneBatch(void) {
    int32_t sizes[] = {3, 1, 2};
    const uint64_t many[] = {(uint64_t)1 << 32, UINT64_MAX - 1, UINT64_MAX};
    for (size_t i = 0; i < COUNT(many); ++i) {
        sab_plan_options options = budget(0);
        options.batch_sizes = &many[i];
        options.batch_size_count = 1;
        sab_plan *plan = plan_with(sizes, 3, &options);
        sab_plan_info info = SAB_PLAN_INFO_INIT;
        EXPECT_OK(sab_plan_get_info(plan, &info));
        EXPECT(info.batches == 1 && info.lower_bound == 1);
        sab_plan_free(plan);
    }
}

static void BucketBatches_OfAnyNumber_AreAccepted(void) {
    const int32_t numbers[] = {10, 9, 8, 7, 6, 5, 4, 3, 2, 1}, one[] = {5};
    const uint64_t large[] = {10,        1000, UINT32_MAX, UINT64_C(1) << 32, UINT64_C(1) << 63,
                              UINT64_MAX};
    for (size_t i = 0; i < COUNT(large); ++i) {
        sab_plan_options options = budget(20);
        options.bucket_batches = large[i];
        EXPECT_BUCKETS(numbers, &options, "1..10 n10 b2 x5");
        sab_plan *plan = plan_with(one, 1, &options);
        EXPECT(info_of(plan).batches == 1 && info_of(plan).buckets == 1);
        sab_plan_free(plan);
    }
}

static void Optimal_PadsAsLittleAsAnyCutCan(void) {
    const int32_t hand[] = {1, 1, 2, 9, 10};
    sab_plan_options options = budget(10);
    options.bucket_rule = SAB_BUCKETS_OPTIMAL;
    options.bucket_count = 2;
    EXPECT_BUCKETS(hand, &options, "1..2 n3 b5 x1; 9..10 n2 b1 x2");
    options.bucket_count = 3; /* {1, 1} {2} {9, 10} pads 1; {1, 1, 2} {9} {10} pads 2 */
    options.max_batch_size = 3;
    EXPECT_BUCKETS(hand, &options, "1..1 n2 b3 x1; 2..2 n1 b3 x1; 9..10 n2 b1 x2");
    options.bucket_count = 99; /* no more buckets than distinct sizes */
    EXPECT_BUCKETS(hand, &options, "1..1 n2 b3 x1; 2..2 n1 b3 x1; 9..9 n1 b1 x1; 10..10 n1 b1 x1");

    /* Against every cut between 9 distinct sizes, by bits. */
    for (uint32_t round = 1; round <= 20; ++round) {
        int32_t numbers[30], samples[9] = {0};
        for (uint32_t i = 0; i < 30; ++i) {
            const uint32_t which = i < 9 ? i : (i * 2654435761u + round * 40503u) >> 7;
            ++samples[which % 9];
            numbers[i] = (int32_t)((which % 9 + 1) * (which % 9 + round) + 1);
        }
        for (size_t count = 1; count <= 9; ++count) {
            double least = INFINITY;
            for (uint32_t cuts = 0; cuts < 256; ++cuts) {
                if (__builtin_popcount(cuts) + 1 != (int)count) continue;
                double padded = 0;
                int in_bucket = 0;
                for (uint32_t which = 0; which < 9; ++which) {
                    in_bucket += samples[which];
                    if (which == 8 || (cuts >> which & 1)) {
                        padded += in_bucket * (double)((which + 1) * (which + round) + 1);
                        in_bucket = 0;
                    }
                }
                least = fmin(least, padded);
            }
            options = budget(10000);
            options.bucket_rule = SAB_BUCKETS_OPTIMAL;
            options.bucket_count = count;
            sab_plan *plan = plan_with(numbers, 30, &options);
            double padded = 0;
            for (size_t b = 0; b < info_of(plan).buckets; ++b) {
                sab_bucket bucket = SAB_BUCKET_INIT;
                EXPECT_OK(sab_plan_get_bucket(plan, b, &bucket));
                padded += (double)bucket.samples * *bucket.longest;
            }
            EXPECT(padded == least);
            sab_plan_free(plan);
        }
    }
}

static void Auto_KeepsPaddingAndBatchesUnderTheTarget(void) {
    enum { samples = 400000 };
    int32_t *numbers = malloc(samples * sizeof *numbers);
    uint32_t x = 3;
    for (int i = 0; i < samples; ++i) {
        x = x * 1664525u + 1013904223u;
        numbers[i] = (int32_t)(1 + (x >> 16) % (1 + (x >> 8) % 509));
    }
    /* 1 % is out of reach with 16 batches a bucket: there are some 1,300 batches */
    for (int percent = 3; percent <= 5; ++percent) {
        /* one percent is out of reach with 16 batches in each bucket */
        const uint64_t fewest = percent == 1 ? 4 : 16;
        sab_plan_options options = budget(16384);
        options.padding_target = percent / 100.0;
        sab_plan *plan = plan_with(numbers, samples, &options);
        const sab_plan_info info = info_of(plan);
        const sab_plan_report report = report_of(plan);
        EXPECT(report.padding <= options.padding_target);
        EXPECT(info.batches >= info.lower_bound);
        if (percent > 1)
            EXPECT((double)info.batches <= (1 + options.padding_target) * (double)info.lower_bound);
        uint64_t below = 0;
        for (size_t i = 0; i < info.buckets; ++i) {
            sab_bucket bucket = SAB_BUCKET_INIT;
            EXPECT_OK(sab_plan_get_bucket(plan, i, &bucket));
            EXPECT(bucket.cost <= 16384 &&
                   bucket.batches >= (below + bucket.samples <= samples * 99 / 100 ? fewest : 1));
            below += bucket.samples;
        }
        EXPECT(below == samples && report.meet_again <= 1.0 / (double)fewest);
        sab_plan_free(plan);
    }
    free(numbers);
}

static void Auto_MeetsTheTarget_WhereAllSamplesOfAnIdAreLeftOut(void) {
    const int32_t numbers[] = {5, 5, 5, 5, 900};
    for (int64_t left_out = 0; left_out < 2; ++left_out) {
        const int64_t other = 1 - left_out, ids[] = {other, other, other, other, left_out};
        sab_plan_options options = budget(10);
        options.oversize = SAB_OVERSIZE_SKIP;
        options.separate_by = ids;
        options.separate_by_count = COUNT(ids);
        sab_plan *plan = plan_with(numbers, COUNT(ids), &options);
        EXPECT(report_of(plan).target_met == 1 && report_of(plan).nearest_target == 0.01);
        sab_plan_free(plan);
    }
}

static void BatchSize_FollowsTheBudgetAndItsLimits(void) {
    int32_t tens[100];
    for (int i = 0; i < 100; ++i) tens[i] = 10;
    const double boundaries[] = {0, 11};
    sab_plan_options options = bounded(boundaries, 2, 79);
    EXPECT_BUCKETS(tens, &options, "10..10 n100 b7 x15");
    SET_BUDGET(options, 80); /* the budget itself is allowed */
    EXPECT_BUCKETS(tens, &options, "10..10 n100 b8 x13");
    options.max_batch_size = 5;
    EXPECT_BUCKETS(tens, &options, "10..10 n100 b5 x20");
    options.max_batch_size = 0;
    options.batch_size_multiple = 3;
    EXPECT_BUCKETS(tens, &options, "10..10 n100 b6 x17");
    options.batch_size_multiple = 9; /* not one multiple fits: as it is */
    EXPECT_BUCKETS(tens, &options, "10..10 n100 b8 x13");
    options.batch_size_multiple = 1;
    options.length_multiples = one_number(8),
    options.length_multiple_count = 1; /* 10 is padded to 16, and the padding costs */
    EXPECT_BUCKETS(tens, &options, "10..10 n100 b5 x20");
    sab_plan *plan = plan_with(tens, 100, &options);
    sab_bucket bucket = SAB_BUCKET_INIT;
    EXPECT_OK(sab_plan_get_bucket(plan, 0, &bucket));
    EXPECT(*bucket.padded_length == 16 && bucket.cost == 80 && *bucket.total == 1000);
    sab_sampler *sampler = rank_of(plan, 0, 1);
    sab_batch batch = SAB_BATCH_INIT;
    EXPECT_OK(sab_next_batch(sampler, &batch));
    EXPECT(*batch.longest == 10 && *batch.padded_length == 16 && padded_total(&batch) == 80 &&
           *batch.total == 50);
    sab_sampler_free(sampler);
    sab_plan_free(plan);
}

static int32_t linear_in_length(void *ctx, uint64_t count, const double *lengths,
                                const double *totals, size_t columns, double *cost) {
    *cost = 3 + (double)count + 2 * totals[0];
    return ctx == NULL || columns != 1 || totals[0] != (double)count * lengths[0];
}

static void Cost_DecidesWhatTheBudgetPaysFor(void) {
    int32_t tens[100];
    for (int i = 0; i < 100; ++i) tens[i] = 10;
    const double boundaries[] = {0, 11}, twice = 2;
    const sab_cost_term terms[] = {{3, 0, POWERS(0)}, {1, 1, POWERS(0)}, {2, 1, POWERS(1)}};
    sab_plan_options options = bounded(boundaries, 2, 1000);
    EXPECT_BUCKETS(tens, &options, "10..10 n100 b100 x1"); /* count * length */
    sab_cost *costs[4] = {new_quadratic(), NULL, new_callback(linear_in_length, tens), NULL};
    EXPECT_OK(sab_cost_terms_new(terms, COUNT(terms), &costs[1]));
    EXPECT_OK(sab_cost_padded_new(&twice, 1, &costs[3]));
    SET_BUDGET_OF(options, costs[0], 1000); /* count * length^2 */
    EXPECT_BUCKETS(tens, &options, "10..10 n100 b10 x10");
    SET_BUDGET_OF(options, costs[1], 1000); /* 3 + count * (1 + 2 * length): 3 + 47 * 21 = 990 */
    EXPECT_BUCKETS(tens, &options, "10..10 n100 b47 x3");
    SET_BUDGET_OF(options, costs[2], 1000);
    EXPECT_BUCKETS(tens, &options, "10..10 n100 b47 x3");
    SET_BUDGET_OF(options, costs[3], 1000); /* 2 * count * length */
    EXPECT_BUCKETS(tens, &options, "10..10 n100 b50 x2");
    for (size_t i = 0; i < COUNT(costs); ++i) sab_cost_free(costs[i]);
}

/* Of short samples the padded total is the limit, of long ones the squares are. */
static void SeveralBudgets_AllHold(void) {
    const int32_t numbers[] = {2, 2, 2, 2, 2, 2, 2, 2, 10, 10, 10, 10};
    const double boundaries[] = {0, 5, 11};
    sab_cost *squares = new_quadratic();
    sab_plan_options options = bounded(boundaries, 3, 12);
    const sab_budget budgets[] = {{NULL, 20}, {squares, 100}};
    options.budgets = budgets;
    options.budget_count = 1;
    EXPECT_BUCKETS(numbers, &options, "2..2 n8 b10 x1; 10..10 n4 b2 x2");
    options.budgets = budgets + 1;
    EXPECT_BUCKETS(numbers, &options, "2..2 n8 b12 x1; 10..10 n4 b1 x4");
    options.budgets = budgets;
    options.budget_count = 2;
    EXPECT_BUCKETS(numbers, &options, "2..2 n8 b10 x1; 10..10 n4 b1 x4");

    sab_plan *plan = plan_with(numbers, COUNT(numbers), &options);
    /* 56 / 20 and 432 / 100: the largest of both, rounded up */
    EXPECT(info_of(plan).lower_bound == 5 && info_of(plan).budget_count == 2);
    sab_bucket bucket = SAB_BUCKET_INIT;
    EXPECT_OK(sab_plan_get_bucket(plan, 1, &bucket));
    EXPECT(bucket.cost == 10); /* by the first budget */
    EXPECT(info_of(plan).limits[0] == 20 && info_of(plan).limits[1] == 100);
    sab_plan_free(plan);
    sab_cost_free(squares);
}

/* A plan keeps the terms of its budgets in its file, but no callback. */
static void SavedPlan_KeepsItsBudgets(void) {
    const sab_cost_term terms[] = {{5, 0, POWERS(0)}, {2, 1, POWERS(1)}, {0.5, 1, POWERS(2)}};
    sab_cost *costs[] = {NULL, new_callback(linear_in_length, "")};
    EXPECT_OK(sab_cost_terms_new(terms, COUNT(terms), &costs[0]));
    const sab_budget budgets[] = {{costs[0], 60000}, {costs[1], 9000}, {NULL, 4000}};
    sab_plan_options options = SAB_PLAN_OPTIONS_INIT;
    options.budgets = budgets;
    options.budget_count = COUNT(budgets);
    sab_plan *plan = plan_with(lengths(500), 500, &options), *read = NULL;
    for (size_t i = 0; i < COUNT(costs); ++i) sab_cost_free(costs[i]);
    unsigned char image[20000];
    size_t size = 0;
    EXPECT_OK(sab_plan_write(plan, image, sizeof image, &size));
    EXPECT(size <= sizeof image);
    EXPECT_OK(sab_plan_bytes_new(image, size, &read));
    EXPECT(info_of(read).fingerprint == info_of(plan).fingerprint &&
           info_of(read).budget_count == 3);
    sab_plan *both[] = {plan, read};
    struct state states[2];
    for (int i = 0; i < 2; ++i) {
        sab_sampler *sampler = NULL;
        EXPECT_OK(sab_bucket_sampler_new(both[i], NULL, &sampler));
        double limit = 0;
        EXPECT_OK(sab_sampler_get_budget(sampler, 1, &limit));
        EXPECT(limit == 9000);
        EXPECT_FAILS(sab_sampler_set_budget(sampler, 1, 8000), SAB_E_UNSUPPORTED,
                     "the cost of budget 1 is a callback, which the plan does not keep");
        EXPECT_FAILS(sab_sampler_set_budget(sampler, 3, 8000), SAB_E_ARGUMENT,
                     "index = 3: must be below the number of budgets, 3");
        EXPECT_OK(sab_sampler_set_budget(sampler, 0, 6000));
        EXPECT_OK(sab_sampler_set_budget(sampler, 2, 3000));
        EXPECT_OK(sab_sampler_get_budget(sampler, 0, &limit));
        EXPECT(limit == 6000);
        EXPECT_OK(save_state(sampler, &states[i]));
        sab_batch batch = SAB_BATCH_INIT;
        while (sab_next_batch(sampler, &batch) == SAB_OK) {
            const double n = (double)batch.count, l = *batch.padded_length;
            EXPECT(batch.count == 1 || (5 + n * (2 * l + 0.5 * l * l) <= 6000 && n * l <= 3000 &&
                                        3 + n + 2 * n * l <= 9000));
        }
        sab_sampler_free(sampler);
        sab_plan_free(both[i]);
    }
    EXPECT(memcmp(&states[0], &states[1], sizeof states[0]) == 0);
}

static void SizeZero_CostsWhatTheCostOfLengthZeroIs(void) {
    const int32_t numbers[] = {0, 0, 0, 0, 0, 4, 8}, zeros[] = {0, 0, 0, 0, 0};
    const double boundaries[] = {0, 1, 9};
    const sab_plan_options options = bounded(boundaries, 3, 8);
    EXPECT_BUCKETS(numbers, &options, "0..0 n5 b7 x1; 4..8 n2 b1 x2");
    sab_plan_options ones = bounded(boundaries, 2, 2);
    EXPECT_BUCKETS(zeros, &ones, "0..0 n5 b5 x1");
    ones.max_batch_size = 2; /* a sample without a size is a sample */
    EXPECT_BUCKETS(zeros, &ones, "0..0 n5 b2 x3");
    /* Of a constant of 1, and 3 for each sample, whatever its length. */
    const sab_cost_term terms[] = {{1, 0, POWERS(0)}, {3, 1, POWERS(0)}, {1, 1, POWERS(1)}};
    sab_cost *cost = NULL;
    EXPECT_OK(sab_cost_terms_new(terms, 3, &cost));
    const sab_budget budget_of_terms = {cost, 10, {0}};
    const sab_plan_options rows = {sizeof rows, .budgets = &budget_of_terms, .budget_count = 1};
    EXPECT_BUCKETS(zeros, &rows, "0..0 n5 b3 x2");
    sab_cost_free(cost);
}

static void Tails_AreKeptDroppedOrFilled(void) {
    const int32_t numbers[] = {1, 2, 3, 4, 5, 11, 12, 13};
    const double boundaries[] = {0, 10, 20};
    const uint64_t four = 4;
    sab_plan_options options = bounded(boundaries, 3, 0);
    options.batch_sizes = &four;
    options.batch_size_count = 1;
    EXPECT_BUCKETS(numbers, &options, "1..5 n5 b4 x2; 11..13 n3 b4 x1");
    options.tail = SAB_TAIL_DROP;
    EXPECT_BUCKETS(numbers, &options, "1..5 n5 b4 x1; 11..13 n3 b4 x0");
    options.tail = SAB_TAIL_WRAP; /* a bucket of fewer samples than a batch is one smaller batch */
    EXPECT_BUCKETS(numbers, &options, "1..5 n5 b4 x2; 11..13 n3 b3 x1");
}

static void TailDrop_OfAllSamples_IsRefused(void) {
    const int32_t numbers[] = {1, 2, 3, 11, 12, 13};
    const double boundaries[] = {0, 6, 15};
    const uint64_t four = 4;
    sab_plan_options options = bounded(boundaries, 3, 0);
    options.batch_sizes = &four;
    options.batch_size_count = 1;
    options.tail = SAB_TAIL_DROP;
    sab_sizes *sizes = sizes_of(numbers, 6);
    sab_plan *plan = NULL;
    EXPECT_FAILS(sab_plan_new(sizes, &options, &plan), SAB_E_ARGUMENT,
                 "options.tail = SAB_TAIL_DROP: must leave a batch; no bucket fills one, the "
                 "fullest has 3 of the 4 samples of a batch");
    const int64_t ids[] = {0, 0, 1, 1, 2, 2};
    sab_plan_options separate = SAB_PLAN_OPTIONS_INIT;
    separate.batch_sizes = &four;
    separate.batch_size_count = 1;
    separate.tail = SAB_TAIL_DROP;
    separate.separate_by = ids;
    separate.separate_by_count = 6;
    EXPECT_FAILS(sab_plan_new(sizes, &separate, &plan), SAB_E_ARGUMENT,
                 "the fullest has 2 of the 4 samples of a batch");
    const uint64_t three = 3; /* one bucket of two is enough */
    options.batch_sizes = &three;
    EXPECT_OK(sab_plan_new(sizes, &options, &plan));
    sab_plan_free(plan);
    sab_sizes_free(sizes);
}

static void TailDrop_LeavesOthersOutInEachEpoch(void) {
    int32_t fives[10];
    for (int i = 0; i < 10; ++i) fives[i] = 5;
    sab_plan_options options = budget(20);
    options.tail = SAB_TAIL_DROP;
    sab_plan *plan = plan_with(fives, 10, &options);
    sab_sampler *sampler = rank_of(plan, 0, 1);
    int seen[10] = {0};
    for (uint64_t epoch = 0; epoch < 100; ++epoch) {
        EXPECT_OK(sab_sampler_set_epoch(sampler, epoch));
        EXPECT(walk(sampler, seen) == 2);
    }
    for (int i = 0; i < 10; ++i) EXPECT(seen[i] > 50 && seen[i] < 100);
    EXPECT(report_of(plan).dropped == 2 && report_of(plan).repeated == 0);
    sab_sampler_free(sampler);
    sab_plan_free(plan);
}

static void TailWrap_RepeatsNoSampleTwiceOver(void) {
    int32_t fives[10];
    for (int i = 0; i < 10; ++i) fives[i] = 5;
    sab_plan_options options = budget(35); /* batches of 7: 7 + 3, filled with 4 again */
    options.tail = SAB_TAIL_WRAP;
    sab_plan *plan = plan_with(fives, 10, &options);
    sab_sampler *sampler = rank_of(plan, 0, 1);
    int seen[10] = {0}, twice = 0;
    EXPECT(walk(sampler, seen) == 2);
    for (int i = 0; i < 10; ++i) {
        EXPECT(seen[i] == 1 || seen[i] == 2);
        twice += seen[i] == 2;
    }
    EXPECT(twice == 4 && report_of(plan).repeated == 4 && report_of(plan).dropped == 0);
    sab_sampler_free(sampler);
    sab_plan_free(plan);
}

static void Oversize_IsSkippedRefusedOrAlone(void) {
    const int32_t numbers[] = {3, 60, 4, 5, 50};
    sab_plan_options options = budget(20);
    options.oversize = SAB_OVERSIZE_SKIP;
    sab_plan *plan = plan_with(numbers, 5, &options);
    sab_sampler *sampler = rank_of(plan, 0, 1);
    int seen[5] = {0};
    size_t count = 0;
    walk(sampler, seen);
    EXPECT(seen[0] == 1 && seen[1] == 0 && seen[2] == 1 && seen[3] == 1 && seen[4] == 0);
    int64_t skipped[2] = {0};
    EXPECT_OK(sab_sampler_get_skipped(sampler, skipped, 2, &count));
    EXPECT(skipped[0] == 4 && skipped[1] == 1); /* by ascending size */
    EXPECT(count == 2 && info_of(plan).skipped == 2 && info_of(plan).total == 12 &&
           report_of(plan).skipped == 2);
    sab_sampler_free(sampler);
    sab_plan_free(plan);

    sab_sizes *sizes = sizes_of(numbers, 5);
    options = budget(20);
    EXPECT_FAILS(sab_plan_new(sizes, &options, &plan), SAB_E_ARGUMENT,
                 "sizes[1] = 60: must cost at most the budget, 20, in a batch of one; 2 of 5 "
                 "samples are over "
                 "the budget. Set options.oversize to SAB_OVERSIZE_SKIP (1) or "
                 "SAB_OVERSIZE_SINGLE (2), or use a larger budget");
    const double boundaries[] = {4, 55};
    options.bucket_rule = SAB_BUCKETS_BOUNDARIES;
    options.boundaries = boundaries;
    options.boundary_count = 2;
    EXPECT_FAILS(sab_plan_new(sizes, &options, &plan), SAB_E_ARGUMENT,
                 "sizes[0] = 3: must be at least the first boundary, 4, and below the last, 55; 3 "
                 "of 5 samples are outside the boundaries or over the budget. Set "
                 "options.oversize to SAB_OVERSIZE_SKIP (1) or SAB_OVERSIZE_SINGLE (2), or use "
                 "other boundaries or a larger budget");
    sab_sizes_free(sizes);
    options = budget(20);

    options.oversize = SAB_OVERSIZE_SINGLE;
    plan = plan_with(numbers, 5, &options);
    sampler = rank_of(plan, 0, 1);
    sab_batch batch = SAB_BATCH_INIT;
    memset(seen, 0, sizeof seen);
    while (sab_next_batch(sampler, &batch) == SAB_OK) {
        EXPECT(padded_total(&batch) <= 20 || batch.count == 1);
        for (uint64_t i = 0; i < batch.count; ++i) ++seen[batch.indices[i]];
    }
    EXPECT(all_are(seen, 5, 1) && info_of(plan).skipped == 0 && info_of(plan).total == 122);
    sab_sampler_free(sampler);
    sab_plan_free(plan);
}

/* Distinct (count, padded length) of an epoch on one rank; and to what samples of 13 to 50 are
 * padded at most. */
static size_t shapes_of(const sab_plan *plan, double *longest_single) {
    sab_sampler *sampler = rank_of(plan, 0, 1);
    sab_batch batch = SAB_BATCH_INIT;
    double shapes[64][2];
    size_t count = 0;
    while (sab_next_batch(sampler, &batch) == SAB_OK) {
        size_t i = 0;
        while (i < count &&
               !(shapes[i][0] == (double)batch.count && shapes[i][1] == *batch.padded_length))
            ++i;
        EXPECT(*batch.longest <= *batch.padded_length);
        if (*batch.longest <= 50 && *batch.longest > 12 && *batch.padded_length > *longest_single)
            *longest_single = *batch.padded_length;
        if (i < count) continue;
        EXPECT(count < 64);
        shapes[count][0] = (double)batch.count;
        shapes[count++][1] = *batch.padded_length;
    }
    sab_sampler_free(sampler);
    return count;
}

static void MaxShapes_CountOversizeSinglesToo(void) {
    int32_t numbers[40];
    for (int i = 0; i < 36; ++i) numbers[i] = i < 24 ? 1 + i / 8 : 7;
    numbers[36] = 50, numbers[37] = 100, numbers[38] = 49, numbers[39] = 98;
    sab_sizes *sizes = sizes_of(numbers, 40);
    for (sab_tail tail = SAB_TAIL_KEEP; tail <= SAB_TAIL_WRAP; ++tail)
        for (size_t most = 1; most <= 9; ++most) {
            const size_t fewest = tail == SAB_TAIL_KEEP ? 3 : 2;
            sab_plan_options options = budget(12);
            options.max_shapes = one_count(most), options.max_shape_count = 1;
            options.tail = tail;
            options.oversize = SAB_OVERSIZE_SINGLE;
            sab_plan *plan = NULL;
            if (most < fewest) {
                EXPECT_FAILS(sab_plan_new(sizes, &options, &plan), SAB_E_ARGUMENT,
                             fewest == 3 ? "must be at least 3" : "must be at least 2");
                continue;
            }
            EXPECT_OK(sab_plan_new(sizes, &options, &plan));
            double longest = 0;
            EXPECT(shapes_of(plan, &longest) <= most && report_of(plan).shapes <= most);
            EXPECT(most < 6 || longest == 50); /* 49 and 50 are not padded to 100 */
            sab_plan_free(plan);
        }
    sab_sizes_free(sizes);

    sab_plan_options only = budget(12); /* all are over the budget */
    only.oversize = SAB_OVERSIZE_SINGLE;
    only.max_shapes = one_count(1), only.max_shape_count = 1;
    double longest = 0;
    sab_plan *plan = plan_with(numbers + 36, 4, &only);
    EXPECT(shapes_of(plan, &longest) == 1 && longest == 100);
    sab_plan_free(plan);
    only.max_shapes = one_count(2);
    plan = plan_with(numbers + 36, 4, &only);
    longest = 0;
    EXPECT(shapes_of(plan, &longest) == 2 && longest == 50);
    sab_plan_free(plan);
}

static void Shapes_AreListedCostliestFirst(void) {
    const int32_t numbers[] = {5, 3, 5, 4, 3, 4, 2};
    const double expected[][2] = {{2, 5}, {3, 3}};
    sab_plan_options options = budget(10);
    options.max_shapes = one_count(3), options.max_shape_count = 1;
    sab_plan *plan = plan_with(numbers, COUNT(numbers), &options);
    sab_sampler *sampler = NULL;
    EXPECT_OK(sab_bucket_sampler_new(plan, NULL, &sampler));
    sab_shape shape = SAB_SHAPE_INIT;
    for (size_t i = 0; i < 2; ++i) {
        EXPECT_OK(sab_plan_get_shape(plan, i, &shape));
        EXPECT((double)shape.count == expected[i][0] && shape.columns == 1 &&
               *shape.padded_length == expected[i][1]);
        EXPECT_OK(sab_sampler_get_shape(sampler, i, &shape));
        EXPECT((double)shape.count == expected[i][0] && *shape.padded_length == expected[i][1]);
    }
    EXPECT(sab_plan_get_shape(plan, 2, &shape) == SAB_END);
    EXPECT(sab_sampler_get_shape(sampler, 2, &shape) == SAB_END);
    sab_sampler_free(sampler);
    sab_plan_free(plan);
    sab_sizes *sizes = sizes_of(numbers, COUNT(numbers));
    EXPECT_OK(sab_ordered_sampler_new(NULL, 0, sizes, 10, NULL, &sampler));
    EXPECT_FAILS(sab_sampler_get_shape(sampler, 0, &shape), SAB_E_UNSUPPORTED, "not a plan's");
    sab_sampler_free(sampler);
    sab_sizes_free(sizes);
}

static void ShapesAuto_AreTheFewestThatMeetTheTarget(void) {
    for (int32_t limit = 0; limit <= 6; limit += 3) {
        sab_plan_options options = budget(300);
        options.shapes = SAB_SHAPES_AUTO;
        options.padding_target = 0.05;
        if (limit > 0) options.max_shapes = one_count((size_t)limit), options.max_shape_count = 1;
        sab_plan *plan = plan_with(lengths(1000), 1000, &options);
        const sab_plan_report report = report_of(plan);
        uint64_t shapes = 0, last = 0, fewest = 0;
        double padding = 0;
        for (size_t i = 0; sab_plan_get_shape_padding(plan, i, &shapes, &padding) == SAB_OK; ++i) {
            EXPECT(shapes > last && (limit == 0 || shapes <= (uint64_t)limit));
            if (padding <= 0.05 && fewest == 0) fewest = shapes;
            last = shapes;
        }
        EXPECT(report.target_met == (fewest > 0) && report.shapes <= (fewest > 0 ? fewest : last));
        EXPECT(report.target_met == (report.padding <= 0.05) && (limit > 0 || report.target_met));
        sab_plan_free(plan);
    }
    const int32_t two[] = {5, 5, 5, 5,
                           3, 3, 3}; /* no target is met; 3 shapes are all there can be */
    sab_plan_options options = budget(16);
    options.shapes = SAB_SHAPES_AUTO;
    options.padding_target = 1e-9;
    sab_plan *plan = plan_with(two, COUNT(two), &options);
    uint64_t shapes = 0;
    double padding = 0;
    EXPECT_OK(sab_plan_get_shape_padding(plan, 1, &shapes, &padding));
    EXPECT(shapes == 3 && sab_plan_get_shape_padding(plan, 2, &shapes, &padding) == SAB_END);
    sab_plan_free(plan);
    const double boundaries[] = {1, 2000};
    sab_plan_options wrong = bounded(boundaries, 2, 2000);
    wrong.shapes = SAB_SHAPES_AUTO;
    sab_sizes *sizes = sizes_of(lengths(1000), 1000);
    plan = NULL;
    EXPECT_FAILS(sab_plan_new(sizes, &wrong, &plan), SAB_E_ARGUMENT,
                 "options.shapes = SAB_SHAPES_AUTO: must not be given with SAB_BUCKETS_BOUNDARIES");
    wrong.shapes = 2;
    EXPECT_FAILS(sab_plan_new(sizes, &wrong, &plan), SAB_E_ARGUMENT, "options.shapes = 2: must be");
    sab_sizes_free(sizes);
}

static void LowerBound_IsTheTotalOverTheBudget(void) {
    const int32_t numbers[] = {6, 6, 6, 6};
    sab_cost *squares = new_quadratic();
    const sab_plan_options options = budget(10); /* 24 / 10 */
    sab_plan *plan = plan_with(numbers, 4, &options);
    EXPECT(info_of(plan).lower_bound == 3 && info_of(plan).batches == 4);
    sab_plan_free(plan);
    for (int32_t most = 100; most <= 700; most += 23)
        for (int32_t tail = SAB_TAIL_KEEP; tail <= SAB_TAIL_WRAP; ++tail) {
            if (tail == SAB_TAIL_DROP) continue;
            sab_plan_options many = budget(most);
            if (most % 2 == 1) SET_BUDGET_OF(many, squares, 97 * most);
            many.tail = tail;
            plan = plan_with(lengths(1000), 1000, &many);
            EXPECT(info_of(plan).lower_bound <= info_of(plan).batches &&
                   info_of(plan).lower_bound > 0);
            sab_plan_free(plan);
        }
    sab_cost_free(squares);
}

static void LowerBound_IsAtLeastTheSamplesOverTheLargestBatch(void) {
    const int32_t zeros[] = {0, 0, 0, 0, 0, 0, 0}, ones[] = {1, 1, 1, 1, 1, 1, 1};
    for (uint64_t most = 0; most < 4; ++most)
        for (int is_one = 0; is_one < 2; ++is_one) {
            sab_plan_options options = budget(100);
            options.max_batch_size = most;
            sab_plan *plan = plan_with(is_one ? ones : zeros, 7, &options);
            const uint64_t batches = most == 0 ? 1 : (7 + most - 1) / most;
            sab_plan_report report = SAB_PLAN_REPORT_INIT;
            EXPECT_OK(sab_plan_get_report(plan, NULL, NULL, &report));
            EXPECT(report.batches == batches && report.lower_bound == batches);
            EXPECT(report.target_met == 1 && report.nearest_target == 0.01);
            sab_plan_free(plan);
        }
}

static void Fingerprint_TellsPlansApart(void) {
    int32_t changed[500];
    memcpy(changed, lengths(500), sizeof changed);
    sab_plan *same = a_plan(), *again = a_plan();
    EXPECT(info_of(same).fingerprint == info_of(again).fingerprint);
    sab_plan_free(again);
    changed[250] += 1;
    sab_plan_options options = budget(300);
    again = plan_with(changed, 500, &options);
    EXPECT(info_of(same).fingerprint != info_of(again).fingerprint);
    sab_plan_free(again);
    options.tail = SAB_TAIL_DROP;
    again = plan_with(lengths(500), 500, &options);
    EXPECT(info_of(same).fingerprint != info_of(again).fingerprint);
    sab_plan_free(again);
    sab_plan_free(same);
}

static void Report_AgreesWithAWalk(void) {
    sab_plan *plan = a_plan();
    for (uint64_t world_size = 1; world_size <= 7; ++world_size)
        for (sab_last_step last_step = SAB_LAST_STEP_SPLIT; last_step <= SAB_LAST_STEP_WRAP;
             ++last_step) {
            sab_sampler_options options = SAB_SAMPLER_OPTIONS_INIT;
            options.world_size = world_size;
            options.micro_batches = 1 + world_size % 2;
            options.last_step = last_step;
            options.epoch = 3;
            sab_plan_report report = SAB_PLAN_REPORT_INIT;
            EXPECT_OK(sab_plan_get_report(plan, &options, NULL, &report));
            uint64_t batches = 0, samples = 0, steps = 0, of_step[500] = {0};
            double total = 0, padded = 0;
            for (options.rank = 0; options.rank < world_size; ++options.rank) {
                sab_sampler *sampler = NULL;
                EXPECT_OK(sab_bucket_sampler_new(plan, &options, &sampler));
                sab_batch batch = SAB_BATCH_INIT;
                for (steps = 0; sab_next_batch(sampler, &batch) == SAB_OK; steps = batch.step + 1) {
                    batches += batch.count > 0;
                    samples += batch.count;
                    of_step[batch.step] += batch.count;
                    total += *batch.total;
                    padded += padded_total(&batch);
                }
                sab_sampler_free(sampler);
            }
            EXPECT(report.batches == batches && report.steps == steps && report.total == total &&
                   report.padded_total == padded);
            EXPECT(report.samples == 500 && samples + report.dropped == 500 + report.repeated);
            struct step_samples sums = {0};
            for (uint64_t step = 0; step < steps; ++step) add_step_samples(&sums, of_step[step]);
            EXPECT(HAS_STEP_SAMPLES(report, &sums));
            EXPECT(fabs(report.padding - (1 - total / padded)) < 1e-12);
            EXPECT(report.rank_imbalance >= 1 - 1e-12 &&
                   (world_size > 1 || report.rank_imbalance < 1 + 1e-12));
        }
    sab_plan_free(plan);
}

static void Report_CountsDroppedAndRepeatedApart(void) {
    const int32_t numbers[] = {3, 3, 3, 3, 3, 3, 3};
    const uint64_t batch_size = 2;
    const struct {
        sab_tail tail;
        sab_last_step last_step;
        uint64_t world_size;
    } cases[] = {{SAB_TAIL_DROP, SAB_LAST_STEP_WRAP, 2},
                 {SAB_TAIL_WRAP, SAB_LAST_STEP_DROP, 3},
                 {SAB_TAIL_WRAP, SAB_LAST_STEP_WRAP, 5},
                 {SAB_TAIL_DROP, SAB_LAST_STEP_WRAP, 7}};
    for (size_t i = 0; i < COUNT(cases); ++i) {
        sab_plan_options options = SAB_PLAN_OPTIONS_INIT;
        options.bucket_rule = SAB_BUCKETS_OPTIMAL;
        options.bucket_count = 1;
        options.batch_sizes = &batch_size;
        options.batch_size_count = 1;
        options.tail = cases[i].tail;
        sab_plan *plan = plan_with(numbers, 7, &options);
        sab_sampler_options walk_as = SAB_SAMPLER_OPTIONS_INIT;
        walk_as.last_step = cases[i].last_step;
        walk_as.world_size = cases[i].world_size;
        sab_plan_report report = SAB_PLAN_REPORT_INIT;
        EXPECT_OK(sab_plan_get_report(plan, &walk_as, NULL, &report));
        int seen[7] = {0};
        for (walk_as.rank = 0; walk_as.rank < walk_as.world_size; ++walk_as.rank) {
            sab_sampler *sampler = NULL;
            EXPECT_OK(sab_bucket_sampler_new(plan, &walk_as, &sampler));
            walk(sampler, seen);
            sab_sampler_free(sampler);
        }
        uint64_t dropped = 0, repeated = 0;
        for (int sample = 0; sample < 7; ++sample) {
            dropped += seen[sample] == 0;
            repeated += seen[sample] > 1 ? (uint64_t)seen[sample] - 1 : 0;
        }
        EXPECT(report.dropped == dropped && report.repeated == repeated);
        sab_plan_free(plan);
    }
}

static void Save_ReplacesAFileThatIsStillMapped(void) {
    char path[] = "/tmp/sab_test_XXXXXX";
    close(mkstemp(path));
    sab_plan *plan = a_plan(), *mapped = NULL, *newer = NULL;
    EXPECT_OK(sab_plan_save(plan, path));
    EXPECT_OK(sab_plan_file_new(path, &mapped));
    const sab_plan_options options = budget(150);
    sab_plan *other = plan_with(lengths(300), 300, &options);
    EXPECT_OK(sab_plan_save(other, path));
    int seen[500] = {0};
    sab_sampler *sampler = rank_of(mapped, 0, 1);
    walk(sampler, seen); /* the old file lives on in the map */
    EXPECT(all_are(seen, 500, 1));
    EXPECT_OK(sab_plan_file_new(path, &newer));
    EXPECT(info_of(newer).samples == 300 &&
           info_of(newer).fingerprint == info_of(other).fingerprint);
    sab_sampler_free(sampler);
    sab_plan_free(plan);
    sab_plan_free(mapped);
    sab_plan_free(newer);
    sab_plan_free(other);
    unlink(path);
}

/* A process of the same number was killed while it saved. */
static void Save_WhereScratchFilesWereLeftBehind_SavesAndLetsThemBe(void) {
    char path[] = "/tmp/sab_test_XXXXXX", scratch[64][64];
    close(mkstemp(path));
    for (int i = 0; i < 64; ++i) {
        snprintf(scratch[i], sizeof scratch[i], "%s.%ld.%d.part", path, (long)getpid(), i);
        close(open(scratch[i], O_CREAT | O_WRONLY, 0600));
    }
    sab_plan *plan = a_plan(), *again = NULL;
    EXPECT_OK(sab_plan_save(plan, path));
    EXPECT_OK(sab_plan_file_new(path, &again));
    for (int i = 0; i < 64; ++i) EXPECT(unlink(scratch[i]) == 0);
    unlink(path);
    sab_plan_free(again);
    sab_plan_free(plan);
}

static void PlanFile_OfAnotherKind_IsNamed(void) {
    sab_plan *plan = a_plan(), *again = NULL;
    size_t size = 0;
    EXPECT_OK(sab_plan_write(plan, NULL, 0, &size));
    unsigned char *image = malloc(size);
    memset(image, 0xAB, size);
    size_t needed = 0;
    /* too little room: nothing is written */
    EXPECT_FAILS(sab_plan_write(plan, image, size - 1, &needed), SAB_E_ARGUMENT, "capacity = ");
    EXPECT(needed == size && image[0] == 0xAB && image[size - 2] == 0xAB);
    EXPECT_OK(sab_plan_write(plan, image, size, &needed));
    image[12] = 12;
    EXPECT_FAILS(sab_plan_bytes_new(image, size, &again), SAB_E_FORMAT,
                 "version is 12, this library reads 11");
    image[12] = 1;
    image[8] ^= 5;
    EXPECT_FAILS(sab_plan_bytes_new(image, size, &again), SAB_E_FORMAT, "byte order");
    EXPECT_FAILS(sab_plan_bytes_new("PK\3\4 something else", 18, &again), SAB_E_FORMAT,
                 "its first bytes are not those of a plan");
#ifndef _WIN32
    EXPECT_FAILS(sab_plan_file_new("/dev/null", &again), SAB_E_IO, "regular file");
#endif
    free(image);
    sab_plan_free(plan);
}

#ifndef _WIN32

/* Every index that a plan's file names is checked when it is used, so that a file overwritten in
 * place, after its pages were verified, cannot lead outside of the caller's data. */
static void PlanFile_OverwrittenInPlace_GivesNoIndexOutOfRange(void) {
    for (int fill = 0; fill <= 0xFF; fill += 0x55) {
        char path[] = "/tmp/sab_test_XXXXXX";
        close(mkstemp(path));
        const double boundaries[] = {5, 50, 100};
        sab_plan_options options = bounded(boundaries, COUNT(boundaries), 100);
        options.oversize = SAB_OVERSIZE_SKIP;
        sab_plan *plan = plan_with(lengths(500), 500, &options), *mapped = NULL;
        EXPECT_OK(sab_plan_save(plan, path));
        EXPECT_OK(sab_plan_file_new(path, &mapped));
        sab_bionemo_options torch = SAB_BIONEMO_OPTIONS_INIT;
        sab_sampler *samplers[4] = {rank_of(mapped, 0, 1)};
        EXPECT_OK(sab_sequential_sampler_new(mapped, NULL, &samplers[1]));
        EXPECT_OK(sab_bionemo_sampler_new(mapped, &torch, &samplers[2]));
        size_t size = 0;
        EXPECT_OK(sab_plan_write(mapped, NULL, 0, &size));
        void *bytes = memset(malloc(size), fill, size);
        const int file = open(path, O_WRONLY);
        EXPECT(write(file, bytes, size) == (ssize_t)size);
        close(file);
        free(bytes);
        EXPECT_OK(sab_bionemo_sampler_new(mapped, &torch, &samplers[3]));
        for (size_t i = 0; i < COUNT(samplers); ++i) {
            sab_batch batch = SAB_BATCH_INIT;
            EXPECT_FAILS(sab_next_batch(samplers[i], &batch), SAB_E_FORMAT,
                         fill > 0 ? "must be below 500" : "not in the range of its bucket");
            sab_sampler_free(samplers[i]);
        }
        int64_t skipped[500];
        size_t count = 0;
        EXPECT(sab_plan_get_skipped(mapped, skipped, COUNT(skipped), &count) ==
               (fill > 0 ? SAB_E_FORMAT : SAB_OK));
        sab_plan_report report = SAB_PLAN_REPORT_INIT;
        EXPECT(sab_plan_get_report(mapped, NULL, NULL, &report) == SAB_E_FORMAT);
        sab_plan_free(mapped);
        sab_plan_free(plan);
        unlink(path);
    }
}

/* Reads of so large an order are prefetched. Batches are of 1 to 5,000 samples. */
static void Batches_OfALargePlan_HaveEverySampleOnceUntilItsFileChanges(void) {
    enum { MANY = (1 << 22) + 1000 };
    char path[] = "/tmp/sab_test_XXXXXX";
    close(mkstemp(path));
    uint16_t *numbers = malloc(MANY * sizeof *numbers);
    uint8_t *seen = calloc(MANY, 1);
    for (size_t i = 0; i < MANY; ++i)
        numbers[i] = (uint16_t)(i % 100000 == 0 ? 5000 : i % 256 == 0 ? 100 : 1 + i % 3);
    sab_sizes *sizes = NULL;
    sab_plan *plan = NULL, *mapped = NULL;
    const sab_plan_options options = budget(5000);
    EXPECT_OK(sab_sizes_new(numbers, MANY, SAB_UINT16, NULL, &sizes));
    EXPECT_OK(sab_plan_new(sizes, &options, &plan));
    EXPECT_OK(sab_plan_save(plan, path));
    EXPECT_OK(sab_plan_file_new(path, &mapped));
    sab_sampler *sampler = rank_of(mapped, 0, 1);
    sab_batch batch = SAB_BATCH_INIT;
    uint64_t sound = 0, fewest = MANY, most = 0;
    while (sab_next_batch(sampler, &batch) == SAB_OK) {
        double total = 0;
        for (uint64_t i = 0; i < batch.count; ++i) {
            total += numbers[batch.indices[i]];
            sound += ++seen[batch.indices[i]] == 1;
        }
        EXPECT(total == *batch.total);
        fewest = batch.count < fewest ? batch.count : fewest;
        most = batch.count > most ? batch.count : most;
    }
    EXPECT(sound == MANY && fewest == 1 && most == 5000);

    size_t size = 0;
    EXPECT_OK(sab_plan_write(mapped, NULL, 0, &size));
    const uint32_t outside[1024] = {MANY};
    const size_t pages = MANY / 1024 + 2; /* or one less: 8 bytes each, behind the order */
    const int file = open(path, O_WRONLY);
    EXPECT(pwrite(file, outside, sizeof outside, (off_t)(size - pages * 8 - sizeof outside)) ==
           sizeof outside);
    close(file);
    EXPECT_OK(sab_sampler_set_epoch(sampler, 1));
    sab_status status = SAB_OK;
    while ((status = sab_next_batch(sampler, &batch)) == SAB_OK)
        for (uint64_t i = 0; i < batch.count; ++i) EXPECT(batch.indices[i] < MANY);
    EXPECT(status == SAB_E_FORMAT);
    sab_sampler_free(sampler);
    sab_plan_free(mapped);
    sab_plan_free(plan);
    sab_sizes_free(sizes);
    free(numbers), free(seen);
    unlink(path);
}

#endif

/* A batch has one sample, so no buckets reach the target. Buckets of 16 batches would be 131,072.
 */
static void Buckets_OfManyBatches_AreAtMost65536AndFewMore(void) {
    enum { MANY = 1 << 21 };
    float *numbers = malloc(MANY * sizeof *numbers);
    for (size_t i = 0; i < MANY; ++i) numbers[i] = 60 + 40 * (float)i / MANY;
    sab_sizes *sizes = NULL;
    sab_plan *plan = NULL;
    const sab_plan_options options = budget(100);
    EXPECT_OK(sab_sizes_new(numbers, MANY, SAB_FLOAT32, NULL, &sizes));
    EXPECT_OK(sab_plan_new(sizes, &options, &plan));
    const sab_plan_info info = info_of(plan);
    EXPECT(info.batches == MANY && info.buckets > 60000);
    EXPECT(info.buckets < 65536 * info.batches / info.lower_bound * 11 / 10);
    sab_plan_free(plan);
    sab_sizes_free(sizes);
    free(numbers);
}

/* Made by so many threads, as bytes. */
static size_t made_by(uint64_t threads, const sab_sizes *sizes, sab_plan_options options,
                      void **bytes) {
    sab_plan *plan = NULL;
    size_t size = 0;
    options.threads = threads;
    EXPECT_OK(sab_plan_new(sizes, &options, &plan));
    EXPECT_OK(sab_plan_write(plan, NULL, 0, &size));
    *bytes = malloc(size);
    EXPECT_OK(sab_plan_write(plan, *bytes, size, &size));
    sab_plan_free(plan);
    return size;
}

/* Whole numbers are counted, fractions are sorted by their digits. */
static void Threads_OfAnyNumber_MakeTheSamePlan(void) {
    enum { MANY = ROUNDS_OF(600000) };
    const uint64_t threads[] = {0, 2, 3, 8, SAB_MAX_PLAN_THREADS};
    double *numbers = malloc(MANY * sizeof *numbers);
    int64_t *ids = malloc(MANY * sizeof *ids);
    for (int kind = 0; kind < 4; ++kind) {
        for (size_t i = 0; i < MANY; ++i) {
            const size_t any = i * 2654435761u % 1000003;
            ids[i] = (int64_t)(any % 3);
            numbers[i] = (double)(any % 700) + (kind == 1 ? (double)(any % 16) / 16 : 1);
            if (kind == 3) numbers[i] = (double)(any % 140000);
        }
        sab_sizes *sizes = NULL;
        EXPECT_OK(sab_sizes_new(numbers, MANY, SAB_FLOAT64, NULL, &sizes));
        sab_plan_options options = budget(600);
        options.oversize = SAB_OVERSIZE_SKIP;
        if (kind == 2) options.separate_by = ids, options.separate_by_count = MANY;
        void *alone = NULL, *together = NULL;
        const size_t size = made_by(1, sizes, options, &alone);
        for (size_t t = 0; t < COUNT(threads); ++t) {
            EXPECT(made_by(threads[t], sizes, options, &together) == size);
            EXPECT(memcmp(alone, together, size) == 0);
            free(together);
        }
        free(alone);
        sab_sizes_free(sizes);
    }
    free(numbers), free(ids);
}

/* The numbers cut into parts of several types. Every second part has a stride. */
static sab_sizes *in_parts(const double *numbers, const sab_dtype *types, size_t type_count) {
    enum { MANY = 200000, PARTS = 41 };
    static int64_t whole[PARTS][2 * MANY / PARTS + 2];
    static double real[PARTS][2 * MANY / PARTS + 2];
    sab_sizes *parts[PARTS] = {NULL}, *sizes = NULL;
    for (size_t p = 0; p < PARTS; ++p) {
        const size_t begin = MANY * p / PARTS, end = MANY * (p + 1) / PARTS;
        const size_t step = p % 2 + 1;
        const sab_dtype type = types[p % type_count];
        sab_sizes_options options = SAB_SIZES_OPTIONS_INIT;
        options.stride = (int64_t)(step * sizeof(double));
        for (size_t i = begin; i < end; ++i) {
            whole[p][(i - begin) * step] = (int64_t)numbers[i];
            real[p][(i - begin) * step] = numbers[i];
        }
        EXPECT_OK(sab_sizes_new(type == SAB_FLOAT64 ? (void *)real[p] : (void *)whole[p],
                                end - begin, type, &options, &parts[p]));
    }
    EXPECT_OK(sab_sizes_join_new((const sab_sizes *const *)parts, PARTS, &sizes));
    for (size_t p = 0; p < PARTS; ++p) sab_sizes_free(parts[p]);
    return sizes;
}

static void Sizes_InParts_MakeThePlanOfOneArray(void) {
    enum { MANY = 200000 };
    const sab_dtype reals[] = {SAB_FLOAT64}, both[] = {SAB_INT64, SAB_FLOAT64, SAB_UINT64},
                    wholes[] = {SAB_INT64, SAB_UINT64};
    double *numbers = malloc(MANY * sizeof *numbers);
    for (int kind = 0; kind < 3; ++kind) {
        for (size_t i = 0; i < MANY; ++i) {
            const size_t any = i * 2654435761u % 1000003;
            numbers[i] = (double)(any % (kind == 2 ? 500000 : 700)); /* 2: sorted by digits */
        }
        sab_plan_options options = budget(600);
        options.oversize = SAB_OVERSIZE_SKIP;
        sab_sizes *sizes = NULL;
        void *alone = NULL, *together = NULL;
        EXPECT_OK(sab_sizes_new(numbers, MANY, SAB_FLOAT64, NULL, &sizes));
        const size_t size = made_by(1, sizes, options, &alone);
        sab_sizes_free(sizes);
        for (int types = 0; types < 3; ++types) {
            sizes = types == 0   ? in_parts(numbers, reals, COUNT(reals))
                    : types == 1 ? in_parts(numbers, both, COUNT(both))
                                 : in_parts(numbers, wholes, COUNT(wholes));
            for (uint64_t threads = 1; threads <= 3; ++threads) {
                EXPECT(made_by(threads, sizes, options, &together) == size);
                EXPECT(memcmp(alone, together, size) == 0);
                free(together);
            }
            sab_sizes_free(sizes);
        }
        free(alone);
    }
    free(numbers);
}

/* As numbers of 64 bits they would be sizes, or others. */
static void Sizes_InPartsThatBreakARule_AreNamed(void) {
    const uint64_t large[] = {5, UINT64_C(1) << 63, (UINT64_C(1) << 53) + 1};
    const int64_t negative[] = {7, -7};
    const double fractions[] = {0.5, NAN};
    const struct {
        const void *numbers;
        size_t count;
        sab_dtype type;
        const char *words;
    } cases[] = {{large, 1, SAB_UINT64, NULL},
                 {large, 2, SAB_UINT64, "sizes[3] = 9223372036854775808: must be at most 2^53"},
                 {large + 2, 1, SAB_UINT64, "sizes[2] = 9007199254740993: must be at most 2^53"},
                 {negative, 2, SAB_INT64, "sizes[3] = -7: must not be negative"},
                 {fractions, 2, SAB_FLOAT64, "sizes[3] = nan: must be a number"}};
    const sab_plan_options options = budget(600);
    for (size_t i = 0; i < COUNT(cases); ++i)
        for (int has_fraction = 0; has_fraction < 2; ++has_fraction) {
            const double first[] = {2, has_fraction ? 2.5 : 3};
            const int32_t whole_first[] = {2, 3};
            sab_sizes *parts[2] = {NULL}, *sizes = NULL;
            sab_plan *plan = NULL;
            if (has_fraction)
                EXPECT_OK(sab_sizes_new(first, 2, SAB_FLOAT64, NULL, &parts[0]));
            else
                EXPECT_OK(sab_sizes_new(whole_first, 2, SAB_INT32, NULL, &parts[0]));
            EXPECT_OK(
                sab_sizes_new(cases[i].numbers, cases[i].count, cases[i].type, NULL, &parts[1]));
            EXPECT_OK(sab_sizes_join_new((const sab_sizes *const *)parts, 2, &sizes));
            if (cases[i].words == NULL)
                EXPECT_OK(sab_plan_new(sizes, &options, &plan));
            else
                EXPECT_FAILS(sab_plan_new(sizes, &options, &plan), SAB_E_ARGUMENT, cases[i].words);
            sab_plan_free(plan);
            sab_sizes_free(sizes);
            sab_sizes_free(parts[0]), sab_sizes_free(parts[1]);
        }
}

static void Threads_NameTheFirstWrongSize_AndCanBeCancelled(void) {
    enum { MANY = 300000 };
    float *numbers = malloc(MANY * sizeof *numbers);
    for (size_t i = 0; i < MANY; ++i) numbers[i] = (float)(i % 50 + 1);
    sab_sizes *sizes = NULL;
    EXPECT_OK(sab_sizes_new(numbers, MANY, SAB_FLOAT32, NULL, &sizes));
    sab_plan_options options = budget(600);
    sab_plan *plan = NULL;
    options.threads = 4;
    options.progress = stop_at_half;
    EXPECT_FAILS(sab_plan_new(sizes, &options, &plan), SAB_E_CANCELLED, "cancelled");
    options.progress = NULL;
    numbers[170000] = numbers[290000] = -1;
    EXPECT_FAILS(sab_plan_new(sizes, &options, &plan), SAB_E_ARGUMENT, "sizes[170000] = -1");
    EXPECT(plan == NULL);
    sab_sizes_free(sizes);
    free(numbers);
}

static void Plan_BadOptions_AreNamed(void) {
    const double boundaries[] = {1, 5, 5}, not_a_number[] = {1, NAN};
    const uint64_t zero[] = {0}, two[] = {1, 2};
    const double weights[] = {1, 1};
    const sab_cost_term terms[] = {{50, 0, POWERS(0)}, {-9, 1, POWERS(0)}, {1, 1, POWERS(1)}};
    sab_cost *two_columns = NULL, *falling = NULL;
    EXPECT_OK(sab_cost_padded_new(weights, 2, &two_columns));
    EXPECT_OK(sab_cost_terms_new(terms, COUNT(terms), &falling));
    const sab_budget nine[9] = {{NULL, 300}, {NULL, -3}};
    sab_sizes *sizes = sizes_of(lengths(50), 50);
    sab_plan *plan = NULL;
    sab_plan_options options;
#define REFUSED(words, ...)                                                        \
    do {                                                                           \
        options = budget(300);                                                     \
        __VA_ARGS__;                                                               \
        EXPECT_FAILS(sab_plan_new(sizes, &options, &plan), SAB_E_ARGUMENT, words); \
        EXPECT(plan == NULL);                                                      \
    } while (0)
    REFUSED("a budget or a batch size must be given", options.budget_count = 0);
    REFUSED("options.budgets[0].limit = 0", SET_BUDGET(options, 0));
    REFUSED("options.budgets[0].limit = -1", SET_BUDGET(options, -1));
    REFUSED("options.budgets[0].limit = nan", SET_BUDGET(options, NAN));
    REFUSED("options.budgets[0].limit = inf", SET_BUDGET(options, INFINITY));
    REFUSED("options.threads = 257: must be at most 256", options.threads = 257);
    REFUSED("no sample is left", SET_BUDGET(options, 0.5); options.oversize = SAB_OVERSIZE_SKIP);
    REFUSED("bucket_rule = 4", options.bucket_rule = 4);
    REFUSED("bucket_rule = -1", options.bucket_rule = -1);
    REFUSED("padding_target = -1", options.padding_target = -1);
    REFUSED("padding_target = 0.5: must not be given with SAB_BUCKETS_BOUNDARIES",
            options.padding_target = 0.5;
            options.bucket_rule = SAB_BUCKETS_OPTIMAL; options.bucket_count = 3);
    REFUSED("padding_target = 1", options.padding_target = 1);
    REFUSED("padding_target = nan", options.padding_target = NAN);
    REFUSED("boundary_count = 1: must be at least 2", options.bucket_rule = SAB_BUCKETS_BOUNDARIES;
            options.boundaries = boundaries; options.boundary_count = 1);
    REFUSED("boundary_count = 0", options.bucket_rule = SAB_BUCKETS_BOUNDARIES);
    REFUSED("5 stands there twice", options.bucket_rule = SAB_BUCKETS_BOUNDARIES;
            options.boundaries = boundaries; options.boundary_count = 3);
    REFUSED("boundaries[1] = nan", options.bucket_rule = SAB_BUCKETS_BOUNDARIES;
            options.boundaries = not_a_number; options.boundary_count = 2);
    REFUSED("boundaries = NULL", options.bucket_rule = SAB_BUCKETS_BOUNDARIES;
            options.boundary_count = 2);
    REFUSED("boundary_count = 2: goes with", options.boundaries = boundaries;
            options.boundary_count = 2);
    REFUSED("bucket_count = 0", options.bucket_rule = SAB_BUCKETS_OPTIMAL);
    REFUSED("bucket_count = 3: goes with", options.bucket_count = 3);
    REFUSED("bucket_batches = 3: must not be given with", options.bucket_rule = SAB_BUCKETS_OPTIMAL;
            options.bucket_count = 3; options.bucket_batches = 3);
    REFUSED("batch_sizes[0] = 0", options.batch_sizes = zero; options.batch_size_count = 1);
    REFUSED("batch_size_count = 2", options.batch_sizes = two; options.batch_size_count = 2);
    REFUSED("batch_sizes = NULL", options.batch_size_count = 1);
    REFUSED("length_multiples[0] = -8",
            (options.length_multiples = one_number(-8), options.length_multiple_count = 1));
    REFUSED("length_multiples[0] = nan",
            (options.length_multiples = one_number(NAN), options.length_multiple_count = 1));
    REFUSED("options.budgets = NULL", options.budgets = NULL);
    REFUSED("options.budget_count = 9: must be at most 8", options.budgets = nine;
            options.budget_count = 9);
    REFUSED("options.budgets[1].limit = -3", options.budgets = nine; options.budget_count = 2);
    REFUSED("options.budgets[0].cost: uses 2 columns: must use at most 1",
            SET_BUDGET_OF(options, two_columns, 300));
    REFUSED("more than the cost's constant term, 50", SET_BUDGET_OF(options, falling, 50));
    REFUSED("options.budgets[0].cost: cost(2, 1) = 34 is less than",
            SET_BUDGET_OF(options, falling, 300));
    REFUSED("tail = 3", options.tail = 3);
    REFUSED("oversize = 3", options.oversize = 3);
    REFUSED("in a batch of one", SET_BUDGET(options, 20); options.oversize = SAB_OVERSIZE_ERROR);
    EXPECT_FAILS(sab_plan_new(NULL, &options, &plan), SAB_E_ARGUMENT, "sizes = NULL");
    EXPECT_FAILS(sab_plan_new(sizes, NULL, &plan), SAB_E_ARGUMENT, "options = NULL");
    EXPECT_FAILS(sab_plan_new(sizes, &options, NULL), SAB_E_ARGUMENT, "plan = NULL");
    sab_sizes_free(sizes);
    sab_cost_free(two_columns);
    sab_cost_free(falling);
}

static void Plan_OptionsThatDoNotGoTogether_AreNamed(void) {
    sab_sizes *sizes = sizes_of(lengths(50), 50);
    sab_plan *plan = NULL;
    sab_plan_options options;
    REFUSED("max_shapes = 1", (options.max_shapes = one_count(1), options.max_shape_count = 1));
    REFUSED("max_shape_count = 1: must not be given with", options.max_shapes = one_count(3),
            options.max_shape_count = 1;
            options.bucket_rule = SAB_BUCKETS_OPTIMAL; options.bucket_count = 2);
    REFUSED("bucket_batches = 4: must not be given with", options.max_shapes = one_count(3),
            options.max_shape_count = 1;
            options.bucket_batches = 4);
    REFUSED("bucket_batches = 4: must not be given with", options.shapes = SAB_SHAPES_AUTO;
            options.bucket_batches = 4);
    REFUSED("padding_target = 0.5: must not be given with", options.max_shapes = one_count(3),
            options.max_shape_count = 1;
            options.padding_target = 0.5);
    REFUSED("batch_size_multiple = 2: goes with a budget only", options.budget_count = 0;
            options.budgets = NULL; options.batch_sizes = one_count(3);
            options.batch_size_count = 1; options.batch_size_multiple = 2);
    sab_sizes_free(sizes);
}

static int32_t failing_cost(void *ctx, uint64_t count, const double *lengths, const double *totals,
                            size_t columns, double *cost) {
    (void)totals, (void)columns;
    *cost = (double)count * lengths[0];
    return ctx == NULL ? 31 : 0;
}

static int32_t decreasing_cost(void *ctx, uint64_t count, const double *lengths,
                               const double *totals, size_t columns, double *cost) {
    (void)ctx, (void)lengths, (void)totals, (void)columns;
    *cost = 1000 - (double)count;
    return 0;
}

static int32_t infinite_cost(void *ctx, uint64_t count, const double *lengths, const double *totals,
                             size_t columns, double *cost) {
    (void)ctx, (void)lengths, (void)totals, (void)columns;
    *cost = count > 2 ? INFINITY : 1;
    return 0;
}

static void CostCallback_FailsLiesOrWorks(void) {
    sab_sizes *sizes = sizes_of(lengths(50), 50);
    sab_plan *plan = NULL;
    sab_plan_options options = budget(5000);
    sab_cost *costs[] = {new_callback(failing_cost, NULL), new_callback(decreasing_cost, NULL),
                         new_callback(infinite_cost, NULL), new_callback(failing_cost, &options)};
    SET_BUDGET_OF(options, costs[0], 5000);
    EXPECT_FAILS(sab_plan_new(sizes, &options, &plan), SAB_E_CALLBACK, "code 31");
    EXPECT(sab_last_error_code() == 31);
    SET_BUDGET_OF(options, costs[1], 5000);
    EXPECT_FAILS(sab_plan_new(sizes, &options, &plan), SAB_E_ARGUMENT, "must not be less than");
    SET_BUDGET_OF(options, costs[2], 5000);
    EXPECT_FAILS(sab_plan_new(sizes, &options, &plan), SAB_E_ARGUMENT, "must be finite");
    SET_BUDGET_OF(options, costs[3], 5000);
    EXPECT_OK(sab_plan_new(sizes, &options, &plan));
    sab_plan_free(plan);
    options.progress = stop_at_half;
    EXPECT_FAILS(sab_plan_new(sizes, &options, &plan), SAB_E_CANCELLED, "code 55");
    for (size_t i = 0; i < COUNT(costs); ++i) sab_cost_free(costs[i]);
    sab_sizes_free(sizes);
}

static void Plan_SaysWhatItHolds(void) {
    const int32_t numbers[] = {3, 1, 2, 3, 50};
    const double boundaries[] = {4, 1, 3}; /* sorted for the caller */
    sab_plan_options options = budget(6);
    options.bucket_rule = SAB_BUCKETS_BOUNDARIES;
    options.boundaries = boundaries;
    options.boundary_count = 3;
    options.oversize = SAB_OVERSIZE_SKIP;
    sab_plan *plan = plan_with(numbers, 5, &options);
    sab_plan_info info = SAB_PLAN_INFO_INIT;
    EXPECT_OK(sab_plan_get_info(plan, &info));
    EXPECT(info.samples == 5 && info.skipped == 1 && info.buckets == 2 && info.batches == 2 &&
           info.total == 9 && info.lower_bound == 2 && info.budget_count == 1);
    sab_bucket bucket = SAB_BUCKET_INIT;
    EXPECT_OK(sab_plan_get_bucket(plan, 0, &bucket));
    EXPECT(*bucket.lower == 1 && *bucket.upper == 3 && *bucket.shortest == 1 &&
           *bucket.longest == 2 && bucket.samples == 2 && bucket.batch_size == 3 &&
           bucket.batches == 1 && *bucket.total == 3 && bucket.cost == 4);
    EXPECT_FAILS(sab_plan_get_bucket(plan, 2, &bucket), SAB_E_ARGUMENT, "index = 2");
    int64_t skipped[2] = {-1, -1};
    size_t count = 0;
    EXPECT_OK(sab_plan_get_skipped(plan, skipped, 2, &count));
    EXPECT(count == 1 && skipped[0] == 4 && skipped[1] == -1);
    EXPECT_OK(sab_plan_get_skipped(plan, NULL, 0, &count));
    EXPECT_FAILS(sab_plan_get_skipped(plan, NULL, 1, &count), SAB_E_ARGUMENT, "indices = NULL");
    EXPECT_FAILS(sab_plan_get_skipped(plan, skipped, 1, NULL), SAB_E_ARGUMENT, "count = NULL");
    sab_plan_report report = SAB_PLAN_REPORT_INIT;
    EXPECT_OK(sab_plan_get_report(plan, NULL, NULL, &report));
    EXPECT(report.samples == 5 && report.skipped == 1 && report.batches == 2 && report.steps == 2 &&
           report.padded_total == 10 && fabs(report.padding - 0.1) < 1e-12);
    EXPECT(report.shapes == 2 && report.meet_again == 1 && report.partners == 1);
    const sab_sampler_options beyond = ranks(3, 2);
    EXPECT_FAILS(sab_plan_get_report(plan, &beyond, NULL, &report), SAB_E_ARGUMENT,
                 "sampler.rank = 3: must be below the world size, 2");
    EXPECT(strcmp(sab_last_error_argument(), "sampler.rank") == 0);
    EXPECT_FAILS(sab_plan_get_report(plan, NULL, a_progress(stop_at_half, NULL), &report),
                 SAB_E_CANCELLED, "code 55");
    sab_plan_free(plan);
    sab_plan_free(NULL);
}

static void Samples_ThatOnlyTheirPaddingMakesTooLarge_AreRefused(void) {
    const int32_t numbers[] = {3, 9, 5};
    sab_sizes *sizes = sizes_of(numbers, 3);
    sab_plan_options options = budget(10);
    options.length_multiples = one_number(8), options.length_multiple_count = 1;
    sab_plan *plan = NULL;
    EXPECT_FAILS(sab_plan_new(sizes, &options, &plan), SAB_E_ARGUMENT,
                 "sizes[1] = 9: must cost at most the budget, 10 (lengths are rounded up to "
                 "multiples of 8), in a batch of one");
    options.oversize = SAB_OVERSIZE_SKIP;
    plan = plan_with(numbers, 3, &options);
    sab_plan_info info = SAB_PLAN_INFO_INIT;
    EXPECT_OK(sab_plan_get_info(plan, &info));
    EXPECT(info.skipped == 1 && info.batches == 2);
    sab_plan_free(plan);
    sab_sizes_free(sizes);
}

static void MaxShapes_HoldsForEveryNumber(void) {
    for (size_t shapes = 2; shapes <= 8; ++shapes) {
        sab_plan_options options = budget(300);
        options.max_shapes = one_count(shapes), options.max_shape_count = 1;
        sab_plan *plan = plan_with(lengths(1000), 1000, &options);
        sab_plan_report report = SAB_PLAN_REPORT_INIT;
        EXPECT_OK(sab_plan_get_report(plan, NULL, NULL, &report));
        EXPECT(report.shapes <= shapes && report.batches > 0);
        sab_plan_free(plan);
    }
}

static void PlanFile_IsReadBack_AndEveryDamageRefused(void) {
    const int32_t numbers[] = {3, 1, 2, 3, 7, 7};
    sab_plan_options options = budget(9);
    sab_plan *plan = plan_with(numbers, 6, &options), *again = NULL;
    sab_plan_info info = SAB_PLAN_INFO_INIT, other = SAB_PLAN_INFO_INIT;
    EXPECT_OK(sab_plan_get_info(plan, &info));
    size_t size = 0;
    EXPECT_OK(sab_plan_write(plan, NULL, 0, &size));
    unsigned char *image = malloc(size), *damaged = malloc(size);
    EXPECT_OK(sab_plan_write(plan, image, size, &size));
    EXPECT_OK(sab_plan_bytes_new(image, size, &again));
    EXPECT_OK(sab_plan_get_info(again, &other));
    EXPECT(*info.limits == 9 && *other.limits == 9);
    other.limits = info.limits;
    EXPECT(memcmp(&info, &other, sizeof info) == 0);
    sab_plan_free(again);
    for (size_t shorter = 0; shorter < size; ++shorter)
        EXPECT(sab_plan_bytes_new(image, shorter, &again) == SAB_E_FORMAT && again == NULL);
    for (size_t bit = 0; bit < 8 * size; ++bit) {
        memcpy(damaged, image, size);
        damaged[bit / 8] ^= (unsigned char)(1u << bit % 8);
        EXPECT(sab_plan_bytes_new(damaged, size, &again) == SAB_E_FORMAT && again == NULL);
    }
    char path[] = "/tmp/sab_test_XXXXXX";
    close(mkstemp(path));
    EXPECT_OK(sab_plan_save(plan, path));
    EXPECT_OK(sab_plan_file_new(path, &again));
    sab_sampler *sampler = rank_of(again, 0, 1);
    sab_plan_free(again); /* the sampler keeps the map */
    int seen[6] = {0};
    walk(sampler, seen);
    EXPECT(all_are(seen, 6, 1));
    sab_sampler_free(sampler);
    EXPECT(truncate(path, (off_t)size - 1) == 0);
    EXPECT_FAILS(sab_plan_file_new(path, &again), SAB_E_FORMAT, "has");
    unlink(path);
    EXPECT_FAILS(sab_plan_file_new(path, &again), SAB_E_IO, path);
    EXPECT_FAILS(sab_plan_save(plan, "/nowhere/at/all"), SAB_E_IO, "/nowhere/at/all");
    EXPECT_FAILS(sab_plan_save(plan, NULL), SAB_E_ARGUMENT, "path = NULL");
    EXPECT_FAILS(sab_plan_file_new(NULL, &again), SAB_E_ARGUMENT, "path = NULL");
    EXPECT_FAILS(sab_plan_bytes_new(NULL, 4, &again), SAB_E_ARGUMENT, "data = NULL");
    EXPECT_FAILS(sab_plan_write(plan, NULL, 9, &size), SAB_E_ARGUMENT, "buffer = NULL");
    EXPECT_FAILS(sab_plan_write(plan, NULL, 0, NULL), SAB_E_ARGUMENT, "size = NULL");
    free(image);
    free(damaged);
    sab_plan_free(plan);
}

static uint64_t plan_fingerprint(const sab_plan *plan) {
    sab_plan_info info = SAB_PLAN_INFO_INIT;
    EXPECT_OK(sab_plan_get_info(plan, &info));
    return info.fingerprint;
}

/* Where a section of the image of a plan of one column begins. See docs/internals/formats.md. */
struct section {
    const char *name;
    size_t offset;
};

static void find_sections(const unsigned char *image, size_t size, struct section sections[13]) {
    /* budgets, terms, distinct sizes, buckets, runs, shared runs, second buckets and shared runs,
     * samples */
    uint64_t numbers[9];
    memcpy(numbers, image + 32, sizeof numbers);
    const uint64_t bytes[] = {72,
                              numbers[0] * 16,
                              numbers[1] * 48,
                              numbers[3] * 56,
                              numbers[3] * 48,
                              numbers[5] * 24,
                              numbers[6] * 56,
                              numbers[6] * 48,
                              numbers[7] * 24,
                              numbers[2] * 8,
                              (numbers[2] + 1) * 4,
                              numbers[8] * 4,
                              8};
    const char *const names[] = {"columns",        "budgets",        "cost terms",
                                 "buckets",        "lengths",        "shared runs",
                                 "second buckets", "second lengths", "second shared runs",
                                 "distinct sizes", "first offsets",  "order",
                                 "page checksums"};
    size_t offset = 392;
    for (int i = 0; i < 13; offset += bytes[i++]) {
        sections[i].name = names[i];
        sections[i].offset = offset;
    }
    EXPECT(offset == size);
}

static void write_file(const char *path, const unsigned char *image, size_t size) {
    FILE *const file = fopen(path, "wb");
    EXPECT(file != NULL && fwrite(image, 1, size, file) == size && fclose(file) == 0);
}

/* The facts of a plan are known without its buckets. */
static void fails_without_buckets(const sab_plan *plan, const char *message) {
    sab_plan_info info = SAB_PLAN_INFO_INIT;
    sab_bucket bucket = SAB_BUCKET_INIT;
    sab_plan_report report = SAB_PLAN_REPORT_INIT;
    sab_sampler *sampler = NULL;
    size_t count = 0;
    EXPECT_OK(sab_plan_get_info(plan, &info));
    EXPECT(info.samples == 6 && info.buckets >= 1);
    for (int i = 0; i < 2; ++i) {
        EXPECT_FAILS(sab_plan_get_bucket(plan, 0, &bucket), SAB_E_FORMAT, message);
        EXPECT_FAILS(sab_bucket_sampler_new(plan, NULL, &sampler), SAB_E_FORMAT, message);
        EXPECT_FAILS(sab_sequential_sampler_new(plan, NULL, &sampler), SAB_E_FORMAT, message);
        EXPECT_FAILS(sab_costliest_sampler_new(plan, 5, &sampler), SAB_E_FORMAT, message);
        EXPECT_FAILS(sab_plan_get_skipped(plan, NULL, 0, &count), SAB_E_FORMAT, message);
        EXPECT_FAILS(sab_plan_get_report(plan, NULL, NULL, &report), SAB_E_FORMAT, message);
    }
}

static void DamagedSection_IsNamed_AndItsBatchesAreChecked(void) {
    const int32_t numbers[] = {3, 1, 2, 3, 7, 7};
    sab_plan_options options = budget(9);
    sab_plan *plan = plan_with(numbers, 6, &options), *opened = NULL, *copy = NULL;
    EXPECT_OK(sab_plan_check(plan));
    size_t size = 0;
    EXPECT_OK(sab_plan_write(plan, NULL, 0, &size));
    unsigned char *const image = malloc(size);
    EXPECT_OK(sab_plan_write(plan, image, size, &size));
    struct section sections[13];
    find_sections(image, size, sections);
    char path[] = "/tmp/sab_test_XXXXXX";
    close(mkstemp(path));
    image[64] ^= 1;
    write_file(path, image, size);
    EXPECT_FAILS(sab_plan_file_new(path, &opened), SAB_E_FORMAT, "header is damaged");
    image[64] ^= 1;
    for (int i = 0; i < 13; ++i) {
        if (i >= 6 && i < 9) continue; /* a plan so small has no second buckets */
        unsigned char *const byte = image + sections[i].offset + 3;
        *byte ^= 0x80; /* makes numbers of 4 bytes large, and numbers of 8 bytes a little other */
        write_file(path, image, size);
        char message[64] = "do not have their checksum"; /* a page, whose bytes are named */
        if (i < 6 || i == 12)
            snprintf(message, sizeof message, "section \"%s\" is damaged", sections[i].name);
        if (i < 3) {
            EXPECT_FAILS(sab_plan_file_new(path, &opened), SAB_E_FORMAT, message);
        } else {
            EXPECT_OK(sab_plan_file_new(path, &opened));
            EXPECT_FAILS(sab_plan_check(opened), SAB_E_FORMAT, message);
            EXPECT_FAILS(sab_plan_copy_new(opened, &copy), SAB_E_FORMAT, message);
        }
        if (i >= 3 && i < 6) {
            fails_without_buckets(opened, message);
#ifndef _WIN32
            *byte ^= 0x80;
            write_file(path, image, size); /* in place: each call reads the buckets again */
            sab_sampler_free(rank_of(opened, 0, 1));
            *byte ^= 0x80;
#endif
            sab_plan_free(opened);
        } else if (i >= 6) {
            sab_sampler *const sampler = rank_of(opened, 0, 1);
            sab_batch batch = SAB_BATCH_INIT;
            EXPECT_FAILS(sab_next_batch(sampler, &batch), SAB_E_FORMAT,
                         "do not have their checksum");
            sab_sampler_free(sampler);
            sab_plan_free(opened);
        }
        *byte ^= 0x80;
    }
    write_file(path, image, size);
    EXPECT_OK(sab_plan_file_new(path, &opened));
    EXPECT_OK(sab_plan_check(opened));
    EXPECT_OK(sab_plan_copy_new(opened, &copy));
    sab_plan_free(opened);
    unlink(path);
    EXPECT(plan_fingerprint(copy) == plan_fingerprint(plan));
    int seen[6] = {0};
    sab_sampler *const sampler = rank_of(copy, 0, 1);
    sab_plan_free(copy);
    walk(sampler, seen);
    EXPECT(all_are(seen, 6, 1));
    sab_sampler_free(sampler);
    EXPECT_FAILS(sab_plan_check(NULL), SAB_E_ARGUMENT, "plan = NULL");
    EXPECT_FAILS(sab_plan_copy_new(NULL, &copy), SAB_E_ARGUMENT, "plan = NULL");
    free(image);
    sab_plan_free(plan);
}

/* Whether both samplers, of the same plan, have the same batches up to an error of the first one.
 */
static bool has_the_same_batches(sab_sampler *mapped, sab_sampler *sound, uint64_t *equal) {
    for (;;) {
        sab_batch a = SAB_BATCH_INIT, b = SAB_BATCH_INIT;
        const sab_status status = sab_next_batch(mapped, &a);
        if (status == SAB_E_FORMAT) return true;
        EXPECT(status == sab_next_batch(sound, &b));
        if (status == SAB_END) return true;
        if (a.count != b.count || a.id != b.id) return false;
        if (memcmp(a.indices, b.indices, a.count * sizeof *a.indices) != 0) return false;
        for (uint32_t j = 0; j < a.columns; ++j)
            if (a.total[j] != b.total[j] || a.longest[j] != b.longest[j] ||
                a.padded_length[j] != b.padded_length[j])
                return false;
        ++*equal;
    }
}

/* Sizes of 1 to 3 or of any fraction, of one column or two. Both plans have many pages. */
static sab_plan *plan_of_pages(bool has_few_sizes, size_t columns) {
    enum { MANY = 10000 };
    static double numbers[2][MANY];
    sab_sizes *sizes[2], *all = NULL;
    sab_plan *plan = NULL;
    for (size_t j = 0; j < columns; ++j) {
        for (size_t i = 0; i < MANY; ++i)
            numbers[j][i] = has_few_sizes ? (double)(1 + (i * 7 + j) % 3)
                                          : 1 + fmod((double)i * 0.618034 + (double)j, 9);
        EXPECT_OK(sab_sizes_new(numbers[j], MANY, SAB_FLOAT64, NULL, &sizes[j]));
    }
    EXPECT_OK(sab_sizes_columns_new((const sab_sizes *const *)sizes, NULL, columns, &all));
    const sab_plan_options options = budget(200);
    EXPECT_OK(sab_plan_new(all, &options, &plan));
    for (size_t j = 0; j < columns; ++j) sab_sizes_free(sizes[j]);
    sab_sizes_free(all);
    return plan;
}

/* No damage behind the header changes a batch: it is an error of a batch that reads it. */
static void DamagedByte_OfAMappedPlan_ChangesNoBatch(void) {
    char path[] = "/tmp/sab_test_XXXXXX";
    close(mkstemp(path));
    uint64_t equal = 0;
    for (int kind = 0; kind < 4; ++kind) {
        sab_plan *plan = plan_of_pages(kind % 2 == 0, 1 + kind / 2), *mapped = NULL;
        size_t size = 0;
        EXPECT_OK(sab_plan_write(plan, NULL, 0, &size));
        unsigned char *const image = malloc(size);
        EXPECT_OK(sab_plan_write(plan, image, size, &size));
        for (size_t at = 352, step = 1; at < size; at += step = (step * 5 + 3) % 2003) {
            image[at] ^= 1;
            write_file(path, image, size);
            image[at] ^= 1;
            sab_sampler *damaged = NULL;
            if (sab_plan_file_new(path, &mapped) != SAB_OK) continue;
            if (sab_bucket_sampler_new(mapped, NULL, &damaged) == SAB_OK) {
                sab_sampler *sound = NULL;
                EXPECT_OK(sab_bucket_sampler_new(plan, NULL, &sound));
                EXPECT(has_the_same_batches(damaged, sound, &equal));
                sab_sampler_free(sound);
                sab_sampler_free(damaged);
            }
            sab_plan_free(mapped);
        }
        free(image);
        sab_plan_free(plan);
    }
    EXPECT(equal > 1000); /* some batches come before the error of another */
    unlink(path);
}

int main(void) {
    RUN(DamagedByte_OfAMappedPlan_ChangesNoBatch);
    RUN(DamagedSection_IsNamed_AndItsBatchesAreChecked);
    RUN(Buckets_OfManyBatches_AreAtMost65536AndFewMore);
    RUN(Threads_OfAnyNumber_MakeTheSamePlan);
    RUN(Sizes_InParts_MakeThePlanOfOneArray);
    RUN(Sizes_InPartsThatBreakARule_AreNamed);
    RUN(Threads_NameTheFirstWrongSize_AndCanBeCancelled);
    RUN(Boundaries_IncludeTheLowerAndNotTheUpper);
    RUN(Boundaries_MayBeEmptyOrInfinite);
    RUN(BatchSizes_OneForAllOrOneABucket);
    RUN(BatchSize_LargerThanAnyPlan_IsOneBatch);
    RUN(BucketBatches_OfAnyNumber_AreAccepted);
    RUN(Optimal_PadsAsLittleAsAnyCutCan);
    RUN(Auto_KeepsPaddingAndBatchesUnderTheTarget);
    RUN(Auto_MeetsTheTarget_WhereAllSamplesOfAnIdAreLeftOut);
    RUN(BatchSize_FollowsTheBudgetAndItsLimits);
    RUN(Cost_DecidesWhatTheBudgetPaysFor);
    RUN(SeveralBudgets_AllHold);
    RUN(SavedPlan_KeepsItsBudgets);
    RUN(SizeZero_CostsWhatTheCostOfLengthZeroIs);
    RUN(Tails_AreKeptDroppedOrFilled);
    RUN(TailDrop_OfAllSamples_IsRefused);
    RUN(TailDrop_LeavesOthersOutInEachEpoch);
    RUN(TailWrap_RepeatsNoSampleTwiceOver);
    RUN(Oversize_IsSkippedRefusedOrAlone);
    RUN(MaxShapes_CountOversizeSinglesToo);
    RUN(Shapes_AreListedCostliestFirst);
    RUN(ShapesAuto_AreTheFewestThatMeetTheTarget);
    RUN(LowerBound_IsTheTotalOverTheBudget);
    RUN(LowerBound_IsAtLeastTheSamplesOverTheLargestBatch);
    RUN(Fingerprint_TellsPlansApart);
    RUN(Report_AgreesWithAWalk);
    RUN(Report_CountsDroppedAndRepeatedApart);
    RUN(Save_ReplacesAFileThatIsStillMapped);
    RUN(Save_WhereScratchFilesWereLeftBehind_SavesAndLetsThemBe);
    RUN(PlanFile_OfAnotherKind_IsNamed);
#ifndef _WIN32
    RUN(PlanFile_OverwrittenInPlace_GivesNoIndexOutOfRange);
    RUN(Batches_OfALargePlan_HaveEverySampleOnceUntilItsFileChanges);
#endif
    RUN(Plan_BadOptions_AreNamed);
    RUN(Plan_OptionsThatDoNotGoTogether_AreNamed);
    RUN(CostCallback_FailsLiesOrWorks);
    RUN(Plan_SaysWhatItHolds);
    RUN(Samples_ThatOnlyTheirPaddingMakesTooLarge_AreRefused);
    RUN(MaxShapes_HoldsForEveryNumber);
    RUN(PlanFile_IsReadBack_AndEveryDamageRefused);
    return finish();
}
