//! LibTorch, which the probes `"cpu"` and `"cuda:N"` need: loaded on demand by a library of its own, `libsab_torch.so.0`.
//!
//! Tensors cross as DLPack: `sab_torch_sizes_new` and `sab_torch_batch_indices` of the crate `sab-sys`, for the owner of the pointers.

use std::path::Path;

use crate::error::Error;
use crate::raw;

/// The LibTorch in use.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct TorchInfo {
    /// Such as `1.13.1`.
    pub version: &'static str,
    /// File name of the component.
    pub component: &'static Path,
    /// CUDA devices that it can use; 0 for a LibTorch without CUDA.
    pub cuda_devices: u32,
}

/// Loads the LibTorch component, once, for the life of the process; does nothing when it is loaded already.
///
/// `None`: the environment's `SAB_TORCH_LIBRARY`, else `libsab_torch.so.0` beside libsab, else where the system looks. A LibTorch that
/// the process has loaded is used when it is the one that the component was built for.
///
/// # Errors
///
/// [`Error::Io`] when the component or its LibTorch is not found: the message says where was looked; [`Error::Mismatch`] when it was
/// built for another LibTorch than the one loaded, or for another libsab.
pub fn open(path: Option<&Path>) -> Result<(), Error> {
    raw::torch_open(path)
}

/// Says which LibTorch is in use.
///
/// # Errors
///
/// [`Error::Unsupported`] before [`open`].
pub fn info() -> Result<TorchInfo, Error> {
    let (version, component, cuda_devices) = raw::torch_info()?;
    Ok(TorchInfo { version, component, cuda_devices })
}
