#pragma once
/// Sizes of samples in any of ten number types and any stride, read in place.

#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>

#include "base/error.h"
#include "base/progress.h"
#include "sab/sizes.h"

namespace sab {

inline constexpr double largest_size = 9007199254740992.0;  // 2^53
inline constexpr std::size_t largest_sample_count = 0xFFFFFFFFu;

/// Whether a number may be a size. Whole numbers are compared as such: 2^53 + 1 would pass as a
/// double.
template <class Number>
constexpr bool is_size(Number number) {
    if constexpr (std::is_integral_v<Number>)
        return std::cmp_greater_equal(number, 0) &&
               std::cmp_less_equal(number, static_cast<int64_t>(largest_size));
    else
        return number >= 0 && static_cast<double>(number) <= largest_size;
}

/// Refuses what sab/sizes.h says is refused.
template <class Number>
double checked_size(Number number, std::size_t index, std::string_view name = "sizes") {
    const double size = static_cast<double>(number);
    if (!is_size(number)) [[unlikely]] {
        const char* rule = std::isnan(size)   ? ": must be a number"
                           : std::isinf(size) ? ": must be finite"
                           : size < 0         ? ": must not be negative"
                                              : ": must be at most 2^53";
        fail(SAB_E_ARGUMENT, name, "[", index, "] = ", number, rule);
    }
    return size + 0.0;  // -0.0 becomes 0.0
}

/// Numbers of one type, dense and aligned.
template <class Number>
struct DenseView {
    using number_type = Number;
    const Number* data;
    Number operator[](std::size_t i) const { return data[i]; }
};

/// Numbers of one type at any stride and alignment.
template <class Number>
struct StridedView {
    using number_type = Number;
    const std::byte* data;
    std::ptrdiff_t stride;
    Number operator[](std::size_t i) const {
        Number number;
        std::memcpy(&number, data + static_cast<std::ptrdiff_t>(i) * stride, sizeof number);
        return number;
    }
};

std::size_t dtype_size(sab_dtype dtype);  // throws SAB_E_ARGUMENT for an unknown one

class Sizes {
public:
    /// `owner` keeps the memory alive; null when it is the caller's.
    Sizes(const void* data, std::size_t count, sab_dtype dtype, std::ptrdiff_t stride,
          std::shared_ptr<const void> owner);

    static Sizes from_memory(const void* data, std::size_t count, sab_dtype dtype,
                             const sab_sizes_options& options);
    static Sizes from_callback(std::size_t count, sab_size_fn size, void* ctx,
                               const Progress& progress);

    std::size_t count() const { return count_; }
    bool is_integer() const { return dtype_ <= SAB_UINT64; }
    double at(std::size_t index) const;

    bool is_dense() const {
        return stride_ == static_cast<std::ptrdiff_t>(dtype_size(dtype_)) &&
               reinterpret_cast<std::uintptr_t>(data_) % dtype_size(dtype_) == 0;
    }
    /// A copy that is dense.
    Sizes dense() const {
        return from_memory(data_, count_, dtype_, {sizeof(sab_sizes_options), stride_, 1, 1});
    }

    /// Calls `body` with a DenseView: for code so large that there shall be one for each type only.
    template <class Body>
    decltype(auto) visit_dense(Body&& body) const {
        return visit([&](auto view) {
            using Number = typename decltype(view)::number_type;
            return body(DenseView<Number>{static_cast<const Number*>(data_)});
        });
    }

    /// Calls `body` with the view that fits the memory.
    template <class Body>
    decltype(auto) visit(Body&& body) const {
        switch (dtype_) {
            case SAB_INT8: return with<int8_t>(body);
            case SAB_INT16: return with<int16_t>(body);
            case SAB_INT32: return with<int32_t>(body);
            case SAB_INT64: return with<int64_t>(body);
            case SAB_UINT8: return with<uint8_t>(body);
            case SAB_UINT16: return with<uint16_t>(body);
            case SAB_UINT32: return with<uint32_t>(body);
            case SAB_UINT64: return with<uint64_t>(body);
            case SAB_FLOAT32: return with<float>(body);
            default: return with<double>(body);
        }
    }

private:
    template <class Number, class Body>
    decltype(auto) with(Body& body) const {
        if (stride_ == static_cast<std::ptrdiff_t>(sizeof(Number)) &&
            reinterpret_cast<std::uintptr_t>(data_) % alignof(Number) == 0)
            return body(DenseView<Number>{static_cast<const Number*>(data_)});
        return body(StridedView<Number>{static_cast<const std::byte*>(data_), stride_});
    }

    const void* data_;
    std::size_t count_;
    sab_dtype dtype_;
    std::ptrdiff_t stride_;
    std::shared_ptr<const void> owner_;
};

}  // namespace sab

struct sab_sizes {
    sab::Sizes impl;
};
