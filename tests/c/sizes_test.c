/* Sizes in memory and by callback. */
#define _GNU_SOURCE
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "helpers.h"

static void Sizes_OfEveryTypeAndStride_AreRead(void) {
    double value = 0;
    sab_sizes *sizes = NULL;
#define TRY_TYPE(type, dtype)                                              \
    do {                                                                   \
        type numbers[6] = {1, 2, 3, 4, 5, 6};                              \
        sab_sizes_options strided = SAB_SIZES_OPTIONS_INIT;                \
        strided.stride = -2 * (int64_t)sizeof(type);                       \
        EXPECT_OK(sab_sizes_new(numbers + 5, 3, dtype, &strided, &sizes)); \
        EXPECT_OK(sab_sizes_get(sizes, 2, 1, &value));                     \
        EXPECT(value == 2 && sab_sizes_count(sizes) == 3);                 \
        sab_sizes_free(sizes);                                             \
        strided.stride = 0;                                                \
        strided.copy = 1;                                                  \
        EXPECT_OK(sab_sizes_new(numbers, 6, dtype, &strided, &sizes));     \
        numbers[3] = 9;                                                    \
        EXPECT_OK(sab_sizes_get(sizes, 3, 1, &value));                     \
        EXPECT(value == 4);                                                \
        sab_sizes_free(sizes);                                             \
        unsigned char bytes[1 + 2 * sizeof(type)];                         \
        memcpy(bytes + 1, numbers, 2 * sizeof(type)); /* not aligned */    \
        EXPECT_OK(sab_sizes_new(bytes + 1, 2, dtype, NULL, &sizes));       \
        EXPECT_OK(sab_sizes_get(sizes, 1, 1, &value));                     \
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
        EXPECT_FAILS(sab_sizes_get(sizes, 1, 1, &value), SAB_E_ARGUMENT, bad[i].words);
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
    options.copy = 2;
    EXPECT_FAILS(sab_sizes_new(&one, 1, SAB_INT32, &options, &sizes), SAB_E_ARGUMENT, "copy = 2");
    EXPECT_OK(sab_sizes_new(&one, 1, SAB_INT32, NULL, &sizes));
    EXPECT_FAILS(sab_sizes_get(sizes, 1, 1, &value), SAB_E_ARGUMENT, "first = 1");
    EXPECT_FAILS(sab_sizes_get(sizes, 0, 1, NULL), SAB_E_ARGUMENT, "values = NULL");
    EXPECT_FAILS(sab_sizes_get(NULL, 0, 1, &value), SAB_E_ARGUMENT, "sizes = NULL");
    sab_sizes_free(sizes);
    sab_sizes_free(NULL);
}

/* Sizes that somebody changes while a plan is made of them. */
enum { changing_count = 200000 };
struct changing {
    uint16_t sizes[changing_count];
    uint64_t at; /* done, of three passes */
    int how;
};

static int32_t change(void *ctx, uint64_t done, uint64_t total) {
    struct changing *changing = ctx;
    if (done * 3 < changing->at * total || changing->at == 0) return 0;
    changing->at = 0;
    for (size_t i = 0; i < changing_count; ++i) {
        if (changing->how == 0) changing->sizes[i] = 0;          /* below the least */
        if (changing->how == 1) changing->sizes[i] = UINT16_MAX; /* above the largest */
        if (changing->how == 2) changing->sizes[i] = 30;         /* one size has too many */
        /* as many, of which some have no place */
        if (changing->how == 3) changing->sizes[i] = i % 2 == 0 ? 29 : 31;
    }
    return 0;
}

static void Sizes_ChangedWhileAPlanReadsThem_AreRefused(void) {
    struct changing *changing = malloc(sizeof *changing);
    for (uint64_t at = 1; at <= 2; ++at)
        for (changing->how = 0; changing->how < 4; ++changing->how) {
            for (size_t i = 0; i < changing_count; ++i)
                changing->sizes[i] = (uint16_t)(10 + i % 40);
            changing->at = at;
            sab_plan_options options = budget(1000);
            options.progress = change;
            options.progress_ctx = changing;
            sab_sizes *sizes = NULL;
            sab_plan *plan = NULL;
            EXPECT_OK(sab_sizes_new(changing->sizes, changing_count, SAB_UINT16, NULL, &sizes));
            const sab_status status = sab_plan_new(sizes, &options, &plan);
            EXPECT(changing->at == 0);           /* it was changed */
            if (at == 1 && changing->how >= 2) { /* before they were counted: another plan */
                int seen[changing_count] = {0};
                EXPECT_OK(status);
                sab_sampler *sampler = rank_of(plan, 0, 1);
                walk(sampler, seen);
                EXPECT(all_are(seen, changing_count, 1));
                sab_sampler_free(sampler);
            } else {
                EXPECT(status == SAB_E_ARGUMENT &&
                       strstr(sab_last_error_message(), "changed while") != NULL);
            }
            sab_plan_free(plan);
            sab_sizes_free(sizes);
        }
    free(changing);
}

#define EXPECT_ENDS(type, dtype, largest, bad, words)                                            \
    do {                                                                                         \
        const type numbers[] = {1, largest, bad};                                                \
        sab_sizes *sizes = NULL;                                                                 \
        double value = 0;                                                                        \
        EXPECT_OK(sab_sizes_new(numbers, 3, dtype, NULL, &sizes));                               \
        EXPECT_OK(sab_sizes_get(sizes, 1, 1, &value));                                           \
        EXPECT(value == (double)(largest));                                                      \
        EXPECT_FAILS(sab_sizes_get(sizes, 2, 1, &value), SAB_E_ARGUMENT, "sizes[2] = " words);   \
        sab_plan *plan = NULL;                                                                   \
        sab_sampler *sampler = NULL;                                                             \
        const sab_plan_options options = budget(1e20);                                           \
        EXPECT_FAILS(sab_plan_new(sizes, &options, &plan), SAB_E_ARGUMENT, "sizes[2] = " words); \
        EXPECT_FAILS(sab_ordered_sampler_new(NULL, 3, sizes, 1e20, NULL, &sampler),              \
                     SAB_E_ARGUMENT, "sizes[2] = " words);                                       \
        size_t count = 0;                                                                        \
        if ((dtype) <= SAB_UINT64)                                                               \
            EXPECT_FAILS(sab_bionemo_create_buckets(sizes, 5, 5, NULL, NULL, 0, &count),         \
                         SAB_E_ARGUMENT, "sizes[2] = " words);                                   \
        sab_sizes_free(sizes);                                                                   \
        EXPECT_OK(sab_sizes_new(numbers, 2, dtype, NULL, &sizes));                               \
        EXPECT_OK(sab_plan_new(sizes, &options, &plan));                                         \
        sab_plan_free(plan);                                                                     \
        sab_sizes_free(sizes);                                                                   \
    } while (0)

static void Sizes_AtTheEndsOfEachType_FollowTheRules(void) {
    const int64_t most = INT64_C(9007199254740992); /* 2^53 */
    EXPECT_ENDS(int8_t, SAB_INT8, INT8_MAX, INT8_MIN, "-128: must not be negative");
    EXPECT_ENDS(int16_t, SAB_INT16, INT16_MAX, INT16_MIN, "-32768: must not be negative");
    EXPECT_ENDS(int32_t, SAB_INT32, INT32_MAX, INT32_MIN, "-2147483648: must not be negative");
    EXPECT_ENDS(int64_t, SAB_INT64, most, INT64_MIN, "-9223372036854775808: must not be negative");
    EXPECT_ENDS(int64_t, SAB_INT64, most, most + 1, "9007199254740993: must be at most 2^53");
    EXPECT_ENDS(uint64_t, SAB_UINT64, (uint64_t)most, UINT64_MAX,
                "18446744073709551615: must be at most 2^53");
    EXPECT_ENDS(float, SAB_FLOAT32, 9007199254740992.0f, NAN, "nan: must be a number");
    EXPECT_ENDS(float, SAB_FLOAT32, FLT_MIN, INFINITY, "inf: must be finite");
    EXPECT_ENDS(float, SAB_FLOAT32, 0.0f, -FLT_MIN, "-1.1754944e-38: must not be negative");
    EXPECT_ENDS(double, SAB_FLOAT64, 9007199254740992.0, 9007199254740994.0,
                "9007199254740994: must be at most 2^53");
    EXPECT_ENDS(double, SAB_FLOAT64, 0.25, -INFINITY, "-inf: must be finite");
    double value = 1;
    sab_sizes *sizes = NULL;
    const double minus_zero = -0.0;
    EXPECT_OK(sab_sizes_new(&minus_zero, 1, SAB_FLOAT64, NULL, &sizes));
    EXPECT_OK(sab_sizes_get(sizes, 0, 1, &value)); /* a zero like any other */
    EXPECT(value == 0 && !signbit(value));
    sab_sizes_free(sizes);
    const uint8_t full[] = {255};
    const uint16_t full16[] = {65535};
    const uint32_t full32[] = {4294967295u};
    const struct {
        const void *data;
        sab_dtype dtype;
        double value;
    } unsigned_types[] = {
        {full, SAB_UINT8, 255}, {full16, SAB_UINT16, 65535}, {full32, SAB_UINT32, 4294967295.0}};
    for (size_t i = 0; i < COUNT(unsigned_types); ++i) {
        EXPECT_OK(sab_sizes_new(unsigned_types[i].data, 1, unsigned_types[i].dtype, NULL, &sizes));
        EXPECT_OK(sab_sizes_get(sizes, 0, 1, &value));
        EXPECT(value == unsigned_types[i].value);
        sab_sizes_free(sizes);
    }
}

static void Sizes_AsAFieldOfRecords_AreReadInPlace(void) {
    struct __attribute__((packed)) record {
        char name[3];
        float seconds; /* not aligned */
        int16_t speaker;
    } records[5];
    memset(records, 0x7F, sizeof records);
    for (int i = 0; i < 5; ++i) {
        const float seconds = 0.5f * (float)(i + 1);
        memcpy((char *)&records[i] + 3, &seconds, sizeof seconds);
    }
    sab_sizes_options options = SAB_SIZES_OPTIONS_INIT;
    options.stride = sizeof *records;
    sab_sizes *sizes = NULL;
    EXPECT_OK(sab_sizes_new((char *)records + 3, 5, SAB_FLOAT32, &options, &sizes));
    double value = 0;
    for (size_t i = 0; i < 5; ++i) {
        EXPECT_OK(sab_sizes_get(sizes, i, 1, &value));
        EXPECT(value == 0.5 * (double)(i + 1));
    }
    const sab_plan_options by_seconds = budget(3);
    sab_plan *plan = NULL;
    EXPECT_OK(sab_plan_new(sizes, &by_seconds, &plan));
    sab_sizes_free(sizes);
    memset(records, 0, sizeof records); /* the plan has what it needs */
    sab_sampler *sampler = rank_of(plan, 0, 1);
    sab_batch batch = SAB_BATCH_INIT;
    double total = 0;
    while (sab_next_batch(sampler, &batch) == SAB_OK) {
        EXPECT(padded_total(&batch) <= 3);
        total += *batch.total;
    }
    EXPECT(total == 7.5);
    sab_sampler_free(sampler);
    sab_plan_free(plan);
}

static void SizeCallback_ThatBreaksARule_IsNamed(void) {
    sab_sizes *sizes = NULL;
    int32_t codes[] = {77, -1, 1, INT32_MIN};
    for (size_t i = 0; i < COUNT(codes); ++i) {
        EXPECT(sab_sizes_callback_new(5, failing_size, &codes[i], NULL, &sizes) == SAB_E_CALLBACK);
        EXPECT(sab_last_error_code() == codes[i]);
    }
    EXPECT_FAILS(sab_sizes_callback_new((size_t)1 << 40, any_size, NULL, NULL, &sizes),
                 SAB_E_ARGUMENT, "must be at most 4294967295");
    EXPECT_OK(sab_sizes_callback_new(0, any_size, NULL, NULL, &sizes));
    EXPECT(sab_sizes_count(sizes) == 0);
    sab_sizes_free(sizes);
}

/* Sizes of 1, 2, ... `count` in memory of their own, as float64 of twice the stride. */
static sab_sizes *copied_from(double first, size_t count) {
    double numbers[64] = {0};
    for (size_t i = 0; i < count; ++i) numbers[2 * i] = first + (double)i;
    sab_sizes_options options = SAB_SIZES_OPTIONS_INIT;
    options.stride = 2 * sizeof(double);
    options.copy = 1;
    sab_sizes *sizes = NULL;
    EXPECT_OK(sab_sizes_new(numbers, count, SAB_FLOAT64, &options, &sizes));
    return sizes;
}

static void Sizes_Joined_AreThoseOfTheirPartsInOrder(void) {
    const int16_t every_second[] = {4, -1, 5, -1};
    const uint64_t large[] = {UINT64_C(1) << 40};
    sab_sizes_options strided = SAB_SIZES_OPTIONS_INIT;
    strided.stride = 2 * sizeof(int16_t);
    sab_sizes *parts[4] = {copied_from(1, 3), NULL, NULL, copied_from(6, 0)};
    sab_sizes *inner = NULL, *sizes = NULL;
    EXPECT_OK(sab_sizes_new(every_second, 2, SAB_INT16, &strided, &parts[1]));
    EXPECT_OK(sab_sizes_new(large, 1, SAB_UINT64, NULL, &parts[2]));
    EXPECT_OK(sab_sizes_join_new((const sab_sizes *const *)parts, 4, &inner));
    sab_sizes *const outer[] = {parts[3], inner, parts[2]};
    EXPECT_OK(sab_sizes_join_new((const sab_sizes *const *)outer, 3, &sizes));
    for (size_t i = 0; i < COUNT(parts); ++i) sab_sizes_free(parts[i]);
    EXPECT(sab_sizes_count(sizes) == 7);
    const double expected[] = {1, 2, 3, 4, 5, 1099511627776.0, 1099511627776.0};
    for (size_t i = 0; i < COUNT(expected); ++i) {
        double value = 0;
        EXPECT_OK(sab_sizes_get(sizes, i, 1, &value));
        EXPECT(value == expected[i]);
    }
    const struct {
        const sab_sizes *sizes;
        size_t index, part, row;
    } sources[] = {{inner, 0, 0, 0}, {inner, 2, 0, 2}, {inner, 3, 1, 0}, {inner, 5, 2, 0},
                   {sizes, 0, 1, 0}, {sizes, 5, 1, 5}, {sizes, 6, 2, 0}};
    for (size_t i = 0; i < COUNT(sources); ++i) {
        size_t part = 9, row = 9;
        EXPECT_OK(sab_sizes_locate(sources[i].sizes, sources[i].index, &part, &row));
        EXPECT(part == sources[i].part && row == sources[i].row);
    }
    sab_sizes_free(inner);
    sab_sizes_free(sizes);
}

/* All ranges of sizes of five chunks, some of which are empty. */
static void Values_OfEveryRange_AreTheSizesOneByOne(void) {
    enum { count = 11 };
    static const int8_t bytes[] = {1, 2, 3, 4, 5};
    static const uint64_t large[] = {UINT64_C(1) << 40, 7};
    sab_sizes *parts[] = {copied_from(0.5, 3), NULL, copied_from(6, 0), NULL, copied_from(9, 1)};
    sab_sizes *sizes = NULL;
    EXPECT_OK(sab_sizes_new(bytes, 5, SAB_INT8, NULL, &parts[1]));
    EXPECT_OK(sab_sizes_new(large, 2, SAB_UINT64, NULL, &parts[3]));
    EXPECT_OK(sab_sizes_join_new((const sab_sizes *const *)parts, COUNT(parts), &sizes));
    for (size_t i = 0; i < COUNT(parts); ++i) sab_sizes_free(parts[i]);
    double expected[count];
    for (size_t i = 0; i < count; ++i) EXPECT_OK(sab_sizes_get(sizes, i, 1, &expected[i]));
    for (size_t first = 0; first <= count; ++first)
        for (size_t some = 0; first + some <= count; ++some) {
            double values[count + 1];
            for (size_t i = 0; i <= count; ++i) values[i] = -7;
            EXPECT_OK(sab_sizes_get(sizes, first, some, some > 0 ? values : NULL));
            EXPECT(memcmp(values, expected + first, some * sizeof *values) == 0);
            EXPECT(values[some] == -7);
        }
    sab_sizes_free(sizes);
}

static void Values_OfABrokenSize_NameItAndWriteNothing(void) {
    const double numbers[] = {3, NAN, 5};
    sab_sizes *parts[] = {copied_from(1, 2), NULL}, *sizes = NULL;
    EXPECT_OK(sab_sizes_new(numbers, 3, SAB_FLOAT64, NULL, &parts[1]));
    EXPECT_OK(sab_sizes_join_new((const sab_sizes *const *)parts, 2, &sizes));
    double values[5] = {-7, -7, -7, -7, -7};
    EXPECT_FAILS(sab_sizes_get(sizes, 0, 5, values), SAB_E_ARGUMENT,
                 "sizes[3] = nan: must be a number");
    for (size_t i = 0; i < COUNT(values); ++i) EXPECT(values[i] == -7);
    EXPECT_OK(sab_sizes_get(sizes, 0, 3, values));
    EXPECT(values[0] == 1 && values[1] == 2 && values[2] == 3 && values[3] == -7);
    EXPECT_OK(sab_sizes_get(sizes, 4, 1, values));
    EXPECT(values[0] == 5);
    sab_sizes_free(sizes);
    for (size_t i = 0; i < COUNT(parts); ++i) sab_sizes_free(parts[i]);
}

static void Values_OutOfRange_AreRefused(void) {
    const int32_t numbers[] = {1, 2, 3};
    sab_sizes *sizes = sizes_of(numbers, 3), *none = sizes_of(numbers, 0);
    double values[4] = {-7};
    EXPECT_FAILS(sab_sizes_get(sizes, 4, 0, values), SAB_E_ARGUMENT,
                 "first = 4: must be at most the count, 3");
    EXPECT_FAILS(sab_sizes_get(sizes, 0, 4, values), SAB_E_ARGUMENT,
                 "count = 4: must be at most the samples from first on, 3");
    EXPECT_FAILS(sab_sizes_get(sizes, 3, 1, values), SAB_E_ARGUMENT,
                 "first = 3: must be below the count, 3");
    EXPECT_FAILS(sab_sizes_get(sizes, 1, SIZE_MAX, values), SAB_E_ARGUMENT,
                 "must be at most the samples from first on, 2");
    EXPECT_FAILS(sab_sizes_get(sizes, SIZE_MAX, 2, values), SAB_E_ARGUMENT,
                 "must be below the count, 3");
    EXPECT_FAILS(sab_sizes_get(none, 0, 1, values), SAB_E_ARGUMENT, "first = 0");
    EXPECT_OK(sab_sizes_get(none, 0, 0, NULL));
    EXPECT_OK(sab_sizes_get(sizes, 3, 0, NULL));
    EXPECT(values[0] == -7);
    sab_sizes_free(sizes);
    sab_sizes_free(none);
}

/* The first batch of a sampler over the parts. */
static void expect_plan(sab_sizes *const *parts, size_t count, double longest, double total) {
    sab_sizes *sizes = NULL;
    EXPECT_OK(sab_sizes_join_new((const sab_sizes *const *)parts, count, &sizes));
    const sab_plan_options options = budget(1e18);
    sab_plan *plan = NULL;
    EXPECT_OK(sab_plan_new(sizes, &options, &plan));
    sab_sizes_free(sizes);
    sab_sampler *sampler = rank_of(plan, 0, 1);
    sab_batch batch = SAB_BATCH_INIT;
    double most = 0, sum = 0;
    while (sab_next_batch(sampler, &batch) == SAB_OK) {
        most = *batch.longest > most ? *batch.longest : most;
        sum += *batch.total;
    }
    EXPECT(most == longest && sum == total);
    sab_sampler_free(sampler);
    sab_plan_free(plan);
}

static void Plan_OfJoinedSizes_HasTheirValues(void) {
    const uint8_t bytes[] = {200, 100};
    const int64_t large[] = {INT64_C(1) << 40, 3};
    const double fractions[] = {0.25, 5.5};
    sab_sizes *parts[4] = {NULL};
    EXPECT_OK(sab_sizes_new(bytes, 2, SAB_UINT8, NULL, &parts[0]));
    EXPECT_OK(sab_sizes_new(large, 2, SAB_INT64, NULL, &parts[1]));
    EXPECT_OK(sab_sizes_new(fractions, 2, SAB_FLOAT64, NULL, &parts[2]));
    EXPECT_OK(sab_sizes_new(bytes, 2, SAB_UINT8, NULL, &parts[3]));
    expect_plan(parts, 1, 200, 300);
    expect_plan(parts, 2, 1099511627776.0, 1099511628079.0);
    expect_plan(parts, 4, 1099511627776.0, 1099511628384.75);
    expect_plan(parts + 2, 2, 200, 305.75);
    for (size_t i = 0; i < COUNT(parts); ++i) sab_sizes_free(parts[i]);
}

static void Sizes_JoinedOfManyBlocks_AreReadInFull(void) {
    enum { count = 5000 };
    static int32_t numbers[count];
    uint64_t expected = 0;
    for (int32_t i = 0; i < count; ++i) expected += (uint64_t)(numbers[i] = i);
    sab_sizes *part = sizes_of(numbers, count), *twice[] = {part, part};
    expect_plan(twice, 2, count - 1, 2 * (double)expected);
    sab_sizes *sizes = NULL;
    EXPECT_OK(sab_sizes_join_new((const sab_sizes *const *)twice, 2, &sizes));
    static double values[2 * count];
    EXPECT_OK(sab_sizes_get(sizes, 1, 2 * count - 1, values));
    for (size_t i = 1; i < 2 * count; ++i) EXPECT(values[i - 1] == (double)(i % count));
    sab_sizes_free(sizes);
    sab_sizes_free(part);
}

static void Sizes_JoinedThatBreakARule_AreNamedByTheirIndex(void) {
    const sab_plan_options options = budget(10);
    const double bad[] = {2, 3, -0.5};
    sab_sizes *parts[2] = {copied_from(1, 2), NULL}, *sizes = NULL;
    sab_plan *plan = NULL;
    double value = 0;
    EXPECT_OK(sab_sizes_new(bad, 3, SAB_FLOAT64, NULL, &parts[1]));
    EXPECT_OK(sab_sizes_join_new((const sab_sizes *const *)parts, 2, &sizes));
    EXPECT_FAILS(sab_plan_new(sizes, &options, &plan), SAB_E_ARGUMENT,
                 "sizes[4] = -0.5: must not be negative");
    EXPECT_FAILS(sab_sizes_get(sizes, 4, 1, &value), SAB_E_ARGUMENT, "sizes[4] = -0.5");
    sab_bagua_options complexity = SAB_BAGUA_OPTIONS_INIT;
    sab_sampler *sampler = NULL;
    EXPECT_FAILS(sab_bagua_sampler_new(sizes, &complexity, NULL, &sampler), SAB_E_ARGUMENT,
                 "complexity[4] = -0.5: must not be negative");
    sab_sizes_free(sizes);
    sab_sizes_free(parts[0]);
    sab_sizes_free(parts[1]);
}

static void Join_BadArguments_AreNamed(void) {
    const int32_t one = 1;
    sab_sizes *sizes = NULL;
    sab_sizes *const parts[] = {sizes_of(&one, 1), NULL};
    EXPECT_FAILS(sab_sizes_join_new((const sab_sizes *const *)parts, 2, &sizes), SAB_E_ARGUMENT,
                 "parts[1] = NULL");
    EXPECT_FAILS(sab_sizes_join_new(NULL, 1, &sizes), SAB_E_ARGUMENT, "parts = NULL");
    sab_sizes *large[2] = {NULL};
    EXPECT_OK(sab_sizes_new(&one, 4000000000u, SAB_INT32, NULL, &large[0]));
    large[1] = large[0];
    EXPECT_FAILS(sab_sizes_join_new((const sab_sizes *const *)large, 2, &sizes), SAB_E_ARGUMENT,
                 "the count of parts 0 to 1 = 8000000000: must be at most 4294967295");
    EXPECT_OK(sab_sizes_join_new(NULL, 0, &sizes));
    EXPECT(sab_sizes_count(sizes) == 0);
    size_t part = 5, row = 5;
    EXPECT_FAILS(sab_sizes_locate(sizes, 0, &part, &row), SAB_E_ARGUMENT, "index = 0");
    EXPECT_FAILS(sab_sizes_locate(NULL, 0, &part, &row), SAB_E_ARGUMENT, "sizes = NULL");
    EXPECT_FAILS(sab_sizes_locate(parts[0], 0, NULL, &row), SAB_E_ARGUMENT, "part = NULL");
    EXPECT_FAILS(sab_sizes_locate(parts[0], 0, &part, NULL), SAB_E_ARGUMENT, "row = NULL");
    EXPECT(part == 5 && row == 5);
    EXPECT_OK(sab_sizes_locate(parts[0], 0, &part, &row));
    EXPECT(part == 0 && row == 0);
    sab_sizes_free(sizes);
    sab_sizes_free(large[0]);
    sab_sizes_free(parts[0]);
}

static void Sizes_Descriptions_SayWhatWasRead(void) {
    const int32_t one = 1;
    sab_sizes *parts[2] = {NULL}, *joined = NULL;
    EXPECT_OK(sab_sizes_new(&one, 1234567, SAB_INT32, NULL, &parts[0]));
    EXPECT_OK(sab_sizes_callback_new(1, any_size, NULL, NULL, &parts[1]));
    EXPECT(strcmp(info_of_sizes(parts[0]).description, "array of int32: 1,234,567 sizes") == 0);
    EXPECT(strcmp(info_of_sizes(parts[1]).description, "callback: 1 size") == 0);
    EXPECT_OK(sab_sizes_join_new((const sab_sizes *const *)parts, 2, &joined));
    EXPECT(strcmp(info_of_sizes(joined).description, "2 parts: 1,234,568 sizes") == 0);
    sab_sizes_info info = SAB_SIZES_INFO_INIT;
    EXPECT_FAILS(sab_sizes_get_info(NULL, &info), SAB_E_ARGUMENT, "sizes = NULL");
    sab_sizes_free(parts[0]);
    sab_sizes_free(parts[1]);
    sab_sizes_free(joined);
}

static sab_sizes *named(const sab_sizes *sizes, const char *name) {
    sab_sizes *made = NULL;
    EXPECT_OK(named_sizes(sizes, name, &made));
    return made;
}

static void Sizes_OfSeveralColumns_GiveOneNumberEach(void) {
    const int32_t source[] = {3, 1, 2};
    const double target[] = {0.5, 0, 7};
    sab_sizes *parts[] = {NULL, NULL}, *columns = NULL, *twice = NULL;
    EXPECT_OK(sab_sizes_new(source, 3, SAB_INT32, NULL, &parts[0]));
    EXPECT_OK(sab_sizes_new(target, 3, SAB_FLOAT64, NULL, &parts[1]));
    EXPECT_OK(sab_sizes_columns_new((const sab_sizes *const *)parts, NULL, 2, &columns));
    EXPECT(info_of_sizes(columns).columns == 2 && sab_sizes_count(columns) == 3);
    EXPECT(info_of_sizes(columns).column_names == NULL);
    sab_sizes *const names[] = {named(parts[0], "source"), named(parts[1], "target")};
    sab_sizes_free(columns);
    EXPECT_OK(sab_sizes_columns_new((const sab_sizes *const *)names, NULL, 2, &columns));
    for (int i = 0; i < 2; ++i) {
        sab_sizes_free(parts[i]);
        sab_sizes_free(names[i]);
    }
    double size[3] = {0, 0, -1};
    EXPECT_OK(sab_sizes_get(columns, 2, 1, size));
    EXPECT(size[0] == 2 && size[1] == 7 && size[2] == -1);
    EXPECT(strcmp(info_of_sizes(columns).column_names[1], "target") == 0);
    double rows[4];
    EXPECT_OK(sab_sizes_get(columns, 1, 2, rows));
    EXPECT(rows[0] == 1 && rows[1] == 0 && rows[2] == 2 && rows[3] == 7);
    EXPECT(strcmp(info_of_sizes(columns).description,
                  "source: array of int32: 3 sizes; target: array of float64: 3 sizes") == 0);
    const sab_sizes *const both[] = {columns, columns};
    EXPECT_OK(sab_sizes_join_new(both, 2, &twice));
    EXPECT_OK(sab_sizes_get(twice, 3, 1, size));
    EXPECT(sab_sizes_count(twice) == 6 && size[0] == 3 && size[1] == 0.5);
    EXPECT(strcmp(info_of_sizes(twice).column_names[0], "source") == 0);
    sab_sizes_free(columns);
    sab_sizes_free(twice);
}

static void Columns_BadArguments_AreNamed(void) {
    const int32_t numbers[] = {3, 1, -2};
    sab_sizes *three = NULL, *two = NULL, *made = NULL;
    EXPECT_OK(sab_sizes_new(numbers, 3, SAB_INT32, NULL, &three));
    EXPECT_OK(sab_sizes_new(numbers, 2, SAB_INT32, NULL, &two));
    sab_sizes *const source = named(three, "source");
    const sab_sizes *columns[SAB_MAX_COLUMNS + 1] = {three, two};
#define REFUSED(count, words) \
    EXPECT_FAILS(sab_sizes_columns_new(columns, NULL, count, &made), SAB_E_ARGUMENT, words)
    REFUSED(0, "count = 0: must be from 1 to 8");
    REFUSED(9, "count = 9: must be from 1 to 8");
    REFUSED(2, "columns[1]: has 2 samples: must have as many as columns[0], 3");
    columns[1] = source;
    REFUSED(2, "columns[1]: \"source\" has a name: all columns must have a name, or none");
    columns[0] = source;
    REFUSED(2, "columns[1]: \"source\" has the name of columns[0]");
    columns[1] = NULL;
    REFUSED(2, "columns[1] = NULL");
    sab_sizes *const target = named(three, "target");
    columns[1] = target;
    EXPECT_OK(sab_sizes_columns_new(columns, NULL, 2, &made));
    double size[2];
    EXPECT_FAILS(sab_sizes_get(made, 2, 1, size), SAB_E_ARGUMENT,
                 "sizes[\"source\"][2] = -2: must not be negative");
    sab_sizes *other = NULL;
    const sab_sizes *const pair[] = {made, three};
    EXPECT_FAILS(sab_sizes_columns_new(pair, NULL, 1, &other), SAB_E_ARGUMENT,
                 "columns[0]: has 2 columns, source and target: must have one");
    EXPECT_FAILS(sab_sizes_join_new(pair, 2, &other), SAB_E_ARGUMENT,
                 "parts[1]: has 1 column: must have the columns of parts[0], 2 columns, source and "
                 "target");
    EXPECT_FAILS(named_sizes(made, "a", &other), SAB_E_ARGUMENT, "must have one");
    EXPECT_FAILS(named_sizes(three, "", &other), SAB_E_ARGUMENT, "names[0] = \"\"");
    EXPECT_FAILS(named_sizes(three, "a\nb", &other), SAB_E_ARGUMENT, "control characters");
    EXPECT_FAILS(named_sizes(three, NULL, &other), SAB_E_ARGUMENT, "names[0] = NULL");
    char long_name[SAB_MAX_COLUMN_NAME + 2] = {0};
    memset(long_name, 'a', SAB_MAX_COLUMN_NAME + 1);
    EXPECT_FAILS(named_sizes(three, long_name, &other), SAB_E_ARGUMENT, "1 to 63 bytes");
    long_name[SAB_MAX_COLUMN_NAME] = 0;
    sab_sizes_free(named(three, long_name));
    EXPECT(other == NULL);
    sab_sizes_free(made);
    sab_sizes_free(three);
    sab_sizes_free(two);
    sab_sizes_free(source);
    sab_sizes_free(target);
#undef REFUSED
}

int main(void) {
    RUN(Sizes_OfSeveralColumns_GiveOneNumberEach);
    RUN(Columns_BadArguments_AreNamed);
    RUN(Sizes_Joined_AreThoseOfTheirPartsInOrder);
    RUN(Values_OfEveryRange_AreTheSizesOneByOne);
    RUN(Values_OfABrokenSize_NameItAndWriteNothing);
    RUN(Values_OutOfRange_AreRefused);
    RUN(Plan_OfJoinedSizes_HasTheirValues);
    RUN(Sizes_JoinedOfManyBlocks_AreReadInFull);
    RUN(Sizes_JoinedThatBreakARule_AreNamedByTheirIndex);
    RUN(Join_BadArguments_AreNamed);
    RUN(Sizes_Descriptions_SayWhatWasRead);
    RUN(Sizes_OfEveryTypeAndStride_AreRead);
    RUN(Sizes_ThatBreakARule_AreRefused);
    RUN(Sizes_BadArguments_AreNamed);
    RUN(Sizes_ChangedWhileAPlanReadsThem_AreRefused);
    RUN(Sizes_AtTheEndsOfEachType_FollowTheRules);
    RUN(Sizes_AsAFieldOfRecords_AreReadInPlace);
    RUN(SizeCallback_ThatBreaksARule_IsNamed);
    return finish();
}
