use std::time::Duration;

use super::*;
use crate::cache::{CacheFailure, CacheNumbers, CacheOptions, CacheStats};

fn raw_cache_options() -> sys::sab_cache_options {
    // SAFETY: the call fills the whole struct.
    unsafe { defaults(sys::sab_cache_options_init) }
}

pub(crate) fn default_cache_options() -> CacheNumbers {
    let options = raw_cache_options();
    CacheNumbers {
        writer_buffer_size: options.writer_buffer_size,
        flush_interval: Duration::from_secs_f64(options.flush_interval),
        capacity: options.capacity,
        on_failure: CacheFailure::Degrade,
        timeout: Duration::from_secs_f64(options.timeout),
        load_wait: Duration::from_secs_f64(options.load_wait),
        call_timeout: Duration::from_secs_f64(options.call_timeout),
        file_mode: options.file_mode,
        is_cluster: options.is_cluster != 0,
    }
}

/// Owns a `sab_cache`.
pub(crate) struct CacheHandle {
    pointer: NonNull<sys::sab_cache>,
}

// SAFETY: any number of threads may use a cache at once (sab/cache.h).
unsafe impl Send for CacheHandle {}
// SAFETY: as above.
unsafe impl Sync for CacheHandle {}

impl Drop for CacheHandle {
    fn drop(&mut self) {
        // SAFETY: the handle is ours and this is its last use.
        unsafe { sys::sab_cache_free(self.pointer.as_ptr()) }
    }
}

/// Owns a `sab_cache_value`.
pub(crate) struct CacheValueHandle {
    pointer: NonNull<sys::sab_cache_value>,
}

// SAFETY: values are immutable, and may be read and freed by any thread (sab/cache.h).
unsafe impl Send for CacheValueHandle {}
// SAFETY: as above.
unsafe impl Sync for CacheValueHandle {}

impl Drop for CacheValueHandle {
    fn drop(&mut self) {
        // SAFETY: the value is ours and this is its last use.
        unsafe { sys::sab_cache_value_free(self.pointer.as_ptr()) }
    }
}

impl CacheValueHandle {
    fn own(pointer: *mut sys::sab_cache_value) -> Option<Self> {
        NonNull::new(pointer).map(|pointer| CacheValueHandle { pointer })
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        let mut size = 0;
        // SAFETY: a live value, whose bytes live unchanged as long as it does.
        unsafe { slice(sys::sab_cache_value_data(self.pointer.as_ptr(), &mut size).cast(), size) }
    }
}

/// A closure that is called once, and what it gave.
struct Loading<F> {
    load: Option<F>,
    made: Vec<u8>,
}

unsafe extern "C" fn load_trampoline<F: FnOnce() -> Result<Vec<u8>, BoxError>>(
    context: *mut c_void,
    _: *const c_void,
    _: usize,
    data: *mut *const c_void,
    size: *mut usize,
) -> i32 {
    // SAFETY: `context` is the Guarded closure given with this trampoline, alive and used by nobody else during the call.
    let guarded = unsafe { &mut *context.cast::<Guarded<Loading<F>>>() };
    guarded.run(|loading| {
        let load = loading.load.take().ok_or("called for the second time")?;
        loading.made = load()?;
        // SAFETY: room for a pointer and a number; what is pointed to stays until the call that loads is over.
        unsafe {
            *data = loading.made.as_ptr().cast();
            *size = loading.made.len();
        }
        Ok(sys::SAB_OK)
    })
}

fn item(key: &[u8], value: &[u8]) -> sys::sab_cache_item {
    sys::sab_cache_item {
        key: key.as_ptr().cast(),
        key_size: key.len(),
        data: value.as_ptr().cast(),
        size: value.len(),
    }
}

impl CacheHandle {
    pub(crate) fn open(url: &str, options: &CacheOptions) -> Result<Self, Error> {
        let url = text("url", url.as_bytes())?;
        let name = options
            .dataset_name
            .as_ref()
            .map(|name| text("dataset_name", name.as_bytes()))
            .transpose()?;
        let numbers = &options.options;
        let mut given = raw_cache_options();
        given.dataset_name = name.as_ref().map_or(null(), |name| name.as_ptr());
        given.writer_buffer_size = numbers.writer_buffer_size;
        given.flush_interval = numbers.flush_interval.as_secs_f64();
        given.capacity = numbers.capacity;
        given.on_failure = match numbers.on_failure {
            CacheFailure::Degrade => sys::SAB_CACHE_DEGRADE,
            CacheFailure::Error => sys::SAB_CACHE_ERROR,
        };
        given.timeout = numbers.timeout.as_secs_f64();
        given.load_wait = numbers.load_wait.as_secs_f64();
        given.call_timeout = numbers.call_timeout.as_secs_f64();
        given.file_mode = numbers.file_mode;
        given.is_cluster = numbers.is_cluster.into();
        let mut pointer = Room::new()?;
        // SAFETY: strings that end with NUL and outlive the call, and room for a handle.
        let status = unsafe { sys::sab_cache_open(url.as_ptr(), &given, pointer.fill()) };
        let handle = owned(pointer, |pointer| CacheHandle { pointer });
        made(check(status), handle)
    }

    pub(crate) fn url(&self) -> String {
        // SAFETY: a live handle, whose URL ends with NUL and lives as long as it does.
        unsafe { CStr::from_ptr(sys::sab_cache_url(self.pointer.as_ptr())) }
            .to_string_lossy()
            .into_owned()
    }

    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<CacheValueHandle>, Error> {
        let mut value = null_mut();
        // SAFETY: a live handle, as many bytes as are said, and room for a value.
        let status = unsafe {
            sys::sab_cache_get(self.pointer.as_ptr(), key.as_ptr().cast(), key.len(), &mut value)
        };
        let value = CacheValueHandle::own(value);
        check(status).map(|_| value)
    }

    pub(crate) fn put(&self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        let item = item(key, value);
        // SAFETY: a live handle, and as many bytes as are said.
        check(unsafe {
            sys::sab_cache_put(self.pointer.as_ptr(), item.key, item.key_size, item.data, item.size)
        })
        .map(drop)
    }

    pub(crate) fn get_or_load<F>(&self, key: &[u8], load: F) -> Result<CacheValueHandle, Error>
    where
        F: FnOnce() -> Result<Vec<u8>, BoxError>,
    {
        let mut loading = Guarded::new(Loading { load: Some(load), made: Vec::new() });
        let mut value = null_mut();
        // SAFETY: a live handle, as many bytes as are said, a closure that outlives the call, and room for a value.
        let status = unsafe {
            let context = loading.context();
            sys::sab_cache_get_or_load(
                self.pointer.as_ptr(),
                key.as_ptr().cast(),
                key.len(),
                Some(load_trampoline::<F>),
                context,
                None,
                null_mut(),
                &mut value,
            )
        };
        let value = CacheValueHandle::own(value);
        made(check_with(status, &mut [&mut loading.failure]), value)
    }

    pub(crate) fn get_many(&self, keys: &[&[u8]]) -> Result<Vec<Option<CacheValueHandle>>, Error> {
        let items: Vec<_> = keys.iter().map(|key| item(key, &[])).collect();
        let mut values = vec![null_mut(); keys.len()];
        // SAFETY: a live handle, as many keys as are said, and room for as many values.
        let status = unsafe {
            sys::sab_cache_get_many(
                self.pointer.as_ptr(),
                elements(&items),
                items.len(),
                values.as_mut_ptr(),
            )
        };
        let values: Vec<_> = values.into_iter().map(CacheValueHandle::own).collect();
        check(status).map(|_| values)
    }

    pub(crate) fn put_many(&self, values: &[(&[u8], &[u8])]) -> Result<(), Error> {
        let items: Vec<_> = values.iter().map(|(key, value)| item(key, value)).collect();
        // SAFETY: a live handle, and as many items as are said.
        check(unsafe {
            sys::sab_cache_put_many(self.pointer.as_ptr(), elements(&items), items.len())
        })
        .map(drop)
    }

    pub(crate) fn flush(&self) -> Result<(), Error> {
        // SAFETY: a live handle.
        check(unsafe { sys::sab_cache_flush(self.pointer.as_ptr()) }).map(drop)
    }

    pub(crate) fn num_keys(&self) -> Result<u64, Error> {
        let mut keys = 0;
        // SAFETY: a live handle, and room for a number.
        check(unsafe { sys::sab_cache_num_keys(self.pointer.as_ptr(), &mut keys) })?;
        Ok(keys)
    }

    pub(crate) fn clear(&self) -> Result<(), Error> {
        // SAFETY: a live handle.
        check(unsafe { sys::sab_cache_clear(self.pointer.as_ptr()) }).map(drop)
    }

    pub(crate) fn stats(&self) -> CacheStats {
        let mut stats = sys::sab_cache_stats {
            struct_size: size_of::<sys::sab_cache_stats>(),
            hits: 0,
            misses: 0,
            loads: 0,
            waits: 0,
            evictions: 0,
            damaged: 0,
            failures: 0,
            dropped: 0,
            bytes_read: 0,
            bytes_written: 0,
            buffered: 0,
        };
        // SAFETY: a live handle, and a struct whose size is set.
        certain(check(unsafe { sys::sab_cache_get_stats(self.pointer.as_ptr(), &mut stats) }));
        CacheStats {
            hits: stats.hits,
            misses: stats.misses,
            loads: stats.loads,
            waits: stats.waits,
            evictions: stats.evictions,
            damaged: stats.damaged,
            failures: stats.failures,
            dropped: stats.dropped,
            bytes_read: stats.bytes_read,
            bytes_written: stats.bytes_written,
            buffered: stats.buffered,
        }
    }
}
