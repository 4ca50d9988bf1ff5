#pragma once
/// What a cache's URL says.

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sab::cache {

struct RedisHost {
    std::string name;
    uint16_t port = 6379;
    std::string user, password;
    bool operator==(const RedisHost&) const = default;
};

struct RedisAddress {
    std::vector<RedisHost> hosts;
    uint32_t database = 0;
    std::string url() const;
};

struct Url {
    enum Kind { memory, lmdb, redis, redis_server } kind;
    std::string path;  // of lmdb, and of the program for redis_server
    std::string bind;  // of redis_server: an address of this machine
    RedisAddress servers;
};

/// Throws Error(SAB_E_ARGUMENT); passwords do not appear in messages.
Url parse_url(std::string_view text);

}  // namespace sab::cache
