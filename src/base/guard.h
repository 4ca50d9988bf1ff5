#pragma once
/// What every function of the C ABI is wrapped in, and how option and result structs cross it.

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <type_traits>

#include "base/error.h"
#include "base/first_size.h"
#include "base/progress.h"

namespace sab {

/// Keeps the calling thread's last failure; never allocates.
sab_status set_last_error(sab_status status, const char* message, int32_t callback_code) noexcept;
const char* last_error_message() noexcept;
int32_t last_error_callback_code() noexcept;

/// In a handler: what the exception being handled means. Out of line, since every function of the
/// ABI ends in it.
[[gnu::cold]] sab_status set_caught_error() noexcept;

/// Runs `body` and turns whatever leaves it into a status and the thread's message. The only place
/// that catches.
template <class Body>
sab_status guard(Body&& body) noexcept {
    try {
        if constexpr (std::is_same_v<decltype(body()), sab_status>) {
            return body();
        } else {
            body();
            return SAB_OK;
        }
    } catch (...) {
        return set_caught_error();
    }
}

/// guard() for constructors: `*handle` is NULL unless `make` gave one.
template <class Handle, class Make>
sab_status guard_new(Handle** handle, std::string_view name, Make&& make) noexcept {
    if (handle != nullptr) *handle = nullptr;
    return guard([&] {
        require(handle, name);
        *handle = make();
    });
}

/// What the caller's `given` covers; the rest is zero, which is the default of every option. A
/// smaller struct than the first released one is refused; a larger one passes when what this
/// library does not know is zero.
template <class Options>
Options read_options(const Options* given, std::string_view name = "options") {
    Options options{};
    options.struct_size = sizeof(Options);
    if (given == nullptr) return options;
    const std::size_t size = given->struct_size;
    const auto check_size = [&](bool kept, const auto&... rule) {
        if (!kept) fail(SAB_E_ARGUMENT, name, ".struct_size = ", size, ": ", rule...);
    };
    check_size(size >= first_size<Options>, "must be at least ", first_size<Options>,
               " (set struct_size to the size of the struct)");
    check_size(size <= 65536, "must be at most 65536 (set struct_size to the size of the struct)");
    std::memcpy(&options, given, std::min(size, sizeof(Options)));
    const auto* bytes = reinterpret_cast<const unsigned char*>(given);
    for (std::size_t i = sizeof(Options); i < size; ++i)
        check_size(bytes[i] == 0, "byte ", i, " is set, but this library knows only the first ",
                   sizeof(Options));
    options.struct_size = sizeof(Options);
    return options;
}

inline Progress read_progress(const sab_progress_options* given) {
    const sab_progress_options options = read_options(given);
    return {options.progress, options.progress_ctx};
}

/// Checks that a result struct has room for the first released fields, before any work is done for
/// it.
template <class Result>
void check_result(const Result* result, std::string_view name) {
    require(result, name);
    if (result->struct_size < first_size<Result>)
        fail(SAB_E_ARGUMENT, name, ".struct_size = ", result->struct_size, ": must be at least ",
             first_size<Result>, " (set struct_size to the size of the struct)");
}

/// Refuses a buffer that is too small for what is written as a whole; its size was told before.
inline void check_room(std::size_t capacity, std::size_t needed) {
    check(capacity == 0 || needed <= capacity, "capacity", capacity, "must be at least ", needed,
          " (0 asks for the size)");
}

/// Fills as much of the caller's struct as it has room for.
template <class Result>
void write_result(Result value, Result* result) {
    value.struct_size = result->struct_size;
    std::memcpy(result, &value, std::min(result->struct_size, sizeof(Result)));
}

}  // namespace sab
