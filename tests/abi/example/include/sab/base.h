/** @file base.h
 * Status and boxes.
 *
 * Tier: stable.
 */
#ifndef SAB_BASE_H
#define SAB_BASE_H

#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
#define SAB_API
#elif defined(__GNUC__)
#define SAB_API __attribute__((visibility("default")))
#else
#define SAB_API
#endif

#ifdef __cplusplus
#define SAB_NOEXCEPT noexcept
extern "C" {
#else
#define SAB_NOEXCEPT
#endif

/* ---- Constants ---- */

/** Outcome of a call. */
typedef int32_t sab_status;
/** done */
#define SAB_OK 0
#define SAB_E_ARGUMENT (-1) /**< an argument breaks a rule,
                             * on two lines */

/** How a box is closed. */
typedef int32_t sab_lid;
/** it is not */
#define SAB_LID_OPEN 0
/** by a lid that can be lifted */
#define SAB_LID_NOT_LOCKED 1

/** A box. */
typedef struct sab_box sab_box;

/** Looks at a box. */
typedef sab_status (*sab_look_fn)(void *ctx, const sab_box *box, double *const *weights);

/** The faces of a box. */
typedef struct sab_faces {
    uint32_t colours[6]; /**< one a side */
} sab_faces;

/** How a box is made. */
typedef struct sab_box_options {
    /** set by SAB_BOX_OPTIONS_INIT */
    size_t struct_size;
    const double *weights; /**< NULL */
    /** called once with `ctx`,
     *  in any thread */
    int32_t (*release)(void *ctx,
                       uint64_t count);
    /** 0. @since 0.2 */
    uint64_t end;
} sab_box_options;
#define SAB_BOX_OPTIONS_INIT \
    SAB_INIT(sab_box_options)

/** Makes a box.
 *
 * @param name     of the box
 * @param look     called for each box
 * @param release  called once
 * @param box      the new handle
 * @return SAB_OK; SAB_E_ARGUMENT
 */
SAB_API sab_status
sab_box_new(const char *name, sab_look_fn look,
            void (*release)(void *ctx),
            sab_box **box) SAB_NOEXCEPT;

/** The name of a status. @since 0.2
 *
 * @return a static string
 */
SAB_API const char *sab_name(void) SAB_NOEXCEPT;

#ifdef __cplusplus
}
#endif

#endif
