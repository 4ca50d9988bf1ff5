/* Mixtures whose samples are spread over the ranks. */
#define _GNU_SOURCE
#include "gather.h"
#include "one.h"

#include <math.h>
#include <stdlib.h>

enum { SAMPLES = 1400, SOURCES = 3, LIMIT = 900 };

static const double repeats[SOURCES] = {1, 0.5, 2.5};
static int32_t sizes[SAMPLES];
static int64_t ids[SAMPLES];

/* The samples of the shards, one shard after the other. Sources have other sizes, and other shares
 * of each shard. */
static void make_samples(void) {
    random_state = 5;
    for (size_t i = 0; i < SAMPLES; ++i) {
        ids[i] = i % 16 < 3 ? (int64_t)(i % 16) : (int64_t)below(i < SAMPLES / 3 ? 2 : SOURCES);
        sizes[i] = 1 + (int32_t)below(40) + 40 * (int32_t)ids[i];
    }
}

static sab_mixture_options mixture_of(const double *given) {
    sab_mixture_options options = SAB_MIXTURE_OPTIONS_INIT;
    options.repeats = given;
    options.repeat_count = SOURCES;
    options.seed = 3;
    return options;
}

static size_t first_of(uint64_t rank, uint64_t world_size) {
    return rank == world_size ? SAMPLES : (size_t)(rank * rank * SAMPLES / world_size / world_size);
}

static void set_shards(job *jobs, uint64_t world_size) {
    memset(jobs, 0, world_size * sizeof *jobs);
    for (uint64_t r = 0; r < world_size; ++r) {
        job *const j = &jobs[r];
        const size_t first = r == 0 ? 0 : first_of(r, world_size) + 16;
        const size_t end = r + 1 == world_size ? SAMPLES : first_of(r + 1, world_size) + 16;
        j->sizes = sizes + first;
        j->ids = ids + first;
        j->count = end - first;
        j->plan = budget(LIMIT);
        j->mixture = mixture_of(repeats);
        j->options = ranks(r, world_size);
    }
}

static void make_all(job *jobs, uint64_t world_size) {
    on_all(make_sharded, jobs, world_size);
    for (uint64_t r = 0; r < world_size; ++r) {
        EXPECT(jobs[r].status == SAB_OK);
        if (jobs[r].status != SAB_OK) fprintf(stderr, "rank %d: %s\n", (int)r, jobs[r].message);
    }
}

static void all_fail(job *jobs, uint64_t world_size, sab_status status, const char *words) {
    on_all(make_sharded, jobs, world_size);
    for (uint64_t r = 0; r < world_size; ++r) {
        const int as_expected = jobs[r].status == status && strstr(jobs[r].message, words) != NULL;
        EXPECT(as_expected);
        if (!as_expected)
            fprintf(stderr, "rank %d: status %d: %s\n", (int)r, jobs[r].status, jobs[r].message);
    }
    free_all(jobs, world_size);
}

/* The mixture of the samples of all shards. */
static sab_sizes *whole_mixture(const sab_mixture_options *options) {
    sab_sizes *plain = sizes_of(sizes, SAMPLES), *mixture = NULL;
    EXPECT_OK(mixture_by_ids(plain, ids, SAMPLES, options, &mixture));
    sab_sizes_free(plain);
    return mixture;
}

/* An epoch of all ranks: adds how often each sample comes; gives the number of micro-batches. */
static uint64_t walk_all(job *jobs, uint64_t world_size, uint32_t *seen) {
    uint64_t steps = 0, told = 0;
    for (sab_status status = SAB_OK; status == SAB_OK;) {
        for (uint64_t r = 0; r < world_size; ++r) {
            sab_batch batch = SAB_BATCH_INIT;
            const sab_status own = sab_next_batch(jobs[r].sampler, &batch);
            if (r == 0) status = own;
            EXPECT(own == status);
            if (own != SAB_OK) continue;
            EXPECT(padded_total(&batch) <= LIMIT);
            EXPECT(batch.micro_batch == steps % jobs[r].options.micro_batches);
            double total = 0;
            for (uint64_t i = 0; i < batch.count; ++i) {
                ++seen[jobs[r].sizes - sizes + batch.indices[i]];
                total += jobs[r].sizes[batch.indices[i]];
            }
            EXPECT(total == *batch.total);
            if (jobs[r].plan.separate_by != NULL)
                for (uint64_t i = 0; i < batch.count; ++i)
                    EXPECT(jobs[r].ids[batch.indices[i]] == batch.id);
            if (r == 0 && batch.micro_batch == 0) told += step_of(jobs[r].sampler).samples;
        }
        steps += status == SAB_OK;
    }
    uint64_t sum = 0;
    for (size_t i = 0; i < SAMPLES; ++i) sum += seen[i];
    EXPECT(told == sum);
    return steps;
}

/* Over all ranks an epoch has the samples that the mixture of all shards has. */
static void counts_are_exact_and_steps_equal(void) {
    sab_mixture_options options = mixture_of(repeats);
    sab_sizes *const whole = whole_mixture(&options);
    for (uint64_t world_size = 1; world_size <= MOST_RANKS; ++world_size) {
        job jobs[MOST_RANKS];
        set_shards(jobs, world_size);
        for (uint64_t r = 0; r < world_size; ++r)
            jobs[r].options.micro_batches = 1 + world_size % 3;
        make_all(jobs, world_size);
        static uint32_t times[SAMPLES];
        memset(times, 0, sizeof times);
        for (uint64_t epoch = 0; epoch < 5; ++epoch) {
            uint32_t seen[SAMPLES] = {0}, expected[SAMPLES], most[SOURCES] = {0},
                     least[SOURCES] = {99, 99, 99};
            uint64_t count = 0;
            for (uint64_t r = 0; r < world_size; ++r)
                EXPECT_OK(sab_sampler_set_epoch(jobs[r].sampler, epoch));
            EXPECT_OK(sab_sampler_get_batch_count(jobs[0].sampler, &count));
            EXPECT(walk_all(jobs, world_size, seen) == count);
            EXPECT_OK(sab_mixture_get_counts(whole, epoch, expected, SAMPLES));
            EXPECT(memcmp(seen, expected, sizeof seen) == 0);
            for (size_t i = 0; i < SAMPLES; ++i) {
                times[i] += seen[i];
                most[ids[i]] = times[i] > most[ids[i]] ? times[i] : most[ids[i]];
                least[ids[i]] = times[i] < least[ids[i]] ? times[i] : least[ids[i]];
            }
            for (int s = 0; s < SOURCES; ++s) EXPECT(most[s] - least[s] <= 1);
        }
        free_all(jobs, world_size);
    }
    sab_sizes_free(whole);
}

/* The sizes of a source in batches over all ranks, and what is due to it. */
typedef struct deviations {
    double given[SOURCES], total, unit, largest[SOURCES], share[SOURCES];
} deviations;

static void measure(job *jobs, uint64_t world_size, deviations *d, int is_second) {
    uint64_t count = 0;
    EXPECT_OK(sab_sampler_get_batch_count(jobs[0].sampler, &count));
    memset(d->given, 0, sizeof d->given);
    d->total = 0;
    for (uint64_t step = 0; step < count; ++step) {
        for (uint64_t r = 0; r < world_size; ++r) {
            sab_batch batch = SAB_BATCH_INIT;
            EXPECT_OK(sab_sampler_at(jobs[r].sampler, step, &batch));
            for (uint64_t i = 0; i < batch.count; ++i)
                d->given[jobs[r].ids[batch.indices[i]]] += jobs[r].sizes[batch.indices[i]];
            d->total += *batch.total;
            d->unit = *batch.total > d->unit ? *batch.total : d->unit;
        }
        for (int s = 0; is_second && s < SOURCES; ++s) {
            const double away = fabs(d->given[s] - d->share[s] * d->total) / d->unit;
            d->largest[s] = away > d->largest[s] ? away : d->largest[s];
        }
    }
    for (int s = 0; s < SOURCES; ++s) d->share[s] = d->given[s] / d->total;
}

static void the_report_has_all_ranks(void) {
    for (uint64_t world_size = 1; world_size <= MOST_RANKS; ++world_size) {
        job jobs[MOST_RANKS];
        set_shards(jobs, world_size);
        make_all(jobs, world_size);
        for (uint64_t r = 0; r < world_size; ++r)
            EXPECT_OK(sab_sampler_set_epoch(jobs[r].sampler, 1));
        deviations d = {.unit = 0};
        measure(jobs, world_size, &d, 0);
        measure(jobs, world_size, &d, 1);
        for (uint64_t r = 0; r < world_size; ++r) {
            sab_mixture_report reports[SOURCES] = {SAB_MIXTURE_REPORT_INIT, SAB_MIXTURE_REPORT_INIT,
                                                   SAB_MIXTURE_REPORT_INIT};
            EXPECT_OK(sab_mixture_get_report(jobs[r].sampler, NULL, reports, SOURCES));
            for (int s = 0; s < SOURCES; ++s) {
                uint64_t count = 0;
                for (size_t i = 0; i < SAMPLES; ++i) count += ids[i] == s;
                EXPECT(reports[s].samples == (uint64_t)nearbyint((double)count * repeats[s]));
                EXPECT(reports[s].total == d.given[s]);
                EXPECT(reports[s].padded_total >= d.given[s]);
                EXPECT(fabs(reports[s].deviation - d.largest[s]) < 1e-9);
                EXPECT(reports[s].deviation < 1);
            }
        }
        free_all(jobs, world_size);
    }
}

/* Ranks without any sample, and without any of a source. */
static void shards_may_lack_sources(void) {
    static const int64_t all[SOURCES] = {0, 1, 2};
    sab_mixture_options options = mixture_of(repeats);
    sab_sizes *const whole = whole_mixture(&options);
    for (int is_apart = 0; is_apart < 2; ++is_apart) {
        job jobs[MOST_RANKS];
        set_shards(jobs, 4);
        size_t first = 0;
        for (int r = 0; r < 4; ++r) { /* rank 1 has none; the first third has no source 2 */
            const size_t end = r == 0 || r == 1 ? SAMPLES / 4 : r == 2 ? SAMPLES / 2 : SAMPLES;
            jobs[r].sizes = sizes + first;
            jobs[r].ids = ids + first;
            jobs[r].count = end - first;
            jobs[r].mixture.all_sources = all;
            jobs[r].mixture.all_source_count = SOURCES;
            if (is_apart) {
                jobs[r].plan.separate_by = jobs[r].ids;
                jobs[r].plan.separate_by_count = jobs[r].count;
            }
            first = end;
        }
        make_all(jobs, 4);
        for (uint64_t epoch = 0; epoch < 3; ++epoch) {
            uint32_t seen[SAMPLES] = {0}, expected[SAMPLES];
            for (int r = 0; r < 4; ++r) EXPECT_OK(sab_sampler_set_epoch(jobs[r].sampler, epoch));
            walk_all(jobs, 4, seen);
            EXPECT_OK(sab_mixture_get_counts(whole, epoch, expected, SAMPLES));
            EXPECT(memcmp(seen, expected, sizeof seen) == 0);
        }
        free_all(jobs, 4);
    }
    sab_sizes_free(whole);
}

static void a_mixture_of_one_shard_has_no_epochs(void) {
    static const int64_t all[SOURCES] = {0, 1, 7}, unordered[2] = {1, 1}, negative[1] = {-1};
    const int32_t few[2] = {4, 5};
    const int64_t of[2] = {0, 7};
    sab_sizes *plain = sizes_of(few, 2), *none = sizes_of(few, 0), *mixture = NULL, *other = NULL;
    sab_mixture_options options = mixture_of(repeats);
    options.all_sources = all;
    options.all_source_count = SOURCES;
    EXPECT_OK(mixture_by_ids(plain, of, 2, &options, &mixture));
    EXPECT(info_of_sizes(mixture).sources == SOURCES);
    sab_mixture_source source = SAB_MIXTURE_SOURCE_INIT;
    EXPECT_OK(sab_mixture_get_source(mixture, 2, 0, &source));
    EXPECT(source.id == 7 && source.samples == 1 && source.repeat == 0);
    EXPECT_OK(sab_mixture_get_source(mixture, 1, 0, &source));
    EXPECT(source.id == 1 && source.samples == 0 && source.epoch_samples == 0);
    uint32_t counts[2];
    const char *const words = "sizes: are a mixture of one shard, with all_sources";
    EXPECT_FAILS(sab_mixture_get_counts(mixture, 0, counts, 2), SAB_E_ARGUMENT, words);
    const sab_plan_options plan_options = budget(LIMIT);
    sab_plan *plan = NULL;
    EXPECT_FAILS(sab_plan_new(mixture, &plan_options, &plan), SAB_E_ARGUMENT, words);
    sab_packed_options packed = SAB_PACKED_OPTIONS_INIT;
    packed.capacities = one_count(10), packed.capacity_count = 1;
    sab_sampler *sampler = NULL;
    EXPECT_FAILS(sab_packed_sampler_new(mixture, &packed, NULL, &sampler), SAB_E_ARGUMENT, words);
    sab_balanced_options balanced = SAB_BALANCED_OPTIONS_INIT;
    balanced.samples = 1;
    EXPECT_FAILS(sab_balanced_sampler_new(mixture, &balanced, NULL, &sampler), SAB_E_ARGUMENT,
                 words);
    sab_sizes_free(mixture);
    /* The sources one after the other. */
    const sab_sizes *const parts[SOURCES] = {plain, none, none};
    EXPECT_OK(sab_mixture_new(parts, SOURCES, &options, &mixture));
    EXPECT_OK(sab_mixture_get_source(mixture, 2, 0, &source));
    EXPECT(source.id == 7 && source.samples == 0);
    EXPECT_FAILS(sab_mixture_new(parts, 2, &options, &other), SAB_E_ARGUMENT,
                 "options.all_source_count = 3: must be the number of sources, 2");
    options.repeats = NULL, options.repeat_count = 0;
    options.all_source_count = 2;
    EXPECT_FAILS(mixture_by_ids(plain, of, 2, &options, &other), SAB_E_ARGUMENT,
                 "options.ids[1] = 7: must be one of options.all_sources");
    options.all_sources = unordered;
    EXPECT_FAILS(mixture_by_ids(plain, of, 2, &options, &other), SAB_E_ARGUMENT,
                 "options.all_sources[1] = 1: must be at least 0, and above the one before");
    options.all_sources = negative;
    options.all_source_count = 1;
    EXPECT_FAILS(mixture_by_ids(plain, of, 2, &options, &other), SAB_E_ARGUMENT,
                 "options.all_sources[0] = -1");
    options.all_sources = NULL;
    EXPECT_FAILS(mixture_by_ids(plain, of, 2, &options, &other), SAB_E_ARGUMENT,
                 "options.all_sources = NULL: must be given");
    options.all_source_count = 65536;
    options.all_sources = all;
    EXPECT_FAILS(mixture_by_ids(plain, of, 2, &options, &other), SAB_E_ARGUMENT,
                 "options.all_source_count = 65536: must be at most 65535");
    sab_sizes_free(mixture);
    sab_sizes_free(none);
    sab_sizes_free(plain);
}

/* A source that no rank has, and ids that are not those of sources. */
static void sources_of_all_shards_need_samples(void) {
    static const int64_t all[4] = {0, 1, 2, 9}, apart[SAMPLES] = {1};
    job jobs[3];
    set_shards(jobs, 3);
    for (int r = 0; r < 3; ++r) {
        jobs[r].mixture.repeats = NULL, jobs[r].mixture.repeat_count = 0;
        jobs[r].mixture.all_sources = all;
        jobs[r].mixture.all_source_count = 4;
    }
    all_fail(jobs, 3, SAB_E_ARGUMENT, "sizes: source 9 has no sample on any rank");
    set_shards(jobs, 3);
    for (int r = 0; r < 3; ++r) {
        jobs[r].plan.separate_by = apart;
        jobs[r].plan.separate_by_count = jobs[r].count;
    }
    all_fail(jobs, 3, SAB_E_ARGUMENT, "must be the id of the sample's source");
    set_shards(jobs, 3);
    for (int r = 0; r < 3; ++r) jobs[r].plan.separate_by_count = jobs[r].count;
    all_fail(jobs, 3, SAB_E_ARGUMENT, "plan.separate_by = NULL: must be given");
    set_shards(jobs, 3);
    jobs[1].plan.separate_by = jobs[1].ids; /* on one rank only */
    jobs[1].plan.separate_by_count = jobs[1].count;
    all_fail(jobs, 3, SAB_E_MISMATCH, "are not the same on ranks");
}

static void a_state_goes_on_at_an_odd_step(void) {
    const uint64_t world_size = 3;
    job jobs[MOST_RANKS], others[MOST_RANKS];
    set_shards(jobs, world_size);
    set_shards(others, world_size);
    make_all(jobs, world_size);
    make_all(others, world_size);
    for (uint64_t r = 0; r < world_size; ++r) {
        struct state state, again;
        sab_batch batch = SAB_BATCH_INIT, other = SAB_BATCH_INIT;
        EXPECT_OK(sab_sampler_set_epoch(jobs[r].sampler, 2));
        for (int i = 0; i < 7; ++i) EXPECT_OK(sab_next_batch(jobs[r].sampler, &batch));
        EXPECT_OK(save_state(jobs[r].sampler, &state));
        EXPECT_OK(restore_state(others[r].sampler, &state));
        EXPECT_OK(save_state(others[r].sampler, &again));
        EXPECT(again.size == state.size && memcmp(again.bytes, state.bytes, state.size) == 0);
        sab_status status;
        while ((status = sab_next_batch(jobs[r].sampler, &batch)) == SAB_OK) {
            EXPECT_OK(sab_next_batch(others[r].sampler, &other));
            EXPECT(other.count == batch.count && other.step == batch.step);
            EXPECT(batch.count == 0 || memcmp(other.indices, batch.indices, batch.count * 8) == 0);
        }
        EXPECT(status == SAB_END && sab_next_batch(others[r].sampler, &other) == SAB_END);
        EXPECT(batch.epoch == 2);
    }
    /* Not in a mixture with other repeats. */
    struct state state;
    const double other_repeats[SOURCES] = {1, 0.5, 2};
    EXPECT_OK(save_state(jobs[0].sampler, &state));
    free_all(others, world_size);
    for (uint64_t r = 0; r < world_size; ++r) others[r].mixture = mixture_of(other_repeats);
    make_all(others, world_size);
    EXPECT_FAILS(restore_state(others[0].sampler, &state), SAB_E_MISMATCH,
                 "other repeats: source 2 had 2.5 repeats in epoch 2, this sampler has 2");
    free_all(jobs, world_size);
    free_all(others, world_size);
}

static void ranks_with_other_mixtures_are_refused(void) {
    const double other[SOURCES] = {1, 0.5, 2};
    static const char *const names[SOURCES] = {"a", "b", "c"};
    const char *const words = "schedule and seed) are not the same on ranks";
    job jobs[3];
    set_shards(jobs, 3);
    jobs[1].mixture.repeats = other;
    all_fail(jobs, 3, SAB_E_MISMATCH, words);
    EXPECT(strstr(jobs[0].message, "on ranks 0 and 1") != NULL);
    EXPECT(strstr(jobs[1].message, "on ranks 1 and 0") != NULL);
    set_shards(jobs, 3);
    jobs[2].mixture.seed = 4;
    all_fail(jobs, 3, SAB_E_MISMATCH, words);
    set_shards(jobs, 3);
    jobs[2].mixture.names = names;
    jobs[2].mixture.name_count = SOURCES;
    all_fail(jobs, 3, SAB_E_MISMATCH, words);
    set_shards(jobs, 3);
    const uint64_t epochs[1] = {2};
    jobs[0].mixture.schedule_epochs = epochs;
    jobs[0].mixture.schedule_repeats = other;
    jobs[0].mixture.schedule_count = 1;
    all_fail(jobs, 3, SAB_E_MISMATCH, words);
    set_shards(jobs, 3);
    jobs[0].ids = NULL; /* no mixture */
    all_fail(jobs, 3, SAB_E_MISMATCH, words);
    set_shards(jobs, 3);
    int64_t renamed[SAMPLES]; /* the same number of sources, with other ids */
    for (size_t i = 0; i < jobs[1].count; ++i) renamed[i] = jobs[1].ids[i] + 1;
    jobs[1].ids = renamed;
    all_fail(jobs, 3, SAB_E_MISMATCH, words);
}

/* Shares are those of the samples of all shards, not of each. */
static void proportions_and_schedules_hold_over_all_shards(void) {
    const double shares[SOURCES] = {1, 2, 1};
    const uint64_t epochs[1] = {3};
    sab_mixture_options options = SAB_MIXTURE_OPTIONS_INIT;
    options.schedule_epochs = epochs;
    options.schedule_repeats = repeats;
    options.schedule_count = 1;
    for (int kind = 0; kind < 2; ++kind) {
        options.proportions = kind == 0 ? shares : NULL;
        options.proportion_count = kind == 0 ? SOURCES : 0;
        options.temperature = kind == 0 ? 0 : 2;
        options.unit = SAB_MIXTURE_SIZE;
        sab_sizes *const whole = whole_mixture(&options);
        job jobs[MOST_RANKS];
        set_shards(jobs, 4);
        for (int r = 0; r < 4; ++r) jobs[r].mixture = options;
        make_all(jobs, 4);
        for (uint64_t epoch = 1; epoch < 4; epoch += 2) {
            uint32_t seen[SAMPLES] = {0}, expected[SAMPLES];
            for (uint64_t r = 0; r < 4; ++r)
                EXPECT_OK(sab_sampler_set_epoch(jobs[r].sampler, epoch));
            walk_all(jobs, 4, seen);
            EXPECT_OK(sab_mixture_get_counts(whole, epoch, expected, SAMPLES));
            EXPECT(memcmp(seen, expected, sizeof seen) == 0);
        }
        free_all(jobs, 4);
        sab_sizes_free(whole);
    }
}

static int32_t any_cost(void *ctx, uint64_t count, const double *each, const double *totals,
                        size_t columns, double *cost) {
    (void)ctx;
    (void)totals;
    (void)columns;
    *cost = (double)count * *each;
    return 0;
}

static void rules_of_one_rank_are_those_of_all(void) {
    job jobs[3];
    /* A sample of a source that only later epochs take. */
    const double none[SOURCES] = {1, 1, 0};
    const uint64_t epochs[1] = {4};
    set_shards(jobs, 3);
    for (int r = 0; r < 3; ++r) {
        jobs[r].mixture = mixture_of(none);
        SET_BUDGET(jobs[r].plan, 90);
    }
    make_all(jobs, 3);
    free_all(jobs, 3);
    for (int r = 0; r < 3; ++r) {
        jobs[r].mixture.schedule_epochs = epochs;
        jobs[r].mixture.schedule_repeats = repeats;
        jobs[r].mixture.schedule_count = 1;
    }
    all_fail(jobs, 3, SAB_E_ARGUMENT, "budget");
    /* A rank fails before it tells of its samples. */
    set_shards(jobs, 3);
    jobs[1].plan.tail = SAB_TAIL_DROP;
    all_fail(jobs, 3, SAB_E_ARGUMENT, "");
    EXPECT(strstr(jobs[0].message, "rank 1 failed with SAB_E_ARGUMENT") != NULL);
    /* Callbacks are not kept. */
    set_shards(jobs, 3);
    sab_cost *cost = NULL;
    EXPECT_OK(sab_cost_callback_new(any_cost, NULL, NULL, &cost));
    const sab_budget by_callback = {cost, LIMIT};
    for (int r = 0; r < 3; ++r) {
        jobs[r].plan.budgets = &by_callback;
        jobs[r].plan.budget_count = 1;
    }
    all_fail(jobs, 3, SAB_E_ARGUMENT, "must have costs of terms");
    sab_cost_free(cost);
}

/* Says of rank 1 what rank 0 says of itself, but for 2 bytes of its samples. */
typedef struct liar {
    int round;
    size_t at; /* from the end of what rank 1 gave */
    uint16_t lie;
} liar;

static int32_t lie(void *ctx, const void *mine, size_t size, void *all) {
    liar *const own = ctx;
    memcpy(all, mine, size);
    memcpy((char *)all + size, mine, size);
    if (++own->round == 5 && own->at > 0) memcpy((char *)all + 2 * size - own->at, &own->lie, 2);
    return 0;
}

static void what_no_rank_gave_is_refused(void) {
    const liar liars[] = {{0, 2, 3}, {0, 2, 65535}, {0, 4, 1}, {0, 6, 3}, {0, 6, 0}, {0, 0, 0}};
    const int32_t few[4] = {1, 2, 3, 3};
    const int64_t of[4] = {0, 1, 2, 2};
    sab_sizes *plain = sizes_of(few, 4), *mixture = NULL;
    EXPECT_OK(mixture_by_ids(plain, of, 4, NULL, &mixture));
    const sab_plan_options plan = budget(10);
    const sab_sampler_options options = ranks(0, 2);
    sab_sampler *sampler = NULL;
    for (size_t i = 0; i < COUNT(liars); ++i) {
        liar own = liars[i];
        if (own.at > 0)
            EXPECT_FAILS(sab_sharded_sampler_new(mixture, &plan, &options, lie, &own, &sampler),
                         SAB_E_MISMATCH, "all_gather: slot 1 holds a sample of source");
        else
            EXPECT_OK(sab_sharded_sampler_new(mixture, &plan, &options, lie, &own, &sampler));
        EXPECT(own.round == 6);
    }
    sab_sampler_free(sampler);
    sab_sizes_free(mixture);
    sab_sizes_free(plain);
}

int main(void) {
    make_samples();
    RUN(counts_are_exact_and_steps_equal);
    RUN(the_report_has_all_ranks);
    RUN(shards_may_lack_sources);
    RUN(a_mixture_of_one_shard_has_no_epochs);
    RUN(sources_of_all_shards_need_samples);
    RUN(a_state_goes_on_at_an_odd_step);
    RUN(ranks_with_other_mixtures_are_refused);
    RUN(proportions_and_schedules_hold_over_all_shards);
    RUN(rules_of_one_rank_are_those_of_all);
    RUN(what_no_rank_gave_is_refused);
    return finish();
}
