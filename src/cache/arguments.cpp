/// What callers give to a cache: options, keys, values, a function that loads.
#include "base/callback.h"
#include "cache/cache.h"
#include "cache/server.h"
#include "cache/url.h"

namespace sab::cache {
namespace {

constexpr std::size_t largest_key = std::size_t{1} << 20;
constexpr std::size_t largest_value = (std::size_t{1} << 31) - 1;
constexpr std::size_t most_items = std::size_t{1} << 32;
constexpr std::size_t longest_dataset_name = 400;

void check_options(const sab_cache_options& options) {
    check(options.writer_buffer_size >= 1, "options.writer_buffer_size", options.writer_buffer_size,
          "must be at least 1");
    check(options.flush_interval > 0, "options.flush_interval", options.flush_interval,
          "must be above 0");
    check(options.timeout > 0 && options.timeout <= 1e6, "options.timeout", options.timeout,
          "must be above 0 and at most 1000000 seconds");
    check(options.load_wait > 0 || options.load_wait == -1, "options.load_wait", options.load_wait,
          "must be above 0, or -1");
    check(options.on_failure == SAB_CACHE_DEGRADE || options.on_failure == SAB_CACHE_ERROR,
          "options.on_failure", options.on_failure, "must be SAB_CACHE_DEGRADE or SAB_CACHE_ERROR");
    check(options.call_timeout >= 0 && options.call_timeout <= 1e6, "options.call_timeout",
          options.call_timeout, "must be from 0 to 1000000 seconds");
    check(options.file_mode == 0 ||
              ((options.file_mode & ~uint64_t{0666}) == 0 && (options.file_mode & 0600) == 0600),
          "options.file_mode", options.file_mode,
          "must be from 0600 to 0666 (octal), with read and write for the owner");
}

StoreOptions read_store_options(const sab_cache_options& options) {
    StoreOptions store;
    if (options.dataset_name != nullptr) {
        store.dataset_name = options.dataset_name;
        check(store.dataset_name->size() <= longest_dataset_name, "options.dataset_name", no_value,
              "has ", store.dataset_name->size(), " bytes: must have at most ",
              longest_dataset_name);
    }
    store.capacity = options.capacity;
    store.timeout = options.timeout;
    store.call_timeout = options.call_timeout == 0 ? 10 * options.timeout : options.call_timeout;
    if (options.file_mode != 0) store.file_mode = static_cast<unsigned>(options.file_mode);
    return store;
}

std::string field(std::size_t item, const char* name) {
    return text("items[", item, "].", name);
}

}  // namespace

OpenStore store_of(std::string_view url, const sab_cache_options& options) {
    check_options(options);
    const Url parsed = parse_url(url);
    const StoreOptions store = read_store_options(options);
    if (parsed.kind == Url::redis)
        check(store.capacity == 0, "options.capacity", store.capacity,
              "cannot be set for servers that are there already: their maxmemory is what counts");
    switch (parsed.kind) {
        case Url::memory: return [store] { return make_memory_store(store); };
        case Url::lmdb:
            return [store, path = resolved_path(parsed.path, store.file_mode)] {
                return open_lmdb_store(path, store);
            };
        case Url::redis:
            return [store, address = parsed.servers] { return open_redis_store(address, store); };
        case Url::redis_server: break;
    }
    const auto server =
        std::make_shared<Server>(parsed.path, parsed.bind, store.capacity, store.timeout);
    return [store, server] { return open_redis_store(server->address(), store); };
}

std::string_view read_key(const void* key, std::size_t size, std::string_view name) {
    require(key, name);
    check(size >= 1 && size <= largest_key, text(name, "_size"), size, "must be from 1 to ",
          largest_key);
    return {static_cast<const char*>(key), size};
}

std::string_view read_value(const void* data, std::size_t size, std::string_view name) {
    if (size > 0) require(data, name);
    check(size <= largest_value, text(name, "_size"), size, "must be at most ", largest_value);
    return {static_cast<const char*>(data), size};
}

void check_item_count(std::size_t count) {
    check(count <= most_items, "count", count, "must be at most ", most_items);
}

std::vector<std::string_view> read_keys(std::span<const sab_cache_item> items) {
    std::vector<std::string_view> keys;
    keys.reserve(items.size());
    for (std::size_t i = 0; i < items.size(); ++i)
        keys.push_back(read_key(items[i].key, items[i].key_size, field(i, "key")));
    return keys;
}

std::vector<Item> read_items(std::span<const sab_cache_item> items) {
    std::vector<Item> read;
    read.reserve(items.size());
    for (std::size_t i = 0; i < items.size(); ++i)
        read.push_back({read_key(items[i].key, items[i].key_size, field(i, "key")),
                        read_value(items[i].data, items[i].size, field(i, "data"))});
    return read;
}

Load load_with(sab_cache_load_fn load, void* ctx, std::string_view key) {
    return [=] {
        const void* data = nullptr;
        std::size_t size = unset_size;
        call_back("the load callback",
                  [&] { return load(ctx, key.data(), key.size(), &data, &size); });
        if (size == unset_size) fail_unset("the load callback", "the value");
        return read_value(data, size, "data");
    };
}

std::vector<std::unique_ptr<sab_cache_value>> find_values(Cache& cache,
                                                          std::span<const std::string_view> keys) {
    std::vector<std::unique_ptr<sab_cache_value>> values(keys.size());
    for (auto& each : values) each = std::make_unique<sab_cache_value>();
    auto found = cache.get(keys);
    for (std::size_t i = 0; i < keys.size(); ++i) {
        if (found[i])
            values[i]->view = std::move(*found[i]);
        else
            values[i] = nullptr;
    }
    return values;
}

}  // namespace sab::cache
