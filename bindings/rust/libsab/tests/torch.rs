//! The LibTorch component, where `SAB_TORCH_LIBRARY` names it.

use libsab::memory::{find_max_batch, MaxBatchOptions, Probe, StepError};
use libsab::Error;

#[test]
fn the_component_opens_and_emulates_a_device() {
    if std::env::var_os("SAB_TORCH_LIBRARY").is_none() {
        eprintln!("SAB_TORCH_LIBRARY is not set: nothing to open");
        return;
    }
    let info = libsab::torch::open(None).unwrap();
    assert!(info.version.starts_with(char::is_numeric) && info.component.exists());
    let mut probe = Probe::with_total("cpu", 64 << 20).unwrap();
    let stats = probe.stats().unwrap();
    assert_eq!((stats.current, stats.peak, stats.total), (0, 0, Some(64 << 20)));
    // What runs out by its own account is believed, whatever the device says.
    let found = find_max_batch(
        &mut probe,
        &MaxBatchOptions::new().max_batch_size(7),
        |count, _| match count {
            0..=4 => Ok(()),
            _ => Err(StepError::OutOfMemory),
        },
    );
    assert_eq!(found.unwrap().batch_size, 4);
    assert!(matches!(Probe::new("cuda:99"), Err(Error::Argument(_) | Error::Unsupported(_))));
    libsab::torch::open(None).unwrap();
}
