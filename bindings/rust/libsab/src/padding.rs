//! Samples of different shapes to one array, and back.

use sab_sys as sys;

pub use crate::choices::MaskRule;
use crate::error::Error;
use crate::options::setters;
use crate::raw::{self, Numbers};

/// Values of the padded elements.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Padding<'v, T> {
    /// One value.
    Constant(T),
    /// An array of values over some dimensions of the samples, ascending, such as the identity over
    /// dimensions 1 and 2 of rotations of shape (length, 3, 3). No sample may be shorter along them
    /// than the padded array.
    Array(&'v [T], &'v [usize]),
    /// Along each dimension the sample's last element; the value where a sample has none.
    Repeat(T),
}

/// Padding, and layout of the padded array.
///
/// ```
/// use libsab::{PadOptions, Padding};
///
/// let with_zeros: PadOptions<'_, i64> = PadOptions::default();
/// let on_one_thread = PadOptions::new(Padding::Constant(-100)).threads(1);
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct PadOptions<'v, T> {
    pub(crate) raw: Numbers<sys::sab_pad_options>,
    pub(crate) padding: Padding<'v, T>,
}

impl<T: Default> Default for PadOptions<'_, T> {
    fn default() -> Self {
        PadOptions::new(Padding::Constant(T::default()))
    }
}

impl<'v, T> PadOptions<'v, T> {
    /// Samples along the first dimension; as many threads as there are processors, of at least 1
    /// MiB each, which end before the call does.
    pub fn new(padding: Padding<'v, T>) -> Self {
        PadOptions { raw: Numbers::default(), padding }
    }

    setters! {
        /// Position of the dimension of samples in the padded array.
        batch_dim(batch_dim: usize) => batch_dim = batch_dim as u64;
        /// Most threads; 1: the calling one only.
        threads(threads: u64) => threads = threads;
    }
}

/// Shapes of samples whose elements lie end to end, each row-major, such as the tokens of
/// sentences.
///
/// ```
/// use libsab::{PadOptions, Padding, Shapes};
///
/// let tokens = [1, 2, 3, 4, 5, 6];
/// let sentences = Shapes::of_lengths(&[1, 3, 2])?;
/// let (padded, shape) = sentences.pad(&tokens, None, &PadOptions::new(Padding::Constant(0)))?;
/// assert_eq!((padded, shape), (vec![1, 0, 0, 2, 3, 4, 5, 6, 0], vec![3]));
/// # Ok::<(), libsab::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shapes {
    dimensions: usize,
    numbers: Vec<i64>,
    /// Elements before each sample, and of all.
    pub(crate) offsets: Vec<i64>,
}

impl Shapes {
    /// The shapes of all samples, `dimensions` numbers each, one after the other.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for a dimensions of 0 or above 16, numbers that are no multiple of it, or too
    /// many elements.
    pub fn new(dimensions: usize, shapes: &[usize]) -> Result<Self, Error> {
        if dimensions == 0 || dimensions > 16 || shapes.len() % dimensions != 0 {
            let given = shapes.len();
            return Err(Error::refused(
                "dimensions",
                dimensions,
                format!("must be from 1 to 16 and divide the number of shapes, {given}"),
            ));
        }
        let mut offsets = vec![0i64];
        for (number, shape) in shapes.chunks(dimensions).enumerate() {
            let own = shape
                .iter()
                .try_fold(1i64, |product, &size| product.checked_mul(i64::try_from(size).ok()?));
            let next = own.and_then(|own| offsets[number].checked_add(own));
            offsets.push(next.ok_or_else(|| {
                Error::refused(
                    format!("shapes[{number}]"),
                    format!("{shape:?}"),
                    "must keep all elements below 2^63",
                )
            })?);
        }
        Ok(Shapes { dimensions, numbers: raw::signed(shapes), offsets })
    }

    /// Sequences: samples of one dimension.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for too many elements.
    pub fn of_lengths(lengths: &[usize]) -> Result<Self, Error> {
        Self::new(1, lengths)
    }

    /// Number of samples.
    #[must_use]
    pub fn samples(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Number of all elements.
    #[must_use]
    pub fn elements(&self) -> usize {
        self.offsets[self.samples()] as usize
    }

    /// Dimensions of a sample.
    #[must_use]
    pub fn dimensions(&self) -> usize {
        self.dimensions
    }

    /// The shape of a sample. `None` for an index out of range.
    #[must_use]
    pub fn shape(&self, sample: usize) -> Option<Vec<usize>> {
        let shape = self.numbers.chunks(self.dimensions).nth(sample)?;
        Some(shape.iter().map(|&size| size as usize).collect())
    }

    pub(crate) fn all(&self) -> &[i64] {
        &self.numbers
    }

    /// Stacks samples in one row-major array, each padded at the end of its dimensions to the
    /// longest: those of `indices`, such as a group of a [`Grouping`](crate::Grouping), in this
    /// order, or all. Gives the array and the padded shape of a sample.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] when `values` are not as many as the shapes say, an index is out of
    /// range, or an option breaks a rule.
    pub fn pad<T: Copy>(
        &self,
        values: &[T],
        indices: Option<&[i64]>,
        options: &PadOptions<'_, T>,
    ) -> Result<(Vec<T>, Vec<usize>), Error> {
        self.check(values.len())?;
        raw::pad(self, values, indices, options)
    }

    /// Takes samples out of an array that [`pad`](Self::pad) made for the same `indices` and
    /// options: into their places in `values`, leaving others as they are.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] when lengths do not fit each other, or an index is out of range or there
    /// twice.
    pub fn unpad<T: Copy>(
        &self,
        padded: &[T],
        shape: &[usize],
        indices: Option<&[i64]>,
        options: &PadOptions<'_, T>,
        values: &mut [T],
    ) -> Result<(), Error> {
        self.check(values.len())?;
        raw::unpad(self, padded, shape, indices, options, values)
    }

    fn check(&self, values: usize) -> Result<(), Error> {
        if values == self.elements() {
            return Ok(());
        }
        let elements = self.elements();
        Err(Error::refused(
            "values.len()",
            values,
            format!("must be that of all shapes, {elements}"),
        ))
    }
}

/// The mask of padded samples: true for a sample's own places, of shape (samples, shape...).
///
/// `lengths` are those of the first sample along each dimension of `shape`, then of the second, and
/// so on.
///
/// ```
/// use libsab::{ragged_mask, MaskRule};
///
/// let mask = ragged_mask(&[1, 3], &[3], MaskRule::All)?;
/// assert_eq!(mask, [true, false, false, true, true, true]);
/// # Ok::<(), libsab::Error>(())
/// ```
///
/// # Errors
///
/// [`Error::Argument`] for a length above `shape`'s, or no or more than 16 dimensions.
pub fn ragged_mask(lengths: &[usize], shape: &[usize], rule: MaskRule) -> Result<Vec<bool>, Error> {
    raw::ragged_mask(lengths, shape, rule)
}
