//! Samplers with the orders of other libraries, seed for seed.

use std::sync::Arc;

use sab_sys as sys;

pub use crate::choices::BionemoShuffle;
use crate::error::{BoxError, Error};
use crate::options::{options, setters, KeptHook};
use crate::plan::Plan;
use crate::raw::{SamplerHandle, SizeFn};
use crate::sampler::{Sampler, SamplerOptions};
use crate::sizes::Sizes;

/// Words of a Mersenne twister's state: 624 of state and, last, the number of words used since they
/// were made.
pub const BIONEMO_GENERATOR_WORDS: usize = sys::SAB_BIONEMO_GENERATOR_WORDS as usize;

options! {
/// Batches and shuffles of a [`Sampler::bionemo`]. By default seed 0, everything shuffled, the
/// plan's batch sizes.
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
        self.raw.limit = budget;
        self.size = KeptHook(Some(Arc::new(size)));
        self
    }
}

options! {
/// How [`Sampler::bagua`] and [`Sampler::bagua_batch`] balance load. By default shuffled, nothing
/// dropped, the best balance, batches of one sample.
#[derive(Copy)]
pub struct BaguaOptions: sab_bagua_options {}
}

impl BaguaOptions {
    setters! {
        /// Whether the steps come in another order each epoch, or by complexity.
        shuffle(wanted: bool) => no_shuffle = i32::from(!wanted);
        /// Whether samples (or batches) that not all ranks have are left out, instead of repeating
        /// some. Where a rank has none, the epoch has no batch, as in Bagua.
        drop_last(wanted: bool) => drop_last = i32::from(wanted);
        /// Noise added to the complexities before they are sorted, as a share of their range, from
        /// 0 to 1.
        random_level(level: f64) => random_level = level;
        /// [`Sampler::bagua`]: successive samples of a rank in a batch.
        batch_size(samples: u64) => batch_size = samples;
    }
}

impl Sampler<'static> {
    /// The order of Bagua's `LoadBalancingDistributedSampler`, seed for seed: samples sorted by
    /// complexity, successive ones for the ranks of one step, the steps shuffled. The complexities
    /// are not needed afterwards.
    ///
    /// ```
    /// use libsab::{BaguaOptions, Sampler, SamplerOptions, Sizes};
    ///
    /// let complexity = Sizes::copied(&[5u8, 1, 4, 2])?;
    /// let balancing = BaguaOptions::new().shuffle(false);
    /// let mut sampler = Sampler::bagua(&complexity, &balancing, &SamplerOptions::new().rank(1).world_size(2))?;
    /// let batches: Vec<_> = sampler.iter_mut().map(|batch| Ok(batch?.indices)).collect::<Result<_, libsab::Error>>()?;
    /// assert_eq!(batches, [[3], [0]]);
    /// # Ok::<(), libsab::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for a complexity or an option that breaks a rule.
    pub fn bagua(
        complexity: &Sizes<'_>,
        balancing: &BaguaOptions,
        options: &SamplerOptions<'_>,
    ) -> Result<Self, Error> {
        SamplerHandle::bagua(&complexity.handle, balancing, &options.raw).map(Self::over)
    }

    /// As [`Sampler::bagua_batch`], with batches that close before their complexities would sum to
    /// more than `budget`.
    pub fn bagua_batch_with_budget(
        complexity: &Sizes<'_>,
        balancing: &BaguaOptions,
        budget: f64,
        options: &SamplerOptions<'_>,
    ) -> Result<Self, Error> {
        SamplerHandle::bagua_batch_with_budget(&complexity.handle, balancing, budget, &options.raw)
            .map(Self::over)
    }
}

impl<'a> Sampler<'a> {
    /// Batches of variable size, as many on each rank, that `make_batches` makes of the samples that
    /// [`Sampler::bagua`] deals out to a rank. Ranks with fewer batches than others see their first
    /// ones again, or, with [`drop_last`](BaguaOptions::drop_last), the others leave out their last
    /// ones.
    ///
    /// The closure is called for each rank here, by [`set_epoch`](Self::set_epoch) and by
    /// [`restore`](Self::restore). It must give the same batches for the same samples.
    ///
    /// ```
    /// use libsab::{BaguaOptions, Sampler, SamplerOptions, Sizes};
    ///
    /// let complexity = Sizes::copied(&[5u8, 1, 4, 2, 3])?;
    /// let balancing = BaguaOptions::new().shuffle(false);
    /// let options = SamplerOptions::new();
    /// let mut sampler = Sampler::bagua_batch(&complexity, &balancing, &options, |samples| {
    ///     Ok(samples.chunks(2).map(<[i64]>::to_vec).collect())
    /// })?;
    /// let batches: Vec<_> = sampler.iter_mut().map(|batch| Ok(batch?.indices)).collect::<Result<_, libsab::Error>>()?;
    /// assert_eq!(batches, [vec![1, 3], vec![4, 2], vec![0]]);
    /// # Ok::<(), libsab::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for a complexity, an option or a batch that breaks a rule, and for a
    /// rank that gets no batch while others do; [`Error::Callback`] when the closure failed.
    pub fn bagua_batch(
        complexity: &Sizes<'_>,
        balancing: &BaguaOptions,
        options: &SamplerOptions<'_>,
        make_batches: impl FnMut(&[i64]) -> Result<Vec<Vec<i64>>, BoxError> + Send + 'a,
    ) -> Result<Self, Error> {
        let make_batches = Box::new(make_batches);
        SamplerHandle::bagua_batch(&complexity.handle, balancing, make_batches, &options.raw)
            .map(Self::over)
    }

    /// Greedy batches in the order of the indices: a batch closes before its total would exceed the
    /// budget. A sample over the budget alone is skipped and counted, with a log message.
    ///
    /// Finds the batches in one pass; 24 bytes a batch. The indices are copied; `None` stands for
    /// 0, 1, 2, ... Borrowed sizes stay borrowed. The budget is finite and at least 0; of the
    /// options, seed and `costliest_first` are refused.
    ///
    /// ```
    /// use libsab::{Sampler, SamplerOptions, Sizes};
    ///
    /// let lengths = [4u32, 3, 9, 5, 2];
    /// let sizes = Sizes::borrowed(&lengths)?;
    /// let order = [4, 3, 2, 1, 0];
    /// let mut sampler = Sampler::ordered(Some(&order), &sizes, 8.0, &SamplerOptions::new())?;
    /// assert_eq!(sampler.skipped_count(), 1);
    /// let batches: Vec<_> = sampler.iter_mut().map(|batch| Ok(batch?.indices)).collect::<Result<_, libsab::Error>>()?;
    /// assert_eq!(batches, [vec![4, 3], vec![1, 0]]);
    /// # Ok::<(), libsab::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for a budget, an option, an index or a size that breaks a rule, and for
    /// samples that are all over the budget.
    pub fn ordered(
        indices: Option<&[i64]>,
        sizes: &Sizes<'a>,
        budget: f64,
        options: &SamplerOptions<'_>,
    ) -> Result<Self, Error> {
        SamplerHandle::ordered(indices, &sizes.handle, budget, &options.raw).map(Self::over)
    }

    /// The rule of [`Sampler::ordered`] over a source that is read while batches are
    /// made: one rank, number of batches unknown, no random access.
    ///
    /// `source(epoch, position)` gives an index, any number, and its size, finite and at least 0;
    /// `None` at the end. The position is 0 when the epoch begins (again), then one more each time.
    /// When the closure fails, the batch under way is kept, and the next call goes on with the
    /// sample that failed. `budget` is finite and at least 0. A pass whose samples are all over the
    /// budget has no batch; see [`skipped_count`](Self::skipped_count).
    ///
    /// ```
    /// use libsab::Sampler;
    ///
    /// let lengths = [4.0, 3.0, 9.0, 5.0];
    /// let mut sampler = Sampler::bionemo_size_aware_stream(8.0, |_epoch, position| {
    ///     Ok(lengths.get(position as usize).map(|&length| (position as i64, length)))
    /// })?;
    /// let batches: Vec<_> = sampler.iter_mut().map(|batch| Ok(batch?.indices)).collect::<Result<_, libsab::Error>>()?;
    /// assert_eq!(batches, [vec![0, 1], vec![3]]);
    /// # Ok::<(), libsab::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for a budget that breaks the rule.
    pub fn bionemo_size_aware_stream(
        budget: f64,
        source: impl FnMut(u64, u64) -> Result<Option<(i64, f64)>, BoxError> + Send + 'a,
    ) -> Result<Self, Error> {
        SamplerHandle::bionemo_size_aware_stream(Box::new(source), budget).map(Self::over)
    }

    /// The order of `BucketBatchSampler` of bionemo-size-aware-batching 1.0.0, seed for seed,
    /// without torch, on a plan made with [`BucketRule::Boundaries`](crate::BucketRule::Boundaries)
    /// and [`Tail::Keep`](crate::Tail::Keep) or [`Tail::Drop`](crate::Tail::Drop).
    ///
    /// One rank. Each pass begins with the generator and the order that the previous pass left. So
    /// there is no random access, and a pass that repeats an unfinished epoch has another order.
    /// Keeps 8 bytes a sample.
    ///
    /// ```
    /// use libsab::{BionemoOptions, BucketRule, Plan, PlanOptions, Sampler, Sizes};
    ///
    /// let sizes = Sizes::from_fn(25, |i| i as f64)?;
    /// let options = PlanOptions::new().bucket_rule(BucketRule::Boundaries(vec![0.0, 6.0, 15.0, 25.0])).batch_size(3);
    /// let mut sampler = Sampler::bionemo(&Plan::new(&sizes, &options)?, &BionemoOptions::new().seed(0))?;
    /// assert_eq!(sampler.next_batch().unwrap()?.indices, [24, 17, 16]);
    /// # Ok::<(), libsab::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for another plan, or a budget that breaks the rule.
    pub fn bionemo(plan: &Plan, options: &BionemoOptions<'a>) -> Result<Self, Error> {
        SamplerHandle::bionemo(&plan.handle, options).map(Self::over)
    }

    /// The generator of [`Sampler::bionemo`], to carry on with it elsewhere.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for other samplers.
    pub fn generator(&self) -> Result<[u32; BIONEMO_GENERATOR_WORDS], Error> {
        self.handle.generator()
    }

    /// Sets the generator.
    ///
    /// # Errors
    ///
    /// As [`generator`](Self::generator), and for a number of used words, the last, over 624.
    pub fn set_generator(&mut self, words: &[u32; BIONEMO_GENERATOR_WORDS]) -> Result<(), Error> {
        self.handle.set_generator(words)
    }
}
