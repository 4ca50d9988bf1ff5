/* Balanced steps of mixtures. */
#include <math.h>

#include "helpers.h"
#include "one.h"

enum { SOURCES = 3, FIRST = 700, SECOND = 300, THIRD = 500, SAMPLES = FIRST + SECOND + THIRD };
enum { MOST_RANKS = 64 };
static const size_t begins[SOURCES + 1] = {0, FIRST, FIRST + SECOND, SAMPLES};
static const double repeats[SOURCES] = {1, 2.5, 0.3};

/* Many short ones; those of the second source are twice as long. */
static const int32_t *numbers(void) {
    static int32_t made[SAMPLES];
    random_state = 17;
    for (int i = 0; i < SAMPLES; ++i) {
        made[i] = 1 + (int32_t)below(60);
        if (i >= FIRST && i < FIRST + SECOND) made[i] *= 2;
    }
    return made;
}

static sab_sizes *mixture_with(const sab_mixture_options *options) {
    sab_sizes *sources[SOURCES], *mixture = NULL;
    for (int s = 0; s < SOURCES; ++s)
        sources[s] = sizes_of(numbers() + begins[s], begins[s + 1] - begins[s]);
    EXPECT_OK(sab_mixture_new((const sab_sizes *const *)sources, SOURCES, options, &mixture));
    for (int s = 0; s < SOURCES; ++s) sab_sizes_free(sources[s]);
    return mixture;
}

static sab_sizes *mixture_of(const double *times) {
    sab_mixture_options options = SAB_MIXTURE_OPTIONS_INIT;
    options.repeats = times;
    options.repeat_count = SOURCES;
    return mixture_with(&options);
}

static size_t source_of(int64_t index) {
    size_t source = 0;
    while ((size_t)index >= begins[source + 1]) ++source;
    return source;
}

static sab_sampler *sampler_of(const sab_sizes *sizes, double budget,
                               const sab_sampler_options *options) {
    sab_balanced_options balanced = SAB_BALANCED_OPTIONS_INIT;
    SET_BUDGET(balanced, budget);
    sab_sampler *sampler = NULL;
    EXPECT_OK(sab_balanced_sampler_new(sizes, &balanced, options, &sampler));
    return sampler;
}

/* How often each sample appears must be what the mixture says. */
static void expect_counts(const sab_sizes *mixture, uint64_t epoch, const int *seen) {
    uint32_t counts[SAMPLES];
    EXPECT_OK(sab_mixture_get_counts(mixture, epoch, counts, SAMPLES));
    for (int i = 0; i < SAMPLES; ++i) EXPECT(seen[i] == (int)counts[i]);
}

static void counts_are_exact_in_every_epoch(void) {
    sab_sizes *mixture = mixture_of(repeats);
    sab_sampler *samplers[3];
    for (uint64_t r = 0; r < 3; ++r) {
        sab_sampler_options options = ranks(r, 3);
        options.micro_batches = 2;
        options.epoch = 1;
        samplers[r] = sampler_of(mixture, 130, &options);
    }
    int over_epochs[SAMPLES] = {0};
    uint64_t fewest = ~(uint64_t)0, most = 0;
    for (uint64_t epoch = 1; epoch <= 11; ++epoch) {
        int seen[SAMPLES] = {0};
        uint64_t count = 0;
        for (uint64_t r = 0; r < 3; ++r) {
            EXPECT_OK(sab_sampler_begin(samplers[r]));
            EXPECT_OK(sab_sampler_get_batch_count(samplers[r], &count));
            EXPECT(walk(samplers[r], seen) == count);
        }
        expect_counts(mixture, epoch, seen);
        for (int i = 0; i < SAMPLES; ++i) over_epochs[i] += seen[i];
        fewest = count < fewest ? count : fewest;
        most = count > most ? count : most;
    }
    EXPECT(fewest == most); /* though epochs have other samples */
    for (int i = 0; i < SAMPLES; ++i) {
        const double times = 11 * repeats[source_of(i)];
        EXPECT(over_epochs[i] >= floor(times) - 1 && over_epochs[i] <= ceil(times) + 1);
    }
    for (uint64_t r = 0; r < 3; ++r) sab_sampler_free(samplers[r]);
    sab_sizes_free(mixture);
}

/* Walks an epoch on all ranks; gives the largest distance of each source from its due after a step,
 * in sizes of the largest micro-batch, which is returned. */
static double find_deviation(sab_sampler *const *samplers, uint64_t world_size,
                             uint64_t micro_batches, const double *share, double *deviation) {
    double given[SOURCES] = {0}, total = 0, largest = 0;
    memset(deviation, 0, SOURCES * sizeof *deviation);
    uint64_t count = 0;
    EXPECT_OK(sab_sampler_get_batch_count(samplers[0], &count));
    for (uint64_t position = 0; position < count; ++position) {
        for (uint64_t r = 0; r < world_size; ++r) {
            sab_batch batch = SAB_BATCH_INIT;
            EXPECT_OK(sab_sampler_at(samplers[r], position, &batch));
            for (uint64_t i = 0; i < batch.count; ++i)
                given[source_of(batch.indices[i])] += numbers()[batch.indices[i]];
            total += *batch.total;
            largest = fmax(largest, *batch.total);
        }
        if ((position + 1) % micro_batches != 0) continue;
        for (int s = 0; s < SOURCES; ++s)
            deviation[s] = fmax(deviation[s], fabs(given[s] - share[s] * total));
    }
    for (int s = 0; s < SOURCES; ++s) deviation[s] /= largest;
    return largest;
}

/* Within the largest sample, also where that takes nearly a whole micro-batch. */
static void sources_are_near_their_dues_after_every_step(void) {
    const struct {
        uint64_t world_size, micro_batches;
        double budget;
    } cases[] = {{1, 1, 2000}, {4, 1, 2000}, {2, 3, 1200}, {8, 1, 400},
                 {8, 1, 130},  {64, 1, 130}, {8, 4, 130}};
    const double longest = 120; /* of numbers() */
    sab_sizes *mixture = mixture_of(repeats);
    for (size_t c = 0; c < COUNT(cases); ++c)
        for (uint64_t epoch = 0; epoch < 3; ++epoch) {
            sab_sampler *samplers[MOST_RANKS];
            for (uint64_t r = 0; r < cases[c].world_size; ++r) {
                sab_sampler_options options = ranks(r, cases[c].world_size);
                options.micro_batches = cases[c].micro_batches;
                options.epoch = epoch;
                samplers[r] = sampler_of(mixture, cases[c].budget, &options);
            }
            uint32_t counts[SAMPLES];
            EXPECT_OK(sab_mixture_get_counts(mixture, epoch, counts, SAMPLES));
            double share[SOURCES] = {0}, all = 0, deviation[SOURCES];
            for (int i = 0; i < SAMPLES; ++i) {
                share[source_of(i)] += (double)counts[i] * numbers()[i];
                all += (double)counts[i] * numbers()[i];
            }
            for (int s = 0; s < SOURCES; ++s) share[s] /= all;
            const double largest = find_deviation(samplers, cases[c].world_size,
                                                  cases[c].micro_batches, share, deviation);
            sab_mixture_report reports[SOURCES] = {SAB_MIXTURE_REPORT_INIT, SAB_MIXTURE_REPORT_INIT,
                                                   SAB_MIXTURE_REPORT_INIT};
            EXPECT_OK(sab_mixture_get_report(samplers[0], NULL, reports, SOURCES));
            for (int s = 0; s < SOURCES; ++s) {
                EXPECT(deviation[s] * largest <= longest * (1 + 1e-9));
                EXPECT(fabs(reports[s].deviation - deviation[s]) < 1e-9);
                EXPECT(reports[s].padding == 0 && fabs(reports[s].proportion - share[s]) < 1e-12);
            }
            for (uint64_t r = 0; r < cases[c].world_size; ++r) sab_sampler_free(samplers[r]);
        }
    sab_sizes_free(mixture);
}

/* Samples that cost more than a full micro-batch of others still come on all ranks at once. */
static void quadratic_costs_stay_balanced(void) {
    sab_sizes *mixture = mixture_of(repeats);
    const sab_cost_term square = {1, 1, POWERS(2)};
    sab_cost *cost = NULL;
    EXPECT_OK(sab_cost_terms_new(&square, 1, &cost));
    const sab_cost *const balance[] = {cost};
    sab_balanced_options balanced = SAB_BALANCED_OPTIONS_INIT;
    SET_BUDGET(balanced, 400);
    balanced.balance = balance;
    balanced.balance_count = 1;
    const sab_sampler_options options = ranks(0, 8);
    sab_sampler *sampler = NULL;
    EXPECT_OK(sab_balanced_sampler_new(mixture, &balanced, &options, &sampler));
    sab_balanced_report report = SAB_BALANCED_REPORT_INIT;
    EXPECT_OK(sab_balanced_sampler_get_report(sampler, NULL, &report));
    EXPECT(report.rank_imbalance[0] < 1.05);
    sab_sampler_free(sampler);
    sab_cost_free(cost);
    sab_sizes_free(mixture);
}

/* Takes `count` batches on each of some ranks from a state, counts samples and gives the state. */
static void go_on(const sab_sizes *mixture, uint64_t world_size, uint64_t micro_batches,
                  double budget, int64_t count, struct state *state, int *seen) {
    for (uint64_t r = 0; r < world_size; ++r) {
        sab_sampler_options options = ranks(r, world_size);
        options.micro_batches = micro_batches;
        sab_sampler *sampler = sampler_of(mixture, budget, &options);
        if (state->size == 0)
            EXPECT_OK(sab_sampler_set_epoch(sampler, 3));
        else
            EXPECT_OK(restore_state(sampler, state));
        sab_batch batch = SAB_BATCH_INIT;
        for (int64_t i = 0; i != count && sab_next_batch(sampler, &batch) == SAB_OK; ++i) {
            EXPECT(batch.epoch == 3);
            for (uint64_t k = 0; k < batch.count; ++k) ++seen[batch.indices[k]];
        }
        if (r + 1 == world_size) EXPECT_OK(save_state(sampler, state));
        sab_sampler_free(sampler);
    }
}

static void a_state_goes_on_with_other_ranks_and_budgets(void) {
    sab_sizes *mixture = mixture_of(repeats);
    for (uint64_t begun = 1; begun <= 5; ++begun)
        for (uint64_t then = 1; then <= 5; then += 2) {
            struct state state = {0, {0}};
            int seen[SAMPLES] = {0};
            go_on(mixture, begun, 2, 400, 6, &state, seen);
            go_on(mixture, then, 1, 300, 3, &state, seen);
            go_on(mixture, begun + 1, 3, 500, 3, &state, seen);
            go_on(mixture, then + 1, 2, 400, -1, &state, seen);
            expect_counts(mixture, 3, seen);
        }
    sab_sizes_free(mixture);
}

static void a_state_brings_its_epoch_back(void) {
    sab_sizes *mixture = mixture_of(repeats);
    sab_sampler_options options = ranks(1, 2);
    options.micro_batches = 3;
    sab_sampler *first = sampler_of(mixture, 400, &options),
                *second = sampler_of(mixture, 400, &options);
    for (uint64_t epoch = 2; epoch < 9; epoch += 3) {
        EXPECT_OK(sab_sampler_set_epoch(first, epoch));
        EXPECT_OK(sab_sampler_seek(first, 4)); /* inside a step */
        struct state state, again;
        EXPECT_OK(save_state(first, &state));
        EXPECT_OK(restore_state(second, &state));
        EXPECT_OK(save_state(second, &again));
        EXPECT(memcmp(&state, &again, sizeof state) == 0);
        sab_batch a = SAB_BATCH_INIT, b = SAB_BATCH_INIT;
        while (sab_next_batch(first, &a) == SAB_OK) {
            EXPECT_OK(sab_next_batch(second, &b));
            EXPECT(a.count == b.count && b.epoch == epoch &&
                   memcmp(a.indices, b.indices, a.count * sizeof *a.indices) == 0);
        }
        EXPECT(sab_next_batch(second, &b) == SAB_END);
    }
    sab_sampler_free(first);
    sab_sampler_free(second);
    sab_sizes_free(mixture);
}

static void states_of_other_mixtures_are_refused(void) {
    const double others[] = {1, 2, 0.3};
    sab_sizes *mixture = mixture_of(repeats), *other = mixture_of(others),
              *plain = sizes_of(numbers(), SAMPLES);
    const sab_sampler_options options = ranks(0, 2);
    sab_sampler *sampler = sampler_of(mixture, 400, &options);
    const sab_sizes *const foreign[] = {other, plain};
    const char *const words[] = {
        "other repeats: source 1 had 2 repeats in epoch 0, this sampler has 2.5",
        "state: was saved without a mixture"};
    for (size_t i = 0; i < COUNT(foreign); ++i) {
        sab_sampler *from = sampler_of(foreign[i], 400, &options);
        struct state state;
        EXPECT_OK(save_state(from, &state));
        EXPECT_FAILS(restore_state(sampler, &state), SAB_E_MISMATCH, words[i]);
        sab_sampler_free(from);
    }
    int seen[SAMPLES] = {0}, both[SAMPLES] = {0};
    walk(sampler, seen); /* as if nothing had been */
    sab_sampler *again = sampler_of(mixture, 400, &options);
    walk(again, both);
    EXPECT(memcmp(seen, both, sizeof seen) == 0);
    sab_sampler_free(sampler);
    sab_sampler_free(again);
    sab_sizes_free(mixture);
    sab_sizes_free(other);
    sab_sizes_free(plain);
}

/* From epoch 4 on the second source appears, whose samples are longer than 60. */
static sab_sizes *scheduled(void) {
    static const double first[SOURCES] = {1, 0, 1}, later[SOURCES] = {0, 0.01, 0};
    static const uint64_t from[] = {4};
    sab_mixture_options options = SAB_MIXTURE_OPTIONS_INIT;
    options.repeats = first;
    options.repeat_count = SOURCES;
    options.schedule_epochs = from;
    options.schedule_repeats = later;
    options.schedule_count = 1;
    return mixture_with(&options);
}

static void samples_too_large_for_a_later_epoch_are_refused_at_once(void) {
    sab_sizes *mixture = scheduled();
    sab_balanced_options balanced = SAB_BALANCED_OPTIONS_INIT;
    SET_BUDGET(balanced, 60);
    sab_sampler *sampler = NULL;
    size_t first = FIRST;
    while (numbers()[first] <= 60) ++first;
    char words[80];
    snprintf(words, sizeof words, "sizes[%zu] = %d: must fit balanced.budgets[0].limit = 60", first,
             (int)numbers()[first]);
    EXPECT_FAILS(sab_balanced_sampler_new(mixture, &balanced, NULL, &sampler), SAB_E_ARGUMENT,
                 words);
    balanced.oversize = SAB_OVERSIZE_SKIP;
    EXPECT_OK(sab_balanced_sampler_new(mixture, &balanced, NULL, &sampler));
    size_t skipped = 1, found = 0, refused = 0;
    int64_t indices[8];
    EXPECT_OK(sab_sampler_get_skipped(sampler, NULL, 0, &skipped));
    EXPECT(skipped == 0);
    for (uint64_t epoch = 4; epoch < 104; ++epoch) { /* 3 samples each */
        struct state before, after;
        EXPECT_OK(save_state(sampler, &before));
        if (sab_sampler_set_epoch(sampler, epoch) != SAB_OK) { /* nothing changes */
            EXPECT(strstr(sab_last_error_message(), "no sample is left") != NULL);
            EXPECT_OK(save_state(sampler, &after));
            EXPECT(memcmp(&before, &after, sizeof after) == 0);
            ++refused;
            continue;
        }
        int seen[SAMPLES] = {0};
        EXPECT_OK(sab_sampler_get_skipped(sampler, indices, 8, &skipped));
        for (size_t i = 0; i < skipped; ++i) {
            EXPECT(source_of(indices[i]) == 1 && numbers()[indices[i]] > 60);
            ++seen[indices[i]];
        }
        found += skipped;
        walk(sampler, seen);
        expect_counts(mixture, epoch, seen);
    }
    EXPECT(found > 20 && refused > 0);
    sab_sampler_free(sampler);
    sab_sizes_free(mixture);
}

static int32_t any_cost(void *ctx, uint64_t count, const double *lengths, const double *totals,
                        size_t columns, double *cost) {
    (void)ctx, (void)count, (void)lengths, (void)columns;
    *cost = totals[0];
    return 0;
}

static void callbacks_are_refused(void) {
    sab_sizes *mixture = mixture_of(repeats);
    sab_cost *cost = new_callback(any_cost, NULL);
    sab_balanced_options balanced = SAB_BALANCED_OPTIONS_INIT;
    sab_sampler *sampler = NULL;
    SET_BUDGET_OF(balanced, cost, 400);
    EXPECT_FAILS(sab_balanced_sampler_new(mixture, &balanced, NULL, &sampler), SAB_E_ARGUMENT,
                 "balanced.budgets[0].cost: is a callback: the samples of a mixture are weighed");
    const sab_cost *const balance[] = {cost};
    SET_BUDGET(balanced, 400);
    balanced.balance = balance;
    balanced.balance_count = 1;
    EXPECT_FAILS(sab_balanced_sampler_new(mixture, &balanced, NULL, &sampler), SAB_E_ARGUMENT,
                 "balanced.balance[0]: is a callback: the samples of a mixture are weighed");
    sab_cost_free(cost);
    sab_sizes_free(mixture);
}

static void reports_count_the_samples_of_the_epoch(void) {
    sab_sizes *mixture = mixture_of(repeats);
    for (int packed = 0; packed < 2; ++packed)
        for (uint64_t epoch = 0; epoch < 2; ++epoch) {
            sab_sampler_options options = ranks(0, 3);
            options.epoch = epoch;
            options.last_step = SAB_LAST_STEP_DROP;
            sab_packed_options rows = SAB_PACKED_OPTIONS_INIT;
            rows.capacities = one_count(400), rows.capacity_count = 1;
            sab_sampler *sampler = NULL;
            if (packed)
                EXPECT_OK(sab_packed_sampler_new(mixture, &rows, &options, &sampler));
            else
                sampler = sampler_of(mixture, 400, &options);
            sab_balanced_report report = SAB_BALANCED_REPORT_INIT;
            EXPECT_OK(sab_balanced_sampler_get_report(sampler, NULL, &report));
            sab_mixture_report reports[SOURCES] = {SAB_MIXTURE_REPORT_INIT, SAB_MIXTURE_REPORT_INIT,
                                                   SAB_MIXTURE_REPORT_INIT};
            EXPECT_OK(sab_mixture_get_report(sampler, NULL, reports, SOURCES));
            uint64_t samples = 0;
            double total = 0;
            for (int s = 0; s < SOURCES; ++s) {
                samples += reports[s].samples;
                total += reports[s].total;
            }
            EXPECT(report.samples == 700 + 750 + 150 && report.skipped == 0);
            EXPECT(samples + report.dropped == report.samples && report.dropped < 100);
            EXPECT(report.totals[0] == total);
            sab_sampler_free(sampler);
        }
    sab_sizes_free(mixture);
}

/* Sizes of two columns, under a budget of each. */
static void columns_can_be_mixed(void) {
    sab_sizes *parts[2] = {sizes_of(numbers(), SAMPLES), sizes_of(numbers(), SAMPLES)};
    sab_sizes *columns = NULL, *mixture = NULL;
    EXPECT_OK(sab_sizes_columns_new((const sab_sizes *const *)parts, NULL, 2, &columns));
    int64_t ids[SAMPLES];
    for (int i = 0; i < SAMPLES; ++i) ids[i] = (int64_t)source_of(i);
    sab_mixture_options options = SAB_MIXTURE_OPTIONS_INIT;
    options.repeats = repeats;
    options.repeat_count = SOURCES;
    EXPECT_OK(mixture_by_ids(columns, ids, SAMPLES, &options, &mixture));
    sab_sampler *samplers[2];
    int seen[SAMPLES] = {0};
    for (uint64_t r = 0; r < 2; ++r) {
        const sab_sampler_options of_rank = ranks(r, 2);
        samplers[r] = sampler_of(mixture, 3000, &of_rank);
        EXPECT_OK(sab_sampler_set_epoch(samplers[r], 1));
        walk(samplers[r], seen);
    }
    expect_counts(mixture, 1, seen);
    sab_mixture_report reports[SOURCES] = {SAB_MIXTURE_REPORT_INIT, SAB_MIXTURE_REPORT_INIT,
                                           SAB_MIXTURE_REPORT_INIT};
    EXPECT_OK(sab_mixture_get_report(samplers[0], NULL, reports, SOURCES));
    for (int s = 0; s < SOURCES; ++s) EXPECT(reports[s].deviation < 0.2);
    for (uint64_t r = 0; r < 2; ++r) sab_sampler_free(samplers[r]);
    for (int i = 0; i < 2; ++i) sab_sizes_free(parts[i]);
    sab_sizes_free(columns);
    sab_sizes_free(mixture);
}

int main(void) {
    RUN(counts_are_exact_in_every_epoch);
    RUN(sources_are_near_their_dues_after_every_step);
    RUN(quadratic_costs_stay_balanced);
    RUN(a_state_goes_on_with_other_ranks_and_budgets);
    RUN(a_state_brings_its_epoch_back);
    RUN(states_of_other_mixtures_are_refused);
    RUN(samples_too_large_for_a_later_epoch_are_refused_at_once);
    RUN(callbacks_are_refused);
    RUN(reports_count_the_samples_of_the_epoch);
    RUN(columns_can_be_mixed);
    return finish();
}
