/* What to measure, and the model that is fitted to it. */
#define _GNU_SOURCE
#include <float.h>
#include <unistd.h>

#include "device.h"
#include "one.h"

/* ---- Points to measure ---- */

static void MeasurementPoints_AreInRangeDistinctAscendingAndEnoughToFit(void) {
    const double shortests[] = {1, 8, 16, 0.5, 100}, longests[] = {60, 512, 4096, 33.25, 100000};
    const uint64_t most_counts[] = {8, 64, 1000000};
    for (size_t r = 0; r < COUNT(shortests); ++r)
        for (size_t m = 0; m < COUNT(most_counts); ++m)
            for (uint32_t degree = 1; degree <= 2; ++degree)
                for (size_t points = degree * 2 + 3; points <= 40; points += 7)
                    for (int total = 0; total < 2; ++total) {
                        uint64_t counts[40];
                        double measured[40], features[80], peaks[40];
                        sab_measurement_options options = SAB_MEASUREMENT_OPTIONS_INIT;
                        options.shortest = one_number(shortests[r]), options.column_count = 1;
                        options.longest = one_number(longests[r]);
                        options.max_count = most_counts[m];
                        options.budget = total == 0 ? NULL : one_budget(32 * longests[r]);
                        options.degree = degree;
                        const double most = total == 0 ? 4 * longests[r] : 32 * longests[r];
                        EXPECT_OK(sab_measurement_points_find(&options, points, counts, measured));
                        for (size_t i = 0; i < points; ++i) {
                            EXPECT(counts[i] >= 1 && counts[i] <= most_counts[m] &&
                                   measured[i] >= shortests[r] && measured[i] <= longests[r]);
                            EXPECT((double)counts[i] * measured[i] <= most);
                            EXPECT(i == 0 || (double)counts[i] * measured[i] >=
                                                 (double)counts[i - 1] * measured[i - 1]);
                            for (size_t k = 0; k < i; ++k)
                                EXPECT(counts[i] != counts[k] || measured[i] != measured[k]);
                            const double n = (double)counts[i], l = measured[i];
                            features[2 * i] = n;
                            features[2 * i + 1] = l;
                            peaks[i] = 1e6 + 1e3 * n + 40 * n * l +
                                       (degree == 2 ? 3 * n * l * l / longests[r] + 100 * l : 0);
                        }
                        sab_memory_model *model = NULL;
                        sab_memory_model_options model_options = SAB_MEMORY_MODEL_OPTIONS_INIT;
                        model_options.degree = degree;
                        EXPECT_OK(sab_memory_model_fit_new(features, points, 2, peaks,
                                                           &model_options, &model));
                        sab_memory_model_free(model);
                    }
}

/* With a cost, points lie where batches of the budget will be. */
static void MeasurementPoints_OfACost_AreNearTheBudget(void) {
    const sab_cost_term terms[] = {{1000, 0, POWERS(0)}, {3, 1, POWERS(1)}};
    const double weights[] = {1, 1};
    uint64_t counts[20];
    double measured[20];
    sab_cost *cost = NULL;
    EXPECT_OK(sab_cost_terms_new(terms, COUNT(terms), &cost));
    sab_measurement_options options = SAB_MEASUREMENT_OPTIONS_INIT;
    options.shortest = one_number(8), options.column_count = 1;
    options.longest = one_number(512);
    options.max_count = 1024;
    sab_budget budget = {cost, 60000};
    options.budget = &budget;
    EXPECT_OK(sab_measurement_points_find(&options, 20, counts, measured));
    for (int i = 0; i < 20; ++i) {
        const double one = 1000 + 3 * (double)counts[i] * measured[i];
        EXPECT(one >= 20000 && one <= 54000);
    }
    budget.limit = 1100;
    EXPECT_FAILS(sab_measurement_points_find(&options, 20, counts, measured), SAB_E_ARGUMENT,
                 "options.budget.limit = 1100: one sample of length 8 costs 1024");
    budget.limit = 1e8;
    EXPECT_FAILS(sab_measurement_points_find(&options, 20, counts, measured), SAB_E_ARGUMENT,
                 "options.budget.limit = 1e+08: no batch costs a third of it");
    budget.limit = 0;
    EXPECT_FAILS(sab_measurement_points_find(&options, 20, counts, measured), SAB_E_ARGUMENT,
                 "options.budget.limit = 0: must be finite and above 0");
    sab_cost_free(cost);
    EXPECT_OK(sab_cost_padded_new(weights, 2, &cost));
    budget.cost = cost;
    budget.limit = 4000;
    EXPECT_FAILS(sab_measurement_points_find(&options, 20, counts, measured), SAB_E_ARGUMENT,
                 "options.budget.cost: uses 2 columns: must use at most 1");
    sab_cost_free(cost);
}

static void MeasurementPoints_OfARangeThatCannotBe_IsRefused(void) {
    uint64_t counts[2000];
    double measured[2000];
    sab_measurement_options good = SAB_MEASUREMENT_OPTIONS_INIT;
    good.shortest = one_number(8), good.column_count = 1;
    good.longest = one_number(512);
    good.max_count = 64;
    EXPECT_OK(sab_measurement_points_find(&good, 12, counts, measured));
    sab_measurement_options options = good;
    const double wrong[] = {0, -1, NAN, INFINITY};
    for (size_t i = 0; i < COUNT(wrong); ++i) {
        options = good;
        options.shortest = one_number(wrong[i]), options.column_count = 1;
        EXPECT_FAILS(sab_measurement_points_find(&options, 12, counts, measured), SAB_E_ARGUMENT,
                     "options.shortest[0] = ");
        options = good;
        options.longest = one_number(wrong[i]);
        EXPECT_FAILS(sab_measurement_points_find(&options, 12, counts, measured), SAB_E_ARGUMENT,
                     "options.longest[0] = ");
        options = good;
        options.budget = one_budget(wrong[i]);
        EXPECT_FAILS(sab_measurement_points_find(&options, 12, counts, measured), SAB_E_ARGUMENT,
                     "options.budget.limit = ");
    }
    options = good;
    options.longest = one_number(7);
    EXPECT_FAILS(sab_measurement_points_find(&options, 12, counts, measured), SAB_E_ARGUMENT,
                 "options.longest[0] = 7");
    options = good;
    options.max_count = 1;
    EXPECT_FAILS(sab_measurement_points_find(&options, 12, counts, measured), SAB_E_ARGUMENT,
                 "options.max_count = 1");
    options = good;
    options.max_count = UINT64_MAX; /* it would wrap around */
    EXPECT_FAILS(sab_measurement_points_find(&options, 12, counts, measured), SAB_E_ARGUMENT,
                 "options.max_count = 18446744073709551615");
    options = good;
    options.longest = one_number(1e200);
    EXPECT_FAILS(sab_measurement_points_find(&options, 12, counts, measured), SAB_E_ARGUMENT,
                 "options.longest[0] = 1e+200");
    options = good;
    options.degree = 3;
    EXPECT_FAILS(sab_measurement_points_find(&options, 12, counts, measured), SAB_E_ARGUMENT,
                 "options.degree = 3");
    EXPECT_FAILS(sab_measurement_points_find(&good, 6, counts, measured), SAB_E_ARGUMENT,
                 "points = 6");
    EXPECT_FAILS(sab_measurement_points_find(&good, 1001, counts, measured), SAB_E_ARGUMENT,
                 "points = 1001");
    options = good;
    options.degree = 1;
    EXPECT_OK(sab_measurement_points_find(&options, 4, counts, measured));
    /* as many as terms */
    EXPECT_FAILS(sab_measurement_points_find(&options, 3, counts, measured), SAB_E_ARGUMENT,
                 "points = 3");
    options = good;
    options.shortest = options.longest = one_number(10);
    options.max_count = 3;
    EXPECT_FAILS(sab_measurement_points_find(&options, 12, counts, measured), SAB_E_ARGUMENT,
                 "points = 12: the range has only ");
    EXPECT_FAILS(sab_measurement_points_find(NULL, 12, counts, measured), SAB_E_ARGUMENT,
                 "options = NULL");
    EXPECT_FAILS(sab_measurement_points_find(&good, 12, NULL, measured), SAB_E_ARGUMENT,
                 "counts = NULL");
    EXPECT_FAILS(sab_measurement_points_find(&good, 12, counts, NULL), SAB_E_ARGUMENT,
                 "lengths = NULL");
}

/* ---- The model ---- */

#define MOST_ROWS 400

struct data {
    size_t count, width;
    double features[MOST_ROWS * 3];
    double peaks[MOST_ROWS];
};

/* Bytes of a training step, as a transformer's: parameters, embeddings, activations, attention. */
static double true_peak(double count, double length) {
    return 5e8 + 2e6 * count + 9e5 * count * length + 700 * count * length * length;
}

static void measure(struct data *data, size_t rows, double noise) {
    data->count = rows;
    data->width = 2;
    for (size_t i = 0; i < rows; ++i) {
        const double count = (double)(1 + below(32)), length = (double)(16 + below(500));
        data->features[2 * i] = count;
        data->features[2 * i + 1] = length;
        data->peaks[i] = true_peak(count, length) * (1 + noise * normal());
    }
}

static sab_memory_model *model_of(const struct data *data,
                                  const sab_memory_model_options *options) {
    sab_memory_model *model = NULL;
    EXPECT_OK(sab_memory_model_fit_new(data->features, data->count, data->width, data->peaks,
                                       options, &model));
    return model;
}

static sab_memory_model_info info_of(const sab_memory_model *model) {
    sab_memory_model_info info = SAB_MEMORY_MODEL_INFO_INIT;
    EXPECT_OK(sab_memory_model_get_info(model, &info));
    return info;
}

static sab_cost *cost_of(const sab_memory_model *model) {
    sab_cost *cost = NULL;
    EXPECT_OK(sab_memory_model_cost_new(model, &cost));
    return cost;
}

/* The coefficient of a term; 0 when it was left out. */
static double coefficient_of(const sab_memory_model *model, const uint32_t *powers, size_t width) {
    const sab_memory_model_info info = info_of(model);
    for (size_t i = 0; i < info.term_count; ++i)
        if (memcmp(info.powers + i * width, powers, width * sizeof *powers) == 0)
            return info.coefficients[i];
    return 0;
}

static void Fit_OfBatches_RecoversTheirPolynomial(void) {
    const uint32_t constant[] = {0, 0}, per_count[] = {1, 0}, per_token[] = {1, 1},
                   per_square[] = {1, 2}, per_length[] = {0, 1};
    random_state = 21;
    struct data data;
    for (int keep = 0; keep <= 1; ++keep) {
        measure(&data, 60, 0);
        sab_memory_model_options options = SAB_MEMORY_MODEL_OPTIONS_INIT;
        options.keep_terms = keep;
        sab_memory_model *model = model_of(&data, &options);
        EXPECT(is_near(coefficient_of(model, constant, 2), 5e8, 1e-3) &&
               is_near(coefficient_of(model, per_count, 2), 2e6, 2e-2));
        EXPECT(is_near(coefficient_of(model, per_token, 2), 9e5, 1e-3) &&
               is_near(coefficient_of(model, per_square, 2), 700, 1e-2));
        EXPECT(fabs(coefficient_of(model, per_length, 2)) < 1e5);
        const sab_memory_model_info info = info_of(model);
        EXPECT(info.kind == SAB_MODEL_BATCH && info.degree == 2 && info.feature_count == 2 &&
               info.measurements == 60);
        EXPECT(is_near(info.constant, 5e8, 1e-3) && info.residual < 1e-4 &&
               info.held_out_residual < 1e-3 && info.largest_residual < 1e-3);
        EXPECT(info.margin >= 0 && info.margin < 1e-3 && info.coverage == 0.95);
        for (int i = 0; i < 50; ++i) { /* also far from what was measured */
            const double shape[] = {1 + (double)below(200), 16 + (double)below(2000)};
            double predicted = 0, upper = 0;
            EXPECT_OK(sab_memory_model_predict(model, shape, 1, &predicted, &upper));
            EXPECT(is_near(predicted, true_peak(shape[0], shape[1]), 2e-3) &&
                   is_near(upper, predicted * (1 + info.margin), 1e-12));
        }
        sab_memory_model_free(model);
    }
}

static void Fit_OfAPolynomial_RecoversEveryTerm(void) {
    random_state = 22;
    struct data data = {.count = 80, .width = 3};
    for (size_t i = 0; i < data.count; ++i) {
        const double x = uniform() * 10, y = uniform() * 5 - 2, z = uniform() * 100;
        data.features[3 * i] = x;
        data.features[3 * i + 1] = y;
        data.features[3 * i + 2] = z;
        data.peaks[i] = 5000 + 20 * x - 30 * y + 4 * z + 3 * x * x + 2 * x * y - 0.5 * x * z +
                        7 * y * y + 0.25 * y * z + 0.01 * z * z;
    }
    const uint32_t powers[][3] = {{0, 0, 0}, {1, 0, 0}, {0, 1, 0}, {0, 0, 1}, {2, 0, 0},
                                  {1, 1, 0}, {1, 0, 1}, {0, 2, 0}, {0, 1, 1}, {0, 0, 2}};
    const double expected[] = {5000, 20, -30, 4, 3, 2, -0.5, 7, 0.25, 0.01};
    sab_memory_model_options options = SAB_MEMORY_MODEL_OPTIONS_INIT;
    options.kind = SAB_MODEL_POLYNOMIAL;
    options.keep_terms = 1;
    sab_memory_model *model = model_of(&data, &options);
    EXPECT(info_of(model).term_count == 10 && info_of(model).feature_count == 3);
    for (size_t i = 0; i < COUNT(powers); ++i)
        EXPECT(is_near(coefficient_of(model, powers[i], 3), expected[i], 1e-6));
    sab_memory_model_free(model);
    options.degree = 1;
    model = model_of(&data, &options);
    EXPECT(info_of(model).term_count == 4 && info_of(model).degree == 1);
    sab_cost *cost = NULL;
    EXPECT_FAILS(sab_memory_model_cost_new(model, &cost), SAB_E_ARGUMENT, "a cost must not fall");
    EXPECT_FAILS(sab_memory_model_cost_new(NULL, &cost), SAB_E_ARGUMENT, "model = NULL");
    EXPECT_FAILS(sab_memory_model_cost_new(model, NULL), SAB_E_ARGUMENT, "cost = NULL");
    sab_memory_model_free(model);
}

/* Of many fits to noisy measurements, the upper predictions cover as many unseen batches as
 * promised. */
static void Fit_OfNoisyMeasurements_KeepsTheCoverage(void) {
    const double coverages[] = {0.95, 0.8}, noises[] = {0.02, 0.1};
    const size_t rows[] = {12, 60, 130};
    enum { fits = ROUNDS_OF(200) };
    random_state = 23;
    static struct data data, unseen;
    for (size_t c = 0; c < COUNT(coverages); ++c)
        for (size_t k = 0; k < COUNT(noises); ++k)
            for (size_t r = 0; r < COUNT(rows); ++r) {
                double covered = 0, promised = 0;
                for (int fit = 0; fit < fits; ++fit) {
                    measure(&data, rows[r], noises[k]);
                    measure(&unseen, 100, noises[k]);
                    sab_memory_model_options options = SAB_MEMORY_MODEL_OPTIONS_INIT;
                    options.coverage = coverages[c];
                    sab_memory_model *model = model_of(&data, &options);
                    double upper[100];
                    EXPECT_OK(sab_memory_model_predict(model, unseen.features, 100, NULL, upper));
                    for (int i = 0; i < 100; ++i) covered += unseen.peaks[i] <= upper[i];
                    promised += info_of(model).coverage;
                    const double n = (double)rows[r];
                    EXPECT(is_near(info_of(model).coverage,
                                   ceil((n + 1) * coverages[c]) > n ? n / (n + 1) : coverages[c],
                                   1e-12));
                    EXPECT(info_of(model).residual > 0 &&
                           info_of(model).held_out_residual >= info_of(model).residual * 0.9);
                    EXPECT(info_of(model).largest_residual >= info_of(model).residual);
                    sab_memory_model_free(model);
                }
                EXPECT(covered / (100 * fits) >= promised / fits - 0.01 * sqrt(200.0 / fits) ||
                       (fprintf(stderr, "covered %g of %g, %d rows, noise %g\n",
                                covered / (100 * fits), promised / fits, (int)rows[r], noises[k]),
                        0));
            }
}

static void Fit_SelectingTerms_DropsWhatDoesNotPay(void) {
    random_state = 24;
    static struct data data;
    double kept = 0;
    for (int fit = 0; fit < ROUNDS_OF(100); ++fit) {
        measure(&data, 100, 0);
        for (size_t i = 0; i < data.count; ++i)
            data.peaks[i] = (1e9 + 1e6 * data.features[2 * i] * data.features[2 * i + 1]) *
                            (1 + 0.01 * normal());
        sab_memory_model *model = model_of(&data, NULL);
        kept += (double)info_of(model).term_count;
        const uint32_t per_token[] = {1, 1};
        EXPECT(coefficient_of(model, per_token, 2) > 0);
        sab_memory_model_free(model);
    }
    EXPECT(kept / ROUNDS_OF(100) < 2.5); /* two are true */
    sab_memory_model_options all = SAB_MEMORY_MODEL_OPTIONS_INIT;
    all.kind = SAB_MODEL_POLYNOMIAL;
    all.keep_terms = 1;
    sab_memory_model *model = model_of(&data, &all);
    EXPECT(info_of(model).term_count == 6);
    sab_memory_model_free(model);
    all.keep_terms = 0;
    model = model_of(&data, &all);
    EXPECT(info_of(model).term_count < 6);
    sab_memory_model_free(model);
}

static void Fit_OfBatches_NeverFalls(void) {
    random_state = 25;
    static struct data data;
    for (int fit = 0; fit < ROUNDS_OF(300); ++fit) {
        measure(&data, 30, 0);
        const double slope = normal(), square = normal(), own = normal(), noise = 0.2 * uniform();
        for (size_t i = 0; i < data.count; ++i) {
            const double n = data.features[2 * i], l = data.features[2 * i + 1];
            data.peaks[i] = fmax(1, (1e4 + 1e3 * slope * n + 5 * square * n * l + 10 * own * l) *
                                        (1 + noise * normal()));
        }
        sab_memory_model_options options = SAB_MEMORY_MODEL_OPTIONS_INIT;
        options.keep_terms = fit % 2 == 0;
        options.degree = 1 + (uint32_t)(fit / 2 % 2);
        sab_memory_model *model = model_of(&data, &options);
        const sab_memory_model_info info = info_of(model);
        EXPECT(info.term_count >= 1 && info.margin >= 0 && isfinite(info.margin) &&
               isfinite(info.constant));
        for (size_t i = 0; i < info.term_count; ++i) {
            const double coefficient = info.coefficients[i];
            EXPECT(isfinite(coefficient) && (coefficient >= 0 || info.powers[2 * i + 1] == 0));
        }
        sab_cost_free(cost_of(model));
        double shortest = data.features[1], last = 0;
        for (size_t i = 0; i < data.count; ++i) shortest = fmin(shortest, data.features[2 * i + 1]);
        for (double n = 1; n < 100; n *= 2) /* from the shortest length measured on */
            for (double l = shortest; l < 2000; l *= 1.5) {
                double predicted[3];
                const double shapes[] = {n, l, n + 1, l, n, l + 1};
                EXPECT_OK(sab_memory_model_predict(model, shapes, 3, predicted, NULL));
                last = predicted[0] - 1e-9 * fabs(predicted[0]);
                EXPECT(predicted[1] >= last && predicted[2] >= last);
            }
        sab_memory_model_free(model);
    }
}

/* As language models are: a step on length - 1 places, here - 3. */
static void Fit_OfStepsOnFewerPlaces_IsExact(void) {
    static struct data data;
    random_state = 25;
    measure(&data, 20, 0);
    for (size_t i = 0; i < data.count; ++i) {
        if (i < 4) data.features[2 * i + 1] = 4;
        data.peaks[i] = 1e6 + 5e4 * data.features[2 * i] * (data.features[2 * i + 1] - 3);
    }
    sab_memory_model *model = model_of(&data, NULL);
    EXPECT(info_of(model).residual < 1e-9 && info_of(model).margin < 1e-9);
    const uint32_t per_count[] = {1, 0}, per_token[] = {1, 1};
    EXPECT(is_near(coefficient_of(model, per_count, 2), -15e4, 1e-6) &&
           is_near(coefficient_of(model, per_token, 2), 5e4, 1e-6));
    sab_plan_options options = SAB_PLAN_OPTIONS_INIT;
    sab_cost *cost = cost_of(model);
    SET_BUDGET_OF(options, cost, 1e6 + 5e4 * 100);
    int32_t some_lengths[100];
    for (int i = 0; i < 100; ++i) some_lengths[i] = 4 + i % 40;
    sab_plan *plan = plan_with(some_lengths, 100, &options);
    sab_plan_free(plan);
    /* a sample of length 1 would give memory back */
    for (int i = 0; i < 100; ++i) some_lengths[i] = 1 + i % 40;
    sab_sizes *sizes = sizes_of(some_lengths, 100);
    EXPECT_FAILS(sab_plan_new(sizes, &options, &plan), SAB_E_ARGUMENT, "cost(");
    EXPECT(plan == NULL);
    sab_sizes_free(sizes);
    sab_cost_free(cost);
    sab_memory_model_free(model);
}

#define REFUSED(data, options, words)                                                      \
    do {                                                                                   \
        sab_memory_model *model_ = (sab_memory_model *)&data;                              \
        EXPECT_FAILS(sab_memory_model_fit_new((data).features, (data).count, (data).width, \
                                              (data).peaks, options, &model_),             \
                     SAB_E_ARGUMENT, words);                                               \
        EXPECT(model_ == NULL);                                                            \
    } while (0)

static void Fit_OfTooLittle_SaysWhatToMeasure(void) {
    random_state = 26;
    static struct data data;
    sab_memory_model_options one = SAB_MEMORY_MODEL_OPTIONS_INIT;
    one.degree = 1;
    measure(&data, 6, 0);
    REFUSED(data, NULL, "count = 6: ");
    REFUSED(data, NULL, "measure 1 more");
    data.count = 3;
    REFUSED(data, &one, "measure 1 more");
    REFUSED(data, NULL, "measure 4 more");
    data.count = 0;
    REFUSED(data, NULL, "measure 7 more");

    measure(&data, 20, 0);
    for (size_t i = 0; i < data.count; ++i) data.features[2 * i] = 4;
    REFUSED(data, NULL, "count is 4 in all 20 measurements: measure at least 2 different values");
    REFUSED(data, &one, "count is 4 in all 20 measurements: measure at least 2 different values");
    measure(&data, 20, 0);
    for (size_t i = 0; i < data.count; ++i) data.features[2 * i + 1] = 128;
    REFUSED(data, NULL,
            "length is 128 in all 20 measurements: measure at least 3 different values");
    REFUSED(data, &one,
            "length is 128 in all 20 measurements: measure at least 2 different values");
    measure(&data, 20, 0);
    for (size_t i = 0; i < data.count; ++i) data.features[2 * i + 1] = i % 2 == 0 ? 64 : 256;
    REFUSED(data, NULL, "length has only 2 values, from 64 to 256");
    /* count and length vary, but together */
    measure(&data, 20, 0);
    for (size_t i = 0; i < data.count; ++i) {
        data.features[2 * i] = (double)(1 + i);
        data.features[2 * i + 1] = (double)(16 * (1 + i));
    }
    REFUSED(data, NULL, "vary together");
    REFUSED(data, NULL, "measure also count = ");
    for (size_t i = 0; i < data.count; ++i) {
        data.features[2 * i] = (double)(1 << i % 8);
        data.features[2 * i + 1] = 1024 / data.features[2 * i]; /* always 1024 tokens */
    }
    REFUSED(data, NULL, "vary together");
    REFUSED(data, &one, "measure also count = ");
    /* the same point over and over */
    for (size_t i = 0; i < data.count; ++i) data.features[2 * i] = data.features[2 * i + 1] = 8;
    REFUSED(data, NULL, "count is 8 in all 20 measurements");
}

/* The point that a refusal names is one that helps. */
static void Fit_AfterMeasuringWhatItSays_Succeeds(void) {
    static struct data data;
    data.width = 2;
    data.count = 12;
    for (size_t i = 0; i < data.count; ++i) {
        data.features[2 * i] = (double)(1 + i);
        data.features[2 * i + 1] = (double)(16 * (1 + i));
        data.peaks[i] = true_peak(data.features[2 * i], data.features[2 * i + 1]);
    }
    sab_memory_model *model = NULL;
    int more = 0;
    for (; more < 6; ++more) {
        if (sab_memory_model_fit_new(data.features, data.count, 2, data.peaks, NULL, &model) ==
            SAB_OK)
            break;
        const char *said = strstr(sab_last_error_message(), "measure also count = ");
        double count = 0, length = 0;
        EXPECT(said != NULL &&
               sscanf(said, "measure also count = %lf, length = %lf", &count, &length) == 2);
        data.features[2 * data.count] = count;
        data.features[2 * data.count + 1] = length;
        data.peaks[data.count++] = true_peak(count, length);
    }
    EXPECT(model != NULL && more <= 5);
    sab_memory_model_free(model);
}

static void Fit_OfWhatIsNoData_IsRefused(void) {
    random_state = 27;
    static struct data good, data;
    measure(&good, 20, 0);
    const double wrong[] = {NAN, INFINITY, -INFINITY};
    for (size_t i = 0; i < COUNT(wrong); ++i) {
        data = good;
        data.features[7] = wrong[i];
        REFUSED(data, NULL, "features[3][1] = ");
        data = good;
        data.peaks[5] = wrong[i];
        REFUSED(data, NULL, "peaks[5] = ");
    }
    data = good;
    data.peaks[5] = 0;
    REFUSED(data, NULL, "peaks[5] = 0");
    data.peaks[5] = -1;
    REFUSED(data, NULL, "peaks[5] = -1");
    data = good;
    data.width = 1;
    data.count = 10;
    REFUSED(data, NULL, "feature_count = 1: must be 1 + the number of columns");
    sab_memory_model_options options = SAB_MEMORY_MODEL_OPTIONS_INIT;
    options.kind = SAB_MODEL_POLYNOMIAL;
    data.width = 0;
    REFUSED(data, &options, "feature_count = 0");
    options = (sab_memory_model_options)SAB_MEMORY_MODEL_OPTIONS_INIT;
    options.degree = 3;
    REFUSED(good, &options, "options.degree = 3");
    options.degree = 2;
    options.kind = 2;
    REFUSED(good, &options, "options.kind = 2");
    options.kind = SAB_MODEL_BATCH;
    const double coverages[] = {1, -0.5, 2, NAN};
    for (size_t i = 0; i < COUNT(coverages); ++i) {
        options.coverage = coverages[i];
        REFUSED(good, &options, "options.coverage = ");
    }
    options.coverage = 0.9;
    options.keep_terms = 2;
    REFUSED(good, &options, "options.keep_terms = 2");
    sab_memory_model *model = NULL;
    EXPECT_FAILS(sab_memory_model_fit_new(NULL, 20, 2, good.peaks, NULL, &model), SAB_E_ARGUMENT,
                 "features = NULL");
    EXPECT_FAILS(sab_memory_model_fit_new(good.features, 20, 2, NULL, NULL, &model), SAB_E_ARGUMENT,
                 "peaks = NULL");
    EXPECT_FAILS(sab_memory_model_fit_new(good.features, 20, 2, good.peaks, NULL, NULL),
                 SAB_E_ARGUMENT, "model = NULL");
    model = model_of(&good, NULL);
    double predicted = -1, not_finite[] = {1, NAN};
    EXPECT_FAILS(sab_memory_model_predict(model, not_finite, 1, &predicted, NULL), SAB_E_ARGUMENT,
                 "features[0][1] = ");
    EXPECT(predicted == -1);
    EXPECT_OK(sab_memory_model_predict(model, NULL, 0, NULL, NULL));
    sab_memory_model_free(model);
    sab_memory_model_free(NULL);
}

static unsigned char *image_of(const sab_memory_model *model, size_t *size) {
    EXPECT_OK(sab_memory_model_write(model, NULL, 0, size));
    unsigned char *image = malloc(*size);
    memset(image, 0xEE, *size);
    size_t same = 0;
    /* too small: nothing is written */
    EXPECT_FAILS(sab_memory_model_write(model, image, *size - 1, &same), SAB_E_ARGUMENT,
                 "capacity = ");
    EXPECT(same == *size && image[0] == 0xEE);
    EXPECT_OK(sab_memory_model_write(model, image, *size, &same));
    EXPECT(same == *size);
    return image;
}

static void Model_WrittenAndRead_IsTheSame(void) {
    random_state = 28;
    static struct data data;
    measure(&data, 40, 0.05);
    for (int kind = SAB_MODEL_BATCH; kind <= SAB_MODEL_POLYNOMIAL; ++kind) {
        sab_memory_model_options options = SAB_MEMORY_MODEL_OPTIONS_INIT;
        options.kind = kind;
        sab_memory_model *model = model_of(&data, &options), *again[2] = {NULL, NULL};
        char path[] = "/tmp/sab_test_XXXXXX";
        close(mkstemp(path));
        size_t size = 0;
        unsigned char *image = image_of(model, &size);
        EXPECT_OK(sab_memory_model_save(model, path));
        EXPECT_OK(sab_memory_model_file_new(path, &again[0]));
        EXPECT_OK(sab_memory_model_bytes_new(image, size, &again[1]));
        FILE *file = fopen(path, "rb");
        unsigned char *bytes = malloc(size + 1);
        EXPECT(fread(bytes, 1, size + 1, file) == size && memcmp(bytes, image, size) == 0);
        fclose(file);
        for (int i = 0; i < 2; ++i) {
            size_t same = 0;
            unsigned char *copy = image_of(again[i], &same);
            EXPECT(same == size && memcmp(copy, image, size) == 0);
            const sab_memory_model_info a = info_of(model), b = info_of(again[i]);
            EXPECT(a.kind == b.kind && a.degree == b.degree && a.feature_count == b.feature_count &&
                   a.term_count == b.term_count && a.measurements == b.measurements &&
                   a.constant == b.constant && a.margin == b.margin && a.coverage == b.coverage &&
                   a.residual == b.residual && a.held_out_residual == b.held_out_residual &&
                   a.largest_residual == b.largest_residual);
            double before[40], after[40];
            EXPECT_OK(sab_memory_model_predict(model, data.features, 40, NULL, before));
            EXPECT_OK(sab_memory_model_predict(again[i], data.features, 40, NULL, after));
            EXPECT(memcmp(before, after, sizeof before) == 0);
            free(copy);
            sab_memory_model_free(again[i]);
        }
        unlink(path);
        EXPECT(sab_memory_model_file_new(path, &again[0]) == SAB_E_IO && again[0] == NULL);
        EXPECT(sab_memory_model_save(model, "/nowhere/at/all") == SAB_E_IO);
        free(bytes);
        free(image);
        sab_memory_model_free(model);
    }
}

static void Model_DamagedAnywhere_IsRefused(void) {
    random_state = 29;
    static struct data data;
    measure(&data, 40, 0.05);
    sab_memory_model *model = model_of(&data, NULL), *other = NULL;
    size_t size = 0;
    unsigned char *image = image_of(model, &size), *longer = calloc(1, size + 1);
    for (size_t i = 0; i < size; ++i)
        for (int value = 1; value < 256; ++value) {
            image[i] ^= (unsigned char)value;
            other = model;
            EXPECT(sab_memory_model_bytes_new(image, size, &other) == SAB_E_FORMAT &&
                   other == NULL);
            image[i] ^= (unsigned char)value;
        }
    for (size_t length = 0; length < size; ++length)
        EXPECT(sab_memory_model_bytes_new(image, length, &other) == SAB_E_FORMAT);
    memcpy(longer, image, size);
    EXPECT(sab_memory_model_bytes_new(longer, size + 1, &other) == SAB_E_FORMAT);
    EXPECT(sab_memory_model_bytes_new(NULL, 0, &other) == SAB_E_FORMAT);
    EXPECT_FAILS(sab_memory_model_bytes_new(NULL, 10, &other), SAB_E_ARGUMENT, "data = NULL");
    EXPECT_OK(sab_memory_model_bytes_new(image, size, &other));
    sab_memory_model_free(other);
    char path[] = "/tmp/sab_test_XXXXXX"; /* and from files */
    close(mkstemp(path));
    EXPECT(sab_memory_model_file_new(path, &other) == SAB_E_FORMAT); /* empty */
    FILE *file = fopen(path, "wb");
    EXPECT(file != NULL && fwrite(image, 1, size / 2, file) == size / 2 && fclose(file) == 0);
    EXPECT_FAILS(sab_memory_model_file_new(path, &other), SAB_E_FORMAT, path);
    unlink(path);
    free(longer);
    free(image);
    sab_memory_model_free(model);
}

static sab_plan_options limited(const sab_cost *cost, double bytes) {
    sab_plan_options options = SAB_PLAN_OPTIONS_INIT;
    SET_BUDGET_OF(options, cost, bytes);
    return options;
}

static void Plan_PricedByAModel_KeepsUpperPredictionsUnderTheBudget(void) {
    random_state = 30;
    static struct data data;
    for (int fit = 0; fit < 20; ++fit) {
        measure(&data, 40, 0.05);
        if (fit % 4 == 3) /* a negative constant */
            for (size_t i = 0; i < data.count; ++i)
                data.peaks[i] = fmax(1e6, data.peaks[i] - 5.03e8);
        sab_memory_model *model = model_of(&data, NULL);
        sab_cost *cost = cost_of(model);
        sab_plan_options options = limited(cost, 2e9);
        for (uint64_t batches = 0; batches <= 3; batches += 3) {
            options.bucket_batches = batches;
            options.length_multiples = one_number(fit % 2 == 0 ? 8 : 0),
            options.length_multiple_count = 1;
            sab_plan *plan = plan_with(lengths(2000), 2000, &options);
            sab_sampler *sampler = rank_of(plan, 0, 1);
            sab_batch batch = SAB_BATCH_INIT;
            double largest = 0;
            int samples = 0;
            for (; sab_next_batch(sampler, &batch) == SAB_OK; samples += (int)batch.count) {
                const double shape[] = {(double)batch.count, *batch.padded_length};
                double upper = 0;
                EXPECT_OK(sab_memory_model_predict(model, shape, 1, NULL, &upper));
                EXPECT(upper <= 2e9 * (1 + 1e-12));
                largest = fmax(largest, upper);
            }
            EXPECT(samples == 2000 && largest > 1.8e9); /* and near it */
            sab_sampler_free(sampler);
            sab_plan_free(plan);
        }
        sab_cost_free(cost);
        sab_memory_model_free(model);
    }
}

static void Plan_WithLessThanTheModelsConstant_IsRefused(void) {
    random_state = 31;
    static struct data data;
    measure(&data, 40, 0.01);
    sab_memory_model *model = model_of(&data, NULL);
    sab_sizes *sizes = sizes_of(lengths(500), 500);
    const sab_memory_model_info info = info_of(model);
    const double constant = info.constant * (1 + info.margin),
                 too_little[] = {1, constant / 2, constant * (1 - 1e-9), constant};
    sab_cost *cost = cost_of(model);
    sab_plan *plan = NULL;
    for (size_t i = 0; i < COUNT(too_little); ++i) {
        const sab_plan_options options = limited(cost, too_little[i]);
        EXPECT_FAILS(sab_plan_new(sizes, &options, &plan), SAB_E_ARGUMENT, "constant term");
    }
    sab_plan_options options = limited(cost, constant * 1.5);
    EXPECT_OK(sab_plan_new(sizes, &options, &plan));
    sab_sampler *sampler = rank_of(plan, 0, 1);
    EXPECT_FAILS(sab_sampler_set_budget(sampler, 0, constant * 0.9), SAB_E_ARGUMENT,
                 "constant term");
    EXPECT_OK(sab_sampler_set_budget(sampler, 0, constant * 1.2));
    sab_sampler_free(sampler);
    sab_plan_free(plan);
    sab_sizes_free(sizes);
    sab_cost_free(cost);
    sab_memory_model_free(model);
}

/* Measured, fitted, planned: by the functions of the library from end to end. */
struct training {
    struct device *device;
    uint64_t *counts;
    double *lengths;
};

static int32_t train(void *ctx, uint64_t item, double *features, size_t capacity, size_t *count) {
    const struct training *training = ctx;
    (void)capacity;
    features[0] = (double)training->counts[item];
    features[1] = training->lengths[item];
    *count = 2;
    return touch(training->device, (int64_t)(true_peak(features[0], features[1]) - 5e8));
}

static void Peaks_OfTheMeasurementPoints_MakeAModel(void) {
    struct device device = device_of(500000000, 0);
    uint64_t counts[12];
    double measured[12], peaks_as_numbers[12];
    sab_measurement_options range = SAB_MEASUREMENT_OPTIONS_INIT;
    range.shortest = one_number(8), range.column_count = 1;
    range.longest = one_number(512);
    range.max_count = 256;
    EXPECT_OK(sab_measurement_points_find(&range, 12, counts, measured));
    struct training training = {&device, counts, measured};
    sab_collect_peak_options options = SAB_COLLECT_PEAK_OPTIONS_INIT;
    options.work = train;
    options.ctx = &training;
    options.item_count = 12;
    sab_probe *probe = probe_of(&device);
    sab_peaks *peaks = new_peaks();
    EXPECT_OK(sab_collect_peak(probe, &options, peaks));
    const sab_peaks_view view = view_of(peaks);
    for (size_t i = 0; i < view.count; ++i) peaks_as_numbers[i] = (double)view.peaks[i];
    sab_memory_model *model = NULL;
    EXPECT_OK(sab_memory_model_fit_new(view.features, view.count, view.feature_count,
                                       peaks_as_numbers, NULL, &model));
    for (int i = 1; i < 20; ++i) {
        const double shape[] = {i * 10, 512 - i * 20};
        double predicted = 0;
        EXPECT_OK(sab_memory_model_predict(model, shape, 1, &predicted, NULL));
        EXPECT(is_near(predicted, true_peak(shape[0], shape[1]), 0.01));
    }
    sab_memory_model_free(model);
    sab_peaks_free(peaks);
    sab_probe_free(probe);
}

int main(void) {
    RUN(MeasurementPoints_AreInRangeDistinctAscendingAndEnoughToFit);
    RUN(MeasurementPoints_OfACost_AreNearTheBudget);
    RUN(MeasurementPoints_OfARangeThatCannotBe_IsRefused);
    RUN(Fit_OfBatches_RecoversTheirPolynomial);
    RUN(Fit_OfAPolynomial_RecoversEveryTerm);
    RUN(Fit_OfNoisyMeasurements_KeepsTheCoverage);
    RUN(Fit_SelectingTerms_DropsWhatDoesNotPay);
    RUN(Fit_OfBatches_NeverFalls);
    RUN(Fit_OfStepsOnFewerPlaces_IsExact);
    RUN(Fit_OfTooLittle_SaysWhatToMeasure);
    RUN(Fit_AfterMeasuringWhatItSays_Succeeds);
    RUN(Fit_OfWhatIsNoData_IsRefused);
    RUN(Model_WrittenAndRead_IsTheSame);
    RUN(Model_DamagedAnywhere_IsRefused);
    RUN(Plan_PricedByAModel_KeepsUpperPredictionsUnderTheBudget);
    RUN(Plan_WithLessThanTheModelsConstant_IsRefused);
    RUN(Peaks_OfTheMeasurementPoints_MakeAModel);
    return finish();
}
