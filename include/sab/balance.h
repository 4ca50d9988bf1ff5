/** @file balance.h
 * Work dealt out evenly: items to parts, samples to the ranks and micro-batches of a step.
 *
 * sab_items_partition() assigns items (samples, batches, micro-batches) to parts (ranks, steps,
 * pipeline slots) so that the costliest part costs little more than the mean, optionally with as
 * many items in every part, and under a hard cap of another quantity, such as memory.
 *
 * sab_balanced_sampler_new() does so with the samples of each step.
 *
 * Tier: provisional. Functions and structs here may change or be removed in a minor release.
 */
#ifndef SAB_BALANCE_H
#define SAB_BALANCE_H

#include "sab/base.h"
#include "sab/cost.h"
#include "sab/plan.h"
#include "sab/sampler.h"
#include "sab/sizes.h"

#ifdef __cplusplus
extern "C" {
#endif

/** How items are assigned to parts at first. */
typedef int32_t sab_partition_method;
/** largest differencing: the two most uneven partial partitions are joined until one is left */
#define SAB_PARTITION_KARMARKAR_KARP 0
/** each item, costliest first, to the part that costs least so far: faster, less even */
#define SAB_PARTITION_LONGEST_FIRST 1

/** What a partition must keep. */
typedef struct sab_partition_options {
    /** set by SAB_PARTITION_OPTIONS_INIT */
    size_t struct_size;
    /** SAB_PARTITION_KARMARKAR_KARP */
    sab_partition_method method;
    /** 1: every part has the same number of items, and the count must be a multiple of the parts; 0
     *  (default) */
    int32_t equal_counts;
    /** what each item counts against `capacity`, such as tokens or bytes: finite, at least 0. NULL
     *  (default): no cap */
    const double *weights;
    /** with `weights`: no part's weights sum to more; finite, above 0. Without: 0 (default) */
    double capacity;
    /** called every few milliseconds and may cancel; NULL (default) for none */
    sab_progress_fn progress;
    /** passed to `progress` */
    void *progress_ctx;
} sab_partition_options;
#define SAB_PARTITION_OPTIONS_INIT \
    {sizeof(sab_partition_options), SAB_PARTITION_KARMARKAR_KARP, 0, NULL, 0, NULL, NULL}

/** Sets the defaults, the same as SAB_PARTITION_OPTIONS_INIT: for languages without C's macros.
 *
 * @param options      filled; NULL is ignored
 * @param struct_size  size of the caller's sab_partition_options; exactly this many bytes are
 *     written
 */
SAB_API void sab_partition_options_init(sab_partition_options *options, size_t struct_size)
    SAB_NOEXCEPT;

/** Assigns items to parts so that the largest sum of costs is small.
 *
 * Whatever the method, single items then move, or change places, between the costliest part and
 * cheaper ones while that lowers the largest sum and it is over the mean by a hundred-thousandth;
 * how long is bounded by the number of items. The same costs give the same parts on every machine.
 *
 * A cap on weights is kept always: the sum of a part's weights, added up in double in the order of
 * the items, is at most the capacity. So 0.1, 0.2 and 0.3, in this order, are more than 0.6; of
 * whole numbers every sum is exact. Where balance and cap are at odds, assignments are tried that
 * care less and less for balance. As finding one under the cap is a bin packing problem, a tight
 * cap that could be held may be refused; with several items to a part and some percent of room that
 * is rare.
 *
 * Time grows as that of sorting items and parts, plus a bounded time for what moves. By the
 * machine: a quarter of a millisecond for 4,096 items on 64 parts, half a second for a million, two
 * for two million on a million parts. Under a cap several times that: four milliseconds for the
 * 4,096, five seconds for the two million on a million parts. A cap that one item, or all together,
 * exceed is refused at once. Memory: some 80 bytes an item and 150 a part.
 *
 * @param costs    `count` costs, finite, at least 0, with a finite sum; may be NULL when `count` is
 *     0
 * @param count    number of items, at most 4,294,967,295
 * @param parts    number of parts, 1 to 2^20; may be more than there are items
 * @param options  NULL: the defaults
 * @param part_of  filled on SAB_OK with the part of each item, from 0; room for `count`
 * @return SAB_OK; SAB_E_ARGUMENT, also when no assignment under the capacity was found;
 *     SAB_E_CANCELLED
 */
SAB_API sab_status sab_items_partition(const double *costs, size_t count, uint64_t parts,
                                       const sab_partition_options *options, uint32_t *part_of)
    SAB_NOEXCEPT;

/* ---- Balanced steps ---- */

/** How steps of balanced micro-batches are made. `samples`, or a cap, must be given. */
typedef struct sab_balanced_options {
    /** set by SAB_BALANCED_OPTIONS_INIT */
    size_t struct_size;
    /** micro-batches that each rank takes in a step: gradient accumulation, stages of a pipeline to
     *  be filled. Together with the world size at most 2^20. 1 */
    uint64_t micro_batches;
    /** samples of a step, over all ranks and micro-batches, at least as many as these; fewer where
     *  a cap stands against it. 0: as many as fit */
    uint64_t samples;
    /** hard cap: no micro-batch's sizes sum to more. 0: none */
    double max_total;
    /** what a micro-batch needs: a constant, and terms of the count to the power 1, each sample's
     *  own length in it, such as the terms of a memory model of packed batches; read during the
     *  call. NULL */
    const sab_cost_term *memory_terms;
    /** number of `memory_terms`; 0: no such cap */
    size_t memory_term_count;
    /** hard cap: no micro-batch needs more by `memory_terms` */
    double memory_budget;
    /** share of all caps together that a step's samples may take: the rest is room in which costs
     *  are evened out. In (0, 1]; 0.95 */
    double fill;
    /** what a micro-batch costs: the sum over its samples of the cost of one sample of that length,
     *  without padding, which must never decrease with it. SAB_COST_PADDED: its size;
     *  SAB_COST_QUADRATIC: its square; SAB_COST_POLYNOMIAL, SAB_COST_TERMS (a fitted model) and
     *  SAB_COST_CALLBACK as for plans, of a batch of one */
    sab_cost cost;
    /** POLYNOMIAL: read during the call */
    const double *coefficients;
    /** number of `coefficients` */
    size_t coefficient_count;
    /** TERMS: read during the call */
    const sab_cost_term *cost_terms;
    /** number of `cost_terms` */
    size_t cost_term_count;
    /** CALLBACK: called during the call, once for each distinct size */
    sab_cost_fn cost_fn;
    /** handed to `cost_fn` */
    void *cost_ctx;
    /** how samples are dealt to micro-batches; SAB_PARTITION_KARMARKAR_KARP */
    sab_partition_method method;
    /** samples over a cap alone: SAB_OVERSIZE_SKIP or SAB_OVERSIZE_ERROR (default) */
    sab_oversize oversize;
    /** follows and may cancel the constructor; NULL */
    sab_progress_fn progress;
    /** handed to `progress` */
    void *progress_ctx;
} sab_balanced_options;
#define SAB_BALANCED_OPTIONS_INIT  \
    {sizeof(sab_balanced_options), \
     1,                            \
     0,                            \
     0.0,                          \
     NULL,                         \
     0,                            \
     0.0,                          \
     0.95,                         \
     SAB_COST_PADDED,              \
     NULL,                         \
     0,                            \
     NULL,                         \
     0,                            \
     NULL,                         \
     NULL,                         \
     SAB_PARTITION_KARMARKAR_KARP, \
     SAB_OVERSIZE_ERROR,           \
     NULL,                         \
     NULL}

/** Sets the defaults, the same as SAB_BALANCED_OPTIONS_INIT: for languages without C's macros.
 *
 * @param options      filled; NULL is ignored
 * @param struct_size  size of the caller's sab_balanced_options; exactly this many bytes are
 *     written
 */
SAB_API void sab_balanced_options_init(sab_balanced_options *options, size_t struct_size)
    SAB_NOEXCEPT;

/** Steps of samples in random order, dealt to ranks and micro-batches so that all cost alike, under
 * a hard cap of tokens or memory: for batches without padding (packed, nested, variable-length
 * attention), whose cost is not their number of tokens.
 *
 * Each epoch permutes the samples. A step takes the next ones, up to `samples` or until the caps
 * are full, and deals them out by sab_items_partition(): every rank takes as many micro-batches,
 * costs are near the mean, no cap is ever exceeded, no sample is lost or repeated, and the ranks
 * need not talk to each other. Samples that cost more than an eighth of a mean micro-batch come in
 * cohorts of neighbours in size, one for each micro-batch of a step, since little else could
 * outweigh them.
 *
 * sab_batch: `step` is the optimizer's step; `micro_batch` and `micro_batches` say where in it the
 * batch stands; `step_samples` and `step_total` are those of the whole step, over all ranks and
 * micro-batches: count / step_samples or total / step_total is the weight of a mean. They cost
 * nothing here: `step_totals` of the options is not used, nor is `costliest_first`. Positions
 * (seek, tell, at, count) are micro-batches of this rank. `last_step`: samples that fill no step
 * are dealt out nevertheless (SPLIT: a micro-batch of the last step is empty where there are fewer
 * samples than micro-batches, loss weight 0), left out, or filled up from the epoch's beginning. A
 * step is full when it has `samples`, or no sample of mean size would fit any more.
 *
 * A state goes on with any other world size, `micro_batches`, `samples`, cost and caps, from
 * between two steps; inside a step only with the same. Samples that are too large for lower caps
 * are left out from there on; those that were too large for the caps that began the epoch come with
 * the next one.
 *
 * Time: an epoch begins with one pass over the samples, in the constructor, sab_sampler_set_epoch()
 * and sab_sampler_state_restore(): some 50 ns each, and where a step has a sample larger than the
 * room that `fill` leaves in its micro-batch, as much again as a partition of the step costs, which
 * is some 100 ns a sample. Making a step costs a partition, too. Memory: 8 bytes a sample, 40 a
 * distinct size, 16 a step.
 *
 * @param sizes     read during the call only
 * @param balanced  see there; NULL is refused
 * @param options   NULL: seed 0, one rank
 * @param sampler   the new handle; free with sab_sampler_free()
 * @return SAB_OK; SAB_E_ARGUMENT; SAB_E_CALLBACK from `cost_fn`; SAB_E_CANCELLED
 */
SAB_API sab_status sab_balanced_sampler_new(const sab_sizes *sizes,
                                            const sab_balanced_options *balanced,
                                            const sab_sampler_options *options,
                                            sab_sampler **sampler) SAB_NOEXCEPT;

/** How even the current epoch of a balanced sampler is, for all ranks: known before any training.
 */
typedef struct sab_balanced_report {
    /** set by SAB_BALANCED_REPORT_INIT */
    size_t struct_size;
    /** samples in the sizes */
    uint64_t samples;
    /** too large */
    uint64_t skipped;
    /** left out of this epoch by SAB_LAST_STEP_DROP */
    uint64_t dropped;
    /** of the optimizer */
    uint64_t steps;
    /** sum of the sizes in the steps */
    double total;
    /** share of the caps that the samples take; 0 without a cap */
    double fill;
    /** mean over steps of (cost of the costliest rank / mean cost of the ranks); 1: perfect */
    double rank_imbalance;
    /** the largest of these */
    double largest_rank_imbalance;
    /** mean over steps of (cost of the costliest micro-batch / mean) */
    double micro_batch_imbalance;
    /** sum over steps of the cost of the costliest rank: what an epoch takes where every step waits
     *  for the slowest */
    double time;
    /** total cost / world size: what it would take without waiting */
    double least_time;
} sab_balanced_report;
#define SAB_BALANCED_REPORT_INIT {sizeof(sab_balanced_report), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}

/** Walks the current epoch of a balanced sampler, which stays where it is.
 *
 * @param sampler       made by sab_balanced_sampler_new(); from where its world size took over
 * @param progress      follows and may cancel; NULL for none
 * @param progress_ctx  handed to `progress`
 * @param report        filled on SAB_OK; its struct_size must be set
 * @return SAB_OK; SAB_E_ARGUMENT for another sampler; SAB_E_CANCELLED
 */
SAB_API sab_status sab_balanced_sampler_get_report(sab_sampler *sampler, sab_progress_fn progress,
                                                   void *progress_ctx, sab_balanced_report *report)
    SAB_NOEXCEPT;

#ifdef __cplusplus
}
#endif

#endif
