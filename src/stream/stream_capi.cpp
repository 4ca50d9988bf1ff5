#include "base/guard.h"
#include "base/options.h"
#include "stream/stream.h"

namespace {

/// A stage over a source, which is taken only on success. `*stream` changes only then, since it may
/// be the source itself.
template <class Make>
sab_status guard_stage(sab_stream* source, sab_stream** stream, Make&& make) noexcept {
    return sab::guard([&] {
        sab::require(stream, "stream");
        sab::require(source, "source");
        *stream = sab::stack(make(), source);
    });
}

std::span<sab_stream* const> read_sources(sab_stream* const* sources, std::size_t count) {
    sab::check(count >= 1, "count", count, "must be at least 1");
    sab::require(sources, "sources");
    for (std::size_t i = 0; i < count; ++i) sab::require(sources[i], sab::text("sources[", i, "]"));
    return {sources, count};
}

}  // namespace

extern "C" {

sab_status sab_stream_next(sab_stream* stream, sab_record* record) noexcept {
    return sab::guard([&]() -> sab_status {
        sab::require(stream, "stream");
        sab::require(record, "record");
        if (!stream->impl.next()) return SAB_END;
        *record = stream->impl.shown.view;
        return SAB_OK;
    });
}

sab_status sab_stream_set_progress(sab_stream* stream,
                                   const sab_progress_options* options) noexcept {
    return sab::guard([&] {
        sab::require(stream, "stream");
        const sab_progress_options given = sab::read_options(options);
        stream->impl.progress = sab::StreamProgress(given.progress, given.progress_ctx);
    });
}

sab_status sab_stream_rewind(sab_stream* stream) noexcept {
    return sab::guard([&] {
        sab::require(stream, "stream");
        stream->impl.rewind();
    });
}

sab_status sab_stream_get_skipped_count(const sab_stream* stream, uint64_t* count) noexcept {
    return sab::guard([&] {
        sab::require(stream, "stream");
        sab::require(count, "count");
        *count = stream->impl.stream->skipped();
    });
}

sab_status sab_stream_state_save(const sab_stream* stream, void* buffer, size_t capacity,
                                 size_t* size) noexcept {
    return sab::guard([&] {
        sab::require(stream, "stream");
        sab::write_bytes(buffer, "buffer", capacity, size,
                         [&](auto room) { return stream->impl.save(room); });
    });
}

sab_status sab_stream_state_restore(sab_stream* stream, const void* data, size_t size) noexcept {
    return sab::guard([&] {
        sab::require(stream, "stream");
        if (size > 0) sab::require(data, "data");
        stream->impl.restore({static_cast<const std::byte*>(data), size});
    });
}

void sab_stream_free(sab_stream* stream) noexcept {
    sab::free_handle(stream);
}

void sab_stream_abandon(sab_stream* stream) noexcept {
    const sab::LeavingThreads leaving;
    sab::free_handle(stream);
}

sab_status sab_list_stream_new(const sab_record* records, size_t count,
                               const sab_list_stream_options* options,
                               sab_stream** stream) noexcept {
    return sab::guard([&] {
        sab::require(stream, "stream");
        if (count > 0) sab::require(records, "records");
        auto given = sab::read_options(options);
        sab::default_to(given.world_size, 1);
        *stream = new sab_stream{{}, {sab::make_list({records, count}, given)}};
    });
}

sab_status sab_callback_stream_new(const sab_source_functions* functions,
                                   sab_stream** stream) noexcept {
    return sab::guard([&] {
        sab::require(stream, "stream");
        sab::require(functions, "functions");
        const auto given = sab::read_options(functions, "functions");
        *stream = new sab_stream{{}, {sab::make_callback(given)}};
    });
}

sab_status sab_random_stream_new(uint64_t seed, sab_stream** stream) noexcept {
    return sab::guard([&] {
        sab::require(stream, "stream");
        *stream = new sab_stream{{}, {sab::make_random(seed)}};
    });
}

sab_status sab_files_stream_new(sab_stream* source, const sab_files_stream_options* options,
                                sab_stream** stream) noexcept {
    return guard_stage(source, stream, [&] { return sab::make_files(sab::read_options(options)); });
}

sab_status sab_map_stream_new(sab_stream* source, const sab_map_stream_options* options,
                              sab_stream** stream) noexcept {
    return guard_stage(source, stream, [&] {
        sab::require(options, "options");
        return sab::make_map(sab::read_options(options));
    });
}

sab_status sab_text_size_stream_new(sab_stream* source, sab_text_unit unit,
                                    sab_stream** stream) noexcept {
    return sab::guard([&] {
        sab::require(stream, "stream");
        sab::require(source, "source");
        *stream = sab::measured(source, unit);
    });
}

sab_status sab_select_stream_new(sab_stream* source, sab_select_fn select, void* ctx,
                                 void (*release)(void* ctx), const sab_object_functions* objects,
                                 sab_stream** stream) noexcept {
    return guard_stage(source, stream,
                       [&] { return sab::make_select(select, ctx, release, objects); });
}

sab_status sab_flatten_stream_new(sab_stream* source, sab_stream** stream) noexcept {
    return guard_stage(source, stream, [&] { return sab::make_flatten(); });
}

sab_status sab_recurrent_stream_new(sab_stream* source, sab_recur_fn recur, void* ctx,
                                    void (*release)(void* ctx), const sab_record* initial,
                                    const sab_object_functions* objects,
                                    sab_stream** stream) noexcept {
    return guard_stage(source, stream,
                       [&] { return sab::make_recurrent(recur, ctx, release, initial, objects); });
}

sab_status sab_random_map_stream_new(sab_stream* source, sab_random_map_fn map, void* ctx,
                                     void (*release)(void* ctx), uint64_t seed,
                                     const sab_object_functions* objects,
                                     sab_stream** stream) noexcept {
    return guard_stage(source, stream,
                       [&] { return sab::make_random_map(map, ctx, release, seed, objects); });
}

sab_status sab_zip_stream_new(sab_stream* const* sources, size_t count,
                              sab_stream** stream) noexcept {
    return sab::guard([&] {
        sab::require(stream, "stream");
        *stream = sab::zip(read_sources(sources, count));
    });
}

sab_status sab_multiplex_stream_new(sab_stream* control, sab_stream* const* sources, size_t count,
                                    sab_stream** stream) noexcept {
    return sab::guard([&] {
        sab::require(stream, "stream");
        sab::require(control, "control");
        *stream = sab::multiplex(control, read_sources(sources, count));
    });
}

sab_status sab_mix_stream_new(sab_stream* const* sources, size_t count,
                              const sab_mix_stream_options* options, sab_stream** stream) noexcept {
    return sab::guard([&] {
        sab::require(stream, "stream");
        const auto all = read_sources(sources, count);
        sab::require(options, "options");
        auto given = sab::read_options(options);
        sab::default_to(given.window, 1000);
        *stream = sab::mix(all, given);
    });
}

sab_status sab_shard_stream_new(sab_stream* source, uint64_t rank, uint64_t world_size,
                                sab_stream** stream) noexcept {
    return guard_stage(source, stream, [&] { return sab::make_shard(rank, world_size); });
}

sab_status sab_batch_stream_new(sab_stream* source, uint64_t batch_size,
                                sab_stream** stream) noexcept {
    return guard_stage(source, stream, [&] { return sab::make_batches(batch_size); });
}

sab_status sab_window_stream_new(sab_stream* source, uint64_t width, sab_stream** stream) noexcept {
    return guard_stage(source, stream, [&] { return sab::make_window(width); });
}

sab_status sab_shuffle_stream_new(sab_stream* source, sab_stream_shuffle shuffle, uint64_t size,
                                  uint64_t seed, sab_stream** stream) noexcept {
    return guard_stage(source, stream, [&] { return sab::make_shuffle(shuffle, size, seed); });
}

sab_status sab_readahead_stream_new(sab_stream* source, const sab_readahead_stream_options* options,
                                    sab_stream** stream) noexcept {
    return guard_stage(source, stream, [&] {
        sab::require(options, "options");
        auto given = sab::read_options(options);
        sab::default_to(given.read_ahead, 10000);
        return sab::make_readahead(given);
    });
}

sab_status sab_pack_stream_new(sab_stream* source, const sab_pack_stream_options* options,
                               sab_stream** stream) noexcept {
    return guard_stage(source, stream, [&] {
        sab::require(options, "options");
        auto given = sab::read_options(options);
        sab::default_to(given.read_ahead, 10000);
        return sab::make_pack(given);
    });
}

sab_status sab_prefetch_stream_new(sab_stream* source, uint64_t buffer_size,
                                   sab_stream** stream) noexcept {
    return guard_stage(source, stream, [&] { return sab::make_prefetch(buffer_size); });
}

double sab_random_draw_real(sab_random* random) noexcept {
    return sab::is_handle(random) ? random->generator.real() : 0;
}

uint64_t sab_random_draw_bits(sab_random* random, uint32_t bits) noexcept {
    return !sab::is_handle(random) || bits < 1 || bits > 64
               ? 0
               : random->generator.bits(static_cast<int>(bits));
}

}  // extern "C"
