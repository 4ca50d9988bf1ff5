//! Calls of `compat.h`.

use super::*;
use crate::compat::{BaguaOptions, BionemoOptions};
use crate::BIONEMO_GENERATOR_WORDS;

pub(crate) type MakeBatchesFn<'f> =
    dyn FnMut(&[i64]) -> Result<Vec<Vec<i64>>, BoxError> + Send + 'f;

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

pub(crate) type IndexFn<'f> =
    dyn FnMut(u64, u64) -> Result<Option<(i64, f64)>, BoxError> + Send + 'f;

pub(super) unsafe extern "C" fn index_trampoline(
    context: *mut c_void,
    epoch: u64,
    position: u64,
    index: *mut i64,
    size: *mut f64,
) -> i32 {
    // SAFETY: `context` is the Guarded closure given with this trampoline, alive and used by nobody
    // else during the call.
    let guarded = unsafe { &mut *context.cast::<Guarded<Box<IndexFn<'_>>>>() };
    guarded.run(|function| {
        let Some((sample_index, sample_size)) = function(epoch, position)? else {
            return Ok(sys::SAB_END);
        };
        // SAFETY: the caller gives room for one number each.
        unsafe {
            index.write(sample_index);
            size.write(sample_size);
        }
        Ok(sys::SAB_OK)
    })
}

/// The trampoline of a size closure whose type has no name.
#[allow(clippy::unnecessary_wraps)] // the type of a field of the options
fn trampoline_of<F: FnMut(usize) -> Result<f64, BoxError>>(_: &F) -> sys::sab_size_fn {
    Some(size_trampoline::<F>)
}

impl SamplerHandle<'static> {
    pub(crate) fn bagua(
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

    pub(crate) fn bagua_batch_with_budget(
        complexity: &SizesHandle<'_>,
        balancing: &BaguaOptions,
        budget: f64,
        options: &sys::sab_sampler_options,
    ) -> Result<Self, Error> {
        let mut raw = *balancing.raw;
        raw.limit = budget;
        // SAFETY: a live handle, which the sampler does not keep, and structs whose sizes are set.
        make(|sampler| unsafe {
            sys::sab_bagua_sampler_new(complexity.pointer(), &raw, options, sampler)
        })
        .map(Self::over)
    }
}

impl<'a> SamplerHandle<'a> {
    pub(crate) fn bagua_batch(
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
            sys::sab_bagua_sampler_new(complexity.pointer(), &raw, options, sampler)
        })?;
        // SAFETY: no call of C is under way that could use it.
        let failure = unsafe { kept.take_failure() };
        let handle = made(check_with(status, [failure]), handle)?;
        Ok(Self::with_closure(handle, kept))
    }

    /// The sampler goes on reading the memory under `sizes`, hence the shared `'a`.
    pub(crate) fn ordered(
        indices: Option<&[i64]>,
        sizes: &SizesHandle<'a>,
        budget: f64,
        options: &sys::sab_sampler_options,
    ) -> Result<Self, Error> {
        // An empty slice is no sample at all, while NULL would be all of them in order.
        let (data, count) =
            indices.map_or((null(), sizes.count()), |indices| (indices.as_ptr(), indices.len()));
        // SAFETY: `data` is NULL or readable for `count` indices, and copied; live handle, a struct
        // whose size is set.
        let handle = make(|sampler| unsafe {
            sys::sab_ordered_sampler_new(data, count, sizes.pointer(), budget, options, sampler)
        })?;
        Ok(SamplerHandle { memory: sizes.memory(), ..Self::over(handle) })
    }

    pub(crate) fn bionemo_size_aware_stream(
        source: Box<IndexFn<'a>>,
        budget: f64,
    ) -> Result<Self, Error> {
        let (kept, context) = KeptBox::of(Guarded::new(source));
        // SAFETY: the context fits its trampoline and lives as long as the sampler, which frees it
        // after the C handle.
        let handle = make(|sampler| unsafe {
            sys::sab_bionemo_size_aware_stream_sampler_new(
                Some(index_trampoline),
                context,
                None,
                budget,
                sampler,
            )
        })?;
        Ok(Self::with_closure(handle, kept))
    }

    pub(crate) fn bionemo(plan: &PlanHandle, options: &BionemoOptions<'a>) -> Result<Self, Error> {
        let mut raw = *options.raw;
        let kept = options.size.0.clone().map(|size| {
            let size = move |index| size(index);
            let trampoline = trampoline_of(&size);
            let (kept, context) = KeptBox::of(Guarded::new(size));
            raw.size = trampoline;
            raw.size_ctx = context;
            kept
        });
        // SAFETY: live handle; the context fits its trampoline and lives as long as the sampler,
        // which frees it after the C handle.
        let handle =
            make(|sampler| unsafe { sys::sab_bionemo_sampler_new(plan.pointer(), &raw, sampler) })?;
        Ok(SamplerHandle { kept, ..Self::over(handle) })
    }

    pub(crate) fn generator(&self) -> Result<[u32; BIONEMO_GENERATOR_WORDS], Error> {
        let mut words = [0; BIONEMO_GENERATOR_WORDS];
        // SAFETY: a live handle, and room for SAB_BIONEMO_GENERATOR_WORDS words.
        check(unsafe {
            sys::sab_bionemo_sampler_get_generator(self.pointer(), words.as_mut_ptr())
        })?;
        Ok(words)
    }

    pub(crate) fn set_generator(
        &mut self,
        words: &[u32; BIONEMO_GENERATOR_WORDS],
    ) -> Result<(), Error> {
        // SAFETY: a live handle that nobody else uses, and SAB_BIONEMO_GENERATOR_WORDS words.
        check(unsafe { sys::sab_bionemo_sampler_set_generator(self.pointer(), words.as_ptr()) })?;
        Ok(())
    }
}
