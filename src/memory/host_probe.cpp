#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <span>

#include "memory/probe.h"

namespace sab {
namespace {

/// The number of KiB after `name` at the beginning of a line of a file in /proc; -1 if no line has
/// it. Lines may be longer than the buffer (those of a process in many groups are). Read without
/// stdio, which allocates: memory may be short where it is measured.
int64_t kibibytes(const char* path, const char* name) {
    const int file = ::open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return -1;
    const std::size_t length = std::strlen(name);
    // characters of the name at the beginning of this line; more than `length`: it begins otherwise
    std::size_t matched = 0;
    int64_t number = -1;
    char text[4096];
    for (ssize_t size; (size = ::read(file, text, sizeof text)) > 0;)
        for (const char c : std::span(text, static_cast<std::size_t>(size))) {
            if (c == '\n')
                matched = 0;
            else if (matched < length)
                matched = c == name[matched] ? matched + 1 : length + 1;
            else if (matched == length && c >= '0' && c <= '9')
                number = std::max<int64_t>(number, 0) * 10 + (c - '0');
        }
    ::close(file);
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
        const int file = ::open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
        if (file < 0) return 1;
        const bool written = ::write(file, "5", 1) == 1;  // lets VmHWM begin again at VmRSS
        return ::close(file) != 0 || !written;
    };
    callbacks.current = [](void*, int64_t* bytes) {
        return read_kibibytes("/proc/self/status", "VmRSS:", bytes);
    };
    callbacks.peak = [](void*, int64_t* bytes) {
        return read_kibibytes("/proc/self/status", "VmHWM:", bytes);
    };
    callbacks.total = [](void*, int64_t* bytes) {
        return read_kibibytes("/proc/meminfo", "MemTotal:", bytes);
    };
    int64_t bytes = 0;
    if (callbacks.reset(nullptr) != 0 || callbacks.peak(nullptr, &bytes) != 0)
        fail_about(SAB_E_UNSUPPORTED, "device", Quoted("host"),
                   "this system has no /proc/self/clear_refs and /proc/self/status");
    return callbacks;
}

}  // namespace sab
