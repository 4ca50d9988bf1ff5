#include "base/guard.h"
#include "base/log.h"
#include "base/version.h"

extern "C" {

const char* sab_status_name(sab_status status) noexcept {
    switch (status) {
        case SAB_OK: return "SAB_OK";
        case SAB_END: return "SAB_END";
        case SAB_E_ARGUMENT: return "SAB_E_ARGUMENT";
        case SAB_E_NO_MEMORY: return "SAB_E_NO_MEMORY";
        case SAB_E_CALLBACK: return "SAB_E_CALLBACK";
        case SAB_E_TIMEOUT: return "SAB_E_TIMEOUT";
        case SAB_E_CANCELLED: return "SAB_E_CANCELLED";
        case SAB_E_IO: return "SAB_E_IO";
        case SAB_E_FORMAT: return "SAB_E_FORMAT";
        case SAB_E_MISMATCH: return "SAB_E_MISMATCH";
        case SAB_E_UNSUPPORTED: return "SAB_E_UNSUPPORTED";
        case SAB_E_INTERNAL: return "SAB_E_INTERNAL";
        case SAB_E_DEVICE_MEMORY: return "SAB_E_DEVICE_MEMORY";
        default: return "unknown status";
    }
}

const char* sab_last_error_message(void) noexcept {
    return sab::last_error().message;
}

const char* sab_last_error_argument(void) noexcept {
    return sab::last_error().argument;
}

const char* sab_last_error_value(void) noexcept {
    return sab::last_error().value;
}

const char* sab_last_error_rule(void) noexcept {
    return sab::last_error().rule;
}

int32_t sab_last_error_code(void) noexcept {
    return sab::last_error().code;
}

uint32_t sab_abi_version(void) noexcept {
    return SAB_ABI_MAJOR * 1000 + SAB_ABI_MINOR;
}

const char* sab_version_string(void) noexcept {
    return SAB_VERSION;
}

void sab_log_set_callback(sab_log_fn callback, void* ctx) noexcept {
    sab::set_log_callback(callback, ctx);
}

}  // extern "C"
