/** @file balance.h
 *  Work dealt out evenly: items to parts, samples to ranks.
 *
 *  sab_partition() assigns items (samples, batches, micro-batches) to parts (ranks, steps, pipeline slots) so that the costliest part costs
 *  little more than the mean, optionally with as many items in every part, and under a hard cap of another quantity, such as memory.
 *
 *  The load-balancing samplers are those of Bagua's contrib package, seed for seed without torch: samples are sorted by complexity, successive
 *  ones go to the ranks of one step, and the steps are shuffled.
 */
#ifndef SAB_BALANCE_H
#define SAB_BALANCE_H

#include "sab/base.h"
#include "sab/sampler.h"
#include "sab/sizes.h"

#ifdef __cplusplus
extern "C" {
#endif

/** How items are assigned to parts at first. */
typedef int32_t sab_partition_method;
#define SAB_PARTITION_KARMARKAR_KARP 0 /**< largest differencing: the two most uneven partial partitions are joined until one is left */
#define SAB_PARTITION_LONGEST_FIRST 1  /**< each item, costliest first, to the part that costs least so far: faster, less even */

/** What a partition must keep. */
typedef struct sab_partition_options {
    size_t struct_size;          /**< set by SAB_PARTITION_OPTIONS_INIT */
    sab_partition_method method; /**< SAB_PARTITION_KARMARKAR_KARP */
    int32_t equal_counts;        /**< 1: every part has the same number of items, and the count must be a multiple of the parts; 0 (default) */
    const double *weights;       /**< what each item counts against `capacity`, such as tokens or bytes: finite, at least 0. NULL (default): no cap */
    double capacity;             /**< with `weights`: no part's weights sum to more; finite, above 0. Without: 0 (default) */
} sab_partition_options;
#define SAB_PARTITION_OPTIONS_INIT { sizeof(sab_partition_options), SAB_PARTITION_KARMARKAR_KARP, 0, NULL, 0 }

/** Sets the defaults, the same bytes as SAB_PARTITION_OPTIONS_INIT: for languages without C's macros.
 *
 *  @param options  filled whole; NULL is let be
 */
SAB_API void sab_partition_options_init(sab_partition_options *options) SAB_NOEXCEPT;

/** Assigns items to parts so that the largest sum of costs is small.
 *
 *  Whatever the method, single items then move, or change places, between the costliest part and cheaper ones while that lowers the largest
 *  sum and it is over the mean by a hundred-thousandth; how long is bounded by the number of items. The same costs give the same parts on every machine.
 *
 *  A cap on weights is kept always. Where balance and cap are at odds, assignments are tried that care less and less for balance. As finding one
 *  under the cap is a bin packing problem, a tight cap that could be held may be refused; with several items to a part and some percent of
 *  room that is rare.
 *
 *  Time, by the machine: a quarter of a millisecond for 4,096 items on 64 parts, half a second for a million; several times that under a tight cap.
 *  Memory: some 80 bytes an item.
 *
 *  @param costs    `count` costs, finite, at least 0, with a finite sum; may be NULL when `count` is 0
 *  @param count    number of items, at most 4,294,967,295
 *  @param parts    number of parts, 1 to 2^20; may be more than there are items
 *  @param options  NULL: the defaults
 *  @param part_of  filled on SAB_OK with the part of each item, from 0; room for `count`
 *  @return SAB_OK; SAB_E_ARGUMENT, also when no assignment under the capacity was found
 */
SAB_API sab_status sab_partition(const double *costs, size_t count, uint64_t parts, const sab_partition_options *options,
                                 uint32_t *part_of) SAB_NOEXCEPT;

/** Collects the batches that a callback makes. */
typedef struct sab_batches sab_batches;

/** Adds a batch.
 *
 *  What is refused here fails the call that runs the callback too, also when the callback takes no notice.
 *
 *  @param batches  the collector handed to the callback
 *  @param indices  the samples of the batch, each from 0 to below the number of samples; copied
 *  @param count    number of `indices`, at least 1
 *  @return SAB_OK; SAB_E_ARGUMENT
 */
SAB_API sab_status sab_batches_add(sab_batches *batches, const int64_t *indices, size_t count) SAB_NOEXCEPT;

/** Makes batches of the samples of one rank.
 *
 *  Must give the same batches whenever it is given the same indices, since every rank makes those of all ranks.
 *
 *  @param ctx      the pointer given with the callback
 *  @param indices  the samples of a rank in the order of the epoch; dies when the callback returns
 *  @param count    number of `indices`
 *  @param batches  takes the batches in order, by sab_batches_add()
 *  @return 0; anything else is a failure and comes back unchanged through sab_last_callback_code()
 */
typedef int32_t (*sab_make_batches_fn)(void *ctx, const int64_t *indices, size_t count, sab_batches *batches);

/** How load is balanced. */
typedef struct sab_load_balancing_options {
    size_t struct_size;   /**< set by SAB_LOAD_BALANCING_OPTIONS_INIT */
    int32_t shuffle;      /**< 1 (default): steps in another order each epoch; 0: by complexity, the least complex first */
    int32_t drop_last;    /**< 1: samples, or in the batch sampler batches, that not all ranks have are left out; 0 (default): ranks that lack some
                               see their, or the data's, first ones again */
    double random_level;  /**< with `shuffle`: noise added to the complexities before they are sorted, as a share of their range. 0 (default): the
                               best balance, 1: the most random order */
    uint64_t batch_size;  /**< successive samples of a rank in a batch, at least 1. 1. Not used by the batch sampler */
    double max_total;     /**< batch sampler without `make_batches`: a batch closes before its complexities would sum to more; finite, above 0. 0: not set */
    sab_make_batches_fn make_batches; /**< batch sampler: makes the batches; called once for each rank by the constructor, and whenever an epoch or another
                               number of ranks begins (sab_sampler_set_epoch(), sab_sampler_state_restore()). NULL: `max_total` does */
    void *make_batches_ctx;     /**< handed to `make_batches`, until the sampler is freed */
    void (*release)(void *ctx); /**< called once with `make_batches_ctx` by sab_sampler_free(), in its thread, and not when the constructor fails; NULL */
} sab_load_balancing_options;
#define SAB_LOAD_BALANCING_OPTIONS_INIT { sizeof(sab_load_balancing_options), 1, 0, 0, 1, 0, NULL, NULL, NULL }

/** Sets the defaults, the same bytes as SAB_LOAD_BALANCING_OPTIONS_INIT: for languages without C's macros.
 *
 *  @param options  filled whole; NULL is let be
 */
SAB_API void sab_load_balancing_options_init(sab_load_balancing_options *options) SAB_NOEXCEPT;

/** The order of Bagua's `LoadBalancingDistributedSampler`, seed for seed, without torch.
 *
 *  Samples sorted by complexity (and noise) are cut into chunks of `world_size`: a chunk is a step, in which each rank gets one of nearly equal
 *  complexity. The chunks are shuffled by torch's generator, seeded with seed + epoch. The last chunk is filled up with the least complex samples
 *  once more, or left out (`drop_last`). All ranks take the same number of steps, so `last_step` matters only when another number of ranks
 *  goes on in the middle of an epoch.
 *
 *  The batches of an epoch are known when it begins, so there is random access. Keeps 16 bytes a sample. Noise of a range of 2^28 or more is drawn as
 *  current versions of torch do; 1.13 and others before drew it otherwise up to 2^32.
 *
 *  @param complexity  work that each sample makes; read here, and not needed afterwards
 *  @param balancing   NULL: the defaults. What is the batch sampler's is not used
 *  @param options     seed, epoch, ranks; NULL: as for all samplers. `worst_first` is not used. At most 2^20 ranks
 *  @param sampler     the new handle; free with sab_sampler_free()
 *  @return SAB_OK; SAB_E_ARGUMENT
 */
SAB_API sab_status sab_load_balancing_sampler_new(const sab_sizes *complexity, const sab_load_balancing_options *balancing,
                                                  const sab_sampler_options *options, sab_sampler **sampler) SAB_NOEXCEPT;

/** The batches of Bagua's `LoadBalancingDistributedBatchSampler`: of variable size, as many on each rank.
 *
 *  The samples of each rank, as sab_load_balancing_sampler_new() deals them out without `drop_last`, are made into batches. Ranks with fewer batches
 *  than others then see their first ones again; with `drop_last` the others leave out their last ones. Two things differ from what the original does
 *  (not from what its document says): its `drop_last` leaves out nothing but lengthens the ranks, and a rank that lacks more batches than it has
 *  stays short there, while here it goes round again.
 *
 *  Keeps 32 bytes a batch besides.
 *
 *  @param complexity  work that each sample makes; read here, and not needed afterwards
 *  @param balancing   either `make_batches` or `max_total` must be set; `batch_size` is not used
 *  @param options     as for sab_load_balancing_sampler_new()
 *  @param sampler     the new handle; free with sab_sampler_free()
 *  @return SAB_OK; SAB_E_ARGUMENT, also for a rank that gets no batch while others do; SAB_E_CALLBACK when `make_batches` failed
 */
SAB_API sab_status sab_load_balancing_batch_sampler_new(const sab_sizes *complexity, const sab_load_balancing_options *balancing,
                                                        const sab_sampler_options *options, sab_sampler **sampler) SAB_NOEXCEPT;

#ifdef __cplusplus
}
#endif

#endif
