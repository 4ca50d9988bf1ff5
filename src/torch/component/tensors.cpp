/// Tensors by DLPack.
#include <ATen/DLConvertor.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <cstring>

#include "torch/component/internal.h"

namespace sab_torch {
namespace {

int32_t dtype_of(const at::Tensor& tensor) {
    switch (tensor.scalar_type()) {
        case at::kChar: return SAB_INT8;
        case at::kShort: return SAB_INT16;
        case at::kInt: return SAB_INT32;
        case at::kLong: return SAB_INT64;
        case at::kByte: return SAB_UINT8;
        case at::kFloat: return SAB_FLOAT32;
        case at::kDouble: return SAB_FLOAT64;
        default: throw Refusal(SAB_E_ARGUMENT, std::string("tensor: is of ") + c10::toString(tensor.scalar_type()) + ": must be of integers, float32 or float64");
    }
}

}  // namespace

sab_status read_sizes(DLManagedTensor* tensor, const void** data, uint64_t* count, int32_t* dtype, void** owner, sab_torch_message* message) {
    return guarded(message, [&] {
        // A view whose deleter does nothing: the tensor stays the caller's.
        auto view = std::make_unique<DLManagedTensor>(*tensor);
        view->deleter = [](DLManagedTensor*) {};
        const at::Tensor given = at::fromDLPack(view.get());
        if (given.dim() != 1) throw Refusal(SAB_E_ARGUMENT, "tensor: has " + std::to_string(given.dim()) + " dimensions: must have one");
        *dtype = dtype_of(given);
        auto kept = std::make_unique<at::Tensor>(given.to(at::kCPU).contiguous());
        if (kept->data_ptr() == given.data_ptr()) *kept = kept->clone();  // not the caller's memory, which goes with its deleter
        *data = kept->data_ptr();
        *count = static_cast<uint64_t>(kept->numel());
        *owner = kept.release();
    });
}

void release_sizes(void* owner) { delete static_cast<at::Tensor*>(owner); }

void delete_tensor(DLManagedTensor* tensor) {
    if (tensor->deleter != nullptr) tensor->deleter(tensor);
}

sab_status copy_indices(const int64_t* indices, uint64_t count, const char* device, DLManagedTensor** tensor, sab_torch_message* message) {
    return guarded(message, [&] {
        const c10::Device where = parse_device(device);
        check_device(where);
        at::Tensor copy = at::empty({static_cast<int64_t>(count)}, at::TensorOptions(at::kLong));
        if (count > 0) std::memcpy(copy.data_ptr(), indices, count * sizeof *indices);
        *tensor = at::toDLPack(where.type() == c10::DeviceType::CPU ? copy : copy.to(where));
    });
}

}  // namespace sab_torch
