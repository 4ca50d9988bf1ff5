#include "sizes/sizes.h"

#include <algorithm>
#include <array>
#include <limits>
#include <vector>

#include "base/callback.h"

namespace sab {
namespace {

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

struct HalfView {
    using number_type = float;
    StridedView<uint16_t> bits;
    float operator[](std::size_t i) const {
        const uint32_t half = bits[i];
        const uint32_t exponent = (half >> 10) & 31, fraction = half & 1023;
        float size = std::ldexp(static_cast<float>(fraction | (exponent == 0 ? 0 : 1024)),
                                static_cast<int>(exponent == 0 ? 1 : exponent) - 25);
        if (exponent == 31)
            size = fraction == 0 ? std::numeric_limits<float>::infinity()
                                 : std::numeric_limits<float>::quiet_NaN();
        return (half >> 15) != 0 ? -size : size;
    }
};

template <class Offset>
struct DifferenceView {
    using number_type = int64_t;
    DenseView<Offset> offsets;
    int64_t operator[](std::size_t i) const {
        return static_cast<int64_t>(static_cast<uint64_t>(offsets[i + 1]) -
                                    static_cast<uint64_t>(offsets[i]));
    }
};

struct ConstantView {
    using number_type = double;
    double constant;
    double operator[](std::size_t) const { return constant; }
};

/// Elements of a dictionary. NaN, which is no size, for an index outside of it: a null may have
/// any index, and others were checked, but the memory may have changed.
template <class Index>
struct IndexView {
    using number_type = double;
    StridedView<Index> indices;
    const std::vector<double>* dictionary;
    double operator[](std::size_t i) const {
        const auto index = static_cast<uint64_t>(indices[i]);
        return index < dictionary->size() ? (*dictionary)[index]
                                          : std::numeric_limits<double>::quiet_NaN();
    }
};

template <class Body>
decltype(auto) visit_integers(const Chunk& chunk, Body&& body) {
    const auto* data = static_cast<const std::byte*>(chunk.data);
    switch (chunk.dtype) {
        case SAB_INT8: return body(StridedView<int8_t>{data, chunk.stride});
        case SAB_INT16: return body(StridedView<int16_t>{data, chunk.stride});
        case SAB_INT32: return body(StridedView<int32_t>{data, chunk.stride});
        case SAB_INT64: return body(StridedView<int64_t>{data, chunk.stride});
        case SAB_UINT8: return body(StridedView<uint8_t>{data, chunk.stride});
        case SAB_UINT16: return body(StridedView<uint16_t>{data, chunk.stride});
        case SAB_UINT32: return body(StridedView<uint32_t>{data, chunk.stride});
        default: return body(StridedView<uint64_t>{data, chunk.stride});
    }
}

/// Calls `body` with the view of the chunk's memory.
template <class Body>
decltype(auto) visit(const Chunk& chunk, Body&& body) {
    const auto* data = static_cast<const std::byte*>(chunk.data);
    switch (chunk.layout) {
        case Chunk::Layout::halves: return body(HalfView{{data, chunk.stride}});
        case Chunk::Layout::differences:
            if (chunk.dtype == SAB_INT32) return body(DifferenceView<int32_t>{{data}});
            return body(DifferenceView<int64_t>{{data}});
        case Chunk::Layout::constant: return body(ConstantView{chunk.constant});
        case Chunk::Layout::indices:
            return visit_integers(chunk, [&]<class Index>(StridedView<Index> indices) {
                return body(IndexView<Index>{indices, chunk.dictionary.get()});
            });
        case Chunk::Layout::numbers: break;
    }
    if (chunk.dtype == SAB_FLOAT32) return body(StridedView<float>{data, chunk.stride});
    if (chunk.dtype == SAB_FLOAT64) return body(StridedView<double>{data, chunk.stride});
    return visit_integers(chunk, body);
}

bool is_null(const Chunk& chunk, std::size_t i) {
    return chunk.validity != nullptr && ((*chunk.validity)[i / 8] >> (i % 8) & 1) == 0;
}

/// Some numbers of a chunk: integers as such, since a double does not have all of them.
struct Block {
    static constexpr std::size_t room = 512;
    std::size_t count;
    bool is_whole;
    std::array<int64_t, room> whole;
    std::array<double, room> real;
};

/// Loads `block.count` numbers. Those from 2^63 on become negative, which is as wrong for a size.
void load(Block& block, const Chunk& chunk, std::size_t first) {
    visit(chunk, [&](auto view) {
        block.is_whole = std::is_integral_v<typename decltype(view)::number_type>;
        for (std::size_t i = 0; i < block.count; ++i)
            if constexpr (std::is_integral_v<typename decltype(view)::number_type>)
                block.whole[i] = static_cast<int64_t>(view[first + i]);
            else
                block.real[i] = view[first + i];
    });
    for (std::size_t i = 0; chunk.validity != nullptr && i < block.count; ++i) {
        if (!is_null(chunk, first + i)) continue;
        if (block.is_whole)
            block.whole[i] = 0;
        else
            block.real[i] = 0;
    }
}

/// The numbers as sizes; false if one breaks a rule.
bool convert(const Block& block, double* sizes) {
    bool proper = true;
    for (std::size_t i = 0; block.is_whole && i < block.count; ++i) {
        proper = proper & is_size(block.whole[i]);
        sizes[i] = static_cast<double>(block.whole[i]);
    }
    for (std::size_t i = 0; !block.is_whole && i < block.count; ++i) {
        proper = proper & is_size(block.real[i]);
        sizes[i] = block.real[i] + 0.0;  // -0.0 becomes 0.0
    }
    return proper;
}

bool is_dense(const Chunk& chunk) {
    return chunk.layout == Chunk::Layout::numbers && chunk.validity == nullptr &&
           chunk.stride == static_cast<std::ptrdiff_t>(dtype_size(chunk.dtype));
}

template <class Number>
DenseSizes dense_sizes(std::vector<Number>&& numbers, sab_dtype dtype) {
    auto owner = std::make_shared<const std::vector<Number>>(std::move(numbers));
    const void* data = owner->data();
    const std::size_t count = owner->size();
    return DenseSizes(data, count, dtype, std::move(owner));
}

template <class From, class To>
void convert(std::vector<From>& from, std::vector<To>& to) {
    to.reserve(from.capacity());
    to.assign(from.begin(), from.end());
    std::vector<From>().swap(from);
}

template <class From, class To>
void append(std::span<const From> numbers, std::vector<To>& to) {
    const std::size_t before = to.size();
    to.resize(before + numbers.size());
    for (std::size_t i = 0; i < numbers.size(); ++i) to[before + i] = static_cast<To>(numbers[i]);
}

std::string described(sab_dtype dtype, std::size_t count) {
    static constexpr const char* names[] = {"int8",   "int16",  "int32",  "int64",   "uint8",
                                            "uint16", "uint32", "uint64", "float32", "float64"};
    return text("array of ", names[dtype - 1], ": ", counted(count, "size"));
}

void check_count(std::size_t count, std::string_view name = "count") {
    check(count <= largest_sample_count, name, count, "must be at most ", largest_sample_count);
}

}  // namespace

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
        default: refuse_argument("dtype", dtype, "must be one of SAB_INT8 (1) to SAB_FLOAT64 (10)");
    }
}

int64_t words_in(std::string_view text) {
    int64_t words = 0;
    bool is_in_word = false;
    for (const char c : text) {
        words += !is_space(c) && !is_in_word ? 1 : 0;
        is_in_word = !is_space(c);
    }
    return words;
}

void check_text_unit(sab_text_unit unit) {
    check(unit >= SAB_TEXT_BYTES && unit <= SAB_TEXT_ALL_BYTES && unit != SAB_TEXT_CHARACTERS,
          "options.text_unit", unit,
          "must be SAB_TEXT_BYTES (0), SAB_TEXT_WORDS (1), SAB_TEXT_VALUE (3) or "
          "SAB_TEXT_ALL_BYTES (4)");
}

void check_null_rule(sab_null_rule rule) {
    check(rule == SAB_NULLS_REFUSE || rule == SAB_NULLS_ZERO, "options.nulls", rule,
          "must be SAB_NULLS_REFUSE (0) or SAB_NULLS_ZERO (1)");
}

std::string counted(std::size_t count, std::string_view noun) {
    std::string digits = text(count);
    for (std::size_t end = digits.size(); end > 3; end -= 3) digits.insert(end - 3, 1, ',');
    return text(digits, " ", noun, count == 1 ? "" : "s");
}

bool DenseBuilder::add(std::span<const int64_t> numbers) {
    uint64_t most = 0;  // a negative number is a large one here
    for (const int64_t number : numbers) most = std::max(most, static_cast<uint64_t>(number));
    if (most > static_cast<uint64_t>(largest_size)) return false;
    if (!real_.empty()) {
        append(numbers, real_);
        return true;
    }
    if (wide_.empty() && most <= std::numeric_limits<uint32_t>::max()) {
        append(numbers, narrow_);
        return true;
    }
    if (wide_.empty()) convert(narrow_, wide_);
    append(numbers, wide_);
    return true;
}

bool DenseBuilder::add(std::span<const double> numbers) {
    bool proper = true, whole = true;
    for (const double number : numbers) {
        proper = proper && is_size(number);
        whole = whole && number == std::floor(number);
    }
    if (!proper) return false;
    if (real_.empty() && whole) {
        std::array<int64_t, 1024> block;
        for (std::size_t first = 0; first < numbers.size(); first += block.size()) {
            const auto some =
                numbers.subspan(first, std::min(block.size(), numbers.size() - first));
            std::ranges::transform(some, block.begin(),
                                   [](double number) { return static_cast<int64_t>(number); });
            if (!add(std::span<const int64_t>(block).first(some.size()))) return false;
        }
        return true;
    }
    if (real_.empty() && wide_.empty()) convert(narrow_, real_);
    if (real_.empty() && !wide_.empty()) convert(wide_, real_);
    append(numbers, real_);
    return true;
}

DenseSizes DenseBuilder::finish() {
    if (!real_.empty()) return dense_sizes(std::move(real_), SAB_FLOAT64);
    if (!wide_.empty()) return dense_sizes(std::move(wide_), SAB_UINT64);
    return dense_sizes(std::move(narrow_), SAB_UINT32);
}

Chunk Chunk::numbers(const void* data, std::size_t count, sab_dtype dtype, std::ptrdiff_t stride,
                     std::shared_ptr<const void> owner) {
    Chunk chunk;
    chunk.dtype = dtype;
    chunk.data = data;
    chunk.count = count;
    chunk.stride = stride;
    chunk.is_integer = dtype <= SAB_UINT64;
    chunk.owner = std::move(owner);
    return chunk;
}

Chunk Chunk::differences(const void* offsets, std::size_t count, sab_dtype dtype,
                         std::shared_ptr<const void> owner) {
    Chunk chunk = numbers(offsets, count, dtype, 0, std::move(owner));
    chunk.layout = Layout::differences;
    return chunk;
}

Sizes::Sizes(const void* data, std::size_t count, sab_dtype dtype, std::ptrdiff_t stride,
             std::shared_ptr<const void> owner)
    : Sizes({Chunk::numbers(data, count, dtype, stride, std::move(owner))},
            described(dtype, count)) {}

Sizes::Sizes(const DenseSizes& sizes, std::string description)
    : Sizes({Chunk::numbers(sizes.data(), sizes.count(), sizes.dtype(),
                            static_cast<std::ptrdiff_t>(dtype_size(sizes.dtype())), sizes.owner())},
            std::move(description)) {}

Sizes::Sizes(std::vector<Chunk> chunks, std::string description)
    : chunks_(std::move(chunks)), description_(std::move(description)) {
    if (chunks_.size() > 1) std::erase_if(chunks_, [](const Chunk& c) { return c.count == 0; });
    for (const Chunk& chunk : chunks_) {
        first_.push_back(count_);
        check_count(chunk.count);
        count_ += chunk.count;
        check_count(count_);
    }
}

bool Sizes::is_integer() const {
    return std::ranges::all_of(chunks_, &Chunk::is_integer);
}

template <class Body>
void Sizes::each_block(std::size_t first, std::size_t count, Body&& body) const {
    if (count == 0) return;
    auto c = static_cast<std::size_t>(std::ranges::upper_bound(first_, first) - first_.begin()) - 1;
    Block block;
    for (std::size_t done = 0; done < count; done += block.count) {
        while (first + done >= first_[c] + chunks_[c].count) ++c;
        const std::size_t i = first + done - first_[c];
        block.count = std::min({Block::room, chunks_[c].count - i, count - done});
        sab::load(block, chunks_[c], i);
        body(std::as_const(block), done);
    }
}

void Sizes::refuse(std::size_t first, std::size_t count, std::string_view name) const {
    for (std::size_t c = 0; c < chunks_.size(); ++c) {
        const std::size_t end = std::min(first + count, first_[c] + chunks_[c].count);
        for (std::size_t i = std::max(first, first_[c]); i < end; ++i)
            if (!is_null(chunks_[c], i - first_[c]))
                sab::visit(chunks_[c],
                           [&](auto view) { checked_size(view[i - first_[c]], i, name); });
    }
    refuse_argument(name, no_value, "were changed while they were read");
}

void Sizes::read(std::size_t first, std::span<double> values, std::string_view name) const {
    std::array<double, Block::room> unused;
    for (const bool is_checked : {false, true})
        each_block(first, values.size(), [&](const Block& block, std::size_t done) {
            if (!convert(block, is_checked ? &values[done] : unused.data()))
                refuse(first + done, block.count, name);
        });
}

bool Sizes::has_whole_numbers() const {
    return std::ranges::all_of(chunks_, [](const Chunk& chunk) {
        return sab::visit(chunk, [](auto view) {
            return std::is_integral_v<typename decltype(view)::number_type>;
        });
    });
}

void Sizes::load(std::size_t first, std::span<int64_t> numbers) const {
    each_block(first, numbers.size(), [&](const Block& block, std::size_t done) {
        std::copy_n(block.whole.begin(), block.count, &numbers[done]);
    });
}

void Sizes::load(std::size_t first, std::span<double> numbers) const {
    each_block(first, numbers.size(), [&](const Block& block, std::size_t done) {
        double* const to = &numbers[done];
        const bool are_sizes = convert(block, to);
        for (std::size_t k = 0; !are_sizes && k < block.count; ++k)
            if (!(block.is_whole ? is_size(block.whole[k]) : is_size(block.real[k])))
                to[k] = std::numeric_limits<double>::quiet_NaN();
    });
}

DenseSizes DenseSizes::owned() const {
    if (owner_ != nullptr || count_ == 0) return *this;
    const std::size_t bytes = count_ * dtype_size(dtype_);
    auto copy = std::make_shared<std::vector<std::byte>>(data_, data_ + bytes);
    const void* const data = copy->data();
    return {data, count_, dtype_, std::move(copy)};
}

DenseSizes DenseSizes::of_samples(std::span<const uint32_t> samples) const {
    return visit([&](auto view) {
        using Number = typename decltype(view)::number_type;
        std::vector<Number> numbers(samples.size());
        for (std::size_t i = 0; i < samples.size(); ++i) numbers[i] = view[samples[i]];
        return dense_sizes(std::move(numbers), dtype_);
    });
}

bool Sizes::is_dense() const {
    return chunks_.size() == 1 && sab::is_dense(chunks_[0]);
}

DenseSizes Sizes::dense(std::string_view name) const {
    if (is_dense()) return DenseSizes(chunks_[0].data, count_, chunks_[0].dtype, chunks_[0].owner);
    DenseBuilder builder(count_);
    each_block(0, count_, [&](const Block& block, std::size_t first) {
        const bool is_added =
            block.is_whole ? builder.add(std::span<const int64_t>(block.whole).first(block.count))
                           : builder.add(std::span<const double>(block.real).first(block.count));
        if (!is_added) refuse(first, block.count, name);
    });
    return builder.finish();
}

Sizes::Source Sizes::source(std::size_t index) const {
    const auto part =
        static_cast<std::size_t>(std::ranges::upper_bound(parts_, index) - parts_.begin()) - 1;
    return {part, index - parts_[part]};
}

Sizes Sizes::from_memory(const void* data, std::size_t count, sab_dtype dtype,
                         const sab_sizes_options& options) {
    const std::size_t item = dtype_size(dtype);
    if (count > 0) require(data, "data");
    check(options.copy == 0 || options.copy == 1, "options.copy", options.copy, "must be 0 or 1");
    const auto stride = options.stride == 0 ? static_cast<std::ptrdiff_t>(item)
                                            : static_cast<std::ptrdiff_t>(options.stride);
    if (options.copy == 0) return Sizes(data, count, dtype, stride, nullptr);

    check_count(count);
    std::shared_ptr<std::byte[]> copy(new std::byte[std::max<std::size_t>(count * item, 1)]);
    const auto* from = static_cast<const std::byte*>(data);
    for (std::size_t i = 0; i < count; ++i)
        std::memcpy(copy.get() + i * item, from + static_cast<std::ptrdiff_t>(i) * stride, item);
    const void* dense = copy.get();
    return Sizes(dense, count, dtype, static_cast<std::ptrdiff_t>(item), std::move(copy));
}

Sizes Sizes::from_callback(std::size_t count, sab_size_fn size, void* ctx,
                           const Progress& progress) {
    check_count(count);
    DenseBuilder builder(count);
    for (std::size_t i = 0; i < count; ++i) {
        if (i % 1024 == 0) progress.report(i, count);
        double value = unset_number;
        if (const int32_t code = size(ctx, static_cast<int64_t>(i), &value); code != 0)
            throw Error(SAB_E_CALLBACK,
                        text("the size callback failed with code ", code, " at index ", i), code);
        value = checked_size(value, i);
        if (!builder.add(std::span<const double>(&value, 1))) fail(SAB_E_INTERNAL, "a size");
    }
    return Sizes(builder.finish(), text("callback: ", counted(count, "size")));
}

Sizes Sizes::join(std::span<const Sizes* const> parts) {
    std::vector<Chunk> chunks;
    std::vector<std::size_t> first{0};
    for (std::size_t i = 0; i < parts.size(); ++i) {
        const Sizes& part = *parts[i];
        chunks.insert(chunks.end(), part.chunks_.begin(), part.chunks_.end());
        first.push_back(first.back() + part.count());
        check_count(first.back(), text("the count of parts 0 to ", i));
    }
    Sizes joined(std::move(chunks),
                 text(counted(parts.size(), "part"), ": ", counted(first.back(), "size")));
    if (first.size() > 1) first.pop_back();
    joined.parts_ = std::move(first);
    return joined;
}

}  // namespace sab
