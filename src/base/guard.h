#pragma once
/// What every function of the C ABI is wrapped in, and how option and result structs cross it.

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <type_traits>

#include "base/error.h"
#include "base/first_size.h"
#include "base/progress.h"

namespace sab {

/// The calling thread's last failure. Plain arrays without destructors, so that a thread may end at
/// any time and the library may be unloaded.
struct LastError {
    char message[1024];
    char argument[256];
    char value[4096];  ///< as long as a file's name can be
    char rule[1024];
    int32_t code;
};
const LastError& last_error() noexcept;

/// Keeps the calling thread's last failure; never allocates.
sab_status set_last_error(const Error& error) noexcept;
/// One without parts.
sab_status set_last_error(sab_status status, const char* message) noexcept;

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

/// Out of line, since there are many structs.
[[noreturn, gnu::cold]] void refuse_struct_size(std::string_view name, std::size_t size,
                                                std::initializer_list<TextPart> rule);
[[noreturn, gnu::cold]] void refuse_small_struct(std::string_view name, std::size_t size,
                                                 std::size_t least);

/// What the caller's `given` covers; the rest is zero, which is the default of every option. A
/// smaller struct than the first released one is refused; a larger one passes when what this
/// library does not know is zero.
template <class Options>
Options read_options(const Options* given, std::string_view name = "options") {
    Options options{};
    options.struct_size = sizeof(Options);
    if (given == nullptr) return options;
    const std::size_t size = given->struct_size;
    if (size < first_size<Options>) refuse_small_struct(name, size, first_size<Options>);
    if (size > 65536)
        refuse_struct_size(name, size,
                           {"must be at most 65536 (set struct_size to the size of the struct)"});
    std::memcpy(&options, given, std::min(size, sizeof(Options)));
    const auto* bytes = reinterpret_cast<const unsigned char*>(given);
    for (std::size_t i = sizeof(Options); i < size; ++i)
        if (bytes[i] != 0)
            refuse_struct_size(
                name, size,
                {"byte ", i, " is set, but this library knows only the first ", sizeof(Options)});
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
        refuse_small_struct(name, result->struct_size, first_size<Result>);
}

/// Refuses a buffer that is too small for what is written as a whole; its size was told before.
inline void check_room(std::size_t capacity, std::size_t needed) {
    check(capacity == 0 || needed <= capacity, "capacity", capacity, "must be at least ", needed,
          " (0 asks for the size)");
}

/// Writes bytes as a whole to the caller's buffer, or tells their size only. `write` is given the
/// room, writes if it is enough, and returns the size.
template <class Write>
void write_bytes(void* buffer, std::string_view name, std::size_t capacity, std::size_t* size,
                 Write&& write) {
    require(size, "size");
    if (capacity > 0) require(buffer, name);
    *size = write(std::span(static_cast<std::byte*>(buffer), capacity));
    check_room(capacity, *size);
}

/// Fills as much of the caller's struct as it has room for.
template <class Result>
void write_result(Result value, Result* result) {
    value.struct_size = result->struct_size;
    std::memcpy(result, &value, std::min(result->struct_size, sizeof(Result)));
}

}  // namespace sab
