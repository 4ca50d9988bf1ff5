use std::fmt;
use std::iter::FusedIterator;
use std::ops::ControlFlow;

use sab_sys as sys;

use crate::batch::{Batch, BatchRef};
use crate::error::{BoxError, Error};
use crate::raw::{self, certain, LoadBalancingParts, SamplerHandle};
use crate::sampler::{random_access, sampler, SamplerOptions, State};
use crate::sizes::Sizes;

/// How items are assigned to parts at first. Exchanges between the costliest part and cheaper ones follow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PartitionMethod {
    /// Largest differencing: the two most uneven partial partitions are joined until one is left.
    #[default]
    KarmarkarKarp,
    /// Each item, costliest first, to the part that costs least so far: faster, less even.
    LongestFirst,
}

impl PartitionMethod {
    pub(crate) fn raw(self) -> sys::sab_partition_method {
        match self {
            PartitionMethod::KarmarkarKarp => sys::SAB_PARTITION_KARMARKAR_KARP,
            PartitionMethod::LongestFirst => sys::SAB_PARTITION_LONGEST_FIRST,
        }
    }
}

/// What a [`partition`] must keep.
#[derive(Clone, Copy, Default)]
#[must_use]
pub struct PartitionOptions<'a> {
    method: PartitionMethod,
    equal_counts: bool,
    cap: Option<(&'a [f64], f64)>,
    progress: Option<&'a dyn Fn(u64, u64) -> ControlFlow<()>>,
}

impl fmt::Debug for PartitionOptions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PartitionOptions { method, equal_counts, cap, progress: _ } = self;
        f.debug_struct("PartitionOptions")
            .field("method", method)
            .field("equal_counts", equal_counts)
            .field("cap", cap)
            .finish_non_exhaustive()
    }
}

impl<'a> PartitionOptions<'a> {
    /// Karmarkar-Karp, any number of items a part, no cap.
    pub fn new() -> Self {
        Self::default()
    }

    /// How items are assigned at first; [`PartitionMethod::KarmarkarKarp`].
    pub fn method(mut self, method: PartitionMethod) -> Self {
        self.method = method;
        self
    }

    /// Whether every part gets as many items; their number must be a multiple of the parts.
    pub fn equal_counts(mut self, wanted: bool) -> Self {
        self.equal_counts = wanted;
        self
    }

    /// A hard cap: the weights (tokens, bytes) of no part sum to more than `capacity`.
    pub fn capacity(mut self, weights: &'a [f64], capacity: f64) -> Self {
        self.cap = Some((weights, capacity));
        self
    }

    /// Follows the search as `progress(done, total)` and may stop it: [`Error::Cancelled`].
    pub fn progress(mut self, progress: &'a dyn Fn(u64, u64) -> ControlFlow<()>) -> Self {
        self.progress = Some(progress);
        self
    }
}

/// Assigns items to parts so that the largest sum of costs is small: the part of each item.
///
/// ```
/// use libsab::{partition, PartitionOptions};
///
/// let part_of = partition(&[4.0, 5.0, 6.0, 7.0, 8.0], 2, &PartitionOptions::new())?;
/// assert_eq!(part_of, [0, 0, 0, 1, 1]);
/// # Ok::<(), libsab::Error>(())
/// ```
///
/// # Errors
///
/// [`Error::Argument`] for a cost or weight that is negative or not finite, and when no assignment under the capacity was found;
/// [`Error::Cancelled`] from the progress closure.
pub fn partition(
    costs: &[f64],
    parts: u64,
    options: &PartitionOptions<'_>,
) -> Result<Vec<u32>, Error> {
    let mut progress = options.progress.map(|progress| move |done, total| progress(done, total));
    let progress = progress.as_mut().map(|progress| progress as raw::Progress<'_>);
    raw::partition(costs, parts, options.method.raw(), options.equal_counts, options.cap, progress)
}

/// How a [`LoadBalancingSampler`] or [`LoadBalancingBatchSampler`] balances load.
#[derive(Clone, Copy, Debug, PartialEq)]
#[must_use]
pub struct LoadBalancingOptions {
    shuffle: bool,
    drop_last: bool,
    random_level: f64,
    batch_size: u64,
}

impl Default for LoadBalancingOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl LoadBalancingOptions {
    /// Shuffled, nothing dropped, the best balance, batches of one sample.
    pub const fn new() -> Self {
        LoadBalancingOptions { shuffle: true, drop_last: false, random_level: 0.0, batch_size: 1 }
    }

    /// Whether the steps come in another order each epoch, or by complexity.
    pub const fn shuffle(mut self, wanted: bool) -> Self {
        self.shuffle = wanted;
        self
    }

    /// Whether samples (or batches) that not all ranks have are left out, instead of repeating some.
    pub const fn drop_last(mut self, wanted: bool) -> Self {
        self.drop_last = wanted;
        self
    }

    /// Noise added to the complexities before they are sorted, as a share of their range, from 0 to 1.
    pub const fn random_level(mut self, level: f64) -> Self {
        self.random_level = level;
        self
    }

    /// [`LoadBalancingSampler`]: successive samples of a rank in a batch.
    pub const fn batch_size(mut self, samples: u64) -> Self {
        self.batch_size = samples;
        self
    }

    fn parts(&self) -> LoadBalancingParts {
        LoadBalancingParts {
            shuffle: self.shuffle,
            drop_last: self.drop_last,
            random_level: self.random_level,
            batch_size: self.batch_size,
        }
    }
}

/// The order of Bagua's `LoadBalancingDistributedSampler`, seed for seed: samples sorted by complexity, successive ones for the ranks of one
/// step, the steps shuffled.
///
/// ```
/// use libsab::{LoadBalancingOptions, LoadBalancingSampler, SamplerOptions, Sizes};
///
/// let complexity = Sizes::copied(&[5u8, 1, 4, 2])?;
/// let balancing = LoadBalancingOptions::new().shuffle(false);
/// let sampler = LoadBalancingSampler::new(&complexity, &balancing, &SamplerOptions::new().rank(1).world_size(2))?;
/// let batches: Vec<_> = sampler.map(|batch| Ok(batch?.indices)).collect::<Result<_, libsab::Error>>()?;
/// assert_eq!(batches, [[3], [0]]);
/// # Ok::<(), libsab::Error>(())
/// ```
pub struct LoadBalancingSampler {
    handle: SamplerHandle<'static>,
}

impl LoadBalancingSampler {
    /// Reads the complexities; they are not needed afterwards.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for a complexity or an option that breaks a rule.
    pub fn new(
        complexity: &Sizes<'_>,
        balancing: &LoadBalancingOptions,
        options: &SamplerOptions,
    ) -> Result<Self, Error> {
        Ok(LoadBalancingSampler {
            handle: SamplerHandle::load_balancing(
                &complexity.handle,
                &balancing.parts(),
                &options.raw(),
            )?,
        })
    }
}

random_access!(LoadBalancingSampler);

/// Batches of variable size, as many on each rank, of the samples that [`LoadBalancingSampler`] deals out to it.
///
/// Ranks with fewer batches than others see their first ones again, or, with [`drop_last`](LoadBalancingOptions::drop_last), the others leave out
/// their last ones.
pub struct LoadBalancingBatchSampler<'a> {
    handle: SamplerHandle<'a>,
}

impl<'a> LoadBalancingBatchSampler<'a> {
    /// Batches that `make_batches` makes of a rank's samples; called for each rank here, by [`set_epoch`](Self::set_epoch) and by
    /// [`restore`](Self::restore). It must give the same batches for the same samples.
    ///
    /// ```
    /// use libsab::{Error, LoadBalancingBatchSampler, LoadBalancingOptions, SamplerOptions, Sizes};
    ///
    /// let complexity = Sizes::copied(&[5u8, 1, 4, 2, 3])?;
    /// let pairs = |samples: &[i64]| Ok::<_, Error>(samples.chunks(2).map(<[i64]>::to_vec).collect());
    /// let balancing = LoadBalancingOptions::new().shuffle(false);
    /// let sampler = LoadBalancingBatchSampler::new(&complexity, &balancing, pairs, &SamplerOptions::new())?;
    /// let batches: Vec<_> = sampler.map(|batch| Ok(batch?.indices)).collect::<Result<_, Error>>()?;
    /// assert_eq!(batches, [vec![1, 3], vec![4, 2], vec![0]]);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for a complexity, an option or a batch that breaks a rule, and for a rank that gets no batch while others do;
    /// [`Error::Callback`] when the closure failed.
    pub fn new<E: Into<BoxError>>(
        complexity: &Sizes<'_>,
        balancing: &LoadBalancingOptions,
        mut make_batches: impl FnMut(&[i64]) -> Result<Vec<Vec<i64>>, E> + Send + 'a,
        options: &SamplerOptions,
    ) -> Result<Self, Error> {
        let make_batches =
            Box::new(move |samples: &[i64]| make_batches(samples).map_err(Into::into));
        let handle = SamplerHandle::load_balancing_batches(
            &complexity.handle,
            &balancing.parts(),
            make_batches,
            &options.raw(),
        )?;
        Ok(LoadBalancingBatchSampler { handle })
    }

    /// Batches that close before their complexities would sum to more than `max_total`.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for a complexity or an option that breaks a rule.
    pub fn with_max_total(
        complexity: &Sizes<'_>,
        balancing: &LoadBalancingOptions,
        max_total: f64,
        options: &SamplerOptions,
    ) -> Result<Self, Error> {
        let handle = SamplerHandle::load_balancing_max_total(
            &complexity.handle,
            &balancing.parts(),
            max_total,
            &options.raw(),
        )?;
        Ok(LoadBalancingBatchSampler { handle })
    }
}

random_access!(LoadBalancingBatchSampler<'a>);
