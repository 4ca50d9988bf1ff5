/// Plan files with a correct checksum and impossible contents: each is refused, or can be walked.
#include <gtest/gtest.h>
#include <sab.h>

#include <algorithm>

#include "../c/budgets.h"
#include "../forgeries.h"
#include "base/image.h"

namespace forged_plan {  // files are compiled together in unity builds
namespace {

constexpr std::size_t sample_count = 12;

Saved plan_image(sab_tail tail) {
    const uint8_t numbers[sample_count] = {3, 1, 2, 3, 7, 7, 4, 9, 2, 2, 5, 8};
    sab_sizes* sizes = nullptr;
    sab_plan* plan = nullptr;
    sab_plan_options options = SAB_PLAN_OPTIONS_INIT;
    SET_BUDGET(options, 20);
    options.tail = tail;
    EXPECT_EQ(sab_sizes_new(numbers, sample_count, SAB_UINT8, nullptr, &sizes), SAB_OK);
    EXPECT_EQ(sab_plan_new(sizes, &options, &plan), SAB_OK);
    std::size_t size = 0;
    EXPECT_EQ(sab_plan_write(plan, nullptr, 0, &size), SAB_OK);
    Saved image(size);
    EXPECT_EQ(sab_plan_write(plan, image.data(), size, &size), SAB_OK);
    sab_plan_free(plan);
    sab_sizes_free(sizes);
    return image;
}

void repair(Saved& image) {
    const uint64_t checksum = sab::image_checksum({std::as_bytes(std::span(image))});
    std::memcpy(image.data() + offsetof(sab::ImageHeader, checksum), &checksum, sizeof checksum);
}

void walk(sab_sampler* sampler) {
    sab_batch batch = SAB_BATCH_INIT;
    sab_status status = SAB_OK;
    while ((status = sab_next_batch(sampler, &batch)) == SAB_OK)
        for (std::size_t i = 0; i < batch.count; ++i)
            ASSERT_TRUE(batch.indices[i] >= 0 && batch.indices[i] < int64_t{sample_count});
    ASSERT_EQ(status, SAB_END) << sab_last_error_message();
    sab_sampler_free(sampler);
}

void use(const sab_plan* plan) {
    sab_sampler* sampler = nullptr;
    ASSERT_EQ(sab_bucket_sampler_new(plan, nullptr, &sampler), SAB_OK);
    walk(sampler);
    ASSERT_EQ(sab_sequential_sampler_new(plan, nullptr, &sampler), SAB_OK);
    walk(sampler);
    ASSERT_EQ(sab_costliest_sampler_new(plan, 5, &sampler), SAB_OK);
    walk(sampler);
    sab_plan_report report = SAB_PLAN_REPORT_INIT;
    ASSERT_EQ(sab_plan_get_report(plan, nullptr, nullptr, nullptr, &report), SAB_OK);
}

TEST(ForgedPlan, IsRefusedOrCanBeWalked) {
    for (sab_tail tail = SAB_TAIL_KEEP; tail <= SAB_TAIL_WRAP; ++tail) {
        const Saved image = plan_image(tail);
        int accepted = 0;
        for_each_forgery(
            image, offsetof(sab::ImageHeader, length), image.size(), [&](Saved& forged) {
                if (testing::Test::HasFailure()) return;
                repair(forged);
                sab_plan* plan = nullptr;
                const sab_status status = sab_plan_bytes_new(forged.data(), forged.size(), &plan);
                ASSERT_TRUE(status == SAB_OK || status == SAB_E_FORMAT);
                accepted += status == SAB_OK;
                if (status == SAB_OK) use(plan);
                sab_plan_free(plan);
            });
        EXPECT_GT(accepted, 0);  // of another total, at least
    }
}

}  // namespace
}  // namespace forged_plan
