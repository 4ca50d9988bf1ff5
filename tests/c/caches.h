/* Caches that must open, and what must be in them. */
#ifndef CACHES_H
#define CACHES_H

#include <time.h>

#include "helpers.h"

static inline void wait_ms(int64_t milliseconds) {
    const struct timespec pause = {milliseconds / 1000, milliseconds % 1000 * 1000000};
    nanosleep(&pause, NULL);
}

static inline sab_cache *opened(const char *url, const sab_cache_options *options) {
    sab_cache *cache = NULL;
    EXPECT_OK(sab_cache_new(url, options, &cache));
    return cache;
}

static inline sab_cache_stats stats_of(const sab_cache *cache) {
    sab_cache_stats stats = SAB_CACHE_STATS_INIT;
    EXPECT_OK(sab_cache_get_stats(cache, &stats));
    return stats;
}

static inline void put(sab_cache *cache, const char *key, const char *value) {
    EXPECT_OK(sab_cache_put(cache, key, strlen(key), value, strlen(value)));
}

/* Whether the key has that value; none where it is NULL. */
static inline int has(sab_cache *cache, const char *key, const char *value) {
    sab_cache_value *found = NULL;
    EXPECT_OK(sab_cache_get(cache, key, strlen(key), &found));
    size_t size = 0;
    const void *data = sab_cache_value_data(found, &size);
    const int is_so =
        value == NULL ? found == NULL
                      : found != NULL && size == strlen(value) && memcmp(data, value, size) == 0;
    sab_cache_value_free(found);
    return is_so;
}

/* Makes a value, after a pause. */
typedef struct maker {
    sab_cache *cache;
    int calls, pause_ms, code;
    const char *value;
} maker;

static inline int32_t make(void *ctx, const void *key, size_t key_size, const void **data,
                           size_t *size) {
    maker *own = ctx;
    (void)key, (void)key_size;
    __atomic_add_fetch(&own->calls, 1, __ATOMIC_SEQ_CST);
    wait_ms(own->pause_ms);
    *data = own->value;
    *size = strlen(own->value);
    return own->code;
}

static inline int loads_to(sab_cache *cache, const char *key, maker *own, const char *value) {
    sab_cache_value *found = NULL;
    EXPECT_OK(sab_cache_get_or_load(cache, key, strlen(key), make, own, NULL, &found));
    size_t size = 0;
    const void *data = sab_cache_value_data(found, &size);
    const int is_so = size == strlen(value) && memcmp(data, value, size) == 0;
    sab_cache_value_free(found);
    return is_so;
}

/* The value of a key and a round: as long as its key says, of one letter. */
static inline size_t value_of(int key, int round, char *value) {
    const size_t size = 1 + (size_t)(key * 997) % 20000;
    memset(value, 'a' + round % 26, size);
    return size;
}

static inline int is_whole(const sab_cache_value *found, int key) {
    size_t size = 0;
    const char *data = sab_cache_value_data(found, &size);
    char expected[20001];
    if (size != value_of(key, 0, expected)) return 0;
    for (size_t i = 1; i < size; ++i)
        if (data[i] != data[0]) return 0;
    return data[0] >= 'a' && data[0] <= 'z';
}

#endif
