/* Streams: what each stage gives, that a saved state goes on from anywhere, and what is refused. */
#define _GNU_SOURCE
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "helpers.h"
#include "one.h"
#include "posix.h"

#define MOST 200

/* The orders of infinibatch 0.1.1 with these seeds. */
static const int block_shuffled[] = {6,  3,  1,  0,  5,  2,  4,  10, 9,  11, 13, 8,  7,  12, 19,
                                     18, 16, 14, 17, 15, 20, 23, 27, 25, 24, 22, 26, 21, 28, 29};
static const int buffer_shuffled[] = {1,  2,  4,  5,  0,  6,  8,  10, 12, 3,  9,  13, 16, 7,  14,
                                      19, 17, 20, 11, 22, 18, 15, 25, 26, 24, 21, 29, 27, 28, 23};
static const int permuted[] = {5, 9, 2, 2, 8, 1, 7, 8, 0, 2, 2, 6, 9, 6};
static const int few_permuted[] = {0, 0, 0, 0, 0, 0};
static const int batches_of_three[] = {3,  6,  9,  -1, 1,  4,  7,  -1, 10, 2,  5,  -1, 8,  11,
                                       0,  -1, 12, 23, 15, -1, 16, 19, 22, -1, 14, 17, 20, -1,
                                       18, 21, 13, -1, 29, 24, 27, -1, 25, 28, 26, -1};
static const int batches_of_thirty[] = {3,  6,  -1, 9,  1,  4,  -1, 7,  10, 2,  5,  -1, 8,  11,
                                        0,  -1, 21, 13, 16, 19, -1, 22, -1, 14, 17, -1, 20, 12,
                                        -1, 23, 15, 18, -1, 25, 28, -1, 27, -1, 26, 29, 24, -1};
static const int batches_in_order[] = {3,  6,  9,  1,  -1, 4,  7,  10, 2,  -1, 5,  8,  11,
                                       0,  -1, 14, 17, 20, 12, -1, 23, 15, 18, 21, -1, 13,
                                       16, 19, 22, -1, 25, 28, 26, 29, -1, 24, 27, -1};

/* The numbers from 0 on, as text; with `padded`, some are made longer. */
static sab_stream *numbers(size_t count, int padded, const sab_list_stream_options *options) {
    static char texts[MOST][32];
    sab_record records[MOST];
    for (size_t i = 0; i < count; ++i) {
        int used = 0;
        if (padded)
            for (size_t k = 0; k < 1 + i * 7 % 11; ++k) texts[i][used++] = 'x';
        used += sprintf(texts[i] + used, "%d", (int)i);
        records[i] = (sab_record){0};
        records[i].data = texts[i];
        records[i].length = (size_t)used;
        records[i].size = used;
    }
    sab_stream *stream = NULL;
    EXPECT_OK(sab_list_stream_new(records, count, options, &stream));
    return stream;
}

static int number_of(const sab_record *record) {
    char text[64] = {0};
    memcpy(text, record->data, record->length < 63 ? record->length : 63);
    return atoi(text + strspn(text, "x"));
}

/* The numbers of a record, flat, with -1 after each list; gives how many. */
static size_t flat(const sab_record *record, int *out, size_t count) {
    if (record->kind != SAB_RECORD_LIST) {
        out[count++] = number_of(record);
        return count;
    }
    const sab_record *items = record->data;
    for (size_t i = 0; i < record->length; ++i) count = flat(&items[i], out, count);
    out[count++] = -1;
    return count;
}

/* At most `most` records of a stream. */
static size_t read_out(sab_stream *stream, int *out, size_t most) {
    size_t count = 0;
    sab_record record = {0};
    for (size_t i = 0; i < most && sab_stream_next(stream, &record) == SAB_OK; ++i)
        count = flat(&record, out, count);
    return count;
}

#define EXPECT_GIVES(stream, most, expected)                                                     \
    do {                                                                                         \
        int got_[4 * MOST];                                                                      \
        sab_stream *stream_ = (stream);                                                          \
        const size_t count_ = read_out(stream_, got_, most);                                     \
        EXPECT(count_ == COUNT(expected) && memcmp(got_, expected, count_ * sizeof *got_) == 0); \
        EXPECT_OK(sab_stream_rewind(stream_));                                                   \
        EXPECT(read_out(stream_, got_, most) == count_ &&                                        \
               memcmp(got_, expected, count_ * sizeof *got_) == 0);                              \
        sab_stream_free(stream_);                                                                \
    } while (0)

static sab_stream *batches_of(sab_stream *source, uint64_t batch_size) {
    sab_stream *stream = NULL;
    EXPECT_OK(sab_batch_stream_new(source, batch_size, &stream));
    return stream;
}

static sab_stream *readahead(sab_stream *source, uint64_t read_ahead, uint64_t batch_size,
                             double budget, int shuffle, uint64_t seed) {
    sab_readahead_stream_options options = SAB_READAHEAD_STREAM_OPTIONS_INIT;
    options.read_ahead = read_ahead;
    options.batch_size = batch_size;
    if (budget > 0) options.budgets = one_budget(budget), options.budget_count = 1;
    options.no_shuffle = !shuffle;
    options.seed = seed;
    options.oversize = SAB_OVERSIZE_SINGLE;
    sab_stream *stream = NULL;
    EXPECT_OK(sab_readahead_stream_new(source, &options, &stream));
    return stream;
}

static sab_list_stream_options permuting(uint64_t seed, uint64_t rank, uint64_t world_size) {
    sab_list_stream_options options = SAB_LIST_STREAM_OPTIONS_INIT;
    options.infinite = options.shuffle = 1;
    options.seed = seed;
    options.rank = rank;
    options.world_size = world_size;
    return options;
}

static unsigned char state[1 << 18];

static size_t save(const sab_stream *stream) {
    size_t size = 0;
    EXPECT_OK(sab_stream_state_save(stream, state, sizeof state, &size));
    EXPECT(size > 0 && size <= sizeof state);
    return size;
}

/* Orders */

static void Orders_AreInfinibatchs(void) {
    sab_stream *stream = NULL;
    EXPECT_OK(sab_shuffle_stream_new(numbers(30, 0, NULL), SAB_SHUFFLE_BLOCKS, 7, 5, &stream));
    EXPECT_GIVES(stream, MOST, block_shuffled);
    EXPECT_OK(sab_shuffle_stream_new(numbers(30, 0, NULL), SAB_SHUFFLE_BUFFER, 6, 5, &stream));
    EXPECT_GIVES(stream, MOST, buffer_shuffled);
    sab_list_stream_options options = permuting(3, 1, 3);
    EXPECT_GIVES(numbers(10, 0, &options), COUNT(permuted), permuted);
    options = permuting(3, 4, 5);
    EXPECT_GIVES(numbers(2, 0, &options), COUNT(few_permuted), few_permuted);
    EXPECT_GIVES(readahead(numbers(30, 1, NULL), 12, 3, 0, 1, 9), MOST, batches_of_three);
    EXPECT_GIVES(readahead(numbers(30, 1, NULL), 12, 0, 30, 1, 9), MOST, batches_of_thirty);
    EXPECT_GIVES(readahead(numbers(30, 1, NULL), 12, 4, 0, 0, 9), MOST, batches_in_order);
}

static void List_OfRanksInOrder_IsTheList(void) {
    for (size_t count = 0; count <= 20; ++count)
        for (uint64_t world = 1; world <= 7; ++world) {
            int got[MOST], at = 0;
            for (uint64_t rank = 0; rank < world; ++rank) {
                sab_list_stream_options options = SAB_LIST_STREAM_OPTIONS_INIT;
                options.rank = rank;
                options.world_size = world;
                sab_stream *stream = numbers(count, 0, &options);
                const size_t mine = read_out(stream, got, MOST);
                EXPECT(mine >= count / world && mine <= count / world + 1);
                for (size_t i = 0; i < mine; ++i) EXPECT(got[i] == at++);
                sab_stream_free(stream);
            }
            EXPECT(at == (int)count);
        }
}

static void Stages_GiveWhatTheySay(void) {
    sab_stream *stream = NULL, *sources[3];
    static const int threes[] = {0, 1, 2, -1, 3, 4, 5, -1, 6, -1};
    EXPECT_GIVES(batches_of(numbers(7, 0, NULL), 3), MOST, threes);
    static const int windows[] = {0, 1, 2, -1, 1, 2, 3, -1, 2, 3, 4, -1};
    EXPECT_OK(sab_window_stream_new(numbers(5, 0, NULL), 3, &stream));
    EXPECT_GIVES(stream, MOST, windows);
    static const int plain[] = {0, 1, 2, 3, 4, 5, 6};
    EXPECT_OK(sab_flatten_stream_new(batches_of(numbers(7, 0, NULL), 3), &stream));
    EXPECT_GIVES(stream, MOST, plain);
    for (size_t i = 0; i < 3; ++i) sources[i] = numbers(2 + i, 0, NULL);
    static const int zipped[] = {0, 0, 0, -1, 1, 1, 1, -1};
    EXPECT_OK(sab_zip_stream_new(sources, 3, &stream));
    EXPECT_GIVES(stream, MOST, zipped);
    sab_record record = {0};
    stream = batches_of(numbers(3, 1, NULL), 3);
    EXPECT_OK(sab_stream_next(stream, &record));
    /* x0, xxxxxxxx1, xxxx2 */
    EXPECT(record.kind == SAB_RECORD_LIST && record.length == 3 && record.size == 2 + 9 + 5);
    EXPECT(sab_stream_next(stream, &record) == SAB_END &&
           sab_stream_next(stream, &record) == SAB_END);
    sab_stream_free(stream);
    EXPECT_OK(sab_window_stream_new(numbers(2, 0, NULL), 3, &stream));
    EXPECT(sab_stream_next(stream, &record) == SAB_END);
    sab_stream_free(stream);
}

/* Maps */

struct map_calls {
    atomic_int calls;
    int fails_at, released;
    int32_t code;
};

static int32_t map_number(void *ctx, const sab_record *record, sab_record *made) {
    static _Thread_local char text[32];
    struct map_calls *calls = ctx;
    if (atomic_fetch_add(&calls->calls, 1) + 1 == calls->fails_at) return calls->code;
    if (record->kind == SAB_RECORD_LIST) return 0;
    made->length = (size_t)sprintf(text, "%d", 2 * number_of(record));
    made->data = text;
    made->size = 3;
    return 0;
}

static void released(void *ctx) {
    ++((struct map_calls *)ctx)->released;
}

static sab_stream *mapped(sab_stream *source, struct map_calls *calls, uint64_t threads) {
    sab_map_stream_options options = SAB_MAP_STREAM_OPTIONS_INIT;
    options.map = map_number;
    options.ctx = calls;
    options.release = released;
    options.threads = threads;
    sab_stream *stream = NULL;
    EXPECT_OK(sab_map_stream_new(source, &options, &stream));
    return stream;
}

static void Map_ThatFails_IsCalledAgain(void) {
    struct map_calls calls = {.fails_at = 3, .code = 42};
    sab_stream *stream = NULL;
    sab_record record = {0};
    stream = mapped(numbers(5, 0, NULL), &calls, 0);
    int got[MOST];
    EXPECT(read_out(stream, got, 2) == 2 && got[0] == 0 && got[1] == 2);
    EXPECT_FAILS(sab_stream_next(stream, &record), SAB_E_CALLBACK, "map failed with code 42");
    EXPECT(sab_last_error_code() == 42);
    size_t size = 0;
    EXPECT_FAILS(sab_stream_state_save(stream, NULL, 0, &size), SAB_E_ARGUMENT,
                 "failed to map a record");
    EXPECT(read_out(stream, got, MOST) == 3 && got[0] == 4 && got[2] == 8);
    sab_stream_free(stream);
    EXPECT(calls.released == 1);
    calls = (struct map_calls){0};
    sab_map_stream_options options = SAB_MAP_STREAM_OPTIONS_INIT;
    options.ctx = &calls;
    options.release = released;
    EXPECT_FAILS(sab_map_stream_new(NULL, &options, &stream), SAB_E_ARGUMENT, "source = NULL");
    sab_stream *source = numbers(5, 0, NULL);
    EXPECT_FAILS(sab_map_stream_new(source, &options, &stream), SAB_E_ARGUMENT,
                 "options.map = NULL");
    EXPECT_FAILS(sab_map_stream_new(source, NULL, &stream), SAB_E_ARGUMENT, "options = NULL");
    options.map = map_number;
    options.threads = 5000;
    EXPECT_FAILS(sab_map_stream_new(source, &options, &stream), SAB_E_ARGUMENT,
                 "options.threads = 5000");
    EXPECT(calls.released == 0 && read_out(source, got, MOST) == 5); /* still the caller's */
    sab_stream_free(source);
}

/* Stages whose callbacks know more than a record */

static sab_stream *prefetched(sab_stream *source, uint64_t buffer_size) {
    sab_stream *stream = NULL;
    EXPECT_OK(sab_prefetch_stream_new(source, buffer_size, &stream));
    return stream;
}

/* The running sum: its own state, as text. */
static int32_t add_up(void *ctx, const sab_record *before, const sab_record *record,
                      sab_record *next, sab_record *made) {
    static _Thread_local char text[32];
    struct map_calls *calls = ctx;
    if (calls != NULL && ++calls->calls == calls->fails_at) return calls->code;
    if (record->kind == SAB_RECORD_LIST) return 0;
    next->length = made->length =
        (size_t)sprintf(text, "%d", (number_of(before) + number_of(record)) % 100000);
    next->data = made->data = text;
    return 0;
}

static int32_t add_chance(void *ctx, sab_random *random, const sab_record *record,
                          sab_record *made) {
    static _Thread_local char text[32];
    struct map_calls *calls = ctx;
    EXPECT(sab_random_draw_bits(random, 0) == 0 && sab_random_draw_bits(random, 65) == 0 &&
           sab_random_draw_bits(NULL, 5) == 0);
    uint64_t drawn = 0; /* CPython's randrange(1000) */
    do drawn = sab_random_draw_bits(random, 10);
    while (drawn >= 1000);
    if (calls != NULL && ++calls->calls == calls->fails_at) return calls->code;
    if (record->kind == SAB_RECORD_LIST) return 0;
    made->length = (size_t)sprintf(text, "%d", (int)drawn);
    made->data = text;
    return 0;
}

/* one to three times itself, or not at all */
static int32_t repeat(void *ctx, const sab_record *record, sab_stream **made) {
    struct map_calls *calls = ctx;
    if (calls != NULL && ++calls->calls == calls->fails_at) return calls->code;
    if (record->kind == SAB_RECORD_LIST) return 0;
    sab_record copies[3];
    const size_t count = (size_t)(number_of(record) + 1) % 4;
    for (size_t i = 0; i < count; ++i) copies[i] = *record;
    return count == 0 ? 0 : sab_list_stream_new(copies, count, NULL, made);
}

/* 0, 1, 2, ... below `end`, as text; or as objects */
struct counter {
    int at, end, fails_at, released, rewound;
    char text[16];
    atomic_int alive; /* objects */
};

static int32_t counter_next(void *ctx, sab_record *record) {
    struct counter *counter = ctx;
    if (counter->at == counter->fails_at) {
        counter->fails_at = -1;
        return 9;
    }
    if (counter->at >= counter->end) return SAB_END;
    record->length = (size_t)sprintf(counter->text, "%d", counter->at++);
    record->data = counter->text;
    return 0;
}
static int32_t counter_rewind(void *ctx) {
    struct counter *counter = ctx;
    counter->at = 0;
    ++counter->rewound;
    return 0;
}
static void counter_release(void *ctx) {
    ++((struct counter *)ctx)->released;
}
static int32_t counter_save(void *ctx, void *buffer, size_t capacity, size_t *size) {
    *size = sizeof(int);
    if (capacity >= sizeof(int)) memcpy(buffer, &((struct counter *)ctx)->at, sizeof(int));
    return 0;
}
static int32_t counter_restore(void *ctx, const void *data, size_t size) {
    if (size != sizeof(int)) return 5;
    memcpy(&((struct counter *)ctx)->at, data, sizeof(int));
    return 0;
}
static int32_t next_object(void *ctx, sab_record *record) {
    struct counter *counter = ctx;
    if (counter->at >= counter->end) return SAB_END;
    int *object = malloc(sizeof *object);
    *object = counter->at++;
    ++counter->alive;
    record->kind = SAB_RECORD_OBJECT;
    record->data = object;
    record->size = *object % 10;
    return 0;
}
static void release_object(void *ctx, void *object) {
    free(object);
    --((struct counter *)ctx)->alive;
}
static int32_t save_object(void *ctx, void *object, void *buffer, size_t capacity, size_t *size) {
    (void)ctx;
    *size = sizeof(int);
    if (capacity >= sizeof(int)) memcpy(buffer, object, sizeof(int));
    return 0;
}
static int32_t load_object(void *ctx, const void *data, size_t size, void **object) {
    if (size != sizeof(int)) return 6;
    *object = malloc(sizeof(int));
    memcpy(*object, data, sizeof(int));
    ++((struct counter *)ctx)->alive;
    return 0;
}

static sab_stream *counting(struct counter *counter, int has_state) {
    sab_source_functions functions = SAB_SOURCE_FUNCTIONS_INIT;
    functions.ctx = counter;
    functions.next = counter_next;
    functions.rewind = counter_rewind;
    functions.release = counter_release;
    if (has_state) {
        functions.state_save = counter_save;
        functions.state_restore = counter_restore;
    }
    sab_stream *stream = NULL;
    EXPECT_OK(sab_callback_stream_new(&functions, &stream));
    return stream;
}

static void Callbacks_OfEveryKind_GiveWhatTheySay(void) {
    sab_stream *stream = NULL, *sources[2];
    static const int sums[] = {0, 1, 3, 6, 10, 15};
    sab_record initial = {0};
    initial.data = "0";
    initial.length = 1;
    EXPECT_OK(
        sab_recurrent_stream_new(numbers(6, 0, NULL), add_up, NULL, NULL, &initial, NULL, &stream));
    EXPECT_GIVES(stream, MOST, sums);
    /* random.Random(7): [r.randrange(1000) for _ in range(6)] */
    static const int drawn[] = {331, 970, 154, 404, 666, 49};
    EXPECT_OK(
        sab_random_map_stream_new(numbers(6, 0, NULL), add_chance, NULL, NULL, 7, NULL, &stream));
    EXPECT_GIVES(stream, MOST, drawn);
    static const int repeated[] = {0, 1, 1, 2, 2, 2, 4, 5, 5, 6, 6, 6};
    EXPECT_OK(sab_select_stream_new(numbers(7, 0, NULL), repeat, NULL, NULL, NULL, &stream));
    EXPECT_GIVES(stream, MOST, repeated);
    struct counter counter = {.end = 4, .fails_at = -1};
    static const int counted[] = {0, 1, 2, 3};
    EXPECT_GIVES(counting(&counter, 0), MOST, counted);
    EXPECT(counter.released == 1);
    /* control: sizes 0 or 1 of the numbers 0, 1, 2, ...: the first digit's length makes no
     * difference, so a map by chance */
    sab_record record = {0};
    EXPECT_OK(sab_random_stream_new(5, &stream));
    EXPECT_OK(sab_stream_next(stream, &record));
    double first = 0;
    memcpy(&first, record.data, sizeof first);
    /* random.Random(5).random() */
    EXPECT(record.length == 8 && first == record.size && fabs(first - 0.6229016948897019) < 1e-15);
    sab_stream_free(stream);
    static const double control[] = {0, 1, 1, 0, 1, 1, 0, 0};
    static const int mixed[] = {0, 0, 1, 1, 2};
    sab_record choices[COUNT(control)];
    for (size_t i = 0; i < COUNT(control); ++i) {
        choices[i] = (sab_record){0};
        choices[i].size = control[i] + 0.5;
    }
    sab_stream *by = NULL;
    EXPECT_OK(sab_list_stream_new(choices, COUNT(choices), NULL, &by));
    sources[0] = numbers(9, 0, NULL);
    sources[1] = numbers(3, 0, NULL);
    EXPECT_OK(sab_multiplex_stream_new(by, sources, 2, &stream));
    EXPECT_GIVES(stream, MOST, mixed);
    choices[0].size = 2;
    EXPECT_OK(sab_list_stream_new(choices, 1, NULL, &by));
    sources[0] = numbers(9, 0, NULL);
    sources[1] = numbers(3, 0, NULL);
    EXPECT_FAILS(sab_multiplex_stream_new(by, (sab_stream *[]){by}, 1, &stream), SAB_E_ARGUMENT,
                 "given twice");
    EXPECT_OK(sab_multiplex_stream_new(by, sources, 2, &stream));
    EXPECT_FAILS(sab_stream_next(stream, &record), SAB_E_ARGUMENT,
                 "control = 2: must be below the number of sources, 2");
    sab_stream_free(stream);
}

static void Callbacks_ThatFail_AreCalledAgainAndNothingIsLost(void) {
    sab_stream *stream = NULL;
    sab_record record = {0}, initial = {0};
    initial.data = "0";
    initial.length = 1;
    static const int expected[4][6] = {{0, 1, 3, 6, 10, 15},
                                       {331, 970, 154, 404, 666, 49},
                                       {0, 1, 1, 2, 2, 2},
                                       {0, 2, 4, 6, 8, 10}};
    for (int kind = 0; kind < 4; ++kind)
        for (uint64_t threads = 0; threads < 4; ++threads)
            for (int behind = 0; behind < 2; ++behind) { /* a prefetching stream over it */
                struct map_calls calls = {.fails_at = 3, .code = 42};
                switch (kind) {
                    case 0:
                        EXPECT_OK(sab_recurrent_stream_new(numbers(6, 0, NULL), add_up, &calls,
                                                           released, &initial, NULL, &stream));
                        break;
                    case 1:
                        EXPECT_OK(sab_random_map_stream_new(numbers(6, 0, NULL), add_chance, &calls,
                                                            released, 7, NULL, &stream));
                        break;
                    case 2:
                        EXPECT_OK(sab_select_stream_new(numbers(7, 0, NULL), repeat, &calls,
                                                        released, NULL, &stream));
                        break;
                    default: stream = mapped(numbers(6, 0, NULL), &calls, threads);
                }
                if (behind) stream = prefetched(stream, 3);
                int failed = 0, got[6], count = 0;
                while (count < 6) {
                    const sab_status status = sab_stream_next(stream, &record);
                    if (status == SAB_OK)
                        got[count++] = number_of(&record);
                    else if (status == SAB_E_CALLBACK && sab_last_error_code() == 42)
                        ++failed;
                    else
                        break;
                }
                EXPECT(failed == 1 && count == 6 && memcmp(got, expected[kind], sizeof got) == 0);
                sab_stream_free(stream);
                EXPECT(calls.released == 1);
            }
    struct counter counter = {.end = 4, .fails_at = 2};
    stream = counting(&counter, 1);
    int got[MOST];
    EXPECT(read_out(stream, got, MOST) == 2 && sab_last_error_code() == 9 &&
           read_out(stream, got, MOST) == 2);
    sab_stream_free(stream);
}

static void Source_ThatCannotRewind_SaysSo(void) {
    struct counter counter = {.end = 4, .fails_at = -1};
    sab_source_functions functions = SAB_SOURCE_FUNCTIONS_INIT;
    functions.ctx = &counter;
    sab_stream *stream = NULL;
    EXPECT_FAILS(sab_callback_stream_new(&functions, &stream), SAB_E_ARGUMENT,
                 "functions.next = NULL");
    functions.next = counter_next;
    functions.state_save = counter_save;
    EXPECT_FAILS(sab_callback_stream_new(&functions, &stream), SAB_E_ARGUMENT,
                 "functions.state_restore = NULL");
    functions.state_save = NULL;
    EXPECT_OK(sab_callback_stream_new(&functions, &stream));
    EXPECT_FAILS(sab_stream_rewind(stream), SAB_E_UNSUPPORTED, "no rewind");
    const size_t size = save(stream);
    EXPECT_FAILS(sab_stream_state_restore(stream, state, size), SAB_E_UNSUPPORTED, "no rewind");
    sab_stream_free(stream);
}

static void Objects_AreLetGoOfOnceEachAndGoThroughStates(void) {
    for (int stage = 0; stage < 5; ++stage) {
        struct counter counter = {.end = 60};
        sab_object_functions objects = SAB_OBJECT_FUNCTIONS_INIT;
        objects.ctx = &counter;
        objects.release = release_object;
        objects.save = save_object;
        objects.load = load_object;
        sab_source_functions functions = SAB_SOURCE_FUNCTIONS_INIT;
        functions.ctx = &counter;
        functions.next = next_object;
        functions.rewind = counter_rewind;
        functions.state_save = counter_save;
        functions.state_restore = counter_restore;
        functions.objects = &objects;
        sab_stream *stream = NULL;
        EXPECT_OK(sab_callback_stream_new(&functions, &stream));
        if (stage == 1)
            EXPECT_OK(sab_shuffle_stream_new(stream, SAB_SHUFFLE_BUFFER, 7, 3, &stream));
        if (stage == 2) stream = readahead(stream, 20, 3, 0, 1, 3);
        if (stage == 3) stream = prefetched(stream, 10);
        if (stage == 4) EXPECT_OK(sab_window_stream_new(stream, 3, &stream));
        sab_record record = {0};
        int seen[100], again[100], count = 0, same = 0;
        for (int i = 0; i < 8; ++i) EXPECT_OK(sab_stream_next(stream, &record));
        const size_t size = save(stream);
        for (int pass = 0; pass < 2; ++pass) {
            int *out = pass == 0 ? seen : again, *at = pass == 0 ? &count : &same;
            while (sab_stream_next(stream, &record) == SAB_OK) {
                const sab_record *items = record.kind == SAB_RECORD_LIST ? record.data : &record;
                EXPECT(items->kind == SAB_RECORD_OBJECT);
                if (*at < 100) out[(*at)++] = *(const int *)items->data;
            }
            if (pass == 0) EXPECT_OK(sab_stream_state_restore(stream, state, size));
        }
        EXPECT(count > 10 && count == same &&
               memcmp(seen, again, (size_t)count * sizeof *seen) == 0);
        EXPECT_OK(sab_stream_rewind(stream));
        EXPECT_OK(sab_stream_next(stream, &record));
        sab_stream_free(stream);
        EXPECT(counter.alive == 0);
    }
    struct counter counter = {.end = 60};
    sab_object_functions objects = SAB_OBJECT_FUNCTIONS_INIT;
    objects.ctx = &counter;
    objects.release = release_object;
    sab_source_functions functions = SAB_SOURCE_FUNCTIONS_INIT;
    functions.ctx = &counter;
    functions.next = next_object;
    functions.rewind = counter_rewind;
    functions.objects = &objects;
    sab_stream *stream = NULL;
    sab_record record = {0};
    EXPECT_OK(sab_callback_stream_new(&functions, &stream));
    EXPECT_OK(sab_shuffle_stream_new(stream, SAB_SHUFFLE_BUFFER, 7, 3, &stream));
    EXPECT_OK(sab_stream_next(stream, &record));
    size_t size = 0;
    EXPECT_FAILS(sab_stream_state_save(stream, NULL, 0, &size), SAB_E_UNSUPPORTED,
                 "objects.save = NULL");
    sab_stream_free(stream);
    EXPECT(counter.alive == 0);
}

/* Packing */

static void Pack_FillsItsListsAndLosesNothing(void) {
    enum { RECORDS = 20000 };
    for (uint64_t limit = 0; limit <= 4; limit += 4) {
        sab_pack_stream_options options = SAB_PACK_STREAM_OPTIONS_INIT;
        options.capacities = one_number(512), options.capacity_count = 1;
        options.max_records = limit;
        options.read_ahead = 1000;
        static unsigned char bytes[512];
        static sab_record given[RECORDS];
        random_state = 5;
        for (int i = 0; i < RECORDS; ++i) {
            const size_t length = 1 + (size_t)(below(20) == 0 ? below(500) : below(100));
            given[i] = (sab_record){SAB_RECORD_BYTES, (double)length, bytes, length};
        }
        sab_stream *stream = NULL;
        sab_record record = {0};
        EXPECT_OK(sab_list_stream_new(given, RECORDS, NULL, &stream));
        EXPECT_OK(sab_pack_stream_new(stream, &options, &stream));
        size_t records = 0, lists = 0;
        double total = 0;
        while (sab_stream_next(stream, &record) == SAB_OK) {
            EXPECT(record.kind == SAB_RECORD_LIST && record.size <= 512 && record.length > 0);
            EXPECT(limit == 0 || record.length <= limit);
            records += record.length;
            total += record.size;
            ++lists;
        }
        EXPECT(records == RECORDS);
        if (limit == 0) EXPECT(total / (512 * (double)lists) > 0.995);
        sab_stream_free(stream);
    }
}

static void Pack_RefusesBadOptions(void) {
    const sab_record long_one[] = {{SAB_RECORD_BYTES, 3, "abc", 3},
                                   {SAB_RECORD_BYTES, 6, "abcdef", 6}};
    sab_pack_stream_options options = SAB_PACK_STREAM_OPTIONS_INIT;
    sab_stream *source = NULL, *stream = NULL;
    EXPECT_OK(sab_list_stream_new(long_one, 2, NULL, &source));
    EXPECT_FAILS(sab_pack_stream_new(source, NULL, &stream), SAB_E_ARGUMENT, "options = NULL");
    EXPECT_FAILS(sab_pack_stream_new(source, &options, &stream), SAB_E_ARGUMENT,
                 "options.capacity_count = 0: must be at least 1");
    options.capacities = one_number(NAN), options.capacity_count = 1;
    EXPECT_FAILS(sab_pack_stream_new(source, &options, &stream), SAB_E_ARGUMENT,
                 "options.capacities[0] = nan");
    options.capacities = one_number(5), options.capacity_count = 1;
    options.read_ahead = UINT64_MAX;
    EXPECT_FAILS(sab_pack_stream_new(source, &options, &stream), SAB_E_ARGUMENT,
                 "options.read_ahead = 18446744073709551615: must be at most 2^3");
    options.read_ahead = 5;
    options.no_shuffle = 2;
    EXPECT_FAILS(sab_pack_stream_new(source, &options, &stream), SAB_E_ARGUMENT,
                 "options.no_shuffle = 2");
    options.no_shuffle = 0;
    options.oversize = SAB_OVERSIZE_SINGLE;
    EXPECT_FAILS(sab_pack_stream_new(source, &options, &stream), SAB_E_ARGUMENT,
                 "options.oversize = 2: must be SAB_OVERSIZE_ERROR (0) or SAB_OVERSIZE_SKIP (1)");
    sab_stream_free(source);
}

static void add_one(void *ctx) {
    ++*(int *)ctx;
}

static void Pack_OfOneSize_ReleasesItsContext(void) {
    const sab_record one = {SAB_RECORD_BYTES, 3, "abc", 3};
    sab_pack_stream_options options = SAB_PACK_STREAM_OPTIONS_INIT;
    int released = 0;
    options.ctx = &released;
    options.release = add_one;
    sab_stream *stream = NULL;
    EXPECT_OK(sab_list_stream_new(&one, 1, NULL, &stream));
    EXPECT_FAILS(sab_pack_stream_new(stream, &options, &stream), SAB_E_ARGUMENT,
                 "options.capacity_count = 0");
    EXPECT(released == 0);
    options.capacities = one_number(5), options.capacity_count = 1;
    EXPECT_OK(sab_pack_stream_new(stream, &options, &stream));
    EXPECT(released == 0);
    sab_stream_free(stream);
    EXPECT(released == 1);
}

/* Records larger than the limit of a window */

enum window { READAHEAD, CARRYING, PACK };

/* `stream` in windows of three records with a limit of 5. */
static sab_stream *limited_stream(sab_stream *stream, enum window window, sab_oversize oversize) {
    if (window == PACK) {
        sab_pack_stream_options options = SAB_PACK_STREAM_OPTIONS_INIT;
        EXPECT(options.oversize == SAB_OVERSIZE_ERROR);
        options.capacities = one_number(5), options.capacity_count = 1;
        options.read_ahead = 3;
        options.oversize = oversize;
        EXPECT_OK(sab_pack_stream_new(stream, &options, &stream));
    } else {
        sab_readahead_stream_options options = SAB_READAHEAD_STREAM_OPTIONS_INIT;
        EXPECT(options.oversize == SAB_OVERSIZE_ERROR);
        options.budgets = one_budget(5), options.budget_count = 1;
        options.read_ahead = 3;
        options.carry_over = window == CARRYING;
        options.oversize = oversize;
        EXPECT_OK(sab_readahead_stream_new(stream, &options, &stream));
    }
    return stream;
}

/* In windows of three: records of sizes 3, 6, 5, 9, 2, 1 under a limit of 5. */
static sab_stream *limited(enum window window, sab_oversize oversize) {
    static const double sizes[] = {3, 6, 5, 9, 2, 1};
    sab_record records[COUNT(sizes)];
    for (size_t i = 0; i < COUNT(sizes); ++i)
        records[i] = (sab_record){SAB_RECORD_BYTES, sizes[i], "abcdefghi", (uint64_t)sizes[i]};
    sab_stream *stream = NULL;
    EXPECT_OK(sab_list_stream_new(records, COUNT(sizes), NULL, &stream));
    return limited_stream(stream, window, oversize);
}

/* What is left of the stream: records in all, and in lists of one that are over
 * the limit. */
static void count_left(sab_stream *stream, size_t *records, size_t *over) {
    sab_record record = {0};
    *records = *over = 0;
    sab_status status;
    while ((status = sab_stream_next(stream, &record)) == SAB_OK) {
        double total = 0;
        const sab_record *items = record.data;
        for (uint64_t i = 0; i < record.length; ++i) total += items[i].size;
        EXPECT(total <= 5 || record.length == 1);
        *records += record.length;
        *over += total > 5;
    }
    EXPECT(status == SAB_END);
}

static void Oversize_IsRefusedAgainAndAgain(void) {
    for (enum window window = READAHEAD; window <= PACK; ++window) {
        sab_stream *stream = limited(window, SAB_OVERSIZE_ERROR);
        sab_record record = {0};
        for (int again = 0; again < 3; ++again)
            EXPECT_FAILS(
                sab_stream_next(stream, &record), SAB_E_ARGUMENT,
                window == PACK
                    ? "record 1: has size 6: must be at most options.capacities[0] = 5. Set "
                      "options.oversize to SAB_OVERSIZE_SKIP (1), or use a larger one"
                    : "record 1: has size 6: must be at most options.budgets[0].limit = 5. Set "
                      "options.oversize to SAB_OVERSIZE_SKIP (1) or SAB_OVERSIZE_SINGLE "
                      "(2), or use a larger one");
        EXPECT_OK(sab_stream_rewind(stream));
        EXPECT_FAILS(sab_stream_next(stream, &record), SAB_E_ARGUMENT, "record 1: has size 6");
        sab_stream_free(stream);
    }
}

static void Oversize_IsSkippedAndCounted(void) {
    for (enum window window = READAHEAD; window <= PACK; ++window) {
        sab_stream *stream = limited(window, SAB_OVERSIZE_SKIP);
        size_t records, over;
        uint64_t skipped = 0;
        count_left(stream, &records, &over);
        EXPECT_OK(sab_stream_get_skipped_count(stream, &skipped));
        EXPECT(records == 4 && over == 0 && skipped == 2);
        sab_stream_free(stream);
    }
}

/* Over a thread and divided among ranks, too: each rank sees that all records were skipped. */
static void Oversize_OfAllRecords_IsRefusedAtTheEnd(void) {
    sab_record large[4], record = {0};
    for (int i = 0; i < 4; ++i) large[i] = (sab_record){SAB_RECORD_BYTES, 9, "a", 1};
    for (enum window window = READAHEAD; window <= PACK; ++window)
        for (int stages = 0; stages < 2; ++stages) {
            sab_stream *stream = NULL;
            EXPECT_OK(sab_list_stream_new(large, 4, NULL, &stream));
            stream = limited_stream(stream, window, SAB_OVERSIZE_SKIP);
            if (stages == 1) {
                EXPECT_OK(sab_shard_stream_new(stream, 1, 2, &stream));
                EXPECT_OK(sab_prefetch_stream_new(stream, 8, &stream));
            }
            for (int pass = 0; pass < 2; ++pass) {
                for (int again = 0; again < 2; ++again)
                    EXPECT_FAILS(
                        sab_stream_next(stream, &record), SAB_E_ARGUMENT,
                        "must leave a record; all 4 are over it, the first one has size 9");
                EXPECT_OK(sab_stream_rewind(stream));
            }
            sab_stream_free(stream);
        }
}

static void Oversize_IsSkippedAfterARestore(void) {
    for (enum window window = READAHEAD; window <= PACK; ++window)
        for (int stop = 0; stop < 3; ++stop) {
            sab_stream *first = limited(window, SAB_OVERSIZE_SKIP),
                       *second = limited(window, SAB_OVERSIZE_SKIP);
            sab_record record = {0};
            for (int i = 0; i < stop; ++i) EXPECT(sab_stream_next(first, &record) >= SAB_OK);
            EXPECT_OK(sab_stream_state_restore(second, state, save(first)));
            size_t records[2], over[2];
            count_left(first, &records[0], &over[0]);
            count_left(second, &records[1], &over[1]);
            EXPECT(records[0] == records[1] && over[1] == 0);
            sab_stream_free(first);
            sab_stream_free(second);
        }
}

static void Oversize_IsAListAlone(void) {
    for (enum window window = READAHEAD; window <= CARRYING; ++window) {
        sab_stream *stream = limited(window, SAB_OVERSIZE_SINGLE);
        size_t records, over;
        count_left(stream, &records, &over);
        EXPECT(records == 6 && over == 2);
        sab_stream_free(stream);
    }
}

/* The number of a refused record counts from the beginning of the source, also after a restore. */
static void Oversize_IsNamedAfterARestore(void) {
    sab_record records[8];
    for (size_t i = 0; i < COUNT(records); ++i)
        records[i] = (sab_record){SAB_RECORD_BYTES, i == 6 ? 6 : 2, "abcdef", 2};
    sab_readahead_stream_options options = SAB_READAHEAD_STREAM_OPTIONS_INIT;
    options.budgets = one_budget(4), options.budget_count = 1;
    options.read_ahead = 4;
    sab_stream *streams[2];
    for (int i = 0; i < 2; ++i) {
        EXPECT_OK(sab_list_stream_new(records, COUNT(records), NULL, &streams[i]));
        EXPECT_OK(sab_readahead_stream_new(streams[i], &options, &streams[i]));
    }
    sab_record record = {0};
    EXPECT_OK(sab_stream_next(streams[0], &record));
    EXPECT_OK(sab_stream_state_restore(streams[1], state, save(streams[0])));
    EXPECT_OK(sab_stream_next(streams[1], &record));
    EXPECT_FAILS(sab_stream_next(streams[1], &record), SAB_E_ARGUMENT, "record 6: has size 6");
    for (int i = 0; i < 2; ++i) sab_stream_free(streams[i]);
}

/* Following and cancelling */

static int32_t cancel_third(void *ctx, uint64_t done, uint64_t total) {
    (void)done, (void)total;
    return ++*(int *)ctx == 3 ? 5 : 0;
}

static void Progress_OfALongWindow_Cancels(void) {
    int calls = 0;
    sab_list_stream_options options = permuting(1, 0, 1);
    sab_stream *stream = NULL;
    sab_record record = {0};
    EXPECT_OK(
        sab_shuffle_stream_new(numbers(10, 0, &options), SAB_SHUFFLE_BLOCKS, 20000, 1, &stream));
    EXPECT_OK(sab_stream_set_progress(stream, a_progress(cancel_third, &calls)));
    EXPECT_FAILS(sab_stream_next(stream, &record), SAB_E_CANCELLED, "code 5");
    EXPECT_OK(sab_stream_next(stream, &record)); /* goes on where it was */
    EXPECT(calls == 6);
    sab_stream_free(stream);
}

/* Gives as many small records as *ctx says, then large ones without an end. */
static int32_t small_then_large(void *ctx, sab_record *record) {
    int *small = ctx;
    *record = (sab_record){SAB_RECORD_BYTES, *small > 0 ? 1 : 9, "a", 1};
    *small -= *small > 0;
    return 0;
}

static void Progress_OfASourceWhoseRecordsAreAllSkipped_Cancels(void) {
    for (int kept = 0; kept < 2; ++kept)
        for (enum window window = READAHEAD; window <= PACK; ++window) {
            int calls = 0, small = kept;
            sab_source_functions functions = SAB_SOURCE_FUNCTIONS_INIT;
            functions.ctx = &small;
            functions.next = small_then_large;
            sab_stream *stream = NULL;
            EXPECT_OK(sab_callback_stream_new(&functions, &stream));
            stream = limited_stream(stream, window, SAB_OVERSIZE_SKIP);
            EXPECT_OK(sab_stream_set_progress(stream, a_progress(cancel_third, &calls)));
            sab_record record = {0};
            EXPECT_FAILS(sab_stream_next(stream, &record), SAB_E_CANCELLED, "code 5");
            EXPECT(calls == 3);
            sab_stream_free(stream);
        }
}

static void Oversize_OfAllRecordsOfASourceWithoutAnEnd_IsRefused(void) {
    sab_list_stream_options endless = permuting(1, 0, 1);
    for (enum window window = READAHEAD; window <= PACK; window += PACK - READAHEAD) {
        sab_record large = {SAB_RECORD_BYTES, 9, "a", 1}, record = {0};
        sab_stream *stream = NULL;
        EXPECT_OK(sab_list_stream_new(&large, 1, &endless, &stream));
        stream = limited_stream(stream, window, SAB_OVERSIZE_SKIP);
        EXPECT_FAILS(sab_stream_next(stream, &record), SAB_E_ARGUMENT,
                     ": must leave a record; 10000000 in a row are over it, the last one is record "
                     "9999999 of size 9");
        EXPECT(strcmp(sab_last_error_argument(),
                      window == PACK ? "options.capacities[0]" : "options.budgets[0].limit") == 0);
        EXPECT(strcmp(sab_last_error_value(), "5") == 0);
        uint64_t skipped = 0;
        EXPECT_OK(sab_stream_get_skipped_count(stream, &skipped));
        EXPECT(skipped == 10000000);
        sab_stream_free(stream);
    }
}

static int32_t select_nothing(void *ctx, const sab_record *record, sab_stream **made) {
    (void)ctx, (void)record, (void)made;
    return 0;
}

static void Progress_OfASelectionOfNothing_Cancels(void) {
    int calls = 0;
    sab_list_stream_options endless = permuting(1, 0, 1);
    sab_stream *stream = NULL;
    sab_record record = {0};
    EXPECT_OK(
        sab_select_stream_new(numbers(3, 0, &endless), select_nothing, NULL, NULL, NULL, &stream));
    EXPECT_OK(sab_stream_set_progress(stream, a_progress(cancel_third, &calls)));
    EXPECT_FAILS(sab_stream_next(stream, &record), SAB_E_CANCELLED, "code 5");
    EXPECT(calls == 3);
    sab_stream_free(stream);
}

static void Progress_OfFilesThatAreAllSkipped_Cancels(void) {
    int calls = 0;
    sab_list_stream_options endless = permuting(1, 0, 1);
    sab_files_stream_options options = SAB_FILES_STREAM_OPTIONS_INIT;
    options.on_error = SAB_ON_ERROR_SKIP;
    sab_stream *stream = NULL;
    sab_record record = {0};
    EXPECT_OK(sab_files_stream_new(numbers(3, 1, &endless), &options, &stream)); /* no files */
    EXPECT_OK(sab_stream_set_progress(stream, a_progress(cancel_third, &calls)));
    EXPECT_FAILS(sab_stream_next(stream, &record), SAB_E_CANCELLED, "code 5");
    uint64_t skipped = 0;
    EXPECT_OK(sab_stream_get_skipped_count(stream, &skipped));
    EXPECT(calls == 3 && skipped == 3);
    sab_stream_free(stream);
}

/* States */

/* The stream and two others, by proportions. */
static sab_stream *mixed(sab_stream *source) {
    sab_stream *sources[] = {source, numbers(1 + below(50), 0, NULL),
                             numbers(1 + below(50), 0, NULL)};
    static const double proportions[] = {4, 2, 1};
    sab_mix_stream_options mixing = SAB_MIX_STREAM_OPTIONS_INIT;
    mixing.proportions = proportions;
    mixing.proportion_count = 3;
    mixing.window = 1 + below(20);
    mixing.until = (sab_mix_until)below(2);
    sab_stream *stream = NULL;
    EXPECT_OK(sab_mix_stream_new(sources, 3, &mixing, &stream));
    return stream;
}

/* A pipeline drawn at random; the same for the same seed. */
static sab_stream *any_pipeline(uint64_t seed) {
    random_state = seed * 2654435761u + 1;
    for (int i = 0; i < 5; ++i) below(2);
    sab_list_stream_options options = SAB_LIST_STREAM_OPTIONS_INIT;
    if (below(2) == 0) options = permuting(below(100), below(2), 2 + below(2));
    sab_stream *stream = numbers(1 + below(60), 1, &options), *sources[3];
    static struct map_calls calls;
    calls = (struct map_calls){0};
    for (uint64_t stages = below(6); stages > 0; --stages) {
        sab_stream *source = stream;
        sab_readahead_stream_options carrying = SAB_READAHEAD_STREAM_OPTIONS_INIT;
        sab_record initial = {0};
        sab_pack_stream_options packing = SAB_PACK_STREAM_OPTIONS_INIT;
        switch (below(18)) {
            case 0: EXPECT_OK(sab_batch_stream_new(source, 1 + below(6), &stream)); break;
            case 1: EXPECT_OK(sab_flatten_stream_new(source, &stream)); break;
            case 2: EXPECT_OK(sab_window_stream_new(source, 1 + below(5), &stream)); break;
            case 3:
                EXPECT_OK(sab_shuffle_stream_new(source, SAB_SHUFFLE_BLOCKS, 1 + below(20),
                                                 below(9), &stream));
                break;
            case 4:
                EXPECT_OK(sab_shuffle_stream_new(source, SAB_SHUFFLE_BUFFER, 1 + below(10),
                                                 below(9), &stream));
                break;
            case 5: stream = mapped(source, &calls, below(2) * (1 + below(3))); break;
            case 6:
                stream = readahead(source, 1 + below(20), below(3), 1 + (double)below(40),
                                   (int)below(2), below(9));
                break;
            case 7:
            case 8: stream = prefetched(source, below(4) == 0 ? 1 + below(5) : 1000); break;
            case 9: /* of lists it opens nothing */
                for (int depth = 0; depth < 5; ++depth)
                    EXPECT_OK(sab_flatten_stream_new(source, &source));
                EXPECT_OK(sab_select_stream_new(source, repeat, NULL, NULL, NULL, &stream));
                break;
            case 10:
                EXPECT_OK(sab_recurrent_stream_new(source, add_up, NULL, NULL,
                                                   below(2) == 0 ? NULL : &initial, NULL, &stream));
                break;
            case 11:
                EXPECT_OK(sab_random_map_stream_new(source, add_chance, NULL, NULL, below(9), NULL,
                                                    &stream));
                break;
            case 12:
                sources[0] = numbers(100, 1, NULL);
                sources[1] = source;
                sources[2] = numbers(1 + below(50), 0, NULL);
                EXPECT_OK(sab_random_stream_new(below(9), &stream));
                EXPECT_OK(sab_multiplex_stream_new(stream, sources, 3, &stream));
                break;
            case 13:
                EXPECT_OK(sab_shard_stream_new(source, below(2), 2 + below(2), &stream));
                break;
            case 14:
                carrying.read_ahead = 1 + below(20);
                carrying.budgets = one_budget(1 + (double)below(60)), carrying.budget_count = 1;
                carrying.carry_over = 1;
                carrying.seed = below(9);
                carrying.oversize = SAB_OVERSIZE_SINGLE;
                EXPECT_OK(sab_readahead_stream_new(source, &carrying, &stream));
                break;
            case 15: /* room for lists of lists */
                packing.read_ahead = 1 + below(20);
                packing.capacities = one_number(1e7 * (1 + (double)below(3))),
                packing.capacity_count = 1;
                packing.max_records = below(5);
                packing.seed = below(9);
                EXPECT_OK(sab_pack_stream_new(source, &packing, &stream));
                break;
            case 16: stream = mixed(source); break;
            default:
                sources[0] = source;
                sources[1] = numbers(1 + below(50), 0, NULL);
                EXPECT_OK(sab_zip_stream_new(sources, 2, &stream));
        }
    }
    return stream;
}

static void SavedAnywhere_GoesOnTheSame(void) {
    static int whole[1 << 16], rest[1 << 16];
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    const uint64_t seeds = 300; /* each takes ten times as long */
#else
    const uint64_t seeds = 1500;
#endif
    for (uint64_t seed = 0; seed < seeds && failures_of_test == 0; ++seed) {
        const size_t most = 40;
        sab_stream *stream = any_pipeline(seed), *other = any_pipeline(seed);
        for (size_t stop = 0; stop <= most; stop += 4 + seed % 7) {
            EXPECT_OK(sab_stream_rewind(stream));
            read_out(stream, whole, stop);
            const size_t size = save(stream);
            const size_t count = read_out(stream, whole, most);
            EXPECT_OK(sab_stream_state_restore(other, state, size));
            EXPECT(save(other) > 0);
            EXPECT(read_out(other, rest, most) == count &&
                   memcmp(rest, whole, count * sizeof *rest) == 0);
            if (failures_of_test > 0) {
                fprintf(stderr, "seed %d, stopped after %d\n", (int)seed, (int)stop);
                break;
            }
        }
        sab_stream_free(stream);
        sab_stream_free(other);
    }
}

static void Restore_OfADamagedState_IsRefusedAndBeginsAgain(void) {
    sab_stream *stream = readahead(numbers(30, 1, NULL), 12, 3, 0, 1, 9),
               *other = readahead(numbers(30, 1, NULL), 12, 4, 0, 1, 9);
    int got[MOST];
    read_out(stream, got, 5);
    const size_t size = save(stream);
    for (size_t i = 0; i < size; i += 1 + i / 100) {
        state[i] ^= 0x10;
        const sab_status status = sab_stream_state_restore(stream, state, size);
        EXPECT(status == SAB_E_FORMAT || status == SAB_E_MISMATCH);
        state[i] ^= 0x10;
    }
    for (size_t cut = 0; cut < size; cut += 1 + cut / 10)
        EXPECT_FAILS(sab_stream_state_restore(stream, state, cut), SAB_E_FORMAT, "state: ");
    EXPECT_FAILS(sab_stream_state_restore(other, state, size), SAB_E_MISMATCH, "another pipeline");
    EXPECT_OK(sab_stream_state_restore(stream, state, size));
    EXPECT(read_out(stream, got, MOST) > 0);
    sab_stream_free(other);
    sab_stream_free(stream);
}

/* Files */

static char folder[] = "/tmp/sab_streams_XXXXXX";
static char paths[4][64];
static const char *const contents[] = {"one\ntwo\r\n\nthree", "", "four\n", "\n"};

static void write_file(const char *path, const char *text) {
    FILE *file = fopen(path, "wb");
    EXPECT(file != NULL && fputs(text, file) >= 0 && fclose(file) == 0);
}

static sab_stream *lines_of(size_t count, uint64_t max_line) {
    sab_record names[4];
    for (size_t i = 0; i < count; ++i) {
        names[i] = (sab_record){0};
        names[i].data = paths[i];
        names[i].length = strlen(paths[i]);
    }
    sab_stream *source = NULL, *stream = NULL;
    sab_files_stream_options options = SAB_FILES_STREAM_OPTIONS_INIT;
    options.max_record = max_line;
    EXPECT_OK(sab_list_stream_new(names, count, NULL, &source));
    EXPECT_OK(sab_files_stream_new(source, &options, &stream));
    return stream;
}

static int line_is(sab_stream *stream, const char *text) {
    sab_record record = {0};
    const sab_status status = sab_stream_next(stream, &record);
    return status == SAB_OK && record.length == strlen(text) &&
           memcmp(record.data, text, record.length) == 0 && record.size == (double)record.length;
}

static void Lines_AreReadFromFileToFile(void) {
    static const char *const expected[] = {"one", "two", "", "three", "four", ""};
    sab_stream *stream = lines_of(4, 0), *other = lines_of(4, 0);
    sab_record record = {0};
    for (size_t stop = 0; stop <= COUNT(expected); ++stop) {
        EXPECT_OK(sab_stream_rewind(stream));
        for (size_t i = 0; i < stop; ++i) EXPECT(line_is(stream, expected[i]));
        const size_t size = save(stream);
        EXPECT_OK(sab_stream_state_restore(other, state, size));
        for (size_t i = stop; i < COUNT(expected); ++i) EXPECT(line_is(other, expected[i]));
        EXPECT(sab_stream_next(other, &record) == SAB_END);
    }
    sab_stream_free(stream);
    sab_stream_free(other);
}

static void Lines_ThatCannotBeRead_SayWhere(void) {
    sab_record record = {0};
    sab_stream *stream = lines_of(2, 4);
    EXPECT(line_is(stream, "one") && line_is(stream, "two") && line_is(stream, ""));
    const size_t size = save(stream);
    EXPECT_FAILS(sab_stream_next(stream, &record), SAB_E_FORMAT,
                 "the record at byte 10 is longer than options.max_record, 4");
    EXPECT_FAILS(sab_stream_next(stream, &record), SAB_E_FORMAT, "the record at byte 10");
    sab_stream_free(stream);

    stream = lines_of(2, 0);
    /* another limit */
    EXPECT_FAILS(sab_stream_state_restore(stream, state, size), SAB_E_MISMATCH, "another pipeline");
    sab_stream_free(stream);
    stream = lines_of(2, 4);
    write_file(paths[0], "one\ntwo\r\n\nthreE");
    EXPECT_FAILS(sab_stream_state_restore(stream, state, size), SAB_E_MISMATCH,
                 "has changed since");
    EXPECT(line_is(stream, "one")); /* from the beginning */
    write_file(paths[0], contents[0]);
    sab_stream_free(stream);

    EXPECT(unlink(paths[2]) == 0);
    stream = lines_of(4, 0);
    EXPECT(line_is(stream, "one") && line_is(stream, "two") && line_is(stream, "") &&
           line_is(stream, "three"));
    EXPECT_FAILS(sab_stream_next(stream, &record), SAB_E_IO, "No such file");
    EXPECT_FAILS(sab_stream_next(stream, &record), SAB_E_IO, paths[2]);
    save(stream);
    write_file(paths[2], contents[2]);
    EXPECT(line_is(stream, "four")); /* nothing is lost */
    sab_stream_free(stream);

    sab_stream *lists = NULL;
    EXPECT_OK(sab_files_stream_new(batches_of(numbers(3, 0, NULL), 2), NULL, &lists));
    EXPECT_FAILS(sab_stream_next(lists, &record), SAB_E_ARGUMENT, "gave a record of kind 1");
    sab_stream_free(lists);
}

#ifndef _WIN32
/* One file of gzip with `count` lines; the bytes of it. */
static size_t write_compressed(const char *path, int count, char *bytes, size_t most) {
    char command[200];
    snprintf(command, sizeof command, "seq 0 %d | gzip -n > %s", count - 1, path);
    EXPECT(system(command) == 0);
    FILE *file = fopen(path, "rb");
    EXPECT(file != NULL);
    const size_t size = fread(bytes, 1, most, file);
    fclose(file);
    return size;
}

static void Lines_OfGzip_AreReadAndDamageIsFound(void) {
    static char bytes[1 << 20];
    enum { LINES = 100000 };
    const size_t size = write_compressed(paths[1], LINES, bytes, sizeof bytes);
    sab_record record = {0};
    sab_stream *stream = lines_of(3, 0), *other = lines_of(3, 0);
    int wrong = 0;
    for (int i = 0; i < 4; ++i) EXPECT_OK(sab_stream_next(stream, &record));
    for (int i = 0; i < LINES; ++i) {
        wrong += sab_stream_next(stream, &record) != SAB_OK || number_of(&record) != i;
        if (i == 77777) {
            const size_t length = save(stream);
            EXPECT_OK(sab_stream_state_restore(other, state, length));
        }
    }
    EXPECT(wrong == 0 && line_is(stream, "four"));
    EXPECT(sab_stream_next(other, &record) == SAB_OK && number_of(&record) == 77778);
    sab_stream_free(stream);
    sab_stream_free(other);
    for (int damage = 0; damage < 2; ++damage) { /* cut off; a byte changed */
        FILE *file = fopen(paths[1], "wb");
        bytes[size / 2] ^= damage;
        EXPECT(file != NULL && fwrite(bytes, 1, damage ? size : size / 2, file) > 0 &&
               fclose(file) == 0);
        stream = lines_of(3, 0);
        sab_status status = SAB_OK;
        int count = 0;
        while ((status = sab_stream_next(stream, &record)) == SAB_OK) ++count;
        EXPECT(status == SAB_E_FORMAT && count > 4 && count < LINES &&
               strstr(sab_last_error_message(), paths[1]) != NULL);
        EXPECT(sab_stream_next(stream, &record) == SAB_E_FORMAT);
        sab_stream_free(stream);
    }
    write_file(paths[1], contents[1]);
}
#endif

/* What cannot be */

/* Streams that their own threads free */

/* What a callback and the thread that made the stream share. */
struct shared_map {
    _Atomic(sab_stream *) stream;
    atomic_int is_inside, may_leave, is_done, released;
    int number; /* of the record whose call the test waits for */
    int ends_thread;
};

static int32_t free_own_stream(void *ctx, const sab_record *record, sab_record *made) {
    struct shared_map *shared = ctx;
    (void)made;
    if (number_of(record) != shared->number) return 0;
    sab_stream *stream;
    while ((stream = atomic_exchange(&shared->stream, NULL)) == NULL) usleep(100);
    sab_stream_free(stream);
    EXPECT(atomic_load(&shared->released) == 0); /* this call still uses the context */
    atomic_store(&shared->is_done, 1);
    return 0;
}

static int32_t stay_inside(void *ctx, const sab_record *record, sab_record *made) {
    struct shared_map *shared = ctx;
    (void)made;
    if (number_of(record) != shared->number) return 0;
    atomic_store(&shared->is_inside, 1);
    while (!atomic_load(&shared->may_leave)) usleep(100);
    EXPECT(atomic_load(&shared->released) == 0);
    atomic_store(&shared->is_done, 1);
    if (shared->ends_thread) pthread_exit(NULL); /* as Python does at its end */
    return 0;
}

static void shared_released(void *ctx) {
    atomic_fetch_add(&((struct shared_map *)ctx)->released, 1);
}

/* A map in threads: 0: below a prefetch; 1: by two threads; 2: by two threads below a prefetch; 3:
 * below two prefetches. */
static sab_stream *mapped_in_threads(struct shared_map *shared, sab_map_fn map, int kind) {
    sab_map_stream_options options = SAB_MAP_STREAM_OPTIONS_INIT;
    options.map = map;
    options.ctx = shared;
    options.release = shared_released;
    options.threads = kind == 1 || kind == 2 ? 2 : 0;
    sab_stream *stream = numbers(MOST, 0, NULL);
    EXPECT_OK(sab_map_stream_new(stream, &options, &stream));
    if (kind != 1) EXPECT_OK(sab_prefetch_stream_new(stream, 64, &stream));
    if (kind == 3) EXPECT_OK(sab_prefetch_stream_new(stream, 64, &stream));
    return stream;
}

/* A record that is mapped ahead of time, but not in the task or block of the first record, which
 * must not wait for it. A task of two threads has 64 records, a block of a prefetch has 16. */
static int number_ahead(int kind) {
    return kind == 1 || kind == 2 ? 100 : 40;
}

static void Stream_FreedByItsOwnThread_EndsAfterTheCallback(void) {
    for (int kind = 0; kind < 4; ++kind) {
        struct shared_map shared = {.number = number_ahead(kind)};
        sab_stream *stream = mapped_in_threads(&shared, free_own_stream, kind);
        sab_record record = {0};
        EXPECT_OK(sab_stream_next(stream, &record));
        atomic_store(&shared.stream, stream);
        while (!atomic_load(&shared.released)) usleep(100);
        EXPECT(atomic_load(&shared.is_done) == 1 && atomic_load(&shared.released) == 1);
    }
}

static void Stream_ThatIsAbandoned_IsReleasedWhenItsCallbackEnds(void) {
/* the undefined behaviour sanitizer takes the exception of pthread_exit() for a null reference */
#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__)
    const int kinds = 6;
#else
    const int kinds = 4;
#endif
    for (int i = 0; i < kinds; ++i) {
        const int kind = i % 4;
        struct shared_map shared = {.number = number_ahead(kind), .ends_thread = i >= 4};
        sab_stream *stream = mapped_in_threads(&shared, stay_inside, kind);
        sab_record record = {0};
        EXPECT_OK(sab_stream_next(stream, &record));
        while (!atomic_load(&shared.is_inside)) usleep(100);
        sab_stream_abandon(stream); /* comes back although the callback has not */
        EXPECT(atomic_load(&shared.released) == 0);
        atomic_store(&shared.may_leave, 1);
        while (!atomic_load(&shared.released)) usleep(100);
        EXPECT(atomic_load(&shared.is_done) == 1 && atomic_load(&shared.released) == 1);
    }
    sab_stream_abandon(NULL);
}

/* Progress and control over several sources */

static int32_t count_call(void *ctx, uint64_t done, uint64_t total) {
    (void)done;
    (void)total;
    ++*(int *)ctx;
    return 0;
}

static sab_stream *followed(int *calls) {
    sab_stream *stream = readahead(numbers(8, 0, NULL), 4, 2, 0, 0, 1); /* reports at each window */
    EXPECT_OK(sab_stream_set_progress(stream, a_progress(count_call, calls)));
    return stream;
}

static void Progress_OfSeveralSources_IsKept(void) {
    int calls[2] = {0, 0}, own = 0;
    sab_stream *sources[2] = {followed(&calls[0]), followed(&calls[1])}, *stream = NULL;
    sab_record record = {0};
    EXPECT_OK(sab_zip_stream_new(sources, 2, &stream));
    EXPECT_OK(sab_stream_next(stream, &record));
    EXPECT(calls[0] > 0 && calls[1] == calls[0]);
    EXPECT_OK(sab_stream_set_progress(stream, a_progress(count_call, &own)));
    calls[0] = calls[1] = 0;
    while (sab_stream_next(stream, &record) == SAB_OK) continue;
    EXPECT(own > 0 && calls[0] == 0 && calls[1] == 0);
    sab_stream_free(stream);

    sab_stream *control = NULL, *one = followed(&calls[0]);
    EXPECT_OK(sab_random_stream_new(1, &control)); /* in [0, 1): always the first source */
    EXPECT_OK(sab_multiplex_stream_new(control, &one, 1, &stream));
    EXPECT_OK(sab_batch_stream_new(stream, 2, &stream));
    EXPECT_OK(sab_stream_next(stream, &record));
    EXPECT(calls[0] > 0);
    sab_stream_free(stream);
}

static int32_t set_other_progress(void *ctx, uint64_t done, uint64_t total) {
    (void)done;
    (void)total;
    EXPECT_OK(sab_stream_set_progress(*(sab_stream **)ctx, NULL));
    return 0;
}

static void Progress_ThatSetsAnother_IsTheLastOfTheCall(void) {
    int calls = 0;
    sab_stream *stream = NULL,
               *sources[2] = {readahead(numbers(8, 0, NULL), 4, 2, 0, 0, 1), followed(&calls)};
    EXPECT_OK(sab_stream_set_progress(sources[0], a_progress(set_other_progress, &stream)));
    EXPECT_OK(sab_zip_stream_new(sources, 2, &stream));
    sab_record record = {0};
    while (sab_stream_next(stream, &record) == SAB_OK) continue;
    EXPECT(calls == 0);
    sab_stream_free(stream);
}

static int32_t fail_to_rewind(void *ctx) {
    (void)ctx;
    return 7;
}

/* A zip of a list and of a source of callbacks, which counts how often its state is asked for. */
static int states_saved;
static int32_t count_saves(void *ctx, void *buffer, size_t capacity, size_t *size) {
    ++states_saved;
    return counter_save(ctx, buffer, capacity, size);
}

static void Rewind_ThatFailsInTheMiddle_IsCalledAgain(void) {
    struct counter counter = {.end = 5, .fails_at = -1}, other = {.end = 5, .fails_at = -1};
    sab_source_functions functions = SAB_SOURCE_FUNCTIONS_INIT;
    functions.ctx = &other;
    functions.next = counter_next;
    functions.rewind = fail_to_rewind;
    functions.state_save = count_saves;
    functions.state_restore = counter_restore;
    sab_stream *stream = NULL, *sources[2] = {counting(&counter, 1), NULL};
    EXPECT_OK(sab_callback_stream_new(&functions, &sources[1]));
    EXPECT_OK(sab_zip_stream_new(sources, 2, &stream));
    sab_record record = {0};
    EXPECT_OK(sab_stream_next(stream, &record));
    const size_t size = save(stream);
    states_saved = 0;
    EXPECT_FAILS(sab_stream_rewind(stream), SAB_E_CALLBACK, "failed with code 7");
    EXPECT(states_saved == 0);
    EXPECT_FAILS(sab_stream_next(stream, &record), SAB_E_ARGUMENT,
                 "call sab_stream_rewind() until it succeeds");
    size_t needed = 0;
    EXPECT_FAILS(sab_stream_state_save(stream, NULL, 0, &needed), SAB_E_ARGUMENT,
                 "call sab_stream_rewind() until it succeeds");
    EXPECT_OK(sab_stream_state_restore(stream, state, size));
    EXPECT_OK(sab_stream_next(stream, &record));
    EXPECT(counter.at == 2 && other.at == 2);
    sab_stream_free(stream);
}

/* Both threads of a map wait in their first record until the stream is rewound. */
static atomic_int maps_begun, maps_may_go;
static int32_t map_when_rewound(void *ctx, const sab_record *record, sab_record *made) {
    (void)ctx;
    (void)record;
    (void)made;
    ++maps_begun;
    while (!maps_may_go) usleep(100);
    return 0;
}

static int32_t cancel_when_maps_wait(void *ctx, uint64_t done, uint64_t total) {
    (void)ctx;
    (void)done;
    (void)total;
    return maps_begun == 2;
}

static void Threads_AfterARewind_MapNoOldRecords(void) {
    sab_map_stream_options options = SAB_MAP_STREAM_OPTIONS_INIT;
    options.map = map_when_rewound;
    options.threads = 2;
    sab_stream *stream = NULL;
    EXPECT_OK(sab_map_stream_new(numbers(200, 0, NULL), &options, &stream));
    EXPECT_OK(sab_stream_set_progress(stream, a_progress(cancel_when_maps_wait, NULL)));
    sab_record record = {0};
    EXPECT_FAILS(sab_stream_next(stream, &record), SAB_E_CANCELLED, "cancelled");
    EXPECT_OK(sab_stream_rewind(stream));
    maps_may_go = 1;
    sab_stream_free(stream); /* waits for the threads */
    EXPECT(maps_begun == 2);
}

static void Arguments_ThatCannotBe_AreRefusedAndTheSourceStays(void) {
    sab_stream *source = numbers(5, 0, NULL), *stream = NULL, *twice[2] = {source, source},
               *missing[2] = {source, NULL};
    EXPECT_FAILS(sab_batch_stream_new(source, 0, &stream), SAB_E_ARGUMENT, "batch_size = 0");
    EXPECT_FAILS(sab_window_stream_new(source, 0, &stream), SAB_E_ARGUMENT, "width = 0");
    EXPECT_FAILS(sab_shuffle_stream_new(source, SAB_SHUFFLE_BLOCKS, 0, 1, &stream), SAB_E_ARGUMENT,
                 "size = 0: must be from 1 to 2^32");
    EXPECT_FAILS(sab_shuffle_stream_new(source, SAB_SHUFFLE_BUFFER, 0, 1, &stream), SAB_E_ARGUMENT,
                 "size = 0: must be from 1 to 2^32");
    EXPECT_FAILS(sab_zip_stream_new(twice, 2, &stream), SAB_E_ARGUMENT, "a stream is given twice");
    EXPECT_FAILS(sab_zip_stream_new(missing, 2, &stream), SAB_E_ARGUMENT, "sources[1] = NULL");
    EXPECT_FAILS(sab_zip_stream_new(twice, 0, &stream), SAB_E_ARGUMENT, "count = 0");
    EXPECT_FAILS(sab_zip_stream_new(NULL, 1, &stream), SAB_E_ARGUMENT, "sources = NULL");
    EXPECT_FAILS(sab_readahead_stream_new(source, NULL, &stream), SAB_E_ARGUMENT, "options = NULL");
    sab_readahead_stream_options options = SAB_READAHEAD_STREAM_OPTIONS_INIT;
    EXPECT_FAILS(sab_readahead_stream_new(source, &options, &stream), SAB_E_ARGUMENT,
                 "a batch size, a budget or a batch_size_fn must be given");
    options.budgets = one_budget(NAN), options.budget_count = 1;
    EXPECT_FAILS(sab_readahead_stream_new(source, &options, &stream), SAB_E_ARGUMENT,
                 "options.budgets[0].limit = nan");
    options.budgets = one_budget(5), options.budget_count = 1;
    options.read_ahead = UINT64_MAX;
    EXPECT_FAILS(sab_readahead_stream_new(source, &options, &stream), SAB_E_ARGUMENT,
                 "options.read_ahead = 18446744073709551615: must be at most 2^3");
    options.read_ahead = 5;
    options.no_shuffle = 2;
    EXPECT_FAILS(sab_readahead_stream_new(source, &options, &stream), SAB_E_ARGUMENT,
                 "options.no_shuffle = 2");
    options.no_shuffle = 0;
    options.oversize = 3;
    EXPECT_FAILS(sab_readahead_stream_new(source, &options, &stream), SAB_E_ARGUMENT,
                 "options.oversize = 3: must be one of SAB_OVERSIZE_ERROR (0)");
    EXPECT_FAILS(sab_flatten_stream_new(source, NULL), SAB_E_ARGUMENT, "stream = NULL");
    EXPECT_FAILS(sab_flatten_stream_new(NULL, &stream), SAB_E_ARGUMENT, "source = NULL");
    EXPECT_FAILS(sab_files_stream_new(NULL, NULL, &stream), SAB_E_ARGUMENT, "source = NULL");
    EXPECT(stream == NULL);
    int got[MOST];
    EXPECT(read_out(source, got, MOST) == 5);
    sab_stream_free(source);

    sab_record record = {0}, list = {0}, large = {0};
    list.kind = SAB_RECORD_LIST;
    list.data = &record;
    list.length = 1;
    large.size = INFINITY;
    EXPECT_FAILS(sab_list_stream_new(&list, 1, NULL, &stream), SAB_E_ARGUMENT,
                 "records[0].kind = 1");
    EXPECT_FAILS(sab_list_stream_new(&large, 1, NULL, &stream), SAB_E_ARGUMENT,
                 "records[0].size = inf");
    EXPECT_FAILS(sab_list_stream_new(NULL, 1, NULL, &stream), SAB_E_ARGUMENT, "records = NULL");
    record.length = 3;
    EXPECT_FAILS(sab_list_stream_new(&record, 1, NULL, &stream), SAB_E_ARGUMENT,
                 "records[0].data = NULL");
    sab_list_stream_options ranks = permuting(1, 3, 3);
    EXPECT_FAILS(sab_list_stream_new(NULL, 0, &ranks, &stream), SAB_E_ARGUMENT, "options.rank = 3");
    ranks = permuting(1, 0, 1);
    EXPECT_FAILS(sab_list_stream_new(NULL, 0, &ranks, &stream), SAB_E_ARGUMENT, "count = 0");
    ranks.infinite = 0;
    EXPECT_FAILS(sab_list_stream_new(NULL, 0, &ranks, &stream), SAB_E_ARGUMENT,
                 "only an infinite list is shuffled");
    EXPECT_FAILS(sab_stream_next(NULL, &record), SAB_E_ARGUMENT, "stream = NULL");
    EXPECT_FAILS(sab_stream_rewind(NULL), SAB_E_ARGUMENT, "stream = NULL");
    size_t size = 0;
    EXPECT_FAILS(sab_stream_state_save(NULL, NULL, 0, &size), SAB_E_ARGUMENT, "stream = NULL");
    EXPECT_FAILS(sab_stream_state_restore(NULL, state, 0), SAB_E_ARGUMENT, "stream = NULL");
    sab_stream_free(NULL);
}

int main(void) {
    if (mkdtemp(folder) == NULL) return 1;
    for (size_t i = 0; i < 4; ++i) {
        sprintf(paths[i], "%s/%d.txt", folder, (int)i);
        write_file(paths[i], contents[i]);
    }
    RUN(Orders_AreInfinibatchs);
    RUN(List_OfRanksInOrder_IsTheList);
    RUN(Stages_GiveWhatTheySay);
    RUN(Map_ThatFails_IsCalledAgain);
    RUN(Callbacks_OfEveryKind_GiveWhatTheySay);
    RUN(Callbacks_ThatFail_AreCalledAgainAndNothingIsLost);
    RUN(Source_ThatCannotRewind_SaysSo);
    RUN(Objects_AreLetGoOfOnceEachAndGoThroughStates);
    RUN(Pack_FillsItsListsAndLosesNothing);
    RUN(Pack_RefusesBadOptions);
    RUN(Pack_OfOneSize_ReleasesItsContext);
    RUN(Oversize_IsRefusedAgainAndAgain);
    RUN(Oversize_IsSkippedAndCounted);
    RUN(Oversize_OfAllRecords_IsRefusedAtTheEnd);
    RUN(Oversize_IsSkippedAfterARestore);
    RUN(Oversize_IsAListAlone);
    RUN(Oversize_IsNamedAfterARestore);
    RUN(Progress_OfALongWindow_Cancels);
    RUN(Progress_OfASourceWhoseRecordsAreAllSkipped_Cancels);
    RUN(Oversize_OfAllRecordsOfASourceWithoutAnEnd_IsRefused);
    RUN(Progress_OfASelectionOfNothing_Cancels);
    RUN(Progress_OfFilesThatAreAllSkipped_Cancels);
    RUN(Progress_OfSeveralSources_IsKept);
    RUN(Progress_ThatSetsAnother_IsTheLastOfTheCall);
    RUN(Rewind_ThatFailsInTheMiddle_IsCalledAgain);
    RUN(Threads_AfterARewind_MapNoOldRecords);
    RUN(Stream_FreedByItsOwnThread_EndsAfterTheCallback);
    RUN(Stream_ThatIsAbandoned_IsReleasedWhenItsCallbackEnds);
    RUN(SavedAnywhere_GoesOnTheSame);
    RUN(Restore_OfADamagedState_IsRefusedAndBeginsAgain);
    RUN(Lines_AreReadFromFileToFile);
    RUN(Lines_ThatCannotBeRead_SayWhere);
#ifndef _WIN32
    RUN(Lines_OfGzip_AreReadAndDamageIsFound);
#endif
    RUN(Arguments_ThatCannotBe_AreRefusedAndTheSourceStays);
    for (size_t i = 0; i < 4; ++i) unlink(paths[i]);
    rmdir(folder);
    return finish();
}
