#include "base/guard.h"
#include "group/grouping.h"
#include "sizes/columns.h"
#include "torch/loaded.h"

namespace {

/// Makes a handle of the collection that `make(&impl)` gives.
template <class Make>
sab_status new_collection(sab_torch_collection** handle, std::string_view name,
                          Make&& make) noexcept {
    return sab::guard_new(handle, name, [&] {
        auto made = std::make_unique<sab_torch_collection>();
        make(&made->impl);
        return made.release();
    });
}

}  // namespace

extern "C" {

sab_status sab_torch_open(const char* path, sab_torch_info* info) noexcept {
    return sab::guard([&] {
        if (info != nullptr) sab::check_result(info, "info");
        sab::open_torch(path);
        if (info != nullptr) sab::write_result(sab::torch_info(), info);
    });
}

sab_status sab_torch_indices_new(const sab_batch* batch, const char* device,
                                 DLManagedTensor** tensor) noexcept {
    return sab::guard_new(tensor, "tensor", [&] {
        sab::check_result(batch, "batch");
        if (batch->count > 0) sab::require(batch->indices, "batch.indices");
        sab::require(device, "device");
        DLManagedTensor* made = nullptr;
        sab::call_torch(&sab_torch_component::indices, batch->indices, batch->count, device, &made);
        return made;
    });
}

sab_status sab_torch_store_new(const char* host, uint16_t port, uint64_t rank, uint64_t world_size,
                               double timeout, sab_torch_store** store) noexcept {
    return sab::guard_new(store, "store", [&] {
        sab::require(host, "host");
        auto made = std::make_unique<sab_torch_store>();
        made->impl = sab::open_store(host, port, rank, world_size, timeout);
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
        sab::call_torch(&sab_torch_component::gather, static_cast<sab_torch_store*>(store)->impl,
                        mine, size, all);
    });
}

void sab_torch_store_free(sab_torch_store* store) noexcept {
    sab::free_handle(store);
}

sab_status sab_torch_collection_new(const sab_torch_leaf* leaves, size_t leaf_count, size_t samples,
                                    sab_torch_collection** collection) noexcept {
    return new_collection(collection, "collection", [&](void** impl) {
        const auto read = sab::read_leaves(leaves, leaf_count);
        sab::check(samples <= sab::largest_sample_count, "samples", samples,
                   "must be at most 4294967295");
        sab::call_torch(&sab_torch_component::new_collection, read.data(), read.size(), samples,
                        impl);
    });
}

sab_status sab_torch_collection_lengths_new(const sab_torch_collection* collection,
                                            const char* name, sab_sizes** lengths) noexcept {
    return sab::guard_new(lengths, "lengths", [&] {
        sab::require(collection, "collection");
        sab::require(name, "name");
        return new sab_sizes{{}, sab::lengths_of(*collection, name)};
    });
}

sab_status sab_torch_collection_grouped_new(const sab_torch_collection* collection,
                                            const sab_grouping* grouping,
                                            sab_torch_collection** grouped) noexcept {
    return new_collection(grouped, "grouped", [&](void** impl) {
        sab::require(collection, "collection");
        sab::require(grouping, "grouping");
        const sab_grouping_view groups = grouping->impl.view();
        sab::call_torch(&sab_torch_component::group_collection, collection->impl, &groups, impl);
    });
}

sab_status sab_torch_collection_ungrouped_new(const sab_torch_collection* collection,
                                              sab_torch_collection** samples) noexcept {
    return new_collection(samples, "samples", [&](void** impl) {
        sab::require(collection, "collection");
        sab::call_torch(&sab_torch_component::ungroup_collection, collection->impl, impl);
    });
}

sab_status sab_torch_collection_outputs_new(const sab_torch_collection* collection,
                                            const sab_torch_leaf* leaves, size_t leaf_count,
                                            sab_torch_collection** outputs) noexcept {
    return new_collection(outputs, "outputs", [&](void** impl) {
        sab::require(collection, "collection");
        const auto read = sab::read_leaves(leaves, leaf_count);
        sab::call_torch(&sab_torch_component::new_outputs, collection->impl, read.data(),
                        read.size(), impl);
    });
}

sab_status sab_torch_collection_get_info(const sab_torch_collection* collection,
                                         sab_torch_collection_info* info) noexcept {
    return sab::guard([&] {
        sab::require(collection, "collection");
        sab::check_result(info, "info");
        sab::write_result(sab::collection_info(*collection), info);
    });
}

sab_status sab_torch_collection_get_tensor(const sab_torch_collection* collection, size_t leaf,
                                           size_t index, sab_torch_tensor* tensor) noexcept {
    return sab::guard([&] {
        sab::require(collection, "collection");
        sab::require(tensor, "tensor");
        sab::call_torch(&sab_torch_component::collection_tensor, collection->impl, leaf, index,
                        tensor);
    });
}

sab_status sab_torch_collection_get_mask(const sab_torch_collection* collection, size_t group,
                                         const char* names, size_t leaf,
                                         sab_torch_tensor* mask) noexcept {
    return sab::guard([&] {
        sab::require(collection, "collection");
        sab::require(mask, "mask");
        sab::call_torch(&sab_torch_component::collection_mask, collection->impl, group, names, leaf,
                        mask);
    });
}

void sab_torch_collection_free(sab_torch_collection* collection) noexcept {
    sab::free_handle(collection);
}

}  // extern "C"
