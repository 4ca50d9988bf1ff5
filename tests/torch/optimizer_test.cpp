// Fused optimizers of LibTorch against the plain ones: bit for bit, whatever happens between two
// steps.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>
#include <torch/optim/lbfgs.h>
#include <torch/serialize.h>
#include <sab/torch.hpp>
#include <sab/torch_optimizer.hpp>

#include <cstring>
#include <functional>
#include <random>
#include <sstream>

namespace {

using namespace torch::optim;
using Params = std::vector<at::Tensor>;
using Groups = std::vector<OptimizerParamGroup>;

const std::vector<std::vector<int64_t>> kShapes = {{4, 8},   {7},          {3, 5, 2}, {1},  {33},
                                                   {16, 16}, {2, 3, 3, 3}, {1, 1},    {129}};

at::Tensor numbers(at::IntArrayRef shape, uint64_t seed, at::ScalarType type = at::kFloat) {
    auto generator = at::detail::createCPUGenerator(seed);
    return at::randn(shape, generator, at::TensorOptions(at::kFloat)).to(type);
}

Params make_params(size_t count = 12, uint64_t seed = 0,
                   std::vector<at::ScalarType> types = {at::kFloat}) {
    Params params;
    for (size_t i = 0; i < count; ++i)
        params.push_back(
            numbers(kShapes[i % kShapes.size()], 1000 * seed + i, types[i % types.size()])
                .requires_grad_());
    return params;
}

void set_gradients(Params& params, uint64_t seed, const std::vector<size_t>& missing = {}) {
    for (size_t i = 0; i < params.size(); ++i)
        params[i].mutable_grad() =
            std::count(missing.begin(), missing.end(), i)
                ? at::Tensor()
                : numbers(params[i].sizes(), 77 * seed + i, params[i].scalar_type());
}

testing::AssertionResult equal(const Params& one, const Params& other) {
    for (size_t i = 0; i < one.size(); ++i)
        if (!one[i].equal(other[i]))
            return testing::AssertionFailure() << "parameter " << i << " differs";
    return testing::AssertionSuccess();
}

Params copy_of(const Params& params) {
    Params copies;
    for (const auto& param : params) copies.push_back(param.detach().clone().requires_grad_());
    return copies;
}

struct Way {
    const char* name;
    std::function<std::unique_ptr<Optimizer>(Groups)> make;
};
template <class T, class Options>
Way way(const char* name, Options options) {
    return {name, [options](Groups groups) -> std::unique_ptr<Optimizer> {
                return std::make_unique<T>(std::move(groups), options);
            }};
}
const std::vector<Way>& ways() {
    static const std::vector<Way> all = {
        way<Adam>("Adam", AdamOptions(0.01)),
        way<Adam>("Adam, amsgrad", AdamOptions(0.01).amsgrad(true).weight_decay(0.1)),
        way<AdamW>("AdamW", AdamWOptions(0.01).weight_decay(0.2)),
        way<SGD>("SGD", SGDOptions(0.1)),
        way<SGD>("SGD, momentum", SGDOptions(0.1).momentum(0.9).nesterov(true).weight_decay(0.1)),
        way<RMSprop>("RMSprop", RMSpropOptions(0.01)),
        way<RMSprop>("RMSprop, centered",
                     RMSpropOptions(0.01).centered(true).momentum(0.5).weight_decay(0.1)),
        way<Adagrad>("Adagrad", AdagradOptions(0.1).lr_decay(0.1).initial_accumulator_value(0.2)),
    };
    return all;
}

/// A plain optimizer and a fused one over equal parameters, fed alike.
struct Pair {
    explicit Pair(
        const Way& way, const std::function<Params()>& make = [] { return make_params(); },
        bool flatten = true, size_t split = 0)
        : plain_params(make()),
          fused_params(make()),
          plain(way.make(groups(plain_params, split))),
          under(way.make(groups(fused_params, split))),
          fused(std::make_unique<sab::FusedOptimizer>(*under, flatten)) {}
    static Groups groups(const Params& params, size_t split) {
        const auto middle = params.begin() + static_cast<std::ptrdiff_t>(split);
        Groups made;
        if (split) made.emplace_back(Params(params.begin(), middle));
        made.emplace_back(Params(middle, params.end()));
        return made;
    }
    void step(uint64_t seed, const std::vector<size_t>& missing = {}, bool fuse = true) {
        set_gradients(plain_params, seed, missing);
        set_gradients(fused_params, seed, missing);
        plain->step();
        fuse ? fused->step() : under->step();
    }
    testing::AssertionResult same() const { return equal(plain_params, fused_params); }

    Params plain_params, fused_params;
    std::unique_ptr<Optimizer> plain, under;
    std::unique_ptr<sab::FusedOptimizer> fused;
};

TEST(FusedOptimizer, EveryOptimizer_StepsAsThePlainOne) {
    for (const Way& way : ways()) {
        Pair pair(way);
        for (uint64_t seed = 0; seed < 12; ++seed) {
            pair.step(seed, {}, seed % 4 != 2);
            ASSERT_TRUE(pair.same()) << way.name << ", step " << seed;
        }
        EXPECT_EQ(pair.fused->fused_parameters(), 12U) << way.name;
    }
}

TEST(FusedOptimizer, AnyHistory_StepsAsThePlainOne) {
    for (uint64_t trial = 0; trial < 300; ++trial) {
        std::mt19937_64 random(trial);
        const auto below = [&](size_t limit) { return static_cast<size_t>(random() % limit); };
        const Way& way = ways()[below(ways().size())];
        const size_t count = 1 + below(14);
        std::vector<at::ScalarType> types = {at::kFloat};
        if (below(3) == 0) types = {at::kFloat, at::kDouble, at::kFloat};
        if (below(5) == 0) types = {at::kFloat, at::kBFloat16};
        Pair pair(
            way, [&] { return make_params(count, trial, types); }, below(4) != 0, below(count));
        Params gone;  // so that no other tensor gets the address, by which LibTorch finds states
        for (uint64_t step = 0; step < 8; ++step) {
            std::vector<size_t> missing;
            for (size_t i = 0; i < count; ++i)
                if (below(8) == 0) missing.push_back(i);
            const size_t which = below(count), change = below(7);
            for (int fused = 0; fused < 2; ++fused) {
                Params& params = fused ? pair.fused_params : pair.plain_params;
                Optimizer& optimizer = fused ? *pair.under : *pair.plain;
                if (change == 0) params[which].set_data(params[which].detach().clone());
                if (change == 1) {
                    std::stringstream file;
                    torch::save(optimizer, file);
                    torch::load(optimizer, file);
                }
                if (change == 2) optimizer.param_groups()[0].options().set_lr(0.02);
                // which wants all states from the beginning
                if (std::strcmp(way.name, "Adagrad") == 0) continue;
                if (change == 3) {
                    const at::Tensor fresh = params[which].detach().clone().requires_grad_();
                    for (auto& group : optimizer.param_groups())
                        std::replace_if(
                            group.params().begin(), group.params().end(),
                            [&](const at::Tensor& param) { return param.is_same(params[which]); },
                            fresh);
                    gone.push_back(std::exchange(params[which], fresh));
                }
                if (change == 4 && step == 5) {
                    params.push_back(at::full({7}, 2.0F).requires_grad_());
                    optimizer.add_param_group(OptimizerParamGroup(Params{params.back()}));
                }
            }
            pair.step(step, missing, below(4) != 0);
            ASSERT_TRUE(pair.same()) << way.name << ", trial " << trial << ", step " << step;
        }
    }
}

TEST(FusedOptimizer, SeveralThreads_StepAsOne) {
    const int before = at::get_num_threads();
    at::set_num_threads(2);
    for (const Way& way : ways()) {
        Pair pair(way, [] {
            Params params;
            for (uint64_t i = 0; i < 30; ++i)
                params.push_back(numbers({i % 3 ? 1999 : 4001}, i).requires_grad_());
            return params;
        });
        for (uint64_t seed = 0; seed < 3; ++seed) pair.step(seed);
        EXPECT_TRUE(pair.same()) << way.name;
    }
    at::set_num_threads(before);
}

TEST(FusedOptimizer, State_GoesToAndFromPlainOptimizers) {
    for (const Way& way : ways()) {
        Pair pair(way);
        for (uint64_t seed = 0; seed < 3; ++seed) pair.step(seed);
        std::stringstream from_fused, from_plain;
        torch::save(*pair.under, from_fused);
        torch::save(*pair.plain, from_plain);

        Params plain_params = copy_of(pair.fused_params), fused_params = copy_of(pair.plain_params);
        auto plain = way.make({OptimizerParamGroup(plain_params)}),
             under = way.make({OptimizerParamGroup(fused_params)});
        sab::FusedOptimizer fused(*under);
        torch::load(*plain, from_fused);
        torch::load(*under, from_plain);
        for (uint64_t seed = 3; seed < 6; ++seed) {
            pair.step(seed);
            set_gradients(plain_params, seed);
            set_gradients(fused_params, seed);
            plain->step();
            fused.step();
            ASSERT_TRUE(pair.same() && equal(plain_params, pair.plain_params) &&
                        equal(fused_params, pair.plain_params))
                << way.name;
        }
        EXPECT_EQ(fused.fused_parameters(), 12U) << way.name;
    }
}

TEST(FusedOptimizer, Parameters_WithoutGradient_AreSkippedWithTheirState) {
    for (const Way& way : ways()) {
        Pair pair(way);
        const std::vector<std::vector<size_t>> missing = {
            {3},    {},
            {3, 4}, {0, 11},
            {},     {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11},
            {},     {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10},
            {}};
        for (size_t step = 0; step < missing.size(); ++step) {
            pair.step(step, missing[step]);
            ASSERT_TRUE(pair.same()) << way.name << ", step " << step;
        }
    }
}

TEST(FusedOptimizer, Groups_KeepTheirOptions_AndCanBeAdded) {
    Params params[2] = {make_params(), make_params()};
    std::unique_ptr<Adam> optimizers[2];
    for (int i = 0; i < 2; ++i) {
        Groups groups;
        groups.emplace_back(Params(params[i].begin(), params[i].begin() + 5),
                            std::make_unique<AdamOptions>(AdamOptions(0.3)));
        groups.emplace_back(Params(params[i].begin() + 5, params[i].end()),
                            std::make_unique<AdamOptions>(AdamOptions(0.1).amsgrad(true)));
        optimizers[i] = std::make_unique<Adam>(std::move(groups), AdamOptions());
    }
    sab::FusedOptimizer fused(*optimizers[1]);
    for (uint64_t seed = 0; seed < 6; ++seed) {
        if (seed == 3)
            for (int i = 0; i < 2; ++i) {
                Params more = make_params(6, 5);
                params[i].insert(params[i].end(), more.begin(), more.end());
                optimizers[i]->add_param_group(OptimizerParamGroup(
                    more, std::make_unique<AdamOptions>(AdamOptions(0.2).weight_decay(0.3))));
            }
        for (auto& mine : params) set_gradients(mine, seed);
        optimizers[0]->step();
        fused.step();
        ASSERT_TRUE(equal(params[0], params[1]));
        EXPECT_EQ(fused.fused_parameters(), seed < 3 ? 12U : 18U);
    }
}

TEST(FusedOptimizer, Training_WithZeroGrad_StepsAsThePlainOne) {
    for (const Way& way : ways()) {
        Pair pair(way);
        for (uint64_t seed = 0; seed < 5; ++seed) {
            pair.plain->zero_grad();
            pair.fused->zero_grad();
            for (Params* params : {&pair.plain_params, &pair.fused_params}) {
                at::Tensor loss = at::zeros({});
                for (size_t i = 0; i < params->size(); ++i)
                    if (seed != 3 || i != 4)
                        loss =
                            loss +
                            (params->at(i) * numbers(params->at(i).sizes(), seed + i)).pow(2).sum();
                loss.backward();
            }
            pair.plain->step();
            pair.fused->step();
            ASSERT_TRUE(pair.same()) << way.name << ", step " << seed;
        }
    }
}

TEST(FusedOptimizer, Gradients_ThatLieInOrder_AreNotCopied_AndOthersStayTheirOwners) {
    Pair pair(ways()[4]);
    pair.step(0);
    for (Params* params : {&pair.plain_params, &pair.fused_params}) {
        at::Tensor bucket = numbers({650}, 3);
        int64_t place = 0;
        for (auto param = params->rbegin(); param != params->rend(); ++param) {
            param->mutable_grad() = bucket.narrow(0, place, param->numel()).view(param->sizes());
            place += param->numel();
        }
    }
    const void* const address = pair.fused_params[5].grad().data_ptr();
    for (int step = 0; step < 3; ++step) {
        pair.plain->step();
        pair.fused->step();
        ASSERT_TRUE(pair.same());
    }
    EXPECT_EQ(pair.fused_params[5].grad().data_ptr(), address);
}

TEST(FusedOptimizer, Closure_IsCalledOnce_WithTheParametersInPlace) {
    Pair pair(ways()[0]);
    for (int step = 0; step < 3; ++step) {
        int calls = 0;
        const auto closure = [&](Optimizer& optimizer, Params& params) {
            return [&] {
                ++calls;
                EXPECT_TRUE(c10::GradMode::is_enabled());
                EXPECT_EQ(optimizer.param_groups()[0].params().size(), params.size());
                optimizer.zero_grad();
                at::Tensor loss = at::zeros({});
                for (const auto& param : params) loss = loss + param.pow(2).sum();
                loss.backward();
                return loss;
            };
        };
        const at::Tensor one = pair.plain->step(closure(*pair.plain, pair.plain_params)),
                         other = pair.fused->step(closure(*pair.under, pair.fused_params));
        EXPECT_EQ(calls, 2);
        EXPECT_TRUE(one.equal(other));
        ASSERT_TRUE(pair.same());
    }
    EXPECT_EQ(pair.fused->fused_parameters(), 12U);
}

TEST(FusedOptimizer, Step_ThatFails_LeavesTheOptimizerWhole) {
    Pair pair(ways()[0]);
    pair.step(0);
    EXPECT_THROW(
        pair.fused->step([]() -> at::Tensor { throw std::runtime_error("of the closure"); }),
        std::runtime_error);
    const at::Tensor gradient = pair.fused_params[3].grad();
    pair.under->param_groups()[0].params().push_back(at::ones({3}).requires_grad_());
    auto& extra = pair.under->param_groups()[0].params().back();
    extra.mutable_grad() = at::ones({3}).to_sparse();  // Adam refuses it
    EXPECT_THROW(pair.fused->step(), c10::Error);
    ASSERT_EQ(pair.under->param_groups()[0].params().size(), 13U);
    for (size_t i = 0; i < 12; ++i)
        EXPECT_TRUE(pair.under->param_groups()[0].params()[i].is_same(pair.fused_params[i]));
}

TEST(FusedOptimizer, MovedParameters_AreFoundAndSteppedWhereTheyAre) {
    Pair pair(ways()[0]);
    pair.step(0);
    EXPECT_EQ(pair.fused->moved_parameters(), 0U);
    for (size_t which : {4, 9})
        pair.fused_params[which].set_data(pair.fused_params[which].detach().clone());
    for (uint64_t seed = 1; seed < 4; ++seed) pair.step(seed);
    EXPECT_TRUE(pair.same());
    EXPECT_EQ(pair.fused->moved_parameters(), 2U);
    EXPECT_LT(pair.fused->fused_parameters(), 12U);
}

TEST(FusedOptimizer, AnotherLayoutAtTheSamePlace_IsSteppedRightly) {
    Pair pair(ways()[4]);
    pair.step(0);
    for (Params* params : {&pair.plain_params, &pair.fused_params}) {
        params->at(5).set_data(params->at(5).detach().t());
        params->at(5).mutable_grad() = at::Tensor();
    }
    for (uint64_t seed = 1; seed < 3; ++seed) pair.step(seed);
    EXPECT_TRUE(pair.same());
}

TEST(FusedOptimizer, WhatIsNotContiguousSharedOrLarge_StaysWhereItIs) {
    static float memory[2][8] = {};
    int of = 0;
    const auto make = [&] {
        Params params = make_params();
        const at::Tensor tied = numbers({5, 5}, 1),
                         base = at::arange(64, at::TensorOptions(at::kFloat));
        const Params odd = {at::arange(12, at::TensorOptions(at::kFloat)).view({3, 4}).t(),
                            tied.detach(),
                            tied.t(),
                            base.slice(0, 0, 64, 2),
                            base.narrow(0, 1, 8).detach(),
                            at::ones({}),
                            at::zeros({0}),
                            at::ones({200, 200}),
                            at::from_blob(memory[of++], {8}),
                            numbers({4, 4}, 2, at::kBFloat16)};
        for (const auto& each : odd)
            params.insert(params.begin() + 5, each.detach().requires_grad_());
        return params;
    };
    Pair pair(ways()[4], make);
    std::vector<const void*> addresses;
    for (size_t i = 5; i < 15; ++i) addresses.push_back(pair.fused_params[i].data_ptr());
    for (uint64_t seed = 0; seed < 3; ++seed) pair.step(seed);
    EXPECT_TRUE(pair.same());
    for (size_t i = 5; i < 15; ++i)
        EXPECT_EQ(pair.fused_params[i].data_ptr(), addresses[i - 5]) << i;
    EXPECT_NE(memory[1][0], 0.0F);
    EXPECT_EQ(pair.fused->fused_parameters(), 12U);
}

TEST(FusedOptimizer, OnlyWhatLiesEndToEnd_WithoutFlattening) {
    const auto make = [] {
        Params params = make_params();
        at::Tensor flat = numbers({500}, 3);
        int64_t place = 0;
        for (size_t i = 2; i < 6; ++i) {
            params[i].set_data(flat.narrow(0, place, params[i].numel()).view(params[i].sizes()));
            place += params[i].numel();
        }
        return params;
    };
    Pair pair(ways()[0], make, false);
    const void* const address = pair.fused_params[0].data_ptr();
    for (uint64_t seed = 0; seed < 3; ++seed) pair.step(seed);
    EXPECT_TRUE(pair.same());
    EXPECT_EQ(pair.fused_params[0].data_ptr(), address);
    EXPECT_EQ(pair.fused->fused_parameters(), 4U);
}

TEST(FusedOptimizer, SparseGradients_AreSteppedOnTheirOwn) {
    Pair pair(ways()[7], [] {
        Params params = make_params();
        params.insert(params.begin(), at::ones({10, 4}).requires_grad_());
        return params;
    });
    for (uint64_t seed = 0; seed < 4; ++seed) {
        for (Params* params : {&pair.plain_params, &pair.fused_params}) {
            set_gradients(*params, seed);
            at::Tensor rows = at::zeros({10, 4});
            rows[static_cast<int64_t>(seed)].fill_(2);
            params->at(0).mutable_grad() = rows.to_sparse(1);
        }
        pair.plain->step();
        pair.fused->step();
        ASSERT_TRUE(pair.same());
    }
}

TEST(FusedOptimizer, NoMemoryIsLeftBehind) {
    std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> old;
    Params params = make_params();
    for (const auto& param : params)
        old.emplace_back(c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(
            param.storage().unsafeGetStorageImpl()));
    Adam adam(params);
    sab::FusedOptimizer fused(adam);
    for (const auto& each : old) EXPECT_TRUE(each.expired());
}

TEST(FusedOptimizer, Unfused_EverythingHasItsOwnMemoryAgain) {
    for (const Way& way : ways()) {
        Pair pair(way);
        for (uint64_t seed = 0; seed < 3; ++seed) pair.step(seed);
        pair.fused->unfuse();
        for (const auto& param : pair.fused_params)
            EXPECT_EQ(static_cast<int64_t>(param.storage().nbytes()), param.numel() * 4);
        for (uint64_t seed = 3; seed < 6; ++seed) pair.step(seed);
        EXPECT_TRUE(pair.same()) << way.name;
        EXPECT_EQ(pair.fused->fused_parameters(), 0U);
        pair.fused = std::make_unique<sab::FusedOptimizer>(*pair.under);
        for (uint64_t seed = 6; seed < 9; ++seed) pair.step(seed);
        pair.fused.reset();
        for (uint64_t seed = 9; seed < 11; ++seed) pair.step(seed, {}, false);
        EXPECT_TRUE(pair.same()) << way.name;
    }
}

TEST(FusedOptimizer, Unfused_WhatWasNotMovedStaysWhereItIs) {
    Params params = make_params();
    const at::Tensor tied = numbers({5, 5}, 1);
    params.push_back(tied.detach().requires_grad_());
    params.push_back(at::ones({200, 200}).requires_grad_());
    Adam adam(params);
    sab::FusedOptimizer fused(adam);
    set_gradients(params, 1);
    fused.step();
    const void* const addresses[] = {params[12].data_ptr(), params[13].data_ptr()};
    fused.unfuse();
    EXPECT_EQ(params[12].data_ptr(), addresses[0]);
    EXPECT_TRUE(params[12].is_alias_of(tied));
    EXPECT_EQ(params[13].data_ptr(), addresses[1]);
}

TEST(FusedOptimizer, MadeInInferenceMode_ParametersStillHaveGradients) {
    Params params = make_params();
    Adam adam(params);
    {
        c10::InferenceMode inference;
        sab::FusedOptimizer fused(adam);
        EXPECT_TRUE(params[0].is_alias_of(params[1]));
        fused.unfuse();
    }
    EXPECT_FALSE(params[0].is_inference());
    EXPECT_TRUE(params[0].sum().requires_grad());
}

TEST(FusedOptimizer, ParametersOfSeveralGroups_AreSteppedByEach) {
    for (const Way& way : ways()) {
        const auto make = [] { return make_params(6, 1); };
        Params params[2] = {make(), make()};
        std::unique_ptr<Optimizer> optimizers[2];
        for (int i = 0; i < 2; ++i) {
            const Params& p = params[i];
            optimizers[i] = way.make({OptimizerParamGroup(Params{p[0], p[1], p[2], p[3]}),
                                      OptimizerParamGroup(Params{p[3], p[1], p[4], p[5]})});
        }
        sab::FusedOptimizer fused(*optimizers[1]);
        for (uint64_t seed = 0; seed < 5; ++seed) {
            for (Params& each : params) set_gradients(each, seed);
            optimizers[0]->step();
            fused.step();
            ASSERT_TRUE(equal(params[0], params[1])) << way.name << ", step " << seed;
        }
        EXPECT_EQ(fused.fused_parameters(), 4U) << way.name;
    }
}

TEST(FusedOptimizer, ParametersThatLeave_TakeTheirMemoryAlong) {
    Params params = make_params();
    params.push_back(at::ones({100, 100}).requires_grad_());
    const c10::weak_intrusive_ptr<c10::StorageImpl> memory(
        c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(
            params[12].storage().unsafeGetStorageImpl()));
    SGD sgd(params, SGDOptions(0.1));
    sab::FusedOptimizer fused(sgd);
    for (uint64_t seed = 0; seed < 2; ++seed) {
        set_gradients(params, seed);
        fused.step();
        if (seed == 0) {
            params.pop_back();
            sgd.param_groups()[0].params().pop_back();
        }
    }
    EXPECT_TRUE(memory.expired());
    EXPECT_EQ(fused.fused_parameters(), 12U);
}

TEST(FusedOptimizer, OtherOptimizers_TakeTheirOwnStep) {
    Params params[2] = {make_params(), make_params()};
    LBFGS plain(params[0], LBFGSOptions(0.1)), under(params[1], LBFGSOptions(0.1));
    const void* const address = params[1][0].data_ptr();
    sab::FusedOptimizer fused(under);
    const auto closure = [](Optimizer& optimizer, Params& mine) {
        return [&] {
            optimizer.zero_grad();
            at::Tensor loss = at::zeros({});
            for (const auto& param : mine) loss = loss + (param - 1).pow(2).sum();
            loss.backward();
            return loss;
        };
    };
    for (int step = 0; step < 3; ++step) {
        EXPECT_TRUE(
            plain.step(closure(plain, params[0])).equal(fused.step(closure(under, params[1]))));
        EXPECT_TRUE(equal(params[0], params[1]));
    }
    EXPECT_EQ(params[1][0].data_ptr(), address);
}

class Mine : public SGD {
public:
    using SGD::SGD;
    at::Tensor step(LossClosure = nullptr) override {
        c10::NoGradGuard no_gradients;
        for (auto& param : param_groups()[0].params())
            param.sub_(param.grad() / param.grad().norm());
        return {};
    }
};

TEST(FusedOptimizer, OptimizersOfOnesOwn_TakeTheirOwnStep) {
    Params params[2] = {make_params(), make_params()};
    Mine plain(params[0], SGDOptions(0.1)), under(params[1], SGDOptions(0.1));
    sab::FusedOptimizer fused(under);
    for (auto& mine : params) set_gradients(mine, 1);
    plain.step();
    fused.step();
    EXPECT_TRUE(equal(params[0], params[1]));
}

TEST(FusedOptimizer, Autograd_NoticesAStep) {
    Pair pair(ways()[3]);
    pair.step(0);
    const at::Tensor loss = pair.fused_params[0].pow(3).sum();
    pair.step(1);
    EXPECT_THROW(loss.backward(), c10::Error);
}

}  // namespace
