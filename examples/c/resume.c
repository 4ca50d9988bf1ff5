/* Two ranks train, stop in the middle of an epoch, and four go on: no sample is lost and none is
 * seen twice. */
#include <stdio.h>
#include <stdlib.h>

#include <sab.h>

#define SAMPLES 1000

static void check(sab_status status) {
    if (status >= 0) return;
    fprintf(stderr, "%s\n", sab_last_error_message());
    exit(1);
}

static int seen[SAMPLES];

struct state {
    unsigned char bytes[256];
    size_t size;
};

/* One rank takes `steps` steps (or all that are left) from a state on, and saves its own. */
static void train(const sab_plan *plan, uint64_t rank, uint64_t world_size, uint64_t steps,
                  const struct state *from, struct state *to) {
    sab_sampler_options options = SAB_SAMPLER_OPTIONS_INIT;
    options.rank = rank;
    options.world_size = world_size;
    sab_sampler *sampler = NULL;
    check(sab_bucket_sampler_new(plan, &options, &sampler));
    if (from != NULL) check(sab_sampler_state_restore(sampler, from->bytes, from->size));
    sab_batch batch = SAB_BATCH_INIT;
    while (steps-- > 0) {
        const sab_status status = sab_next_batch(sampler, &batch);
        check(status);
        if (status == SAB_END) break;
        for (uint64_t i = 0; i < batch.count; ++i) ++seen[batch.indices[i]];
    }
    /* the same bytes on every rank */
    check(sab_sampler_state_save(sampler, to->bytes, sizeof to->bytes, &to->size));
    sab_sampler_free(sampler);
}

int main(void) {
    int32_t tokens[SAMPLES];
    for (int i = 0; i < SAMPLES; ++i) tokens[i] = 1 + i * 7919 % 97;
    sab_sizes *sizes = NULL;
    sab_plan *plan = NULL;
    sab_plan_options options = SAB_PLAN_OPTIONS_INIT;
    const sab_budget budget = {.limit = 1024};
    options.budgets = &budget;
    options.budget_count = 1;
    check(sab_sizes_new(tokens, SAMPLES, SAB_INT32, NULL, &sizes));
    check(sab_plan_new(sizes, &options, &plan));

    struct state stopped, end;
    for (uint64_t rank = 0; rank < 2; ++rank) train(plan, rank, 2, 10, NULL, &stopped);
    for (uint64_t rank = 0; rank < 4; ++rank) train(plan, rank, 4, UINT64_MAX, &stopped, &end);
    for (int i = 0; i < SAMPLES; ++i)
        if (seen[i] != 1) return 1;
    printf("%d samples, each seen once\n", SAMPLES);

    sab_plan_free(plan);
    sab_sizes_free(sizes);
    return 0;
}
