/* Times of a cache from C, one JSON object a line: cache lmdb FOLDER, or cache redis URL. Seconds
 * for one value, the least of several rounds in turns. */
#include <string.h>

#include "timing.h"

enum {
    ROUNDS = 7,
    LARGE = 100000,
    LARGE_COUNT = 2000,
    SMALL = 100,
    SMALL_COUNT = 100000,
    BATCH = 1000
};

static void row(const char* figure, double seconds) {
    printf("{\"figure\": \"%s\", \"seconds\": %.12g}\n", figure, seconds);
}

/* Counts that do not come in the order of keys, which are of eight bytes. */
static uint64_t key_of(int i, int count) {
    return (uint64_t)i * 7919 % (uint64_t)count;
}

static uint64_t any; /* so that nothing is left out */

static void from_files(const char* folder) {
    char url[4096];
    snprintf(url, sizeof url, "lmdb:%s/bench.mdb", folder);
    sab_cache_options options = SAB_CACHE_OPTIONS_INIT;
    options.dataset_name = "large";
    options.writer_buffer_size = 100;
    sab_cache *large = NULL, *small = NULL;
    check(sab_cache_new(url, &options, &large));
    options.dataset_name = "small";
    options.writer_buffer_size = 10000;
    check(sab_cache_new(url, &options, &small));
    char *bytes = malloc((size_t)LARGE * LARGE_COUNT), *out = malloc(LARGE);
    for (size_t i = 0; i < (size_t)LARGE * LARGE_COUNT; ++i)
        bytes[i] = (char)(i * 2654435761u >> 13);
    for (uint64_t i = 0; i < LARGE_COUNT; ++i)
        check(sab_cache_put(large, &i, sizeof i, bytes + i * LARGE, LARGE));
    for (uint64_t i = 0; i < SMALL_COUNT; ++i)
        check(sab_cache_put(small, &i, sizeof i, bytes + i, SMALL));
    check(sab_cache_flush(large)), check(sab_cache_flush(small));
    double copied = 0, gotten = 0, viewed = 0, of_small = 0;
    for (int round = 0; round < ROUNDS; ++round) {
        double began = now();
        for (int i = 0; i < LARGE_COUNT; ++i) {
            memcpy(out, bytes + key_of(i, LARGE_COUNT) * LARGE, LARGE);
            any += (uint64_t)out[i];
        }
        least(&copied, began, LARGE_COUNT);
        for (int is_copied = 0; is_copied < 2; ++is_copied) {
            began = now();
            for (int i = 0; i < LARGE_COUNT; ++i) {
                const uint64_t key = key_of(i, LARGE_COUNT);
                sab_cache_value* value = NULL;
                size_t size = 0;
                check(sab_cache_get(large, &key, sizeof key, &value));
                const char* data = sab_cache_value_data(value, &size);
                if (size != LARGE) exit(1);
                if (is_copied) memcpy(out, data, size);
                any += (uint64_t)(is_copied ? out : data)[i];
                sab_cache_value_free(value);
            }
            least(is_copied ? &gotten : &viewed, began, LARGE_COUNT);
        }
        began = now();
        for (int i = 0; i < SMALL_COUNT; ++i) {
            const uint64_t key = key_of(i, SMALL_COUNT);
            sab_cache_value* value = NULL;
            check(sab_cache_get(small, &key, sizeof key, &value));
            any += (uint64_t)*(const char*)sab_cache_value_data(value, NULL);
            sab_cache_value_free(value);
        }
        least(&of_small, began, SMALL_COUNT);
    }
    row("memcpy, 100 KB", copied), row("lmdb get and copy, 100 KB", gotten),
        row("lmdb get, 100 KB", viewed), row("lmdb get, 100 B", of_small);
    sab_cache_free(large), sab_cache_free(small);
    free(bytes), free(out);
}

static void over_redis(const char* url) {
    static uint64_t keys[BATCH];
    static sab_cache_item items[BATCH];
    static sab_cache_value* values[BATCH];
    static char bytes[LARGE];
    sab_cache_options options = SAB_CACHE_OPTIONS_INIT;
    options.dataset_name = "bench";
    const uint64_t buffers[] = {1, 20, 1000};
    sab_cache* caches[3];
    for (int i = 0; i < 3; ++i) {
        options.writer_buffer_size = buffers[i];
        check(sab_cache_new(url, &options, &caches[i]));
    }
    for (int i = 0; i < LARGE; ++i) bytes[i] = (char)(i * 31 % 251);
    for (uint64_t i = 0; i < BATCH; ++i) {
        keys[i] = i;
        items[i] = (sab_cache_item){&keys[i], sizeof keys[i], bytes + i, SMALL};
    }
    double put_many = 0, get_many = 0, get_large = 0, get_small = 0, puts[3] = {0, 0, 0};
    const uint64_t large = 1u << 30;
    check(sab_cache_put(caches[0], &large, sizeof large, bytes, LARGE));
    for (int round = 0; round < ROUNDS; ++round) {
        double began = now();
        for (int i = 0; i < 20; ++i) check(sab_cache_put_many(caches[0], items, BATCH));
        least(&put_many, began, 20 * BATCH);
        began = now();
        for (int i = 0; i < 20; ++i) {
            check(sab_cache_get_many(caches[0], items, BATCH, values));
            for (int k = 0; k < BATCH; ++k) sab_cache_value_free(values[k]);
        }
        least(&get_many, began, 20 * BATCH);
        for (int is_large = 0; is_large < 2; ++is_large) {
            began = now();
            for (int i = 0; i < 500; ++i) {
                check(sab_cache_get(caches[0], is_large ? &large : &keys[i], sizeof large,
                                    &values[0]));
                any += (uint64_t)*(const char*)sab_cache_value_data(values[0], NULL);
                sab_cache_value_free(values[0]);
            }
            least(is_large ? &get_large : &get_small, began, 500);
        }
        for (int b = 0; b < 3; ++b) {
            began = now();
            for (int i = 0; i < 2 * BATCH; ++i)
                check(sab_cache_put(caches[b], &keys[i % BATCH], sizeof keys[0], bytes, SMALL));
            check(sab_cache_flush(caches[b]));
            least(&puts[b], began, 2 * BATCH);
        }
    }
    sab_cache_stats stats = SAB_CACHE_STATS_INIT;
    check(sab_cache_get_stats(caches[0], &stats));
    if (stats.misses > 0 || stats.failures > 0) return exit(1);
    row("put_many, 1000 x 100 B", put_many), row("get_many, 1000 x 100 B", get_many),
        row("get, 100 B", get_small), row("get, 100 KB", get_large);
    row("put, buffer of 1", puts[0]), row("put, buffer of 20", puts[1]),
        row("put, buffer of 1000", puts[2]);
    for (int i = 0; i < 3; ++i) sab_cache_free(caches[i]);
}

int main(int argc, char** argv) {
    if (argc != 3) return 2;
    if (strcmp(argv[1], "lmdb") == 0) from_files(argv[2]);
    if (strcmp(argv[1], "redis") == 0) over_redis(argv[2]);
    return any == 1; /* never */
}
