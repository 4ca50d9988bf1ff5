//! Memory of devices: measured, modelled, and guarded while training.
//!
//! A [`Probe`] reads the memory of a device: of LibTorch (`"cuda:0"`, `"cpu"`), of the process
//! (`"host"`), or of the caller's own [`Device`]. [`Peaks`] are measured on batches of known shape,
//! a [`MemoryModel`] is fitted to them, and is the [`Cost`] of a plan whose budget is in bytes.
//! [`find_max_batch`] finds the largest batch of one shape. [`step_in_chunks`] and [`MemoryGuard`]
//! retry a step that runs out of memory in smaller parts.
//!
//! ```
//! use libsab::memory::{measurement_points, MeasurementOptions, MemoryModel, ModelOptions, Peaks, CollectOptions, Probe};
//! use libsab::{Budget, Plan, PlanOptions, Sampler, SamplerOptions, Sizes};
//!
#![doc = include_str!("memory/toy.txt")]
//! # let toy = Toy::new(1_000_000);
//! let mut probe = Probe::from_device(&toy);
//! let points = measurement_points(&MeasurementOptions::new().lengths(4.0, 90.0).max_count(1000),
//! 12)?; let mut peaks = Peaks::new()?; peaks.collect(&mut probe, &points, &CollectOptions::new(),
//! |&(count, length)| { // a training step on a batch of that shape
//! #   toy.step(5_000 + 20 * count * length[0] as u64)?;
//!     Ok(vec![count as f64, length[0]])
//! })?;
//! let model = MemoryModel::from_peaks(&peaks, &ModelOptions::default())?;
//!
//! let sizes = Sizes::from_fn(1000, |i| (4 + i % 87) as f64)?;
//! let plan = Plan::new(&sizes, &PlanOptions::new().budget(Budget::new(1e6).cost(model.cost()?)))?;
//! for batch in &mut Sampler::bucket(&plan, &SamplerOptions::new())? {
//!     let batch = batch?;
//!     assert!(5_000.0 + 20.0 * batch.padded_total() < 1e6 * (1.0 + 1e-6));
//! }
//! # Ok::<(), libsab::Error>(())
//! ```

use std::cell::RefCell;
use std::fmt;
use std::path::Path;
use std::rc::Rc;

use sab_sys as sys;

use crate::batch::Batch;
pub use crate::choices::{ModelKind, Search};
use crate::columns::PerColumn;
use crate::cost::{Budget, Cost};
use crate::error::{BoxError, Error};
use crate::options::{array_setters, options, progress_setter, setters, Hook};
pub use crate::raw::results::{GuardInfo, ProbeStats, Verification};
use crate::raw::{
    self, known, signed_bytes, GuardHandle, HookFn, ModelHandle, PeaksHandle, ProbeHandle,
    ProgressFn, ReduceFn,
};
use crate::sampler::Sampler;

// ---- devices ------------------------------------------------------------------------------------

/// A device that reports its memory, in bytes.
///
/// The functions take `&self`, since the measured work uses the device too.
///
/// ```
/// use libsab::memory::{Device, Probe};
/// use libsab::BoxError;
///
/// struct Arena;
///
/// impl Device for Arena {
///     fn reset(&self) -> Result<(), BoxError> {
///         Ok(())
///     }
///     fn current(&self) -> Result<u64, BoxError> {
///         Ok(1 << 20)
///     }
///     fn peak(&self) -> Result<u64, BoxError> {
///         Ok(3 << 20)
///     }
/// }
///
/// assert_eq!(Probe::from_device(&Arena).stats()?.peak, 3 << 20);
/// # Ok::<(), libsab::Error>(())
/// ```
pub trait Device {
    /// Sets the peak to the memory in use now.
    fn reset(&self) -> Result<(), BoxError>;
    /// Memory in use now.
    fn current(&self) -> Result<u64, BoxError>;
    /// Most memory in use since the last reset.
    fn peak(&self) -> Result<u64, BoxError>;
    /// Most memory reserved by the allocator since the last reset, and its largest free block, if
    /// it reports them.
    fn reserved(&self) -> Result<(Option<u64>, Option<u64>), BoxError> {
        Ok((None, None))
    }
    /// Total memory, if it is known.
    fn total(&self) -> Result<Option<u64>, BoxError> {
        Ok(None)
    }
    /// Returns cached blocks to the device.
    fn release_cache(&self) -> Result<(), BoxError> {
        Ok(())
    }
    /// Saves the state of the random generators under this number; a later save under it replaces
    /// it.
    fn save_rng(&self, depth: u64) -> Result<(), BoxError> {
        let _ = depth;
        Ok(())
    }
    /// Restores the state that was saved under this number.
    fn restore_rng(&self, depth: u64) -> Result<(), BoxError> {
        let _ = depth;
        Ok(())
    }
}

/// Why a step failed. An out-of-memory error is handled by the call, any other error ends it.
///
/// In a closure of steps, `?` turns any error into `Other`:
///
/// ```
/// use libsab::memory::StepError;
///
/// let step = |text: &str| -> Result<u32, StepError> { Ok(text.parse()?) };
/// assert!(matches!(step("x"), Err(StepError::Other(_))));
/// ```
#[derive(Debug)]
pub enum StepError {
    /// The memory of the device did not suffice.
    OutOfMemory,
    /// The step's own error, which comes back as [`Error::Callback`].
    Other(BoxError),
}

/// `StepError` is no [`Error`](std::error::Error) itself, so that this is unambiguous.
impl<E: std::error::Error + Send + Sync + 'static> From<E> for StepError {
    fn from(error: E) -> Self {
        StepError::Other(error.into())
    }
}

/// Reads the memory of a device. It cannot leave the thread that made it.
///
/// ```
/// let probe = libsab::memory::Probe::new("host")?;
/// println!("{} bytes resident", probe.stats()?.current);
/// # Ok::<(), libsab::Error>(())
/// ```
pub struct Probe<'d> {
    pub(crate) handle: Rc<ProbeHandle<'d>>,
}

impl fmt::Debug for Probe<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Probe").finish_non_exhaustive()
    }
}

impl Probe<'static> {
    /// A probe of `"host"` (resident memory of this process), `"cpu"` (CPU tensors of LibTorch,
    /// exact) or `"cuda:N"`; all but the first need [`torch::open`](crate::torch::open). Probes of
    /// `"cpu"` must be dropped in reverse order of making.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for a device that is not there, [`Error::Unsupported`] for one that
    /// needs LibTorch.
    pub fn new(device: &str) -> Result<Self, Error> {
        Ok(Probe { handle: Rc::new(ProbeHandle::open(device, 0)?) })
    }

    /// As [`Probe::new`], on a device that is emulated to have `total_bytes` only: allocations
    /// beyond raise LibTorch's out-of-memory error.
    ///
    /// # Errors
    ///
    /// Also [`Error::Unsupported`] for a device whose memory cannot be limited.
    pub fn with_total(device: &str, total_bytes: u64) -> Result<Self, Error> {
        Ok(Probe { handle: Rc::new(ProbeHandle::open(device, total_bytes)?) })
    }
}

impl<'d> Probe<'d> {
    /// A probe of the caller's own device.
    pub fn from_device(device: &'d (dyn Device + 'd)) -> Self {
        Probe { handle: Rc::new(raw::certain(ProbeHandle::of_device(device))) }
    }

    /// Lets the peak begin again at what is held now.
    ///
    /// # Errors
    ///
    /// [`Error::Callback`] from the device.
    pub fn reset(&mut self) -> Result<(), Error> {
        self.handle.reset()
    }

    /// Reads what the probe sees.
    ///
    /// # Errors
    ///
    /// [`Error::Callback`] from the device.
    pub fn stats(&self) -> Result<ProbeStats, Error> {
        Ok(ProbeStats::of(&self.handle.read()?))
    }

    /// Gives cached blocks back to the device.
    ///
    /// # Errors
    ///
    /// [`Error::Callback`] from the device.
    pub fn release_cache(&mut self) -> Result<(), Error> {
        self.handle.release_cache()
    }
}

// ---- peaks --------------------------------------------------------------------------------------

/// The setter of a closure without arguments.
macro_rules! hook_setter {
    ($life:lifetime, $(#[$meta:meta])* $name:ident) => {
        $(#[$meta])*
        pub fn $name(mut self, function: impl FnMut() -> Result<(), BoxError> + $life) -> Self {
            self.$name = Hook::of(Rc::new(RefCell::new(function)));
            self
        }
    };
}

/// The setter of a closure that reduces numbers over ranks.
macro_rules! reduce_setter {
    ($life:lifetime, $(#[$meta:meta])*) => {
        $(#[$meta])*
        pub fn reduce(
            mut self,
            function: impl FnMut(&mut [i64]) -> Result<(), BoxError> + $life,
        ) -> Self {
            self.reduce = Hook::of(Rc::new(RefCell::new(function)));
            self
        }
    };
}

options! {
/// Work around each item of [`Peaks::collect`]. By default only the cache of the device is
/// released.
pub struct CollectOptions<'f>: sab_collect_peak_options {
    cleanup: Hook<HookFn<'f>>,
    collect_garbage: Hook<HookFn<'f>>,
    progress: Hook<ProgressFn<'f>>,
}
}

impl<'f> CollectOptions<'f> {
    setters! {
        /// The first so many items are run but not recorded.
        warm_up(items: u64) => warm_up = items;
        /// Whether the cache of the device is released between items; true.
        release_cache(wanted: bool) => keep_cache = i32::from(!wanted);
    }

    hook_setter! {
        'f,
        /// Called after each item, also after one that failed, to drop what the work holds.
        cleanup
    }
    hook_setter! {
        'f,
        /// Called after the cleanup.
        collect_garbage
    }
    progress_setter!('f);
}

/// One measurement of [`Peaks`], in bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Peak<'p> {
    /// Number of the item, from 0.
    pub item: u64,
    /// Its features.
    pub features: &'p [f64],
    /// Memory in use before it.
    pub before: u64,
    /// Its peak.
    pub peak: u64,
    /// Most memory reserved by the allocator, if it reports that.
    pub reserved_peak: Option<u64>,
    /// The allocator's largest free block afterwards, if it reports that.
    pub largest_free: Option<u64>,
}

/// Measured peaks, one row an item.
///
/// ```
/// use libsab::memory::{CollectOptions, Peaks, Probe};
///
/// let mut peaks = Peaks::new()?;
/// peaks.collect(&mut Probe::new("host")?, [1.0, 2.0], &CollectOptions::new(), |count| {
///     // a training step on so many samples
///     Ok(vec![count])
/// })?;
/// assert_eq!(peaks.get(1).unwrap().features, [2.0]);
/// # Ok::<(), libsab::Error>(())
/// ```
pub struct Peaks {
    handle: PeaksHandle,
}

impl fmt::Debug for Peaks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peaks")
            .field("rows", &self.iter().collect::<Vec<_>>())
            .field("out_of_memory", &self.out_of_memory())
            .finish()
    }
}

impl Peaks {
    /// No measurements.
    pub fn new() -> Result<Self, Error> {
        Ok(Peaks { handle: PeaksHandle::new()? })
    }

    /// Runs the work on each item and adds its peak and the features that the work returns: at most
    /// 64 finite numbers, as many for each item. Items that run out of memory are listed and
    /// skipped. Rows measured before a failure stay.
    ///
    /// # Errors
    ///
    /// [`Error::Callback`] from a closure or the device; [`Error::Argument`] for features that
    /// break a rule; [`Error::Cancelled`].
    pub fn collect<T>(
        &mut self,
        probe: &mut Probe<'_>,
        items: impl IntoIterator<Item = T>,
        options: &CollectOptions<'_>,
        mut work: impl FnMut(T) -> Result<Vec<f64>, StepError>,
    ) -> Result<(), Error> {
        let mut items = items.into_iter();
        let item_count = match items.size_hint() {
            (least, Some(most)) if least == most => Some(least as u64),
            _ => None,
        };
        let mut work = |_item| items.next().map(&mut work);
        self.handle.collect(&probe.handle, item_count, &mut work, options)
    }

    /// Number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.handle.columns().peaks.len()
    }

    /// Whether there are no rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A row; `None` for a position out of range.
    #[must_use]
    pub fn get(&self, row: usize) -> Option<Peak<'_>> {
        let columns = self.handle.columns();
        Some(Peak {
            item: *columns.items.get(row)?,
            features: &columns.features[row * columns.feature_count..][..columns.feature_count],
            before: known(columns.before[row]).unwrap_or(0),
            peak: known(columns.peaks[row]).unwrap_or(0),
            reserved_peak: known(columns.reserved_peaks[row]),
            largest_free: known(columns.largest_free[row]),
        })
    }

    /// The rows, in the order of the items.
    pub fn iter(&self) -> impl Iterator<Item = Peak<'_>> + '_ {
        (0..self.len()).filter_map(|row| self.get(row))
    }

    /// Numbers of the items that ran out of memory.
    #[must_use]
    pub fn out_of_memory(&self) -> &[u64] {
        self.handle.columns().out_of_memory
    }
}

options! {
/// Range of the measurements for a model of batches. [`lengths`](Self::lengths), or
/// [`shortest`](Self::shortest) and [`longest`](Self::longest), and
/// [`max_count`](Self::max_count) must be given.
///
/// ```
/// use libsab::memory::{measurement_points, MeasurementOptions};
///
/// let options = MeasurementOptions::new().lengths(4.0, 90.0).max_count(1000);
/// assert_eq!(measurement_points(&options, 12)?.len(), 12);
///
/// let pairs = MeasurementOptions::new().shortest([4.0, 4.0]).longest([90.0, 60.0]).max_count(64);
/// let (count, lengths) = measurement_points(&pairs, 24)?[0];
/// assert_eq!((count, &lengths[..]), (1, &[4.0, 4.0][..]));
/// # Ok::<(), libsab::Error>(())
/// ```
pub struct MeasurementOptions<'f>: sab_measurement_options {
    shortest: Vec<f64>,
    longest: Vec<f64>,
    budget: Option<Budget<'f>>,
}
}

impl<'f> MeasurementOptions<'f> {
    setters! {
        /// Most samples in a batch.
        max_count(samples: u64) => max_count = samples;
        /// Degree of the model: 1 or 2; 2.
        degree(degree: u32) => degree = degree;
    }

    /// Shortest and longest padded length of samples with one size.
    pub fn lengths(self, shortest: f64, longest: f64) -> Self {
        self.shortest([shortest]).longest([longest])
    }

    array_setters! {
        /// Smallest padded length of each column; 0 is allowed for several columns.
        shortest: f64;
        /// Largest padded length of each column.
        longest: f64;
    }

    /// A number: no point has a larger count * length (for several columns the sum of the lengths),
    /// so that none runs out of memory; 4 * longest by default. A [`Budget`] with a cost, such as that of a first model: only points that cost
    /// from a third to nine tenths of its limit, near the batches of that budget.
    pub fn budget(mut self, budget: impl Into<Budget<'f>>) -> Self {
        self.budget = Some(budget.into());
        self
    }
}

/// Picks the (count, length of each column) whose measurements say most about a model of batches, in
/// ascending order of count * length. Twice as many as terms leave enough to judge the model by: for
/// degree 2 these are 12 points for one column, 24 for two.
///
/// # Errors
///
/// [`Error::Argument`] for a range that cannot be, or that has fewer points; [`Error::Callback`]
/// from the closure of the budget's cost.
pub fn measurement_points(
    options: &MeasurementOptions<'_>,
    points: usize,
) -> Result<Vec<(u64, PerColumn<f64>)>, Error> {
    raw::measurement_points(options, points)
}

// ---- the model ----------------------------------------------------------------------------------

options! {
/// Terms and coverage of a model.
pub struct ModelOptions: sab_memory_model_options {
    column_names: Vec<String>,
}
}

impl ModelOptions {
    setters! {
        /// The terms of the model; [`ModelKind::Batch`].
        kind(kind: ModelKind) => kind = kind.raw();
        /// 1 or 2; 2.
        degree(degree: u32) => degree = degree;
        /// Share of unseen batches that should stay under the upper prediction; 0.95.
        coverage(share: f64) => coverage = share;
        /// Whether terms that do not improve the prediction are left out; true.
        select_terms(wanted: bool) => keep_terms = i32::from(!wanted);
    }

    /// Names of the sizes, one for each length; by default none. A plan refuses the cost of a model
    /// for sizes with other names.
    pub fn column_names(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.column_names = names.into_iter().map(Into::into).collect();
        self
    }
}

/// Facts of a model.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct ModelInfo {
    /// The terms it is made of.
    pub kind: ModelKind,
    /// 1 or 2.
    pub degree: u32,
    /// Numbers that describe a batch.
    pub feature_count: usize,
    /// Terms that were kept.
    pub term_count: usize,
    /// It was fitted to so many.
    pub measurements: u64,
    /// Predicted for a batch of nothing, in bytes.
    pub constant: f64,
    /// The upper prediction lies this share above the prediction.
    pub margin: f64,
    /// Share of unseen batches that stay under the upper prediction.
    pub coverage: f64,
    /// Root mean square of the relative residuals.
    pub residual: f64,
    /// The same of measurements that were held out.
    pub held_out_residual: f64,
    /// Largest relative residual.
    pub largest_residual: f64,
}

/// Predicts the peak of a batch. Immutable, shareable between threads.
///
/// ```
/// use libsab::memory::{MemoryModel, ModelKind, ModelOptions};
///
/// let options = ModelOptions::new().kind(ModelKind::Polynomial).degree(1);
/// let model = MemoryModel::fit(&[1.0, 2.0, 3.0, 4.0], 1, &[15.0, 25.0, 35.0, 45.0], &options)?;
/// assert!((model.predict(&[8.0])?[0] - 85.0).abs() < 1e-6);
/// # Ok::<(), libsab::Error>(())
/// ```
pub struct MemoryModel {
    pub(crate) handle: ModelHandle,
}

impl fmt::Debug for MemoryModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryModel")
            .field("info", &self.info())
            .field("terms", &self.terms())
            .finish()
    }
}

impl MemoryModel {
    /// Fits a model to peaks in bytes and their features, `feature_count` numbers each: for
    /// [`ModelKind::Batch`] count, then the padded length of each column.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for too few measurements, or some that do not determine all terms: the
    /// message says what to measure next.
    pub fn fit(
        features: &[f64],
        feature_count: usize,
        peaks: &[f64],
        options: &ModelOptions,
    ) -> Result<Self, Error> {
        Ok(MemoryModel { handle: ModelHandle::fit(features, feature_count, peaks, options)? })
    }

    /// Fits a model to what was measured.
    pub fn from_peaks(peaks: &Peaks, options: &ModelOptions) -> Result<Self, Error> {
        let columns = peaks.handle.columns();
        let bytes: Vec<f64> = columns.peaks.iter().map(|&peak| peak as f64).collect();
        Self::fit(columns.features, columns.feature_count, &bytes, options)
    }

    /// Expected peaks of rows of features, in bytes.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for a number of features that is no multiple of the model's, or that is
    /// not finite.
    pub fn predict(&self, features: &[f64]) -> Result<Vec<f64>, Error> {
        Ok(self.handle.predict(features, self.info().feature_count)?.0)
    }

    /// Peaks with the margin: the stated share of batches stays under them.
    pub fn predict_upper(&self, features: &[f64]) -> Result<Vec<f64>, Error> {
        Ok(self.handle.predict(features, self.info().feature_count)?.1)
    }

    /// The upper prediction as the cost of a plan; the budget is in bytes.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for a model of other features than a count and lengths, or one that
    /// falls.
    pub fn cost<'f>(&self) -> Result<Cost<'f>, Error> {
        self.handle.cost().map(Cost::of_handle)
    }

    /// Facts of the model.
    #[must_use]
    pub fn info(&self) -> ModelInfo {
        let info = self.handle.info();
        ModelInfo {
            kind: if info.kind == sys::SAB_MODEL_BATCH {
                ModelKind::Batch
            } else {
                ModelKind::Polynomial
            },
            degree: info.degree,
            feature_count: info.feature_count,
            term_count: info.term_count,
            measurements: info.measurements,
            constant: info.constant,
            margin: info.margin,
            coverage: info.coverage,
            residual: info.residual,
            held_out_residual: info.held_out_residual,
            largest_residual: info.largest_residual,
        }
    }

    /// The name of each column of a model of batches, as given by [`ModelOptions::column_names`].
    #[must_use]
    pub fn column_names(&self) -> Vec<Option<String>> {
        let info = self.info();
        let columns = if info.kind == ModelKind::Batch { info.feature_count - 1 } else { 0 };
        self.handle.column_names(columns)
    }

    /// Coefficient, and power of each feature, of each term.
    #[must_use]
    pub fn terms(&self) -> Vec<(f64, Vec<u32>)> {
        self.handle.terms()
    }

    /// Writes the model to a file, which is replaced in one step.
    ///
    /// # Errors
    ///
    /// [`Error::Io`].
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        self.handle.save(path.as_ref())
    }

    /// Reads a file of [`MemoryModel::save`].
    ///
    /// # Errors
    ///
    /// [`Error::Io`], [`Error::Format`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        Ok(MemoryModel { handle: ModelHandle::open(path.as_ref())? })
    }

    /// The model's file image.
    pub fn to_bytes(&self) -> Result<Vec<u8>, Error> {
        self.handle.write()
    }

    /// A model from [`MemoryModel::to_bytes`].
    ///
    /// # Errors
    ///
    /// [`Error::Format`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Error> {
        Ok(MemoryModel { handle: ModelHandle::read(bytes)? })
    }
}

// ---- the largest batch --------------------------------------------------------------------------

/// Rounding of a batch size, downwards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rounding {
    /// Not at all.
    #[default]
    None,
    /// To a power of two.
    PowerOfTwo,
    /// To a multiple of this, where at least one fits.
    Multiple(u64),
}

options! {
/// Search, limits and rounding of [`find_max_batch`]. By default by prediction, for one length, up
/// to 100,000 samples, within the total of the device.
pub struct MaxBatchOptions<'f>: sab_max_batch_options {
    lengths: Vec<f64>,
    reduce: Hook<ReduceFn<'f>>,
    progress: Hook<ProgressFn<'f>>,
}
}

impl<'f> MaxBatchOptions<'f> {
    setters! {
        /// The search; [`Search::Predict`].
        search(search: Search) => search = search.raw();
        /// Most samples in a batch; 100,000.
        max_batch_size(samples: u64) => max_batch_size = samples;
        /// Largest peak, in bytes; by default the total of the device.
        budget(bytes: u64) => limit = signed_bytes(bytes);
    }

    array_setters! {
        /// Finds a batch size for each of these padded lengths; the longest is tried first.
        lengths: f64;
    }

    /// Rounding of batch sizes; [`Rounding::None`].
    pub fn rounding(mut self, rounding: Rounding) -> Self {
        (self.raw.rounding, self.raw.multiple) = match rounding {
            Rounding::None => (sys::SAB_ROUND_NONE, 0),
            Rounding::PowerOfTwo => (sys::SAB_ROUND_POWER_OF_TWO, 0),
            Rounding::Multiple(multiple) => (sys::SAB_ROUND_MULTIPLE, multiple),
        };
        self
    }

    reduce_setter! {
        'f,
        /// With several ranks: replaces each number by the minimum over the ranks. Called the same
        /// number of times on all of them.
    }
    progress_setter!('f);
}

/// Result of [`find_max_batch`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct MaxBatch {
    /// The largest for the longest length.
    pub batch_size: u64,
    /// The largest for each length.
    pub batch_sizes: Vec<u64>,
    /// Steps run.
    pub trials: u64,
    /// Of them, how many ran out.
    pub out_of_memory: u64,
    /// Peak of the largest batch for the longest length, in bytes.
    pub peak: f64,
    /// Largest peak that was allowed, in bytes.
    pub budget: u64,
}

/// Finds the largest batch whose step, `trial(count, length)`, fits. The random generators are as
/// before when it returns.
///
/// ```
/// # use libsab::memory::{find_max_batch, MaxBatchOptions, Probe};
#[doc = include_str!("memory/toy.txt")]
/// # let toy = Toy::new(100_000);
/// let mut probe = Probe::from_device(&toy);
/// let found = find_max_batch(&mut probe, &MaxBatchOptions::new(), |count, _| {
///     // a training step on `count` samples
/// #   toy.step(5_000 + 70 * count)
/// })?;
/// assert!(found.batch_size > 1310 && found.batch_size <= 1357 && found.out_of_memory == 0);
/// # Ok::<(), libsab::Error>(())
/// ```
///
/// # Errors
///
/// [`Error::DeviceMemory`] when not even one sample fits; [`Error::Argument`]; [`Error::Callback`];
/// [`Error::Cancelled`]; [`Error::Mismatch`] when another rank failed.
pub fn find_max_batch(
    probe: &mut Probe<'_>,
    options: &MaxBatchOptions<'_>,
    mut trial: impl FnMut(u64, f64) -> Result<(), StepError>,
) -> Result<MaxBatch, Error> {
    let (batch_sizes, found) = raw::find_max_batch(&probe.handle, options, &mut trial)?;
    Ok(MaxBatch {
        batch_size: found.batch_size,
        batch_sizes,
        trials: found.trials,
        out_of_memory: found.out_of_memory,
        peak: found.peak,
        budget: known(found.limit).unwrap_or(0),
    })
}

/// The batch size of an epoch: `current` plus what `increase(epoch, current)` says, unless that is
/// more than `max_batch_size`.
///
/// # Errors
///
/// [`Error::Callback`] from the closure; [`Error::Argument`] for an increase below zero.
pub fn grow_batch_size(
    mut increase: impl FnMut(u64, u64) -> Result<i64, BoxError>,
    epoch: u64,
    current: u64,
    max_batch_size: u64,
) -> Result<u64, Error> {
    at_least(1, "current", current)?;
    let more = increase(epoch, current).map_err(Error::Callback)?;
    let more = u64::try_from(more)
        .map_err(|_| Error::refused("increase", more, "must be at least 0".to_owned()))?;
    let grown = current.saturating_add(more);
    Ok(if grown <= max_batch_size { grown } else { current })
}

/// The batch size of an epoch that grows by `amount` every `period` epochs, up to `max_batch_size`.
///
/// # Errors
///
/// [`Error::Argument`].
pub fn grow_batch_size_linear(
    epoch: u64,
    start: u64,
    amount: u64,
    period: u64,
    max_batch_size: u64,
) -> Result<u64, Error> {
    at_least(1, "start", start)?;
    at_least(start, "max_batch_size", max_batch_size)?;
    at_least(1, "period", period)?;
    let more = (epoch / period).saturating_mul(amount);
    Ok(start.saturating_add(more).min(max_batch_size))
}

/// The batch size of an epoch that doubles at each milestone, up to `max_batch_size`.
///
/// # Errors
///
/// [`Error::Argument`].
pub fn grow_batch_size_doubling(
    epoch: u64,
    start: u64,
    milestones: &[u64],
    max_batch_size: u64,
) -> Result<u64, Error> {
    at_least(1, "start", start)?;
    at_least(start, "max_batch_size", max_batch_size)?;
    let doubled = milestones.iter().filter(|&&milestone| milestone <= epoch);
    Ok(doubled.fold(start, |size, _| size.saturating_mul(2)).min(max_batch_size))
}

fn at_least(least: u64, name: &str, value: u64) -> Result<(), Error> {
    if value >= least {
        return Ok(());
    }
    Err(Error::refused(name, value, format!("must be at least {least}")))
}

// ---- steps that do not fail ---------------------------------------------------------------------

options! {
/// Parts and weights of a step. By default the whole batch first, all samples with the same weight.
pub struct StepOptions<'f>: sab_step_in_chunks_options {
    begin: Hook<HookFn<'f>>,
    weights: Option<&'f [f64]>,
}
}

impl<'f> StepOptions<'f> {
    setters! {
        /// Largest part of the first try.
        chunk_size(samples: u64) => chunk_size = samples;
    }

    hook_setter! {
        'f,
        /// Called before each try: set the gradients to zero.
        begin
    }

    /// Weight of each sample in the loss, such as its tokens.
    pub fn weights(mut self, weights: &'f [f64]) -> Self {
        self.weights = Some(weights);
        self
    }
}

/// Runs forward and backward of a batch in parts that fit, `chunk(first, count, weight)` each:
/// halves them until none runs out of memory, each time from the same random state. Gradients add
/// up over the parts; the step of the optimizer is the caller's.
///
/// Gives the size of part that fitted: begin with it next time.
///
/// ```
/// use libsab::memory::{step_in_chunks, Probe, StepError, StepOptions};
///
/// let mut probe = Probe::new("host")?;
/// let fitted = step_in_chunks(&mut probe, 8, &StepOptions::new(), |_first, count, _weight| {
///     if count > 2 { Err(StepError::OutOfMemory) } else { Ok(()) }
/// })?;
/// assert_eq!(fitted, 2);
/// # Ok::<(), libsab::Error>(())
/// ```
///
/// # Errors
///
/// [`Error::DeviceMemory`] when not even one sample fits; [`Error::Callback`]; [`Error::Argument`]
/// for weights that cannot be.
pub fn step_in_chunks(
    probe: &mut Probe<'_>,
    count: u64,
    options: &StepOptions<'_>,
    mut chunk: impl FnMut(u64, u64, f64) -> Result<(), StepError>,
) -> Result<u64, Error> {
    raw::step_in_chunks(&probe.handle, count, options, &mut chunk)
}

options! {
/// Limit and interval of a [`MemoryGuard`]. By default the total of the device, judged every 16
/// steps by the last 64.
pub struct GuardOptions<'f>: sab_memory_guard_options {
    reduce: Hook<ReduceFn<'f>>,
}
}

impl<'f> GuardOptions<'f> {
    setters! {
        /// Largest peak, in bytes; by default the total of the device.
        budget(bytes: u64) => limit = signed_bytes(bytes);
        /// Steps between two judgements; the same on all ranks.
        interval(steps: u64) => interval = steps;
        /// Steps by which each judgement is made; at least 8.
        window(steps: u64) => window = steps;
    }

    reduce_setter! {
        'f,
        /// With several ranks: see [`MaxBatchOptions::reduce`]. Called every interval, and once
        /// more before the budget is lowered.
    }
}

/// Keeps a run within its memory. It measures the peaks of real steps and lowers the sampler's
/// budget before memory runs out. A step that runs out of memory is retried in halves. Each
/// lowering is logged. Belongs to the thread of its probe.
///
/// ```
/// # use libsab::memory::{GuardOptions, MemoryGuard, Probe, StepOptions};
/// # use libsab::{Plan, PlanOptions, Sampler, SamplerOptions, Sizes};
#[doc = include_str!("memory/toy.txt")]
/// # let toy = Toy::new(30_000);
/// # let plan = Plan::new(&Sizes::from_fn(1000, |i| (1 + i % 90) as f64)?, &PlanOptions::new().budget(2048.0))?;
/// # let probe = Probe::from_device(&toy);
/// let sampler = Sampler::bucket(&plan, &SamplerOptions::new())?;
/// let mut guard = MemoryGuard::new(&probe, sampler, &GuardOptions::new())?;
/// while let Some(batch) = guard.next_batch().transpose()? {
///     guard.step(&batch, &StepOptions::new(), |first, count, weight| {
///         // forward and backward of those samples of the batch, the loss times `weight`
/// #       let _ = (first, weight);
/// #       toy.step(1_000 + 10 * count * batch.padded_length[0] as u64)
///     })?;
///     // the step of the optimizer
/// }
/// # assert!(guard.info().out_of_memory == 0 && guard.info().peak.unwrap() <= 30_000);
/// # Ok::<(), libsab::Error>(())
/// ```
pub struct MemoryGuard<'d> {
    /// Dropped before the sampler that it points to.
    handle: GuardHandle<'d>,
    sampler: Sampler<'static>,
}

impl fmt::Debug for MemoryGuard<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryGuard").field("info", &self.info()).finish_non_exhaustive()
    }
}

impl<'d> MemoryGuard<'d> {
    /// A guard over a sampler, which it takes: see [`into_sampler`](Self::into_sampler).
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] also when no limit is known; [`Error::Unsupported`] for a sampler whose
    /// budget cannot be lowered.
    pub fn new(
        probe: &Probe<'d>,
        mut sampler: Sampler<'static>,
        options: &GuardOptions<'d>,
    ) -> Result<Self, Error> {
        let handle = GuardHandle::new(probe.handle.clone(), &mut sampler.handle, options)?;
        Ok(MemoryGuard { handle, sampler })
    }

    /// Runs a step under the guard: the whole batch, or, when that runs out of memory, in halves
    /// (see [`step_in_chunks`]). All ranks call this for every step; a batch of 0 samples is not run.
    ///
    /// # Errors
    ///
    /// [`Error::DeviceMemory`] when not even one sample fits; [`Error::Callback`].
    pub fn step<I: AsRef<[i64]>, L: AsRef<[i32]>>(
        &mut self,
        batch: &Batch<I, L>,
        options: &StepOptions<'_>,
        mut chunk: impl FnMut(u64, u64, f64) -> Result<(), StepError>,
    ) -> Result<(), Error> {
        self.handle.step(&batch.borrowed(), options, &mut chunk)
    }

    /// For callers that run their own steps: begins one.
    ///
    /// # Errors
    ///
    /// [`Error::Callback`] from the device.
    pub fn begin(&mut self) -> Result<(), Error> {
        self.handle.begin()
    }

    /// Ends a step that [`MemoryGuard::begin`] began.
    ///
    /// # Errors
    ///
    /// [`Error::Callback`].
    pub fn end<I: AsRef<[i64]>, L: AsRef<[i32]>>(
        &mut self,
        batch: &Batch<I, L>,
        out_of_memory: bool,
    ) -> Result<(), Error> {
        self.handle.end(&batch.borrowed(), out_of_memory)
    }

    /// Counters and peaks of this guard.
    #[must_use]
    pub fn info(&self) -> GuardInfo {
        GuardInfo::of(&self.handle.info())
    }

    /// The sampler.
    #[must_use]
    pub fn sampler(&self) -> &Sampler<'static> {
        &self.sampler
    }

    /// The next batch of the sampler; `None` at the end of the epoch.
    ///
    /// The sampler is not given out to be changed: the guard points to this very one.
    pub fn next_batch(&mut self) -> Option<Result<Batch, Error>> {
        self.sampler.next_batch()
    }

    /// Begins another epoch.
    pub fn set_epoch(&mut self, epoch: u64) -> Result<(), Error> {
        self.sampler.set_epoch(epoch)
    }

    /// Goes on where a state was saved.
    ///
    /// # Errors
    ///
    /// [`Error::Format`], [`Error::Mismatch`].
    pub fn restore(&mut self, state: &[u8]) -> Result<(), Error> {
        self.sampler.restore(state)
    }

    /// Frees the guard and returns the sampler, which keeps its budget.
    #[must_use]
    pub fn into_sampler(self) -> Sampler<'static> {
        self.sampler
    }
}
