#pragma once
/// Handles of the C interface that free themselves, and calls that must succeed.

#include <gtest/gtest.h>
#include <sab.h>

#include <memory>

namespace handles {

template <auto free_handle>
struct Free {
    template <class Handle>
    void operator()(Handle* handle) const {
        free_handle(handle);
    }
};
using Sizes = std::unique_ptr<sab_sizes, Free<sab_sizes_free>>;
using Plan = std::unique_ptr<sab_plan, Free<sab_plan_free>>;
using Sampler = std::unique_ptr<sab_sampler, Free<sab_sampler_free>>;

}  // namespace handles

#define ASSERT_DONE(call) ASSERT_EQ(call, SAB_OK) << sab_last_error_message()
#define EXPECT_DONE(call) EXPECT_EQ(call, SAB_OK) << sab_last_error_message()
