//! Calls of `balance.h` and of the load-balancing samplers.

use super::*;
use crate::balance::{BaguaOptions, PartitionOptions};

pub(crate) type MakeBatchesFn<'f> =
    dyn FnMut(&[i64]) -> Result<Vec<Vec<i64>>, BoxError> + Send + 'f;

pub(crate) fn partition(
    costs: &[f64],
    parts: u64,
    options: &PartitionOptions<'_>,
) -> Result<Vec<u32>, Error> {
    let mut raw = *options.raw;
    if let Some(weights) = options.weights {
        if weights.len() != costs.len() {
            let (weights, costs) = (weights.len(), costs.len());
            return Err(Error::argument_error(format!(
                "weights.len() = {weights}: must be that of costs, {costs}"
            )));
        }
        raw.weights = weights.as_ptr(); // not NULL, whatever its length
    }
    let mut progress = options.progress.get().map(Guarded::new);
    (raw.progress, raw.progress_ctx) = progress_parts(&mut progress);
    let mut part_of = vec![0; costs.len()];
    // SAFETY: costs, weights and parts are as many, and outlive the call, as the closure does.
    let status = unsafe {
        sys::sab_items_partition(costs.as_ptr(), costs.len(), parts, &raw, part_of.as_mut_ptr())
    };
    check_with(status, [failure_of(progress)])?;
    Ok(part_of)
}

unsafe extern "C" fn make_batches_trampoline(
    context: *mut c_void,
    indices: *const i64,
    count: usize,
    batches: *mut sys::sab_batches,
) -> i32 {
    // SAFETY: `context` is the Guarded closure given with this trampoline, alive and used by nobody
    // else during the call.
    let guarded = unsafe { &mut *context.cast::<Guarded<Box<MakeBatchesFn<'_>>>>() };
    guarded.run(|function| {
        // SAFETY: `count` indices that are valid during the call.
        for batch in function(unsafe { slice(indices, count) })? {
            // A batch that is refused fails the call of the library, with its message.
            // SAFETY: the collector is C's, alive during the call, and copies the indices.
            unsafe { sys::sab_bagua_batches_add(batches, batch.as_ptr(), batch.len()) };
        }
        Ok(sys::SAB_OK)
    })
}

impl SamplerHandle<'static> {
    pub(crate) fn load_balancing(
        complexity: &SizesHandle<'_>,
        balancing: &BaguaOptions,
        options: &sys::sab_sampler_options,
    ) -> Result<Self, Error> {
        // SAFETY: a live handle, which the sampler does not keep, and structs whose sizes are set.
        make(|sampler| unsafe {
            sys::sab_bagua_sampler_new(complexity.pointer(), &*balancing.raw, options, sampler)
        })
        .map(Self::over)
    }

    pub(crate) fn bagua_with_budget(
        complexity: &SizesHandle<'_>,
        balancing: &BaguaOptions,
        budget: f64,
        options: &sys::sab_sampler_options,
    ) -> Result<Self, Error> {
        let mut raw = *balancing.raw;
        raw.budget = budget;
        // SAFETY: a live handle, which the sampler does not keep, and structs whose sizes are set.
        make(|sampler| unsafe {
            sys::sab_bagua_batch_sampler_new(complexity.pointer(), &raw, options, sampler)
        })
        .map(Self::over)
    }
}

impl<'a> SamplerHandle<'a> {
    pub(crate) fn load_balancing_batches(
        complexity: &SizesHandle<'_>,
        balancing: &BaguaOptions,
        make_batches: Box<MakeBatchesFn<'a>>,
        options: &sys::sab_sampler_options,
    ) -> Result<Self, Error> {
        let (kept, context) = KeptBox::of(Guarded::new(make_batches));
        let mut raw = *balancing.raw;
        raw.make_batches = Some(make_batches_trampoline);
        raw.make_batches_ctx = context;
        // SAFETY: a live handle, which the sampler does not keep; the context fits its trampoline
        // and lives as long as the sampler, which frees it after the C handle.
        let (status, handle) = construct(|sampler| unsafe {
            sys::sab_bagua_batch_sampler_new(complexity.pointer(), &raw, options, sampler)
        })?;
        // SAFETY: no call of C is under way that could use it.
        let failure = unsafe { kept.take_failure() };
        let handle = made(check_with(status, [failure]), handle)?;
        Ok(Self::with_closure(handle, kept))
    }
}
