/* Steps of several micro-batches, for every kind of sampler: coverage, equal steps, totals, states
 * that other ranks and micro-batches restore. */
#include <math.h>
#include <stdlib.h>

#include "kinds.h"

#define MOST_SAMPLES 160
#define MOST_RANKS 6
#define MOST_BATCHES 1024 /* of a rank: an epoch of single samples, wrapped */

/* What one trial walks: all drawn at random. */
struct trial {
    const struct constructor *kind;
    int32_t numbers[MOST_SAMPLES];
    size_t count;
    uint64_t seed;
    sab_last_step last_step;
    int32_t mix_lengths;
};

struct job {
    uint64_t world_size, micro_batches;
    sab_sampler *samplers[MOST_RANKS];
    struct weights weights; /* of the batches that were taken */
};

static int keeps_order(const struct constructor *kind) {
    return kind->properties & WITH_OPTIONS && !(kind->properties & BY_MICRO_BATCHES);
}

static int is_bucket_order(const struct constructor *kind) {
    return strcmp(kind->name, "bucket") == 0;
}

static int can_be_lowered(const struct constructor *kind) {
    return (kind->capabilities & SAB_SAMPLER_BUDGET) != 0;
}

static int repeats(const struct trial *trial) {
    return (trial->kind->properties & REPEATS) != 0;
}

static struct job job_of(const struct trial *trial, uint64_t world_size, uint64_t micro_batches) {
    struct job job = {.world_size = world_size, .micro_batches = micro_batches};
    for (uint64_t rank = 0; rank < world_size; ++rank) {
        sab_sampler_options options = ranks(rank, world_size);
        options.seed = trial->seed;
        options.last_step = trial->last_step;
        options.micro_batches = micro_batches;
        options.mix_lengths = trial->mix_lengths;
        job.samplers[rank] = sampler_of_kind(trial->kind, trial->numbers, trial->count, &options);
    }
    return job;
}

static uint64_t drawn_ranks(const struct constructor *kind) {
    return kind->properties & ONE_RANK ? 1 : 1 + below(MOST_RANKS);
}

static int drops_all(const struct trial *trial, uint64_t world_size, uint64_t micro_batches) {
    sab_sampler_options options = ranks(0, world_size);
    options.seed = trial->seed;
    options.last_step = trial->last_step;
    options.micro_batches = micro_batches;
    sab_sampler *sampler = NULL;
    const int is_refused =
        leaves_nothing(make_of_kind(trial->kind, trial->numbers, trial->count, &options, &sampler));
    sab_sampler_free(sampler);
    return is_refused;
}

/* Sets the policy, or another one where it would drop all batches on any ranks. */
static void set_last_step(struct trial *trial, sab_last_step last_step, sab_last_step other) {
    trial->last_step = last_step;
    if (drops_all(trial, 1, 1)) trial->last_step = other;
}

static struct trial drawn(const struct constructor *kind) {
    struct trial trial;
    memset(&trial, 0, sizeof trial);
    trial.kind = kind;
    trial.count = 1 + below(MOST_SAMPLES);
    for (size_t i = 0; i < trial.count; ++i) trial.numbers[i] = 1 + (int32_t)below(1 + below(100));
    trial.seed = random_word();
    set_last_step(&trial, (sab_last_step)below(3), SAB_LAST_STEP_SPLIT);
    trial.mix_lengths = is_bucket_order(kind) ? (int32_t)below(2) : 0;
    return trial;
}

/* Of one rank, where the ranks that are drawn would drop all batches. */
static struct job drawn_job(const struct trial *trial) {
    const uint64_t world_size = drawn_ranks(trial->kind), micro_batches = 1 + below(5);
    return drops_all(trial, world_size, micro_batches) ? job_of(trial, 1, 1)
                                                       : job_of(trial, world_size, micro_batches);
}

static void free_job(struct job *job) {
    for (uint64_t rank = 0; rank < job->world_size; ++rank) sab_sampler_free(job->samplers[rank]);
}

static uint64_t count_of(const struct job *job) {
    uint64_t count = 0, same = 0;
    EXPECT_OK(sab_sampler_get_batch_count(job->samplers[0], &count));
    for (uint64_t rank = 1; rank < job->world_size; ++rank) {
        EXPECT_OK(sab_sampler_get_batch_count(job->samplers[rank], &same));
        EXPECT(same == count);
    }
    return count;
}

static uint64_t position_of(const struct job *job) {
    uint64_t epoch = 0, position = 0;
    EXPECT_OK(sab_sampler_tell(job->samplers[0], &epoch, &position));
    return position;
}

/* A step as its batches sum up, and as the sampler says it. */
struct totals {
    uint64_t step;
    uint64_t micro_batches, samples;
    double total;
    uint64_t said_micro_batches, said_samples;
    double said_total;
};

static void expect_whole(const struct totals *totals) {
    if (totals->micro_batches != totals->said_micro_batches) return; /* not all of it was seen */
    EXPECT(totals->samples == totals->said_samples && totals->total == totals->said_total);
}

/* The limits are those of default_inputs(). Batches of a plan are padded. */
static int keeps_budget(const struct trial *trial, const sab_batch *batch) {
    if (strcmp(trial->kind->name, "bagua") == 0) return batch->count <= 3;
    const double most = strcmp(trial->kind->name, "packed") == 0 ? 128 : 200;
    return (batch->bucket >= 0 ? padded_total(batch) : *batch->total) <= most;
}

/* Takes a micro-batch on all ranks; 0 at the end. `totals` are of the step under way. */
static int take(const struct trial *trial, struct job *job, struct totals *totals, int *seen) {
    int is_end = 0;
    for (uint64_t rank = 0; rank < job->world_size; ++rank) {
        sab_batch batch = SAB_BATCH_INIT, same = SAB_BATCH_INIT;
        sab_sampler *sampler = job->samplers[rank];
        const uint64_t position = position_of(&(struct job){.samplers = {sampler}});
        const sab_status status = sab_next_batch(sampler, &batch);
        EXPECT(rank == 0 || is_end == (status == SAB_END));
        is_end = status == SAB_END;
        if (is_end) continue;
        if (batch.micro_batch == 0 && rank == 0) {
            expect_whole(totals);
            *totals = (struct totals){.step = batch.step};
        }
        const sab_step said = step_of(sampler);
        EXPECT(batch.step == totals->step && batch.micro_batch < said.micro_batches &&
               said.micro_batches <= job->micro_batches);
        EXPECT(rank == 0 ||
               (said.samples == totals->said_samples && *said.totals == totals->said_total &&
                batch.micro_batch + 1 == totals->micro_batches));
        add_weights(&job->weights, &batch);
        totals->micro_batches += rank == 0;
        totals->samples += batch.count;
        totals->total += *batch.total;
        totals->said_micro_batches = said.micro_batches;
        totals->said_samples = said.samples;
        totals->said_total = *said.totals;
        double total = 0;
        for (size_t i = 0; i < batch.count; ++i) {
            ++seen[batch.indices[i]];
            total += trial->numbers[batch.indices[i]];
        }
        EXPECT(total == *batch.total && keeps_budget(trial, &batch));
        const uint64_t step = batch.step, micro_batch = batch.micro_batch, count = batch.count;
        EXPECT_OK(sab_sampler_at(sampler, position, &same));
        EXPECT(same.step == step && same.micro_batch == micro_batch && same.count == count);
    }
    if (is_end) expect_whole(totals);
    return !is_end;
}

static void expect_coverage(const struct trial *trial, const int *seen) {
    for (size_t i = 0; i < trial->count; ++i)
        EXPECT(repeats(trial) ? seen[i] >= 1 || trial->last_step == SAB_LAST_STEP_DROP
               : trial->last_step == SAB_LAST_STEP_SPLIT ? seen[i] == 1
               : trial->last_step == SAB_LAST_STEP_DROP  ? seen[i] <= 1
                                                         : seen[i] >= 1);
}

static void Epoch_OfMicroBatches_KeepsCoverageEqualStepsAndTotals(void) {
    random_state = 1;
    FOR_CONSTRUCTORS(kind) {
        if (!(kind->properties & WITH_OPTIONS)) continue;
        for (int round = 0; round < ROUNDS_OF(150); ++round) {
            struct trial trial = drawn(kind);
            if (kind->properties & ONE_RANK)
                trial.last_step = SAB_LAST_STEP_SPLIT; /* not used there */
            struct job job = drawn_job(&trial);
            const uint64_t count = count_of(&job);
            int seen[MOST_SAMPLES] = {0};
            struct totals totals = {0};
            uint64_t position = 0;
            for (; take(&trial, &job, &totals, seen); ++position)
                EXPECT(totals.step == position / job.micro_batches &&
                       totals.micro_batches == position % job.micro_batches + 1);
            EXPECT(position == count);
            EXPECT(trial.last_step == SAB_LAST_STEP_SPLIT || count % job.micro_batches == 0);
            EXPECT(have_mean_one(&job.weights));
            expect_coverage(&trial, seen);
            free_job(&job);
        }
    }
}

/* Trials of all orders that do not depend on the number of micro-batches; no sample is dropped. */
static void try_orders(uint64_t seed, int rounds, void (*check)(const struct trial *trial)) {
    random_state = seed;
    FOR_CONSTRUCTORS(kind)
    for (int round = 0; keeps_order(kind) && round < ROUNDS_OF(rounds); ++round) {
        struct trial trial = drawn(kind);
        trial.last_step = SAB_LAST_STEP_SPLIT;
        check(&trial);
    }
}

static int has_same_samples(const sab_batch *batch, const sab_batch *other) {
    return batch->count == other->count &&
           (batch->count == 0 ||
            memcmp(batch->indices, other->indices, batch->count * sizeof(int64_t)) == 0);
}

/* Whatever the micro-batches, position p shows the same batch, if lengths are mixed. */
static void expect_same_order(const struct trial *trial) {
    if (is_bucket_order(trial->kind) && !trial->mix_lengths) return;
    const uint64_t world_size = drawn_ranks(trial->kind);
    struct job one = job_of(trial, world_size, 1),
               several = job_of(trial, world_size, 2 + below(4));
    EXPECT(count_of(&one) == count_of(&several));
    for (uint64_t rank = 0; rank < world_size; ++rank) {
        sab_batch batch = SAB_BATCH_INIT, same = SAB_BATCH_INIT;
        while (sab_next_batch(one.samplers[rank], &batch) == SAB_OK) {
            EXPECT_OK(sab_next_batch(several.samplers[rank], &same));
            EXPECT(has_same_samples(&batch, &same) && batch.micro_batch == 0);
        }
        EXPECT(sab_next_batch(several.samplers[rank], &same) == SAB_END);
    }
    free_job(&one);
    free_job(&several);
}

static void Order_DoesNotDependOnTheMicroBatches(void) {
    try_orders(2, 40, expect_same_order);
}

static struct state state_of_all(const struct job *job) {
    struct state state, same;
    EXPECT_OK(save_state(job->samplers[0], &state));
    for (uint64_t rank = 1; rank < job->world_size; ++rank) {
        EXPECT_OK(save_state(job->samplers[rank], &same));
        EXPECT(memcmp(&state, &same, sizeof state) == 0);
    }
    return state;
}

/* Another job continues where this one is. */
static struct job handed_over(const struct trial *trial, struct job *from) {
    const struct state state = state_of_all(from);
    const uint64_t position = position_of(from);
    struct job job =
        below(4) == 0 ? job_of(trial, from->world_size, from->micro_batches) : drawn_job(trial);
    for (uint64_t rank = 0; rank < job.world_size; ++rank)
        EXPECT_OK(restore_state(job.samplers[rank], &state));
    EXPECT(position_of(&job) == position);
    free_job(from);
    return job;
}

static void lower(struct job *job) {
    static const double budgets[] = {120, 150, 0};
    const double budget = budgets[below(3)];
    for (uint64_t rank = 0; rank < job->world_size; ++rank)
        EXPECT_OK(sab_sampler_set_budget(job->samplers[rank], 0, budget));
}

/* Saved between any two micro-batches and restored by other ranks and micro-batches, again and
 * again; with a plan the budget changes, too. */
static void expect_nothing_lost(const struct trial *trial) {
    struct job job = drawn_job(trial);
    int seen[MOST_SAMPLES] = {0};
    struct totals totals = {0};
    for (;;) {
        const uint64_t end = position_of(&job) + below(6);
        while (position_of(&job) < end && take(trial, &job, &totals, seen)) {
        }
        const int is_new = position_of(&job) == 0;
        if (can_be_lowered(trial->kind) && below(4) == 0) lower(&job);
        job = handed_over(trial, &job);
        sab_batch next = SAB_BATCH_INIT;
        if (sab_sampler_at(job.samplers[0], position_of(&job), &next) != SAB_OK) break;
        EXPECT(next.step == totals.step + (next.micro_batch == 0 && !is_new));
        EXPECT(next.micro_batch == 0 || next.micro_batch == totals.micro_batches);
    }
    expect_coverage(trial, seen);
    free_job(&job);
}

static void Restore_BetweenMicroBatches_LosesAndRepeatsNothing(void) {
    try_orders(3, 200, expect_nothing_lost);
}

/* The batches that are left of the epoch are those of a sampler that was never saved. */
static void expect_same_rest(sab_sampler *restored, sab_sampler *whole, uint64_t position) {
    sab_batch batch = SAB_BATCH_INIT, same = SAB_BATCH_INIT;
    for (; sab_next_batch(restored, &batch) == SAB_OK; ++position) {
        EXPECT_OK(sab_sampler_at(whole, position, &same));
        EXPECT(has_same_samples(&batch, &same) && batch.step == same.step &&
               batch.micro_batch == same.micro_batch && batch.bucket == same.bucket &&
               batch.sample_weight == same.sample_weight &&
               *batch.token_weight == *same.token_weight);
    }
    uint64_t count = 0;
    EXPECT_OK(sab_sampler_get_batch_count(whole, &count));
    EXPECT(position == count);
}

/* Two jobs go on where another one is, between two steps. Returns this position. */
static uint64_t take_over(const struct trial *trial, struct job *job, struct job *other) {
    struct job before = drawn_job(trial);
    const uint64_t end = below(count_of(&before) + 1) / before.micro_batches * before.micro_batches;
    sab_batch batch = SAB_BATCH_INIT;
    for (uint64_t rank = 0; rank < before.world_size; ++rank)
        for (uint64_t i = 0; i < end; ++i) EXPECT_OK(sab_next_batch(before.samplers[rank], &batch));
    const struct state state = state_of_all(&before);
    for (uint64_t rank = 0; rank < job->world_size; ++rank) {
        EXPECT_OK(restore_state(job->samplers[rank], &state));
        EXPECT_OK(restore_state(other->samplers[rank], &state));
    }
    free_job(&before);
    return end;
}

/* Also where other ranks began the epoch: a second restore keeps the weights of the first. */
static void Restore_ByTheSameRanks_GivesTheSameBatches(void) {
    random_state = 5;
    FOR_CONSTRUCTORS(kind)
    for (int round = 0; kind->properties & WITH_OPTIONS && round < ROUNDS_OF(40); ++round) {
        const struct trial trial = drawn(kind);
        struct job whole = drawn_job(&trial),
                   saved = job_of(&trial, whole.world_size, whole.micro_batches),
                   restored = job_of(&trial, whole.world_size, whole.micro_batches);
        const uint64_t first = round % 2 == 0 ? 0 : take_over(&trial, &whole, &saved),
                       position = first + below(count_of(&whole) - first + 1);
        for (uint64_t rank = 0; rank < whole.world_size; ++rank) {
            struct state state;
            sab_batch batch = SAB_BATCH_INIT;
            for (uint64_t i = first; i < position; ++i)
                EXPECT_OK(sab_next_batch(saved.samplers[rank], &batch));
            EXPECT_OK(save_state(saved.samplers[rank], &state));
            EXPECT_OK(restore_state(restored.samplers[rank], &state));
            expect_same_rest(restored.samplers[rank], whole.samplers[rank], position);
        }
        free_job(&whole);
        free_job(&saved);
        free_job(&restored);
    }
}

/* Dropped and repeated samples are those of the last step alone. */
static void Restore_UnderDropAndWrap_KeepsStepsFull(void) {
    random_state = 4;
    FOR_CONSTRUCTORS(kind) {
        if (!keeps_order(kind) || kind->properties & (REPEATS | ONE_RANK)) continue;
        for (int round = 0; round < ROUNDS_OF(100); ++round) {
            struct trial trial = drawn(kind);
            set_last_step(&trial, round % 2 == 0 ? SAB_LAST_STEP_DROP : SAB_LAST_STEP_WRAP,
                          SAB_LAST_STEP_WRAP);
            struct job job = drawn_job(&trial);
            int seen[MOST_SAMPLES] = {0};
            struct totals totals = {0};
            const uint64_t first = below(1 + count_of(&job) / 2);
            for (uint64_t i = 0; i < first; ++i) take(&trial, &job, &totals, seen);
            if (can_be_lowered(kind) && below(3) == 0) lower(&job);
            const struct state state = state_of_all(&job);
            struct job next = drawn_job(&trial);
            for (uint64_t rank = 0; rank < next.world_size; ++rank)
                EXPECT_OK(restore_state(next.samplers[rank], &state));
            const int is_same =
                next.world_size == job.world_size && next.micro_batches == job.micro_batches;
            EXPECT(is_same || (count_of(&next) - first) % next.micro_batches == 0);
            for (uint64_t i = first; i < count_of(&next); ++i)
                for (uint64_t rank = 0; rank < next.world_size; ++rank) {
                    sab_batch batch = SAB_BATCH_INIT;
                    EXPECT_OK(sab_next_batch(next.samplers[rank], &batch));
                    for (size_t k = 0; k < batch.count; ++k) ++seen[batch.indices[k]];
                }
            expect_coverage(&trial, seen);
            free_job(&job);
            free_job(&next);
        }
    }
}

/* Other ranks, micro-batches or budgets weigh what is left of an epoch by its own mean. */
static void Weights_OfARest_HaveTheMeanOne(void) {
    random_state = 6;
    FOR_CONSTRUCTORS(kind)
    for (int round = 0; kind->properties & WITH_OPTIONS && round < ROUNDS_OF(100); ++round) {
        struct trial trial = drawn(kind);
        if (kind->properties & ONE_RANK) trial.last_step = SAB_LAST_STEP_SPLIT;
        struct job before = drawn_job(&trial);
        int seen[MOST_SAMPLES] = {0};
        struct totals totals = {0};
        const uint64_t end = below(count_of(&before)) / before.micro_batches * before.micro_batches;
        while (position_of(&before) < end) take(&trial, &before, &totals, seen);
        const int is_lowered = can_be_lowered(kind) && below(2) == 0;
        for (uint64_t rank = 0; is_lowered && rank < before.world_size; ++rank)
            EXPECT_OK(sab_sampler_set_budget(before.samplers[rank], 0, 150));
        const struct job old = before;
        struct job after = handed_over(&trial, &before);
        if (!is_lowered && after.world_size == old.world_size &&
            after.micro_batches == old.micro_batches)
            after.weights = old.weights; /* nothing has changed */
        totals = (struct totals){0};
        while (take(&trial, &after, &totals, seen)) {
        }
        EXPECT(after.weights.batches == 0 || have_mean_one(&after.weights));
        free_job(&after);
    }
}

static sab_sampler *one_sampler(const struct constructor *kind, const int32_t *numbers,
                                size_t count) {
    const sab_sampler_options options = ranks(0, 1);
    return sampler_of_kind(kind, numbers, count, &options);
}

/* Also of samplers without options; those that do not know their batches take the mean so far. */
static void Weights_OfTheNextEpoch_HaveTheMeanOne(void) {
    FOR_CONSTRUCTORS(kind) {
        sab_sampler *sampler = one_sampler(kind, lengths(300), 300);
        sab_batch batch = SAB_BATCH_INIT;
        for (int epoch = 0; epoch < 2; ++epoch) {
            struct weights weights = {0};
            double samples = 0, total = 0, batches = 0;
            EXPECT_OK(sab_sampler_begin(sampler));
            while (sab_next_batch(sampler, &batch) == SAB_OK) {
                samples += (double)batch.count, total += *batch.total, ++batches;
                if (kind->capabilities & COUNTED)
                    add_weights(&weights, &batch);
                else
                    EXPECT(nearly_equal(batch.sample_weight,
                                        (double)batch.count * batches / samples) &&
                           nearly_equal(*batch.token_weight, *batch.total * batches / total));
            }
            EXPECT(batches > 1 && (!(kind->capabilities & COUNTED) || have_mean_one(&weights)));
        }
        sab_sampler_free(sampler);
    }
}

static void Weights_OfSizesThatAreZero_AreOne(void) {
    static const int32_t zeros[40];
    FOR_CONSTRUCTORS(kind) {
        sab_sampler *sampler = one_sampler(kind, zeros, COUNT(zeros));
        sab_batch batch = SAB_BATCH_INIT;
        while (sab_next_batch(sampler, &batch) == SAB_OK) EXPECT(*batch.token_weight == 1);
        EXPECT(batch.count > 0);
        sab_sampler_free(sampler);
    }
}

/* The mean of samples is that of what is left; that of tokens takes the mean size of a bucket. */
static void Weights_OfDroppedAndRepeatedTails_CountSamples(void) {
    static const sab_tail tails[] = {SAB_TAIL_DROP, SAB_TAIL_WRAP};
    static sab_status (*const make[])(const sab_plan *, const sab_sampler_options *,
                                      sab_sampler **) = {sab_bucket_sampler_new,
                                                         sab_sequential_sampler_new};
    int32_t numbers[500];
    for (size_t i = 0; i < COUNT(numbers); ++i) numbers[i] = 10 * (1 + (int32_t)(i % 7));
    for (size_t t = 0; t < COUNT(tails); ++t)
        for (size_t m = 0; m < COUNT(make); ++m) {
            sab_plan_options how = budget(200);
            how.tail = tails[t];
            sab_plan *plan = plan_with(numbers, COUNT(numbers), &how);
            struct weights weights = {0};
            for (uint64_t rank = 0; rank < 3; ++rank) {
                const sab_sampler_options options = ranks(rank, 3);
                sab_sampler *sampler = NULL;
                sab_batch batch = SAB_BATCH_INIT;
                EXPECT_OK(make[m](plan, &options, &sampler));
                while (sab_next_batch(sampler, &batch) == SAB_OK) add_weights(&weights, &batch);
                sab_sampler_free(sampler);
            }
            EXPECT(nearly_equal(weights.samples, (double)weights.batches));
            EXPECT(fabs(weights.tokens / (double)weights.batches - 1) < 0.02);
            sab_plan_free(plan);
        }
}

static sab_sampler *bucket_sampler(uint64_t micro_batches) {
    sab_sampler_options options = ranks(0, 2);
    options.micro_batches = micro_batches;
    return sampler_of_kind(constructor_of("bucket"), lengths(100), 100, &options);
}

static void Step_OfNoShownBatch_IsRefused(void) {
    sab_sampler *sampler = bucket_sampler(3);
    struct state state;
    sab_batch batch = SAB_BATCH_INIT;
    sab_step step = SAB_STEP_INIT;
    sab_rows rows = SAB_ROWS_INIT;
    sab_block block = SAB_BLOCK_INIT;
#define EXPECT_NOTHING_SHOWN()                                                                \
    do {                                                                                      \
        EXPECT_FAILS(sab_sampler_get_step(sampler, &step), SAB_E_ARGUMENT, "shows no batch"); \
        EXPECT_FAILS(sab_sampler_get_rows(sampler, &rows), SAB_E_ARGUMENT, "shows no batch"); \
        EXPECT(step.samples == 0 && step.totals == NULL && rows.capacity == NULL);            \
    } while (0)
    EXPECT_NOTHING_SHOWN();
    EXPECT_OK(save_state(sampler, &state));
    EXPECT_OK(sab_next_batch(sampler, &batch));
    EXPECT(step_of(sampler).micro_batches == 3);
    EXPECT_OK(sab_sampler_set_epoch(sampler, 0));
    EXPECT_NOTHING_SHOWN();
    EXPECT_OK(sab_next_batch(sampler, &batch));
    EXPECT_OK(restore_state(sampler, &state));
    EXPECT_NOTHING_SHOWN();
    EXPECT_OK(sab_next_batch(sampler, &batch));
    EXPECT_OK(sab_sampler_set_budget(sampler, 0, 120));
    EXPECT_NOTHING_SHOWN();
    EXPECT_OK(sab_next_block(sampler, 1, &block));
    EXPECT_NOTHING_SHOWN();
    EXPECT_OK(sab_next_batch(sampler, &batch));
    EXPECT_FAILS(sab_sampler_get_rows(sampler, &rows), SAB_E_UNSUPPORTED, "the batch is padded");
    while (sab_next_batch(sampler, &batch) == SAB_OK) {
    }
    EXPECT_NOTHING_SHOWN();
    step.struct_size = 8;
    EXPECT_FAILS(sab_sampler_get_step(sampler, &step), SAB_E_ARGUMENT, "step.struct_size = 8");
    rows.struct_size = 8;
    EXPECT_FAILS(sab_sampler_get_rows(sampler, &rows), SAB_E_ARGUMENT, "rows.struct_size = 8");
    sab_sampler_free(sampler);
}

static void Budget_SetInsideAStep_EndsTheStep(void) {
    sab_sampler *sampler = bucket_sampler(3);
    sab_batch batch = SAB_BATCH_INIT;
    for (int i = 0; i < 4; ++i) EXPECT_OK(sab_next_batch(sampler, &batch));
    EXPECT(batch.step == 1 && batch.micro_batch == 0);
    EXPECT_OK(sab_sampler_set_budget(sampler, 0, 120));
    EXPECT_OK(sab_next_batch(sampler, &batch));
    EXPECT(batch.step == 2 && batch.micro_batch == 0);
    sab_sampler_free(sampler);
}

static void State_IsWrittenOnlyWhereThereIsRoom(void) {
    sab_sampler *sampler = bucket_sampler(2);
    size_t size = 0, again = 0;
    EXPECT_OK(sab_sampler_state_save(sampler, NULL, 0, &size));
    EXPECT(size > 32 && size <= 256);
    unsigned char bytes[256];
    memset(bytes, 7, sizeof bytes);
    EXPECT_FAILS(sab_sampler_state_save(sampler, bytes, size - 1, &again), SAB_E_ARGUMENT,
                 "capacity = ");
    EXPECT(again == size && bytes[0] == 7 && bytes[size - 2] == 7);
    EXPECT_OK(sab_sampler_state_save(sampler, bytes, sizeof bytes, &again));
    EXPECT(again == size && memcmp(bytes, "SABS", 4) == 0 && bytes[size] == 7);
    EXPECT_OK(sab_sampler_state_restore(sampler, bytes, size));
    sab_sampler_free(sampler);
}

/* Ranks wait for each other once a step, not once a micro-batch. */
static void Report_CountsStepsOfTheOptimizer(void) {
    const sab_plan_options how = budget(200);
    sab_plan *plan = plan_with(lengths(400), 400, &how);
    sab_sampler_options options = ranks(0, 4);
    sab_plan_report one = SAB_PLAN_REPORT_INIT, several = SAB_PLAN_REPORT_INIT;
    options.last_step = SAB_LAST_STEP_DROP;
    EXPECT_OK(sab_plan_get_report(plan, &options, NULL, &one));
    options.micro_batches = 3;
    EXPECT_OK(sab_plan_get_report(plan, &options, NULL, &several));
    EXPECT(several.steps == one.steps / 3 && several.dropped >= one.dropped);
    EXPECT(several.rank_imbalance >= 1 && several.rank_imbalance < one.rank_imbalance);
    options = ranks(0, 4);
    EXPECT_OK(sab_plan_get_report(plan, &options, NULL, &one));
    options.micro_batches = 3;
    EXPECT_OK(sab_plan_get_report(plan, &options, NULL, &several));
    EXPECT(several.steps == (one.steps + 2) / 3 && several.batches == one.batches);
    EXPECT(several.total == one.total && several.dropped == 0);
    sab_plan_free(plan);
}

int main(void) {
    RUN(Epoch_OfMicroBatches_KeepsCoverageEqualStepsAndTotals);
    RUN(Order_DoesNotDependOnTheMicroBatches);
    RUN(Restore_BetweenMicroBatches_LosesAndRepeatsNothing);
    RUN(Restore_UnderDropAndWrap_KeepsStepsFull);
    RUN(Restore_ByTheSameRanks_GivesTheSameBatches);
    RUN(Weights_OfARest_HaveTheMeanOne);
    RUN(Weights_OfTheNextEpoch_HaveTheMeanOne);
    RUN(Weights_OfSizesThatAreZero_AreOne);
    RUN(Weights_OfDroppedAndRepeatedTails_CountSamples);
    RUN(Step_OfNoShownBatch_IsRefused);
    RUN(Budget_SetInsideAStep_EndsTheStep);
    RUN(State_IsWrittenOnlyWhereThereIsRoom);
    RUN(Report_CountsStepsOfTheOptimizer);
    return finish();
}
