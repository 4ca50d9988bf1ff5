//! Calls of `balance.h` and of the load-balancing samplers.

use super::*;
use crate::balance::{BaguaOptions, PartitionOptions};

pub(crate) type MakeBatchesFn<'f> =
    dyn FnMut(&[i64]) -> Result<Vec<Vec<i64>>, BoxError> + Send + 'f;

/// The numbers of all items, a kind after the other.
fn table<'t>(
    name: &str,
    kinds: impl Iterator<Item = &'t [f64]>,
    items: usize,
) -> Result<Vec<f64>, Error> {
    let mut table = Vec::new();
    for numbers in kinds {
        if numbers.len() != items {
            let count = numbers.len();
            return Err(Error::argument_error(format!(
                "{name}.len() = {count}: must be that of costs, {items}"
            )));
        }
        table.extend_from_slice(numbers);
    }
    Ok(table)
}

pub(crate) fn partition(
    costs: &[&[f64]],
    parts: u64,
    options: &PartitionOptions<'_>,
) -> Result<Vec<u32>, Error> {
    let mut raw = *options.raw;
    let count = costs.first().map_or(0, |first| first.len());
    let all_costs = table("costs", costs.iter().copied(), count)?;
    let weights = table("weights", options.weights.iter().map(|each| each.0), count)?;
    let capacities: Vec<f64> = options.weights.iter().map(|each| each.1).collect();
    raw.cost_count = costs.len();
    if !capacities.is_empty() {
        raw.weights = weights.as_ptr(); // not NULL, whatever its length
        raw.capacities = capacities.as_ptr();
        raw.capacity_count = capacities.len();
    }
    let mut progress = options.progress.get().map(Guarded::new);
    (raw.progress, raw.progress_ctx) = progress_parts(&mut progress);
    let mut part_of = vec![0; count];
    // SAFETY: costs, weights and parts are as many, and outlive the call, as the closure does.
    let status = unsafe {
        sys::sab_items_partition(all_costs.as_ptr(), count, parts, &raw, part_of.as_mut_ptr())
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
