//! What several test programs share.

use std::fmt;

use libsab::Error;

/// An error of the caller's own.
#[derive(Debug, PartialEq)]
pub struct Mine(pub usize);

impl fmt::Display for Mine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "mine {}", self.0)
    }
}

impl std::error::Error for Mine {}

/// The number of the caller's own error, with which a call must have failed.
#[allow(dead_code)] // not every program uses it
pub fn mine<T>(result: Result<T, Error>) -> usize {
    match result {
        Err(Error::Callback(inner)) => inner.downcast::<Mine>().unwrap().0,
        Err(other) => panic!("{other:?}"),
        Ok(_) => panic!("did not fail"),
    }
}
