#include "sizes/sizes.h"

#include <algorithm>
#include <vector>

namespace sab {

std::size_t dtype_size(sab_dtype dtype) {
    switch (dtype) {
        case SAB_INT8:
        case SAB_UINT8: return 1;
        case SAB_INT16:
        case SAB_UINT16: return 2;
        case SAB_INT32:
        case SAB_UINT32:
        case SAB_FLOAT32: return 4;
        case SAB_INT64:
        case SAB_UINT64:
        case SAB_FLOAT64: return 8;
        default:
            fail(SAB_E_ARGUMENT, "dtype = ", dtype,
                 ": must be one of SAB_INT8 (1) to SAB_FLOAT64 (10)");
    }
}

Sizes::Sizes(const void* data, std::size_t count, sab_dtype dtype, std::ptrdiff_t stride,
             std::shared_ptr<const void> owner)
    : data_(data), count_(count), dtype_(dtype), stride_(stride), owner_(std::move(owner)) {
    check(count <= largest_sample_count, "count", count, "must be at most ", largest_sample_count);
}

double Sizes::at(std::size_t index) const {
    return visit([&](auto view) { return checked_size(view[index], index); });
}

Sizes Sizes::from_memory(const void* data, std::size_t count, sab_dtype dtype,
                         const sab_sizes_options& options) {
    const std::size_t item = dtype_size(dtype);
    if (count > 0) require(data, "data");
    check(options.columns == 1, "options.columns", options.columns, "must be 1 in this version");
    check(options.copy == 0 || options.copy == 1, "options.copy", options.copy, "must be 0 or 1");
    const auto stride = options.stride == 0 ? static_cast<std::ptrdiff_t>(item)
                                            : static_cast<std::ptrdiff_t>(options.stride);
    if (options.copy == 0) return Sizes(data, count, dtype, stride, nullptr);

    check(count <= largest_sample_count, "count", count, "must be at most ", largest_sample_count);
    std::shared_ptr<std::byte[]> copy(new std::byte[std::max<std::size_t>(count * item, 1)]);
    const auto* from = static_cast<const std::byte*>(data);
    for (std::size_t i = 0; i < count; ++i)
        std::memcpy(copy.get() + i * item, from + static_cast<std::ptrdiff_t>(i) * stride, item);
    const void* dense = copy.get();
    return Sizes(dense, count, dtype, static_cast<std::ptrdiff_t>(item), std::move(copy));
}

Sizes Sizes::from_callback(std::size_t count, sab_size_fn size, void* ctx,
                           const Progress& progress) {
    check(count <= largest_sample_count, "count", count, "must be at most ", largest_sample_count);
    // Whole numbers below 2^32, the usual case, take 4 bytes; the first other size moves all to
    // doubles.
    auto whole = std::make_shared<std::vector<uint32_t>>();
    auto real = std::make_shared<std::vector<double>>();
    whole->reserve(count);
    for (std::size_t i = 0; i < count; ++i) {
        if (i % 1024 == 0) progress.report(i, count);
        double value = 0;
        if (const int32_t code = size(ctx, static_cast<int64_t>(i), &value); code != 0)
            throw Error(SAB_E_CALLBACK,
                        text("the size callback failed with code ", code, " at index ", i), code);
        value = checked_size(value, i);
        if (real->empty() && value < 4294967296.0 && value == std::floor(value)) {
            whole->push_back(static_cast<uint32_t>(value));
            continue;
        }
        if (real->empty()) {
            real->reserve(count);
            real->assign(whole->begin(), whole->end());
            std::vector<uint32_t>().swap(*whole);
        }
        real->push_back(value);
    }
    if (!real->empty()) {
        const void* data = real->data();
        return Sizes(data, count, SAB_FLOAT64, sizeof(double), std::move(real));
    }
    const void* data = whole->data();
    return Sizes(data, count, SAB_UINT32, sizeof(uint32_t), std::move(whole));
}

}  // namespace sab
