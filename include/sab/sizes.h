/** @file sizes.h
 * sab_sizes: where the size of each sample comes from.
 *
 * A size is what makes a sample long or heavy: tokens, residues, frames, seconds, nodes. Any finite
 * number from 0 to 2^53. One rule each, checked when the sizes are read (by sab_plan_new, a
 * sampler over sizes):
 *
 * - NaN        refused
 * - infinity   refused
 * - negative   refused
 * - zero       a sample like any other; it costs as much as the smallest size above zero in the
 *   same sizes (1 when there is none), since an empty sample takes a row of its batch all the same
 * - over 2^53  refused, since it has no exact double
 *
 * Every refusal names the index and the value. At most 4,294,967,295 samples.
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

/** Type of one size in memory, in the machine's byte order. */
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

/** How the sizes lie in memory. */
typedef struct sab_sizes_options {
    /** set by SAB_SIZES_OPTIONS_INIT */
    size_t struct_size;
    /** bytes from one sample to the next, negative to walk backwards; 0: dense. Any alignment */
    int64_t stride;
    /** 1: copy now; 0 (default): borrow, the memory must live and stay unchanged as long as the
     *  handle and what is built from it directly (a plan copies what it needs; a size-aware sampler
     *  keeps the handle) */
    int32_t copy;
    /** sizes a sample; 1 (several, such as source and target length, are refused in this
     *  version) */
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

/** Takes sizes from memory.
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

/** Says the size of one sample.
 *
 * @param ctx    the pointer given with the callback
 * @param index  the sample, from 0
 * @param size   to be filled
 * @return 0; anything else is a failure and comes back unchanged through sab_last_callback_code()
 */
typedef int32_t (*sab_size_fn)(void *ctx, int64_t index, double *size);

/** Asks a callback for each size, once, in ascending order, during this call.
 *
 * Keeps 4 bytes a sample while all sizes are whole numbers below 2^32, 8 otherwise.
 *
 * @param count         number of samples
 * @param size          called `count` times
 * @param ctx           handed to `size`
 * @param progress      follows and may cancel; NULL for none
 * @param progress_ctx  handed to `progress`
 * @param sizes         the new handle; free with sab_sizes_free()
 * @return SAB_OK; SAB_E_CALLBACK when `size` failed; SAB_E_CANCELLED; SAB_E_ARGUMENT for a size
 *     that breaks the rules above
 */
SAB_API sab_status sab_sizes_callback_new(size_t count, sab_size_fn size, void *ctx,
                                          sab_progress_fn progress, void *progress_ctx,
                                          sab_sizes **sizes) SAB_NOEXCEPT;

/** Number of samples.
 *
 * @param sizes  a handle; NULL counts 0
 * @return the count given when it was made
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

/** Gives the handle back. Plans and samplers built from it live on.
 *
 * @param sizes  a handle or NULL
 */
SAB_API void sab_sizes_free(sab_sizes *sizes) SAB_NOEXCEPT;

#ifdef __cplusplus
}
#endif

#endif
