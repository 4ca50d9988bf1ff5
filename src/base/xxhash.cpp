#define XXH_IMPLEMENTATION
#include "base/xxhash.h"
