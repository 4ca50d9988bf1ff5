//! Streams: pipelines of records that can be stopped anywhere and resumed at the next record.
//!
//! A source gives records; stages map, group and shuffle them. Data larger than memory is read when
//! it is needed, and batches have records of similar sizes. A [state](Stream::state) of a few
//! kilobytes resumes at the next record, in this process or another, also on another number of
//! ranks.
//!
//! ```
//! use libsab::stream::{FilesOptions, ListOptions, Made, ReadaheadOptions, Stream};
//!
//! # let folder = std::env::temp_dir().join(format!("sab-stream-{}", std::process::id()));
//! # std::fs::create_dir_all(&folder)?;
//! # let chunks = [folder.join("a.txt"), folder.join("b.txt")];
//! # for (place, chunk) in chunks.iter().enumerate() {
//! #     let lines: Vec<String> = (0..300).map(|i| "word ".repeat(1 + (i * 7 + place) % 12)).collect();
//! #     std::fs::write(chunk, lines.join("\n"))?;
//! # }
//! let pipeline = |rank, world_size| {
//!     Stream::list(&chunks, &ListOptions::new().infinite(true).shuffle(true).seed(1))?    // 1: files, without end
//!         .files(&FilesOptions::new())?                                                   // 2: their lines
//!         .prefetch(10_000)?                                                              // 3: read in a thread
//!         .block_shuffle(1_000, 2)?                                                       // 4: shuffled in blocks
//!         .try_recurrent("0", |count, line| {                                             // 5: numbered
//!             let count: u64 = std::str::from_utf8(count)?.parse()?;
//!             let numbered = [count.to_string().as_bytes(), b" ", line.bytes()?].concat();
//!             Ok((Made::bytes((count + 1).to_string()), Made::bytes(numbered)))
//!         })?
//!         .try_random_map(3, |random, line| {                                             // 6: cropped at random
//!             let line = line.bytes()?;
//!             let keep = if random.real() < 0.1 { random.below(line.len() as u64) } else { line.len() as u64 };
//!             Ok(Made::bytes(&line[..keep as usize]))
//!         })?
//!         .try_map_parallel(2, |line| {                                                   // 7: measured, in two threads
//!             Ok(Made::same().sized(line.bytes()?.split(|byte| *byte == b' ').count() as f64))
//!         })?
//!         .readahead(&ReadaheadOptions::new().budget(256.0).read_ahead(500).carry_over(true))?  // 8: batches of like sizes
//!         .prefetch(16)?                                                                  // 9: made ahead
//!         .rank(rank, world_size)                                                         // 10: this rank's
//! };
//!
//! let mut stream = pipeline(0, 2)?;
//! for _ in 0..20 {
//!     let batch = stream.next().expect("there are always more")?;
//!     let lines = batch.records()?;
//!     let longest = lines.clone().next().map_or(0.0, |line| line.size());
//!     assert!(longest * lines.len() as f64 <= 256.0);
//! }
//!
//! let state = stream.state()?;                        // store it with the checkpoint
//! let mut resumed = pipeline(0, 4)?;                  // on four ranks now
//! resumed.restore(&state)?;
//! assert_eq!(resumed.owned().next().unwrap()?, stream.owned().next().unwrap()?);
//! # std::fs::remove_dir_all(&folder)?;
//! # Ok::<(), libsab::BoxError>(())
//! ```
//!
//! # Records
//!
//! A record is bytes, or a list of records; values of other kinds travel as the bytes that they are
//! written as. Each has a size, which is what batches count: its number of bytes where nothing else
//! was said, and of a list the sum.
//!
//! # Closures
//!
//! A closure gives a value, or, where the name of the method begins with `try_`, a result of it.
//!
//! Closures run in the thread that takes the records, but for [`Stream::map_parallel`], and for
//! those of a source or a stage under [`Stream::prefetch`]: these run in threads of the library,
//! one at a time. So all of them own what they use (`'static`) and are `Send`. They are dropped
//! with the stream. When a closure drops its own stream in such a thread, they are dropped in that
//! thread, after the closure has returned.
//!
//! A failure of a closure comes to the caller of [`Stream::next`] in the order of the records: an
//! error as [`Error::Callback`], a panic as a panic. The next call runs the closure again, with the
//! same record, so that nothing is lost. Closures must give the same result for the same record,
//! and keep no state of their own, or a restore gives other records. [`Stream::recurrent`] keeps a
//! state, [`Stream::random_map`] a random generator.
//!
//! With the same seed, the orders are those of infinibatch; random choices are those of Python's
//! `random.Random`.

use std::fmt;
use std::iter::FusedIterator;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use crate::choices::{Framing, MixUntil, OnError};
use crate::cost::Budget;
use crate::error::{BoxError, Error};
use crate::options::{options, setters, KeptHook};
use crate::raw::{certain, KeptBudget, NumberFn, RandomHandle, RecordView, SizesFn, StreamHandle};
use crate::sizes::Element;

// ---- records ------------------------------------------------------------------------------------

/// A record that belongs to a stream, which cannot move on while it is held.
///
/// ```
/// use libsab::stream::{ListOptions, Stream};
///
/// let mut batches = Stream::list(["a", "bc"], &ListOptions::new())?.batch(2)?;
/// let batch = batches.next().unwrap()?;
/// assert_eq!((batch.size(), batch.records()?.len()), (3.0, 2));
/// assert!(batch.bytes().is_err());
/// # Ok::<(), libsab::Error>(())
/// ```
#[derive(Clone, Copy)]
pub struct RecordRef<'a> {
    pub(crate) view: RecordView<'a>,
}

/// Contents of a record.
#[derive(Clone, Debug)]
pub enum Content<'a> {
    /// Bytes.
    Bytes(&'a [u8]),
    /// A list of records.
    List(Records<'a>),
}

impl<'a> RecordRef<'a> {
    /// Size, as batches count it.
    #[must_use]
    pub fn size(&self) -> f64 {
        self.view.size()
    }

    /// Whether it is bytes or a list.
    #[must_use]
    pub fn content(&self) -> Content<'a> {
        match self.view.bytes() {
            Some(bytes) => Content::Bytes(bytes),
            None => Content::List(Records { views: self.view.list().unwrap_or_default().iter() }),
        }
    }

    /// The bytes.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for a list.
    pub fn bytes(&self) -> Result<&'a [u8], Error> {
        self.view.bytes().ok_or_else(not_bytes)
    }

    /// The number that the bytes are, such as one of [`Stream::array`].
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for a list, or for bytes of another length than such a number.
    pub fn number<T: Element>(&self) -> Result<T, Error> {
        let bytes = self.bytes()?;
        T::from_bytes(bytes).ok_or_else(|| {
            let (length, wanted) = (bytes.len(), std::mem::size_of::<T>());
            Error::refused("record.len()", length, format!("must be {wanted} bytes"))
        })
    }

    /// The records of the list.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for bytes.
    pub fn records(&self) -> Result<Records<'a>, Error> {
        let views = self.view.list().ok_or_else(not_a_list)?;
        Ok(Records { views: views.iter() })
    }

    /// A copy.
    #[must_use]
    pub fn to_record(&self) -> Record {
        let size = self.size();
        match self.content() {
            Content::Bytes(bytes) => Record::Bytes { bytes: bytes.to_vec(), size },
            Content::List(records) => {
                Record::List { records: records.map(|record| record.to_record()).collect(), size }
            }
        }
    }
}

fn not_bytes() -> Error {
    Error::refused("record", "list", "must be bytes")
}

fn not_a_list() -> Error {
    Error::refused("record", "bytes", "must be a list")
}

impl fmt::Debug for RecordRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordRef")
            .field("size", &self.size())
            .field("content", &self.content())
            .finish()
    }
}

/// The records of a list, in order.
#[derive(Clone)]
pub struct Records<'a> {
    views: std::slice::Iter<'a, RecordView<'a>>,
}

impl<'a> Iterator for Records<'a> {
    type Item = RecordRef<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        self.views.next().map(|view| RecordRef { view: *view })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.views.size_hint()
    }
}

impl DoubleEndedIterator for Records<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.views.next_back().map(|view| RecordRef { view: *view })
    }
}

impl ExactSizeIterator for Records<'_> {}
impl FusedIterator for Records<'_> {}

impl fmt::Debug for Records<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.clone()).finish()
    }
}

/// An owned record, as [`Stream::owned`] gives it.
#[derive(Clone, Debug, PartialEq)]
pub enum Record {
    /// Bytes.
    Bytes {
        /// The bytes.
        bytes: Vec<u8>,
        /// Size, as batches count it.
        size: f64,
    },
    /// A list of records.
    List {
        /// The records.
        records: Vec<Record>,
        /// Size, as batches count it.
        size: f64,
    },
}

impl Record {
    /// Size, as batches count it.
    #[must_use]
    pub fn size(&self) -> f64 {
        match self {
            Record::Bytes { size, .. } | Record::List { size, .. } => *size,
        }
    }

    /// The bytes.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for a list.
    pub fn bytes(&self) -> Result<&[u8], Error> {
        match self {
            Record::Bytes { bytes, .. } => Ok(bytes),
            Record::List { .. } => Err(not_bytes()),
        }
    }

    /// The records of the list.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for bytes.
    pub fn records(&self) -> Result<&[Record], Error> {
        match self {
            Record::List { records, .. } => Ok(records),
            Record::Bytes { .. } => Err(not_a_list()),
        }
    }
}

/// Result of a closure for a record, or the record of a source.
///
/// ```
/// use libsab::stream::Made;
///
/// Made::bytes("four");                // of size 4
/// Made::bytes("four").sized(1.0);     // of size 1
/// Made::same().sized(1.0);            // the record as it is, of another size
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[must_use]
pub struct Made {
    pub(crate) bytes: Option<Vec<u8>>,
    pub(crate) size: Option<f64>,
}

impl Made {
    /// The record itself, which may be a list. From a source, no bytes.
    pub fn same() -> Self {
        Self::default()
    }

    /// Other bytes, whose number is the size.
    pub fn bytes(bytes: impl Into<Vec<u8>>) -> Self {
        Made { bytes: Some(bytes.into()), size: None }
    }

    /// The size, finite and not negative.
    pub fn sized(mut self, size: f64) -> Self {
        self.size = Some(size);
        self
    }
}

macro_rules! made_of_bytes {
    ($($(const $length:ident)? $bytes:ty),*) => {$(
        impl$(<const $length: usize>)? From<$bytes> for Made {
            fn from(bytes: $bytes) -> Self {
                Made::bytes(bytes)
            }
        }
    )*};
}
made_of_bytes!(Vec<u8>, &[u8], const N [u8; N], const N &[u8; N], String, &str);

macro_rules! made_of_others {
    ($($other:ident: $type:ty => $bytes:expr),*) => {$(
        impl From<$type> for Made {
            fn from($other: $type) -> Self {
                Made::bytes($bytes)
            }
        }
    )*};
}
made_of_others!(bytes: &Vec<u8> => bytes.as_slice(), text: &String => text.as_str(), text: &&str => *text,
                path: PathBuf => path.as_os_str().as_encoded_bytes(), path: &PathBuf => path.as_os_str().as_encoded_bytes(),
                path: &Path => path.as_os_str().as_encoded_bytes());

/// The random generator of [`Stream::random_map`], while its closure runs. It is part of the state.
pub struct Random<'a> {
    pub(crate) handle: RandomHandle<'a>,
}

impl Random<'_> {
    /// The next number in \[0, 1), as Python's `random()`.
    pub fn real(&mut self) -> f64 {
        self.handle.real()
    }

    /// The next whole number below `limit`, as Python's `randrange(limit)`; 0 below 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        loop {
            let drawn = self.handle.bits(u64::BITS - limit.leading_zeros());
            if drawn < limit || limit == 0 {
                return drawn;
            }
        }
    }

    /// So many random bits, 1 to 64, as a number, as Python's `getrandbits(bits)`; other numbers of
    /// bits give 0.
    pub fn bits(&mut self, bits: u32) -> u64 {
        self.handle.bits(bits)
    }
}

impl fmt::Debug for Random<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Random").finish_non_exhaustive()
    }
}

// ---- options ------------------------------------------------------------------------------------

options! {
/// Order and ranks of a list. By default once, by one rank.
#[derive(Copy)]
pub struct ListOptions: sab_list_stream_options {}
}

impl ListOptions {
    setters! {
        /// Whether the list is repeated without end. A list that ends gives each rank a consecutive
        /// block, so that the ranks in order give the list; one without end gives each rank every
        /// `world_size`-th record.
        infinite(wanted: bool) => infinite = i32::from(wanted);
        /// Whether each repetition has another order; only with `infinite`.
        shuffle(wanted: bool) => shuffle = i32::from(wanted);
        /// Seed of the orders.
        seed(seed: u64) => seed = seed;
        /// This rank, below the world size.
        rank(rank: u64) => rank = rank;
        /// Number of ranks; 1.
        world_size(ranks: u64) => world_size = ranks;
    }
}

options! {
/// Records and errors of files. By default lines of at most 64 MiB; a file that cannot be read is
/// an error.
#[derive(Copy)]
pub struct FilesOptions: sab_files_stream_options {}
}

impl FilesOptions {
    setters! {
        /// Separation of records; [`Framing::Lines`].
        framing(framing: Framing) => framing = framing.raw();
        /// Most bytes of a record; a longer one is an error of the file. 0: 64 MiB.
        max_record(bytes: u64) => max_record = bytes;
        /// Behaviour when a file cannot be read; [`OnError::Stop`].
        on_error(on_error: OnError) => on_error = on_error.raw();
        /// Threads that read and decompress files ahead, each a file of its own; at most 256.
        /// Records, errors and states are the same for any number. They hold at most 32 MiB of
        /// records for each. 0 (default): files are read in the thread that takes the records.
        readers(threads: u64) => readers = threads;
    }
}

options! {
/// Proportions and windows of [`Stream::mix`]. [`proportions`](Self::proportions) must be given. By
/// default the counts are exact over 1,000 records, and the mix ends with the first source.
pub struct MixOptions: sab_mix_stream_options {
    proportions: Vec<f64>,
}
}

impl MixOptions {
    setters! {
        /// Number of records over which the counts are exact, at most 2^32; 1,000.
        window(records: u64) => window = records;
        /// When the mix ends; [`MixUntil::First`].
        until(until: MixUntil) => until = until.raw();
    }

    /// Proportions of the records, one for each source, of any sum. A source with 0 is not read.
    pub fn proportions(mut self, proportions: impl IntoIterator<Item = f64>) -> Self {
        self.proportions = proportions.into_iter().collect();
        self
    }
}

options! {
/// Capacity and windows of [`Stream::pack`]. [`capacity`](Self::capacity) or
/// [`capacities`](Self::capacities) must be given. By default any number of records in a list,
/// windows of 10,000 records, lists shuffled by seed 0.
pub struct PackedOptions: sab_pack_stream_options {
    capacities: Vec<f64>,
    sizes_fn: KeptHook<SizesFn>,
}
}

impl PackedOptions {
    setters! {
        /// Most records in a list; 0: no limit.
        max_records(records: u64) => max_records = records;
        /// Records in a window; 10,000.
        read_ahead(records: u64) => read_ahead = records;
        /// Whether the lists of a window are shuffled.
        shuffle(wanted: bool) => no_shuffle = i32::from(!wanted);
        /// Seed of the shuffles.
        seed(seed: u64) => seed = seed;
        /// What becomes of records larger than the capacity; [`Oversize::Error`](crate::Oversize).
        /// Records that are skipped are counted by [`Stream::skipped`]; 10,000,000 in a row, or all,
        /// are an error. [`Oversize::Single`](crate::Oversize::Single) is refused.
        oversize(oversize: crate::Oversize) => oversize = oversize.raw();
    }

    /// Largest sum of the sizes in a list.
    pub fn capacity(mut self, capacity: f64) -> Self {
        self.capacities = vec![capacity];
        self
    }

    /// Largest sums of records with several sizes, 2 to 8, instead of a capacity. `sizes_fn` gives
    /// the sizes of a record, whole numbers. It runs once for each record that is read.
    ///
    /// ```
    /// use libsab::stream::{ListOptions, PackedOptions, Stream};
    ///
    /// let stream = Stream::array(&[[3u8, 1], [4, 9], [5, 2]].map(u16::from_ne_bytes), &ListOptions::new())?;
    /// let options = PackedOptions::new().try_capacities([8, 10], |record| Ok([record.bytes()?[0], record.bytes()?[1]].map(f64::from)));
    /// let lists: Vec<_> = stream.pack(&options)?.owned().collect::<Result<_, _>>()?;
    /// assert_eq!(lists.len(), 2);
    /// # Ok::<(), libsab::Error>(())
    /// ```
    pub fn capacities<const N: usize>(
        self,
        capacities: [u64; N],
        sizes_fn: impl Fn(RecordRef<'_>) -> [f64; N] + Send + Sync + 'static,
    ) -> Self {
        self.try_capacities(capacities, move |record| Ok(sizes_fn(record)))
    }

    /// As [`capacities`](Self::capacities), with a closure that may fail.
    pub fn try_capacities<const N: usize>(
        mut self,
        capacities: [u64; N],
        sizes_fn: impl Fn(RecordRef<'_>) -> Result<[f64; N], BoxError> + Send + Sync + 'static,
    ) -> Self {
        self.capacities = capacities.map(|each| each as f64).to_vec();
        self.sizes_fn = kept_sizes(sizes_fn);
        self
    }
}

/// The closure as the library needs it: it fills a slice of as many numbers.
fn kept_sizes<const N: usize>(
    function: impl Fn(RecordRef<'_>) -> Result<[f64; N], BoxError> + Send + Sync + 'static,
) -> KeptHook<SizesFn> {
    KeptHook(Some(Arc::new(move |record: RecordRef<'_>, sizes: &mut [f64]| {
        sizes.copy_from_slice(&function(record)?);
        Ok(())
    })))
}

options! {
/// Windows and limits of [`Stream::readahead`]. A budget, a batch size or a closure of batch sizes
/// must be given. By default windows of 10,000 records, whose batches are shuffled.
///
/// Stages share the closures with the options, and drop them with the stream.
pub struct ReadaheadOptions: sab_readahead_stream_options {
    batch_size_fn: KeptHook<NumberFn>,
    boundary_key_fn: KeptHook<NumberFn>,
    sizes_fn: KeptHook<SizesFn>,
    budgets: Vec<KeptBudget>,
}
}

impl ReadaheadOptions {
    setters! {
        /// Records in a window, which are kept in memory, at most 2^32; 10,000.
        read_ahead(records: u64) => read_ahead = records;
        /// Most records in a batch; 0: no limit.
        batch_size(records: u64) => batch_size = records;
        /// Whether the batches of a window are shuffled.
        shuffle(wanted: bool) => no_shuffle = i32::from(!wanted);
        /// Whether records that fit no batch well are carried over to the next window, at most half
        /// of one, for less padding. A restore then reads up to eight windows again.
        carry_over(wanted: bool) => carry_over = i32::from(wanted);
        /// Seed of the shuffles.
        seed(seed: u64) => seed = seed;
        /// What becomes of records larger than the budget; [`Oversize::Error`](crate::Oversize).
        /// Records that are skipped are counted by [`Stream::skipped`]; 10,000,000 in a row, or all,
        /// are an error.
        oversize(oversize: crate::Oversize) => oversize = oversize.raw();
    }

    /// Largest product of number and largest size in a batch; 0: no limit.
    pub fn budget(self, budget: f64) -> Self {
        self.budgets((budget != 0.0).then(|| Budget::new(budget)))
    }

    /// Most records in a batch whose largest is this one, at least 1. With several limits the
    /// smallest applies.
    pub fn batch_size_fn(
        self,
        function: impl Fn(RecordRef<'_>) -> u64 + Send + Sync + 'static,
    ) -> Self {
        self.try_batch_size_fn(move |largest| Ok(function(largest)))
    }

    /// As [`batch_size_fn`](Self::batch_size_fn), with a closure that may fail.
    pub fn try_batch_size_fn(
        mut self,
        function: impl Fn(RecordRef<'_>) -> Result<u64, BoxError> + Send + Sync + 'static,
    ) -> Self {
        self.batch_size_fn = KeptHook(Some(Arc::new(function)));
        self
    }

    /// Records of different keys never share a batch: it ends where the key changes in the order of
    /// sizes.
    pub fn boundary_key_fn(
        self,
        function: impl Fn(RecordRef<'_>) -> u64 + Send + Sync + 'static,
    ) -> Self {
        self.try_boundary_key_fn(move |record| Ok(function(record)))
    }

    /// As [`boundary_key_fn`](Self::boundary_key_fn), with a closure that may fail.
    pub fn try_boundary_key_fn(
        mut self,
        function: impl Fn(RecordRef<'_>) -> Result<u64, BoxError> + Send + Sync + 'static,
    ) -> Self {
        self.boundary_key_fn = KeptHook(Some(Arc::new(function)));
        self
    }

    /// Records have several sizes, 2 to 8, which the closure gives. It runs once for each record
    /// that is read. [`budget`](Self::budget) then limits the number times the sum of the largest
    /// sizes. Not with [`batch_size_fn`](Self::batch_size_fn) and
    /// [`boundary_key_fn`](Self::boundary_key_fn).
    ///
    /// ```
    /// use libsab::stream::{ListOptions, ReadaheadOptions, Stream};
    /// use libsab::{Budget, Cost};
    ///
    /// let pairs = Stream::list(["ab|x", "abcdef|xyz", "a|xy", "abcde|xyzw"], &ListOptions::new())?;
    /// let options = ReadaheadOptions::new()
    ///     .try_sizes_fn(|record| {
    ///         let both = std::str::from_utf8(record.bytes()?)?.split_once('|');
    ///         let (source, target) = both.ok_or("no pair")?;
    ///         Ok([source.len() as f64, target.len() as f64])
    ///     })
    ///     .budgets([Budget::new(20.0), Budget::new(8.0).cost(Cost::padded(&[0.0, 1.0]))])
    ///     .shuffle(false);
    /// assert_eq!(pairs.readahead(&options)?.owned().count(), 2);
    /// # Ok::<(), libsab::Error>(())
    /// ```
    pub fn sizes_fn<const N: usize>(
        self,
        function: impl Fn(RecordRef<'_>) -> [f64; N] + Send + Sync + 'static,
    ) -> Self {
        self.try_sizes_fn(move |record| Ok(function(record)))
    }

    /// As [`sizes_fn`](Self::sizes_fn), with a closure that may fail.
    pub fn try_sizes_fn<const N: usize>(
        mut self,
        function: impl Fn(RecordRef<'_>) -> Result<[f64; N], BoxError> + Send + Sync + 'static,
    ) -> Self {
        self.raw.columns = N;
        self.sizes_fn = kept_sizes(function);
        self
    }

    /// Limits of batches of records with several sizes, all of which hold. No cost may be a
    /// closure.
    pub fn budgets<'f>(mut self, budgets: impl IntoIterator<Item = Budget<'f>>) -> Self {
        self.budgets = budgets.into_iter().map(KeptBudget::of).collect();
        self
    }
}

// ---- sources ------------------------------------------------------------------------------------

/// The caller's own source, which can save its position.
///
/// ```
/// use libsab::stream::{Made, Source, Stream};
/// use libsab::BoxError;
///
/// /// The numbers below a limit.
/// struct Numbers {
///     next: u64,
///     limit: u64,
/// }
///
/// impl Source for Numbers {
///     fn next(&mut self) -> Result<Option<Made>, BoxError> {
///         self.next += 1;
///         Ok((self.next <= self.limit).then(|| Made::bytes((self.next - 1).to_string())))
///     }
///     fn rewind(&mut self) -> Result<(), BoxError> {
///         self.next = 0;
///         Ok(())
///     }
///     fn state(&self) -> Result<Vec<u8>, BoxError> {
///         Ok(self.next.to_le_bytes().to_vec())
///     }
///     fn restore(&mut self, state: &[u8]) -> Result<(), BoxError> {
///         self.next = u64::from_le_bytes(state.try_into()?);
///         Ok(())
///     }
/// }
///
/// let mut stream = Stream::from_source(Numbers { next: 0, limit: 3 })?;
/// assert_eq!(stream.owned().count(), 3);
/// # Ok::<(), libsab::Error>(())
/// ```
pub trait Source: Send {
    /// The next record; `None` at the end, and from then on. After an error it goes on where it
    /// failed.
    fn next(&mut self) -> Result<Option<Made>, BoxError>;
    /// Goes back to the first record.
    fn rewind(&mut self) -> Result<(), BoxError>;
    /// The position, as bytes.
    fn state(&self) -> Result<Vec<u8>, BoxError>;
    /// Goes on where a state was saved.
    fn restore(&mut self, state: &[u8]) -> Result<(), BoxError>;
}

/// A source that is begun again by another iterator. Its states count records.
struct Iterators<I, F> {
    begin: F,
    current: Option<std::iter::Fuse<I>>,
}

impl<I, F, M, E> Source for Iterators<I, F>
where
    I: Iterator<Item = Result<M, E>> + Send,
    F: FnMut() -> I + Send,
    M: Into<Made>,
    E: Into<BoxError>,
{
    fn next(&mut self) -> Result<Option<Made>, BoxError> {
        let current = self.current.get_or_insert_with(|| (self.begin)().fuse());
        current.next().transpose().map(|record| record.map(Into::into)).map_err(Into::into)
    }

    fn rewind(&mut self) -> Result<(), BoxError> {
        self.current = None;
        Ok(())
    }

    fn state(&self) -> Result<Vec<u8>, BoxError> {
        unreachable!("the library counts the records")
    }

    fn restore(&mut self, _: &[u8]) -> Result<(), BoxError> {
        unreachable!("the library counts the records")
    }
}

/// Records, one after the other: a source, or a stage over others.
///
/// A stage takes its source; where it refuses, the source is gone too. A stream is for one thread
/// at a time, and may move to another.
pub struct Stream {
    handle: StreamHandle,
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").field("skipped", &self.skipped()).finish_non_exhaustive()
    }
}

/// Sources.
impl Stream {
    /// The records of a list, such as file names.
    ///
    /// ```
    /// use libsab::stream::{ListOptions, Stream};
    ///
    /// let mut stream = Stream::list(["a", "b"], &ListOptions::new().infinite(true))?;
    /// let records: Vec<_> = stream.owned().take(3).map(|record| record.unwrap().bytes().unwrap().to_vec()).collect();
    /// assert_eq!(records, [b"a", b"b", b"a"]);
    /// # Ok::<(), libsab::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for options or sizes that break a rule, or an infinite list of nothing.
    pub fn list<M: Into<Made>>(
        records: impl IntoIterator<Item = M>,
        options: &ListOptions,
    ) -> Result<Self, Error> {
        let records: Vec<Made> = records.into_iter().map(Into::into).collect();
        Ok(Stream { handle: StreamHandle::list(&records, options)? })
    }

    /// The items of an array, as the bytes they are: see [`RecordRef::number`].
    ///
    /// ```
    /// use libsab::stream::{ListOptions, Stream};
    ///
    /// let mut stream = Stream::array(&[5u16, 6], &ListOptions::new())?;
    /// assert_eq!(stream.next().unwrap()?.number::<u16>()?, 5);
    /// # Ok::<(), libsab::Error>(())
    /// ```
    pub fn array<T: Element>(items: &[T], options: &ListOptions) -> Result<Self, Error> {
        Ok(Stream { handle: StreamHandle::array(items, options)? })
    }

    /// Items of iterators, one iterator for each repetition. A state counts records: a restore
    /// begins again and takes as many.
    ///
    /// ```
    /// use libsab::stream::Stream;
    ///
    /// let mut stream = Stream::from_fn(|| (0..10).map(|number| number.to_string()))?;
    /// stream.next().unwrap()?;
    /// let state = stream.state()?;
    /// stream.rewind()?;
    /// assert_eq!(stream.next().unwrap()?.bytes()?, b"0");
    /// stream.restore(&state)?;
    /// assert_eq!(stream.next().unwrap()?.bytes()?, b"1");
    /// # Ok::<(), libsab::Error>(())
    /// ```
    pub fn from_fn<M, I>(mut begin: impl FnMut() -> I + Send + 'static) -> Result<Self, Error>
    where
        M: Into<Made> + 'static,
        I: IntoIterator<Item = M> + 'static,
        I::IntoIter: Send,
    {
        Self::try_from_fn(move || begin().into_iter().map(Ok::<M, BoxError>))
    }

    /// As [`Stream::from_fn`], of iterators that may fail: the error comes back, and the next call
    /// goes on with what the iterator gives then.
    pub fn try_from_fn<M, E, I>(
        mut begin: impl FnMut() -> I + Send + 'static,
    ) -> Result<Self, Error>
    where
        M: Into<Made> + 'static,
        E: Into<BoxError> + 'static,
        I: IntoIterator<Item = Result<M, E>> + 'static,
        I::IntoIter: Send,
    {
        let source = Iterators { begin: move || begin().into_iter(), current: None };
        Ok(Stream { handle: StreamHandle::closures(source, false)? })
    }

    /// The caller's own source, which can save its position.
    pub fn from_source(source: impl Source + 'static) -> Result<Self, Error> {
        Ok(Stream { handle: StreamHandle::closures(source, true)? })
    }

    /// Random numbers in \[0, 1) without end, those of Python's `random.Random(seed).random()`:
    /// each the bytes of an `f64`, of that size.
    ///
    /// ```
    /// let mut stream = libsab::stream::Stream::random(5)?;
    /// let record = stream.next().unwrap()?;
    /// assert_eq!(record.number::<f64>()?, 0.6229016948897019);
    /// assert_eq!(record.size(), 0.6229016948897019);
    /// # Ok::<(), libsab::Error>(())
    /// ```
    pub fn random(seed: u64) -> Result<Self, Error> {
        Ok(Stream { handle: StreamHandle::random(seed)? })
    }
}

/// Stages: record by record.
impl Stream {
    /// The records of the files that the records name: plain, of gzip or of Zstandard, as their
    /// first bytes say. A restore seeks in a plain file, passes over whole frames of Zstandard, and
    /// reads gzip again up to the place.
    ///
    /// # Errors
    ///
    /// [`Error::NoMemory`]. Later, [`Stream::next`] gives [`Error::Io`] for a file that cannot be
    /// read; [`Error::Format`] for one that is damaged or whose record is too long;
    /// [`Error::Mismatch`] for one that has changed since it was read before.
    pub fn files(self, options: &FilesOptions) -> Result<Self, Error> {
        Ok(Stream { handle: self.handle.files(options)? })
    }

    /// Each record turned into another.
    ///
    /// ```
    /// use libsab::stream::{ListOptions, Made, Stream};
    ///
    /// let stream = Stream::list(["a", "bcd"], &ListOptions::new())?;
    /// let mut alike = stream.map(|_| Made::same().sized(1.0))?;
    /// assert_eq!(alike.next().unwrap()?.size(), 1.0);
    /// # Ok::<(), libsab::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::NoMemory`]. [`Stream::next`] then gives [`Error::Argument`] for a size that breaks
    /// the rule.
    pub fn map(
        self,
        mut function: impl FnMut(RecordRef<'_>) -> Made + Send + 'static,
    ) -> Result<Self, Error> {
        self.try_map(move |record| Ok(function(record)))
    }

    /// As [`Stream::map`], with a closure that may fail.
    ///
    /// ```
    /// use libsab::stream::{ListOptions, Made, Stream};
    ///
    /// let stream = Stream::list(["1", "x"], &ListOptions::new())?;
    /// let mut doubled = stream.try_map(|record| {
    ///     let number: u32 = std::str::from_utf8(record.bytes()?)?.parse()?;
    ///     Ok(Made::bytes((2 * number).to_string()))
    /// })?;
    /// assert_eq!(doubled.next().unwrap()?.bytes()?, b"2");
    /// assert!(matches!(doubled.next(), Some(Err(libsab::Error::Callback(_)))));
    /// # Ok::<(), libsab::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Stream::map`]; [`Stream::next`] also gives [`Error::Callback`].
    pub fn try_map(
        self,
        function: impl FnMut(RecordRef<'_>) -> Result<Made, BoxError> + Send + 'static,
    ) -> Result<Self, Error> {
        Ok(Stream { handle: self.handle.map(Box::new(function))? })
    }

    /// As [`Stream::map`], in so many threads at once, order kept. 0: in the thread that takes the
    /// records.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for more than 1024 threads.
    pub fn map_parallel(
        self,
        threads: u64,
        function: impl Fn(RecordRef<'_>) -> Made + Send + Sync + 'static,
    ) -> Result<Self, Error> {
        self.try_map_parallel(threads, move |record| Ok(function(record)))
    }

    /// As [`Stream::map_parallel`], with a closure that may fail.
    ///
    /// # Errors
    ///
    /// As [`Stream::map_parallel`]; [`Stream::next`] also gives [`Error::Callback`].
    pub fn try_map_parallel(
        self,
        threads: u64,
        function: impl Fn(RecordRef<'_>) -> Result<Made, BoxError> + Send + Sync + 'static,
    ) -> Result<Self, Error> {
        Ok(Stream { handle: self.handle.map_parallel(threads, Box::new(function))? })
    }

    /// The records of streams that a closure opens for the records, one stream after the other.
    /// They must end.
    ///
    /// ```
    /// use libsab::stream::{ListOptions, Stream};
    ///
    /// let stream = Stream::list(["a b", "c"], &ListOptions::new())?;
    /// let mut words = stream.select(|line| {
    ///     Ok(Some(Stream::list(line.bytes()?.split(|byte| *byte == b' '), &ListOptions::new())?))
    /// })?;
    /// assert_eq!(words.owned().count(), 3);
    /// # Ok::<(), libsab::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::NoMemory`]. [`Stream::next`] then gives [`Error::Callback`], and what the streams
    /// fail with.
    pub fn select(
        self,
        mut function: impl FnMut(RecordRef<'_>) -> Result<Option<Stream>, BoxError> + Send + 'static,
    ) -> Result<Self, Error> {
        let open = move |record: RecordRef<'_>| Ok(function(record)?.map(|stream| stream.handle));
        Ok(Stream { handle: self.handle.select(Box::new(open))? })
    }

    /// The records of lists, one by one; a record that is no list is passed on.
    pub fn flatten(self) -> Result<Self, Error> {
        Ok(Stream { handle: self.handle.flatten()? })
    }

    /// Each record turned into another, by steps that know a state: counters, running means, joins.
    /// A step is given its state, as bytes, and the record; it answers with the state that follows
    /// and what the record becomes. The state is part of the saved one.
    ///
    /// ```
    /// use libsab::stream::{ListOptions, Made, Stream};
    ///
    /// let stream = Stream::array(&[3u64, 4, 5], &ListOptions::new())?;
    /// let mut sums = stream.try_recurrent(0u64.to_ne_bytes(), |sum, record| {
    ///     let sum = u64::from_ne_bytes(sum.try_into()?) + record.number::<u64>()?;
    ///     Ok((Made::bytes(sum.to_ne_bytes()), Made::bytes(sum.to_ne_bytes())))
    /// })?;
    /// sums.next().unwrap()?;
    /// sums.next().unwrap()?;
    /// assert_eq!(sums.next().unwrap()?.number::<u64>()?, 12);
    /// # Ok::<(), libsab::Error>(())
    /// ```
    pub fn recurrent(
        self,
        initial: impl AsRef<[u8]>,
        mut step: impl FnMut(&[u8], RecordRef<'_>) -> (Made, Made) + Send + 'static,
    ) -> Result<Self, Error> {
        self.try_recurrent(initial, move |state, record| Ok(step(state, record)))
    }

    /// As [`Stream::recurrent`], with steps that may fail.
    pub fn try_recurrent(
        self,
        initial: impl AsRef<[u8]>,
        step: impl FnMut(&[u8], RecordRef<'_>) -> Result<(Made, Made), BoxError> + Send + 'static,
    ) -> Result<Self, Error> {
        Ok(Stream { handle: self.handle.recurrent(initial.as_ref(), Box::new(step))? })
    }

    /// Each record turned into another at random, such as a sample of it or noise added. The random
    /// generator is part of the saved state.
    pub fn random_map(
        self,
        seed: u64,
        mut function: impl FnMut(&mut Random<'_>, RecordRef<'_>) -> Made + Send + 'static,
    ) -> Result<Self, Error> {
        self.try_random_map(seed, move |random, record| Ok(function(random, record)))
    }

    /// As [`Stream::random_map`], with a closure that may fail.
    pub fn try_random_map(
        self,
        seed: u64,
        function: impl FnMut(&mut Random<'_>, RecordRef<'_>) -> Result<Made, BoxError> + Send + 'static,
    ) -> Result<Self, Error> {
        Ok(Stream { handle: self.handle.random_map(seed, Box::new(function))? })
    }
}

/// Stages: several streams.
impl Stream {
    /// Lists of a record of each source; ends with the first that ends.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for no sources.
    pub fn zip(sources: impl IntoIterator<Item = Stream>) -> Result<Self, Error> {
        Ok(Stream {
            handle: StreamHandle::zip(sources.into_iter().map(|source| source.handle).collect())?,
        })
    }

    /// Records of several sources, mixed as a control stream says: the size of its next record,
    /// without its fraction, is the number of the source that is next. Ends when the control stream
    /// or the source that is next ends.
    ///
    /// ```
    /// use libsab::stream::{ListOptions, Made, Stream};
    ///
    /// let for_ever = ListOptions::new().infinite(true);
    /// let control = Stream::random(1)?.map(|number| Made::same().sized(if number.size() < 0.9 { 0.0 } else { 1.0 }))?;
    /// let mut mixed = control.multiplex([Stream::list(["often"], &for_ever)?, Stream::list(["seldom"], &for_ever)?])?;
    /// let often = mixed.owned().take(1000).filter(|record| record.as_ref().unwrap().bytes().unwrap() == b"often").count();
    /// assert!((850..950).contains(&often));
    /// # Ok::<(), libsab::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for no sources. [`Stream::next`] then gives it for a number of no
    /// source.
    pub fn multiplex(self, sources: impl IntoIterator<Item = Stream>) -> Result<Self, Error> {
        let all = std::iter::once(self).chain(sources).map(|stream| stream.handle).collect();
        Ok(Stream { handle: StreamHandle::multiplex(all)? })
    }

    /// Mixes the records of several sources by proportions, with exact counts and without random
    /// numbers. After any number of records, each source has given its proportion of them to less
    /// than one record. If proportion * window is a whole number, each window has so many records.
    /// Otherwise the remainders are carried into the next windows.
    ///
    /// The order is even and always the same. [`Stream::block_shuffle`] with the window shuffles it
    /// and keeps the counts of each window.
    ///
    /// ```
    /// use libsab::stream::{ListOptions, MixOptions, Stream};
    ///
    /// let for_ever = ListOptions::new().infinite(true);
    /// let sources = [Stream::list(["often"], &for_ever)?, Stream::list(["seldom"], &for_ever)?];
    /// let mut mixed = Stream::mix(sources, &MixOptions::new().proportions([0.9, 0.1]).window(10))?;
    /// let often = mixed.owned().take(1000).filter(|record| record.as_ref().unwrap().bytes().unwrap() == b"often").count();
    /// assert_eq!(often, 900);
    /// # Ok::<(), libsab::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for no sources, for proportions that are not one for each source, that
    /// are negative or not finite or whose sum is 0, and for a window of 0.
    pub fn mix(
        sources: impl IntoIterator<Item = Stream>,
        options: &MixOptions,
    ) -> Result<Self, Error> {
        let sources = sources.into_iter().map(|source| source.handle).collect();
        Ok(Stream { handle: StreamHandle::mix(sources, options)? })
    }

    /// Every `world_size`-th record, those of this rank, of a source that is the same on all ranks.
    /// All ranks see as many records: where the last round has not one for each, the ranks that go
    /// short get an empty list. Where it is the last stage, or only maps come after it, a state may
    /// be restored with another rank and world size.
    ///
    /// Each rank reads everything up to here, so what is costly comes after.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for a rank at or over the world size.
    pub fn rank(self, rank: u64, world_size: u64) -> Result<Self, Error> {
        Ok(Stream { handle: self.handle.rank(rank, world_size)? })
    }
}

/// Stages: groups, shuffles and threads.
impl Stream {
    /// Lists of so many consecutive records; the last one may be shorter.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for 0.
    pub fn batch(self, batch_size: u64) -> Result<Self, Error> {
        Ok(Stream { handle: self.handle.batch(batch_size)? })
    }

    /// Lists of so many consecutive records, each one record further: a sliding window. None when
    /// there are fewer records.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for 0, or more than 2^32.
    pub fn window(self, width: u64) -> Result<Self, Error> {
        Ok(Stream { handle: self.handle.window(width)? })
    }

    /// Blocks of consecutive records, each block shuffled; a block of 1 to 2^32 is kept in memory.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for another block size.
    pub fn block_shuffle(self, size: u64, seed: u64) -> Result<Self, Error> {
        Ok(Stream { handle: self.handle.shuffle(sab_sys::SAB_SHUFFLE_BLOCKS, size, seed)? })
    }

    /// Each record takes a random place in a buffer of 1 to 2^32, and what was there goes on. The
    /// state holds the buffer's records.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for another buffer size.
    pub fn buffered_shuffle(self, size: u64, seed: u64) -> Result<Self, Error> {
        Ok(Stream { handle: self.handle.shuffle(sab_sys::SAB_SHUFFLE_BUFFER, size, seed)? })
    }

    /// Batches, as lists, of records of like size: reads a window, sorts it by size, largest first,
    /// cuts it into batches and shuffles them.
    ///
    /// ```
    /// use libsab::stream::{ListOptions, ReadaheadOptions, Stream};
    ///
    /// let stream = Stream::list(["aaaa", "b", "cccc", "d"], &ListOptions::new())?;
    /// let mut batches = stream.readahead(&ReadaheadOptions::new().budget(8.0).shuffle(false))?;
    /// let first: Vec<_> = batches.next().unwrap()?.records()?.map(|record| record.bytes().unwrap()).collect();
    /// assert_eq!(first, [b"aaaa", b"cccc"]);
    /// # Ok::<(), libsab::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for options that break a rule, or no limit.
    pub fn readahead(self, options: &ReadaheadOptions) -> Result<Self, Error> {
        Ok(Stream { handle: self.handle.readahead(options)? })
    }

    /// Lists of records whose sizes sum to nearly the capacity: rows for packed training. A window
    /// is packed by best-fit decreasing; what fills no list waits for the next window.
    ///
    /// ```
    /// use libsab::stream::{ListOptions, PackedOptions, Stream};
    ///
    /// let stream = Stream::list(["aaaa", "b", "cc", "ddd", "ee"], &ListOptions::new())?;
    /// let mut rows = stream.pack(&PackedOptions::new().capacity(6.0).shuffle(false))?;
    /// let first: Vec<_> = rows.next().unwrap()?.records()?.map(|record| record.bytes().unwrap()).collect();
    /// assert_eq!(first, [b"aaaa".as_slice(), b"cc"]);
    /// # Ok::<(), libsab::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for options that break a rule; later, for a record larger than the
    /// capacity.
    pub fn pack(self, options: &PackedOptions) -> Result<Self, Error> {
        Ok(Stream { handle: self.handle.pack(options)? })
    }

    /// The same records, taken ahead of time by a thread: at most so many, 1 to 2^32. It begins
    /// with the first record that is taken, and runs all that is under it.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for another buffer size.
    pub fn prefetch(self, buffer_size: u64) -> Result<Self, Error> {
        Ok(Stream { handle: self.handle.prefetch(buffer_size)? })
    }
}

/// Methods of all streams.
impl Stream {
    /// The next record, borrowed from the stream: nothing is copied. `None` when there are no more,
    /// and from then on. After a failure it can be called again, and goes on where it failed.
    ///
    /// ```
    /// # let mut stream = libsab::stream::Stream::from_fn(|| ["one", "two"])?;
    /// while let Some(record) = stream.next() {
    ///     assert_eq!(record?.bytes()?.len(), 3);
    /// }
    /// # Ok::<(), libsab::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Failures of a source or a stage, its closures included; [`Error::Cancelled`].
    #[allow(clippy::should_implement_trait)] // the items of an Iterator cannot borrow from it
    pub fn next(&mut self) -> Option<Result<RecordRef<'_>, Error>> {
        Some(self.handle.next()?.map(|view| RecordRef { view }))
    }

    /// The records to come as an iterator, each copied.
    pub fn owned(&mut self) -> Owned<'_> {
        Owned { stream: self }
    }

    /// State of the stream, sources and stages together, threads included. Small (2.5 KiB for
    /// each stage that draws at random, 16 bytes for each file that was read), but for a buffered
    /// shuffle, whose records are in it.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] while [`Stream::next`] has failed in the middle of what it makes and has
    /// not been called again; [`Error::Callback`] from a [`Source`].
    pub fn state(&mut self) -> Result<Vec<u8>, Error> {
        self.handle.state()
    }

    /// Goes on where a [state](Stream::state) was saved, by this or another process. At most one
    /// buffer of each stage is read again. The pipeline must have been made alike; lists may have
    /// grown at their end, and ranks may be others in [`Stream::rank`].
    ///
    /// # Errors
    ///
    /// [`Error::Format`] for truncated, damaged or foreign bytes; [`Error::Mismatch`] when the
    /// state belongs to another pipeline, or a list or a file has changed since;
    /// [`Error::Callback`] and [`Error::Cancelled`]. After a failure the stream stands at its
    /// beginning.
    pub fn restore(&mut self, state: &[u8]) -> Result<(), Error> {
        self.handle.restore(state)
    }

    /// Goes back to the first record, of the first epoch.
    ///
    /// # Errors
    ///
    /// [`Error::Callback`] from a [`Source`].
    pub fn rewind(&mut self) -> Result<(), Error> {
        self.handle.rewind()
    }

    /// Number of files skipped by [`OnError::Skip`], and of records skipped by
    /// [`Oversize::Skip`](crate::Oversize::Skip), since the stream was made.
    #[must_use]
    pub fn skipped(&self) -> u64 {
        certain(self.handle.skipped())
    }

    /// Reports the progress of long calls, and may cancel them. `progress(done, total)` is called
    /// from time to time while a record is taken or a state is restored, in the same thread. Its
    /// numbers are the records of the window read so far and the size of the window (0 if there is
    /// none). A stage over the stream keeps its progress closure, and a stage over several streams
    /// keeps all of them.
    pub fn set_progress(
        &mut self,
        progress: impl FnMut(u64, u64) -> ControlFlow<()> + Send + 'static,
    ) {
        self.handle.set_progress(Some(Box::new(progress)));
    }

    /// Removes the progress closure.
    pub fn clear_progress(&mut self) {
        self.handle.set_progress(None);
    }
}

/// The records to come, copied: see [`Stream::owned`].
#[derive(Debug)]
pub struct Owned<'s> {
    stream: &'s mut Stream,
}

impl Iterator for Owned<'_> {
    type Item = Result<Record, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.stream.next()?.map(|record| record.to_record()))
    }
}

impl FusedIterator for Owned<'_> {}
