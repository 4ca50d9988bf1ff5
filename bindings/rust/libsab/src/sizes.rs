use std::cell::RefCell;
use std::fmt;
use std::io;
use std::ops::ControlFlow;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::path::Path;

#[cfg(any(feature = "arrow", feature = "files"))]
pub use crate::choices::TextUnit;
use crate::columns::PerColumn;
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
/// [`create_buckets`] or a sampler over sizes. A size of zero costs what the cost of a length of 0
/// is: of a padded total nothing. At most 4,294,967,295 samples.
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
    /// Sizes in memory, which is not copied: a plan copies what it needs,
    /// [`Sampler::ordered`](crate::Sampler::ordered) goes on borrowing.
    ///
    /// ```compile_fail,E0597
    /// use libsab::{Sampler, SamplerOptions, Sizes};
    ///
    /// let sampler = {
    ///     let lengths = vec![1u32, 2];
    ///     Sampler::ordered(None, &Sizes::borrowed(&lengths).unwrap(), 9.0, &SamplerOptions::new()).unwrap()
    /// };
    /// sampler.tell();
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
            return Err(Error::refused("step", "0", "must be at least 1"));
        }
        Ok(Sizes { handle: SizesHandle::borrow(data, step)? })
    }

    /// The sizes of several parts, one after the other, without a copy.
    ///
    /// ```
    /// use libsab::Sizes;
    ///
    /// let tokens = [12u16, 7];
    /// let sizes = Sizes::join(&[&Sizes::borrowed(&tokens)?, &Sizes::from_vec(vec![3.5])?])?;
    /// assert_eq!((sizes.len(), sizes.get(2)?), (3, 3.5));
    /// assert_eq!(sizes.source(2)?, (1, 0));    // the first row of the second part
    /// # Ok::<(), libsab::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for more samples than there may be; [`Error::NoMemory`].
    pub fn join(parts: &[&Sizes<'a>]) -> Result<Self, Error> {
        let parts: Vec<_> = parts.iter().map(|part| &part.handle).collect();
        Ok(Sizes { handle: SizesHandle::join(&parts)? })
    }

    /// Samples with several sizes, such as the lengths of source and target of each pair: one column
    /// a size, with its name, at most 8. Nothing is copied.
    ///
    /// ```
    /// use libsab::Sizes;
    ///
    /// let (source, target) = (Sizes::copied(&[12u16, 7])?, Sizes::copied(&[10u16, 9])?);
    /// let pairs = Sizes::columns(&[("source", &source), ("target", &target)])?;
    /// assert_eq!((pairs.len(), pairs.row(1)?[..].to_vec()), (2, vec![7.0, 9.0]));
    /// assert_eq!(pairs.column_values(1)?, [10.0, 9.0]);
    /// # Ok::<(), libsab::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for no columns or over 8, and for columns of different numbers of samples
    /// or with several columns themselves. A name must not be empty, over 63 bytes, or there twice.
    pub fn columns(columns: &[(&str, &Sizes<'a>)]) -> Result<Self, Error> {
        let columns: Vec<_> = columns.iter().map(|&(name, each)| (name, &each.handle)).collect();
        Ok(Sizes { handle: SizesHandle::columns(&columns)? })
    }

    /// Number of columns.
    #[must_use]
    pub fn column_count(&self) -> usize {
        self.handle.column_count()
    }

    /// Name of each column; `None` for the only column of other sizes than those of
    /// [`columns`](Self::columns).
    #[must_use]
    pub fn column_names(&self) -> Vec<Option<String>> {
        self.handle.column_names()
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
    /// [`Error::Argument`] for an index out of range, a size that breaks the rules of [`Sizes`], and
    /// sizes of several columns, which [`row`](Self::row) reads.
    pub fn get(&self, index: usize) -> Result<f64, Error> {
        self.check_one_column("row()")?;
        Ok(self.handle.get(index)?[0])
    }

    /// The sizes of one sample, one a column.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for an index out of range or a size that breaks the rules of [`Sizes`].
    pub fn row(&self, index: usize) -> Result<PerColumn<f64>, Error> {
        self.handle.get(index)
    }

    /// The sizes of all samples.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for a size that breaks the rules of [`Sizes`], and for sizes of several
    /// columns, which [`column_values`](Self::column_values) reads.
    pub fn values(&self) -> Result<Vec<f64>, Error> {
        self.check_one_column("column_values()")?;
        self.handle.values(0)
    }

    /// The sizes of all samples in a column, by its number.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for a column that does not exist or a size that breaks the rules of
    /// [`Sizes`].
    pub fn column_values(&self, column: usize) -> Result<Vec<f64>, Error> {
        self.handle.values(column)
    }

    fn check_one_column(&self, instead: &str) -> Result<(), Error> {
        match self.column_count() {
            1 => Ok(()),
            count => Err(Error::argument_error(format!(
                "sizes have {count} columns: must have one; {instead} reads several"
            ))),
        }
    }

    /// Where a sample is: the part of [`Sizes::join`] and the row in it. Sizes that were not joined
    /// are part 0.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for an index out of range.
    pub fn source(&self, index: usize) -> Result<(usize, usize), Error> {
        self.handle.source(index)
    }

    /// Text that says what the sizes were read from. It is meant for people, and may change in any
    /// release.
    ///
    /// ```
    /// let sizes = libsab::Sizes::from_vec(vec![12u32, 7])?;
    /// assert_eq!(sizes.description(), "array of uint32: 2 sizes");
    /// # Ok::<(), libsab::Error>(())
    /// ```
    #[must_use]
    pub fn description(&self) -> String {
        self.handle.description()
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
    /// use libsab::{Sampler, SamplerOptions, Sizes};
    ///
    /// let mut sampler = {
    ///     let sizes = Sizes::from_vec(vec![4u32, 3, 9])?;
    ///     Sampler::ordered(None, &sizes, 9.0, &SamplerOptions::new())?
    /// };
    /// assert_eq!(sampler.iter_mut().count(), 2);
    /// # Ok::<(), libsab::Error>(())
    /// ```
    pub fn from_vec<T: Element>(data: Vec<T>) -> Result<Self, Error> {
        Ok(Sizes { handle: SizesHandle::own(data)? })
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
            _ => Error::of_system(text, Some(error)),
        }
    };
    let facts = std::fs::metadata(path).map_err(refuse)?;
    if !facts.is_file() && !facts.is_dir() {
        let text = format!("cannot read \"{name}\": must be a regular file");
        return Err(Error::of_system(text, None)); // it may never end
    }
    make(&std::fs::read(path).map_err(refuse)?).map_err(|error| match error {
        Error::Format(detail) => Error::Format(detail.in_file(&name.to_string())),
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
