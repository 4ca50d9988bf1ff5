/// Automatic buckets against equal runs and a slow exact search.
#include "../c/one.h"
#include "../rounds.h"
#include "plan/boundaries.h"
#include "plan/plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <random>

namespace sab {
namespace {

struct Outcome {
    double overhead;  ///< as padding_target counts it
    double padding;
    double padded;
    uint64_t batches;
    uint64_t fewest;  ///< batches of a bucket, but for those of the longest 1 %
    uint64_t usual;   ///< the same, but for the bucket of the shortest, which has what is left
    bool met;
    double nearest;
};

std::shared_ptr<const Plan> plan_of(const Columns& sizes, const sab_plan_options& options) {
    return Plan::make(sizes, PlanOptions(options, sizes.names()));
}

Outcome outcome_of(const Plan& plan) {
    double padded = 0, total = 0;
    Outcome outcome{0,
                    0,
                    0,
                    plan.facts().batches,
                    std::numeric_limits<uint64_t>::max(),
                    std::numeric_limits<uint64_t>::max(),
                    plan.facts().nearest_target <= plan.facts().padding_target,
                    plan.facts().nearest_target};
    for (std::size_t b = 0; b < plan.buckets().size(); ++b) {
        const Bucket& bucket = plan.buckets()[b];
        padded += plan.lengths(b).padded_length[0] * static_cast<double>(bucket.samples());
        total += plan.lengths(b).total[0];
        if (bucket.end > plan.facts().samples - plan.facts().samples / 100) continue;
        outcome.fewest = std::min(outcome.fewest, bucket.batches);
        if (b > 0) outcome.usual = std::min(outcome.usual, bucket.batches);
    }
    outcome.padded = padded;
    outcome.padding = padded > 0 ? (padded - total) / padded : 0;
    const auto bound = static_cast<double>(plan.facts().lower_bound);
    outcome.overhead =
        plan.budget_count() > 0
            ? std::max(outcome.padding, (static_cast<double>(plan.facts().batches) - bound) / bound)
            : outcome.padding;
    return outcome;
}

/// Runs of `batches` whole batches, from the longest sample down. What is too little for another
/// run joins the last one.
Outcome equal_runs(std::vector<uint32_t> numbers, const sab_plan_options& options,
                   uint64_t lower_bound, uint64_t batches) {
    std::ranges::sort(numbers);
    const std::vector<double> distinct{static_cast<double>(numbers[0])};
    const std::span<const double> column = distinct;
    const std::string no_name;
    const BatchSizes rules(PlanOptions(options, {&no_name, 1}), {&column, 1}, numbers.size());
    const auto padded = [&](uint64_t place) { return rules.padded(numbers[place], 0); };
    const auto size_at = [&](uint64_t place) {
        const double length = padded(place);
        return std::max<uint64_t>(rules.largest({&length, 1}), 1);
    };
    Outcome outcome{};
    double total = 0;
    for (uint64_t end = numbers.size(); end > 0;) {
        const uint64_t size = size_at(end - 1), fits = end / size;
        uint64_t begin = fits > 0 ? end - size * std::min(batches, fits) : 0;
        if (begin > 0 && begin / size_at(begin - 1) < batches) begin = 0;
        outcome.batches += (end - begin + size - 1) / size;
        outcome.padded += padded(end - 1) * static_cast<double>(end - begin);
        for (uint64_t place = begin; place < end; ++place) total += numbers[place];
        end = begin;
    }
    outcome.padding = outcome.padded > 0 ? (outcome.padded - total) / outcome.padded : 0;
    const auto bound = static_cast<double>(lower_bound);
    outcome.overhead = outcome.padding;
    if (options.budget_count > 0)
        outcome.overhead =
            std::max(outcome.padding, (static_cast<double>(outcome.batches) - bound) / bound);
    return outcome;
}

/// Whether only buckets of the shortest samples have fewer batches, no more than `least` together.
bool has_fewer_only_at_end(const Plan& plan, uint64_t least) {
    std::size_t number = 0;
    uint64_t batches = 0;
    while (number < plan.buckets().size() && plan.buckets()[number].batches < least)
        batches += plan.buckets()[number++].batches;
    for (; number < plan.buckets().size(); ++number)
        if (plan.buckets()[number].batches < std::max(std::min<uint64_t>(least, 4), least / 4))
            return false;
    return batches <= least;
}

std::vector<uint32_t> any_sizes(std::mt19937_64& random, std::size_t count) {
    const auto real = [&] { return std::uniform_real_distribution<>(0, 1)(random); };
    const int kind = static_cast<int>(random() % 7);
    const double spread = 0.2 + 1.3 * real(), scale = std::exp(1 + 5 * real()), short_ones = real();
    const auto limit = static_cast<double>(1 + random() % 3000);
    std::normal_distribution<> normal;
    std::vector<uint32_t> sizes(count);
    for (uint32_t& size : sizes) {
        double length = 0;
        switch (kind) {
            // log-normal
            case 0: length = scale * std::exp(spread * normal(random)); break;
            // gamma
            case 1: length = -scale * (std::log(1 - real()) + std::log(1 - real())); break;
            // exponential
            case 2: length = -scale * std::log(1 - real()); break;
            // uniform
            case 3: length = limit * real(); break;
            // many very short
            case 4:
                length =
                    real() < short_ones ? 3 * real() : scale * std::exp(spread * normal(random));
                break;
            // two humps
            case 5:
                length = real() < 0.5 ? 10 + 3 * normal(random) : limit + 5 * normal(random);
                break;
            // Pareto
            default: length = scale / std::pow(1 - real(), 1 / (1 + 2 * spread)); break;
        }
        size = static_cast<uint32_t>(std::clamp(length, 0.0, limit)) + 1;
    }
    return sizes;
}

sab_plan_options any_options(std::mt19937_64& random, const std::vector<uint32_t>& sizes,
                             std::vector<sab_cost_term>& terms, sab_budget& budget,
                             uint64_t& batch_size) {
    sab_plan_options options SAB_PLAN_OPTIONS_INIT;
    const double longest = *std::ranges::max_element(sizes);
    const double multiples[] = {1, 2, 4, 8, 32};
    double limit = longest * multiples[random() % 5];
    if (random() % 4 == 0)
        options.length_multiples = one_number(8), options.length_multiple_count = 1,
        limit += 8 * multiples[random() % 5];
    if (random() % 6 == 0) options.max_batch_size = 1 + random() % 64;
    if (random() % 6 == 0) options.batch_size_multiple = 8;
    switch (random() % 8) {
        case 0:
            terms = {term_of(1, 1, {2})};
            limit *= longest + 8;
            break;
        case 1:  // what a sample costs besides its length outweighs the length
            terms = {term_of(longest, 0, {0}), term_of(3 * longest, 1, {0}), term_of(1, 1, {1})};
            limit = longest + (4 * longest + 8) * multiples[random() % 5];
            break;
        case 2:
            limit = 0;
            options.batch_size_multiple = 0;
            options.batch_sizes = &batch_size;
            options.batch_size_count = 1;
            batch_size = 1 + random() % 32;
            break;
        default: break;
    }
    budget.limit = limit;
    options.budgets = limit > 0 ? &budget : nullptr;
    options.budget_count = limit > 0;
    return options;
}

TEST(Automatic, IsNeverWorseThanEqualRunsAndReachesWhatTheyReach) {
    std::mt19937_64 random(1);
    int missed = 0, met = 0;
    constexpr int rounds = ROUNDS_OF(80);
    for (int round = 0; round < rounds; ++round) {
        const std::vector<uint32_t> numbers = any_sizes(random, 300 + random() % 8000);
        const Sizes sizes(numbers.data(), numbers.size(), SAB_UINT32, sizeof(uint32_t), nullptr);
        std::vector<sab_cost_term> terms;
        sab_budget budget{};
        uint64_t batch_size = 0;
        sab_plan_options options = any_options(random, numbers, terms, budget, batch_size);
        sab_cost* cost = nullptr;
        if (!terms.empty())
            ASSERT_EQ(sab_cost_terms_new(terms.data(), terms.size(), &cost), SAB_OK);
        const std::unique_ptr<sab_cost, decltype(&sab_cost_free)> owner(cost, sab_cost_free);
        budget.cost = cost;
        std::map<uint64_t, Outcome> equal;
        const uint64_t bound = plan_of(sizes, options)->facts().lower_bound;
        for (const uint64_t batches : {1, 2, 4, 5, 8, 11, 16, 40})
            equal[batches] = equal_runs(numbers, options, bound, batches);
        for (const double target : {1e-6, 0.002, 0.01, 0.05, 0.3})
            for (const uint64_t fewest : {0, 1, 2, 4, 5, 8, 11, 16, 40}) {
                options.padding_target = target;
                options.bucket_batches = fewest;
                const auto plan = plan_of(sizes, options);
                const Outcome found = outcome_of(*plan);
                SCOPED_TRACE("round " + std::to_string(round) + ", target " +
                             std::to_string(target) + ", fewest " + std::to_string(fewest));
                ASSERT_EQ(found.met, found.overhead <= target);
                ASSERT_EQ(found.nearest, found.met ? target : found.nearest);
                ASSERT_LE(found.nearest, std::max(target, found.overhead));
                ++(found.met ? met : missed);
                const uint64_t room = std::max<uint64_t>(plan->facts().lower_bound / 16, 1),
                               least = fewest > 0 ? fewest : std::min<uint64_t>(room, 4);
                // Fewer only where the bucket of the shortest samples has them, or where they save
                // more than a quarter of the batches or of the padded total.
                if (found.fewest < least && plan->buckets().size() > 1) {
                    if (fewest > 0) {
                        ASSERT_TRUE(has_fewer_only_at_end(*plan, least));
                    } else {
                        sab_plan_options given = options;
                        given.bucket_batches = least;
                        const Outcome strict = outcome_of(*plan_of(sizes, given));
                        ASSERT_TRUE(strict.fewest < least ||
                                    (!strict.met && (strict.batches * 4 > found.batches * 5 ||
                                                     strict.padded * 3 > found.padded * 4)));
                    }
                }
                for (const uint64_t batches : {4, 8, 16}) {
                    const bool is_allowed = fewest > 0 ? batches >= fewest : true;
                    if (is_allowed)
                        ASSERT_TRUE(found.met || equal[batches].overhead > target)
                            << batches << " a bucket reach it: " << equal[batches].overhead
                            << ", found " << found.overhead;
                    if (is_allowed)
                        ASSERT_LE(found.nearest, std::max(target, equal[batches].overhead))
                            << batches;
                }
                // Beside equal runs of the plan's own usual number of batches.
                const bool has_own = found.met && found.fewest >= least &&
                                     found.usual < std::numeric_limits<uint64_t>::max();
                const uint64_t own = has_own ? found.usual : fewest > 0 ? fewest : 16;
                if (!equal.contains(own)) equal[own] = equal_runs(numbers, options, bound, own);
                const Outcome& same = equal[own];
                if (has_own || !found.met)
                    ASSERT_FALSE(same.padding <= found.padding && same.batches < found.batches)
                        << own << ": " << same.padding << " < " << found.padding << ", "
                        << same.batches << " < " << found.batches;
                if (!found.met) {
                    if (found.nearest >= 1) continue;
                    options.padding_target = found.nearest;
                    ASSERT_TRUE(outcome_of(*plan_of(sizes, options)).met)
                        << "the nearest target is within reach";
                }
            }
    }
    EXPECT_GT(met, rounds * 25 / 4);
    EXPECT_GT(missed, rounds * 25 / 4);
}

/// The fewest batches of runs that have at least `fewest` each, a quarter of it, but up to 4, where
/// they begin among the longest 1 %: by trying all runs from every offset.
uint64_t exact_batches(const std::vector<uint32_t>& ascending, uint64_t budget, uint64_t fewest) {
    const std::size_t count = ascending.size();
    constexpr uint64_t none = std::numeric_limits<uint32_t>::max();
    std::vector<uint64_t> best(count + 1, none);
    for (std::size_t left = 1; left <= count; ++left) {
        const uint64_t size = std::min<uint64_t>(budget / ascending[left - 1], count);
        const uint64_t least = left > count - count / 100
                                   ? std::max(std::min<uint64_t>(fewest, 4), fewest / 4)
                                   : fewest;
        if (left / size >= least || left == count) best[left] = (left + size - 1) / size;
        for (uint64_t run = least; run * size < left; ++run)
            best[left] = std::min(best[left], run + best[left - run * size]);
    }
    return best[count];
}

TEST(BoundaryFinder, ByFewestBatches_IsNearlyExact) {
    std::mt19937_64 random(2);
    int rounds = 0, exact = 0;
    for (; rounds < 1000; ++rounds) {
        std::vector<uint32_t> numbers = any_sizes(random, 20 + random() % 1500);
        const uint64_t budget = *std::ranges::max_element(numbers) * (1 + random() % 4),
                       fewest = 1 + random() % 20;
        const Sorted sorted = sort_by_size(
            Sizes(numbers.data(), numbers.size(), SAB_UINT32, sizeof(uint32_t), nullptr), true,
            Progress());
        const auto count = static_cast<uint32_t>(numbers.size());
        const SizeCounts counts(sorted);
        BoundaryFinder finder(
            counts, 0, count, [](double size) { return size; },
            [&](double size) {
                return std::min<uint64_t>(budget / static_cast<uint64_t>(size), count);
            });
        const std::vector<BucketRange> equal = finder.equal_buckets(fewest),
                                       ranges = finder.by_fewest_batches(fewest, equal);
        std::ranges::sort(numbers);
        uint64_t batches = 0;
        uint64_t begin = 0;
        for (const BucketRange& range : ranges) {
            ASSERT_EQ(range.begin, begin);
            ASSERT_EQ(range.batch_size, std::min<uint64_t>(budget / numbers[range.end - 1], count));
            if (begin > 0) ASSERT_EQ((range.end - range.begin) % range.batch_size, 0u);
            begin = range.end;
            batches += range.batches();
        }
        ASSERT_EQ(begin, count);
        ASSERT_LE(batches, finder.waste(equal).batches);
        const uint64_t least = exact_batches(numbers, budget, fewest);
        ASSERT_GE(batches, least) << "round " << rounds;
        EXPECT_LE(batches, least + 1 + fewest / 4)
            << "round " << rounds << ", " << count << " samples, at least " << fewest << " batches";
        exact += batches == least;
    }
    // the others have few runs, or a last one that hardly holds the fewest batches
    EXPECT_GE(exact, rounds * 96 / 100);
}

/// As many lengths as paragraphs in wikitext-103, in its shape: a third are headings of 3 to 12,
/// the others are skewed around 150. Whole numbers only, so that they are the same on every
/// machine.
std::vector<uint32_t> paragraphs() {
    std::mt19937_64 random(1);
    std::vector<uint32_t> lengths(1'164'464);
    for (std::size_t i = 0; i < lengths.size(); ++i) {
        uint64_t bits = random(), sum = 0;
        for (int byte = 0; byte < 8; ++byte, bits >>= 8) sum += bits & 255;
        lengths[i] = static_cast<uint32_t>(i % 20 < 7 ? 3 + sum % 10 : 3 + sum * sum / 6850);
    }
    return lengths;
}

TEST(Automatic, OfManyShortLengths_IsNearTheLowerBound) {
    const std::vector<uint32_t> lengths = paragraphs();
    const Sizes sizes(lengths.data(), lengths.size(), SAB_UINT32, sizeof(uint32_t), nullptr);
    sab_plan_options options SAB_PLAN_OPTIONS_INIT;
    const sab_budget budget{nullptr, 16384};
    options.budgets = &budget;
    options.budget_count = 1;
    options.padding_target = 1e-9;  // as near as can be
    const auto batches = [&](uint64_t fewest) {
        options.bucket_batches = fewest;
        PlanOptions own(options, Columns(sizes).names());
        own.has_one_set = true;  // a second set may add batches
        const auto plan = Plan::make(sizes, own);
        EXPECT_EQ(plan->facts().lower_bound, 7610u);
        return plan->facts().batches;
    };
    EXPECT_EQ(batches(16), 7662u);
    EXPECT_EQ(batches(8), 7656u);
    EXPECT_EQ(batches(4), 7652u);
}

}  // namespace
}  // namespace sab
