/** @file steps.h
 * Training steps: batch sizes that grow from epoch to epoch, and steps that are run in parts when
 * the device's memory does not suffice.
 *
 * Work is the caller's, with the status codes that sab/memory.h describes.
 *
 * Tier: provisional. Functions and structs here may change or be removed in a minor release.
 */
#ifndef SAB_STEPS_H
#define SAB_STEPS_H

#include "sab/base.h"
#include "sab/memory.h"
#include "sab/sampler.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Says by how much the batch grows.
 *
 * @param ctx       the pointer given with the callback
 * @param epoch     the epoch that begins
 * @param current   batch size until now
 * @param increase  to be filled with what is to be added; 0 for nothing
 * @return 0; anything else is a failure
 */
typedef int32_t (*sab_batch_increase_fn)(void *ctx, uint64_t epoch, uint64_t current,
                                         int64_t *increase);

/** Grows the batch at the beginning of an epoch, by the rule of the torchtune proposal: an increase
 * that would go past the maximum is not made.
 *
 * @param increase        says by how much
 * @param ctx             passed to `increase`
 * @param epoch           the epoch that begins
 * @param current         batch size until now; at least 1
 * @param max_batch_size  largest batch size, as sab_max_batch_find() finds it
 * @param batch_size      filled with the batch size of this epoch
 * @return SAB_OK; SAB_E_CALLBACK; SAB_E_ARGUMENT for an increase below zero
 */
SAB_API sab_status sab_batch_size_grow(sab_batch_increase_fn increase, void *ctx, uint64_t epoch,
                                       uint64_t current, uint64_t max_batch_size,
                                       uint64_t *batch_size) SAB_NOEXCEPT;

/** Ready-made schedule: the batch size of an epoch that grows by `amount` every `period` epochs.
 *
 * @param epoch           any epoch
 * @param start           batch size of epoch 0; at least 1
 * @param amount          added each time; may be 0
 * @param period          epochs from one increase to the next; at least 1
 * @param max_batch_size  largest batch size; at least `start`
 * @param batch_size      filled
 * @return SAB_OK; SAB_E_ARGUMENT
 */
SAB_API sab_status sab_batch_size_grow_linear(uint64_t epoch, uint64_t start, uint64_t amount,
                                              uint64_t period, uint64_t max_batch_size,
                                              uint64_t *batch_size) SAB_NOEXCEPT;

/** Ready-made schedule: the batch size doubles at each milestone.
 *
 * @param epoch            any epoch
 * @param start            batch size of epoch 0; at least 1
 * @param milestones       epochs at which it doubles, in any order
 * @param milestone_count  number of `milestones`
 * @param max_batch_size   largest batch size; at least `start`
 * @param batch_size       filled
 * @return SAB_OK; SAB_E_ARGUMENT
 */
SAB_API sab_status sab_batch_size_grow_doubling(uint64_t epoch, uint64_t start,
                                                const uint64_t *milestones, size_t milestone_count,
                                                uint64_t max_batch_size, uint64_t *batch_size)
    SAB_NOEXCEPT;

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
#define SAB_STEP_IN_CHUNKS_OPTIONS_INIT \
    {sizeof(sab_step_in_chunks_options), NULL, NULL, NULL, NULL, 0}

/** Sets the defaults, the same as SAB_STEP_IN_CHUNKS_OPTIONS_INIT: for languages without C's
 * macros.
 *
 * @param options      filled; NULL is ignored
 * @param struct_size  size of the caller's sab_step_in_chunks_options; exactly this many bytes are
 *     written
 */
SAB_API void sab_step_in_chunks_options_init(sab_step_in_chunks_options *options,
                                             size_t struct_size) SAB_NOEXCEPT;

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
SAB_API sab_status sab_step_in_chunks(sab_probe *probe, uint64_t count,
                                      const sab_step_in_chunks_options *options,
                                      uint64_t *chunk_size) SAB_NOEXCEPT;

/** Runs a step under the guard: resets the peak, runs the batch in parts (sab_step_in_chunks(), the
 * whole batch first), and looks at the peak.
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

#ifdef __cplusplus
}
#endif

#endif
