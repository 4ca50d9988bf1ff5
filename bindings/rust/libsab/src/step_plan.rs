use std::fmt;

use crate::batch::Layout;
pub use crate::choices::{LossWeighting, MicroBatchOrder};
use crate::cost::{Budget, Cost};
use crate::error::Error;
use crate::options::{budget_setters, options, progress_setter, setters, Hook};
use crate::raw::{ProgressFn, StepPlanHandle};
use crate::sizes::Sizes;

options! {
/// How a [`StepPlan`] divides samples. [`budget`](Self::budget) or
/// [`micro_batches`](Self::micro_batches) must be given.
pub struct StepPlanOptions<'f>: sab_step_plan_options {
    groups: Option<Vec<i64>>,
    prefix: Option<Vec<i64>>,
    parents: Option<Vec<i64>>,
    budgets: Vec<Budget<'f>>,
    balance: Vec<Cost<'f>>,
    progress: Hook<ProgressFn<'f>>,
}
}

impl<'f> StepPlanOptions<'f> {
    setters! {
        /// Number of ranks; may be more than there are samples; 1.
        world_size(ranks: u64) => world_size = ranks;
        /// Micro-batches of each rank, rounded up to [`multiple`](Self::multiple). The fewest
        /// possible by default.
        micro_batches(count: u64) => micro_batches = count;
        /// The number of micro-batches is a multiple of this, such as the stages of an interleaved
        /// pipeline; 1.
        multiple(number: u64) => multiple = number;
        /// [`Layout::Row`] by default; a padded micro-batch is padded to its longest sample.
        layout(layout: Layout) => padded = i32::from(layout == Layout::Padded);
        /// Of the micro-batches of a rank, by cost; [`MicroBatchOrder::Descending`].
        order(order: MicroBatchOrder) => order = order.raw();
        /// With [`prefix`](Self::prefix) or [`parents`](Self::parents), the samples of a group or
        /// tree are of the same rank; false.
        whole_groups(whole: bool) => whole_groups = i32::from(whole);
    }

    budget_setters! {
        'f,
        /// What no micro-batch exceeds: a number of tokens, or a [`Budget`] with a cost.
    }

    /// What ranks and micro-steps have in common. Each further call adds another cost, and all of
    /// them are balanced. By default the cost of the first budget.
    pub fn balance(mut self, cost: Cost<'f>) -> Self {
        self.balance.push(cost);
        self
    }

    /// An id for each sample; samples with the same id are of the same rank, but with
    /// [`prefix`](Self::prefix) only if [`whole_groups`](Self::whole_groups) is set.
    pub fn groups(mut self, ids: impl Into<Vec<i64>>) -> Self {
        self.groups = Some(ids.into());
        self
    }

    /// For each sample the number of leading tokens that it shares with its group; equal within a
    /// group. A micro-batch computes them once. Needs [`groups`](Self::groups).
    pub fn prefix(mut self, tokens: impl Into<Vec<i64>>) -> Self {
        self.prefix = Some(tokens.into());
        self
    }

    /// For each node of a forest the index of its parent, or -1; the sizes are then the tokens of
    /// the nodes. The samples are the leaves, and the index of a sample is that of its leaf. In
    /// place of [`groups`](Self::groups) and [`prefix`](Self::prefix).
    pub fn parents(mut self, parents: impl Into<Vec<i64>>) -> Self {
        self.parents = Some(parents.into());
        self
    }

    progress_setter!('f);
}

/// Tokens that a micro-batch computes once, of samples that share some. They attend to themselves
/// and to the segments above them: the parent, the parent of that one, and so on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Segment {
    /// The node of the forest. With [`prefix`](StepPlanOptions::prefix) the sample whose own tokens
    /// these are; `None` for the prefix of a group.
    pub node: Option<usize>,
    /// The first sample of the micro-batch that has these tokens, from `position` on.
    pub sample: usize,
    /// The segment before this one in its samples, counted from the first of the micro-batch; `None`
    /// at the beginning of the samples.
    pub parent: Option<usize>,
    /// Position of the first token in its samples.
    pub position: usize,
    /// Where the first token is in the micro-batch.
    pub offset: usize,
    /// Number of tokens; may be 0.
    pub length: usize,
}

/// The samples of one step, divided among ranks and micro-batches, when their sizes are known only
/// as the step begins: in reinforcement learning, and in fine-tuning on generated data.
///
/// No micro-batch exceeds a budget. All ranks have the same number of micro-batches. Ranks cost
/// nearly the same in sum and in each micro-step, the micro-batch that all ranks run at the same
/// time. A micro-batch is empty only if there are fewer samples than micro-batches; with
/// groups, only if its rank has fewer.
///
/// ```
/// use libsab::{LossWeighting, Sizes, StepPlan, StepPlanOptions};
///
/// let lengths = Sizes::copied(&[7u32, 2, 5, 3, 6, 1])?;
/// let plan = StepPlan::new(&lengths, &StepPlanOptions::new().world_size(2).budget(8.0))?;
/// assert_eq!(plan.rank(0).unwrap().collect::<Vec<_>>(), [&[0][..], &[1, 3]]);
/// assert_eq!(plan.rank_imbalance(), [1.0]);
/// assert_eq!(plan.loss_weights(LossWeighting::Token, None)?[2], 5.0 / 24.0);
/// # Ok::<(), libsab::Error>(())
/// ```
pub struct StepPlan {
    handle: StepPlanHandle,
}

impl StepPlan {
    /// Divides the samples.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`], also for a sample that exceeds a budget alone, and when the given
    /// number of micro-batches does not suffice; what a cost returns; [`Error::Cancelled`] from the
    /// progress closure.
    pub fn new(sizes: &Sizes<'_>, options: &StepPlanOptions<'_>) -> Result<Self, Error> {
        Ok(Self { handle: StepPlanHandle::new(&sizes.handle, options)? })
    }

    /// The indices of each micro-batch of a rank, in the order in which it runs them. `None` for a
    /// rank that is not there.
    #[must_use]
    pub fn rank(&self, rank: u64) -> Option<impl ExactSizeIterator<Item = &[i64]> + '_> {
        let arrays = self.handle.arrays();
        let count = usize::try_from(arrays.micro_batches).ok()?;
        let first = usize::try_from(rank).ok()?.checked_mul(count)?;
        let offsets = arrays.offsets.get(first..=first.checked_add(count)?)?;
        let indices = arrays.indices;
        Some(offsets.windows(2).map(move |ends| &indices[ends[0] as usize..ends[1] as usize]))
    }

    /// Number of ranks.
    #[must_use]
    pub fn world_size(&self) -> u64 {
        self.handle.arrays().world_size
    }

    /// Micro-batches of each rank.
    #[must_use]
    pub fn micro_batches(&self) -> u64 {
        self.handle.arrays().micro_batches
    }

    /// A lower bound on the micro-batches of a rank, rounded up to the multiple.
    #[must_use]
    pub fn least_micro_batches(&self) -> u64 {
        self.handle.arrays().least_micro_batches
    }

    /// The samples of the first micro-batch of rank 0, then of its second, and so on.
    #[must_use]
    pub fn indices(&self) -> &[i64] {
        self.handle.arrays().indices
    }

    /// One more than there are micro-batches: micro-batch m of rank r is number k = r *
    /// micro-batches + m, and has the indices from `offsets[k]` to below `offsets[k + 1]`.
    #[must_use]
    pub fn offsets(&self) -> &[u64] {
        self.handle.arrays().offsets
    }

    /// The position of each sample in [`indices`](Self::indices), which restores the order of
    /// results; with parents in the order of the leaves.
    #[must_use]
    pub fn inverse(&self) -> &[i64] {
        self.handle.arrays().inverse
    }

    /// The cumulative lengths of all micro-batches in a column: those of micro-batch k begin with 0
    /// at `offsets[k] + k`, and are one more than its samples; with shared tokens those of its
    /// [`segments`](Self::segments), one behind the other. `None` in the padded layout, when
    /// sizes are not whole numbers with sums below 2^31, and for a column that is not there.
    #[must_use]
    pub fn cu_seqlens(&self, column: usize) -> Option<&[i32]> {
        self.handle.cu_seqlens(column)
    }

    /// What each micro-batch of a rank computes once, in the order of the tokens, each behind its
    /// parent. `None` without shared tokens, and for a rank that is not there.
    #[must_use]
    pub fn segments(&self, rank: u64) -> Option<Vec<Vec<Segment>>> {
        self.handle.segments(rank)
    }

    /// The cost of each micro-batch: by the first balanced cost of all, then by the second, and so
    /// on.
    #[must_use]
    pub fn costs(&self) -> &[f64] {
        self.handle.arrays().costs
    }

    /// For each balanced cost: the costliest rank, to the mean of the ranks.
    #[must_use]
    pub fn rank_imbalance(&self) -> Vec<f64> {
        self.handle.arrays().rank_imbalance
    }

    /// A lower bound on [`rank_imbalance`](Self::rank_imbalance).
    #[must_use]
    pub fn least_rank_imbalance(&self) -> Vec<f64> {
        self.handle.arrays().least_rank_imbalance
    }

    /// For each balanced cost: the sum over micro-steps of the costliest micro-batch, to the mean
    /// of the ranks.
    #[must_use]
    pub fn micro_step_imbalance(&self) -> Vec<f64> {
        self.handle.arrays().micro_step_imbalance
    }

    /// The weight of each sample in the loss of the step, with a sum of 1. The loss of a sample is
    /// the mean over its tokens. With parents one for each node, 0 for those that are not leaves.
    ///
    /// `tokens` has those of each sample that count in the loss, such as the tokens of a response;
    /// by default all. A framework that averages gradients over ranks needs `world_size` times this
    /// loss.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for tokens that are negative, not finite, or sum to 0, and unless there
    /// is one number for each sample, or with parents for each node.
    pub fn loss_weights(
        &self,
        weighting: LossWeighting,
        tokens: Option<&[f64]>,
    ) -> Result<Vec<f64>, Error> {
        self.handle.loss_weights(weighting, tokens)
    }
}

impl fmt::Debug for StepPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StepPlan")
            .field("samples", &self.indices().len())
            .field("world_size", &self.world_size())
            .field("micro_batches", &self.micro_batches())
            .field("rank_imbalance", &self.rank_imbalance())
            .finish()
    }
}
