use std::{fmt, io};

use crate::messages::{own_name, translated};

/// Any error of a caller's closure.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Message of a failure, "argument = value: rule", as one text and in its parts.
///
/// ```
/// use libsab::{Plan, PlanOptions, Sizes};
///
/// let error = Plan::new(&Sizes::copied(&[3u8])?, &PlanOptions::new().budget(-1.0)).unwrap_err();
/// assert_eq!((error.argument(), error.value()), (Some("budget"), Some("-1")));
/// println!("{error}");
/// # Ok::<(), libsab::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Detail {
    text: String,
    argument: Option<String>,
    value: Option<String>,
    rule: Option<String>,
}

impl Detail {
    /// A message without parts.
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Detail { text: text.into(), argument: None, value: None, rule: None }
    }

    /// A message of the library and its parts, in the words of Rust.
    pub(crate) fn of_library(message: &str, argument: &str, value: &str, rule: &str) -> Self {
        if argument.is_empty() {
            let given = |part: &str| (!part.is_empty()).then(|| part.to_owned());
            let (value, rule) = (given(value), given(rule).map(|rule| translated(&rule)));
            return Detail { text: translated(message), argument: None, value, rule };
        }
        let has_value = message[argument.len()..].starts_with(" = ");
        let is_text = message[argument.len()..].starts_with(" = \"");
        let (name, rule) = (own_name(argument), translated(rule));
        let value = if is_text { value.to_owned() } else { translated(value) };
        let text = match (has_value, is_text) {
            (false, _) => format!("{name}: {rule}"),
            (true, true) => format!("{name} = \"{value}\": {rule}"),
            (true, false) => format!("{name} = {value}: {rule}"),
        };
        Detail { text, argument: Some(name), value: has_value.then_some(value), rule: Some(rule) }
    }

    /// Of bytes that were read from a file: the file has them.
    pub(crate) fn in_file(self, name: &str) -> Self {
        let rule = self.rule.unwrap_or(self.text);
        let text = format!("\"{name}\": {rule}");
        Detail { text, argument: None, value: Some(name.to_owned()), rule: Some(rule) }
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

    /// Its value as the message shows it, without quotes; without an argument the name of the file
    /// whose contents break the rule.
    #[must_use]
    pub fn value(&self) -> Option<&str> {
        self.value.as_deref()
    }

    /// The rule that the argument breaks.
    #[must_use]
    pub fn rule(&self) -> Option<&str> {
        self.rule.as_deref()
    }
}

impl fmt::Display for Detail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// An error of the system, with what was being done.
#[derive(Debug)]
struct SystemError {
    text: String,
    error: Option<io::Error>,
}

impl fmt::Display for SystemError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for SystemError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.error.as_ref().map(|error| error as _)
    }
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
    /// [kind](io::Error::kind) is that of the system's error, which is its
    /// [source](std::error::Error::source); [`io::ErrorKind::Other`] where there is none.
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
    /// "argument = value: rule"
    #[allow(clippy::needless_pass_by_value)] // a number, or a text that was made for it
    pub(crate) fn refused(
        argument: impl Into<String>,
        value: impl ToString,
        rule: impl Into<String>,
    ) -> Self {
        let (argument, value, rule) = (argument.into(), value.to_string(), rule.into());
        Error::Argument(Detail {
            text: format!("{argument} = {value}: {rule}"),
            argument: Some(argument),
            value: Some(value),
            rule: Some(rule),
        })
    }

    /// Of more than one argument, or of no value.
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

    /// `number` is that of the system's error; 0: there is none.
    pub(crate) fn io(text: String, number: i32) -> Self {
        Self::of_system(text, (number != 0).then(|| io::Error::from_raw_os_error(number)))
    }

    pub(crate) fn of_system(text: String, error: Option<io::Error>) -> Self {
        let kind = error.as_ref().map_or(io::ErrorKind::Other, io::Error::kind);
        Error::Io(io::Error::new(kind, SystemError { text, error }))
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
    fn parts_of_the_library() {
        let said = |message: &str, argument: &str, value: &str, rule: &str| {
            let detail = Detail::of_library(message, argument, value, rule);
            (detail.text, detail.argument, detail.value)
        };
        assert_eq!(
            said("options.tail = SAB_TAIL_DROP: must", "options.tail", "SAB_TAIL_DROP", "must"),
            (
                "tail = Tail::Drop: must".to_owned(),
                Some("tail".to_owned()),
                Some("Tail::Drop".to_owned())
            )
        );
        assert_eq!(
            said("url = \"a: b\": must", "url", "a: b", "must"),
            ("url = \"a: b\": must".to_owned(), Some("url".to_owned()), Some("a: b".to_owned()))
        );
        assert_eq!(
            said("state: is damaged", "state", "", "is damaged"),
            ("state: is damaged".to_owned(), Some("state".to_owned()), None)
        );
        assert_eq!(said("is damaged", "", "", ""), ("is damaged".to_owned(), None, None));
    }

    #[test]
    fn kinds_of_system_errors() {
        let Error::Io(error) = Error::io("cannot open \"a\": not there".to_owned(), 2) else {
            panic!("another error")
        };
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert_eq!(error.to_string(), "cannot open \"a\": not there");
        let source = error.get_ref().and_then(std::error::Error::source).expect("the system's");
        let system = source.downcast_ref::<io::Error>().expect("the system's");
        assert_eq!(system.raw_os_error(), Some(2));
        assert!(
            matches!(Error::io(String::new(), 0), Error::Io(error) if error.kind() == io::ErrorKind::Other)
        );
    }
}
