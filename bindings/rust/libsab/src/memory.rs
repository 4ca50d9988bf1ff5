//! Memory: measured, modelled, and kept true while training.
//!
//! A [`Probe`] sees the memory of a device: of a LibTorch's (`"cuda:0"`, `"cpu"`), of the process (`"host"`), or of a [`Device`] of
//! one's own. [`Peaks`] are measured on batches of known shape, a [`MemoryModel`] is fitted to them, and is the
//! [`Cost`] of a plan whose budget is in bytes. [`find_max_batch`] finds the largest batch of one shape; [`chunked_step`] and
//! [`MemoryGuard`] bring a step through that runs out of memory.
//!
//! ```
//! use libsab::memory::{measurement_points, MeasurementOptions, MemoryModel, ModelOptions, Peaks, CollectOptions, Probe};
//! use libsab::{BucketSampler, Plan, PlanOptions, SamplerOptions, Sizes};
//!
#![doc = include_str!("memory/toy.txt")]
//! # let toy = Toy::new(1_000_000);
//! let mut probe = Probe::from_device(&toy);
//! let points = measurement_points(&MeasurementOptions::new(4.0, 90.0, 1000), 12)?;
//! let mut peaks = Peaks::new()?;
//! peaks.collect(&mut probe, &points, CollectOptions::new(), |&(count, length)| {
//!     // a training step on a batch of that shape
//! #   toy.step(5_000 + 20 * count as i64 * length as i64)?;
//!     Ok::<_, StepError<libsab::BoxError>>(vec![count as f64, length])
//! })?;
//! let model = MemoryModel::from_peaks(&peaks, &ModelOptions::default())?;
//!
//! let sizes = Sizes::from_fn(1000, |i| (4 + i % 87) as f64)?;
//! let plan = Plan::new(&sizes, PlanOptions::new().cost(model.cost()?).budget(1e6))?;
//! for batch in BucketSampler::new(&plan, &SamplerOptions::new())? {
//!     let batch = batch?;
//!     assert!(5_000.0 + 20.0 * batch.padded_total < 1e6 * (1.0 + 1e-6));
//! }
//! # Ok::<(), libsab::Error>(())
//! ```

use std::fmt;
use std::ops::ControlFlow;
use std::path::Path;
use std::rc::Rc;

use sab_sys as sys;

use crate::batch::Batch;
use crate::error::{BoxError, Error};
use crate::plan::{Cost, CostTerm};
use crate::raw::{
    self, CollectParts, FindParts, GuardHandle, ModelHandle, PeaksHandle, PointParts, ProbeHandle,
    StepParts,
};
use crate::sampler::PlanSampler;

// ---- devices ------------------------------------------------------------------------------------------------------------

/// A device whose memory can be asked for; numbers are bytes.
///
/// The functions take `&self`, since the work that is measured uses the device too.
pub trait Device {
    /// The peak begins again at what is held now.
    fn reset(&self) -> Result<(), BoxError>;
    /// Held now.
    fn current(&self) -> Result<i64, BoxError>;
    /// Most held since the last reset.
    fn peak(&self) -> Result<i64, BoxError>;
    /// Most that the allocator kept since the last reset, and its largest free block, where it knows.
    fn reserved(&self) -> Result<(Option<i64>, Option<i64>), BoxError> {
        Ok((None, None))
    }
    /// All there is, where that is known.
    fn total(&self) -> Result<Option<i64>, BoxError> {
        Ok(None)
    }
    /// Gives cached blocks back to the device.
    fn release_cache(&self) -> Result<(), BoxError> {
        Ok(())
    }
    /// Keeps the state of the random generators under this number; a later save under it replaces it.
    fn save_rng(&self, depth: u64) -> Result<(), BoxError> {
        let _ = depth;
        Ok(())
    }
    /// Goes back to what was saved under this number.
    fn restore_rng(&self, depth: u64) -> Result<(), BoxError> {
        let _ = depth;
        Ok(())
    }
}

/// Why a step failed: out of memory is an answer, anything else ends the call.
#[derive(Debug)]
pub enum StepError<E = BoxError> {
    /// The device's memory did not suffice.
    OutOfMemory,
    /// The step's own error, which comes back as [`Error::Callback`].
    Other(E),
}

impl<E: Into<BoxError>> StepError<E> {
    pub(crate) fn boxed(self) -> StepError {
        match self {
            StepError::OutOfMemory => StepError::OutOfMemory,
            StepError::Other(error) => StepError::Other(error.into()),
        }
    }
}

impl<E> From<E> for StepError<E> {
    fn from(error: E) -> Self {
        StepError::Other(error)
    }
}

/// What a probe sees, in bytes; `None` where it cannot.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct MemoryStats {
    /// Held now.
    pub current: i64,
    /// Most held since the last reset.
    pub peak: i64,
    /// Most that the allocator kept since the last reset.
    pub reserved_peak: Option<i64>,
    /// Its largest free block.
    pub largest_free: Option<i64>,
    /// All there is.
    pub total: Option<i64>,
}

fn known(bytes: i64) -> Option<i64> {
    (bytes >= 0).then_some(bytes)
}

/// Sees the memory of a device. Belongs to the thread that made it.
pub struct Probe<'d> {
    pub(crate) handle: Rc<ProbeHandle<'d>>,
}

impl fmt::Debug for Probe<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Probe").finish_non_exhaustive()
    }
}

impl Probe<'static> {
    /// A probe of `"host"` (resident memory of this process), `"cpu"` (CPU tensors of LibTorch, exact) or `"cuda:N"`; all but the first need
    /// [`torch::open`](crate::torch::open). Probes of `"cpu"` are to be dropped in reverse order of making.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for a device that is not there, [`Error::Unsupported`] for one that needs LibTorch.
    pub fn new(device: &str) -> Result<Self, Error> {
        Ok(Probe { handle: Rc::new(ProbeHandle::open(device, 0)?) })
    }

    /// As [`Probe::new`], on a device that is emulated to have `total_bytes` only: allocations beyond raise LibTorch's out-of-memory error.
    ///
    /// # Errors
    ///
    /// Also [`Error::Unsupported`] for a device whose memory cannot be limited.
    pub fn with_total(device: &str, total_bytes: i64) -> Result<Self, Error> {
        Ok(Probe { handle: Rc::new(ProbeHandle::open(device, total_bytes)?) })
    }
}

impl<'d> Probe<'d> {
    /// A probe of a device of one's own.
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
    pub fn stats(&self) -> Result<MemoryStats, Error> {
        let stats = self.handle.read()?;
        Ok(MemoryStats {
            current: stats.current,
            peak: stats.peak,
            reserved_peak: known(stats.reserved_peak),
            largest_free: known(stats.largest_free),
            total: known(stats.total),
        })
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

// ---- peaks --------------------------------------------------------------------------------------------------------------

type Hook<'f> = Box<dyn FnMut() -> Result<(), BoxError> + 'f>;
type ProgressHook<'f> = Box<dyn FnMut(u64, u64) -> ControlFlow<()> + 'f>;

fn hook<'f, E: Into<BoxError>>(mut function: impl FnMut() -> Result<(), E> + 'f) -> Hook<'f> {
    Box::new(move || function().map_err(Into::into))
}

/// What to do around each item of [`Peaks::collect`].
#[derive(Default)]
pub struct CollectOptions<'f> {
    cleanup: Option<Hook<'f>>,
    collect_garbage: Option<Hook<'f>>,
    progress: Option<ProgressHook<'f>>,
    warm_up: u64,
    keep_cache: bool,
}

impl<'f> CollectOptions<'f> {
    /// Nothing but the release of the device's cache.
    pub fn new() -> Self {
        Self::default()
    }

    /// Called after each item, also after one that failed, to let go of what the work holds.
    pub fn cleanup<E: Into<BoxError>>(
        mut self,
        function: impl FnMut() -> Result<(), E> + 'f,
    ) -> Self {
        self.cleanup = Some(hook(function));
        self
    }

    /// Called after the cleanup.
    pub fn collect_garbage<E: Into<BoxError>>(
        mut self,
        function: impl FnMut() -> Result<(), E> + 'f,
    ) -> Self {
        self.collect_garbage = Some(hook(function));
        self
    }

    /// The first so many items are run but not recorded.
    pub fn warm_up(mut self, items: u64) -> Self {
        self.warm_up = items;
        self
    }

    /// Leaves the device's cache as it is between items.
    pub fn keep_cache(mut self) -> Self {
        self.keep_cache = true;
        self
    }

    /// `progress(done, total)` before each item; may stop it.
    pub fn progress(mut self, function: impl FnMut(u64, u64) -> ControlFlow<()> + 'f) -> Self {
        self.progress = Some(Box::new(function));
        self
    }
}

/// Peaks that were measured, a row an item.
pub struct Peaks {
    handle: PeaksHandle,
}

impl fmt::Debug for Peaks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peaks")
            .field("peaks", &self.peaks())
            .field("out_of_memory", &self.out_of_memory())
            .finish_non_exhaustive()
    }
}

impl Peaks {
    /// None yet.
    ///
    /// # Errors
    ///
    /// [`Error::NoMemory`].
    pub fn new() -> Result<Self, Error> {
        Ok(Peaks { handle: PeaksHandle::new()? })
    }

    /// Runs the work on each item and adds its peak and the features that the work returns: at most 64 finite numbers, as many for
    /// each item. Items that run out of memory are listed and skipped. What was measured before a failure stays.
    ///
    /// # Errors
    ///
    /// [`Error::Callback`] from a closure or the device; [`Error::Argument`] for features that cannot be; [`Error::Cancelled`].
    pub fn collect<T, E: Into<BoxError>>(
        &mut self,
        probe: &mut Probe<'_>,
        items: impl IntoIterator<Item = T>,
        options: CollectOptions<'_>,
        mut work: impl FnMut(T) -> Result<Vec<f64>, StepError<E>>,
    ) -> Result<(), Error> {
        let mut items = items.into_iter();
        let item_count = match items.size_hint() {
            (least, Some(most)) if least == most => Some(least as u64),
            _ => None,
        };
        let CollectOptions { mut cleanup, mut collect_garbage, mut progress, warm_up, keep_cache } =
            options;
        let parts = CollectParts {
            item_count,
            work: &mut |_| items.next().map(|item| work(item).map_err(StepError::boxed)),
            cleanup: cleanup.as_mut().map(|hook| &mut **hook as _),
            collect_garbage: collect_garbage.as_mut().map(|hook| &mut **hook as _),
            progress: progress.as_mut().map(|hook| &mut **hook as _),
            warm_up,
            release_cache: !keep_cache,
        };
        self.handle.collect(&probe.handle, parts)
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.peaks().len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of the item of each row.
    pub fn items(&self) -> &[u64] {
        self.handle.columns().items
    }

    /// Features of a row.
    ///
    /// # Panics
    ///
    /// When there is no such row.
    pub fn features(&self, row: usize) -> &[f64] {
        let columns = self.handle.columns();
        &columns.features[row * columns.feature_count..][..columns.feature_count]
    }

    /// Bytes held before each item.
    pub fn before(&self) -> &[i64] {
        self.handle.columns().before
    }

    /// Peak of each item, in bytes.
    pub fn peaks(&self) -> &[i64] {
        self.handle.columns().peaks
    }

    /// Most that the allocator kept, in bytes; -1 where it does not tell.
    pub fn reserved_peaks(&self) -> &[i64] {
        self.handle.columns().reserved_peaks
    }

    /// The allocator's largest free block afterwards, in bytes; -1 where it does not tell.
    pub fn largest_free(&self) -> &[i64] {
        self.handle.columns().largest_free
    }

    /// Numbers of the items that ran out of memory.
    pub fn out_of_memory(&self) -> &[u64] {
        self.handle.columns().out_of_memory
    }
}

/// What to measure for a model of batches.
#[derive(Clone, Copy, Debug)]
pub struct MeasurementOptions<'m> {
    shortest: f64,
    longest: f64,
    max_count: u64,
    max_padded_total: f64,
    degree: u32,
    near: Option<(&'m MemoryModel, f64)>,
}

impl<'m> MeasurementOptions<'m> {
    /// Padded lengths from `shortest` to `longest`, at most `max_count` samples a batch, for a model of degree 2.
    pub fn new(shortest: f64, longest: f64, max_count: u64) -> Self {
        MeasurementOptions {
            shortest,
            longest,
            max_count,
            max_padded_total: 0.0,
            degree: 2,
            near: None,
        }
    }

    /// No point has a larger count * length, so that none runs out of memory; 4 * longest by default.
    pub fn max_padded_total(mut self, total: f64) -> Self {
        self.max_padded_total = total;
        self
    }

    /// Of the model: 1 or 2.
    pub fn degree(mut self, degree: u32) -> Self {
        self.degree = degree;
        self
    }

    /// With a first model: only points that it predicts to take a third to nine tenths of `budget` bytes, where batches of that budget
    /// will lie.
    pub fn near(mut self, model: &'m MemoryModel, budget: f64) -> Self {
        self.near = Some((model, budget));
        self
    }
}

/// Picks the (count, length) whose measurements say most about a model of batches, in ascending order of count * length. Twice as many as
/// terms, 12 for degree 2, leave enough to judge the model by.
///
/// # Errors
///
/// [`Error::Argument`] for a range that cannot be, or that has fewer points.
pub fn measurement_points(
    options: &MeasurementOptions<'_>,
    points: usize,
) -> Result<Vec<(u64, f64)>, Error> {
    let parts = PointParts {
        shortest: options.shortest,
        longest: options.longest,
        max_count: options.max_count,
        max_padded_total: options.max_padded_total,
        degree: options.degree,
        near: options.near.map(|(model, budget)| (&model.handle, budget)),
    };
    raw::measurement_points(&parts, points)
}

// ---- the model ----------------------------------------------------------------------------------------------------------

/// The terms a model is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ModelKind {
    /// Of 2 features, count and padded length; can be the cost of a plan.
    Batch,
    /// Of any features: all products of at most degree of them.
    Polynomial,
}

/// How to fit a model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ModelOptions {
    /// [`ModelKind::Batch`].
    pub kind: ModelKind,
    /// 1 or 2; 2.
    pub degree: u32,
    /// Share of unseen batches that should stay under the upper prediction; 0.95.
    pub coverage: f64,
    /// Leaves out terms that do not pay; true.
    pub select_terms: bool,
}

impl Default for ModelOptions {
    fn default() -> Self {
        let options = ModelHandle::default_options();
        ModelOptions {
            kind: ModelKind::Batch,
            degree: options.degree,
            coverage: options.coverage,
            select_terms: options.select_terms != 0,
        }
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
pub struct MemoryModel {
    handle: ModelHandle,
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
    /// Fits a model to peaks in bytes and their features, `feature_count` numbers each: for [`ModelKind::Batch`] count and padded length.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for too few measurements, or such that cannot tell the terms apart: the message says what to measure next.
    pub fn fit(
        features: &[f64],
        feature_count: usize,
        peaks: &[f64],
        options: &ModelOptions,
    ) -> Result<Self, Error> {
        let mut raw_options = ModelHandle::default_options();
        raw_options.kind = match options.kind {
            ModelKind::Batch => sys::SAB_MODEL_BATCH,
            ModelKind::Polynomial => sys::SAB_MODEL_POLYNOMIAL,
        };
        raw_options.degree = options.degree;
        raw_options.coverage = options.coverage;
        raw_options.select_terms = i32::from(options.select_terms);
        Ok(MemoryModel { handle: ModelHandle::fit(features, feature_count, peaks, &raw_options)? })
    }

    /// Fits a model to what was measured.
    ///
    /// # Errors
    ///
    /// As [`MemoryModel::fit`].
    pub fn from_peaks(peaks: &Peaks, options: &ModelOptions) -> Result<Self, Error> {
        let columns = peaks.handle.columns();
        let bytes: Vec<f64> = columns.peaks.iter().map(|&peak| peak as f64).collect();
        Self::fit(columns.features, columns.feature_count, &bytes, options)
    }

    /// Expected peaks of rows of features, in bytes.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for a number of features that is no multiple of the model's, or that is not finite.
    pub fn predict(&self, features: &[f64]) -> Result<Vec<f64>, Error> {
        Ok(self.handle.predict(features, self.info().feature_count)?.0)
    }

    /// Peaks with the margin: the stated share of batches stays under them.
    ///
    /// # Errors
    ///
    /// As [`MemoryModel::predict`].
    pub fn predict_upper(&self, features: &[f64]) -> Result<Vec<f64>, Error> {
        Ok(self.handle.predict(features, self.info().feature_count)?.1)
    }

    /// The upper prediction as the cost of a plan; the budget is in bytes.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for a model of other features than count and length, or one that falls.
    pub fn cost(&self) -> Result<Cost, Error> {
        let terms = self.handle.cost_terms()?.into_iter().map(|term| CostTerm {
            coefficient: term.coefficient,
            count_power: term.count_power,
            length_power: term.length_power,
        });
        Ok(Cost::Terms(terms.collect()))
    }

    /// What it is.
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

    /// Coefficient, and power of each feature, of each term.
    pub fn terms(&self) -> Vec<(f64, Vec<u32>)> {
        let info = self.info();
        (0..info.term_count).map(|index| self.handle.term(index, info.feature_count)).collect()
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
    ///
    /// # Errors
    ///
    /// [`Error::NoMemory`].
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

// ---- the largest batch --------------------------------------------------------------------------------------------------

/// How the largest batch is looked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Search {
    /// By prediction: steps of growing size, each as large as the curve through the ones before allows. About six steps a length.
    #[default]
    Predict,
    /// memory(2) - memory(1) is the memory of one sample; right only where memory is a multiple of the count.
    Difference,
    /// Bisection between 1 and the maximum, by running out.
    Binary,
    /// The maximum, then half of it, until it fits.
    Halve,
}

/// How to round a batch size, downwards.
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

type Reduce<'f> = Box<dyn FnMut(&mut [i64]) -> Result<(), BoxError> + 'f>;

/// How to look for the largest batch.
#[derive(Default)]
pub struct MaxBatchOptions<'f> {
    search: Search,
    lengths: Vec<f64>,
    maximum: Option<u64>,
    budget: i64,
    rounding: Rounding,
    reduce: Option<Reduce<'f>>,
    progress: Option<ProgressHook<'f>>,
}

impl<'f> MaxBatchOptions<'f> {
    /// By prediction, for one length, up to 100,000 samples, within the device's total.
    pub fn new() -> Self {
        Self::default()
    }

    /// Another way to look.
    pub fn search(mut self, search: Search) -> Self {
        self.search = search;
        self
    }

    /// Finds a batch size for each of these padded lengths; the longest is tried first.
    pub fn lengths(mut self, lengths: impl Into<Vec<f64>>) -> Self {
        self.lengths = lengths.into();
        self
    }

    /// Never larger than this.
    pub fn maximum(mut self, samples: u64) -> Self {
        self.maximum = Some(samples);
        self
    }

    /// Peaks must not be larger, in bytes.
    pub fn budget(mut self, bytes: i64) -> Self {
        self.budget = bytes;
        self
    }

    /// Rounds what is found.
    pub fn rounding(mut self, rounding: Rounding) -> Self {
        self.rounding = rounding;
        self
    }

    /// Where ranks train together: replaces each number by the least of the ranks'; called alike on all of them.
    pub fn reduce<E: Into<BoxError>>(
        mut self,
        mut function: impl FnMut(&mut [i64]) -> Result<(), E> + 'f,
    ) -> Self {
        self.reduce = Some(Box::new(move |values| function(values).map_err(Into::into)));
        self
    }

    /// `progress(done, total)` before each step; may stop it.
    pub fn progress(mut self, function: impl FnMut(u64, u64) -> ControlFlow<()> + 'f) -> Self {
        self.progress = Some(Box::new(function));
        self
    }
}

/// What [`find_max_batch`] found.
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
    /// Peaks may reach, in bytes.
    pub budget: i64,
}

/// Finds the largest batch whose step, `trial(count, length)`, fits. The random generators are as before when it returns.
///
/// ```
/// # use libsab::memory::{find_max_batch, MaxBatchOptions, Probe};
#[doc = include_str!("memory/toy.txt")]
/// # let toy = Toy::new(100_000);
/// let mut probe = Probe::from_device(&toy);
/// let found = find_max_batch(&mut probe, MaxBatchOptions::new(), |count, _| {
///     // a training step on `count` samples
/// #   toy.step(5_000 + 70 * count as i64)
/// })?;
/// assert!(found.batch_size > 1310 && found.batch_size <= 1357 && found.out_of_memory == 0);
/// # Ok::<(), libsab::Error>(())
/// ```
///
/// # Errors
///
/// [`Error::DeviceMemory`] when not even one sample fits; [`Error::Argument`]; [`Error::Callback`]; [`Error::Cancelled`];
/// [`Error::Mismatch`] when another rank failed.
pub fn find_max_batch<E: Into<BoxError>>(
    probe: &mut Probe<'_>,
    options: MaxBatchOptions<'_>,
    mut trial: impl FnMut(u64, f64) -> Result<(), StepError<E>>,
) -> Result<MaxBatch, Error> {
    let MaxBatchOptions { search, lengths, maximum, budget, rounding, mut reduce, mut progress } =
        options;
    let parts = FindParts {
        search: match search {
            Search::Predict => sys::SAB_SEARCH_PREDICT,
            Search::Difference => sys::SAB_SEARCH_DIFFERENCE,
            Search::Binary => sys::SAB_SEARCH_BINARY,
            Search::Halve => sys::SAB_SEARCH_HALVE,
        },
        lengths: &lengths,
        maximum,
        budget,
        rounding: match rounding {
            Rounding::None => (sys::SAB_ROUND_NONE, 0),
            Rounding::PowerOfTwo => (sys::SAB_ROUND_POWER_OF_TWO, 0),
            Rounding::Multiple(multiple) => (sys::SAB_ROUND_MULTIPLE, multiple),
        },
        trial: &mut |count, length| trial(count, length).map_err(StepError::boxed),
        reduce: reduce.as_mut().map(|reduce| &mut **reduce as _),
        progress: progress.as_mut().map(|hook| &mut **hook as _),
    };
    let (batch_sizes, found) = raw::find_max_batch(&probe.handle, parts)?;
    Ok(MaxBatch {
        batch_size: found.batch_size,
        batch_sizes,
        trials: found.trials,
        out_of_memory: found.out_of_memory,
        peak: found.peak,
        budget: found.budget,
    })
}

/// The batch size of an epoch: `current` plus what `increase(epoch, current)` says, unless that is more than `maximum`.
///
/// # Errors
///
/// [`Error::Callback`] from the closure; [`Error::Argument`] for an increase below zero.
pub fn grow_batch<E: Into<BoxError>>(
    mut increase: impl FnMut(u64, u64) -> Result<i64, E>,
    epoch: u64,
    current: u64,
    maximum: u64,
) -> Result<u64, Error> {
    raw::grow_batch(
        &mut |epoch, current| increase(epoch, current).map_err(Into::into),
        epoch,
        current,
        maximum,
    )
}

/// The batch size of an epoch that grows by `amount` every `period` epochs, up to `maximum`.
///
/// # Errors
///
/// [`Error::Argument`].
pub fn grow_linear(
    epoch: u64,
    start: u64,
    amount: u64,
    period: u64,
    maximum: u64,
) -> Result<u64, Error> {
    raw::grow_linear(epoch, start, amount, period, maximum)
}

/// The batch size of an epoch that doubles at each milestone, up to `maximum`.
///
/// # Errors
///
/// [`Error::Argument`].
pub fn grow_doubling(
    epoch: u64,
    start: u64,
    milestones: &[u64],
    maximum: u64,
) -> Result<u64, Error> {
    raw::grow_doubling(epoch, start, milestones, maximum)
}

// ---- steps that do not fail ---------------------------------------------------------------------------------------------

/// How to run a step in parts.
#[derive(Default)]
pub struct StepOptions<'f> {
    begin: Option<Hook<'f>>,
    weights: Option<&'f [f64]>,
    chunk_size: u64,
}

impl<'f> StepOptions<'f> {
    /// The whole batch first, all samples counting the same.
    pub fn new() -> Self {
        Self::default()
    }

    /// Called before each try: set the gradients to zero.
    pub fn begin<E: Into<BoxError>>(
        mut self,
        function: impl FnMut() -> Result<(), E> + 'f,
    ) -> Self {
        self.begin = Some(hook(function));
        self
    }

    /// What each sample counts in the loss, such as its tokens.
    pub fn weights(mut self, weights: &'f [f64]) -> Self {
        self.weights = Some(weights);
        self
    }

    /// Largest part of the first try.
    pub fn chunk_size(mut self, samples: u64) -> Self {
        self.chunk_size = samples;
        self
    }
}

/// Runs forward and backward of a batch in parts that fit, `chunk(first, count, weight)` each: halves them until none runs out of memory,
/// each time from the same random state. Gradients add up over the parts; the step of the optimizer is the caller's.
///
/// Gives the size of part that fitted: begin with it next time.
///
/// # Errors
///
/// [`Error::DeviceMemory`] when not even one sample fits; [`Error::Callback`]; [`Error::Argument`] for weights that cannot be.
pub fn chunked_step<E: Into<BoxError>>(
    probe: &mut Probe<'_>,
    count: u64,
    options: StepOptions<'_>,
    mut chunk: impl FnMut(u64, u64, f64) -> Result<(), StepError<E>>,
) -> Result<u64, Error> {
    let StepOptions { mut begin, weights, chunk_size } = options;
    let parts = StepParts {
        begin: begin.as_mut().map(|hook| &mut **hook as _),
        weights,
        chunk_size,
        chunk: &mut |first, count, weight| chunk(first, count, weight).map_err(StepError::boxed),
    };
    raw::chunked_step(&probe.handle, count, parts)
}

/// What the dry run of a plan saw: see [`Plan::verify`](crate::Plan::verify).
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Verification {
    /// Batches run.
    pub batches: u64,
    /// Largest of their peaks, in bytes.
    pub peak: i64,
    /// Bytes of the device.
    pub total: Option<i64>,
}

impl From<sys::sab_verification> for Verification {
    fn from(seen: sys::sab_verification) -> Self {
        Verification { batches: seen.batches, peak: seen.peak, total: known(seen.total) }
    }
}

/// How to keep watch.
#[derive(Default)]
pub struct GuardOptions<'f> {
    limit: i64,
    interval: Option<u64>,
    window: Option<u64>,
    reduce: Option<Reduce<'f>>,
}

impl<'f> GuardOptions<'f> {
    /// Under the device's total, judged every 16 steps by the last 64.
    pub fn new() -> Self {
        Self::default()
    }

    /// Peaks are to stay under this, in bytes.
    pub fn limit(mut self, bytes: i64) -> Self {
        self.limit = bytes;
        self
    }

    /// Judged every so many steps; the same on all ranks.
    pub fn interval(mut self, steps: u64) -> Self {
        self.interval = Some(steps);
        self
    }

    /// By the last so many steps; at least 8.
    pub fn window(mut self, steps: u64) -> Self {
        self.window = Some(steps);
        self
    }

    /// Where ranks train together: see [`MaxBatchOptions::reduce`]; called every interval, and once more when the budget is to be lowered.
    pub fn reduce<E: Into<BoxError>>(
        mut self,
        mut function: impl FnMut(&mut [i64]) -> Result<(), E> + 'f,
    ) -> Self {
        self.reduce = Some(Box::new(move |values| function(values).map_err(Into::into)));
        self
    }
}

/// What a guard has seen and done.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct GuardInfo {
    /// Seen.
    pub steps: u64,
    /// Steps that ran out and were split.
    pub out_of_memory: u64,
    /// Times the budget was lowered.
    pub lowered: u64,
    /// Of the coming batches, in the unit of the plan's cost.
    pub budget: f64,
    /// Largest peak, in bytes; -1 before the first step.
    pub peak: i64,
    /// Mean of the peaks, in bytes.
    pub mean_peak: f64,
    /// By how much peaks lie above what the model says, at most, in bytes.
    pub creep: f64,
}

/// Keeps a run within its memory: watches the peaks of real steps, lowers the sampler's budget before a creeping run fails, and
/// brings a step that runs out through by splitting its batch. Each lowering is logged. Belongs to the thread of its probe.
///
/// ```
/// # use libsab::memory::{GuardOptions, MemoryGuard, Probe, StepOptions};
/// # use libsab::{BucketSampler, Plan, PlanOptions, SamplerOptions, Sizes};
#[doc = include_str!("memory/toy.txt")]
/// # let toy = Toy::new(30_000);
/// # let plan = Plan::new(&Sizes::from_fn(1000, |i| (1 + i % 90) as f64)?, PlanOptions::new().budget(2048.0))?;
/// # let probe = Probe::from_device(&toy);
/// let sampler = BucketSampler::new(&plan, &SamplerOptions::new())?;
/// let mut guard = MemoryGuard::new(&probe, sampler, GuardOptions::new())?;
/// while let Some(batch) = guard.next_batch().transpose()? {
///     guard.step(&batch, StepOptions::new(), |first, count, weight| {
///         // forward and backward of those samples of the batch, the loss times `weight`
/// #       let _ = (first, weight);
/// #       toy.step(1_000 + 10 * count as i64 * batch.padded_length as i64)
///     })?;
///     // the step of the optimizer
/// }
/// # assert!(guard.info().out_of_memory == 0 && guard.info().peak <= 30_000);
/// # Ok::<(), libsab::Error>(())
/// ```
pub struct MemoryGuard<'d, S: PlanSampler> {
    /// Dropped before the sampler that it points to.
    handle: GuardHandle<'d>,
    sampler: S,
}

impl<S: PlanSampler> fmt::Debug for MemoryGuard<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryGuard").field("info", &self.info()).finish_non_exhaustive()
    }
}

impl<'d, S: PlanSampler> MemoryGuard<'d, S> {
    /// A guard over a sampler, which it takes, or borrows when given `&mut`.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] also when no limit is known; [`Error::Unsupported`] for a sampler whose budget cannot be lowered.
    pub fn new(
        probe: &Probe<'d>,
        mut sampler: S,
        options: GuardOptions<'d>,
    ) -> Result<Self, Error> {
        let GuardOptions { limit, interval, window, reduce } = options;
        let handle = GuardHandle::new(
            probe.handle.clone(),
            sampler.held_mut(),
            limit,
            interval,
            window,
            reduce,
        )?;
        Ok(MemoryGuard { handle, sampler })
    }

    /// Runs a step under the guard: the whole batch, or, when that runs out of memory, in halves (see [`chunked_step`]). All ranks
    /// call this for every step; a batch of 0 samples is not run.
    ///
    /// # Errors
    ///
    /// [`Error::DeviceMemory`] when not even one sample fits; [`Error::Callback`].
    pub fn step<I: AsRef<[i64]>, L: AsRef<[i32]>, E: Into<BoxError>>(
        &mut self,
        batch: &Batch<I, L>,
        options: StepOptions<'_>,
        mut chunk: impl FnMut(u64, u64, f64) -> Result<(), StepError<E>>,
    ) -> Result<(), Error> {
        let StepOptions { mut begin, weights, chunk_size } = options;
        let parts = StepParts {
            begin: begin.as_mut().map(|hook| &mut **hook as _),
            weights,
            chunk_size,
            chunk: &mut |first, count, weight| {
                chunk(first, count, weight).map_err(StepError::boxed)
            },
        };
        self.handle.step(batch.borrowed(), parts)
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
        self.handle.end(batch.borrowed(), out_of_memory)
    }

    /// What it has seen and done.
    pub fn info(&self) -> GuardInfo {
        let info = self.handle.info();
        GuardInfo {
            steps: info.steps,
            out_of_memory: info.out_of_memory,
            lowered: info.lowered,
            budget: info.budget,
            peak: info.peak,
            mean_peak: info.mean_peak,
            creep: info.creep,
        }
    }

    /// The sampler.
    pub fn sampler(&self) -> &S {
        &self.sampler
    }

    /// The next batch of the sampler; `None` at the end of the epoch.
    ///
    /// The sampler is not given out to be changed: the guard points to this very one.
    ///
    /// # Errors
    ///
    /// None that is known.
    pub fn next_batch(&mut self) -> Option<Result<Batch, Error>> {
        self.sampler.held_mut().next().map(|batch| batch.map(|batch| batch.into_owned()))
    }

    /// Begins another epoch.
    ///
    /// # Errors
    ///
    /// None that is known.
    pub fn set_epoch(&mut self, epoch: u64) -> Result<(), Error> {
        self.sampler.held_mut().set_epoch(epoch)
    }

    /// Goes on where a [`State`](crate::State) was saved.
    ///
    /// # Errors
    ///
    /// [`Error::Format`], [`Error::Mismatch`].
    pub fn restore(&mut self, state: &[u8]) -> Result<(), Error> {
        self.sampler.held_mut().restore(state)
    }

    /// Ends the watch; the sampler keeps its budget.
    pub fn into_sampler(self) -> S {
        self.sampler
    }
}
