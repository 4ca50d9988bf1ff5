/* Steps in parts. */
#define _GNU_SOURCE
#include <float.h>

#include "device.h"

static int32_t run_heavy_part(void *ctx, uint64_t first, uint64_t count, double weight) {
    struct parts *parts = ctx;
    EXPECT(weight > 0 && first + count <= parts->count);
    parts->weights += weight;
    ++parts->runs;
    return 0;
}

static int logged;
static void count_lines(void *ctx, sab_log_level level, const char *message) {
    (void)ctx, (void)message;
    logged += level == SAB_LOG_WARNING;
}

/* A part that weighs nothing has no mean loss. */
static void ChunkedStep_LeavesOutWhatWeighsNothing(void) {
    static const double sample_weights[] = {1, 1, 0, 0, 2, 0};
    struct device device = device_of(0, 0);
    struct parts parts = {.device = &device,
                          .each = 1,
                          .count = 6,
                          .sample_weights = sample_weights,
                          .sum = 4,
                          .fails_at = -1};
    sab_step_in_chunks_options options = SAB_STEP_IN_CHUNKS_OPTIONS_INIT;
    options.chunk = run_heavy_part;
    options.ctx = &parts;
    options.sample_weights = sample_weights;
    options.chunk_size = 2;
    sab_probe *probe = probe_of(&device);
    EXPECT_OK(sab_step_run_in_chunks(probe, 6, &options, NULL));
    EXPECT(parts.runs == 2 && parts.weights == 1);
    sab_probe_free(probe);
}

static void ChunkedStep_HalvesUntilItFits(void) {
    random_state = 61;
    sab_log_set_callback(count_lines, NULL);
    for (int round = 0; round < 300; ++round) {
        double sample_weights[200];
        struct device device = device_of(1000, 0);
        struct parts parts = {.device = &device, .each = 10, .count = 1 + below(200)};
        const uint64_t fits = 1 + below(parts.count + 20);
        device.limit = 1000 + 10 * (int64_t)fits;
        if (round % 2 == 1) {
            parts.sample_weights = sample_weights;
            /* some count nothing */
            for (uint64_t i = 0; i < parts.count; ++i)
                parts.sum += sample_weights[i] = i == 0 ? 1 : (double)below(4);
        }
        sab_step_in_chunks_options options = SAB_STEP_IN_CHUNKS_OPTIONS_INIT;
        options.chunk = run_part;
        options.begin = begin_parts;
        options.ctx = &parts;
        options.sample_weights = parts.sample_weights;
        options.chunk_size = below(3) == 0 ? 1 + below(300) : 0;
        uint64_t expected = options.chunk_size == 0 || options.chunk_size > parts.count
                                ? parts.count
                                : options.chunk_size,
                 size = 0;
        int halved = 0;
        for (; expected > fits; expected /= 2) ++halved;
        sab_probe *probe = probe_of(&device);
        logged = 0;
        EXPECT_OK(sab_step_run_in_chunks(probe, parts.count, &options, &size));
        EXPECT(size == expected && parts.begun == halved + 1 && parts.ran_out == halved &&
               logged == halved);
        skip_what_weighs_nothing(&parts, parts.count);
        EXPECT(parts.next == parts.count && fabs(parts.weights - 1) < 1e-12 &&
               parts.largest == expected);
        EXPECT(parts.other_rng == 0 && device.unsaved_restores == 0 &&
               device.calls[RNG_RESTORE] == halved);
        EXPECT(device.rng != parts.rng_seen); /* the step that fitted went on with it */
        sab_probe_free(probe);
    }
    sab_log_set_callback(NULL, NULL);
}

static void ChunkedStep_ThatCannotBe_IsRefused(void) {
    struct device device = device_of(1000, 1005);
    struct parts parts = {.device = &device, .each = 10, .count = 8};
    sab_step_in_chunks_options options = SAB_STEP_IN_CHUNKS_OPTIONS_INIT;
    sab_probe *probe = probe_of(&device);
    options.chunk = run_part;
    options.begin = begin_parts;
    options.ctx = &parts;
    uint64_t size = 99;
    EXPECT_FAILS(sab_step_run_in_chunks(probe, 8, &options, &size), SAB_E_DEVICE_MEMORY,
                 "not enough memory even for a batch of one");
    EXPECT(size == 99 && parts.begun == 4 && device.rng == 1); /* 8, 4, 2, 1 */
    device.limit = 0;
    const int32_t codes[] = {42, SAB_END, -7};
    for (size_t i = 0; i < COUNT(codes); ++i) {
        parts = (struct parts){
            .device = &device, .each = 10, .count = 8, .fails_at = 2, .code = codes[i]};
        options.chunk_size = 2;
        EXPECT_FAILS(sab_step_run_in_chunks(probe, 8, &options, &size), SAB_E_CALLBACK,
                     "chunk of 2 samples from 2");
        EXPECT(sab_last_error_code() == codes[i] && parts.runs == 2);
        parts = (struct parts){.device = &device, .each = 10, .count = 8, .begin_code = codes[i]};
        EXPECT_FAILS(sab_step_run_in_chunks(probe, 8, &options, NULL), SAB_E_CALLBACK, "begin");
        EXPECT(sab_last_error_code() == codes[i] && parts.runs == 0);
    }
    /* it is not work */
    parts = (struct parts){.device = &device, .each = 10, .count = 8, .begin_code = 700};
    EXPECT_FAILS(sab_step_run_in_chunks(probe, 8, &options, NULL), SAB_E_CALLBACK, "begin");
    EXPECT(sab_last_error_code() == 700);
    parts = (struct parts){.device = &device, .each = 10, .count = 2};
    const double wrong[][2] = {{-1, 2}, {NAN, 1}, {INFINITY, 1}, {0, 0}, {DBL_MAX, DBL_MAX}};
    const char *const words[] = {"options.sample_weights[0] = -1",
                                 "options.sample_weights[0] = ", "options.sample_weights[0] = ",
                                 "options.sample_weights: their sum is ",
                                 "options.sample_weights: their sum is "};
    for (size_t i = 0; i < COUNT(wrong); ++i) {
        options.sample_weights = wrong[i];
        EXPECT_FAILS(sab_step_run_in_chunks(probe, 2, &options, NULL), SAB_E_ARGUMENT, words[i]);
    }
    options.sample_weights = NULL;
    EXPECT_FAILS(sab_step_run_in_chunks(probe, 0, &options, NULL), SAB_E_ARGUMENT, "count = 0");
    options.chunk = NULL;
    EXPECT_FAILS(sab_step_run_in_chunks(probe, 2, &options, NULL), SAB_E_ARGUMENT,
                 "options.chunk = NULL");
    EXPECT_FAILS(sab_step_run_in_chunks(probe, 2, NULL, NULL), SAB_E_ARGUMENT, "options = NULL");
    EXPECT_FAILS(sab_step_run_in_chunks(NULL, 2, &options, NULL), SAB_E_ARGUMENT, "probe = NULL");
    EXPECT(parts.runs == 0);
    sab_probe_free(probe);
}

int main(void) {
    RUN(ChunkedStep_LeavesOutWhatWeighsNothing);
    RUN(ChunkedStep_HalvesUntilItFits);
    RUN(ChunkedStep_ThatCannotBe_IsRefused);
    return finish();
}
