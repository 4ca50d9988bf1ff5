/* What a call of sab_next_batch costs: batches of one sample in the plainest order, each looked at.
 * Prints "c NANOSECONDS". The other call.* do the same. */
#include <string.h>

#include "../c/budgets.h"
#include "timing.h"

#define CALLS 2000 /* in a pass, which is over before the processor goes to somebody else */
#define PASSES 500

int main(void) {
    static uint8_t ones[CALLS];
    memset(ones, 1, sizeof ones);
    sab_sizes* sizes = NULL;
    sab_plan* plan = NULL;
    sab_sampler* sampler = NULL;
    sab_plan_options options = SAB_PLAN_OPTIONS_INIT;
    sab_sampler_options walk = SAB_SAMPLER_OPTIONS_INIT;
    SET_BUDGET(options, 1);
    check(sab_sizes_new(ones, CALLS, SAB_UINT8, NULL, &sizes));
    check(sab_plan_new(sizes, &options, &plan));
    check(sab_sequential_sampler_new(plan, &walk, &sampler));
    double best = 0;
    for (int pass = 0; pass < PASSES; ++pass) {
        sab_batch batch = SAB_BATCH_INIT;
        int64_t sum = 0;
        check(sab_sampler_set_epoch(sampler, 0));
        const double began = now();
        while (sab_next_batch(sampler, &batch) == SAB_OK) sum += batch.indices[0];
        least(&best, began, CALLS);
        if (sum != (int64_t)CALLS * (CALLS - 1) / 2) return 1;
    }
    printf("c %.1f\n", 1e9 * best);
    sab_sampler_free(sampler);
    sab_plan_free(plan);
    sab_sizes_free(sizes);
    return 0;
}
