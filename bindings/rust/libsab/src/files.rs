use std::path::Path;

pub use crate::choices::MissingRule;
use crate::error::Error;
use crate::options::{options, progress_setter, setters, Hook};
use crate::raw::{ProgressFn, SizesHandle};
use crate::sizes::{Sizes, TextUnit};

options! {
/// How [`Sizes::open`] reads a file.
///
/// ```no_run
/// use libsab::{Sizes, SizesFileOptions, TextUnit};
///
/// let sequences = Sizes::open("corpus.idx", &SizesFileOptions::new())?;
/// let words = SizesFileOptions::new().column("text").text_unit(TextUnit::Words);
/// println!("{}", Sizes::open("corpus.jsonl.zst", &words)?.description());
/// # Ok::<(), libsab::Error>(())
/// ```
pub struct SizesFileOptions<'f>: sab_sizes_file_options {
    format: Option<String>,
    column: Option<String>,
    progress: Hook<ProgressFn<'f>>,
}
}

impl<'f> SizesFileOptions<'f> {
    setters! {
        /// What the size of a text is; [`TextUnit::Bytes`].
        text_unit(unit: TextUnit) => text_unit = unit.raw();
        /// What is done with lines of JSON without the field; [`MissingRule::Refuse`].
        missing(rule: MissingRule) => missing = rule.raw();
    }

    /// `"npy"`, `"megatron"`, `"fairseq"`, `"datatrove"`, `"jsonl"`, `"numbers"`, `"text"`,
    /// `"kaldi"` or `"fasta"`. Detected by default: by the content, then by the name.
    pub fn format(mut self, format: impl Into<String>) -> Self {
        self.format = Some(format.into());
        self
    }

    /// The field of JSON lines, `"audio.frames"` for one in an object. A number is the size; of a
    /// text or list, the length is.
    pub fn column(mut self, column: impl Into<String>) -> Self {
        self.column = Some(column.into());
        self
    }

    progress_setter!('f);
}

impl Sizes<'static> {
    /// Reads the sizes of the samples of a file into memory.
    ///
    /// These formats are known: NumPy's `.npy`, and the indexes of Megatron, fairseq and datatrove.
    /// So are JSON lines, lines of numbers, lines of text, a name and a number on each line (Kaldi,
    /// `ESPnet`), and FASTA, also from gzip and Zstandard. [`Sizes::description`] says how the file
    /// was read. `"-"` is standard input.
    ///
    /// ```
    /// use libsab::{Sizes, SizesFileOptions};
    ///
    /// let path = std::env::temp_dir().join(format!("libsab-{}.txt", std::process::id()));
    /// std::fs::write(&path, "12\n7\n30\n").unwrap();
    /// let sizes = Sizes::open(&path, &SizesFileOptions::new())?;
    /// assert_eq!(sizes.description(), "lines of numbers: 3 sizes");
    /// # std::fs::remove_file(&path).unwrap();
    /// # Ok::<(), libsab::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Io`] when it cannot be read; [`Error::Format`] when it is damaged or of another
    /// format, with the line; [`Error::Argument`] for options that do not fit the format;
    /// [`Error::Cancelled`]; [`Error::NoMemory`].
    pub fn open(path: impl AsRef<Path>, options: &SizesFileOptions<'_>) -> Result<Self, Error> {
        Ok(Sizes { handle: SizesHandle::read_file(path.as_ref(), options)? })
    }

    /// As [`Sizes::open`], but maps `.npy` files and indexes: nothing is copied, and processes that
    /// map a file share its memory.
    ///
    /// # Safety
    ///
    /// While the sizes or a sampler on them live, do not truncate the file (a read behind its
    /// end stops the process with SIGBUS) or write to it. To replace it, rename a new file over it.
    #[allow(unsafe_code)]
    pub unsafe fn map(
        path: impl AsRef<Path>,
        options: &SizesFileOptions<'_>,
    ) -> Result<Self, Error> {
        // SAFETY: the caller's promise.
        Ok(Sizes { handle: unsafe { SizesHandle::map_file(path.as_ref(), options) }? })
    }
}
