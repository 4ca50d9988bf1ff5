/* Balanced steps of samples with several sizes. */
#include <math.h>

#include "helpers.h"
#include "one.h"

#define SAMPLES 1500
enum { IMAGES, TOKENS };

/* Images and tokens of samples; some have no images, some are long. */
static const int32_t *column(int which) {
    static int32_t made[2][SAMPLES];
    if (made[1][0] != 0) return made[which];
    random_state = 21;
    for (int i = 0; i < SAMPLES; ++i) {
        made[IMAGES][i] = (int32_t)below(1 + below(6));
        made[TOKENS][i] = (int32_t)(1 + 150 * (uint64_t)made[IMAGES][i] + below(1 + below(400)));
    }
    return made[which];
}

static sab_sizes *pairs(size_t count) {
    static const char *const names[] = {"images", "tokens"};
    sab_sizes *columns[2], *both = NULL;
    for (int k = 0; k < 2; ++k) {
        sab_sizes *const plain = sizes_of(column(k), count);
        EXPECT_OK(named_sizes(plain, names[k], &columns[k]));
        sab_sizes_free(plain);
    }
    EXPECT_OK(sab_sizes_columns_new((const sab_sizes *const *)columns, NULL, 2, &both));
    for (int k = 0; k < 2; ++k) sab_sizes_free(columns[k]);
    return both;
}

/* The cost of one column. */
static sab_cost *cost_of(int which) {
    const double weights[2] = {which == IMAGES, which == TOKENS};
    sab_cost *cost = NULL;
    EXPECT_OK(sab_cost_padded_new(weights, 2, &cost));
    return cost;
}

/* Caps of images and of tokens; both are balanced. */
struct caps {
    sab_cost *costs[2];
    sab_budget budgets[2];
    sab_balanced_options balanced;
};

static void set_caps(struct caps *caps, double images, double tokens) {
    const sab_balanced_options defaults = SAB_BALANCED_OPTIONS_INIT;
    caps->balanced = defaults;
    for (int k = 0; k < 2; ++k) {
        caps->costs[k] = cost_of(k);
        caps->budgets[k] = (sab_budget){caps->costs[k], k == IMAGES ? images : tokens};
    }
    caps->balanced.budgets = caps->budgets;
    caps->balanced.budget_count = 2;
}

static void free_caps(struct caps *caps) {
    for (int k = 0; k < 2; ++k) sab_cost_free(caps->costs[k]);
}

static sab_sampler *sampler_of(const sab_balanced_options *balanced, uint64_t rank,
                               uint64_t world_size, uint64_t micro_batches) {
    sab_sizes *const sizes = pairs(SAMPLES);
    sab_sampler_options options = ranks(rank, world_size);
    options.micro_batches = micro_batches;
    sab_sampler *sampler = NULL;
    EXPECT_OK(sab_balanced_sampler_new(sizes, balanced, &options, &sampler));
    sab_sizes_free(sizes);
    return sampler;
}

/* The batch is what its samples say, and keeps the caps. */
static void check_batch(sab_sampler *sampler, const sab_batch *batch,
                        const sab_balanced_options *balanced) {
    sab_rows rows = SAB_ROWS_INIT;
    EXPECT_OK(sab_sampler_get_rows(sampler, &rows));
    EXPECT(batch->columns == 2 && rows.columns == 2 && batch->layout == SAB_LAYOUT_ROW);
    for (int k = 0; k < 2; ++k) {
        double total = 0, longest = 0;
        EXPECT(rows.cu_seqlens[k][0] == 0 && rows.capacity[k] == -1);
        for (size_t i = 0; i < batch->count; ++i) {
            const int32_t size = column(k)[batch->indices[i]];
            EXPECT(rows.cu_seqlens[k][i + 1] - rows.cu_seqlens[k][i] == size);
            total += size;
            longest = fmax(longest, size);
        }
        EXPECT(batch->total[k] == total && batch->longest[k] == longest &&
               batch->padded_length[k] == total);
        for (size_t b = 0; b < balanced->budget_count; ++b)
            if (b == (size_t)k) EXPECT(total <= balanced->budgets[b].limit);
    }
}

static void every_sample_once_under_all_caps(void) {
    for (uint64_t world_size = 1; world_size <= 5; world_size += 2)
        for (uint64_t micro_batches = 1; micro_batches <= 3; micro_batches += 2)
            for (int i = 0; i < 4; ++i) {
                struct caps caps;
                set_caps(&caps, i % 2 ? 8 : 40, i % 2 ? 4000 : 1500);
                if (i > 1) caps.balanced.samples = 45;
                static int seen[SAMPLES];
                memset(seen, 0, sizeof seen);
                uint64_t counts[5];
                double totals[2] = {0};
                for (uint64_t r = 0; r < world_size; ++r) {
                    sab_sampler *const sampler =
                        sampler_of(&caps.balanced, r, world_size, micro_batches);
                    EXPECT_OK(sab_sampler_get_batch_count(sampler, &counts[r]));
                    sab_batch batch = SAB_BATCH_INIT;
                    while (sab_next_batch(sampler, &batch) == SAB_OK) {
                        check_batch(sampler, &batch, &caps.balanced);
                        for (size_t k = 0; k < batch.count; ++k) ++seen[batch.indices[k]];
                        sab_step step = SAB_STEP_INIT;
                        EXPECT_OK(sab_sampler_get_step(sampler, &step));
                        EXPECT(step.columns == 2 && step.totals[IMAGES] >= batch.total[IMAGES]);
                        if (r == 0 && batch.micro_batch == 0)
                            for (int k = 0; k < 2; ++k) totals[k] += step.totals[k];
                    }
                    EXPECT(counts[r] == counts[0]);
                    sab_balanced_report report = SAB_BALANCED_REPORT_INIT;
                    EXPECT_OK(sab_balanced_sampler_get_report(sampler, NULL, &report));
                    EXPECT(report.columns == 2 && report.balance_count == 2);
                    EXPECT(report.totals[0] == totals[0] && report.totals[1] == totals[1]);
                    EXPECT(report.fill > 0 && report.fill <= 1);
                    sab_sampler_free(sampler);
                }
                EXPECT(all_are(seen, SAMPLES, 1));
                free_caps(&caps);
            }
}

static void all_costs_are_even(void) {
    for (int i = 0; i < 2; ++i) {
        struct caps caps;
        set_caps(&caps, 300, 60000);
        const sab_cost *balance[] = {caps.costs[TOKENS], caps.costs[IMAGES]};
        if (i == 1) { /* without caps; by default those of the budgets */
            caps.balanced.budget_count = 0, caps.balanced.budgets = NULL;
            caps.balanced.samples = 500;
            caps.balanced.balance = balance;
            caps.balanced.balance_count = 2;
        }
        sab_sampler *const sampler = sampler_of(&caps.balanced, 1, 2, 2);
        sab_balanced_report report = SAB_BALANCED_REPORT_INIT;
        EXPECT_OK(sab_balanced_sampler_get_report(sampler, NULL, &report));
        EXPECT(report.steps >= 2 && report.balance_count == 2);
        for (int k = 0; k < 2; ++k) {
            EXPECT(report.rank_imbalance[k] >= 1 && report.rank_imbalance[k] < 1.01);
            EXPECT(report.micro_batch_imbalance[k] >= 1 && report.micro_batch_imbalance[k] < 1.02);
            EXPECT(report.time[k] >= report.least_time[k]);
        }
        const int first = i == 1 ? TOKENS : IMAGES;
        EXPECT(2 * report.least_time[0] == report.totals[first]);
        EXPECT(report.rank_imbalance[2] == 0);
        sab_sampler_free(sampler);
        free_caps(&caps);
    }
}

/* With one column several costs are evened out, too. */
static void several_costs_of_one_column(void) {
    sab_cost *const quadratic = new_quadratic();
    const sab_cost *balance[] = {quadratic, NULL};
    sab_cost *total = NULL;
    EXPECT_OK(sab_cost_padded_new(NULL, 1, &total));
    balance[1] = total;
    sab_balanced_options balanced = SAB_BALANCED_OPTIONS_INIT;
    balanced.samples = 375;
    balanced.balance = balance;
    balanced.balance_count = 2;
    sab_sizes *const sizes = sizes_of(column(TOKENS), SAMPLES);
    const sab_sampler_options options = ranks(0, 4);
    sab_sampler *sampler = NULL;
    EXPECT_OK(sab_balanced_sampler_new(sizes, &balanced, &options, &sampler));
    sab_balanced_report report = SAB_BALANCED_REPORT_INIT;
    EXPECT_OK(sab_balanced_sampler_get_report(sampler, NULL, &report));
    EXPECT(report.columns == 1 && report.balance_count == 2);
    for (int k = 0; k < 2; ++k) EXPECT(report.rank_imbalance[k] < 1.01);
    sab_sampler_free(sampler);
    sab_sizes_free(sizes);
    sab_cost_free(quadratic);
    sab_cost_free(total);
}

/* Takes `count` micro-batches on each of some ranks from a state; -1: all that are left. */
static void go_on(const sab_balanced_options *balanced, uint64_t world_size, uint64_t micro_batches,
                  int64_t count, struct state *state, int *seen) {
    struct state first;
    for (uint64_t r = 0; r < world_size; ++r) {
        sab_sampler *const sampler = sampler_of(balanced, r, world_size, micro_batches);
        if (state->size != 0) EXPECT_OK(restore_state(sampler, state));
        sab_batch batch = SAB_BATCH_INIT;
        for (int64_t i = 0; i != count && sab_next_batch(sampler, &batch) == SAB_OK; ++i) {
            check_batch(sampler, &batch, balanced);
            for (size_t k = 0; k < batch.count; ++k) ++seen[batch.indices[k]];
        }
        struct state own;
        EXPECT_OK(save_state(sampler, &own));
        if (r == 0) first = own;
        EXPECT(own.size == first.size && memcmp(own.bytes, first.bytes, own.size) == 0);
        sab_sampler_free(sampler);
    }
    *state = first;
}

static void a_state_goes_on_with_other_ranks_and_caps(void) {
    for (uint64_t begun = 1; begun <= 3; ++begun) {
        struct caps caps, lower;
        set_caps(&caps, 20, 2000);
        set_caps(&lower, 4, 800);
        lower.balanced.oversize = SAB_OVERSIZE_SKIP;
        static int seen[SAMPLES];
        memset(seen, 0, sizeof seen);
        struct state state = {0, {0}};
        go_on(&caps.balanced, begun, 2, 6, &state, seen);
        go_on(&caps.balanced, begun + 2, 1, 4, &state, seen);
        go_on(&lower.balanced, 2, 2, 4, &state, seen);
        go_on(&caps.balanced, 2, 3, -1, &state, seen);
        size_t lost = 0;
        for (int i = 0; i < SAMPLES; ++i) {
            EXPECT(seen[i] <= 1);
            if (seen[i] == 1) continue;
            ++lost; /* its turn came under the lower caps */
            EXPECT(column(IMAGES)[i] > 4 || column(TOKENS)[i] > 800);
        }
        EXPECT(lost < 40);
        free_caps(&caps);
        free_caps(&lower);
    }
}

static void skips_what_no_cap_holds(void) {
    struct caps caps;
    set_caps(&caps, 3, 700);
    caps.balanced.oversize = SAB_OVERSIZE_SKIP;
    sab_sampler *const sampler = sampler_of(&caps.balanced, 0, 1, 1);
    int over[SAMPLES] = {0}, seen[SAMPLES] = {0};
    size_t count = 0, skipped = 0;
    for (int i = 0; i < SAMPLES; ++i)
        count += over[i] = column(IMAGES)[i] > 3 || column(TOKENS)[i] > 700;
    int64_t indices[SAMPLES];
    EXPECT_OK(sab_sampler_get_skipped(sampler, indices, SAMPLES, &skipped));
    EXPECT(skipped == count);
    for (size_t i = 0; i < skipped; ++i) EXPECT(over[indices[i]]);
    walk(sampler, seen);
    for (int i = 0; i < SAMPLES; ++i) EXPECT(seen[i] == !over[i]);
    sab_sampler_free(sampler);
    free_caps(&caps);
}

/* One sample for each micro-batch always fits, also one that costs nothing or takes all. */
static void samples_that_take_a_whole_budget(void) {
    for (size_t count = 1; count <= 40; ++count) {
        double sizes[2][40];
        for (size_t i = 0; i < count; ++i) {
            sizes[0][i] = i % 3 == 0 ? 0.7 : 0;
            sizes[1][i] = i % 3 == 1 ? 0.3 : 0.1 * (double)(i % 2);
        }
        sab_sizes *columns[2], *both = NULL;
        for (int k = 0; k < 2; ++k)
            EXPECT_OK(sab_sizes_new(sizes[k], count, SAB_FLOAT64, NULL, &columns[k]));
        EXPECT_OK(sab_sizes_columns_new((const sab_sizes *const *)columns, NULL, 2, &both));
        struct caps caps;
        set_caps(&caps, 0.7, 0.3);
        caps.balanced.fill = count % 2 ? 1 : 0.95;
        int seen[40] = {0};
        for (uint64_t r = 0; r < 5; ++r) {
            const sab_sampler_options options = ranks(r, 5);
            sab_sampler *sampler = NULL;
            EXPECT_OK(sab_balanced_sampler_new(both, &caps.balanced, &options, &sampler));
            sab_batch batch = SAB_BATCH_INIT;
            while (sab_next_batch(sampler, &batch) == SAB_OK) {
                EXPECT(batch.total[0] <= 0.7 && batch.total[1] <= 0.3);
                for (size_t k = 0; k < batch.count; ++k) ++seen[batch.indices[k]];
            }
            sab_sampler_free(sampler);
        }
        EXPECT(all_are(seen, count, 1));
        free_caps(&caps);
        for (int k = 0; k < 2; ++k) sab_sizes_free(columns[k]);
        sab_sizes_free(both);
    }
}

static int32_t falls(void *ctx, uint64_t count, const double *lengths, const double *totals,
                     size_t columns, double *cost) {
    (void)ctx;
    if (count != 1 || columns != 2 || totals[1] != lengths[1]) return 5;
    *cost = 1e6 - lengths[1];
    return 0;
}

static sab_sizes *two_columns(const int32_t *a, const int32_t *b, size_t count) {
    sab_sizes *columns[2] = {sizes_of(a, count), sizes_of(b, count)}, *both = NULL;
    EXPECT_OK(sab_sizes_columns_new((const sab_sizes *const *)columns, NULL, 2, &both));
    for (int k = 0; k < 2; ++k) sab_sizes_free(columns[k]);
    return both;
}

/* Rows end at whole multiples: 5 takes 8 of a budget. Samples that leave no room for more padding
 * fit alone. */
static void samples_that_fit_in_rounded_rows(void) {
    static const int32_t a[] = {1, 2, 3}, b[] = {5, 5, 5};
    const struct {
        int is_of_both;
        double limit;
        uint64_t rows; /* 0: samples are refused */
    } cases[] = {{0, 7, 0}, {0, 8, 3}, {0, 15, 3}, {0, 16, 1}, {1, 15, 0}, {1, 16, 3}, {1, 40, 1}};
    sab_sizes *sizes = two_columns(a, b, 3);
    for (size_t i = 0; i < COUNT(cases); ++i) {
        sab_cost *cost = cost_of(TOKENS);
        const sab_budget budget = {cases[i].is_of_both ? NULL : cost, cases[i].limit};
        sab_balanced_options balanced = SAB_BALANCED_OPTIONS_INIT;
        balanced.budgets = &budget, balanced.budget_count = 1;
        balanced.row_multiples = one_number(8), balanced.row_multiple_count = 1;
        sab_sampler *sampler = NULL;
        const sab_status status = sab_balanced_sampler_new(sizes, &balanced, NULL, &sampler);
        EXPECT(status == (cases[i].rows > 0 ? SAB_OK : SAB_E_ARGUMENT));
        uint64_t rows = 0;
        sab_batch batch = SAB_BATCH_INIT;
        while (sampler != NULL && sab_next_batch(sampler, &batch) == SAB_OK) {
            const double *const padded = batch.padded_length;
            EXPECT((cases[i].is_of_both ? padded[0] : 0) + padded[1] <= cases[i].limit);
            ++rows;
        }
        EXPECT(rows == cases[i].rows);
        sab_sampler_free(sampler);
        sab_cost_free(cost);
    }
    sab_sizes_free(sizes);
}

/* Rounded rows with anything of the second column are over its limit. */
static void samples_that_need_nothing_of_a_budget(void) {
    static const int32_t a[] = {5, 0, 5, 5, 4, 6, 1, 3, 6, 2, 2, 2,
                                6, 4, 4, 2, 5, 1, 1, 0, 3, 0, 2};
    static const int32_t b[COUNT(a)] = {0};
    sab_sizes *sizes = two_columns(a, b, COUNT(a));
    struct caps caps;
    set_caps(&caps, 16, 7);
    caps.balanced.length_multiples = one_number(3), caps.balanced.length_multiple_count = 1;
    caps.balanced.row_multiples = one_number(8), caps.balanced.row_multiple_count = 1;
    for (double limit = 7; limit <= 8; ++limit) {
        caps.budgets[TOKENS].limit = limit;
        const sab_sampler_options options = ranks(0, 3);
        sab_sampler *sampler = NULL;
        EXPECT_OK(sab_balanced_sampler_new(sizes, &caps.balanced, &options, &sampler));
        sab_sampler_free(sampler);
    }
    free_caps(&caps);
    sab_sizes_free(sizes);
}

static void bad_input(void) {
    sab_sizes *const sizes = pairs(SAMPLES);
    const double weights[] = {1, 1, 1};
    sab_cost *three = NULL, *const falling = new_callback(falls, NULL);
    EXPECT_OK(sab_cost_padded_new(weights, 3, &three));
    struct caps caps;
    set_caps(&caps, 20, 2000);
    const sab_cost *balance[9] = {caps.costs[0], three};
    const sab_sampler_options options = ranks(0, 2);
    sab_sampler *sampler = NULL;
#define REFUSED(words)                                                                \
    EXPECT_FAILS(sab_balanced_sampler_new(sizes, &caps.balanced, &options, &sampler), \
                 SAB_E_ARGUMENT, words);                                              \
    EXPECT(sampler == NULL)
    caps.balanced.balance = balance;
    caps.balanced.balance_count = 9;
    REFUSED("balanced.balance_count = 9: must be at most 8");
    caps.balanced.balance_count = 3;
    REFUSED("balanced.balance[1]: uses 3 columns");
    balance[1] = caps.costs[1];
    REFUSED("balanced.balance[2] = NULL");
    balance[1] = falling;
    caps.balanced.balance_count = 2;
    REFUSED("balanced.balance[1]: a sample of length");
    caps.balanced.balance_count = 0, caps.balanced.balance = NULL;
    caps.budgets[1].cost = three;
    REFUSED("balanced.budgets[1].cost: uses 3 columns");
    caps.budgets[1].cost = caps.costs[1];
    caps.budgets[1].limit = 900;
    REFUSED("must fit balanced.budgets[1].limit = 900 alone");
    caps.budgets[0].limit = 3;
    REFUSED("] = (");
    caps.budgets[0].limit = 0.5;
    caps.budgets[1].limit = 0.5;
    caps.balanced.oversize = SAB_OVERSIZE_SKIP;
    REFUSED("no sample is left");
    sab_sizes_free(sizes);
    sab_cost_free(three);
    sab_cost_free(falling);
    free_caps(&caps);
}

static void states_of_other_columns_are_refused(void) {
    struct caps caps;
    set_caps(&caps, 20, 2000);
    sab_sampler *const sampler = sampler_of(&caps.balanced, 0, 1, 1);
    struct state state;
    EXPECT_OK(save_state(sampler, &state));
    sab_sizes *const sizes = sizes_of(column(TOKENS), SAMPLES);
    sab_balanced_options balanced = SAB_BALANCED_OPTIONS_INIT;
    SET_BUDGET(balanced, 2000);
    const sab_sampler_options options = ranks(0, 1);
    sab_sampler *other = NULL;
    EXPECT_OK(sab_balanced_sampler_new(sizes, &balanced, &options, &other));
    EXPECT_FAILS(restore_state(other, &state), SAB_E_MISMATCH, "");
    sab_sampler_free(other);
    sab_sampler_free(sampler);
    sab_sizes_free(sizes);
    free_caps(&caps);
}

int main(void) {
    RUN(every_sample_once_under_all_caps);
    RUN(all_costs_are_even);
    RUN(several_costs_of_one_column);
    RUN(a_state_goes_on_with_other_ranks_and_caps);
    RUN(skips_what_no_cap_holds);
    RUN(samples_that_take_a_whole_budget);
    RUN(samples_that_fit_in_rounded_rows);
    RUN(samples_that_need_nothing_of_a_budget);
    RUN(bad_input);
    RUN(states_of_other_columns_are_refused);
    return finish();
}
