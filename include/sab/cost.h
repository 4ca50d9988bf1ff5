/** @file cost.h
 * What a batch costs: the unit of a budget.
 *
 * Tier: stable.
 */
#ifndef SAB_COST_H
#define SAB_COST_H

#include "sab/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/** What a batch costs. `length` is the padded length. Never decreasing in either argument. */
typedef int32_t sab_cost;
/** count * length: padded tokens */
#define SAB_COST_PADDED 0
/** count * length^2: attention */
#define SAB_COST_QUADRATIC 1
/** c[0] + count * (c[1] + c[2] * length + c[3] * length^2 + ...) with `coefficients` c, none
 *  negative */
#define SAB_COST_POLYNOMIAL 2
/** `cost_fn`, called only while the plan is made */
#define SAB_COST_CALLBACK 3
/** the sum of `cost_terms`, which must not fall with the count; the cost of a memory model, see
 *  sab_memory_model_cost_terms() */
#define SAB_COST_TERMS 4

/** One term of a cost: coefficient * count^count_power * length^length_power. */
typedef struct sab_cost_term {
    /** finite, not negative; that of the count alone (powers 1 and 0) may be, as long as no length
     *  of the plan is so short that its cost falls with the count */
    double coefficient;
    /** at most 8 */
    uint32_t count_power;
    /** at most 8 */
    uint32_t length_power;
} sab_cost_term;

/** Says what a batch costs.
 *
 * @param ctx     the pointer given with the callback
 * @param count   samples in the batch, at least 1
 * @param length  padded length of the batch
 * @param cost    to be filled, in the unit of the budget; finite, not negative, never decreasing in
 *     `count` or `length`
 * @return 0; anything else is a failure and comes back unchanged through sab_last_callback_code()
 */
typedef int32_t (*sab_cost_fn)(void *ctx, uint64_t count, double length, double *cost);

#ifdef __cplusplus
}
#endif

#endif
