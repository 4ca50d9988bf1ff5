/* The dry run of a plan and the guard. */
#define _GNU_SOURCE

#include "device.h"
#include "one.h"

struct dry_run {
    struct device *device;
    sab_probe *probe; /* freed inside the first batch, when that is wanted */
    int batches, fails_at;
    int32_t code;
    double last;
    int rose, other_rng;
};

static int32_t run_batch(void *ctx, const sab_batch *batch) {
    struct dry_run *run = ctx;
    if (run->probe != NULL) sab_probe_free(run->probe);
    run->probe = NULL;
    run->other_rng += run->device->rng != 1;
    run->rose += run->batches > 0 && padded_total(batch) > run->last;
    run->last = padded_total(batch);
    if (run->batches++ == run->fails_at) {
        touch(run->device, 1);
        return run->code;
    }
    return touch(run->device, (int64_t)(10 * padded_total(batch)));
}

static void PlanVerify_RunsTheWorstBatchesFirst(void) {
    struct device device = device_of(1000, 10000);
    struct dry_run run = {.device = &device, .fails_at = -1};
    sab_plan *plan = a_plan(); /* costs at most 300 */
    sab_probe *probe = probe_of(&device);
    sab_verification seen = SAB_VERIFICATION_INIT;
    EXPECT_OK(sab_plan_verify(plan, probe, run_batch, &run, a_verification(5, NULL, NULL), &seen));
    EXPECT(seen.batches == 5 && run.batches == 5 && seen.peak > 1000 + 10 * 250 &&
           seen.peak <= 1000 + 10 * 300 && seen.total == 10000);
    EXPECT(run.rose == 0 && run.other_rng == 0 && device.rng == 1 && device.unsaved_restores == 0 &&
           device.peak == device.held);
    sab_plan_info info = SAB_PLAN_INFO_INIT;
    EXPECT_OK(sab_plan_get_info(plan, &info));
    /* as many as there are */
    EXPECT_OK(sab_plan_verify(plan, probe, run_batch, &run, a_verification(UINT64_MAX, NULL, NULL),
                              &seen));
    EXPECT(seen.batches == info.batches);
    sab_probe_free(probe);
    run = (struct dry_run){.device = &device, .fails_at = -1, .probe = probe_of(&device)};
    device.freed = 0;
    EXPECT_OK(
        sab_plan_verify(plan, run.probe, run_batch, &run, a_verification(5, NULL, NULL), &seen));
    EXPECT(seen.batches == 5 && device.freed == 1);
    sab_plan_free(plan);
}

static void PlanVerify_ThatFails_LeavesTheRandomStateAndThePeak(void) {
    sab_plan *plan = a_plan();
    for (int at = 0; at < 3; ++at) {
        const int32_t codes[] = {SAB_OUT_OF_MEMORY, 700, 42, -1};
        for (size_t c = 0; c < COUNT(codes); ++c) {
            struct device device = device_of(1000, 0);
            struct dry_run run = {.device = &device, .fails_at = at, .code = codes[c]};
            sab_probe *probe = probe_of(&device);
            sab_verification seen = SAB_VERIFICATION_INIT;
            if (c < 2) {
                EXPECT_FAILS(sab_plan_verify(plan, probe, run_batch, &run,
                                             a_verification(5, NULL, NULL), &seen),
                             SAB_E_DEVICE_MEMORY, "samples padded to ");
                EXPECT(seen.batches == (uint64_t)at + 1 && seen.peak >= 1000); /* filled */
            } else {
                EXPECT_FAILS(sab_plan_verify(plan, probe, run_batch, &run,
                                             a_verification(5, NULL, NULL), &seen),
                             SAB_E_CALLBACK, "batch ");
                EXPECT(sab_last_error_code() == codes[c] && seen.batches == 0);
            }
            EXPECT(run.batches == at + 1 && device.rng == 1 && device.peak == device.held);
            sab_probe_free(probe);
        }
        struct device device = device_of(1000, 0);
        struct dry_run run = {.device = &device, .fails_at = -1};
        sab_probe *probe = probe_of(&device);
        sab_verification seen = SAB_VERIFICATION_INIT;
        uint64_t cancelled = (uint64_t)at;
        EXPECT_FAILS(sab_plan_verify(plan, probe, run_batch, &run,
                                     a_verification(5, cancel_at, &cancelled), &seen),
                     SAB_E_CANCELLED, "77");
        EXPECT(run.batches == at && device.rng == 1 && device.peak == device.held);
        sab_probe_free(probe);
    }
    struct device device = device_of(1000, 0);
    struct dry_run run = {.device = &device, .fails_at = -1};
    sab_probe *probe = probe_of(&device);
    sab_verification seen = SAB_VERIFICATION_INIT;
    EXPECT_FAILS(sab_plan_verify(plan, probe, NULL, &run, a_verification(1, NULL, NULL), &seen),
                 SAB_E_ARGUMENT, "run = NULL");
    EXPECT_FAILS(
        sab_plan_verify(NULL, probe, run_batch, &run, a_verification(1, NULL, NULL), &seen),
        SAB_E_ARGUMENT, "plan = NULL");
    EXPECT_FAILS(sab_plan_verify(plan, NULL, run_batch, &run, a_verification(1, NULL, NULL), &seen),
                 SAB_E_ARGUMENT, "probe = NULL");
    EXPECT_FAILS(sab_plan_verify(plan, probe, run_batch, &run, a_verification(1, NULL, NULL), NULL),
                 SAB_E_ARGUMENT, "result = NULL");
    sab_probe_free(probe);
    sab_plan_free(plan);
}

#define GUARDED 20000

/* A run whose steps need bytes by their shape, on a device that holds ever more. */
struct guarded {
    struct device device;
    const sab_batch *batch;
    uint64_t done; /* samples */
    double leak;   /* bytes that are lost in an epoch */
    double growth; /* of the activations, by the end of an epoch */
    double each;   /* bytes of a sample, whatever its length */
    int ran_out;   /* parts */
    uint64_t seed; /* of the order */
};

static const int64_t guarded_base = 10000000;

static int64_t guarded_bytes(const struct guarded *run, uint64_t count) {
    const double share = (double)run->done / GUARDED,
                 tokens = (double)count * *run->batch->padded_length;
    return (int64_t)((run->each * (double)count + 3e4 * tokens) * (1 + run->growth * share));
}

static int32_t guarded_part(void *ctx, uint64_t first, uint64_t count, double weight) {
    struct guarded *run = ctx;
    (void)first, (void)weight;
    const int32_t code = touch(&run->device, guarded_bytes(run, count));
    run->ran_out += code != 0;
    return code;
}

static void leak(struct guarded *run) {
    run->done += run->batch->count;
    run->device.held = guarded_base + (int64_t)(run->leak * (double)run->done / GUARDED);
}

/* 1e7 + count * (1e4 + 3e4 * length) bytes, fitted to exact measurements. */
static sab_cost *modelled_cost(void) {
    double features[64], peaks[32];
    for (int i = 0; i < 32; ++i) {
        const int row = i / 8;
        const double count = features[2 * i] = 1 + i % 8,
                     length = features[2 * i + 1] = 10 * (1 + row);
        peaks[i] = 1e7 + count * (1e4 + 3e4 * length);
    }
    sab_memory_model_options options = SAB_MEMORY_MODEL_OPTIONS_INIT;
    options.degree = 1;
    sab_memory_model *model = NULL;
    sab_cost *cost = NULL;
    EXPECT_OK(sab_memory_model_fit_new(features, 32, 2, peaks, &options, &model));
    EXPECT_OK(sab_memory_model_cost_new(model, &cost));
    sab_memory_model_free(model);
    return cost;
}

/* Plans of GUARDED samples, some 600 batches: by a model of their bytes (3.5e7 are allowed), or by
 * padded tokens. */
static sab_plan *guarded_plan(int by_model) {
    static int32_t numbers[GUARDED];
    sab_plan_options options = budget(800);
    options.bucket_batches = 16; /* batches that differ: a guard learns from their peaks */
    sab_cost *cost = by_model ? modelled_cost() : NULL;
    if (by_model) SET_BUDGET_OF(options, cost, 3.5e7);
    uint32_t x = 1;
    for (int i = 0; i < GUARDED; ++i) {
        x = x * 1664525u + 1013904223u;
        numbers[i] = (int32_t)(1 + (x >> 16) % (1 + (x >> 8) % 97));
    }
    sab_plan *plan = plan_with(numbers, GUARDED, &options);
    sab_cost_free(cost);
    return plan;
}

static sab_memory_guard_info guard_info(const sab_memory_guard *guard) {
    sab_memory_guard_info info = SAB_MEMORY_GUARD_INFO_INIT;
    EXPECT_OK(sab_memory_guard_get_info(guard, &info));
    return info;
}

static struct guarded a_run(int by_model, int64_t limit) {
    struct guarded run = {.device = device_of(guarded_base, limit), .each = by_model ? 1e4 : 0};
    return run;
}

/* One epoch; gives how often it ran out. */
static int run_guarded(struct guarded *run, const sab_plan *plan, int is_guarded,
                       sab_memory_guard_info *info) {
    sab_sampler_options options = SAB_SAMPLER_OPTIONS_INIT;
    options.seed = run->seed;
    sab_sampler *sampler = NULL;
    EXPECT_OK(sab_bucket_sampler_new(plan, &options, &sampler));
    sab_probe *probe = probe_of(&run->device);
    sab_memory_guard *guard = NULL;
    sab_step_in_chunks_options step = SAB_STEP_IN_CHUNKS_OPTIONS_INIT;
    step.chunk = guarded_part;
    step.ctx = run;
    if (is_guarded) EXPECT_OK(sab_memory_guard_new(probe, sampler, NULL, &guard));
    sab_probe_free(probe); /* the guard keeps it */
    static int seen[GUARDED];
    memset(seen, 0, sizeof seen);
    sab_batch batch = SAB_BATCH_INIT;
    uint64_t steps = 0;
    for (; sab_next_batch(sampler, &batch) == SAB_OK; ++steps) {
        run->batch = &batch;
        for (uint64_t i = 0; i < batch.count; ++i) ++seen[batch.indices[i]];
        if (is_guarded)
            EXPECT_OK(sab_memory_guard_step(guard, &batch, &step));
        else
            guarded_part(run, 0, batch.count, 1);
        leak(run);
    }
    EXPECT(all_are(seen, GUARDED, 1) && steps > 300);
    if (is_guarded) {
        *info = guard_info(guard);
        double budget = 0;
        EXPECT_OK(sab_sampler_get_budget(sampler, 0, &budget));
        EXPECT(info->steps == steps && info->limit == budget && info->peak <= run->device.limit &&
               info->mean_peak > 1e7 && info->mean_peak <= (double)info->peak);
    }
    sab_memory_guard_free(guard);
    sab_sampler_free(sampler);
    EXPECT(run->device.freed == 1 && run->device.unsaved_restores == 0);
    return run->ran_out;
}

/* It learns from the batches that come first, so in some orders it is too late, once or twice. */
static void Guard_OfALeakOfThirtyPercent_LowersInTime(void) {
    for (int by_model = 0; by_model <= 1; ++by_model) {
        sab_plan *plan = guarded_plan(by_model);
        int in_time = 0;
        for (uint64_t seed = 0; seed < 20; ++seed) {
            sab_memory_guard_info info = SAB_MEMORY_GUARD_INFO_INIT;
            struct guarded run = a_run(by_model, 35700000);
            run.leak = 0.3 * 3.5e7;
            run.seed = seed;
            EXPECT(run_guarded(&run, plan, 0, &info) > 2); /* fails without */
            run = a_run(by_model, 35700000);
            run.leak = 0.3 * 3.5e7;
            run.seed = seed;
            const int ran_out = run_guarded(&run, plan, 1, &info);
            in_time += ran_out == 0;
            EXPECT(ran_out <= 2 && info.out_of_memory == (uint64_t)ran_out);
            EXPECT(info.lowered >= 1 && info.limit < (by_model ? 3.5e7 : 800));
            EXPECT(info.peak > 0.9 * 35700000); /* and uses what there is */
        }
        EXPECT(in_time >= 13);
        sab_plan_free(plan);
    }
}

static void Guard_OfActivationsThatGrow_Survives(void) {
    for (int by_model = 0; by_model <= 1; ++by_model) {
        sab_plan *plan = guarded_plan(by_model);
        sab_memory_guard_info info = SAB_MEMORY_GUARD_INFO_INIT;
        struct guarded run = a_run(by_model, 36400000);
        run.growth = 0.4;
        /* not what the guard fits, so that some steps may run out */
        EXPECT(run_guarded(&run, plan, 1, &info) <= 8 && info.lowered >= 1);
        EXPECT((int)info.out_of_memory <= run.ran_out);
        sab_plan_free(plan);
    }
}

/* Nothing is lowered while there is room. */
static void Guard_OfASteadyRun_LowersNothing(void) {
    for (int by_model = 0; by_model <= 1; ++by_model) {
        sab_plan *plan = guarded_plan(by_model);
        sab_memory_guard_info info = SAB_MEMORY_GUARD_INFO_INIT;
        struct guarded run = a_run(by_model, 36000000);
        EXPECT(run_guarded(&run, plan, 1, &info) == 0 && info.lowered == 0 &&
               info.limit == (by_model ? 3.5e7 : 800));
        sab_plan_free(plan);
    }
}

static void Guard_Step_CallsTheProbeOnceForEach(void) {
    struct guarded run = a_run(1, 36000000);
    sab_plan *plan = guarded_plan(1);
    sab_memory_guard_info info = SAB_MEMORY_GUARD_INFO_INIT;
    EXPECT(run_guarded(&run, plan, 1, &info) == 0);
    const int steps = (int)info.steps;
    EXPECT(run.device.calls[RESET] == steps && run.device.calls[RNG_SAVE] <= steps &&
           run.device.calls[RNG_RESTORE] == 0);
    /* and once for the limit */
    for (int function = CURRENT; function <= TOTAL; ++function)
        EXPECT(run.device.calls[function] <= steps + 1);
    EXPECT(run.device.calls[PEAK] >= steps && run.device.calls[RELEASE_CACHE] == 0 &&
           run.device.asked == 0);
    sab_plan_free(plan);
}

static int32_t never_fits(void *ctx, uint64_t first, uint64_t count, double weight) {
    (void)ctx, (void)first, (void)count, (void)weight;
    return SAB_OUT_OF_MEMORY;
}

static int32_t always_fails(void *ctx, uint64_t first, uint64_t count, double weight) {
    (void)ctx, (void)first, (void)count, (void)weight;
    return 42;
}

static int32_t count_meetings(void *ctx, int64_t *values, size_t count) {
    (void)values, (void)count;
    ++*(int *)ctx;
    return 0;
}

/* The other ranks count the step too, and meet: or they would wait for this one for ever. They
 * meet again where the budget is lowered, which all must be able to do. */
static void Guard_OfAStepThatFails_CountsItAndMeetsTheOthers(void) {
    sab_plan *plan = guarded_plan(1);
    sab_sampler *sampler = rank_of(plan, 0, 1);
    struct device device = device_of(guarded_base, 36000000);
    sab_probe *probe = probe_of(&device);
    sab_memory_guard *guard = NULL;
    sab_memory_guard_options options = SAB_MEMORY_GUARD_OPTIONS_INIT;
    int meetings = 0;
    options.interval = 1;
    options.reduce = count_meetings;
    options.reduce_ctx = &meetings;
    EXPECT_OK(sab_memory_guard_new(probe, sampler, &options, &guard));
    sab_batch batch = SAB_BATCH_INIT;
    sab_step_in_chunks_options step = SAB_STEP_IN_CHUNKS_OPTIONS_INIT;
    EXPECT_OK(sab_next_batch(sampler, &batch));
    step.chunk = never_fits;
    EXPECT_FAILS(sab_memory_guard_step(guard, &batch, &step), SAB_E_DEVICE_MEMORY,
                 "not enough memory even for a batch of one");
    EXPECT(meetings == 2 && guard_info(guard).steps == 1 && guard_info(guard).out_of_memory == 1 &&
           guard_info(guard).lowered == 1);
    step.chunk = always_fails;
    EXPECT_FAILS(sab_memory_guard_step(guard, &batch, &step), SAB_E_CALLBACK, "chunk of ");
    EXPECT(sab_last_error_code() == 42 && meetings == 3 && guard_info(guard).steps == 2 &&
           guard_info(guard).out_of_memory == 1);
    sab_memory_guard_free(guard);
    sab_probe_free(probe);
    sab_sampler_free(sampler);
    sab_plan_free(plan);
}

/* Memory that is suddenly gone: the step is split, counted once, and the next ones are smaller.
 */
static void Guard_OfAStepThatRunsOut_SplitsItAndCountsItOnce(void) {
    sab_plan *plan = guarded_plan(1);
    struct guarded run = a_run(1, 36000000);
    sab_sampler *sampler = rank_of(plan, 0, 1);
    sab_probe *probe = probe_of(&run.device);
    sab_memory_guard *guard = NULL;
    sab_step_in_chunks_options step = SAB_STEP_IN_CHUNKS_OPTIONS_INIT;
    step.chunk = guarded_part;
    step.ctx = &run;
    EXPECT_OK(sab_memory_guard_new(probe, sampler, NULL, &guard));
    sab_batch batch = SAB_BATCH_INIT;
    for (int i = 0; i < 100 && sab_next_batch(sampler, &batch) == SAB_OK; ++i) {
        run.batch = &batch;
        if (i == 20) run.device.held += 15000000; /* 10.5 of 25 are left */
        const int before = run.ran_out;
        const sab_memory_guard_info was = guard_info(guard);
        EXPECT_OK(sab_memory_guard_step(guard, &batch, &step));
        const sab_memory_guard_info is = guard_info(guard);
        EXPECT(is.steps == was.steps + 1 &&
               is.out_of_memory == was.out_of_memory + (run.ran_out > before));
        if (i == 20) EXPECT(run.ran_out - before >= 1 && is.out_of_memory == 1);
        /* judged after 32 steps, and again after 48 and 64 */
        if (i >= 64) EXPECT(run.ran_out == before);
    }
    EXPECT(guard_info(guard).lowered >= 1);
    sab_memory_guard_free(guard);
    sab_probe_free(probe);
    sab_sampler_free(sampler);
    sab_plan_free(plan);
}

/* The same for callers that run their own steps. */
static void Guard_BeginAndEnd_SeeWhatStepSees(void) {
    sab_plan *plan = guarded_plan(0);
    struct guarded runs[2] = {a_run(0, 37000000), a_run(0, 37000000)};
    runs[0].leak = runs[1].leak = 0.3 * 3.5e7;
    sab_sampler *samplers[2];
    sab_probe *probes[2];
    sab_memory_guard *guards[2] = {NULL, NULL};
    sab_step_in_chunks_options step = SAB_STEP_IN_CHUNKS_OPTIONS_INIT;
    step.chunk = guarded_part;
    step.ctx = &runs[0];
    for (int i = 0; i < 2; ++i) {
        samplers[i] = rank_of(plan, 0, 1);
        probes[i] = probe_of(&runs[i].device);
        EXPECT_OK(sab_memory_guard_new(probes[i], samplers[i], NULL, &guards[i]));
    }
    sab_batch batch[2] = {SAB_BATCH_INIT, SAB_BATCH_INIT};
    while (sab_next_batch(samplers[0], &batch[0]) == SAB_OK &&
           sab_next_batch(samplers[1], &batch[1]) == SAB_OK) {
        runs[0].batch = &batch[0];
        runs[1].batch = &batch[1];
        EXPECT_OK(sab_memory_guard_step(guards[0], &batch[0], &step));
        EXPECT_OK(sab_memory_guard_begin(guards[1]));
        EXPECT(guarded_part(&runs[1], 0, batch[1].count, 1) == 0);
        EXPECT_OK(sab_memory_guard_end(guards[1], &batch[1], 0));
        leak(&runs[0]);
        leak(&runs[1]);
    }
    const sab_memory_guard_info a = guard_info(guards[0]), b = guard_info(guards[1]);
    EXPECT(a.steps == b.steps && a.limit == b.limit && a.lowered == b.lowered && a.peak == b.peak &&
           a.mean_peak == b.mean_peak && a.creep == b.creep);
    EXPECT(sab_memory_guard_end(guards[1], &batch[1], 2) == SAB_E_ARGUMENT);
    for (int i = 0; i < 2; ++i) {
        sab_memory_guard_free(guards[i]);
        sab_probe_free(probes[i]);
        sab_sampler_free(samplers[i]);
    }
    sab_plan_free(plan);
}

static sab_memory_guard_options every_eight_steps(void) {
    sab_memory_guard_options options = SAB_MEMORY_GUARD_OPTIONS_INIT;
    options.window = options.interval = 8;
    return options;
}

/* An empty batch is a step, but there is no peak to it; the window forgets what is older than
 * it is long. */
static void Guard_WindowAndMean_LeaveEmptyStepsOut(void) {
    sab_plan *plan = guarded_plan(1);
    struct device device = device_of(guarded_base, 100000000);
    sab_sampler *sampler = rank_of(plan, 0, 1);
    sab_probe *probe = probe_of(&device);
    sab_memory_guard_options options = every_eight_steps();
    sab_memory_guard *guard = NULL;
    EXPECT_OK(sab_memory_guard_new(probe, sampler, &options, &guard));
    sab_batch batch = SAB_BATCH_INIT;
    EXPECT_OK(sab_next_batch(sampler, &batch));
    const double ten = 10;
    batch.padded_length = &ten; /* by the model 1e7 + 1e5 + 3e6 */
    /* every eighth step has no samples for this rank; the ninth step was a bad one */
    for (int i = 0; i < 80; ++i) {
        batch.count = i % 8 == 7 ? 0 : 10;
        EXPECT_OK(sab_memory_guard_begin(guard));
        if (batch.count > 0) EXPECT(touch(&device, i == 8 ? 50000000 : 3100000) == 0);
        EXPECT_OK(sab_memory_guard_end(guard, &batch, 0));
    }
    const sab_memory_guard_info info = guard_info(guard);
    EXPECT(info.steps == 80 && info.peak == 60000000);
    EXPECT(is_near(info.mean_peak, (60000000 + 69 * 13100000.0) / 70, 1e-9));
    EXPECT(info.creep < 1000); /* the bad one was 70 steps ago */
    sab_memory_guard_free(guard);
    sab_probe_free(probe);
    sab_sampler_free(sampler);
    sab_plan_free(plan);
}

/* Peaks that do not grow with the batch, such as those of an allocator that keeps its memory,
 * stay where they are: a cheap batch among costly ones does not make them seem to exceed the
 * model. */
static void Guard_OfPeaksThatAreTheSameForAllBatches_LowersNothing(void) {
    sab_plan *plan = guarded_plan(0);
    struct device device = device_of(guarded_base, 22000000);
    sab_sampler *sampler = rank_of(plan, 0, 1);
    sab_probe *probe = probe_of(&device);
    sab_memory_guard *guard = NULL;
    EXPECT_OK(sab_memory_guard_new(probe, sampler, NULL, &guard));
    sab_batch batch = SAB_BATCH_INIT;
    double least = INFINITY;
    for (int i = 0; sab_next_batch(sampler, &batch) == SAB_OK; ++i) {
        least = fmin(least, padded_total(&batch));
        EXPECT_OK(sab_memory_guard_begin(guard));
        EXPECT(touch(&device, 10000000 + i * 7919 % 100 * 1000) == 0);
        EXPECT_OK(sab_memory_guard_end(guard, &batch, 0));
    }
    const sab_memory_guard_info info = guard_info(guard);
    EXPECT(info.steps > 300 && least < 600 && info.lowered == 0 && info.limit == 800);
    sab_memory_guard_free(guard);
    sab_probe_free(probe);
    sab_sampler_free(sampler);
    sab_plan_free(plan);
}

/* A size of zero costs as much as the smallest above zero, for the guard as for the plan: no
 * budget below that helps. */
static void Guard_OfSizesOfZero_KeepsTheirPrice(void) {
    static const double boundaries[] = {0, 50, 200};
    int32_t numbers[128];
    for (int i = 0; i < 128; ++i) numbers[i] = i % 2 * 100;
    sab_plan_options plan_options = budget(400);
    plan_options.bucket_rule = SAB_BUCKETS_BOUNDARIES;
    plan_options.boundaries = boundaries;
    plan_options.boundary_count = COUNT(boundaries);
    sab_plan *plan = plan_with(numbers, 128, &plan_options);
    struct device device = device_of(guarded_base, 100000000);
    sab_sampler *sampler = rank_of(plan, 0, 1);
    sab_probe *probe = probe_of(&device);
    sab_memory_guard_options options = every_eight_steps();
    sab_memory_guard *guard = NULL;
    options.limit = 1; /* out of reach */
    EXPECT_OK(sab_memory_guard_new(probe, sampler, &options, &guard));
    sab_batch batch = SAB_BATCH_INIT;
    for (int i = 0; i < 8; ++i) {
        EXPECT_OK(sab_next_batch(sampler, &batch));
        EXPECT_OK(sab_memory_guard_begin(guard));
        EXPECT(touch(&device, 1000) == 0);
        EXPECT_OK(sab_memory_guard_end(guard, &batch, 0));
    }
    const sab_memory_guard_info info = guard_info(guard);
    EXPECT(info.lowered == 1 && is_near(info.limit, 100, 1e-9));
    EXPECT_OK(sab_next_batch(sampler, &batch));
    EXPECT(batch.count == 1);
    sab_memory_guard_free(guard);
    sab_probe_free(probe);
    sab_sampler_free(sampler);
    sab_plan_free(plan);
}

static void Guard_ThatCannotBe_IsRefused(void) {
    sab_plan *plan = guarded_plan(1), *other = a_plan();
    struct guarded run = a_run(1, 36000000);
    sab_sampler *sampler = rank_of(plan, 0, 1), *refused[2] = {NULL, NULL};
    sab_probe *probe = probe_of(&run.device), *blind = NULL;
    sab_memory_guard *guard = NULL;
    const sab_memory_guard_options good = SAB_MEMORY_GUARD_OPTIONS_INIT;
    sab_memory_guard_options options = good;
    options.limit = -1;
    EXPECT_FAILS(sab_memory_guard_new(probe, sampler, &options, &guard), SAB_E_ARGUMENT,
                 "options.limit = -1");
    options = good;
    options.window = 7;
    EXPECT_FAILS(sab_memory_guard_new(probe, sampler, &options, &guard), SAB_E_ARGUMENT,
                 "options.window = 7");
    sab_probe_callbacks callbacks = callbacks_of(&run.device);
    callbacks.total = NULL;
    EXPECT_OK(sab_probe_callbacks_new(&callbacks, &blind));
    EXPECT_FAILS(sab_memory_guard_new(blind, sampler, NULL, &guard), SAB_E_ARGUMENT,
                 "options.limit = 0");
    options = good;
    options.limit = 36000000;
    EXPECT_OK(sab_memory_guard_new(blind, sampler, &options, &guard));
    EXPECT_FAILS(sab_memory_guard_step(guard, NULL, NULL), SAB_E_ARGUMENT, "batch = NULL");
    sab_memory_guard_free(guard);
    sab_probe_free(blind);
    sab_sizes *sizes = sizes_of(lengths(100), 100);
    EXPECT_OK(sab_ordered_sampler_new(NULL, 100, sizes, 300, NULL, &refused[0]));
    EXPECT_OK(sab_costliest_sampler_new(other, 5, &refused[1]));
    for (int i = 0; i < 2; ++i) {
        EXPECT_FAILS(sab_memory_guard_new(probe, refused[i], NULL, &guard), SAB_E_UNSUPPORTED,
                     "sab_memory_guard_new: this sampler's batches are not a plan's");
        sab_memory_guard_free(guard);
        sab_sampler_free(refused[i]);
    }
    EXPECT_FAILS(sab_memory_guard_new(NULL, sampler, NULL, &guard), SAB_E_ARGUMENT, "probe = NULL");
    EXPECT_FAILS(sab_memory_guard_new(probe, NULL, NULL, &guard), SAB_E_ARGUMENT, "sampler = NULL");
    /* a step that fails gives its code, and the guard goes on */
    sab_batch batch = SAB_BATCH_INIT;
    struct parts parts = {.device = &run.device, .each = 1, .fails_at = 1, .code = 42};
    sab_step_in_chunks_options step = SAB_STEP_IN_CHUNKS_OPTIONS_INIT;
    step.chunk = run_part;
    step.ctx = &parts;
    EXPECT_OK(sab_memory_guard_new(probe, sampler, NULL, &guard));
    EXPECT_OK(sab_next_batch(sampler, &batch));
    parts.count = batch.count;
    EXPECT_FAILS(sab_memory_guard_step(guard, &batch, &step), SAB_E_CALLBACK, "chunk");
    EXPECT(sab_last_error_code() == 42);
    parts.next = 0;
    EXPECT_OK(sab_memory_guard_step(guard, &batch, &step));
    parts.next = 0;
    parts.each = 100000000;
    step.begin = begin_parts;
    EXPECT_FAILS(sab_memory_guard_step(guard, &batch, &step), SAB_E_DEVICE_MEMORY,
                 "not enough memory even for a batch of one");
    sab_memory_guard_free(guard);
    sab_memory_guard_free(NULL);
    sab_sizes_free(sizes);
    sab_probe_free(probe);
    sab_sampler_free(sampler);
    sab_plan_free(plan);
    sab_plan_free(other);
}

struct guarded_rank {
    const sab_plan *plan;
    struct meeting *meeting;
    uint64_t rank;
    struct guarded run;
    double budgets[4000]; /* after each step */
    uint64_t steps, samples;
    int failed;
    sab_memory_guard_info info;
};

static void *guard_as_rank(void *argument) {
    struct guarded_rank *self = argument;
    sab_sampler_options options = SAB_SAMPLER_OPTIONS_INIT;
    sab_memory_guard_options guard_options = SAB_MEMORY_GUARD_OPTIONS_INIT;
    sab_step_in_chunks_options step = SAB_STEP_IN_CHUNKS_OPTIONS_INIT;
    sab_sampler *sampler = NULL;
    sab_probe *probe = NULL;
    sab_memory_guard *guard = NULL;
    options.rank = self->rank;
    options.world_size = RANKS;
    options.seed = 7;
    guard_options.reduce = leave_least;
    guard_options.reduce_ctx = self->meeting;
    step.chunk = guarded_part;
    step.ctx = &self->run;
    const sab_probe_callbacks callbacks = callbacks_of(&self->run.device);
    self->failed += sab_bucket_sampler_new(self->plan, &options, &sampler) != SAB_OK;
    self->failed += sab_probe_callbacks_new(&callbacks, &probe) != SAB_OK;
    self->failed += sab_memory_guard_new(probe, sampler, &guard_options, &guard) != SAB_OK;
    for (sab_batch batch = SAB_BATCH_INIT; sab_next_batch(sampler, &batch) == SAB_OK;
         ++self->steps) {
        self->run.batch = &batch;
        self->failed += sab_memory_guard_step(guard, &batch, &step) != SAB_OK;
        leak(&self->run);
        self->samples += batch.count;
        if (self->steps < COUNT(self->budgets))
            self->failed +=
                sab_sampler_get_budget(sampler, 0, &self->budgets[self->steps]) != SAB_OK;
    }
    self->info.struct_size = sizeof self->info;
    self->failed += sab_memory_guard_get_info(guard, &self->info) != SAB_OK;
    sab_memory_guard_free(guard);
    sab_probe_free(probe);
    sab_sampler_free(sampler);
    return NULL;
}

static void Guard_OnThreeRanks_LowersAlike(void) {
    static struct guarded_rank ranks[RANKS];
    sab_plan *plan = guarded_plan(1);
    struct meeting meeting = meeting_of(RANKS);
    pthread_t threads[RANKS];
    memset(ranks, 0, sizeof ranks);
    for (int i = 0; i < RANKS; ++i) { /* a third of the samples each, but one leaks for all */
        ranks[i].plan = plan;
        ranks[i].meeting = &meeting;
        ranks[i].rank = (uint64_t)i;
        ranks[i].run = a_run(1, 36500000);
        ranks[i].run.leak = i == 1 ? 3 * 0.3 * 3.5e7 : 0;
        pthread_create(&threads[i], NULL, guard_as_rank, &ranks[i]);
    }
    uint64_t samples = 0;
    for (int i = 0; i < RANKS; ++i) {
        pthread_join(threads[i], NULL);
        samples += ranks[i].samples;
    }
    EXPECT(!meeting.is_lost && samples == GUARDED && ranks[1].info.lowered >= 1);
    for (int i = 0; i < RANKS; ++i) {
        EXPECT(ranks[i].failed == 0 && ranks[i].run.ran_out == 0 &&
               ranks[i].steps == ranks[0].steps && ranks[i].info.lowered == ranks[0].info.lowered);
        EXPECT(memcmp(ranks[i].budgets, ranks[0].budgets, sizeof ranks[i].budgets) == 0);
    }
    sab_plan_free(plan);
}

int main(void) {
    RUN(PlanVerify_RunsTheWorstBatchesFirst);
    RUN(PlanVerify_ThatFails_LeavesTheRandomStateAndThePeak);
    RUN(Guard_OfALeakOfThirtyPercent_LowersInTime);
    RUN(Guard_OfActivationsThatGrow_Survives);
    RUN(Guard_OfASteadyRun_LowersNothing);
    RUN(Guard_Step_CallsTheProbeOnceForEach);
    RUN(Guard_OfAStepThatFails_CountsItAndMeetsTheOthers);
    RUN(Guard_OfAStepThatRunsOut_SplitsItAndCountsItOnce);
    RUN(Guard_BeginAndEnd_SeeWhatStepSees);
    RUN(Guard_WindowAndMean_LeaveEmptyStepsOut);
    RUN(Guard_OfPeaksThatAreTheSameForAllBatches_LowersNothing);
    RUN(Guard_OfSizesOfZero_KeepsTheirPrice);
    RUN(Guard_ThatCannotBe_IsRefused);
    RUN(Guard_OnThreeRanks_LowersAlike);
    return finish();
}
