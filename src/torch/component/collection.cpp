/// Collections of samples, one by one or in groups.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/error.h"
#include "group/padding.h"
#include "torch/component/internal.h"
#include "torch/component/layout.h"
#include "torch/component/signature.h"

namespace sab_torch {
namespace {

struct Leaf {
    std::string path;
    Signature signature;
    Rule rule;
    std::vector<at::Tensor> tensors;  // of samples, or of groups
    Numbers shapes;                   // of each sample
    std::size_t dimensions() const { return signature.own.size(); }
};

struct Collection {
    std::size_t samples = 0;
    std::vector<Leaf> leaves;
    std::map<std::string, std::vector<int64_t>> lengths;  // of each sample
    std::shared_ptr<const Groups> groups;                 // null: it is not grouped
};

std::string of(const char* what, std::size_t number) {
    return std::string(what) + "[" + std::to_string(number) + "]";
}

using sab::no_value, sab::refuse_argument, sab::Quoted;

std::string shown(at::IntArrayRef sizes) {
    std::string out = "(";
    for (std::size_t d = 0; d < sizes.size(); ++d)
        out += (d > 0 ? ", " : "") + std::to_string(sizes[d]);
    return out + ")";
}

const at::Tensor& native(const sab_torch_tensor* tensor) {
    return *reinterpret_cast<const at::Tensor*>(tensor);
}

void check_strided(const at::Tensor& tensor, const std::string& which) {
    if (!tensor.defined()) refuse_argument(which, no_value, "is an undefined tensor");
    if (tensor.layout() != at::kStrided || tensor.is_quantized())
        refuse_argument(which, no_value,
                        "is sparse or quantized: must be strided, of plain numbers");
}

std::vector<at::Tensor> read_tensors(const sab_torch_leaf& given, std::size_t count,
                                     const std::string& name) {
    if (given.tensors == nullptr && count > 0) sab::refuse_null(name + ".tensors");
    std::vector<at::Tensor> tensors;
    tensors.reserve(count);
    for (std::size_t i = 0; i < count; ++i) {
        const auto which = [&] { return name + of(".tensors", i); };
        if (given.tensors[i] == nullptr) sab::refuse_null(which());
        tensors.push_back(native(given.tensors[i]));
        const at::Tensor &tensor = tensors.back(), &first = tensors.front();
        if (!tensor.defined() || tensor.layout() != at::kStrided || tensor.is_quantized())
            check_strided(tensor, which());
        if (tensor.scalar_type() != first.scalar_type())
            refuse_argument(which(), no_value, "has dtype ", c10::toString(tensor.scalar_type()),
                            ": must be that of the first, ", c10::toString(first.scalar_type()));
        if (tensor.device() != first.device())
            refuse_argument(which(), no_value, "is on ", tensor.device().str(),
                            ": must be where the first is, on ", first.device().str());
    }
    return tensors;
}

Rule read_rule(const sab_torch_leaf& given, const Leaf& leaf, const std::string& name) {
    Rule rule;
    rule.padding = given.padding;
    if (given.padding != SAB_PADDING_CONSTANT && given.padding != SAB_PADDING_REPEAT)
        refuse_argument(name + ".padding", given.padding,
                        "must be SAB_PADDING_CONSTANT or SAB_PADDING_REPEAT");
    if (leaf.tensors.empty()) return rule;
    const at::Tensor& like = leaf.tensors[0];
    if (given.value_tensor == nullptr) {
        if (given.value == 0) return rule;
        if (at::isIntegralType(like.scalar_type(), true)) {
            const at::Tensor probe = at::full({}, given.value, at::TensorOptions(at::kDouble));
            if (!std::isfinite(given.value) ||
                probe.to(like.scalar_type()).to(at::kDouble).item<double>() != given.value)
                refuse_argument(name + ".value", given.value, "cannot be a number of dtype ",
                                c10::toString(like.scalar_type()));
        }
        rule.value =
            at::full({}, given.value, at::TensorOptions(at::kDouble)).to(like.scalar_type());
        return rule;
    }
    rule.value = native(given.value_tensor);
    const std::string which = name + ".value_tensor";
    check_strided(rule.value, which);
    if (rule.value.scalar_type() != like.scalar_type())
        refuse_argument(which, no_value, "has dtype ", c10::toString(rule.value.scalar_type()),
                        ": must be that of the samples, ", c10::toString(like.scalar_type()));
    if (rule.value.device() != like.device())
        refuse_argument(which, no_value, "is on ", rule.value.device().str(),
                        ": must be where the samples are, on ", like.device().str());
    std::vector<int64_t> numbers;
    for (std::size_t d = 0; d < leaf.dimensions(); ++d) {
        if (leaf.signature.own[d].kind != Dimension::number) continue;
        numbers.push_back(leaf.signature.own[d].size);
        rule.value_dims |= uint64_t{1} << d;
    }
    if (rule.value.dim() == 0)
        rule.value_dims = 0;
    else if (rule.value.sizes() != at::IntArrayRef(numbers))
        refuse_argument(which, no_value, "has shape ", shown(rule.value.sizes()),
                        ": must have that of the numbers in \"", leaf.signature.text, "\", ",
                        shown(numbers));
    return rule;
}

/// Checks what does not depend on the sample or group; `same` has the sizes that are the same in
/// all. `which()` says which tensor it is.
template <class Which>
void check_sizes(const at::Tensor& tensor, const Signature& signature,
                 const std::vector<Dimension>& dimensions, std::vector<int64_t>& same,
                 const Which& which) {
    if (static_cast<std::size_t>(tensor.dim()) != dimensions.size())
        refuse_argument(which(), no_value, "has shape ", shown(tensor.sizes()), ": must have ",
                        dimensions.size(), " dimensions, those of \"", signature.text, "\"",
                        dimensions.size() < signature.dimensions.size() ? " without B" : "");
    same.resize(dimensions.size(), -1);
    for (std::size_t d = 0; d < dimensions.size(); ++d) {
        const int64_t size = tensor.sizes()[d];
        if (dimensions[d].kind == Dimension::number && size != dimensions[d].size)
            refuse_argument(which(), no_value, "has size ", size, " along dimension ", d,
                            ": must be ", dimensions[d].size, " by \"", signature.text, "\"");
        if (dimensions[d].kind != Dimension::any) continue;
        if (same[d] >= 0 && size != same[d])
            refuse_argument(which(), no_value, "has size ", size, " along dimension ", d,
                            ": must be ", same[d], ", as before");
        same[d] = size;
    }
}

/// Paths of tensors: all differ, and none leads through another.
class Paths {
public:
    void add(const std::string& path, const std::string& name) {
        for (std::size_t end = path.find('/'); end != path.npos; end = path.find('/', end + 1))
            if (end > 0) refuse_beside(all_.find(path.substr(0, end)), path, name);
        refuse_beside(all_.find(path), path, name);
        refuse_beside(path.empty() ? all_.begin() : all_.find(""), path, name);
        const auto below = all_.lower_bound(path + "/");
        if (below != all_.end() && below->compare(0, path.size() + 1, path + "/") == 0)
            refuse_beside(below, path, name);
        all_.insert(path);
    }

private:
    void refuse_beside(std::set<std::string>::const_iterator other, const std::string& path,
                       const std::string& name) const {
        if (other != all_.end())
            refuse_argument(name + ".path", Quoted{path}, "cannot stand beside \"", *other, "\"");
    }
    std::set<std::string> all_;
};

std::unique_ptr<Collection> read_leaves(const sab_torch_leaf* given, std::size_t count,
                                        std::size_t tensors) {
    auto made = std::make_unique<Collection>();
    Paths paths;
    for (std::size_t l = 0; l < count; ++l) {
        const std::string name = of("leaves", l);
        Leaf leaf;
        leaf.path = given[l].path == nullptr ? "" : given[l].path;
        paths.add(leaf.path, name);
        if (given[l].signature == nullptr) sab::refuse_null(name + ".signature");
        leaf.signature = parse_signature(given[l].signature, name + ".signature");
        leaf.tensors = read_tensors(given[l], tensors, name);
        leaf.rule = read_rule(given[l], leaf, name);
        made->leaves.push_back(std::move(leaf));
    }
    return made;
}

/// As samples lie in the groups, or where there are none one by one.
Layout layout_of(const Leaf& leaf, const std::shared_ptr<const Groups>& groups, std::size_t samples,
                 Numbers shapes) {
    return {groups, leaf.signature.batch_dim, leaf.dimensions() + (groups ? 1 : 0),
            std::move(shapes), groups ? groups->count() : samples};
}

/// Of the tensors that a collection has.
Numbers present_shapes(const Collection& collection, const Leaf& leaf) {
    if (!collection.groups) return leaf.shapes;
    std::vector<int64_t> shapes;
    for (const at::Tensor& tensor : leaf.tensors)
        shapes.insert(shapes.end(), tensor.sizes().begin(), tensor.sizes().end());
    return std::make_shared<const std::vector<int64_t>>(std::move(shapes));
}

/// The least that hold the groups.
Numbers padded_shapes(const Leaf& leaf, const Groups& groups) {
    const std::size_t dimensions = leaf.dimensions();
    std::vector<int64_t> shapes, longest;
    for (std::size_t g = 0; g < groups.count(); ++g) {
        longest.assign(dimensions, 0);
        for (const int64_t sample : groups.samples(g))
            for (std::size_t d = 0; d < dimensions; ++d)
                longest[d] = std::max(
                    longest[d], (*leaf.shapes)[static_cast<std::size_t>(sample) * dimensions + d]);
        longest.insert(longest.begin() + static_cast<std::ptrdiff_t>(leaf.signature.batch_dim),
                       static_cast<int64_t>(groups.samples(g).size()));
        shapes.insert(shapes.end(), longest.begin(), longest.end());
    }
    return std::make_shared<const std::vector<int64_t>>(std::move(shapes));
}

std::unique_ptr<Collection> moved_to(const Collection& collection,
                                     const std::shared_ptr<const Groups>& groups) {
    auto made = std::make_unique<Collection>();
    made->samples = collection.samples;
    made->lengths = collection.lengths;
    made->groups = groups;
    for (const Leaf& leaf : collection.leaves) {
        const LayoutChange change{layout_of(leaf, collection.groups, collection.samples,
                                            present_shapes(collection, leaf)),
                                  layout_of(leaf, groups, collection.samples,
                                            groups ? padded_shapes(leaf, *groups) : leaf.shapes),
                                  collection.samples,
                                  leaf.dimensions(),
                                  leaf.shapes,
                                  groups ? leaf.rule : Rule{}};
        made->leaves.push_back(
            {leaf.path, leaf.signature, leaf.rule, with_layout(change, leaf.tensors), leaf.shapes});
    }
    return made;
}

const Collection& collection_of(const void* handle) {
    return *static_cast<const Collection*>(handle);
}

const Groups& groups_of(const Collection& collection) {
    if (!collection.groups) refuse_argument("collection", no_value, "is not grouped");
    return *collection.groups;
}

/// The mask of a group over dimensions (B, names...), padded to `padded`.
at::Tensor mask_of(const Collection& collection, std::size_t group,
                   const std::vector<std::string>& names, const std::vector<int64_t>& padded) {
    const std::span<const int64_t> samples = groups_of(collection).samples(group);
    std::vector<int64_t> lengths(samples.size() * names.size()),
        sizes{static_cast<int64_t>(samples.size())};
    for (std::size_t n = 0; n < names.size(); ++n) {
        const std::vector<int64_t>& own = collection.lengths.at(names[n]);
        for (std::size_t slot = 0; slot < samples.size(); ++slot)
            lengths[slot * names.size() + n] = own[static_cast<std::size_t>(samples[slot])];
    }
    sizes.insert(sizes.end(), padded.begin(), padded.end());
    at::Tensor mask = at::empty(sizes, at::TensorOptions(at::kBool));
    if (names.empty())
        mask.fill_(true);
    else
        sab::fill_length_mask(lengths.data(), samples.size(), padded, SAB_MASK_ALL,
                              static_cast<uint8_t*>(mask.data_ptr()));
    return mask;
}

at::Tensor mask_by_names(const Collection& collection, std::size_t group, const std::string& text) {
    const std::vector<std::string> names = split_names(text);
    std::vector<int64_t> padded;
    for (const std::string& name : names) {
        const auto known = collection.lengths.find(name);
        if (known == collection.lengths.end())
            refuse_argument("names", Quoted{text}, "there is no length \"", name, "\"");
        int64_t longest = 0;
        for (const int64_t sample : groups_of(collection).samples(group))
            longest = std::max(longest, known->second[static_cast<std::size_t>(sample)]);
        padded.push_back(longest);
    }
    return mask_of(collection, group, names, padded)
        .to(collection.leaves[0].tensors[group].device());
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
    sab::check(leaf < collection.leaves.size(), "leaf", leaf,
               "must be below the number of leaves, ", collection.leaves.size());
    return collection.leaves[leaf];
}

}  // namespace

sab_status new_collection(const sab_torch_leaf* leaves, std::size_t count, std::size_t samples,
                          void** collection, sab_torch_message* message) {
    return guarded(message, [&] {
        auto made = read_leaves(leaves, count, samples);
        made->samples = samples;
        std::map<std::string, std::string> seen;  // where lengths were first
        for (std::size_t l = 0; l < count; ++l) {
            Leaf& leaf = made->leaves[l];
            const std::string name = of("leaves", l);
            std::vector<std::vector<int64_t>*> lengths;  // of dimensions that are any
            for (const Dimension& dimension : leaf.signature.own) {
                lengths.push_back(
                    dimension.kind == Dimension::length
                        ? &made->lengths.try_emplace(dimension.name, samples, -1).first->second
                        : nullptr);
                if (lengths.back() != nullptr) seen.emplace(dimension.name, name);
            }
            std::vector<int64_t> same, shapes;
            shapes.reserve(samples * leaf.dimensions());
            for (std::size_t i = 0; i < samples; ++i) {
                const at::Tensor& tensor = leaf.tensors[i];
                const auto which = [&] { return name + of(".tensors", i); };
                check_sizes(tensor, leaf.signature, leaf.signature.own, same, which);
                for (std::size_t d = 0; d < leaf.dimensions(); ++d) {
                    const int64_t size = tensor.sizes()[d];
                    shapes.push_back(size);
                    if (lengths[d] == nullptr) continue;
                    int64_t& known = (*lengths[d])[i];
                    if (known >= 0 && known != size) {
                        const std::string& of_name = leaf.signature.own[d].name;
                        refuse_argument(which(), no_value, "has size ", size, " along L_", of_name,
                                        ": must be ", known, ", that of ", seen[of_name]);
                    }
                    known = size;
                }
            }
            leaf.shapes = std::make_shared<const std::vector<int64_t>>(std::move(shapes));
        }
        *collection = made.release();
    });
}

sab_status new_outputs(const void* handle, const sab_torch_leaf* leaves, std::size_t count,
                       void** outputs, sab_torch_message* message) {
    return guarded(message, [&] {
        const Collection& from = collection_of(handle);
        const Groups& groups = groups_of(from);
        auto made = read_leaves(leaves, count, groups.count());
        made->samples = from.samples;
        made->groups = from.groups;
        for (std::size_t l = 0; l < count; ++l) {
            Leaf& leaf = made->leaves[l];
            const std::string name = of("leaves", l);
            std::vector<const std::vector<int64_t>*> lengths;  // of dimensions that are any
            for (const Dimension& dimension : leaf.signature.dimensions) {
                lengths.push_back(nullptr);
                if (dimension.kind != Dimension::length) continue;
                const auto known = from.lengths.find(dimension.name);
                if (known == from.lengths.end())
                    refuse_argument(name + ".signature", Quoted{leaf.signature.text},
                                    "the collection has no length \"", dimension.name, "\"");
                lengths.back() = &made->lengths.insert(*known).first->second;
            }
            std::vector<int64_t> same, shapes(from.samples * leaf.dimensions());
            for (std::size_t g = 0; g < groups.count(); ++g) {
                const at::Tensor& tensor = leaf.tensors[g];
                const auto which = [&] { return name + of(".tensors", g); };
                const std::span<const int64_t> samples = groups.samples(g);
                check_sizes(tensor, leaf.signature, leaf.signature.dimensions, same, which);
                for (std::size_t d = 0, own = 0; d <= leaf.dimensions(); ++d) {
                    const int64_t size = tensor.sizes()[d];
                    if (d == leaf.signature.batch_dim) {
                        if (size != static_cast<int64_t>(samples.size()))
                            refuse_argument(
                                which(), no_value, "has size ", size,
                                " along B: must be the number of samples of its group, ",
                                samples.size());
                        continue;
                    }
                    for (const int64_t sample : samples) {
                        const auto i = static_cast<std::size_t>(sample);
                        const int64_t length = lengths[d] != nullptr ? (*lengths[d])[i] : size;
                        if (length > size)
                            refuse_argument(
                                which(), no_value, "has size ", size, " along L_",
                                leaf.signature.dimensions[d].name,
                                ": must be at least the longest of its samples, such as ", length,
                                " of sample ", sample);
                        shapes[i * leaf.dimensions() + own] = length;
                    }
                    ++own;
                }
            }
            leaf.shapes = std::make_shared<const std::vector<int64_t>>(std::move(shapes));
        }
        *outputs = made.release();
    });
}

sab_status group_collection(const void* handle, const sab_grouping_view* grouping, void** grouped,
                            sab_torch_message* message) {
    return guarded(message, [&] {
        const Collection& collection = collection_of(handle);
        if (grouping->samples != collection.samples)
            refuse_argument("grouping", no_value, "is one of ", grouping->samples,
                            " samples: must be one of as many as the collection has, ",
                            collection.samples);
        Groups groups{{0}, {grouping->permutation, grouping->permutation + grouping->samples}};
        for (std::size_t g = 1; g <= grouping->groups; ++g)
            if (grouping->offsets[g] > groups.offsets.back())
                groups.offsets.push_back(grouping->offsets[g]);
        *grouped =
            moved_to(collection, std::make_shared<const Groups>(std::move(groups))).release();
    });
}

sab_status ungroup_collection(const void* handle, void** samples, sab_torch_message* message) {
    return guarded(message, [&] {
        const Collection& collection = collection_of(handle);
        groups_of(collection);
        *samples = moved_to(collection, nullptr).release();
    });
}

sab_status collection_lengths(const void* handle, const char* name, const int64_t** lengths,
                              sab_torch_message* message) {
    return guarded(message, [&] {
        const auto& known = collection_of(handle).lengths;
        const auto found = known.find(name);
        if (found == known.end()) refuse_argument("name", Quoted{name}, "no dimension is L_", name);
        *lengths = found->second.data();
    });
}

void collection_info(const void* handle, sab_torch_collection_info* info) {
    const Collection& collection = collection_of(handle);
    info->samples = collection.samples;
    info->groups = collection.groups ? collection.groups->count() : 0;
    info->leaves = collection.leaves.size();
}

sab_status collection_tensor(const void* handle, std::size_t leaf, std::size_t index,
                             sab_torch_tensor* tensor, sab_torch_message* message) {
    return guarded(message, [&] {
        const Collection& collection = collection_of(handle);
        const auto& tensors = leaf_at(collection, leaf).tensors;
        sab::check(index < tensors.size(), "index", index, "must be below the number of ",
                   collection.groups ? "groups" : "samples", ", ", tensors.size());
        *reinterpret_cast<at::Tensor*>(tensor) = tensors[index];
    });
}

sab_status collection_mask(const void* handle, std::size_t group, const char* names,
                           std::size_t leaf, sab_torch_tensor* mask, sab_torch_message* message) {
    return guarded(message, [&] {
        const Collection& collection = collection_of(handle);
        const Groups& groups = groups_of(collection);
        sab::check(group < groups.count(), "group", group, "must be below the number of groups, ",
                   groups.count());
        *reinterpret_cast<at::Tensor*>(mask) =
            names != nullptr ? mask_by_names(collection, group, names)
                             : mask_of_leaf(collection, group, leaf_at(collection, leaf));
    });
}

void free_collection(void* handle) {
    delete static_cast<Collection*>(handle);
}

}  // namespace sab_torch
