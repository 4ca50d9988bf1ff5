/* Step plans: the samples of one step on ranks and micro-batches. */
#include <math.h>
#include <stdlib.h>

#include "helpers.h"
#include "one.h"

#define MOST 600

typedef struct {
    size_t count, columns;
    int32_t sizes[2][MOST];
    int64_t groups[MOST];
    sab_step_plan_options options;
    sab_budget budgets[2];
} step;

static sab_cost *squares_of(size_t columns) {
    const sab_cost_term term =
        columns == 1 ? (sab_cost_term){1, 1, POWERS(2)} : (sab_cost_term){1, 1, POWERS(1, 1)};
    sab_cost *cost = NULL;
    EXPECT_OK(sab_cost_terms_new(&term, 1, &cost));
    return cost;
}

static sab_sizes *sizes_of_step(const step *s) {
    sab_sizes *first = sizes_of(s->sizes[0], s->count), *second = NULL, *all = NULL;
    if (s->columns == 1) return first;
    second = sizes_of(s->sizes[1], s->count);
    const sab_sizes *const columns[2] = {first, second};
    EXPECT_OK(sab_sizes_columns_new(columns, NULL, 2, &all));
    sab_sizes_free(first);
    sab_sizes_free(second);
    return all;
}

static sab_status plan_of(const step *s, sab_step_plan **plan) {
    sab_sizes *sizes = sizes_of_step(s);
    const sab_status status = sab_step_plan_new(sizes, &s->options, plan);
    sab_sizes_free(sizes);
    return status;
}

static sab_step_plan_view view_of(const sab_step_plan *plan) {
    sab_step_plan_view view = SAB_STEP_PLAN_VIEW_INIT;
    EXPECT_OK(sab_step_plan_get_view(plan, &view));
    return view;
}

/* One column of lengths under a budget. */
static void set_step(step *s, size_t count, const int32_t *lengths, uint64_t world_size,
                     double limit) {
    const sab_step_plan_options defaults = SAB_STEP_PLAN_OPTIONS_INIT;
    s->count = count;
    s->columns = 1;
    memcpy(s->sizes[0], lengths, count * sizeof *lengths);
    s->options = defaults;
    s->options.world_size = world_size;
    s->budgets[0].cost = NULL;
    s->budgets[0].limit = limit;
    s->options.budgets = s->budgets;
    s->options.budget_count = 1;
}

static double cost_of(const sab_cost *cost, const step *s, const int64_t *indices, size_t count) {
    double sum = 0, longest[2] = {0, 0};
    for (size_t k = 0; k < count; ++k) {
        double lengths[2] = {0, 0}, own = 0;
        for (size_t j = 0; j < s->columns; ++j) {
            lengths[j] = s->sizes[j][indices[k]];
            longest[j] = fmax(longest[j], lengths[j]);
            if (cost == NULL) own += lengths[j];
        }
        if (cost != NULL) EXPECT_OK(sab_cost_evaluate(cost, 1, lengths, NULL, s->columns, &own));
        sum += own;
    }
    if (s->options.padded == 0 || count == 0) return sum;
    if (cost == NULL) return (double)count * (longest[0] + longest[1]);
    EXPECT_OK(sab_cost_evaluate(cost, count, longest, NULL, s->columns, &sum));
    return sum;
}

static void check_indices(const step *s, const sab_step_plan_view *view) {
    static int seen[MOST];
    memset(seen, 0, sizeof seen);
    const uint64_t parts = view->world_size * view->micro_batches;
    EXPECT(view->samples == s->count && view->columns == s->columns);
    EXPECT(view->offsets[0] == 0 && view->offsets[parts] == s->count);
    for (size_t at = 0; at < s->count; ++at) {
        const int64_t sample = view->indices[at];
        EXPECT(sample >= 0 && (size_t)sample < s->count && ++seen[sample] == 1);
        EXPECT(view->inverse[sample] == (int64_t)at);
    }
    for (uint64_t k = 0; k < parts; ++k)
        for (uint64_t at = view->offsets[k] + 1; at < view->offsets[k + 1]; ++at)
            EXPECT(view->indices[at - 1] < view->indices[at]);
}

/* Budgets are kept; micro-batches are empty only without samples, and cost what the plan says. */
static void check_parts(const step *s, const sab_step_plan_view *view) {
    const uint64_t parts = view->world_size * view->micro_batches;
    for (uint64_t r = 0; r < view->world_size; ++r) {
        const uint64_t first = r * view->micro_batches;
        const uint64_t own = view->offsets[first + view->micro_batches] - view->offsets[first];
        for (uint64_t k = first; k < first + view->micro_batches; ++k) {
            const int64_t *indices = view->indices + view->offsets[k];
            const size_t count = (size_t)(view->offsets[k + 1] - view->offsets[k]);
            EXPECT(count > 0 || (s->options.groups != NULL ? own : s->count) < parts);
            EXPECT(count > 0 || s->options.groups == NULL || own < view->micro_batches);
            for (size_t b = 0; b < s->options.budget_count; ++b)
                EXPECT(cost_of(s->budgets[b].cost, s, indices, count) <= s->budgets[b].limit);
            const sab_cost *balance =
                s->options.balance_count > 0 ? s->options.balance[0] : s->budgets[0].cost;
            EXPECT(fabs(view->costs[k] - cost_of(balance, s, indices, count)) <=
                   1e-9 * view->costs[k]);
            for (size_t j = 0; j < s->columns && view->cu_seqlens != NULL; ++j) {
                const int32_t *cu_seqlens = view->cu_seqlens[j] + view->offsets[k] + k;
                EXPECT(cu_seqlens[0] == 0);
                for (size_t i = 0; i < count; ++i)
                    EXPECT(cu_seqlens[i + 1] - cu_seqlens[i] == s->sizes[j][indices[i]]);
            }
        }
    }
    EXPECT((view->cu_seqlens != NULL) == (s->options.padded == 0));
}

static void check_order(const step *s, const sab_step_plan_view *view) {
    for (uint64_t r = 0; r < view->world_size; ++r) {
        const double *costs = view->costs + r * view->micro_batches;
        int falls = 0;
        for (uint64_t m = 1; m < view->micro_batches; ++m) {
            if (s->options.order == SAB_MICRO_BATCHES_DESCENDING) EXPECT(costs[m] <= costs[m - 1]);
            if (s->options.order == SAB_MICRO_BATCHES_ASCENDING) EXPECT(costs[m] >= costs[m - 1]);
            falls = falls || costs[m] < costs[m - 1];
            EXPECT(!falls || costs[m] <= costs[m - 1]);
        }
    }
}

static void check_groups(const step *s, const sab_step_plan_view *view) {
    static uint64_t rank_of[MOST];
    for (uint64_t r = 0; r < view->world_size; ++r)
        for (uint64_t at = view->offsets[r * view->micro_batches];
             at < view->offsets[(r + 1) * view->micro_batches]; ++at)
            rank_of[view->indices[at]] = r;
    for (size_t i = 0; i < s->count && s->options.groups != NULL; ++i)
        for (size_t k = 0; k < i; ++k)
            EXPECT(s->groups[i] != s->groups[k] || rank_of[i] == rank_of[k]);
}

static void check_measures(const sab_step_plan_view *view) {
    for (size_t k = 0; k < view->balance_count; ++k) {
        EXPECT(view->least_rank_imbalance[k] >= 1);
        EXPECT(view->rank_imbalance[k] >= view->least_rank_imbalance[k] * (1 - 1e-12));
        EXPECT(view->micro_step_imbalance[k] >= view->rank_imbalance[k] * (1 - 1e-12));
    }
}

static void Plan_OfRandomSteps_KeepsAllRules(void) {
    static step s;
    sab_cost *const squares[2] = {squares_of(1), squares_of(2)};
    for (int round = 0; round < 600; ++round) {
        const size_t count = 1 + below(below(4) == 0 ? MOST : 40);
        const uint64_t longest = 1 + below(3000);
        int32_t lengths[MOST];
        for (size_t i = 0; i < count; ++i) lengths[i] = (int32_t)(1 + below(1 + below(longest)));
        set_step(&s, count, lengths, 1 + below(9), (double)(longest * (1 + below(6))));
        s.columns = 1 + below(2);
        for (size_t i = 0; i < count; ++i) s.sizes[1][i] = (int32_t)below(1 + longest / 4);
        if (s.columns == 2) s.budgets[0].limit *= 1.25;
        const sab_cost *square = squares[s.columns - 1];
        if (below(3) == 0) {
            s.budgets[1].cost = square;
            s.budgets[1].limit = (double)(longest * longest * (1 + below(3)));
            s.options.budget_count = 2;
        }
        if (below(2) == 0) {
            s.options.balance = &square;
            s.options.balance_count = 1;
        }
        s.options.padded = below(3) == 0;
        s.options.order = (sab_micro_batch_order)below(3);
        s.options.multiple = 1 + below(3);
        for (size_t i = 0; i < count; ++i) s.groups[i] = (int64_t)below(1 + count / 3) - 5;
        if (below(4) == 0) s.options.groups = s.groups;
        sab_step_plan *plan = NULL, *again = NULL;
        EXPECT_OK(plan_of(&s, &plan));
        EXPECT_OK(plan_of(&s, &again));
        const sab_step_plan_view view = view_of(plan), same = view_of(again);
        EXPECT(view.world_size == s.options.world_size);
        EXPECT(view.micro_batches % s.options.multiple == 0);
        EXPECT(view.micro_batches >= view.least_micro_batches);
        check_indices(&s, &view);
        check_parts(&s, &view);
        check_order(&s, &view);
        check_groups(&s, &view);
        check_measures(&view);
        EXPECT(memcmp(view.indices, same.indices, count * sizeof *view.indices) == 0);
        sab_step_plan_free(plan);
        sab_step_plan_free(again);
    }
    sab_cost_free(squares[0]);
    sab_cost_free(squares[1]);
}

/* Whether samples from `i` on fit bins that hold `left`. */
static int fit_bins(const step *s, size_t i, double *left, size_t bins) {
    if (i == s->count) return 1;
    for (size_t bin = 0; bin < bins; ++bin) {
        if (left[bin] < s->sizes[0][i]) continue;
        left[bin] -= s->sizes[0][i];
        const int fits = fit_bins(s, i + 1, left, bins);
        left[bin] += s->sizes[0][i];
        if (fits) return 1;
    }
    return 0;
}

/* The least largest sum of `ranks` parts, each in `largest` at most. */
static double least_largest(const step *s, size_t i, double *sums, size_t ranks, double best) {
    double largest = 0;
    for (size_t r = 0; r < ranks; ++r) largest = fmax(largest, sums[r]);
    if (largest >= best) return best;
    if (i == s->count) return largest;
    for (size_t r = 0; r < ranks; ++r) {
        sums[r] += s->sizes[0][i];
        best = least_largest(s, i + 1, sums, ranks, best);
        sums[r] -= s->sizes[0][i];
    }
    return best;
}

static void Plan_OfSmallSteps_HasTheFewestMicroBatches(void) {
    static step s;
    for (int round = 0; round < 400; ++round) {
        int32_t lengths[8];
        const size_t count = 1 + below(8);
        const uint64_t ranks = 1 + below(3);
        for (size_t i = 0; i < count; ++i) lengths[i] = (int32_t)(1 + below(20));
        set_step(&s, count, lengths, ranks, (double)(20 + below(20)));
        sab_step_plan *plan = NULL;
        EXPECT_OK(plan_of(&s, &plan));
        const sab_step_plan_view view = view_of(plan);
        double left[24], sums[3] = {0, 0, 0}, mean = 0;
        uint64_t fewest = 0;
        for (int fits = 0; !fits;) {
            ++fewest;
            for (size_t bin = 0; bin < fewest * ranks; ++bin) left[bin] = s.budgets[0].limit;
            fits = fit_bins(&s, 0, left, (size_t)(fewest * ranks));
        }
        EXPECT(view.micro_batches == fewest);
        EXPECT(view.least_micro_batches <= fewest);
        for (size_t i = 0; i < count; ++i) mean += lengths[i] / (double)ranks;
        const double least = least_largest(&s, 0, sums, (size_t)ranks, 1e9);
        EXPECT(view.least_rank_imbalance[0] * mean <= least * (1 + 1e-12));
        EXPECT(view.rank_imbalance[0] * mean >= least * (1 - 1e-12));
        sab_step_plan_free(plan);
    }
}

/* Steps whose fewest micro-batches are found only by trying many assignments. */
static void Plan_OfHardSmallSteps_HasTheFewestMicroBatches(void) {
    static const struct {
        int32_t padded;
        uint64_t ranks, fewest;
        double tokens, squares; /* budgets; 0 for none */
        size_t count;
        int32_t lengths[9];
        int64_t groups[9];
        int has_groups;
    } cases[] = {
        {0, 1, 4, 50, 0, 8, {8, 18, 16, 15, 29, 12, 46, 44}, {0}, 1},
        {0, 2, 3, 11, 0, 9, {1, 4, 1, 8, 5, 6, 6, 7, 6}, {0, 1, 2, 0, 1, 1, 2, 2}, 1},
        {1, 2, 1, 71, 0, 6, {21, 7, 9, 21, 4, 2}, {0, 1, 0, 1, 2, 1}, 1},
        {1, 2, 1, 52, 0, 6, {17, 2, 17, 14, 1, 1}, {0, 1, 2, 2, 0, 3}, 1},
        {0, 1, 2, 39, 518, 8, {8, 6, 6, 14, 18, 10, 14, 1}, {0}, 0},
        {0, 2, 1, 150, 4750, 8, {33, 39, 50, 8, 11, 47, 11, 42}, {0}, 0},
    };
    sab_cost *squares = squares_of(1);
    for (size_t k = 0; k < COUNT(cases); ++k) {
        static step s;
        set_step(&s, cases[k].count, cases[k].lengths, cases[k].ranks, cases[k].tokens);
        s.options.padded = cases[k].padded;
        s.budgets[1].cost = squares;
        s.budgets[1].limit = cases[k].squares;
        s.options.budget_count = cases[k].squares > 0 ? 2 : 1;
        memcpy(s.groups, cases[k].groups, sizeof cases[k].groups);
        if (cases[k].has_groups) s.options.groups = s.groups;
        for (int is_given = 0; is_given < 2; ++is_given) {
            if (is_given) s.options.micro_batches = cases[k].fewest;
            sab_step_plan *plan = NULL;
            EXPECT_OK(plan_of(&s, &plan));
            const sab_step_plan_view view = view_of(plan);
            EXPECT(view.micro_batches == cases[k].fewest);
            EXPECT(view.least_micro_batches <= cases[k].fewest);
            check_indices(&s, &view);
            for (uint64_t part = 0; part < view.world_size * view.micro_batches; ++part)
                for (size_t b = 0; b < s.options.budget_count; ++b)
                    EXPECT(s.options.padded == 1
                               ? view.costs[part] <= s.budgets[0].limit
                               : cost_of(s.budgets[b].cost, &s, view.indices + view.offsets[part],
                                         (size_t)(view.offsets[part + 1] - view.offsets[part])) <=
                                     s.budgets[b].limit);
            if (cases[k].has_groups) check_groups(&s, &view);
            sab_step_plan_free(plan);
        }
    }
    sab_cost_free(squares);
}

/* Sums that fill a budget are not refused because they might be rounded. */
static void Plan_OfSizesThatAreNotWhole_FillsBudgets(void) {
    static const struct {
        uint64_t ranks, fewest;
        double limit;
        size_t count;
        double lengths[8];
    } cases[] = {
        {1, 1, 1, 2, {0.5, 0.5}},
        {1, 2, 1, 4, {0.3, 0.7, 0.7, 0.3}},
        {3, 2, 3.25, 8, {0.25, 2.5, 2.75, 1.5, 2.25, 1.75, 2.25, 2}},
        {2, 1, 9.375, 7, {4.125, 0.875, 4, 3.125, 2.75, 1.75, 1.875}},
        {1, 2, 0.3, 2, {0.1, 0.2}}, /* their sum is rounded to more than 0.3 */
    };
    for (size_t k = 0; k < COUNT(cases); ++k) {
        sab_sizes *sizes = NULL;
        EXPECT_OK(sab_sizes_new(cases[k].lengths, cases[k].count, SAB_FLOAT64, NULL, &sizes));
        const sab_budget budget = {NULL, cases[k].limit};
        sab_step_plan_options options = SAB_STEP_PLAN_OPTIONS_INIT;
        options.world_size = cases[k].ranks;
        options.budgets = &budget;
        options.budget_count = 1;
        sab_step_plan *plan = NULL;
        EXPECT_OK(sab_step_plan_new(sizes, &options, &plan));
        const sab_step_plan_view view = view_of(plan);
        EXPECT(view.micro_batches == cases[k].fewest);
        EXPECT(view.least_micro_batches <= cases[k].fewest);
        for (uint64_t part = 0; part < view.world_size * view.micro_batches; ++part)
            EXPECT(view.costs[part] <= budget.limit);
        sab_step_plan_free(plan);
        sab_sizes_free(sizes);
    }
}

/* In each micro-step, not only in the sum of all. */
static void MicroSteps_OfManySamples_AreEven(void) {
    static step s;
    for (int round = 0; round < 20; ++round) {
        int32_t lengths[512];
        double sum = 0;
        for (size_t i = 0; i < 512; ++i) {
            double normal = -6;
            for (int k = 0; k < 12; ++k) normal += uniform();
            sum += lengths[i] = (int32_t)(1 + exp(6 + 1.1 * normal));
        }
        set_step(&s, 512, lengths, 8, sum);
        s.options.budget_count = 0, s.options.budgets = NULL;
        s.options.micro_batches = 4;
        sab_step_plan *plan = NULL;
        EXPECT_OK(plan_of(&s, &plan));
        const sab_step_plan_view view = view_of(plan);
        for (uint64_t m = 0; m < 4; ++m) {
            double largest = 0, mean = 0;
            for (uint64_t rank = 0; rank < 8; ++rank) {
                const double cost = view.costs[rank * 4 + m];
                largest = fmax(largest, cost);
                mean += cost / 8;
            }
            EXPECT(largest <= 1.006 * mean);
        }
        sab_step_plan_free(plan);
    }
}

static void Plan_OfManySamples_IsEvenInFewestMicroBatches(void) {
    static step s;
    for (int round = 0; round < 60; ++round) {
        int32_t lengths[MOST];
        double sum = 0;
        for (size_t i = 0; i < MOST; ++i)
            sum += lengths[i] = (int32_t)(1 + exp(6 + 0.8 * (uniform() + uniform() - 1) * 2));
        const uint64_t ranks = 4 + below(5);
        const double micro_batches = (double)(1 + below(4));
        const double limit = floor(sum / (double)ranks / micro_batches / (0.9 + 0.07 * uniform()));
        set_step(&s, MOST, lengths, ranks, fmax(limit, 3000));
        sab_step_plan *plan = NULL;
        EXPECT_OK(plan_of(&s, &plan));
        const sab_step_plan_view view = view_of(plan);
        EXPECT(view.micro_batches == ceil(sum / (double)ranks / s.budgets[0].limit));
        EXPECT(view.rank_imbalance[0] <= 1.0002 * view.least_rank_imbalance[0]);
        EXPECT(view.micro_step_imbalance[0] < 1.05);
        sab_step_plan_free(plan);
    }
}

static void Plan_OfHighLoad_HasAtMostOneMicroBatchMore(void) {
    static step s;
    int more = 0;
    for (int round = 0; round < 60; ++round) {
        int32_t lengths[MOST];
        double sum = 0;
        for (size_t i = 0; i < MOST; ++i)
            sum += lengths[i] = (int32_t)(1 + exp(6 + 0.8 * (uniform() + uniform() - 1) * 2));
        const uint64_t ranks = 4 + below(5), fewest = 4 + below(5);
        const double load = 0.985 + 0.015 * uniform();
        set_step(&s, MOST, lengths, ranks, ceil(sum / (double)(ranks * fewest) / load));
        sab_step_plan *plan = NULL;
        EXPECT_OK(plan_of(&s, &plan));
        const sab_step_plan_view view = view_of(plan);
        EXPECT(view.micro_batches == fewest || view.micro_batches == fewest + 1);
        more += view.micro_batches > fewest;
        check_parts(&s, &view);
        sab_step_plan_free(plan);
    }
    EXPECT(more < 30); /* most are found */
}

/* The cost of the costliest rank, to the least that any plan has: the larger of tokens and squares.
 */
static double worst_rank(const step *s, const sab_step_plan_view *view, const double *least) {
    double sums[2] = {0}, largest[2] = {0}, worst = 0;
    for (uint64_t rank = 0; rank < view->world_size; ++rank) {
        double own[2] = {0};
        for (uint64_t at = view->offsets[rank * view->micro_batches];
             at < view->offsets[(rank + 1) * view->micro_batches]; ++at) {
            const double length = s->sizes[0][view->indices[at]];
            own[0] += length;
            own[1] += length * length;
        }
        for (int k = 0; k < 2; ++k) {
            sums[k] += own[k];
            largest[k] = fmax(largest[k], own[k]);
        }
    }
    for (int k = 0; k < 2; ++k)
        worst = fmax(worst, largest[k] / (sums[k] / (double)view->world_size) / least[k]);
    return worst;
}

static void Plan_OfTwoCosts_IsAsEvenAsOfEach(void) {
    static step s;
    const sab_cost_term total = {1, 1, POWERS(1)};
    sab_cost *tokens = NULL, *squares = squares_of(1);
    EXPECT_OK(sab_cost_terms_new(&total, 1, &tokens));
    const sab_cost *const both[2] = {tokens, squares};
    int compared = 0;
    for (int round = 0; round < 12; ++round) {
        int32_t lengths[512];
        double sum = 0;
        for (size_t i = 0; i < 512; ++i) {
            double normal = -6;
            for (int k = 0; k < 12; ++k) normal += uniform();
            sum += lengths[i] = (int32_t)(1 + fmin(8000, exp(6 + 0.7 * normal)));
        }
        const double fewest = (double)(2 + below(3));
        const double load = 0.9 + 0.07 * uniform();
        set_step(&s, 512, lengths, 8, fmax(8001, ceil(sum / 8 / fewest / load)));
        s.options.balance = both;
        s.options.balance_count = 2;
        sab_step_plan *plan = NULL, *one = NULL;
        EXPECT_OK(plan_of(&s, &plan));
        const sab_step_plan_view view = view_of(plan);
        check_parts(&s, &view);
        s.options.micro_batches = view.micro_batches;
        s.options.balance_count = 1;
        for (int k = 0; k < 2; ++k) {
            s.options.balance = both + k;
            if (plan_of(&s, &one) != SAB_OK) continue;
            ++compared;
            const sab_step_plan_view alone = view_of(one);
            EXPECT(worst_rank(&s, &view, view.least_rank_imbalance) <=
                   worst_rank(&s, &alone, view.least_rank_imbalance) * (1 + 1e-9));
            sab_step_plan_free(one);
        }
        sab_step_plan_free(plan);
    }
    EXPECT(compared >= 20); /* of 24 */
    sab_cost_free(tokens);
    sab_cost_free(squares);
}

/* Each rank has groups that fill 95 to 98 % of three micro-batches, of three samples each. */
static void Plan_OfPlantedGroups_MostlyHasTheFewestMicroBatches(void) {
    static step s;
    int more = 0;
    for (int round = 0; round < 60; ++round) {
        int32_t lengths[16 * 9];
        const double load = 0.95 + 0.03 * uniform();
        for (size_t rank = 0; rank < 16; ++rank) {
            int32_t *const own = lengths + 9 * rank;
            for (size_t m = 0; m < 3; ++m) {
                double shares[3], sum = 0;
                for (size_t k = 0; k < 3; ++k) sum += shares[k] = exp(uniform() + uniform());
                for (size_t k = 0; k < 3; ++k)
                    own[3 * m + k] = (int32_t)floor(2048 * load * shares[k] / sum);
            }
            for (size_t k = 9; k-- > 1;) {
                const size_t other = below(k + 1);
                const int32_t moved = own[k];
                own[k] = own[other];
                own[other] = moved;
            }
        }
        set_step(&s, 16 * 9, lengths, 16, 2048);
        for (size_t i = 0; i < s.count; ++i) s.groups[i] = (int64_t)(i / 9 * 9 + i % 9 / 2);
        s.options.groups = s.groups;
        sab_step_plan *plan = NULL;
        EXPECT_OK(plan_of(&s, &plan));
        const sab_step_plan_view view = view_of(plan);
        more += view.micro_batches > 3;
        check_groups(&s, &view);
        check_parts(&s, &view);
        sab_step_plan_free(plan);
    }
    EXPECT(more <= 3);
}

/* Most samples need a micro-batch of their own, and many numbers of micro-batches do not do. */
static void Plan_OfLargeSamplesUnderTwoBudgets_IsNearItsBound(void) {
    static step s;
    const sab_cost_term terms[2] = {{1, 1, POWERS(1, 0)}, {1, 1, POWERS(0, 1)}};
    sab_cost *costs[2] = {NULL, NULL};
    int32_t lengths[MOST];
    for (size_t i = 0; i < MOST; ++i) lengths[i] = (int32_t)(1 + below(499));
    set_step(&s, MOST, lengths, 1, 499);
    s.columns = 2;
    for (size_t i = 0; i < MOST; ++i) s.sizes[1][i] = (int32_t)(1 + below(499));
    for (size_t k = 0; k < 2; ++k) {
        EXPECT_OK(sab_cost_terms_new(&terms[k], 1, &costs[k]));
        s.budgets[k].cost = costs[k];
        s.budgets[k].limit = 499;
    }
    s.options.budget_count = 2;
    sab_step_plan *plan = NULL;
    EXPECT_OK(plan_of(&s, &plan));
    const sab_step_plan_view view = view_of(plan);
    check_parts(&s, &view);
    EXPECT((double)view.micro_batches <= 1.1 * (double)view.least_micro_batches);
    sab_step_plan_free(plan);
    for (size_t i = 0; i < MOST; ++i) s.groups[i] = (int64_t)(i / 8);
    s.options.groups = s.groups;
    s.options.world_size = 4;
    EXPECT_OK(plan_of(&s, &plan));
    const sab_step_plan_view grouped = view_of(plan);
    check_groups(&s, &grouped);
    check_parts(&s, &grouped);
    EXPECT((double)grouped.micro_batches <= 1.15 * (double)grouped.least_micro_batches);
    sab_step_plan_free(plan);
    for (size_t k = 0; k < 2; ++k) sab_cost_free(costs[k]);
}

static void Plan_OfTightSteps_FillsAllMicroBatches(void) {
    static step s;
    /* Three samples make 100 in each of 40 micro-batches. */
    int32_t lengths[120];
    for (size_t i = 0; i < 40; ++i) {
        lengths[3 * i] = (int32_t)(26 + below(20));
        lengths[3 * i + 1] = (int32_t)(27 + below(10));
        lengths[3 * i + 2] = 100 - lengths[3 * i] - lengths[3 * i + 1];
    }
    set_step(&s, 120, lengths, 8, 100);
    sab_step_plan *plan = NULL;
    EXPECT_OK(plan_of(&s, &plan));
    EXPECT(view_of(plan).micro_batches <= 6);
    sab_step_plan_free(plan);
    /* Pairs make 100, which only one sample of each length allows. */
    for (int32_t i = 0; i < 40; ++i) lengths[i] = i < 20 ? 51 + i : 49 - (i - 20);
    set_step(&s, 40, lengths, 5, 100);
    EXPECT_OK(plan_of(&s, &plan));
    const sab_step_plan_view view = view_of(plan);
    EXPECT(view.micro_batches == 4 && view.rank_imbalance[0] == 1);
    sab_step_plan_free(plan);
}

static void Plan_OfRealLengths_KeepsBudgets(void) {
    double lengths[300];
    for (size_t i = 0; i < 300; ++i) lengths[i] = 0.1 + uniform();
    sab_sizes *sizes = NULL;
    EXPECT_OK(sab_sizes_new(lengths, 300, SAB_FLOAT64, NULL, &sizes));
    const sab_budget budget = {NULL, 2.7};
    sab_step_plan_options options = SAB_STEP_PLAN_OPTIONS_INIT;
    options.world_size = 4;
    options.budgets = &budget;
    options.budget_count = 1;
    sab_step_plan *plan = NULL;
    EXPECT_OK(sab_step_plan_new(sizes, &options, &plan));
    const sab_step_plan_view view = view_of(plan);
    EXPECT(view.cu_seqlens == NULL);
    for (uint64_t k = 0; k < 4 * view.micro_batches; ++k) {
        double forward = 0, backward = 0;
        for (uint64_t at = view.offsets[k]; at < view.offsets[k + 1]; ++at)
            forward += lengths[view.indices[at]];
        for (uint64_t at = view.offsets[k + 1]; at-- > view.offsets[k];)
            backward += lengths[view.indices[at]];
        EXPECT(forward <= 2.7 && backward <= 2.7);
    }
    sab_step_plan_free(plan);
    sab_sizes_free(sizes);
}

static void Order_Bell_HasTheCostliestInTheMiddle(void) {
    static step s;
    const int32_t lengths[5] = {1, 2, 3, 4, 5};
    const int64_t expected[3][5] = {{4, 3, 2, 1, 0}, {0, 1, 2, 3, 4}, {0, 2, 4, 3, 1}};
    for (sab_micro_batch_order order = 0; order < 3; ++order) {
        set_step(&s, 5, lengths, 1, 5);
        s.options.micro_batches = 5;
        s.options.order = order;
        sab_step_plan *plan = NULL;
        EXPECT_OK(plan_of(&s, &plan));
        EXPECT(memcmp(view_of(plan).indices, expected[order], sizeof expected[order]) == 0);
        sab_step_plan_free(plan);
    }
}

static void Plan_OfFewSamples_HasEmptyMicroBatches(void) {
    static step s;
    const int32_t lengths[3] = {5, 6, 7};
    set_step(&s, 3, lengths, 4, 10);
    s.options.micro_batches = 2;
    sab_step_plan *plan = NULL;
    EXPECT_OK(plan_of(&s, &plan));
    const sab_step_plan_view view = view_of(plan);
    EXPECT(view.micro_batches == 2 && view.offsets[8] == 3 && view.least_micro_batches == 1);
    check_indices(&s, &view);
    sab_step_plan_free(plan);
}

static void LossWeights_OfEachKind_SumToOne(void) {
    static step s;
    const int32_t lengths[4] = {1, 2, 3, 4};
    const int64_t groups[4] = {7, -1, 7, 7};
    const double tokens[4] = {0, 1, 1, 2};
    const double expected[4][4] = {{0.25, 0.25, 0.25, 0.25},
                                   {0.1, 0.2, 0.3, 0.4},
                                   {1 / 6.0, 0.5, 1 / 6.0, 1 / 6.0},
                                   {0, 0.25, 0.25, 0.5}};
    set_step(&s, 4, lengths, 2, 10);
    s.options.groups = groups;
    sab_step_plan *plan = NULL;
    EXPECT_OK(plan_of(&s, &plan));
    double weights[4];
    for (int k = 0; k < 4; ++k) {
        EXPECT_OK(sab_step_plan_get_loss_weights(plan, k < 3 ? k : SAB_LOSS_BY_TOKEN,
                                                 k < 3 ? NULL : tokens, weights));
        for (size_t i = 0; i < 4; ++i) EXPECT(fabs(weights[i] - expected[k][i]) < 1e-15);
    }
    const double none[4] = {0, 0, 0, 0}, negative[4] = {1, -1, 1, 1};
    EXPECT_FAILS(sab_step_plan_get_loss_weights(plan, SAB_LOSS_BY_TOKEN, none, weights),
                 SAB_E_ARGUMENT, "tokens: their sum is 0: must be finite and above 0");
    EXPECT_FAILS(sab_step_plan_get_loss_weights(plan, SAB_LOSS_BY_TOKEN, negative, weights),
                 SAB_E_ARGUMENT, "tokens[1] = -1: must be finite and at least 0");
    EXPECT_FAILS(sab_step_plan_get_loss_weights(plan, 3, NULL, weights), SAB_E_ARGUMENT,
                 "weighting = 3: must be SAB_LOSS_BY_SAMPLE (0)");
    EXPECT(weights[3] == 0.5);
    EXPECT_FAILS(sab_step_plan_get_loss_weights(NULL, 0, NULL, weights), SAB_E_ARGUMENT,
                 "plan = NULL");
    EXPECT_FAILS(sab_step_plan_get_loss_weights(plan, 0, NULL, NULL), SAB_E_ARGUMENT,
                 "weights = NULL");
    sab_step_plan_free(plan);
    set_step(&s, 4, lengths, 2, 10);
    EXPECT_OK(plan_of(&s, &plan));
    EXPECT_OK(sab_step_plan_get_loss_weights(plan, SAB_LOSS_BY_GROUP, NULL, weights));
    EXPECT(weights[1] == 0.25);
    sab_step_plan_free(plan);
}

static int32_t negative_cost(void *ctx, uint64_t count, const double *lengths, const double *totals,
                             size_t columns, double *cost) {
    (void)ctx, (void)count, (void)totals, (void)columns;
    *cost = lengths[0] == 9 ? -1 : 1;
    return lengths[0] == 8 ? 77 : 0;
}

static int32_t cancel(void *ctx, uint64_t done, uint64_t total) {
    (void)ctx, (void)done, (void)total;
    return 1;
}

/* The options that `change` are refused with these words. */
#define EXPECT_REFUSED(words, change)                             \
    do {                                                          \
        set_step(&s, 6, six, 2, 10);                              \
        change;                                                   \
        sab_step_plan *plan_ = (sab_step_plan *)&s;               \
        EXPECT_FAILS(plan_of(&s, &plan_), SAB_E_ARGUMENT, words); \
        EXPECT(plan_ == NULL);                                    \
    } while (0)

static void Plan_OfBadInput_NamesTheArgument(void) {
    static step s;
    const int32_t six[6] = {9, 4, 4, 9, 3, 2};
    const int64_t groups[6] = {5, 5, 5, 6, 6, 6};
    EXPECT_REFUSED("sizes[0] = 9: must fit options.budgets[0].limit = 8 alone; 2 of 6 samples",
                   s.budgets[0].limit = 8);
    EXPECT_REFUSED("options.budgets[0].limit = 0: must be finite and above 0",
                   s.budgets[0].limit = 0);
    EXPECT_REFUSED("options.world_size = 18446744073709551615: must be from 1",
                   s.options.world_size = UINT64_MAX);
    EXPECT_REFUSED("options.multiple = 18446744073709551615: must be from 1",
                   s.options.multiple = UINT64_MAX);
    EXPECT_REFUSED("options.padded = 2: must be 0 or 1", s.options.padded = 2);
    EXPECT_REFUSED("options.order = 3: must be", s.options.order = 3);
    EXPECT_REFUSED("options.balance_count = 9: must be at most 8", s.options.balance_count = 9);
    EXPECT_REFUSED("options.balance = NULL", s.options.balance_count = 1);
    EXPECT_REFUSED("options.micro_batches = 0: micro-batches of a rank, or a budget",
                   s.options.budget_count = 0);
    EXPECT_REFUSED(
        "options.micro_batches = 1: must be at least 2 to keep "
        "options.budgets[0].limit = 10",
        s.options.micro_batches = 1);
    EXPECT_REFUSED(
        "options.groups[2] = 5: its samples must fit 1 micro-batches of "
        "options.budgets[0].limit = 16, which hold 16",
        s.budgets[0].limit = 16;
        s.options.micro_batches = 1; s.options.groups = groups);
    EXPECT_REFUSED("options.micro_batches = 1048576: times options.world_size = 2 must be at most",
                   s.options.micro_batches = 1 << 20);
    EXPECT_REFUSED(
        "options.multiple = 700000: 2 micro-batches of a rank, rounded up to a multiple, "
        "times options.world_size = 2 must be at most 1048576",
        s.options.multiple = 700000);
    EXPECT_REFUSED("options.micro_batches = 1: must be at least 2", s.options.micro_batches = 1;
                   s.options.padded = 1);
    /* Their sum is that of two micro-batches, but 7 is part of no sum of 17. */
    const int32_t hard[6] = {8, 8, 7, 4, 4, 3};
    set_step(&s, 6, hard, 2, 17);
    s.options.micro_batches = 1;
    sab_step_plan *plan = NULL;
    EXPECT_FAILS(plan_of(&s, &plan), SAB_E_ARGUMENT,
                 "options.micro_batches = 1: no assignment of 6 samples that keeps "
                 "options.budgets[0].limit = 17 was found; use more micro-batches");
    set_step(&s, 0, six, 2, 10);
    EXPECT_FAILS(plan_of(&s, &plan), SAB_E_ARGUMENT, "sizes.count = 0: must be at least 1");
}

static void Plan_OfBadSharing_NamesTheArgument(void) {
    static step s;
    const int32_t six[6] = {9, 4, 4, 9, 3, 2};
    const int64_t groups[6] = {5, 5, 5, 6, 6, 6}, prefix[6] = {2, 2, 2, 1, 1, 1},
                  uneven[6] = {2, 2, 2, 1, 2, 1}, negative[6] = {2, 2, -2, 1, 2, 1},
                  long_one[6] = {4, 4, 4, 4, 4, 4}, tree[6] = {-1, 0, 0, -1, 3, 3},
                  cycle[6] = {-1, 0, 4, 0, 2, 4}, outside[6] = {-1, 0, 6, 0, 0, 0};
    const sab_cost *costs[2] = {squares_of(1), squares_of(1)};
    EXPECT_REFUSED("options.prefix: options.groups must be given, too", s.options.prefix = prefix);
    EXPECT_REFUSED("options.prefix[4] = 2: must be 1, that of sample 3 of the same group",
                   s.options.groups = groups;
                   s.options.prefix = uneven);
    EXPECT_REFUSED("options.prefix[2] = -2: must be from 0 to the size of the sample, 4",
                   s.options.groups = groups;
                   s.options.prefix = negative);
    EXPECT_REFUSED("options.prefix[4] = 4: must be from 0 to the size of the sample, 3",
                   s.options.groups = groups;
                   s.options.prefix = long_one);
    EXPECT_REFUSED("options.parents: must be NULL with options.groups", s.options.groups = groups;
                   s.options.parents = tree);
    EXPECT_REFUSED("options.parents: must be NULL with options.prefix", s.options.prefix = prefix;
                   s.options.parents = tree);
    EXPECT_REFUSED("options.parents[2] = 6: must be -1, or below the number of nodes, 6",
                   s.options.parents = outside);
    EXPECT_REFUSED("options.parents[2] = 4: its node must not be above itself",
                   s.options.parents = cycle);
    EXPECT_REFUSED(
        "sizes[1] = 4: its sample, of 13 tokens, must fit options.budgets[0].limit = 10 alone; "
        "4 of 4 samples do not",
        s.options.parents = tree);
    EXPECT_REFUSED("options.whole_groups = 2: must be 0 or 1", s.options.whole_groups = 2);
    EXPECT_REFUSED("options.whole_groups = 1: must be 0 without options.groups or options.parents",
                   s.options.whole_groups = 1);
    EXPECT_REFUSED("options.parents: is for micro-batches in rows", s.options.parents = tree;
                   s.options.padded = 1);
    EXPECT_REFUSED("sizes.columns = 2: must be 1 with options.parents", s.options.parents = tree;
                   s.columns = 2);
    EXPECT_REFUSED("options.balance_count = 2: must be at most 1 with options.parents",
                   s.options.parents = tree;
                   s.options.balance = costs; s.options.balance_count = 2);
    EXPECT_REFUSED(
        "options.micro_batches = 1: must be at least 3 to keep", s.options.groups = groups;
        s.options.prefix = prefix; s.options.micro_batches = 1; s.options.world_size = 1);
    sab_cost_free((sab_cost *)costs[0]);
    sab_cost_free((sab_cost *)costs[1]);
    const double halves[2] = {3.5, 3};
    const int64_t two[2] = {0, 0};
    sab_sizes *sizes = NULL;
    EXPECT_OK(sab_sizes_new(halves, 2, SAB_FLOAT64, NULL, &sizes));
    set_step(&s, 2, six, 2, 10);
    s.options.groups = s.options.prefix = two;
    sab_step_plan *plan = NULL;
    EXPECT_FAILS(sab_step_plan_new(sizes, &s.options, &plan), SAB_E_ARGUMENT,
                 "sizes[0] = 3.5: must be a whole number with options.prefix");
    sab_sizes_free(sizes);
}

static void Plan_OfCallbacks_FailsAsTheyDo(void) {
    static step s;
    const int32_t negative[2] = {9, 4}, failing[2] = {4, 8};
    sab_cost *cost = NULL;
    EXPECT_OK(sab_cost_callback_new(negative_cost, NULL, NULL, &cost));
    sab_step_plan *plan = NULL;
    set_step(&s, 2, negative, 2, 10);
    s.budgets[0].cost = cost;
    EXPECT_FAILS(plan_of(&s, &plan), SAB_E_ARGUMENT, "must be finite and not negative");
    set_step(&s, 2, failing, 2, 10);
    const sab_cost *balance = cost;
    s.options.balance = &balance;
    s.options.balance_count = 1;
    EXPECT(plan_of(&s, &plan) == SAB_E_CALLBACK && sab_last_error_code() == 77);
    sab_cost_free(cost);
    sab_cost_free(NULL);
    const int32_t two[2] = {1, 2};
    set_step(&s, 2, two, 2, 10);
    s.options.progress = cancel;
    EXPECT(plan_of(&s, &plan) == SAB_E_CANCELLED && plan == NULL);
}

static void Handles_ThatAreNull_AreRefused(void) {
    const int32_t two[2] = {1, 2};
    sab_sizes *sizes = sizes_of(two, 2);
    sab_step_plan *plan = NULL;
    sab_step_plan_options options = SAB_STEP_PLAN_OPTIONS_INIT;
    sab_step_plan_view view = SAB_STEP_PLAN_VIEW_INIT;
    EXPECT_FAILS(sab_step_plan_new(NULL, &options, &plan), SAB_E_ARGUMENT, "sizes = NULL");
    EXPECT_FAILS(sab_step_plan_new(sizes, NULL, &plan), SAB_E_ARGUMENT, "options = NULL");
    EXPECT_FAILS(sab_step_plan_new(sizes, &options, NULL), SAB_E_ARGUMENT, "plan = NULL");
    EXPECT_FAILS(sab_step_plan_get_view(NULL, &view), SAB_E_ARGUMENT, "plan = NULL");
    options.micro_batches = 1;
    EXPECT_OK(sab_step_plan_new(sizes, &options, &plan));
    EXPECT_FAILS(sab_step_plan_get_view(plan, NULL), SAB_E_ARGUMENT, "view = NULL");
    view.struct_size = 8;
    EXPECT_FAILS(sab_step_plan_get_view(plan, &view), SAB_E_ARGUMENT, "view.struct_size = 8");
    sab_step_plan_free(plan);
    sab_step_plan_free(NULL);
    sab_sizes_free(sizes);
}

int main(void) {
    RUN(Plan_OfRandomSteps_KeepsAllRules);
    RUN(Plan_OfSmallSteps_HasTheFewestMicroBatches);
    RUN(Plan_OfHardSmallSteps_HasTheFewestMicroBatches);
    RUN(Plan_OfSizesThatAreNotWhole_FillsBudgets);
    RUN(MicroSteps_OfManySamples_AreEven);
    RUN(Plan_OfManySamples_IsEvenInFewestMicroBatches);
    RUN(Plan_OfHighLoad_HasAtMostOneMicroBatchMore);
    RUN(Plan_OfTwoCosts_IsAsEvenAsOfEach);
    RUN(Plan_OfPlantedGroups_MostlyHasTheFewestMicroBatches);
    RUN(Plan_OfLargeSamplesUnderTwoBudgets_IsNearItsBound);
    RUN(Plan_OfTightSteps_FillsAllMicroBatches);
    RUN(Plan_OfRealLengths_KeepsBudgets);
    RUN(Order_Bell_HasTheCostliestInTheMiddle);
    RUN(Plan_OfFewSamples_HasEmptyMicroBatches);
    RUN(LossWeights_OfEachKind_SumToOne);
    RUN(Plan_OfBadInput_NamesTheArgument);
    RUN(Plan_OfBadSharing_NamesTheArgument);
    RUN(Plan_OfCallbacks_FailsAsTheyDo);
    RUN(Handles_ThatAreNull_AreRefused);
    return finish();
}
