//! LibTorch, for the probes `"cpu"` and `"cuda:N"` and for [`TorchStore`]. A second library,
//! `libsab_torch.so.0`, loads it on demand.
//!
//! `sab_torch_indices_new` of the crate `sab-sys` gives the indices of a batch as a tensor, by
//! DLPack; it takes raw pointers.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use crate::error::Error;
use crate::raw::{self, StoreHandle};

/// The LibTorch in use.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct TorchInfo {
    /// Such as `1.13.1`.
    pub version: &'static str,
    /// File name of the component.
    pub component: &'static Path,
    /// CUDA devices that it can use; 0 for a LibTorch without CUDA.
    pub cuda_devices: u64,
}

/// Loads the LibTorch component, once, for the life of the process; does nothing when it is loaded
/// already. Says which LibTorch is in use.
///
/// `None`: the environment's `SAB_TORCH_LIBRARY`, else `libsab_torch.so.0` beside libsab, else
/// the default search path. A LibTorch that the process has loaded is used when it is the one that
/// the component was built for.
///
/// # Errors
///
/// [`Error::Io`] when the component or its LibTorch is not found, with the places that were
/// searched; [`Error::Mismatch`] when it was built for another LibTorch than the one loaded, or for
/// another libsab.
pub fn open(path: Option<&Path>) -> Result<TorchInfo, Error> {
    let (version, component, cuda_devices) = raw::torch_open(path)?;
    Ok(TorchInfo { version, component, cuda_devices })
}

/// Exchanges bytes between the ranks of a job at its start: a `TCPStore` of c10d.
///
/// ```no_run
/// use std::time::Duration;
///
/// use libsab::torch::{self, TorchStore};
/// use libsab::{PlanOptions, Sampler, SamplerOptions, Sizes};
///
/// torch::open(None)?;
/// let (rank, world_size) = libsab::ranks_from_environment()?;
/// let mut store = TorchStore::new("node0", 29_500, rank, world_size, Duration::from_secs(60))?;
/// # let my_lengths = vec![1u32];
/// let shard = Sizes::from_vec(my_lengths)?;
/// let options = SamplerOptions::new().seed(7).rank(rank).world_size(world_size);
/// let mut all_gather = |mine: &[u8], all: &mut [u8]| Ok(store.all_gather(mine, all)?);
/// let plan = PlanOptions::new().budget(4096.0);
/// let sampler = Sampler::sharded(&shard, &plan, &options, &mut all_gather)?;
/// sampler.check_ranks(rank, world_size, all_gather)?;
/// # Ok::<(), libsab::Error>(())
/// ```
pub struct TorchStore {
    handle: StoreHandle,
}

impl TorchStore {
    /// Opens the store on rank 0, or connects to it. `host` is the name or address of rank 0's
    /// machine. `port` is a port that no other store of the job uses. Connecting, and each
    /// gathering, may take `timeout`, above 0 and at most 10^6 seconds.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for a number that breaks a rule; [`Error::Io`] when the port cannot be
    /// opened or reached; [`Error::Unsupported`] before [`open`].
    pub fn new(
        host: &str,
        port: u16,
        rank: u64,
        world_size: u64,
        timeout: Duration,
    ) -> Result<Self, Error> {
        Ok(TorchStore { handle: StoreHandle::new(host, port, rank, world_size, timeout)? })
    }

    /// Fills `all`, world size times as long as `mine`, with what each rank gave, in the order of
    /// the ranks. Inside a closure of another call the error comes back within that call's
    /// [`Error::Callback`].
    ///
    /// # Errors
    ///
    /// [`Error::Timeout`] names the rank that did not come; [`Error::Mismatch`] where ranks gave
    /// other lengths; [`Error::Io`] when rank 0 is gone; [`Error::Argument`] for a wrong length of
    /// `all`.
    pub fn all_gather(&mut self, mine: &[u8], all: &mut [u8]) -> Result<(), Error> {
        self.handle.all_gather(mine, all)
    }
}

impl fmt::Debug for TorchStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TorchStore").finish_non_exhaustive()
    }
}
