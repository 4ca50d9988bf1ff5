/** @file memory.h
 * How much device memory a batch needs: measured and modelled. sab/steps.h checks it while
 * training.
 *
 *     sab_probe             reads how much memory is in use, and the peak since a reset
 *     sab_collect_peak      runs batches of known shapes and records their peaks in sab_peaks
 *     sab_memory_model      predicts the peak of a shape, with a margin: the cost of a sab_plan
 *
 * The caller gives a callback that runs one step. It returns 0, SAB_OUT_OF_MEMORY if the device ran
 * out of memory, or any other code. Such a code ends the call with SAB_E_CALLBACK, and
 * sab_last_error_code() returns it unchanged. A C++ exception that leaves a callback is a
 * failure, too, with its text in the message; out-of-memory errors of LibTorch are recognised.
 * sab_collect_peak(), sab_max_batch_find() and sab_plan_verify() always leave the probe's peak
 * reset. Every call leaves the random generators of the probe as documented, also when it fails.
 *
 * All amounts of memory are bytes.
 *
 * Tier: stable.
 */
#ifndef SAB_MEMORY_H
#define SAB_MEMORY_H

#include "sab/base.h"
#include "sab/cost.h"
#include "sab/plan.h"
#include "sab/ranks.h"
#include "sab/sampler.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Returned by a callback if the device ran out of memory. */
#define SAB_OUT_OF_MEMORY 2

/* ---- Probes ---- */

/** Reads the memory statistics of one device. One thread at a time. Calls that use it keep it
 * alive, so it may be freed at any time.
 */
typedef struct sab_probe sab_probe;

/** Options of a probe. */
typedef struct sab_probe_options {
    /** set by SAB_PROBE_OPTIONS_INIT */
    size_t struct_size;
    /** limits the device to this number of bytes: an allocation beyond it fails as on a full
     *  device. "cpu": emulated; "cuda:N": by the allocator's memory fraction; refused by others. 0:
     *  the device's own */
    int64_t total_bytes;
} sab_probe_options;
#define SAB_PROBE_OPTIONS_INIT SAB_INIT(sab_probe_options)

/** Memory statistics; -1 if not known. */
typedef struct sab_probe_stats {
    /** set by SAB_PROBE_STATS_INIT */
    size_t struct_size;
    /** bytes in use now */
    int64_t current;
    /** largest number of bytes in use since the last reset */
    int64_t peak;
    /** largest number of bytes that the allocator reserved since the last reset, including
     *  fragments */
    int64_t reserved_peak;
    /** largest free block of the allocator */
    int64_t largest_free;
    /** bytes of the device, or `total_bytes` */
    int64_t total;
} sab_probe_stats;
#define SAB_PROBE_STATS_INIT SAB_INIT(sab_probe_stats)

/** Functions of a caller's probe. Each returns 0, or a code that sab_last_error_code() returns
 * unchanged.
 */
typedef struct sab_probe_callbacks {
    /** set by SAB_PROBE_CALLBACKS_INIT */
    size_t struct_size;
    /** passed to each function */
    void *ctx;
    /** resets the peak to the bytes in use now. Must be given */
    int32_t (*reset)(void *ctx);
    /** Must be given */
    int32_t (*current)(void *ctx, int64_t *bytes);
    /** Must be given */
    int32_t (*peak)(void *ctx, int64_t *bytes);
    /** `largest_free` is -1 before the call, which means not known. NULL: both are not known */
    int32_t (*reserved)(void *ctx, int64_t *reserved_peak, int64_t *largest_free);
    /** NULL: not known */
    int32_t (*total)(void *ctx, int64_t *bytes);
    /** gives cached blocks back to the device; NULL: there are none */
    int32_t (*release_cache)(void *ctx);
    /** 1 if `code`, returned by a callback, means out of memory; NULL: only SAB_OUT_OF_MEMORY.
     *  Never called with 0 */
    int32_t (*is_out_of_memory)(void *ctx, int32_t code);
    /** saves the state of the random generators as number `depth`, replacing an older one; NULL:
     *  nothing to save */
    int32_t (*rng_save)(void *ctx, uint64_t depth);
    /** restores state number `depth`; given if and only if `rng_save` is */
    int32_t (*rng_restore)(void *ctx, uint64_t depth);
    /** called once when the probe is freed, and not when sab_probe_callbacks_new() fails; NULL */
    void (*release)(void *ctx);
} sab_probe_callbacks;
#define SAB_PROBE_CALLBACKS_INIT SAB_INIT(sab_probe_callbacks)

/** Opens a probe of the library.
 *
 * - "host": resident memory of this process (Linux: VmRSS and VmHWM; a reset writes to
 *   /proc/self/clear_refs). Needs no LibTorch. The kernel counts pages, with some delay.
 *   Approximate; do not use it for exact budgets.
 * - "cpu": bytes of CPU tensors that LibTorch allocates from now on in this thread, and in the
 *   threads that LibTorch runs for it (backward), exactly. Other threads of the caller are not
 *   measured: a block that such a thread frees counts until its address is allocated again. Free
 *   the probe in the thread that made it, in reverse order.
 * - "cuda:N" (and "xpu:N", ... where that LibTorch has them): the statistics of LibTorch's caching
 *   allocator.
 *
 * All but "host" need sab_torch_open() before. They keep and restore the default random generators
 * of the CPU and of the device.
 *
 * @param device   "host", "cpu", "cuda" (the device 0) or "cuda:N"
 * @param options  NULL: the defaults
 * @param probe    the new handle; free with sab_probe_free()
 * @return SAB_OK; SAB_E_ARGUMENT for an unknown or missing device; SAB_E_UNSUPPORTED if LibTorch is
 *     needed and not open, or does not support it
 */
SAB_API sab_status sab_probe_new(const char *device, const sab_probe_options *options,
                                 sab_probe **probe) SAB_NOEXCEPT;

/** Makes a probe from functions of the caller.
 *
 * @param callbacks  copied; `reset`, `current` and `peak` must be given
 * @param probe      the new handle; free with sab_probe_free()
 * @return SAB_OK; SAB_E_ARGUMENT
 */
SAB_API sab_status sab_probe_callbacks_new(const sab_probe_callbacks *callbacks, sab_probe **probe)
    SAB_NOEXCEPT;

/** Resets the peak to the bytes in use now.
 *
 * @param probe  a handle
 * @return SAB_OK; SAB_E_CALLBACK
 */
SAB_API sab_status sab_probe_reset(sab_probe *probe) SAB_NOEXCEPT;

/** Reads the statistics.
 *
 * @param probe  a handle
 * @param stats  filled on SAB_OK; its struct_size must be set
 * @return SAB_OK; SAB_E_CALLBACK
 */
SAB_API sab_status sab_probe_get_stats(sab_probe *probe, sab_probe_stats *stats) SAB_NOEXCEPT;

/** Returns cached blocks of the allocator to the device.
 *
 * @param probe  a handle
 * @return SAB_OK; SAB_E_CALLBACK
 */
SAB_API sab_status sab_probe_release_cache(sab_probe *probe) SAB_NOEXCEPT;

/** Frees the handle. A limit by `total_bytes` ends.
 *
 * @param probe  a handle or NULL
 */
SAB_API void sab_probe_free(sab_probe *probe) SAB_NOEXCEPT;

/* ---- Measuring ---- */

/** Append-only list of measurements. One writer at a time. */
typedef struct sab_peaks sab_peaks;

/** Runs one item and gives its features.
 *
 * @param ctx       the pointer given with the callback
 * @param item      number of the item, from 0
 * @param features  room for `capacity` numbers that describe the item, such as its count and padded
 *     length; finite
 * @param capacity  room; at least 64
 * @param count     to be set to the number of features: the same for every item; 0 is allowed
 * @return 0; SAB_OUT_OF_MEMORY (or another code that the probe recognises); SAB_END when there are
 *     no more items; any other code is a failure
 */
typedef int32_t (*sab_work_fn)(void *ctx, uint64_t item, double *features, size_t capacity,
                               size_t *count);

/** Options of sab_collect_peak(). */
typedef struct sab_collect_peak_options {
    /** set by SAB_COLLECT_PEAK_OPTIONS_INIT */
    size_t struct_size;
    /** number of items; 0: until `work` returns SAB_END */
    uint64_t item_count;
    /** runs an item. Must be given */
    sab_work_fn work;
    /** called after each item, also after a failed one: releases what `work` keeps. NULL */
    int32_t (*cleanup)(void *ctx, uint64_t item);
    /** called after `cleanup`: runs a garbage collector. NULL */
    int32_t (*collect_garbage)(void *ctx);
    /** passed to the three callbacks */
    void *ctx;
    /** number of first items that are run but not recorded, since frameworks allocate some buffers
     *  once. 0 */
    uint64_t warm_up;
    /** 1: keep cached blocks after each item; 0 (default): release them, so that peaks do not
     * depend on earlier items */
    int32_t keep_cache;
    /** reports progress and may cancel, before each item; NULL */
    sab_progress_fn progress;
    /** passed to `progress` */
    void *progress_ctx;
} sab_collect_peak_options;
#define SAB_COLLECT_PEAK_OPTIONS_INIT SAB_INIT(sab_collect_peak_options)

/** Measurements. The arrays belong to the sab_peaks and stay valid until the next call that changes
 * it.
 */
typedef struct sab_peaks_view {
    /** set by SAB_PEAKS_VIEW_INIT */
    size_t struct_size;
    /** number of `items`, `before`, `peaks`, `reserved_peaks` and `largest_free` */
    size_t count;
    /** features of each */
    size_t feature_count;
    /** numbers of the items, `count` of them */
    const uint64_t *items;
    /** `count` rows of `feature_count` */
    const double *features;
    /** bytes in use before each item */
    const int64_t *before;
    /** largest number of bytes in use during each */
    const int64_t *peaks;
    /** largest number of reserved bytes during each; -1 if not known */
    const int64_t *reserved_peaks;
    /** largest free block after each; -1 if not known */
    const int64_t *largest_free;
    /** number of `out_of_memory` */
    size_t out_of_memory_count;
    /** numbers of the items that ran out of memory */
    const uint64_t *out_of_memory;
} sab_peaks_view;
#define SAB_PEAKS_VIEW_INIT SAB_INIT(sab_peaks_view)

/** Makes an empty collection.
 *
 * @param peaks  the new handle; free with sab_peaks_free()
 * @return SAB_OK
 */
SAB_API sab_status sab_peaks_new(sab_peaks **peaks) SAB_NOEXCEPT;

/** Runs items and records the peak of each. For each item: reset, `work`, read the peak, `cleanup`,
 * `collect_garbage`, release caches.
 *
 * Restores the random generators. Items that run out of memory are listed and skipped. Any other
 * failure ends the call; measurements made before it stay in `peaks`.
 *
 * @param probe    the device
 * @param options  what to run; NULL is refused, since `work` must be given
 * @param peaks    measurements are appended to it
 * @return SAB_OK; SAB_E_ARGUMENT also for features that are not finite or differ in number from
 *     earlier ones; SAB_E_CALLBACK; SAB_E_CANCELLED
 */
SAB_API sab_status sab_collect_peak(sab_probe *probe, const sab_collect_peak_options *options,
                                    sab_peaks *peaks) SAB_NOEXCEPT;

/** Shows the measurements.
 *
 * @param peaks  a handle
 * @param view   filled on SAB_OK; its struct_size must be set
 * @return SAB_OK; SAB_E_ARGUMENT
 */
SAB_API sab_status sab_peaks_get_view(const sab_peaks *peaks, sab_peaks_view *view) SAB_NOEXCEPT;

/** Frees the handle.
 *
 * @param peaks  a handle or NULL
 */
SAB_API void sab_peaks_free(sab_peaks *peaks) SAB_NOEXCEPT;

/** Predicts peaks. Immutable; threads may share it. */
typedef struct sab_memory_model sab_memory_model;

/** What to measure for a model of batches. */
typedef struct sab_measurement_options {
    /** set by SAB_MEASUREMENT_OPTIONS_INIT */
    size_t struct_size;
    /** smallest padded length of each column; > 0, of several columns at least 0. Must be given */
    const double *shortest;
    /** largest padded length of each column; at least `shortest`, > 0. Must be given */
    const double *longest;
    /** number of `shortest` and of `longest`: the columns of the sizes, 1 to SAB_MAX_COLUMNS */
    size_t column_count;
    /** most samples in a batch; at least 2 */
    uint64_t max_count;
    /** With a NULL cost no point has more padded positions (count * sum of the lengths) than its
     *  limit, so that none runs out of memory. With a cost, such as that of a first model, only
     *  points that cost from a third to nine tenths of its limit are picked. Batches of that budget
     *  will be in this range. Read during the call. NULL: at most 4 * the sum of `longest` padded
     *  positions */
    const sab_budget *budget;
    /** of the model, see sab_memory_model_options. 0: 2 */
    uint32_t degree;
} sab_measurement_options;
#define SAB_MEASUREMENT_OPTIONS_INIT SAB_INIT(sab_measurement_options)

/** Picks the points (count, length of each column) that determine a SAB_MODEL_BATCH model best: a
 * D-optimal design, chosen greedily on a grid. The points are in ascending order of count * sum of
 * the lengths, so that the largest batches come last.
 *
 * Peaks rarely follow one polynomial from the smallest to the largest batch. Measure small batches
 * first and fit a model. With that model, pick and measure points near the budget, and fit the
 * final model.
 *
 * @param options   the range; NULL is refused
 * @param points    number of points: more than the terms of the model, and at most 1000. So at
 *     least 4 for degree 1 and 7 for degree 2, or 5 and 13 of two columns. Twice as many as terms
 *     (12 and 24 for degree 2) are enough to judge the model
 * @param counts    room for `points` numbers
 * @param lengths   room for `points` rows of one number a column
 * @return SAB_OK; SAB_E_ARGUMENT, also when the range has fewer different points than are asked
 *     for; SAB_E_CALLBACK from the budget's cost
 */
SAB_API sab_status sab_measurement_points_find(const sab_measurement_options *options,
                                               size_t points, uint64_t *counts, double *lengths)
    SAB_NOEXCEPT;

/* ---- The model ---- */

/** The terms of a model. */
typedef int32_t sab_memory_model_kind;
/** of a batch: count, then the padded length of each column. Its terms are bytes for
 *  - 1: parameters, optimizer, what every step needs;
 *  - count: each sample;
 *  - count * length, of each column: activations of each position;
 *  - degree 2: count * length * length, of each column and each two columns: attention and
 *    cross-attention; each length, and each product of two lengths, without the count: masks,
 *    tables of positions.
 *
 *  These are 2 + k terms for k columns, and (k + 1) * (k + 2) for degree 2: 6, 12 or 20 of one, two
 *  or three columns. At most SAB_MAX_COST_TERMS, so degree 2 supports 6 columns. The model never
 *  decreases with the count or a length from the shortest measured lengths on. It can be the cost
 *  of a plan of as many columns */
#define SAB_MODEL_BATCH 0
/** of any features: all products of at most `degree` of them */
#define SAB_MODEL_POLYNOMIAL 1

/** Options of fitting. */
typedef struct sab_memory_model_options {
    /** set by SAB_MEMORY_MODEL_OPTIONS_INIT */
    size_t struct_size;
    /** SAB_MODEL_BATCH */
    sab_memory_model_kind kind;
    /** 1 or 2. 0: 2 */
    uint32_t degree;
    /** share of unseen batches that should stay under the upper prediction, in (0, 1). 0: 0.95 */
    double coverage;
    /** 1: keep all terms; 0 (default): remove terms by the Bayesian information criterion */
    int32_t keep_terms;
    /** the name of each column, feature_count - 1 of them, all different, each of 1 to
     *  SAB_MAX_COLUMN_NAME bytes; read during the call. A plan refuses the cost of a model for
     *  sizes with other names. NULL: no names */
    const char *const *column_names;
} sab_memory_model_options;
#define SAB_MEMORY_MODEL_OPTIONS_INIT SAB_INIT(sab_memory_model_options)

/** Facts of a model. Residuals are (measured - predicted) / predicted. */
typedef struct sab_memory_model_info {
    /** set by SAB_MEMORY_MODEL_INFO_INIT */
    size_t struct_size;
    /** as fitted */
    sab_memory_model_kind kind;
    /** as fitted */
    uint32_t degree;
    /** features of a batch */
    size_t feature_count;
    /** the name of each feature but the first, which are the columns of a batch; NULL: they have no
     *  names. These texts and the numbers below belong to the handle */
    const char *const *column_names;
    /** number of `coefficients`: of the terms that were kept. Term i is coefficients[i] * product
     * of feature[j]^powers[i * feature_count + j] */
    size_t term_count;
    /** one for each term */
    const double *coefficients;
    /** `term_count` rows of `feature_count` */
    const uint32_t *powers;
    /** number of measurements */
    uint64_t measurements;
    /** bytes of an empty batch: parameters, optimizer, ... */
    double constant;
    /** upper prediction = prediction * (1 + margin) */
    double margin;
    /** guaranteed share of unseen batches under the upper prediction: as requested, or measurements
     *  / (measurements + 1) if there are too few measurements */
    double coverage;
    /** root of the mean square of the residuals */
    double residual;
    /** the same for measurements left out of the fit in turn */
    double held_out_residual;
    /** largest absolute residual */
    double largest_residual;
} sab_memory_model_info;
#define SAB_MEMORY_MODEL_INFO_INIT SAB_INIT(sab_memory_model_info)

/** Fits a model to measurements.
 *
 * The method is weighted least squares (relative errors) by QR. Terms are removed by backward
 * elimination under the Bayesian information criterion. The margin comes from conformal prediction.
 * Each measurement has a relative residual under a model fitted without it (without its group, of
 * 50 groups, if there are more than 50 measurements). The margin is the ceil((n + 1) * coverage)-th
 * smallest of these residuals. See Vovk et al., "Algorithmic Learning in a Random World", and
 * Barber et al., "Predictive inference with the jackknife+". The guarantee holds for batches
 * similar to the measured ones.
 *
 * @param features       `count` rows of `feature_count` finite numbers
 * @param count          measurements; at least one more than there are terms
 * @param feature_count  for SAB_MODEL_BATCH 1 + the number of columns: count, then the padded
 *     length of each column
 * @param peaks          `count` positive, finite numbers of bytes
 * @param options        NULL: the defaults
 * @param model          the new handle; free with sab_memory_model_free()
 * @return SAB_OK; SAB_E_ARGUMENT for data that is not finite or does not determine the terms: the
 *     message says what to measure next
 */
SAB_API sab_status sab_memory_model_fit_new(const double *features, size_t count,
                                            size_t feature_count, const double *peaks,
                                            const sab_memory_model_options *options,
                                            sab_memory_model **model) SAB_NOEXCEPT;

/** Facts of the model.
 *
 * @param model  a handle
 * @param info   filled on SAB_OK; its struct_size must be set
 * @return SAB_OK; SAB_E_ARGUMENT
 */
SAB_API sab_status sab_memory_model_get_info(const sab_memory_model *model,
                                             sab_memory_model_info *info) SAB_NOEXCEPT;

/** Predicts.
 *
 * @param model      a handle
 * @param features   `count` rows of as many finite numbers as the model has features
 * @param count      rows
 * @param predicted  room for `count` numbers: the expected peaks; may be NULL
 * @param upper      room for `count` numbers: the peaks with the margin; may be NULL
 * @return SAB_OK; SAB_E_ARGUMENT
 */
SAB_API sab_status sab_memory_model_predict(const sab_memory_model *model, const double *features,
                                            size_t count, double *predicted, double *upper)
    SAB_NOEXCEPT;

/** Makes a cost of the upper prediction, in bytes: the limit of a budget of it is a number of
 * bytes. A negative constant counts as 0. The cost is for sizes with as many columns as the model
 * has, of the same names if both have names. Other sizes are refused where it is used.
 *
 * @param model  of a count and a padded length for each column, without a negative coefficient but
 *     that of the count and the constant (as SAB_MODEL_BATCH is)
 * @param cost   the new handle; free with sab_cost_free(); NULL on failure. It does not need the
 *     model
 * @return SAB_OK; SAB_E_ARGUMENT for a model of other features or with another negative
 *     coefficient, since a cost must not decrease
 */
SAB_API sab_status sab_memory_model_cost_new(const sab_memory_model *model, sab_cost **cost)
    SAB_NOEXCEPT;

/** Writes the model to a file, which is replaced in one step.
 *
 * @param model  a handle
 * @param path   file name, in the system's encoding
 * @return SAB_OK; SAB_E_IO
 */
SAB_API sab_status sab_memory_model_save(const sab_memory_model *model, const char *path)
    SAB_NOEXCEPT;

/** Reads a model that sab_memory_model_save() wrote.
 *
 * @param path   file name
 * @param model  the new handle; free with sab_memory_model_free()
 * @return SAB_OK; SAB_E_IO; SAB_E_FORMAT for a truncated, corrupted or foreign file
 */
SAB_API sab_status sab_memory_model_file_new(const char *path, sab_memory_model **model)
    SAB_NOEXCEPT;

/** Writes the model's file image to memory.
 *
 * @param model     a handle
 * @param buffer    room for `capacity` bytes; may be NULL when `capacity` is 0
 * @param capacity  0: only `size` is filled; otherwise at least `size`
 * @param size      filled with the number of bytes of the image
 * @return SAB_OK; SAB_E_ARGUMENT
 */
SAB_API sab_status sab_memory_model_write(const sab_memory_model *model, void *buffer,
                                          size_t capacity, size_t *size) SAB_NOEXCEPT;

/** Makes a model from a file image, which is copied.
 *
 * @param data   what sab_memory_model_write() wrote
 * @param size   its length in bytes
 * @param model  the new handle; free with sab_memory_model_free()
 * @return SAB_OK; SAB_E_FORMAT
 */
SAB_API sab_status sab_memory_model_bytes_new(const void *data, size_t size,
                                              sab_memory_model **model) SAB_NOEXCEPT;

/** Frees the handle.
 *
 * @param model  a handle or NULL
 */
SAB_API void sab_memory_model_free(sab_memory_model *model) SAB_NOEXCEPT;

#ifdef __cplusplus
}
#endif

#endif
