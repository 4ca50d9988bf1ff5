/// Hands the functions of the LibTorch component to the rooms that ask for them.
#include <atomic>
#include <cmath>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/guard.h"
#include "memory/probe.h"
#include "sab/torch.h"
#include "sizes/sizes.h"
#include "torch/component.h"
#include "torch/loader.h"

namespace {

std::atomic<const sab_torch_component*> component{nullptr};
const char* component_path = nullptr;  // written before `component`, never freed

const sab_torch_component& opened() {
    const auto* const table = component.load(std::memory_order_acquire);
    if (table == nullptr)
        sab::fail(SAB_E_UNSUPPORTED, "LibTorch is not open: call sab_torch_open() first");
    return *table;
}

void check_done(sab_status status, const sab_torch_message& message) {
    if (status != SAB_OK) sab::fail(status, std::string_view(message.text));
}

constexpr sab::TorchHooks hooks{
    [](const char* device, int64_t total_bytes, sab_probe_callbacks& callbacks) {
        sab_torch_message message{};
        check_done(opened().probe(device, total_bytes, &callbacks, &message), message);
    },
    [] { return opened().caught_out_of_memory() != 0; },
};

void load(const char* path) {
    std::string file;
    const sab_torch_component* const table = sab::load_torch_component(path, file);
    component_path = strdup(file.c_str());
    component.store(table, std::memory_order_release);
    sab::set_torch_hooks(&hooks);
}

}  // namespace

struct sab_torch_store {
    void* impl;
};

struct sab_torch_collection {
    void* impl = nullptr;
    ~sab_torch_collection() { opened().free_collection(impl); }
};

namespace {

std::vector<sab_torch_leaf> read_torch_leaves(const sab_torch_leaf* leaves, std::size_t count) {
    sab::require(leaves, "leaves");
    sab::check(count >= 1 && count <= std::size_t{1} << 20, "leaf_count", count,
               "must be from 1 to 2^20");
    std::vector<sab_torch_leaf> read;
    const auto* next = reinterpret_cast<const unsigned char*>(leaves);
    for (std::size_t i = 0; i < count; ++i) {
        const auto* const leaf = reinterpret_cast<const sab_torch_leaf*>(next);
        read.push_back(sab::read_options(leaf, sab_torch_leaf SAB_TORCH_LEAF_INIT,
                                         sab::text("leaves[", i, "]")));
        sab::check(leaf->struct_size % alignof(sab_torch_leaf) == 0,
                   sab::text("leaves[", i, "].struct_size"), leaf->struct_size,
                   "must be a multiple of ", alignof(sab_torch_leaf));
        next += leaf->struct_size;
    }
    return read;
}

/// Makes a handle of what `make(table, &impl, &message)` gives.
template <class Make>
sab_status new_collection(sab_torch_collection** handle, std::string_view name, Make&& make) {
    return sab::guard_new(handle, name, [&] {
        const sab_torch_component& table = opened();
        auto made = std::make_unique<sab_torch_collection>();
        sab_torch_message message{};
        check_done(make(table, &made->impl, &message), message);
        return made.release();
    });
}

}  // namespace

extern "C" {

sab_status sab_torch_open(const char* path) noexcept {
    return sab::guard([&] {
        static std::mutex loading;
        if (component.load(std::memory_order_acquire) != nullptr) return;
        const std::scoped_lock lock(loading);
        if (component.load(std::memory_order_acquire) == nullptr) load(path);
    });
}

sab_status sab_torch_get_info(sab_torch_info* info) noexcept {
    return sab::guard([&] {
        sab::check_result(info, "info");
        const sab_torch_component& table = opened();
        sab::write_result(sab_torch_info{0, table.running(), component_path, table.cuda_devices()},
                          info);
    });
}

sab_status sab_torch_sizes_new(DLManagedTensor* tensor, sab_sizes** sizes) noexcept {
    return sab::guard_new(sizes, "sizes", [&] {
        sab::require(tensor, "tensor");
        const sab_torch_component& table = opened();
        const void* data = nullptr;
        uint64_t count = 0;
        int32_t dtype = 0;
        void* owner = nullptr;
        sab_torch_message message{};
        check_done(table.sizes(tensor, &data, &count, &dtype, &owner, &message), message);
        const std::shared_ptr<const void> keep(owner,
                                               [release = table.release_sizes](const void* kept) {
                                                   release(const_cast<void*>(kept));
                                               });
        sab_sizes_options options = SAB_SIZES_OPTIONS_INIT;
        options.copy = 1;
        auto* const made = new sab_sizes{sab::Sizes::from_memory(data, count, dtype, options)};
        table.delete_tensor(tensor);
        return made;
    });
}

sab_status sab_torch_indices_new(const sab_batch* batch, const char* device,
                                 DLManagedTensor** tensor) noexcept {
    return sab::guard_new(tensor, "tensor", [&] {
        sab::check_result(batch, "batch");
        if (batch->count > 0) sab::require(batch->indices, "batch.indices");
        sab::require(device, "device");
        DLManagedTensor* made = nullptr;
        sab_torch_message message{};
        check_done(opened().indices(batch->indices, batch->count, device, &made, &message),
                   message);
        return made;
    });
}

sab_status sab_torch_store_new(const char* host, uint16_t port, uint64_t rank, uint64_t world_size,
                               double timeout, sab_torch_store** store) noexcept {
    return sab::guard_new(store, "store", [&] {
        sab::require(host, "host");
        sab::check(world_size >= 1 && world_size <= uint64_t{1} << 20, "world_size", world_size,
                   "must be from 1 to 2^20");
        sab::check(rank < world_size, "rank", rank, "must be below the world size, ", world_size);
        sab::check(timeout > 0 && timeout <= 1e6, "timeout", timeout,
                   "must be above 0 and at most 1000000 seconds");
        const sab_torch_component& table = opened();
        auto made = std::make_unique<sab_torch_store>();
        sab_torch_message message{};
        check_done(table.new_store(host, port, rank, world_size,
                                   static_cast<uint64_t>(std::ceil(timeout * 1000)), &made->impl,
                                   &message),
                   message);
        return made.release();
    });
}

int32_t sab_torch_store_all_gather(void* store, const void* mine, size_t size, void* all) noexcept {
    return sab::guard([&] {
        sab::require(store, "store");
        if (size > 0) {
            sab::require(mine, "mine");
            sab::require(all, "all");
        }
        sab_torch_message message{};
        check_done(
            opened().gather(static_cast<sab_torch_store*>(store)->impl, mine, size, all, &message),
            message);
    });
}

void sab_torch_store_free(sab_torch_store* store) noexcept {
    if (store == nullptr) return;
    opened().free_store(store->impl);
    delete store;
}

sab_status sab_torch_collection_new(const sab_torch_leaf* leaves, size_t leaf_count, size_t samples,
                                    sab_torch_collection** collection) noexcept {
    return new_collection(
        collection, "collection",
        [&](const sab_torch_component& table, void** impl, sab_torch_message* message) {
            const auto read = read_torch_leaves(leaves, leaf_count);
            sab::check(samples <= sab::largest_sample_count, "samples", samples,
                       "must be at most 4294967295");
            return table.new_collection(read.data(), read.size(), samples, impl, message);
        });
}

sab_status sab_torch_collection_lengths(const sab_torch_collection* collection, const char* name,
                                        sab_sizes** lengths) noexcept {
    return sab::guard_new(lengths, "lengths", [&] {
        sab::require(collection, "collection");
        sab::require(name, "name");
        const int64_t* found = nullptr;
        sab_torch_message message{};
        check_done(opened().collection_lengths(collection->impl, name, &found, &message), message);
        sab_torch_collection_info info = SAB_TORCH_COLLECTION_INFO_INIT;
        opened().collection_info(collection->impl, &info);
        sab_sizes_options options = SAB_SIZES_OPTIONS_INIT;
        options.copy = 1;
        return new sab_sizes{sab::Sizes::from_memory(found, info.samples, SAB_INT64, options)};
    });
}

sab_status sab_torch_collection_group(const sab_torch_collection* collection,
                                      const sab_grouping* grouping,
                                      sab_torch_collection** grouped) noexcept {
    return new_collection(
        grouped, "grouped",
        [&](const sab_torch_component& table, void** impl, sab_torch_message* message) {
            sab::require(collection, "collection");
            sab::require(grouping, "grouping");
            sab_grouping_view groups = SAB_GROUPING_VIEW_INIT;
            sab_grouping_get_view(grouping, &groups);
            return table.group_collection(collection->impl, &groups, impl, message);
        });
}

sab_status sab_torch_collection_ungroup(const sab_torch_collection* collection,
                                        sab_torch_collection** samples) noexcept {
    return new_collection(
        samples, "samples",
        [&](const sab_torch_component& table, void** impl, sab_torch_message* message) {
            sab::require(collection, "collection");
            return table.ungroup_collection(collection->impl, impl, message);
        });
}

sab_status sab_torch_collection_outputs(const sab_torch_collection* collection,
                                        const sab_torch_leaf* leaves, size_t leaf_count,
                                        sab_torch_collection** outputs) noexcept {
    return new_collection(
        outputs, "outputs",
        [&](const sab_torch_component& table, void** impl, sab_torch_message* message) {
            sab::require(collection, "collection");
            const auto read = read_torch_leaves(leaves, leaf_count);
            return table.new_outputs(collection->impl, read.data(), read.size(), impl, message);
        });
}

sab_status sab_torch_collection_get_info(const sab_torch_collection* collection,
                                         sab_torch_collection_info* info) noexcept {
    return sab::guard([&] {
        sab::require(collection, "collection");
        sab::check_result(info, "info");
        sab_torch_collection_info own = SAB_TORCH_COLLECTION_INFO_INIT;
        opened().collection_info(collection->impl, &own);
        sab::write_result(own, info);
    });
}

sab_status sab_torch_collection_get_dlpack(const sab_torch_collection* collection, size_t leaf,
                                           size_t index, DLManagedTensor** tensor) noexcept {
    return sab::guard_new(tensor, "tensor", [&] {
        sab::require(collection, "collection");
        DLManagedTensor* made = nullptr;
        sab_torch_message message{};
        check_done(
            opened().collection_tensor(collection->impl, leaf, index, nullptr, &made, &message),
            message);
        return made;
    });
}

sab_status sab_torch_collection_get_tensor(const sab_torch_collection* collection, size_t leaf,
                                           size_t index, sab_torch_tensor* tensor) noexcept {
    return sab::guard([&] {
        sab::require(collection, "collection");
        sab::require(tensor, "tensor");
        sab_torch_message message{};
        check_done(
            opened().collection_tensor(collection->impl, leaf, index, tensor, nullptr, &message),
            message);
    });
}

sab_status sab_torch_collection_get_mask(const sab_torch_collection* collection, size_t group,
                                         const char* names, size_t leaf,
                                         sab_torch_tensor* mask) noexcept {
    return sab::guard([&] {
        sab::require(collection, "collection");
        sab::require(mask, "mask");
        sab_torch_message message{};
        check_done(
            opened().collection_mask(collection->impl, group, names, leaf, mask, nullptr, &message),
            message);
    });
}

sab_status sab_torch_collection_get_mask_dlpack(const sab_torch_collection* collection,
                                                size_t group, const char* names, size_t leaf,
                                                DLManagedTensor** mask) noexcept {
    return sab::guard_new(mask, "mask", [&] {
        sab::require(collection, "collection");
        DLManagedTensor* made = nullptr;
        sab_torch_message message{};
        check_done(opened().collection_mask(collection->impl, group, names, leaf, nullptr, &made,
                                            &message),
                   message);
        return made;
    });
}

void sab_torch_collection_free(sab_torch_collection* collection) noexcept {
    delete collection;
}

}  // extern "C"
