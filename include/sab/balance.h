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

/** How steps of balanced micro-batches are made. `samples` or `budgets` must be given. */
typedef struct sab_balanced_options {
    /** set by SAB_BALANCED_OPTIONS_INIT */
    size_t struct_size;
    /** samples of a step, over all ranks and micro-batches, at least as many as these; fewer if a
     *  budget is reached first. 0: as many as fit */
    uint64_t samples;
    /** what no micro-batch exceeds: all of them hold. A micro-batch is a row, without padding:
     *  sab/cost.h says what it costs, and a NULL cost is the sum of its sizes. Read during the
     *  call; callbacks are called once for each distinct size. NULL */
    const sab_budget *budgets;
    /** number of `budgets`, 0 to SAB_MAX_BUDGETS */
    size_t budget_count;
    /** share of all budgets of a step that its samples may take: the rest is room in which costs
     *  are evened out. In (0, 1]; 0.95 */
    double fill;
    /** the cost that is evened out, also that of a row; a constant term is the same for all
     *  micro-batches and is not counted. Read during the call. NULL: the cost of the first budget,
     *  or the sum of sizes without a budget */
    const sab_cost *const *balance;
    /** number of `balance`, 0 or 1 */
    size_t balance_count;
    /** how samples are dealt to micro-batches; SAB_PARTITION_KARMARKAR_KARP */
    sab_partition_method method;
    /** samples that alone exceed a budget: SAB_OVERSIZE_SKIP or SAB_OVERSIZE_ERROR (default) */
    sab_oversize oversize;
    /** follows and may cancel the constructor; NULL */
    sab_progress_fn progress;
    /** handed to `progress` */
    void *progress_ctx;
} sab_balanced_options;
#define SAB_BALANCED_OPTIONS_INIT                                                              \
    {sizeof(sab_balanced_options), 0,    NULL, 0, 0.95, NULL, 0, SAB_PARTITION_KARMARKAR_KARP, \
     SAB_OVERSIZE_ERROR,           NULL, NULL}

/** Sets the defaults, the same as SAB_BALANCED_OPTIONS_INIT: for languages without C's macros.
 *
 * @param options      filled; NULL is ignored
 * @param struct_size  size of the caller's sab_balanced_options; exactly this many bytes are
 *     written
 */
SAB_API void sab_balanced_options_init(sab_balanced_options *options, size_t struct_size)
    SAB_NOEXCEPT;

/** Steps of samples in random order, dealt to ranks and micro-batches so that all cost alike, under
 * budgets of tokens or memory: for batches without padding (packed, nested, variable-length
 * attention), whose cost is not their number of tokens.
 *
 * Each epoch permutes the samples. A step takes the next ones, up to `samples` or until the
 * budgets are used, and deals them out by sab_items_partition(): every rank takes as many
 * micro-batches, costs are near the mean, no budget is ever exceeded, no sample is lost or
 * repeated, and the ranks need not talk to each other. Samples that cost more than an eighth of a
 * mean micro-batch come in cohorts of neighbours in size, one for each micro-batch of a step, since
 * little else could outweigh them.
 *
 * A batch is a micro-batch in one row (SAB_LAYOUT_ROW). `world_size` times `micro_batches` of the
 * sampler's options is at most 2^20. `costliest_first` is not used. `last_step`: samples that fill
 * no step are dealt out nevertheless (SPLIT: a micro-batch of the last step is empty when there are
 * fewer samples than micro-batches, loss weight 0), left out, or filled up from the epoch's
 * beginning. A step is full when it has `samples`, or no sample of mean size would fit any more.
 * All steps have the same number of micro-batches.
 *
 * A state that was saved between two steps can be restored with any other world size,
 * `micro_batches`, `samples`, balance and budgets; one that was saved inside a step only with the
 * same. Samples that are too large for lower budgets are left out from there on; those that were
 * too large for the budgets that began the epoch come with the next one.
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
 * @return SAB_OK; SAB_E_ARGUMENT; SAB_E_CALLBACK from a cost; SAB_E_CANCELLED
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
    /** share of the budgets that the samples take; 0 without a budget */
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
