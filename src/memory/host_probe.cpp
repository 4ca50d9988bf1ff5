#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "memory/probe.h"

namespace sab {
namespace {

/// The number of KiB after `name`, at the beginning of a line in a file of /proc; -1 when it is not there. Read without stdio, which allocates: memory may be short where it is measured.
int64_t kibibytes(const char* path, const char* name) {
    const int file = ::open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return -1;
    char text[8192];
    std::size_t size = 0;
    for (ssize_t more; size < sizeof text - 1 && (more = ::read(file, text + size, sizeof text - 1 - size)) > 0;) size += static_cast<std::size_t>(more);
    ::close(file);
    text[size] = '\0';
    for (const char* line = text; line != nullptr; line = std::strchr(line, '\n')) {
        if (*line == '\n') ++line;
        if (std::strncmp(line, name, std::strlen(name)) == 0) return std::strtoll(line + std::strlen(name), nullptr, 10);
    }
    return -1;
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
        const int file = ::open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
        if (file < 0) return 1;
        const bool written = ::write(file, "5", 1) == 1;  // lets VmHWM begin again at VmRSS
        return ::close(file) != 0 || !written;
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
