//! Handles and trampolines of `memory.h` and `torch.h`.

use super::*;
use crate::memory::{Device, StepError};

pub(crate) type StepResult = Result<(), StepError<BoxError>>;
pub(crate) type WorkFn<'f> = dyn FnMut(u64) -> Option<Result<Vec<f64>, StepError<BoxError>>> + 'f;
pub(crate) type HookFn<'f> = dyn FnMut() -> Result<(), BoxError> + 'f;
pub(crate) type TrialFn<'f> = dyn FnMut(u64, f64) -> StepResult + 'f;
pub(crate) type ChunkFn<'f> = dyn FnMut(u64, u64, f64) -> StepResult + 'f;
pub(crate) type BatchFn<'f> = dyn FnMut(BatchRef<'_>) -> StepResult + 'f;
pub(crate) type ReduceFn<'f> = dyn FnMut(&mut [i64]) -> Result<(), BoxError> + 'f;
pub(crate) type IncreaseFn<'f> = dyn FnMut(u64, u64) -> Result<i64, BoxError> + 'f;

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

/// The closures of a call, behind one context pointer.
#[derive(Default)]
struct Closures<'f> {
    work: Option<&'f mut WorkFn<'f>>,
    cleanup: Option<&'f mut HookFn<'f>>,
    collect_garbage: Option<&'f mut HookFn<'f>>,
    begin: Option<&'f mut HookFn<'f>>,
    trial: Option<&'f mut TrialFn<'f>>,
    chunk: Option<&'f mut ChunkFn<'f>>,
    batch: Option<&'f mut BatchFn<'f>>,
    reduce: Option<&'f mut ReduceFn<'f>>,
    increase: Option<&'f mut IncreaseFn<'f>>,
}

/// # Safety
///
/// `context` is the `Guarded<Closures>` given with the trampoline, alive and used by nobody else during the call.
unsafe fn closures<'a>(context: *mut c_void) -> &'a mut Guarded<Closures<'a>> {
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
        // SAFETY: room for a number, and for `capacity` features; when there are more, the library refuses by their count.
        unsafe {
            count.write(numbers.len());
            features.copy_from_nonoverlapping(numbers.as_ptr(), numbers.len().min(capacity));
        }
        Ok(sys::SAB_OK)
    })
}

unsafe extern "C" fn cleanup_trampoline(context: *mut c_void, _: u64) -> i32 {
    // SAFETY: given with this context.
    unsafe { closures(context) }.run(|calls| done(given(&mut calls.cleanup)()))
}

unsafe extern "C" fn garbage_trampoline(context: *mut c_void) -> i32 {
    // SAFETY: given with this context.
    unsafe { closures(context) }.run(|calls| done(given(&mut calls.collect_garbage)()))
}

unsafe extern "C" fn begin_trampoline(context: *mut c_void) -> i32 {
    // SAFETY: given with this context.
    unsafe { closures(context) }.run(|calls| done(given(&mut calls.begin)()))
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
    // SAFETY: given with this context; `count` numbers are there to be read and written.
    unsafe { closures(context) }.run(|calls| {
        done(given(&mut calls.reduce)(unsafe { std::slice::from_raw_parts_mut(values, count) }))
    })
}

unsafe extern "C" fn increase_trampoline(
    context: *mut c_void,
    epoch: u64,
    current: u64,
    increase: *mut i64,
) -> i32 {
    // SAFETY: given with this context.
    unsafe { closures(context) }.run(|calls| {
        let more = given(&mut calls.increase)(epoch, current)?;
        // SAFETY: the caller gives room for one number.
        unsafe { increase.write(more) };
        Ok(sys::SAB_OK)
    })
}

// ---- probes -------------------------------------------------------------------------------------------------------------

type DeviceRef<'d> = &'d (dyn Device + 'd);

/// Runs a function of a device. That may ask a probe of the same device, so what the context points to is not borrowed meanwhile.
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
    unsafe { on_device(context, |device| device.current().map(|current| bytes.write(current))) }
}

unsafe extern "C" fn peak_trampoline(context: *mut c_void, bytes: *mut i64) -> i32 {
    // SAFETY: given with this context, with room for a number.
    unsafe { on_device(context, |device| device.peak().map(|peak| bytes.write(peak))) }
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
            reserved_peak.write(reserved.unwrap_or(-1));
            largest_free.write(free.unwrap_or(-1));
            Ok(())
        })
    }
}

unsafe extern "C" fn total_trampoline(context: *mut c_void, bytes: *mut i64) -> i32 {
    // SAFETY: given with this context, with room for a number.
    unsafe {
        on_device(context, |device| device.total().map(|total| bytes.write(total.unwrap_or(-1))))
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
    pointer: NonNull<sys::sab_probe>,
    kept: Option<KeptBox<'d>>,
}

impl Drop for ProbeHandle<'_> {
    fn drop(&mut self) {
        // SAFETY: the handle is ours and this is its last use.
        unsafe { sys::sab_probe_free(self.pointer.as_ptr()) };
    }
}

impl<'d> ProbeHandle<'d> {
    pub(crate) fn open(device: &str, total_bytes: i64) -> Result<Self, Error> {
        let name = text("device", device.as_bytes())?;
        // SAFETY: the call fills the whole struct.
        let mut options = unsafe { defaults(sys::sab_probe_options_init) };
        options.total_bytes = total_bytes;
        let mut pointer = Room::new()?;
        // SAFETY: a NUL-terminated name, a struct whose size is set, and room for a handle.
        let status = unsafe { sys::sab_probe_new(name.as_ptr(), &options, pointer.fill()) };
        made(check(status), owned(pointer, |pointer| ProbeHandle { pointer, kept: None }))
    }

    pub(crate) fn of_device(device: DeviceRef<'d>) -> Result<Self, Error> {
        let (kept, context) = KeptBox::new(device);
        // SAFETY: the call fills the whole struct.
        let mut callbacks = unsafe { defaults(sys::sab_probe_callbacks_init) };
        callbacks.ctx = context;
        callbacks.reset = Some(reset_trampoline);
        callbacks.current = Some(current_trampoline);
        callbacks.peak = Some(peak_trampoline);
        callbacks.reserved = Some(reserved_trampoline);
        callbacks.total = Some(total_trampoline);
        callbacks.release_cache = Some(release_cache_trampoline);
        callbacks.rng_save = Some(rng_save_trampoline);
        callbacks.rng_restore = Some(rng_restore_trampoline);
        let mut pointer = Room::new()?;
        // SAFETY: the context fits its trampolines and lives as long as the handle, which frees it after the C handle.
        let status = unsafe { sys::sab_probe_callbacks_new(&callbacks, pointer.fill()) };
        made(check(status), owned(pointer, |pointer| ProbeHandle { pointer, kept: Some(kept) }))
    }

    /// As [`check_with`], after a call that may have used the device.
    fn check(
        &self,
        status: sys::sab_status,
        failures: &mut [&mut Option<Failure>],
    ) -> Result<sys::sab_status, Error> {
        let mut own = match &self.kept {
            // SAFETY: alive as long as the handle; a probe is of one thread, and a device that runs does not borrow it.
            Some(kept) => unsafe { &mut *kept.0.as_ptr() }.take_failure(),
            None => None,
        };
        if let Some(failure) = failures.iter_mut().find_map(|failure| failure.take()) {
            return Err(failure.into_error());
        }
        check_with(status, &mut [&mut own])
    }

    pub(crate) fn reset(&self) -> Result<(), Error> {
        // SAFETY: a live handle.
        let status = unsafe { sys::sab_probe_reset(self.pointer.as_ptr()) };
        self.check(status, &mut []).map(drop)
    }

    pub(crate) fn read(&self) -> Result<sys::sab_memory_stats, Error> {
        let mut stats = sys::sab_memory_stats {
            struct_size: size_of::<sys::sab_memory_stats>(),
            current: -1,
            peak: -1,
            reserved_peak: -1,
            largest_free: -1,
            total: -1,
        };
        // SAFETY: a live handle, and a struct whose size is set.
        let status = unsafe { sys::sab_probe_read(self.pointer.as_ptr(), &mut stats) };
        self.check(status, &mut [])?;
        Ok(stats)
    }

    pub(crate) fn release_cache(&self) -> Result<(), Error> {
        // SAFETY: a live handle.
        let status = unsafe { sys::sab_probe_release_cache(self.pointer.as_ptr()) };
        self.check(status, &mut []).map(drop)
    }
}

// ---- peaks --------------------------------------------------------------------------------------------------------------

/// What to run on each item.
pub(crate) struct CollectParts<'f> {
    pub(crate) item_count: Option<u64>,
    pub(crate) work: &'f mut WorkFn<'f>,
    pub(crate) cleanup: Option<&'f mut HookFn<'f>>,
    pub(crate) collect_garbage: Option<&'f mut HookFn<'f>>,
    pub(crate) progress: Option<Progress<'f>>,
    pub(crate) warm_up: u64,
    pub(crate) release_cache: bool,
}

/// Owns a `sab_peaks`.
pub(crate) struct PeaksHandle {
    pointer: NonNull<sys::sab_peaks>,
}

// SAFETY: plain data, tied to no thread.
unsafe impl Send for PeaksHandle {}
// SAFETY: read only but through `&mut`.
unsafe impl Sync for PeaksHandle {}

impl Drop for PeaksHandle {
    fn drop(&mut self) {
        // SAFETY: the handle is ours and this is its last use.
        unsafe { sys::sab_peaks_free(self.pointer.as_ptr()) };
    }
}

/// The columns of what was measured.
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
        let mut pointer = Room::new()?;
        // SAFETY: room for a handle.
        let status = unsafe { sys::sab_peaks_new(pointer.fill()) };
        made(check(status), owned(pointer, |pointer| PeaksHandle { pointer }))
    }

    pub(crate) fn collect(
        &mut self,
        probe: &ProbeHandle<'_>,
        parts: CollectParts<'_>,
    ) -> Result<(), Error> {
        let mut progress = parts.progress.map(Guarded::new);
        // SAFETY: the call fills the whole struct.
        let mut options = unsafe { defaults(sys::sab_collect_peak_options_init) };
        (options.progress, options.progress_ctx) = progress_parts(&mut progress);
        if let Some(count) = parts.item_count {
            options.item_count = count;
        }
        options.work = Some(work_trampoline);
        options.warm_up = parts.warm_up;
        options.release_cache = i32::from(parts.release_cache);
        if parts.cleanup.is_some() {
            options.cleanup = Some(cleanup_trampoline);
        }
        if parts.collect_garbage.is_some() {
            options.collect_garbage = Some(garbage_trampoline);
        }
        let mut calls = Guarded::new(Closures {
            work: Some(parts.work),
            cleanup: parts.cleanup,
            collect_garbage: parts.collect_garbage,
            ..Closures::default()
        });
        options.ctx = calls.context();
        // SAFETY: live handles; contexts that fit their trampolines and outlive the call.
        let status = unsafe {
            sys::sab_collect_peak(probe.pointer.as_ptr(), &options, self.pointer.as_ptr())
        };
        probe
            .check(status, &mut [&mut calls.failure, progress_failure(&mut progress, &mut None)])
            .map(drop)
    }

    pub(crate) fn columns(&self) -> PeakColumns<'_> {
        let mut view = MaybeUninit::<sys::sab_peaks_view>::zeroed();
        // SAFETY: a struct of numbers and pointers may be zero; its size is set, and the call fills it.
        let view = unsafe {
            (*view.as_mut_ptr()).struct_size = size_of::<sys::sab_peaks_view>();
            certain(check(sys::sab_peaks_get(self.pointer.as_ptr(), view.as_mut_ptr())));
            view.assume_init()
        };
        // SAFETY: columns of so many elements, which stay until the next collect(), that needs `&mut self`.
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

// ---- models -------------------------------------------------------------------------------------------------------------

/// The range of measurements.
pub(crate) struct PointParts<'a> {
    pub(crate) shortest: f64,
    pub(crate) longest: f64,
    pub(crate) max_count: u64,
    pub(crate) max_padded_total: f64,
    pub(crate) degree: u32,
    pub(crate) near: Option<(&'a ModelHandle, f64)>,
}

pub(crate) fn measurement_points(
    parts: &PointParts<'_>,
    points: usize,
) -> Result<Vec<(u64, f64)>, Error> {
    // SAFETY: the call fills the whole struct.
    let mut options = unsafe { defaults(sys::sab_measurement_options_init) };
    options.shortest = parts.shortest;
    options.longest = parts.longest;
    options.max_count = parts.max_count;
    options.max_padded_total = parts.max_padded_total;
    options.degree = parts.degree;
    if let Some((model, budget)) = parts.near {
        options.model = model.pointer.as_ptr();
        options.budget = budget;
    }
    let (mut counts, mut lengths) = (vec![0; points.max(1)], vec![0.0; points.max(1)]);
    // SAFETY: a struct whose size is set, a live model, and room for `points` numbers each.
    check(unsafe {
        sys::sab_measurement_points(&options, points, counts.as_mut_ptr(), lengths.as_mut_ptr())
    })?;
    Ok(counts.into_iter().zip(lengths).collect())
}

/// Owns a `sab_memory_model`.
pub(crate) struct ModelHandle {
    pointer: NonNull<sys::sab_memory_model>,
}

// SAFETY: immutable, and tied to no thread (memory.h).
unsafe impl Send for ModelHandle {}
// SAFETY: as above.
unsafe impl Sync for ModelHandle {}

impl Drop for ModelHandle {
    fn drop(&mut self) {
        // SAFETY: the handle is ours and this is its last use.
        unsafe { sys::sab_memory_model_free(self.pointer.as_ptr()) };
    }
}

impl ModelHandle {
    fn own(status: sys::sab_status, pointer: Room<sys::sab_memory_model>) -> Result<Self, Error> {
        made(check(status), owned(pointer, |pointer| ModelHandle { pointer }))
    }

    pub(crate) fn default_options() -> sys::sab_memory_model_options {
        // SAFETY: the call fills the whole struct.
        unsafe { defaults(sys::sab_memory_model_options_init) }
    }

    pub(crate) fn fit(
        features: &[f64],
        feature_count: usize,
        peaks: &[f64],
        options: &sys::sab_memory_model_options,
    ) -> Result<Self, Error> {
        if feature_count.checked_mul(peaks.len()) != Some(features.len()) {
            let (numbers, rows) = (features.len(), peaks.len());
            return Err(Error::Argument(format!(
                "features.len() = {numbers}: must be {feature_count} for each of the {rows} peaks"
            )));
        }
        let mut pointer = Room::new()?;
        // SAFETY: so many rows of so many numbers, as just checked; a struct whose size is set; room for a handle.
        let status = unsafe {
            sys::sab_memory_model_fit(
                features.as_ptr(),
                peaks.len(),
                feature_count,
                peaks.as_ptr(),
                options,
                pointer.fill(),
            )
        };
        Self::own(status, pointer)
    }

    pub(crate) fn info(&self) -> sys::sab_memory_model_info {
        let mut info = MaybeUninit::<sys::sab_memory_model_info>::zeroed();
        // SAFETY: a struct of numbers may be zero; its size is set, and the call fills it.
        unsafe {
            (*info.as_mut_ptr()).struct_size = size_of::<sys::sab_memory_model_info>();
            certain(check(sys::sab_memory_model_get_info(
                self.pointer.as_ptr(),
                info.as_mut_ptr(),
            )));
            info.assume_init()
        }
    }

    pub(crate) fn term(&self, index: usize, feature_count: usize) -> (f64, Vec<u32>) {
        let (mut coefficient, mut powers) = (0.0, vec![0; feature_count]);
        // SAFETY: a live handle, room for a number, and for one a feature.
        let status = unsafe {
            sys::sab_memory_model_get_term(
                self.pointer.as_ptr(),
                index,
                &mut coefficient,
                powers.as_mut_ptr(),
            )
        };
        certain(check(status));
        (coefficient, powers)
    }

    /// Predicted and upper peaks of each row.
    pub(crate) fn predict(
        &self,
        features: &[f64],
        feature_count: usize,
    ) -> Result<(Vec<f64>, Vec<f64>), Error> {
        if features.len() % feature_count != 0 {
            return Err(Error::Argument(format!(
                "features.len() = {}: must be a multiple of {feature_count}",
                features.len()
            )));
        }
        let rows = features.len() / feature_count;
        let (mut predicted, mut upper) = (vec![0.0; rows], vec![0.0; rows]);
        // SAFETY: so many rows of so many numbers, and room for one a row.
        let status = unsafe {
            let (predicted, upper) = (predicted.as_mut_ptr(), upper.as_mut_ptr());
            sys::sab_memory_model_predict(
                self.pointer.as_ptr(),
                features.as_ptr(),
                rows,
                predicted,
                upper,
            )
        };
        check(status)?;
        Ok((predicted, upper))
    }

    pub(crate) fn cost_terms(&self) -> Result<Vec<sys::sab_cost_term>, Error> {
        let mut count = 0;
        // SAFETY: a live handle; with a capacity of 0 only the count is written.
        check(unsafe {
            sys::sab_memory_model_cost_terms(self.pointer.as_ptr(), null_mut(), 0, &mut count)
        })?;
        let mut terms =
            vec![sys::sab_cost_term { coefficient: 0.0, count_power: 0, length_power: 0 }; count];
        // SAFETY: a live handle, and room for `count` terms.
        check(unsafe {
            sys::sab_memory_model_cost_terms(
                self.pointer.as_ptr(),
                terms.as_mut_ptr(),
                count,
                &mut count,
            )
        })?;
        Ok(terms)
    }

    pub(crate) fn save(&self, path: &Path) -> Result<(), Error> {
        let path = path_text(path)?;
        // SAFETY: a live handle and a NUL-terminated path.
        check(unsafe { sys::sab_memory_model_save(self.pointer.as_ptr(), path.as_ptr()) }).map(drop)
    }

    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        let path = path_text(path)?;
        let mut pointer = Room::new()?;
        // SAFETY: a NUL-terminated path, and room for a handle.
        let status = unsafe { sys::sab_memory_model_open(path.as_ptr(), pointer.fill()) };
        Self::own(status, pointer)
    }

    pub(crate) fn write(&self) -> Result<Vec<u8>, Error> {
        let mut size = 0;
        // SAFETY: a live handle; with a capacity of 0 only the size is written.
        check(unsafe {
            sys::sab_memory_model_write(self.pointer.as_ptr(), null_mut(), 0, &mut size)
        })?;
        let mut bytes = vec![0u8; size];
        // SAFETY: a live handle, and room for `size` bytes.
        check(unsafe {
            sys::sab_memory_model_write(
                self.pointer.as_ptr(),
                bytes.as_mut_ptr().cast(),
                size,
                &mut size,
            )
        })?;
        Ok(bytes)
    }

    pub(crate) fn read(bytes: &[u8]) -> Result<Self, Error> {
        let mut pointer = Room::new()?;
        // SAFETY: `bytes` is readable for its length and copied during the call.
        let status = unsafe {
            sys::sab_memory_model_read(bytes.as_ptr().cast(), bytes.len(), pointer.fill())
        };
        Self::own(status, pointer)
    }
}

// ---- the largest batch, steps, growth -----------------------------------------------------------------------------------

/// How to look for the largest batch.
pub(crate) struct FindParts<'f> {
    pub(crate) search: i32,
    pub(crate) lengths: &'f [f64],
    pub(crate) maximum: Option<u64>,
    pub(crate) budget: i64,
    pub(crate) rounding: (i32, u64),
    pub(crate) trial: &'f mut TrialFn<'f>,
    pub(crate) reduce: Option<&'f mut ReduceFn<'f>>,
    pub(crate) progress: Option<Progress<'f>>,
}

pub(crate) fn find_max_batch(
    probe: &ProbeHandle<'_>,
    parts: FindParts<'_>,
) -> Result<(Vec<u64>, sys::sab_max_batch), Error> {
    let mut progress = parts.progress.map(Guarded::new);
    // SAFETY: the call fills the whole struct.
    let mut options = unsafe { defaults(sys::sab_find_max_batch_options_init) };
    (options.progress, options.progress_ctx) = progress_parts(&mut progress);
    options.search = parts.search;
    options.lengths = elements(parts.lengths);
    options.length_count = parts.lengths.len();
    options.budget = parts.budget;
    (options.rounding, options.multiple) = parts.rounding;
    if let Some(maximum) = parts.maximum {
        options.maximum = maximum;
    }
    if parts.reduce.is_some() {
        options.reduce = Some(reduce_trampoline);
    }
    let mut calls = Guarded::new(Closures {
        trial: Some(parts.trial),
        reduce: parts.reduce,
        ..Closures::default()
    });
    let context = calls.context();
    options.reduce_ctx = context;
    let mut sizes = vec![0; parts.lengths.len().max(1)];
    let mut result = sys::sab_max_batch {
        struct_size: size_of::<sys::sab_max_batch>(),
        batch_size: 0,
        trials: 0,
        out_of_memory: 0,
        peak: 0.0,
        budget: 0,
    };
    // SAFETY: a live handle; room for one number a length; contexts that fit their trampolines and outlive the call.
    let status = unsafe {
        let sizes = sizes.as_mut_ptr();
        sys::sab_find_max_batch(
            probe.pointer.as_ptr(),
            Some(trial_trampoline),
            context,
            &options,
            sizes,
            &mut result,
        )
    };
    probe.check(status, &mut [&mut calls.failure, progress_failure(&mut progress, &mut None)])?;
    Ok((sizes, result))
}

/// A step in parts.
pub(crate) struct StepParts<'f> {
    pub(crate) begin: Option<&'f mut HookFn<'f>>,
    pub(crate) weights: Option<&'f [f64]>,
    pub(crate) chunk_size: u64,
    pub(crate) chunk: &'f mut ChunkFn<'f>,
}

impl<'f> StepParts<'f> {
    /// Calls `run` with the options of the step; its failure is to be checked.
    fn with<T>(
        self,
        count: u64,
        run: impl FnOnce(&sys::sab_chunked_step_options, &mut dyn FnMut() -> Option<Failure>) -> T,
    ) -> Result<T, Error> {
        // SAFETY: the call fills the whole struct.
        let mut options = unsafe { defaults(sys::sab_chunked_step_options_init) };
        if let Some(weights) = self.weights {
            if weights.len() as u64 != count {
                return Err(Error::Argument(format!(
                    "weights.len() = {}: must be one for each of the {count} samples",
                    weights.len()
                )));
            }
            options.sample_weights = weights.as_ptr();
        }
        options.chunk_size = self.chunk_size;
        options.chunk = Some(chunk_trampoline);
        if self.begin.is_some() {
            options.begin = Some(begin_trampoline);
        }
        let mut calls = Guarded::new(Closures {
            begin: self.begin,
            chunk: Some(self.chunk),
            ..Closures::default()
        });
        let context: *mut Guarded<Closures<'_>> = &mut calls;
        options.ctx = context.cast();
        // SAFETY: asked after the call that used the context, which is alive.
        Ok(run(&options, &mut || unsafe { (*context).failure.take() }))
    }
}

pub(crate) fn chunked_step(
    probe: &ProbeHandle<'_>,
    count: u64,
    parts: StepParts<'_>,
) -> Result<u64, Error> {
    parts.with(count, |options, failure| {
        let mut chunk_size = 0;
        // SAFETY: a live handle; `count` weights, as was checked; a context that fits its trampolines and outlives the call.
        let status = unsafe {
            sys::sab_chunked_step(probe.pointer.as_ptr(), count, options, &mut chunk_size)
        };
        probe.check(status, &mut [&mut failure()])?;
        Ok(chunk_size)
    })?
}

pub(crate) fn grow_batch(
    increase: &mut IncreaseFn<'_>,
    epoch: u64,
    current: u64,
    maximum: u64,
) -> Result<u64, Error> {
    let mut batch_size = 0;
    let mut calls = Guarded::new(Closures { increase: Some(increase), ..Closures::default() });
    // SAFETY: a context that fits its trampoline and outlives the call, and room for a number.
    let status = unsafe {
        sys::sab_grow_batch(
            Some(increase_trampoline),
            calls.context(),
            epoch,
            current,
            maximum,
            &mut batch_size,
        )
    };
    check_with(status, &mut [&mut calls.failure])?;
    Ok(batch_size)
}

pub(crate) fn grow_linear(
    epoch: u64,
    start: u64,
    amount: u64,
    period: u64,
    maximum: u64,
) -> Result<u64, Error> {
    let mut batch_size = 0;
    // SAFETY: room for a number.
    check(unsafe { sys::sab_grow_linear(epoch, start, amount, period, maximum, &mut batch_size) })?;
    Ok(batch_size)
}

pub(crate) fn grow_doubling(
    epoch: u64,
    start: u64,
    milestones: &[u64],
    maximum: u64,
) -> Result<u64, Error> {
    let mut batch_size = 0;
    // SAFETY: so many milestones, and room for a number.
    check(unsafe {
        sys::sab_grow_doubling(
            epoch,
            start,
            elements(milestones),
            milestones.len(),
            maximum,
            &mut batch_size,
        )
    })?;
    Ok(batch_size)
}

impl PlanHandle {
    pub(crate) fn verify<'f>(
        &self,
        probe: &ProbeHandle<'_>,
        count: u64,
        run: &'f mut BatchFn<'f>,
        progress: Option<Progress<'_>>,
    ) -> Result<sys::sab_verification, Error> {
        let mut progress = progress.map(Guarded::new);
        let (progress_fn, progress_context) = progress_parts(&mut progress);
        let mut calls = Guarded::new(Closures { batch: Some(run), ..Closures::default() });
        let mut seen = sys::sab_verification {
            struct_size: size_of::<sys::sab_verification>(),
            batches: 0,
            peak: -1,
            total: -1,
        };
        // SAFETY: live handles, a struct whose size is set, contexts that fit their trampolines and outlive the call.
        let status = unsafe {
            let (plan, probe) = (self.pointer.as_ptr(), probe.pointer.as_ptr());
            sys::sab_plan_verify(
                plan,
                probe,
                count,
                Some(batch_trampoline),
                calls.context(),
                progress_fn,
                progress_context,
                &mut seen,
            )
        };
        probe
            .check(status, &mut [&mut calls.failure, progress_failure(&mut progress, &mut None)])?;
        Ok(seen)
    }
}

// ---- the guard ----------------------------------------------------------------------------------------------------------

/// What has a sampler inside, for the guard over it.
pub trait HoldsSampler {
    #[doc(hidden)]
    fn held(&self) -> &SamplerHandle<'static>;
    #[doc(hidden)]
    fn held_mut(&mut self) -> &mut SamplerHandle<'static>;
}

impl<S: HoldsSampler> HoldsSampler for &mut S {
    fn held(&self) -> &SamplerHandle<'static> {
        (**self).held()
    }

    fn held_mut(&mut self) -> &mut SamplerHandle<'static> {
        (**self).held_mut()
    }
}

/// Owns a `sab_memory_guard`. The sampler that it was made for must outlive it.
pub(crate) struct GuardHandle<'d> {
    pointer: NonNull<sys::sab_memory_guard>,
    /// Dropped after the C handle, as fields are after `drop`.
    reduce: Option<KeptBox<'d>>,
    probe: std::rc::Rc<ProbeHandle<'d>>,
}

impl Drop for GuardHandle<'_> {
    fn drop(&mut self) {
        // SAFETY: the handle is ours and this is its last use.
        unsafe { sys::sab_memory_guard_free(self.pointer.as_ptr()) };
    }
}

type Reducer<'d> = Box<ReduceFn<'d>>;

unsafe extern "C" fn kept_reduce_trampoline(
    context: *mut c_void,
    values: *mut i64,
    count: usize,
) -> i32 {
    // SAFETY: the Guarded closure given with this trampoline, alive and used by nobody else during the call; `count` numbers are there.
    unsafe {
        let guarded = &mut *context.cast::<Guarded<Reducer<'_>>>();
        guarded.run(|reduce| done(reduce(std::slice::from_raw_parts_mut(values, count))))
    }
}

impl<'d> GuardHandle<'d> {
    pub(crate) fn new(
        probe: std::rc::Rc<ProbeHandle<'d>>,
        sampler: &mut SamplerHandle<'static>,
        limit: i64,
        interval: Option<u64>,
        window: Option<u64>,
        reduce: Option<Reducer<'d>>,
    ) -> Result<Self, Error> {
        // SAFETY: the call fills the whole struct.
        let mut options = unsafe { defaults(sys::sab_memory_guard_options_init) };
        options.limit = limit;
        options.interval = interval.unwrap_or(options.interval);
        options.window = window.unwrap_or(options.window);
        let reduce = reduce.map(|reduce| {
            let (kept, context) = KeptBox::new(reduce);
            options.reduce = Some(kept_reduce_trampoline);
            options.reduce_ctx = context;
            kept
        });
        let mut pointer = Room::new()?;
        // SAFETY: live handles, which the caller keeps so; a context that lives as long as the guard, which frees it after the C handle.
        let status = unsafe {
            sys::sab_memory_guard_new(
                probe.pointer.as_ptr(),
                sampler.pointer.as_ptr(),
                &options,
                pointer.fill(),
            )
        };
        match owned(pointer, |pointer| GuardHandle { pointer, reduce, probe: probe.clone() }) {
            Some(guard) => guard.check(status, None).map(|_| guard),
            None => made(probe.check(status, &mut []), None),
        }
    }

    fn check(
        &self,
        status: sys::sab_status,
        mut failure: Option<Failure>,
    ) -> Result<sys::sab_status, Error> {
        let mut reduce = match &self.reduce {
            // SAFETY: alive as long as the handle; a guard is of one thread, and no call of C is under way that could use it.
            Some(kept) => unsafe { &mut *kept.0.as_ptr() }.take_failure(),
            None => None,
        };
        self.probe.check(status, &mut [&mut failure, &mut reduce])
    }

    pub(crate) fn step(&mut self, batch: BatchRef<'_>, parts: StepParts<'_>) -> Result<(), Error> {
        let shape = shape_of(&batch);
        parts.with(shape.count, |options, failure| {
            // SAFETY: a live handle; a batch that outlives the call; a context that fits its trampolines and outlives the call.
            let status =
                unsafe { sys::sab_memory_guard_step(self.pointer.as_ptr(), &shape, options) };
            self.check(status, failure()).map(drop)
        })?
    }

    pub(crate) fn begin(&mut self) -> Result<(), Error> {
        // SAFETY: a live handle.
        let status = unsafe { sys::sab_memory_guard_begin(self.pointer.as_ptr()) };
        self.check(status, None).map(drop)
    }

    pub(crate) fn end(&mut self, batch: BatchRef<'_>, out_of_memory: bool) -> Result<(), Error> {
        // SAFETY: a live handle, and a batch that outlives the call.
        let status = unsafe {
            sys::sab_memory_guard_end(
                self.pointer.as_ptr(),
                &shape_of(&batch),
                i32::from(out_of_memory),
            )
        };
        self.check(status, None).map(drop)
    }

    pub(crate) fn info(&self) -> sys::sab_memory_guard_info {
        let mut info = MaybeUninit::<sys::sab_memory_guard_info>::zeroed();
        // SAFETY: a struct of numbers may be zero; its size is set, and the call fills it.
        unsafe {
            (*info.as_mut_ptr()).struct_size = size_of::<sys::sab_memory_guard_info>();
            certain(check(sys::sab_memory_guard_get_info(
                self.pointer.as_ptr(),
                info.as_mut_ptr(),
            )));
            info.assume_init()
        }
    }
}

/// A batch as C has it.
fn shape_of(batch: &BatchRef<'_>) -> sys::sab_batch {
    let mut shape = empty_batch();
    shape.indices = batch.indices.as_ptr();
    shape.count = batch.indices.len() as u64;
    shape.longest = batch.longest;
    shape.total = batch.total;
    shape.padded_length = batch.padded_length;
    shape.padded_total = batch.padded_total;
    shape
}

// ---- LibTorch -----------------------------------------------------------------------------------------------------------

pub(crate) fn torch_open(path: Option<&Path>) -> Result<(), Error> {
    let path = path.map(path_text).transpose()?;
    // SAFETY: NULL, or a NUL-terminated path.
    check(unsafe { sys::sab_torch_open(path.as_ref().map_or(null(), |path| path.as_ptr())) })
        .map(drop)
}

/// Version, file name of the component, CUDA devices.
pub(crate) fn torch_info() -> Result<(&'static str, &'static Path, u32), Error> {
    let mut info = sys::sab_torch_info {
        struct_size: size_of::<sys::sab_torch_info>(),
        torch_version: null(),
        component_path: null(),
        cuda_devices: 0,
    };
    // SAFETY: a struct whose size is set.
    check(unsafe { sys::sab_torch_get_info(&mut info) })?;
    // SAFETY: static, NUL-terminated strings.
    let (version, path) =
        unsafe { (CStr::from_ptr(info.torch_version), CStr::from_ptr(info.component_path)) };
    let path = Path::new(path.to_str().unwrap_or_default());
    Ok((version.to_str().unwrap_or_default(), path, info.cuda_devices.unsigned_abs()))
}
