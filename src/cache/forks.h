#pragma once
/// Caches that are open, so that a fork can be told to them.

namespace sab::cache {

class Cache;
void add_to_open(Cache* cache);
void remove_from_open(Cache* cache);

}  // namespace sab::cache
