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

/// Bytes of a saved state.
pub const STATE_SIZE: usize = sys::SAB_STATE_SIZE as usize;

/// State of a sampler, to be stored with a checkpoint. All ranks at one step have the same.
pub type State = [u8; STATE_SIZE];

/// Words of a Mersenne twister's state: 624 of state and, last, the number of words used since they
/// were made.
pub const BIONEMO_GENERATOR_WORDS: usize = sys::SAB_BIONEMO_GENERATOR_WORDS as usize;

/// What becomes of the batches that do not fill the last step of all ranks.
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
/// Order, epoch and ranks of a sampler. By default seed 0, epoch 0, one rank, the last step split,
/// step totals filled.
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
        /// What becomes of the batches that do not fill the last step; [`LastStep::Split`].
        last_step(last_step: LastStep) => last_step = last_step.raw();
        /// Whether [`Batch::step_samples`] and [`Batch::step_total`] are filled, which takes time
        /// in proportion to the number of ranks.
        step_totals(wanted: bool) => step_totals = i32::from(wanted);
        /// [`BucketSampler`], [`PackedSampler`](crate::PackedSampler): begin each epoch with at
        /// least so many of the batches that may cost most, so that an out-of-memory error comes
        /// early.
        costliest_first(batches: u64) => costliest_first = batches;
    }
}

/// Methods of all samplers.
macro_rules! sampler {
    ($name:ident $(<$life:lifetime>)?) => {
        impl $(<$life>)? $name $(<$life>)? {
            /// The next batch with its indices borrowed from the sampler: nothing is copied. `None`
            /// at the end of the epoch, again and again until the next epoch begins.
            ///
            /// # Errors
            ///
            /// As the iterator.
            pub fn next_ref(&mut self) -> Option<Result<BatchRef<'_>, Error>> {
                self.handle.next()
            }

            /// Begins an epoch at its first step.
            ///
            /// # Errors
            ///
            /// [`Error::NoMemory`]; [`Error::Callback`] when a closure that makes batches failed.
            pub fn set_epoch(&mut self, epoch: u64) -> Result<(), Error> {
                self.handle.set_epoch(epoch)
            }

            /// The current epoch, and the step that the next batch will have.
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

        impl $(<$life>)? FusedIterator for $name $(<$life>)? {}

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

        impl $(<$life>)? Iterator for $name $(<$life>)? {
            type Item = Result<Batch, Error>;

            fn next(&mut self) -> Option<Self::Item> {
                Some(self.next_ref()?.map(BatchRef::into_owned))
            }

            /// The steps that are left of the epoch, exactly.
            fn size_hint(&self) -> (usize, Option<usize>) {
                let left = usize::try_from(self.batch_count() - self.tell().1).ok();
                (left.unwrap_or(usize::MAX), left)
            }
        }

        impl $(<$life>)? ExactSizeIterator for $name $(<$life>)? {}

        impl $(<$life>)? $name $(<$life>)? {
            /// Number of steps of the current epoch, exact, the same on every rank. After a restore
            /// from another number of ranks it counts the steps taken there too. What is left of
            /// them is `len()`.
            pub fn batch_count(&self) -> u64 {
                certain(self.handle.batch_count())
            }

            /// The batch at a step of the current epoch; the cursor stays where it is.
            ///
            /// # Errors
            ///
            /// [`Error::Argument`] for a position at or over [`batch_count`](Self::batch_count), or
            /// before the step at which another number of ranks left off.
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

            /// State of the cursor, to be stored with a checkpoint. All ranks at one step have
            /// the same.
            pub fn state(&self) -> State {
                certain(self.handle.state())
            }

            /// Goes on where a [state](Self::state) was taken, by this or another number of ranks.
            /// With another, the samples that no rank has taken yet are dealt out among the new
            /// ranks, none lost and none repeated.
            ///
            /// # Errors
            ///
            /// [`Error::Format`] for truncated, damaged or foreign bytes; [`Error::Mismatch`] when
            /// the state belongs to another plan, order or seed.
            pub fn restore(&mut self, state: &[u8]) -> Result<(), Error> {
                self.handle.restore(state)
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
            /// Sets another limit of one of the plan's budgets, by index, for the batches to come,
            /// in this epoch and the following ones, for when memory turns out to be scarcer than
            /// the plan knew; 0, or more than the plan's own, is the plan's own again. All ranks
            /// must set it at the same step.
            ///
            /// A step whose batches cost more becomes several steps of smaller batches: no sample
            /// is lost, the order stays, and [`batch_count`](Self::batch_count) grows. The limit
            /// is part of the [state](Self::state).
            ///
            /// ```
            #[doc = concat!("use libsab::{", stringify!($name), ", Plan, PlanOptions, SamplerOptions, Sizes};")]
            ///
            /// let plan = Plan::new(&Sizes::from_fn(1000, |i| (1 + i % 90) as f64)?, &PlanOptions::new().budget(2048.0))?;
            #[doc = concat!("let mut sampler = ", stringify!($name), "::new(&plan, &SamplerOptions::new())?;")]
            /// sampler.next();
            /// sampler.set_budget(0, 1000.0)?;
            /// assert_eq!(sampler.budget(0)?, 1000.0);
            /// for batch in sampler {
            ///     assert!(batch?.padded_total <= 1000.0);
            /// }
            /// # Ok::<(), libsab::Error>(())
            /// ```
            ///
            /// # Errors
            ///
            /// [`Error::Argument`] for a limit that is negative, not finite or at most the cost's
            /// constant, and for an index that no budget has; [`Error::Unsupported`] for a budget
            /// whose cost is a closure, and for a plan without budgets.
            pub fn set_budget(&mut self, index: usize, limit: f64) -> Result<(), Error> {
                self.handle.set_budget(index, limit)
            }

            /// The limit of one of the plan's budgets, by index, for the batches to come, in the
            /// unit of its cost.
            ///
            /// # Errors
            ///
            /// [`Error::Argument`] for an index that no budget has; [`Error::Unsupported`] for a
            /// plan without budgets.
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
/// `&mut`. What a [`MemoryGuard`](crate::memory::MemoryGuard) watches over.
pub trait PlanSampler: HoldsSampler {}

impl<S: PlanSampler> PlanSampler for &mut S {}

/// Methods of samplers without random access.
macro_rules! one_way {
    ($name:ident $(<$life:lifetime>)?) => {
        sampler!($name $(<$life>)?);

        impl $(<$life>)? Iterator for $name $(<$life>)? {
            type Item = Result<Batch, Error>;

            fn next(&mut self) -> Option<Self::Item> {
                Some(self.next_ref()?.map(BatchRef::into_owned))
            }
        }
    };
}

#[cfg(feature = "stream")]
pub(crate) use one_way;

/// The bucket order: shuffled, resumable, with random access.
///
/// Each epoch permutes the samples inside each bucket of the plan and the batches of the epoch. A
/// batch is a pure function of plan, seed, epoch and step, so that nothing is shuffled in memory,
/// seeking costs what stepping costs, and ranks need not talk to each other.
///
/// ```
/// use libsab::{BucketSampler, Plan, PlanOptions, SamplerOptions, Sizes};
///
/// let sizes = Sizes::from_fn(1000, |i| (1 + i % 90) as f64)?;
/// let plan = Plan::new(&sizes, &PlanOptions::new().budget(2048.0))?;
/// let mut sampler = BucketSampler::new(&plan, &SamplerOptions::new().seed(7))?;
/// assert_eq!(sampler.len() as u64, sampler.batch_count());
///
/// let first = sampler.next().unwrap()?;
/// let state = sampler.state();                    // store it with the checkpoint
/// let second = sampler.next().unwrap()?;
///
/// let mut resumed = BucketSampler::new(&plan, &SamplerOptions::new().seed(7))?;
/// resumed.restore(&state)?;
/// assert_eq!(resumed.next().unwrap()?, second);
/// assert_eq!(resumed.at(0)?.indices, first.indices);
/// # Ok::<(), libsab::Error>(())
/// ```
pub struct BucketSampler {
    handle: SamplerHandle<'static>,
}

impl BucketSampler {
    /// A sampler on a plan, which it keeps alive.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for options that break a rule.
    pub fn new(plan: &Plan, options: &SamplerOptions) -> Result<Self, Error> {
        Ok(BucketSampler { handle: SamplerHandle::bucket(&plan.handle, &options.raw)? })
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
/// let batches: Vec<_> = SequentialSampler::new(&plan, &SamplerOptions::new())?.collect::<Result<_, _>>()?;
/// let indices: Vec<i64> = batches.into_iter().flat_map(|batch| batch.indices).collect();
/// assert_eq!(indices, [1, 2, 0]);
/// # Ok::<(), libsab::Error>(())
/// ```
pub struct SequentialSampler {
    handle: SamplerHandle<'static>,
}

impl SequentialSampler {
    /// A sampler on a plan, which it keeps alive; seed and `costliest_first` are not used.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for options that break a rule.
    pub fn new(plan: &Plan, options: &SamplerOptions) -> Result<Self, Error> {
        Ok(SequentialSampler { handle: SamplerHandle::sequential(&plan.handle, &options.raw)? })
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
/// maximum.
///
/// A sample over the maximum alone is skipped, counted, and said on the log.
///
/// ```
/// use libsab::{SamplerOptions, BionemoSizeAwareSampler, Sizes};
///
/// let lengths = [4u32, 3, 9, 5, 2];
/// let sizes = Sizes::borrowed(&lengths)?;
/// let sampler = BionemoSizeAwareSampler::new(Some(&[4, 3, 2, 1, 0]), &sizes, 8.0, &SamplerOptions::new())?;
/// assert_eq!(sampler.skipped_count(), 1);
/// let batches: Vec<_> = sampler.map(|batch| Ok(batch?.indices)).collect::<Result<_, libsab::Error>>()?;
/// assert_eq!(batches, [vec![4, 3], vec![1, 0]]);
/// # Ok::<(), libsab::Error>(())
/// ```
pub struct BionemoSizeAwareSampler<'a> {
    handle: SamplerHandle<'a>,
}

impl<'a> BionemoSizeAwareSampler<'a> {
    /// Finds the batches in one pass; 24 bytes a batch. The indices are copied; `None` stands for
    /// 0, 1, 2, ... Borrowed sizes stay borrowed. The largest total of a batch is finite and at
    /// least 0; of the options, seed and `costliest_first` are not used.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for a maximum, an option, an index or a size that breaks a rule.
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

/// The rule of [`BionemoSizeAwareSampler`] over a source that is read as the batches are: one rank, length
/// unknown, no random access.
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
    /// let stream = BionemoSizeAwareStream::from_fn(8.0, |_epoch, position| {
    ///     let length = *lengths.get(position as usize)?;
    ///     Some((position as i64, length))
    /// })?;
    /// let batches: Vec<_> = stream.map(|batch| Ok(batch?.indices)).collect::<Result<_, libsab::Error>>()?;
    /// assert_eq!(batches, [vec![0, 1], vec![3]]);
    /// # Ok::<(), libsab::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for a maximum that breaks the rule.
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
    /// [`Error::Argument`] for a maximum that breaks the rule.
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
    /// let stream = libsab::BionemoSizeAwareStream::from_iters(8.0, |_epoch| (0..).zip(lengths))?;
    /// assert_eq!(stream.count(), 2);
    /// # Ok::<(), libsab::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for a maximum that breaks the rule.
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

one_way!(BionemoSizeAwareStream<'a>);

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
/// One rank. Each epoch goes on from the generator and the order that the epoch before left, so
/// there is no random access. Keeps 8 bytes a sample.
///
/// ```
/// use libsab::{BucketRule, Plan, PlanOptions, Sizes, BionemoOptions, BionemoSampler};
///
/// let sizes = Sizes::from_fn(25, |i| i as f64)?;
/// let options = PlanOptions::new().bucket_rule(BucketRule::Boundaries(vec![0.0, 6.0, 15.0, 25.0])).batch_size(3);
/// let mut sampler = BionemoSampler::new(&Plan::new(&sizes, &options)?, &BionemoOptions::new().seed(0))?;
/// assert_eq!(sampler.next().unwrap()?.indices, [24, 17, 16]);
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
    /// [`Error::Argument`] for another plan, or a maximum that breaks the rule.
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

one_way!(BionemoSampler<'a>);
