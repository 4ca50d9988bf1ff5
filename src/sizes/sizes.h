#pragma once
/// Sizes of samples, read where they are: numbers of any type and stride, and lengths by offsets.

#include <algorithm>
#include <array>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

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
        const char* rule = std::isnan(size)   ? "must be a number"
                           : std::isinf(size) ? "must be finite"
                           : size < 0         ? "must not be negative"
                                              : "must be at most 2^53";
        refuse_argument(named(name, "[", index, "]"), number, rule);
    }
    return size + 0.0;  // -0.0 becomes 0.0
}

/// Numbers of one type, one after the other at any alignment.
template <class Number>
struct DenseView {
    using number_type = Number;
    const std::byte* data;
    Number operator[](std::size_t i) const {
        Number number;
        std::memcpy(&number, data + i * sizeof number, sizeof number);
        return number;
    }
};

std::size_t dtype_size(sab_dtype dtype);  // throws SAB_E_ARGUMENT for an unknown one

/// A count as text: "1,000,000 texts", "1 text".
std::string counted(std::size_t count, std::string_view noun);

/// White space of ASCII.
constexpr bool is_space(char c) {
    return c == ' ' || (c >= '\t' && c <= '\r');
}
/// The runs of bytes of a text that are not white space of ASCII.
int64_t words_in(std::string_view text);
void check_text_unit(sab_text_unit unit);
void check_null_rule(sab_null_rule rule);

/// Sizes that are numbers of one type, one after the other. Code that reads all sizes is written
/// for these.
class DenseSizes {
public:
    DenseSizes(const void* data, std::size_t count, sab_dtype dtype,
               std::shared_ptr<const void> owner)
        : data_(static_cast<const std::byte*>(data)),
          count_(count),
          dtype_(dtype),
          owner_(std::move(owner)) {}

    std::size_t count() const { return count_; }
    const std::byte* data() const { return data_; }
    sab_dtype dtype() const { return dtype_; }
    const std::shared_ptr<const void>& owner() const { return owner_; }
    /// These, or a copy if their memory is a caller's.
    DenseSizes owned() const;
    /// Those of some samples, in their order.
    DenseSizes of_samples(std::span<const uint32_t> samples) const;

    /// Calls `body` with the DenseView of the type.
    template <class Body>
    decltype(auto) visit(Body&& body) const {
        switch (dtype_) {
            case SAB_INT8: return body(DenseView<int8_t>{data_});
            case SAB_INT16: return body(DenseView<int16_t>{data_});
            case SAB_INT32: return body(DenseView<int32_t>{data_});
            case SAB_INT64: return body(DenseView<int64_t>{data_});
            case SAB_UINT8: return body(DenseView<uint8_t>{data_});
            case SAB_UINT16: return body(DenseView<uint16_t>{data_});
            case SAB_UINT32: return body(DenseView<uint32_t>{data_});
            case SAB_UINT64: return body(DenseView<uint64_t>{data_});
            case SAB_FLOAT32: return body(DenseView<float>{data_});
            default: return body(DenseView<double>{data_});
        }
    }

private:
    const std::byte* data_;
    std::size_t count_;
    sab_dtype dtype_;
    std::shared_ptr<const void> owner_;
};

/// Collects sizes in the narrowest of uint32, uint64 and double that holds all.
class DenseBuilder {
public:
    explicit DenseBuilder(std::size_t expected_count) { narrow_.reserve(expected_count); }
    /// False, and nothing was added, if a number breaks a rule of sizes.
    [[nodiscard]] bool add(std::span<const int64_t> numbers);
    [[nodiscard]] bool add(std::span<const double> numbers);
    DenseSizes finish();

private:
    std::vector<uint32_t> narrow_;
    std::vector<uint64_t> wide_;  // all sizes, once one needs it
    std::vector<double> real_;    // in the same way
};

/// Sizes that lie in memory in one way.
struct Chunk {
    enum class Layout : uint8_t {
        numbers,      ///< of `dtype`, `stride` bytes from one to the next
        halves,       ///< IEEE float16, in the same way
        differences,  ///< of `count` + 1 offsets, int32 or int64: each minus the one before
        constant,     ///< `constant` for each sample
        indices       ///< of `dtype`: the size is an element of `dictionary`
    };
    Layout layout = Layout::numbers;
    sab_dtype dtype = SAB_INT32;
    const void* data = nullptr;
    std::size_t count = 0;
    std::ptrdiff_t stride = 0;
    double constant = 0;
    std::shared_ptr<const std::vector<double>> dictionary{};
    bool is_integer = true;
    /// A bit for each sample, from the lowest bit of the first byte; a size whose bit is 0 is 0.
    /// Null: all bits are 1.
    std::shared_ptr<const std::vector<uint8_t>> validity{};
    std::shared_ptr<const void> owner{};  ///< keeps the memory alive; null when it is the caller's

    static Chunk numbers(const void* data, std::size_t count, sab_dtype dtype,
                         std::ptrdiff_t stride, std::shared_ptr<const void> owner);
    static Chunk differences(const void* offsets, std::size_t count, sab_dtype dtype,
                             std::shared_ptr<const void> owner);
};

/// The sizes of a data set: chunks one after the other, read where they are.
class Sizes {
public:
    /// Reads dense numbers. Calls `use(view, first, count)` for samples one after the other, where
    /// view[i] is the number of sample first + i.
    template <class Number>
    struct DenseReader {
        using number_type = Number;
        DenseView<Number> numbers;
        template <class Use>
        void operator()(std::size_t first, std::size_t last, Use&& use) const {
            use(DenseView<Number>{numbers.data + first * sizeof(Number)}, first, last - first);
        }
    };
    /// In the same way reads numbers that are not dense, some at a time.
    template <class Number>
    struct BlockReader {
        using number_type = Number;
        const Sizes& sizes;
        template <class Use>
        void operator()(std::size_t first, std::size_t last, Use&& use) const {
            std::array<Number, 512> block;
            for (std::size_t count = 0; first < last; first += count) {
                count = std::min(block.size(), last - first);
                sizes.load(first, std::span(block).first(count));
                use(DenseView<Number>{std::as_bytes(std::span(block)).data()}, first, count);
            }
        }
    };

    /// One chunk of numbers.
    Sizes(const void* data, std::size_t count, sab_dtype dtype, std::ptrdiff_t stride,
          std::shared_ptr<const void> owner);
    Sizes(std::vector<Chunk> chunks, std::string description);
    Sizes(const DenseSizes& sizes, std::string description);

    static Sizes from_memory(const void* data, std::size_t count, sab_dtype dtype,
                             const sab_sizes_options& options);
    static Sizes from_callback(std::size_t count, sab_size_fn size, void* ctx,
                               const Progress& progress);
    static Sizes join(std::span<const Sizes* const> parts);

    std::size_t count() const { return count_; }
    bool is_integer() const;
    /// Reads the sizes from `first` on, which must be there; `name` is that of the sizes in
    /// messages. All are checked before the first is written.
    void read(std::size_t first, std::span<double> values, std::string_view name = "sizes") const;
    /// Calls `body` with a reader of all sizes, which reads them where they are. Numbers may break
    /// the rules of sizes, and may be different ones each time that they are read.
    template <class Body>
    decltype(auto) visit(Body&& body) const {
        const auto by_blocks = [&]() -> decltype(auto) {
            if (has_whole_numbers()) return body(BlockReader<int64_t>{*this});
            return body(BlockReader<double>{*this});
        };
        if (!is_dense()) return by_blocks();
        return dense().visit([&]<class Number>(DenseView<Number> numbers) -> decltype(auto) {
            if constexpr (is_usual<Number>) return body(DenseReader<Number>{numbers});
            return by_blocks();
        });
    }
    /// One of these samples was read as a number that breaks a rule.
    [[noreturn]] void refuse(std::size_t first, std::size_t count, std::string_view name) const;
    /// Loads sizes from `first` on, which must be there; NaN for those that break a rule.
    void load(std::size_t first, std::span<double> numbers) const;
    /// These sizes if they are one chunk of dense numbers, otherwise a copy that is checked; `name`
    /// is that of the sizes in messages.
    DenseSizes dense(std::string_view name = "sizes") const;

    const std::string& description() const { return description_; }
    struct Source {
        std::size_t part, row;
    };
    /// Which of the joined sizes has a sample, and its index there.
    Source source(std::size_t index) const;

private:
    /// The types of most sizes. Those of others are loaded in blocks, which saves code.
    template <class Number>
    static constexpr bool is_usual =
        std::is_same_v<Number, uint16_t> || std::is_same_v<Number, int32_t> ||
        std::is_same_v<Number, uint32_t> || std::is_same_v<Number, int64_t> ||
        std::is_floating_point_v<Number>;
    bool is_dense() const;
    bool has_whole_numbers() const;
    /// Of sizes that are whole numbers. Those from 2^63 on become negative, which is as wrong.
    void load(std::size_t first, std::span<int64_t> numbers) const;
    template <class Body>
    void each_block(std::size_t first, std::size_t count, Body&& body) const;

    std::vector<Chunk> chunks_;
    std::vector<std::size_t> first_{};   ///< index of the first sample of each chunk
    std::vector<std::size_t> parts_{0};  ///< index of the first sample of each joined part
    std::size_t count_ = 0;
    std::string description_;
};

}  // namespace sab
