/// States of streams with a correct checksum and impossible contents: each is refused, or the
/// stream goes on.
#include <gtest/gtest.h>
#include <sab.h>

#include <array>
#include <string>

#include "../forgeries.h"
#include "base/xxhash.h"

#include "../c/one.h"

namespace forged_stream_state {  // files are compiled together in unity builds
namespace {

constexpr std::size_t record_count = 20;

sab_stream* numbers(int32_t infinite) {
    static const char text[] = "0123456789abcdefghij";
    std::array<sab_record, record_count> records;
    for (std::size_t i = 0; i < records.size(); ++i)
        records[i] = {SAB_RECORD_BYTES, static_cast<double>(i % 7), text + i, 1};
    sab_list_stream_options options = SAB_LIST_STREAM_OPTIONS_INIT;
    options.infinite = options.shuffle = infinite;
    options.world_size = 1 + static_cast<uint64_t>(infinite);
    sab_stream* stream = nullptr;
    EXPECT_EQ(sab_list_stream_new(records.data(), records.size(), &options, &stream), SAB_OK);
    return stream;
}

struct Pipeline {
    const char* name;
    sab_stream* (*make)();
};

/// Takes a reference: the call whose status it is given sets the stream.
sab_stream* expect_made(sab_status status, sab_stream* const& stream) {
    EXPECT_EQ(status, SAB_OK) << sab_last_error_message();
    return stream;
}

int32_t keep(void* /*ctx*/, const sab_record* /*record*/, sab_record* /*made*/) {
    return 0;
}

int32_t sum(void* /*ctx*/, const sab_record* /*state*/, const sab_record* record,
            sab_record* next_state, sab_record* /*made*/) {
    *next_state = *record;
    return 0;
}

int32_t shuffled(void* /*ctx*/, sab_random* random, const sab_record* /*record*/,
                 sab_record* made) {
    made->size = sab_random_draw_real(random);
    return 0;
}

int32_t open_numbers(void* /*ctx*/, const sab_record* /*record*/, sab_stream** stream) {
    *stream = numbers(0);
    return 0;
}

sab_stream* read_ahead(sab_stream* source, int32_t carry_over) {
    sab_readahead_stream_options options = SAB_READAHEAD_STREAM_OPTIONS_INIT;
    options.read_ahead = 5;
    options.batch_size = 2;
    options.carry_over = carry_over;
    return expect_made(sab_readahead_stream_new(source, &options, &source), source);
}

sab_stream* mapped(sab_stream* source, uint64_t threads) {
    sab_map_stream_options options = SAB_MAP_STREAM_OPTIONS_INIT;
    options.map = keep;
    options.threads = threads;
    return expect_made(sab_map_stream_new(source, &options, &source), source);
}

sab_stream* joined(decltype(&sab_zip_stream_new) make) {
    sab_stream *sources[] = {numbers(1), numbers(0)}, *stream = nullptr;
    return expect_made(make(sources, 2, &stream), stream);
}

/// One of its two sources has ended in the saved state if `count` is 1.
sab_stream* mixed(std::size_t count, sab_mix_until until) {
    const std::array<double, 2> proportions{1, 3};
    sab_mix_stream_options options = SAB_MIX_STREAM_OPTIONS_INIT;
    options.proportions = proportions.data();
    options.proportion_count = proportions.size();
    options.until = until;
    sab_stream *sources[] = {numbers(0), nullptr}, *stream = nullptr;
    std::vector<sab_record> letters;
    for (std::size_t i = 0; i < count; ++i)
        letters.push_back({SAB_RECORD_BYTES, 1, "abcdefghij" + i, 1});
    EXPECT_EQ(sab_list_stream_new(letters.data(), count, nullptr, &sources[1]), SAB_OK);
    return expect_made(sab_mix_stream_new(sources, 2, &options, &stream), stream);
}

sab_stream* packed(sab_stream* source) {
    sab_pack_stream_options options = SAB_PACK_STREAM_OPTIONS_INIT;
    options.capacities = one_number(10);
    options.capacity_count = 1;
    options.read_ahead = 5;
    return expect_made(sab_pack_stream_new(source, &options, &source), source);
}

int32_t two_sizes(void* /*ctx*/, const sab_record* record, double* sizes) {
    sizes[0] = record->size;
    sizes[1] = 1;
    return 0;
}

sab_stream* read_columns_ahead(sab_stream* source) {
    sab_readahead_stream_options options = SAB_READAHEAD_STREAM_OPTIONS_INIT;
    options.read_ahead = 5;
    options.budgets = one_budget(20);
    options.budget_count = 1;
    options.carry_over = 1;
    options.sizes_fn = two_sizes;
    options.columns = 2;
    return expect_made(sab_readahead_stream_new(source, &options, &source), source);
}

sab_stream* packed_columns(sab_stream* source) {
    static const double capacities[] = {10, 3};
    sab_pack_stream_options options = SAB_PACK_STREAM_OPTIONS_INIT;
    options.read_ahead = 5;
    options.sizes_fn = two_sizes;
    options.capacities = capacities;
    options.capacity_count = 2;
    return expect_made(sab_pack_stream_new(source, &options, &source), source);
}

template <class Make, class... Options>
sab_stream* over(sab_stream* source, Make make, Options... options) {
    return expect_made(make(source, options..., &source), source);
}

const Pipeline pipelines[] = {
    {"list", [] { return numbers(0); }},
    {"infinite list", [] { return numbers(1); }},
    {"random",
     [] {
         sab_stream* stream = nullptr;
         return expect_made(sab_random_stream_new(1, &stream), stream);
     }},
    {"map", [] { return mapped(numbers(0), 0); }},
    {"map in threads", [] { return mapped(numbers(0), 2); }},
    {"recurrent",
     [] {
         sab_stream* stream = numbers(0);
         const sab_record initial = {};
         return expect_made(
             sab_recurrent_stream_new(stream, sum, nullptr, nullptr, &initial, nullptr, &stream),
             stream);
     }},
    {"random map",
     [] {
         sab_stream* stream = numbers(0);
         return expect_made(
             sab_random_map_stream_new(stream, shuffled, nullptr, nullptr, 3, nullptr, &stream),
             stream);
     }},
    {"select",
     [] {
         sab_stream* stream = numbers(0);
         return expect_made(
             sab_select_stream_new(stream, open_numbers, nullptr, nullptr, nullptr, &stream),
             stream);
     }},
    {"batch", [] { return over(numbers(0), sab_batch_stream_new, uint64_t{3}); }},
    {"flatten",
     [] {
         return over(over(numbers(0), sab_batch_stream_new, uint64_t{3}), sab_flatten_stream_new);
     }},
    {"window", [] { return over(numbers(0), sab_window_stream_new, uint64_t{3}); }},
    {"block shuffle",
     [] {
         return over(numbers(0), sab_shuffle_stream_new, SAB_SHUFFLE_BLOCKS, uint64_t{6},
                     uint64_t{1});
     }},
    {"buffered shuffle",
     [] {
         return over(numbers(0), sab_shuffle_stream_new, SAB_SHUFFLE_BUFFER, uint64_t{3},
                     uint64_t{2});
     }},
    {"zip", [] { return joined(sab_zip_stream_new); }},
    {"mix until the first end", [] { return mixed(10, SAB_MIX_UNTIL_FIRST); }},
    {"mix until all ends", [] { return mixed(1, SAB_MIX_UNTIL_ALL); }},
    {"shard", [] { return over(numbers(0), sab_shard_stream_new, uint64_t{1}, uint64_t{2}); }},
    {"read-ahead", [] { return read_ahead(numbers(0), 0); }},
    {"read-ahead that carries over", [] { return read_ahead(numbers(0), 1); }},
    {"read-ahead of columns", [] { return read_columns_ahead(numbers(0)); }},
    {"pack", [] { return packed(numbers(0)); }},
    {"pack of columns", [] { return packed_columns(numbers(0)); }},
    {"prefetch of an infinite list",
     [] { return over(numbers(1), sab_prefetch_stream_new, uint64_t{4}); }},
    {"prefetch", [] { return over(numbers(0), sab_prefetch_stream_new, uint64_t{4}); }},
};

Saved state_of(sab_stream* stream) {
    std::size_t size = 0;
    EXPECT_EQ(sab_stream_state_save(stream, nullptr, 0, &size), SAB_OK);
    Saved state(size);
    EXPECT_EQ(sab_stream_state_save(stream, state.data(), size, &size), SAB_OK)
        << sab_last_error_message();
    return state;
}

void repair(Saved& state) {
    const std::size_t body = state.size() - 8;
    const uint64_t checksum = XXH3_64bits(state.data(), body);
    std::memcpy(state.data() + body, &checksum, sizeof checksum);
}

/// Stops a restore that would read a source without an end for ever. While a thread is waited for,
/// `total` is 0.
int32_t cancel_late(void* ctx, uint64_t /*done*/, uint64_t total) {
    return total > 0 && ++*static_cast<int*>(ctx) > 20 ? 1 : 0;
}

TEST(ForgedStreamState, IsRefusedOrTheStreamGoesOn) {
    constexpr std::size_t fingerprint = 16, body = 24, generator = 2496;
    for (const Pipeline& pipeline : pipelines) {
        SCOPED_TRACE(pipeline.name);
        sab_stream* const stream = pipeline.make();
        sab_record record = {};
        for (int i = 0; i < 4; ++i) EXPECT_EQ(sab_stream_next(stream, &record), SAB_OK);
        const Saved saved = state_of(stream);
        int calls = 0, accepted = 0;
        const sab_progress_options options{sizeof options, cancel_late, &calls};
        EXPECT_EQ(sab_stream_set_progress(stream, &options), SAB_OK);
        const auto attempt = [&](Saved& forged) {
            if (testing::Test::HasFailure()) return;
            repair(forged);
            calls = 0;
            const sab_status status =
                sab_stream_state_restore(stream, forged.data(), forged.size());
            ASSERT_TRUE(status == SAB_OK || status == SAB_E_FORMAT || status == SAB_E_MISMATCH ||
                        status == SAB_E_CANCELLED)
                << sab_last_error_message();
            accepted += status == SAB_OK;
            for (int i = 0; i < 30 && status == SAB_OK; ++i) {
                calls = 0;
                ASSERT_GE(sab_stream_next(stream, &record), SAB_OK) << sab_last_error_message();
            }
        };
        // Of a generator's words only the first and the last can be wrong.
        const std::size_t end = saved.size() - 8;
        for_each_forgery(saved, fingerprint, std::min(end, body + 200), attempt);
        if (end > body + generator) for_each_forgery(saved, end - 100, end, attempt);
        EXPECT_GT(accepted, 0);
        calls = 0;
        EXPECT_EQ(sab_stream_state_restore(stream, saved.data(), saved.size()), SAB_OK);
        sab_stream_free(stream);
    }
}

}  // namespace
}  // namespace forged_stream_state
