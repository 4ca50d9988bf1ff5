use std::fmt;
use std::ops::Range;
use std::sync::Arc;

pub use crate::choices::ContextGroups;
use crate::cost::Cost;
use crate::error::Error;
use crate::options::{cost_setter, options, progress_setter, setters, Hook};
use crate::raw::{ContextHandle, ProgressFn};
use crate::sizes::Sizes;

options! {
/// How samples are split over ranks. By default a sample costs its length, without an overhead.
pub struct ContextOptions<'f>: sab_context_options {
    cost: Option<Cost<'f>>,
    progress: Hook<ProgressFn<'f>>,
}
}

impl<'f> ContextOptions<'f> {
    setters! {
        /// What each rank of a group after the first adds to the time of a sample, in the unit of
        /// the cost; 0. Then it costs nothing to split a sample, so most samples are split over
        /// many ranks.
        overhead(time: f64) => overhead = time;
        /// How many ranks a group may have; [`ContextGroups::PowersOfTwo`].
        groups(groups: ContextGroups) => groups = groups.raw();
    }

    cost_setter! {
        'f,
        /// Cost of a sample on one rank: that of a batch of this sample; its length.
        cost
    }

    progress_setter!('f);
}

/// A part of a sample, which one rank computes: tokens from the head and as many from the tail, so
/// that all parts have the same work under causal attention.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ContextPart {
    /// Index of the sample.
    pub sample: u64,
    /// Number of this part, from 0: the rank of this part in its group.
    pub part: u32,
    /// Number of parts, which is the number of ranks in the group.
    pub of: u32,
    /// Tokens from the head of the sample.
    pub head: Range<u64>,
    /// Tokens from the tail of the sample.
    pub tail: Range<u64>,
    /// When all ranks of the group begin the sample, in the unit of the cost.
    pub start: f64,
    /// When they end it.
    pub end: f64,
}

/// Samples that are split over groups of ranks, so that the ranks end early: context parallelism
/// with groups of different sizes.
///
/// A rank computes its parts one after another, and begins a part when all ranks of the group are
/// free. On k ranks a sample takes `cost / k + overhead * (k - 1)`. Immutable and shareable between
/// threads; a clone is the same plan.
///
/// ```
/// use libsab::{ContextOptions, ContextPlan, Cost, Sizes};
///
/// let options = ContextOptions::new().cost(Cost::polynomial(&[0.0, 0.0, 1.0, 0.01])).overhead(2.0);
/// let plan = ContextPlan::new(&Sizes::borrowed(&[400, 80, 80, 80])?, 4, 160, &options)?;
/// let first = &plan.parts(0)[0];
/// assert_eq!((first.sample, first.part, first.of), (0, 0, 4));
/// assert_eq!((first.head.clone(), first.tail.clone()), (0..50, 350..400));
/// assert!(plan.makespan() < 1.3 * plan.lower_bound());
/// # Ok::<(), libsab::Error>(())
/// ```
#[derive(Clone)]
pub struct ContextPlan {
    handle: Arc<ContextHandle>,
}

impl ContextPlan {
    /// Splits samples of these lengths over `world_size` ranks, of which each holds at most
    /// `budget` tokens at a time.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for arguments that break a rule, and for a sample that does not fit on
    /// all ranks together; [`Error::Callback`] from the cost closure; [`Error::Cancelled`] from the
    /// progress closure.
    pub fn new(
        lengths: &Sizes<'_>,
        world_size: u64,
        budget: u64,
        options: &ContextOptions<'_>,
    ) -> Result<Self, Error> {
        let handle = ContextHandle::new(&lengths.handle, world_size, budget, options)?;
        Ok(ContextPlan { handle: Arc::new(handle) })
    }

    /// Number of ranks.
    #[must_use]
    pub fn world_size(&self) -> u64 {
        self.handle.view().world_size
    }

    /// Number of samples.
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.handle.view().samples
    }

    /// The parts of a rank in the order in which it computes them; empty for a rank that is not
    /// there.
    #[must_use]
    pub fn parts(&self, rank: u64) -> Vec<ContextPart> {
        self.handle.parts(rank)
    }

    /// When the last rank ends, if each takes the time that cost and overhead say.
    #[must_use]
    pub fn makespan(&self) -> f64 {
        self.handle.view().makespan
    }

    /// No plan for these groups has a lower makespan.
    #[must_use]
    pub fn lower_bound(&self) -> f64 {
        self.handle.view().lower_bound
    }

    /// `makespan / lower_bound - 1`.
    #[must_use]
    pub fn gap(&self) -> f64 {
        self.handle.view().gap
    }
}

impl fmt::Debug for ContextPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ContextPlan")
            .field("world_size", &self.world_size())
            .field("samples", &self.samples())
            .field("makespan", &self.makespan())
            .field("lower_bound", &self.lower_bound())
            .finish_non_exhaustive()
    }
}
