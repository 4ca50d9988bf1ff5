/* Makes the calls of refused/calls.txt, and compares the parts of each error with the file's. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sab.h>

static const int32_t three[] = {3, 1, 2};

static sab_sizes* sizes_of(const int32_t* numbers, size_t count) {
    sab_sizes* sizes = NULL;
    sab_sizes_new(numbers, count, SAB_INT32, NULL, &sizes);
    return sizes;
}

static int32_t failing_size(void* ctx, int64_t index, double* size) {
    (void)ctx, (void)index, (void)size;
    return 77;
}

static int32_t any_size(void* ctx, int64_t index, double* size) {
    (void)ctx, (void)index;
    *size = 1;
    return 0;
}

static int32_t stop(void* ctx, uint64_t done, uint64_t total) {
    (void)ctx, (void)done, (void)total;
    return 55;
}

static const sab_budget* budget_of(double limit) {
    static sab_budget budget;
    budget.limit = limit;
    return &budget;
}

/* ---- plans ---- */

static sab_plan_options with_budget(double limit) {
    sab_plan_options options = SAB_PLAN_OPTIONS_INIT;
    options.budgets = budget_of(limit);
    options.budget_count = 1;
    return options;
}

static sab_plan_options with_batch_size(uint64_t number) {
    static uint64_t batch_size;
    batch_size = number;
    sab_plan_options options = SAB_PLAN_OPTIONS_INIT;
    options.batch_sizes = &batch_size;
    options.batch_size_count = 1;
    return options;
}

static sab_status plan_of(const sab_sizes* sizes, const sab_plan_options* options) {
    sab_plan* plan = NULL;
    const sab_status status = sab_plan_new(sizes, options, &plan);
    sab_plan_free(plan);
    return status;
}

static sab_status plan_of_three(const sab_plan_options* options) {
    sab_sizes* sizes = sizes_of(three, 3);
    const sab_status status = plan_of(sizes, options);
    sab_sizes_free(sizes);
    return status;
}

static sab_status plan_with(const double* limits, size_t count, const int32_t* numbers) {
    sab_budget budgets[2];
    memset(budgets, 0, sizeof budgets);
    for (size_t i = 0; i < count; ++i) budgets[i].limit = limits[i];
    sab_plan_options options = SAB_PLAN_OPTIONS_INIT;
    options.budgets = budgets;
    options.budget_count = count;
    sab_sizes* sizes = sizes_of(numbers, 3);
    const sab_status status = plan_of(sizes, &options);
    sab_sizes_free(sizes);
    return status;
}

static sab_plan* a_plan(void) {
    sab_sizes* sizes = sizes_of(three, 3);
    const sab_plan_options options = with_budget(3);
    sab_plan* plan = NULL;
    sab_plan_new(sizes, &options, &plan);
    sab_sizes_free(sizes);
    return plan;
}

static sab_status plan_negative_budget(void) {
    return plan_with((const double[]){-1}, 1, three);
}

static sab_status plan_second_budget(void) {
    return plan_with((const double[]){9, NAN}, 2, three);
}

static sab_status plan_no_budget(void) {
    return plan_with(NULL, 0, three);
}

static sab_status plan_negative_size(void) {
    return plan_with((const double[]){9}, 1, (const int32_t[]){1, 2, -3});
}

static sab_status plan_oversize(void) {
    return plan_with((const double[]){9}, 1, (const int32_t[]){1, 99, 2});
}

static sab_status plan_padding(void) {
    sab_plan_options options = with_budget(9);
    options.padding_target = 1.5;
    return plan_of_three(&options);
}

static sab_status plan_nan_size(void) {
    const double numbers[] = {1, NAN};
    sab_sizes* sizes = NULL;
    sab_sizes_new(numbers, 2, SAB_FLOAT64, NULL, &sizes);
    sab_plan_options options = with_batch_size(2);
    const sab_status status = plan_of(sizes, &options);
    sab_sizes_free(sizes);
    return status;
}

static sab_status plan_none_left(void) {
    const double boundaries[] = {10, 20};
    sab_plan_options options = with_batch_size(2);
    options.bucket_rule = SAB_BUCKETS_BOUNDARIES;
    options.boundaries = boundaries;
    options.boundary_count = 2;
    options.oversize = SAB_OVERSIZE_SKIP;
    return plan_of_three(&options);
}

static sab_status plan_tail(void) {
    sab_plan_options options = with_batch_size(4);
    options.tail = SAB_TAIL_DROP;
    return plan_of_three(&options);
}

static sab_status plan_min_batch_size(void) {
    sab_plan_options options = with_budget(9);
    options.min_batch_size = 5;
    options.max_batch_size = 3;
    return plan_of_three(&options);
}

static sab_status plan_array_without_count(void) {
    const uint64_t batch_size = 4;
    sab_plan_options options = with_budget(9);
    options.batch_sizes = &batch_size;
    return plan_of_three(&options);
}

static sab_status plan_histogram_threads(void) {
    sab_plan_options options = with_batch_size(2);
    options.threads = 2;
    sab_sizes* sizes = sizes_of(three, 3);
    sab_histogram* histogram = NULL;
    sab_plan* plan = NULL;
    sab_histogram_new(&histogram);
    sab_histogram_add(histogram, sizes, NULL);
    const sab_status status = sab_histogram_plan_new(histogram, &options, &plan);
    sab_histogram_free(histogram);
    sab_sizes_free(sizes);
    return status;
}

static sab_status plan_file(void) {
    sab_plan* plan = NULL;
    return sab_plan_file_new("/no/such/plan", &plan);
}

static sab_status plan_file_folder(void) {
    sab_plan* plan = NULL;
    return sab_plan_file_new("/", &plan);
}

static sab_status plan_file_save(void) {
    sab_plan* plan = a_plan();
    const sab_status status = sab_plan_save(plan, "/no/such/folder/plan");
    sab_plan_free(plan);
    return status;
}

/* ---- samplers ---- */

static sab_status sampler_with(const sab_sampler_options* options) {
    sab_plan* plan = a_plan();
    sab_sampler* sampler = NULL;
    const sab_status status = sab_bucket_sampler_new(plan, options, &sampler);
    sab_sampler_free(sampler);
    sab_plan_free(plan);
    return status;
}

static sab_status sampler_rank(void) {
    return sampler_with(
        &(sab_sampler_options){sizeof(sab_sampler_options), .rank = 3, .world_size = 2});
}

static sab_status sampler_world_size(void) {
    return sampler_with(
        &(sab_sampler_options){sizeof(sab_sampler_options), .world_size = (uint64_t)1 << 33});
}

static sab_status sampler_micro_batches(void) {
    return sampler_with(
        &(sab_sampler_options){sizeof(sab_sampler_options), .micro_batches = (uint64_t)1 << 21});
}

static sab_status sampler_steps_per_epoch(void) {
    return sampler_with(
        &(sab_sampler_options){sizeof(sab_sampler_options), .steps_per_epoch = (uint64_t)1 << 33});
}

static sab_status sampler_costliest(void) {
    sab_plan* plan = a_plan();
    sab_sampler* sampler = NULL;
    const sab_status status = sab_costliest_sampler_new(plan, 0, &sampler);
    sab_plan_free(plan);
    return status;
}

static sab_status sampler_ordered(void) {
    sab_sizes* sizes = sizes_of(three, 3);
    sab_sampler* sampler = NULL;
    const sab_status status = sab_ordered_sampler_new(NULL, 3, sizes, 0.5, NULL, &sampler);
    sab_sizes_free(sizes);
    return status;
}

static sab_status sampler_damaged_state(void) {
    sab_plan* plan = a_plan();
    sab_sampler* sampler = NULL;
    sab_bucket_sampler_new(plan, NULL, &sampler);
    const sab_status status = sab_sampler_state_restore(sampler, "nothing", 7);
    sab_sampler_free(sampler);
    sab_plan_free(plan);
    return status;
}

static sab_status sampler_other_state(void) {
    sab_plan* plan = a_plan();
    sab_sampler_options options = SAB_SAMPLER_OPTIONS_INIT;
    options.seed = 5;
    sab_sampler *sampler = NULL, *other = NULL;
    sab_bucket_sampler_new(plan, NULL, &sampler);
    sab_bucket_sampler_new(plan, &options, &other);
    unsigned char state[4096];
    size_t size = 0;
    sab_sampler_state_save(sampler, state, sizeof state, &size);
    const sab_status status = sab_sampler_state_restore(other, state, size);
    sab_sampler_free(sampler);
    sab_sampler_free(other);
    sab_plan_free(plan);
    return status;
}

/* ---- sizes ---- */

static sab_status sizes_callback(void) {
    sab_sizes* sizes = NULL;
    return sab_sizes_callback_new(3, failing_size, NULL, NULL, &sizes);
}

static sab_status sizes_progress(void) {
    sab_progress_options options = SAB_PROGRESS_OPTIONS_INIT;
    options.progress = stop;
    sab_sizes* sizes = NULL;
    return sab_sizes_callback_new(3, any_size, NULL, &options, &sizes);
}

static sab_status sizes_columns(void) {
    const sab_sizes* columns[] = {sizes_of(three, 3), sizes_of(three, 2)};
    sab_sizes* sizes = NULL;
    const sab_status status = sab_sizes_columns_new(columns, NULL, 2, &sizes);
    sab_sizes_free((sab_sizes*)columns[0]);
    sab_sizes_free((sab_sizes*)columns[1]);
    return status;
}

static sab_status sizes_file(void) {
    sab_sizes* sizes = NULL;
    return sab_sizes_file_new("/no/such/sizes.npy", NULL, &sizes);
}

static sab_status sizes_file_format(void) {
    sab_sizes_file_options options = SAB_SIZES_FILE_OPTIONS_INIT;
    options.format = "word";
    sab_sizes* sizes = NULL;
    return sab_sizes_file_new("/dev/null", &options, &sizes);
}

static sab_status sizes_file_missing(void) {
    sab_sizes_file_options options = SAB_SIZES_FILE_OPTIONS_INIT;
    options.format = "text";
    options.missing = SAB_MISSING_SKIP;
    sab_sizes* sizes = NULL;
    return sab_sizes_file_new("/dev/null", &options, &sizes);
}

static sab_status sizes_file_nulls(void) {
    sab_sizes_file_options options = SAB_SIZES_FILE_OPTIONS_INIT;
    options.format = "text";
    options.nulls = SAB_NULLS_ZERO;
    sab_sizes* sizes = NULL;
    return sab_sizes_file_new("/dev/null", &options, &sizes);
}

static sab_status cost_transformer(void) {
    sab_cost* cost = NULL;
    return sab_cost_transformer_new(0, 2, &cost);
}

/* ---- rows, steps, parts ---- */

static sab_status packed_with(const double* numbers, size_t count, uint64_t capacity,
                              sab_packed_options options) {
    options.capacities = &capacity;
    options.capacity_count = 1;
    sab_sizes* sizes = NULL;
    sab_sizes_new(numbers, count, SAB_FLOAT64, NULL, &sizes);
    sab_sampler* sampler = NULL;
    const sab_status status = sab_packed_sampler_new(sizes, &options, NULL, &sampler);
    sab_sampler_free(sampler);
    sab_sizes_free(sizes);
    return status;
}

static sab_status packed(const double* numbers, size_t count, uint64_t capacity) {
    const sab_packed_options options = SAB_PACKED_OPTIONS_INIT;
    return packed_with(numbers, count, capacity, options);
}

static sab_status pack_window(void) {
    sab_packed_options options = SAB_PACKED_OPTIONS_INIT;
    options.method = SAB_PACK_BEST_FIT;
    options.window = 7;
    return packed_with((const double[]){5, 3}, 2, 9, options);
}

static sab_status pack_tries(void) {
    sab_packed_options options = SAB_PACKED_OPTIONS_INIT;
    options.method = SAB_PACK_BEST_FIT;
    options.tries = 7;
    return packed_with((const double[]){5, 3}, 2, 9, options);
}

static sab_status pack_capacity(void) {
    return packed((const double[]){5, 3}, 2, 0);
}

static sab_status pack_oversize(void) {
    return packed((const double[]){5, 3}, 2, 4);
}

static sab_status pack_part_of_a_token(void) {
    return packed((const double[]){3, 2.5}, 2, 4);
}

static sab_status balanced_by(const sab_balanced_options* options,
                              const sab_sampler_options* order) {
    sab_sizes* sizes = sizes_of(three, 3);
    sab_sampler* sampler = NULL;
    const sab_status status = sab_balanced_sampler_new(sizes, options, order, &sampler);
    sab_sampler_free(sampler);
    sab_sizes_free(sizes);
    return status;
}

static sab_status balanced(const sab_balanced_options* options) {
    return balanced_by(options, NULL);
}

static sab_status balance_costliest_first(void) {
    sab_balanced_options options = SAB_BALANCED_OPTIONS_INIT;
    options.samples = 2;
    sab_sampler_options order = SAB_SAMPLER_OPTIONS_INIT;
    order.costliest_first = 2;
    return balanced_by(&options, &order);
}

static sab_status balance_nothing(void) {
    const sab_balanced_options options = SAB_BALANCED_OPTIONS_INIT;
    return balanced(&options);
}

static sab_status balance_budget(void) {
    sab_balanced_options options = SAB_BALANCED_OPTIONS_INIT;
    options.budgets = budget_of(-1);
    options.budget_count = 1;
    return balanced(&options);
}

static sab_status partition_parts(void) {
    uint32_t parts[2];
    return sab_items_partition((const double[]){1, 2}, 2, 0, NULL, parts);
}

static sab_status partition_cost(void) {
    uint32_t parts[2];
    return sab_items_partition((const double[]){1, NAN}, 2, 2, NULL, parts);
}

/* ---- mixtures ---- */

static sab_status mixture_with(const sab_mixture_options* options, size_t second) {
    const sab_sizes* sources[] = {sizes_of(three, 3), sizes_of(three, second)};
    sab_sizes* sizes = NULL;
    const sab_status status = sab_mixture_new(sources, 2, options, &sizes);
    sab_sizes_free(sizes);
    sab_sizes_free((sab_sizes*)sources[0]);
    sab_sizes_free((sab_sizes*)sources[1]);
    return status;
}

static sab_status mixture_repeats(void) {
    const double repeats[] = {1, -1};
    sab_mixture_options options = SAB_MIXTURE_OPTIONS_INIT;
    options.repeats = repeats;
    options.repeat_count = 2;
    return mixture_with(&options, 2);
}

static sab_status mixture_temperature(void) {
    sab_mixture_options options = SAB_MIXTURE_OPTIONS_INIT;
    options.temperature = -1;
    return mixture_with(&options, 2);
}

static sab_status mixture_no_sample(void) {
    return mixture_with(NULL, 0);
}

/* ---- memory ---- */

static sab_status model_of(double feature, double peak, uint32_t degree) {
    const double features[] = {1, feature, 3, 4, 5}, peaks[] = {10, 20, peak, 40, 50};
    sab_memory_model_options options = SAB_MEMORY_MODEL_OPTIONS_INIT;
    options.kind = SAB_MODEL_POLYNOMIAL;
    options.degree = degree;
    sab_memory_model* model = NULL;
    const sab_status status = sab_memory_model_fit_new(features, 5, 1, peaks, &options, &model);
    sab_memory_model_free(model);
    return status;
}

static sab_status model_feature(void) {
    return model_of(NAN, 30, 1);
}

static sab_status model_peak(void) {
    return model_of(2, 0, 1);
}

static sab_status model_degree(void) {
    return model_of(2, 30, 3);
}

static sab_status memory_points(void) {
    sab_measurement_options options = SAB_MEASUREMENT_OPTIONS_INIT;
    const double shortest = 1, longest = 9;
    options.column_count = 1;
    options.shortest = &shortest;
    options.longest = &longest;
    options.max_count = 64;
    options.degree = 3;
    uint64_t counts[8];
    double lengths[8];
    return sab_measurement_points_find(&options, 8, counts, lengths);
}

static sab_status memory_device(void) {
    sab_probe* probe = NULL;
    return sab_probe_new("nothing", NULL, &probe);
}

/* ---- streams ---- */

static sab_status stream_none_left(void) {
    sab_record records[2] = {{SAB_RECORD_BYTES, 3, "abc", 3}, {SAB_RECORD_BYTES, 2, "ab", 2}};
    sab_readahead_stream_options options = SAB_READAHEAD_STREAM_OPTIONS_INIT;
    options.budgets = budget_of(1);
    options.budget_count = 1;
    options.oversize = SAB_OVERSIZE_SKIP;
    sab_stream* stream = NULL;
    sab_list_stream_new(records, 2, NULL, &stream);
    sab_readahead_stream_new(stream, &options, &stream);
    const sab_status status = sab_stream_next(stream, &records[0]);
    sab_stream_free(stream);
    return status;
}

#define CALL(name) {#name, name}
static const struct {
    const char* name;
    sab_status (*make)(void);
} calls[] = {
    CALL(plan_negative_budget),
    CALL(plan_second_budget),
    CALL(plan_no_budget),
    CALL(plan_padding),
    CALL(plan_negative_size),
    CALL(plan_nan_size),
    CALL(plan_oversize),
    CALL(plan_none_left),
    CALL(plan_tail),
    CALL(plan_min_batch_size),
    CALL(plan_array_without_count),
    CALL(plan_histogram_threads),
    CALL(plan_file),
    CALL(plan_file_folder),
    CALL(plan_file_save),
    CALL(sampler_rank),
    CALL(sampler_world_size),
    CALL(sampler_micro_batches),
    CALL(sampler_steps_per_epoch),
    CALL(sampler_costliest),
    CALL(sampler_ordered),
    CALL(sampler_damaged_state),
    CALL(sampler_other_state),
    CALL(sizes_callback),
    CALL(sizes_progress),
    CALL(sizes_columns),
    CALL(sizes_file),
    CALL(sizes_file_format),
    CALL(sizes_file_missing),
    CALL(sizes_file_nulls),
    CALL(cost_transformer),
    CALL(pack_capacity),
    CALL(pack_oversize),
    CALL(pack_part_of_a_token),
    CALL(pack_window),
    CALL(pack_tries),
    CALL(balance_nothing),
    CALL(balance_budget),
    CALL(balance_costliest_first),
    CALL(partition_parts),
    CALL(partition_cost),
    CALL(mixture_repeats),
    CALL(mixture_temperature),
    CALL(mixture_no_sample),
    CALL(model_feature),
    CALL(model_peak),
    CALL(model_degree),
    CALL(memory_points),
    CALL(memory_device),
    CALL(stream_none_left),
};
enum { CALLS = sizeof calls / sizeof calls[0], COLUMNS = 8 };

/* The columns of a line, without the spaces around them; how many there are. */
static int columns_of(char* line, char* columns[COLUMNS]) {
    int count = 0;
    for (char* next = line; next != NULL && count < COLUMNS; ++count) {
        char* const end = strchr(next, '|');
        columns[count] = next + strspn(next, " ");
        char* last = end != NULL ? end : next + strlen(next);
        while (last > columns[count] && (last[-1] == ' ' || last[-1] == '\n')) --last;
        next = end != NULL ? end + 1 : NULL;
        *last = '\0';
    }
    return count;
}

static int is_as(char* const columns[COLUMNS], sab_status status) {
    const char *const argument = sab_last_error_argument(), *const value = sab_last_error_value(),
                      *const message = sab_last_error_message(),
                      *const rule = sab_last_error_rule();
    char name[64];
    snprintf(name, sizeof name, "SAB_E_%s", columns[1]);
    const int ends_in_rule = strlen(message) >= strlen(rule) &&
                             strcmp(message + strlen(message) - strlen(rule), rule) == 0;
    if (strcmp(sab_status_name(status), name) == 0 && sab_last_error_code() == atoi(columns[2]) &&
        strcmp(argument, columns[3]) == 0 && strcmp(value, columns[4]) == 0 &&
        strncmp(message, argument, strlen(argument)) == 0 && ends_in_rule &&
        (rule[0] != '\0') == (argument[0] != '\0' || value[0] != '\0'))
        return 1;
    fprintf(stderr, "%s: %s, code %d, argument %s, value %s, rule %s: %s\n", columns[0],
            sab_status_name(status), (int)sab_last_error_code(), argument, value, rule, message);
    return 0;
}

int main(int argc, char** argv) {
    FILE* const file = argc == 2 ? fopen(argv[1], "r") : NULL;
    if (file == NULL) return fprintf(stderr, "usage: golden_refused calls.txt\n"), 2;
    char line[512], *columns[COLUMNS];
    int passed = 0, failed = 0;
    while (fgets(line, sizeof line, file) != NULL) {
        if (line[0] == '#' || columns_of(line, columns) != COLUMNS) continue;
        int is_right = 0;
        for (int i = 0; i < CALLS; ++i)
            if (strcmp(calls[i].name, columns[0]) == 0) is_right = is_as(columns, calls[i].make());
        is_right ? ++passed : ++failed;
    }
    fclose(file);
    printf("%d passed, %d failed\n", passed, failed);
    return failed > 0 || passed != CALLS;
}
