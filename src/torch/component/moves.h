#pragma once
/// Samples moved from some tensors to others, with gradients.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "sab/group.h"

namespace sab_torch {

/// Which samples stand in which group, none of which is empty.
struct Groups {
    std::vector<int64_t> offsets, permutation;
    std::size_t count() const { return offsets.size() - 1; }
    std::span<const int64_t> samples(std::size_t group) const {
        return {permutation.data() + offsets[group],
                static_cast<std::size_t>(offsets[group + 1] - offsets[group])};
    }
};

using Numbers = std::shared_ptr<const std::vector<int64_t>>;

/// The tensors that samples lie in: each in one of its own, or stacked along a dimension and
/// padded, in groups.
struct Layout {
    std::shared_ptr<const Groups> groups;  // null: one by one
    std::size_t batch_dim;                 // of groups
    std::size_t dimensions;                // of a tensor
    Numbers shapes;                        // of each tensor
    std::size_t count;                     // of tensors
    at::IntArrayRef sizes(std::size_t tensor) const {
        return {shapes->data() + tensor * dimensions, dimensions};
    }
};

/// What stands where samples do not reach.
struct Rule {
    sab_pad_rule padding = SAB_PADDING_CONSTANT;
    at::Tensor value;         // of the samples' dtype
    uint64_t value_dims = 0;  // those that it has; see sab_pad_options
};

/// One of the layouts is in groups.
struct Move {
    Layout from, to;
    std::size_t samples, dimensions;  // dimensions of a sample
    Numbers shapes;                   // of each sample
    Rule rule;
};

/// New tensors of the layout `move.to`. `sources` has the layout `move.from`; all are of one dtype
/// and device.
std::vector<at::Tensor> moved(const Move& move, const std::vector<at::Tensor>& sources);

}  // namespace sab_torch
