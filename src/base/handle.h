#pragma once
/// What every handle of the C ABI begins with.

#include <string_view>

#include "base/error.h"

namespace sab {

/// Tells a handle of a kind from one of another kind and from one that was freed, as far as memory
/// that was freed can be read.
template <class Kind>
class Tag {
public:
    Tag() noexcept = default;
    Tag(const Tag&) noexcept = default;
    Tag& operator=(const Tag&) noexcept = default;
    ~Tag() {
        const void* volatile& kind = kind_;  // or the compiler leaves it out
        kind = nullptr;
    }
    bool is_there() const noexcept { return kind_ == &own; }

private:
    static inline const char own = 0;
    const void* kind_ = &own;
};

template <class Kind>
concept Tagged = requires(const Kind& handle) { handle.tag.is_there(); };

template <Tagged Kind>
bool is_handle(const Kind* handle) noexcept {
    return handle != nullptr && handle->tag.is_there();
}

template <Tagged Kind>
void require(const Kind* handle, std::string_view name) {
    if (handle == nullptr) refuse_null(name);
    if (!handle->tag.is_there())
        refuse_argument(name, no_value, "is a handle of another kind, or was freed");
}

/// Does nothing for NULL and for what is no such handle.
template <Tagged Kind>
void free_handle(Kind* handle) noexcept {
    if (is_handle(handle)) delete handle;
}

}  // namespace sab
