//! Calls of `balance.h` on step plans.

use super::*;
use crate::step_plan::{LossWeighting, Segment, StepPlanOptions};

/// Owns a `sab_step_plan`.
pub(crate) struct StepPlanHandle(Owned<sys::sab_step_plan>);

/// What a step plan shows.
pub(crate) struct StepPlanArrays<'a> {
    pub(crate) world_size: u64,
    pub(crate) micro_batches: u64,
    pub(crate) least_micro_batches: u64,
    pub(crate) indices: &'a [i64],
    pub(crate) offsets: &'a [u64],
    pub(crate) inverse: &'a [i64],
    pub(crate) costs: &'a [f64],
    pub(crate) rank_imbalance: Vec<f64>,
    pub(crate) least_rank_imbalance: Vec<f64>,
    pub(crate) micro_step_imbalance: Vec<f64>,
}

/// A pointer to as many numbers as there are sizes; NULL without numbers.
fn as_many(name: &str, numbers: Option<&Vec<i64>>, count: usize) -> Result<*const i64, Error> {
    let Some(numbers) = numbers else { return Ok(null()) };
    if numbers.len() == count {
        return Ok(numbers.as_ptr());
    }
    let rule = format!("must be the number of samples, {count}");
    Err(Error::refused(name, numbers.len(), rule))
}

impl StepPlanHandle {
    pub(crate) fn new(
        sizes: &SizesHandle<'_>,
        options: &StepPlanOptions<'_>,
    ) -> Result<Self, Error> {
        let mut call = InCall::new(&options.progress);
        let mut raw = *options.raw;
        (raw.budgets, raw.budget_count) = call.budgets(&options.budgets)?;
        (raw.balance, raw.balance_count) = call.balance(&options.balance)?;
        let count = sizes.count();
        raw.groups = as_many("groups.len()", options.groups.as_ref(), count)?;
        raw.prefix = as_many("prefix.len()", options.prefix.as_ref(), count)?;
        raw.parents = as_many("parents.len()", options.parents.as_ref(), count)?;
        (raw.progress, raw.progress_ctx) = call.progress();
        // SAFETY: a live handle, a struct whose size is set, as many numbers as sizes in each array; arrays and
        // closures outlive the call, the only time they are used.
        let (status, handle) =
            construct(|plan| unsafe { sys::sab_step_plan_new(sizes.pointer(), &raw, plan) })?;
        made(check_with(status, call.failures()), handle).map(StepPlanHandle)
    }

    fn view(&self) -> sys::sab_step_plan_view {
        // SAFETY: a live handle, and a struct whose size is set.
        certain(filled(|view| unsafe { sys::sab_step_plan_get_view(self.0.pointer(), view) }))
    }

    pub(crate) fn arrays(&self) -> StepPlanArrays<'_> {
        let view = self.view();
        let parts = (view.world_size * view.micro_batches) as usize;
        let kinds = view.balance_count;
        // SAFETY: arrays of these lengths, which live unchanged as long as the handle.
        unsafe {
            StepPlanArrays {
                world_size: view.world_size,
                micro_batches: view.micro_batches,
                least_micro_batches: view.least_micro_batches,
                indices: slice(view.indices, view.samples),
                offsets: slice(view.offsets, parts + 1),
                inverse: slice(view.inverse, view.samples),
                costs: slice(view.costs, kinds * parts),
                rank_imbalance: slice(view.rank_imbalance, kinds).to_vec(),
                least_rank_imbalance: slice(view.least_rank_imbalance, kinds).to_vec(),
                micro_step_imbalance: slice(view.micro_step_imbalance, kinds).to_vec(),
            }
        }
    }

    pub(crate) fn cu_seqlens(&self, column: usize) -> Option<&[i32]> {
        let view = self.view();
        if view.cu_seqlens.is_null() || column >= view.columns {
            return None;
        }
        let parts = (view.world_size * view.micro_batches) as usize;
        let offsets = if view.segments.is_null() { view.offsets } else { view.segment_offsets };
        // SAFETY: one more than there are micro-batches, which live as long as the handle.
        let count = unsafe { slice(offsets, parts + 1) }[parts] as usize + parts;
        // SAFETY: an array for each column, of this length, which lives as long as the handle.
        Some(unsafe { slice(*view.cu_seqlens.add(column), count) })
    }

    pub(crate) fn segments(&self, rank: u64) -> Option<Vec<Vec<Segment>>> {
        let view = self.view();
        if view.segments.is_null() || rank >= view.world_size {
            return None;
        }
        let (parts, count) = (view.world_size * view.micro_batches, view.micro_batches as usize);
        // SAFETY: arrays of these lengths, which live unchanged as long as the handle.
        let (offsets, segments) = unsafe {
            let offsets = slice(view.segment_offsets, parts as usize + 1);
            (offsets, slice(view.segments, offsets[parts as usize] as usize))
        };
        let index = |number: i64| usize::try_from(number).ok();
        let first = rank as usize * count;
        let of_part = |ends: &[u64]| {
            let own = &segments[ends[0] as usize..ends[1] as usize];
            let shown = own.iter().map(|each| Segment {
                node: index(each.node),
                sample: each.sample as usize,
                parent: index(each.parent),
                position: each.position as usize,
                offset: each.offset as usize,
                length: each.length as usize,
            });
            shown.collect()
        };
        Some(offsets[first..=first + count].windows(2).map(of_part).collect())
    }

    pub(crate) fn loss_weights(
        &self,
        weighting: LossWeighting,
        tokens: Option<&[f64]>,
    ) -> Result<Vec<f64>, Error> {
        let nodes = self.view().nodes;
        if let Some(given) = tokens.map(<[f64]>::len).filter(|&given| given != nodes) {
            return Err(Error::refused(
                "tokens.len()",
                given,
                format!("must be the number of samples, {nodes}"),
            ));
        }
        let mut weights = vec![0.0; nodes];
        let counted = tokens.map_or(null(), <[f64]>::as_ptr);
        // SAFETY: a live handle, as many tokens as sizes or NULL, and room for as many weights.
        check(unsafe {
            sys::sab_step_plan_get_loss_weights(
                self.0.pointer(),
                weighting.raw(),
                counted,
                weights.as_mut_ptr(),
            )
        })?;
        Ok(weights)
    }
}
