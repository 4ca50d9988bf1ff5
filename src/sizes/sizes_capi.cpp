#include "base/guard.h"
#include "sizes/sizes.h"

extern "C" {

sab_status sab_sizes_new(const void* data, size_t count, sab_dtype dtype,
                         const sab_sizes_options* options, sab_sizes** sizes) noexcept {
    return sab::guard_new(sizes, "sizes", [&] {
        const auto given = sab::read_options(options, sab_sizes_options SAB_SIZES_OPTIONS_INIT);
        return new sab_sizes{sab::Sizes::from_memory(data, count, dtype, given)};
    });
}

sab_status sab_sizes_callback_new(size_t count, sab_size_fn size, void* ctx,
                                  sab_progress_fn progress, void* progress_ctx,
                                  sab_sizes** sizes) noexcept {
    return sab::guard_new(sizes, "sizes", [&] {
        sab::require(reinterpret_cast<const void*>(size), "size");
        return new sab_sizes{
            sab::Sizes::from_callback(count, size, ctx, sab::Progress(progress, progress_ctx))};
    });
}

size_t sab_sizes_count(const sab_sizes* sizes) noexcept {
    return sizes == nullptr ? 0 : sizes->impl.count();
}

sab_status sab_sizes_get(const sab_sizes* sizes, size_t index, double* size) noexcept {
    return sab::guard([&] {
        sab::require(sizes, "sizes");
        sab::require(size, "size");
        sab::check(index < sizes->impl.count(), "index", index, "must be below the count, ",
                   sizes->impl.count());
        *size = sizes->impl.at(index);
    });
}

void sab_sizes_free(sab_sizes* sizes) noexcept {
    delete sizes;
}

}  // extern "C"
