/// The indices of a batch as a tensor, by DLPack.
#include <ATen/DLConvertor.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <cstring>

#include "torch/component/internal.h"

namespace sab_torch {
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
