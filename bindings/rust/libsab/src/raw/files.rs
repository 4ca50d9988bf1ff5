//! Calls of `files.h` that detect the format.

use super::*;
use crate::files::SizesFileOptions;

impl SizesHandle<'static> {
    pub(crate) fn read_file(path: &Path, options: &SizesFileOptions<'_>) -> Result<Self, Error> {
        // SAFETY: nothing of the file is used after it was read.
        unsafe { Self::file(path, options, true) }
    }

    /// # Safety
    ///
    /// The file is not truncated or written to while the handle, or an object made from it, lives.
    pub(crate) unsafe fn map_file(
        path: &Path,
        options: &SizesFileOptions<'_>,
    ) -> Result<Self, Error> {
        // SAFETY: the caller's promise.
        unsafe { Self::file(path, options, false) }
    }

    /// # Safety
    ///
    /// That of [`Self::map_file`] unless `copy`.
    unsafe fn file(path: &Path, options: &SizesFileOptions<'_>, copy: bool) -> Result<Self, Error> {
        let path = path_text(path)?;
        let format = optional_text("format", options.format.as_deref())?;
        let column = optional_text("column", options.column.as_deref())?;
        let mut progress = options.progress.get().map(Guarded::new);
        let mut raw = *options.raw;
        raw.format = optional_pointer(format.as_ref());
        raw.column = optional_pointer(column.as_ref());
        raw.copy = i32::from(copy);
        (raw.progress, raw.progress_ctx) = progress_parts(&mut progress);
        // SAFETY: NUL-terminated texts, and a closure that fits its trampoline; all outlive the
        // call, the only time they are used.
        let (status, handle) =
            construct(|sizes| unsafe { sys::sab_sizes_file_new(path.as_ptr(), &raw, sizes) })?;
        made(check_with(status, [failure_of(progress)]), handle).map(Self::over)
    }
}
