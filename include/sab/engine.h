/** @file engine.h
 * More than one machine: histograms of sizes, plans and packings without sample indices, and the
 * batch of a sample.
 *
 * A data set may be too large for the memory of one machine. An engine such as Ray, Spark or the
 * tasks of a SLURM array then holds it in partitions, and makes its batches in three phases:
 *
 * 1. Each task counts the sizes of its partition: sab_histogram_add(). The histograms are sent to
 *    one place and merged there.
 * 2. sab_histogram_plan_new() makes a plan of the merged histogram. It has the same buckets as the
 *    plan that sab_plan_new() makes of all sizes, but no sample indices. It needs memory for each
 *    distinct size and each bucket, not for each sample.
 * 3. Each task tells the place of each sample of its partition in an epoch:
 *    sab_histogram_plan_locate(). The engine moves the sample there.
 *
 * Rows without padding are made in the same way. sab_histogram_packing_new() packs the merged
 * histogram, and sab_packing_locate() tells the row of each sample.
 *
 * # Number within the size
 *
 * A sample is identified by its size and its number within the size: the number of samples with the
 * same size that come before it in the data set. With several columns, two samples have the same
 * size if they are equal in all columns. A plan orders samples of the same size by index,
 * so the sample with the number k within a size is the k-th by index, from 0. The
 * partitions are in a fixed order, and the samples of a partition, too. A task then numbers its
 * samples with sab_histogram_add(), which begins with the merged histogram of the partitions
 * before its own.
 *
 * # Mixtures
 *
 * A histogram of a mixture counts each sample once, with its source. A sample is then identified by
 * its source, its size, and its number within both. sab_histogram_epoch_new() makes the histogram
 * of an epoch, in which samples appear as often as the repeats say, and sab_histogram_plan_new()
 * makes the plan of this epoch. So each epoch has a plan of its own. It has the buckets of the plan
 * of a data set in which each sample is as often as the epoch has it. That plan may have a second
 * set of buckets for epochs with odd numbers; those of mixtures have one set.
 *
 * A source of n samples with r repeats gives round(n * r) appearances, halves rounded to even. Each
 * sample has floor(r) or ceil(r) of them. The samples with one more are spread evenly over the
 * sizes of the source. Among those of one size they are random, and depend on `seed`. The next
 * epoch goes on with other samples. If all epochs from 0 on have the same repeats and `seed`, the
 * counts of two samples of a source differ by at most 1, over any number of epochs. Unlike in
 * sab_mixture_new(), these samples are chosen by their numbers, not by their indices. With whole
 * repeats both have the same samples, so the buckets are the same, too.
 *
 * The samples of a source in a bucket are in a random order, which depends on the seed and the
 * epoch of the sampler. They are dealt evenly: any two full batches of a bucket have the same
 * number of samples of a source, or one of them has one more. The batches of each bucket are spread
 * evenly over the epoch, and the batches of a step cost nearly the same. So the batches of a step
 * may all have samples of the same sources, if the sources have different sizes. The distance of a
 * source from its due (sab/mixture.h) grows with the logarithm of the number of batches;
 * docs/benchmarks.md has figures.
 *
 * # Limits
 *
 * Packings of a mixture are refused. sab_histogram_plan_locate() refuses the plan that
 * sab_plan_new() makes of a mixture: its order is laid out when an epoch begins.
 *
 * Packings of several columns are refused. SAB_PACK_SHUFFLED and SAB_PACK_CONCAT pack samples in
 * their order, so they need the sizes of all samples: sab_packed_sampler_new().
 * sab_packing_locate() refuses a packing that splits samples.
 *
 * Tier: provisional. Functions and structs here may change or be removed in a minor release.
 */
#ifndef SAB_ENGINE_H
#define SAB_ENGINE_H

#include "sab/base.h"
#include "sab/mixture.h"
#include "sab/pack.h"
#include "sab/plan.h"
#include "sab/sampler.h"
#include "sab/sizes.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Numbers of samples by size. An entry of it is a size, or the sizes of all columns; of a mixture
 * it is a source and the sizes. Needs 16 bytes an entry of one column, and counts up to 2^48
 * samples.
 *
 * What was added first decides the columns, their names and the number of sources. One thread at a
 * time may use a histogram that changes. */
typedef struct sab_histogram sab_histogram;

/** What a histogram has. Its arrays and texts belong to the histogram, and are valid until it is
 * changed or freed. */
typedef struct sab_histogram_info {
    /** set by SAB_HISTOGRAM_INFO_INIT */
    size_t struct_size;
    /** number of samples */
    uint64_t samples;
    /** number of distinct sizes; of a mixture over all sources. They are in ascending order of
     *  source, then of the size in each column */
    uint64_t entries;
    /** sum of the sizes of the samples, over all columns */
    double total;
    /** number of columns; 0 if nothing was added */
    size_t columns;
    /** one for each column; NULL: they have no names */
    const char *const *column_names;
    /** number of sources of the mixture; 0 if the sizes are no mixture */
    size_t sources;
    /** equal only for equal histograms */
    uint64_t fingerprint;
    /** `columns` sizes for each entry */
    const double *entry_sizes;
    /** number of samples of each entry. 0 only in the histogram of an epoch */
    const uint64_t *entry_counts;
    /** source of each entry; NULL if the sizes are no mixture */
    const uint32_t *entry_sources;
} sab_histogram_info;
#define SAB_HISTOGRAM_INFO_INIT SAB_INIT(sab_histogram_info)

/** Makes a histogram without samples.
 *
 * @param histogram  the new handle; free with sab_histogram_free()
 * @return SAB_OK; SAB_E_ARGUMENT
 */
SAB_API sab_status sab_histogram_new(sab_histogram **histogram) SAB_NOEXCEPT;

/** Adds samples. Of a mixture each sample is added once, with its source.
 *
 * @param histogram  a handle
 * @param sizes      read during the call only
 * @param numbers    filled on SAB_OK with the number of each sample within its entry: how many
 *     samples of the same entry were in the histogram before it. NULL: not wanted
 * @return SAB_OK; SAB_E_ARGUMENT for sizes that break a rule, and for more than
 *     2^48 samples; SAB_E_MISMATCH for other columns, names or sources
 */
SAB_API sab_status sab_histogram_add(sab_histogram *histogram, const sab_sizes *sizes,
                                     uint64_t *numbers) SAB_NOEXCEPT;

/** Adds the samples of another histogram. The order of several merges does not matter: the result
 * has the same bytes.
 *
 * @param histogram  a handle
 * @param other      another handle, or the same one
 * @return as for sab_histogram_add()
 */
SAB_API sab_status sab_histogram_merge(sab_histogram *histogram, const sab_histogram *other)
    SAB_NOEXCEPT;

/** Removes the samples of another histogram, such as those of a partition that is replaced.
 *
 * @param histogram  a handle
 * @param other      a histogram that was merged into it
 * @return SAB_OK; SAB_E_ARGUMENT if `other` has more samples of an entry; SAB_E_MISMATCH
 */
SAB_API sab_status sab_histogram_subtract(sab_histogram *histogram, const sab_histogram *other)
    SAB_NOEXCEPT;

/** Tells what the histogram has.
 *
 * @param histogram  a handle
 * @param info       filled on SAB_OK; its struct_size must be set
 * @return SAB_OK; SAB_E_ARGUMENT
 */
SAB_API sab_status sab_histogram_get_info(const sab_histogram *histogram, sab_histogram_info *info)
    SAB_NOEXCEPT;

/** Copies the histogram as bytes, in the format of docs/internals/formats.md. Equal histograms have
 *  equal bytes.
 *
 * @param histogram  a handle
 * @param buffer     room for `capacity` bytes; may be NULL if `capacity` is 0
 * @param capacity   0: only `size` is filled; otherwise at least `size`
 * @param size       filled on SAB_OK with the number of bytes
 * @return SAB_OK; SAB_E_ARGUMENT
 */
SAB_API sab_status sab_histogram_write(const sab_histogram *histogram, void *buffer,
                                       size_t capacity, size_t *size) SAB_NOEXCEPT;

/** Makes a histogram of bytes.
 *
 * @param data       what sab_histogram_write() wrote; read during the call only
 * @param size       its length in bytes
 * @param histogram  the new handle; free with sab_histogram_free()
 * @return SAB_OK; SAB_E_ARGUMENT; SAB_E_FORMAT for bytes that are truncated, damaged, of another
 *     kind or of a newer version
 */
SAB_API sab_status sab_histogram_bytes_new(const void *data, size_t size, sab_histogram **histogram)
    SAB_NOEXCEPT;

/** Frees the handle.
 *
 * @param histogram  a handle or NULL
 */
SAB_API void sab_histogram_free(sab_histogram *histogram) SAB_NOEXCEPT;

/** Makes the histogram of an epoch of a mixture: how often the epoch has the samples of each entry.
 *
 * sab_histogram_plan_new() makes the plan of the epoch from it. See the comment of this file. Its
 * entries are those of the mixture. A count may be 0. It cannot be merged, subtracted or written.
 *
 * Time: in proportion to the entries of sources whose samples do not all appear equally often.
 *
 * @param histogram     of all samples of a mixture; read during the call only
 * @param repeats       repeats of each source: finite, at least 0; NULL: 1 each
 * @param repeat_count  number of `repeats`: sab_histogram_info.sources, or 0
 * @param epoch         the epoch
 * @param seed          of the choice of the samples that have one more appearance
 * @param of_epoch      the new handle; free with sab_histogram_free()
 * @return SAB_OK; SAB_E_ARGUMENT, also for an epoch without samples, and for one of more than 2^48
 */
SAB_API sab_status sab_histogram_epoch_new(const sab_histogram *histogram, const double *repeats,
                                           size_t repeat_count, uint64_t epoch, uint64_t seed,
                                           sab_histogram **of_epoch) SAB_NOEXCEPT;

/** Makes a plan of a histogram.
 *
 * It has the same buckets as the plan that sab_plan_new() makes of the same sizes with the same
 * options, and the same batches by sab_histogram_plan_locate(). It has no sample indices. So
 * samplers, sab_plan_get_report() and sab_plan_get_skipped() refuse it with SAB_E_UNSUPPORTED. It
 * can be saved, copied and sent as any plan.
 *
 * With several columns it needs about 100 bytes for each distinct combination of sizes, of which
 * there may be 4,294,967,295.
 *
 * @param histogram  of one data set, or of an epoch of a mixture; read during the call only
 * @param options    as for sab_plan_new(); `separate_by` must be NULL, and `threads` at most
 *     1
 * @param plan       the new handle; free with sab_plan_free()
 * @return as sab_plan_new(); also SAB_E_UNSUPPORTED for a mixture without an epoch and for
 *     `separate_by`
 */
SAB_API sab_status sab_histogram_plan_new(const sab_histogram *histogram,
                                          const sab_plan_options *options, sab_plan **plan)
    SAB_NOEXCEPT;

/** Where samples are in an epoch: arrays of the caller, with one number a sample. An array that is
 * NULL is not filled. A sample without a place has -1 in all arrays but `counts`. */
typedef struct sab_places {
    size_t struct_size; /**< set by SAB_PLACES_INIT */
    int64_t *counts;    /**< places of the sample in the epoch: 0 if it is left out, more than 1 if
                         *   a mixture, SAB_TAIL_WRAP or SAB_LAST_STEP_WRAP repeats it */
    int64_t *ranks;     /**< the rank that takes the batch */
    int64_t *batches;   /**< position of the batch among those of the rank, as sab_sampler_tell() */
    int64_t *steps;     /**< step of the optimizer, as sab_batch.step */
    int64_t *slots;     /**< place of the sample in sab_batch.indices of the rank's batch */
    uint64_t *batch_count; /**< one number: the batches that each rank takes in the epoch; NULL */
} sab_places;
#define SAB_PLACES_INIT SAB_INIT(sab_places)

/** Tells where samples are in an epoch of the bucket order: the inverse of
 * sab_bucket_sampler_new().
 *
 * Sample k of the batch at position b of a rank has the rank, the batch b and the slot k. The
 * places of a sample are numbered from 0 in the order of the batches over all ranks. The result is
 * that of a sampler that began the epoch: without a restored state and without a lowered budget.
 *
 * Time: in proportion to the buckets of the plan and to the samples. So pass many samples in one
 * call. Needs 8 bytes a sample and 160 a bucket during the call. For a mixture
 * time and memory are also in proportion to the entries of its histogram, and to the sources of all
 * buckets.
 *
 * @param plan     of sab_histogram_plan_new(), or of sab_plan_new() for sizes of one column
 * @param options  of the sampler (seed, epoch, world_size, micro_batches, last_step,
 *     costliest_first); NULL: as for the sampler
 * @param sources  the source of each sample, if the plan is of an epoch of a mixture, which must
 *     be `epoch` of the options. Else NULL
 * @param sizes    the size of each sample; of several columns sab_plan_info.columns sizes for each
 * @param numbers  the number of each sample within its size; see the comment of this file
 * @param which    the number of the place that is asked for, of each sample; NULL: 0
 * @param count    number of `sources`, `numbers` and `which`: of the samples; may be 0
 * @param places   its arrays are filled on SAB_OK; its struct_size must be set
 * @return SAB_OK; SAB_E_ARGUMENT for a sample that the plan does not have; SAB_E_UNSUPPORTED for a
 *     plan that sab_plan_new() made of several columns, for a plan of `separate_by` and for one of
 *     a mixture
 */
SAB_API sab_status sab_histogram_plan_locate(const sab_plan *plan,
                                             const sab_sampler_options *options,
                                             const uint32_t *sources, const double *sizes,
                                             const uint64_t *numbers, const uint64_t *which,
                                             size_t count, const sab_places *places) SAB_NOEXCEPT;

/** Which lengths share a bin, of samples without indices. Immutable: several threads may use it. */
typedef struct sab_packing sab_packing;

/** Packs the samples of a histogram of one column into bins.
 *
 * The bins are those of sab_packed_sampler_new() for the same sizes with the same options. Time and
 * memory depend on the number of distinct sizes, not on the samples.
 *
 * @param histogram  sizes are whole numbers; read during the call only
 * @param pack       as for sab_packed_sampler_new(); `method` must be SAB_PACK_BEST_FIT or
 *     SAB_PACK_HISTOGRAM
 * @param packing    the new handle; free with sab_packing_free()
 * @return as sab_packed_sampler_new(), but up to 2^48 pieces and 2^62 tokens; also
 *     SAB_E_UNSUPPORTED for another method, for several columns and for a mixture
 */
SAB_API sab_status sab_histogram_packing_new(const sab_histogram *histogram,
                                             const sab_packed_options *pack, sab_packing **packing)
    SAB_NOEXCEPT;

/** Facts of the packing: those of the sampler of the same sizes, except `fingerprint`.
 *
 * @param packing  a handle
 * @param info     filled on SAB_OK; its struct_size must be set
 * @return SAB_OK; SAB_E_ARGUMENT
 */
SAB_API sab_status sab_packing_get_info(const sab_packing *packing, sab_packed_info *info)
    SAB_NOEXCEPT;

/** Shows the bin patterns: bins that hold the same lengths. The patterns are in descending order of
 * the cost of a bin. Two of them may hold the same lengths.
 *
 * Pattern i has the parts from begins[i] to begins[i + 1], the latter excluded. Each of its bins[i]
 * bins has sequences[p] sequences of lengths[p] tokens of each part p, longest first. A sequence is
 * a sample, or with `split` a piece of one.
 *
 * The arrays belong to the packing and stay valid until it is freed. A pointer that is NULL is
 * ignored.
 *
 * @param packing    a handle
 * @param count      filled on SAB_OK: number of patterns
 * @param bins       filled on SAB_OK: number of bins of each pattern
 * @param begins     filled on SAB_OK: the first part of each pattern; one more at the end: the
 *     number of parts
 * @param lengths    filled on SAB_OK: length of the sequences of each part
 * @param sequences  filled on SAB_OK: number of the sequences of each part in each bin
 * @return SAB_OK; SAB_E_ARGUMENT
 */
SAB_API sab_status sab_packing_get_patterns(const sab_packing *packing, size_t *count,
                                            const uint64_t **bins, const uint64_t **begins,
                                            const uint32_t **lengths, const uint32_t **sequences)
    SAB_NOEXCEPT;

/** Tells where samples are in an epoch of the bins: the inverse of sab_packed_sampler_new().
 *
 * As sab_histogram_plan_locate(), with a bin in the place of a batch. Samples that `oversize`
 * skipped have no place.
 *
 * Time: in proportion to the distinct sizes, the patterns and the samples. Needs 8 bytes a sample,
 * and about 200 a distinct size and 80 a part during the call.
 *
 * @param packing  a handle
 * @param options  of the sampler (seed, epoch, world_size, micro_batches, last_step,
 *     costliest_first); NULL: as for the sampler
 * @param sizes    the size of each sample
 * @param numbers  the number of each sample within its size; see the comment of this file
 * @param which    the number of the place that is asked for, of each sample; NULL: 0
 * @param count    number of `sizes`, `numbers` and `which`: of the samples; may be 0
 * @param places   its arrays are filled on SAB_OK; its struct_size must be set
 * @return SAB_OK; SAB_E_ARGUMENT for a sample that the packing does not have; SAB_E_UNSUPPORTED for
 *     a packing that has split samples
 */
SAB_API sab_status sab_packing_locate(const sab_packing *packing,
                                      const sab_sampler_options *options, const double *sizes,
                                      const uint64_t *numbers, const uint64_t *which, size_t count,
                                      const sab_places *places) SAB_NOEXCEPT;

/** Frees the handle.
 *
 * @param packing  a handle or NULL
 */
SAB_API void sab_packing_free(sab_packing *packing) SAB_NOEXCEPT;

#ifdef __cplusplus
}
#endif

#endif
