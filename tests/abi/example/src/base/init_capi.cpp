// Generated from the public headers by tools/abi.py: do not edit.
// clang-format off
#include "base/guard.h"

extern "C" {

void sab_box_options_init(sab_box_options *options, size_t struct_size) noexcept {
    static constexpr sab_box_options defaults = SAB_BOX_OPTIONS_INIT;
    sab::init_options(options, struct_size, defaults);
}
#if SAB_WITH_EXTRA

void sab_thing_init(sab_thing *thing, size_t struct_size) noexcept {
    static constexpr sab_thing defaults = SAB_THING_INIT;
    sab::init_options(thing, struct_size, defaults);
}
#endif

}  // extern "C"
