#include "cache/forks.h"

#include <pthread.h>

#include <mutex>
#include <new>
#include <set>

#include "base/forks.h"
#include "cache/cache.h"

namespace sab::cache {
namespace {

struct Open {
    std::mutex mutex;
    std::set<Cache*> caches;
};

/// Never destroyed: a fork may come when the process is ending.
Open& open_caches() {
    static Open* const open = new Open;
    return *open;
}

void before() {
    Open& open = open_caches();
    open.mutex.lock();
    for (Cache* const cache : open.caches) cache->before_fork();
}

void in_parent() {
    open_caches().mutex.unlock();
}

void in_child() {
    Open& open = open_caches();
    // locked by a thread that is not here, or by this one under another name
    new (&open.mutex) std::mutex;
    forget_files();
    for (Cache* const cache : open.caches) cache->in_child();
}

}  // namespace

void watch_forks() {
    open_caches();
    count_forks();  // first, so that a child has counted when its caches are told
    [[maybe_unused]] static const bool once = [] {
        forget_files();
        // the next call tries again
        if (pthread_atfork(before, in_parent, in_child) != 0) throw std::bad_alloc();
        return true;
    }();
}

void add_to_open(Cache* cache) {
    const std::scoped_lock lock(open_caches().mutex);
    open_caches().caches.insert(cache);
}

void remove_from_open(Cache* cache) {
    const std::scoped_lock lock(open_caches().mutex);
    open_caches().caches.erase(cache);
}

}  // namespace sab::cache
