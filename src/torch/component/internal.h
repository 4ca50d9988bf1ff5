#pragma once
/// What the parts of the component share.

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/util/Exception.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "torch/component.h"

namespace sab_torch {

/// Bytes that this thread allocates and frees while one lives are the component's own, and not
/// counted.
class Uncounted {
public:
    Uncounted();
    ~Uncounted();
    Uncounted(const Uncounted&) = delete;
    Uncounted& operator=(const Uncounted&) = delete;
};

/// States of the default generators of the CPU and, for another device, of that device, by depth.
class Generators {
public:
    explicit Generators(c10::Device device);
    ~Generators();
    void save(uint64_t depth);
    void restore(uint64_t depth);

private:
    struct State;
    c10::Device device_;
    std::vector<std::unique_ptr<State>> states_;
};

c10::Device parse_device(const char* device);
/// Throws unless LibTorch can use the device.
void check_device(c10::Device device);
int32_t count_devices(c10::DeviceType type);

void make_cpu_probe(int64_t total_bytes, sab_probe_callbacks& callbacks);
void make_device_probe(c10::Device device, int64_t total_bytes, sab_probe_callbacks& callbacks);

sab_status copy_indices(const int64_t* indices, uint64_t count, const char* device,
                        DLManagedTensor** tensor, sab_torch_message* message);

sab_status new_store(const char* host, uint16_t port, uint64_t rank, uint64_t world_size,
                     uint64_t milliseconds, void** store, sab_torch_message* message);
sab_status gather_by_store(void* store, const void* mine, std::size_t size, void* all,
                           sab_torch_message* message);
void free_store(void* store);

sab_status new_collection(const sab_torch_leaf* leaves, std::size_t count, std::size_t samples,
                          void** collection, sab_torch_message* message);
sab_status new_outputs(const void* collection, const sab_torch_leaf* leaves, std::size_t count,
                       void** outputs, sab_torch_message* message);
sab_status group_collection(const void* collection, const sab_grouping_view* grouping,
                            void** grouped, sab_torch_message* message);
sab_status ungroup_collection(const void* collection, void** samples, sab_torch_message* message);
sab_status collection_lengths(const void* collection, const char* name, const int64_t** lengths,
                              sab_torch_message* message);
void collection_info(const void* collection, sab_torch_collection_info* info);
sab_status collection_tensor(const void* collection, std::size_t leaf, std::size_t index,
                             sab_torch_tensor* tensor, sab_torch_message* message);
sab_status collection_mask(const void* collection, std::size_t group, const char* names,
                           std::size_t leaf, sab_torch_tensor* mask, sab_torch_message* message);
void free_collection(void* collection);

void write_message(sab_torch_message* message, const char* text, const sab::ErrorParts& parts = {});

/// Inside a catch block: whether what was caught says that the device's memory did not suffice.
int32_t caught_out_of_memory();

/// Runs `body`; whatever leaves it becomes a status and a message. What LibTorch refuses is the
/// caller's doing.
template <class Body>
sab_status guarded(sab_torch_message* message, Body&& body) noexcept {
    try {
        body();
        return SAB_OK;
    } catch (const sab::Error& error) {
        write_message(message, error.what(), error.parts());
        return error.status();
    } catch (const std::bad_alloc&) {
        write_message(message, "memory could not be had");
        return SAB_E_NO_MEMORY;
    } catch (const c10::Error& error) {
        write_message(message, error.what_without_backtrace());
        return caught_out_of_memory() != 0 ? SAB_E_DEVICE_MEMORY : SAB_E_ARGUMENT;
    } catch (const std::exception& error) {
        write_message(message, error.what());
        return SAB_E_INTERNAL;
    } catch (...) {
        write_message(message, "an unknown C++ exception");
        return SAB_E_INTERNAL;
    }
}

/// A function of a probe: 0, or 1 for whatever leaves it.
template <class Body>
int32_t answered(Body&& body) noexcept {
    try {
        body();
        return 0;
    } catch (...) {
        return 1;
    }
}

}  // namespace sab_torch
