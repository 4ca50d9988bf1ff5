#pragma once
/// Samples moved from some tensors to others, with gradients.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "sab/group.h"

namespace sab_torch {

/// A tensor that holds samples: one as it is, or several, stacked along a dimension and padded.
struct Block {
    std::vector<int64_t> sizes;
    int64_t batch_dim;  // -1: one sample
    std::vector<int64_t> samples;
};
using Layout = std::vector<Block>;

/// What stands where samples do not reach.
struct Rule {
    sab_padding padding = SAB_PADDING_CONSTANT;
    at::Tensor value;         // of the samples' dtype
    uint64_t value_dims = 0;  // those that it has; see sab_pad_options
};

struct Move {
    Layout from, to;
    std::size_t rank;             // of a sample
    std::vector<int64_t> shapes;  // of each sample
    Rule rule;
};

/// New tensors of the layout `move.to`. `sources` has the layout `move.from`; all are of one dtype and device.
std::vector<at::Tensor> moved(const Move& move, const std::vector<at::Tensor>& sources);

}  // namespace sab_torch
