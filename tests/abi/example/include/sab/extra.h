/** @file extra.h
 * Tensors.
 *
 * Tier: provisional. Functions and structs here may change or be removed in a minor release.
 */
#ifndef SAB_EXTRA_H
#define SAB_EXTRA_H

#include "sab/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A tensor of somebody else. */
struct DLManagedTensor;

/* A struct of another interface, which is not declared again. */
#ifndef ARROW_C_DATA_INTERFACE
#define ARROW_C_DATA_INTERFACE
struct ArrowArray {
    int64_t length;
};
#endif

/** A pair. Never grows. */
typedef struct sab_pair {
    int64_t first;           /**< the first */
    const sab_box *function; /**< a reserved word of Julia */
} sab_pair;

/** A thing that grows. */
typedef struct sab_thing {
    size_t struct_size; /**< set by SAB_THING_INIT */
} sab_thing;
#define SAB_THING_INIT SAB_INIT(sab_thing)

/** Packs boxes.
 *
 * @param pairs    what to pack
 * @param tensors  as many tensors
 */
SAB_API sab_status sab_pack(const sab_pair *pairs,
                            struct DLManagedTensor *const *tensors) SAB_NOEXCEPT;

/** Weighs boxes. There are other ways.
 *
 * @param boxes    `count` boxes
 * @param count    at least 1
 * @param look     how to look; NULL: by itself. Kept until the next call
 * @param ctx      passed to `look`
 * @param weights  room for `count` numbers; may be NULL
 * @param total    read and written
 */
SAB_API sab_status sab_weigh(const sab_box *const *boxes, size_t count, sab_look_fn look, void *ctx,
                             double *weights, double *total) SAB_NOEXCEPT;

#ifdef __cplusplus
}
#endif

#endif
