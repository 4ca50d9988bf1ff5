#include "base/guard.h"
#include "files/npy.h"

extern "C" {

sab_status sab_sizes_npy_new(const char* path, sab_sizes** sizes) noexcept {
    return sab::guard_new(sizes, "sizes", [&] {
        sab::require(path, "path");
        return new sab_sizes{sab::map_npy(path)};
    });
}

sab_status sab_sizes_npy_read(const void* data, size_t size, sab_sizes** sizes) noexcept {
    return sab::guard_new(sizes, "sizes", [&] {
        if (size > 0) sab::require(data, "data");
        return new sab_sizes{sab::read_npy({static_cast<const std::byte*>(data), size})};
    });
}

}  // extern "C"
