#pragma once
/// Where the values of a cache are kept.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cache/flights.h"

namespace sab::cache {

/// Bytes, and what keeps them.
struct View {
    std::shared_ptr<const void> owner;
    std::string_view bytes;
};

struct Item {
    std::string_view key, value;
};

/// How a call went. A store never throws for what lies outside this process: it says here what it
/// could not do, and does the rest.
struct Outcome {
    std::string failure;     // why a part of it failed; empty: none did
    uint64_t dropped = 0;    // items that were not written
    uint64_t evictions = 0;  // values that had to go
};

/// The right to make a value, which others see; given up when it goes.
class Claim {
public:
    virtual ~Claim() = default;
};

/// Any number of threads at once. Throws std::bad_alloc only where it has kept or removed nothing,
/// or where doing it again gives the same. Made anew in a child after fork(); the parent's is then
/// left as it is.
class Store {
public:
    virtual ~Store() = default;
    /// As many as `keys`; empty where there is none.
    virtual std::vector<std::optional<View>> get(std::span<const std::string_view> keys,
                                                 Outcome& outcome) = 0;
    virtual void put(std::span<const Item> items, Outcome& outcome) = 0;
    virtual uint64_t count(Outcome& outcome) = 0;
    virtual void clear(Outcome& outcome) = 0;
    /// Whether it can be reached.
    virtual void check(Outcome&) {}
    /// Null while somebody in another process has it. Where that cannot be known, everybody gets
    /// it. It lapses after `seconds`, if not before.
    virtual std::unique_ptr<Claim> claim(std::string_view key, double seconds) = 0;
    /// What this process is making.
    virtual Flights& flights() = 0;
    /// For others to open.
    virtual std::string url() const = 0;
};

/// What a store needs to know of the options.
struct StoreOptions {
    std::optional<std::string> dataset_name;  // none: all keys are the cache's
    uint64_t capacity = 0;
    double timeout = 1, call_timeout = 10;
    unsigned file_mode = 0600;  // of files that are made, less the umask
};

std::unique_ptr<Store> make_memory_store(const StoreOptions& options);
/// Makes the file where there is none, and says where it is whatever the working directory: without
/// symbolic links, since the locks of a file lie beside it.
std::string resolved_path(const std::string& path, unsigned file_mode);
std::unique_ptr<Store> open_lmdb_store(const std::string& path, const StoreOptions& options);
struct RedisAddress;
std::unique_ptr<Store> open_redis_store(const RedisAddress& address, const StoreOptions& options);

/// Begins to count forks, and to tell them to the open caches. Before anything that has to know.
void watch_forks();

}  // namespace sab::cache
