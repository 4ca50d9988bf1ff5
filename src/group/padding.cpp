#include "group/padding.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <thread>

#include "base/error.h"
#include "base/parts.h"

namespace sab {
namespace {

constexpr std::size_t bytes_per_thread = std::size_t{1} << 20;
constexpr int64_t largest = std::numeric_limits<int64_t>::max();

int64_t elements(const int64_t* shape, std::size_t dimensions) {
    int64_t product = 1;
    for (std::size_t d = 0; d < dimensions; ++d) product *= shape[d];
    return product;
}

bool is_empty(const int64_t* shape, std::size_t dimensions) {
    return std::find(shape, shape + dimensions, 0) != shape + dimensions;
}

/// The product, or -1 where it is more than memory can be.
int64_t checked_product(int64_t product, const int64_t* factors, std::size_t count) {
    if (is_empty(factors, count)) return 0;
    for (std::size_t i = 0; i < count; ++i) {
        if (product > largest / factors[i]) return -1;
        product *= factors[i];
    }
    return product;
}

/// Runs `body(begin, end)` over stretches of [0, count), in threads where there are enough bytes
/// for them.
template <class Body>
void in_threads(std::size_t count, std::size_t bytes, uint64_t threads, const Body& body) {
    if (threads == 1 || bytes < 2 * bytes_per_thread || count < 2) return body(0, count);
    const uint64_t most = threads > 0 ? threads : std::max(1u, std::thread::hardware_concurrency());
    const std::size_t parts =
        std::clamp<std::size_t>(bytes / bytes_per_thread, 1,
                                static_cast<std::size_t>(std::min<uint64_t>({most, count, 1024})));
    in_parts({count, parts}, Progress(), {0, count, count},
             [&](std::size_t, std::size_t begin, std::size_t end) { body(begin, end); });
}

template <class Element>
void copy_elements(char* to, int64_t to_stride, const char* from, int64_t from_stride,
                   int64_t count) {
    for (int64_t i = 0; i < count; ++i)
        std::memcpy(to + i * to_stride, from + i * from_stride, sizeof(Element));
}

/// Copies an array; strides in bytes.
void copy_array(char* to, const int64_t* to_strides, const char* from, const int64_t* from_strides,
                const int64_t* shape, std::size_t dimensions, std::size_t bytes) {
    while (dimensions > 0 && to_strides[dimensions - 1] == static_cast<int64_t>(bytes) &&
           from_strides[dimensions - 1] == static_cast<int64_t>(bytes))
        bytes *= static_cast<std::size_t>(shape[--dimensions]);
    if (bytes == 0) return;
    if (dimensions == 0) {
        std::memcpy(to, from, bytes);
        return;
    }
    if (dimensions == 1) {
        switch (bytes) {
            case 1: return copy_elements<char>(to, to_strides[0], from, from_strides[0], shape[0]);
            case 2:
                return copy_elements<uint16_t>(to, to_strides[0], from, from_strides[0], shape[0]);
            case 4:
                return copy_elements<uint32_t>(to, to_strides[0], from, from_strides[0], shape[0]);
            case 8:
                return copy_elements<uint64_t>(to, to_strides[0], from, from_strides[0], shape[0]);
            default:
                for (int64_t i = 0; i < shape[0]; ++i)
                    std::memcpy(to + i * to_strides[0], from + i * from_strides[0], bytes);
                return;
        }
    }
    for (int64_t i = 0; i < shape[0]; ++i)
        copy_array(to + i * to_strides[0], to_strides + 1, from + i * from_strides[0],
                   from_strides + 1, shape + 1, dimensions - 1, bytes);
}

/// Writes `count` more copies of the `bytes` at `block` after it.
void repeat_block(char* block, std::size_t bytes, int64_t count) {
    if (bytes == 0) return;
    constexpr std::size_t in_cache = 8192;
    std::size_t written = bytes, left = bytes * static_cast<std::size_t>(count);
    while (left > 0) {
        const std::size_t next =
            std::min(left, std::max(bytes, std::min(written, in_cache / bytes * bytes)));
        std::memcpy(block + written, block, next);
        written += next;
        left -= next;
    }
}

template <class Element>
void set_as(char* to, const char* value, std::size_t count) {
    Element element;
    std::memcpy(&element, value, sizeof element);
    for (std::size_t i = 0; i < count; ++i)
        std::memcpy(to + i * sizeof element, &element, sizeof element);
}

/// The padded array: its layout, and the values of padded positions.
class Padded {
public:
    Padded(const Samples& samples, const int64_t* shape, const sab_pad_options& options,
           bool is_filled)
        : shape_(shape),
          dimensions_(samples.dimensions()),
          bytes_(samples.element_size()),
          count_(samples.count()),
          batch_dim_(options.batch_dim),
          padding_(options.padding) {
        check(options.batch_dim <= dimensions_, "options.batch_dim", options.batch_dim,
              "must be at most the number of dimensions, ", dimensions_);
        for (std::size_t d = 0; d < dimensions_; ++d)
            if (shape[d] < 0)
                refuse_argument(named("shape[", d, "]"), shape[d], "must be at least 0");
        const int64_t of_sample = checked_product(static_cast<int64_t>(bytes_), shape, dimensions_);
        const auto samples_count = static_cast<int64_t>(count_);
        if (of_sample < 0 || checked_product(of_sample, &samples_count, 1) < 0)
            refuse_argument("shape", no_value, count_, " samples of it take more than 2^63 bytes");
        check_samples(samples);
        bytes_of_all_ = static_cast<std::size_t>(of_sample) * count_;
        if (is_filled) read_value(options, samples, bytes_of_all_ > 0);
        if (bytes_of_all_ == 0) return;
        int64_t stride = static_cast<int64_t>(bytes_);
        for (std::size_t d = dimensions_; d-- > 0;) {
            strides_[d] = stride;
            stride *= shape[d];
            if (d == batch_dim_) {
                batch_stride_ = stride;
                stride *= static_cast<int64_t>(count_);
            }
        }
        if (batch_dim_ == dimensions_) {  // innermost
            batch_stride_ = static_cast<int64_t>(bytes_);
            for (std::size_t d = 0; d < dimensions_; ++d)
                strides_[d] *= static_cast<int64_t>(count_);
        }
    }

    /// The array lies so, in elements, instead of row-major. Only to read it.
    void set_strides(const int64_t* strides) {
        const auto bytes = static_cast<int64_t>(bytes_);
        batch_stride_ = strides[batch_dim_] * bytes;
        for (std::size_t d = 0; d < dimensions_; ++d)
            strides_[d] = strides[d < batch_dim_ ? d : d + 1] * bytes;
    }

    std::size_t bytes_of_all() const { return bytes_of_all_; }
    char* sample_at(void* padded, std::size_t slot) const {
        return static_cast<char*>(padded) + static_cast<int64_t>(slot) * batch_stride_;
    }
    const int64_t* strides() const { return strides_.data(); }

    /// Fills what a sample of the shape `own` leaves free.
    void fill(char* array, const int64_t* own) const {
        std::size_t padded_dims = dimensions_;  // the rest is whole
        while (padded_dims > 0 && own[padded_dims - 1] == shape_[padded_dims - 1]) --padded_dims;
        if (padded_dims > 0) fill_after(array, own, 0, padded_dims, value_.data());
    }

    /// Fills the end of one sample's piece of memory.
    void fill_end(char* begin, std::size_t bytes) const {
        set_elements(begin, value_.data(), bytes);
    }

    /// Whether samples begin one after another, and what they leave free lies at their ends and is
    /// of one value.
    bool has_rows() const {
        return dimensions_ > 0 && batch_dim_ == 0 && is_cut_in_first_ && last_value_dim_ == 0 &&
               padding_ == SAB_PADDING_CONSTANT;
    }

private:
    void check_samples(const Samples& samples) {
        for (std::size_t slot = 0; slot < count_; ++slot) {
            const int64_t* const own = samples.shape(slot);
            for (std::size_t d = 0; d < dimensions_; ++d)
                if (own[d] != shape_[d]) {
                    if (own[d] > shape_[d])
                        refuse_argument(
                            named("shape[", d, "]"), shape_[d],
                            "must be at least as large as that of each sample, such as ", own[d],
                            " of samples[", samples.number(slot), "]");
                    is_cut_in_first_ = is_cut_in_first_ && d == 0;
                }
        }
    }

    void read_value(const sab_pad_options& options, const Samples& samples, bool has_elements) {
        check(padding_ == SAB_PADDING_CONSTANT || padding_ == SAB_PADDING_REPEAT, "options.padding",
              padding_, "must be SAB_PADDING_CONSTANT or SAB_PADDING_REPEAT");
        check((options.value_dims >> dimensions_) == 0, "options.value_dims", options.value_dims,
              "has a bit beyond the number of dimensions, ", dimensions_);
        int64_t count = 1;
        for (std::size_t d = dimensions_; d-- > 0;) {
            if ((options.value_dims >> d & 1) == 0) continue;
            for (std::size_t slot = 0; slot < count_; ++slot)
                if (samples.shape(slot)[d] < shape_[d])
                    refuse_argument("options.value_dims", options.value_dims, "samples[",
                                    samples.number(slot), "] is padded along dimension ", d,
                                    ", which the value cannot have then");
            if (!has_elements) continue;
            value_strides_[d] = count * static_cast<int64_t>(bytes_);
            count *= shape_[d];
            last_value_dim_ = std::max(last_value_dim_, d + 1);
        }
        if (!has_elements) return;
        value_.assign(static_cast<std::size_t>(count) * bytes_, '\0');
        if (options.value != nullptr) std::memcpy(value_.data(), options.value, value_.size());
        is_zero_ = std::ranges::all_of(value_, [](char byte) { return byte == 0; });
    }

    /// Whether all dimensions from `d` on lie in one piece.
    bool is_one_piece(std::size_t d) const { return d >= batch_dim_ || count_ == 1; }
    std::size_t block_bytes(std::size_t d) const {
        return static_cast<std::size_t>(elements(shape_ + d, dimensions_ - d)) * bytes_;
    }

    void fill_after(char* array, const int64_t* own, std::size_t d, std::size_t padded_dims,
                    const char* value) const {
        if (d + 1 < padded_dims)
            for (int64_t i = 0; i < own[d]; ++i)
                fill_after(array + i * strides_[d], own, d + 1, padded_dims,
                           value + i * value_strides_[d]);
        if (own[d] == shape_[d]) return;
        if (padding_ == SAB_PADDING_REPEAT && own[d] > 0) {
            const char* const last = array + (own[d] - 1) * strides_[d];
            for (int64_t i = own[d]; i < shape_[d]; ++i)
                copy_array(array + i * strides_[d], strides_.data() + d + 1, last,
                           strides_.data() + d + 1, shape_ + d + 1, dimensions_ - d - 1, bytes_);
            return;
        }
        set_blocks(array + own[d] * strides_[d], d, shape_[d] - own[d], value);
    }

    /// `count` blocks side by side along dimension `d`, which the value does not have.
    void set_blocks(char* first, std::size_t d, int64_t count, const char* value) const {
        if (count == 0) return;
        if (!is_one_piece(d)) {
            for (int64_t i = 0; i < count; ++i) set_block(first + i * strides_[d], d + 1, value);
            return;
        }
        const std::size_t bytes = block_bytes(d + 1);
        if (last_value_dim_ <= d + 1) {
            set_elements(first, value, static_cast<std::size_t>(count) * bytes);
            return;
        }
        set_block(first, d + 1, value);
        repeat_block(first, bytes, count - 1);
    }

    void set_block(char* block, std::size_t d, const char* value) const {
        if (d == dimensions_) {
            std::memcpy(block, value, bytes_);
        } else if (value_strides_[d] == 0) {
            set_blocks(block, d, shape_[d], value);
        } else {
            for (int64_t i = 0; i < shape_[d]; ++i)
                set_block(block + i * strides_[d], d + 1, value + i * value_strides_[d]);
        }
    }

    void set_elements(char* to, const char* value, std::size_t bytes) const {
        if (is_zero_) {
            std::memset(to, 0, bytes);
            return;
        }
        switch (bytes_) {
            case 1: std::memset(to, static_cast<unsigned char>(*value), bytes); break;
            case 2: set_as<uint16_t>(to, value, bytes / 2); break;
            case 4: set_as<uint32_t>(to, value, bytes / 4); break;
            case 8: set_as<uint64_t>(to, value, bytes / 8); break;
            default:
                if (bytes == 0) break;
                std::memcpy(to, value, bytes_);
                repeat_block(to, bytes_, static_cast<int64_t>(bytes / bytes_) - 1);
        }
    }

    const int64_t* shape_;
    std::size_t dimensions_, bytes_, count_, batch_dim_, bytes_of_all_ = 0;
    sab_pad_rule padding_;
    Shape strides_{}, value_strides_{};  // in bytes; a value's are 0 where it has no such dimension
    int64_t batch_stride_ = 0;
    std::size_t last_value_dim_ = 0;  // one more than it
    std::vector<char> value_;
    bool is_zero_ = true;
    bool is_cut_in_first_ = true;  // no sample is shorter along another dimension than the first
};

}  // namespace

Samples::Samples(const sab_ragged& given, const int64_t* indices, std::size_t count)
    : given_(given), indices_(indices), count_(count), dimensions_(given.dimensions) {
    check(given.dimensions <= most_dimensions, "samples.dimensions", given.dimensions,
          "must be at most ", most_dimensions);
    check(given.element_size >= 1 && given.element_size <= uint64_t{1} << 32,
          "samples.element_size", given.element_size, "must be from 1 to 2^32");
    check(given.samples <= uint64_t{1} << 48, "samples.samples", given.samples,
          "must be at most 2^48");
    if (given.samples > 0 && dimensions_ > 0) require(given.shapes, "samples.shapes");
    if (indices == nullptr)
        check(count == given.samples, "count", count, "must be the number of samples, ",
              given.samples, ", where there are no indices");
    for (std::size_t slot = 0; slot < count; ++slot) {
        if (indices != nullptr &&
            (indices[slot] < 0 || static_cast<uint64_t>(indices[slot]) >= given.samples))
            refuse_argument(named("indices[", slot, "]"), indices[slot],
                            "must be at least 0 and below the number of samples, ", given.samples);
        const int64_t* const own = shape(slot);
        for (std::size_t d = 0; d < dimensions_; ++d)
            if (own[d] < 0)
                refuse_argument(named("samples.shapes[", number(slot), "][", d, "]"), own[d],
                                "must be at least 0");
    }
}

void Samples::need_memory() {
    if (given_.data != nullptr) {
        if (given_.values != nullptr)
            refuse_argument("samples.data", no_value,
                            "must be NULL where samples.values are given");
        for (std::size_t slot = 0; slot < count_; ++slot)
            if (given_.data[number(slot)] == nullptr && !is_empty(shape(slot), dimensions_))
                require(nullptr, text("samples.data[", number(slot), "]"));
        return;
    }
    bool has_elements = false;
    for (std::size_t slot = 0; !has_elements && slot < count_; ++slot)
        has_elements = !is_empty(shape(slot), dimensions_);
    if (has_elements) require(given_.values, "samples.values");
    if (given_.offsets != nullptr || dimensions_ == 0) return;
    offsets_.reserve(given_.samples);
    int64_t sum = 0;
    for (uint64_t i = 0; i < given_.samples; ++i) {
        const int64_t* const own = given_.shapes + i * dimensions_;
        for (std::size_t d = 0; d < dimensions_; ++d)
            if (own[d] < 0)
                refuse_argument(named("samples.shapes[", i, "][", d, "]"), own[d],
                                "must be at least 0");
        offsets_.push_back(sum);
        const int64_t count = checked_product(1, own, dimensions_);
        if (count < 0 || count > largest - sum)
            refuse_argument(named("samples.shapes[", i, "]"), no_value,
                            "there must be less than 2^63 elements");
        sum += count;
    }
}

Shape Samples::byte_strides(std::size_t slot) const {
    Shape strides{};
    const int64_t* const own = shape(slot);
    int64_t next = static_cast<int64_t>(element_size());
    for (std::size_t d = dimensions_; d-- > 0;) {
        strides[d] = next;
        if (given_.strides != nullptr && own[d] > 1)
            strides[d] = given_.strides[number(slot) * dimensions_ + d] *
                         static_cast<int64_t>(element_size());
        next *= own[d];
    }
    return strides;
}

char* Samples::data(std::size_t slot) const {
    const std::size_t sample = number(slot);
    if (given_.data != nullptr) return static_cast<char*>(given_.data[sample]);
    if (given_.values == nullptr) return nullptr;
    const int64_t offset = given_.offsets != nullptr ? given_.offsets[sample]
                           : dimensions_ == 0        ? static_cast<int64_t>(sample)
                                                     : offsets_[sample];
    return static_cast<char*>(given_.values) + offset * static_cast<int64_t>(given_.element_size);
}

Shape Samples::longest() const {
    Shape longest{};
    for (std::size_t slot = 0; slot < count_; ++slot)
        for (std::size_t d = 0; d < dimensions_; ++d)
            longest[d] = std::max(longest[d], shape(slot)[d]);
    return longest;
}

void pad(const Samples& samples, const int64_t* shape, const sab_pad_options& options,
         void* padded) {
    const Padded array(samples, shape, options, true);
    if (array.bytes_of_all() == 0) return;
    require(padded, "padded");
    if (array.has_rows() && samples.is_row_major()) {  // the same with less ado, for short samples
        const std::size_t row = array.bytes_of_all() / samples.count(),
                          unit = row / static_cast<std::size_t>(shape[0]);
        in_threads(samples.count(), array.bytes_of_all(), options.threads,
                   [&](std::size_t begin, std::size_t end) {
                       char* own = static_cast<char*>(padded) + begin * row;
                       for (std::size_t slot = begin; slot < end; ++slot, own += row) {
                           const std::size_t used =
                               static_cast<std::size_t>(samples.shape(slot)[0]) * unit;
                           if (used > 0) std::memcpy(own, samples.data(slot), used);
                           array.fill_end(own + used, row - used);
                       }
                   });
        return;
    }
    in_threads(samples.count(), array.bytes_of_all(), options.threads,
               [&](std::size_t begin, std::size_t end) {
                   for (std::size_t slot = begin; slot < end; ++slot) {
                       char* const own = array.sample_at(padded, slot);
                       const int64_t* const own_shape = samples.shape(slot);
                       if (!is_empty(own_shape, samples.dimensions()))
                           copy_array(own, array.strides(), samples.data(slot),
                                      samples.byte_strides(slot).data(), own_shape,
                                      samples.dimensions(), samples.element_size());
                       array.fill(own, own_shape);
                   }
               });
}

void unpad(const void* padded, const int64_t* shape, const int64_t* strides,
           const sab_pad_options& options, const Samples& samples) {
    Padded array(samples, shape, options, false);
    if (array.bytes_of_all() == 0) return;
    require(padded, "padded");
    if (strides != nullptr) array.set_strides(strides);
    in_threads(samples.count(), array.bytes_of_all(), options.threads,
               [&](std::size_t begin, std::size_t end) {
                   for (std::size_t slot = begin; slot < end; ++slot)
                       if (!is_empty(samples.shape(slot), samples.dimensions()))
                           copy_array(samples.data(slot), samples.byte_strides(slot).data(),
                                      array.sample_at(const_cast<void*>(padded), slot),
                                      array.strides(), samples.shape(slot), samples.dimensions(),
                                      samples.element_size());
               });
}

void fill_length_mask(const int64_t* lengths, std::size_t count, std::span<const int64_t> shape,
                      sab_mask_rule rule, uint8_t* mask) {
    const std::size_t dimensions = shape.size();
    check(dimensions >= 1 && dimensions <= most_dimensions, "dimensions", dimensions,
          "must be from 1 to ", most_dimensions);
    check(count <= std::size_t{1} << 48, "count", count, "must be at most 2^48");
    if (count > 0) {
        require(lengths, "lengths");
        if (!is_empty(shape.data(), dimensions)) require(mask, "mask");
    }
    check(rule == SAB_MASK_ALL || rule == SAB_MASK_ANY, "rule", rule,
          "must be SAB_MASK_ALL or SAB_MASK_ANY");
    for (std::size_t d = 0; d < dimensions; ++d)
        if (shape[d] < 0) refuse_argument(named("shape[", d, "]"), shape[d], "must be at least 0");
    for (std::size_t i = 0; i < count * dimensions; ++i)
        if (lengths[i] < 0 || lengths[i] > shape[i % dimensions])
            refuse_argument(named("lengths[", i / dimensions, "][", i % dimensions, "]"),
                            lengths[i], "must be from 0 to shape[", i % dimensions, "], ",
                            shape[i % dimensions]);
    const auto samples = static_cast<int64_t>(count);
    const int64_t of_sample = checked_product(1, shape.data(), dimensions);
    if (of_sample < 0 || checked_product(of_sample, &samples, 1) < 0)
        refuse_argument("shape", no_value, count, " masks of it take more than 2^63 bytes");
    if (of_sample == 0) return;
    // Places outside along one dimension are decided by it (all) or by the others (any), those
    // inside by the others (all) or by it (any).
    const auto fill = [&](auto&& self, const int64_t* own, std::size_t d,
                          uint8_t* block) -> uint8_t* {
        const auto bytes =
            static_cast<std::size_t>(elements(shape.data() + d + 1, dimensions - d - 1));
        const bool is_last = d + 1 == dimensions;
        for (int64_t i = 0; i < shape[d]; ++i) {
            if (is_last) {
                std::memset(block, 1, static_cast<std::size_t>(own[d]));
                std::memset(block + own[d], 0, static_cast<std::size_t>(shape[d] - own[d]));
                return block + shape[d];
            }
            const bool is_inside = i < own[d];
            if (is_inside == (rule == SAB_MASK_ALL)) {
                block = self(self, own, d + 1, block);
            } else {
                std::memset(block, is_inside ? 1 : 0, bytes);
                block += bytes;
            }
        }
        return block;
    };
    for (std::size_t sample = 0; sample < count; ++sample)
        mask = fill(fill, lengths + sample * dimensions, 0, mask);
}

}  // namespace sab
