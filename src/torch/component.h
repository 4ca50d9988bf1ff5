#pragma once
/// What libsab asks of libsab_torch.so: a table of C functions, so that neither library links the
/// other.

#include "sab/group.h"
#include "sab/memory.h"
#include "sab/torch.h"

extern "C" {

struct DLManagedTensor;

#define SAB_TORCH_COMPONENT_VERSION 1u
#define SAB_TORCH_COMPONENT_SYMBOL "sab_torch_component_1"
/* stands in the component's file before the version of LibTorch that it was built for */
#define SAB_TORCH_BUILT_FOR "SAB_TORCH_BUILT_FOR="

/// Where a function of the table writes why it failed: the message, and its parts.
struct sab_torch_message {
    char text[512];
    char argument[128];
    char value[256];
    char rule[512];
};

struct sab_torch_component {
    uint32_t version;          ///< SAB_TORCH_COMPONENT_VERSION
    const char* built_for;     ///< TORCH_VERSION of the headers
    const char* (*running)();  ///< version of the LibTorch that is loaded; static
    int32_t (*cuda_devices)();

    /// Fills the functions of a probe for "cpu", "cuda:N", ...; see sab_probe_new().
    sab_status (*probe)(const char* device, int64_t total_bytes, sab_probe_callbacks* callbacks,
                        sab_torch_message* message);

    /// Inside a catch block: whether what was caught is LibTorch's out-of-memory error.
    int32_t (*caught_out_of_memory)();

    /// A copy of `indices` as an int64 tensor on `device`.
    sab_status (*indices)(const int64_t* indices, uint64_t count, const char* device,
                          DLManagedTensor** tensor, sab_torch_message* message);

    /// A store of c10d's, through which ranks meet; rank 0 holds it. See sab_torch_store_new().
    sab_status (*new_store)(const char* host, uint16_t port, uint64_t rank, uint64_t world_size,
                            uint64_t milliseconds, void** store, sab_torch_message* message);
    sab_status (*gather)(void* store, const void* mine, size_t size, void* all,
                         sab_torch_message* message);
    void (*free_store)(void* store);

    /// Collections; see sab_torch_collection_new(). Leaves are whole structs of this version.
    sab_status (*new_collection)(const sab_torch_leaf* leaves, size_t count, size_t samples,
                                 void** collection, sab_torch_message* message);
    sab_status (*new_outputs)(const void* collection, const sab_torch_leaf* leaves, size_t count,
                              void** outputs, sab_torch_message* message);
    sab_status (*group_collection)(const void* collection, const sab_grouping_view* grouping,
                                   void** grouped, sab_torch_message* message);
    sab_status (*ungroup_collection)(const void* collection, void** samples,
                                     sab_torch_message* message);
    sab_status (*collection_lengths)(const void* collection, const char* name,
                                     const int64_t** lengths, sab_torch_message* message);
    void (*collection_info)(const void* collection, sab_torch_collection_info* info);
    sab_status (*collection_tensor)(const void* collection, size_t leaf, size_t index,
                                    sab_torch_tensor* tensor, sab_torch_message* message);
    sab_status (*collection_mask)(const void* collection, size_t group, const char* names,
                                  size_t leaf, sab_torch_tensor* mask, sab_torch_message* message);
    void (*free_collection)(void* collection);
};

/// The one symbol that the component exports.
using sab_torch_component_fn = const sab_torch_component* (*)();

}  // extern "C"
