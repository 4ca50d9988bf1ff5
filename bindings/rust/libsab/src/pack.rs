use sab_sys as sys;

pub use crate::choices::PackMethod;
use crate::cost::Cost;
use crate::error::Error;
use crate::options::{array_setters, cost_setter, options, progress_setter, setters, Hook};
pub use crate::raw::results::PackedInfo;
use crate::raw::{ProgressFn, SamplerHandle};
use crate::sampler::{Sampler, SamplerOptions};
use crate::sizes::Sizes;

options! {
/// Capacity and method of a packing. [`capacity`](Self::capacity) must be given, or, for sizes of
/// several columns, [`capacities`](Self::capacities).
pub struct PackedOptions<'f>: sab_packed_options {
    capacities: Vec<u64>,
    length_multiples: Vec<f64>,
    row_multiples: Vec<f64>,
    balance: Option<Cost<'f>>,
    progress: Hook<ProgressFn<'f>>,
}
}

impl<'f> PackedOptions<'f> {
    setters! {
        /// Most sequences in a bin. No limit by default.
        max_sequences(sequences: u64) => max_sequences = sequences;
        /// Whether a sample longer than a bin is cut into full pieces and a remainder, which is
        /// packed as samples are; not by default.
        split(wanted: bool) => split = i32::from(wanted);
        /// [`PackMethod::Shuffled`]: samples that a bin is chosen from; 1,000.
        window(samples: u64) => window = samples;
        /// [`PackMethod::Shuffled`]: how often the end of a bin is tried; 16. Several columns:
        /// fillings of a bin, of which the best is kept; 100.
        tries(number: u64) => tries = number;
    }

    /// Tokens in a bin, 1 to 2^31 - 1.
    pub fn capacity(self, tokens: u64) -> Self {
        self.capacities([tokens])
    }

    array_setters! {
        /// Largest sum of each column in a row, 1 to 2^31 - 1, for sizes of several columns.
        ///
        /// ```
        /// use libsab::{PackedOptions, Sampler, SamplerOptions, Sizes};
        ///
        /// let (images, tokens) = (Sizes::copied(&[1u8, 2, 1, 2])?, Sizes::copied(&[5u8, 3, 5, 3])?);
        /// let sizes = Sizes::columns(&[("images", &images), ("tokens", &tokens)])?;
        /// let pack = PackedOptions::new().capacities([3, 8]);
        /// for batch in &mut Sampler::packed(&sizes, &pack, &SamplerOptions::new())? {
        ///     let batch = batch?;
        ///     assert_eq!(batch.total[..], [3.0, 8.0]);
        ///     let ends = batch.cu_seqlens.unwrap();    // of each column
        ///     assert_eq!((ends[0].last(), ends[1].last()), (Some(&3), Some(&8)));
        /// }
        /// # Ok::<(), libsab::Error>(())
        /// ```
        capacities: u64;
        /// Each sequence is rounded up to a multiple of tokens in its row, which counts in the
        /// capacity: twice the ranks of context parallelism, or 16 for FP8. It must divide the
        /// capacity. One number for all columns, or one a column; 0 for none.
        length_multiples: f64;
        /// [`Batch::padded_length`](crate::Batch::padded_length) of a row is its total, rounded up
        /// to a multiple, instead of the capacity. It must divide the capacity.
        row_multiples: f64;
    }

    /// Which bin a sequence goes into; [`PackMethod::Shuffled`].
    pub fn method(mut self, method: PackMethod) -> Self {
        self.raw.method = method.raw();
        self
    }

    /// Leaves out samples longer than a bin, which are an error by default. They are counted,
    /// listed by [`Sampler::skipped`] and logged once.
    pub fn skip_oversize(mut self) -> Self {
        self.raw.oversize = sys::SAB_OVERSIZE_SKIP;
        self
    }

    cost_setter! {
        'f,
        /// What bins of one step have in common, summed over the samples of a bin;
        /// [`Cost::quadratic`]: attention inside each sample.
        balance
    }

    progress_setter!('f);
}

impl Sampler<'static> {
    /// Bins of a fixed capacity for packed training: each batch is one row of samples laid end to
    /// end, and [`Batch::cu_seqlens`](crate::Batch::cu_seqlens) says where.
    ///
    /// Which samples share a bin is found anew when an epoch begins: here, in
    /// [`set_epoch`](Self::set_epoch), and when a state of another epoch is restored. Bins mix
    /// lengths, and samples that share one rarely do so again in the next epoch. The number of bins
    /// may differ by some between epochs. Bins of near-equal cost, the sum of squared lengths, make
    /// a step of the ranks. [`PackMethod::BestFit`] and [`PackMethod::Histogram`] decide once
    /// which lengths share a bin instead.
    ///
    /// Sizes of several columns are packed into bins that keep a capacity for each column.
    ///
    /// The sizes, whole numbers, are not needed afterwards.
    ///
    /// ```
    /// use libsab::{PackedOptions, Sampler, SamplerOptions, Sizes};
    ///
    /// let sizes = Sizes::copied(&[7u32, 3, 6, 2, 2])?;
    /// let mut sampler = Sampler::packed(&sizes, &PackedOptions::new().capacity(10), &SamplerOptions::new())?;
    /// let info = sampler.packed_info()?;
    /// assert_eq!((info.bins, info.fill), (2, 1.0));
    /// for batch in &mut sampler {
    ///     let batch = batch?;
    ///     assert_eq!(batch.cu_seqlens.unwrap()[0].len(), batch.indices.len() + 1);
    /// }
    /// # Ok::<(), libsab::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for options or sizes that break a rule, for a sample longer than a bin
    /// that is neither split nor skipped, and when no sample is left; [`Error::Cancelled`] from the
    /// progress closure.
    pub fn packed(
        sizes: &Sizes<'_>,
        pack: &PackedOptions<'_>,
        options: &SamplerOptions<'_>,
    ) -> Result<Self, Error> {
        SamplerHandle::packed(&sizes.handle, pack, &options.raw).map(Self::over)
    }
}

impl Sampler<'_> {
    /// Facts of the packing of [`Sampler::packed`]. Those of several columns and of
    /// [`PackMethod::Concat`] are of the present epoch.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for other samplers.
    pub fn packed_info(&self) -> Result<PackedInfo, Error> {
        self.handle.packed_info().map(|info| PackedInfo::of(&info))
    }
}
