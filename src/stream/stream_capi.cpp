#include <algorithm>
#include <cmath>

#include "base/guard.h"
#include "stream/stream.h"

namespace {

/// A stream over a source, which is taken only when the stream could be made.
template <class Make>
sab_stream* over(sab_stream* source, Make&& make) {
    sab::require(source, "source");
    auto made = std::make_unique<sab_stream>();
    made->impl = make(std::move(source->impl));
    delete source;
    return made.release();
}

uint64_t fingerprint_of(const sab_stream& stream) {
    sab::Description description;
    stream.impl->describe(description);
    return description.fingerprint();
}

sab::RecordPtr record_of(const sab_record& given, std::size_t index) {
    if (given.items != nullptr || given.item_count > 0) sab::fail(SAB_E_ARGUMENT, "records[", index, "]: must be bytes, not a list");
    if (given.length > 0) sab::require(given.data, sab::text("records[", index, "].data"));
    if (!(given.size >= 0 && std::isfinite(given.size)))
        sab::fail(SAB_E_ARGUMENT, "records[", index, "].size = ", given.size, ": must be finite and not negative");
    auto record = std::make_shared<sab::Record>();
    record->bytes.assign(static_cast<const char*>(given.data), given.length);
    record->size = given.size;
    return record;
}

}  // namespace

extern "C" {

sab_status sab_stream_next(sab_stream* stream, sab_record* record) noexcept {
    return sab::guard([&]() -> sab_status {
        sab::require(stream, "stream");
        sab::check_result(record, sizeof(sab_record), "record");
        sab::RecordPtr next = stream->impl->next();
        if (next == nullptr) return SAB_END;
        stream->shown = std::move(next);
        stream->lists.clear();
        sab_record shown = SAB_RECORD_INIT;
        sab::show(*stream->shown, shown, stream->lists);
        sab::write_result(shown, record);
        return SAB_OK;
    });
}

sab_status sab_stream_rewind(sab_stream* stream) noexcept {
    return sab::guard([&] {
        sab::require(stream, "stream");
        stream->impl->rewind();
    });
}

sab_status sab_stream_state_save(const sab_stream* stream, void* buffer, size_t capacity, size_t* size) noexcept {
    return sab::guard([&] {
        sab::require(stream, "stream");
        sab::require(size, "size");
        if (capacity > 0) sab::require(buffer, "buffer");
        const sab::Bytes state = sab::seal(fingerprint_of(*stream), sab::state_of(*stream->impl));
        *size = state.size();
        if (capacity >= state.size()) std::ranges::copy(state, static_cast<std::byte*>(buffer));
    });
}

sab_status sab_stream_state_restore(sab_stream* stream, const void* data, size_t size) noexcept {
    return sab::guard([&] {
        sab::require(stream, "stream");
        if (size > 0) sab::require(data, "data");
        const auto body = sab::unseal({static_cast<const std::byte*>(data), size}, fingerprint_of(*stream));
        try {
            sab::StateReader state(body);
            stream->impl->restore(state);
            if (!state.is_at_end()) sab::StateReader::refuse();
        } catch (...) {
            stream->impl->rewind();
            throw;
        }
    });
}

void sab_stream_free(sab_stream* stream) noexcept { delete stream; }

void sab_list_stream_options_init(sab_list_stream_options* options) noexcept {
    if (options != nullptr) *options = sab_list_stream_options SAB_LIST_STREAM_OPTIONS_INIT;
}

sab_status sab_list_stream_new(const sab_record* records, size_t count, const sab_list_stream_options* options, sab_stream** stream) noexcept {
    return sab::guard_new(stream, "stream", [&] {
        if (count > 0) sab::require(records, "records");
        const auto given = sab::read_options(options, sab_list_stream_options SAB_LIST_STREAM_OPTIONS_INIT, sizeof(sab_list_stream_options));
        std::vector<sab::RecordPtr> list;
        for (std::size_t i = 0; i < count; ++i) list.push_back(record_of(records[i], i));
        return new sab_stream{sab::make_list(std::move(list), given), nullptr, {}};
    });
}

void sab_lines_stream_options_init(sab_lines_stream_options* options) noexcept {
    if (options != nullptr) *options = sab_lines_stream_options SAB_LINES_STREAM_OPTIONS_INIT;
}

sab_status sab_lines_stream_new(sab_stream* source, const sab_lines_stream_options* options, sab_stream** stream) noexcept {
    return sab::guard_new(stream, "stream", [&] {
        return over(source, [&](sab::StreamPtr&& under) {
            const auto given = sab::read_options(options, sab_lines_stream_options SAB_LINES_STREAM_OPTIONS_INIT, sizeof(sab_lines_stream_options));
            return sab::make_lines(std::move(under), given);
        });
    });
}

sab_status sab_map_stream_new(sab_stream* source, sab_map_fn map, void* ctx, void (*release)(void* ctx), sab_stream** stream) noexcept {
    return sab::guard_new(stream, "stream", [&] {
        return over(source, [&](sab::StreamPtr&& under) {
            sab::require(reinterpret_cast<const void*>(map), "map");
            return sab::make_map(std::move(under), map, ctx, release);
        });
    });
}

sab_status sab_batch_stream_new(sab_stream* source, uint64_t batch_size, sab_stream** stream) noexcept {
    return sab::guard_new(stream, "stream", [&] {
        return over(source, [&](sab::StreamPtr&& under) { return sab::make_batches(std::move(under), batch_size); });
    });
}

sab_status sab_flatten_stream_new(sab_stream* source, sab_stream** stream) noexcept {
    return sab::guard_new(stream, "stream", [&] {
        return over(source, [&](sab::StreamPtr&& under) { return sab::make_flatten(std::move(under)); });
    });
}

sab_status sab_window_stream_new(sab_stream* source, uint64_t width, sab_stream** stream) noexcept {
    return sab::guard_new(stream, "stream", [&] {
        return over(source, [&](sab::StreamPtr&& under) { return sab::make_window(std::move(under), width); });
    });
}

sab_status sab_zip_stream_new(sab_stream* const* sources, size_t count, sab_stream** stream) noexcept {
    return sab::guard_new(stream, "stream", [&] {
        sab::check(count >= 1, "count", count, "must be at least 1");
        sab::require(sources, "sources");
        for (std::size_t i = 0; i < count; ++i) {
            sab::require(sources[i], sab::text("sources[", i, "]"));
            if (std::find(sources, sources + i, sources[i]) != sources + i) sab::fail(SAB_E_ARGUMENT, "sources[", i, "]: is given twice");
        }
        auto made = std::make_unique<sab_stream>();
        std::vector<sab::StreamPtr> under(count);
        for (std::size_t i = 0; i < count; ++i) under[i] = std::move(sources[i]->impl);
        try {
            made->impl = sab::make_zip(std::move(under));
        } catch (...) {
            for (std::size_t i = 0; i < count; ++i) sources[i]->impl = std::move(under[i]);
            throw;
        }
        for (std::size_t i = 0; i < count; ++i) delete sources[i];
        return made.release();
    });
}

sab_status sab_block_shuffle_stream_new(sab_stream* source, uint64_t block_size, uint64_t seed, sab_stream** stream) noexcept {
    return sab::guard_new(stream, "stream", [&] {
        return over(source, [&](sab::StreamPtr&& under) { return sab::make_block_shuffle(std::move(under), block_size, seed); });
    });
}

sab_status sab_buffered_shuffle_stream_new(sab_stream* source, uint64_t buffer_size, uint64_t seed, sab_stream** stream) noexcept {
    return sab::guard_new(stream, "stream", [&] {
        return over(source, [&](sab::StreamPtr&& under) { return sab::make_buffered_shuffle(std::move(under), buffer_size, seed); });
    });
}

void sab_readahead_stream_options_init(sab_readahead_stream_options* options) noexcept {
    if (options != nullptr) *options = sab_readahead_stream_options SAB_READAHEAD_STREAM_OPTIONS_INIT;
}

sab_status sab_readahead_stream_new(sab_stream* source, const sab_readahead_stream_options* options, sab_stream** stream) noexcept {
    return sab::guard_new(stream, "stream", [&] {
        return over(source, [&](sab::StreamPtr&& under) {
            sab::require(options, "options");
            const auto given = sab::read_options(options, sab_readahead_stream_options SAB_READAHEAD_STREAM_OPTIONS_INIT, sizeof(sab_readahead_stream_options));
            return sab::make_readahead(std::move(under), given);
        });
    });
}

}  // extern "C"
