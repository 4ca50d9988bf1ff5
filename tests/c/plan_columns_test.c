/* Plans of several columns, and of samples that ids separate. */
#define _GNU_SOURCE
#include <stdlib.h>

#include "helpers.h"
#include "one.h"

enum { SAMPLES = 3000 };

/* Sizes of `columns` columns that depend on each other, from 0 to 300. */
static int32_t *random_columns(size_t columns, uint64_t seed) {
    int32_t *const numbers = malloc(SAMPLES * columns * sizeof *numbers);
    for (size_t i = 0; i < SAMPLES; ++i) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        const int32_t base = (int32_t)((seed >> 33) % 200);
        for (size_t j = 0; j < columns; ++j) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            numbers[i * columns + j] = base / (int32_t)(j + 1) + (int32_t)((seed >> 33) % 100);
        }
    }
    return numbers;
}

static sab_sizes *columns_of(const int32_t *numbers, size_t columns) {
    sab_sizes *parts[SAB_MAX_COLUMNS] = {NULL}, *made = NULL;
    sab_sizes_options strided = SAB_SIZES_OPTIONS_INIT;
    strided.stride = (int64_t)(columns * sizeof *numbers);
    for (size_t j = 0; j < columns; ++j)
        EXPECT_OK(sab_sizes_new(numbers + j, SAMPLES, SAB_INT32, &strided, &parts[j]));
    EXPECT_OK(sab_sizes_columns_new((const sab_sizes *const *)parts, NULL, columns, &made));
    for (size_t j = 0; j < columns; ++j) sab_sizes_free(parts[j]);
    return made;
}

static sab_plan *made_plan(const sab_sizes *sizes, const sab_plan_options *options) {
    sab_plan *plan = NULL;
    EXPECT_OK(sab_plan_new(sizes, options, &plan));
    return plan;
}

/* Walks an epoch of all ranks: each sample once, lengths right, no batch over `limit` by `cost`. */
static void check_epoch(const sab_plan *plan, const int32_t *numbers, size_t columns,
                        const sab_cost *cost, double limit, uint64_t world_size) {
    int seen[SAMPLES] = {0};
    uint64_t steps = 0;
    for (uint64_t rank = 0; rank < world_size; ++rank) {
        sab_sampler_options options = SAB_SAMPLER_OPTIONS_INIT;
        options.rank = rank;
        options.world_size = world_size;
        options.seed = 7;
        sab_sampler *sampler = NULL;
        EXPECT_OK(sab_bucket_sampler_new(plan, &options, &sampler));
        sab_batch batch = SAB_BATCH_INIT;
        uint64_t taken = 0;
        while (sab_next_batch(sampler, &batch) == SAB_OK) {
            ++taken;
            EXPECT(batch.columns == columns);
            for (size_t j = 0; j < columns; ++j) {
                double longest = 0, total = 0;
                for (size_t i = 0; i < batch.count; ++i) {
                    const double size = numbers[(size_t)batch.indices[i] * columns + j];
                    longest = size > longest ? size : longest;
                    total += size;
                }
                EXPECT(batch.longest[j] == longest && batch.total[j] == total &&
                       batch.padded_length[j] >= longest);
            }
            for (size_t i = 0; i < batch.count; ++i) ++seen[batch.indices[i]];
            double value = 0;
            if (batch.count > 0)
                EXPECT_OK(sab_cost_evaluate(cost, batch.count, batch.padded_length, NULL, columns,
                                            &value));
            EXPECT(value <= limit);
        }
        EXPECT(rank == 0 || taken == steps);
        steps = taken;
        sab_sampler_free(sampler);
    }
    for (size_t i = 0; i < SAMPLES; ++i) EXPECT(seen[i] == 1);
}

static void Epochs_OfSeveralColumns_KeepEveryPromise(void) {
    for (size_t columns = 2; columns <= 4; ++columns)
        for (uint64_t seed = 1; seed <= 3; ++seed) {
            int32_t *const numbers = random_columns(columns, seed);
            sab_sizes *const sizes = columns_of(numbers, columns);
            sab_cost *cost = NULL;
            EXPECT_OK(sab_cost_padded_new(NULL, columns, &cost));
            sab_plan_options options = SAB_PLAN_OPTIONS_INIT;
            const sab_budget budget = {NULL, 8192};
            options.budgets = &budget;
            options.budget_count = 1;
            options.length_multiples = one_number(seed == 2 ? 8 : 0),
            options.length_multiple_count = 1;
            sab_plan *const plan = made_plan(sizes, &options);
            check_epoch(plan, numbers, columns, cost, 8192, 1 + seed);
            sab_plan_info info = SAB_PLAN_INFO_INIT;
            EXPECT_OK(sab_plan_get_info(plan, &info));
            EXPECT(info.columns == columns && info.batches >= info.lower_bound);
            uint64_t tails = 0;
            for (size_t i = 0; i < info.buckets; ++i) {
                sab_bucket bucket = SAB_BUCKET_INIT;
                EXPECT_OK(sab_plan_get_bucket(plan, i, &bucket));
                tails += bucket.samples % bucket.batch_size != 0;
            }
            EXPECT(tails <= 1);
            sab_plan_free(plan);
            sab_cost_free(cost);
            sab_sizes_free(sizes);
            free(numbers);
        }
}

static const char *const *names_of(const sab_plan *plan) {
    sab_plan_info info = SAB_PLAN_INFO_INIT;
    EXPECT_OK(sab_plan_get_info(plan, &info));
    return info.column_names;
}

static void OneNamedColumn_HasTheBatchesOfSizesWithoutColumns(void) {
    int32_t *const numbers = random_columns(1, 5);
    sab_sizes *const plain = columns_of(numbers, 1), *named = NULL;
    EXPECT_OK(named_sizes(plain, "tokens", &named));
    sab_plan_options options = SAB_PLAN_OPTIONS_INIT;
    const sab_budget budget = {NULL, 4096};
    options.budgets = &budget;
    options.budget_count = 1;
    sab_plan *const a = made_plan(plain, &options), *const b = made_plan(named, &options);
    EXPECT(names_of(a) == NULL);
    EXPECT(strcmp(names_of(b)[0], "tokens") == 0);
    sab_sampler *one = NULL, *other = NULL;
    EXPECT_OK(sab_bucket_sampler_new(a, NULL, &one));
    EXPECT_OK(sab_bucket_sampler_new(b, NULL, &other));
    sab_batch batch = SAB_BATCH_INIT, same = SAB_BATCH_INIT;
    while (sab_next_batch(one, &batch) == SAB_OK) {
        EXPECT_OK(sab_next_batch(other, &same));
        EXPECT(batch.count == same.count &&
               memcmp(batch.indices, same.indices, batch.count * sizeof *batch.indices) == 0);
    }
    EXPECT(sab_next_batch(other, &same) == SAB_END);
    sab_sampler_free(one);
    sab_sampler_free(other);
    sab_plan_free(a);
    sab_plan_free(b);
    sab_sizes_free(plain);
    sab_sizes_free(named);
    free(numbers);
}

static void ProductAndSecondBudget_AreBothKept(void) {
    int32_t *const numbers = random_columns(3, 9);
    sab_sizes *const sizes = columns_of(numbers, 3);
    const sab_cost_term product[] = {{1, 1, POWERS(1, 1, 1)}};
    sab_cost *volume = NULL, *sum = NULL;
    EXPECT_OK(sab_cost_terms_new(product, 1, &volume));
    EXPECT_OK(sab_cost_padded_new(NULL, 3, &sum));
    const sab_budget budgets[] = {{volume, 2e7}, {sum, 6000}};
    sab_plan_options options = SAB_PLAN_OPTIONS_INIT;
    options.budgets = budgets;
    options.budget_count = 2;
    sab_plan *const plan = made_plan(sizes, &options);
    check_epoch(plan, numbers, 3, volume, 2e7, 2);
    check_epoch(plan, numbers, 3, sum, 6000, 2);
    sab_sampler *worst = NULL;
    sab_batch batch = SAB_BATCH_INIT;
    EXPECT_OK(sab_costliest_sampler_new(plan, 1, &worst));
    EXPECT_OK(sab_next_batch(worst, &batch));
    double most = 0, value = 0;
    EXPECT_OK(sab_cost_evaluate(volume, batch.count, batch.padded_length, NULL, 3, &most));
    sab_sampler *sampler = NULL;
    EXPECT_OK(sab_bucket_sampler_new(plan, NULL, &sampler));
    while (sab_next_batch(sampler, &batch) == SAB_OK) {
        EXPECT_OK(sab_cost_evaluate(volume, batch.count, batch.padded_length, NULL, 3, &value));
        EXPECT(value <= most);
    }
    sab_sampler_free(sampler);
    sab_sampler_free(worst);
    sab_plan_free(plan);
    sab_cost_free(volume);
    sab_cost_free(sum);
    sab_sizes_free(sizes);
    free(numbers);
}

static void MaxShapes_OfSeveralColumns_Hold(void) {
    int32_t *const numbers = random_columns(2, 3);
    sab_sizes *const sizes = columns_of(numbers, 2);
    for (size_t shapes = 3; shapes <= 60; shapes += 7) {
        /* 300: many samples are alone, and share a shape; others fit just so */
        const sab_budget budget = {NULL, shapes > 45 ? 300 : 8192};
        sab_plan_options options = SAB_PLAN_OPTIONS_INIT;
        options.budgets = &budget;
        options.budget_count = 1;
        options.max_shapes = one_count(shapes), options.max_shape_count = 1;
        options.oversize = SAB_OVERSIZE_SINGLE;
        sab_plan *const plan = made_plan(sizes, &options);
        sab_plan_report report = SAB_PLAN_REPORT_INIT;
        double totals[3] = {0}, padded_totals[3] = {0};
        report.totals = totals;
        report.padded_totals = padded_totals;
        EXPECT_OK(sab_plan_get_report(plan, NULL, NULL, &report));
        EXPECT(report.totals == totals && report.padded_totals == padded_totals);
        EXPECT(report.shapes <= shapes && report.columns == 2);
        EXPECT(report.totals[0] + report.totals[1] == report.total);
        EXPECT(report.padded_totals[1] >= report.totals[1] && report.totals[2] == 0);
        EXPECT(report.skipped == 0 && report.samples == SAMPLES);
        sab_plan_info info = SAB_PLAN_INFO_INIT;
        EXPECT_OK(sab_plan_get_info(plan, &info));
        int over = 0; /* the bucket of those that are alone */
        for (size_t i = 0; i < info.buckets; ++i) {
            sab_bucket bucket = SAB_BUCKET_INIT;
            EXPECT_OK(sab_plan_get_bucket(plan, i, &bucket));
            const double each = bucket.padded_length[0] + bucket.padded_length[1];
            over += (double)bucket.batch_size * each > budget.limit;
        }
        EXPECT(over == (budget.limit == 300));
        sab_plan_free(plan);
    }
    const sab_budget small = {NULL, 300};
    sab_plan_options options = SAB_PLAN_OPTIONS_INIT;
    options.budgets = &small;
    options.budget_count = 1;
    options.max_shapes = one_count(10), options.max_shape_count = 1;
    options.oversize = SAB_OVERSIZE_SKIP;
    sab_plan *refused = NULL;
    EXPECT_FAILS(sab_plan_new(sizes, &options, &refused), SAB_E_ARGUMENT,
                 "options.max_shapes = 10: must be larger: samples of one shape, (");
    sab_sizes_free(sizes);
    free(numbers);
}

static void TargetOfSeveralColumns_CountsTheRoundingOfLengths(void) {
    const double targets[] = {0.1, 0.3, 0.6};
    int met[2] = {0};
    int32_t *const numbers = random_columns(2, 6);
    for (size_t i = 0; i < 2 * SAMPLES; ++i) numbers[i] = 1 + numbers[i] / 50 * 4; /* few sizes */
    sab_sizes *const sizes = columns_of(numbers, 2);
    const uint64_t batch_size = 16;
    const sab_budget budget = {NULL, 34};
    for (size_t i = 0; i < COUNT(targets); ++i)
        for (int with_singles = 0; with_singles <= 1; ++with_singles)
            for (double multiple = 0; multiple <= 16; multiple += 8) {
                sab_plan_options options = SAB_PLAN_OPTIONS_INIT;
                options.batch_sizes = &batch_size;
                options.batch_size_count = 1;
                options.budgets = &budget;
                options.budget_count = with_singles;
                if (!with_singles) options.budgets = NULL;
                options.oversize = SAB_OVERSIZE_SINGLE;
                options.padding_target = targets[i];
                options.length_multiples = one_number(multiple), options.length_multiple_count = 1;
                sab_plan *const plan = made_plan(sizes, &options);
                sab_plan_report report = SAB_PLAN_REPORT_INIT;
                EXPECT_OK(sab_plan_get_report(plan, NULL, NULL, &report));
                EXPECT(report.target_met == (report.nearest_target <= targets[i]));
                EXPECT(!report.target_met || report.padding <= targets[i]);
                ++met[report.target_met];
                sab_plan_free(plan);
            }
    EXPECT(met[0] > 0 && met[1] > 0);
    sab_sizes_free(sizes);
    free(numbers);
}

static void SeparateSamples_NeverShareABatch(void) {
    for (size_t columns = 1; columns <= 2; ++columns) {
        int32_t *const numbers = random_columns(columns, 4);
        int64_t ids[SAMPLES];
        for (size_t i = 0; i < SAMPLES; ++i) ids[i] = (int64_t)(i * i % 5) - 2;
        sab_sizes *const sizes = columns_of(numbers, columns);
        sab_cost *cost = NULL;
        EXPECT_OK(sab_cost_padded_new(NULL, columns, &cost));
        const sab_budget budget = {NULL, 4096};
        sab_plan_options options = SAB_PLAN_OPTIONS_INIT;
        options.budgets = &budget;
        options.budget_count = 1;
        options.separate_by = ids;
        options.separate_by_count = SAMPLES;
        sab_plan *const plan = made_plan(sizes, &options);
        check_epoch(plan, numbers, columns, cost, 4096, 3);
        sab_sampler *sampler = NULL;
        EXPECT_OK(sab_bucket_sampler_new(plan, NULL, &sampler));
        sab_batch batch = SAB_BATCH_INIT;
        while (sab_next_batch(sampler, &batch) == SAB_OK) {
            sab_bucket bucket = SAB_BUCKET_INIT;
            EXPECT_OK(sab_plan_get_bucket(plan, (size_t)batch.bucket, &bucket));
            for (size_t i = 0; i < batch.count; ++i) EXPECT(ids[batch.indices[i]] == bucket.id);
        }
        sab_sampler_free(sampler);
        sab_plan_free(plan);
        sab_plan *refused = NULL;
        options.separate_by_count = 3;
        EXPECT_FAILS(sab_plan_new(sizes, &options, &refused), SAB_E_ARGUMENT,
                     "options.separate_by_count = 3: must be the number of samples, 3000");
        sab_cost_free(cost);
        sab_sizes_free(sizes);
        free(numbers);
    }
}

static void OptionsOfIds_WithoutIds_AreRefused(void) {
    int32_t *const numbers = random_columns(2, 4);
    int64_t ids[SAMPLES] = {0};
    const uint64_t shapes[] = {3, 4};
    const double ends[] = {0, 1e9};
    const sab_budget budget = {NULL, 4096};
    sab_histogram *histogram = NULL;
    EXPECT_OK(sab_histogram_new(&histogram));
    sab_sizes *const one = columns_of(numbers, 1);
    EXPECT_OK(sab_histogram_add(histogram, one, NULL));
    sab_sizes_free(one);
    for (size_t columns = 1; columns <= 2; ++columns) {
        sab_sizes *const sizes = columns_of(numbers, columns), *mixture = NULL;
        EXPECT_OK(sab_mixture_new((const sab_sizes *const *)&sizes, 1, NULL, &mixture));
        const sab_sizes *const all[] = {sizes, mixture};
        for (int of_mixture = 0; of_mixture <= 1; ++of_mixture) {
            sab_plan_options options = SAB_PLAN_OPTIONS_INIT;
            sab_plan *refused = NULL;
            options.budgets = &budget;
            options.budget_count = 1;
            options.separate_by_count = SAMPLES;
            EXPECT_FAILS(sab_plan_new(all[of_mixture], &options, &refused), SAB_E_ARGUMENT,
                         "options.separate_by = NULL: must be given");
            options.separate_by_count = 0;
            options.max_shape_count = 1;
            EXPECT_FAILS(sab_plan_new(all[of_mixture], &options, &refused), SAB_E_ARGUMENT,
                         "options.max_shapes = NULL: must be given");
            options.max_shapes = shapes;
            options.max_shape_count = 2;
            EXPECT_FAILS(sab_plan_new(all[of_mixture], &options, &refused), SAB_E_ARGUMENT,
                         "options.max_shape_count = 2: must be 0 or 1 without options.separate_by");
            options.max_shape_count = 0;
            EXPECT_FAILS(
                sab_plan_new(all[of_mixture], &options, &refused), SAB_E_ARGUMENT,
                "options.max_shape_count = 0: must be at least 1 where options.max_shapes");
            options.max_shape_count = 1;
            options.separate_by = ids;
            options.separate_by_count = SAMPLES;
            options.max_shapes = NULL;
            EXPECT_FAILS(sab_plan_new(all[of_mixture], &options, &refused), SAB_E_ARGUMENT,
                         "options.max_shapes = NULL: must be given");
            options.max_shapes = shapes;
            if (columns > 1) continue;
            options.bucket_rule = SAB_BUCKETS_BOUNDARIES;
            options.boundaries = ends;
            options.boundary_count = 2;
            EXPECT_FAILS(
                sab_plan_new(all[of_mixture], &options, &refused), SAB_E_ARGUMENT,
                "options.max_shape_count = 1: must not be given with SAB_BUCKETS_BOUNDARIES (1)");
        }
        sab_sizes_free(mixture);
        sab_sizes_free(sizes);
    }
    sab_plan_options options = SAB_PLAN_OPTIONS_INIT;
    sab_plan *refused = NULL;
    options.budgets = &budget;
    options.budget_count = 1;
    options.separate_by_count = 1;
    EXPECT_FAILS(sab_histogram_plan_new(histogram, &options, &refused), SAB_E_ARGUMENT,
                 "options.separate_by = NULL: must be given");
    sab_histogram_free(histogram);
    free(numbers);
}

static void Boundaries_OfSeveralColumns_HoldTheirSamples(void) {
    int32_t *const numbers = random_columns(2, 8);
    sab_sizes *const sizes = columns_of(numbers, 2);
    const double corners[] = {0, 0, 60, 40, 60, 400, 400, 80, 400, 400};
    const sab_budget budget = {NULL, 8192};
    sab_plan_options options = SAB_PLAN_OPTIONS_INIT;
    options.budgets = &budget;
    options.budget_count = 1;
    options.bucket_rule = SAB_BUCKETS_BOUNDARIES;
    options.boundaries = corners;
    options.boundary_count = 5;
    sab_plan *plan = made_plan(sizes, &options);
    uint64_t samples = 0;
    for (size_t i = 0; i < 4; ++i) {
        sab_bucket bucket = SAB_BUCKET_INIT;
        EXPECT_OK(sab_plan_get_bucket(plan, i, &bucket));
        samples += bucket.samples;
        for (size_t j = 0; j < 2; ++j)
            EXPECT(bucket.longest[j] < bucket.upper[j] &&
                   bucket.upper[j] == corners[2 * i + 2 + j]);
    }
    EXPECT(samples == SAMPLES);
    sab_plan_free(plan);
    const double low[] = {0, 0, 60, -1};
    options.boundaries = low;
    options.boundary_count = 2;
    EXPECT_FAILS(sab_plan_new(sizes, &options, &plan), SAB_E_ARGUMENT,
                 "options.boundaries[1][1] = -1: must be above the first one, 0");
    sab_sizes_free(sizes);
    free(numbers);
}

static void Files_OfSeveralColumns_AreReadBack_AndEveryDamageRefused(void) {
    const int32_t source[] = {3, 1, 4, 1, 5, 9}, target[] = {2, 7, 1, 8, 2, 8};
    sab_sizes *parts[2], *named[2], *sizes = NULL;
    EXPECT_OK(sab_sizes_new(source, 6, SAB_INT32, NULL, &parts[0]));
    EXPECT_OK(sab_sizes_new(target, 6, SAB_INT32, NULL, &parts[1]));
    EXPECT_OK(named_sizes(parts[0], "source", &named[0]));
    EXPECT_OK(named_sizes(parts[1], "target", &named[1]));
    EXPECT_OK(sab_sizes_columns_new((const sab_sizes *const *)named, NULL, 2, &sizes));
    const sab_budget budget = {NULL, 40};
    sab_plan_options options = SAB_PLAN_OPTIONS_INIT;
    options.budgets = &budget;
    options.budget_count = 1;
    sab_plan *const plan = made_plan(sizes, &options);
    sab_plan *again = NULL;
    size_t size = 0;
    EXPECT_OK(sab_plan_write(plan, NULL, 0, &size));
    unsigned char *const image = malloc(size), *const damaged = malloc(size);
    EXPECT_OK(sab_plan_write(plan, image, size, &size));
    EXPECT_OK(sab_plan_bytes_new(image, size, &again));
    EXPECT(strcmp(names_of(again)[1], "target") == 0);
    sab_sampler *one = NULL, *other = NULL;
    EXPECT_OK(sab_bucket_sampler_new(plan, NULL, &one));
    EXPECT_OK(sab_bucket_sampler_new(again, NULL, &other));
    sab_batch batch = SAB_BATCH_INIT, same = SAB_BATCH_INIT;
    while (sab_next_batch(one, &batch) == SAB_OK) {
        EXPECT_OK(sab_next_batch(other, &same));
        EXPECT(batch.count == same.count && batch.longest[1] == same.longest[1] &&
               memcmp(batch.indices, same.indices, batch.count * sizeof *batch.indices) == 0);
    }
    sab_sampler_free(one);
    sab_sampler_free(other);
    sab_plan_free(again);
    again = NULL;
    for (size_t shorter = 0; shorter < size; ++shorter)
        EXPECT(sab_plan_bytes_new(image, shorter, &again) == SAB_E_FORMAT && again == NULL);
    for (size_t bit = 0; bit < 8 * size; ++bit) {
        memcpy(damaged, image, size);
        damaged[bit / 8] ^= (unsigned char)(1u << bit % 8);
        EXPECT(sab_plan_bytes_new(damaged, size, &again) == SAB_E_FORMAT && again == NULL);
    }
    free(image);
    free(damaged);
    sab_plan_free(plan);
    for (int i = 0; i < 2; ++i) {
        sab_sizes_free(parts[i]);
        sab_sizes_free(named[i]);
    }
    sab_sizes_free(sizes);
}

static void SeveralColumns_BadArguments_AreNamed(void) {
    int32_t *const numbers = random_columns(2, 2);
    sab_sizes *const sizes = columns_of(numbers, 2);
    const double three[] = {1, 1, 1};
    sab_cost *cost = NULL;
    EXPECT_OK(sab_cost_padded_new(three, 3, &cost));
    const sab_budget of_three = {cost, 100}, small = {NULL, 50}, large = {NULL, 4096};
    const sab_plan_options fresh = SAB_PLAN_OPTIONS_INIT;
    sab_plan_options options = fresh;
    sab_plan *plan = NULL;
#define REFUSED(words) EXPECT_FAILS(sab_plan_new(sizes, &options, &plan), SAB_E_ARGUMENT, words)
    options.budget_count = 1;
    options.budgets = &of_three;
    REFUSED("options.budgets[0].cost: uses 3 columns: must use at most 2");
    options.budgets = &small;
    REFUSED("in a batch of one");
    options.budgets = &large;
    options.bucket_rule = SAB_BUCKETS_OPTIMAL;
    options.bucket_count = 3;
    REFUSED("must not be SAB_BUCKETS_OPTIMAL (2) for several columns");
    options.bucket_rule = SAB_BUCKETS_AUTO;
    options.bucket_count = 0;
    const double multiples[] = {8, -1};
    options.length_multiples = multiples;
    options.length_multiple_count = 2;
    REFUSED("options.length_multiples[1] = -1");
    options.length_multiples = NULL;
    options.length_multiple_count = 0, options.length_multiples = NULL;
    options.max_shapes = one_count(1), options.max_shape_count = 1;
    REFUSED("options.max_shapes = 1: must be at least 2");
    const sab_budget medium = {NULL, 300};
    options.budgets = &medium;
    options.oversize = SAB_OVERSIZE_SINGLE;
    options.max_shapes = one_count(2), options.max_shape_count = 1;
    REFUSED("options.max_shapes = 2: must be at least 3");
    /* Where each sample is a batch alone, each id still has a shape. */
    const sab_budget none_fits = {NULL, 1};
    static int64_t ids[SAMPLES];
    for (size_t i = 0; i < SAMPLES; ++i) ids[i] = (int64_t)i % 3;
    options.budgets = &none_fits;
    options.separate_by = ids, options.separate_by_count = SAMPLES;
    REFUSED("options.max_shapes = 2: must be at least 9: 3 for each of the 3 ids");
    options.separate_by = NULL, options.separate_by_count = 0;
    sab_sampler *sampler = NULL;
    EXPECT_OK(info_of_sizes(sizes).columns == 2 ? SAB_OK : SAB_E_INTERNAL);
    EXPECT_FAILS(sab_ordered_sampler_new(NULL, 0, sizes, 100, NULL, &sampler), SAB_E_ARGUMENT,
                 "sizes: has 2 columns: must have one");
    options = fresh;
    options.budget_count = 1;
    options.budgets = &large;
    EXPECT_OK(sab_plan_new(sizes, &options, &plan));
    EXPECT_FAILS(sab_bionemo_sampler_new(plan, NULL, &sampler), SAB_E_UNSUPPORTED,
                 "sab_bionemo_sampler_new: the plan has 2 columns: must have one");
    sab_plan_free(plan);
    sab_cost_free(cost);
    sab_sizes_free(sizes);
    free(numbers);
}

/* ctx: the column by which the cost falls, and from which length of the other one. */
static int32_t falling_cost(void *ctx, uint64_t count, const double *lengths, const double *totals,
                            size_t columns, double *cost) {
    const double *const falls = ctx;
    const size_t column = falls[0] > 0;
    (void)totals;
    (void)columns;
    const double sign = lengths[1 - column] >= falls[1] ? -1 : 1;
    *cost = (double)count * (5000 + lengths[1 - column] + sign * lengths[column]);
    return 0;
}

/* A bucket's longest lengths would not be its costliest ones. */
static void CostsThatFallAsAColumnGrows_AreRefused(void) {
    int32_t *const numbers = random_columns(2, 2);
    sab_sizes *const sizes = columns_of(numbers, 2);
    for (int column = 0; column < 2; ++column)
        for (int from = 0; from < 2; ++from) {
            double falls[] = {column, from * 20};
            sab_cost *cost = NULL;
            EXPECT_OK(sab_cost_callback_new(falling_cost, falls, NULL, &cost));
            const sab_budget budget = {cost, 1e6};
            sab_plan_options options = SAB_PLAN_OPTIONS_INIT;
            options.budget_count = 1;
            options.budgets = &budget;
            sab_plan *plan = NULL;
            EXPECT_FAILS(sab_plan_new(sizes, &options, &plan), SAB_E_ARGUMENT,
                         "options.budgets[0].cost: cost(");
            EXPECT_FAILS(sab_plan_new(sizes, &options, &plan), SAB_E_ARGUMENT,
                         " must not be less than cost(");
            sab_cost_free(cost);
        }
    sab_sizes_free(sizes);
    free(numbers);
}

int main(void) {
    RUN(Epochs_OfSeveralColumns_KeepEveryPromise);
    RUN(OneNamedColumn_HasTheBatchesOfSizesWithoutColumns);
    RUN(ProductAndSecondBudget_AreBothKept);
    RUN(MaxShapes_OfSeveralColumns_Hold);
    RUN(TargetOfSeveralColumns_CountsTheRoundingOfLengths);
    RUN(SeparateSamples_NeverShareABatch);
    RUN(OptionsOfIds_WithoutIds_AreRefused);
    RUN(Boundaries_OfSeveralColumns_HoldTheirSamples);
    RUN(Files_OfSeveralColumns_AreReadBack_AndEveryDamageRefused);
    RUN(SeveralColumns_BadArguments_AreNamed);
    RUN(CostsThatFallAsAColumnGrows_AreRefused);
    return finish();
}
