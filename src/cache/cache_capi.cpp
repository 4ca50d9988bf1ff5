#include <algorithm>

#include "base/guard.h"
#include "base/options.h"
#include "cache/cache.h"

extern "C" {

sab_status sab_cache_new(const char* url, const sab_cache_options* options,
                         sab_cache** cache) noexcept {
    return sab::guard_new(cache, "cache", [&] {
        sab::require(url, "url");
        auto given = sab::read_options(options);
        sab::default_to(given.writer_buffer_size, 1);
        sab::default_to(given.flush_interval, 1);
        sab::default_to(given.timeout, 1);
        sab::default_to(given.load_wait, 60);
        return new sab_cache{{}, {url, given}};
    });
}

sab_status sab_cache_get(sab_cache* cache, const void* key, size_t key_size,
                         sab_cache_value** value) noexcept {
    return sab::guard_new(value, "value", [&] {
        sab::require(cache, "cache");
        const std::string_view name = sab::cache::read_key(key, key_size, "key");
        return sab::cache::find_values(cache->impl, {&name, 1})[0].release();
    });
}

sab_status sab_cache_put(sab_cache* cache, const void* key, size_t key_size, const void* data,
                         size_t size) noexcept {
    return sab::guard([&] {
        sab::require(cache, "cache");
        cache->impl.put(sab::cache::read_key(key, key_size, "key"),
                        sab::cache::read_value(data, size, "data"));
    });
}

sab_status sab_cache_get_or_load(sab_cache* cache, const void* key, size_t key_size,
                                 sab_cache_load_fn load, void* ctx,
                                 const sab_progress_options* options,
                                 sab_cache_value** value) noexcept {
    return sab::guard_new(value, "value", [&] {
        sab::require(cache, "cache");
        const std::string_view name = sab::cache::read_key(key, key_size, "key");
        if (load == nullptr) sab::refuse_argument("load", "NULL", "must be given");
        auto made = std::make_unique<sab_cache_value>();
        made->view = cache->impl.get_or_load(name, sab::cache::load_with(load, ctx, name),
                                             sab::read_progress(options));
        return made.release();
    });
}

sab_status sab_cache_get_many(sab_cache* cache, const sab_cache_item* items, size_t count,
                              sab_cache_value** values) noexcept {
    return sab::guard([&] {
        sab::cache::check_item_count(count);
        if (count > 0) sab::require(values, "values");
        std::fill_n(values, count, nullptr);
        sab::require(cache, "cache");
        if (count == 0) return;
        sab::require(items, "items");
        auto found = sab::cache::find_values(cache->impl, sab::cache::read_keys({items, count}));
        std::ranges::transform(found, values, [](auto& each) { return each.release(); });
    });
}

sab_status sab_cache_put_many(sab_cache* cache, const sab_cache_item* items,
                              size_t count) noexcept {
    return sab::guard([&] {
        sab::require(cache, "cache");
        sab::cache::check_item_count(count);
        if (count == 0) return;
        sab::require(items, "items");
        cache->impl.put_all(sab::cache::read_items({items, count}));
    });
}

sab_status sab_cache_flush(sab_cache* cache) noexcept {
    return sab::guard([&] {
        sab::require(cache, "cache");
        cache->impl.flush();
    });
}

sab_status sab_cache_get_key_count(sab_cache* cache, uint64_t* keys) noexcept {
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
    if (size != nullptr) *size = sab::is_handle(value) ? value->view.bytes.size() : 0;
    return sab::is_handle(value) ? value->view.bytes.data() : nullptr;
}

void sab_cache_value_free(sab_cache_value* value) noexcept {
    sab::free_handle(value);
}

void sab_cache_free(sab_cache* cache) noexcept {
    sab::free_handle(cache);
}

}  // extern "C"
