/* Costs: their kinds, what they refuse, and who owns a callback's context. */
#include <math.h>

#include "helpers.h"
#include "one.h"

static double value_of(const sab_cost *cost, uint64_t count, const double *lengths,
                       size_t columns) {
    double value = -1;
    EXPECT_OK(sab_cost_evaluate(cost, count, lengths, NULL, columns, &value));
    return value;
}

static void Padded_IsCountTimesTheWeightedLengths(void) {
    const double weights[] = {2, 0, 0.5}, lengths[] = {10, 3, 8};
    sab_cost *cost = NULL;
    EXPECT_OK(sab_cost_padded_new(NULL, 1, &cost));
    EXPECT(value_of(cost, 4, lengths, 1) == 40);
    sab_cost_free(cost);
    EXPECT_OK(sab_cost_padded_new(NULL, 3, &cost));
    EXPECT(value_of(cost, 4, lengths, 3) == 84);
    sab_cost_free(cost);
    EXPECT_OK(sab_cost_padded_new(weights, 3, &cost));
    EXPECT(value_of(cost, 4, lengths, 3) == 96);
    sab_cost_free(cost);
}

static void Terms_AreProductsOfPowers(void) {
    const sab_cost_term terms[] = {{100, 0, POWERS(0)}, {-3, 1, POWERS(0)},
                                   {2, 1, POWERS(1)},   {0.5, 1, POWERS(2)},
                                   {1, 2, POWERS(0)},   {0.25, 1, POWERS(1, 2)}};
    const double lengths[] = {10, 3};
    sab_cost *cost = NULL;
    EXPECT_OK(sab_cost_terms_new(terms, 5, &cost));
    EXPECT(value_of(cost, 4, lengths, 1) == 100 - 12 + 80 + 200 + 16);
    sab_cost_free(cost);
    EXPECT_OK(sab_cost_terms_new(terms, COUNT(terms), &cost));
    EXPECT(value_of(cost, 4, lengths, 2) == 100 - 12 + 80 + 200 + 16 + 90);
    double value = -1; /* its second column is not there */
    EXPECT_FAILS(sab_cost_evaluate(cost, 4, lengths, NULL, 1, &value), SAB_E_ARGUMENT,
                 "columns = 1: must be from 2, the columns of the cost, to 8");
    EXPECT(value == -1);
    sab_cost_free(cost);
    EXPECT_OK(sab_cost_terms_new(terms, 1, &cost)); /* a constant has no columns */
    EXPECT(value_of(cost, 4, lengths, 1) == 100);
    sab_cost_free(cost);
}

/* What a callback was asked, and what it answers. */
struct told {
    uint64_t count;
    double lengths[2], totals[2];
    size_t columns;
    double answer;
    int32_t code;
    int released;
};

static int32_t tell(void *ctx, uint64_t count, const double *lengths, const double *totals,
                    size_t columns, double *cost) {
    struct told *told = ctx;
    told->count = count;
    told->columns = columns;
    for (size_t i = 0; i < columns && i < 2; ++i) {
        told->lengths[i] = lengths[i];
        told->totals[i] = totals[i];
    }
    *cost = told->answer;
    return told->code;
}

static void release(void *ctx) {
    ++((struct told *)ctx)->released;
}

static void Callback_GetsLengthsAndTotals(void) {
    struct told told = {.answer = 7};
    const double lengths[] = {10, 3}, totals[] = {25, 6};
    sab_cost *cost = NULL;
    double value = -1;
    EXPECT_OK(sab_cost_callback_new(tell, &told, release, &cost));
    EXPECT_OK(sab_cost_evaluate(cost, 4, lengths, totals, 2, &value));
    EXPECT(value == 7 && told.count == 4 && told.columns == 2 && told.lengths[0] == 10 &&
           told.lengths[1] == 3 && told.totals[0] == 25 && told.totals[1] == 6);
    EXPECT(value_of(cost, 4, lengths, 2) == 7 && told.totals[0] == 40 && told.totals[1] == 12);

    value = -1;
    told.code = 42;
    EXPECT_FAILS(sab_cost_evaluate(cost, 4, lengths, NULL, 2, &value), SAB_E_CALLBACK,
                 "the cost callback failed with code 42 at count 4, length 10");
    EXPECT(sab_last_error_code() == 42 && value == -1);
    told.code = 0;
    const double wrong[] = {-1, NAN, INFINITY};
    for (size_t i = 0; i < COUNT(wrong); ++i) {
        told.answer = wrong[i];
        EXPECT_FAILS(sab_cost_evaluate(cost, 4, lengths, NULL, 2, &value), SAB_E_ARGUMENT,
                     "cost(4, 10, 3) = ");
    }
    EXPECT(value == -1 && told.released == 0);
    sab_cost_free(cost);
    EXPECT(told.released == 1);
}

/* The context belongs to the caller until there is a handle. */
static void Callback_ThatIsRefused_IsNotReleased(void) {
    struct told told = {.answer = 1};
    sab_cost *cost = (sab_cost *)&told;
    EXPECT_FAILS(sab_cost_callback_new(NULL, &told, release, &cost), SAB_E_ARGUMENT, "fn = NULL");
    EXPECT(cost == NULL && told.released == 0);
    EXPECT_FAILS(sab_cost_callback_new(tell, &told, release, NULL), SAB_E_ARGUMENT, "cost = NULL");
    EXPECT(told.released == 0);
}

/* A plan does not keep the callback that priced its batches. */
static void Callback_CanBeFreedAfterThePlan(void) {
    struct told told = {.answer = 7};
    sab_cost *cost = NULL;
    EXPECT_OK(sab_cost_callback_new(tell, &told, release, &cost));
    sab_plan_options options = SAB_PLAN_OPTIONS_INIT;
    SET_BUDGET_OF(options, cost, 8);
    sab_plan *plan = plan_with(lengths(50), 50, &options);
    sab_cost_free(cost);
    EXPECT(told.released == 1 && told.columns == 1);
    told.count = 0;
    sab_sampler *sampler = rank_of(plan, 0, 1);
    int seen[50] = {0};
    EXPECT(walk(sampler, seen) > 0 && all_are(seen, 50, 1));
    sab_sampler_free(sampler);
    sab_plan_report report = SAB_PLAN_REPORT_INIT;
    EXPECT_OK(sab_plan_get_report(plan, NULL, NULL, &report));
    sab_plan_free(plan);
    EXPECT(told.count == 0);
}

static void Costs_ThatBreakARule_AreRefused(void) {
    const double weights[] = {1, -1}, zeros[] = {0, 0}, not_a_number[] = {NAN};
    sab_cost *cost = (sab_cost *)&cost;
#define REFUSED(call, words)                       \
    do {                                           \
        cost = (sab_cost *)&cost;                  \
        EXPECT_FAILS(call, SAB_E_ARGUMENT, words); \
        EXPECT(cost == NULL);                      \
    } while (0)
    REFUSED(sab_cost_padded_new(NULL, 0, &cost), "columns = 0: must be from 1 to 8");
    REFUSED(sab_cost_padded_new(NULL, 9, &cost), "columns = 9: must be from 1 to 8");
    REFUSED(sab_cost_padded_new(weights, 2, &cost), "weights[1] = -1");
    REFUSED(sab_cost_padded_new(not_a_number, 1, &cost), "weights[0] = nan");
    REFUSED(sab_cost_padded_new(zeros, 2, &cost), "at least one weight must be above 0");
    const sab_cost_term terms[65] = {{1, 1, POWERS(1)}};
    REFUSED(sab_cost_terms_new(terms, 0, &cost), "count = 0: must be from 1 to 64");
    REFUSED(sab_cost_terms_new(terms, 65, &cost), "count = 65: must be from 1 to 64");
    REFUSED(sab_cost_terms_new(terms, SIZE_MAX, &cost), "must be from 1 to 64"); /* none is read */
    REFUSED(sab_cost_terms_new(NULL, 1, &cost), "terms = NULL");
    const sab_cost_term wrong[][2] = {{{1, 1, POWERS(1)}, {-1, 1, POWERS(1)}},
                                      {{1, 1, POWERS(1)}, {-1, 2, POWERS(0)}},
                                      {{1, 1, POWERS(1)}, {-1, 0, POWERS(0)}},
                                      {{1, 1, POWERS(1)}, {NAN, 1, POWERS(0)}},
                                      {{1, 1, POWERS(1)}, {INFINITY, 1, POWERS(0)}}};
    for (size_t i = 0; i < COUNT(wrong); ++i)
        REFUSED(sab_cost_terms_new(wrong[i], 2, &cost), "terms[1].coefficient = ");
    const sab_cost_term count_power = {1, 9, POWERS(0)}, length_power = {1, 1, POWERS(0, 9)};
    REFUSED(sab_cost_terms_new(&count_power, 1, &cost),
            "terms[0].count_power = 9: must be at most 8");
    REFUSED(sab_cost_terms_new(&length_power, 1, &cost),
            "terms[0].length_powers[1] = 9: must be at most 8");
    EXPECT_FAILS(sab_cost_padded_new(NULL, 1, NULL), SAB_E_ARGUMENT, "cost = NULL");
    EXPECT_FAILS(sab_cost_terms_new(terms, 1, NULL), SAB_E_ARGUMENT, "cost = NULL");
    sab_cost_free(NULL);
}

static void Evaluate_OfWhatIsNoBatch_IsRefused(void) {
    const double lengths[9] = {3, -1, NAN}, huge[] = {1e200};
    sab_cost *cost = NULL;
    double value = -1;
    EXPECT_OK(sab_cost_padded_new(NULL, 1, &cost));
    EXPECT_FAILS(sab_cost_evaluate(NULL, 1, lengths, NULL, 1, &value), SAB_E_ARGUMENT,
                 "cost = NULL");
    EXPECT_FAILS(sab_cost_evaluate(cost, 1, NULL, NULL, 1, &value), SAB_E_ARGUMENT,
                 "lengths = NULL");
    EXPECT_FAILS(sab_cost_evaluate(cost, 1, lengths, NULL, 1, NULL), SAB_E_ARGUMENT,
                 "value = NULL");
    EXPECT_FAILS(sab_cost_evaluate(cost, 0, lengths, NULL, 1, &value), SAB_E_ARGUMENT,
                 "count = 0: must be at least 1");
    EXPECT_FAILS(sab_cost_evaluate(cost, 1, lengths, NULL, 0, &value), SAB_E_ARGUMENT,
                 "columns = 0");
    EXPECT_FAILS(sab_cost_evaluate(cost, 1, lengths, NULL, 9, &value), SAB_E_ARGUMENT,
                 "columns = 9");
    EXPECT_FAILS(sab_cost_evaluate(cost, 1, lengths, NULL, 2, &value), SAB_E_ARGUMENT,
                 "lengths[1] = -1");
    EXPECT_FAILS(sab_cost_evaluate(cost, 1, lengths, lengths + 2, 1, &value), SAB_E_ARGUMENT,
                 "totals[0] = nan");
    sab_cost_free(cost);
    cost = new_quadratic();
    EXPECT_FAILS(sab_cost_evaluate(cost, 1, huge, NULL, 1, &value), SAB_E_ARGUMENT,
                 "cost(1, 1e+200) = inf: must be finite and not negative");
    EXPECT(value == -1);
    sab_cost_free(cost);
}

static void Transformer_CostsMatricesAndAttention(void) {
    const double length = 10;
    double value = 0;
    sab_cost *cost = NULL;
    EXPECT_OK(sab_cost_transformer_new(64, 2, &cost));
    EXPECT_OK(sab_cost_evaluate(cost, 3, &length, NULL, 1, &value));
    EXPECT(value == 2 * (24. * 3 * 10 * 64 * 64 + 4. * 3 * 10 * 10 * 64));
    sab_cost_free(cost);
    EXPECT_FAILS(sab_cost_transformer_new(0, 2, &cost), SAB_E_ARGUMENT,
                 "hidden = 0: must be at least 1");
    EXPECT_FAILS(sab_cost_transformer_new(64, 0, &cost), SAB_E_ARGUMENT,
                 "layers = 0: must be at least 1");
    EXPECT(cost == NULL);
}

int main(void) {
    RUN(Transformer_CostsMatricesAndAttention);
    RUN(Padded_IsCountTimesTheWeightedLengths);
    RUN(Terms_AreProductsOfPowers);
    RUN(Callback_GetsLengthsAndTotals);
    RUN(Callback_ThatIsRefused_IsNotReleased);
    RUN(Callback_CanBeFreedAfterThePlan);
    RUN(Costs_ThatBreakARule_AreRefused);
    RUN(Evaluate_OfWhatIsNoBatch_IsRefused);
    return finish();
}
