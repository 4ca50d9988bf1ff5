/* The schedule of an epoch: the Arrow stream has the batches that sab_next_batch() gives to each
 * rank. */
#include <errno.h>
#include <stdlib.h>

#include "kinds.h"

#define SAMPLES 300
#define MOST_RANKS 4

/* The samplers of all ranks. */
struct job {
    uint64_t world_size;
    sab_sampler *samplers[MOST_RANKS];
};

static struct job job_of(const struct constructor *kind, sab_sampler_options options) {
    struct job job = {options.world_size, {NULL}};
    for (options.rank = 0; options.rank < job.world_size; ++options.rank)
        job.samplers[options.rank] = sampler_of_kind(kind, lengths(SAMPLES), SAMPLES, &options);
    return job;
}

static struct job job_of_ranks(const char *kind, uint64_t world_size) {
    return job_of(constructor_of(kind), ranks(0, world_size));
}

static void free_job(struct job *job) {
    for (uint64_t rank = 0; rank < job->world_size; ++rank) sab_sampler_free(job->samplers[rank]);
}

static void take(struct job *job, int batches) {
    sab_batch batch = SAB_BATCH_INIT;
    for (int i = 0; i < batches; ++i)
        for (uint64_t rank = 0; rank < job->world_size; ++rank)
            EXPECT_OK(sab_next_batch(job->samplers[rank], &batch));
}

static struct ArrowArrayStream schedule_of(const sab_sampler *sampler) {
    struct ArrowArrayStream stream = {0};
    EXPECT_OK(sab_arrow_schedule_new(sampler, &stream));
    return stream;
}

static struct ArrowArray next_array(struct ArrowArrayStream *stream) {
    struct ArrowArray array = {0};
    EXPECT(stream->get_next(stream, &array) == 0);
    return array;
}

/* The values of a column, or of the items of the lists. */
enum { STEP, RANK, BATCH, INDICES, PADDED_LENGTH, COLUMNS };
static const void *values_of(const struct ArrowArray *array, int column) {
    return array->children[column]->buffers[1];
}
static const int64_t *items_of(const struct ArrowArray *array) {
    return array->children[INDICES]->children[0]->buffers[1];
}

static void expect_row(const struct ArrowArray *array, int64_t row, uint64_t rank,
                       uint64_t position, const sab_batch *batch) {
    EXPECT(((const int64_t *)values_of(array, STEP))[row] == (int64_t)batch->step);
    EXPECT(((const int64_t *)values_of(array, RANK))[row] == (int64_t)rank);
    EXPECT(((const int64_t *)values_of(array, BATCH))[row] == (int64_t)position);
    /* of several columns a list with one length each */
    const struct ArrowArray *lengths = array->children[PADDED_LENGTH];
    const double *padded =
        lengths->n_children > 0 ? lengths->children[0]->buffers[1] : lengths->buffers[1];
    for (size_t j = 0; j < batch->columns; ++j)
        EXPECT(padded[(size_t)row * batch->columns + j] == batch->padded_length[j]);
    const int32_t *offsets = (const int32_t *)values_of(array, INDICES) + row;
    EXPECT(offsets[1] - offsets[0] == (int32_t)batch->count);
    if (offsets[1] - offsets[0] == (int32_t)batch->count && batch->count > 0)
        EXPECT(memcmp(items_of(array) + offsets[0], batch->indices,
                      batch->count * sizeof *batch->indices) == 0);
}

/* Walks the ranks to the end of their epoch, and the stream with them. Gives the number of rows. */
static uint64_t expect_rest(struct job *job, struct ArrowArrayStream *stream, const char *kind) {
    const int failures_before = failures_of_test;
    uint64_t position = 0, epoch = 0, rows = 0;
    EXPECT_OK(sab_sampler_tell(job->samplers[0], &epoch, &position));
    struct ArrowArray array = next_array(stream);
    int64_t row = 0;
    for (sab_status status = SAB_OK; status == SAB_OK; ++position)
        for (uint64_t rank = 0; rank < job->world_size; ++rank) {
            sab_batch batch = SAB_BATCH_INIT;
            status = sab_next_batch(job->samplers[rank], &batch);
            if (status != SAB_OK) continue;
            EXPECT(array.release != NULL);
            if (array.release == NULL) break;
            expect_row(&array, row, rank, position, &batch);
            ++rows;
            if (++row < array.length) continue;
            array.release(&array);
            array = next_array(stream);
            row = 0;
        }
    EXPECT(array.release == NULL);
    if (array.release != NULL) array.release(&array);
    stream->release(stream);
    EXPECT(stream->release == NULL);
    if (failures_of_test > failures_before) fprintf(stderr, "of the sampler %s\n", kind);
    return rows;
}

static void Schedule_OfEveryKind_HasTheBatchesOfAllRanks(void) {
    FOR_CONSTRUCTORS(kind) {
        if (!(kind->capabilities & SAB_SAMPLER_SCHEDULE)) continue;
        for (int trial = 0; trial < 12; ++trial) {
            sab_sampler_options options = ranks(0, 1);
            if (kind->properties & WITH_OPTIONS && !(kind->properties & ONE_RANK))
                options.world_size = 1 + (uint64_t)trial % MOST_RANKS;
            options.micro_batches = 1 + (uint64_t)trial % 2;
            options.last_step = trial / 4;
            options.seed = (uint64_t)trial;
            options.epoch = 3;
            struct job job = job_of(kind, options);
            struct ArrowArrayStream stream = schedule_of(job.samplers[job.world_size - 1]);
            uint64_t count = 0;
            EXPECT_OK(sab_sampler_get_batch_count(job.samplers[0], &count));
            EXPECT(expect_rest(&job, &stream, kind->name) == count * job.world_size);
            free_job(&job);
        }
    }
}

/* More ranks than samples: some get an empty batch. */
static void Schedule_OfRanksWithoutAShare_HasEmptyLists(void) {
    static const int32_t two[] = {5, 7};
    struct job job = {MOST_RANKS, {NULL}};
    for (uint64_t rank = 0; rank < MOST_RANKS; ++rank) {
        const sab_sampler_options options = ranks(rank, MOST_RANKS);
        job.samplers[rank] = sampler_of_kind(constructor_of("bucket"), two, 2, &options);
    }
    struct ArrowArrayStream stream = schedule_of(job.samplers[0]);
    EXPECT(expect_rest(&job, &stream, "bucket") == MOST_RANKS);
    free_job(&job);
}

/* Of the ranks that take over, the batches that are left do not fill a step. */
static void Schedule_WithoutAStep_IsEmpty(void) {
    static const int32_t numbers[] = {100, 100, 100, 100};
    sab_sampler_options options = ranks(0, 1);
    options.last_step = SAB_LAST_STEP_DROP;
    sab_sampler *before = sampler_of_kind(constructor_of("bucket"), numbers, 4, &options);
    sab_batch batch = SAB_BATCH_INIT;
    EXPECT_OK(sab_next_batch(before, &batch));
    struct state state;
    EXPECT_OK(save_state(before, &state));
    options.world_size = 2;
    struct job job = {1, {sampler_of_kind(constructor_of("bucket"), numbers, 4, &options)}};
    EXPECT_OK(restore_state(job.samplers[0], &state));
    struct ArrowArrayStream stream = schedule_of(job.samplers[0]);
    EXPECT(expect_rest(&job, &stream, "bucket") == 0);
    sab_sampler_free(before);
    free_job(&job);
}

static void Schedule_AfterARestoreOnOtherRanks_BeginsThere(void) {
    const char *const kinds[] = {"bucket", "sequential", "packed", "balanced"};
    for (size_t i = 0; i < COUNT(kinds); ++i) {
        struct job before = job_of_ranks(kinds[i], 3), after = job_of_ranks(kinds[i], 4);
        take(&before, 2);
        struct state state;
        EXPECT_OK(save_state(before.samplers[0], &state));
        for (uint64_t rank = 0; rank < after.world_size; ++rank)
            EXPECT_OK(restore_state(after.samplers[rank], &state));
        uint64_t count = 0;
        EXPECT_OK(sab_sampler_get_batch_count(after.samplers[0], &count));
        struct ArrowArrayStream stream = schedule_of(after.samplers[0]);
        EXPECT(expect_rest(&after, &stream, kinds[i]) == (count - 2) * after.world_size);
        free_job(&before);
        free_job(&after);
    }
}

/* The lowered budget ends a step in the middle of its micro-batches. */
static void Schedule_UnderALoweredBudget_BeginsWhereItTookOver(void) {
    const char *const kinds[] = {"bucket", "sequential"};
    for (size_t i = 0; i < COUNT(kinds); ++i) {
        sab_sampler_options options = ranks(0, 3);
        options.micro_batches = 2;
        struct job job = job_of(constructor_of(kinds[i]), options);
        take(&job, 3);
        uint64_t before = 0, after = 0;
        EXPECT_OK(sab_sampler_get_batch_count(job.samplers[0], &before));
        for (uint64_t rank = 0; rank < job.world_size; ++rank)
            EXPECT_OK(sab_sampler_set_budget(job.samplers[rank], 0, 100));
        EXPECT_OK(sab_sampler_get_batch_count(job.samplers[0], &after));
        EXPECT(after > before);
        struct ArrowArrayStream stream = schedule_of(job.samplers[2]);
        EXPECT(expect_rest(&job, &stream, kinds[i]) == (after - 3) * job.world_size);
        free_job(&job);
    }
}

static void Schedule_DoesNotMoveTheCursor(void) {
    struct job job = job_of_ranks("bucket", 2);
    take(&job, 2);
    sab_batch shown = SAB_BATCH_INIT;
    EXPECT_OK(sab_next_batch(job.samplers[0], &shown));
    const int64_t first = shown.indices[0];
    struct ArrowArrayStream stream = schedule_of(job.samplers[0]);
    struct ArrowArray array = next_array(&stream);
    uint64_t epoch = 9, position = 9;
    EXPECT_OK(sab_sampler_tell(job.samplers[0], &epoch, &position));
    EXPECT(epoch == 0 && position == 3);
    EXPECT(shown.indices[0] == first); /* the batch that was shown is still there */
    EXPECT(*(const int64_t *)values_of(&array, BATCH) == 0); /* the whole epoch */
    array.release(&array);
    stream.release(&stream);
    free_job(&job);
}

/* What is done to the sampler does not change its schedule. */
static void Schedule_StaysWhatItWas(void) {
    FOR_CONSTRUCTORS(kind) {
        if (!(kind->capabilities & SAB_SAMPLER_SCHEDULE)) continue;
        struct job job = job_of(kind, ranks(0, 1));
        sab_sampler *changed = sampler_of_kind(kind, lengths(SAMPLES), SAMPLES,
                                               &(sab_sampler_options)SAB_SAMPLER_OPTIONS_INIT);
        struct state state;
        EXPECT_OK(save_state(changed, &state));
        struct ArrowArrayStream stream = schedule_of(changed);
        if (kind->capabilities & SAB_SAMPLER_BUDGET)
            EXPECT_OK(sab_sampler_set_budget(changed, 0, 100));
        EXPECT_OK(sab_sampler_seek(changed, 1));
        EXPECT_OK(sab_sampler_set_epoch(changed, 5));
        EXPECT_OK(restore_state(changed, &state));
        EXPECT_OK(sab_sampler_set_epoch(changed, 7));
        sab_sampler_free(changed);
        expect_rest(&job, &stream, kind->name);
        free_job(&job);
    }
}

static void Schedule_OfManySamples_ComesInArraysOfABoundedSize(void) {
    enum { MANY = 200000, LIMIT = 1 << 16 };
    int32_t *numbers = malloc(MANY * sizeof *numbers);
    for (int i = 0; i < MANY; ++i) numbers[i] = 1 + i % 7;
    sab_plan_options options = budget(700);
    sab_plan *plan = plan_with(numbers, MANY, &options);
    sab_sampler *sampler = rank_of(plan, 1, 2);
    struct ArrowArrayStream stream = schedule_of(sampler);
    int64_t seen = 0, arrays = 0;
    for (struct ArrowArray array = next_array(&stream); array.release != NULL;
         array = next_array(&stream)) {
        const int64_t items = array.children[INDICES]->children[0]->length;
        EXPECT(array.length <= LIMIT && items < LIMIT + 700);
        seen += items;
        ++arrays;
        array.release(&array);
    }
    EXPECT(seen == MANY && arrays == 4);
    stream.release(&stream);
    sab_sampler_free(sampler);
    sab_plan_free(plan);
    free(numbers);
}

static void Schema_NamesTheColumns(void) {
    static const char *const names[] = {"step", "rank", "batch", "indices", "padded_length"};
    static const char *const formats[] = {"l", "l", "l", "+l", "g"};
    struct job job = job_of_ranks("bucket", 1);
    struct ArrowArrayStream stream = schedule_of(job.samplers[0]);
    free_job(&job);
    struct ArrowSchema schema;
    EXPECT(stream.get_schema(&stream, &schema) == 0);
    stream.release(&stream);
    EXPECT(strcmp(schema.format, "+s") == 0 && schema.n_children == COLUMNS);
    for (int i = 0; i < COLUMNS; ++i) {
        const struct ArrowSchema *column = schema.children[i];
        EXPECT(strcmp(column->name, names[i]) == 0 && strcmp(column->format, formats[i]) == 0);
        EXPECT(column->flags == 0); /* without ARROW_FLAG_NULLABLE */
    }
    EXPECT(strcmp(schema.children[INDICES]->children[0]->format, "l") == 0);
    schema.release(&schema);
    EXPECT(schema.release == NULL);
}

/* A consumer may take a column out of an array and release the rest. */
static void Columns_OutliveTheArrayAndTheStream(void) {
    struct job job = job_of_ranks("bucket", 1);
    sab_batch batch = SAB_BATCH_INIT;
    EXPECT_OK(sab_next_batch(job.samplers[0], &batch));
    struct ArrowArrayStream stream = schedule_of(job.samplers[0]);
    struct ArrowArray array = next_array(&stream), lists = *array.children[INDICES];
    array.children[INDICES]->release = NULL;
    array.release(&array);
    stream.release(&stream);
    EXPECT(array.release == NULL && lists.release != NULL);
    struct ArrowArray items = *lists.children[0];
    lists.children[0]->release = NULL;
    EXPECT(((const int32_t *)lists.buffers[1])[1] == (int32_t)batch.count);
    lists.release(&lists);
    EXPECT(memcmp(items.buffers[1], batch.indices, batch.count * sizeof *batch.indices) == 0);
    items.release(&items);
    EXPECT(items.release == NULL);
    free_job(&job);
}

static void Stream_OfSizesThatWereChanged_FailsAndGoesOn(void) {
    int32_t numbers[] = {4, 4, 4, 4};
    sab_sizes *sizes = sizes_of(numbers, COUNT(numbers));
    sab_sampler *sampler = NULL;
    EXPECT_OK(sab_ordered_sampler_new(NULL, COUNT(numbers), sizes, 8, NULL, &sampler));
    sab_sizes_free(sizes);
    struct ArrowArrayStream stream = schedule_of(sampler);
    sab_sampler_free(sampler);
    struct ArrowArray array;
    memset(&array, 1, sizeof array);
    const struct ArrowArray untouched = array;
    numbers[3] = 9;
    EXPECT(stream.get_next(&stream, &array) == EIO);
    EXPECT(strstr(stream.get_last_error(&stream), "sizes: were changed") != NULL);
    EXPECT(memcmp(&array, &untouched, sizeof array) == 0);
    numbers[3] = 4;
    array = next_array(&stream);
    EXPECT(array.length == 2);
    array.release(&array);
    const struct ArrowArrayStream copy = stream;
    stream.release(&stream);
    EXPECT(stream.release == NULL && copy.get_next(&stream, &array) == EINVAL);
    EXPECT(strstr(copy.get_last_error(&stream), "released") != NULL);
}

static void Samplers_ThatDoNotKnowAllBatches_HaveNoSchedule(void) {
    struct ArrowArrayStream stream;
    memset(&stream, 1, sizeof stream);
    const struct ArrowArrayStream untouched = stream;
    FOR_CONSTRUCTORS(kind) {
        const int is_sharded = strcmp(kind->name, "sharded") == 0;
        if (kind->capabilities & SAB_SAMPLER_SCHEDULE && !is_sharded) continue;
        const sab_sampler_options options = ranks(1, 2);
        sab_sampler *sampler = sampler_of_kind(kind, lengths(SAMPLES), SAMPLES, &options);
        uint64_t capabilities = 0;
        EXPECT_OK(sab_sampler_get_capabilities(sampler, &capabilities));
        EXPECT((capabilities & SAB_SAMPLER_SCHEDULE) == 0);
        EXPECT_FAILS(sab_arrow_schedule_new(sampler, &stream), SAB_E_UNSUPPORTED,
                     is_sharded ? "does not know the samples of the other ranks"
                                : "has no random access: read its batches one after the other");
        EXPECT(memcmp(&stream, &untouched, sizeof stream) == 0);
        sab_sampler_free(sampler);
    }
}

static void Arguments_ThatAreNull_AreRefused(void) {
    struct job job = job_of_ranks("bucket", 1);
    struct ArrowArrayStream stream;
    EXPECT_FAILS(sab_arrow_schedule_new(NULL, &stream), SAB_E_ARGUMENT, "sampler = NULL");
    EXPECT_FAILS(sab_arrow_schedule_new(job.samplers[0], NULL), SAB_E_ARGUMENT, "stream = NULL");
    free_job(&job);
}

int main(void) {
    RUN(Schedule_OfEveryKind_HasTheBatchesOfAllRanks);
    RUN(Schedule_OfRanksWithoutAShare_HasEmptyLists);
    RUN(Schedule_WithoutAStep_IsEmpty);
    RUN(Schedule_AfterARestoreOnOtherRanks_BeginsThere);
    RUN(Schedule_UnderALoweredBudget_BeginsWhereItTookOver);
    RUN(Schedule_DoesNotMoveTheCursor);
    RUN(Schedule_StaysWhatItWas);
    RUN(Schedule_OfManySamples_ComesInArraysOfABoundedSize);
    RUN(Schema_NamesTheColumns);
    RUN(Columns_OutliveTheArrayAndTheStream);
    RUN(Stream_OfSizesThatWereChanged_FailsAndGoesOn);
    RUN(Samplers_ThatDoNotKnowAllBatches_HaveNoSchedule);
    RUN(Arguments_ThatAreNull_AreRefused);
    return finish();
}
