/// Collections of samples, one by one or in groups.
#include <ATen/DLConvertor.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <map>
#include <optional>

#include "base/error.h"
#include "group/padding.h"
#include "torch/component/internal.h"
#include "torch/component/moves.h"
#include "torch/component/signature.h"

namespace sab_torch {
namespace {

struct Leaf {
    std::string path;
    Signature signature;
    Rule rule;
    std::vector<at::Tensor> tensors;  // of samples, or of groups
    std::vector<int64_t> shapes;      // of each sample
    std::size_t rank() const { return signature.own.size(); }
};

struct Groups {
    std::vector<int64_t> offsets, permutation;
    std::size_t count() const { return offsets.size() - 1; }
    std::vector<int64_t> samples(std::size_t group) const { return {permutation.begin() + offsets[group], permutation.begin() + offsets[group + 1]}; }
};

struct Collection {
    std::size_t samples = 0;
    std::vector<Leaf> leaves;
    std::map<std::string, std::vector<int64_t>> lengths;  // of each sample
    std::optional<Groups> groups;
};

std::string of(const char* what, std::size_t number) { return std::string(what) + "[" + std::to_string(number) + "]"; }

template <class... Parts>
[[noreturn]] void refuse(const Parts&... parts) {
    throw Refusal(SAB_E_ARGUMENT, sab::text(parts...));
}

std::string shown(at::IntArrayRef sizes) {
    std::string out = "(";
    for (std::size_t d = 0; d < sizes.size(); ++d) out += (d > 0 ? ", " : "") + std::to_string(sizes[d]);
    return out + ")";
}

/// Tensors given by DLPack stay the caller's until keep() says otherwise.
class Adopted {
public:
    at::Tensor tensor(DLManagedTensor* given) {
        struct Held {
            DLManagedTensor view;
            DLManagedTensor* given;
            std::shared_ptr<std::atomic<bool>> is_ours;
        };
        auto held = std::make_unique<Held>(Held{*given, given, is_ours_});
        held->view.manager_ctx = held.get();
        held->view.deleter = [](DLManagedTensor* view) {
            const std::unique_ptr<Held> dying(static_cast<Held*>(view->manager_ctx));
            if (dying->is_ours->load()) delete_tensor(dying->given);
        };
        const at::Tensor made = at::fromDLPack(&held->view);
        held.release();  // goes with the tensor
        return made;
    }
    void keep() { is_ours_->store(true); }

private:
    std::shared_ptr<std::atomic<bool>> is_ours_ = std::make_shared<std::atomic<bool>>(false);
};

const at::Tensor& native(const sab_torch_tensor* tensor) { return *reinterpret_cast<const at::Tensor*>(tensor); }

std::vector<at::Tensor> read_tensors(const sab_torch_leaf& given, std::size_t count, const std::string& name, Adopted& adopted) {
    if ((given.dlpack != nullptr) == (given.tensors != nullptr) && count > 0) refuse(name, ": exactly one of dlpack and tensors must be given");
    std::vector<at::Tensor> tensors;
    tensors.reserve(count);
    for (std::size_t i = 0; i < count; ++i) {
        const std::string which = of((name + (given.tensors != nullptr ? ".tensors" : ".dlpack")).c_str(), i);
        if (given.tensors != nullptr ? given.tensors[i] == nullptr : given.dlpack[i] == nullptr) refuse(which, " is NULL");
        tensors.push_back(given.tensors != nullptr ? native(given.tensors[i]) : adopted.tensor(given.dlpack[i]));
        if (!tensors[i].defined()) refuse(which, " is an undefined tensor");
        if (tensors[i].layout() != at::kStrided) refuse(which, " is sparse: must be strided");
        if (tensors[i].scalar_type() != tensors[0].scalar_type())
            refuse(which, " has dtype ", std::string_view(c10::toString(tensors[i].scalar_type())), ": must be that of the first, ", std::string_view(c10::toString(tensors[0].scalar_type())));
        if (tensors[i].device() != tensors[0].device()) refuse(which, " is on ", tensors[i].device().str(), ": must be where the first is, on ", tensors[0].device().str());
    }
    return tensors;
}

Rule read_rule(const sab_torch_leaf& given, const Leaf& leaf, const std::string& name, Adopted& adopted) {
    Rule rule;
    rule.padding = given.padding;
    if (given.padding != SAB_PADDING_CONSTANT && given.padding != SAB_PADDING_REPEAT) refuse(name, ".padding = ", given.padding, ": must be SAB_PADDING_CONSTANT or SAB_PADDING_REPEAT");
    if (leaf.tensors.empty()) return rule;
    const at::Tensor& like = leaf.tensors[0];
    if (given.value_dlpack == nullptr && given.value_tensor == nullptr) {
        if (given.value == 0) return rule;
        if (at::isIntegralType(like.scalar_type(), true)) {
            const at::Tensor probe = at::full({}, given.value, at::TensorOptions(at::kDouble));
            if (!std::isfinite(given.value) || probe.to(like.scalar_type()).to(at::kDouble).item<double>() != given.value)
                refuse(name, ".value = ", given.value, ": cannot be a number of dtype ", std::string_view(c10::toString(like.scalar_type())));
        }
        rule.value = at::full({}, given.value, at::TensorOptions(at::kDouble)).to(like.scalar_type());
        return rule;
    }
    if (given.value_dlpack != nullptr && given.value_tensor != nullptr) refuse(name, ": value_dlpack and value_tensor are both given");
    rule.value = given.value_tensor != nullptr ? native(given.value_tensor) : adopted.tensor(given.value_dlpack);
    if (!rule.value.defined()) refuse(name, ".value_tensor is an undefined tensor");
    if (rule.value.scalar_type() != like.scalar_type())
        refuse(name, ".value has dtype ", std::string_view(c10::toString(rule.value.scalar_type())), ": must be that of the samples, ", std::string_view(c10::toString(like.scalar_type())));
    if (rule.value.device() != like.device()) refuse(name, ".value is on ", rule.value.device().str(), ": must be where the samples are, on ", like.device().str());
    std::vector<int64_t> numbers;
    for (std::size_t d = 0; d < leaf.rank(); ++d) {
        if (leaf.signature.own[d].kind != Dimension::number) continue;
        numbers.push_back(leaf.signature.own[d].size);
        rule.value_dims |= uint64_t{1} << d;
    }
    if (rule.value.dim() == 0)
        rule.value_dims = 0;
    else if (rule.value.sizes() != at::IntArrayRef(numbers))
        refuse(name, ".value has shape ", shown(rule.value.sizes()), ": must have that of the numbers in \"", leaf.signature.text, "\", ", shown(numbers));
    return rule;
}

/// Checks a size that is the same in all samples.
void check_same(int64_t& known, int64_t size, const std::string& which, std::size_t d) {
    if (known >= 0 && size != known) refuse(which, " has size ", size, " along dimension ", d, ": must be ", known, ", as before");
    known = size;
}

std::unique_ptr<Collection> read_leaves(const sab_torch_leaf* given, std::size_t count, std::size_t tensors, Adopted& adopted) {
    auto made = std::make_unique<Collection>();
    for (std::size_t l = 0; l < count; ++l) {
        const std::string name = of("leaves", l);
        Leaf leaf;
        leaf.path = given[l].path == nullptr ? "" : given[l].path;
        for (const Leaf& other : made->leaves) {
            const std::string &shorter = leaf.path.size() < other.path.size() ? leaf.path : other.path, &longer = leaf.path.size() < other.path.size() ? other.path : leaf.path;
            if (shorter.empty() || longer == shorter || longer.compare(0, shorter.size() + 1, shorter + "/") == 0)
                refuse(name, ".path = \"", leaf.path, "\": cannot stand beside \"", other.path, "\"");
        }
        if (given[l].signature == nullptr) refuse(name, ".signature is NULL");
        leaf.signature = parse_signature(given[l].signature, name + ".signature");
        leaf.tensors = read_tensors(given[l], tensors, name, adopted);
        leaf.rule = read_rule(given[l], leaf, name, adopted);
        made->leaves.push_back(std::move(leaf));
    }
    return made;
}

void check_rank(const at::Tensor& tensor, std::size_t rank, const std::string& which, const Signature& signature, const char* without) {
    if (static_cast<std::size_t>(tensor.dim()) != rank) refuse(which, " has shape ", shown(tensor.sizes()), ": must have ", rank, " dimensions, those of \"", signature.text, "\"", without);
}

Layout single_layout(const Leaf& leaf, std::size_t samples) {
    Layout layout;
    layout.reserve(samples);
    const auto rank = static_cast<std::ptrdiff_t>(leaf.rank());
    for (std::size_t i = 0; i < samples; ++i) {
        const auto begin = leaf.shapes.begin() + static_cast<std::ptrdiff_t>(i) * rank;
        layout.push_back({{begin, begin + rank}, -1, {static_cast<int64_t>(i)}});
    }
    return layout;
}

/// As they lie now.
Layout layout_of(const Collection& collection, const Leaf& leaf) {
    if (!collection.groups) return single_layout(leaf, collection.samples);
    Layout layout;
    for (std::size_t g = 0; g < collection.groups->count(); ++g)
        layout.push_back({leaf.tensors[g].sizes().vec(), static_cast<int64_t>(leaf.signature.batch_dim), collection.groups->samples(g)});
    return layout;
}

Layout grouped_layout(const Leaf& leaf, const Groups& groups) {
    Layout layout;
    for (std::size_t g = 0; g < groups.count(); ++g) {
        Block block{std::vector<int64_t>(leaf.rank()), static_cast<int64_t>(leaf.signature.batch_dim), groups.samples(g)};
        for (const int64_t sample : block.samples)
            for (std::size_t d = 0; d < leaf.rank(); ++d) block.sizes[d] = std::max(block.sizes[d], leaf.shapes[static_cast<std::size_t>(sample) * leaf.rank() + d]);
        block.sizes.insert(block.sizes.begin() + block.batch_dim, static_cast<int64_t>(block.samples.size()));
        layout.push_back(std::move(block));
    }
    return layout;
}

std::unique_ptr<Collection> moved_to(const Collection& collection, std::optional<Groups> groups) {
    auto made = std::make_unique<Collection>();
    made->samples = collection.samples;
    made->lengths = collection.lengths;
    for (const Leaf& leaf : collection.leaves) {
        const Move move{layout_of(collection, leaf), groups ? grouped_layout(leaf, *groups) : single_layout(leaf, collection.samples), leaf.rank(), leaf.shapes, groups ? leaf.rule : Rule{}};
        made->leaves.push_back({leaf.path, leaf.signature, leaf.rule, moved(move, leaf.tensors), leaf.shapes});
    }
    made->groups = std::move(groups);
    return made;
}

const Collection& collection_of(const void* handle) { return *static_cast<const Collection*>(handle); }

const Groups& groups_of(const Collection& collection) {
    if (!collection.groups) refuse("collection: is not grouped");
    return *collection.groups;
}

/// The mask of a group over dimensions (B, names...), padded to `padded`.
at::Tensor mask_of(const Collection& collection, std::size_t group, const std::vector<std::string>& names, const std::vector<int64_t>& padded) {
    const std::vector<int64_t> samples = groups_of(collection).samples(group);
    std::vector<int64_t> lengths, sizes{static_cast<int64_t>(samples.size())};
    for (const int64_t sample : samples)
        for (const std::string& name : names) lengths.push_back(collection.lengths.at(name)[static_cast<std::size_t>(sample)]);
    sizes.insert(sizes.end(), padded.begin(), padded.end());
    at::Tensor mask = at::empty(sizes, at::TensorOptions(at::kBool));
    if (names.empty())
        mask.fill_(true);
    else
        sab::fill_length_mask(lengths, padded, SAB_MASK_ALL, static_cast<uint8_t*>(mask.data_ptr()));
    return mask;
}

at::Tensor mask_by_names(const Collection& collection, std::size_t group, const std::string& text) {
    const std::vector<std::string> names = split_names(text);
    std::vector<int64_t> padded;
    for (const std::string& name : names) {
        const auto known = collection.lengths.find(name);
        if (known == collection.lengths.end()) refuse("names = \"", text, "\": there is no length \"", name, "\"");
        int64_t longest = 0;
        for (const int64_t sample : groups_of(collection).samples(group)) longest = std::max(longest, known->second[static_cast<std::size_t>(sample)]);
        padded.push_back(longest);
    }
    return mask_of(collection, group, names, padded).to(collection.leaves[0].tensors[group].device());
}

at::Tensor mask_of_leaf(const Collection& collection, std::size_t group, const Leaf& leaf) {
    const at::Tensor& like = leaf.tensors[group];
    std::vector<std::string> names;
    std::vector<int64_t> padded;
    for (std::size_t d = 0; d < leaf.signature.dimensions.size(); ++d) {
        if (leaf.signature.dimensions[d].kind != Dimension::length) continue;
        names.push_back(leaf.signature.dimensions[d].name);
        padded.push_back(like.size(static_cast<int64_t>(d)));
    }
    const at::Tensor mask = mask_of(collection, group, names, padded);
    std::vector<int64_t> strides;
    int64_t next = 1;  // of the mask's lengths
    for (const Dimension& dimension : leaf.signature.dimensions) {
        if (dimension.kind == Dimension::batch)
            strides.push_back(mask.stride(0));
        else
            strides.push_back(dimension.kind == Dimension::length ? mask.stride(next++) : 0);
    }
    return mask.as_strided(like.sizes(), strides).contiguous().to(like.device());
}

const Leaf& leaf_at(const Collection& collection, std::size_t leaf) {
    if (leaf >= collection.leaves.size()) refuse("leaf = ", leaf, ": must be below the number of leaves, ", collection.leaves.size());
    return collection.leaves[leaf];
}

}  // namespace

sab_status new_collection(const sab_torch_leaf* leaves, std::size_t count, std::size_t samples, void** collection, sab_torch_message* message) {
    return guarded(message, [&] {
        Adopted adopted;
        auto made = read_leaves(leaves, count, samples, adopted);
        made->samples = samples;
        std::map<std::string, std::string> seen;  // where lengths were first
        for (std::size_t l = 0; l < count; ++l) {
            Leaf& leaf = made->leaves[l];
            const std::string name = of("leaves", l);
            std::vector<int64_t> same(leaf.rank(), -1);
            leaf.shapes.reserve(samples * leaf.rank());
            for (std::size_t i = 0; i < samples; ++i) {
                const std::string which = name + ", sample " + std::to_string(i) + ",";
                check_rank(leaf.tensors[i], leaf.rank(), which, leaf.signature, " without B");
                for (std::size_t d = 0; d < leaf.rank(); ++d) {
                    const Dimension& dimension = leaf.signature.own[d];
                    const int64_t size = leaf.tensors[i].size(static_cast<int64_t>(d));
                    leaf.shapes.push_back(size);
                    if (dimension.kind == Dimension::number && size != dimension.size) refuse(which, " has size ", size, " along dimension ", d, ": must be ", dimension.size, " by \"", leaf.signature.text, "\"");
                    if (dimension.kind == Dimension::any) check_same(same[d], size, which, d);
                    if (dimension.kind != Dimension::length) continue;
                    std::vector<int64_t>& known = made->lengths[dimension.name];
                    if (known.size() <= i) known.resize(samples, -1);
                    if (known[i] >= 0 && known[i] != size) refuse(which, " has size ", size, " along L_", dimension.name, ": must be ", known[i], ", that of ", seen[dimension.name]);
                    known[i] = size;
                    seen.emplace(dimension.name, name);
                }
            }
            for (const Dimension& dimension : leaf.signature.own)
                if (dimension.kind == Dimension::length) made->lengths[dimension.name].resize(samples);
        }
        adopted.keep();
        *collection = made.release();
    });
}

sab_status new_outputs(const void* handle, const sab_torch_leaf* leaves, std::size_t count, void** outputs, sab_torch_message* message) {
    return guarded(message, [&] {
        const Collection& from = collection_of(handle);
        const Groups& groups = groups_of(from);
        Adopted adopted;
        auto made = read_leaves(leaves, count, groups.count(), adopted);
        made->samples = from.samples;
        made->groups = groups;
        for (std::size_t l = 0; l < count; ++l) {
            Leaf& leaf = made->leaves[l];
            const std::string name = of("leaves", l);
            std::vector<int64_t> same(leaf.rank(), -1);
            leaf.shapes.resize(from.samples * leaf.rank());
            for (std::size_t g = 0; g < groups.count(); ++g) {
                const std::string which = name + ", group " + std::to_string(g) + ",";
                const std::vector<int64_t> samples = groups.samples(g);
                check_rank(leaf.tensors[g], leaf.rank() + 1, which, leaf.signature, "");
                std::size_t own = 0;
                for (std::size_t d = 0; d <= leaf.rank(); ++d) {
                    const Dimension& dimension = leaf.signature.dimensions[d];
                    const int64_t size = leaf.tensors[g].size(static_cast<int64_t>(d));
                    if (dimension.kind == Dimension::batch) {
                        if (size != static_cast<int64_t>(samples.size())) refuse(which, " has size ", size, " along B: must be the number of its samples, ", samples.size());
                        continue;
                    }
                    if (dimension.kind == Dimension::number && size != dimension.size) refuse(which, " has size ", size, " along dimension ", d, ": must be ", dimension.size, " by \"", leaf.signature.text, "\"");
                    if (dimension.kind == Dimension::any) check_same(same[own], size, which, d);
                    const std::vector<int64_t>* lengths = nullptr;
                    if (dimension.kind == Dimension::length) {
                        const auto known = from.lengths.find(dimension.name);
                        if (known == from.lengths.end()) refuse(name, ".signature = \"", leaf.signature.text, "\": the collection has no length \"", dimension.name, "\"");
                        lengths = &known->second;
                    }
                    for (const int64_t sample : samples) {
                        const auto i = static_cast<std::size_t>(sample);
                        if (lengths != nullptr && (*lengths)[i] > size)
                            refuse(which, " has size ", size, " along L_", dimension.name, ": must be at least the longest of its samples, such as ", (*lengths)[i], " of sample ", sample);
                        leaf.shapes[i * leaf.rank() + own] = lengths != nullptr ? (*lengths)[i] : size;
                    }
                    ++own;
                }
            }
            for (const Dimension& dimension : leaf.signature.own)
                if (dimension.kind == Dimension::length) {
                    const auto known = from.lengths.find(dimension.name);
                    if (known == from.lengths.end()) refuse(name, ".signature = \"", leaf.signature.text, "\": the collection has no length \"", dimension.name, "\"");
                    made->lengths.insert(*known);
                }
        }
        adopted.keep();
        *outputs = made.release();
    });
}

sab_status group_collection(const void* handle, const sab_groups* grouping, void** grouped, sab_torch_message* message) {
    return guarded(message, [&] {
        const Collection& collection = collection_of(handle);
        if (grouping->samples != collection.samples) refuse("grouping: is one of ", grouping->samples, " samples: must be one of as many as the collection has, ", collection.samples);
        Groups groups{{0}, {grouping->permutation, grouping->permutation + grouping->samples}};
        for (std::size_t g = 1; g <= grouping->groups; ++g)
            if (grouping->offsets[g] > groups.offsets.back()) groups.offsets.push_back(grouping->offsets[g]);
        *grouped = moved_to(collection, std::move(groups)).release();
    });
}

sab_status ungroup_collection(const void* handle, void** samples, sab_torch_message* message) {
    return guarded(message, [&] {
        const Collection& collection = collection_of(handle);
        groups_of(collection);
        *samples = moved_to(collection, std::nullopt).release();
    });
}

sab_status collection_lengths(const void* handle, const char* name, const int64_t** lengths, sab_torch_message* message) {
    return guarded(message, [&] {
        const auto& known = collection_of(handle).lengths;
        const auto found = known.find(name);
        if (found == known.end()) refuse("name = \"", name, "\": no dimension is L_", name);
        *lengths = found->second.data();
    });
}

void collection_info(const void* handle, sab_torch_collection_info* info) {
    const Collection& collection = collection_of(handle);
    info->samples = collection.samples;
    info->groups = collection.groups ? collection.groups->count() : 0;
    info->leaves = collection.leaves.size();
}

/// As LibTorch's own where there is room for it, else by DLPack.
static void hand_out(const at::Tensor& tensor, sab_torch_tensor* native, DLManagedTensor** dlpack) {
    if (native != nullptr)
        *reinterpret_cast<at::Tensor*>(native) = tensor;
    else
        *dlpack = at::toDLPack(tensor.detach().resolve_conj().resolve_neg());
}

sab_status collection_tensor(const void* handle, std::size_t leaf, std::size_t index, sab_torch_tensor* native, DLManagedTensor** dlpack, sab_torch_message* message) {
    return guarded(message, [&] {
        const Collection& collection = collection_of(handle);
        const auto& tensors = leaf_at(collection, leaf).tensors;
        if (index >= tensors.size()) refuse("index = ", index, ": must be below the number of ", std::string_view(collection.groups ? "groups" : "samples"), ", ", tensors.size());
        hand_out(tensors[index], native, dlpack);
    });
}

sab_status collection_mask(const void* handle, std::size_t group, const char* names, std::size_t leaf, sab_torch_tensor* native, DLManagedTensor** dlpack, sab_torch_message* message) {
    return guarded(message, [&] {
        const Collection& collection = collection_of(handle);
        const Groups& groups = groups_of(collection);
        if (group >= groups.count()) refuse("group = ", group, ": must be below the number of groups, ", groups.count());
        const at::Tensor mask = names != nullptr ? mask_by_names(collection, group, names) : mask_of_leaf(collection, group, leaf_at(collection, leaf));
        hand_out(native != nullptr ? mask : mask.view(at::kByte), native, dlpack);
    });
}

void free_collection(void* handle) { delete static_cast<Collection*>(handle); }

}  // namespace sab_torch
