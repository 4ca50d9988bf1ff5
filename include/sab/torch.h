/** @file torch.h
 *  What needs LibTorch: the probes "cpu" and "cuda:N" of sab_probe_new(), tensors by DLPack, and a store through
 *  which ranks meet.
 *
 *  libsab itself does not link LibTorch. A second library, `libsab_torch.so.0`, does; it is built for one version of LibTorch and loaded on
 *  demand, once, for the life of the process.
 */
#ifndef SAB_TORCH_H
#define SAB_TORCH_H

#include "sab/base.h"
#include "sab/sampler.h"
#include "sab/sizes.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A tensor of the DLPack exchange format, version 0 (dlpack.h). */
struct DLManagedTensor;

/** Loads the LibTorch component, with symbols that stay its own. Does nothing when it is loaded already.
 *
 *  A LibTorch that the process has loaded is used when it is the one that the component was built for; next to another the component is not loaded.
 *  Safe to call from several threads.
 *
 *  @param path  file name of the component; NULL: the environment's SAB_TORCH_LIBRARY, else `libsab_torch.so.0` beside libsab, else where the system looks
 *  @return SAB_OK; SAB_E_IO when the component or its LibTorch is not found or cannot be loaded: the message says where was looked and what the
 *          loader said; SAB_E_MISMATCH when it was built for another LibTorch than the one loaded, or for another libsab: both versions are shown
 */
SAB_API sab_status sab_torch_open(const char *path) SAB_NOEXCEPT;

/** The LibTorch in use. */
typedef struct sab_torch_info {
    size_t struct_size;         /**< set by SAB_TORCH_INFO_INIT */
    const char *torch_version;  /**< such as "1.13.1"; static */
    const char *component_path; /**< file name of the component; static */
    int32_t cuda_devices;       /**< CUDA devices that it can use; 0 for a LibTorch without CUDA */
} sab_torch_info;
#define SAB_TORCH_INFO_INIT { sizeof(sab_torch_info), NULL, NULL, 0 }

/** Says which LibTorch is in use.
 *
 *  @param info  filled on SAB_OK; its struct_size must be set
 *  @return SAB_OK; SAB_E_UNSUPPORTED before sab_torch_open()
 */
SAB_API sab_status sab_torch_get_info(sab_torch_info *info) SAB_NOEXCEPT;

/** Sizes from a tensor of any device; copied.
 *
 *  @param tensor  one dimension; 8 to 64-bit integers, float32 or float64. Its deleter is called on SAB_OK, it stays the caller's otherwise
 *  @param sizes   the new handle; free with sab_sizes_free()
 *  @return SAB_OK; SAB_E_ARGUMENT for another shape or dtype; SAB_E_UNSUPPORTED before sab_torch_open()
 */
SAB_API sab_status sab_torch_sizes_new(struct DLManagedTensor *tensor, sab_sizes **sizes) SAB_NOEXCEPT;

/** The indices of a batch as an int64 tensor on a device, to gather its samples there.
 *
 *  @param batch   as a sampler showed it
 *  @param device  "cpu", "cuda", "cuda:N", ...
 *  @param tensor  filled with a tensor of its own memory; the caller calls its deleter. NULL on failure
 *  @return SAB_OK; SAB_E_ARGUMENT for a device that is not there; SAB_E_UNSUPPORTED before sab_torch_open()
 */
SAB_API sab_status sab_torch_batch_indices(const sab_batch *batch, const char *device, struct DLManagedTensor **tensor) SAB_NOEXCEPT;

/** A place where the ranks of a job meet, to be told apart and to agree, once, at the start: a TCPStore of c10d's. One thread at a time. */
typedef struct sab_torch_store sab_torch_store;

/** Opens the store on rank 0, or connects to it.
 *
 *  @param host        name or address of rank 0's machine
 *  @param port        to listen on; not one that another store of the job uses
 *  @param rank        of this process
 *  @param world_size  number of ranks, 1 to 2^20
 *  @param timeout     seconds that connecting, and each gathering, may take; above 0, at most 10^6
 *  @param store       the new handle; free with sab_torch_store_free()
 *  @return SAB_OK; SAB_E_ARGUMENT; SAB_E_IO when the port cannot be opened or reached; SAB_E_UNSUPPORTED before sab_torch_open()
 */
SAB_API sab_status sab_torch_store_new(const char *host, uint16_t port, uint64_t rank, uint64_t world_size, double timeout, sab_torch_store **store) SAB_NOEXCEPT;

/** Gathers bytes from all ranks; a sab_all_gather_fn whose `ctx` is the store.
 *
 *  @param store  a sab_torch_store
 *  @param mine   `size` bytes of this rank
 *  @param size   bytes of each rank, the same on all
 *  @param all    room for world size times `size` bytes; filled in the order of the ranks
 *  @return SAB_OK; SAB_E_TIMEOUT, on all ranks that came, with the number of one that did not; SAB_E_MISMATCH where ranks gave other sizes; SAB_E_IO when rank 0 is gone.
 *          Rank 0, which holds the store, stays until the others have heard the outcome
 */
SAB_API int32_t sab_torch_store_all_gather(void *store, const void *mine, size_t size, void *all) SAB_NOEXCEPT;

/** Gives the handle back.
 *
 *  @param store  a handle or NULL
 */
SAB_API void sab_torch_store_free(sab_torch_store *store) SAB_NOEXCEPT;

#ifdef __cplusplus
}
#endif

#endif
