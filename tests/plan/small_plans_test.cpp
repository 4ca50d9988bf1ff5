/// Plans of small and skewed data against a sorted cut: samples from the longest down, each batch
/// as many as fit.
#include <sab.h>
#include "../c/one.h"
#include "../rounds.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <vector>

namespace small_plans {  // files are compiled together in unity builds
namespace {

template <auto Free>
struct Freed {
    template <class Handle>
    void operator()(Handle* handle) const {
        Free(handle);
    }
};
template <class Handle, auto Free>
using Owned = std::unique_ptr<Handle, Freed<Free>>;
using OwnedSizes = Owned<sab_sizes, sab_sizes_free>;
using OwnedPlan = Owned<sab_plan, sab_plan_free>;
using OwnedSampler = Owned<sab_sampler, sab_sampler_free>;

using Lengths = std::vector<uint32_t>;

Lengths any_lengths(std::mt19937_64& random) {
    const auto below = [&](uint64_t bound) { return static_cast<uint32_t>(random() % bound); };
    const auto real = [&] { return static_cast<double>(random() >> 11) / 9007199254740992.0; };
    const auto count = static_cast<std::size_t>(3 * std::exp(real() * std::log(2000.0 / 3)));
    const uint32_t kind = below(7), few = 1 + below(6), plateau = 1 + below(50);
    uint32_t values[6];
    for (uint32_t& value : values) value = 1 + below(5000);
    Lengths lengths(count);
    for (std::size_t i = 0; i < count; ++i) {
        double length = 1 + below(60);
        if (kind == 1) length = std::exp(3 + 0.7 * (real() + real() + real() + real() - 2) * 1.7);
        if (kind == 2) length = values[below(few)];
        if (kind == 3) length = i % plateau == 0 || i == 0 ? 1 + below(20000) : lengths[i - 1];
        if (kind == 4) length = 10 / std::pow(1 - real(), 1.2);
        if (kind == 5) length = std::pow(10.0, below(6));
        if (kind == 6 && below(20) == 0) length = 60000 + below(70000);
        lengths[i] = static_cast<uint32_t>(std::clamp(length, 1.0, 1e6));
    }
    if (below(8) == 0)
        for (uint32_t& length : lengths) length = below(3) == 0 ? 0 : length;
    const uint32_t longest = *std::ranges::max_element(lengths);
    for (uint32_t outliers = below(5) < 2 ? 1 + below(3) : 0; outliers > 0; --outliers)
        lengths.push_back(longest * (2 + below(100)));
    return lengths;
}

/// A cost and what else limits a batch, computed without the library.
struct Rules {
    double constant, each, square;
    double limit;
    uint32_t multiple, max_batch_size, batch_size_multiple;
    sab_oversize oversize;
    double padded(uint32_t length) const {
        return multiple == 0 ? length : (length + multiple - 1) / multiple * multiple;
    }
    double cost(double count, uint32_t length) const {
        const double l = padded(length);
        return constant + count * (each * l + square * l * l);
    }
    /// Of `count` samples. Those that are left over, fewer than a multiple, may be a tail.
    uint64_t fits(uint32_t length, uint64_t count, sab_tail tail = SAB_TAIL_KEEP) const {
        const uint64_t multiple = batch_size_multiple;
        uint64_t low = 0, high = tail == SAB_TAIL_KEEP
                                     ? (count + multiple - 1) / multiple * multiple
                                     : count;
        while (low < high) {
            const uint64_t middle = (low + high + 1) / 2;
            if (cost(static_cast<double>(middle), length) <= limit)
                low = middle;
            else
                high = middle - 1;
        }
        if (max_batch_size > 0) low = std::min<uint64_t>(low, max_batch_size);
        return low >= batch_size_multiple ? low - low % batch_size_multiple : low;
    }
};

Rules any_rules(std::mt19937_64& random, const Lengths& lengths) {
    const auto one_of = [&](auto... values) {
        const decltype(std::common_type_t<decltype(values)...>()) all[] = {values...};
        return all[random() % sizeof...(values)];
    };
    Rules rules{};
    rules.multiple = one_of(0u, 0u, 0u, 8u, 64u);
    rules.max_batch_size = one_of(0u, 0u, 0u, 1u, 5u, 32u);
    rules.batch_size_multiple = one_of(1u, 1u, 1u, 2u, 8u);
    rules.oversize =
        one_of(SAB_OVERSIZE_ERROR, SAB_OVERSIZE_ERROR, SAB_OVERSIZE_SKIP, SAB_OVERSIZE_SINGLE);
    rules.each = 1;
    if (random() % 4 == 0) rules.each = 0, rules.square = 1;
    if (random() % 6 == 0)
        rules = {50000,
                 1000,
                 1,
                 0,
                 rules.multiple,
                 rules.max_batch_size,
                 rules.batch_size_multiple,
                 rules.oversize};
    Lengths sorted = lengths;
    std::ranges::sort(sorted);
    const bool leaves_out = rules.oversize != SAB_OVERSIZE_ERROR && random() % 2 == 0;
    const uint32_t longest = leaves_out ? sorted[sorted.size() * 19 / 20] : sorted.back();
    rules.limit =
        std::max(rules.cost(1, longest), 1.0) * one_of(1.0, 1.0, 1.5, 2.0, 5.0, 17.0, 60.0);
    return rules;
}

/// Batches of the sorted cut; samples that do not fit alone follow the oversize rule.
uint64_t sorted_cut(Lengths lengths, const Rules& rules, sab_tail tail = SAB_TAIL_KEEP) {
    std::ranges::sort(lengths, std::greater());
    uint64_t batches = 0;
    for (std::size_t at = 0; at < lengths.size();) {
        const uint64_t size = rules.fits(lengths[at], lengths.size(), tail);
        batches += size > 0 || rules.oversize == SAB_OVERSIZE_SINGLE;
        at += std::max<uint64_t>(size, 1);
    }
    return batches;
}

struct Cost {
    explicit Cost(const Rules& rules) {
        const sab_cost_term terms[] = {term_of(rules.constant, 0, {0}), term_of(rules.each, 1, {1}),
                                       term_of(rules.square, 1, {2})};
        if (rules.square > 0) {
            EXPECT_EQ(sab_cost_terms_new(terms, 3, &cost), SAB_OK);
        }
    }
    Cost(const Cost&) = delete;
    Cost& operator=(const Cost&) = delete;
    ~Cost() { sab_cost_free(cost); }
    sab_cost* cost = nullptr;
};

OwnedSizes sizes_of(const Lengths& lengths) {
    sab_sizes* sizes = nullptr;
    EXPECT_EQ(sab_sizes_new(lengths.data(), lengths.size(), SAB_UINT32, nullptr, &sizes), SAB_OK);
    return OwnedSizes(sizes);
}

sab_plan_options options_of(const Rules& rules, const sab_budget& budget) {
    sab_plan_options options SAB_PLAN_OPTIONS_INIT;
    options.budgets = &budget;
    options.budget_count = 1;
    options.length_multiples = one_number(rules.multiple), options.length_multiple_count = 1;
    options.max_batch_size = rules.max_batch_size;
    options.batch_size_multiple = rules.batch_size_multiple;
    options.oversize = rules.oversize;
    return options;
}

OwnedPlan plan_of(const sab_sizes* sizes, const sab_plan_options& options) {
    sab_plan* plan = nullptr;
    EXPECT_EQ(sab_plan_new(sizes, &options, &plan), SAB_OK) << sab_last_error_message();
    return OwnedPlan(plan);
}

struct Outcome {
    uint64_t batches = 0;
    double padded = 0, padding = 0;  ///< each sample padded to its bucket's longest
};

Outcome outcome_of(const sab_plan* plan) {
    sab_plan_info info SAB_PLAN_INFO_INIT;
    EXPECT_EQ(sab_plan_get_info(plan, &info), SAB_OK);
    Outcome outcome{info.batches, 0, 0};
    for (std::size_t i = 0; i < info.buckets; ++i) {
        sab_bucket bucket SAB_BUCKET_INIT;
        EXPECT_EQ(sab_plan_get_bucket(plan, i, &bucket), SAB_OK);
        outcome.padded += bucket.padded_length[0] * static_cast<double>(bucket.samples);
        outcome.padding -= bucket.total[0];
    }
    outcome.padding += outcome.padded;
    return outcome;
}

uint64_t most_allowed(uint64_t cut) {
    return std::max(cut + cut / 4, cut + 1);
}

TEST(SmallPlans, HaveAtMostAQuarterMoreBatchesThanASortedCut) {
    std::mt19937_64 random(1);
    for (int round = 0; round < ROUNDS_OF(10000); ++round) {
        SCOPED_TRACE(round);
        const Lengths lengths = any_lengths(random);
        const Rules rules = any_rules(random, lengths);
        const Cost cost(rules);
        const sab_budget budget{cost.cost, rules.limit};
        const OwnedSizes sizes = sizes_of(lengths);
        sab_plan_options options = options_of(rules, budget);
        const uint64_t cut = sorted_cut(lengths, rules);
        ASSERT_LE(outcome_of(plan_of(sizes.get(), options).get()).batches, most_allowed(cut));
        options.bucket_batches = 1;
        ASSERT_LE(outcome_of(plan_of(sizes.get(), options).get()).batches, cut);
        options.tail = SAB_TAIL_WRAP;
        options.bucket_batches = 0;
        ASSERT_LE(outcome_of(plan_of(sizes.get(), options).get()).batches,
                  most_allowed(sorted_cut(lengths, rules, SAB_TAIL_WRAP)));
    }
}

TEST(SmallPlans, OfEachIdAreCutApart) {
    std::mt19937_64 random(2);
    for (int round = 0; round < ROUNDS_OF(1000); ++round) {
        SCOPED_TRACE(round);
        const Lengths lengths = any_lengths(random);
        const Rules rules = any_rules(random, lengths);
        const Cost cost(rules);
        const sab_budget budget{cost.cost, rules.limit};
        std::map<int64_t, Lengths> by_id;
        std::vector<int64_t> ids;
        const uint64_t id_count = 1 + random() % 20;
        for (const uint32_t length : lengths) {
            ids.push_back(static_cast<int64_t>(random() % id_count));
            by_id[ids.back()].push_back(length);
        }
        uint64_t cut = 0;
        for (const auto& [id, own] : by_id) cut += sorted_cut(own, rules);
        const OwnedSizes sizes = sizes_of(lengths);
        sab_plan_options options = options_of(rules, budget);
        options.separate_by = ids.data();
        options.separate_by_count = ids.size();
        ASSERT_LE(outcome_of(plan_of(sizes.get(), options).get()).batches, most_allowed(cut));
    }
}

/// Of the epochs of a mixture, walked.
TEST(SmallPlans, OfMixturesAreAsGood) {
    std::mt19937_64 random(3);
    for (int round = 0; round < ROUNDS_OF(300); ++round) {
        SCOPED_TRACE(round);
        const Lengths some = any_lengths(random), others = any_lengths(random);
        Lengths lengths = some;
        lengths.insert(lengths.end(), others.begin(), others.end());
        Rules rules = any_rules(random, lengths);
        rules.oversize = SAB_OVERSIZE_SKIP;
        const Cost cost(rules);
        const sab_budget budget{cost.cost, rules.limit};
        const OwnedSizes parts[] = {sizes_of(some), sizes_of(others)};
        const sab_sizes* const sources[] = {parts[0].get(), parts[1].get()};
        sab_mixture_options mixture SAB_MIXTURE_OPTIONS_INIT;
        const double repeats[] = {1.5, 0.4};
        mixture.repeats = repeats;
        mixture.repeat_count = 2;
        sab_sizes* mixed = nullptr;
        ASSERT_EQ(sab_mixture_new(sources, 2, &mixture, &mixed), SAB_OK);
        const OwnedSizes owner(mixed);
        const OwnedPlan plan = plan_of(mixed, options_of(rules, budget));
        sab_sampler* handle = nullptr;
        ASSERT_EQ(sab_sequential_sampler_new(plan.get(), nullptr, &handle), SAB_OK);
        const OwnedSampler sampler(handle);
        for (int epoch = 0; epoch < 2; ++epoch) {
            Lengths seen;
            uint64_t batches = 0;
            sab_batch batch SAB_BATCH_INIT;
            for (; sab_next_batch(handle, &batch) == SAB_OK; ++batches)
                for (uint64_t i = 0; i < batch.count; ++i)
                    seen.push_back(lengths[static_cast<std::size_t>(batch.indices[i])]);
            ASSERT_LE(batches, most_allowed(sorted_cut(seen, rules)));
        }
    }
}

int32_t copy_own(void*, const void* mine, size_t size, void* all) {
    if (size > 0) std::memcpy(all, mine, size);
    return 0;
}

/// Samplers that make the plan themselves, from what the ranks tell of their samples.
TEST(SmallPlans, OfShardsAreAsGood) {
    std::mt19937_64 random(7);
    for (int round = 0; round < ROUNDS_OF(300); ++round) {
        SCOPED_TRACE(round);
        const Lengths lengths = any_lengths(random);
        Rules rules = any_rules(random, lengths);
        rules.oversize = SAB_OVERSIZE_SKIP;
        const Cost cost(rules);
        const sab_budget budget{cost.cost, rules.limit};
        const sab_plan_options options = options_of(rules, budget);
        sab_sampler* handle = nullptr;
        ASSERT_EQ(sab_sharded_sampler_new(sizes_of(lengths).get(), &options, nullptr, copy_own,
                                          nullptr, &handle),
                  SAB_OK)
            << sab_last_error_message();
        const OwnedSampler sampler(handle);
        uint64_t batches = 0;
        ASSERT_EQ(sab_sampler_get_batch_count(handle, &batches), SAB_OK);
        ASSERT_LE(batches, most_allowed(sorted_cut(lengths, rules)));
    }
}

/// Runs of `batches` whole batches, from the longest down; the last one has what is left.
Outcome equal_runs(Lengths lengths, const Rules& rules, uint64_t batches) {
    std::ranges::sort(lengths, std::greater());
    Outcome outcome;
    for (std::size_t at = 0; at < lengths.size();) {
        const uint64_t size = rules.fits(lengths[at], lengths.size()), left = lengths.size() - at,
                       count = left < size ? left : size * std::min(batches, left / size);
        outcome.batches += (count + size - 1) / size;
        const double padded = rules.padded(lengths[at]);
        for (std::size_t i = at; i < at + count; ++i) outcome.padding += padded - lengths[i];
        at += count;
    }
    return outcome;
}

TEST(SmallPlans, WithAGivenNumberOfBatchesAreNeverWorseThanEqualRuns) {
    std::mt19937_64 random(4);
    for (int round = 0; round < ROUNDS_OF(2000); ++round) {
        const Lengths lengths = any_lengths(random);
        Rules rules = any_rules(random, lengths);
        rules.oversize = SAB_OVERSIZE_ERROR;
        rules.limit = std::max(rules.limit, rules.cost(1, *std::ranges::max_element(lengths)));
        const Cost cost(rules);
        const sab_budget budget{cost.cost, rules.limit};
        const OwnedSizes sizes = sizes_of(lengths);
        sab_plan_options options = options_of(rules, budget);
        options.padding_target = 1e-9;  // else buckets may be larger
        for (const uint64_t batches : {2, 4, 7, 16}) {
            SCOPED_TRACE(std::to_string(round) + ", " + std::to_string(batches));
            options.bucket_batches = batches;
            const Outcome found = outcome_of(plan_of(sizes.get(), options).get()),
                          equal = equal_runs(lengths, rules, batches);
            ASSERT_TRUE(found.batches <= equal.batches || found.padding <= equal.padding)
                << found.batches << " and " << found.padding << ", equal runs " << equal.batches
                << " and " << equal.padding;
        }
    }
}

/// What the divisions of a few samples into runs have at least: by trying all.
struct Least {
    uint64_t batches = UINT64_MAX;
    double overhead = HUGE_VAL;  ///< of plans whose runs have tails, as padding_target counts it
};

Least least_of_all(Lengths lengths, const Rules& rules, sab_tail tail, std::size_t max_shapes,
                   uint64_t bound) {
    std::ranges::sort(lengths);
    const std::size_t count = lengths.size();
    Least least;
    for (uint32_t ends = 0; ends < 1u << (count - 1); ++ends) {
        uint64_t batches = 0, begin = 0;
        std::size_t shapes = 0;
        double padded = 0, padding = 0;
        bool is_whole = true;
        for (std::size_t end = 1; end <= count; ++end) {
            if (end < count && (ends >> (end - 1) & 1) == 0) continue;
            const uint64_t samples = end - begin, size = rules.fits(lengths[end - 1], count, tail),
                           full = samples / size, rest = samples % size;
            // Of tails that are left out only that of the shortest samples, beside a whole batch.
            is_whole = is_whole && full > 0 && (rest == 0 || begin == 0);
            batches += full + (rest > 0);
            shapes += tail == SAB_TAIL_KEEP ? (full > 0) + (rest > 0) : 1;
            for (std::size_t i = begin; i < end; ++i) {
                padded += rules.padded(lengths[end - 1]);
                padding += rules.padded(lengths[end - 1]) - lengths[i];
            }
            begin = end;
        }
        if (tail == SAB_TAIL_DROP && !is_whole) continue;
        if (max_shapes > 0 && shapes > max_shapes) continue;
        least.batches = std::min(least.batches, batches);
        const double over = (static_cast<double>(batches) - static_cast<double>(bound)) /
                            static_cast<double>(bound);
        least.overhead =
            std::min(least.overhead, std::max(padded > 0 ? padding / padded : 0, over));
    }
    return least;
}

/// So few that all their divisions can be tried; each fits the budget.
std::pair<Lengths, Rules> few_samples(std::mt19937_64& random) {
    Lengths lengths = any_lengths(random);
    std::ranges::shuffle(lengths, random);
    lengths.resize(std::min<std::size_t>(lengths.size(), 3 + random() % 8));
    Rules rules = any_rules(random, lengths);
    rules.oversize = SAB_OVERSIZE_ERROR;
    rules.limit = std::max(rules.limit, rules.cost(1, *std::ranges::max_element(lengths)));
    return {lengths, rules};
}

TEST(SmallPlans, OfFewSamplesAreNearTheBestOfAllDivisions) {
    std::mt19937_64 random(5);
    int compared = 0;
    for (int round = 0; round < ROUNDS_OF(3000); ++round) {
        SCOPED_TRACE(round);
        const auto [lengths, rules] = few_samples(random);
        const Cost cost(rules);
        const sab_budget budget{cost.cost, rules.limit};
        const OwnedSizes sizes = sizes_of(lengths);
        for (const sab_tail tail : {SAB_TAIL_KEEP, SAB_TAIL_DROP, SAB_TAIL_WRAP})
            for (const std::size_t shapes : {0, 2, 4}) {
                sab_plan_options options = options_of(rules, budget);
                options.tail = tail;
                options.max_shapes = shapes > 0 ? one_count(shapes) : nullptr;
                options.max_shape_count = shapes > 0 ? 1 : 0;
                const Least least = least_of_all(lengths, rules, tail, shapes, 1);
                if (least.batches == UINT64_MAX) continue;  // too few for a whole batch
                const OwnedPlan plan = plan_of(sizes.get(), options);
                ASSERT_LE(outcome_of(plan.get()).batches, most_allowed(least.batches))
                    << "tail " << tail << ", shapes " << shapes;
                ++compared;
            }
    }
    EXPECT_GT(compared, ROUNDS_OF(20000));
}

/// The report names a target that a plan meets, and no division beats it without being a plan.
TEST(SmallPlans, NearestTarget_IsReached) {
    std::mt19937_64 random(6);
    int missed = 0;
    for (int round = 0; round < ROUNDS_OF(3000); ++round) {
        SCOPED_TRACE(round);
        const auto [lengths, rules] = few_samples(random);
        const Cost cost(rules);
        const sab_budget budget{cost.cost, rules.limit};
        const OwnedSizes sizes = sizes_of(lengths);
        sab_plan_options options = options_of(rules, budget);
        const auto report_of = [&](const sab_plan* plan) {
            sab_plan_report report SAB_PLAN_REPORT_INIT;
            EXPECT_EQ(sab_plan_get_report(plan, nullptr, nullptr, &report), SAB_OK);
            return report;
        };
        const sab_plan_report report = report_of(plan_of(sizes.get(), options).get());
        const Least least = least_of_all(lengths, rules, SAB_TAIL_KEEP, 0, report.lower_bound);
        ASSERT_GE(report.nearest_target, std::min(0.01, least.overhead) - 1e-9);
        if (report.target_met) continue;
        ++missed;
        ASSERT_GE(report.nearest_target, least.overhead - 1e-9);
        if (report.nearest_target >= 1) continue;
        options.padding_target = report.nearest_target;
        ASSERT_TRUE(report_of(plan_of(sizes.get(), options).get()).target_met);
    }
    EXPECT_GT(missed, ROUNDS_OF(500));
}

}  // namespace
}  // namespace small_plans
