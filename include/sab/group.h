/** @file group.h
 *  Batches cut into groups of like lengths, so that each group is padded to its own longest.
 *
 *  sab_find_thresholds() decides, once for a data set, where to cut: lengths up to the first threshold are one group, those above it up to the second the
 *  next, and those above the last one the last.
 */
#ifndef SAB_GROUP_H
#define SAB_GROUP_H

#include "sab/base.h"
#include "sab/plan.h"
#include "sab/sizes.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Thresholds ---- */

/** What thresholds are best. */
typedef int32_t sab_thresholds_method;
#define SAB_THRESHOLDS_LEAST_TOTAL 0 /**< those whose groups cost least in sum: exact, by dynamic programming over the distinct lengths */
#define SAB_THRESHOLDS_LEAST_WORST 1 /**< those whose costliest group costs least, by bisection, and of these the ones whose groups cost least in sum: exact */
#define SAB_THRESHOLDS_RANDOMISED 2  /**< groups that cost about the same, by a greedy search from random places: that of asym. The threshold between the two
                                          neighbours whose costs differ most moves by one distinct length towards the costlier, again and again */

/** How to find thresholds. */
typedef struct sab_thresholds_options {
    size_t struct_size;              /**< set by SAB_THRESHOLDS_OPTIONS_INIT */
    sab_thresholds_method method;    /**< SAB_THRESHOLDS_LEAST_TOTAL */
    sab_cost cost;                   /**< what a group costs, of its count and its longest length; SAB_COST_PADDED */
    int32_t cost_per_sample;         /**< 1: a group costs count * cost(1, longest), and a callback is asked once for each distinct length only; 0 (default) */
    uint32_t num_trials;             /**< RANDOMISED: searches, of which the one with the most even groups counts; at least 1. 100 */
    int64_t tolerate;                /**< RANDOMISED: a search ends when more than so many steps have not made the largest difference smaller; at least 0. -1 (default):
                                          twice the number of distinct lengths */
    uint64_t seed;                   /**< RANDOMISED: of the places where searches begin, those of CPython's `random.Random(seed).sample`; 0 */
    const uint64_t *starts;          /**< RANDOMISED: instead, num_trials * k of them: for each search k of the distinct lengths, by number from 0, ascending in length, in any
                                          order, no two equal; read during the call. NULL */
    const double *coefficients;      /**< POLYNOMIAL: c[0], c[1], ...; read during the call */
    size_t coefficient_count;        /**< number of `coefficients` */
    const sab_cost_term *cost_terms; /**< TERMS, such as those of a memory model; read during the call */
    size_t cost_term_count;          /**< number of `cost_terms` */
    sab_cost_fn cost_fn;             /**< CALLBACK: called during the call */
    void *cost_ctx;                  /**< handed to `cost_fn` */
    sab_progress_fn progress;        /**< follows and may cancel; NULL */
    void *progress_ctx;              /**< handed to `progress` */
} sab_thresholds_options;
#define SAB_THRESHOLDS_OPTIONS_INIT \
    { sizeof(sab_thresholds_options), SAB_THRESHOLDS_LEAST_TOTAL, SAB_COST_PADDED, 0, 100, -1, 0, NULL, NULL, 0, NULL, 0, NULL, NULL, NULL, NULL }

/** Sets the defaults, the same bytes as SAB_THRESHOLDS_OPTIONS_INIT: for languages without C's macros.
 *
 *  @param options  filled whole; NULL is let be
 */
SAB_API void sab_thresholds_options_init(sab_thresholds_options *options) SAB_NOEXCEPT;

/** What groups by thresholds cost, when each is one batch. A group without samples costs nothing. */
typedef struct sab_thresholds_info {
    size_t struct_size;        /**< set by SAB_THRESHOLDS_INFO_INIT */
    double total;              /**< sum of the groups' costs */
    double worst;              /**< cost of the costliest group */
    double largest_difference; /**< of the costs of two neighbours: what the randomised search makes small */
    uint64_t even;             /**< RANDOMISED: searches that ended with groups of the same cost ("perfect") */
    uint64_t repeated;         /**< searches that went back to where they were two steps before ("repeated") */
    uint64_t not_tolerated;    /**< searches ended by `tolerate` ("could not tolerate") */
    uint64_t extreme;          /**< searches whose threshold could go no further, at the shortest or longest length ("extreme") */
    uint64_t narrow;           /**< searches whose threshold could go no further, beside another one ("narrow gap") */
} sab_thresholds_info;
#define SAB_THRESHOLDS_INFO_INIT { sizeof(sab_thresholds_info), 0, 0, 0, 0, 0, 0, 0, 0 }

/** Finds `k` thresholds, which cut lengths into `k` + 1 groups.
 *
 *  Thresholds are lengths that occur, ascending. The last one is the longest, and its group above empty, only where a group more would cost more (LEAST_TOTAL, for costs
 *  with a constant), or where a randomised search ended there.
 *
 *  The exact methods rely on costs that never decrease with count or length. LEAST_TOTAL also relies on this: a sample more costs at least as much in a group that is larger
 *  or longer. Formulas and `cost_per_sample` grant it; a callback of count and length may break it and is nevertheless answered exactly up to 1,024 distinct lengths, being asked about
 *  all possible groups; beyond, it is asked some (k + 1) * d * log2(d) times of d distinct lengths.
 *
 *  Time: that of sorting by counting, then some (k + 1) * d * log2(d) costs. Memory: 4 * (k + 1) * d bytes.
 *
 *  @param lengths     read during the call only; a length of zero costs as much as the shortest above zero
 *  @param k           number of thresholds, at least 1 and below the number of distinct lengths
 *  @param options     NULL: the defaults
 *  @param thresholds  room for `k` numbers, filled on SAB_OK
 *  @param info        filled on SAB_OK, its struct_size must be set; or NULL
 *  @return SAB_OK; SAB_E_ARGUMENT; SAB_E_CALLBACK from `cost_fn`; SAB_E_CANCELLED
 */
SAB_API sab_status sab_find_thresholds(const sab_sizes *lengths, uint64_t k, const sab_thresholds_options *options, double *thresholds,
                                       sab_thresholds_info *info) SAB_NOEXCEPT;

#ifdef __cplusplus
}
#endif

#endif
