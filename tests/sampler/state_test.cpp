/// States that this library must not go on from.
#include "sampler/state.h"

#include <gtest/gtest.h>
#include <sab.h>

#include <cstring>
#include <vector>

#include "base/xxhash.h"

namespace sab {
namespace {

TEST(State, OfAnotherOrderVersion_IsRefusedWithBothVersions) {
    const double lengths[] = {1, 2, 3, 4, 5, 6, 7, 8};
    sab_sizes* sizes = nullptr;
    ASSERT_EQ(sab_sizes_new(lengths, std::size(lengths), SAB_FLOAT64, nullptr, &sizes), SAB_OK);
    sab_plan_options options = SAB_PLAN_OPTIONS_INIT;
    const sab_budget budget{nullptr, 16};
    options.budgets = &budget;
    options.budget_count = 1;
    sab_plan* plan = nullptr;
    ASSERT_EQ(sab_plan_new(sizes, &options, &plan), SAB_OK);
    sab_sampler* sampler = nullptr;
    ASSERT_EQ(sab_bucket_sampler_new(plan, nullptr, &sampler), SAB_OK);
    std::size_t size = 0;
    ASSERT_EQ(sab_sampler_state_save(sampler, nullptr, 0, &size), SAB_OK);
    std::vector<unsigned char> bytes(size);
    ASSERT_EQ(sab_sampler_state_save(sampler, bytes.data(), size, &size), SAB_OK);
    ASSERT_EQ(sab_sampler_state_restore(sampler, bytes.data(), bytes.size()), SAB_OK);

    StateHeader header;
    OrderState order;
    std::memcpy(&header, bytes.data(), sizeof header);
    std::memcpy(&order, bytes.data() + sizeof header, sizeof order);
    EXPECT_EQ(order.version, 3u);
    order.version = 2;
    std::memcpy(bytes.data() + sizeof header, &order, sizeof order);
    constexpr std::size_t covered = offsetof(StateHeader, length);
    header.checksum = XXH3_64bits(bytes.data() + covered, bytes.size() - covered);
    std::memcpy(bytes.data(), &header, sizeof header);
    EXPECT_EQ(sab_sampler_state_restore(sampler, bytes.data(), bytes.size()), SAB_E_MISMATCH);
    EXPECT_STREQ(sab_last_error_message(),
                 "state: was saved with order version 2, this sampler has 3");

    sab_sampler_free(sampler);
    sab_plan_free(plan);
    sab_sizes_free(sizes);
}

}  // namespace
}  // namespace sab
