/** @file sampler.h
 * sab_sampler: the batches of an epoch, one after the other, for one rank.
 *
 *     sab_batch batch = SAB_BATCH_INIT;
 *     sab_status status;
 *     for (int epoch = 0; epoch < 3; ++epoch) {
 *         sab_sampler_begin(sampler);
 *         while ((status = sab_next_batch(sampler, &batch)) == SAB_OK)
 *             train(batch.indices, batch.count, batch.padded_length[0]);
 *     }
 *
 * Epoch, step, micro-batch, position
 *
 * The batches of an epoch are in one global order. With W ranks and M micro-batches a step of the
 * optimizer takes the next W * M batches of the order. Micro-batch m is the next W of them, one for
 * each rank. So the batches that all ranks took before a micro-batch are the beginning of the
 * order. A state that was saved there can be restored on any number of ranks. In the bucket order
 * the micro-batches of a step are of different lengths, and those of the ranks in one micro-batch
 * of like length: see sab_sampler_options.mix_lengths. In the bucket order and in the packed order
 * each micro-batch begins at a random rank, so that no rank always gets the longest batch. The
 * balanced sampler assigns samples, not batches, to ranks: see balance.h.
 *
 * A position is the number of a batch of this rank in the epoch, from 0: it counts micro-batches.
 * sab_batch.step is the number of the optimizer's step, sab_batch.micro_batch the number of the
 * batch in this step.
 *
 * Ranks need not communicate. All take the same number of batches, and the batches of the ranks in
 * one micro-batch have nearly the same cost. The last step has as many micro-batches as its batches
 * need, the same number on all ranks. When the batches do not fill the last micro-batch of all
 * ranks, they are split between the ranks, or left out, or repeated: see sab_last_step. By default
 * no sample is lost or repeated.
 *
 * Passes
 *
 * A pass is a walk over an epoch with sab_next_batch(). sab_sampler_begin() begins one:
 *
 * | before                                                 | the pass is                       |
 * |--------------------------------------------------------|-----------------------------------|
 * | no batch was taken                                     | the current epoch                 |
 * | SAB_END was returned                                   | the next epoch                    |
 * | the last pass was not finished                         | the same epoch from its start     |
 * | a state was restored, its epoch had not returned END   | what is left of the saved epoch,  |
 * |                                                        | which may be nothing              |
 * | a state was restored, its epoch had returned SAB_END   | the next epoch                    |
 *
 * After sab_sampler_set_epoch() and sab_sampler_seek() the pass begins where they went. The first
 * call of sab_next_batch() begins a pass where none was begun, so one epoch needs no
 * sab_sampler_begin(). After SAB_END sab_next_batch() returns SAB_END again until
 * sab_sampler_begin(), sab_sampler_set_epoch() or sab_sampler_seek() is called.
 *
 * Epochs of a number of steps
 *
 * By default an epoch has each sample once. With sab_sampler_options.steps_per_epoch = N an epoch
 * has N steps, each of `micro_batches` batches of each rank, and goes on where the one before
 * stopped. So epoch k begins after k * N steps of the epochs of the data, which follow each other
 * without a gap. An epoch may have the end of one epoch of the data and the beginning of the next,
 * or several. All that is said of epochs holds for these: the table above, sab_batch.epoch, step
 * and position, sab_sampler_get_batch_count(), sab_sampler_set_epoch(), sab_sampler_seek() and
 * states. The number of batches is N * micro_batches, but for a step that ends early because
 * another budget or a state of other ranks took over inside it. The batches are those of the epochs
 * of the data: their last steps are split, left out of or filled up as `last_step` says. Where the
 * last step of an epoch of the data has fewer micro-batches, the first of the next epoch of the
 * data complete it. Loss weights are relative to the epoch of the data that the batch is of. So the
 * weights of an epoch of N steps need not have the mean 1.
 *
 * In the epoch of a restored state, another budget or other ranks may have taken over before. The
 * positions that can be reached and saved then begin there, or at the beginning of the state's
 * epoch of the data if that is later.
 *
 * sab_sampler_set_epoch() with the next epoch goes on where the present one ends, also after
 * another number of ranks or another budget took over. With a later one it skips the steps of the
 * epochs between. With an earlier one it goes where a new sampler would. Where all epochs of the
 * data have the same number of batches, this takes as long as the beginning of an epoch. Of packed
 * samplers and of mixtures it makes all epochs of the data on the way. So does
 * sab_sampler_options.epoch.
 *
 * sab_arrow_schedule_new(), sab_mixture_get_report() and sab_balanced_sampler_get_report()
 * describe the epoch of the data that the cursor is in, with its own positions.
 *
 * Loss weights
 *
 * Batches of short samples hold many samples, those of long samples few. The mean loss of each
 * gives both the same influence. sab_batch.sample_weight is the number of samples of a batch over
 * the mean number of all batches of the epoch, of all ranks and micro-batches. token_weight is the
 * same of the total. Multiply the mean loss of a batch by the weight, and take the mean over ranks
 * and micro-batches, as data parallelism and gradient accumulation do. Divide by
 * sab_sampler_options.micro_batches also in a last step that has fewer. Then each sample, or each
 * token, of the epoch counts the same. The mean weight of an epoch is 1; with steps_per_epoch, that
 * of an epoch of the data.
 *
 * - Empty batches count in the mean, and weigh 0. So do batches that SAB_LAST_STEP_WRAP repeats;
 *   those that SAB_LAST_STEP_DROP leaves out do not.
 * - After sab_sampler_set_budget(), and after a state of other ranks or micro-batches, the mean is
 *   that of the batches from there to the end of the epoch. Their mean weight is 1. The first of
 *   them reads the sizes of these samples, or of those before them if they are fewer.
 * - Where SAB_TAIL_DROP or SAB_TAIL_WRAP leaves out or repeats samples of a bucket, they count in
 *   the mean total as the mean of the bucket. So do samples of other ranks in the sharded sampler
 *   when min_batch_size leaves some out, or another number of micro-batches goes on. Sample weights
 *   are exact.
 * - Samplers without SAB_SAMPLER_BATCH_COUNT take the mean of the batches of the epoch up to this
 *   one.
 *
 * sab_sampler_get_step() gives the totals of a step over all ranks and micro-batches. The weight of
 * a batch in the mean of this step is count / step.samples, or total[0] / step.totals[0].
 *
 * Seeking and state
 *
 * In the bucket order a batch is a pure function of plan, seed, epoch and position, and of what the
 * epoch began with: see sab_bucket_sampler_new(). So seeking takes as long as a step. A saved state
 * has about 200 bytes, 500 with steps_per_epoch, which are the same on all ranks.
 *
 * A number that is not known is -1.
 *
 * Tier: stable.
 */
#ifndef SAB_SAMPLER_H
#define SAB_SAMPLER_H

#include "sab/base.h"
#include "sab/plan.h"
#include "sab/sizes.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A cursor over batches. One thread at a time. */
typedef struct sab_sampler sab_sampler;

/* ---- A batch ---- */

/** How the samples of a batch are laid out. */
typedef int32_t sab_layout;
/** each sample is padded to `padded_length` */
#define SAB_LAYOUT_PADDED 0
/** the samples are end to end in one row: see sab_sampler_get_rows() */
#define SAB_LAYOUT_ROW 1

/** One batch. Its arrays belong to the sampler and stay valid until the next call on it. */
typedef struct sab_batch {
    /** set by SAB_BATCH_INIT */
    size_t struct_size;
    /** `count` sample indices */
    const int64_t *indices;
    /** number of samples. 0 only for a rank without a share: in the last step, and when its shard
     *  has fewer samples in the bucket than the bucket has steps */
    size_t count;
    /** SAB_LAYOUT_PADDED or SAB_LAYOUT_ROW */
    sab_layout layout;
    /** number of columns of the sizes: the length of each of the three arrays below. 1 */
    size_t columns;
    /** largest size in the batch, one a column */
    const double *longest;
    /** length of the batch, one a column. Padded: `longest` rounded up to the plan's
     *  `length_multiples`, or the length of a bucket under `max_shapes` and SAB_SHAPES_AUTO. Row:
     *  the length of the row, which is the capacity in the packed sampler and `total` in the
     *  balanced sampler, unless lengths are rounded (sab/pack.h). 0 in an empty batch */
    const double *padded_length;
    /** sum of the sizes, one a column */
    const double *total;
    /** index of the bucket in the plan, as of sab_plan_get_bucket(); -1 without buckets, or in an
     *  empty batch */
    int64_t bucket;
    /** epoch of the batch */
    uint64_t epoch;
    /** step of the optimizer in the epoch, from 0 */
    uint64_t step;
    /** number of the batch among this rank's micro-batches of the step, from 0 */
    uint64_t micro_batch;
    /** that all its samples have, where sab_plan_options.separate_by separates them; 0 */
    int64_t id;
    /** `count` over the mean of all batches of the epoch; see the file comment. 0 if it is empty */
    double sample_weight;
    /** `total` over the mean of all batches of the epoch, one a column. 0 if it is empty; 1 if the
     *  mean is 0 */
    const double *token_weight;
} sab_batch;
#define SAB_BATCH_INIT SAB_INIT(sab_batch)

/** The rows of a batch whose layout is SAB_LAYOUT_ROW. Its arrays belong to the sampler and stay
 *  valid until the next call on it that shows another batch. */
typedef struct sab_rows {
    /** set by SAB_ROWS_INIT */
    size_t struct_size;
    /** as in sab_batch */
    size_t columns;
    /** for each column, `count` + 1 cumulative lengths that begin with 0, as kernels for attention
     *  of variable length take them. NULL when the lengths are not whole numbers with a sum below
     *  2^31 (balanced sampler). With `length_multiples` those of the rounded lengths */
    const int32_t *const *cu_seqlens;
    /** the position in its sample at which each of the `count` sequences begins; NULL when the
     *  sampler does not split samples */
    const int64_t *starts;
    /** length that no row exceeds, one a column; -1 in the balanced sampler, whose rows have no
     *  fixed length */
    const double *capacity;
    /** as `cu_seqlens`, of the true lengths; NULL without `length_multiples` */
    const int32_t *const *cu_seqlens_unpadded;
} sab_rows;
#define SAB_ROWS_INIT SAB_INIT(sab_rows)

/** Several batches. The arrays belong to the sampler and stay valid until the next call on it. They
 *  have the numbers of the batches one after the other. */
typedef struct sab_block {
    /** set by SAB_BLOCK_INIT */
    size_t struct_size;
    /** number of batches; at least 1 */
    size_t count;
    /** the samples of all batches; those of batch i begin at offsets[i] */
    const int64_t *indices;
    /** `count` + 1 numbers, which begin with 0 */
    const uint64_t *offsets;
    /** as in sab_batch; the same for all batches of the block */
    sab_layout layout;
    /** as in sab_batch */
    size_t columns;
    /** `count` * `columns` numbers: batch i has in column j the number i * columns + j */
    const double *longest;
    /** as `longest` */
    const double *padded_length;
    /** as `longest` */
    const double *total;
    /** one a batch */
    const int64_t *bucket;
    /** of all batches */
    uint64_t epoch;
    /** one a batch */
    const uint64_t *step;
    /** one a batch */
    const uint64_t *micro_batch;
    /** one a batch */
    const int64_t *id;
    /** for each column the cumulative lengths of all batches, as in sab_rows; those of batch i
     * begin at offsets[i] + i. NULL when the batches have none */
    const int32_t *const *cu_seqlens;
    /** beside `indices`, as in sab_rows; NULL when the batches have none */
    const int64_t *starts;
    /** one a batch */
    const double *sample_weight;
    /** as `longest` */
    const double *token_weight;
    /** as `cu_seqlens`, of the true lengths; NULL without `length_multiples` */
    const int32_t *const *cu_seqlens_unpadded;
} sab_block;
#define SAB_BLOCK_INIT SAB_INIT(sab_block)

/** A step of the optimizer, over all ranks and all their micro-batches. `totals` belongs to the
 *  sampler and stays valid until the next call on it. */
typedef struct sab_step {
    /** set by SAB_STEP_INIT */
    size_t struct_size;
    /** batches that each rank takes in the step; the last step of an epoch may have fewer than
     *  others */
    uint64_t micro_batches;
    /** number of samples */
    uint64_t samples;
    /** as in sab_batch */
    size_t columns;
    /** sum of the sizes, one a column; -1 when not known (sharded sampler of several ranks) */
    const double *totals;
} sab_step;
#define SAB_STEP_INIT SAB_INIT(sab_step)

/* ---- Samplers ---- */

/** What happens to batches that do not fill the last step of all ranks. */
typedef int32_t sab_last_step;
/** those of the last micro-batch are split so that every rank gets a share: no sample is lost or
 *  repeated. The last step may have fewer micro-batches.
 *
 *  Under `max_shapes` or SAB_SHAPES_AUTO of the plan, batches of the epoch are divided into pieces
 *  of these shapes instead, so that the last step is full. Pieces may be padded to the length of
 *  another bucket, and stand anywhere in the epoch. Where the shapes do not allow so many, the last
 *  step has empty batches, as few as possible: sab_plan_report.empty_batches. Up to 16
 *  batches of a bucket are divided together, into at most 63 pieces and of at most 2^22 samples;
 *  of a mixture each by itself. After a resume with another number of ranks only batches of the
 *  last step are divided, and empty ones of the rest of the epoch are not in the report */
#define SAB_LAST_STEP_SPLIT 0
/** they are left out of this epoch, so that all steps are full. An epoch must keep a step: the
 *  constructor, and what begins a later epoch, return SAB_E_ARGUMENT otherwise */
#define SAB_LAST_STEP_DROP 1
/** the step is filled with batches from the beginning of the epoch */
#define SAB_LAST_STEP_WRAP 2

/** Ranks, epochs and steps. Used by all samplers with random access. */
typedef struct sab_sampler_options {
    /** set by SAB_SAMPLER_OPTIONS_INIT */
    size_t struct_size;
    /** seed of the shuffled orders; the same on all ranks. 0 */
    uint64_t seed;
    /** the first epoch. 0 */
    uint64_t epoch;
    /** this rank, below `world_size`. 0 */
    uint64_t rank;
    /** number of ranks, at most 2^32 - 1; 0: 1 */
    uint64_t world_size;
    /** batches that each rank takes in a step, at most 2^20: gradient accumulation, stages of a
     *  pipeline; the same on all ranks. 0: 1 */
    uint64_t micro_batches;
    /** SAB_LAST_STEP_SPLIT */
    sab_last_step last_step;
    /** bucket order and packed order only: the epoch begins with at least this many of the batches
     *  that may cost most, so that a lack of memory shows early. 0 */
    uint64_t costliest_first;
    /** bucket order: 0: of batches of nearly equal cost, those of like length form a micro-step. 1:
     *  a micro-step holds batches of all lengths */
    int32_t mix_lengths;
    /** bucket order: the cost that a micro-step evens out over the ranks, of a padded batch. Read
     *  during the call; a callback is called for the batches of each bucket, and refused for a
     *  mixture. NULL: the cost of the first budget */
    const sab_cost *const *balance;
    /** number of `balance`, 0 or 1 */
    size_t balance_count;
    /** steps of an epoch, at most 2^32: the next epoch goes on where this one stopped. 0: an epoch
     *  has each sample once */
    uint64_t steps_per_epoch;
} sab_sampler_options;
#define SAB_SAMPLER_OPTIONS_INIT SAB_INIT(sab_sampler_options)

/** The bucket order: shuffled, random access, a pure function of (plan, seed, epoch, position) and
 * of what the epoch began with: world size, micro-batches, `costliest_first`, `mix_lengths` and
 * `balance`.
 *
 * Each epoch permutes the samples inside each bucket and the batches of the epoch with keyed
 * permutations (order version 3), so nothing is shuffled in memory. Samples that are padded to the
 * same lengths and lie in several buckets are exchanged first, which changes neither padding nor
 * the sizes of batches. Batches of nearly equal cost and like length form a micro-step. The smaller
 * last batches of buckets are placed where they change the balance of a step least.
 *
 * Epochs with odd numbers may have buckets of their own, whose borders lie in the middle of those
 * of the others. Fewer mates of an epoch then meet again in the next one. Both have the same number
 * of batches and keep the same rules. Automatic plans of one column have a second set of buckets
 * where it adds at most 1 % of the batches and pays for its padding; sab_plan_info.second_buckets
 * says so. None have it with `separate_by`, `max_shapes`, `min_batch_size` above 1 or
 * `bucket_batches` 1, and none of mixtures.
 *
 * @param plan     may be freed before the sampler
 * @param options  NULL: seed 0, one rank
 * @param sampler  the new handle; free with sab_sampler_free()
 * @return SAB_OK; SAB_E_ARGUMENT; SAB_E_FORMAT for a plan file whose buckets are damaged
 */
SAB_API sab_status sab_bucket_sampler_new(const sab_plan *plan, const sab_sampler_options *options,
                                          sab_sampler **sampler) SAB_NOEXCEPT;

/** The plan's batches unshuffled: buckets by ascending size, samples by size, then by index. For
 * evaluation. All epochs have the buckets of epochs with even numbers.
 *
 * @param plan     may be freed before the sampler
 * @param options  NULL: one rank. `seed` and `costliest_first` must be 0
 * @param sampler  the new handle; free with sab_sampler_free()
 * @return SAB_OK; SAB_E_ARGUMENT; SAB_E_FORMAT for a plan file whose buckets are damaged
 */
SAB_API sab_status sab_sequential_sampler_new(const sab_plan *plan,
                                              const sab_sampler_options *options,
                                              sab_sampler **sampler) SAB_NOEXCEPT;

/** The `count` costliest batches that an epoch of the plan can have, costliest first. Run them once
 * before training to see that memory suffices.
 *
 * Each bucket gives the batch of its longest samples. When `count` is larger than the number of
 * buckets, each gives the batch of the next longest, and so on. Of two sets of buckets they come
 * from the one with the costliest batch. No batch of any epoch costs more than the first of these.
 * Of samples with several sizes that holds where full batches have at least as many samples as
 * there are columns. Weights are relative to the mean of these batches.
 *
 * @param plan     may be freed before the sampler
 * @param count    how many at most; at least 1
 * @param sampler  the new handle, for one rank; free with sab_sampler_free()
 * @return SAB_OK; SAB_E_ARGUMENT; SAB_E_FORMAT for a plan file whose buckets are damaged
 */
SAB_API sab_status sab_costliest_sampler_new(const sab_plan *plan, uint64_t count,
                                             sab_sampler **sampler) SAB_NOEXCEPT;

/** Greedy batches in an order of the caller's: a batch closes before its total would exceed
 * `limit`.
 *
 * A sample over the limit alone is skipped and counted, with a log message. If all samples are, the
 * call is refused. This is the rule of `SizeAwareBatchSampler` of
 * bionemo-size-aware-batching 1.0.0, which then has no batch. The constructor finds the batches in
 * one pass and keeps 24 bytes for each.
 *
 * @param indices  order of the samples, copied; NULL: 0, 1, 2, ...
 * @param count    number of `indices`; with NULL indices at most the number of sizes
 * @param sizes    sizes of the samples; may be freed before the sampler, but memory that they
 * borrow must stay valid
 * @param limit    largest total of a batch; finite, at least 0
 * @param options  NULL: one rank. `seed` and `costliest_first` must be 0
 * @param sampler  the new handle; free with sab_sampler_free()
 * @return SAB_OK; SAB_E_ARGUMENT, also for an index outside the sizes, and for samples that are all
 *     over the limit
 */
SAB_API sab_status sab_ordered_sampler_new(const int64_t *indices, size_t count,
                                           const sab_sizes *sizes, double limit,
                                           const sab_sampler_options *options,
                                           sab_sampler **sampler) SAB_NOEXCEPT;

/* ---- Walking ---- */

/** Begins a pass over an epoch; the table of the file comment says which.
 *
 * @param sampler  any sampler
 * @return SAB_OK; SAB_E_CALLBACK when a callback that makes batches failed
 */
SAB_API sab_status sab_sampler_begin(sab_sampler *sampler) SAB_NOEXCEPT;

/** Moves to the next batch and shows it in `*batch`.
 *
 * @param sampler  any sampler
 * @param batch    filled on SAB_OK, untouched otherwise; its struct_size must be set
 *     (SAB_BATCH_INIT)
 * @return SAB_OK; SAB_END when the epoch has no more batches, again on every further call until
 *     sab_sampler_begin(), sab_sampler_set_epoch() or sab_sampler_seek(); SAB_E_CALLBACK when a
 *     callback of the sampler failed: the unfinished batch is kept, and the next call continues
 *     with the sample that failed
 */
SAB_API sab_status sab_next_batch(sab_sampler *sampler, sab_batch *batch) SAB_NOEXCEPT;

/** Shows the rows of the batch that sab_next_batch() or sab_sampler_at() showed last.
 *
 * @param sampler  any sampler
 * @param rows     filled on SAB_OK, untouched otherwise; its struct_size must be set
 *     (SAB_ROWS_INIT)
 * @return SAB_OK; SAB_E_UNSUPPORTED when the batch is padded; SAB_E_ARGUMENT when there is no such
 *     batch: before the first one, after these two returned anything but SAB_OK, and after a call
 *     that moved the cursor to another epoch, state or budget, or over several batches
 */
SAB_API sab_status sab_sampler_get_rows(sab_sampler *sampler, sab_rows *rows) SAB_NOEXCEPT;

/** Shows the step of the batch that sab_next_batch() or sab_sampler_at() showed last.
 *
 * Computes the batches of all ranks in the step, so the time grows with the numbers of ranks and of
 * micro-batches. The batch that was shown stays valid.
 *
 * @param sampler  any sampler
 * @param step     filled on SAB_OK, untouched otherwise; its struct_size must be set
 *     (SAB_STEP_INIT)
 * @return SAB_OK; SAB_E_ARGUMENT when there is no such batch, as for sab_sampler_get_rows()
 */
SAB_API sab_status sab_sampler_get_step(sab_sampler *sampler, sab_step *step) SAB_NOEXCEPT;

/** Moves over several batches and shows them in `*block`: those that as many calls of
 * sab_next_batch() would show.
 *
 * The block ends at `max_batches`, at the end of the epoch, and before a batch with a failure,
 * which the next call meets. It also ends before a batch of another layout, or with other arrays
 * than the first. Without SAB_SAMPLER_RANDOM_ACCESS each block has one batch. The sampler keeps the
 * memory of the largest block: of one column about 8 bytes a sample and 88 a batch. With random
 * access, sab_sampler_get_rows() and sab_sampler_get_step() have no batch to show afterwards.
 *
 * @param sampler      any sampler
 * @param max_batches  at least 1
 * @param block        filled on SAB_OK, untouched otherwise; its struct_size must be set
 *     (SAB_BLOCK_INIT)
 * @return SAB_OK; SAB_END and SAB_E_CALLBACK as sab_next_batch(); SAB_E_ARGUMENT
 */
SAB_API sab_status sab_next_block(sab_sampler *sampler, size_t max_batches, sab_block *block)
    SAB_NOEXCEPT;

/** Shows the batch at a position of the current epoch without moving the cursor.
 *
 * @param sampler   a sampler with random access
 * @param position  number of a batch of this rank, below sab_sampler_get_batch_count() and not
 * before the position at which a state of other ranks or another budget took over
 * @param batch     as for sab_next_batch()
 * @return SAB_OK; SAB_E_ARGUMENT; SAB_E_UNSUPPORTED
 */
SAB_API sab_status sab_sampler_at(sab_sampler *sampler, uint64_t position, sab_batch *batch)
    SAB_NOEXCEPT;

/** sab_sampler_get_batch_count() */
#define SAB_SAMPLER_BATCH_COUNT 1
/** sab_sampler_at(), sab_sampler_seek() to any position, sab_sampler_state_save(),
 *  sab_sampler_state_save_at() and sab_sampler_state_restore() */
#define SAB_SAMPLER_RANDOM_ACCESS 2
/** sab_sampler_get_budget() and sab_sampler_set_budget() */
#define SAB_SAMPLER_BUDGET 4
/** sab_arrow_schedule_new() */
#define SAB_SAMPLER_SCHEDULE 8

/** Returns which functions a sampler supports, apart from those that every sampler has.
 *
 * A function that is not supported returns SAB_E_UNSUPPORTED. The capabilities of a sampler never
 * change.
 *
 * @param sampler       a handle
 * @param capabilities  filled with the sum of the supported SAB_SAMPLER_BATCH_COUNT,
 *     SAB_SAMPLER_RANDOM_ACCESS, SAB_SAMPLER_BUDGET and SAB_SAMPLER_SCHEDULE; a later version may
 *     add others
 * @return SAB_OK; SAB_E_ARGUMENT
 */
SAB_API sab_status sab_sampler_get_capabilities(const sab_sampler *sampler, uint64_t *capabilities)
    SAB_NOEXCEPT;

/** Exact number of batches that this rank takes in the current epoch; the same on every rank. After
 * a restore from another number of ranks it includes the batches that each of those took.
 *
 * @param sampler  a handle
 * @param count    filled on SAB_OK
 * @return SAB_OK; SAB_E_UNSUPPORTED where the length is not known
 */
SAB_API sab_status sab_sampler_get_batch_count(const sab_sampler *sampler, uint64_t *count)
    SAB_NOEXCEPT;

/** Lists the samples that the sampler leaves out because they are too large, by ascending size.
 * With `min_batch_size` those of the current epoch follow that no batch has room for: under a
 * lowered budget, or where samples are spread over ranks. Samplers that read their samples while
 * they are walked list those of the current epoch so far, in the order in which they were read.
 *
 * @param sampler   a handle
 * @param indices   room for `capacity` indices; may be NULL if `capacity` is 0
 * @param capacity  0: only `count` is filled; otherwise at least `count`
 * @param count     filled with the number of samples left out
 * @return SAB_OK; SAB_E_ARGUMENT; SAB_E_FORMAT when the plan's file was changed
 */
SAB_API sab_status sab_sampler_get_skipped(const sab_sampler *sampler, int64_t *indices,
                                           size_t capacity, size_t *count) SAB_NOEXCEPT;

/** One shape of the batches of the current epoch, of all ranks: as sab_plan_get_shape(), with those
 * of a last step that is split. Under a lowered budget, and in the rest of an epoch after one,
 * those of the batches from where it took over on. Without few shapes, a batch of its count may be
 * padded to less.
 *
 * @param sampler  of a plan: sab_bucket_sampler_new(), sab_sequential_sampler_new(),
 *     sab_costliest_sampler_new()
 * @param index    from 0: the costliest, by the first budget
 * @param shape    filled on SAB_OK; its struct_size must be set. Its array stays valid until the
 *     next call on the sampler
 * @return SAB_OK; SAB_END when there are not so many; SAB_E_ARGUMENT; SAB_E_UNSUPPORTED for another
 *     sampler
 */
SAB_API sab_status sab_sampler_get_shape(sab_sampler *sampler, size_t index, sab_shape *shape)
    SAB_NOEXCEPT;

/** Moves the cursor to the first batch of an epoch.
 *
 * @param sampler  a handle
 * @param epoch    any number; the same on all ranks
 * @return SAB_OK; SAB_E_ARGUMENT; SAB_E_CALLBACK when a callback that makes batches failed
 */
SAB_API sab_status sab_sampler_set_epoch(sab_sampler *sampler, uint64_t epoch) SAB_NOEXCEPT;

/** Moves the cursor in the current epoch: sab_next_batch() will show the batch at `position`.
 *
 * @param sampler   a sampler with random access (any sampler for position 0, which begins the epoch
 *     again)
 * @param position  number of a batch of this rank, at most sab_sampler_get_batch_count(), which is
 * the end
 * @return SAB_OK; SAB_E_ARGUMENT; SAB_E_UNSUPPORTED
 */
SAB_API sab_status sab_sampler_seek(sab_sampler *sampler, uint64_t position) SAB_NOEXCEPT;

/** Tells where the cursor is.
 *
 * @param sampler   a handle
 * @param epoch     filled with the current epoch
 * @param position  filled with the position of the batch that sab_next_batch() will show
 * @return SAB_OK; SAB_E_ARGUMENT
 */
SAB_API sab_status sab_sampler_tell(const sab_sampler *sampler, uint64_t *epoch, uint64_t *position)
    SAB_NOEXCEPT;

/** Sets another limit for one of the plan's budgets, for the batches to come in this epoch and the
 * following ones. Use it when less memory is free than the plan assumed. The other budgets stay as
 * they are.
 *
 * The samples of each bucket that no rank has taken yet are cut into new batches: into n / b,
 * rounded up, where n is their number. b is the number of samples of the bucket's padded length
 * that all limits pay for, and at most the plan's batch size. A limit that is raised again makes
 * larger batches of the samples that are left then. No sample is lost or repeated, but for those
 * that sab_plan_options.min_batch_size has no room for. The samples of a bucket keep their order.
 * All ranks still take the same number of batches, and only the last step is split.
 * SAB_LAST_STEP_WRAP repeats batches of those that were left.
 *
 * In the sequential order the new batches stand where their first samples stood. In the bucket
 * order the batches of a step cost nearly the same again. Those of a mixture keep every source near
 * its due.
 *
 * The limits are part of the saved state. All ranks must set the limit at the same position. If
 * this is inside a step of several micro-batches, the step ends there. Only a single sample that
 * alone costs more than the lowered limit exceeds it. Setting the limit that holds already changes
 * nothing.
 *
 * Time and memory grow with the number of batches left (12 bytes a batch). The next batch reads the
 * sizes of all samples that are left, for the weights. Of a mixture, they are read at once.
 *
 * @param sampler  of a plan (sab_bucket_sampler_new(), sab_sequential_sampler_new()) with a budget
 *     whose cost is no callback, or without a budget
 * @param index    of the budget; below sab_plan_info.budget_count. 0 of a plan without a budget is
 *     the padded total
 * @param limit    in the unit of the budget's cost; finite, above its constant. It must pay for
 *     `min_batch_size` samples of a bucket. 0, or more than the plan's own limit: the plan's own
 *     limit again
 * @return SAB_OK; SAB_E_ARGUMENT; SAB_E_UNSUPPORTED for another sampler and for a budget whose cost
 *     is a callback, which the plan does not keep
 */
SAB_API sab_status sab_sampler_set_budget(sab_sampler *sampler, size_t index, double limit)
    SAB_NOEXCEPT;

/** Reads the limit of a budget for the batches to come.
 *
 * @param sampler  as for sab_sampler_set_budget()
 * @param index    as for sab_sampler_set_budget()
 * @param limit    filled with the limit that was set, or the plan's own; 0 when the plan has none
 * @return SAB_OK; SAB_E_ARGUMENT; SAB_E_UNSUPPORTED
 */
SAB_API sab_status sab_sampler_get_budget(const sab_sampler *sampler, size_t index, double *limit)
    SAB_NOEXCEPT;

/** Saves where the cursor is, and whether the epoch has returned SAB_END. All ranks at one position
 * save the same bytes. Format: docs/internals/formats.md.
 *
 * @param sampler   a sampler with random access
 * @param state     room for `capacity` bytes; may be NULL when `capacity` is 0
 * @param capacity  0: only `size` is filled; otherwise at least `size`
 * @param size      filled with the number of bytes of the state
 * @return SAB_OK; SAB_E_ARGUMENT for too small a buffer; SAB_E_UNSUPPORTED
 */
SAB_API sab_status sab_sampler_state_save(const sab_sampler *sampler, void *state, size_t capacity,
                                          size_t *size) SAB_NOEXCEPT;

/** Saves the state that the sampler had after so many batches of the current epoch, before its end
 * was reported. For loaders that fetch batches ahead of training: the cursor does not move.
 *
 * A limit that sab_sampler_set_budget() set after that position holds from there on in the state.
 *
 * @param sampler   a sampler with random access
 * @param position  number of batches of this rank, at most sab_sampler_get_batch_count(); after a
 *     state was restored, at least the first that sab_sampler_seek() could reach right after it
 * @param state     as for sab_sampler_state_save()
 * @param capacity  as for sab_sampler_state_save()
 * @param size      as for sab_sampler_state_save()
 * @return SAB_OK; SAB_E_ARGUMENT; SAB_E_UNSUPPORTED
 */
SAB_API sab_status sab_sampler_state_save_at(const sab_sampler *sampler, uint64_t position,
                                             void *state, size_t capacity, size_t *size)
    SAB_NOEXCEPT;

/** Continues where a state was saved, by this or another number of ranks and micro-batches.
 *
 * With the same `world_size` and `micro_batches` the batches continue as they would have. With
 * others, the samples that no rank has taken yet are assigned to the new ranks. No sample is lost
 * or repeated. Positions and steps continue from the saved ones. A step that was saved between two
 * of its micro-batches then ends there, and the next batch begins a new step.
 *
 * With another `steps_per_epoch` the epoch has so many steps, of which those that were taken count;
 * it ends at once when it has as many. A state without steps_per_epoch and a sampler with it, or
 * the reverse, do not match.
 *
 * @param sampler  a sampler on an equal plan with the same seed, `last_step` and `costliest_first`;
 *     rank, world size and micro-batches are its own
 * @param state    what sab_sampler_state_save() wrote
 * @param size     its length in bytes
 * @return SAB_OK; SAB_E_FORMAT for a truncated, damaged or foreign state or a newer version;
 *     SAB_E_MISMATCH when it belongs to another plan, order or seed; SAB_E_CALLBACK when a callback
 *     that makes batches failed; SAB_E_UNSUPPORTED
 */
SAB_API sab_status sab_sampler_state_restore(sab_sampler *sampler, const void *state, size_t size)
    SAB_NOEXCEPT;

/** Frees the handle.
 *
 * @param sampler  a handle or NULL
 */
SAB_API void sab_sampler_free(sab_sampler *sampler) SAB_NOEXCEPT;

#ifdef __cplusplus
}
#endif

#endif
