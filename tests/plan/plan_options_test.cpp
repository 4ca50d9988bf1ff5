/// The options of plans in memory of their own.
#include "plan/plan_options.h"
#include "../c/one.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "plan/plan.h"

namespace sab {
namespace {

TEST(PlanOptions, OwnWhatTheyAreMadeFrom) {
    std::vector<double> boundaries{0, 10, 30, 100}, multiples{8};
    std::vector<uint64_t> batch_sizes{7, 5, 2};
    const sab_cost_term term = term_of(1, 1, {2});
    sab_cost* cost = nullptr;
    ASSERT_EQ(sab_cost_terms_new(&term, 1, &cost), SAB_OK);
    sab_budget budget{cost, 20'000};
    sab_plan_options given SAB_PLAN_OPTIONS_INIT;
    given.bucket_rule = SAB_BUCKETS_BOUNDARIES;
    given.boundaries = boundaries.data();
    given.boundary_count = boundaries.size();
    given.batch_sizes = batch_sizes.data();
    given.batch_size_count = batch_sizes.size();
    given.length_multiples = multiples.data();
    given.length_multiple_count = multiples.size();
    given.budgets = &budget;
    given.budget_count = 1;

    std::vector<uint32_t> numbers(500);
    for (uint32_t i = 0; i < numbers.size(); ++i) numbers[i] = 1 + i * 37 % 90;
    const Columns sizes(
        Sizes(numbers.data(), numbers.size(), SAB_UINT32, sizeof(uint32_t), nullptr));
    const PlanOptions options(given, sizes.names());
    const uint64_t fingerprint = Plan::make(sizes, options)->fingerprint();
    boundaries.assign(4, 1);
    batch_sizes.assign(3, 0);
    multiples[0] = -1;
    budget = {nullptr, -1, {}};
    sab_cost_free(cost);
    EXPECT_EQ(Plan::make(sizes, options)->fingerprint(), fingerprint);
}

TEST(PlanOptions, WithoutOptionsAreTheDefaults) {
    sab_plan_options given SAB_PLAN_OPTIONS_INIT;
    const sab_budget budget{nullptr, 100};
    given.budgets = &budget;
    given.budget_count = 1;
    const std::vector<uint32_t> numbers{3, 1, 4, 1, 5, 9, 2, 6};
    const Columns sizes(
        Sizes(numbers.data(), numbers.size(), SAB_UINT32, sizeof(uint32_t), nullptr));
    PlanOptions own;
    own.budgets = {{Cost(), 100}};
    EXPECT_EQ(Plan::make(sizes, own)->fingerprint(),
              Plan::make(sizes, PlanOptions(given, sizes.names()))->fingerprint());
}

}  // namespace
}  // namespace sab
