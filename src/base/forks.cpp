#include "base/forks.h"

#include <pthread.h>

#include <atomic>
#include <new>

namespace sab {

uint64_t count_forks() {
    static std::atomic<uint64_t> forks{0};
    static const bool registered = [] {
        if (pthread_atfork(nullptr, nullptr,
                           [] { forks.fetch_add(1, std::memory_order_relaxed); }) != 0)
            throw std::bad_alloc();
        return true;
    }();
    (void)registered;
    return forks.load(std::memory_order_relaxed);
}

}  // namespace sab
