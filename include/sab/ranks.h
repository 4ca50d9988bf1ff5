/** @file ranks.h
 * Ranks: the rank of this process, a check that all ranks hold the same, and samples that are
 * sharded over ranks.
 *
 * Samplers need no communication. Functions here that communicate use callbacks of the caller,
 * before training begins.
 *
 * Tier: stable.
 */
#ifndef SAB_RANKS_H
#define SAB_RANKS_H

#include "sab/base.h"
#include "sab/plan.h"
#include "sab/sampler.h"
#include "sab/sizes.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Which rank this is ---- */

/** Reads rank and world size from the environment that a launcher set: RANK and WORLD_SIZE
 * (torchrun), SLURM_PROCID and SLURM_NTASKS, OMPI_COMM_WORLD_RANK and OMPI_COMM_WORLD_SIZE,
 * PMI_RANK and PMI_SIZE (MPICH, Intel MPI), in this order. The first pair of which a variable is
 * set is used.
 *
 * @param rank        filled; 0 if no variable is set
 * @param world_size  filled; 1 if no variable is set
 * @return SAB_OK; SAB_E_ARGUMENT if one of a pair is missing or not a number, or the rank is not
 *     below the world size
 */
SAB_API sab_status sab_ranks_get_from_environment(uint64_t *rank, uint64_t *world_size)
    SAB_NOEXCEPT;

/** The data-parallel rank of a process in a mesh of parallelisms: processes that share the same
 * samples (tensor, context, pipeline parallel) get the same one.
 *
 * Processes are numbered along the mesh with the last axis fastest, as torch's DeviceMesh does. For
 * pipeline 2, data 4, tensor 8: shape {2, 4, 8}, is_data {0, 1, 0}.
 *
 * @param shape       length of each axis, at least 1
 * @param is_data     1 for an axis along which processes take different samples (data parallel,
 *     sharded or not), 0 for one along which they share them
 * @param axes        number of `shape` and of `is_data`: the axes, at least 1
 * @param rank        of the process, below the product of the lengths
 * @param data_rank   filled: what samplers take as `rank`
 * @param data_world_size  filled: what samplers take as `world_size`
 * @return SAB_OK; SAB_E_ARGUMENT
 */
SAB_API sab_status sab_ranks_get_from_mesh(const uint64_t *shape, const int32_t *is_data,
                                           size_t axes, uint64_t rank, uint64_t *data_rank,
                                           uint64_t *data_world_size) SAB_NOEXCEPT;

/* ---- Ranks that talk to each other: at the start only ---- */

/** Gathers bytes from all ranks. Every rank calls it at the same time with the same `size`.
 * sab_torch_store_all_gather() is such a function.
 *
 * @param ctx   the pointer given with the callback
 * @param mine  `size` bytes of this rank
 * @param size  bytes of each rank
 * @param all   room for world size times `size` bytes, to be filled in the order of the ranks.
 *     Impossible bytes are refused with SAB_E_MISMATCH
 * @return 0; any other code is a failure, such as a missing rank, which sab_last_error_code()
 *     returns unchanged
 */
typedef int32_t (*sab_all_gather_fn)(void *ctx, const void *mine, size_t size, void *all);

/** Sets each of `values` to its minimum over all ranks. It is called on every rank the same number
 * of times.
 *
 * @param ctx     the pointer given with the callback
 * @param values  read and written
 * @param count   number of `values`
 * @return 0; any other code is a failure
 */
typedef int32_t (*sab_reduce_fn)(void *ctx, int64_t *values, size_t count);

/** Checks that all ranks hold the same: order version, kind and contents of the sampler, seed,
 * epoch, position, world size, micro-batches and policies; and that each rank takes part once. Call
 * it on all ranks after their samplers are made or restored.
 *
 * @param sampler     a sampler with random access
 * @param rank        rank of this process in `all_gather`
 * @param world_size  number of ranks in `all_gather`, 1 to 2^20
 * @param all_gather  called twice, with 16 and with about 200 bytes. A rank that fails reports its
 *     status in the first call, so that no rank waits for it. With more than 2,700 ranks, a rank
 *     without memory for the gathered bytes cannot report it. The others then wait until
 *     `all_gather` gives up
 * @param ctx         passed to `all_gather`
 * @return SAB_OK, on all ranks; SAB_E_MISMATCH, on all ranks, with a message that names the ranks
 *     that differ from most, the field and both values; SAB_E_CALLBACK; SAB_E_UNSUPPORTED
 */
SAB_API sab_status sab_ranks_check(const sab_sampler *sampler, uint64_t rank, uint64_t world_size,
                                   sab_all_gather_fn all_gather, void *ctx) SAB_NOEXCEPT;

/** Makes a sampler for samples that are spread over the ranks. Each rank knows and takes only the
 * samples of its own shard.
 *
 * The ranks exchange histograms of their sizes, not the sizes. Every rank makes the same plan from
 * the sum of the histograms. In each micro-batch all ranks take a batch of the same bucket, so that
 * these batches have nearly the same cost. A bucket has as many micro-batches as the rank with the
 * most samples in it needs. The other ranks split their samples evenly. So all ranks take the same
 * number of batches, no sample is lost or repeated, and no batch exceeds the budget. Indices are
 * those of the rank's own shard. sab_sampler_get_step() counts the samples of all ranks. With
 * several ranks its totals are -1, because the sizes of the other ranks' samples are not known.
 *
 * A state restores only with the same shards.
 *
 * # Mixtures
 *
 * Each rank gives a mixture (sab/mixture.h) of the samples of its own shard, with the same options,
 * names and ids of the sources on all ranks. With sab_mixture_options.all_sources a shard may lack
 * samples of a source, or have none at all. An epoch has the samples that a mixture of all shards
 * would have, one shard after the other. So the counts of a source are exact over all ranks, also
 * where proportions or a temperature are given. What sab_mixture_get_source() and
 * sab_mixture_get_counts() say of epochs is of the rank's mixture alone. `separate_by` may have the
 * id of each sample's source.
 *
 * No epoch needs communication: the ranks exchange the size and the source of each sample once. A
 * rank keeps 14 bytes for each sample of all ranks, 8 more with `separate_by`, and 12 for each
 * sample of all ranks in the epoch. When an epoch begins, it makes the plan and reads all batches
 * of all ranks once.
 *
 * In a micro-batch the ranks may take batches of different buckets. Each rank has as many batches
 * as the one with most of them; others divide some of theirs. The batches are put in an order in
 * which each source is near its due over all ranks. It is farther away where most shards have one
 * source, and docs/benchmarks.md has figures. sab_mixture_get_report() gives the distance, for all
 * ranks.
 *
 * @param sizes       sizes of this rank's samples, may be empty or a mixture; with one column. Read
 *     during the call only
 * @param plan        `tail` must be SAB_TAIL_KEEP and `oversize` not SAB_OVERSIZE_SINGLE; the same
 *     on all ranks. With `min_batch_size` a rank with few samples in a bucket takes shorter ones,
 *     too; what then has no room is left out, with a log message. `separate_by` is for mixtures
 *     only, whose costs may not be callbacks
 * @param options     rank and world size (at most 2^20) are those of the shards; `seed`, `epoch`
 *     and `micro_batches` must be the same on all ranks; `last_step` must be SAB_LAST_STEP_SPLIT
 *     and `costliest_first` 0
 * @param all_gather  called four times, with 24 bytes, 8 bytes, the distinct sizes and their
 *     counts, and 16 bytes; not kept. With a mixture there are two more calls before the last one:
 *     with 8 bytes, and 6 for each sample of the largest shard. A rank that fails reports it in the
 * next call. With more than 2,700 ranks, a rank without memory for the gathered bytes cannot report
 * it. The others then wait until `all_gather` gives up
 * @param ctx         passed to `all_gather`
 * @param sampler     the new handle; free with sab_sampler_free()
 * @return SAB_OK, on all ranks; SAB_E_ARGUMENT, on all ranks where the sizes of one break a rule:
 *     the message names the rank; SAB_E_MISMATCH where the options or the mixtures differ, with
 *     the ranks, or a rank failed otherwise; SAB_E_CALLBACK. A rank whose handles or structs are
 * refused (NULL, struct_size) does not take part
 */
SAB_API sab_status sab_sharded_sampler_new(const sab_sizes *sizes, const sab_plan_options *plan,
                                           const sab_sampler_options *options,
                                           sab_all_gather_fn all_gather, void *ctx,
                                           sab_sampler **sampler) SAB_NOEXCEPT;

#ifdef __cplusplus
}
#endif

#endif
