/// On Windows caches are in memory, and nothing forks.
#include "base/error.h"
#include "cache/cache.h"
#include "cache/forks.h"
#include "cache/server.h"

namespace sab::cache {
namespace {

[[noreturn]] void refuse(std::string_view scheme) {
    fail_about(SAB_E_UNSUPPORTED, "url", Quoted{text(scheme, "...")}, "not on Windows");
}

}  // namespace

std::string resolved_path(const std::string&, unsigned) {
    refuse("lmdb:");
}
std::unique_ptr<Store> open_lmdb_store(const std::string&, const StoreOptions&) {
    refuse("lmdb:");
}
std::unique_ptr<Store> open_redis_store(const RedisAddress&, const StoreOptions&) {
    refuse("redis:");
}
Server::Server(const std::string&, const std::string&, uint64_t, double) {
    refuse("redis-server:");
}
Server::~Server() = default;

void watch_forks() {}
void add_to_open(Cache*) {}
void remove_from_open(Cache*) {}

}  // namespace sab::cache
