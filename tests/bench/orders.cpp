/// Whether the cost of a sample grows with their number: bench_orders COUNT...
/// Prints one JSON object a line.
///
/// Log-normal lengths of 16 bits are planned and walked in batches of 16,384 tokens. The floor is a
/// Fisher-Yates shuffle inside the plan's buckets, in sequence, and a copy to 64-bit indices. Every
/// figure is the least of several rounds, in which the things compared take turns.
#include <sab.h>

#include "../c/budgets.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace {

void check(sab_status status) {
    if (status >= 0) return;
    std::fprintf(stderr, "bench_orders: %s\n", sab_last_error_message());
    std::exit(1);
}

template <class Work>
void time(double& least, Work&& work) {
    const auto start = std::chrono::steady_clock::now();
    work();
    least = std::min(
        least, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
}

/// A line of /proc/self/status in bytes.
double memory(const std::string& key) {
    std::ifstream file("/proc/self/status");
    for (std::string line; std::getline(file, line);)
        if (line.starts_with(key)) return std::atof(line.c_str() + key.size() + 1) * 1024;
    return 0;
}

void print(std::size_t count, const char* figure, double value, const char* unit) {
    std::printf("{\"samples\": %zu, \"figure\": \"%s\", \"value\": %.4g, \"unit\": \"%s\"}\n",
                count, figure, value, unit);
    std::fflush(stdout);
}

/// Lengths like those of texts. A table of them is drawn from, which is fast.
std::vector<uint16_t> some_lengths(std::size_t count) {
    std::mt19937_64 random(1);
    std::lognormal_distribution<> length(3.1, 0.8);
    std::vector<uint16_t> table(1 << 16), lengths(count);
    for (uint16_t& l : table)
        l = static_cast<uint16_t>(std::clamp(std::round(length(random)), 1.0, 2000.0));
    uint64_t state = 88172645463325252u;
    for (uint16_t& l : lengths) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        l = table[state >> 48];
    }
    return lengths;
}

/// The floor of an epoch, in seconds. Each bucket is shuffled where it begins.
double shuffled(const sab_plan* plan, std::size_t count, int rounds) {
    std::vector<uint32_t> order(count);
    std::vector<int64_t> out(count);
    for (std::size_t i = 0; i < count; ++i) order[i] = static_cast<uint32_t>(i);
    sab_plan_info info = SAB_PLAN_INFO_INIT;
    check(sab_plan_get_info(plan, &info));
    double least = std::numeric_limits<double>::infinity();
    uint64_t random = 88172645463325252u;
    for (int round = 0; round < rounds; ++round)
        time(least, [&] {
            uint32_t* first = order.data();
            for (std::size_t b = 0; b < info.buckets; ++b) {
                sab_bucket bucket = SAB_BUCKET_INIT;
                check(sab_plan_get_bucket(plan, b, &bucket));
                for (uint64_t i = bucket.samples; i > 1; --i) {  // xorshift64, multiply-high
                    random ^= random << 13;
                    random ^= random >> 7;
                    random ^= random << 17;
                    std::swap(first[i - 1], first[((random >> 32) * i) >> 32]);
                }
                first += bucket.samples;
            }
            std::copy(order.begin(), order.end(), out.begin());
        });
    return least;
}

void measure(std::size_t count) {
    const std::vector<uint16_t> lengths = some_lengths(count);
    const auto samples = static_cast<double>(count);
    const int rounds = count > 500'000'000 ? 1 : count > 50'000'000 ? 2 : 7;
    sab_sizes* sizes = nullptr;
    sab_plan* plan = nullptr;
    check(sab_sizes_new(lengths.data(), count, SAB_UINT16, nullptr, &sizes));
    sab_plan_options options = SAB_PLAN_OPTIONS_INIT;
    SET_BUDGET(options, 16384);
    for (const uint32_t threads : {2u, 1u}) {
        options.threads = threads;
        std::ofstream("/proc/self/clear_refs") << 5;
        const double before = memory("VmRSS");
        double made = std::numeric_limits<double>::infinity();
        for (int round = 0; round < rounds; ++round) {
            sab_plan_free(plan);
            time(made, [&] { check(sab_plan_new(sizes, &options, &plan)); });
        }
        const std::string with = threads == 1 ? "" : ", 2 threads";
        print(count, ("plan" + with).c_str(), made, "s");
        print(count, ("most memory while it is made" + with).c_str(),
              (memory("VmHWM") - before) / samples, "bytes a sample");
        print(count, ("memory of a plan" + with).c_str(), (memory("VmRSS") - before) / samples,
              "bytes a sample");
    }
    sab_sampler* sampler = nullptr;
    check(sab_bucket_sampler_new(plan, nullptr, &sampler));
    sab_batch batch = SAB_BATCH_INIT;
    double epoch = std::numeric_limits<double>::infinity();
    for (int round = 0; round < rounds; ++round) {
        check(sab_sampler_set_epoch(sampler, static_cast<uint64_t>(round)));
        time(epoch, [&] {
            while (sab_next_batch(sampler, &batch) == SAB_OK) {
            }
        });
    }
    print(count, "epoch", 1e9 * epoch / samples, "ns a sample");
    if (count < 50'000'000)
        print(count, "epoch over shuffling inside buckets and a copy",
              epoch / shuffled(plan, count, rounds), "times");
    sab_sampler_free(sampler);
    sab_plan_free(plan);
    sab_sizes_free(sizes);
}

}  // namespace

int main(int argc, char** argv) {
    for (int i = 1; i < argc; ++i) measure(static_cast<std::size_t>(std::atof(argv[i])));
}
