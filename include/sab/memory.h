/** @file memory.h
 * How much device memory a batch needs: measured, modelled, and checked while training.
 *
 *     sab_probe             reads how much memory is in use, and the peak since a reset
 *     sab_collect_peak      runs batches of known shapes and records their peaks in sab_peaks
 *     sab_memory_model      predicts the peak of a shape, with a margin: the cost of a sab_plan
 *     sab_max_batch_find    finds the largest batch that fits, by prediction or by search
 *     sab_plan_verify       runs the costliest batches of a plan before training
 *     sab_memory_guard      measures real steps and lowers the budget before memory runs out
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
#define SAB_PROBE_OPTIONS_INIT {sizeof(sab_probe_options), 0}

/** Sets the defaults, the same as SAB_PROBE_OPTIONS_INIT: for languages without C's macros.
 *
 * @param options      filled; NULL is ignored
 * @param struct_size  size of the caller's sab_probe_options; exactly this many bytes are
 *     written
 */
SAB_API void sab_probe_options_init(sab_probe_options *options, size_t struct_size) SAB_NOEXCEPT;

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
#define SAB_PROBE_STATS_INIT {sizeof(sab_probe_stats), -1, -1, -1, -1, -1}

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
    /** NULL: not known */
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
#define SAB_PROBE_CALLBACKS_INIT \
    {sizeof(sab_probe_callbacks), NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL}

/** Sets the defaults, the same as SAB_PROBE_CALLBACKS_INIT: for languages without C's macros.
 *
 * @param callbacks    filled; NULL is ignored
 * @param struct_size  size of the caller's sab_probe_callbacks; exactly this many bytes are
 *     written
 */
SAB_API void sab_probe_callbacks_init(sab_probe_callbacks *callbacks, size_t struct_size)
    SAB_NOEXCEPT;

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
    /** number of items; UINT64_MAX (default): until `work` returns SAB_END */
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
    /** 1 (default): release cached blocks after each item, so that peaks do not depend on earlier
     *  items */
    int32_t release_cache;
    /** reports progress and may cancel, before each item; NULL */
    sab_progress_fn progress;
    /** passed to `progress` */
    void *progress_ctx;
} sab_collect_peak_options;
#define SAB_COLLECT_PEAK_OPTIONS_INIT \
    {sizeof(sab_collect_peak_options), UINT64_MAX, NULL, NULL, NULL, NULL, 0, 1, NULL, NULL}

/** Sets the defaults, the same as SAB_COLLECT_PEAK_OPTIONS_INIT: for languages without C's macros.
 *
 * @param options      filled; NULL is ignored
 * @param struct_size  size of the caller's sab_collect_peak_options; exactly this many bytes are
 *     written
 */
SAB_API void sab_collect_peak_options_init(sab_collect_peak_options *options, size_t struct_size)
    SAB_NOEXCEPT;

/** Measurements. The arrays belong to the sab_peaks and stay valid until the next call that changes
 * it.
 */
typedef struct sab_peaks_view {
    /** set by SAB_PEAKS_VIEW_INIT */
    size_t struct_size;
    /** measurements */
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
    /** items that ran out of memory */
    size_t out_of_memory_count;
    /** their numbers */
    const uint64_t *out_of_memory;
} sab_peaks_view;
#define SAB_PEAKS_VIEW_INIT \
    {sizeof(sab_peaks_view), 0, 0, NULL, NULL, NULL, NULL, NULL, NULL, 0, NULL}

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
    /** number of columns of the sizes, 1 to SAB_MAX_COLUMNS. 1 */
    size_t columns;
    /** smallest padded length of each column; > 0, of several columns at least 0 */
    double shortest[SAB_MAX_COLUMNS];
    /** largest padded length of each column; at least `shortest`, > 0 */
    double longest[SAB_MAX_COLUMNS];
    /** most samples in a batch; at least 2 */
    uint64_t max_count;
    /** With a NULL cost no point has more padded positions (count * sum of the lengths) than
     *  `limit`, so that none runs out of memory. A limit of 0 (default) is 4 * the sum of
     *  `longest`. With a cost, such as that of a first model, only points that cost from a third to
     *  nine tenths of `limit` are picked. Batches of that budget will be in this range. `limit`
     *  must then be above 0 */
    sab_budget budget;
    /** of the model, see sab_memory_model_options. 2 */
    uint32_t degree;
} sab_measurement_options;
#define SAB_MEASUREMENT_OPTIONS_INIT {sizeof(sab_measurement_options), 1, {0}, {0}, 0, {NULL, 0}, 2}

/** Sets the defaults, the same as SAB_MEASUREMENT_OPTIONS_INIT: for languages without C's macros.
 *
 * @param options      filled; NULL is ignored
 * @param struct_size  size of the caller's sab_measurement_options; exactly this many bytes are
 *     written
 */
SAB_API void sab_measurement_options_init(sab_measurement_options *options, size_t struct_size)
    SAB_NOEXCEPT;

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
    /** 1 or 2. 2 */
    uint32_t degree;
    /** share of unseen batches that should stay under the upper prediction, in (0, 1). 0.95 */
    double coverage;
    /** 1 (default): remove terms by the Bayesian information criterion; 0: keep all */
    int32_t select_terms;
    /** the name of each column, feature_count - 1 of them, all different, each of 1 to
     *  SAB_MAX_COLUMN_NAME bytes; read during the call. A plan refuses the cost of a model for
     *  sizes with other names. NULL: no names */
    const char *const *column_names;
} sab_memory_model_options;
#define SAB_MEMORY_MODEL_OPTIONS_INIT \
    {sizeof(sab_memory_model_options), SAB_MODEL_BATCH, 2, 0.95, 1, NULL}

/** Sets the defaults, the same as SAB_MEMORY_MODEL_OPTIONS_INIT: for languages without C's macros.
 *
 * @param options      filled; NULL is ignored
 * @param struct_size  size of the caller's sab_memory_model_options; exactly this many bytes are
 *     written
 */
SAB_API void sab_memory_model_options_init(sab_memory_model_options *options, size_t struct_size)
    SAB_NOEXCEPT;

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
    /** terms kept */
    size_t term_count;
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
#define SAB_MEMORY_MODEL_INFO_INIT {sizeof(sab_memory_model_info), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}

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

/** One term: coefficient * product of feature[i]^powers[i].
 *
 * @param model        a handle
 * @param index        below sab_memory_model_info.term_count
 * @param coefficient  filled
 * @param powers       room for as many numbers as there are features
 * @return SAB_OK; SAB_E_ARGUMENT
 */
SAB_API sab_status sab_memory_model_get_term(const sab_memory_model *model, size_t index,
                                             double *coefficient, uint32_t *powers) SAB_NOEXCEPT;

/** Name of a column of a model.
 *
 * @param model   a handle
 * @param column  from 0: that of the feature column + 1
 * @return the name, which belongs to the handle; NULL for a column without a name, and for one that
 *     does not exist
 */
SAB_API const char *sab_memory_model_column_name(const sab_memory_model *model, size_t column)
    SAB_NOEXCEPT;

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
 * @param capacity  nothing is written when it is smaller than `size`
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

/* ---- The largest batch ---- */

/** Runs one training step on a batch of a stated shape.
 *
 * @param ctx     the pointer given with the callback
 * @param count   samples; at least 1
 * @param length  padded length of each
 * @return 0; SAB_OUT_OF_MEMORY (or another code that the probe recognises); any other code is a
 *     failure
 */
typedef int32_t (*sab_trial_fn)(void *ctx, uint64_t count, double length);

/** Search method for the largest batch. */
typedef int32_t sab_search;
/** by prediction: steps of growing size, each as large as the curve through the earlier ones
 *  allows. The result is the last one that fits, at most 1 % below the prediction. About six steps
 *  a length, more if memory is not linear in the count (a warning is logged if 30 are not enough).
 *  Runs out of memory only if two samples do not fit or memory suddenly grows much faster. The
 *  blocks of a caching allocator take more than the peak: there up to three trials ran out */
#define SAB_SEARCH_PREDICT 0
/** from two steps: memory(2) - memory(1) is the memory of one sample. Correct only if memory is
 *  linear in the count */
#define SAB_SEARCH_DIFFERENCE 1
/** bisection between 1 and `max_batch_size`; runs out of memory */
#define SAB_SEARCH_BINARY 2
/** `max_batch_size`, then half of it, until it fits */
#define SAB_SEARCH_HALVE 3

/** How a batch size is rounded down. */
typedef int32_t sab_rounding;
#define SAB_ROUND_NONE 0
#define SAB_ROUND_POWER_OF_TWO 1 /**< to a power of two */
#define SAB_ROUND_MULTIPLE 2     /**< to a multiple of `multiple`, where at least one fits */

/** Options of sab_max_batch_find(). */
typedef struct sab_max_batch_options {
    /** set by SAB_MAX_BATCH_OPTIONS_INIT */
    size_t struct_size;
    /** SAB_SEARCH_PREDICT */
    sab_search search;
    /** padded lengths to find a batch size for, in any order, each > 0; the largest is tried first.
     *  NULL: one, 1 */
    const double *lengths;
    /** number of `lengths` */
    size_t length_count;
    /** no batch size is larger; 100,000 as in the torchtune proposal */
    uint64_t max_batch_size;
    /** limit of the peaks in bytes; 0: the device's `total` */
    int64_t budget;
    /** SAB_ROUND_NONE */
    sab_rounding rounding;
    /** of SAB_ROUND_MULTIPLE */
    uint64_t multiple;
    /** all ranks get the smallest result; NULL: one rank */
    sab_reduce_fn reduce;
    /** passed to `reduce` */
    void *reduce_ctx;
    /** reports progress and may cancel, before each step; NULL */
    sab_progress_fn progress;
    /** passed to `progress` */
    void *progress_ctx;
} sab_max_batch_options;
#define SAB_MAX_BATCH_OPTIONS_INIT  \
    {sizeof(sab_max_batch_options), \
     SAB_SEARCH_PREDICT,            \
     NULL,                          \
     0,                             \
     100000,                        \
     0,                             \
     SAB_ROUND_NONE,                \
     0,                             \
     NULL,                          \
     NULL,                          \
     NULL,                          \
     NULL}

/** Sets the defaults, the same as SAB_MAX_BATCH_OPTIONS_INIT: for languages without C's
 * macros.
 *
 * @param options      filled; NULL is ignored
 * @param struct_size  size of the caller's sab_max_batch_options; exactly this many bytes are
 *     written
 */
SAB_API void sab_max_batch_options_init(sab_max_batch_options *options, size_t struct_size)
    SAB_NOEXCEPT;

/** Result of sab_max_batch_find(). */
typedef struct sab_max_batch {
    /** set by SAB_MAX_BATCH_INIT */
    size_t struct_size;
    /** the largest batch size for the longest length */
    uint64_t batch_size;
    /** steps run */
    uint64_t trials;
    /** steps that ran out of memory */
    uint64_t out_of_memory;
    /** measured peak of the largest batch that fits, before rounding; predicted by DIFFERENCE */
    double peak;
    /** limit of the peaks */
    int64_t budget;
} sab_max_batch;
#define SAB_MAX_BATCH_INIT {sizeof(sab_max_batch), 0, 0, 0, 0, 0}

/** Finds the largest batch whose step fits.
 *
 * Restores the random generators; the caller restores model and optimizer. In a distributed run all
 * ranks call this and run the same steps. `reduce` is called once before the first step, once after
 * each step and once at the end. If a rank fails, it calls `reduce` once more, and the other ranks
 * fail with SAB_E_MISMATCH, so that no rank waits forever.
 *
 * @param probe        the device
 * @param trial        runs a step
 * @param ctx          passed to `trial`
 * @param options      NULL: the defaults
 * @param batch_sizes  room for one number a length, in the order of the lengths; may be NULL
 * @param result       filled on SAB_OK; its struct_size must be set
 * @return SAB_OK; SAB_E_DEVICE_MEMORY if not even one sample fits; SAB_E_ARGUMENT; SAB_E_CALLBACK;
 *     SAB_E_CANCELLED; SAB_E_MISMATCH if another rank failed
 */
SAB_API sab_status sab_max_batch_find(sab_probe *probe, sab_trial_fn trial, void *ctx,
                                      const sab_max_batch_options *options, uint64_t *batch_sizes,
                                      sab_max_batch *result) SAB_NOEXCEPT;

/* ---- Before and while training ---- */

/** Runs one batch of a plan.
 *
 * @param ctx    the pointer given with the callback
 * @param batch  the batch; valid until the callback returns
 * @return 0; SAB_OUT_OF_MEMORY (or another code that the probe recognises); any other code is a
 *     failure
 */
typedef int32_t (*sab_batch_fn)(void *ctx, const sab_batch *batch);

/** Result of sab_plan_verify(). */
typedef struct sab_verification {
    size_t struct_size; /**< set by SAB_VERIFICATION_INIT */
    uint64_t batches;   /**< run */
    int64_t peak;       /**< largest of their peaks */
    int64_t total;      /**< bytes of the device; -1 where not known */
} sab_verification;
#define SAB_VERIFICATION_INIT {sizeof(sab_verification), 0, -1, -1}

/** Runs the costliest batches of a plan before training, costliest first.
 *
 * Restores the random generators; the caller clears the gradients.
 *
 * @param plan          a plan
 * @param probe         the device
 * @param count         number of batches; at least 1
 * @param run           runs a batch
 * @param ctx           passed to `run`
 * @param progress      reports progress and may cancel, before each batch; NULL for none
 * @param progress_ctx  passed to `progress`
 * @param result        filled on SAB_OK and on SAB_E_DEVICE_MEMORY; its struct_size must be set
 * @return SAB_OK; SAB_E_DEVICE_MEMORY if a batch ran out of memory; the message has its shape;
 *     SAB_E_CALLBACK; SAB_E_CANCELLED; SAB_E_FORMAT for a damaged plan file
 */
SAB_API sab_status sab_plan_verify(const sab_plan *plan, sab_probe *probe, uint64_t count,
                                   sab_batch_fn run, void *ctx, sab_progress_fn progress,
                                   void *progress_ctx, sab_verification *result) SAB_NOEXCEPT;

/** Lowers the budget of a run before memory runs out. For one thread, that of its sampler. */
typedef struct sab_memory_guard sab_memory_guard;

/** Options of a memory guard. */
typedef struct sab_memory_guard_options {
    /** set by SAB_MEMORY_GUARD_OPTIONS_INIT */
    size_t struct_size;
    /** bytes that peaks are to stay under; 0: the device's `total` */
    int64_t budget;
    /** steps between two checks; the same on all ranks. 16 */
    uint64_t interval;
    /** number of last steps that a check uses; at least 8. 64 */
    uint64_t window;
    /** makes all ranks lower the budget to the smallest one; called every `interval` steps, and
     *  once more when the budget is lowered. NULL: one rank */
    sab_reduce_fn reduce;
    /** passed to `reduce` */
    void *reduce_ctx;
} sab_memory_guard_options;
#define SAB_MEMORY_GUARD_OPTIONS_INIT {sizeof(sab_memory_guard_options), 0, 16, 64, NULL, NULL}

/** Sets the defaults, the same as SAB_MEMORY_GUARD_OPTIONS_INIT: for languages without C's macros.
 *
 * @param options      filled; NULL is ignored
 * @param struct_size  size of the caller's sab_memory_guard_options; exactly this many bytes are
 *     written
 */
SAB_API void sab_memory_guard_options_init(sab_memory_guard_options *options, size_t struct_size)
    SAB_NOEXCEPT;

/** Statistics of a memory guard. */
typedef struct sab_memory_guard_info {
    /** set by SAB_MEMORY_GUARD_INFO_INIT */
    size_t struct_size;
    /** number of measured steps */
    uint64_t steps;
    /** steps that ran out of memory and were split */
    uint64_t out_of_memory;
    /** times the budget was lowered */
    uint64_t lowered;
    /** limit of the plan's first budget for the coming batches, as sab_sampler_get_budget() gives
     *  it */
    double limit;
    /** largest peak */
    int64_t peak;
    /** mean of the peaks */
    double mean_peak;
    /** largest number of bytes by which peaks of the window exceed the model */
    double creep;
} sab_memory_guard_info;
#define SAB_MEMORY_GUARD_INFO_INIT {sizeof(sab_memory_guard_info), 0, 0, 0, 0, -1, 0, 0}

/** Makes a guard for a run.
 *
 * Every `interval` steps it fits two numbers to the last `window` steps. The first one is how far
 * peaks lie above the cost of the plan's first budget. This is the constant of the cost if the cost
 * is that of a memory model, and otherwise the bytes of a unit of cost. The second one is how fast
 * the first one grows. If the coming batches would reach `budget` within two intervals, the plan's
 * first budget is lowered on all ranks (sab_sampler_set_budget()), and a message is logged. After
 * a step that ran out of memory it is lowered by at least 5 %, and to a half if no step between two
 * checks was whole.
 *
 * @param probe    the device
 * @param sampler  of a plan whose first budget has a cost that is no callback; must outlive the
 *     guard
 * @param options  NULL: the defaults
 * @param guard    the new handle; free with sab_memory_guard_free()
 * @return SAB_OK; SAB_E_ARGUMENT also when `budget` is 0 and the device's total is not known;
 *     SAB_E_UNSUPPORTED for a sampler whose first budget cannot be lowered
 */
SAB_API sab_status sab_memory_guard_new(sab_probe *probe, sab_sampler *sampler,
                                        const sab_memory_guard_options *options,
                                        sab_memory_guard **guard) SAB_NOEXCEPT;

/** Begins a step, for callers that run their own steps.
 *
 * @param guard  a handle
 * @return SAB_OK; SAB_E_CALLBACK
 */
SAB_API sab_status sab_memory_guard_begin(sab_memory_guard *guard) SAB_NOEXCEPT;

/** Ends a step that sab_memory_guard_begin() began: reads the peak and lowers the budget if
 * necessary. A failed call counts the step, too: do not repeat it.
 *
 * @param guard          a handle
 * @param batch          the batch of the step
 * @param out_of_memory  1 if the step ran out of memory, else 0
 * @return SAB_OK; SAB_E_CALLBACK; SAB_E_MISMATCH as for sab_memory_guard_step() of sab/steps.h
 */
SAB_API sab_status sab_memory_guard_end(sab_memory_guard *guard, const sab_batch *batch,
                                        int32_t out_of_memory) SAB_NOEXCEPT;

/** Statistics of the guard.
 *
 * @param guard  a handle
 * @param info   filled on SAB_OK; its struct_size must be set
 * @return SAB_OK; SAB_E_ARGUMENT
 */
SAB_API sab_status sab_memory_guard_get_info(const sab_memory_guard *guard,
                                             sab_memory_guard_info *info) SAB_NOEXCEPT;

/** Frees the handle. The sampler keeps its budget.
 *
 * @param guard  a handle or NULL
 */
SAB_API void sab_memory_guard_free(sab_memory_guard *guard) SAB_NOEXCEPT;

#ifdef __cplusplus
}
#endif

#endif
