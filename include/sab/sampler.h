/** @file sampler.h
 * sab_sampler: a cursor over the batches of an epoch, for one rank.
 *
 * The batches of an epoch stand in one global order. At step s the ranks take the next `world_size`
 * batches, one each. In the native and the packed order each step begins at a random rank, so that
 * no rank always gets the longest. Ranks need not talk to each other, all take the same number of
 * steps, and the batches of one step cost nearly the same. When the batches of an epoch do not fill
 * the last step, that step's batches are split between the ranks (or dropped, or repeated:
 * `last_step`), so that by default no sample is lost or seen twice.
 *
 * In the native order (sab_bucket_sampler_new) a batch is a pure function of plan, seed, epoch and
 * position: seeking costs what stepping costs, and the saved state is a few dozen bytes, the same
 * on all ranks, which goes on from the same sample with any other number of ranks.
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

/** One batch. */
typedef struct sab_batch {
    /** set by SAB_BATCH_INIT */
    size_t struct_size;
    /** `count` sample indices; they belong to the sampler and stay valid until the next call on
     *  it */
    const int64_t *indices;
    /** samples; 0 only in the last step, when fewer samples than ranks (or micro-batches of all
     *  ranks) are left, and on ranks whose shard has fewer of a bucket than it has steps (loss
     *  weight 0) */
    uint64_t count;
    /** largest size in the batch */
    double longest;
    /** sum of the sizes */
    double total;
    /** length to pad to: `longest` rounded up to the plan's `length_multiple`, or the bucket's
     *  length under `max_shapes`; packed sampler: the capacity; balanced sampler: `total`, since
     *  nothing is padded */
    double padded_length;
    /** count * padded_length; packed and balanced samplers: padded_length, since the sequences
     *  share one row */
    double padded_total;
    /** index of the bucket in the plan; -1 where there are no buckets */
    int64_t bucket;
    /** epoch of the batch */
    uint64_t epoch;
    /** step of the batch in its epoch, from 0 */
    uint64_t step;
    /** samples of this step over all ranks: count / step_samples is this rank's weight of a mean
     *  over samples; 0 when the sampler was told not to work it out (`step_totals`) */
    uint64_t step_samples;
    /** sum of sizes of this step over all ranks: total / step_total is the weight of a mean over
     *  tokens; -1 when the sampler was told not to work it out */
    double step_total;
    /** balanced sampler: which of the rank's micro-batches of the step this is, from 0; 0
     *  elsewhere */
    uint64_t micro_batch;
    /** balanced sampler: micro-batches that each rank takes in a step; 1 elsewhere */
    uint64_t micro_batches;
    /** packed sampler, and balanced sampler of whole-number sizes that sum to less than 2^31:
     *  `count` + 1 cumulative lengths, the first 0; theirs are the lifetime and owner of `indices`.
     *  NULL elsewhere */
    const int32_t *cu_seqlens;
    /** packed sampler that splits samples: where each of the `count` sequences begins in its
     *  sample; as `indices`. NULL elsewhere */
    const int64_t *starts;
} sab_batch;
#define SAB_BATCH_INIT {sizeof(sab_batch), NULL, 0, 0, 0, 0, 0, -1, 0, 0, 0, 0, 0, 1, NULL, NULL}

/** What becomes of the batches that do not fill the last step of all ranks. */
typedef int32_t sab_last_step;
/** they are split so that every rank gets a share: nothing lost, nothing twice */
#define SAB_LAST_STEP_SPLIT 0
/** they are left out of this epoch */
#define SAB_LAST_STEP_DROP 1
/** the step is filled with batches from the beginning of the epoch */
#define SAB_LAST_STEP_WRAP 2

/** How to walk. Used by all samplers. */
typedef struct sab_sampler_options {
    /** set by SAB_SAMPLER_OPTIONS_INIT */
    size_t struct_size;
    /** of the shuffled orders; the same on all ranks. 0 */
    uint64_t seed;
    /** where to begin. 0 */
    uint64_t epoch;
    /** this rank, below `world_size`. 0 */
    uint64_t rank;
    /** number of ranks, 1 to 2^32 - 1. 1 */
    uint64_t world_size;
    /** SAB_LAST_STEP_SPLIT */
    sab_last_step last_step;
    /** 1 (default): fill step_samples and step_total of each batch, which looks at the other ranks'
     *  batches of the step; 0: do not, so that the work of a rank is independent of
     *  `world_size` */
    int32_t step_totals;
    /** native and packed order: begin the epoch with at least this many of the batches that may
     *  cost most, so that memory runs out early if it ever does. 0 */
    uint64_t costliest_first;
} sab_sampler_options;
#define SAB_SAMPLER_OPTIONS_INIT \
    {sizeof(sab_sampler_options), 0, 0, 0, 1, SAB_LAST_STEP_SPLIT, 1, 0}

/** Sets the defaults, the same as SAB_SAMPLER_OPTIONS_INIT: for languages without C's macros.
 *
 * @param options      filled; NULL is ignored
 * @param struct_size  size of the caller's sab_sampler_options; exactly this many bytes are
 *     written
 */
SAB_API void sab_sampler_options_init(sab_sampler_options *options, size_t struct_size)
    SAB_NOEXCEPT;

/** The native order: shuffled, random access, a pure function of (plan, seed, epoch, position).
 *
 * Each epoch permutes the samples inside each bucket and the batches of the epoch with keyed
 * permutations (order version 2), so nothing is shuffled in memory. Small last batches of buckets
 * stand where their cost does the least harm to balance.
 *
 * @param plan     may be freed before the sampler
 * @param options  NULL: seed 0, one rank
 * @param sampler  the new handle; free with sab_sampler_free()
 * @return SAB_OK; SAB_E_ARGUMENT
 */
SAB_API sab_status sab_bucket_sampler_new(const sab_plan *plan, const sab_sampler_options *options,
                                          sab_sampler **sampler) SAB_NOEXCEPT;

/** The plan's batches unshuffled: buckets by ascending size, samples by size, then by index. For
 * evaluation.
 *
 * @param plan     may be freed before the sampler
 * @param options  `seed` and `costliest_first` are not used
 * @param sampler  the new handle; free with sab_sampler_free()
 * @return SAB_OK; SAB_E_ARGUMENT
 */
SAB_API sab_status sab_sequential_sampler_new(const sab_plan *plan,
                                              const sab_sampler_options *options,
                                              sab_sampler **sampler) SAB_NOEXCEPT;

/** The `count` costliest batches that an epoch of the plan can have, costliest first: step through
 * them once before training.
 *
 * Each bucket gives the batch of its longest samples, then, when `count` is larger than the number
 * of buckets, the batch of the next longest, and so on. No batch of any epoch costs more than the
 * first of these.
 *
 * @param plan     may be freed before the sampler
 * @param count    how many at most; at least 1
 * @param sampler  the new handle, for one rank; free with sab_sampler_free()
 * @return SAB_OK; SAB_E_ARGUMENT
 */
SAB_API sab_status sab_costliest_sampler_new(const sab_plan *plan, uint64_t count,
                                             sab_sampler **sampler) SAB_NOEXCEPT;

/** Moves to the next batch and shows it in `*batch`.
 *
 * @param sampler  any sampler
 * @param batch    filled on SAB_OK, untouched otherwise; its struct_size must be set
 *     (SAB_BATCH_INIT)
 * @return SAB_OK; SAB_END when the epoch has no more batches, again on every further call until
 *     sab_sampler_set_epoch() or sab_sampler_seek(); SAB_E_CALLBACK when a callback of the sampler
 *     failed: the batch under way is kept and the next call goes on with the sample that failed
 */
SAB_API sab_status sab_next_batch(sab_sampler *sampler, sab_batch *batch) SAB_NOEXCEPT;

/** Moves over several batches at once, for callers to whom a call is dear. Only their indices are
 * shown.
 *
 * Batch i of the `count` batches is indices[offsets[i]] ... indices[offsets[i + 1] - 1]. Stops at
 * `max_batches`, at the end of the epoch, or before a batch that does not fit. When not even the
 * first fits, `count` is 0 and offsets[1] is the room that it needs.
 *
 * @param sampler      a sampler with random access
 * @param max_batches  at least 1
 * @param indices      room for `capacity` indices
 * @param capacity     number of indices there is room for
 * @param offsets      room for `max_batches` + 1 numbers
 * @param count        filled with the number of batches on SAB_OK
 * @return SAB_OK; SAB_END when the epoch has no more batches; SAB_E_UNSUPPORTED
 */
SAB_API sab_status sab_sampler_next_batches(sab_sampler *sampler, size_t max_batches,
                                            int64_t *indices, size_t capacity, uint64_t *offsets,
                                            size_t *count) SAB_NOEXCEPT;

/** Shows the batch at a step of the current epoch without moving the cursor.
 *
 * @param sampler   a sampler with random access
 * @param position  step of this rank, below sab_sampler_batch_count() and not before the step at
 *     which another number of ranks left off
 * @param batch     as for sab_next_batch()
 * @return SAB_OK; SAB_E_ARGUMENT; SAB_E_UNSUPPORTED
 */
SAB_API sab_status sab_sampler_at(sab_sampler *sampler, uint64_t position, sab_batch *batch)
    SAB_NOEXCEPT;

/** sab_sampler_batch_count() */
#define SAB_SAMPLER_BATCH_COUNT 1
/** sab_sampler_at(), sab_sampler_seek() to any position, sab_sampler_next_batches(),
 *  sab_sampler_state_save() and sab_sampler_state_restore() */
#define SAB_SAMPLER_RANDOM_ACCESS 2
/** sab_sampler_get_budget() and sab_sampler_set_budget() */
#define SAB_SAMPLER_BUDGET 4

/** Tells which functions a sampler supports beside those that every sampler has.
 *
 * A function that is not supported returns SAB_E_UNSUPPORTED. The capabilities of a sampler never
 * change.
 *
 * @param sampler       a handle
 * @param capabilities  filled with the sum of the supported SAB_SAMPLER_BATCH_COUNT,
 *     SAB_SAMPLER_RANDOM_ACCESS and SAB_SAMPLER_BUDGET; a later version may add others
 * @return SAB_OK; SAB_E_ARGUMENT
 */
SAB_API sab_status sab_sampler_capabilities(const sab_sampler *sampler, uint64_t *capabilities)
    SAB_NOEXCEPT;

/** Number of steps of the current epoch, exact, the same on every rank. After a restore from
 * another number of ranks it counts the steps taken there too.
 *
 * @param sampler  a handle
 * @param count    filled on SAB_OK
 * @return SAB_OK; SAB_E_UNSUPPORTED where the length is not known
 */
SAB_API sab_status sab_sampler_batch_count(const sab_sampler *sampler, uint64_t *count)
    SAB_NOEXCEPT;

/** The samples that the sampler leaves out because they are too large: by ascending size, or, of
 * samplers that meet them on the way, those of the current epoch so far in the order in which they
 * were met.
 *
 * The indices of a sampler of a stream are not known: each is -1.
 *
 * @param sampler   a handle
 * @param indices   room for `capacity` indices; may be NULL if `capacity` is 0
 * @param capacity  how many to write at most
 * @param count     filled with how many there are
 * @return SAB_OK; SAB_E_ARGUMENT; SAB_E_FORMAT when the plan's file was changed
 */
SAB_API sab_status sab_sampler_skipped(const sab_sampler *sampler, int64_t *indices,
                                       size_t capacity, size_t *count) SAB_NOEXCEPT;

/** Begins an epoch at its first step.
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
 * @param position  step of this rank, at most sab_sampler_batch_count(), which is the end
 * @return SAB_OK; SAB_E_ARGUMENT; SAB_E_UNSUPPORTED
 */
SAB_API sab_status sab_sampler_seek(sab_sampler *sampler, uint64_t position) SAB_NOEXCEPT;

/** Where the cursor stands.
 *
 * @param sampler   a handle
 * @param epoch     filled with the current epoch
 * @param position  filled with the step that sab_next_batch() will show
 * @return SAB_OK; SAB_E_ARGUMENT
 */
SAB_API sab_status sab_sampler_tell(const sab_sampler *sampler, uint64_t *epoch, uint64_t *position)
    SAB_NOEXCEPT;

/** Sets another limit of one of the plan's budgets for the batches to come, in this epoch and the
 * following ones, for when memory turns out to be scarcer than the plan knew. The other budgets
 * stay as they are.
 *
 * A step whose batches exceed a budget becomes several steps, as few as can be: its
 * batches are cut into pieces that are dealt to the ranks in order, so that all ranks still take
 * the same number of steps, no sample is lost, and the order stays. The number of steps of the
 * epoch grows. The limits are part of the saved state. All ranks must set it at the same step. Only
 * a single sample that costs more alone exceeds a lowered limit.
 *
 * Takes time by the number of batches left, and memory for a number each. For at most 2^20 ranks.
 *
 * @param sampler  of a plan (sab_bucket_sampler_new(), sab_sequential_sampler_new()) with a budget
 *     whose cost is no callback, or without a budget
 * @param index    of the budget; below sab_plan_info.budget_count. 0 of a plan without a budget is
 *     the padded total
 * @param limit    in the unit of the budget's cost; finite, above its constant. 0, or more than the
 *     plan's own: the plan's own again
 * @return SAB_OK; SAB_E_ARGUMENT; SAB_E_UNSUPPORTED for another sampler and for a budget whose cost
 *     is a callback, which the plan does not keep
 */
SAB_API sab_status sab_sampler_set_budget(sab_sampler *sampler, size_t index, double limit)
    SAB_NOEXCEPT;

/** The limit of a budget for the batches to come.
 *
 * @param sampler  as for sab_sampler_set_budget()
 * @param index    as for sab_sampler_set_budget()
 * @param limit    filled with what was set, or the plan's own; 0 when the plan has none
 * @return SAB_OK; SAB_E_ARGUMENT; SAB_E_UNSUPPORTED
 */
SAB_API sab_status sab_sampler_get_budget(const sab_sampler *sampler, size_t index, double *limit)
    SAB_NOEXCEPT;

/** Bytes of a saved state: magic "SABS", version, length, fingerprint, place, checksum;
 * little-endian (ARCHITECTURE.md).
 */
#define SAB_STATE_SIZE 192

/** Saves where the cursor stands. All ranks at one step save the same bytes.
 *
 * @param sampler  a sampler with random access
 * @param state    room for SAB_STATE_SIZE bytes
 * @return SAB_OK; SAB_E_UNSUPPORTED
 */
SAB_API sab_status sab_sampler_state_save(const sab_sampler *sampler, void *state) SAB_NOEXCEPT;

/** Goes on where a state was saved, by this or another number of ranks.
 *
 * With the same `world_size` the steps go on as they would have. With another, the samples that no
 * rank has taken yet are dealt out among the new ranks, none lost and none repeated; step numbers
 * go on from the saved one.
 *
 * @param sampler  a sampler on an equal plan with the same seed, `last_step` and `costliest_first`;
 *     rank and world size are its own
 * @param state    what sab_sampler_state_save() wrote
 * @param size     its length in bytes
 * @return SAB_OK; SAB_E_FORMAT for a truncated, damaged or foreign state or a newer version;
 *     SAB_E_MISMATCH when it belongs to another plan, order or seed; SAB_E_CALLBACK when a callback
 *     that makes batches failed; SAB_E_ARGUMENT when it was saved under a lowered budget and the
 *     sampler has more than 2^20 ranks; SAB_E_UNSUPPORTED
 */
SAB_API sab_status sab_sampler_state_restore(sab_sampler *sampler, const void *state, size_t size)
    SAB_NOEXCEPT;

/** Gives the handle back.
 *
 * @param sampler  a handle or NULL
 */
SAB_API void sab_sampler_free(sab_sampler *sampler) SAB_NOEXCEPT;

/** What an epoch of the native order is like, known before any training. */
typedef struct sab_plan_report {
    /** set by SAB_PLAN_REPORT_INIT */
    size_t struct_size;
    /** samples in the sizes */
    uint64_t samples;
    /** left out by the oversize policy */
    uint64_t skipped;
    /** left out of this epoch by SAB_TAIL_DROP or SAB_LAST_STEP_DROP */
    uint64_t dropped;
    /** appearances in this epoch beyond each sample's first, by SAB_TAIL_WRAP or
     *  SAB_LAST_STEP_WRAP */
    uint64_t repeated;
    /** batches over all ranks */
    uint64_t batches;
    /** steps of each rank */
    uint64_t steps;
    /** see sab_plan_info */
    uint64_t lower_bound;
    /** distinct (count, padded length) */
    uint64_t shapes;
    /** sum of the sizes in the batches */
    double total;
    /** sum of their padded totals */
    double padded_total;
    /** 1 - total / padded_total */
    double padding;
    /** mean over steps of (largest cost of a rank / mean cost of the ranks); 1: perfect. Cost by
     *  padded total where a callback priced the plan */
    double rank_imbalance;
    /** share of the pairs of batch mates of this epoch that are batch mates in the next one too */
    double meet_again;
    /** mean over samples of how many others can be its batch mates in some epoch */
    double partners;
    /** lag-1 correlation of the longest sizes of a rank's successive batches; near 0: random */
    double length_correlation;
    /** variance between batches of the mean size, over that of batches drawn at random; 1: random,
     *  0: all batches alike, large: batches are homogeneous in size */
    double variance_ratio;
    /** SAB_BUCKETS_AUTO: `padding_target` where the plan meets it, else the smallest that it could
     *  have met. 0 for a plan without a target */
    double nearest_target;
    /** 1 when the plan meets its `padding_target` or has none, else 0 */
    uint64_t target_met;
} sab_plan_report;
#define SAB_PLAN_REPORT_INIT \
    {sizeof(sab_plan_report), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}

/** Walks an epoch of the native order, and the next for `meet_again`, and says what it is like.
 *
 * Time: about two epochs of batches. Needs 4 1/8 bytes a sample while it runs. The measures of
 * randomness are those that lhotse, ms-swift and Mosaic users print by hand (correlation,
 * variance), and the share of batch mates that meet again.
 *
 * @param plan          a handle
 * @param options       how the sampler would walk (seed, epoch, world_size, last_step,
 *     costliest_first); NULL: as for the sampler
 * @param progress      follows and may cancel; NULL for none
 * @param progress_ctx  handed to `progress`
 * @param report        filled on SAB_OK; its struct_size must be set
 * @return SAB_OK; SAB_E_ARGUMENT; SAB_E_CANCELLED
 */
SAB_API sab_status sab_plan_get_report(const sab_plan *plan, const sab_sampler_options *options,
                                       sab_progress_fn progress, void *progress_ctx,
                                       sab_plan_report *report) SAB_NOEXCEPT;

#ifdef __cplusplus
}
#endif

#endif
