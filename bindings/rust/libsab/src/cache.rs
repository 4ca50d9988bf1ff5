//! Values that are made once and kept, in files or on Redis servers.

use std::fmt;
use std::ops::Deref;
use std::time::Duration;

pub use crate::choices::CacheFailure;
use crate::error::{BoxError, Error};
use crate::options::{options, setters};
pub use crate::raw::results::CacheStats;
use crate::raw::{CacheHandle, CacheValueHandle};

options! {
/// Options of a [`Cache`]. By default every value is written at once, without a limit.
pub struct CacheOptions: sab_cache_options {
    dataset_name: Option<String>,
}
}

impl CacheOptions {
    setters! {
        /// Values to collect before they are written together. They are also written by
        /// [`Cache::flush`], when the cache is dropped, before a fork, and after
        /// [`flush_interval`](Self::flush_interval). 1, and so is 0.
        writer_buffer_size(values: u64) => writer_buffer_size = values;
        /// Time after which a call of the cache writes the values in the buffer. A second, and
        /// so is zero.
        flush_interval(interval: Duration) => flush_interval = interval.as_secs_f64();
        /// Bytes to keep; when there are more, values are evicted at random. Not for Redis servers
        /// that are running already.
        capacity(bytes: u64) => capacity = bytes;
        /// Behaviour when the store is unreachable; [`CacheFailure::Degrade`].
        on_failure(on_failure: CacheFailure) => on_failure = on_failure.raw();
        /// Timeout for a Redis server. A second, and so is zero.
        timeout(timeout: Duration) => timeout = timeout.as_secs_f64();
        /// Longest wait for a value that another caller makes, before making it, too.
        load_wait(wait: Duration) => load_wait = match wait.as_secs_f64() {
            0.0 => -1.0, // 0 of the library is its default
            seconds => seconds,
        };
        /// Timeout for one request to the Redis servers, with all its answers. Zero, the default, is
        /// 10 times [`timeout`](Self::timeout).
        call_timeout(timeout: Duration) => call_timeout = timeout.as_secs_f64();
        /// `lmdb:`: permissions of the files that are created, less the umask, from `0o600`, the
        /// default, to `0o666`.
        file_mode(mode: u32) => file_mode = mode.into();
    }

    /// Values are kept under `{name}_{key}`: caches of one name share and overwrite each other's.
    /// Without a name, under the key as it is.
    pub fn dataset_name(mut self, name: impl Into<String>) -> Self {
        self.dataset_name = Some(name.into());
        self
    }
}

/// A value of a cache, as bytes. With `lmdb:` a view of the file.
pub struct CacheValue {
    handle: CacheValueHandle,
}

impl Deref for CacheValue {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.handle.bytes()
    }
}

impl fmt::Debug for CacheValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CacheValue({} bytes)", self.len())
    }
}

/// Values that are expensive to make, made once and kept. Any number of threads may use it at once.
///
/// # Security
///
/// A cache trusts everyone who can write to its file or its servers: they can replace any value.
/// Decode values as input from those users. Files are created for their owner only
/// ([`CacheOptions::file_mode`]).
///
/// ```
/// use libsab::{Cache, CacheOptions};
///
/// let cache = Cache::open("memory:", &CacheOptions::new().dataset_name("glosses"))?;
/// for _ in 0..2 {
///     let value = cache.get_or_load("7", || Ok(b"made once".to_vec()))?;
///     assert_eq!(&value[..], b"made once");
/// }
/// assert_eq!(cache.stats().loads, 1);
/// # Ok::<(), libsab::Error>(())
/// ```
pub struct Cache {
    handle: CacheHandle,
}

impl Cache {
    /// Opens `lmdb:PATH`, `redis://[USER:PASSWORD@]HOST:PORT[,HOST:PORT...][/DB]`,
    /// `redis-server:[PROGRAM][@ADDRESS]`, which starts a server that ends with this process, or
    /// `memory:`.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for a URL or an option that breaks a rule; [`Error::Io`].
    pub fn open(url: &str, options: &CacheOptions) -> Result<Self, Error> {
        Ok(Cache { handle: CacheHandle::open(url, options)? })
    }

    /// URL of the cache, with passwords; for `redis-server:` that of the server which was
    /// started.
    #[must_use]
    pub fn url(&self) -> String {
        self.handle.url()
    }

    /// The value of a key.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for an empty key; [`Error::Io`].
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<CacheValue>, Error> {
        Ok(self.handle.get(key.as_ref())?.map(|handle| CacheValue { handle }))
    }

    /// Stores a value, and replaces an earlier one.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for an empty key; [`Error::Io`].
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<(), Error> {
        self.handle.put(key.as_ref(), value.as_ref())
    }

    /// The value of a key, made by `load` where there is none. While one makes it, others who ask
    /// for the same key wait for it, as long as [`CacheOptions::load_wait`] says at most: threads,
    /// and processes that share the file or the servers.
    ///
    /// # Errors
    ///
    /// [`Error::Callback`] with the closure's own; [`Error::Argument`] for an empty key;
    /// [`Error::Io`].
    pub fn get_or_load(
        &self,
        key: impl AsRef<[u8]>,
        load: impl FnOnce() -> Result<Vec<u8>, BoxError>,
    ) -> Result<CacheValue, Error> {
        Ok(CacheValue { handle: self.handle.get_or_load(key.as_ref(), load)? })
    }

    /// The values of many keys, by one request to each server or one transaction.
    pub fn get_many<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<CacheValue>>, Error> {
        let keys: Vec<_> = keys.iter().map(AsRef::as_ref).collect();
        Ok(self
            .handle
            .get_many(&keys)?
            .into_iter()
            .map(|value| value.map(|handle| CacheValue { handle }))
            .collect())
    }

    /// Keeps many values, past the buffer; of equal keys the last counts.
    pub fn put_many<K: AsRef<[u8]>, V: AsRef<[u8]>>(&self, items: &[(K, V)]) -> Result<(), Error> {
        let items: Vec<_> =
            items.iter().map(|(key, value)| (key.as_ref(), value.as_ref())).collect();
        self.handle.put_many(&items)
    }

    /// Writes what is in the buffer.
    ///
    /// # Errors
    ///
    /// [`Error::Io`].
    pub fn flush(&self) -> Result<(), Error> {
        self.handle.flush()
    }

    /// Number of keys of the dataset name, of all keys without one; on Redis by walking through all
    /// keys of the servers.
    ///
    /// # Errors
    ///
    /// [`Error::Io`].
    pub fn key_count(&self) -> Result<u64, Error> {
        self.handle.key_count()
    }

    /// Removes all keys of the dataset name from the store.
    ///
    /// # Errors
    ///
    /// [`Error::Io`].
    pub fn clear(&self) -> Result<(), Error> {
        self.handle.clear()
    }

    /// Counters of this cache, in this process.
    #[must_use]
    pub fn stats(&self) -> CacheStats {
        CacheStats::of(&self.handle.stats())
    }
}

impl fmt::Debug for Cache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cache({:?})", self.stats())
    }
}
