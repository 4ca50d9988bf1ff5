/* Batches by the lengths of a text column, which Arrow's C data interface hands over.
 * Build: cc arrow.c $(pkg-config --cflags --libs sab) */
#include <stdio.h>

#include <sab.h>

static void release_schema(struct ArrowSchema *schema) {
    schema->release = NULL;
}

static void release_array(struct ArrowArray *array) {
    printf("the array is released\n"); /* memory of an array on the heap would be freed here */
    array->release = NULL;
}

int main(void) {
    /* A program gets both structs from the Arrow library that it uses. The texts of a column lie
     * one after the other; the offsets say where each begins. */
    static const char texts[] = "onetwothreefourfivesixseveneightnineten";
    static const int32_t offsets[] = {0, 3, 6, 11, 15, 19, 22, 27, 32, 36, 39};
    const void *buffers[] = {NULL, offsets, texts};
    struct ArrowSchema schema = {.format = "u", .name = "text", .release = release_schema};
    struct ArrowArray array = {
        .length = 10, .n_buffers = 3, .buffers = buffers, .release = release_array};

    sab_sizes *sizes = NULL;
    sab_plan *plan = NULL;
    sab_sampler *sampler = NULL;
    sab_plan_options options = SAB_PLAN_OPTIONS_INIT;
    const sab_budget budget = {NULL, 16}; /* padded length times samples */
    options.budgets = &budget;
    options.budget_count = 1;
    const sab_status status = sab_sizes_arrow_new(&array, &schema, NULL, NULL, &sizes);
    schema.release(&schema);
    if (status < 0) {
        fprintf(stderr, "%s\n", sab_last_error_message());
        array.release(&array);
        return 1;
    }
    printf("%s\n", sab_sizes_description(sizes));
    if (sab_plan_new(sizes, &options, &plan) < 0 ||
        sab_bucket_sampler_new(plan, NULL, &sampler) < 0) {
        fprintf(stderr, "%s\n", sab_last_error_message());
        return 1;
    }
    sab_sizes_free(sizes); /* the plan has what it needs */

    sab_batch batch = SAB_BATCH_INIT;
    while (sab_next_batch(sampler, &batch) == SAB_OK) {
        printf("padded to %.0f:", *batch.padded_length);
        for (uint64_t i = 0; i < batch.count; ++i) {
            const int64_t k = batch.indices[i];
            printf(" %.*s", (int)(offsets[k + 1] - offsets[k]), texts + offsets[k]);
        }
        printf("\n");
    }

    sab_sampler_free(sampler);
    sab_plan_free(plan);
    return 0;
}
