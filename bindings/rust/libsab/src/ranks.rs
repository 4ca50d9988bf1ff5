use std::cell::RefCell;
use std::ops::ControlFlow;

use sab_sys as sys;

use crate::columns::PerColumn;
use crate::cost::{Budget, Cost};
use crate::error::{BoxError, Error};
use crate::options::{array_setters, budget_setters, options, progress_setter, setters, Hook};
use crate::plan::PlanOptions;
use crate::raw::{self, ProgressFn, SamplerHandle};
use crate::sampler::{Sampler, SamplerOptions};
use crate::sizes::Sizes;

/// Rank and world size as a launcher set them in the environment: torchrun, SLURM, Open MPI, or
/// MPICH and Intel MPI, in this order. 0 and 1 where none did.
///
/// ```
/// let (rank, world_size) = libsab::ranks_from_environment()?;
/// let options = libsab::SamplerOptions::new().rank(rank).world_size(world_size);
/// # assert!(rank < world_size);
/// # Ok::<(), libsab::Error>(())
/// ```
///
/// # Errors
///
/// [`Error::Argument`] where one of a pair of variables is missing or no number, or the rank is not
/// below the world size.
pub fn ranks_from_environment() -> Result<(u64, u64), Error> {
    raw::ranks_from_environment()
}

/// Rank and world size, for samplers, of a process in a mesh of parallelisms: processes that share
/// the same samples (tensor, context, pipeline parallel) get the same.
///
/// `shape` has the length of each axis, the last one fastest, and `is_data` says along which of
/// them processes take different samples.
///
/// ```
/// // Pipeline 2, data 4, tensor 8.
/// assert_eq!(libsab::ranks_from_mesh(&[2, 4, 8], &[false, true, false], 45)?, (1, 4));
/// # Ok::<(), libsab::Error>(())
/// ```
///
/// # Errors
///
/// [`Error::Argument`] for a rank outside the mesh, an empty mesh, or slices of different lengths.
pub fn ranks_from_mesh(shape: &[u64], is_data: &[bool], rank: u64) -> Result<(u64, u64), Error> {
    raw::ranks_from_mesh(shape, is_data, rank)
}

options! {
/// Steps of a [`Sampler::balanced`]. [`samples`](Self::samples) or [`budget`](Self::budget) must be
/// given.
pub struct BalancedOptions<'f>: sab_balanced_options {
    budgets: Vec<Budget<'f>>,
    length_multiples: Vec<f64>,
    row_multiples: Vec<f64>,
    balance: Vec<Cost<'f>>,
    progress: Hook<ProgressFn<'f>>,
}
}

impl<'f> BalancedOptions<'f> {
    setters! {
        /// Samples of a step, over all ranks and micro-batches; fewer if a budget is reached first.
        /// With [`padded`](Self::padded) exactly as many, but in the last step. As many as fit by
        /// default.
        samples(samples: u64) => samples = samples;
        /// Share of the budgets, in (0, 1], that the samples of a step may take; the rest is room
        /// in which costs are balanced; 0.95. Not with [`padded`](Self::padded).
        fill(share: f64) => fill = share;
        /// Whether steps are random samples of the data, of which only the division into padded
        /// micro-batches goes by length. Costs are then those of a padded batch, and no closures.
        ///
        /// ```
        /// use libsab::{BalancedOptions, Layout, Sampler, SamplerOptions, Sizes};
        ///
        /// let lengths: Vec<u32> = (0..1000).map(|i| 1 + i * 7919 % 200).collect();
        /// let options = BalancedOptions::new().samples(100).padded(true);
        /// let walk = SamplerOptions::new().micro_batches(8);
        /// let mut sampler = Sampler::balanced(&Sizes::borrowed(&lengths)?, &options, &walk)?;
        /// let report = sampler.report()?;
        /// assert!(report.total / report.padded_total > 0.8);
        /// assert_eq!(sampler.next_batch().unwrap()?.layout, Layout::Padded);
        /// # Ok::<(), libsab::Error>(())
        /// ```
        padded(is_padded: bool) => padded = is_padded.into();
    }

    budget_setters! {
        'f,
        /// What no micro-batch exceeds: a number for the sum of its sizes, or a [`Budget`] with a
        /// cost, such as that of a model of packed batches
        /// ([`MemoryModel::cost`](crate::memory::MemoryModel::cost)).
        ///
        /// ```
        /// use libsab::{BalancedOptions, Budget, Cost, Sampler, SamplerOptions, Sizes};
        ///
        /// let lengths: Vec<u32> = (0..1000).map(|i| 1 + i * 7919 % 200).collect();
        /// let needs = |length: f64| 3.0 * length + 0.01 * length * length;
        /// let memory = Cost::polynomial(&[1000.0, 0.0, 3.0, 0.01]);         // of which 1000 once a micro-batch
        /// let options = BalancedOptions::new().budget(Budget::new(12_000.0).cost(memory)).balance(Cost::quadratic());
        /// for batch in &mut Sampler::balanced(&Sizes::borrowed(&lengths)?, &options, &SamplerOptions::new().world_size(2))? {
        ///     let bytes: f64 = batch?.indices.iter().map(|&index| needs(lengths[index as usize].into())).sum();
        ///     assert!(1000.0 + bytes <= 12_000.0 * (1.0 + 1e-12));
        /// }
        /// # Ok::<(), libsab::Error>(())
        /// ```
    }

    /// What micro-batches and ranks have in common, without its constant. Each further call adds
    /// another cost, and all of them are balanced. By default the cost of the first budget, with
    /// several columns the costs of all budgets, and the sum of the sizes without one.
    ///
    /// ```
    /// # use libsab::{BalancedOptions, Cost, Sampler, SamplerOptions, Sizes};
    /// let sizes = Sizes::from_fn(1000, |i| (i % 90) as f64)?;
    /// let cost = Cost::from_fn(|count, length| count as f64 * length * (1.0 + length / 4096.0));
    /// let options = BalancedOptions::new().budget(2000.0).balance(cost);
    /// let mut sampler = Sampler::balanced(&sizes, &options, &SamplerOptions::new().world_size(4))?;
    /// assert!(sampler.report()?.rank_imbalance < 1.01);
    ///
    /// let both = BalancedOptions::new().samples(500).balance(Cost::quadratic()).balance(Cost::padded(&[1.0]));
    /// let mut sampler = Sampler::balanced(&sizes, &both, &SamplerOptions::new().world_size(4))?;
    /// assert!(sampler.report()?.costs.iter().all(|each| each.rank_imbalance < 1.01));
    /// # Ok::<(), libsab::Error>(())
    /// ```
    pub fn balance(mut self, cost: Cost<'f>) -> Self {
        self.balance.push(cost);
        self
    }

    array_setters! {
        /// Each sample is rounded up to a multiple, or with [`padded`](Self::padded) the longest of
        /// a micro-batch. Costs and budgets are those of the rounded lengths. One number for all
        /// columns, or one a column; 0 for none.
        length_multiples: f64;
        /// [`Batch::padded_length`](crate::Batch::padded_length) of a row is its total, rounded up
        /// to a multiple, within the budgets. Not with [`padded`](Self::padded).
        row_multiples: f64;
    }

    /// Leaves out samples over a budget alone, which are an error by default. They are counted and
    /// logged once.
    pub fn skip_oversize(mut self) -> Self {
        self.raw.oversize = sys::SAB_OVERSIZE_SKIP;
        self
    }

    progress_setter!('f);
}

impl Sampler<'static> {
    /// Steps of samples in random order, assigned to ranks and micro-batches of nearly equal cost,
    /// under budgets of tokens or memory.
    ///
    /// For batches without padding (packed, nested, variable-length attention), whose cost is not
    /// their number of tokens. Each epoch permutes the samples; a step takes the next ones and
    /// assigns them as [`partition`](crate::partition) does. No sample is lost or repeated, every
    /// rank takes the same number of micro-batches, and ranks need not communicate.
    ///
    /// A batch is a micro-batch in one row. A state from between two steps restores with any other
    /// world size, micro-batches, samples, balance and budgets; one from inside a step only with
    /// the same.
    ///
    /// Sorts the sizes, which are not needed afterwards, and makes the steps of the first epoch. Of
    /// the options, `costliest_first` is not used.
    ///
    /// ```
    /// use libsab::{BalancedOptions, Cost, Sampler, SamplerOptions, Sizes};
    ///
    /// let lengths: Vec<u32> = (0..1000).map(|i| 1 + i * 7919 % 200).collect();
    /// let balanced = BalancedOptions::new().budget(2048.0).balance(Cost::quadratic());
    /// let options = SamplerOptions::new().seed(7).rank(1).world_size(4).micro_batches(2);
    /// let mut sampler = Sampler::balanced(&Sizes::borrowed(&lengths)?, &balanced, &options)?;
    /// println!("{:.3} of the mean is the costliest rank", sampler.report()?.rank_imbalance);
    ///
    /// while let Some(batch) = sampler.next_batch() {
    ///     let (batch, step) = (batch?, sampler.step()?);
    ///     assert!(batch.total[0] <= 2048.0);
    ///     let _weight = batch.total[0] / step.total.unwrap()[0];    // in a mean over the tokens of the step
    ///     if batch.micro_batch + 1 == step.micro_batches {
    ///         // the optimizer's step
    ///     }
    /// }
    /// # Ok::<(), libsab::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for options or sizes that break a rule, and for a sample over a budget
    /// alone that is not skipped; [`Error::Callback`] from the cost closure; [`Error::Cancelled`]
    /// from the progress closure.
    pub fn balanced(
        sizes: &Sizes<'_>,
        balanced: &BalancedOptions<'_>,
        options: &SamplerOptions<'_>,
    ) -> Result<Self, Error> {
        SamplerHandle::balanced(&sizes.handle, balanced, &options.raw).map(Self::over)
    }

    /// The batches of samples that are spread over the ranks. Each rank knows and takes only the
    /// samples of its own shard.
    ///
    /// The ranks exchange histograms of their sizes. Every rank makes the same plan from the sum. In
    /// each step all ranks take a batch of the same bucket, so that these batches have nearly the
    /// same cost. All take the same number of steps, no batch exceeds the budget, and no sample is
    /// lost or repeated, but for those that
    /// [`min_batch_size`](crate::PlanOptions::min_batch_size) leaves no room for. Indices are those
    /// of the rank's own shard.
    /// [`Step::samples`](crate::Step::samples) counts the samples of all ranks.
    /// [`Step::total`](crate::Step::total) is `None` with several ranks, because the sizes of the
    /// other ranks' samples are not known. A state restores only with the same shards.
    ///
    /// To be called on all ranks at once, with the same plan options:
    /// [`Tail::Keep`](crate::Tail::Keep), and not [`Oversize::Single`](crate::Oversize::Single).
    /// The sizes are of this rank's samples. They may be empty and are not needed afterwards. Seed,
    /// epoch, micro-batches and steps of an epoch must be the same on all ranks. The other options
    /// of the order are refused.
    ///
    /// `all_gather(mine, all)` fills `all`, world size times as long as `mine`, with what each rank
    /// gave, in the order of the ranks. Such is
    /// [`TorchStore::all_gather`](crate::torch::TorchStore::all_gather). Called four times: twice a
    /// few bytes, the histogram, a few bytes.
    ///
    /// ```
    /// use libsab::{PlanOptions, Sampler, SamplerOptions, Sizes};
    ///
    /// let sizes = Sizes::from_fn(1000, |i| (i % 90) as f64)?;
    /// let (rank, world_size) = (0, 1);
    /// let options = SamplerOptions::new().seed(7).rank(rank).world_size(world_size);
    /// let mut sampler = Sampler::sharded(&sizes, &PlanOptions::new().budget(2048.0), &options, |mine, all| {
    ///     all.copy_from_slice(mine);      // the only rank
    ///     Ok(())
    /// })?;
    /// let samples: usize = sampler.iter_mut().map(|batch| Ok(batch?.indices.len())).sum::<Result<_, libsab::Error>>()?;
    /// assert_eq!(samples, 1000);
    /// # Ok::<(), libsab::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] on all ranks where the options, or the sizes of one, break a rule, with
    /// its number; [`Error::Mismatch`] where the options differ; [`Error::Callback`] from a
    /// closure; [`Error::Cancelled`] from the plan's progress closure.
    pub fn sharded(
        sizes: &Sizes<'_>,
        plan: &PlanOptions<'_>,
        options: &SamplerOptions<'_>,
        mut all_gather: impl FnMut(&[u8], &mut [u8]) -> Result<(), BoxError>,
    ) -> Result<Self, Error> {
        SamplerHandle::sharded(&sizes.handle, plan, &options.raw, &mut all_gather).map(Self::over)
    }
}

impl Sampler<'_> {
    /// Balance of the current epoch of [`Sampler::balanced`] or [`Sampler::packed`], over all ranks,
    /// before any training; of packed rows by the cost that those of a step have in common. The
    /// cursor stays where it is.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for other samplers; [`Error::NoMemory`].
    pub fn report(&mut self) -> Result<BalancedReport, Error> {
        self.handle.balance_report(None)
    }

    /// As [`report`](Self::report), followed by `progress(done, total)`, which may stop it.
    ///
    /// # Errors
    ///
    /// Also [`Error::Cancelled`].
    pub fn report_with_progress(
        &mut self,
        progress: impl FnMut(u64, u64) -> ControlFlow<()>,
    ) -> Result<BalancedReport, Error> {
        let progress = RefCell::new(progress);
        self.handle.balance_report(Some(&progress))
    }
}

/// Balance of an epoch of a [`Sampler::balanced`] or [`Sampler::packed`], over all ranks.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct BalancedReport {
    /// Samples in the sizes.
    pub samples: u64,
    /// Of them, left out because they are over a budget alone.
    pub skipped: u64,
    /// Left out of this epoch by [`LastStep::Drop`](crate::LastStep::Drop).
    pub dropped: u64,
    /// Steps of the optimizer.
    pub steps: u64,
    /// Samples of the step that has the fewest, over all ranks and micro-batches.
    pub least_step_samples: u64,
    /// Samples of the step that has the most.
    pub most_step_samples: u64,
    /// Standard deviation of the samples of a step.
    pub step_samples_deviation: f64,
    /// Sum of the sizes in the steps, over all columns.
    pub total: f64,
    /// `total` of each column.
    pub totals: PerColumn<f64>,
    /// Sum over the micro-batches of samples times padded length, over all columns: `total` where
    /// nothing is padded.
    pub padded_total: f64,
    /// `padded_total` of each column.
    pub padded_totals: PerColumn<f64>,
    /// Share of a budget that the samples take, of the budget where it is largest; 0 without a
    /// budget.
    pub fill: f64,
    /// Mean over steps of cost of the costliest rank / mean cost of the ranks, where it is largest
    /// among the balanced costs; 1: perfect.
    pub rank_imbalance: f64,
    /// The largest of a step.
    pub largest_rank_imbalance: f64,
    /// Mean over steps of cost of the costliest micro-batch / mean, where it is largest among the
    /// balanced costs.
    pub micro_batch_imbalance: f64,
    /// Sum over steps of the cost of the costliest rank, by the first balanced cost: the time of an
    /// epoch if each step waits for the slowest rank.
    pub time: f64,
    /// Total of the first balanced cost / world size: the time of an epoch without waiting.
    pub least_time: f64,
    /// Of a packed sampler: share of the pairs of samples in one row that share a row in the next
    /// epoch, too; 0 for a balanced sampler, as the three below.
    pub meet_again: f64,
    /// The share expected of random rows: shuffled samples, of which one that does not fit begins a
    /// row.
    pub random_meet_again: f64,
    /// Of a packed sampler: standard deviation of the mean length of a row; of several columns, of
    /// the fullest one.
    pub length_deviation: f64,
    /// That of random rows.
    pub random_length_deviation: f64,
    /// Of each balanced cost.
    pub costs: Vec<CostBalance>,
}

/// How even a cost is that a [`Sampler::balanced`] balances.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct CostBalance {
    /// Mean over steps of cost of the costliest rank / mean cost of the ranks; 1: perfect.
    pub rank_imbalance: f64,
    /// The largest of these.
    pub largest_rank_imbalance: f64,
    /// Mean over steps of cost of the costliest micro-batch / mean.
    pub micro_batch_imbalance: f64,
    /// Sum over steps of the cost of the costliest rank: the time of an epoch if each step waits
    /// for the slowest rank.
    pub time: f64,
    /// Total cost / world size: the time of an epoch without waiting.
    pub least_time: f64,
}
