//! Calls of `plan.h`.

use super::results::{Bucket, Report, Shape};
use super::*;
use crate::plan::PlanOptions;
use crate::sampler::SamplerOptions;

/// Owns a `sab_plan`.
pub(crate) struct PlanHandle(Owned<sys::sab_plan>);

impl PlanOptions<'_> {
    /// Runs a constructor with the options. It gives the status, the handle, and how a closure of
    /// its own failed.
    pub(super) fn make<H>(
        &self,
        columns: usize,
        construct: impl FnOnce(
            &sys::sab_plan_options,
        ) -> Result<(sys::sab_status, Option<H>, Option<Failure>), Error>,
    ) -> Result<H, Error> {
        let mut call = InCall::new(&self.progress);
        let mut raw = *self.raw;
        let boundaries = self.corners(columns)?;
        raw.boundaries = elements(&boundaries);
        raw.boundary_count = self.boundaries.len();
        (raw.length_multiples, raw.length_multiple_count) = counted(&self.length_multiples);
        (raw.separate_by, raw.separate_by_count) = counted(&self.separate_by);
        (raw.max_shapes, raw.max_shape_count) = counted(&self.max_shapes);
        (raw.batch_sizes, raw.batch_size_count) = counted(&self.batch_sizes);
        (raw.budgets, raw.budget_count) = call.budgets(&self.budgets)?;
        (raw.progress, raw.progress_ctx) = call.progress();
        let (status, handle, failure) = construct(&raw)?;
        made(check_with(status, [failure].into_iter().chain(call.failures())), handle)
    }

    /// The numbers of the boundaries, one after the other. The library takes it that each has one
    /// for each column.
    fn corners(&self, columns: usize) -> Result<Vec<f64>, Error> {
        for (index, corner) in self.boundaries.iter().enumerate() {
            check_columns(&format!("boundaries[{index}]"), corner, columns)?;
        }
        Ok(self.boundaries.concat())
    }
}

fn check_columns(name: &str, numbers: &[f64], columns: usize) -> Result<(), Error> {
    if numbers.len() == columns {
        return Ok(());
    }
    Err(Error::refused(
        name,
        format!("{numbers:?}"),
        format!("must have a number for each of the columns, {columns}"),
    ))
}

/// The shapes that a function of the library shows one after the other.
///
/// # Safety
///
/// `show` fills a shape as `sab_plan_get_shape()` does.
pub(super) unsafe fn shapes(
    mut show: impl FnMut(usize, &mut sys::sab_shape) -> sys::sab_status,
) -> Result<Vec<Shape>, Error> {
    let mut found = Vec::new();
    loop {
        let mut shape = empty::<sys::sab_shape>();
        if check(show(found.len(), &mut shape))? == sys::SAB_END {
            return Ok(found);
        }
        // SAFETY: the caller's promise; a length for each column.
        found.push(unsafe { Shape::of(&shape) });
    }
}

impl PlanHandle {
    pub(crate) fn pointer(&self) -> *mut sys::sab_plan {
        self.0.pointer()
    }

    pub(crate) fn new(sizes: &SizesHandle<'_>, options: &PlanOptions<'_>) -> Result<Self, Error> {
        let handle = options.make(sizes.column_count(), |options| {
            // SAFETY: a live handle; arrays and closures in the options outlive the call, the only
            // time they are used.
            let (status, handle) =
                construct(|plan| unsafe { sys::sab_plan_new(sizes.pointer(), options, plan) })?;
            Ok((status, handle, None))
        })?;
        Ok(PlanHandle(handle))
    }

    pub(crate) fn of_histogram(
        histogram: &HistogramHandle,
        options: &PlanOptions<'_>,
    ) -> Result<Self, Error> {
        let handle = options.make(1, |options| {
            // SAFETY: a live handle; arrays and closures in the options outlive the call, the only
            // time they are used.
            let (status, handle) = construct(|plan| unsafe {
                sys::sab_histogram_plan_new(histogram.pointer(), options, plan)
            })?;
            Ok((status, handle, None))
        })?;
        Ok(PlanHandle(handle))
    }

    /// # Safety
    ///
    /// The file is not truncated or written to while the handle, or an object made from it, lives.
    pub(crate) unsafe fn map(path: &Path) -> Result<Self, Error> {
        let path = path_text(path)?;
        // SAFETY: a NUL-terminated path.
        make(|plan| unsafe { sys::sab_plan_file_new(path.as_ptr(), plan) }).map(PlanHandle)
    }

    pub(crate) fn save(&self, path: &Path) -> Result<(), Error> {
        let path = path_text(path)?;
        // SAFETY: a live handle and a NUL-terminated path.
        check(unsafe { sys::sab_plan_save(self.pointer(), path.as_ptr()) })?;
        Ok(())
    }

    pub(crate) fn copy(&self) -> Result<Self, Error> {
        // SAFETY: a live handle.
        make(|copy| unsafe { sys::sab_plan_copy_new(self.pointer(), copy) }).map(PlanHandle)
    }

    pub(crate) fn read(bytes: &[u8]) -> Result<Self, Error> {
        // SAFETY: `bytes` is readable for its length and copied during the call.
        make(|plan| unsafe { sys::sab_plan_bytes_new(bytes.as_ptr().cast(), bytes.len(), plan) })
            .map(PlanHandle)
    }

    pub(crate) fn write(&self) -> Result<Vec<u8>, Error> {
        // SAFETY: a live handle; a plan cannot change, so its size is the same in both calls.
        unsafe {
            array(|bytes: *mut u8, capacity, size| {
                sys::sab_plan_write(self.pointer(), bytes.cast(), capacity, size)
            })
        }
    }

    calls! {
        fn check(&self) = sab_plan_check;
        fn info(&self) -> struct sab_plan_info = sab_plan_get_info;
        fn raw_bucket(&self, index: usize) -> struct sab_bucket = sab_plan_get_bucket;
    }

    pub(crate) fn bucket(&self, index: usize) -> Bucket {
        // SAFETY: each array has a number for each column, and lives as long as the plan.
        unsafe { Bucket::of(&self.raw_bucket(index)) }
    }

    pub(crate) fn budgets(&self) -> Vec<f64> {
        let info = self.info();
        // SAFETY: as many numbers, which live as long as the handle.
        unsafe { slice(info.limits, info.budget_count) }.to_vec()
    }

    pub(crate) fn column_names(&self) -> Vec<Option<String>> {
        let info = self.info();
        // SAFETY: the names of a live handle.
        unsafe { column_names(info.column_names, info.columns) }
    }

    pub(crate) fn shapes(&self) -> Vec<Shape> {
        // SAFETY: a live handle, which keeps the lengths.
        certain(unsafe {
            shapes(|index, shape| sys::sab_plan_get_shape(self.pointer(), index, shape))
        })
    }

    pub(crate) fn shape_paddings(&self) -> Vec<(u64, f64)> {
        let mut found = Vec::new();
        loop {
            let (mut shapes, mut padding) = (0, 0.0);
            // SAFETY: a live handle and places for the results.
            let status = unsafe {
                sys::sab_plan_get_shape_padding(
                    self.pointer(),
                    found.len(),
                    &mut shapes,
                    &mut padding,
                )
            };
            if certain(check(status)) == sys::SAB_END {
                return found;
            }
            found.push((shapes, padding));
        }
    }

    pub(crate) fn skipped(&self) -> Vec<i64> {
        // SAFETY: a live handle; a plan cannot change, so the count is the same in both calls.
        certain(unsafe {
            array(|indices, capacity, count| {
                sys::sab_plan_get_skipped(self.pointer(), indices, capacity, count)
            })
        })
    }

    pub(crate) fn report(
        &self,
        options: &SamplerOptions<'_>,
        progress: Option<Progress<'_, '_>>,
    ) -> Result<Report, Error> {
        let mut call = InCall::without_progress();
        let mut raw = *options.raw;
        (raw.balance, raw.balance_count) = call.balance(&options.balance)?;
        let mut progress = progress.map(Guarded::new);
        let progress_options = progress_options(&mut progress);
        let columns = self.info().columns;
        let (mut totals, mut padded_totals) = (vec![0.0; columns], vec![0.0; columns]);
        let mut report = empty::<sys::sab_plan_report>();
        report.totals = totals.as_mut_ptr();
        report.padded_totals = padded_totals.as_mut_ptr();
        // SAFETY: a live handle, structs whose sizes are set, room for a number of each column, a
        // context that fits its trampoline and outlives the call.
        let status = unsafe {
            sys::sab_plan_get_report(self.pointer(), &raw, &progress_options, &mut report)
        };
        check_with(status, call.failures().into_iter().chain([failure_of(progress)]))?;
        // SAFETY: `columns` numbers are in each of the two arrays.
        Ok(unsafe { Report::of(&report) })
    }
}
