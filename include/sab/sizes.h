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
 * - zero       allowed. It costs as much as the smallest size above zero of the same sizes, or 1 if
 *   there is none. The reason: an empty sample takes a row of its batch, too
 * - over 2^53  refused, since a double cannot hold it exactly
 *
 * The error message names the index and the value. At most 4,294,967,295 samples.
 *
 * Tier: stable.
 */
#ifndef SAB_SIZES_H
#define SAB_SIZES_H

#include "sab/base.h"

#ifdef __cplusplus
extern "C" {
#endif

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
/** its bytes in UTF-8 */
#define SAB_TEXT_BYTES 0
/** its words: runs of bytes that are not white space of ASCII */
#define SAB_TEXT_WORDS 1

/** Layout of the sizes in memory. */
typedef struct sab_sizes_options {
    /** set by SAB_SIZES_OPTIONS_INIT */
    size_t struct_size;
    /** bytes from one sample to the next, may be negative; 0: dense. Any alignment is allowed */
    int64_t stride;
    /** 1: copy now; 0 (default): borrow. Borrowed memory must stay valid and unchanged as long as
     *  the handle and the samplers made from it. A plan copies what it needs */
    int32_t copy;
    /** sizes of each sample; only 1 is supported in this version */
    int32_t columns;
} sab_sizes_options;
#define SAB_SIZES_OPTIONS_INIT {sizeof(sab_sizes_options), 0, 0, 1}

/** Sets the defaults, the same as SAB_SIZES_OPTIONS_INIT: for languages without C's macros.
 *
 * @param options      filled; NULL is ignored
 * @param struct_size  size of the caller's sab_sizes_options; exactly this many bytes are
 *     written
 */
SAB_API void sab_sizes_options_init(sab_sizes_options *options, size_t struct_size) SAB_NOEXCEPT;

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
 * @return 0; any other code is a failure, which sab_last_callback_code() returns unchanged
 */
typedef int32_t (*sab_size_fn)(void *ctx, int64_t index, double *size);

/** Makes sizes by calling a function once for each sample, in ascending order, during this call.
 *
 * Takes 4 bytes a sample if all sizes are whole numbers below 2^32, otherwise 8.
 *
 * @param count         number of samples
 * @param size          called `count` times
 * @param ctx           passed to `size`
 * @param progress      reports progress and may cancel; NULL for none
 * @param progress_ctx  passed to `progress`
 * @param sizes         the new handle; free with sab_sizes_free()
 * @return SAB_OK; SAB_E_CALLBACK if `size` failed; SAB_E_CANCELLED; SAB_E_ARGUMENT for a size that
 *     breaks the rules above
 */
SAB_API sab_status sab_sizes_callback_new(size_t count, sab_size_fn size, void *ctx,
                                          sab_progress_fn progress, void *progress_ctx,
                                          sab_sizes **sizes) SAB_NOEXCEPT;

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

/** Which of the joined parts has a sample.
 *
 * @param sizes  a handle
 * @param index  below sab_sizes_count()
 * @param part   filled on SAB_OK: index of the part in the arguments of sab_sizes_join_new(); 0 if
 *     the sizes were not joined
 * @param row    filled on SAB_OK: index of the sample in that part
 * @return SAB_OK; SAB_E_ARGUMENT for an index out of range
 */
SAB_API sab_status sab_sizes_source(const sab_sizes *sizes, size_t index, size_t *part, size_t *row)
    SAB_NOEXCEPT;

/** Text that says what the sizes were read from, such as "array of int32: 1,000 sizes". It is meant
 * for people, and may change in any release.
 *
 * @param sizes  a handle; NULL has an empty text
 * @return the text, which belongs to the handle
 */
SAB_API const char *sab_sizes_description(const sab_sizes *sizes) SAB_NOEXCEPT;

/** Number of samples.
 *
 * @param sizes  a handle; NULL has 0 samples
 * @return the number of samples
 */
SAB_API size_t sab_sizes_count(const sab_sizes *sizes) SAB_NOEXCEPT;

/** Reads one size.
 *
 * @param sizes  a handle
 * @param index  below sab_sizes_count()
 * @param size   filled on SAB_OK
 * @return SAB_OK; SAB_E_ARGUMENT for an index out of range or a size that breaks the rules above
 */
SAB_API sab_status sab_sizes_get(const sab_sizes *sizes, size_t index, double *size) SAB_NOEXCEPT;

/** Frees the handle. Plans and samplers made from it stay valid.
 *
 * @param sizes  a handle or NULL
 */
SAB_API void sab_sizes_free(sab_sizes *sizes) SAB_NOEXCEPT;

#ifdef __cplusplus
}
#endif

#endif
