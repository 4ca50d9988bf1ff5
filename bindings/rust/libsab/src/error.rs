use std::{fmt, io};

/// Any error of a caller's closure.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Message of a failure, "argument = value: rule", as one text and in its parts.
///
/// ```
/// use libsab::{Plan, PlanOptions, Sizes};
///
/// let error = Plan::new(&Sizes::copied(&[3u8])?, &PlanOptions::new().budget(-1.0)).unwrap_err();
/// assert_eq!((error.argument(), error.value()), (Some("budgets[0].limit"), Some("-1")));
/// println!("{error}");
/// # Ok::<(), libsab::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Detail {
    text: String,
    argument: Option<String>,
    value: Option<String>,
}

impl Detail {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        let text = text.into();
        let (argument, value) = match parts(&text) {
            Some((argument, value)) => (Some(argument.to_owned()), Some(value.to_owned())),
            None => (None, None),
        };
        Detail { text, argument, value }
    }

    /// The whole message.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The argument or option that was refused, such as `budget` or `sizes[3]`; `None` for a
    /// message of another form.
    #[must_use]
    pub fn argument(&self) -> Option<&str> {
        self.argument.as_deref()
    }

    /// Its value as the message shows it, without quotes.
    #[must_use]
    pub fn value(&self) -> Option<&str> {
        self.value.as_deref()
    }
}

impl fmt::Display for Detail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Argument and value of "argument = value: rule".
fn parts(text: &str) -> Option<(&str, &str)> {
    let (argument, rest) = text.split_once(" = ")?;
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"_.[]()".contains(&byte);
    if argument.is_empty() || !argument.bytes().all(is_name) {
        return None;
    }
    let value = match rest.strip_prefix('"') {
        Some(quoted) => quoted.split_once("\": ")?.0,
        None => rest.split_once(": ")?.0,
    };
    Some((argument.strip_prefix("options.").unwrap_or(argument), value))
}

/// Why a call failed. A failed call changes nothing, but for what a stream has read.
///
/// ```
/// use libsab::{Error, Plan};
///
/// match Plan::open("/nowhere/plan") {
///     Err(Error::Io(error)) => assert_eq!(error.kind(), std::io::ErrorKind::NotFound),
///     other => panic!("{other:?}"),
/// }
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// An argument or a size breaks a rule.
    Argument(Detail),
    /// There is not enough memory.
    NoMemory(Detail),
    /// The caller's closure failed: its own error, also given by
    /// [`source`](std::error::Error::source).
    Callback(BoxError),
    /// The caller's progress closure stopped the call.
    Cancelled,
    /// A file, a server or a library could not be opened, read or written. The
    /// [kind](io::Error::kind) is that of the system's error, [`io::ErrorKind::Other`] where there
    /// is none.
    Io(io::Error),
    /// Bytes are truncated, corrupted or of another format or version.
    Format(Detail),
    /// A state is well formed but belongs to another plan, seed, sampler or pipeline; or a file has
    /// changed.
    Mismatch(Detail),
    /// This kind of sampler or device does not support the call.
    Unsupported(Detail),
    /// A bug in libsab; please report the message.
    Internal(Detail),
    /// The memory of the device does not suffice: not even for a batch of one sample, or not for a
    /// batch of [`Plan::verify`](crate::Plan::verify).
    DeviceMemory(Detail),
    /// A timeout, such as of a rank that the message names.
    Timeout(Detail),
}

impl Error {
    pub(crate) fn argument_error(text: impl Into<String>) -> Self {
        Error::Argument(Detail::new(text))
    }

    pub(crate) fn no_memory() -> Self {
        Error::NoMemory(Detail::new("out of memory"))
    }

    pub(crate) fn unsupported(text: impl Into<String>) -> Self {
        Error::Unsupported(Detail::new(text))
    }

    pub(crate) fn internal(text: impl Into<String>) -> Self {
        Error::Internal(Detail::new(text))
    }

    /// An error of the system that the library reported in words: they end with the system's text
    /// for it, by which the kind is found.
    pub(crate) fn io(text: String) -> Self {
        let is_reason = |error: &io::Error| {
            let reason = error.to_string();
            let reason = reason.split(" (os error").next().unwrap_or_default();
            text.strip_suffix(reason).is_some_and(|before| before.ends_with(": "))
        };
        let kind = (1..=133)
            .map(io::Error::from_raw_os_error)
            .find(is_reason)
            .map_or(io::ErrorKind::Other, |error| error.kind());
        Error::Io(io::Error::new(kind, text))
    }

    /// Message of the failure; `None` for [`Error::Callback`], [`Error::Cancelled`]
    /// and [`Error::Io`].
    #[must_use]
    pub fn detail(&self) -> Option<&Detail> {
        match self {
            Error::Argument(detail)
            | Error::NoMemory(detail)
            | Error::Format(detail)
            | Error::Mismatch(detail)
            | Error::Unsupported(detail)
            | Error::Internal(detail)
            | Error::DeviceMemory(detail)
            | Error::Timeout(detail) => Some(detail),
            Error::Callback(_) | Error::Cancelled | Error::Io(_) => None,
        }
    }

    /// [`Detail::argument`] of the detail.
    #[must_use]
    pub fn argument(&self) -> Option<&str> {
        self.detail()?.argument()
    }

    /// [`Detail::value`] of the detail.
    #[must_use]
    pub fn value(&self) -> Option<&str> {
        self.detail()?.value()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Callback(_) => f.write_str("the caller's closure failed"),
            Error::Cancelled => f.write_str("cancelled by the caller's progress closure"),
            Error::Io(error) => error.fmt(f),
            _ => self.detail().map_or(Ok(()), |detail| detail.fmt(f)),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Callback(error) => Some(error.as_ref()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_messages() {
        for (text, expected) in [
            ("budget = -1: must be above 0", Some(("budget", "-1"))),
            ("options.batch_sizes[2] = 0: must be at least 1", Some(("batch_sizes[2]", "0"))),
            ("features.len() = 5: must be 4", Some(("features.len()", "5"))),
            ("url = \"a: b\": must name a store", Some(("url", "a: b"))),
            ("url = \"a\" without a rule", None),
            ("cannot open \"x = 1: y\": No such file", None),
            ("the file is damaged", None),
            (" = 1: must be named", None),
        ] {
            assert_eq!(parts(text), expected, "{text}");
        }
    }

    #[test]
    fn kinds_of_system_errors() {
        let kind = |text: &str| match Error::io(text.to_owned()) {
            Error::Io(error) => (error.kind(), error.to_string()),
            other => panic!("{other:?}"),
        };
        let text = "cannot open \"a\": No such file or directory";
        assert_eq!(kind(text), (io::ErrorKind::NotFound, text.to_owned()));
        assert_eq!(
            kind("cannot write \"a\": Permission denied").0,
            io::ErrorKind::PermissionDenied
        );
        assert_eq!(kind("cannot map \"a\": must be a regular file").0, io::ErrorKind::Other);
        assert_eq!(kind("No such file or directory").0, io::ErrorKind::Other);
    }
}
