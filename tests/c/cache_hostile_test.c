/* A Redis server that misbehaves: it answers with too much, too slowly, without end, or nonsense.
 * Every call returns with an error, and takes no more memory than a line or a value may need. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "caches.h"

#define KiB ((size_t)1 << 10)
#define MiB ((size_t)1 << 20)

/* What the server does when a request has come. */
typedef struct script {
    const char *begin;  /* sent once for each request */
    const char *repeat; /* then this, `times` times; -1: for ever */
    long times;
    int pause; /* milliseconds after each of them */
} script;

static pthread_mutex_t playing = PTHREAD_MUTEX_INITIALIZER;
static script played;
static int port;
static atomic_size_t sent;     /* bytes, since the script began */
static atomic_int connections; /* since then */

static int send_all(int to, const char *bytes, size_t size) {
    for (size_t at = 0; at < size;) {
        const ssize_t count = send(to, bytes + at, size - at, MSG_NOSIGNAL);
        if (count <= 0) return 0;
        at += (size_t)count;
        sent += (size_t)count;
    }
    return 1;
}

/* As much of the repeated text as makes up 64 KiB, where there is no pause. */
static void repeat(int to, const script *what) {
    const size_t size = strlen(what->repeat);
    char *bytes = malloc(64 * KiB + size);
    size_t filled = 0, copies = 0;
    do {
        memcpy(bytes + filled, what->repeat, size);
        filled += size, ++copies;
    } while (what->times != 1 && filled < 64 * KiB);
    for (long left = what->times; left != 0;
         left = left<0 ? left : left>(long) copies ? left - (long)copies : 0) {
        if (!send_all(to, bytes, left > 0 && (size_t)left < copies ? (size_t)left * size : filled))
            break;
        if (what->pause > 0) wait_ms(what->pause);
    }
    free(bytes);
}

static void *serve(void *argument) {
    const int with = (int)(intptr_t)argument;
    char request[4096];
    while (recv(with, request, sizeof request, 0) > 0) {
        pthread_mutex_lock(&playing);
        const script what = played;
        pthread_mutex_unlock(&playing);
        if (!send_all(with, what.begin, strlen(what.begin))) break;
        if (what.repeat != NULL) repeat(with, &what);
    }
    close(with);
    return NULL;
}

static void *accept_all(void *argument) {
    const int socket = (int)(intptr_t)argument;
    while (1) {
        const int with = accept(socket, NULL, NULL);
        if (with < 0) continue;
        ++connections;
        pthread_t thread;
        if (pthread_create(&thread, NULL, serve, (void *)(intptr_t)with) != 0) abort();
        pthread_detach(thread);
    }
    return NULL;
}

static void begin_to_serve(void) {
    const int made = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address;
    socklen_t size = sizeof address;
    memset(&address, 0, sizeof address);
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    pthread_t thread;
    if (bind(made, (struct sockaddr *)&address, size) != 0 || listen(made, 16) != 0 ||
        getsockname(made, (struct sockaddr *)&address, &size) != 0 ||
        pthread_create(&thread, NULL, accept_all, (void *)(intptr_t)made) != 0)
        abort();
    port = ntohs(address.sin_port);
}

static void play(script what) {
    pthread_mutex_lock(&playing);
    played = what;
    pthread_mutex_unlock(&playing);
    sent = 0;
    connections = 0;
}

static size_t peak_kib(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (size_t)usage.ru_maxrss;
}

static sab_cache *cache_at(sab_cache_failure on_failure, double call_timeout) {
    char url[128];
    snprintf(url, sizeof url, "redis://127.0.0.1:%d", port);
    sab_cache_options options = SAB_CACHE_OPTIONS_INIT;
    options.timeout = 20; /* long, so that a slow machine does not fail the test */
    options.call_timeout = call_timeout;
    options.load_wait = 1;
    options.on_failure = on_failure;
    const script later = played;
    /* it must answer when it is opened */
    if (on_failure == SAB_CACHE_ERROR) play((script){.begin = "+PONG\r\n"});
    sab_cache *cache = opened(url, &options);
    play(later);
    return cache;
}

static const char *const nonsense = "sent what is no answer to the command";

/* The server plays the script, and a get fails. */
static void get_fails(script what, const char *words) {
    play(what);
    sab_cache *cache = cache_at(SAB_CACHE_ERROR, 0);
    sab_cache_value *value = NULL;
    const size_t before = peak_kib();
    EXPECT_FAILS(sab_cache_get(cache, "k", 1, &value), SAB_E_IO, words);
    EXPECT(value == NULL);
    EXPECT(sent < 32 * MiB); /* it could not go on: the connection was closed */
    EXPECT(peak_kib() - before < 128 * KiB);
    sab_cache_free(cache);
}

static void too_much_is_refused(void) {
    get_fails((script){.begin = "$20000000000\r\n", .repeat = "x", .times = -1}, nonsense);
    get_fails((script){.begin = "$537919488\r\n", .repeat = "x", .times = -1}, nonsense);
    get_fails((script){.begin = "$9000000000000000000\r\nabc"}, nonsense);
    get_fails((script){.begin = "+", .repeat = "x", .times = -1}, nonsense);
    get_fails((script){.begin = "-ERR ", .repeat = "x", .times = -1}, nonsense);
    get_fails((script){.begin = ":", .repeat = "1", .times = -1}, nonsense);
    get_fails((script){.begin = "$", .repeat = "0", .times = -1}, nonsense);
    get_fails((script){.begin = "*4000000000\r\n"}, nonsense);
    get_fails((script){.begin = "*10000000\r\n", .repeat = "*0\r\n", .times = -1}, nonsense);
    get_fails((script){.begin = "", .repeat = "*1\r\n", .times = -1}, nonsense);
}

static void large_values_among_many_are_refused(void) {
    const char *const answers[] = {"*2\r\n$20000000000\r\n", "*2\r\n$537919488\r\n",
                                   "*2\r\n$1\r\nx\r\n$537919488\r\n"};
    for (size_t i = 0; i < COUNT(answers); ++i) {
        play((script){.begin = answers[i], .repeat = "x", .times = -1});
        sab_cache *cache = cache_at(SAB_CACHE_ERROR, 0);
        const sab_cache_item items[] = {{"k", 1, NULL, 0}, {"l", 1, NULL, 0}};
        sab_cache_value *values[2] = {NULL, NULL};
        const size_t before = peak_kib();
        EXPECT_FAILS(sab_cache_get_many(cache, items, 2, values), SAB_E_IO, nonsense);
        EXPECT(sent < 32 * MiB);
        EXPECT(peak_kib() - before < 128 * KiB);
        sab_cache_free(cache);
    }
}

static void nonsense_is_refused(void) {
    static const char *const answers[] = {"\1\377garbage\r\n",
                                          "%1\r\n+a\r\n+b\r\n",
                                          "$-5\r\n",
                                          "$ 1\r\nx\r\n",
                                          "$1\r\nxyz",
                                          "$1x\r\n",
                                          "$\r\n",
                                          "\r\n",
                                          "\n",
                                          "+OK\n",
                                          ":\r\n",
                                          ":x\r\n",
                                          "*-2\r\n",
                                          "*1\r\n",
                                          ":5\r\n",
                                          "+OK\r\n",
                                          "_\r\n"};
    for (size_t i = 0; i < COUNT(answers); ++i) get_fails((script){.begin = answers[i]}, nonsense);
}

/* Values that are announced as short, and come for ever. */
static void slow_answers_end(void) {
    play((script){.begin = "$400000000\r\n", .repeat = "x", .times = -1, .pause = 50});
    sab_cache *cache = cache_at(SAB_CACHE_ERROR, 0.3);
    sab_cache_value *value = NULL;
    EXPECT_FAILS(sab_cache_get(cache, "k", 1, &value), SAB_E_IO,
                 "not done within 0.3 s, the call_timeout");
    sab_cache_free(cache);
    cache = cache_at(SAB_CACHE_DEGRADE, 0.3);
    EXPECT(has(cache, "k", NULL));
    EXPECT(stats_of(cache).failures == 1 && stats_of(cache).misses == 1);
    sab_cache_free(cache);
}

static void scans_without_end_end(void) {
    const script scans[] = {{.begin = "*2\r\n$1\r\n7\r\n*1\r\n$3\r\nabc\r\n"},
                            {.begin = "*2\r\n$1\r\n7\r\n*0\r\n"}};
    for (size_t i = 0; i < COUNT(scans); ++i) {
        play(scans[i]);
        sab_cache *cache = cache_at(SAB_CACHE_ERROR, 0.3);
        uint64_t keys = 0;
        EXPECT_FAILS(sab_cache_get_key_count(cache, &keys), SAB_E_IO,
                     "not done within 0.3 s, the call_timeout");
        sab_cache_free(cache);
    }
    play((script){.begin = "*2\r\n$1\r\n0\r\n*2000000\r\n", .repeat = "$1\r\nx\r\n", .times = -1});
    sab_cache *cache = cache_at(SAB_CACHE_ERROR, 0);
    uint64_t keys = 0;
    EXPECT_FAILS(sab_cache_get_key_count(cache, &keys), SAB_E_IO, nonsense);
    EXPECT(sent < 32 * MiB);
    EXPECT_FAILS(sab_cache_clear(cache), SAB_E_IO, "");
    sab_cache_free(cache);
    const char *const wrong[] = {"*1\r\n$1\r\n0\r\n", "*2\r\n$1\r\n0\r\n$1\r\n0\r\n",
                                 "*2\r\n:0\r\n*0\r\n", "+OK\r\n"};
    for (size_t i = 0; i < COUNT(wrong); ++i) {
        play((script){.begin = wrong[i]});
        cache = cache_at(SAB_CACHE_ERROR, 0);
        EXPECT_FAILS(sab_cache_get_key_count(cache, &keys), SAB_E_IO, "no answer to");
        sab_cache_free(cache);
    }
}

static int32_t load(void *ctx, const void *key, size_t key_size, const void **data, size_t *size) {
    (void)ctx, (void)key, (void)key_size;
    *data = "made";
    *size = 4;
    return 0;
}

/* get_or_load() makes the value whatever the server says to the get, the claim and the put. */
static void values_are_made_without_the_server(void) {
    const script scripts[] = {{.begin = "+", .repeat = "x", .times = -1},
                              {.begin = "$-1\r\n"},
                              {.begin = "+OK\r\n"},
                              {.begin = "-ERR no\r\n"},
                              {.begin = ":1\r\n"},
                              {.begin = "$5\r\nhello\r\n"},
                              {.begin = "$400000000\r\n", .repeat = "x", .times = -1, .pause = 20}};
    for (size_t i = 0; i < COUNT(scripts); ++i) {
        play(scripts[i]);
        sab_cache *cache = cache_at(SAB_CACHE_DEGRADE, 0.2);
        sab_cache_value *value = NULL;
        size_t size = 0;
        EXPECT_OK(sab_cache_get_or_load(cache, "k", 1, load, NULL, NULL, &value));
        EXPECT(memcmp(sab_cache_value_data(value, &size), "made", 4) == 0 && size == 4);
        sab_cache_value_free(value);
        sab_cache_free(cache);
    }
}

static void the_password_is_not_repeated(void) {
    play((script){.begin = "-ERR wrong password: top-secret\r\n"});
    sab_cache *cache = NULL;
    char url[128];
    snprintf(url, sizeof url, "redis://:top-secret@127.0.0.1:%d", port);
    sab_cache_options options = SAB_CACHE_OPTIONS_INIT;
    options.timeout = 20;
    options.on_failure = SAB_CACHE_ERROR;
    EXPECT_FAILS(sab_cache_new(url, &options, &cache), SAB_E_IO, "wrong password: ...");
    play((script){.begin = "+OK\r\n"});
    cache = opened(url, &options);
    play((script){.begin = "+OK\r\n-ERR you sent top-secret\r\n"});
    sab_cache_free(cache);
    EXPECT_FAILS(sab_cache_new(url, &options, &cache), SAB_E_IO, "you sent ...");
    play((script){.begin = "+", .repeat = "x", .times = -1}); /* the answer to the password */
    EXPECT_FAILS(sab_cache_new(url, &options, &cache), SAB_E_IO, nonsense);
    EXPECT(sent < 32 * MiB);
}

static void answers_that_nobody_asked_for(void) {
    play((script){.begin = "$-1\r\n", .repeat = "$1\r\nx\r\n", .times = 5000});
    sab_cache *cache = cache_at(SAB_CACHE_DEGRADE, 0);
    for (int i = 0; i < 3; ++i) EXPECT(has(cache, "k", NULL));
    /* one that said too much is not used again */
    EXPECT(stats_of(cache).failures == 0 && connections >= 2);
    sab_cache_free(cache);
}

int main(void) {
    alarm(300); /* a call that does not return */
    begin_to_serve();
    RUN(too_much_is_refused);
    RUN(large_values_among_many_are_refused);
    RUN(nonsense_is_refused);
    RUN(slow_answers_end);
    RUN(scans_without_end_end);
    RUN(values_are_made_without_the_server);
    RUN(the_password_is_not_repeated);
    RUN(answers_that_nobody_asked_for);
    return finish();
}
