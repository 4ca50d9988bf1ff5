/* Mixes: exact counts in each window and after any number of records, ends, states, refusals. */
#include <math.h>

#include "helpers.h"

enum { MOST_SOURCES = 9, MOST_ITEMS = 64, PER_SOURCE = 1000 };

/* The numbers from PER_SOURCE * source on. */
static sab_stream *source_of(int source, size_t count, int infinite) {
    int32_t items[MOST_ITEMS];
    for (size_t i = 0; i < count; ++i) items[i] = PER_SOURCE * source + (int32_t)i;
    sab_list_stream_options options = SAB_LIST_STREAM_OPTIONS_INIT;
    options.infinite = infinite;
    sab_stream *stream = NULL;
    EXPECT_OK(array_stream(items, sizeof *items, count, &options, &stream));
    return stream;
}

static sab_mix_stream_options by(const double *proportions, size_t count, uint64_t window,
                                 sab_mix_until until) {
    sab_mix_stream_options options = SAB_MIX_STREAM_OPTIONS_INIT;
    options.proportions = proportions;
    options.proportion_count = count;
    options.window = window;
    options.until = until;
    return options;
}

/* Sources without an end. */
static sab_stream *endless(const double *proportions, size_t count, uint64_t window) {
    sab_stream *sources[MOST_SOURCES], *stream = NULL;
    for (size_t i = 0; i < count; ++i) sources[i] = source_of((int)i, 3, 1);
    const sab_mix_stream_options options = by(proportions, count, window, SAB_MIX_UNTIL_FIRST);
    EXPECT_OK(sab_mix_stream_new(sources, count, &options, &stream));
    return stream;
}

/* Sources of 12, 5 and 9 records. */
static sab_stream *finite(sab_mix_until until) {
    static const double proportions[] = {5, 3, 2};
    sab_stream *sources[] = {source_of(0, 12, 0), source_of(1, 5, 0), source_of(2, 9, 0)},
               *stream = NULL;
    const sab_mix_stream_options options = by(proportions, 3, 10, until);
    EXPECT_OK(sab_mix_stream_new(sources, 3, &options, &stream));
    return stream;
}

/* The next number; -1 at the end. */
static int next(sab_stream *stream) {
    sab_record record = {0};
    const sab_status status = sab_stream_next(stream, &record);
    int32_t number = -1;
    EXPECT(status == SAB_OK || status == SAB_END);
    if (status == SAB_OK) memcpy(&number, record.data, sizeof number);
    return number;
}

static unsigned char state[1 << 12];
static size_t save(const sab_stream *stream) {
    size_t size = 0;
    EXPECT_OK(sab_stream_state_save(stream, state, sizeof state, &size));
    EXPECT(size > 0 && size <= sizeof state);
    return size;
}

/* Proportions */

static void Order_IsEvenAndNeverChanges(void) {
    static const double two_to_one[] = {2, 1}, tenths[] = {0.6, 0.3, 0.1};
    static const int by_two[] = {0, 1, 0, 0, 1, 0, 0, 1, 0},
                     by_tenths[] = {0, 1, 0, 0, 1, 0, 2, 0, 0, 1, 0, 1, 0, 0, 1, 0, 2, 0, 0, 1};
    sab_stream *stream = endless(two_to_one, 2, 3);
    for (size_t i = 0; i < COUNT(by_two); ++i) EXPECT(next(stream) / PER_SOURCE == by_two[i]);
    sab_stream_free(stream);
    stream = endless(tenths, 3, 10);
    for (size_t i = 0; i < COUNT(by_tenths); ++i) EXPECT(next(stream) / PER_SOURCE == by_tenths[i]);
    EXPECT_OK(sab_stream_rewind(stream));
    for (size_t i = 0; i < COUNT(by_tenths); ++i) EXPECT(next(stream) / PER_SOURCE == by_tenths[i]);
    sab_stream_free(stream);
}

static void EachSource_GivesItsRecordsInOrder(void) {
    static const double proportions[] = {1, 4, 2};
    sab_stream *stream = endless(proportions, 3, 7);
    int given[3] = {0, 0, 0};
    for (int i = 0; i < 100; ++i) {
        const int number = next(stream), source = number / PER_SOURCE;
        EXPECT(number % PER_SOURCE == given[source]++ % 3);
    }
    sab_stream_free(stream);
}

static void Window_HasExactlyWholeShares(void) {
    for (uint64_t seed = 1; seed <= 300 && failures_of_test == 0; ++seed) {
        random_state = seed;
        const size_t count = 1 + (size_t)below(MOST_SOURCES);
        uint64_t shares[MOST_SOURCES], window = 0;
        double proportions[MOST_SOURCES];
        for (size_t i = 0; i < count; ++i) window += shares[i] = i == 0 ? 1 + below(20) : below(20);
        /* decimals that are no binary fractions, such as 0.7, or whole numbers */
        const double unit = seed % 2 == 0 ? 1 : 0.1 / (double)window;
        for (size_t i = 0; i < count; ++i) proportions[i] = unit * (double)shares[i];
        sab_stream *stream = endless(proportions, count, window);
        for (int k = 0; k < 5; ++k) {
            uint64_t found[MOST_SOURCES] = {0};
            for (uint64_t i = 0; i < window; ++i) ++found[next(stream) / PER_SOURCE];
            EXPECT(memcmp(found, shares, count * sizeof *shares) == 0);
        }
        sab_stream_free(stream);
    }
}

static void Prefix_IsWithinOneRecordOfItsDue(void) {
    for (uint64_t seed = 1; seed <= 300 && failures_of_test == 0; ++seed) {
        random_state = seed;
        const size_t count = 1 + (size_t)below(MOST_SOURCES);
        double proportions[MOST_SOURCES], sum = 0;
        for (size_t i = 0; i < count; ++i) {
            proportions[i] = (double)(i == 0 ? 1 + below(1000) : below(1000));
            if (seed % 3 == 0) proportions[i] = pow(proportions[i], 5); /* very different ones */
            sum += proportions[i];
        }
        const uint64_t window = 1 + below(50);
        sab_stream *stream = endless(proportions, count, window);
        double found[MOST_SOURCES] = {0}, before[MOST_SOURCES] = {0};
        for (uint64_t n = 1; n <= 20 * window; ++n) {
            ++found[next(stream) / PER_SOURCE];
            for (size_t i = 0; i < count; ++i)
                EXPECT(fabs(found[i] - (double)n * proportions[i] / sum) < 1);
            if (n % window > 0) continue;
            for (size_t i = 0; i < count; ++i) {
                const double share = (double)window * proportions[i] / sum;
                EXPECT(fabs(found[i] - before[i] - share) < 2);
                before[i] = found[i];
            }
        }
        sab_stream_free(stream);
    }
}

static void SmallProportion_AppearsOverSuccessiveWindows(void) {
    static const double proportions[] = {0.9975, 0.0025, 0};
    sab_stream *stream = endless(proportions, 3, 100);
    int found[3] = {0};
    for (int k = 1; k <= 40; ++k) {
        for (int i = 0; i < 100; ++i) ++found[next(stream) / PER_SOURCE];
        if (k % 4 == 0) EXPECT(found[1] == k / 4);
    }
    EXPECT(found[0] == 3990 && found[1] == 10 && found[2] == 0); /* 0 is not read */
    sab_stream_free(stream);
}

static void ManySources_KeepTheirProportions(void) {
    enum { MANY = 1024 };
    static sab_stream *sources[MANY + 1];
    static double proportions[MANY + 1];
    static int found[MANY];
    for (int i = 0; i <= MANY; ++i) {
        sources[i] = source_of(i, 1, 1);
        proportions[i] = 1 + i % 3;
    }
    sab_mix_stream_options options = by(proportions, MANY + 1, 2047, SAB_MIX_UNTIL_FIRST);
    sab_stream *stream = NULL;
    EXPECT_FAILS(sab_mix_stream_new(sources, MANY + 1, &options, &stream), SAB_E_ARGUMENT,
                 "count = 1025: must be at most 1024");
    sab_stream_free(sources[MANY]);
    options.proportion_count = MANY;
    EXPECT_OK(sab_mix_stream_new(sources, MANY, &options, &stream)); /* the sum is 2047 */
    for (int i = 0; i < 2047; ++i) ++found[next(stream) / PER_SOURCE];
    for (int i = 0; i < MANY; ++i) EXPECT(found[i] == 1 + i % 3);
    sab_stream_free(stream);
}

static void BlockShuffle_KeepsTheCountsOfWindows(void) {
    static const double proportions[] = {7, 2, 1};
    sab_stream *stream = endless(proportions, 3, 20);
    EXPECT_OK(sab_shuffle_stream_new(stream, SAB_SHUFFLE_BLOCKS, 20, 5, &stream));
    for (int k = 0; k < 10; ++k) {
        int found[3] = {0};
        for (int i = 0; i < 20; ++i) ++found[next(stream) / PER_SOURCE];
        EXPECT(found[0] == 14 && found[1] == 4 && found[2] == 2);
    }
    sab_stream_free(stream);
}

/* Ends */

static void UntilFirst_EndsWithTheSourceWhoseTurnItIs(void) {
    static const int expected[] = {0, 1, 0, 2, 0, 1, 0, 2, 0, 1, 0, 1, 0, 2, 0, 1, 0, 2, 0};
    sab_stream *stream = finite(SAB_MIX_UNTIL_FIRST);
    for (size_t i = 0; i < COUNT(expected); ++i) EXPECT(next(stream) / PER_SOURCE == expected[i]);
    /* the sixth turn of the second source, which has five records */
    EXPECT(next(stream) == -1 && next(stream) == -1);
    sab_stream_free(stream);
}

static void UntilAll_GivesEachRecordOnce(void) {
    /* 0 and 2 by 5 to 2 from the end of 1 on; then only 2 */
    static const int after[] = {0, 2, 0, 2, 2, 2, 2};
    sab_stream *stream = finite(SAB_MIX_UNTIL_ALL);
    int found[3] = {0};
    for (int i = 0; i < 26; ++i) {
        const int number = next(stream), source = number / PER_SOURCE;
        EXPECT(number % PER_SOURCE == found[source]++);
        if (i >= 19) EXPECT(source == after[i - 19]);
    }
    EXPECT(found[0] == 12 && found[1] == 5 && found[2] == 9);
    EXPECT(next(stream) == -1 && next(stream) == -1);
    sab_stream_free(stream);
}

static void UntilAll_BeginsWindowsAgainAfterAnEnd(void) {
    static const double proportions[] = {5, 3, 2};
    sab_stream *sources[] = {source_of(0, 3, 1), source_of(1, 5, 0), source_of(2, 3, 1)},
               *stream = NULL;
    const sab_mix_stream_options options = by(proportions, 3, 14, SAB_MIX_UNTIL_ALL);
    EXPECT_OK(sab_mix_stream_new(sources, 3, &options, &stream));
    for (int i = 0; i < 19; ++i) next(stream);
    for (int k = 0; k < 5; ++k) {
        int found[3] = {0};
        for (int i = 0; i < 14; ++i) ++found[next(stream) / PER_SOURCE];
        EXPECT(found[0] == 10 && found[1] == 0 && found[2] == 4);
    }
    sab_stream_free(stream);
}

static void Source_WithoutAProportion_IsNotRead(void) {
    sab_stream *stream = NULL;
    static const double proportions[] = {0, 1};
    sab_stream *sources[] = {source_of(0, 3, 0), source_of(1, 3, 0)};
    const sab_mix_stream_options options = by(proportions, 2, 10, SAB_MIX_UNTIL_ALL);
    EXPECT_OK(sab_mix_stream_new(sources, 2, &options, &stream));
    for (int i = 0; i < 3; ++i) EXPECT(next(stream) == PER_SOURCE + i);
    EXPECT(next(stream) == -1);
    sab_stream_free(stream);
}

/* States */

static void SavedAnywhere_GoesOnTheSame(void) {
    for (int kind = 0; kind < 3; ++kind) {
        static const double proportions[] = {0.61, 0.3, 0.09};
        sab_stream *streams[2];
        for (int i = 0; i < 2; ++i)
            streams[i] = kind == 0   ? finite(SAB_MIX_UNTIL_FIRST)
                         : kind == 1 ? finite(SAB_MIX_UNTIL_ALL)
                                     : endless(proportions, 3, 7);
        for (int stop = 0; stop <= 30; ++stop) {
            EXPECT_OK(sab_stream_rewind(streams[0]));
            for (int i = 0; i < stop; ++i) next(streams[0]);
            const size_t size = save(streams[0]);
            EXPECT_OK(sab_stream_state_restore(streams[1], state, size));
            static unsigned char again[sizeof state];
            size_t same = 0;
            EXPECT_OK(sab_stream_state_save(streams[1], again, sizeof again, &same));
            EXPECT(same == size && memcmp(again, state, size) == 0);
            for (int i = stop; i < 60; ++i) EXPECT(next(streams[1]) == next(streams[0]));
        }
        for (int i = 0; i < 2; ++i) sab_stream_free(streams[i]);
    }
}

static void State_OfAnotherMix_IsRefused(void) {
    static const double one[] = {2, 1}, other[] = {1, 2}, three[] = {2, 1, 0};
    sab_stream *stream = endless(one, 2, 30);
    for (int i = 0; i < 4; ++i) next(stream);
    const size_t size = save(stream);
    sab_stream *sources[] = {source_of(0, 3, 1), source_of(1, 3, 1)}, *all = NULL;
    const sab_mix_stream_options options = by(one, 2, 30, SAB_MIX_UNTIL_ALL);
    EXPECT_OK(sab_mix_stream_new(sources, 2, &options, &all));
    sab_stream *others[] = {endless(other, 2, 30), endless(one, 2, 31), endless(three, 3, 30), all};
    for (size_t i = 0; i < COUNT(others); ++i) {
        EXPECT_FAILS(sab_stream_state_restore(others[i], state, size), SAB_E_MISMATCH,
                     "belongs to another pipeline: its streams or their options differ");
        EXPECT(next(others[i]) % PER_SOURCE == 0); /* at its beginning */
        sab_stream_free(others[i]);
    }
    EXPECT_OK(sab_stream_state_restore(stream, state, size));
    EXPECT(next(stream) == PER_SOURCE + 1); /* a, b, a, a, b, a */
    sab_stream_free(stream);
}

/* A source that fails at times. */
struct failing {
    int at, fails_at;
    int32_t number;
};
static int32_t give(void *ctx, sab_record *record) {
    struct failing *source = ctx;
    if (source->at == source->fails_at) {
        source->fails_at = -1;
        return 9;
    }
    source->number = PER_SOURCE + source->at++;
    record->data = &source->number;
    record->length = sizeof source->number;
    return 0;
}
static int32_t begin_again(void *ctx) {
    ((struct failing *)ctx)->at = 0;
    return 0;
}

static void Source_ThatFails_IsReadAgainInItsTurn(void) {
    struct failing source = {0, 3, 0};
    sab_source_functions functions = SAB_SOURCE_FUNCTIONS_INIT;
    functions.ctx = &source;
    functions.next = give;
    functions.rewind = begin_again;
    static const double proportions[] = {2, 1};
    sab_stream *sources[] = {source_of(0, 3, 1), NULL}, *stream = NULL;
    EXPECT_OK(sab_callback_stream_new(&functions, &sources[1]));
    const sab_mix_stream_options options = by(proportions, 2, 3, SAB_MIX_UNTIL_FIRST);
    EXPECT_OK(sab_mix_stream_new(sources, 2, &options, &stream));
    sab_stream *whole = endless(proportions, 2, 3);
    for (int i = 0; i < 30; ++i) {
        if (i == 10) { /* the fourth turn of the source */
            sab_record record = {0};
            EXPECT_FAILS(sab_stream_next(stream, &record), SAB_E_CALLBACK, "failed with code 9");
            const size_t size = save(stream);
            EXPECT_OK(sab_stream_state_restore(stream, state, size));
        }
        EXPECT(next(stream) / PER_SOURCE == next(whole) / PER_SOURCE);
    }
    EXPECT(source.at == 10);
    sab_stream_free(whole);
    sab_stream_free(stream);
}

static void Prefetch_OfAMix_GivesTheSame(void) {
    static const double proportions[] = {5, 3, 2};
    sab_stream *whole = endless(proportions, 3, 10), *stream = endless(proportions, 3, 10);
    EXPECT_OK(sab_prefetch_stream_new(stream, 7, &stream));
    for (int i = 0; i < 100; ++i) {
        EXPECT(next(stream) == next(whole));
        if (i % 30 == 0) {
            const size_t size = save(stream);
            EXPECT_OK(sab_stream_state_restore(stream, state, size));
        }
    }
    sab_stream_free(whole);
    sab_stream_free(stream);
}

/* Refusals */

static void Options_ThatCannotBe_AreRefusedAndTheSourcesStay(void) {
    sab_mix_stream_options options = SAB_MIX_STREAM_OPTIONS_INIT;
    sab_stream *one = source_of(0, 5, 0), *sources[] = {one, source_of(1, 5, 0)},
               *twice[] = {one, one}, *missing[] = {one, NULL}, *stream = NULL;
#define REFUSED(given, expected) \
    EXPECT_FAILS(sab_mix_stream_new(sources, 2, given, &stream), SAB_E_ARGUMENT, expected)
    REFUSED(NULL, "options = NULL");
    REFUSED(&options, "options.proportion_count = 0: must be the number of sources, 2");
    options.proportion_count = 2;
    REFUSED(&options, "options.proportions = NULL");
    static const struct {
        double proportions[2];
        const char *expected;
    } bad[] = {
        {{1, -0.5}, "options.proportions[1] = -0.5: must be finite and not negative"},
        {{NAN, 1}, "options.proportions[0] = nan: must be finite and not negative"},
        {{1, INFINITY}, "options.proportions[1] = inf: must be finite and not negative"},
        {{1e308, 1e308}, "options.proportions: their sum is inf: must be finite"},
        {{0, 0}, "options.proportions: their sum is 0: must be above 0"},
        {{1, 1e-15}, "options.proportions[1] = 1e-15: must be 0 or at least their sum / 2^39"},
    };
    for (size_t i = 0; i < COUNT(bad); ++i) {
        options = by(bad[i].proportions, 2, 10, SAB_MIX_UNTIL_FIRST);
        REFUSED(&options, bad[i].expected);
    }
    static const double good[] = {1, 2, 3};
    options = by(good, 3, 10, SAB_MIX_UNTIL_FIRST);
    REFUSED(&options, "options.proportion_count = 3: must be the number of sources, 2");
    options = by(good, 2, (UINT64_C(1) << 32) + 1, SAB_MIX_UNTIL_FIRST);
    REFUSED(&options, "options.window = 4294967297: must be from 1 to 2^32");
    options = by(good, 2, 10, 2);
    REFUSED(&options, "options.until = 2: must be SAB_MIX_UNTIL_FIRST (0) or SAB_MIX_UNTIL_ALL");
    options = by(good, 2, 10, SAB_MIX_UNTIL_FIRST);
    EXPECT_FAILS(sab_mix_stream_new(sources, 2, &options, NULL), SAB_E_ARGUMENT, "stream = NULL");
    EXPECT_FAILS(sab_mix_stream_new(sources, 0, &options, &stream), SAB_E_ARGUMENT, "count = 0");
    EXPECT_FAILS(sab_mix_stream_new(NULL, 2, &options, &stream), SAB_E_ARGUMENT, "sources = NULL");
    EXPECT_FAILS(sab_mix_stream_new(twice, 2, &options, &stream), SAB_E_ARGUMENT,
                 "a stream is given twice");
    EXPECT_FAILS(sab_mix_stream_new(missing, 2, &options, &stream), SAB_E_ARGUMENT,
                 "sources[1] = NULL");
    EXPECT(stream == NULL && next(sources[0]) == 0 && next(sources[1]) == PER_SOURCE);
    for (int limit = 0; limit < 2; ++limit) {
        options = by(good, 2, UINT64_C(1) << (32 * limit), SAB_MIX_UNTIL_FIRST);
        EXPECT_OK(sab_mix_stream_new(sources, 2, &options, &stream));
        EXPECT(next(stream) == PER_SOURCE + 1);
        sab_stream_free(stream);
        for (int i = 0; i < 2; ++i) sources[i] = source_of(i, 5, 0);
        for (int i = 0; i < 2; ++i) next(sources[i]);
    }
    for (int i = 0; i < 2; ++i) sab_stream_free(sources[i]);
}

int main(void) {
    RUN(Order_IsEvenAndNeverChanges);
    RUN(EachSource_GivesItsRecordsInOrder);
    RUN(Window_HasExactlyWholeShares);
    RUN(Prefix_IsWithinOneRecordOfItsDue);
    RUN(SmallProportion_AppearsOverSuccessiveWindows);
    RUN(ManySources_KeepTheirProportions);
    RUN(BlockShuffle_KeepsTheCountsOfWindows);
    RUN(UntilFirst_EndsWithTheSourceWhoseTurnItIs);
    RUN(UntilAll_GivesEachRecordOnce);
    RUN(UntilAll_BeginsWindowsAgainAfterAnEnd);
    RUN(Source_WithoutAProportion_IsNotRead);
    RUN(SavedAnywhere_GoesOnTheSame);
    RUN(State_OfAnotherMix_IsRefused);
    RUN(Source_ThatFails_IsReadAgainInItsTurn);
    RUN(Prefetch_OfAMix_GivesTheSame);
    RUN(Options_ThatCannotBe_AreRefusedAndTheSourcesStay);
    return finish();
}
