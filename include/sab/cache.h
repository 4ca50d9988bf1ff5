/** @file cache.h
 * Values that are expensive to make, such as preprocessed samples, made once and kept: in this
 * machine's files (LMDB), on Redis servers, or in this process.
 *
 * sab_cache_get_or_load() gives the value of a key, made by the caller's function where nobody has
 * made it. A cache is no store of record: what is damaged, evicted or out of reach is a miss, and
 * made again.
 *
 * Security: a cache trusts everyone who can write to its file or its servers. The checksum of a
 * value finds damage, not forgery: whoever can write can replace any value. Treat values as input
 * from those users, and do not decode them with a format that runs code, such as Python's pickle or
 * Julia's Serialization, unless they may run code in every reader. Files are created for their
 * owner only (`file_mode`). Redis sends passwords and values over the network unencrypted. Answers
 * of a server are bounded in bytes and in time, so that a server can give wrong values and misses
 * but cannot stop a reader.
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

/** Bytes out of a cache; may be read and freed by any thread, also after the cache is. */
typedef struct sab_cache_value sab_cache_value;

/** What to do when the place where values are kept is out of reach: a server down, hanging,
 * refusing or full, a file system full.
 */
typedef int32_t sab_cache_failure;
/** reads are misses and writes are dropped, both counted; a line of the log says so once, and once
 *  when it is over. Tried again after 0.1 s, then ever later, up to 10 s */
#define SAB_CACHE_DEGRADE 0
/** calls fail with SAB_E_IO */
#define SAB_CACHE_ERROR 1

/** How to keep values. */
typedef struct sab_cache_options {
    /** set by SAB_CACHE_OPTIONS_INIT */
    size_t struct_size;
    /** values are kept under "{dataset_name}_{key}": caches of one name share and overwrite each
     *  other's. NULL (default): under the key as it is; all keys are the cache's */
    const char *dataset_name;
    /** values to collect before they are written together; at least 1. Until then they are read
     *  from the buffer, and lost with the process. They are also written by sab_cache_flush(),
     *  sab_cache_free(), before a fork(), and as `flush_interval` says. 1 */
    uint64_t writer_buffer_size;
    /** seconds after which a call of this cache writes what is in the buffer; above 0. 1 */
    double flush_interval;
    /** bytes to keep; when there are more, values are evicted at random. "lmdb:": of pages in use
     *  by the dataset name; the file is larger by what values that are held and writes that are
     *  under way keep. "redis-server:": its maxmemory. Of servers that are there already it is
     *  their own matter. 0 (default): no bound */
    uint64_t capacity;
    /** SAB_CACHE_DEGRADE */
    sab_cache_failure on_failure;
    /** Redis: 1: the servers are a Redis Cluster, any node of which is enough; 0 (default): keys
     *  are dealt out to the servers by xxHash */
    int32_t is_cluster;
    /** Redis: seconds to connect, and for each answer, or 64 KiB of a long one; above 0. A host's
     *  name is looked up for as long as the system does. 1 */
    double timeout;
    /** seconds to wait at most while somebody else makes a value, before making it, too; at least
     *  0. 60 */
    double load_wait;
    /** Redis: seconds in all for one request of a call to its servers, with all answers,
     *  redirections, and steps of SCAN; when it is over, the call fails as `on_failure` says. A
     *  sab_cache_get_or_load() makes up to five requests besides waiting. 0 (default): 10 times
     *  `timeout` */
    double call_timeout;
    /** "lmdb:": permissions of the files that are created, less the umask: from 0600 to 0666
     *  (octal), with read and write for the owner. Files that exist keep theirs. 0 (default):
     *  0600 */
    uint64_t file_mode;
} sab_cache_options;
#define SAB_CACHE_OPTIONS_INIT \
    {sizeof(sab_cache_options), NULL, 1, 1, 0, SAB_CACHE_DEGRADE, 0, 1, 60, 0, 0}

/** Sets the defaults, the same as SAB_CACHE_OPTIONS_INIT: for languages without C's macros.
 *
 * @param options      filled; NULL is ignored
 * @param struct_size  size of the caller's sab_cache_options; exactly this many bytes are
 *     written
 */
SAB_API void sab_cache_options_init(sab_cache_options *options, size_t struct_size) SAB_NOEXCEPT;

/** Opens a cache.
 *
 * Use after fork(): a child goes on with connections and files of its own; what was in the buffer
 * is the parent's to write. Values that were got before are the parent's, too: a child may read
 * those from "lmdb:" as long as the parent lives and holds them, and frees its own.
 *
 * @param url      "lmdb:PATH": a file, made when it is not there, and PATH-lock and PATH-loading
 *     beside it. Any number of processes of one machine at once; not on network file systems. A
 *     process that is killed leaves it whole; a machine that loses power may damage it. One that is
 *     stopped while it writes holds up the others' writes. Remove all three files, and when nobody
 *     has them open: whoever has goes on with what was there and writes no more; cutting them short
 *     ends processes that read
 *     "redis://[USER:PASSWORD@]HOST:PORT[,[USER:PASSWORD@]HOST:PORT...][/DB]": one or many servers;
 *     USER and PASSWORD percent-encoded, either may be empty, for the hosts that follow, too; HOST
 *     may be an IPv6 address in brackets; PORT 6379 when left out. The user must be allowed GET,
 *     MGET, SET, MSET and EVAL, for sab_cache_key_count() and sab_cache_clear() SCAN and UNLINK
 *     "redis-server:[PROGRAM][@ADDRESS]": starts a Redis server (the program "redis-server" by
 *     default) on an address of this machine, the loopback interface by default, with a password of
 *     its own. It ends with this process, however that ends, and its children. "memory:": in this
 *     process only
 * @param options  NULL: the defaults
 * @param cache    the new handle; free with sab_cache_free()
 * @return SAB_OK, also when a Redis server cannot be reached and `on_failure` is SAB_CACHE_DEGRADE;
 *     SAB_E_ARGUMENT; SAB_E_IO
 */
SAB_API sab_status sab_cache_new(const char *url, const sab_cache_options *options,
                                 sab_cache **cache) SAB_NOEXCEPT;

/** Where the cache is, for others to open: the URL with passwords, that of a file without symbolic
 * links and whatever the working directory, and for "redis-server:" that of the server which was
 * started.
 *
 * @param cache  a handle
 * @return belongs to the cache; "" for NULL
 */
SAB_API const char *sab_cache_url(const sab_cache *cache) SAB_NOEXCEPT;

/** Gives the value of a key.
 *
 * @param cache     a handle
 * @param key       `key_size` bytes
 * @param key_size  at least 1, at most 2^20
 * @param value     the value, to be freed with sab_cache_value_free(); NULL when there is none, and
 *     on failure. From "lmdb:" it is a view of the file, as long as it is held what was evicted or
 *     overwritten since keeps its place there; of more than 64 states of the file, a copy
 * @return SAB_OK, also when there is none; SAB_E_ARGUMENT; SAB_E_IO
 */
SAB_API sab_status sab_cache_get(sab_cache *cache, const void *key, size_t key_size,
                                 sab_cache_value **value) SAB_NOEXCEPT;

/** Keeps a value, over one that is there.
 *
 * @param cache     a handle
 * @param key       `key_size` bytes
 * @param key_size  at least 1, at most 2^20
 * @param data      `size` bytes, copied; may be NULL when there are none
 * @param size      at most 2^31 - 1 (Redis: 2^29 - 16, larger ones are dropped)
 * @return SAB_OK; SAB_E_ARGUMENT; SAB_E_IO
 */
SAB_API sab_status sab_cache_put(sab_cache *cache, const void *key, size_t key_size,
                                 const void *data, size_t size) SAB_NOEXCEPT;

/** Makes a value.
 *
 * @param ctx       the pointer given with the callback
 * @param key       `key_size` bytes
 * @param key_size  number of bytes
 * @param data      to be set to the value's bytes, which must stay until the call that loads
 *     returns
 * @param size      to be set to their number
 * @return 0; anything else is kept for sab_last_callback_code(), and nothing is kept in the cache
 */
typedef int32_t (*sab_cache_load_fn)(void *ctx, const void *key, size_t key_size, const void **data,
                                     size_t *size);

/** Gives the value of a key, made by `load` where there is none.
 *
 * While one makes it, others who ask for the same key wait for it: threads of this process, and
 * with "lmdb:" and Redis other processes, on Redis other machines. They wait `load_wait` seconds at
 * most, then make it themselves; at once when the one who makes it fails or is killed, and where
 * threads would wait for each other. `load` may use the cache, for this key too.
 *
 * @param cache     a handle
 * @param key       `key_size` bytes
 * @param key_size  at least 1, at most 2^20
 * @param load      called at most once, in this thread
 * @param ctx       handed to `load`
 * @param progress  called now and then while the call waits for somebody else, with the
 *     milliseconds so far and those of `load_wait`; may end the call; NULL for none
 * @param progress_ctx  handed to `progress`
 * @param value     the value, to be freed with sab_cache_value_free(); NULL on failure
 * @return SAB_OK; SAB_E_ARGUMENT; SAB_E_CALLBACK; SAB_E_CANCELLED from `progress`; SAB_E_IO
 */
SAB_API sab_status sab_cache_get_or_load(sab_cache *cache, const void *key, size_t key_size,
                                         sab_cache_load_fn load, void *ctx,
                                         sab_progress_fn progress, void *progress_ctx,
                                         sab_cache_value **value) SAB_NOEXCEPT;

/** A key and its value. */
typedef struct sab_cache_item {
    const void *key;  /**< `key_size` bytes */
    size_t key_size;  /**< at least 1, at most 2^20 */
    const void *data; /**< to put: `size` bytes */
    size_t size;      /**< to put: as for sab_cache_put() */
} sab_cache_item;

/** Gives the values of many keys at once: by one request to each server, or one transaction.
 *
 * @param cache   a handle
 * @param items   `count` keys
 * @param count   number of `items`
 * @param values  room for `count` values, each as of sab_cache_get(); all NULL on failure
 * @return SAB_OK; SAB_E_ARGUMENT; SAB_E_IO
 */
SAB_API sab_status sab_cache_get_many(sab_cache *cache, const sab_cache_item *items, size_t count,
                                      sab_cache_value **values) SAB_NOEXCEPT;

/** Keeps many values at once, past the buffer.
 *
 * @param cache  a handle
 * @param items  `count` keys and values; of equal keys the last counts
 * @param count  number of `items`
 * @return SAB_OK; SAB_E_ARGUMENT; SAB_E_IO
 */
SAB_API sab_status sab_cache_put_many(sab_cache *cache, const sab_cache_item *items, size_t count)
    SAB_NOEXCEPT;

/** Writes what is in the buffer.
 *
 * @param cache  a handle
 * @return SAB_OK; SAB_E_IO
 */
SAB_API sab_status sab_cache_flush(sab_cache *cache) SAB_NOEXCEPT;

/** Counts the keys of the cache's dataset name (all keys where it has none), after a flush. Redis:
 * by walking through all keys of the servers.
 *
 * @param cache  a handle
 * @param keys   filled on SAB_OK; with SAB_CACHE_DEGRADE without those of servers that are out of
 *     reach
 * @return SAB_OK; SAB_E_IO
 */
SAB_API sab_status sab_cache_key_count(sab_cache *cache, uint64_t *keys) SAB_NOEXCEPT;

/** Removes all keys of the cache's dataset name, for everybody. On Redis those are all that begin
 * with "{dataset_name}_"; without a name all that there are.
 *
 * @param cache  a handle
 * @return SAB_OK; SAB_E_IO
 */
SAB_API sab_status sab_cache_clear(sab_cache *cache) SAB_NOEXCEPT;

/** What a cache has done since it was opened, in this process. */
typedef struct sab_cache_stats {
    size_t struct_size;     /**< set by SAB_CACHE_STATS_INIT */
    uint64_t hits;          /**< values that were there */
    uint64_t misses;        /**< values that were not, damaged ones and failures among them */
    uint64_t loads;         /**< values made by `load` */
    uint64_t waits;         /**< values that somebody else made meanwhile */
    uint64_t evictions;     /**< values evicted by this process ("lmdb:", "memory:") */
    uint64_t damaged;       /**< values whose checksum was wrong: misses */
    uint64_t failures;      /**< calls that could not reach their place */
    uint64_t dropped;       /**< values that could not be written */
    uint64_t bytes_read;    /**< of values that were there */
    uint64_t bytes_written; /**< of values written */
    uint64_t buffered;      /**< values in the buffer now */
} sab_cache_stats;
#define SAB_CACHE_STATS_INIT {sizeof(sab_cache_stats), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}

/** Says what a cache has done.
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
 * @return belong to the value; NULL for NULL
 */
SAB_API const void *sab_cache_value_data(const sab_cache_value *value, size_t *size) SAB_NOEXCEPT;

/** Gives a value back.
 *
 * @param value  a value or NULL
 */
SAB_API void sab_cache_value_free(sab_cache_value *value) SAB_NOEXCEPT;

/** Writes what is in the buffer and gives the handle back. No other call on it may be under way.
 *
 * @param cache  a handle or NULL
 */
SAB_API void sab_cache_free(sab_cache *cache) SAB_NOEXCEPT;

#ifdef __cplusplus
}
#endif

#endif
