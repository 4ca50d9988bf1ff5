/* Batches of at most 64 padded tokens. Build: cc first.c $(pkg-config --cflags --libs sab) */
#include <stdio.h>

#include <sab.h>

int main(void) {
    const int32_t tokens[] = {12, 7, 30, 8, 9, 31, 7, 12, 29, 8};

    sab_sizes *sizes = NULL;
    sab_plan *plan = NULL;
    sab_sampler *sampler = NULL;
    sab_plan_options options = SAB_PLAN_OPTIONS_INIT;
    const sab_budget budget = {.limit = 64}; /* padded length times samples */
    options.budgets = &budget;
    options.budget_count = 1;
    if (sab_sizes_new(tokens, 10, SAB_INT32, NULL, &sizes) < 0 ||
        sab_plan_new(sizes, &options, &plan) < 0 ||
        sab_bucket_sampler_new(plan, NULL, &sampler) < 0) {
        fprintf(stderr, "%s\n", sab_last_error_message());
        return 1;
    }

    sab_batch batch = SAB_BATCH_INIT;
    while (sab_next_batch(sampler, &batch) == SAB_OK) {
        printf("padded to %2.0f:", *batch.padded_length);
        for (uint64_t i = 0; i < batch.count; ++i) printf(" %d", (int)batch.indices[i]);
        printf("\n");
    }

    sab_sampler_free(sampler);
    sab_plan_free(plan);
    sab_sizes_free(sizes);
    return 0;
}
