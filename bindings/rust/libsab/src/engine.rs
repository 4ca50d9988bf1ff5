//! More than one machine: histograms of sizes, and where samples are in an epoch.

use std::fmt;

use crate::raw::{HistogramHandle, PackingHandle};
use crate::{Error, PackedInfo, PackedOptions, SamplerOptions, Sizes};

/// Numbers of samples by size.
///
/// Each task of an engine counts the sizes of its partition, and the histograms are merged in one
/// place. [`Plan::of_histogram`](crate::Plan::of_histogram) then makes a plan with the same buckets
/// as the plan of all sizes, and [`Packing`] packs it.
///
/// ```
/// use libsab::{Histogram, Plan, PlanOptions, SamplerOptions, Sizes};
///
/// let sizes = Sizes::copied(&[3u8, 5, 3, 8])?;
/// let mut histogram = Histogram::new()?;
/// let numbers = histogram.number(&sizes)?; // of each sample within its size
/// assert_eq!((histogram.counts(), numbers), (&[2, 1, 1][..], vec![0, 0, 1, 0]));
///
/// let plan = Plan::of_histogram(&histogram, &PlanOptions::new().budget(16.0))?;
/// let places = plan.locate(&SamplerOptions::new(), None, &[3.0, 8.0], &[1, 0], None)?;
/// assert_eq!(places.counts, [1, 1]);
/// # Ok::<(), libsab::Error>(())
/// ```
pub struct Histogram {
    pub(crate) handle: HistogramHandle,
}

impl Histogram {
    /// A histogram without samples.
    pub fn new() -> Result<Self, Error> {
        Ok(Histogram { handle: HistogramHandle::new()? })
    }

    /// Made again from [`Histogram::to_bytes`].
    ///
    /// # Errors
    ///
    /// [`Error::Format`] for bytes that are truncated, damaged or of another kind.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Error> {
        Ok(Histogram { handle: HistogramHandle::read(bytes)? })
    }

    /// The histogram as bytes. Equal histograms have equal bytes.
    pub fn to_bytes(&self) -> Result<Vec<u8>, Error> {
        self.handle.write()
    }

    /// Adds samples. Of a mixture each sample is added once, with its source.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for sizes that break a rule; [`Error::Mismatch`] for other columns or
    /// sources than those of the histogram.
    pub fn add(&mut self, sizes: &Sizes<'_>) -> Result<(), Error> {
        self.handle.add(&sizes.handle)
    }

    /// Adds samples. Gives the number of each within its size: how many samples of the same size
    /// were in the histogram before it.
    pub fn number(&mut self, sizes: &Sizes<'_>) -> Result<Vec<u64>, Error> {
        self.handle.number(&sizes.handle)
    }

    /// Adds the samples of another histogram. The order of several merges does not matter.
    pub fn merge(&mut self, other: &Histogram) -> Result<(), Error> {
        self.handle.merge(&other.handle)
    }

    /// Removes the samples of another histogram that was merged into this one.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] if `other` has more samples of a size; [`Error::Mismatch`].
    pub fn subtract(&mut self, other: &Histogram) -> Result<(), Error> {
        self.handle.subtract(&other.handle)
    }

    /// The histogram of an epoch of a mixture: how often the epoch has the samples of each entry.
    /// [`Plan::of_histogram`](crate::Plan::of_histogram) makes the plan of the epoch from it.
    ///
    /// `repeats` has those of each source, or is empty: 1 each. `seed`: of the choice of the samples
    /// that appear once more than others. It cannot be merged or written.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for a histogram of no mixture, for repeats that break a rule, and for an
    /// epoch without samples.
    pub fn epoch(&self, repeats: &[f64], epoch: u64, seed: u64) -> Result<Self, Error> {
        Ok(Histogram { handle: self.handle.epoch(repeats, epoch, seed)? })
    }

    /// Number of samples.
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.handle.info().samples
    }

    /// Sum of the sizes of the samples, over all columns.
    #[must_use]
    pub fn total(&self) -> f64 {
        self.handle.info().total
    }

    /// Equal only for equal histograms.
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        self.handle.info().fingerprint
    }

    /// The names of the columns of the sizes; `None` for a column without one.
    #[must_use]
    pub fn column_names(&self) -> Vec<Option<String>> {
        self.handle.column_names()
    }

    /// The distinct sizes, ascending; of several columns those of an entry follow each other.
    #[must_use]
    pub fn sizes(&self) -> &[f64] {
        self.handle.entries().0
    }

    /// The number of samples of each entry.
    #[must_use]
    pub fn counts(&self) -> &[u64] {
        self.handle.entries().1
    }

    /// The source of each entry; `None` if the sizes are no mixture.
    #[must_use]
    pub fn sources(&self) -> Option<&[u32]> {
        self.handle.entries().2
    }
}

impl fmt::Debug for Histogram {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let info = self.handle.info();
        formatter
            .debug_struct("Histogram")
            .field("samples", &info.samples)
            .field("entries", &info.entries)
            .finish_non_exhaustive()
    }
}

/// Which lengths share a bin, of samples that are only counted. The bins are those of
/// [`Sampler::packed`](crate::Sampler::packed) of the same sizes with the same options.
///
/// ```
/// use libsab::{Histogram, PackMethod, PackedOptions, Packing, SamplerOptions, Sizes};
///
/// let mut histogram = Histogram::new()?;
/// let numbers = histogram.number(&Sizes::copied(&[7u8, 3, 6, 2, 2])?)?;
/// let pack = PackedOptions::new().capacity(10).method(PackMethod::BestFit);
/// let packing = Packing::new(&histogram, &pack)?;
/// assert_eq!((packing.info().bins, packing.patterns().lengths), (2, &[7, 3, 6, 2][..]));
/// let places = packing.locate(&SamplerOptions::new(), &[7.0, 3.0], &numbers[..2], None)?;
/// assert_eq!(places.batches[0], places.batches[1]);
/// # Ok::<(), libsab::Error>(())
/// ```
pub struct Packing {
    handle: PackingHandle,
}

impl Packing {
    /// Packs the samples of a histogram of one column by
    /// [`BestFit`](crate::PackMethod::BestFit) or [`Histogram`](crate::PackMethod::Histogram),
    /// which must be given.
    ///
    /// # Errors
    ///
    /// As [`Sampler::packed`](crate::Sampler::packed); [`Error::Unsupported`] for another
    /// method, for several columns and for a mixture.
    pub fn new(histogram: &Histogram, pack: &PackedOptions<'_>) -> Result<Self, Error> {
        Ok(Packing { handle: PackingHandle::new(&histogram.handle, pack)? })
    }

    /// Facts of the packing: those of the sampler of the same sizes, except the fingerprint.
    #[must_use]
    pub fn info(&self) -> PackedInfo {
        PackedInfo::of(&self.handle.info())
    }

    /// The bin patterns, in descending order of the cost of a bin.
    #[must_use]
    pub fn patterns(&self) -> BinPatterns<'_> {
        self.handle.patterns()
    }

    /// Tells where samples are in an epoch: the inverse of
    /// [`Sampler::packed`](crate::Sampler::packed) with these options. As
    /// [`Plan::locate`](crate::Plan::locate), with a bin in the place of a batch.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for arrays of other lengths, and for a sample that the packing does not
    /// have; [`Error::Unsupported`] if samples are split.
    pub fn locate(
        &self,
        options: &SamplerOptions<'_>,
        sizes: &[f64],
        numbers: &[u64],
        which: Option<&[u64]>,
    ) -> Result<Places, Error> {
        self.handle.locate(&options.raw, sizes, numbers, which)
    }
}

impl fmt::Debug for Packing {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Packing").field("info", &self.info()).finish_non_exhaustive()
    }
}

/// Bins that hold the same lengths. Pattern `i` has the parts from `begins[i]` to `begins[i + 1]`,
/// the latter excluded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BinPatterns<'p> {
    /// Number of bins of each pattern.
    pub bins: &'p [u64],
    /// The first part of each pattern; one more at the end: the number of parts.
    pub begins: &'p [u64],
    /// Length of the sequences of each part.
    pub lengths: &'p [u32],
    /// Number of the sequences of each part in each bin.
    pub sequences: &'p [u32],
}

/// Where samples are in an epoch, with one number a sample. A sample without a place has -1 in all
/// arrays but `counts`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Places {
    /// Places of the sample in the epoch: 0 if it is left out, more than 1 if a tail or a last step
    /// that wraps repeats it.
    pub counts: Vec<i64>,
    /// The rank that takes the batch.
    pub ranks: Vec<i64>,
    /// Position of the batch among those of the rank.
    pub batches: Vec<i64>,
    /// Step of the optimizer.
    pub steps: Vec<i64>,
    /// Place of the sample in the batch.
    pub slots: Vec<i64>,
    /// Batches that each rank takes in the epoch.
    pub batch_count: u64,
}
