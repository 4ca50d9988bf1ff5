/// The core against physical floors on the same machine in the same run: bench_core LENGTHS.npy.
/// Prints one JSON object a line.
///
/// Floors: a bare counting sort; a Fisher-Yates shuffle inside the plan's buckets, in sequence, and
/// a copy to 64-bit indices. Every figure is the least of several rounds, in which the things
/// compared take turns.
#include <sab.h>

#include "../c/budgets.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

namespace {

void check(sab_status status) {
    if (status >= 0) return;
    std::fprintf(stderr, "bench_core: %s\n", sab_last_error_message());
    std::exit(1);
}

class Least {
public:
    template <class Work>
    void time(Work&& work) {
        const auto start = std::chrono::steady_clock::now();
        work();
        seconds_ = std::min(
            seconds_,
            std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    double seconds() const { return seconds_; }

private:
    double seconds_ = std::numeric_limits<double>::infinity();
};

void print(const char* figure, double value, double limit, const char* unit) {
    std::printf("{\"figure\": \"%s\", \"value\": %.6g, \"limit\": %.6g, \"unit\": \"%s\"}\n",
                figure, value, limit, unit);
}

/// A line of /proc/self/status in bytes.
double memory(const char* key) {
    std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen("/proc/self/status", "r"),
                                                         std::fclose);
    char line[256];
    while (file && std::fgets(line, sizeof line, file.get()) != nullptr)
        if (std::strncmp(line, key, std::strlen(key)) == 0)
            return std::atof(line + std::strlen(key) + 1) * 1024;
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 2) {
        std::fprintf(stderr, "usage: bench_core LENGTHS.npy\n");
        return 2;
    }
    sab_sizes* sizes = nullptr;
    check(sab_sizes_file_new(argv[1], nullptr, &sizes));
    const std::size_t count = sab_sizes_count(sizes);
    const auto samples = static_cast<double>(count);
    std::vector<int32_t> lengths(count);
    int32_t longest = 0;
    for (std::size_t i = 0; i < count; ++i) {
        double size = 0;
        check(sab_sizes_get(sizes, i, 1, &size));
        longest = std::max(longest, lengths[i] = static_cast<int32_t>(size));
    }
    sab_sizes_free(sizes);
    check(sab_sizes_new(lengths.data(), count, SAB_INT32, nullptr, &sizes));
    const bool is_huge = count > 50'000'000;
    const int rounds = is_huge ? 1 : 7;

    sab_plan_options options = SAB_PLAN_OPTIONS_INIT;
    SET_BUDGET(options, 16384);
    sab_plan* plan = nullptr;
    const double before = memory("RssAnon:");
    check(sab_plan_new(sizes, &options, &plan));
    print("memory of a plan beyond the sizes", (memory("RssAnon:") - before) / samples, 5,
          "bytes a sample");
    sab_plan_free(plan);

    Least sort, make;
    std::vector<uint32_t> order(count);
    for (int round = 0; round < rounds; ++round) {
        sort.time([&] {
            std::vector<uint32_t> next(static_cast<std::size_t>(longest) + 1);
            auto sorted = std::make_unique_for_overwrite<uint32_t[]>(count);
            for (const int32_t length : lengths) ++next[static_cast<std::size_t>(length)];
            uint32_t place = 0;
            for (uint32_t& n : next) place += std::exchange(n, place);
            for (std::size_t i = 0; i < count; ++i)
                sorted[next[static_cast<std::size_t>(lengths[i])]++] = static_cast<uint32_t>(i);
            // so that it is not left out
            order[static_cast<std::size_t>(round)] = sorted[count / 2];
        });
        make.time([&] { check(sab_plan_new(sizes, &options, &plan)); });
        if (round + 1 < rounds) sab_plan_free(plan);
    }
    print("plan", make.seconds(), 0, "s");
    print("plan over a bare counting sort", make.seconds() / sort.seconds(), 2, "times");

    sab_plan_info info = SAB_PLAN_INFO_INIT;
    check(sab_plan_get_info(plan, &info));
    std::vector<uint32_t> bucket_samples;
    for (std::size_t b = 0; b < info.buckets; ++b) {
        sab_bucket bucket = SAB_BUCKET_INIT;
        check(sab_plan_get_bucket(plan, b, &bucket));
        bucket_samples.push_back(static_cast<uint32_t>(bucket.samples));
    }
    for (std::size_t i = 0; i < count; ++i) order[i] = static_cast<uint32_t>(i);
    std::vector<int64_t> out(count);
    sab_sampler* sampler = nullptr;
    check(sab_bucket_sampler_new(plan, nullptr, &sampler));
    sab_batch batch = SAB_BATCH_INIT;
    Least shuffle, epoch, first;
    uint64_t random = 88172645463325252u;
    for (int round = 0; round < rounds; ++round) {
        shuffle.time([&] {
            uint32_t* bucket = order.data();
            for (const uint32_t n : bucket_samples) {
                for (uint32_t i = n; i > 1; --i) {  // xorshift64, multiply-high
                    random ^= random << 13;
                    random ^= random >> 7;
                    random ^= random << 17;
                    std::swap(bucket[i - 1], bucket[((random >> 32) * i) >> 32]);
                }
                bucket += n;
            }
            std::copy(order.begin(), order.end(), out.begin());
        });
        first.time([&] {
            check(sab_sampler_set_epoch(sampler, static_cast<uint64_t>(round)));
            check(sab_next_batch(sampler, &batch));
        });
        check(sab_sampler_seek(sampler, 0));
        epoch.time([&] {
            while (sab_next_batch(sampler, &batch) == SAB_OK) {
            }
        });
    }
    print("first batch", first.seconds() * 1e6, 0, "us");
    print("epoch", epoch.seconds() * 1e9 / samples, 0, "ns a sample");
    print("epoch over shuffling inside buckets and a copy", epoch.seconds() / shuffle.seconds(), 3,
          "times");

    uint64_t steps = 0;
    check(sab_sampler_get_batch_count(sampler, &steps));
    Least step, seek, restore;
    std::vector<unsigned char> state(256);
    std::size_t state_size = 0;
    constexpr uint64_t tries = 4000;
    for (int round = 0; round < rounds; ++round) {
        check(sab_sampler_seek(sampler, 0));
        step.time([&] {
            for (uint64_t i = 0; i < tries && i < steps; ++i)
                check(sab_next_batch(sampler, &batch));
        });
        check(sab_sampler_state_save(sampler, state.data(), state.size(), &state_size));
        seek.time([&] {
            for (uint64_t i = 0; i < tries; ++i) check(sab_sampler_seek(sampler, i * 7919 % steps));
        });
        restore.time([&] {
            for (uint64_t i = 0; i < tries; ++i)
                check(sab_sampler_state_restore(sampler, state.data(), state_size));
        });
    }
    print("seek over next", seek.seconds() / step.seconds(), 10, "times");
    print("restore over next", restore.seconds() / step.seconds(), 10, "times");

    // A rank's work and memory do not grow with the ranks.
    Least alone, among;
    for (const uint64_t world_size : {uint64_t{1}, uint64_t{512}}) {
        sab_sampler_options rank = SAB_SAMPLER_OPTIONS_INIT;
        rank.world_size = world_size;
        sab_sampler* one = nullptr;
        check(sab_bucket_sampler_new(plan, &rank, &one));
        check(sab_sampler_get_batch_count(one, &steps));
        const uint64_t walked = std::min<uint64_t>(steps > 1 ? steps - 1 : 1, 12);
        for (int round = 0; round < 20 * rounds; ++round) {
            check(sab_sampler_set_epoch(one, static_cast<uint64_t>(round)));
            (world_size == 1 ? alone : among).time([&] {
                for (uint64_t i = 0; i < walked; ++i) check(sab_next_batch(one, &batch));
            });
        }
        sab_sampler_free(one);
    }
    print("a batch among 512 ranks over a batch alone", among.seconds() / alone.seconds(), 2,
          "times");

    sab_plan_report report = SAB_PLAN_REPORT_INIT;
    check(sab_plan_get_report(plan, nullptr, nullptr, &report));
    print("padding", 100 * report.padding, 1, "%");
    print("batches over the lower bound",
          static_cast<double>(report.batches) / static_cast<double>(report.lower_bound), 1.01,
          "times");
    print("batch mates that meet again", 100 * report.meet_again, 6, "%");
    // The longest 1 % of the samples may have smaller buckets.
    uint64_t fewest = UINT64_MAX, below = 0;
    for (std::size_t b = 0; b < info.buckets; ++b) {
        sab_bucket bucket = SAB_BUCKET_INIT;
        check(sab_plan_get_bucket(plan, b, &bucket));
        below += bucket.samples;
        if (static_cast<double>(below) <= 0.99 * samples) fewest = std::min(fewest, bucket.batches);
    }
    print("fewest batches of a bucket below the longest 1 %", static_cast<double>(fewest), 16,
          "at least");

    sab_sampler_free(sampler);
    sab_plan_free(plan);
    sab_sizes_free(sizes);
    return 0;
}
