#include "base/guard.h"
#include "files/sizes_file.h"
#include "sizes/columns.h"

extern "C" {

sab_status sab_sizes_file_new(const char* path, const sab_sizes_file_options* options,
                              sab_sizes** sizes) noexcept {
    return sab::guard_new(sizes, "sizes", [&] {
        sab::require(path, "path");
        const auto given = sab::read_options(options);
        return new sab_sizes{{}, sab::read_sizes_file(path, given)};
    });
}

}  // extern "C"
