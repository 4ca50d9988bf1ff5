#pragma once
/// A Redis server of this machine's own, for as long as this process lives.

#include <cstdint>
#include <string>

#include "cache/url.h"

namespace sab::cache {

class Server {
public:
    /// Starts `program` on a free port of the address and waits until it answers; throws
    /// Error(SAB_E_IO).
    Server(const std::string& program, const std::string& bind, uint64_t capacity, double timeout);
    ~Server();
    Server(const Server&) = delete;
    Server& operator=(const Server&) = delete;
    const RedisAddress& address() const { return address_; }

private:
    RedisAddress address_;
    int leash_ = -1;  // the server ends when nobody holds this end of the pipe any more
};

}  // namespace sab::cache
