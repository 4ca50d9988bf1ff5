/* The largest batch that fits. */
#define _GNU_SOURCE

#include "device.h"

enum curve { LINE, KINKED, QUADRATIC, STEPPED, CURVES };

/* Bytes of a step over the bytes held: several lines (the largest counts), or a square, and rounded
 * up to blocks. */
struct model_run {
    struct device *device;
    enum curve curve;
    int64_t constants[4], slopes[4]; /* of `lines` lines */
    int lines;
    int64_t block; /* 0: to the byte */
    int trials, fails_at;
    int32_t code;
    uint64_t largest;
    uint64_t rng_seen; /* random state at the first trial */
    int other_rng;     /* trials that began with another */
};

static int64_t bytes_of(const struct model_run *run, uint64_t count, double length) {
    const int64_t n = (int64_t)((double)count * length);
    int64_t most = 0;
    for (int i = 0; i < run->lines; ++i) {
        const int64_t line = run->constants[i] + (run->curve == QUADRATIC ? run->slopes[i] * n * n
                                                                          : run->slopes[i] * n);
        most = line > most ? line : most;
    }
    return run->block > 0 ? (most + run->block - 1) / run->block * run->block : most;
}

static int32_t trial(void *ctx, uint64_t count, double length) {
    struct model_run *run = ctx;
    EXPECT(count >= 1);
    if (run->trials == 0) run->rng_seen = run->device->rng;
    run->other_rng += run->device->rng != run->rng_seen;
    run->largest = count > run->largest ? count : run->largest;
    if (++run->trials == run->fails_at) {
        touch(run->device, 5);
        return run->code;
    }
    return touch(run->device, bytes_of(run, count, length));
}

static const int64_t base_bytes = 40000000;

static struct model_run run_of(struct device *device, enum curve curve) {
    struct model_run run = {
        .device = device, .curve = curve, .lines = 1, .fails_at = -1, .code = 42};
    const int64_t slope = (int64_t)(curve == QUADRATIC ? 1 + below(1000) : 1000 + below(1000000));
    const int64_t shares[] = {0, 1, 20, 1000};
    run.slopes[0] = slope;
    run.constants[0] = curve == QUADRATIC ? 0 : slope * shares[below(4)];
    if (curve == KINKED) {
        run.lines = 2 + (int)below(3);
        for (int i = 1; i < run.lines; ++i) { /* steeper, from lower down */
            run.slopes[i] = run.slopes[i - 1] + (int64_t)(1 + below(2000000));
            run.constants[i] = (int64_t)below((uint64_t)run.constants[i - 1] + 1);
        }
    }
    if (curve == STEPPED) run.block = 2 << 20;
    return run;
}

/* The most that fit, by counting down the doubling and up the bisection. */
static uint64_t true_maximum(const struct model_run *run, double length, uint64_t maximum) {
    uint64_t fits = 0, too_many = maximum + 1;
    while (too_many - fits > 1) {
        const uint64_t middle = fits + (too_many - fits) / 2;
        if (run->device->held + bytes_of(run, middle, length) <= run->device->limit)
            fits = middle;
        else
            too_many = middle;
    }
    return fits;
}

/* Room for exactly `count` samples. */
static void give_room(struct model_run *run, uint64_t count, double length) {
    const int64_t fits = bytes_of(run, count, length), not = bytes_of(run, count + 1, length);
    run->device->limit =
        run->device->held + fits + (int64_t)(uniform() * (double)(not - fits - (not > fits)));
}

static const uint64_t maxima[] = {1,  2,   3,   4,   5,    7,    8,     10,    15,    31,    33,
                                  64, 100, 255, 500, 1000, 4097, 12345, 50000, 99999, 100000};

static sab_max_batch found_by(struct model_run *run, sab_search search, sab_status expected) {
    sab_max_batch_options options = SAB_MAX_BATCH_OPTIONS_INIT;
    sab_max_batch found = SAB_MAX_BATCH_INIT;
    options.search = search;
    sab_probe *probe = probe_of(run->device);
    const uint64_t rng = run->device->rng;
    uint64_t size = 0;
    const sab_status status = sab_max_batch_find(probe, trial, run, &options, &size, &found);
    EXPECT(status == expected);
    if (status == SAB_OK) {
        EXPECT(size == found.batch_size && found.batch_size >= 1 && found.batch_size <= 100000);
        EXPECT(found.trials == (uint64_t)run->trials && found.limit == run->device->limit &&
               found.peak > 0);
    }
    EXPECT(run->device->rng == rng && run->other_rng == 0 && run->device->unsaved_restores == 0);
    EXPECT(run->device->peak == run->device->held); /* reset */
    sab_probe_free(probe);
    return found;
}

/* Many searches by prediction on a kind of curve, with room for 1 to 100,000 samples. */
struct outcome {
    /* of them: what was found does not fit; more than 6 trials; ... */
    int searches, over, many, ran_out, too_small, unmeasured;
    double share; /* of what would have fitted, on average */
};

static struct outcome predict_on(enum curve curve, uint64_t seed) {
    struct outcome seen = {0};
    random_state = seed;
    for (size_t m = 0; m < COUNT(maxima); ++m)
        for (int round = 0; round < 40; ++round) {
            struct device device = device_of(round % 4 == 0 ? 0 : base_bytes, 0);
            struct model_run run = run_of(&device, curve);
            give_room(&run, maxima[m], 1);
            const uint64_t truth = true_maximum(&run, 1, 100000);
            const sab_max_batch found = found_by(&run, SAB_SEARCH_PREDICT, SAB_OK);
            const int is_over = found.batch_size > truth,
                      is_out = found.out_of_memory > (truth == 1),
                      is_small = (double)found.batch_size < floor(0.97 * (double)truth);
            ++seen.searches;
            seen.over += is_over;
            seen.many += found.trials > 6;
            seen.ran_out += is_out;
            seen.too_small += is_small;
            seen.unmeasured += found.peak > (double)device.limit;
            seen.share += fmin(1, (double)found.batch_size / (double)truth);
        }
    seen.share /= seen.searches;
    return seen;
}

static void FindMaxBatch_OnALine_PredictsItsEndWithoutRunningOut(void) {
    const struct outcome seen = predict_on(LINE, 41);
    EXPECT(seen.over == 0 && seen.many == 0 && seen.unmeasured == 0);
    EXPECT(seen.ran_out == 0);
    EXPECT(seen.too_small == 0);
    EXPECT(seen.share > 0.99);
}

/* The largest of several lines: phases of a step. */
static void FindMaxBatch_OnKinkedLines_FindsWhatFits(void) {
    const struct outcome seen = predict_on(KINKED, 42);
    EXPECT(seen.over == 0 && seen.unmeasured == 0);
    EXPECT(seen.share > 0.99);
    /* where a kink lies in the way */
    EXPECT(seen.many < seen.searches / 20 && seen.ran_out < seen.searches / 20);
}

/* Curves that bend upwards all the way, or go by blocks of the allocator: nothing is said of
 * running out there. */
static void FindMaxBatch_OnOtherCurves_FindsWhatFits(void) {
    const struct outcome square = predict_on(QUADRATIC, 43), stepped = predict_on(STEPPED, 44);
    EXPECT(square.over == 0 && square.unmeasured == 0);
    EXPECT(stepped.over == 0 && stepped.unmeasured == 0);
    EXPECT(stepped.share > 0.9);
}

/* Memory that does not grow for long: a phase before the samples that takes much, or samples far
 * smaller than the allocator's blocks. */
static void FindMaxBatch_WhereMemoryIsFlatAtFirst_FindsTheEnd(void) {
    static const uint64_t ends[] = {30, 500, 2000, 10000, 70000};
    for (size_t m = 0; m < COUNT(ends); ++m)
        for (int share = 10; share <= 99; share += 1) {
            const int64_t limit = (int64_t)ends[m] * 1000 + 999;
            struct device flat = device_of(0, limit);
            struct model_run rising = {.device = &flat,
                                       .constants = {limit * share / 100, 0},
                                       .slopes = {0, 1000},
                                       .lines = 2,
                                       .fails_at = -1};
            const sab_max_batch found = found_by(&rising, SAB_SEARCH_PREDICT, SAB_OK);
            EXPECT((double)found.batch_size >= floor(0.97 * (double)ends[m]));
        }
    for (int64_t each = 50; each < 5000; each += 50) {
        struct device blocks = device_of(0, 20 * (2 << 20));
        struct model_run stepped = {
            .device = &blocks, .slopes = {each}, .lines = 1, .block = 2 << 20, .fails_at = -1};
        const uint64_t truth = true_maximum(&stepped, 1, 100000);
        const sab_max_batch found = found_by(&stepped, SAB_SEARCH_PREDICT, SAB_OK);
        EXPECT((double)found.batch_size >= floor(0.9 * (double)truth));
    }
}

/* A curve with room for its maximum. */
struct search {
    struct device device;
    struct model_run run;
    uint64_t truth;
};

static void begin_search(struct search *search, enum curve curve, uint64_t maximum) {
    search->device = device_of(base_bytes, 0);
    search->run = run_of(&search->device, curve);
    give_room(&search->run, maximum, 1);
    search->truth = true_maximum(&search->run, 1, 100000);
}

static void FindMaxBatch_ByBisection_IsExact(void) {
    random_state = 43;
    for (enum curve curve = LINE; curve < CURVES; ++curve)
        for (size_t m = 0; m < COUNT(maxima); ++m) {
            struct search search;
            begin_search(&search, curve, maxima[m]);
            const sab_max_batch found = found_by(&search.run, SAB_SEARCH_BINARY, SAB_OK);
            EXPECT(found.batch_size == search.truth && found.trials <= 17 &&
                   (search.truth == 100000 || found.out_of_memory >= 1));
            EXPECT(found.peak == (double)(base_bytes + bytes_of(&search.run, search.truth, 1)));
        }
}

static void FindMaxBatch_ByHalving_FindsTheFirstHalfThatFits(void) {
    random_state = 44;
    for (enum curve curve = LINE; curve < CURVES; ++curve)
        for (size_t m = 0; m < COUNT(maxima); ++m) {
            struct search search;
            begin_search(&search, curve, maxima[m]);
            uint64_t expected = 100000, halved = 0;
            for (; expected > search.truth; expected /= 2) ++halved;
            const sab_max_batch found = found_by(&search.run, SAB_SEARCH_HALVE, SAB_OK);
            EXPECT(found.batch_size == expected && found.out_of_memory == halved &&
                   found.trials == halved + 1);
            EXPECT(found.peak == (double)(base_bytes + bytes_of(&search.run, expected, 1)));
        }
}

static void FindMaxBatch_ByDifference_IsRightWhereMemoryIsAMultiple(void) {
    random_state = 45;
    for (size_t m = 0; m < COUNT(maxima); ++m) {
        struct device device = device_of(0, 0);
        struct model_run run = {
            .device = &device, .slopes = {1 + (int64_t)below(1000000)}, .lines = 1, .fails_at = -1};
        give_room(&run, maxima[m], 1);
        const sab_max_batch found = found_by(&run, SAB_SEARCH_DIFFERENCE, SAB_OK);
        EXPECT(found.batch_size == true_maximum(&run, 1, 100000) && found.trials == 2 &&
               found.out_of_memory == (maxima[m] == 1));
        EXPECT(found.peak == (double)(run.slopes[0] * (int64_t)found.batch_size));
    }
}

static void FindMaxBatch_WhenNotEvenOneFits_SaysSo(void) {
    for (sab_search search = SAB_SEARCH_PREDICT; search <= SAB_SEARCH_HALVE; ++search) {
        struct device device = device_of(base_bytes, base_bytes + 10);
        struct model_run run = {.device = &device, .slopes = {11}, .lines = 1, .fails_at = -1};
        sab_max_batch found = found_by(&run, search, SAB_E_DEVICE_MEMORY);
        EXPECT(found.batch_size == 0 &&
               strstr(sab_last_error_message(), "not enough memory even for a batch of one") !=
                   NULL);
        /* also where it does not run out but goes over the budget */
        device.limit = 0;
        sab_max_batch_options options = SAB_MAX_BATCH_OPTIONS_INIT;
        options.search = search;
        options.limit = base_bytes + 10;
        sab_probe *probe = probe_of(&device);
        EXPECT_FAILS(sab_max_batch_find(probe, trial, &run, &options, NULL, &found),
                     SAB_E_DEVICE_MEMORY, "not enough memory even for a batch of one");
        sab_probe_free(probe);
    }
}

/* A budget below what the device has, a least maximum, and what running is not needed for. */
/* The longest takes one sample only: that says nothing of the others. */
static void FindMaxBatch_AfterALengthThatTakesOne_LooksOn(void) {
    static const double given[] = {1000, 16};
    struct device device = device_of(0, 1000);
    struct model_run run = {
        .device = &device, .constants = {600}, .slopes = {1}, .lines = 1, .fails_at = -1};
    sab_max_batch_options options = SAB_MAX_BATCH_OPTIONS_INIT;
    sab_max_batch found = SAB_MAX_BATCH_INIT;
    uint64_t sizes[2] = {0};
    options.lengths = given;
    options.length_count = 2;
    device.limit = 1700;
    sab_probe *probe = probe_of(&device);
    EXPECT_OK(sab_max_batch_find(probe, trial, &run, &options, sizes, &found));
    EXPECT(sizes[0] == 1 && sizes[1] >= 66 && sizes[1] <= 68);
    sab_probe_free(probe);
}

static void FindMaxBatch_KeepsToBudgetAndMaximum(void) {
    for (sab_search search = SAB_SEARCH_PREDICT; search <= SAB_SEARCH_HALVE; ++search) {
        struct device device = device_of(0, 1000000);
        struct model_run run = {.device = &device, .slopes = {10}, .lines = 1, .fails_at = -1};
        sab_max_batch_options options = SAB_MAX_BATCH_OPTIONS_INIT;
        sab_max_batch found = SAB_MAX_BATCH_INIT;
        sab_probe *probe = probe_of(&device);
        options.search = search;
        options.limit = 10000;
        EXPECT_OK(sab_max_batch_find(probe, trial, &run, &options, NULL, &found));
        EXPECT(found.batch_size == (search == SAB_SEARCH_HALVE ? 781 : 1000) &&
               found.limit == 10000 && found.peak <= 10000);
        const uint64_t most[] = {1, 2, 3, 64};
        for (size_t i = 0; i < COUNT(most); ++i) {
            run.largest = 0;
            options.max_batch_size = most[i];
            EXPECT_OK(sab_max_batch_find(probe, trial, &run, &options, NULL, &found));
            EXPECT(found.batch_size == most[i] && run.largest <= most[i] &&
                   found.peak == 10 * (double)most[i]);
        }
        sab_probe_free(probe);
    }
}

static void FindMaxBatch_OfManyLengths_FindsEach(void) {
    static const double given[] = {64, 512, 128, 511, 512, 1, 300.5, 1000, 999};
    random_state = 46;
    for (int by = SAB_SEARCH_PREDICT; by <= SAB_SEARCH_BINARY; by += SAB_SEARCH_BINARY)
        for (enum curve curve = LINE; curve <= KINKED; ++curve)
            for (int round = 0; round < 60; ++round) {
                struct device device = device_of(base_bytes, 0);
                struct model_run run = run_of(&device, curve);
                give_room(&run, 2 + below(2000), 1000);
                sab_max_batch_options options = SAB_MAX_BATCH_OPTIONS_INIT;
                uint64_t sizes[COUNT(given)] = {0};
                sab_max_batch found = SAB_MAX_BATCH_INIT;
                options.search = by;
                options.lengths = given;
                options.length_count = COUNT(given);
                sab_probe *probe = probe_of(&device);
                EXPECT_OK(sab_max_batch_find(probe, trial, &run, &options, sizes, &found));
                /* that of the longest */
                EXPECT(found.batch_size == sizes[7] && found.trials == (uint64_t)run.trials);
                for (size_t i = 0; i < COUNT(given); ++i) {
                    const uint64_t truth = true_maximum(&run, given[i], 100000);
                    EXPECT(by == SAB_SEARCH_BINARY ? sizes[i] == truth : sizes[i] <= truth);
                    if (by == SAB_SEARCH_PREDICT && curve == LINE)
                        EXPECT((double)sizes[i] >= floor(0.97 * (double)truth));
                }
                if (by == SAB_SEARCH_PREDICT)
                    EXPECT(found.out_of_memory == 0 && found.trials <= 6 * COUNT(given));
                sab_probe_free(probe);
            }
}

static void FindMaxBatch_Rounds_Downwards(void) {
    const uint64_t maxima_of[] = {1, 7, 8, 9, 100, 1000};
    for (size_t i = 0; i < COUNT(maxima_of); ++i) {
        struct device device = device_of(0, 0);
        struct model_run run = {.device = &device, .slopes = {1000}, .lines = 1, .fails_at = -1};
        device.limit = 1000 * (int64_t)maxima_of[i];
        sab_max_batch_options options = SAB_MAX_BATCH_OPTIONS_INIT;
        sab_max_batch found = SAB_MAX_BATCH_INIT;
        uint64_t size = 0, power = 1;
        sab_probe *probe = probe_of(&device);
        options.search = SAB_SEARCH_BINARY;
        options.rounding = SAB_ROUND_POWER_OF_TWO;
        while (power * 2 <= maxima_of[i]) power *= 2;
        EXPECT_OK(sab_max_batch_find(probe, trial, &run, &options, &size, &found));
        EXPECT(size == power && found.batch_size == power && found.peak <= (double)device.limit);
        options.rounding = SAB_ROUND_MULTIPLE;
        options.multiple = 8;
        EXPECT_OK(sab_max_batch_find(probe, trial, &run, &options, &size, &found));
        EXPECT(size == (maxima_of[i] < 8 ? maxima_of[i] : maxima_of[i] / 8 * 8) &&
               found.batch_size == size);
        sab_probe_free(probe);
    }
}

static void FindMaxBatch_FailingTrial_GivesItsCodeAndTheRandomState(void) {
    const int32_t codes[] = {42, -1, SAB_END, 9999};
    for (sab_search search = SAB_SEARCH_PREDICT; search <= SAB_SEARCH_HALVE; ++search)
        for (size_t c = 0; c < COUNT(codes); ++c)
            for (int at = 1; at <= 2; ++at) {
                struct device device = device_of(0, 60000);
                struct model_run run = {
                    .device = &device, .slopes = {1}, .lines = 1, .fails_at = at, .code = codes[c]};
                const sab_max_batch found = found_by(&run, search, SAB_E_CALLBACK);
                EXPECT(sab_last_error_code() == codes[c] && run.trials == at &&
                       found.batch_size == 0);
            }
    struct device device = device_of(0, 100000);
    struct model_run run = {.device = &device, .slopes = {1}, .lines = 1, .fails_at = -1};
    sab_max_batch_options options = SAB_MAX_BATCH_OPTIONS_INIT;
    sab_max_batch found = SAB_MAX_BATCH_INIT;
    sab_probe *probe = probe_of(&device);
    uint64_t at = 1;
    options.search = SAB_SEARCH_BINARY;
    options.progress = cancel_at;
    options.progress_ctx = &at;
    EXPECT_FAILS(sab_max_batch_find(probe, trial, &run, &options, NULL, &found), SAB_E_CANCELLED,
                 "77");
    EXPECT(run.trials == 1 && device.rng == 1 && device.peak == device.held);
    sab_probe_free(probe);
}

static void FindMaxBatch_OfOptionsThatCannotBe_IsRefused(void) {
    struct device device = device_of(0, 100000);
    struct model_run run = {.device = &device, .slopes = {1}, .lines = 1, .fails_at = -1};
    const sab_max_batch_options good = SAB_MAX_BATCH_OPTIONS_INIT;
    sab_max_batch_options options = good;
    sab_max_batch found = SAB_MAX_BATCH_INIT;
    sab_probe *probe = probe_of(&device);
#define WITH(field, value, words)                                                    \
    do {                                                                             \
        options = good;                                                              \
        options.field = value;                                                       \
        EXPECT_FAILS(sab_max_batch_find(probe, trial, &run, &options, NULL, &found), \
                     SAB_E_ARGUMENT, words);                                         \
    } while (0)
    WITH(search, 4, "options.search = 4");
    WITH(search, -1, "options.search = -1");
    WITH(rounding, 3, "options.rounding = 3");
    WITH(rounding, SAB_ROUND_MULTIPLE, "options.multiple = 0");
    WITH(max_batch_size, UINT64_MAX, "options.max_batch_size = 18446744073709551615");
    WITH(limit, -1, "options.limit = -1");
    WITH(length_count, 1, "options.lengths = NULL");
#undef WITH
    const double wrong[] = {0, -1, NAN, INFINITY};
    for (size_t i = 0; i < COUNT(wrong); ++i) {
        options = good;
        options.lengths = &wrong[i];
        options.length_count = 1;
        EXPECT_FAILS(sab_max_batch_find(probe, trial, &run, &options, NULL, &found), SAB_E_ARGUMENT,
                     "options.lengths[0] = ");
    }
    EXPECT_FAILS(sab_max_batch_find(NULL, trial, &run, NULL, NULL, &found), SAB_E_ARGUMENT,
                 "probe = NULL");
    EXPECT_FAILS(sab_max_batch_find(probe, NULL, &run, NULL, NULL, &found), SAB_E_ARGUMENT,
                 "trial = NULL");
    EXPECT_FAILS(sab_max_batch_find(probe, trial, &run, NULL, NULL, NULL), SAB_E_ARGUMENT,
                 "result = NULL");
    sab_probe_free(probe);
    sab_probe_callbacks callbacks = callbacks_of(&device);
    callbacks.total = NULL; /* and no budget given */
    EXPECT_OK(sab_probe_callbacks_new(&callbacks, &probe));
    EXPECT_FAILS(sab_max_batch_find(probe, trial, &run, NULL, NULL, &found), SAB_E_ARGUMENT,
                 "options.limit = 0");
    EXPECT(run.trials == 0);
    sab_probe_free(probe);
}

struct searching_rank {
    struct meeting *meeting;
    struct device device;
    struct model_run run;
    sab_search search;
    sab_status status;
    int32_t code;
    sab_max_batch found;
};

static void *search_as_rank(void *argument) {
    struct searching_rank *rank = argument;
    sab_max_batch_options options = SAB_MAX_BATCH_OPTIONS_INIT;
    options.search = rank->search;
    options.reduce = leave_least;
    options.reduce_ctx = rank->meeting;
    const sab_probe_callbacks callbacks = callbacks_of(&rank->device);
    sab_probe *probe = NULL;
    sab_probe_callbacks_new(&callbacks, &probe);
    rank->found = (sab_max_batch)SAB_MAX_BATCH_INIT;
    rank->status = sab_max_batch_find(probe, trial, &rank->run, &options, NULL, &rank->found);
    rank->code = rank->status < 0 ? sab_last_error_code() : 0;
    sab_probe_free(probe);
    return NULL;
}

static void search_together(struct searching_rank *ranks, struct meeting *meeting,
                            sab_search search) {
    pthread_t threads[RANKS];
    for (int i = 0; i < RANKS; ++i) {
        ranks[i].meeting = meeting;
        ranks[i].search = search;
        ranks[i].run.device = &ranks[i].device;
        pthread_create(&threads[i], NULL, search_as_rank, &ranks[i]);
    }
    for (int i = 0; i < RANKS; ++i) pthread_join(threads[i], NULL);
}

static void FindMaxBatch_OnThreeRanks_GivesAllTheLeast(void) {
    random_state = 51;
    for (sab_search search = SAB_SEARCH_PREDICT; search <= SAB_SEARCH_HALVE; ++search)
        for (int round = 0; round < 20; ++round) {
            struct searching_rank ranks[RANKS];
            struct meeting meeting = meeting_of(RANKS);
            uint64_t least = 100000;
            int64_t budget = INT64_MAX;
            memset(ranks, 0, sizeof ranks);
            for (int i = 0; i < RANKS; ++i) {
                ranks[i].device = device_of(search == SAB_SEARCH_DIFFERENCE ? 0 : base_bytes, 0);
                ranks[i].run = run_of(&ranks[i].device, LINE);
                if (search == SAB_SEARCH_DIFFERENCE) ranks[i].run.constants[0] = 0;
                give_room(&ranks[i].run, 2 + below(5000), 1);
                budget = ranks[i].device.limit < budget ? ranks[i].device.limit : budget;
            }
            for (int i = 0; i < RANKS; ++i) { /* all keep to the least budget */
                struct device narrow = ranks[i].device;
                struct model_run run = ranks[i].run;
                narrow.limit = budget;
                run.device = &narrow;
                const uint64_t truth = true_maximum(&run, 1, 100000);
                least = truth < least ? truth : least;
            }
            search_together(ranks, &meeting, search);
            EXPECT(!meeting.is_lost);
            for (int i = 0; i < RANKS; ++i) {
                EXPECT(ranks[i].status == (least == 0 ? SAB_E_DEVICE_MEMORY : SAB_OK));
                EXPECT(ranks[i].run.trials == ranks[0].run.trials && ranks[i].device.rng == 1 &&
                       ranks[i].run.other_rng == 0);
                if (least == 0) continue;
                EXPECT(ranks[i].found.batch_size == ranks[0].found.batch_size &&
                       ranks[i].found.limit == budget);
                EXPECT(ranks[i].found.peak == ranks[0].found.peak &&
                       ranks[i].found.batch_size <= least);
                if (search == SAB_SEARCH_BINARY || search == SAB_SEARCH_DIFFERENCE)
                    EXPECT(ranks[i].found.batch_size == least);
                /* the worst rank's curve has kinks */
                if (search == SAB_SEARCH_PREDICT)
                    EXPECT((double)ranks[i].found.batch_size >= 0.8 * (double)least);
            }
        }
}

static void FindMaxBatch_OneRankFailing_EndsAll(void) {
    for (sab_search search = SAB_SEARCH_PREDICT; search <= SAB_SEARCH_HALVE; ++search)
        for (int at = 1; at <= 2; ++at) {
            struct searching_rank ranks[RANKS];
            struct meeting meeting = meeting_of(RANKS);
            memset(ranks, 0, sizeof ranks);
            for (int i = 0; i < RANKS; ++i) {
                ranks[i].device = device_of(0, 60000);
                ranks[i].run = (struct model_run){
                    .slopes = {1}, .lines = 1, .fails_at = i == 1 ? at : -1, .code = 42};
            }
            search_together(ranks, &meeting, search);
            EXPECT(!meeting.is_lost);
            for (int i = 0; i < RANKS; ++i) {
                EXPECT(ranks[i].status == (i == 1 ? SAB_E_CALLBACK : SAB_E_MISMATCH) &&
                       ranks[i].code == (i == 1 ? 42 : 0));
                EXPECT(ranks[i].run.trials == at && ranks[i].device.rng == 1);
            }
        }
}

static int32_t count_calls(void *ctx, int64_t *values, size_t count) {
    (void)values, (void)count;
    ++*(int *)ctx;
    return 0;
}

/* Once before the first step and once after each one, whatever fails on the way: or the other ranks
 * would wait for ever. */
static void FindMaxBatch_WhateverFails_MeetsTheOtherRanks(void) {
    for (int function = RESET; function <= RNG_SAVE; ++function)
        for (int time = 1; time <= 4; ++time) {
            struct device device = device_of(0, 60000);
            struct model_run run = {.device = &device, .slopes = {1}, .lines = 1, .fails_at = -1};
            device.fails_at[function] = time;
            sab_max_batch_options options = SAB_MAX_BATCH_OPTIONS_INIT;
            sab_max_batch found = SAB_MAX_BATCH_INIT;
            int meetings = 0;
            options.search = SAB_SEARCH_BINARY;
            options.reduce = count_calls;
            options.reduce_ctx = &meetings;
            sab_probe *probe = probe_of(&device);
            const sab_status status =
                sab_max_batch_find(probe, trial, &run, &options, NULL, &found);
            /* asked once only */
            EXPECT(status == SAB_E_CALLBACK ||
                   (time > 1 && (function == RNG_SAVE || function == CURRENT ||
                                 function == RESERVED || function == TOTAL)));
            EXPECT(status != SAB_E_CALLBACK || sab_last_error_code() == 42);
            /* before the first step */
            const int failed_before = status == SAB_E_CALLBACK && run.trials == 0 && meetings == 1;
            EXPECT(failed_before || meetings == 1 + run.trials || meetings == 2 + run.trials);
            EXPECT(meetings >= 1);
            sab_probe_free(probe);
        }
    /* a budget that cannot be known on this rank */
    struct device device = device_of(0, 60000);
    struct model_run run = {.device = &device, .slopes = {1}, .lines = 1, .fails_at = -1};
    sab_probe_callbacks callbacks = callbacks_of(&device);
    callbacks.total = NULL;
    sab_probe *probe = NULL;
    sab_max_batch found = SAB_MAX_BATCH_INIT;
    sab_max_batch_options options = SAB_MAX_BATCH_OPTIONS_INIT;
    int meetings = 0;
    options.reduce = count_calls;
    options.reduce_ctx = &meetings;
    EXPECT_OK(sab_probe_callbacks_new(&callbacks, &probe));
    EXPECT_FAILS(sab_max_batch_find(probe, trial, &run, &options, NULL, &found), SAB_E_ARGUMENT,
                 "options.limit = 0");
    EXPECT(meetings == 1);
    options.limit = -1; /* an argument that only this rank has wrong */
    EXPECT_FAILS(sab_max_batch_find(probe, trial, &run, &options, NULL, &found), SAB_E_ARGUMENT,
                 "options.limit = -1");
    EXPECT(meetings == 2);
    sab_probe_free(probe);
}

static int32_t failing_reduce(void *ctx, int64_t *values, size_t count) {
    (void)ctx, (void)values, (void)count;
    return 700; /* which the probe would take for work that ran out */
}

static void FindMaxBatch_FailingReduce_GivesItsCode(void) {
    struct device device = device_of(0, 60000);
    struct model_run run = {.device = &device, .slopes = {1}, .lines = 1, .fails_at = -1};
    sab_max_batch_options options = SAB_MAX_BATCH_OPTIONS_INIT;
    sab_max_batch found = SAB_MAX_BATCH_INIT;
    options.reduce = failing_reduce;
    sab_probe *probe = probe_of(&device);
    EXPECT_FAILS(sab_max_batch_find(probe, trial, &run, &options, NULL, &found), SAB_E_CALLBACK,
                 "reduce");
    EXPECT(sab_last_error_code() == 700 && run.trials == 0);
    sab_probe_free(probe);
}

int main(void) {
    RUN(FindMaxBatch_OnALine_PredictsItsEndWithoutRunningOut);
    RUN(FindMaxBatch_OnKinkedLines_FindsWhatFits);
    RUN(FindMaxBatch_OnOtherCurves_FindsWhatFits);
    RUN(FindMaxBatch_WhereMemoryIsFlatAtFirst_FindsTheEnd);
    RUN(FindMaxBatch_ByBisection_IsExact);
    RUN(FindMaxBatch_ByHalving_FindsTheFirstHalfThatFits);
    RUN(FindMaxBatch_ByDifference_IsRightWhereMemoryIsAMultiple);
    RUN(FindMaxBatch_WhenNotEvenOneFits_SaysSo);
    RUN(FindMaxBatch_AfterALengthThatTakesOne_LooksOn);
    RUN(FindMaxBatch_KeepsToBudgetAndMaximum);
    RUN(FindMaxBatch_OfManyLengths_FindsEach);
    RUN(FindMaxBatch_Rounds_Downwards);
    RUN(FindMaxBatch_FailingTrial_GivesItsCodeAndTheRandomState);
    RUN(FindMaxBatch_OfOptionsThatCannotBe_IsRefused);
    RUN(FindMaxBatch_OnThreeRanks_GivesAllTheLeast);
    RUN(FindMaxBatch_OneRankFailing_EndsAll);
    RUN(FindMaxBatch_WhateverFails_MeetsTheOtherRanks);
    RUN(FindMaxBatch_FailingReduce_GivesItsCode);
    return finish();
}
