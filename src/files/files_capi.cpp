#include "base/guard.h"
#include "files/npy.h"
#include "files/sizes_file.h"
#include "sizes/columns.h"

extern "C" {

sab_status sab_sizes_file_new(const char* path, const sab_sizes_file_options* options,
                              sab_sizes** sizes) noexcept {
    return sab::guard_new(sizes, "sizes", [&] {
        sab::require(path, "path");
        const auto given =
            sab::read_options(options, sab_sizes_file_options SAB_SIZES_FILE_OPTIONS_INIT);
        return new sab_sizes{sab::read_sizes_file(path, given)};
    });
}

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
