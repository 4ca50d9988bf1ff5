#pragma once
/// Sizes in NumPy's `.npy` format.

#include "files/input.h"
#include "sizes/sizes.h"

namespace sab {

Sizes read_npy(Input& input);

}  // namespace sab
