/* The orders and rules of other libraries. */
#define _GNU_SOURCE
#include <math.h>

#include "helpers.h"

static void CreateBuckets_GivesTheDocumentedResults(void) {
    const int32_t first[] = {1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 3, 22, 22, 22, 22};
    const int64_t edges[] = {1, 6, 11, 16, 21, 23}, counts[] = {12, 0, 0, 0, 4};
    int64_t boundaries[16], bucket_sizes[15];
    size_t count = 0;
    sab_sizes *sizes = sizes_of(first, COUNT(first));
    EXPECT_OK(sab_bionemo_create_buckets(sizes, 5, 10, NULL, NULL, 0, &count));
    EXPECT(count == 5);
    EXPECT_OK(sab_bionemo_create_buckets(sizes, 5, 10, boundaries, bucket_sizes, 15, &count));
    EXPECT(memcmp(boundaries, edges, sizeof edges) == 0 &&
           memcmp(bucket_sizes, counts, sizeof counts) == 0);
    sab_sizes_free(sizes);

    int32_t range[20];
    for (int i = 0; i < 20; ++i) range[i] = i;
    const int64_t fives[] = {0, 5, 10, 15, 20};
    sizes = sizes_of(range, 20);
    EXPECT_OK(sab_bionemo_create_buckets(sizes, 10, 5, boundaries, bucket_sizes, 15, &count));
    EXPECT(count == 4 && memcmp(boundaries, fives, sizeof fives) == 0 && bucket_sizes[0] == 5 &&
           bucket_sizes[3] == 5);

    sab_sizes *floats = NULL;
    const float half[] = {0.5f};
    EXPECT_OK(sab_sizes_new(half, 1, SAB_FLOAT32, NULL, &floats));
    EXPECT_FAILS(sab_bionemo_create_buckets(floats, 1, 1, NULL, NULL, 0, &count), SAB_E_ARGUMENT,
                 "sizes");
    EXPECT_FAILS(sab_bionemo_create_buckets(sizes, 0, 1, NULL, NULL, 0, &count), SAB_E_ARGUMENT,
                 "max_width = 0");
    EXPECT_FAILS(sab_bionemo_create_buckets(sizes, 1, 0, NULL, NULL, 0, &count), SAB_E_ARGUMENT,
                 "min_bucket_count = 0");
    EXPECT_FAILS(sab_bionemo_create_buckets(sizes, 1, 1, NULL, NULL, 1, &count), SAB_E_ARGUMENT,
                 "boundaries = NULL");
    EXPECT_FAILS(sab_bionemo_create_buckets(NULL, 1, 1, NULL, NULL, 0, &count), SAB_E_ARGUMENT,
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
    options.bucket_rule = SAB_BUCKETS_BOUNDARIES;
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
    EXPECT_OK(sab_bionemo_sampler_new(plan, NULL, &sampler));
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

    sab_bionemo_options options = SAB_BIONEMO_OPTIONS_INIT;
    options.limit = 40;
    options.size = size_is_index;
    EXPECT_OK(sab_bionemo_sampler_new(plan, &options, &sampler));
    print_epoch(sampler, text);
    EXPECT(strcmp(text,
                  "[[24], [2, 5, 3, 0, 1, 4], [12, 10, 11, 7], [13, 6, 14], [17, 16], [22], [19, "
                  "15], [9, 8], [18, 20], [21], [23]]") == 0);
    uint64_t count;
    EXPECT_FAILS(sab_sampler_get_batch_count(sampler, &count), SAB_E_UNSUPPORTED, "random access");
    sab_sampler_free(sampler);
    char same[4096];
    int32_t indices[25];
    for (int i = 0; i < 25; ++i) indices[i] = i;
    sab_sizes *sizes = sizes_of(indices, 25), *short_sizes = sizes_of(indices, 24);
    options.size = NULL;
    options.sizes = sizes;
    EXPECT_OK(sab_bionemo_sampler_new(plan, &options, &sampler));
    print_epoch(sampler, same);
    EXPECT(strcmp(text, same) == 0);
    sab_sampler_free(sampler);
    options.sizes = short_sizes;
    EXPECT_FAILS(sab_bionemo_sampler_new(plan, &options, &sampler), SAB_E_ARGUMENT,
                 "options.sizes.count = 24");
    sab_sizes_free(sizes);
    sab_sizes_free(short_sizes);

    options = (sab_bionemo_options)SAB_BIONEMO_OPTIONS_INIT;
    options.shuffle = SAB_BIONEMO_SHUFFLE_NONE;
    EXPECT_OK(sab_bionemo_sampler_new(plan, &options, &sampler));
    print_epoch(sampler, text);
    EXPECT(strcmp(text,
                  "[[0, 1], [2, 3], [4, 5], [6, 7, 8], [9, 10, 11], [12, 13, 14], [15, 16, 17, 18, "
                  "19], [20, 21, 22, 23, 24]]") == 0);
    EXPECT_OK(sab_sampler_get_batch_count(sampler, &count));
    EXPECT(count == 8);
    sab_sampler_free(sampler);
    sab_plan_free(plan);
}

static void TorchOrder_GeneratorGoesOnElsewhere(void) {
    sab_plan *plan = documented_plan();
    sab_sampler *one = NULL, *other = NULL;
    uint32_t words[SAB_BIONEMO_GENERATOR_WORDS];
    char first[4096], second[4096];
    sab_bionemo_options options = SAB_BIONEMO_OPTIONS_INIT;
    EXPECT_OK(sab_bionemo_sampler_new(plan, &options, &one));
    options.seed = 99;
    EXPECT_OK(sab_bionemo_sampler_new(plan, &options, &other));
    EXPECT_OK(sab_bionemo_sampler_get_generator(one, words));
    EXPECT_OK(sab_bionemo_sampler_set_generator(other, words));
    print_epoch(one, first);
    print_epoch(other, second);
    EXPECT(strcmp(first, second) == 0);
    words[624] = 625;
    EXPECT_FAILS(sab_bionemo_sampler_set_generator(other, words), SAB_E_ARGUMENT,
                 "words[624] = 625");
    sab_sampler *native = rank_of(plan, 0, 1);
    EXPECT_FAILS(sab_bionemo_sampler_get_generator(native, words), SAB_E_ARGUMENT,
                 "sab_bionemo_sampler_new");
    EXPECT_FAILS(sab_bionemo_sampler_set_generator(native, words), SAB_E_ARGUMENT,
                 "sab_bionemo_sampler_new");
    EXPECT_FAILS(sab_bionemo_sampler_get_generator(one, NULL), SAB_E_ARGUMENT, "words = NULL");
    options.shuffle = 3;
    sab_sampler *none = one;
    EXPECT_FAILS(sab_bionemo_sampler_new(plan, &options, &none), SAB_E_ARGUMENT, "shuffle = 3");
    EXPECT(none == NULL);
    options.shuffle = 1;
    options.limit = 4;
    EXPECT_FAILS(sab_bionemo_sampler_new(plan, &options, &none), SAB_E_ARGUMENT,
                 "options.limit = 4: goes with options.sizes or options.size only");
    sab_plan *by_budget = a_plan();
    EXPECT_FAILS(sab_bionemo_sampler_new(by_budget, NULL, &none), SAB_E_ARGUMENT,
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
    EXPECT_OK(sab_ordered_sampler_new(NULL, 6, sizes, 4, NULL, &sampler));
    print_epoch(sampler, text);
    EXPECT(strcmp(text, "[[0, 1], [3, 4], [5]]") == 0);
    int64_t index = -1;
    size_t skipped = 0;
    EXPECT_OK(sab_sampler_get_skipped(sampler, &index, 1, &skipped));
    EXPECT(skipped == 1 && index == 2);
    sab_sampler_free(sampler);
    const int64_t order[] = {5, 3, 1}, wrong[] = {6};
    EXPECT_OK(sab_ordered_sampler_new(order, 3, sizes, 4, NULL, &sampler));
    print_epoch(sampler, text);
    EXPECT(strcmp(text, "[[5, 3], [1]]") == 0);
    sab_sampler_free(sampler);
    EXPECT_FAILS(sab_ordered_sampler_new(wrong, 1, sizes, 4, NULL, &sampler), SAB_E_ARGUMENT,
                 "indices[0] = 6");
    EXPECT_FAILS(sab_ordered_sampler_new(NULL, 7, sizes, 4, NULL, &sampler), SAB_E_ARGUMENT,
                 "count = 7");
    EXPECT_FAILS(sab_ordered_sampler_new(NULL, 6, sizes, NAN, NULL, &sampler), SAB_E_ARGUMENT,
                 "limit = nan");
    EXPECT_FAILS(sab_ordered_sampler_new(NULL, 6, sizes, -1, NULL, &sampler), SAB_E_ARGUMENT,
                 "limit = -1");
    EXPECT_FAILS(sab_ordered_sampler_new(order, 3, sizes, 1, NULL, &sampler), SAB_E_ARGUMENT,
                 "limit = 1: must leave a batch; all 3 samples are over it, also the smallest, 2");
    EXPECT(sampler == NULL);
    EXPECT_OK(sab_ordered_sampler_new(order, 0, sizes, 1, NULL, &sampler)); /* no sample at all */
    sab_sampler_free(sampler);
    sab_sizes_free(sizes);
}

/* What was sized up when the sampler was made is too large now. */
static void SizeAwareSampler_WhoseSizesGrew_Fails(void) {
    int32_t numbers[100];
    for (int i = 0; i < 100; ++i) numbers[i] = 10;
    sab_sizes *sizes = NULL;
    sab_sampler *sampler = NULL;
    sab_batch batch = SAB_BATCH_INIT;
    EXPECT_OK(sab_sizes_new(numbers, 100, SAB_INT32, NULL, &sizes));
    EXPECT_OK(sab_ordered_sampler_new(NULL, 100, sizes, 50, NULL, &sampler));
    for (int i = 0; i < 100; ++i) numbers[i] = 1000;
    EXPECT_FAILS(sab_next_batch(sampler, &batch), SAB_E_ARGUMENT, "sizes: were changed");
    sab_sampler_free(sampler);
    sab_sizes_free(sizes);
}

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
    EXPECT_OK(sab_bionemo_size_aware_stream_sampler_new(next_index, &source, release_source, 10,
                                                        &sampler));
    sab_batch batch = SAB_BATCH_INIT;
    EXPECT_FAILS(sab_next_batch(sampler, &batch), SAB_E_CALLBACK, "code 77 at position 3");
    EXPECT(sab_last_error_code() == 77);
    EXPECT_OK(sab_next_batch(sampler, &batch));
    EXPECT(batch.count == 5 && batch.indices[4] == 104 && *batch.total == 10);
    EXPECT(sab_next_batch(sampler, &batch) == SAB_END);
    EXPECT_OK(sab_sampler_seek(sampler, 0));
    EXPECT_OK(sab_next_batch(sampler, &batch));
    struct state state;
    uint64_t count;
    EXPECT_FAILS(sab_sampler_seek(sampler, 1), SAB_E_UNSUPPORTED, "random access");
    EXPECT_FAILS(sab_sampler_at(sampler, 0, &batch), SAB_E_UNSUPPORTED, "sab_sampler_at");
    EXPECT_FAILS(sab_sampler_get_batch_count(sampler, &count), SAB_E_UNSUPPORTED,
                 "sab_sampler_get_batch_count");
    EXPECT_FAILS(save_state(sampler, &state), SAB_E_UNSUPPORTED, "sab_sampler_state_save");
    EXPECT_FAILS(restore_state(sampler, &state), SAB_E_UNSUPPORTED, "sab_sampler_state_restore");
    EXPECT(source.released == 0);
    sab_sampler_free(sampler);
    EXPECT(source.released == 1);
    EXPECT_FAILS(
        sab_bionemo_size_aware_stream_sampler_new(NULL, &source, release_source, 10, &sampler),
        SAB_E_ARGUMENT, "source = NULL");
    EXPECT_FAILS(sab_bionemo_size_aware_stream_sampler_new(next_index, &source, release_source,
                                                           INFINITY, &sampler),
                 SAB_E_ARGUMENT, "limit = inf");
    EXPECT(source.released == 1);
}

#define SAMPLES 400
#define BUDGET 300

static void SizeAware_GivesTheDocumentedBatches(void) {
    const int32_t twos[] = {2, 2, 2, 2, 2};
    sab_sizes *sizes = sizes_of(twos, 5);
    sab_sampler *sampler = NULL;
    char text[128];
    EXPECT_OK(sab_ordered_sampler_new(NULL, 5, sizes, 4, NULL, &sampler));
    print_epoch(sampler, text);
    EXPECT(strcmp(text, "[[0, 1], [2, 3], [4]]") == 0);
    sab_sampler_free(sampler);
    sab_sizes_free(sizes);
}

static int32_t from_lengths(void *ctx, uint64_t epoch, uint64_t position, int64_t *index,
                            double *size) {
    const int64_t *order = ctx;
    if (position == SAMPLES) return SAB_END;
    *index = order[(position + epoch) % SAMPLES];
    *size = lengths(SAMPLES)[*index];
    return 0;
}

static void SizeAware_FollowsTheRuleWrittenOut(void) {
    sab_sizes *sizes = sizes_of(lengths(SAMPLES), SAMPLES);
    int64_t order[SAMPLES];
    for (int64_t i = 0; i < SAMPLES; ++i) order[i] = i * 177 % SAMPLES;
    for (int32_t most = 25; most <= 200; most += 25) {
        sab_sampler *sampler = NULL, *stream = NULL;
        EXPECT_OK(sab_ordered_sampler_new(order, SAMPLES, sizes, most, NULL, &sampler));
        EXPECT_OK(
            sab_bionemo_size_aware_stream_sampler_new(from_lengths, order, NULL, most, &stream));
        sab_batch batch = SAB_BATCH_INIT, streamed = SAB_BATCH_INIT;
        int64_t open[SAMPLES];
        uint64_t count = 0;
        size_t skipped = 0, said = 1, said_by_stream = 1;
        int64_t left_out[SAMPLES], listed[SAMPLES], listed_by_stream[SAMPLES];
        int32_t total = 0;
        for (int i = 0; i <= SAMPLES; ++i) {
            const int32_t size = i < SAMPLES ? lengths(SAMPLES)[order[i]] : 0;
            if (i < SAMPLES && size > most) {
                left_out[skipped++] = order[i];
                continue;
            }
            /* the batch closes before it would exceed */
            if (count > 0 && (i == SAMPLES || total + size > most)) {
                EXPECT_OK(sab_next_batch(sampler, &batch));
                EXPECT_OK(sab_next_batch(stream, &streamed));
                EXPECT(batch.count == count && *batch.total == total &&
                       memcmp(batch.indices, open, count * sizeof *open) == 0);
                EXPECT(streamed.count == count && *streamed.total == total &&
                       memcmp(streamed.indices, open, count * sizeof *open) == 0);
                count = 0;
                total = 0;
            }
            if (i == SAMPLES) break;
            open[count++] = order[i];
            total += size;
        }
        EXPECT(sab_next_batch(sampler, &batch) == SAB_END &&
               sab_next_batch(stream, &streamed) == SAB_END);
        EXPECT_OK(sab_sampler_get_skipped(sampler, listed, SAMPLES, &said));
        EXPECT_OK(sab_sampler_get_skipped(stream, listed_by_stream, SAMPLES, &said_by_stream));
        EXPECT(said == skipped && said_by_stream == skipped &&
               memcmp(listed, left_out, skipped * sizeof *listed) == 0 &&
               memcmp(listed_by_stream, left_out, skipped * sizeof *listed) == 0);
        EXPECT_OK(sab_sampler_set_epoch(stream, 1));
        EXPECT_OK(sab_sampler_get_skipped(stream, NULL, 0, &said_by_stream));
        EXPECT(said_by_stream == 0);
        sab_sampler_free(sampler);
        sab_sampler_free(stream);
    }
    sab_sizes_free(sizes);
}

static void Stream_BeginsAgainWithTheEpoch(void) {
    int64_t order[SAMPLES];
    for (int64_t i = 0; i < SAMPLES; ++i) order[i] = i;
    sab_sampler *stream = NULL;
    EXPECT_OK(sab_bionemo_size_aware_stream_sampler_new(from_lengths, order, NULL, 500, &stream));
    sab_batch batch = SAB_BATCH_INIT;
    EXPECT_OK(sab_next_batch(stream, &batch));
    EXPECT(batch.indices[0] == 0 && batch.epoch == 0 && batch.step == 0);
    EXPECT_OK(sab_sampler_set_epoch(stream, 7));
    EXPECT_OK(sab_next_batch(stream, &batch));
    EXPECT(batch.indices[0] == 7 && batch.epoch == 7 && batch.step == 0 &&
           step_of(stream).samples == batch.count);
    uint64_t epoch = 0, step = 0;
    EXPECT_OK(sab_sampler_tell(stream, &epoch, &step));
    EXPECT(epoch == 7 && step == 1);
    EXPECT_OK(sab_sampler_seek(stream, 0));
    EXPECT_OK(sab_next_batch(stream, &batch));
    EXPECT(batch.indices[0] == 7);
    sab_sampler_free(stream);
}

static void Stream_OverItsLimit_HasNoBatch(void) {
    struct source source = {5, -1, 0};
    sab_sampler *stream = NULL;
    sab_batch batch = SAB_BATCH_INIT;
    size_t skipped = 0;
    EXPECT_OK(sab_bionemo_size_aware_stream_sampler_new(next_index, &source, NULL, 1, &stream));
    EXPECT(sab_next_batch(stream, &batch) == SAB_END);
    EXPECT_OK(sab_sampler_get_skipped(stream, NULL, 0, &skipped));
    EXPECT(skipped == 5);
    sab_sampler_free(stream);
}

static void BaguaSampler_ThatDropsAllSamples_HasNoBatch(void) {
    const int32_t twos[] = {2, 2};
    sab_sizes *sizes = sizes_of(twos, 2);
    sab_bagua_options balancing = SAB_BAGUA_OPTIONS_INIT;
    sab_sampler_options options = SAB_SAMPLER_OPTIONS_INIT;
    sab_sampler *sampler = NULL;
    uint64_t count = 1;
    balancing.drop_last = 1;
    options.world_size = 3;
    EXPECT_OK(sab_bagua_sampler_new(sizes, &balancing, &options, &sampler));
    EXPECT_OK(sab_sampler_get_batch_count(sampler, &count));
    EXPECT(count == 0);
    sab_sampler_free(sampler);
    sab_sizes_free(sizes);
}

static void TorchOrder_SaysWhatItCannot(void) {
    sab_plan *plan = bounded_plan();
    sab_sampler *sampler = NULL;
    EXPECT_OK(sab_bionemo_sampler_new(plan, NULL, &sampler));
    sab_batch batch = SAB_BATCH_INIT;
    struct state state = {0, {0}};
    uint64_t count = 0;
    EXPECT_FAILS(sab_sampler_seek(sampler, 1), SAB_E_UNSUPPORTED, "sab_sampler_seek");
    EXPECT_FAILS(sab_sampler_at(sampler, 0, &batch), SAB_E_UNSUPPORTED, "sab_sampler_at");
    EXPECT_FAILS(save_state(sampler, &state), SAB_E_UNSUPPORTED, "sab_sampler_state_save");
    EXPECT_FAILS(restore_state(sampler, &state), SAB_E_UNSUPPORTED, "sab_sampler_state_restore");
    EXPECT_OK(sab_sampler_get_batch_count(sampler, &count));
    int seen[100] = {0};
    EXPECT(walk(sampler, seen) == count && all_are(seen, 100, 1));
    sab_sampler_free(sampler);
    sab_plan_free(plan);
}

static int32_t size_that_fails_once(void *ctx, int64_t index, double *size) {
    int *calls = ctx;
    (void)index;
    *size = 2;
    return ++*calls == 5 ? 77 : 0;
}

static void count_release(void *ctx) {
    ++*(int *)ctx;
}

static void TorchOrder_GoesOnAfterAFailedCallback(void) {
    sab_plan *plan = bounded_plan();
    sab_sampler *sampler = NULL;
    sab_bionemo_options options = SAB_BIONEMO_OPTIONS_INIT;
    int calls = 0, seen[100] = {0}, failures = 0;
    options.limit = 20;
    options.size = size_that_fails_once;
    options.size_ctx = &calls;
    EXPECT_OK(sab_bionemo_sampler_new(plan, &options, &sampler));
    sab_batch batch = SAB_BATCH_INIT;
    sab_status status;
    while ((status = sab_next_batch(sampler, &batch)) != SAB_END) {
        if (status == SAB_E_CALLBACK) {
            ++failures;
            EXPECT(sab_last_error_code() == 77);
            continue;
        }
        EXPECT(status == SAB_OK);
        for (uint64_t i = 0; i < batch.count; ++i) ++seen[batch.indices[i]];
    }
    EXPECT(failures == 1 && all_are(seen, 100, 1));
    sab_sampler_free(sampler);

    int released = 0;
    options.size_ctx = &released;
    options.release = count_release;
    options.shuffle = 9;
    EXPECT_FAILS(sab_bionemo_sampler_new(plan, &options, &sampler), SAB_E_ARGUMENT, "shuffle = 9");
    EXPECT(released == 0); /* not when the constructor fails */
    options.shuffle = SAB_BIONEMO_SHUFFLE_NONE;
    EXPECT_OK(sab_bionemo_sampler_new(plan, &options, &sampler));
    EXPECT(released == 0);
    sab_sampler_free(sampler);
    EXPECT(released == 1);
    sab_plan_free(plan);
}

#define LOADED_SAMPLES 150

static int32_t complexity_of(int64_t index) {
    return (int32_t)(index * 7919 % 97);
}

static sab_sizes *complexities(size_t count) {
    static int32_t made[1000];
    for (size_t i = 0; i < count; ++i) made[i] = complexity_of((int64_t)i);
    return sizes_of(made, count);
}

/* Batches of 1, 2, 3, 1, 2, ... samples, beginning where the first index says: ranks have different
 * numbers of them. */
struct maker {
    int calls;
    int fails_at; /* the call that fails with code 42; 0: none */
    int released;
};

static int32_t make_batches(void *ctx, const int64_t *indices, size_t count, sab_batches *batches) {
    struct maker *maker = ctx;
    if (++maker->calls == maker->fails_at) return 42;
    size_t size = count == 0 ? 1 : 1 + (size_t)indices[0] % 3;
    for (size_t first = 0; first < count; first += size, size = 1 + size % 3)
        EXPECT_OK(sab_bagua_batches_add(batches, indices + first,
                                        first + size < count ? size : count - first));
    return 0;
}

static void release(void *ctx) {
    ++((struct maker *)ctx)->released;
}

static sab_bagua_options made_by(struct maker *maker) {
    sab_bagua_options balancing = SAB_BAGUA_OPTIONS_INIT;
    balancing.make_batches = make_batches;
    balancing.make_batches_ctx = maker;
    balancing.release = release;
    return balancing;
}

static void LoadBalancing_GivesThePublishedOrder(void) {
    /* Of Bagua's LoadBalancingDistributedSampler with torch, over 30 samples, 4 ranks. */
    const struct {
        uint64_t seed, epoch, rank;
        int32_t shuffle, drop_last;
        double random_level;
        int64_t order[8];
    } cases[] = {
        {0, 0, 0, 1, 0, 0, {19, 0, 14, 21, 2, 12, 6, 4}},
        {0, 0, 3, 1, 0, 0, {27, 8, 11, 29, 10, 20, 3, 1}},
        {0, 2, 3, 1, 0, 0, {11, 1, 27, 10, 3, 8, 20, 29}},
        {1, 0, 3, 1, 0, 0.5, {24, 20, 17, 7, 11, 9, 19, 10}},
        {1, 2, 0, 1, 0, 0.5, {2, 0, 15, 5, 25, 26, 17, 27}},
        {0, 2, 3, 0, 1, 0, {8, 27, 10, 29, 1, 20, 3}},
        {7, 2, 0, 1, 1, 0, {0, 19, 12, 21, 2, 4, 6}},
    };
    sab_sizes *sizes = complexities(30);
    for (size_t i = 0; i < COUNT(cases); ++i) {
        sab_bagua_options balancing = SAB_BAGUA_OPTIONS_INIT;
        balancing.no_shuffle = !cases[i].shuffle;
        balancing.drop_last = cases[i].drop_last;
        balancing.random_level = cases[i].random_level;
        sab_sampler_options options = ranks(cases[i].rank, 4);
        options.seed = cases[i].seed;
        options.epoch = cases[i].epoch;
        sab_sampler *sampler = NULL;
        EXPECT_OK(sab_bagua_sampler_new(sizes, &balancing, &options, &sampler));
        sab_batch batch = SAB_BATCH_INIT;
        uint64_t steps = 0;
        for (; sab_next_batch(sampler, &batch) == SAB_OK; ++steps)
            EXPECT(batch.count == 1 && batch.indices[0] == cases[i].order[steps] &&
                   *batch.total == complexity_of(batch.indices[0]));
        EXPECT(steps == (cases[i].drop_last ? 7 : 8));
        sab_sampler_free(sampler);
    }
    sab_sizes_free(sizes);
}

static void LoadBalancing_CoversEverySampleInEqualSteps(void) {
    const size_t counts[] = {1, 2, 7, 64, LOADED_SAMPLES};
    for (size_t c = 0; c < COUNT(counts); ++c)
        for (uint64_t world_size = 1; world_size <= 9; ++world_size)
            for (uint64_t batch_size = 1; batch_size <= 5; batch_size += 2)
                for (int32_t drop_last = 0; drop_last <= 1; ++drop_last) {
                    const size_t count = counts[c];
                    sab_sizes *sizes = complexities(count);
                    int seen[LOADED_SAMPLES] = {0};
                    uint64_t samples = 0, steps = 0, said = 0;
                    for (uint64_t rank = 0; rank < world_size; ++rank) {
                        sab_bagua_options balancing = SAB_BAGUA_OPTIONS_INIT;
                        balancing.drop_last = drop_last;
                        balancing.batch_size = batch_size;
                        const sab_sampler_options options = ranks(rank, world_size);
                        sab_sampler *sampler = NULL;
                        EXPECT_OK(sab_bagua_sampler_new(sizes, &balancing, &options, &sampler));
                        EXPECT_OK(sab_sampler_get_batch_count(sampler, &said));
                        steps = walk(sampler, seen);
                        EXPECT(steps == said);
                        sab_sampler_free(sampler);
                    }
                    const uint64_t per_rank =
                        count / world_size + (!drop_last && count % world_size != 0);
                    EXPECT(steps == (per_rank + batch_size - 1) / batch_size);
                    for (size_t i = 0; i < count; ++i) {
                        samples += (uint64_t)seen[i];
                        EXPECT(drop_last ? seen[i] <= 1 : seen[i] >= 1);
                    }
                    EXPECT(samples == per_rank * world_size);
                    sab_sizes_free(sizes);
                }
}

static void RanksOfAStep_GetNeighboursByComplexity(void) {
    sab_sizes *sizes = complexities(LOADED_SAMPLES);
    sab_sampler *of_rank[5];
    for (uint64_t rank = 0; rank < 5; ++rank) {
        const sab_sampler_options options = ranks(rank, 5);
        EXPECT_OK(sab_bagua_sampler_new(sizes, NULL, &options, &of_rank[rank]));
    }
    sab_batch batch = SAB_BATCH_INIT;
    for (uint64_t step = 0; step < LOADED_SAMPLES / 5; ++step) {
        double least = INFINITY, most = 0, total = 0, said = 0;
        for (uint64_t rank = 0; rank < 5; ++rank) {
            EXPECT_OK(sab_next_batch(of_rank[rank], &batch));
            least = fmin(least, *batch.total);
            most = fmax(most, *batch.total);
            total += *batch.total;
            said = *step_of(of_rank[rank]).totals;
        }
        EXPECT(most - least <= 5 && total == said);
    }
    for (uint64_t rank = 0; rank < 5; ++rank) sab_sampler_free(of_rank[rank]);
    sab_sizes_free(sizes);
}

static sab_sampler *batch_sampler(const sab_sizes *sizes, struct maker *maker, int32_t drop_last,
                                  uint64_t rank, uint64_t world_size) {
    sab_bagua_options balancing = made_by(maker);
    balancing.drop_last = drop_last;
    const sab_sampler_options options = ranks(rank, world_size);
    sab_sampler *sampler = NULL;
    EXPECT_OK(sab_bagua_sampler_new(sizes, &balancing, &options, &sampler));
    return sampler;
}

static void MadeBatches_AreAsManyOnEveryRank(void) {
    sab_sizes *sizes = complexities(LOADED_SAMPLES);
    for (uint64_t world_size = 1; world_size <= 9; ++world_size)
        for (int32_t drop_last = 0; drop_last <= 1; ++drop_last)
            for (uint64_t epoch = 0; epoch < 2; ++epoch) {
                int seen[LOADED_SAMPLES] = {0};
                uint64_t steps = 0;
                for (uint64_t rank = 0; rank < world_size; ++rank) {
                    struct maker maker = {0, 0, 0};
                    sab_sampler *sampler =
                        batch_sampler(sizes, &maker, drop_last, rank, world_size);
                    EXPECT(maker.calls == (int)world_size);
                    EXPECT_OK(sab_sampler_set_epoch(sampler, epoch));
                    /* the epoch at hand is known */
                    EXPECT(maker.calls == (int)(world_size * (epoch + 1)));
                    const uint64_t walked = walk(sampler, seen);
                    EXPECT(rank == 0 || walked == steps);
                    steps = walked;
                    sab_sampler_free(sampler);
                    EXPECT(maker.released == 1);
                }
                for (int i = 0; i < LOADED_SAMPLES; ++i)
                    EXPECT(drop_last ? seen[i] <= 2 : seen[i] >= 1);
            }
    sab_sizes_free(sizes);
}

static int32_t one_batch_or_all(void *ctx, const int64_t *indices, size_t count,
                                sab_batches *batches) {
    /* sample 0, the least complex, is the first of rank 0: one batch of all its samples; the
     * others: a batch a sample */
    (void)ctx;
    if (indices[0] == 0) return sab_bagua_batches_add(batches, indices, count);
    for (size_t i = 0; i < count; ++i)
        if (sab_bagua_batches_add(batches, indices + i, 1) != SAB_OK) return 1;
    return 0;
}

static void ARankThatLacksMoreThanItHas_GoesRoundAgain(void) {
    sab_sizes *sizes = complexities(20);
    sab_bagua_options balancing = SAB_BAGUA_OPTIONS_INIT;
    balancing.make_batches = one_batch_or_all;
    balancing.no_shuffle = !0;
    const sab_sampler_options options = ranks(0, 4);
    sab_sampler *sampler = NULL;
    EXPECT_OK(sab_bagua_sampler_new(sizes, &balancing, &options, &sampler));
    sab_batch batch = SAB_BATCH_INIT;
    for (int step = 0; step < 5; ++step) {
        EXPECT_OK(sab_next_batch(sampler, &batch));
        EXPECT(batch.count == 5 && batch.indices[0] == 0);
    }
    EXPECT(sab_next_batch(sampler, &batch) == SAB_END);
    sab_sampler_free(sampler);
    balancing.drop_last = 1;
    EXPECT_OK(sab_bagua_sampler_new(sizes, &balancing, &options, &sampler));
    EXPECT_OK(sab_next_batch(sampler, &batch));
    EXPECT(sab_next_batch(sampler, &batch) == SAB_END);
    sab_sampler_free(sampler);
    sab_sizes_free(sizes);
}

static void MaxTotal_MakesBatchesWithoutACallback(void) {
    sab_sizes *sizes = complexities(LOADED_SAMPLES);
    sab_bagua_options balancing = SAB_BAGUA_OPTIONS_INIT;
    balancing.limit = 200;
    int seen[LOADED_SAMPLES] = {0};
    for (uint64_t rank = 0; rank < 3; ++rank) {
        const sab_sampler_options options = ranks(rank, 3);
        sab_sampler *sampler = NULL;
        EXPECT_OK(sab_bagua_sampler_new(sizes, &balancing, &options, &sampler));
        sab_batch batch = SAB_BATCH_INIT;
        while (sab_next_batch(sampler, &batch) == SAB_OK) {
            EXPECT(*batch.total <= 200 && batch.count > 0);
            for (uint64_t i = 0; i < batch.count; ++i) ++seen[batch.indices[i]];
        }
        sab_sampler_free(sampler);
    }
    for (int i = 0; i < LOADED_SAMPLES; ++i) EXPECT(seen[i] >= 1);
    sab_sizes_free(sizes);
}

/* Adds what `sampler` gives to `seen`, at most so many batches. */
static void take(sab_sampler *sampler, uint64_t most, int *seen) {
    sab_batch batch = SAB_BATCH_INIT;
    for (uint64_t step = 0; step < most && sab_next_batch(sampler, &batch) == SAB_OK; ++step)
        for (uint64_t i = 0; i < batch.count; ++i) ++seen[batch.indices[i]];
}

static void State_GoesOnWithTheSameOrOtherRanks(void) {
    sab_sizes *sizes = complexities(LOADED_SAMPLES);
    for (int makes = 0; makes <= 1; ++makes)
        for (uint64_t world_size = 1; world_size <= 5; ++world_size)
            for (uint64_t other_size = 1; other_size <= 5; ++other_size)
                for (uint64_t stop = 0; stop < 40; stop += 13) {
                    int whole[LOADED_SAMPLES] = {0}, seen[LOADED_SAMPLES] = {0};
                    struct state state, again;
                    struct maker maker = {0, 0, 0};
                    sab_bagua_options balancing = SAB_BAGUA_OPTIONS_INIT;
                    if (makes) balancing = made_by(&maker);
                    for (uint64_t rank = 0; rank < world_size + other_size; ++rank) {
                        const int is_first = rank < world_size;
                        sab_sampler_options options = ranks(is_first ? rank : rank - world_size,
                                                            is_first ? world_size : other_size);
                        /* the state says where, not the options */
                        options.epoch = is_first ? 3 : 0;
                        sab_sampler *sampler = NULL;
                        EXPECT_OK(sab_bagua_sampler_new(sizes, &balancing, &options, &sampler));
                        if (is_first) {
                            walk(sampler, whole);
                            EXPECT_OK(sab_sampler_set_epoch(sampler, 3));
                            take(sampler, stop, seen);
                            EXPECT_OK(save_state(sampler, &state));
                        } else {
                            EXPECT_OK(restore_state(sampler, &state));
                            EXPECT_OK(save_state(sampler, &again));
                            EXPECT(world_size != other_size ||
                                   memcmp(&state, &again, sizeof state) == 0);
                            take(sampler, UINT64_MAX, seen);
                        }
                        sab_sampler_free(sampler);
                    }
                    EXPECT(memcmp(whole, seen, sizeof whole) == 0);
                }
    sab_sizes_free(sizes);
}

static void ACallbackThatFails_ComesBackUnchangedAndChangesNothing(void) {
    sab_sizes *sizes = complexities(LOADED_SAMPLES);
    struct maker maker = {0, 2, 0};
    sab_bagua_options balancing = made_by(&maker);
    const sab_sampler_options options = ranks(1, 3);
    sab_sampler *sampler = NULL, *other;
    EXPECT_FAILS(sab_bagua_sampler_new(sizes, &balancing, &options, &sampler), SAB_E_CALLBACK,
                 "the batch callback failed with code 42");
    EXPECT(sampler == NULL && sab_last_error_code() == 42 && maker.released == 0);

    maker = (struct maker){0, 0, 0};
    struct maker sound = {0, 0, 0};
    EXPECT_OK(sab_bagua_sampler_new(sizes, &balancing, &options, &sampler));
    other = batch_sampler(sizes, &sound, 0, 0, 2);
    struct state state, before, after;
    EXPECT_OK(sab_sampler_set_epoch(other, 1));
    EXPECT_OK(sab_sampler_seek(other, 5));
    EXPECT_OK(save_state(other, &state));
    EXPECT_OK(sab_sampler_seek(sampler, 7));
    EXPECT_OK(save_state(sampler, &before));
    sab_batch batch = SAB_BATCH_INIT;
    EXPECT_OK(sab_sampler_at(sampler, 7, &batch));
    const int64_t first = batch.indices[0];
    maker.fails_at = maker.calls + 1;
    EXPECT_FAILS(sab_sampler_set_epoch(sampler, 1), SAB_E_CALLBACK, "code 42");
    maker.fails_at = maker.calls + 2; /* of two ranks, the second */
    EXPECT_FAILS(restore_state(sampler, &state), SAB_E_CALLBACK, "code 42");
    EXPECT_OK(save_state(sampler, &after));
    EXPECT(memcmp(&before, &after, sizeof before) == 0);
    EXPECT_OK(sab_next_batch(sampler, &batch));
    EXPECT(batch.step == 7 && batch.epoch == 0 && batch.indices[0] == first);
    EXPECT_OK(restore_state(sampler, &state));
    sab_sampler_free(sampler);
    sab_sampler_free(other);
    EXPECT(maker.released == 1);
    sab_sizes_free(sizes);
}

static int32_t one_by_one(void *ctx, const int64_t *indices, size_t count, sab_batches *batches) {
    (void)ctx;
    for (size_t i = 0; i < count; ++i) EXPECT_OK(sab_bagua_batches_add(batches, indices + i, 1));
    return 0;
}

static void StateOfACallbackThatMadeMore_IsRefusedWithoutAskingTwice(void) {
    sab_sizes *sizes = complexities(LOADED_SAMPLES);
    struct maker maker = {0, 0, 0};
    sab_sampler *sampler = batch_sampler(sizes, &maker, 0, 0, 2), *other = NULL;
    sab_bagua_options balancing = SAB_BAGUA_OPTIONS_INIT;
    balancing.make_batches = one_by_one;
    sab_sampler_options options = ranks(0, 2);
    options.epoch = 1;
    EXPECT_OK(sab_bagua_sampler_new(sizes, &balancing, &options, &other));
    EXPECT_OK(sab_sampler_seek(other, 70));
    struct state state, before, after;
    EXPECT_OK(save_state(other, &state));
    sab_batch batch = SAB_BATCH_INIT;
    EXPECT_OK(sab_next_batch(sampler, &batch));
    const int64_t first = batch.indices[0];
    EXPECT_OK(save_state(sampler, &before));
    EXPECT_FAILS(restore_state(sampler, &state), SAB_E_FORMAT,
                 "its position is not one of this epoch");
    EXPECT(maker.calls == 4); /* two ranks, epochs 0 and 1 */
    EXPECT_OK(save_state(sampler, &after));
    EXPECT(memcmp(&before, &after, sizeof before) == 0);
    EXPECT_OK(sab_sampler_at(sampler, 0, &batch));
    EXPECT(batch.indices[0] == first);
    sab_sampler_free(sampler);
    sab_sampler_free(other);
    sab_sizes_free(sizes);
}

static int32_t wrong_index(void *ctx, const int64_t *indices, size_t count, sab_batches *batches) {
    (void)ctx, (void)indices, (void)count;
    const int64_t wrong[] = {3, LOADED_SAMPLES};
    EXPECT_FAILS(sab_bagua_batches_add(batches, wrong, 2), SAB_E_ARGUMENT,
                 "indices[1] = 150: must be from 0 to below the number of samples, 150");
    EXPECT_FAILS(sab_bagua_batches_add(batches, wrong, 0), SAB_E_ARGUMENT,
                 "count = 0: must be at least 1");
    EXPECT_FAILS(sab_bagua_batches_add(batches, NULL, 1), SAB_E_ARGUMENT, "indices = NULL");
    EXPECT_FAILS(sab_bagua_batches_add(NULL, wrong, 1), SAB_E_ARGUMENT, "batches = NULL");
    return 0; /* takes no notice */
}

static int32_t none_of_the_first(void *ctx, const int64_t *indices, size_t count,
                                 sab_batches *batches) {
    (void)ctx;
    return indices[0] == 0 ? 0 : sab_bagua_batches_add(batches, indices, count);
}

static void WrongLoadBalancing_IsRefusedByName(void) {
    sab_sizes *sizes = complexities(LOADED_SAMPLES);
    sab_sampler *sampler = NULL;
    sab_bagua_options options = SAB_BAGUA_OPTIONS_INIT;
    EXPECT_FAILS(sab_bagua_sampler_new(NULL, NULL, NULL, &sampler), SAB_E_ARGUMENT,
                 "complexity = NULL: must be given");
    EXPECT_FAILS(sab_bagua_sampler_new(sizes, NULL, NULL, NULL), SAB_E_ARGUMENT,
                 "sampler = NULL: must be given");
    const struct {
        sab_bagua_options options;
        const char *words;
    } wrong[] = {
        {{4, 1, 0, 0, 1, 0, NULL, NULL, NULL}, "balancing.struct_size = 4"},
        {{sizeof options, 2, 0, 0, 0, 0, NULL, NULL, NULL},
         "balancing.no_shuffle = 2: must be 0 or 1"},
        {{sizeof options, 1, -1, 0, 1, 0, NULL, NULL, NULL},
         "balancing.drop_last = -1: must be 0 or 1"},
        {{sizeof options, 1, 0, 1.5, 1, 0, NULL, NULL, NULL},
         "balancing.random_level = 1.5: must be from 0 to 1"},
        {{sizeof options, 1, 0, NAN, 1, 0, NULL, NULL, NULL},
         "balancing.random_level = nan: must be from 0 to 1"},
        {{sizeof options, 0, 0, 0, 2, 500, NULL, NULL, NULL},
         "balancing.batch_size = 2: must be 0 beside balancing.limit"},
        {{sizeof options, 0, 0, 0, 0, 0, NULL, NULL, free},
         "balancing.release = given: must be NULL without balancing.make_batches"},
    };
    for (size_t i = 0; i < COUNT(wrong); ++i)
        EXPECT_FAILS(sab_bagua_sampler_new(sizes, &wrong[i].options, NULL, &sampler),
                     SAB_E_ARGUMENT, wrong[i].words);
    sab_sampler_options two = ranks(0, 2);
    const struct {
        double budget;
        int32_t (*make_batches)(void *, const int64_t *, size_t, sab_batches *);
        const char *words;
    } wrong_batches[] = {
        {INFINITY, NULL, "balancing.limit = inf: must be finite"},
        {95, NULL, "balancing.limit = 95: complexity[61] = 96 alone is more"},
        {95, wrong_index, "balancing.limit = 95: must not be set beside balancing.make_batches"},
        {0, wrong_index, "indices[1] = 150: must be"},
        {0, none_of_the_first, "made no batch for rank 0 and 1 for another"},
    };
    options.no_shuffle = 1;
    for (size_t i = 0; i < COUNT(wrong_batches); ++i) {
        options.limit = wrong_batches[i].budget;
        options.make_batches = wrong_batches[i].make_batches;
        EXPECT_FAILS(sab_bagua_sampler_new(sizes, &options, &two, &sampler), SAB_E_ARGUMENT,
                     wrong_batches[i].words);
    }
    two.costliest_first = 1;
    EXPECT_FAILS(sab_bagua_sampler_new(sizes, NULL, &two, &sampler), SAB_E_ARGUMENT,
                 "options.costliest_first = 1: must be 0");
    two.costliest_first = 0;
    two.world_size = 1048577;
    EXPECT_FAILS(sab_bagua_sampler_new(sizes, NULL, &two, &sampler), SAB_E_ARGUMENT,
                 "options.world_size = 1048577: load is balanced over at most");
    two = ranks(2, 2);
    EXPECT_FAILS(sab_bagua_sampler_new(sizes, NULL, &two, &sampler), SAB_E_ARGUMENT,
                 "options.rank = 2: must be below");
    const double negative[] = {1, -1};
    sab_sizes *broken = NULL;
    EXPECT_OK(sab_sizes_new(negative, 2, SAB_FLOAT64, NULL, &broken));
    EXPECT_FAILS(sab_bagua_sampler_new(broken, NULL, NULL, &sampler), SAB_E_ARGUMENT,
                 "complexity[1] = -1: must not be negative");
    sab_sizes_free(broken);
    sab_sizes_free(sizes);
}

static void StateOfBatches_IsNoneOfTheirSamplers(void) {
    sab_sizes *sizes = complexities(LOADED_SAMPLES);
    sab_bagua_options options = SAB_BAGUA_OPTIONS_INIT;
    sab_sampler *sampler = NULL, *batches = NULL;
    options.limit = 100;
    EXPECT_OK(sab_bagua_sampler_new(sizes, NULL, NULL, &sampler));
    EXPECT_OK(sab_bagua_sampler_new(sizes, &options, NULL, &batches));
    struct state state;
    EXPECT_OK(save_state(batches, &state));
    EXPECT_FAILS(restore_state(sampler, &state), SAB_E_MISMATCH, "other complexities or options");
    EXPECT_FAILS(sab_sampler_set_budget(sampler, 0, 5), SAB_E_UNSUPPORTED, "not a plan's");
    sab_sampler_free(sampler);
    sab_sampler_free(batches);
    sab_sizes_free(sizes);
}

static void LoadBalancing_OfNoSamples_EndsAtOnce(void) {
    sab_sampler *sampler = NULL;
    sab_sizes *none = complexities(0);
    EXPECT_OK(sab_bagua_sampler_new(none, NULL, NULL, &sampler));
    sab_batch batch = SAB_BATCH_INIT;
    EXPECT(sab_next_batch(sampler, &batch) == SAB_END);
    sab_sampler_free(sampler);
    sab_sizes_free(none);
}

int main(void) {
    RUN(CreateBuckets_GivesTheDocumentedResults);
    RUN(TorchOrder_GivesTheDocumentedBatches);
    RUN(TorchOrder_GeneratorGoesOnElsewhere);
    RUN(SizeAware_FollowsTheDocumentedRule);
    RUN(SizeAwareSampler_WhoseSizesGrew_Fails);
    RUN(Stream_FailsAndGoesOn_AndIsReleasedOnce);
    RUN(SizeAware_GivesTheDocumentedBatches);
    RUN(SizeAware_FollowsTheRuleWrittenOut);
    RUN(Stream_BeginsAgainWithTheEpoch);
    RUN(Stream_OverItsLimit_HasNoBatch);
    RUN(BaguaSampler_ThatDropsAllSamples_HasNoBatch);
    RUN(TorchOrder_SaysWhatItCannot);
    RUN(TorchOrder_GoesOnAfterAFailedCallback);
    RUN(LoadBalancing_GivesThePublishedOrder);
    RUN(LoadBalancing_CoversEverySampleInEqualSteps);
    RUN(RanksOfAStep_GetNeighboursByComplexity);
    RUN(MadeBatches_AreAsManyOnEveryRank);
    RUN(ARankThatLacksMoreThanItHas_GoesRoundAgain);
    RUN(MaxTotal_MakesBatchesWithoutACallback);
    RUN(State_GoesOnWithTheSameOrOtherRanks);
    RUN(ACallbackThatFails_ComesBackUnchangedAndChangesNothing);
    RUN(StateOfACallbackThatMadeMore_IsRefusedWithoutAskingTwice);
    RUN(WrongLoadBalancing_IsRefusedByName);
    RUN(StateOfBatches_IsNoneOfTheirSamplers);
    RUN(LoadBalancing_OfNoSamples_EndsAtOnce);
    return finish();
}
