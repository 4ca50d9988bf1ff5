/* A trainer that finds out by itself how large its batches may be: measures a few steps, fits a
 * model, plans an epoch of batches by predicted bytes, and runs it under a guard. Its device is an
 * arena of 64 MiB; on a GPU only the six functions of the device change. */
#include <sab.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- The device: what it holds, and what it can hold ---- */

struct arena {
    int64_t held, peak, total;
};

static int32_t arena_reset(void *ctx) {
    struct arena *arena = ctx;
    arena->peak = arena->held;
    return 0;
}

static int32_t arena_current(void *ctx, int64_t *bytes) {
    *bytes = ((struct arena *)ctx)->held;
    return 0;
}

static int32_t arena_peak(void *ctx, int64_t *bytes) {
    *bytes = ((struct arena *)ctx)->peak;
    return 0;
}

static int32_t arena_total(void *ctx, int64_t *bytes) {
    *bytes = ((struct arena *)ctx)->total;
    return 0;
}

static int take(struct arena *arena, int64_t bytes) {
    if (arena->held + bytes > arena->total) return 0;
    arena->held += bytes;
    if (arena->held > arena->peak) arena->peak = arena->held;
    return 1;
}

static void give_back(struct arena *arena, int64_t bytes) {
    arena->held -= bytes;
}

/* ---- The model that is trained: activations and attention, as a transformer's ---- */

static int32_t train(struct arena *arena, uint64_t count, double length) {
    const int64_t activations = (int64_t)(4 * 64 * 10 * (double)count * length),
                  attention = (int64_t)(4 * 2 * (double)count * length * length);
    int32_t code = SAB_OUT_OF_MEMORY;
    if (take(arena, activations)) {
        if (take(arena, attention)) {
            code = 0;
            give_back(arena, attention);
        }
        give_back(arena, activations);
    }
    return code;
}

struct trainer {
    struct arena *arena;
    const uint64_t *counts; /* of the measurements */
    const double *lengths;
    const sab_batch *batch; /* of the epoch */
};

static int32_t measure(void *ctx, uint64_t item, double *features, size_t capacity,
                       size_t *feature_count) {
    const struct trainer *trainer = ctx;
    (void)capacity; /* at least 2 */
    features[0] = (double)trainer->counts[item];
    features[1] = trainer->lengths[item];
    *feature_count = 2;
    return train(trainer->arena, trainer->counts[item], trainer->lengths[item]);
}

static int32_t run_part(void *ctx, uint64_t first, uint64_t count, double weight) {
    const struct trainer *trainer = ctx;
    /* a real one takes batch->indices[first] to [first + count - 1], and multiplies the loss */
    (void)first, (void)weight;
    return train(trainer->arena, count, *trainer->batch->padded_length);
}

static void check(sab_status status) {
    if (status >= SAB_OK) return;
    fprintf(stderr, "%s: %s\n", sab_status_name(status), sab_last_error_message());
    exit(1);
}

int main(void) {
    enum { SAMPLES = 20000, POINTS = 12 };
    static int32_t sizes_of_samples[SAMPLES];
    uint32_t x = 1;
    for (int i = 0; i < SAMPLES; ++i) {
        x = x * 1664525u + 1013904223u;
        sizes_of_samples[i] = (int32_t)(4 + (x >> 16) % (1 + (x >> 8) % 200));
    }
    struct arena arena = {5000000, 5000000, 64 << 20}; /* parameters and optimizer are there */
    sab_probe_callbacks callbacks = SAB_PROBE_CALLBACKS_INIT;
    callbacks.ctx = &arena;
    callbacks.reset = arena_reset;
    callbacks.current = arena_current;
    callbacks.peak = arena_peak;
    callbacks.total = arena_total;
    sab_probe *probe;
    check(sab_probe_callbacks_new(&callbacks, &probe));

    /* A few small steps say what a batch of count and length needs. */
    uint64_t counts[POINTS];
    double lengths[POINTS];
    sab_measurement_options range = SAB_MEASUREMENT_OPTIONS_INIT;
    const double shortest = 4, longest = 203;
    range.shortest = &shortest;
    range.longest = &longest;
    range.column_count = 1;
    range.max_count = 10000;
    check(sab_measurement_points_find(&range, POINTS, counts, lengths));
    struct trainer trainer = {&arena, counts, lengths, NULL};
    sab_collect_peak_options collect = SAB_COLLECT_PEAK_OPTIONS_INIT;
    collect.item_count = POINTS;
    collect.work = measure;
    collect.ctx = &trainer;
    sab_peaks *peaks;
    check(sab_peaks_new(&peaks));
    check(sab_collect_peak(probe, &collect, peaks));
    sab_peaks_view measured = SAB_PEAKS_VIEW_INIT;
    check(sab_peaks_get_view(peaks, &measured));
    double bytes[POINTS];
    for (size_t i = 0; i < measured.count; ++i) bytes[i] = (double)measured.peaks[i];
    sab_memory_model *model;
    check(sab_memory_model_fit_new(measured.features, measured.count, measured.feature_count, bytes,
                                   NULL, &model));
    sab_peaks_free(peaks);

    /* The model is the cost of a plan whose budget is the device. */
    sab_budget budget = {.limit = (double)arena.total};
    sab_cost *cost;
    check(sab_memory_model_cost_new(model, &cost));
    budget.cost = cost;
    sab_plan_options options = SAB_PLAN_OPTIONS_INIT;
    options.budgets = &budget;
    options.budget_count = 1;
    sab_memory_model_free(model);
    sab_sizes *sizes;
    sab_plan *plan;
    sab_sampler *sampler;
    check(sab_sizes_new(sizes_of_samples, SAMPLES, SAB_INT32, NULL, &sizes));
    check(sab_plan_new(sizes, &options, &plan));
    sab_cost_free(cost); /* the plan does not need it */
    check(sab_bucket_sampler_new(plan, NULL, &sampler));

    sab_memory_guard *guard;
    check(sab_memory_guard_new(probe, sampler, NULL, &guard));
    sab_step_in_chunks_options step = SAB_STEP_IN_CHUNKS_OPTIONS_INIT;
    step.chunk = run_part;
    step.ctx = &trainer;
    sab_batch batch = SAB_BATCH_INIT;
    sab_status status;
    while ((status = sab_next_batch(sampler, &batch)) == SAB_OK) {
        trainer.batch = &batch;
        check(sab_memory_guard_step(guard, &batch, &step));
    }
    check(status);
    sab_memory_guard_info seen = SAB_MEMORY_GUARD_INFO_INIT;
    check(sab_memory_guard_get_info(guard, &seen));
    printf(
        "%d samples in %d steps, %d out of memory; the peak is %.1f %% of the device on average, "
        "%.1f %% at most\n",
        SAMPLES, (int)seen.steps, (int)seen.out_of_memory,
        100 * seen.mean_peak / (double)arena.total, 100 * (double)seen.peak / (double)arena.total);

    sab_memory_guard_free(guard);
    sab_sampler_free(sampler);
    sab_plan_free(plan);
    sab_sizes_free(sizes);
    sab_probe_free(probe);
    return seen.out_of_memory == 0 ? 0 : 1;
}
