/* A sampler of each kind, over the same lengths. */
#ifndef KINDS_H
#define KINDS_H

#include "helpers.h"

enum kind {
    /* of sab_sampler_options: ranks, micro-batches, random access */
    BUCKET,
    SEQUENTIAL,
    PACKED,
    SIZE_AWARE,
    BAGUA,
    BAGUA_BATCHES,
    SHARDED, /* of one rank */
    BALANCED,
    WITH_OPTIONS,
    COSTLIEST = WITH_OPTIONS, /* random access */
    /* one rank, in order only */
    BIONEMO,
    SIZE_AWARE_STREAM,
    READAHEAD,
    KINDS
};

struct stream_lengths {
    const int32_t *numbers;
    size_t count;
};

static inline int32_t next_length(void *ctx, uint64_t epoch, uint64_t position, int64_t *index,
                                  double *size) {
    const struct stream_lengths *of = ctx;
    (void)epoch;
    if (position >= of->count) return SAB_END;
    *index = (int64_t)position;
    *size = of->numbers[position];
    return 0;
}

static inline int32_t gather_alone(void *ctx, const void *mine, size_t size, void *all) {
    (void)ctx;
    memcpy(all, mine, size);
    return 0;
}

static inline sab_sampler *sampler_of_sizes(enum kind kind, const sab_sizes *sizes,
                                            const sab_sampler_options *options) {
    sab_sampler *sampler = NULL;
    sab_packed_options pack = SAB_PACKED_OPTIONS_INIT;
    sab_bagua_options balancing = SAB_BAGUA_OPTIONS_INIT;
    sab_balanced_options balanced = SAB_BALANCED_OPTIONS_INIT;
    sab_plan_options plan = budget(200);
    pack.capacity = 128;
    balancing.batch_size = 3;
    SET_BUDGET(balanced, 200);
    const size_t count = sab_sizes_count(sizes);
    switch (kind) {
        case PACKED: EXPECT_OK(sab_packed_sampler_new(sizes, &pack, options, &sampler)); break;
        case SIZE_AWARE:
            EXPECT_OK(
                sab_bionemo_size_aware_sampler_new(NULL, count, sizes, 200, options, &sampler));
            break;
        case BAGUA: EXPECT_OK(sab_bagua_sampler_new(sizes, &balancing, options, &sampler)); break;
        case BAGUA_BATCHES:
            balancing.budget = 200;
            EXPECT_OK(sab_bagua_batch_sampler_new(sizes, &balancing, options, &sampler));
            break;
        case SHARDED:
            EXPECT_OK(sab_sharded_sampler_new(sizes, &plan, options, gather_alone, NULL, &sampler));
            break;
        default: EXPECT_OK(sab_balanced_sampler_new(sizes, &balanced, options, &sampler)); break;
    }
    return sampler;
}

static inline sab_sampler *sampler_of_plan(enum kind kind, const sab_plan *plan,
                                           const sab_sampler_options *options) {
    sab_sampler *sampler = NULL;
    EXPECT_OK(kind == BUCKET       ? sab_bucket_sampler_new(plan, options, &sampler)
              : kind == SEQUENTIAL ? sab_sequential_sampler_new(plan, options, &sampler)
              : kind == COSTLIEST  ? sab_costliest_sampler_new(plan, 5, &sampler)
                                   : sab_bionemo_sampler_new(plan, NULL, &sampler));
    return sampler;
}

#if SAB_WITH_STREAM
static inline sab_sampler *sampler_of_stream(const int32_t *numbers, size_t count) {
    sab_stream *stream = NULL;
    sab_sampler *sampler = NULL;
    EXPECT_OK(sab_array_stream_new(numbers, sizeof *numbers, count, NULL, &stream));
    sab_readahead_stream_options options = SAB_READAHEAD_STREAM_OPTIONS_INIT;
    options.read_ahead = 4;
    options.batch_size = 2;
    EXPECT_OK(sab_readahead_sampler_new(stream, &options, &sampler));
    return sampler;
}
#endif

/* `options` are those of the first WITH_OPTIONS kinds. */
static inline sab_sampler *sampler_of_kind(enum kind kind, const int32_t *numbers, size_t count,
                                           const sab_sampler_options *options) {
    static struct stream_lengths source;
    static const double boundaries[] = {0, 8, 30, 100};
    sab_sampler *sampler = NULL;
#if SAB_WITH_STREAM
    if (kind == READAHEAD) return sampler_of_stream(numbers, count);
#endif
    if (kind == SIZE_AWARE_STREAM) {
        source = (struct stream_lengths){numbers, count};
        EXPECT_OK(
            sab_bionemo_size_aware_stream_sampler_new(next_length, &source, NULL, 200, &sampler));
        return sampler;
    }
    if (kind == BUCKET || kind == SEQUENTIAL || kind == COSTLIEST || kind == BIONEMO) {
        sab_plan_options how = budget(200);
        if (kind == BIONEMO) {
            how.bucket_rule = SAB_BUCKETS_BOUNDARIES;
            how.boundaries = boundaries;
            how.boundary_count = COUNT(boundaries);
        }
        sab_plan *plan = plan_with(numbers, count, &how);
        sampler = sampler_of_plan(kind, plan, options);
        sab_plan_free(plan);
        return sampler;
    }
    sab_sizes *sizes = sizes_of(numbers, count); /* the size-aware sampler keeps it alive */
    sampler = sampler_of_sizes(kind, sizes, options);
    sab_sizes_free(sizes);
    return sampler;
}

static inline int is_there(enum kind kind) {
    return kind != READAHEAD || SAB_WITH_STREAM;
}

#endif
