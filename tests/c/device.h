/* A device that is simulated: what it holds, what it can hold, and every call that the library
 * makes; and ranks that meet. */
#ifndef DEVICE_H
#define DEVICE_H

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "helpers.h"

enum { RESET, CURRENT, PEAK, RESERVED, TOTAL, RELEASE_CACHE, RNG_SAVE, RNG_RESTORE, CALLS };

struct device {
    int64_t held, peak, limit; /* limit 0: none */
    uint64_t rng, saved[8];
    int has_saved[8];
    int calls[CALLS];     /* how often each function was called */
    int fails_at[CALLS];  /* from which call on it fails, counted from 1; 0: never */
    int32_t code;         /* with which code */
    int freed;            /* release() */
    int asked;            /* is_out_of_memory() */
    int unsaved_restores; /* of a state that was never saved */
    int trace_on;
    char trace[4096]; /* what happened, a letter each: see note() */
};

static inline struct device device_of(int64_t held, int64_t limit) {
    struct device device = {.held = held, .peak = held, .limit = limit, .rng = 1, .code = 42};
    return device;
}

/* Letters: R reset, p peak read after work, X release_cache; W work, C cleanup, G garbage. Resets
 * in a row are one. */
static inline void note(struct device *device, char letter) {
    const size_t length = strlen(device->trace);
    if (letter == 'R' && length > 0 && device->trace[length - 1] == 'R') return;
    if (letter == 'p' && (length == 0 || device->trace[length - 1] != 'W')) return;
    if (device->trace_on && length + 1 < sizeof device->trace) device->trace[length] = letter;
}

static inline int32_t called(struct device *device, int function) {
    const int time = ++device->calls[function], fails_at = device->fails_at[function];
    return fails_at > 0 && time >= fails_at ? device->code : 0;
}

static inline int32_t device_reset(void *ctx) {
    struct device *device = ctx;
    device->peak = device->held;
    note(device, 'R');
    return called(device, RESET);
}

static inline int32_t device_current(void *ctx, int64_t *bytes) {
    struct device *device = ctx;
    *bytes = device->held;
    return called(device, CURRENT);
}

static inline int32_t device_peak(void *ctx, int64_t *bytes) {
    struct device *device = ctx;
    *bytes = device->peak;
    note(device, 'p');
    return called(device, PEAK);
}

static inline int32_t device_reserved(void *ctx, int64_t *reserved_peak, int64_t *largest_free) {
    struct device *device = ctx;
    *reserved_peak = device->peak + 7;
    *largest_free = 3;
    return called(device, RESERVED);
}

static inline int32_t device_total(void *ctx, int64_t *bytes) {
    struct device *device = ctx;
    *bytes = device->limit;
    return called(device, TOTAL);
}

static inline int32_t device_release_cache(void *ctx) {
    struct device *device = ctx;
    note(device, 'X');
    return called(device, RELEASE_CACHE);
}

static inline int32_t device_is_out_of_memory(void *ctx, int32_t code) {
    struct device *device = ctx;
    ++device->asked;
    EXPECT(code != 0);
    return code == 700;
}

static inline int32_t device_rng_save(void *ctx, uint64_t depth) {
    struct device *device = ctx;
    if (depth < COUNT(device->saved)) {
        device->saved[depth] = device->rng;
        device->has_saved[depth] = 1;
    }
    return called(device, RNG_SAVE);
}

static inline int32_t device_rng_restore(void *ctx, uint64_t depth) {
    struct device *device = ctx;
    if (depth < COUNT(device->saved) && device->has_saved[depth])
        device->rng = device->saved[depth];
    else
        ++device->unsaved_restores;
    return called(device, RNG_RESTORE);
}

static inline void device_release(void *ctx) {
    ++((struct device *)ctx)->freed;
}

static inline sab_probe_callbacks callbacks_of(struct device *device) {
    sab_probe_callbacks callbacks = SAB_PROBE_CALLBACKS_INIT;
    callbacks.ctx = device;
    callbacks.reset = device_reset;
    callbacks.current = device_current;
    callbacks.peak = device_peak;
    callbacks.reserved = device_reserved;
    callbacks.total = device_total;
    callbacks.release_cache = device_release_cache;
    callbacks.is_out_of_memory = device_is_out_of_memory;
    callbacks.rng_save = device_rng_save;
    callbacks.rng_restore = device_rng_restore;
    callbacks.release = device_release;
    return callbacks;
}

static inline sab_probe *probe_of(struct device *device) {
    const sab_probe_callbacks callbacks = callbacks_of(device);
    sab_probe *probe = NULL;
    EXPECT_OK(sab_probe_callbacks_new(&callbacks, &probe));
    return probe;
}

/* Holds so many bytes for a moment, as a step does; nothing is held where they do not fit. */
static inline int32_t touch(struct device *device, int64_t bytes) {
    device->rng = device->rng * 6364136223846793005u + 1442695040888963407u; /* as dropout does */
    if (device->limit > 0 && device->held + bytes > device->limit) return SAB_OUT_OF_MEMORY;
    if (device->held + bytes > device->peak) device->peak = device->held + bytes;
    return 0;
}

/* A number of the normal distribution. */
static inline double normal(void) {
    return sqrt(-2 * log(uniform())) * cos(6.283185307179586 * uniform());
}

/* A step that runs its batch in parts. */
struct parts {
    struct device *device;
    int64_t each;   /* bytes of a sample */
    uint64_t count; /* samples of the batch */
    uint64_t next;  /* sample that comes next */
    double weights; /* so far */
    const double *sample_weights;
    double sum;
    int begun, runs, ran_out;
    uint64_t largest; /* part of this try */
    uint64_t rng_seen;
    int other_rng;
    int fails_at;
    int32_t code, begin_code;
};

static inline int32_t begin_parts(void *ctx) {
    struct parts *parts = ctx;
    if (parts->begun++ == 0) parts->rng_seen = parts->device->rng;
    parts->other_rng += parts->device->rng != parts->rng_seen;
    parts->next = parts->largest = 0;
    parts->weights = 0;
    return parts->begin_code;
}

static inline void skip_what_weighs_nothing(struct parts *parts, uint64_t until) {
    while (parts->sample_weights != NULL && parts->next < until &&
           parts->sample_weights[parts->next] == 0)
        ++parts->next;
}

static inline int32_t run_part(void *ctx, uint64_t first, uint64_t count, double weight) {
    struct parts *parts = ctx;
    skip_what_weighs_nothing(parts, first);
    EXPECT(first == parts->next && count >= 1 && first + count <= parts->count);
    double expected = 0;
    for (uint64_t i = first; i < first + count; ++i)
        expected += parts->sample_weights == NULL ? 1.0 / (double)parts->count
                                                  : parts->sample_weights[i] / parts->sum;
    EXPECT(fabs(weight - expected) < 1e-12);
    parts->next += count;
    parts->weights += weight;
    parts->largest = count > parts->largest ? count : parts->largest;
    if (++parts->runs == parts->fails_at) return parts->code;
    const int32_t code = touch(parts->device, parts->each * (int64_t)count);
    parts->ran_out += code != 0;
    return code == 0 ? 0 : parts->ran_out % 2 == 0 ? code : 700;
}

/* ---- Ranks, each a thread ---- */

/* Where ranks leave the least of their numbers. A rank that does not come within some seconds is
 * taken to be lost: then all fail. */
struct meeting {
    pthread_mutex_t mutex;
    pthread_cond_t met;
    int ranks, here, is_lost;
    uint64_t round;
    int64_t least[8], result[8];
};

static inline struct meeting meeting_of(int ranks) {
    struct meeting meeting = {.ranks = ranks};
    pthread_mutex_init(&meeting.mutex, NULL);
    pthread_cond_init(&meeting.met, NULL);
    return meeting;
}

static inline int32_t leave_least(void *ctx, int64_t *values, size_t count) {
    struct meeting *meeting = ctx;
    struct timespec deadline;
    clock_gettime(CLOCK_REALTIME, &deadline);
    deadline.tv_sec += 5;
    pthread_mutex_lock(&meeting->mutex);
    for (size_t i = 0; i < count && i < COUNT(meeting->least); ++i)
        if (meeting->here == 0 || values[i] < meeting->least[i]) meeting->least[i] = values[i];
    if (++meeting->here == meeting->ranks) {
        memcpy(meeting->result, meeting->least, sizeof meeting->result);
        meeting->here = 0;
        ++meeting->round;
        pthread_cond_broadcast(&meeting->met);
    } else {
        for (const uint64_t round = meeting->round; meeting->round == round && !meeting->is_lost;)
            if (pthread_cond_timedwait(&meeting->met, &meeting->mutex, &deadline) != 0 &&
                meeting->round == round) {
                meeting->is_lost = 1;
                pthread_cond_broadcast(&meeting->met);
            }
    }
    const int32_t code = meeting->is_lost ? 1234 : 0;
    memcpy(values, meeting->result, count * sizeof *values);
    pthread_mutex_unlock(&meeting->mutex);
    return code;
}

enum { RANKS = 3 };

static inline sab_peaks *new_peaks(void) {
    sab_peaks *peaks = NULL;
    EXPECT_OK(sab_peaks_new(&peaks));
    return peaks;
}

static inline sab_peaks_view view_of(const sab_peaks *peaks) {
    sab_peaks_view view = SAB_PEAKS_VIEW_INIT;
    EXPECT_OK(sab_peaks_get_view(peaks, &view));
    return view;
}

static inline int is_near(double got, double expected, double tolerance) {
    return fabs(got - expected) <= tolerance * fabs(expected);
}

static inline int32_t cancel_at(void *ctx, uint64_t done, uint64_t total) {
    (void)total;
    return done == *(const uint64_t *)ctx ? 77 : 0;
}

#endif
