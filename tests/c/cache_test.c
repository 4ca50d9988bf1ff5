/* Values that are made once: in this process and in a file. */
#define _XOPEN_SOURCE 700
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "caches.h"
#include "one.h"

static char folder[64];

/* A URL of a new file. */
static const char *new_file(void) {
    static int number;
    static char url[128];
    snprintf(url, sizeof url, "lmdb:%s/%d.mdb", folder, number++);
    return url;
}

static sab_cache_options named(const char *name) {
    sab_cache_options options = SAB_CACHE_OPTIONS_INIT;
    options.dataset_name = name;
    return options;
}

static void values_are_kept(const char *url) {
    sab_cache *cache = opened(url, NULL);
    EXPECT(has(cache, "a", NULL));
    put(cache, "a", "one");
    put(cache, "b", "");
    EXPECT(has(cache, "a", "one") && has(cache, "b", ""));
    put(cache, "a", "two");
    EXPECT(has(cache, "a", "two"));
    uint64_t keys = 0;
    EXPECT_OK(sab_cache_get_key_count(cache, &keys));
    EXPECT(keys == 2);
    const sab_cache_item items[] = {
        {"c", 1, "three", 5}, {"a", 1, "four", 4}, {"d", 1, NULL, 0}, {"c", 1, "five", 4}};
    EXPECT_OK(sab_cache_put_many(cache, items, 4));
    sab_cache_value *values[5];
    const sab_cache_item keys_of[] = {{"a", 1, NULL, 0},
                                      {"x", 1, NULL, 0},
                                      {"c", 1, NULL, 0},
                                      {"c", 1, NULL, 0},
                                      {"d", 1, NULL, 0}};
    EXPECT_OK(sab_cache_get_many(cache, keys_of, 5, values));
    size_t size = 0;
    EXPECT(memcmp(sab_cache_value_data(values[0], &size), "four", 4) == 0 && size == 4);
    EXPECT(values[1] == NULL && values[4] != NULL);
    EXPECT(memcmp(sab_cache_value_data(values[3], &size), "five", 4) == 0 && size == 4);
    const sab_cache_stats stats = stats_of(cache);
    EXPECT(stats.hits == 3 + 4 && stats.misses == 2 && stats.failures == 0 && stats.dropped == 0);
    EXPECT_OK(sab_cache_clear(cache));
    EXPECT(has(cache, "a", NULL));
    EXPECT(memcmp(sab_cache_value_data(values[2], NULL), "five", 4) == 0); /* what is held stays */
    sab_cache_free(cache);
    EXPECT(memcmp(sab_cache_value_data(values[2], NULL), "five", 4) == 0);
    for (int i = 0; i < 5; ++i) sab_cache_value_free(values[i]);
}

static void values_are_kept_in_memory(void) {
    values_are_kept("memory:");
}
static void values_are_kept_in_a_file(void) {
    values_are_kept(new_file());
}

static void a_file_is_shared_by_name(void) {
    const char *url = new_file();
    const sab_cache_options one = named("one"), other = named("other");
    sab_cache *first = opened(url, &one), *second = opened(url, &one), *third = opened(url, &other);
    EXPECT(strcmp(stats_of(first).url, url) == 0);
    put(first, "a", "1");
    EXPECT(has(second, "a", "1") && has(third, "a", NULL));
    put(third, "a", "3");
    EXPECT_OK(sab_cache_clear(second));
    EXPECT(has(first, "a", NULL) && has(third, "a", "3"));
    sab_cache_free(first), sab_cache_free(second), sab_cache_free(third);
    third = opened(url, &other);
    EXPECT(has(third, "a", "3")); /* still there */
    sab_cache_free(third);
}

static void the_buffer_is_read_and_written_together(void) {
    const char *url = new_file();
    sab_cache_options options = named("x");
    sab_cache *reader = opened(url, &options);
    options.writer_buffer_size = 3;
    options.flush_interval = 1000;
    sab_cache *writer = opened(url, &options);
    put(writer, "a", "1");
    put(writer, "b", "2");
    EXPECT(has(writer, "a", "1") && has(reader, "a", NULL));
    EXPECT(stats_of(writer).buffered == 2 && stats_of(writer).bytes_written == 0);
    put(writer, "c", "3");
    EXPECT(has(reader, "a", "1") && has(reader, "c", "3") && stats_of(writer).buffered == 0);
    put(writer, "d", "4");
    EXPECT_OK(sab_cache_flush(writer));
    EXPECT(has(reader, "d", "4"));
    put(writer, "e", "5");
    uint64_t keys = 0;
    EXPECT_OK(sab_cache_get_key_count(writer, &keys));
    EXPECT(keys == 5);
    put(writer, "f", "6");
    sab_cache_free(writer);
    EXPECT(has(reader, "f", "6"));
    options.writer_buffer_size = 100;
    options.flush_interval = 1e-9;
    writer = opened(url, &options);
    put(writer, "g", "7");
    EXPECT(has(writer, "a", "1")); /* any call, the interval being over */
    EXPECT(has(reader, "g", "7"));
    sab_cache_free(writer), sab_cache_free(reader);
}

static void capacity_evicts_at_random(const char *url) {
    sab_cache_options options = named("x");
    options.capacity = 400000;
    sab_cache *cache = opened(url, &options);
    char value[10001] = {0}, key[16];
    memset(value, 'v', 10000);
    for (int i = 0; i < 400; ++i) {
        snprintf(key, sizeof key, "%d", i);
        put(cache, key, value);
        EXPECT(has(cache, key, value)); /* never what has just come */
    }
    uint64_t keys = 0;
    EXPECT_OK(sab_cache_get_key_count(cache, &keys));
    EXPECT(keys >= 20 && keys <= 40);
    int old = 0;
    for (int i = 0; i < 350; ++i) {
        snprintf(key, sizeof key, "%d", i);
        old += has(cache, key, value);
    }
    EXPECT(old > 0); /* not simply the oldest */
    EXPECT(stats_of(cache).evictions == 400 - keys);
    char *large = calloc(1, 500001);
    memset(large, 'v', 500000);
    put(cache, "large", large);
    EXPECT(has(cache, "large", NULL) && stats_of(cache).dropped == 1);
    free(large);
    sab_cache_free(cache);
}

static void capacity_evicts_at_random_in_memory(void) {
    capacity_evicts_at_random("memory:");
}
static void capacity_evicts_at_random_in_a_file(void) {
    const char *url = new_file();
    capacity_evicts_at_random(url);
    struct stat info;
    EXPECT(stat(url + 5, &info) == 0 && info.st_size < 1000000); /* places are used again */
}

static void a_value_is_made_once(void) {
    const char *urls[] = {"memory:", new_file()};
    for (int i = 0; i < 2; ++i) {
        sab_cache *cache = opened(urls[i], NULL);
        maker own = {cache, 0, 0, 0, "made"};
        EXPECT(loads_to(cache, "k", &own, "made") && loads_to(cache, "k", &own, "made"));
        EXPECT(own.calls == 1 && stats_of(cache).loads == 1 && stats_of(cache).hits == 1 &&
               stats_of(cache).misses == 1);
        own.code = 42;
        sab_cache_value *found = (sab_cache_value *)&own;
        EXPECT_FAILS(sab_cache_get_or_load(cache, "l", 1, make, &own, NULL, &found), SAB_E_CALLBACK,
                     "42");
        EXPECT(sab_last_error_code() == 42 && found == NULL && has(cache, "l", NULL));
        own.code = 0;
        EXPECT(loads_to(cache, "l", &own, "made"));
        sab_cache_free(cache);
    }
}

static void *load_in_thread(void *ctx) {
    maker *own = ctx;
    EXPECT(loads_to(own->cache, "same", own, "slow"));
    return NULL;
}

static void threads_wait_for_who_makes_it(void) {
    const char *urls[] = {"memory:", new_file()};
    for (int i = 0; i < 2; ++i) {
        sab_cache *cache = opened(urls[i], NULL);
        maker own = {cache, 0, 100, 0, "slow"};
        pthread_t threads[8];
        for (int t = 0; t < 8; ++t) pthread_create(&threads[t], NULL, load_in_thread, &own);
        for (int t = 0; t < 8; ++t) pthread_join(threads[t], NULL);
        EXPECT(own.calls == 1);
        sab_cache_free(cache);
    }
}

static void nobody_waits_longer_than_said(void) {
    sab_cache_options options = SAB_CACHE_OPTIONS_INIT;
    options.load_wait = 0.05;
    sab_cache *cache = opened("memory:", &options);
    maker own = {cache, 0, 400, 0, "slow"};
    pthread_t threads[3];
    for (int t = 0; t < 3; ++t) pthread_create(&threads[t], NULL, load_in_thread, &own);
    for (int t = 0; t < 3; ++t) pthread_join(threads[t], NULL);
    EXPECT(own.calls == 3);
    sab_cache_free(cache);
}

static int32_t make_within(void *ctx, const void *key, size_t key_size, const void **data,
                           size_t *size) {
    maker *own = ctx;
    (void)key, (void)key_size;
    maker inner = {own->cache, 0, 0, 0, "inner"};
    EXPECT(loads_to(own->cache, "same", &inner, "inner") && inner.calls == 1);
    *data = own->value;
    *size = strlen(own->value);
    return 0;
}

static void a_loader_may_ask_for_its_own_key(void) {
    sab_cache *cache = opened(new_file(), NULL);
    maker own = {cache, 0, 0, 0, "outer"};
    sab_cache_value *found = NULL;
    EXPECT_OK(
        sab_cache_get_or_load(cache, "same", 4, make_within, &own, a_progress(NULL, NULL), &found));
    EXPECT(memcmp(sab_cache_value_data(found, NULL), "outer", 5) == 0);
    sab_cache_value_free(found);
    sab_cache_free(cache);
}

static void processes_wait_for_who_makes_it(void) {
    const char *url = new_file();
    sab_cache *cache = opened(url, NULL);
    pid_t children[4];
    int calls[2];
    EXPECT(pipe(calls) == 0);
    for (int i = 0; i < 4; ++i) {
        children[i] = fork();
        if (children[i] == 0) {
            failures_of_test = 0;
            maker own = {cache, 0, 300, 0, "made"};
            int is_right = loads_to(cache, "k", &own, "made");
            is_right = is_right && write(calls[1], "xxxxx", (size_t)own.calls) == own.calls;
            sab_cache_free(cache);
            _exit(is_right && failures_of_test == 0 ? 0 : 1);
        }
    }
    for (int i = 0; i < 4; ++i) {
        int status = 1;
        EXPECT(waitpid(children[i], &status, 0) == children[i] && status == 0);
    }
    char made[8];
    close(calls[1]);
    EXPECT(read(calls[0], made, sizeof made) == 1);
    close(calls[0]);
    EXPECT(has(cache, "k", "made"));
    sab_cache_free(cache);
}

static void who_is_killed_while_making_does_not_hold_others_up(void) {
    const char *url = new_file();
    const pid_t child = fork();
    if (child == 0) {
        sab_cache *cache = NULL;
        sab_cache_new(url, NULL, &cache);
        maker own = {cache, 0, 60000, 0, "never"};
        sab_cache_value *found = NULL;
        sab_cache_get_or_load(cache, "k", 1, make, &own, NULL, &found);
        _exit(0);
    }
    wait_ms(300);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    sab_cache *cache = opened(url, NULL);
    maker own = {cache, 0, 0, 0, "mine"};
    EXPECT(loads_to(cache, "k", &own, "mine") && own.calls == 1);
    sab_cache_free(cache);
}

static void a_child_has_what_was_in_the_buffer_and_writes_nothing_twice(void) {
    const char *url = new_file();
    sab_cache_options options = named("x");
    options.writer_buffer_size = 100;
    options.flush_interval = 1000;
    sab_cache *cache = opened(url, &options), *process = opened("memory:", NULL);
    put(cache, "a", "1");
    put(process, "a", "1");
    sab_cache_value *held = NULL;
    EXPECT_OK(sab_cache_get(cache, "a", 1, &held));
    const pid_t child = fork();
    if (child == 0) {
        failures_of_test = 0;
        EXPECT(has(cache, "a", "1"));
        EXPECT(has(process, "a", NULL)); /* another process: empty */
        put(cache, "b", "2");
        sab_cache_value_free(held);
        sab_cache_free(cache);
        sab_cache_free(process);
        _exit(failures_of_test);
    }
    int status = 1;
    EXPECT(waitpid(child, &status, 0) == child && status == 0);
    EXPECT(has(cache, "a", "1") && has(cache, "b", "2"));
    EXPECT(memcmp(sab_cache_value_data(held, NULL), "1", 1) == 0);
    sab_cache_value_free(held);
    sab_cache_free(cache), sab_cache_free(process);
}

static void writers_killed_at_any_point_leave_it_whole(void) {
    const char *url = new_file();
    enum { KEYS = 40 };
    random_state = 17;
    for (int round = 0; round < 100; ++round) {
        const pid_t child = fork();
        if (child == 0) {
            sab_cache_options options = named("x");
            options.writer_buffer_size = 1 + (uint64_t)(round % 3) * 5;
            options.capacity = round % 2 == 0 ? 0 : 200000;
            sab_cache *cache = NULL;
            if (sab_cache_new(url, &options, &cache) != SAB_OK) _exit(1);
            char value[20001];
            for (int i = 0;; ++i) {
                const int key = i * 7 % KEYS;
                const size_t size = value_of(key, round + i, value);
                if (sab_cache_put(cache, &key, sizeof key, value, size) != SAB_OK) _exit(1);
            }
        }
        wait_ms(2 + below(20));
        kill(child, SIGKILL);
        int status = 0;
        waitpid(child, &status, 0);
        EXPECT(WIFSIGNALED(status));
        const sab_cache_options options = named("x");
        sab_cache *cache = opened(url, &options);
        for (int key = 0; key < KEYS; ++key) {
            sab_cache_value *found = NULL;
            EXPECT_OK(sab_cache_get(cache, &key, sizeof key, &found));
            EXPECT(found == NULL || is_whole(found, key));
            sab_cache_value_free(found);
        }
        EXPECT(stats_of(cache).damaged == 0);
        put(cache, "after", "wards");
        sab_cache_free(cache);
    }
}

static void eight_processes_at_one_file_see_whole_values(void) {
    const char *url = new_file();
    pid_t children[8];
    for (int i = 0; i < 8; ++i) {
        children[i] = fork();
        if (children[i] == 0) {
            failures_of_test = 0;
            random_state = 100 + (uint32_t)i;
            sab_cache_options options = named("x");
            options.writer_buffer_size = 1 + (uint64_t)(i % 3) * 4;
            options.capacity = 300000;
            sab_cache *cache = opened(url, &options);
            char value[20001];
            for (int round = 0; round < 300; ++round) {
                const int key = (int)below(60);
                if (below(2) == 0) {
                    const size_t size = value_of(key, round, value);
                    EXPECT_OK(sab_cache_put(cache, &key, sizeof key, value, size));
                } else {
                    sab_cache_value *found = NULL;
                    EXPECT_OK(sab_cache_get(cache, &key, sizeof key, &found));
                    EXPECT(found == NULL || is_whole(found, key));
                    sab_cache_value_free(found);
                }
            }
            EXPECT(stats_of(cache).failures == 0 && stats_of(cache).damaged == 0);
            sab_cache_free(cache);
            _exit(failures_of_test > 0);
        }
    }
    for (int i = 0; i < 8; ++i) {
        int status = 1;
        EXPECT(waitpid(children[i], &status, 0) == children[i] && status == 0);
    }
}

static void damaged_values_are_misses(void) {
    const char *url = new_file();
    sab_cache *cache = opened(url, NULL);
    char value[8001] = {0};
    memset(value, 'v', 8000);
    put(cache, "a", value);
    sab_cache_free(cache);
    FILE *file = fopen(url + 5, "r+b");
    char *bytes = malloc(1 << 20);
    const size_t size = fread(bytes, 1, 1 << 20, file);
    size_t run = 0, place = 0;
    for (size_t i = 0; i < size && place == 0; ++i) {
        run = bytes[i] == 'v' ? run + 1 : 0;
        if (run == 4000) place = i;
    }
    EXPECT(place > 0);
    fseek(file, (long)place, SEEK_SET);
    fputc('w', file);
    fclose(file);
    free(bytes);
    cache = opened(url, NULL);
    EXPECT(has(cache, "a", NULL));
    EXPECT(stats_of(cache).damaged == 1 && stats_of(cache).misses == 1);
    maker own = {cache, 0, 0, 0, "again"};
    EXPECT(loads_to(cache, "a", &own, "again") && has(cache, "a", "again"));
    sab_cache_free(cache);
}

static void what_is_no_file_of_its_own_is_refused(void) {
    char url[128];
    snprintf(url, sizeof url, "lmdb:%s/no/such/folder.mdb", folder);
    sab_cache *cache = NULL;
    EXPECT_FAILS(sab_cache_new(url, NULL, &cache), SAB_E_IO, "no/such/folder");
    EXPECT(cache == NULL);
    snprintf(url, sizeof url, "lmdb:%s/text", folder);
    FILE *file = fopen(url + 5, "wb");
    for (int i = 0; i < 10000; ++i) fputs("this is no database. ", file);
    fclose(file);
    EXPECT_FAILS(sab_cache_new(url, NULL, &cache), SAB_E_IO, "text");
}

static void count_line(void *ctx, sab_log_level level, const char *message) {
    int *lines = ctx;
    ++lines[level == SAB_LOG_WARNING ? 0 : 1];
    EXPECT(strstr(message, folder) != NULL);
}

static void a_full_disk_drops_what_is_new(void) {
    const char *url = new_file();
    sab_cache *cache = opened(url, NULL);
    sab_cache_options options = SAB_CACHE_OPTIONS_INIT;
    options.on_failure = SAB_CACHE_ERROR;
    sab_cache *strict = opened(url, &options);
    put(cache, "a", "1");
    int lines[2] = {0, 0};
    sab_log_set_callback(count_line, lines);
    struct rlimit before, less;
    getrlimit(RLIMIT_FSIZE, &before);
    less = before;
    less.rlim_cur = 100000;
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &less); /* what a full disk is, too: writes that fail */
    char *large = malloc(300001);
    memset(large, 'v', 300000);
    large[300000] = 0;
    for (int i = 0; i < 3; ++i) put(cache, "b", large);
    EXPECT(has(cache, "a", "1") && has(cache, "b", NULL));
    EXPECT(stats_of(cache).dropped == 3 && stats_of(cache).failures == 3 && lines[0] == 1);
    EXPECT_FAILS(sab_cache_put(strict, "b", 1, large, 300000), SAB_E_IO, folder);
    maker own = {cache, 0, 0, 0, large};
    EXPECT(loads_to(cache, "b", &own, large)); /* the trainer goes on */
    setrlimit(RLIMIT_FSIZE, &before);
    signal(SIGXFSZ, handler);
    put(cache, "b", large);
    EXPECT(has(cache, "b", large) && lines[1] == 1);
    sab_log_set_callback(NULL, NULL);
    free(large);
    sab_cache_free(cache), sab_cache_free(strict);
}

static void *load_b_same_in_thread(void *ctx) {
    maker *own = ctx;
    EXPECT(loads_to(own->cache, "b_same", own, "slow"));
    return NULL;
}

/* "a" and "b_same" are "a_b" and "same" when they are written one after the other. */
static void names_are_apart_while_values_are_made(void) {
    const char *url = new_file();
    const sab_cache_options first = named("a"), second = named("a_b");
    sab_cache *one = opened(url, &first), *two = opened(url, &second);
    maker own = {one, 0, 500, 0, "slow"}, other = {two, 0, 0, 0, "other"};
    pthread_t thread;
    pthread_create(&thread, NULL, load_b_same_in_thread, &own);
    while (__atomic_load_n(&own.calls, __ATOMIC_SEQ_CST) == 0) wait_ms(1);
    EXPECT(loads_to(two, "same", &other, "other") && other.calls == 1);
    pthread_join(thread, NULL);
    EXPECT(has(one, "b_same", "slow") && has(two, "same", "other"));
    sab_cache_free(one), sab_cache_free(two);
}

typedef struct crossing {
    sab_cache *cache;
    const char *mine, *other;
    int *ready;
} crossing;

static int32_t make_of_another(void *ctx, const void *key, size_t key_size, const void **data,
                               size_t *size) {
    const crossing *own = ctx;
    (void)key, (void)key_size;
    __atomic_add_fetch(own->ready, 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(own->ready, __ATOMIC_SEQ_CST) < 2) wait_ms(1);
    maker inner = {own->cache, 0, 0, 0, "inner"};
    sab_cache_value *found = NULL;
    EXPECT_OK(sab_cache_get_or_load(own->cache, own->other, 1, make, &inner, NULL, &found));
    sab_cache_value_free(found);
    *data = own->mine;
    *size = 1;
    return 0;
}

static void *load_across(void *ctx) {
    crossing *own = ctx;
    sab_cache_value *found = NULL;
    EXPECT_OK(sab_cache_get_or_load(own->cache, own->mine, 1, make_of_another, own, NULL, &found));
    EXPECT(memcmp(sab_cache_value_data(found, NULL), own->mine, 1) == 0);
    sab_cache_value_free(found);
    return NULL;
}

static void threads_that_would_wait_for_each_other_do_not(void) {
    sab_cache *cache = opened(new_file(), NULL);
    int ready = 0;
    crossing both[] = {{cache, "a", "b", &ready}, {cache, "b", "a", &ready}};
    pthread_t threads[2];
    const time_t start = time(NULL);
    for (int t = 0; t < 2; ++t) pthread_create(&threads[t], NULL, load_across, &both[t]);
    for (int t = 0; t < 2; ++t) pthread_join(threads[t], NULL);
    EXPECT(time(NULL) - start < 20); /* of the 60 that others are waited for */
    sab_cache_free(cache);
}

static int32_t stop_soon(void *ctx, uint64_t done, uint64_t total) {
    int *calls = ctx;
    EXPECT(done <= total && total == 60000);
    return ++*calls == 3 ? 77 : 0;
}

static void waiting_can_be_ended(void) {
    const char *url = new_file();
    sab_cache *cache = opened(url, NULL);
    maker own = {cache, 0, 1500, 0, "slow"}, mine = {cache, 0, 0, 0, "mine"};
    pthread_t thread;
    pthread_create(&thread, NULL, load_in_thread, &own);
    while (__atomic_load_n(&own.calls, __ATOMIC_SEQ_CST) == 0) wait_ms(1);
    int calls = 0;
    sab_cache_value *found = NULL;
    EXPECT_FAILS(
        sab_cache_get_or_load(cache, "same", 4, make, &mine, a_progress(stop_soon, &calls), &found),
        SAB_E_CANCELLED, "77");
    EXPECT(sab_last_error_code() == 77 && found == NULL && calls == 3 && mine.calls == 0);
    const pid_t child = fork(); /* the same for another process */
    if (child == 0) {
        failures_of_test = 0;
        calls = 0;
        EXPECT_FAILS(sab_cache_get_or_load(cache, "same", 4, make, &mine,
                                           a_progress(stop_soon, &calls), &found),
                     SAB_E_CANCELLED, "77");
        EXPECT(mine.calls == 0);
        _exit(failures_of_test);
    }
    int status = 1;
    EXPECT(waitpid(child, &status, 0) == child && status == 0);
    pthread_join(thread, NULL);
    EXPECT(has(cache, "same", "slow"));
    sab_cache_free(cache);
}

static int32_t make_in_both(void *ctx, const void *key, size_t key_size, const void **data,
                            size_t *size) {
    pid_t *child = ctx;
    (void)key, (void)key_size;
    *child = fork();
    *data = *child == 0 ? "child" : "parent";
    *size = strlen(*data);
    return 0;
}

static void a_loader_may_fork(void) {
    sab_cache *cache = opened(new_file(), NULL);
    pid_t child = -1;
    sab_cache_value *found = NULL;
    EXPECT_OK(sab_cache_get_or_load(cache, "same", 4, make_in_both, &child, NULL, &found));
    const char *expected = child == 0 ? "child" : "parent";
    const int is_right =
        found != NULL && memcmp(sab_cache_value_data(found, NULL), expected, strlen(expected)) == 0;
    sab_cache_value_free(found);
    maker again = {cache, 0, 0, 0, "again"};
    const int is_usable = loads_to(cache, "other", &again, "again");
    sab_cache_free(cache);
    if (child == 0) _exit(is_right && is_usable ? 0 : 1);
    int status = 1;
    EXPECT(is_right && is_usable && waitpid(child, &status, 0) == child && status == 0);
}

static void rewrite_often(sab_cache *cache) {
    char value[10000] = {0};
    for (int i = 0; i < 1500; ++i)
        EXPECT_OK(sab_cache_put(cache, &i, sizeof i, value, sizeof value));
}

static long size_of(const char *url) {
    struct stat info;
    return stat(url + 5, &info) == 0 ? (long)info.st_size : -1;
}

static void a_file_does_not_grow_for_those_who_hold_nothing(void) {
    const char *url = new_file();
    sab_cache_options options = named("x");
    options.capacity = 400000;
    sab_cache *idle = opened(url, &options);
    put(idle, "a", "1");
    EXPECT(has(idle, "a", "1"));
    sab_cache_value *held = NULL;
    EXPECT_OK(sab_cache_get(idle, "a", 1, &held));
    sab_cache_value_free(held);
    int ready[2];
    EXPECT(pipe(ready) == 0);
    const pid_t killed = fork(); /* one that holds something, but no longer lives */
    if (killed == 0) {
        sab_cache_get(idle, "a", 1, &held);
        if (write(ready[1], "x", 1) == 1) wait_ms(60000);
        _exit(0);
    }
    char byte;
    EXPECT(read(ready[0], &byte, 1) == 1);
    const pid_t writer = fork();
    if (writer == 0) {
        failures_of_test = 0;
        sab_cache *own = opened(url, &options);
        kill(killed, SIGKILL);
        wait_ms(100);
        rewrite_often(own);
        sab_cache_free(own);
        _exit(failures_of_test > 0);
    }
    int status = 1;
    EXPECT(waitpid(killed, NULL, 0) == killed);
    EXPECT(waitpid(writer, &status, 0) == writer && status == 0);
    close(ready[0]), close(ready[1]);
    EXPECT(size_of(url) < 6000000); /* of the 15000000 that were written */
    sab_cache_free(idle);
}

static void any_number_of_values_may_be_held(void) {
    enum { HELD = 6000 };
    sab_cache *cache = opened(new_file(), NULL);
    sab_cache_value **held = calloc(HELD, sizeof *held);
    for (int i = 0; i < HELD; ++i) { /* each of another state of the file */
        EXPECT_OK(sab_cache_put(cache, "k", 1, &i, sizeof i));
        EXPECT_OK(sab_cache_get(cache, "k", 1, &held[i]));
    }
    for (int i = 0; i < HELD; ++i) {
        size_t size = 0;
        const void *data = sab_cache_value_data(held[i], &size);
        EXPECT(size == sizeof i && memcmp(data, &i, sizeof i) == 0);
        sab_cache_value_free(held[i]);
    }
    EXPECT(stats_of(cache).failures == 0);
    free(held);
    sab_cache_free(cache);
}

static void a_file_is_one_by_all_its_names(void) {
    const char *url = new_file();
    char link[128], relative[64], before[256];
    snprintf(link, sizeof link, "lmdb:%s/link", folder);
    snprintf(relative, sizeof relative, "lmdb:%s", strrchr(url, '/') + 1);
    EXPECT(symlink(url + 5, link + 5) == 0); /* of a file that is not there yet */
    EXPECT(getcwd(before, sizeof before) != NULL && chdir(folder) == 0);
    sab_cache *one = opened(link, NULL), *two = opened(relative, NULL);
    EXPECT(strcmp(stats_of(one).url, url) == 0 && strcmp(stats_of(two).url, url) == 0);
    EXPECT(chdir(before) == 0);
    put(one, "a", "1");
    EXPECT(has(two, "a", "1"));
    const pid_t child = fork();
    if (child == 0) _exit(has(one, "a", "1") && has(two, "a", "1") ? 0 : 1);
    int status = 1;
    EXPECT(waitpid(child, &status, 0) == child && status == 0);
    sab_cache_free(one), sab_cache_free(two);
    char lock[160];
    snprintf(lock, sizeof lock, "%s-lock", link + 5);
    EXPECT(access(lock, F_OK) != 0);
}

static void a_file_that_is_removed_is_begun_anew(void) {
    static const char *const ends[] = {"", "-lock"};
    for (int i = 0; i < 2; ++i) {
        const char *url = new_file();
        char path[160];
        snprintf(path, sizeof path, "%s%s", url + 5, ends[i]);
        sab_cache *old = opened(url, NULL);
        put(old, "a", "1");
        EXPECT(remove(path) == 0);
        sab_log_set_callback(NULL, NULL);
        put(old, "b", "2"); /* where nobody else would see it, or with nobody else's lock */
        EXPECT(stats_of(old).dropped == 1 && has(old, "a", "1"));
        const pid_t child = fork();
        if (child == 0) {
            failures_of_test = 0;
            sab_cache *fresh = opened(url, NULL);
            EXPECT(has(fresh, "a", i == 0 ? NULL : "1"));
            put(fresh, "c", "3");
            EXPECT(has(fresh, "c", "3"));
            sab_cache_free(fresh);
            _exit(failures_of_test > 0);
        }
        int status = 1;
        EXPECT(waitpid(child, &status, 0) == child && status == 0);
        sab_cache_free(old);
        sab_cache *again = opened(url, NULL);
        EXPECT(has(again, "c", "3") && has(again, "b", NULL));
        sab_cache_free(again);
    }
}

static void *open_and_close(void *ctx) {
    for (int i = 0; i < 100; ++i) {
        sab_cache *cache = opened(ctx, NULL);
        put(cache, "a", "1");
        EXPECT(has(cache, "a", "1"));
        sab_cache_free(cache);
    }
    return NULL;
}

static void files_are_opened_and_closed_in_threads(void) {
    char *url = strdup(new_file());
    pthread_t threads[4];
    for (int t = 0; t < 4; ++t) pthread_create(&threads[t], NULL, open_and_close, url);
    for (int t = 0; t < 4; ++t) pthread_join(threads[t], NULL);
    free(url);
}

/* whose own locks are not for fork() beside busy threads */
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
static void *use_until_told(void *ctx) {
    maker *own = ctx;
    for (int i = 0; __atomic_load_n(&own->code, __ATOMIC_SEQ_CST) == 0; ++i) {
        char key[16];
        snprintf(key, sizeof key, "%d", i % 50);
        if (i % 3 == 0) put(own->cache, key, "value");
        maker made = {own->cache, 0, 0, 0, "value"};
        EXPECT(loads_to(own->cache, key, &made, "value"));
        if (i % 50 == 0) EXPECT_OK(sab_cache_clear(own->cache));
    }
    return NULL;
}

static void children_are_forked_while_threads_use_it(void) {
    const char *urls[] = {"memory:", new_file()};
    for (int u = 0; u < 2; ++u) {
        sab_cache_options options = named("x");
        options.writer_buffer_size = 4;
        sab_cache *cache = opened(urls[u], &options);
        maker shared = {cache, 0, 0, 0, NULL};
        pthread_t threads[3];
        for (int t = 0; t < 3; ++t) pthread_create(&threads[t], NULL, use_until_told, &shared);
        for (int i = 0; i < 40; ++i) {
            const pid_t child = fork();
            if (child == 0) {
                alarm(60); /* not for ever */
                maker own = {cache, 0, 0, 0, "value"};
                const int is_right = loads_to(cache, "7", &own, "value");
                put(cache, "mine", "1");
                const pid_t grandchild = fork();
                if (grandchild == 0) _exit(has(cache, "none", NULL) ? 0 : 1);
                int status = 1;
                waitpid(grandchild, &status, 0);
                sab_cache_free(cache);
                _exit(is_right && status == 0 ? 0 : 1);
            }
            int status = 1;
            EXPECT(waitpid(child, &status, 0) == child && status == 0);
        }
        __atomic_store_n(&shared.code, 1, __ATOMIC_SEQ_CST);
        for (int t = 0; t < 3; ++t) pthread_join(threads[t], NULL);
        sab_cache_free(cache);
    }
}
#endif

static mode_t mode_of(const char *url, const char *which) {
    char path[160];
    struct stat info;
    snprintf(path, sizeof path, "%s%s", url + strlen("lmdb:"), which);
    return stat(path, &info) == 0 ? info.st_mode & 0777 : 0;
}

static void files_are_for_their_owner(void) {
    static const struct {
        uint64_t asked;
        mode_t umask, made;
    } cases[] = {{0, 022, 0600}, {0600, 0, 0600}, {0666, 022, 0644}, {0660, 0, 0660}};
    const mode_t before = umask(0);
    for (size_t i = 0; i < COUNT(cases); ++i) {
        const char *url = new_file();
        sab_cache_options options = SAB_CACHE_OPTIONS_INIT;
        options.file_mode = cases[i].asked;
        umask(cases[i].umask);
        sab_cache *cache = opened(url, &options);
        put(cache, "a", "1");
        sab_cache_free(cache);
        EXPECT(mode_of(url, "") == cases[i].made && mode_of(url, "-lock") == cases[i].made &&
               mode_of(url, "-loading") == cases[i].made);
    }
    umask(before);
}

static void wrong_urls_are_refused(void) {
    sab_cache *cache = NULL;
    const char *wrong[] = {"",
                           "redis:",
                           "memory:x",
                           "lmdb:",
                           "http://x",
                           "redis://",
                           "redis://:6379",
                           "redis://h:0",
                           "redis://h:65536",
                           "redis://h:x",
                           "redis://h/x",
                           "redis://u@h",
                           "redis://u%zz:p@h",
                           "redis://[::1",
                           "redis://h,,h",
                           "redis:////",
                           "redis://h i",
                           "redis://[]",
                           "redis://a[b",
                           "redis-server:@"};
    for (size_t i = 0; i < COUNT(wrong); ++i)
        EXPECT_FAILS(sab_cache_new(wrong[i], NULL, &cache), SAB_E_ARGUMENT, "url = ");
    EXPECT_FAILS(sab_cache_new("redis://user:secret@h:x", NULL, &cache), SAB_E_ARGUMENT,
                 "url = \"redis://...\": host 1: a port");
    EXPECT(strstr(sab_last_error_message(), "secret") == NULL);
    static const char *const telling[] = {"rediss://:secret@h",    "redis:secret@h",
                                          "redis://:a,secret@h:x", "redis://:a/secret@h",
                                          "redis://:secret%zz@h",  "redis://user:secret",
                                          "redis://:secret:6379",  "redis://user:top-secret:6379/0",
                                          "redis://h,user:secret", "redis://user:top@secret:port",
                                          "redis://h/secret",      "redis://[secret",
                                          "redis://user secret",   "secret@h"};
    for (size_t i = 0; i < COUNT(telling); ++i) {
        EXPECT_FAILS(sab_cache_new(telling[i], NULL, &cache), SAB_E_ARGUMENT, "url = ");
        EXPECT(strstr(sab_last_error_message(), "secret") == NULL);
    }
    EXPECT_FAILS(sab_cache_new("redis://h,user:secret@g:x", NULL, &cache), SAB_E_ARGUMENT,
                 "url = \"redis://...\": host 2: a port");
}

#define REFUSES(field, value, words)                                                     \
    do {                                                                                 \
        sab_cache_options options = SAB_CACHE_OPTIONS_INIT;                              \
        options.field = value;                                                           \
        EXPECT_FAILS(sab_cache_new("memory:", &options, &cache), SAB_E_ARGUMENT, words); \
    } while (0)
static void wrong_options_are_refused(void) {
    sab_cache *cache = NULL;
    REFUSES(flush_interval, -1, "options.flush_interval = -1");
    REFUSES(timeout, -1, "options.timeout = -1");
    REFUSES(load_wait, -2, "options.load_wait = -2");
    REFUSES(call_timeout, -1, "options.call_timeout = -1");
    REFUSES(file_mode, 0400, "options.file_mode = 256");
    REFUSES(file_mode, 0700, "options.file_mode = 448");
    REFUSES(on_failure, 2, "options.on_failure = 2");
    REFUSES(struct_size, 8, "options.struct_size = 8");
}

static void wrong_arguments_are_refused(void) {
    sab_cache *none = NULL;
    EXPECT_FAILS(sab_cache_new(NULL, NULL, &none), SAB_E_ARGUMENT, "url");
    EXPECT_FAILS(sab_cache_new("memory:", NULL, NULL), SAB_E_ARGUMENT, "cache");
    sab_cache *cache = opened("memory:", NULL);
    sab_cache_value *value = NULL;
    uint64_t keys = 0;
    EXPECT_FAILS(sab_cache_get(cache, NULL, 1, &value), SAB_E_ARGUMENT, "key");
    EXPECT_FAILS(sab_cache_get(cache, "a", 0, &value), SAB_E_ARGUMENT, "key_size = 0");
    EXPECT_FAILS(sab_cache_get(cache, "a", (1 << 20) + 1, &value), SAB_E_ARGUMENT,
                 "key_size = 1048577");
    EXPECT_FAILS(sab_cache_get(NULL, "a", 1, &value), SAB_E_ARGUMENT, "cache");
    EXPECT_FAILS(sab_cache_get(cache, "a", 1, NULL), SAB_E_ARGUMENT, "value");
    EXPECT_FAILS(sab_cache_put(cache, "a", 1, NULL, 1), SAB_E_ARGUMENT, "data");
    EXPECT_FAILS(sab_cache_put(cache, "a", 1, "x", (size_t)1 << 31), SAB_E_ARGUMENT,
                 "data_size = 2147483648");
    EXPECT_FAILS(sab_cache_get_or_load(cache, "a", 1, NULL, NULL, NULL, &value), SAB_E_ARGUMENT,
                 "load");
    const sab_cache_item items[] = {{"a", 1, "x", 1}, {"b", 0, "x", 1}};
    sab_cache_value *values[2];
    EXPECT_FAILS(sab_cache_put_many(cache, items, 2), SAB_E_ARGUMENT, "items[1].key_size = 0");
    EXPECT_FAILS(sab_cache_get_many(cache, items, 2, values), SAB_E_ARGUMENT,
                 "items[1].key_size = 0");
    EXPECT(values[0] == NULL && values[1] == NULL && has(cache, "a", NULL));
    EXPECT_FAILS(sab_cache_get_many(cache, NULL, 2, values), SAB_E_ARGUMENT, "items");
    EXPECT_FAILS(sab_cache_get_key_count(cache, NULL), SAB_E_ARGUMENT, "keys");
    EXPECT_FAILS(sab_cache_get_key_count(NULL, &keys), SAB_E_ARGUMENT, "cache");
    EXPECT_OK(sab_cache_get_many(cache, NULL, 0, NULL));
    EXPECT_OK(sab_cache_put_many(cache, NULL, 0));
    sab_cache_free(cache);
    sab_cache_free(NULL);
    sab_cache_value_free(NULL);
    size_t size = 7;
    EXPECT(sab_cache_value_data(NULL, &size) == NULL && size == 0);
}

int main(void) {
    strcpy(folder, "/tmp/sab-cache-XXXXXX");
    if (mkdtemp(folder) == NULL) return 1;
    RUN(values_are_kept_in_memory);
    RUN(values_are_kept_in_a_file);
    RUN(a_file_is_shared_by_name);
    RUN(the_buffer_is_read_and_written_together);
    RUN(capacity_evicts_at_random_in_memory);
    RUN(capacity_evicts_at_random_in_a_file);
    RUN(a_value_is_made_once);
    RUN(threads_wait_for_who_makes_it);
    RUN(nobody_waits_longer_than_said);
    RUN(a_loader_may_ask_for_its_own_key);
    RUN(processes_wait_for_who_makes_it);
    RUN(who_is_killed_while_making_does_not_hold_others_up);
    RUN(a_child_has_what_was_in_the_buffer_and_writes_nothing_twice);
    RUN(writers_killed_at_any_point_leave_it_whole);
    RUN(eight_processes_at_one_file_see_whole_values);
    RUN(damaged_values_are_misses);
    RUN(what_is_no_file_of_its_own_is_refused);
    RUN(a_full_disk_drops_what_is_new);
    RUN(names_are_apart_while_values_are_made);
    RUN(threads_that_would_wait_for_each_other_do_not);
    RUN(waiting_can_be_ended);
    RUN(a_loader_may_fork);
    RUN(a_file_does_not_grow_for_those_who_hold_nothing);
    RUN(any_number_of_values_may_be_held);
    RUN(a_file_is_one_by_all_its_names);
    RUN(a_file_that_is_removed_is_begun_anew);
    RUN(files_are_opened_and_closed_in_threads);
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
    RUN(children_are_forked_while_threads_use_it);
#endif
    RUN(files_are_for_their_owner);
    RUN(wrong_urls_are_refused);
    RUN(wrong_options_are_refused);
    RUN(wrong_arguments_are_refused);
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", folder);
    if (system(command) != 0) return 1;
    return finish();
}
