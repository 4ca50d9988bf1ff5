//! Arrow arrays, which cross by Arrow's C interfaces.

use std::marker::PhantomData;
use std::mem::size_of;
use std::sync::Mutex;

use arrow_array::ffi::{to_ffi, FFI_ArrowArray, FFI_ArrowSchema};
#[allow(deprecated)] // version 60 has another name for it, which earlier ones do not know
use arrow_array::ffi_stream::ArrowArrayStreamReader;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{Array, RecordBatchIterator, RecordBatchReader};

use super::*;
use crate::arrow::SizesArrowOptions;

// Arrow's structs and those of the library are the same ones.
const _: () = assert!(size_of::<FFI_ArrowArray>() == size_of::<sys::ArrowArray>());
const _: () = assert!(size_of::<FFI_ArrowSchema>() == size_of::<sys::ArrowSchema>());
const _: () = assert!(size_of::<FFI_ArrowArrayStream>() == size_of::<sys::ArrowArrayStream>());

/// A reader whose first error or panic is kept for the caller of the library.
struct Kept<R> {
    /// `None` while it is dropped.
    reader: Option<R>,
    failure: Arc<Mutex<Option<Failure>>>,
}

impl<R: RecordBatchReader> Iterator for Kept<R> {
    type Item = R::Item;

    fn next(&mut self) -> Option<R::Item> {
        let reader = self.reader.as_mut()?;
        let failure = match catch_unwind(AssertUnwindSafe(|| reader.next())) {
            Ok(Some(Err(error))) => Failure::Error(error.into()),
            Ok(batch) => return batch,
            Err(payload) => Failure::Panic(payload),
        };
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(failure);
        Some(Err(std::io::Error::other("the reader failed").into()))
    }
}

impl<R> Drop for Kept<R> {
    fn drop(&mut self) {
        let reader = self.reader.take();
        // C drops the reader.
        if let Err(payload) = catch_unwind(AssertUnwindSafe(move || drop(reader))) {
            keep_panic(payload);
        }
    }
}

impl SizesHandle<'static> {
    pub(crate) fn of_arrow(array: &dyn Array, options: &SizesArrowOptions) -> Result<Self, Error> {
        let column = optional_text("column", options.column.as_deref())?;
        let (mut array, schema) = to_ffi(&array.to_data())
            .map_err(|error| Error::argument_error(format!("array: {error}")))?;
        let array = std::ptr::from_mut(&mut array).cast::<sys::ArrowArray>();
        let schema = std::ptr::from_ref(&schema).cast::<sys::ArrowSchema>();
        let column = optional_pointer(column.as_ref());
        // SAFETY: a live array, its schema, and a NUL-terminated text or NULL. On success the
        // library owns the array, and says so in it; otherwise it is dropped here.
        make(|sizes| unsafe {
            sys::sab_sizes_arrow_new(array, schema, column, &*options.raw, sizes)
        })
        .map(Self::over)
    }

    pub(crate) fn of_arrow_reader<R>(reader: R, options: &SizesArrowOptions) -> Result<Self, Error>
    where
        R: RecordBatchReader + Send + 'static,
    {
        let column = optional_text("column", options.column.as_deref())?;
        let schema = reader.schema();
        let failure = Arc::new(Mutex::new(None));
        let kept = Kept { reader: Some(reader), failure: failure.clone() };
        let mut stream =
            FFI_ArrowArrayStream::new(Box::new(RecordBatchIterator::new(kept, schema)));
        let pointer = std::ptr::from_mut(&mut stream).cast::<sys::ArrowArrayStream>();
        let column = optional_pointer(column.as_ref());
        // SAFETY: as for an array.
        let (status, handle) = construct(|sizes| unsafe {
            sys::sab_sizes_arrow_stream_new(pointer, column, &*options.raw, sizes)
        })?;
        drop(stream); // of a call that failed
        let failure = failure.lock().unwrap_or_else(PoisonError::into_inner).take();
        made(check_with(status, [failure]), handle).map(Self::over)
    }
}

/// A schedule, which may outlive its sampler.
struct Schedule<'a, R> {
    reader: R,
    /// What the reader reads in place; dropped after it, as fields are in their order.
    _memory: Option<OwnedMemory>,
    borrowed: PhantomData<&'a [u8]>,
}

impl<R: Iterator> Iterator for Schedule<'_, R> {
    type Item = R::Item;

    fn next(&mut self) -> Option<R::Item> {
        self.reader.next()
    }
}

impl<'a> SamplerHandle<'a> {
    /// The stream reads the memory that the sampler does, and calls no closures of the caller.
    #[allow(deprecated)]
    pub(crate) fn schedule(&self) -> Result<impl RecordBatchReader + Send + 'a, Error> {
        let mut stream = FFI_ArrowArrayStream::empty();
        let pointer = std::ptr::from_mut(&mut stream).cast::<sys::ArrowArrayStream>();
        // SAFETY: a live handle, and room for a stream, which the caller owns then.
        check(unsafe { sys::sab_arrow_schedule_new(self.pointer(), pointer) })?;
        let reader = ArrowArrayStreamReader::try_new(stream)
            .map_err(|error| Error::internal(format!("schedule: {error}")))?;
        let schema = reader.schema();
        let rows = Schedule { reader, _memory: self.memory.clone(), borrowed: PhantomData };
        Ok(RecordBatchIterator::new(rows, schema))
    }
}
