//! Calls of `balance.h` on pipelines.

use super::*;
use crate::pipeline::{PipelineOptions, PipelineReport, PipelineTask};

/// The times of backward passes, of which there must be as many as forward passes; NULL for none.
fn backward_of(forward: &[f64], options: &PipelineOptions<'_>) -> Result<*const f64, Error> {
    let Some(times) = options.backward else { return Ok(null()) };
    if times.len() != forward.len() {
        let (given, expected) = (times.len(), forward.len());
        return Err(Error::argument_error(format!(
            "backward.len() = {given}: must be that of forward, {expected}"
        )));
    }
    Ok(times.as_ptr())
}

fn report_of(report: &sys::sab_pipeline_report) -> PipelineReport {
    PipelineReport { makespan: report.makespan, lower_bound: report.lower_bound, idle: report.idle }
}

pub(crate) fn simulate_pipeline(
    forward: &[f64],
    stages: u64,
    order: Option<&[u32]>,
    options: &PipelineOptions<'_>,
) -> Result<(PipelineReport, Vec<Vec<PipelineTask>>), Error> {
    let backward = backward_of(forward, options)?;
    let count = forward.len();
    if let Some(order) = order {
        if order.len() != count {
            let given = order.len();
            return Err(Error::argument_error(format!(
                "order.len() = {given}: must be that of forward, {count}"
            )));
        }
    }
    let places = order.map_or(null(), <[u32]>::as_ptr);
    let mut report = empty();
    let mut simulate = |tasks: *mut sys::sab_pipeline_task| {
        // SAFETY: times and places are as many, `tasks` is NULL or has room for all, and the struct's
        // size is set.
        check(unsafe {
            sys::sab_pipeline_simulate(
                forward.as_ptr(),
                backward,
                count,
                stages,
                places,
                &*options.raw,
                tasks,
                &mut report,
            )
        })
    };
    simulate(null_mut())?; // refuses what there is no room for
    let per_rank = 2 * count * options.raw.chunks as usize;
    let none =
        sys::sab_pipeline_task { micro_batch: 0, chunk: 0, is_backward: 0, start: 0.0, end: 0.0 };
    let mut tasks = vec![none; per_rank * stages as usize];
    simulate(tasks.as_mut_ptr())?;
    let task_of = |each: &sys::sab_pipeline_task| PipelineTask {
        micro_batch: each.micro_batch,
        chunk: each.chunk,
        is_backward: each.is_backward != 0,
        start: each.start,
        end: each.end,
    };
    let ranks = (0..stages as usize)
        .map(|rank| tasks[rank * per_rank..(rank + 1) * per_rank].iter().map(task_of).collect())
        .collect();
    Ok((report_of(&report), ranks))
}

pub(crate) fn find_pipeline_order(
    forward: &[f64],
    stages: u64,
    options: &PipelineOptions<'_>,
) -> Result<(Vec<u32>, PipelineReport), Error> {
    let backward = backward_of(forward, options)?;
    let mut raw = *options.raw;
    let mut progress = options.progress.get().map(Guarded::new);
    (raw.progress, raw.progress_ctx) = progress_parts(&mut progress);
    let mut order = vec![0; forward.len()];
    let mut report = empty();
    // SAFETY: times and places are as many, and the closure outlives the call.
    let status = unsafe {
        sys::sab_pipeline_order_find(
            forward.as_ptr(),
            backward,
            forward.len(),
            stages,
            &raw,
            order.as_mut_ptr(),
            &mut report,
        )
    };
    check_with(status, [failure_of(progress)])?;
    Ok((order, report_of(&report)))
}
