/// Bytes as the state of a pipeline, with the checksum made right. What is accepted leaves the
/// stream somewhere on its way.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "fuzz.h"

/// Numbers, zipped with shuffled ones that are mixed with others, in windows, mapped in a thread,
/// in batches read ahead by another.
static sab_stream* make_pipeline() {
    static const char text[] = "0123456789abcdefghij";
    sab_record records[20];
    for (size_t i = 0; i < 20; ++i)
        records[i] = {SAB_RECORD_BYTES, static_cast<double>(i % 7), text + i, 1};
    sab_list_stream_options endless = SAB_LIST_STREAM_OPTIONS_INIT;
    endless.infinite = endless.shuffle = 1;
    sab_readahead_stream_options ahead = SAB_READAHEAD_STREAM_OPTIONS_INIT;
    ahead.oversize = SAB_OVERSIZE_SINGLE;
    ahead.read_ahead = 5;
    ahead.batch_size = 2;
    ahead.carry_over = 1;
    sab_map_stream_options mapping = SAB_MAP_STREAM_OPTIONS_INIT;
    mapping.map = [](void*, const sab_record*, sab_record*) { return int32_t{0}; };
    mapping.threads = 1;
    sab_stream *sources[2] = {}, *stream = nullptr;
    const auto over = [&](auto make) {
        sab_stream* made = nullptr;
        PROMISE(make(stream, &made) == SAB_OK);
        stream = made;
    };
    PROMISE(sab_list_stream_new(records, 20, &endless, &sources[0]) == SAB_OK);
    PROMISE(sab_list_stream_new(records, 20, nullptr, &stream) == SAB_OK);
    over([](sab_stream* source, sab_stream** made) {
        return sab_shuffle_stream_new(source, SAB_SHUFFLE_BLOCKS, 6, 1, made);
    });
    over([](sab_stream* source, sab_stream** made) {
        return sab_shuffle_stream_new(source, SAB_SHUFFLE_BUFFER, 3, 2, made);
    });
    const double proportions[] = {3, 2};
    sab_mix_stream_options mixing = SAB_MIX_STREAM_OPTIONS_INIT;
    mixing.proportions = proportions;
    mixing.proportion_count = 2;
    sab_stream* mixed[2] = {stream, nullptr};
    PROMISE(sab_list_stream_new(records, 20, nullptr, &mixed[1]) == SAB_OK);
    PROMISE(sab_mix_stream_new(mixed, 2, &mixing, &sources[1]) == SAB_OK);
    PROMISE(sab_zip_stream_new(sources, 2, &stream) == SAB_OK);
    over(
        [](sab_stream* source, sab_stream** made) { return sab_flatten_stream_new(source, made); });
    over([](sab_stream* source, sab_stream** made) {
        return sab_window_stream_new(source, 3, made);
    });
    over([&](sab_stream* source, sab_stream** made) {
        return sab_map_stream_new(source, &mapping, made);
    });
    over([&](sab_stream* source, sab_stream** made) {
        return sab_readahead_stream_new(source, &ahead, made);
    });
    over([](sab_stream* source, sab_stream** made) {
        return sab_prefetch_stream_new(source, 4, made);
    });
    over([](sab_stream* source, sab_stream** made) {
        return sab_shard_stream_new(source, 1, 2, made);
    });
    return stream;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    Input input(data, size);
    sab_stream* const stream = make_pipeline();
    sab_record record = {};
    for (int steps = input.take<uint8_t>() % 20; steps > 0; --steps)
        PROMISE(sab_stream_next(stream, &record) >= SAB_OK);
    size_t length = 0;
    PROMISE(sab_stream_state_save(stream, nullptr, 0, &length) == SAB_OK);
    std::vector<uint8_t> state(length);
    PROMISE(sab_stream_state_save(stream, state.data(), length, &length) == SAB_OK);
    while (input.left() > 0) {
        const auto place = input.take<uint16_t>() % state.size();
        state[place] = input.take<uint8_t>();
    }
    const uint64_t checksum = XXH3_64bits(state.data(), state.size() - 8);
    std::memcpy(state.data() + state.size() - 8, &checksum, sizeof checksum);
    const sab_status status = sab_stream_state_restore(stream, state.data(), state.size());
    PROMISE(status == SAB_OK || status == SAB_E_FORMAT || status == SAB_E_MISMATCH);
    int steps = 0;
    while (steps < 100 && sab_stream_next(stream, &record) == SAB_OK) ++steps;
    PROMISE(steps < 100);
    sab_stream_free(stream);
    return 0;
}
