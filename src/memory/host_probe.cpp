#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "memory/probe.h"

namespace sab {
namespace {

/// The number of KiB after `name` in a file of /proc; -1 when it is not there.
int64_t kibibytes(const char* path, const char* name) {
    std::FILE* const file = std::fopen(path, "re");
    if (file == nullptr) return -1;
    int64_t number = -1;
    char line[256];
    const std::size_t length = std::strlen(name);
    while (number < 0 && std::fgets(line, sizeof line, file) != nullptr)
        if (std::strncmp(line, name, length) == 0) number = std::strtoll(line + length, nullptr, 10);
    std::fclose(file);
    return number;
}

int32_t read_kibibytes(const char* path, const char* name, int64_t* bytes) {
    const int64_t number = kibibytes(path, name);
    *bytes = number * 1024;
    return number < 0;
}

}  // namespace

sab_probe_callbacks host_probe() {
    sab_probe_callbacks callbacks = SAB_PROBE_CALLBACKS_INIT;
    callbacks.reset = [](void*) -> int32_t {
        std::FILE* const file = std::fopen("/proc/self/clear_refs", "we");
        if (file == nullptr) return 1;
        const bool written = std::fputs("5", file) >= 0;  // lets VmHWM begin again at VmRSS
        return std::fclose(file) != 0 || !written;
    };
    callbacks.current = [](void*, int64_t* bytes) { return read_kibibytes("/proc/self/status", "VmRSS:", bytes); };
    callbacks.peak = [](void*, int64_t* bytes) { return read_kibibytes("/proc/self/status", "VmHWM:", bytes); };
    callbacks.total = [](void*, int64_t* bytes) { return read_kibibytes("/proc/meminfo", "MemTotal:", bytes); };
    int64_t bytes = 0;
    if (callbacks.reset(nullptr) != 0 || callbacks.peak(nullptr, &bytes) != 0)
        fail(SAB_E_UNSUPPORTED, "device = \"host\": this system has no /proc/self/clear_refs and /proc/self/status");
    return callbacks;
}

}  // namespace sab
