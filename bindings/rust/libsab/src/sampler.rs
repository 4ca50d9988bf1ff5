use std::fmt;
use std::iter::FusedIterator;
use std::sync::Arc;

use sab_sys as sys;

use crate::batch::{Batch, BatchRef};
use crate::error::{BoxError, Error};
use crate::options::{constants, options, setters, KeptHook};
use crate::plan::Plan;
use crate::raw::{certain, HoldsSampler, SamplerHandle, SizeFn};
use crate::sizes::Sizes;

/// Words of a Mersenne twister's state: 624 of state and, last, the number of words used since they
/// were made.
pub const BIONEMO_GENERATOR_WORDS: usize = sys::SAB_BIONEMO_GENERATOR_WORDS as usize;

/// How batches that do not fill the last step of all ranks are treated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LastStep {
    /// They are split so that every rank gets a share: nothing lost, nothing twice.
    #[default]
    Split,
    /// They are left out of this epoch.
    Drop,
    /// The step is filled with batches from the beginning of the epoch.
    Wrap,
}

constants! {
    LastStep {
        Split = SAB_LAST_STEP_SPLIT,
        Drop = SAB_LAST_STEP_DROP,
        Wrap = SAB_LAST_STEP_WRAP,
    }
}

options! {
/// Order, epoch and ranks of a sampler. By default seed 0, epoch 0, one rank, one micro-batch, the
/// last step split.
///
/// ```
/// let options = libsab::SamplerOptions::new().seed(7).rank(3).world_size(8);
/// ```
#[derive(Copy)]
pub struct SamplerOptions: sab_sampler_options {}
}

impl SamplerOptions {
    setters! {
        /// Seed of the shuffled order; the same on all ranks.
        seed(seed: u64) => seed = seed;
        /// Epoch to begin with.
        epoch(epoch: u64) => epoch = epoch;
        /// This rank, below the world size.
        rank(rank: u64) => rank = rank;
        /// Number of ranks, 1 to 2^32 - 1.
        world_size(ranks: u64) => world_size = ranks;
        /// How batches that do not fill the last step are treated; [`LastStep::Split`].
        last_step(last_step: LastStep) => last_step = last_step.raw();
        /// Batches that each rank takes in a step of the optimizer (gradient accumulation); the
        /// same on all ranks.
        micro_batches(count: u64) => micro_batches = count;
        /// [`BucketSampler`], [`PackedSampler`](crate::PackedSampler): begin each epoch with at
        /// least this many of the batches that may cost most, so that an out-of-memory error comes
        /// early.
        costliest_first(batches: u64) => costliest_first = batches;
    }
}

/// Functions that a sampler supports beside those that all samplers have.
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

/// The batches of a pass over an epoch: the iterator of `&mut` any sampler.
///
/// After a finished pass it is the next epoch. After a pass that was not finished it is the same
/// epoch from its start. After a restore it is the rest of the saved epoch, or the next epoch if the
/// saved pass was finished.
pub struct Batches<'s, 'a> {
    handle: &'s mut SamplerHandle<'a>,
    /// The first item, when the pass could not begin.
    failure: Option<Error>,
}

impl<'s, 'a> Batches<'s, 'a> {
    pub(crate) fn begin(handle: &'s mut SamplerHandle<'a>) -> Self {
        let failure = handle.begin().err();
        Batches { handle, failure }
    }
}

impl Iterator for Batches<'_, '_> {
    type Item = Result<Batch, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.failure.take() {
            Some(failure) => Some(Err(failure)),
            None => self.handle.next_batch(),
        }
    }

    /// The batches that are left of the epoch, exactly, when the sampler knows their number.
    fn size_hint(&self) -> (usize, Option<usize>) {
        if self.failure.is_some() {
            return (1, None);
        }
        let (Ok(count), Ok((_, position))) = (self.handle.batch_count(), self.handle.tell()) else {
            return (0, None);
        };
        let left = usize::try_from(count.saturating_sub(position)).ok();
        (left.unwrap_or(usize::MAX), left)
    }
}

impl FusedIterator for Batches<'_, '_> {}

impl fmt::Debug for Batches<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batches").field("tell", &self.handle.tell()).finish_non_exhaustive()
    }
}

/// Methods of all samplers.
macro_rules! sampler {
    ($name:ident) => {
        sampler!(@ $name, 'static,);
    };
    ($name:ident<$life:lifetime>) => {
        sampler!(@ $name, $life, $life);
    };
    (@ $name:ident, $held:lifetime, $($life:lifetime)?) => {
        impl $(<$life>)? $name $(<$life>)? {
            /// Begins a pass and gives its batches, as `for batch in &mut sampler` does.
            pub fn iter_mut(&mut self) -> $crate::Batches<'_, $held> {
                $crate::Batches::begin(&mut self.handle)
            }

            /// Begins a pass: what the next batch belongs to. See [`Batches`](crate::Batches).
            ///
            /// # Errors
            ///
            /// [`Error::NoMemory`]; [`Error::Callback`] when a closure that makes batches failed.
            pub fn begin(&mut self) -> Result<(), Error> {
                self.handle.begin()
            }

            /// The next batch of the pass. `None` at the end of the epoch, again and again until
            /// another pass begins.
            ///
            /// # Errors
            ///
            /// [`Error::Callback`] when a closure of the sampler failed.
            pub fn next_batch(&mut self) -> Option<Result<$crate::Batch, Error>> {
                self.handle.next_batch()
            }

            /// As [`next_batch`](Self::next_batch), with the arrays borrowed from the sampler:
            /// nothing is copied.
            ///
            /// # Errors
            ///
            /// As [`next_batch`](Self::next_batch).
            pub fn next_ref(&mut self) -> Option<Result<BatchRef<'_>, Error>> {
                self.handle.next()
            }

            /// Moves over at most so many batches of the pass and shows them, with the arrays
            /// borrowed from the sampler. `None` at the end of the epoch. A sampler without
            /// random access gives one batch.
            ///
            /// # Errors
            ///
            /// As [`next_batch`](Self::next_batch); [`Error::Argument`] when `max_batches` is 0.
            pub fn next_block(
                &mut self,
                max_batches: usize,
            ) -> Option<Result<$crate::Block<'_>, Error>> {
                self.handle.next_block(max_batches)
            }

            /// The step of the batch that was shown last, over all ranks and micro-batches. On
            /// several ranks its time grows with their number.
            ///
            /// # Errors
            ///
            /// [`Error::Argument`] when there is no such batch: before the first one, and after a
            /// call that failed or moved to another epoch, state or budget.
            pub fn step(&mut self) -> Result<$crate::Step, Error> {
                self.handle.step()
            }

            /// What this sampler supports.
            pub fn capabilities(&self) -> $crate::Capabilities {
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
            pub fn tell(&self) -> (u64, u64) {
                certain(self.handle.tell())
            }

            /// Number of samples left out because they are too large.
            pub fn skipped_count(&self) -> usize {
                certain(self.handle.skipped_count())
            }

            /// The samples left out because they are too large, by ascending size; of greedy
            /// samplers those of the current epoch so far; -1 where the index is not known.
            ///
            /// # Errors
            ///
            /// [`Error::Format`] when the file of the plan was changed.
            pub fn skipped(&self) -> Result<Vec<i64>, Error> {
                self.handle.skipped()
            }
        }

        impl<'s $(, $life)?> IntoIterator for &'s mut $name $(<$life>)? {
            type Item = Result<$crate::Batch, Error>;
            type IntoIter = $crate::Batches<'s, $held>;

            fn into_iter(self) -> Self::IntoIter {
                self.iter_mut()
            }
        }

        impl $(<$life>)? fmt::Debug for $name $(<$life>)? {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($name)).field("tell", &self.tell()).finish_non_exhaustive()
            }
        }
    };
}

/// Methods of samplers with random access.
macro_rules! random_access {
    ($name:ident $(<$life:lifetime>)?) => {
        sampler!($name $(<$life>)?);

        impl $(<$life>)? $name $(<$life>)? {
            /// Exact number of batches that this rank takes in the current epoch; the same on every
            /// rank. After a restore from another number of ranks it includes the batches that each
            /// of those took.
            pub fn batch_count(&self) -> u64 {
                certain(self.handle.batch_count())
            }

            /// The batch at a position of the current epoch; the cursor stays where it is.
            ///
            /// # Errors
            ///
            /// [`Error::Argument`] for a position at or over [`batch_count`](Self::batch_count), or
            /// before the position at which a state of other ranks or another budget took over.
            pub fn at(&mut self, position: u64) -> Result<BatchRef<'_>, Error> {
                self.handle.at(position)
            }

            /// Moves the cursor: the next batch will be that at `position`, at most
            /// [`batch_count`](Self::batch_count), the end.
            ///
            /// # Errors
            ///
            /// [`Error::Argument`] for a larger position.
            pub fn seek(&mut self, position: u64) -> Result<(), Error> {
                self.handle.seek(position)
            }

            /// State of the cursor, to be stored with a checkpoint. All ranks at one position have
            /// the same.
            pub fn state(&self) -> Vec<u8> {
                certain(self.handle.state())
            }

            /// Goes on where a [state](Self::state) was taken, by this or another number of ranks.
            /// With another, the new ranks share the samples that no rank has taken yet, none lost
            /// and none repeated.
            ///
            /// # Errors
            ///
            /// [`Error::Format`] for truncated, damaged or foreign bytes; [`Error::Mismatch`] when
            /// the state belongs to another plan, order or seed.
            pub fn restore(&mut self, state: &[u8]) -> Result<(), Error> {
                self.handle.restore(state)
            }

            /// Reads all batches of the current epoch, over all ranks, and reports each source of
            /// the mixture that the sampler is over. The cursor stays where it is.
            ///
            /// # Errors
            ///
            /// [`Error::Argument`] for a sampler over sizes that are no mixture, or over one of
            /// another number of sources; [`Error::Unsupported`] for a sampler that does not know
            /// the samples of the other ranks.
            pub fn report_sources(
                &mut self,
                mixture: &$crate::Mixture<'_>,
            ) -> Result<Vec<$crate::SourceReport>, Error> {
                self.handle.report_sources(mixture, None)
            }

            /// As [`report_sources`](Self::report_sources), followed by `progress(done, total)`,
            /// which may stop it.
            ///
            /// # Errors
            ///
            /// Also [`Error::Cancelled`].
            pub fn report_sources_with_progress(
                &mut self,
                mixture: &$crate::Mixture<'_>,
                progress: impl FnMut(u64, u64) -> std::ops::ControlFlow<()>,
            ) -> Result<Vec<$crate::SourceReport>, Error> {
                let progress = std::cell::RefCell::new(progress);
                self.handle.report_sources(mixture, Some(&progress))
            }

            /// Checks that all ranks hold the same: version of the order, data, seed, epoch, step,
            /// world size, policies; and that each rank is there once. To be called on all ranks
            /// after their samplers are made or restored.
            ///
            /// `rank` and `world_size` are of the processes that `all_gather(mine, all)` joins: it
            /// fills `all`, world size times as long as `mine`, with what each of them gave, in the
            /// order of the ranks. Such is
            /// [`TorchStore::all_gather`](crate::torch::TorchStore::all_gather). Called twice, with
            /// some 200 bytes at most.
            ///
            /// ```
            /// use libsab::{BucketSampler, Plan, PlanOptions, SamplerOptions, Sizes};
            ///
            /// let plan = Plan::new(&Sizes::copied(&[30u8, 10, 20])?, &PlanOptions::new().batch_size(2))?;
            /// let sampler = BucketSampler::new(&plan, &SamplerOptions::new())?;
            /// sampler.check_ranks(0, 1, |mine, all| {
            ///     all.copy_from_slice(mine);      // the only rank
            ///     Ok(())
            /// })?;
            /// # Ok::<(), libsab::Error>(())
            /// ```
            ///
            /// # Errors
            ///
            /// [`Error::Mismatch`], on all ranks, names the ranks that differ from most, the
            /// difference, and both values; [`Error::Callback`] from the closure;
            /// [`Error::Unsupported`] for a sampler that has no state.
            pub fn check_ranks(
                &self,
                rank: u64,
                world_size: u64,
                mut all_gather: impl FnMut(&[u8], &mut [u8]) -> Result<(), $crate::BoxError>,
            ) -> Result<(), Error> {
                self.handle.check_ranks(rank, world_size, &mut all_gather)
            }
        }
    };
}

pub(crate) use {random_access, sampler};

/// Methods of samplers of a plan.
macro_rules! plan_sampler {
    ($name:ident) => {
        random_access!($name);

        impl $name {
            /// Sets another limit of one of the plan's budgets, by index, for the batches to come
            /// in this epoch and the following ones. Use it when less memory is free than the plan
            /// assumed. 0, or more than the plan's own limit, is the plan's own limit again. All
            /// ranks must set it at the same position. In a plan without budgets, index 0 is the
            /// padded total.
            ///
            /// The samples of each bucket that are left are cut into as few batches as the limit
            /// allows. No sample is lost, and [`batch_count`](Self::batch_count) changes. The limit
            /// is part of the [state](Self::state).
            ///
            /// ```
            #[doc = concat!("use libsab::{", stringify!($name), ", Plan, PlanOptions, SamplerOptions, Sizes};")]
            ///
            /// let plan = Plan::new(&Sizes::from_fn(1000, |i| (1 + i % 90) as f64)?, &PlanOptions::new().budget(2048.0))?;
            #[doc = concat!("let mut sampler = ", stringify!($name), "::new(&plan, &SamplerOptions::new())?;")]
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
            /// [`Error::Argument`] for a limit that is negative, not finite or at most the cost's
            /// constant, and for an index that no budget has; [`Error::Unsupported`] for a budget
            /// whose cost is a closure.
            pub fn set_budget(&mut self, index: usize, limit: f64) -> Result<(), Error> {
                self.handle.set_budget(index, limit)
            }

            /// The limit of one of the plan's budgets, by index, for the batches to come, in the
            /// unit of its cost; 0 when the plan has none.
            ///
            /// # Errors
            ///
            /// [`Error::Argument`] for an index that no budget has; [`Error::Unsupported`] when the
            /// costs of all budgets are closures.
            pub fn budget(&self, index: usize) -> Result<f64, Error> {
                self.handle.budget(index)
            }
        }

        impl HoldsSampler for $name {
            fn held(&self) -> &SamplerHandle<'static> {
                &self.handle
            }

            fn held_mut(&mut self) -> &mut SamplerHandle<'static> {
                &mut self.handle
            }
        }

        impl PlanSampler for $name {}
    };
}

/// A sampler whose budget can be lowered: [`BucketSampler`], [`SequentialSampler`], or either by
/// `&mut`. A [`MemoryGuard`](crate::memory::MemoryGuard) takes one.
pub trait PlanSampler: HoldsSampler {}

impl<S: PlanSampler> PlanSampler for &mut S {}

/// The bucket order: shuffled, resumable, with random access.
///
/// Each epoch permutes the samples inside each bucket of the plan and the batches of the epoch. A
/// batch is a pure function of plan, seed, epoch and position. So nothing is shuffled in memory,
/// seeking takes as long as a step, and ranks need not communicate.
///
/// ```
/// use libsab::{BucketSampler, Plan, PlanOptions, SamplerOptions, Sizes};
///
/// let sizes = Sizes::from_fn(1000, |i| (1 + i % 90) as f64)?;
/// let plan = Plan::new(&sizes, &PlanOptions::new().budget(2048.0))?;
/// let mut sampler = BucketSampler::new(&plan, &SamplerOptions::new().seed(7))?;
/// for _epoch in 0..2 {
///     for batch in &mut sampler {                 // each loop is the next epoch
///         assert!(batch?.padded_total() <= 2048.0);
///     }
/// }
///
/// sampler.set_epoch(5)?;
/// let first = sampler.next_batch().unwrap()?;
/// let state = sampler.state();                    // store it with the checkpoint
/// let second = sampler.next_batch().unwrap()?;
///
/// let mut resumed = BucketSampler::new(&plan, &SamplerOptions::new().seed(7))?;
/// resumed.restore(&state)?;
/// assert_eq!(resumed.next_batch().unwrap()?, second);
/// assert_eq!(resumed.at(0)?.indices, first.indices);
/// # Ok::<(), libsab::Error>(())
/// ```
pub struct BucketSampler {
    pub(crate) handle: SamplerHandle<'static>,
}

impl BucketSampler {
    /// A sampler on a plan, which it keeps alive.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for options that break a rule.
    pub fn new(plan: &Plan, options: &SamplerOptions) -> Result<Self, Error> {
        Ok(BucketSampler {
            handle: SamplerHandle::of_plan(
                sys::sab_bucket_sampler_new,
                &plan.handle,
                &options.raw,
            )?,
        })
    }
}

plan_sampler!(BucketSampler);

/// The plan's batches unshuffled: buckets by ascending size, samples by size, then by index. For
/// evaluation.
///
/// ```
/// use libsab::{Plan, PlanOptions, SamplerOptions, SequentialSampler, Sizes};
///
/// let plan = Plan::new(&Sizes::copied(&[30u8, 10, 20])?, &PlanOptions::new().batch_size(2))?;
/// let mut sampler = SequentialSampler::new(&plan, &SamplerOptions::new())?;
/// let batches: Vec<_> = sampler.iter_mut().collect::<Result<_, _>>()?;
/// let indices: Vec<i64> = batches.into_iter().flat_map(|batch| batch.indices).collect();
/// assert_eq!(indices, [1, 2, 0]);
/// # Ok::<(), libsab::Error>(())
/// ```
pub struct SequentialSampler {
    pub(crate) handle: SamplerHandle<'static>,
}

impl SequentialSampler {
    /// A sampler on a plan, which it keeps alive; seed and `costliest_first` are not used.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for options that break a rule.
    pub fn new(plan: &Plan, options: &SamplerOptions) -> Result<Self, Error> {
        Ok(SequentialSampler {
            handle: SamplerHandle::of_plan(
                sys::sab_sequential_sampler_new,
                &plan.handle,
                &options.raw,
            )?,
        })
    }
}

plan_sampler!(SequentialSampler);

/// The costliest batches that an epoch of a plan can have, costliest first: see
/// [`Plan::costliest_batches`].
pub struct CostliestSampler {
    pub(crate) handle: SamplerHandle<'static>,
}

random_access!(CostliestSampler);

/// Greedy batches in the order of the indices: a batch closes before its total would exceed the
/// budget.
///
/// A sample over the budget alone is skipped and counted, with a log message.
///
/// ```
/// use libsab::{SamplerOptions, BionemoSizeAwareSampler, Sizes};
///
/// let lengths = [4u32, 3, 9, 5, 2];
/// let sizes = Sizes::borrowed(&lengths)?;
/// let mut sampler = BionemoSizeAwareSampler::new(Some(&[4, 3, 2, 1, 0]), &sizes, 8.0, &SamplerOptions::new())?;
/// assert_eq!(sampler.skipped_count(), 1);
/// let batches: Vec<_> = sampler.iter_mut().map(|batch| Ok(batch?.indices)).collect::<Result<_, libsab::Error>>()?;
/// assert_eq!(batches, [vec![4, 3], vec![1, 0]]);
/// # Ok::<(), libsab::Error>(())
/// ```
pub struct BionemoSizeAwareSampler<'a> {
    pub(crate) handle: SamplerHandle<'a>,
}

impl<'a> BionemoSizeAwareSampler<'a> {
    /// Finds the batches in one pass; 24 bytes a batch. The indices are copied; `None` stands for
    /// 0, 1, 2, ... Borrowed sizes stay borrowed. The largest total of a batch is finite and at
    /// least 0; of the options, seed and `costliest_first` are not used.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for a budget, an option, an index or a size that breaks a rule.
    pub fn new(
        indices: Option<&[i64]>,
        sizes: &Sizes<'a>,
        budget: f64,
        options: &SamplerOptions,
    ) -> Result<Self, Error> {
        let handle = SamplerHandle::size_aware(indices, &sizes.handle, budget, &options.raw)?;
        Ok(BionemoSizeAwareSampler { handle })
    }
}

random_access!(BionemoSizeAwareSampler<'a>);

/// The rule of [`BionemoSizeAwareSampler`] over a source that is read while batches are made: one
/// rank, number of batches unknown, no random access.
///
/// An item is an error when the source's closure failed; the batch under way is kept, and the next
/// call goes on with the sample that failed.
pub struct BionemoSizeAwareStream<'a> {
    handle: SamplerHandle<'a>,
}

impl<'a> BionemoSizeAwareStream<'a> {
    /// Batches of the samples of a closure. `source(epoch, position)` gives an index, any number,
    /// and its size, finite and at least 0; `None` at the end. The position is 0 when the epoch
    /// begins (again), then one more each time. `budget` is finite and at least 0.
    ///
    /// ```
    /// use libsab::BionemoSizeAwareStream;
    ///
    /// let lengths = [4.0, 3.0, 9.0, 5.0];
    /// let mut stream = BionemoSizeAwareStream::from_fn(8.0, |_epoch, position| {
    ///     let length = *lengths.get(position as usize)?;
    ///     Some((position as i64, length))
    /// })?;
    /// let batches: Vec<_> = stream.iter_mut().map(|batch| Ok(batch?.indices)).collect::<Result<_, libsab::Error>>()?;
    /// assert_eq!(batches, [vec![0, 1], vec![3]]);
    /// # Ok::<(), libsab::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for a budget that breaks the rule.
    pub fn from_fn(
        budget: f64,
        mut source: impl FnMut(u64, u64) -> Option<(i64, f64)> + Send + 'a,
    ) -> Result<Self, Error> {
        Self::try_from_fn(budget, move |epoch, position| Ok(source(epoch, position)))
    }

    /// As [`BionemoSizeAwareStream::from_fn`], with a closure that may fail.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for a budget that breaks the rule.
    pub fn try_from_fn(
        budget: f64,
        source: impl FnMut(u64, u64) -> Result<Option<(i64, f64)>, BoxError> + Send + 'a,
    ) -> Result<Self, Error> {
        let handle = SamplerHandle::size_aware_stream(Box::new(source), budget)?;
        Ok(BionemoSizeAwareStream { handle })
    }

    /// As [`BionemoSizeAwareStream::from_fn`], with an iterator for each epoch.
    ///
    /// ```
    /// let lengths = [4.0, 3.0, 9.0, 5.0];
    /// let mut stream = libsab::BionemoSizeAwareStream::from_iters(8.0, |_epoch| (0..).zip(lengths))?;
    /// assert_eq!(stream.iter_mut().count(), 2);
    /// # Ok::<(), libsab::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for a budget that breaks the rule.
    pub fn from_iters<I>(
        budget: f64,
        mut samples: impl FnMut(u64) -> I + Send + 'a,
    ) -> Result<Self, Error>
    where
        I: Iterator<Item = (i64, f64)> + Send + 'a,
    {
        let mut current = None;
        Self::from_fn(budget, move |epoch, position| {
            if position == 0 {
                current = Some(samples(epoch));
            }
            current.as_mut()?.next()
        })
    }
}

sampler!(BionemoSizeAwareStream<'a>);

/// Shuffles of a [`BionemoSampler`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BionemoShuffle {
    /// Nothing: buckets ascending, samples of a bucket by index.
    None,
    /// Samples of each bucket are permuted, the bucket of each batch is drawn.
    #[default]
    All,
    /// Samples of a bucket by index, the bucket of each batch is drawn: for callers who permute
    /// themselves.
    Buckets,
}

constants! {
    BionemoShuffle {
        None = SAB_BIONEMO_SHUFFLE_NONE,
        All = SAB_BIONEMO_SHUFFLE_ALL,
        Buckets = SAB_BIONEMO_SHUFFLE_BUCKETS,
    }
}

options! {
/// Batches and shuffles of a [`BionemoSampler`]. By default seed 0, everything shuffled, the
/// plan's batch sizes.
///
/// ```
/// use libsab::{BionemoOptions, BionemoShuffle};
///
/// let options = BionemoOptions::new().seed(5).shuffle(BionemoShuffle::Buckets);
/// ```
pub struct BionemoOptions<'a>: sab_bionemo_options {
    size: KeptHook<SizeFn<'a>>,
}
}

impl<'a> BionemoOptions<'a> {
    setters! {
        /// As `torch.Generator().manual_seed(seed)`.
        seed(seed: u64) => seed = seed;
        /// Shuffles; [`BionemoShuffle::All`].
        shuffle(shuffle: BionemoShuffle) => shuffle = shuffle.raw();
    }

    /// Greedy batches by `size` instead of the plan's batch sizes. The closure is called once for
    /// each sample of an epoch, as batches are formed. `budget` is finite and at least 0.
    pub fn budget(self, budget: f64, size: impl Fn(usize) -> f64 + Send + Sync + 'a) -> Self {
        self.try_budget(budget, move |index| Ok(size(index)))
    }

    /// As [`budget`](Self::budget), with a closure that may fail. The sampler then
    /// gives its error as [`Error::Callback`].
    pub fn try_budget(
        mut self,
        budget: f64,
        size: impl Fn(usize) -> Result<f64, BoxError> + Send + Sync + 'a,
    ) -> Self {
        self.raw.budget = budget;
        self.size = KeptHook(Some(Arc::new(size)));
        self
    }
}

/// The order of `BucketBatchSampler` of bionemo-size-aware-batching 1.0.0, seed for seed, without
/// torch.
///
/// One rank. Each pass begins with the generator and the order that the previous pass left. So
/// there is no random access, and a pass that repeats an unfinished epoch has another order. Keeps
/// 8 bytes a sample.
///
/// ```
/// use libsab::{BucketRule, Plan, PlanOptions, Sizes, BionemoOptions, BionemoSampler};
///
/// let sizes = Sizes::from_fn(25, |i| i as f64)?;
/// let options = PlanOptions::new().bucket_rule(BucketRule::Boundaries(vec![0.0, 6.0, 15.0, 25.0])).batch_size(3);
/// let mut sampler = BionemoSampler::new(&Plan::new(&sizes, &options)?, &BionemoOptions::new().seed(0))?;
/// assert_eq!(sampler.next_batch().unwrap()?.indices, [24, 17, 16]);
/// # Ok::<(), libsab::Error>(())
/// ```
pub struct BionemoSampler<'a> {
    handle: SamplerHandle<'a>,
}

impl<'a> BionemoSampler<'a> {
    /// A sampler on a plan made with [`BucketRule::Boundaries`](crate::BucketRule::Boundaries) and
    /// [`Tail::Keep`](crate::Tail::Keep) or [`Tail::Drop`](crate::Tail::Drop).
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for another plan, or a budget that breaks the rule.
    pub fn new(plan: &Plan, options: &BionemoOptions<'a>) -> Result<Self, Error> {
        Ok(BionemoSampler { handle: SamplerHandle::torch(&plan.handle, options)? })
    }

    /// Number of batches of an epoch.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] under [`BionemoOptions::budget`].
    pub fn batch_count(&self) -> Result<u64, Error> {
        self.handle.batch_count()
    }

    /// The generator, to carry on with it elsewhere.
    #[must_use]
    pub fn generator(&self) -> [u32; BIONEMO_GENERATOR_WORDS] {
        certain(self.handle.generator())
    }

    /// Sets the generator.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for a number of used words, the last, over 624.
    pub fn set_generator(&mut self, words: &[u32; BIONEMO_GENERATOR_WORDS]) -> Result<(), Error> {
        self.handle.set_generator(words)
    }
}

sampler!(BionemoSampler<'a>);
