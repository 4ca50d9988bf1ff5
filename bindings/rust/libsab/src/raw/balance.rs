use std::ffi::c_void;
use std::marker::PhantomData;

use sab_sys as sys;

use super::{
    check_with, defaults, made, owned, progress_failure, progress_parts, slice, Guarded, KeptBox,
    Progress, Room, SamplerHandle, SizesHandle,
};
use crate::error::{BoxError, Error};

pub(crate) type MakeBatchesFn<'f> =
    dyn FnMut(&[i64]) -> Result<Vec<Vec<i64>>, BoxError> + Send + 'f;

pub(crate) fn partition(
    costs: &[f64],
    parts: u64,
    method: i32,
    equal_counts: bool,
    cap: Option<(&[f64], f64)>,
    progress: Option<Progress<'_>>,
) -> Result<Vec<u32>, Error> {
    // SAFETY: the call fills the whole struct.
    let mut options = unsafe { defaults(sys::sab_partition_options_init) };
    options.method = method;
    options.equal_counts = i32::from(equal_counts);
    if let Some((weights, capacity)) = cap {
        if weights.len() != costs.len() {
            let (weights, costs) = (weights.len(), costs.len());
            return Err(Error::Argument(format!(
                "weights has {weights} numbers: must have as many as costs, {costs}"
            )));
        }
        options.weights = weights.as_ptr(); // not NULL, whatever its length
        options.capacity = capacity;
    }
    let mut progress = progress.map(Guarded::new);
    (options.progress, options.progress_ctx) = progress_parts(&mut progress);
    let mut part_of = vec![0; costs.len()];
    // SAFETY: costs, weights and parts are as many, and outlive the call, as the closure does.
    let status = unsafe {
        sys::sab_partition(costs.as_ptr(), costs.len(), parts, &options, part_of.as_mut_ptr())
    };
    check_with(status, &mut [progress_failure(&mut progress, &mut None)])?;
    Ok(part_of)
}

unsafe extern "C" fn make_batches_trampoline(
    context: *mut c_void,
    indices: *const i64,
    count: usize,
    batches: *mut sys::sab_batches,
) -> i32 {
    // SAFETY: `context` is the Guarded closure given with this trampoline, alive and used by nobody else during the call.
    let guarded = unsafe { &mut *context.cast::<Guarded<Box<MakeBatchesFn<'_>>>>() };
    guarded.run(|function| {
        // SAFETY: `count` indices that are valid during the call.
        for batch in function(unsafe { slice(indices, count) })? {
            // A batch that is refused fails the call of the library, with its message.
            // SAFETY: the collector is C's, alive during the call, and copies the indices.
            unsafe { sys::sab_batches_add(batches, batch.as_ptr(), batch.len()) };
        }
        Ok(sys::SAB_OK)
    })
}

/// What the options say, in C's terms.
pub(crate) struct LoadBalancingParts {
    pub(crate) shuffle: bool,
    pub(crate) drop_last: bool,
    pub(crate) random_level: f64,
    pub(crate) batch_size: u64,
}

impl LoadBalancingParts {
    fn raw(&self) -> sys::sab_load_balancing_options {
        // SAFETY: the call fills the whole struct.
        let mut options = unsafe { defaults(sys::sab_load_balancing_options_init) };
        options.shuffle = i32::from(self.shuffle);
        options.drop_last = i32::from(self.drop_last);
        options.random_level = self.random_level;
        options.batch_size = self.batch_size;
        options
    }
}

impl SamplerHandle<'static> {
    pub(crate) fn load_balancing(
        complexity: &SizesHandle<'_>,
        balancing: &LoadBalancingParts,
        options: &sys::sab_sampler_options,
    ) -> Result<Self, Error> {
        let mut pointer = Room::new()?;
        // SAFETY: a live handle, which the sampler does not keep, structs whose sizes are set, and room for a handle.
        let status = unsafe {
            sys::sab_load_balancing_sampler_new(
                complexity.pointer.as_ptr(),
                &balancing.raw(),
                options,
                pointer.fill(),
            )
        };
        Self::finish(status, pointer, None)
    }

    pub(crate) fn load_balancing_max_total(
        complexity: &SizesHandle<'_>,
        balancing: &LoadBalancingParts,
        max_total: f64,
        options: &sys::sab_sampler_options,
    ) -> Result<Self, Error> {
        let mut balancing = balancing.raw();
        balancing.max_total = max_total;
        let mut pointer = Room::new()?;
        // SAFETY: a live handle, which the sampler does not keep, structs whose sizes are set, and room for a handle.
        let status = unsafe {
            sys::sab_load_balancing_batch_sampler_new(
                complexity.pointer.as_ptr(),
                &balancing,
                options,
                pointer.fill(),
            )
        };
        Self::finish(status, pointer, None)
    }
}

impl<'a> SamplerHandle<'a> {
    pub(crate) fn load_balancing_batches(
        complexity: &SizesHandle<'_>,
        balancing: &LoadBalancingParts,
        make_batches: Box<MakeBatchesFn<'a>>,
        options: &sys::sab_sampler_options,
    ) -> Result<Self, Error> {
        let (kept, context) = KeptBox::new(make_batches);
        let mut balancing = balancing.raw();
        balancing.make_batches = Some(make_batches_trampoline);
        balancing.make_batches_ctx = context;
        let mut pointer = Room::new()?;
        // SAFETY: a live handle, which the sampler does not keep; the context fits its trampoline and lives as long as the sampler, which frees it
        // after the C handle.
        let status = unsafe {
            sys::sab_load_balancing_batch_sampler_new(
                complexity.pointer.as_ptr(),
                &balancing,
                options,
                pointer.fill(),
            )
        };
        let handle =
            owned(pointer, |pointer| SamplerHandle { pointer, kept: None, borrowed: PhantomData });
        // SAFETY: alive until `kept` is dropped, and no call of C is under way that could use it.
        let mut failure = unsafe { &mut *kept.0.as_ptr() }.take_failure();
        let mut handle = made(check_with(status, &mut [&mut failure]), handle)?;
        handle.kept = Some(kept);
        Ok(handle)
    }
}
