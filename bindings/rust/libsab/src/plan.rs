use std::cell::RefCell;
use std::fmt;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use sab_sys as sys;

use crate::batch::BatchRef;
pub use crate::choices::{Oversize, ShapeRule, Tail};
use crate::cost::Budget;
use crate::engine::{Histogram, Places};
use crate::error::Error;
use crate::memory::{Probe, StepError, Verification};
use crate::options::{array_setters, budget_setters, options, progress_setter, setters, Hook};
pub use crate::raw::results::{Bucket, PlanInfo, Report, Shape};
use crate::raw::{PlanHandle, ProgressFn};
use crate::sampler::SamplerOptions;
use crate::sizes::{of_file, Sizes};

/// How the boundaries between buckets are found.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub enum BucketRule {
    /// Buckets of whole batches, as large as [`PlanOptions::padding_target`] allows.
    #[default]
    Auto,
    /// These boundaries: `[b0, b1), [b1, b2), ...`; at least 2, in any order, no two equal.
    Boundaries(Vec<f64>),
    /// Boundaries of sizes with several columns: corners, one number a column each, in the order of
    /// the buckets. The first is the lower end of all sizes. Each other one is the upper end of a
    /// bucket, which holds the samples that are below it in every column and in no bucket before.
    Corners(Vec<Vec<f64>>),
    /// This number of intervals of size, at least 1, that pad least: the exact optimum when each
    /// sample is padded to its bucket's longest.
    Optimal(u64),
}

options! {
/// How to make a plan. [`budget`](Self::budget) or [`batch_size`](Self::batch_size) must be given;
/// with both, the smaller batch size is used.
///
/// ```
/// use libsab::{BucketRule, Plan, PlanOptions, Sizes, Tail};
///
/// let sizes = Sizes::from_fn(1000, |i| (i % 90) as f64)?;
/// let options = PlanOptions::new().budget(2048.0).bucket_rule(BucketRule::Optimal(6)).length_multiple(8.0).tail(Tail::Wrap);
/// assert_eq!(Plan::new(&sizes, &options)?.buckets().len(), 6);
/// # Ok::<(), libsab::Error>(())
/// ```
pub struct PlanOptions<'f>: sab_plan_options {
    boundaries: Vec<Vec<f64>>,
    length_multiples: Vec<f64>,
    separate_by: Vec<i64>,
    max_shapes: Vec<u64>,
    batch_sizes: Vec<u64>,
    budgets: Vec<Budget<'f>>,
    progress: Hook<ProgressFn<'f>>,
}
}

impl<'f> PlanOptions<'f> {
    setters! {
        /// [`BucketRule::Auto`], with [`max_shapes`](Self::max_shapes) only under
        /// [`ShapeRule::Auto`]: the largest share, in (0, 1), of padding among padded positions,
        /// and of batches over the lower bound; 0.01. Missed only if no buckets with the fewest
        /// batches that [`min_bucket_batches`](Self::min_bucket_batches) allows reach it.
        /// [`Report::target_met`] and [`Report::nearest_target`] report this.
        padding_target(share: f64) => padding_target = share;
        /// [`BucketRule::Auto`] without [`max_shapes`](Self::max_shapes) and [`ShapeRule::Auto`]:
        /// the fewest batches in a bucket, so that batch mates change from epoch to epoch. Among
        /// the longest 1 % of the samples a quarter of it, but not fewer than 4. 0, the default,
        /// stands for 16, fewer (down to 4) if the padding target is out of reach with 16, and at
        /// most a sixteenth of all batches. Buckets then have any number of batches, or are a tail
        /// only, where that saves more than a quarter of the batches or of the padded total.
        min_bucket_batches(batches: u64) => bucket_batches = batches;
        /// Most samples in a batch. No limit by default.
        max_batch_size(samples: u64) => max_batch_size = samples;
        /// Fewest samples in a batch, such as 2 for batch normalization; with [`BucketRule::Auto`]
        /// and without [`max_shapes`](Self::max_shapes). Samples that this leaves no room for are
        /// skipped, also under a lowered budget, and a last step in which ranks would get fewer is
        /// left out. No limit by default.
        min_batch_size(samples: u64) => min_batch_size = samples;
        /// Batch sizes from the budget are rounded down to a multiple of this, if at least one
        /// multiple fits; 1.
        batch_size_multiple(multiple: u64) => batch_size_multiple = multiple;
        /// How samples that do not fill a last batch are treated; [`Tail::Keep`].
        tail(tail: Tail) => tail = tail.raw();
        /// How samples that are too large are treated; [`Oversize::Error`].
        oversize(oversize: Oversize) => oversize = oversize.raw();
        /// [`BucketRule::Auto`]: how many shapes there are; [`ShapeRule::Any`].
        shapes(rule: ShapeRule) => shapes = rule.raw();
        /// Threads that sort the sizes, at most 256; 1. The plan is the same for any number.
        threads(threads: u64) => threads = threads;
    }

    /// Samples a batch, at least 1.
    pub fn batch_size(self, samples: u64) -> Self {
        self.batch_sizes([samples])
    }

    /// Lengths of all columns are padded to a multiple of this, such as 8 for tensor cores. No
    /// rounding by default.
    pub fn length_multiple(self, multiple: f64) -> Self {
        self.length_multiples([multiple])
    }

    array_setters! {
        /// The length multiple of each column; 0 for one whose lengths stay as they are.
        length_multiples: f64;
        /// An id for each sample: samples with different ids never share a batch, so each id has
        /// buckets of its own.
        ///
        /// ```
        /// use libsab::{Plan, PlanOptions, Sizes};
        ///
        /// let sizes = Sizes::copied(&[3u8, 5, 8, 8])?;
        /// let languages = [0, 1, 0, 1];
        /// let plan = Plan::new(&sizes, &PlanOptions::new().budget(16.0).separate_by(languages))?;
        /// assert_eq!(plan.buckets().iter().map(|bucket| bucket.id).collect::<Vec<_>>(), [0, 1]);
        /// # Ok::<(), libsab::Error>(())
        /// ```
        separate_by: i64;
    }

    /// [`separate_by`](Self::separate_by) with a text for each sample. The id of a text is its place
    /// among the distinct texts in their order, from 0.
    ///
    /// ```
    /// use libsab::{Plan, PlanOptions, Sizes};
    ///
    /// let sizes = Sizes::copied(&[3u8, 5, 8, 8])?;
    /// let options = PlanOptions::new().budget(16.0).separate_by_texts(&["en", "de", "en", "de"]);
    /// let ids: Vec<_> = Plan::new(&sizes, &options)?.buckets().iter().map(|bucket| bucket.id).collect();
    /// assert_eq!(ids, [0, 1]); // "de", "en"
    /// # Ok::<(), libsab::Error>(())
    /// ```
    pub fn separate_by_texts(mut self, texts: &[impl AsRef<str>]) -> Self {
        let mut distinct: Vec<&str> = texts.iter().map(AsRef::as_ref).collect();
        distinct.sort_unstable();
        distinct.dedup();
        let place = |text: &str| distinct.partition_point(|each| *each < text) as i64;
        self.separate_by = texts.iter().map(|text| place(text.as_ref())).collect();
        self
    }

    /// [`BucketRule::Auto`]: at most so many distinct (count, padded length), with the least
    /// padding, for compilers and CUDA graphs. Batches are then padded to their bucket's length. 0,
    /// the default: no limit.
    ///
    /// The tail that [`Tail::Keep`] leaves needs one shape, samples of [`Oversize::Single`] at
    /// least one. All samplers on the plan keep to [`Plan::shapes`], on any number of ranks. The
    /// batches under a lowered budget have shapes of their own, which may be more, and so has each
    /// epoch of a mixture: [`Sampler::shapes`](crate::Sampler::shapes).
    pub fn max_shapes(mut self, shapes: u64) -> Self {
        self.max_shapes = if shapes == 0 { Vec::new() } else { vec![shapes] };
        self
    }

    /// [`max_shapes`](Self::max_shapes) of each id of [`separate_by`](Self::separate_by), in
    /// ascending order of the ids. By default `max_shapes` are divided by the sizes of the ids'
    /// samples.
    pub fn id_shapes(mut self, shapes: impl IntoIterator<Item = u64>) -> Self {
        self.max_shapes = shapes.into_iter().collect();
        self
    }

    array_setters! {
        /// Samples a batch for each of the [`BucketRule::Boundaries`], ascending.
        batch_sizes: u64;
    }

    /// How the boundaries between buckets are found; [`BucketRule::Auto`].
    pub fn bucket_rule(mut self, rule: BucketRule) -> Self {
        self.raw.bucket_rule = match rule {
            BucketRule::Auto => sys::SAB_BUCKETS_AUTO,
            BucketRule::Boundaries(boundaries) => {
                self.boundaries = boundaries.into_iter().map(|each| vec![each]).collect();
                sys::SAB_BUCKETS_BOUNDARIES
            }
            BucketRule::Corners(corners) => {
                self.boundaries = corners;
                sys::SAB_BUCKETS_BOUNDARIES
            }
            BucketRule::Optimal(count) => {
                self.raw.bucket_count = usize::try_from(count).unwrap_or(usize::MAX);
                sys::SAB_BUCKETS_OPTIMAL
            }
        };
        self
    }

    budget_setters! {
        'f,
        /// A limit that each batch keeps: a number of padded tokens, or a [`Budget`] with a cost.
        /// The batches of a step have nearly the same cost by the first budget.
        ///
        /// ```
        /// use libsab::{Budget, Cost, PlanOptions};
        ///
        /// let tokens = PlanOptions::new().budget(16384.0);
        /// let pairs = Budget::new(1e6).cost(Cost::quadratic());
        /// let both = PlanOptions::new().budgets([Budget::new(16384.0), pairs]);
        /// ```
    }

    progress_setter!('f);
}

/// Which batches there are. Made once, before training.
///
/// Immutable and shareable between threads; a clone is the same plan. It needs 4 bytes a sample,
/// plus 12 a distinct size.
///
/// ```
/// use libsab::{Plan, PlanOptions, Sizes};
///
/// let plan = Plan::new(&Sizes::from_vec(vec![3u8, 5, 8])?, &PlanOptions::new().budget(16.0))?;
/// assert_eq!((plan.info().samples, plan.info().batches), (3, 2));
/// # Ok::<(), libsab::Error>(())
/// ```
#[derive(Clone)]
pub struct Plan {
    pub(crate) handle: Arc<PlanHandle>,
}

impl Plan {
    /// Makes a plan, in about the time of sorting the sizes by counting. The sizes are not needed
    /// afterwards.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for options or sizes that break a rule, and when no sample is left;
    /// [`Error::Callback`] from the cost closure; [`Error::Cancelled`] from the progress closure.
    pub fn new(sizes: &Sizes<'_>, options: &PlanOptions<'_>) -> Result<Self, Error> {
        PlanHandle::new(&sizes.handle, options).map(Self::own)
    }

    /// Makes a plan of a histogram. It has the same buckets as the plan of the same
    /// sizes, but no sample indices: [`Plan::locate`] tells the batches of its samples.
    ///
    /// # Errors
    ///
    /// As [`Plan::new`]; [`Error::Unsupported`] for a mixture without an epoch.
    pub fn of_histogram(histogram: &Histogram, options: &PlanOptions<'_>) -> Result<Self, Error> {
        PlanHandle::of_histogram(&histogram.handle, options).map(Self::own)
    }

    /// Tells where samples are in an epoch: the inverse of a
    /// [`Sampler::bucket`](crate::Sampler::bucket) with these options.
    ///
    /// `sources` has the source of each sample, if the plan is of an epoch of a mixture
    /// ([`Histogram::epoch`]), which must be that of the options. Otherwise it is `None`.
    /// `sizes` has the size of each sample; of several columns one for each column, sample by sample.
    /// `numbers` has the number of each sample within its size, such as of [`Histogram::number`].
    /// `which`: the number of the place that is asked for, of each sample; `None`: 0. Takes time in
    /// proportion to the buckets, so pass many samples at once.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for arrays of other lengths, and for a sample that the plan does not
    /// have; [`Error::Unsupported`] for a plan of several columns that is not of a histogram, and for
    /// a plan of ids or of a mixture.
    pub fn locate(
        &self,
        options: &SamplerOptions<'_>,
        sources: Option<&[u32]>,
        sizes: &[f64],
        numbers: &[u64],
        which: Option<&[u64]>,
    ) -> Result<Places, Error> {
        self.handle.locate(options, sources, sizes, numbers, which)
    }

    /// Reads a plan that [`Plan::save`] wrote into memory. All checksums are verified.
    ///
    /// # Errors
    ///
    /// [`Error::Io`]; [`Error::Format`] for a truncated, corrupted or foreign file;
    /// [`Error::NoMemory`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        of_file(path.as_ref(), PlanHandle::read).map(Self::own)
    }

    /// Maps a plan that [`Plan::save`] wrote: processes that map it share its memory. Only the
    /// header, the names and the budgets are read and verified, so the time does not depend on the
    /// number of samples. The first sampler reads the buckets. Each batch verifies the pages of
    /// 4 KiB that it reads; [`Plan::check`] reads everything.
    ///
    /// # Safety
    ///
    /// While the plan or a sampler on it lives, do not truncate the file (a read behind its end
    /// stops the process with SIGBUS) or write to it. To replace it, rename a new file over it, as
    /// [`Plan::save`] does.
    ///
    /// # Errors
    ///
    /// [`Error::Io`]; [`Error::Format`] for a truncated, corrupted or foreign file.
    #[allow(unsafe_code)]
    pub unsafe fn map(path: impl AsRef<Path>) -> Result<Self, Error> {
        // SAFETY: the caller's promise.
        unsafe { PlanHandle::map(path.as_ref()) }.map(Self::own)
    }

    /// Reads the whole plan, and verifies all checksums and rules.
    ///
    /// # Errors
    ///
    /// [`Error::Format`], with a message that names the section, the bytes or the rule;
    /// [`Error::NoMemory`]; [`Error::Unsupported`] for the plan of a mixture.
    pub fn check(&self) -> Result<(), Error> {
        self.handle.check()
    }

    /// The same plan in memory of its own, in huge pages where the system grants them. Batches of a
    /// plan with many samples in a mapped file take longer than those of its copy.
    ///
    /// ```
    /// # use libsab::{Plan, PlanOptions, Sizes};
    /// # let plan = Plan::new(&Sizes::copied(&[3u8, 5, 8])?, &PlanOptions::new().budget(16.0))?;
    /// plan.check()?;
    /// assert_eq!(plan.copy()?.info().fingerprint, plan.info().fingerprint);
    /// # Ok::<(), libsab::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Format`] for a damaged file; [`Error::NoMemory`]; [`Error::Unsupported`] for the
    /// plan of a mixture.
    pub fn copy(&self) -> Result<Self, Error> {
        self.handle.copy().map(Self::own)
    }

    /// Writes the plan to a file, which is replaced in one step: a crash leaves the old file or the
    /// new one.
    ///
    /// # Errors
    ///
    /// [`Error::Io`].
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        self.handle.save(path.as_ref())
    }

    /// Makes a plan from what [`Plan::to_bytes`] gave.
    ///
    /// ```
    /// # use libsab::{Plan, PlanOptions, Sizes};
    /// # let plan = Plan::new(&Sizes::copied(&[3u8, 5, 8])?, &PlanOptions::new().budget(16.0))?;
    /// let same = Plan::from_bytes(&plan.to_bytes()?)?;
    /// assert_eq!(same.info().fingerprint, plan.info().fingerprint);
    /// # Ok::<(), libsab::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Format`] for truncated, corrupted or foreign bytes.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Error> {
        PlanHandle::read(bytes).map(Self::own)
    }

    /// The plan's file image.
    pub fn to_bytes(&self) -> Result<Vec<u8>, Error> {
        self.handle.write()
    }

    /// Facts of the plan that no order changes.
    #[must_use]
    pub fn info(&self) -> PlanInfo {
        PlanInfo::of(&self.handle.info())
    }

    /// Name of each column of the sizes that the plan was made from; `None` for one without a name.
    #[must_use]
    pub fn column_names(&self) -> Vec<Option<String>> {
        self.handle.column_names()
    }

    /// The limits of the budgets that the plan was made with.
    #[must_use]
    pub fn budgets(&self) -> Vec<f64> {
        self.handle.budgets()
    }

    /// The buckets, in ascending order of size; of several columns of the cost of a sample. They are
    /// those of all epochs or, where there are [`second_buckets`](Self::second_buckets), of those
    /// with even numbers.
    #[must_use]
    pub fn buckets(&self) -> Vec<Bucket> {
        (0..self.info().buckets as usize).map(|index| self.handle.bucket(index)).collect()
    }

    /// The buckets of epochs with odd numbers, if these have buckets of their own, with other
    /// borders and as many batches; else none. Batches number them after those of
    /// [`buckets`](Self::buckets).
    #[must_use]
    pub fn second_buckets(&self) -> Vec<Bucket> {
        let PlanInfo { buckets, second_buckets, .. } = self.info();
        let numbers = buckets as usize..(buckets + second_buckets) as usize;
        numbers.map(|index| self.handle.bucket(index)).collect()
    }

    /// The shapes of the full batches and the tails of all buckets, the costliest first. With
    /// [`PlanOptions::max_shapes`] or [`ShapeRule::Auto`] batches have no others.
    ///
    /// ```
    /// use libsab::{Plan, PlanOptions, Sizes};
    ///
    /// let options = PlanOptions::new().budget(10.0).max_shapes(3);
    /// let plan = Plan::new(&Sizes::from_vec(vec![5u8, 3, 5, 4, 3, 4, 2])?, &options)?;
    /// let shapes: Vec<_> = plan.shapes().iter().map(|s| (s.count, s.padded_length[0])).collect();
    /// assert_eq!(shapes, [(2, 5.0), (3, 3.0)]);
    /// # Ok::<(), libsab::Error>(())
    /// ```
    #[must_use]
    pub fn shapes(&self) -> Vec<Shape> {
        self.handle.shapes()
    }

    /// The numbers of shapes that [`ShapeRule::Auto`] tried, and the padding with each.
    /// Plans of bytes and files do not have them.
    #[must_use]
    pub fn shape_paddings(&self) -> Vec<(u64, f64)> {
        self.handle.shape_paddings()
    }

    /// The samples that were left out, by ascending size.
    #[must_use]
    pub fn skipped(&self) -> Vec<i64> {
        self.handle.skipped()
    }

    /// Walks the epoch that the options name, and the next, in the order of a
    /// [`Sampler::bucket`](crate::Sampler::bucket), and measures them. Takes about the time of two
    /// epochs of batches, and 4 bytes a sample while it runs.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for options that break a rule.
    pub fn report(&self, options: &SamplerOptions<'_>) -> Result<Report, Error> {
        self.handle.report(options, None)
    }

    /// As [`Plan::report`], followed by `progress(done, total)`, which may stop it.
    ///
    /// # Errors
    ///
    /// Also [`Error::Cancelled`].
    pub fn report_with_progress(
        &self,
        options: &SamplerOptions<'_>,
        progress: impl FnMut(u64, u64) -> ControlFlow<()>,
    ) -> Result<Report, Error> {
        let progress = RefCell::new(progress);
        self.handle.report(options, Some(&progress))
    }

    /// Runs the `count` costliest batches before training, costliest first; 0 stands for 16. Returns
    /// how much memory they took. The caller clears the gradients.
    ///
    /// ```
    /// # use libsab::memory::Probe;
    /// # use libsab::{Plan, PlanOptions, Sizes};
    #[doc = include_str!("memory/toy.txt")]
    /// # let toy = Toy::new(3_000);
    /// # let plan = Plan::new(&Sizes::from_fn(1000, |i| (i % 90) as f64)?, &PlanOptions::new().budget(2048.0))?;
    /// let mut probe = Probe::from_device(&toy);
    /// let seen = plan.verify(&mut probe, 5, |batch| {
    ///     // forward and backward on batch.indices, padded to batch.padded_length
    /// #   toy.step(batch.padded_total() as u64)
    /// })?;
    /// println!("at most {} of {:?} bytes", seen.peak, seen.total);
    /// # assert_eq!((seen.batches, seen.total), (5, Some(3_000)));
    /// # Ok::<(), libsab::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::DeviceMemory`] when a batch runs out of memory, its shape in the message;
    /// [`Error::Callback`] from the closure.
    pub fn verify(
        &self,
        probe: &mut Probe<'_>,
        count: u64,
        mut run: impl FnMut(BatchRef<'_>) -> Result<(), StepError>,
    ) -> Result<Verification, Error> {
        self.handle.verify(&probe.handle, count, &mut run, None)
    }

    /// As [`Plan::verify`], followed by `progress(done, total)` before each batch, which may stop
    /// it.
    ///
    /// # Errors
    ///
    /// Also [`Error::Cancelled`].
    pub fn verify_with_progress(
        &self,
        probe: &mut Probe<'_>,
        count: u64,
        mut run: impl FnMut(BatchRef<'_>) -> Result<(), StepError>,
        progress: impl FnMut(u64, u64) -> ControlFlow<()>,
    ) -> Result<Verification, Error> {
        let progress = RefCell::new(progress);
        self.handle.verify(&probe.handle, count, &mut run, Some(&progress))
    }

    fn own(handle: PlanHandle) -> Self {
        Plan { handle: Arc::new(handle) }
    }
}

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plan").field("info", &self.info()).finish()
    }
}
