//! Calls of `cache.h`.

use super::*;
use crate::cache::CacheOptions;

/// Owns a `sab_cache`.
pub(crate) struct CacheHandle(Owned<sys::sab_cache>);

/// Owns a `sab_cache_value`.
pub(crate) struct CacheValueHandle(Owned<sys::sab_cache_value>);

impl CacheValueHandle {
    fn own(pointer: *mut sys::sab_cache_value) -> Option<Self> {
        Owned::of(pointer).map(CacheValueHandle)
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        let mut size = 0;
        // SAFETY: a live value, whose bytes live unchanged as long as it does.
        unsafe { slice(sys::sab_cache_value_data(self.0.pointer(), &mut size).cast(), size) }
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
    // SAFETY: `context` is the Guarded closure given with this trampoline, alive and used by nobody
    // else during the call.
    let guarded = unsafe { &mut *context.cast::<Guarded<Loading<F>>>() };
    guarded.run(|loading| {
        let load = loading.load.take().ok_or("called for the second time")?;
        loading.made = load()?;
        // SAFETY: room for a pointer and a number; the bytes stay until the call that loads is
        // over.
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
        let mut raw = *options.raw;
        raw.dataset_name = name.as_ref().map_or(null(), |name| name.as_ptr());
        // SAFETY: strings that end with NUL and outlive the call.
        make(|cache| unsafe { sys::sab_cache_new(url.as_ptr(), &raw, cache) }).map(CacheHandle)
    }

    fn pointer(&self) -> *mut sys::sab_cache {
        self.0.pointer()
    }

    pub(crate) fn url(&self) -> String {
        // SAFETY: a live handle, whose URL ends with NUL and lives as long as it does.
        unsafe { CStr::from_ptr(self.stats().url) }.to_string_lossy().into_owned()
    }

    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<CacheValueHandle>, Error> {
        let mut value = null_mut();
        // SAFETY: a live handle, as many bytes as are said, and room for a value.
        let status = unsafe {
            sys::sab_cache_get(self.pointer(), key.as_ptr().cast(), key.len(), &mut value)
        };
        let value = CacheValueHandle::own(value);
        check(status).map(|_| value)
    }

    pub(crate) fn put(&self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        let item = item(key, value);
        // SAFETY: a live handle, and as many bytes as are said.
        check(unsafe {
            sys::sab_cache_put(self.pointer(), item.key, item.key_size, item.data, item.size)
        })
        .map(drop)
    }

    pub(crate) fn get_or_load<F>(&self, key: &[u8], load: F) -> Result<CacheValueHandle, Error>
    where
        F: FnOnce() -> Result<Vec<u8>, BoxError>,
    {
        let mut loading = Guarded::new(Loading { load: Some(load), made: Vec::new() });
        let mut value = null_mut();
        // SAFETY: a live handle, as many bytes as are said, a closure that outlives the call, and
        // room for a value.
        let status = unsafe {
            let context = loading.context();
            sys::sab_cache_get_or_load(
                self.pointer(),
                key.as_ptr().cast(),
                key.len(),
                Some(load_trampoline::<F>),
                context,
                null(),
                &mut value,
            )
        };
        let value = CacheValueHandle::own(value);
        made(check_with(status, [loading.failure]), value)
    }

    pub(crate) fn get_many(&self, keys: &[&[u8]]) -> Result<Vec<Option<CacheValueHandle>>, Error> {
        let items: Vec<_> = keys.iter().map(|key| item(key, &[])).collect();
        let mut values = vec![null_mut(); keys.len()];
        // SAFETY: a live handle, as many keys as are said, and room for as many values.
        let status = unsafe {
            sys::sab_cache_get_many(
                self.pointer(),
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
        check(unsafe { sys::sab_cache_put_many(self.pointer(), elements(&items), items.len()) })
            .map(drop)
    }

    calls! {
        fn flush(&self) = sab_cache_flush;
        fn key_count(&self) -> u64 = sab_cache_get_key_count;
        fn clear(&self) = sab_cache_clear;
        fn stats(&self) -> struct sab_cache_stats = sab_cache_get_stats;
    }
}
