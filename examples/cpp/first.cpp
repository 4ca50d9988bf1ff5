// The first example in C++.
#include <cstdint>
#include <cstdio>
#include <sab.hpp>
#include <vector>

int main() {
    const std::vector<std::int32_t> tokens = {12, 7, 30, 8, 9, 31, 7, 12, 29, 8};
    const sab_budget budget = {nullptr, 64, {}};  // padded tokens of a batch
    sab::PlanOptions options;
    options.budgets = &budget;
    options.budget_count = 1;
    const sab::Plan plan(sab::Sizes(tokens), options);

    sab::BucketSampler sampler(plan);
    std::uint64_t samples = 0;
    for (const sab::Batch& batch : sampler) {
        if (batch.padded_total() > budget.limit) return 1;
        samples += batch.count;
    }
    std::printf("%llu samples\n", static_cast<unsigned long long>(samples));
    return samples == tokens.size() ? 0 : 1;
}
