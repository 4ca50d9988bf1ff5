use std::fmt;

use crate::batch::BatchRef;
use crate::error::{BoxError, Error};
use crate::options::{options, progress_setter, setters, Hook};
use crate::raw::{self, certain, ProgressFn, SamplerHandle};
use crate::sampler::{random_access, sampler, SamplerOptions};
use crate::sizes::Sizes;

options! {
/// Limits of a [`partition`]. By default any number of items a part, no cap.
///
/// ```
/// use libsab::{partition, PartitionOptions};
///
/// let tokens = [4.0, 3.0, 2.0, 1.0];
/// let options = PartitionOptions::new().equal_counts(true).capacity(&tokens, 6.0);
/// assert_eq!(partition(&[16.0, 9.0, 4.0, 1.0], 2, &options)?.len(), 4);
/// # Ok::<(), libsab::Error>(())
/// ```
pub struct PartitionOptions<'f>: sab_partition_options {
    weights: Vec<(&'f [f64], f64)>,
    progress: Hook<ProgressFn<'f>>,
}
}

impl<'f> PartitionOptions<'f> {
    setters! {
        /// Whether every part gets as many items; their number must be a multiple of the parts.
        equal_counts(wanted: bool) => equal_counts = i32::from(wanted);
    }

    /// A hard cap: the weights (tokens, bytes) of no part sum to more than `capacity`. Each further
    /// call adds another weight with its capacity.
    pub fn capacity(mut self, weights: &'f [f64], capacity: f64) -> Self {
        self.weights.push((weights, capacity));
        self
    }

    progress_setter!('f);
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
/// [`Error::Argument`] for a cost or weight that is negative or not finite, and when no assignment
/// under the capacity was found; [`Error::Cancelled`] from the progress closure.
pub fn partition(
    costs: &[f64],
    parts: u64,
    options: &PartitionOptions<'_>,
) -> Result<Vec<u32>, Error> {
    raw::partition(&[costs], parts, options)
}

/// [`partition`] of items with several costs, which are all balanced: a slice for each cost.
///
/// ```
/// use libsab::{partition_by, PartitionOptions};
///
/// let (images, tokens) = ([3.0, 1.0, 3.0, 1.0], [2.0, 4.0, 2.0, 4.0]);
/// let part_of = partition_by(&[&images, &tokens], 2, &PartitionOptions::new())?;
/// assert_ne!(part_of[0], part_of[2]);
/// # Ok::<(), libsab::Error>(())
/// ```
///
/// # Errors
///
/// As [`partition`], and for costs of different length.
pub fn partition_by(
    costs: &[&[f64]],
    parts: u64,
    options: &PartitionOptions<'_>,
) -> Result<Vec<u32>, Error> {
    raw::partition(costs, parts, options)
}

options! {
/// How a [`BaguaSampler`] or [`BaguaBatchSampler`] balances load. By default
/// shuffled, nothing dropped, the best balance, batches of one sample.
///
/// ```
/// let balancing = libsab::BaguaOptions::new().shuffle(false).random_level(0.1);
/// ```
#[derive(Copy)]
pub struct BaguaOptions: sab_bagua_options {}
}

impl BaguaOptions {
    setters! {
        /// Whether the steps come in another order each epoch, or by complexity.
        shuffle(wanted: bool) => shuffle = i32::from(wanted);
        /// Whether samples (or batches) that not all ranks have are left out, instead of repeating
        /// some.
        drop_last(wanted: bool) => drop_last = i32::from(wanted);
        /// Noise added to the complexities before they are sorted, as a share of their range, from
        /// 0 to 1.
        random_level(level: f64) => random_level = level;
        /// [`BaguaSampler`]: successive samples of a rank in a batch.
        batch_size(samples: u64) => batch_size = samples;
    }
}

/// The order of Bagua's `LoadBalancingDistributedSampler`, seed for seed: samples sorted by
/// complexity, successive ones for the ranks of one step, the steps shuffled.
///
/// ```
/// use libsab::{BaguaOptions, BaguaSampler, SamplerOptions, Sizes};
///
/// let complexity = Sizes::copied(&[5u8, 1, 4, 2])?;
/// let balancing = BaguaOptions::new().shuffle(false);
/// let mut sampler = BaguaSampler::new(&complexity, &balancing, &SamplerOptions::new().rank(1).world_size(2))?;
/// let batches: Vec<_> = sampler.iter_mut().map(|batch| Ok(batch?.indices)).collect::<Result<_, libsab::Error>>()?;
/// assert_eq!(batches, [[3], [0]]);
/// # Ok::<(), libsab::Error>(())
/// ```
pub struct BaguaSampler {
    pub(crate) handle: SamplerHandle<'static>,
}

impl BaguaSampler {
    /// Reads the complexities; they are not needed afterwards.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for a complexity or an option that breaks a rule.
    pub fn new(
        complexity: &Sizes<'_>,
        balancing: &BaguaOptions,
        options: &SamplerOptions,
    ) -> Result<Self, Error> {
        Ok(BaguaSampler {
            handle: SamplerHandle::load_balancing(&complexity.handle, balancing, &options.raw)?,
        })
    }
}

random_access!(BaguaSampler);

/// Batches of variable size, as many on each rank, of the samples that [`BaguaSampler`]
/// deals out to it.
///
/// Ranks with fewer batches than others see their first ones again, or, with
/// [`drop_last`](BaguaOptions::drop_last), the others leave out their last ones.
pub struct BaguaBatchSampler<'a> {
    pub(crate) handle: SamplerHandle<'a>,
}

impl<'a> BaguaBatchSampler<'a> {
    /// Batches that `make_batches` makes of a rank's samples; called for each rank here, by
    /// [`set_epoch`](Self::set_epoch) and by [`restore`](Self::restore). It must give the same
    /// batches for the same samples.
    ///
    /// ```
    /// use libsab::{BaguaBatchSampler, BaguaOptions, SamplerOptions, Sizes};
    ///
    /// let complexity = Sizes::copied(&[5u8, 1, 4, 2, 3])?;
    /// let balancing = BaguaOptions::new().shuffle(false);
    /// let options = SamplerOptions::new();
    /// let mut sampler = BaguaBatchSampler::new(&complexity, &balancing, &options, |samples| {
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
    pub fn new(
        complexity: &Sizes<'_>,
        balancing: &BaguaOptions,
        options: &SamplerOptions,
        make_batches: impl FnMut(&[i64]) -> Result<Vec<Vec<i64>>, BoxError> + Send + 'a,
    ) -> Result<Self, Error> {
        let handle = SamplerHandle::load_balancing_batches(
            &complexity.handle,
            balancing,
            Box::new(make_batches),
            &options.raw,
        )?;
        Ok(BaguaBatchSampler { handle })
    }

    /// Batches that close before their complexities would sum to more than `budget`.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for a complexity or an option that breaks a rule.
    pub fn with_budget(
        complexity: &Sizes<'_>,
        balancing: &BaguaOptions,
        budget: f64,
        options: &SamplerOptions,
    ) -> Result<Self, Error> {
        let handle =
            SamplerHandle::bagua_with_budget(&complexity.handle, balancing, budget, &options.raw)?;
        Ok(BaguaBatchSampler { handle })
    }
}

random_access!(BaguaBatchSampler<'a>);
