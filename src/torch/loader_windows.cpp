#include "base/error.h"
#include "torch/loader.h"

namespace sab {

const sab_torch_component* load_torch_component(const char*, std::string&) {
    fail(SAB_E_UNSUPPORTED, "the LibTorch component: not on Windows");
}

}  // namespace sab
