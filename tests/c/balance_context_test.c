/* Samples that are split over groups of ranks. */
#include <math.h>
#include <stdlib.h>

#include "helpers.h"
#include "one.h"

#define MOST_RANKS 100

static sab_cost *attention(double linear, double quadratic) {
    const sab_cost_term terms[] = {{linear, 1, POWERS(1)}, {quadratic, 1, POWERS(2)}};
    sab_cost *cost = NULL;
    EXPECT_OK(sab_cost_terms_new(terms, 2, &cost));
    return cost;
}

static sab_context_plan *planned(const int32_t *lengths, size_t count, uint64_t world_size,
                                 uint64_t budget, const sab_context_options *options) {
    sab_sizes *sizes = sizes_of(lengths, count);
    sab_context_plan *plan = NULL;
    EXPECT_OK(sab_context_plan_new(sizes, world_size, budget, options, &plan));
    sab_sizes_free(sizes);
    return plan;
}

static sab_context_plan_view view_of(const sab_context_plan *plan) {
    sab_context_plan_view view = SAB_CONTEXT_PLAN_VIEW_INIT;
    EXPECT_OK(sab_context_plan_get_view(plan, &view));
    return view;
}

static double time_of(double length, double ranks, double linear, double quadratic,
                      double overhead) {
    return (linear * length + quadratic * length * length) / ranks + overhead * (ranks - 1);
}

static uint64_t tokens_of(const sab_context_part *part) {
    return part->head_end - part->head_begin + part->tail_end - part->tail_begin;
}

/* One rank's chunks of a sample are those of the sample with this number of parts. */
static int is_cut_evenly(const sab_context_part *part, uint64_t length) {
    const uint64_t chunks = 2 * (uint64_t)part->of;
    const uint64_t head = part->head_end - part->head_begin;
    const uint64_t tail = part->tail_end - part->tail_begin;
    return head >= length / chunks && head <= (length + chunks - 1) / chunks &&
           tail >= length / chunks && tail <= head;
}

typedef struct {
    const int32_t *lengths;
    size_t count;
    uint64_t world_size, budget;
    double linear, quadratic, overhead;
    sab_context_groups groups;
} Case;

/* On fewer ranks that hold it the sample would take longer. */
static int needs_all_ranks(const Case *c, const sab_context_part *part) {
    const double length = c->lengths[part->sample];
    const uint32_t fewer = c->groups == SAB_CONTEXT_POWERS_OF_TWO ? part->of / 2 : part->of - 1;
    return (double)fewer * (double)c->budget < length || fewer == 0 ||
           time_of(length, part->of, c->linear, c->quadratic, c->overhead) <=
               time_of(length, fewer, c->linear, c->quadratic, c->overhead);
}

/* Every token of every sample once, in memory, in contiguous groups, at the simulated times. */
static void check_plan(const Case *c, const sab_context_plan_view *view) {
    EXPECT(view->world_size == c->world_size && view->samples == c->count);
    EXPECT(view->offsets[0] == 0);
    uint64_t *tokens = calloc(c->count + 1, sizeof *tokens);
    uint64_t *parts = calloc(c->count + 1, sizeof *parts);
    double last = 0;
    for (uint64_t rank = 0; rank < c->world_size; ++rank) {
        double free_from = 0;
        for (uint64_t i = view->offsets[rank]; i < view->offsets[rank + 1]; ++i) {
            const sab_context_part *part = &view->parts[i];
            const uint64_t length = (uint64_t)c->lengths[part->sample];
            EXPECT(part->sample < c->count && part->part < part->of && part->of <= c->world_size);
            if (c->groups == SAB_CONTEXT_POWERS_OF_TWO) {
                EXPECT((part->of & (part->of - 1)) == 0);
                EXPECT(rank % part->of == part->part);
                EXPECT(part->start == free_from); /* no rank waits */
            }
            EXPECT(tokens_of(part) <= c->budget);
            EXPECT(is_cut_evenly(part, length));
            EXPECT(needs_all_ranks(c, part));
            EXPECT(part->start >= free_from);
            const double took =
                time_of((double)length, part->of, c->linear, c->quadratic, c->overhead);
            EXPECT(fabs(part->end - part->start - took) <= 1e-9 * part->end);
            free_from = part->end;
            tokens[part->sample] += tokens_of(part);
            ++parts[part->sample];
            /* the parts before it are on the ranks before it, at the same time */
            if (part->part > 0) {
                int found = 0;
                for (uint64_t j = view->offsets[rank - 1]; j < view->offsets[rank]; ++j) {
                    const sab_context_part *before = &view->parts[j];
                    if (before->sample != part->sample) continue;
                    found = before->part + 1 == part->part && before->of == part->of &&
                            before->start == part->start && before->end == part->end &&
                            before->head_end == part->head_begin &&
                            before->tail_begin == part->tail_end;
                }
                EXPECT(found);
            } else {
                EXPECT(part->head_begin == 0 && part->tail_end == length);
            }
            if (part->part + 1 == part->of) EXPECT(part->head_end == part->tail_begin);
        }
        last = fmax(last, free_from);
    }
    for (size_t sample = 0; sample < c->count; ++sample) {
        EXPECT(tokens[sample] == (uint64_t)c->lengths[sample]);
        EXPECT(parts[sample] >= 1);
    }
    free(tokens);
    free(parts);
    EXPECT(fabs(view->makespan - last) <= 1e-9 * last);
    EXPECT(view->lower_bound <= view->makespan);
    EXPECT(fabs(view->gap - (last > 0 ? view->makespan / view->lower_bound - 1 : 0)) <= 1e-9);
}

/* Longest first at the fewest ranks, each where it can begin first. */
static double longest_first(const Case *c) {
    double free_from[MOST_RANKS] = {0}, makespan = 0;
    int *done = calloc(c->count, sizeof *done);
    for (size_t placed = 0; placed < c->count; ++placed) {
        size_t longest = c->count;
        for (size_t i = 0; i < c->count; ++i)
            if (!done[i] && (longest == c->count || c->lengths[i] > c->lengths[longest]))
                longest = i;
        done[longest] = 1;
        uint64_t ranks = 1;
        const int any = c->groups == SAB_CONTEXT_ANY_NUMBER;
        while (ranks * c->budget < (uint64_t)c->lengths[longest])
            ranks = any ? ranks + 1 : 2 * ranks;
        uint64_t chosen = 0;
        double start = INFINITY;
        for (uint64_t first = 0; first + ranks <= c->world_size; first += any ? 1 : ranks) {
            double begins = 0;
            for (uint64_t rank = first; rank < first + ranks; ++rank)
                begins = fmax(begins, free_from[rank]);
            if (begins >= start) continue;
            start = begins;
            chosen = first;
        }
        const double end = start + time_of(c->lengths[longest], (double)ranks, c->linear,
                                           c->quadratic, c->overhead);
        for (uint64_t rank = chosen; rank < chosen + ranks; ++rank) free_from[rank] = end;
        makespan = fmax(makespan, end);
    }
    free(done);
    return makespan;
}

static sab_context_plan *plan_of(const Case *c) {
    sab_cost *cost = attention(c->linear, c->quadratic);
    sab_context_options options = SAB_CONTEXT_OPTIONS_INIT;
    options.cost = cost;
    options.overhead = c->overhead;
    options.groups = c->groups;
    sab_context_plan *plan = planned(c->lengths, c->count, c->world_size, c->budget, &options);
    sab_cost_free(cost);
    return plan;
}

static void ContextPlan_OfRandomSamples_KeepsAllRules(void) {
    random_state = 4;
    static int32_t lengths[200];
    for (int round = 0; round < 60; ++round) {
        Case c = {lengths,
                  (size_t)below(60),
                  1 + below(MOST_RANKS),
                  1 + below(3000),
                  1,
                  uniform() / 1000,
                  below(3) == 0 ? 0 : uniform() * 100,
                  round % 2 == 0 ? SAB_CONTEXT_POWERS_OF_TWO : SAB_CONTEXT_ANY_NUMBER};
        uint64_t most = c.world_size;
        if (round % 2 == 0)
            for (most = 1; 2 * most <= c.world_size;) most *= 2;
        for (size_t i = 0; i < c.count; ++i)
            lengths[i] = (int32_t)below(1 + below(most * c.budget + 1));
        sab_context_plan *plan = plan_of(&c);
        const sab_context_plan_view view = view_of(plan);
        check_plan(&c, &view);
        EXPECT(view.makespan <= longest_first(&c) * (1 + 1e-9));
        sab_context_plan_free(plan);
    }
}

static void AnyNumber_IsNeverWorseThanPowersOfTwo(void) {
    random_state = 5;
    static int32_t lengths[30];
    for (int round = 0; round < 20; ++round) {
        for (size_t i = 0; i < 30; ++i) lengths[i] = (int32_t)(1 + below(1 + below(16 * 1000)));
        Case c = {lengths, 1 + below(30), 16, 1000, 1, 0.0005, 20, SAB_CONTEXT_POWERS_OF_TWO};
        sab_context_plan *powers = plan_of(&c);
        c.groups = SAB_CONTEXT_ANY_NUMBER;
        sab_context_plan *any = plan_of(&c);
        const sab_context_plan_view view = view_of(any);
        check_plan(&c, &view);
        EXPECT(view.makespan <= view_of(powers).makespan);
        EXPECT(view.lower_bound <= view_of(powers).lower_bound * (1 + 1e-9));
        sab_context_plan_free(powers);
        sab_context_plan_free(any);
    }
}

/* With powers of two the second sample has 8 ranks, since 4 are slower; 7 are faster. */
static void AnyNumber_TakesGroupsOfPowersWithoutTheirIdleRanks(void) {
    const int32_t lengths[] = {25, 35, 11, 24, 1, 1};
    Case c = {lengths, COUNT(lengths), 8, 4096, 0, 1, 3, SAB_CONTEXT_ANY_NUMBER};
    sab_context_plan *plan = plan_of(&c);
    const sab_context_plan_view view = view_of(plan);
    check_plan(&c, &view);
    sab_context_plan_free(plan);
}

/* The least makespan of all groups of all samples and all orders, by trying all. */
static double least_of_all(const Case *c, const double *free_from, unsigned todo, double best) {
    double latest = 0;
    for (uint64_t rank = 0; rank < c->world_size; ++rank) latest = fmax(latest, free_from[rank]);
    if (latest >= best) return best;
    if (todo == 0) return latest;
    for (size_t i = 0; i < c->count; ++i) {
        if (!(todo >> i & 1)) continue;
        for (uint64_t ranks = 1; ranks <= c->world_size; ++ranks) {
            const int powers = c->groups == SAB_CONTEXT_POWERS_OF_TWO;
            if (ranks * c->budget < (uint64_t)c->lengths[i] || (powers && (ranks & (ranks - 1))))
                continue;
            for (uint64_t first = 0; first + ranks <= c->world_size; first += powers ? ranks : 1) {
                double then[8] = {0}, start = 0;
                for (uint64_t rank = 0; rank < c->world_size; ++rank) then[rank] = free_from[rank];
                for (uint64_t rank = first; rank < first + ranks; ++rank)
                    start = fmax(start, then[rank]);
                for (uint64_t rank = first; rank < first + ranks; ++rank)
                    then[rank] = start + time_of(c->lengths[i], (double)ranks, c->linear,
                                                 c->quadratic, c->overhead);
                best = least_of_all(c, then, todo & ~(1u << i), best);
            }
        }
    }
    return best;
}

static void ContextPlan_OfSmallCases_IsTheOptimum(void) {
    random_state = 6;
    int32_t lengths[5];
    for (int round = 0; round < 40; ++round) {
        const int any = round % 2;
        Case c = {lengths,
                  any ? 3 : 4,
                  any ? 3 : 4,
                  10,
                  1,
                  0.1 * uniform(),
                  4 * uniform(),
                  any ? SAB_CONTEXT_ANY_NUMBER : SAB_CONTEXT_POWERS_OF_TWO};
        for (size_t i = 0; i < c.count; ++i) lengths[i] = (int32_t)(1 + below(10 * c.world_size));
        const double none[8] = {0};
        const double least = least_of_all(&c, none, (1u << c.count) - 1, INFINITY);
        sab_context_plan *plan = plan_of(&c);
        const sab_context_plan_view view = view_of(plan);
        EXPECT(view.makespan <= least * (1 + 1e-9));
        EXPECT(view.makespan >= least * (1 - 1e-9)); /* or the simulation is wrong */
        EXPECT(view.lower_bound <= least * (1 + 1e-9));
        sab_context_plan_free(plan);
    }
}

static void ThePlan_IsTheSameInAllLanguages(void) {
    int32_t lengths[40];
    for (int i = 0; i < 40; ++i) lengths[i] = 1 + i * i * 7919 % 9973;
    const Case c = {lengths, 40, 16, 1000, 1, 1.0 / 4096, 16, SAB_CONTEXT_POWERS_OF_TWO};
    sab_context_plan *plan = plan_of(&c);
    const sab_context_plan_view view = view_of(plan);
    uint64_t sum = 0;
    for (uint64_t i = 0; i < view.offsets[16]; ++i)
        sum += (i + 1) * (64 * view.parts[i].sample + view.parts[i].part);
    EXPECT(view.makespan == 32181.948364257812 && sum == 41329840);
    sab_context_plan_free(plan);
}

static void ASampleOnFourRanks_HasChunksFromBothEnds(void) {
    const int32_t lengths[] = {18};
    sab_context_plan *plan = planned(lengths, 1, 4, 5, NULL);
    const sab_context_plan_view view = view_of(plan);
    const uint64_t expected[4][4] = {
        {0, 3, 16, 18}, {3, 6, 14, 16}, {6, 8, 12, 14}, {8, 10, 10, 12}};
    for (uint64_t rank = 0; rank < 4; ++rank) {
        EXPECT(view.offsets[rank] == rank && view.offsets[rank + 1] == rank + 1);
        const sab_context_part *part = &view.parts[rank];
        EXPECT(part->sample == 0 && part->part == rank && part->of == 4);
        EXPECT(part->head_begin == expected[rank][0] && part->head_end == expected[rank][1]);
        EXPECT(part->tail_begin == expected[rank][2] && part->tail_end == expected[rank][3]);
        EXPECT(part->start == 0 && part->end == 4.5);
    }
    EXPECT(view.makespan == 4.5 && view.lower_bound == 4.5 && view.gap == 0);
    sab_context_plan_free(plan);
}

static void AHighOverhead_LeavesSamplesTogether(void) {
    const int32_t lengths[] = {8, 8, 8, 8, 30};
    sab_context_options options = SAB_CONTEXT_OPTIONS_INIT;
    options.overhead = 1000;
    sab_context_plan *plan = planned(lengths, 5, 4, 16, &options);
    const sab_context_plan_view view = view_of(plan);
    EXPECT(view.offsets[4] == 6); /* the long one has two parts, as memory needs */
    sab_context_plan_free(plan);
}

static void NothingToDo_IsAPlan(void) {
    sab_context_plan *plan = planned(NULL, 0, 3, 5, NULL);
    sab_context_plan_view view = view_of(plan);
    EXPECT(view.samples == 0 && view.offsets[3] == 0);
    EXPECT(view.makespan == 0 && view.lower_bound == 0 && view.gap == 0);
    sab_context_plan_free(plan);
    const int32_t lengths[] = {0, 0};
    plan = planned(lengths, 2, 3, 5, NULL);
    view = view_of(plan);
    EXPECT(view.offsets[3] == 2 && view.makespan == 0 && view.gap == 0);
    EXPECT(view.parts[0].of == 1 && view.parts[0].tail_end == 0);
    sab_context_plan_free(plan);
    sab_context_plan_free(NULL);
}

static void WrongContextPlans_AreRefusedByName(void) {
    const int32_t lengths[] = {10, 65};
    const double parts[] = {10, 1.5};
    sab_sizes *sizes = sizes_of(lengths, 2), *reals = NULL;
    EXPECT_OK(sab_sizes_new(parts, 2, SAB_FLOAT64, NULL, &reals));
    sab_context_options options = SAB_CONTEXT_OPTIONS_INIT;
    sab_context_plan *plan = (sab_context_plan *)&options;
    EXPECT_FAILS(sab_context_plan_new(NULL, 8, 8, NULL, &plan), SAB_E_ARGUMENT, "lengths = NULL");
    EXPECT(plan == NULL);
    EXPECT_FAILS(sab_context_plan_new(sizes, 8, 8, NULL, NULL), SAB_E_ARGUMENT, "plan = NULL");
    EXPECT_FAILS(sab_context_plan_new(sizes, 0, 8, NULL, &plan), SAB_E_ARGUMENT,
                 "world_size = 0: must be from 1 to 65536");
    EXPECT_FAILS(sab_context_plan_new(sizes, 65537, 8, NULL, &plan), SAB_E_ARGUMENT,
                 "world_size = 65537: must be from 1 to 65536");
    EXPECT_FAILS(sab_context_plan_new(sizes, 8, 0, NULL, &plan), SAB_E_ARGUMENT,
                 "limit = 0: must be from 1 to 2^53");
    EXPECT_FAILS(sab_context_plan_new(sizes, 8, UINT64_MAX, NULL, &plan), SAB_E_ARGUMENT,
                 "must be from 1 to 2^53");
    EXPECT_FAILS(sab_context_plan_new(sizes, 8, 8, NULL, &plan), SAB_E_ARGUMENT,
                 "lengths[1] = 65: must be at most 64, what 8 ranks hold");
    EXPECT_FAILS(sab_context_plan_new(sizes, 15, 8, NULL, &plan), SAB_E_ARGUMENT,
                 "lengths[1] = 65: must be at most 64, what 8 ranks hold");
    EXPECT_FAILS(sab_context_plan_new(reals, 8, 8, NULL, &plan), SAB_E_ARGUMENT,
                 "lengths[1] = 1.5: must be a whole number");
    const double wrong[] = {-1, NAN, INFINITY};
    for (size_t i = 0; i < COUNT(wrong); ++i) {
        options.overhead = wrong[i];
        EXPECT_FAILS(sab_context_plan_new(sizes, 15, 8, &options, &plan), SAB_E_ARGUMENT,
                     "must be finite and at least 0");
    }
    options.overhead = 1e307;
    EXPECT_FAILS(sab_context_plan_new(sizes, 15, 8, &options, &plan), SAB_E_ARGUMENT,
                 "must be below 2^1022");
    options.overhead = 0;
    options.groups = 2;
    EXPECT_FAILS(sab_context_plan_new(sizes, 15, 8, &options, &plan), SAB_E_ARGUMENT,
                 "options.groups = 2: must be SAB_CONTEXT_POWERS_OF_TWO or SAB_CONTEXT_ANY_NUMBER");
    options.groups = SAB_CONTEXT_ANY_NUMBER;
    EXPECT_OK(sab_context_plan_new(sizes, 15, 8, &options, &plan));
    sab_context_plan_view view = SAB_CONTEXT_PLAN_VIEW_INIT;
    EXPECT_FAILS(sab_context_plan_get_view(NULL, &view), SAB_E_ARGUMENT, "plan = NULL");
    EXPECT_FAILS(sab_context_plan_get_view(plan, NULL), SAB_E_ARGUMENT, "view = NULL");
    view.struct_size = 3;
    EXPECT_FAILS(sab_context_plan_get_view(plan, &view), SAB_E_ARGUMENT, "view.struct_size = 3");
    sab_context_plan_free(plan);
    sab_sizes_free(sizes);
    sab_sizes_free(reals);
}

static int32_t negative(void *ctx, uint64_t count, const double *lengths, const double *totals,
                        size_t columns, double *cost) {
    (void)ctx, (void)count, (void)totals, (void)columns;
    *cost = -lengths[0];
    return lengths[0] > 50 ? 7 : 0;
}

static void WrongCosts_AreRefused(void) {
    const int32_t lengths[] = {10, 60};
    sab_sizes *sizes = sizes_of(lengths, 2);
    sab_context_options options = SAB_CONTEXT_OPTIONS_INIT;
    sab_context_plan *plan = NULL;
    sab_cost *cost = NULL;
    const sab_cost_term term = {-1, 1, POWERS(1)};
    EXPECT_FAILS(sab_cost_terms_new(&term, 1, &cost), SAB_E_ARGUMENT, "coefficient = -1");
    EXPECT_OK(sab_cost_callback_new(negative, NULL, NULL, &cost));
    options.cost = cost;
    EXPECT_FAILS(sab_context_plan_new(sizes, 8, 8, &options, &plan), SAB_E_ARGUMENT,
                 "cost(1, 10) = -10");
    sab_sizes_free(sizes);
    sizes = sizes_of(lengths + 1, 1);
    EXPECT_FAILS(sab_context_plan_new(sizes, 8, 8, &options, &plan), SAB_E_CALLBACK, "");
    EXPECT(sab_last_error_code() == 7);
    sab_cost_free(cost);
    const double weights[] = {1, 1};
    EXPECT_OK(sab_cost_padded_new(weights, 2, &cost));
    options.cost = cost;
    EXPECT_FAILS(sab_context_plan_new(sizes, 8, 8, &options, &plan), SAB_E_ARGUMENT,
                 "options.cost");
    sab_cost_free(cost);
    sab_sizes_free(sizes);
}

static int32_t count_calls(void *ctx, uint64_t done, uint64_t total) {
    EXPECT(done <= total);
    int *left = ctx;
    return --*left == 0 ? 9 : 0;
}

static void ContextPlan_CanBeCancelled(void) {
    random_state = 8;
    static int32_t lengths[40];
    for (size_t i = 0; i < 40; ++i) lengths[i] = (int32_t)(1 + below(1 + below(8000)));
    sab_sizes *sizes = sizes_of(lengths, 40);
    int left = 1000000;
    sab_context_options options = SAB_CONTEXT_OPTIONS_INIT;
    options.overhead = 10;
    options.progress = count_calls;
    options.progress_ctx = &left;
    sab_context_plan *plan = NULL;
    EXPECT_OK(sab_context_plan_new(sizes, 16, 500, &options, &plan));
    sab_context_plan_free(plan);
    const int calls = 1000000 - left;
    EXPECT(calls > 20);
    for (int last = 1; last <= calls; last += 5) {
        left = last;
        EXPECT_FAILS(sab_context_plan_new(sizes, 16, 500, &options, &plan), SAB_E_CANCELLED,
                     "code 9");
        EXPECT(plan == NULL && sab_last_error_code() == 9);
    }
    sab_sizes_free(sizes);
}

int main(void) {
    RUN(ContextPlan_OfRandomSamples_KeepsAllRules);
    RUN(AnyNumber_IsNeverWorseThanPowersOfTwo);
    RUN(AnyNumber_TakesGroupsOfPowersWithoutTheirIdleRanks);
    RUN(ContextPlan_OfSmallCases_IsTheOptimum);
    RUN(ThePlan_IsTheSameInAllLanguages);
    RUN(ASampleOnFourRanks_HasChunksFromBothEnds);
    RUN(AHighOverhead_LeavesSamplesTogether);
    RUN(NothingToDo_IsAPlan);
    RUN(WrongContextPlans_AreRefusedByName);
    RUN(WrongCosts_AreRefused);
    RUN(ContextPlan_CanBeCancelled);
    return finish();
}
