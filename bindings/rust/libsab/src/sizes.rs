use std::cell::RefCell;
use std::fmt;
use std::io;
use std::ops::ControlFlow;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::path::Path;

use crate::error::{BoxError, Detail, Error};
use crate::raw::{path_text, SizesHandle};

mod sealed {
    pub trait Sealed {}
}

/// A number that a size can be: `i8` to `i64`, `u8` to `u64`, `f32`, `f64`.
pub trait Element:
    sealed::Sealed + Copy + Send + Sync + UnwindSafe + RefUnwindSafe + 'static
{
    #[doc(hidden)]
    const DTYPE: i32;
    #[doc(hidden)]
    fn from_bytes(bytes: &[u8]) -> Option<Self>;
}

macro_rules! elements {
    ($($number:ty => $dtype:ident),*) => {$(
        impl sealed::Sealed for $number {}
        impl Element for $number {
            const DTYPE: i32 = sab_sys::$dtype;
            fn from_bytes(bytes: &[u8]) -> Option<Self> {
                Some(<$number>::from_ne_bytes(bytes.try_into().ok()?))
            }
        }
    )*};
}
elements!(i8 => SAB_INT8, i16 => SAB_INT16, i32 => SAB_INT32, i64 => SAB_INT64,
          u8 => SAB_UINT8, u16 => SAB_UINT16, u32 => SAB_UINT32, u64 => SAB_UINT64,
          f32 => SAB_FLOAT32, f64 => SAB_FLOAT64);

/// The sizes of a data set, for as long as the memory under them is borrowed.
///
/// A size is any finite number from 0 to 2^53. NaN, infinity, negative numbers and larger ones are
/// refused, with index and value, when the sizes are read: by [`Plan::new`](crate::Plan::new),
/// [`create_buckets`] or a sampler over sizes. A size of zero costs as much as the smallest size
/// above zero, since an empty sample takes a row of its batch all the same. At most 4,294,967,295
/// samples.
///
/// ```
/// use libsab::Sizes;
///
/// let tokens = [12u16, 7, 30];
/// let sizes = Sizes::borrowed(&tokens)?;
/// assert_eq!((sizes.len(), sizes.get(2)?), (3, 30.0));
/// # Ok::<(), libsab::Error>(())
/// ```
pub struct Sizes<'a> {
    pub(crate) handle: SizesHandle<'a>,
}

impl<'a> Sizes<'a> {
    /// Sizes in memory, which is not copied: a plan copies what it needs, a
    /// [`BionemoSizeAwareSampler`](crate::BionemoSizeAwareSampler) goes on borrowing.
    ///
    /// ```compile_fail,E0597
    /// use libsab::{SamplerOptions, BionemoSizeAwareSampler, Sizes};
    ///
    /// let sampler = {
    ///     let lengths = vec![1u32, 2];
    ///     BionemoSizeAwareSampler::new(None, &Sizes::borrowed(&lengths).unwrap(), 9.0, &SamplerOptions::new()).unwrap()
    /// };
    /// sampler.count();
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for more samples than there may be.
    pub fn borrowed<T: Element>(data: &'a [T]) -> Result<Self, Error> {
        Self::strided(data, 1)
    }

    /// Every `step`-th element of `data`, from the first: the first column of a table of `step`
    /// columns. `step` is at least 1.
    ///
    /// ```
    /// let table = [12u32, 900, 7, 901, 30, 902];    // (size, something else) of three samples
    /// let sizes = libsab::Sizes::strided(&table, 2)?;
    /// assert_eq!((sizes.len(), sizes.get(1)?), (3, 7.0));
    /// # Ok::<(), libsab::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for a step of 0, or more samples than there may be.
    pub fn strided<T: Element>(data: &'a [T], step: usize) -> Result<Self, Error> {
        if step == 0 {
            return Err(Error::argument_error("step = 0: must be at least 1"));
        }
        Ok(Sizes { handle: SizesHandle::borrow(data, step)? })
    }

    /// Number of samples.
    #[must_use]
    pub fn len(&self) -> usize {
        self.handle.count()
    }

    /// Whether there are no samples.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The size of one sample.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for an index out of range or a size that breaks the rules of [`Sizes`].
    pub fn get(&self, index: usize) -> Result<f64, Error> {
        self.handle.get(index)
    }
}

impl Sizes<'static> {
    /// A copy of sizes in memory.
    ///
    /// # Errors
    ///
    /// As [`Sizes::borrowed`]; [`Error::NoMemory`].
    pub fn copied<T: Element>(data: &[T]) -> Result<Self, Error> {
        Ok(Sizes { handle: SizesHandle::copy(data)? })
    }

    /// Sizes that own their memory; nothing is copied.
    ///
    /// ```
    /// use libsab::{SamplerOptions, BionemoSizeAwareSampler, Sizes};
    ///
    /// let mut sampler = {
    ///     let sizes = Sizes::from_vec(vec![4u32, 3, 9])?;
    ///     BionemoSizeAwareSampler::new(None, &sizes, 9.0, &SamplerOptions::new())?
    /// };
    /// assert_eq!(sampler.iter_mut().count(), 2);
    /// # Ok::<(), libsab::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Sizes::borrowed`].
    pub fn from_vec<T: Element>(data: Vec<T>) -> Result<Self, Error> {
        Ok(Sizes { handle: SizesHandle::own(data)? })
    }

    /// Reads a NumPy `.npy` file of one dimension into memory.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] when it cannot be read; [`Error::Format`] when it is truncated, big-endian or
    /// not such a file; [`Error::NoMemory`].
    #[cfg(feature = "files")]
    pub fn open_npy(path: impl AsRef<Path>) -> Result<Self, Error> {
        Ok(Sizes { handle: of_file(path.as_ref(), SizesHandle::read_npy)? })
    }

    /// Maps a NumPy `.npy` file of one dimension: processes that map it share its memory.
    ///
    /// # Safety
    ///
    /// While the sizes or a sampler on them live, do not truncate the file (a read behind its
    /// end stops the process with SIGBUS) or write to it. To replace it, rename a new file over it.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] when it cannot be opened or mapped; [`Error::Format`] when it is truncated,
    /// big-endian or not such a file.
    #[cfg(feature = "files")]
    #[allow(unsafe_code)]
    pub unsafe fn map_npy(path: impl AsRef<Path>) -> Result<Self, Error> {
        // SAFETY: the caller's promise.
        Ok(Sizes { handle: unsafe { SizesHandle::map_npy(path.as_ref()) }? })
    }

    /// Asks a closure for each size, once, in ascending order.
    ///
    /// ```
    /// let words = ["a", "few", "words"];
    /// let sizes = libsab::Sizes::from_fn(words.len(), |i| words[i].len() as f64)?;
    /// assert_eq!(sizes.get(1)?, 3.0);
    /// # Ok::<(), libsab::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for a size that breaks the rules of [`Sizes`]; [`Error::NoMemory`].
    pub fn from_fn(count: usize, mut size: impl FnMut(usize) -> f64) -> Result<Self, Error> {
        Ok(Sizes { handle: SizesHandle::callback(count, |index| Ok(size(index)), None)? })
    }

    /// As [`Sizes::from_fn`], with a closure that may fail.
    ///
    /// ```
    /// let words = ["7", "12", "x"];
    /// let sizes = libsab::Sizes::try_from_fn(words.len(), |i| Ok(words[i].parse()?));
    /// assert!(matches!(sizes, Err(libsab::Error::Callback(_))));
    /// ```
    ///
    /// # Errors
    ///
    /// Also [`Error::Callback`] with the closure's own error.
    pub fn try_from_fn(
        count: usize,
        size: impl FnMut(usize) -> Result<f64, BoxError>,
    ) -> Result<Self, Error> {
        Ok(Sizes { handle: SizesHandle::callback(count, size, None)? })
    }

    /// As [`Sizes::try_from_fn`], followed by `progress(done, total)`, which may stop it.
    ///
    /// ```
    /// use std::ops::ControlFlow;
    ///
    /// let sizes = libsab::Sizes::try_from_fn_with_progress(
    ///     1_000_000,
    ///     |_| Ok(1.0),
    ///     |done, total| if 2 * done < total { ControlFlow::Continue(()) } else { ControlFlow::Break(()) },
    /// );
    /// assert!(matches!(sizes, Err(libsab::Error::Cancelled)));
    /// ```
    ///
    /// # Errors
    ///
    /// Also [`Error::Cancelled`].
    pub fn try_from_fn_with_progress(
        count: usize,
        size: impl FnMut(usize) -> Result<f64, BoxError>,
        progress: impl FnMut(u64, u64) -> ControlFlow<()>,
    ) -> Result<Self, Error> {
        let progress = RefCell::new(progress);
        Ok(Sizes { handle: SizesHandle::callback(count, size, Some(&progress))? })
    }
}

impl<T: Element> TryFrom<Vec<T>> for Sizes<'static> {
    type Error = Error;

    fn try_from(data: Vec<T>) -> Result<Self, Error> {
        Sizes::from_vec(data)
    }
}

/// Makes an object of the bytes of a file.
pub(crate) fn of_file<T>(
    path: &Path,
    make: impl FnOnce(&[u8]) -> Result<T, Error>,
) -> Result<T, Error> {
    path_text(path)?; // without a NUL, as wherever the library takes names
    let name = path.display();
    let refuse = |error: io::Error| {
        let text = format!("cannot read \"{name}\": {error}");
        match error.kind() {
            io::ErrorKind::OutOfMemory => Error::NoMemory(Detail::new(text)),
            kind => Error::Io(io::Error::new(kind, text)),
        }
    };
    if !std::fs::metadata(path).map_err(refuse)?.is_file() {
        return Err(Error::io(format!("cannot read \"{name}\": must be a regular file")));
    }
    make(&std::fs::read(path).map_err(refuse)?).map_err(|error| match error {
        Error::Format(detail) => Error::Format(Detail::new(format!("\"{name}\": {detail}"))),
        other => other,
    })
}

impl fmt::Debug for Sizes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sizes").field("len", &self.len()).finish()
    }
}

/// The intervals that [`create_buckets`] found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CreatedBuckets {
    /// Boundaries, ascending: interval `i` is `boundaries[i] .. boundaries[i + 1]`, the upper one
    /// not in it.
    pub boundaries: Vec<i64>,
    /// Samples in each interval.
    pub bucket_sizes: Vec<u64>,
}

/// Cuts whole-number sizes into the narrowest intervals that hold `min_bucket_count` samples each,
/// none wider than `max_width`.
///
/// Starting at the smallest size, an interval grows by one distinct size at a time. It ends when it
/// holds `min_bucket_count` samples or would become wider than `max_width`. A gap wider than
/// `max_width` gives empty intervals of exactly `max_width`.
///
/// ```
/// let lengths = [1i64, 2, 2, 3, 10, 11, 12];
/// let found = libsab::create_buckets(&libsab::Sizes::borrowed(&lengths)?, 5, 3)?;
/// assert_eq!(found.bucket_sizes.iter().sum::<u64>(), 7);
/// # Ok::<(), libsab::Error>(())
/// ```
///
/// # Errors
///
/// [`Error::Argument`] for sizes that are not of an integer type, no sizes, or a `max_width` or
/// `min_bucket_count` below 1.
pub fn create_buckets(
    sizes: &Sizes<'_>,
    max_width: i64,
    min_bucket_count: u64,
) -> Result<CreatedBuckets, Error> {
    let min_bucket_count = i64::try_from(min_bucket_count).unwrap_or(i64::MAX);
    let (boundaries, counts) = sizes.handle.create_buckets(max_width, min_bucket_count)?;
    let bucket_sizes = counts.into_iter().map(i64::unsigned_abs).collect();
    Ok(CreatedBuckets { boundaries, bucket_sizes })
}
