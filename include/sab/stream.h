/** @file stream.h
 * Pipelines of records that resume at the next record: sources and stages.
 *
 *     sab_stream *s;
 *     sab_list_stream_new(file_names, count, &options, &s);  file names of this rank, shuffled
 *     sab_files_stream_new(s, NULL, &s);                     lines of the files
 *     sab_prefetch_stream_new(s, 10000, &s);                 read in a thread
 *     sab_shuffle_stream_new(s, SAB_SHUFFLE_BLOCKS, 100000, seed, &s);
 *     sab_readahead_stream_new(s, &readahead, &s);           batches of similar sizes
 *
 * A constructor takes ownership of its source: on SAB_OK the new stream owns and frees it. On
 * failure the caller still owns it and `*stream` is unchanged, so one variable can serve as both. A
 * stream is for one thread at a time. Stages that use threads of their own say so.
 *
 * A failed call loses no record: the next call continues where it failed, also after
 * SAB_E_NO_MEMORY. sab_stream_next() reports failures in threads of the stream after the records
 * that came before them.
 *
 * Callbacks are called in the thread that reads the stream, or in any thread of the stage or a
 * later one. `release` is called exactly once, when neither the stream nor one of its threads can
 * call the callbacks any more. Usually this is during sab_stream_free(), in the same thread. If a
 * callback in one of the stream's own threads frees the stream, or after sab_stream_abandon(), the
 * last thread calls `release`. A callback must not free a stream while a call on that stream has
 * not returned in the same thread.
 *
 * The stages are those of infinibatch. With the same seed they give the same order: random choices
 * are those of CPython's `random.Random`.
 *
 * Tier: provisional. Functions and structs here may change or be removed in a minor release.
 */
#ifndef SAB_STREAM_H
#define SAB_STREAM_H

#include "sab/base.h"
#include "sab/cost.h"
#include "sab/sampler.h"
#include "sab/sizes.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A sequence of records. */
typedef struct sab_stream sab_stream;

/** Kind of a record. */
typedef int32_t sab_record_kind;
#define SAB_RECORD_BYTES 0  /**< bytes */
#define SAB_RECORD_LIST 1   /**< a list of records */
#define SAB_RECORD_OBJECT 2 /**< a handle of the caller's */

/** A record. Its layout never changes. */
typedef struct sab_record {
    /** kind of `data` */
    sab_record_kind kind;
    /** size for batching, finite and not negative: by default `length`; of a list the sum */
    double size;
    /** the bytes; the records of a list, contiguous (`const sab_record *`); or the handle */
    const void *data;
    /** number of bytes or records; 0 for a handle */
    size_t length;
} sab_record;

/** Functions for handles of the caller. Kept until the stream and all handles are freed. */
typedef struct sab_object_functions {
    /** set by SAB_OBJECT_FUNCTIONS_INIT */
    size_t struct_size;
    /** passed to each function */
    void *ctx;
    /** called once for each time the handle was passed in, from any thread. NULL */
    void (*release)(void *ctx, void *object);
    /** writes a handle to a state: sets `size`, and `buffer` if `capacity` suffices. Returns 0, or
     *  a failure. NULL: states that hold records are refused */
    int32_t (*save)(void *ctx, void *object, void *buffer, size_t capacity, size_t *size);
    /** makes a handle from the bytes of `save`. Given if and only if `save` is */
    int32_t (*load)(void *ctx, const void *data, size_t size, void **object);
} sab_object_functions;
#define SAB_OBJECT_FUNCTIONS_INIT SAB_INIT(sab_object_functions)

/** Takes the next record.
 *
 * @param stream  a handle
 * @param record  filled on SAB_OK; valid until the next call on the stream
 * @return SAB_OK; SAB_END at the end; the failure of a source or callback, or SAB_E_NO_MEMORY: the
 *     next call continues where it failed; SAB_E_CANCELLED by sab_stream_set_progress()
 */
SAB_API sab_status sab_stream_next(sab_stream *stream, sab_record *record) SAB_NOEXCEPT;

/** Sets the callback that reports the progress of long calls and may cancel them, while a window is
 * read or a thread is waited for. Without this call a stream uses the callbacks of its sources.
 *
 * Only this callback can stop a call that reads a source without an end and skips all files because
 * they cannot be read (SAB_ON_ERROR_SKIP), or whose selection is empty. It can also stop a restore
 * that reads many records again.
 *
 * @param stream   a handle
 * @param options  `progress` is called from time to time during sab_stream_next() and
 *     sab_stream_state_restore(), in the same thread. It gets the number of records read so far
 *     of the window, and the size of the window. Without a window the size is 0. It and
 *     `progress_ctx` are kept until others are set or the stream is freed. NULL: no progress
 * @return SAB_OK; SAB_E_ARGUMENT
 */
SAB_API sab_status sab_stream_set_progress(sab_stream *stream, const sab_progress_options *options)
    SAB_NOEXCEPT;

/** Returns to the first record of the first epoch.
 *
 * If one of several sources fails, sab_stream_next() fails until sab_stream_rewind() or a restore
 * succeeds. The threads of a map may finish one record each after the call has returned, as after
 * sab_stream_state_restore(); they map no other old records.
 *
 * @param stream  a handle
 * @return SAB_OK; SAB_E_UNSUPPORTED for a source of callbacks without `rewind`; SAB_E_CALLBACK
 */
SAB_API sab_status sab_stream_rewind(sab_stream *stream) SAB_NOEXCEPT;

/** Number of files that were skipped because they could not be read (SAB_ON_ERROR_SKIP), and of
 * records that were skipped because they exceed a limit (SAB_OVERSIZE_SKIP), since the stream was
 * made. Records that a restore reads again are counted again.
 *
 * @param stream  a handle
 * @param count   filled
 * @return SAB_OK
 */
SAB_API sab_status sab_stream_get_skipped_count(const sab_stream *stream, uint64_t *count)
    SAB_NOEXCEPT;

/** Saves the state of the stream, with its sources, stages and threads.
 *
 * @param stream    a handle
 * @param buffer    room for `capacity` bytes; NULL when `capacity` is 0
 * @param capacity  0: only `size` is filled; otherwise at least `size`
 * @param size      filled with the number of bytes. Small (2.5 KiB for each random stage, 40 bytes
 *     for each file that was read), except with a buffered shuffle, whose records are part of it
 * @return SAB_OK; SAB_E_ARGUMENT after sab_stream_next() failed inside a batch, until it is called
 *     again; SAB_E_UNSUPPORTED if objects must be saved and have no `save` (for stages that save
 *     states of their source while they run, sab_stream_next() fails in the same way);
 *     SAB_E_CALLBACK
 */
SAB_API sab_status sab_stream_state_save(const sab_stream *stream, void *buffer, size_t capacity,
                                         size_t *size) SAB_NOEXCEPT;

/** Resumes from a state that this or another process saved. Each stage reads at most one buffer
 * again; a stage that keeps the state of a source of its own reads one record for each 64 bytes of
 * that state.
 *
 * @param stream  a handle of an equal pipeline. Lists may have new records at their end, which are
 *     used from the next walk over the list on. sab_shard_stream_new() may have another rank and
 *     world size
 * @param data    what sab_stream_state_save() wrote
 * @param size    its length in bytes
 * @return SAB_OK; SAB_E_FORMAT for a truncated, damaged or foreign state, of a newer version or
 *     another byte order; SAB_E_MISMATCH if it belongs to another pipeline, or a list or file has
 *     changed; SAB_E_CANCELLED. After a failure the stream is at its beginning
 */
SAB_API sab_status sab_stream_state_restore(sab_stream *stream, const void *data, size_t size)
    SAB_NOEXCEPT;

/** Frees the stream and its sources; waits for its threads. In a callback that one of its own
 * threads runs it does not wait for that thread, which ends after the callback and then calls
 * `release`.
 *
 * @param stream  a handle or NULL
 */
SAB_API void sab_stream_free(sab_stream *stream) SAB_NOEXCEPT;

/** Frees the stream without waiting for its threads, for example while one of them runs a callback
 * that takes long. Each thread ends after the callback that it runs, and the last one calls the
 * `release` functions. Contexts without `release` must live until the process ends.
 *
 * @param stream  a handle or NULL
 */
SAB_API void sab_stream_abandon(sab_stream *stream) SAB_NOEXCEPT;

/* ---- Sources ---- */

/** How a list is read. */
typedef struct sab_list_stream_options {
    /** set by SAB_LIST_STREAM_OPTIONS_INIT */
    size_t struct_size;
    /** 0: once; each rank reads a consecutive block of the list, and block sizes differ by at most
     *  1. 1: endlessly; each rank reads every world_size-th record */
    int32_t infinite;
    /** 1: another permutation for each walk over the list; only if infinite. 0 */
    int32_t shuffle;
    /** of the permutations; not used without `shuffle`. 0 */
    uint64_t seed;
    /** below world_size */
    uint64_t rank;
    /** at most 2^20; 0: 1 */
    uint64_t world_size;
} sab_list_stream_options;
#define SAB_LIST_STREAM_OPTIONS_INIT SAB_INIT(sab_list_stream_options)

/** A source: the records of a list, such as file names.
 *
 * @param records  records of bytes, copied; at least 1 if infinite
 * @param count    number of `records`
 * @param options  NULL: the defaults
 * @param stream   the new handle; free with sab_stream_free()
 * @return SAB_OK; SAB_E_ARGUMENT
 */
SAB_API sab_status sab_list_stream_new(const sab_record *records, size_t count,
                                       const sab_list_stream_options *options, sab_stream **stream)
    SAB_NOEXCEPT;

/** Functions of a caller's source. Each returns 0, or a code that sab_last_error_code() returns
 * unchanged.
 */
typedef struct sab_source_functions {
    /** set by SAB_SOURCE_FUNCTIONS_INIT */
    size_t struct_size;
    /** passed to each function */
    void *ctx;
    /** sets the next record: bytes, which are copied, or an object, whose ownership passes to the
     *  stream. Its size is -1 at first, which means `length`. The bytes must stay valid until
     *  another of these functions is called, since the copy is retried after SAB_E_NO_MEMORY.
     *  Returns SAB_END at the end and after it. Must be given */
    int32_t (*next)(void *ctx, sab_record *record);
    /** returns to the first record. NULL: not supported */
    int32_t (*rewind)(void *ctx);
    /** as sab_stream_state_save(). NULL: a state is the number of records, and a restore rewinds
     *  and reads as many again */
    int32_t (*state_save)(void *ctx, void *buffer, size_t capacity, size_t *size);
    /** given if and only if `state_save` is */
    int32_t (*state_restore)(void *ctx, const void *data, size_t size);
    /** called once when the stream is freed, not if the constructor fails; NULL */
    void (*release)(void *ctx);
    /** copied; NULL if no objects are made */
    const sab_object_functions *objects;
} sab_source_functions;
#define SAB_SOURCE_FUNCTIONS_INIT SAB_INIT(sab_source_functions)

/** A source that calls functions of the caller. A stage with threads calls them from a thread, one
 * at a time.
 *
 * @param functions  copied; `next` must be given
 * @param stream     the new handle
 * @return SAB_OK; SAB_E_ARGUMENT
 */
SAB_API sab_status sab_callback_stream_new(const sab_source_functions *functions,
                                           sab_stream **stream) SAB_NOEXCEPT;

/** A source of endless random numbers in [0, 1): those of CPython's `random.Random(seed).random()`,
 * each as the 8 bytes of a double. The size of a record is its number.
 *
 * @param seed    of the numbers
 * @param stream  the new handle
 * @return SAB_OK
 */
SAB_API sab_status sab_random_stream_new(uint64_t seed, sab_stream **stream) SAB_NOEXCEPT;

/** How a file is divided into records. */
typedef int32_t sab_framing;
#define SAB_FRAMING_LINES 0  /**< lines, without their ends (`\n` or `\r\n`) */
#define SAB_FRAMING_LENGTH 1 /**< each after its length: 4 bytes, little-endian */

/** Policy for a file that cannot be read. */
typedef int32_t sab_on_error;
/** sab_stream_next() fails; the next call tries again */
#define SAB_ON_ERROR_STOP 0
/** logs a warning with the file and the byte, skips the rest of the file, and counts it in
 *  sab_stream_get_skipped_count() */
#define SAB_ON_ERROR_SKIP 1

/** How files are read. */
typedef struct sab_files_stream_options {
    size_t struct_size;    /**< set by SAB_FILES_STREAM_OPTIONS_INIT */
    sab_framing framing;   /**< SAB_FRAMING_LINES */
    uint64_t max_record;   /**< a longer record is an error of the file; bytes; 0: 64 MiB */
    sab_on_error on_error; /**< SAB_ON_ERROR_STOP */
    /** number of threads that read, decompress and divide files ahead, each a file of its own; at
     *  most 256. 0 (default): files are read in the thread that reads the stream. Records, states
     *  and errors are the same for any number. See sab_files_stream_new() */
    uint64_t readers;
} sab_files_stream_options;
#define SAB_FILES_STREAM_OPTIONS_INIT SAB_INIT(sab_files_stream_options)

/** The records of files whose names are the records of the source. Files may be plain, gzip (RFC
 * 1952) or Zstandard (RFC 8878), recognised by their first bytes. A restore seeks in a plain file.
 * In a Zstandard file it skips whole frames of known size. It reads a gzip file again up to the
 * saved position.
 *
 * A file that is opened again must be unchanged. The library compares the size and 16 blocks of 4
 * KiB spread over the file. Of a file up to 64 KiB it compares everything. If the modification time
 * differs, it also reads again all bytes that were read before and compares their checksum. This
 * applies to the stored bytes, compressed or not. Not detected: a change that keeps size, samples
 * and modification time, and a change in bytes that were neither read nor sampled. If only the
 * modification time differs, a warning is logged.
 *
 * With `readers`, threads read the next files while the records of one are given. Up to 16 *
 * readers names are taken from the source in advance, in the thread that reads the stream. At most
 * 32 MiB readers of records are kept, and of each reader the block that it reads, usually 256 KiB.
 * So files whose contents are much larger are read one after the other. A file that is named twice
 * is begun the second time when it was read the first time. A file that failed is tried again in
 * the thread that reads the stream. A state may be restored with another number of readers. A child
 * after fork() starts threads of its own.
 *
 * @param source   a stream of file names
 * @param options  NULL: the defaults
 * @param stream   the new handle
 * @return SAB_OK; SAB_E_ARGUMENT. Later, sab_stream_next() returns SAB_E_IO for a file that cannot
 *     be read; SAB_E_FORMAT for a damaged or truncated file, or a record that is too long, with the
 *     file and the byte; SAB_E_FORMAT also for a source without an end whose files have no records,
 *     after 10,000 + 10 * files such files in sequence; SAB_E_MISMATCH for a file that has changed
 */
SAB_API sab_status sab_files_stream_new(sab_stream *source, const sab_files_stream_options *options,
                                        sab_stream **stream) SAB_NOEXCEPT;

/* ---- Stages: record by record ---- */

/** Maps a record to another one.
 *
 * @param ctx     the pointer given with the callback
 * @param record  the record; valid until the callback returns
 * @param made    to be set; initially the record itself, so setting only its size is possible.
 *     Bytes are copied when the callback returns; ownership of another object passes to the stream.
 *     Lists are not allowed
 * @return 0; any other code is a failure
 */
typedef int32_t (*sab_map_fn)(void *ctx, const sab_record *record, sab_record *made);

/** How records are mapped. */
typedef struct sab_map_stream_options {
    /** set by SAB_MAP_STREAM_OPTIONS_INIT */
    size_t struct_size;
    /** must give the same result for the same record, otherwise a restore differs. Must be given */
    sab_map_fn map;
    /** passed to `map` and `release` */
    void *ctx;
    /** called once when the stream is freed, not if the constructor fails; NULL */
    void (*release)(void *ctx);
    /** 0 (default): `map` is called in the thread that reads the stream; N: in N threads, in the
     *  same order of records */
    uint64_t threads;
    /** copied; NULL if no objects are made */
    const sab_object_functions *objects;
} sab_map_stream_options;
#define SAB_MAP_STREAM_OPTIONS_INIT SAB_INIT(sab_map_stream_options)

/** Maps each record to another one.
 *
 * @param source   a stream
 * @param options  NULL is refused, since `map` must be given
 * @param stream   the new handle
 * @return SAB_OK; SAB_E_ARGUMENT
 */
SAB_API sab_status sab_map_stream_new(sab_stream *source, const sab_map_stream_options *options,
                                      sab_stream **stream) SAB_NOEXCEPT;

/** Sets the size of texts: of records of bytes, which are in UTF-8. Lists and objects keep theirs,
 * except that with SAB_TEXT_CHARACTERS the size of a list is the number of its records.
 *
 * Texts of sab_files_stream_new() are measured while the file is read, in the same thread, if no
 * record was read and only prefetching, shuffles, shards and mixes are between. Otherwise a stage
 * of its own measures them. A state restores only into a stream that measures in the same place.
 *
 * @param source  a stream
 * @param unit    SAB_TEXT_BYTES, SAB_TEXT_WORDS or SAB_TEXT_CHARACTERS
 * @param stream  the new handle
 * @return SAB_OK; SAB_E_ARGUMENT
 */
SAB_API sab_status sab_text_size_stream_new(sab_stream *source, sab_text_unit unit,
                                            sab_stream **stream) SAB_NOEXCEPT;

/** Opens a stream for a record.
 *
 * @param ctx     the pointer given with the callback
 * @param record  the record; valid until the callback returns
 * @param made    to be set to a finite stream, whose ownership passes; NULL before the call, and
 *     for none
 * @return 0; any other code is a failure
 */
typedef int32_t (*sab_select_fn)(void *ctx, const sab_record *record, sab_stream **made);

/** Select-many: the records of the streams that a callback opens for the records of the source, one
 * stream after the other.
 *
 * @param source   a stream
 * @param select   must open an equal stream for the same record
 * @param ctx      passed to `select` and `release`
 * @param release  called once when the stream is freed, not if the constructor fails; NULL for none
 * @param objects  functions of the objects of these streams; copied; NULL if there are no objects
 * @param stream   the new handle
 * @return SAB_OK; SAB_E_ARGUMENT
 */
SAB_API sab_status sab_select_stream_new(sab_stream *source, sab_select_fn select, void *ctx,
                                         void (*release)(void *ctx),
                                         const sab_object_functions *objects, sab_stream **stream)
    SAB_NOEXCEPT;

/** The records of lists, one by one; other records are passed on.
 *
 * @param source  a stream
 * @param stream  the new handle
 * @return SAB_OK; SAB_E_ARGUMENT
 */
SAB_API sab_status sab_flatten_stream_new(sab_stream *source, sab_stream **stream) SAB_NOEXCEPT;

/** Maps a record and a state to another record and the next state.
 *
 * @param ctx     the pointer given with the callback
 * @param state   result of the previous step; valid until the callback returns
 * @param record  the record; valid until the callback returns
 * @param next    to be set to the next state; initially `state`; as `made` in sab_map_fn
 * @param made    to be set to the new record; initially the record; as in sab_map_fn
 * @return 0; any other code is a failure
 */
typedef int32_t (*sab_recur_fn)(void *ctx, const sab_record *state, const sab_record *record,
                                sab_record *next, sab_record *made);

/** Maps each record to another one with a state: counters, running means, joins. The state is part
 * of the saved state.
 *
 * @param source   a stream
 * @param recur    a step
 * @param ctx      passed to `recur` and `release`
 * @param release  called once when the stream is freed, not if the constructor fails; NULL for none
 * @param initial  the first state, of bytes, which are copied; NULL: no bytes
 * @param objects  copied; NULL if neither states nor new records are objects
 * @param stream   the new handle
 * @return SAB_OK; SAB_E_ARGUMENT
 */
SAB_API sab_status sab_recurrent_stream_new(sab_stream *source, sab_recur_fn recur, void *ctx,
                                            void (*release)(void *ctx), const sab_record *initial,
                                            const sab_object_functions *objects,
                                            sab_stream **stream) SAB_NOEXCEPT;

/** A random generator of a stream; valid while the callback runs. */
typedef struct sab_random sab_random;

/** The next number in [0, 1), as CPython's `random()`.
 *
 * @param random  the generator passed to the callback; others give 0
 * @return the number
 */
SAB_API double sab_random_draw_real(sab_random *random) SAB_NOEXCEPT;

/** The next random bits, as CPython's `getrandbits(bits)`.
 *
 * @param random  the generator passed to the callback; others give 0
 * @param bits    from 1 to 64; others give 0
 * @return the bits, as a number
 */
SAB_API uint64_t sab_random_draw_bits(sab_random *random, uint32_t bits) SAB_NOEXCEPT;

/** Maps a record to a random record.
 *
 * @param ctx     the pointer given with the callback
 * @param random  the only source of randomness to use: its state is saved
 * @param record  the record; valid until the callback returns
 * @param made    as in sab_map_fn
 * @return 0; any other code is a failure
 */
typedef int32_t (*sab_random_map_fn)(void *ctx, sab_random *random, const sab_record *record,
                                     sab_record *made);

/** Maps each record to a random one, for example with noise added.
 *
 * @param source   a stream
 * @param map      must use only the generator for random choices
 * @param ctx      passed to `map` and `release`
 * @param release  called once when the stream is freed, not if the constructor fails; NULL for none
 * @param seed     of the generator
 * @param objects  copied; NULL if no objects are made
 * @param stream   the new handle
 * @return SAB_OK; SAB_E_ARGUMENT
 */
SAB_API sab_status sab_random_map_stream_new(sab_stream *source, sab_random_map_fn map, void *ctx,
                                             void (*release)(void *ctx), uint64_t seed,
                                             const sab_object_functions *objects,
                                             sab_stream **stream) SAB_NOEXCEPT;

/* ---- Stages: several streams ---- */

/** Lists with one record of each source; ends when the first source ends.
 *
 * @param sources  ownership of all passes, or of none
 * @param count    number of `sources`, at least 1
 * @param stream   the new handle
 * @return SAB_OK; SAB_E_ARGUMENT also if a source is given twice
 */
SAB_API sab_status sab_zip_stream_new(sab_stream *const *sources, size_t count, sab_stream **stream)
    SAB_NOEXCEPT;

/** Mixes the records of several sources. The size of the next record of the control stream, rounded
 * down, is the index of the next source. Ends when the control stream or the chosen source ends.
 *
 * @param control  a stream, such as a random one, mapped
 * @param sources  ownership of all passes, together with `control`, or of none
 * @param count    number of `sources`, at least 1
 * @param stream   the new handle
 * @return SAB_OK; SAB_E_ARGUMENT also if a stream is given twice. sab_stream_next() returns
 *     SAB_E_ARGUMENT for an index that no source has
 */
SAB_API sab_status sab_multiplex_stream_new(sab_stream *control, sab_stream *const *sources,
                                            size_t count, sab_stream **stream) SAB_NOEXCEPT;

/** When a mix ends. */
typedef int32_t sab_mix_until;
/** when the source whose turn it is has ended */
#define SAB_MIX_UNTIL_FIRST 0
/** when all sources with a proportion have ended. After the end of one the others go on by their
 *  proportions, and the windows begin again */
#define SAB_MIX_UNTIL_ALL 1

/** How sources are mixed. */
typedef struct sab_mix_stream_options {
    /** set by SAB_MIX_STREAM_OPTIONS_INIT */
    size_t struct_size;
    /** of the records, one for each source: finite, not negative and of any sum. A source with 0 is
     *  not read. Others are at least 2^-39 of the sum. Must be given; copied */
    const double *proportions;
    /** number of `proportions`: the number of sources */
    size_t proportion_count;
    /** number of records over which the counts are exact; at most 2^32. 0: 1,000 */
    uint64_t window;
    /** when the mix ends; SAB_MIX_UNTIL_FIRST */
    sab_mix_until until;
} sab_mix_stream_options;
#define SAB_MIX_STREAM_OPTIONS_INIT SAB_INIT(sab_mix_stream_options)

/** Mixes the records of several sources by proportions, with exact counts and without random
 * numbers. After any number of records, each source has given its proportion of them to less than
 * one record.
 *
 * If proportion * window is a whole number for each source, each window of the stream has exactly
 * so many records of it. Otherwise the remainders are carried into the next windows: a source with
 * 0.25 records in a window appears once in four.
 *
 * The order is even and always the same: a, b, a, a, b, a for 2 to 1. To shuffle it and keep the
 * counts, let sab_shuffle_stream_new() follow, with the window as its block.
 *
 * @param sources  ownership of all passes, or of none
 * @param count    number of `sources`, from 1 to 1024
 * @param options  NULL is refused, since the proportions must be given
 * @param stream   the new handle
 * @return SAB_OK; SAB_E_ARGUMENT also if a source is given twice
 */
SAB_API sab_status sab_mix_stream_new(sab_stream *const *sources, size_t count,
                                      const sab_mix_stream_options *options, sab_stream **stream)
    SAB_NOEXCEPT;

/** Every world_size-th record of a source that is equal on all ranks. All ranks get the same number
 * of records: if the last records are fewer than the ranks, the other ranks get an empty list.
 * After a stage that makes batches it divides finite data without loss or repetition. If it is the
 * last stage, or only maps follow, a state may be restored with another rank and world size.
 *
 * Each rank runs all stages before it, so expensive stages such as tokenizing should follow it.
 *
 * @param source      a stream, equal on all ranks
 * @param rank        below `world_size`
 * @param world_size  at least 1
 * @param stream      the new handle
 * @return SAB_OK; SAB_E_ARGUMENT
 */
SAB_API sab_status sab_shard_stream_new(sab_stream *source, uint64_t rank, uint64_t world_size,
                                        sab_stream **stream) SAB_NOEXCEPT;

/* ---- Stages: groups and shuffles ---- */

/** Lists of `batch_size` consecutive records; the last one may be shorter.
 *
 * @param source      a stream
 * @param batch_size  at least 1
 * @param stream      the new handle
 * @return SAB_OK; SAB_E_ARGUMENT
 */
SAB_API sab_status sab_batch_stream_new(sab_stream *source, uint64_t batch_size,
                                        sab_stream **stream) SAB_NOEXCEPT;

/** Sliding window: lists of `width` consecutive records, each one record after the one before.
 * There is no list if there are fewer records.
 *
 * @param source  a stream
 * @param width   at least 1
 * @param stream  the new handle
 * @return SAB_OK; SAB_E_ARGUMENT
 */
SAB_API sab_status sab_window_stream_new(sab_stream *source, uint64_t width, sab_stream **stream)
    SAB_NOEXCEPT;

/** How a stream is shuffled. */
typedef int32_t sab_stream_shuffle;
/** blocks of consecutive records, each block shuffled */
#define SAB_SHUFFLE_BLOCKS 0
/** each record replaces a random record of a buffer, which is passed on. The saved state has the
 *  records of the buffer */
#define SAB_SHUFFLE_BUFFER 1

/** The records of a source, shuffled.
 *
 * @param source   a stream
 * @param shuffle  SAB_SHUFFLE_BLOCKS or SAB_SHUFFLE_BUFFER
 * @param size     records in a block, or of the buffer, kept in memory; from 1 to 2^32
 * @param seed     of the shuffle
 * @param stream   the new handle
 * @return SAB_OK; SAB_E_ARGUMENT
 */
SAB_API sab_status sab_shuffle_stream_new(sab_stream *source, sab_stream_shuffle shuffle,
                                          uint64_t size, uint64_t seed, sab_stream **stream)
    SAB_NOEXCEPT;

/** Options of sab_readahead_stream_new(). */
typedef struct sab_readahead_stream_options {
    /** set by SAB_READAHEAD_STREAM_OPTIONS_INIT */
    size_t struct_size;
    /** records in a window, kept in memory; at most 2^32. 0: 10,000 */
    uint64_t read_ahead;
    /** largest number of records in a batch; 0: no limit */
    uint64_t batch_size;
    /** limits that each batch keeps, all of them; see `oversize`. The length of a batch is its
     *  largest size, of each column. No cost may be a callback. Read during the call. One of these,
     *  `batch_size` or `batch_size_fn` must be given. NULL */
    const sab_budget *budgets;
    /** number of `budgets`, at most SAB_MAX_BUDGETS; of one size a record at most 1, with a NULL
     *  cost */
    size_t budget_count;
    /** 1: the batches of a window stay in ascending order of size; 0 (default): they are shuffled
     */
    int32_t no_shuffle;
    /** 1: records that fit no batch well are carried over to the next window, up to one window of
     *  them. This reduces padding, but a restore reads up to eight windows again. Not with
     *  `boundary_key_fn`. 0: each window is used up, as in infinibatch */
    int32_t carry_over;
    /** of the shuffles; not used with `no_shuffle`. 0 */
    uint64_t seed;
    /** largest number of records in a batch whose largest record is this one, at least 1. The
     *  smallest limit applies; called for every record with `carry_over`. NULL */
    int32_t (*batch_size_fn)(void *ctx, const sab_record *largest, uint64_t *batch_size);
    /** records of different keys never share a batch: as in infinibatch, a batch ends where the key
     *  changes in the order of sizes. NULL */
    int32_t (*boundary_key_fn)(void *ctx, const sab_record *record, uint64_t *key);
    /** passed to these two and `release` */
    void *ctx;
    /** called once when the stream is freed, not if the constructor fails; NULL */
    void (*release)(void *ctx);
    /** policy for a record that alone exceeds a budget. SAB_OVERSIZE_ERROR (default):
     * sab_stream_next() returns SAB_E_ARGUMENT and names the record. SAB_OVERSIZE_SKIP: the record
     * is skipped and counted by sab_stream_get_skipped_count(); after 10,000,000 such records in a
     * row, or at the end if there is no other record, sab_stream_next() returns SAB_E_ARGUMENT.
     * SAB_OVERSIZE_SINGLE: the record is a batch alone, over the budget */
    sab_oversize oversize;
    /** several sizes a record: sets one number a column, each finite and not negative. Called once
     *  for each record that is read; the `size` of the record is not used. Not with `batch_size_fn`
     *  and `boundary_key_fn`. It gets `ctx`. NULL: one size */
    int32_t (*sizes_fn)(void *ctx, const sab_record *record, double *sizes);
    /** number of columns that `sizes_fn` sets, 2 to SAB_MAX_COLUMNS; 0 for one size */
    size_t columns;
} sab_readahead_stream_options;
#define SAB_READAHEAD_STREAM_OPTIONS_INIT SAB_INIT(sab_readahead_stream_options)

/** Batches of records of similar size, as lists: reads a window, sorts it by size, largest first
 * and stably, divides it into batches and shuffles them (after Marian NMT's BatchGenerator, by way
 * of infinibatch's BucketedReadaheadBatchIterator).
 *
 * Records of several sizes are divided into batches as sab_plan_new() divides samples into buckets
 * of single batches. Their records keep their order. With `carry_over` the batches that pad most
 * wait for the next window.
 *
 * @param source   a stream; a map can set the sizes of its records
 * @param options  NULL is refused, since a budget or batch size must be given
 * @param stream   the new handle
 * @return SAB_OK; SAB_E_ARGUMENT
 */
SAB_API sab_status sab_readahead_stream_new(sab_stream *source,
                                            const sab_readahead_stream_options *options,
                                            sab_stream **stream) SAB_NOEXCEPT;

/** How windows are packed. */
typedef struct sab_pack_stream_options {
    size_t struct_size; /**< set by SAB_PACK_STREAM_OPTIONS_INIT */
    /** for each size of a record the largest sum in a list; finite, above 0; of several sizes whole
     *  numbers up to 2^31 - 1. Read during the call. Must be given */
    const double *capacities;
    size_t capacity_count; /**< number of `capacities`, 1 to SAB_MAX_COLUMNS */
    uint64_t max_records;  /**< most records in a list; 0: no limit */
    uint64_t read_ahead;   /**< records in a window, kept in memory; at most 2^31. 0: 10,000 */
    int32_t no_shuffle;    /**< 1: the lists of a window stay in order; 0 (default): shuffled */
    uint64_t seed;         /**< of the shuffles; not used with `no_shuffle`. 0 */
    /** policy for a record larger than a capacity. SAB_OVERSIZE_ERROR (default): sab_stream_next()
     *  returns SAB_E_ARGUMENT and names the record. SAB_OVERSIZE_SKIP: the record is skipped and
     *  counted by sab_stream_get_skipped_count(); after 10,000,000 such records in a row, or at
     *  the end if there is no other record, sab_stream_next() returns SAB_E_ARGUMENT */
    sab_oversize oversize;
    /** several sizes a record: sets one whole number a column. Called once for each record that is
     *  read; the `size` of the record is not used. NULL: one size */
    int32_t (*sizes_fn)(void *ctx, const sab_record *record, double *sizes);
    /** passed to `sizes_fn` and `release` */
    void *ctx;
    /** called once when the stream is freed, not if the constructor fails; NULL */
    void (*release)(void *ctx);
} sab_pack_stream_options;
#define SAB_PACK_STREAM_OPTIONS_INIT SAB_INIT(sab_pack_stream_options)

/** Lists of records whose sizes sum to nearly the capacity: rows for packed training from a stream
 * of unknown length. A window is packed by best-fit decreasing. Lists that are not full are kept
 * for the next window, up to half a window. Records keep their order in a list. A restore reads up
 * to eight windows again. If all sizes are known in advance, sab_packed_sampler_new() packs better.
 *
 * Records of several sizes are packed as in "Rows under several capacities" of sab/pack.h. Up to
 * 1,000 records that no list was begun for are kept for the next window.
 *
 * @param source   a stream; a map can set the sizes of its records
 * @param options  NULL is refused, since the capacity must be given
 * @param stream   the new handle
 * @return SAB_OK; SAB_E_ARGUMENT
 */
SAB_API sab_status sab_pack_stream_new(sab_stream *source, const sab_pack_stream_options *options,
                                       sab_stream **stream) SAB_NOEXCEPT;

/* ---- Stages: threads ---- */

/** The same records, read in advance by a thread. The thread starts with the first call of
 * sab_stream_next(). A child after fork() starts its own thread and continues where the parent was.
 *
 * @param source       a stream; its callbacks run in the thread, too
 * @param buffer_size  largest number of records read in advance; from 1 to 2^32
 * @param stream       the new handle
 * @return SAB_OK; SAB_E_ARGUMENT
 */
SAB_API sab_status sab_prefetch_stream_new(sab_stream *source, uint64_t buffer_size,
                                           sab_stream **stream) SAB_NOEXCEPT;

#ifdef __cplusplus
}
#endif

#endif
