/** @file cache.h
 * Keeps values that are expensive to compute, such as preprocessed samples: in files (LMDB), on
 * Redis servers, or in this process.
 *
 * sab_cache_get_or_load() returns the value of a key and calls the caller's function if there is
 * none. A cache is not permanent storage: a damaged, evicted or unreachable value is a miss and is
 * computed again.
 *
 * Security: a cache trusts everyone who can write to its file or its servers. The checksum of a
 * value detects damage, not forgery: everyone who can write can replace any value. Treat values as
 * input from those users. Do not decode them with a format that runs code, such as Python's pickle
 * or Julia's Serialization, unless those users may run code in every reader. Files are created for
 * their owner only (`file_mode`). Redis sends passwords and values over the network unencrypted.
 * Replies of a server are limited in bytes and in time. So a server can return wrong values and
 * misses, but it cannot stop a reader.
 *
 * Tier: provisional. Functions and structs here may change or be removed in a minor release.
 */
#ifndef SAB_CACHE_H
#define SAB_CACHE_H

#include "sab/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A cache. Any number of threads may use it at once. */
typedef struct sab_cache sab_cache;

/** A value of a cache. Any thread may read and free it, also after the cache is freed. */
typedef struct sab_cache_value sab_cache_value;

/** Policy if the storage fails: a server is down, hangs, refuses or is full, or a file system is
 * full.
 */
typedef int32_t sab_cache_failure;
/** reads are misses and writes are dropped, and both are counted. The beginning and the end of an
 *  outage are logged. Retries after 0.1 s, then with growing delays up to 10 s */
#define SAB_CACHE_DEGRADE 0
/** calls fail with SAB_E_IO */
#define SAB_CACHE_ERROR 1

/** Options of a cache. Those of one kind of URL are not used with another, so that only the URL
 * need change. */
typedef struct sab_cache_options {
    /** set by SAB_CACHE_OPTIONS_INIT */
    size_t struct_size;
    /** values are kept under "{dataset_name}_{key}": caches of one name share their values.
     *  NULL: under the key itself; all keys belong to the cache */
    const char *dataset_name;
    /** number of values that are collected before they are written together; 0: 1. Until then
     *  they are read from the buffer, and lost if the process ends abnormally. sab_cache_flush(),
     *  sab_cache_free(), fork() and `flush_interval` also write them */
    uint64_t writer_buffer_size;
    /** seconds after which a call on this cache writes the buffer; above 0. 0: 1 */
    double flush_interval;
    /** largest number of bytes; beyond it, random values are evicted. "lmdb:": pages used by the
     *  dataset name; the file is larger while values or writes use old pages. "redis-server:": its
     *  maxmemory. Refused for "redis:", where the servers' configuration applies. 0 (default): no
     *  limit */
    uint64_t capacity;
    /** SAB_CACHE_DEGRADE */
    sab_cache_failure on_failure;
    /** Redis: seconds to connect, and for each answer or 64 KiB of a long answer; above 0. The
     *  system's own limit applies to name resolution. 0: 1 */
    double timeout;
    /** longest time in seconds to wait for a value that another thread or process computes. 0: 60;
     *  -1: does not wait */
    double load_wait;
    /** Redis: total seconds for one request to the servers, with all answers and steps of SCAN;
     *  after that `on_failure` applies. sab_cache_get_or_load() makes up to five requests besides
     *  waiting. 0 (default): 10 times `timeout` */
    double call_timeout;
    /** "lmdb:": permissions of new files, restricted by the umask: from 0600 to 0666 (octal), with
     *  read and write for the owner. Existing files keep theirs. 0 (default): 0600 */
    uint64_t file_mode;
} sab_cache_options;
#define SAB_CACHE_OPTIONS_INIT SAB_INIT(sab_cache_options)

/** Opens a cache.
 *
 * URLs:
 *
 * - "lmdb:PATH": a file, created if missing, with PATH-lock and PATH-loading beside it. Any number
 *   of processes of one machine may use it; not on network file systems. A killed process leaves it
 *   intact; a power failure may damage it. A process suspended while it writes blocks other
 *   writers. Remove all three files together, while no process has them open. Truncating them stops
 *   processes that read with SIGBUS.
 * - "redis://[USER:PASSWORD@]HOST:PORT[,[USER:PASSWORD@]HOST:PORT...][/DB]": one or several
 *   servers, to which xxHash assigns the keys. USER and PASSWORD are percent-encoded, may be empty,
 *   and also apply to the hosts that follow. HOST may be an IPv6 address in brackets. PORT is 6379
 *   by default. The user needs GET, MGET, SET, MSET and EVAL; for sab_cache_get_key_count() and
 *   sab_cache_clear() also SCAN and UNLINK.
 * - "redis-server:[PROGRAM][@ADDRESS]": starts a Redis server (by default the program
 *   "redis-server") on an address of this machine, by default the loopback interface, with a random
 *   password. It stops when this process and its children have ended, also after a crash.
 * - "memory:": in this process only.
 *
 * Use after fork(): a child opens connections and files of its own; the parent writes the buffer. A
 * child may read values that the parent got from "lmdb:" before fork(), as long as the parent keeps
 * them. Each process frees its own handles.
 *
 * @param url      see above
 * @param options  NULL: the defaults
 * @param cache    the new handle; free with sab_cache_free()
 * @return SAB_OK, also if a Redis server cannot be reached and `on_failure` is SAB_CACHE_DEGRADE;
 *     SAB_E_ARGUMENT; SAB_E_IO
 */
SAB_API sab_status sab_cache_new(const char *url, const sab_cache_options *options,
                                 sab_cache **cache) SAB_NOEXCEPT;

/** Reads the value of a key.
 *
 * @param cache     a handle
 * @param key       `key_size` bytes
 * @param key_size  at least 1, at most 2^20
 * @param value     the new handle; free with sab_cache_value_free(); NULL if there is none, and on
 *     failure. From "lmdb:" it is a view of the file: while it is held, values that are evicted or
 *     overwritten still take space there. If values of more than 64 states of the file are held, it
 *     is a copy
 * @return SAB_OK, also if there is none; SAB_E_ARGUMENT; SAB_E_IO
 */
SAB_API sab_status sab_cache_get(sab_cache *cache, const void *key, size_t key_size,
                                 sab_cache_value **value) SAB_NOEXCEPT;

/** Writes a value, replacing an existing one.
 *
 * @param cache     a handle
 * @param key       `key_size` bytes
 * @param key_size  at least 1, at most 2^20
 * @param data      `size` bytes, copied; may be NULL if `size` is 0
 * @param size      at most 2^31 - 1 (Redis: 2^29 - 16, larger ones are dropped)
 * @return SAB_OK; SAB_E_ARGUMENT; SAB_E_IO
 */
SAB_API sab_status sab_cache_put(sab_cache *cache, const void *key, size_t key_size,
                                 const void *data, size_t size) SAB_NOEXCEPT;

/** Computes a value.
 *
 * @param ctx       the pointer given with the callback
 * @param key       `key_size` bytes
 * @param key_size  number of bytes
 * @param data      to be set to the value's bytes, which must stay valid until
 *     sab_cache_get_or_load() returns
 * @param size      to be set to their number
 * @return 0; any other code is a failure, which sab_last_error_code() returns; then nothing is
 *     written
 */
typedef int32_t (*sab_cache_load_fn)(void *ctx, const void *key, size_t key_size, const void **data,
                                     size_t *size);

/** Reads the value of a key, or computes it with `load` if there is none.
 *
 * While one caller computes a value, other callers with the same key wait for it: threads of this
 * process and, with "lmdb:" and Redis, other processes (with Redis also of other machines). They
 * compute it themselves after `load_wait` seconds, or at once if the first caller fails or is
 * killed, or if threads would wait for each other. `load` may use the cache, also for this key.
 *
 * @param cache     a handle
 * @param key       `key_size` bytes
 * @param key_size  at least 1, at most 2^20
 * @param load      called at most once, in this thread
 * @param ctx       passed to `load`
 * @param options   `progress` is called from time to time while the call waits, with the elapsed
 *     milliseconds and those of `load_wait`; NULL: no progress
 * @param value     the new handle; free with sab_cache_value_free(); NULL on failure
 * @return SAB_OK; SAB_E_ARGUMENT; SAB_E_CALLBACK; SAB_E_CANCELLED from `progress`; SAB_E_IO
 */
SAB_API sab_status sab_cache_get_or_load(sab_cache *cache, const void *key, size_t key_size,
                                         sab_cache_load_fn load, void *ctx,
                                         const sab_progress_options *options,
                                         sab_cache_value **value) SAB_NOEXCEPT;

/** A key and its value. */
typedef struct sab_cache_item {
    const void *key;  /**< `key_size` bytes */
    size_t key_size;  /**< at least 1, at most 2^20 */
    const void *data; /**< for writing: `size` bytes */
    size_t size;      /**< for writing: as for sab_cache_put() */
} sab_cache_item;

/** Reads the values of many keys with one request to each server, or one transaction.
 *
 * @param cache   a handle
 * @param items   `count` keys
 * @param count   number of `items`
 * @param values  room for `count` values, each as of sab_cache_get(); all NULL on failure
 * @return SAB_OK; SAB_E_ARGUMENT; SAB_E_IO
 */
SAB_API sab_status sab_cache_get_many(sab_cache *cache, const sab_cache_item *items, size_t count,
                                      sab_cache_value **values) SAB_NOEXCEPT;

/** Writes many values at once, without the buffer.
 *
 * @param cache  a handle
 * @param items  `count` keys and values; of equal keys the last one is kept
 * @param count  number of `items`
 * @return SAB_OK; SAB_E_ARGUMENT; SAB_E_IO
 */
SAB_API sab_status sab_cache_put_many(sab_cache *cache, const sab_cache_item *items, size_t count)
    SAB_NOEXCEPT;

/** Writes the buffer.
 *
 * @param cache  a handle
 * @return SAB_OK; SAB_E_IO
 */
SAB_API sab_status sab_cache_flush(sab_cache *cache) SAB_NOEXCEPT;

/** Counts the keys of the cache's dataset name (all keys if it has none), after a flush. Redis:
 * scans all keys of the servers.
 *
 * @param cache  a handle
 * @param keys   filled on SAB_OK; with SAB_CACHE_DEGRADE unreachable servers are not counted
 * @return SAB_OK; SAB_E_IO
 */
SAB_API sab_status sab_cache_get_key_count(sab_cache *cache, uint64_t *keys) SAB_NOEXCEPT;

/** Removes all keys of the cache's dataset name, for all processes. On Redis these are the keys
 * that begin with "{dataset_name}_"; without a name all keys.
 *
 * @param cache  a handle
 * @return SAB_OK; SAB_E_IO
 */
SAB_API sab_status sab_cache_clear(sab_cache *cache) SAB_NOEXCEPT;

/** Statistics of a cache in this process since it was opened. */
typedef struct sab_cache_stats {
    size_t struct_size;     /**< set by SAB_CACHE_STATS_INIT */
    uint64_t hits;          /**< values found */
    uint64_t misses;        /**< values not found, including damaged ones and failures */
    uint64_t loads;         /**< values computed by `load` */
    uint64_t waits;         /**< values that another caller computed meanwhile */
    uint64_t evictions;     /**< values evicted by this process ("lmdb:", "memory:") */
    uint64_t damaged;       /**< values with a wrong checksum: misses */
    uint64_t failures;      /**< calls that could not reach the storage */
    uint64_t dropped;       /**< values that could not be written */
    uint64_t bytes_read;    /**< bytes of values found */
    uint64_t bytes_written; /**< bytes of values written */
    uint64_t buffered;      /**< values in the buffer now */
    /** of the cache, for other processes: with passwords; for a file the absolute path without
     *  symlinks; for "redis-server:" that of the started server. Belongs to the cache */
    const char *url;
} sab_cache_stats;
#define SAB_CACHE_STATS_INIT SAB_INIT(sab_cache_stats)

/** Reads the statistics.
 *
 * @param cache  a handle
 * @param stats  filled on SAB_OK; its struct_size must be set
 * @return SAB_OK; SAB_E_ARGUMENT
 */
SAB_API sab_status sab_cache_get_stats(const sab_cache *cache, sab_cache_stats *stats) SAB_NOEXCEPT;

/** The bytes of a value.
 *
 * @param value  a value
 * @param size   filled with their number; may be NULL
 * @return owned by the value; NULL for NULL
 */
SAB_API const void *sab_cache_value_data(const sab_cache_value *value, size_t *size) SAB_NOEXCEPT;

/** Frees a value.
 *
 * @param value  a value or NULL
 */
SAB_API void sab_cache_value_free(sab_cache_value *value) SAB_NOEXCEPT;

/** Writes the buffer and frees the handle. No other call on it may be running.
 *
 * @param cache  a handle or NULL
 */
SAB_API void sab_cache_free(sab_cache *cache) SAB_NOEXCEPT;

#ifdef __cplusplus
}
#endif

#endif
