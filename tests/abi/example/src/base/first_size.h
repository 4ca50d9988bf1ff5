#pragma once
// Generated from the public headers by tools/abi.py: do not edit.
// clang-format off
/// The size of each struct of the ABI when it was first released: up to the end of its last field
/// of that release. A field that was appended later has `@since` in its comment. It begins behind
/// any padding at the old end, because callers leave that padding unset.

#include <cstddef>

#include <sab.h>

namespace sab {

template <class Struct>
extern const std::size_t first_size;  // a struct without a row does not link

#define SAB_FIRST_RELEASED(type, last) \
    template <> \
    inline constexpr std::size_t first_size<type> = \
        (offsetof(type, last) + sizeof(type::last) + alignof(type) - 1) / alignof(type) * \
        alignof(type);

// NOLINTBEGIN(bugprone-sizeof-expression): some of the fields are pointers
SAB_FIRST_RELEASED(sab_box_options, release)
#if SAB_WITH_EXTRA
SAB_FIRST_RELEASED(sab_thing, struct_size)
#endif
// NOLINTEND(bugprone-sizeof-expression)

#undef SAB_FIRST_RELEASED

}  // namespace sab
