//! Calls of `memory.h`.

use std::rc::Rc;

use super::*;
use crate::memory::{
    CollectOptions, Device, GuardOptions, MaxBatchOptions, MeasurementOptions, ModelOptions,
    StepError, StepOptions, Verification,
};

pub(crate) type StepResult = Result<(), StepError>;
pub(crate) type WorkFn<'f> = dyn FnMut(u64) -> Option<Result<Vec<f64>, StepError>> + 'f;
pub(crate) type HookFn<'f> = dyn FnMut() -> Result<(), BoxError> + 'f;
pub(crate) type TrialFn<'f> = dyn FnMut(u64, f64) -> StepResult + 'f;
pub(crate) type ChunkFn<'f> = dyn FnMut(u64, u64, f64) -> StepResult + 'f;
pub(crate) type BatchFn<'f> = dyn FnMut(BatchRef<'_>) -> StepResult + 'f;
pub(crate) type ReduceFn<'f> = dyn FnMut(&mut [i64]) -> Result<(), BoxError> + 'f;

/// A number of bytes of the library; negative where it is unknown.
pub(crate) fn known(bytes: i64) -> Option<u64> {
    u64::try_from(bytes).ok()
}

/// A number of bytes for the library. No memory has more.
pub(crate) fn signed_bytes(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

/// As [`signed_bytes`]; -1 where the number is unknown.
fn or_unknown(bytes: Option<u64>) -> i64 {
    bytes.map_or(-1, signed_bytes)
}

fn code_of(result: StepResult) -> Result<i32, BoxError> {
    match result {
        Ok(()) => Ok(sys::SAB_OK),
        Err(StepError::OutOfMemory) => Ok(sys::SAB_OUT_OF_MEMORY),
        Err(StepError::Other(error)) => Err(error),
    }
}

fn done(result: Result<(), BoxError>) -> Result<i32, BoxError> {
    result.map(|()| sys::SAB_OK)
}

/// The closures of a call, its own and those of its options, behind one context pointer.
#[derive(Default)]
struct Closures<'a, 'w, 'f> {
    work: Option<&'a mut WorkFn<'w>>,
    cleanup: Option<&'a RefCell<HookFn<'f>>>,
    collect_garbage: Option<&'a RefCell<HookFn<'f>>>,
    begin: Option<&'a RefCell<HookFn<'f>>>,
    trial: Option<&'a mut TrialFn<'w>>,
    chunk: Option<&'a mut ChunkFn<'w>>,
    batch: Option<&'a mut BatchFn<'w>>,
    reduce: Option<&'a RefCell<ReduceFn<'f>>>,
}

/// # Safety
///
/// `context` is the `Guarded<Closures>` given with the trampoline. It is alive, and nothing else
/// uses it during the call.
unsafe fn closures<'a>(context: *mut c_void) -> &'a mut Guarded<Closures<'a, 'a, 'a>> {
    // SAFETY: the caller's promise.
    unsafe { &mut *context.cast() }
}

/// The closure behind a trampoline that is only given where the closure is.
fn given<F>(closure: &mut Option<F>) -> &mut F {
    closure.as_mut().expect("a trampoline is given with its closure")
}

unsafe extern "C" fn work_trampoline(
    context: *mut c_void,
    item: u64,
    features: *mut f64,
    capacity: usize,
    count: *mut usize,
) -> i32 {
    // SAFETY: given with this context.
    unsafe { closures(context) }.run(|calls| {
        let Some(result) = given(&mut calls.work)(item) else { return Ok(sys::SAB_END) };
        let numbers = match result {
            Ok(numbers) => numbers,
            Err(error) => return code_of(Err(error)),
        };
        // SAFETY: room for a number, and for `capacity` features; when there are more, the library
        // refuses by their count.
        unsafe {
            count.write(numbers.len());
            features.copy_from_nonoverlapping(numbers.as_ptr(), numbers.len().min(capacity));
        }
        Ok(sys::SAB_OK)
    })
}

unsafe extern "C" fn cleanup_trampoline(context: *mut c_void, _: u64) -> i32 {
    // SAFETY: given with this context.
    unsafe { closures(context) }.run(|calls| done((given(&mut calls.cleanup).borrow_mut())()))
}

unsafe extern "C" fn garbage_trampoline(context: *mut c_void) -> i32 {
    // SAFETY: given with this context.
    unsafe { closures(context) }
        .run(|calls| done((given(&mut calls.collect_garbage).borrow_mut())()))
}

unsafe extern "C" fn begin_trampoline(context: *mut c_void) -> i32 {
    // SAFETY: given with this context.
    unsafe { closures(context) }.run(|calls| done((given(&mut calls.begin).borrow_mut())()))
}

unsafe extern "C" fn trial_trampoline(context: *mut c_void, count: u64, length: f64) -> i32 {
    // SAFETY: given with this context.
    unsafe { closures(context) }.run(|calls| code_of(given(&mut calls.trial)(count, length)))
}

unsafe extern "C" fn chunk_trampoline(
    context: *mut c_void,
    first: u64,
    count: u64,
    weight: f64,
) -> i32 {
    // SAFETY: given with this context.
    unsafe { closures(context) }.run(|calls| code_of(given(&mut calls.chunk)(first, count, weight)))
}

unsafe extern "C" fn batch_trampoline(context: *mut c_void, batch: *const sys::sab_batch) -> i32 {
    // SAFETY: given with this context; the batch is alive during the call.
    unsafe { closures(context) }
        .run(|calls| code_of(given(&mut calls.batch)(unsafe { shown(&*batch) })))
}

unsafe extern "C" fn reduce_trampoline(
    context: *mut c_void,
    values: *mut i64,
    count: usize,
) -> i32 {
    // SAFETY: given with this context.
    unsafe { closures(context) }.run(|calls| {
        // SAFETY: `count` numbers are there to be read and written.
        let values = unsafe { std::slice::from_raw_parts_mut(values, count) };
        done((given(&mut calls.reduce).borrow_mut())(values))
    })
}

// ---- probes -------------------------------------------------------------------------------------

type DeviceRef<'d> = &'d (dyn Device + 'd);

/// Runs a function of a device. It may use a probe of the same device, so the target of the context
/// is not borrowed meanwhile.
///
/// # Safety
///
/// `context` is the `Guarded<DeviceRef>` given with the trampoline, alive and not borrowed.
unsafe fn on_device(
    context: *mut c_void,
    call: impl FnOnce(DeviceRef<'_>) -> Result<(), BoxError>,
) -> i32 {
    let kept = context.cast::<Guarded<DeviceRef<'_>>>();
    // SAFETY: the caller's promise.
    let mut guarded = Guarded::new(unsafe { (*kept).function });
    let code = guarded.run(|device| done(call(*device)));
    if let Some(failure) = guarded.failure {
        // SAFETY: as above.
        unsafe { (*kept).keep(failure) };
    }
    code
}

unsafe extern "C" fn reset_trampoline(context: *mut c_void) -> i32 {
    // SAFETY: given with this context.
    unsafe { on_device(context, |device| device.reset()) }
}

unsafe extern "C" fn current_trampoline(context: *mut c_void, bytes: *mut i64) -> i32 {
    // SAFETY: given with this context, with room for a number.
    unsafe {
        on_device(context, |device| {
            device.current().map(|current| bytes.write(signed_bytes(current)))
        })
    }
}

unsafe extern "C" fn peak_trampoline(context: *mut c_void, bytes: *mut i64) -> i32 {
    // SAFETY: given with this context, with room for a number.
    unsafe {
        on_device(context, |device| device.peak().map(|peak| bytes.write(signed_bytes(peak))))
    }
}

unsafe extern "C" fn reserved_trampoline(
    context: *mut c_void,
    reserved_peak: *mut i64,
    largest_free: *mut i64,
) -> i32 {
    // SAFETY: given with this context, with room for two numbers.
    unsafe {
        on_device(context, |device| {
            let (reserved, free) = device.reserved()?;
            reserved_peak.write(or_unknown(reserved));
            largest_free.write(or_unknown(free));
            Ok(())
        })
    }
}

unsafe extern "C" fn total_trampoline(context: *mut c_void, bytes: *mut i64) -> i32 {
    // SAFETY: given with this context, with room for a number.
    unsafe {
        on_device(context, |device| device.total().map(|total| bytes.write(or_unknown(total))))
    }
}

unsafe extern "C" fn release_cache_trampoline(context: *mut c_void) -> i32 {
    // SAFETY: given with this context.
    unsafe { on_device(context, |device| device.release_cache()) }
}

unsafe extern "C" fn rng_save_trampoline(context: *mut c_void, depth: u64) -> i32 {
    // SAFETY: given with this context.
    unsafe { on_device(context, |device| device.save_rng(depth)) }
}

unsafe extern "C" fn rng_restore_trampoline(context: *mut c_void, depth: u64) -> i32 {
    // SAFETY: given with this context.
    unsafe { on_device(context, |device| device.restore_rng(depth)) }
}

/// Owns a `sab_probe`; `'d` is how long the device under it is borrowed.
pub(crate) struct ProbeHandle<'d> {
    handle: Owned<sys::sab_probe>,
    /// Dropped after the handle, as fields are in their order.
    kept: Option<Shared<Guarded<DeviceRef<'d>>>>,
}

impl<'d> ProbeHandle<'d> {
    pub(crate) fn open(device: &str, total_bytes: u64) -> Result<Self, Error> {
        let name = text("device", device.as_bytes())?;
        let mut options = empty::<sys::sab_probe_options>();
        options.total_bytes = signed_bytes(total_bytes);
        // SAFETY: a NUL-terminated name, and a struct whose size is set.
        let handle = make(|probe| unsafe { sys::sab_probe_new(name.as_ptr(), &options, probe) })?;
        Ok(ProbeHandle { handle, kept: None })
    }

    pub(crate) fn of_device(device: DeviceRef<'d>) -> Result<Self, Error> {
        let (kept, context) = Shared::new(Guarded::new(device));
        let mut callbacks = empty::<sys::sab_probe_callbacks>();
        callbacks.ctx = context;
        callbacks.reset = Some(reset_trampoline);
        callbacks.current = Some(current_trampoline);
        callbacks.peak = Some(peak_trampoline);
        callbacks.reserved = Some(reserved_trampoline);
        callbacks.total = Some(total_trampoline);
        callbacks.release_cache = Some(release_cache_trampoline);
        callbacks.rng_save = Some(rng_save_trampoline);
        callbacks.rng_restore = Some(rng_restore_trampoline);
        // SAFETY: the context fits its trampolines and lives as long as the handle, which frees it
        // after the C handle.
        let handle = make(|probe| unsafe { sys::sab_probe_callbacks_new(&callbacks, probe) })?;
        Ok(ProbeHandle { handle, kept: Some(kept) })
    }

    pub(crate) fn pointer(&self) -> *mut sys::sab_probe {
        self.handle.pointer()
    }

    /// As [`check_with`], after a call that may have used the device.
    fn check(
        &self,
        status: sys::sab_status,
        failures: impl IntoIterator<Item = Option<Failure>>,
    ) -> Result<sys::sab_status, Error> {
        // SAFETY: a probe is of one thread, and a device that runs does not borrow it.
        let own = self.kept.as_ref().and_then(|kept| unsafe { kept.take_failure() });
        check_with(status, failures.into_iter().chain([own]))
    }

    pub(crate) fn reset(&self) -> Result<(), Error> {
        // SAFETY: a live handle.
        let status = unsafe { sys::sab_probe_reset(self.pointer()) };
        self.check(status, []).map(drop)
    }

    pub(crate) fn read(&self) -> Result<sys::sab_probe_stats, Error> {
        let mut stats = empty();
        // SAFETY: a live handle, and a struct whose size is set.
        let status = unsafe { sys::sab_probe_get_stats(self.pointer(), &mut stats) };
        self.check(status, [])?;
        Ok(stats)
    }

    pub(crate) fn release_cache(&self) -> Result<(), Error> {
        // SAFETY: a live handle.
        let status = unsafe { sys::sab_probe_release_cache(self.pointer()) };
        self.check(status, []).map(drop)
    }
}

// ---- peaks --------------------------------------------------------------------------------------

/// Owns a `sab_peaks`.
pub(crate) struct PeaksHandle(Owned<sys::sab_peaks>);

/// The columns of the measurements.
pub(crate) struct PeakColumns<'a> {
    pub(crate) items: &'a [u64],
    pub(crate) features: &'a [f64],
    pub(crate) feature_count: usize,
    pub(crate) before: &'a [i64],
    pub(crate) peaks: &'a [i64],
    pub(crate) reserved_peaks: &'a [i64],
    pub(crate) largest_free: &'a [i64],
    pub(crate) out_of_memory: &'a [u64],
}

impl PeaksHandle {
    pub(crate) fn new() -> Result<Self, Error> {
        // SAFETY: no arguments but the address for the handle.
        make(|peaks| unsafe { sys::sab_peaks_new(peaks) }).map(PeaksHandle)
    }

    pub(crate) fn collect(
        &mut self,
        probe: &ProbeHandle<'_>,
        item_count: Option<u64>,
        work: &mut WorkFn<'_>,
        options: &CollectOptions<'_>,
    ) -> Result<(), Error> {
        let mut progress = options.progress.get().map(Guarded::new);
        let mut raw = *options.raw;
        (raw.progress, raw.progress_ctx) = progress_parts(&mut progress);
        raw.item_count = item_count.unwrap_or(0); // until the work gives no more; so is no item
        raw.work = Some(work_trampoline);
        let mut calls = Guarded::new(Closures {
            work: Some(work),
            cleanup: options.cleanup.get(),
            collect_garbage: options.collect_garbage.get(),
            ..Closures::default()
        });
        raw.cleanup = calls.function.cleanup.map(|_| cleanup_trampoline as _);
        raw.collect_garbage = calls.function.collect_garbage.map(|_| garbage_trampoline as _);
        raw.ctx = calls.context();
        // SAFETY: live handles; contexts that fit their trampolines and outlive the call.
        let status = unsafe { sys::sab_collect_peak(probe.pointer(), &raw, self.0.pointer()) };
        probe.check(status, [calls.failure, failure_of(progress)]).map(drop)
    }

    pub(crate) fn columns(&self) -> PeakColumns<'_> {
        // SAFETY: a live handle, and a struct whose size is set.
        let view: sys::sab_peaks_view =
            certain(filled(|view| unsafe { sys::sab_peaks_get_view(self.0.pointer(), view) }));
        // SAFETY: columns of so many elements, which stay until the next collect(), that needs
        // `&mut self`.
        unsafe {
            PeakColumns {
                items: slice(view.items, view.count),
                features: slice(view.features, view.count * view.feature_count),
                feature_count: view.feature_count,
                before: slice(view.before, view.count),
                peaks: slice(view.peaks, view.count),
                reserved_peaks: slice(view.reserved_peaks, view.count),
                largest_free: slice(view.largest_free, view.count),
                out_of_memory: slice(view.out_of_memory, view.out_of_memory_count),
            }
        }
    }
}

// ---- models -------------------------------------------------------------------------------------

/// More points are refused by the library, too.
const MAX_POINTS: usize = 1000;

pub(crate) fn measurement_points(
    options: &MeasurementOptions<'_>,
    points: usize,
) -> Result<Vec<(u64, PerColumn<f64>)>, Error> {
    let (shortest, longest) = (&options.shortest, &options.longest);
    let columns = shortest.len();
    if columns == 0 || columns != longest.len() {
        return Err(Error::argument_error(format!(
            "shortest = {shortest:?}, longest = {longest:?}: must both have a number for each \
             column"
        )));
    }
    if points > MAX_POINTS {
        return Err(Error::refused("points", points, format!("must be at most {MAX_POINTS}")));
    }
    let mut raw = *options.raw;
    raw.column_count = columns;
    raw.shortest = shortest.as_ptr();
    raw.longest = longest.as_ptr();
    let mut call = InCall::without_progress();
    (raw.budget, _) = call.budgets(options.budget.as_slice())?;
    let (mut counts, mut lengths) = (vec![0; points], vec![0.0; points * columns]);
    // SAFETY: a struct whose size is set, a live cost, and room for `points` numbers, and for as
    // many of each column.
    let status = unsafe {
        sys::sab_measurement_points_find(&raw, points, counts.as_mut_ptr(), lengths.as_mut_ptr())
    };
    check_with(status, call.failures())?;
    let rows = lengths.chunks(columns).map(|row| PerColumn::of(row.iter().copied()));
    Ok(counts.into_iter().zip(rows).collect())
}

/// Owns a `sab_memory_model`.
pub(crate) struct ModelHandle(Owned<sys::sab_memory_model>);

impl ModelHandle {
    pub(crate) fn pointer(&self) -> *mut sys::sab_memory_model {
        self.0.pointer()
    }

    pub(crate) fn fit(
        features: &[f64],
        feature_count: usize,
        peaks: &[f64],
        options: &ModelOptions,
    ) -> Result<Self, Error> {
        if feature_count.checked_mul(peaks.len()) != Some(features.len()) {
            let (numbers, rows) = (features.len(), peaks.len());
            return Err(Error::refused(
                "features.len()",
                numbers,
                format!("must be {feature_count} for each of the {rows} peaks"),
            ));
        }
        let given = &options.column_names;
        if !given.is_empty() && given.len() + 1 != feature_count {
            return Err(Error::refused(
                "column_names",
                format!("{given:?}"),
                format!("must be {}, one for each length", feature_count.saturating_sub(1)),
            ));
        }
        let as_text = |(index, name): (usize, &String)| {
            text(&format!("column_names[{index}]"), name.as_bytes())
        };
        let names: Vec<_> = given.iter().enumerate().map(as_text).collect::<Result<_, _>>()?;
        let pointers: Vec<_> = names.iter().map(|name| name.as_ptr()).collect();
        let mut raw = *options.raw;
        raw.column_names = elements(&pointers);
        // SAFETY: so many rows of so many numbers, and a name for each but the first, as just
        // checked; a struct whose size is set.
        make(|model| unsafe {
            sys::sab_memory_model_fit_new(
                features.as_ptr(),
                peaks.len(),
                feature_count,
                peaks.as_ptr(),
                &raw,
                model,
            )
        })
        .map(ModelHandle)
    }

    calls! { fn info(&self) -> struct sab_memory_model_info = sab_memory_model_get_info; }

    pub(crate) fn column_names(&self, columns: usize) -> Vec<Option<String>> {
        // SAFETY: the names of a live handle, one for each feature but the first.
        unsafe { column_names(self.info().column_names, columns) }
    }

    pub(crate) fn terms(&self) -> Vec<(f64, Vec<u32>)> {
        let info = self.info();
        // SAFETY: a coefficient for each term, and as many rows of a power for each feature.
        let (coefficients, powers) = unsafe {
            let powers = slice(info.powers, info.term_count * info.feature_count);
            (slice(info.coefficients, info.term_count), powers)
        };
        let rows = powers.chunks(info.feature_count).map(<[u32]>::to_vec);
        coefficients.iter().copied().zip(rows).collect()
    }

    /// Predicted and upper peaks of each row.
    pub(crate) fn predict(
        &self,
        features: &[f64],
        feature_count: usize,
    ) -> Result<(Vec<f64>, Vec<f64>), Error> {
        if features.len() % feature_count != 0 {
            let given = features.len();
            return Err(Error::refused(
                "features.len()",
                given,
                format!("must be a multiple of {feature_count}"),
            ));
        }
        let rows = features.len() / feature_count;
        let (mut predicted, mut upper) = (vec![0.0; rows], vec![0.0; rows]);
        // SAFETY: so many rows of so many numbers, and room for one a row.
        let status = unsafe {
            let (predicted, upper) = (predicted.as_mut_ptr(), upper.as_mut_ptr());
            sys::sab_memory_model_predict(self.pointer(), features.as_ptr(), rows, predicted, upper)
        };
        check(status)?;
        Ok((predicted, upper))
    }

    pub(crate) fn cost(&self) -> Result<CostHandle, Error> {
        CostHandle::of_model(self)
    }

    pub(crate) fn save(&self, path: &Path) -> Result<(), Error> {
        let path = path_text(path)?;
        // SAFETY: a live handle and a NUL-terminated path.
        check(unsafe { sys::sab_memory_model_save(self.pointer(), path.as_ptr()) }).map(drop)
    }

    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        let path = path_text(path)?;
        // SAFETY: a NUL-terminated path.
        make(|model| unsafe { sys::sab_memory_model_file_new(path.as_ptr(), model) })
            .map(ModelHandle)
    }

    pub(crate) fn write(&self) -> Result<Vec<u8>, Error> {
        // SAFETY: a live handle; a model cannot change, so its size is the same in both calls.
        unsafe {
            array(|bytes: *mut u8, capacity, size| {
                sys::sab_memory_model_write(self.pointer(), bytes.cast(), capacity, size)
            })
        }
    }

    pub(crate) fn read(bytes: &[u8]) -> Result<Self, Error> {
        // SAFETY: `bytes` is readable for its length and copied during the call.
        make(|model| unsafe {
            sys::sab_memory_model_bytes_new(bytes.as_ptr().cast(), bytes.len(), model)
        })
        .map(ModelHandle)
    }
}

// ---- the largest batch, steps, growth -----------------------------------------------------------

pub(crate) fn find_max_batch(
    probe: &ProbeHandle<'_>,
    options: &MaxBatchOptions<'_>,
    trial: &mut TrialFn<'_>,
) -> Result<(Vec<u64>, sys::sab_max_batch), Error> {
    let mut progress = options.progress.get().map(Guarded::new);
    let mut raw = *options.raw;
    (raw.progress, raw.progress_ctx) = progress_parts(&mut progress);
    (raw.lengths, raw.length_count) = counted(&options.lengths);
    let reduce = options.reduce.get();
    raw.reduce = reduce.map(|_| reduce_trampoline as _);
    let mut calls = Guarded::new(Closures { trial: Some(trial), reduce, ..Closures::default() });
    let context = calls.context();
    raw.reduce_ctx = context;
    let mut sizes = vec![0; options.lengths.len().max(1)];
    let mut result = empty();
    // SAFETY: a live handle; room for one number a length; contexts that fit their trampolines and
    // outlive the call.
    let status = unsafe {
        let sizes = sizes.as_mut_ptr();
        sys::sab_max_batch_find(
            probe.pointer(),
            Some(trial_trampoline),
            context,
            &raw,
            sizes,
            &mut result,
        )
    };
    probe.check(status, [calls.failure, failure_of(progress)])?;
    Ok((sizes, result))
}

/// Calls `run` with the options of a step in parts. It gives the status; the failure of a closure
/// is given beside it.
fn run_step(
    count: u64,
    options: &StepOptions<'_>,
    chunk: &mut ChunkFn<'_>,
    run: impl FnOnce(&sys::sab_step_in_chunks_options) -> sys::sab_status,
) -> Result<(sys::sab_status, Option<Failure>), Error> {
    let mut raw = *options.raw;
    if let Some(weights) = options.weights {
        if weights.len() as u64 != count {
            let given = weights.len();
            return Err(Error::refused(
                "weights.len()",
                given,
                format!("must be one for each of the {count} samples"),
            ));
        }
        raw.sample_weights = weights.as_ptr();
    }
    let begin = options.begin.get();
    raw.chunk = Some(chunk_trampoline);
    raw.begin = begin.map(|_| begin_trampoline as _);
    let mut calls = Guarded::new(Closures { begin, chunk: Some(chunk), ..Closures::default() });
    raw.ctx = calls.context();
    let status = run(&raw);
    Ok((status, calls.failure))
}

pub(crate) fn step_in_chunks(
    probe: &ProbeHandle<'_>,
    count: u64,
    options: &StepOptions<'_>,
    chunk: &mut ChunkFn<'_>,
) -> Result<u64, Error> {
    let mut chunk_size = 0;
    let (status, failure) = run_step(count, options, chunk, |raw| {
        // SAFETY: a live handle; `count` weights, as was checked; a context that fits its
        // trampolines and outlives the call.
        unsafe { sys::sab_step_run_in_chunks(probe.pointer(), count, raw, &mut chunk_size) }
    })?;
    probe.check(status, [failure])?;
    Ok(chunk_size)
}

impl PlanHandle {
    pub(crate) fn verify(
        &self,
        probe: &ProbeHandle<'_>,
        count: u64,
        run: &mut BatchFn<'_>,
        progress: Option<Progress<'_, '_>>,
    ) -> Result<Verification, Error> {
        let mut progress = progress.map(Guarded::new);
        let mut options = empty::<sys::sab_verification_options>();
        (options.progress, options.progress_ctx) = progress_parts(&mut progress);
        options.count = count;
        let mut calls = Guarded::new(Closures { batch: Some(run), ..Closures::default() });
        let mut seen = empty();
        // SAFETY: live handles, a struct whose size is set, contexts that fit their trampolines and
        // outlive the call.
        let status = unsafe {
            sys::sab_plan_verify(
                self.pointer(),
                probe.pointer(),
                Some(batch_trampoline),
                calls.context(),
                &options,
                &mut seen,
            )
        };
        probe.check(status, [calls.failure, failure_of(progress)])?;
        Ok(Verification::of(&seen))
    }
}

// ---- the guard ----------------------------------------------------------------------------------

/// A closure that a guard shares with its options.
type Reducer<'d> = Rc<RefCell<ReduceFn<'d>>>;

/// Owns a `sab_memory_guard`. The sampler that it was made for must outlive it.
pub(crate) struct GuardHandle<'d> {
    handle: Owned<sys::sab_memory_guard>,
    /// These are dropped after the handle, as fields are in their order.
    reduce: Option<Shared<Guarded<Reducer<'d>>>>,
    probe: Rc<ProbeHandle<'d>>,
}

unsafe extern "C" fn kept_reduce_trampoline(
    context: *mut c_void,
    values: *mut i64,
    count: usize,
) -> i32 {
    // SAFETY: the Guarded closure given with this trampoline, alive and used by nobody else during
    // the call; `count` numbers are there.
    unsafe {
        let guarded = &mut *context.cast::<Guarded<Reducer<'_>>>();
        guarded.run(|reduce| {
            done((reduce.borrow_mut())(std::slice::from_raw_parts_mut(values, count)))
        })
    }
}

/// How a closure of the guard failed.
///
/// # Safety
///
/// No call of C is under way that could use the closure.
unsafe fn reduce_failure(reduce: Option<&Shared<Guarded<Reducer<'_>>>>) -> Option<Failure> {
    // SAFETY: a guard is of one thread; the caller's promise.
    unsafe { reduce?.take_failure() }
}

impl<'d> GuardHandle<'d> {
    pub(crate) fn new(
        probe: Rc<ProbeHandle<'d>>,
        sampler: &mut SamplerHandle<'static>,
        options: &GuardOptions<'d>,
    ) -> Result<Self, Error> {
        let mut raw = *options.raw;
        let reduce = options.reduce.shared().map(|reduce| {
            let (kept, context) = Shared::new(Guarded::new(reduce));
            raw.reduce = Some(kept_reduce_trampoline);
            raw.reduce_ctx = context;
            kept
        });
        // SAFETY: live handles, which the caller keeps so; a context that lives as long as the
        // guard, which frees it after the C handle.
        let (status, handle) = construct(|guard| unsafe {
            sys::sab_memory_guard_new(probe.pointer(), sampler.pointer(), &raw, guard)
        })?;
        // SAFETY: the call is over.
        let failure = unsafe { reduce_failure(reduce.as_ref()) };
        let handle = made(probe.check(status, [failure]), handle)?;
        Ok(GuardHandle { handle, reduce, probe })
    }

    fn pointer(&self) -> *mut sys::sab_memory_guard {
        self.handle.pointer()
    }

    fn check(
        &self,
        status: sys::sab_status,
        failure: Option<Failure>,
    ) -> Result<sys::sab_status, Error> {
        // SAFETY: a guard is of one thread, and no call of C is under way.
        let reduce = unsafe { reduce_failure(self.reduce.as_ref()) };
        self.probe.check(status, [failure, reduce])
    }

    pub(crate) fn step(
        &mut self,
        batch: &BatchRef<'_>,
        options: &StepOptions<'_>,
        chunk: &mut ChunkFn<'_>,
    ) -> Result<(), Error> {
        let shape = shape_of(batch);
        let (status, failure) = run_step(shape.count as u64, options, chunk, |raw| {
            // SAFETY: a live handle; a batch that outlives the call; a context that fits its
            // trampolines and outlives the call.
            unsafe { sys::sab_memory_guard_step(self.pointer(), &shape, raw) }
        })?;
        self.check(status, failure).map(drop)
    }

    calls! { fn info(&self) -> struct sab_memory_guard_info = sab_memory_guard_get_info; }

    pub(crate) fn begin(&mut self) -> Result<(), Error> {
        // SAFETY: a live handle.
        let status = unsafe { sys::sab_memory_guard_begin(self.pointer()) };
        self.check(status, None).map(drop)
    }

    pub(crate) fn end(&mut self, batch: &BatchRef<'_>, out_of_memory: bool) -> Result<(), Error> {
        // SAFETY: a live handle, and a batch that outlives the call.
        let status = unsafe {
            sys::sab_memory_guard_end(self.pointer(), &shape_of(batch), i32::from(out_of_memory))
        };
        self.check(status, None).map(drop)
    }
}

/// A batch as C has it, which points to this one.
fn shape_of(batch: &BatchRef<'_>) -> sys::sab_batch {
    let mut shape = empty::<sys::sab_batch>();
    shape.indices = batch.indices.as_ptr();
    shape.count = batch.indices.len();
    shape.columns = batch.longest.len();
    shape.longest = batch.longest.as_ptr();
    shape.total = batch.total.as_ptr();
    shape.padded_length = batch.padded_length.as_ptr();
    shape.bucket = -1;
    shape
}
