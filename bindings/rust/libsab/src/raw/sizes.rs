//! Calls of `sizes.h` and `files.h`, and of what is made of sizes alone.

use std::marker::PhantomData;
use std::mem::size_of;
use std::panic::{RefUnwindSafe, UnwindSafe};

use super::*;
use crate::cost::MAX_COLUMNS;
use crate::sizes::Element;

pub(crate) type SizeFn<'f> = dyn Fn(usize) -> Result<f64, BoxError> + Send + Sync + 'f;

/// Memory that the library reads and that no caller borrows.
pub(crate) type OwnedMemory = Arc<dyn Any + Send + Sync + UnwindSafe + RefUnwindSafe>;

pub(crate) unsafe extern "C" fn size_trampoline<F>(
    context: *mut c_void,
    index: i64,
    size: *mut f64,
) -> i32
where
    F: FnMut(usize) -> Result<f64, BoxError>,
{
    // SAFETY: `context` is the Guarded<F> given with this trampoline, alive and used by nobody else
    // during the call.
    let guarded = unsafe { &mut *context.cast::<Guarded<F>>() };
    guarded.run(|function| {
        let answer = function(index as usize)?;
        // SAFETY: the caller gives room for one number.
        unsafe { size.write(answer) };
        Ok(sys::SAB_OK)
    })
}

/// Owns a `sab_sizes`; `'a` is how long the memory under it is borrowed.
pub(crate) struct SizesHandle<'a> {
    handle: Owned<sys::sab_sizes>,
    /// Dropped after the handle, as fields are in their order.
    memory: Option<OwnedMemory>,
    borrowed: PhantomData<&'a [u8]>,
}

impl<'a> SizesHandle<'a> {
    pub(super) fn over(handle: Owned<sys::sab_sizes>) -> Self {
        SizesHandle { handle, memory: None, borrowed: PhantomData }
    }

    /// The same, and what it goes on reading.
    pub(super) fn keeping(self, memory: OwnedMemory) -> Self {
        SizesHandle { memory: Some(memory), ..self }
    }

    /// Every `step`-th element of `data`, from the first.
    fn from_memory<T: Element>(data: &[T], step: usize, copy: bool) -> Result<Self, Error> {
        // A longer step leads to the first element only, too.
        let step = step.clamp(1, data.len().max(1));
        let mut options = empty::<sys::sab_sizes_options>();
        options.stride = (step * size_of::<T>()) as i64;
        options.copy = i32::from(copy);
        let count = data.len().div_ceil(step);
        // SAFETY: `count` elements `step` apart lie within `data`; the callers tie its lifetime to
        // the handle unless it is copied.
        let make = |sizes: *mut *mut _| unsafe {
            sys::sab_sizes_new(data.as_ptr().cast(), count, T::DTYPE, &options, sizes)
        };
        make_sizes(make)
    }

    pub(crate) fn borrow<T: Element>(data: &'a [T], step: usize) -> Result<Self, Error> {
        Self::from_memory(data, step, false)
    }

    pub(crate) fn join(parts: &[&SizesHandle<'a>]) -> Result<Self, Error> {
        let pointers: Vec<_> = parts.iter().map(|part| part.pointer().cast_const()).collect();
        let memory: Vec<_> = parts.iter().filter_map(|part| part.memory()).collect();
        // SAFETY: live handles. The new one keeps what they own; what they borrow lives for `'a`.
        let sizes = make_sizes(|sizes| unsafe {
            sys::sab_sizes_join_new(elements(&pointers), pointers.len(), sizes)
        })?;
        Ok(sizes.keeping(Arc::new(memory)))
    }

    pub(crate) fn columns(columns: &[(&str, &SizesHandle<'a>)]) -> Result<Self, Error> {
        let names = columns.iter().map(|(name, _)| text("columns", name.as_bytes()));
        let names = names.collect::<Result<Vec<_>, _>>()?;
        let texts: Vec<_> = names.iter().map(|name| name.as_ptr()).collect();
        let pointers: Vec<_> =
            columns.iter().map(|(_, each)| each.pointer().cast_const()).collect();
        let memory: Vec<_> = columns.iter().filter_map(|(_, each)| each.memory()).collect();
        // SAFETY: live handles, and as many NUL-terminated names. The new handle keeps what they own;
        // what they borrow lives for `'a`.
        let sizes = make_sizes(|sizes| unsafe {
            let (columns, names) = (elements(&pointers), elements(&texts));
            sys::sab_sizes_columns_new(columns, names, pointers.len(), sizes)
        })?;
        Ok(sizes.keeping(Arc::new(memory)))
    }
}

fn make_sizes<'a>(
    call: impl FnOnce(*mut *mut sys::sab_sizes) -> sys::sab_status,
) -> Result<SizesHandle<'a>, Error> {
    make(call).map(SizesHandle::over)
}

impl SizesHandle<'static> {
    pub(crate) fn copy<T: Element>(data: &[T]) -> Result<Self, Error> {
        Self::from_memory(data, 1, true)
    }

    pub(crate) fn own<T: Element>(data: Vec<T>) -> Result<Self, Error> {
        let data = Arc::new(data);
        let mut sizes = Self::from_memory(&data, 1, false)?;
        sizes.memory = Some(data);
        Ok(sizes)
    }

    pub(crate) fn callback<F>(
        count: usize,
        size: F,
        progress: Option<Progress<'_, '_>>,
    ) -> Result<Self, Error>
    where
        F: FnMut(usize) -> Result<f64, BoxError>,
    {
        let mut size = Guarded::new(size);
        let mut progress = progress.map(Guarded::new);
        let progress_options = progress_options(&mut progress);
        let trampoline = Some(size_trampoline::<F> as unsafe extern "C" fn(_, _, _) -> _);
        let context = size.context();
        // SAFETY: both contexts fit their trampolines and outlive the call, which is the only time
        // they are used.
        let (status, handle) = construct(|sizes| unsafe {
            sys::sab_sizes_callback_new(count, trampoline, context, &progress_options, sizes)
        })?;
        let status = check_with(status, [size.failure, failure_of(progress)]);
        made(status, handle).map(Self::over)
    }
}

impl SizesHandle<'_> {
    pub(crate) fn pointer(&self) -> *mut sys::sab_sizes {
        self.handle.pointer()
    }

    /// The memory under the sizes, for those who go on reading it.
    pub(crate) fn memory(&self) -> Option<OwnedMemory> {
        self.memory.clone()
    }

    pub(crate) fn count(&self) -> usize {
        // SAFETY: a live handle.
        unsafe { sys::sab_sizes_count(self.pointer()) }
    }

    calls! { fn info(&self) -> struct sab_sizes_info = sab_sizes_get_info; }

    pub(crate) fn column_count(&self) -> usize {
        self.info().columns
    }

    pub(crate) fn column_names(&self) -> Vec<Option<String>> {
        let info = self.info();
        // SAFETY: the names of a live handle.
        unsafe { column_names(info.column_names, info.columns) }
    }

    pub(crate) fn get(&self, index: usize) -> Result<PerColumn<f64>, Error> {
        let mut row = [0.0; MAX_COLUMNS];
        // SAFETY: a live handle, and room for a number of each column.
        check(unsafe { sys::sab_sizes_get(self.pointer(), index, 1, row.as_mut_ptr()) })?;
        Ok(PerColumn::of(row.into_iter().take(self.column_count())))
    }

    pub(crate) fn values(&self, column: usize) -> Result<Vec<f64>, Error> {
        let (count, columns) = (self.count(), self.column_count());
        if column >= columns {
            let rule = format!("must be below the columns, {columns}");
            return Err(Error::refused("column", column, rule));
        }
        let mut rows = vec![0.0; count * columns];
        // SAFETY: a live handle, and room for all its sizes.
        check(unsafe { sys::sab_sizes_get(self.pointer(), 0, count, rows.as_mut_ptr()) })?;
        if columns > 1 {
            rows = rows.into_iter().skip(column).step_by(columns).collect();
        }
        Ok(rows)
    }

    pub(crate) fn source(&self, index: usize) -> Result<(usize, usize), Error> {
        let (mut part, mut row) = (0, 0);
        // SAFETY: a live handle, and room for two numbers.
        check(unsafe { sys::sab_sizes_locate(self.pointer(), index, &mut part, &mut row) })?;
        Ok((part, row))
    }

    pub(crate) fn description(&self) -> String {
        // SAFETY: a live handle; its text is NUL-terminated, and lives as long.
        let text = unsafe { CStr::from_ptr(self.info().description) };
        text.to_string_lossy().into_owned()
    }

    pub(crate) fn create_buckets(
        &self,
        max_width: i64,
        min_bucket_count: i64,
    ) -> Result<(Vec<i64>, Vec<i64>), Error> {
        let mut count = 0;
        // SAFETY: a live handle; with a capacity of 0 only the count is written.
        check(unsafe {
            sys::sab_bionemo_create_buckets(
                self.pointer(),
                max_width,
                min_bucket_count,
                null_mut(),
                null_mut(),
                0,
                &mut count,
            )
        })?;
        let (mut boundaries, mut bucket_sizes) = (vec![0; count + 1], vec![0; count]);
        // SAFETY: a live handle, room for `count` + 1 and `count` numbers; sizes cannot change, so
        // the count is the same.
        check(unsafe {
            sys::sab_bionemo_create_buckets(
                self.pointer(),
                max_width,
                min_bucket_count,
                boundaries.as_mut_ptr(),
                bucket_sizes.as_mut_ptr(),
                count,
                &mut count,
            )
        })?;
        Ok((boundaries, bucket_sizes))
    }
}
