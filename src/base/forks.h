#pragma once
/// Forks of this process.

#include <cstdint>

namespace sab {

/// How often this process became the child of a fork: what was made under another count belongs to
/// the parent, threads and locks of before are in no known state. The first call may fail.
uint64_t count_forks();

}  // namespace sab
