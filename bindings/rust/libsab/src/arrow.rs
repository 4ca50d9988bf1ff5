use arrow_array::{Array, RecordBatch, RecordBatchReader, StructArray};

pub use crate::choices::NullRule;
use crate::error::Error;
use crate::options::{options, setters};
use crate::raw::SizesHandle;
use crate::sampler::Sampler;
use crate::sizes::{Sizes, TextUnit};

options! {
/// How Arrow arrays are read, such as by [`Sizes::from_arrow`].
pub struct SizesArrowOptions: sab_sizes_arrow_options {
    column: Option<String>,
}
}

impl SizesArrowOptions {
    setters! {
        /// What becomes of nulls; [`NullRule::Refuse`].
        nulls(rule: NullRule) => nulls = rule.raw();
        /// What the size of a text is; [`TextUnit::Bytes`]. Words are counted when the sizes are
        /// made, which copies their numbers.
        text_unit(unit: TextUnit) => text_unit = unit.raw();
    }

    /// The column of a struct or record batch, `"audio.frames"` for one in a struct. Not needed for
    /// the only column of one.
    pub fn column(mut self, column: impl Into<String>) -> Self {
        self.column = Some(column.into());
        self
    }
}

/// With the feature `arrow`.
impl Sizes<'static> {
    /// Sizes in an Arrow array, without a copy.
    ///
    /// A number is a size. Of a text (in UTF-8), a binary value and a list the length is the size;
    /// it is read from the offsets, and the values are not. These types are read: integers of 8 to
    /// 64 bits and floats; list, string and binary, also large, as views and of a fixed size; and
    /// dictionaries of all of these.
    ///
    /// The sizes share the array's memory, as an [`ArrayRef`](arrow_array::ArrayRef) does.
    ///
    /// ```
    /// use arrow_array::{Int32Array, StringArray};
    /// use libsab::{NullRule, Sizes, SizesArrowOptions};
    ///
    /// let texts = StringArray::from(vec!["twelve bytes", "seven B"]);
    /// assert_eq!(Sizes::from_arrow(&texts, &SizesArrowOptions::new())?.get(0)?, 12.0);
    ///
    /// let tokens = Int32Array::from(vec![Some(12), None, Some(30)]);
    /// let sizes = Sizes::from_arrow(&tokens, &SizesArrowOptions::new().nulls(NullRule::Zero))?;
    /// assert_eq!((sizes.len(), sizes.get(1)?), (3, 0.0));
    /// # Ok::<(), libsab::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for a column that does not exist (the message names those that do), a
    /// type without a size, or a null; [`Error::NoMemory`].
    pub fn from_arrow(array: &dyn Array, options: &SizesArrowOptions) -> Result<Self, Error> {
        Ok(Sizes { handle: SizesHandle::of_arrow(array, options)? })
    }

    /// Sizes in a column of a record batch, without a copy: see [`Sizes::from_arrow`].
    pub fn from_record_batch(
        batch: &RecordBatch,
        options: &SizesArrowOptions,
    ) -> Result<Self, Error> {
        Self::from_arrow(&StructArray::from(batch.clone()), options)
    }

    /// Sizes in a column of all batches of a reader, one after the other, without a copy: see
    /// [`Sizes::from_arrow`]. The batches are read during the call, and kept as long as the sizes.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use arrow_array::{ArrayRef, Int64Array, RecordBatch, RecordBatchIterator};
    /// use libsab::{Sizes, SizesArrowOptions};
    ///
    /// let column: ArrayRef = Arc::new(Int64Array::from(vec![12, 7]));
    /// let batch = RecordBatch::try_from_iter([("length", column)]).unwrap();
    /// let schema = batch.schema();
    /// let reader = RecordBatchIterator::new([batch.clone(), batch].map(Ok), schema);
    /// let sizes = Sizes::from_record_batch_reader(reader, &SizesArrowOptions::new().column("length"))?;
    /// assert_eq!((sizes.len(), sizes.get(3)?), (4, 7.0));
    /// # Ok::<(), libsab::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Sizes::from_arrow`]; [`Error::Callback`] with the reader's own error.
    pub fn from_record_batch_reader(
        reader: impl RecordBatchReader + Send + 'static,
        options: &SizesArrowOptions,
    ) -> Result<Self, Error> {
        Ok(Sizes { handle: SizesHandle::of_arrow_reader(reader, options)? })
    }
}

/// With the feature `arrow`.
impl<'a> Sampler<'a> {
    /// The batches that all ranks take in the current epoch, as record batches: for
    /// dataframes, SQL and Parquet.
    ///
    /// A row is a batch of one rank, ordered by step, then by micro-batch, then by rank.
    /// Its columns are `step`, `rank`, `batch` (its position among those of the rank),
    /// `indices` (a list) and `padded_length` (of several columns a list of a number each).
    /// Record batches are made while they are read, each of about 65,536 indices. The cursor
    /// stays where it is, and nothing that is done to the sampler changes them.
    ///
    /// ```
    /// use libsab::{Plan, PlanOptions, Sampler, SamplerOptions, Sizes};
    ///
    /// let plan = Plan::new(&Sizes::copied(&[30u8, 10, 20])?, &PlanOptions::new().batch_size(1))?;
    /// let sampler = Sampler::bucket(&plan, &SamplerOptions::new())?;
    /// let rows: usize = sampler.schedule()?.map(|batch| batch.unwrap().num_rows()).sum();
    /// assert_eq!(rows, 3);
    /// # Ok::<(), libsab::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] for a sampler without random access, and for a sharded sampler of several
    /// ranks, which does not know the samples of the others; [`Error::NoMemory`].
    pub fn schedule(&self) -> Result<impl RecordBatchReader + Send + 'a, Error> {
        self.handle.schedule()
    }
}
