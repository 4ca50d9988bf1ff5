//! Ranks: balanced steps, shards, and how ranks talk to each other.

use std::time::Duration;

use super::*;

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
    // SAFETY: `context` is the Guarded closure given with this trampoline, alive and used by nobody else during the call.
    let guarded = unsafe { &mut *context.cast::<Guarded<Gather<'_>>>() };
    guarded.run(|gather| {
        if size == 0 {
            return Ok(sys::SAB_OK);
        }
        let count = size * gather.world_size as usize;
        // SAFETY: `size` bytes to read, and room for as many of each rank, filled before it is shown.
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
    check(unsafe { sys::sab_ranks_from_environment(&mut rank, &mut world_size) })?;
    Ok((rank, world_size))
}

pub(crate) fn data_rank(shape: &[u64], is_data: &[bool], rank: u64) -> Result<(u64, u64), Error> {
    if shape.len() != is_data.len() {
        let (axes, said) = (shape.len(), is_data.len());
        return Err(Error::Argument(format!(
            "is_data has {said} values: must have as many as shape, {axes}"
        )));
    }
    let is_data: Vec<i32> = is_data.iter().copied().map(i32::from).collect();
    let (mut own, mut world_size) = (0, 0);
    // SAFETY: as many lengths as axes, and room for two numbers.
    check(unsafe {
        sys::sab_data_rank(
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

/// The options of balanced steps whose pointers are still Rust's.
pub(crate) struct BalancedParts<'f> {
    /// Pointers and lengths in it are filled in by [`SamplerHandle::balanced`].
    pub(crate) options: sys::sab_balanced_options,
    pub(crate) memory_terms: Vec<sys::sab_cost_term>,
    pub(crate) coefficients: Vec<f64>,
    pub(crate) cost_terms: Vec<sys::sab_cost_term>,
    pub(crate) cost: Option<Box<CostFn<'f>>>,
    pub(crate) progress: Option<Box<ProgressFn<'f>>>,
}

pub(crate) fn default_balanced_options() -> sys::sab_balanced_options {
    // SAFETY: the call fills the whole struct.
    unsafe { defaults(sys::sab_balanced_options_init) }
}

impl SamplerHandle<'static> {
    fn own(pointer: Room<sys::sab_sampler>) -> Option<Self> {
        owned(pointer, |pointer| SamplerHandle { pointer, kept: None, borrowed: PhantomData })
    }

    pub(crate) fn balanced(
        sizes: &SizesHandle<'_>,
        mut parts: BalancedParts<'_>,
        options: &sys::sab_sampler_options,
    ) -> Result<Self, Error> {
        let mut cost = parts.cost.map(Guarded::new);
        let mut progress =
            parts.progress.as_mut().map(|progress| Guarded::new(&mut **progress as Progress<'_>));
        let balanced = &mut parts.options;
        balanced.memory_terms = elements(&parts.memory_terms);
        balanced.memory_term_count = parts.memory_terms.len();
        balanced.coefficients = elements(&parts.coefficients);
        balanced.coefficient_count = parts.coefficients.len();
        balanced.cost_terms = elements(&parts.cost_terms);
        balanced.cost_term_count = parts.cost_terms.len();
        (balanced.cost_fn, balanced.cost_ctx) = cost_parts(&mut cost);
        (balanced.progress, balanced.progress_ctx) = progress_parts(&mut progress);
        let mut pointer = Room::new()?;
        // SAFETY: a live handle, structs whose sizes are set; arrays and closures outlive the call, the only time they are used.
        let status = unsafe {
            sys::sab_balanced_sampler_new(sizes.pointer.as_ptr(), balanced, options, pointer.fill())
        };
        let handle = Self::own(pointer);
        let result = check_with(
            status,
            &mut [cost_failure(&mut cost, &mut None), progress_failure(&mut progress, &mut None)],
        );
        made(result, handle)
    }

    pub(crate) fn sharded(
        sizes: &SizesHandle<'_>,
        plan: PlanParts<'_>,
        options: &sys::sab_sampler_options,
        all_gather: &mut GatherFn<'_>,
    ) -> Result<Self, Error> {
        let mut pointer = Room::new()?;
        plan.make(|plan| {
            let mut gather = Guarded::new(Gather { all_gather, world_size: options.world_size });
            // SAFETY: a live handle, structs whose sizes are set; arrays and closures outlive the call, the only time they are used.
            let status = unsafe {
                sys::sab_sharded_sampler_new(
                    sizes.pointer.as_ptr(),
                    plan,
                    options,
                    Some(gather_trampoline),
                    gather.context(),
                    pointer.fill(),
                )
            };
            (status, Self::own(pointer), gather.failure.take())
        })
    }

    pub(crate) fn balance_report(
        &mut self,
        progress: Option<Progress<'_>>,
    ) -> Result<sys::sab_balance_report, Error> {
        let mut report = sys::sab_balance_report {
            struct_size: size_of::<sys::sab_balance_report>(),
            samples: 0,
            skipped: 0,
            dropped: 0,
            steps: 0,
            total: 0.0,
            fill: 0.0,
            rank_imbalance: 0.0,
            largest_rank_imbalance: 0.0,
            micro_batch_imbalance: 0.0,
            time: 0.0,
            least_time: 0.0,
        };
        let mut progress = progress.map(Guarded::new);
        let (progress_fn, progress_context) = progress_parts(&mut progress);
        // SAFETY: a live handle that nobody else uses, a struct whose size is set; the closure outlives the call.
        let status = unsafe {
            sys::sab_sampler_balance_report(
                self.pointer.as_ptr(),
                progress_fn,
                progress_context,
                &mut report,
            )
        };
        check_with(status, &mut [progress_failure(&mut progress, &mut None)])?;
        Ok(report)
    }
}

impl SamplerHandle<'_> {
    pub(crate) fn check_ranks(
        &self,
        rank: u64,
        world_size: u64,
        all_gather: &mut GatherFn<'_>,
    ) -> Result<(), Error> {
        let mut gather = Guarded::new(Gather { all_gather, world_size });
        // SAFETY: a live handle, const for the call; the closure outlives the call, the only time it is used.
        let status = unsafe {
            sys::sab_sampler_check_ranks(
                self.pointer.as_ptr(),
                rank,
                world_size,
                Some(gather_trampoline),
                gather.context(),
            )
        };
        check_with(status, &mut [&mut gather.failure])?;
        Ok(())
    }
}

/// Owns a `sab_torch_store`.
pub(crate) struct StoreHandle {
    pointer: NonNull<sys::sab_torch_store>,
    world_size: u64,
}

// SAFETY: a store is tied to no thread (torch.h). It is not Sync: one thread at a time may use it.
unsafe impl Send for StoreHandle {}

impl Drop for StoreHandle {
    fn drop(&mut self) {
        // SAFETY: the handle is ours and this is its last use.
        unsafe { sys::sab_torch_store_free(self.pointer.as_ptr()) };
    }
}

impl StoreHandle {
    pub(crate) fn new(
        host: &str,
        port: u16,
        rank: u64,
        world_size: u64,
        timeout: Duration,
    ) -> Result<Self, Error> {
        let host = text("host", host.as_bytes())?;
        let mut pointer = Room::new()?;
        // SAFETY: a NUL-terminated name, and room for a handle.
        let status = unsafe {
            sys::sab_torch_store_new(
                host.as_ptr(),
                port,
                rank,
                world_size,
                timeout.as_secs_f64(),
                pointer.fill(),
            )
        };
        let handle = owned(pointer, |pointer| StoreHandle { pointer, world_size });
        made(check(status), handle)
    }

    pub(crate) fn all_gather(&mut self, mine: &[u8], all: &mut [u8]) -> Result<(), Error> {
        let wanted = mine.len() as u128 * u128::from(self.world_size);
        if all.len() as u128 != wanted {
            return Err(Error::Argument(format!(
                "all has {} bytes: must have {wanted}, {} for each of {} ranks",
                all.len(),
                mine.len(),
                self.world_size
            )));
        }
        // SAFETY: a live handle that nobody else uses, bytes to read, and room for as many of each rank.
        let status = unsafe {
            sys::sab_torch_store_all_gather(
                self.pointer.as_ptr().cast(),
                mine.as_ptr().cast(),
                mine.len(),
                all.as_mut_ptr().cast(),
            )
        };
        check(status).map(drop)
    }
}
