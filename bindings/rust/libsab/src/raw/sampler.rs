//! Samplers of plans and of packings, and the calls that all samplers share.

use std::marker::PhantomData;

use super::*;
use crate::pack::PackedOptions;
use crate::plan::Shape;
use crate::sampler::SamplerOptions;

impl PackedOptions<'_> {
    /// Runs a constructor with the options. It gives the status and the handle.
    pub(super) fn make<H>(
        &self,
        construct: impl FnOnce(&sys::sab_packed_options) -> Result<(sys::sab_status, Option<H>), Error>,
    ) -> Result<H, Error> {
        let mut call = InCall::new(&self.progress);
        let mut raw = *self.raw;
        (raw.balance, raw.balance_count) = call.balance(&self.balance)?;
        (raw.capacities, raw.capacity_count) = counted(&self.capacities);
        (raw.length_multiples, raw.length_multiple_count) = counted(&self.length_multiples);
        (raw.row_multiples, raw.row_multiple_count) = counted(&self.row_multiples);
        (raw.progress, raw.progress_ctx) = call.progress();
        let (status, handle) = construct(&raw)?;
        made(check_with(status, call.failures()), handle)
    }
}

/// A constructor of `sab-sys` that takes a plan and options.
pub(crate) type PlanConstructor = unsafe extern "C" fn(
    *const sys::sab_plan,
    *const sys::sab_sampler_options,
    *mut *mut sys::sab_sampler,
) -> sys::sab_status;

/// Owns a `sab_sampler`; `'a` is how long the memory or the closure under it is borrowed.
pub(crate) struct SamplerHandle<'a> {
    pub(super) handle: Owned<sys::sab_sampler>,
    /// These are dropped after the handle, as fields are in their order.
    pub(super) kept: Option<KeptBox<'a>>,
    #[cfg_attr(not(feature = "arrow"), allow(dead_code))]
    pub(super) memory: Option<OwnedMemory>,
    pub(super) borrowed: PhantomData<&'a [u8]>,
}

impl<'a> SamplerHandle<'a> {
    pub(super) fn over(handle: Owned<sys::sab_sampler>) -> Self {
        SamplerHandle { handle, kept: None, memory: None, borrowed: PhantomData }
    }

    /// The sampler goes on using the closure.
    pub(super) fn with_closure(handle: Owned<sys::sab_sampler>, kept: KeptBox<'a>) -> Self {
        SamplerHandle { kept: Some(kept), ..Self::over(handle) }
    }

    pub(super) fn pointer(&self) -> *mut sys::sab_sampler {
        self.handle.pointer()
    }

    /// A sampler that goes by a plan and options alone.
    pub(crate) fn of_plan(
        constructor: PlanConstructor,
        plan: &PlanHandle,
        options: &SamplerOptions<'_>,
    ) -> Result<Self, Error> {
        let mut call = InCall::without_progress();
        let mut raw = *options.raw;
        (raw.balance, raw.balance_count) = call.balance(&options.balance)?;
        // SAFETY: a function of sab-sys, a live handle, and a struct whose size is set; costs
        // outlive the call, the only time they are used.
        let (status, handle) =
            construct(|sampler| unsafe { constructor(plan.pointer(), &raw, sampler) })?;
        made(check_with(status, call.failures()), handle).map(Self::over)
    }

    pub(crate) fn costliest(plan: &PlanHandle, count: u64) -> Result<Self, Error> {
        // SAFETY: a live handle.
        make(|sampler| unsafe { sys::sab_costliest_sampler_new(plan.pointer(), count, sampler) })
            .map(Self::over)
    }

    pub(crate) fn packed(
        sizes: &SizesHandle<'_>,
        pack: &PackedOptions<'_>,
        options: &sys::sab_sampler_options,
    ) -> Result<Self, Error> {
        pack.make(|raw| {
            // SAFETY: a live handle, structs whose sizes are set; the closures outlive the call,
            // the only time they are used.
            construct(|sampler| unsafe {
                sys::sab_packed_sampler_new(sizes.pointer(), raw, options, sampler)
            })
        })
        .map(Self::over)
    }

    /// As [`check`], after a call that may have used the sampler's closure.
    pub(super) fn check(&self, status: sys::sab_status) -> Result<sys::sab_status, Error> {
        // SAFETY: the handle is of one thread, and no call of C is under way that could use it.
        let failure = self.kept.as_ref().and_then(|kept| unsafe { kept.take_failure() });
        check_with(status, [failure])
    }

    pub(crate) fn next(&mut self) -> Option<Result<BatchRef<'_>, Error>> {
        let mut batch = empty::<sys::sab_batch>();
        // SAFETY: a live handle that nobody else uses, and a struct whose size is set.
        let status = unsafe { sys::sab_next_batch(self.pointer(), &mut batch) };
        match self.check(status) {
            Ok(sys::SAB_END) => None,
            Ok(_) => Some(self.show(&batch)),
            Err(error) => Some(Err(error)),
        }
    }

    pub(crate) fn next_batch(&mut self) -> Option<Result<Batch, Error>> {
        self.next().map(|batch| batch.map(BatchRef::into_owned))
    }

    pub(crate) fn next_block(&mut self, max_batches: usize) -> Option<Result<Block<'_>, Error>> {
        let mut block = empty::<sys::sab_block>();
        // SAFETY: a live handle that nobody else uses, and a struct whose size is set.
        let status = unsafe { sys::sab_next_block(self.pointer(), max_batches, &mut block) };
        match self.check(status) {
            Ok(sys::SAB_END) => None,
            // SAFETY: arrays of the sampler, valid until the next call that needs `&mut self`.
            Ok(_) => Some(Ok(unsafe { shown_block(&block) })),
            Err(error) => Some(Err(error)),
        }
    }

    pub(crate) fn step(&mut self) -> Result<Step, Error> {
        let mut step = empty::<sys::sab_step>();
        // SAFETY: a live handle that nobody else uses, and a struct whose size is set.
        check(unsafe { sys::sab_sampler_get_step(self.pointer(), &mut step) })?;
        // SAFETY: a number a column, valid until the next call.
        let totals = unsafe { per_column(step.totals, step.columns) };
        Ok(Step {
            micro_batches: step.micro_batches,
            samples: step.samples,
            total: totals.iter().all(|&total| total >= 0.0).then_some(totals),
        })
    }

    pub(crate) fn capabilities(&self) -> Result<Capabilities, Error> {
        let bits = self.capability_bits()?;
        let has = |bit: i32| bits & bit as u64 != 0;
        Ok(Capabilities {
            batch_count: has(sys::SAB_SAMPLER_BATCH_COUNT),
            random_access: has(sys::SAB_SAMPLER_RANDOM_ACCESS),
            budget: has(sys::SAB_SAMPLER_BUDGET),
            schedule: has(sys::SAB_SAMPLER_SCHEDULE),
        })
    }

    pub(crate) fn at(&mut self, position: u64) -> Result<BatchRef<'_>, Error> {
        let mut batch = empty::<sys::sab_batch>();
        // SAFETY: a live handle that nobody else uses, and a struct whose size is set.
        let status = unsafe { sys::sab_sampler_at(self.pointer(), position, &mut batch) };
        self.check(status)?;
        self.show(&batch)
    }

    /// The borrow of `self` keeps the arrays from being overwritten by the next call.
    fn show(&mut self, batch: &sys::sab_batch) -> Result<BatchRef<'_>, Error> {
        // SAFETY: arrays that stay valid until the next call on the sampler that shows another
        // batch, which needs `&mut self`.
        let mut shown = unsafe { shown(batch) };
        if shown.layout == Layout::Row {
            let mut rows = empty::<sys::sab_rows>();
            // SAFETY: a live handle that nobody else uses, and a struct whose size is set.
            check(unsafe { sys::sab_sampler_get_rows(self.pointer(), &mut rows) })?;
            // SAFETY: as above; NULL, or an array a column.
            unsafe {
                shown.cu_seqlens = ends(rows.cu_seqlens, rows.columns, batch.count + 1);
                shown.cu_seqlens_unpadded =
                    ends(rows.cu_seqlens_unpadded, rows.columns, batch.count + 1);
                shown.starts = (!rows.starts.is_null()).then(|| slice(rows.starts, batch.count));
            }
        }
        Ok(shown)
    }

    pub(crate) fn shapes(&mut self) -> Result<Vec<Shape>, Error> {
        // SAFETY: a live handle that nobody else uses.
        unsafe {
            super::plan::shapes(|index, shape| {
                sys::sab_sampler_get_shape(self.pointer(), index, shape)
            })
        }
    }

    pub(crate) fn skipped_count(&self) -> Result<usize, Error> {
        let mut count = 0;
        // SAFETY: a live handle, no room for indices, and room for a number.
        check(unsafe {
            sys::sab_sampler_get_skipped(self.pointer(), std::ptr::null_mut(), 0, &mut count)
        })?;
        Ok(count)
    }

    pub(crate) fn skipped(&self) -> Result<Vec<i64>, Error> {
        // SAFETY: a live handle, which does not move between the two calls.
        unsafe {
            array(|indices, capacity, count| {
                sys::sab_sampler_get_skipped(self.pointer(), indices, capacity, count)
            })
        }
    }

    pub(crate) fn tell(&self) -> Result<(u64, u64), Error> {
        let (mut epoch, mut position) = (0, 0);
        // SAFETY: a live handle, and room for two numbers.
        check(unsafe { sys::sab_sampler_tell(self.pointer(), &mut epoch, &mut position) })?;
        Ok((epoch, position))
    }

    pub(crate) fn state(&self) -> Result<Vec<u8>, Error> {
        // SAFETY: a live handle; the cursor does not move between the two calls.
        unsafe {
            array(|state: *mut u8, capacity, size| {
                sys::sab_sampler_state_save(self.pointer(), state.cast(), capacity, size)
            })
        }
    }

    pub(crate) fn state_at(&self, position: u64) -> Result<Vec<u8>, Error> {
        // SAFETY: a live handle; the cursor does not move between the two calls.
        unsafe {
            array(|state: *mut u8, capacity, size| {
                sys::sab_sampler_state_save_at(
                    self.pointer(),
                    position,
                    state.cast(),
                    capacity,
                    size,
                )
            })
        }
    }

    pub(crate) fn restore(&mut self, state: &[u8]) -> Result<(), Error> {
        // SAFETY: a live handle that nobody else uses, and `state` is readable for its length.
        let status = unsafe {
            sys::sab_sampler_state_restore(self.pointer(), state.as_ptr().cast(), state.len())
        };
        self.check(status)?;
        Ok(())
    }

    calls! {
        fn begin(&mut self) = sab_sampler_begin;
        fn set_epoch(&mut self, epoch: u64) = sab_sampler_set_epoch;
        fn seek(&mut self, position: u64) = sab_sampler_seek;
        fn set_budget(&mut self, index: usize, limit: f64) = sab_sampler_set_budget;
        fn budget(&self, index: usize) -> f64 = sab_sampler_get_budget;
        fn batch_count(&self) -> u64 = sab_sampler_get_batch_count;
        fn capability_bits(&self) -> u64 = sab_sampler_get_capabilities;
        fn packed_info(&self) -> Result<struct sab_packed_info> = sab_packed_sampler_get_info;
    }
}

/// A batch without what only rows have.
///
/// # Safety
///
/// The arrays of the batch are valid for `'a`.
pub(super) unsafe fn shown<'a>(batch: &sys::sab_batch) -> BatchRef<'a> {
    // SAFETY: the caller's promise; a number a column.
    unsafe {
        Batch {
            indices: slice(batch.indices, batch.count),
            layout: if batch.layout == sys::SAB_LAYOUT_ROW { Layout::Row } else { Layout::Padded },
            longest: per_column(batch.longest, batch.columns),
            padded_length: per_column(batch.padded_length, batch.columns),
            total: per_column(batch.total, batch.columns),
            bucket: usize::try_from(batch.bucket).ok(),
            epoch: batch.epoch,
            step: batch.step,
            micro_batch: batch.micro_batch,
            id: batch.id,
            cu_seqlens: None,
            cu_seqlens_unpadded: None,
            starts: None,
            sample_weight: batch.sample_weight,
            token_weight: per_column(batch.token_weight, batch.columns),
        }
    }
}

/// Cumulative lengths; `None` for NULL.
///
/// # Safety
///
/// NULL, or an array of `count` numbers for each column, valid for `'a`.
unsafe fn ends<'a>(
    arrays: *const *const i32,
    columns: usize,
    count: usize,
) -> Option<PerColumn<&'a [i32]>> {
    // SAFETY: the caller's promise.
    (!arrays.is_null()).then(|| unsafe {
        PerColumn::of(slice(arrays, columns).iter().map(|&each| slice(each, count)))
    })
}

/// Several batches.
///
/// # Safety
///
/// The arrays of the block are valid for `'a`.
unsafe fn shown_block<'a>(block: &sys::sab_block) -> Block<'a> {
    // SAFETY: the caller's promise; one offset more than batches, a number a batch and column, an
    // array a column or NULL.
    unsafe {
        let offsets = slice(block.offsets, block.count + 1);
        let samples = offsets[block.count] as usize;
        let numbers = |data| slice(data, block.count * block.columns);
        Block {
            indices: slice(block.indices, samples),
            offsets,
            layout: if block.layout == sys::SAB_LAYOUT_ROW { Layout::Row } else { Layout::Padded },
            columns: block.columns,
            longest: numbers(block.longest),
            padded_length: numbers(block.padded_length),
            total: numbers(block.total),
            bucket: slice(block.bucket, block.count),
            epoch: block.epoch,
            step: slice(block.step, block.count),
            micro_batch: slice(block.micro_batch, block.count),
            id: slice(block.id, block.count),
            cu_seqlens: ends(block.cu_seqlens, block.columns, samples + block.count),
            cu_seqlens_unpadded: ends(
                block.cu_seqlens_unpadded,
                block.columns,
                samples + block.count,
            ),
            starts: (!block.starts.is_null()).then(|| slice(block.starts, samples)),
            sample_weight: slice(block.sample_weight, block.count),
            token_weight: numbers(block.token_weight),
        }
    }
}
