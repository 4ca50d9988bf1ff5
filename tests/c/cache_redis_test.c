/* Values on Redis servers, which are started here: alone, several, killed, stopped, full,
 * and behind a connection that garbles. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "caches.h"
#include "one.h"

static char folder[64];

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* It comes true in a while. */
#define EXPECT_SOON(condition)                                                                 \
    do {                                                                                       \
        const double began_ = now();                                                           \
        while (!(condition) && now() - began_ < 30) wait_ms(5);                                \
        if (now() - began_ >= 30) {                                                            \
            ++failures_of_test;                                                                \
            fprintf(stderr, "%s:%d: not so after 30 s: %s\n", __FILE__, __LINE__, #condition); \
        }                                                                                      \
    } while (0)

/* ---- servers ---- */

typedef struct server {
    pid_t pid;
    int port;
    const char *more[12]; /* of the command line */
} server;

static struct sockaddr_in at(int port) {
    struct sockaddr_in address;
    memset(&address, 0, sizeof address);
    address.sin_family = AF_INET;
    address.sin_port = htons((uint16_t)port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

/* A socket that listens; on a free port where `*port` is 0. */
static int listening(int *port) {
    const int made = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    setsockopt(made, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    struct sockaddr_in address = at(*port);
    socklen_t size = sizeof address;
    EXPECT(bind(made, (struct sockaddr *)&address, size) == 0 && listen(made, 64) == 0);
    getsockname(made, (struct sockaddr *)&address, &size);
    *port = ntohs(address.sin_port);
    return made;
}

static int is_free(int port) {
    const int made = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = at(port);
    const int bound = bind(made, (struct sockaddr *)&address, sizeof address) == 0;
    close(made);
    return bound;
}

/* Ports outside of those that connections get: a server that was killed finds its own free. */
static int free_port(void) {
    static int next;
    /* apart from where another run began: a server that is killed leaves its port for a while */
    if (next == 0) {
        struct timespec now;
        clock_gettime(CLOCK_REALTIME, &now);
        next = 20000 + (int)(now.tv_nsec / 1000 % 12700);
    }
    do {
        next = next < 32700 ? next + 1 : 20000;
    } while (!is_free(next));
    return next;
}

static int connected(int port) {
    const int made = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const struct sockaddr_in address = at(port);
    const struct timeval patience = {10, 0};
    setsockopt(made, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (connect(made, (const struct sockaddr *)&address, sizeof address) == 0) return made;
    close(made);
    return -1;
}

/* What a server says to lines of commands. */
static const char *said(int port, const char *lines) {
    static char answer[1 << 16];
    answer[0] = 0;
    const int to = connected(port);
    if (to < 0) return answer;
    size_t size = 0;
    ssize_t count = 0;
    if (send(to, lines, strlen(lines), MSG_NOSIGNAL) < 0 ||
        send(to, "\r\nQUIT\r\n", 8, MSG_NOSIGNAL) < 0)
        count = -1;
    while (count >= 0 && size + 1 < sizeof answer &&
           (count = read(to, answer + size, sizeof answer - 1 - size)) > 0)
        size += (size_t)count;
    answer[size] = 0;
    close(to);
    return answer;
}

static int says(int port, const char *lines, const char *words) {
    return strstr(said(port, lines), words) != NULL;
}

static long number_after(const char *text, const char *words) {
    const char *found = strstr(text, words);
    return found == NULL ? -1 : strtol(found + strlen(words), NULL, 10);
}

static void start(server *one) {
    if (one->port == 0) one->port = free_port();
    char port[16];
    snprintf(port, sizeof port, "%d", one->port);
    one->pid = fork();
    if (one->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        const char *words[40] = {"redis-server", "--port", port,  "--bind",
                                 "127.0.0.1",    "--save", "",    "--appendonly",
                                 "no",           "--dir",  folder};
        size_t count = 11;
        for (size_t i = 0; i < COUNT(one->more) && one->more[i] != NULL; ++i)
            words[count++] = one->more[i];
        const int nowhere = open("/dev/null", O_RDWR);
        dup2(nowhere, 0), dup2(nowhere, 1), dup2(nowhere, 2);
        execvp(words[0], (char *const *)(uintptr_t)words);
        _exit(127);
    }
    EXPECT_SOON(says(one->port, "PING", "PONG") || says(one->port, "PING", "NOAUTH"));
}

static void kill_server(server *one) {
    kill(one->pid, SIGKILL);
    waitpid(one->pid, NULL, 0);
}

static const char *url_of(const char *who, const server *servers, int count, const char *database) {
    static char made[8][256];
    static int next;
    char *url = made[next++ % 8], *end = url + sprintf(url, "redis://%s", who);
    for (int i = 0; i < count; ++i)
        end += sprintf(end, "%s127.0.0.1:%d", i > 0 ? "," : "", servers[i].port);
    sprintf(end, "%s", database);
    return url;
}

/* ---- caches ---- */

static sab_cache_options named(const char *name) {
    sab_cache_options options = SAB_CACHE_OPTIONS_INIT;
    options.dataset_name = name;
    options.timeout = 20; /* this machine may be busy */
    return options;
}

static uint64_t keys_of(sab_cache *cache) {
    uint64_t keys = 0;
    EXPECT_OK(sab_cache_get_key_count(cache, &keys));
    return keys;
}

/* Puts and gets it back. */
static int keeps(sab_cache *cache, const char *key, const char *value) {
    put(cache, key, value);
    return has(cache, key, value);
}

/* A key is put or read: never a wrong value. */
static void use(sab_cache *cache, int key, int round, int is_put) {
    char value[20001];
    if (is_put) {
        const size_t size = value_of(key, round, value);
        EXPECT_OK(sab_cache_put(cache, &key, sizeof key, value, size));
        return;
    }
    sab_cache_value *found = NULL;
    EXPECT_OK(sab_cache_get(cache, &key, sizeof key, &found));
    EXPECT(found == NULL || is_whole(found, key));
    sab_cache_value_free(found);
}

/* The log: how many lines, and the last of each kind. */
static struct log {
    pthread_mutex_t mutex;
    int warnings, infos;
    char warning[300], info[300];
} heard = {PTHREAD_MUTEX_INITIALIZER, 0, 0, "", ""};

static void hear(void *ctx, sab_log_level level, const char *message) {
    (void)ctx;
    pthread_mutex_lock(&heard.mutex);
    ++*(level == SAB_LOG_WARNING ? &heard.warnings : &heard.infos);
    snprintf(level == SAB_LOG_WARNING ? heard.warning : heard.info, sizeof heard.info, "%s",
             message);
    pthread_mutex_unlock(&heard.mutex);
}

static void listen_anew(void) {
    pthread_mutex_lock(&heard.mutex);
    heard.warnings = heard.infos = 0;
    pthread_mutex_unlock(&heard.mutex);
    sab_log_set_callback(hear, NULL);
}

/* ---- one server, several, users, databases ---- */

static void values_are_kept_on_a_server(void) {
    server one = {0};
    start(&one);
    const char *url = url_of("", &one, 1, "");
    const sab_cache_options options = named("data");
    sab_cache *cache = opened(url, &options);
    EXPECT(strcmp(stats_of(cache).url, url) == 0);
    EXPECT(has(cache, "a", NULL) && keeps(cache, "a", "one") && keeps(cache, "b", "") &&
           keeps(cache, "a", "two"));
    EXPECT(keys_of(cache) == 2);
    EXPECT(says(one.port, "GETRANGE data_a 0 3", "SABV") &&
           says(one.port, "GETRANGE data_a 16 -1", "two"));
    const sab_cache_item items[] = {
        {"c", 1, "three", 5}, {"a", 1, "four", 4}, {"d", 1, NULL, 0}, {"c", 1, "five", 4}};
    EXPECT_OK(sab_cache_put_many(cache, items, 4));
    const sab_cache_item wanted[] = {{"a", 1, NULL, 0},
                                     {"x", 1, NULL, 0},
                                     {"c", 1, NULL, 0},
                                     {"c", 1, NULL, 0},
                                     {"d", 1, NULL, 0}};
    sab_cache_value *values[5];
    EXPECT_OK(sab_cache_get_many(cache, wanted, 5, values));
    EXPECT(memcmp(sab_cache_value_data(values[0], NULL), "four", 4) == 0 &&
           memcmp(sab_cache_value_data(values[3], NULL), "five", 4) == 0);
    EXPECT(values[1] == NULL && values[4] != NULL);
    const sab_cache_stats stats = stats_of(cache);
    EXPECT(stats.hits == 3 + 4 && stats.misses == 2 && stats.failures == 0 && stats.dropped == 0 &&
           stats.bytes_written > 0);
    EXPECT_OK(sab_cache_clear(cache));
    EXPECT(has(cache, "a", NULL) && keys_of(cache) == 0);
    sab_cache_free(cache);
    EXPECT(memcmp(sab_cache_value_data(values[2], NULL), "five", 4) == 0); /* what is held stays */
    for (int i = 0; i < 5; ++i) sab_cache_value_free(values[i]);
    char by_name[64];
    snprintf(by_name, sizeof by_name, "redis://localhost:%d", one.port);
    cache = opened(by_name, &options);
    EXPECT(keeps(cache, "n", "by name") && says(one.port, "LPUSH data_list x", ":1"));
    /* another's, of another type */
    EXPECT(has(cache, "list", NULL) && stats_of(cache).failures == 0);
    EXPECT(keeps(cache, "list", "ours") && stats_of(cache).failures == 0);
    EXPECT(says(one.port, "SET data_plain unframed", "OK") && has(cache, "plain", NULL) &&
           stats_of(cache).damaged == 1);
    sab_cache_free(cache);
    kill_server(&one);
}

static void names_are_no_patterns(void) {
    server one = {0};
    start(&one);
    const char *names[] = {"*", "a?", "ab", "[ab]", "\\", "", "a"};
    sab_cache *caches[COUNT(names)];
    for (size_t i = 0; i < COUNT(names); ++i) {
        const sab_cache_options options = named(names[i]);
        caches[i] = opened(url_of("", &one, 1, ""), &options);
        for (size_t k = 0; k <= i; ++k)
            EXPECT(keeps(caches[i], names[k][0] == 0 ? "-" : names[k], names[i]));
    }
    for (size_t i = 0; i < COUNT(names); ++i) EXPECT(keys_of(caches[i]) == i + 1);
    EXPECT_OK(sab_cache_clear(caches[0]));
    for (size_t i = 0; i < COUNT(names); ++i) EXPECT(keys_of(caches[i]) == (i == 0 ? 0 : i + 1));
    for (size_t i = 0; i < COUNT(names); ++i) sab_cache_free(caches[i]);
    kill_server(&one);
}

static void many_values_at_once(void) {
    server servers[2] = {{0}, {0}};
    start(&servers[0]), start(&servers[1]);
    const sab_cache_options options = named("data");
    sab_cache *cache = opened(url_of("", servers, 2, ""), &options);
    enum { MANY = 20000, LARGE = 400, SIZE = 100000 };
    int32_t *keys = malloc(MANY * sizeof *keys);
    sab_cache_item *items = malloc(MANY * sizeof *items);
    sab_cache_value **values = malloc(MANY * sizeof *values);
    for (int i = 0; i < MANY; ++i) {
        keys[i] = i;
        items[i] = (sab_cache_item){&keys[i], sizeof keys[i], &keys[i], sizeof keys[i]};
    }
    EXPECT_OK(sab_cache_put_many(cache, items, MANY));
    EXPECT_OK(sab_cache_get_many(cache, items, MANY, values));
    int right = 0;
    for (int i = 0; i < MANY; ++i) {
        right += values[i] != NULL &&
                 memcmp(sab_cache_value_data(values[i], NULL), &keys[i], sizeof keys[i]) == 0;
        sab_cache_value_free(values[i]);
    }
    EXPECT(right == MANY && keys_of(cache) == MANY);
    EXPECT_OK(sab_cache_clear(cache));
    EXPECT(keys_of(cache) == 0);
    char *large = malloc(SIZE + LARGE); /* 40 MB there and back: more than sockets keep */
    for (int i = 0; i < SIZE + LARGE; ++i) large[i] = (char)(i * 31 % 251);
    for (int i = 0; i < LARGE; ++i) items[i].data = large + i, items[i].size = SIZE;
    EXPECT_OK(sab_cache_put_many(cache, items, LARGE));
    EXPECT_OK(sab_cache_get_many(cache, items, LARGE, values));
    right = 0;
    for (int i = 0; i < LARGE; ++i) {
        size_t size = 0;
        right += values[i] != NULL &&
                 memcmp(sab_cache_value_data(values[i], &size), large + i, SIZE) == 0 &&
                 size == SIZE;
        sab_cache_value_free(values[i]);
    }
    EXPECT(right == LARGE && stats_of(cache).failures == 0);
    sab_cache_free(cache);
    free(large), free(keys), free(items), free(values);
    kill_server(&servers[0]), kill_server(&servers[1]);
}

static void too_large_a_value_is_dropped(void) {
    server one = {0};
    start(&one);
    const sab_cache_options options = named("data");
    sab_cache *cache = opened(url_of("", &one, 1, ""), &options);
    const size_t size = (size_t)1 << 29;
    char *value = calloc(size, 1);
    EXPECT_OK(sab_cache_put(cache, "a", 1, value, size));
    EXPECT(stats_of(cache).dropped == 1 && stats_of(cache).failures == 0 && has(cache, "a", NULL) &&
           keeps(cache, "b", "1"));
    free(value);
    sab_cache_free(cache);
    kill_server(&one);
}

static void a_key_is_where_its_hash_says(void) {
    /* python: xxhash.xxh64(key.encode()).intdigest() % 3 */
    static const struct {
        const char *key;
        int place;
    } known[] = {{"0", 1},
                 {"1", 2},
                 {"2", 2},
                 {"3", 1},
                 {"4", 1},
                 {"5", 2},
                 {"6", 0},
                 {"sample-00017", 2},
                 {"\303\251t\303\251", 1},
                 {"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
                  "xxxxxxxxxxxxxxxxxxxx",
                  2}};
    server servers[3] = {{0}, {0}, {0}};
    for (int i = 0; i < 3; ++i) start(&servers[i]);
    const sab_cache_options options = named("data");
    sab_cache *cache = opened(url_of("", servers, 3, ""), &options);
    for (size_t i = 0; i < COUNT(known); ++i) {
        EXPECT(keeps(cache, known[i].key, "x"));
        char command[200];
        snprintf(command, sizeof command, "EXISTS data_%s", known[i].key);
        for (int s = 0; s < 3; ++s)
            EXPECT(says(servers[s].port, command, s == known[i].place ? ":1" : ":0"));
    }
    EXPECT(keys_of(cache) == COUNT(known));
    listen_anew();
    kill_server(&servers[1]); /* the others go on */
    for (size_t i = 0; i < COUNT(known); ++i)
        EXPECT(has(cache, known[i].key, known[i].place == 1 ? NULL : "x"));
    EXPECT(keys_of(cache) < COUNT(known) && stats_of(cache).failures > 0);
    EXPECT(heard.warnings == 1 && heard.infos == 0 && strstr(heard.warning, "refused") != NULL);
    start(&servers[1]);
    EXPECT_SOON(keeps(cache, "0", "y") && keeps(cache, "1", "y") && keeps(cache, "2", "y") &&
                keeps(cache, "3", "y") && keeps(cache, "4", "y"));
    EXPECT(heard.warnings == 1 && heard.infos == 1 && strstr(heard.info, "back") != NULL);
    sab_log_set_callback(NULL, NULL);
    EXPECT_OK(sab_cache_clear(cache));
    for (int s = 0; s < 3; ++s) EXPECT(says(servers[s].port, "DBSIZE", ":0"));
    sab_cache_free(cache);
    for (int i = 0; i < 3; ++i) kill_server(&servers[i]);
}

static void passwords_and_users(void) {
    server one = {.more = {"--requirepass", "p:@/ %s"}};
    start(&one);
    EXPECT(says(one.port,
                "AUTH \"p:@/ %s\"\r\nACL SETUSER reader on >r ~* -@all +get +scan\r\nACL SETUSER "
                "any on nopass ~* +@all",
                "+OK\r\n+OK\r\n+OK"));
    const sab_cache_options options = named("data");
    sab_cache_options strict = options;
    strict.on_failure = SAB_CACHE_ERROR;
    sab_cache *cache = opened(url_of(":p%3A%40%2F%20%25s@", &one, 1, ""), &options), *reader = NULL;
    EXPECT(keeps(cache, "a", "1"));
    EXPECT(strcmp(stats_of(cache).url, url_of(":p%3A%40%2F%20%25s@", &one, 1, "")) == 0);
    sab_cache_free(cache);
    cache = opened(url_of("default:p%3A%40%2F%20%25s@", &one, 1, ""), &strict);
    EXPECT(has(cache, "a", "1"));
    sab_cache_free(cache);
    cache = opened(url_of("any:@", &one, 1, ""), &options);
    EXPECT(has(cache, "a", "1") && stats_of(cache).failures == 0);
    reader = opened(url_of("reader:r@", &one, 1, ""), &options);
    EXPECT(has(reader, "a", "1") && keys_of(reader) == 1 && stats_of(reader).failures == 0);
    const sab_cache_item items[] = {{"a", 1, "2", 1}, {"b", 1, "2", 1}};
    sab_cache_value *values[2];
    EXPECT_OK(sab_cache_get_many(reader, items, 2, values)); /* may not use MGET */
    EXPECT(values[0] != NULL && values[1] == NULL && stats_of(reader).failures == 0);
    sab_cache_value_free(values[0]);
    put(reader, "a", "2");
    EXPECT(stats_of(reader).dropped == 1 && stats_of(reader).failures == 1 &&
           has(reader, "a", "1"));
    EXPECT_OK(sab_cache_put_many(reader, items, 2));
    EXPECT(stats_of(reader).dropped == 3 && stats_of(reader).failures == 2 &&
           has(reader, "a", "1"));
    EXPECT_OK(sab_cache_clear(reader));
    EXPECT(stats_of(reader).failures == 3 && has(reader, "a", "1"));
    sab_cache_free(reader);
    sab_cache_free(cache);
    EXPECT_FAILS(sab_cache_new(url_of(":mistaken@", &one, 1, ""), &strict, &cache), SAB_E_IO,
                 "WRONGPASS");
    EXPECT(strstr(sab_last_error_message(), "mistaken") == NULL && cache == NULL);
    EXPECT_FAILS(sab_cache_new(url_of("", &one, 1, ""), &strict, &cache), SAB_E_IO, "NOAUTH");
    listen_anew();
    cache = opened(url_of("nobody:mistaken@", &one, 1, ""), &options);
    put(cache, "a", "3");
    EXPECT(has(cache, "a", NULL) && stats_of(cache).dropped == 1 && stats_of(cache).failures == 2);
    EXPECT(heard.warnings == 1 && strstr(heard.warning, "WRONGPASS") != NULL &&
           strstr(heard.warning, "mistaken") == NULL);
    sab_log_set_callback(NULL, NULL);
    sab_cache_free(cache);
    kill_server(&one);
}

static void a_database_has_a_number(void) {
    server one = {0};
    start(&one);
    const sab_cache_options options = named("data");
    sab_cache *cache = opened(url_of("", &one, 1, "/3"), &options);
    EXPECT(keeps(cache, "a", "1") && says(one.port, "EXISTS data_a", ":0") &&
           says(one.port, "SELECT 3\r\nEXISTS data_a", ":1"));
    sab_cache_free(cache);
    cache = opened(url_of("", &one, 1, "/99"), &options);
    put(cache, "b", "1");
    EXPECT(stats_of(cache).dropped == 1 && stats_of(cache).failures == 1 &&
           says(one.port, "DBSIZE", ":0"));
    sab_cache_free(cache);
    kill_server(&one);
}

/* ---- servers that fail ---- */

typedef struct user {
    sab_cache *cache;
    int seed, is_over, is_wrong;
} user;

static void *use_all_the_time(void *ctx) {
    user *own = ctx;
    uint32_t state = (uint32_t)own->seed;
    for (int round = 0; !__atomic_load_n(&own->is_over, __ATOMIC_SEQ_CST); ++round) {
        state = state * 1664525u + 1013904223u;
        use(own->cache, (int)(state >> 16) % 60, round, (int)(state >> 8) % 2);
    }
    return NULL;
}

static void killed_at_any_point_and_never_a_wrong_value(void) {
    server one = {0};
    start(&one);
    sab_cache_options options = named("data");
    const char *url = url_of("", &one, 1, "");
    user users[4];
    pthread_t threads[4];
    random_state = 99;
    for (int t = 0; t < 4; ++t) {
        options.writer_buffer_size = 1 + (uint64_t)(t % 2) * 10;
        users[t] = (user){opened(url, &options), t, 0, 0};
        pthread_create(&threads[t], NULL, use_all_the_time, &users[t]);
    }
    for (int i = 0; i < 100; ++i) {
        if (i % 2 == 0) {
            kill_server(&one);
            if (i % 4 == 0) wait_ms(below(60));
            start(&one);
            wait_ms(below(40));
            continue;
        }
        const pid_t child = fork();
        if (child == 0) {
            sab_cache *cache = NULL;
            if (sab_cache_new(url, &options, &cache) != SAB_OK) _exit(1);
            for (int round = 0;; ++round) use(cache, round * 7 % 60, i + round, 1);
        }
        wait_ms(2 + below(20));
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
    }
    for (int t = 0; t < 4; ++t) __atomic_store_n(&users[t].is_over, 1, __ATOMIC_SEQ_CST);
    uint64_t hits = 0;
    for (int t = 0; t < 4; ++t) {
        pthread_join(threads[t], NULL);
        EXPECT(stats_of(users[t].cache).damaged == 0 && stats_of(users[t].cache).failures > 0);
        /* one alone may have left the server alone all the time */
        hits += stats_of(users[t].cache).hits;
        EXPECT_SOON((put(users[t].cache, "after", "wards"),
                     sab_cache_flush(users[t].cache) == SAB_OK &&
                         has(users[t].cache, "after", "wards") && keys_of(users[t].cache) > 0));
        sab_cache_free(users[t].cache);
    }
    EXPECT(hits > 0);
    kill_server(&one);
}

static void a_connection_that_was_closed_is_made_again(void) {
    server one = {0};
    start(&one);
    const sab_cache_options options = named("data");
    sab_cache *cache = opened(url_of("", &one, 1, ""), &options);
    for (int i = 0; i < 10; ++i) {
        EXPECT(keeps(cache, "a", "1"));
        if (i % 2 == 0)
            EXPECT(says(one.port, "CLIENT KILL TYPE normal", ":"));
        else
            kill_server(&one), start(&one);
    }
    EXPECT(stats_of(cache).failures == 0 && stats_of(cache).dropped == 0);
    sab_cache_free(cache);
    kill_server(&one);
}

static int has_all(sab_cache *cache, int count) {
    char key[16];
    int found = 0;
    for (int i = 0; i < count; ++i) {
        snprintf(key, sizeof key, "%d", i);
        found += has(cache, key, key);
    }
    return found == count;
}

static void who_hangs_costs_the_timeout_once_in_a_while(void) {
    server servers[2] = {{0}, {0}};
    start(&servers[0]), start(&servers[1]);
    sab_cache_options options = named("data");
    options.timeout = 0.3;
    sab_cache *cache = opened(url_of("", servers, 2, ""), &options);
    char key[16];
    for (int i = 0; i < 40; ++i) {
        snprintf(key, sizeof key, "%d", i);
        EXPECT_SOON(keeps(cache, key, key));
    }
    const uint64_t failures = stats_of(cache).failures;
    listen_anew();
    kill(servers[0].pid, SIGSTOP);
    const double began = now();
    int found = 0;
    for (int round = 0; round < 50; ++round)
        for (int i = 0; i < 40; ++i) {
            snprintf(key, sizeof key, "%d", i);
            found += has(cache, key, key);
        }
    EXPECT(now() - began < 50); /* of some thousand that would each wait */
    EXPECT(found > 10 * 50 / 4 && found < 40 * 50 && stats_of(cache).failures > failures);
    EXPECT(heard.warnings == 1 && heard.infos == 0 &&
           strstr(heard.warning, "no answer within 0.3 s") != NULL);
    kill(servers[0].pid, SIGCONT);
    EXPECT_SOON(has_all(cache, 40));
    EXPECT(heard.infos == heard.warnings && heard.infos >= 1);

    /* A fork waits no longer than a call does. */
    sab_cache_free(cache);
    options.writer_buffer_size = 1000;
    options.flush_interval = 1000;
    options.timeout = 1;
    cache = opened(url_of("", servers, 1, ""), &options);
    kill(servers[0].pid, SIGSTOP);
    const double forking = now();
    for (int i = 0; i < 60; ++i) {
        put(cache, "a", "1");
        const pid_t child = fork();
        if (child == 0) _exit(0);
        waitpid(child, NULL, 0);
    }
    EXPECT(now() - forking < 30);
    kill(servers[0].pid, SIGCONT);
    sab_cache_free(cache);
    sab_log_set_callback(NULL, NULL);
    kill_server(&servers[0]), kill_server(&servers[1]);
}

static void who_does_not_take_connections_is_not_waited_for_long(void) {
    int port = 0;
    const int made = listening(&port);
    EXPECT(listen(made, 0) == 0);
    int fillers[8];
    for (int i = 0; i < 8; ++i) {
        fillers[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        const struct sockaddr_in address = at(port);
        EXPECT(connect(fillers[i], (const struct sockaddr *)&address, sizeof address) == 0 ||
               errno == EINPROGRESS);
    }
    sab_cache_options options = named("data");
    options.timeout = 0.2;
    listen_anew();
    const server one = {0, port, {NULL}};
    sab_cache *cache = opened(url_of("", &one, 1, ""), &options);
    const double began = now();
    EXPECT(has(cache, "a", NULL) && now() - began < 20 && heard.warnings == 1 &&
           strstr(heard.warning, " within 0.2 s") != NULL);
    sab_log_set_callback(NULL, NULL);
    sab_cache_free(cache);
    for (int i = 0; i < 8; ++i) close(fillers[i]);
    close(made);
}

static void failures_are_errors_where_that_is_asked_for(void) {
    server one = {0};
    start(&one);
    sab_cache_options options = named("data");
    options.on_failure = SAB_CACHE_ERROR;
    sab_cache *cache = opened(url_of("", &one, 1, ""), &options), *none = NULL;
    EXPECT(keeps(cache, "a", "1"));
    kill_server(&one);
    char where[64];
    snprintf(where, sizeof where, "127.0.0.1:%d: Connection refused", one.port);
    sab_cache_value *value = NULL, *values[1];
    const sab_cache_item item = {"a", 1, "1", 1};
    uint64_t keys = 0;
    for (int i = 0; i < 3; ++i) {
        EXPECT_FAILS(sab_cache_get(cache, "a", 1, &value), SAB_E_IO, where);
        EXPECT_FAILS(sab_cache_put(cache, "a", 1, "1", 1), SAB_E_IO, where);
        EXPECT_FAILS(sab_cache_get_many(cache, &item, 1, values), SAB_E_IO, where);
        EXPECT_FAILS(sab_cache_put_many(cache, &item, 1), SAB_E_IO, where);
        EXPECT_FAILS(sab_cache_get_key_count(cache, &keys), SAB_E_IO, where);
        EXPECT_FAILS(sab_cache_clear(cache), SAB_E_IO, where);
        wait_ms(60);
    }
    EXPECT_FAILS(sab_cache_new(url_of("", &one, 1, ""), &options, &none), SAB_E_IO, where);
    start(&one);
    EXPECT_SOON(sab_cache_put(cache, "a", 1, "1", 1) == SAB_OK);
    EXPECT(has(cache, "a", "1"));
    sab_cache_free(cache);
    kill_server(&one);
}

static void a_full_server_is_still_read(void) {
    server one = {.more = {"--maxmemory", "4mb", "--maxmemory-policy", "noeviction"}};
    start(&one);
    const sab_cache_options options = named("data");
    sab_cache *cache = opened(url_of("", &one, 1, ""), &options);
    listen_anew();
    char *value = calloc(1, 100001), key[16];
    memset(value, 'v', 100000);
    for (int i = 0; i < 100; ++i) {
        snprintf(key, sizeof key, "%d", i);
        put(cache, key, value);
    }
    EXPECT(stats_of(cache).dropped > 30 && stats_of(cache).dropped < 99 &&
           stats_of(cache).failures > 30);
    EXPECT(has(cache, "0", value) && has(cache, "99", NULL));
    EXPECT(heard.warnings == 1 && strstr(heard.warning, "OOM") != NULL &&
           strstr(heard.warning, "writing") != NULL);
    const uint64_t dropped = stats_of(cache).dropped;
    sab_cache_item items[50];
    for (int i = 0; i < 50; ++i) items[i] = (sab_cache_item){value + i, 10, value, 100000};
    EXPECT_OK(sab_cache_put_many(cache, items, 50));
    EXPECT(stats_of(cache).dropped == dropped + 50 && heard.warnings == 1 && heard.infos == 0);
    EXPECT_OK(sab_cache_clear(cache));
    EXPECT_SOON(keeps(cache, "again", value)); /* memory is given back in the background */
    EXPECT(heard.infos >= 1);

    /* One that is only read from. */
    EXPECT(says(one.port, "REPLICAOF 127.0.0.1 1", "OK"));
    put(cache, "b", "2");
    EXPECT(has(cache, "again", value) && has(cache, "b", NULL) &&
           strstr(heard.warning, "READONLY") != NULL);
    EXPECT(says(one.port, "REPLICAOF NO ONE", "OK"));
    EXPECT_SOON(keeps(cache, "b", "2"));
    sab_log_set_callback(NULL, NULL);
    free(value);
    sab_cache_free(cache);
    kill_server(&one);
}

/* ---- who makes a value ---- */

static int32_t count_waits(void *ctx, uint64_t done, uint64_t total) {
    (void)done, (void)total;
    ++*(int *)ctx;
    return 0;
}

/* Any bytes may be a key, also those that names of claims begin with. */
static void keys_like_claims_are_keys(void) {
    server one = {0};
    start(&one);
    static const char *const names[] = {NULL, "data",
                                        "sab:loading:", "sab:value:", "sab:loading:data"};
    static const char *const keys[] = {
        "x", "sab:loading:x", "sab:value:x", "sab:value:sab:loading:x", "sab:", "sab"};
    for (size_t n = 0; n < COUNT(names); ++n) {
        const sab_cache_options options = named(names[n]);
        sab_cache *cache = opened(url_of("", &one, 1, ""), &options);
        for (size_t i = 1; i < COUNT(keys); ++i) EXPECT(keeps(cache, keys[i], keys[i]));
        maker own = {cache, 0, 0, 0, "made"};
        int waits = 0;
        sab_cache_value *found = NULL;
        /* which nobody else makes */
        EXPECT_OK(sab_cache_get_or_load(cache, "x", 1, make, &own, a_progress(count_waits, &waits),
                                        &found));
        sab_cache_value_free(found);
        EXPECT(waits == 0 && own.calls == 1 && has(cache, "x", "made") &&
               keys_of(cache) == COUNT(keys));
        for (size_t i = 1; i < COUNT(keys); ++i) EXPECT(has(cache, keys[i], keys[i]));
        EXPECT_OK(sab_cache_clear(cache));
        EXPECT(keys_of(cache) == 0 && says(one.port, "DBSIZE", ":0"));
        sab_cache_free(cache);
    }
    kill_server(&one);
}

static void processes_wait_for_who_makes_it(void) {
    server servers[2] = {{0}, {0}};
    start(&servers[0]), start(&servers[1]);
    sab_cache_options options = named("data");
    const char *url = url_of("", servers, 2, "");
    sab_cache *cache = opened(url, &options);
    maker own = {cache, 0, 0, 0, "made"};
    EXPECT(loads_to(cache, "first", &own, "made") && loads_to(cache, "first", &own, "made") &&
           own.calls == 1);
    int calls[2];
    EXPECT(pipe(calls) == 0);
    pid_t children[4];
    for (int i = 0; i < 4; ++i) {
        children[i] = fork();
        if (children[i] == 0) {
            failures_of_test = 0;
            own = (maker){cache, 0, 500, 0, "made"};
            int is_right = 1;
            for (int k = 0; k < 3; ++k) {
                char key[16];
                snprintf(key, sizeof key, "k%d", k);
                is_right = is_right && loads_to(cache, key, &own, "made");
            }
            is_right = is_right && write(calls[1], "xxxxx", (size_t)own.calls) == own.calls &&
                       stats_of(cache).failures == 0;
            sab_cache_free(cache);
            _exit(is_right && failures_of_test == 0 ? 0 : 1);
        }
    }
    wait_ms(200);
    EXPECT(keys_of(cache) <= 4); /* claims are no keys of the dataset */
    for (int i = 0; i < 4; ++i) {
        int status = 1;
        EXPECT(waitpid(children[i], &status, 0) == children[i] && status == 0);
    }
    char made[16];
    close(calls[1]);
    ssize_t count = 0, more;
    while ((more = read(calls[0], made, sizeof made)) > 0) count += more;
    EXPECT(count == 3);
    close(calls[0]);
    EXPECT(has(cache, "k1", "made") && keys_of(cache) == 4);
    /* all given up */
    for (int s = 0; s < 2; ++s) EXPECT(says(servers[s].port, "KEYS sab:loading:*", "*0"));
    sab_cache_free(cache);

    /* Who is killed holds others up no longer than they would wait. */
    options.load_wait = 1;
    const pid_t child = fork();
    if (child == 0) {
        cache = opened(url, &options);
        own = (maker){cache, 0, 60000, 0, "never"};
        loads_to(cache, "dead", &own, "never");
        _exit(0);
    }
    EXPECT_SOON(says(servers[0].port, "EXISTS sab:loading:data_dead", ":1") ||
                says(servers[1].port, "EXISTS sab:loading:data_dead", ":1"));
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    cache = opened(url, &options);
    own = (maker){cache, 0, 0, 0, "mine"};
    const double began = now();
    EXPECT(loads_to(cache, "dead", &own, "mine") && own.calls == 1 && now() - began < 20);
    EXPECT(has(cache, "dead", "mine"));

    /* Without servers everybody makes it. */
    kill_server(&servers[0]), kill_server(&servers[1]);
    own.calls = 0;
    for (int i = 0; i < 20; ++i) EXPECT(loads_to(cache, "dead", &own, "mine"));
    EXPECT(own.calls == 20);
    sab_cache_free(cache);
}

/* ---- threads and processes ---- */

static void *use_many(void *ctx) {
    sab_cache *cache = ctx;
    for (int round = 0; round < 40; ++round) {
        int keys[20];
        static char letters[26][20001];
        sab_cache_item items[20];
        sab_cache_value *values[20];
        for (int i = 0; i < 20; ++i) {
            keys[i] = (round * 13 + i * 7) % 100;
            items[i] = (sab_cache_item){&keys[i], sizeof keys[i], letters[round % 26],
                                        1 + (size_t)(keys[i] * 997) % 20000};
        }
        if (letters[25][20000] == 0) {
            static pthread_mutex_t filling = PTHREAD_MUTEX_INITIALIZER;
            pthread_mutex_lock(&filling);
            for (int i = 0; i < 26; ++i) memset(letters[i], 'a' + i, 20001);
            pthread_mutex_unlock(&filling);
        }
        if (round % 2 == 0) EXPECT_OK(sab_cache_put_many(cache, items, 20));
        EXPECT_OK(sab_cache_get_many(cache, items, 20, values));
        for (int i = 0; i < 20; ++i) {
            EXPECT(values[i] == NULL || is_whole(values[i], keys[i]));
            sab_cache_value_free(values[i]);
        }
    }
    return NULL;
}

#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
enum { FORKS_AMONG_THREADS = 0 }; /* their allocators do not go on in such a child */
#else
enum { FORKS_AMONG_THREADS = 1 };
#endif

static void threads_and_forks_share_a_cache(void) {
    server servers[2] = {{0}, {0}};
    start(&servers[0]), start(&servers[1]);
    sab_cache_options options = named("data");
    sab_cache *cache = opened(url_of("", servers, 2, ""), &options);
    use_many(cache);
    pthread_t threads[8];
    for (int t = 0; t < 8 && FORKS_AMONG_THREADS; ++t)
        pthread_create(&threads[t], NULL, use_many, cache);
    pid_t children[4];
    for (int i = 0; i < 4; ++i) {
        children[i] = fork();
        if (children[i] == 0) {
            failures_of_test = 0;
            use_many(cache);
            EXPECT(stats_of(cache).failures == 0 && stats_of(cache).damaged == 0);
            sab_cache_free(cache);
            _exit(failures_of_test);
        }
    }
    for (int t = 0; t < 8 && !FORKS_AMONG_THREADS; ++t)
        pthread_create(&threads[t], NULL, use_many, cache);
    for (int i = 0; i < 4; ++i) {
        int status = 1;
        EXPECT(waitpid(children[i], &status, 0) == children[i] && status == 0);
    }
    for (int t = 0; t < 8; ++t) pthread_join(threads[t], NULL);
    EXPECT(stats_of(cache).failures == 0 && stats_of(cache).damaged == 0);
    /* kept and used again */
    EXPECT(number_after(said(servers[0].port, "INFO clients"), "connected_clients:") <= 12);
    sab_cache_free(cache);

    /* What is in the buffer when it forks is written by the parent. */
    options.writer_buffer_size = 100;
    options.flush_interval = 1000;
    cache = opened(url_of("", servers, 2, ""), &options);
    put(cache, "buffered", "1");
    const pid_t child = fork();
    if (child == 0) {
        failures_of_test = 0;
        EXPECT(has(cache, "buffered", "1"));
        put(cache, "child", "2");
        sab_cache_free(cache);
        _exit(failures_of_test);
    }
    int status = 1;
    EXPECT(waitpid(child, &status, 0) == child && status == 0);
    EXPECT(has(cache, "child", "2") && has(cache, "buffered", "1"));
    sab_cache_free(cache);
    kill_server(&servers[0]), kill_server(&servers[1]);
}

/* ---- a connection that garbles ---- */

enum { PASS, DELAY, CUT, GARBAGE, SWALLOW, DROPS, KINDS };

static struct proxy {
    int listener, port, to, kind, after, is_over; /* after so many bytes of answers */
} proxy;

static void *relay(void *ctx) {
    const int client = (int)(intptr_t)ctx, kind = __atomic_load_n(&proxy.kind, __ATOMIC_SEQ_CST),
              after = __atomic_load_n(&proxy.after, __ATOMIC_SEQ_CST);
    const int upstream = connected(proxy.to);
    struct pollfd both[2] = {{client, POLLIN, 0}, {upstream, POLLIN, 0}};
    char bytes[4096];
    int answered = 0;
    while (!__atomic_load_n(&proxy.is_over, __ATOMIC_SEQ_CST)) {
        if (poll(both, 2, 50) <= 0) continue;
        if (both[0].revents != 0) {
            const ssize_t count = read(client, bytes, sizeof bytes);
            if (count <= 0 || send(upstream, bytes, (size_t)count, MSG_NOSIGNAL) != count) break;
        }
        if (both[1].revents == 0) continue;
        const ssize_t count = read(upstream, bytes, sizeof bytes);
        if (count <= 0) break;
        ssize_t whole = count;
        if (answered + count > after) {
            const ssize_t right = answered < after ? after - answered : 0;
            if (kind == DELAY) wait_ms(1 + after % 5);
            if (kind == CUT || kind == SWALLOW) whole = right;
            if (kind == GARBAGE)
                for (ssize_t i = right; i < count; ++i)
                    bytes[i] = (char)(bytes[i] * 31 + after + i);
            if (kind == DROPS)
                for (ssize_t i = right; i < count && i < right + 20; ++i) {
                    if (send(client, bytes + i - right, 1, MSG_NOSIGNAL) != 1) break;
                    wait_ms(30);
                }
        }
        if (kind == DROPS && answered + count > after) break;
        answered += (int)count;
        if (whole > 0 && send(client, bytes, (size_t)whole, MSG_NOSIGNAL) != whole) break;
        if (kind == CUT && whole < count) break;
    }
    close(client), close(upstream);
    return NULL;
}

static void *accept_all(void *ctx) {
    (void)ctx;
    pthread_t threads[2000];
    int count = 0;
    while (!__atomic_load_n(&proxy.is_over, __ATOMIC_SEQ_CST)) {
        struct pollfd waiting = {proxy.listener, POLLIN, 0};
        if (poll(&waiting, 1, 50) <= 0 || count == 2000) continue;
        const int client = accept4(proxy.listener, NULL, NULL, SOCK_CLOEXEC);
        pthread_create(&threads[count++], NULL, relay, (void *)(intptr_t)client);
    }
    for (int i = 0; i < count; ++i) pthread_join(threads[i], NULL);
    return NULL;
}

/* Rounds behind a connection that garbles in one way; how many hits and failures there were. */
static void use_garbled(int kind, int port, uint64_t sums[2]) {
    proxy = (struct proxy){0, 0, port, kind, 0, 0};
    proxy.listener = listening(&proxy.port);
    pthread_t acceptor;
    pthread_create(&acceptor, NULL, accept_all, NULL);
    sab_cache_options options = named("data");
    options.timeout = 0.1;
    const server behind = {0, proxy.port, {NULL}};
    random_state = 5 + (uint64_t)kind;
    for (int i = kind; i < 96; i += KINDS) {
        __atomic_store_n(&proxy.after, (int)below(i % 2 == 0 ? 60 : 30000), __ATOMIC_SEQ_CST);
        options.writer_buffer_size = 1 + (uint64_t)(i % 4);
        sab_cache *cache = opened(url_of(":p@", &behind, 1, "/2"), &options);
        const double began = now();
        for (int k = 0; k < 10; ++k) use(cache, (int)below(20), i, (int)below(3) == 0);
        int keys[20];
        sab_cache_item items[20];
        sab_cache_value *values[20];
        for (int k = 0; k < 20; ++k) {
            keys[k] = k;
            items[k] = (sab_cache_item){&keys[k], sizeof keys[k], NULL, 0};
        }
        EXPECT_OK(sab_cache_get_many(cache, items, 20, values));
        for (int k = 0; k < 20; ++k) {
            EXPECT(values[k] == NULL || is_whole(values[k], k));
            sab_cache_value_free(values[k]);
        }
        uint64_t any = 0;
        EXPECT_OK(sab_cache_get_key_count(cache, &any));
        sums[0] += stats_of(cache).hits;
        sums[1] += stats_of(cache).failures;
        sab_cache_free(cache);
        EXPECT(now() - began < 20);
    }
    __atomic_store_n(&proxy.is_over, 1, __ATOMIC_SEQ_CST);
    pthread_join(acceptor, NULL);
    close(proxy.listener);
}

/* Each way in a process of its own: most of the time is spent waiting. */
static void a_connection_that_garbles_gives_no_wrong_value(void) {
    server one = {.more = {"--requirepass", "p"}};
    start(&one);
    int ends[2];
    EXPECT(pipe(ends) == 0);
    pid_t children[KINDS];
    for (int kind = 0; kind < KINDS; ++kind) {
        children[kind] = fork();
        if (children[kind] != 0) continue;
        failures_of_test = 0;
        uint64_t sums[2] = {0, 0};
        use_garbled(kind, one.port, sums);
        EXPECT(write(ends[1], sums, sizeof sums) == sizeof sums);
        _exit(failures_of_test > 0);
    }
    uint64_t hits = 0, failures = 0, sums[2];
    for (int kind = 0; kind < KINDS; ++kind) {
        int status = 1;
        EXPECT(waitpid(children[kind], &status, 0) == children[kind] && status == 0);
    }
    close(ends[1]);
    while (read(ends[0], sums, sizeof sums) == sizeof sums) hits += sums[0], failures += sums[1];
    close(ends[0]);
    EXPECT(hits > 100 && failures > 20 && says(one.port, "AUTH p\r\nDBSIZE", ":0") &&
           !says(one.port, "AUTH p\r\nSELECT 2\r\nDBSIZE", ":0"));
    kill_server(&one);
}

/* ---- a server of one's own ---- */

static pid_t pid_of(const char *url, int *port) {
    char password[64], lines[100];
    *port = 0;
    if (sscanf(url, "redis://:%60[0-9a-f]@127.0.0.1:%d", password, port) != 2) return -1;
    snprintf(lines, sizeof lines, "AUTH %s\r\nINFO server", password);
    return (pid_t)number_after(said(*port, lines), "process_id:");
}

static int is_gone(pid_t pid) {
    return kill(pid, 0) != 0;
}

/* Runs `body` in a process of its own and says how that ended; what it sends through the pipe is in
 * `url`. */
static int in_a_process(void (*body)(int out), char *url, size_t size) {
    int ends[2];
    EXPECT(pipe(ends) == 0);
    const pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        failures_of_test = 0;
        body(ends[1]);
        _exit(failures_of_test > 0);
    }
    close(ends[1]);
    const ssize_t count = read(ends[0], url, size - 1);
    url[count > 0 ? count : 0] = 0;
    int status = 1;
    waitpid(child, &status, 0);
    close(ends[0]);
    return status;
}

static void say_where(int out, const sab_cache *cache) {
    EXPECT(write(out, stats_of(cache).url, strlen(stats_of(cache).url)) > 0);
}

static void exits(int out) {
    signal(SIGCHLD, SIG_IGN);
    sab_cache *cache = opened("redis-server:", NULL);
    EXPECT(keeps(cache, "a", "1"));
    say_where(out, cache);
}

static void is_killed(int out) {
    close(0); /* a daemon may have none of these */
    close(1);
    sab_cache *cache = opened("redis-server:", NULL);
    EXPECT(keeps(cache, "a", "1"));
    say_where(out, cache);
    if (failures_of_test == 0) kill(getpid(), SIGKILL);
}

/* the child that stays is told to end, and says whether all was well */
static int stay[2], done[2];

static void leaves_a_child(int out) {
    sab_cache *cache = opened("redis-server:", NULL);
    EXPECT(keeps(cache, "a", "1"));
    if (fork() == 0) {
        char byte;
        close(out), close(stay[1]), close(done[0]);
        EXPECT(read(stay[0], &byte, 1) == 0);
        const int is_right = has(cache, "a", "1") && keeps(cache, "b", "2");
        EXPECT(write(done[1], is_right ? "y" : "n", 1) == 1);
        _exit(0);
    }
    say_where(out, cache);
    sab_cache_free(cache);
}

static void a_server_ends_with_who_started_it(void) {
    int leaked[2], port = 0;
    EXPECT(pipe(leaked) == 0); /* not closed by exec */
    sab_cache_options options = named("data");
    options.capacity = 50000000;
    sab_cache *cache = opened("redis-server:", &options);
    char url[256];
    snprintf(url, sizeof url, "%s", stats_of(cache).url);
    EXPECT(keeps(cache, "a", "1") && stats_of(cache).failures == 0);
    options.capacity = 0;
    sab_cache *other = opened(url, &options);
    EXPECT(has(other, "a", "1"));
    pid_t pid = pid_of(url, &port);
    EXPECT(pid > 0 && says(port, "GET data_a", "NOAUTH"));
    char name[64], bytes[4096], password[64] = "", lines[200];
    EXPECT(sscanf(url, "redis://:%60[0-9a-f]@", password) == 1 && strlen(password) == 32);
    snprintf(lines, sizeof lines,
             "AUTH %s\r\nCONFIG GET maxmemory\r\nCONFIG GET maxmemory-policy\r\nCONFIG GET save",
             password);
    EXPECT(says(port, lines, "50000000") && says(port, lines, "allkeys-random") &&
           says(port, lines, "$4\r\nsave\r\n$0"));
    snprintf(name, sizeof name, "/proc/%d/status", pid);
    FILE *state = fopen(name, "r");
    int is_private = 0;
    while (state != NULL && fgets(bytes, sizeof bytes, state) != NULL)
        is_private |= strcmp(bytes, "Umask:\t0077\n") == 0;
    if (state != NULL) fclose(state);
    EXPECT(is_private); /* files that it is told to write */
    /* Neither it nor who watches over it shows the password. */
    for (pid_t each = pid; each > 1;) {
        snprintf(name, sizeof name, "/proc/%d/cmdline", each);
        FILE *file = fopen(name, "rb");
        const size_t size = file == NULL ? 0 : fread(bytes, 1, sizeof bytes - 1, file);
        if (file != NULL) fclose(file);
        for (size_t i = 0; i < size; ++i)
            if (bytes[i] == 0) bytes[i] = ' ';
        bytes[size] = 0;
        EXPECT(size > 0 && strstr(bytes, password) == NULL);
        snprintf(name, sizeof name, "/proc/%d/stat", each);
        file = fopen(name, "r");
        if (file == NULL || fscanf(file, "%*d (%*[^)]) %*c %d", &each) != 1 || each == getpid())
            each = 0;
        if (file != NULL) fclose(file);
    }
    close(leaked[1]);
    EXPECT(read(leaked[0], bytes, 1) == 0); /* the server has not got it */
    close(leaked[0]);
    sab_cache_free(cache);
    EXPECT_SOON(is_gone(pid));
    EXPECT(has(other, "a", NULL));
    sab_cache_free(other);

    int status = in_a_process(exits, url, sizeof url);
    EXPECT(status == 0 && strncmp(url, "redis://:", 9) == 0);
    EXPECT_SOON(pid_of(url, &port) <= 0);
    status = in_a_process(is_killed, url, sizeof url);
    EXPECT(WIFSIGNALED(status) && strncmp(url, "redis://:", 9) == 0);
    EXPECT_SOON(pid_of(url, &port) <= 0);

    EXPECT(pipe(stay) == 0 && pipe(done) == 0);
    status = in_a_process(leaves_a_child, url, sizeof url);
    EXPECT(status == 0);
    close(stay[0]), close(done[1]);
    wait_ms(200);
    pid = pid_of(url, &port);
    EXPECT(pid > 0); /* its child has the cache still */
    close(stay[1]);
    EXPECT(read(done[0], bytes, 1) == 1 && bytes[0] == 'y');
    EXPECT_SOON(is_gone(pid));
    close(done[0]);
}

static void leaves_no_process_behind(int out) {
    sab_cache *cache = opened("redis-server:", NULL);
    EXPECT(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD);
    say_where(out, cache);
    sab_cache_free(cache);
    EXPECT(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD);
}

static void a_program_that_is_no_server_is_refused(void) {
    sab_cache *cache = NULL;
    EXPECT_FAILS(sab_cache_new("redis-server:/no/such/program", NULL, &cache), SAB_E_IO,
                 "cannot start \"/no/such/program\": there is no such program");
    EXPECT(cache == NULL);
    EXPECT_FAILS(sab_cache_new("redis-server:/bin/true", NULL, &cache), SAB_E_IO, "ended at once");
    char url[256];
    EXPECT(in_a_process(leaves_no_process_behind, url, sizeof url) == 0 &&
           strncmp(url, "redis://:", 9) == 0);
}

int main(void) {
    if (system("redis-server --version > /dev/null 2>&1") != 0) {
        printf("0 passed, 0 failed: there is no redis-server here\n");
        return 0;
    }
    strcpy(folder, "/tmp/sab-redis-XXXXXX");
    if (mkdtemp(folder) == NULL) return 1;
    RUN(values_are_kept_on_a_server);
    RUN(names_are_no_patterns);
    RUN(many_values_at_once);
    RUN(too_large_a_value_is_dropped);
    RUN(a_key_is_where_its_hash_says);
    RUN(passwords_and_users);
    RUN(a_database_has_a_number);
    RUN(killed_at_any_point_and_never_a_wrong_value);
    RUN(a_connection_that_was_closed_is_made_again);
    RUN(who_hangs_costs_the_timeout_once_in_a_while);
    RUN(who_does_not_take_connections_is_not_waited_for_long);
    RUN(failures_are_errors_where_that_is_asked_for);
    RUN(a_full_server_is_still_read);
    RUN(keys_like_claims_are_keys);
    RUN(processes_wait_for_who_makes_it);
    RUN(threads_and_forks_share_a_cache);
    RUN(a_connection_that_garbles_gives_no_wrong_value);
    RUN(a_server_ends_with_who_started_it);
    RUN(a_program_that_is_no_server_is_refused);
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", folder);
    if (system(command) != 0) return 1;
    return finish();
}
