//! What several test programs share.

use std::path::PathBuf;
use std::{fmt, fs};

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

/// Fails unless the result is this kind of error with these words in its message.
#[allow(unused_macros)] // not every program uses it
macro_rules! assert_refused {
    ($result:expr, $kind:ident $(, $word:expr)*) => {
        match $result.map(|_| ()) {
            Err(error @ libsab::Error::$kind(_)) => {
                let message = error.to_string();
                $(assert!(message.contains($word), "no {:?} in {message:?}", $word);)*
                assert!(!message.is_empty());
            }
            other => panic!("expected {}, got {other:?}", stringify!($kind)),
        }
    };
}

/// A file name of this process's own, removed at the end of the test.
#[allow(dead_code)]
pub struct Scratch(pub PathBuf);

impl Scratch {
    #[allow(dead_code)]
    pub fn new(name: &str) -> Self {
        Scratch(std::env::temp_dir().join(format!("sab-rust-{}-{name}", std::process::id())))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}
