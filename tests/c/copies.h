/* The functions of one copy of the library among several: all that the embedding tests call. */
#ifndef COPIES_H
#define COPIES_H

#include <sab.h>

#define EACH_FUNCTION(of)                                                                          \
    of(sab_version_string) of(sab_last_error_message) of(sab_log_set_callback) of(sab_sizes_new)   \
        of(sab_sizes_free) of(sab_plan_new) of(sab_plan_free) of(sab_bucket_sampler_new)           \
            of(sab_next_batch) of(sab_sampler_free) of(sab_callback_stream_new)                    \
                of(sab_prefetch_stream_new) of(sab_stream_next) of(sab_stream_free)                \
                    of(sab_cache_new) of(sab_cache_get) of(sab_cache_put) of(sab_cache_value_data) \
                        of(sab_cache_value_free) of(sab_cache_free) of(sab_torch_open)

#define FUNCTION(name) __typeof__(name) *name;
typedef struct copy {
    void *library; /* of dlopen */
    EACH_FUNCTION(FUNCTION)
} copy;

#endif
