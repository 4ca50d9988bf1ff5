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

/// A checked sab_ragged, and which of its samples are meant.
class Samples {
public:
    Samples(const sab_ragged& given, const int64_t* indices, std::size_t count);
    std::size_t count() const { return count_; }
    std::size_t dimensions() const { return dimensions_; }
    std::size_t element_size() const { return given_.element_size; }
    /// Of the sample at a place.
    std::size_t number(std::size_t place) const {
        return indices_ == nullptr ? place : static_cast<std::size_t>(indices_[place]);
    }
    const int64_t* shape(std::size_t place) const {
        return given_.shapes + number(place) * dimensions_;
    }
    bool is_row_major() const { return given_.strides == nullptr; }
    /// Of a sample that has elements.
    Shape byte_strides(std::size_t place) const;
    /// NULL where it has no memory, which is only for samples without elements.
    char* data(std::size_t place) const;
    Shape longest() const;
    /// Throws unless all have memory. Before data().
    void need_memory();

private:
    sab_ragged given_;
    const int64_t* indices_;
    std::size_t count_, dimensions_;
    std::vector<int64_t> offsets_;  // where the caller gave none
};

void pad(const Samples& samples, const int64_t* shape, const sab_pad_options& options,
         void* padded);
/// `strides` of the whole array, in elements; NULL: it is row-major.
void unpad(const void* padded, const int64_t* shape, const int64_t* strides,
           const sab_pad_options& options, const Samples& samples);
/// Of `count` samples, each with a length for each dimension of the shape.
void fill_length_mask(const int64_t* lengths, std::size_t count, std::span<const int64_t> shape,
                      sab_mask_rule rule, uint8_t* mask);

}  // namespace sab
