#pragma once
/// Samples of different shapes to one array, and back.

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "sab/group.h"

namespace sab {

constexpr std::size_t most_dimensions = 16;
using Shape = std::array<int64_t, most_dimensions>;

/// A checked sab_ragged, and the indices of the samples of a batch.
class Samples {
public:
    Samples(const sab_ragged& given, const int64_t* indices, std::size_t count);
    std::size_t count() const { return count_; }
    std::size_t dimensions() const { return dimensions_; }
    std::size_t element_size() const { return given_.element_size; }
    /// Index of the sample at a slot of the batch.
    std::size_t number(std::size_t slot) const {
        return indices_ == nullptr ? slot : static_cast<std::size_t>(indices_[slot]);
    }
    const int64_t* shape(std::size_t slot) const {
        return given_.shapes + number(slot) * dimensions_;
    }
    bool is_row_major() const { return given_.strides == nullptr; }
    /// Only for a sample that has elements.
    Shape byte_strides(std::size_t slot) const;
    /// NULL for a sample without elements that has no memory.
    char* data(std::size_t slot) const;
    Shape longest() const;
    /// Throws unless all samples with elements have memory. Called before data().
    void need_memory();

private:
    sab_ragged given_;
    const int64_t* indices_;
    std::size_t count_, dimensions_;
    std::vector<int64_t> offsets_;  // where the caller gave none
};

void pad(const Samples& samples, const int64_t* shape, const sab_pad_options& options,
         void* padded);
/// `strides` are those of the whole array, in elements; NULL: row-major.
void unpad(const void* padded, const int64_t* shape, const int64_t* strides,
           const sab_pad_options& options, const Samples& samples);
/// Of `count` samples, each with a length for each dimension of the shape.
void fill_length_mask(const int64_t* lengths, std::size_t count, std::span<const int64_t> shape,
                      sab_mask_rule rule, uint8_t* mask);

}  // namespace sab
