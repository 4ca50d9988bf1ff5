/* Every constructor of a sampler. The tests that hold for all samplers, and the golden vectors,
 * read this table: a new sampler needs a row. C and C++; needs nothing but libsab. */
#ifndef CONSTRUCTORS_H
#define CONSTRUCTORS_H

#include <stdint.h>
#include <string.h>

#include "budgets.h"
#include "one.h"

/* What constructors are given. Each reads what it needs. */
struct inputs {
    const int32_t *numbers; /* the sizes, where there is no handle of them */
    size_t count;
    const sab_sizes *sizes;
    const sab_plan *plan;
    const sab_plan_options *plan_options; /* of a sampler that makes a plan; NULL: `number` */
    double number;                        /* a budget or a count */
    sab_packed_options packed;
    sab_balanced_options balanced;
    sab_bagua_options bagua;
    sab_sampler_options options;
};

static inline struct inputs default_inputs(void) {
    const sab_packed_options packed = SAB_PACKED_OPTIONS_INIT;
    const sab_balanced_options balanced = SAB_BALANCED_OPTIONS_INIT;
    const sab_bagua_options bagua = SAB_BAGUA_OPTIONS_INIT;
    sab_sampler_options options = SAB_SAMPLER_OPTIONS_INIT;
    options.world_size = 1; /* the callbacks of the sharded sampler read it */
    struct inputs inputs;
    memset(&inputs, 0, sizeof inputs);
    inputs.number = 200;
    inputs.packed = packed;
    inputs.packed.capacities = one_count(128), inputs.packed.capacity_count = 1;
    inputs.balanced = balanced;
    SET_BUDGET(inputs.balanced, 200);
    inputs.bagua = bagua;
    inputs.bagua.batch_size = 3;
    inputs.options = options;
    return inputs;
}

static inline sab_status make_bucket(const struct inputs *given, sab_sampler **sampler) {
    return sab_bucket_sampler_new(given->plan, &given->options, sampler);
}

/* Orders that are not shuffled refuse a seed. */
static inline sab_sampler_options unshuffled(const struct inputs *given) {
    sab_sampler_options options = given->options;
    options.seed = options.costliest_first = 0;
    return options;
}

static inline sab_status make_sequential(const struct inputs *given, sab_sampler **sampler) {
    const sab_sampler_options options = unshuffled(given);
    return sab_sequential_sampler_new(given->plan, &options, sampler);
}

static inline sab_status make_costliest(const struct inputs *given, sab_sampler **sampler) {
    return sab_costliest_sampler_new(given->plan, (uint64_t)given->number, sampler);
}

static inline sab_status make_packed(const struct inputs *given, sab_sampler **sampler) {
    return sab_packed_sampler_new(given->sizes, &given->packed, &given->options, sampler);
}

/* Sizes of two columns, the same numbers twice, under two capacities. */
static inline sab_status make_rows(const struct inputs *given, sab_sampler **sampler) {
    const uint64_t capacities[] = {128, 200};
    const sab_sizes *const parts[] = {given->sizes, given->sizes};
    sab_packed_options packed = given->packed;
    sab_sizes *columns = NULL;
    if (given->sizes != NULL) {
        const sab_status made = sab_sizes_columns_new(parts, NULL, 2, &columns);
        if (made != SAB_OK) return made;
    }
    packed.capacities = one_count(0), packed.capacity_count = 1;
    packed.capacities = capacities;
    packed.capacity_count = 2;
    const sab_status status = sab_packed_sampler_new(columns, &packed, &given->options, sampler);
    sab_sizes_free(columns);
    return status;
}

static inline sab_status make_balanced(const struct inputs *given, sab_sampler **sampler) {
    return sab_balanced_sampler_new(given->sizes, &given->balanced, &given->options, sampler);
}

/* Every rank has the same shard. */
static inline int32_t gather_repeated(void *ctx, const void *mine, size_t size, void *all) {
    const struct inputs *given = (const struct inputs *)ctx;
    for (uint64_t rank = 0; rank < given->options.world_size; ++rank)
        memcpy((char *)all + rank * size, mine, size);
    return 0;
}

static inline sab_status make_sharded(const struct inputs *given, sab_sampler **sampler) {
    sab_plan_options plan = SAB_PLAN_OPTIONS_INIT;
    SET_BUDGET(plan, given->number);
    struct inputs ctx = *given;
    sab_sampler_options options = given->options; /* it has no others */
    options.last_step = SAB_LAST_STEP_SPLIT;
    options.costliest_first = 0;
    return sab_sharded_sampler_new(given->sizes,
                                   given->plan_options != NULL ? given->plan_options : &plan,
                                   &options, gather_repeated, &ctx, sampler);
}

static inline sab_status make_ordered(const struct inputs *given, sab_sampler **sampler) {
    const sab_sampler_options options = unshuffled(given);
    return sab_ordered_sampler_new(NULL, sab_sizes_count(given->sizes), given->sizes, given->number,
                                   &options, sampler);
}

/* The sizes of the stream sampler that was made last. */
static struct stream_source {
    const int32_t *numbers;
    size_t count;
} stream_source;

static inline int32_t next_of_source(void *ctx, uint64_t epoch, uint64_t position, int64_t *index,
                                     double *size) {
    (void)ctx, (void)epoch;
    if (position >= stream_source.count) return SAB_END;
    *index = (int64_t)position;
    *size = stream_source.numbers[position];
    return 0;
}

static inline sab_status make_bionemo_size_aware_stream(const struct inputs *given,
                                                        sab_sampler **sampler) {
    stream_source.numbers = given->numbers;
    stream_source.count = given->count;
    return sab_bionemo_size_aware_stream_sampler_new(next_of_source, NULL, NULL, given->number,
                                                     sampler);
}

static inline sab_status make_bionemo(const struct inputs *given, sab_sampler **sampler) {
    sab_bionemo_options options = SAB_BIONEMO_OPTIONS_INIT;
    options.seed = given->options.seed;
    return sab_bionemo_sampler_new(given->plan, &options, sampler);
}

static inline sab_status make_bagua(const struct inputs *given, sab_sampler **sampler) {
    return sab_bagua_sampler_new(given->sizes, &given->bagua, &given->options, sampler);
}

static inline sab_status make_bagua_batch(const struct inputs *given, sab_sampler **sampler) {
    sab_bagua_options bagua = given->bagua;
    bagua.batch_size = 0;
    bagua.limit = given->number;
    return sab_bagua_sampler_new(given->sizes, &bagua, &given->options, sampler);
}

/* What a constructor reads besides options. */
enum source {
    OF_SIZES,
    OF_PLAN,
    OF_BOUNDARIES, /* a plan by boundaries */
    OF_NUMBERS
};

/* Properties of samplers. */
#define WITH_OPTIONS 1u /* it takes sab_sampler_options */
#define ONE_RANK 2u     /* these tests make it on one rank, without dropped or repeated batches */
#define REPEATS 4u      /* it repeats samples to make ranks equal, whatever the options */
#define BY_MICRO_BATCHES 8u /* its order depends on the number of micro-batches */
#define BY_GENERATOR 16u    /* its order depends on the passes before */
#define COUNTED SAB_SAMPLER_BATCH_COUNT
#define ANYWHERE (SAB_SAMPLER_BATCH_COUNT | SAB_SAMPLER_RANDOM_ACCESS | SAB_SAMPLER_SCHEDULE)
#define LOWERABLE (ANYWHERE | SAB_SAMPLER_BUDGET)

struct constructor {
    const char
        *name; /* of sab_NAME_sampler_new, and in golden vectors; "bagua_batch" with `limit` */
    sab_status (*make)(const struct inputs *given, sab_sampler **sampler);
    enum source source;
    unsigned properties;
    uint64_t capabilities;
};

static const struct constructor constructors[] = {
    {"bucket", make_bucket, OF_PLAN, WITH_OPTIONS, LOWERABLE},
    {"sequential", make_sequential, OF_PLAN, WITH_OPTIONS, LOWERABLE},
    {"costliest", make_costliest, OF_PLAN, 0, ANYWHERE},
    {"packed", make_packed, OF_SIZES, WITH_OPTIONS, ANYWHERE},
    {"rows", make_rows, OF_SIZES, WITH_OPTIONS, ANYWHERE},
    {"balanced", make_balanced, OF_SIZES, WITH_OPTIONS | BY_MICRO_BATCHES, ANYWHERE},
    {"sharded", make_sharded, OF_SIZES, WITH_OPTIONS | ONE_RANK, ANYWHERE},
    {"bionemo", make_bionemo, OF_BOUNDARIES, BY_GENERATOR, COUNTED},
    {"ordered", make_ordered, OF_SIZES, WITH_OPTIONS, ANYWHERE},
    {"bionemo_size_aware_stream", make_bionemo_size_aware_stream, OF_NUMBERS, 0, 0},
    {"bagua", make_bagua, OF_SIZES, WITH_OPTIONS | REPEATS, ANYWHERE},
    {"bagua_batch", make_bagua_batch, OF_SIZES, WITH_OPTIONS | REPEATS, ANYWHERE},
};
#define CONSTRUCTORS (sizeof constructors / sizeof *constructors)
#define FOR_CONSTRUCTORS(each) \
    for (const struct constructor *each = constructors; each != constructors + CONSTRUCTORS; ++each)

/* NULL for a name that no row has. */
static inline const struct constructor *constructor_of(const char *name) {
    FOR_CONSTRUCTORS(each)
    if (strcmp(each->name, name) == 0) return each;
    return NULL;
}

#endif
