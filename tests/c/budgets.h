/* Budgets for the option structs of tests: each struct points to one in static memory, which the
 * 256th budget after it replaces. */
#ifndef BUDGETS_H
#define BUDGETS_H

#include <sab.h>

#ifdef __cplusplus
#define BUDGETS_OF_THREAD thread_local
#else
#define BUDGETS_OF_THREAD _Thread_local
#endif

static inline const sab_budget *a_budget(const sab_cost *cost, double limit) {
    static BUDGETS_OF_THREAD sab_budget made[256];
    static BUDGETS_OF_THREAD unsigned next;
    sab_budget *const budget = &made[next++ % 256];
    budget->cost = cost;
    budget->limit = limit;
    return budget;
}

#define SET_BUDGET_OF(options, cost, limit) \
    ((options).budgets = a_budget(cost, limit), (options).budget_count = 1)
#define SET_BUDGET(options, limit) SET_BUDGET_OF(options, NULL, limit)

/* A cost of n * length^2; free with sab_cost_free(). */
static inline sab_cost *new_quadratic(void) {
    const uint32_t square = 2;
    const sab_cost_term term = {1, 1, 1, &square, {0, 0}};
    sab_cost *cost = NULL;
    (void)sab_cost_terms_new(&term, 1, &cost);
    return cost;
}

/* The same as `balance`, made once. */
static inline const sab_cost *const *squares(void) {
    static BUDGETS_OF_THREAD const sab_cost *made[1];
    if (made[0] == NULL) made[0] = new_quadratic();
    return made;
}
#define BALANCE_SQUARES(options) ((options).balance = squares(), (options).balance_count = 1)

static inline sab_cost *new_callback(sab_cost_fn fn, void *ctx) {
    sab_cost *cost = NULL;
    (void)sab_cost_callback_new(fn, ctx, NULL, &cost);
    return cost;
}

#endif
