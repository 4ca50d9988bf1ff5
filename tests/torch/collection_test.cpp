// Collections of samples: grouped, padded, masked and taken apart, with gradients; in C++ and in C.
#include <ATen/Functions.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/forward_grad.h>
#include <unistd.h>
#include <sab/torch.hpp>

#include <atomic>
#include <cstring>
#include <functional>
#include <random>
#include <thread>

namespace {

using c10::IValue;
using Tensors = std::vector<at::Tensor>;

class Collections : public ::testing::Test {
protected:
    void SetUp() override {
        ASSERT_EQ(sab_torch_open(nullptr, nullptr), SAB_OK) << sab_last_error_message();
        at::manual_seed(1);
    }
};

at::Tensor tracked(const at::Tensor& tensor) {
    return tensor.clone().set_requires_grad(true);
}

at::Tensor gradient(const at::Tensor& loss, const at::Tensor& of, bool create_graph = false) {
    return torch::autograd::grad({loss}, {of}, {}, true, create_graph, true).at(0);
}

/// The parts of the last error make its message.
void expect_parts() {
    const std::string argument = sab_last_error_argument(), value = sab_last_error_value(),
                      rule = sab_last_error_rule(), message = sab_last_error_message();
    EXPECT_TRUE(!argument.empty() && !rule.empty()) << message;
    EXPECT_TRUE(message == argument + ": " + rule ||
                message == argument + " = " + value + ": " + rule ||
                message == argument + " = \"" + value + "\": " + rule)
        << message;
}

/// Expects a call of sab to be refused with all the words in the message.
template <class Call>
void expect_refused(Call&& call, std::initializer_list<const char*> words) {
    try {
        call();
        FAIL() << "not refused";
    } catch (const sab::Error& error) {
        EXPECT_EQ(error.status(), SAB_E_ARGUMENT);
        expect_parts();
        for (const char* word : words)
            EXPECT_NE(std::string(error.what()).find(word), std::string::npos)
                << error.what() << " lacks " << word;
    }
}

/// What a padded batch should be, sample by sample.
at::Tensor stacked(const Tensors& samples, int64_t batch_dim, const at::Tensor& value) {
    std::vector<int64_t> sizes = samples.at(0).sizes().vec();
    for (const at::Tensor& sample : samples)
        for (std::size_t d = 0; d < sizes.size(); ++d)
            sizes[d] = std::max(sizes[d], sample.size(static_cast<int64_t>(d)));
    Tensors padded;
    for (const at::Tensor& sample : samples) {
        at::Tensor made = at::empty(sizes, sample.options());
        made.copy_(value.expand(sizes));
        at::Tensor part = made;
        for (int64_t d = 0; d < sample.dim(); ++d) part = part.narrow(d, 0, sample.size(d));
        part.copy_(sample);
        padded.push_back(made);
    }
    return at::stack(padded, batch_dim);
}

TEST_F(Collections, NestedSamples_GroupedRegroupedUngrouped_AreThemselves) {
    std::vector<IValue> samples;
    const std::vector<std::pair<int64_t, int64_t>> lengths{{10, 3}, {20, 6}, {12, 20}};
    for (const auto& [residues, atoms] : lengths)
        samples.push_back(sab::dictionary(
            {{"protein",
              sab::dictionary({{"p", at::rand({residues, 8})}, {"R", at::rand({residues, 3, 3})}})},
             {"ligand", sab::tuple({at::rand({atoms, 4}), at::rand({atoms, residues})})}}));
    const IValue signature = sab::dictionary(
        {{"protein", sab::dictionary({{"p", "(B, L_res, M_1)"}, {"R", "(B, L_res, 3, 3)"}})},
         {"ligand", sab::tuple({"(B, L_atm, M)", "(L_atm, B, L_res)"})}});
    const IValue padding = sab::dictionary({{"protein", sab::dictionary({{"R", at::eye(3)}})}});
    const sab::Collection collection(samples, signature, padding);
    EXPECT_EQ(collection.samples(), 3u);
    EXPECT_EQ(collection.groups(), 0u);

    const sab::Collection grouped = collection.group(collection.grouping({{"res", {15}}}));
    ASSERT_EQ(grouped.groups(), 2u);
    const auto protein = grouped[0].toGenericDict().at("protein").toGenericDict();
    EXPECT_EQ(protein.at("p").toTensor().sizes(), at::IntArrayRef({2, 12, 8}));
    const at::Tensor rotations = protein.at("R").toTensor();
    EXPECT_EQ(rotations.sizes(), at::IntArrayRef({2, 12, 3, 3}));
    EXPECT_TRUE(at::equal(rotations[0].narrow(0, 10, 2), at::eye(3).expand({2, 3, 3})));
    const auto ligand = grouped[0].toGenericDict().at("ligand").toTuple()->elements().vec();
    EXPECT_EQ(ligand[1].toTensor().sizes(), at::IntArrayRef({20, 2, 12}));

    const sab::Collection again = grouped.group(grouped.grouping({{"atm", {10}}}));
    ASSERT_EQ(again.groups(), 2u);
    EXPECT_EQ(again[0].toGenericDict().at("protein").toGenericDict().at("R").toTensor().sizes(),
              at::IntArrayRef({2, 20, 3, 3}));
    EXPECT_TRUE(at::equal(
        again[0].toGenericDict().at("protein").toGenericDict().at("R").toTensor()[0].narrow(0, 10,
                                                                                            10),
        at::eye(3).expand({10, 3, 3})));

    const sab::Collection back = again.ungroup();
    for (std::size_t i = 0; i < 3; ++i) {
        const auto was = samples[i].toGenericDict(), is = back[i].toGenericDict();
        EXPECT_TRUE(at::equal(was.at("protein").toGenericDict().at("p").toTensor(),
                              is.at("protein").toGenericDict().at("p").toTensor()));
        EXPECT_TRUE(at::equal(was.at("protein").toGenericDict().at("R").toTensor(),
                              is.at("protein").toGenericDict().at("R").toTensor()));
        for (std::size_t k = 0; k < 2; ++k)
            EXPECT_TRUE(at::equal(was.at("ligand").toTuple()->elements()[k].toTensor(),
                                  is.at("ligand").toTuple()->elements()[k].toTensor()));
    }
}

TEST_F(Collections, AnyDtypeRankAndBatchDimension_AreStackedAsByHand) {
    std::mt19937 random(2);
    const at::ScalarType dtypes[] = {at::kBool,   at::kByte,         at::kShort,        at::kInt,
                                     at::kLong,   at::kHalf,         at::kBFloat16,     at::kFloat,
                                     at::kDouble, at::kComplexFloat, at::kComplexDouble};
    for (int round = 0; round < 200; ++round) {
        const std::size_t rank = random() % 4, count = 1 + random() % 6,
                          batch_dim = random() % (rank + 1);
        const at::ScalarType dtype = dtypes[random() % std::size(dtypes)];
        std::string signature = "(";
        std::vector<int> kinds;
        for (std::size_t d = 0; d <= rank; ++d) {
            if (d > 0) signature += ", ";
            if (d == batch_dim) {
                signature += "B";
                continue;
            }
            kinds.push_back(static_cast<int>(random() % 3));
            signature += kinds.back() == 0   ? "2"
                         : kinds.back() == 1 ? "M_" + std::to_string(d)
                                             : "L_" + std::to_string(d);
        }
        signature += ")";
        Tensors samples;
        for (std::size_t i = 0; i < count; ++i) {
            std::vector<int64_t> sizes;
            for (const int kind : kinds)
                sizes.push_back(kind == 0 ? 2 : kind == 1 ? 3 : static_cast<int64_t>(random() % 5));
            at::Tensor sample = (at::rand(sizes) * 100).to(dtype);
            // another layout, the same values
            if (rank == 2 && random() % 2 == 0) sample = sample.t().contiguous().t();
            samples.push_back(sample);
        }
        const double value = random() % 2 == 0 ? 0 : 1;
        const sab::Collection collection(samples, signature, value);
        std::vector<int64_t> group_of;
        for (std::size_t i = 0; i < count; ++i)
            group_of.push_back(static_cast<int64_t>(random() % 3));
        const sab::Grouping grouping = sab::Grouping::predefined(group_of, 3);
        // A padding that wants gradients is put in place by LibTorch's operations, as on other
        // devices than the CPU.
        const bool can_differ = at::isFloatingType(dtype) || at::isComplexType(dtype);
        const sab::Collection elsewhere =
            can_differ ? sab::Collection(samples, signature,
                                         tracked(at::full({}, value, at::kDouble).to(dtype)))
                       : collection;
        const sab::Collection indexed = elsewhere.group(sab::Grouping::uni(count)).group(grouping);
        const sab::Collection grouped = collection.group(grouping),
                              regrouped =
                                  collection.group(sab::Grouping::uni(count)).group(grouping);
        std::size_t found = 0;
        for (int64_t number = 0; number < 3; ++number) {
            Tensors members;
            for (std::size_t i = 0; i < count; ++i)
                if (group_of[i] == number) members.push_back(samples[i]);
            if (members.empty()) continue;
            const at::Tensor expected = stacked(members, static_cast<int64_t>(batch_dim),
                                                at::full({}, value, at::kDouble).to(dtype));
            EXPECT_TRUE(at::equal(grouped[found].toTensor(), expected)) << signature;
            EXPECT_TRUE(at::equal(regrouped[found].toTensor(), expected)) << signature;
            EXPECT_TRUE(at::equal(indexed[found].toTensor(), expected)) << signature;
            EXPECT_EQ(indexed[found].toTensor().requires_grad(), can_differ);
            ++found;
        }
        EXPECT_EQ(grouped.groups(), found);
        const sab::Collection back = regrouped.ungroup();
        for (std::size_t i = 0; i < count; ++i)
            EXPECT_TRUE(at::equal(back[i].toTensor(), samples[i])) << signature;
    }
}

/// A smooth function of a batch that mixes dimensions, made of its valid places only.
at::Tensor model(const at::Tensor& x, const at::Tensor& mask, const at::Tensor& weight) {
    const at::Tensor hidden = at::tanh(at::matmul(x, weight));
    return (hidden * mask.unsqueeze(-1)).sum(1);
}

TEST_F(Collections, Gradients_OfGroups_AreThoseOfSamplesAlone) {
    const at::Tensor weight = tracked(at::rand({4, 5}, at::kDouble));
    Tensors samples;
    for (const int64_t length : {3, 1, 7, 0, 2, 7, 5})
        samples.push_back(tracked(at::rand({length, 4}, at::kDouble)));
    const sab::Collection collection(samples, "(B, L_sequence, M_in)", 9.0);
    const sab::Collection outputs =
        collection.group(collection.grouping({{"sequence", {2, 5}}}))
            .apply([&](const IValue& x,
                       const at::Tensor& mask) { return model(x.toTensor(), mask, weight); },
                   "(B, M_out)", "sequence");
    const at::Tensor all = outputs.group(sab::Grouping::uni(samples.size()))[0].toTensor();
    Tensors alone;
    for (const at::Tensor& sample : samples)
        alone.push_back(at::tanh(at::matmul(sample, weight)).sum(0));
    const at::Tensor expected = at::stack(alone);
    EXPECT_TRUE(at::allclose(all, expected));
    const at::Tensor coefficients = at::rand(all.sizes(), at::kDouble);
    const at::Tensor loss = (all * all * coefficients).sum(),
                     loss_alone = (expected * expected * coefficients).sum();
    EXPECT_TRUE(at::allclose(gradient(loss, weight), gradient(loss_alone, weight)));
    for (const at::Tensor& sample : samples)
        EXPECT_TRUE(at::allclose(gradient(loss, sample), gradient(loss_alone, sample)));
    // Also of gradients.
    const at::Tensor first = gradient(loss, samples[2], true),
                     first_alone = gradient(loss_alone, samples[2], true);
    EXPECT_TRUE(at::allclose(gradient(first.pow(2).sum(), samples[2]),
                             gradient(first_alone.pow(2).sum(), samples[2])));
}

TEST_F(Collections, Gradients_ThroughUngroup_AreThoseOfSamplesAlone) {
    Tensors samples;
    for (const int64_t length : {2, 4, 1})
        samples.push_back(tracked(at::rand({length, 2}, at::kDouble)));
    const sab::Collection collection(samples, "(B, L_a, M)");
    const sab::Collection back =
        collection.group(collection.grouping({{"a", {2}}}))
            .apply([](const IValue& x) { return x.toTensor() * x.toTensor(); }, "(B, L_a, M)")
            .ungroup();
    for (std::size_t i = 0; i < 3; ++i) {
        EXPECT_TRUE(at::equal(back[i].toTensor(), samples[i] * samples[i]));
        EXPECT_TRUE(at::allclose(gradient(back[i].toTensor().sum(), samples[i]), 2 * samples[i]));
    }
    EXPECT_FALSE(gradient(back[0].toTensor().sum(), samples[1]).defined() &&
                 gradient(back[0].toTensor().sum(), samples[1]).abs().sum().item<double>() != 0);
}

TEST_F(Collections, Gradients_OfPaddings_AreCollected) {
    const at::Tensor a = tracked(at::rand({2, 3}, at::kDouble)),
                     b = tracked(at::rand({4, 3}, at::kDouble)),
                     value = tracked(at::rand({3}, at::kDouble));
    const sab::Grouping all = sab::Grouping::uni(2);
    const at::Tensor repeated =
        sab::Collection(Tensors{a, b}, "(B, L_a, 3)", "repeat").group(all)[0].toTensor();
    EXPECT_TRUE(at::equal(repeated[0][3], a[1]));
    EXPECT_TRUE(at::equal(gradient(repeated.sum(), a).narrow(1, 0, 1).reshape({2}),
                          at::tensor({1.0, 3.0}, at::kDouble)));
    const at::Tensor constant =
        sab::Collection(Tensors{a, b}, "(B, L_a, 3)", value).group(all)[0].toTensor();
    EXPECT_TRUE(at::equal(constant[0][2], value));
    EXPECT_TRUE(at::equal(gradient(constant.sum(), value), at::full({3}, 2.0, at::kDouble)));
    EXPECT_TRUE(at::equal(gradient(constant.sum(), a), at::ones({2, 3}, at::kDouble)));
    // Groups that need no padding, each of another length.
    const sab::Collection apart = sab::Collection(Tensors{a, b}, "(B, L_a, 3)", "repeat")
                                      .group(sab::Grouping::consecutive({1, 1}));
    EXPECT_TRUE(at::equal(apart[0].toTensor()[0], a) && at::equal(apart[1].toTensor()[0], b));
    EXPECT_TRUE(at::equal(gradient(apart[1].toTensor().sum(), b), at::ones({4, 3}, at::kDouble)));
    const at::Tensor integers =
        sab::Collection(Tensors{at::ones({1}, at::kInt), at::ones({3}, at::kInt)}, "(B, L_a)", 7)
            .group(all)[0]
            .toTensor();
    EXPECT_TRUE(at::equal(integers, at::tensor({1, 7, 7, 1, 1, 1}, at::kInt).view({2, 3})));
}

TEST_F(Collections, Masks_AreTrueWithinAllLengths) {
    const sab::Collection collection(
        std::vector<IValue>{sab::dictionary({{"x", at::rand({2, 5, 3})}, {"y", at::rand({3, 4})}}),
                            sab::dictionary({{"x", at::rand({4, 5, 1})}, {"y", at::rand({1, 4})}})},
        sab::dictionary({{"x", "(B, L_a, M, L_b)"}, {"y", "(L_b, B, 4)"}}));
    const sab::Collection grouped = collection.group(sab::Grouping::uni(2));
    EXPECT_TRUE(at::equal(grouped.mask(0, "a"),
                          at::arange(4).unsqueeze(0) < at::tensor({2, 4}).unsqueeze(1)));
    const at::Tensor both = grouped.mask(0, "b, a");
    EXPECT_EQ(both.sizes(), at::IntArrayRef({2, 3, 4}));
    EXPECT_EQ(both.sum().item<int64_t>(), 2 * 3 + 4 * 1);
    const auto masks = grouped.masks(0).toGenericDict();
    EXPECT_TRUE(at::equal(masks.at("x").toTensor(),
                          both.permute({0, 2, 1}).unsqueeze(2).expand({2, 4, 5, 3})));
    EXPECT_TRUE(at::equal(masks.at("y").toTensor(),
                          grouped.mask(0, "b").t().unsqueeze(2).expand({3, 2, 4})));
    expect_refused([&] { grouped.mask(0, "c"); }, {"names", "\"c\""});
    expect_refused([&] { grouped.mask(1, "a"); }, {"group = 1"});
    expect_refused([&] { collection.mask(0, "a"); }, {"not grouped"});
}

TEST_F(Collections, Training_InGroups_LosesWhatItLosesPadded) {
    // Lengths 1, 4, 16, 64, each as often as it is short; embedding, linear map, maximum over valid
    // places, linear map.
    std::mt19937 random(3);
    std::discrete_distribution<int> law({64, 16, 4, 1});
    const at::Tensor embedding = at::rand({8, 16}), linear = at::rand({16, 16}),
                     projection = at::rand({16, 1});
    Tensors samples;
    for (int i = 0; i < 256; ++i)
        samples.push_back(at::randint(0, 8, {int64_t{1} << 2 * law(random)}, at::kLong));
    const at::Tensor targets = at::randint(0, 2, {256}, at::kFloat);
    const auto train = [&](const std::vector<double>& thresholds) {
        Tensors weights{tracked(embedding), tracked(linear), tracked(projection)};
        std::vector<double> losses;
        for (int step = 0; step < 5; ++step) {
            const sab::Collection collection(samples, "(B, L_sequence)");
            const sab::Collection grouped = collection.group(
                thresholds.empty() ? sab::Grouping::uni(256)
                                   : collection.grouping({{"sequence", thresholds}}));
            const sab::Collection outputs = grouped.apply(
                [&](const IValue& x, const at::Tensor& mask) {
                    const at::Tensor hidden =
                        at::matmul(at::embedding(weights[0], x.toTensor()), weights[1]);
                    return at::matmul(
                               std::get<0>(hidden
                                               .masked_fill(mask.unsqueeze(-1).logical_not(),
                                                            -std::numeric_limits<float>::infinity())
                                               .max(1)),
                               weights[2])
                        .select(1, 0);
                },
                "(B)", "sequence");
            const at::Tensor loss =
                (targets - outputs.group(sab::Grouping::uni(256))[0].toTensor()).pow(2).mean();
            losses.push_back(loss.item<double>());
            loss.backward();
            for (at::Tensor& weight : weights)
                weight = tracked((weight - 0.001 * weight.grad()).detach());
        }
        return losses;
    };
    const std::vector<double> padded = train({}), grouped = train({1, 4, 16});
    for (std::size_t step = 0; step < padded.size(); ++step)
        EXPECT_NEAR(grouped[step], padded[step], 1e-5 * padded[step]);
    EXPECT_LT(grouped.back(), grouped.front());
}

TEST_F(Collections, NothingAndOne_Work) {
    const sab::Collection none(Tensors{}, "(B, L_a)");
    EXPECT_EQ(none.samples(), 0u);
    EXPECT_EQ(none.group(none.grouping({{"a", {3}}})).groups(), 0u);
    EXPECT_EQ(none.group(sab::Grouping::uni(0)).ungroup().size(), 0u);
    const sab::Collection one(Tensors{at::rand({0, 3})}, "(B, L_a, M)");
    EXPECT_EQ(one.group(sab::Grouping::uni(1))[0].toTensor().sizes(), at::IntArrayRef({1, 0, 3}));
    const sab::Collection scalars(Tensors{at::ones({}), at::zeros({})}, "(B)");
    EXPECT_TRUE(
        at::equal(scalars.group(sab::Grouping::uni(2))[0].toTensor(), at::tensor({1.0f, 0.0f})));
    EXPECT_EQ(scalars.group(sab::Grouping::uni(2)).ungroup()[0].toTensor().dim(), 0);
}

TEST_F(Collections, WrongUse_IsRefusedWithItsReason) {
    const Tensors two{at::rand({2, 3}), at::rand({4, 3})};
    expect_refused([&] { sab::Collection(two, "B, L_a"); }, {"leaves[0].signature", "parentheses"});
    expect_refused([&] { sab::Collection(two, "(L_a, 3)"); }, {"B exactly once"});
    expect_refused([&] { sab::Collection(two, "(B, L_a, x)"); }, {"\"x\""});
    expect_refused([&] { sab::Collection(two, "(B, L_a, 4)"); },
                   {"leaves[0].tensors[0]: has size 3", "must be 4"});
    expect_refused([&] { sab::Collection(two, "(B, M_a, 3)"); },
                   {"leaves[0].tensors[1]: has size 4", "must be 2"});
    expect_refused([&] { sab::Collection(two, "(B, L_a)"); }, {"shape (2, 3)", "1 dimensions"});
    expect_refused([&] { sab::Collection(Tensors{two[0], two[1].to(at::kDouble)}, "(B, L_a, 3)"); },
                   {"tensors[1]", "dtype Double"});
    expect_refused([&] { sab::Collection(Tensors{at::ones({2}, at::kInt)}, "(B, L_a)", 0.5); },
                   {"value = 0.5", "Int"});
    expect_refused([&] { sab::Collection(two, "(B, L_a, 3)", at::rand({4})); },
                   {"shape (4)", "(3)"});
    expect_refused(
        [&] {
            sab::Collection(std::vector<IValue>{sab::tuple({two[0], two[1]})},
                            sab::tuple({"(B, L_a, 3)", "(B, L_a, 3)"}));
        },
        {"L_a", "must be 2", "leaves[0]"});
    EXPECT_THROW(sab::Collection(std::vector<IValue>{two[0]}, sab::tuple({"(B)"})),
                 std::invalid_argument);
    const sab::Collection collection(two, "(B, L_a, 3)");
    expect_refused([&] { collection.group(sab::Grouping::uni(3)); }, {"3 samples", "2"});
    expect_refused([&] { collection.grouping({{"b", {1}}}); }, {"name = \"b\""});
    expect_refused([&] { collection.ungroup(); }, {"not grouped"});
    expect_refused([&] { collection[2]; }, {"index = 2"});
    const sab::Collection grouped = collection.group(sab::Grouping::consecutive({1, 1}));
    const auto give = [&](const at::Tensor& tensor, const char* signature) {
        return [=] { grouped.apply([&](const IValue&) { return tensor; }, signature); };
    };
    expect_refused(
        give(at::rand({2, 3}), "(B, 3)"),
        {"tensors[0]: has size 2 along B", "must be the number of samples of its group, 1"});
    expect_refused(give(at::rand({1, 3}), "(B, L_c)"), {"no length \"c\""});
    expect_refused(give(at::rand({1, 3}), "(B, L_a)"),
                   {"tensors[1]: has size 3 along L_a", "such as 4 of sample 1"});
    expect_refused(give(at::rand({1}), "(B, L_a)"), {"tensors[0]: has shape (1)", "2 dimensions"});
}

sab_torch_tensor* native(at::Tensor& tensor) {
    return reinterpret_cast<sab_torch_tensor*>(&tensor);
}

TEST_F(Collections, Tensors_AreLetGoOf_AndRefusedOnesNotKept) {
    at::Tensor sample = at::rand({2, 2}), other = at::rand({1, 2}), value = at::rand({2});
    sab_torch_tensor* given[] = {native(sample), native(other), native(sample)};
    sab_torch_leaf leaves[2] = {SAB_TORCH_LEAF_INIT, SAB_TORCH_LEAF_INIT};
    for (sab_torch_leaf& leaf : leaves) {
        leaf.signature = "(B, L_a, 2)";
        leaf.tensors = given;
        leaf.value_tensor = native(value);
    }
    leaves[0].path = "x";
    sab_torch_collection *collection = nullptr, *grouped = nullptr;
    const auto refused = [&](const char* why) {
        EXPECT_EQ(sab_torch_collection_new(leaves, 2, 3, &collection), SAB_E_ARGUMENT);
        EXPECT_NE(std::string(sab_last_error_message()).find(why), std::string::npos)
            << sab_last_error_message();
        expect_parts();
        EXPECT_EQ(sample.use_count(), 1u);
    };
    for (const char* path : {"x", "", "x/y", "x//"}) {
        leaves[1].path = path;
        refused("cannot stand beside");
    }
    leaves[1].path = "xy";
    leaves[1].signature = "(B, L_a, 3)";
    refused("(3)");
    leaves[1].signature = "(B, L_a, L_b, 2)";
    refused("must have 3 dimensions");
    leaves[1].signature = "(B, L_b, 2)";
    leaves[1].padding = 7;
    refused("padding = 7");
    leaves[1].padding = SAB_PADDING_REPEAT;
    given[1] = nullptr;
    refused("leaves[0].tensors[1] = NULL: must be given");
    given[1] = native(other);
    leaves[1].struct_size = 4;
    refused("leaves[1].struct_size = 4");
    leaves[1].struct_size = sizeof(sab_torch_leaf);
    ASSERT_EQ(sab_torch_collection_new(leaves, 2, 3, &collection), SAB_OK)
        << sab_last_error_message();
    EXPECT_GT(sample.use_count(), 1u);
    sab_grouping* grouping = nullptr;
    const uint64_t all = 3;
    ASSERT_EQ(sab_grouping_partition_new(nullptr, &all, 1, &grouping), SAB_OK);
    ASSERT_EQ(sab_torch_collection_grouped_new(collection, grouping, &grouped), SAB_OK)
        << sab_last_error_message();
    sab_grouping_free(grouping);
    sab_torch_collection_free(collection);
    EXPECT_EQ(sample.use_count(), 1u);
    EXPECT_GT(value.use_count(), 1u);  // the padding lives on
    sab_torch_collection_free(grouped);
    EXPECT_EQ(value.use_count(), 1u);
}

TEST_F(Collections, LeavesOfALaterVersion_PassWithZeroesOnly) {
    struct Later {
        sab_torch_leaf leaf;
        uint64_t more;
    };
    at::Tensor sample = at::rand({2});
    auto* pointer = reinterpret_cast<sab_torch_tensor*>(&sample);
    Later leaves[2] = {{SAB_TORCH_LEAF_INIT, 0}, {SAB_TORCH_LEAF_INIT, 0}};
    for (Later& each : leaves) {
        each.leaf.struct_size = sizeof each;
        each.leaf.path = &each == leaves ? "a" : "b";
        each.leaf.signature = "(B, L_a)";
        each.leaf.tensors = &pointer;
    }
    sab_torch_collection* collection = nullptr;
    ASSERT_EQ(sab_torch_collection_new(&leaves[0].leaf, 2, 1, &collection), SAB_OK)
        << sab_last_error_message();
    sab_torch_collection_info info = SAB_TORCH_COLLECTION_INFO_INIT;
    EXPECT_EQ(sab_torch_collection_get_info(collection, &info), SAB_OK);
    EXPECT_EQ(info.leaves, 2u);
    sab_torch_collection_free(collection);
    leaves[1].more = 1;
    EXPECT_EQ(sab_torch_collection_new(&leaves[0].leaf, 2, 1, &collection), SAB_E_ARGUMENT);
    EXPECT_NE(std::string(sab_last_error_message()).find("leaves[1].struct_size"),
              std::string::npos);
    leaves[0].leaf.struct_size = sizeof(Later) - 1;
    EXPECT_EQ(sab_torch_collection_new(&leaves[0].leaf, 2, 1, &collection), SAB_E_ARGUMENT);
    EXPECT_NE(std::string(sab_last_error_message()).find("multiple of 8"), std::string::npos)
        << sab_last_error_message();
}

TEST_F(Collections, ViewsOfAnyKind_AreWhatTheyStandFor) {
    const at::Tensor numbers = at::rand({3, 2, 2}, at::kComplexDouble),
                     value = at::rand({2}, at::kComplexDouble);
    const std::vector<std::function<at::Tensor(const at::Tensor&)>> views{
        [](const at::Tensor& x) { return x.conj(); },
        [](const at::Tensor& x) { return x.is_complex() ? at::imag(x.conj()) : x; },
        [](const at::Tensor& x) { return x.dim() > 1 ? x.transpose(-1, -2) : x; },
        [](const at::Tensor& x) { return x.select(0, 0).unsqueeze(0).expand_as(x); }};
    for (const auto& view : views) {
        const sab::Collection collection(Tensors{view(numbers[0]), view(numbers[1]).narrow(0, 0, 1),
                                                 view(numbers[2]).narrow(0, 0, 0)},
                                         "(B, L_a, 2)", view(value));
        const at::Tensor expected = stacked(
            {view(numbers[0]), view(numbers[1]).narrow(0, 0, 1), view(numbers[2]).narrow(0, 0, 0)},
            0, view(value).clone());
        const sab::Collection grouped = collection.group(sab::Grouping::uni(3));
        EXPECT_TRUE(at::equal(grouped[0].toTensor(), expected));
        const sab::Collection made =
            grouped.apply([&](const IValue& x) { return view(x.toTensor()); }, "(B, M, M)");
        for (std::size_t i = 0; i < 3; ++i)
            EXPECT_TRUE(at::equal(made.ungroup()[i].toTensor(),
                                  view(grouped[0].toTensor())[static_cast<int64_t>(i)]));
    }
    EXPECT_THROW(
        sab::Collection(Tensors{at::quantize_per_tensor(at::rand({3}), 0.1, 0, at::kQInt8)},
                        "(B, L_a)"),
        sab::Error);
}

TEST_F(Collections, GradientsOfAnyKind_ComeBack) {
    Tensors samples;
    for (const int64_t length : {3, 1, 2})
        samples.push_back(tracked(at::rand({length, 2}, at::kDouble)));
    const sab::Collection grouped =
        sab::Collection(samples, "(B, L_a, 2)").group(sab::Grouping::consecutive({2, 1}));
    const at::Tensor first = grouped[0].toTensor(), second = grouped[1].toTensor();
    const auto expect_ones = [](const at::Tensor& given, const at::Tensor& of) {
        EXPECT_TRUE(at::equal(given, at::ones_like(of)));
    };
    // expanded, twice
    for (int time = 0; time < 2; ++time) expect_ones(gradient(first.sum(), samples[1]), samples[1]);
    expect_ones(
        gradient((first.transpose(1, 2) * at::ones({2, 2, 3}, at::kDouble)).sum(), samples[0]),
        samples[0]);
    // the other group's
    EXPECT_EQ(gradient(first.sum(), samples[2]).abs().sum().item<double>(), 0);
    const at::Tensor rows = at::zeros({1, 1, 2}, at::kLong);
    const at::Tensor sparse = gradient(at::gather(second, 1, rows, true).sum(), samples[2]);
    EXPECT_TRUE(at::equal(sparse, at::tensor({1.0, 1.0, 0.0, 0.0}, at::kDouble).view({2, 2})));
    int hooked = 0;
    first.register_hook([&](const at::Tensor&) { ++hooked; });
    const sab::Collection back = grouped.ungroup();
    expect_ones(gradient(back[0].toTensor().sum() + back[2].toTensor().sum(), samples[2]),
                samples[2]);
    EXPECT_EQ(gradient(back[0].toTensor().sum(), samples[1]).abs().sum().item<double>(), 0);
    EXPECT_EQ(hooked, 2);
    const sab::Collection twice(Tensors{samples[0], samples[0]}, "(B, L_a, 2)");
    EXPECT_TRUE(
        at::equal(gradient(twice.group(sab::Grouping::uni(2))[0].toTensor().sum(), samples[0]),
                  at::full({3, 2}, 2.0, at::kDouble)));
    {
        const c10::InferenceMode inference;
        EXPECT_FALSE(grouped.group(sab::Grouping::uni(3)).ungroup()[1].toTensor().requires_grad());
    }
    at::Tensor changed = grouped.group(sab::Grouping::uni(3))[0].toTensor();  // no view of anything
    changed.mul_(2);
    EXPECT_TRUE(at::equal(gradient(changed.sum(), samples[1]), at::full({1, 2}, 2.0, at::kDouble)));
}

TEST_F(Collections, ForwardGradients_GoThroughAllMoves) {
    const uint64_t level = torch::autograd::ForwardADLevel::get_next_idx();
    {
        Tensors primals, tangents, samples;
        for (const int64_t length : {3, 1, 2}) {
            primals.push_back(at::rand({length, 2}));
            tangents.push_back(at::rand({length, 2}));
            samples.push_back(
                at::_make_dual(primals.back(), tangents.back(), static_cast<int64_t>(level)));
        }
        const sab::Collection grouped = sab::Collection(samples, "(L_a, B, 2)")
                                            .group(sab::Grouping::consecutive({2, 1}))
                                            .group(sab::Grouping::consecutive({1, 2}));
        EXPECT_TRUE(at::equal(
            std::get<1>(at::_unpack_dual(grouped[1].toTensor(), static_cast<int64_t>(level))),
            stacked({tangents[1], tangents[2]}, 1, at::zeros({}))));
        const sab::Collection back = grouped.ungroup();
        for (std::size_t i = 0; i < 3; ++i) {
            EXPECT_TRUE(at::equal(back[i].toTensor(), primals[i]));
            EXPECT_TRUE(at::equal(
                std::get<1>(at::_unpack_dual(back[i].toTensor(), static_cast<int64_t>(level))),
                tangents[i]));
        }
    }
    torch::autograd::ForwardADLevel::release_idx(level);
}

TEST_F(Collections, Signatures_AreReadWithBlanks_AndKeptAsTheyWere) {
    const Tensors two{at::rand({2, 3}), at::rand({4, 3})};
    EXPECT_EQ(sab::Collection(two, "(\tB ,L_a,\n 3 , )")
                  .group(sab::Grouping::uni(2))
                  .mask(0, " a ")
                  .sum()
                  .item<int64_t>(),
              6);
    expect_refused([&] { sab::Collection(two, "(B,, L_a, 3)"); }, {"\"\" must be B"});
    expect_refused([&] { sab::Collection(two, "()"); }, {"\"\" must be B"});
    EXPECT_EQ(sab::Collection(Tensors{at::rand({3, 3})}, "(B, L_a, L_a)")
                  .group(sab::Grouping::uni(1))
                  .mask(0, "a,a")
                  .dim(),
              3);
    expect_refused([&] { sab::Collection(two, "(B, L_a, L_a)"); },
                   {"size 3 along L_a", "must be 2"});

    const std::vector<IValue> samples{sab::dictionary({{"größe/x", two[0]}, {"", two[0]}})};
    expect_refused(
        [&] {
            sab::Collection(samples,
                            sab::dictionary({{"größe/x", "(B, L_a, 3)"}, {"", "(B, L_a, 3)"}}));
        },
        {"cannot stand beside"});
    c10::impl::GenericDict signature(c10::StringType::get(), c10::AnyType::get());
    signature.insert("größe/x", "(B, L_a, 3)");
    const sab::Collection collection(samples, signature);
    signature.insert("more", "(B)");
    EXPECT_EQ(collection.group(sab::Grouping::uni(1))[0].toGenericDict().size(), 1u);
    c10::impl::GenericDict by_number(c10::IntType::get(), c10::AnyType::get());
    by_number.insert(1, "(B)");
    EXPECT_THROW(sab::Collection(samples, by_number), std::invalid_argument);
    EXPECT_THROW(sab::Collection(std::vector<IValue>{by_number}, sab::dictionary({{"x", "(B)"}})),
                 std::invalid_argument);
    EXPECT_THROW(
        sab::Collection(Tensors{at::ones({1}, at::kLong)}, "(B, L_a)", (int64_t{1} << 53) + 1),
        std::invalid_argument);
    EXPECT_THROW(sab::Collection(samples, sab::dictionary({})), std::invalid_argument);
    struct Own {};
    const sab::Collection grouped = collection.group(sab::Grouping::uni(1));
    EXPECT_THROW(grouped.apply([](const IValue&) -> IValue { throw Own(); }, "(B)"), Own);
    EXPECT_EQ(grouped.groups(), 1u);
}

TEST_F(Collections, SharedByThreads_AndAfterFork_GroupsTheSame) {
    Tensors samples;
    for (int64_t i = 0; i < 300; ++i) samples.push_back(tracked(at::rand({1 + i % 40, 400})));
    const sab::Collection collection(samples, "(B, L_a, M)");
    const sab::Grouping grouping = sab::Grouping::uni(300);
    const at::Tensor expected = collection.group(grouping)[0].toTensor().detach();
    std::vector<std::thread> threads;
    std::atomic<int> same{0};
    for (int t = 0; t < 3; ++t)
        threads.emplace_back([&] {
            const at::Tensor mine =
                collection.group(grouping).ungroup().group(grouping)[0].toTensor();
            if (at::equal(mine, expected) &&
                torch::autograd::grad({mine.sum()}, samples).size() == samples.size())
                ++same;
        });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(same, 3);
    const pid_t child = fork();
    if (child == 0)
        _exit(std::memcmp(collection.group(grouping)[0].toTensor().data_ptr(), expected.data_ptr(),
                          static_cast<std::size_t>(expected.numel()) * 4) == 0
                  ? 0
                  : 1);
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
}

TEST_F(Collections, ManyBytes_InThreads_AreTheSame) {
    Tensors samples;
    for (int64_t i = 0; i < 400; ++i) samples.push_back(at::rand({1 + i % 97, 100}));
    const sab::Collection collection(samples, "(B, L_a, M)");
    EXPECT_TRUE(at::equal(collection.group(sab::Grouping::uni(400))[0].toTensor(),
                          stacked(samples, 0, at::zeros({}))));
    const sab::Collection back = collection.group(collection.grouping({{"a", {20, 50}}})).ungroup();
    for (std::size_t i = 0; i < samples.size(); ++i)
        ASSERT_TRUE(at::equal(back[i].toTensor(), samples[i]));
}

}  // namespace
