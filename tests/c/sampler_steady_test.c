/* Steady steps: successive steps cost the same, no batch moves far, every sample still comes once,
 * and a state goes on from anywhere on any number of ranks. */
#include <math.h>
#include <stdlib.h>

#include "kinds.h"

#define SAMPLES 1500
#define MOST_RANKS 6
#define MOST_STEPS 2048

static const char *const kinds[] = {"bucket", "packed", "rows", "balanced"};

static sab_sampler *sampler_with(const char *kind, uint64_t rank, uint64_t world_size,
                                 uint64_t micro_batches, uint64_t steady) {
    sab_sampler_options options = ranks(rank, world_size);
    options.seed = 3;
    options.micro_batches = micro_batches;
    options.steady = steady;
    return sampler_of_kind(constructor_of(kind), lengths(SAMPLES), SAMPLES, &options);
}

/* The step in which each sample comes. Gives the number of batches of a rank. */
static uint64_t steps_of_samples(const char *kind, uint64_t world_size, uint64_t micro_batches,
                                 uint64_t steady, uint64_t *step_of) {
    sab_batch batch = SAB_BATCH_INIT;
    uint64_t count = 0;
    for (uint64_t rank = 0; rank < world_size; ++rank) {
        sab_sampler *sampler = sampler_with(kind, rank, world_size, micro_batches, steady);
        EXPECT_OK(sab_sampler_batch_count(sampler, &count));
        while (sab_next_batch(sampler, &batch) == SAB_OK)
            for (size_t i = 0; i < batch.count; ++i) step_of[batch.indices[i]] = batch.step;
        sab_sampler_free(sampler);
    }
    return count;
}

static void Batches_OfSteadySteps_MoveByAtMostSoManySteps(void) {
    for (size_t k = 0; k < 3; ++k)
        for (uint64_t steady = 1; steady <= 8; steady += 1 + steady) {
            uint64_t before[SAMPLES], after[SAMPLES], moved = 0;
            const uint64_t count = steps_of_samples(kinds[k], 3, 2, 0, before);
            EXPECT(steps_of_samples(kinds[k], 3, 2, steady, after) == count);
            for (size_t i = 0; i < SAMPLES; ++i) {
                const uint64_t distance =
                    before[i] > after[i] ? before[i] - after[i] : after[i] - before[i];
                EXPECT(distance <= steady);
                moved += distance > 0;
            }
            EXPECT(moved > 0);
        }
}

/* The step in which each of some samples of similar size comes. */
static void steps_of_similar(uint64_t steady, uint64_t *step_of) {
    int32_t similar[SAMPLES];
    for (int32_t i = 0; i < SAMPLES; ++i) similar[i] = 50 + i * 7 % 50;
    sab_sizes *sizes = sizes_of(similar, SAMPLES);
    sab_balanced_options balanced = SAB_BALANCED_OPTIONS_INIT;
    balanced.samples = 48;
    for (uint64_t rank = 0; rank < 2; ++rank) {
        sab_sampler_options options = ranks(rank, 2);
        options.micro_batches = 2;
        options.steady = steady;
        sab_sampler *sampler = NULL;
        sab_batch batch = SAB_BATCH_INIT;
        EXPECT_OK(sab_balanced_sampler_new(sizes, &balanced, &options, &sampler));
        while (sab_next_batch(sampler, &batch) == SAB_OK)
            for (size_t i = 0; i < batch.count; ++i) step_of[batch.indices[i]] = batch.step;
        sab_sampler_free(sampler);
    }
    sab_sizes_free(sizes);
}

/* Without samples that come in groups, the balanced sampler moves them from the same order. */
static void BalancedSamples_OfSimilarSize_MoveByAtMostSoManySteps(void) {
    uint64_t before[SAMPLES], after[SAMPLES], moved = 0;
    steps_of_similar(0, before);
    steps_of_similar(3, after);
    for (size_t i = 0; i < SAMPLES; ++i) {
        EXPECT(before[i] <= after[i] + 3 && after[i] <= before[i] + 3);
        moved += before[i] != after[i];
    }
    EXPECT(moved > 0);
}

/* The standard deviation of the costs of steps, by the sampler's report. */
static double deviation_of(const char *kind, uint64_t steady) {
    sab_sampler_options options = ranks(0, 4);
    options.micro_batches = 4;
    options.steady = steady;
    if (strcmp(kind, "bucket") == 0) {
        sab_plan *plan = plan_for(constructor_of(kind), lengths(SAMPLES), SAMPLES);
        sab_plan_report report = SAB_PLAN_REPORT_INIT;
        EXPECT_OK(sab_plan_get_report(plan, &options, NULL, NULL, &report));
        sab_plan_free(plan);
        return report.step_deviation;
    }
    sab_sampler *sampler = sampler_with(kind, 0, 4, 4, steady);
    sab_balanced_report report = SAB_BALANCED_REPORT_INIT;
    EXPECT_OK(sab_balanced_sampler_get_report(sampler, NULL, NULL, &report));
    sab_sampler_free(sampler);
    return report.step_deviation[0];
}

static void SteadySteps_CostTheSame(void) {
    static const struct {
        const char *kind;
        double most;
    } wanted[] = {{"bucket", 0.005}, {"packed", 0.005}, {"rows", 0.005}, {"balanced", 0.005}};
    for (size_t k = 0; k < COUNT(wanted); ++k) {
        const double before = deviation_of(wanted[k].kind, 0),
                     after = deviation_of(wanted[k].kind, 16);
        EXPECT(after < before / 2 && after <= wanted[k].most);
    }
}

/* The report's deviation is that of the steps that are walked. */
static void StepDeviation_IsThatOfTheSteps(void) {
    sab_sampler *samplers[2];
    double costs[MOST_STEPS] = {0}, mean = 0, squares = 0;
    uint64_t steps = 0;
    sab_batch batch = SAB_BATCH_INIT;
    for (uint64_t rank = 0; rank < 2; ++rank) {
        samplers[rank] = sampler_with("balanced", rank, 2, 3, 0);
        while (sab_next_batch(samplers[rank], &batch) == SAB_OK) {
            costs[batch.step] += batch.total[0];
            steps = batch.step;
        }
    }
    for (uint64_t step = 0; step < steps; ++step) mean += costs[step] / (double)steps;
    for (uint64_t step = 0; step < steps; ++step) squares += pow(costs[step] - mean, 2);
    sab_balanced_report report = SAB_BALANCED_REPORT_INIT;
    EXPECT_OK(sab_balanced_sampler_get_report(samplers[0], NULL, NULL, &report));
    EXPECT(fabs(report.step_deviation[0] - sqrt(squares / (double)steps) / mean) < 1e-12);
    for (uint64_t rank = 0; rank < 2; ++rank) sab_sampler_free(samplers[rank]);
}

static void SteadySteps_AfterASeek_AreThoseOfTheWalk(void) {
    for (size_t k = 0; k < COUNT(kinds); ++k) {
        sab_sampler *walked = sampler_with(kinds[k], 1, 3, 2, 5),
                    *sought = sampler_with(kinds[k], 1, 3, 2, 5);
        uint64_t count = 0;
        EXPECT_OK(sab_sampler_batch_count(walked, &count));
        sab_batch batch = SAB_BATCH_INIT, other = SAB_BATCH_INIT;
        for (uint64_t position = 0; position < count; ++position) {
            EXPECT_OK(sab_next_batch(walked, &batch));
            if (position % 7 != 3) continue;
            EXPECT_OK(sab_sampler_seek(sought, position));
            EXPECT_OK(sab_next_batch(sought, &other));
            EXPECT(batch.count == other.count && batch.step == other.step);
            for (size_t i = 0; i < batch.count; ++i) EXPECT(batch.indices[i] == other.indices[i]);
        }
        sab_sampler_free(walked);
        sab_sampler_free(sought);
    }
}

/* Goes on with other ranks from one position after another, and checks that all samples come. */
static void resume(const char *kind, uint64_t position, const uint64_t (*jobs)[2], size_t count) {
    int seen[SAMPLES] = {0};
    struct state state;
    sab_batch batch = SAB_BATCH_INIT;
    for (size_t j = 0; j < count; ++j) {
        struct state next = {0, {0}};
        for (uint64_t rank = 0; rank < jobs[j][0]; ++rank) {
            sab_sampler *sampler = sampler_with(kind, rank, jobs[j][0], jobs[j][1], 4);
            if (j > 0) EXPECT_OK(restore_state(sampler, &state));
            /* whole steps, since a balanced step cannot be divided anew */
            for (uint64_t i = 0; j + 1 < count && i < position * jobs[j][1]; ++i) {
                if (sab_next_batch(sampler, &batch) != SAB_OK) break;
                for (size_t s = 0; s < batch.count; ++s) ++seen[batch.indices[s]];
            }
            if (j + 1 == count) walk(sampler, seen);
            EXPECT_OK(save_state(sampler, &next));
            sab_sampler_free(sampler);
        }
        state = next;
    }
    EXPECT(all_are(seen, SAMPLES, 1));
}

static void State_OfSteadySteps_GoesOnWithOtherRanks(void) {
    static const uint64_t jobs[][2] = {{3, 2}, {6, 1}, {2, 3}, {5, 2}, {1, 1}};
    for (size_t k = 0; k < COUNT(kinds); ++k)
        for (uint64_t position = 0; position <= 7; position += 3)
            for (size_t count = 2; count <= COUNT(jobs); ++count)
                resume(kinds[k], position, jobs, count);
}

/* As many batches a step as before: the steps are those that began the epoch. */
static void State_OfSteadySteps_StaysSteadyWithAsManyBatches(void) {
    for (size_t k = 0; k < COUNT(kinds); ++k) {
        uint64_t before[SAMPLES];
        steps_of_samples(kinds[k], 4, 2, 4, before);
        sab_sampler *saved = sampler_with(kinds[k], 0, 4, 2, 4);
        struct state state;
        EXPECT_OK(sab_sampler_seek(saved, 6));
        EXPECT_OK(save_state(saved, &state));
        sab_sampler_free(saved);
        for (uint64_t rank = 0; rank < 2; ++rank) {
            sab_sampler *sampler = sampler_with(kinds[k], rank, 2, 4, 4);
            EXPECT_OK(restore_state(sampler, &state));
            sab_batch batch = SAB_BATCH_INIT;
            for (int i = 0; i < 12; ++i) {
                EXPECT_OK(sab_next_batch(sampler, &batch));
                for (size_t s = 0; s < batch.count; ++s)
                    EXPECT(before[batch.indices[s]] == batch.step);
            }
            sab_sampler_free(sampler);
        }
    }
}

static void State_OfAnotherSteady_IsRefused(void) {
    for (size_t k = 0; k < COUNT(kinds); ++k) {
        sab_sampler *steady = sampler_with(kinds[k], 0, 2, 2, 4),
                    *other = sampler_with(kinds[k], 0, 2, 2, 0),
                    *more = sampler_with(kinds[k], 0, 2, 2, 5);
        struct state state;
        EXPECT_OK(save_state(steady, &state));
        EXPECT_FAILS(restore_state(other, &state), SAB_E_MISMATCH, "steady");
        EXPECT_FAILS(restore_state(more, &state), SAB_E_MISMATCH, "steady");
        EXPECT_OK(save_state(other, &state));
        EXPECT_FAILS(restore_state(steady, &state), SAB_E_MISMATCH, "steady");
        sab_sampler_free(steady);
        sab_sampler_free(other);
        sab_sampler_free(more);
    }
}

static void Steady_WhereItIsNotPossible_IsRefused(void) {
    static const char *const others[] = {"sequential", "sharded", "bionemo_size_aware", "bagua",
                                         "bagua_batch"};
    sab_sizes *sizes = sizes_of(lengths(SAMPLES), SAMPLES);
    sab_plan *plan = plan_for(constructor_of("bucket"), lengths(SAMPLES), SAMPLES);
    struct inputs given = inputs_of(lengths(SAMPLES), SAMPLES, sizes, plan);
    sab_sampler *sampler = NULL;
    given.options.steady = 1;
    for (size_t k = 0; k < COUNT(others); ++k) {
        EXPECT_FAILS(constructor_of(others[k])->make(&given, &sampler), SAB_E_ARGUMENT,
                     "options.steady = 1: must be 0 for this sampler");
        EXPECT(sampler == NULL);
    }
    given.options.steady = 257;
    for (size_t k = 0; k < COUNT(kinds); ++k)
        EXPECT_FAILS(constructor_of(kinds[k])->make(&given, &sampler), SAB_E_ARGUMENT,
                     "options.steady = 257: must be at most 256 steps");
    sab_plan_free(plan);
    sab_sizes_free(sizes);
}

/* Few samples, a step of one batch, more steps than there are. */
static void Steady_AtTheEdges_KeepsAllSamples(void) {
    for (size_t k = 0; k < COUNT(kinds); ++k)
        for (size_t count = 1; count < 40; count += 3)
            for (uint64_t micro_batches = 1; micro_batches <= 3; ++micro_batches) {
                sab_sampler_options options = ranks(0, 1);
                options.micro_batches = micro_batches;
                options.steady = micro_batches == 3 ? 256 : 1;
                sab_sampler *sampler =
                    sampler_of_kind(constructor_of(kinds[k]), lengths(count), count, &options);
                int seen[SAMPLES] = {0};
                walk(sampler, seen);
                EXPECT(all_are(seen, count, 1));
                sab_sampler_free(sampler);
            }
}

int main(void) {
    RUN(Batches_OfSteadySteps_MoveByAtMostSoManySteps);
    RUN(BalancedSamples_OfSimilarSize_MoveByAtMostSoManySteps);
    RUN(SteadySteps_CostTheSame);
    RUN(StepDeviation_IsThatOfTheSteps);
    RUN(SteadySteps_AfterASeek_AreThoseOfTheWalk);
    RUN(State_OfSteadySteps_GoesOnWithOtherRanks);
    RUN(State_OfSteadySteps_StaysSteadyWithAsManyBatches);
    RUN(State_OfAnotherSteady_IsRefused);
    RUN(Steady_WhereItIsNotPossible_IsRefused);
    RUN(Steady_AtTheEdges_KeepsAllSamples);
    return finish();
}
