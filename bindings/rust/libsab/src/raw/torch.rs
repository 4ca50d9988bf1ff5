//! Calls of `torch.h`.

use std::time::Duration;

use super::*;

/// Version, file name of the component, CUDA devices.
pub(crate) fn torch_open(path: Option<&Path>) -> Result<(&'static str, &'static Path, u64), Error> {
    let path = path.map(path_text).transpose()?;
    let path = path.as_ref().map_or(null(), |path| path.as_ptr());
    // SAFETY: NULL, or a NUL-terminated path; a struct whose size is set.
    let info: sys::sab_torch_info = filled(|info| unsafe { sys::sab_torch_open(path, info) })?;
    // SAFETY: static, NUL-terminated strings.
    let (version, path) =
        unsafe { (CStr::from_ptr(info.torch_version), CStr::from_ptr(info.component_path)) };
    let path = Path::new(path.to_str().unwrap_or_default());
    Ok((version.to_str().unwrap_or_default(), path, info.cuda_devices.unsigned_abs().into()))
}

/// Owns a `sab_torch_store`.
pub(crate) struct StoreHandle {
    handle: Owned<sys::sab_torch_store>,
    world_size: u64,
}

impl StoreHandle {
    pub(crate) fn new(
        host: &str,
        port: u16,
        rank: u64,
        world_size: u64,
        timeout: Duration,
    ) -> Result<Self, Error> {
        let host = text("host", host.as_bytes())?;
        // SAFETY: a NUL-terminated name.
        let handle = make(|store| unsafe {
            let seconds = timeout.as_secs_f64();
            sys::sab_torch_store_new(host.as_ptr(), port, rank, world_size, seconds, store)
        })?;
        Ok(StoreHandle { handle, world_size })
    }

    pub(crate) fn all_gather(&mut self, mine: &[u8], all: &mut [u8]) -> Result<(), Error> {
        let wanted = mine.len() as u128 * u128::from(self.world_size);
        if all.len() as u128 != wanted {
            let (given, each, ranks) = (all.len(), mine.len(), self.world_size);
            return Err(Error::refused(
                "all.len()",
                given,
                format!("must be {wanted}, {each} for each of {ranks} ranks"),
            ));
        }
        // SAFETY: a live handle that nobody else uses, bytes to read, and room for as many of each
        // rank.
        let status = unsafe {
            sys::sab_torch_store_all_gather(
                self.handle.pointer().cast(),
                mine.as_ptr().cast(),
                mine.len(),
                all.as_mut_ptr().cast(),
            )
        };
        check(status).map(drop)
    }
}
