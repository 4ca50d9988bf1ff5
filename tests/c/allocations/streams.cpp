// stream
#include <cstdio>

#include "../one.h"
#include "data.h"

namespace {

sab_record record_of(const char *bytes, std::size_t length) {
    sab_record record = {};
    record.data = bytes;
    record.length = length;
    record.size = static_cast<double>(length);
    return record;
}
const char letters[] = "abcdefghijklmnopqrstuvwxyz";

sab_stream *list_of(Run &run, std::size_t count = 20) {
    std::vector<sab_record> records;
    for (std::size_t i = 0; i < count; ++i) records.push_back(record_of(letters, 1 + i * 7 % 26));
    sab_stream *stream = nullptr;
    CALL_INTO(stream, sab_list_stream_new(records.data(), records.size(), nullptr, &stream));
    return stream;
}

std::vector<unsigned char> state_of(Run &run, sab_stream *stream) {
    std::size_t size = 0;
    CALL_INTO(size, sab_stream_state_save(stream, nullptr, 0, &size));
    std::vector<unsigned char> state(size);
    CALL_INTO(state, sab_stream_state_save(stream, state.data(), size, &size));
    run.note(state.data(), state.size());
    return state;
}

void take(Run &run, sab_stream *stream, int most = 60) {
    sab_record record = {};
    for (int i = 0; i < most && CALL_INTO(record, sab_stream_next(stream, &record)) == SAB_OK; ++i)
        run.note_record(record);
}

/// All that a stream can do, and frees it.
void use(Run &run, sab_stream *stream, int first = 4, bool rewinds = true) {
    take(run, stream, first);
    const std::vector<unsigned char> state = state_of(run, stream);
    take(run, stream);
    CALL(sab_stream_state_restore(stream, state.data(), state.size()));
    take(run, stream);
    if (rewinds) {
        CALL(sab_stream_rewind(stream));
        take(run, stream, 3);
        state_of(run, stream);
    }
    CALL_PLAIN(sab_stream_free(stream));
}

int32_t go_on(void *, uint64_t, uint64_t) {
    return 0;
}
int32_t map_size(void *, const sab_record *record, sab_record *made) {
    made->size = static_cast<double>(record->length % 7 + 1);
    return 0;
}
int32_t map_to_object(void *, const sab_record *record, sab_record *made) {
    made->kind = SAB_RECORD_OBJECT;
    made->data = Run::object(record->length);
    made->length = 0;
    made->size = 1;
    return 0;
}
int32_t map_randomly(void *ctx, sab_random *random, const sab_record *record, sab_record *made) {
    Run &run = *static_cast<Run *>(ctx);
    made->size = static_cast<double>(record->length) + CALL_PLAIN(sab_random_draw_real(random)) +
                 static_cast<double>(CALL_PLAIN(sab_random_draw_bits(random, 3)));
    return 0;
}
int32_t step(void *, const sab_record *state, const sab_record *, sab_record *next,
             sab_record *made) {
    next->data = letters;
    next->length = state->length % 20 + 1;
    made->size = static_cast<double>(state->length + 1);
    return 0;
}
int32_t open_twice(void *, const sab_record *record, sab_stream **made) {
    const sab_record twice[] = {*record, *record};
    return sab_list_stream_new(twice, 2, nullptr, made);
}
int32_t batch_size(void *, const sab_record *largest, uint64_t *size) {
    *size = largest->size > 10 ? 2 : 3;
    return 0;
}
int32_t boundary_key(void *, const sab_record *record, uint64_t *key) {
    *key = record->length / 9;
    return 0;
}

/// A source of objects: numbers from 0 to 19.
struct Numbers {
    void *context;
    uint64_t next = 0;
};
int32_t next_number(void *ctx, sab_record *record) {
    auto *const numbers = static_cast<Numbers *>(ctx);
    if (numbers->next == 20) return SAB_END;
    record->kind = SAB_RECORD_OBJECT;
    record->data = Run::object(numbers->next++);
    record->size = 1;
    return 0;
}
int32_t rewind_numbers(void *ctx) {
    static_cast<Numbers *>(ctx)->next = 0;
    return 0;
}
void release_numbers(void *ctx) {
    Run::release(static_cast<Numbers *>(ctx)->context);
}

int32_t save_object(void *, void *object, void *buffer, std::size_t capacity, std::size_t *size) {
    const uint64_t value = Run::value_of(object);
    *size = sizeof value;
    if (capacity >= sizeof value) std::memcpy(buffer, &value, sizeof value);
    return 0;
}
int32_t load_object(void *, const void *data, std::size_t size, void **object) {
    uint64_t value = 0;
    if (size != sizeof value) return 1;
    std::memcpy(&value, data, sizeof value);
    *object = Run::object(value);
    return 0;
}
sab_object_functions object_functions() {
    sab_object_functions functions = SAB_OBJECT_FUNCTIONS_INIT;
    functions.release = Run::release_object;
    functions.save = save_object;
    functions.load = load_object;
    return functions;
}

sab_stream *objects_of(Run &run, Numbers &numbers) {
    const sab_object_functions objects = object_functions();
    numbers.context = run.context();
    sab_source_functions functions = SAB_SOURCE_FUNCTIONS_INIT;
    functions.ctx = &numbers;
    functions.next = next_number;
    functions.rewind = rewind_numbers;
    functions.release = release_numbers;
    functions.objects = &objects;
    sab_stream *stream = nullptr;
    CALL_INTO(stream, sab_callback_stream_new(&functions, &stream));
    return stream;
}

sab_stream *mapped(Run &run, uint64_t threads, bool to_objects = false) {
    sab_stream *stream = list_of(run);
    const sab_object_functions objects = object_functions();
    sab_map_stream_options options = SAB_MAP_STREAM_OPTIONS_INIT;
    options.map = to_objects ? map_to_object : map_size;
    options.threads = threads;
    options.ctx = run.context();
    options.release = Run::release;
    if (to_objects) options.objects = &objects;
    CALL_INTO(stream, sab_map_stream_new(stream, &options, &stream));
    return stream;
}

sab_stream *read_ahead(Run &run, sab_stream *stream, int carry_over, bool asks = false) {
    sab_readahead_stream_options options = SAB_READAHEAD_STREAM_OPTIONS_INIT;
    options.read_ahead = 8;
    options.budgets = one_budget(60);
    options.budget_count = 1;
    options.carry_over = carry_over;
    if (asks) {
        options.batch_size_fn = batch_size;
        options.boundary_key_fn = carry_over ? nullptr : boundary_key;
        options.ctx = run.context();
        options.release = Run::release;
    }
    CALL_INTO(stream, sab_readahead_stream_new(stream, &options, &stream));
    return stream;
}

std::string file_of(int number, const char *packer, const char *ending) {
    const std::string path = folder + "/lines" + std::to_string(number);
    if (FILE *const done = std::fopen(path.c_str(), "r")) {
        std::fclose(done);
        return path;
    }
    FILE *const file = std::fopen(path.c_str(), "w");
    for (int i = 0; i < 6 + number; ++i)
        std::fprintf(file, "line %d of %d%s\n", i, number, i % 3 ? "" : " with some more words");
    std::fclose(file);
    const std::string command =
        std::string(packer) + " " + path + " && mv " + path + ending + " " + path;
    if (packer[0] != '\0' && system(command.c_str()) != 0)
        std::fprintf(stderr, "%s: failed\n", command.c_str());
    return path;
}

sab_stream *files(Run &run, uint64_t readers = 0) {
    const std::string paths[] = {file_of(0, "", ""), file_of(1, "gzip -q", ".gz")};
    std::vector<sab_record> records;
    for (const std::string &path : paths) records.push_back(record_of(path.data(), path.size()));
    sab_stream *stream = nullptr;
    CALL_INTO(stream, sab_list_stream_new(records.data(), records.size(), nullptr, &stream));
    sab_files_stream_options options = SAB_FILES_STREAM_OPTIONS_INIT;
    options.readers = readers;
    CALL_INTO(stream, sab_files_stream_new(stream, &options, &stream));
    return stream;
}

}  // namespace

SCENARIO(list_stream, Threads::none) {
    sab_stream *const stream = list_of(run);
    CALL(sab_stream_set_progress(stream, a_progress(go_on, nullptr)));
    uint64_t skipped = 0;
    CALL(sab_stream_get_skipped_count(stream, &skipped));
    use(run, stream);
}

SCENARIO(infinite_list_stream, Threads::none) {
    std::vector<sab_record> records;
    for (std::size_t i = 0; i < 10; ++i) records.push_back(record_of(letters + i, 3));
    sab_list_stream_options options = SAB_LIST_STREAM_OPTIONS_INIT;
    options.infinite = options.shuffle = 1;
    sab_stream *stream = nullptr;
    CALL_INTO(stream, sab_list_stream_new(records.data(), records.size(), &options, &stream));
    use(run, stream);
}

SCENARIO(callback_stream, Threads::none) {
    Numbers numbers;
    use(run, objects_of(run, numbers));
}

SCENARIO(random_stream, Threads::none) {
    sab_stream *stream = nullptr;
    CALL_INTO(stream, sab_random_stream_new(7, &stream));
    use(run, stream);
}

SCENARIO(files_stream, Threads::none) {
    use(run, files(run));
}

SCENARIO(files_stream_with_readers, Threads::some) {
    use(run, files(run, 2));
}
SCENARIO(text_size_stream, Threads::none) {
    sab_stream *stream = files(run);
    CALL_INTO(stream, sab_text_size_stream_new(stream, SAB_TEXT_WORDS, &stream));
    CALL_INTO(stream, sab_batch_stream_new(stream, 2, &stream));
    CALL_INTO(stream, sab_text_size_stream_new(stream, SAB_TEXT_CHARACTERS, &stream));
    use(run, stream);
}

SCENARIO(map_stream, Threads::none) {
    use(run, mapped(run, 0));
}
SCENARIO(map_stream_to_objects, Threads::none) {
    use(run, mapped(run, 0, true));
}
SCENARIO(map_stream_in_threads, Threads::some) {
    use(run, mapped(run, 2));
}
SCENARIO(map_stream_to_objects_in_threads, Threads::some) {
    use(run, mapped(run, 2, true));
}

SCENARIO(select_stream, Threads::none) {
    run.allow(SAB_E_CALLBACK);  // of the callback that opens streams
    sab_stream *stream = list_of(run);
    void *const ctx = run.context();
    CALL_INTO(stream,
              sab_select_stream_new(stream, open_twice, ctx, Run::release, nullptr, &stream));
    use(run, stream);
}

SCENARIO(flatten_stream, Threads::none) {
    sab_stream *stream = list_of(run);
    CALL_INTO(stream, sab_batch_stream_new(stream, 4, &stream));
    CALL_INTO(stream, sab_flatten_stream_new(stream, &stream));
    use(run, stream);
}

SCENARIO(recurrent_stream, Threads::none) {
    sab_stream *stream = list_of(run);
    void *const ctx = run.context();
    const sab_record initial = record_of("q", 1);
    CALL_INTO(stream, sab_recurrent_stream_new(stream, step, ctx, Run::release, &initial, nullptr,
                                               &stream));
    use(run, stream);
}

SCENARIO(random_map_stream, Threads::none) {
    sab_stream *stream = list_of(run);
    CALL_INTO(stream,
              sab_random_map_stream_new(stream, map_randomly, &run, nullptr, 4, nullptr, &stream));
    use(run, stream);
}

SCENARIO(zip_stream, Threads::none) {
    sab_stream *const sources[] = {list_of(run), list_of(run, 15)};
    sab_stream *stream = nullptr;
    CALL_INTO(stream, sab_zip_stream_new(sources, 2, &stream));
    use(run, stream);
}

SCENARIO(multiplex_stream, Threads::none) {
    sab_stream *control = nullptr;
    CALL_INTO(control, sab_random_stream_new(7, &control));
    sab_stream *const sources[] = {list_of(run), list_of(run, 15)};
    sab_stream *stream = nullptr;
    CALL_INTO(stream, sab_multiplex_stream_new(control, sources, 2, &stream));
    use(run, stream);
}

SCENARIO(mix_stream, Threads::none) {
    sab_stream *const sources[] = {list_of(run), list_of(run, 15)};
    const double proportions[] = {2, 1};
    sab_mix_stream_options options = SAB_MIX_STREAM_OPTIONS_INIT;
    options.proportions = proportions;
    options.proportion_count = 2;
    options.until = SAB_MIX_UNTIL_ALL;
    sab_stream *stream = nullptr;
    CALL_INTO(stream, sab_mix_stream_new(sources, 2, &options, &stream));
    use(run, stream);
}

SCENARIO(shard_stream, Threads::none) {
    sab_stream *stream = list_of(run);
    CALL_INTO(stream, sab_batch_stream_new(stream, 3, &stream));
    CALL_INTO(stream, sab_shard_stream_new(stream, 1, 3, &stream));
    use(run, stream, 1);
}

SCENARIO(batch_stream, Threads::none) {
    sab_stream *stream = list_of(run);
    CALL_INTO(stream, sab_batch_stream_new(stream, 4, &stream));
    use(run, stream, 2);
}

SCENARIO(window_stream, Threads::none) {
    sab_stream *stream = list_of(run);
    CALL_INTO(stream, sab_window_stream_new(stream, 4, &stream));
    use(run, stream);
}

SCENARIO(block_shuffle_stream, Threads::none) {
    sab_stream *stream = list_of(run);
    CALL_INTO(stream, sab_shuffle_stream_new(stream, SAB_SHUFFLE_BLOCKS, 8, 3, &stream));
    use(run, stream);
}

SCENARIO(buffered_shuffle_stream, Threads::none) {
    sab_stream *stream = list_of(run);
    CALL_INTO(stream, sab_shuffle_stream_new(stream, SAB_SHUFFLE_BUFFER, 8, 3, &stream));
    use(run, stream);
}

SCENARIO(buffered_shuffle_of_objects, Threads::none) {
    sab_stream *stream = mapped(run, 0, true);
    CALL_INTO(stream, sab_shuffle_stream_new(stream, SAB_SHUFFLE_BUFFER, 8, 3, &stream));
    use(run, stream);
}

SCENARIO(readahead_stream, Threads::none) {
    use(run, read_ahead(run, list_of(run), 0));
}
SCENARIO(readahead_stream_by_callbacks, Threads::none) {
    use(run, read_ahead(run, list_of(run), 0, true));
}
SCENARIO(readahead_stream_with_carry_over, Threads::none) {
    use(run, read_ahead(run, list_of(run, 40), 1), 6);
}

SCENARIO(pack_stream, Threads::none) {
    sab_stream *stream = list_of(run, 40);
    sab_pack_stream_options options = SAB_PACK_STREAM_OPTIONS_INIT;
    options.capacities = one_number(64);
    options.capacity_count = 1;
    options.read_ahead = 10;
    CALL_INTO(stream, sab_pack_stream_new(stream, &options, &stream));
    use(run, stream);
}

int32_t two_sizes(void *, const sab_record *record, double *sizes) {
    sizes[0] = static_cast<double>(record->length);
    sizes[1] = static_cast<double>(record->length % 5);
    return 0;
}
SCENARIO(readahead_stream_of_columns, Threads::none) {
    sab_stream *stream = list_of(run, 24);
    sab_cost *cost = nullptr;
    const double weights[] = {1, 2};
    CALL_INTO(cost, sab_cost_padded_new(weights, 2, &cost));
    const sab_budget budgets[] = {{nullptr, 90, {}}, {cost, 120, {}}};
    sab_readahead_stream_options options = SAB_READAHEAD_STREAM_OPTIONS_INIT;
    options.read_ahead = 10;
    options.carry_over = 1;
    options.sizes_fn = two_sizes;
    options.columns = 2;
    options.budgets = budgets;
    options.budget_count = 2;
    options.ctx = run.context();
    options.release = Run::release;
    CALL_INTO(stream, sab_readahead_stream_new(stream, &options, &stream));
    CALL_PLAIN(sab_cost_free(cost));
    use(run, stream);
}
SCENARIO(pack_stream_of_columns, Threads::none) {
    sab_stream *stream = list_of(run, 40);
    const double capacities[] = {64, 9};
    sab_pack_stream_options options = SAB_PACK_STREAM_OPTIONS_INIT;
    options.read_ahead = 10;
    options.sizes_fn = two_sizes;
    options.capacities = capacities;
    options.capacity_count = 2;
    options.ctx = run.context();
    options.release = Run::release;
    CALL_INTO(stream, sab_pack_stream_new(stream, &options, &stream));
    use(run, stream);
}

SCENARIO(prefetch_stream, Threads::some) {
    sab_stream *stream = list_of(run);
    CALL_INTO(stream, sab_prefetch_stream_new(stream, 3, &stream));
    use(run, stream);
}

SCENARIO(prefetch_of_objects, Threads::some) {
    Numbers numbers;
    sab_stream *stream = objects_of(run, numbers);
    CALL_INTO(stream, sab_prefetch_stream_new(stream, 3, &stream));
    use(run, stream);
}

SCENARIO(pipeline, Threads::some) {
    sab_stream *stream = files(run);
    CALL_INTO(stream, sab_prefetch_stream_new(stream, 4, &stream));
    CALL_INTO(stream, sab_shuffle_stream_new(stream, SAB_SHUFFLE_BUFFER, 6, 3, &stream));
    stream = read_ahead(run, stream, 0);
    CALL_INTO(stream, sab_prefetch_stream_new(stream, 2, &stream));
    use(run, stream, 2);
}

SCENARIO(abandoned_stream, Threads::none) {
    sab_stream *const stream = list_of(run);
    take(run, stream, 3);
    CALL_PLAIN(sab_stream_abandon(stream));  // no threads: it frees everything at once
}
