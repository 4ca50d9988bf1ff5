/* Steps that are random samples, in padded micro-batches; as many steps in every epoch. */
#include <math.h>
#include <stdlib.h>

#include "helpers.h"
#include "one.h"

enum { MOST = 3000, MOST_RANKS = 8 };

/* How a data set is divided. */
struct division {
    sab_balanced_options balanced;
    size_t count;
    const int32_t *sizes;
    uint64_t world_size, micro_batches;
    sab_last_step last_step;
};

static struct division of_sizes(const int32_t *sizes, size_t count, uint64_t world_size,
                                uint64_t micro_batches) {
    struct division made;
    memset(&made, 0, sizeof made);
    made.balanced = (sab_balanced_options)SAB_BALANCED_OPTIONS_INIT;
    made.balanced.padded = 1;
    made.count = count;
    made.sizes = sizes;
    made.world_size = world_size;
    made.micro_batches = micro_batches;
    return made;
}

static sab_status try_rank(const struct division *given, uint64_t rank, sab_sampler **sampler) {
    sab_sampler_options options = ranks(rank, given->world_size);
    options.micro_batches = given->micro_batches;
    options.last_step = given->last_step;
    options.seed = 5;
    sab_sizes *sizes = sizes_of(given->sizes, given->count);
    const sab_status status = sab_balanced_sampler_new(sizes, &given->balanced, &options, sampler);
    sab_sizes_free(sizes);
    return status;
}

static sab_sampler *rank_with(const struct division *given, uint64_t rank) {
    sab_sampler *sampler = NULL;
    EXPECT_OK(try_rank(given, rank, &sampler));
    return sampler;
}

static uint64_t batches_of(const sab_sampler *sampler) {
    uint64_t count = 0;
    EXPECT_OK(sab_sampler_get_batch_count(sampler, &count));
    return count;
}

/* Many short, few long; some of no size. */
static const int32_t *random_sizes(size_t count, int kind) {
    static int32_t made[MOST];
    for (size_t i = 0; i < count; ++i)
        made[i] = kind == 0   ? 7
                  : kind == 1 ? (int32_t)below(20)
                  : kind == 2 ? 1 + (int32_t)below(1 + below(1 + below(200)))
                              : (below(20) == 0 ? 150 : 1 + (int32_t)below(30));
    return made;
}

static int32_t longest_of(const int32_t *sizes, size_t count) {
    int32_t longest = 1;
    for (size_t i = 0; i < count; ++i) longest = sizes[i] > longest ? sizes[i] : longest;
    return longest;
}

/* Walks an epoch on all ranks: batches are padded and within the budgets, the costliest of a rank
 * come first. Fills how often each sample was seen and how many each step has. */
static uint64_t check_epoch(const struct division *given, uint64_t epoch, int *seen,
                            uint64_t *step_counts) {
    uint64_t count = 0;
    for (uint64_t r = 0; r < given->world_size; ++r) {
        sab_sampler *sampler = rank_with(given, r);
        EXPECT_OK(sab_sampler_set_epoch(sampler, epoch));
        EXPECT(r == 0 || batches_of(sampler) == count);
        count = batches_of(sampler);
        EXPECT(count % given->micro_batches == 0);
        double before = 0;
        for (uint64_t k = 0; k < count; ++k) {
            sab_batch batch = SAB_BATCH_INIT;
            EXPECT_OK(sab_next_batch(sampler, &batch));
            double longest = 0, total = 0;
            for (uint64_t i = 0; i < batch.count; ++i) {
                ++seen[batch.indices[i]];
                longest = fmax(longest, given->sizes[batch.indices[i]]);
                total += given->sizes[batch.indices[i]];
            }
            EXPECT(batch.layout == SAB_LAYOUT_PADDED && batch.bucket == -1);
            EXPECT(*batch.longest == longest && *batch.padded_length == longest &&
                   *batch.total == total);
            EXPECT(batch.step == k / given->micro_batches &&
                   batch.micro_batch == k % given->micro_batches);
            const double cost = (double)batch.count * longest;
            for (size_t b = 0; b < given->balanced.budget_count; ++b)
                EXPECT(cost <= given->balanced.budgets[b].limit);
            if (given->balanced.balance_count == 0)
                EXPECT(batch.micro_batch == 0 || cost <= before * (1 + 1e-12));
            before = cost;
            step_counts[batch.step] += batch.count;
            sab_rows rows = SAB_ROWS_INIT;
            EXPECT(sab_sampler_get_rows(sampler, &rows) == SAB_E_UNSUPPORTED);
        }
        sab_batch batch = SAB_BATCH_INIT;
        EXPECT(sab_next_batch(sampler, &batch) == SAB_END);
        sab_sampler_free(sampler);
    }
    return count / given->micro_batches;
}

static void every_sample_comes_once_in_equal_steps_within_the_budget(void) {
    random_state = 3;
    for (int round = 0; round < ROUNDS_OF(160); ++round) {
        const size_t count = 1 + below(round % 4 == 0 ? 12 : round % 4 == 1 ? 200 : 1500);
        const int32_t *sizes = random_sizes(count, round % 5 % 4);
        struct division given = of_sizes(sizes, count, 1 + below(4), 1 + below(4));
        const uint64_t parts = given.world_size * given.micro_batches;
        if (round % 3 != 0) SET_BUDGET(given.balanced, longest_of(sizes, count) * (1 + below(5)));
        if (round % 3 == 0) given.balanced.samples = parts + below(40);
        if (round % 7 == 0) BALANCE_SQUARES(given.balanced);
        const uint64_t epoch = below(3);
        int seen[MOST] = {0};
        uint64_t step_counts[MOST] = {0};
        const uint64_t steps = check_epoch(&given, epoch, seen, step_counts);
        EXPECT(all_are(seen, (int)count, 1));
        for (uint64_t k = 0; k < steps; ++k) {
            if (given.balanced.samples > 0)
                EXPECT(k + 1 == steps || step_counts[k] == given.balanced.samples);
            EXPECT(step_counts[k] >= (k + 1 < steps ? parts : 1));
        }
    }
}

/* Counts differ by no more than what long samples of a step take away. */
static void steps_have_about_equal_counts(void) {
    random_state = 8;
    const int32_t *sizes = random_sizes(MOST, 2);
    struct division given = of_sizes(sizes, MOST, 4, 2);
    SET_BUDGET(given.balanced, 1200);
    int seen[MOST] = {0};
    uint64_t counts[MOST] = {0}, fewest = MOST, most = 0;
    const uint64_t steps = check_epoch(&given, 1, seen, counts);
    for (uint64_t k = 0; k + 1 < steps; ++k) {
        fewest = counts[k] < fewest ? counts[k] : fewest;
        most = counts[k] > most ? counts[k] : most;
    }
    EXPECT(steps > 8 && (double)fewest > 0.8 * (double)most);
}

/* The mean size of the samples of a step is that of random samples: none was moved for its size. */
static void steps_are_random_samples(void) {
    random_state = 21;
    const int32_t *sizes = random_sizes(MOST, 2);
    double mean = 0, square = 0;
    for (int i = 0; i < MOST; ++i) mean += sizes[i] / (double)MOST;
    for (int i = 0; i < MOST; ++i) square += (sizes[i] - mean) * (sizes[i] - mean) / MOST;
    struct division given = of_sizes(sizes, MOST, 1, 8);
    given.balanced.samples = 100;
    sab_sampler *sampler = rank_with(&given, 0);
    double chi = 0;
    for (int k = 0; k < 30; ++k) {
        double sum = 0;
        for (int m = 0; m < 8; ++m) {
            sab_batch batch = SAB_BATCH_INIT;
            EXPECT_OK(sab_next_batch(sampler, &batch));
            sum += *batch.total;
        }
        chi += (sum / 100 - mean) * (sum / 100 - mean) / (square / 100);
    }
    EXPECT(chi > 12 && chi < 56); /* 30 degrees of freedom, 0.1 % on both sides */
    sab_sampler_free(sampler);
}

static void every_epoch_has_the_same_number_of_batches(void) {
    random_state = 4;
    for (int round = 0; round < ROUNDS_OF(60); ++round) {
        const size_t count = 1 + below(round % 3 == 0 ? 30 : 800);
        const int32_t *sizes = random_sizes(count, 1 + round % 3);
        struct division given = of_sizes(sizes, count, 1 + below(3), 1 + below(3));
        given.balanced.padded = round / 3 % 2;
        given.last_step = round / 6 % 2 == 0 ? SAB_LAST_STEP_SPLIT : SAB_LAST_STEP_WRAP;
        if (round % 5 == 0)
            given.balanced.samples = given.world_size * given.micro_batches + below(20);
        if (round % 5 != 0 || given.balanced.padded == 0)
            SET_BUDGET(given.balanced, longest_of(sizes, count) * (1 + below(4)));
        sab_sampler *sampler = rank_with(&given, 0);
        const uint64_t batches = batches_of(sampler);
        EXPECT(batches > 0);
        for (uint64_t epoch = 1; epoch < 20; ++epoch) {
            EXPECT_OK(sab_sampler_set_epoch(sampler, epoch));
            EXPECT(batches_of(sampler) == batches);
        }
        sab_sampler_free(sampler);
    }
}

/* Takes micro-batches on each of some ranks from a state, and gives the next one. */
static void go_on(const struct division *given, int64_t count, struct state *state, int *seen) {
    struct state first;
    for (uint64_t r = 0; r < given->world_size; ++r) {
        sab_sampler *sampler = rank_with(given, r);
        if (state->size != 0)
            EXPECT_OK(restore_state(sampler, state));
        else
            EXPECT_OK(sab_sampler_set_epoch(sampler, 7));
        sab_batch batch = SAB_BATCH_INIT;
        for (int64_t i = 0; i != count && sab_next_batch(sampler, &batch) == SAB_OK; ++i)
            for (uint64_t k = 0; k < batch.count; ++k) ++seen[batch.indices[k]];
        struct state own;
        EXPECT_OK(save_state(sampler, &own));
        if (r == 0) first = own;
        EXPECT(memcmp(&first, &own, sizeof own) == 0);
        sab_sampler_free(sampler);
    }
    *state = first;
}

static void a_state_goes_on_with_other_ranks_budgets_and_rows(void) {
    random_state = 6;
    const int32_t *sizes = random_sizes(1200, 2);
    for (uint64_t begun = 1; begun <= 4; ++begun)
        for (uint64_t then = 1; then <= 5; then += 2) {
            struct division given = of_sizes(sizes, 1200, begun, 2);
            SET_BUDGET(given.balanced, 900);
            struct state state = {0, {0}};
            int seen[MOST] = {0};
            go_on(&given, 4, &state, seen);
            given.world_size = then;
            given.micro_batches = 1;
            SET_BUDGET(given.balanced, 500);
            go_on(&given, 3, &state, seen);
            given.balanced.padded = 0;
            given.micro_batches = 3;
            go_on(&given, 3, &state, seen);
            given.balanced.padded = 1;
            given.micro_batches = 12;
            given.balanced.samples = 60;
            go_on(&given, -1, &state, seen);
            EXPECT(all_are(seen, 1200, 1));
        }
}

/* The batches after a state, also of the rest of an epoch that others began, are those without the
 * interruption. */
static void a_state_goes_on_as_without_it(void) {
    random_state = 9;
    for (int round = 0; round < ROUNDS_OF(40); ++round) {
        const int32_t *sizes = random_sizes(700, 2 + round % 2);
        struct division given = of_sizes(sizes, 700, 2, 1 + below(3));
        given.balanced.padded = round % 4 > 0;
        SET_BUDGET(given.balanced, 400);
        sab_sampler *sampler = rank_with(&given, 1), *other = rank_with(&given, 1);
        EXPECT_OK(sab_sampler_set_epoch(sampler, below(5)));
        if (round % 2 == 1) { /* others began the epoch */
            struct division before = given;
            before.world_size = 3;
            sab_sampler *first = rank_with(&before, 0);
            EXPECT_OK(sab_sampler_set_epoch(first, 6));
            EXPECT_OK(sab_sampler_seek(first, (uint64_t)(round % 8 / 2) * before.micro_batches));
            struct state state;
            EXPECT_OK(save_state(first, &state));
            EXPECT_OK(restore_state(sampler, &state));
            sab_sampler_free(first);
        }
        sab_batch batch = SAB_BATCH_INIT, again = SAB_BATCH_INIT;
        for (uint64_t k = below(12); k > 0; --k) EXPECT_OK(sab_next_batch(sampler, &batch));
        struct state state, once_more;
        EXPECT_OK(save_state(sampler, &state));
        EXPECT_OK(restore_state(other, &state));
        EXPECT_OK(save_state(other, &once_more));
        EXPECT(memcmp(&state, &once_more, sizeof state) == 0);
        EXPECT(batches_of(sampler) == batches_of(other));
        while (sab_next_batch(sampler, &batch) == SAB_OK) {
            EXPECT_OK(sab_next_batch(other, &again));
            EXPECT(batch.count == again.count && batch.step == again.step &&
                   memcmp(batch.indices, again.indices, batch.count * sizeof *batch.indices) == 0);
        }
        EXPECT(sab_next_batch(other, &again) == SAB_END);
        sab_sampler_free(sampler);
        sab_sampler_free(other);
    }
}

static void last_steps(void) {
    random_state = 10;
    const int32_t *sizes = random_sizes(1000, 2);
    for (sab_last_step policy = SAB_LAST_STEP_SPLIT; policy <= SAB_LAST_STEP_WRAP; ++policy) {
        struct division given = of_sizes(sizes, 1000, 2, 4);
        given.balanced.samples = 64;
        given.last_step = policy;
        int seen[MOST] = {0}, sum = 0;
        uint64_t counts[MOST] = {0};
        const uint64_t steps = check_epoch(&given, 0, seen, counts);
        for (int i = 0; i < 1000; ++i) sum += seen[i];
        EXPECT(steps == (policy == SAB_LAST_STEP_DROP ? 15 : 16));
        EXPECT(sum == (policy == SAB_LAST_STEP_SPLIT ? 1000 : (int)steps * 64));
    }
}

static void the_report_counts_padding(void) {
    random_state = 12;
    const int32_t *sizes = random_sizes(MOST, 2);
    struct division given = of_sizes(sizes, MOST, 2, 4);
    SET_BUDGET(given.balanced, 1000);
    sab_sampler *sampler = rank_with(&given, 1);
    sab_balanced_report report = SAB_BALANCED_REPORT_INIT;
    EXPECT_OK(sab_balanced_sampler_get_report(sampler, NULL, &report));
    double padded = 0, total = 0, time = 0;
    for (uint64_t step = 0; step < report.steps; ++step) {
        double ranks_cost[2] = {0, 0};
        for (uint64_t r = 0; r < 2; ++r)
            for (uint64_t m = 0; m < 4; ++m) {
                sab_sampler *rank = NULL;
                static sab_sampler *both[2];
                if (both[r] == NULL) both[r] = rank_with(&given, r);
                rank = both[r];
                sab_batch batch = SAB_BATCH_INIT;
                EXPECT_OK(sab_next_batch(rank, &batch));
                total += *batch.total;
                padded += padded_total(&batch);
                ranks_cost[r] += padded_total(&batch);
                if (step + 1 == report.steps && m == 3) {
                    sab_sampler_free(rank);
                    both[r] = NULL;
                }
            }
        time += fmax(ranks_cost[0], ranks_cost[1]);
    }
    EXPECT(report.totals[0] == total && report.padded_totals[0] == padded);
    EXPECT(fabs(report.time[0] - time) < 1e-6 * time);
    EXPECT(fabs(report.fill - padded / (1000.0 * 8 * (double)report.steps)) < 1e-12);
    EXPECT(padded > total && padded < 1.5 * total);
    EXPECT(report.rank_imbalance[0] < 1.1 && report.micro_batch_imbalance[0] < 1.3);
    sab_sampler_free(sampler);

    given.balanced.padded = 0; /* rows have none */
    sampler = rank_with(&given, 0);
    EXPECT_OK(sab_balanced_sampler_get_report(sampler, NULL, &report));
    EXPECT(report.totals[0] == report.padded_totals[0]);
    sab_sampler_free(sampler);
}

/* A cost of memory with a constant, and a number of samples. */
static void several_budgets_and_costs(void) {
    random_state = 13;
    const int32_t *sizes = random_sizes(MOST, 2);
    const sab_cost_term terms[] = {{500, 0, POWERS(0)}, {2, 1, POWERS(1)}, {0.05, 1, POWERS(2)}},
                        samples[] = {{1, 1, POWERS(0)}};
    sab_cost *memory = NULL, *count = NULL;
    EXPECT_OK(sab_cost_terms_new(terms, COUNT(terms), &memory));
    EXPECT_OK(sab_cost_terms_new(samples, 1, &count));
    const sab_budget budgets[] = {{memory, 6000}, {count, 40}};
    const sab_cost *const balance[] = {memory, count};
    struct division given = of_sizes(sizes, MOST, 2, 3);
    given.balanced.budgets = budgets;
    given.balanced.budget_count = 2;
    for (size_t costs = 0; costs <= 2; costs += 2) {
        given.balanced.balance = costs > 0 ? balance : NULL;
        given.balanced.balance_count = costs;
        for (uint64_t r = 0; r < 2; ++r) {
            sab_sampler *sampler = rank_with(&given, r);
            sab_batch batch = SAB_BATCH_INIT;
            while (sab_next_batch(sampler, &batch) == SAB_OK) {
                const double n = (double)batch.count, length = *batch.padded_length;
                EXPECT(500 + 2 * n * length + 0.05 * n * length * length <= 6000 * (1 + 1e-12));
                EXPECT(batch.count <= 40 && batch.count > 0);
            }
            sab_sampler_free(sampler);
        }
    }
    sab_cost_free(memory);
    sab_cost_free(count);
}

/* Sizes of two columns. */
static void columns_are_padded_each(void) {
    enum { SAMPLES = 900 };
    random_state = 14;
    static int32_t images[SAMPLES], tokens[SAMPLES];
    for (int i = 0; i < SAMPLES; ++i) {
        images[i] = (int32_t)below(4);
        tokens[i] = 1 + (int32_t)below(1 + below(300));
    }
    sab_sizes *parts[2] = {sizes_of(images, SAMPLES), sizes_of(tokens, SAMPLES)}, *sizes = NULL;
    EXPECT_OK(sab_sizes_columns_new((const sab_sizes *const *)parts, NULL, 2, &sizes));
    const double weights[] = {100, 1};
    sab_cost *cost = NULL;
    EXPECT_OK(sab_cost_padded_new(weights, 2, &cost));
    sab_balanced_options balanced = SAB_BALANCED_OPTIONS_INIT;
    balanced.padded = 1;
    SET_BUDGET_OF(balanced, cost, 3000);
    int seen[SAMPLES] = {0};
    uint64_t batches = 0;
    for (uint64_t r = 0; r < 4; ++r) {
        sab_sampler_options options = ranks(r, 4);
        options.micro_batches = 2;
        sab_sampler *sampler = NULL;
        EXPECT_OK(sab_balanced_sampler_new(sizes, &balanced, &options, &sampler));
        EXPECT(r == 0 || batches_of(sampler) == batches);
        batches = batches_of(sampler);
        sab_batch batch = SAB_BATCH_INIT;
        while (sab_next_batch(sampler, &batch) == SAB_OK) {
            double longest[2] = {0, 0};
            for (uint64_t i = 0; i < batch.count; ++i) {
                ++seen[batch.indices[i]];
                longest[0] = fmax(longest[0], images[batch.indices[i]]);
                longest[1] = fmax(longest[1], tokens[batch.indices[i]]);
            }
            EXPECT(batch.columns == 2 && batch.padded_length[0] == longest[0] &&
                   batch.padded_length[1] == longest[1]);
            EXPECT((double)batch.count * (100 * longest[0] + longest[1]) <= 3000);
        }
        EXPECT_OK(sab_sampler_set_epoch(sampler, 1));
        EXPECT(batches_of(sampler) == batches);
        sab_sampler_free(sampler);
    }
    EXPECT(all_are(seen, SAMPLES, 1));
    sab_cost_free(cost);
    for (int i = 0; i < 2; ++i) sab_sizes_free(parts[i]);
    sab_sizes_free(sizes);
}

/* Each source of a mixture is within the largest sample of its due after every step. */
static void sources_of_a_mixture_keep_their_dues(void) {
    enum { FIRST = 700, SECOND = 300 };
    random_state = 15;
    const int32_t *numbers = random_sizes(FIRST + SECOND, 2);
    sab_sizes *sources[2] = {sizes_of(numbers, FIRST), sizes_of(numbers + FIRST, SECOND)},
              *mixture = NULL;
    const double repeats[] = {0.5, 2.5};
    sab_mixture_options options = SAB_MIXTURE_OPTIONS_INIT;
    options.repeats = repeats;
    options.repeat_count = 2;
    EXPECT_OK(sab_mixture_new((const sab_sizes *const *)sources, 2, &options, &mixture));
    sab_balanced_options balanced = SAB_BALANCED_OPTIONS_INIT;
    balanced.padded = 1;
    SET_BUDGET(balanced, 800);
    sab_sampler_options order = ranks(0, 1);
    order.micro_batches = 8;
    sab_sampler *sampler = NULL;
    EXPECT_OK(sab_balanced_sampler_new(mixture, &balanced, &order, &sampler));
    const uint64_t batches = batches_of(sampler);
    for (uint64_t epoch = 0; epoch < 12; ++epoch) {
        EXPECT_OK(sab_sampler_set_epoch(sampler, epoch));
        EXPECT(batches_of(sampler) == batches);
        uint32_t counts[FIRST + SECOND];
        EXPECT_OK(sab_mixture_get_counts(mixture, epoch, counts, FIRST + SECOND));
        double all[2] = {0, 0}, given[2] = {0, 0};
        int seen[FIRST + SECOND] = {0};
        for (int i = 0; i < FIRST + SECOND; ++i) all[i >= FIRST] += (double)counts[i] * numbers[i];
        sab_batch batch = SAB_BATCH_INIT;
        while (sab_next_batch(sampler, &batch) == SAB_OK) {
            for (uint64_t i = 0; i < batch.count; ++i) {
                given[batch.indices[i] >= FIRST] += numbers[batch.indices[i]];
                ++seen[batch.indices[i]];
            }
            const double due = (given[0] + given[1]) * all[0] / (all[0] + all[1]);
            if (batch.micro_batch == 7)
                EXPECT(fabs(given[0] - due) <= longest_of(numbers, FIRST + SECOND) * (1 + 1e-9));
        }
        for (int i = 0; i < FIRST + SECOND; ++i) EXPECT(seen[i] == (int)counts[i]);
    }
    sab_sampler_free(sampler);
    for (int s = 0; s < 2; ++s) sab_sizes_free(sources[s]);
    sab_sizes_free(mixture);
}

static int32_t any_cost(void *ctx, uint64_t count, const double *lengths, const double *totals,
                        size_t columns, double *cost) {
    (void)ctx, (void)count, (void)lengths, (void)columns;
    *cost = totals[0];
    return 0;
}

static void wrong_options_are_refused_by_name(void) {
    random_state = 16;
    const int32_t *sizes = random_sizes(1000, 2);
    sab_sampler *sampler = NULL;
    struct division given = of_sizes(sizes, 1000, 2, 4);
    SET_BUDGET(given.balanced, 300);
    given.balanced.samples = 200;
    EXPECT_FAILS(try_rank(&given, 0, &sampler), SAB_E_ARGUMENT,
                 "balanced.samples = 200: step 0 of epoch");
    EXPECT(strstr(sab_last_error_message(), "must fit the 8 of a step") != NULL);
    /* What the message proposes holds. */
    const char *const proposed = strstr(sab_last_error_message(), "options.micro_batches = ");
    given.micro_batches = (uint64_t)strtol(proposed + strlen("options.micro_batches = "), NULL, 10);
    EXPECT(given.micro_batches > 4);
    sampler = rank_with(&given, 0);
    sab_sampler_free(sampler);

    given = of_sizes(sizes, 1000, 2, 4);
    EXPECT_FAILS(try_rank(&given, 0, &sampler), SAB_E_ARGUMENT, "balanced.samples = 0");
    given.balanced.samples = 7;
    EXPECT_FAILS(try_rank(&given, 0, &sampler), SAB_E_ARGUMENT, "balanced.samples = 7");
    given.balanced.samples = 64;
    given.balanced.fill = 0.5;
    EXPECT_FAILS(try_rank(&given, 0, &sampler), SAB_E_ARGUMENT, "balanced.fill = 0.5");
    given.balanced.fill = 0;
    given.balanced.padded = 2;
    EXPECT_FAILS(try_rank(&given, 0, &sampler), SAB_E_ARGUMENT, "balanced.padded = 2");
    given.balanced.padded = 1;
    sab_cost *const cost = new_callback(any_cost, NULL);
    SET_BUDGET_OF(given.balanced, cost, 1000);
    EXPECT_FAILS(try_rank(&given, 0, &sampler), SAB_E_ARGUMENT,
                 "balanced.budgets[0].cost: is a callback: padded micro-batches");
    sab_cost_free(cost);

    given.balanced.samples = 0;
    SET_BUDGET(given.balanced, longest_of(sizes, 1000) - 1);
    EXPECT_FAILS(try_rank(&given, 0, &sampler), SAB_E_ARGUMENT, "must fit balanced.budgets[0]");
    given.balanced.oversize = SAB_OVERSIZE_SKIP;
    sampler = rank_with(&given, 0);
    size_t skipped = 0;
    EXPECT_OK(sab_sampler_get_skipped(sampler, NULL, 0, &skipped));
    EXPECT(skipped > 0);
    sab_sampler_free(sampler);
}

/* Samples of no size, one sample, fewer samples than micro-batches. */
static void little_data(void) {
    const int32_t sizes[] = {0, 0, 5, 0, 3};
    for (size_t count = 1; count <= 5; ++count)
        for (uint64_t parts = 1; parts <= 8; ++parts)
            for (sab_last_step policy = SAB_LAST_STEP_SPLIT; policy <= SAB_LAST_STEP_WRAP;
                 ++policy) {
                struct division given = of_sizes(sizes, count, parts, 1);
                SET_BUDGET(given.balanced, 6);
                given.last_step = policy;
                sab_sampler *sampler = NULL;
                if (policy == SAB_LAST_STEP_DROP && count < parts) {
                    EXPECT_FAILS(try_rank(&given, 0, &sampler), SAB_E_ARGUMENT,
                                 "options.last_step");
                    continue;
                }
                int seen[MOST] = {0}, sum = 0;
                uint64_t counts[MOST] = {0};
                const uint64_t steps = check_epoch(&given, 2, seen, counts);
                for (size_t i = 0; i < count; ++i) sum += seen[i];
                if (policy == SAB_LAST_STEP_SPLIT) EXPECT(all_are(seen, (int)count, 1));
                if (policy == SAB_LAST_STEP_WRAP) EXPECT(sum >= (int)count && steps > 0);
                if (policy != SAB_LAST_STEP_SPLIT)
                    for (uint64_t k = 0; k < steps; ++k) EXPECT(counts[k] >= parts);
            }
}

int main(void) {
    RUN(every_sample_comes_once_in_equal_steps_within_the_budget);
    RUN(steps_have_about_equal_counts);
    RUN(steps_are_random_samples);
    RUN(every_epoch_has_the_same_number_of_batches);
    RUN(a_state_goes_on_with_other_ranks_budgets_and_rows);
    RUN(a_state_goes_on_as_without_it);
    RUN(last_steps);
    RUN(the_report_counts_padding);
    RUN(several_budgets_and_costs);
    RUN(columns_are_padded_each);
    RUN(sources_of_a_mixture_keep_their_dues);
    RUN(wrong_options_are_refused_by_name);
    RUN(little_data);
    return finish();
}
