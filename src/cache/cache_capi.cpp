#include <cmath>

#include "base/callback.h"
#include "base/guard.h"
#include "base/progress.h"
#include "cache/cache.h"
#include "cache/server.h"
#include "cache/url.h"
#include "sab/cache.h"

namespace {

using sab::cache::View;

constexpr std::size_t largest_key = std::size_t{1} << 20;
constexpr std::size_t largest_value = (std::size_t{1} << 31) - 1;
constexpr std::size_t most_items = std::size_t{1} << 32;

std::string_view read_key(const void* key, std::size_t size, std::string_view name) {
    sab::require(key, name);
    sab::check(size >= 1 && size <= largest_key, sab::text(name, "_size"), size,
               "must be from 1 to ", largest_key);
    return {static_cast<const char*>(key), size};
}

std::string_view read_value(const void* data, std::size_t size, std::string_view name) {
    if (size > 0) sab::require(data, name);
    sab::check(size <= largest_value, sab::text("size of ", name), size, "must be at most ",
               largest_value);
    return {static_cast<const char*>(data), size};
}

std::string of(std::size_t item, const char* field) {
    return sab::text("items[", item, "].", field);
}

}  // namespace

extern "C" {

sab_status sab_cache_new(const char* url, const sab_cache_options* options,
                         sab_cache** cache) noexcept {
    return sab::guard_new(cache, "cache", [&] {
        sab::require(url, "url");
        const auto given = sab::read_options(options, sab_cache_options SAB_CACHE_OPTIONS_INIT);
        sab::check(given.writer_buffer_size >= 1, "options.writer_buffer_size",
                   given.writer_buffer_size, "must be at least 1");
        sab::check(given.flush_interval > 0, "options.flush_interval", given.flush_interval,
                   "must be above 0");
        sab::check(given.timeout > 0 && given.timeout <= 1e6, "options.timeout", given.timeout,
                   "must be above 0 and at most 1000000 seconds");
        sab::check(given.load_wait >= 0, "options.load_wait", given.load_wait,
                   "must be at least 0");
        sab::check(given.on_failure == SAB_CACHE_DEGRADE || given.on_failure == SAB_CACHE_ERROR,
                   "options.on_failure", given.on_failure,
                   "must be SAB_CACHE_DEGRADE or SAB_CACHE_ERROR");
        sab::check(given.call_timeout >= 0 && given.call_timeout <= 1e6, "options.call_timeout",
                   given.call_timeout, "must be from 0 to 1000000 seconds");
        const uint64_t file_mode = given.file_mode == 0 ? 0600 : given.file_mode;
        sab::check((file_mode & ~uint64_t{0666}) == 0 && (file_mode & 0600) == 0600,
                   "options.file_mode", file_mode,
                   "must be from 0600 to 0666 (octal), with read and write for the owner");
        sab::check(given.is_cluster == 0 || given.is_cluster == 1, "options.is_cluster",
                   given.is_cluster, "must be 0 or 1");
        const sab::cache::Url parsed = sab::cache::parse_url(url);
        std::optional<std::string> name;
        if (given.dataset_name != nullptr) name = given.dataset_name;
        sab::check(!name || name->size() <= 400, "the length of options.dataset_name",
                   name ? name->size() : 0, "must be at most 400");
        const sab::cache::StoreOptions store{
            name,
            given.capacity,
            given.timeout,
            given.call_timeout == 0 ? 10 * given.timeout : given.call_timeout,
            given.is_cluster != 0,
            static_cast<unsigned>(file_mode)};
        if (parsed.kind == sab::cache::Url::redis)
            sab::check(
                given.capacity == 0, "options.capacity", given.capacity,
                "cannot be set for servers that are there already: their maxmemory is what counts");
        else if (given.is_cluster != 0)
            sab::fail(SAB_E_ARGUMENT, "options.is_cluster = 1: is for \"redis://\" only");
        std::function<std::unique_ptr<sab::cache::Store>()> open;
        switch (parsed.kind) {
            case sab::cache::Url::memory:
                open = [store] { return sab::cache::make_memory_store(store); };
                break;
            case sab::cache::Url::lmdb:
                open = [store, path = sab::cache::resolved_path(parsed.path, store.file_mode)] {
                    return sab::cache::open_lmdb_store(path, store);
                };
                break;
            case sab::cache::Url::redis:
                open = [store, address = parsed.servers] {
                    return sab::cache::open_redis_store(address, store);
                };
                break;
            case sab::cache::Url::redis_server: {
                const auto server = std::make_shared<sab::cache::Server>(
                    parsed.path, parsed.bind, store.capacity, store.timeout);
                open = [store, server] {
                    return sab::cache::open_redis_store(server->address(), store);
                };
            }
        }
        return new sab_cache{{{store.dataset_name, given.writer_buffer_size, given.flush_interval,
                               given.load_wait, given.on_failure},
                              std::move(open)}};
    });
}

const char* sab_cache_url(const sab_cache* cache) noexcept {
    return cache == nullptr ? "" : cache->impl.url().c_str();
}

sab_status sab_cache_get(sab_cache* cache, const void* key, size_t key_size,
                         sab_cache_value** value) noexcept {
    return sab::guard_new(value, "value", [&]() -> sab_cache_value* {
        sab::require(cache, "cache");
        const std::string_view name = read_key(key, key_size, "key");
        auto made = std::make_unique<sab_cache_value>();
        auto found = std::move(cache->impl.get({&name, 1})[0]);
        if (!found) return nullptr;
        made->view = std::move(*found);
        return made.release();
    });
}

sab_status sab_cache_put(sab_cache* cache, const void* key, size_t key_size, const void* data,
                         size_t size) noexcept {
    return sab::guard([&] {
        sab::require(cache, "cache");
        cache->impl.put(read_key(key, key_size, "key"), read_value(data, size, "data"));
    });
}

sab_status sab_cache_get_or_load(sab_cache* cache, const void* key, size_t key_size,
                                 sab_cache_load_fn load, void* ctx, sab_progress_fn progress,
                                 void* progress_ctx, sab_cache_value** value) noexcept {
    return sab::guard_new(value, "value", [&] {
        sab::require(cache, "cache");
        const std::string_view name = read_key(key, key_size, "key");
        if (load == nullptr) sab::fail(SAB_E_ARGUMENT, "load is NULL");
        const auto loaded = [&] {
            const void* data = nullptr;
            size_t size = 0;
            const int32_t code = sab::called_back(
                "the load callback", [&] { return load(ctx, key, key_size, &data, &size); });
            if (code != 0)
                throw sab::Error(SAB_E_CALLBACK, sab::text("the load callback gave ", code), code);
            return read_value(data, size, "data");
        };
        auto made = std::make_unique<sab_cache_value>();
        made->view = cache->impl.get_or_load(name, loaded, sab::Progress(progress, progress_ctx));
        return made.release();
    });
}

sab_status sab_cache_get_many(sab_cache* cache, const sab_cache_item* items, size_t count,
                              sab_cache_value** values) noexcept {
    return sab::guard([&] {
        sab::check(count <= most_items, "count", count, "must be at most ", most_items);
        if (count == 0) return;
        sab::require(values, "values");
        std::fill_n(values, count, nullptr);
        sab::require(cache, "cache");
        sab::require(items, "items");
        std::vector<std::string_view> keys;
        keys.reserve(count);
        for (std::size_t i = 0; i < count; ++i)
            keys.push_back(read_key(items[i].key, items[i].key_size, of(i, "key")));
        std::vector<std::unique_ptr<sab_cache_value>> made(count);
        for (auto& each : made) each = std::make_unique<sab_cache_value>();
        auto found = cache->impl.get(keys);
        for (std::size_t i = 0; i < count; ++i) {
            if (!found[i]) continue;
            made[i]->view = std::move(*found[i]);
            values[i] = made[i].release();
        }
    });
}

sab_status sab_cache_put_many(sab_cache* cache, const sab_cache_item* items,
                              size_t count) noexcept {
    return sab::guard([&] {
        sab::require(cache, "cache");
        sab::check(count <= most_items, "count", count, "must be at most ", most_items);
        if (count == 0) return;
        sab::require(items, "items");
        std::vector<sab::cache::Item> all;
        all.reserve(count);
        for (std::size_t i = 0; i < count; ++i)
            all.push_back({read_key(items[i].key, items[i].key_size, of(i, "key")),
                           read_value(items[i].data, items[i].size, of(i, "data"))});
        cache->impl.put_all(all);
    });
}

sab_status sab_cache_flush(sab_cache* cache) noexcept {
    return sab::guard([&] {
        sab::require(cache, "cache");
        cache->impl.flush();
    });
}

sab_status sab_cache_key_count(sab_cache* cache, uint64_t* keys) noexcept {
    return sab::guard([&] {
        sab::require(cache, "cache");
        sab::require(keys, "keys");
        *keys = cache->impl.count();
    });
}

sab_status sab_cache_clear(sab_cache* cache) noexcept {
    return sab::guard([&] {
        sab::require(cache, "cache");
        cache->impl.clear();
    });
}

sab_status sab_cache_get_stats(const sab_cache* cache, sab_cache_stats* stats) noexcept {
    return sab::guard([&] {
        sab::require(cache, "cache");
        sab::check_result(stats, "stats");
        sab::write_result(cache->impl.stats(), stats);
    });
}

const void* sab_cache_value_data(const sab_cache_value* value, size_t* size) noexcept {
    if (size != nullptr) *size = value == nullptr ? 0 : value->view.bytes.size();
    return value == nullptr ? nullptr : value->view.bytes.data();
}

void sab_cache_value_free(sab_cache_value* value) noexcept {
    delete value;
}

void sab_cache_free(sab_cache* cache) noexcept {
    delete cache;
}

}  // extern "C"
