/* Generated from the public headers by generate_cdef.py: do not edit. */
#define SAB_OK 0
#define SAB_END 1
#define SAB_E_ARGUMENT -1
#define SAB_E_NO_MEMORY -2
#define SAB_E_CALLBACK -3
#define SAB_E_CANCELLED -4
#define SAB_E_IO -5
#define SAB_E_FORMAT -6
#define SAB_E_MISMATCH -7
#define SAB_E_UNSUPPORTED -8
#define SAB_E_INTERNAL -9
#define SAB_LOG_WARNING 1
#define SAB_LOG_INFO 2
typedef int32_t sab_status;
const char *sab_status_name(sab_status status);
const char *sab_last_error_message(void);
int32_t sab_last_callback_code(void);
uint32_t sab_abi_version(void);
const char *sab_version_string(void);
typedef int32_t sab_log_level;
typedef void (*sab_log_fn)(void *ctx, sab_log_level level, const char *message);
void sab_set_log_callback(sab_log_fn callback, void *ctx);
typedef int32_t (*sab_progress_fn)(void *ctx, uint64_t done, uint64_t total);
#define SAB_INT8 1
#define SAB_INT16 2
#define SAB_INT32 3
#define SAB_INT64 4
#define SAB_UINT8 5
#define SAB_UINT16 6
#define SAB_UINT32 7
#define SAB_UINT64 8
#define SAB_FLOAT32 9
#define SAB_FLOAT64 10
typedef struct sab_sizes sab_sizes;
typedef int32_t sab_dtype;
typedef struct sab_sizes_options {
 size_t struct_size; 
 int64_t stride; 
 int32_t copy; 
 int32_t columns; 
} sab_sizes_options;
void sab_sizes_options_init(sab_sizes_options *options);
sab_status sab_sizes_new(const void *data, size_t count, sab_dtype dtype, const sab_sizes_options *options,
 sab_sizes **sizes);
sab_status sab_sizes_npy_new(const char *path, sab_sizes **sizes);
typedef int32_t (*sab_size_fn)(void *ctx, int64_t index, double *size);
sab_status sab_sizes_callback_new(size_t count, sab_size_fn size, void *ctx, sab_progress_fn progress, void *progress_ctx,
 sab_sizes **sizes);
size_t sab_sizes_count(const sab_sizes *sizes);
sab_status sab_sizes_get(const sab_sizes *sizes, size_t index, double *size);
void sab_sizes_free(sab_sizes *sizes);
#define SAB_BUCKETS_AUTO 0
#define SAB_BUCKETS_BOUNDARIES 1
#define SAB_BUCKETS_OPTIMAL 2
#define SAB_BUCKETS_RANK 3
#define SAB_COST_PADDED 0
#define SAB_COST_QUADRATIC 1
#define SAB_COST_POLYNOMIAL 2
#define SAB_COST_CALLBACK 3
#define SAB_TAIL_KEEP 0
#define SAB_TAIL_MERGE 1
#define SAB_TAIL_DROP 2
#define SAB_TAIL_WRAP 3
#define SAB_OVERSIZE_SKIP 0
#define SAB_OVERSIZE_ERROR 1
#define SAB_OVERSIZE_SINGLE 2
typedef struct sab_plan sab_plan;
typedef int32_t sab_buckets;
typedef int32_t sab_cost;
typedef int32_t sab_tail;
typedef int32_t sab_oversize;
typedef int32_t (*sab_cost_fn)(void *ctx, uint64_t count, double length, double *cost);
typedef struct sab_plan_options {
 size_t struct_size; 
 sab_buckets buckets; 
 sab_cost cost; 
 double budget; 
 double padding_target; 
 const double *boundaries; 
 size_t boundary_count; 
 size_t bucket_count; 
 uint64_t bucket_batches; 
 const uint64_t *batch_sizes; 
 size_t batch_size_count; 
 uint64_t max_batch_size; 
 uint64_t batch_size_multiple; 
 double length_multiple; 
 const double *coefficients; 
 size_t coefficient_count; 
 sab_cost_fn cost_fn; 
 void *cost_ctx; 
 sab_tail tail; 
 sab_oversize oversize; 
 size_t max_shapes; 
 sab_progress_fn progress; 
 void *progress_ctx; 
} sab_plan_options;
void sab_plan_options_init(sab_plan_options *options);
typedef struct sab_bucket {
 size_t struct_size; 
 double lower; 
 double upper; 
 double shortest; 
 double longest; 
 double padded_length; 
 double total; 
 double cost; 
 uint64_t samples; 
 uint64_t batch_size; 
 uint64_t batches; 
} sab_bucket;
typedef struct sab_plan_info {
 size_t struct_size; 
 uint64_t samples; 
 uint64_t skipped; 
 uint64_t buckets; 
 uint64_t batches; 
 uint64_t lower_bound; 
 uint64_t fingerprint; 
 double total; 
 double budget; 
} sab_plan_info;
sab_status sab_create_buckets(const sab_sizes *sizes, int64_t max_width, int64_t min_bucket_count, int64_t *boundaries,
 int64_t *bucket_sizes, size_t capacity, size_t *bucket_count);
sab_status sab_plan_new(const sab_sizes *sizes, const sab_plan_options *options, sab_plan **plan);
sab_status sab_plan_get_info(const sab_plan *plan, sab_plan_info *info);
sab_status sab_plan_get_bucket(const sab_plan *plan, size_t index, sab_bucket *bucket);
sab_status sab_plan_skipped(const sab_plan *plan, int64_t *indices, size_t capacity, size_t *count);
sab_status sab_plan_save(const sab_plan *plan, const char *path);
sab_status sab_plan_open(const char *path, sab_plan **plan);
sab_status sab_plan_write(const sab_plan *plan, void *buffer, size_t capacity, size_t *size);
sab_status sab_plan_read(const void *data, size_t size, sab_plan **plan);
void sab_plan_free(sab_plan *plan);
#define SAB_LAST_STEP_SPLIT 0
#define SAB_LAST_STEP_DROP 1
#define SAB_LAST_STEP_WRAP 2
#define SAB_TORCH_SHUFFLE_NONE 0
#define SAB_TORCH_SHUFFLE_ALL 1
#define SAB_TORCH_SHUFFLE_BUCKETS 2
#define SAB_TORCH_GENERATOR_WORDS 625
#define SAB_STATE_SIZE 112
typedef struct sab_sampler sab_sampler;
typedef struct sab_batch {
 size_t struct_size; 
 const int64_t *indices; 
 uint64_t count; 
 double longest; 
 double total; 
 double padded_length; 
 double padded_total; 
 int64_t bucket; 
 uint64_t epoch; 
 uint64_t step; 
 uint64_t step_samples; 
 double step_total; 
} sab_batch;
typedef int32_t sab_last_step;
typedef struct sab_sampler_options {
 size_t struct_size; 
 uint64_t seed; 
 uint64_t epoch; 
 uint64_t rank; 
 uint64_t world_size; 
 sab_last_step last_step; 
 int32_t step_totals; 
 uint64_t worst_first; 
} sab_sampler_options;
void sab_sampler_options_init(sab_sampler_options *options);
sab_status sab_bucket_sampler_new(const sab_plan *plan, const sab_sampler_options *options, sab_sampler **sampler);
sab_status sab_sequential_sampler_new(const sab_plan *plan, const sab_sampler_options *options, sab_sampler **sampler);
sab_status sab_plan_worst_batches(const sab_plan *plan, uint64_t count, sab_sampler **sampler);
sab_status sab_size_aware_sampler_new(const int64_t *indices, size_t count, const sab_sizes *sizes, double max_total_size,
 const sab_sampler_options *options, sab_sampler **sampler);
typedef int32_t (*sab_index_fn)(void *ctx, uint64_t epoch, uint64_t position, int64_t *index, double *size);
sab_status sab_size_aware_stream_sampler_new(sab_index_fn source, void *ctx, void (*release)(void *ctx), double max_total_size,
 sab_sampler **sampler);
typedef struct sab_torch_sampler_options {
 size_t struct_size; 
 uint64_t seed; 
 int32_t shuffle; 
 double max_total_size; 
 const sab_sizes *sizes; 
 sab_size_fn size; 
 void *size_ctx; 
 void (*release)(void *ctx); 
} sab_torch_sampler_options;
void sab_torch_sampler_options_init(sab_torch_sampler_options *options);
sab_status sab_torch_sampler_new(const sab_plan *plan, const sab_torch_sampler_options *options, sab_sampler **sampler);
sab_status sab_torch_sampler_get_generator(const sab_sampler *sampler, uint32_t *words);
sab_status sab_torch_sampler_set_generator(sab_sampler *sampler, const uint32_t *words);
sab_status sab_next_batch(sab_sampler *sampler, sab_batch *batch);
sab_status sab_next_batches(sab_sampler *sampler, size_t max_batches, int64_t *indices, size_t capacity, uint64_t *offsets,
 size_t *count);
sab_status sab_sampler_at(sab_sampler *sampler, uint64_t position, sab_batch *batch);
sab_status sab_sampler_batch_count(const sab_sampler *sampler, uint64_t *count);
sab_status sab_sampler_skipped_count(const sab_sampler *sampler, uint64_t *count);
sab_status sab_sampler_set_epoch(sab_sampler *sampler, uint64_t epoch);
sab_status sab_sampler_seek(sab_sampler *sampler, uint64_t position);
sab_status sab_sampler_tell(const sab_sampler *sampler, uint64_t *epoch, uint64_t *position);
sab_status sab_sampler_state_save(const sab_sampler *sampler, void *state);
sab_status sab_sampler_state_restore(sab_sampler *sampler, const void *state, size_t size);
void sab_sampler_free(sab_sampler *sampler);
typedef struct sab_report {
 size_t struct_size; 
 uint64_t samples; 
 uint64_t skipped; 
 uint64_t dropped; 
 uint64_t repeated; 
 uint64_t batches; 
 uint64_t steps; 
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
} sab_report;
sab_status sab_plan_report(const sab_plan *plan, const sab_sampler_options *options, sab_progress_fn progress, void *progress_ctx,
 sab_report *report);
