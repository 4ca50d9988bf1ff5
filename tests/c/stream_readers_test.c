/* Files that several threads read at once give what one thread gives: records, states, failures. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "helpers.h"
#include "one.h"
#include "posix.h"
#ifndef _WIN32
#include <sys/wait.h>
#endif

enum { FILES = 12, MOST_TEXT = 1 << 21 };
static const uint64_t readers[] = {0, 1, 2, 3, 8};

static char folder[] = "/tmp/sab_readers_XXXXXX";
static char paths[FILES][64];
static unsigned char state[1 << 16];

static void write_bytes(const char *path, const void *bytes, size_t size) {
    FILE *file = fopen(path, "wb");
    EXPECT(file != NULL && fwrite(bytes, 1, size, file) == size && fclose(file) == 0);
}

/* A frame of Zstandard (RFC 8878) of blocks that are not compressed. */
static void write_zstd(const char *path, const char *text, size_t size) {
    static unsigned char bytes[MOST_TEXT + 1024];
    const unsigned char header[] = {0x28,
                                    0xB5,
                                    0x2F,
                                    0xFD,
                                    0xA0,
                                    (unsigned char)size,
                                    (unsigned char)(size >> 8),
                                    (unsigned char)(size >> 16),
                                    0};
    size_t used = sizeof header;
    memcpy(bytes, header, used);
    for (size_t at = 0; at == 0 || at < size;) {
        const size_t block = size - at < 100000 ? size - at : 100000;
        const uint32_t begin = (uint32_t)(block << 3) | (at + block == size);
        for (int i = 0; i < 3; ++i) bytes[used++] = (unsigned char)(begin >> (8 * i));
        memcpy(bytes + used, text + at, block);
        used += block;
        at += block == 0 ? 1 : block;
    }
    write_bytes(path, bytes, used);
}

/* Lines of file `i`: an empty file, one without an end of its last line, one of several blocks. */
static size_t text_of(int i, char *text) {
    static const int counts[FILES] = {700, 0, 1, 40000, 3, 900, 1000, 20000, 0, 5, 60, 33};
    size_t used = 0;
    for (int k = 0; k < counts[i]; ++k)
        used += (size_t)sprintf(text + used, "%d %d %s%.*s%s", i, k, k % 9 < 4 ? "\xC3\xA4" : "",
                                k * 7 % 29, "and so on, and on, and on, and on",
                                k % 5 == 0 ? "\r\n" : "\n");
    return i == 7 && used > 0 ? used - 1 : used;
}

static void write_files(void) {
    static char text[MOST_TEXT];
    for (int i = 0; i < FILES; ++i) {
        const size_t size = text_of(i, text);
        snprintf(paths[i], sizeof paths[i], "%s/%d", folder, i);
        if (i % 3 == 2) {
            write_zstd(paths[i], text, size);
            continue;
        }
        write_bytes(paths[i], text, size);
#ifndef _WIN32
        char command[256];
        snprintf(command, sizeof command, "cd %s && gzip -nq %d && mv %d.gz %d", folder, i, i, i);
        if (i % 3 == 0) EXPECT(system(command) == 0);
#endif
    }
}

/* The records of the first `count` files. */
static sab_stream *files(size_t count, uint64_t threads, int is_endless, sab_on_error on_error) {
    sab_record names[FILES];
    for (size_t i = 0; i < count; ++i) {
        names[i] = (sab_record){0};
        names[i].data = paths[i];
        names[i].length = strlen(paths[i]);
    }
    sab_list_stream_options order = SAB_LIST_STREAM_OPTIONS_INIT;
    order.infinite = order.shuffle = is_endless;
    order.seed = 3;
    sab_files_stream_options options = SAB_FILES_STREAM_OPTIONS_INIT;
    options.readers = threads;
    options.on_error = on_error;
    sab_stream *stream = NULL;
    EXPECT_OK(sab_list_stream_new(names, count, &order, &stream));
    EXPECT_OK(sab_files_stream_new(stream, &options, &stream));
    return stream;
}

static uint64_t hash_with(uint64_t hash, const sab_record *record) {
    for (size_t i = 0; i < record->length; ++i)
        hash = record->kind == SAB_RECORD_LIST
                   ? hash_with(hash, (const sab_record *)record->data + i)
                   : (hash ^ ((const unsigned char *)record->data)[i]) * 1099511628211u;
    return (hash ^ (uint64_t)record->size ^ 0x100) * 1099511628211u;
}

/* A number for the next `most` records, and how many there were. */
static uint64_t hash_of(sab_stream *stream, size_t most, size_t *count) {
    uint64_t hash = 14695981039346656037u;
    sab_record record = {0};
    for (*count = 0; *count < most && sab_stream_next(stream, &record) == SAB_OK; ++*count)
        hash = hash_with(hash, &record);
    return hash;
}

static size_t save(const sab_stream *stream) {
    size_t size = 0;
    EXPECT_OK(sab_stream_state_save(stream, state, sizeof state, &size));
    EXPECT(size > 0 && size <= sizeof state);
    return size;
}

static void Records_AreTheSameForAnyNumberOfReaders(void) {
    for (int is_endless = 0; is_endless < 2; ++is_endless) {
        uint64_t first = 0;
        for (size_t r = 0; r < COUNT(readers); ++r) {
            sab_stream *stream = files(FILES, readers[r], is_endless, SAB_ON_ERROR_STOP);
            for (int pass = 0; pass < 2; ++pass) {
                size_t count = 0;
                const uint64_t hash = hash_of(stream, 200000, &count);
                if (r == 0 && pass == 0) first = hash;
                EXPECT(hash == first && count == (is_endless ? 200000 : 62702));
                EXPECT_OK(sab_stream_rewind(stream));
            }
            sab_stream_free(stream);
        }
    }
    const sab_files_stream_options defaults = SAB_FILES_STREAM_OPTIONS_INIT;
    EXPECT(defaults.readers == 0);
    sab_files_stream_options options = SAB_FILES_STREAM_OPTIONS_INIT;
    options.readers = 257;
    sab_stream *source = files(1, 0, 0, SAB_ON_ERROR_STOP), *stream = NULL;
    EXPECT_FAILS(sab_files_stream_new(source, &options, &stream), SAB_E_ARGUMENT,
                 "options.readers = 257: must be at most 256");
    sab_stream_free(source);
}

static void States_AreRestoredWithAnotherNumberOfReaders(void) {
    static const size_t stops[] = {0,     1,     699,   700,   701,   702,
                                   12345, 40700, 40701, 42607, 61111, 62702};
    for (int is_endless = 0; is_endless < 2; ++is_endless)
        for (size_t s = 0; s < COUNT(stops); ++s) {
            sab_stream *stream = files(FILES, readers[s % COUNT(readers)], is_endless, 0);
            size_t count = 0;
            hash_of(stream, stops[s], &count);
            EXPECT(count == stops[s]);
            const size_t size = save(stream);
            const uint64_t expected = hash_of(stream, 30000, &count);
            sab_stream_free(stream);
            for (size_t r = 0; r < COUNT(readers); ++r) {
                size_t same = 0;
                stream = files(FILES, readers[r], is_endless, 0);
                EXPECT_OK(sab_stream_state_restore(stream, state, size));
                EXPECT(save(stream) > 0);
                EXPECT_OK(sab_stream_state_restore(stream, state, save(stream)));
                EXPECT(hash_of(stream, 30000, &same) == expected && same == count);
                sab_stream_free(stream);
            }
        }
}

/* The records before a failure, and the hash of all when files that cannot be read are skipped. */
static void expect_failure(size_t before, sab_status status, const char *message, size_t all) {
    for (size_t r = 0; r < COUNT(readers); ++r) {
        sab_stream *stream = files(FILES, readers[r], 0, SAB_ON_ERROR_STOP);
        sab_record record = {0};
        size_t count = 0;
        hash_of(stream, before, &count);
        EXPECT(count == before);
        for (int i = 0; i < 2; ++i) {
            EXPECT_FAILS(sab_stream_next(stream, &record), status, message);
            EXPECT(save(stream) > 0);
        }
        sab_stream_free(stream);
        stream = files(FILES, readers[r], 0, SAB_ON_ERROR_SKIP);
        uint64_t skipped = 0;
        hash_of(stream, 100000, &count);
        EXPECT_OK(sab_stream_get_skipped_count(stream, &skipped));
        EXPECT(count == all && skipped == 1);
        sab_stream_free(stream);
    }
}

static void Failures_ComeAtTheSameRecord(void) {
    static char bytes[MOST_TEXT];
    FILE *file = fopen(paths[7], "rb");
    EXPECT(file != NULL);
    const size_t size = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    EXPECT(unlink(paths[7]) == 0); /* it disappears */
    expect_failure(42604, SAB_E_IO, paths[7], 42702);

    sab_stream *stream = files(FILES, 2, 0, SAB_ON_ERROR_STOP);
    sab_record record = {0};
    size_t count = 0;
    hash_of(stream, 42604, &count);
    EXPECT_FAILS(sab_stream_next(stream, &record), SAB_E_IO, paths[7]);
    write_bytes(paths[7], bytes, size); /* and is there again */
    hash_of(stream, 100000, &count);
    EXPECT(count == 62702 - 42604);
    sab_stream_free(stream);

    file = fopen(paths[5], "rb"); /* of Zstandard: cut off in its last block */
    EXPECT(file != NULL);
    const size_t whole = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    write_bytes(paths[5], bytes, whole - 9);
    stream = files(FILES, 0, 0, SAB_ON_ERROR_STOP);
    hash_of(stream, 100000, &count);
    sab_stream_free(stream);
    EXPECT(count >= 40704 && count < 41604);
    expect_failure(count, SAB_E_FORMAT, "is truncated", 62702 - 900 + count - 40704);
    write_bytes(paths[5], bytes, whole);
}

/* Batches of at most 30 bytes from windows of 777 records, some of which are too large. A shard of
 * one rank hands on one record at a time, other stages as many as they have at hand. */
static sab_stream *windows(uint64_t threads, int has_prefetch, int is_one_by_one,
                           sab_oversize oversize) {
    sab_stream *stream = files(FILES, threads, 0, SAB_ON_ERROR_STOP);
    if (has_prefetch) EXPECT_OK(sab_prefetch_stream_new(stream, 5000, &stream));
    if (is_one_by_one) EXPECT_OK(sab_shard_stream_new(stream, 0, 1, &stream));
    EXPECT_OK(sab_shuffle_stream_new(stream, SAB_SHUFFLE_BLOCKS, 999, 1, &stream));
    if (is_one_by_one) EXPECT_OK(sab_shard_stream_new(stream, 0, 1, &stream));
    sab_readahead_stream_options batches = SAB_READAHEAD_STREAM_OPTIONS_INIT;
    batches.read_ahead = 777;
    batches.budgets = one_budget(30), batches.budget_count = 1;
    batches.oversize = oversize;
    EXPECT_OK(sab_readahead_stream_new(stream, &batches, &stream));
    return stream;
}

static void Windows_AreThoseOfRecordsOneByOne(void) {
    for (uint64_t threads = 0; threads <= 2; threads += 2)
        for (int has_prefetch = 0; has_prefetch < 2; ++has_prefetch) {
            uint64_t hashes[2], skipped[2];
            size_t counts[2], size;
            char messages[2][256];
            for (int one = 0; one < 2; ++one) {
                sab_record record = {0};
                sab_stream *stream = windows(threads, has_prefetch, one, SAB_OVERSIZE_SKIP);
                size_t before = 0;
                hashes[one] = hash_of(stream, 5000, &before);
                size = save(stream);
                hashes[one] ^= 3 * hash_of(stream, 1000000, &counts[one]);
                EXPECT_OK(sab_stream_get_skipped_count(stream, &skipped[one]));
                EXPECT_OK(sab_stream_state_restore(stream, state, size));
                size_t again = 0;
                (void)hash_of(stream, 1000000, &again);
                EXPECT(before == 5000 && again == counts[one]);
                sab_stream_free(stream);
                stream = windows(threads, has_prefetch, one, SAB_OVERSIZE_ERROR);
                for (int call = 0; call < 2; ++call)
                    EXPECT_FAILS(sab_stream_next(stream, &record), SAB_E_ARGUMENT,
                                 ": must be at most options.budgets[0].limit = 30");
                snprintf(messages[one], sizeof messages[one], "%s", sab_last_error_message());
                sab_stream_free(stream);
            }
            EXPECT(hashes[0] == hashes[1] && counts[0] == counts[1]);
            EXPECT(skipped[0] == skipped[1] && skipped[0] > 5000);
            EXPECT(strcmp(messages[0], messages[1]) == 0);
        }
}

static int32_t cancel_third(void *ctx, uint64_t done, uint64_t total) {
    (void)done, (void)total;
    return ++*(int *)ctx == 3 ? 5 : 0;
}

static void Names_ThatAreNoFiles_AreSkippedUntilCancelled(void) {
    char kept[FILES][64];
    memcpy(kept, paths, sizeof kept);
    for (int i = 0; i < FILES; ++i) paths[i][0] = '-';
    int calls = 0;
    sab_stream *stream = files(FILES, 2, 1, SAB_ON_ERROR_SKIP);
    sab_record record = {0};
    uint64_t skipped = 0;
    EXPECT_OK(sab_stream_set_progress(stream, a_progress(cancel_third, &calls)));
    EXPECT_FAILS(sab_stream_next(stream, &record), SAB_E_CANCELLED, "code 5");
    EXPECT_OK(sab_stream_get_skipped_count(stream, &skipped));
    EXPECT(skipped >= 1 && save(stream) > 0);
    sab_stream_free(stream);
    memcpy(paths, kept, sizeof kept);
}

/* Some of the files are empty. Names without an end give them again and again. */
static void EmptyFiles_WithoutAnEnd_Fail(void) {
    char kept[FILES][64];
    memcpy(kept, paths, sizeof kept);
    for (int i = 0; i < 3; ++i) {
        snprintf(paths[i], sizeof paths[i], "%s/empty%d", folder, i);
        write_bytes(paths[i], "", 0);
    }
    sab_record record = {0};
    for (uint64_t threads = 0; threads <= 2; ++threads) {
        sab_stream *stream = files(3, threads, 1, SAB_ON_ERROR_STOP);
        for (int i = 0; i < 2; ++i)
            EXPECT_FAILS(sab_stream_next(stream, &record), SAB_E_FORMAT,
                         "the last 10030 files have no records");
        sab_stream_free(stream);
        stream = files(3, threads, 0, SAB_ON_ERROR_STOP);
        EXPECT(sab_stream_next(stream, &record) == SAB_END);
        sab_stream_free(stream);
    }
    write_bytes(paths[1], "only", 4);
    for (uint64_t threads = 0; threads <= 2; ++threads) {
        sab_stream *stream = files(3, threads, 1, SAB_ON_ERROR_STOP);
        for (int i = 0; i < 12000; ++i) /* more empty files than may be in sequence */
            EXPECT(sab_stream_next(stream, &record) == SAB_OK && record.length == 4);
        sab_stream_free(stream);
    }
    for (int i = 0; i < 3; ++i) unlink(paths[i]);
    memcpy(paths, kept, sizeof kept);
}

/* A source of names that fails once, before the fourth. */
static int32_t next_name(void *ctx, sab_record *record) {
    int *const calls = ctx, call = (*calls)++;
    if (call == 3) return 17;
    const int i = call < 3 ? call : call - 1;
    if (i >= FILES) return SAB_END;
    record->data = paths[i];
    record->length = strlen(paths[i]);
    return 0;
}

static void Source_ThatFails_FailsBehindTheFilesBefore(void) {
    for (size_t r = 0; r < COUNT(readers); ++r) {
        int calls = 0;
        sab_source_functions functions = SAB_SOURCE_FUNCTIONS_INIT;
        functions.ctx = &calls;
        functions.next = next_name;
        sab_files_stream_options options = SAB_FILES_STREAM_OPTIONS_INIT;
        options.readers = readers[r];
        sab_stream *stream = NULL;
        sab_record record = {0};
        EXPECT_OK(sab_callback_stream_new(&functions, &stream));
        EXPECT_OK(sab_files_stream_new(stream, &options, &stream));
        size_t count = 0;
        hash_of(stream, 701, &count);
        EXPECT(count == 701 && sab_stream_next(stream, &record) == SAB_E_CALLBACK &&
               sab_last_error_code() == 17);
        hash_of(stream, 100000, &count);
        EXPECT(count == 62702 - 701);
        sab_stream_free(stream);
    }
}

/* Lines without bytes take much more room in memory than in the file. */
static void Readers_ThatAreFarAhead_Wait(void) {
    static char text[MOST_TEXT];
    char kept[64];
    memcpy(kept, paths[0], sizeof kept);
    snprintf(paths[0], sizeof paths[0], "%s/lines", folder);
    memset(text, '\n', sizeof text);
    write_bytes(paths[0], text, sizeof text);
    sab_record record = {0};
    for (int frees = 0; frees < 3; ++frees) {
        sab_stream *stream = files(4, 1 + (uint64_t)frees, 1, SAB_ON_ERROR_STOP);
        size_t count = 0;
        for (int i = 0; i < (frees == 0 ? 5000000 : 100); ++i)
            count += sab_stream_next(stream, &record) == SAB_OK;
        EXPECT(count == (frees == 0 ? 5000000 : 100));
        if (frees == 2)
            sab_stream_abandon(stream);
        else
            sab_stream_free(stream);
    }
#ifndef _WIN32 /* where the stream that was abandoned has it open */
    EXPECT(unlink(paths[0]) == 0);
#endif
    memcpy(paths[0], kept, sizeof kept);
}

/* ThreadSanitizer starts no threads in the child of a fork. */
#if !defined(_WIN32) && !defined(__SANITIZE_THREAD__)
static void Child_OfAFork_GoesOn(void) {
    for (size_t r = 1; r < COUNT(readers); ++r) {
        sab_stream *stream = files(FILES, readers[r], 0, SAB_ON_ERROR_STOP);
        size_t count = 0;
        hash_of(stream, 12345, &count);
        const pid_t child = fork();
        const uint64_t hash = hash_of(stream, 100000, &count);
        const size_t size = child == 0 ? 0 : save(stream);
        if (child == 0) {
            sab_stream_free(stream);
            _exit(count == 62702 - 12345 ? (int)(hash % 200) + 1 : 0);
        }
        int status = 0;
        EXPECT(size > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status));
        EXPECT(count == 62702 - 12345 && WEXITSTATUS(status) == (int)(hash % 200) + 1);
        sab_stream_free(stream);
    }
}
#endif

/* Sizes */

static double characters_of(const sab_record *record) {
    double count = 0;
    for (size_t i = 0; i < record->length; ++i)
        count += (((const unsigned char *)record->data)[i] & 0xC0) != 0x80;
    return count;
}

static double words_of(const sab_record *record) {
    const unsigned char *text = record->data;
    double count = 0;
    for (size_t i = 0; i < record->length; ++i)
        count += text[i] > ' ' && (i == 0 || text[i - 1] == ' ');
    return count;
}

static void expect_sizes(sab_stream *stream, sab_text_unit unit) {
    sab_record record = {0};
    int wrong = 0, count = 0;
    for (; count < 1000 && sab_stream_next(stream, &record) == SAB_OK; ++count)
        wrong += record.size != (unit == SAB_TEXT_BYTES   ? (double)record.length
                                 : unit == SAB_TEXT_WORDS ? words_of(&record)
                                                          : characters_of(&record));
    EXPECT(count == 1000 && wrong == 0);
    sab_stream_free(stream);
}

static void Texts_AreMeasuredWhereTheyAreReadOrLater(void) {
    static char text[MOST_TEXT];
    const sab_text_unit units[] = {SAB_TEXT_BYTES, SAB_TEXT_WORDS, SAB_TEXT_CHARACTERS};
    sab_record record = {0};
    for (size_t u = 0; u < COUNT(units); ++u)
        for (int kind = 0; kind < 4; ++kind) {
            sab_stream *stream = files(FILES, (uint64_t)kind, 0, SAB_ON_ERROR_STOP);
            if (kind == 1) EXPECT_OK(sab_stream_next(stream, &record)); /* too late there */
            if (kind == 2) {
                sab_stream *sources[] = {stream, files(FILES, 1, 1, 0)};
                const double proportions[] = {1, 2};
                sab_mix_stream_options mixing = SAB_MIX_STREAM_OPTIONS_INIT;
                mixing.proportions = proportions;
                mixing.proportion_count = 2;
                EXPECT_OK(
                    sab_shuffle_stream_new(sources[1], SAB_SHUFFLE_BLOCKS, 50, 1, &sources[1]));
                EXPECT_OK(sab_mix_stream_new(sources, 2, &mixing, &stream));
            }
            if (kind == 3) {
                EXPECT_OK(sab_prefetch_stream_new(stream, 100, &stream));
                EXPECT_OK(sab_shuffle_stream_new(stream, SAB_SHUFFLE_BUFFER, 10, 1, &stream));
                EXPECT_OK(sab_shard_stream_new(stream, 1, 2, &stream));
            }
            EXPECT_OK(sab_text_size_stream_new(stream, units[u], &stream));
            expect_sizes(stream, units[u]);
        }
    for (size_t i = 0; i < sizeof text; ++i) text[i] = "\xE2\x82\xAC "[i % 4];
    record.data = text; /* longer than what is summed at once */
    record.length = sizeof text - 5;
    sab_stream *stream = NULL;
    EXPECT_OK(sab_list_stream_new(&record, 1, NULL, &stream));
    EXPECT_FAILS(sab_text_size_stream_new(stream, 3, &stream), SAB_E_ARGUMENT, "unit = 3");
    EXPECT_FAILS(sab_text_size_stream_new(NULL, 0, &stream), SAB_E_ARGUMENT, "source = NULL");
    EXPECT_OK(sab_text_size_stream_new(stream, SAB_TEXT_CHARACTERS, &stream));
    EXPECT(sab_stream_next(stream, &record) == SAB_OK && record.size == characters_of(&record));
    EXPECT_OK(sab_stream_rewind(stream));
    EXPECT_OK(sab_batch_stream_new(stream, 2, &stream)); /* a list keeps the sum, or is counted */
    EXPECT_OK(sab_text_size_stream_new(stream, SAB_TEXT_WORDS, &stream));
    EXPECT(sab_stream_next(stream, &record) == SAB_OK && record.size > 1000);
    EXPECT_OK(sab_stream_state_restore(stream, state, save(stream)));
    EXPECT_OK(sab_stream_rewind(stream));
    EXPECT_OK(sab_text_size_stream_new(stream, SAB_TEXT_CHARACTERS, &stream));
    EXPECT(sab_stream_next(stream, &record) == SAB_OK && record.size == 1);
    sab_stream_free(stream);
}

int main(void) {
    EXPECT(mkdtemp(folder) != NULL);
    write_files();
    RUN(Records_AreTheSameForAnyNumberOfReaders);
    RUN(States_AreRestoredWithAnotherNumberOfReaders);
    RUN(Failures_ComeAtTheSameRecord);
    RUN(Windows_AreThoseOfRecordsOneByOne);
    RUN(Names_ThatAreNoFiles_AreSkippedUntilCancelled);
    RUN(EmptyFiles_WithoutAnEnd_Fail);
    RUN(Source_ThatFails_FailsBehindTheFilesBefore);
    RUN(Readers_ThatAreFarAhead_Wait);
#if !defined(_WIN32) && !defined(__SANITIZE_THREAD__)
    RUN(Child_OfAFork_GoesOn);
#endif
    RUN(Texts_AreMeasuredWhereTheyAreReadOrLater);
    for (int i = 0; i < FILES; ++i) unlink(paths[i]);
    rmdir(folder);
    return finish();
}
