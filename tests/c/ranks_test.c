/* Who is who, and plans that ranks make together. */
#define _GNU_SOURCE
#include <math.h>
#include <stdlib.h>

#include "gather.h"
#include "helpers.h"
#include "posix.h"

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
    EXPECT_OK(sab_ranks_get_from_environment(&rank, &world_size));
    EXPECT(rank == 0 && world_size == 1);
    for (size_t i = 0; i < COUNT(names); ++i) { /* each comes before those set already */
        char text[8] = {(char)('1' + i), 0};
        setenv(names[i][0], text, 1);
        EXPECT_FAILS(sab_ranks_get_from_environment(&rank, &world_size), SAB_E_ARGUMENT,
                     names[i][1]);
        setenv(names[i][1], "8", 1);
        EXPECT_OK(sab_ranks_get_from_environment(&rank, &world_size));
        EXPECT(rank == 1 + i && world_size == 8);
    }
    setenv("RANK", "8", 1);
    EXPECT_FAILS(sab_ranks_get_from_environment(&rank, &world_size), SAB_E_ARGUMENT,
                 "RANK = 8: must be below WORLD_SIZE = 8");
    setenv("RANK", "-1", 1);
    EXPECT_FAILS(sab_ranks_get_from_environment(&rank, &world_size), SAB_E_ARGUMENT,
                 "RANK = \"-1\": must be a whole number");
#ifndef _WIN32 /* which has no empty variables */
    setenv("RANK", "", 1);
    EXPECT_FAILS(sab_ranks_get_from_environment(&rank, &world_size), SAB_E_ARGUMENT,
                 "whole number");
#endif
    EXPECT_FAILS(sab_ranks_get_from_environment(NULL, &world_size), SAB_E_ARGUMENT, "rank");
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
        EXPECT_OK(sab_ranks_get_from_mesh(shape, is_data, 3, p, &rank, &world_size));
        EXPECT(rank == p / 8 % 4 && world_size == 4);
        EXPECT_OK(sab_ranks_get_from_mesh(shape, two, 3, p, &rank, &world_size));
        EXPECT(rank == p / 8 && world_size == 8);
        EXPECT_OK(sab_ranks_get_from_mesh(shape, none, 3, p, &rank, &world_size));
        EXPECT(rank == 0 && world_size == 1);
    }
    EXPECT_FAILS(sab_ranks_get_from_mesh(shape, is_data, 3, 64, &rank, &world_size), SAB_E_ARGUMENT,
                 "rank = 64");
    EXPECT_FAILS(sab_ranks_get_from_mesh(shape, is_data, 0, 0, &rank, &world_size), SAB_E_ARGUMENT,
                 "axes = 0");
    EXPECT_FAILS(sab_ranks_get_from_mesh(shape, wrong, 3, 0, &rank, &world_size), SAB_E_ARGUMENT,
                 "is_data[1] = 2");
    EXPECT_FAILS(sab_ranks_get_from_mesh((uint64_t[]){2, 0}, is_data, 2, 0, &rank, &world_size),
                 SAB_E_ARGUMENT, "shape[1] = 0");
    EXPECT_FAILS(sab_ranks_get_from_mesh((uint64_t[]){1ull << 31, 1ull << 33}, is_data, 2, 0, &rank,
                                         &world_size),
                 SAB_E_ARGUMENT, "fewer than 2^32");
}

static void *check_job(void *data) {
    job *const j = data;
    j->status = sab_ranks_check(j->sampler, j->member.rank, j->member.group->world_size, gather,
                                &j->member);
    strcpy(j->message, j->status == SAB_OK ? "" : sab_last_error_message());
    return NULL;
}

/* Shards of different lengths, one of them empty; the bucket rule and micro-batches of `kind`. */
static void make_shards(job *jobs, uint64_t world_size, int kind) {
    static const double boundaries[] = {1, 20, 60, 900};
    const int32_t *sizes = skewed();
    size_t begin = 0;
    for (uint64_t r = 0; r < world_size; ++r) {
        job *const j = &jobs[r];
        const size_t end = r + 1 == world_size ? SKEWED
                           : r == 2            ? begin
                                               : begin + (SKEWED - begin) / (2 + r);
        j->sizes = sizes + begin;
        j->count = end - begin;
        j->plan = budget(900);
        if (kind == 1) {
            j->plan.bucket_rule = SAB_BUCKETS_BOUNDARIES;
            j->plan.boundaries = boundaries;
            j->plan.boundary_count = COUNT(boundaries);
        }
        if (kind == 2) j->plan.bucket_batches = 3;
        j->options = ranks(r, world_size);
        j->options.micro_batches = 1 + (uint64_t)kind;
        begin = end;
    }
    on_all(make_sharded, jobs, world_size);
    for (uint64_t r = 0; r < world_size; ++r) {
        EXPECT(jobs[r].status == SAB_OK);
        if (jobs[r].status != SAB_OK) fprintf(stderr, "%s\n", jobs[r].message);
    }
}

/* A batch of one shard; adds what it holds to `seen`. */
static void check_shard_batch(const job *j, const sab_batch *batch, const sab_step *said,
                              uint64_t world_size, int *seen) {
    EXPECT(padded_total(batch) <= 900);
    EXPECT(world_size > 1 ? *said->totals == -1 : *said->totals >= *batch->total);
    double total = 0;
    for (uint64_t i = 0; i < batch->count; ++i) {
        ++seen[batch->indices[i]];
        total += j->sizes[batch->indices[i]];
    }
    EXPECT(total == *batch->total);
}

/* An epoch: all ranks agree on steps and buckets, and each sample comes once. */
static void walk_shards(job *jobs, uint64_t world_size, uint64_t steps) {
    static int seen[MOST_RANKS][SKEWED];
    memset(seen, 0, sizeof seen);
    struct weights weights = {0};
    uint64_t sum = 0, told = 0;
    for (uint64_t step = 0; step <= steps; ++step) {
        int64_t bucket = -1;
        for (uint64_t r = 0; r < world_size; ++r) {
            sab_batch batch = SAB_BATCH_INIT;
            const sab_status status = sab_next_batch(jobs[r].sampler, &batch);
            EXPECT(status == (step < steps ? SAB_OK : SAB_END));
            if (status != SAB_OK) continue;
            const sab_step said = step_of(jobs[r].sampler);
            if (r == 0 && batch.micro_batch == 0) {
                EXPECT(sum == told); /* of the step before */
                sum = 0;
            }
            sum += batch.count;
            told = said.samples;
            EXPECT(batch.micro_batch == step % jobs[r].options.micro_batches);
            check_shard_batch(&jobs[r], &batch, &said, world_size, seen[r]);
            add_weights(&weights, &batch);
            if (batch.count > 0) {
                EXPECT(bucket == -1 || bucket == batch.bucket);
                bucket = batch.bucket;
            }
        }
    }
    EXPECT(sum == told && have_mean_one(&weights));
    for (uint64_t r = 0; r < world_size; ++r) EXPECT(all_are(seen[r], jobs[r].count, 1));
}

static void shards(void) {
    for (uint64_t world_size = 1; world_size <= MOST_RANKS; ++world_size)
        for (int kind = 0; kind < 3; ++kind) {
            static job jobs[MOST_RANKS];
            memset(jobs, 0, sizeof jobs);
            make_shards(jobs, world_size, kind);
            uint64_t steps = 0;
            EXPECT_OK(sab_sampler_get_batch_count(jobs[0].sampler, &steps));
            walk_shards(jobs, world_size, steps);
            on_all(check_job, jobs, world_size);
            for (uint64_t r = 0; r < world_size; ++r) EXPECT(jobs[r].status == SAB_OK);
            /* A state goes on, with the same shard. */
            struct state state;
            EXPECT_OK(sab_sampler_seek(jobs[0].sampler, steps / 2));
            EXPECT_OK(save_state(jobs[0].sampler, &state));
            EXPECT_OK(sab_sampler_set_epoch(jobs[0].sampler, 3));
            EXPECT_OK(restore_state(jobs[0].sampler, &state));
            EXPECT_FAILS(sab_sampler_set_budget(jobs[0].sampler, 0, 10), SAB_E_UNSUPPORTED, "");
            free_all(jobs, world_size);
        }
}

static void shards_that_break_a_rule(void) {
    const int32_t good[3] = {1, 2, 3}, bad[3] = {1, -2, 3};
    job jobs[3] = {
        {.sizes = good, .count = 3}, {.sizes = bad, .count = 3}, {.sizes = good, .count = 3}};
    for (int i = 0; i < 3; ++i) {
        jobs[i].plan = budget(10);
        jobs[i].options = ranks((uint64_t)i, 3);
    }
    on_all(make_sharded, jobs, 3);
    EXPECT(jobs[0].status == SAB_E_ARGUMENT && strstr(jobs[0].message, "rank 1") != NULL);
    EXPECT(jobs[1].status == SAB_E_ARGUMENT && strstr(jobs[1].message, "sizes[1] = -2") != NULL);
    EXPECT(jobs[2].status == SAB_E_ARGUMENT && strstr(jobs[2].message, "rank 1") != NULL);
    jobs[1].sizes = good;
    SET_BUDGET(jobs[2].plan, 11);
    on_all(make_sharded, jobs, 3);
    for (int i = 0; i < 3; ++i)
        EXPECT(jobs[i].status == SAB_E_MISMATCH && strstr(jobs[i].message, "options") != NULL);
    SET_BUDGET(jobs[2].plan, 10);
    jobs[1].options.seed = 12;
    on_all(make_sharded, jobs, 3);
    for (int i = 0; i < 3; ++i)
        EXPECT(jobs[i].status == SAB_E_MISMATCH && strstr(jobs[i].message, "seed") != NULL);
    jobs[1].options.seed = 0;
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
        EXPECT(jobs[i].status == SAB_E_ARGUMENT && strstr(jobs[i].message, "tail = 1") != NULL);
    job one = {.sizes = good,
               .count = 3,
               .plan = budget(10),
               .options = ranks(0, 1),
               .member = {.fails = 1}};
    on_all(make_sharded, &one, 1);
    EXPECT(one.status == SAB_E_CALLBACK && strstr(one.message, "55") != NULL &&
           one.sampler == NULL);
}

static void samples_that_no_rank_takes_are_listed(void) {
    static const double boundaries[] = {2, 40, 100};
    const int32_t sizes[2][4] = {{3, 50, 1, 60}, {2, 30, 70, 0}};
    const int64_t expected[2][3] = {{2, 1, 3}, {3, 2, -1}}; /* by size */
    const size_t skipped[2] = {3, 2};
    job jobs[2];
    memset(jobs, 0, sizeof jobs);
    for (uint64_t r = 0; r < 2; ++r) {
        jobs[r].sizes = sizes[r];
        jobs[r].count = 4;
        jobs[r].plan = budget(40);
        jobs[r].plan.bucket_rule = SAB_BUCKETS_BOUNDARIES;
        jobs[r].plan.boundaries = boundaries;
        jobs[r].plan.boundary_count = COUNT(boundaries);
        jobs[r].plan.oversize = SAB_OVERSIZE_SKIP;
        jobs[r].options = ranks(r, 2);
    }
    on_all(make_sharded, jobs, 2);
    for (int r = 0; r < 2; ++r) {
        int seen[4] = {0};
        int64_t indices[4] = {-1, -1, -1, -1};
        size_t count = 0;
        EXPECT(jobs[r].status == SAB_OK);
        for (size_t capacity = 0; capacity <= 4; ++capacity) {
            const sab_status status =
                sab_sampler_get_skipped(jobs[r].sampler, indices, capacity, &count);
            const int fits = capacity == 0 || capacity >= count;
            EXPECT(count == skipped[r] && status == (fits ? SAB_OK : SAB_E_ARGUMENT));
            EXPECT(indices[fits && capacity > 0 ? count : 0] == -1);
        }
        EXPECT(memcmp(indices, expected[r], sizeof expected[r]) == 0);
        walk(jobs[r].sampler, seen);
        for (size_t i = 0; i < count; ++i) ++seen[indices[i]];
        EXPECT(all_are(seen, 4, 1));
    }
    free_all(jobs, 2);
}

static void a_state_belongs_to_its_shards(void) {
    const int32_t up[4] = {1, 2, 3, 4}, down[4] = {4, 3, 2, 1};
    struct state state;
    for (int i = 0; i < 2; ++i) {
        job jobs[2] = {{.sizes = up, .count = 4}, {.sizes = i == 0 ? up : down, .count = 4}};
        for (int r = 0; r < 2; ++r) {
            jobs[r].plan = budget(4);
            jobs[r].options = ranks((uint64_t)r, 2);
        }
        on_all(make_sharded, jobs, 2);
        if (i == 0) EXPECT_OK(save_state(jobs[0].sampler, &state));
        for (int r = 0; r < 2 && i == 1; ++r)
            EXPECT_FAILS(restore_state(jobs[r].sampler, &state), SAB_E_MISMATCH, "fingerprint");
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
        sab_sampler_options options = ranks(rank_, 4);                            \
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
    ALL_SAY("rank 2 has seed 8, the others 0");
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
    ALL_SAY("rank 3 has position 2, the others 0");
    free_all(jobs, 4);
    /* A sampler that has no state fails on its rank; the others hear of it. */
    for (uint64_t r = 1; r < 4; ++r) MAKE(r, plan, (void)0);
    static const double boundaries[] = {0, 200};
    sab_plan_options by_boundaries = budget(300);
    by_boundaries.bucket_rule = SAB_BUCKETS_BOUNDARIES;
    by_boundaries.boundaries = boundaries;
    by_boundaries.boundary_count = 2;
    sab_plan *third = plan_with(lengths(500), 500, &by_boundaries);
    EXPECT_OK(sab_bionemo_sampler_new(third, NULL, &jobs[0].sampler));
    on_all(check_job, jobs, 4);
    EXPECT(jobs[0].status == SAB_E_UNSUPPORTED && jobs[1].status == SAB_E_MISMATCH &&
           strstr(jobs[1].message, "rank 0 could not save") != NULL);
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
    /* the greeting of sab_ranks_check() */
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
    const sab_sampler_options options = ranks(0, 2);
    sab_sampler *sampler = NULL;
    for (size_t i = 0; i < COUNT(liars); ++i) {
        liar own = liars[i];
        EXPECT_FAILS(sab_sharded_sampler_new(sizes, &plan, &options, lie, &own, &sampler),
                     SAB_E_MISMATCH,
                     own.lies_in < 3 ? "all_gather: slot 1" : "rank 1 could not make it");
    }
    EXPECT_FAILS(sab_sharded_sampler_new(sizes, &plan, &options, forget, NULL, &sampler),
                 SAB_E_MISMATCH, "all_gather: slot 0 of 2");
    liar honest = {0, -1, 0, 0}, own = {0, 1, 8, 2};
    EXPECT_OK(sab_sharded_sampler_new(sizes, &plan, &options, lie, &honest, &sampler));
    sab_sampler_free(sampler);
    sab_sizes_free(sizes);
    sab_plan *whole = a_plan();
    sampler = rank_of(whole, 0, 2);
    EXPECT_FAILS(sab_ranks_check(sampler, 0, 2, lie, &own), SAB_E_MISMATCH,
                 "all_gather: slot 1 holds rank 2 of 2");
    EXPECT_FAILS(sab_ranks_check(sampler, 0, 2, forget, NULL), SAB_E_MISMATCH,
                 "all_gather: slot 0 of 2");
    sab_sampler_free(sampler);
    sab_plan_free(whole);
}

static void options_that_shards_do_not_use_are_refused(void) {
    const int32_t three[3] = {1, 2, 3};
    sab_sizes *sizes = sizes_of(three, 3);
    sab_plan_options plan = budget(10);
    sab_sampler_options options = ranks(0, 2);
    sab_sampler *sampler = NULL;
    liar honest = {0, -1, 0, 0};
#define REFUSED(words)                                                                    \
    EXPECT_FAILS(sab_sharded_sampler_new(sizes, &plan, &options, lie, &honest, &sampler), \
                 SAB_E_ARGUMENT, words)
    options.costliest_first = 3;
    REFUSED("options.costliest_first = 3: must be 0");
    options = ranks(0, 2);
    options.last_step = SAB_LAST_STEP_DROP;
    REFUSED("options.last_step = 1: must be SAB_LAST_STEP_SPLIT (0)");
    options = ranks(0, 2);
    options.mix_lengths = 1;
    REFUSED("options.mix_lengths = 1: must be 0: only the bucket order has this option");
    options = ranks(0, 2);
    plan.padding_target = 1.5; /* what breaks a rule is named as the parameter of this function */
    REFUSED("plan.padding_target = 1.5");
    plan = budget(2);
    REFUSED("Set plan.oversize to SAB_OVERSIZE_SKIP");
#undef REFUSED
    sab_sizes_free(sizes);
}

int main(void) {
    RUN(the_environment);
    RUN(meshes);
    RUN(shards);
    RUN(shards_that_break_a_rule);
    RUN(samples_that_no_rank_takes_are_listed);
    RUN(a_state_belongs_to_its_shards);
    RUN(ranks_that_disagree);
    RUN(what_no_rank_gave_is_refused);
    RUN(options_that_shards_do_not_use_are_refused);
    return finish();
}
