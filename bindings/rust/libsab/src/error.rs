use std::fmt;

/// Any error of a caller's closure.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Why a call failed. The text names the argument, its value and the rule that it breaks. A failed call changes nothing.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// An argument or a size breaks a rule.
    Argument(String),
    /// Memory could not be had.
    NoMemory(String),
    /// The caller's closure failed: here is its own error, also given by [`source`](std::error::Error::source).
    Callback(BoxError),
    /// The caller's progress closure asked to stop.
    Cancelled,
    /// A file could not be opened, read or written.
    Io(String),
    /// Bytes are truncated, corrupted or of another format or version.
    Format(String),
    /// A state is well formed but belongs to another plan, seed, sampler or pipeline; or a file has changed.
    Mismatch(String),
    /// This kind of sampler or device cannot do that.
    Unsupported(String),
    /// A fault of libsab itself; please report the message.
    Internal(String),
    /// The device's memory does not suffice: even for a batch of one, or for a batch of [`Plan::verify`](crate::Plan::verify).
    DeviceMemory(String),
    /// Somebody did not come in time, such as the ranks that the message names.
    Timeout(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Callback(_) => f.write_str("the caller's closure failed"),
            Error::Cancelled => f.write_str("cancelled by the caller's progress closure"),
            Error::Argument(message)
            | Error::NoMemory(message)
            | Error::Io(message)
            | Error::Format(message)
            | Error::Mismatch(message)
            | Error::Unsupported(message)
            | Error::Internal(message)
            | Error::DeviceMemory(message)
            | Error::Timeout(message) => f.write_str(message),
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
