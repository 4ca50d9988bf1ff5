/// Plan files with a correct checksum and impossible contents: each is refused, or its
/// batches are.
#include <gtest/gtest.h>
#include <sab.h>

#include <cstring>

#include "../c/budgets.h"
#include "../forgeries.h"
#include "../plan_image.h"
#include "base/hasher.h"
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

uint64_t hash(const void* data, std::size_t size) {
    sab::Hasher hasher;
    hasher.add_bytes(data, size);
    return hasher.digest();
}

/// Whether all batches were given; otherwise one was refused.
bool walks(sab_sampler* sampler) {
    sab_batch batch = SAB_BATCH_INIT;
    sab_status status = SAB_OK;
    while ((status = sab_next_batch(sampler, &batch)) == SAB_OK)
        for (std::size_t i = 0; i < batch.count; ++i)
            EXPECT_TRUE(batch.indices[i] >= 0 && batch.indices[i] < int64_t{sample_count});
    EXPECT_TRUE(status == SAB_END || status == SAB_E_FORMAT) << sab_last_error_message();
    sab_sampler_free(sampler);
    return status == SAB_END;
}

bool is_usable(const sab_plan* plan) {
    sab_sampler* sampler = nullptr;
    EXPECT_EQ(sab_bucket_sampler_new(plan, nullptr, &sampler), SAB_OK);
    bool usable = walks(sampler);
    EXPECT_EQ(sab_sequential_sampler_new(plan, nullptr, &sampler), SAB_OK);
    usable = walks(sampler) && usable;
    EXPECT_EQ(sab_costliest_sampler_new(plan, 5, &sampler), SAB_OK);
    usable = walks(sampler) && usable;
    sab_plan_report report = SAB_PLAN_REPORT_INIT;
    const sab_status status = sab_plan_get_report(plan, nullptr, nullptr, &report);
    EXPECT_TRUE(status == SAB_OK || status == SAB_E_FORMAT) << sab_last_error_message();
    return usable && status == SAB_OK;
}

TEST(ForgedPlan, IsRefusedOrChecksWhatItReads) {
    for (sab_tail tail = SAB_TAIL_KEEP; tail <= SAB_TAIL_WRAP; ++tail) {
        const Saved image = plan_image(tail);
        int accepted = 0, sound = 0;
        for_each_forgery(
            image, offsetof(sab::ImageHeader, length), image.size(), [&](Saved& forged) {
                if (testing::Test::HasFailure()) return;
                repair_plan(forged, hash);
                sab_plan* plan = nullptr;
                const sab_status status = sab_plan_bytes_new(forged.data(), forged.size(), &plan);
                ASSERT_TRUE(status == SAB_OK || status == SAB_E_FORMAT);
                if (status != SAB_OK) return;
                ++accepted;
                const sab_status checked = sab_plan_check(plan);
                ASSERT_TRUE(checked == SAB_OK || checked == SAB_E_FORMAT);
                const bool usable = is_usable(plan);
                // What sab_plan_check() accepts can be walked to its end.
                ASSERT_TRUE(usable || checked == SAB_E_FORMAT) << sab_last_error_message();
                sound += checked == SAB_OK;
                sab_plan_free(plan);
            });
        EXPECT_GT(sound, 0);  // of another total, at least
        EXPECT_GT(accepted, sound);
    }
}

TEST(ForgedPlan, WithAColumnNameThatIsNotUtf8_IsRefused) {
    const struct {
        const char* name;
        bool is_utf8;
    } names[] = {
        {"sizes", true},
        {"\x7f", true},
        {"\xc2\x80", true},
        {"\xdf\xbf", true},
        {"\xe0\xa0\x80", true},
        {"\xed\x9f\xbf", true},
        {"\xee\x80\x80", true},
        {"\xf0\x90\x80\x80", true},
        {"\xf4\x8f\xbf\xbf", true},
        {"\x80", false},  // continues nothing
        {"a\xc2", false},
        {"\xe2\x82", false},
        {"\xf0\x9f\x98", false},
        {"\xc2\x41", false},
        {"\xc0\x80", false},  // has a shorter form
        {"\xc1\xbf", false},
        {"\xe0\x9f\xbf", false},
        {"\xf0\x8f\xbf\xbf", false},
        {"\xed\xa0\x80", false},  // surrogates
        {"\xed\xbf\xbf", false},
        {"\xf4\x90\x80\x80", false},  // too large
        {"\xf8\x88\x80\x80\x80", false},
        {"\xff", false},
    };
    const uint8_t number = 1;
    sab_sizes* plain = nullptr;
    ASSERT_EQ(sab_sizes_new(&number, 1, SAB_UINT8, nullptr, &plain), SAB_OK);
    Saved image = plan_image(SAB_TAIL_KEEP);
    constexpr std::size_t header_bytes = 392, name_offset = 8, name_bytes = 64;
    unsigned char* const field = image.data() + header_bytes + name_offset;
    for (const auto& [name, is_utf8] : names) {
        std::memset(field, 0, name_bytes);
        std::memcpy(field, name, std::strlen(name));
        repair_plan(image, hash);
        sab_plan* plan = nullptr;
        sab_sizes* named = nullptr;
        EXPECT_EQ(sab_plan_bytes_new(image.data(), image.size(), &plan),
                  is_utf8 ? SAB_OK : SAB_E_FORMAT)
            << name;
        if (is_utf8) {
            sab_plan_info info = SAB_PLAN_INFO_INIT;
            EXPECT_EQ(sab_plan_get_info(plan, &info), SAB_OK);
            EXPECT_STREQ(info.column_names[0], name);
        } else {
            EXPECT_STREQ(sab_last_error_message(),
                         "data: is not a valid plan: the name of column 0 is not UTF-8 followed by "
                         "zeros");
        }
        // The same rule as where a name is given.
        EXPECT_EQ(sab_sizes_columns_new(&plain, &name, 1, &named),
                  is_utf8 ? SAB_OK : SAB_E_ARGUMENT);
        sab_plan_free(plan);
        sab_sizes_free(named);
    }
    sab_sizes_free(plain);
}

}  // namespace
}  // namespace forged_plan
