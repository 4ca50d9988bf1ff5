#pragma once
/// Copies samples from tensors of one layout to tensors of another, with gradients.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "sab/group.h"

namespace sab_torch {

/// Which samples are in which group. No group is empty.
struct Groups {
    std::vector<int64_t> offsets, permutation;
    std::size_t count() const { return offsets.size() - 1; }
    std::span<const int64_t> samples(std::size_t group) const {
        return {permutation.data() + offsets[group],
                static_cast<std::size_t>(offsets[group + 1] - offsets[group])};
    }
};

using Numbers = std::shared_ptr<const std::vector<int64_t>>;

/// How samples lie in tensors: each sample in its own tensor, or the samples of a group stacked
/// along a dimension and padded.
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

/// The values of padded positions.
struct Rule {
    sab_pad_rule padding = SAB_PADDING_CONSTANT;
    at::Tensor value;         // of the samples' dtype
    uint64_t value_dims = 0;  // those that it has; see sab_pad_options
};

/// One of the layouts is in groups.
struct LayoutChange {
    Layout from, to;
    std::size_t samples, dimensions;  // dimensions of a sample
    Numbers shapes;                   // of each sample
    Rule rule;
};

/// New tensors of the layout `change.to`. `sources` have the layout `change.from`, one dtype and
/// one device.
std::vector<at::Tensor> with_layout(const LayoutChange& change,
                                    const std::vector<at::Tensor>& sources);

}  // namespace sab_torch
