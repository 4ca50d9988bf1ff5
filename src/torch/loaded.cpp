#include "torch/loaded.h"

#include <atomic>
#include <cmath>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>

#include "base/guard.h"
#include "memory/probe.h"
#include "torch/loader.h"

namespace {

std::atomic<const sab_torch_component*> component{nullptr};
const char* component_path = nullptr;  // written before `component`, never freed

constexpr sab::TorchHooks hooks{
    [](const char* device, int64_t total_bytes, sab_probe_callbacks& callbacks) {
        sab::call_torch(&sab_torch_component::probe, device, total_bytes, &callbacks);
    },
    [] { return sab::torch_component().caught_out_of_memory() != 0; },
};

}  // namespace

sab_torch_store::~sab_torch_store() {
    if (impl != nullptr) sab::torch_component().free_store(impl);
}

sab_torch_collection::~sab_torch_collection() {
    if (impl != nullptr) sab::torch_component().free_collection(impl);
}

namespace sab {

void open_torch(const char* path) {
    static std::mutex loading;
    if (component.load(std::memory_order_acquire) != nullptr) return;
    const std::scoped_lock lock(loading);
    if (component.load(std::memory_order_acquire) != nullptr) return;
    std::string file;
    const sab_torch_component* const table = load_torch_component(path, file);
    component_path = strdup(file.c_str());
    component.store(table, std::memory_order_release);
    set_torch_hooks(&hooks);
}

const sab_torch_component& torch_component() {
    const auto* const table = component.load(std::memory_order_acquire);
    if (table == nullptr)
        fail(SAB_E_UNSUPPORTED, "LibTorch is not open: call sab_torch_open() first");
    return *table;
}

sab_torch_info torch_info() {
    const sab_torch_component& table = torch_component();
    return {0, table.running(), component_path, table.cuda_devices()};
}

void* open_store(const char* host, uint16_t port, uint64_t rank, uint64_t world_size,
                 double timeout) {
    check(world_size >= 1 && world_size <= uint64_t{1} << 20, "world_size", world_size,
          "must be from 1 to 2^20");
    check(rank < world_size, "rank", rank, "must be below the world size, ", world_size);
    check(timeout > 0 && timeout <= 1e6, "timeout", timeout,
          "must be above 0 and at most 1000000 seconds");
    void* store = nullptr;
    call_torch(&sab_torch_component::new_store, host, port, rank, world_size,
               static_cast<uint64_t>(std::ceil(timeout * 1000)), &store);
    return store;
}

std::vector<sab_torch_leaf> read_leaves(const sab_torch_leaf* leaves, std::size_t count) {
    require(leaves, "leaves");
    check(count >= 1 && count <= std::size_t{1} << 20, "leaf_count", count,
          "must be from 1 to 2^20");
    std::vector<sab_torch_leaf> read;
    const auto* next = reinterpret_cast<const unsigned char*>(leaves);
    for (std::size_t i = 0; i < count; ++i) {
        const auto* const leaf = reinterpret_cast<const sab_torch_leaf*>(next);
        read.push_back(read_options(leaf, text("leaves[", i, "]")));
        check(leaf->struct_size % alignof(sab_torch_leaf) == 0, text("leaves[", i, "].struct_size"),
              leaf->struct_size, "must be a multiple of ", alignof(sab_torch_leaf));
        next += leaf->struct_size;
    }
    return read;
}

sab_torch_collection_info collection_info(const sab_torch_collection& collection) {
    sab_torch_collection_info info = SAB_TORCH_COLLECTION_INFO_INIT;
    torch_component().collection_info(collection.impl, &info);
    return info;
}

Sizes lengths_of(const sab_torch_collection& collection, const char* name) {
    const int64_t* lengths = nullptr;
    call_torch(&sab_torch_component::collection_lengths, collection.impl, name, &lengths);
    sab_sizes_options options = SAB_SIZES_OPTIONS_INIT;
    options.copy = 1;
    return Sizes::from_memory(lengths, collection_info(collection).samples, SAB_INT64, options);
}

}  // namespace sab
