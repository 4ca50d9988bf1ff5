/* Generated from the public headers by tools/abi.py: do not edit.
 * A C compiler needs <stddef.h> and <stdint.h> before them; readers without a preprocessor know
 * size_t, int32_t and the like themselves. A comment before the declarations of a header has its
 * name and tier: stable ones do not change, provisional ones may change in a minor release. */
/* sab/base.h, stable */
enum {
 SAB_OK = 0,
 SAB_END = 1,
 SAB_E_ARGUMENT = -1,
 SAB_E_NO_MEMORY = -2,
 SAB_E_CALLBACK = -3,
 SAB_E_CANCELLED = -4,
 SAB_E_IO = -5,
 SAB_E_FORMAT = -6,
 SAB_E_MISMATCH = -7,
 SAB_E_UNSUPPORTED = -8,
 SAB_E_INTERNAL = -9,
 SAB_E_DEVICE_MEMORY = -10,
 SAB_E_TIMEOUT = -11,
 SAB_LOG_WARNING = 1,
 SAB_LOG_INFO = 2,
};
typedef int32_t sab_status;
const char *sab_status_name(sab_status status);
const char *sab_last_error_message(void);
const char *sab_last_error_argument(void);
const char *sab_last_error_value(void);
const char *sab_last_error_rule(void);
int32_t sab_last_error_code(void);
uint32_t sab_abi_version(void);
const char *sab_version_string(void);
typedef int32_t sab_log_level;
typedef void (*sab_log_fn)(void *ctx, sab_log_level level, const char *message);
void sab_log_set_callback(sab_log_fn callback, void *ctx);
typedef int32_t (*sab_progress_fn)(void *ctx, uint64_t done, uint64_t total);
typedef struct sab_progress_options {
 size_t struct_size;
 sab_progress_fn progress;
 void *progress_ctx;
} sab_progress_options;
/* sab/sizes.h, stable */
enum {
 SAB_MAX_COLUMNS = 8,
 SAB_MAX_COLUMN_NAME = 63,
 SAB_INT8 = 1,
 SAB_INT16 = 2,
 SAB_INT32 = 3,
 SAB_INT64 = 4,
 SAB_UINT8 = 5,
 SAB_UINT16 = 6,
 SAB_UINT32 = 7,
 SAB_UINT64 = 8,
 SAB_FLOAT32 = 9,
 SAB_FLOAT64 = 10,
 SAB_TEXT_BYTES = 0,
 SAB_TEXT_WORDS = 1,
 SAB_TEXT_CHARACTERS = 2,
 SAB_TEXT_VALUE = 3,
 SAB_TEXT_ALL_BYTES = 4,
 SAB_NULLS_REFUSE = 0,
 SAB_NULLS_ZERO = 1,
};
typedef struct sab_sizes sab_sizes;
typedef int32_t sab_dtype;
typedef int32_t sab_text_unit;
typedef int32_t sab_null_rule;
typedef struct sab_sizes_options {
 size_t struct_size;
 int64_t stride;
 int32_t copy;
} sab_sizes_options;
sab_status sab_sizes_new(const void *data, size_t count, sab_dtype dtype, const sab_sizes_options *options, sab_sizes **sizes);
typedef int32_t (*sab_size_fn)(void *ctx, int64_t index, double *size);
sab_status sab_sizes_callback_new(size_t count, sab_size_fn size, void *ctx, const sab_progress_options *options, sab_sizes **sizes);
sab_status sab_sizes_join_new(const sab_sizes *const *parts, size_t count, sab_sizes **sizes);
sab_status sab_sizes_locate(const sab_sizes *sizes, size_t index, size_t *part, size_t *row);
sab_status sab_sizes_columns_new(const sab_sizes *const *columns, const char *const *names, size_t count, sab_sizes **sizes);
typedef struct sab_sizes_info {
 size_t struct_size;
 size_t count;
 size_t columns;
 const char *const *column_names;
 size_t sources;
 const char *description;
} sab_sizes_info;
sab_status sab_sizes_get_info(const sab_sizes *sizes, sab_sizes_info *info);
size_t sab_sizes_count(const sab_sizes *sizes);
sab_status sab_sizes_get(const sab_sizes *sizes, size_t first, size_t count, double *values);
void sab_sizes_free(sab_sizes *sizes);
/* sab/cost.h, stable */
enum {
 SAB_MAX_COST_TERMS = 64,
 SAB_MAX_BUDGETS = 8,
};
typedef struct sab_cost sab_cost;
typedef struct sab_cost_term {
 double coefficient;
 uint32_t count_power;
 uint32_t column_count;
 const uint32_t *length_powers;
 uint64_t reserved[2];
} sab_cost_term;
typedef int32_t (*sab_cost_fn)(void *ctx, uint64_t count, const double *lengths, const double *totals, size_t columns, double *cost);
sab_status sab_cost_padded_new(const double *weights, size_t columns, sab_cost **cost);
sab_status sab_cost_terms_new(const sab_cost_term *terms, size_t count, sab_cost **cost);
sab_status sab_cost_transformer_new(uint64_t hidden, uint64_t layers, sab_cost **cost);
sab_status sab_cost_callback_new(sab_cost_fn fn, void *ctx, void (*release)(void *ctx), sab_cost **cost);
sab_status sab_cost_evaluate(const sab_cost *cost, uint64_t count, const double *lengths, const double *totals, size_t columns, double *value);
void sab_cost_free(sab_cost *cost);
typedef struct sab_budget {
 const sab_cost *cost;
 double limit;
 uint64_t reserved[2];
} sab_budget;
/* sab/plan.h, stable */
enum {
 SAB_MAX_PLAN_THREADS = 256,
 SAB_BUCKETS_AUTO = 0,
 SAB_BUCKETS_BOUNDARIES = 1,
 SAB_BUCKETS_OPTIMAL = 2,
 SAB_TAIL_KEEP = 0,
 SAB_TAIL_DROP = 1,
 SAB_TAIL_WRAP = 2,
 SAB_OVERSIZE_ERROR = 0,
 SAB_OVERSIZE_SKIP = 1,
 SAB_OVERSIZE_SINGLE = 2,
 SAB_SHAPES_ANY = 0,
 SAB_SHAPES_AUTO = 1,
};
typedef struct sab_plan sab_plan;
typedef int32_t sab_bucket_rule;
typedef int32_t sab_tail;
typedef int32_t sab_oversize;
typedef int32_t sab_shape_rule;
typedef struct sab_plan_options {
 size_t struct_size;
 const sab_budget *budgets;
 size_t budget_count;
 const uint64_t *batch_sizes;
 size_t batch_size_count;
 uint64_t max_batch_size;
 uint64_t min_batch_size;
 const double *length_multiples;
 size_t length_multiple_count;
 sab_tail tail;
 sab_oversize oversize;
 sab_bucket_rule bucket_rule;
 sab_shape_rule shapes;
 double padding_target;
 uint64_t bucket_batches;
 const double *boundaries;
 size_t boundary_count;
 size_t bucket_count;
 uint64_t batch_size_multiple;
 const uint64_t *max_shapes;
 size_t max_shape_count;
 const int64_t *separate_by;
 size_t separate_by_count;
 uint64_t threads;
 sab_progress_fn progress;
 void *progress_ctx;
} sab_plan_options;
typedef struct sab_bucket {
 size_t struct_size;
 size_t columns;
 const double *lower;
 const double *upper;
 const double *shortest;
 const double *longest;
 const double *padded_length;
 const double *total;
 double cost;
 uint64_t samples;
 uint64_t batch_size;
 uint64_t batches;
 int64_t id;
} sab_bucket;
typedef struct sab_shape {
 size_t struct_size;
 uint64_t count;
 size_t columns;
 const double *padded_length;
} sab_shape;
typedef struct sab_plan_info {
 size_t struct_size;
 uint64_t samples;
 uint64_t skipped;
 uint64_t buckets;
 uint64_t batches;
 uint64_t lower_bound;
 uint64_t fingerprint;
 double total;
 const double *limits;
 size_t budget_count;
 size_t columns;
 const char *const *column_names;
 uint64_t second_buckets;
} sab_plan_info;
sab_status sab_plan_new(const sab_sizes *sizes, const sab_plan_options *options, sab_plan **plan);
sab_status sab_plan_get_info(const sab_plan *plan, sab_plan_info *info);
sab_status sab_plan_get_bucket(const sab_plan *plan, size_t index, sab_bucket *bucket);
sab_status sab_plan_get_shape(const sab_plan *plan, size_t index, sab_shape *shape);
sab_status sab_plan_get_shape_padding(const sab_plan *plan, size_t index, uint64_t *shapes, double *padding);
sab_status sab_plan_get_skipped(const sab_plan *plan, int64_t *indices, size_t capacity, size_t *count);
sab_status sab_plan_save(const sab_plan *plan, const char *path);
sab_status sab_plan_file_new(const char *path, sab_plan **plan);
sab_status sab_plan_check(const sab_plan *plan);
sab_status sab_plan_copy_new(const sab_plan *plan, sab_plan **copy);
sab_status sab_plan_write(const sab_plan *plan, void *buffer, size_t capacity, size_t *size);
sab_status sab_plan_bytes_new(const void *data, size_t size, sab_plan **plan);
void sab_plan_free(sab_plan *plan);
struct sab_sampler_options;
typedef struct sab_plan_report {
 size_t struct_size;
 uint64_t samples;
 uint64_t skipped;
 uint64_t dropped;
 uint64_t repeated;
 uint64_t batches;
 uint64_t empty_batches;
 uint64_t steps;
 uint64_t least_step_samples;
 uint64_t most_step_samples;
 double step_samples_deviation;
 uint64_t lower_bound;
 uint64_t shapes;
 double total;
 double padded_total;
 double padding;
 double rank_imbalance;
 double meet_again;
 double partners;
 double length_correlation;
 double variance_ratio;
 double nearest_target;
 int32_t target_met;
 size_t columns;
 double *totals;
 double *padded_totals;
} sab_plan_report;
sab_status sab_plan_get_report(const sab_plan *plan, const struct sab_sampler_options *sampler, const sab_progress_options *options, sab_plan_report *report);
struct sab_batch;
struct sab_probe;
typedef int32_t (*sab_batch_fn)(void *ctx, const struct sab_batch *batch);
typedef struct sab_verification_options {
 size_t struct_size;
 uint64_t count;
 sab_progress_fn progress;
 void *progress_ctx;
} sab_verification_options;
typedef struct sab_verification {
 size_t struct_size;
 uint64_t batches;
 int64_t peak;
 int64_t total;
} sab_verification;
sab_status sab_plan_verify(const sab_plan *plan, struct sab_probe *probe, sab_batch_fn run, void *ctx, const sab_verification_options *options, sab_verification *result);
/* sab/sampler.h, stable */
enum {
 SAB_LAYOUT_PADDED = 0,
 SAB_LAYOUT_ROW = 1,
 SAB_LAST_STEP_SPLIT = 0,
 SAB_LAST_STEP_DROP = 1,
 SAB_LAST_STEP_WRAP = 2,
 SAB_SAMPLER_BATCH_COUNT = 1,
 SAB_SAMPLER_RANDOM_ACCESS = 2,
 SAB_SAMPLER_BUDGET = 4,
 SAB_SAMPLER_SCHEDULE = 8,
};
typedef struct sab_sampler sab_sampler;
typedef int32_t sab_layout;
typedef struct sab_batch {
 size_t struct_size;
 const int64_t *indices;
 size_t count;
 sab_layout layout;
 size_t columns;
 const double *longest;
 const double *padded_length;
 const double *total;
 int64_t bucket;
 uint64_t epoch;
 uint64_t step;
 uint64_t micro_batch;
 int64_t id;
 double sample_weight;
 const double *token_weight;
} sab_batch;
typedef struct sab_rows {
 size_t struct_size;
 size_t columns;
 const int32_t *const *cu_seqlens;
 const int64_t *starts;
 const double *capacity;
 const int32_t *const *cu_seqlens_unpadded;
} sab_rows;
typedef struct sab_block {
 size_t struct_size;
 size_t count;
 const int64_t *indices;
 const uint64_t *offsets;
 sab_layout layout;
 size_t columns;
 const double *longest;
 const double *padded_length;
 const double *total;
 const int64_t *bucket;
 uint64_t epoch;
 const uint64_t *step;
 const uint64_t *micro_batch;
 const int64_t *id;
 const int32_t *const *cu_seqlens;
 const int64_t *starts;
 const double *sample_weight;
 const double *token_weight;
 const int32_t *const *cu_seqlens_unpadded;
} sab_block;
typedef struct sab_step {
 size_t struct_size;
 uint64_t micro_batches;
 uint64_t samples;
 size_t columns;
 const double *totals;
} sab_step;
typedef int32_t sab_last_step;
typedef struct sab_sampler_options {
 size_t struct_size;
 uint64_t seed;
 uint64_t epoch;
 uint64_t rank;
 uint64_t world_size;
 uint64_t micro_batches;
 sab_last_step last_step;
 uint64_t costliest_first;
 int32_t mix_lengths;
 const sab_cost *const *balance;
 size_t balance_count;
 uint64_t steps_per_epoch;
} sab_sampler_options;
sab_status sab_bucket_sampler_new(const sab_plan *plan, const sab_sampler_options *options, sab_sampler **sampler);
sab_status sab_sequential_sampler_new(const sab_plan *plan, const sab_sampler_options *options, sab_sampler **sampler);
sab_status sab_costliest_sampler_new(const sab_plan *plan, uint64_t count, sab_sampler **sampler);
sab_status sab_ordered_sampler_new(const int64_t *indices, size_t count, const sab_sizes *sizes, double limit, const sab_sampler_options *options, sab_sampler **sampler);
sab_status sab_sampler_begin(sab_sampler *sampler);
sab_status sab_next_batch(sab_sampler *sampler, sab_batch *batch);
sab_status sab_sampler_get_rows(sab_sampler *sampler, sab_rows *rows);
sab_status sab_sampler_get_step(sab_sampler *sampler, sab_step *step);
sab_status sab_next_block(sab_sampler *sampler, size_t max_batches, sab_block *block);
sab_status sab_sampler_at(sab_sampler *sampler, uint64_t position, sab_batch *batch);
sab_status sab_sampler_get_capabilities(const sab_sampler *sampler, uint64_t *capabilities);
sab_status sab_sampler_get_batch_count(const sab_sampler *sampler, uint64_t *count);
sab_status sab_sampler_get_skipped(const sab_sampler *sampler, int64_t *indices, size_t capacity, size_t *count);
sab_status sab_sampler_get_shape(sab_sampler *sampler, size_t index, sab_shape *shape);
sab_status sab_sampler_set_epoch(sab_sampler *sampler, uint64_t epoch);
sab_status sab_sampler_seek(sab_sampler *sampler, uint64_t position);
sab_status sab_sampler_tell(const sab_sampler *sampler, uint64_t *epoch, uint64_t *position);
sab_status sab_sampler_set_budget(sab_sampler *sampler, size_t index, double limit);
sab_status sab_sampler_get_budget(const sab_sampler *sampler, size_t index, double *limit);
sab_status sab_sampler_state_save(const sab_sampler *sampler, void *state, size_t capacity, size_t *size);
sab_status sab_sampler_state_save_at(const sab_sampler *sampler, uint64_t position, void *state, size_t capacity, size_t *size);
sab_status sab_sampler_state_restore(sab_sampler *sampler, const void *state, size_t size);
void sab_sampler_free(sab_sampler *sampler);
/* sab/arrow.h, provisional */
struct ArrowSchema;
struct ArrowArray;
struct ArrowArrayStream;
typedef struct sab_sizes_arrow_options {
 size_t struct_size;
 sab_null_rule nulls;
 sab_text_unit text_unit;
} sab_sizes_arrow_options;
sab_status sab_sizes_arrow_new(struct ArrowArray *array, const struct ArrowSchema *schema, const char *column, const sab_sizes_arrow_options *options, sab_sizes **sizes);
sab_status sab_sizes_arrow_stream_new(struct ArrowArrayStream *stream, const char *column, const sab_sizes_arrow_options *options, sab_sizes **sizes);
sab_status sab_arrow_schedule_new(const sab_sampler *sampler, struct ArrowArrayStream *stream);
/* sab/ranks.h, stable */
sab_status sab_ranks_get_from_environment(uint64_t *rank, uint64_t *world_size);
sab_status sab_ranks_get_from_mesh(const uint64_t *shape, const int32_t *is_data, size_t axes, uint64_t rank, uint64_t *data_rank, uint64_t *data_world_size);
typedef int32_t (*sab_all_gather_fn)(void *ctx, const void *mine, size_t size, void *all);
typedef int32_t (*sab_reduce_fn)(void *ctx, int64_t *values, size_t count);
sab_status sab_ranks_check(const sab_sampler *sampler, uint64_t rank, uint64_t world_size, sab_all_gather_fn all_gather, void *ctx);
sab_status sab_sharded_sampler_new(const sab_sizes *sizes, const sab_plan_options *plan, const sab_sampler_options *options, sab_all_gather_fn all_gather, void *ctx, sab_sampler **sampler);
/* sab/pack.h, stable */
enum {
 SAB_PACK_SHUFFLED = 0,
 SAB_PACK_BEST_FIT = 1,
 SAB_PACK_HISTOGRAM = 2,
 SAB_PACK_CONCAT = 3,
};
typedef int32_t sab_pack_method;
typedef struct sab_packed_options {
 size_t struct_size;
 sab_pack_method method;
 const uint64_t *capacities;
 size_t capacity_count;
 uint64_t max_sequences;
 int32_t split;
 sab_oversize oversize;
 uint64_t window;
 const sab_cost *const *balance;
 size_t balance_count;
 sab_progress_fn progress;
 void *progress_ctx;
 uint64_t tries;
 const double *length_multiples;
 size_t length_multiple_count;
 const double *row_multiples;
 size_t row_multiple_count;
} sab_packed_options;
typedef struct sab_packed_info {
 size_t struct_size;
 uint64_t samples;
 uint64_t skipped;
 uint64_t split;
 uint64_t sequences;
 uint64_t bins;
 uint64_t lower_bound;
 uint64_t most_sequences;
 uint64_t fingerprint;
 double total;
 double fill;
} sab_packed_info;
sab_status sab_packed_sampler_new(const sab_sizes *sizes, const sab_packed_options *pack, const sab_sampler_options *options, sab_sampler **sampler);
sab_status sab_packed_sampler_get_info(const sab_sampler *sampler, sab_packed_info *info);
/* sab/memory.h, stable */
enum {
 SAB_OUT_OF_MEMORY = 2,
 SAB_MODEL_BATCH = 0,
 SAB_MODEL_POLYNOMIAL = 1,
};
typedef struct sab_probe sab_probe;
typedef struct sab_probe_options {
 size_t struct_size;
 int64_t total_bytes;
} sab_probe_options;
typedef struct sab_probe_stats {
 size_t struct_size;
 int64_t current;
 int64_t peak;
 int64_t reserved_peak;
 int64_t largest_free;
 int64_t total;
} sab_probe_stats;
typedef struct sab_probe_callbacks {
 size_t struct_size;
 void *ctx;
 int32_t (*reset)(void *ctx);
 int32_t (*current)(void *ctx, int64_t *bytes);
 int32_t (*peak)(void *ctx, int64_t *bytes);
 int32_t (*reserved)(void *ctx, int64_t *reserved_peak, int64_t *largest_free);
 int32_t (*total)(void *ctx, int64_t *bytes);
 int32_t (*release_cache)(void *ctx);
 int32_t (*is_out_of_memory)(void *ctx, int32_t code);
 int32_t (*rng_save)(void *ctx, uint64_t depth);
 int32_t (*rng_restore)(void *ctx, uint64_t depth);
 void (*release)(void *ctx);
} sab_probe_callbacks;
sab_status sab_probe_new(const char *device, const sab_probe_options *options, sab_probe **probe);
sab_status sab_probe_callbacks_new(const sab_probe_callbacks *callbacks, sab_probe **probe);
sab_status sab_probe_reset(sab_probe *probe);
sab_status sab_probe_get_stats(sab_probe *probe, sab_probe_stats *stats);
sab_status sab_probe_release_cache(sab_probe *probe);
void sab_probe_free(sab_probe *probe);
typedef struct sab_peaks sab_peaks;
typedef int32_t (*sab_work_fn)(void *ctx, uint64_t item, double *features, size_t capacity, size_t *count);
typedef struct sab_collect_peak_options {
 size_t struct_size;
 uint64_t item_count;
 sab_work_fn work;
 int32_t (*cleanup)(void *ctx, uint64_t item);
 int32_t (*collect_garbage)(void *ctx);
 void *ctx;
 uint64_t warm_up;
 int32_t keep_cache;
 sab_progress_fn progress;
 void *progress_ctx;
} sab_collect_peak_options;
typedef struct sab_peaks_view {
 size_t struct_size;
 size_t count;
 size_t feature_count;
 const uint64_t *items;
 const double *features;
 const int64_t *before;
 const int64_t *peaks;
 const int64_t *reserved_peaks;
 const int64_t *largest_free;
 size_t out_of_memory_count;
 const uint64_t *out_of_memory;
} sab_peaks_view;
sab_status sab_peaks_new(sab_peaks **peaks);
sab_status sab_collect_peak(sab_probe *probe, const sab_collect_peak_options *options, sab_peaks *peaks);
sab_status sab_peaks_get_view(const sab_peaks *peaks, sab_peaks_view *view);
void sab_peaks_free(sab_peaks *peaks);
typedef struct sab_memory_model sab_memory_model;
typedef struct sab_measurement_options {
 size_t struct_size;
 const double *shortest;
 const double *longest;
 size_t column_count;
 uint64_t max_count;
 const sab_budget *budget;
 uint32_t degree;
} sab_measurement_options;
sab_status sab_measurement_points_find(const sab_measurement_options *options, size_t points, uint64_t *counts, double *lengths);
typedef int32_t sab_memory_model_kind;
typedef struct sab_memory_model_options {
 size_t struct_size;
 sab_memory_model_kind kind;
 uint32_t degree;
 double coverage;
 int32_t keep_terms;
 const char *const *column_names;
} sab_memory_model_options;
typedef struct sab_memory_model_info {
 size_t struct_size;
 sab_memory_model_kind kind;
 uint32_t degree;
 size_t feature_count;
 const char *const *column_names;
 size_t term_count;
 const double *coefficients;
 const uint32_t *powers;
 uint64_t measurements;
 double constant;
 double margin;
 double coverage;
 double residual;
 double held_out_residual;
 double largest_residual;
} sab_memory_model_info;
sab_status sab_memory_model_fit_new(const double *features, size_t count, size_t feature_count, const double *peaks, const sab_memory_model_options *options, sab_memory_model **model);
sab_status sab_memory_model_get_info(const sab_memory_model *model, sab_memory_model_info *info);
sab_status sab_memory_model_predict(const sab_memory_model *model, const double *features, size_t count, double *predicted, double *upper);
sab_status sab_memory_model_cost_new(const sab_memory_model *model, sab_cost **cost);
sab_status sab_memory_model_save(const sab_memory_model *model, const char *path);
sab_status sab_memory_model_file_new(const char *path, sab_memory_model **model);
sab_status sab_memory_model_write(const sab_memory_model *model, void *buffer, size_t capacity, size_t *size);
sab_status sab_memory_model_bytes_new(const void *data, size_t size, sab_memory_model **model);
void sab_memory_model_free(sab_memory_model *model);
/* sab/compat.h, provisional */
enum {
 SAB_BIONEMO_SHUFFLE_ALL = 0,
 SAB_BIONEMO_SHUFFLE_NONE = 1,
 SAB_BIONEMO_SHUFFLE_BUCKETS = 2,
 SAB_BIONEMO_GENERATOR_WORDS = 625,
};
sab_status sab_bionemo_create_buckets(const sab_sizes *sizes, int64_t max_width, int64_t min_bucket_count, int64_t *boundaries, int64_t *bucket_sizes, size_t capacity, size_t *bucket_count);
typedef int32_t (*sab_index_fn)(void *ctx, uint64_t epoch, uint64_t position, int64_t *index, double *size);
sab_status sab_bionemo_size_aware_stream_sampler_new(sab_index_fn source, void *ctx, void (*release)(void *ctx), double limit, sab_sampler **sampler);
typedef int32_t sab_bionemo_shuffle;
typedef struct sab_bionemo_options {
 size_t struct_size;
 uint64_t seed;
 sab_bionemo_shuffle shuffle;
 double limit;
 const sab_sizes *sizes;
 sab_size_fn size;
 void *size_ctx;
 void (*release)(void *ctx);
} sab_bionemo_options;
sab_status sab_bionemo_sampler_new(const sab_plan *plan, const sab_bionemo_options *options, sab_sampler **sampler);
sab_status sab_bionemo_sampler_get_generator(const sab_sampler *sampler, uint32_t *words);
sab_status sab_bionemo_sampler_set_generator(sab_sampler *sampler, const uint32_t *words);
typedef struct sab_batches sab_batches;
sab_status sab_bagua_batches_add(sab_batches *batches, const int64_t *indices, size_t count);
typedef int32_t (*sab_make_batches_fn)(void *ctx, const int64_t *indices, size_t count, sab_batches *batches);
typedef struct sab_bagua_options {
 size_t struct_size;
 int32_t no_shuffle;
 int32_t drop_last;
 double random_level;
 uint64_t batch_size;
 double limit;
 sab_make_batches_fn make_batches;
 void *make_batches_ctx;
 void (*release)(void *ctx);
} sab_bagua_options;
sab_status sab_bagua_sampler_new(const sab_sizes *complexity, const sab_bagua_options *balancing, const sab_sampler_options *options, sab_sampler **sampler);
/* sab/files.h, provisional */
enum {
 SAB_MISSING_REFUSE = 0,
 SAB_MISSING_SKIP = 1,
};
typedef int32_t sab_missing_rule;
typedef struct sab_sizes_file_options {
 size_t struct_size;
 const char *format;
 const char *column;
 sab_text_unit text_unit;
 sab_missing_rule missing;
 sab_progress_fn progress;
 void *progress_ctx;
 int32_t copy;
 sab_null_rule nulls;
} sab_sizes_file_options;
sab_status sab_sizes_file_new(const char *path, const sab_sizes_file_options *options, sab_sizes **sizes);
/* sab/balance.h, provisional */
enum {
 SAB_MICRO_BATCHES_DESCENDING = 0,
 SAB_MICRO_BATCHES_ASCENDING = 1,
 SAB_MICRO_BATCHES_BELL = 2,
 SAB_LOSS_BY_SAMPLE = 0,
 SAB_LOSS_BY_TOKEN = 1,
 SAB_LOSS_BY_GROUP = 2,
 SAB_CONTEXT_POWERS_OF_TWO = 0,
 SAB_CONTEXT_ANY_NUMBER = 1,
};
typedef struct sab_partition_options {
 size_t struct_size;
 int32_t equal_counts;
 size_t cost_count;
 const double *weights;
 const double *capacities;
 size_t capacity_count;
 sab_progress_fn progress;
 void *progress_ctx;
} sab_partition_options;
sab_status sab_items_partition(const double *costs, size_t count, uint64_t parts, const sab_partition_options *options, uint32_t *part_of);
typedef struct sab_balanced_options {
 size_t struct_size;
 uint64_t samples;
 const sab_budget *budgets;
 size_t budget_count;
 double fill;
 int32_t padded;
 const sab_cost *const *balance;
 size_t balance_count;
 sab_oversize oversize;
 sab_progress_fn progress;
 void *progress_ctx;
 const double *length_multiples;
 size_t length_multiple_count;
 const double *row_multiples;
 size_t row_multiple_count;
} sab_balanced_options;
sab_status sab_balanced_sampler_new(const sab_sizes *sizes, const sab_balanced_options *balanced, const sab_sampler_options *options, sab_sampler **sampler);
typedef struct sab_balanced_report {
 size_t struct_size;
 uint64_t samples;
 uint64_t skipped;
 uint64_t dropped;
 uint64_t steps;
 uint64_t least_step_samples;
 uint64_t most_step_samples;
 double step_samples_deviation;
 size_t columns;
 const double *totals;
 double fill;
 size_t balance_count;
 const double *rank_imbalance;
 const double *largest_rank_imbalance;
 const double *micro_batch_imbalance;
 const double *time;
 const double *least_time;
 double meet_again;
 double random_meet_again;
 double length_deviation;
 double random_length_deviation;
 const double *padded_totals;
} sab_balanced_report;
sab_status sab_balanced_sampler_get_report(sab_sampler *sampler, const sab_progress_options *options, sab_balanced_report *report);
typedef int32_t sab_micro_batch_order;
typedef struct sab_step_plan_options {
 size_t struct_size;
 uint64_t world_size;
 const sab_budget *budgets;
 size_t budget_count;
 uint64_t micro_batches;
 uint64_t multiple;
 int32_t padded;
 const sab_cost *const *balance;
 size_t balance_count;
 const int64_t *groups;
 const int64_t *prefix;
 const int64_t *parents;
 int32_t whole_groups;
 sab_micro_batch_order order;
 sab_progress_fn progress;
 void *progress_ctx;
} sab_step_plan_options;
typedef struct sab_step_plan sab_step_plan;
typedef struct sab_step_segment {
 int64_t node;
 int64_t sample;
 int64_t parent;
 int64_t position;
 int64_t offset;
 int64_t length;
} sab_step_segment;
sab_status sab_step_plan_new(const sab_sizes *sizes, const sab_step_plan_options *options, sab_step_plan **plan);
typedef struct sab_step_plan_view {
 size_t struct_size;
 uint64_t world_size;
 uint64_t micro_batches;
 uint64_t least_micro_batches;
 size_t samples;
 size_t nodes;
 size_t columns;
 const int64_t *indices;
 const uint64_t *offsets;
 const int64_t *inverse;
 const int32_t *const *cu_seqlens;
 const sab_step_segment *segments;
 const uint64_t *segment_offsets;
 size_t balance_count;
 const double *costs;
 const double *rank_imbalance;
 const double *least_rank_imbalance;
 const double *micro_step_imbalance;
} sab_step_plan_view;
sab_status sab_step_plan_get_view(const sab_step_plan *plan, sab_step_plan_view *view);
typedef int32_t sab_loss_weighting;
sab_status sab_step_plan_get_loss_weights(const sab_step_plan *plan, sab_loss_weighting weighting, const double *tokens, double *weights);
void sab_step_plan_free(sab_step_plan *plan);
typedef int32_t sab_context_groups;
typedef struct sab_context_options {
 size_t struct_size;
 const sab_cost *cost;
 double overhead;
 sab_context_groups groups;
 sab_progress_fn progress;
 void *progress_ctx;
} sab_context_options;
typedef struct sab_context_part {
 uint64_t sample;
 uint32_t part;
 uint32_t of;
 uint64_t head_begin;
 uint64_t head_end;
 uint64_t tail_begin;
 uint64_t tail_end;
 double start;
 double end;
} sab_context_part;
typedef struct sab_context_plan sab_context_plan;
typedef struct sab_context_plan_view {
 size_t struct_size;
 uint64_t world_size;
 uint64_t samples;
 const uint64_t *offsets;
 const sab_context_part *parts;
 double makespan;
 double lower_bound;
 double gap;
} sab_context_plan_view;
sab_status sab_context_plan_new(const sab_sizes *lengths, uint64_t world_size, uint64_t limit, const sab_context_options *options, sab_context_plan **plan);
sab_status sab_context_plan_get_view(const sab_context_plan *plan, sab_context_plan_view *view);
void sab_context_plan_free(sab_context_plan *plan);
/* sab/mixture.h, provisional */
enum {
 SAB_MAX_SOURCES = 65535,
 SAB_MIXTURE_SAMPLES = 0,
 SAB_MIXTURE_SIZE = 1,
};
typedef int32_t sab_mixture_unit;
typedef struct sab_mixture_options {
 size_t struct_size;
 const int64_t *ids;
 size_t id_count;
 const double *repeats;
 size_t repeat_count;
 const double *proportions;
 size_t proportion_count;
 double temperature;
 sab_mixture_unit unit;
 const char *const *names;
 size_t name_count;
 const uint64_t *schedule_epochs;
 const double *schedule_repeats;
 size_t schedule_count;
 uint64_t seed;
 const int64_t *all_sources;
 size_t all_source_count;
} sab_mixture_options;
sab_status sab_mixture_new(const sab_sizes *const *sources, size_t count, const sab_mixture_options *options, sab_sizes **sizes);
typedef struct sab_mixture_source {
 size_t struct_size;
 const char *name;
 int64_t id;
 uint64_t samples;
 double repeat;
 uint64_t epoch_samples;
} sab_mixture_source;
sab_status sab_mixture_get_source(const sab_sizes *sizes, size_t index, uint64_t epoch, sab_mixture_source *source);
sab_status sab_mixture_get_counts(const sab_sizes *sizes, uint64_t epoch, uint32_t *counts, size_t count);
typedef struct sab_mixture_report {
 size_t struct_size;
 uint64_t samples;
 uint64_t distinct;
 uint64_t most;
 uint64_t together;
 double total;
 double padded_total;
 double padding;
 double proportion;
 double deviation;
} sab_mixture_report;
sab_status sab_mixture_get_report(sab_sampler *sampler, const sab_progress_options *options, sab_mixture_report *reports, size_t count);
/* sab/engine.h, provisional */
typedef struct sab_histogram sab_histogram;
typedef struct sab_histogram_info {
 size_t struct_size;
 uint64_t samples;
 uint64_t entries;
 double total;
 size_t columns;
 const char *const *column_names;
 size_t sources;
 uint64_t fingerprint;
 const double *entry_sizes;
 const uint64_t *entry_counts;
 const uint32_t *entry_sources;
} sab_histogram_info;
sab_status sab_histogram_new(sab_histogram **histogram);
sab_status sab_histogram_add(sab_histogram *histogram, const sab_sizes *sizes, uint64_t *numbers);
sab_status sab_histogram_merge(sab_histogram *histogram, const sab_histogram *other);
sab_status sab_histogram_subtract(sab_histogram *histogram, const sab_histogram *other);
sab_status sab_histogram_get_info(const sab_histogram *histogram, sab_histogram_info *info);
sab_status sab_histogram_write(const sab_histogram *histogram, void *buffer, size_t capacity, size_t *size);
sab_status sab_histogram_bytes_new(const void *data, size_t size, sab_histogram **histogram);
void sab_histogram_free(sab_histogram *histogram);
sab_status sab_histogram_epoch_new(const sab_histogram *histogram, const double *repeats, size_t repeat_count, uint64_t epoch, uint64_t seed, sab_histogram **of_epoch);
sab_status sab_histogram_plan_new(const sab_histogram *histogram, const sab_plan_options *options, sab_plan **plan);
typedef struct sab_places {
 size_t struct_size;
 int64_t *counts;
 int64_t *ranks;
 int64_t *batches;
 int64_t *steps;
 int64_t *slots;
 uint64_t *batch_count;
} sab_places;
sab_status sab_histogram_plan_locate(const sab_plan *plan, const sab_sampler_options *options, const uint32_t *sources, const double *sizes, const uint64_t *numbers, const uint64_t *which, size_t count, const sab_places *places);
typedef struct sab_packing sab_packing;
sab_status sab_histogram_packing_new(const sab_histogram *histogram, const sab_packed_options *pack, sab_packing **packing);
sab_status sab_packing_get_info(const sab_packing *packing, sab_packed_info *info);
sab_status sab_packing_get_patterns(const sab_packing *packing, size_t *count, const uint64_t **bins, const uint64_t **begins, const uint32_t **lengths, const uint32_t **sequences);
sab_status sab_packing_locate(const sab_packing *packing, const sab_sampler_options *options, const double *sizes, const uint64_t *numbers, const uint64_t *which, size_t count, const sab_places *places);
void sab_packing_free(sab_packing *packing);
/* sab/steps.h, provisional */
enum {
 SAB_SEARCH_PREDICT = 0,
 SAB_SEARCH_DIFFERENCE = 1,
 SAB_SEARCH_BINARY = 2,
 SAB_SEARCH_HALVE = 3,
 SAB_ROUND_NONE = 0,
 SAB_ROUND_POWER_OF_TWO = 1,
 SAB_ROUND_MULTIPLE = 2,
};
typedef int32_t (*sab_trial_fn)(void *ctx, uint64_t count, double length);
typedef int32_t sab_search;
typedef int32_t sab_rounding;
typedef struct sab_max_batch_options {
 size_t struct_size;
 sab_search search;
 const double *lengths;
 size_t length_count;
 uint64_t max_batch_size;
 int64_t limit;
 sab_rounding rounding;
 uint64_t multiple;
 sab_reduce_fn reduce;
 void *reduce_ctx;
 sab_progress_fn progress;
 void *progress_ctx;
} sab_max_batch_options;
typedef struct sab_max_batch {
 size_t struct_size;
 uint64_t batch_size;
 uint64_t trials;
 uint64_t out_of_memory;
 double peak;
 int64_t limit;
} sab_max_batch;
sab_status sab_max_batch_find(sab_probe *probe, sab_trial_fn trial, void *ctx, const sab_max_batch_options *options, uint64_t *batch_sizes, sab_max_batch *result);
typedef int32_t (*sab_chunk_fn)(void *ctx, uint64_t first, uint64_t count, double weight);
typedef struct sab_step_in_chunks_options {
 size_t struct_size;
 sab_chunk_fn chunk;
 int32_t (*begin)(void *ctx);
 void *ctx;
 const double *sample_weights;
 uint64_t chunk_size;
} sab_step_in_chunks_options;
sab_status sab_step_run_in_chunks(sab_probe *probe, uint64_t count, const sab_step_in_chunks_options *options, uint64_t *chunk_size);
typedef struct sab_memory_guard sab_memory_guard;
typedef struct sab_memory_guard_options {
 size_t struct_size;
 int64_t limit;
 uint64_t interval;
 uint64_t window;
 sab_reduce_fn reduce;
 void *reduce_ctx;
} sab_memory_guard_options;
typedef struct sab_memory_guard_info {
 size_t struct_size;
 uint64_t steps;
 uint64_t out_of_memory;
 uint64_t lowered;
 double limit;
 int64_t peak;
 double mean_peak;
 double creep;
} sab_memory_guard_info;
sab_status sab_memory_guard_new(sab_probe *probe, sab_sampler *sampler, const sab_memory_guard_options *options, sab_memory_guard **guard);
sab_status sab_memory_guard_begin(sab_memory_guard *guard);
sab_status sab_memory_guard_end(sab_memory_guard *guard, const sab_batch *batch, int32_t out_of_memory);
sab_status sab_memory_guard_get_info(const sab_memory_guard *guard, sab_memory_guard_info *info);
sab_status sab_memory_guard_step(sab_memory_guard *guard, const sab_batch *batch, const sab_step_in_chunks_options *options);
void sab_memory_guard_free(sab_memory_guard *guard);
/* sab/stream.h, provisional */
enum {
 SAB_RECORD_BYTES = 0,
 SAB_RECORD_LIST = 1,
 SAB_RECORD_OBJECT = 2,
 SAB_FRAMING_LINES = 0,
 SAB_FRAMING_LENGTH = 1,
 SAB_ON_ERROR_STOP = 0,
 SAB_ON_ERROR_SKIP = 1,
 SAB_MIX_UNTIL_FIRST = 0,
 SAB_MIX_UNTIL_ALL = 1,
 SAB_SHUFFLE_BLOCKS = 0,
 SAB_SHUFFLE_BUFFER = 1,
};
typedef struct sab_stream sab_stream;
typedef int32_t sab_record_kind;
typedef struct sab_record {
 sab_record_kind kind;
 double size;
 const void *data;
 size_t length;
} sab_record;
typedef struct sab_object_functions {
 size_t struct_size;
 void *ctx;
 void (*release)(void *ctx, void *object);
 int32_t (*save)(void *ctx, void *object, void *buffer, size_t capacity, size_t *size);
 int32_t (*load)(void *ctx, const void *data, size_t size, void **object);
} sab_object_functions;
sab_status sab_stream_next(sab_stream *stream, sab_record *record);
sab_status sab_stream_set_progress(sab_stream *stream, const sab_progress_options *options);
sab_status sab_stream_rewind(sab_stream *stream);
sab_status sab_stream_get_skipped_count(const sab_stream *stream, uint64_t *count);
sab_status sab_stream_state_save(const sab_stream *stream, void *buffer, size_t capacity, size_t *size);
sab_status sab_stream_state_restore(sab_stream *stream, const void *data, size_t size);
void sab_stream_free(sab_stream *stream);
void sab_stream_abandon(sab_stream *stream);
typedef struct sab_list_stream_options {
 size_t struct_size;
 int32_t infinite;
 int32_t shuffle;
 uint64_t seed;
 uint64_t rank;
 uint64_t world_size;
} sab_list_stream_options;
sab_status sab_list_stream_new(const sab_record *records, size_t count, const sab_list_stream_options *options, sab_stream **stream);
typedef struct sab_source_functions {
 size_t struct_size;
 void *ctx;
 int32_t (*next)(void *ctx, sab_record *record);
 int32_t (*rewind)(void *ctx);
 int32_t (*state_save)(void *ctx, void *buffer, size_t capacity, size_t *size);
 int32_t (*state_restore)(void *ctx, const void *data, size_t size);
 void (*release)(void *ctx);
 const sab_object_functions *objects;
} sab_source_functions;
sab_status sab_callback_stream_new(const sab_source_functions *functions, sab_stream **stream);
sab_status sab_random_stream_new(uint64_t seed, sab_stream **stream);
typedef int32_t sab_framing;
typedef int32_t sab_on_error;
typedef struct sab_files_stream_options {
 size_t struct_size;
 sab_framing framing;
 uint64_t max_record;
 sab_on_error on_error;
 uint64_t readers;
} sab_files_stream_options;
sab_status sab_files_stream_new(sab_stream *source, const sab_files_stream_options *options, sab_stream **stream);
typedef int32_t (*sab_map_fn)(void *ctx, const sab_record *record, sab_record *made);
typedef struct sab_map_stream_options {
 size_t struct_size;
 sab_map_fn map;
 void *ctx;
 void (*release)(void *ctx);
 uint64_t threads;
 const sab_object_functions *objects;
} sab_map_stream_options;
sab_status sab_map_stream_new(sab_stream *source, const sab_map_stream_options *options, sab_stream **stream);
sab_status sab_text_size_stream_new(sab_stream *source, sab_text_unit unit, sab_stream **stream);
typedef int32_t (*sab_select_fn)(void *ctx, const sab_record *record, sab_stream **made);
sab_status sab_select_stream_new(sab_stream *source, sab_select_fn select, void *ctx, void (*release)(void *ctx), const sab_object_functions *objects, sab_stream **stream);
sab_status sab_flatten_stream_new(sab_stream *source, sab_stream **stream);
typedef int32_t (*sab_recur_fn)(void *ctx, const sab_record *state, const sab_record *record, sab_record *next, sab_record *made);
sab_status sab_recurrent_stream_new(sab_stream *source, sab_recur_fn recur, void *ctx, void (*release)(void *ctx), const sab_record *initial, const sab_object_functions *objects, sab_stream **stream);
typedef struct sab_random sab_random;
double sab_random_draw_real(sab_random *random);
uint64_t sab_random_draw_bits(sab_random *random, uint32_t bits);
typedef int32_t (*sab_random_map_fn)(void *ctx, sab_random *random, const sab_record *record, sab_record *made);
sab_status sab_random_map_stream_new(sab_stream *source, sab_random_map_fn map, void *ctx, void (*release)(void *ctx), uint64_t seed, const sab_object_functions *objects, sab_stream **stream);
sab_status sab_zip_stream_new(sab_stream *const *sources, size_t count, sab_stream **stream);
sab_status sab_multiplex_stream_new(sab_stream *control, sab_stream *const *sources, size_t count, sab_stream **stream);
typedef int32_t sab_mix_until;
typedef struct sab_mix_stream_options {
 size_t struct_size;
 const double *proportions;
 size_t proportion_count;
 uint64_t window;
 sab_mix_until until;
} sab_mix_stream_options;
sab_status sab_mix_stream_new(sab_stream *const *sources, size_t count, const sab_mix_stream_options *options, sab_stream **stream);
sab_status sab_shard_stream_new(sab_stream *source, uint64_t rank, uint64_t world_size, sab_stream **stream);
sab_status sab_batch_stream_new(sab_stream *source, uint64_t batch_size, sab_stream **stream);
sab_status sab_window_stream_new(sab_stream *source, uint64_t width, sab_stream **stream);
typedef int32_t sab_stream_shuffle;
sab_status sab_shuffle_stream_new(sab_stream *source, sab_stream_shuffle shuffle, uint64_t size, uint64_t seed, sab_stream **stream);
typedef struct sab_readahead_stream_options {
 size_t struct_size;
 uint64_t read_ahead;
 uint64_t batch_size;
 const sab_budget *budgets;
 size_t budget_count;
 int32_t no_shuffle;
 int32_t carry_over;
 uint64_t seed;
 int32_t (*batch_size_fn)(void *ctx, const sab_record *largest, uint64_t *batch_size);
 int32_t (*boundary_key_fn)(void *ctx, const sab_record *record, uint64_t *key);
 void *ctx;
 void (*release)(void *ctx);
 sab_oversize oversize;
 int32_t (*sizes_fn)(void *ctx, const sab_record *record, double *sizes);
 size_t columns;
} sab_readahead_stream_options;
sab_status sab_readahead_stream_new(sab_stream *source, const sab_readahead_stream_options *options, sab_stream **stream);
typedef struct sab_pack_stream_options {
 size_t struct_size;
 const double *capacities;
 size_t capacity_count;
 uint64_t max_records;
 uint64_t read_ahead;
 int32_t no_shuffle;
 uint64_t seed;
 sab_oversize oversize;
 int32_t (*sizes_fn)(void *ctx, const sab_record *record, double *sizes);
 void *ctx;
 void (*release)(void *ctx);
} sab_pack_stream_options;
sab_status sab_pack_stream_new(sab_stream *source, const sab_pack_stream_options *options, sab_stream **stream);
sab_status sab_prefetch_stream_new(sab_stream *source, uint64_t buffer_size, sab_stream **stream);
/* sab/group.h, provisional */
enum {
 SAB_THRESHOLDS_LEAST_TOTAL = 0,
 SAB_THRESHOLDS_LEAST_LARGEST = 1,
 SAB_THRESHOLDS_RANDOMISED = 2,
 SAB_PADDING_CONSTANT = 0,
 SAB_PADDING_REPEAT = 1,
 SAB_MASK_ALL = 0,
 SAB_MASK_ANY = 1,
};
typedef int32_t sab_thresholds_method;
typedef struct sab_thresholds_options {
 size_t struct_size;
 sab_thresholds_method method;
 const sab_cost *cost;
 int32_t cost_per_sample;
 uint32_t num_trials;
 uint64_t patience;
 uint64_t seed;
 const uint64_t *starts;
 sab_progress_fn progress;
 void *progress_ctx;
} sab_thresholds_options;
typedef struct sab_thresholds_info {
 size_t struct_size;
 double total;
 double largest;
 double largest_difference;
 uint64_t even;
 uint64_t repeated;
 uint64_t not_tolerated;
 uint64_t extreme;
 uint64_t narrow;
} sab_thresholds_info;
sab_status sab_thresholds_find(const sab_sizes *lengths, uint64_t k, const sab_thresholds_options *options, double *thresholds, sab_thresholds_info *info);
typedef struct sab_grouping sab_grouping;
typedef struct sab_grouping_dimension {
 const sab_sizes *lengths;
 const double *thresholds;
 size_t threshold_count;
} sab_grouping_dimension;
sab_status sab_grouping_thresholds_new(const sab_grouping_dimension *dimensions, size_t count, sab_grouping **grouping);
sab_status sab_grouping_predefined_new(const int64_t *group_of, size_t samples, size_t groups, sab_grouping **grouping);
sab_status sab_grouping_partition_new(const int64_t *indices, const uint64_t *counts, size_t groups, sab_grouping **grouping);
typedef struct sab_grouping_view {
 size_t struct_size;
 size_t samples;
 size_t groups;
 size_t dimensions;
 const int64_t *offsets;
 const int64_t *permutation;
 const int64_t *inverse;
 const int64_t *group_of;
 const int64_t *intervals;
} sab_grouping_view;
sab_status sab_grouping_get_view(const sab_grouping *grouping, sab_grouping_view *groups);
void sab_grouping_free(sab_grouping *grouping);
typedef struct sab_ragged {
 size_t struct_size;
 size_t samples;
 size_t dimensions;
 size_t element_size;
 const int64_t *shapes;
 const int64_t *strides;
 void *values;
 const int64_t *offsets;
 void *const *data;
} sab_ragged;
typedef int32_t sab_pad_rule;
typedef struct sab_pad_options {
 size_t struct_size;
 uint64_t batch_dim;
 sab_pad_rule padding;
 const void *value;
 uint64_t value_dims;
 uint64_t threads;
} sab_pad_options;
sab_status sab_ragged_get_padded_shape(const sab_ragged *samples, const int64_t *indices, size_t count, int64_t *shape);
sab_status sab_ragged_pad(const sab_ragged *samples, const int64_t *indices, size_t count, const int64_t *shape, const sab_pad_options *options, void *padded);
sab_status sab_ragged_unpad(const void *padded, const int64_t *shape, const int64_t *indices, size_t count, const sab_pad_options *options, const sab_ragged *samples);
typedef int32_t sab_mask_rule;
sab_status sab_ragged_mask(const int64_t *lengths, size_t count, const int64_t *shape, size_t dimensions, sab_mask_rule rule, uint8_t *mask);
/* sab/cache.h, provisional */
enum {
 SAB_CACHE_DEGRADE = 0,
 SAB_CACHE_ERROR = 1,
};
typedef struct sab_cache sab_cache;
typedef struct sab_cache_value sab_cache_value;
typedef int32_t sab_cache_failure;
typedef struct sab_cache_options {
 size_t struct_size;
 const char *dataset_name;
 uint64_t writer_buffer_size;
 double flush_interval;
 uint64_t capacity;
 sab_cache_failure on_failure;
 double timeout;
 double load_wait;
 double call_timeout;
 uint64_t file_mode;
} sab_cache_options;
sab_status sab_cache_new(const char *url, const sab_cache_options *options, sab_cache **cache);
sab_status sab_cache_get(sab_cache *cache, const void *key, size_t key_size, sab_cache_value **value);
sab_status sab_cache_put(sab_cache *cache, const void *key, size_t key_size, const void *data, size_t size);
typedef int32_t (*sab_cache_load_fn)(void *ctx, const void *key, size_t key_size, const void **data, size_t *size);
sab_status sab_cache_get_or_load(sab_cache *cache, const void *key, size_t key_size, sab_cache_load_fn load, void *ctx, const sab_progress_options *options, sab_cache_value **value);
typedef struct sab_cache_item {
 const void *key;
 size_t key_size;
 const void *data;
 size_t size;
} sab_cache_item;
sab_status sab_cache_get_many(sab_cache *cache, const sab_cache_item *items, size_t count, sab_cache_value **values);
sab_status sab_cache_put_many(sab_cache *cache, const sab_cache_item *items, size_t count);
sab_status sab_cache_flush(sab_cache *cache);
sab_status sab_cache_get_key_count(sab_cache *cache, uint64_t *keys);
sab_status sab_cache_clear(sab_cache *cache);
typedef struct sab_cache_stats {
 size_t struct_size;
 uint64_t hits;
 uint64_t misses;
 uint64_t loads;
 uint64_t waits;
 uint64_t evictions;
 uint64_t damaged;
 uint64_t failures;
 uint64_t dropped;
 uint64_t bytes_read;
 uint64_t bytes_written;
 uint64_t buffered;
 const char *url;
} sab_cache_stats;
sab_status sab_cache_get_stats(const sab_cache *cache, sab_cache_stats *stats);
const void *sab_cache_value_data(const sab_cache_value *value, size_t *size);
void sab_cache_value_free(sab_cache_value *value);
void sab_cache_free(sab_cache *cache);
/* sab/torch.h, provisional */
struct DLManagedTensor;
typedef struct sab_torch_info {
 size_t struct_size;
 const char *torch_version;
 const char *component_path;
 int32_t cuda_devices;
} sab_torch_info;
sab_status sab_torch_open(const char *path, sab_torch_info *info);
sab_status sab_torch_indices_new(const sab_batch *batch, const char *device, struct DLManagedTensor **tensor);
typedef struct sab_torch_store sab_torch_store;
sab_status sab_torch_store_new(const char *host, uint16_t port, uint64_t rank, uint64_t world_size, double timeout, sab_torch_store **store);
int32_t sab_torch_store_all_gather(void *store, const void *mine, size_t size, void *all);
void sab_torch_store_free(sab_torch_store *store);
typedef struct sab_torch_collection sab_torch_collection;
struct sab_torch_tensor;
typedef struct sab_torch_leaf {
 size_t struct_size;
 const char *path;
 const char *signature;
 struct sab_torch_tensor *const *tensors;
 sab_pad_rule padding;
 double value;
 struct sab_torch_tensor *value_tensor;
} sab_torch_leaf;
sab_status sab_torch_collection_new(const sab_torch_leaf *leaves, size_t leaf_count, size_t samples, sab_torch_collection **collection);
sab_status sab_torch_collection_lengths_new(const sab_torch_collection *collection, const char *name, sab_sizes **lengths);
sab_status sab_torch_collection_grouped_new(const sab_torch_collection *collection, const sab_grouping *grouping, sab_torch_collection **grouped);
sab_status sab_torch_collection_ungrouped_new(const sab_torch_collection *collection, sab_torch_collection **samples);
sab_status sab_torch_collection_outputs_new(const sab_torch_collection *collection, const sab_torch_leaf *leaves, size_t leaf_count, sab_torch_collection **outputs);
typedef struct sab_torch_collection_info {
 size_t struct_size;
 uint64_t samples;
 uint64_t groups;
 uint64_t leaves;
} sab_torch_collection_info;
sab_status sab_torch_collection_get_info(const sab_torch_collection *collection, sab_torch_collection_info *info);
sab_status sab_torch_collection_get_tensor(const sab_torch_collection *collection, size_t leaf, size_t index, struct sab_torch_tensor *tensor);
sab_status sab_torch_collection_get_mask(const sab_torch_collection *collection, size_t group, const char *names, size_t leaf, struct sab_torch_tensor *mask);
void sab_torch_collection_free(sab_torch_collection *collection);
