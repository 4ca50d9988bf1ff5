/** @file compat.h
 * The orders and rules of other packages, reproduced exactly: the same input and seed give the same
 * batches.
 *
 * - bionemo-size-aware-batching 1.0.0: sab_bionemo_create_buckets(),
 *   sab_bionemo_size_aware_stream_sampler_new(), sab_bionemo_sampler_new().
 * - Bagua's contrib package: sab_bagua_sampler_new(). Samples are sorted by complexity,
 *   successive ones go to the ranks of one step, and the steps are shuffled.
 *
 * New programs that need none of these orders use sab_bucket_sampler_new().
 *
 * Tier: provisional. Functions and structs here may change or be removed in a minor release.
 */
#ifndef SAB_COMPAT_H
#define SAB_COMPAT_H

#include "sab/base.h"
#include "sab/plan.h"
#include "sab/sampler.h"
#include "sab/sizes.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Cuts whole-number sizes into the narrowest intervals that hold `min_bucket_count` samples each,
 * none wider than `max_width`.
 *
 * Starting at the smallest size, an interval grows by one distinct size at a time. It ends when it
 * holds `min_bucket_count` samples or would become wider than `max_width`. A gap wider than
 * `max_width` gives empty intervals of exactly `max_width`. The intervals are [boundaries[i],
 * boundaries[i + 1]). This is `create_buckets` of bionemo-size-aware-batching 1.0.0.
 *
 * Call it with NULL arrays and a capacity of 0 to learn the count, then again.
 *
 * @param sizes             an integer dtype; at least one sample
 * @param max_width         widest interval, at least 1
 * @param min_bucket_count  samples an interval should hold, at least 1
 * @param boundaries        room for `capacity` + 1 numbers: the boundaries, ascending
 * @param bucket_sizes      room for `capacity` numbers: the samples in each interval
 * @param capacity          0: only `bucket_count` is filled; otherwise at least `bucket_count`
 * @param bucket_count      filled with the number of intervals
 * @return SAB_OK; SAB_E_ARGUMENT
 */
SAB_API sab_status sab_bionemo_create_buckets(const sab_sizes *sizes, int64_t max_width,
                                              int64_t min_bucket_count, int64_t *boundaries,
                                              int64_t *bucket_sizes, size_t capacity,
                                              size_t *bucket_count) SAB_NOEXCEPT;

/** Gives the next index and its size, in any order, of any number of samples.
 *
 * @param ctx       the pointer given with the callback
 * @param epoch     the epoch that is walked
 * @param position  0 when the epoch begins (again), then one more each time
 * @param index     to be filled; any number, returned in batches
 * @param size      to be filled; finite, at least 0
 * @return 0; 1 (SAB_END) when there are no more; anything else is a failure and is available
 *     unchanged from sab_last_error_code()
 */
typedef int32_t (*sab_index_fn)(void *ctx, uint64_t epoch, uint64_t position, int64_t *index,
                                double *size);

/** Greedy batches over an index source that is read while batches are made: one rank, number of
 * batches unknown.
 *
 * The same rule as sab_ordered_sampler_new(). A pass whose samples are all over the limit has no
 * batch, as in the original; sab_sampler_get_skipped() gives the samples that were skipped so far.
 * sab_sampler_get_batch_count(), sab_sampler_seek() (except to position 0), sab_sampler_at() and
 * the state functions return SAB_E_UNSUPPORTED.
 *
 * @param source          called by sab_next_batch(), in its thread
 * @param ctx             passed to `source`
 * @param release         called once with `ctx` by sab_sampler_free(), in its thread, and not when
 *     this call fails; NULL for none
 * @param limit           largest total of a batch; finite, at least 0
 * @param sampler         the new handle; free with sab_sampler_free()
 * @return SAB_OK; SAB_E_ARGUMENT
 */
SAB_API sab_status sab_bionemo_size_aware_stream_sampler_new(sab_index_fn source, void *ctx,
                                                             void (*release)(void *ctx),
                                                             double limit, sab_sampler **sampler)
    SAB_NOEXCEPT;

/** How the bionemo sampler shuffles. */
typedef int32_t sab_bionemo_shuffle;
/** samples of each bucket permuted, the bucket of each batch drawn */
#define SAB_BIONEMO_SHUFFLE_ALL 0
/** buckets ascending, samples of a bucket by index */
#define SAB_BIONEMO_SHUFFLE_NONE 1
/** samples of a bucket by index, the bucket of each batch drawn: for callers who permute
 *  themselves */
#define SAB_BIONEMO_SHUFFLE_BUCKETS 2

/** How the bionemo sampler forms and shuffles batches. */
typedef struct sab_bionemo_options {
    /** set by SAB_BIONEMO_OPTIONS_INIT */
    size_t struct_size;
    /** as torch.Generator().manual_seed(seed); not used with SAB_BIONEMO_SHUFFLE_NONE. 0 */
    uint64_t seed;
    /** SAB_BIONEMO_SHUFFLE_ALL */
    sab_bionemo_shuffle shuffle;
    /** with `sizes` or `size`: greedy batches instead of the plan's batch sizes. A batch closes
     *  before its total would exceed this; finite, at least 0 */
    double limit;
    /** the size of each sample, for greedy batches; memory that they borrow must stay valid. NULL
     */
    const sab_sizes *sizes;
    /** instead of `sizes`: called once for each sample of an epoch, while batches are formed. NULL
     */
    sab_size_fn size;
    /** passed to `size`, until the sampler is freed */
    void *size_ctx;
    /** called once with `size_ctx` by sab_sampler_free(), in its thread, and not when the
     *  constructor fails; NULL */
    void (*release)(void *ctx);
} sab_bionemo_options;
#define SAB_BIONEMO_OPTIONS_INIT SAB_INIT(sab_bionemo_options)

/** The order of `BucketBatchSampler` of bionemo-size-aware-batching 1.0.0, seed for seed, without
 * torch.
 *
 * Mersenne twister, torch.randperm inside each bucket, torch.multinomial (as built with MKL, which
 * the published outputs come from) for the bucket of each batch. One rank. Each pass begins with
 * the generator and the order that the previous pass left. So there is no random access, and a pass
 * that repeats an unfinished epoch has another order. The functions that
 * sab_bionemo_size_aware_stream_sampler_new() lists are not supported here either. Exception:
 * sab_sampler_get_batch_count() is supported if the plan's batch sizes are used. Keeps 8 bytes a
 * sample.
 *
 * @param plan     made with SAB_BUCKETS_BOUNDARIES and SAB_TAIL_KEEP or SAB_TAIL_DROP; may be freed
 *     before the sampler
 * @param options  NULL: seed 0, shuffled, the plan's batch sizes
 * @param sampler  the new handle; free with sab_sampler_free()
 * @return SAB_OK; SAB_E_ARGUMENT; SAB_E_FORMAT for a plan file whose buckets are damaged
 */
SAB_API sab_status sab_bionemo_sampler_new(const sab_plan *plan, const sab_bionemo_options *options,
                                           sab_sampler **sampler) SAB_NOEXCEPT;

/** Number of words of a Mersenne twister's state: 624 words, then the number of them that were used
 * (0 to 624). */
#define SAB_BIONEMO_GENERATOR_WORDS 625

/** Reads the generator of a bionemo sampler, to continue with it elsewhere.
 *
 * @param sampler  made by sab_bionemo_sampler_new()
 * @param words    room for SAB_BIONEMO_GENERATOR_WORDS words
 * @return SAB_OK; SAB_E_ARGUMENT for another sampler
 */
SAB_API sab_status sab_bionemo_sampler_get_generator(const sab_sampler *sampler, uint32_t *words)
    SAB_NOEXCEPT;

/** Sets the generator of a bionemo sampler.
 *
 * @param sampler  made by sab_bionemo_sampler_new()
 * @param words    SAB_BIONEMO_GENERATOR_WORDS words; the last at most 624
 * @return SAB_OK; SAB_E_ARGUMENT for another sampler or a number of used words out of range
 */
SAB_API sab_status sab_bionemo_sampler_set_generator(sab_sampler *sampler, const uint32_t *words)
    SAB_NOEXCEPT;

/** Collects the batches that a callback makes. */
typedef struct sab_batches sab_batches;

/** Adds a batch.
 *
 * An error also fails the call that runs the callback, even if the callback ignores it.
 *
 * @param batches  the collector passed to the callback
 * @param indices  the samples of the batch, each from 0 to below the number of samples; copied
 * @param count    number of `indices`, at least 1
 * @return SAB_OK; SAB_E_ARGUMENT
 */
SAB_API sab_status sab_bagua_batches_add(sab_batches *batches, const int64_t *indices, size_t count)
    SAB_NOEXCEPT;

/** Makes batches of the samples of one rank.
 *
 * Must give the same batches for the same indices, since every rank makes the batches of all ranks.
 * A batch without samples fails the call. It may add no batch; then that rank has none.
 *
 * @param ctx      the pointer given with the callback
 * @param indices  the samples of a rank in the order of the epoch; valid until the callback returns
 * @param count    number of `indices`
 * @param batches  takes the batches in order, by sab_bagua_batches_add()
 * @return 0; anything else is a failure and is available unchanged from sab_last_error_code()
 */
typedef int32_t (*sab_make_batches_fn)(void *ctx, const int64_t *indices, size_t count,
                                       sab_batches *batches);

/** How Bagua's samplers balance load. */
typedef struct sab_bagua_options {
    /** set by SAB_BAGUA_OPTIONS_INIT */
    size_t struct_size;
    /** 1: steps by complexity, the least complex first; 0 (default): in another order each epoch */
    int32_t no_shuffle;
    /** 1: samples that do not fill the last step of all ranks are left out; with batches of
     * variable size, batches. 0 (default): the last step is filled with the least complex samples
     * again; with batches of variable size, with the rank's first batches */
    int32_t drop_last;
    /** noise added to the complexities before they are sorted, as a share of their range. 0
     * (default): the best balance, 1: the most random order. As in Bagua, it is not used with
     * `no_shuffle`, and neither is the seed */
    double random_level;
    /** successive samples of a rank in a batch; 0: 1. Not with `limit` and `make_batches` */
    uint64_t batch_size;
    /** batches of variable size: a batch closes before its complexities would sum to more; finite,
     *  above 0. 0: not given */
    double limit;
    /** batches of variable size, instead of `limit`: makes them; called once for each rank by the
     *  constructor, and whenever an epoch or another number of ranks begins
     *  (sab_sampler_set_epoch(), sab_sampler_state_restore()). NULL */
    sab_make_batches_fn make_batches;
    /** passed to `make_batches`, until the sampler is freed */
    void *make_batches_ctx;
    /** called once with `make_batches_ctx` by sab_sampler_free(), in its thread, and not when the
     *  constructor fails; NULL */
    void (*release)(void *ctx);
} sab_bagua_options;
#define SAB_BAGUA_OPTIONS_INIT SAB_INIT(sab_bagua_options)

/** The order of Bagua's `LoadBalancingDistributedSampler`, seed for seed, without torch.
 *
 * Samples sorted by complexity (and noise) are cut into chunks of `world_size`: a chunk is a step,
 * in which each rank gets one of nearly equal complexity. The chunks are shuffled by torch's
 * generator, seeded with seed + epoch. The last chunk is filled up with the least complex samples
 * once more, or left out (`drop_last`). All ranks take the same number of steps, so `last_step`
 * matters only when another number of ranks goes on in the middle of an epoch. With `drop_last`, an
 * epoch of fewer samples than ranks has no batch, as in the original.
 *
 * The batches of an epoch are known when it begins, so there is random access. Keeps 16 bytes a
 * sample. Noise of a range of 2^28 or more is drawn as current versions of torch do; versions up to
 * 1.13 drew ranges below 2^32 differently.
 *
 * With `limit` or `make_batches` it gives the batches of `LoadBalancingDistributedBatchSampler`: of
 * variable size, the same number on each rank. The samples of each rank, assigned as above without
 * `drop_last`, are made into batches. Ranks with fewer batches than others repeat their first ones.
 * With `drop_last` the other ranks leave out their last ones instead; an epoch has no batch if a
 * rank has none. Both follow the original's
 * documentation. Its code differs in two ways: its `drop_last` leaves out nothing and lengthens the
 * ranks, and a rank that lacks more batches than it has stays short, while here it repeats them
 * several times. Keeps 32 bytes a batch in addition.
 *
 * @param complexity  complexity of each sample; read during the call only
 * @param balancing   NULL: the defaults
 * @param options     seed, epoch, ranks; NULL: as for all samplers. `costliest_first` must be 0. At
 *     most 2^20 ranks
 * @param sampler     the new handle; free with sab_sampler_free()
 * @return SAB_OK; SAB_E_ARGUMENT, also for a rank that gets no batch while others do;
 *     SAB_E_CALLBACK when `make_batches` failed
 */
SAB_API sab_status sab_bagua_sampler_new(const sab_sizes *complexity,
                                         const sab_bagua_options *balancing,
                                         const sab_sampler_options *options, sab_sampler **sampler)
    SAB_NOEXCEPT;

#ifdef __cplusplus
}
#endif

#endif
