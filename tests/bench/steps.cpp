/// Step plans: bench_steps [CASES]. Prints a table of targets and figures.
///
/// 1. Log-normal lengths at several loads, 4,096 on 64 ranks and 65,536 on 1,024, in micro-batches
///    of 16,384 tokens: the slowest rank, micro-batches over the lower bound, the processor time.
/// 2. CASES random steps (10,000 by default; a million take some minutes) against the rule of verl:
///    Karmarkar-Karp to ranks, then in each rank to ever more micro-batches until the cap holds.
#include <sab.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <numeric>
#include <random>
#include <vector>

namespace {

using Lengths = std::vector<int32_t>;
using Groups = std::vector<std::vector<std::size_t>>;

constexpr double budget_tokens = 16384;
constexpr int repeats = 5;  // of which the shortest time counts

void check(sab_status status) {
    if (status == SAB_OK) return;
    std::fprintf(stderr, "bench_steps: %s\n", sab_last_error_message());
    std::exit(1);
}

struct Planned {
    sab_step_plan_view view SAB_STEP_PLAN_VIEW_INIT;
    double seconds = 0;
    bool is_over = false;  ///< a micro-batch exceeds the budget
};

Planned plan_step(const Lengths& lengths, uint64_t ranks, double limit) {
    Planned planned;
    const std::clock_t start = std::clock();
    sab_sizes* sizes = nullptr;
    check(sab_sizes_new(lengths.data(), lengths.size(), SAB_INT32, nullptr, &sizes));
    const sab_budget budget{nullptr, limit};
    sab_step_plan_options options SAB_STEP_PLAN_OPTIONS_INIT;
    options.world_size = ranks;
    options.budgets = &budget;
    options.budget_count = 1;
    sab_step_plan* plan = nullptr;
    check(sab_step_plan_new(sizes, &options, &plan));
    check(sab_step_plan_get_view(plan, &planned.view));
    planned.seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    for (uint64_t part = 0; part < ranks * planned.view.micro_batches; ++part)
        planned.is_over = planned.is_over || planned.view.costs[part] > limit;
    planned.view.costs = nullptr;  // the arrays go with the plan
    sab_step_plan_free(plan);
    sab_sizes_free(sizes);
    return planned;
}

/// Log-normal lengths whose sum is about a share of what some micro-batches of each rank hold.
Lengths log_normal(std::mt19937_64& random, std::size_t count, double sigma, double mean) {
    std::lognormal_distribution<double> draw(std::log(mean) - sigma * sigma / 2, sigma);
    Lengths lengths(count);
    for (int32_t& length : lengths)
        length = static_cast<int32_t>(std::clamp(draw(random), 1.0, budget_tokens));
    return lengths;
}

void time_steps(std::size_t count, uint64_t ranks, double most_ms, int rounds) {
    double over_bound = 0, micro_steps = 0;
    std::vector<double> seconds;
    int more_low = 0, more_high = 0, broken = 0;
    std::mt19937_64 random(28);
    for (int round = 0; round < rounds; ++round) {
        const double sigma = std::array{0.5, 0.8, 1.1}[static_cast<std::size_t>(round % 3)];
        const double micro_batches = 1 + round / 3 % 8,
                     load = std::array{0.9, 0.95, 0.979,
                                       0.995}[static_cast<std::size_t>(round / 24 % 4)];
        const double mean = load * micro_batches * budget_tokens * static_cast<double>(ranks) /
                            static_cast<double>(count);
        const Lengths lengths = log_normal(random, count, sigma, mean);
        const double sum = std::accumulate(lengths.begin(), lengths.end(), 0.0);
        Planned planned = plan_step(lengths, ranks, budget_tokens);
        for (int again = 1; again < repeats; ++again)
            planned.seconds =
                std::min(planned.seconds, plan_step(lengths, ranks, budget_tokens).seconds);
        const double room = static_cast<double>(ranks) * budget_tokens;
        const auto fewest = static_cast<uint64_t>(std::ceil(sum / room));
        const uint64_t more =
            planned.view.micro_batches - std::min(planned.view.micro_batches, fewest);
        const bool is_low = sum <= 0.98 * room * static_cast<double>(fewest);
        if (is_low && more > 0) ++more_low;
        if (more > 1) ++more_high;
        broken += planned.is_over;
        micro_steps = std::max(micro_steps, planned.view.micro_step_imbalance[0]);
        over_bound = std::max(
            over_bound, planned.view.rank_imbalance[0] / planned.view.least_rank_imbalance[0]);
        seconds.push_back(planned.seconds);
    }
    std::ranges::sort(seconds);
    std::printf("| %zu on %zu ranks, %d steps: slowest rank / bound | 1.0002 | %.6f |\n", count,
                static_cast<std::size_t>(ranks), rounds, over_bound);
    std::printf("| median time, ms | %.1f | %.3f |\n", most_ms, 1e3 * seconds[seconds.size() / 2]);
    std::printf("| largest time, ms | - | %.3f |\n", 1e3 * seconds.back());
    std::printf("| steps over the fewest micro-batches, load <= 0.98 | 0 | %d |\n", more_low);
    std::printf("| steps with more than one over | 0 | %d |\n", more_high);
    std::printf("| budgets broken | 0 | %d |\n", broken);
    std::printf("| largest micro-step imbalance | - | %.5f |\n", micro_steps);
}

// ---- The rule of verl ----

struct Part {
    int64_t cost = 0;
    std::vector<std::size_t> items;
};
using Parts = std::vector<Part>;

bool is_costlier(const Part& a, const Part& b) {
    return a.cost > b.cost;
}

/// Karmarkar and Karp's method, written plainly.
Groups karmarkar_karp(const std::vector<int64_t>& costs, const std::vector<std::size_t>& items,
                      std::size_t count) {
    std::vector<Parts> states;
    const auto spread = [](const Parts& parts) { return parts.front().cost - parts.back().cost; };
    const auto is_later = [&](const Parts& a, const Parts& b) {
        return spread(a) != spread(b) ? spread(a) < spread(b) : a.front().cost < b.front().cost;
    };
    for (const std::size_t item : items) {
        states.emplace_back(count);
        states.back()[0] = {costs[item], {item}};
        std::ranges::push_heap(states, is_later);
    }
    while (states.size() > 1) {
        std::ranges::pop_heap(states, is_later);
        Parts taken = std::move(states.back());
        states.pop_back();
        std::ranges::pop_heap(states, is_later);
        Parts& kept = states.back();
        for (std::size_t i = 0; i < count; ++i) {
            Part& other = taken[count - 1 - i];
            kept[i].cost += other.cost;
            kept[i].items.insert(kept[i].items.end(), other.items.begin(), other.items.end());
        }
        std::ranges::stable_sort(kept, is_costlier);
        std::ranges::push_heap(states, is_later);
    }
    Groups groups(count);
    for (std::size_t i = 0; i < count && !states.empty(); ++i) groups[i] = states[0][i].items;
    return groups;
}

uint64_t verl_count(const Lengths& lengths, uint64_t ranks, double limit) {
    std::vector<int64_t> costs;
    for (const int64_t length : lengths) costs.push_back(24576 * length + length * length);
    std::vector<std::size_t> all(lengths.size());
    std::iota(all.begin(), all.end(), std::size_t{0});
    const auto tokens = [&](const std::vector<std::size_t>& items) {
        double sum = 0;
        for (const std::size_t item : items) sum += lengths[item];
        return sum;
    };
    uint64_t most = 1;
    for (const auto& items : karmarkar_karp(costs, all, ranks)) {
        auto count = static_cast<uint64_t>(std::max(1.0, std::ceil(tokens(items) / limit)));
        while (std::ranges::any_of(karmarkar_karp(costs, items, count),
                                   [&](const auto& group) { return tokens(group) > limit; }))
            ++count;
        most = std::max(most, count);
    }
    return most;
}

void compare(std::size_t cases) {
    std::size_t broken = 0, more = 0, fewer = 0;
    double ours = 0, theirs = 0;
    for (std::size_t number = 0; number < cases; ++number) {
        std::mt19937_64 random(number);
        const auto draw = [&](uint64_t least, uint64_t most) {
            return least + random() % (most - least + 1);
        };
        const uint64_t ranks = draw(1, 8), count = draw(1, 12 * ranks), longest = draw(1, 2000);
        Lengths lengths(count);
        const double sigma = 0.2 + 0.1 * static_cast<double>(draw(0, 10));
        std::lognormal_distribution<double> shape(std::log(0.3 * static_cast<double>(longest)),
                                                  sigma);
        for (int32_t& length : lengths)
            length = number % 3 == 0 ? static_cast<int32_t>(draw(1, longest))
                                     : static_cast<int32_t>(std::clamp(
                                           shape(random), 1.0, static_cast<double>(longest)));
        const double limit = static_cast<double>(longest * draw(10, 60) / 10);
        const Planned planned = plan_step(lengths, ranks, limit);
        const uint64_t verl = verl_count(lengths, ranks, limit);
        broken += planned.is_over;
        more += planned.view.micro_batches > verl;
        fewer += planned.view.micro_batches < verl;
        if (planned.view.micro_batches > verl && more <= 5)
            std::fprintf(stderr, "case %zu: %zu micro-batches, verl %zu, least %zu\n", number,
                         static_cast<std::size_t>(planned.view.micro_batches),
                         static_cast<std::size_t>(verl),
                         static_cast<std::size_t>(planned.view.least_micro_batches));
        ours += static_cast<double>(planned.view.micro_batches);
        theirs += static_cast<double>(verl);
    }
    const auto all = static_cast<double>(cases);
    std::printf("| %zu random steps: budgets broken | 0 | %zu |\n", cases, broken);
    std::printf("| steps with more micro-batches than by the rule of verl | 0 | %zu |\n", more);
    std::printf("| steps with fewer | - | %zu |\n", fewer);
    std::printf("| mean of micro-batches | < %.4f | %.4f |\n", theirs / all, ours / all);
}

}  // namespace

int main(int argc, char** argv) {
    std::printf("| figure | target | measured |\n|---|---:|---:|\n");
    time_steps(4096, 64, 0.6, 240);
    time_steps(65536, 1024, 30, 96);
    compare(argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 10000);
    return 0;
}
