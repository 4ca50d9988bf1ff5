/** @file arrow.h
 * Sizes from Arrow arrays and streams, and the batches of an epoch as an Arrow stream, by Arrow's C
 * data interface and C stream interface.
 *
 * Tier: provisional. Functions and structs here may change or be removed in a minor release.
 */
#ifndef SAB_ARROW_H
#define SAB_ARROW_H

#include "sab/base.h"
#include "sab/sampler.h"
#include "sab/sizes.h"

/* Arrow's C data interface and C stream interface, as Arrow's specification declares them. The
 * macros are also its own, so that a program may include these structs from several headers. */
#ifndef ARROW_C_DATA_INTERFACE
#define ARROW_C_DATA_INTERFACE
#define ARROW_FLAG_DICTIONARY_ORDERED 1
#define ARROW_FLAG_NULLABLE 2
#define ARROW_FLAG_MAP_KEYS_SORTED 4
struct ArrowSchema {
    const char *format;
    const char *name;
    const char *metadata;
    int64_t flags;
    int64_t n_children;
    struct ArrowSchema **children;
    struct ArrowSchema *dictionary;
    void (*release)(struct ArrowSchema *);
    void *private_data;
};
struct ArrowArray {
    int64_t length;
    int64_t null_count;
    int64_t offset;
    int64_t n_buffers;
    int64_t n_children;
    const void **buffers;
    struct ArrowArray **children;
    struct ArrowArray *dictionary;
    void (*release)(struct ArrowArray *);
    void *private_data;
};
#endif
#ifndef ARROW_C_STREAM_INTERFACE
#define ARROW_C_STREAM_INTERFACE
struct ArrowArrayStream {
    int (*get_schema)(struct ArrowArrayStream *, struct ArrowSchema *out);
    int (*get_next)(struct ArrowArrayStream *, struct ArrowArray *out);
    const char *(*get_last_error)(struct ArrowArrayStream *);
    void (*release)(struct ArrowArrayStream *);
    void *private_data;
};
#endif
/** Arrow's description of a type: its C data interface. */
struct ArrowSchema;
/** Arrow's array: its C data interface. */
struct ArrowArray;
/** Arrow's stream of arrays: its C stream interface. */
struct ArrowArrayStream;

#ifdef __cplusplus
extern "C" {
#endif

/** How Arrow arrays are read. */
typedef struct sab_sizes_arrow_options {
    /** set by SAB_SIZES_ARROW_OPTIONS_INIT */
    size_t struct_size;
    /** SAB_NULLS_REFUSE by default */
    sab_null_rule nulls;
    /** SAB_TEXT_BYTES by default. Words are counted and values are read when the handle is made,
     *  which copies the numbers */
    sab_text_unit text_unit;
} sab_sizes_arrow_options;
#define SAB_SIZES_ARROW_OPTIONS_INIT SAB_INIT(sab_sizes_arrow_options)

/** Makes sizes from an Arrow array, without a copy.
 *
 * A number is a size. Of a text (in UTF-8), a binary value and a list the length is the size; it is
 * read from the offsets, and the values are not. These types are read: integers of 8 to 64 bits,
 * float16, float32, float64; list, string and binary, also large, as views and of a fixed size; and
 * dictionaries of all of these. Lists that all hold a single list, of the shape (1, length), are
 * refused.
 *
 * On SAB_OK the sizes own the array: `array->release` becomes NULL, as the interface says. The
 * array is released once, with the last user of its memory, in the thread that frees this user. The
 * user is the handle, joined sizes, or a sampler that reads sizes in place or its schedule; a plan
 * is none. If nothing is read in place, as when words were counted, the array is released during
 * the call. On failure it stays the caller's.
 *
 * @param array    read and written: an array; a record batch is a struct array. Its memory is
 *     trusted as far as the interface does not say how long it is
 * @param schema   its type; stays the caller's, and is read during the call
 * @param column   path of a column in a struct array, such as "audio.frames"; NULL: the array
 *     itself, or the only column of a struct array
 * @param options  NULL: the defaults
 * @param sizes    the new handle; free with sab_sizes_free()
 * @return SAB_OK; SAB_E_ARGUMENT for a column that does not exist (the message names those that
 *     do), a type without a size, a null, or offsets that decrease; SAB_E_NO_MEMORY
 */
SAB_API sab_status sab_sizes_arrow_new(struct ArrowArray *array, const struct ArrowSchema *schema,
                                       const char *column, const sab_sizes_arrow_options *options,
                                       sab_sizes **sizes) SAB_NOEXCEPT;

/** Makes sizes from the arrays of an Arrow stream, one after the other, without a copy.
 *
 * All arrays are taken from the stream during the call. On SAB_OK the sizes own the stream:
 * `stream->release` becomes NULL, and the stream is released after the last of its arrays that is
 * in use. On failure the stream stays the caller's; it may have been read in part.
 *
 * @param stream   read and written
 * @param column   as for sab_sizes_arrow_new()
 * @param options  NULL: the defaults
 * @param sizes    the new handle; free with sab_sizes_free()
 * @return as sab_sizes_arrow_new(); SAB_E_CALLBACK if the stream failed
 */
SAB_API sab_status sab_sizes_arrow_stream_new(struct ArrowArrayStream *stream, const char *column,
                                              const sab_sizes_arrow_options *options,
                                              sab_sizes **sizes) SAB_NOEXCEPT;

/** Shows the batches that all ranks take in the current epoch as an Arrow stream: for dataframes,
 * SQL and Parquet.
 *
 * A row is a batch of one rank. Rows are ordered by step, then by micro-batch, then by rank. No
 * column has nulls:
 *
 * | column        | type        | what                                                        |
 * |---------------|-------------|-------------------------------------------------------------|
 * | step          | int64       | step of the optimizer in the epoch, from 0                  |
 * | rank          | int64       | the rank that takes the batch                               |
 * | batch         | int64       | its position: number of the batch of this rank in the epoch |
 * | indices       | list<int64> | the samples; empty for a rank without a share               |
 * | padded_length | double      | as in sab_batch; 0 for a rank without a share               |
 *
 * Of sizes with several columns, padded_length is a fixed_size_list<double> with one number a
 * column.
 *
 * The rows are those that the ranks would get from sab_next_batch() if the sampler stayed in this
 * epoch: with what SAB_LAST_STEP_WRAP repeats, without what SAB_LAST_STEP_DROP leaves out, and
 * cut as a lowered budget needs it. Where the cursor is does not matter. The rows begin at
 * position 0. After a state of other ranks or another budget took over they begin there.
 *
 * The stream is a snapshot: it does not move the cursor, and no later call on the sampler changes
 * it. The sampler may be freed before it. Sizes that the sampler reads in place must stay valid as
 * long as the stream.
 *
 * Arrays are made when get_next is called, and end with the batch that brings them to 65,536
 * indices or rows. So an epoch is never in memory as a whole. They own their memory and may outlive
 * the stream. One thread at a time may use the stream, and the sampler may be used in another one
 * meanwhile. Making the stream takes as long as sab_sampler_set_epoch() at most.
 *
 * A failed get_next returns ENOMEM, or EIO when data that is read in place was changed, such as a
 * mapped plan file. get_last_error has the message. Calling get_next again repeats the array that
 * failed.
 *
 * @param sampler  a sampler with SAB_SAMPLER_SCHEDULE: one with random access, except a sharded
 *     sampler of several ranks, which does not know the samples of the others
 * @param stream   filled on SAB_OK, untouched otherwise; the caller releases it
 * @return SAB_OK; SAB_E_ARGUMENT; SAB_E_UNSUPPORTED
 */
SAB_API sab_status sab_arrow_schedule_new(const sab_sampler *sampler,
                                          struct ArrowArrayStream *stream) SAB_NOEXCEPT;

#ifdef __cplusplus
}
#endif

#endif
