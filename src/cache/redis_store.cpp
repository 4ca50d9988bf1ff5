/// Values on Redis servers.
#include "base/error.h"
#include "cache/store.h"
#include "cache/url.h"

namespace sab::cache {

std::unique_ptr<Store> open_redis_store(const RedisAddress&, const StoreOptions&) { fail(SAB_E_UNSUPPORTED, "not here yet"); }

}  // namespace sab::cache
