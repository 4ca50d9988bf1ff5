use std::fmt;
use std::iter::FusedIterator;
use std::ops::ControlFlow;

use sab_sys as sys;

use crate::batch::{Batch, BatchRef};
use crate::error::Error;
use crate::raw::{certain, default_pack_options, PackParts, SamplerHandle};
use crate::sampler::{random_access, sampler, SamplerOptions, State};
use crate::sizes::Sizes;

/// Which bin a sequence goes into.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PackMethod {
    /// Longest first, each into the fullest bin that has room for it: best-fit decreasing, the fewest bins.
    #[default]
    BestFit,
    /// Longest first, each into the emptiest bin that has room for it: shortest-pack-first histogram packing, which spreads lengths more
    /// evenly over the bins and needs fewer of them where [`PackOptions::max_sequences`] binds.
    Histogram,
    /// In the order of the indices, each into the oldest of the open bins that has room for it, so many open at once: online.
    FirstFit {
        /// Bins open at once, 1 to 1,048,576; where one more is needed the oldest closes.
        window: u64,
    },
}

/// How to pack.
///
/// ```
/// use libsab::{PackMethod, PackOptions};
///
/// let options = PackOptions::new(2048).method(PackMethod::Histogram).max_sequences(16);
/// ```
#[must_use]
pub struct PackOptions<'f> {
    parts: PackParts<'f>,
}

impl fmt::Debug for PackOptions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PackOptions").field("options", &self.parts.options).finish_non_exhaustive()
    }
}

impl<'f> PackOptions<'f> {
    /// Bins of so many tokens, 1 to 2^31 - 1; everything else as the methods below say.
    pub fn new(capacity: u64) -> Self {
        let mut options = default_pack_options();
        options.capacity = capacity;
        PackOptions { parts: PackParts { options, progress: None } }
    }

    /// Which bin a sequence goes into; [`PackMethod::BestFit`].
    pub fn method(mut self, method: PackMethod) -> Self {
        let options = &mut self.parts.options;
        options.method = match method {
            PackMethod::BestFit => sys::SAB_PACK_BEST_FIT,
            PackMethod::Histogram => sys::SAB_PACK_HISTOGRAM,
            PackMethod::FirstFit { window } => {
                options.window = window;
                sys::SAB_PACK_FIRST_FIT
            }
        };
        self
    }

    /// No bin has more sequences.
    pub fn max_sequences(mut self, sequences: u64) -> Self {
        self.parts.options.max_sequences = sequences;
        self
    }

    /// Whether a sample longer than a bin is cut into full pieces and a remainder, which is packed as samples are; not by default.
    pub fn split(mut self, wanted: bool) -> Self {
        self.parts.options.split = i32::from(wanted);
        self
    }

    /// Leaves out samples longer than a bin, which are an error by default: they are counted, listed by [`PackedSampler::skipped`] and
    /// said once on the log.
    pub fn skip_oversize(mut self) -> Self {
        self.parts.options.oversize = sys::SAB_OVERSIZE_SKIP;
        self
    }

    /// Follows the packing as `progress(done, total)` and may stop it: [`Error::Cancelled`].
    pub fn progress(mut self, progress: impl FnMut(u64, u64) -> ControlFlow<()> + 'f) -> Self {
        self.parts.progress = Some(Box::new(progress));
        self
    }
}

/// Bins of a fixed capacity for packed training: each batch is one row of samples laid end to end, and [`Batch::cu_seqlens`] says where.
///
/// Which lengths share a bin is decided once. Each epoch deals the samples of equal length out to the bins anew and permutes the bins, so
/// that bin mates change while every bin stays exactly as full. Bins of near-equal cost, the sum of squared lengths, make a step of the
/// ranks.
///
/// ```
/// use libsab::{PackOptions, PackedSampler, SamplerOptions, Sizes};
///
/// let sizes = Sizes::copied(&[7u32, 3, 6, 2, 2])?;
/// let mut sampler = PackedSampler::new(&sizes, PackOptions::new(10), &SamplerOptions::new())?;
/// assert_eq!((sampler.info().bins, sampler.info().fill), (2, 1.0));
/// for batch in &mut sampler {
///     let batch = batch?;
///     assert_eq!(batch.cu_seqlens.unwrap().len(), batch.indices.len() + 1);
/// }
/// # Ok::<(), libsab::Error>(())
/// ```
pub struct PackedSampler {
    handle: SamplerHandle<'static>,
}

impl PackedSampler {
    /// Packs, in about the time of sorting the sizes by counting. The sizes, whole numbers, are not needed afterwards.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for options or sizes that break a rule, for a sample longer than a bin that is neither split nor skipped, and
    /// when no sample is left; [`Error::Cancelled`] from the progress closure.
    pub fn new(
        sizes: &Sizes<'_>,
        pack: PackOptions<'_>,
        options: &SamplerOptions,
    ) -> Result<Self, Error> {
        Ok(PackedSampler {
            handle: SamplerHandle::packed(&sizes.handle, pack.parts, &options.raw())?,
        })
    }

    /// Facts of the packing that no order changes.
    pub fn info(&self) -> PackInfo {
        let info = certain(self.handle.pack_info());
        PackInfo {
            samples: info.samples,
            skipped: info.skipped,
            split: info.split,
            sequences: info.sequences,
            bins: info.bins,
            lower_bound: info.lower_bound,
            most_sequences: info.most_sequences,
            fingerprint: info.fingerprint,
            total: info.total,
            fill: info.fill,
        }
    }

    /// The samples that were left out, by ascending size.
    pub fn skipped(&self) -> Vec<i64> {
        certain(self.handle.pack_skipped())
    }
}

random_access!(PackedSampler);

/// Facts of a packing that no order changes.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct PackInfo {
    /// Samples in the sizes.
    pub samples: u64,
    /// Of them, left out because they are longer than a bin.
    pub skipped: u64,
    /// Of them, cut into pieces.
    pub split: u64,
    /// Samples and pieces in the bins.
    pub sequences: u64,
    /// Bins an epoch on one rank.
    pub bins: u64,
    /// No packing of these lengths has fewer bins.
    pub lower_bound: u64,
    /// Most sequences in a bin.
    pub most_sequences: u64,
    /// Equal only for equal packings: compare it between ranks and runs.
    pub fingerprint: u64,
    /// Tokens in the bins.
    pub total: f64,
    /// Share of the bins' room that is filled.
    pub fill: f64,
}
