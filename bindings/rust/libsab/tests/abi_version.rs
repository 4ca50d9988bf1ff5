//! Another libsab than the one that the program was built for, loaded in its place.
#![cfg(all(feature = "system", feature = "cache", feature = "stream", target_os = "linux"))]

use std::process::Command;

use libsab::memory::{MemoryModel, Probe};
use libsab::stream::{ListOptions, Stream};
use libsab::{Cache, CacheOptions, Error, Grouping, Plan, Sizes};

const FOUND: &str = "SAB_TEST_ABI_FOUND";

/// In a process of its own, where `sab_abi_version()` is another library's.
fn expect_refusals(words: &str) {
    fn refusal<T>(result: Result<T, Error>) -> Error {
        result.map(drop).unwrap_err()
    }
    for error in [
        refusal(Sizes::borrowed(&[1u8])),
        refusal(Plan::from_bytes(&[])),
        refusal(Stream::list(["a"], &ListOptions::new())),
        refusal(Cache::open("memory:", &CacheOptions::new())),
        refusal(Grouping::uni(3)),
        refusal(MemoryModel::from_bytes(&[])),
        refusal(Probe::new("host")),
    ] {
        assert!(
            matches!(&error, Error::Unsupported(message) if message.text().contains(words)),
            "{error:?}"
        );
    }
}

#[test]
fn a_library_of_another_version_is_refused_by_every_constructor() {
    if let Ok(words) = std::env::var(FOUND) {
        return expect_refusals(&words);
    }
    let (major, minor) = (sab_sys::ABI_VERSION / 1000, sab_sys::ABI_VERSION % 1000);
    for (found, refused) in [
        (
            (major + 1) * 1000,
            Some(format!("{}.0: must be {major}.{minor} or a later {major}.x", major + 1)),
        ),
        (major * 1000 + minor - 1, Some(format!("{major}.{}: must be {major}.{minor}", minor - 1))),
        (major * 1000 + minor + 1, None),
    ] {
        let folder =
            std::env::temp_dir().join(format!("sab-rust-{}-abi-{found}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (source, other) = (folder.join("other.c"), folder.join("other.so"));
        std::fs::write(&source, format!("unsigned sab_abi_version(void) {{ return {found}; }}"))
            .unwrap();
        let built =
            Command::new("cc").args(["-shared", "-o"]).args([&other, &source]).status().unwrap();
        assert!(built.success());
        let again = |name: &str| {
            let mut command = Command::new(std::env::current_exe().unwrap());
            command.args(["--exact", name]).env("LD_PRELOAD", &other);
            command
        };
        let output = match refused {
            Some(words) => again("a_library_of_another_version_is_refused_by_every_constructor")
                .env(FOUND, words)
                .output(),
            None => again("a_library_that_fits_is_accepted").output(),
        };
        let output = output.unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}

#[test]
fn a_library_that_fits_is_accepted() {
    assert_eq!(Sizes::borrowed(&[1u8]).unwrap().len(), 1);
}
