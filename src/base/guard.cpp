#include "base/guard.h"

#include <cstring>
#include <new>
#include <stdexcept>

#include "base/callback.h"

namespace sab {
namespace {

/// Plain arrays without destructors, so that a thread may end at any time and the library may be
/// unloaded.
thread_local char last_message[1024] = "";
thread_local int32_t last_callback_code = 0;

}  // namespace

const char* last_error_message() noexcept {
    return last_message;
}

int32_t last_error_callback_code() noexcept {
    return last_callback_code;
}

sab_status set_last_error(sab_status status, const char* message, int32_t callback_code) noexcept {
    std::size_t length = std::strlen(message);
    if (length > sizeof last_message - 1) {
        length = sizeof last_message - 1;
        // do not cut a UTF-8 character
        while (length > 0 && (static_cast<unsigned char>(message[length]) & 0xC0) == 0x80) --length;
    }
    std::memcpy(last_message, message, length);
    last_message[length] = '\0';
    last_callback_code = callback_code;
    return status;
}

sab_status set_caught_error() noexcept {
    try {
        throw;
    } catch (const ThreadEnd&) {
        sleep_until_exit();
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

}  // namespace sab
