//! The only module that uses `unsafe`, but for passing on promises about mapped files: owned handles, and calls of the C interface with safe signatures.
//!
//! Closures cross as a context pointer and a trampoline. The trampoline catches a panic, keeps it beside the closure and
//! answers with a failure; when the call has come back, the panic goes on, or the closure's own error is returned.
//!
//! A sampler's closure is owned by the Rust handle and dropped after the C handle, so the caller's destructor never runs
//! inside C, and a panic in it needs no catching. Closures of streams, which threads may be running, are owned by C.
#![allow(unsafe_code)]

use std::any::Any;
use std::cell::Cell;
use std::ffi::{c_char, c_void, CStr, CString};
use std::marker::PhantomData;
use std::mem::{size_of, ManuallyDrop, MaybeUninit};
use std::ops::ControlFlow;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::path::Path;
use std::ptr::{null, null_mut, NonNull};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use sab_sys as sys;

use crate::error::{BoxError, Error};
use crate::sizes::Element;
use crate::{Batch, BatchRef, LogLevel, State, TORCH_GENERATOR_WORDS};

mod balance;
pub(crate) use balance::*;
mod cache;
pub(crate) use cache::*;
mod group;
pub(crate) use group::*;
mod memory;
pub(crate) use memory::*;
mod padding;
pub(crate) use padding::*;
mod ranks;
pub(crate) use ranks::*;
mod stream;
pub(crate) use stream::*;

pub(crate) type ProgressFn<'f> = dyn FnMut(u64, u64) -> ControlFlow<()> + 'f;
pub(crate) type Progress<'f> = &'f mut ProgressFn<'f>;
pub(crate) type CostFn<'f> = dyn FnMut(u64, f64) -> Result<f64, BoxError> + 'f;
pub(crate) type SizeFn<'f> = dyn FnMut(usize) -> Result<f64, BoxError> + Send + 'f;
pub(crate) type IndexFn<'f> =
    dyn FnMut(u64, u64) -> Option<Result<(i64, f64), BoxError>> + Send + 'f;

// ---- status -------------------------------------------------------------------------------------------------------------

/// What a trampoline answers when its closure failed; neither 0, SAB_END nor SAB_OUT_OF_MEMORY.
const CLOSURE_FAILED: i32 = 3;

/// How a closure failed.
enum Failure {
    Error(BoxError),
    Panic(Box<dyn Any + Send>),
}

impl Failure {
    fn into_error(self) -> Error {
        match self {
            Failure::Error(error) => Error::Callback(error),
            Failure::Panic(payload) => resume_unwind(payload),
        }
    }
}

thread_local! {
    /// A panic of the log closure, or of the destructor of a closure that C has released: they have no way to answer with a failure. Never dropped, since a
    /// payload's destructor may panic too.
    static STRAY_PANIC: Cell<Option<ManuallyDrop<Box<dyn Any + Send>>>> = const { Cell::new(None) };
}

/// Keeps a panic until a call of this thread has come back. The first one counts.
fn keep_panic(payload: Box<dyn Any + Send>) {
    let Some(earlier) = STRAY_PANIC.replace(Some(ManuallyDrop::new(payload))) else { return };
    if let Some(payload) = STRAY_PANIC.replace(Some(earlier)) {
        let dropped = catch_unwind(AssertUnwindSafe(|| drop(ManuallyDrop::into_inner(payload))));
        std::mem::forget(dropped); // the payload of a payload's destructor
    }
}

/// Goes on with a panic that was kept, unless there is one already.
fn resume_released() {
    if std::thread::panicking() {
        return;
    }
    if let Some(payload) = STRAY_PANIC.take() {
        resume_unwind(ManuallyDrop::into_inner(payload));
    }
}

/// Turns a status into a result, with the thread's message. To be called right after the call, once what it made is owned.
fn check(status: sys::sab_status) -> Result<sys::sab_status, Error> {
    resume_released();
    if status >= 0 {
        return Ok(status);
    }
    // SAFETY: never NULL, NUL-terminated, belongs to this thread and is copied before its next call.
    let message =
        unsafe { CStr::from_ptr(sys::sab_last_error_message()) }.to_string_lossy().into_owned();
    Err(match status {
        sys::SAB_E_ARGUMENT => Error::Argument(message),
        sys::SAB_E_NO_MEMORY => Error::NoMemory(message),
        sys::SAB_E_CALLBACK => Error::Callback(message.into()),
        sys::SAB_E_CANCELLED => Error::Cancelled,
        sys::SAB_E_IO => Error::Io(message),
        sys::SAB_E_FORMAT => Error::Format(message),
        sys::SAB_E_MISMATCH => Error::Mismatch(message),
        sys::SAB_E_UNSUPPORTED => Error::Unsupported(message),
        sys::SAB_E_DEVICE_MEMORY => Error::DeviceMemory(message),
        sys::SAB_E_TIMEOUT => Error::Timeout(message),
        _ => Error::Internal(message),
    })
}

/// As [`check`], for a call that used closures: what went wrong in the first of them that failed comes first.
fn check_with(
    status: sys::sab_status,
    failures: &mut [&mut Option<Failure>],
) -> Result<sys::sab_status, Error> {
    match failures.iter_mut().find_map(|failure| failure.take()) {
        Some(failure) => Err(failure.into_error()),
        None => check(status),
    }
}

/// The result of a call that a live handle and a struct of the right size cannot make fail.
pub(crate) fn certain<T>(result: Result<T, Error>) -> T {
    result.expect("libsab refused its own handle")
}

pub(crate) fn path_text(path: &Path) -> Result<CString, Error> {
    text("path", path.as_os_str().as_encoded_bytes())
}

fn text(name: &str, bytes: &[u8]) -> Result<CString, Error> {
    CString::new(bytes).map_err(|_| {
        Error::Argument(format!(
            "{name} = {:?}: must not hold a NUL byte",
            String::from_utf8_lossy(bytes)
        ))
    })
}

// ---- closures -----------------------------------------------------------------------------------------------------------

/// A closure, and how it first failed in a call.
struct Guarded<F> {
    function: F,
    failure: Option<Failure>,
}

impl<F> Guarded<F> {
    fn new(function: F) -> Self {
        Guarded { function, failure: None }
    }

    fn context(&mut self) -> *mut c_void {
        (self as *mut Self).cast()
    }

    /// Calls the closure; a panic or an error is kept and answered with [`CLOSURE_FAILED`].
    fn run(&mut self, call: impl FnOnce(&mut F) -> Result<i32, BoxError>) -> i32 {
        let function = &mut self.function;
        // The payload of a panic is handed on, never dropped here: its destructor could panic again.
        let failure = match catch_unwind(AssertUnwindSafe(|| call(function))) {
            Ok(Ok(code)) => return code,
            Ok(Err(error)) => Failure::Error(error),
            Err(payload) => Failure::Panic(payload),
        };
        self.keep(failure);
        CLOSURE_FAILED
    }

    fn keep(&mut self, failure: Failure) {
        match self.failure {
            // C cleans up after a failure, and what it calls for that may fail too.
            Some(_) => std::mem::forget(failure),
            None => self.failure = Some(failure),
        }
    }
}

unsafe extern "C" fn size_trampoline<F>(context: *mut c_void, index: i64, size: *mut f64) -> i32
where
    F: FnMut(usize) -> Result<f64, BoxError>,
{
    // SAFETY: `context` is the Guarded<F> given with this trampoline, alive and used by nobody else during the call.
    let guarded = unsafe { &mut *context.cast::<Guarded<F>>() };
    guarded.run(|function| {
        let answer = function(index as usize)?;
        // SAFETY: the caller gives room for one number.
        unsafe { size.write(answer) };
        Ok(sys::SAB_OK)
    })
}

unsafe extern "C" fn cost_trampoline(
    context: *mut c_void,
    count: u64,
    length: f64,
    cost: *mut f64,
) -> i32 {
    // SAFETY: `context` is the Guarded closure given with this trampoline, alive and used by nobody else during the call.
    let guarded = unsafe { &mut *context.cast::<Guarded<Box<CostFn<'_>>>>() };
    guarded.run(|function| {
        let answer = function(count, length)?;
        // SAFETY: the caller gives room for one number.
        unsafe { cost.write(answer) };
        Ok(sys::SAB_OK)
    })
}

unsafe extern "C" fn index_trampoline(
    context: *mut c_void,
    epoch: u64,
    position: u64,
    index: *mut i64,
    size: *mut f64,
) -> i32 {
    // SAFETY: `context` is the Guarded closure given with this trampoline, alive and used by nobody else during the call.
    let guarded = unsafe { &mut *context.cast::<Guarded<Box<IndexFn<'_>>>>() };
    guarded.run(|function| {
        let Some(sample) = function(epoch, position) else {
            return Ok(sys::SAB_END);
        };
        let (sample_index, sample_size) = sample?;
        // SAFETY: the caller gives room for one number each.
        unsafe {
            index.write(sample_index);
            size.write(sample_size);
        }
        Ok(sys::SAB_OK)
    })
}

unsafe extern "C" fn progress_trampoline(context: *mut c_void, done: u64, total: u64) -> i32 {
    // SAFETY: `context` is the Guarded closure given with this trampoline, alive and used by nobody else during the call.
    let guarded = unsafe { &mut *context.cast::<Guarded<Progress<'_>>>() };
    guarded.run(|function| Ok(i32::from(function(done, total).is_break())))
}

/// The callback and context of an optional progress closure.
fn progress_parts(
    guarded: &mut Option<Guarded<Progress<'_>>>,
) -> (sys::sab_progress_fn, *mut c_void) {
    match guarded {
        Some(guarded) => (Some(progress_trampoline), guarded.context()),
        None => (None, null_mut()),
    }
}

fn progress_failure<'f>(
    guarded: &'f mut Option<Guarded<Progress<'_>>>,
    none: &'f mut Option<Failure>,
) -> &'f mut Option<Failure> {
    guarded.as_mut().map_or(none, |guarded| &mut guarded.failure)
}

/// The callback and context of an optional cost closure.
fn cost_parts(guarded: &mut Option<Guarded<Box<CostFn<'_>>>>) -> (sys::sab_cost_fn, *mut c_void) {
    match guarded {
        Some(guarded) => (Some(cost_trampoline), guarded.context()),
        None => (None, null_mut()),
    }
}

fn cost_failure<'f>(
    guarded: &'f mut Option<Guarded<Box<CostFn<'_>>>>,
    none: &'f mut Option<Failure>,
) -> &'f mut Option<Failure> {
    guarded.as_mut().map_or(none, |guarded| &mut guarded.failure)
}

// ---- library ------------------------------------------------------------------------------------------------------------

pub(crate) fn version() -> &'static str {
    // SAFETY: a static, NUL-terminated string.
    unsafe { CStr::from_ptr(sys::sab_version_string()) }.to_str().unwrap_or_default()
}

pub(crate) fn abi_version() -> u32 {
    // SAFETY: no arguments, no state.
    unsafe { sys::sab_abi_version() }
}

type LogFn = dyn Fn(LogLevel, &str) + Send + Sync;
static LOG: RwLock<Option<Arc<LogFn>>> = RwLock::new(None);

unsafe extern "C" fn log_trampoline(
    _: *mut c_void,
    level: sys::sab_log_level,
    message: *const c_char,
) {
    // The closure is held by this call too, so that it may be replaced meanwhile.
    let Some(log) = LOG.read().unwrap_or_else(PoisonError::into_inner).clone() else {
        return;
    };
    // SAFETY: NUL-terminated and alive during the call.
    let message = unsafe { CStr::from_ptr(message) }.to_string_lossy();
    let level = if level == sys::SAB_LOG_WARNING { LogLevel::Warning } else { LogLevel::Info };
    // The last owner may be this call, and its destructor the caller's.
    if let Err(payload) = catch_unwind(AssertUnwindSafe(move || log(level, &message))) {
        keep_panic(payload);
    }
}

pub(crate) fn set_log(log: Option<Arc<LogFn>>) {
    let callback: sys::sab_log_fn = if log.is_some() { Some(log_trampoline) } else { None };
    let mut current = LOG.write().unwrap_or_else(PoisonError::into_inner);
    let earlier = std::mem::replace(&mut *current, log);
    // SAFETY: the trampoline is a function of this library and needs no context.
    unsafe { sys::sab_set_log_callback(callback, null_mut()) };
    drop(current);
    drop(earlier); // the caller's destructor runs without the lock
}

// ---- handles ------------------------------------------------------------------------------------------------------------

/// Whether the library has the binary interface that it was declared with: of the same major version, and no older.
fn check_abi(found: u32) -> Result<(), Error> {
    let (major, minor) = (sys::ABI_VERSION / 1000, sys::ABI_VERSION % 1000);
    if found / 1000 == major && found % 1000 >= minor {
        return Ok(());
    }
    let (found_major, found_minor) = (found / 1000, found % 1000);
    Err(Error::Unsupported(format!(
        "libsab's binary interface is {found_major}.{found_minor}: must be {major}.{minor} or a later {major}.x; another libsab was loaded than this program \
         was built for"
    )))
}

/// Where a constructor puts its handle. There is none without a library of the right version, so every constructor checks that before it is called.
struct Room<T>(*mut T);

impl<T> Room<T> {
    fn new() -> Result<Self, Error> {
        static FOUND: OnceLock<u32> = OnceLock::new();
        check_abi(*FOUND.get_or_init(abi_version))?;
        Ok(Room(null_mut()))
    }

    fn fill(&mut self) -> *mut *mut T {
        &mut self.0
    }
}

/// What a constructor left: the handle first, so that it is freed when the status makes us unwind.
fn owned<T, H>(pointer: Room<T>, own: impl FnOnce(NonNull<T>) -> H) -> Option<H> {
    NonNull::new(pointer.0).map(own)
}

fn made<H>(status: Result<sys::sab_status, Error>, handle: Option<H>) -> Result<H, Error> {
    status?;
    handle.ok_or_else(|| Error::Internal("a constructor gave no handle".into()))
}

/// Owns a `sab_sizes`; `'a` is how long the memory under it is borrowed.
pub(crate) struct SizesHandle<'a> {
    pointer: NonNull<sys::sab_sizes>,
    borrowed: PhantomData<&'a [u8]>,
}

// SAFETY: the handle is immutable, tied to no thread, and const for every call (sab.h, Threads).
unsafe impl Send for SizesHandle<'_> {}
// SAFETY: as above; the numbers under it are borrowed as shared, and numbers are Sync.
unsafe impl Sync for SizesHandle<'_> {}

impl Drop for SizesHandle<'_> {
    fn drop(&mut self) {
        // SAFETY: the handle is ours and this is its last use.
        unsafe { sys::sab_sizes_free(self.pointer.as_ptr()) }
    }
}

impl<'a> SizesHandle<'a> {
    fn own(pointer: Room<sys::sab_sizes>) -> Option<Self> {
        owned(pointer, |pointer| SizesHandle { pointer, borrowed: PhantomData })
    }

    /// Every `step`-th element of `data`, from the first.
    fn from_memory<T: Element>(data: &[T], step: usize, copy: bool) -> Result<Self, Error> {
        let step = step.clamp(1, data.len().max(1)); // a longer step leads to the first element only, too
        let options = sys::sab_sizes_options {
            struct_size: size_of::<sys::sab_sizes_options>(),
            stride: (step * size_of::<T>()) as i64,
            copy: i32::from(copy),
            columns: 1,
        };
        let count = data.len().div_ceil(step);
        let mut pointer = Room::new()?;
        // SAFETY: `count` elements `step` apart lie within `data`; the callers tie its lifetime to the handle unless it is copied.
        let status = unsafe {
            sys::sab_sizes_new(data.as_ptr().cast(), count, T::DTYPE, &options, pointer.fill())
        };
        let handle = Self::own(pointer);
        made(check(status), handle)
    }

    pub(crate) fn borrow<T: Element>(data: &'a [T], step: usize) -> Result<Self, Error> {
        Self::from_memory(data, step, false)
    }
}

impl SizesHandle<'static> {
    pub(crate) fn copy<T: Element>(data: &[T]) -> Result<Self, Error> {
        Self::from_memory(data, 1, true)
    }

    pub(crate) fn read_npy(bytes: &[u8]) -> Result<Self, Error> {
        let mut pointer = Room::new()?;
        // SAFETY: `bytes` is readable for its length and copied during the call.
        let status =
            unsafe { sys::sab_sizes_npy_read(bytes.as_ptr().cast(), bytes.len(), pointer.fill()) };
        let handle = Self::own(pointer);
        made(check(status), handle)
    }

    /// # Safety
    ///
    /// Nobody truncates the file or writes to it while the handle, or what is made of it, lives.
    pub(crate) unsafe fn map_npy(path: &Path) -> Result<Self, Error> {
        let path = path_text(path)?;
        let mut pointer = Room::new()?;
        // SAFETY: a NUL-terminated path, and room for a handle.
        let status = unsafe { sys::sab_sizes_npy_new(path.as_ptr(), pointer.fill()) };
        let handle = Self::own(pointer);
        made(check(status), handle)
    }

    pub(crate) fn callback<F>(
        count: usize,
        size: F,
        progress: Option<Progress<'_>>,
    ) -> Result<Self, Error>
    where
        F: FnMut(usize) -> Result<f64, BoxError>,
    {
        let mut size = Guarded::new(size);
        let mut progress = progress.map(Guarded::new);
        let (progress_fn, progress_context) = progress_parts(&mut progress);
        let mut pointer = Room::new()?;
        // SAFETY: both contexts fit their trampolines and outlive the call, which is the only time they are used.
        let status = unsafe {
            sys::sab_sizes_callback_new(
                count,
                Some(size_trampoline::<F>),
                size.context(),
                progress_fn,
                progress_context,
                pointer.fill(),
            )
        };
        let handle = Self::own(pointer);
        let result = check_with(
            status,
            &mut [&mut size.failure, progress_failure(&mut progress, &mut None)],
        );
        made(result, handle)
    }
}

impl SizesHandle<'_> {
    pub(crate) fn count(&self) -> usize {
        // SAFETY: a live handle.
        unsafe { sys::sab_sizes_count(self.pointer.as_ptr()) }
    }

    pub(crate) fn get(&self, index: usize) -> Result<f64, Error> {
        let mut size = 0.0;
        // SAFETY: a live handle, and room for a number.
        check(unsafe { sys::sab_sizes_get(self.pointer.as_ptr(), index, &mut size) })?;
        Ok(size)
    }

    pub(crate) fn create_buckets(
        &self,
        max_width: i64,
        min_bucket_count: i64,
    ) -> Result<(Vec<i64>, Vec<i64>), Error> {
        let mut count = 0;
        // SAFETY: a live handle; with a capacity of 0 only the count is written.
        check(unsafe {
            sys::sab_create_buckets(
                self.pointer.as_ptr(),
                max_width,
                min_bucket_count,
                null_mut(),
                null_mut(),
                0,
                &mut count,
            )
        })?;
        let (mut boundaries, mut bucket_sizes) = (vec![0; count + 1], vec![0; count]);
        // SAFETY: a live handle, room for `count` + 1 and `count` numbers; sizes cannot change, so the count is the same.
        check(unsafe {
            sys::sab_create_buckets(
                self.pointer.as_ptr(),
                max_width,
                min_bucket_count,
                boundaries.as_mut_ptr(),
                bucket_sizes.as_mut_ptr(),
                count,
                &mut count,
            )
        })?;
        Ok((boundaries, bucket_sizes))
    }
}

/// Owns a `sab_plan`.
pub(crate) struct PlanHandle {
    pointer: NonNull<sys::sab_plan>,
}

// SAFETY: the handle is immutable, tied to no thread, and const for every call (sab.h, Threads).
unsafe impl Send for PlanHandle {}
// SAFETY: as above.
unsafe impl Sync for PlanHandle {}

impl Drop for PlanHandle {
    fn drop(&mut self) {
        // SAFETY: the handle is ours and this is its last use.
        unsafe { sys::sab_plan_free(self.pointer.as_ptr()) }
    }
}

/// The options of a plan whose pointers are still Rust's.
pub(crate) struct PlanParts<'f> {
    /// Pointers and lengths in it are filled in by [`PlanHandle::new`].
    pub(crate) options: sys::sab_plan_options,
    pub(crate) boundaries: Vec<f64>,
    pub(crate) batch_sizes: Vec<u64>,
    pub(crate) coefficients: Vec<f64>,
    pub(crate) cost_terms: Vec<sys::sab_cost_term>,
    pub(crate) cost: Option<Box<CostFn<'f>>>,
    pub(crate) progress: Option<Box<ProgressFn<'f>>>,
}

impl PlanParts<'_> {
    /// Runs a constructor with the options. It gives the status, what was made, and how a closure of its own failed.
    fn make<H>(
        mut self,
        construct: impl FnOnce(&sys::sab_plan_options) -> (sys::sab_status, Option<H>, Option<Failure>),
    ) -> Result<H, Error> {
        let mut cost = self.cost.map(Guarded::new);
        let mut progress =
            self.progress.as_mut().map(|progress| Guarded::new(&mut **progress as Progress<'_>));
        let options = &mut self.options;
        options.boundaries = elements(&self.boundaries);
        options.boundary_count = self.boundaries.len();
        options.batch_sizes = elements(&self.batch_sizes);
        options.batch_size_count = self.batch_sizes.len();
        options.coefficients = elements(&self.coefficients);
        options.coefficient_count = self.coefficients.len();
        options.cost_terms = elements(&self.cost_terms);
        options.cost_term_count = self.cost_terms.len();
        (options.cost_fn, options.cost_ctx) = cost_parts(&mut cost);
        (options.progress, options.progress_ctx) = progress_parts(&mut progress);
        let (status, handle, mut failure) = construct(options);
        let result = check_with(
            status,
            &mut [
                &mut failure,
                cost_failure(&mut cost, &mut None),
                progress_failure(&mut progress, &mut None),
            ],
        );
        made(result, handle)
    }
}

/// The options of a packing whose closure is still Rust's.
pub(crate) struct PackParts<'f> {
    pub(crate) options: sys::sab_pack_options,
    pub(crate) progress: Option<Box<ProgressFn<'f>>>,
}

/// A pointer to the elements, NULL when there are none.
fn elements<T>(values: &[T]) -> *const T {
    if values.is_empty() {
        null()
    } else {
        values.as_ptr()
    }
}

impl PlanHandle {
    fn own(pointer: Room<sys::sab_plan>) -> Option<Self> {
        owned(pointer, |pointer| PlanHandle { pointer })
    }

    pub(crate) fn new(sizes: &SizesHandle<'_>, parts: PlanParts<'_>) -> Result<Self, Error> {
        let mut pointer = Room::new()?;
        parts.make(|options| {
            // SAFETY: a live handle; arrays and closures in the options outlive the call, the only time they are used.
            let status =
                unsafe { sys::sab_plan_new(sizes.pointer.as_ptr(), options, pointer.fill()) };
            (status, Self::own(pointer), None)
        })
    }

    /// # Safety
    ///
    /// Nobody truncates the file or writes to it while the handle, or what is made of it, lives.
    pub(crate) unsafe fn map(path: &Path) -> Result<Self, Error> {
        let path = path_text(path)?;
        let mut pointer = Room::new()?;
        // SAFETY: a NUL-terminated path, and room for a handle.
        let status = unsafe { sys::sab_plan_open(path.as_ptr(), pointer.fill()) };
        let handle = Self::own(pointer);
        made(check(status), handle)
    }

    pub(crate) fn save(&self, path: &Path) -> Result<(), Error> {
        let path = path_text(path)?;
        // SAFETY: a live handle and a NUL-terminated path.
        check(unsafe { sys::sab_plan_save(self.pointer.as_ptr(), path.as_ptr()) })?;
        Ok(())
    }

    pub(crate) fn read(bytes: &[u8]) -> Result<Self, Error> {
        let mut pointer = Room::new()?;
        // SAFETY: `bytes` is readable for its length and copied during the call.
        let status =
            unsafe { sys::sab_plan_read(bytes.as_ptr().cast(), bytes.len(), pointer.fill()) };
        let handle = Self::own(pointer);
        made(check(status), handle)
    }

    pub(crate) fn write(&self) -> Result<Vec<u8>, Error> {
        let mut size = 0;
        // SAFETY: a live handle; with a capacity of 0 only the size is written.
        check(unsafe { sys::sab_plan_write(self.pointer.as_ptr(), null_mut(), 0, &mut size) })?;
        let mut bytes = vec![0u8; size];
        // SAFETY: a live handle, and room for `size` bytes; a plan cannot change, so the size is the same.
        check(unsafe {
            sys::sab_plan_write(self.pointer.as_ptr(), bytes.as_mut_ptr().cast(), size, &mut size)
        })?;
        Ok(bytes)
    }

    pub(crate) fn info(&self) -> Result<sys::sab_plan_info, Error> {
        let mut info = sys::sab_plan_info {
            struct_size: size_of::<sys::sab_plan_info>(),
            samples: 0,
            skipped: 0,
            buckets: 0,
            batches: 0,
            lower_bound: 0,
            fingerprint: 0,
            total: 0.0,
            budget: 0.0,
        };
        // SAFETY: a live handle, and a struct whose size is set.
        check(unsafe { sys::sab_plan_get_info(self.pointer.as_ptr(), &mut info) })?;
        Ok(info)
    }

    pub(crate) fn bucket(&self, index: usize) -> Result<sys::sab_bucket, Error> {
        let mut bucket = sys::sab_bucket {
            struct_size: size_of::<sys::sab_bucket>(),
            lower: 0.0,
            upper: 0.0,
            shortest: 0.0,
            longest: 0.0,
            padded_length: 0.0,
            total: 0.0,
            cost: 0.0,
            samples: 0,
            batch_size: 0,
            batches: 0,
        };
        // SAFETY: a live handle, and a struct whose size is set.
        check(unsafe { sys::sab_plan_get_bucket(self.pointer.as_ptr(), index, &mut bucket) })?;
        Ok(bucket)
    }

    pub(crate) fn skipped(&self) -> Result<Vec<i64>, Error> {
        let mut count = 0;
        // SAFETY: a live handle; with a capacity of 0 only the count is written.
        check(unsafe { sys::sab_plan_skipped(self.pointer.as_ptr(), null_mut(), 0, &mut count) })?;
        let mut indices = vec![0; count];
        // SAFETY: a live handle, and room for `count` indices; a plan cannot change, so the count is the same.
        check(unsafe {
            sys::sab_plan_skipped(self.pointer.as_ptr(), indices.as_mut_ptr(), count, &mut count)
        })?;
        Ok(indices)
    }

    pub(crate) fn report(
        &self,
        options: &sys::sab_sampler_options,
        progress: Option<Progress<'_>>,
    ) -> Result<sys::sab_report, Error> {
        let mut progress = progress.map(Guarded::new);
        let (progress_fn, progress_context) = progress_parts(&mut progress);
        let mut report = sys::sab_report {
            struct_size: size_of::<sys::sab_report>(),
            samples: 0,
            skipped: 0,
            dropped: 0,
            repeated: 0,
            batches: 0,
            steps: 0,
            lower_bound: 0,
            shapes: 0,
            total: 0.0,
            padded_total: 0.0,
            padding: 0.0,
            rank_imbalance: 0.0,
            meet_again: 0.0,
            partners: 0.0,
            length_correlation: 0.0,
            variance_ratio: 0.0,
            nearest_target: 0.0,
            target_met: 0,
        };
        // SAFETY: a live handle, structs whose sizes are set, a context that fits its trampoline and outlives the call.
        let status = unsafe {
            sys::sab_plan_report(
                self.pointer.as_ptr(),
                options,
                progress_fn,
                progress_context,
                &mut report,
            )
        };
        check_with(status, &mut [progress_failure(&mut progress, &mut None)])?;
        Ok(report)
    }
}

/// What a C handle keeps of Rust's, whatever its type.
trait Kept {
    /// How a call failed that has come back.
    fn take_failure(&mut self) -> Option<Failure>;
}

impl<F> Kept for Guarded<F> {
    fn take_failure(&mut self) -> Option<Failure> {
        self.failure.take()
    }
}

/// Owns what C points to as well. Not a `Box`, which would promise that nobody else does.
struct Shared<T: ?Sized>(NonNull<T>);

type KeptBox<'a> = Shared<dyn Kept + 'a>;

impl<'a> KeptBox<'a> {
    /// The closure, and the context to hand to its trampoline.
    fn new<F: 'a>(function: F) -> (Self, *mut c_void) {
        let kept = NonNull::from(Box::leak(Box::new(Guarded::new(function))));
        (Shared(kept), kept.as_ptr().cast())
    }
}

impl<T: ?Sized> Drop for Shared<T> {
    fn drop(&mut self) {
        // SAFETY: made by Box::leak; the C handle that pointed to it is freed before, or was not made.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

/// Owns a `sab_sampler`; `'a` is how long the memory or the closure under it is borrowed.
pub struct SamplerHandle<'a> {
    pointer: NonNull<sys::sab_sampler>,
    /// Dropped after the C handle, as fields are after `drop`.
    kept: Option<KeptBox<'a>>,
    borrowed: PhantomData<&'a [u8]>,
}

// SAFETY: a sampler is tied to no thread (sab.h, Threads), and the closures that it keeps are Send. It is not Sync: one thread at
// a time may use it.
unsafe impl Send for SamplerHandle<'_> {}

impl Drop for SamplerHandle<'_> {
    fn drop(&mut self) {
        // SAFETY: the handle is ours and this is its last use.
        unsafe { sys::sab_sampler_free(self.pointer.as_ptr()) };
        resume_released(); // of a sampler over a stream
    }
}

impl<'a> SamplerHandle<'a> {
    fn finish(
        status: sys::sab_status,
        pointer: Room<sys::sab_sampler>,
        kept: Option<KeptBox<'a>>,
    ) -> Result<Self, Error> {
        let handle =
            owned(pointer, |pointer| SamplerHandle { pointer, kept, borrowed: PhantomData });
        made(check(status), handle)
    }

    pub(crate) fn bucket(
        plan: &PlanHandle,
        options: &sys::sab_sampler_options,
    ) -> Result<Self, Error> {
        let mut pointer = Room::new()?;
        // SAFETY: a live handle, a struct whose size is set, and room for a handle.
        let status =
            unsafe { sys::sab_bucket_sampler_new(plan.pointer.as_ptr(), options, pointer.fill()) };
        Self::finish(status, pointer, None)
    }

    pub(crate) fn sequential(
        plan: &PlanHandle,
        options: &sys::sab_sampler_options,
    ) -> Result<Self, Error> {
        let mut pointer = Room::new()?;
        // SAFETY: a live handle, a struct whose size is set, and room for a handle.
        let status = unsafe {
            sys::sab_sequential_sampler_new(plan.pointer.as_ptr(), options, pointer.fill())
        };
        Self::finish(status, pointer, None)
    }

    pub(crate) fn worst(plan: &PlanHandle, count: u64) -> Result<Self, Error> {
        let mut pointer = Room::new()?;
        // SAFETY: a live handle, and room for a handle.
        let status =
            unsafe { sys::sab_plan_worst_batches(plan.pointer.as_ptr(), count, pointer.fill()) };
        Self::finish(status, pointer, None)
    }

    /// The sampler keeps what `sizes` borrow, hence the shared `'a`.
    pub(crate) fn size_aware(
        indices: Option<&[i64]>,
        sizes: &SizesHandle<'a>,
        max_total_size: f64,
        options: &sys::sab_sampler_options,
    ) -> Result<Self, Error> {
        // An empty slice is no sample at all, while NULL would be all of them in order.
        let (data, count) =
            indices.map_or((null(), sizes.count()), |indices| (indices.as_ptr(), indices.len()));
        let mut pointer = Room::new()?;
        // SAFETY: `data` is NULL or readable for `count` indices and copied; live handle, a struct whose size is set.
        let status = unsafe {
            sys::sab_size_aware_sampler_new(
                data,
                count,
                sizes.pointer.as_ptr(),
                max_total_size,
                options,
                pointer.fill(),
            )
        };
        Self::finish(status, pointer, None)
    }

    pub(crate) fn packed(
        sizes: &SizesHandle<'_>,
        mut parts: PackParts<'_>,
        options: &sys::sab_sampler_options,
    ) -> Result<Self, Error> {
        let mut progress =
            parts.progress.as_mut().map(|progress| Guarded::new(&mut **progress as Progress<'_>));
        (parts.options.progress, parts.options.progress_ctx) = progress_parts(&mut progress);
        let mut pointer = Room::new()?;
        // SAFETY: a live handle, structs whose sizes are set; the closure outlives the call, the only time it is used.
        let status = unsafe {
            sys::sab_packed_sampler_new(
                sizes.pointer.as_ptr(),
                &parts.options,
                options,
                pointer.fill(),
            )
        };
        let handle =
            owned(pointer, |pointer| SamplerHandle { pointer, kept: None, borrowed: PhantomData });
        made(check_with(status, &mut [progress_failure(&mut progress, &mut None)]), handle)
    }

    pub(crate) fn size_aware_stream(
        source: Box<IndexFn<'a>>,
        max_total_size: f64,
    ) -> Result<Self, Error> {
        let (kept, context) = KeptBox::new(source);
        let mut pointer = Room::new()?;
        // SAFETY: the context fits its trampoline and lives as long as the sampler, which frees it after the C handle.
        let status = unsafe {
            sys::sab_size_aware_stream_sampler_new(
                Some(index_trampoline),
                context,
                None,
                max_total_size,
                pointer.fill(),
            )
        };
        Self::finish(status, pointer, Some(kept))
    }

    pub(crate) fn torch(
        plan: &PlanHandle,
        seed: u64,
        shuffle: i32,
        greedy: Option<(f64, Box<SizeFn<'a>>)>,
    ) -> Result<Self, Error> {
        // SAFETY: the call fills the whole struct.
        let mut options = unsafe { defaults(sys::sab_torch_sampler_options_init) };
        options.seed = seed;
        options.shuffle = shuffle;
        let kept = greedy.map(|(max_total_size, size)| {
            let (kept, context) = KeptBox::new(size);
            options.max_total_size = max_total_size;
            options.size = Some(size_trampoline::<Box<SizeFn<'a>>>);
            options.size_ctx = context;
            kept
        });
        let mut pointer = Room::new()?;
        // SAFETY: live handle; the context fits its trampoline and lives as long as the sampler, which frees it after the C handle.
        let status =
            unsafe { sys::sab_torch_sampler_new(plan.pointer.as_ptr(), &options, pointer.fill()) };
        Self::finish(status, pointer, kept)
    }

    /// As [`check`], after a call that may have used the sampler's closure.
    fn check(&self, status: sys::sab_status) -> Result<sys::sab_status, Error> {
        match &self.kept {
            // SAFETY: alive as long as the handle, which is of one thread, and no call of C is under way that could use it.
            Some(kept) => {
                check_with(status, &mut [&mut unsafe { &mut *kept.0.as_ptr() }.take_failure()])
            }
            None => check(status),
        }
    }

    pub(crate) fn next(&mut self) -> Option<Result<BatchRef<'_>, Error>> {
        let mut batch = empty_batch();
        // SAFETY: a live handle that nobody else uses, and a struct whose size is set.
        let status = unsafe { sys::sab_next_batch(self.pointer.as_ptr(), &mut batch) };
        match self.check(status) {
            Ok(sys::SAB_END) => None,
            Ok(_) => Some(Ok(self.show(&batch))),
            Err(error) => Some(Err(error)),
        }
    }

    pub(crate) fn at(&mut self, position: u64) -> Result<BatchRef<'_>, Error> {
        let mut batch = empty_batch();
        // SAFETY: a live handle that nobody else uses, and a struct whose size is set.
        let status = unsafe { sys::sab_sampler_at(self.pointer.as_ptr(), position, &mut batch) };
        self.check(status)?;
        Ok(self.show(&batch))
    }

    /// The borrow of `self` keeps the indices from being overwritten by the next call.
    fn show(&mut self, batch: &sys::sab_batch) -> BatchRef<'_> {
        // SAFETY: `count` indices that stay valid until the next call on the sampler, which needs `&mut self`.
        unsafe { shown(batch) }
    }

    pub(crate) fn batch_count(&self) -> Result<u64, Error> {
        let mut count = 0;
        // SAFETY: a live handle, and room for a number.
        check(unsafe { sys::sab_sampler_batch_count(self.pointer.as_ptr(), &mut count) })?;
        Ok(count)
    }

    pub(crate) fn skipped_count(&self) -> Result<u64, Error> {
        let mut count = 0;
        // SAFETY: a live handle, and room for a number.
        check(unsafe { sys::sab_sampler_skipped_count(self.pointer.as_ptr(), &mut count) })?;
        Ok(count)
    }

    pub(crate) fn set_epoch(&mut self, epoch: u64) -> Result<(), Error> {
        // SAFETY: a live handle that nobody else uses.
        let status = unsafe { sys::sab_sampler_set_epoch(self.pointer.as_ptr(), epoch) };
        self.check(status)?;
        Ok(())
    }

    pub(crate) fn seek(&mut self, position: u64) -> Result<(), Error> {
        // SAFETY: a live handle that nobody else uses.
        let status = unsafe { sys::sab_sampler_seek(self.pointer.as_ptr(), position) };
        self.check(status)?;
        Ok(())
    }

    pub(crate) fn tell(&self) -> Result<(u64, u64), Error> {
        let (mut epoch, mut position) = (0, 0);
        // SAFETY: a live handle, and room for two numbers.
        check(unsafe { sys::sab_sampler_tell(self.pointer.as_ptr(), &mut epoch, &mut position) })?;
        Ok((epoch, position))
    }

    pub(crate) fn state(&self) -> Result<State, Error> {
        let mut state = [0u8; crate::STATE_SIZE];
        // SAFETY: a live handle, and room for SAB_STATE_SIZE bytes.
        check(unsafe {
            sys::sab_sampler_state_save(self.pointer.as_ptr(), state.as_mut_ptr().cast())
        })?;
        Ok(state)
    }

    pub(crate) fn restore(&mut self, state: &[u8]) -> Result<(), Error> {
        // SAFETY: a live handle that nobody else uses, and `state` is readable for its length.
        let status = unsafe {
            sys::sab_sampler_state_restore(
                self.pointer.as_ptr(),
                state.as_ptr().cast(),
                state.len(),
            )
        };
        self.check(status)?;
        Ok(())
    }

    pub(crate) fn set_budget(&mut self, budget: f64) -> Result<(), Error> {
        // SAFETY: a live handle that nobody else uses.
        let status = unsafe { sys::sab_sampler_set_budget(self.pointer.as_ptr(), budget) };
        self.check(status)?;
        Ok(())
    }

    pub(crate) fn budget(&self) -> Result<f64, Error> {
        let mut budget = 0.0;
        // SAFETY: a live handle, and room for a number.
        check(unsafe { sys::sab_sampler_get_budget(self.pointer.as_ptr(), &mut budget) })?;
        Ok(budget)
    }

    pub(crate) fn pack_info(&self) -> Result<sys::sab_pack_info, Error> {
        let mut info = sys::sab_pack_info {
            struct_size: size_of::<sys::sab_pack_info>(),
            samples: 0,
            skipped: 0,
            split: 0,
            sequences: 0,
            bins: 0,
            lower_bound: 0,
            most_sequences: 0,
            fingerprint: 0,
            total: 0.0,
            fill: 0.0,
        };
        // SAFETY: a live handle, and a struct whose size is set.
        check(unsafe { sys::sab_pack_get_info(self.pointer.as_ptr(), &mut info) })?;
        Ok(info)
    }

    pub(crate) fn pack_skipped(&self) -> Result<Vec<i64>, Error> {
        let mut count = 0;
        // SAFETY: a live handle; with a capacity of 0 only the count is written.
        check(unsafe { sys::sab_pack_skipped(self.pointer.as_ptr(), null_mut(), 0, &mut count) })?;
        let mut indices = vec![0; count];
        // SAFETY: a live handle, and room for `count` indices; a packing cannot change, so the count is the same.
        check(unsafe {
            sys::sab_pack_skipped(self.pointer.as_ptr(), indices.as_mut_ptr(), count, &mut count)
        })?;
        Ok(indices)
    }

    pub(crate) fn generator(&self) -> Result<[u32; TORCH_GENERATOR_WORDS], Error> {
        let mut words = [0; TORCH_GENERATOR_WORDS];
        // SAFETY: a live handle, and room for SAB_TORCH_GENERATOR_WORDS words.
        check(unsafe {
            sys::sab_torch_sampler_get_generator(self.pointer.as_ptr(), words.as_mut_ptr())
        })?;
        Ok(words)
    }

    pub(crate) fn set_generator(
        &mut self,
        words: &[u32; TORCH_GENERATOR_WORDS],
    ) -> Result<(), Error> {
        // SAFETY: a live handle that nobody else uses, and SAB_TORCH_GENERATOR_WORDS words.
        let status =
            unsafe { sys::sab_torch_sampler_set_generator(self.pointer.as_ptr(), words.as_ptr()) };
        self.check(status)?;
        Ok(())
    }
}

/// # Safety
///
/// The arrays of the batch are valid for `'a`.
unsafe fn shown<'a>(batch: &sys::sab_batch) -> BatchRef<'a> {
    Batch {
        // SAFETY: the caller's promise.
        indices: unsafe { slice(batch.indices, batch.count as usize) },
        longest: batch.longest,
        total: batch.total,
        padded_length: batch.padded_length,
        padded_total: batch.padded_total,
        bucket: usize::try_from(batch.bucket).ok(),
        epoch: batch.epoch,
        step: batch.step,
        step_samples: batch.step_samples,
        step_total: batch.step_total,
        micro_batch: batch.micro_batch,
        micro_batches: batch.micro_batches,
        // SAFETY: the caller's promise.
        cu_seqlens: (!batch.cu_seqlens.is_null())
            .then(|| unsafe { slice(batch.cu_seqlens, batch.count as usize + 1) }),
        // SAFETY: the caller's promise.
        starts: (!batch.starts.is_null())
            .then(|| unsafe { slice(batch.starts, batch.count as usize) }),
    }
}

/// # Safety
///
/// When `count` is not 0, so many elements are readable for `'a`.
unsafe fn slice<'a, T>(data: *const T, count: usize) -> &'a [T] {
    if count == 0 {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(data, count) }
}

fn empty_batch() -> sys::sab_batch {
    sys::sab_batch {
        struct_size: size_of::<sys::sab_batch>(),
        indices: null(),
        count: 0,
        longest: 0.0,
        total: 0.0,
        padded_length: 0.0,
        padded_total: 0.0,
        bucket: -1,
        epoch: 0,
        step: 0,
        step_samples: 0,
        step_total: 0.0,
        micro_batch: 0,
        micro_batches: 1,
        cu_seqlens: null(),
        starts: null(),
    }
}

/// # Safety
///
/// `init` fills the whole struct.
unsafe fn defaults<T>(init: unsafe extern "C" fn(*mut T, usize)) -> T {
    let mut options = MaybeUninit::uninit();
    // SAFETY: room for the struct, and the caller's promise.
    unsafe {
        init(options.as_mut_ptr(), size_of::<T>());
        options.assume_init()
    }
}

pub(crate) fn default_plan_options() -> sys::sab_plan_options {
    // SAFETY: the call fills the whole struct.
    unsafe { defaults(sys::sab_plan_options_init) }
}

pub(crate) fn default_pack_options() -> sys::sab_pack_options {
    // SAFETY: the call fills the whole struct.
    unsafe { defaults(sys::sab_pack_options_init) }
}
