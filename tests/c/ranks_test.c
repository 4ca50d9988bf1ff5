/* Balanced steps, samples spread over ranks, and what ranks know of each other. */
#define _GNU_SOURCE
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "helpers.h"
#include "posix.h"

#define SAMPLES 1500

/* Few long, many short. */
static const int32_t *skewed(void) {
    static int32_t made[SAMPLES];
    any_state = 99;
    for (int i = 0; i < SAMPLES; ++i) {
        made[i] = 1 + (int32_t)any_below(100);
        if (any_below(20) == 0) made[i] *= 8;
    }
    return made;
}

static sab_sampler *balanced_with(const sab_balanced_options *balanced,
                                  const sab_sampler_options *options) {
    sab_sizes *sizes = sizes_of(skewed(), SAMPLES);
    sab_sampler *sampler = NULL;
    EXPECT_OK(sab_balanced_sampler_new(sizes, balanced, options, &sampler));
    sab_sizes_free(sizes);
    return sampler;
}

static sab_sampler_options on(uint64_t rank, uint64_t world_size) {
    sab_sampler_options options = SAB_SAMPLER_OPTIONS_INIT;
    options.rank = rank;
    options.world_size = world_size;
    options.seed = 11;
    return options;
}

static double cost_of(const sab_balanced_options *balanced, double size) {
    return balanced->cost == SAB_COST_QUADRATIC ? size * size : size;
}

/* What an epoch must be on all ranks together. */
static void check_epoch(const sab_balanced_options *balanced, uint64_t world_size) {
    static sab_sampler *samplers[16];
    static int seen[SAMPLES];
    const int32_t *sizes = skewed();
    memset(seen, 0, sizeof seen);
    for (uint64_t r = 0; r < world_size; ++r) {
        const sab_sampler_options options = on(r, world_size);
        samplers[r] = balanced_with(balanced, &options);
    }
    sab_balance_report report = SAB_BALANCE_REPORT_INIT;
    EXPECT_OK(sab_sampler_balance_report(samplers[0], NULL, NULL, &report));
    uint64_t count = 0;
    EXPECT_OK(sab_sampler_batch_count(samplers[0], &count));
    EXPECT(count == report.steps * balanced->micro_batches);
    double time = 0, all = 0;
    for (uint64_t step = 0; step < report.steps; ++step) {
        double slowest = 0, step_total = 0, told = -1;
        uint64_t step_samples = 0, told_samples = 0;
        for (uint64_t r = 0; r < world_size; ++r) {
            double cost = 0;
            for (uint64_t m = 0; m < balanced->micro_batches; ++m) {
                sab_batch batch = SAB_BATCH_INIT;
                EXPECT_OK(sab_next_batch(samplers[r], &batch));
                double total = 0, longest = 0;
                EXPECT(batch.cu_seqlens != NULL && batch.starts == NULL &&
                       batch.cu_seqlens[0] == 0);
                for (uint64_t i = 0; i < batch.count; ++i) {
                    EXPECT(batch.cu_seqlens[i + 1] - batch.cu_seqlens[i] ==
                           sizes[batch.indices[i]]);
                    ++seen[batch.indices[i]];
                    total += sizes[batch.indices[i]];
                    longest = fmax(longest, sizes[batch.indices[i]]);
                    cost += cost_of(balanced, sizes[batch.indices[i]]);
                }
                EXPECT(batch.total == total && batch.longest == longest &&
                       batch.padded_length == total && batch.padded_total == total);
                EXPECT(batch.step == step && batch.micro_batch == m &&
                       batch.micro_batches == balanced->micro_batches && batch.bucket == -1);
                EXPECT(balanced->max_total == 0 || total <= balanced->max_total);
                step_total += total;
                step_samples += batch.count;
                told = batch.step_total;
                told_samples = batch.step_samples;
            }
            slowest = fmax(slowest, cost);
            all += cost;
        }
        EXPECT(told == step_total && told_samples == step_samples && step_samples > 0);
        EXPECT(balanced->samples == 0 || step_samples <= balanced->samples);
        time += slowest;
    }
    EXPECT(all_are(seen, SAMPLES, 1));
    EXPECT(fabs(report.time - time) <= 1e-9 * time &&
           fabs(report.least_time * (double)world_size - all) <= 1e-9 * all);
    EXPECT(report.rank_imbalance >= 1 && report.rank_imbalance <= report.largest_rank_imbalance);
    for (uint64_t r = 0; r < world_size; ++r) {
        sab_batch batch = SAB_BATCH_INIT;
        EXPECT(sab_next_batch(samplers[r], &batch) == SAB_END &&
               sab_next_batch(samplers[r], &batch) == SAB_END);
        sab_sampler_free(samplers[r]);
    }
}

static void every_sample_once_in_equal_steps_under_the_cap(void) {
    for (uint64_t world_size = 1; world_size <= 8; world_size = 2 * world_size - world_size / 3)
        for (uint64_t micro_batches = 1; micro_batches <= 3; ++micro_batches)
            for (int i = 0; i < 8; ++i) {
                sab_balanced_options balanced = SAB_BALANCED_OPTIONS_INIT;
                balanced.micro_batches = micro_batches;
                balanced.cost = i % 2 == 0 ? SAB_COST_PADDED : SAB_COST_QUADRATIC;
                if (i / 2 % 2 == 0 || i >= 4) balanced.max_total = i < 4 ? 1000 : 800;
                if (i / 2 % 2 == 1) balanced.samples = 60;
                if (i == 7) balanced.fill = 1;
                check_epoch(&balanced, world_size);
            }
}

static void costs_are_even(void) {
    sab_balanced_options balanced = SAB_BALANCED_OPTIONS_INIT;
    const sab_sampler_options options = on(0, 4);
    balanced.max_total = 4000;
    for (int quadratic = 0; quadratic < 2; ++quadratic) {
        balanced.cost = quadratic ? SAB_COST_QUADRATIC : SAB_COST_PADDED;
        sab_sampler *sampler = balanced_with(&balanced, &options);
        sab_balance_report report = SAB_BALANCE_REPORT_INIT;
        EXPECT_OK(sab_sampler_balance_report(sampler, NULL, NULL, &report));
        EXPECT(report.rank_imbalance < (quadratic ? 1.02 : 1.001));
        EXPECT(report.samples == SAMPLES && report.skipped == 0 && report.dropped == 0);
        EXPECT(report.fill > 0.6 && report.fill <= 0.95); /* the last step may be nearly empty */
        sab_sampler_free(sampler);
    }
}

static void the_order_is_random_and_changes(void) {
    sab_balanced_options balanced = SAB_BALANCED_OPTIONS_INIT;
    balanced.samples = 50;
    const sab_sampler_options options = on(0, 1);
    sab_sampler *sampler = balanced_with(&balanced, &options);
    sab_batch batch = SAB_BATCH_INIT;
    EXPECT_OK(sab_next_batch(sampler, &batch));
    int64_t first[50];
    EXPECT(batch.count == 50);
    memcpy(first, batch.indices, sizeof first);
    EXPECT_OK(sab_sampler_set_epoch(sampler, 1));
    EXPECT_OK(sab_next_batch(sampler, &batch));
    EXPECT(memcmp(first, batch.indices, sizeof first) != 0);
    EXPECT_OK(sab_sampler_set_epoch(sampler, 0));
    EXPECT_OK(sab_next_batch(sampler, &batch));
    EXPECT(memcmp(first, batch.indices, sizeof first) == 0);
    EXPECT_OK(sab_sampler_at(sampler, 7, &batch));
    EXPECT(batch.step == 7);
    sab_sampler_free(sampler);
}

static void last_steps(void) {
    for (int policy = SAB_LAST_STEP_SPLIT; policy <= SAB_LAST_STEP_WRAP; ++policy) {
        int seen[SAMPLES] = {0}, sum = 0;
        uint64_t steps = 0;
        for (uint64_t r = 0; r < 3; ++r) {
            sab_balanced_options balanced = SAB_BALANCED_OPTIONS_INIT;
            balanced.samples = 64;
            sab_sampler_options options = on(r, 3);
            options.last_step = policy;
            sab_sampler *sampler = balanced_with(&balanced, &options);
            steps = walk(sampler, seen);
            sab_sampler_free(sampler);
        }
        for (int i = 0; i < SAMPLES; ++i) sum += seen[i];
        EXPECT(steps == (policy == SAB_LAST_STEP_DROP ? SAMPLES / 64 : (SAMPLES + 63) / 64));
        EXPECT(sum == (policy == SAB_LAST_STEP_SPLIT ? SAMPLES : (int)steps * 64));
        if (policy == SAB_LAST_STEP_WRAP) EXPECT(!all_are(seen, SAMPLES, 1));
    }
}

/* Takes `steps` micro-batches on each of some ranks from a state, and gives the next one. */
static void go_on(uint64_t world_size, uint64_t micro_batches, uint64_t samples, int64_t count,
                  unsigned char *state, int *seen) {
    unsigned char first[SAB_STATE_SIZE];
    for (uint64_t r = 0; r < world_size; ++r) {
        sab_balanced_options balanced = SAB_BALANCED_OPTIONS_INIT;
        balanced.samples = samples;
        balanced.max_total = 900;
        balanced.cost = SAB_COST_QUADRATIC;
        balanced.micro_batches = micro_batches;
        const sab_sampler_options options = on(r, world_size);
        sab_sampler *sampler = balanced_with(&balanced, &options);
        if (state[0] != 0) EXPECT_OK(sab_sampler_state_restore(sampler, state, SAB_STATE_SIZE));
        sab_batch batch = SAB_BATCH_INIT;
        for (int64_t i = 0; i != count && sab_next_batch(sampler, &batch) == SAB_OK; ++i)
            for (uint64_t k = 0; k < batch.count; ++k) ++seen[batch.indices[k]];
        unsigned char own[SAB_STATE_SIZE];
        EXPECT_OK(sab_sampler_state_save(sampler, own));
        if (r == 0) memcpy(first, own, sizeof own);
        EXPECT(memcmp(first, own, sizeof own) == 0);
        sab_sampler_free(sampler);
    }
    memcpy(state, first, sizeof first);
}

static void a_state_goes_on_with_other_ranks(void) {
    for (uint64_t begun = 1; begun <= 5; ++begun)
        for (uint64_t then = 1; then <= 7; then += 2) {
            unsigned char state[SAB_STATE_SIZE] = {0};
            int seen[SAMPLES] = {0};
            go_on(begun, 2, 0, 4, state, seen);
            go_on(then, 1, 0, 3, state, seen);
            go_on(begun + 1, 3, 40, 6, state, seen);
            go_on(then + 1, 2, 0, -1, state, seen);
            EXPECT(all_are(seen, SAMPLES, 1));
        }
}

static void a_state_inside_a_step(void) {
    unsigned char state[SAB_STATE_SIZE] = {0};
    int seen[SAMPLES] = {0};
    go_on(2, 3, 0, 4, state, seen); /* one step and a third */
    unsigned char again[SAB_STATE_SIZE];
    memcpy(again, state, sizeof again);
    sab_balanced_options balanced = SAB_BALANCED_OPTIONS_INIT;
    balanced.max_total = 900;
    balanced.micro_batches = 3;
    const sab_sampler_options options = on(0, 3);
    sab_sampler *sampler = balanced_with(&balanced, &options);
    EXPECT_FAILS(sab_sampler_state_restore(sampler, state, sizeof state), SAB_E_MISMATCH,
                 "inside a step, after micro-batch 1 of 3");
    int fresh[SAMPLES] = {0};
    walk(sampler, fresh); /* as if nothing had been */
    sab_sampler_free(sampler);
    go_on(2, 3, 0, -1, again, seen);
    EXPECT(all_are(seen, SAMPLES, 1));
}

/* What is left of an epoch that other options began: no sample twice, and none lost but those that
 * no longer fit. */
static void a_state_goes_on_with_other_costs_and_caps(void) {
    const int32_t *sizes = skewed();
    for (int i = 0; i < 6; ++i) {
        sab_balanced_options before = SAB_BALANCED_OPTIONS_INIT, after = SAB_BALANCED_OPTIONS_INIT;
        before.max_total = i % 2 == 0 ? 1000 : 850;
        before.micro_batches = 1 + (uint64_t)i % 3;
        before.cost = SAB_COST_QUADRATIC;
        after = before;
        if (i < 2) after.cost = SAB_COST_PADDED;
        if (i >= 2) after.max_total = i < 4 ? 400 : 2000;
        after.oversize = SAB_OVERSIZE_SKIP;
        int seen[SAMPLES] = {0};
        unsigned char state[SAB_STATE_SIZE], again[SAB_STATE_SIZE];
        for (int part = 0; part < 2; ++part)
            for (uint64_t r = 0; r < 4; ++r) {
                const sab_sampler_options options = on(r, 4);
                sab_sampler *sampler = balanced_with(part == 0 ? &before : &after, &options);
                if (part == 1) {
                    EXPECT_OK(sab_sampler_state_restore(sampler, state, sizeof state));
                    /* and once more, as if this rank had been replaced */
                    EXPECT_OK(sab_sampler_state_save(sampler, again));
                    EXPECT_OK(sab_sampler_state_restore(sampler, again, sizeof again));
                    unsigned char third[SAB_STATE_SIZE];
                    EXPECT_OK(sab_sampler_state_save(sampler, third));
                    EXPECT(memcmp(again, third, sizeof third) == 0);
                }
                sab_batch batch = SAB_BATCH_INIT;
                for (uint64_t k = 0; part == 1 || k < 3 * before.micro_batches; ++k) {
                    if (sab_next_batch(sampler, &batch) != SAB_OK) break;
                    EXPECT(batch.total <= (part == 0 ? before : after).max_total);
                    for (uint64_t j = 0; j < batch.count; ++j) ++seen[batch.indices[j]];
                }
                if (part == 0 && r == 3) EXPECT_OK(sab_sampler_state_save(sampler, state));
                sab_sampler_free(sampler);
            }
        for (int k = 0; k < SAMPLES; ++k)
            EXPECT(seen[k] == 1 || (seen[k] == 0 && i >= 2 && i < 4 && sizes[k] > 400));
    }
}

static void the_end_of_an_epoch_is_a_state_too(void) {
    for (int policy = SAB_LAST_STEP_SPLIT; policy <= SAB_LAST_STEP_WRAP; ++policy)
        for (uint64_t samples = 3; samples < 90; samples += 13) {
            sab_balanced_options balanced = SAB_BALANCED_OPTIONS_INIT;
            balanced.micro_batches = 3;
            balanced.samples = samples;
            sab_sampler_options options = on(0, 1);
            options.last_step = policy;
            sab_sampler *sampler = balanced_with(&balanced, &options);
            int seen[SAMPLES] = {0};
            walk(sampler, seen);
            unsigned char state[SAB_STATE_SIZE];
            EXPECT_OK(sab_sampler_state_save(sampler, state));
            EXPECT_OK(sab_sampler_state_restore(sampler, state, sizeof state));
            EXPECT(walk(sampler, seen) == 0);
            sab_sampler_free(sampler);
        }
}

static void caps_hold_whatever_the_rounding(void) {
    static double sizes[SAMPLES];
    any_state = 7;
    for (int i = 0; i < SAMPLES; ++i) sizes[i] = 0.1 * (1 + any_below(9));
    const sab_cost_term terms[] = {{1e17, 0, 0}, {1, 1, 1}};
    sab_sizes *handle = NULL;
    EXPECT_OK(sab_sizes_new(sizes, SAMPLES, SAB_FLOAT64, NULL, &handle));
    for (int i = 0; i < 2; ++i) {
        sab_balanced_options balanced = SAB_BALANCED_OPTIONS_INIT;
        balanced.fill = 1;
        balanced.max_total = 1.5;
        if (i == 1) {
            balanced.memory_terms = terms;
            balanced.memory_term_count = 2;
            balanced.memory_budget = 1e17 + 16;
        }
        const sab_sampler_options options = on(0, 2);
        sab_sampler *sampler = NULL;
        EXPECT_OK(sab_balanced_sampler_new(handle, &balanced, &options, &sampler));
        sab_batch batch = SAB_BATCH_INIT;
        uint64_t steps = 0;
        for (; sab_next_batch(sampler, &batch) == SAB_OK; ++steps)
            EXPECT(batch.total <= 1.5 && batch.cu_seqlens == NULL);
        EXPECT(steps > 100);
        sab_sampler_free(sampler);
    }
    sab_sizes_free(handle);
}

/* A few light samples among heavy ones. */
static void no_micro_batch_is_empty_before_the_last_step(void) {
    static int32_t sizes[SAMPLES];
    for (int i = 0; i < SAMPLES; ++i) sizes[i] = i % 50 == 0 ? 10 : 90 + i % 11;
    sab_sizes *handle = sizes_of(sizes, SAMPLES);
    for (uint64_t r = 0; r < 8; ++r) {
        sab_balanced_options balanced = SAB_BALANCED_OPTIONS_INIT;
        balanced.max_total = 100;
        const sab_sampler_options options = on(r, 8);
        sab_sampler *sampler = NULL;
        uint64_t count = 0;
        EXPECT_OK(sab_balanced_sampler_new(handle, &balanced, &options, &sampler));
        EXPECT_OK(sab_sampler_batch_count(sampler, &count));
        sab_batch batch = SAB_BATCH_INIT;
        for (uint64_t step = 0; step + 1 < count; ++step) {
            EXPECT_OK(sab_next_batch(sampler, &batch));
            EXPECT(batch.count > 0);
        }
        sab_sampler_free(sampler);
    }
    sab_sizes_free(handle);
}

static void foreign_states(void) {
    sab_balanced_options balanced = SAB_BALANCED_OPTIONS_INIT;
    balanced.max_total = 900;
    sab_sampler_options options = on(0, 2);
    sab_sampler *sampler = balanced_with(&balanced, &options);
    unsigned char state[SAB_STATE_SIZE];
    EXPECT_OK(sab_sampler_state_save(sampler, state));
    EXPECT_FAILS(sab_sampler_state_restore(sampler, state, 100), SAB_E_FORMAT, "100 bytes");
    state[40] ^= 1;
    EXPECT_FAILS(sab_sampler_state_restore(sampler, state, sizeof state), SAB_E_FORMAT, "checksum");
    options.seed = 12;
    sab_sampler *other = balanced_with(&balanced, &options);
    EXPECT_OK(sab_sampler_state_save(other, state));
    EXPECT_FAILS(sab_sampler_state_restore(sampler, state, sizeof state), SAB_E_MISMATCH,
                 "seed 12");
    sab_sampler_free(other);
    sab_plan *plan = a_plan();
    other = rank_of(plan, 0, 2);
    EXPECT_OK(sab_sampler_state_save(other, state));
    EXPECT_FAILS(sab_sampler_state_restore(sampler, state, sizeof state), SAB_E_MISMATCH, "order");
    EXPECT_FAILS(
        sab_sampler_balance_report(other, NULL, NULL, &(sab_balance_report)SAB_BALANCE_REPORT_INIT),
        SAB_E_ARGUMENT, "sab_balanced_sampler_new");
    sab_sampler_free(other);
    sab_plan_free(plan);
    sab_sampler_free(sampler);
}

static void memory_caps(void) {
    /* 1000 + 3 a token + 0.01 a token squared, and tokens besides. */
    const sab_cost_term terms[] = {{1000, 0, 0}, {3, 1, 1}, {0.01, 1, 2}};
    const int32_t *sizes = skewed();
    for (int with_tokens = 0; with_tokens < 2; ++with_tokens) {
        sab_balanced_options balanced = SAB_BALANCED_OPTIONS_INIT;
        balanced.memory_terms = terms;
        balanced.memory_term_count = COUNT(terms);
        balanced.memory_budget = 12000;
        balanced.cost = SAB_COST_QUADRATIC;
        if (with_tokens) balanced.max_total = 1500;
        const sab_sampler_options options = on(1, 3);
        sab_sampler *sampler = balanced_with(&balanced, &options);
        sab_batch batch = SAB_BATCH_INIT;
        while (sab_next_batch(sampler, &batch) == SAB_OK) {
            double bytes = 1000;
            for (uint64_t i = 0; i < batch.count; ++i) {
                const double size = sizes[batch.indices[i]];
                bytes += 3 * size + 0.01 * size * size;
            }
            EXPECT(bytes <= 12000 * (1 + 1e-12));
            EXPECT(!with_tokens || batch.total <= 1500);
        }
        sab_sampler_free(sampler);
    }
}

static int32_t cube(void *ctx, uint64_t count, double length, double *cost) {
    if (count != 1) return 5;
    *cost = length * length * length;
    return ++*(int *)ctx == 40 ? 77 : 0;
}

static int32_t stop(void *ctx, uint64_t done, uint64_t total) {
    (void)done;
    (void)total;
    return ++*(int *)ctx == 3 ? 9 : 0;
}

static void costs_of_all_kinds(void) {
    const double coefficients[] = {5, 0, 100, 1};
    const sab_cost_term terms[] = {{100, 1, 1}, {1, 1, 2}};
    sab_sampler_options options = on(0, 2);
    sab_balanced_options balanced = SAB_BALANCED_OPTIONS_INIT;
    balanced.max_total = 2000;
    balanced.cost = SAB_COST_POLYNOMIAL;
    balanced.coefficients = coefficients;
    balanced.coefficient_count = COUNT(coefficients);
    sab_sampler_free(balanced_with(&balanced, &options));
    balanced.cost = SAB_COST_TERMS;
    balanced.cost_terms = terms;
    balanced.cost_term_count = COUNT(terms);
    sab_sampler_free(balanced_with(&balanced, &options));
    balanced.method = SAB_PARTITION_LONGEST_FIRST;
    sab_sampler_free(balanced_with(&balanced, &options));
    int calls = 100;
    balanced.cost = SAB_COST_CALLBACK;
    balanced.cost_fn = cube;
    balanced.cost_ctx = &calls;
    sab_sampler_free(balanced_with(&balanced, &options));
    calls = 0;
    sab_sizes *sizes = sizes_of(skewed(), SAMPLES);
    sab_sampler *sampler = NULL;
    EXPECT_FAILS(sab_balanced_sampler_new(sizes, &balanced, &options, &sampler), SAB_E_CALLBACK,
                 "77");
    EXPECT(sab_last_callback_code() == 77 && sampler == NULL);
    balanced.cost = SAB_COST_PADDED;
    calls = 0;
    balanced.progress = stop;
    balanced.progress_ctx = &calls;
    EXPECT_FAILS(sab_balanced_sampler_new(sizes, &balanced, &options, &sampler), SAB_E_CANCELLED,
                 "");
    EXPECT(sab_last_callback_code() == 9);
    sab_sizes_free(sizes);
}

static void bad_options(void) {
    sab_sizes *sizes = sizes_of(skewed(), SAMPLES);
    sab_sampler *sampler = NULL;
    const sab_cost_term squared_count[] = {{1, 2, 1}};
    const sab_cost_term fine[] = {{10, 0, 0}, {1, 1, 1}};
#define REFUSED(words, ...)                                                          \
    do {                                                                             \
        sab_balanced_options balanced = SAB_BALANCED_OPTIONS_INIT;                   \
        sab_sampler_options options = on(0, 4);                                      \
        balanced.max_total = 1000;                                                   \
        __VA_ARGS__;                                                                 \
        EXPECT_FAILS(sab_balanced_sampler_new(sizes, &balanced, &options, &sampler), \
                     SAB_E_ARGUMENT, words);                                         \
        EXPECT(sampler == NULL);                                                     \
    } while (0)
    REFUSED("micro_batches = 0", balanced.micro_batches = 0);
    REFUSED("world_size = 4", balanced.micro_batches = 1 << 19);
    REFUSED("max_total = -1", balanced.max_total = -1);
    REFUSED("max_total = inf", balanced.max_total = INFINITY);
    REFUSED("samples of a step, or a cap", balanced.max_total = 0);
    REFUSED("samples = 3: must be at least the number of micro-batches of a step, 4",
            balanced.samples = 3);
    REFUSED("fill = 0", balanced.fill = 0);
    REFUSED("fill = nan", balanced.fill = NAN);
    REFUSED("method = 7", balanced.method = 7);
    REFUSED("oversize = 2", balanced.oversize = SAB_OVERSIZE_SINGLE);
    REFUSED("must be at most balanced.max_total alone", balanced.max_total = 700);
    REFUSED("memory_terms = NULL", balanced.memory_term_count = 1);
    REFUSED("memory_terms[0].count_power = 2", balanced.memory_terms = squared_count;
            balanced.memory_term_count = 1; balanced.memory_budget = 5);
    REFUSED("more than the constant of balanced.memory_terms, 10", balanced.memory_terms = fine;
            balanced.memory_term_count = 2; balanced.memory_budget = 10);
    REFUSED("goes with balanced.memory_terms only", balanced.memory_budget = 10);
    REFUSED("coefficients = NULL", balanced.cost = SAB_COST_POLYNOMIAL;
            balanced.coefficient_count = 2);
    REFUSED("options.cost_fn", balanced.cost = SAB_COST_CALLBACK);
    REFUSED("options.cost = 9", balanced.cost = 9);
    REFUSED("options.rank = 4", options.rank = 4);
    REFUSED("options.world_size = 0", options.world_size = 0);
    REFUSED("struct_size", balanced.struct_size = 8);
    sab_balanced_options balanced = SAB_BALANCED_OPTIONS_INIT;
    balanced.max_total = 1000;
    EXPECT_FAILS(sab_balanced_sampler_new(sizes, NULL, NULL, &sampler), SAB_E_ARGUMENT, "balanced");
    EXPECT_FAILS(sab_balanced_sampler_new(NULL, &balanced, NULL, &sampler), SAB_E_ARGUMENT,
                 "sizes");
    EXPECT_FAILS(sab_balanced_sampler_new(sizes, &balanced, NULL, NULL), SAB_E_ARGUMENT, "sampler");
    balanced.oversize = SAB_OVERSIZE_SKIP;
    balanced.max_total = 50;
    EXPECT_OK(sab_balanced_sampler_new(sizes, &balanced, NULL, &sampler));
    uint64_t skipped = 0, over = 0;
    for (int i = 0; i < SAMPLES; ++i) over += skewed()[i] > 50;
    EXPECT_OK(sab_sampler_skipped_count(sampler, &skipped));
    EXPECT(skipped == over);
    EXPECT_FAILS(sab_sampler_seek(sampler, 1u << 30), SAB_E_ARGUMENT, "position");
    EXPECT_FAILS(sab_sampler_set_budget(sampler, 10), SAB_E_UNSUPPORTED, "");
    sab_sampler_free(sampler);
    sab_sizes_free(sizes);
}

/* More micro-batches than samples, samples that cost nothing, one sample. */
static void little_data(void) {
    const int32_t zeros[5] = {0, 0, 0, 0, 0}, one[1] = {3};
    for (int i = 0; i < 2; ++i) {
        const size_t count = i == 0 ? 5 : 1;
        int seen[5] = {0};
        for (uint64_t r = 0; r < 8; ++r) {
            sab_sizes *sizes = sizes_of(i == 0 ? zeros : one, count);
            sab_balanced_options balanced = SAB_BALANCED_OPTIONS_INIT;
            balanced.max_total = 10;
            const sab_sampler_options options = on(r, 8);
            sab_sampler *sampler = NULL;
            EXPECT_OK(sab_balanced_sampler_new(sizes, &balanced, &options, &sampler));
            EXPECT(walk(sampler, seen) == 1);
            sab_sampler_free(sampler);
            sab_sizes_free(sizes);
        }
        EXPECT(all_are(seen, count, 1));
    }
}

/* ---- who is who ---- */

static void the_environment(void) {
    static const char *const names[][2] = {{"PMI_RANK", "PMI_SIZE"},
                                           {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                           {"SLURM_PROCID", "SLURM_NTASKS"},
                                           {"RANK", "WORLD_SIZE"}};
    uint64_t rank = 9, world_size = 9;
    for (size_t i = 0; i < COUNT(names); ++i) {
        unsetenv(names[i][0]);
        unsetenv(names[i][1]);
    }
    EXPECT_OK(sab_ranks_from_environment(&rank, &world_size));
    EXPECT(rank == 0 && world_size == 1);
    for (size_t i = 0; i < COUNT(names); ++i) { /* each comes before those set already */
        char text[8] = {(char)('1' + i), 0};
        setenv(names[i][0], text, 1);
        EXPECT_FAILS(sab_ranks_from_environment(&rank, &world_size), SAB_E_ARGUMENT, names[i][1]);
        setenv(names[i][1], "8", 1);
        EXPECT_OK(sab_ranks_from_environment(&rank, &world_size));
        EXPECT(rank == 1 + i && world_size == 8);
    }
    setenv("RANK", "8", 1);
    EXPECT_FAILS(sab_ranks_from_environment(&rank, &world_size), SAB_E_ARGUMENT,
                 "RANK = 8: must be below WORLD_SIZE = 8");
    setenv("RANK", "-1", 1);
    EXPECT_FAILS(sab_ranks_from_environment(&rank, &world_size), SAB_E_ARGUMENT,
                 "RANK = \"-1\": must be a whole number");
#ifndef _WIN32 /* which has no empty variables */
    setenv("RANK", "", 1);
    EXPECT_FAILS(sab_ranks_from_environment(&rank, &world_size), SAB_E_ARGUMENT, "whole number");
#endif
    EXPECT_FAILS(sab_ranks_from_environment(NULL, &world_size), SAB_E_ARGUMENT, "rank");
    for (size_t i = 0; i < COUNT(names); ++i) {
        unsetenv(names[i][0]);
        unsetenv(names[i][1]);
    }
}

static void meshes(void) {
    const uint64_t shape[3] = {2, 4, 8};
    const int32_t is_data[3] = {0, 1, 0}, two[3] = {1, 1, 0}, none[3] = {0, 0, 0},
                  wrong[3] = {0, 2, 0};
    uint64_t rank = 0, world_size = 0;
    for (uint64_t p = 0; p < 64; ++p) {
        EXPECT_OK(sab_data_rank(shape, is_data, 3, p, &rank, &world_size));
        EXPECT(rank == p / 8 % 4 && world_size == 4);
        EXPECT_OK(sab_data_rank(shape, two, 3, p, &rank, &world_size));
        EXPECT(rank == p / 8 && world_size == 8);
        EXPECT_OK(sab_data_rank(shape, none, 3, p, &rank, &world_size));
        EXPECT(rank == 0 && world_size == 1);
    }
    EXPECT_FAILS(sab_data_rank(shape, is_data, 3, 64, &rank, &world_size), SAB_E_ARGUMENT,
                 "rank = 64");
    EXPECT_FAILS(sab_data_rank(shape, is_data, 0, 0, &rank, &world_size), SAB_E_ARGUMENT,
                 "axes = 0");
    EXPECT_FAILS(sab_data_rank(shape, wrong, 3, 0, &rank, &world_size), SAB_E_ARGUMENT,
                 "is_data[1] = 2");
    EXPECT_FAILS(sab_data_rank((uint64_t[]){2, 0}, is_data, 2, 0, &rank, &world_size),
                 SAB_E_ARGUMENT, "shape[1] = 0");
    EXPECT_FAILS(
        sab_data_rank((uint64_t[]){1ull << 31, 1ull << 33}, is_data, 2, 0, &rank, &world_size),
        SAB_E_ARGUMENT, "fewer than 2^32");
}

/* ---- ranks as threads ---- */

#define MOST_RANKS 6

typedef struct group {
    pthread_barrier_t barrier;
    const void *given[MOST_RANKS];
    uint64_t world_size;
} group;

typedef struct member {
    group *group;
    uint64_t rank;
    int fails;
} member;

static int32_t gather(void *ctx, const void *mine, size_t size, void *all) {
    member *const own = ctx;
    if (own->fails) return 55;
    own->group->given[own->rank] = mine;
    pthread_barrier_wait(&own->group->barrier);
    for (uint64_t r = 0; r < own->group->world_size; ++r)
        if (size > 0) memcpy((char *)all + r * size, own->group->given[r], size);
    pthread_barrier_wait(&own->group->barrier);
    return 0;
}

typedef struct job {
    member member;
    const int32_t *sizes;
    size_t count;
    sab_plan_options plan;
    sab_sampler_options options;
    sab_sampler *sampler;
    sab_status status;
    char message[1024];
} job;

static void *make_sharded(void *data) {
    job *const j = data;
    sab_sizes *sizes = NULL;
    j->status = sab_sizes_new(j->sizes, j->count, SAB_INT32, NULL, &sizes);
    if (j->status == SAB_OK)
        j->status =
            sab_sharded_sampler_new(sizes, &j->plan, &j->options, gather, &j->member, &j->sampler);
    if (j->status != SAB_OK) strcpy(j->message, sab_last_error_message());
    sab_sizes_free(sizes);
    return NULL;
}

static void *check_job(void *data) {
    job *const j = data;
    j->status = sab_sampler_check_ranks(j->sampler, j->member.rank, j->member.group->world_size,
                                        gather, &j->member);
    strcpy(j->message, j->status == SAB_OK ? "" : sab_last_error_message());
    return NULL;
}

static void on_all(void *(*run)(void *), job *jobs, uint64_t world_size) {
    pthread_t threads[MOST_RANKS];
    group all = {.world_size = world_size};
    pthread_barrier_init(&all.barrier, NULL, (unsigned)world_size);
    for (uint64_t r = 0; r < world_size; ++r) {
        jobs[r].member.group = &all;
        jobs[r].member.rank = r;
        pthread_create(&threads[r], NULL, run, &jobs[r]);
    }
    for (uint64_t r = 0; r < world_size; ++r) pthread_join(threads[r], NULL);
    pthread_barrier_destroy(&all.barrier);
}

static void free_all(job *jobs, uint64_t world_size) {
    for (uint64_t r = 0; r < world_size; ++r) {
        sab_sampler_free(jobs[r].sampler);
        jobs[r].sampler = NULL;
    }
}

static void shards(void) {
    for (uint64_t world_size = 1; world_size <= MOST_RANKS; ++world_size)
        for (int kind = 0; kind < 3; ++kind) {
            static job jobs[MOST_RANKS];
            memset(jobs, 0, sizeof jobs);
            static const double boundaries[] = {1, 20, 60, 900};
            const int32_t *sizes = skewed();
            size_t begin = 0;
            for (uint64_t r = 0; r < world_size; ++r) { /* uneven shards, one of them empty */
                job *const j = &jobs[r];
                const size_t end = r + 1 == world_size ? SAMPLES
                                   : r == 2            ? begin
                                                       : begin + (SAMPLES - begin) / (2 + r);
                j->sizes = sizes + begin;
                j->count = end - begin;
                j->plan = budget(900);
                if (kind == 1) {
                    j->plan.buckets = SAB_BUCKETS_BOUNDARIES;
                    j->plan.boundaries = boundaries;
                    j->plan.boundary_count = COUNT(boundaries);
                }
                if (kind == 2) {
                    j->plan.buckets = SAB_BUCKETS_RANK;
                    j->plan.bucket_batches = 3;
                }
                j->options = on(r, world_size);
                begin = end;
            }
            on_all(make_sharded, jobs, world_size);
            uint64_t steps = 0;
            for (uint64_t r = 0; r < world_size; ++r) {
                EXPECT(jobs[r].status == SAB_OK);
                if (jobs[r].status != SAB_OK) fprintf(stderr, "%s\n", jobs[r].message);
            }
            EXPECT_OK(sab_sampler_batch_count(jobs[0].sampler, &steps));
            static int seen[MOST_RANKS][SAMPLES];
            memset(seen, 0, sizeof seen);
            for (uint64_t step = 0; step <= steps; ++step) {
                uint64_t sum = 0, told = 0;
                int64_t bucket = -1;
                for (uint64_t r = 0; r < world_size; ++r) {
                    sab_batch batch = SAB_BATCH_INIT;
                    const sab_status status = sab_next_batch(jobs[r].sampler, &batch);
                    EXPECT(status == (step < steps ? SAB_OK : SAB_END));
                    if (status != SAB_OK) continue;
                    sum += batch.count;
                    told = batch.step_samples;
                    EXPECT(batch.padded_total <= 900);
                    EXPECT(world_size == 1 ? batch.step_total == batch.total
                                           : batch.step_total == -1);
                    double total = 0;
                    for (uint64_t i = 0; i < batch.count; ++i) {
                        ++seen[r][batch.indices[i]];
                        total += jobs[r].sizes[batch.indices[i]];
                    }
                    EXPECT(total == batch.total);
                    if (batch.count > 0) {
                        EXPECT(bucket == -1 || bucket == batch.bucket);
                        bucket = batch.bucket;
                    }
                }
                EXPECT(sum == told);
            }
            for (uint64_t r = 0; r < world_size; ++r) EXPECT(all_are(seen[r], jobs[r].count, 1));
            on_all(check_job, jobs, world_size);
            for (uint64_t r = 0; r < world_size; ++r) EXPECT(jobs[r].status == SAB_OK);
            /* A state goes on, with the same shard. */
            unsigned char state[SAB_STATE_SIZE];
            EXPECT_OK(sab_sampler_seek(jobs[0].sampler, steps / 2));
            EXPECT_OK(sab_sampler_state_save(jobs[0].sampler, state));
            EXPECT_OK(sab_sampler_set_epoch(jobs[0].sampler, 3));
            EXPECT_OK(sab_sampler_state_restore(jobs[0].sampler, state, sizeof state));
            EXPECT_FAILS(sab_sampler_set_budget(jobs[0].sampler, 10), SAB_E_UNSUPPORTED, "");
            free_all(jobs, world_size);
        }
}

static void shards_that_break_a_rule(void) {
    const int32_t good[3] = {1, 2, 3}, bad[3] = {1, -2, 3};
    job jobs[3] = {
        {.sizes = good, .count = 3}, {.sizes = bad, .count = 3}, {.sizes = good, .count = 3}};
    for (int i = 0; i < 3; ++i) {
        jobs[i].plan = budget(10);
        jobs[i].options = on((uint64_t)i, 3);
    }
    on_all(make_sharded, jobs, 3);
    EXPECT(jobs[0].status == SAB_E_ARGUMENT && strstr(jobs[0].message, "rank 1") != NULL);
    EXPECT(jobs[1].status == SAB_E_ARGUMENT && strstr(jobs[1].message, "sizes[1] = -2") != NULL);
    EXPECT(jobs[2].status == SAB_E_ARGUMENT && strstr(jobs[2].message, "rank 1") != NULL);
    jobs[1].sizes = good;
    jobs[2].plan.budget = 11;
    on_all(make_sharded, jobs, 3);
    for (int i = 0; i < 3; ++i)
        EXPECT(jobs[i].status == SAB_E_MISMATCH && strstr(jobs[i].message, "options") != NULL);
    jobs[2].plan.budget = 10;
    jobs[1].options.seed = 12;
    on_all(make_sharded, jobs, 3);
    for (int i = 0; i < 3; ++i)
        EXPECT(jobs[i].status == SAB_E_MISMATCH && strstr(jobs[i].message, "seed") != NULL);
    jobs[1].options.seed = 11;
    for (int i = 0; i < 3; ++i) jobs[i].count = 0;
    on_all(make_sharded, jobs, 3);
    for (int i = 0; i < 3; ++i)
        EXPECT(jobs[i].status == SAB_E_ARGUMENT && strstr(jobs[i].message, "sizes.count") != NULL);
    for (int i = 0; i < 3; ++i) {
        jobs[i].count = 3;
        jobs[i].plan.tail = SAB_TAIL_DROP;
    }
    on_all(make_sharded, jobs, 3);
    for (int i = 0; i < 3; ++i)
        EXPECT(jobs[i].status == SAB_E_ARGUMENT && strstr(jobs[i].message, "tail = 2") != NULL);
    job one = {
        .sizes = good, .count = 3, .plan = budget(10), .options = on(0, 1), .member = {.fails = 1}};
    on_all(make_sharded, &one, 1);
    EXPECT(one.status == SAB_E_CALLBACK && strstr(one.message, "55") != NULL &&
           one.sampler == NULL);
}

static void a_state_belongs_to_its_shards(void) {
    const int32_t up[4] = {1, 2, 3, 4}, down[4] = {4, 3, 2, 1};
    unsigned char state[SAB_STATE_SIZE];
    for (int i = 0; i < 2; ++i) {
        job jobs[2] = {{.sizes = up, .count = 4}, {.sizes = i == 0 ? up : down, .count = 4}};
        for (int r = 0; r < 2; ++r) {
            jobs[r].plan = budget(4);
            jobs[r].options = on((uint64_t)r, 2);
        }
        on_all(make_sharded, jobs, 2);
        if (i == 0) EXPECT_OK(sab_sampler_state_save(jobs[0].sampler, state));
        for (int r = 0; r < 2 && i == 1; ++r)
            EXPECT_FAILS(sab_sampler_state_restore(jobs[r].sampler, state, sizeof state),
                         SAB_E_MISMATCH, "fingerprint");
        free_all(jobs, 2);
    }
}

static void ranks_that_disagree(void) {
    job jobs[4];
    memset(jobs, 0, sizeof jobs);
    sab_plan *plan = a_plan();
    sab_plan_options other_options = budget(299);
    sab_plan *other = plan_with(lengths(500), 500, &other_options);
#define MAKE(rank_, plan_, ...)                                                   \
    do {                                                                          \
        sab_sampler_options options = on(rank_, 4);                               \
        __VA_ARGS__;                                                              \
        sab_sampler_free(jobs[rank_].sampler);                                    \
        EXPECT_OK(sab_bucket_sampler_new(plan_, &options, &jobs[rank_].sampler)); \
    } while (0)
#define ALL_SAY(words)                                                                          \
    do {                                                                                        \
        on_all(check_job, jobs, 4);                                                             \
        for (int i = 0; i < 4; ++i) {                                                           \
            EXPECT(jobs[i].status == SAB_E_MISMATCH && strstr(jobs[i].message, words) != NULL); \
            if (strstr(jobs[i].message, words) == NULL)                                         \
                fprintf(stderr, "rank %d: %s\n", i, jobs[i].message);                           \
        }                                                                                       \
    } while (0)
    for (uint64_t r = 0; r < 4; ++r) MAKE(r, plan, (void)0);
    on_all(check_job, jobs, 4);
    for (int i = 0; i < 4; ++i) EXPECT(jobs[i].status == SAB_OK);
    MAKE(2, plan, options.seed = 8);
    ALL_SAY("rank 2 has seed 8, the others 11");
    MAKE(2, other, (void)0);
    ALL_SAY("rank 2 has fingerprint of the samples");
    MAKE(2, plan, options.epoch = 5);
    ALL_SAY("rank 2 has epoch 5, the others 0");
    MAKE(2, plan, options.last_step = SAB_LAST_STEP_DROP);
    ALL_SAY("rank 2 has last_step 1");
    MAKE(2, plan, options.rank = 1);
    ALL_SAY("the samplers of ranks 1 and 2 were both made with rank 1");
    MAKE(2, plan, options.world_size = 5);
    ALL_SAY("rank 2 has world size 5, the others 4");
    for (uint64_t r = 0; r < 4; ++r) MAKE(r, plan, options.world_size = 5);
    ALL_SAY("world size 5, but there are 4 ranks");
    for (uint64_t r = 0; r < 4; ++r) MAKE(r, plan, (void)0);
    EXPECT_OK(sab_sampler_seek(jobs[3].sampler, 2));
    ALL_SAY("rank 3 has step 2, the others 0");
    free_all(jobs, 4);
    /* A sampler that has no state fails on its rank; the others hear of it. */
    for (uint64_t r = 1; r < 4; ++r) MAKE(r, plan, (void)0);
    static const double boundaries[] = {0, 200};
    sab_plan_options by_boundaries = budget(300);
    by_boundaries.buckets = SAB_BUCKETS_BOUNDARIES;
    by_boundaries.boundaries = boundaries;
    by_boundaries.boundary_count = 2;
    sab_plan *third = plan_with(lengths(500), 500, &by_boundaries);
    EXPECT_OK(sab_torch_sampler_new(third, NULL, &jobs[0].sampler));
    on_all(check_job, jobs, 4);
    EXPECT(jobs[0].status == SAB_E_UNSUPPORTED && jobs[1].status == SAB_E_MISMATCH &&
           strstr(jobs[1].message, "rank 0 cannot say") != NULL);
    free_all(jobs, 4);
    sab_plan_free(third);
    sab_plan_free(other);
    sab_plan_free(plan);
}

/* Says of rank 1 what rank 0 says of itself, but for 8 bytes in one round. */
typedef struct liar {
    int round;
    int lies_in;
    size_t at; /* from the end of what rank 1 gave */
    uint64_t lie;
} liar;

static int32_t lie(void *ctx, const void *mine, size_t size, void *all) {
    liar *const own = ctx;
    const uint64_t one = 1;
    memcpy(all, mine, size);
    memcpy((char *)all + size, mine, size);
    /* the greeting of sab_sampler_check_ranks() */
    if (own->round == 0 && size == 16) memcpy((char *)all + 24, &one, 8);
    if (own->round++ == own->lies_in) memcpy((char *)all + 2 * size - own->at, &own->lie, 8);
    return 0;
}

static int32_t forget(void *ctx, const void *mine, size_t size, void *all) {
    (void)ctx;
    (void)mine;
    (void)size;
    (void)all;
    return 0;
}

static void what_no_rank_gave_is_refused(void) {
    const int32_t three[3] = {1, 2, 3};
    const double not_a_number = NAN, negative = -1, twice = 2;
    uint64_t nan_bits, negative_bits, two_bits;
    memcpy(&nan_bits, &not_a_number, 8);
    memcpy(&negative_bits, &negative, 8);
    memcpy(&two_bits, &twice, 8);
    const liar liars[] = {{0, 0, 16, 1ull << 62}, {0, 2, 16, nan_bits}, {0, 2, 16, negative_bits},
                          {0, 2, 16, two_bits},   {0, 2, 8, 0},         {0, 2, 8, 1ull << 40},
                          {0, 3, 16, 0}};
    sab_sizes *sizes = sizes_of(three, 3);
    const sab_plan_options plan = budget(10);
    const sab_sampler_options options = on(0, 2);
    sab_sampler *sampler = NULL;
    for (size_t i = 0; i < COUNT(liars); ++i) {
        liar own = liars[i];
        EXPECT_FAILS(sab_sharded_sampler_new(sizes, &plan, &options, lie, &own, &sampler),
                     SAB_E_MISMATCH,
                     own.lies_in < 3 ? "all_gather: place 1" : "rank 1 could not make it");
    }
    EXPECT_FAILS(sab_sharded_sampler_new(sizes, &plan, &options, forget, NULL, &sampler),
                 SAB_E_MISMATCH, "all_gather: place 0 of 2");
    liar honest = {0, -1, 0, 0}, own = {0, 1, 8, 2};
    EXPECT_OK(sab_sharded_sampler_new(sizes, &plan, &options, lie, &honest, &sampler));
    sab_sampler_free(sampler);
    sab_sizes_free(sizes);
    sab_plan *whole = a_plan();
    sampler = rank_of(whole, 0, 2);
    EXPECT_FAILS(sab_sampler_check_ranks(sampler, 0, 2, lie, &own), SAB_E_MISMATCH,
                 "all_gather: place 1 holds rank 2 of 2");
    EXPECT_FAILS(sab_sampler_check_ranks(sampler, 0, 2, forget, NULL), SAB_E_MISMATCH,
                 "all_gather: place 0 of 2");
    sab_sampler_free(sampler);
    sab_plan_free(whole);
}

static void stores_need_libtorch(void) {
    sab_torch_store *store = NULL;
    EXPECT_FAILS(sab_torch_store_new(NULL, 1, 0, 1, 1, &store), SAB_E_ARGUMENT, "host");
    EXPECT_FAILS(sab_torch_store_new("localhost", 1, 1, 1, 1, &store), SAB_E_ARGUMENT, "rank = 1");
    EXPECT_FAILS(sab_torch_store_new("localhost", 1, 0, 0, 1, &store), SAB_E_ARGUMENT,
                 "world_size = 0");
    EXPECT_FAILS(sab_torch_store_new("localhost", 1, 0, 1, 0, &store), SAB_E_ARGUMENT,
                 "timeout = 0");
    EXPECT_FAILS(sab_torch_store_new("localhost", 1, 0, 1, 1, &store), SAB_E_UNSUPPORTED,
                 "sab_torch_open");
    EXPECT_FAILS(sab_torch_store_all_gather(NULL, NULL, 0, NULL), SAB_E_ARGUMENT, "store");
    sab_torch_store_free(NULL);
    EXPECT(strcmp(sab_status_name(SAB_E_TIMEOUT), "SAB_E_TIMEOUT") == 0);
}

int main(void) {
    RUN(every_sample_once_in_equal_steps_under_the_cap);
    RUN(costs_are_even);
    RUN(the_order_is_random_and_changes);
    RUN(last_steps);
    RUN(a_state_goes_on_with_other_ranks);
    RUN(a_state_inside_a_step);
    RUN(a_state_goes_on_with_other_costs_and_caps);
    RUN(the_end_of_an_epoch_is_a_state_too);
    RUN(caps_hold_whatever_the_rounding);
    RUN(no_micro_batch_is_empty_before_the_last_step);
    RUN(foreign_states);
    RUN(memory_caps);
    RUN(costs_of_all_kinds);
    RUN(bad_options);
    RUN(little_data);
    RUN(the_environment);
    RUN(meshes);
    RUN(shards);
    RUN(shards_that_break_a_rule);
    RUN(a_state_belongs_to_its_shards);
    RUN(ranks_that_disagree);
    RUN(what_no_rank_gave_is_refused);
    RUN(stores_need_libtorch);
    return finish();
}
