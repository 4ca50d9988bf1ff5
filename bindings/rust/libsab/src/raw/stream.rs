//! Handles and trampolines of `stream.h`.
//!
//! A stream's closures run in threads of the library too, and it may be much later that what one
//! failed with comes to the caller. So a
//! closure answers with a code of its own for each failure, which the library hands on unchanged,
//! and by which it is found again.
//!
//! A closure may drop the stream that it belongs to, from a thread of the library that runs it. So
//! the library owns the closures of a stage, and frees
//! each by [`release`] when nothing can call it any more.

use std::marker::PhantomData;
use std::mem::size_of;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard};

use super::*;
use crate::cost::{Budget, Cost, CostKind};
use crate::sizes::Element;
use crate::stream::{
    FilesOptions, ListOptions, Made, MixOptions, PackedOptions, Random, ReadaheadOptions,
    RecordRef, Source,
};

#[cfg(test)]
mod tests;

pub(crate) type MapFn = dyn FnMut(RecordRef<'_>) -> Result<Made, BoxError> + Send;
pub(crate) type ParallelMapFn = dyn Fn(RecordRef<'_>) -> Result<Made, BoxError> + Send + Sync;
pub(crate) type SelectFn =
    dyn FnMut(RecordRef<'_>) -> Result<Option<StreamHandle>, BoxError> + Send;
pub(crate) type RecurFn = dyn FnMut(&[u8], RecordRef<'_>) -> Result<(Made, Made), BoxError> + Send;
pub(crate) type RandomMapFn =
    dyn FnMut(&mut Random<'_>, RecordRef<'_>) -> Result<Made, BoxError> + Send;
pub(crate) type NumberFn = dyn Fn(RecordRef<'_>) -> Result<u64, BoxError> + Send + Sync;
pub(crate) type SizesFn = dyn Fn(RecordRef<'_>, &mut [f64]) -> Result<(), BoxError> + Send + Sync;
pub(crate) type StreamProgressFn = dyn FnMut(u64, u64) -> ControlFlow<()> + Send;

// ---- records ------------------------------------------------------------------------------------

/// A record as C shows it.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct RecordView<'a> {
    record: sys::sab_record,
    borrowed: PhantomData<&'a [u8]>,
}

// SAFETY: what a record points to is only read as long as it is borrowed.
unsafe impl Send for RecordView<'_> {}
// SAFETY: as above.
unsafe impl Sync for RecordView<'_> {}

impl<'a> RecordView<'a> {
    /// # Safety
    ///
    /// What the record points to is valid for `'a`.
    unsafe fn new(record: sys::sab_record) -> Self {
        RecordView { record, borrowed: PhantomData }
    }

    pub(crate) fn size(&self) -> f64 {
        self.record.size
    }

    pub(crate) fn bytes(&self) -> Option<&'a [u8]> {
        // SAFETY: bytes that are valid for 'a, as was promised when the record was made.
        (self.record.kind == sys::SAB_RECORD_BYTES)
            .then(|| unsafe { slice(self.record.data.cast(), self.record.length) })
    }

    pub(crate) fn list(&self) -> Option<&'a [RecordView<'a>]> {
        // SAFETY: records that are valid for 'a, as was promised when the record was made, and have
        // the layout of C's.
        (self.record.kind == sys::SAB_RECORD_LIST)
            .then(|| unsafe { slice(self.record.data.cast(), self.record.length) })
    }
}

fn empty_record() -> sys::sab_record {
    sys::sab_record { kind: sys::SAB_RECORD_BYTES, size: 0.0, data: null(), length: 0 }
}

/// # Safety
///
/// The record is alive during the call that it was given to.
unsafe fn seen<'a>(record: *const sys::sab_record) -> RecordRef<'a> {
    // SAFETY: the caller's promise.
    RecordRef { view: unsafe { RecordView::new(*record) } }
}

thread_local! {
    /// The bytes that closures made last in this thread: C copies them when the callback has
    /// returned.
    static MADE: Cell<[Vec<u8>; 2]> = const { Cell::new([Vec::new(), Vec::new()]) };
}

/// Fills in what a closure made, and gives what must stay until C has copied it.
///
/// # Safety
///
/// `out` is a record that C wants filled.
unsafe fn fill(out: *mut sys::sab_record, made: Made) -> Vec<u8> {
    // SAFETY: the caller's promise.
    let out = unsafe { &mut *out };
    if let Some(bytes) = &made.bytes {
        *out = of_bytes(bytes);
    }
    out.size = made.size.unwrap_or(out.size);
    made.bytes.unwrap_or_default()
}

fn of_bytes(bytes: &[u8]) -> sys::sab_record {
    sys::sab_record {
        kind: sys::SAB_RECORD_BYTES,
        size: bytes.len() as f64,
        data: bytes.as_ptr().cast(),
        length: bytes.len(),
    }
}

/// A random generator, as long as its callback runs.
pub(crate) struct RandomHandle<'a> {
    pointer: NonNull<sys::sab_random>,
    borrowed: PhantomData<&'a mut ()>,
}

impl RandomHandle<'_> {
    pub(crate) fn real(&mut self) -> f64 {
        // SAFETY: alive as long as the callback, which this is lent to.
        unsafe { sys::sab_random_draw_real(self.pointer.as_ptr()) }
    }

    pub(crate) fn bits(&mut self, bits: u32) -> u64 {
        // SAFETY: as above.
        unsafe { sys::sab_random_draw_bits(self.pointer.as_ptr(), bits) }
    }
}

// ---- closures -----------------------------------------------------------------------------------

/// How closures of a pipeline failed, each by the code that it answered with.
#[derive(Default)]
struct Failures(Mutex<Storage>);

enum Storage {
    Kept(Vec<(i32, Failure)>),
    /// The stream became part of another, which has them.
    Joined(Arc<Failures>),
}

impl Default for Storage {
    fn default() -> Self {
        Storage::Kept(Vec::new())
    }
}

impl Failures {
    fn lock(&self) -> MutexGuard<'_, Storage> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, mut more: Vec<(i32, Failure)>) {
        match &mut *self.lock() {
            Storage::Kept(list) => list.append(&mut more),
            Storage::Joined(other) => other.add(more),
        }
    }

    /// Keeps a failure under a code that no other has, and no error of the system.
    fn keep(&self, failure: Failure) -> i32 {
        static KEPT: AtomicU32 = AtomicU32::new(0);
        let code = (1 << 16) + (KEPT.fetch_add(1, Ordering::Relaxed) % (1 << 30)) as i32;
        self.add(vec![(code, failure)]);
        code
    }

    fn take(&self, code: i32) -> Option<Failure> {
        let mut kind = self.lock();
        match &mut *kind {
            Storage::Kept(list) => {
                list.iter().position(|kept| kept.0 == code).map(|place| list.swap_remove(place).1)
            }
            Storage::Joined(other) => other.take(code),
        }
    }

    /// Drops failures that did not reach the caller before the stream was rewound or restored.
    fn forget(&self) {
        let mut kind = self.lock();
        let stale = match &mut *kind {
            Storage::Kept(list) => std::mem::take(list),
            Storage::Joined(other) => return other.forget(),
        };
        drop(kind);
        drop(stale); // a caller's destructors run without the lock
    }

    /// From now on they are kept by another pipeline.
    fn join(&self, other: &Arc<Failures>) {
        let before = std::mem::replace(&mut *self.lock(), Storage::Joined(other.clone()));
        match before {
            Storage::Kept(list) => other.add(list),
            Storage::Joined(_) => unreachable!("a stream becomes part of one other"),
        }
    }

    /// Runs a closure; a panic or an error is kept and answered with its code.
    fn run(&self, call: impl FnOnce() -> Result<i32, BoxError>) -> i32 {
        match catch_unwind(AssertUnwindSafe(call)) {
            Ok(Ok(code)) => code,
            Ok(Err(error)) => self.keep(Failure::Error(error)),
            Err(payload) => self.keep(Failure::Panic(payload)),
        }
    }
}

/// The closure of a stage. C owns it from the time when the stage was made, and frees it by
/// [`release`].
struct Stage<F> {
    function: F,
    failures: Arc<Failures>,
}

/// Frees a `Stage<F>`, in whatever thread was the last that could call it.
///
/// # Safety
///
/// `context` is the `Stage<F>` given with this function. It is not used any more.
unsafe extern "C" fn release<F: Send>(context: *mut c_void) {
    // SAFETY: made by Offered::new, and given to C, which calls this once.
    let stage = unsafe { Box::from_raw(context.cast::<Stage<F>>()) };
    if let Err(payload) = catch_unwind(AssertUnwindSafe(move || drop(stage))) {
        keep_panic(payload);
    }
}

/// A closure on its way to C: freed here unless C has made a stage of it.
struct Offered<F: Send + 'static>(NonNull<Stage<F>>);

impl<F: Send + 'static> Offered<F> {
    fn new(function: F, failures: &Arc<Failures>) -> Self {
        Offered(NonNull::from(Box::leak(Box::new(Stage { function, failures: failures.clone() }))))
    }

    /// For the trampolines, and for `release::<F>`.
    fn context(&self) -> *mut c_void {
        self.0.as_ptr().cast()
    }

    /// C has made a stage of it, where it gave a handle.
    fn take_if_made<H>(self, handle: *mut H) {
        if !handle.is_null() {
            std::mem::forget(self);
        }
    }
}

impl<F: Send + 'static> Drop for Offered<F> {
    fn drop(&mut self) {
        // SAFETY: made by Box::leak, and C has not made a stage of it.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

/// Runs the closure of a stage that is called by one thread at a time.
///
/// # Safety
///
/// `context` is the `Stage<F>` given with the trampoline. It is alive, and nothing else uses it
/// during the call.
unsafe fn run_stage<F>(
    context: *mut c_void,
    call: impl FnOnce(&mut F) -> Result<i32, BoxError>,
) -> i32 {
    // SAFETY: the caller's promise.
    let Stage { function, failures } = unsafe { &mut *context.cast::<Stage<F>>() };
    failures.run(|| call(function))
}

/// # Safety
///
/// `record` is alive during the call, and `made` is to be filled.
unsafe fn map(
    record: *const sys::sab_record,
    made: *mut sys::sab_record,
    function: impl FnOnce(RecordRef<'_>) -> Result<Made, BoxError>,
) -> Result<i32, BoxError> {
    // SAFETY: the caller's promise.
    MADE.set([unsafe { fill(made, function(seen(record))?) }, Vec::new()]);
    Ok(sys::SAB_OK)
}

unsafe extern "C" fn map_trampoline(
    context: *mut c_void,
    record: *const sys::sab_record,
    made: *mut sys::sab_record,
) -> i32 {
    // SAFETY: given with this context.
    unsafe { run_stage::<Box<MapFn>>(context, |function| map(record, made, function)) }
}

unsafe extern "C" fn parallel_map_trampoline(
    context: *mut c_void,
    record: *const sys::sab_record,
    made: *mut sys::sab_record,
) -> i32 {
    // SAFETY: the Stage given with this trampoline, alive during the call and shared by threads, as
    // the closure may be.
    let Stage { function, failures } = unsafe { &*context.cast::<Stage<Box<ParallelMapFn>>>() };
    // SAFETY: as C gives them.
    failures.run(|| unsafe { map(record, made, function) })
}

unsafe extern "C" fn random_map_trampoline(
    context: *mut c_void,
    random: *mut sys::sab_random,
    record: *const sys::sab_record,
    made: *mut sys::sab_record,
) -> i32 {
    // SAFETY: given with this context; the generator is alive during the call, and nobody else's.
    unsafe {
        run_stage::<Box<RandomMapFn>>(context, |function| {
            let mut random = Random {
                handle: RandomHandle {
                    pointer: NonNull::new_unchecked(random),
                    borrowed: PhantomData,
                },
            };
            map(record, made, |record| function(&mut random, record))
        })
    }
}

unsafe extern "C" fn recur_trampoline(
    context: *mut c_void,
    state: *const sys::sab_record,
    record: *const sys::sab_record,
    next: *mut sys::sab_record,
    made: *mut sys::sab_record,
) -> i32 {
    // SAFETY: given with this context; records are alive during the call, those to be filled are
    // apart from them.
    unsafe {
        run_stage::<Box<RecurFn>>(context, |function| {
            let state = slice((*state).data.cast(), (*state).length);
            let (after, turned) = function(state, seen(record))?;
            MADE.set([fill(next, after), fill(made, turned)]);
            Ok(sys::SAB_OK)
        })
    }
}

unsafe extern "C" fn select_trampoline(
    context: *mut c_void,
    record: *const sys::sab_record,
    made: *mut *mut sys::sab_stream,
) -> i32 {
    // SAFETY: the Stage given with this trampoline, alive and used by nobody else during the call.
    let Stage { function: select, failures } =
        unsafe { &mut *context.cast::<Stage<Box<SelectFn>>>() };
    failures.run(|| {
        // SAFETY: alive during the call.
        if let Some(StreamHandle { stream, parts }) = select(unsafe { seen(record) })? {
            parts.failures.join(failures);
            // SAFETY: room for a handle, which C frees from now on. It takes records of this stream
            // only
            // and never calls its progress closures, which are dropped now.
            unsafe { made.write(stream.give()) };
        }
        Ok(sys::SAB_OK)
    })
}

/// The closures of a stage of windows, shared with its options.
#[derive(Default)]
pub(crate) struct Limits {
    batch_size: Option<Arc<NumberFn>>,
    boundary_key: Option<Arc<NumberFn>>,
    sizes: Option<Arc<SizesFn>>,
    /// How many numbers `sizes` gives; the stage was made with as many columns.
    columns: usize,
}

/// A budget of a stage, which keeps it; `None` if its cost is a closure, which no stage keeps.
#[derive(Clone, Debug)]
pub(crate) struct KeptBudget(Option<Budget<'static>>);

// SAFETY: the cost is no closure, as `of` sees to: numbers, or a shared handle of a memory model's
// cost, which never changes.
unsafe impl Send for KeptBudget {}
// SAFETY: as above.
unsafe impl Sync for KeptBudget {}

impl KeptBudget {
    pub(crate) fn of(budget: Budget<'_>) -> Self {
        let kind = match budget.cost.map(|cost| cost.0) {
            None => None,
            Some(CostKind::Padded(weights)) => Some(CostKind::Padded(weights)),
            Some(CostKind::Terms(terms)) => Some(CostKind::Terms(terms)),
            Some(CostKind::Handle(handle)) => Some(CostKind::Handle(handle)),
            Some(CostKind::Function(_)) => return KeptBudget(None),
        };
        KeptBudget(Some(Budget { limit: budget.limit, cost: kind.map(Cost) }))
    }

    fn all(kept: &[KeptBudget]) -> Result<Vec<Budget<'static>>, Error> {
        let budget = |(index, KeptBudget(budget)): (usize, &KeptBudget)| {
            budget.clone().ok_or_else(|| {
                Error::argument_error(format!(
                    "budgets[{index}].cost: must not be a closure, since the stream keeps it"
                ))
            })
        };
        kept.iter().enumerate().map(budget).collect()
    }
}

/// # Safety
///
/// `record` is alive during the call, and there is room for a number.
unsafe fn number(
    function: Option<&NumberFn>,
    record: *const sys::sab_record,
    out: *mut u64,
) -> Result<i32, BoxError> {
    let function = function.expect("a trampoline is given with its closure");
    // SAFETY: the caller's promise.
    unsafe { out.write(function(seen(record))?) };
    Ok(sys::SAB_OK)
}

unsafe extern "C" fn batch_size_trampoline(
    context: *mut c_void,
    largest: *const sys::sab_record,
    batch_size: *mut u64,
) -> i32 {
    // SAFETY: given with this context.
    unsafe {
        run_stage::<Limits>(context, |limits| {
            number(limits.batch_size.as_deref(), largest, batch_size)
        })
    }
}

unsafe extern "C" fn boundary_key_trampoline(
    context: *mut c_void,
    record: *const sys::sab_record,
    key: *mut u64,
) -> i32 {
    // SAFETY: given with this context.
    unsafe {
        run_stage::<Limits>(context, |limits| number(limits.boundary_key.as_deref(), record, key))
    }
}

/// Makes a stage with the options and their closures, which C then owns, and with their budgets,
/// which it reads during the call.
fn with_readahead_options<R>(
    options: &ReadaheadOptions,
    failures: &Arc<Failures>,
    make: impl FnOnce(&sys::sab_readahead_stream_options, Offered<Limits>) -> Result<R, Error>,
) -> Result<R, Error> {
    let budgets = KeptBudget::all(&options.budgets)?;
    let mut call = InCall::without_progress();
    let mut raw = *options.raw;
    (raw.budgets, raw.budget_count) = call.budgets(&budgets)?;
    let limits = Limits {
        batch_size: options.batch_size_fn.0.clone(),
        boundary_key: options.boundary_key_fn.0.clone(),
        sizes: options.sizes_fn.0.clone(),
        columns: raw.columns,
    };
    raw.batch_size_fn = limits.batch_size.as_ref().map(|_| batch_size_trampoline as _);
    raw.boundary_key_fn = limits.boundary_key.as_ref().map(|_| boundary_key_trampoline as _);
    raw.sizes_fn = limits.sizes.as_ref().map(|_| sizes_trampoline as _);
    let offered = Offered::new(limits, failures);
    raw.ctx = offered.context();
    raw.release = Some(release::<Limits>);
    make(&raw, offered)
}

unsafe extern "C" fn sizes_trampoline(
    context: *mut c_void,
    record: *const sys::sab_record,
    sizes: *mut f64,
) -> i32 {
    // SAFETY: given with this context, and there is room for a number of each column.
    unsafe {
        run_stage::<Limits>(context, |limits| {
            let function = limits.sizes.as_deref().expect("a trampoline is given with its closure");
            function(seen(record), std::slice::from_raw_parts_mut(sizes, limits.columns))?;
            Ok(sys::SAB_OK)
        })
    }
}

/// A source, and the bytes of its record: C may copy them later than when `next` has returned.
struct Sourcing<S> {
    source: S,
    made: Vec<u8>,
}

unsafe extern "C" fn next_trampoline<S: Source>(
    context: *mut c_void,
    record: *mut sys::sab_record,
) -> i32 {
    // SAFETY: given with this context; the record is to be filled.
    unsafe {
        run_stage::<Sourcing<S>>(context, |Sourcing { source, made }| {
            let Some(next) = source.next()? else { return Ok(sys::SAB_END) };
            record.write(empty_record());
            *made = fill(record, next);
            Ok(sys::SAB_OK)
        })
    }
}

unsafe extern "C" fn rewind_trampoline<S: Source>(context: *mut c_void) -> i32 {
    // SAFETY: given with this context.
    unsafe {
        run_stage::<Sourcing<S>>(context, |stage| stage.source.rewind().map(|()| sys::SAB_OK))
    }
}

unsafe extern "C" fn state_save_trampoline<S: Source>(
    context: *mut c_void,
    buffer: *mut c_void,
    capacity: usize,
    size: *mut usize,
) -> i32 {
    // SAFETY: given with this context; room for a number, and for `capacity` bytes.
    unsafe {
        run_stage::<Sourcing<S>>(context, |stage| {
            let state = stage.source.state()?;
            size.write(state.len());
            if capacity >= state.len() {
                buffer.cast::<u8>().copy_from_nonoverlapping(state.as_ptr(), state.len());
            }
            Ok(sys::SAB_OK)
        })
    }
}

unsafe extern "C" fn state_restore_trampoline<S: Source>(
    context: *mut c_void,
    data: *const c_void,
    size: usize,
) -> i32 {
    // SAFETY: given with this context; `size` bytes are readable.
    unsafe {
        run_stage::<Sourcing<S>>(context, |stage| {
            stage.source.restore(slice(data.cast(), size)).map(|()| sys::SAB_OK)
        })
    }
}

// ---- streams ------------------------------------------------------------------------------------

/// What a stream keeps of Rust's.
#[derive(Default)]
struct StreamParts {
    /// Its own closure, or those of the streams that became part of it. Called in the thread that
    /// uses the stream only, so never by a stream that is
    /// dropped meanwhile.
    progress: Vec<KeptBox<'static>>,
    failures: Arc<Failures>,
}

impl StreamParts {
    /// Takes over what belongs to a stream that became part of this one.
    fn join(&mut self, other: StreamParts) {
        other.failures.join(&self.failures);
        self.progress.extend(other.progress);
    }

    fn take_failure(&self) -> Option<Failure> {
        for progress in &self.progress {
            // SAFETY: the handle is of one thread, and no call of C is under way that could use it.
            let failure = unsafe { progress.take_failure() };
            if failure.is_some() {
                return failure;
            }
        }
        // SAFETY: no arguments; of this thread.
        self.failures.take(unsafe { sys::sab_last_error_code() })
    }
}

impl Kept for StreamParts {
    fn take_failure(&mut self) -> Option<Failure> {
        StreamParts::take_failure(self)
    }
}

/// Stages whose functions take the stream below and numbers.
macro_rules! stages {
    ($(fn $name:ident($($argument:ident: $type:ty),*) = $function:ident;)*) => {$(
        pub(crate) fn $name(self $(, $argument: $type)*) -> Result<Self, Error> {
            // SAFETY: a live handle, and room for a handle.
            self.over(|source, stream| unsafe { sys::$function(source $(, $argument)*, stream) })
        }
    )*};
}

/// A stream and what it keeps, which is dropped after it, as fields are in their order.
pub(crate) struct StreamHandle {
    stream: Owned<sys::sab_stream>,
    parts: StreamParts,
}

impl StreamHandle {
    fn source(
        call: impl FnOnce(*mut *mut sys::sab_stream) -> sys::sab_status,
        parts: StreamParts,
    ) -> Result<Self, Error> {
        Ok(StreamHandle { stream: make(call)?, parts })
    }

    pub(crate) fn list(records: &[Made], options: &ListOptions) -> Result<Self, Error> {
        let raw = |record: &Made| {
            let bytes = of_bytes(record.bytes.as_deref().unwrap_or_default());
            sys::sab_record { size: record.size.unwrap_or(bytes.size), ..bytes }
        };
        let raw: Vec<_> = records.iter().map(raw).collect();
        // SAFETY: bytes of the caller's records.
        unsafe { Self::of_records(&raw, options) }
    }

    pub(crate) fn array<T: Element>(items: &[T], options: &ListOptions) -> Result<Self, Error> {
        let raw = |item: &T| sys::sab_record {
            kind: sys::SAB_RECORD_BYTES,
            size: size_of::<T>() as f64,
            data: std::ptr::from_ref(item).cast(),
            length: size_of::<T>(),
        };
        let raw: Vec<_> = items.iter().map(raw).collect();
        // SAFETY: bytes of the caller's items.
        unsafe { Self::of_records(&raw, options) }
    }

    /// # Safety
    ///
    /// The bytes of the records are readable during the call, which copies them.
    unsafe fn of_records(
        records: &[sys::sab_record],
        options: &ListOptions,
    ) -> Result<Self, Error> {
        // SAFETY: so many records, as the caller promises, a struct whose size is set, and room for
        // a handle.
        let make = |stream: *mut *mut _| unsafe {
            sys::sab_list_stream_new(elements(records), records.len(), &*options.raw, stream)
        };
        Self::source(make, StreamParts::default())
    }

    pub(crate) fn random(seed: u64) -> Result<Self, Error> {
        // SAFETY: room for a handle.
        Self::source(
            |stream| unsafe { sys::sab_random_stream_new(seed, stream) },
            StreamParts::default(),
        )
    }

    /// `has_state`: a state is the source's own, and not the number of records that it gave.
    pub(crate) fn closures<S: Source + 'static>(source: S, has_state: bool) -> Result<Self, Error> {
        let parts = StreamParts::default();
        let offered = Offered::new(Sourcing { source, made: Vec::new() }, &parts.failures);
        let mut functions = empty::<sys::sab_source_functions>();
        functions.ctx = offered.context();
        functions.release = Some(release::<Sourcing<S>>);
        functions.next = Some(next_trampoline::<S>);
        functions.rewind = Some(rewind_trampoline::<S>);
        if has_state {
            functions.state_save = Some(state_save_trampoline::<S>);
            functions.state_restore = Some(state_restore_trampoline::<S>);
        }
        let make = |stream: *mut *mut sys::sab_stream| {
            // SAFETY: the context fits its trampolines, and C owns it when there is a stream.
            let status = unsafe { sys::sab_callback_stream_new(&functions, stream) };
            // SAFETY: NULL before the call, and room for a handle.
            offered.take_if_made(unsafe { *stream });
            status
        };
        Self::source(make, parts)
    }

    /// A stage over this stream, which is dropped when the stage is refused.
    fn over(
        mut self,
        make: impl FnOnce(*mut sys::sab_stream, *mut *mut sys::sab_stream) -> sys::sab_status,
    ) -> Result<Self, Error> {
        let (status, stage) = construct(|stream| make(self.pointer(), stream))?;
        if let Some(stage) = stage {
            self.stream.become_part_of(stage);
        }
        check(status)?;
        Ok(self)
    }

    /// As [`StreamHandle::over`]. `make` gives the context to C together with `release::<F>`.
    fn over_closure<F: Send + 'static>(
        self,
        function: F,
        make: impl FnOnce(
            *mut sys::sab_stream,
            *mut c_void,
            *mut *mut sys::sab_stream,
        ) -> sys::sab_status,
    ) -> Result<Self, Error> {
        let offered = Offered::new(function, &self.parts.failures);
        self.over(|source, stream| {
            let status = make(source, offered.context(), stream);
            // SAFETY: NULL before the call, and room for a handle.
            offered.take_if_made(unsafe { *stream });
            status
        })
    }

    pub(crate) fn files(self, options: &FilesOptions) -> Result<Self, Error> {
        // SAFETY: a live handle, a struct whose size is set, and room for a handle.
        self.over(|source, stream| unsafe {
            sys::sab_files_stream_new(source, &*options.raw, stream)
        })
    }

    stages! {
        fn flatten() = sab_flatten_stream_new;
        fn rank(rank: u64, world_size: u64) = sab_shard_stream_new;
        fn batch(batch_size: u64) = sab_batch_stream_new;
        fn window(width: u64) = sab_window_stream_new;
        fn shuffle(shuffle: i32, size: u64, seed: u64) = sab_shuffle_stream_new;
        fn prefetch(buffer_size: u64) = sab_prefetch_stream_new;
    }

    pub(crate) fn map(self, function: Box<MapFn>) -> Result<Self, Error> {
        self.over_map(function, map_trampoline, 0)
    }

    pub(crate) fn map_parallel(
        self,
        threads: u64,
        function: Box<ParallelMapFn>,
    ) -> Result<Self, Error> {
        self.over_map(function, parallel_map_trampoline, threads)
    }

    fn over_map<F: Send + 'static>(
        self,
        function: F,
        trampoline: unsafe extern "C" fn(
            *mut c_void,
            *const sys::sab_record,
            *mut sys::sab_record,
        ) -> i32,
        threads: u64,
    ) -> Result<Self, Error> {
        self.over_closure(function, |source, context, stream| {
            let mut options = empty::<sys::sab_map_stream_options>();
            options.map = Some(trampoline);
            options.ctx = context;
            options.release = Some(release::<F>);
            options.threads = threads;
            // SAFETY: a live handle; the context fits its trampoline, and C owns it when there is a
            // stream.
            unsafe { sys::sab_map_stream_new(source, &options, stream) }
        })
    }

    pub(crate) fn select(self, select: Box<SelectFn>) -> Result<Self, Error> {
        // SAFETY: as for a map.
        self.over_closure(select, |source, context, stream| unsafe {
            sys::sab_select_stream_new(
                source,
                Some(select_trampoline),
                context,
                Some(release::<Box<SelectFn>>),
                null(),
                stream,
            )
        })
    }

    pub(crate) fn recurrent(self, initial: &[u8], function: Box<RecurFn>) -> Result<Self, Error> {
        let initial = of_bytes(initial);
        // SAFETY: as for a map; the first state is copied.
        self.over_closure(function, |source, context, stream| unsafe {
            let release = Some(release::<Box<RecurFn>> as unsafe extern "C" fn(_));
            sys::sab_recurrent_stream_new(
                source,
                Some(recur_trampoline),
                context,
                release,
                &initial,
                null(),
                stream,
            )
        })
    }

    pub(crate) fn random_map(self, seed: u64, function: Box<RandomMapFn>) -> Result<Self, Error> {
        // SAFETY: as for a map.
        self.over_closure(function, |source, context, stream| unsafe {
            let release = Some(release::<Box<RandomMapFn>> as unsafe extern "C" fn(_));
            sys::sab_random_map_stream_new(
                source,
                Some(random_map_trampoline),
                context,
                release,
                seed,
                null(),
                stream,
            )
        })
    }

    /// A stream over several, which are dropped when it is refused.
    fn over_many(
        sources: Vec<StreamHandle>,
        call: impl FnOnce(&[*mut sys::sab_stream], *mut *mut sys::sab_stream) -> sys::sab_status,
    ) -> Result<Self, Error> {
        let pointers: Vec<_> = sources.iter().map(|source| source.stream.pointer()).collect();
        let (status, stream) = construct(|stream| call(&pointers, stream))?;
        let handle = stream.map(|stream| {
            let mut parts = StreamParts::default();
            for StreamHandle { stream, parts: theirs } in sources {
                stream.give();
                parts.join(theirs);
            }
            StreamHandle { stream, parts }
        });
        made(check(status), handle)
    }

    pub(crate) fn zip(sources: Vec<StreamHandle>) -> Result<Self, Error> {
        // SAFETY: so many live handles, and room for a handle.
        Self::over_many(sources, |pointers, stream| unsafe {
            sys::sab_zip_stream_new(elements(pointers), pointers.len(), stream)
        })
    }

    /// The first is the control stream.
    pub(crate) fn multiplex(control_and_sources: Vec<StreamHandle>) -> Result<Self, Error> {
        Self::over_many(control_and_sources, |pointers, stream| {
            let (control, sources) = (pointers[0], &pointers[1..]);
            // SAFETY: so many live handles, and room for a handle.
            unsafe {
                sys::sab_multiplex_stream_new(control, elements(sources), sources.len(), stream)
            }
        })
    }

    pub(crate) fn mix(sources: Vec<StreamHandle>, options: &MixOptions) -> Result<Self, Error> {
        let mut raw = *options.raw;
        (raw.proportions, raw.proportion_count) = counted(&options.proportions);
        // SAFETY: so many live handles, proportions that live as long as the call, and room for a
        // handle.
        Self::over_many(sources, |pointers, stream| unsafe {
            sys::sab_mix_stream_new(elements(pointers), pointers.len(), &raw, stream)
        })
    }

    pub(crate) fn pack(self, options: &PackedOptions) -> Result<Self, Error> {
        let mut raw = *options.raw;
        let columns = options.capacities.len();
        (raw.capacities, raw.capacity_count) = counted(&options.capacities);
        let Some(sizes) = options.sizes_fn.0.clone() else {
            // SAFETY: a live handle, options that live as long as the call, and room for a handle.
            return self
                .over(|source, stream| unsafe { sys::sab_pack_stream_new(source, &raw, stream) });
        };
        raw.sizes_fn = Some(sizes_trampoline);
        raw.release = Some(release::<Limits>);
        let limits = Limits { sizes: Some(sizes), columns, ..Limits::default() };
        self.over_closure(limits, |source, context, stream| {
            raw.ctx = context;
            // SAFETY: a live handle, capacities that live as long as the call; the context fits its
            // trampoline, and C owns it when there is a stream.
            unsafe { sys::sab_pack_stream_new(source, &raw, stream) }
        })
    }

    pub(crate) fn readahead(self, options: &ReadaheadOptions) -> Result<Self, Error> {
        let failures = self.parts.failures.clone();
        with_readahead_options(options, &failures, |raw, offered| {
            self.over(|source, stream| {
                // SAFETY: a live handle; the context fits its trampolines, and C owns it when there
                // is a stream.
                let status = unsafe { sys::sab_readahead_stream_new(source, raw, stream) };
                // SAFETY: NULL before the call, and room for a handle.
                offered.take_if_made(unsafe { *stream });
                status
            })
        })
    }

    fn pointer(&self) -> *mut sys::sab_stream {
        self.stream.pointer()
    }

    calls! { fn skipped(&self) -> u64 = sab_stream_get_skipped_count; }

    /// As [`check`], after a call that may have used the stream's closures.
    fn check(&self, status: sys::sab_status) -> Result<sys::sab_status, Error> {
        check_with(status, [self.parts.take_failure()])
    }

    pub(crate) fn next(&mut self) -> Option<Result<RecordView<'_>, Error>> {
        let mut record = empty_record();
        // SAFETY: a live handle that nobody else uses, and room for a record.
        let status = unsafe { sys::sab_stream_next(self.pointer(), &mut record) };
        match self.check(status) {
            Ok(sys::SAB_END) => None,
            // SAFETY: valid until the next call on the stream, which needs `&mut self`.
            Ok(_) => Some(Ok(unsafe { RecordView::new(record) })),
            Err(error) => Some(Err(error)),
        }
    }

    pub(crate) fn set_progress(&mut self, progress: Option<Box<StreamProgressFn>>) {
        let mut raw = empty::<sys::sab_progress_options>();
        let kept = progress.map(|progress| {
            let (kept, context) = KeptBox::of(Guarded::new(progress));
            raw.progress = Some(stream_progress_trampoline as _);
            raw.progress_ctx = context;
            kept
        });
        // SAFETY: a live handle; the context fits its trampoline and lives until another takes its
        // place or the stream is freed.
        certain(check(unsafe { sys::sab_stream_set_progress(self.pointer(), &raw) }));
        self.parts.progress = Vec::from_iter(kept);
    }

    pub(crate) fn rewind(&mut self) -> Result<(), Error> {
        // SAFETY: a live handle that nobody else uses.
        let status = unsafe { sys::sab_stream_rewind(self.pointer()) };
        self.check(status)?;
        self.parts.failures.forget();
        Ok(())
    }

    /// By `&mut self`: a source of the caller's may be asked for its state, and must not be asked
    /// again meanwhile.
    pub(crate) fn state(&mut self) -> Result<Vec<u8>, Error> {
        // SAFETY: a live handle that nobody else uses.
        unsafe { save_state(self.pointer(), |status| self.check(status)) }
    }

    pub(crate) fn restore(&mut self, state: &[u8]) -> Result<(), Error> {
        // SAFETY: a live handle that nobody else uses, and `state` is readable for its length.
        let status = unsafe {
            sys::sab_stream_state_restore(self.pointer(), state.as_ptr().cast(), state.len())
        };
        self.check(status)?;
        self.parts.failures.forget();
        Ok(())
    }
}

unsafe extern "C" fn stream_progress_trampoline(
    context: *mut c_void,
    done: u64,
    total: u64,
) -> i32 {
    // SAFETY: `context` is the Guarded closure given with this trampoline, alive and used by nobody
    // else during the call.
    let guarded = unsafe { &mut *context.cast::<Guarded<Box<StreamProgressFn>>>() };
    guarded.run(|function| Ok(i32::from(function(done, total).is_break())))
}

/// # Safety
///
/// A live handle.
unsafe fn save_state(
    stream: *const sys::sab_stream,
    mut check: impl FnMut(sys::sab_status) -> Result<sys::sab_status, Error>,
) -> Result<Vec<u8>, Error> {
    let mut state = vec![0u8; 4096]; // enough for most, so that few states are made twice
    loop {
        let mut size = 0;
        // SAFETY: the caller's promise, and room for so many bytes.
        let status = unsafe {
            sys::sab_stream_state_save(stream, state.as_mut_ptr().cast(), state.len(), &mut size)
        };
        if status == sys::SAB_E_ARGUMENT && size > state.len() {
            state.resize(size, 0);
            continue;
        }
        check(status)?;
        state.truncate(size);
        return Ok(state);
    }
}
