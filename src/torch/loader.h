#pragma once
/// Finds and loads the LibTorch component.

#include <string>

#include "torch/component.h"

namespace sab {

/// Loads it from `path`, else from where SAB_TORCH_LIBRARY says, else from beside this library;
/// `file` is then what was loaded, for good.
const sab_torch_component* load_torch_component(const char* path, std::string& file);

}  // namespace sab
