#include <algorithm>
#include <utility>

#include "base/guard.h"
#include "sizes/columns.h"

extern "C" {

sab_status sab_sizes_new(const void* data, size_t count, sab_dtype dtype,
                         const sab_sizes_options* options, sab_sizes** sizes) noexcept {
    return sab::guard_new(sizes, "sizes", [&] {
        const auto given = sab::read_options(options);
        return new sab_sizes{{}, sab::Sizes::from_memory(data, count, dtype, given)};
    });
}

sab_status sab_sizes_callback_new(size_t count, sab_size_fn size, void* ctx,
                                  const sab_progress_options* options, sab_sizes** sizes) noexcept {
    return sab::guard_new(sizes, "sizes", [&] {
        sab::require(reinterpret_cast<const void*>(size), "size");
        return new sab_sizes{
            {}, sab::Sizes::from_callback(count, size, ctx, sab::read_progress(options))};
    });
}

sab_status sab_sizes_join_new(const sab_sizes* const* parts, size_t count,
                              sab_sizes** sizes) noexcept {
    return sab::guard_new(sizes, "sizes", [&] {
        if (count > 0) sab::require(static_cast<const void*>(parts), "parts");
        sab::Columns made = sab::Columns::join(
            {parts, count});  // before memory is taken: a part may have been freed
        return new sab_sizes{{}, std::move(made)};
    });
}

sab_status sab_sizes_columns_new(const sab_sizes* const* columns, const char* const* names,
                                 size_t count, sab_sizes** sizes) noexcept {
    return sab::guard_new(sizes, "sizes", [&] {
        if (count > 0) sab::require(static_cast<const void*>(columns), "columns");
        sab::Columns made = sab::Columns::together(
            {columns, count}, names);  // before memory is taken: a part may have been freed
        return new sab_sizes{{}, std::move(made)};
    });
}

sab_status sab_sizes_get_info(const sab_sizes* sizes, sab_sizes_info* info) noexcept {
    return sab::guard([&] {
        sab::require(sizes, "sizes");
        sab::check_result(info, "info");
        const sab::Columns& columns = sizes->impl;
        const std::size_t sources = columns.choice() == nullptr ? 0 : columns.choice()->sources();
        sab::write_result(sab_sizes_info{0, columns.count(), columns.size(), sizes->names.get(),
                                         sources, columns.description().c_str()},
                          info);
    });
}

sab_status sab_sizes_locate(const sab_sizes* sizes, size_t index, size_t* part,
                            size_t* row) noexcept {
    return sab::guard([&] {
        sab::require(sizes, "sizes");
        sab::require(part, "part");
        sab::require(row, "row");
        const sab::Columns& columns = sizes->impl;
        sab::check(index < columns.count(), "index", index, "must be below the count, ",
                   columns.count());
        if (const auto& mixture = columns.choice()) {
            *row = mixture->row_of(index);
            *part = mixture->source_of()[index];
        } else {
            const sab::Sizes::Source source = columns[0].source(index);
            *part = source.part;
            *row = source.row;
        }
    });
}

size_t sab_sizes_count(const sab_sizes* sizes) noexcept {
    return sab::is_handle(sizes) ? sizes->impl.count() : 0;
}

sab_status sab_sizes_get(const sab_sizes* sizes, size_t first, size_t count,
                         double* values) noexcept {
    return sab::guard([&] {
        sab::require(sizes, "sizes");
        if (count > 0) sab::require(values, "values");
        const size_t all = sizes->impl.count();
        if (count == 0)
            sab::check(first <= all, "first", first, "must be at most the count, ", all);
        else
            sab::check(first < all, "first", first, "must be below the count, ", all);
        sab::check(count <= all - first, "count", count,
                   "must be at most the samples from first on, ", all - first);
        sizes->impl.read(first, count, values);
    });
}

void sab_sizes_free(sab_sizes* sizes) noexcept {
    sab::free_handle(sizes);
}

}  // extern "C"
