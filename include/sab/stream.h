/** @file stream.h
 *  Pipelines of records that can be stopped anywhere and go on at the next record: sources, stages, one pull at a time.
 *
 *      sab_stream *chunks, *lines, *shuffled, *batches;
 *      sab_list_stream_new(file_names, count, &options, &chunks);      file names, permuted for ever, this rank's share
 *      sab_lines_stream_new(chunks, NULL, &lines);                     their lines
 *      sab_block_shuffle_stream_new(lines, 100000, seed, &shuffled);   shuffled in blocks
 *      sab_readahead_stream_new(shuffled, &readahead, &batches);       batches of like sizes
 *
 *  A constructor takes its source: on SAB_OK it belongs to the new stream, which frees it; on a failure it stays the caller's. A stream is for one
 *  thread at a time.
 *
 *  The stages are those of infinibatch, and with the same seed their orders are the same: random choices are those of CPython's `random.Random`.
 */
#ifndef SAB_STREAM_H
#define SAB_STREAM_H

#include "sab/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Records, one after the other. */
typedef struct sab_stream sab_stream;

/** A record: bytes, or a list of records. */
typedef struct sab_record sab_record;
struct sab_record {
    size_t struct_size;      /**< set by SAB_RECORD_INIT */
    const void *data;        /**< the bytes; NULL for a list */
    size_t length;           /**< how many */
    double size;             /**< what batches count, not negative: `length` where nothing else was said; of a list the sum */
    const sab_record *items; /**< of a list: its records, contiguous; NULL for bytes */
    size_t item_count;       /**< how many */
};
#define SAB_RECORD_INIT { sizeof(sab_record), NULL, 0, 0, NULL, 0 }

/** Takes the next record.
 *
 *  @param stream  a handle
 *  @param record  filled on SAB_OK, with what lives until the next call on the stream; its struct_size must be set
 *  @return SAB_OK; SAB_END when there are no more; what a source or a callback failed with: the call can be made again
 */
SAB_API sab_status sab_stream_next(sab_stream *stream, sab_record *record) SAB_NOEXCEPT;

/** Goes back to the first record, of the first epoch.
 *
 *  @param stream  a handle
 *  @return SAB_OK
 */
SAB_API sab_status sab_stream_rewind(sab_stream *stream) SAB_NOEXCEPT;

/** Saves where the stream stands, sources and stages together.
 *
 *  @param stream    a handle
 *  @param buffer    room for `capacity` bytes; NULL when `capacity` is 0
 *  @param capacity  nothing is written when it is smaller than `size`
 *  @param size      filled with the bytes of the state. Small (a few KiB a stage that draws at random), but for a buffered shuffle, whose records are in it
 *  @return SAB_OK; SAB_E_ARGUMENT while sab_stream_next() has failed in the middle of what it makes and has not been called again
 */
SAB_API sab_status sab_stream_state_save(const sab_stream *stream, void *buffer, size_t capacity, size_t *size) SAB_NOEXCEPT;

/** Goes on where a state was saved, by this or another process. At most one buffer is read again.
 *
 *  @param stream  a handle of a pipeline made alike
 *  @param data    what sab_stream_state_save() wrote
 *  @param size    its length in bytes
 *  @return SAB_OK; SAB_E_FORMAT for a truncated, damaged or foreign state or a newer version; SAB_E_MISMATCH when it belongs to another pipeline, or a
 *          file has changed since. After a failure the stream stands at its beginning
 */
SAB_API sab_status sab_stream_state_restore(sab_stream *stream, const void *data, size_t size) SAB_NOEXCEPT;

/** Frees the stream and its sources.
 *
 *  @param stream  a handle or NULL
 */
SAB_API void sab_stream_free(sab_stream *stream) SAB_NOEXCEPT;

/** How a list is gone through. */
typedef struct sab_list_stream_options {
    size_t struct_size;  /**< set by SAB_LIST_STREAM_OPTIONS_INIT */
    int32_t infinite;    /**< 0: once, each rank a consecutive block of the list, blocks that differ by at most 1, so that the ranks in order give the list.
                              1: for ever, each rank every world_size-th record */
    int32_t shuffle;     /**< 1: another permutation each time through; only when infinite. 0 */
    uint64_t seed;       /**< of the permutations */
    uint64_t rank;       /**< below world_size */
    uint64_t world_size; /**< at least 1; 1 */
} sab_list_stream_options;
#define SAB_LIST_STREAM_OPTIONS_INIT { sizeof(sab_list_stream_options), 0, 0, 0, 0, 1 }

/** Sets the defaults, the same bytes as SAB_LIST_STREAM_OPTIONS_INIT: for languages without C's macros.
 *
 *  @param options  filled whole; NULL is let be
 */
SAB_API void sab_list_stream_options_init(sab_list_stream_options *options) SAB_NOEXCEPT;

/** A source: the records of a list, such as file names.
 *
 *  @param records  copied; at least 1 when infinite
 *  @param count    number of `records`
 *  @param options  NULL: the defaults
 *  @param stream   the new handle; free with sab_stream_free()
 *  @return SAB_OK; SAB_E_ARGUMENT
 */
SAB_API sab_status sab_list_stream_new(const sab_record *records, size_t count, const sab_list_stream_options *options, sab_stream **stream) SAB_NOEXCEPT;

/** How the lines of files are read. */
typedef struct sab_lines_stream_options {
    size_t struct_size; /**< set by SAB_LINES_STREAM_OPTIONS_INIT */
    uint64_t max_line;  /**< a longer line is refused; 0: 64 MiB */
} sab_lines_stream_options;
#define SAB_LINES_STREAM_OPTIONS_INIT { sizeof(sab_lines_stream_options), 0 }

/** Sets the defaults, the same bytes as SAB_LINES_STREAM_OPTIONS_INIT: for languages without C's macros.
 *
 *  @param options  filled whole; NULL is let be
 */
SAB_API void sab_lines_stream_options_init(sab_lines_stream_options *options) SAB_NOEXCEPT;

/** The lines of the text files that the records of the source name, plain or of gzip, without their ends (`\n` or `\r\n`). A restore seeks in a plain file,
 *  and reads a compressed one again up to the place.
 *
 *  @param source   of file names
 *  @param options  NULL: the defaults
 *  @param stream   the new handle
 *  @return SAB_OK; SAB_E_ARGUMENT. sab_stream_next() then gives SAB_E_IO for a file that cannot be read and SAB_E_FORMAT for one that is damaged or cut off and
 *          for a line that is too long, with the file and the byte. Called again it tries the same line again
 */
SAB_API sab_status sab_lines_stream_new(sab_stream *source, const sab_lines_stream_options *options, sab_stream **stream) SAB_NOEXCEPT;

/** Turns a record into another.
 *
 *  @param ctx     the pointer given with the callback
 *  @param record  the record; dies when the callback returns
 *  @param made    to be filled; has the record's own values at first. What it points to is copied when the callback returns. Lists cannot be made
 *  @return 0; anything else is a failure
 */
typedef int32_t (*sab_map_fn)(void *ctx, const sab_record *record, sab_record *made);

/** Each record turned into another.
 *
 *  @param source   a stream
 *  @param map      must give the same for the same record, or a restore does not
 *  @param ctx      handed to `map` and `release`
 *  @param release  called once, when the stream is freed; NULL for none
 *  @param stream   the new handle
 *  @return SAB_OK; SAB_E_ARGUMENT
 */
SAB_API sab_status sab_map_stream_new(sab_stream *source, sab_map_fn map, void *ctx, void (*release)(void *ctx), sab_stream **stream) SAB_NOEXCEPT;

/** Lists of `batch_size` consecutive records; the last one may be shorter.
 *
 *  @param source      a stream
 *  @param batch_size  at least 1
 *  @param stream      the new handle
 *  @return SAB_OK; SAB_E_ARGUMENT
 */
SAB_API sab_status sab_batch_stream_new(sab_stream *source, uint64_t batch_size, sab_stream **stream) SAB_NOEXCEPT;

/** The records of lists, one by one; a record that is no list is passed on.
 *
 *  @param source  a stream
 *  @param stream  the new handle
 *  @return SAB_OK; SAB_E_ARGUMENT
 */
SAB_API sab_status sab_flatten_stream_new(sab_stream *source, sab_stream **stream) SAB_NOEXCEPT;

/** Lists of `width` consecutive records, each one record further: a sliding window. None when there are fewer records.
 *
 *  @param source  a stream
 *  @param width   at least 1
 *  @param stream  the new handle
 *  @return SAB_OK; SAB_E_ARGUMENT
 */
SAB_API sab_status sab_window_stream_new(sab_stream *source, uint64_t width, sab_stream **stream) SAB_NOEXCEPT;

/** Lists of a record of each source; ends with the first that ends.
 *
 *  @param sources  taken all, or none
 *  @param count    number of `sources`, at least 1
 *  @param stream   the new handle
 *  @return SAB_OK; SAB_E_ARGUMENT also when a source is given twice
 */
SAB_API sab_status sab_zip_stream_new(sab_stream *const *sources, size_t count, sab_stream **stream) SAB_NOEXCEPT;

/** Blocks of consecutive records, each block shuffled.
 *
 *  @param source      a stream
 *  @param block_size  records in a block, kept in memory; at least 1
 *  @param seed        of the shuffles
 *  @param stream      the new handle
 *  @return SAB_OK; SAB_E_ARGUMENT
 */
SAB_API sab_status sab_block_shuffle_stream_new(sab_stream *source, uint64_t block_size, uint64_t seed, sab_stream **stream) SAB_NOEXCEPT;

/** Each record takes a random place in a buffer, and what was there goes on. The saved state holds the buffer's records.
 *
 *  @param source       a stream
 *  @param buffer_size  places, kept in memory; at least 1
 *  @param seed         of the places
 *  @param stream       the new handle
 *  @return SAB_OK; SAB_E_ARGUMENT
 */
SAB_API sab_status sab_buffered_shuffle_stream_new(sab_stream *source, uint64_t buffer_size, uint64_t seed, sab_stream **stream) SAB_NOEXCEPT;

/** How batches are made ahead. */
typedef struct sab_readahead_stream_options {
    size_t struct_size;  /**< set by SAB_READAHEAD_STREAM_OPTIONS_INIT */
    uint64_t read_ahead; /**< records in a window, kept in memory; at least 1 */
    uint64_t batch_size; /**< most records in a batch; 0: by the budget alone */
    double budget;       /**< count * largest size of a batch, which a single record may exceed; 0: by the batch size alone. One of both must be given */
    int32_t shuffle;     /**< the batches of a window; 1 */
    uint64_t seed;       /**< of the shuffles */
} sab_readahead_stream_options;
#define SAB_READAHEAD_STREAM_OPTIONS_INIT { sizeof(sab_readahead_stream_options), 10000, 0, 0, 1, 0 }

/** Sets the defaults, the same bytes as SAB_READAHEAD_STREAM_OPTIONS_INIT: for languages without C's macros.
 *
 *  @param options  filled whole; NULL is let be
 */
SAB_API void sab_readahead_stream_options_init(sab_readahead_stream_options *options) SAB_NOEXCEPT;

/** Batches, as lists, of records of like size: reads a window, sorts it by size, largest first and stably, cuts it into batches and shuffles them.
 *
 *  @param source   a stream
 *  @param options  NULL is refused, since a batch size or a budget must be given
 *  @param stream   the new handle
 *  @return SAB_OK; SAB_E_ARGUMENT
 */
SAB_API sab_status sab_readahead_stream_new(sab_stream *source, const sab_readahead_stream_options *options, sab_stream **stream) SAB_NOEXCEPT;

#ifdef __cplusplus
}
#endif

#endif
