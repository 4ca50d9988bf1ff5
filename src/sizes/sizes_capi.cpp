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

sab_status sab_sizes_named_new(const sab_sizes* sizes, const char* name,
                               sab_sizes** named) noexcept {
    return sab::guard_new(named, "named", [&] {
        sab::require(sizes, "sizes");
        sab::require(name, "name");
        sab::Columns made = sab::Columns::named(
            sizes->impl, name);  // before memory is taken: a part may have been freed
        return new sab_sizes{{}, std::move(made)};
    });
}

sab_status sab_sizes_columns_new(const sab_sizes* const* columns, size_t count,
                                 sab_sizes** sizes) noexcept {
    return sab::guard_new(sizes, "sizes", [&] {
        if (count > 0) sab::require(static_cast<const void*>(columns), "columns");
        sab::Columns made = sab::Columns::together(
            {columns, count});  // before memory is taken: a part may have been freed
        return new sab_sizes{{}, std::move(made)};
    });
}

size_t sab_sizes_column_count(const sab_sizes* sizes) noexcept {
    return sab::is_handle(sizes) ? sizes->impl.size() : 0;
}

const char* sab_sizes_column_name(const sab_sizes* sizes, size_t column) noexcept {
    if (!sab::is_handle(sizes) || column >= sizes->impl.size() || !sizes->impl.has_names())
        return nullptr;
    return sizes->impl.names()[column].c_str();
}

sab_status sab_sizes_locate(const sab_sizes* sizes, size_t index, size_t* part,
                            size_t* row) noexcept {
    return sab::guard([&] {
        sab::require(sizes, "sizes");
        sab::require(part, "part");
        sab::require(row, "row");
        sab::check(index < sizes->impl.count(), "index", index, "must be below the count, ",
                   sizes->impl.count());
        const sab::Sizes::Source source = sizes->impl[0].source(index);
        *part = source.part;
        *row = source.row;
    });
}

const char* sab_sizes_description(const sab_sizes* sizes) noexcept {
    return sab::is_handle(sizes) ? sizes->impl.description().c_str() : "";
}

size_t sab_sizes_count(const sab_sizes* sizes) noexcept {
    return sab::is_handle(sizes) ? sizes->impl.count() : 0;
}

sab_status sab_sizes_get(const sab_sizes* sizes, size_t index, double* size) noexcept {
    return sab::guard([&] {
        sab::require(sizes, "sizes");
        sab::require(size, "size");
        sab::check(index < sizes->impl.count(), "index", index, "must be below the count, ",
                   sizes->impl.count());
        const sab::Columns& columns = sizes->impl;
        sab::PerColumn row{};
        for (std::size_t j = 0; j < columns.size(); ++j)
            columns[j].read(index, {&row[j], 1}, columns.described(j));
        std::copy_n(row.begin(), columns.size(), size);
    });
}

sab_status sab_sizes_values(const sab_sizes* sizes, size_t column, size_t first, size_t count,
                            double* values) noexcept {
    return sab::guard([&] {
        sab::require(sizes, "sizes");
        if (count > 0) sab::require(values, "values");
        const sab::Columns& columns = sizes->impl;
        sab::check(column < columns.size(), "column", column, "must be below the columns, ",
                   columns.size());
        const size_t all = columns.count();
        sab::check(first <= all, "first", first, "must be at most the count, ", all);
        sab::check(count <= all - first, "count", count,
                   "must be at most the sizes from first on, ", all - first);
        columns[column].read(first, {values, count}, columns.described(column));
    });
}

void sab_sizes_free(sab_sizes* sizes) noexcept {
    sab::free_handle(sizes);
}

}  // extern "C"
