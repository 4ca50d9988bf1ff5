/* The C ABI through the installed header and library. Reads as a tutorial: sizes, plan, samplers,
 * then everything that can go wrong. */
#define _GNU_SOURCE
#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#ifndef _WIN32
#include <sys/wait.h>
#endif
#include <unistd.h>

#include "helpers.h"

/* The way through */

static void Library_SaysItsVersion(void) {
    EXPECT(strncmp(sab_version_string(), "0.", 2) == 0);
    EXPECT(sab_abi_version() >= 1 && sab_abi_version() < 1000); /* 0.1 or a later 0.x */
    EXPECT(strcmp(sab_status_name(SAB_E_MISMATCH), "SAB_E_MISMATCH") == 0);
    EXPECT(strcmp(sab_status_name(12345), "unknown status") == 0);
}

static void SizesPlanSampler_GiveEverySampleOnce(void) {
    const int32_t tokens[] = {12, 7, 30, 8, 9, 31, 7, 12, 29, 8};
    sab_sizes *sizes = NULL;
    EXPECT_OK(sab_sizes_new(tokens, 10, SAB_INT32, NULL, &sizes));
    sab_plan_options options = SAB_PLAN_OPTIONS_INIT;
    options.budget = 64; /* padded tokens a batch */
    sab_plan *plan = NULL;
    EXPECT_OK(sab_plan_new(sizes, &options, &plan));
    sab_sampler *sampler = NULL;
    EXPECT_OK(sab_bucket_sampler_new(plan, NULL, &sampler));
    sab_sizes_free(sizes); /* handles may go in any order */
    sab_plan_free(plan);

    int seen[10] = {0};
    sab_batch batch = SAB_BATCH_INIT;
    while (sab_next_batch(sampler, &batch) == SAB_OK) {
        double total = 0, longest = 0;
        for (uint64_t i = 0; i < batch.count; ++i) {
            ++seen[batch.indices[i]];
            total += tokens[batch.indices[i]];
            longest = fmax(longest, tokens[batch.indices[i]]);
        }
        EXPECT(batch.total == total && batch.longest == longest);
        EXPECT(batch.padded_total == (double)batch.count * longest && batch.padded_total <= 64);
        EXPECT(batch.step_samples == batch.count && batch.step_total == batch.total);
    }
    EXPECT(all_are(seen, 10, 1));
    sab_sampler_free(sampler);
}

static void NextBatch_AfterEnd_ReturnsEndAgain(void) {
    sab_plan *plan = a_plan();
    sab_sampler *sampler = rank_of(plan, 0, 1);
    int seen[500] = {0};
    walk(sampler, seen);
    sab_batch batch = SAB_BATCH_INIT, untouched = SAB_BATCH_INIT;
    for (int i = 0; i < 3; ++i) EXPECT(sab_next_batch(sampler, &batch) == SAB_END);
    EXPECT(memcmp(&batch, &untouched, sizeof batch) == 0);
    EXPECT_OK(sab_sampler_set_epoch(sampler, 1));
    EXPECT(sab_next_batch(sampler, &batch) == SAB_OK);
    sab_sampler_free(sampler);
    sab_plan_free(plan);
}

static void CreateBuckets_GivesTheDocumentedResults(void) {
    const int32_t first[] = {1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 3, 22, 22, 22, 22};
    const int64_t edges[] = {1, 6, 11, 16, 21, 23}, counts[] = {12, 0, 0, 0, 4};
    int64_t boundaries[16], bucket_sizes[15];
    size_t count = 0;
    sab_sizes *sizes = sizes_of(first, COUNT(first));
    EXPECT_OK(sab_create_buckets(sizes, 5, 10, NULL, NULL, 0, &count));
    EXPECT(count == 5);
    EXPECT_OK(sab_create_buckets(sizes, 5, 10, boundaries, bucket_sizes, 15, &count));
    EXPECT(memcmp(boundaries, edges, sizeof edges) == 0 &&
           memcmp(bucket_sizes, counts, sizeof counts) == 0);
    sab_sizes_free(sizes);

    int32_t range[20];
    for (int i = 0; i < 20; ++i) range[i] = i;
    const int64_t fives[] = {0, 5, 10, 15, 20};
    sizes = sizes_of(range, 20);
    EXPECT_OK(sab_create_buckets(sizes, 10, 5, boundaries, bucket_sizes, 15, &count));
    EXPECT(count == 4 && memcmp(boundaries, fives, sizeof fives) == 0 && bucket_sizes[0] == 5 &&
           bucket_sizes[3] == 5);

    sab_sizes *floats = NULL;
    const float half[] = {0.5f};
    EXPECT_OK(sab_sizes_new(half, 1, SAB_FLOAT32, NULL, &floats));
    EXPECT_FAILS(sab_create_buckets(floats, 1, 1, NULL, NULL, 0, &count), SAB_E_ARGUMENT, "sizes");
    EXPECT_FAILS(sab_create_buckets(sizes, 0, 1, NULL, NULL, 0, &count), SAB_E_ARGUMENT,
                 "max_width = 0");
    EXPECT_FAILS(sab_create_buckets(sizes, 1, 0, NULL, NULL, 0, &count), SAB_E_ARGUMENT,
                 "min_bucket_count = 0");
    EXPECT_FAILS(sab_create_buckets(sizes, 1, 1, NULL, NULL, 1, &count), SAB_E_ARGUMENT,
                 "boundaries = NULL");
    EXPECT_FAILS(sab_create_buckets(NULL, 1, 1, NULL, NULL, 0, &count), SAB_E_ARGUMENT,
                 "sizes = NULL");
    sab_sizes_free(floats);
    sab_sizes_free(sizes);
}

static sab_plan *documented_plan(void) {
    int32_t range[25];
    for (int i = 0; i < 25; ++i) range[i] = i;
    const double documented[] = {15, 0, 25, 6}; /* in any order */
    const uint64_t batch_sizes[] = {2, 3, 5};
    sab_plan_options options = SAB_PLAN_OPTIONS_INIT;
    options.buckets = SAB_BUCKETS_BOUNDARIES;
    options.boundaries = documented;
    options.boundary_count = 4;
    options.batch_sizes = batch_sizes;
    options.batch_size_count = 3;
    return plan_with(range, 25, &options);
}

static int32_t size_is_index(void *ctx, int64_t index, double *size) {
    (void)ctx;
    *size = (double)index;
    return 0;
}

static void TorchOrder_GivesTheDocumentedBatches(void) {
    sab_plan *plan = documented_plan();
    sab_sampler *sampler = NULL;
    char text[4096];
    EXPECT_OK(sab_torch_sampler_new(plan, NULL, &sampler));
    print_epoch(sampler, text);
    EXPECT(strcmp(text,
                  "[[24, 17, 16, 22, 19], [2, 5], [12, 10, 11], [3, 0], [15, 18, 20, 21, 23], [7, "
                  "13, 6], [14, 9, 8], [1, 4]]") == 0);
    EXPECT_OK(sab_sampler_set_epoch(sampler, 1));
    print_epoch(sampler, text);
    EXPECT(strcmp(text,
                  "[[14, 9, 13], [23, 16, 20, 21, 15], [5, 0], [8, 10, 11], [17, 24, 22, 18, 19], "
                  "[12, 6, 7], [4, 2], [3, 1]]") == 0);
    sab_sampler_free(sampler);

    sab_torch_sampler_options options = SAB_TORCH_SAMPLER_OPTIONS_INIT;
    options.max_total_size = 40;
    options.size = size_is_index;
    EXPECT_OK(sab_torch_sampler_new(plan, &options, &sampler));
    print_epoch(sampler, text);
    EXPECT(strcmp(text,
                  "[[24], [2, 5, 3, 0, 1, 4], [12, 10, 11, 7], [13, 6, 14], [17, 16], [22], [19, "
                  "15], [9, 8], [18, 20], [21], [23]]") == 0);
    uint64_t count;
    EXPECT_FAILS(sab_sampler_batch_count(sampler, &count), SAB_E_UNSUPPORTED, "random access");
    sab_sampler_free(sampler);
    char same[4096];
    int32_t indices[25];
    for (int i = 0; i < 25; ++i) indices[i] = i;
    sab_sizes *sizes = sizes_of(indices, 25), *short_sizes = sizes_of(indices, 24);
    options.size = NULL;
    options.sizes = sizes;
    EXPECT_OK(sab_torch_sampler_new(plan, &options, &sampler));
    print_epoch(sampler, same);
    EXPECT(strcmp(text, same) == 0);
    sab_sampler_free(sampler);
    options.sizes = short_sizes;
    EXPECT_FAILS(sab_torch_sampler_new(plan, &options, &sampler), SAB_E_ARGUMENT,
                 "options.sizes.count = 24");
    sab_sizes_free(sizes);
    sab_sizes_free(short_sizes);

    options = (sab_torch_sampler_options)SAB_TORCH_SAMPLER_OPTIONS_INIT;
    options.shuffle = SAB_TORCH_SHUFFLE_NONE;
    EXPECT_OK(sab_torch_sampler_new(plan, &options, &sampler));
    print_epoch(sampler, text);
    EXPECT(strcmp(text,
                  "[[0, 1], [2, 3], [4, 5], [6, 7, 8], [9, 10, 11], [12, 13, 14], [15, 16, 17, 18, "
                  "19], [20, 21, 22, 23, 24]]") == 0);
    EXPECT_OK(sab_sampler_batch_count(sampler, &count));
    EXPECT(count == 8);
    sab_sampler_free(sampler);
    sab_plan_free(plan);
}

static void TorchOrder_GeneratorGoesOnElsewhere(void) {
    sab_plan *plan = documented_plan();
    sab_sampler *one = NULL, *other = NULL;
    uint32_t words[SAB_TORCH_GENERATOR_WORDS];
    char first[4096], second[4096];
    sab_torch_sampler_options options = SAB_TORCH_SAMPLER_OPTIONS_INIT;
    EXPECT_OK(sab_torch_sampler_new(plan, &options, &one));
    options.seed = 99;
    EXPECT_OK(sab_torch_sampler_new(plan, &options, &other));
    EXPECT_OK(sab_torch_sampler_get_generator(one, words));
    EXPECT_OK(sab_torch_sampler_set_generator(other, words));
    print_epoch(one, first);
    print_epoch(other, second);
    EXPECT(strcmp(first, second) == 0);
    words[624] = 625;
    EXPECT_FAILS(sab_torch_sampler_set_generator(other, words), SAB_E_ARGUMENT, "words[624] = 625");
    sab_sampler *native = rank_of(plan, 0, 1);
    EXPECT_FAILS(sab_torch_sampler_get_generator(native, words), SAB_E_ARGUMENT,
                 "sab_torch_sampler_new");
    EXPECT_FAILS(sab_torch_sampler_set_generator(native, words), SAB_E_ARGUMENT,
                 "sab_torch_sampler_new");
    EXPECT_FAILS(sab_torch_sampler_get_generator(one, NULL), SAB_E_ARGUMENT, "words = NULL");
    options.shuffle = 3;
    sab_sampler *none = one;
    EXPECT_FAILS(sab_torch_sampler_new(plan, &options, &none), SAB_E_ARGUMENT, "shuffle = 3");
    EXPECT(none == NULL);
    options.shuffle = 1;
    options.max_total_size = 4;
    EXPECT_FAILS(sab_torch_sampler_new(plan, &options, &none), SAB_E_ARGUMENT,
                 "options.size = NULL");
    sab_plan *by_budget = a_plan();
    EXPECT_FAILS(sab_torch_sampler_new(by_budget, NULL, &none), SAB_E_ARGUMENT,
                 "SAB_BUCKETS_BOUNDARIES");
    sab_plan_free(by_budget);
    sab_sampler_free(native);
    sab_sampler_free(one);
    sab_sampler_free(other);
    sab_plan_free(plan);
}

static void SizeAware_FollowsTheDocumentedRule(void) {
    const int32_t twos[] = {2, 2, 9, 2, 2, 2};
    sab_sizes *sizes = sizes_of(twos, 6);
    sab_sampler *sampler = NULL;
    char text[256];
    EXPECT_OK(sab_size_aware_sampler_new(NULL, 6, sizes, 4, NULL, &sampler));
    print_epoch(sampler, text);
    EXPECT(strcmp(text, "[[0, 1], [3, 4], [5]]") == 0);
    uint64_t skipped = 0;
    EXPECT_OK(sab_sampler_skipped_count(sampler, &skipped));
    EXPECT(skipped == 1);
    sab_sampler_free(sampler);
    const int64_t order[] = {5, 3, 1}, wrong[] = {6};
    EXPECT_OK(sab_size_aware_sampler_new(order, 3, sizes, 4, NULL, &sampler));
    print_epoch(sampler, text);
    EXPECT(strcmp(text, "[[5, 3], [1]]") == 0);
    sab_sampler_free(sampler);
    EXPECT_FAILS(sab_size_aware_sampler_new(wrong, 1, sizes, 4, NULL, &sampler), SAB_E_ARGUMENT,
                 "indices[0] = 6");
    EXPECT_FAILS(sab_size_aware_sampler_new(NULL, 7, sizes, 4, NULL, &sampler), SAB_E_ARGUMENT,
                 "count = 7");
    EXPECT_FAILS(sab_size_aware_sampler_new(NULL, 6, sizes, NAN, NULL, &sampler), SAB_E_ARGUMENT,
                 "max_total_size = nan");
    EXPECT_FAILS(sab_size_aware_sampler_new(NULL, 6, sizes, -1, NULL, &sampler), SAB_E_ARGUMENT,
                 "max_total_size = -1");
    EXPECT(sampler == NULL);
    sab_sizes_free(sizes);
}

/* Sizes */

static void Sizes_OfEveryTypeAndStride_AreRead(void) {
    double value = 0;
    sab_sizes *sizes = NULL;
#define TRY_TYPE(type, dtype)                                              \
    do {                                                                   \
        type numbers[6] = {1, 2, 3, 4, 5, 6};                              \
        sab_sizes_options strided = SAB_SIZES_OPTIONS_INIT;                \
        strided.stride = -2 * (int64_t)sizeof(type);                       \
        EXPECT_OK(sab_sizes_new(numbers + 5, 3, dtype, &strided, &sizes)); \
        EXPECT_OK(sab_sizes_get(sizes, 2, &value));                        \
        EXPECT(value == 2 && sab_sizes_count(sizes) == 3);                 \
        sab_sizes_free(sizes);                                             \
        strided.stride = 0;                                                \
        strided.copy = 1;                                                  \
        EXPECT_OK(sab_sizes_new(numbers, 6, dtype, &strided, &sizes));     \
        numbers[3] = 9;                                                    \
        EXPECT_OK(sab_sizes_get(sizes, 3, &value));                        \
        EXPECT(value == 4);                                                \
        sab_sizes_free(sizes);                                             \
        unsigned char bytes[1 + 2 * sizeof(type)];                         \
        memcpy(bytes + 1, numbers, 2 * sizeof(type)); /* not aligned */    \
        EXPECT_OK(sab_sizes_new(bytes + 1, 2, dtype, NULL, &sizes));       \
        EXPECT_OK(sab_sizes_get(sizes, 1, &value));                        \
        EXPECT(value == 2);                                                \
        sab_sizes_free(sizes);                                             \
    } while (0)
    TRY_TYPE(int8_t, SAB_INT8);
    TRY_TYPE(int16_t, SAB_INT16);
    TRY_TYPE(int32_t, SAB_INT32);
    TRY_TYPE(int64_t, SAB_INT64);
    TRY_TYPE(uint8_t, SAB_UINT8);
    TRY_TYPE(uint16_t, SAB_UINT16);
    TRY_TYPE(uint32_t, SAB_UINT32);
    TRY_TYPE(uint64_t, SAB_UINT64);
    TRY_TYPE(float, SAB_FLOAT32);
    TRY_TYPE(double, SAB_FLOAT64);
    EXPECT(sab_sizes_count(NULL) == 0);
}

static void Sizes_ThatBreakARule_AreRefused(void) {
    const sab_plan_options options = budget(10);
    const struct {
        double size;
        const char *words;
    } bad[] = {{NAN, "sizes[1] = nan: must be a number"},
               {INFINITY, "sizes[1] = inf: must be finite"},
               {-1, "sizes[1] = -1: must not be negative"},
               {9007199254740994.0, "must be at most 2^53"}};
    sab_sizes *sizes = NULL;
    sab_plan *plan = NULL;
    double value;
    for (size_t i = 0; i < COUNT(bad); ++i) {
        const double numbers[] = {1, bad[i].size};
        EXPECT_OK(sab_sizes_new(numbers, 2, SAB_FLOAT64, NULL, &sizes));
        EXPECT_FAILS(sab_plan_new(sizes, &options, &plan), SAB_E_ARGUMENT, bad[i].words);
        EXPECT(plan == NULL);
        EXPECT_FAILS(sab_sizes_get(sizes, 1, &value), SAB_E_ARGUMENT, bad[i].words);
        sab_sizes_free(sizes);
    }
    const int8_t negative[] = {1, -128};
    EXPECT_OK(sab_sizes_new(negative, 2, SAB_INT8, NULL, &sizes));
    EXPECT_FAILS(sab_plan_new(sizes, &options, &plan), SAB_E_ARGUMENT,
                 "sizes[1] = -128: must not be negative");
    sab_sizes_free(sizes);
    const uint64_t large[] = {1, (UINT64_C(1) << 53) + 1};
    EXPECT_OK(sab_sizes_new(large, 2, SAB_UINT64, NULL, &sizes));
    EXPECT_FAILS(sab_plan_new(sizes, &options, &plan), SAB_E_ARGUMENT,
                 "sizes[1] = 9007199254740993: must be at most 2^53");
    sab_sizes_free(sizes);
    EXPECT_OK(sab_sizes_new(NULL, 0, SAB_INT8, NULL, &sizes));
    EXPECT_FAILS(sab_plan_new(sizes, &options, &plan), SAB_E_ARGUMENT, "sizes.count = 0");
    sab_sizes_free(sizes);
}

static void Sizes_BadArguments_AreNamed(void) {
    const int32_t one = 1;
    double value;
    sab_sizes *sizes = NULL;
    sab_sizes_options options = SAB_SIZES_OPTIONS_INIT;
    EXPECT_FAILS(sab_sizes_new(&one, 1, 0, NULL, &sizes), SAB_E_ARGUMENT, "dtype = 0");
    EXPECT_FAILS(sab_sizes_new(&one, 1, 11, NULL, &sizes), SAB_E_ARGUMENT, "dtype = 11");
    EXPECT_FAILS(sab_sizes_new(NULL, 1, SAB_INT32, NULL, &sizes), SAB_E_ARGUMENT, "data = NULL");
    EXPECT_FAILS(sab_sizes_new(&one, 1, SAB_INT32, NULL, NULL), SAB_E_ARGUMENT, "sizes = NULL");
    EXPECT_FAILS(sab_sizes_new(&one, SIZE_MAX, SAB_INT32, NULL, &sizes), SAB_E_ARGUMENT,
                 "must be at most 4294967295");
    options.columns = 2;
    EXPECT_FAILS(sab_sizes_new(&one, 1, SAB_INT32, &options, &sizes), SAB_E_ARGUMENT,
                 "columns = 2");
    options.columns = 1;
    options.copy = 2;
    EXPECT_FAILS(sab_sizes_new(&one, 1, SAB_INT32, &options, &sizes), SAB_E_ARGUMENT, "copy = 2");
    EXPECT_OK(sab_sizes_new(&one, 1, SAB_INT32, NULL, &sizes));
    EXPECT_FAILS(sab_sizes_get(sizes, 1, &value), SAB_E_ARGUMENT, "index = 1");
    EXPECT_FAILS(sab_sizes_get(sizes, 0, NULL), SAB_E_ARGUMENT, "size = NULL");
    EXPECT_FAILS(sab_sizes_get(NULL, 0, &value), SAB_E_ARGUMENT, "sizes = NULL");
    sab_sizes_free(sizes);
    sab_sizes_free(NULL);
}

static int32_t failing_size(void *ctx, int64_t index, double *size) {
    *size = (double)index;
    return index == *(const int *)ctx ? 77 : 0;
}

static int32_t stop_at_half(void *ctx, uint64_t done, uint64_t total) {
    (void)ctx;
    return done * 2 >= total ? 55 : 0;
}

static void Callbacks_ThatFail_GiveTheirCodeBack(void) {
    sab_sizes *sizes = NULL;
    int fails_at = 3;
    EXPECT_FAILS(sab_sizes_callback_new(5, failing_size, &fails_at, NULL, NULL, &sizes),
                 SAB_E_CALLBACK, "code 77 at index 3");
    EXPECT(sab_last_callback_code() == 77 && sizes == NULL);
    fails_at = -1;
    EXPECT_FAILS(
        sab_sizes_callback_new(1000000, failing_size, &fails_at, stop_at_half, NULL, &sizes),
        SAB_E_CANCELLED, "code 55");
    EXPECT(sab_last_callback_code() == 55);
    EXPECT_FAILS(sab_sizes_callback_new(5, NULL, NULL, NULL, NULL, &sizes), SAB_E_ARGUMENT,
                 "size = NULL");
    EXPECT(sab_last_callback_code() == 0);
    EXPECT_OK(sab_sizes_callback_new(5, failing_size, &fails_at, NULL, NULL, &sizes));
    double value = 0;
    EXPECT_OK(sab_sizes_get(sizes, 4, &value));
    EXPECT(value == 4);
    sab_sizes_free(sizes);
}

/* .npy files */

static void write_file(const char *path, const void *bytes, size_t count) {
    FILE *file = fopen(path, "wb");
    EXPECT(file != NULL && fwrite(bytes, 1, count, file) == count);
    if (file != NULL) fclose(file);
}

static size_t make_npy(unsigned char *out, int version, const char *dictionary, const void *data,
                       size_t bytes) {
    const size_t header = strlen(dictionary);
    memcpy(out, "\x93NUMPY", 6);
    out[6] = (unsigned char)version;
    out[7] = 0;
    out[8] = (unsigned char)(header & 255);
    out[9] = (unsigned char)(header >> 8);
    size_t start = 10;
    if (version > 1) {
        out[10] = out[11] = 0;
        start = 12;
    }
    memcpy(out + start, dictionary, header);
    memcpy(out + start + header, data, bytes);
    return start + header + bytes;
}

static void Npy_GoodFilesAreMapped_BadOnesRefused(void) {
    unsigned char file[512];
    char path[] = "/tmp/sab_test_XXXXXX";
    close(mkstemp(path));
    const int16_t numbers[] = {5, 6, 7};
    sab_sizes *sizes = NULL;
    double value = 0;
    for (int version = 1; version <= 3; ++version) {
        const size_t size =
            make_npy(file, version, "{'descr': '<i2', 'fortran_order': False, 'shape': (3,), }\n",
                     numbers, sizeof numbers);
        write_file(path, file, size);
        EXPECT_OK(sab_sizes_npy_new(path, &sizes));
        EXPECT_OK(sab_sizes_get(sizes, 2, &value));
        EXPECT(sab_sizes_count(sizes) == 3 && value == 7);
        sab_sizes_free(sizes);
        EXPECT_OK(sab_sizes_npy_read(file, size, &sizes));
        for (size_t shorter = 0; shorter < size; ++shorter) {
            sab_sizes *other = NULL;
            write_file(path, file, shorter);
            EXPECT(sab_sizes_npy_new(path, &other) == SAB_E_FORMAT && other == NULL);
            EXPECT(sab_sizes_npy_read(file, shorter, &other) == SAB_E_FORMAT && other == NULL);
        }
        memset(file, 0, sizeof file); /* they were copied */
        EXPECT_OK(sab_sizes_get(sizes, 2, &value));
        EXPECT(sab_sizes_count(sizes) == 3 && value == 7);
        sab_sizes_free(sizes);
    }
    const struct {
        const char *dictionary;
        const char *words;
    } bad[] = {
        {"{'descr': '>i2', 'fortran_order': False, 'shape': (3,), }", "big-endian"},
        {"{'descr': '<i2', 'fortran_order': False, 'shape': (3, 1), }", "one dimension"},
        {"{'descr': '<i2', 'fortran_order': False, 'shape': (), }", "one dimension"},
        {"{'descr': '<f2', 'fortran_order': False, 'shape': (3,), }", "dtype <f2"},
        {"{'descr': [('a', '<i2')], 'fortran_order': False, 'shape': (3,), }",
         "one plain number type"},
        {"{'fortran_order': False, 'shape': (3,), }", "no 'descr'"},
        {"{'descr': '<i2', 'fortran_order': False}", "no 'shape'"},
        {"{'descr': '<i2', 'shape': (99999999999999999999,), }", "one dimension"},
        {"{'descr': '<i2', 'shape': (4,), }", "truncated: 4 sizes are promised, 3 are there"}};
    for (size_t i = 0; i < COUNT(bad); ++i) {
        write_file(path, file, make_npy(file, 1, bad[i].dictionary, numbers, sizeof numbers));
        EXPECT_FAILS(sab_sizes_npy_new(path, &sizes), SAB_E_FORMAT, bad[i].words);
    }
    EXPECT_OK(sab_sizes_npy_read(
        file, make_npy(file, 1, "{'descr': '<i2', 'shape': (0,), }", numbers, 0), &sizes));
    EXPECT(sab_sizes_count(sizes) == 0);
    sab_sizes_free(sizes);
    EXPECT_FAILS(sab_sizes_npy_read("no such thing at all", 20, &sizes), SAB_E_FORMAT,
                 "data: is not a .npy file");
    EXPECT_FAILS(sab_sizes_npy_read(NULL, 20, &sizes), SAB_E_ARGUMENT, "data = NULL");
    write_file(path, "no such thing at all", 20);
    EXPECT_FAILS(sab_sizes_npy_new(path, &sizes), SAB_E_FORMAT, "is not a .npy file");
    unlink(path);
    EXPECT_FAILS(sab_sizes_npy_new(path, &sizes), SAB_E_IO, path);
    EXPECT_FAILS(sab_sizes_npy_new("/tmp", &sizes), SAB_E_IO, "regular file");
    EXPECT_FAILS(sab_sizes_npy_new(NULL, &sizes), SAB_E_ARGUMENT, "path = NULL");
}

/* What was sized up when the sampler was made is too large now. */
static void SizeAwareSampler_WhoseSizesGrew_Fails(void) {
    int32_t numbers[100];
    for (int i = 0; i < 100; ++i) numbers[i] = 10;
    sab_sizes *sizes = NULL;
    sab_sampler *sampler = NULL;
    sab_batch batch = SAB_BATCH_INIT;
    EXPECT_OK(sab_sizes_new(numbers, 100, SAB_INT32, NULL, &sizes));
    EXPECT_OK(sab_size_aware_sampler_new(NULL, 100, sizes, 50, NULL, &sampler));
    for (int i = 0; i < 100; ++i) numbers[i] = 1000;
    EXPECT_FAILS(sab_next_batch(sampler, &batch), SAB_E_ARGUMENT, "sizes: were changed");
    sab_sampler_free(sampler);
    sab_sizes_free(sizes);
}

/* Plans */

static void Plan_BadOptions_AreNamed(void) {
    const double boundaries[] = {1, 5, 5}, not_a_number[] = {1, NAN};
    const uint64_t zero[] = {0}, two[] = {1, 2};
    const double negative[] = {1, -1};
    sab_sizes *sizes = sizes_of(lengths(50), 50);
    sab_plan *plan = NULL;
    sab_plan_options options;
#define REFUSED(words, ...)                                                        \
    do {                                                                           \
        options = budget(300);                                                     \
        __VA_ARGS__;                                                               \
        EXPECT_FAILS(sab_plan_new(sizes, &options, &plan), SAB_E_ARGUMENT, words); \
        EXPECT(plan == NULL);                                                      \
    } while (0)
    REFUSED("a budget or a batch size must be given", options.budget = 0);
    REFUSED("budget = -1", options.budget = -1);
    REFUSED("budget = nan", options.budget = NAN);
    REFUSED("budget = inf", options.budget = INFINITY);
    REFUSED("no sample is left", options.budget = 0.5);
    REFUSED("buckets = 4", options.buckets = 4);
    REFUSED("buckets = -1", options.buckets = -1);
    REFUSED("cost = 5", options.cost = 5);
    REFUSED("cost_term_count = 0", options.cost = SAB_COST_TERMS);
    REFUSED("padding_target = 0", options.padding_target = 0);
    REFUSED("padding_target = 1", options.padding_target = 1);
    REFUSED("padding_target = nan", options.padding_target = NAN);
    REFUSED("boundary_count = 1: must be at least 2", options.buckets = SAB_BUCKETS_BOUNDARIES;
            options.boundaries = boundaries; options.boundary_count = 1);
    REFUSED("boundary_count = 0", options.buckets = SAB_BUCKETS_BOUNDARIES);
    REFUSED("holds 5 twice", options.buckets = SAB_BUCKETS_BOUNDARIES;
            options.boundaries = boundaries; options.boundary_count = 3);
    REFUSED("boundaries[1] = nan", options.buckets = SAB_BUCKETS_BOUNDARIES;
            options.boundaries = not_a_number; options.boundary_count = 2);
    REFUSED("boundaries = NULL", options.buckets = SAB_BUCKETS_BOUNDARIES;
            options.boundary_count = 2);
    REFUSED("boundary_count = 2: goes with", options.boundaries = boundaries;
            options.boundary_count = 2);
    REFUSED("bucket_count = 0", options.buckets = SAB_BUCKETS_OPTIMAL);
    REFUSED("bucket_count = 3: goes with", options.bucket_count = 3);
    REFUSED("bucket_batches = 0", options.buckets = SAB_BUCKETS_RANK);
    REFUSED("bucket_batches = 3: goes with", options.buckets = SAB_BUCKETS_OPTIMAL;
            options.bucket_count = 3; options.bucket_batches = 3);
    REFUSED("batch_sizes[0] = 0", options.batch_sizes = zero; options.batch_size_count = 1);
    REFUSED("batch_size_count = 2", options.batch_sizes = two; options.batch_size_count = 2);
    REFUSED("batch_sizes = NULL", options.batch_size_count = 1);
    REFUSED("batch_size_multiple = 0", options.batch_size_multiple = 0);
    REFUSED("length_multiple = -8", options.length_multiple = -8);
    REFUSED("length_multiple = nan", options.length_multiple = NAN);
    REFUSED("coefficient_count = 0", options.cost = SAB_COST_POLYNOMIAL);
    REFUSED("coefficients[1] = -1", options.cost = SAB_COST_POLYNOMIAL;
            options.coefficients = negative; options.coefficient_count = 2);
    REFUSED("cost_fn = NULL", options.cost = SAB_COST_CALLBACK);
    REFUSED("tail = 4", options.tail = 4);
    REFUSED("oversize = 3", options.oversize = 3);
    REFUSED("alone", options.budget = 20; options.oversize = SAB_OVERSIZE_ERROR);
    REFUSED("max_shapes = 1", options.max_shapes = 1);
    REFUSED("max_shapes = 3: goes with", options.max_shapes = 3; options.buckets = SAB_BUCKETS_RANK;
            options.bucket_batches = 2);
    EXPECT_FAILS(sab_plan_new(NULL, &options, &plan), SAB_E_ARGUMENT, "sizes = NULL");
    EXPECT_FAILS(sab_plan_new(sizes, NULL, &plan), SAB_E_ARGUMENT, "options = NULL");
    EXPECT_FAILS(sab_plan_new(sizes, &options, NULL), SAB_E_ARGUMENT, "plan = NULL");
    sab_sizes_free(sizes);
}

static void Options_OfOtherSizes_AreReadByRule(void) {
    sab_sizes *sizes = sizes_of(lengths(50), 50);
    sab_plan *plan = NULL;
    struct {
        sab_plan_options known;
        char more[24];
    } larger;
    memset(&larger, 0, sizeof larger);
    larger.known = budget(300);
    larger.known.struct_size = sizeof larger;
    EXPECT_OK(sab_plan_new(sizes, &larger.known, &plan));
    sab_plan_free(plan);
    larger.more[23] = 1;
    EXPECT_FAILS(sab_plan_new(sizes, &larger.known, &plan), SAB_E_ARGUMENT,
                 "is set, but this library knows only the first");
    sab_plan_options options = budget(300);
    options.struct_size = sizeof options - 1;
    EXPECT_FAILS(sab_plan_new(sizes, &options, &plan), SAB_E_ARGUMENT, "options.struct_size");
    options.struct_size = 0;
    EXPECT_FAILS(sab_plan_new(sizes, &options, &plan), SAB_E_ARGUMENT, "options.struct_size = 0");

    plan = a_plan();
    sab_plan_info info = SAB_PLAN_INFO_INIT;
    info.struct_size = 4;
    EXPECT_FAILS(sab_plan_get_info(plan, &info), SAB_E_ARGUMENT, "info.struct_size = 4");
    sab_bucket bucket = SAB_BUCKET_INIT;
    bucket.struct_size = 4;
    EXPECT_FAILS(sab_plan_get_bucket(plan, 0, &bucket), SAB_E_ARGUMENT, "bucket.struct_size = 4");
    sab_report report = SAB_REPORT_INIT;
    report.struct_size = 4;
    EXPECT_FAILS(sab_plan_report(plan, NULL, NULL, NULL, &report), SAB_E_ARGUMENT,
                 "report.struct_size = 4");
    sab_sampler *sampler = rank_of(plan, 0, 1);
    struct {
        sab_batch known;
        char more[8];
    } batch = {SAB_BATCH_INIT, "ffffff"};
    batch.known.struct_size = sizeof batch;
    EXPECT_OK(sab_next_batch(sampler, &batch.known));
    EXPECT(batch.known.struct_size == sizeof batch && strcmp(batch.more, "ffffff") == 0);
    batch.known.struct_size = 8;
    EXPECT_FAILS(sab_next_batch(sampler, &batch.known), SAB_E_ARGUMENT, "batch.struct_size = 8");
    sab_sampler_free(sampler);
    sab_plan_free(plan);
    sab_sizes_free(sizes);
}

static void Options_ByMacroAndByFunction_AreTheSame(void) {
/* Static: the padding of an automatic object is indeterminate, and some compilers leave it so. */
#define SAME(type, macro)                                              \
    do {                                                               \
        static const type by_macro = macro;                            \
        static type by_function;                                       \
        type##_init(&by_function, sizeof by_function);                 \
        type##_init(NULL, sizeof(type));                               \
        EXPECT(memcmp(&by_function, &by_macro, sizeof by_macro) == 0); \
    } while (0)
    SAME(sab_sizes_options, SAB_SIZES_OPTIONS_INIT);
    SAME(sab_plan_options, SAB_PLAN_OPTIONS_INIT);
    SAME(sab_sampler_options, SAB_SAMPLER_OPTIONS_INIT);
    SAME(sab_torch_sampler_options, SAB_TORCH_SAMPLER_OPTIONS_INIT);
}

static int32_t failing_cost(void *ctx, uint64_t count, double length, double *cost) {
    *cost = (double)count * length;
    return ctx == NULL ? 31 : 0;
}

static int32_t decreasing_cost(void *ctx, uint64_t count, double length, double *cost) {
    (void)ctx, (void)length;
    *cost = 1000 - (double)count;
    return 0;
}

static int32_t infinite_cost(void *ctx, uint64_t count, double length, double *cost) {
    (void)ctx, (void)length;
    *cost = count > 2 ? INFINITY : 1;
    return 0;
}

static void CostCallback_FailsLiesOrWorks(void) {
    sab_sizes *sizes = sizes_of(lengths(50), 50);
    sab_plan *plan = NULL;
    sab_plan_options options = budget(5000);
    options.cost = SAB_COST_CALLBACK;
    options.cost_fn = failing_cost;
    EXPECT_FAILS(sab_plan_new(sizes, &options, &plan), SAB_E_CALLBACK, "code 31");
    EXPECT(sab_last_callback_code() == 31);
    options.cost_fn = decreasing_cost;
    EXPECT_FAILS(sab_plan_new(sizes, &options, &plan), SAB_E_ARGUMENT, "must not be less than");
    options.cost_fn = infinite_cost;
    EXPECT_FAILS(sab_plan_new(sizes, &options, &plan), SAB_E_ARGUMENT, "must be finite");
    options.cost_fn = failing_cost;
    options.cost_ctx = &options;
    EXPECT_OK(sab_plan_new(sizes, &options, &plan));
    sab_plan_free(plan);
    options.progress = stop_at_half;
    EXPECT_FAILS(sab_plan_new(sizes, &options, &plan), SAB_E_CANCELLED, "code 55");
    sab_sizes_free(sizes);
}

static void Plan_SaysWhatItHolds(void) {
    const int32_t numbers[] = {3, 1, 2, 3, 50};
    const double boundaries[] = {4, 1, 3}; /* sorted for the caller */
    sab_plan_options options = budget(6);
    options.buckets = SAB_BUCKETS_BOUNDARIES;
    options.boundaries = boundaries;
    options.boundary_count = 3;
    sab_plan *plan = plan_with(numbers, 5, &options);
    sab_plan_info info = SAB_PLAN_INFO_INIT;
    EXPECT_OK(sab_plan_get_info(plan, &info));
    EXPECT(info.samples == 5 && info.skipped == 1 && info.buckets == 2 && info.batches == 2 &&
           info.total == 9 && info.lower_bound == 2 && info.budget == 6);
    sab_bucket bucket = SAB_BUCKET_INIT;
    EXPECT_OK(sab_plan_get_bucket(plan, 0, &bucket));
    EXPECT(bucket.lower == 1 && bucket.upper == 3 && bucket.shortest == 1 && bucket.longest == 2 &&
           bucket.samples == 2 && bucket.batch_size == 3 && bucket.batches == 1 &&
           bucket.total == 3 && bucket.cost == 4);
    EXPECT_FAILS(sab_plan_get_bucket(plan, 2, &bucket), SAB_E_ARGUMENT, "index = 2");
    int64_t skipped[2] = {-1, -1};
    size_t count = 0;
    EXPECT_OK(sab_plan_skipped(plan, skipped, 2, &count));
    EXPECT(count == 1 && skipped[0] == 4 && skipped[1] == -1);
    EXPECT_OK(sab_plan_skipped(plan, NULL, 0, &count));
    EXPECT_FAILS(sab_plan_skipped(plan, NULL, 1, &count), SAB_E_ARGUMENT, "indices = NULL");
    EXPECT_FAILS(sab_plan_skipped(plan, skipped, 1, NULL), SAB_E_ARGUMENT, "count = NULL");
    sab_report report = SAB_REPORT_INIT;
    EXPECT_OK(sab_plan_report(plan, NULL, NULL, NULL, &report));
    EXPECT(report.samples == 5 && report.skipped == 1 && report.batches == 2 && report.steps == 2 &&
           report.padded_total == 10 && fabs(report.padding - 0.1) < 1e-12);
    EXPECT(report.shapes == 2 && report.meet_again == 1 && report.partners == 1);
    EXPECT_FAILS(sab_plan_report(plan, NULL, stop_at_half, NULL, &report), SAB_E_CANCELLED,
                 "code 55");
    sab_plan_free(plan);
    sab_plan_free(NULL);
}

static void Tail_EachPolicy_DoesWhatItSays(void) {
    int32_t fives[10];
    for (int i = 0; i < 10; ++i) fives[i] = 5;
    const double boundaries[] = {5, 6};
    for (sab_tail tail = SAB_TAIL_KEEP; tail <= SAB_TAIL_WRAP; ++tail) {
        sab_plan_options options = budget(20); /* batches of 4: 4 + 4 + 2 */
        options.buckets = SAB_BUCKETS_BOUNDARIES;
        options.boundaries = boundaries;
        options.boundary_count = 2;
        options.tail = tail;
        sab_plan *plan = plan_with(fives, 10, &options);
        sab_sampler *sampler = rank_of(plan, 0, 1);
        int seen[10] = {0}, sum = 0;
        const uint64_t steps = walk(sampler, seen);
        for (int i = 0; i < 10; ++i) sum += seen[i];
        EXPECT(steps == (tail == SAB_TAIL_DROP ? 2u : 3u));
        EXPECT(sum == (tail == SAB_TAIL_DROP ? 8 : tail == SAB_TAIL_WRAP ? 12 : 10));
        sab_sampler_free(sampler);
        sab_plan_free(plan);
    }
}

static void TailWrap_InABucketSmallerThanABatch_ShowsEachSampleOnce(void) {
    const int32_t numbers[] = {1, 2, 3};
    const uint64_t huge = UINT64_C(1) << 40;
    const double boundaries[] = {0, 9};
    sab_plan_options options = SAB_PLAN_OPTIONS_INIT;
    options.buckets = SAB_BUCKETS_BOUNDARIES;
    options.boundaries = boundaries;
    options.boundary_count = 2;
    options.batch_sizes = &huge;
    options.batch_size_count = 1;
    options.tail = SAB_TAIL_WRAP;
    sab_plan *plan = plan_with(numbers, 3, &options);
    sab_sampler *sampler = rank_of(plan, 0, 1);
    int seen[3] = {0};
    EXPECT(walk(sampler, seen) == 1 && all_are(seen, 3, 1));
    sab_sampler_free(sampler);
    sab_plan_free(plan);
}

static void MaxShapes_HoldsForEveryNumber(void) {
    for (size_t shapes = 2; shapes <= 8; ++shapes) {
        sab_plan_options options = budget(300);
        options.max_shapes = shapes;
        sab_plan *plan = plan_with(lengths(1000), 1000, &options);
        sab_report report = SAB_REPORT_INIT;
        EXPECT_OK(sab_plan_report(plan, NULL, NULL, NULL, &report));
        EXPECT(report.shapes <= shapes && report.batches > 0);
        sab_plan_free(plan);
    }
}

static void WorstBatches_CostAtLeastAsMuchAsAny(void) {
    sab_plan *plan = a_plan();
    sab_sampler *worst = NULL, *sampler = rank_of(plan, 0, 1);
    EXPECT_OK(sab_plan_worst_batches(plan, 3, &worst));
    uint64_t count = 0;
    EXPECT_OK(sab_sampler_batch_count(worst, &count));
    EXPECT(count == 3);
    sab_batch first = SAB_BATCH_INIT, batch = SAB_BATCH_INIT;
    EXPECT_OK(sab_next_batch(worst, &first));
    while (sab_next_batch(sampler, &batch) == SAB_OK)
        EXPECT(batch.padded_total <= first.padded_total);
    sab_sampler *none = NULL;
    EXPECT_FAILS(sab_plan_worst_batches(plan, 0, &none), SAB_E_ARGUMENT, "count = 0");
    sab_sampler_free(worst);
    sab_sampler_free(sampler);
    sab_plan_free(plan);
}

static void PlanFile_IsReadBack_AndEveryDamageRefused(void) {
    const int32_t numbers[] = {3, 1, 2, 3, 7, 7};
    sab_plan_options options = budget(9);
    sab_plan *plan = plan_with(numbers, 6, &options), *again = NULL;
    sab_plan_info info = SAB_PLAN_INFO_INIT, other = SAB_PLAN_INFO_INIT;
    EXPECT_OK(sab_plan_get_info(plan, &info));
    size_t size = 0;
    EXPECT_OK(sab_plan_write(plan, NULL, 0, &size));
    unsigned char *image = malloc(size), *damaged = malloc(size);
    EXPECT_OK(sab_plan_write(plan, image, size, &size));
    EXPECT_OK(sab_plan_read(image, size, &again));
    EXPECT_OK(sab_plan_get_info(again, &other));
    EXPECT(memcmp(&info, &other, sizeof info) == 0);
    sab_plan_free(again);
    for (size_t shorter = 0; shorter < size; ++shorter)
        EXPECT(sab_plan_read(image, shorter, &again) == SAB_E_FORMAT && again == NULL);
    for (size_t bit = 0; bit < 8 * size; ++bit) {
        memcpy(damaged, image, size);
        damaged[bit / 8] ^= (unsigned char)(1u << bit % 8);
        EXPECT(sab_plan_read(damaged, size, &again) == SAB_E_FORMAT && again == NULL);
    }
    char path[] = "/tmp/sab_test_XXXXXX";
    close(mkstemp(path));
    EXPECT_OK(sab_plan_save(plan, path));
    EXPECT_OK(sab_plan_open(path, &again));
    sab_sampler *sampler = rank_of(again, 0, 1);
    sab_plan_free(again); /* the sampler keeps the map */
    int seen[6] = {0};
    walk(sampler, seen);
    EXPECT(all_are(seen, 6, 1));
    sab_sampler_free(sampler);
    EXPECT(truncate(path, (off_t)size - 1) == 0);
    EXPECT_FAILS(sab_plan_open(path, &again), SAB_E_FORMAT, "has");
    unlink(path);
    EXPECT_FAILS(sab_plan_open(path, &again), SAB_E_IO, path);
    EXPECT_FAILS(sab_plan_save(plan, "/nowhere/at/all"), SAB_E_IO, "/nowhere/at/all");
    EXPECT_FAILS(sab_plan_save(plan, NULL), SAB_E_ARGUMENT, "path = NULL");
    EXPECT_FAILS(sab_plan_open(NULL, &again), SAB_E_ARGUMENT, "path = NULL");
    EXPECT_FAILS(sab_plan_read(NULL, 4, &again), SAB_E_ARGUMENT, "data = NULL");
    EXPECT_FAILS(sab_plan_write(plan, NULL, 9, &size), SAB_E_ARGUMENT, "buffer = NULL");
    EXPECT_FAILS(sab_plan_write(plan, NULL, 0, NULL), SAB_E_ARGUMENT, "size = NULL");
    free(image);
    free(damaged);
    sab_plan_free(plan);
}

/* Ranks, places, states */

static void Ranks_ShareAnEpochInEqualSteps(void) {
    sab_plan *plan = a_plan();
    for (uint64_t world_size = 1; world_size <= 16; ++world_size) {
        int seen[500] = {0};
        uint64_t steps = 0;
        for (uint64_t rank = 0; rank < world_size; ++rank) {
            sab_sampler *sampler = rank_of(plan, rank, world_size);
            uint64_t count = 0;
            EXPECT_OK(sab_sampler_batch_count(sampler, &count));
            const uint64_t walked = walk(sampler, seen);
            EXPECT(walked == count && (rank == 0 || walked == steps));
            steps = walked;
            sab_sampler_free(sampler);
        }
        EXPECT(all_are(seen, 500, 1));
    }
    sab_plan_free(plan);
}

static void StepTotals_AreTheSumOverRanks(void) {
    sab_plan *plan = a_plan();
    sab_sampler *ranks[5];
    for (uint64_t rank = 0; rank < 5; ++rank) ranks[rank] = rank_of(plan, rank, 5);
    uint64_t steps = 0;
    EXPECT_OK(sab_sampler_batch_count(ranks[0], &steps));
    for (uint64_t step = 0; step < steps; ++step) {
        uint64_t samples = 0;
        double total = 0;
        sab_batch batch = SAB_BATCH_INIT;
        for (int rank = 0; rank < 5; ++rank) {
            EXPECT_OK(sab_sampler_at(ranks[rank], step, &batch));
            samples += batch.count;
            total += batch.total;
        }
        EXPECT(batch.step_samples == samples && batch.step_total == total);
    }
    for (int rank = 0; rank < 5; ++rank) sab_sampler_free(ranks[rank]);
    sab_plan_free(plan);
}

static void AtSeekAndBlocks_ShowWhatNextShows(void) {
    sab_plan *plan = a_plan();
    sab_sampler *sampler = rank_of(plan, 1, 3), *other = rank_of(plan, 1, 3);
    uint64_t steps = 0, epoch = 9, place = 9;
    EXPECT_OK(sab_sampler_batch_count(sampler, &steps));
    sab_batch batch = SAB_BATCH_INIT, shown = SAB_BATCH_INIT;
    int64_t block[500];
    uint64_t offsets[8];
    size_t count = 0, in_block = 0;
    for (uint64_t step = 0; step < steps; ++step) {
        EXPECT_OK(sab_next_batch(sampler, &batch));
        EXPECT(batch.step == step && batch.epoch == 0);
        EXPECT_OK(sab_sampler_at(other, step, &shown));
        EXPECT(batch.count == shown.count &&
               memcmp(batch.indices, shown.indices, batch.count * 8) == 0);
        EXPECT_OK(sab_sampler_seek(other, step));
        EXPECT_OK(sab_next_batch(other, &shown));
        EXPECT(batch.count == shown.count &&
               memcmp(batch.indices, shown.indices, batch.count * 8) == 0);
        if (in_block == count) {
            EXPECT_OK(sab_sampler_seek(other, step));
            EXPECT_OK(sab_next_batches(other, 7, block, 500, offsets, &count));
            in_block = 0;
        }
        EXPECT(offsets[in_block + 1] - offsets[in_block] == batch.count);
        EXPECT(memcmp(block + offsets[in_block], batch.indices, batch.count * 8) == 0);
        ++in_block;
    }
    EXPECT_OK(sab_sampler_tell(sampler, &epoch, &place));
    EXPECT(epoch == 0 && place == steps);
    EXPECT_FAILS(sab_sampler_at(sampler, steps, &batch), SAB_E_ARGUMENT, "position");
    EXPECT_FAILS(sab_sampler_seek(sampler, steps + 1), SAB_E_ARGUMENT, "position");
    EXPECT_OK(sab_sampler_seek(sampler, steps));
    EXPECT(sab_next_batch(sampler, &batch) == SAB_END);
    EXPECT(sab_next_batches(sampler, 7, block, 500, offsets, &count) == SAB_END);
    EXPECT_OK(sab_sampler_seek(sampler, 0));
    EXPECT_OK(sab_next_batches(sampler, 7, NULL, 0, offsets, &count));
    EXPECT(count == 0 && offsets[1] > 0);
    EXPECT_FAILS(sab_next_batches(sampler, 0, block, 500, offsets, &count), SAB_E_ARGUMENT,
                 "max_batches = 0");
    EXPECT_FAILS(sab_next_batches(sampler, 1, NULL, 5, offsets, &count), SAB_E_ARGUMENT,
                 "indices = NULL");
    EXPECT_FAILS(sab_next_batches(sampler, 1, block, 5, NULL, &count), SAB_E_ARGUMENT,
                 "offsets = NULL");
    sab_sampler_free(sampler);
    sab_sampler_free(other);
    sab_plan_free(plan);
}

static void Resume_AtEveryStepOnAnyRanks_LosesNothing(void) {
    sab_plan_options options = budget(150);
    sab_plan *plan = plan_with(lengths(120), 120, &options);
    for (uint64_t before = 1; before <= 6; ++before) {
        sab_sampler *counter = rank_of(plan, 0, before);
        uint64_t steps = 0;
        EXPECT_OK(sab_sampler_batch_count(counter, &steps));
        sab_sampler_free(counter);
        for (uint64_t stop = 0; stop <= steps; ++stop)
            for (uint64_t after = 1; after <= 6; ++after) {
                int seen[120] = {0};
                unsigned char state[SAB_STATE_SIZE], same[SAB_STATE_SIZE];
                sab_batch batch = SAB_BATCH_INIT;
                for (uint64_t rank = 0; rank < before; ++rank) {
                    sab_sampler *sampler = rank_of(plan, rank, before);
                    for (uint64_t step = 0; step < stop; ++step) {
                        EXPECT_OK(sab_next_batch(sampler, &batch));
                        for (uint64_t i = 0; i < batch.count; ++i) ++seen[batch.indices[i]];
                    }
                    EXPECT_OK(sab_sampler_state_save(sampler, rank == 0 ? state : same));
                    EXPECT(rank == 0 || memcmp(state, same, sizeof state) == 0);
                    sab_sampler_free(sampler);
                }
                uint64_t walked = 0;
                for (uint64_t rank = 0; rank < after; ++rank) {
                    sab_sampler *sampler = rank_of(plan, rank, after);
                    EXPECT_OK(sab_sampler_state_restore(sampler, state, sizeof state));
                    const uint64_t rest = walk(sampler, seen);
                    EXPECT(rank == 0 || rest == walked);
                    walked = rest;
                    sab_sampler_free(sampler);
                }
                EXPECT(all_are(seen, 120, 1));
            }
    }
    sab_plan_free(plan);
}

static void State_DamagedOrForeign_IsRefused(void) {
    sab_plan *plan = a_plan();
    sab_sampler *sampler = rank_of(plan, 0, 1), *sequential = NULL;
    unsigned char state[SAB_STATE_SIZE], damaged[SAB_STATE_SIZE];
    EXPECT_OK(sab_sampler_state_save(sampler, state));
    for (size_t size = 0; size < sizeof state; ++size)
        EXPECT(sab_sampler_state_restore(sampler, state, size) == SAB_E_FORMAT);
    for (size_t bit = 0; bit < 8 * sizeof state; ++bit) {
        memcpy(damaged, state, sizeof state);
        damaged[bit / 8] ^= (unsigned char)(1u << bit % 8);
        EXPECT(sab_sampler_state_restore(sampler, damaged, sizeof state) == SAB_E_FORMAT);
    }
    EXPECT_OK(sab_sequential_sampler_new(plan, NULL, &sequential));
    EXPECT_FAILS(sab_sampler_state_restore(sequential, state, sizeof state), SAB_E_MISMATCH,
                 "order 1, this sampler has 2");
    sab_sampler_options options = SAB_SAMPLER_OPTIONS_INIT;
    sab_sampler *other = NULL;
    EXPECT_OK(sab_bucket_sampler_new(plan, &options, &other));
    EXPECT_FAILS(sab_sampler_state_restore(other, state, sizeof state), SAB_E_MISMATCH,
                 "seed 7, this sampler has 0");
    sab_sampler_free(other);
    options.seed = 7;
    options.worst_first = 2;
    EXPECT_OK(sab_bucket_sampler_new(plan, &options, &other));
    EXPECT_FAILS(sab_sampler_state_restore(other, state, sizeof state), SAB_E_MISMATCH,
                 "worst_first 0, this sampler has 2");
    sab_sampler_free(other);
    sab_plan_options changed = budget(301);
    sab_plan *foreign = plan_with(lengths(500), 500, &changed);
    other = rank_of(foreign, 0, 1);
    EXPECT_FAILS(sab_sampler_state_restore(other, state, sizeof state), SAB_E_MISMATCH,
                 "fingerprint");
    EXPECT_FAILS(sab_sampler_state_restore(other, NULL, 3), SAB_E_ARGUMENT, "state = NULL");
    EXPECT_FAILS(sab_sampler_state_save(other, NULL), SAB_E_ARGUMENT, "state = NULL");
    sab_sampler_free(other);
    sab_sampler_free(sampler);
    sab_sampler_free(sequential);
    sab_plan_free(foreign);
    sab_plan_free(plan);
}

static void SamplerOptions_BadOnes_AreNamed(void) {
    sab_plan *plan = a_plan();
    sab_sampler *sampler = NULL;
    sab_sampler_options options;
#define SAMPLER_REFUSED(words, ...)                                                                \
    do {                                                                                           \
        options = (sab_sampler_options)SAB_SAMPLER_OPTIONS_INIT;                                   \
        __VA_ARGS__;                                                                               \
        EXPECT_FAILS(sab_bucket_sampler_new(plan, &options, &sampler), SAB_E_ARGUMENT, words);     \
        EXPECT_FAILS(sab_sequential_sampler_new(plan, &options, &sampler), SAB_E_ARGUMENT, words); \
    } while (0)
    SAMPLER_REFUSED("rank = 1", options.rank = 1);
    SAMPLER_REFUSED("world_size = 0", options.world_size = 0);
    SAMPLER_REFUSED("world_size = 4294967296", options.world_size = UINT64_C(1) << 32);
    SAMPLER_REFUSED("last_step = 3", options.last_step = 3);
    SAMPLER_REFUSED("step_totals = 2", options.step_totals = 2);
    SAMPLER_REFUSED("struct_size = 1", options.struct_size = 1);
    EXPECT_FAILS(sab_bucket_sampler_new(NULL, NULL, &sampler), SAB_E_ARGUMENT, "plan = NULL");
    EXPECT_FAILS(sab_bucket_sampler_new(plan, NULL, NULL), SAB_E_ARGUMENT, "sampler = NULL");
    sab_batch batch = SAB_BATCH_INIT;
    uint64_t number;
    size_t count;
    EXPECT_FAILS(sab_next_batch(NULL, &batch), SAB_E_ARGUMENT, "sampler = NULL");
    EXPECT_FAILS(sab_next_batches(NULL, 1, NULL, 0, &number, &count), SAB_E_ARGUMENT,
                 "sampler = NULL");
    EXPECT_FAILS(sab_sampler_at(NULL, 0, &batch), SAB_E_ARGUMENT, "sampler = NULL");
    EXPECT_FAILS(sab_sampler_batch_count(NULL, &number), SAB_E_ARGUMENT, "sampler = NULL");
    EXPECT_FAILS(sab_sampler_skipped_count(NULL, &number), SAB_E_ARGUMENT, "sampler = NULL");
    EXPECT_FAILS(sab_sampler_set_epoch(NULL, 0), SAB_E_ARGUMENT, "sampler = NULL");
    EXPECT_FAILS(sab_sampler_seek(NULL, 0), SAB_E_ARGUMENT, "sampler = NULL");
    EXPECT_FAILS(sab_sampler_tell(NULL, &number, &number), SAB_E_ARGUMENT, "sampler = NULL");
    sab_sampler_free(NULL);
    sampler = rank_of(plan, 0, 1);
    EXPECT_FAILS(sab_next_batch(sampler, NULL), SAB_E_ARGUMENT, "batch = NULL");
    EXPECT_FAILS(sab_sampler_batch_count(sampler, NULL), SAB_E_ARGUMENT, "count = NULL");
    EXPECT_FAILS(sab_sampler_tell(sampler, NULL, &number), SAB_E_ARGUMENT, "epoch = NULL");
    sab_sampler_free(sampler);
    sab_plan_free(plan);
}

/* Streams of indices */

struct source {
    int64_t count;
    int64_t fails_at;
    int released;
};

static int32_t next_index(void *ctx, uint64_t epoch, uint64_t position, int64_t *index,
                          double *size) {
    struct source *source = ctx;
    (void)epoch;
    if ((int64_t)position == source->fails_at) {
        source->fails_at = -1;
        return 77;
    }
    if ((int64_t)position >= source->count) return SAB_END;
    *index = 100 + (int64_t)position;
    *size = 2;
    return 0;
}

static void release_source(void *ctx) {
    ++((struct source *)ctx)->released;
}

static void Stream_FailsAndGoesOn_AndIsReleasedOnce(void) {
    struct source source = {5, 3, 0};
    sab_sampler *sampler = NULL;
    EXPECT_OK(sab_size_aware_stream_sampler_new(next_index, &source, release_source, 10, &sampler));
    sab_batch batch = SAB_BATCH_INIT;
    EXPECT_FAILS(sab_next_batch(sampler, &batch), SAB_E_CALLBACK, "code 77 at position 3");
    EXPECT(sab_last_callback_code() == 77);
    EXPECT_OK(sab_next_batch(sampler, &batch));
    EXPECT(batch.count == 5 && batch.indices[4] == 104 && batch.total == 10);
    EXPECT(sab_next_batch(sampler, &batch) == SAB_END);
    EXPECT_OK(sab_sampler_seek(sampler, 0));
    EXPECT_OK(sab_next_batch(sampler, &batch));
    unsigned char state[SAB_STATE_SIZE];
    uint64_t count;
    EXPECT_FAILS(sab_sampler_seek(sampler, 1), SAB_E_UNSUPPORTED, "random access");
    EXPECT_FAILS(sab_sampler_at(sampler, 0, &batch), SAB_E_UNSUPPORTED, "sab_sampler_at");
    EXPECT_FAILS(sab_sampler_batch_count(sampler, &count), SAB_E_UNSUPPORTED,
                 "sab_sampler_batch_count");
    EXPECT_FAILS(sab_sampler_state_save(sampler, state), SAB_E_UNSUPPORTED,
                 "sab_sampler_state_save");
    EXPECT_FAILS(sab_sampler_state_restore(sampler, state, sizeof state), SAB_E_UNSUPPORTED,
                 "sab_sampler_state_restore");
    EXPECT(source.released == 0);
    sab_sampler_free(sampler);
    EXPECT(source.released == 1);
    EXPECT_FAILS(sab_size_aware_stream_sampler_new(NULL, &source, release_source, 10, &sampler),
                 SAB_E_ARGUMENT, "source = NULL");
    EXPECT_FAILS(
        sab_size_aware_stream_sampler_new(next_index, &source, release_source, INFINITY, &sampler),
        SAB_E_ARGUMENT, "max_total_size = inf");
    EXPECT(source.released == 1);
}

/* Threads, processes, log, locale */

static int cancel_flag;

static int32_t cancelled(void *ctx, uint64_t done, uint64_t total) {
    (void)ctx, (void)done, (void)total;
    return __atomic_load_n(&cancel_flag, __ATOMIC_ACQUIRE);
}

static int32_t slow_size(void *ctx, int64_t index, double *size) {
    (void)ctx;
    *size = (double)(index % 100);
    if (index % 1000 == 0) usleep(100);
    return 0;
}

static void *cancel_soon(void *ctx) {
    usleep(20000);
    __atomic_store_n(&cancel_flag, 66, __ATOMIC_RELEASE);
    return ctx;
}

static void LongBuild_IsCancelledFromAnotherThread(void) {
    pthread_t thread;
    sab_sizes *sizes = NULL;
    pthread_create(&thread, NULL, cancel_soon, NULL);
    EXPECT_FAILS(sab_sizes_callback_new(400000000, slow_size, NULL, cancelled, NULL, &sizes),
                 SAB_E_CANCELLED, "code 66");
    EXPECT(sizes == NULL && sab_last_callback_code() == 66);
    pthread_join(thread, NULL);
    const int32_t numbers[] = {1, 2, 3};
    sizes = sizes_of(numbers, 3);
    sab_plan_options options = budget(4);
    options.progress = cancelled;
    sab_plan *plan = NULL;
    EXPECT_FAILS(sab_plan_new(sizes, &options, &plan), SAB_E_CANCELLED, "code 66");
    sab_sizes_free(sizes);
}

struct walker {
    const sab_plan *plan;
    uint64_t steps;
    int seen[500];
    int message_is_own;
};

static void *walk_in_thread(void *ctx) {
    struct walker *walker = ctx;
    for (int round = 0; round < 20; ++round) {
        sab_sampler *sampler = rank_of(walker->plan, 0, 1);
        memset(walker->seen, 0, sizeof walker->seen);
        walker->steps = walk(sampler, walker->seen);
        sab_sampler_free(sampler);
        sab_sampler_free(NULL);
        walker->message_is_own =
            sab_next_batch(NULL, NULL) == SAB_E_ARGUMENT &&
            strcmp(sab_last_error_message(), "sampler = NULL: must be given") == 0;
    }
    return NULL;
}

static void TwoThreads_OnOnePlan_AreIndependent(void) {
    sab_plan *plan = a_plan();
    struct walker walkers[2] = {{plan, 0, {0}, 0}, {plan, 0, {0}, 0}};
    pthread_t threads[2];
    for (int i = 0; i < 2; ++i) pthread_create(&threads[i], NULL, walk_in_thread, &walkers[i]);
    for (int i = 0; i < 2; ++i) pthread_join(threads[i], NULL);
    EXPECT(walkers[0].steps == walkers[1].steps && all_are(walkers[0].seen, 500, 1) &&
           all_are(walkers[1].seen, 500, 1));
    EXPECT(walkers[0].message_is_own && walkers[1].message_is_own);
    sab_plan_free(plan);
}

#ifndef _WIN32
static void Fork_ChildAndParentGoOn(void) {
    sab_plan *plan = a_plan();
    sab_sampler *sampler = rank_of(plan, 0, 1);
    sab_batch batch = SAB_BATCH_INIT;
    EXPECT_OK(sab_next_batch(sampler, &batch));
    int seen[500] = {0};
    for (uint64_t i = 0; i < batch.count; ++i) ++seen[batch.indices[i]];
    const pid_t child = fork();
    if (child == 0) {
        walk(sampler, seen);
        sab_sampler_free(sampler);
        sab_plan *fresh = a_plan();
        sab_plan_free(fresh);
        sab_plan_free(plan);
        _exit(all_are(seen, 500, 1) ? 0 : 1);
    }
    int status = -1;
    EXPECT(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    walk(sampler, seen);
    EXPECT(all_are(seen, 500, 1));
    sab_sampler_free(sampler);
    sab_plan_free(plan);
}
#endif

static char logged[256];
static int log_lines;

static void keep_log(void *ctx, sab_log_level level, const char *message) {
    EXPECT(ctx == logged && level == SAB_LOG_WARNING);
    snprintf(logged, sizeof logged, "%s", message);
    ++log_lines;
}

static void Log_SaysOnceWhatIsSkipped(void) {
    sab_plan_options options = budget(40);
    sab_set_log_callback(keep_log, logged);
    sab_plan *plan = plan_with(lengths(500), 500, &options);
    sab_set_log_callback(NULL, NULL);
    EXPECT(log_lines == 1 && strstr(logged, "skipped") != NULL &&
           strstr(logged, "of 500 samples") != NULL);
    sab_plan_free(plan);
    plan = plan_with(lengths(500), 500, &options);
    EXPECT(log_lines == 1);
    sab_plan_free(plan);
}

static void Messages_DoNotDependOnTheLocale(void) {
    if (setlocale(LC_ALL, "de_DE.UTF-8") == NULL) setlocale(LC_ALL, "");
    sab_plan_options options = budget(-1.5);
    sab_sizes *sizes = sizes_of(lengths(5), 5);
    sab_plan *plan = NULL;
    EXPECT_FAILS(sab_plan_new(sizes, &options, &plan), SAB_E_ARGUMENT, "options.budget = -1.5");
    sab_sizes_free(sizes);
    setlocale(LC_ALL, "C");
}

int main(void) {
    EXPECT(strcmp(sab_last_error_message(), "") == 0);
    RUN(Library_SaysItsVersion);
    RUN(SizesPlanSampler_GiveEverySampleOnce);
    RUN(NextBatch_AfterEnd_ReturnsEndAgain);
    RUN(CreateBuckets_GivesTheDocumentedResults);
    RUN(TorchOrder_GivesTheDocumentedBatches);
    RUN(TorchOrder_GeneratorGoesOnElsewhere);
    RUN(SizeAware_FollowsTheDocumentedRule);
    RUN(Sizes_OfEveryTypeAndStride_AreRead);
    RUN(Sizes_ThatBreakARule_AreRefused);
    RUN(Sizes_BadArguments_AreNamed);
    RUN(Callbacks_ThatFail_GiveTheirCodeBack);
    RUN(Npy_GoodFilesAreMapped_BadOnesRefused);
    RUN(SizeAwareSampler_WhoseSizesGrew_Fails);
    RUN(Plan_BadOptions_AreNamed);
    RUN(Options_OfOtherSizes_AreReadByRule);
    RUN(Options_ByMacroAndByFunction_AreTheSame);
    RUN(CostCallback_FailsLiesOrWorks);
    RUN(Plan_SaysWhatItHolds);
    RUN(Tail_EachPolicy_DoesWhatItSays);
    RUN(TailWrap_InABucketSmallerThanABatch_ShowsEachSampleOnce);
    RUN(MaxShapes_HoldsForEveryNumber);
    RUN(WorstBatches_CostAtLeastAsMuchAsAny);
    RUN(PlanFile_IsReadBack_AndEveryDamageRefused);
    RUN(Ranks_ShareAnEpochInEqualSteps);
    RUN(StepTotals_AreTheSumOverRanks);
    RUN(AtSeekAndBlocks_ShowWhatNextShows);
    RUN(Resume_AtEveryStepOnAnyRanks_LosesNothing);
    RUN(State_DamagedOrForeign_IsRefused);
    RUN(SamplerOptions_BadOnes_AreNamed);
    RUN(Stream_FailsAndGoesOn_AndIsReleasedOnce);
    RUN(LongBuild_IsCancelledFromAnotherThread);
    RUN(TwoThreads_OnOnePlan_AreIndependent);
#ifndef _WIN32
    RUN(Fork_ChildAndParentGoOn);
#endif
    RUN(Log_SaysOnceWhatIsSkipped);
    RUN(Messages_DoNotDependOnTheLocale);
    return finish();
}
