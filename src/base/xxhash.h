#pragma once
/// xxHash, compiled once, in xxhash.cpp, under names that no other copy in a program has.
#define XXH_NAMESPACE sab_
#define XXH_STATIC_LINKING_ONLY  // for XXH3_state_t on the stack
#include <xxhash.h>
