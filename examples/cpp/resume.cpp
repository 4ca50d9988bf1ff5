// Two ranks train and stop in the middle of an epoch. Four ranks continue: each sample is seen
// once.
#include <cstdint>
#include <cstdio>
#include <sab.hpp>
#include <vector>

namespace {

// One rank runs at most `steps` steps from `state` on. Returns its state afterwards.
std::vector<unsigned char> train(const sab::Plan& plan, std::uint64_t rank,
                                 std::uint64_t world_size, std::uint64_t steps,
                                 const std::vector<unsigned char>& state, std::vector<int>& seen) {
    sab::SamplerOptions options;
    options.rank = rank;
    options.world_size = world_size;
    sab::BucketSampler sampler(plan, options);
    if (!state.empty()) sampler.restore(state);
    sab::Batch batch;
    for (std::uint64_t step = 0; step < steps && sampler.next(batch); ++step) {
        for (const std::int64_t index : batch) ++seen[static_cast<std::size_t>(index)];
    }
    return sampler.state();  // the same bytes on every rank
}

}  // namespace

int main() {
    std::vector<std::int32_t> tokens(1000);
    for (std::size_t i = 0; i < tokens.size(); ++i)
        tokens[i] = static_cast<std::int32_t>(1 + i * 7919 % 97);

    sab_budget budget = {nullptr, 1024, {}};  // padded tokens of a batch
    sab::PlanOptions options;
    options.budgets = &budget;
    options.budget_count = 1;
    const sab::Plan plan(sab::Sizes(tokens), options);
    std::printf("padding %.1f %%\n", 100 * plan.report().padding);

    std::vector<int> seen(tokens.size());
    std::vector<unsigned char> stopped;
    for (std::uint64_t rank = 0; rank < 2; ++rank) stopped = train(plan, rank, 2, 10, {}, seen);
    for (std::uint64_t rank = 0; rank < 4; ++rank) train(plan, rank, 4, UINT64_MAX, stopped, seen);
    for (const int times : seen)
        if (times != 1) return 1;
    std::printf("%zu samples, each seen once\n", seen.size());

    try {
        budget.limit = -1;
        const sab::Plan refused(sab::Sizes(tokens), options);
    } catch (const sab::Error& error) {
        std::printf("refused: %s\n", error.what());
    }
    return 0;
}
