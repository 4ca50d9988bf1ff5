/** @file balance.h
 * Work dealt out evenly: items to parts, samples to ranks.
 *
 * sab_partition() assigns items (samples, batches, micro-batches) to parts (ranks, steps, pipeline
 * slots) so that the costliest part costs little more than the mean, optionally with as many items
 * in every part, and under a hard cap of another quantity, such as memory.
 *
 * The load-balancing samplers are those of Bagua's contrib package, seed for seed without torch:
 * samples are sorted by complexity, successive ones go to the ranks of one step, and the steps are
 * shuffled.
 */
#ifndef SAB_BALANCE_H
#define SAB_BALANCE_H

#include "sab/base.h"
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
 * @param options      filled; NULL is let be
 * @param struct_size  sizeof(sab_partition_options), as the caller knows it: so many bytes are
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
SAB_API sab_status sab_partition(const double *costs, size_t count, uint64_t parts,
                                 const sab_partition_options *options, uint32_t *part_of)
    SAB_NOEXCEPT;

/** Collects the batches that a callback makes. */
typedef struct sab_batches sab_batches;

/** Adds a batch.
 *
 * What is refused here fails the call that runs the callback too, also when the callback takes no
 * notice.
 *
 * @param batches  the collector handed to the callback
 * @param indices  the samples of the batch, each from 0 to below the number of samples; copied
 * @param count    number of `indices`, at least 1
 * @return SAB_OK; SAB_E_ARGUMENT
 */
SAB_API sab_status sab_batches_add(sab_batches *batches, const int64_t *indices, size_t count)
    SAB_NOEXCEPT;

/** Makes batches of the samples of one rank.
 *
 * Must give the same batches whenever it is given the same indices, since every rank makes those of
 * all ranks. A batch without samples fails the call, as sab_batches_add() says; no batch at all is
 * none for that rank.
 *
 * @param ctx      the pointer given with the callback
 * @param indices  the samples of a rank in the order of the epoch; dies when the callback returns
 * @param count    number of `indices`
 * @param batches  takes the batches in order, by sab_batches_add()
 * @return 0; anything else is a failure and comes back unchanged through sab_last_callback_code()
 */
typedef int32_t (*sab_make_batches_fn)(void *ctx, const int64_t *indices, size_t count,
                                       sab_batches *batches);

/** How load is balanced. */
typedef struct sab_load_balancing_options {
    /** set by SAB_LOAD_BALANCING_OPTIONS_INIT */
    size_t struct_size;
    /** 1 (default): steps in another order each epoch; 0: by complexity, the least complex first */
    int32_t shuffle;
    /** 1: samples, or in the batch sampler batches, that not all ranks have are left out; 0
     *  (default): ranks that lack some see their, or the data's, first ones again */
    int32_t drop_last;
    /** with `shuffle`: noise added to the complexities before they are sorted, as a share of their
     *  range. 0 (default): the best balance, 1: the most random order */
    double random_level;
    /** successive samples of a rank in a batch, at least 1. 1. Not used by the batch sampler */
    uint64_t batch_size;
    /** batch sampler without `make_batches`: a batch closes before its complexities would sum to
     *  more; finite, above 0. 0: not set */
    double max_total;
    /** batch sampler: makes the batches; called once for each rank by the constructor, and whenever
     *  an epoch or another number of ranks begins (sab_sampler_set_epoch(),
     *  sab_sampler_state_restore()). NULL: `max_total` does */
    sab_make_batches_fn make_batches;
    /** handed to `make_batches`, until the sampler is freed */
    void *make_batches_ctx;
    /** called once with `make_batches_ctx` by sab_sampler_free(), in its thread, and not when the
     *  constructor fails; NULL */
    void (*release)(void *ctx);
} sab_load_balancing_options;
#define SAB_LOAD_BALANCING_OPTIONS_INIT \
    {sizeof(sab_load_balancing_options), 1, 0, 0, 1, 0, NULL, NULL, NULL}

/** Sets the defaults, the same as SAB_LOAD_BALANCING_OPTIONS_INIT: for languages without C's
 * macros.
 *
 * @param options      filled; NULL is let be
 * @param struct_size  sizeof(sab_load_balancing_options), as the caller knows it: so many bytes are
 *     written
 */
SAB_API void sab_load_balancing_options_init(sab_load_balancing_options *options,
                                             size_t struct_size) SAB_NOEXCEPT;

/** The order of Bagua's `LoadBalancingDistributedSampler`, seed for seed, without torch.
 *
 * Samples sorted by complexity (and noise) are cut into chunks of `world_size`: a chunk is a step,
 * in which each rank gets one of nearly equal complexity. The chunks are shuffled by torch's
 * generator, seeded with seed + epoch. The last chunk is filled up with the least complex samples
 * once more, or left out (`drop_last`). All ranks take the same number of steps, so `last_step`
 * matters only when another number of ranks goes on in the middle of an epoch.
 *
 * The batches of an epoch are known when it begins, so there is random access. Keeps 16 bytes a
 * sample. Noise of a range of 2^28 or more is drawn as current versions of torch do; 1.13 and
 * others before drew it otherwise up to 2^32.
 *
 * @param complexity  work that each sample makes; read here, and not needed afterwards
 * @param balancing   NULL: the defaults. What is the batch sampler's is not used
 * @param options     seed, epoch, ranks; NULL: as for all samplers. `worst_first` is not used. At
 *     most 2^20 ranks
 * @param sampler     the new handle; free with sab_sampler_free()
 * @return SAB_OK; SAB_E_ARGUMENT
 */
SAB_API sab_status sab_load_balancing_sampler_new(const sab_sizes *complexity,
                                                  const sab_load_balancing_options *balancing,
                                                  const sab_sampler_options *options,
                                                  sab_sampler **sampler) SAB_NOEXCEPT;

/** The batches of Bagua's `LoadBalancingDistributedBatchSampler`: of variable size, as many on each
 * rank.
 *
 * The samples of each rank, as sab_load_balancing_sampler_new() deals them out without `drop_last`,
 * are made into batches. Ranks with fewer batches than others then see their first ones again; with
 * `drop_last` the others leave out their last ones. Two things differ from what the original does
 * (not from what its document says): its `drop_last` leaves out nothing but lengthens the ranks,
 * and a rank that lacks more batches than it has stays short there, while here it goes round again.
 *
 * Keeps 32 bytes a batch besides.
 *
 * @param complexity  work that each sample makes; read here, and not needed afterwards
 * @param balancing   either `make_batches` or `max_total` must be set; `batch_size` is not used
 * @param options     as for sab_load_balancing_sampler_new()
 * @param sampler     the new handle; free with sab_sampler_free()
 * @return SAB_OK; SAB_E_ARGUMENT, also for a rank that gets no batch while others do;
 *     SAB_E_CALLBACK when `make_batches` failed
 */
SAB_API sab_status sab_load_balancing_batch_sampler_new(const sab_sizes *complexity,
                                                        const sab_load_balancing_options *balancing,
                                                        const sab_sampler_options *options,
                                                        sab_sampler **sampler) SAB_NOEXCEPT;

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
 * @param options      filled; NULL is let be
 * @param struct_size  sizeof(sab_balanced_options), as the caller knows it: so many bytes are
 *     written
 */
SAB_API void sab_balanced_options_init(sab_balanced_options *options, size_t struct_size)
    SAB_NOEXCEPT;

/** Steps of samples in random order, dealt to ranks and micro-batches so that all cost alike, under
 * a hard cap of tokens or memory: for batches without padding (packed, nested, variable-length
 * attention), whose cost is not their number of tokens.
 *
 * Each epoch permutes the samples. A step takes the next ones, up to `samples` or until the caps
 * are full, and deals them out by sab_partition(): every rank takes as many micro-batches, costs
 * are near the mean, no cap is ever exceeded, no sample is lost or repeated, and the ranks need not
 * talk to each other. Samples that cost more than an eighth of a mean micro-batch come in cohorts
 * of neighbours in size, one for each micro-batch of a step, since little else could outweigh them.
 *
 * sab_batch: `step` is the optimizer's step; `micro_batch` and `micro_batches` say where in it the
 * batch stands; `step_samples` and `step_total` are those of the whole step, over all ranks and
 * micro-batches: count / step_samples or total / step_total is the weight of a mean. They cost
 * nothing here: `step_totals` of the options is not used, nor is `worst_first`. Positions (seek,
 * tell, at, count) are micro-batches of this rank. `last_step`: samples that fill no step are dealt
 * out nevertheless (SPLIT: a micro-batch of the last step is empty where there are fewer samples
 * than micro-batches, loss weight 0), left out, or filled up from the epoch's beginning. A step is
 * full when it has `samples`, or no sample of mean size would fit any more.
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
typedef struct sab_balance_report {
    /** set by SAB_BALANCE_REPORT_INIT */
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
} sab_balance_report;
#define SAB_BALANCE_REPORT_INIT {sizeof(sab_balance_report), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}

/** Walks the current epoch of a balanced sampler, which stays where it is.
 *
 * @param sampler       made by sab_balanced_sampler_new(); from where its world size took over
 * @param progress      follows and may cancel; NULL for none
 * @param progress_ctx  handed to `progress`
 * @param report        filled on SAB_OK; its struct_size must be set
 * @return SAB_OK; SAB_E_ARGUMENT for another sampler; SAB_E_CANCELLED
 */
SAB_API sab_status sab_sampler_balance_report(sab_sampler *sampler, sab_progress_fn progress,
                                              void *progress_ctx, sab_balance_report *report)
    SAB_NOEXCEPT;

/* ---- Which rank this is ---- */

/** Reads rank and world size from the environment that a launcher set: RANK and WORLD_SIZE
 * (torchrun), SLURM_PROCID and SLURM_NTASKS, OMPI_COMM_WORLD_RANK and OMPI_COMM_WORLD_SIZE,
 * PMI_RANK and PMI_SIZE (MPICH, Intel MPI), in this order; the first pair of which one is set
 * counts.
 *
 * @param rank        filled; 0 where no launcher set anything
 * @param world_size  filled; 1 where no launcher set anything
 * @return SAB_OK; SAB_E_ARGUMENT where one of a pair is missing or no number, or the rank is not
 *     below the world size
 */
SAB_API sab_status sab_ranks_from_environment(uint64_t *rank, uint64_t *world_size) SAB_NOEXCEPT;

/** The data-parallel rank of a process in a mesh of parallelisms: processes that share the same
 * samples (tensor, context, pipeline parallel) get the same one.
 *
 * Processes are numbered along the mesh with the last axis fastest, as torch's DeviceMesh does. For
 * pipeline 2, data 4, tensor 8: shape {2, 4, 8}, is_data {0, 1, 0}.
 *
 * @param shape       length of each axis, at least 1
 * @param is_data     1 for an axis along which processes take different samples (data parallel,
 *     sharded or not), 0 for one along which they share them
 * @param axes        number of axes, at least 1
 * @param rank        of the process, below the product of the lengths
 * @param data_rank   filled: what samplers take as `rank`
 * @param data_world_size  filled: what samplers take as `world_size`
 * @return SAB_OK; SAB_E_ARGUMENT
 */
SAB_API sab_status sab_data_rank(const uint64_t *shape, const int32_t *is_data, size_t axes,
                                 uint64_t rank, uint64_t *data_rank, uint64_t *data_world_size)
    SAB_NOEXCEPT;

/* ---- Ranks that talk to each other: at the start only ---- */

/** Gathers bytes from all ranks; every rank calls it at the same time with the same `size`. For
 * native callers sab_torch_store_all_gather() is one.
 *
 * @param ctx   the pointer given with the callback
 * @param mine  `size` bytes of this rank
 * @param size  bytes of each rank
 * @param all   room for world size times `size` bytes, to be filled in the order of the ranks. What
 *     no rank can have given is refused with SAB_E_MISMATCH
 * @return 0; anything else is a failure, such as a rank that never came, and comes back unchanged
 *     through sab_last_callback_code()
 */
typedef int32_t (*sab_all_gather_fn)(void *ctx, const void *mine, size_t size, void *all);

/** Checks that all ranks hold the same: library order version, kind and contents of what is
 * sampled, seed, epoch, step, world size, policies; and that each rank is there once. To be called
 * on all ranks after their samplers are made or restored.
 *
 * @param sampler     a sampler with random access
 * @param rank        of this process among those that `all_gather` joins
 * @param world_size  number of them, 1 to 2^20
 * @param all_gather  called twice, with 16 and with some 200 bytes. A rank that fails gives its
 *     status in the first call, so that no rank waits for it. A rank without memory for the answers
 *     does so among at most 2,700 ranks; among more, the others wait until `all_gather` gives up
 * @param ctx         handed to `all_gather`
 * @return SAB_OK, on all ranks; SAB_E_MISMATCH, on all ranks, with a message that names the ranks
 *     that differ from most, what in, and both values; SAB_E_CALLBACK; SAB_E_UNSUPPORTED
 */
SAB_API sab_status sab_sampler_check_ranks(const sab_sampler *sampler, uint64_t rank,
                                           uint64_t world_size, sab_all_gather_fn all_gather,
                                           void *ctx) SAB_NOEXCEPT;

/** The batches of samples that are spread over the ranks, each of which knows and takes only those
 * of its own shard.
 *
 * The ranks gather the histograms of their sizes, not the sizes; from the sum of them every rank
 * makes the same plan. At each step all ranks take a batch of the same bucket, so that the batches
 * of a step cost nearly the same. A bucket takes as many steps as the rank with most samples in it
 * needs; the others split theirs as evenly: all take the same number of steps, nothing is lost or
 * repeated, the budget is kept. Indices are those of the own shard. `step_samples` counts all
 * ranks' samples; `step_total` is -1 on more than one rank, since their sizes are not known here.
 *
 * A state goes on with the same shards only.
 *
 * @param sizes       of this rank's samples, maybe none; read during the call only
 * @param plan        `tail` must be SAB_TAIL_KEEP and `oversize` not SAB_OVERSIZE_SINGLE; the same
 *     on all ranks
 * @param options     rank and world size (at most 2^20) are those of the shards; `seed` and `epoch`
 *     must be the same on all ranks; `last_step`, `worst_first` and `step_totals` are not used
 * @param all_gather  called four times, with 24 bytes, 8 bytes, the distinct sizes and their
 *     counts, and 16 bytes; not kept. A rank that fails reports it in the next call. A rank without
 *     memory for the answers does so among at most 2,700 ranks; among more, the others wait until
 *     `all_gather` gives up
 * @param ctx         handed to `all_gather`
 * @param sampler     the new handle; free with sab_sampler_free()
 * @return SAB_OK, on all ranks; SAB_E_ARGUMENT, on all ranks where the sizes of one break a rule:
 *     the message names the rank; SAB_E_MISMATCH where the options differ or a rank failed
 *     otherwise; SAB_E_CALLBACK. A rank whose handles or structs are refused (NULL, struct_size)
 *     does not take part
 */
SAB_API sab_status sab_sharded_sampler_new(const sab_sizes *sizes, const sab_plan_options *plan,
                                           const sab_sampler_options *options,
                                           sab_all_gather_fn all_gather, void *ctx,
                                           sab_sampler **sampler) SAB_NOEXCEPT;

#ifdef __cplusplus
}
#endif

#endif
