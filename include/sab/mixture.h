/** @file mixture.h
 * Mixtures: several data sets (sources) in chosen proportions.
 *
 * sab_mixture_new() makes sab_sizes of the samples of all sources, one source after the other. Each
 * source has a number of repeats: with 2 each of its samples appears twice in an epoch, with 0.3
 * three of ten samples appear once. sab_plan_new(), sab_packed_sampler_new(),
 * sab_balanced_sampler_new() and sab_sharded_sampler_new() take these sizes as any others. Other
 * functions that need the sizes of one data set refuse them.
 *
 * # Which samples an epoch has
 *
 * A source of n samples with r repeats gives round(n * r) samples, halves rounded to even. Each
 * sample appears floor(r) or ceil(r) times. The samples of a source are in a fixed random order,
 * which depends on `seed`. An epoch goes on in this order where the epoch before stopped, and
 * begins again after its end. So over any number of epochs from 0 on, two samples of a source
 * appear equally often, or one of them once more. If round(n * r) is 0 the source does not appear.
 *
 * States carry the repeats of their epoch: a sampler of a mixture with others refuses them, and the
 * message names a source, its repeats in the state and those here.
 *
 * An epoch depends only on the mixture and the number of the epoch. Samplers with different seeds
 * have the same samples, in other batches. The number of batches may differ between epochs.
 * sab_plan_info has the facts of epoch 0; sab_sampler_get_batch_count() is exact for each epoch.
 *
 * # When they appear
 *
 * The due of a source is its share of the epoch by size (the sum over all columns), times the size
 * of all batches so far. Batches are ordered to keep every source within one batch of its due after
 * each step, over all ranks together. One batch is the size of the largest batch of the epoch.
 * Where each batch is of one source, as with the ids of sources in `separate_by`, this always
 * holds. For other batches it is not proven: up to 8 orders are tried until one keeps to it, and
 * the best is taken. sab_mixture_get_report() gives the largest distance of an epoch. The distance
 * may be larger:
 *
 * - with sab_sampler_options.costliest_first, whose batches come first
 * - where SAB_LAST_STEP_WRAP repeats samples
 * - of balanced samplers whose costs are not the budget (see sab/balance.h), and of sharded ones
 *   (see sab_sharded_sampler_new())
 *
 * The ranks take the batches of a step in their order. So any 100 batches of similar sizes are
 * within 2 percentage points of the proportions of the epoch, also where they begin inside a step.
 * A batch of r times the mean size is r / (100 + r) of 100 batches, and may be of one source. With
 * a fixed `batch_size`, or with `separate_by` and many sources, they may be farther off.
 *
 * Where the last step would have fewer samples than ranks, batches of several samples are divided
 * into smaller ones, over the whole epoch, until all steps are full. SAB_LAST_STEP_DROP then leaves
 * out nothing, and SAB_LAST_STEP_WRAP repeats nothing.
 *
 * Sequential and costliest samplers keep their own order. The order is laid out when an epoch
 * begins, which reads all batches once. For each place some of the batches that are left are drawn
 * at random. The first of them is taken that leaves the sources near their dues, else the best one
 * of these and of the source that is farthest behind. If a source is more than one batch from its
 * due nevertheless, the batches come by earliest deadline. Then a source that is ahead of its due
 * waits. Of the others the one that would be one batch behind first gets the next batch: Tijdeman
 * 1980, "The chairman assignment problem". The seed of the sampler and the epoch choose the order.
 * The batches of a step cost as nearly the same as the dues allow.
 *
 * In the bucket order the copies of a sample are in different batches. This holds in buckets with
 * at least twice as many batches as the sample has copies there, as long as no budget is lowered.
 * In balanced steps, and in rows of SAB_PACK_SHUFFLED without `split`, the copies are spread evenly
 * over the epoch. sab_mixture_report.together counts those whose batch has the same sample again.
 *
 * Memory: the sizes and 6 bytes a sample, up to 8 more where ids are not grouped by source and
 * where a size is not exact as a 32-bit float. The bucket samplers of a plan of one column
 * without `separate_by` share 10 bytes a sample, since the first of them sorts the samples. Each
 * keeps 4 bytes for each sample of the epoch and about 50 for each batch, and twice this while
 * an epoch begins. Where samples are repeated, this takes 4 bytes a sample more. Most of the time
 * is spent when an epoch begins, and each rank spends that for the samples of all ranks. Other
 * samplers make the epoch as if its samples were a new data set and walk it once, in several times
 * the time.
 *
 * Tier: provisional. Functions and structs here may change or be removed in a minor release.
 */
#ifndef SAB_MIXTURE_H
#define SAB_MIXTURE_H

#include "sab/base.h"
#include "sab/sampler.h"
#include "sab/sizes.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Sources of a mixture, at most. */
#define SAB_MAX_SOURCES 65535

/** The unit of proportions and of the temperature. */
typedef int32_t sab_mixture_unit;
/** of the number of samples */
#define SAB_MIXTURE_SAMPLES 0
/** of the sum of the sizes, over all columns */
#define SAB_MIXTURE_SIZE 1

/** Sources and their proportions. At most one of `repeats`, `proportions` and `temperature` is
 * given; without any of them each source has 1 repeat. */
typedef struct sab_mixture_options {
    /** set by SAB_MIXTURE_OPTIONS_INIT */
    size_t struct_size;
    /** the source of each sample of a single data set, at least 0. The sources are the ids that
     * there are, in ascending order, or `all_sources`. Read during the call. NULL: each data set is
     * one */
    const int64_t *ids;
    /** number of `ids`: that of the samples, or 0 */
    size_t id_count;
    /** repeats of each source: finite, at least 0, not all 0. Read during the call. NULL */
    const double *repeats;
    /** number of `repeats`: that of the sources, or 0 */
    size_t repeat_count;
    /** the share of each source: finite, at least 0, with a sum above 0, by which they are divided.
     *  The epoch has as much of `unit` as all sources together. Read during the call. NULL */
    const double *proportions;
    /** number of `proportions`: that of the sources, or 0 */
    size_t proportion_count;
    /** above 0: the share of a source is proportional to what it has of `unit`, to the power 1 /
     *  `temperature`. 1 is as it is, higher is more even. 0: not given */
    double temperature;
    /** what `proportions` and `temperature` are of; SAB_MIXTURE_SAMPLES, also without them */
    sab_mixture_unit unit;
    /** names of the sources, for messages and reports, each of 1 to SAB_MAX_COLUMN_NAME bytes of
     *  UTF-8, no two the same. Copied. NULL: their ids */
    const char *const *names;
    /** number of `names`: that of the sources, or 0 */
    size_t name_count;
    /** epochs from which on other repeats hold, above 0 and ascending. Read during the call. NULL
     */
    const uint64_t *schedule_epochs;
    /** the repeats of each source from each of these epochs on: those of the first epoch, then
     *  those of the second. An epoch of them may have 0 for all sources but one */
    const double *schedule_repeats;
    /** number of `schedule_epochs`; `schedule_repeats` are so many times the sources */
    size_t schedule_count;
    /** of the order in which samples are chosen; 0 */
    uint64_t seed;
    /** the ids of the sources of all ranks, ascending, at least 0: the sizes are then those of one
     *  shard, in which a source may have no sample. Only sab_sharded_sampler_new() makes batches of
     *  such a mixture. Without `ids` the sources have these ids. Read during the call. NULL */
    const int64_t *all_sources;
    /** number of `all_sources`: without `ids` that of the sources, or 0 */
    size_t all_source_count;
} sab_mixture_options;
#define SAB_MIXTURE_OPTIONS_INIT SAB_INIT(sab_mixture_options)

/** Makes a mixture of several data sets. The index of a sample is its position among the samples of
 * the first source, then those of the second, and so on. The ids of the sources are 0, 1 and so on.
 * With `ids` it is a mixture of one data set, whose samples have the ids of their sources.
 *
 * @param sources  sizes with the same columns, which may be freed afterwards. What they borrow from
 *     the caller is copied
 * @param count    number of `sources`, 1 to SAB_MAX_SOURCES; 1 with `ids`
 * @param options  NULL: 1 repeat each
 * @param sizes    the new handle; free with sab_sizes_free()
 * @return SAB_OK; SAB_E_ARGUMENT for options that break a rule, a source without samples where
 *     `all_sources` is not given, or more than 4,294,967,295 samples in an epoch
 */
SAB_API sab_status sab_mixture_new(const sab_sizes *const *sources, size_t count,
                                   const sab_mixture_options *options, sab_sizes **sizes)
    SAB_NOEXCEPT;

/** A source of a mixture in an epoch. */
typedef struct sab_mixture_source {
    size_t struct_size;     /**< set by SAB_MIXTURE_SOURCE_INIT */
    const char *name;       /**< belongs to the handle of the mixture */
    int64_t id;             /**< of `ids` or `all_sources`, else its number */
    uint64_t samples;       /**< in the source */
    double repeat;          /**< of the epoch; 0 with `all_sources`: it depends on all shards */
    uint64_t epoch_samples; /**< that the epoch takes from it, with repeats; 0 as `repeat` */
} sab_mixture_source;
#define SAB_MIXTURE_SOURCE_INIT SAB_INIT(sab_mixture_source)

/** Facts of a source.
 *
 * @param sizes   a mixture
 * @param index   below sab_sizes_info.sources
 * @param epoch   the epoch
 * @param source  filled on SAB_OK; its struct_size must be set
 * @return SAB_OK; SAB_E_ARGUMENT
 */
SAB_API sab_status sab_mixture_get_source(const sab_sizes *sizes, size_t index, uint64_t epoch,
                                          sab_mixture_source *source) SAB_NOEXCEPT;

/** How often each sample appears in an epoch.
 *
 * @param sizes   a mixture
 * @param epoch   the epoch
 * @param counts  filled on SAB_OK with one number a sample
 * @param count   number of `counts`: of the samples, sab_sizes_count()
 * @return SAB_OK; SAB_E_ARGUMENT, also for a mixture with `all_sources`
 */
SAB_API sab_status sab_mixture_get_counts(const sab_sizes *sizes, uint64_t epoch, uint32_t *counts,
                                          size_t count) SAB_NOEXCEPT;

/** What a sampler gives of a source in an epoch, over all ranks. */
typedef struct sab_mixture_report {
    size_t struct_size;  /**< set by SAB_MIXTURE_REPORT_INIT */
    uint64_t samples;    /**< samples in the batches, with repeats. One that is cut counts once */
    uint64_t distinct;   /**< different samples among them */
    uint64_t most;       /**< how often the sample appears that appears most often */
    uint64_t together;   /**< of `samples`: those whose batch has the same sample again */
    double total;        /**< sum of their sizes, over all columns */
    double padded_total; /**< what they take up. Of a row the room that is left is shared out by
                            the sizes of its samples */
    double padding;      /**< share of padding in padded_total */
    double proportion;   /**< share of the total of all sources */
    /** the largest distance from its due after a step of all ranks, in sizes of the largest batch.
     *  The due is `proportion` of the total so far. See the comment of the file */
    double deviation;
} sab_mixture_report;
#define SAB_MIXTURE_REPORT_INIT SAB_INIT(sab_mixture_report)

/** Reads all batches of the present epoch of a sampler, and reports each source. The sampler stays
 * where it is.
 *
 * @param sampler  over a mixture, with random access
 * @param options  NULL: no progress
 * @param reports  filled on SAB_OK; struct_size of each must be set: the distance to the next
 * @param count    number of `reports`: that of the sources
 * @return SAB_OK; SAB_E_ARGUMENT, also for a sampler over sizes that are no mixture;
 *     SAB_E_CANCELLED
 */
SAB_API sab_status sab_mixture_get_report(sab_sampler *sampler, const sab_progress_options *options,
                                          sab_mixture_report *reports, size_t count) SAB_NOEXCEPT;

#ifdef __cplusplus
}
#endif

#endif
