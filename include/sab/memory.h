/** @file memory.h
 * How much device memory a batch needs: measured, modelled, and checked while training.
 *
 *     sab_probe             reads how much memory is held now, and the most since a reset
 *     sab_collect_peak      runs batches of known shapes and records their peaks in sab_peaks
 *     sab_memory_model      predicts the peak of a shape, with a margin: the cost of a sab_plan
 *     sab_max_batch_find    finds the largest batch that fits, by prediction or by search
 *     sab_plan_verify       runs the worst batches of a plan before training
 *     sab_memory_guard      watches real steps and lowers the budget before memory runs out
 *
 * Work is the caller's: a callback that runs one step. It returns 0, SAB_OUT_OF_MEMORY when the
 * device's memory did not suffice, or any other code, which ends the call as SAB_E_CALLBACK and
 * comes back unchanged through sab_last_callback_code(). A C++ exception that leaves a callback is
 * a failure too, its text in the message; LibTorch's out-of-memory errors among them are
 * recognised. Whatever happens, what measures (sab_collect_peak(), sab_max_batch_find(),
 * sab_plan_verify()) leaves the probe's peak reset, and every call leaves the random generators of
 * the probe as it says.
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

/** What work returns when the device's memory did not suffice. */
#define SAB_OUT_OF_MEMORY 2

/* ---- Probes ---- */

/** Sees the memory of one device. One thread at a time; the calls that use it keep it alive, so it
 * may be freed at any time.
 */
typedef struct sab_probe sab_probe;

/** How a probe is made. */
typedef struct sab_probe_options {
    /** set by SAB_PROBE_OPTIONS_INIT */
    size_t struct_size;
    /** let the device have this many bytes: an allocation beyond them fails as it does on a full
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

/** What a probe sees. -1 where it cannot. */
typedef struct sab_probe_stats {
    /** set by SAB_PROBE_STATS_INIT */
    size_t struct_size;
    /** bytes held now */
    int64_t current;
    /** most bytes held since the last reset */
    int64_t peak;
    /** most bytes that the allocator kept from the device since the last reset, fragments
     *  included */
    int64_t reserved_peak;
    /** largest block that the allocator keeps free */
    int64_t largest_free;
    /** bytes of the device, or as `total_bytes` has it */
    int64_t total;
} sab_probe_stats;
#define SAB_PROBE_STATS_INIT {sizeof(sab_probe_stats), -1, -1, -1, -1, -1}

/** A caller's probe. Each function returns 0, or a code that comes back unchanged. */
typedef struct sab_probe_callbacks {
    /** set by SAB_PROBE_CALLBACKS_INIT */
    size_t struct_size;
    /** handed to each function */
    void *ctx;
    /** the peak begins again at what is held now. Must be given */
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
    /** 1 when work that returned `code` ran out of memory; NULL: only SAB_OUT_OF_MEMORY. Never
     *  asked about 0 */
    int32_t (*is_out_of_memory)(void *ctx, int32_t code);
    /** keeps the state of the random generators as number `depth`, in place of an older one; NULL:
     *  nothing to keep */
    int32_t (*rng_save)(void *ctx, uint64_t depth);
    /** goes back to state number `depth`; given exactly when `rng_save` is */
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

/** Opens a probe of the library's own.
 *
 * - "host": resident memory of this process (Linux: VmRSS and VmHWM; a reset writes to
 *   /proc/self/clear_refs). Needs no LibTorch. Kept by the kernel in pages and counted with some
 *   delay: for orientation, not for budgets to the byte.
 * - "cpu": bytes of CPU tensors that LibTorch allocates from now on in this thread, and in the
 *   threads that LibTorch runs for it (backward), to the byte. Threads of the caller's own are not
 *   seen: a block that such a thread frees counts until its address is given out again. To be freed
 *   in the thread that made it, in reverse order of making.
 * - "cuda:N" (and "xpu:N", ... where that LibTorch has them): the statistics of LibTorch's caching
 *   allocator.
 *
 * All but "host" need sab_torch_open() before. They keep and restore the default random generators
 * of the CPU and of the device.
 *
 * @param device   "host", "cpu", "cuda" (the device 0) or "cuda:N"
 * @param options  NULL: the device as it is
 * @param probe    the new handle; free with sab_probe_free()
 * @return SAB_OK; SAB_E_ARGUMENT for an unknown device or one that is not there; SAB_E_UNSUPPORTED
 *     where LibTorch is needed and not open, or cannot do that
 */
SAB_API sab_status sab_probe_new(const char *device, const sab_probe_options *options,
                                 sab_probe **probe) SAB_NOEXCEPT;

/** Makes a probe of the caller's functions.
 *
 * @param callbacks  copied; `reset`, `current` and `peak` must be given
 * @param probe      the new handle; free with sab_probe_free()
 * @return SAB_OK; SAB_E_ARGUMENT
 */
SAB_API sab_status sab_probe_callbacks_new(const sab_probe_callbacks *callbacks, sab_probe **probe)
    SAB_NOEXCEPT;

/** Lets the peak begin again at what is held now.
 *
 * @param probe  a handle
 * @return SAB_OK; SAB_E_CALLBACK
 */
SAB_API sab_status sab_probe_reset(sab_probe *probe) SAB_NOEXCEPT;

/** Reads what the probe sees.
 *
 * @param probe  a handle
 * @param stats  filled on SAB_OK; its struct_size must be set
 * @return SAB_OK; SAB_E_CALLBACK
 */
SAB_API sab_status sab_probe_get_stats(sab_probe *probe, sab_probe_stats *stats) SAB_NOEXCEPT;

/** Gives blocks that the allocator keeps free back to the device.
 *
 * @param probe  a handle
 * @return SAB_OK; SAB_E_CALLBACK
 */
SAB_API sab_status sab_probe_release_cache(sab_probe *probe) SAB_NOEXCEPT;

/** Gives the handle back. A device that was told to have `total_bytes` has its own again.
 *
 * @param probe  a handle or NULL
 */
SAB_API void sab_probe_free(sab_probe *probe) SAB_NOEXCEPT;

/* ---- Measuring ---- */

/** Measurements. Grows; one thread at a time while it does. */
typedef struct sab_peaks sab_peaks;

/** Runs one item and says what is known of its size.
 *
 * @param ctx       the pointer given with the callback
 * @param item      number of the item, from 0
 * @param features  room for `capacity` numbers that describe the item, such as its count and padded
 *     length; finite
 * @param capacity  room; at least 64
 * @param count     to be filled with how many there are: the same for every item; 0 is allowed
 * @return 0; SAB_OUT_OF_MEMORY (or what the probe takes for it); SAB_END when there are no more
 *     items; anything else is a failure
 */
typedef int32_t (*sab_work_fn)(void *ctx, uint64_t item, double *features, size_t capacity,
                               size_t *count);

/** How to measure. */
typedef struct sab_collect_peak_options {
    /** set by SAB_COLLECT_PEAK_OPTIONS_INIT */
    size_t struct_size;
    /** items there are; UINT64_MAX (default): until `work` says so */
    uint64_t item_count;
    /** runs an item. Must be given */
    sab_work_fn work;
    /** after each item, failed ones included: let go of what `work` holds. NULL */
    int32_t (*cleanup)(void *ctx, uint64_t item);
    /** after `cleanup`: a runtime's garbage collector. NULL */
    int32_t (*collect_garbage)(void *ctx);
    /** handed to the three */
    void *ctx;
    /** the first so many items are run but not recorded: buffers that a framework makes once. 0 */
    uint64_t warm_up;
    /** 1 (default): give cached blocks back after each item, so that peaks do not depend on the
     *  items before */
    int32_t release_cache;
    /** follows and may cancel, before each item; NULL */
    sab_progress_fn progress;
    /** handed to `progress` */
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

/** What was measured; the arrays belong to the sab_peaks and stay valid until the next call that
 * changes it.
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
    /** bytes held before each item */
    const int64_t *before;
    /** most bytes held during each */
    const int64_t *peaks;
    /** most bytes kept from the device during each; -1 where not known */
    const int64_t *reserved_peaks;
    /** largest block kept free after each; -1 where not known */
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
 * The random generators are as before when it returns. Items that run out of memory are listed and
 * skipped. Any other failure stops; what was collected until then stays in `peaks`. Measurements
 * are added to those that `peaks` has.
 *
 * @param probe    the device
 * @param options  what to run; NULL is refused, since `work` must be given
 * @param peaks    where to
 * @return SAB_OK; SAB_E_ARGUMENT also for features that are not finite or not as many as before;
 *     SAB_E_CALLBACK; SAB_E_CANCELLED
 */
SAB_API sab_status sab_collect_peak(sab_probe *probe, const sab_collect_peak_options *options,
                                    sab_peaks *peaks) SAB_NOEXCEPT;

/** Shows what was measured.
 *
 * @param peaks  a handle
 * @param view   filled on SAB_OK; its struct_size must be set
 * @return SAB_OK; SAB_E_ARGUMENT
 */
SAB_API sab_status sab_peaks_get_view(const sab_peaks *peaks, sab_peaks_view *view) SAB_NOEXCEPT;

/** Gives the handle back.
 *
 * @param peaks  a handle or NULL
 */
SAB_API void sab_peaks_free(sab_peaks *peaks) SAB_NOEXCEPT;

/** Predicts peaks. Immutable, shareable between threads. */
typedef struct sab_memory_model sab_memory_model;

/** What to measure for a model of batches. */
typedef struct sab_measurement_options {
    /** set by SAB_MEASUREMENT_OPTIONS_INIT */
    size_t struct_size;
    /** smallest padded length; > 0 */
    double shortest;
    /** largest padded length; at least `shortest` */
    double longest;
    /** most samples in a batch; at least 2 */
    uint64_t max_count;
    /** no point has a larger count * length, so that none runs out of memory; 0: 4 * `longest` */
    double max_padded_total;
    /** of the model, see sab_memory_model_options. 2 */
    uint32_t degree;
    /** a first model of count and length: only points whose upper prediction is from a third to
     *  nine tenths of `budget` are picked, where batches of that budget will lie;
     *  `max_padded_total` does not count then. NULL: none */
    const sab_memory_model *model;
    /** with `model`: bytes */
    double budget;
} sab_measurement_options;
#define SAB_MEASUREMENT_OPTIONS_INIT {sizeof(sab_measurement_options), 0, 0, 0, 0, 2, NULL, 0}

/** Sets the defaults, the same as SAB_MEASUREMENT_OPTIONS_INIT: for languages without C's macros.
 *
 * @param options      filled; NULL is ignored
 * @param struct_size  size of the caller's sab_measurement_options; exactly this many bytes are
 *     written
 */
SAB_API void sab_measurement_options_init(sab_measurement_options *options, size_t struct_size)
    SAB_NOEXCEPT;

/** Picks the (count, length) whose measurements say most about a SAB_MODEL_BATCH model: the
 * D-optimal choice, made greedily on a grid of counts and lengths. In ascending order of count *
 * length, so that what is risky comes last.
 *
 * Peaks are rarely one polynomial from the smallest batch to the largest: measure small batches
 * first, fit, and with that model pick and measure again near the budget, for the model that will
 * be used.
 *
 * @param options   the range; NULL is refused
 * @param points    how many to pick: more than the model has terms, so at least 4 for degree 1 and
 *     7 for degree 2; at most 1000. Twice as many (12 for degree 2) leave enough to judge the model
 *     by
 * @param counts    room for `points` numbers
 * @param lengths   room for `points` numbers
 * @return SAB_OK; SAB_E_ARGUMENT, also when the range has fewer different points than are asked for
 */
SAB_API sab_status sab_measurement_points_find(const sab_measurement_options *options,
                                               size_t points, uint64_t *counts, double *lengths)
    SAB_NOEXCEPT;

/* ---- The model ---- */

/** The terms a model is made of. */
typedef int32_t sab_memory_model_kind;
/** of 2 features, count and length: 1, count, count * length (, count * length^2, length, length^2
 *  for degree 2), such that it falls with neither from the shortest length measured on: it can be
 *  the cost of a plan */
#define SAB_MODEL_BATCH 0
/** of any features: all products of at most `degree` of them */
#define SAB_MODEL_POLYNOMIAL 1

/** How to fit. */
typedef struct sab_memory_model_options {
    /** set by SAB_MEMORY_MODEL_OPTIONS_INIT */
    size_t struct_size;
    /** SAB_MODEL_BATCH */
    sab_memory_model_kind kind;
    /** 1 or 2. 2 */
    uint32_t degree;
    /** share of unseen batches that should stay under the upper prediction, in (0, 1). 0.95 */
    double coverage;
    /** 1 (default): leave out terms that do not pay by the Bayesian information criterion; 0: keep
     *  all */
    int32_t select_terms;
} sab_memory_model_options;
#define SAB_MEMORY_MODEL_OPTIONS_INIT \
    {sizeof(sab_memory_model_options), SAB_MODEL_BATCH, 2, 0.95, 1}

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
    /** what it was fitted to */
    uint64_t measurements;
    /** bytes that a batch of nothing takes: parameters, optimizer, ... */
    double constant;
    /** upper prediction = prediction * (1 + margin) */
    double margin;
    /** share of unseen batches promised to stay under the upper prediction: the one asked for, or
     *  measurements / (measurements + 1) where there are too few for that */
    double coverage;
    /** root of the mean square of the residuals */
    double residual;
    /** the same of measurements left out of the fit in turn */
    double held_out_residual;
    /** largest absolute residual */
    double largest_residual;
} sab_memory_model_info;
#define SAB_MEMORY_MODEL_INFO_INIT {sizeof(sab_memory_model_info), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}

/** Fits a model to measurements.
 *
 * Weighted least squares (relative errors) by QR, backward elimination of terms by the Bayesian
 * information criterion, and a margin by split conformal prediction over left-out measurements: the
 * relative residual of each measurement under a model fitted without it (in 50 groups when there
 * are more), of which the ceil((n + 1) * coverage)-th smallest is the margin (Vovk et al.,
 * "Algorithmic Learning in a Random World"; Barber et al., "Predictive inference with the
 * jackknife+"). The promise holds for batches like those measured.
 *
 * @param features       `count` rows of `feature_count` finite numbers
 * @param count          measurements; at least one more than there are terms
 * @param feature_count  2 for SAB_MODEL_BATCH: count, then padded length
 * @param peaks          `count` positive, finite numbers of bytes
 * @param options        NULL: the defaults
 * @param model          the new handle; free with sab_memory_model_free()
 * @return SAB_OK; SAB_E_ARGUMENT for data that is too little, not finite, or cannot tell the terms
 *     apart: the message says what to measure next
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

/** Predicts.
 *
 * @param model      a handle
 * @param features   `count` rows of as many finite numbers as the model has features
 * @param count      rows
 * @param predicted  room for `count` numbers: the expected peaks. NULL: not wanted
 * @param upper      room for `count` numbers: with the margin. NULL: not wanted
 * @return SAB_OK; SAB_E_ARGUMENT
 */
SAB_API sab_status sab_memory_model_predict(const sab_memory_model *model, const double *features,
                                            size_t count, double *predicted, double *upper)
    SAB_NOEXCEPT;

/** The upper prediction as the cost of a plan: give the terms to sab_plan_options with
 * SAB_COST_TERMS, and a number of bytes as the budget.
 *
 * @param model       of 2 features, count and padded length, without a negative coefficient but
 *     that of the count (as SAB_MODEL_BATCH is)
 * @param terms       room for `capacity` terms
 * @param capacity    nothing is written when it is smaller than `term_count`
 * @param term_count  filled with the number of terms
 * @return SAB_OK; SAB_E_ARGUMENT for a model of other features or with another negative coefficient
 */
SAB_API sab_status sab_memory_model_cost_terms(const sab_memory_model *model, sab_cost_term *terms,
                                               size_t capacity, size_t *term_count) SAB_NOEXCEPT;

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

/** Gives the handle back.
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
 * @return 0; SAB_OUT_OF_MEMORY (or what the probe takes for it); anything else is a failure
 */
typedef int32_t (*sab_trial_fn)(void *ctx, uint64_t count, double length);

/** How the largest batch is looked for. */
typedef int32_t sab_search;
/** by prediction: steps of growing size, each as large as the curve through the ones before allows;
 *  the last that fits is the answer, at most a hundredth below what the curve says. Six steps a
 *  length, more where memory is no straight line of the count (a warning is logged when 30 are not
 *  enough). Runs out only where two samples do not fit or memory suddenly grows much faster */
#define SAB_SEARCH_PREDICT 0
/** without running out: memory(2) - memory(1) is the memory of one sample. Two steps; right only
 *  where memory is a multiple of the count */
#define SAB_SEARCH_DIFFERENCE 1
/** bisection between 1 and the maximum, by running out */
#define SAB_SEARCH_BINARY 2
/** the maximum, then half of it, until it fits */
#define SAB_SEARCH_HALVE 3

/** How to round a batch size, downwards. */
typedef int32_t sab_rounding;
#define SAB_ROUND_NONE 0
#define SAB_ROUND_POWER_OF_TWO 1 /**< to a power of two */
#define SAB_ROUND_MULTIPLE 2     /**< to a multiple of `multiple`, where at least one fits */

/** How to look for the largest batch. */
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
    /** never larger than this; 100,000 as in the torchtune proposal */
    uint64_t max_batch_size;
    /** peaks must not be larger; 0: the device's `total` */
    int64_t budget;
    /** SAB_ROUND_NONE */
    sab_rounding rounding;
    /** of SAB_ROUND_MULTIPLE */
    uint64_t multiple;
    /** all ranks get the same answer, the least; NULL: one rank */
    sab_reduce_fn reduce;
    /** handed to `reduce` */
    void *reduce_ctx;
    /** follows and may cancel, before each step; NULL */
    sab_progress_fn progress;
    /** handed to `progress` */
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

/** What was found. */
typedef struct sab_max_batch {
    /** set by SAB_MAX_BATCH_INIT */
    size_t struct_size;
    /** the largest for the longest length */
    uint64_t batch_size;
    /** steps run */
    uint64_t trials;
    /** of them, how many ran out */
    uint64_t out_of_memory;
    /** measured peak of the largest batch that was found to fit, before rounding; DIFFERENCE
     *  predicts it */
    double peak;
    /** peaks may reach */
    int64_t budget;
} sab_max_batch;
#define SAB_MAX_BATCH_INIT {sizeof(sab_max_batch), 0, 0, 0, 0, 0}

/** Finds the largest batch whose step fits.
 *
 * The random generators are as before when it returns; model and optimizer are the caller's to put
 * back. Where ranks train together, all call this and run the same steps: `reduce` is called once
 * before the first step, once after each step and once at the end. A rank that fails calls it once
 * more and then no longer, and the others fail with SAB_E_MISMATCH, so that no rank waits for ever.
 *
 * @param probe        the device
 * @param trial        runs a step
 * @param ctx          handed to `trial`
 * @param options      NULL: the defaults
 * @param batch_sizes  room for one number a length, in the order of the lengths; NULL: not wanted
 * @param result       filled on SAB_OK; its struct_size must be set
 * @return SAB_OK; SAB_E_DEVICE_MEMORY when not even one sample fits; SAB_E_ARGUMENT;
 *     SAB_E_CALLBACK; SAB_E_CANCELLED; SAB_E_MISMATCH when another rank failed
 */
SAB_API sab_status sab_max_batch_find(sab_probe *probe, sab_trial_fn trial, void *ctx,
                                      const sab_max_batch_options *options, uint64_t *batch_sizes,
                                      sab_max_batch *result) SAB_NOEXCEPT;

/* ---- Before and while training ---- */

/** Runs one batch of a plan.
 *
 * @param ctx    the pointer given with the callback
 * @param batch  the batch; dies when the callback returns
 * @return 0; SAB_OUT_OF_MEMORY (or what the probe takes for it); anything else is a failure
 */
typedef int32_t (*sab_batch_fn)(void *ctx, const sab_batch *batch);

/** What the dry run of a plan saw. */
typedef struct sab_verification {
    size_t struct_size; /**< set by SAB_VERIFICATION_INIT */
    uint64_t batches;   /**< run */
    int64_t peak;       /**< largest of their peaks */
    int64_t total;      /**< bytes of the device; -1 where not known */
} sab_verification;
#define SAB_VERIFICATION_INIT {sizeof(sab_verification), 0, -1, -1}

/** Runs the worst batches of a plan before training, costliest first.
 *
 * The random generators are as before when it returns; gradients are the caller's to clear.
 *
 * @param plan          a plan
 * @param probe         the device
 * @param count         how many batches; at least 1
 * @param run           runs a batch
 * @param ctx           handed to `run`
 * @param progress      follows and may cancel, before each batch; NULL for none
 * @param progress_ctx  handed to `progress`
 * @param result        filled on SAB_OK and on SAB_E_DEVICE_MEMORY; its struct_size must be set
 * @return SAB_OK; SAB_E_DEVICE_MEMORY when a batch ran out, its shape in the message;
 *     SAB_E_CALLBACK; SAB_E_CANCELLED
 */
SAB_API sab_status sab_plan_verify(const sab_plan *plan, sab_probe *probe, uint64_t count,
                                   sab_batch_fn run, void *ctx, sab_progress_fn progress,
                                   void *progress_ctx, sab_verification *result) SAB_NOEXCEPT;

/** Keeps a run within its memory. For one thread, that of its sampler. */
typedef struct sab_memory_guard sab_memory_guard;

/** How to keep watch. */
typedef struct sab_memory_guard_options {
    /** set by SAB_MEMORY_GUARD_OPTIONS_INIT */
    size_t struct_size;
    /** peaks are to stay under this; 0: the device's `total` */
    int64_t budget;
    /** judged every so many steps; the same on all ranks. 16 */
    uint64_t interval;
    /** by the last so many steps; at least 8. 64 */
    uint64_t window;
    /** the ranks lower together, to the least; called every `interval` steps, and once more when
     *  the budget is to be lowered. NULL: one rank */
    sab_reduce_fn reduce;
    /** handed to `reduce` */
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

/** What a guard has seen and done. */
typedef struct sab_memory_guard_info {
    /** set by SAB_MEMORY_GUARD_INFO_INIT */
    size_t struct_size;
    /** seen */
    uint64_t steps;
    /** steps that ran out and were split */
    uint64_t out_of_memory;
    /** times the budget was lowered */
    uint64_t lowered;
    /** of the coming batches, in the unit of the plan's cost */
    double budget;
    /** largest peak */
    int64_t peak;
    /** mean of the peaks */
    double mean_peak;
    /** bytes by which peaks of the window are above what the model says, at most */
    double creep;
} sab_memory_guard_info;
#define SAB_MEMORY_GUARD_INFO_INIT {sizeof(sab_memory_guard_info), 0, 0, 0, 0, -1, 0, 0}

/** Makes a guard for a run.
 *
 * Every `interval` steps it refits two numbers to the last `window` steps: how far peaks lie above
 * the plan's cost (its constant, when the plan's cost is a memory model; otherwise the bytes of a
 * unit of cost), and how fast that grows. When the batches to come would reach `limit` within two
 * intervals, the sampler's budget is lowered (sab_sampler_set_budget()) so that they do not, on all
 * ranks alike, and a line goes to the log.
 *
 * @param probe    the device
 * @param sampler  of a plan whose cost is no callback; must outlive the guard
 * @param options  NULL: the defaults
 * @param guard    the new handle; free with sab_memory_guard_free()
 * @return SAB_OK; SAB_E_ARGUMENT also when no limit is known; SAB_E_UNSUPPORTED for a sampler whose
 *     budget cannot be lowered
 */
SAB_API sab_status sab_memory_guard_new(sab_probe *probe, sab_sampler *sampler,
                                        const sab_memory_guard_options *options,
                                        sab_memory_guard **guard) SAB_NOEXCEPT;

/** For callers that run their own steps: begins one.
 *
 * @param guard  a handle
 * @return SAB_OK; SAB_E_CALLBACK
 */
SAB_API sab_status sab_memory_guard_begin(sab_memory_guard *guard) SAB_NOEXCEPT;

/** Ends a step that sab_memory_guard_begin() began: looks at the peak and lowers the budget when it
 * must. A call that fails counts the step, too: do not call this again for it.
 *
 * @param guard          a handle
 * @param batch          the batch of the step
 * @param out_of_memory  1 when the step ran out of memory, else 0
 * @return SAB_OK; SAB_E_CALLBACK; SAB_E_MISMATCH as for sab_memory_guard_step()
 */
SAB_API sab_status sab_memory_guard_end(sab_memory_guard *guard, const sab_batch *batch,
                                        int32_t out_of_memory) SAB_NOEXCEPT;

/** What the guard has seen and done.
 *
 * @param guard  a handle
 * @param info   filled on SAB_OK; its struct_size must be set
 * @return SAB_OK; SAB_E_ARGUMENT
 */
SAB_API sab_status sab_memory_guard_get_info(const sab_memory_guard *guard,
                                             sab_memory_guard_info *info) SAB_NOEXCEPT;

/** Gives the handle back. The sampler keeps its budget.
 *
 * @param guard  a handle or NULL
 */
SAB_API void sab_memory_guard_free(sab_memory_guard *guard) SAB_NOEXCEPT;

#ifdef __cplusplus
}
#endif

#endif
