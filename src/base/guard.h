#pragma once
/// What every function of the C ABI is wrapped in, and how option and result structs cross it.

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <new>
#include <stdexcept>
#include <type_traits>

#include "base/error.h"

namespace sab {

/// Keeps the calling thread's last failure; never allocates.
sab_status set_last_error(sab_status status, const char* message, int32_t callback_code) noexcept;

/// Sends a line to the process's log callback, if there is one.
void log(sab_log_level level, const std::string& message);

/// Runs `body` and turns whatever leaves it into a status and the thread's message. The only place that catches.
template <class Body>
sab_status guard(Body&& body) noexcept {
    try {
        if constexpr (std::is_same_v<decltype(body()), sab_status>) {
            return body();
        } else {
            body();
            return SAB_OK;
        }
    } catch (const Error& error) {
        return set_last_error(error.status(), error.what(), error.callback_code());
    } catch (const std::bad_alloc&) {
        return set_last_error(SAB_E_NO_MEMORY, "memory could not be had", 0);
    } catch (const std::length_error&) {
        return set_last_error(SAB_E_NO_MEMORY, "more memory is needed than there can be", 0);
    } catch (const std::exception& error) {
        return set_last_error(SAB_E_INTERNAL, error.what(), 0);
    } catch (...) {
        return set_last_error(SAB_E_INTERNAL, "an unknown C++ exception", 0);
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

/// What the caller's `given` covers, over the defaults. A smaller struct than the first released one (`first_size`) is refused; a larger
/// one passes when what this library does not know is zero.
template <class Options>
Options read_options(const Options* given, const Options& defaults, std::size_t first_size, std::string_view name = "options") {
    Options options = defaults;
    if (given == nullptr) return options;
    const std::size_t size = given->struct_size;
    const std::string which = text(name, ".struct_size");
    check(size >= first_size, which, size, "must be at least ", first_size, " (use the _INIT macro)");
    check(size <= 65536, which, size, "must be at most 65536 (use the _INIT macro)");
    std::memcpy(&options, given, std::min(size, sizeof(Options)));
    const auto* bytes = reinterpret_cast<const unsigned char*>(given);
    for (std::size_t i = sizeof(Options); i < size; ++i)
        check(bytes[i] == 0, which, size, "byte ", i, " is set, but this library knows only the first ", sizeof(Options));
    options.struct_size = sizeof(Options);
    return options;
}

/// Checks that a result struct has room for the first released fields, before any work is done for it.
template <class Result>
void check_result(const Result* result, std::size_t first_size, std::string_view name) {
    require(result, name);
    if (result->struct_size < first_size)
        fail(SAB_E_ARGUMENT, name, ".struct_size = ", result->struct_size, ": must be at least ", first_size, " (use the _INIT macro)");
}

/// Fills as much of the caller's struct as it has room for.
template <class Result>
void write_result(Result value, Result* result) {
    value.struct_size = result->struct_size;
    std::memcpy(result, &value, std::min(result->struct_size, sizeof(Result)));
}

}  // namespace sab
