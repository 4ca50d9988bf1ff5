//! Calls about ranks: balanced steps, shards, and how ranks exchange bytes.

use super::*;
use crate::plan::PlanOptions;
use crate::ranks::{BalancedOptions, BalancedReport, CostBalance};

pub(crate) type GatherFn<'f> = dyn FnMut(&[u8], &mut [u8]) -> Result<(), BoxError> + 'f;

/// A closure that gathers bytes from so many ranks.
struct Gather<'f> {
    all_gather: &'f mut GatherFn<'f>,
    world_size: u64,
}

unsafe extern "C" fn gather_trampoline(
    context: *mut c_void,
    mine: *const c_void,
    size: usize,
    all: *mut c_void,
) -> i32 {
    // SAFETY: `context` is the Guarded closure given with this trampoline, alive and used by nobody
    // else during the call.
    let guarded = unsafe { &mut *context.cast::<Guarded<Gather<'_>>>() };
    guarded.run(|gather| {
        if size == 0 {
            return Ok(sys::SAB_OK);
        }
        let count = size * gather.world_size as usize;
        // SAFETY: `size` bytes to read, and room for as many of each rank, filled before it is
        // shown.
        let (mine, all) = unsafe {
            all.cast::<u8>().write_bytes(0, count);
            (slice(mine.cast(), size), std::slice::from_raw_parts_mut(all.cast(), count))
        };
        (gather.all_gather)(mine, all)?;
        Ok(sys::SAB_OK)
    })
}

pub(crate) fn ranks_from_environment() -> Result<(u64, u64), Error> {
    let (mut rank, mut world_size) = (0, 0);
    // SAFETY: room for two numbers.
    check(unsafe { sys::sab_ranks_get_from_environment(&mut rank, &mut world_size) })?;
    Ok((rank, world_size))
}

pub(crate) fn ranks_from_mesh(
    shape: &[u64],
    is_data: &[bool],
    rank: u64,
) -> Result<(u64, u64), Error> {
    if shape.len() != is_data.len() {
        let (axes, given) = (shape.len(), is_data.len());
        return Err(Error::refused(
            "is_data.len()",
            given,
            format!("must be that of shape, {axes}"),
        ));
    }
    let is_data: Vec<i32> = is_data.iter().copied().map(i32::from).collect();
    let (mut own, mut world_size) = (0, 0);
    // SAFETY: as many lengths as axes, and room for two numbers.
    check(unsafe {
        sys::sab_ranks_get_from_mesh(
            shape.as_ptr(),
            is_data.as_ptr(),
            shape.len(),
            rank,
            &mut own,
            &mut world_size,
        )
    })?;
    Ok((own, world_size))
}

impl SamplerHandle<'static> {
    pub(crate) fn balanced(
        sizes: &SizesHandle<'_>,
        balanced: &BalancedOptions<'_>,
        options: &sys::sab_sampler_options,
    ) -> Result<Self, Error> {
        let mut call = InCall::new(&balanced.progress);
        let mut raw = *balanced.raw;
        (raw.budgets, raw.budget_count) = call.budgets(&balanced.budgets)?;
        (raw.balance, raw.balance_count) = call.balance(&balanced.balance)?;
        (raw.length_multiples, raw.length_multiple_count) = counted(&balanced.length_multiples);
        (raw.row_multiples, raw.row_multiple_count) = counted(&balanced.row_multiples);
        (raw.progress, raw.progress_ctx) = call.progress();
        // SAFETY: a live handle, structs whose sizes are set; arrays and closures outlive the call,
        // the only time they are used.
        let (status, handle) = construct(|sampler| unsafe {
            sys::sab_balanced_sampler_new(sizes.pointer(), &raw, options, sampler)
        })?;
        made(check_with(status, call.failures()), handle).map(Self::over)
    }

    pub(crate) fn sharded(
        sizes: &SizesHandle<'_>,
        plan: &PlanOptions<'_>,
        options: &sys::sab_sampler_options,
        all_gather: &mut GatherFn<'_>,
    ) -> Result<Self, Error> {
        let handle = plan.make(sizes.column_count(), |plan| {
            let mut gather =
                Guarded::new(Gather { all_gather, world_size: options.world_size.max(1) });
            let context = gather.context();
            // SAFETY: a live handle, structs whose sizes are set; arrays and closures outlive the
            // call, the only time they are used.
            let (status, handle) = construct(|sampler| unsafe {
                sys::sab_sharded_sampler_new(
                    sizes.pointer(),
                    plan,
                    options,
                    Some(gather_trampoline),
                    context,
                    sampler,
                )
            })?;
            Ok((status, handle, gather.failure))
        })?;
        Ok(Self::over(handle))
    }
}

/// A report with arrays of its own.
///
/// # Safety
///
/// The arrays of the report are valid.
unsafe fn balance_of(report: &sys::sab_balanced_report) -> BalancedReport {
    // SAFETY: the caller's promise; a number of each balanced cost.
    let of = |numbers: *const f64| unsafe { slice(numbers, report.balance_count) };
    let (rank, largest_rank) = (of(report.rank_imbalance), of(report.largest_rank_imbalance));
    let (micro_batch, time) = (of(report.micro_batch_imbalance), of(report.time));
    let least_time = of(report.least_time);
    let costs: Vec<CostBalance> = (0..report.balance_count)
        .map(|k| CostBalance {
            rank_imbalance: rank[k],
            largest_rank_imbalance: largest_rank[k],
            micro_batch_imbalance: micro_batch[k],
            time: time[k],
            least_time: least_time[k],
        })
        .collect();
    let largest = |of: &[f64]| of.iter().copied().fold(0.0, f64::max);
    // SAFETY: the caller's promise; a number of each column.
    let totals = unsafe { per_column(report.totals, report.columns) };
    // SAFETY: the same.
    let padded_totals = unsafe { per_column(report.padded_totals, report.columns) };
    BalancedReport {
        samples: report.samples,
        skipped: report.skipped,
        dropped: report.dropped,
        steps: report.steps,
        least_step_samples: report.least_step_samples,
        most_step_samples: report.most_step_samples,
        step_samples_deviation: report.step_samples_deviation,
        total: totals.iter().sum(),
        totals,
        padded_total: padded_totals.iter().sum(),
        padded_totals,
        fill: report.fill,
        rank_imbalance: largest(rank),
        largest_rank_imbalance: largest(largest_rank),
        micro_batch_imbalance: largest(micro_batch),
        time: time[0],
        least_time: least_time[0],
        meet_again: report.meet_again,
        random_meet_again: report.random_meet_again,
        length_deviation: report.length_deviation,
        random_length_deviation: report.random_length_deviation,
        costs,
    }
}

impl SamplerHandle<'_> {
    pub(crate) fn balance_report(
        &mut self,
        progress: Option<Progress<'_, '_>>,
    ) -> Result<BalancedReport, Error> {
        let mut report = empty();
        let mut progress = progress.map(Guarded::new);
        let progress_options = progress_options(&mut progress);
        // SAFETY: a live handle that nobody else uses, a struct whose size is set; the closure
        // outlives the call.
        let status = unsafe {
            sys::sab_balanced_sampler_get_report(self.pointer(), &progress_options, &mut report)
        };
        check_with(status, [failure_of(progress)])?;
        // SAFETY: arrays of the sampler, which stay valid until its next report.
        Ok(unsafe { balance_of(&report) })
    }

    pub(crate) fn check_ranks(
        &self,
        rank: u64,
        world_size: u64,
        all_gather: &mut GatherFn<'_>,
    ) -> Result<(), Error> {
        let mut gather = Guarded::new(Gather { all_gather, world_size });
        // SAFETY: a live handle, const for the call; the closure outlives the call, the only time
        // it is used.
        let status = unsafe {
            sys::sab_ranks_check(
                self.pointer(),
                rank,
                world_size,
                Some(gather_trampoline),
                gather.context(),
            )
        };
        check_with(status, [gather.failure])?;
        Ok(())
    }
}
