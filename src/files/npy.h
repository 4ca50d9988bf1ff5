#pragma once
/// Sizes in NumPy's `.npy` format.

#include <cstddef>
#include <span>

#include "files/input.h"
#include "sab/files.h"
#include "sizes/sizes.h"

namespace sab {

Sizes map_npy(const char* path);
Sizes read_npy(Input& input);                      // mapped, too
Sizes read_npy(std::span<const std::byte> image);  // copied

}  // namespace sab
