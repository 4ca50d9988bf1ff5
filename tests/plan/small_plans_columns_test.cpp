/// Plans of small and skewed data with several columns against sorted cuts.
///
/// A sorted cut takes the samples in one order, each batch as many as fit. Here the order is by the
/// cost of a sample under each budget, or by a column, from the largest down; `c` is the least
/// number of batches of these cuts. A plan has at most max(1.3 * c, c + 1) batches.
#include <sab.h>
#include "../c/one.h"
#include "../rounds.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace small_plans_columns {  // files are compiled together in unity builds
namespace {

constexpr std::size_t most_columns = 4;
using Random = std::mt19937_64;
using Row = std::array<double, most_columns>;
using OwnedPlan = std::unique_ptr<sab_plan, decltype(&sab_plan_free)>;

std::size_t below(Random& random, std::size_t bound) {
    return random() % bound;
}
double between(Random& random, double low, double high) {
    return low + (high - low) * static_cast<double>(random() >> 11) / 9007199254740992.0;
}
bool chance(Random& random, double share) {
    return between(random, 0, 1) < share;
}
double one_of(Random& random, std::initializer_list<double> values) {
    return values.begin()[below(random, values.size())];
}

/// The cost of one sample: a sum of products of powers of its lengths.
struct Price {
    std::vector<sab_cost_term> terms;
    bool is_default = false;  ///< of the library, which is given none
    double of(const Row& lengths, std::size_t columns) const {
        double sum = 0;
        for (const sab_cost_term& term : terms) {
            double product = term.coefficient;
            for (std::size_t j = 0; j < std::min<std::size_t>(columns, term.column_count); ++j)
                for (uint32_t power = 0; power < term.length_powers[j]; ++power)
                    product *= lengths[j];
            sum += product;
        }
        return sum;
    }
};

/// The budgets and the other limits of a plan, written without the library.
struct Rules {
    std::size_t columns;
    std::vector<Row> sizes;
    std::vector<Price> prices;
    std::vector<double> limits;
    Row multiples{};
    uint64_t max_batch_size = 0, batch_size_multiple = 1;

    Row padded(std::size_t sample) const {
        Row row = sizes[sample];
        for (std::size_t j = 0; j < columns; ++j)
            if (multiples[j] > 0) row[j] = std::ceil(row[j] / multiples[j]) * multiples[j];
        return row;
    }
    double cost(std::size_t which, const Row& lengths) const {
        return prices[which].of(lengths, columns);
    }
    /// How many samples of these lengths make a batch. What is left over may be a tail.
    uint64_t fits(const Row& lengths) const {
        const uint64_t multiple = batch_size_multiple;
        uint64_t count = (sizes.size() + multiple - 1) / multiple * multiple;
        if (max_batch_size > 0) count = std::min(count, max_batch_size);
        for (std::size_t i = 0; i < limits.size(); ++i) {
            const double most = limits[i] / cost(i, lengths) * (1 + 1e-12);
            if (most < static_cast<double>(count)) count = static_cast<uint64_t>(most);
        }
        return count >= multiple ? count - count % multiple : count;
    }
};

/// The batches of the rows in this order.
uint64_t sorted_cut(const Rules& rules, const std::vector<Row>& rows) {
    uint64_t batches = 0;
    for (std::size_t place = 0; place < rows.size(); ++batches) {
        Row corner = rows[place];
        std::size_t count = 1;
        for (; place + count < rows.size(); ++count) {
            Row wider = corner;
            for (std::size_t j = 0; j < rules.columns; ++j)
                wider[j] = std::max(wider[j], rows[place + count][j]);
            if (rules.fits(wider) <= count) break;
            corner = wider;
        }
        const bool is_last = place + count == rows.size();  // that may be a tail
        if (count >= rules.batch_size_multiple && !is_last)
            count -= count % rules.batch_size_multiple;
        place += count;
    }
    return batches;
}

struct Cut {
    uint64_t fewest = 0;   ///< batches of the best sorted cut
    uint64_t singles = 0;  ///< samples over a budget alone
};

uint64_t most_allowed(uint64_t cut) {
    return std::max(13 * cut / 10, cut + 1);
}

/// Of some of the samples. `fewest` is a lower bound where so many batches are allowed by that.
Cut best_cut(const Rules& rules, const std::vector<std::size_t>& samples,
             uint64_t batches = UINT64_MAX) {
    Cut cut;
    std::vector<double> shares(rules.prices.size());
    std::vector<Row> rows;
    std::vector<std::vector<double>> keys(rules.prices.size() + rules.columns + 1);
    for (const std::size_t sample : samples) {
        const Row row = rules.padded(sample);
        std::vector<double> key;
        double share = 0;
        bool is_over = false;
        for (std::size_t i = 0; i < rules.prices.size(); ++i) {
            key.push_back(rules.cost(i, row));
            share = std::max(share, key.back() / rules.limits[i]);
            is_over = is_over || key.back() > rules.limits[i];
        }
        if (is_over) {
            ++cut.singles;
            continue;
        }
        rows.push_back(row);
        for (std::size_t i = 0; i < shares.size(); ++i) shares[i] += key[i] / rules.limits[i];
        for (std::size_t j = 0; j < rules.columns; ++j) key.push_back(row[j]);
        key.push_back(share);
        for (std::size_t k = 0; k < keys.size(); ++k) keys[k].push_back(key[k]);
    }
    if (rows.empty()) return cut;
    const double bound = std::max(std::ceil(std::ranges::max(shares) - 1e-9), 1.0);
    cut.fewest = static_cast<uint64_t>(bound);
    if (batches <= most_allowed(cut.fewest)) return cut;
    cut.fewest = UINT64_MAX;
    std::vector<std::size_t> order(rows.size());
    for (const std::vector<double>& key : keys) {
        for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
        std::ranges::stable_sort(order, std::greater(),
                                 [&](std::size_t i) { return std::pair(key[i], keys[0][i]); });
        std::vector<Row> sorted;
        for (const std::size_t i : order) sorted.push_back(rows[i]);
        cut.fewest = std::min(cut.fewest, sorted_cut(rules, sorted));
    }
    return cut;
}

Cut best_cut(const Rules& rules, uint64_t batches = UINT64_MAX) {
    std::vector<std::size_t> all(rules.sizes.size());
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = i;
    return best_cut(rules, all, batches);
}

/// One column of a case; `before` is the column before, if there is one.
std::vector<double> any_column(Random& random, std::size_t count,
                               const std::vector<double>& before) {
    const std::size_t kind = below(random, 7);
    const double scale = std::exp(between(random, 1, 6)), spread = between(random, 0.1, 1.5);
    const double outliers = one_of(random, {0.01, 0.1}), factor = one_of(random, {10, 1000});
    std::normal_distribution<double> normal;
    double few[4];
    for (double& length : few) length = std::exp(between(random, 0, 7));
    std::vector<double> column;
    for (std::size_t i = 0; i < count; ++i) {
        double length = between(random, 1, scale);
        if (kind == 0) length = scale * std::exp(spread * normal(random));
        if (kind == 1 && chance(random, outliers)) length *= factor;
        if (kind == 2) {
            const double at = between(random, 0, 1);
            length = at < 0.6 ? 1 : at < 0.9 ? scale : 10 * scale;
        }
        if (kind == 3) length = few[below(random, 4)];
        if (kind == 4) length = std::min(-scale * std::log(1 - between(random, 0, 1)), 2 * scale);
        if (kind == 5 && !before.empty()) length = before[i] * between(random, 0.5, 1.5);
        column.push_back(std::floor(std::max(length, 1.0)));
    }
    return column;
}

std::vector<Row> any_sizes(Random& random, std::size_t columns) {
    const double share = std::pow(between(random, 0, 1), 1.7);
    const auto count = static_cast<std::size_t>(3 * std::pow(2000.0 / 3, share));
    std::vector<Row> sizes(count);
    std::vector<double> column;
    for (std::size_t j = 0; j < columns; ++j) {
        column = any_column(random, count, column);
        for (std::size_t i = 0; i < count; ++i) sizes[i][j] = column[i];
    }
    if (chance(random, 0.25)) {
        const std::size_t zeroed = below(random, columns);
        for (Row& row : sizes)
            if (chance(random, 0.3)) row[zeroed] = 0;
    }
    return sizes;
}

Price weighted(const std::vector<double>& weights) {
    Price price;
    for (std::size_t j = 0; j < weights.size(); ++j) {
        std::vector<uint32_t> powers(j + 1);
        powers[j] = 1;
        price.terms.push_back(term_of(weights[j], 1, powers));
    }
    return price;
}

Price product(std::size_t columns) {
    return {{term_of(1, 1, std::vector<uint32_t>(columns, 1))}, false};
}

Price of_column(std::size_t column, uint32_t power) {
    std::vector<uint32_t> powers(column + 1);
    powers[column] = power;
    return {{term_of(1, 1, powers)}, false};
}

void set_any_budgets(Random& random, Rules& rules) {
    std::vector<Price> prices{weighted(std::vector<double>(rules.columns, 1))};
    prices[0].is_default = true;
    for (int i = 0; i < 3; ++i) {
        std::vector<double> weights(rules.columns);
        for (double& weight : weights) weight = one_of(random, {0.5, 1, 2});
        prices.push_back(weighted(weights));
    }
    prices.push_back(product(rules.columns));
    for (std::size_t j = 0; j < rules.columns; ++j)
        for (const uint32_t power : {1u, 2u}) prices.push_back(of_column(j, power));
    if (chance(random, 0.3)) {
        prices.resize(1);
    } else {
        std::shuffle(prices.begin(), prices.end(), random);
        prices.resize(1 + below(random, 3));
    }
    const double factor = std::exp(between(random, 0, 4));
    for (const Price& price : prices) {
        double most = 1;
        for (const Row& row : rules.sizes) most = std::max(most, price.of(row, rules.columns));
        rules.limits.push_back(most * factor * one_of(random, {1, 1, 1.5, 0.7}));
    }
    rules.prices = std::move(prices);
}

/// A case and its handles.
struct Case {
    Rules rules;
    sab_plan_options options SAB_PLAN_OPTIONS_INIT;
    std::vector<sab_budget> budgets;
    sab_sizes* sizes = nullptr;

    explicit Case(Rules given) : rules(std::move(given)) {
        sab_sizes* parts[most_columns];
        sab_sizes_options strided SAB_SIZES_OPTIONS_INIT;
        strided.stride = sizeof(Row);
        for (std::size_t j = 0; j < rules.columns; ++j)
            EXPECT_EQ(sab_sizes_new(&rules.sizes[0][j], rules.sizes.size(), SAB_FLOAT64, &strided,
                                    &parts[j]),
                      SAB_OK);
        EXPECT_EQ(sab_sizes_columns_new(parts, nullptr, rules.columns, &sizes), SAB_OK);
        for (std::size_t j = 0; j < rules.columns; ++j) sab_sizes_free(parts[j]);
        for (std::size_t i = 0; i < rules.prices.size(); ++i) {
            const std::vector<sab_cost_term>& terms = rules.prices[i].terms;
            sab_cost* cost = nullptr;
            if (!rules.prices[i].is_default) {
                EXPECT_EQ(sab_cost_terms_new(terms.data(), terms.size(), &cost), SAB_OK);
            }
            budgets.push_back({cost, rules.limits[i], {}});
        }
        options.budgets = budgets.data();
        options.budget_count = budgets.size();
        options.length_multiples = rules.multiples.data();
        options.length_multiple_count = rules.columns;
        options.max_batch_size = rules.max_batch_size;
        options.batch_size_multiple = rules.batch_size_multiple;
    }
    Case(const Case&) = delete;
    Case& operator=(const Case&) = delete;
    ~Case() {
        sab_sizes_free(sizes);
        for (const sab_budget& budget : budgets) sab_cost_free(const_cast<sab_cost*>(budget.cost));
    }
    /// NULL where no sample is left, or the samples of one shape make no batch.
    OwnedPlan plan() const {
        sab_plan* plan = nullptr;
        if (sab_plan_new(sizes, &options, &plan) != SAB_OK) {
            const std::string message = sab_last_error_message();
            const bool is_of_shapes = message.find("options.max_shapes") != std::string::npos;
            EXPECT_TRUE((options.max_shape_count > 0 && is_of_shapes) ||
                        message.find("no sample is left") != std::string::npos)
                << message;
        }
        return {plan, sab_plan_free};
    }
    uint64_t allowed(const Cut& cut) const {
        return (options.oversize == SAB_OVERSIZE_SINGLE ? cut.singles : 0) +
               (cut.fewest > 0 ? most_allowed(cut.fewest) : 0);
    }
};

std::unique_ptr<Case> any_case(int seed) {
    Random random(static_cast<uint64_t>(seed));
    Rules rules{};
    rules.columns = 2 + below(random, most_columns - 1);
    rules.sizes = any_sizes(random, rules.columns);
    set_any_budgets(random, rules);
    if (chance(random, 0.3))
        for (std::size_t j = 0; j < rules.columns; ++j)
            rules.multiples[j] = one_of(random, {1, 4, 8, 64});
    rules.max_batch_size = static_cast<uint64_t>(one_of(random, {0, 0, 0, 4, 33}));
    rules.batch_size_multiple = static_cast<uint64_t>(one_of(random, {1, 1, 1, 2, 8}));
    auto made = std::make_unique<Case>(std::move(rules));
    made->options.oversize = chance(random, 0.5) ? SAB_OVERSIZE_SKIP : SAB_OVERSIZE_SINGLE;
    if (chance(random, 0.3))
        made->options.bucket_batches = static_cast<uint64_t>(one_of(random, {1, 2, 4, 16}));
    return made;
}

sab_plan_info info_of(const OwnedPlan& plan) {
    sab_plan_info info SAB_PLAN_INFO_INIT;
    EXPECT_EQ(sab_plan_get_info(plan.get(), &info), SAB_OK);
    return info;
}

sab_plan_report report_of(const OwnedPlan& plan) {
    sab_plan_report report SAB_PLAN_REPORT_INIT;
    EXPECT_EQ(sab_plan_get_report(plan.get(), nullptr, nullptr, &report), SAB_OK);
    return report;
}

TEST(SmallPlansOfColumns, HaveFewMoreBatchesThanASortedCut) {
    int compared = 0;
    for (int seed = 0; seed < ROUNDS_OF(2000); ++seed) {
        SCOPED_TRACE(seed);
        const auto each = any_case(seed);
        const OwnedPlan plan = each->plan();
        if (plan == nullptr) continue;
        const uint64_t batches = info_of(plan).batches;
        ASSERT_LE(batches, each->allowed(best_cut(each->rules, batches)));
        ++compared;
    }
    EXPECT_GT(compared, ROUNDS_OF(1850));
}

TEST(SmallPlansOfColumns, KeepTheBudgets_AndHaveEachSampleOnce) {
    for (int seed = 0; seed < ROUNDS_OF(300); ++seed) {
        SCOPED_TRACE(seed);
        const auto each = any_case(seed);
        const OwnedPlan plan = each->plan();
        if (plan == nullptr) continue;
        const Rules& rules = each->rules;
        sab_sampler* sampler = nullptr;
        ASSERT_EQ(sab_bucket_sampler_new(plan.get(), nullptr, &sampler), SAB_OK);
        std::vector<int> seen(rules.sizes.size());
        uint64_t samples = 0;
        sab_batch batch SAB_BATCH_INIT;
        while (sab_next_batch(sampler, &batch) == SAB_OK) {
            Row corner{};
            for (std::size_t i = 0; i < batch.count; ++i) {
                const auto sample = static_cast<std::size_t>(batch.indices[i]);
                const Row row = rules.padded(sample);
                for (std::size_t j = 0; j < rules.columns; ++j)
                    corner[j] = std::max(corner[j], row[j]);
                ASSERT_EQ(seen[sample]++, 0);
            }
            samples += batch.count;
            if (batch.count > 1) {
                ASSERT_LE(batch.count, rules.fits(corner));
            }
        }
        sab_sampler_free(sampler);
        ASSERT_EQ(samples, rules.sizes.size() - info_of(plan).skipped);
    }
}

TEST(SmallPlansOfColumns, OfEachIdAreCutApart) {
    for (int seed = 0; seed < 120; seed += 120 / ROUNDS_OF(120)) {
        SCOPED_TRACE(seed);
        const auto each = any_case(seed);
        Random random(static_cast<uint64_t>(seed) + 10000);
        std::map<int64_t, std::vector<std::size_t>> by_id;
        std::vector<int64_t> ids;
        for (std::size_t i = 0; i < each->rules.sizes.size(); ++i) {
            ids.push_back(static_cast<int64_t>(below(random, 5)));
            by_id[ids.back()].push_back(i);
        }
        each->options.separate_by = ids.data();
        each->options.separate_by_count = ids.size();
        const OwnedPlan plan = each->plan();
        if (plan == nullptr) continue;
        Cut cut;
        for (const auto& [id, own] : by_id) {
            const Cut one = best_cut(each->rules, own);
            cut.fewest += one.fewest;
            cut.singles += one.singles;
        }
        ASSERT_LE(info_of(plan).batches, each->allowed(cut));
    }
}

TEST(SmallPlansOfColumns, NearestTarget_IsReached) {
    int met = 0;
    for (int seed = 0; seed < ROUNDS_OF(500); ++seed) {
        SCOPED_TRACE(seed);
        const auto each = any_case(seed);
        const OwnedPlan plan = each->plan();
        if (plan == nullptr) continue;
        const sab_plan_report report = report_of(plan);
        if (report.target_met || !(report.nearest_target > 0.01 && report.nearest_target < 0.99))
            continue;
        each->options.padding_target = report.nearest_target * (1 + 1e-9);
        ASSERT_TRUE(report_of(each->plan()).target_met);
        ++met;
    }
    EXPECT_GT(met, ROUNDS_OF(100));
}

TEST(SmallPlansOfColumns, HaveNoMoreShapesThanGiven) {
    for (int seed = 0; seed < ROUNDS_OF(300); ++seed) {
        SCOPED_TRACE(seed);
        const auto each = any_case(seed);
        each->options.bucket_batches = 0;
        each->options.max_shapes = one_count(3 + static_cast<std::size_t>(seed) % 6),
        each->options.max_shape_count = 1;
        const OwnedPlan plan = each->plan();
        if (plan == nullptr) continue;
        ASSERT_LE(report_of(plan).shapes, each->options.max_shapes[0]);
    }
}

/// The share of batches in buckets of at least four.
double mixed_share(const OwnedPlan& plan) {
    const sab_plan_info info = info_of(plan);
    uint64_t mixed = 0;
    for (std::size_t i = 0; i < info.buckets; ++i) {
        sab_bucket bucket SAB_BUCKET_INIT;
        EXPECT_EQ(sab_plan_get_bucket(plan.get(), i, &bucket), SAB_OK);
        if (bucket.batches >= 4) mixed += bucket.batches;
    }
    return static_cast<double>(mixed) / static_cast<double>(info.batches);
}

TEST(SmallPlansOfColumns, OfABudgetForHardlyOneOfTheLongestPairs_AreBetterThanOneOrder) {
    Random random(0);
    std::lognormal_distribution<double> prompt(5, 1.2), answer(5, 1);
    Rules rules{};
    rules.columns = 2;
    double longest[2] = {0, 0};
    for (int i = 0; i < 20000; ++i) {
        const double pair[] = {prompt(random), answer(random)};
        Row row{};
        for (std::size_t j = 0; j < 2; ++j) {
            row[j] = std::min(std::floor(pair[j]) + 1, 4096.0);
            longest[j] = std::max(longest[j], row[j]);
        }
        rules.sizes.push_back(row);
    }
    rules.prices = {weighted({1, 1})};
    rules.prices[0].is_default = true;
    rules.limits = {longest[0] + longest[1]};
    const Case each(std::move(rules));
    const OwnedPlan plan = each.plan();
    EXPECT_LT(static_cast<double>(info_of(plan).batches),
              0.8 * static_cast<double>(best_cut(each.rules).fewest));
    EXPECT_GT(mixed_share(plan), 0.95);
    EXPECT_GT(report_of(plan).partners, 50);
}

TEST(SmallPlansOfColumns, OfABudgetForEachColumn_HaveFewMoreBatchesThanASortedCut) {
    for (const double factor : {1.0, 2.0, 16.0}) {
        SCOPED_TRACE(factor);
        Random random(0);
        std::gamma_distribution<double> source(2, 30);
        std::lognormal_distribution<double> ratio(0, 0.3);
        Rules rules{};
        rules.columns = 2;
        for (int i = 0; i < 20000; ++i) {
            Row row{};
            row[0] = std::min(std::floor(source(random)) + 1, 256.0);
            row[1] = std::min(std::floor(row[0] * ratio(random)) + 1, 256.0);
            rules.sizes.push_back(row);
        }
        rules.prices = {of_column(0, 1), of_column(1, 1)};
        rules.limits = {256 * factor, 256 * factor};
        const Case each(std::move(rules));
        const OwnedPlan plan = each.plan();
        EXPECT_LE(info_of(plan).batches, each.allowed(best_cut(each.rules)));
        if (factor < 16) {
            EXPECT_GT(mixed_share(plan), 0.8);
        }
    }
}

}  // namespace
}  // namespace small_plans_columns
