#pragma once
/// The LibTorch component once it is loaded, and what is computed around its functions.

#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/handle.h"
#include "sizes/sizes.h"
#include "torch/component.h"

struct sab_torch_store {
    sab::Tag<sab_torch_store> tag{};
    void* impl = nullptr;
    ~sab_torch_store();
};

struct sab_torch_collection {
    sab::Tag<sab_torch_collection> tag{};
    void* impl = nullptr;
    ~sab_torch_collection();
};

namespace sab {

/// Loads the component on the first call, and gives its functions to the rooms that use them.
void open_torch(const char* path);
/// Throws SAB_E_UNSUPPORTED before open_torch().
const sab_torch_component& torch_component();
sab_torch_info torch_info();

/// Calls a function of the component and throws its failure.
template <class... Parameters, class... Given>
void call_torch(sab_status (*sab_torch_component::*function)(Parameters...), Given... given) {
    sab_torch_message message{};
    const sab_status status = (torch_component().*function)(given..., &message);
    if (status != SAB_OK)
        throw Error(status, message.text, 0, {message.argument, message.value, message.rule});
}

void* open_store(const char* host, uint16_t port, uint64_t rank, uint64_t world_size,
                 double timeout);
/// Whole structs of this version, each read as large as the caller's says it is.
std::vector<sab_torch_leaf> read_leaves(const sab_torch_leaf* leaves, std::size_t count);
sab_torch_collection_info collection_info(const sab_torch_collection& collection);
Sizes lengths_of(const sab_torch_collection& collection, const char* name);

}  // namespace sab
