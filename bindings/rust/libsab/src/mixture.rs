use std::fmt;
use std::ops::Deref;

pub use crate::choices::MixtureUnit;
use crate::error::Error;
use crate::options::{array_setters, options, setters};
pub use crate::raw::results::SourceReport;
use crate::raw::SizesHandle;
use crate::sizes::Sizes;

options! {
/// Proportions of the sources of a [`Mixture`]: [`repeats`](Self::repeats),
/// [`proportions`](Self::proportions) or [`temperature`](Self::temperature). Without any of them
/// each source has 1 repeat.
pub struct MixtureOptions: sab_mixture_options {
    repeats: Vec<f64>,
    proportions: Vec<f64>,
    epochs: Vec<u64>,
    changes: Vec<Vec<f64>>,
    all_sources: Vec<i64>,
}
}

impl MixtureOptions {
    setters! {
        /// Above 0: the share of a source is proportional to what it has of the
        /// [`unit`](Self::unit), to the power 1 / `temperature`. 1 is as it is, higher is more even.
        temperature(temperature: f64) => temperature = temperature;
        /// What proportions and temperature are of; [`MixtureUnit::Samples`].
        unit(unit: MixtureUnit) => unit = unit.raw();
        /// Of the order in which samples are chosen; 0. It does not depend on that of a sampler.
        seed(seed: u64) => seed = seed;
    }

    array_setters! {
        /// Repeats of each source: with 2 each of its samples appears twice in an epoch, with 0.3
        /// three of ten samples appear once. At least 0, not all 0.
        repeats: f64;
        /// The share of each source, at least 0. They are divided by their sum. The epoch has as
        /// much of the [`unit`](Self::unit) as all sources together.
        proportions: f64;
    }

    /// Other repeats of each source from an epoch on, which is above 0 and above that of the call
    /// before. Can be called several times.
    pub fn schedule(mut self, epoch: u64, repeats: impl Into<Vec<f64>>) -> Self {
        self.epochs.push(epoch);
        self.changes.push(repeats.into());
        self
    }

    array_setters! {
        /// The ids of the sources of all ranks, ascending, at least 0. The sizes are then those of
        /// one shard, in which a source may have no sample. Only
        /// [`Sampler::sharded`](crate::Sampler::sharded) takes such a mixture. The sources of
        /// [`Mixture::new`] have these ids.
        all_sources: i64;
    }
}

/// Several data sets (sources) in chosen proportions. Goes wherever [`Sizes`] go, as `&mixture`:
/// [`Plan::new`](crate::Plan::new), [`Sampler::packed`](crate::Sampler::packed),
/// [`Sampler::balanced`](crate::Sampler::balanced),
/// [`Sampler::sharded`](crate::Sampler::sharded). Other functions refuse it.
///
/// A sample's index is its position in the sources one after the other. In one epoch a source of n
/// samples with r repeats gives exactly round(n * r) samples, halves rounded to even, each of them
/// floor(r) or ceil(r) times. The next epoch goes on where this one stopped, so that all samples of
/// a source appear equally often, but for one time. After every batch, over all ranks together, each
/// source is within one batch of its due by size.
///
/// ```
/// use libsab::{Mixture, MixtureOptions, Plan, PlanOptions, Sampler, SamplerOptions, Sizes};
///
/// let wiki = Sizes::from_fn(1000, |i| (1 + i % 90) as f64)?;
/// let code = Sizes::from_fn(300, |i| (1 + i % 70) as f64)?;
/// let options = MixtureOptions::new().repeats([0.5, 3.0]);
/// let mixture = Mixture::new(&[("wiki", &wiki), ("code", &code)], &options)?;
/// assert_eq!(mixture.source(1007)?, (1, 7));
///
/// let plan = Plan::new(&mixture, &PlanOptions::new().budget(2048.0))?;
/// let mut sampler = Sampler::bucket(&plan, &SamplerOptions::new())?;
/// for report in sampler.report_sources(&mixture)? {
///     println!("{} samples, {:.1} %", report.samples, 100.0 * report.proportion);
///     assert!(report.deviation <= 1.0);
/// }
/// # Ok::<(), libsab::Error>(())
/// ```
pub struct Mixture<'a> {
    sizes: Sizes<'a>,
}

impl<'a> Mixture<'a> {
    /// A mixture of several data sets, each with its name: sizes with the same columns.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for options that break a rule, a source without samples, no sources or
    /// over 65,535, a name that is there twice, and more than 4,294,967,295 samples in an epoch.
    pub fn new(sources: &[(&str, &Sizes<'a>)], options: &MixtureOptions) -> Result<Self, Error> {
        let sources: Vec<_> = sources.iter().map(|&(name, each)| (name, &each.handle)).collect();
        SizesHandle::mixture(&sources, options).map(Self::over)
    }

    /// A mixture of one data set, whose samples have the id of their source, at least 0. The sources
    /// are the ids that there are, in ascending order, by which they are named.
    ///
    /// ```
    /// use libsab::{Mixture, MixtureOptions, Sizes};
    ///
    /// let sizes = Sizes::copied(&[5u8, 6, 7])?;
    /// let mixture = Mixture::flat(&sizes, &[4, 0, 4], &MixtureOptions::new().repeats([2.0, 0.5]))?;
    /// assert_eq!(mixture.counts(0)?.iter().sum::<u32>(), 3);
    /// assert_eq!(mixture.sources(0)[1].id, 4);
    /// # Ok::<(), libsab::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Mixture::new`]; also for a negative id, and where there is not one for each sample.
    pub fn flat(sizes: &Sizes<'a>, ids: &[i64], options: &MixtureOptions) -> Result<Self, Error> {
        sizes.handle.flat_mixture(ids, options).map(Self::over)
    }

    fn over(handle: SizesHandle<'a>) -> Self {
        Mixture { sizes: Sizes { handle } }
    }

    /// Number of sources.
    #[must_use]
    pub fn source_count(&self) -> usize {
        self.sizes.handle.source_count()
    }

    /// Facts of each source in an epoch.
    #[must_use]
    pub fn sources(&self, epoch: u64) -> Vec<MixtureSource> {
        (0..self.source_count()).map(|index| self.sizes.handle.source_in(index, epoch)).collect()
    }

    /// Where a sample is: the number of its source, and which of the samples of that source it is.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for an index out of range.
    pub fn source(&self, index: usize) -> Result<(usize, usize), Error> {
        self.sizes.handle.source(index)
    }

    /// How often each sample appears in an epoch.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for a mixture with [`MixtureOptions::all_sources`]; [`Error::NoMemory`].
    pub fn counts(&self, epoch: u64) -> Result<Vec<u32>, Error> {
        self.sizes.handle.mixture_counts(epoch)
    }
}

impl<'a> Deref for Mixture<'a> {
    type Target = Sizes<'a>;

    fn deref(&self) -> &Sizes<'a> {
        &self.sizes
    }
}

impl fmt::Debug for Mixture<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mixture")
            .field("len", &self.len())
            .field("sources", &self.source_count())
            .finish()
    }
}

/// A source of a [`Mixture`] in an epoch.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct MixtureSource {
    /// Its name; of [`Mixture::flat`] its id.
    pub name: String,
    /// Its id of [`Mixture::flat`], else its number.
    pub id: i64,
    /// Samples in the source.
    pub samples: u64,
    /// Its repeats in the epoch; 0 with [`MixtureOptions::all_sources`]: it depends on all shards.
    pub repeat: f64,
    /// Samples that the epoch takes from it, with repeats; 0 as `repeat`.
    pub epoch_samples: u64,
}
