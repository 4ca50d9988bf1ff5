//! Calls of `balance.h` on context plans.

use super::*;
use crate::context::{ContextOptions, ContextPart};

/// Owns a `sab_context_plan`.
pub(crate) struct ContextHandle(Owned<sys::sab_context_plan>);

impl ContextHandle {
    pub(crate) fn new(
        lengths: &SizesHandle<'_>,
        world_size: u64,
        budget: u64,
        options: &ContextOptions<'_>,
    ) -> Result<Self, Error> {
        let mut call = InCall::new(&options.progress);
        let mut raw = *options.raw;
        raw.cost = call.optional_cost(options.cost.as_ref())?;
        (raw.progress, raw.progress_ctx) = call.progress();
        // SAFETY: a live handle; the cost and the closures in the options outlive the call.
        let (status, handle) = construct(|plan| unsafe {
            sys::sab_context_plan_new(lengths.pointer(), world_size, budget, &raw, plan)
        })?;
        made(check_with(status, call.failures()), handle).map(ContextHandle)
    }

    fn pointer(&self) -> *mut sys::sab_context_plan {
        self.0.pointer()
    }

    calls! { fn view(&self) -> struct sab_context_plan_view = sab_context_plan_get_view; }

    pub(crate) fn parts(&self, rank: u64) -> Vec<ContextPart> {
        let view = self.view();
        if rank >= view.world_size {
            return Vec::new();
        }
        let rank = rank as usize; // below the length of an array
                                  // SAFETY: arrays of these lengths, which live unchanged as long as the handle.
        let parts = unsafe {
            let offsets = slice(view.offsets, view.world_size as usize + 1);
            let (begin, end) = (offsets[rank] as usize, offsets[rank + 1] as usize);
            &slice(view.parts, offsets[view.world_size as usize] as usize)[begin..end]
        };
        parts
            .iter()
            .map(|each| ContextPart {
                sample: each.sample,
                part: each.part,
                of: each.of,
                head: each.head_begin..each.head_end,
                tail: each.tail_begin..each.tail_end,
                start: each.start,
                end: each.end,
            })
            .collect()
    }
}
