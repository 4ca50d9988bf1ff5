#include "torch/component/moves.h"

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

/// With the elements that it stands for in its memory.
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

/// The move itself, in the CPU's memory, into row-major tensors.
void copy(const Move& move, std::size_t element_size, const std::vector<Piece>& from,
          const std::vector<char*>& to, const void* value) {
    const auto bytes = static_cast<int64_t>(element_size);
    std::vector<void*> data(move.samples);
    std::vector<int64_t> strides;  // empty: row-major
    sab_pad_options options = SAB_PAD_OPTIONS_INIT;
    options.padding = move.rule.padding;
    options.value = value;
    options.value_dims = move.rule.value_dims;
    options.threads = static_cast<uint64_t>(at::get_num_threads());
    const auto samples_of = [&](std::span<const int64_t> indices) {
        sab_ragged ragged = SAB_RAGGED_INIT;
        ragged.samples = move.samples;
        ragged.dimensions = move.dimensions;
        ragged.element_size = element_size;
        ragged.shapes = move.shapes->data();
        ragged.strides = strides.empty() ? nullptr : strides.data();
        ragged.data = data.data();
        sab::Samples samples(ragged, indices.data(), indices.size());
        samples.need_memory();
        return samples;
    };
    const auto strides_of = [&](std::size_t tensor, std::vector<int64_t>& own) {
        own.resize(move.from.dimensions);
        int64_t next = 1;
        for (std::size_t d = own.size(); d-- > 0;) {
            own[d] = from[tensor].strides != nullptr ? from[tensor].strides[d] : next;
            next *= std::max<int64_t>(1, move.from.sizes(tensor)[d]);
        }
    };
    const auto shape_in = [&](const Layout& layout, std::size_t group) {  // of its samples
        std::vector<int64_t> shape = layout.sizes(group).vec();
        shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(layout.batch_dim));
        return shape;
    };

    std::vector<int64_t> own;
    if (!move.to.groups) {
        std::copy(to.begin(), to.end(), data.begin());
        options.batch_dim = move.from.batch_dim;
        for (std::size_t g = 0; g < from.size(); ++g) {
            strides_of(g, own);
            sab::unpad(from[g].data, shape_in(move.from, g).data(),
                       from[g].strides != nullptr ? own.data() : nullptr, options,
                       samples_of(move.from.groups->samples(g)));
        }
        return;
    }
    if (!move.from.groups) {
        if (std::ranges::any_of(from, [](const Piece& piece) { return piece.strides != nullptr; }))
            strides.reserve(move.samples * move.dimensions);
        for (std::size_t i = 0; i < from.size(); ++i) {
            data[i] = from[i].data;
            if (strides.capacity() == 0) continue;
            strides_of(i, own);
            strides.insert(strides.end(), own.begin(), own.end());
        }
    } else {
        strides.resize(move.samples * move.dimensions);
        for (std::size_t g = 0; g < from.size(); ++g) {
            strides_of(g, own);
            const auto batch_stride =
                own.begin() + static_cast<std::ptrdiff_t>(move.from.batch_dim);
            const int64_t step = *batch_stride * bytes;
            own.erase(batch_stride);
            char* next = from[g].data;
            for (const int64_t sample : move.from.groups->samples(g)) {
                data[static_cast<std::size_t>(sample)] = next;
                std::copy(own.begin(), own.end(),
                          strides.begin() + sample * static_cast<int64_t>(move.dimensions));
                if (next != nullptr) next += step;
            }
        }
    }
    options.batch_dim = move.to.batch_dim;
    for (std::size_t g = 0; g < to.size(); ++g)
        sab::pad(samples_of(move.to.groups->samples(g)), shape_in(move.to, g).data(), options,
                 to[g]);
}

std::vector<at::Tensor> copied(const Move& move, const std::vector<at::Tensor>& sources) {
    std::vector<Piece> from;
    from.reserve(sources.size());
    for (const at::Tensor& source : sources)
        from.push_back({static_cast<char*>(source.data_ptr()),
                        source.is_contiguous() ? nullptr : source.strides().data()});
    std::vector<at::Tensor> made;
    made.reserve(move.to.count);
    std::vector<char*> to;
    to.reserve(move.to.count);
    for (std::size_t t = 0; t < move.to.count; ++t) {
        made.push_back(at::empty(move.to.sizes(t), sources[0].options()));
        to.push_back(static_cast<char*>(made.back().data_ptr()));
    }
    const at::Tensor value = move.rule.value.defined()
                                 ? resolved(move.rule.value.detach()).to(at::kCPU).contiguous()
                                 : at::Tensor();
    copy(move, sources[0].element_size(), from, to, value.defined() ? value.data_ptr() : nullptr);
    return made;
}

/// Without the dimensions of samples from `dimensions` on, which none is padded in.
Layout cut(const Layout& layout, std::size_t own_dimensions, std::size_t dimensions) {
    const std::size_t left = layout.dimensions - (own_dimensions - dimensions);
    std::vector<int64_t> shapes;
    for (std::size_t t = 0; t < layout.count; ++t)
        shapes.insert(shapes.end(), layout.sizes(t).begin(), layout.sizes(t).begin() + left);
    return {layout.groups, layout.batch_dim, left,
            std::make_shared<const std::vector<int64_t>>(std::move(shapes)), layout.count};
}

/// The same by LibTorch's operations, for other devices and gradients of paddings: which row of all
/// sources stands at each place is found by moving numbers.
std::vector<at::Tensor> gathered(const Move& move, const std::vector<at::Tensor>& sources) {
    // Trailing dimensions that are the same in all samples and in no group padded are a row.
    const auto is_whole = [&](std::size_t d) {
        const int64_t size = (*move.shapes)[d];
        for (std::size_t i = 1; i < move.samples; ++i)
            if ((*move.shapes)[i * move.dimensions + d] != size) return false;
        return std::ranges::all_of(std::initializer_list<const Layout*>{&move.from, &move.to},
                                   [&](const Layout* layout) {
                                       if (!layout->groups) return true;
                                       for (std::size_t g = 0; g < layout->count; ++g)
                                           if (layout->sizes(g)[d + 1] != size) return false;
                                       return d >= layout->batch_dim;
                                   });
    };
    std::size_t dimensions = move.dimensions;
    while (dimensions > 0 && (move.rule.value_dims >> (dimensions - 1)) == 0 &&
           is_whole(dimensions - 1))
        --dimensions;
    const int64_t row =
        product(move.from.sizes(0).slice(move.from.dimensions - (move.dimensions - dimensions)));
    const Layout samples{nullptr, 0, move.dimensions, move.shapes, move.samples};
    const Move numbers{cut(move.from, move.dimensions, dimensions),
                       cut(move.to, move.dimensions, dimensions),
                       move.samples,
                       dimensions,
                       cut(samples, move.dimensions, dimensions).shapes,
                       {move.rule.padding, {}, move.rule.value_dims}};

    const at::Tensor value = move.rule.value.defined() ? move.rule.value.to(sources[0].device())
                                                       : at::zeros({}, sources[0].options());
    std::vector<at::Tensor> all_rows;
    std::vector<int64_t> begins{0}, counts;
    for (std::size_t s = 0; s < sources.size(); ++s) {
        const int64_t count = product(numbers.from.sizes(s));
        all_rows.push_back(sources[s].reshape({count, row}));
        begins.push_back(begins.back() + count);
    }
    all_rows.push_back(value.reshape({-1, 1}).expand({value.numel(), row}));
    // each row's number, where the row is
    std::vector<int64_t> which(static_cast<std::size_t>(begins.back() + value.numel()));
    std::iota(which.begin(), which.end(), int64_t{0});
    std::vector<Piece> from;
    for (std::size_t s = 0; s < sources.size(); ++s)
        from.push_back({reinterpret_cast<char*>(which.data() + begins[s]), nullptr});
    for (std::size_t t = 0; t < move.to.count; ++t) counts.push_back(product(numbers.to.sizes(t)));
    const at::Tensor places = at::empty({std::accumulate(counts.begin(), counts.end(), int64_t{0})},
                                        at::TensorOptions(at::kLong));
    std::vector<char*> to;
    int64_t begin = 0;
    for (const int64_t count : counts)
        to.push_back(reinterpret_cast<char*>(places.data_ptr<int64_t>() +
                                             std::exchange(begin, begin + count)));
    copy(numbers, sizeof(int64_t), from, to, which.data() + begins.back());

    // All in one piece, so that there is one operation, and one gradient of all rows.
    std::vector<at::Tensor> made = at::cat(all_rows)
                                       .index_select(0, places.to(sources[0].device()))
                                       .unsafe_split_with_sizes(counts);
    for (std::size_t t = 0; t < made.size(); ++t) made[t] = made[t].view(move.to.sizes(t));
    return made;
}

/// The gradient of a move with constant padding is the move back, with zeros for what was left out.
struct MoveBackward : torch::autograd::Node {
    Move back;
    at::TensorOptions options;

    torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
        std::vector<at::Tensor> given;
        given.reserve(gradients.size());
        for (std::size_t t = 0; t < back.from.count; ++t)
            given.push_back(gradients[t].defined()
                                ? std::move(gradients[t])
                                : at::zeros({}, options).expand(back.from.sizes(t)));
        return moved(back, given);
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

std::vector<at::Tensor> moved(const Move& move, const std::vector<at::Tensor>& sources) {
    if (sources.empty() || move.to.count == 0) return {};
    std::vector<at::Tensor> given;
    given.reserve(sources.size());
    for (const at::Tensor& source : sources) given.push_back(resolved(source));
    const Rule& rule = move.rule;
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
        return gathered(move, given);
    std::vector<at::Tensor> made;
    {
        const at::AutoDispatchBelowADInplaceOrView untracked;
        made = given[0].device().is_cpu() ? copied(move, given) : gathered(move, given);
    }
    if (!has_gradient) return made;
    const NodePointer node = new_node<MoveBackward>();
    auto& backward = static_cast<MoveBackward&>(*node);
    backward.back = {move.to, move.from, move.samples, move.dimensions, move.shapes, {}};
    backward.options = given[0].options();
    backward.set_next_edges(torch::autograd::collect_next_edges(at::TensorList(given)));
    for (at::Tensor& tensor : made) torch::autograd::set_history(tensor, node);
    return made;
}

}  // namespace sab_torch
