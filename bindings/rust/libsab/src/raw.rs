//! The only module that uses `unsafe`, but for passing on promises about mapped files: owned
//! handles, and calls of the C interface with safe signatures.
//!
//! Closures cross as a context pointer and a trampoline. The trampoline catches a panic, keeps it
//! beside the closure and answers with a failure. After the call the panic is resumed, or the
//! closure's own error is returned.
//!
//! A sampler's closure is owned by the Rust handle and dropped after the C handle. So the caller's
//! destructor never runs inside C, and a panic in it need not be caught. Closures of streams are
//! owned by C, because threads may be running them.
#![allow(unsafe_code)]

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::ffi::{c_char, c_void, CStr, CString};
use std::mem::ManuallyDrop;
use std::ops::ControlFlow;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::path::Path;
use std::ptr::{null, null_mut, NonNull};
use std::sync::{Arc, PoisonError, RwLock};

use sab_sys as sys;

use crate::error::{BoxError, Detail, Error};
use crate::options::Hook;
use crate::{Batch, BatchRef, Block, Capabilities, Layout, LogLevel, PerColumn, Step};

mod handle;
pub(crate) use handle::*;

#[cfg(feature = "arrow")]
mod arrow;
mod balance;
pub(crate) use balance::*;
#[cfg(feature = "cache")]
mod cache;
#[cfg(feature = "cache")]
pub(crate) use cache::*;
mod compat;
mod context;
pub(crate) use context::*;
mod cost;
pub(crate) use cost::*;
mod engine;
pub(crate) use engine::*;
#[cfg(feature = "files")]
mod files;
mod group;
pub(crate) use group::*;
mod memory;
pub(crate) use memory::*;
mod mixture;
mod padding;
pub(crate) use padding::*;
mod plan;
pub(crate) use plan::*;
mod ranks;
pub(crate) use ranks::*;
pub(crate) mod results;
mod sampler;
pub(crate) use sampler::*;
mod sizes;
pub(crate) use sizes::*;
mod step_plan;
pub(crate) use step_plan::*;
#[cfg(feature = "stream")]
mod stream;
#[cfg(feature = "stream")]
pub(crate) use stream::*;
mod torch;
pub(crate) use torch::*;

pub(crate) type ProgressFn<'f> = dyn FnMut(u64, u64) -> ControlFlow<()> + 'f;
pub(crate) type CostFn<'f> = dyn FnMut(u64, &[f64], &[f64]) -> Result<f64, BoxError> + 'f;

/// A progress closure during a call. Options are used by reference, so each call of it borrows it.
pub(crate) type Progress<'a, 'f> = &'a RefCell<ProgressFn<'f>>;

// ---- status -------------------------------------------------------------------------------------

/// Return value of a trampoline whose closure failed; neither 0, `SAB_END` nor `SAB_OUT_OF_MEMORY`.
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
    /// A panic of the log closure, or of the destructor of a closure that C has released: they have
    /// no way to answer with a failure. Never dropped, since a payload's destructor may panic too.
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

/// Turns a status into a result, with the thread's message. To be called right after the call, once
/// the handle that it made is owned.
fn check(status: sys::sab_status) -> Result<sys::sab_status, Error> {
    resume_released();
    if status >= 0 {
        return Ok(status);
    }
    let text = |function: unsafe extern "C" fn() -> *const c_char| {
        // SAFETY: never NULL, NUL-terminated, belongs to this thread and is copied before its next
        // call.
        unsafe { CStr::from_ptr(function()) }.to_string_lossy().into_owned()
    };
    let message = text(sys::sab_last_error_message);
    let kind = match status {
        sys::SAB_E_CALLBACK => return Err(Error::Callback(message.into())),
        sys::SAB_E_CANCELLED => return Err(Error::Cancelled),
        sys::SAB_E_IO => {
            // SAFETY: takes nothing.
            return Err(Error::io(message, unsafe { sys::sab_last_error_code() }));
        }
        sys::SAB_E_ARGUMENT => Error::Argument,
        sys::SAB_E_NO_MEMORY => Error::NoMemory,
        sys::SAB_E_FORMAT => Error::Format,
        sys::SAB_E_MISMATCH => Error::Mismatch,
        sys::SAB_E_UNSUPPORTED => Error::Unsupported,
        sys::SAB_E_DEVICE_MEMORY => Error::DeviceMemory,
        sys::SAB_E_TIMEOUT => Error::Timeout,
        _ => Error::Internal,
    };
    Err(kind(Detail::of_library(
        &message,
        &text(sys::sab_last_error_argument),
        &text(sys::sab_last_error_value),
        &text(sys::sab_last_error_rule),
    )))
}

/// As [`check`], for a call that used closures: the failure of the first of them that failed is the
/// failure of the call.
fn check_with(
    status: sys::sab_status,
    failures: impl IntoIterator<Item = Option<Failure>>,
) -> Result<sys::sab_status, Error> {
    match failures.into_iter().flatten().next() {
        Some(failure) => Err(failure.into_error()),
        None => check(status),
    }
}

/// The result of a call that cannot fail with a live handle and a struct of the right size.
pub(crate) fn certain<T>(result: Result<T, Error>) -> T {
    result.expect("libsab refused its own handle")
}

pub(crate) fn path_text(path: &Path) -> Result<CString, Error> {
    text("path", path.as_os_str().as_encoded_bytes())
}

fn text(name: &str, bytes: &[u8]) -> Result<CString, Error> {
    CString::new(bytes).map_err(|_| {
        let value = String::from_utf8_lossy(bytes);
        Error::refused(name, format!("{value:?}"), "must not have a NUL byte")
    })
}

/// An optional text of options.
#[cfg(any(feature = "arrow", feature = "files"))]
fn optional_text(name: &str, given: Option<&str>) -> Result<Option<CString>, Error> {
    given.map(|given| text(name, given.as_bytes())).transpose()
}

/// NULL when there is none.
#[cfg(any(feature = "arrow", feature = "files"))]
fn optional_pointer(given: Option<&CString>) -> *const c_char {
    given.map_or(null(), |given| given.as_ptr())
}

// ---- closures -----------------------------------------------------------------------------------

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
        std::ptr::from_mut(self).cast()
    }

    /// Calls the closure; a panic or an error is kept and answered with [`CLOSURE_FAILED`].
    fn run(&mut self, call: impl FnOnce(&mut F) -> Result<i32, BoxError>) -> i32 {
        let function = &mut self.function;
        // The payload of a panic is handed on, never dropped here: its destructor could panic
        // again.
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

unsafe extern "C" fn progress_trampoline(context: *mut c_void, done: u64, total: u64) -> i32 {
    // SAFETY: `context` is the Guarded closure given with this trampoline, alive and used by nobody
    // else during the call.
    let guarded = unsafe { &mut *context.cast::<Guarded<Progress<'_, '_>>>() };
    guarded.run(|progress| Ok(i32::from((progress.borrow_mut())(done, total).is_break())))
}

/// The callback and context of an optional progress closure.
fn progress_parts(
    guarded: &mut Option<Guarded<Progress<'_, '_>>>,
) -> (sys::sab_progress_fn, *mut c_void) {
    match guarded {
        Some(guarded) => (Some(progress_trampoline), guarded.context()),
        None => (None, null_mut()),
    }
}

/// The options of a call that has no others.
fn progress_options(guarded: &mut Option<Guarded<Progress<'_, '_>>>) -> sys::sab_progress_options {
    let mut options = empty::<sys::sab_progress_options>();
    (options.progress, options.progress_ctx) = progress_parts(guarded);
    options
}

/// How an optional closure failed.
fn failure_of<F>(guarded: Option<Guarded<F>>) -> Option<Failure> {
    guarded?.failure
}

/// A pointer to the elements, NULL when there are none.
fn elements<T>(values: &[T]) -> *const T {
    if values.is_empty() {
        null()
    } else {
        values.as_ptr()
    }
}

/// As [`elements`], and their number.
fn counted<T>(values: &[T]) -> (*const T, usize) {
    (elements(values), values.len())
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

/// # Safety
///
/// When `columns` is not 0, so many values are readable.
unsafe fn per_column<T: Copy + Default>(data: *const T, columns: usize) -> PerColumn<T> {
    // SAFETY: the caller's promise.
    PerColumn::of(unsafe { slice(data, columns) }.iter().copied())
}

/// The names of columns, which C owns; `None` each for NULL.
///
/// # Safety
///
/// NULL, or `columns` texts that are readable and NUL-terminated during the call.
unsafe fn column_names(names: *const *const c_char, columns: usize) -> Vec<Option<String>> {
    if names.is_null() {
        return vec![None; columns];
    }
    // SAFETY: the caller's promise.
    let name = |text: &*const c_char| unsafe { CStr::from_ptr(*text) };
    // SAFETY: the caller's promise.
    let names = unsafe { slice(names, columns) };
    names.iter().map(|text| Some(name(text).to_string_lossy().into_owned())).collect()
}

/// A closure that a C handle uses, whatever its type.
trait Kept {
    /// How the closure failed during the last call.
    fn take_failure(&mut self) -> Option<Failure>;
}

impl<F> Kept for Guarded<F> {
    fn take_failure(&mut self) -> Option<Failure> {
        self.failure.take()
    }
}

/// Owns a value that C points to as well. Not a `Box`, which would promise a unique pointer.
struct Shared<T: ?Sized>(NonNull<T>);

// SAFETY: it owns the value, as a Box does.
unsafe impl<T: ?Sized + Send> Send for Shared<T> {}

impl<T> Shared<T> {
    /// The value, and the context to hand to its trampoline.
    fn new(value: T) -> (Self, *mut c_void) {
        let pointer = NonNull::from(Box::leak(Box::new(value)));
        (Shared(pointer), pointer.as_ptr().cast())
    }
}

/// A closure of any type, of a handle that may move to another thread.
type KeptBox<'a> = Shared<dyn Kept + Send + 'a>;

impl<'a> KeptBox<'a> {
    /// The closure, and the context to hand to its trampoline.
    fn of<K: Kept + Send + 'a>(kept: K) -> (Self, *mut c_void) {
        let pointer = NonNull::from(Box::leak(Box::new(kept)));
        (Shared(pointer), pointer.as_ptr().cast())
    }
}

impl<T: ?Sized + Kept> Shared<T> {
    /// # Safety
    ///
    /// No call of C is under way that could use the value, and no other thread.
    unsafe fn take_failure(&self) -> Option<Failure> {
        // SAFETY: alive, and the caller's promise.
        unsafe { &mut *self.0.as_ptr() }.take_failure()
    }
}

impl<T: ?Sized> Drop for Shared<T> {
    fn drop(&mut self) {
        // SAFETY: made by Box::leak; the C handle that pointed to it is freed before, or was not
        // made.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

// ---- library ------------------------------------------------------------------------------------

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
    unsafe { sys::sab_log_set_callback(callback, null_mut()) };
    drop(current);
    drop(earlier); // the caller's destructor runs without the lock
}
