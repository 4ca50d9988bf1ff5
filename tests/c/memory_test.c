/* Probes, and the peaks of work under them. */
#define _GNU_SOURCE
#include <float.h>
#ifdef __linux__
#include <grp.h>
#include <sys/wait.h>
#endif
#include <unistd.h>

#include "device.h"

/* ---- Probes ---- */

static void Probe_OfCallbacks_ReadsWhatTheySay(void) {
    struct device device = device_of(100, 5000);
    sab_probe *probe = probe_of(&device);
    sab_probe_stats stats = SAB_PROBE_STATS_INIT;
    touch(&device, 50);
    EXPECT_OK(sab_probe_get_stats(probe, &stats));
    EXPECT(stats.current == 100 && stats.peak == 150 && stats.reserved_peak == 157 &&
           stats.largest_free == 3 && stats.total == 5000);
    EXPECT_OK(sab_probe_reset(probe));
    EXPECT_OK(sab_probe_get_stats(probe, &stats));
    EXPECT(stats.peak == 100);
    EXPECT_OK(sab_probe_release_cache(probe));
    EXPECT(device.calls[RELEASE_CACHE] == 1 && device.freed == 0);
    sab_probe_free(probe);
    EXPECT(device.freed == 1);
    sab_probe_free(NULL);
}

static void Probe_WithoutWhatMayBeNull_SeesMinusOne(void) {
    struct device device = device_of(100, 5000);
    sab_probe_callbacks callbacks = SAB_PROBE_CALLBACKS_INIT;
    callbacks.ctx = &device;
    callbacks.reset = device_reset;
    callbacks.current = device_current;
    callbacks.peak = device_peak;
    sab_probe *probe = NULL;
    sab_probe_stats stats = SAB_PROBE_STATS_INIT;
    EXPECT_OK(sab_probe_callbacks_new(&callbacks, &probe));
    EXPECT_OK(sab_probe_get_stats(probe, &stats));
    EXPECT(stats.current == 100 && stats.peak == 100 && stats.reserved_peak == -1 &&
           stats.largest_free == -1 && stats.total == -1);
    EXPECT_OK(sab_probe_release_cache(probe));
    sab_probe_free(probe);
    EXPECT(device.freed == 0);
}

static void Probe_WithoutWhatMustBeGiven_IsRefusedByName(void) {
    struct device device = device_of(0, 0);
    sab_probe *probe = (sab_probe *)&device;
    sab_probe_callbacks callbacks = callbacks_of(&device);
    callbacks.reset = NULL;
    EXPECT_FAILS(sab_probe_callbacks_new(&callbacks, &probe), SAB_E_ARGUMENT,
                 "callbacks.reset = NULL");
    EXPECT(probe == NULL);
    callbacks = callbacks_of(&device);
    callbacks.current = NULL;
    EXPECT_FAILS(sab_probe_callbacks_new(&callbacks, &probe), SAB_E_ARGUMENT,
                 "callbacks.current = NULL");
    callbacks = callbacks_of(&device);
    callbacks.peak = NULL;
    EXPECT_FAILS(sab_probe_callbacks_new(&callbacks, &probe), SAB_E_ARGUMENT,
                 "callbacks.peak = NULL");
    callbacks = callbacks_of(&device);
    callbacks.rng_save = NULL;
    EXPECT_FAILS(sab_probe_callbacks_new(&callbacks, &probe), SAB_E_ARGUMENT,
                 "callbacks.rng_save = NULL");
    callbacks = callbacks_of(&device);
    callbacks.rng_restore = NULL;
    EXPECT_FAILS(sab_probe_callbacks_new(&callbacks, &probe), SAB_E_ARGUMENT,
                 "callbacks.rng_restore = NULL");
    EXPECT_FAILS(sab_probe_callbacks_new(NULL, &probe), SAB_E_ARGUMENT, "callbacks = NULL");
    EXPECT_FAILS(sab_probe_callbacks_new(&callbacks, NULL), SAB_E_ARGUMENT, "probe = NULL");
    EXPECT(device.freed == 0); /* not released when it fails */
}

static void Structs_OfAnotherSize_AreRefusedOrReadAsFarAsTheyGo(void) {
    struct device device = device_of(0, 100);
    struct {
        sab_probe_callbacks known;
        uint64_t unknown;
    } larger = {callbacks_of(&device), 0};
    sab_probe *probe = NULL;
    larger.known.struct_size = sizeof larger;
    EXPECT_OK(sab_probe_callbacks_new(&larger.known, &probe));
    sab_probe_free(probe);
    larger.unknown = 1;
    EXPECT_FAILS(sab_probe_callbacks_new(&larger.known, &probe), SAB_E_ARGUMENT, "struct_size");
    larger.known.struct_size = sizeof(sab_probe_callbacks) - 1;
    EXPECT_FAILS(sab_probe_callbacks_new(&larger.known, &probe), SAB_E_ARGUMENT, "struct_size");

    probe = probe_of(&device);
    sab_probe_stats stats = SAB_PROBE_STATS_INIT;
    stats.struct_size = 0;
    EXPECT_FAILS(sab_probe_get_stats(probe, &stats), SAB_E_ARGUMENT, "stats.struct_size = 0");
    sab_peaks *peaks = NULL;
    sab_peaks_view view = SAB_PEAKS_VIEW_INIT;
    EXPECT_OK(sab_peaks_new(&peaks));
    view.struct_size = 8;
    EXPECT_FAILS(sab_peaks_get_view(peaks, &view), SAB_E_ARGUMENT, "view.struct_size = 8");
    sab_collect_peak_options options = SAB_COLLECT_PEAK_OPTIONS_INIT;
    options.struct_size = 8;
    EXPECT_FAILS(sab_collect_peak(probe, &options, peaks), SAB_E_ARGUMENT, "struct_size = 8");
    sab_probe_options probe_options = SAB_PROBE_OPTIONS_INIT;
    probe_options.struct_size = 0;
    sab_probe *other = NULL;
    EXPECT_FAILS(sab_probe_new("host", &probe_options, &other), SAB_E_ARGUMENT, "struct_size = 0");
    sab_memory_model *model = NULL;
    sab_memory_model_options model_options = SAB_MEMORY_MODEL_OPTIONS_INIT;
    model_options.struct_size = 1;
    EXPECT_FAILS(sab_memory_model_fit_new(NULL, 0, 2, NULL, &model_options, &model), SAB_E_ARGUMENT,
                 "struct_size = 1");
    sab_peaks_free(peaks);
    sab_peaks_free(NULL);
    sab_probe_free(probe);
}

/* Even one that `is_out_of_memory` would take for work that ran out: it is not work. */
static void Probe_WhoseFunctionFails_GivesItsCodeBack(void) {
    const int32_t codes[] = {42, -5, SAB_OUT_OF_MEMORY, 700, INT32_MIN};
    for (size_t i = 0; i < COUNT(codes); ++i)
        for (int function = RESET; function <= RELEASE_CACHE; ++function) {
            struct device device = device_of(0, 100);
            device.code = codes[i];
            device.fails_at[function] = 1;
            sab_probe *probe = probe_of(&device);
            sab_probe_stats stats = SAB_PROBE_STATS_INIT;
            EXPECT_FAILS(function == RESET           ? sab_probe_reset(probe)
                         : function == RELEASE_CACHE ? sab_probe_release_cache(probe)
                                                     : sab_probe_get_stats(probe, &stats),
                         SAB_E_CALLBACK, "the probe's ");
            EXPECT(sab_last_error_code() == codes[i]);
            EXPECT(stats.current == 0 && stats.total == 0); /* untouched */
            sab_probe_free(probe);
        }
}

static void Probe_OfADeviceThatIsNotThere_IsRefused(void) {
    const char *const devices[] = {"gpu", "cuda", "cuda:0", "cpu", "", "host ", "Host"};
    sab_probe_options options = SAB_PROBE_OPTIONS_INIT;
    for (size_t i = 0; i < COUNT(devices); ++i) { /* LibTorch is not open */
        sab_probe *probe = (sab_probe *)&options;
        const sab_status status = sab_probe_new(devices[i], NULL, &probe);
        EXPECT(status == SAB_E_UNSUPPORTED || status == SAB_E_ARGUMENT);
        EXPECT(probe == NULL && strstr(sab_last_error_message(), devices[i]) != NULL);
    }
    sab_probe *probe = NULL;
    EXPECT_FAILS(sab_probe_new("cuda:0", NULL, &probe), SAB_E_UNSUPPORTED, "sab_torch_open()");
    EXPECT_FAILS(sab_probe_new("cpu", NULL, &probe), SAB_E_UNSUPPORTED, "sab_torch_open()");
    EXPECT_FAILS(sab_probe_new(NULL, NULL, &probe), SAB_E_ARGUMENT, "device = NULL");
    EXPECT_FAILS(sab_probe_new("host", NULL, NULL), SAB_E_ARGUMENT, "probe = NULL");
    options.total_bytes = 1 << 20;
    EXPECT_FAILS(sab_probe_new("host", &options, &probe), SAB_E_UNSUPPORTED,
                 "options.total_bytes = 1048576");
    options.total_bytes = -1;
    EXPECT_FAILS(sab_probe_new("host", &options, &probe), SAB_E_ARGUMENT,
                 "options.total_bytes = -1");
}

#ifdef __linux__
/* The groups of a process are a line of many KiB in /proc/self/status, before the memory. Left out
 * where the test may not set groups. */
static void HostProbe_OfAProcessInManyGroups_Reads(void) {
    enum { groups = 4000 };
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        gid_t ids[groups];
        for (gid_t i = 0; i < groups; ++i) ids[i] = 1000000 + i;
        if (setgroups(groups, ids) != 0) _exit(0);
        sab_probe *probe = NULL;
        sab_probe_stats stats = SAB_PROBE_STATS_INIT;
        const sab_status status = sab_probe_new("host", NULL, &probe);
        if (status == SAB_E_UNSUPPORTED && access("/proc/self/clear_refs", W_OK) != 0) _exit(0);
        _exit(!(status == SAB_OK && sab_probe_get_stats(probe, &stats) == SAB_OK &&
                stats.current > 0 && stats.peak >= stats.current && stats.total > stats.peak));
    }
    int status = 1;
    EXPECT(waitpid(child, &status, 0) == child && status == 0);
}
#endif

#ifndef _WIN32
static void HostProbe_SeesWhatIsTouched(void) {
    enum { mib = 1 << 20 };
    sab_probe *probe = NULL;
    sab_probe_stats before = SAB_PROBE_STATS_INIT, held = SAB_PROBE_STATS_INIT,
                    after = SAB_PROBE_STATS_INIT, again = SAB_PROBE_STATS_INIT;
    FILE *refs = fopen("/proc/self/clear_refs", "w"); /* some systems have none */
    const int can_reset = refs != NULL && fputs("5", refs) >= 0 && fflush(refs) == 0;
    if (refs != NULL) fclose(refs);
    if (!can_reset) {
        EXPECT_FAILS(sab_probe_new("host", NULL, &probe), SAB_E_UNSUPPORTED, "clear_refs");
        return;
    }
    EXPECT_OK(sab_probe_new("host", NULL, &probe));
    if (probe == NULL) return;
    EXPECT_OK(sab_probe_reset(probe));
    EXPECT_OK(sab_probe_get_stats(probe, &before));
    EXPECT(before.current > 0 && before.peak >= before.current - mib && before.total > before.peak);
    EXPECT(before.reserved_peak == -1 && before.largest_free == -1);
    volatile char *bytes = malloc(64 * (size_t)mib);
    for (size_t i = 0; i < 64 * (size_t)mib; i += 1024) bytes[i] = 1;
    EXPECT_OK(sab_probe_get_stats(probe, &held));
    free((void *)bytes);
    EXPECT_OK(sab_probe_get_stats(probe, &after));
    EXPECT(held.current >= before.current + 60 * mib && held.peak >= before.current + 60 * mib);
    EXPECT(after.peak >= before.current + 60 * mib);
    EXPECT_OK(sab_probe_release_cache(probe));
    EXPECT_OK(sab_probe_reset(probe));
    EXPECT_OK(sab_probe_get_stats(probe, &again));
    EXPECT(again.peak <= again.current + 4 * mib); /* begins again at what is held */
    sab_probe_free(probe);
}
#endif

/* ---- Measuring ---- */

struct workload {
    struct device *device;
    sab_probe *probe;  /* freed inside work, when that is wanted */
    uint64_t items;    /* then SAB_END; UINT64_MAX: for ever */
    uint64_t fails_at; /* item that fails */
    int32_t code;      /* with it; 0: none fails */
    uint64_t hook_fails_at;
    int32_t cleanup_code, garbage_code;
    uint64_t out_of_memory; /* every such item */
    size_t features;
    size_t features_of_odd;
    double feature;
    uint64_t cancel_at;
    int worked, cleaned, collected;
    uint64_t last_cleaned;
};

static struct workload workload_of(struct device *device, uint64_t items) {
    struct workload load = {0};
    load.device = device;
    load.items = items;
    load.features = load.features_of_odd = 2;
    load.hook_fails_at = UINT64_MAX;
    return load;
}

static int32_t work(void *ctx, uint64_t item, double *features, size_t capacity, size_t *count) {
    struct workload *load = ctx;
    EXPECT(capacity >= 64);
    if (item >= load->items) return SAB_END;
    note(load->device, 'W');
    ++load->worked;
    if (load->probe != NULL) {
        sab_probe_free(load->probe);
        load->probe = NULL;
        EXPECT(load->device->freed == 0); /* in use */
    }
    if (load->code != 0 && item == load->fails_at) {
        touch(load->device, 900);
        return load->code;
    }
    if (load->out_of_memory > 0 && item % load->out_of_memory == load->out_of_memory - 1)
        return item % 2 == 0 ? SAB_OUT_OF_MEMORY : 700;
    *count = item % 2 == 1 ? load->features_of_odd : load->features;
    for (size_t i = 0; i < *count && i < capacity; ++i)
        features[i] = load->feature + (double)item + (double)i / 128;
    return touch(load->device, (int64_t)(100 + item));
}

static int32_t cleanup(void *ctx, uint64_t item) {
    struct workload *load = ctx;
    note(load->device, 'C');
    ++load->cleaned;
    load->last_cleaned = item;
    return item == load->hook_fails_at ? load->cleanup_code : 0;
}

static int32_t collect_garbage(void *ctx) {
    struct workload *load = ctx;
    note(load->device, 'G');
    ++load->collected;
    return load->last_cleaned == load->hook_fails_at ? load->garbage_code : 0;
}

static sab_collect_peak_options collecting(struct workload *load) {
    sab_collect_peak_options options = SAB_COLLECT_PEAK_OPTIONS_INIT;
    options.work = work;
    options.cleanup = cleanup;
    options.collect_garbage = collect_garbage;
    options.ctx = load;
    return options;
}

static void CollectPeak_RecordsEachItem(void) {
    struct device device = device_of(1000, 0);
    struct workload load = workload_of(&device, UINT64_MAX);
    sab_collect_peak_options options = collecting(&load);
    sab_probe *probe = probe_of(&device);
    sab_peaks *peaks = new_peaks();
    EXPECT(view_of(peaks).count == 0 && view_of(peaks).out_of_memory_count == 0);
    options.item_count = 50;
    EXPECT_OK(sab_collect_peak(probe, &options, peaks));
    const sab_peaks_view view = view_of(peaks);
    EXPECT(view.count == 50 && view.feature_count == 2 && view.out_of_memory_count == 0 &&
           load.worked == 50);
    for (size_t i = 0; i < view.count; ++i) {
        EXPECT(view.items[i] == i && view.features[2 * i] == (double)i &&
               view.features[2 * i + 1] == (double)i + 1.0 / 128);
        EXPECT(view.before[i] == 1000 && view.peaks[i] == 1100 + (int64_t)i);
        EXPECT(view.reserved_peaks[i] == 1107 + (int64_t)i && view.largest_free[i] == 3);
    }
    sab_peaks_free(peaks);
    sab_probe_free(probe);
}

static void CollectPeak_WithoutItems_RecordsNothing(void) {
    struct device device = device_of(1000, 0);
    struct workload load = workload_of(&device, 0);
    sab_collect_peak_options options = collecting(&load);
    sab_probe *probe = probe_of(&device);
    sab_peaks *peaks = new_peaks();
    options.item_count = 0;
    EXPECT_OK(sab_collect_peak(probe, &options, peaks));
    options.item_count = UINT64_MAX;
    EXPECT_OK(sab_collect_peak(probe, &options, peaks));
    EXPECT(view_of(peaks).count == 0 && load.worked == 0 && load.cleaned == 0);
    sab_peaks_free(peaks);
    sab_probe_free(probe);
}

static void CollectPeak_CallsTheHooksInOrder(void) {
    struct device device = device_of(1000, 0);
    struct workload load = workload_of(&device, 3);
    sab_collect_peak_options options = collecting(&load);
    sab_probe *probe = probe_of(&device);
    sab_peaks *peaks = new_peaks();
    device.trace_on = 1;
    EXPECT_OK(sab_collect_peak(probe, &options, peaks)); /* ends by SAB_END */
    EXPECT(strcmp(device.trace, "RWpCGXRWpCGXRWpCGXR") == 0);
    EXPECT(view_of(peaks).count == 3 && load.cleaned == 3 && load.collected == 3);
    memset(device.trace, 0, sizeof device.trace);
    options.keep_cache = 1;
    options.cleanup = NULL;
    EXPECT_OK(sab_collect_peak(probe, &options, peaks));
    EXPECT(strcmp(device.trace, "RWpGRWpGRWpGR") == 0);
    memset(device.trace, 0, sizeof device.trace);
    options.collect_garbage = NULL;
    EXPECT_OK(sab_collect_peak(probe, &options, peaks));
    EXPECT(strcmp(device.trace, "RWpRWpRWpR") == 0);
    EXPECT(device.peak == device.held && view_of(peaks).count == 9);
    sab_peaks_free(peaks);
    sab_probe_free(probe);
}

static void CollectPeak_WarmUp_IsRunButNotRecorded(void) {
    struct device device = device_of(1000, 0);
    struct workload load = workload_of(&device, 10);
    sab_collect_peak_options options = collecting(&load);
    sab_probe *probe = probe_of(&device);
    sab_peaks *peaks = new_peaks();
    options.warm_up = 3;
    load.out_of_memory = 3; /* items 2, 5 and 8: the first is warming up */
    EXPECT_OK(sab_collect_peak(probe, &options, peaks));
    sab_peaks_view view = view_of(peaks);
    EXPECT(load.worked == 10 && load.cleaned == 10 && view.count == 5 && view.items[0] == 3 &&
           view.items[4] == 9);
    EXPECT(view.out_of_memory_count == 2 && view.out_of_memory[0] == 5 &&
           view.out_of_memory[1] == 8);
    options.warm_up = 100;
    EXPECT_OK(sab_collect_peak(probe, &options, peaks));
    EXPECT(load.worked == 20 && view_of(peaks).count == 5);
    sab_peaks_free(peaks);
    sab_probe_free(probe);
}

static void CollectPeak_OutOfMemory_IsListedAndSkipped(void) {
    struct device device = device_of(1000, 1105); /* from item 6 on it does not fit */
    struct workload load = workload_of(&device, 10);
    sab_collect_peak_options options = collecting(&load);
    sab_probe *probe = probe_of(&device);
    sab_peaks *peaks = new_peaks();
    device.trace_on = 1;
    EXPECT_OK(sab_collect_peak(probe, &options, peaks));
    sab_peaks_view view = view_of(peaks);
    EXPECT(view.count == 6 && view.out_of_memory_count == 4 && view.out_of_memory[0] == 6 &&
           view.out_of_memory[3] == 9);
    EXPECT(load.cleaned == 10 && load.collected == 10 && device.calls[RELEASE_CACHE] == 10);
    /* also by the code that the probe takes for it */
    device.limit = 0;
    load.out_of_memory = 2; /* items 1, 3, ... say 700 */
    EXPECT_OK(sab_collect_peak(probe, &options, peaks));
    view = view_of(peaks);
    EXPECT(view.count == 11 && view.out_of_memory_count == 9 && view.out_of_memory[4] == 1 &&
           device.asked > 0);
    sab_peaks_free(peaks);
    sab_probe_free(probe);
}

static void CollectPeak_AfterFailure_KeepsWhatWasCollected(void) {
    const int32_t codes[] = {42, -3, 99, INT32_MAX, INT32_MIN};
    for (size_t i = 0; i < COUNT(codes); ++i) {
        struct device device = device_of(1000, 0);
        struct workload load = workload_of(&device, 10);
        sab_collect_peak_options options = collecting(&load);
        sab_probe *probe = probe_of(&device);
        sab_peaks *peaks = new_peaks();
        load.fails_at = 4;
        load.code = codes[i];
        device.trace_on = 1;
        EXPECT_FAILS(sab_collect_peak(probe, &options, peaks), SAB_E_CALLBACK, "work on item 4");
        EXPECT(sab_last_error_code() == codes[i]);
        const sab_peaks_view view = view_of(peaks);
        EXPECT(view.count == 4 && view.items[3] == 3 && view.peaks[3] == 1103 &&
               view.out_of_memory_count == 0);
        /* the failed one included */
        EXPECT(load.worked == 5 && load.cleaned == 5 && load.collected == 5 &&
               load.last_cleaned == 4);
        EXPECT(strlen(device.trace) >= 5 &&
               strcmp(device.trace + strlen(device.trace) - 5, "pCGXR") == 0);
        EXPECT(device.peak == device.held);
        load.code = 0; /* and goes on */
        EXPECT_OK(sab_collect_peak(probe, &options, peaks));
        EXPECT(view_of(peaks).count == 14);
        sab_peaks_free(peaks);
        sab_probe_free(probe);
    }
}

/* Whatever fails, the other hooks still run, the peak begins again, and the first failure is the
 * one that is told. */
static void CollectPeak_FailingHook_GivesItsCodeAndLeavesThePeakReset(void) {
    const int32_t codes[] = {42, SAB_OUT_OF_MEMORY, 700, SAB_END};
    for (size_t i = 0; i < COUNT(codes); ++i)
        for (int which = 0; which < 3; ++which) { /* cleanup, collect_garbage, release_cache */
            struct device device = device_of(1000, 0);
            struct workload load = workload_of(&device, 10);
            sab_collect_peak_options options = collecting(&load);
            sab_probe *probe = probe_of(&device);
            sab_peaks *peaks = new_peaks();
            load.hook_fails_at = 2;
            load.cleanup_code = which == 0 ? codes[i] : 0;
            load.garbage_code = which == 1 ? codes[i] : 0;
            device.fails_at[RELEASE_CACHE] = which == 2 ? 3 : 0;
            device.code = codes[i];
            EXPECT_FAILS(sab_collect_peak(probe, &options, peaks), SAB_E_CALLBACK,
                         which == 0   ? "cleanup"
                         : which == 1 ? "collect_garbage"
                                      : "release_cache");
            EXPECT(sab_last_error_code() == codes[i]);
            EXPECT(view_of(peaks).count == 3 && load.worked == 3); /* it was measured */
            EXPECT(load.cleaned == 3 && load.collected == 3 && device.calls[RELEASE_CACHE] == 3);
            EXPECT(device.peak == device.held);
            sab_peaks_free(peaks);
            sab_probe_free(probe);
        }
    /* both fail */
    struct device device = device_of(1000, 0);
    struct workload load = workload_of(&device, 10);
    sab_collect_peak_options options = collecting(&load);
    sab_probe *probe = probe_of(&device);
    sab_peaks *peaks = new_peaks();
    load.fails_at = load.hook_fails_at = 2;
    load.code = 5;
    load.cleanup_code = 6;
    load.garbage_code = 7;
    EXPECT_FAILS(sab_collect_peak(probe, &options, peaks), SAB_E_CALLBACK, "work on item 2");
    EXPECT(sab_last_error_code() == 5 && load.collected == 3 && device.peak == device.held);
    sab_peaks_free(peaks);
    sab_probe_free(probe);
}

/* Work that measures on the same probe. */
static int32_t inner_work(void *ctx, uint64_t item, double *features, size_t capacity,
                          size_t *count) {
    (void)features, (void)capacity;
    *count = 0;
    return item == 3 ? SAB_END : touch(ctx, 500);
}

static int32_t outer_work(void *ctx, uint64_t item, double *features, size_t capacity,
                          size_t *count) {
    struct device *device = ((void **)ctx)[0];
    sab_collect_peak_options options = SAB_COLLECT_PEAK_OPTIONS_INIT;
    (void)features, (void)capacity;
    *count = 0;
    if (item == 2) return SAB_END;
    device->held += 100;
    options.work = inner_work;
    options.ctx = device;
    sab_peaks *peaks = new_peaks();
    EXPECT_OK(sab_collect_peak(((void **)ctx)[1], &options, peaks));
    const sab_peaks_view view = view_of(peaks);
    EXPECT(view.count == 3 && view.peaks[0] == 1600 && view.peaks[2] == 1600);
    sab_peaks_free(peaks);
    device->held -= 100;
    EXPECT_OK(sab_probe_reset(((void **)ctx)[1]));
    return touch(device, 7);
}

static void CollectPeak_InItsOwnWork_BothSeeWhatTheyHold(void) {
    struct device device = device_of(1000, 0);
    sab_probe *probe = probe_of(&device);
    void *both[] = {&device, probe};
    sab_collect_peak_options options = SAB_COLLECT_PEAK_OPTIONS_INIT;
    options.work = outer_work;
    options.ctx = both;
    sab_peaks *peaks = new_peaks();
    EXPECT_OK(sab_collect_peak(probe, &options, peaks));
    const sab_peaks_view view = view_of(peaks);
    EXPECT(view.count == 2 && view.peaks[0] == 1600 && view.peaks[1] == 1600);
    sab_peaks_free(peaks);
    sab_probe_free(probe);
}

static void CollectPeak_FailingProbe_GivesItsCode(void) {
    for (int function = RESET; function <= TOTAL; ++function)
        for (int time = 1; time <= 6; ++time) {
            struct device device = device_of(1000, 0);
            struct workload load = workload_of(&device, 10);
            sab_collect_peak_options options = collecting(&load);
            sab_probe *probe = probe_of(&device);
            sab_peaks *peaks = new_peaks();
            device.fails_at[function] = time;
            EXPECT_FAILS(sab_collect_peak(probe, &options, peaks), SAB_E_CALLBACK, "the probe's ");
            EXPECT(sab_last_error_code() == 42);
            EXPECT(load.cleaned == load.worked && load.collected == load.worked);
            EXPECT(view_of(peaks).count <= 3);
            EXPECT(device.peak == device.held);
            sab_peaks_free(peaks);
            sab_probe_free(probe);
        }
}

static void CollectPeak_OfFeaturesThatCannotBe_IsRefused(void) {
    struct device device = device_of(1000, 0);
    struct workload load = workload_of(&device, 10);
    sab_collect_peak_options options = collecting(&load);
    sab_probe *probe = probe_of(&device);
    sab_peaks *peaks = new_peaks();
    load.features_of_odd = 3;
    EXPECT_FAILS(sab_collect_peak(probe, &options, peaks), SAB_E_ARGUMENT,
                 "features[1]: has 3 numbers: must be as many as of the items before, 2");
    EXPECT(view_of(peaks).count == 1 && load.cleaned == 2 && device.peak == device.held);
    load.features = load.features_of_odd = 4; /* other than those collected already */
    EXPECT_FAILS(sab_collect_peak(probe, &options, peaks), SAB_E_ARGUMENT,
                 "features[0]: has 4 numbers");
    load.features = load.features_of_odd = 65;
    EXPECT_FAILS(sab_collect_peak(probe, &options, peaks), SAB_E_ARGUMENT,
                 "features[0]: has 65 numbers: there is room for 64");
    load.features = load.features_of_odd = 2;
    const double wrong[] = {NAN, INFINITY, -INFINITY};
    for (size_t i = 0; i < COUNT(wrong); ++i) {
        load.feature = wrong[i];
        EXPECT_FAILS(sab_collect_peak(probe, &options, peaks), SAB_E_ARGUMENT, "features[0][0] = ");
    }
    EXPECT(view_of(peaks).count == 1 && load.cleaned == load.worked &&
           load.collected == load.worked && device.peak == device.held);
    sab_peaks_free(peaks);

    peaks = new_peaks();
    load.feature = 0;
    const size_t widths[] = {64, 0};
    for (size_t i = 0; i < COUNT(widths); ++i) {
        load.features = load.features_of_odd = widths[i];
        EXPECT_OK(sab_collect_peak(probe, &options, peaks));
        EXPECT(view_of(peaks).count == 10 && view_of(peaks).feature_count == widths[i]);
        sab_peaks_free(peaks);
        peaks = new_peaks();
    }
    options.work = NULL;
    EXPECT_FAILS(sab_collect_peak(probe, &options, peaks), SAB_E_ARGUMENT, "options.work = NULL");
    options = collecting(&load);
    options.keep_cache = 2;
    EXPECT_FAILS(sab_collect_peak(probe, &options, peaks), SAB_E_ARGUMENT,
                 "options.keep_cache = 2");
    EXPECT_FAILS(sab_collect_peak(probe, NULL, peaks), SAB_E_ARGUMENT, "options = NULL");
    EXPECT_FAILS(sab_collect_peak(NULL, &options, peaks), SAB_E_ARGUMENT, "probe = NULL");
    EXPECT_FAILS(sab_collect_peak(probe, &options, NULL), SAB_E_ARGUMENT, "peaks = NULL");
    sab_peaks_free(peaks);
    sab_probe_free(probe);
}

static void CollectPeak_Cancelled_KeepsWhatWasCollected(void) {
    struct device device = device_of(1000, 0);
    struct workload load = workload_of(&device, 10);
    sab_collect_peak_options options = collecting(&load);
    sab_probe *probe = probe_of(&device);
    sab_peaks *peaks = new_peaks();
    uint64_t at = 4;
    options.progress = cancel_at;
    options.progress_ctx = &at;
    EXPECT_FAILS(sab_collect_peak(probe, &options, peaks), SAB_E_CANCELLED, "77");
    EXPECT(sab_last_error_code() == 77 && view_of(peaks).count == 4 && load.worked == 4 &&
           load.cleaned == 4 && device.peak == device.held);
    at = 99; /* and added to what is there */
    EXPECT_OK(sab_collect_peak(probe, &options, peaks));
    EXPECT(view_of(peaks).count == 14 && view_of(peaks).items[4] == 0 &&
           view_of(peaks).items[13] == 9);
    sab_peaks_free(peaks);
    sab_probe_free(probe);
}

static void CollectPeak_ProbeFreedInsideWork_GoesOn(void) {
    struct device device = device_of(1000, 0);
    struct workload load = workload_of(&device, 10);
    sab_collect_peak_options options = collecting(&load);
    sab_peaks *peaks = new_peaks();
    load.probe = probe_of(&device);
    EXPECT_OK(sab_collect_peak(load.probe, &options, peaks));
    EXPECT(view_of(peaks).count == 10 && device.freed == 1);
    sab_peaks_free(peaks);
}

int main(void) {
    RUN(Probe_OfCallbacks_ReadsWhatTheySay);
    RUN(Probe_WithoutWhatMayBeNull_SeesMinusOne);
    RUN(Probe_WithoutWhatMustBeGiven_IsRefusedByName);
    RUN(Structs_OfAnotherSize_AreRefusedOrReadAsFarAsTheyGo);
    RUN(Probe_WhoseFunctionFails_GivesItsCodeBack);
    RUN(Probe_OfADeviceThatIsNotThere_IsRefused);
#ifndef _WIN32
    RUN(HostProbe_SeesWhatIsTouched);
#ifdef __linux__
    RUN(HostProbe_OfAProcessInManyGroups_Reads);
#endif
#endif
    RUN(CollectPeak_RecordsEachItem);
    RUN(CollectPeak_WithoutItems_RecordsNothing);
    RUN(CollectPeak_CallsTheHooksInOrder);
    RUN(CollectPeak_WarmUp_IsRunButNotRecorded);
    RUN(CollectPeak_OutOfMemory_IsListedAndSkipped);
    RUN(CollectPeak_AfterFailure_KeepsWhatWasCollected);
    RUN(CollectPeak_FailingHook_GivesItsCodeAndLeavesThePeakReset);
    RUN(CollectPeak_InItsOwnWork_BothSeeWhatTheyHold);
    RUN(CollectPeak_FailingProbe_GivesItsCode);
    RUN(CollectPeak_OfFeaturesThatCannotBe_IsRefused);
    RUN(CollectPeak_Cancelled_KeepsWhatWasCollected);
    RUN(CollectPeak_ProbeFreedInsideWork_GoesOn);
    return finish();
}
