/** @file torch.h
 * Functions that need LibTorch: the probes "cpu" and "cuda:N" of sab_probe_new(), and the indices
 * of a batch as a tensor. Samples of tensors are grouped, padded and unpadded with their gradients.
 * A store is for communication among ranks.
 *
 * libsab itself does not link LibTorch. A second library, `libsab_torch.so.0`, does; it is built
 * for one version of LibTorch and loaded on demand, once, for the life of the process.
 *
 * Tier: provisional. Functions and structs here may change or be removed in a minor release.
 */
#ifndef SAB_TORCH_H
#define SAB_TORCH_H

#include "sab/base.h"
#include "sab/group.h"
#include "sab/sampler.h"
#include "sab/sizes.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A tensor of the DLPack exchange format, version 0 (dlpack.h). */
struct DLManagedTensor;

/** The LibTorch in use. */
typedef struct sab_torch_info {
    size_t struct_size;         /**< set by SAB_TORCH_INFO_INIT */
    const char *torch_version;  /**< such as "1.13.1"; static */
    const char *component_path; /**< file name of the component; static */
    int32_t cuda_devices;       /**< CUDA devices that it can use; 0 for a LibTorch without CUDA */
} sab_torch_info;
#define SAB_TORCH_INFO_INIT SAB_INIT(sab_torch_info)

/** Loads the LibTorch component. Its symbols are local. Does nothing if it is loaded already.
 *
 * A LibTorch that the process has loaded is used if it is the version that the component was built
 * for; otherwise the component is not loaded. Safe to call from several threads.
 *
 * @param path  file name of the component; NULL: the environment's SAB_TORCH_LIBRARY, else
 *     `libsab_torch.so.0` beside libsab, else the system's search path
 * @param info  filled on SAB_OK, its struct_size must be set; or NULL
 * @return SAB_OK; SAB_E_IO if the component or its LibTorch is not found or cannot be loaded: the
 *     message has the searched paths and the loader's error; SAB_E_MISMATCH if it was built for
 *     another LibTorch than the one loaded, or for another libsab: the message has both versions
 */
SAB_API sab_status sab_torch_open(const char *path, sab_torch_info *info) SAB_NOEXCEPT;

/** Copies the indices of a batch to an int64 tensor on a device, to gather its samples there.
 *
 * @param batch   as a sampler showed it
 * @param device  "cpu", "cuda", "cuda:N", ...
 * @param tensor  filled with a new tensor; the caller calls its deleter. NULL on failure
 * @return SAB_OK; SAB_E_ARGUMENT for a missing device; SAB_E_UNSUPPORTED before sab_torch_open()
 */
SAB_API sab_status sab_torch_indices_new(const sab_batch *batch, const char *device,
                                         struct DLManagedTensor **tensor) SAB_NOEXCEPT;

/** A store for communication among the ranks of a job before training: a TCPStore of c10d. One
 * thread at a time.
 */
typedef struct sab_torch_store sab_torch_store;

/** Opens the store on rank 0, or connects to it.
 *
 * @param host        name or address of rank 0's machine
 * @param port        port of the store; must differ from those of other stores of the job
 * @param rank        of this process
 * @param world_size  number of ranks, 1 to 2^20
 * @param timeout     limit in seconds for connecting and for each gather; above 0, at most 10^6
 * @param store       the new handle; free with sab_torch_store_free()
 * @return SAB_OK; SAB_E_ARGUMENT; SAB_E_IO if the port cannot be opened or reached;
 *     SAB_E_UNSUPPORTED before sab_torch_open()
 */
SAB_API sab_status sab_torch_store_new(const char *host, uint16_t port, uint64_t rank,
                                       uint64_t world_size, double timeout, sab_torch_store **store)
    SAB_NOEXCEPT;

/** Gathers bytes from all ranks; a sab_all_gather_fn whose `ctx` is the store.
 *
 * @param store  read: a sab_torch_store
 * @param mine   `size` bytes of this rank
 * @param size   bytes of each rank, the same on all
 * @param all    room for world size times `size` bytes; filled in the order of the ranks
 * @return SAB_OK; SAB_E_TIMEOUT on all ranks that called it, with the number of a missing rank;
 *     SAB_E_MISMATCH if sizes differ among ranks; SAB_E_IO if rank 0 is gone. Rank 0 holds the
 *     store and returns after the other ranks have the result
 */
SAB_API int32_t sab_torch_store_all_gather(void *store, const void *mine, size_t size, void *all)
    SAB_NOEXCEPT;

/** Frees the handle.
 *
 * @param store  a handle or NULL
 */
SAB_API void sab_torch_store_free(sab_torch_store *store) SAB_NOEXCEPT;

/* ---- Collections ---- */

/** Samples of one or several tensors each, separate or stacked in padded groups. Immutable:
 * grouping makes a new collection. Gradients flow back to the tensors of the first one
 * that require them. Threads may share it as they may share LibTorch's tensors.
 */
typedef struct sab_torch_collection sab_torch_collection;

/** LibTorch's own tensor: an `at::Tensor` of C++, the `C_tensor` of torch-sys. Of the LibTorch that
 * the component uses.
 */
struct sab_torch_tensor;

/** One tensor of the samples. */
typedef struct sab_torch_leaf {
    /** set by SAB_TORCH_LEAF_INIT */
    size_t struct_size;
    /** path in a sample: keys of nested dictionaries and indices of tuples, outermost first,
     *  separated by '/', such as "protein/rotation" or "ligand/0". "" or NULL: a sample is this
     *  tensor */
    const char *path;
    /** meaning of its dimensions in stacked samples, such as "(B, L_residue, 3, M_hidden)". `B`:
     *  the samples, exactly once. `L_name`: a length, which may differ between samples, but not
     *  between the tensors of one sample. A number: this size. `M` or `M_name`: any size, the same
     *  in all samples */
    const char *signature;
    /** for each sample its tensor, without dimension B: shared, with gradients. All of one dtype
     * and device, strided */
    struct sab_torch_tensor *const *tensors;
    /** SAB_PADDING_CONSTANT */
    sab_pad_rule padding;
    /** the constant; 0 */
    double value;
    /** instead of `value`: a tensor over the dimensions of `signature` that are numbers, such as
     *  the identity for rotations, of the same dtype and device. NULL */
    struct sab_torch_tensor *value_tensor;
} sab_torch_leaf;
#define SAB_TORCH_LEAF_INIT SAB_INIT(sab_torch_leaf)

/** Makes a collection of separate samples.
 *
 * @param leaves      the tensors of a sample, `leaf_count` of them; paths must differ, and none may
 *     be a prefix of another
 * @param leaf_count  number of `leaves`, at least 1, at most 2^20
 * @param samples     number of samples
 * @param collection  the new handle; free with sab_torch_collection_free()
 * @return SAB_OK; SAB_E_ARGUMENT; SAB_E_UNSUPPORTED before sab_torch_open()
 */
SAB_API sab_status sab_torch_collection_new(const sab_torch_leaf *leaves, size_t leaf_count,
                                            size_t samples, sab_torch_collection **collection)
    SAB_NOEXCEPT;

/** The lengths of the samples, in their original order, to group by.
 *
 * @param collection  a handle
 * @param name        such as "residue" for dimensions `L_residue`
 * @param lengths     the new handle; free with sab_sizes_free()
 * @return SAB_OK; SAB_E_ARGUMENT if no dimension has that name
 */
SAB_API sab_status sab_torch_collection_lengths_new(const sab_torch_collection *collection,
                                                    const char *name, sab_sizes **lengths)
    SAB_NOEXCEPT;

/** Stacks samples group by group, each tensor padded to the longest of its group. A grouped
 * collection is grouped again in one pass. Group g has the samples at its positions in the
 * grouping.
 *
 * On a CPU samples are copied once, by as many threads as LibTorch uses, with at least 1 MiB each.
 * On other devices, and if the padding has gradients, LibTorch's operations gather them.
 *
 * @param collection  a handle
 * @param grouping    of as many samples, by their original order; empty groups are left out. Read
 *     during the call only
 * @param grouped     the new handle; free with sab_torch_collection_free()
 * @return SAB_OK; SAB_E_ARGUMENT; SAB_E_DEVICE_MEMORY
 */
SAB_API sab_status sab_torch_collection_grouped_new(const sab_torch_collection *collection,
                                                    const sab_grouping *grouping,
                                                    sab_torch_collection **grouped) SAB_NOEXCEPT;

/** Returns the samples of the groups, without padding and in their original order.
 *
 * @param collection  grouped
 * @param samples     the new handle; free with sab_torch_collection_free()
 * @return SAB_OK; SAB_E_ARGUMENT if it is not grouped; SAB_E_DEVICE_MEMORY
 */
SAB_API sab_status sab_torch_collection_ungrouped_new(const sab_torch_collection *collection,
                                                      sab_torch_collection **samples) SAB_NOEXCEPT;

/** Makes a grouped collection from the outputs of a model for the groups, to be ungrouped or
 * grouped again.
 *
 * @param collection  grouped: the inputs of the model
 * @param leaves      the outputs of the model, one for each group with dimension B. Lengths are
 *     those of `collection`, by their names; no others may appear
 * @param leaf_count  number of `leaves`, at least 1
 * @param outputs     the new handle; free with sab_torch_collection_free()
 * @return SAB_OK; SAB_E_ARGUMENT
 */
SAB_API sab_status sab_torch_collection_outputs_new(const sab_torch_collection *collection,
                                                    const sab_torch_leaf *leaves, size_t leaf_count,
                                                    sab_torch_collection **outputs) SAB_NOEXCEPT;

/** Facts of a collection. */
typedef struct sab_torch_collection_info {
    size_t struct_size; /**< set by SAB_TORCH_COLLECTION_INFO_INIT */
    uint64_t samples;   /**< number of samples */
    uint64_t groups;    /**< number of groups; 0 when it is not grouped */
    uint64_t leaves;    /**< tensors of a sample */
} sab_torch_collection_info;
#define SAB_TORCH_COLLECTION_INFO_INIT SAB_INIT(sab_torch_collection_info)

/** Gives the facts of a collection.
 *
 * @param collection  a handle
 * @param info        filled on SAB_OK; its struct_size must be set
 * @return SAB_OK; SAB_E_ARGUMENT
 */
SAB_API sab_status sab_torch_collection_get_info(const sab_torch_collection *collection,
                                                 sab_torch_collection_info *info) SAB_NOEXCEPT;

/** A tensor of a sample, or of a group if the collection is grouped, with gradients.
 *
 * @param collection  a handle
 * @param leaf        which tensor, in the order in which leaves were given
 * @param index       which sample, or which group
 * @param tensor      filled on SAB_OK, by assignment; may be an undefined tensor before
 * @return SAB_OK; SAB_E_ARGUMENT
 */
SAB_API sab_status sab_torch_collection_get_tensor(const sab_torch_collection *collection,
                                                   size_t leaf, size_t index,
                                                   struct sab_torch_tensor *tensor) SAB_NOEXCEPT;

/** The mask of a group: which positions are data, not padding.
 *
 * @param collection  grouped
 * @param group       which group
 * @param names       lengths, such as "residue" or "residue, atom": the mask has shape (B, residue,
 *     atom), true for positions within all of them. Or NULL: the mask has the shape and lengths of
 *     the tensor `leaf` of the group
 * @param leaf        where `names` is NULL
 * @param mask        filled on SAB_OK, by assignment: of dtype bool, on the device of the group's
 *     first tensor, or that of `leaf`
 * @return SAB_OK; SAB_E_ARGUMENT
 */
SAB_API sab_status sab_torch_collection_get_mask(const sab_torch_collection *collection,
                                                 size_t group, const char *names, size_t leaf,
                                                 struct sab_torch_tensor *mask) SAB_NOEXCEPT;

/** Frees the handle. Objects made from it remain valid.
 *
 * @param collection  a handle or NULL
 */
SAB_API void sab_torch_collection_free(sab_torch_collection *collection) SAB_NOEXCEPT;

#ifdef __cplusplus
}
#endif

#endif
