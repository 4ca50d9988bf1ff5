/// States with a correct checksum and impossible contents: each is refused and changes nothing, or
/// leaves the sampler at a position of an epoch.
#include <gtest/gtest.h>
#include <sab.h>

#include <random>
#include <string>

#include "../c/constructors.h"
#include "../forgeries.h"
#include "base/xxhash.h"
#include "sampler/state.h"

namespace forged_state {  // files are compiled together in unity builds
namespace {

constexpr int64_t sample_count = 60;

struct Handles {
    Handles() {
        for (int64_t i = 0; i < sample_count; ++i)
            numbers[i] = static_cast<int32_t>(1 + i * 37 % 50);
        EXPECT_EQ(sab_sizes_new(numbers, sample_count, SAB_INT32, nullptr, &sizes), SAB_OK);
        sab_plan_options options = SAB_PLAN_OPTIONS_INIT;
        SET_BUDGET(options, 200);
        EXPECT_EQ(sab_plan_new(sizes, &options, &plan), SAB_OK);
    }
    ~Handles() {
        sab_plan_free(plan);
        sab_sizes_free(sizes);
    }
    Handles(const Handles&) = delete;
    Handles& operator=(const Handles&) = delete;

    int32_t numbers[sample_count];
    sab_sizes* sizes = nullptr;
    sab_plan* plan = nullptr;
};

sab_sampler* sampler_of(const constructor& kind, const Handles& handles,
                        const sab_sampler_options& options) {
    inputs given = default_inputs();
    given.numbers = handles.numbers;
    given.count = sample_count;
    given.sizes = handles.sizes;
    given.plan = handles.plan;
    given.options = options;
    sab_sampler* sampler = nullptr;
    EXPECT_EQ(kind.make(&given, &sampler), SAB_OK) << kind.name << sab_last_error_message();
    return sampler;
}

Saved state_of(const sab_sampler* sampler) {
    std::size_t size = 0;
    EXPECT_EQ(sab_sampler_state_save(sampler, nullptr, 0, &size), SAB_OK);
    Saved state(size);
    EXPECT_EQ(sab_sampler_state_save(sampler, state.data(), size, &size), SAB_OK);
    return state;
}

constexpr std::size_t covered = offsetof(sab::StateHeader, length);

void repair(Saved& state) {
    const uint64_t checksum = XXH3_64bits(state.data() + covered, state.size() - covered);
    std::memcpy(state.data() + offsetof(sab::StateHeader, checksum), &checksum, sizeof checksum);
}

/// The rest of the epoch, as far as it is not very long.
void walk(sab_sampler* sampler) {
    uint64_t count = 0, epoch = 0, position = 0, walked = 0;
    ASSERT_EQ(sab_sampler_get_batch_count(sampler, &count), SAB_OK);
    ASSERT_EQ(sab_sampler_tell(sampler, &epoch, &position), SAB_OK);
    ASSERT_LE(position, count);
    sab_batch batch = SAB_BATCH_INIT;
    sab_step step = SAB_STEP_INIT;
    for (; walked < 500 && sab_next_batch(sampler, &batch) == SAB_OK; ++walked) {
        ASSERT_LE(batch.count, std::size_t{sample_count});
        for (std::size_t i = 0; i < batch.count; ++i)
            ASSERT_TRUE(batch.indices[i] >= 0 && batch.indices[i] < sample_count);
        ASSERT_EQ(sab_sampler_get_step(sampler, &step), SAB_OK);
        ASSERT_GE(step.samples, batch.count);
        ASSERT_LT(batch.micro_batch, step.micro_batches);
    }
    ASSERT_EQ(walked, std::min<uint64_t>(count - position, 500));
}

/// Restores a forged state. Returns whether it was accepted.
bool restore(sab_sampler* sampler, Saved& forged, const Saved& before) {
    repair(forged);
    const sab_status status = sab_sampler_state_restore(sampler, forged.data(), forged.size());
    if (status == SAB_OK) {
        walk(sampler);
        // What is saved now is a state of this sampler.
        const Saved after = state_of(sampler);
        EXPECT_EQ(sab_sampler_state_restore(sampler, after.data(), after.size()), SAB_OK);
        EXPECT_EQ(sab_sampler_state_restore(sampler, before.data(), before.size()), SAB_OK);
    } else {
        EXPECT_TRUE(status == SAB_E_FORMAT || status == SAB_E_MISMATCH || status == SAB_E_ARGUMENT)
            << sab_last_error_message();
        EXPECT_EQ(state_of(sampler), before) << sab_last_error_message();
    }
    return status == SAB_OK;
}

/// A sampler in the middle of a step, under a lowered budget where it can have one.
sab_sampler* sampler_under_way(const constructor& kind, const Handles& handles,
                               const sab_sampler_options& options) {
    sab_sampler* const sampler = sampler_of(kind, handles, options);
    sab_batch batch = SAB_BATCH_INIT;
    for (int i = 0; i < 2; ++i) EXPECT_GE(sab_next_batch(sampler, &batch), SAB_OK);
    if ((kind.capabilities & SAB_SAMPLER_BUDGET) != 0 && options.micro_batches > 1) {
        EXPECT_EQ(sab_sampler_set_budget(sampler, 0, 60), SAB_OK);
        EXPECT_GE(sab_next_batch(sampler, &batch), SAB_OK);
    }
    return sampler;
}

template <class Test>
void for_each_sampler(Test&& test) {
    const Handles handles;
    FOR_CONSTRUCTORS(kind) {
        if ((kind->capabilities & SAB_SAMPLER_RANDOM_ACCESS) == 0) continue;
        const bool has_options = (kind->properties & WITH_OPTIONS) != 0;
        for (const uint64_t world_size : {1, 3})
            for (sab_last_step last_step = 0; last_step <= SAB_LAST_STEP_WRAP; ++last_step) {
                if (!has_options && world_size > 1) continue;
                sab_sampler_options options = SAB_SAMPLER_OPTIONS_INIT;
                options.rank = world_size / 2;
                options.world_size = world_size;
                options.micro_batches = world_size == 1 ? 1 : 2;
                options.last_step = last_step;
                SCOPED_TRACE(std::string(kind->name) + ", world size " +
                             std::to_string(world_size) + ", last step " +
                             std::to_string(last_step));
                sab_sampler* const sampler = sampler_under_way(*kind, handles, options);
                test(sampler);
                sab_sampler_free(sampler);
            }
    }
}

TEST(ForgedState, WithOneFieldChanged_IsRefusedOrAPosition) {
    for_each_sampler([](sab_sampler* sampler) {
        const Saved before = state_of(sampler);
        int accepted = 0;
        for_each_forgery(before, covered, before.size(), [&](Saved& forged) {
            if (!testing::Test::HasFailure()) accepted += restore(sampler, forged, before);
        });
        EXPECT_GT(accepted, 0);  // of another epoch, at least
    });
}

TEST(ForgedState, WithSeveralFieldsChanged_IsRefusedOrAPosition) {
    std::mt19937_64 random(1);
    for_each_sampler([&](sab_sampler* sampler) {
        const Saved before = state_of(sampler);
        const std::size_t fields = (before.size() - sizeof(sab::StateHeader)) / 8;
        for (int trial = 0; trial < 2000 && !testing::Test::HasFailure(); ++trial) {
            Saved forged = before;
            for (uint64_t changes = 1 + random() % 4; changes > 0; --changes) {
                const uint64_t number = random() >> random() % 64;
                const std::size_t at = sizeof(sab::StateHeader) + 8 * (random() % fields);
                std::memcpy(&forged[at], &number, sizeof number);
            }
            restore(sampler, forged, before);
        }
    });
}

}  // namespace
}  // namespace forged_state
