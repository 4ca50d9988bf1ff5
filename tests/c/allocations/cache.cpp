// cache
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

#include "../one.h"
#include "data.h"

namespace {

int32_t load(void *, const void *, std::size_t, const void **data, std::size_t *size) {
    *data = "loaded";
    *size = 6;
    return 0;
}
int32_t go_on(void *, uint64_t, uint64_t) {
    return 0;
}

void note_value(Run &run, sab_cache_value *value) {
    std::size_t size = 0;
    const void *const data = CALL_PLAIN(sab_cache_value_data(value, &size));
    if (data == nullptr)
        run.note_text("none");
    else
        run.note(data, size);
    CALL_PLAIN(sab_cache_value_free(value));
}

void get(Run &run, sab_cache *cache, const char *key) {
    sab_cache_value *value = nullptr;
    CALL_INTO(value, sab_cache_get(cache, key, std::strlen(key), &value));
    note_value(run, value);
}

template <std::size_t count>
void get_many(Run &run, sab_cache *cache, const sab_cache_item (&items)[count]) {
    std::vector<sab_cache_value *> values(count);
    CALL_INTO(values, sab_cache_get_many(cache, items, count, values.data()));
    for (sab_cache_value *const value : values) note_value(run, value);
}

void get_or_load(Run &run, sab_cache *cache, const char *key) {
    sab_cache_value *value = nullptr;
    CALL_INTO(value, sab_cache_get_or_load(cache, key, std::strlen(key), load, nullptr,
                                           a_progress(go_on, nullptr), &value));
    note_value(run, value);
}

sab_cache *open(Run &run, const char *url, uint64_t buffer = 3) {
    sab_cache_options options = SAB_CACHE_OPTIONS_INIT;
    options.on_failure = SAB_CACHE_ERROR;
    options.writer_buffer_size = buffer;
    options.flush_interval = 1000;
    options.dataset_name = "d";
    options.load_wait = 0.01;  // a claim on Redis that could not be given up
    sab_cache *cache = nullptr;
    CALL_INTO(cache, sab_cache_new(url, &options, &cache));
    return cache;
}

void use(Run &run, sab_cache *cache) {
    CALL(sab_cache_clear(cache));
    for (int i = 0; i < 5; ++i) {
        const std::string key = "k" + std::to_string(i),
                          value(static_cast<std::size_t>(100 * i + 5), static_cast<char>('a' + i));
        CALL_OR_SKIP(sab_cache_put(cache, key.data(), key.size(), value.data(), value.size()));
        get(run, cache, key.c_str());
    }
    // An older value must not come back after a flush that failed.
    CALL(sab_cache_put(cache, "k1", 2, "new", 3));
    CALL_OR_SKIP(sab_cache_flush(cache));
    get(run, cache, "k1");
    get(run, cache, "missing");
    const sab_cache_item items[] = {{"k1", 2, "xyz", 3}, {"k9", 2, "xyz", 3}, {"k4", 2, "xyz", 3}};
    get_many(run, cache, items);
    CALL(sab_cache_put_many(cache, items, 3));
    get(run, cache, "k9");
    get_or_load(run, cache, "new");
    get(run, cache, "new");
    uint64_t keys = 0;
    CALL_INTO(keys, sab_cache_get_key_count(cache, &keys));
    run.note(keys);
    sab_cache_stats stats = SAB_CACHE_STATS_INIT;
    CALL_INTO(stats, sab_cache_get_stats(cache, &stats));
    run.note(stats.loads);
    run.note(uint64_t{std::strlen(stats.url)});
    CALL_PLAIN(sab_cache_free(cache));
}

bool has_redis() {
    static const bool is_there = std::system("redis-server --version > /dev/null 2>&1") == 0;
    return is_there;
}

/// The URL of a server that ends with this process.
const char *redis_url() {
    static char url[64];
    if (url[0] != 0) return url;
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    const int probe = socket(AF_INET, SOCK_STREAM, 0);
    (void)bind(probe, reinterpret_cast<sockaddr *>(&address), size);
    getsockname(probe, reinterpret_cast<sockaddr *>(&address), &size);
    close(probe);
    std::snprintf(url, sizeof url, "redis://127.0.0.1:%d", ntohs(address.sin_port));
    if (fork() == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        const int nowhere = ::open("/dev/null", O_RDWR);
        dup2(nowhere, 0), dup2(nowhere, 1), dup2(nowhere, 2);
        execlp("redis-server", "redis-server", "--port", url + std::strlen("redis://127.0.0.1:"),
               "--bind", "127.0.0.1", "--save", "", static_cast<char *>(nullptr));
        _exit(127);
    }
    sab_cache_options options = SAB_CACHE_OPTIONS_INIT;
    options.on_failure = SAB_CACHE_ERROR;
    sab_cache *cache = nullptr;
    for (int i = 0; i < 1000 && sab_cache_new(url, &options, &cache) != SAB_OK; ++i) usleep(10000);
    sab_cache_free(cache);
    return url;
}

}  // namespace

SCENARIO(cache_in_memory, Threads::none) {
    use(run, open(run, "memory:"));
}

SCENARIO(cache_in_lmdb, Threads::none) {
    use(run, open(run, ("lmdb:" + folder + "/cache").c_str()));
}

SCENARIO(cache_on_redis, Threads::none) {
    if (!has_redis()) return;
    sab_cache *const cache = open(run, redis_url(), 2);
    CALL(sab_cache_clear(cache));
    CALL_OR_SKIP(sab_cache_put(cache, "a", 1, "old", 3));
    CALL_OR_SKIP(sab_cache_put(cache, "a", 1, "new", 3));
    CALL_OR_SKIP(sab_cache_flush(cache));
    const sab_cache_item items[] = {{"a", 1, "xyz", 3}, {"b", 1, "xyz", 3}};
    get_many(run, cache, items);
    CALL_OR_SKIP(sab_cache_put_many(cache, items, 2));
    get(run, cache, "b");
    get_or_load(run, cache, "new");
    uint64_t keys = 0;
    CALL_INTO(keys, sab_cache_get_key_count(cache, &keys));
    run.note(keys);
    CALL(sab_cache_clear(cache));  // each play begins alike
    CALL_PLAIN(sab_cache_free(cache));
}

/// Everything but the server.
SCENARIO(cache_on_a_server_of_its_own, Threads::none) {
    sab_cache *cache = nullptr;
    CALL_FAILS(SAB_E_IO, sab_cache_new("redis-server:/no/such/program", nullptr, &cache));
    run.note(uint64_t{cache == nullptr});
}
