#pragma once
/// Caches that are open, so that a fork can be told to them.

namespace sab::cache {

class Cache;
void add_to_open(Cache* cache);
void remove_from_open(Cache* cache);
/// Begins anew with files that are open: those there are, and their locks, are the parent's.
void forget_files() noexcept;

}  // namespace sab::cache
