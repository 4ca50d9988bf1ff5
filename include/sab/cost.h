/** @file cost.h
 * sab_cost: the cost of a batch. sab_budget: a limit on a cost.
 *
 * A cost is a function of a batch: its number of samples `n`, and for each column of the sizes the
 * length `L` and the total `T`. It is made once and given to everything that has a budget or
 * balances work: plans, balanced steps, packed rows, thresholds.
 *
 * | function                      | cost of a batch                       |
 * |-------------------------------|---------------------------------------|
 * | sab_cost_padded_new()         | n * (w0 * L0 + w1 * L1 + ...)         |
 * | sab_cost_terms_new()          | sum of c * n^p * L0^q0 * L1^q1 * ...  |
 * | sab_cost_transformer_new()    | time of a transformer                 |
 * | sab_cost_callback_new()       | what a function returns               |
 * | sab_memory_model_cost_new()   | bytes, as a memory model predicts     |
 *
 * Polynomials and attention (n * L^2) are terms. A cost may use fewer columns than the sizes have,
 * but not more. That of a memory model is for as many columns as the model has.
 *
 * - In a padded batch `L` is the padded length, and `T` is n * L.
 * - In a row, where samples follow each other without padding, a term with p = 1 is summed over
 *   the samples, each with its own length. The term with p = 0 and no lengths counts once. Other
 *   terms are refused. A callback is called for each sample alone (n = 1) and the results are
 *   summed.
 *
 * A cost must never decrease when n or a length grows. A plan refuses a callback that it sees fall.
 *
 * Tier: stable.
 */
#ifndef SAB_COST_H
#define SAB_COST_H

#include "sab/base.h"
#include "sab/sizes.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Terms of a cost, at most. */
#define SAB_MAX_COST_TERMS 64

/** Budgets of a batch, at most. */
#define SAB_MAX_BUDGETS 8

/** The cost of a batch. Immutable. Several threads may use one handle at the same time, unless its
 * callback must not be called so. */
typedef struct sab_cost sab_cost;

/** One term of a cost: coefficient * n^count_power * L0^length_powers[0] * L1^length_powers[1] ...
 */
typedef struct sab_cost_term {
    /** finite and not negative. Exception: the coefficient of the count alone (count power 1,
     *  length powers 0) may be negative. The whole cost must then not decrease with the count for
     *  any length that it is used with */
    double coefficient;
    /** at most 8 */
    uint32_t count_power;
    /** number of `length_powers`, 0 to SAB_MAX_COLUMNS */
    uint32_t column_count;
    /** one for each column; at most 8 each. Read during the call. NULL without a length */
    const uint32_t *length_powers;
    /** 0 */
    uint64_t reserved[2];
} sab_cost_term;

/** Computes the cost of a batch.
 *
 * Called only inside of calls that are given the cost, by the thread that makes the call.
 *
 * @param ctx      the pointer given with the callback
 * @param count    samples in the batch, at least 1
 * @param lengths  one for each column: the padded length in a padded batch, the size of the sample
 *     in a row
 * @param totals   one for each column: the sum of the lengths, count * length
 * @param columns  number of `lengths` and of `totals`
 * @param cost     to be filled; finite, not negative, never decreasing in `count` or `lengths`
 * @return 0; anything else is a failure and is available unchanged from sab_last_error_code()
 */
typedef int32_t (*sab_cost_fn)(void *ctx, uint64_t count, const double *lengths,
                               const double *totals, size_t columns, double *cost);

/** Makes the padded total: n * (w0 * L0 + w1 * L1 + ...). In a row it is the total.
 *
 * @param weights  `columns` numbers, each finite and at least 0, at least one above 0; NULL: 1
 *     each. {1, 0} is for the first of two columns alone
 * @param columns  1 to SAB_MAX_COLUMNS
 * @param cost     the new handle; free with sab_cost_free(); NULL on failure
 * @return SAB_OK; SAB_E_ARGUMENT
 */
SAB_API sab_status sab_cost_padded_new(const double *weights, size_t columns, sab_cost **cost)
    SAB_NOEXCEPT;

/** Makes a sum of terms. The cost has as many columns as the terms have lengths with a power above
 * 0.
 *
 * @param terms  `count` terms; read during the call
 * @param count  1 to SAB_MAX_COST_TERMS
 * @param cost   the new handle; free with sab_cost_free(); NULL on failure
 * @return SAB_OK; SAB_E_ARGUMENT
 */
SAB_API sab_status sab_cost_terms_new(const sab_cost_term *terms, size_t count, sab_cost **cost)
    SAB_NOEXCEPT;

/** Makes the time of a transformer's step, in floating-point operations of its forward pass:
 * layers * (24 * n * L * hidden^2 + 4 * n * L^2 * hidden). The first term is that of the matrices
 * of a layer, the second that of attention; a backward pass takes twice as much. The cost has one
 * column. These are the terms of "Efficient Large-Scale Language Model Training on GPU Clusters
 * Using Megatron-LM" (Narayanan et al. 2021), without the vocabulary's.
 *
 * @param hidden  the model's hidden size, at least 1
 * @param layers  number of layers, at least 1
 * @param cost    the new handle; free with sab_cost_free(); NULL on failure
 * @return SAB_OK; SAB_E_ARGUMENT
 */
SAB_API sab_status sab_cost_transformer_new(uint64_t hidden, uint64_t layers, sab_cost **cost)
    SAB_NOEXCEPT;

/** Makes a cost that a function computes, for any number of columns.
 *
 * The function is called only inside of calls that are given the cost. Plans and samplers do not
 * keep it: the cost may be freed after the call. A budget of such a cost can therefore not be
 * lowered later (sab_sampler_set_budget()). The library does not know how the cost grows: bounds,
 * and with them buckets, may be others than with the same cost as terms. A plan calls the function
 * several times for each size.
 *
 * @param fn       computes the cost
 * @param ctx      passed to `fn` and `release`
 * @param release  called once with `ctx` by sab_cost_free(), by the thread that makes this call;
 *     not called when this function fails. NULL: not called
 * @param cost     the new handle; free with sab_cost_free(); NULL on failure
 * @return SAB_OK; SAB_E_ARGUMENT
 */
SAB_API sab_status sab_cost_callback_new(sab_cost_fn fn, void *ctx, void (*release)(void *ctx),
                                         sab_cost **cost) SAB_NOEXCEPT;

/** Computes the cost of one padded batch.
 *
 * @param cost     a handle
 * @param count    samples in the batch, at least 1
 * @param lengths  the padded length for each column; finite, at least 0
 * @param totals   passed to a callback: the sum of the lengths for each column; finite, at least 0.
 *     NULL: count * length
 * @param columns  number of `lengths` and of `totals`, 1 to SAB_MAX_COLUMNS; at least as many as
 *     the cost has
 * @param value    filled on SAB_OK
 * @return SAB_OK; SAB_E_ARGUMENT, also when the value is not finite or is negative; SAB_E_CALLBACK
 *     when the callback failed
 */
SAB_API sab_status sab_cost_evaluate(const sab_cost *cost, uint64_t count, const double *lengths,
                                     const double *totals, size_t columns, double *value)
    SAB_NOEXCEPT;

/** Frees the handle, and calls `release` of a callback. Plans and samplers that were made with the
 * cost do not need it.
 *
 * @param cost  a handle or NULL
 */
SAB_API void sab_cost_free(sab_cost *cost) SAB_NOEXCEPT;

/** A limit on a cost. */
typedef struct sab_budget {
    /** NULL: the padded total of a padded batch, the total of a row. Read during the call */
    const sab_cost *cost;
    /** in the unit of the cost; finite, above 0 and above the constant term of the cost */
    double limit;
    /** 0 */
    uint64_t reserved[2];
} sab_budget;

#ifdef __cplusplus
}
#endif

#endif
