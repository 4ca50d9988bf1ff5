/* Handles that must come out right, and ways to walk them. */
#ifndef HELPERS_H
#define HELPERS_H

#include <stdint.h>
#include <stdlib.h>

#include "budgets.h"
#include "expect.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* Numbers drawn at random, the same in every run; a test that begins anew sets the state. */
static uint64_t random_state = 12345;
static inline uint64_t random_word(void) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}
static inline double uniform(void) {
    return ((double)(random_word() >> 12) + 0.5) / 4503599627370496.0;
}
static inline uint64_t below(uint64_t limit) {
    return (uint64_t)(uniform() * (double)limit);
}

static inline sab_sizes *sizes_of(const int32_t *numbers, size_t count) {
    sab_sizes *sizes = NULL;
    EXPECT_OK(sab_sizes_new(numbers, count, SAB_INT32, NULL, &sizes));
    return sizes;
}

/* Sizes of one column with a name. */
static inline sab_status named_sizes(const sab_sizes *sizes, const char *name, sab_sizes **named) {
    return sab_sizes_columns_new(&sizes, &name, 1, named);
}

static inline sab_sizes_info info_of_sizes(const sab_sizes *sizes) {
    sab_sizes_info info = SAB_SIZES_INFO_INIT;
    EXPECT_OK(sab_sizes_get_info(sizes, &info));
    return info;
}

static inline sab_plan *plan_with(const int32_t *numbers, size_t count,
                                  const sab_plan_options *options) {
    sab_sizes *sizes = sizes_of(numbers, count);
    sab_plan *plan = NULL;
    EXPECT_OK(sab_plan_new(sizes, options, &plan));
    sab_sizes_free(sizes);
    return plan;
}

static inline sab_plan_options budget(double most) {
    sab_plan_options options = SAB_PLAN_OPTIONS_INIT;
    if (most != 0) SET_BUDGET(options, most);
    return options;
}

/* Lengths that look like text: many short, few long. */
static inline const int32_t *lengths(size_t count) {
    static int32_t made[2000];
    uint32_t x = 1;
    for (size_t i = 0; i < count; ++i) {
        x = x * 1664525u + 1013904223u;
        made[i] = (int32_t)(1 + (x >> 16) % (1 + (x >> 8) % 97));
    }
    return made;
}

static inline sab_plan *a_plan(void) {
    sab_plan_options options = budget(300);
    return plan_with(lengths(500), 500, &options);
}

static inline sab_sampler_options ranks(uint64_t rank, uint64_t world_size) {
    sab_sampler_options options = SAB_SAMPLER_OPTIONS_INIT;
    options.micro_batches = 1; /* tests read it */
    options.rank = rank;
    options.world_size = world_size;
    return options;
}

static inline sab_sampler *rank_of(const sab_plan *plan, uint64_t rank, uint64_t world_size) {
    sab_sampler_options options = ranks(rank, world_size);
    options.seed = 7;
    sab_sampler *sampler = NULL;
    EXPECT_OK(sab_bucket_sampler_new(plan, &options, &sampler));
    return sampler;
}

static inline double padded_total(const sab_batch *batch) {
    const double rows = batch->layout == SAB_LAYOUT_ROW ? 1 : (double)batch->count;
    return rows * *batch->padded_length;
}

/* What the weights of batches are together, of the first column. */
struct weights {
    uint64_t batches;
    double samples, tokens;
    double a_sample, a_token; /* the weight of one; 0: not known */
};

static inline int nearly_equal(double number, double other) {
    return number - other <= 1e-9 * other && other - number <= 1e-9 * other;
}

static inline void add_weights(struct weights *sums, const sab_batch *batch) {
    ++sums->batches;
    sums->samples += batch->sample_weight;
    sums->tokens += *batch->token_weight;
    if (batch->count == 0) EXPECT(batch->sample_weight == 0 && *batch->token_weight == 0);
    if (batch->count == 0 || *batch->total == 0) return;
    const double a_sample = batch->sample_weight / (double)batch->count,
                 a_token = *batch->token_weight / *batch->total;
    EXPECT(sums->a_sample == 0 ||
           (nearly_equal(a_sample, sums->a_sample) && nearly_equal(a_token, sums->a_token)));
    sums->a_sample = a_sample;
    sums->a_token = a_token;
}

static inline int have_mean_one(const struct weights *sums) {
    const double batches = (double)sums->batches;
    return nearly_equal(sums->samples, batches) && nearly_equal(sums->tokens, batches);
}

/* How many samples the steps of an epoch have. */
struct step_samples {
    uint64_t steps, least, most;
    double sum, squares;
};

static inline void add_step_samples(struct step_samples *sums, uint64_t samples) {
    if (sums->steps == 0 || samples < sums->least) sums->least = samples;
    if (samples > sums->most) sums->most = samples;
    ++sums->steps;
    sums->sum += (double)samples;
    sums->squares += (double)samples * (double)samples;
}

/* Of a report of a plan, a balanced or a packed sampler. */
#define HAS_STEP_SAMPLES(report, sums)                                                             \
    ((report).least_step_samples == (sums)->least && (report).most_step_samples == (sums)->most && \
     is_deviation((report).step_samples_deviation, sums))

static inline int is_deviation(double deviation, const struct step_samples *sums) {
    const double steps = (double)sums->steps, mean = sums->sum / steps,
                 off = deviation * deviation - (sums->squares / steps - mean * mean);
    return deviation >= 0 && off <= 1e-9 * sums->squares && -off <= 1e-9 * sums->squares;
}

/* The step of the batch that was shown last. */
static inline sab_step step_of(sab_sampler *sampler) {
    sab_step step = SAB_STEP_INIT;
    EXPECT_OK(sab_sampler_get_step(sampler, &step));
    EXPECT(step.columns >= 1);
    return step;
}

/* The rows of the batch that was shown last. */
static inline sab_rows rows_of(sab_sampler *sampler) {
    sab_rows rows = SAB_ROWS_INIT;
    EXPECT_OK(sab_sampler_get_rows(sampler, &rows));
    EXPECT(rows.columns >= 1);
    return rows;
}

/* The cumulative lengths of the batch that was shown last, or NULL. */
static inline const int32_t *cu_seqlens_of(sab_sampler *sampler) {
    const sab_rows rows = rows_of(sampler);
    return rows.cu_seqlens != NULL ? rows.cu_seqlens[0] : NULL;
}

/* A saved state; zeros follow its bytes. */
struct state {
    size_t size;
    unsigned char bytes[4096];
};

static inline sab_status save_state(const sab_sampler *sampler, struct state *state) {
    memset(state, 0, sizeof *state);
    return sab_sampler_state_save(sampler, state->bytes, sizeof state->bytes, &state->size);
}

static inline sab_status state_at(const sab_sampler *sampler, uint64_t position,
                                  struct state *state) {
    memset(state, 0, sizeof *state);
    return sab_sampler_state_save_at(sampler, position, state->bytes, sizeof state->bytes,
                                     &state->size);
}

static inline sab_status restore_state(sab_sampler *sampler, const struct state *state) {
    return sab_sampler_state_restore(sampler, state->bytes, state->size);
}

/* Walks to the end of the epoch, counting how often each sample is seen; gives the number of steps.
 */
static inline uint64_t walk(sab_sampler *sampler, int *seen) {
    sab_batch batch = SAB_BATCH_INIT;
    uint64_t steps = 0;
    sab_status status;
    while ((status = sab_next_batch(sampler, &batch)) == SAB_OK) {
        ++steps;
        for (uint64_t i = 0; i < batch.count; ++i) ++seen[batch.indices[i]];
    }
    EXPECT(status == SAB_END);
    return steps;
}

static inline int all_are(const int *seen, size_t count, int times) {
    for (size_t i = 0; i < count; ++i)
        if (seen[i] != times) return 0;
    return 1;
}

/* Writes an epoch as "[[1, 2], [3]]". */
static inline void print_epoch(sab_sampler *sampler, char *out) {
    sab_batch batch = SAB_BATCH_INIT;
    char *end = out + sprintf(out, "[");
    while (sab_next_batch(sampler, &batch) == SAB_OK) {
        end += sprintf(end, end == out + 1 ? "[" : ", [");
        for (uint64_t i = 0; i < batch.count; ++i)
            end += sprintf(end, i == 0 ? "%d" : ", %d", (int)batch.indices[i]);
        end += sprintf(end, "]");
    }
    sprintf(end, "]");
}

static inline int32_t stop_at_half(void *ctx, uint64_t done, uint64_t total) {
    (void)ctx;
    return done * 2 >= total ? 55 : 0;
}

static inline int32_t any_size(void *ctx, int64_t index, double *size) {
    (void)ctx;
    *size = (double)(index % 50);
    return 0;
}

static inline int32_t failing_size(void *ctx, int64_t index, double *size) {
    *size = 1;
    return index == 2 ? *(const int32_t *)ctx : 0;
}

static inline sab_plan *bounded_plan(void) {
    static const double boundaries[] = {0, 100};
    sab_plan_options options = budget(300);
    options.bucket_rule = SAB_BUCKETS_BOUNDARIES;
    options.boundaries = boundaries;
    options.boundary_count = 2;
    return plan_with(lengths(100), 100, &options);
}

/* Few long, many short. */
enum { SKEWED = 1500 };
static inline const int32_t *skewed(void) {
    static int32_t made[SKEWED];
    random_state = 99;
    for (int i = 0; i < SKEWED; ++i) {
        made[i] = 1 + (int32_t)below(100);
        if (below(20) == 0) made[i] *= 8;
    }
    return made;
}

/* Whether a constructor refused a sampler of which SAB_LAST_STEP_DROP leaves nothing. */
static inline int leaves_nothing(sab_status status) {
    return status == SAB_E_ARGUMENT &&
           strstr(sab_last_error_message(), "options.last_step = SAB_LAST_STEP_DROP: must leave");
}

#if SAB_WITH_MIXTURE
/* A mixture of one data set by the source of each sample. */
static inline sab_status mixture_by_ids(const sab_sizes *sizes, const int64_t *ids, size_t count,
                                        const sab_mixture_options *options, sab_sizes **mixture) {
    sab_mixture_options given = SAB_MIXTURE_OPTIONS_INIT;
    if (options != NULL) given = *options;
    given.ids = ids, given.id_count = count;
    return sab_mixture_new(&sizes, 1, &given, mixture);
}
#endif

#if SAB_WITH_STREAM
/* The items of an array as records. */
static inline sab_status array_stream(const void *items, size_t item_size, size_t count,
                                      const sab_list_stream_options *options, sab_stream **stream) {
    sab_record *const records = calloc(count + 1, sizeof *records);
    for (size_t i = 0; i < count; ++i) {
        records[i].size = (double)item_size;
        records[i].data = (const char *)items + i * item_size;
        records[i].length = item_size;
    }
    const sab_status status = sab_list_stream_new(records, count, options, stream);
    free(records);
    return status;
}
#endif

#endif
