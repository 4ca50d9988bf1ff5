/* Batches by the lengths of a text column, which Arrow's C data interface hands over. The batches
 * of two ranks come back as an Arrow stream. Build: cc arrow.c $(pkg-config --cflags --libs sab) */
#include <stdio.h>

#include <sab.h>

static void release_schema(struct ArrowSchema *schema) {
    schema->release = NULL;
}

static void release_array(struct ArrowArray *array) {
    printf("the array is released\n"); /* memory of an array on the heap would be freed here */
    array->release = NULL;
}

/* An Arrow library would take the stream over. Each array of it has several rows. */
static void print_rows(const struct ArrowArray *rows, const int32_t *offsets, const char *texts) {
    const int64_t *steps = rows->children[0]->buffers[1], *ranks = rows->children[1]->buffers[1];
    const int32_t *first = rows->children[3]->buffers[1]; /* of the lists of indices */
    const int64_t *indices = rows->children[3]->children[0]->buffers[1];
    const double *padded_lengths = rows->children[4]->buffers[1];
    for (int64_t row = 0; row < rows->length; ++row) {
        printf("step %d, rank %d, padded to %.0f:", (int)steps[row], (int)ranks[row],
               padded_lengths[row]);
        for (int32_t i = first[row]; i < first[row + 1]; ++i) {
            const int64_t k = indices[i];
            printf(" %.*s", (int)(offsets[k + 1] - offsets[k]), texts + offsets[k]);
        }
        printf("\n");
    }
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
    const sab_budget budget = {.limit = 16}; /* padded length times samples */
    options.budgets = &budget;
    options.budget_count = 1;
    const sab_status status = sab_sizes_arrow_new(&array, &schema, NULL, NULL, &sizes);
    schema.release(&schema);
    if (status < 0) {
        fprintf(stderr, "%s\n", sab_last_error_message());
        array.release(&array);
        return 1;
    }
    sab_sizes_info info = SAB_SIZES_INFO_INIT;
    sab_sizes_get_info(sizes, &info);
    printf("%s\n", info.description);
    struct ArrowArrayStream stream;
    sab_sampler_options ranks = SAB_SAMPLER_OPTIONS_INIT;
    ranks.world_size = 2;
    if (sab_plan_new(sizes, &options, &plan) < 0 ||
        sab_bucket_sampler_new(plan, &ranks, &sampler) < 0 ||
        sab_arrow_schedule_new(sampler, &stream) < 0) {
        fprintf(stderr, "%s\n", sab_last_error_message());
        return 1;
    }
    sab_sizes_free(sizes); /* the plan has what it needs */

    sab_sampler_free(sampler); /* the stream has what it needs */
    sab_plan_free(plan);

    for (;;) {
        struct ArrowArray rows;
        if (stream.get_next(&stream, &rows) != 0) {
            fprintf(stderr, "%s\n", stream.get_last_error(&stream));
            stream.release(&stream);
            return 1;
        }
        if (rows.release == NULL) break; /* the end */
        print_rows(&rows, offsets, texts);
        rows.release(&rows);
    }
    stream.release(&stream);
    return 0;
}
