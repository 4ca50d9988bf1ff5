/// Whether the cost of a sample grows with their number: bench_orders FOLDER COUNT...
/// Prints a table in Markdown with the targets. FOLDER gets a plan file of 4 bytes a sample, which
/// is removed at the end. Memory: 10 bytes a sample, and as many of the file as the system keeps.
///
/// Log-normal lengths of 16 bits are planned and walked in batches of 16,384 tokens. The floor is a
/// Fisher-Yates shuffle inside the plan's buckets, in sequence, and a copy to 64-bit indices. Every
/// figure is the least of several rounds, in time of the thread unless it says otherwise: other
/// programs on the machine then count less.
#include <sab.h>

#include "../c/budgets.h"

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace {

void check(sab_status status) {
    if (status >= 0) return;
    std::fprintf(stderr, "bench_orders: %s\n", sab_last_error_message());
    std::exit(1);
}

double now(clockid_t clock) {
    timespec time{};
    clock_gettime(clock, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

struct Times {
    double thread = std::numeric_limits<double>::infinity();
    double clock = thread;
};

/// The least of several rounds.
template <class Work>
Times least_times(int rounds, Work&& work) {
    Times least;
    for (int round = 0; round < rounds; ++round) {
        const double clock = now(CLOCK_MONOTONIC), thread = now(CLOCK_THREAD_CPUTIME_ID);
        work(round);
        least.thread = std::min(least.thread, now(CLOCK_THREAD_CPUTIME_ID) - thread);
        least.clock = std::min(least.clock, now(CLOCK_MONOTONIC) - clock);
    }
    return least;
}

/// A line of a file in /proc/self, in bytes.
double memory(const char* file, const std::string& key) {
    std::ifstream lines(std::string("/proc/self/") + file);
    for (std::string line; std::getline(lines, line);)
        if (line.rfind(key, 0) == 0) return std::atof(line.c_str() + key.size() + 1) * 1024;
    return 0;
}

constexpr double no_target = 0;

void print(std::size_t count, const char* figure, double value, double most, const char* unit) {
    std::printf("| %zu | %s | %.3g %s |", count, figure, value, unit);
    if (most != no_target) std::printf(" at most %g%s", most, value <= most ? "" : ": missed");
    std::printf(" |\n");
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

/// The floor of an epoch. Each bucket is shuffled where it begins.
double time_of_shuffling(const sab_plan* plan, std::size_t count, int rounds) {
    std::vector<uint32_t> order(count);
    std::vector<int64_t> out(count);
    for (std::size_t i = 0; i < count; ++i) order[i] = static_cast<uint32_t>(i);
    sab_plan_info info = SAB_PLAN_INFO_INIT;
    check(sab_plan_get_info(plan, &info));
    uint64_t random = 88172645463325252u;
    const Times least = least_times(rounds, [&](int) {
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
    return least.thread;
}

double time_of_epoch(const sab_plan* plan, int rounds) {
    sab_sampler* sampler = nullptr;
    check(sab_bucket_sampler_new(plan, nullptr, &sampler));
    sab_batch batch = SAB_BATCH_INIT;
    const Times least = least_times(rounds, [&](int round) {
        check(sab_sampler_set_epoch(sampler, static_cast<uint64_t>(round)));
        while (sab_next_batch(sampler, &batch) == SAB_OK) {
        }
    });
    sab_sampler_free(sampler);
    return least.thread;
}

/// Makes a plan, and prints what that takes.
sab_plan* plan_of(const std::vector<uint16_t>& lengths, int rounds) {
    const std::size_t count = lengths.size();
    const auto samples = static_cast<double>(count);
    sab_sizes* sizes = nullptr;
    sab_plan* plan = nullptr;
    check(sab_sizes_new(lengths.data(), count, SAB_UINT16, nullptr, &sizes));
    sab_plan_options options = SAB_PLAN_OPTIONS_INIT;
    SET_BUDGET(options, 16384);
    const auto make = [&](int) {
        sab_plan_free(plan);
        check(sab_plan_new(sizes, &options, &plan));
    };
    std::ofstream("/proc/self/clear_refs") << 5;  // VmHWM begins again
    const double before = memory("status", "VmRSS"), huge = memory("smaps_rollup", "AnonHugePages");
    make(0);
    print(count, "memory of a plan", (memory("status", "VmRSS") - before) / samples, 5,
          "bytes a sample");
    print(count, "most memory while it is made", (memory("status", "VmHWM") - before) / samples, 14,
          "bytes a sample");
    print(count, "of it in huge pages", (memory("smaps_rollup", "AnonHugePages") - huge) / samples,
          no_target, "bytes a sample");
    const bool is_huge = count >= 1'000'000'000;
    const Times one = least_times(rounds, make);
    print(count, "plan", one.thread, is_huge ? 8 : no_target, "s");
    print(count, "plan, by the clock", one.clock, no_target, "s");
    options.threads = 2;
    print(count, "plan, 2 threads, by the clock", least_times(rounds, make).clock, no_target, "s");
    sab_sizes_free(sizes);
    return plan;
}

double time_of_first_batch(const std::string& path) {
    const Times times = least_times(1, [&](int) {
        sab_plan* plan = nullptr;
        sab_sampler* sampler = nullptr;
        sab_batch batch = SAB_BATCH_INIT;
        check(sab_plan_file_new(path.c_str(), &plan));
        check(sab_bucket_sampler_new(plan, nullptr, &sampler));
        check(sab_next_batch(sampler, &batch));
        sab_sampler_free(sampler);
        sab_plan_free(plan);
    });
    return times.clock;
}

/// Writes the plan and frees it, opens the file, and copies what it has to memory. `epoch`: of the
/// plan in memory.
void measure_file(sab_plan* plan, std::size_t count, double epoch, const std::string& path,
                  int rounds) {
    const Times saving = least_times(1, [&](int) { check(sab_plan_save(plan, path.c_str())); });
    print(count, "save, by the clock", saving.clock, no_target, "s");
    sab_plan_free(plan);
    const int file = ::open(path.c_str(), O_RDONLY);
    const bool is_out =
        file >= 0 && fsync(file) == 0 && posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED) == 0;
    if (file >= 0) ::close(file);
    if (is_out)
        print(count, "first batch of a saved plan that is not in memory, by the clock",
              1e3 * time_of_first_batch(path), 100, "ms");
    print(count, "first batch of a saved plan, by the clock", 1e3 * time_of_first_batch(path), 100,
          "ms");
    sab_plan *mapped = nullptr, *copy = nullptr;
    check(sab_plan_file_new(path.c_str(), &mapped));
    const Times copying = least_times(1, [&](int) { check(sab_plan_copy_new(mapped, &copy)); });
    print(count, "copy of a saved plan", copying.thread, no_target, "s");
    const auto samples = static_cast<double>(count);
    print(count, "epoch of a saved plan", 1e9 * time_of_epoch(mapped, rounds) / samples, no_target,
          "ns a sample");
    sab_plan_free(mapped);
    print(count, "epoch of its copy over that of a plan in memory",
          time_of_epoch(copy, rounds) / epoch, no_target, "times");
    sab_plan_free(copy);
    std::remove(path.c_str());
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 3) {
        std::fprintf(stderr, "usage: bench_orders FOLDER COUNT...\n");
        return 2;
    }
    std::printf("| samples | figure | measured | target |\n|---:|---|---:|---|\n");
    double first = 0;
    for (int i = 2; i < argc; ++i) {
        const auto count = static_cast<std::size_t>(std::atof(argv[i]));
        const auto samples = static_cast<double>(count);
        const int rounds = count > 50'000'000 ? 2 : 7;
        sab_plan* const plan = plan_of(some_lengths(count), rounds);
        const double epoch = time_of_epoch(plan, rounds);
        print(count, "epoch", 1e9 * epoch / samples,
              count >= 1'000'000'000 ? 12
              : count >= 100'000'000 ? 8
                                     : no_target,
              "ns a sample");
        if (i > 2)
            print(count, "a sample of an epoch over one of the first count",
                  epoch / samples / first, 3, "times");
        else
            first = epoch / samples;
        if (count < 50'000'000)
            print(count, "epoch over shuffling inside buckets in sequence and a copy",
                  epoch / time_of_shuffling(plan, count, rounds), 1.5, "times");
        measure_file(plan, count, epoch, std::string(argv[1]) + "/bench_orders.plan", rounds);
    }
}
