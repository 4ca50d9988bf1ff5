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
        default:
            throw Refusal(SAB_E_ARGUMENT, std::string("tensor: is of ") +
                                              c10::toString(tensor.scalar_type()) +
                                              ": must be of integers, float32 or float64");
    }
}

}  // namespace

at::Tensor from_dlpack(const DLManagedTensor& given, const std::string& name,
                       std::function<void()> release) {
    const auto refuse = [&](const std::string& rule) {
        throw Refusal(SAB_E_ARGUMENT, name + rule);
    };
    const DLTensor& tensor = given.dl_tensor;
    if (tensor.ndim < 0 || tensor.ndim > 64)
        refuse(" has " + std::to_string(tensor.ndim) + " dimensions: must have from 0 to 64");
    if (tensor.ndim > 0 && tensor.shape == nullptr) refuse(" has no shape");
    int64_t bytes = (tensor.dtype.bits + 7) / 8;  // up to behind the last element
    bool is_empty = false;
    for (int32_t d = 0; d < tensor.ndim; ++d) {
        if (tensor.shape[d] < 0)
            refuse(" has size " + std::to_string(tensor.shape[d]) + ": must be at least 0");
        is_empty = is_empty || tensor.shape[d] == 0;
    }
    int64_t next = bytes;
    for (int32_t d = tensor.ndim; !is_empty && d-- > 0;) {
        int64_t reach = 0;
        if (tensor.strides != nullptr && tensor.shape[d] > 1 && tensor.strides[d] < 0)
            refuse(" has a negative stride, which LibTorch does not know");
        if (tensor.strides != nullptr && tensor.shape[d] > 1
                ? __builtin_mul_overflow(tensor.strides[d], (tensor.dtype.bits + 7) / 8, &next)
                : next < 0)
            next = -1;
        if (next < 0 || __builtin_mul_overflow(tensor.shape[d] - 1, next, &reach) ||
            __builtin_add_overflow(bytes, reach, &bytes))
            refuse(" has more than 2^63 bytes");
        if (tensor.strides == nullptr && __builtin_mul_overflow(tensor.shape[d], next, &next))
            next = -1;
    }
    if (!is_empty && tensor.data == nullptr) refuse(" has no memory");

    struct Held {
        DLManagedTensor view;
        std::vector<int64_t> strides;
        std::function<void()> release;
    };
    auto held = std::make_unique<Held>(Held{given, {}, std::move(release)});
    DLTensor& view = held->view.dl_tensor;
    // LibTorch does not look at it
    if (view.data != nullptr) view.data = static_cast<char*>(view.data) + view.byte_offset;
    view.byte_offset = 0;
    if (view.strides != nullptr) {
        held->strides.assign(view.strides, view.strides + view.ndim);
        for (int32_t d = 0; d < view.ndim; ++d)
            // of any value
            if (is_empty || view.shape[d] == 1) held->strides[static_cast<std::size_t>(d)] = 1;
        view.strides = held->strides.data();
    }
    held->view.manager_ctx = held.get();
    held->view.deleter = [](DLManagedTensor* dying) {
        const std::unique_ptr<Held> ours(static_cast<Held*>(dying->manager_ctx));
        ours->release();
    };
    const at::Tensor made = at::fromDLPack(&held->view);
    held.release();  // goes with the tensor
    return made;
}

sab_status read_sizes(DLManagedTensor* tensor, const void** data, uint64_t* count, int32_t* dtype,
                      void** owner, sab_torch_message* message) {
    return guarded(message, [&] {
        const at::Tensor given = from_dlpack(*tensor, "tensor", [] {});  // it stays the caller's
        if (given.dim() != 1)
            throw Refusal(SAB_E_ARGUMENT, "tensor: has " + std::to_string(given.dim()) +
                                              " dimensions: must have one");
        *dtype = dtype_of(given);
        auto kept = std::make_unique<at::Tensor>(given.to(at::kCPU).contiguous());
        // not the caller's memory, which goes with its deleter
        if (kept->data_ptr() == given.data_ptr()) *kept = kept->clone();
        *data = kept->data_ptr();
        *count = static_cast<uint64_t>(kept->numel());
        *owner = kept.release();
    });
}

void release_sizes(void* owner) {
    delete static_cast<at::Tensor*>(owner);
}

void delete_tensor(DLManagedTensor* tensor) {
    if (tensor->deleter != nullptr) tensor->deleter(tensor);
}

sab_status copy_indices(const int64_t* indices, uint64_t count, const char* device,
                        DLManagedTensor** tensor, sab_torch_message* message) {
    return guarded(message, [&] {
        const c10::Device where = parse_device(device);
        check_device(where);
        at::Tensor copy = at::empty({static_cast<int64_t>(count)}, at::TensorOptions(at::kLong));
        if (count > 0) std::memcpy(copy.data_ptr(), indices, count * sizeof *indices);
        *tensor = at::toDLPack(where.type() == c10::DeviceType::CPU ? copy : copy.to(where));
    });
}

}  // namespace sab_torch
