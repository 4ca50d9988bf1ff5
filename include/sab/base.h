/** @file base.h
 * Status, the last error message, version, log and progress callbacks.
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

/* What an _INIT macro is: `struct_size`, and zero in all other fields; without a warning that
 * fields are missing. */
#ifdef __cplusplus
#define SAB_INIT(type)                       \
    {[] {                                    \
        type sab_init{};                     \
        sab_init.struct_size = sizeof(type); \
        return sab_init;                     \
    }()}
#elif defined(__STDC_VERSION__) && __STDC_VERSION__ >= 199901L
#define SAB_INIT(type) {.struct_size = sizeof(type)}
#else
#define SAB_INIT(type) {sizeof(type)}
#endif

/** Outcome of a call: 0 success, positive a normal outcome, negative a failure. Values are never
 * reused.
 */
typedef int32_t sab_status;

/** done */
#define SAB_OK 0
/** nothing is left: the epoch has no more batches */
#define SAB_END 1
/** invalid argument or size; the message names it, its value and the rule */
#define SAB_E_ARGUMENT (-1)
/** out of memory */
#define SAB_E_NO_MEMORY (-2)
/** the caller's callback failed; sab_last_error_code() has its code. Never used otherwise */
#define SAB_E_CALLBACK (-3)
/** the progress callback asked to stop; sab_last_error_code() has its code */
#define SAB_E_CANCELLED (-4)
/** a file could not be opened, read or written */
#define SAB_E_IO (-5)
/** bytes are truncated, corrupted or of another format or version */
#define SAB_E_FORMAT (-6)
/** a valid state that belongs to another plan, seed or sampler; the message has both values */
#define SAB_E_MISMATCH (-7)
/** not supported by this handle; its header says so */
#define SAB_E_UNSUPPORTED (-8)
/** a defect of the library; please report the message */
#define SAB_E_INTERNAL (-9)
/** the device has too little memory even for a batch of one sample */
#define SAB_E_DEVICE_MEMORY (-10)
/** timeout while waiting for another rank; the message names it */
#define SAB_E_TIMEOUT (-11)

/** Name of a status, such as "SAB_E_ARGUMENT".
 *
 * @param status  any value
 * @return a static string, "unknown status" for a value this library does not use
 */
SAB_API const char *sab_status_name(sab_status status) SAB_NOEXCEPT;

/** Message of the last failed call of this thread: "argument = value: rule".
 *
 * Only meaningful right after a failure. At most 1,023 bytes; UTF-8 if the caller's own text is.
 *
 * @return never NULL; "" before the first failure. The text belongs to the thread and is
 *     overwritten by its next failed call
 */
SAB_API const char *sab_last_error_message(void) SAB_NOEXCEPT;

/** The argument that the last failed call of this thread refused, such as "sizes[3]" or
 * "options.budgets[0].limit". Indices count from 0.
 *
 * @return never NULL; "" when the failure is about no argument. At most 255 bytes, which belong to
 *     the thread and are overwritten by its next failed call
 */
SAB_API const char *sab_last_error_argument(void) SAB_NOEXCEPT;

/** The value of sab_last_error_argument(), without quotes; without an argument, the file's name.
 *
 * @return never NULL; "" when the message shows no value. At most 4,095 bytes, which belong to the
 *     thread and are overwritten by its next failed call
 */
SAB_API const char *sab_last_error_value(void) SAB_NOEXCEPT;

/** The rule that the argument breaks, such as "must be finite and above 0"; for SAB_E_IO the
 * reason. Options, constants and functions have their C names in it.
 *
 * @return never NULL; "" when the failure is about no argument or file. The contents of a file
 *     break a rule such as "line 3: is empty: must be a number". At most 1,023 bytes, which
 *     belong to the thread and are overwritten by its next failed call
 */
SAB_API const char *sab_last_error_rule(void) SAB_NOEXCEPT;

/** The code of the last failed call of this thread: after SAB_E_CALLBACK and SAB_E_CANCELLED the
 * one that the caller's callback returned, unchanged; after SAB_E_IO the system's errno.
 *
 * @return that code; 0 after other failures, or when the system gave none
 */
SAB_API int32_t sab_last_error_code(void) SAB_NOEXCEPT;

/** Version of the binary interface: major * 1000 + minor. The major part is the number in
 * `libsab.so.N`.
 *
 * @return for example 1 for 0.1
 */
SAB_API uint32_t sab_abi_version(void) SAB_NOEXCEPT;

/** Version of the library.
 *
 * @return a static string such as "0.1.0"
 */
SAB_API const char *sab_version_string(void) SAB_NOEXCEPT;

/** Severity of a log message. */
typedef int32_t sab_log_level;
/** a result that the caller may not expect, such as skipped samples */
#define SAB_LOG_WARNING 1
/** information */
#define SAB_LOG_INFO 2

/** Receives a log message. Called in the thread whose call logs: any thread, and several at once.
 *
 * @param ctx      the pointer given with the callback
 * @param level    SAB_LOG_WARNING or SAB_LOG_INFO
 * @param message  one line without a newline; valid until the callback returns
 */
typedef void (*sab_log_fn)(void *ctx, sab_log_level level, const char *message);

/** Sets the log callback of the process. Without one the library writes no messages.
 *
 * To remove a callback, set another one or NULL.
 *
 * @param callback  NULL: no messages. Kept until another one is set and the calls that have begun
 *     return
 * @param ctx       passed to each call; owned by the caller
 */
SAB_API void sab_log_set_callback(sab_log_fn callback, void *ctx) SAB_NOEXCEPT;

/** Reports the progress of a long call and may cancel it.
 *
 * It is called some hundred times in a long call, always in the calling thread. Another thread can
 * cancel by setting a flag that this callback reads.
 *
 * @param ctx    the pointer given with the callback
 * @param done   work done, in the unit of `total`
 * @param total  all work of this call; may differ from call to call
 * @return 0 to continue; any other code ends the call with SAB_E_CANCELLED and is returned by
 *     sab_last_error_code()
 */
typedef int32_t (*sab_progress_fn)(void *ctx, uint64_t done, uint64_t total);

/** Options of long calls that have no others. */
typedef struct sab_progress_options {
    /** sizeof(sab_progress_options) */
    size_t struct_size;
    /** reports progress and may cancel. Kept until the call returns, or by
     *  sab_stream_set_progress() until the stream gets another one or is freed; NULL */
    sab_progress_fn progress;
    /** passed to `progress` */
    void *progress_ctx;
} sab_progress_options;
#define SAB_PROGRESS_OPTIONS_INIT SAB_INIT(sab_progress_options)

#ifdef __cplusplus
}
#endif

#endif
