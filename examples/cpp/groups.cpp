// Sentences of very different lengths through a model, group by group: the same losses as with one
// padded batch, and how much of the padding is gone. flags: -ltorch -ltorch_cpu -lc10
#include <ATen/Functions.h>
#include <sab/torch.hpp>

#include <cmath>
#include <cstdio>
#include <limits>
#include <random>

int main() {
    if (sab_torch_open(nullptr, nullptr) != SAB_OK)
        return std::fprintf(stderr, "%s\n", sab_last_error_message()), 1;
    std::mt19937 random(1);
    // lengths 1, 4, 16, 64, each as often as it is short
    std::discrete_distribution<int> law({64, 16, 4, 1});
    std::vector<at::Tensor> sentences;
    for (int i = 0; i < 256; ++i)
        sentences.push_back(at::randint(0, 8, {int64_t{1} << 2 * law(random)}, at::kLong));
    const at::Tensor embedding = at::rand({8, 64}).set_requires_grad(true),
                     weight = at::rand({64, 1}).set_requires_grad(true);
    const auto model = [&](const c10::IValue& tokens, const at::Tensor& mask) {
        const at::Tensor hidden = at::embedding(embedding, tokens.toTensor())
                                      .masked_fill(mask.logical_not().unsqueeze(-1),
                                                   -std::numeric_limits<float>::infinity());
        // the maximum over a sentence's own places
        return at::matmul(std::get<0>(hidden.max(1)), weight).select(1, 0);
    };

    const sab::Collection batch(sentences, "(B, L_sentence)");
    double losses[2];
    int64_t places[2] = {0, 0};
    for (int way = 0; way < 2; ++way) {
        const sab::Collection grouped =
            batch.group(way == 0 ? sab::Grouping::uni(sentences.size())
                                 : batch.grouping({{"sentence", {1, 4, 16}}}));
        const sab::Collection outputs = grouped.apply(model, "(B)", "sentence");
        const at::Tensor in_order =
            outputs.group(sab::Grouping::uni(sentences.size()))[0].toTensor();
        const at::Tensor loss = in_order.pow(2).mean();
        loss.backward();
        losses[way] = loss.item<double>();
        for (std::size_t g = 0; g < grouped.groups(); ++g)
            places[way] += grouped[g].toTensor().numel();
    }
    std::printf("loss %.6f in one batch of %lld places, %.6f in groups of %lld\n", losses[0],
                static_cast<long long>(places[0]), losses[1], static_cast<long long>(places[1]));
    return std::abs(losses[0] - losses[1]) < 1e-5 * losses[0] && places[1] < places[0] ? 0 : 1;
}
