/* Memory models of samples with several sizes, the plans that they price, and steps of those. */
#define _GNU_SOURCE
#include "device.h"
#include "one.h"

enum { SOURCE, TARGET, COLUMNS };
#define SAMPLES 2000

static const char *const names[] = {"source", "target"};

/* Bytes of a training step: parameters, activations, attention from target to source. */
static double true_peak(const double *features) {
    const double count = features[0], source = features[1], target = features[2];
    return 4e6 + 3e3 * count * (source + target) + 20 * count * source * target;
}

static sab_measurement_options range_of_pairs(void) {
    sab_measurement_options range = SAB_MEASUREMENT_OPTIONS_INIT;
    static const double shortest[COLUMNS] = {4, 4}, longest[COLUMNS] = {200, 300};
    range.column_count = COLUMNS;
    range.shortest = shortest;
    range.longest = longest;
    range.max_count = 1 << 20;
    return range;
}

#define POINTS 24

/* Measurements at the points that the library picks. */
struct measured {
    double features[POINTS * 3], peaks[POINTS];
};

static void measure_in(struct measured *made, const sab_measurement_options *range) {
    uint64_t counts[POINTS];
    double lengths[POINTS * COLUMNS];
    EXPECT_OK(sab_measurement_points_find(range, POINTS, counts, lengths));
    for (size_t i = 0; i < POINTS; ++i) {
        double *const row = &made->features[3 * i];
        row[0] = (double)counts[i];
        row[1] = lengths[2 * i];
        row[2] = lengths[2 * i + 1];
        made->peaks[i] = true_peak(row);
    }
}

static struct measured measure(double noise) {
    static struct measured exact;
    if (exact.peaks[0] == 0) {
        const sab_measurement_options range = range_of_pairs();
        measure_in(&exact, &range);
    }
    struct measured made = exact;
    for (size_t i = 0; i < POINTS; ++i) made.peaks[i] *= 1 + noise * normal();
    return made;
}

static sab_memory_model *fit(const struct measured *measured, const char *const *column_names) {
    sab_memory_model_options options = SAB_MEMORY_MODEL_OPTIONS_INIT;
    options.column_names = column_names;
    sab_memory_model *model = NULL;
    EXPECT_OK(sab_memory_model_fit_new(measured->features, POINTS, 1 + COLUMNS, measured->peaks,
                                       &options, &model));
    return model;
}

static sab_memory_model *exact_model(const char *const *column_names) {
    const struct measured measured = measure(0);
    return fit(&measured, column_names);
}

static sab_cost *cost_of(const sab_memory_model *model) {
    sab_cost *cost = NULL;
    EXPECT_OK(sab_memory_model_cost_new(model, &cost));
    return cost;
}

static const int32_t *column(int which) {
    static int32_t made[COLUMNS][SAMPLES];
    if (made[SOURCE][0] != 0) return made[which];
    random_state = 23;
    for (int i = 0; i < SAMPLES; ++i) {
        made[SOURCE][i] = (int32_t)(4 + below(1 + below(197)));
        made[TARGET][i] = made[SOURCE][i] + (int32_t)below(100);
    }
    return made[which];
}

/* Sizes of several columns; without names if `column_names` is NULL. */
static sab_sizes *sizes_with(const char *const *column_names, size_t columns) {
    sab_sizes *parts[COLUMNS + 1] = {NULL}, *sizes = NULL;
    for (size_t j = 0; j < columns; ++j) {
        sab_sizes *const plain = sizes_of(column((int)(j % COLUMNS)), SAMPLES);
        if (column_names != NULL)
            EXPECT_OK(named_sizes(plain, column_names[j], &parts[j]));
        else
            EXPECT_OK(sab_sizes_join_new((const sab_sizes *const *)&plain, 1, &parts[j]));
        sab_sizes_free(plain);
    }
    EXPECT_OK(sab_sizes_columns_new((const sab_sizes *const *)parts, NULL, columns, &sizes));
    for (size_t j = 0; j < columns; ++j) sab_sizes_free(parts[j]);
    return sizes;
}

static sab_plan *plan_of(const sab_cost *cost, double bytes) {
    sab_plan_options options = SAB_PLAN_OPTIONS_INIT;
    SET_BUDGET_OF(options, cost, bytes);
    sab_sizes *const sizes = sizes_with(names, COLUMNS);
    sab_plan *plan = NULL;
    EXPECT_OK(sab_plan_new(sizes, &options, &plan));
    sab_sizes_free(sizes);
    return plan;
}

/* ---- Points to measure ---- */

static void Points_OfEveryNumberOfColumns_AreInRangeDistinctAndEnoughToFit(void) {
    for (size_t columns = 2; columns <= SAB_MAX_COLUMNS; ++columns) {
        sab_measurement_options range = SAB_MEASUREMENT_OPTIONS_INIT;
        double shortest[SAB_MAX_COLUMNS], longest[SAB_MAX_COLUMNS];
        range.column_count = columns;
        range.shortest = shortest;
        range.longest = longest;
        range.max_count = 64;
        range.degree = columns <= 3 ? 2 : 1;
        for (size_t j = 0; j < columns; ++j) {
            shortest[j] = (double)j; /* of several columns 0 is a length */
            longest[j] = 20 + 30 * (double)j;
        }
        const size_t terms = range.degree == 2 ? (columns + 1) * (columns + 2) : 2 + columns,
                     points = 2 * terms;
        uint64_t counts[64];
        double lengths[64 * SAB_MAX_COLUMNS], features[64 * (1 + SAB_MAX_COLUMNS)], peaks[64];
        EXPECT_OK(sab_measurement_points_find(&range, points, counts, lengths));
        for (size_t i = 0; i < points; ++i) {
            double *const row = &features[i * (1 + columns)];
            row[0] = (double)counts[i];
            peaks[i] = 1e6;
            EXPECT(counts[i] >= 1 && counts[i] <= 64);
            for (size_t j = 0; j < columns; ++j) {
                const double length = row[1 + j] = lengths[i * columns + j];
                EXPECT(length >= range.shortest[j] && length <= range.longest[j]);
                peaks[i] += row[0] * length * (double)(1 + j);
            }
            for (size_t k = 0; k < i; ++k)
                EXPECT(counts[i] != counts[k] ||
                       memcmp(&lengths[i * columns], &lengths[k * columns],
                              columns * sizeof(double)) != 0);
        }
        sab_memory_model_options options = SAB_MEMORY_MODEL_OPTIONS_INIT;
        options.degree = range.degree;
        options.keep_terms = 1;
        sab_memory_model *model = NULL;
        EXPECT_OK(sab_memory_model_fit_new(features, points, 1 + columns, peaks, &options, &model));
        EXPECT(model != NULL);
        sab_memory_model_free(model);
        EXPECT_FAILS(sab_measurement_points_find(&range, terms, counts, lengths), SAB_E_ARGUMENT,
                     "points = ");
    }
}

static void Points_OfAModel_AreNearItsBudget(void) {
    sab_memory_model *const model = exact_model(names);
    sab_measurement_options range = range_of_pairs();
    sab_cost *const cost = cost_of(model);
    const sab_budget budget = {cost, 9e7};
    range.budget = &budget;
    struct measured measured;
    measure_in(&measured, &range);
    for (size_t i = 0; i < POINTS; ++i)
        EXPECT(measured.peaks[i] >= 3e7 && measured.peaks[i] <= 0.9 * 9e7 * (1 + 1e-9));
    range.column_count = 1;
    uint64_t counts[POINTS];
    double lengths[POINTS];
    EXPECT_FAILS(sab_measurement_points_find(&range, POINTS, counts, lengths), SAB_E_ARGUMENT,
                 "options.budget.cost: is that of a memory model with 2 columns, source and "
                 "target: the sizes have 1 column");
    sab_cost_free(cost);
    sab_memory_model_free(model);
}

static void Points_OfRangesThatCannotBe_AreRefused(void) {
    uint64_t counts[POINTS];
    double lengths[POINTS * SAB_MAX_COLUMNS];
    const sab_measurement_options good = range_of_pairs();
#define POINTS_REFUSED(change, words)                                                \
    do {                                                                             \
        sab_measurement_options options = good;                                      \
        options.change;                                                              \
        EXPECT_FAILS(sab_measurement_points_find(&options, POINTS, counts, lengths), \
                     SAB_E_ARGUMENT, words);                                         \
    } while (0)
    POINTS_REFUSED(column_count = 0, "options.column_count = 0: columns must be from 1 to 8");
    POINTS_REFUSED(column_count = 9, "options.column_count = 9: columns must be from 1 to 8");
    POINTS_REFUSED(column_count = 7,
                   "options.column_count = 7: degree 2 of 7 columns has 72 terms");
    static const double negative[] = {4, -1}, no_number[] = {4, NAN}, short_longest[] = {200, 3},
                        infinite[] = {INFINITY, 300};
    POINTS_REFUSED(shortest = negative, "options.shortest[1] = -1: must be finite and at least 0");
    POINTS_REFUSED(shortest = no_number, "options.shortest[1] = nan");
    POINTS_REFUSED(longest = short_longest,
                   "options.longest[1] = 3: must be finite and at least the");
    POINTS_REFUSED(longest = infinite, "options.longest[0] = inf");
    POINTS_REFUSED(shortest = NULL, "options.shortest = NULL: must be given");
    POINTS_REFUSED(longest = NULL, "options.longest = NULL: must be given");
    POINTS_REFUSED(budget = one_budget(7), "points = 24: the range has only ");
}

/* ---- The model ---- */

static void Fit_OfPairs_RecoversTheirPolynomialAndKeepsTheNames(void) {
    sab_memory_model *const model = exact_model(names);
    sab_memory_model_info info = SAB_MEMORY_MODEL_INFO_INIT;
    EXPECT_OK(sab_memory_model_get_info(model, &info));
    EXPECT(info.feature_count == 3 && info.term_count == 4 && info.residual < 1e-9);
    for (size_t i = 0; i < 50; ++i) {
        const double features[] = {(double)(1 + below(500)), (double)(4 + below(200)),
                                   (double)(4 + below(300))};
        double predicted = 0;
        EXPECT_OK(sab_memory_model_predict(model, features, 1, &predicted, NULL));
        EXPECT(fabs(predicted / true_peak(features) - 1) < 1e-6);
    }
    EXPECT(strcmp(info.column_names[SOURCE], "source") == 0 &&
           strcmp(info.column_names[TARGET], "target") == 0);
    sab_memory_model_free(model);
    sab_memory_model *const unnamed = exact_model(NULL);
    EXPECT_OK(sab_memory_model_get_info(unnamed, &info));
    EXPECT(info.column_names == NULL);
    sab_memory_model_free(unnamed);
}

/* Whatever was measured, from the shortest measured lengths on. */
static void Fit_OfPairs_NeverFallsWithTheCountOrALength(void) {
    random_state = 41;
    for (int trial = 0; trial < ROUNDS_OF(200); ++trial) {
        struct measured measured = measure(0);
        const double slope = normal(), own = normal(), crossed = normal(), noise = 0.2 * uniform();
        for (size_t i = 0; i < POINTS; ++i) {
            const double *const row = &measured.features[3 * i];
            measured.peaks[i] =
                fmax(1, (1e6 + 3e4 * slope * row[0] + 20 * crossed * row[0] * row[1] * row[2] +
                         500 * own * row[2] * row[2]) *
                            (1 + noise * normal()));
        }
        sab_memory_model *const model = fit(&measured, NULL);
        for (double n = 1; n < 100; n *= 3)
            for (double s = 4; s < 900; s *= 3)
                for (double t = 4; t < 900; t *= 3) {
                    const double rows[] = {n, s, t, n + 1, s, t, n, s + 1, t, n, s, t + 1};
                    double predicted[4];
                    EXPECT_OK(sab_memory_model_predict(model, rows, 4, predicted, NULL));
                    for (int i = 1; i < 4; ++i)
                        EXPECT(predicted[i] >= predicted[0] - 1e-9 * fabs(predicted[0]));
                }
        sab_cost_free(cost_of(model));
        sab_memory_model_free(model);
    }
}

/* Of models of noisy measurements, the upper predictions cover as many unseen batches as
 * promised. */
static void Fit_OfNoisyPairs_KeepsTheCoverage(void) {
    random_state = 42;
    int covered = 0;
    double promised = 0;
    for (int trial = 0; trial < ROUNDS_OF(100); ++trial) {
        const struct measured measured = measure(0.03), unseen = measure(0.03);
        sab_memory_model *const model = fit(&measured, names);
        sab_memory_model_info info = SAB_MEMORY_MODEL_INFO_INIT;
        EXPECT_OK(sab_memory_model_get_info(model, &info));
        double upper[POINTS];
        EXPECT_OK(sab_memory_model_predict(model, unseen.features, POINTS, NULL, upper));
        for (size_t i = 0; i < POINTS; ++i) covered += unseen.peaks[i] <= upper[i];
        promised += info.coverage * POINTS;
        EXPECT(info.margin > 0 && info.margin < 1);
        sab_memory_model_free(model);
    }
    EXPECT((double)covered >= promised - 0.02 * ROUNDS_OF(100) * POINTS);
}

static void Fit_OfColumnsThatCannotBe_IsRefused(void) {
    const struct measured good = measure(0);
    struct measured alike = good;
    sab_memory_model *model = NULL;
    sab_memory_model_options options = SAB_MEMORY_MODEL_OPTIONS_INIT;
    const char *given[] = {"source", "target"};
    options.column_names = given;
#define FIT_REFUSED(data, words)                                                              \
    EXPECT_FAILS(                                                                             \
        sab_memory_model_fit_new((data).features, POINTS, 3, (data).peaks, &options, &model), \
        SAB_E_ARGUMENT, words)
    for (size_t i = 0; i < POINTS; ++i) alike.features[3 * i + 2] = 9;
    FIT_REFUSED(alike, "length[\"target\"] is 9 in all 24 measurements");
    for (size_t i = 0; i < POINTS; ++i) alike.features[3 * i + 2] = 2 * alike.features[3 * i + 1];
    FIT_REFUSED(alike, "vary together: measure also count = ");
    given[1] = "source";
    FIT_REFUSED(good, "options.column_names[1] = \"source\": must not be the name of another");
    given[1] = "";
    FIT_REFUSED(good, "options.column_names[1] = \"\": must have 1 to 63 bytes");
    given[1] = NULL;
    FIT_REFUSED(good, "options.column_names[1] = NULL");
    given[1] = "target";
    options.kind = SAB_MODEL_POLYNOMIAL;
    FIT_REFUSED(good, "options.column_names = given: goes with SAB_MODEL_BATCH only");
    options.column_names = NULL;
    options.kind = SAB_MODEL_BATCH;
    EXPECT_FAILS(sab_memory_model_fit_new(good.features, 9, 8, good.peaks, &options, &model),
                 SAB_E_ARGUMENT, "degree 2 of 7 columns has 72 terms, more than 64");
    EXPECT_FAILS(sab_memory_model_fit_new(good.features, 7, 10, good.peaks, &options, &model),
                 SAB_E_ARGUMENT, "columns must be from 1 to 8");
}

/* ---- Files ---- */

static unsigned char *image_of(const sab_memory_model *model, size_t *size) {
    EXPECT_OK(sab_memory_model_write(model, NULL, 0, size));
    unsigned char *const image = malloc(*size);
    EXPECT_OK(sab_memory_model_write(model, image, *size, size));
    return image;
}

static void Model_OfPairs_WrittenAndRead_IsTheSame(void) {
    for (int named = 0; named < 2; ++named) {
        sab_memory_model *const model = exact_model(named ? names : NULL), *again = NULL;
        size_t size = 0, same = 0;
        unsigned char *const image = image_of(model, &size);
        EXPECT_OK(sab_memory_model_bytes_new(image, size, &again));
        unsigned char *const copy = image_of(again, &same);
        EXPECT(same == size && memcmp(image, copy, size) == 0);
        sab_memory_model_info info = SAB_MEMORY_MODEL_INFO_INIT;
        EXPECT_OK(sab_memory_model_get_info(again, &info));
        EXPECT(named ? strcmp(info.column_names[TARGET], "target") == 0
                     : info.column_names == NULL);
        free(copy);
        sab_memory_model_free(again);
        for (size_t i = 0; i < size; ++i) { /* damaged anywhere */
            image[i] ^= 0x21;
            EXPECT(sab_memory_model_bytes_new(image, size, &again) == SAB_E_FORMAT);
            image[i] ^= 0x21;
        }
        free(image);
        sab_memory_model_free(model);
    }
}

/* ---- Plans ---- */

static void Plan_PricedByAModel_KeepsTheBudgetInEveryBatch(void) {
    random_state = 43;
    for (int trial = 0; trial < 4; ++trial) {
        const struct measured measured = measure(trial * 0.02);
        sab_memory_model *const model = fit(&measured, names);
        sab_cost *const cost = cost_of(model);
        sab_plan *const plan = plan_of(cost, 6e7);
        sab_sampler *const sampler = rank_of(plan, 0, 1);
        sab_batch batch = SAB_BATCH_INIT;
        double largest = 0;
        size_t samples = 0;
        for (; sab_next_batch(sampler, &batch) == SAB_OK; samples += batch.count) {
            const double shape[] = {(double)batch.count, batch.padded_length[SOURCE],
                                    batch.padded_length[TARGET]};
            double upper = 0;
            EXPECT_OK(sab_memory_model_predict(model, shape, 1, NULL, &upper));
            EXPECT(upper <= 6e7 * (1 + 1e-12));
            largest = fmax(largest, upper);
        }
        EXPECT(samples == SAMPLES && largest > 5.4e7); /* and near it */
        sab_sampler_free(sampler);
        sab_plan_free(plan);
        sab_cost_free(cost);
        sab_memory_model_free(model);
    }
}

/* Wherever a cost is given for sizes. */
static void Cost_OfAModelWithOtherColumns_IsRefusedAndBothAreNamed(void) {
    static const char *const others[] = {"nodes", "edges", "faces"};
    sab_memory_model *const model = exact_model(names), *const unnamed = exact_model(NULL);
    sab_cost *const cost = cost_of(model), *const any_names = cost_of(unnamed);
    const struct {
        const char *const *names;
        size_t columns;
        const char *words;
    } refused[] = {
        {others, 2, "the sizes have 2 columns, nodes and edges"},
        {others, 3, "the sizes have 3 columns, nodes, edges and faces"},
        {names, 1, "the sizes have 1 column, source"},
        {NULL, 3, "the sizes have 3 columns"},
        {NULL, 1, "the sizes have 1 column"},
    };
    const sab_cost *const balance[] = {cost};
    const uint64_t capacities[] = {9000, 9000, 9000};
    for (size_t i = 0; i < COUNT(refused); ++i) {
        sab_sizes *const sizes = sizes_with(refused[i].names, refused[i].columns);
        sab_plan_options options = SAB_PLAN_OPTIONS_INIT;
        SET_BUDGET_OF(options, cost, 6e7);
        sab_plan *plan = NULL;
        EXPECT_FAILS(sab_plan_new(sizes, &options, &plan), SAB_E_ARGUMENT, refused[i].words);
        EXPECT_FAILS(sab_plan_new(sizes, &options, &plan), SAB_E_ARGUMENT,
                     "options.budgets[0].cost: is that of a memory model with 2 columns, source "
                     "and target: ");
        sab_balanced_options balanced = SAB_BALANCED_OPTIONS_INIT;
        balanced.budgets = options.budgets;
        balanced.budget_count = 1;
        sab_sampler *sampler = NULL;
        EXPECT_FAILS(sab_balanced_sampler_new(sizes, &balanced, NULL, &sampler), SAB_E_ARGUMENT,
                     refused[i].words);
        sab_packed_options packed = SAB_PACKED_OPTIONS_INIT;
        packed.balance = balance;
        packed.balance_count = 1;
        packed.capacities = capacities;
        packed.capacity_count = refused[i].columns;
        EXPECT_FAILS(sab_packed_sampler_new(sizes, &packed, NULL, &sampler), SAB_E_ARGUMENT,
                     refused[i].words);
        sab_sizes_free(sizes);
    }
    /* Either without names: the number of columns is enough. */
    for (int i = 0; i < 2; ++i) {
        sab_sizes *const sizes = sizes_with(i == 0 ? NULL : others, 2);
        sab_plan_options options = SAB_PLAN_OPTIONS_INIT;
        SET_BUDGET_OF(options, i == 0 ? cost : any_names, 6e7);
        sab_plan *plan = NULL;
        EXPECT_OK(sab_plan_new(sizes, &options, &plan));
        sab_plan_free(plan);
        sab_sizes_free(sizes);
    }
    sab_cost_free(cost);
    sab_cost_free(any_names);
    sab_memory_model_free(model);
    sab_memory_model_free(unnamed);
}

/* ---- Steps ---- */

/* What a step of a batch takes, beside what is always held. */
static int32_t run_pairs(struct device *device, double count, const double *padded_length) {
    const double shape[] = {count, padded_length[SOURCE], padded_length[TARGET]};
    return touch(device, (int64_t)(true_peak(shape) - 4e6));
}

static int32_t run_batch(void *ctx, const sab_batch *batch) {
    return run_pairs(ctx, (double)batch->count, batch->padded_length);
}

struct training {
    struct device *device;
    const uint64_t *counts;
    const double *lengths;
};

static int32_t train(void *ctx, uint64_t item, double *features, size_t capacity, size_t *count) {
    const struct training *const training = ctx;
    (void)capacity;
    features[0] = (double)training->counts[item];
    features[1] = training->lengths[2 * item];
    features[2] = training->lengths[2 * item + 1];
    *count = 3;
    return run_pairs(training->device, features[0], &features[1]);
}

/* Measured, fitted, planned, verified: by the functions of the library from end to end. */
static void Peaks_OfPairs_MakeAModelWhosePlanIsVerified(void) {
    struct device device = device_of(4000000, 60000000);
    sab_probe *const probe = probe_of(&device);
    const sab_measurement_options range = range_of_pairs();
    uint64_t counts[POINTS];
    double lengths[POINTS * COLUMNS], peaks_as_numbers[POINTS];
    EXPECT_OK(sab_measurement_points_find(&range, POINTS, counts, lengths));
    struct training training = {&device, counts, lengths};
    sab_collect_peak_options options = SAB_COLLECT_PEAK_OPTIONS_INIT;
    options.work = train;
    options.ctx = &training;
    options.item_count = POINTS;
    sab_peaks *const peaks = new_peaks();
    EXPECT_OK(sab_collect_peak(probe, &options, peaks));
    const sab_peaks_view view = view_of(peaks);
    EXPECT(view.count == POINTS && view.feature_count == 3);
    for (size_t i = 0; i < view.count; ++i) peaks_as_numbers[i] = (double)view.peaks[i];
    sab_memory_model *model = NULL;
    EXPECT_OK(sab_memory_model_fit_new(view.features, view.count, view.feature_count,
                                       peaks_as_numbers, NULL, &model));
    sab_cost *const cost = cost_of(model);
    sab_plan *const plan = plan_of(cost, 6e7);
    sab_verification seen = SAB_VERIFICATION_INIT;
    EXPECT_OK(
        sab_plan_verify(plan, probe, run_batch, &device, a_verification(5, NULL, NULL), &seen));
    EXPECT(seen.batches == 5 && seen.peak <= 60000000 && seen.peak > 54000000);
    device.limit = 50000000;
    EXPECT_FAILS(
        sab_plan_verify(plan, probe, run_batch, &device, a_verification(5, NULL, NULL), &seen),
        SAB_E_DEVICE_MEMORY, "samples padded to ");
    sab_plan_free(plan);
    sab_cost_free(cost);
    sab_memory_model_free(model);
    sab_peaks_free(peaks);
    sab_probe_free(probe);
}

/* A device that loses bytes with every sample. */
struct leaking {
    struct device device;
    const sab_batch *batch;
    uint64_t done;
};

static int32_t run_pairs_part(void *ctx, uint64_t first, uint64_t count, double weight) {
    struct leaking *const run = ctx;
    (void)first;
    (void)weight;
    run->device.held = 4000000 + (int64_t)(3000 * run->done);
    return run_pairs(&run->device, (double)count, run->batch->padded_length);
}

static void Guard_OfPairs_LowersTheBudgetBeforeMemoryRunsOut(void) {
    sab_memory_model *const model = exact_model(names);
    sab_cost *const cost = cost_of(model);
    sab_plan *const plan = plan_of(cost, 2e7);
    sab_sampler *const sampler = rank_of(plan, 0, 1);
    struct leaking run = {.device = device_of(4000000, 21000000)};
    sab_probe *const probe = probe_of(&run.device);
    sab_memory_guard_options options = SAB_MEMORY_GUARD_OPTIONS_INIT;
    options.interval = 4;
    sab_memory_guard *guard = NULL;
    EXPECT_OK(sab_memory_guard_new(probe, sampler, &options, &guard));
    sab_step_in_chunks_options step = SAB_STEP_IN_CHUNKS_OPTIONS_INIT;
    step.chunk = run_pairs_part;
    step.ctx = &run;
    static int seen[SAMPLES];
    sab_batch batch = SAB_BATCH_INIT;
    for (; sab_next_batch(sampler, &batch) == SAB_OK; run.done += batch.count) {
        run.batch = &batch;
        EXPECT_OK(sab_memory_guard_step(guard, &batch, &step));
        for (uint64_t i = 0; i < batch.count; ++i) ++seen[batch.indices[i]];
    }
    for (int i = 0; i < SAMPLES; ++i) EXPECT(seen[i] == 1);
    sab_memory_guard_info info = SAB_MEMORY_GUARD_INFO_INIT;
    EXPECT_OK(sab_memory_guard_get_info(guard, &info));
    EXPECT(info.lowered > 0 && info.limit < 2e7 && info.out_of_memory <= 2 &&
           info.peak <= 21000000);
    sab_batch other = SAB_BATCH_INIT;
    other.count = other.columns = 1;
    const double length = 5;
    other.padded_length = &length;
    EXPECT_FAILS(sab_memory_guard_step(guard, &other, &step), SAB_E_ARGUMENT,
                 "batch.columns = 1: must be those of the plan, 2");
    sab_memory_guard_free(guard);
    sab_probe_free(probe);
    sab_sampler_free(sampler);
    sab_plan_free(plan);
    sab_cost_free(cost);
    sab_memory_model_free(model);
}

int main(void) {
    RUN(Points_OfEveryNumberOfColumns_AreInRangeDistinctAndEnoughToFit);
    RUN(Points_OfAModel_AreNearItsBudget);
    RUN(Points_OfRangesThatCannotBe_AreRefused);
    RUN(Fit_OfPairs_RecoversTheirPolynomialAndKeepsTheNames);
    RUN(Fit_OfPairs_NeverFallsWithTheCountOrALength);
    RUN(Fit_OfNoisyPairs_KeepsTheCoverage);
    RUN(Fit_OfColumnsThatCannotBe_IsRefused);
    RUN(Model_OfPairs_WrittenAndRead_IsTheSame);
    RUN(Plan_PricedByAModel_KeepsTheBudgetInEveryBatch);
    RUN(Cost_OfAModelWithOtherColumns_IsRefusedAndBothAreNamed);
    RUN(Peaks_OfPairs_MakeAModelWhosePlanIsVerified);
    RUN(Guard_OfPairs_LowersTheBudgetBeforeMemoryRunsOut);
    return finish();
}
