/** @file stream.h
 * Pipelines of records that can be stopped anywhere and go on at the next record: sources, stages,
 * one pull at a time.
 *
 *     sab_stream *s;
 *     sab_list_stream_new(file_names, count, &options, &s);          file names, permuted for ever,
 * this rank's share sab_files_stream_new(s, NULL, &s);                             their lines
 *     sab_prefetch_stream_new(s, 10000, &s);                         read in a thread
 *     sab_block_shuffle_stream_new(s, 100000, seed, &s);             shuffled in blocks
 *     sab_readahead_stream_new(s, &readahead, &s);                   batches of like sizes
 *
 * A constructor takes its source: on SAB_OK it belongs to the new stream, which frees it; on a
 * failure it stays the caller's and `*stream` is as it was, so that one variable may serve as both.
 * A stream is for one thread at a time; what it runs in threads of its own is said where it does.
 *
 * A failed call loses no record: the next call goes on where it failed, also after SAB_E_NO_MEMORY.
 * Failures in the stream's threads are reported by sab_stream_next(), after the records that came
 * before them.
 *
 * Callbacks and their contexts: `release` is called exactly once, when neither the stream nor one
 * of its threads can call the callbacks any more. This is during sab_stream_free(), in the same
 * thread, unless a callback in one of the stream's own threads frees it, or it is given to
 * sab_stream_abandon(): then the last thread calls `release`. A callback must not free a stream
 * while a call on that stream is under way in the same thread.
 *
 * The stages are those of infinibatch, and with the same seed their orders are the same: random
 * choices are those of CPython's `random.Random`.
 *
 * Tier: provisional. Functions and structs here may change or be removed in a minor release.
 */
#ifndef SAB_STREAM_H
#define SAB_STREAM_H

#include "sab/base.h"
#include "sab/sampler.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Records, one after the other. */
typedef struct sab_stream sab_stream;

/** What a record is. */
typedef int32_t sab_record_kind;
#define SAB_RECORD_BYTES 0  /**< bytes */
#define SAB_RECORD_LIST 1   /**< a list of records */
#define SAB_RECORD_OBJECT 2 /**< a handle of the caller's */

/** A record. Its layout never changes. */
typedef struct sab_record {
    /** what `data` is */
    sab_record_kind kind;
    /** what batches count, finite and not negative: `length` where nothing else was said; of a list
     *  the sum */
    double size;
    /** the bytes; the records of a list, contiguous (`const sab_record *`); or the handle */
    const void *data;
    /** how many bytes or records; of a handle 0 */
    size_t length;
} sab_record;
#define SAB_RECORD_INIT {SAB_RECORD_BYTES, 0, NULL, 0}

/** What streams do with a caller's handles. */
typedef struct sab_object_functions {
    /** set by SAB_OBJECT_FUNCTIONS_INIT */
    size_t struct_size;
    /** handed to each function */
    void *ctx;
    /** the stream lets go of a handle that it was given, once for each time it was; from any
     *  thread. NULL */
    void (*release)(void *ctx, void *object);
    /** writes it for a state: fills `size`, and `buffer` when `capacity` is enough. 0, or a
     *  failure. NULL: states that hold records are refused */
    int32_t (*save)(void *ctx, void *object, void *buffer, size_t capacity, size_t *size);
    /** makes a handle of what `save` wrote. Given exactly when `save` is */
    int32_t (*load)(void *ctx, const void *data, size_t size, void **object);
} sab_object_functions;
#define SAB_OBJECT_FUNCTIONS_INIT {sizeof(sab_object_functions), NULL, NULL, NULL, NULL}

/** Sets the defaults, the same as SAB_OBJECT_FUNCTIONS_INIT: for languages without C's macros.
 *
 * @param functions    filled; NULL is ignored
 * @param struct_size  size of the caller's sab_object_functions; exactly this many bytes are
 *     written
 */
SAB_API void sab_object_functions_init(sab_object_functions *functions, size_t struct_size)
    SAB_NOEXCEPT;

/** Takes the next record.
 *
 * @param stream  a handle
 * @param record  filled on SAB_OK, with what lives until the next call on the stream
 * @return SAB_OK; SAB_END when there are no more; what a source or a callback failed with: the call
 *     can be made again, and goes on where it failed; SAB_E_NO_MEMORY likewise; SAB_E_CANCELLED by
 *     sab_stream_set_progress()
 */
SAB_API sab_status sab_stream_next(sab_stream *stream, sab_record *record) SAB_NOEXCEPT;

/** Lets long calls be followed and cancelled: a window that is read, a thread that is waited for. A
 * stream over one source keeps the callback of the source, and one over several keeps all of
 * theirs, until this is called.
 *
 * @param stream    a handle
 * @param progress  called now and then during sab_stream_next() and sab_stream_state_restore(), in
 *     the same thread, with the records of the window read so far and its size (0 where there is
 *     none); NULL for none
 * @param ctx       handed to `progress`
 * @return SAB_OK
 */
SAB_API sab_status sab_stream_set_progress(sab_stream *stream, sab_progress_fn progress, void *ctx)
    SAB_NOEXCEPT;

/** Goes back to the first record, of the first epoch.
 *
 * When one of several sources fails, those before it are at their beginnings. sab_stream_next()
 * then fails until sab_stream_rewind() or a restore succeeds. The threads of a map may finish one
 * record each after the call has returned, as after sab_stream_state_restore(); they map no other
 * old records.
 *
 * @param stream  a handle
 * @return SAB_OK; SAB_E_UNSUPPORTED for a source of callbacks without `rewind`; SAB_E_CALLBACK
 */
SAB_API sab_status sab_stream_rewind(sab_stream *stream) SAB_NOEXCEPT;

/** How many things were skipped by a policy since the stream was made: files that could not be
 * read, by SAB_ON_ERROR_SKIP, and records over a limit, by SAB_OVERSIZE_SKIP. Records that a
 * restore reads again are counted again.
 *
 * @param stream  a handle
 * @param count   filled
 * @return SAB_OK
 */
SAB_API sab_status sab_stream_skipped_count(const sab_stream *stream, uint64_t *count) SAB_NOEXCEPT;

/** Saves where the stream stands, sources and stages together, threads included.
 *
 * @param stream    a handle
 * @param buffer    room for `capacity` bytes; NULL when `capacity` is 0
 * @param capacity  nothing is written when it is smaller than `size`
 * @param size      filled with the bytes of the state. Small (2.5 KiB for each stage that draws at
 *     random, 40 bytes for each file that was read), but for a buffered shuffle, whose records are
 *     in it
 * @return SAB_OK; SAB_E_ARGUMENT while sab_stream_next() has failed in the middle of what it makes
 *     and has not been called again; SAB_E_UNSUPPORTED where objects must be saved and have no
 *     `save` (some stages keep states of their source while they run: sab_stream_next() then fails
 *     alike); SAB_E_CALLBACK
 */
SAB_API sab_status sab_stream_state_save(const sab_stream *stream, void *buffer, size_t capacity,
                                         size_t *size) SAB_NOEXCEPT;

/** Goes on where a state was saved, by this or another process. At most one buffer of each stage is
 * read again, or, of stages that keep the state of a source of their own, one record for each 64
 * bytes of that.
 *
 * @param stream  a handle of a pipeline made alike. Lists may have grown at their end: what is new
 *     joins when the list is gone through again. Ranks may be others in sab_shard_stream_new()
 * @param data    what sab_stream_state_save() wrote
 * @param size    its length in bytes
 * @return SAB_OK; SAB_E_FORMAT for a truncated, damaged or foreign state, of a newer version or
 *     another byte order; SAB_E_MISMATCH when it belongs to another pipeline, or a list or a file
 *     has changed since; SAB_E_CANCELLED. After a failure the stream stands at its beginning
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

/** How a list is gone through. */
typedef struct sab_list_stream_options {
    /** set by SAB_LIST_STREAM_OPTIONS_INIT */
    size_t struct_size;
    /** 0: once, each rank a consecutive block of the list, blocks that differ by at most 1, so that
     *  the ranks in order give the list. 1: for ever, each rank every world_size-th record */
    int32_t infinite;
    /** 1: another permutation each time through; only when infinite. 0 */
    int32_t shuffle;
    /** of the permutations */
    uint64_t seed;
    /** below world_size */
    uint64_t rank;
    /** from 1 to 2^20; 1 */
    uint64_t world_size;
} sab_list_stream_options;
#define SAB_LIST_STREAM_OPTIONS_INIT {sizeof(sab_list_stream_options), 0, 0, 0, 0, 1}

/** Sets the defaults, the same as SAB_LIST_STREAM_OPTIONS_INIT: for languages without C's macros.
 *
 * @param options      filled; NULL is ignored
 * @param struct_size  size of the caller's sab_list_stream_options; exactly this many bytes are
 *     written
 */
SAB_API void sab_list_stream_options_init(sab_list_stream_options *options, size_t struct_size)
    SAB_NOEXCEPT;

/** A source: the records of a list, such as file names.
 *
 * @param records  of bytes, copied; at least 1 when infinite
 * @param count    number of `records`
 * @param options  NULL: the defaults
 * @param stream   the new handle; free with sab_stream_free()
 * @return SAB_OK; SAB_E_ARGUMENT
 */
SAB_API sab_status sab_list_stream_new(const sab_record *records, size_t count,
                                       const sab_list_stream_options *options, sab_stream **stream)
    SAB_NOEXCEPT;

/** A source: the items of an array, as the bytes they are.
 *
 * @param items      copied
 * @param item_size  bytes of each; at least 1
 * @param count      number of `items`; at least 1 when infinite
 * @param options    NULL: the defaults
 * @param stream     the new handle
 * @return SAB_OK; SAB_E_ARGUMENT
 */
SAB_API sab_status sab_array_stream_new(const void *items, size_t item_size, size_t count,
                                        const sab_list_stream_options *options, sab_stream **stream)
    SAB_NOEXCEPT;

/** A source of the caller's. Each function returns 0, or a code that comes back unchanged. */
typedef struct sab_source_functions {
    /** set by SAB_SOURCE_FUNCTIONS_INIT */
    size_t struct_size;
    /** handed to each function */
    void *ctx;
    /** fills the next record, of bytes, which are copied, or an object, which is given away; its
     *  size is -1 at first, which stands for `length`. The bytes must stay until another of these
     *  functions is called, since the copy is tried again after SAB_E_NO_MEMORY. SAB_END at the
     *  end, and from then on. Must be given */
    int32_t (*next)(void *ctx, sab_record *record);
    /** goes back to the first record. NULL: cannot */
    int32_t (*rewind)(void *ctx);
    /** as sab_stream_state_save(). NULL: a state counts records, and a restore rewinds and takes as
     *  many again */
    int32_t (*state_save)(void *ctx, void *buffer, size_t capacity, size_t *size);
    /** given exactly when `state_save` is */
    int32_t (*state_restore)(void *ctx, const void *data, size_t size);
    /** called once when the stream is freed, and not when the constructor fails; NULL */
    void (*release)(void *ctx);
    /** copied; NULL where no objects are made */
    const sab_object_functions *objects;
} sab_source_functions;
#define SAB_SOURCE_FUNCTIONS_INIT \
    {sizeof(sab_source_functions), NULL, NULL, NULL, NULL, NULL, NULL, NULL}

/** Sets the defaults, the same as SAB_SOURCE_FUNCTIONS_INIT: for languages without C's macros.
 *
 * @param functions    filled; NULL is ignored
 * @param struct_size  size of the caller's sab_source_functions; exactly this many bytes are
 *     written
 */
SAB_API void sab_source_functions_init(sab_source_functions *functions, size_t struct_size)
    SAB_NOEXCEPT;

/** A source: what the caller's functions give. Under a stage that runs in a thread they are called
 * from there, one at a time.
 *
 * @param functions  copied; `next` must be given
 * @param stream     the new handle
 * @return SAB_OK; SAB_E_ARGUMENT
 */
SAB_API sab_status sab_callback_stream_new(const sab_source_functions *functions,
                                           sab_stream **stream) SAB_NOEXCEPT;

/** A source: random numbers in [0, 1) for ever, those of CPython's `random.Random(seed).random()`,
 * each the 8 bytes of a double, of that size.
 *
 * @param seed    of the numbers
 * @param stream  the new handle
 * @return SAB_OK
 */
SAB_API sab_status sab_random_stream_new(uint64_t seed, sab_stream **stream) SAB_NOEXCEPT;

/** Where one record of a file ends and the next begins. */
typedef int32_t sab_framing;
#define SAB_FRAMING_LINES 0  /**< lines, without their ends (`\n` or `\r\n`) */
#define SAB_FRAMING_LENGTH 1 /**< each after its length: 4 bytes, little-endian */

/** What to do about a file that cannot be read. */
typedef int32_t sab_on_error;
/** sab_stream_next() fails, and tries again when it is called again */
#define SAB_ON_ERROR_STOP 0
/** a warning is logged with the file and the byte, the rest of the file is left out, and
 *  sab_stream_skipped_count() counts it */
#define SAB_ON_ERROR_SKIP 1

/** How files are read. */
typedef struct sab_files_stream_options {
    size_t struct_size;    /**< set by SAB_FILES_STREAM_OPTIONS_INIT */
    sab_framing framing;   /**< SAB_FRAMING_LINES */
    uint64_t max_record;   /**< a longer record is an error of the file; bytes; 0: 64 MiB */
    sab_on_error on_error; /**< SAB_ON_ERROR_STOP */
} sab_files_stream_options;
#define SAB_FILES_STREAM_OPTIONS_INIT \
    {sizeof(sab_files_stream_options), SAB_FRAMING_LINES, 0, SAB_ON_ERROR_STOP}

/** Sets the defaults, the same as SAB_FILES_STREAM_OPTIONS_INIT: for languages without C's macros.
 *
 * @param options      filled; NULL is ignored
 * @param struct_size  size of the caller's sab_files_stream_options; exactly this many bytes are
 *     written
 */
SAB_API void sab_files_stream_options_init(sab_files_stream_options *options, size_t struct_size)
    SAB_NOEXCEPT;

/** The records of the files that the records of the source name: plain, of gzip (RFC 1952) or of
 * Zstandard (RFC 8878), as their first bytes say. A restore seeks in a plain file; in one of
 * Zstandard it passes over whole frames that tell their sizes; it reads one of gzip again up to the
 * place.
 *
 * A file that is opened again, by a restore or when the names come round again, must be the same.
 * The library compares the size and 16 blocks of 4 KiB spread over the file. Of a file up to 64 KiB
 * it compares everything. If the modification time differs, it also reads again all bytes that were
 * read before and compares their checksum. All this is of the file as it is stored, compressed or
 * not. Not detected: a change that keeps size, samples and modification time, and a change in bytes
 * that were neither read nor sampled. When only the modification time differs a warning is logged.
 *
 * @param source   of file names
 * @param options  NULL: the defaults
 * @param stream   the new handle
 * @return SAB_OK; SAB_E_ARGUMENT. sab_stream_next() then gives SAB_E_IO for a file that cannot be
 *     read and SAB_E_FORMAT for one that is damaged or cut off and for a record that is too long,
 *     with the file and the byte; SAB_E_MISMATCH for a file that has changed since it was read
 *     before
 */
SAB_API sab_status sab_files_stream_new(sab_stream *source, const sab_files_stream_options *options,
                                        sab_stream **stream) SAB_NOEXCEPT;

/* ---- Stages: record by record ---- */

/** Turns a record into another.
 *
 * @param ctx     the pointer given with the callback
 * @param record  the record; dies when the callback returns
 * @param made    to be filled; is the record itself at first, so that setting its size alone is
 *     enough. Bytes are copied when the callback returns; another object is given away. Lists
 *     cannot be made
 * @return 0; anything else is a failure
 */
typedef int32_t (*sab_map_fn)(void *ctx, const sab_record *record, sab_record *made);

/** How records are mapped. */
typedef struct sab_map_stream_options {
    /** set by SAB_MAP_STREAM_OPTIONS_INIT */
    size_t struct_size;
    /** must give the same for the same record, or a restore does not. Must be given */
    sab_map_fn map;
    /** handed to `map` and `release` */
    void *ctx;
    /** called once when the stream is freed, and not when the constructor fails; NULL */
    void (*release)(void *ctx);
    /** 0 (default): `map` is called in the thread that takes the records; N: from so many threads
     *  at once, order kept */
    uint64_t threads;
    /** copied; NULL where no objects are made */
    const sab_object_functions *objects;
} sab_map_stream_options;
#define SAB_MAP_STREAM_OPTIONS_INIT {sizeof(sab_map_stream_options), NULL, NULL, NULL, 0, NULL}

/** Sets the defaults, the same as SAB_MAP_STREAM_OPTIONS_INIT: for languages without C's macros.
 *
 * @param options      filled; NULL is ignored
 * @param struct_size  size of the caller's sab_map_stream_options; exactly this many bytes are
 *     written
 */
SAB_API void sab_map_stream_options_init(sab_map_stream_options *options, size_t struct_size)
    SAB_NOEXCEPT;

/** Each record turned into another.
 *
 * @param source   a stream
 * @param options  NULL is refused, since `map` must be given
 * @param stream   the new handle
 * @return SAB_OK; SAB_E_ARGUMENT
 */
SAB_API sab_status sab_map_stream_new(sab_stream *source, const sab_map_stream_options *options,
                                      sab_stream **stream) SAB_NOEXCEPT;

/** Opens what a record stands for.
 *
 * @param ctx     the pointer given with the callback
 * @param record  the record; dies when the callback returns
 * @param made    to be filled with a stream of finitely many records, which is given away; NULL for
 *     none
 * @return 0; anything else is a failure
 */
typedef int32_t (*sab_select_fn)(void *ctx, const sab_record *record, sab_stream **made);

/** Select-many: the records of the streams that a callback opens for the records of the source, one
 * stream after the other.
 *
 * @param source   a stream
 * @param select   must open the same for the same record
 * @param ctx      handed to `select` and `release`
 * @param release  called once when the stream is freed, and not when the constructor fails; NULL
 *     for none
 * @param objects  those of the streams that are opened; copied; NULL where they give no objects
 * @param stream   the new handle
 * @return SAB_OK; SAB_E_ARGUMENT
 */
SAB_API sab_status sab_select_stream_new(sab_stream *source, sab_select_fn select, void *ctx,
                                         void (*release)(void *ctx),
                                         const sab_object_functions *objects, sab_stream **stream)
    SAB_NOEXCEPT;

/** The records of lists, one by one; a record that is no list is passed on.
 *
 * @param source  a stream
 * @param stream  the new handle
 * @return SAB_OK; SAB_E_ARGUMENT
 */
SAB_API sab_status sab_flatten_stream_new(sab_stream *source, sab_stream **stream) SAB_NOEXCEPT;

/** Takes a step with a state of its own.
 *
 * @param ctx     the pointer given with the callback
 * @param state   what the step before left; dies when the callback returns
 * @param record  the record; dies when the callback returns
 * @param next    to be filled with the state that follows; is `state` at first. As `made`
 * @param made    to be filled with what the record becomes; is the record at first; as in
 *     sab_map_fn
 * @return 0; anything else is a failure
 */
typedef int32_t (*sab_recur_fn)(void *ctx, const sab_record *state, const sab_record *record,
                                sab_record *next, sab_record *made);

/** Each record turned into another, by steps that know a state: counters, running means, joins. The
 * state is part of the saved one.
 *
 * @param source   a stream
 * @param recur    a step
 * @param ctx      handed to `recur` and `release`
 * @param release  called once when the stream is freed, and not when the constructor fails; NULL
 *     for none
 * @param initial  the first state, of bytes, which are copied; NULL: no bytes
 * @param objects  copied; NULL where neither states nor records made are objects
 * @param stream   the new handle
 * @return SAB_OK; SAB_E_ARGUMENT
 */
SAB_API sab_status sab_recurrent_stream_new(sab_stream *source, sab_recur_fn recur, void *ctx,
                                            void (*release)(void *ctx), const sab_record *initial,
                                            const sab_object_functions *objects,
                                            sab_stream **stream) SAB_NOEXCEPT;

/** A random generator of a stream: lives while its callback runs. */
typedef struct sab_random sab_random;

/** The next number in [0, 1), as CPython's `random()`.
 *
 * @param random  as the callback has it
 * @return the number
 */
SAB_API double sab_random_real(sab_random *random) SAB_NOEXCEPT;

/** The next whole number below `limit`, as CPython's `randrange(limit)`.
 *
 * @param random  as the callback has it
 * @param limit   at least 1; 0 gives 0
 * @return the number
 */
SAB_API uint64_t sab_random_below(sab_random *random, uint64_t limit) SAB_NOEXCEPT;

/** The next random bits, as CPython's `getrandbits(bits)`.
 *
 * @param random  as the callback has it
 * @param bits    from 1 to 64; others give 0
 * @return the bits, as a number
 */
SAB_API uint64_t sab_random_bits(sab_random *random, uint32_t bits) SAB_NOEXCEPT;

/** Turns a record into another, by chance.
 *
 * @param ctx     the pointer given with the callback
 * @param random  the only source of chance: what is drawn is part of the state
 * @param record  the record; dies when the callback returns
 * @param made    as in sab_map_fn
 * @return 0; anything else is a failure
 */
typedef int32_t (*sab_random_map_fn)(void *ctx, sab_random *random, const sab_record *record,
                                     sab_record *made);

/** Each record turned into another by chance, such as a sample of it or noise added.
 *
 * @param source   a stream
 * @param map      draws from its generator alone
 * @param ctx      handed to `map` and `release`
 * @param release  called once when the stream is freed, and not when the constructor fails; NULL
 *     for none
 * @param seed     of the generator
 * @param objects  copied; NULL where no objects are made
 * @param stream   the new handle
 * @return SAB_OK; SAB_E_ARGUMENT
 */
SAB_API sab_status sab_random_map_stream_new(sab_stream *source, sab_random_map_fn map, void *ctx,
                                             void (*release)(void *ctx), uint64_t seed,
                                             const sab_object_functions *objects,
                                             sab_stream **stream) SAB_NOEXCEPT;

/* ---- Stages: several streams ---- */

/** Lists of a record of each source; ends with the first that ends.
 *
 * @param sources  taken all, or none
 * @param count    number of `sources`, at least 1
 * @param stream   the new handle
 * @return SAB_OK; SAB_E_ARGUMENT also when a source is given twice
 */
SAB_API sab_status sab_zip_stream_new(sab_stream *const *sources, size_t count, sab_stream **stream)
    SAB_NOEXCEPT;

/** Records of several sources, mixed as a control stream says: the size of its next record, without
 * its fraction, is the number of the source that is next. Ends when the control stream or the
 * source that is next ends.
 *
 * @param control  a stream, such as a random one, mapped
 * @param sources  taken all, together with `control`, or none
 * @param count    number of `sources`, at least 1
 * @param stream   the new handle
 * @return SAB_OK; SAB_E_ARGUMENT also when a stream is given twice. sab_stream_next() then gives
 *     SAB_E_ARGUMENT, each time, for a number of no source
 */
SAB_API sab_status sab_multiplex_stream_new(sab_stream *control, sab_stream *const *sources,
                                            size_t count, sab_stream **stream) SAB_NOEXCEPT;

/** Every world_size-th record, those of this rank, of a source that is the same on all ranks. All
 * ranks see as many records: where the last round has not one for each, the ranks that go short get
 * an empty list. Put after the stage that makes batches, it splits any finite data without loss,
 * repetition or a rank that waits. Where it is the last stage, or only maps come after it, a state
 * may be restored with another rank and world size: it counts what all ranks have seen.
 *
 * Each rank reads everything up to here, so what is costly, such as tokenizing, comes after.
 *
 * @param source      a stream, made alike on all ranks
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

/** Lists of `width` consecutive records, each one record further: a sliding window. None when there
 * are fewer records.
 *
 * @param source  a stream
 * @param width   at least 1
 * @param stream  the new handle
 * @return SAB_OK; SAB_E_ARGUMENT
 */
SAB_API sab_status sab_window_stream_new(sab_stream *source, uint64_t width, sab_stream **stream)
    SAB_NOEXCEPT;

/** Blocks of consecutive records, each block shuffled.
 *
 * @param source      a stream
 * @param block_size  records in a block, kept in memory; from 1 to 2^32
 * @param seed        of the shuffles
 * @param stream      the new handle
 * @return SAB_OK; SAB_E_ARGUMENT
 */
SAB_API sab_status sab_block_shuffle_stream_new(sab_stream *source, uint64_t block_size,
                                                uint64_t seed, sab_stream **stream) SAB_NOEXCEPT;

/** Each record takes a random place in a buffer, and what was there goes on. The saved state holds
 * the buffer's records.
 *
 * @param source       a stream
 * @param buffer_size  places, kept in memory; from 1 to 2^32
 * @param seed         of the places
 * @param stream       the new handle
 * @return SAB_OK; SAB_E_ARGUMENT
 */
SAB_API sab_status sab_buffered_shuffle_stream_new(sab_stream *source, uint64_t buffer_size,
                                                   uint64_t seed, sab_stream **stream) SAB_NOEXCEPT;

/** How batches are made ahead. */
typedef struct sab_readahead_stream_options {
    /** set by SAB_READAHEAD_STREAM_OPTIONS_INIT */
    size_t struct_size;
    /** records in a window, kept in memory; from 1 to 2^32. 10,000 */
    uint64_t read_ahead;
    /** most records in a batch; 0: no such limit */
    uint64_t batch_size;
    /** largest count * largest size of a batch; see `oversize`. 0: no such limit. One of these or
     *  `batch_size_fn` must be given */
    double budget;
    /** the batches of a window; 1 */
    int32_t shuffle;
    /** 1: what fits no batch well is carried over to the next window, up to as many records again,
     *  for a third of the padding; a restore reads up to eight windows again. Not with
     *  `boundary_key_fn`. 0: every window is used up, as infinibatch does */
    int32_t carry_over;
    /** of the shuffles */
    uint64_t seed;
    /** most records in a batch whose largest is this one, at least 1; together with the others the
     *  least counts; asked of every record with `carry_over`. NULL */
    int32_t (*batch_size_fn)(void *ctx, const sab_record *largest, uint64_t *batch_size);
    /** records of different keys never share a batch: as in infinibatch, a batch ends where the key
     *  changes in the order of sizes. NULL */
    int32_t (*boundary_key_fn)(void *ctx, const sab_record *record, uint64_t *key);
    /** handed to the two and `release` */
    void *ctx;
    /** called once when the stream is freed, and not when the constructor fails; NULL */
    void (*release)(void *ctx);
    /** what becomes of a record that is larger than `budget`. SAB_OVERSIZE_ERROR (default):
     *  sab_stream_next() gives SAB_E_ARGUMENT and names the record. SAB_OVERSIZE_SKIP: it is left
     *  out and counted by sab_stream_skipped_count(). SAB_OVERSIZE_SINGLE: it is a batch alone,
     *  over the budget */
    sab_oversize oversize;
} sab_readahead_stream_options;
#define SAB_READAHEAD_STREAM_OPTIONS_INIT  \
    {sizeof(sab_readahead_stream_options), \
     10000,                                \
     0,                                    \
     0,                                    \
     1,                                    \
     0,                                    \
     0,                                    \
     NULL,                                 \
     NULL,                                 \
     NULL,                                 \
     NULL,                                 \
     SAB_OVERSIZE_ERROR}

/** Sets the defaults, the same as SAB_READAHEAD_STREAM_OPTIONS_INIT: for languages without C's
 * macros.
 *
 * @param options      filled; NULL is ignored
 * @param struct_size  size of the caller's sab_readahead_stream_options; exactly this many bytes
 *     are written
 */
SAB_API void sab_readahead_stream_options_init(sab_readahead_stream_options *options,
                                               size_t struct_size) SAB_NOEXCEPT;

/** Batches, as lists, of records of like size: reads a window, sorts it by size, largest first and
 * stably, cuts it into batches and shuffles them (after Marian NMT's BatchGenerator, by way of
 * infinibatch's BucketedReadaheadBatchIterator).
 *
 * @param source   a stream; the sizes of its records are the key: a map sets them
 * @param options  NULL is refused, since a limit must be given
 * @param stream   the new handle
 * @return SAB_OK; SAB_E_ARGUMENT
 */
SAB_API sab_status sab_readahead_stream_new(sab_stream *source,
                                            const sab_readahead_stream_options *options,
                                            sab_stream **stream) SAB_NOEXCEPT;

/** How windows are packed. */
typedef struct sab_pack_stream_options {
    size_t struct_size;   /**< set by SAB_PACK_STREAM_OPTIONS_INIT */
    double capacity;      /**< largest sum of the sizes of a list; finite, above 0; must be given */
    uint64_t max_records; /**< most records in a list; 0: no limit */
    uint64_t read_ahead;  /**< records in a window, kept in memory; from 1 to 2^31. 10,000 */
    int32_t shuffle;      /**< the lists of a window; 1 */
    uint64_t seed;        /**< of the shuffles */
    /** what becomes of a record that is larger than `capacity`. SAB_OVERSIZE_ERROR (default):
     *  sab_stream_next() gives SAB_E_ARGUMENT and names the record. SAB_OVERSIZE_SKIP: it is left
     *  out and counted by sab_stream_skipped_count() */
    sab_oversize oversize;
} sab_pack_stream_options;
#define SAB_PACK_STREAM_OPTIONS_INIT \
    {sizeof(sab_pack_stream_options), 0, 0, 10000, 1, 0, SAB_OVERSIZE_ERROR}

/** Sets the defaults, the same as SAB_PACK_STREAM_OPTIONS_INIT: for languages without C's macros.
 *
 * @param options      filled; NULL is ignored
 * @param struct_size  size of the caller's sab_pack_stream_options; exactly this many bytes are
 *     written
 */
SAB_API void sab_pack_stream_options_init(sab_pack_stream_options *options, size_t struct_size)
    SAB_NOEXCEPT;

/** Lists of records whose sizes sum to nearly `capacity`: rows for packed training from a stream of
 * unknown length. A window is read and packed by best-fit decreasing; lists that are not full wait
 * for the next window, up to half of one. Inside a list records stand as they came. A restore reads
 * up to eight windows again. Where all sizes are known ahead sab_packed_sampler_new() packs better.
 *
 * @param source   a stream; a map sets the sizes of its records
 * @param options  NULL is refused, since the capacity must be given
 * @param stream   the new handle
 * @return SAB_OK; SAB_E_ARGUMENT
 */
SAB_API sab_status sab_pack_stream_new(sab_stream *source, const sab_pack_stream_options *options,
                                       sab_stream **stream) SAB_NOEXCEPT;

/** The batches of a stream of lists, such as sab_readahead_stream_new() makes, as a sampler for
 * sab_next_batch(): `indices` count the records of the source from 0 on, in the order in which they
 * were read. It has one endless epoch or, of a finite source, one that ends. Its state is that of
 * its stream: see sab_sampler_stream_new().
 *
 * @param source   a stream of records with sizes
 * @param options  of the batches; NULL is refused
 * @param sampler  the new handle; free with sab_sampler_free()
 * @return SAB_OK; SAB_E_ARGUMENT
 */
SAB_API sab_status sab_readahead_sampler_new(sab_stream *source,
                                             const sab_readahead_stream_options *options,
                                             sab_sampler **sampler) SAB_NOEXCEPT;

/** The stream under a sampler of sab_readahead_sampler_new(), to save and restore.
 *
 * @param sampler  a handle
 * @param stream   filled with a handle that the sampler keeps: not to be freed, nor read from
 * @return SAB_OK; SAB_E_UNSUPPORTED for other samplers
 */
SAB_API sab_status sab_sampler_stream_new(sab_sampler *sampler, sab_stream **stream) SAB_NOEXCEPT;

/* ---- Stages: threads ---- */

/** The same records, taken from the source ahead of time by a thread. The thread starts with the
 * first record that is taken; a child after fork() starts its own, and goes on where the parent
 * stood.
 *
 * @param source       a stream; runs in the thread, its callbacks too
 * @param buffer_size  most records taken ahead; from 1 to 2^32
 * @param stream       the new handle
 * @return SAB_OK; SAB_E_ARGUMENT
 */
SAB_API sab_status sab_prefetch_stream_new(sab_stream *source, uint64_t buffer_size,
                                           sab_stream **stream) SAB_NOEXCEPT;

#ifdef __cplusplus
}
#endif

#endif
