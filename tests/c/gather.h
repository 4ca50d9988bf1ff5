/* Ranks as threads that gather what each gives. Include it first. */
#ifndef GATHER_H
#define GATHER_H

#include <pthread.h>

#include "helpers.h"

#define MOST_RANKS 6

typedef struct group {
    pthread_barrier_t barrier;
    const void *given[MOST_RANKS];
    uint64_t world_size;
} group;

typedef struct member {
    group *group;
    uint64_t rank;
    int fails;
} member;

static inline int32_t gather(void *ctx, const void *mine, size_t size, void *all) {
    member *const own = ctx;
    if (own->fails) return 55;
    own->group->given[own->rank] = mine;
    pthread_barrier_wait(&own->group->barrier);
    for (uint64_t r = 0; r < own->group->world_size; ++r)
        if (size > 0) memcpy((char *)all + r * size, own->group->given[r], size);
    pthread_barrier_wait(&own->group->barrier);
    return 0;
}

typedef struct job {
    member member;
    const int32_t *sizes;
    size_t count;
    const int64_t *ids; /* of the sources of a mixture; NULL: it is none */
    sab_mixture_options mixture;
    sab_plan_options plan;
    sab_sampler_options options;
    sab_sampler *sampler;
    sab_status status;
    char message[1024];
} job;

static inline void *make_sharded(void *data) {
    job *const j = data;
    sab_sizes *sizes = NULL;
    j->status = sab_sizes_new(j->sizes, j->count, SAB_INT32, NULL, &sizes);
    if (j->status == SAB_OK && j->ids != NULL) {
        sab_sizes *mixture = NULL;
        j->status = mixture_by_ids(sizes, j->ids, j->count, &j->mixture, &mixture);
        sab_sizes_free(sizes);
        sizes = mixture;
    }
    if (j->status == SAB_OK)
        j->status =
            sab_sharded_sampler_new(sizes, &j->plan, &j->options, gather, &j->member, &j->sampler);
    if (j->status != SAB_OK) strcpy(j->message, sab_last_error_message());
    sab_sizes_free(sizes);
    return NULL;
}

static inline void on_all(void *(*run)(void *), job *jobs, uint64_t world_size) {
    pthread_t threads[MOST_RANKS];
    group all = {.world_size = world_size};
    pthread_barrier_init(&all.barrier, NULL, (unsigned)world_size);
    for (uint64_t r = 0; r < world_size; ++r) {
        jobs[r].member.group = &all;
        jobs[r].member.rank = r;
        pthread_create(&threads[r], NULL, run, &jobs[r]);
    }
    for (uint64_t r = 0; r < world_size; ++r) pthread_join(threads[r], NULL);
    pthread_barrier_destroy(&all.barrier);
}

static inline void free_all(job *jobs, uint64_t world_size) {
    for (uint64_t r = 0; r < world_size; ++r) {
        sab_sampler_free(jobs[r].sampler);
        jobs[r].sampler = NULL;
    }
}

#endif
