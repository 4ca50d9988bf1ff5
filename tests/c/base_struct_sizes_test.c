/* Functions with structs that no other quick test passes. tests/abi/struct_sizes.py runs this. */
#include "helpers.h"

static const double numbers[] = {3, 1, 2};

static sab_stream *a_source(void) {
    const sab_record records[] = {{SAB_RECORD_BYTES, 1, "a", 1}, {SAB_RECORD_BYTES, 1, "b", 1}};
    sab_list_stream_options options = SAB_LIST_STREAM_OPTIONS_INIT;
    sab_stream *stream = NULL;
    EXPECT_OK(sab_list_stream_new(records, 2, &options, &stream));
    return stream;
}

static int32_t keep(void *ctx, const sab_record *record, sab_record *made) {
    (void)ctx, (void)record, (void)made;
    return 0;
}

static int32_t keep_random(void *ctx, sab_random *random, const sab_record *record,
                           sab_record *made) {
    (void)ctx, (void)random, (void)record, (void)made;
    return 0;
}

static int32_t keep_state(void *ctx, const sab_record *state, const sab_record *record,
                          sab_record *next, sab_record *made) {
    (void)ctx, (void)state, (void)record, (void)next, (void)made;
    return 0;
}

static int32_t nothing(void *ctx, const sab_record *record, sab_stream **made) {
    (void)ctx, (void)record, (void)made;
    return 0;
}

static void Streams_OfFunctions_TakeObjects(void) {
    sab_object_functions objects = SAB_OBJECT_FUNCTIONS_INIT;
    sab_map_stream_options mapping = SAB_MAP_STREAM_OPTIONS_INIT;
    mapping.map = keep;
    mapping.objects = &objects;
    const sab_record initial = {SAB_RECORD_BYTES, 1, "i", 1};
    sab_stream *streams[4] = {NULL};
    EXPECT_OK(sab_map_stream_new(a_source(), &mapping, &streams[0]));
    EXPECT_OK(sab_select_stream_new(a_source(), nothing, NULL, NULL, &objects, &streams[1]));
    EXPECT_OK(sab_recurrent_stream_new(a_source(), keep_state, NULL, NULL, &initial, &objects,
                                       &streams[2]));
    EXPECT_OK(
        sab_random_map_stream_new(a_source(), keep_random, NULL, NULL, 7, &objects, &streams[3]));
    for (size_t i = 0; i < COUNT(streams); ++i) {
        sab_record record = {0};
        EXPECT(sab_stream_next(streams[i], &record) == (i == 1 ? SAB_END : SAB_OK));
        sab_stream_free(streams[i]);
    }
    sab_files_stream_options files = SAB_FILES_STREAM_OPTIONS_INIT;
    EXPECT_OK(sab_files_stream_new(a_source(), &files, &streams[0]));
    sab_stream_free(streams[0]);
}

static void Stream_TakesProgress(void) {
    const sab_progress_options progress = SAB_PROGRESS_OPTIONS_INIT;
    sab_stream *stream = a_source();
    EXPECT_OK(sab_stream_set_progress(stream, &progress));
    sab_stream_free(stream);
}

static void Partition_TakesOptions(void) {
    sab_partition_options options = SAB_PARTITION_OPTIONS_INIT;
    uint32_t part_of[3] = {9, 9, 9};
    EXPECT_OK(sab_items_partition(numbers, 3, 2, &options, part_of));
    EXPECT(part_of[1] == part_of[2] && part_of[0] != part_of[1]);
}

static void HostProbe_TakesOptions(void) {
    sab_probe_options options = SAB_PROBE_OPTIONS_INIT;
    sab_probe *probe = NULL;
    const sab_status status = sab_probe_new("host", &options, &probe);
    EXPECT(status == SAB_OK || status == SAB_E_UNSUPPORTED); /* without its files in /proc */
    sab_probe_free(probe);
}

int main(void) {
    RUN(Streams_OfFunctions_TakeObjects);
    RUN(Stream_TakesProgress);
    RUN(Partition_TakesOptions);
    RUN(HostProbe_TakesOptions);
    return finish();
}
