use std::cell::RefCell;
use std::fmt;
use std::iter::FusedIterator;
use std::ops::ControlFlow;

use sab_sys as sys;

use crate::batch::{Batch, BatchRef, Block, Step};
pub use crate::choices::LastStep;
use crate::cost::Cost;
use crate::error::{BoxError, Error};
use crate::mixture::{Mixture, SourceReport};
use crate::options::{options, setters};
use crate::plan::{Plan, Shape};
use crate::raw::{certain, SamplerHandle};

options! {
/// Order, epoch and ranks of a sampler. By default seed 0, epoch 0, one rank, one micro-batch, the
/// last step split.
pub struct SamplerOptions<'f>: sab_sampler_options {
    balance: Option<Cost<'f>>,
}
}

impl<'f> SamplerOptions<'f> {
    setters! {
        /// Seed of the shuffled order; the same on all ranks.
        seed(seed: u64) => seed = seed;
        /// Epoch to begin with.
        epoch(epoch: u64) => epoch = epoch;
        /// This rank, below the world size.
        rank(rank: u64) => rank = rank;
        /// Number of ranks, at most 2^32 - 1; 1.
        world_size(ranks: u64) => world_size = ranks;
        /// How batches that do not fill the last step are treated; [`LastStep::Split`].
        last_step(last_step: LastStep) => last_step = last_step.raw();
        /// Batches that each rank takes in a step of the optimizer (gradient accumulation); the
        /// same on all ranks; 1.
        micro_batches(count: u64) => micro_batches = count;
        /// [`Sampler::bucket`], [`Sampler::packed`]: begin each epoch with at least this many of
        /// the batches that may cost most, so that an out-of-memory error comes early.
        costliest_first(batches: u64) => costliest_first = batches;
        /// [`Sampler::bucket`]: whether a micro-step holds batches of all lengths. By default, of
        /// batches of nearly equal cost those of like length form a micro-step.
        mix_lengths(wanted: bool) => mix_lengths = i32::from(wanted);
        /// Steps of an epoch, which goes on where the one before stopped, in the next epoch of the
        /// data if need be. An epoch then has this times `micro_batches` batches. 0, the default:
        /// an epoch has each sample once.
        steps_per_epoch(steps: u64) => steps_per_epoch = steps;
    }

    /// [`Sampler::bucket`]: the cost that a micro-step evens out over the ranks; that of the first
    /// budget.
    ///
    /// ```
    /// use libsab::{Cost, Plan, PlanOptions, SamplerOptions, Sizes};
    ///
    /// let sizes = Sizes::from_fn(10_000, |i| (1 + i * 7919 % 90) as f64)?;
    /// let plan = Plan::new(&sizes, &PlanOptions::new().budget(1024.0))?;
    /// let options = SamplerOptions::new().world_size(8).balance(Cost::transformer(768, 12)?);
    /// assert!(plan.report(&options)?.rank_imbalance < 1.1);
    /// # Ok::<(), libsab::Error>(())
    /// ```
    pub fn balance(mut self, cost: Cost<'f>) -> Self {
        self.raw.balance_count = 1; // samplers without this option refuse it
        self.balance = Some(cost);
        self
    }
}

/// Functions that a sampler supports beside those that all samplers have. The others give
/// [`Error::Unsupported`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[allow(clippy::struct_excessive_bools)] // each is a fact of its own
pub struct Capabilities {
    /// The number of batches of an epoch.
    pub batch_count: bool,
    /// Any batch of the epoch, seeking, and states.
    pub random_access: bool,
    /// A budget that can be lowered.
    pub budget: bool,
    /// The batches of all ranks of an epoch.
    pub schedule: bool,
}

/// The batches of an epoch, one after the other, for one rank.
///
/// Its constructors say what the batches are; `'a` is how long the memory or the closure that it
/// reads is borrowed, and `'static` where it owns all of it. Not every sampler supports every
/// function: see [`capabilities`](Self::capabilities).
///
/// ```
/// use libsab::{Plan, PlanOptions, Sampler, SamplerOptions, Sizes};
///
/// let sizes = Sizes::from_fn(1000, |i| (1 + i % 90) as f64)?;
/// let plan = Plan::new(&sizes, &PlanOptions::new().budget(2048.0))?;
/// let mut sampler = Sampler::bucket(&plan, &SamplerOptions::new().seed(7))?;
/// for _epoch in 0..2 {
///     for batch in &mut sampler {                 // each loop is the next epoch
///         assert!(batch?.padded_total() <= 2048.0);
///     }
/// }
///
/// sampler.set_epoch(5)?;
/// let first = sampler.next_batch().unwrap()?;
/// let state = sampler.state()?;                   // store it with the checkpoint
/// let second = sampler.next_batch().unwrap()?;
///
/// let mut resumed = Sampler::bucket(&plan, &SamplerOptions::new().seed(7))?;
/// resumed.restore(&state)?;
/// assert_eq!(resumed.next_batch().unwrap()?, second);
/// assert_eq!(resumed.at(0)?.indices, first.indices);
/// # Ok::<(), libsab::Error>(())
/// ```
pub struct Sampler<'a> {
    pub(crate) handle: SamplerHandle<'a>,
}

/// A constructor that takes a plan and options only.
type OfPlan = fn(&Plan, &SamplerOptions<'_>) -> Result<Sampler<'static>, Error>;

impl Sampler<'static> {
    /// The bucket order: shuffled, resumable, with random access. The sampler keeps the plan alive.
    ///
    /// Each epoch exchanges samples of equal length between buckets of the plan, and permutes the
    /// samples inside each bucket and the batches of the epoch. A batch is a pure function of plan,
    /// seed, epoch and position, and of the options that the epoch began with. So nothing is
    /// shuffled in memory, seeking takes as long as a step, and ranks need not communicate.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for options that break a rule; [`Error::Callback`] from the closure of
    /// `balance`.
    pub fn bucket(plan: &Plan, options: &SamplerOptions<'_>) -> Result<Self, Error> {
        SamplerHandle::of_plan(sys::sab_bucket_sampler_new, &plan.handle, options).map(Self::over)
    }

    /// The plan's batches unshuffled: buckets by ascending size, samples by size, then by index.
    /// For evaluation. Seed and `costliest_first` are refused.
    ///
    /// ```
    /// use libsab::{Plan, PlanOptions, Sampler, SamplerOptions, Sizes};
    ///
    /// let plan = Plan::new(&Sizes::copied(&[30u8, 10, 20])?, &PlanOptions::new().batch_size(2))?;
    /// let mut sampler = Sampler::sequential(&plan, &SamplerOptions::new())?;
    /// let batches: Vec<_> = sampler.iter_mut().collect::<Result<_, _>>()?;
    /// let indices: Vec<i64> = batches.into_iter().flat_map(|batch| batch.indices).collect();
    /// assert_eq!(indices, [1, 2, 0]);
    /// # Ok::<(), libsab::Error>(())
    /// ```
    pub fn sequential(plan: &Plan, options: &SamplerOptions<'_>) -> Result<Self, Error> {
        SamplerHandle::of_plan(sys::sab_sequential_sampler_new, &plan.handle, options)
            .map(Self::over)
    }

    /// The constructors that take a plan and options only, by the names of the golden vectors.
    #[doc(hidden)]
    pub const OF_PLAN: &'static [(&'static str, OfPlan)] =
        &[("bucket", Self::bucket), ("sequential", Self::sequential)];

    /// The `count` costliest batches, at least 1, that an epoch of the plan can have, costliest
    /// first: step through them once before training to see that the memory suffices. No batch of
    /// any epoch costs more than the first.
    ///
    /// ```
    /// # use libsab::{Plan, PlanOptions, Sampler, Sizes};
    /// # let plan = Plan::new(&Sizes::from_fn(1000, |i| (i % 90) as f64)?, &PlanOptions::new().budget(2048.0))?;
    /// for batch in &mut Sampler::costliest(&plan, 3)? {
    ///     let batch = batch?;
    ///     println!("{} samples padded to {}", batch.indices.len(), batch.padded_length[0]);
    /// }
    /// # Ok::<(), libsab::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for a count of 0.
    pub fn costliest(plan: &Plan, count: u64) -> Result<Self, Error> {
        SamplerHandle::costliest(&plan.handle, count).map(Self::over)
    }
}

impl<'a> Sampler<'a> {
    pub(crate) fn over(handle: SamplerHandle<'a>) -> Self {
        Sampler { handle }
    }

    /// Begins a pass and gives its batches, as `for batch in &mut sampler` does.
    pub fn iter_mut(&mut self) -> Batches<'_, 'a> {
        let failure = self.begin().err();
        Batches { sampler: self, failure }
    }

    /// Begins a pass: what the next batch belongs to. See [`Batches`].
    ///
    /// # Errors
    ///
    /// [`Error::NoMemory`]; [`Error::Callback`] when a closure that makes batches failed.
    pub fn begin(&mut self) -> Result<(), Error> {
        self.handle.begin()
    }

    /// The next batch of the pass. `None` at the end of the epoch, again and again until another
    /// pass begins.
    ///
    /// # Errors
    ///
    /// [`Error::Callback`] when a closure of the sampler failed.
    pub fn next_batch(&mut self) -> Option<Result<Batch, Error>> {
        self.handle.next_batch()
    }

    /// As [`next_batch`](Self::next_batch), with the arrays borrowed from the sampler: nothing is
    /// copied.
    pub fn next_ref(&mut self) -> Option<Result<BatchRef<'_>, Error>> {
        self.handle.next()
    }

    /// Moves over at most so many batches of the pass and shows them, with the arrays borrowed from
    /// the sampler. `None` at the end of the epoch. A sampler without random access gives one
    /// batch.
    ///
    /// # Errors
    ///
    /// As [`next_batch`](Self::next_batch); [`Error::Argument`] when `max_batches` is 0.
    pub fn next_block(&mut self, max_batches: usize) -> Option<Result<Block<'_>, Error>> {
        self.handle.next_block(max_batches)
    }

    /// The step of the batch that was shown last, over all ranks and micro-batches. On several
    /// ranks its time grows with their number.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] when there is no such batch: before the first one, and after a call that
    /// failed or moved to another epoch, state or budget.
    pub fn step(&mut self) -> Result<Step, Error> {
        self.handle.step()
    }

    /// What this sampler supports.
    #[must_use]
    pub fn capabilities(&self) -> Capabilities {
        certain(self.handle.capabilities())
    }

    /// Moves to the first batch of an epoch.
    ///
    /// # Errors
    ///
    /// [`Error::NoMemory`]; [`Error::Callback`] when a closure that makes batches failed.
    pub fn set_epoch(&mut self, epoch: u64) -> Result<(), Error> {
        self.handle.set_epoch(epoch)
    }

    /// The current epoch, and the position in it of the next batch.
    #[must_use]
    pub fn tell(&self) -> (u64, u64) {
        certain(self.handle.tell())
    }

    /// The shapes of the batches of the current epoch, of all ranks: as
    /// [`Plan::shapes`](crate::Plan::shapes), with those of a last step that is split. Under a lowered
    /// budget those of the batches from there on.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] for a sampler whose batches are not a plan's.
    pub fn shapes(&mut self) -> Result<Vec<Shape>, Error> {
        self.handle.shapes()
    }

    /// Number of samples left out because they are too large.
    #[must_use]
    pub fn skipped_count(&self) -> usize {
        certain(self.handle.skipped_count())
    }

    /// The samples left out because they are too large, by ascending size; of greedy samplers those
    /// of the current epoch so far; -1 where the index is not known.
    ///
    /// # Errors
    ///
    /// [`Error::Format`] when the file of the plan was changed.
    pub fn skipped(&self) -> Result<Vec<i64>, Error> {
        self.handle.skipped()
    }

    /// Exact number of batches that this rank takes in the current epoch; the same on every rank.
    /// After a restore from another number of ranks it includes the batches that each of those
    /// took.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] for a sampler that does not know it.
    pub fn batch_count(&self) -> Result<u64, Error> {
        self.handle.batch_count()
    }

    /// The batch at a position of the current epoch; the cursor stays where it is.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] for a sampler without random access; [`Error::Argument`] for a
    /// position at or over [`batch_count`](Self::batch_count), or before the position at which a
    /// state of other ranks or another budget took over.
    pub fn at(&mut self, position: u64) -> Result<BatchRef<'_>, Error> {
        self.handle.at(position)
    }

    /// Moves the cursor: the next batch will be that at `position`, at most
    /// [`batch_count`](Self::batch_count), the end.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for a larger position; [`Error::Unsupported`] for a sampler without
    /// random access, unless the position is 0.
    pub fn seek(&mut self, position: u64) -> Result<(), Error> {
        self.handle.seek(position)
    }

    /// State of the cursor, to be stored with a checkpoint. All ranks at one position have the
    /// same.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] for a sampler without random access.
    pub fn state(&self) -> Result<Vec<u8>, Error> {
        self.handle.state()
    }

    /// The [state](Self::state) after `position` batches of this rank in the current epoch, before
    /// its end was reported. For loaders that fetch batches ahead of training: the cursor does not
    /// move. A budget that was set after that position holds from there on.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for a position beyond the end, or before that of a restored state that
    /// other ranks saved; [`Error::Unsupported`] for a sampler without random access.
    pub fn state_at(&self, position: u64) -> Result<Vec<u8>, Error> {
        self.handle.state_at(position)
    }

    /// Goes on where a [state](Self::state) was taken, by this or another number of ranks. With
    /// another, the new ranks share the samples that no rank has taken yet, none lost and none
    /// repeated.
    ///
    /// # Errors
    ///
    /// [`Error::Format`] for truncated, damaged or foreign bytes; [`Error::Mismatch`] when the
    /// state belongs to another plan, order or seed; [`Error::Unsupported`] for a sampler without
    /// random access.
    pub fn restore(&mut self, state: &[u8]) -> Result<(), Error> {
        self.handle.restore(state)
    }

    /// Reads all batches of the current epoch, over all ranks, and reports each source of the
    /// mixture that the sampler is over. The cursor stays where it is.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for a sampler over sizes that are no mixture, or over one of another
    /// number of sources; [`Error::Unsupported`] for a sampler without random access, or one that
    /// does not know the samples of the other ranks.
    pub fn report_sources(&mut self, mixture: &Mixture<'_>) -> Result<Vec<SourceReport>, Error> {
        self.handle.report_sources(mixture, None)
    }

    /// As [`report_sources`](Self::report_sources), followed by `progress(done, total)`, which may
    /// stop it.
    ///
    /// # Errors
    ///
    /// Also [`Error::Cancelled`].
    pub fn report_sources_with_progress(
        &mut self,
        mixture: &Mixture<'_>,
        progress: impl FnMut(u64, u64) -> ControlFlow<()>,
    ) -> Result<Vec<SourceReport>, Error> {
        let progress = RefCell::new(progress);
        self.handle.report_sources(mixture, Some(&progress))
    }

    /// Checks that all ranks hold the same: version of the order, data, seed, epoch, step, world
    /// size, policies; and that each rank is there once. To be called on all ranks after their
    /// samplers are made or restored.
    ///
    /// `rank` and `world_size` are of the processes that `all_gather(mine, all)` joins: it fills
    /// `all`, world size times as long as `mine`, with what each of them gave, in the order of the
    /// ranks. Such is [`TorchStore::all_gather`](crate::torch::TorchStore::all_gather). Called
    /// twice, with some 200 bytes at most.
    ///
    /// ```
    /// use libsab::{Plan, PlanOptions, Sampler, SamplerOptions, Sizes};
    ///
    /// let plan = Plan::new(&Sizes::copied(&[30u8, 10, 20])?, &PlanOptions::new().batch_size(2))?;
    /// let sampler = Sampler::bucket(&plan, &SamplerOptions::new())?;
    /// sampler.check_ranks(0, 1, |mine, all| {
    ///     all.copy_from_slice(mine);      // the only rank
    ///     Ok(())
    /// })?;
    /// # Ok::<(), libsab::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Mismatch`], on all ranks, names the ranks that differ from most, the difference,
    /// and both values; [`Error::Callback`] from the closure; [`Error::Unsupported`] for a sampler
    /// that has no state.
    pub fn check_ranks(
        &self,
        rank: u64,
        world_size: u64,
        mut all_gather: impl FnMut(&[u8], &mut [u8]) -> Result<(), BoxError>,
    ) -> Result<(), Error> {
        self.handle.check_ranks(rank, world_size, &mut all_gather)
    }

    /// Sets another limit of one of the plan's budgets, by index, for the batches to come in this
    /// epoch and the following ones. Use it when less memory is free than the plan assumed. 0, or
    /// more than the plan's own limit, is the plan's own limit again. All ranks must set it at the
    /// same position. In a plan without budgets, index 0 is the padded total.
    ///
    /// The samples of each bucket that are left are cut into as few batches as the limit allows. No
    /// sample is lost, and [`batch_count`](Self::batch_count) changes. The limit is part of the
    /// [state](Self::state).
    ///
    /// ```
    /// use libsab::{Plan, PlanOptions, Sampler, SamplerOptions, Sizes};
    ///
    /// let plan = Plan::new(&Sizes::from_fn(1000, |i| (1 + i % 90) as f64)?, &PlanOptions::new().budget(2048.0))?;
    /// let mut sampler = Sampler::bucket(&plan, &SamplerOptions::new())?;
    /// sampler.set_budget(0, 1000.0)?;
    /// assert_eq!(sampler.budget(0)?, 1000.0);
    /// for batch in &mut sampler {
    ///     assert!(batch?.padded_total() <= 1000.0);
    /// }
    /// # Ok::<(), libsab::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for a limit that is negative, not finite or at most the cost's constant,
    /// and for an index that no budget has; [`Error::Unsupported`] for a budget whose cost is a
    /// closure, and for a sampler that is neither [`Sampler::bucket`] nor [`Sampler::sequential`].
    pub fn set_budget(&mut self, index: usize, limit: f64) -> Result<(), Error> {
        self.handle.set_budget(index, limit)
    }

    /// The limit of one of the plan's budgets, by index, for the batches to come, in the unit of
    /// its cost; 0 when the plan has none.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for an index that no budget has; [`Error::Unsupported`] when the costs
    /// of all budgets are closures, and as [`set_budget`](Self::set_budget).
    pub fn budget(&self, index: usize) -> Result<f64, Error> {
        self.handle.budget(index)
    }
}

impl<'s, 'a> IntoIterator for &'s mut Sampler<'a> {
    type Item = Result<Batch, Error>;
    type IntoIter = Batches<'s, 'a>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter_mut()
    }
}

impl fmt::Debug for Sampler<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sampler").field("tell", &self.tell()).finish_non_exhaustive()
    }
}

/// The batches of a pass over an epoch: the iterator of `&mut sampler`.
///
/// After a finished pass it is the next epoch. After a pass that was not finished it is the same
/// epoch from its start. After a restore it is the rest of the saved epoch, or the next epoch if the
/// saved pass was finished.
pub struct Batches<'s, 'a> {
    sampler: &'s mut Sampler<'a>,
    /// The first item, when the pass could not begin.
    failure: Option<Error>,
}

impl Iterator for Batches<'_, '_> {
    type Item = Result<Batch, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.failure.take() {
            Some(failure) => Some(Err(failure)),
            None => self.sampler.next_batch(),
        }
    }

    /// The batches that are left of the epoch, exactly, when the sampler knows their number.
    fn size_hint(&self) -> (usize, Option<usize>) {
        if self.failure.is_some() {
            return (1, None);
        }
        let Ok(count) = self.sampler.batch_count() else { return (0, None) };
        let left = usize::try_from(count.saturating_sub(self.sampler.tell().1)).ok();
        (left.unwrap_or(usize::MAX), left)
    }
}

impl FusedIterator for Batches<'_, '_> {}

impl fmt::Debug for Batches<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batches").field("tell", &self.sampler.tell()).finish_non_exhaustive()
    }
}
