/* Everything a caller can get wrong: each is refused by name, gives no handle, and changes nothing.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <math.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kinds.h"
#include "one.h"

#define IS_NULL(call, name) EXPECT_FAILS(call, SAB_E_ARGUMENT, name " = NULL: must be given")

static int32_t any_index(void *ctx, uint64_t epoch, uint64_t position, int64_t *index,
                         double *size) {
    (void)ctx, (void)epoch;
    *index = (int64_t)position;
    *size = 1;
    return position < 10 ? 0 : SAB_END;
}

static int32_t stop_at_once(void *ctx, uint64_t done, uint64_t total) {
    (void)ctx, (void)done, (void)total;
    return 77;
}

static void StatusName_KnowsEveryStatus(void) {
    const struct {
        sab_status status;
        const char *name;
    } known[] = {{SAB_OK, "SAB_OK"},
                 {SAB_END, "SAB_END"},
                 {SAB_E_ARGUMENT, "SAB_E_ARGUMENT"},
                 {SAB_E_NO_MEMORY, "SAB_E_NO_MEMORY"},
                 {SAB_E_CALLBACK, "SAB_E_CALLBACK"},
                 {SAB_E_CANCELLED, "SAB_E_CANCELLED"},
                 {SAB_E_IO, "SAB_E_IO"},
                 {SAB_E_FORMAT, "SAB_E_FORMAT"},
                 {SAB_E_MISMATCH, "SAB_E_MISMATCH"},
                 {SAB_E_UNSUPPORTED, "SAB_E_UNSUPPORTED"},
                 {SAB_E_INTERNAL, "SAB_E_INTERNAL"},
                 {SAB_E_DEVICE_MEMORY, "SAB_E_DEVICE_MEMORY"},
                 {SAB_E_TIMEOUT, "SAB_E_TIMEOUT"}};
    for (size_t i = 0; i < COUNT(known); ++i)
        EXPECT(strcmp(sab_status_name(known[i].status), known[i].name) == 0 &&
               known[i].status <= 1);
    EXPECT(strcmp(sab_status_name(-12), "unknown status") == 0 &&
           strcmp(sab_status_name(INT32_MIN), "unknown status") == 0);
}

static void Message_IsCutBetweenCharacters(void) {
    static char path[3002];
    /* euro signs */
    for (size_t i = 0; i + 3 < sizeof path; i += 3) memcpy(path + i, "\xE2\x82\xAC", 3);
    sab_sizes *sizes = NULL;
    for (size_t skip = 0; skip < 9; skip += 3) { /* wherever the cut falls */
        char shifted[3100];
        snprintf(shifted, sizeof shifted, "%.*s%s", (int)(skip / 3), "ab", path);
        EXPECT(sab_sizes_file_new(shifted, NULL, &sizes) == SAB_E_IO);
        const char *message = sab_last_error_message();
        const size_t length = strlen(message);
        EXPECT(length <= 1023 && length > 1000);
        EXPECT(memcmp(message + length - 3, "\xE2\x82\xAC", 3) == 0);
    }
}

static void Message_OutlivesSuccessAndFree(void) {
    sab_plan *plan = a_plan();
    sab_sampler *sampler = rank_of(plan, 0, 1);
    EXPECT_FAILS(sab_sampler_seek(sampler, 100000), SAB_E_ARGUMENT, "position = 100000");
    sab_sampler_free(sampler);
    sab_plan_free(plan);
    sab_sizes_free(NULL);
    EXPECT(strstr(sab_last_error_message(), "position = 100000") != NULL);
}

static void NullArgumentsOfSizes_AreNamed(void) {
    sab_sizes *sizes = sizes_of(lengths(100), 100), *new_sizes = NULL;
    double value = 0;
    IS_NULL(sab_sizes_new(NULL, 1, SAB_INT8, NULL, &new_sizes), "data");
    IS_NULL(sab_sizes_new(lengths(1), 1, SAB_INT32, NULL, NULL), "sizes");
    IS_NULL(sab_sizes_file_new(NULL, NULL, &new_sizes), "path");
    IS_NULL(sab_sizes_file_new("/tmp", NULL, NULL), "sizes");
    IS_NULL(sab_sizes_callback_new(1, NULL, NULL, NULL, &new_sizes), "size");
    IS_NULL(sab_sizes_callback_new(1, any_size, NULL, NULL, NULL), "sizes");
    struct ArrowArray array = {0};
    struct ArrowArrayStream stream = {0};
    const struct ArrowSchema schema = {0};
    IS_NULL(sab_sizes_arrow_new(NULL, &schema, NULL, NULL, &new_sizes), "array");
    IS_NULL(sab_sizes_arrow_new(&array, NULL, NULL, NULL, &new_sizes), "schema");
    IS_NULL(sab_sizes_arrow_new(&array, &schema, NULL, NULL, NULL), "sizes");
    IS_NULL(sab_sizes_arrow_stream_new(NULL, NULL, NULL, &new_sizes), "stream");
    IS_NULL(sab_sizes_arrow_stream_new(&stream, NULL, NULL, NULL), "sizes");
    IS_NULL(sab_sizes_join_new(NULL, 1, &new_sizes), "parts");
    IS_NULL(sab_sizes_join_new(NULL, 0, NULL), "sizes");
    IS_NULL(sab_sizes_get(NULL, 0, 1, &value), "sizes");
    IS_NULL(sab_sizes_get(sizes, 0, 1, NULL), "values");
    EXPECT(sab_sizes_count(NULL) == 0);
    sab_sizes_free(NULL);
    sab_sizes_free(sizes);
}

static void NullArgumentsOfPlans_AreNamed(void) {
    sab_sizes *sizes = sizes_of(lengths(100), 100);
    sab_plan *plan = bounded_plan(), *new_plan = NULL;
    const sab_plan_options options = budget(300);
    int64_t longs[128];
    unsigned char bytes[64] = {0};
    size_t count = 0;
    sab_plan_info info = SAB_PLAN_INFO_INIT;
    sab_bucket bucket = SAB_BUCKET_INIT;
    sab_plan_report report = SAB_PLAN_REPORT_INIT;
    IS_NULL(sab_bionemo_create_buckets(NULL, 5, 5, longs, longs, 64, &count), "sizes");
    IS_NULL(sab_bionemo_create_buckets(sizes, 5, 5, NULL, longs, 64, &count), "boundaries");
    IS_NULL(sab_bionemo_create_buckets(sizes, 5, 5, longs, NULL, 64, &count), "bucket_sizes");
    IS_NULL(sab_bionemo_create_buckets(sizes, 5, 5, longs, longs, 64, NULL), "bucket_count");
    IS_NULL(sab_plan_new(NULL, &options, &new_plan), "sizes");
    IS_NULL(sab_plan_new(sizes, NULL, &new_plan), "options");
    IS_NULL(sab_plan_new(sizes, &options, NULL), "plan");
    IS_NULL(sab_plan_get_info(NULL, &info), "plan");
    IS_NULL(sab_plan_get_info(plan, NULL), "info");
    IS_NULL(sab_plan_get_bucket(NULL, 0, &bucket), "plan");
    IS_NULL(sab_plan_get_bucket(plan, 0, NULL), "bucket");
    sab_shape shape = SAB_SHAPE_INIT;
    uint64_t shapes = 0;
    double padding = 0;
    IS_NULL(sab_plan_get_shape(NULL, 0, &shape), "plan");
    IS_NULL(sab_plan_get_shape(plan, 0, NULL), "shape");
    IS_NULL(sab_plan_get_shape_padding(NULL, 0, &shapes, &padding), "plan");
    IS_NULL(sab_plan_get_shape_padding(plan, 0, NULL, &padding), "shapes");
    IS_NULL(sab_plan_get_shape_padding(plan, 0, &shapes, NULL), "padding");
    IS_NULL(sab_plan_get_skipped(NULL, longs, 64, &count), "plan");
    IS_NULL(sab_plan_get_skipped(plan, NULL, 64, &count), "indices");
    IS_NULL(sab_plan_get_skipped(plan, longs, 64, NULL), "count");
    IS_NULL(sab_plan_save(NULL, "/tmp/x"), "plan");
    IS_NULL(sab_plan_save(plan, NULL), "path");
    IS_NULL(sab_plan_file_new(NULL, &new_plan), "path");
    IS_NULL(sab_plan_file_new("/tmp", NULL), "plan");
    IS_NULL(sab_plan_write(NULL, bytes, sizeof bytes, &count), "plan");
    IS_NULL(sab_plan_write(plan, NULL, 64, &count), "buffer");
    IS_NULL(sab_plan_write(plan, NULL, 0, NULL), "size");
    IS_NULL(sab_plan_bytes_new(NULL, 64, &new_plan), "data");
    IS_NULL(sab_plan_bytes_new(bytes, sizeof bytes, NULL), "plan");
    IS_NULL(sab_plan_get_report(NULL, NULL, NULL, &report), "plan");
    IS_NULL(sab_plan_get_report(plan, NULL, NULL, NULL), "report");
    sab_plan_free(NULL);
    sab_plan_free(plan);
    sab_sizes_free(sizes);
}

static void NullArgumentsOfConstructors_AreNamed(void) {
    sab_sampler *new_sampler = NULL;
    FOR_CONSTRUCTORS(kind) {
        struct inputs given = default_inputs();
        if (kind->source == OF_NUMBERS) continue;
        if (kind->source != OF_SIZES)
            IS_NULL(kind->make(&given, &new_sampler), "plan");
        else if (kind->properties & REPEATS)
            IS_NULL(kind->make(&given, &new_sampler), "complexity");
        else
            IS_NULL(kind->make(&given, &new_sampler), "sizes");
    }
    IS_NULL(sab_bionemo_size_aware_stream_sampler_new(NULL, NULL, NULL, 9, &new_sampler), "source");
}

static void Constructors_RefuseBadOptionsAndNoRoomForTheHandle(void) {
    static const int32_t numbers[] = {3, 1, 4, 1, 5, 9, 2, 6};
    FOR_CONSTRUCTORS(kind) {
        sab_sizes *sizes = sizes_of(numbers, COUNT(numbers));
        sab_plan *plan = plan_for(kind, numbers, COUNT(numbers));
        struct inputs given = inputs_of(numbers, COUNT(numbers), sizes, plan);
        IS_NULL(kind->make(&given, NULL), "sampler");
        sab_sampler *sampler = NULL;
        given.options.world_size = UINT64_MAX;
        if (kind->properties & WITH_OPTIONS)
            EXPECT_FAILS(kind->make(&given, &sampler), SAB_E_ARGUMENT,
                         "world_size = 18446744073709551615");
        given.options.world_size = 1;
        given.options.struct_size = 3;
        if (kind->properties & WITH_OPTIONS)
            EXPECT_FAILS(kind->make(&given, &sampler), SAB_E_ARGUMENT, "options.struct_size = 3");
        EXPECT(sampler == NULL);
        sab_plan_free(plan);
        sab_sizes_free(sizes);
    }
}

static void NullArgumentsOfSamplers_AreNamed(void) {
    sab_plan *plan = bounded_plan();
    sab_sampler *sampler = rank_of(plan, 0, 1), *torch = NULL;
    EXPECT_OK(sab_bionemo_sampler_new(plan, NULL, &torch));
    uint64_t number = 0, other = 0;
    uint32_t words[SAB_BIONEMO_GENERATOR_WORDS] = {0};
    unsigned char bytes[256] = {0};
    size_t count = 0;
    sab_batch batch = SAB_BATCH_INIT;
    sab_block block = SAB_BLOCK_INIT;
    sab_rows rows = SAB_ROWS_INIT;
    sab_step step = SAB_STEP_INIT;
    IS_NULL(sab_bionemo_sampler_get_generator(NULL, words), "sampler");
    IS_NULL(sab_bionemo_sampler_get_generator(torch, NULL), "words");
    IS_NULL(sab_bionemo_sampler_set_generator(NULL, words), "sampler");
    IS_NULL(sab_bionemo_sampler_set_generator(torch, NULL), "words");
    IS_NULL(sab_next_batch(NULL, &batch), "sampler");
    IS_NULL(sab_next_batch(sampler, NULL), "batch");
    IS_NULL(sab_next_block(NULL, 1, &block), "sampler");
    IS_NULL(sab_next_block(sampler, 1, NULL), "block");
    IS_NULL(sab_sampler_at(NULL, 0, &batch), "sampler");
    IS_NULL(sab_sampler_at(sampler, 0, NULL), "batch");
    IS_NULL(sab_sampler_get_batch_count(NULL, &number), "sampler");
    IS_NULL(sab_sampler_get_batch_count(sampler, NULL), "count");
    sab_shape shape = SAB_SHAPE_INIT;
    IS_NULL(sab_sampler_get_shape(NULL, 0, &shape), "sampler");
    IS_NULL(sab_sampler_get_shape(sampler, 0, NULL), "shape");
    IS_NULL(sab_sampler_get_skipped(NULL, NULL, 0, &count), "sampler");
    IS_NULL(sab_sampler_get_skipped(sampler, NULL, 0, NULL), "count");
    IS_NULL(sab_sampler_get_skipped(sampler, NULL, 1, &count), "indices");
    IS_NULL(sab_sampler_set_epoch(NULL, 0), "sampler");
    IS_NULL(sab_sampler_seek(NULL, 0), "sampler");
    IS_NULL(sab_sampler_tell(NULL, &number, &other), "sampler");
    IS_NULL(sab_sampler_tell(sampler, NULL, &other), "epoch");
    IS_NULL(sab_sampler_tell(sampler, &number, NULL), "position");
    IS_NULL(sab_sampler_begin(NULL), "sampler");
    IS_NULL(sab_sampler_get_rows(NULL, &rows), "sampler");
    IS_NULL(sab_sampler_get_rows(sampler, NULL), "rows");
    IS_NULL(sab_sampler_get_step(NULL, &step), "sampler");
    IS_NULL(sab_sampler_get_step(sampler, NULL), "step");
    IS_NULL(sab_sampler_state_save(NULL, bytes, sizeof bytes, &count), "sampler");
    IS_NULL(sab_sampler_state_save(sampler, NULL, sizeof bytes, &count), "state");
    IS_NULL(sab_sampler_state_save(sampler, bytes, sizeof bytes, NULL), "size");
    IS_NULL(sab_sampler_state_save_at(NULL, 0, bytes, sizeof bytes, &count), "sampler");
    IS_NULL(sab_sampler_state_save_at(sampler, 0, NULL, sizeof bytes, &count), "state");
    IS_NULL(sab_sampler_state_save_at(sampler, 0, bytes, sizeof bytes, NULL), "size");
    IS_NULL(sab_sampler_state_restore(NULL, bytes, sizeof bytes), "sampler");
    IS_NULL(sab_sampler_state_restore(sampler, NULL, sizeof bytes), "state");
    sab_sampler_free(NULL);
    sab_sampler_free(torch);
    sab_sampler_free(sampler);
    sab_plan_free(plan);
}

static int32_t code_of(sab_status status) {
    if (status == SAB_E_IO) return ENOENT;
    return status == SAB_E_CALLBACK || status == SAB_E_CANCELLED ? 77 : 0;
}

static void Constructors_ThatFail_SetTheHandleToNull(void) {
    sab_sizes *sizes = sizes_of(lengths(50), 50);
    sab_plan *plan = a_plan();
    const sab_plan_options no_budget = SAB_PLAN_OPTIONS_INIT;
    sab_sizes_file_options as_npy = SAB_SIZES_FILE_OPTIONS_INIT;
    as_npy.format = "npy";
    sab_sampler_options no_ranks = SAB_SAMPLER_OPTIONS_INIT;
    no_ranks.world_size = UINT64_MAX;
    int32_t code = 77;
    const double nan = NAN;
#define GIVES_NULL(type, call, expected)                               \
    do {                                                               \
        type *handle = (type *)&code; /* what was there before */      \
        EXPECT((call) == (expected));                                  \
        EXPECT(handle == NULL && sab_last_error_message()[0] != '\0'); \
        EXPECT(sab_last_error_code() == code_of(expected));            \
    } while (0)
    GIVES_NULL(sab_sizes, sab_sizes_new(NULL, 1, SAB_INT32, NULL, &handle), SAB_E_ARGUMENT);
    GIVES_NULL(sab_sizes, sab_sizes_file_new("/no/such/file", NULL, &handle), SAB_E_IO);
    GIVES_NULL(sab_sizes, sab_sizes_file_new("/proc/version", &as_npy, &handle), SAB_E_FORMAT);
    GIVES_NULL(sab_sizes, sab_sizes_callback_new(5, failing_size, &code, NULL, &handle),
               SAB_E_CALLBACK);
    GIVES_NULL(sab_sizes,
               sab_sizes_callback_new(5, any_size, NULL, a_progress(stop_at_once, NULL), &handle),
               SAB_E_CANCELLED);
    GIVES_NULL(sab_plan, sab_plan_new(sizes, &no_budget, &handle), SAB_E_ARGUMENT);
    GIVES_NULL(sab_plan, sab_plan_file_new("/no/such/file", &handle), SAB_E_IO);
    GIVES_NULL(sab_plan, sab_plan_bytes_new("no plan", 7, &handle), SAB_E_FORMAT);
    GIVES_NULL(sab_plan, sab_plan_bytes_new(NULL, 0, &handle), SAB_E_FORMAT);
    GIVES_NULL(sab_sampler, sab_bucket_sampler_new(plan, &no_ranks, &handle), SAB_E_ARGUMENT);
    GIVES_NULL(sab_sampler, sab_sequential_sampler_new(plan, &no_ranks, &handle), SAB_E_ARGUMENT);
    GIVES_NULL(sab_sampler, sab_costliest_sampler_new(plan, 0, &handle), SAB_E_ARGUMENT);
    GIVES_NULL(sab_sampler, sab_ordered_sampler_new(NULL, 51, sizes, 9, NULL, &handle),
               SAB_E_ARGUMENT);
    GIVES_NULL(sab_sampler,
               sab_bionemo_size_aware_stream_sampler_new(any_index, NULL, NULL, nan, &handle),
               SAB_E_ARGUMENT);
    GIVES_NULL(sab_sampler, sab_bionemo_sampler_new(plan, NULL, &handle), SAB_E_ARGUMENT);
    sab_plan_free(plan);
    sab_sizes_free(sizes);
}

static void FailedCalls_LeaveOutputsAndCursorAlone(void) {
    sab_plan *plan = a_plan();
    sab_sampler *sampler = rank_of(plan, 0, 2), *twin = rank_of(plan, 0, 2);
    sab_batch batch = SAB_BATCH_INIT, after = SAB_BATCH_INIT;
    EXPECT_OK(sab_next_batch(sampler, &batch));
    EXPECT_OK(sab_next_batch(twin, &after));
    struct state state = {136, {0}}, before, now;
    EXPECT_OK(save_state(sampler, &before));

    sab_batch kept;
    memset(&kept, 0x5A, sizeof kept);
    kept.struct_size = sizeof kept;
    sab_batch untouched = kept;
    EXPECT(sab_sampler_at(sampler, UINT64_MAX, &kept) == SAB_E_ARGUMENT);
    EXPECT(memcmp(&kept, &untouched, sizeof kept) == 0);
    EXPECT(sab_sampler_seek(sampler, UINT64_MAX) == SAB_E_ARGUMENT);
    EXPECT(restore_state(sampler, &state) == SAB_E_FORMAT);
    size_t count = 99;
    int64_t index = -7;
    sab_block block = SAB_BLOCK_INIT;
    block.count = 99;
    EXPECT(sab_next_block(sampler, 0, &block) == SAB_E_ARGUMENT);
    EXPECT(block.count == 99 && block.indices == NULL && block.offsets == NULL);
    sab_bucket bucket = SAB_BUCKET_INIT;
    bucket.samples = 1234;
    EXPECT(sab_plan_get_bucket(plan, 100000, &bucket) == SAB_E_ARGUMENT && bucket.samples == 1234);
    sab_plan_report report = SAB_PLAN_REPORT_INIT;
    report.batches = 1234;
    EXPECT(sab_plan_get_report(plan, NULL, a_progress(stop_at_once, NULL), &report) ==
               SAB_E_CANCELLED &&
           report.batches == 1234);
    EXPECT(sab_last_error_code() == 77);
    double value = 12;
    sab_sizes *sizes = sizes_of(lengths(3), 3);
    EXPECT(sab_sizes_get(sizes, 3, 1, &value) == SAB_E_ARGUMENT && value == 12);
    EXPECT(sab_sizes_get(sizes, 3, 1, &value) == SAB_E_ARGUMENT && value == 12);
    EXPECT(sab_bionemo_create_buckets(sizes, 0, 0, &index, &index, 1, &count) == SAB_E_ARGUMENT &&
           count == 99 && index == -7);
    sab_sizes_free(sizes);

    EXPECT_OK(save_state(sampler, &now));
    EXPECT(memcmp(&before, &now, sizeof now) == 0);
    EXPECT_OK(sab_next_batch(sampler, &batch));
    EXPECT_OK(sab_next_batch(twin, &after));
    EXPECT(batch.step == 1 && batch.count == after.count &&
           memcmp(batch.indices, after.indices, batch.count * 8) == 0);
    sab_sampler_free(sampler);
    sab_sampler_free(twin);
    sab_plan_free(plan);
}

/* Calls `call` with `given`, a copy of `options` of any struct_size with room behind it. */
#define EXPECT_READ_BY_RULE(type, defaults, call)                                                \
    do {                                                                                         \
        struct {                                                                                 \
            type known;                                                                          \
            unsigned char more[40];                                                              \
        } larger;                                                                                \
        const type *const given = &larger.known;                                                 \
        memset(&larger, 0, sizeof larger);                                                       \
        larger.known = defaults;                                                                 \
        for (size_t size = 0; size < sizeof(type); ++size) {                                     \
            larger.known.struct_size = size;                                                     \
            EXPECT_FAILS(call, SAB_E_ARGUMENT, "options.struct_size = ");                        \
        }                                                                                        \
        larger.known.struct_size = SIZE_MAX;                                                     \
        EXPECT_FAILS(call, SAB_E_ARGUMENT, "options.struct_size = ");                            \
        larger.known.struct_size = sizeof larger;                                                \
        EXPECT_OK(call);                                                                         \
        for (size_t i = 0; i < sizeof larger.more; ++i) {                                        \
            larger.more[i] = 1;                                                                  \
            EXPECT_FAILS(call, SAB_E_ARGUMENT, "is set, but this library knows only the first"); \
            larger.more[i] = 0;                                                                  \
        }                                                                                        \
        larger.more[3] = 1; /* behind what struct_size covers: not read */                       \
        larger.known.struct_size = sizeof(type);                                                 \
        EXPECT_OK(call);                                                                         \
    } while (0)

static sab_status free_sizes(sab_status status, sab_sizes **sizes) {
    sab_sizes_free(*sizes);
    return status;
}

static sab_status free_plan(sab_status status, sab_plan **plan) {
    sab_plan_free(*plan);
    return status;
}

static sab_status free_sampler(sab_status status, sab_sampler **sampler) {
    sab_sampler_free(*sampler);
    return status;
}

static void keep_array(struct ArrowArray *array) {
    array->release = NULL;
}
static void keep_schema(struct ArrowSchema *schema) {
    schema->release = NULL;
}

static void OptionStructs_OfEverySize_AreReadByRule(void) {
    sab_sizes *sizes = sizes_of(lengths(50), 50), *new_sizes = NULL;
    sab_plan *plan = bounded_plan(), *new_plan = NULL;
    sab_sampler *sampler = NULL;
    sab_plan_report report = SAB_PLAN_REPORT_INIT;
    const sab_sizes_options for_sizes = SAB_SIZES_OPTIONS_INIT;
    const sab_sampler_options for_sampler = SAB_SAMPLER_OPTIONS_INIT;
    const sab_bionemo_options for_torch = SAB_BIONEMO_OPTIONS_INIT;
    EXPECT_READ_BY_RULE(
        sab_sizes_options, for_sizes,
        free_sizes(sab_sizes_new(lengths(5), 5, SAB_INT32, given, &new_sizes), &new_sizes));
    struct ArrowArray array = {.release = keep_array};
    struct ArrowSchema nothing = {.format = "n", .release = keep_schema};
    const sab_sizes_arrow_options for_arrow = SAB_SIZES_ARROW_OPTIONS_INIT;
    EXPECT_READ_BY_RULE(
        sab_sizes_arrow_options, for_arrow,
        (array.release = keep_array,
         free_sizes(sab_sizes_arrow_new(&array, &nothing, NULL, given, &new_sizes), &new_sizes)));
    EXPECT_READ_BY_RULE(sab_plan_options, budget(300),
                        free_plan(sab_plan_new(sizes, given, &new_plan), &new_plan));
    EXPECT_READ_BY_RULE(sab_sampler_options, for_sampler,
                        free_sampler(sab_bucket_sampler_new(plan, given, &sampler), &sampler));
    EXPECT_READ_BY_RULE(sab_sampler_options, for_sampler,
                        free_sampler(sab_sequential_sampler_new(plan, given, &sampler), &sampler));
    EXPECT_READ_BY_RULE(
        sab_sampler_options, for_sampler,
        free_sampler(sab_ordered_sampler_new(NULL, 5, sizes, 300, given, &sampler), &sampler));
    const sab_progress_options for_report = SAB_PROGRESS_OPTIONS_INIT;
    EXPECT_READ_BY_RULE(sab_progress_options, for_report,
                        sab_plan_get_report(plan, NULL, given, &report));
    EXPECT_READ_BY_RULE(sab_bionemo_options, for_torch,
                        free_sampler(sab_bionemo_sampler_new(plan, given, &sampler), &sampler));
    sab_plan_free(plan);
    sab_sizes_free(sizes);
}

/* Smaller than the first released struct is refused; of a larger one only what the library knows is
 * filled. */
#define EXPECT_FILLED_BY_RULE(type, defaults, words, call)                              \
    do {                                                                                \
        struct {                                                                        \
            type known;                                                                 \
            unsigned char more[16];                                                     \
        } larger;                                                                       \
        type *const result = &larger.known;                                             \
        memset(&larger, 0xAB, sizeof larger);                                           \
        larger.known = defaults;                                                        \
        for (size_t size = 0; size < sizeof(type); ++size) {                            \
            larger.known.struct_size = size;                                            \
            EXPECT_FAILS(call, SAB_E_ARGUMENT, words);                                  \
        }                                                                               \
        larger.known.struct_size = sizeof larger;                                       \
        EXPECT_OK(call);                                                                \
        EXPECT(larger.known.struct_size == sizeof larger);                              \
        for (size_t i = 0; i < sizeof larger.more; ++i) EXPECT(larger.more[i] == 0xAB); \
    } while (0)

static void ResultStructs_OfEverySize_AreFilledByRule(void) {
    sab_plan *plan = a_plan();
    sab_sampler *sampler = rank_of(plan, 0, 1);
    const sab_batch batch = SAB_BATCH_INIT;
    const sab_plan_info info = SAB_PLAN_INFO_INIT;
    const sab_bucket bucket = SAB_BUCKET_INIT;
    const sab_plan_report report = SAB_PLAN_REPORT_INIT;
    EXPECT_FILLED_BY_RULE(sab_batch, batch,
                          "batch.struct_size = ", sab_next_batch(sampler, result));
    EXPECT_FILLED_BY_RULE(sab_batch, batch,
                          "batch.struct_size = ", sab_sampler_at(sampler, 0, result));
    EXPECT_FILLED_BY_RULE(sab_plan_info, info,
                          "info.struct_size = ", sab_plan_get_info(plan, result));
    EXPECT_FILLED_BY_RULE(sab_bucket, bucket,
                          "bucket.struct_size = ", sab_plan_get_bucket(plan, 0, result));
    EXPECT_FILLED_BY_RULE(sab_plan_report, report,
                          "report.struct_size = ", sab_plan_get_report(plan, NULL, NULL, result));
    uint64_t epoch = 0, step = 0;
    EXPECT_OK(sab_sampler_tell(sampler, &epoch, &step));
    EXPECT(step == 1); /* the refused calls did not move the cursor */
    sab_sampler_free(sampler);
    sab_plan_free(plan);
}

static void NoMemory_IsAStatusNotAnAbort(void) {
/* they reserve address space of their own */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    enum { NO_LIMIT = 2 }; /* an emulator sets none */
    const pid_t child = fork();
    if (child == 0) {
        const struct rlimit little = {(rlim_t)1 << 30, (rlim_t)1 << 30};
        setrlimit(RLIMIT_AS, &little);
        if (mmap(NULL, (size_t)2 << 30, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) !=
            MAP_FAILED)
            _exit(NO_LIMIT);
        sab_sizes *sizes = NULL;
        const sab_status by_callback =
            sab_sizes_callback_new(4000000000u, any_size, NULL, NULL, &sizes);
        const int is_told = sab_last_error_message()[0] != '\0';
        const int32_t one = 1;
        sab_sizes_options copied = SAB_SIZES_OPTIONS_INIT;
        copied.copy = 1;
        const sab_status by_copy = sab_sizes_new(&one, 4000000000u, SAB_INT32, &copied, &sizes);
        const sab_status after = sab_sizes_new(&one, 1, SAB_INT32, &copied, &sizes);
        _exit(by_callback == SAB_E_NO_MEMORY && by_copy == SAB_E_NO_MEMORY && is_told &&
                      after == SAB_OK
                  ? 0
                  : 1);
    }
    int status = -1;
    EXPECT(waitpid(child, &status, 0) == child && WIFEXITED(status) &&
           (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == NO_LIMIT));
    if (WIFEXITED(status) && WEXITSTATUS(status) == NO_LIMIT)
        puts("skipped: memory has no limit here");
#endif
}

int main(void) {
    RUN(StatusName_KnowsEveryStatus);
    RUN(Message_IsCutBetweenCharacters);
    RUN(Message_OutlivesSuccessAndFree);
    RUN(NullArgumentsOfSizes_AreNamed);
    RUN(NullArgumentsOfPlans_AreNamed);
    RUN(NullArgumentsOfConstructors_AreNamed);
    RUN(Constructors_RefuseBadOptionsAndNoRoomForTheHandle);
    RUN(NullArgumentsOfSamplers_AreNamed);
    RUN(Constructors_ThatFail_SetTheHandleToNull);
    RUN(FailedCalls_LeaveOutputsAndCursorAlone);
    RUN(OptionStructs_OfEverySize_AreReadByRule);
    RUN(ResultStructs_OfEverySize_AreFilledByRule);
    RUN(NoMemory_IsAStatusNotAnAbort);
    return finish();
}
