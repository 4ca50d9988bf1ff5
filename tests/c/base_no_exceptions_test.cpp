// A C++ program built with -fno-exceptions -fno-rtti that includes every header.
#include <sab/balance.h>
#include <sab/base.h>
#include <sab/cache.h>
#include <sab/compat.h>
#include <sab/cost.h>
#include <sab/files.h>
#include <sab/group.h>
#include <sab/memory.h>
#include <sab/pack.h>
#include <sab/plan.h>
#include <sab/ranks.h>
#include <sab/sampler.h>
#include <sab/sizes.h>
#include <sab/steps.h>
#include <sab/stream.h>
#include <sab/torch.h>

#include "budgets.h"
#include "expect.h"

static void Callback_ThatFails_GivesItsCode() {
    sab_sizes *sizes = nullptr;
    const sab_size_fn fails = [](void *, int64_t index, double *size) -> int32_t {
        *size = 1;
        return index == 3 ? 77 : 0;
    };
    EXPECT(sab_sizes_callback_new(5, fails, nullptr, nullptr, &sizes) == SAB_E_CALLBACK);
    EXPECT(sab_last_error_code() == 77 && sizes == nullptr);
}

static void Epoch_GivesEverySampleOnce() {
    const int32_t tokens[] = {12, 7, 30, 8, 9, 31, 7, 12, 29, 8};
    sab_sizes *sizes = nullptr;
    sab_plan *plan = nullptr;
    sab_sampler *sampler = nullptr;
    sab_plan_options options = SAB_PLAN_OPTIONS_INIT;
    EXPECT_OK(sab_sizes_new(tokens, 10, SAB_INT32, nullptr, &sizes));
    SET_BUDGET(options, -1);
    // an exception inside, none outside
    EXPECT_FAILS(sab_plan_new(sizes, &options, &plan), SAB_E_ARGUMENT, "limit = -1");
    SET_BUDGET(options, 64);
    EXPECT_OK(sab_plan_new(sizes, &options, &plan));
    EXPECT_OK(sab_bucket_sampler_new(plan, nullptr, &sampler));
    sab_batch batch = SAB_BATCH_INIT;
    uint64_t samples = 0;
    while (sab_next_batch(sampler, &batch) == SAB_OK) samples += batch.count;
    EXPECT(samples == 10);
    sab_sampler_free(sampler);
    sab_plan_free(plan);
    sab_sizes_free(sizes);
}

int main() {
    RUN(Callback_ThatFails_GivesItsCode);
    RUN(Epoch_GivesEverySampleOnce);
    return finish();
}
