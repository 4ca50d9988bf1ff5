#include "cache/server.h"

#include "base/error.h"

namespace sab::cache {

Server::Server(const std::string&, uint64_t, double) { fail(SAB_E_UNSUPPORTED, "not here yet"); }
Server::~Server() = default;

}  // namespace sab::cache
