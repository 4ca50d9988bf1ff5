/** @file steps.h
 * Training steps that fit the device's memory.
 *
 *     sab_max_batch_find        finds the largest batch that fits, by prediction or by search
 *     sab_step_run_in_chunks    runs a step in parts where memory does not suffice
 *     sab_memory_guard          measures real steps and lowers the budget before memory runs out
 *
 * sab_plan_verify() (sab/plan.h) runs the costliest batches of a plan before training.
 *
 * Work is the caller's, with the status codes that sab/memory.h describes.
 *
 * Tier: provisional. Functions and structs here may change or be removed in a minor release.
 */
#ifndef SAB_STEPS_H
#define SAB_STEPS_H

#include "sab/base.h"
#include "sab/memory.h"
#include "sab/plan.h"
#include "sab/ranks.h"
#include "sab/sampler.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- The largest batch ---- */

/** Runs one training step on a batch of a stated shape.
 *
 * @param ctx     the pointer given with the callback
 * @param count   samples; at least 1
 * @param length  padded length of each
 * @return 0; SAB_OUT_OF_MEMORY (or another code that the probe recognises); any other code is a
 *     failure
 */
typedef int32_t (*sab_trial_fn)(void *ctx, uint64_t count, double length);

/** Search method for the largest batch. */
typedef int32_t sab_search;
/** by prediction: steps of growing size, each as large as the curve through the earlier ones
 *  allows. The result is the last one that fits, at most 1 % below the prediction. About six steps
 *  a length, more if memory is not linear in the count (a warning is logged if 30 are not enough).
 *  Runs out of memory only if two samples do not fit, memory suddenly grows much faster, or the
 *  blocks of a caching allocator take more than the peak */
#define SAB_SEARCH_PREDICT 0
/** from two steps: memory(2) - memory(1) is the memory of one sample. Correct only if memory is
 *  linear in the count */
#define SAB_SEARCH_DIFFERENCE 1
/** bisection between 1 and `max_batch_size`; runs out of memory */
#define SAB_SEARCH_BINARY 2
/** `max_batch_size`, then half of it, until it fits */
#define SAB_SEARCH_HALVE 3

/** How a batch size is rounded down. */
typedef int32_t sab_rounding;
#define SAB_ROUND_NONE 0
#define SAB_ROUND_POWER_OF_TWO 1 /**< to a power of two */
#define SAB_ROUND_MULTIPLE 2     /**< to a multiple of `multiple`, where at least one fits */

/** Options of sab_max_batch_find(). */
typedef struct sab_max_batch_options {
    /** set by SAB_MAX_BATCH_OPTIONS_INIT */
    size_t struct_size;
    /** SAB_SEARCH_PREDICT */
    sab_search search;
    /** padded lengths to find a batch size for, in any order, each > 0; the largest is tried first.
     *  NULL: one, 1 */
    const double *lengths;
    /** number of `lengths` */
    size_t length_count;
    /** no batch size is larger; 0: 100,000 as in the torchtune proposal */
    uint64_t max_batch_size;
    /** limit of the peaks in bytes; 0: the device's `total` */
    int64_t limit;
    /** SAB_ROUND_NONE */
    sab_rounding rounding;
    /** of SAB_ROUND_MULTIPLE; else 0 */
    uint64_t multiple;
    /** all ranks get the smallest result; NULL: one rank */
    sab_reduce_fn reduce;
    /** passed to `reduce` */
    void *reduce_ctx;
    /** reports progress and may cancel, before each step; NULL */
    sab_progress_fn progress;
    /** passed to `progress` */
    void *progress_ctx;
} sab_max_batch_options;
#define SAB_MAX_BATCH_OPTIONS_INIT SAB_INIT(sab_max_batch_options)

/** Result of sab_max_batch_find(). */
typedef struct sab_max_batch {
    /** set by SAB_MAX_BATCH_INIT */
    size_t struct_size;
    /** the largest batch size for the longest length */
    uint64_t batch_size;
    /** steps run */
    uint64_t trials;
    /** steps that ran out of memory */
    uint64_t out_of_memory;
    /** measured peak of the largest batch that fits, before rounding; predicted by DIFFERENCE */
    double peak;
    /** limit of the peaks */
    int64_t limit;
} sab_max_batch;
#define SAB_MAX_BATCH_INIT SAB_INIT(sab_max_batch)

/** Finds the largest batch whose step fits.
 *
 * Restores the random generators; the caller restores model and optimizer. In a distributed run all
 * ranks call this and run the same steps. `reduce` is called once before the first step, once after
 * each step and once at the end. If a rank fails, it calls `reduce` once more, and the other ranks
 * fail with SAB_E_MISMATCH, so that no rank waits forever.
 *
 * @param probe        the device
 * @param trial        runs a step
 * @param ctx          passed to `trial`
 * @param options      NULL: the defaults
 * @param batch_sizes  room for one number a length, in the order of the lengths; may be NULL
 * @param result       filled on SAB_OK; its struct_size must be set
 * @return SAB_OK; SAB_E_DEVICE_MEMORY if not even one sample fits; SAB_E_ARGUMENT; SAB_E_CALLBACK;
 *     SAB_E_CANCELLED; SAB_E_MISMATCH if another rank failed
 */
SAB_API sab_status sab_max_batch_find(sab_probe *probe, sab_trial_fn trial, void *ctx,
                                      const sab_max_batch_options *options, uint64_t *batch_sizes,
                                      sab_max_batch *result) SAB_NOEXCEPT;

/* ---- While training ---- */

/** Runs forward and backward on a part of a batch, its loss multiplied by `weight`; gradients add
 * up over the parts.
 *
 * @param ctx     the pointer given with the callback
 * @param first   first sample of the part, from 0
 * @param count   samples of the part
 * @param weight  its share of the batch: 1 for a whole batch
 * @return 0; SAB_OUT_OF_MEMORY (or what the probe takes for it); anything else is a failure
 */
typedef int32_t (*sab_chunk_fn)(void *ctx, uint64_t first, uint64_t count, double weight);

/** How to run a step in parts. */
typedef struct sab_step_in_chunks_options {
    /** set by SAB_STEP_IN_CHUNKS_OPTIONS_INIT */
    size_t struct_size;
    /** runs a part. Must be given */
    sab_chunk_fn chunk;
    /** before each try: set the gradients to zero. NULL: nothing adds up over parts; where
     *  something does, the parts that fitted before one ran out would count twice */
    int32_t (*begin)(void *ctx);
    /** passed to both */
    void *ctx;
    /** weight of each sample in the loss, such as its tokens; none negative, with a positive sum.
     *  The weight of a part is its share of the sum. A part with weight 0 is not run. NULL: equal
     *  weights */
    const double *sample_weights;
    /** largest part of the first try; 0: the whole batch */
    uint64_t chunk_size;
} sab_step_in_chunks_options;
#define SAB_STEP_IN_CHUNKS_OPTIONS_INIT SAB_INIT(sab_step_in_chunks_options)

/** Runs a batch in parts that fit: halves the parts until none runs out of memory, each time from
 * the same random state.
 *
 * Each time it runs out a line goes to the log. The step of the optimizer is the caller's, after
 * this.
 *
 * @param probe       the device: recognises out-of-memory errors, restores random generators,
 *     releases caches
 * @param count       samples in the batch; at least 1
 * @param options     what to run; NULL is refused, since `chunk` must be given
 * @param chunk_size  filled on SAB_OK with the size of part that fitted: begin with it next time.
 *     NULL: not wanted
 * @return SAB_OK; SAB_E_DEVICE_MEMORY when not even one sample fits; SAB_E_CALLBACK
 */
SAB_API sab_status sab_step_run_in_chunks(sab_probe *probe, uint64_t count,
                                          const sab_step_in_chunks_options *options,
                                          uint64_t *chunk_size) SAB_NOEXCEPT;

/** Lowers the budget of a run before memory runs out. For one thread, that of its sampler. */
typedef struct sab_memory_guard sab_memory_guard;

/** Options of a memory guard. */
typedef struct sab_memory_guard_options {
    /** set by SAB_MEMORY_GUARD_OPTIONS_INIT */
    size_t struct_size;
    /** bytes that peaks are to stay under; 0: the device's `total` */
    int64_t limit;
    /** steps between two checks; the same on all ranks. 0: 16 */
    uint64_t interval;
    /** number of last steps that a check uses; at least 8. 0: 64 */
    uint64_t window;
    /** makes all ranks lower the budget to the smallest one; called every `interval` steps, and
     *  once more when the budget is lowered. Kept until the guard is freed. NULL: one rank */
    sab_reduce_fn reduce;
    /** passed to `reduce` */
    void *reduce_ctx;
} sab_memory_guard_options;
#define SAB_MEMORY_GUARD_OPTIONS_INIT SAB_INIT(sab_memory_guard_options)

/** Statistics of a memory guard. */
typedef struct sab_memory_guard_info {
    /** set by SAB_MEMORY_GUARD_INFO_INIT */
    size_t struct_size;
    /** number of measured steps */
    uint64_t steps;
    /** steps that ran out of memory and were split */
    uint64_t out_of_memory;
    /** times the budget was lowered */
    uint64_t lowered;
    /** limit of the plan's first budget for the coming batches, as sab_sampler_get_budget() gives
     *  it */
    double limit;
    /** largest peak */
    int64_t peak;
    /** mean of the peaks */
    double mean_peak;
    /** largest number of bytes by which peaks of the window exceed the model */
    double creep;
} sab_memory_guard_info;
#define SAB_MEMORY_GUARD_INFO_INIT SAB_INIT(sab_memory_guard_info)

/** Makes a guard for a run.
 *
 * Every `interval` steps it fits two numbers to the last `window` steps. The first one is how far
 * peaks lie above the cost of the plan's first budget. This is the constant of the cost if the cost
 * is that of a memory model, and otherwise the bytes of a unit of cost. The second one is how fast
 * the first one grows. If the coming batches would reach `limit` within two intervals, the plan's
 * first budget is lowered on all ranks (sab_sampler_set_budget()), and a message is logged. After
 * a step that ran out of memory it is lowered by at least 5 %, and to a half if no step between two
 * checks was whole.
 *
 * @param probe    the device
 * @param sampler  of a plan whose first budget has a cost that is no callback; must outlive the
 *     guard
 * @param options  NULL: the defaults
 * @param guard    the new handle; free with sab_memory_guard_free()
 * @return SAB_OK; SAB_E_ARGUMENT also when `limit` is 0 and the device's total is not known;
 *     SAB_E_UNSUPPORTED for a sampler whose first budget cannot be lowered
 */
SAB_API sab_status sab_memory_guard_new(sab_probe *probe, sab_sampler *sampler,
                                        const sab_memory_guard_options *options,
                                        sab_memory_guard **guard) SAB_NOEXCEPT;

/** Begins a step, for callers that run their own steps.
 *
 * @param guard  a handle
 * @return SAB_OK; SAB_E_CALLBACK
 */
SAB_API sab_status sab_memory_guard_begin(sab_memory_guard *guard) SAB_NOEXCEPT;

/** Ends a step that sab_memory_guard_begin() began: reads the peak and lowers the budget if
 * necessary. A failed call counts the step, too: do not repeat it.
 *
 * @param guard          a handle
 * @param batch          the batch of the step
 * @param out_of_memory  1 if the step ran out of memory, else 0
 * @return SAB_OK; SAB_E_CALLBACK; SAB_E_MISMATCH as for sab_memory_guard_step()
 */
SAB_API sab_status sab_memory_guard_end(sab_memory_guard *guard, const sab_batch *batch,
                                        int32_t out_of_memory) SAB_NOEXCEPT;

/** Statistics of the guard.
 *
 * @param guard  a handle
 * @param info   filled on SAB_OK; its struct_size must be set
 * @return SAB_OK; SAB_E_ARGUMENT
 */
SAB_API sab_status sab_memory_guard_get_info(const sab_memory_guard *guard,
                                             sab_memory_guard_info *info) SAB_NOEXCEPT;

/** Runs a step under the guard: resets the peak, runs the batch in parts (sab_step_run_in_chunks(),
 * the whole batch first), and looks at the peak.
 *
 * A step that runs out of memory is run again in halves and reported once. Peaks of steps in parts
 * (`chunk_size`) are shown, but say nothing of whole batches: the budget is not judged by them. All
 * ranks call this for every step. A step that fails is counted, too, and the rank takes part in the
 * judgement, so that no rank waits for it: do not call this again for the same step.
 *
 * @param guard    a handle
 * @param batch    the batch, as its sampler showed it; a batch of 0 samples is not run, a padded
 *     length that is negative or not finite is refused
 * @param options  what to run; NULL is refused
 * @return SAB_OK; SAB_E_DEVICE_MEMORY when not even one sample fits; SAB_E_CALLBACK; SAB_E_MISMATCH
 *     when another rank could not lower its budget: then it stays on all ranks
 */
SAB_API sab_status sab_memory_guard_step(sab_memory_guard *guard, const sab_batch *batch,
                                         const sab_step_in_chunks_options *options) SAB_NOEXCEPT;

/** Frees the handle. The sampler keeps its budget.
 *
 * @param guard  a handle or NULL
 */
SAB_API void sab_memory_guard_free(sab_memory_guard *guard) SAB_NOEXCEPT;

#ifdef __cplusplus
}
#endif

#endif
