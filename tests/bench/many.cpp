/// More samples than int32_t counts: bench_many [COUNT], by default 2^31 + 1,000 of one byte each.
/// Plans them, walks an epoch, and checks that each sample appeared once. Takes 5.2 bytes a sample.
#include <sab.h>

#include "../c/budgets.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

namespace {

void check(sab_status status) {
    if (status >= 0) return;
    std::fprintf(stderr, "bench_many: %s\n", sab_last_error_message());
    std::exit(1);
}

/// The most memory that the process has had, in GiB.
double most_memory() {
    std::ifstream lines("/proc/self/status");
    for (std::string line; std::getline(lines, line);)
        if (line.rfind("VmHWM:", 0) == 0) return std::atof(line.c_str() + 6) / (1 << 20);
    return 0;
}

class Clock {
public:
    void print(const char* what) {
        const auto now = std::chrono::steady_clock::now();
        std::printf("%s: %.1f s, most memory so far %.2f GiB\n", what,
                    std::chrono::duration<double>(now - begin_).count(), most_memory());
        std::fflush(stdout);
        begin_ = std::chrono::steady_clock::now();
    }

private:
    std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace

int main(int argc, char** argv) {
    const std::size_t count =
        argc > 1 ? static_cast<std::size_t>(std::atof(argv[1])) : (std::size_t{1} << 31) + 1000;
    Clock clock;
    std::vector<uint8_t> lengths(count);
    uint64_t state = 88172645463325252u;
    for (uint8_t& length : lengths) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        length = static_cast<uint8_t>(1 + (state >> 32) * 250 / (uint64_t{1} << 32));
    }
    clock.print("lengths");
    sab_sizes* sizes = nullptr;
    sab_plan* plan = nullptr;
    check(sab_sizes_new(lengths.data(), count, SAB_UINT8, nullptr, &sizes));
    sab_plan_options options = SAB_PLAN_OPTIONS_INIT;
    SET_BUDGET(options, 16384);
    check(sab_plan_new(sizes, &options, &plan));
    clock.print("plan");

    sab_sampler* sampler = nullptr;
    check(sab_bucket_sampler_new(plan, nullptr, &sampler));
    std::vector<uint64_t> seen(count / 64 + 1);
    sab_batch batch = SAB_BATCH_INIT;
    std::size_t once = 0, batches = 0, wrong_totals = 0;
    int64_t largest = 0;
    sab_status status = SAB_OK;
    for (; (status = sab_next_batch(sampler, &batch)) == SAB_OK; ++batches) {
        double total = 0;
        for (uint64_t i = 0; i < batch.count; ++i) {
            const auto index = static_cast<std::size_t>(batch.indices[i]);
            const uint64_t bit = uint64_t{1} << index % 64;
            once += (seen[index / 64] & bit) == 0;
            seen[index / 64] |= bit;
            largest = std::max(largest, batch.indices[i]);
            total += lengths[index];
        }
        wrong_totals += total != *batch.total;
    }
    check(status);
    clock.print("epoch and its check");
    std::printf(
        "%zu samples, of which %zu appeared; %zu batches, %zu with a wrong total; "
        "the largest index is %lld\n",
        count, once, batches, wrong_totals, static_cast<long long>(largest));
    sab_sampler_free(sampler);
    sab_plan_free(plan);
    sab_sizes_free(sizes);
    return once == count && wrong_totals == 0 ? 0 : 1;
}
