// The first example in C++: the C interface, with handles that free themselves.
// [first]
#include <sab.h>

#include <cstdint>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <vector>

template <auto free>
struct Free {
    template <class Handle>
    void operator()(Handle* handle) const {
        free(handle);
    }
};
using Sizes = std::unique_ptr<sab_sizes, Free<sab_sizes_free>>;
using Plan = std::unique_ptr<sab_plan, Free<sab_plan_free>>;
using Sampler = std::unique_ptr<sab_sampler, Free<sab_sampler_free>>;

void check(sab_status status) {
    if (status < 0) throw std::runtime_error(sab_last_error_message());
}

int main() {
    const std::vector<std::int32_t> tokens = {12, 7, 30, 8, 9, 31, 7, 12, 29, 8};
    sab_sizes* sizes = nullptr;
    check(sab_sizes_new(tokens.data(), tokens.size(), SAB_INT32, nullptr, &sizes));
    const Sizes sizes_owner(sizes);

    sab_plan_options options = SAB_PLAN_OPTIONS_INIT;
    options.budget = 64;
    sab_plan* plan = nullptr;
    check(sab_plan_new(sizes, &options, &plan));
    const Plan plan_owner(plan);

    sab_sampler* sampler = nullptr;
    check(sab_bucket_sampler_new(plan, nullptr, &sampler));
    const Sampler sampler_owner(sampler);

    std::uint64_t samples = 0;
    sab_batch batch = SAB_BATCH_INIT;
    while (sab_next_batch(sampler, &batch) == SAB_OK) {
        if (batch.padded_total > 64) return 1;
        samples += batch.count;
    }
    std::printf("%llu samples\n", static_cast<unsigned long long>(samples));
    return samples == tokens.size() ? 0 : 1;
}
// [end]
