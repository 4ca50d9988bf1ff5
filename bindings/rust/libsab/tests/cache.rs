//! Values made once.
#![cfg(feature = "cache")]

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use libsab::{Cache, CacheFailure, CacheOptions, Error};

/// A URL of a new file, which goes with its folder.
fn file(name: &str) -> (std::path::PathBuf, String) {
    let folder = std::env::temp_dir().join(format!("sab-cache-{}-{name}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir(&folder).unwrap();
    let url = format!("lmdb:{}", folder.join("values.mdb").display());
    (folder, url)
}

#[test]
fn values_are_kept_and_shared_by_name() {
    let (folder, url) = file("kept");
    let one = Cache::open(
        &url,
        &CacheOptions::new()
            .dataset_name("one")
            .writer_buffer_size(10)
            .flush_interval(Duration::from_secs(100)),
    )
    .unwrap();
    let two = Cache::open(&url, &CacheOptions::new().dataset_name("one")).unwrap();
    assert_eq!(one.url(), url);
    one.put("a", [1, 2, 3]).unwrap();
    assert_eq!(&one.get("a").unwrap().unwrap()[..], [1, 2, 3]);
    assert!(two.get("a").unwrap().is_none());
    assert_eq!(one.stats().buffered, 1);
    one.flush().unwrap();
    let held = two.get("a").unwrap().unwrap();
    two.put_many(&[("b", vec![4]), ("c", vec![])]).unwrap();
    let many = one.get_many(&["c", "x", "b"]).unwrap();
    assert_eq!(
        many.iter().map(|value| value.as_ref().map(|value| value.to_vec())).collect::<Vec<_>>(),
        [Some(vec![]), None, Some(vec![4])]
    );
    assert_eq!(one.key_count().unwrap(), 3);
    one.clear().unwrap();
    assert_eq!(two.key_count().unwrap(), 0);
    drop((one, two));
    assert_eq!(&held[..], [1, 2, 3]);
    drop(held);
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_value_is_made_once() {
    let cache = Cache::open("memory:", &CacheOptions::new()).unwrap();
    let calls = AtomicU32::new(0);
    thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                let value = cache.get_or_load("k", || {
                    calls.fetch_add(1, Ordering::SeqCst);
                    thread::sleep(Duration::from_millis(50));
                    Ok(b"made".to_vec())
                });
                assert_eq!(&value.unwrap()[..], b"made");
            });
        }
    });
    assert_eq!(calls.into_inner(), 1);
    let failed = cache.get_or_load("l", || Err("no such sample".into()));
    assert!(matches!(failed, Err(Error::Callback(error)) if error.to_string() == "no such sample"));
    let panicked = catch_unwind(AssertUnwindSafe(|| cache.get_or_load("l", || panic!("by me"))));
    assert_eq!(*panicked.unwrap_err().downcast::<&str>().unwrap(), "by me");
    assert!(cache.get("l").unwrap().is_none());
    assert_eq!(&cache.get_or_load("l", || Ok(vec![])).unwrap()[..], b"");
}

#[test]
fn what_breaks_a_rule_is_refused() {
    let refused = |url: &str, options: CacheOptions, words: &str| match Cache::open(url, &options) {
        Err(Error::Argument(message)) => assert!(message.text().contains(words), "{message}"),
        other => panic!("{other:?}"),
    };
    refused("memory:\0", CacheOptions::new(), "NUL");
    let long = Duration::from_secs(2_000_000);
    refused("memory:", CacheOptions::new().timeout(long), "timeout = ");
    refused("memory:", CacheOptions::new().call_timeout(long), "call_timeout = ");
    let strict = CacheOptions::new().on_failure(CacheFailure::Error).load_wait(Duration::ZERO);
    let cache = Cache::open("memory:", &strict).unwrap();
    assert!(matches!(cache.get(""), Err(Error::Argument(_))));
    assert!(matches!(cache.get_many(&["a", ""]), Err(Error::Argument(_))));
    assert!(cache.get_many::<&str>(&[]).unwrap().is_empty());
}
