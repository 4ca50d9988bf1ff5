//! Owned handles, structs that the library fills, and arrays that it writes.

#[cfg(feature = "stream")]
use std::mem::forget;
use std::mem::{size_of, MaybeUninit};
use std::ops::{Deref, DerefMut};
use std::ptr::{null_mut, NonNull};
use std::sync::OnceLock;

use sab_sys as sys;

use super::{abi_version, check, resume_released};
use crate::error::Error;

// ---- handles ----------------------------------------------------------------------------------

/// An opaque type of the library, and how it is freed.
pub(crate) trait Handle {
    /// # Safety
    ///
    /// `handle` is live and is not used again.
    unsafe fn free(handle: *mut Self);
}

/// Owns a handle of the library: frees it once.
pub(crate) struct Owned<T: Handle>(NonNull<T>);

impl<T: Handle> Owned<T> {
    /// Takes over a handle that the library gave; NULL is none.
    pub(crate) fn of(pointer: *mut T) -> Option<Self> {
        NonNull::new(pointer).map(Owned)
    }

    pub(crate) fn pointer(&self) -> *mut T {
        self.0.as_ptr()
    }

    /// Passes the handle to the library, which frees it.
    #[cfg(feature = "stream")]
    pub(crate) fn give(self) -> *mut T {
        let pointer = self.pointer();
        forget(self);
        pointer
    }

    /// Replaces the handle by one that the library made of it, and that frees it.
    #[cfg(feature = "stream")]
    pub(crate) fn become_part_of(&mut self, whole: Self) {
        forget(std::mem::replace(self, whole));
    }
}

impl<T: Handle> Drop for Owned<T> {
    fn drop(&mut self) {
        // SAFETY: the handle is owned, and this is its last use.
        unsafe { T::free(self.pointer()) };
        resume_released();
    }
}

/// The handles of the library, how each is freed, and which threads may use it: `Sync` where every
/// call takes it as const, `Send` where it is tied to no thread.
macro_rules! handles {
    ($($handle:ident, $free:ident $(, $marker:ident)*;)*) => {$(
        impl Handle for sys::$handle {
            unsafe fn free(handle: *mut Self) {
                // SAFETY: the caller's promise.
                unsafe { sys::$free(handle) }
            }
        }

        $(
            // SAFETY: the header says so ("Threads" in sab.h, and at the type).
            unsafe impl $marker for Owned<sys::$handle> {}
        )*
    )*};
}

handles! {
    sab_sizes, sab_sizes_free, Send, Sync;
    sab_cost, sab_cost_free, Send, Sync;
    sab_plan, sab_plan_free, Send, Sync;
    sab_histogram, sab_histogram_free, Send, Sync;
    sab_packing, sab_packing_free, Send, Sync;
    sab_grouping, sab_grouping_free, Send, Sync;
    sab_context_plan, sab_context_plan_free, Send, Sync;
    sab_step_plan, sab_step_plan_free, Send, Sync;
    sab_memory_model, sab_memory_model_free, Send, Sync;
    sab_peaks, sab_peaks_free, Send, Sync;
    sab_sampler, sab_sampler_free, Send;
    sab_torch_store, sab_torch_store_free, Send;
    sab_probe, sab_probe_free;
    sab_memory_guard, sab_memory_guard_free;
}

#[cfg(feature = "cache")]
handles! {
    sab_cache, sab_cache_free, Send, Sync;
    sab_cache_value, sab_cache_value_free, Send, Sync;
}

#[cfg(feature = "stream")]
handles! {
    sab_stream, sab_stream_free, Send;
}

/// Whether the library has the binary interface of the declarations: the same major version, and no
/// older minor one.
pub(super) fn check_abi(found: u32) -> Result<(), Error> {
    let (major, minor) = (sys::ABI_VERSION / 1000, sys::ABI_VERSION % 1000);
    if found / 1000 == major && found % 1000 >= minor {
        return Ok(());
    }
    let (found_major, found_minor) = (found / 1000, found % 1000);
    Err(Error::unsupported(format!(
        "libsab's binary interface = {found_major}.{found_minor}: must be {major}.{minor} or a \
         later {major}.x; the loaded libsab is not the one that this program was built for"
    )))
}

/// Runs a constructor, given the address for its handle. Refuses a library of another version, so
/// that no handle of one exists.
pub(crate) fn construct<T: Handle>(
    call: impl FnOnce(*mut *mut T) -> sys::sab_status,
) -> Result<(sys::sab_status, Option<Owned<T>>), Error> {
    static FOUND: OnceLock<u32> = OnceLock::new();
    check_abi(*FOUND.get_or_init(abi_version))?;
    let mut pointer = null_mut();
    let status = call(&mut pointer);
    Ok((status, Owned::of(pointer)))
}

/// The handle of a constructor, unless it failed.
pub(crate) fn made<H>(
    status: Result<sys::sab_status, Error>,
    handle: Option<H>,
) -> Result<H, Error> {
    status?;
    handle.ok_or_else(|| Error::internal("a constructor gave no handle"))
}

/// Runs a constructor that uses no closures.
pub(crate) fn make<T: Handle>(
    call: impl FnOnce(*mut *mut T) -> sys::sab_status,
) -> Result<Owned<T>, Error> {
    let (status, handle) = construct(call)?;
    made(check(status), handle)
}

// ---- structs ----------------------------------------------------------------------------------

/// A struct of the library that begins with its own size.
///
/// # Safety
///
/// It has numbers, pointers and optional functions only, so that all of it may be zero.
pub(crate) unsafe trait Struct: Copy {
    fn set_size(&mut self);
}

macro_rules! structs {
    ($($name:ident,)*) => {$(
        // SAFETY: numbers, pointers and optional functions.
        unsafe impl Struct for sys::$name {
            fn set_size(&mut self) {
                self.struct_size = size_of::<Self>();
            }
        }
    )*};
}

structs! {
    sab_balanced_report,
    sab_batch,
    sab_block,
    sab_bucket,
    sab_context_plan_view,
    sab_grouping_view,
    sab_max_batch,
    sab_mixture_report,
    sab_mixture_source,
    sab_memory_guard_info,
    sab_memory_model_info,
    sab_probe_stats,
    sab_packed_info,
    sab_peaks_view,
    sab_rows,
    sab_step,
    sab_step_plan_view,
    sab_plan_info,
    sab_histogram_info,
    sab_places,
    sab_ragged,
    sab_plan_report,
    sab_shape,
    sab_thresholds_info,
    sab_torch_info,
    sab_verification,
    sab_progress_options,
    sab_verification_options,
    sab_balanced_options,
    sab_step_in_chunks_options,
    sab_collect_peak_options,
    sab_context_options,
    sab_max_batch_options,
    sab_bagua_options,
    sab_measurement_options,
    sab_memory_guard_options,
    sab_memory_model_options,
    sab_mixture_options,
    sab_packed_options,
    sab_pad_options,
    sab_partition_options,
    sab_plan_options,
    sab_probe_callbacks,
    sab_probe_options,
    sab_sampler_options,
    sab_sizes_info,
    sab_sizes_options,
    sab_step_plan_options,
    sab_thresholds_options,
    sab_bionemo_options,
}

#[cfg(feature = "arrow")]
structs! {
    sab_sizes_arrow_options,
}

#[cfg(feature = "files")]
structs! {
    sab_sizes_file_options,
}

#[cfg(feature = "cache")]
structs! {
    sab_cache_stats,
    sab_cache_options,
}

#[cfg(feature = "stream")]
structs! {
    sab_files_stream_options,
    sab_list_stream_options,
    sab_map_stream_options,
    sab_mix_stream_options,
    sab_pack_stream_options,
    sab_readahead_stream_options,
    sab_source_functions,
}

/// The numbers of options that live longer than a call. Pointers are set in a copy, for a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Numbers<T>(T);

// SAFETY: the pointers in it are NULL.
unsafe impl<T: Struct> Send for Numbers<T> {}
// SAFETY: as above.
unsafe impl<T: Struct> Sync for Numbers<T> {}

impl<T: Struct> Default for Numbers<T> {
    fn default() -> Self {
        Numbers(empty())
    }
}

impl<T> Deref for Numbers<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for Numbers<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

/// A struct of zeros, but for its size: the defaults of options.
pub(crate) fn empty<T: Struct>() -> T {
    // SAFETY: the promise of the trait.
    let mut value: T = unsafe { MaybeUninit::zeroed().assume_init() };
    value.set_size();
    value
}

/// The struct that a call fills.
pub(crate) fn filled<T: Struct>(fill: impl FnOnce(*mut T) -> sys::sab_status) -> Result<T, Error> {
    let mut value = empty();
    check(fill(&mut value))?;
    Ok(value)
}

// ---- arrays -----------------------------------------------------------------------------------

/// The array that a call writes: it is called for the count, and then for the elements.
///
/// # Safety
///
/// `write(elements, capacity, count)` sets the count, which is the same in both calls, and writes
/// all elements where the capacity suffices, else none.
pub(crate) unsafe fn array<T>(
    mut write: impl FnMut(*mut T, usize, *mut usize) -> sys::sab_status,
) -> Result<Vec<T>, Error> {
    let mut count = 0;
    check(write(null_mut(), 0, &mut count))?;
    let mut values = Vec::with_capacity(count);
    let capacity = count;
    check(write(values.as_mut_ptr(), capacity, &mut count))?;
    // SAFETY: the call has written so many.
    unsafe { values.set_len(count.min(capacity)) };
    Ok(values)
}

// ---- plain calls --------------------------------------------------------------------------------

/// Safe methods of an owner of a handle, which has `pointer()`. Each calls a function of the library
/// with the handle and its own arguments, numbers that may have any value.
///
/// - `fn name(&mut self);` uses the owner's `check`, for a function that may call closures.
/// - `fn name(&self);` calls a function that calls none.
/// - `fn name(&self) -> u64;` gives the number that it fills, and `-> Result<struct sab_name>` the
///   struct; `-> struct sab_name` is for a function that cannot fail with a live handle.
macro_rules! calls {
    (fn $name:ident(&mut $this:ident $(, $argument:ident: $type:ty)*)
        = $function:ident; $($rest:tt)*) => {
        pub(crate) fn $name(&mut $this $(, $argument: $type)*) -> Result<(), Error> {
            // SAFETY: a live handle that nobody else uses.
            let status = unsafe { sys::$function($this.pointer() $(, $argument)*) };
            $this.check(status).map(drop)
        }
        calls! { $($rest)* }
    };
    (fn $name:ident(&$this:ident $(, $argument:ident: $type:ty)*) = $function:ident; $($rest:tt)*) => {
        pub(crate) fn $name(&$this $(, $argument: $type)*) -> Result<(), Error> {
            // SAFETY: a live handle.
            check(unsafe { sys::$function($this.pointer() $(, $argument)*) }).map(drop)
        }
        calls! { $($rest)* }
    };
    (fn $name:ident(&$this:ident $(, $argument:ident: $type:ty)*) -> Result<struct $result:ident>
        = $function:ident; $($rest:tt)*) => {
        pub(crate) fn $name(&$this $(, $argument: $type)*) -> Result<sys::$result, Error> {
            // SAFETY: a live handle, and a struct whose size is set.
            filled(|result| unsafe { sys::$function($this.pointer() $(, $argument)*, result) })
        }
        calls! { $($rest)* }
    };
    (fn $name:ident(&$this:ident $(, $argument:ident: $type:ty)*) -> struct $result:ident
        = $function:ident; $($rest:tt)*) => {
        pub(crate) fn $name(&$this $(, $argument: $type)*) -> sys::$result {
            // SAFETY: a live handle, and a struct whose size is set.
            certain(filled(|result| unsafe {
                sys::$function($this.pointer() $(, $argument)*, result)
            }))
        }
        calls! { $($rest)* }
    };
    (fn $name:ident(&$this:ident $(, $argument:ident: $type:ty)*) -> $result:ty
        = $function:ident; $($rest:tt)*) => {
        pub(crate) fn $name(&$this $(, $argument: $type)*) -> Result<$result, Error> {
            let mut result = <$result>::default();
            // SAFETY: a live handle, and room for a number.
            check(unsafe { sys::$function($this.pointer() $(, $argument)*, &mut result) })?;
            Ok(result)
        }
        calls! { $($rest)* }
    };
    () => {};
}
pub(super) use calls;
