#include <algorithm>
#include <cstring>

#include "base/guard.h"
#include "stream/readahead_sampler.h"
#include "stream/stream.h"

namespace {

void finish_over(sab_stream* source, sab_stream** stream, sab::StagePtr stage) {
    auto made = std::make_unique<sab_stream>();
    stage->attach(std::move(source->impl));  // nothing can fail from here on
    made->impl = std::move(stage);
    made->progress = std::move(source->progress);
    delete source;
    *stream = made.release();
}

/// A stream over a source, which is taken only when the stream could be made. `*stream` changes
/// only then: it may be the source itself.
template <class Make>
sab_status guard_over(sab_stream* source, sab_stream** stream, Make&& make) noexcept {
    return sab::guard([&] {
        sab::require(stream, "stream");
        sab::require(source, "source");
        finish_over(source, stream, make());
    });
}

/// The same over several.
void over_many(const std::vector<sab_stream*>& sources, sab_stream** stream,
               sab::StagePtr (*make)(std::size_t)) {
    for (std::size_t i = 0; i < sources.size(); ++i)
        if (std::find(sources.begin(), sources.begin() + static_cast<std::ptrdiff_t>(i),
                      sources[i]) != sources.begin() + static_cast<std::ptrdiff_t>(i))
            sab::fail(SAB_E_ARGUMENT, "sources: a stream is given twice");
    auto made = std::make_unique<sab_stream>();
    for (const sab_stream* const source : sources) made->progress.add(source->progress);
    sab::StagePtr stage = make(sources.size());
    for (sab_stream* const source : sources) {  // nothing can fail from here on
        stage->attach(std::move(source->impl));
        delete source;
    }
    made->impl = std::move(stage);
    *stream = made.release();
}

std::vector<sab_stream*> listed(sab_stream* const* sources, std::size_t count) {
    sab::check(count >= 1, "count", count, "must be at least 1");
    sab::require(sources, "sources");
    for (std::size_t i = 0; i < count; ++i) sab::require(sources[i], sab::text("sources[", i, "]"));
    return {sources, sources + count};
}

uint64_t fingerprint_of(const sab_stream& stream) {
    sab::Description description;
    stream.impl->describe(description);
    return description.fingerprint();
}

}  // namespace

extern "C" {

sab_status sab_stream_next(sab_stream* stream, sab_record* record) noexcept {
    return sab::guard([&]() -> sab_status {
        sab::require(stream, "stream");
        sab::require(record, "record");
        const sab::Progress progress = stream->progress.all();
        const sab::CurrentProgress current(&progress);
        sab::Record next;
        if (!stream->impl->next(next)) return SAB_END;
        stream->shown = std::move(next);
        *record = stream->shown.view;
        return SAB_OK;
    });
}

sab_status sab_stream_set_progress(sab_stream* stream, sab_progress_fn progress,
                                   void* ctx) noexcept {
    return sab::guard([&] {
        sab::require(stream, "stream");
        stream->progress = sab::StreamProgress(progress, ctx);
    });
}

sab_status sab_stream_rewind(sab_stream* stream) noexcept {
    return sab::guard([&] {
        sab::require(stream, "stream");
        const sab::Progress progress = stream->progress.all();
        const sab::CurrentProgress current(&progress);
        stream->impl->rewind();
    });
}

sab_status sab_stream_skipped_count(const sab_stream* stream, uint64_t* count) noexcept {
    return sab::guard([&] {
        sab::require(stream, "stream");
        sab::require(count, "count");
        *count = stream->impl->skipped();
    });
}

sab_status sab_stream_state_save(const sab_stream* stream, void* buffer, size_t capacity,
                                 size_t* size) noexcept {
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
        const sab::Progress progress = stream->progress.all();
        const sab::CurrentProgress current(&progress);
        try {
            sab::restore_from(
                *stream->impl,
                sab::unseal({static_cast<const std::byte*>(data), size}, fingerprint_of(*stream)));
        } catch (const sab::ThreadEnd&) {
            throw;
        } catch (...) {
            try {
                stream->impl->rewind();
            } catch (const sab::ThreadEnd&) {
                throw;
            } catch (...) {  // ignored: the failure of the restore is reported
            }
            throw;
        }
    });
}

void sab_stream_free(sab_stream* stream) noexcept {
    delete stream;
}

void sab_stream_abandon(sab_stream* stream) noexcept {
    const sab::LeavingThreads leaving;
    delete stream;
}

sab_status sab_list_stream_new(const sab_record* records, size_t count,
                               const sab_list_stream_options* options,
                               sab_stream** stream) noexcept {
    return sab::guard([&] {
        sab::require(stream, "stream");
        if (count > 0) sab::require(records, "records");
        const auto given =
            sab::read_options(options, sab_list_stream_options SAB_LIST_STREAM_OPTIONS_INIT);
        std::vector<sab::Record> list;
        list.reserve(count);
        sab::Copier copier;
        for (std::size_t i = 0; i < count; ++i) {
            const std::string name = sab::text("records[", i, "]");
            if (records[i].kind != SAB_RECORD_BYTES)
                sab::fail(SAB_E_ARGUMENT, name, ".kind = ", records[i].kind,
                          ": must be SAB_RECORD_BYTES (0)");
            list.push_back(sab::taken(name, records[i], sab::Record{}, nullptr, copier));
        }
        auto made = std::make_unique<sab_stream>();
        made->impl = sab::make_list(std::move(list), given);
        *stream = made.release();
    });
}

sab_status sab_array_stream_new(const void* items, size_t item_size, size_t count,
                                const sab_list_stream_options* options,
                                sab_stream** stream) noexcept {
    return sab::guard([&] {
        sab::require(stream, "stream");
        if (count > 0) sab::require(items, "items");
        sab::check(item_size >= 1, "item_size", item_size, "must be at least 1");
        sab::check(count <= SIZE_MAX / 64 / item_size, "count", count, "is too large");
        const auto given =
            sab::read_options(options, sab_list_stream_options SAB_LIST_STREAM_OPTIONS_INIT);
        sab::Shares shares;
        shares.take(new sab::Block(std::max<std::size_t>(count * item_size, 1)));
        if (count > 0) std::memcpy(shares.block()->data(), items, count * item_size);
        std::vector<sab::Record> list;
        list.reserve(count);
        for (std::size_t i = 0; i < count; ++i)
            list.push_back({{SAB_RECORD_BYTES, static_cast<double>(item_size),
                             shares.block()->data() + i * item_size, item_size},
                            shares.share()});
        auto made = std::make_unique<sab_stream>();
        made->impl = sab::make_list(std::move(list), given);
        *stream = made.release();
    });
}

sab_status sab_callback_stream_new(const sab_source_functions* functions,
                                   sab_stream** stream) noexcept {
    return sab::guard([&] {
        sab::require(stream, "stream");
        sab::require(functions, "functions");
        const auto given =
            sab::read_options(functions, sab_source_functions SAB_SOURCE_FUNCTIONS_INIT);
        auto made = std::make_unique<sab_stream>();
        made->impl = sab::make_callback(given);
        *stream = made.release();
    });
}

sab_status sab_random_stream_new(uint64_t seed, sab_stream** stream) noexcept {
    return sab::guard([&] {
        sab::require(stream, "stream");
        auto made = std::make_unique<sab_stream>();
        made->impl = sab::make_random(seed);
        *stream = made.release();
    });
}

sab_status sab_files_stream_new(sab_stream* source, const sab_files_stream_options* options,
                                sab_stream** stream) noexcept {
    return guard_over(source, stream, [&] {
        return sab::make_files(
            sab::read_options(options, sab_files_stream_options SAB_FILES_STREAM_OPTIONS_INIT));
    });
}

sab_status sab_map_stream_new(sab_stream* source, const sab_map_stream_options* options,
                              sab_stream** stream) noexcept {
    return guard_over(source, stream, [&] {
        sab::require(options, "options");
        return sab::make_map(
            sab::read_options(options, sab_map_stream_options SAB_MAP_STREAM_OPTIONS_INIT));
    });
}

sab_status sab_select_stream_new(sab_stream* source, sab_select_fn select, void* ctx,
                                 void (*release)(void* ctx), const sab_object_functions* objects,
                                 sab_stream** stream) noexcept {
    return guard_over(source, stream,
                      [&] { return sab::make_select(select, ctx, release, objects); });
}

sab_status sab_flatten_stream_new(sab_stream* source, sab_stream** stream) noexcept {
    return guard_over(source, stream, [&] { return sab::make_flatten(); });
}

sab_status sab_recurrent_stream_new(sab_stream* source, sab_recur_fn recur, void* ctx,
                                    void (*release)(void* ctx), const sab_record* initial,
                                    const sab_object_functions* objects,
                                    sab_stream** stream) noexcept {
    return guard_over(source, stream,
                      [&] { return sab::make_recurrent(recur, ctx, release, initial, objects); });
}

sab_status sab_random_map_stream_new(sab_stream* source, sab_random_map_fn map, void* ctx,
                                     void (*release)(void* ctx), uint64_t seed,
                                     const sab_object_functions* objects,
                                     sab_stream** stream) noexcept {
    return guard_over(source, stream,
                      [&] { return sab::make_random_map(map, ctx, release, seed, objects); });
}

sab_status sab_zip_stream_new(sab_stream* const* sources, size_t count,
                              sab_stream** stream) noexcept {
    return sab::guard([&] {
        sab::require(stream, "stream");
        over_many(listed(sources, count), stream, sab::make_zip);
    });
}

sab_status sab_multiplex_stream_new(sab_stream* control, sab_stream* const* sources, size_t count,
                                    sab_stream** stream) noexcept {
    return sab::guard([&] {
        sab::require(stream, "stream");
        sab::require(control, "control");
        std::vector<sab_stream*> all = listed(sources, count);
        all.insert(all.begin(), control);
        over_many(all, stream, sab::make_multiplex);
    });
}

sab_status sab_shard_stream_new(sab_stream* source, uint64_t rank, uint64_t world_size,
                                sab_stream** stream) noexcept {
    return guard_over(source, stream, [&] { return sab::make_rank(rank, world_size); });
}

sab_status sab_batch_stream_new(sab_stream* source, uint64_t batch_size,
                                sab_stream** stream) noexcept {
    return guard_over(source, stream, [&] { return sab::make_batches(batch_size); });
}

sab_status sab_window_stream_new(sab_stream* source, uint64_t width, sab_stream** stream) noexcept {
    return guard_over(source, stream, [&] { return sab::make_window(width); });
}

sab_status sab_block_shuffle_stream_new(sab_stream* source, uint64_t block_size, uint64_t seed,
                                        sab_stream** stream) noexcept {
    return guard_over(source, stream, [&] { return sab::make_block_shuffle(block_size, seed); });
}

sab_status sab_buffered_shuffle_stream_new(sab_stream* source, uint64_t buffer_size, uint64_t seed,
                                           sab_stream** stream) noexcept {
    return guard_over(source, stream,
                      [&] { return sab::make_buffered_shuffle(buffer_size, seed); });
}

sab_status sab_readahead_stream_new(sab_stream* source, const sab_readahead_stream_options* options,
                                    sab_stream** stream) noexcept {
    return guard_over(source, stream, [&] {
        sab::require(options, "options");
        return sab::make_readahead(sab::read_options(
            options, sab_readahead_stream_options SAB_READAHEAD_STREAM_OPTIONS_INIT));
    });
}

sab_status sab_pack_stream_new(sab_stream* source, const sab_pack_stream_options* options,
                               sab_stream** stream) noexcept {
    return guard_over(source, stream, [&] {
        sab::require(options, "options");
        return sab::make_pack(
            sab::read_options(options, sab_pack_stream_options SAB_PACK_STREAM_OPTIONS_INIT));
    });
}

sab_status sab_readahead_sampler_new(sab_stream* source,
                                     const sab_readahead_stream_options* options,
                                     sab_sampler** sampler) noexcept {
    return sab::guard_new(sampler, "sampler", [&] {
        sab::require(source, "source");
        sab::require(options, "options");
        const auto given = sab::read_options(
            options, sab_readahead_stream_options SAB_READAHEAD_STREAM_OPTIONS_INIT);
        return sab::new_handle(std::make_unique<sab::ReadAheadSampler>(source, given));
    });
}

sab_status sab_sampler_stream_new(sab_sampler* sampler, sab_stream** stream) noexcept {
    return sab::guard([&] {
        sab::require(sampler, "sampler");
        sab::require(stream, "stream");
        *stream = sab::ReadAheadSampler::of(*sampler->impl).stream();
    });
}

sab_status sab_prefetch_stream_new(sab_stream* source, uint64_t buffer_size,
                                   sab_stream** stream) noexcept {
    return guard_over(source, stream, [&] { return sab::make_prefetch(buffer_size); });
}

}  // extern "C"
