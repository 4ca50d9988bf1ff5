#include "torch/component/moves.h"

#include <ATen/Parallel.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <algorithm>
#include <memory>
#include <type_traits>

#include "group/padding.h"
#include "torch/component/internal.h"

namespace sab_torch {
namespace {

int64_t product(const int64_t* begin, const int64_t* end) {
    int64_t all = 1;
    for (; begin != end; ++begin) all *= *begin;
    return all;
}

/// With its elements as they are in memory, each once.
at::Tensor plain(const at::Tensor& tensor) {
    const at::Tensor resolved = tensor.resolve_conj().resolve_neg();
    return resolved.is_non_overlapping_and_dense() ? resolved : resolved.contiguous();
}

/// The move itself, in the CPU's memory.
std::vector<at::Tensor> copied(const Move& move, const std::vector<at::Tensor>& sources) {
    const std::size_t samples = move.rank == 0 ? 0 : move.shapes.size() / move.rank;
    std::vector<void*> data(samples);
    std::vector<int64_t> strides(move.shapes.size());
    for (std::size_t b = 0; b < move.from.size(); ++b) {
        const Block& block = move.from[b];
        const at::Tensor& source = sources[b];
        const auto bytes = static_cast<int64_t>(source.element_size());
        char* const first = static_cast<char*>(source.data_ptr());
        for (std::size_t place = 0; place < block.samples.size(); ++place) {
            const auto sample = static_cast<std::size_t>(block.samples[place]);
            if (sample >= data.size()) data.resize(sample + 1);  // samples without dimensions
            data[sample] = block.batch_dim < 0 ? first : first + static_cast<int64_t>(place) * source.stride(block.batch_dim) * bytes;
            for (std::size_t d = 0, own = 0; own < move.rank; ++d)
                if (static_cast<int64_t>(d) != block.batch_dim) strides[sample * move.rank + own++] = source.stride(static_cast<int64_t>(d));
        }
    }
    sab_ragged ragged = SAB_RAGGED_INIT;
    ragged.samples = data.size();
    ragged.rank = move.rank;
    ragged.element_size = sources.empty() ? 1 : sources[0].element_size();
    ragged.shapes = move.shapes.data();
    ragged.strides = strides.data();
    ragged.data = data.data();
    const at::Tensor value = move.rule.value.defined() ? move.rule.value.detach().to(at::kCPU).contiguous() : at::Tensor();

    std::vector<at::Tensor> made;
    made.reserve(move.to.size());
    for (const Block& block : move.to) {
        made.push_back(at::empty(block.sizes, sources.at(0).options()));
        std::vector<int64_t> shape = block.sizes;
        sab_pad_options options = SAB_PAD_OPTIONS_INIT;
        if (block.batch_dim >= 0) {
            shape.erase(shape.begin() + block.batch_dim);
            options.batch_dim = static_cast<uint64_t>(block.batch_dim);
        }
        options.padding = move.rule.padding;
        options.value = value.defined() ? value.data_ptr() : nullptr;
        options.value_dims = move.rule.value_dims;
        options.threads = static_cast<uint64_t>(at::get_num_threads());
        sab::Samples given(ragged, block.samples.data(), block.samples.size());
        given.need_memory();
        sab::pad(given, shape.data(), options, made.back().data_ptr());
    }
    return made;
}

std::vector<at::Tensor> moved_by_copy(const Move& move, const std::vector<at::Tensor>& sources);

/// The gradient of a move with constant padding is the move back, with zeros for what was left out.
struct MoveBackward : torch::autograd::Node {
    Move back;
    at::TensorOptions options;

    torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
        std::vector<at::Tensor> given;
        for (std::size_t b = 0; b < back.from.size(); ++b) given.push_back(gradients[b].defined() ? plain(gradients[b]) : at::zeros(back.from[b].sizes, options));
        return moved_by_copy(back, given);
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

std::vector<at::Tensor> moved_by_copy(const Move& move, const std::vector<at::Tensor>& sources) {
    std::vector<at::Tensor> made = copied(move, sources);
    if (torch::autograd::compute_requires_grad(at::TensorList(sources))) {
        const NodePointer node = new_node<MoveBackward>();
        auto& backward = static_cast<MoveBackward&>(*node);
        backward.back = {move.to, move.from, move.rank, move.shapes, {}};
        backward.options = sources[0].options();
        backward.set_next_edges(torch::autograd::collect_next_edges(at::TensorList(sources)));
        for (at::Tensor& tensor : made) torch::autograd::set_history(tensor, node);
    }
    return made;
}

/// The same by LibTorch's operations, which have their own gradients and devices: which row of all sources stands at each place is found by moving numbers.
std::vector<at::Tensor> moved_by_index(const Move& move, const std::vector<at::Tensor>& sources) {
    // Trailing dimensions in which nothing is padded are a row.
    std::size_t rank = move.rank;
    const auto is_whole = [&](std::size_t d) {
        if ((move.rule.value_dims >> d) != 0) return false;
        const auto keeps = [&](const Layout& layout) {
            return std::ranges::all_of(layout, [&](const Block& block) {
                if (block.batch_dim >= 0 && d < static_cast<std::size_t>(block.batch_dim)) return false;
                const int64_t size = block.sizes[d + (block.batch_dim >= 0 ? 1 : 0)];
                return std::ranges::all_of(block.samples, [&](int64_t sample) { return move.shapes[static_cast<std::size_t>(sample) * move.rank + d] == size; });
            });
        };
        return keeps(move.from) && keeps(move.to);
    };
    while (rank > 0 && is_whole(rank - 1)) --rank;
    const Block& first = move.from.front();
    const int64_t row = product(first.sizes.data() + first.sizes.size() - (move.rank - rank), first.sizes.data() + first.sizes.size());

    Move numbers{move.from, move.to, rank, {}, {move.rule.padding, {}, move.rule.value_dims}};
    for (std::size_t i = 0; i < move.shapes.size(); ++i)
        if (i % move.rank < rank) numbers.shapes.push_back(move.shapes[i]);
    int64_t rows = 0;
    std::vector<at::Tensor> sources_rows, sources_numbers;
    for (std::size_t b = 0; b < sources.size(); ++b) {
        std::vector<int64_t>& sizes = numbers.from[b].sizes;
        sizes.resize(sizes.size() - (move.rank - rank));
        const int64_t count = product(sizes.data(), sizes.data() + sizes.size());
        sources_numbers.push_back(at::arange(rows, rows + count, at::kLong).view(sizes));
        sources_rows.push_back(sources[b].reshape({count, row}));
        rows += count;
    }
    at::Tensor value = move.rule.value.defined() ? move.rule.value.to(sources[0].device()) : at::zeros({}, sources[0].options());
    numbers.rule.value = at::arange(rows, rows + value.numel(), at::kLong).view(value.sizes());
    sources_rows.push_back(value.reshape({-1, 1}).expand({value.numel(), row}));
    const at::Tensor all = at::cat(sources_rows);
    for (Block& block : numbers.to) block.sizes.resize(block.sizes.size() - (move.rank - rank));
    std::vector<at::Tensor> made;
    const std::vector<at::Tensor> places = copied(numbers, sources_numbers);
    for (std::size_t b = 0; b < places.size(); ++b)
        made.push_back(all.index_select(0, places[b].reshape({-1}).to(all.device())).view(move.to[b].sizes));
    return made;
}

}  // namespace

std::vector<at::Tensor> moved(const Move& move, const std::vector<at::Tensor>& sources) {
    if (sources.empty() || move.to.empty()) return {};
    std::vector<at::Tensor> given;
    given.reserve(sources.size());
    for (const at::Tensor& source : sources) given.push_back(plain(source));
    const Rule& rule = move.rule;
    const bool has_gradient = torch::autograd::compute_requires_grad(at::TensorList(given)) || (rule.value.defined() && torch::autograd::compute_requires_grad(rule.value));
    const bool has_forward_gradient = std::ranges::any_of(given, [](const at::Tensor& source) { return source._fw_grad(0).defined(); });
    const bool is_linear_copy = rule.padding == SAB_PADDING_CONSTANT && !(rule.value.defined() && rule.value.requires_grad());
    if (!given[0].device().is_cpu() || has_forward_gradient || (has_gradient && !is_linear_copy)) return moved_by_index(move, given);
    return moved_by_copy(move, given);
}

}  // namespace sab_torch
