#include "torch/component/layout.h"

#include <ATen/Parallel.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <type_traits>

#include "group/padding.h"
#include "torch/component/internal.h"

namespace sab_torch {
namespace {

int64_t product(at::IntArrayRef sizes) {
    return std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
}

/// The tensor with all of its elements in its memory.
at::Tensor resolved(const at::Tensor& tensor) {
    if (tensor.layout() != at::kStrided) return tensor.to_dense();  // a gradient
    if (tensor._is_zerotensor()) return tensor.clone();
    return tensor.is_conj() || tensor.is_neg() ? tensor.resolve_conj().resolve_neg() : tensor;
}

/// A tensor's memory.
struct Piece {
    char* data;
    const int64_t* strides;  // null: row-major
};

/// Copies the samples in CPU memory into row-major tensors.
void copy(const LayoutChange& change, std::size_t element_size, const std::vector<Piece>& from,
          const std::vector<char*>& to, const void* value) {
    const auto bytes = static_cast<int64_t>(element_size);
    std::vector<void*> data(change.samples);
    std::vector<int64_t> strides;  // empty: row-major
    sab_pad_options options = SAB_PAD_OPTIONS_INIT;
    options.padding = change.rule.padding;
    options.value = value;
    options.value_dims = change.rule.value_dims;
    options.threads = static_cast<uint64_t>(at::get_num_threads());
    const auto samples_of = [&](std::span<const int64_t> indices) {
        sab_ragged ragged = SAB_RAGGED_INIT;
        ragged.samples = change.samples;
        ragged.dimensions = change.dimensions;
        ragged.element_size = element_size;
        ragged.shapes = change.shapes->data();
        ragged.strides = strides.empty() ? nullptr : strides.data();
        ragged.data = data.data();
        sab::Samples samples(ragged, indices.data(), indices.size());
        samples.need_memory();
        return samples;
    };
    const auto strides_of = [&](std::size_t tensor, std::vector<int64_t>& own) {
        own.resize(change.from.dimensions);
        int64_t next = 1;
        for (std::size_t d = own.size(); d-- > 0;) {
            own[d] = from[tensor].strides != nullptr ? from[tensor].strides[d] : next;
            next *= std::max<int64_t>(1, change.from.sizes(tensor)[d]);
        }
    };
    const auto shape_in = [&](const Layout& layout, std::size_t group) {  // of its samples
        std::vector<int64_t> shape = layout.sizes(group).vec();
        shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(layout.batch_dim));
        return shape;
    };

    std::vector<int64_t> own;
    if (!change.to.groups) {
        std::copy(to.begin(), to.end(), data.begin());
        options.batch_dim = change.from.batch_dim;
        for (std::size_t g = 0; g < from.size(); ++g) {
            strides_of(g, own);
            sab::unpad(from[g].data, shape_in(change.from, g).data(),
                       from[g].strides != nullptr ? own.data() : nullptr, options,
                       samples_of(change.from.groups->samples(g)));
        }
        return;
    }
    if (!change.from.groups) {
        if (std::ranges::any_of(from, [](const Piece& piece) { return piece.strides != nullptr; }))
            strides.reserve(change.samples * change.dimensions);
        for (std::size_t i = 0; i < from.size(); ++i) {
            data[i] = from[i].data;
            if (strides.capacity() == 0) continue;
            strides_of(i, own);
            strides.insert(strides.end(), own.begin(), own.end());
        }
    } else {
        strides.resize(change.samples * change.dimensions);
        for (std::size_t g = 0; g < from.size(); ++g) {
            strides_of(g, own);
            const auto batch_stride =
                own.begin() + static_cast<std::ptrdiff_t>(change.from.batch_dim);
            const int64_t step = *batch_stride * bytes;
            own.erase(batch_stride);
            char* next = from[g].data;
            for (const int64_t sample : change.from.groups->samples(g)) {
                data[static_cast<std::size_t>(sample)] = next;
                std::copy(own.begin(), own.end(),
                          strides.begin() + sample * static_cast<int64_t>(change.dimensions));
                if (next != nullptr) next += step;
            }
        }
    }
    options.batch_dim = change.to.batch_dim;
    for (std::size_t g = 0; g < to.size(); ++g)
        sab::pad(samples_of(change.to.groups->samples(g)), shape_in(change.to, g).data(), options,
                 to[g]);
}

std::vector<at::Tensor> copied(const LayoutChange& change, const std::vector<at::Tensor>& sources) {
    std::vector<Piece> from;
    from.reserve(sources.size());
    for (const at::Tensor& source : sources)
        from.push_back({static_cast<char*>(source.data_ptr()),
                        source.is_contiguous() ? nullptr : source.strides().data()});
    std::vector<at::Tensor> made;
    made.reserve(change.to.count);
    std::vector<char*> to;
    to.reserve(change.to.count);
    for (std::size_t t = 0; t < change.to.count; ++t) {
        made.push_back(at::empty(change.to.sizes(t), sources[0].options()));
        to.push_back(static_cast<char*>(made.back().data_ptr()));
    }
    const at::Tensor value = change.rule.value.defined()
                                 ? resolved(change.rule.value.detach()).to(at::kCPU).contiguous()
                                 : at::Tensor();
    copy(change, sources[0].element_size(), from, to, value.defined() ? value.data_ptr() : nullptr);
    return made;
}

/// Without the dimensions of samples from `dimensions` on, in which no sample is padded.
Layout truncated(const Layout& layout, std::size_t own_dimensions, std::size_t dimensions) {
    const std::size_t left = layout.dimensions - (own_dimensions - dimensions);
    std::vector<int64_t> shapes;
    for (std::size_t t = 0; t < layout.count; ++t)
        shapes.insert(shapes.end(), layout.sizes(t).begin(), layout.sizes(t).begin() + left);
    return {layout.groups, layout.batch_dim, left,
            std::make_shared<const std::vector<int64_t>>(std::move(shapes)), layout.count};
}

/// The same by LibTorch's operations, for other devices and gradients of paddings. The row numbers
/// are laid out on the CPU first. They are then the indices by which LibTorch gathers the rows.
std::vector<at::Tensor> gathered(const LayoutChange& change,
                                 const std::vector<at::Tensor>& sources) {
    // Trailing dimensions that are equal in all samples and padded in no group form a row.
    const auto is_whole = [&](std::size_t d) {
        const int64_t size = (*change.shapes)[d];
        for (std::size_t i = 1; i < change.samples; ++i)
            if ((*change.shapes)[i * change.dimensions + d] != size) return false;
        return std::ranges::all_of(std::initializer_list<const Layout*>{&change.from, &change.to},
                                   [&](const Layout* layout) {
                                       if (!layout->groups) return true;
                                       for (std::size_t g = 0; g < layout->count; ++g)
                                           if (layout->sizes(g)[d + 1] != size) return false;
                                       return d >= layout->batch_dim;
                                   });
    };
    std::size_t dimensions = change.dimensions;
    while (dimensions > 0 && (change.rule.value_dims >> (dimensions - 1)) == 0 &&
           is_whole(dimensions - 1))
        --dimensions;
    const int64_t row = product(
        change.from.sizes(0).slice(change.from.dimensions - (change.dimensions - dimensions)));
    const Layout samples{nullptr, 0, change.dimensions, change.shapes, change.samples};
    const LayoutChange numbers{truncated(change.from, change.dimensions, dimensions),
                               truncated(change.to, change.dimensions, dimensions),
                               change.samples,
                               dimensions,
                               truncated(samples, change.dimensions, dimensions).shapes,
                               {change.rule.padding, {}, change.rule.value_dims}};

    const at::Tensor value = change.rule.value.defined() ? change.rule.value.to(sources[0].device())
                                                         : at::zeros({}, sources[0].options());
    std::vector<at::Tensor> all_rows;
    std::vector<int64_t> begins{0}, counts;
    for (std::size_t s = 0; s < sources.size(); ++s) {
        const int64_t count = product(numbers.from.sizes(s));
        all_rows.push_back(sources[s].reshape({count, row}));
        begins.push_back(begins.back() + count);
    }
    all_rows.push_back(value.reshape({-1, 1}).expand({value.numel(), row}));
    // the number of each row, at the position of the row
    std::vector<int64_t> which(static_cast<std::size_t>(begins.back() + value.numel()));
    std::iota(which.begin(), which.end(), int64_t{0});
    std::vector<Piece> from;
    for (std::size_t s = 0; s < sources.size(); ++s)
        from.push_back({reinterpret_cast<char*>(which.data() + begins[s]), nullptr});
    for (std::size_t t = 0; t < change.to.count; ++t)
        counts.push_back(product(numbers.to.sizes(t)));
    const at::Tensor rows = at::empty({std::accumulate(counts.begin(), counts.end(), int64_t{0})},
                                      at::TensorOptions(at::kLong));
    std::vector<char*> to;
    int64_t begin = 0;
    for (const int64_t count : counts)
        to.push_back(reinterpret_cast<char*>(rows.data_ptr<int64_t>() +
                                             std::exchange(begin, begin + count)));
    copy(numbers, sizeof(int64_t), from, to, which.data() + begins.back());

    // All in one piece, so that there is one operation, and one gradient of all rows.
    std::vector<at::Tensor> made = at::cat(all_rows)
                                       .index_select(0, rows.to(sources[0].device()))
                                       .unsafe_split_with_sizes(counts);
    for (std::size_t t = 0; t < made.size(); ++t) made[t] = made[t].view(change.to.sizes(t));
    return made;
}

/// With constant padding the gradient is the reverse layout change. Samples without a gradient get
/// zeros.
struct LayoutChangeBackward : torch::autograd::Node {
    LayoutChange back;
    at::TensorOptions options;

    torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
        std::vector<at::Tensor> given;
        given.reserve(gradients.size());
        for (std::size_t t = 0; t < back.from.count; ++t)
            given.push_back(gradients[t].defined()
                                ? std::move(gradients[t])
                                : at::zeros({}, options).expand(back.from.sizes(t)));
        return with_layout(back, given);
    }
    std::string name() const override { return "SabMoveBackward"; }
};

/// LibTorch's pointer to a node: shared once, intrusive today.
using NodePointer = decltype(torch::autograd::Edge::function);

template <class Backward>
NodePointer new_node() {
    if constexpr (std::is_constructible_v<NodePointer, Backward*, void (*)(Backward*)>)
        return NodePointer(new Backward, [](auto* dying) { deleteNode(dying); });
    else
        return c10::make_intrusive<Backward>();
}

}  // namespace

std::vector<at::Tensor> with_layout(const LayoutChange& change,
                                    const std::vector<at::Tensor>& sources) {
    if (sources.empty() || change.to.count == 0) return {};
    std::vector<at::Tensor> given;
    given.reserve(sources.size());
    for (const at::Tensor& source : sources) given.push_back(resolved(source));
    const Rule& rule = change.rule;
    const bool value_has_gradient =
        rule.value.defined() && torch::autograd::compute_requires_grad(rule.value);
    const bool has_gradient =
        value_has_gradient || torch::autograd::compute_requires_grad(at::TensorList(given));
    const bool has_forward_gradient = (rule.value.defined() && rule.value._fw_grad(0).defined()) ||
                                      std::ranges::any_of(given, [](const at::Tensor& source) {
                                          return source._fw_grad(0).defined();
                                      });
    if (has_forward_gradient || value_has_gradient ||
        (has_gradient && rule.padding != SAB_PADDING_CONSTANT))
        return gathered(change, given);
    std::vector<at::Tensor> made;
    {
        const at::AutoDispatchBelowADInplaceOrView untracked;
        made = given[0].device().is_cpu() ? copied(change, given) : gathered(change, given);
    }
    if (!has_gradient) return made;
    const NodePointer node = new_node<LayoutChangeBackward>();
    auto& backward = static_cast<LayoutChangeBackward&>(*node);
    backward.back = {change.to, change.from, change.samples, change.dimensions, change.shapes, {}};
    backward.options = given[0].options();
    backward.set_next_edges(torch::autograd::collect_next_edges(at::TensorList(given)));
    for (at::Tensor& tensor : made) torch::autograd::set_history(tensor, node);
    return made;
}

}  // namespace sab_torch
