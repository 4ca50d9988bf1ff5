#pragma once
/// A cache over a store: frames with checksums, the buffer, one maker a key, what happens on
/// failure and on fork.

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "base/handle.h"
#include "base/progress.h"
#include "cache/store.h"
#include "sab/cache.h"

namespace sab::cache {

/// Makes a value; its bytes stay until the call that loads returns.
using Load = std::function<std::string_view()>;

/// Makes the store of a cache, and makes it anew in a child after a fork.
using OpenStore = std::function<std::unique_ptr<Store>()>;
/// Checks the options. The store is that of the URL.
OpenStore store_of(std::string_view url, const sab_cache_options& options);

class Cache {
public:
    Cache(std::string_view url, const sab_cache_options& options);
    ~Cache();
    Cache(const Cache&) = delete;
    Cache& operator=(const Cache&) = delete;

    std::vector<std::optional<View>> get(std::span<const std::string_view> keys);
    View get_or_load(std::string_view key, const Load& load, const Progress& progress);
    void put(std::string_view key, std::string_view value);
    void put_all(std::span<const Item> items);
    void flush();
    uint64_t count();
    void clear();
    sab_cache_stats stats() const;
    const std::string& url() const { return url_; }

    // Around a fork; see forks.cpp.
    void before_fork() noexcept;
    void in_child() noexcept;

private:
    struct Settings {
        std::optional<std::string> dataset_name;
        uint64_t writer_buffer_size;
        double flush_interval, load_wait;
        sab_cache_failure on_failure;
    };
    struct State;
    using Buffer = std::unordered_map<std::string, std::shared_ptr<const std::string>>;

    State& state();
    std::string full(std::string_view key) const;
    void append_full(std::string& out, std::string_view key) const;
    std::vector<std::optional<View>> find(std::span<const std::string> keys);
    std::shared_ptr<const std::string> load_and_keep(const std::string& key, const Load& load);
    void keep(const std::string& key, std::shared_ptr<const std::string> framed);
    void write(std::span<const Item> items);
    void flush_if_due();
    void write_under_way(State& own);
    void settle(const Outcome& outcome);

    const OpenStore open_;  // first: its making checks the options
    const Settings settings_;
    std::string url_;
    std::mutex making_state_;
    std::atomic<State*> state_{nullptr};
    struct Counters {
        std::atomic<uint64_t> hits{0}, misses{0}, loads{0}, waits{0}, evictions{0}, damaged{0},
            failures{0}, dropped{0}, bytes_read{0}, bytes_written{0};
    } counters_;
};

constexpr std::size_t frame_header_size = 16;
/// A value with its header.
std::string framed(std::string_view key, std::string_view value);
void append_frame(std::string& out, std::string_view key, std::string_view value);
/// The value of a frame; empty where it is damaged or of another key.
std::optional<std::string_view> unframed(std::string_view key, std::string_view frame);

}  // namespace sab::cache

struct sab_cache {
    sab::Tag<sab_cache> tag{};
    sab::cache::Cache impl;
};

struct sab_cache_value {
    sab::Tag<sab_cache_value> tag{};
    sab::cache::View view;
};

namespace sab::cache {

std::string_view read_key(const void* key, std::size_t size, std::string_view name);
std::string_view read_value(const void* data, std::size_t size, std::string_view name);
void check_item_count(std::size_t count);
std::vector<std::string_view> read_keys(std::span<const sab_cache_item> items);
std::vector<Item> read_items(std::span<const sab_cache_item> items);
/// Calls the caller's function. `key` must outlive what is returned.
Load load_with(sab_cache_load_fn load, void* ctx, std::string_view key);
/// A handle for each key, null where the cache has no value. The handles are made first, so that no
/// value that was found is lost.
std::vector<std::unique_ptr<sab_cache_value>> find_values(Cache& cache,
                                                          std::span<const std::string_view> keys);

}  // namespace sab::cache
