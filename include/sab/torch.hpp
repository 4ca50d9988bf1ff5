/** @file torch.hpp
 * Collections for C++ programs with LibTorch: samples of nested tensors are grouped, padded and
 * separated again, with their gradients.
 *
 * This is a thin C++17 layer over sab/torch.h. It is compiled with the program and the program's
 * own LibTorch, which must be the one that the component was built for.
 *
 *     // samples: std::vector of tensors, or of nested dictionaries and tuples of tensors
 *     sab_torch_open(nullptr, nullptr);
 *     const sab::Collection batch(samples, "(B, L_sequence)");
 *     const sab::Collection outputs =
 *         batch.group(batch.grouping({{"sequence", {16, 64}}}))
 *             .apply([&](const c10::IValue& x, const at::Tensor& mask) {
 *                 return model(x.toTensor(), mask);
 *             }, "(B, M_hidden)", "sequence");
 *     // all: one tensor, in the order of the samples
 *     const at::Tensor all = outputs.group(sab::Grouping::uni(samples.size()))[0].toTensor();
 *     loss(all).backward();
 *
 * Failures of libsab are thrown as sab::Error. Values that are not nested as their signature says
 * are refused with std::invalid_argument. Objects are immutable, cheap to copy, and share their
 * data. Threads may share them as they may share LibTorch's tensors. An object that was moved from
 * can only be assigned to or destroyed.
 */
#ifndef SAB_TORCH_HPP
#define SAB_TORCH_HPP

#include <ATen/core/Dict.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>
#include <sab.hpp>

#include <cmath>
#include <initializer_list>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace sab {
inline namespace cpp {  // as in sab.hpp

/// A nested dictionary: of tensors, of signatures, of paddings.
inline c10::IValue dictionary(std::initializer_list<std::pair<std::string, c10::IValue>> items) {
    c10::impl::GenericDict made(c10::StringType::get(), c10::AnyType::get());
    for (const auto &item : items) made.insert(item.first, item.second);
    return made;
}

/// A nested tuple.
inline c10::IValue tuple(std::vector<c10::IValue> items) {
    return c10::ivalue::Tuple::create(std::move(items));
}

/// Samples in groups; see sab_grouping.
class Grouping {
public:
    /// All in one group.
    static Grouping uni(std::size_t samples) { return consecutive({samples}); }
    /// By the number of each sample's group.
    static Grouping predefined(const std::vector<int64_t> &group_of, std::size_t groups) {
        sab_grouping *made = nullptr;
        check(sab_grouping_predefined_new(group_of.data(), group_of.size(), groups, &made));
        return Grouping(made);
    }
    /// Consecutive samples, so many in each group.
    static Grouping consecutive(const std::vector<uint64_t> &counts) {
        sab_grouping *made = nullptr;
        check(sab_grouping_partition_new(nullptr, counts.data(), counts.size(), &made));
        return Grouping(made);
    }
    /// Takes over a handle, such as that of sab_grouping_thresholds_new() or
    /// sab_grouping_partition_new().
    explicit Grouping(sab_grouping *handle) : handle_(handle, sab_grouping_free) {}

    const sab_grouping *handle() const { return handle_.get(); }
    /// The arrays; they live as long as this grouping.
    sab_grouping_view groups() const {
        Sized<sab_grouping_view> groups;
        check(sab_grouping_get_view(handle(), &groups));
        return groups;
    }

private:
    std::shared_ptr<sab_grouping> handle_;
};

/// Samples made of one or several tensors; see sab_torch_collection.
class Collection {
public:
    /** Samples, not grouped.
     *
     *  @param samples    each a tensor, or a dictionary (string keys) or tuple of such, nested at
     * will
     *  @param signature  a string such as "(B, L_residue, 3)", nested as the samples are; keys of
     * samples that it lacks are left out
     *  @param padding    nested alike, as far as given: a number, a tensor over the dimensions that
     * are numbers, or "repeat"; zero by default. Holds for all below it
     */
    Collection(const std::vector<c10::IValue> &samples, const c10::IValue &signature,
               const c10::IValue &padding = {})
        : signature_(signature.deepcopy()) {
        make(samples, padding,
             [&](const sab_torch_leaf *leaves, std::size_t count, sab_torch_collection **made) {
                 return sab_torch_collection_new(leaves, count, samples.size(), made);
             });
    }
    Collection(const std::vector<at::Tensor> &samples, const c10::IValue &signature,
               const c10::IValue &padding = {})
        : Collection(std::vector<c10::IValue>(samples.begin(), samples.end()), signature, padding) {
    }

    std::size_t samples() const { return info().samples; }
    /// 0 when it is not grouped.
    std::size_t groups() const { return info().groups; }
    /// Number of what operator[] gives.
    std::size_t size() const { return is_grouped_ ? groups() : samples(); }

    /// A grouping by lengths: names and their thresholds.
    Grouping grouping(
        const std::vector<std::pair<std::string, std::vector<double>>> &thresholds) const {
        std::vector<std::unique_ptr<sab_sizes, void (*)(sab_sizes *)>> lengths;
        std::vector<sab_grouping_dimension> dimensions;
        for (const auto &each : thresholds) {
            sab_sizes *made = nullptr;
            check(sab_torch_collection_lengths_new(handle_.get(), each.first.c_str(), &made));
            lengths.emplace_back(made, sab_sizes_free);
            dimensions.push_back({made, each.second.data(), each.second.size()});
        }
        sab_grouping *made = nullptr;
        check(sab_grouping_thresholds_new(dimensions.data(), dimensions.size(), &made));
        return Grouping(made);
    }

    /// In padded groups; grouped anew where it is grouped.
    Collection group(const Grouping &grouping) const {
        sab_torch_collection *made = nullptr;
        check(sab_torch_collection_grouped_new(handle_.get(), grouping.handle(), &made));
        return Collection(made, signature_, true);
    }

    /// One by one, without padding, in the original order.
    Collection ungroup() const {
        sab_torch_collection *made = nullptr;
        check(sab_torch_collection_ungrouped_new(handle_.get(), &made));
        return Collection(made, signature_, false);
    }

    /// A sample, or a group, nested as the signature is.
    c10::IValue operator[](std::size_t index) const {
        std::size_t leaf = 0;
        return build(signature_, [&] {
            at::Tensor tensor;
            check(sab_torch_collection_get_tensor(handle_.get(), leaf++, index,
                                                  reinterpret_cast<sab_torch_tensor *>(&tensor)));
            return c10::IValue(tensor);
        });
    }

    /// True where a place of a group is within all the lengths named, such as "residue" or
    /// "residue, atom": of shape (B, residue, atom).
    at::Tensor mask(std::size_t group, const std::string &names) const {
        return mask(group, names.c_str(), 0);
    }

    /// The masks of all tensors of a group, each of its tensor's shape, nested as they are.
    c10::IValue masks(std::size_t group) const {
        std::size_t leaf = 0;
        return build(signature_, [&] { return c10::IValue(mask(group, nullptr, leaf++)); });
    }

    /** What a model makes of the groups, one after another; grouped as this is.
     *
     *  @param model      called with each group; gives tensors, nested as `signature` is, whose
     * lengths are named as those of this collection
     *  @param signature  of what it gives
     *  @param padding    for the outputs, when they are grouped anew
     */
    template <class Model, class = decltype(std::declval<Model>()(std::declval<c10::IValue>()))>
    Collection apply(Model &&model, const c10::IValue &signature,
                     const c10::IValue &padding = {}) const {
        return outputs(
            of_groups([&](std::size_t group) { return c10::IValue(model((*this)[group])); }),
            signature, padding);
    }

    /// The same with a mask of the lengths named, see mask(), as the model's second argument.
    template <class Model, class = decltype(std::declval<Model>()(std::declval<c10::IValue>(),
                                                                  std::declval<at::Tensor>()))>
    Collection apply(Model &&model, const c10::IValue &signature, const std::string &names,
                     const c10::IValue &padding = {}) const {
        return outputs(of_groups([&](std::size_t group) {
                           return c10::IValue(model((*this)[group], mask(group, names)));
                       }),
                       signature, padding);
    }

    /// The same of what was made of each group outside.
    Collection outputs(const std::vector<c10::IValue> &values, const c10::IValue &signature,
                       const c10::IValue &padding = {}) const {
        if (values.size() != groups())
            throw std::invalid_argument("there are " + std::to_string(values.size()) +
                                        " values for " + std::to_string(groups()) + " groups");
        Collection made(nullptr, signature.deepcopy(), true);
        made.make(
            values, padding,
            [&](const sab_torch_leaf *leaves, std::size_t count, sab_torch_collection **outputs) {
                return sab_torch_collection_outputs_new(handle_.get(), leaves, count, outputs);
            });
        return made;
    }

    const sab_torch_collection *handle() const { return handle_.get(); }

private:
    Collection(sab_torch_collection *handle, c10::IValue signature, bool is_grouped)
        : handle_(handle, sab_torch_collection_free),
          signature_(std::move(signature)),
          is_grouped_(is_grouped) {}

    struct Leaf {
        std::string path, signature;
        std::vector<at::Tensor> tensors;
        std::vector<sab_torch_tensor *> pointers;
        c10::IValue padding;
        at::Tensor value;
    };

    sab_torch_collection_info info() const {
        Sized<sab_torch_collection_info> info;
        check(sab_torch_collection_get_info(handle_.get(), &info));
        return info;
    }

    at::Tensor mask(std::size_t group, const char *names, std::size_t leaf) const {
        at::Tensor made;
        check(sab_torch_collection_get_mask(handle_.get(), group, names, leaf,
                                            reinterpret_cast<sab_torch_tensor *>(&made)));
        return made;
    }

    static std::string below(const std::string &path, const std::string &key) {
        return path.empty() ? key : path + "/" + key;
    }

    /// None where a dictionary has no such key.
    static c10::IValue member(const c10::IValue &dictionary, const c10::IValue &key) {
        const auto items = dictionary.toGenericDict();
        const auto found = items.find(key);
        return found == items.end() ? c10::IValue() : c10::IValue(found->value());
    }

    /// Calls `visit(path, signature, values, padding)` for each string of the signature, with what
    /// stands there in each of `values`.
    template <class Visit>
    static void walk(const std::string &path, const c10::IValue &signature,
                     const std::vector<c10::IValue> &values, const c10::IValue &padding,
                     Visit &&visit) {
        if (signature.isString()) {
            visit(path, signature.toStringRef(), values, padding);
            return;
        }
        const auto descend = [&](const std::string &key, const c10::IValue &inner, auto &&select,
                                 const c10::IValue &inner_padding) {
            std::vector<c10::IValue> members;
            members.reserve(values.size());
            for (const c10::IValue &value : values) members.push_back(select(value));
            walk(below(path, key), inner, members, inner_padding, visit);
        };
        if (signature.isGenericDict()) {
            for (const auto &item : signature.toGenericDict()) {
                if (!item.key().isString())
                    throw std::invalid_argument("\"" + path +
                                                "\" of the signature must have strings as keys");
                const c10::IValue key = item.key();
                const std::string &name = key.toStringRef();
                descend(
                    name, item.value(),
                    [&](const c10::IValue &value) {
                        const c10::IValue found =
                            value.isGenericDict() ? member(value, key) : c10::IValue();
                        if (found.isNone())
                            throw std::invalid_argument(
                                "\"" + below(path, name) +
                                "\" is in the signature, but not in every value");
                        return found;
                    },
                    padding.isGenericDict() ? member(padding, key) : padding);
            }
        } else if (signature.isTuple()) {
            const auto elements = signature.toTuple()->elements().vec();
            if (padding.isTuple() && padding.toTuple()->elements().size() != elements.size())
                throw std::invalid_argument(
                    "\"" + path + "\": the padding is a tuple of another size than the signature");
            for (std::size_t i = 0; i < elements.size(); ++i)
                descend(
                    std::to_string(i), elements[i],
                    [&](const c10::IValue &value) {
                        if (!value.isTuple() ||
                            value.toTuple()->elements().size() != elements.size())
                            throw std::invalid_argument("\"" + path + "\" must be a tuple of " +
                                                        std::to_string(elements.size()) +
                                                        ", as in the signature");
                        return value.toTuple()->elements()[i];
                    },
                    padding.isTuple() ? padding.toTuple()->elements()[i] : padding);
        } else {
            throw std::invalid_argument(
                "\"" + path + "\" of the signature must be a string, a dictionary or a tuple");
        }
    }

    template <class Next>
    static c10::IValue build(const c10::IValue &signature, Next &&next) {
        if (signature.isString()) return next();
        if (signature.isGenericDict()) {
            c10::impl::GenericDict made(c10::StringType::get(), c10::AnyType::get());
            for (const auto &item : signature.toGenericDict())
                made.insert(item.key(), build(item.value(), next));
            return made;
        }
        std::vector<c10::IValue> items;
        for (const c10::IValue &item : signature.toTuple()->elements())
            items.push_back(build(item, next));
        return c10::ivalue::Tuple::create(std::move(items));
    }

    template <class New>
    void make(const std::vector<c10::IValue> &values, const c10::IValue &padding, New &&make_new) {
        std::vector<Leaf> leaves;
        walk("", signature_, values, padding,
             [&](const std::string &path, const std::string &signature,
                 const std::vector<c10::IValue> &here, const c10::IValue &rule) {
                 Leaf leaf{path, signature, {}, {}, rule, {}};
                 for (const c10::IValue &value : here) {
                     if (!value.isTensor())
                         throw std::invalid_argument("\"" + path + "\" must be a tensor");
                     leaf.tensors.push_back(value.toTensor());
                 }
                 leaves.push_back(std::move(leaf));
             });
        if (leaves.empty()) throw std::invalid_argument("the signature has no tensors");
        std::vector<sab_torch_leaf> given;
        for (Leaf &leaf : leaves) {
            for (at::Tensor &tensor : leaf.tensors)
                leaf.pointers.push_back(reinterpret_cast<sab_torch_tensor *>(&tensor));
            Sized<sab_torch_leaf> next;
            next.path = leaf.path.c_str();
            next.signature = leaf.signature.c_str();
            next.tensors = leaf.pointers.data();
            if (leaf.padding.isTensor()) {
                leaf.value = leaf.padding.toTensor();
                next.value_tensor = reinterpret_cast<sab_torch_tensor *>(&leaf.value);
            } else if (leaf.padding.isString() && leaf.padding.toStringRef() == "repeat") {
                next.padding = SAB_PADDING_REPEAT;
            } else if (leaf.padding.isDouble() || leaf.padding.isInt()) {
                next.value = leaf.padding.isDouble() ? leaf.padding.toDouble()
                                                     : static_cast<double>(leaf.padding.toInt());
                if (leaf.padding.isInt() && std::abs(next.value) >= 9007199254740992.0)
                    throw std::invalid_argument(
                        "the padding of \"" + leaf.path +
                        "\" is a whole number of 2^53 or more: must be given as a tensor");
            } else if (!leaf.padding.isNone()) {
                throw std::invalid_argument("the padding of \"" + leaf.path +
                                            "\" must be a number, a tensor or \"repeat\"");
            }
            given.push_back(next);
        }
        sab_torch_collection *made = nullptr;
        check(make_new(given.data(), given.size(), &made));
        handle_.reset(made, sab_torch_collection_free);
    }

    template <class Call>
    std::vector<c10::IValue> of_groups(Call &&call) const {
        std::vector<c10::IValue> values;
        const std::size_t count = groups();
        for (std::size_t group = 0; group < count; ++group) values.push_back(call(group));
        return values;
    }

    std::shared_ptr<sab_torch_collection> handle_;
    c10::IValue signature_;
    bool is_grouped_ = false;
};

}  // namespace cpp
}  // namespace sab

#endif
