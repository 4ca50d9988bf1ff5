/** @file sizes.h
 * sab_sizes: the size of each sample.
 *
 * A size is a number such as the tokens, residues, frames, seconds or nodes of a sample: any finite
 * number from 0 to 2^53. Sizes are checked when they are read (by sab_plan_new() or a sampler over
 * sizes):
 *
 * - NaN        refused
 * - infinity   refused
 * - negative   refused
 * - zero       allowed. It costs what the cost is for a length of 0: of a padded total nothing, so
 *   a batch may have any number of them. They count as samples: a `max_batch_size` limits them, and
 *   so does a cost with a term for each sample
 * - over 2^53  refused, since a double cannot hold it exactly
 *
 * Samples may have several sizes, such as the lengths of source and target, or height, width and
 * frames. Each is a column: see sab_sizes_columns_new().
 *
 * The error message names the column, the index and the value. At most 4,294,967,295 samples.
 *
 * Tier: stable.
 */
#ifndef SAB_SIZES_H
#define SAB_SIZES_H

#include "sab/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Columns of sizes, at most. */
#define SAB_MAX_COLUMNS 8

/** Bytes of the name of a column, at most. */
#define SAB_MAX_COLUMN_NAME 63

/** The sizes of a data set: immutable, shareable between threads. */
typedef struct sab_sizes sab_sizes;

/** Element type of sizes in memory, in the machine's byte order. */
typedef int32_t sab_dtype;
#define SAB_INT8 1
#define SAB_INT16 2
#define SAB_INT32 3
#define SAB_INT64 4
#define SAB_UINT8 5
#define SAB_UINT16 6
#define SAB_UINT32 7
#define SAB_UINT64 8
#define SAB_FLOAT32 9
#define SAB_FLOAT64 10

/** What the size of a text is. */
typedef int32_t sab_text_unit;
/** its bytes in UTF-8. Texts that are all numbers are refused: they may be sizes themselves */
#define SAB_TEXT_BYTES 0
/** its words: runs of bytes that are not white space of ASCII */
#define SAB_TEXT_WORDS 1
/** its characters in UTF-8: code points. Only for sab_text_size_stream_new() */
#define SAB_TEXT_CHARACTERS 2
/** the number that it is, such as "3.25"; other texts are refused. Not for
 *  sab_text_size_stream_new() */
#define SAB_TEXT_VALUE 3
/** its bytes in UTF-8, also if all texts are numbers. Not for sab_text_size_stream_new() */
#define SAB_TEXT_ALL_BYTES 4

/** What becomes of nulls. */
typedef int32_t sab_null_rule;
/** refused, with the number of the row */
#define SAB_NULLS_REFUSE 0
/** counted as 0 */
#define SAB_NULLS_ZERO 1

/** Layout of the sizes in memory. */
typedef struct sab_sizes_options {
    /** set by SAB_SIZES_OPTIONS_INIT */
    size_t struct_size;
    /** bytes from one sample to the next, may be negative; 0: dense. Any alignment is allowed */
    int64_t stride;
    /** 1: copy now; 0 (default): borrow. Borrowed memory must stay valid and unchanged as long as
     *  the handle and the samplers made from it. A plan copies what it needs */
    int32_t copy;
} sab_sizes_options;
#define SAB_SIZES_OPTIONS_INIT SAB_INIT(sab_sizes_options)

/** Makes sizes from an array.
 *
 * @param data     the first size; may be NULL when `count` is 0
 * @param count    number of samples
 * @param dtype    SAB_INT8 ... SAB_FLOAT64
 * @param options  NULL: dense, borrowed
 * @param sizes    the new handle; free with sab_sizes_free()
 * @return SAB_OK; SAB_E_ARGUMENT; SAB_E_NO_MEMORY
 */
SAB_API sab_status sab_sizes_new(const void *data, size_t count, sab_dtype dtype,
                                 const sab_sizes_options *options, sab_sizes **sizes) SAB_NOEXCEPT;

/** Gives the size of one sample.
 *
 * @param ctx    the pointer given with the callback
 * @param index  the sample, from 0
 * @param size   to be set
 * @return 0; any other code is a failure, which sab_last_error_code() returns unchanged
 */
typedef int32_t (*sab_size_fn)(void *ctx, int64_t index, double *size);

/** Makes sizes by calling a function once for each sample, in ascending order, during this call.
 *
 * Takes 4 bytes a sample if all sizes are whole numbers below 2^32, otherwise 8.
 *
 * @param count    number of samples
 * @param size     called `count` times
 * @param ctx      passed to `size`
 * @param options  NULL: no progress
 * @param sizes    the new handle; free with sab_sizes_free()
 * @return SAB_OK; SAB_E_CALLBACK if `size` failed; SAB_E_CANCELLED; SAB_E_ARGUMENT for a size that
 *     breaks the rules above
 */
SAB_API sab_status sab_sizes_callback_new(size_t count, sab_size_fn size, void *ctx,
                                          const sab_progress_options *options, sab_sizes **sizes)
    SAB_NOEXCEPT;

/** Joins the sizes of several handles: those of the first, then those of the second, and so on.
 * Nothing is copied. What the parts borrow must stay valid as long as the new handle.
 *
 * @param parts  handles, which may be freed afterwards; may be NULL when `count` is 0
 * @param count  number of handles
 * @param sizes  the new handle; free with sab_sizes_free()
 * @return SAB_OK; SAB_E_ARGUMENT
 */
SAB_API sab_status sab_sizes_join_new(const sab_sizes *const *parts, size_t count,
                                      sab_sizes **sizes) SAB_NOEXCEPT;

/** Which of the joined parts, or of the sources of a mixture, has a sample.
 *
 * @param sizes  a handle
 * @param index  below sab_sizes_count()
 * @param part   filled on SAB_OK: index of the part in the arguments of sab_sizes_join_new(); of a
 *     mixture the number of the source; 0 of other sizes
 * @param row    filled on SAB_OK: which of the samples of that part or source it is, from 0
 * @return SAB_OK; SAB_E_ARGUMENT for an index out of range
 */
SAB_API sab_status sab_sizes_locate(const sab_sizes *sizes, size_t index, size_t *part, size_t *row)
    SAB_NOEXCEPT;

/** Makes sizes of several columns, such as the lengths of source and target of each pair, or gives
 * one column a name. Messages, plans and reports use the names. Nothing is copied. What the columns
 * borrow must stay valid as long as the new handle.
 *
 * @param columns  sizes of one column each, of the same number of samples; may be freed afterwards
 * @param names    the name of each column, no two the same, each of 1 to SAB_MAX_COLUMN_NAME bytes
 *     of UTF-8; copied. NULL: those that the columns have, which must be all of them or none
 * @param count    number of `columns` and of `names`, 1 to SAB_MAX_COLUMNS
 * @param sizes    the new handle; free with sab_sizes_free()
 * @return SAB_OK; SAB_E_ARGUMENT
 */
SAB_API sab_status sab_sizes_columns_new(const sab_sizes *const *columns, const char *const *names,
                                         size_t count, sab_sizes **sizes) SAB_NOEXCEPT;

/** Facts of sizes. The texts belong to the handle. */
typedef struct sab_sizes_info {
    /** set by SAB_SIZES_INFO_INIT */
    size_t struct_size;
    /** number of samples */
    size_t count;
    /** number of columns */
    size_t columns;
    /** one for each column; NULL: they have no names */
    const char *const *column_names;
    /** number of sources of a mixture; 0 of other sizes */
    size_t sources;
    /** what the sizes were read from, such as "array of int32: 1,000 sizes". It is meant for
     * people, and may change in any release */
    const char *description;
} sab_sizes_info;
#define SAB_SIZES_INFO_INIT SAB_INIT(sab_sizes_info)

/** Facts of sizes.
 *
 * @param sizes  a handle
 * @param info   filled on SAB_OK; its struct_size must be set
 * @return SAB_OK; SAB_E_ARGUMENT
 */
SAB_API sab_status sab_sizes_get_info(const sab_sizes *sizes, sab_sizes_info *info) SAB_NOEXCEPT;

/** Number of samples.
 *
 * @param sizes  a handle; NULL has 0 samples
 * @return the number of samples
 */
SAB_API size_t sab_sizes_count(const sab_sizes *sizes) SAB_NOEXCEPT;

/** Reads the sizes of samples.
 *
 * @param sizes   a handle
 * @param first   the first sample, at most sab_sizes_count()
 * @param count   number of samples, at most those from `first` on
 * @param values  filled on SAB_OK with the sizes of the first sample in all columns, then with
 * those of the second, and so on; may be NULL when there are none
 * @return SAB_OK; SAB_E_ARGUMENT for samples that are not there or a size that breaks the rules
 *     above
 */
SAB_API sab_status sab_sizes_get(const sab_sizes *sizes, size_t first, size_t count, double *values)
    SAB_NOEXCEPT;

/** Frees the handle. Plans and samplers made from it stay valid.
 *
 * @param sizes  a handle or NULL
 */
SAB_API void sab_sizes_free(sab_sizes *sizes) SAB_NOEXCEPT;

#ifdef __cplusplus
}
#endif

#endif
