#pragma once
/// The sizes of a file of any format that is known.

#include "sab/files.h"
#include "sizes/sizes.h"

namespace sab {

Sizes read_sizes_file(const char* path, const sab_sizes_file_options& options);

}  // namespace sab
