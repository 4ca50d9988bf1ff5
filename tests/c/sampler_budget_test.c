/* A sampler whose budget is lowered on the way: every sample still comes once, ranks stay in step,
 * and a state goes on from anywhere. */
#define _GNU_SOURCE
#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "helpers.h"
#include "one.h"

#define SAMPLES 240
#define MOST_RANKS 6
#define MOST_STEPS 4096

enum order { NATIVE, SEQUENTIAL };

/* What a plan's budget is of. */
enum price { PADDED, QUADRATIC, POLYNOMIAL, TERMS };

/* A plan and how it is walked. */
struct job {
    sab_plan *plan;
    enum order order;
    int32_t sizes[SAMPLES];
    size_t samples;
    enum price cost;
    double budget; /* the plan's own */
    sab_tail tail;
    sab_last_step last_step;
    uint64_t bucket_batches; /* of automatic buckets */
    uint64_t seed, costliest_first;
    int skipped[SAMPLES];
};

enum { MOST_TERMS = 6 };
static const sab_cost_term terms_of[][MOST_TERMS] = {[PADDED] = {{1, 1, POWERS(1)}},
                                                     [QUADRATIC] = {{1, 1, POWERS(2)}},
                                                     [POLYNOMIAL] = {{20, 0, POWERS(0)},
                                                                     {1, 1, POWERS(0)},
                                                                     {0.5, 1, POWERS(1)},
                                                                     {0.01, 1, POWERS(2)}},
                                                     [TERMS] = {{50, 0, POWERS(0)},
                                                                {2, 1, POWERS(0)},
                                                                {1.5, 1, POWERS(1)},
                                                                {0.02, 1, POWERS(2)},
                                                                {0.5, 0, POWERS(1)},
                                                                {0.25, 2, POWERS(0)}}};

static double cost_of(enum price cost, uint64_t count, double length) {
    double sum = 0;
    for (size_t i = 0; i < MOST_TERMS; ++i)
        sum += terms_of[cost][i].coefficient * pow((double)count, terms_of[cost][i].count_power) *
               (terms_of[cost][i].column_count > 0 ? pow(length, terms_of[cost][i].length_powers[0])
                                                   : 0);
    return sum;
}

static double constant_of(enum price cost) {
    return cost == POLYNOMIAL ? 20 : cost == TERMS ? 50 : 0;
}

static void make_plan(struct job *job, sab_bucket_rule buckets, sab_oversize oversize,
                      double length_multiple) {
    static const double boundaries[] = {0, 8, 20, 50, 1000};
    sab_plan_options options = SAB_PLAN_OPTIONS_INIT;
    options.bucket_rule = buckets;
    sab_cost *cost = NULL;
    EXPECT_OK(sab_cost_terms_new(terms_of[job->cost], MOST_TERMS, &cost));
    SET_BUDGET_OF(options, cost, job->budget);
    options.tail = job->tail;
    options.oversize = oversize;
    options.length_multiples = one_number(length_multiple), options.length_multiple_count = 1;
    options.boundaries = buckets == SAB_BUCKETS_BOUNDARIES ? boundaries : NULL;
    options.boundary_count = buckets == SAB_BUCKETS_BOUNDARIES ? COUNT(boundaries) : 0;
    options.bucket_count = buckets == SAB_BUCKETS_OPTIMAL ? 4 : 0;
    options.bucket_batches = buckets == SAB_BUCKETS_AUTO ? job->bucket_batches : 0;
    sab_sizes *sizes = sizes_of(job->sizes, job->samples);
    if (job->tail == SAB_TAIL_DROP &&
        sab_plan_new(sizes, &options, &job->plan) == SAB_E_ARGUMENT) /* it drops all samples */
        options.tail = job->tail = SAB_TAIL_KEEP;
    if (job->plan == NULL) EXPECT_OK(sab_plan_new(sizes, &options, &job->plan));
    sab_sizes_free(sizes);
    sab_cost_free(cost);
    int64_t left_out[SAMPLES];
    size_t count = 0;
    EXPECT_OK(sab_plan_get_skipped(job->plan, left_out, SAMPLES, &count));
    memset(job->skipped, 0, sizeof job->skipped);
    for (size_t i = 0; i < count; ++i) job->skipped[left_out[i]] = 1;
}

/* Any plan, walked in any way. */
static struct job any_job(void) {
    struct job job = {0};
    job.samples = 1 + below(SAMPLES);
    const uint64_t longest = 1 + below(90);
    for (size_t i = 0; i < job.samples; ++i)
        job.sizes[i] = (int32_t)(1 + below(1 + below(longest)));
    const uint64_t price = below(5); /* terms twice as often */
    job.cost = price > TERMS ? TERMS : (enum price)price;
    job.budget = cost_of(job.cost, 1 + below(12), (double)longest);
    job.tail = (sab_tail)below(3);
    job.last_step = (sab_last_step)below(3);
    job.order = (enum order)below(2);
    job.seed = below(100);
    job.costliest_first = below(3) == 0 ? below(8) : 0;
    const double multiples[] = {0, 4, 8};
    const sab_oversize oversize = below(3) == 0 ? SAB_OVERSIZE_SINGLE : SAB_OVERSIZE_SKIP;
    if (oversize == SAB_OVERSIZE_SINGLE) job.sizes[below(job.samples)] = 200;
    /* at least one sample remains */
    else
        job.budget = cost_of(job.cost, 1 + below(12), (double)longest + 8);
    job.bucket_batches = below(2) == 0 ? 3 : 0;
    make_plan(&job, (sab_bucket_rule)below(3), oversize, multiples[below(3)]);
    sab_plan_info info = SAB_PLAN_INFO_INIT;
    EXPECT_OK(sab_plan_get_info(job.plan, &info));
    if (info.batches < MOST_RANKS && job.last_step == SAB_LAST_STEP_DROP)
        job.last_step = SAB_LAST_STEP_SPLIT; /* some ranks would drop all batches */
    return job;
}

/* The plan of most tests: batches of five samples and more. */
static struct job text_job(enum price cost, sab_last_step last_step) {
    struct job job = {0};
    job.samples = SAMPLES;
    memcpy(job.sizes, lengths(SAMPLES), SAMPLES * sizeof(int32_t));
    job.cost = cost;
    job.budget = cost_of(cost, 5, 97);
    job.last_step = last_step;
    job.seed = 7;
    make_plan(&job, SAB_BUCKETS_AUTO, SAB_OVERSIZE_SKIP, 0);
    return job;
}

static sab_sampler *sampler_of(const struct job *job, uint64_t rank, uint64_t world_size) {
    sab_sampler_options options = SAB_SAMPLER_OPTIONS_INIT;
    options.seed = job->order == NATIVE ? job->seed : 0; /* others are not shuffled */
    options.rank = rank;
    options.world_size = world_size;
    options.last_step = job->last_step;
    options.costliest_first = job->order == NATIVE ? job->costliest_first : 0;
    sab_sampler *sampler = NULL;
    EXPECT_OK(job->order == NATIVE ? sab_bucket_sampler_new(job->plan, &options, &sampler)
                                   : sab_sequential_sampler_new(job->plan, &options, &sampler));
    return sampler;
}

/* All ranks of a run. */
struct world {
    uint64_t ranks;
    sab_sampler *samplers[MOST_RANKS];
};

static struct world world_of(const struct job *job, uint64_t ranks) {
    struct world world = {ranks, {NULL}};
    for (uint64_t rank = 0; rank < ranks; ++rank)
        world.samplers[rank] = sampler_of(job, rank, ranks);
    return world;
}

static void free_world(struct world *world) {
    for (uint64_t rank = 0; rank < world->ranks; ++rank) sab_sampler_free(world->samplers[rank]);
}

static void set_budget_of(struct world *world, double budget) {
    for (uint64_t rank = 0; rank < world->ranks; ++rank)
        EXPECT_OK(sab_sampler_set_budget(world->samplers[rank], 0, budget));
}

static double budget_of(const struct world *world) {
    double budget = -1;
    EXPECT_OK(sab_sampler_get_budget(world->samplers[0], 0, &budget));
    return budget;
}

static uint64_t steps_of(const struct world *world) {
    uint64_t steps = 0, same = 0;
    EXPECT_OK(sab_sampler_get_batch_count(world->samplers[0], &steps));
    for (uint64_t rank = 1; rank < world->ranks; ++rank) {
        EXPECT_OK(sab_sampler_get_batch_count(world->samplers[rank], &same));
        EXPECT(same == steps);
    }
    return steps;
}

static uint64_t place_of(const struct world *world) {
    uint64_t epoch = 0, step = 0;
    EXPECT_OK(sab_sampler_tell(world->samplers[0], &epoch, &step));
    return step;
}

/* What all ranks save is the same. */
static void save_world(const struct world *world, struct state *state) {
    struct state same;
    EXPECT_OK(save_state(world->samplers[0], state));
    for (uint64_t rank = 1; rank < world->ranks; ++rank) {
        EXPECT_OK(save_state(world->samplers[rank], &same));
        EXPECT(memcmp(&same, state, sizeof same) == 0);
    }
}

/* Another world goes on where this one stands. */
static struct world handed_over(const struct job *job, const struct world *from, uint64_t ranks) {
    struct state state;
    save_world(from, &state);
    struct world world = world_of(job, ranks);
    for (uint64_t rank = 0; rank < ranks; ++rank)
        EXPECT_OK(restore_state(world.samplers[rank], &state));
    EXPECT(place_of(&world) == place_of(from) && budget_of(&world) == budget_of(from));
    return world;
}

static int empty_steps; /* in which no rank had a sample: there is no mean over them */

/* Takes one step of all ranks and checks whatever a step promises; 0 at the end of the epoch. */
static int take_step(const struct job *job, struct world *world, int *seen) {
    const uint64_t step = place_of(world), steps = steps_of(world);
    const double most = budget_of(world) * (1 + 1e-9);
    uint64_t samples = 0, said = 0;
    double total = 0, said_total = 0;
    for (uint64_t rank = 0; rank < world->ranks; ++rank) {
        sab_batch batch = SAB_BATCH_INIT, ahead = SAB_BATCH_INIT;
        int64_t indices[SAMPLES];
        const sab_status status_ahead = sab_sampler_at(world->samplers[rank], step, &ahead);
        if (status_ahead == SAB_OK && ahead.count > 0)
            memcpy(indices, ahead.indices, ahead.count * sizeof *indices);
        const sab_status status = sab_next_batch(world->samplers[rank], &batch);
        EXPECT(status == (step < steps ? SAB_OK : SAB_END) &&
               status_ahead == (step < steps ? SAB_OK : SAB_E_ARGUMENT));
        if (status != SAB_OK) continue;
        EXPECT(batch.step == step && ahead.step == step && batch.count == ahead.count &&
               *batch.total == *ahead.total);
        EXPECT(batch.count == 0 ||
               memcmp(indices, batch.indices, batch.count * sizeof *indices) == 0);
        EXPECT(batch.count <= 1 || most <= 0 ||
               cost_of(job->cost, batch.count, *batch.padded_length) <= most);
        const sab_step whole = step_of(world->samplers[rank]);
        EXPECT(rank == 0 || (whole.samples == said && *whole.totals == said_total));
        said = whole.samples;
        said_total = *whole.totals;
        double sum = 0, longest = 0;
        for (uint64_t i = 0; i < batch.count; ++i) {
            ++seen[batch.indices[i]];
            sum += job->sizes[batch.indices[i]];
            longest = fmax(longest, job->sizes[batch.indices[i]]);
        }
        EXPECT(*batch.total == sum && *batch.longest == longest);
        samples += batch.count;
        total += sum;
    }
    if (step >= steps) return 0;
    EXPECT(samples == said && total == said_total);
    empty_steps += samples == 0;
    return 1;
}

/* Each sample as often as the policies say. */
static void expect_coverage(const struct job *job, const int *seen) {
    const int may_miss = job->tail == SAB_TAIL_DROP || job->last_step == SAB_LAST_STEP_DROP;
    const int may_repeat = job->tail == SAB_TAIL_WRAP || job->last_step == SAB_LAST_STEP_WRAP;
    int wrong = 0;
    for (size_t i = 0; i < job->samples; ++i)
        wrong += job->skipped[i] ? seen[i] != 0
                                 : (seen[i] == 0 && !may_miss) || (seen[i] > 1 && !may_repeat);
    EXPECT(wrong == 0);
}

/* A budget that may be set: somewhere between the constant and a little more than the plan's. */
static double any_budget(const struct job *job) {
    const double constant = constant_of(job->cost);
    return constant + (job->budget - constant) * (0.01 + (double)below(110) / 100);
}

/* The rest of an epoch, as one rank sees it. */
struct rest {
    uint64_t steps;
    uint64_t offsets[MOST_STEPS + 1];
    int64_t indices[2 * SAMPLES];
};

static void read_rest(sab_sampler *sampler, struct rest *rest) {
    sab_batch batch = SAB_BATCH_INIT;
    rest->steps = rest->offsets[0] = 0;
    while (sab_next_batch(sampler, &batch) == SAB_OK && rest->steps < MOST_STEPS &&
           rest->offsets[rest->steps] + batch.count <= COUNT(rest->indices)) {
        for (uint64_t i = 0; i < batch.count; ++i)
            rest->indices[rest->offsets[rest->steps] + i] = batch.indices[i];
        rest->offsets[rest->steps + 1] = rest->offsets[rest->steps] + batch.count;
        ++rest->steps;
    }
    EXPECT(sab_next_batch(sampler, &batch) == SAB_END);
}

/* Whether `part` is `whole` from `step` on. */
static int is_rest_of(const struct rest *part, const struct rest *whole, uint64_t step) {
    if (part->steps + step != whole->steps) return 0;
    const uint64_t first = whole->offsets[step];
    for (uint64_t i = 0; i <= part->steps; ++i)
        if (part->offsets[i] + first != whole->offsets[i + step]) return 0;
    return memcmp(part->indices, whole->indices + first,
                  part->offsets[part->steps] * sizeof *part->indices) == 0;
}

/* Runs drawn at random */

/* One epoch, `rarity` steps between changes: the budget goes down and up, and other numbers of
 * ranks take over, at any step. */
static void run_epoch(const struct job *job, uint64_t ranks, uint64_t rarity, int changes_ranks) {
    int seen[SAMPLES] = {0};
    struct world world = world_of(job, ranks);
    uint64_t steps = steps_of(&world);
    do {
        if (below(rarity) == 0) {
            set_budget_of(&world, below(8) == 0 ? 0 : any_budget(job));
            steps = steps_of(&world);
        }
        if (changes_ranks && below(rarity) == 0) {
            struct world next = handed_over(job, &world, 1 + below(5));
            free_world(&world);
            world = next;
            steps = steps_of(&world);
        }
        EXPECT(steps_of(&world) == steps);
    } while (take_step(job, &world, seen));
    EXPECT(place_of(&world) == steps);
    expect_coverage(job, seen);
    free_world(&world);
}

static void run_any(uint64_t seed, int changes_ranks) {
    random_state = seed;
    for (int round = 0; round < 700 && failures_of_test == 0; ++round) {
        struct job job = any_job();
        const uint64_t ranks = 1 + below(5), rarity = 1 + below(6);
        run_epoch(&job, ranks, rarity, changes_ranks);
        if (failures_of_test > 0)
            fprintf(stderr, "in round %d of seed %d, begun by %d ranks\n", round, (int)seed,
                    (int)ranks);
        sab_plan_free(job.plan);
    }
}

static void AnyRun_LoweredAndRaised_KeepsCoverageStepsAndBudget(void) {
    run_any(11, 0);
}

static void AnyRun_HandedToOtherRanks_KeepsCoverageStepsAndBudget(void) {
    run_any(12, 1);
}

/* Or count / step_samples, a rank's weight of a mean over samples, would be 0 / 0. */
static void AnyRun_HasNoStepWithoutSamples(void) {
    empty_steps = 0;
    run_any(13, 0);
    EXPECT(empty_steps == 0);
}

static void AnyRun_HandedToOtherRanks_HasNoStepWithoutSamples(void) {
    empty_steps = 0;
    run_any(14, 1);
    EXPECT(empty_steps == 0);
}

/* What a lowered budget does to the steps */

enum { MOST_BUCKETS = 64 };

/* The samples of each bucket, one after the other, and where its batches stand in the epoch. */
struct by_bucket {
    uint64_t counts[MOST_BUCKETS];
    int64_t indices[MOST_BUCKETS][SAMPLES];
    uint64_t position[SAMPLES]; /* of the batch that has the sample */
};

static void add_batch(struct by_bucket *to, const sab_batch *batch, uint64_t position) {
    uint64_t *const count = &to->counts[batch->bucket];
    for (uint64_t i = 0; i < batch->count; ++i) {
        to->indices[batch->bucket][(*count)++] = batch->indices[i];
        to->position[batch->indices[i]] = position;
    }
}

/* One rank, so that the order is plain: the samples of each bucket in their order, in as few
 * batches as they fit, each where its first sample stood. */
static void SetBudget_CutsEachBucketAgainAndKeepsTheOrder(void) {
    struct by_bucket *whole = malloc(sizeof *whole), *cut = malloc(sizeof *cut);
    for (enum order order = NATIVE; order <= SEQUENTIAL; ++order)
        for (int percent = 5; percent < 100; percent += 5) {
            struct job job = text_job(PADDED, SAB_LAST_STEP_SPLIT);
            job.order = order;
            sab_sampler *sampler = sampler_of(&job, 0, 1);
            sab_batch batch = SAB_BATCH_INIT;
            memset(whole, 0, sizeof *whole);
            memset(cut, 0, sizeof *cut);
            for (uint64_t i = 0; sab_next_batch(sampler, &batch) == SAB_OK; ++i)
                add_batch(whole, &batch, i);
            EXPECT_OK(sab_sampler_set_epoch(sampler, 0));
            EXPECT_OK(sab_sampler_set_budget(sampler, 0, job.budget * percent / 100));
            uint64_t batches[MOST_BUCKETS] = {0}, most[MOST_BUCKETS] = {0}, last = 0;
            while (sab_next_batch(sampler, &batch) == SAB_OK) {
                EXPECT(batch.count > 0 && batch.bucket < MOST_BUCKETS &&
                       whole->position[batch.indices[0]] >= last);
                last = whole->position[batch.indices[0]];
                most[batch.bucket] =
                    batch.count > most[batch.bucket] ? batch.count : most[batch.bucket];
                ++batches[batch.bucket];
                add_batch(cut, &batch, 0);
            }
            EXPECT(memcmp(cut->indices, whole->indices, sizeof cut->indices) == 0);
            sab_plan_info info = SAB_PLAN_INFO_INIT;
            EXPECT_OK(sab_plan_get_info(job.plan, &info));
            for (size_t b = 0; b < info.buckets; ++b) {
                sab_bucket bucket = SAB_BUCKET_INIT;
                EXPECT_OK(sab_plan_get_bucket(job.plan, b, &bucket));
                const uint64_t fits = (uint64_t)fmax(
                    1, floor(job.budget * percent / 100 / *bucket.padded_length + 1e-9));
                const uint64_t size = fits < bucket.batch_size ? fits : bucket.batch_size;
                EXPECT(batches[b] == (whole->counts[b] + size - 1) / size && most[b] <= size);
            }
            sab_sampler_free(sampler);
            sab_plan_free(job.plan);
        }
    free(whole);
    free(cut);
}

static void SetBudget_Twice_InTheMiddleOfABatch_CutsTheRestFiner(void) {
    int32_t tens[80];
    for (int i = 0; i < 80; ++i) tens[i] = 10;
    const sab_plan_options options = budget(400); /* two batches of forty */
    sab_plan *plan = plan_with(tens, 80, &options);
    sab_sampler *sampler = rank_of(plan, 0, 1);
    const uint64_t expected[] = {20, 10, 5, 5, 20, 20};
    const double budgets[] = {200, 100, 50, 50, 200, 200}; /* 40 samples are left, of two batches */
    sab_batch batch = SAB_BATCH_INIT;
    int seen[80] = {0};
    for (size_t i = 0; i < COUNT(expected); ++i) {
        EXPECT_OK(sab_sampler_set_budget(sampler, 0, budgets[i]));
        EXPECT_OK(sab_next_batch(sampler, &batch));
        EXPECT(batch.count == expected[i]);
        for (uint64_t k = 0; k < batch.count; ++k) ++seen[batch.indices[k]];
    }
    walk(sampler, seen);
    EXPECT(all_are(seen, 80, 1));
    sab_sampler_free(sampler);
    sab_plan_free(plan);
}

/* Two ranks left in the middle of a batch that three began, and memory is scarcer for them. */
static void SetBudget_OnWhatOtherRanksBegan_KeepsTheNewBudget(void) {
    int32_t tens[360];
    for (int i = 0; i < 360; ++i) tens[i] = 10;
    const sab_plan_options options = budget(400);
    for (uint64_t taken = 1; taken <= 3; ++taken)
        for (uint64_t more = 0; more <= 2; ++more) {
            sab_plan *plan = plan_with(tens, 360, &options);
            sab_sampler *three[3], *two[2];
            struct state state;
            int seen[360] = {0};
            for (uint64_t rank = 0; rank < 3; ++rank) {
                three[rank] = rank_of(plan, rank, 3);
                EXPECT_OK(sab_sampler_set_budget(three[rank], 0, 100));
                sab_batch batch = SAB_BATCH_INIT;
                for (uint64_t i = 0; i < taken; ++i) {
                    EXPECT_OK(sab_next_batch(three[rank], &batch));
                    for (uint64_t k = 0; k < batch.count; ++k) ++seen[batch.indices[k]];
                }
                EXPECT_OK(save_state(three[rank], &state));
                sab_sampler_free(three[rank]);
            }
            int over = 0;
            for (uint64_t rank = 0; rank < 2; ++rank) {
                two[rank] = rank_of(plan, rank, 2);
                EXPECT_OK(restore_state(two[rank], &state));
                sab_batch batch = SAB_BATCH_INIT;
                for (uint64_t i = 0; i < more; ++i) {
                    EXPECT_OK(sab_next_batch(two[rank], &batch));
                    for (uint64_t k = 0; k < batch.count; ++k) ++seen[batch.indices[k]];
                }
                EXPECT_OK(sab_sampler_set_budget(two[rank], 0, 50));
                while (sab_next_batch(two[rank], &batch) == SAB_OK) {
                    over += padded_total(&batch) > 50;
                    for (uint64_t k = 0; k < batch.count; ++k) ++seen[batch.indices[k]];
                }
                sab_sampler_free(two[rank]);
            }
            EXPECT(over == 0);
            EXPECT(all_are(seen, 360, 1));
            sab_plan_free(plan);
        }
}

static void SetBudget_NotBelowThePlans_ChangesNothing(void) {
    struct job job = text_job(TERMS, SAB_LAST_STEP_SPLIT);
    struct rest *plain = malloc(sizeof *plain), *same = malloc(sizeof *same);
    const double budgets[] = {0, job.budget, 2 * job.budget, DBL_MAX};
    sab_sampler *sampler = sampler_of(&job, 1, 3);
    read_rest(sampler, plain);
    for (size_t i = 0; i < COUNT(budgets); ++i) {
        double budget = -1;
        EXPECT_OK(sab_sampler_set_epoch(sampler, 0));
        EXPECT_OK(sab_sampler_set_budget(sampler, 0, job.budget / 2));
        EXPECT_OK(sab_sampler_set_budget(sampler, 0, budgets[i]));
        EXPECT_OK(sab_sampler_get_budget(sampler, 0, &budget));
        EXPECT(budget == job.budget);
        read_rest(sampler, same);
        EXPECT(is_rest_of(same, plain, 0));
    }
    sab_sampler_free(sampler);
    sab_plan_free(job.plan);
    free(plain);
    free(same);
}

static void SetBudget_ToTheLimitThatHolds_ChangesNothing(void) {
    struct job job = text_job(PADDED, SAB_LAST_STEP_DROP);
    sab_sampler_options options = ranks(0, 2);
    options.micro_batches = 3;
    options.last_step = SAB_LAST_STEP_DROP;
    for (int is_lowered = 0; is_lowered < 2; ++is_lowered) {
        sab_sampler *sampler = NULL;
        EXPECT_OK(sab_bucket_sampler_new(job.plan, &options, &sampler));
        const double limit = is_lowered ? job.budget / 4 : job.budget;
        EXPECT_OK(sab_sampler_set_budget(sampler, 0, limit));
        sab_batch batch = SAB_BATCH_INIT;
        struct state before, after;
        EXPECT_OK(sab_next_batch(sampler, &batch)); /* the step has two more */
        EXPECT_OK(save_state(sampler, &before));
        const uint64_t samples = step_of(sampler).samples;
        EXPECT_OK(sab_sampler_set_budget(sampler, 0, limit));
        EXPECT(step_of(sampler).samples == samples);
        EXPECT_OK(save_state(sampler, &after));
        EXPECT(memcmp(&before, &after, sizeof before) == 0);
        EXPECT_OK(sab_next_batch(sampler, &batch));
        EXPECT(batch.step == 0 && batch.micro_batch == 1);
        sab_sampler_free(sampler);
    }
    sab_plan_free(job.plan);
}

/* What was taken before stays taken, and the rest is in batches of the plan's sizes. */
static void Raised_GoesBackToWholeBatches(void) {
    for (sab_last_step last_step = SAB_LAST_STEP_SPLIT; last_step <= SAB_LAST_STEP_WRAP;
         ++last_step) {
        struct job job = text_job(PADDED, last_step);
        struct world world = world_of(&job, 3), whole = world_of(&job, 3);
        const uint64_t steps = steps_of(&whole);
        int seen[SAMPLES] = {0};
        for (int i = 0; i < 2; ++i) take_step(&job, &world, seen);
        set_budget_of(&world, job.budget / 4);
        EXPECT(steps_of(&world) > steps);
        for (int i = 0; i < 5; ++i) take_step(&job, &world, seen);
        set_budget_of(&world, 0);
        EXPECT(budget_of(&world) == job.budget && steps_of(&world) < steps + 12);
        const uint64_t all = steps_of(&world);
        while (take_step(&job, &world, seen)) {
        }
        EXPECT(place_of(&world) == all);
        expect_coverage(&job, seen);
        free_world(&world);
        free_world(&whole);
        sab_plan_free(job.plan);
    }
}

static void SetEpoch_KeepsTheBudget(void) {
    struct job job = text_job(POLYNOMIAL, SAB_LAST_STEP_SPLIT);
    struct world world = world_of(&job, 2), later = world_of(&job, 2);
    int seen[SAMPLES] = {0};
    for (int i = 0; i < 4; ++i) take_step(&job, &world, seen);
    set_budget_of(&world, job.budget / 3);
    take_step(&job, &world, seen);
    for (uint64_t epoch = 0; epoch < 3; ++epoch) {
        for (uint64_t rank = 0; rank < 2; ++rank) {
            EXPECT_OK(sab_sampler_set_epoch(world.samplers[rank], epoch));
            EXPECT_OK(sab_sampler_set_epoch(later.samplers[rank], epoch));
            EXPECT_OK(sab_sampler_set_budget(later.samplers[rank], 0, job.budget / 3));
        }
        EXPECT(budget_of(&world) == job.budget / 3 && steps_of(&world) == steps_of(&later));
        struct state state, same;
        save_world(&world, &state);
        save_world(&later, &same);
        EXPECT(memcmp(&state, &same, sizeof state) == 0);
        memset(seen, 0, sizeof seen);
        while (take_step(&job, &world, seen)) {
        }
        expect_coverage(&job, seen);
    }
    free_world(&world);
    free_world(&later);
    sab_plan_free(job.plan);
}

/* Also of a plan that has none itself. */
static void PlanWithoutABudget_CanBeGivenOne(void) {
    const uint64_t eight = 8;
    sab_plan_options options = SAB_PLAN_OPTIONS_INIT;
    options.batch_sizes = &eight;
    options.batch_size_count = 1;
    sab_plan *plan = plan_with(lengths(SAMPLES), SAMPLES, &options);
    int seen[SAMPLES] = {0};
    for (uint64_t rank = 0; rank < 3; ++rank) {
        sab_sampler *sampler = rank_of(plan, rank, 3);
        double budget = -1;
        EXPECT_OK(sab_sampler_get_budget(sampler, 0, &budget));
        EXPECT(budget == 0);
        EXPECT_OK(sab_sampler_set_budget(sampler, 0, 100));
        EXPECT_OK(sab_sampler_get_budget(sampler, 0, &budget));
        EXPECT(budget == 100);
        sab_batch batch = SAB_BATCH_INIT;
        while (sab_next_batch(sampler, &batch) == SAB_OK) {
            EXPECT(batch.count <= 1 || padded_total(&batch) <= 100);
            for (uint64_t i = 0; i < batch.count; ++i) ++seen[batch.indices[i]];
        }
        EXPECT_OK(sab_sampler_set_epoch(sampler, 0));
        EXPECT_OK(sab_sampler_set_budget(sampler, 0, 0));
        EXPECT_OK(sab_sampler_get_budget(sampler, 0, &budget));
        EXPECT(budget == 0);
        sab_sampler_free(sampler);
    }
    EXPECT(all_are(seen, SAMPLES, 1));
    sab_plan_free(plan);
}

/* Ways to walk */

static void SeekAndAt_UnderALoweredBudget_AgreeWithNext(void) {
    struct rest *whole = malloc(sizeof *whole), *part = malloc(sizeof *part);
    for (sab_last_step last_step = SAB_LAST_STEP_SPLIT; last_step <= SAB_LAST_STEP_WRAP;
         ++last_step)
        for (uint64_t ranks = 1; ranks <= 5; ranks += 2) {
            struct job job = text_job(QUADRATIC, last_step);
            sab_sampler *sampler = sampler_of(&job, ranks - 1, ranks);
            uint64_t steps = 0;
            EXPECT_OK(sab_sampler_set_budget(sampler, 0, job.budget / 5));
            EXPECT_OK(sab_sampler_get_batch_count(sampler, &steps));
            read_rest(sampler, whole);
            EXPECT(whole->steps == steps);
            for (uint64_t step = 0; step <= steps; ++step) {
                sab_batch batch = SAB_BATCH_INIT;
                uint64_t epoch = 0, place = 0;
                const uint64_t other = step * 7919 % steps;
                EXPECT_OK(sab_sampler_seek(sampler, step));
                EXPECT_OK(sab_sampler_at(sampler, other, &batch));
                EXPECT(batch.count == whole->offsets[other + 1] - whole->offsets[other] &&
                       batch.step == other);
                EXPECT(batch.count == 0 ||
                       memcmp(batch.indices, whole->indices + whole->offsets[other],
                              batch.count * 8) == 0);
                EXPECT_OK(sab_sampler_tell(sampler, &epoch, &place));
                EXPECT(place == step);
                read_rest(sampler, part);
                EXPECT(is_rest_of(part, whole, step));
            }
            sab_batch batch = SAB_BATCH_INIT;
            EXPECT_FAILS(sab_sampler_seek(sampler, steps + 1), SAB_E_ARGUMENT, "position = ");
            EXPECT_FAILS(sab_sampler_at(sampler, steps, &batch), SAB_E_ARGUMENT, "position = ");
            /* what another budget went through is not to be reached any more */
            EXPECT_OK(sab_sampler_seek(sampler, 3));
            EXPECT_OK(sab_sampler_set_budget(sampler, 0, job.budget / 6));
            EXPECT_FAILS(sab_sampler_seek(sampler, 2), SAB_E_ARGUMENT, "another budget");
            EXPECT_FAILS(sab_sampler_at(sampler, 2, &batch), SAB_E_ARGUMENT, "another budget");
            EXPECT_OK(sab_sampler_at(sampler, 3, &batch));
            sab_sampler_free(sampler);
            sab_plan_free(job.plan);
        }
    free(whole);
    free(part);
}

static void NextBlock_UnderALoweredBudget_AgreesWithNextBatch(void) {
    random_state = 13;
    struct rest *whole = malloc(sizeof *whole), *blocks = malloc(sizeof *blocks);
    for (int round = 0; round < 300 && failures_of_test == 0; ++round) {
        struct job job = any_job();
        const uint64_t ranks = 1 + below(5), rank = below(ranks);
        sab_sampler *one = sampler_of(&job, rank, ranks), *many = sampler_of(&job, rank, ranks);
        uint64_t steps = 0;
        for (int time = 0; time < 3; ++time) { /* also in the middle of a batch of the plan */
            const double budget = any_budget(&job);
            const uint64_t step = below(4);
            for (int which = 0; which < 2; ++which) {
                sab_sampler *sampler = which == 0 ? one : many;
                uint64_t epoch = 0, place = 0;
                EXPECT_OK(sab_sampler_set_budget(sampler, 0, budget));
                EXPECT_OK(sab_sampler_get_batch_count(sampler, &steps));
                EXPECT_OK(sab_sampler_tell(sampler, &epoch, &place));
                EXPECT_OK(sab_sampler_seek(sampler, place + step < steps ? place + step : steps));
            }
        }
        read_rest(one, whole);
        sab_block block = SAB_BLOCK_INIT;
        sab_status status;
        blocks->steps = blocks->offsets[0] = 0;
        while ((status = sab_next_block(many, 1 + below(19), &block)) == SAB_OK) {
            for (size_t i = 0; i < block.count; ++i) {
                const uint64_t at = blocks->offsets[blocks->steps],
                               size = block.offsets[i + 1] - block.offsets[i];
                if (size > 0 && at + size <= COUNT(blocks->indices))
                    memcpy(blocks->indices + at, block.indices + block.offsets[i],
                           size * sizeof *block.indices);
                blocks->offsets[++blocks->steps] = at + size;
            }
        }
        EXPECT(status == SAB_END && is_rest_of(blocks, whole, 0));
        sab_sampler_free(one);
        sab_sampler_free(many);
        sab_plan_free(job.plan);
    }
    free(whole);
    free(blocks);
}

/* States */

/* The states of positions before budgets were changed are of the cursor that was there, which then
 * gets the budget that holds now. */
static void StateAt_BeforeAChange_HasTheBudgetOfNow(void) {
    enum { CHANGES = 4 };
    for (int number = 0; number < 200; ++number) {
        struct job job = number < 3 ? text_job(TERMS, (sab_last_step)number) : any_job();
        const uint64_t ranks = 1 + below(4);
        sab_sampler *sampler = sampler_of(&job, 0, ranks), *other = sampler_of(&job, 0, ranks);
        struct state before[CHANGES + 1], expected, found;
        uint64_t changed_at[CHANGES + 1], position = 0, count = 0;
        double now = 0;
        sab_batch batch = SAB_BATCH_INIT;
        for (int change = 0; change < CHANGES; ++change) {
            changed_at[change] = position;
            EXPECT_OK(save_state(sampler, &before[change]));
            const double shares[] = {0.3, 0.5, 0.7, 0};
            now = constant_of(job.cost) +
                  (job.budget - constant_of(job.cost)) * shares[below(COUNT(shares))];
            if (now == constant_of(job.cost)) now = 0;
            EXPECT_OK(sab_sampler_set_budget(sampler, 0, now));
            for (uint64_t i = below(4); i > 0 && sab_next_batch(sampler, &batch) == SAB_OK; --i)
                ++position;
        }
        changed_at[CHANGES] = UINT64_MAX;
        EXPECT_OK(sab_sampler_seek(sampler, position));
        EXPECT_OK(save_state(sampler, &before[CHANGES]));
        EXPECT_OK(sab_sampler_get_batch_count(sampler, &count));
        for (uint64_t at = 0; at <= count; ++at) {
            int next = 0; /* the first change behind it, or at it */
            while (changed_at[next] <= at && next < CHANGES) ++next;
            EXPECT_OK(restore_state(other, &before[next]));
            EXPECT_OK(sab_sampler_seek(other, at));
            if (next < CHANGES) EXPECT_OK(sab_sampler_set_budget(other, 0, now));
            EXPECT_OK(save_state(other, &expected));
            EXPECT_OK(state_at(sampler, at, &found));
            EXPECT(memcmp(&found, &expected, sizeof found) == 0);
        }
        EXPECT_OK(save_state(sampler, &found));
        EXPECT(memcmp(&found, &before[CHANGES], sizeof found) == 0);
        /* what was before a restored state of other ranks is not known */
        sab_sampler *more = sampler_of(&job, 0, ranks + 1);
        EXPECT_OK(restore_state(more, &before[CHANGES]));
        EXPECT_OK(state_at(more, position, &found));
        if (position > 0)
            EXPECT_FAILS(state_at(more, position - 1, &found), SAB_E_ARGUMENT, "position = ");
        sab_sampler_free(more);
        sab_sampler_free(sampler);
        sab_sampler_free(other);
        sab_plan_free(job.plan);
    }
}

static void SavedAtEveryStep_GoesOnTheSame(void) {
    struct rest *whole = malloc(sizeof *whole), *part = malloc(sizeof *part);
    for (sab_last_step last_step = SAB_LAST_STEP_SPLIT; last_step <= SAB_LAST_STEP_WRAP;
         ++last_step)
        for (uint64_t ranks = 1; ranks <= 4; ++ranks) {
            struct job job = text_job(TERMS, last_step);
            sab_sampler *sampler = sampler_of(&job, ranks - 1, ranks), *other = NULL;
            sab_batch batch = SAB_BATCH_INIT;
            uint64_t steps = 0, first = 0;
            for (int time = 0; time < 4; ++time) { /* after 0, 1, 2 and 3 changes of the budget */
                if (time > 0)
                    EXPECT_OK(
                        sab_sampler_set_budget(sampler, 0, job.budget * (time == 2 ? 0.2 : 0.4)));
                struct state begin;
                EXPECT_OK(save_state(sampler, &begin));
                EXPECT_OK(sab_sampler_get_batch_count(sampler, &steps));
                read_rest(sampler, whole);
                EXPECT(whole->steps == steps - first);
                for (uint64_t stop = first; stop <= steps; ++stop) {
                    struct state state, again;
                    EXPECT_OK(sab_sampler_seek(sampler, stop));
                    EXPECT_OK(save_state(sampler, &state));
                    other = sampler_of(&job, ranks - 1, ranks);
                    EXPECT_OK(restore_state(other, &state));
                    EXPECT_OK(save_state(other, &again));
                    EXPECT(memcmp(&state, &again, sizeof state) == 0);
                    uint64_t same = 0;
                    EXPECT_OK(sab_sampler_get_batch_count(other, &same));
                    EXPECT(same == steps);
                    read_rest(other, part);
                    EXPECT(is_rest_of(part, whole, stop - first));
                    sab_sampler_free(other);
                }
                EXPECT_OK(restore_state(sampler, &begin));
                /* in the middle of a batch of the plan */
                const uint64_t walked = time == 1 ? 3 : 2;
                for (uint64_t i = 0; i < walked && first < steps; ++i, ++first)
                    EXPECT_OK(sab_next_batch(sampler, &batch));
            }
            sab_sampler_free(sampler);
            sab_plan_free(job.plan);
        }
    free(whole);
    free(part);
}

/* A state carries its budget, whatever the sampler had. */
static void Restore_BringsItsBudget(void) {
    struct job job = text_job(PADDED, SAB_LAST_STEP_SPLIT);
    sab_sampler *sampler = sampler_of(&job, 0, 2), *other = sampler_of(&job, 1, 2);
    struct state state;
    double budget = -1;
    EXPECT_OK(sab_sampler_set_budget(sampler, 0, job.budget / 2));
    EXPECT_OK(save_state(sampler, &state));
    EXPECT_OK(sab_sampler_set_budget(other, 0, job.budget / 3));
    EXPECT_OK(restore_state(other, &state));
    EXPECT_OK(sab_sampler_get_budget(other, 0, &budget));
    EXPECT(budget == job.budget / 2);
    EXPECT_OK(sab_sampler_set_budget(sampler, 0, 0));
    EXPECT_OK(save_state(sampler, &state));
    EXPECT_OK(restore_state(other, &state));
    EXPECT_OK(sab_sampler_get_budget(other, 0, &budget));
    EXPECT(budget == job.budget);
    sab_sampler_free(sampler);
    sab_sampler_free(other);
    sab_plan_free(job.plan);
}

/* Three different numbers of ranks after one another, the first handing over at every step, the
 * second after any number of its own. */
static void ChainOfWorlds_FromEveryStep_LosesAndRepeatsNothing(void) {
    const uint64_t chains[][3] = {{3, 2, 5}, {1, 4, 2}, {5, 3, 1}, {2, 5, 3}};
    for (size_t c = 0; c < COUNT(chains); ++c)
        for (int cut = 2; cut <= 7; cut += 5) {
            struct job job = text_job(PADDED, SAB_LAST_STEP_SPLIT);
            struct world counted = world_of(&job, chains[c][0]);
            set_budget_of(&counted, job.budget / cut);
            const uint64_t steps = steps_of(&counted);
            free_world(&counted);
            for (uint64_t stop = 0; stop <= steps && failures_of_test == 0; ++stop) {
                int seen[SAMPLES] = {0};
                struct world world = world_of(&job, chains[c][0]);
                set_budget_of(&world, job.budget / cut);
                for (uint64_t i = 0; i < stop; ++i) take_step(&job, &world, seen);
                for (size_t which = 1; which < 3; ++which) {
                    struct world next = handed_over(&job, &world, chains[c][which]);
                    free_world(&world);
                    world = next;
                    for (uint64_t i = 0; which == 1 && i < stop % 4; ++i)
                        take_step(&job, &world, seen);
                }
                while (take_step(&job, &world, seen)) {
                }
                expect_coverage(&job, seen);
                free_world(&world);
            }
            sab_plan_free(job.plan);
        }
}

static void Restore_OfADamagedState_ChangesNothing(void) {
    struct job job = text_job(TERMS, SAB_LAST_STEP_SPLIT);
    struct world world = world_of(&job, 2);
    struct rest *whole = malloc(sizeof *whole), *part = malloc(sizeof *part);
    int seen[SAMPLES] = {0};
    struct state state, damaged, after, foreign;
    for (int i = 0; i < 3; ++i) take_step(&job, &world, seen);
    set_budget_of(&world, job.budget / 4);
    for (int i = 0; i < 2; ++i) take_step(&job, &world, seen);
    save_world(&world, &state);
    sab_sampler *sampler = world.samplers[1];
    for (size_t i = 0; i < state.size; ++i)
        for (int bit = 0; bit < 8; ++bit) {
            damaged = state;
            damaged.bytes[i] ^= (unsigned char)(1 << bit);
            EXPECT(restore_state(sampler, &damaged) == SAB_E_FORMAT);
        }
    for (size_t size = 0; size < state.size; ++size)
        EXPECT(sab_sampler_state_restore(sampler, state.bytes, size) == SAB_E_FORMAT);
    struct job others[] = {job, job, job, text_job(PADDED, SAB_LAST_STEP_SPLIT)};
    others[0].seed = 8;
    others[1].last_step = SAB_LAST_STEP_DROP;
    others[2].order = SEQUENTIAL;
    for (size_t i = 0; i < COUNT(others); ++i) { /* of another seed, policy, order, plan */
        sab_sampler *other = sampler_of(&others[i], 1, 2);
        EXPECT_OK(sab_sampler_set_budget(other, 0, job.budget / 5));
        EXPECT_OK(save_state(other, &foreign));
        EXPECT(restore_state(sampler, &foreign) == SAB_E_MISMATCH);
        sab_sampler_free(other);
    }
    EXPECT_OK(save_state(sampler, &after));
    EXPECT(memcmp(&state, &after, sizeof state) == 0 && budget_of(&world) == job.budget / 4);
    sab_sampler *fresh = sampler_of(&job, 1, 2);
    EXPECT_OK(restore_state(fresh, &state));
    read_rest(fresh, whole);
    read_rest(sampler, part);
    EXPECT(is_rest_of(part, whole, 0));
    sab_sampler_free(fresh);
    sab_plan_free(others[3].plan);
    free_world(&world);
    sab_plan_free(job.plan);
    free(whole);
    free(part);
}

static void SizeZero_CostsNothingUnderALoweredBudget(void) {
    int32_t numbers[15] = {0};
    numbers[12] = numbers[13] = numbers[14] = 4;
    sab_plan_options options = budget(24);
    options.bucket_rule = SAB_BUCKETS_OPTIMAL;
    options.bucket_count = 2; /* zeros, and fours */
    for (int multiple = 0; multiple <= 8; multiple += 8) {
        options.length_multiples = one_number(multiple), options.length_multiple_count = 1;
        sab_plan *plan = plan_with(numbers, 15, &options);
        sab_sampler *sampler = rank_of(plan, 0, 1);
        sab_batch batch = SAB_BATCH_INIT;
        uint64_t batches = 0;
        EXPECT_OK(sab_sampler_set_budget(sampler, 0, 8));
        for (; sab_next_batch(sampler, &batch) == SAB_OK; ++batches)
            EXPECT(batch.count == 12 || batch.count <= (multiple == 0 ? 2 : 1));
        EXPECT(batches == (multiple == 0 ? 3 : 4));
        sab_sampler_free(sampler);
        sab_plan_free(plan);
    }
}

/* Ranks are not counted out one by one. */
static void LoweredBudget_OfAsManyRanksAsThereMayBe_TakesNoTime(void) {
    struct job job = text_job(PADDED, SAB_LAST_STEP_SPLIT);
    sab_sampler *few = sampler_of(&job, 0, 8), *many = sampler_of(&job, 5, UINT32_MAX);
    struct state state;
    sab_batch batch = SAB_BATCH_INIT;
    uint64_t batches = 0;
    EXPECT_OK(sab_sampler_set_budget(few, 0, job.budget / 3));
    EXPECT_OK(sab_next_batch(few, &batch));
    EXPECT_OK(save_state(few, &state));
    EXPECT_OK(restore_state(many, &state));
    EXPECT_OK(sab_sampler_get_batch_count(many, &batches));
    EXPECT(batches == 2);
    EXPECT_OK(sab_next_batch(many, &batch));
    EXPECT(batch.count <= 1 && sab_next_batch(many, &batch) == SAB_END);
    EXPECT_OK(sab_sampler_set_epoch(many, 1));
    EXPECT_OK(sab_sampler_set_budget(many, 0, job.budget / 4));
    EXPECT_OK(sab_next_batch(many, &batch));
    sab_sampler_free(few);
    sab_sampler_free(many);
    sab_plan_free(job.plan);
}

/* What is refused */

static void SetBudget_OfWhatIsNoBudget_IsRefusedAndChangesNothing(void) {
    struct job job = text_job(TERMS, SAB_LAST_STEP_SPLIT); /* 50 is its constant */
    sab_sampler *sampler = sampler_of(&job, 0, 2);
    struct state state, after;
    sab_batch batch = SAB_BATCH_INIT;
    const double wrong[] = {-1, -0.5, NAN, INFINITY, -INFINITY};
    EXPECT_OK(sab_sampler_set_budget(sampler, 0, job.budget / 3));
    for (int i = 0; i < 3; ++i) EXPECT_OK(sab_next_batch(sampler, &batch));
    EXPECT_OK(save_state(sampler, &state));
    for (size_t i = 0; i < COUNT(wrong); ++i)
        EXPECT_FAILS(sab_sampler_set_budget(sampler, 0, wrong[i]), SAB_E_ARGUMENT, "limit = ");
    EXPECT_FAILS(sab_sampler_set_budget(sampler, 0, 50), SAB_E_ARGUMENT,
                 "limit = 50: must be more than the cost's constant term, 50");
    EXPECT_FAILS(sab_sampler_set_budget(sampler, 0, 1), SAB_E_ARGUMENT, "limit = 1: ");
    EXPECT_FAILS(sab_sampler_set_budget(NULL, 0, 100), SAB_E_ARGUMENT, "sampler = NULL");
    EXPECT_FAILS(sab_sampler_get_budget(sampler, 0, NULL), SAB_E_ARGUMENT, "limit = NULL");
    EXPECT_OK(save_state(sampler, &after));
    EXPECT(memcmp(&state, &after, sizeof state) == 0);
    EXPECT_OK(sab_sampler_set_budget(sampler, 0, 50.5)); /* pays for no sample: each is alone */
    while (sab_next_batch(sampler, &batch) == SAB_OK) EXPECT(batch.count <= 1);
    sab_sampler_free(sampler);
    sab_plan_free(job.plan);
}

static int32_t padded_cost(void *ctx, uint64_t count, const double *lengths, const double *totals,
                           size_t columns, double *cost) {
    (void)ctx, (void)count, (void)lengths, (void)columns;
    *cost = totals[0];
    return 0;
}

static int32_t any_index(void *ctx, uint64_t epoch, uint64_t position, int64_t *index,
                         double *size) {
    (void)ctx, (void)epoch;
    *index = (int64_t)position;
    *size = 1;
    return position < 10 ? 0 : SAB_END;
}

static void SetBudget_OfAnotherSampler_IsUnsupported(void) {
    sab_plan *plan = a_plan();
    sab_sizes *sizes = sizes_of(lengths(SAMPLES), SAMPLES);
    sab_plan_options options = budget(300);
    sab_cost *cost = new_callback(padded_cost, NULL);
    SET_BUDGET_OF(options, cost, 300);
    sab_plan *priced = plan_with(lengths(SAMPLES), SAMPLES, &options);
    sab_cost_free(cost);
    const double boundaries[] = {0, 100};
    options = budget(300);
    options.bucket_rule = SAB_BUCKETS_BOUNDARIES;
    options.boundaries = boundaries;
    options.boundary_count = COUNT(boundaries);
    sab_plan *bounded = plan_with(lengths(SAMPLES), SAMPLES, &options);
    sab_sampler *samplers[6] = {NULL};
    double found = -1;
    EXPECT_OK(sab_costliest_sampler_new(plan, 5, &samplers[0]));
    EXPECT_OK(sab_ordered_sampler_new(NULL, SAMPLES, sizes, 300, NULL, &samplers[1]));
    EXPECT_OK(sab_bionemo_size_aware_stream_sampler_new(any_index, NULL, NULL, 5, &samplers[2]));
    EXPECT_OK(sab_bionemo_sampler_new(bounded, NULL, &samplers[3]));
    EXPECT_OK(sab_bucket_sampler_new(priced, NULL, &samplers[4]));
    EXPECT_OK(sab_sequential_sampler_new(priced, NULL, &samplers[5]));
    for (size_t i = 0; i < COUNT(samplers); ++i) {
        EXPECT_FAILS(sab_sampler_set_budget(samplers[i], 0, 100), SAB_E_UNSUPPORTED,
                     "sab_sampler_set_budget: ");
        EXPECT_FAILS(sab_sampler_get_budget(samplers[i], 0, &found), SAB_E_UNSUPPORTED,
                     "sab_sampler_get_budget: ");
        sab_sampler_free(samplers[i]);
    }
    sab_sizes_free(sizes);
    sab_plan_free(priced);
    sab_plan_free(bounded);
    sab_plan_free(plan);
}

int main(void) {
    RUN(AnyRun_LoweredAndRaised_KeepsCoverageStepsAndBudget);
    RUN(AnyRun_HandedToOtherRanks_KeepsCoverageStepsAndBudget);
    RUN(AnyRun_HasNoStepWithoutSamples);
    RUN(AnyRun_HandedToOtherRanks_HasNoStepWithoutSamples);
    RUN(SetBudget_CutsEachBucketAgainAndKeepsTheOrder);
    RUN(SetBudget_Twice_InTheMiddleOfABatch_CutsTheRestFiner);
    RUN(SetBudget_OnWhatOtherRanksBegan_KeepsTheNewBudget);
    RUN(SetBudget_NotBelowThePlans_ChangesNothing);
    RUN(SetBudget_ToTheLimitThatHolds_ChangesNothing);
    RUN(Raised_GoesBackToWholeBatches);
    RUN(SetEpoch_KeepsTheBudget);
    RUN(PlanWithoutABudget_CanBeGivenOne);
    RUN(SeekAndAt_UnderALoweredBudget_AgreeWithNext);
    RUN(NextBlock_UnderALoweredBudget_AgreesWithNextBatch);
    RUN(StateAt_BeforeAChange_HasTheBudgetOfNow);
    RUN(SavedAtEveryStep_GoesOnTheSame);
    RUN(Restore_BringsItsBudget);
    RUN(ChainOfWorlds_FromEveryStep_LosesAndRepeatsNothing);
    RUN(Restore_OfADamagedState_ChangesNothing);
    RUN(SizeZero_CostsNothingUnderALoweredBudget);
    RUN(LoweredBudget_OfAsManyRanksAsThereMayBe_TakesNoTime);
    RUN(SetBudget_OfWhatIsNoBudget_IsRefusedAndChangesNothing);
    RUN(SetBudget_OfAnotherSampler_IsUnsupported);
    return finish();
}
