/** @file plan.h
 * sab_plan: which batches there are. It is made once, before training.
 *
 * A plan sorts the samples by size and cuts the sorted order into buckets. It decides how many
 * samples make a batch in each bucket, so that no batch exceeds a budget. It is immutable, and
 * several threads may use it at the same time. It needs 4 bytes a sample and 12 bytes a distinct
 * size. It can be saved to a file that all processes of a machine map.
 *
 * A batch of `count` samples, the longest of length `longest`, is padded to `padded_length`:
 * `longest` rounded up to a multiple of `length_multiples`. Its costs are those of the budgets, of
 * `count` and `padded_length` (sab/cost.h). Its padding is count * padded_length minus the sum of
 * its sizes.
 *
 * Sizes of several columns, such as source and target, have one `longest`, `padded_length` and sum
 * for each column. A bucket is then a box: all samples of it are at most `longest` in each column.
 * Boxes are made by cutting all samples in two, in one column, and each side again, as long as that
 * saves batches. Among not too many distinct sizes several cuts are tried. The one is taken after
 * which the fewest batches follow. Each box keeps whole batches only, but for one. The plan is
 * compared with sorted cuts, which take the samples in descending order of a cost or a column, each
 * batch as many as fit. If it has over 1.3 times as many batches as the best of them, and more than
 * one more, other boxes are made. Some of these may have fewer batches than `bucket_batches`, down
 * to a part of one. A plan of
 * several columns needs 4 bytes a sample and 4 more for each column. SAB_BUCKETS_AUTO and
 * SAB_BUCKETS_BOUNDARIES support several columns. With one column a plan is the same as of sizes
 * without columns.
 *
 * Tier: stable.
 */
#ifndef SAB_PLAN_H
#define SAB_PLAN_H

#include "sab/base.h"
#include "sab/cost.h"
#include "sab/sizes.h"

#ifdef __cplusplus
extern "C" {
#endif

/** The most threads that make a plan. */
#define SAB_MAX_PLAN_THREADS 256

/** The batches of a data set. */
typedef struct sab_plan sab_plan;

/** How the boundaries between buckets are found. */
typedef int32_t sab_bucket_rule;
/** buckets of whole batches, as large as `padding_target` allows, with as few batches as buckets of
 *  that size can have. Epochs with odd numbers may have buckets of their own, see
 *  sab_bucket_sampler_new() */
#define SAB_BUCKETS_AUTO 0
/** the caller's `boundaries`: [b0, b1), [b1, b2), ... */
#define SAB_BUCKETS_BOUNDARIES 1
/** the `bucket_count` intervals of size that pad least: exact, by dynamic programming over the
 *  distinct sizes, when each sample is padded to its bucket's longest */
#define SAB_BUCKETS_OPTIMAL 2

/** How the samples of a bucket that do not fill its last batch are treated. */
typedef int32_t sab_tail;
/** a smaller last batch */
#define SAB_TAIL_KEEP 0
/** they are left out of this epoch (drop_last); each epoch leaves out other samples. A plan must
 *  keep a batch */
#define SAB_TAIL_DROP 1
/** the last batch is filled with samples of the same bucket that then appear twice in the epoch; a
 *  bucket of fewer samples than a batch is one smaller batch */
#define SAB_TAIL_WRAP 2

/** How samples are treated that are outside the boundaries or cost more than the budget alone. */
typedef int32_t sab_oversize;
/** the call fails; the message says how many there are and names the first */
#define SAB_OVERSIZE_ERROR 0
/** they are left out, counted and listed by sab_plan_get_skipped(); one log message says how many
 */
#define SAB_OVERSIZE_SKIP 1
/** each is a batch of its own. Only these batches may cost more than the budget. They are padded to
 *  their own length or, under `max_shapes`, to one of the lengths chosen for such samples */
#define SAB_OVERSIZE_SINGLE 2

/** How many shapes batches have. A shape is a pair of count and padded lengths. Compilers, CUDA
 *  graphs and others build something for each. */
typedef int32_t sab_shape_rule;
/** any number, or the `max_shapes` that pad least. Without `max_shapes` each batch is padded to its
 *  own longest sample */
#define SAB_SHAPES_ANY 0
/** the fewest with which padding is at most `padding_target`; `max_shapes` at most, or 1,024. If
 *  none reach the target, the fewest that pad at most a quarter more than the least found. With
 *  `separate_by` so for each id. Numbers are tried from the fewest on, in steps of a half, then
 *  between the last two; sab_plan_get_shape_padding() tells what they pad. Time: that of a plan for
 *  each */
#define SAB_SHAPES_AUTO 1

/** How to make a plan. `budgets` or `batch_sizes` must be given. With both, the smaller batch size
 * is used. Few need more than the first fields. Options that do not apply, and an array without its
 * count, are refused. */
typedef struct sab_plan_options {
    /** sizeof(sab_plan_options) */
    size_t struct_size;
    /** limits that each batch keeps, all of them. The batches of one step have nearly the same cost
     *  by the first budget, and costliest-first orders sort by it. Read during the call; of a
     *  callback only the limit is kept. NULL */
    const sab_budget *budgets;
    /** number of `budgets`, 0 to SAB_MAX_BUDGETS. Without a budget the cost is the padded total */
    size_t budget_count;
    /** samples a batch: one number for all buckets, or (BOUNDARIES) one a bucket, ascending; NULL:
     *  by the budget */
    const uint64_t *batch_sizes;
    /** number of `batch_sizes` */
    size_t batch_size_count;
    /** no batch has more samples; 0: no limit */
    uint64_t max_batch_size;
    /** AUTO without `max_shapes` and SAB_SHAPES_AUTO: no batch has fewer samples, such as 2 for
     *  batch normalization; 0: no limit. Samples so large that fewer of them fit a budget are left
     *  out as by SAB_OVERSIZE_SKIP, and so are samples that fill no batch. Of one column these are
     *  fewer than this number, for each id of `separate_by`. With SAB_TAIL_KEEP they are as few as
     * any division allows, but for numbers above 1,000 with more than 1,048,576 samples. A last
     * step is split only as far as this allows; where ranks would get fewer samples, it is left out
     * as by SAB_LAST_STEP_DROP. Under a lowered budget the samples that no such batch has room for
     *  are left out, with a log message; sab_sampler_get_skipped() lists them. Not for
     *  SAB_OVERSIZE_SINGLE */
    uint64_t min_batch_size;
    /** lengths are padded to a multiple, such as 8 for tensor cores: one number for all columns, or
     *  one a column; 0 of a column: as they are. NULL: as they are */
    const double *length_multiples;
    /** number of `length_multiples` */
    size_t length_multiple_count;
    /** SAB_TAIL_KEEP */
    sab_tail tail;
    /** SAB_OVERSIZE_ERROR */
    sab_oversize oversize;

    /* which buckets there are */

    /** SAB_BUCKETS_AUTO */
    sab_bucket_rule bucket_rule;
    /** AUTO only: SAB_SHAPES_ANY */
    sab_shape_rule shapes;
    /** AUTO, with `max_shapes` only under SAB_SHAPES_AUTO: the largest share, in (0, 1), of padding
     *  among padded positions (each sample padded to its bucket's longest), and, under a budget, of
     * batches over the lower bound. 0: 0.01. Missed only if no buckets with the fewest batches that
     * `bucket_batches` allows reach it. A tail that is left out counts as a batch.
     * sab_plan_report.target_met and nearest_target report this */
    double padding_target;
    /** AUTO without `max_shapes` and SAB_SHAPES_AUTO: the smallest number of batches in a bucket,
     * so that the samples of a batch change from epoch to epoch. Buckets that begin among the
     * longest 1 % of the samples may have a quarter of it (but not fewer than 4).
     *
     *  0: 16, and at most a sixteenth of all batches. Fewer (down to 4) if `padding_target` cannot
     *  be reached with 16. Never fewer than a 65,536th of all batches, which limits the number of
     *  buckets. If less is wasted than the target allows, buckets are made larger. If
     *  the target cannot be reached, the default is the largest of 16, 8 and 4 that wastes at most
     *  a quarter more than the least found. Samples padded to the same length are exchanged between
     *  buckets. Where this makes up for it, buckets are smaller again, down to 4 batches: batch
     *  mates then meet again no more often than in the larger buckets without exchange.
     *
     *  Small data, and few samples that are much longer than others, may have no room for so many.
     *  Buckets are then of any number of batches down to 1, or a tail only, where that saves more
     *  than a quarter of the batches or of the padded total. sab_plan_report.partners says how
     *  many batch mates are left. A sorted cut takes samples from the longest down, each batch as
     *  many as fit. With `c` its number of batches, a plan that misses its target has at most
     *  1.25 c or c + 1 batches (but for `max_shapes` and SAB_TAIL_DROP).
     *
     *  1: at most `c` batches. More: never both more batches and more padding than equal runs of
     *  as many batches, unless larger buckets meet the target. The shortest samples may have
     *  buckets of fewer batches for that */
    uint64_t bucket_batches;
    /** BOUNDARIES: at least 2, no two equal; read during the call. Of one column in any order. Of
     *  several columns each boundary is a corner, one number a column, and the corners are in the
     *  order of the buckets. The first is the lower end of all sizes. Each other one is the upper
     *  end of a bucket, which holds the samples that are below it in every column and in no bucket
     *  before */
    const double *boundaries;
    /** number of `boundaries`; of several columns the number of corners */
    size_t boundary_count;
    /** OPTIMAL: number of buckets, at least 1. Time while planning: bucket_count * distinct sizes.
     *  Memory while planning: 4 * bucket_count * distinct sizes bytes; where that is more than 64
     *  MiB, 12 * sqrt(bucket_count) * distinct sizes bytes, and twice the time */
    size_t bucket_count;
    /** batch sizes from a budget, which must be given, are rounded down to a multiple, where at
     * least one multiple fits; 0: 1 */
    uint64_t batch_size_multiple;
    /** AUTO only: at most this many shapes, with the least padding. Batches are then padded to the
     *  length of a bucket. One number for all samples, or one for each id of `separate_by`, in
     *  ascending order of the ids. One number is divided among the ids by the sizes of their
     *  samples. SAB_TAIL_KEEP needs one for the tail. Samples of SAB_OVERSIZE_SINGLE take at least
     *  one, with several columns exactly one. NULL: no limit.
     *
     *  All samplers on the plan keep to these shapes, on any number of ranks: sab_last_step says
     *  how. There are others in three cases. A lowered budget has shapes of its own for the
     *  batches to come, in this epoch and the following ones: at most two for each bucket, which
     *  may be more than `max_shapes` (sab_sampler_get_shape()). The plan of each epoch of a mixture
     *  has at most so many of its own. Sharded samplers keep to the padded lengths, but the counts
     *  of a bucket differ between ranks and steps */
    const uint64_t *max_shapes;
    /** number of `max_shapes` */
    size_t max_shape_count;
    /** an id for each sample: samples with different ids never share a batch, so each id has
     * buckets of its own. NULL: all samples have the same id. Read during the call */
    const int64_t *separate_by;
    /** number of `separate_by`: that of the samples, or 0 */
    size_t separate_by_count;

    /* how the plan is made */

    /** threads that sort the sizes, the caller's included; at most SAB_MAX_PLAN_THREADS. 0 and 1:
     *  the caller's only. The plan is the same for any number. Each thread gets at least 65,536
     *  samples. If a thread cannot be started, the caller's does its part. `progress` is called in
     *  the caller's thread only */
    uint64_t threads;
    /** reports progress and may cancel; NULL */
    sab_progress_fn progress;
    /** passed to `progress` */
    void *progress_ctx;
} sab_plan_options;
#define SAB_PLAN_OPTIONS_INIT SAB_INIT(sab_plan_options)

/** One bucket of a plan. Its arrays belong to the plan and live as long as the handle. */
typedef struct sab_bucket {
    size_t struct_size;          /**< set by SAB_BUCKET_INIT */
    size_t columns;              /**< number of `lower`, `upper`, `shortest`, `longest`,
                                  *   `padded_length` and `total`: columns of the sizes */
    const double *lower;         /**< BOUNDARIES: the caller's, inclusive; otherwise `shortest` */
    const double *upper;         /**< BOUNDARIES: the caller's, exclusive; otherwise `longest` */
    const double *shortest;      /**< smallest size in it in some epoch; 0 when it is empty */
    const double *longest;       /**< largest size in it in some epoch; 0 when it is empty */
    const double *padded_length; /**< `longest`, rounded up to `length_multiples` */
    const double *total;         /**< sum of its sizes, before any exchange */
    double cost;                 /**< cost of its largest batch, by the first budget's cost */
    uint64_t samples;            /**< samples in it */
    uint64_t batch_size;         /**< samples in a full batch */
    uint64_t batches;            /**< batches an epoch */
    int64_t id;                  /**< id of its samples, by `separate_by`; else 0 */
} sab_bucket;
#define SAB_BUCKET_INIT SAB_INIT(sab_bucket)

/** The shape of batches. */
typedef struct sab_shape {
    size_t struct_size;          /**< set by SAB_SHAPE_INIT */
    uint64_t count;              /**< samples */
    size_t columns;              /**< number of columns of the sizes */
    const double *padded_length; /**< padded length, one a column; memory of the plan */
} sab_shape;
#define SAB_SHAPE_INIT SAB_INIT(sab_shape)

/** Facts of a plan that no order changes. */
typedef struct sab_plan_info {
    /** set by SAB_PLAN_INFO_INIT */
    size_t struct_size;
    /** samples in the sizes; of a mixture those of epoch 0, with repeats */
    uint64_t samples;
    /** samples that the oversize policy left out */
    uint64_t skipped;
    /** buckets, empty ones included */
    uint64_t buckets;
    /** batches an epoch on one rank */
    uint64_t batches;
    /** no plan of these samples under these budgets has fewer batches: for each budget the sum of
     *  each sample's share of the limit, rounded up (for a cost of one term that is proportional to
     *  the count: ceil(total cost without padding / limit), and at least samples /
     *  `max_batch_size`); the largest of these */
    uint64_t lower_bound;
    /** equal only for equal plans: compare it between ranks and runs */
    uint64_t fingerprint;
    /** sum of the sizes of the samples not skipped, over all columns */
    double total;
    /** limits of the budgets that the plan was made with, each in the unit of the budget's cost.
     *  These numbers and the names belong to the handle */
    const double *limits;
    /** number of `limits` */
    size_t budget_count;
    /** number of columns of the sizes */
    size_t columns;
    /** one for each column; NULL: they have no names */
    const char *const *column_names;
    /** number of the buckets of epochs with odd numbers, if these have buckets of their own;
     *  `buckets` are then those of epochs with even numbers. 0: all epochs have the same buckets */
    uint64_t second_buckets;
} sab_plan_info;
#define SAB_PLAN_INFO_INIT SAB_INIT(sab_plan_info)

/** Makes a plan. Time: about that of sorting the sizes by counting.
 *
 * @param sizes    read during the call only
 * @param options  see sab_plan_options; NULL is refused, since a budget or a batch size is needed
 * @param plan     the new handle; free with sab_plan_free()
 * @return SAB_OK; SAB_E_ARGUMENT for options or sizes that break a rule, and when no sample or no
 *     batch is left; SAB_E_CALLBACK from a cost; SAB_E_CANCELLED from `progress`. Of a mixture (see
 *     sab/mixture.h), the facts of the plan are those of epoch 0; its samplers make the plan of
 *     each epoch. It cannot be saved, and SAB_E_ARGUMENT is also for a callback as a cost
 */
SAB_API sab_status sab_plan_new(const sab_sizes *sizes, const sab_plan_options *options,
                                sab_plan **plan) SAB_NOEXCEPT;

/** Facts of the plan.
 *
 * @param plan  a handle
 * @param info  filled on SAB_OK; its struct_size must be set
 * @return SAB_OK; SAB_E_ARGUMENT
 */
SAB_API sab_status sab_plan_get_info(const sab_plan *plan, sab_plan_info *info) SAB_NOEXCEPT;

/** One bucket, in ascending order of size; of several columns of the cost of a sample.
 *
 * @param plan    a handle
 * @param index   below sab_plan_info.buckets. From there on, below the sum with `second_buckets`:
 *     of epochs with odd numbers
 * @param bucket  filled on SAB_OK; its struct_size must be set
 * @return SAB_OK; SAB_E_ARGUMENT; SAB_E_FORMAT for a damaged plan file
 */
SAB_API sab_status sab_plan_get_bucket(const sab_plan *plan, size_t index, sab_bucket *bucket)
    SAB_NOEXCEPT;

/** One shape of the plan's batches: those of full batches and of tails, of all buckets, each once.
 * With `max_shapes` or SAB_SHAPES_AUTO, batches have no others; see there for the exceptions.
 * Without, a batch of its count may be padded to less, and pieces of a last step have fewer
 * samples.
 *
 * @param plan   a handle; of a mixture those of epoch 0
 * @param index  from 0: the costliest, by the first budget
 * @param shape  filled on SAB_OK; its struct_size must be set. Its array lives as long as the
 *     handle
 * @return SAB_OK; SAB_END when there are not so many; SAB_E_ARGUMENT; SAB_E_FORMAT for a damaged
 *     plan file
 */
SAB_API sab_status sab_plan_get_shape(const sab_plan *plan, size_t index, sab_shape *shape)
    SAB_NOEXCEPT;

/** A number of shapes that SAB_SHAPES_AUTO tried, and what so many pad: the curve that it chose
 * from.
 *
 * @param plan     a handle. There are none with several ids, with another rule, and of a plan from
 *     bytes or a file, which do not have them
 * @param index    from 0: the fewest shapes
 * @param shapes   filled on SAB_OK
 * @param padding  filled on SAB_OK: share of padding among padded positions
 * @return SAB_OK; SAB_END when there are not so many; SAB_E_ARGUMENT
 */
SAB_API sab_status sab_plan_get_shape_padding(const sab_plan *plan, size_t index, uint64_t *shapes,
                                              double *padding) SAB_NOEXCEPT;

/** The samples that were left out, by ascending size.
 *
 * @param plan      a handle
 * @param indices   room for `capacity` indices; may be NULL if `capacity` is 0
 * @param capacity  0: only `count` is filled; otherwise at least `count`
 * @param count     filled with how many there are
 * @return SAB_OK; SAB_E_ARGUMENT; SAB_E_FORMAT for a damaged plan file
 */
SAB_API sab_status sab_plan_get_skipped(const sab_plan *plan, int64_t *indices, size_t capacity,
                                        size_t *count) SAB_NOEXCEPT;

/** Writes the plan to a file, which is replaced in one step: a crash leaves the old file or the new
 * one.
 *
 * @param plan  a handle
 * @param path  file name, in the system's encoding
 * @return SAB_OK; SAB_E_IO
 */
SAB_API sab_status sab_plan_save(const sab_plan *plan, const char *path) SAB_NOEXCEPT;

/** Maps a plan that sab_plan_save() wrote. All processes that open it share its memory.
 *
 * The time depends on neither the samples nor the buckets: only the header, the names of the
 * columns and the budgets are read and verified. The first call that needs the buckets, such as the
 * constructor of a sampler, reads and verifies all of them, 104 bytes each for one column. Damaged
 * buckets are SAB_E_FORMAT of that call. The rest is in pages of 4 KiB, each with a checksum. A
 * call such as sab_next_batch() verifies a page when it first reads it. Damage is SAB_E_FORMAT of
 * each call that reads it, and other batches are as they were. sab_plan_check() reads everything.
 *
 * While the handle or a sampler on it lives, do not truncate the file: a read behind its end stops
 * the process with SIGBUS. Do not overwrite it either: sampler calls then fail with SAB_E_FORMAT,
 * or, where a page was verified before, may give other samples. To replace the file, rename a new
 * one over it, as sab_plan_save() does. sab_plan_copy_new() gives a plan that does not depend on
 * the file.
 *
 * @param path  file name, in the system's encoding
 * @param plan  the new handle; free with sab_plan_free()
 * @return SAB_OK; SAB_E_IO; SAB_E_FORMAT for a truncated or foreign file, and for one whose header,
 *     names or budgets are damaged
 */
SAB_API sab_status sab_plan_file_new(const char *path, sab_plan **plan) SAB_NOEXCEPT;

/** Reads the whole plan. Verifies the checksums of all sections, that the order has each sample
 * once, and that the samples of each bucket have its sizes.
 *
 * Takes a bit of memory for each sample during the call.
 *
 * @param plan  a handle
 * @return SAB_OK; SAB_E_FORMAT, with a message that names the section, the bytes or the rule;
 *     SAB_E_UNSUPPORTED for the plan of a mixture
 */
SAB_API sab_status sab_plan_check(const sab_plan *plan) SAB_NOEXCEPT;

/** Copies a plan into memory of its own, in huge pages where the system grants them. Its
 * fingerprint and batches are the same.
 *
 * A plan with many samples in a mapped file is slower than its copy, because each batch reads
 * scattered places of the order. All checksums are verified, because all bytes are read.
 *
 * @param plan  a handle
 * @param copy  the new handle; free with sab_plan_free()
 * @return SAB_OK; SAB_E_FORMAT for a damaged file; SAB_E_UNSUPPORTED for the plan of a mixture
 */
SAB_API sab_status sab_plan_copy_new(const sab_plan *plan, sab_plan **copy) SAB_NOEXCEPT;

/** Writes the plan's file image to memory.
 *
 * @param plan      a handle
 * @param buffer    room for `capacity` bytes; may be NULL when `capacity` is 0
 * @param capacity  0: only `size` is filled; otherwise at least `size`
 * @param size      filled with the number of bytes of the image
 * @return SAB_OK; SAB_E_ARGUMENT
 */
SAB_API sab_status sab_plan_write(const sab_plan *plan, void *buffer, size_t capacity, size_t *size)
    SAB_NOEXCEPT;

/** Makes a plan from a file image, which is copied. All checksums are verified.
 *
 * @param data  what sab_plan_write() wrote
 * @param size  its length in bytes
 * @param plan  the new handle; free with sab_plan_free()
 * @return SAB_OK; SAB_E_FORMAT
 */
SAB_API sab_status sab_plan_bytes_new(const void *data, size_t size, sab_plan **plan) SAB_NOEXCEPT;

/** Frees the handle. Samplers on the plan remain valid.
 *
 * @param plan  a handle or NULL
 */
SAB_API void sab_plan_free(sab_plan *plan) SAB_NOEXCEPT;

/** Options of samplers, in sab/sampler.h. */
struct sab_sampler_options;

/** Statistics of an epoch of the bucket order, known before training. */
typedef struct sab_plan_report {
    /** set by SAB_PLAN_REPORT_INIT */
    size_t struct_size;
    /** samples in the sizes; of a mixture those of the epoch, with repeats */
    uint64_t samples;
    /** samples that the oversize policy left out */
    uint64_t skipped;
    /** samples left out of this epoch by SAB_TAIL_DROP or SAB_LAST_STEP_DROP */
    uint64_t dropped;
    /** appearances in this epoch beyond each sample's first (of a mixture beyond those that it
     *  takes), by SAB_TAIL_WRAP or SAB_LAST_STEP_WRAP */
    uint64_t repeated;
    /** batches over all ranks */
    uint64_t batches;
    /** batches without a sample, which ranks get in a last step that cannot be split further. Not
     *  in `batches` or `shapes` */
    uint64_t empty_batches;
    /** steps of the optimizer */
    uint64_t steps;
    /** samples of the step that has the fewest, over all ranks and micro-batches. The last step may
     *  have few */
    uint64_t least_step_samples;
    /** samples of the step that has the most */
    uint64_t most_step_samples;
    /** standard deviation of the samples of a step */
    double step_samples_deviation;
    /** see sab_plan_info */
    uint64_t lower_bound;
    /** number of distinct pairs of count and padded lengths */
    uint64_t shapes;
    /** sum of the sizes in the batches, over all columns */
    double total;
    /** sum of count * padded length of the batches, over all columns */
    double padded_total;
    /** 1 - total / padded_total */
    double padding;
    /** mean over steps of (largest cost of a rank / mean cost of the ranks); 1: perfect. The cost
     *  is sab_sampler_options.balance; without it the first budget's, or the padded total if that
     *  is a callback */
    double rank_imbalance;
    /** share of the pairs of batch mates of this epoch that are batch mates in the next one too */
    double meet_again;
    /** mean over samples of how many others can be its batch mates in some epoch with the buckets
     *  of this one */
    double partners;
    /** lag-1 correlation of the longest sizes of a rank's successive batches; near 0: random. Here
     *  and below the size of a sample of several columns is their sum */
    double length_correlation;
    /** variance between batches of the mean size, over that of batches drawn at random; 1: random,
     *  0: all batches alike, large: batches are homogeneous in size */
    double variance_ratio;
    /** SAB_BUCKETS_AUTO: `padding_target` where the plan meets it, else the smallest that one of
     *  the plans met that were tried for it. A plan for that target meets it; buckets that were not
     *  tried may reach a smaller one. With `separate_by` it
     *  is that of all ids together. 0 for a plan without a target */
    double nearest_target;
    /** 1 when the plan meets its `padding_target` or has none, else 0 */
    int32_t target_met;
    /** number of columns */
    size_t columns;
    /** set by the caller: room for `total` of each column; NULL: not wanted */
    double *totals;
    /** set by the caller: room for `padded_total` of each column; NULL: not wanted */
    double *padded_totals;
} sab_plan_report;
#define SAB_PLAN_REPORT_INIT SAB_INIT(sab_plan_report)

/** Measures an epoch of the bucket order, and the next one for `meet_again`.
 *
 * Time: about two epochs of batches. Needs 4 1/8 bytes a sample while it runs.
 *
 * @param plan     a handle
 * @param sampler  options of the sampler (seed, epoch, world_size, micro_batches, last_step,
 *     costliest_first); NULL: as for the sampler
 * @param options  NULL: no progress
 * @param report   filled on SAB_OK; its struct_size must be set, and `totals` and `padded_totals`
 * to an array or NULL
 * @return SAB_OK; SAB_E_ARGUMENT; SAB_E_CANCELLED; SAB_E_FORMAT for a damaged plan file
 */
SAB_API sab_status sab_plan_get_report(const sab_plan *plan,
                                       const struct sab_sampler_options *sampler,
                                       const sab_progress_options *options, sab_plan_report *report)
    SAB_NOEXCEPT;

/** A batch, in sab/sampler.h. */
struct sab_batch;
/** The memory of a device, in sab/memory.h. */
struct sab_probe;

/** Runs one batch of a plan.
 *
 * @param ctx    the pointer given with the callback
 * @param batch  the batch; valid until the callback returns
 * @return 0; SAB_OUT_OF_MEMORY (or another code that the probe recognises); any other code is a
 *     failure
 */
typedef int32_t (*sab_batch_fn)(void *ctx, const struct sab_batch *batch);

/** Options of sab_plan_verify(). */
typedef struct sab_verification_options {
    /** sizeof(sab_verification_options) */
    size_t struct_size;
    /** number of batches; 0: 16 */
    uint64_t count;
    /** reports progress and may cancel, before each batch; NULL */
    sab_progress_fn progress;
    /** passed to `progress` */
    void *progress_ctx;
} sab_verification_options;
#define SAB_VERIFICATION_OPTIONS_INIT SAB_INIT(sab_verification_options)

/** Result of sab_plan_verify(). */
typedef struct sab_verification {
    size_t struct_size; /**< set by SAB_VERIFICATION_INIT */
    uint64_t batches;   /**< batches run */
    int64_t peak;       /**< largest of their peaks */
    int64_t total;      /**< bytes of the device; -1 where not known */
} sab_verification;
#define SAB_VERIFICATION_INIT SAB_INIT(sab_verification)

/** Runs the costliest batches of a plan before training, costliest first.
 *
 * Restores the random generators; the caller clears the gradients.
 *
 * @param plan     a plan
 * @param probe    the device
 * @param run      runs a batch
 * @param ctx      passed to `run`
 * @param options  NULL: the defaults
 * @param result   filled on SAB_OK and on SAB_E_DEVICE_MEMORY; its struct_size must be set
 * @return SAB_OK; SAB_E_DEVICE_MEMORY if a batch ran out of memory; the message has its shape;
 *     SAB_E_CALLBACK; SAB_E_CANCELLED; SAB_E_FORMAT for a damaged plan file; SAB_E_UNSUPPORTED in a
 *     build without sab/memory.h
 */
SAB_API sab_status sab_plan_verify(const sab_plan *plan, struct sab_probe *probe, sab_batch_fn run,
                                   void *ctx, const sab_verification_options *options,
                                   sab_verification *result) SAB_NOEXCEPT;

#ifdef __cplusplus
}
#endif

#endif
