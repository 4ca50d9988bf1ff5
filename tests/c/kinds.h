/* A sampler of each kind, over the same lengths. */
#ifndef KINDS_H
#define KINDS_H

#include "constructors.h"
#include "helpers.h"

static inline sab_plan *plan_for(const struct constructor *kind, const int32_t *numbers,
                                 size_t count) {
    static const double boundaries[] = {0, 8, 30, 100};
    sab_plan_options options = budget(200);
    if (kind->source == OF_BOUNDARIES) {
        options.bucket_rule = SAB_BUCKETS_BOUNDARIES;
        options.boundaries = boundaries;
        options.boundary_count = COUNT(boundaries);
    }
    return plan_with(numbers, count, &options);
}

static inline struct inputs inputs_of(const int32_t *numbers, size_t count, const sab_sizes *sizes,
                                      const sab_plan *plan) {
    struct inputs given = default_inputs();
    given.numbers = numbers;
    given.count = count;
    given.sizes = sizes;
    given.plan = plan;
    return given;
}

/* The numbers must outlive the sampler. */
static inline sab_status make_of_kind(const struct constructor *kind, const int32_t *numbers,
                                      size_t count, const sab_sampler_options *options,
                                      sab_sampler **sampler) {
    sab_sizes *sizes = sizes_of(numbers, count);
    sab_plan *plan = plan_for(kind, numbers, count);
    struct inputs given = inputs_of(numbers, count, sizes, plan);
    given.options = *options;
    if (given.options.world_size == 0) given.options.world_size = 1; /* callbacks read it */
    const sab_status status = kind->make(&given, sampler);
    sab_plan_free(plan);
    sab_sizes_free(sizes);
    return status;
}

static inline sab_sampler *sampler_of_kind(const struct constructor *kind, const int32_t *numbers,
                                           size_t count, const sab_sampler_options *options) {
    sab_sampler *sampler = NULL;
    EXPECT_OK(make_of_kind(kind, numbers, count, options, &sampler));
    return sampler;
}

#endif
