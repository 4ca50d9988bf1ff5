/** @file torch_optimizer.hpp
 * Steps of LibTorch's optimizers that update many small parameters as one. C++17. It uses the
 * program's own LibTorch and needs no other file of libsab.
 *
 *     torch::optim::Adam adam(model->parameters(), torch::optim::AdamOptions(1e-3));
 *     sab::FusedOptimizer fused(adam);
 *     for (...) {
 *         fused.zero_grad();
 *         loss(batch).backward();
 *         fused.step();
 *     }
 *     torch::save(adam, "adam.pt");                     // as without it
 */
#ifndef SAB_TORCH_OPTIMIZER_HPP
#define SAB_TORCH_OPTIMIZER_HPP

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/optimizer.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <sstream>
#include <string>
#include <type_traits>
#include <typeinfo>
#include <unordered_map>
#include <utility>
#include <vector>

namespace sab {

/** A faster step for an optimizer. Its results equal those of the optimizer's own step bit for bit.
 *
 * Small parameters of a group are placed end to end in memory if they are contiguous, of one type
 * and on one device. Small means up to 4,096 elements on a CPU and 1,048,576 on a GPU. The
 * optimizer's own step then runs on these stretches instead. Groups, options and the state of each
 * parameter stay with the optimizer. So it can be saved, loaded, given new groups, or stepped
 * itself at any time.
 *
 * Adam, AdamW, SGD, RMSprop and Adagrad are fused. Other optimizers take their own step. So do
 * these parameters of fused optimizers:
 *
 * - large parameters, and parameters without dimensions,
 * - parameters that are not contiguous, sparse, complex, or have a sparse gradient,
 * - on a CPU, parameters of half precision, which rounds differently at the end of a tensor,
 * - parameters that overlap others or are in several groups.
 *
 * Parameters without a gradient are skipped, with their state. A parameter is not moved if another
 * tensor uses its memory, or if it came with memory of its own (from_blob).
 *
 * Ownership: refers to the optimizer, which must outlive it. Parameters and state stay valid when
 * this object is destroyed. Threads: those that the optimizer's step allows.
 */
class FusedOptimizer {
public:
    using Optimizer = torch::optim::Optimizer;

    /** @param optimizer  belongs to the caller
     *  @param flatten    true: place parameters end to end, also those that are added later. false:
     *                    move none, and fuse only those that are end to end already */
    explicit FusedOptimizer(Optimizer &optimizer, bool flatten = true)
        : optimizer_(optimizer), flatten_(flatten), kind_(kind_of(optimizer)) {
        if (!kind_.make) return;
        for (auto &group : optimizer_.param_groups()) lay(group.params());
    }
    FusedOptimizer(const FusedOptimizer &) = delete;
    FusedOptimizer &operator=(const FusedOptimizer &) = delete;

    /** The optimizer's. */
    void zero_grad() { optimizer_.zero_grad(); }

    /** A step.
     *
     *  @param closure  as the optimizer's own step takes it
     *  @return what the closure did */
    at::Tensor step(Optimizer::LossClosure closure = nullptr) {
        if (!kind_.make || !fused_) return optimizer_.step(std::move(closure));
        at::Tensor loss;
        if (closure) {
            c10::AutoGradMode with_gradients(true);
            loss = closure();
        }
        Step in_place(*this);
        at::Tensor result = closure ? optimizer_.step([&] { return loss; }) : optimizer_.step();
        in_place.finish();
        return result;
    }

    /** Gives each parameter that was moved, and the states, memory of their own again. Further
     * steps are the optimizer's own. */
    void unfuse() {
        c10::InferenceMode no_inference(false);
        c10::NoGradGuard no_gradients;
        for (auto &group : optimizer_.param_groups()) {
            for (auto &param : group.params()) {
                const auto laid = laid_.find(param.unsafeGetTensorImpl());
                if (laid != laid_.end() && laid->second.begin &&
                    laid->second.begin == begin_of(param))
                    param.set_data(param.detach().clone());
                State *const state = kind_.make ? state_of(param) : nullptr;
                if (!state) continue;
                for (at::Tensor *tensor : kind_.fields(*state).tensors)
                    if (tensor && is_strided(*tensor) &&
                        static_cast<int64_t>(tensor->storage().nbytes()) != bytes_of(*tensor))
                        *tensor = tensor->clone();
            }
        }
        plans_.clear();
        laid_.clear();
        fused_ = false;
    }

    /** How many parameters the last step updated together with others. */
    size_t fused_parameters() const {
        size_t count = 0;
        for (const auto &plan : plans_)
            for (const auto &run : plan.runs) count += run.params.size();
        return count;
    }

    /** How many parameters had moved, since they were laid end to end, when they were stepped. They
     * are updated where they are, which is slower; LibTorch warns of the first. */
    size_t moved_parameters() const { return moved_; }

private:
    using State = torch::optim::OptimizerParamState;
    using States = std::remove_reference_t<decltype(std::declval<Optimizer &>().state())>;

    using Key = States::key_type;
    using Identity = c10::weak_intrusive_ptr<at::TensorImpl, at::UndefinedTensorImpl>;

    /// What a state is made of.
    struct Fields {
        std::array<at::Tensor *, 3> tensors;  // of each element; null: there is no such
        int64_t *step;
    };
    /// What is known of a type of optimizer; without `make` it is not one to fuse.
    struct Kind {
        std::unique_ptr<State> (*make)() = nullptr;
        Fields (*fields)(State &) = nullptr;
    };

    /// Parameters that lie end to end and have the same state.
    struct Run {
        std::vector<at::Tensor> params;
        std::vector<Key> keys;        // of their states
        std::vector<int64_t> places;  // in `flat`, in elements
        at::Tensor flat;
        Key flat_key;
        std::unique_ptr<State> state;  // of `flat`; null before there is any
        std::vector<State *> states;   // of the parameters; empty before there are any
        std::array<void *, 3>
            published{};  // the memory of the state that those of the parameters are views of
    };
    struct Plan {
        std::vector<at::TensorImpl *> members;
        std::vector<at::Tensor> rest;
        std::vector<bool> missing;  // of the rest, who had no gradient
        std::vector<Run> runs;
    };

    /// The flat parameters in the place of the others, while it lives.
    struct Step {
        explicit Step(FusedOptimizer &owner) : fused(owner) {
            fused.prepare();
            auto &groups = fused.optimizer_.param_groups();
            for (size_t g = 0; g < groups.size(); ++g) {
                std::vector<at::Tensor> params;
                for (Run &run : fused.plans_[g].runs) {
                    params.push_back(run.flat);
                    auto &states = fused.optimizer_.state();
                    states.erase(
                        run.flat_key);  // of a parameter that is gone, which had this address
                    if (run.state) states[run.flat_key] = std::move(run.state);
                }
                params.insert(params.end(), fused.plans_[g].rest.begin(),
                              fused.plans_[g].rest.end());
                originals.push_back(std::exchange(groups[g].params(), std::move(params)));
            }
        }
        ~Step() {
            give_back();
            if (!finished) fused.plans_.clear();
        }
        void finish() {
            give_back();
            fused.publish();
            finished = true;
        }
        void give_back() {
            for (size_t g = 0; g < originals.size(); ++g) {
                fused.optimizer_.param_groups()[g].params() = std::move(originals[g]);
                for (Run &run : fused.plans_[g].runs) {
                    auto &states = fused.optimizer_.state();
                    const auto found = states.find(run.flat_key);
                    if (found != states.end()) {
                        run.state = std::move(found->second);
                        states.erase(found);
                    }
                    run.flat.mutable_grad().reset();
                }
            }
            originals.clear();
        }
        FusedOptimizer &fused;
        std::vector<std::vector<at::Tensor>> originals;
        bool finished = false;
    };

    template <class S>
    static std::unique_ptr<State> make_state() {
        return std::make_unique<S>();
    }
    static Kind kind_of(const Optimizer &optimizer) {
        using namespace torch::optim;
        const auto &type = typeid(optimizer);
        if (type == typeid(Adam)) return {make_state<AdamParamState>, adam_fields<AdamParamState>};
        if (type == typeid(AdamW))
            return {make_state<AdamWParamState>, adam_fields<AdamWParamState>};
        if (type == typeid(SGD))
            return {make_state<SGDParamState>, [](State &state) -> Fields {
                        return {{&static_cast<SGDParamState &>(state).momentum_buffer()}, nullptr};
                    }};
        if (type == typeid(RMSprop))
            return {make_state<RMSpropParamState>, [](State &state) -> Fields {
                        auto &of = static_cast<RMSpropParamState &>(state);
                        return {{&of.square_avg(), &of.momentum_buffer(), &of.grad_avg()},
                                &of.step()};
                    }};
        if (type == typeid(Adagrad))
            return {make_state<AdagradParamState>, [](State &state) -> Fields {
                        auto &of = static_cast<AdagradParamState &>(state);
                        return {{&of.sum()}, &of.step()};
                    }};
        return {};
    }
    template <class S>
    static Fields adam_fields(State &state) {
        auto &of = static_cast<S &>(state);
        return {{&of.exp_avg(), &of.exp_avg_sq(), &of.max_exp_avg_sq()}, &of.step()};
    }

    /// As LibTorch's optimizers find a parameter's state: by its address, which once was written
    /// out.
    template <class K = Key>
    static K key(const at::Tensor &param) {
        if constexpr (std::is_same_v<K, std::string>) {
            std::ostringstream text;
            text << param.unsafeGetTensorImpl();
            return text.str();
        } else {
            return param.unsafeGetTensorImpl();
        }
    }
    State *state_of(const at::Tensor &param) { return state_of(key(param)); }
    State *state_of(const Key &key) {
        const auto found = optimizer_.state().find(key);
        return found == optimizer_.state().end() ? nullptr : found->second.get();
    }

    static char *begin_of(const at::Tensor &tensor) {
        return static_cast<char *>(tensor.data_ptr());
    }
    static int64_t bytes_of(const at::Tensor &tensor) {
        return tensor.numel() * static_cast<int64_t>(tensor.element_size());
    }
    /// Bytes from the first element to behind the last.
    static int64_t extent_of(const at::Tensor &tensor) {
        int64_t last = 0;
        for (int64_t d = 0; d < tensor.dim(); ++d) last += (tensor.size(d) - 1) * tensor.stride(d);
        return (last + 1) * static_cast<int64_t>(tensor.element_size());
    }
    static bool is_strided(const at::Tensor &tensor) {
        return tensor.defined() && tensor.layout() == at::kStrided;
    }

    static bool can_fuse(const at::Tensor &param) {
        if (!is_strided(param) || !param.is_leaf() || param.dim() == 0 || param.numel() == 0 ||
            !param.is_contiguous())
            return false;
        const bool on_cpu = param.device().is_cpu();
        if (!on_cpu && !param.device().is_cuda()) return false;
        if (param.numel() > (on_cpu ? int64_t{1} << 12 : int64_t{1} << 20)) return false;
        return on_cpu ? param.scalar_type() == at::kFloat || param.scalar_type() == at::kDouble
                      : param.is_floating_point();
    }

    /// The largest power of two that divides the number of elements, up to 64 bytes: with those of
    /// most first, all begin at a multiple of their own.
    static int64_t alignment_of(const at::Tensor &param) {
        const int64_t count = param.numel();
        return std::min(count & -count, int64_t{64} / static_cast<int64_t>(param.element_size()));
    }

    /// Lays the parameters end to end that were not looked at yet.
    void lay(const std::vector<at::Tensor> &params) {
        if (!flatten_) return;
        c10::InferenceMode no_inference(false);  // a parameter takes on what its memory was made as
        c10::NoGradGuard no_gradients;
        std::vector<at::Tensor> fresh;
        for (const auto &param : params) {
            if (!param.defined() || !param.requires_grad() ||
                !laid_
                     .emplace(param.unsafeGetTensorImpl(),
                              Laid{Identity(param.getIntrusivePtr()), nullptr})
                     .second)
                continue;
            if (!can_fuse(param)) continue;
            const auto &storage = param.storage();
            if (storage.use_count() == 1 && storage.resizable() &&
                static_cast<int64_t>(storage.nbytes()) == bytes_of(param))
                fresh.push_back(param);
        }
        while (fresh.size() > 1) {
            const auto others =
                std::stable_partition(fresh.begin(), fresh.end(), [&](const at::Tensor &param) {
                    return param.options().type_equal(fresh[0].options()) &&
                           param.device() == fresh[0].device();
                });
            std::vector<at::Tensor> alike(fresh.begin(), others);
            fresh.erase(fresh.begin(), others);
            if (alike.size() < 2) continue;
            std::stable_sort(alike.begin(), alike.end(), [](const auto &a, const auto &b) {
                return alignment_of(a) > alignment_of(b);
            });
            int64_t total = 0, place = 0;
            for (const auto &param : alike) total += param.numel();
            const at::Tensor flat = at::empty({total}, alike[0].options().requires_grad(false));
            for (auto &param : alike) {
                at::Tensor view = flat.narrow(0, place, param.numel()).view(param.sizes());
                place += param.numel();
                view.copy_(param.detach());
                param.set_data(view);
                laid_.at(param.unsafeGetTensorImpl()).begin = begin_of(param);
            }
        }
    }

    /// Makes sure of the plans, and gathers the gradients.
    void prepare() {
        c10::InferenceMode no_inference(false);
        c10::NoGradGuard no_gradients;
        auto &groups = optimizer_.param_groups();
        bool all_hold = plans_.size() == groups.size();
        for (size_t g = 0; all_hold && g < groups.size(); ++g)
            all_hold = holds(plans_[g], groups[g].params());
        if (!all_hold) {
            std::unordered_map<at::TensorImpl *, size_t> uses;
            for (auto &group : groups)
                for (const auto &param : group.params()) ++uses[param.unsafeGetTensorImpl()];
            plans_.clear();
            for (auto &group : groups) plans_.push_back(make_plan(group.params(), uses));
        }
        for (Plan &plan : plans_)
            for (Run &run : plan.runs) gather(run);
    }

    static bool has_plain_gradient(const at::Tensor &param) {
        const at::Tensor &gradient = param.grad();
        return is_strided(gradient) && !gradient.is_neg() &&
               gradient.scalar_type() == param.scalar_type() && gradient.device() == param.device();
    }

    bool holds(Plan &plan, const std::vector<at::Tensor> &params) {
        if (plan.members.size() != params.size()) return false;
        for (size_t i = 0; i < params.size(); ++i)
            if (params[i].unsafeGetTensorImpl() != plan.members[i]) return false;
        for (size_t i = 0; i < plan.rest.size(); ++i)
            if (!plan.rest[i].grad().defined() != plan.missing[i]) return false;
        for (Run &run : plan.runs) {
            const int64_t width = static_cast<int64_t>(run.flat.element_size());
            const char *const begin = begin_of(run.flat);
            for (size_t i = 0; i < run.params.size(); ++i) {
                const at::Tensor &param = run.params[i];
                const int64_t count =
                    (i + 1 < run.places.size() ? run.places[i + 1] : run.flat.numel()) -
                    run.places[i];
                if (!has_plain_gradient(param) ||
                    begin_of(param) != begin + run.places[i] * width || !param.is_contiguous() ||
                    param.numel() != count)
                    return false;
                State *const state = state_of(run.keys[i]);
                if (state != (run.states.empty() ? nullptr : run.states[i])) return false;
                if (state && !is_view(*state, run, i)) return false;
            }
        }
        return true;
    }

    /// Whether the state of a run's parameter is what the flat parameter's is there.
    bool is_view(State &state, Run &run, size_t i) const {
        const Fields mine = kind_.fields(state), all = kind_.fields(*run.state);
        if (mine.step && *mine.step != *all.step) return false;
        for (size_t f = 0; f < mine.tensors.size(); ++f) {
            const at::Tensor *const part = mine.tensors[f], *const flat = all.tensors[f];
            if (!part) continue;
            if (part->defined() != flat->defined()) return false;
            if (part->defined() &&
                begin_of(*part) !=
                    begin_of(*flat) + run.places[i] * static_cast<int64_t>(flat->element_size()))
                return false;
        }
        return true;
    }

    /// `uses`: how many times the groups have each parameter.
    Plan make_plan(const std::vector<at::Tensor> &params,
                   const std::unordered_map<at::TensorImpl *, size_t> &uses) {
        lay(params);
        Plan plan;
        std::vector<at::Tensor> sorted;
        for (const auto &param : params) {
            plan.members.push_back(param.unsafeGetTensorImpl());
            look_for_move(param);
            if (is_strided(param) && param.numel() && param.grad().defined())
                sorted.push_back(param);
        }
        std::sort(sorted.begin(), sorted.end(),
                  [](const auto &a, const auto &b) { return begin_of(a) < begin_of(b); });
        std::vector<at::Tensor> found;
        const char *end = nullptr;
        int64_t together = 0;
        for (size_t i = 0; i < sorted.size(); ++i) {
            const at::Tensor &param = sorted[i];
            const bool overlaps = begin_of(param) < end;
            end = std::max<const char *>(overlaps ? end : nullptr,
                                         begin_of(param) + extent_of(param));
            if (overlaps || (i + 1 < sorted.size() && begin_of(sorted[i + 1]) < end) ||
                !can_fuse(param) || uses.at(param.unsafeGetTensorImpl()) > 1 ||
                !has_plain_gradient(param) || !has_plain_state(param))
                continue;
            // On a CPU the numbers of a stretch stay in its cache from one operation of a step to
            // the next.
            const bool is_full = param.device().is_cpu() && together + param.numel() > int64_t{1}
                                                                                           << 15;
            if (!found.empty() && (is_full || !follows(param, found.back()))) {
                add_run(plan, found);
                found.clear();
                together = 0;
            }
            found.push_back(param);
            together += param.numel();
        }
        add_run(plan, found);
        std::unordered_map<at::TensorImpl *, bool> fused;
        for (const Run &run : plan.runs)
            for (const auto &param : run.params) fused[param.unsafeGetTensorImpl()] = true;
        for (const auto &param : params) {
            if (fused.count(param.unsafeGetTensorImpl())) continue;
            plan.rest.push_back(param);
            plan.missing.push_back(!param.grad().defined());
        }
        return plan;
    }

    void look_for_move(const at::Tensor &param) {
        const auto found = laid_.find(param.unsafeGetTensorImpl());
        if (found == laid_.end() || !found->second.begin || found->second.begin == begin_of(param))
            return;
        found->second.begin = nullptr;
        if (moved_++ == 0)
            TORCH_WARN(
                "a parameter has moved since sab::FusedOptimizer laid it end to end with others: "
                "it is updated where it is, which is slower. ",
                "Fuse the optimizer when the model is on its device.");
    }

    bool has_plain_state(const at::Tensor &param) {
        State *const state = state_of(param);
        if (!state) return true;
        for (const at::Tensor *tensor : kind_.fields(*state).tensors)
            if (tensor && tensor->defined() &&
                !(is_strided(*tensor) && tensor->sizes() == param.sizes() &&
                  tensor->device() == param.device()))
                return false;
        return true;
    }

    /// Whether a parameter lies right behind another, with an equal state.
    bool follows(const at::Tensor &param, const at::Tensor &before) {
        if (param.scalar_type() != before.scalar_type() || param.device() != before.device() ||
            !param.is_alias_of(before) || begin_of(param) != begin_of(before) + bytes_of(before))
            return false;
        State *const mine = state_of(param), *const its = state_of(before);
        if (!mine || !its) return !mine && !its;
        const Fields a = kind_.fields(*mine), b = kind_.fields(*its);
        if (a.step && *a.step != *b.step) return false;
        for (size_t f = 0; f < a.tensors.size(); ++f) {
            if (!a.tensors[f]) continue;
            if (a.tensors[f]->defined() != b.tensors[f]->defined()) return false;
            if (a.tensors[f]->defined() &&
                a.tensors[f]->scalar_type() != b.tensors[f]->scalar_type())
                return false;
        }
        return true;
    }

    void add_run(Plan &plan, const std::vector<at::Tensor> &params) {
        if (params.size() < 2) return;
        Run run;
        run.params = params;
        int64_t total = 0;
        for (const auto &param : params) {
            run.keys.push_back(key(param));
            run.places.push_back(total);
            total += param.numel();
        }
        run.flat = params[0].detach().as_strided({total}, {1}, params[0].storage_offset());
        run.flat_key = key(run.flat);
        if (state_of(params[0])) adopt_state(run);
        plan.runs.push_back(std::move(run));
    }

    /// Makes one state of those of the parameters, and views of it of theirs.
    void adopt_state(Run &run) {
        for (const Key &key : run.keys) run.states.push_back(state_of(key));
        run.state = kind_.make();
        const Fields all = kind_.fields(*run.state), first = kind_.fields(*run.states[0]);
        if (all.step) *all.step = *first.step;
        for (size_t f = 0; f < all.tensors.size(); ++f) {
            if (!first.tensors[f] || !first.tensors[f]->defined()) continue;
            bool in_place = true;
            for (size_t i = 0; i < run.params.size() && in_place; ++i) {
                const at::Tensor &part = *kind_.fields(*run.states[i]).tensors[f];
                in_place =
                    part.is_contiguous() && part.is_alias_of(*first.tensors[f]) &&
                    begin_of(part) == begin_of(*first.tensors[f]) +
                                          run.places[i] * static_cast<int64_t>(part.element_size());
            }
            if (in_place) {
                *all.tensors[f] = first.tensors[f]->as_strided({run.flat.numel()}, {1},
                                                               first.tensors[f]->storage_offset());
                run.published[f] = begin_of(*all.tensors[f]);
                continue;
            }
            *all.tensors[f] = at::empty({run.flat.numel()}, first.tensors[f]->options());
            for (size_t i = 0; i < run.params.size(); ++i)
                view(run, *all.tensors[f], i).copy_(*kind_.fields(*run.states[i]).tensors[f]);
        }
        publish(run);
    }

    static at::Tensor view(const Run &run, const at::Tensor &flat, size_t i) {
        return flat.narrow(0, run.places[i], run.params[i].numel()).view(run.params[i].sizes());
    }

    /// Sets the gradient of the flat parameter: the gradients' own memory where they lie in order,
    /// else a copy.
    static void gather(Run &run) {
        const at::Tensor &first = run.params[0].grad();
        const int64_t width = static_cast<int64_t>(first.element_size());
        bool in_place = true;
        for (size_t i = 0; i < run.params.size() && in_place; ++i) {
            const at::Tensor &gradient = run.params[i].grad();
            in_place = gradient.is_contiguous() && gradient.is_alias_of(first) &&
                       begin_of(gradient) == begin_of(first) + run.places[i] * width;
        }
        if (in_place) {
            run.flat.mutable_grad() =
                first.detach().as_strided({run.flat.numel()}, {1}, first.storage_offset());
            return;
        }
        const at::Tensor flat = at::empty({run.flat.numel()}, run.flat.options());
        for (size_t i = 0; i < run.params.size(); ++i) {
            const at::Tensor &gradient = run.params[i].grad();
            if (gradient.device().is_cpu() && gradient.is_contiguous())
                std::memcpy(begin_of(flat) + run.places[i] * width, gradient.data_ptr(),
                            static_cast<size_t>(bytes_of(gradient)));
            else
                view(run, flat, i).copy_(gradient.detach());
        }
        run.flat.mutable_grad() = flat;
    }

    void publish() {
        c10::NoGradGuard no_gradients;
        for (Plan &plan : plans_)
            for (Run &run : plan.runs) publish(run);
    }

    /// Writes the state of the flat parameter to those of the parameters, and tells autograd that
    /// these have changed.
    void publish(Run &run) {
        for (auto &param : run.params) param.unsafeGetTensorImpl()->bump_version();
        if (!run.state) return;
        if (run.states.empty()) {
            for (const Key &key : run.keys) {
                auto &state = optimizer_.state()[key];
                if (!state) state = kind_.make();
                run.states.push_back(state.get());
            }
        }
        const Fields all = kind_.fields(*run.state);
        if (all.step)
            for (State *state : run.states) *kind_.fields(*state).step = *all.step;
        for (size_t f = 0; f < all.tensors.size(); ++f) {
            void *const begin =
                all.tensors[f] && all.tensors[f]->defined() ? all.tensors[f]->data_ptr() : nullptr;
            if (begin == run.published[f]) continue;
            run.published[f] = begin;
            for (size_t i = 0; i < run.states.size(); ++i)
                *kind_.fields(*run.states[i]).tensors[f] =
                    begin ? view(run, *all.tensors[f], i) : at::Tensor();
        }
    }

    struct Laid {
        Identity param;               // no other tensor gets its address
        const char *begin = nullptr;  // null: it was not laid, or has moved
    };

    Optimizer &optimizer_;
    bool flatten_, fused_ = true;
    Kind kind_;
    std::unordered_map<at::TensorImpl *, Laid> laid_;
    std::vector<Plan> plans_;
    size_t moved_ = 0;
};

}  // namespace sab

#endif
