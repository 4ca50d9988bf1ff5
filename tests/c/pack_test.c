/* Packing: which bins come out, that a textbook would give the same, and that they walk as every
 * other order does. */
#include <math.h>
#include <stdlib.h>

#include "helpers.h"
#include "one.h"

static sab_packed_options into(uint64_t capacity) {
    sab_packed_options pack = SAB_PACKED_OPTIONS_INIT;
    pack.capacities = one_count(capacity), pack.capacity_count = 1;
    return pack;
}

static sab_sampler *packed(const int32_t *numbers, size_t count, const sab_packed_options *pack,
                           const sab_sampler_options *options) {
    sab_sizes *sizes = sizes_of(numbers, count);
    sab_sampler *sampler = NULL;
    EXPECT_OK(sab_packed_sampler_new(sizes, pack, options, &sampler));
    sab_sizes_free(sizes);
    return sampler;
}

static sab_sampler_options of_rank(uint64_t rank, uint64_t world_size) {
    sab_sampler_options options = SAB_SAMPLER_OPTIONS_INIT;
    options.rank = rank;
    options.world_size = world_size;
    options.seed = 7;
    return options;
}

static sab_packed_info info_of(const sab_sampler *sampler) {
    sab_packed_info info = SAB_PACKED_INFO_INIT;
    EXPECT_OK(sab_packed_sampler_get_info(sampler, &info));
    return info;
}

static int ascending(const void *a, const void *b) {
    const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

/* Numbers that look random, the same everywhere. */
static uint32_t drawn(void) {
    static uint32_t x = 1;
    x = x * 1664525u + 1013904223u;
    return x >> 8;
}

/* Lengths of 1 to `most`, many short and few long, some of them 0. */
static void draw_lengths(int32_t *numbers, size_t count, uint32_t most) {
    for (size_t i = 0; i < count; ++i)
        numbers[i] = drawn() % 50 == 0 ? 0 : (int32_t)(1 + drawn() % (1 + drawn() % most));
}

static int descending(const void *a, const void *b) {
    return ascending(b, a);
}

/* The lengths of each bin of the epoch as "5+3 4"; bins sorted by their text. */
static const char *bins_of(sab_sampler *sampler) {
    static char bins[64][64], text[4096];
    sab_batch batch = SAB_BATCH_INIT;
    size_t count = 0;
    while (count < 64 && sab_next_batch(sampler, &batch) == SAB_OK) {
        char *end = bins[count++];
        const int32_t *cu_seqlens = cu_seqlens_of(sampler);
        int32_t of_bin[64];
        EXPECT(batch.count <= COUNT(of_bin));
        for (uint64_t i = 0; i < batch.count; ++i) of_bin[i] = cu_seqlens[i + 1] - cu_seqlens[i];
        qsort(of_bin, batch.count, sizeof *of_bin, descending);
        for (uint64_t i = 0; i < batch.count; ++i)
            end += sprintf(end, i == 0 ? "%d" : "+%d", of_bin[i]);
    }
    qsort(bins, count, sizeof *bins, (int (*)(const void *, const void *))strcmp);
    char *end = text;
    *end = '\0';
    for (size_t i = 0; i < count; ++i) end += sprintf(end, i == 0 ? "%s" : " %s", bins[i]);
    return text;
}

#define EXPECT_BINS(numbers, pack, expected)                                       \
    do {                                                                           \
        sab_sampler *sampler_ = packed(numbers, COUNT(numbers), pack, NULL);       \
        const char *got_ = bins_of(sampler_);                                      \
        EXPECT(strcmp(got_, expected) == 0 ||                                      \
               (fprintf(stderr, "%s:%d: has %s\n", __FILE__, __LINE__, got_), 0)); \
        sab_sampler_free(sampler_);                                                \
    } while (0)

/* Which bins */

static void BestFit_TakesTheFullestBinWithRoom(void) {
    const int32_t numbers[] = {2, 5, 3, 3, 7, 4, 6};
    sab_packed_options pack = into(10);
    pack.method = SAB_PACK_BEST_FIT;
    EXPECT_BINS(numbers, &pack, "5+3+2 6+4 7+3"); /* 7; 6; 5; 4 to 6; 3 to 7; 3 to 5; 2 to 5+3 */
}

static void Histogram_TakesTheEmptiestBinWithRoom(void) {
    const int32_t numbers[] = {7, 6, 3, 2};
    sab_packed_options pack = into(10);
    pack.method = SAB_PACK_BEST_FIT;
    EXPECT_BINS(numbers, &pack, "6+2 7+3");
    pack.method = SAB_PACK_HISTOGRAM;
    EXPECT_BINS(numbers, &pack, "6+3 7+2");
    const int32_t spread[] = {6, 5, 1, 1, 1};
    EXPECT_BINS(spread, &pack, "5+1+1 6+1"); /* 1 to 5, which is then as full as 6 */
    pack.method = SAB_PACK_BEST_FIT;
    EXPECT_BINS(spread, &pack, "5 6+1+1+1");
    const int32_t halves[] = {5, 5, 5, 5, 5};
    pack.method = SAB_PACK_HISTOGRAM;
    EXPECT_BINS(halves, &pack, "5 5+5 5+5"); /* a bin is opened only where none has room */
}

static void MaxSequences_LimitsEveryMethod(void) {
    const int32_t numbers[] = {1, 1, 1, 1, 1, 0, 0};
    for (int32_t method = SAB_PACK_SHUFFLED; method <= SAB_PACK_HISTOGRAM; ++method) {
        sab_packed_options pack = into(10);
        pack.method = method;
        pack.max_sequences = 3;
        if (method != SAB_PACK_SHUFFLED) EXPECT_BINS(numbers, &pack, "0 1+1+0 1+1+1");
        sab_sampler *sampler = packed(numbers, 7, &pack, NULL);
        EXPECT(info_of(sampler).most_sequences == 3 && info_of(sampler).lower_bound == 3 &&
               info_of(sampler).bins == 3);
        sab_sampler_free(sampler);
        pack.max_sequences = 1;
        EXPECT_BINS(numbers, &pack, "0 0 1 1 1 1 1");
        pack.max_sequences = 0;
        EXPECT_BINS(numbers, &pack, "1+1+1+1+1+0+0");
    }
}

/* Kinds of lengths: many short ones, two kinds, uniform ones, a few sizes, nearly equal ones,
 * uniform up to the capacity, a little more and less than half of it. */
static void draw_kind(int kind, int32_t *numbers, size_t count) {
    static const int32_t few[] = {37, 64, 128, 200, 333};
    for (size_t i = 0; i < count; ++i) {
        const int32_t kinds[] = {
            (int32_t)(1 + drawn() % (1 + drawn() % (1 + drawn() % 2048))),
            (int32_t)(drawn() % 50 == 0 ? 1000 + drawn() % 1049 : 10 + drawn() % 30),
            (int32_t)(1 + drawn() % 600),
            few[drawn() % COUNT(few)],
            (int32_t)(500 + drawn() % 7),
            (int32_t)(1 + drawn() % 2048),
            (int32_t)(1004 + drawn() % 41),
        };
        numbers[i] = kinds[kind];
    }
}

static void Shuffled_HasFewRows(void) {
    enum { count = 20000 };
    static int32_t numbers[count];
    for (int kind = 0; kind < 7; ++kind) {
        draw_kind(kind, numbers, count);
        sab_packed_options pack = into(2048);
        sab_sampler *sampler = packed(numbers, count, &pack, NULL);
        pack.method = SAB_PACK_BEST_FIT;
        sab_sampler *best_fit = packed(numbers, count, &pack, NULL);
        uint64_t most = info_of(sampler).lower_bound;
        if (info_of(best_fit).bins > most + most / 1000) most = info_of(best_fit).bins;
        EXPECT(info_of(sampler).lower_bound == info_of(best_fit).lower_bound);
        for (uint64_t epoch = 0; epoch < 3; ++epoch) {
            EXPECT_OK(sab_sampler_set_epoch(sampler, epoch));
            EXPECT(info_of(sampler).bins <= most + most / 1000);
        }
        sab_sampler_free(sampler);
        sab_sampler_free(best_fit);
    }
}

static sab_balanced_report report_of(sab_sampler *sampler) {
    sab_balanced_report report = SAB_BALANCED_REPORT_INIT;
    EXPECT_OK(sab_balanced_sampler_get_report(sampler, NULL, &report));
    return report;
}

static void Shuffled_MixesLengths(void) {
    enum { count = 20000 };
    static int32_t numbers[count];
    for (int kind = 0; kind < 3; ++kind) {
        draw_kind(kind, numbers, count);
        sab_packed_options pack = into(2048);
        sab_sampler *sampler = packed(numbers, count, &pack, NULL);
        double again = 0, at_random = 0, deviation = 0, random_deviation = 0;
        for (uint64_t epoch = 0; epoch < 8; ++epoch) {
            EXPECT_OK(sab_sampler_set_epoch(sampler, epoch));
            const sab_balanced_report report = report_of(sampler);
            again += report.meet_again;
            at_random += report.random_meet_again;
            deviation += report.length_deviation;
            random_deviation += report.random_length_deviation;
        }
        EXPECT(at_random > 0 && again <= 1.5 * at_random);
        EXPECT(random_deviation > 0 && deviation <= 1.2 * random_deviation);
        sab_sampler_free(sampler);
        pack.method = SAB_PACK_BEST_FIT;
        sampler = packed(numbers, count, &pack, NULL);
        const sab_balanced_report report = report_of(sampler);
        EXPECT(report.meet_again > 3 * report.random_meet_again);
        EXPECT(kind > 0 || report.length_deviation > 1.2 * report.random_length_deviation);
        sab_sampler_free(sampler);
    }
}

static void Shuffled_SamplesThatFitIntoARow_AreOne(void) {
    static int32_t numbers[5000];
    draw_lengths(numbers, COUNT(numbers), 300);
    uint64_t total = 0;
    for (size_t i = 0; i < COUNT(numbers); ++i) total += (uint64_t)numbers[i];
    for (uint64_t window = 0; window < 4; ++window) {
        sab_packed_options pack = into(total);
        pack.window = window;
        sab_sampler *sampler = packed(numbers, COUNT(numbers), &pack, NULL);
        EXPECT(info_of(sampler).bins == 1);
        sab_sampler_free(sampler);
    }
}

static void Histogram_WastesLittleUnderALimit(void) {
    static int32_t numbers[12000];
    /* three fit by number, 50 and two of 25 by tokens */
    for (int i = 0; i < 12000; ++i) numbers[i] = i % 3 == 0 ? 50 : 25;
    sab_packed_options pack = into(100);
    pack.max_sequences = 3;
    sab_sampler *shuffled = packed(numbers, 12000, &pack, NULL);
    EXPECT(info_of(shuffled).bins <= 4004);
    sab_sampler_free(shuffled);
    pack.method = SAB_PACK_BEST_FIT;
    sab_sampler *best = packed(numbers, 12000, &pack, NULL);
    pack.method = SAB_PACK_HISTOGRAM;
    sab_sampler *histogram = packed(numbers, 12000, &pack, NULL);
    EXPECT(info_of(histogram).bins == 4000 && info_of(histogram).lower_bound == 4000 &&
           info_of(best).bins == 2000 + 2667);
    sab_sampler_free(best);
    sab_sampler_free(histogram);
}

static void EmptySamples_TakeNoRoom(void) {
    const int32_t numbers[] = {0, 0, 0};
    for (int32_t method = SAB_PACK_SHUFFLED; method <= SAB_PACK_HISTOGRAM; ++method) {
        sab_packed_options pack = into(1);
        pack.method = method;
        EXPECT_BINS(numbers, &pack, "0+0+0");
    }
}

static void Split_GivesFullPiecesAndARemainder(void) {
    const int32_t numbers[] = {25, 4, 20, 10, 9};
    for (int32_t method = SAB_PACK_SHUFFLED; method <= SAB_PACK_HISTOGRAM; ++method) {
        sab_packed_options pack = into(10);
        pack.method = method;
        pack.split = 1;
        EXPECT_BINS(numbers, &pack, "10 10 10 10 10 5+4 9");
        sab_sampler *sampler = packed(numbers, 5, &pack, NULL);
        const sab_packed_info info = info_of(sampler);
        EXPECT(info.samples == 5 && info.split == 2 && info.sequences == 8 && info.bins == 7 &&
               info.lower_bound == 7 && info.total == 68);
        int seen[5][25] = {{0}};
        sab_batch batch = SAB_BATCH_INIT;
        while (sab_next_batch(sampler, &batch) == SAB_OK) {
            const sab_rows rows = rows_of(sampler);
            for (uint64_t i = 0; i < batch.count; ++i)
                for (int32_t at = 0; at < rows.cu_seqlens[0][i + 1] - rows.cu_seqlens[0][i]; ++at)
                    ++seen[batch.indices[i]][rows.starts[i] + at];
        }
        for (int s = 0; s < 5; ++s)
            for (int at = 0; at < 25; ++at) EXPECT(seen[s][at] == (at < numbers[s]));
        sab_sampler_free(sampler);
    }
}

static void Batch_IsOneRowOfTheCapacity(void) {
    const int32_t numbers[] = {3, 5, 2};
    sab_packed_options pack = into(12);
    pack.method = SAB_PACK_BEST_FIT;
    sab_sampler *sampler = packed(numbers, 3, &pack, NULL);
    sab_batch batch = SAB_BATCH_INIT;
    EXPECT_OK(sab_next_batch(sampler, &batch));
    /* longest first */
    EXPECT(batch.count == 3 && batch.indices[0] == 1 && batch.indices[1] == 0 &&
           batch.indices[2] == 2);
    const sab_rows rows = rows_of(sampler);
    const int32_t *cu_seqlens = rows.cu_seqlens[0];
    EXPECT(cu_seqlens[0] == 0 && cu_seqlens[1] == 5 && cu_seqlens[2] == 8 && cu_seqlens[3] == 10);
    EXPECT(batch.layout == SAB_LAYOUT_ROW && rows.starts == NULL && *rows.capacity == 12);
    EXPECT(*batch.longest == 5 && *batch.total == 10 && *batch.padded_length == 12 &&
           padded_total(&batch) == 12 && batch.bucket == -1);
    const sab_step step = step_of(sampler);
    EXPECT(step.micro_batches == 1 && step.samples == 3 && *step.totals == 10);
    const sab_packed_info info = info_of(sampler);
    EXPECT(info.bins == 1 && info.fill == 10 / 12.0 && info.lower_bound == 1 &&
           info.sequences == 3 && info.skipped == 0 && info.split == 0);
    sab_sampler_free(sampler);
}

static void LowerBound_KnowsThatLongSequencesStandAlone(void) {
    const int32_t numbers[] = {6, 6, 6, 6};
    sab_packed_options pack = into(10);
    sab_sampler *sampler = packed(numbers, 4, &pack, NULL);
    EXPECT(info_of(sampler).lower_bound == 4); /* although 24 tokens are 3 bins */
    sab_sampler_free(sampler);
    /* 8 and 8 leave no room for 3, of which only one fits to 6 */
    const int32_t tight[] = {8, 8, 3, 3, 6};
    sampler = packed(tight, 5, &pack, NULL);
    EXPECT(info_of(sampler).lower_bound == 4 && info_of(sampler).bins == 4);
    sab_sampler_free(sampler);
}

/* Against a textbook: samples one by one, longest first, into the bin that is fullest (or
 * emptiest); ties by most (fewest) sequences. */

struct plain_bin {
    int32_t room;
    uint32_t sequences;
};

static size_t plainly(int32_t *numbers, size_t count, const sab_packed_options *pack,
                      struct plain_bin *bins) {
    const int best_fit = pack->method == SAB_PACK_BEST_FIT;
    size_t opened = 0;
    qsort(numbers, count, sizeof *numbers, ascending);
    for (size_t i = count; i-- > 0;) {
        struct plain_bin *found = NULL;
        for (struct plain_bin *bin = bins; bin < bins + opened; ++bin) {
            if (bin->room < numbers[i] ||
                (pack->max_sequences > 0 && bin->sequences == pack->max_sequences))
                continue;
            const int fuller = found == NULL || bin->room < found->room ||
                               (bin->room == found->room && bin->sequences > found->sequences);
            const int emptier = found == NULL || bin->room > found->room ||
                                (bin->room == found->room && bin->sequences < found->sequences);
            if (best_fit ? fuller : emptier) found = bin;
        }
        if (found == NULL) {
            found = bins + opened++;
            *found = (struct plain_bin){(int32_t)pack->capacities[0], 0};
        }
        found->room -= numbers[i];
        ++found->sequences;
    }
    return opened;
}

static int by_room(const void *a, const void *b) {
    const struct plain_bin *x = a, *y = b;
    return x->room != y->room ? (x->room > y->room) - (x->room < y->room)
                              : (x->sequences > y->sequences) - (x->sequences < y->sequences);
}

static void Bins_AreThoseOfATextbook(void) {
    static int32_t numbers[2000];
    static struct plain_bin expected[2000], got[2000];
    for (int round = 0; round < ROUNDS_OF(300); ++round) {
        const size_t count = 1 + drawn() % (round < 250 ? 200 : 2000);
        sab_packed_options pack = into(1 + drawn() % 200);
        pack.method = round % 3 == 0 ? SAB_PACK_HISTOGRAM : SAB_PACK_BEST_FIT;
        pack.max_sequences = round % 2 == 0 ? 0 : 1 + drawn() % 8;
        draw_lengths(numbers, count, 1 + drawn() % (uint32_t)pack.capacities[0]);
        sab_sampler *sampler = packed(numbers, count, &pack, NULL);
        const size_t bins = plainly(numbers, count, &pack, expected);
        const sab_packed_info info = info_of(sampler);
        const int is_better =
            pack.method == SAB_PACK_HISTOGRAM && pack.max_sequences > 0 && info.bins < bins;
        EXPECT((info.bins == bins || is_better) && info.lower_bound <= info.bins);
        sab_batch batch = SAB_BATCH_INIT;
        for (size_t i = 0; i < bins && sab_next_batch(sampler, &batch) == SAB_OK; ++i)
            got[i] = (struct plain_bin){(int32_t)pack.capacities[0] - (int32_t)*batch.total,
                                        (uint32_t)batch.count};
        qsort(expected, bins, sizeof *expected, by_room);
        qsort(got, bins, sizeof *got, by_room);
        /* Where a bin took equal ones while another became as empty, histogram packing has a
         * choice. */
        if (pack.method != SAB_PACK_HISTOGRAM)
            EXPECT(memcmp(expected, got, bins * sizeof *got) == 0);
        sab_sampler_free(sampler);
    }
}

/* How they are walked */

/* Every token of every sample once over all ranks, in as many steps on each, no bin over the
 * capacity; gives the steps. */
static uint64_t check_epoch(const int32_t *numbers, size_t count, const sab_packed_options *pack,
                            uint64_t world_size) {
    sab_sizes *sizes = sizes_of(numbers, count);
    int64_t *tokens = calloc(count, sizeof *tokens);
    int *times = calloc(count, sizeof *times);
    uint64_t steps = 0;
    for (uint64_t rank = 0; rank < world_size; ++rank) {
        const sab_sampler_options options = of_rank(rank, world_size);
        sab_sampler *sampler = NULL;
        EXPECT_OK(sab_packed_sampler_new(sizes, pack, &options, &sampler));
        sab_batch batch = SAB_BATCH_INIT;
        uint64_t own = 0;
        while (sab_next_batch(sampler, &batch) == SAB_OK) {
            ++own;
            const sab_rows rows = rows_of(sampler);
            const int32_t *cu_seqlens = rows.cu_seqlens[0];
            EXPECT(cu_seqlens[0] == 0 && *batch.total == cu_seqlens[batch.count]);
            EXPECT(*batch.total <= (double)pack->capacities[0] &&
                   (pack->max_sequences == 0 || batch.count <= pack->max_sequences));
            EXPECT((rows.starts != NULL) == pack->split &&
                   *step_of(sampler).totals >= *batch.total);
            EXPECT(padded_total(&batch) == (batch.count > 0 ? (double)pack->capacities[0] : 0));
            for (uint64_t i = 0; i < batch.count; ++i) {
                tokens[batch.indices[i]] += cu_seqlens[i + 1] - cu_seqlens[i];
                ++times[batch.indices[i]];
            }
        }
        uint64_t expected = 0;
        EXPECT_OK(sab_sampler_get_batch_count(sampler, &expected));
        EXPECT(own == expected && (rank == 0 || own == steps));
        steps = own;
        sab_sampler_free(sampler);
    }
    for (size_t i = 0; i < count; ++i) {
        const int32_t pieces = numbers[i] == 0
                                   ? 1
                                   : (int32_t)((numbers[i] + (int64_t)pack->capacities[0] - 1) /
                                               (int64_t)pack->capacities[0]);
        EXPECT(tokens[i] == numbers[i] && times[i] == pieces);
    }
    free(tokens);
    free(times);
    sab_sizes_free(sizes);
    return steps;
}

static void Epoch_HasEverySampleOnceOverAllRanks(void) {
    static int32_t numbers[1000];
    for (int round = 0; round < ROUNDS_OF(60); ++round) {
        sab_packed_options pack = into(1 + drawn() % 300);
        pack.method = round % 3;
        pack.split = round % 2;
        if (pack.method == SAB_PACK_SHUFFLED) {
            pack.window = 1 + drawn() % 20;
            pack.tries = drawn() % 3;
        }
        pack.max_sequences = round % 4 == 3 ? 1 + drawn() % 5 : 0;
        const size_t count = 1 + drawn() % 1000;
        draw_lengths(numbers, count, pack.split ? 900 : (uint32_t)pack.capacities[0]);
        check_epoch(numbers, count, &pack, 1 + (uint64_t)round % 5);
    }
    draw_lengths(numbers, 5, 3); /* more ranks than samples: some get empty shares */
    sab_packed_options pack = into(100);
    EXPECT(check_epoch(numbers, 5, &pack, 9) == 1);
    pack.split = 1;
    EXPECT(check_epoch(numbers, 5, &pack, 9) == 1);
}

static void Steps_CostNearlyTheSameOnAllRanks(void) {
    enum { count = 20000, ranks = 4 };
    static int32_t numbers[count];
    draw_lengths(numbers, count, 1000);
    const sab_packed_options pack = into(1000);
    sab_sampler *samplers[ranks];
    for (uint64_t rank = 0; rank < ranks; ++rank) {
        const sab_sampler_options options = of_rank(rank, ranks);
        samplers[rank] = packed(numbers, count, &pack, &options);
    }
    uint64_t steps = 0;
    EXPECT_OK(sab_sampler_get_batch_count(samplers[0], &steps));
    double costliest_sum = 0, mean_sum = 0;
    for (uint64_t step = 0; step + 1 < steps; ++step) {
        double costliest = 0, sum = 0;
        for (int rank = 0; rank < ranks; ++rank) {
            sab_batch batch = SAB_BATCH_INIT;
            EXPECT_OK(sab_next_batch(samplers[rank], &batch));
            double cost = 0;
            const int32_t *cu_seqlens = cu_seqlens_of(samplers[rank]);
            for (uint64_t i = 0; i < batch.count; ++i) {
                const double length = cu_seqlens[i + 1] - cu_seqlens[i];
                cost += length * length;
            }
            sum += cost;
            if (cost > costliest) costliest = cost;
        }
        costliest_sum += costliest;
        mean_sum += sum / ranks;
    }
    EXPECT(mean_sum > 0.95 * costliest_sum);
    for (int rank = 0; rank < ranks; ++rank) sab_sampler_free(samplers[rank]);
}

static int32_t count_calls(void *ctx, uint64_t count, const double *lengths, const double *totals,
                           size_t columns, double *cost) {
    (void)lengths, (void)columns;
    *cost = 1;
    ++*(int *)ctx;
    return count == 1 && totals[0] == lengths[0] ? 0 : 5;
}

/* With a cost of 1 a sequence, the costliest bins are those with most sequences. */
static void Balance_SaysWhatABinCosts(void) {
    enum { count = 2000 };
    static int32_t numbers[count];
    draw_lengths(numbers, count, 500);
    const sab_cost_term each = {1, 1, POWERS(0)};
    int calls = 0;
    sab_cost *costs[] = {NULL, new_callback(count_calls, &calls), new_quadratic()};
    EXPECT_OK(sab_cost_terms_new(&each, 1, &costs[0]));
    uint64_t fingerprints[COUNT(costs)];
    for (size_t i = 0; i < COUNT(costs); ++i) {
        sab_packed_options pack = into(500);
        pack.balance = (const sab_cost *const *)&costs[i];
        pack.balance_count = 1;
        sab_sampler_options options = of_rank(0, 1);
        options.costliest_first = 10;
        sab_sampler *sampler = packed(numbers, count, &pack, &options);
        uint64_t bins = info_of(sampler).bins, fewest = UINT64_MAX;
        int is_sorted = 1;
        sab_batch batch = SAB_BATCH_INIT;
        for (uint64_t bin = 0; bin < bins; ++bin) {
            EXPECT_OK(sab_next_batch(sampler, &batch));
            if (bin < 10 && batch.count < fewest) fewest = batch.count;
            if (bin >= 10 && batch.count > fewest) is_sorted = 0;
        }
        EXPECT(is_sorted == (i < 2));
        fingerprints[i] = info_of(sampler).fingerprint;
        sab_sampler_free(sampler);
        sab_cost_free(costs[i]);
    }
    EXPECT(calls > 0 && calls <= 501); /* once a length */
    EXPECT(fingerprints[0] == fingerprints[1] && fingerprints[0] != fingerprints[2]);
}

static void Mates_ChangeBetweenEpochs(void) {
    enum { count = 5000 };
    static int32_t numbers[count];
    for (int i = 0; i < count; ++i) numbers[i] = (int32_t)(1 + drawn() % 100);
    const sab_packed_options pack = into(400);
    sab_sampler *sampler = packed(numbers, count, &pack, NULL);
    static int64_t mate[2][count]; /* the sample that stands before each in its bin */
    for (uint64_t epoch = 0; epoch < 2; ++epoch) {
        EXPECT_OK(sab_sampler_set_epoch(sampler, epoch));
        sab_batch batch = SAB_BATCH_INIT;
        while (sab_next_batch(sampler, &batch) == SAB_OK)
            for (uint64_t i = 0; i < batch.count; ++i)
                mate[epoch][batch.indices[i]] = i == 0 ? -1 : batch.indices[i - 1];
    }
    int again = 0;
    for (int i = 0; i < count; ++i) again += mate[0][i] >= 0 && mate[0][i] == mate[1][i];
    EXPECT(again < count / 20);
    sab_sampler_free(sampler);
}

static void State_GoesOnAtAnyStepWithAnyRanks(void) {
    enum { count = 3000 };
    static int32_t numbers[count];
    static int seen[count];
    draw_lengths(numbers, count, 100);
    for (int32_t method = SAB_PACK_SHUFFLED; method <= SAB_PACK_HISTOGRAM; ++method)
        for (uint64_t ranks = 1; ranks <= 4; ++ranks) {
            sab_packed_options pack = into(100);
            pack.method = method;
            memset(seen, 0, sizeof seen);
            struct state state, other;
            for (uint64_t rank = 0; rank < 3; ++rank) {
                const sab_sampler_options options = of_rank(rank, 3);
                sab_sampler *sampler = packed(numbers, count, &pack, &options);
                sab_batch batch = SAB_BATCH_INIT;
                for (int step = 0; step < 17; ++step) {
                    EXPECT_OK(sab_next_batch(sampler, &batch));
                    for (uint64_t i = 0; i < batch.count; ++i) ++seen[batch.indices[i]];
                }
                EXPECT_OK(save_state(sampler, rank == 0 ? &state : &other));
                EXPECT(rank == 0 || memcmp(&state, &other, sizeof state) == 0);
                sab_sampler_free(sampler);
            }
            for (uint64_t rank = 0; rank < ranks; ++rank) {
                const sab_sampler_options options = of_rank(rank, ranks);
                sab_sampler *sampler = packed(numbers, count, &pack, &options);
                EXPECT_OK(restore_state(sampler, &state));
                walk(sampler, seen);
                sab_sampler_free(sampler);
            }
            EXPECT(all_are(seen, count, 1));
            pack.capacities = one_count(101), pack.capacity_count = 1;
            sab_sampler_options options = of_rank(0, 1);
            sab_sampler *sampler = packed(numbers, count, &pack, &options);
            EXPECT_FAILS(restore_state(sampler, &state), SAB_E_MISMATCH, "fingerprint");
            sab_sampler_free(sampler);
        }
}

static void At_SeekAndBlocks_GiveTheSameBins(void) {
    const sab_packed_options pack = into(150);
    const sab_sampler_options options = of_rank(1, 2);
    sab_sampler *walked = packed(lengths(500), 500, &pack, &options),
                *asked = packed(lengths(500), 500, &pack, &options);
    sab_batch batch = SAB_BATCH_INIT, other = SAB_BATCH_INIT;
    int64_t indices[4096];
    uint64_t offsets[65] = {0}, first = 0;
    sab_block block = SAB_BLOCK_INIT;
    EXPECT_OK(sab_next_block(asked, 64, &block));
    const size_t count = block.count;
    EXPECT(block.offsets[count] <= COUNT(indices));
    memcpy(offsets, block.offsets, (count + 1) * sizeof *offsets);
    memcpy(indices, block.indices, offsets[count] * sizeof *indices);
    for (uint64_t step = 0; sab_next_batch(walked, &batch) == SAB_OK; ++step) {
        EXPECT_OK(sab_sampler_at(asked, step, &other));
        EXPECT(other.count == batch.count &&
               memcmp(other.indices, batch.indices, batch.count * sizeof *indices) == 0);
        EXPECT(memcmp(cu_seqlens_of(asked), cu_seqlens_of(walked),
                      (batch.count + 1) * sizeof(int32_t)) == 0);
        if (step >= count) continue;
        EXPECT(offsets[step + 1] - first == batch.count &&
               memcmp(indices + first, batch.indices, batch.count * sizeof *indices) == 0);
        first = offsets[step + 1];
    }
    double budget = 0;
    EXPECT_FAILS(sab_sampler_set_budget(walked, 0, 10), SAB_E_UNSUPPORTED, "not a plan's");
    EXPECT_FAILS(sab_sampler_get_budget(walked, 0, &budget), SAB_E_UNSUPPORTED, "not a plan's");
    sab_sampler_free(walked);
    sab_sampler_free(asked);
}

static void CostliestFirst_BeginsWithTheCostliestBins(void) {
    const int32_t numbers[] = {9, 8, 7, 6, 5, 5, 5, 5};
    const sab_packed_options pack = into(10);
    sab_sampler_options options = SAB_SAMPLER_OPTIONS_INIT;
    options.costliest_first = 2;
    sab_sampler *sampler = packed(numbers, 8, &pack, &options);
    sab_batch batch = SAB_BATCH_INIT;
    EXPECT_OK(sab_next_batch(sampler, &batch));
    EXPECT(batch.indices[0] == 0);
    EXPECT_OK(sab_next_batch(sampler, &batch));
    EXPECT(batch.indices[0] == 1);
    sab_sampler_free(sampler);
}

static void Million_SamplesFillTheirBins(void) {
    enum { count = 1000000 };
    int32_t *numbers = malloc(count * sizeof *numbers);
    draw_lengths(numbers, count, 2048);
    for (int32_t method = SAB_PACK_SHUFFLED; method <= SAB_PACK_HISTOGRAM; ++method) {
        sab_packed_options pack = into(2048);
        pack.method = method;
        sab_sampler *sampler = packed(numbers, count, &pack, NULL);
        const sab_packed_info info = info_of(sampler);
        EXPECT(info.fill > 0.999 && info.lower_bound <= info.bins);
        int *seen = calloc(count, sizeof *seen);
        EXPECT(walk(sampler, seen) == info.bins && all_are(seen, count, 1));
        free(seen);
        sab_sampler_free(sampler);
    }
    free(numbers);
}

/* What is refused */

static int32_t stop(void *ctx, uint64_t done, uint64_t total) {
    (void)total;
    return done >= *(uint64_t *)ctx ? 42 : 0;
}

/* Of the sampler of `sizes` and `pack`, which starts anew with a capacity of 20. */
#define EXPECT_REFUSED(words)                                                                      \
    do {                                                                                           \
        sab_sampler *sampler = (sab_sampler *)&sizes;                                              \
        EXPECT_FAILS(sab_packed_sampler_new(sizes, &pack, NULL, &sampler), SAB_E_ARGUMENT, words); \
        EXPECT(sampler == NULL);                                                                   \
        pack = into(20);                                                                           \
    } while (0)

static void Refuses_BadOptions(void) {
    const int32_t numbers[] = {5, 12, 3, 11};
    sab_sizes *sizes = sizes_of(numbers, 4);
    sab_sampler *sampler = NULL;
    sab_packed_options pack = into(0);
    EXPECT_REFUSED("pack.capacities[0] = 0: must be from 1 to 2^31 - 1");
    pack.capacities = one_count(UINT64_C(1) << 31), pack.capacity_count = 1;
    EXPECT_REFUSED("pack.capacities[0] = 2147483648: must be");
    pack.method = 4;
    EXPECT_REFUSED("pack.method = 4: must be one of");
    pack.split = 2;
    EXPECT_REFUSED("pack.split = 2: must be 0 or 1");
    pack.oversize = SAB_OVERSIZE_SINGLE;
    EXPECT_REFUSED("pack.oversize = 2: must be SAB_OVERSIZE_ERROR");
    pack.window = 1048577;
    EXPECT_REFUSED("pack.window = 1048577: must be at most 1048576");
    pack.tries = 1048577;
    EXPECT_REFUSED("pack.tries = 1048577: must be at most 1048576");
    pack.method = SAB_PACK_BEST_FIT;
    pack.window = 9;
    EXPECT_REFUSED("pack.window = 9: must be 0 except with SAB_PACK_SHUFFLED (0)");
    pack.method = SAB_PACK_CONCAT;
    pack.tries = 9;
    EXPECT_REFUSED("pack.tries = 9: must be 0 except with SAB_PACK_SHUFFLED (0)");
    pack.struct_size = 4;
    EXPECT_REFUSED("pack.struct_size = 4: must be at least");
    EXPECT_FAILS(sab_packed_sampler_new(NULL, &pack, NULL, &sampler), SAB_E_ARGUMENT,
                 "sizes = NULL");
    EXPECT_FAILS(sab_packed_sampler_new(sizes, NULL, NULL, &sampler), SAB_E_ARGUMENT,
                 "pack = NULL");
    EXPECT_FAILS(sab_packed_sampler_new(sizes, &pack, NULL, NULL), SAB_E_ARGUMENT,
                 "sampler = NULL");
    const sab_sampler_options options = of_rank(3, 2);
    EXPECT_FAILS(sab_packed_sampler_new(sizes, &pack, &options, &sampler), SAB_E_ARGUMENT,
                 "options.rank = 3");
    uint64_t when = 4;
    pack.progress = stop;
    pack.progress_ctx = &when;
    EXPECT_FAILS(sab_packed_sampler_new(sizes, &pack, NULL, &sampler), SAB_E_CANCELLED, "code 42");
    EXPECT(sampler == NULL && sab_last_error_code() == 42);
    sab_sizes_free(sizes);
}

static void Refuses_BadBalance(void) {
    const int32_t numbers[] = {5, 12, 3, 11};
    sab_sizes *sizes = sizes_of(numbers, 4);
    sab_packed_options pack = into(20);
    const sab_cost_term wrong[] = {
        {1, 2, POWERS(1)}, {-9, 1, POWERS(0)}, {1, 1, POWERS(0, 1)}, {1e308, 1, POWERS(0)}};
    const char *const words[] = {"pack.balance[0]: its term 0 has a count_power of 2",
                                 "pack.balance[0]: a sample of length 12 costs -9",
                                 "pack.balance[0]: uses 2 columns: must use at most 1",
                                 "pack.balance[0]: costs must have a finite sum"};
    const sab_cost *balance[] = {NULL};
    pack.balance_count = 1;
    EXPECT_REFUSED("pack.balance = NULL");
    pack.balance = balance;
    pack.balance_count = 1;
    EXPECT_REFUSED("pack.balance[0] = NULL");
    pack.balance = balance;
    pack.balance_count = 2;
    EXPECT_REFUSED("pack.balance_count = 2: must be at most 1");
    for (size_t i = 0; i < COUNT(wrong); ++i) {
        sab_cost *cost = NULL;
        EXPECT_OK(sab_cost_terms_new(&wrong[i], 1, &cost));
        balance[0] = cost;
        pack.balance = balance;
        pack.balance_count = 1;
        EXPECT_REFUSED(words[i]);
        sab_cost_free(cost);
    }
    sab_sizes_free(sizes);
}

static void Refuses_SizesThatDoNotFit(void) {
    const int32_t numbers[] = {5, 12, 3, 11};
    sab_sizes *sizes = sizes_of(numbers, 4);
    sab_packed_options pack = into(10);
    EXPECT_REFUSED(
        "sizes[1] = 12: must be at most the capacity, 10; 2 of 4 samples are longer. Set "
        "pack.oversize to SAB_OVERSIZE_SKIP (1) or pack.split to 1, or use a larger capacity");
    pack.capacities = one_count(2), pack.capacity_count = 1;
    pack.oversize = SAB_OVERSIZE_SKIP;
    EXPECT_REFUSED("no sample is left: all 4 are longer than the capacity, 2");
    sab_sizes_free(sizes);

    const double halves[] = {3, 2.5};
    EXPECT_OK(sab_sizes_new(halves, 2, SAB_FLOAT64, NULL, &sizes));
    pack = into(10);
    EXPECT_REFUSED("sizes[1] = 2.5: must be a whole number");
    sab_sizes_free(sizes);
    const double huge[] = {9007199254740992.0, 3};
    EXPECT_OK(sab_sizes_new(huge, 2, SAB_FLOAT64, NULL, &sizes));
    pack = into(1);
    pack.split = 1;
    EXPECT_REFUSED("split into pieces of 1 they are more than 4294967295");
    pack.capacities = one_count(1048576),
    pack.capacity_count = 1; /* 2^33 full pieces and no remainder */
    pack.split = 1;
    EXPECT_REFUSED("split into pieces of 1048576 they are more than 4294967295");
    sab_sizes_free(sizes);
    EXPECT_OK(sab_sizes_new(halves, 0, SAB_FLOAT64, NULL, &sizes));
    EXPECT_REFUSED("sizes.count = 0: must be at least 1");
    sab_sizes_free(sizes);
}

static void Skip_CountsAndListsWhatIsLonger(void) {
    const int32_t numbers[] = {5, 12, 3, 11};
    sab_packed_options pack = into(10);
    pack.oversize = SAB_OVERSIZE_SKIP;
    for (int32_t method = SAB_PACK_SHUFFLED; method <= SAB_PACK_HISTOGRAM; ++method) {
        pack.method = method;
        EXPECT_BINS(numbers, &pack, "5+3");
    }
    sab_sampler *sampler = packed(numbers, 4, &pack, NULL);
    EXPECT(info_of(sampler).skipped == 2);
    int64_t indices[2] = {0};
    size_t count = 0;
    EXPECT_OK(sab_sampler_get_skipped(sampler, indices, 2, &count));
    EXPECT(count == 2 && indices[0] == 3 && indices[1] == 1); /* by ascending size */
    EXPECT_OK(sab_sampler_get_skipped(sampler, NULL, 0, &count));
    EXPECT_FAILS(sab_sampler_get_skipped(sampler, NULL, 1, &count), SAB_E_ARGUMENT,
                 "indices = NULL");
    EXPECT_FAILS(sab_sampler_get_skipped(sampler, indices, 1, NULL), SAB_E_ARGUMENT,
                 "count = NULL");
    EXPECT_FAILS(sab_sampler_get_skipped(NULL, indices, 1, &count), SAB_E_ARGUMENT,
                 "sampler = NULL");
    sab_packed_info info = SAB_PACKED_INFO_INIT;
    EXPECT_FAILS(sab_packed_sampler_get_info(sampler, NULL), SAB_E_ARGUMENT, "info = NULL");
    info.struct_size = 8;
    EXPECT_FAILS(sab_packed_sampler_get_info(sampler, &info), SAB_E_ARGUMENT,
                 "info.struct_size = 8");
    sab_sampler_free(sampler);

    sab_plan *plan = a_plan();
    sampler = rank_of(plan, 0, 1);
    EXPECT_FAILS(sab_packed_sampler_get_info(sampler, &info), SAB_E_ARGUMENT,
                 "must be one of sab_packed_sampler_new");
    sab_sampler_free(sampler);
    sab_plan_free(plan);
}

enum { CONCATENATED = 700, LONGEST = 60 };

/* Adds the tokens of a sampler's batches to `seen`. Gives how many rows are not full. */
static uint64_t count_tokens(sab_sampler *sampler, double capacity,
                             int seen[CONCATENATED][LONGEST]) {
    uint64_t partial = 0;
    sab_batch batch = SAB_BATCH_INIT;
    while (sab_next_batch(sampler, &batch) == SAB_OK) {
        const sab_rows rows = rows_of(sampler);
        EXPECT(*batch.total <= capacity);
        partial += *batch.total < capacity;
        for (uint64_t i = 0; i < batch.count; ++i)
            for (int32_t at = 0; at < rows.cu_seqlens[0][i + 1] - rows.cu_seqlens[0][i]; ++at)
                ++seen[batch.indices[i]][rows.starts[i] + at];
    }
    return partial;
}

static void Concat_CutsShuffledSamplesAtTheCapacity(void) {
    int32_t numbers[CONCATENATED];
    uint64_t total = 0;
    for (int i = 0; i < CONCATENATED; ++i)
        total += (uint64_t)(numbers[i] = (int32_t)(i * 7919 % LONGEST));
    sab_packed_options pack = into(50);
    pack.method = SAB_PACK_CONCAT;
    for (uint64_t epoch = 0; epoch < 3; ++epoch) {
        sab_sampler_options options = SAB_SAMPLER_OPTIONS_INIT;
        options.epoch = epoch;
        sab_sampler *sampler = packed(numbers, CONCATENATED, &pack, &options);
        const sab_packed_info info = info_of(sampler);
        EXPECT(info.bins == (total + 49) / 50 && info.total == (double)total);
        /* a state of one rank goes on with three */
        static int seen[CONCATENATED][LONGEST];
        memset(seen, 0, sizeof seen);
        sab_batch batch = SAB_BATCH_INIT;
        for (int i = 0; i < 7; ++i) {
            EXPECT_OK(sab_next_batch(sampler, &batch));
            const sab_rows rows = rows_of(sampler);
            for (uint64_t s = 0; s < batch.count; ++s)
                for (int32_t at = 0; at < rows.cu_seqlens[0][s + 1] - rows.cu_seqlens[0][s]; ++at)
                    ++seen[batch.indices[s]][rows.starts[s] + at];
        }
        unsigned char state[512];
        size_t size = 0;
        EXPECT_OK(sab_sampler_state_save(sampler, state, sizeof state, &size));
        sab_sampler_free(sampler);
        uint64_t partial = 0;
        for (uint64_t rank = 0; rank < 3; ++rank) {
            options.world_size = 3;
            options.rank = rank;
            sampler = packed(numbers, CONCATENATED, &pack, &options);
            EXPECT_OK(sab_sampler_state_restore(sampler, state, size));
            partial += count_tokens(sampler, 50, seen);
            sab_sampler_free(sampler);
        }
        EXPECT(partial <= 3); /* the last row, and what is split between the ranks */
        for (int s = 0; s < CONCATENATED; ++s)
            for (int at = 0; at < LONGEST; ++at) EXPECT(seen[s][at] == (at < numbers[s]));
    }
}

static void Rows_KeepTheCapacityOfEachColumn(void) {
    enum { PAIRS = 2000 };
    int32_t images[PAIRS], tokens[PAIRS];
    for (int i = 0; i < PAIRS; ++i) {
        images[i] = i * 31 % 13;
        tokens[i] = 20 + i * 7919 % 400 + 30 * images[i];
    }
    sab_sizes *parts[2], *sizes = NULL;
    EXPECT_OK(sab_sizes_new(images, PAIRS, SAB_INT32, NULL, &parts[0]));
    EXPECT_OK(sab_sizes_new(tokens, PAIRS, SAB_INT32, NULL, &parts[1]));
    EXPECT_OK(sab_sizes_columns_new((const sab_sizes *const *)parts, NULL, 2, &sizes));
    const uint64_t capacities[] = {20, 1500}, zero[] = {20, 0};
    sab_packed_options pack = SAB_PACKED_OPTIONS_INIT;
    pack.capacities = capacities;
    pack.capacity_count = 2;
    sab_sampler *sampler = NULL;
    EXPECT_OK(sab_packed_sampler_new(sizes, &pack, NULL, &sampler));
    int seen[PAIRS] = {0};
    sab_batch batch = SAB_BATCH_INIT;
    while (sab_next_batch(sampler, &batch) == SAB_OK) {
        double sums[2] = {0, 0};
        const sab_rows rows = rows_of(sampler);
        for (uint64_t i = 0; i < batch.count; ++i) {
            ++seen[batch.indices[i]];
            sums[0] += images[batch.indices[i]];
            sums[1] += tokens[batch.indices[i]];
        }
        EXPECT(batch.columns == 2 && rows.columns == 2);
        for (int j = 0; j < 2; ++j)
            EXPECT(batch.total[j] == sums[j] && sums[j] <= (double)capacities[j] &&
                   rows.cu_seqlens[j][batch.count] == (int32_t)sums[j] &&
                   rows.capacity[j] == (double)capacities[j]);
    }
    for (int i = 0; i < PAIRS; ++i) EXPECT(seen[i] == 1);
    const sab_packed_info info = info_of(sampler);
    EXPECT(info.bins >= info.lower_bound && (double)info.bins < 1.03 * (double)info.lower_bound);
    sab_sampler_free(sampler);
    sampler = NULL;
    pack.capacity_count = 1;
    EXPECT_FAILS(sab_packed_sampler_new(sizes, &pack, NULL, &sampler), SAB_E_ARGUMENT, "capacit");
    pack.capacity_count = 2;
    pack.capacities = zero;
    EXPECT_FAILS(sab_packed_sampler_new(sizes, &pack, NULL, &sampler), SAB_E_ARGUMENT,
                 "capacities[1] = 0");
    pack.capacities = capacities;
    pack.method = SAB_PACK_CONCAT;
    EXPECT_FAILS(sab_packed_sampler_new(sizes, &pack, NULL, &sampler), SAB_E_ARGUMENT,
                 "pack.method");
    sab_sizes_free(sizes);
    sab_sizes_free(parts[0]);
    sab_sizes_free(parts[1]);
}

enum { TOGETHER = 1000 };

/* Rows of samples whose sums are `sums`, under these capacities. No two of them fit into one. */
static uint64_t rows_apart(const sab_sizes *sizes, const uint64_t *capacities, uint64_t window,
                           const double *sums) {
    static double totals[TOGETHER][2];
    sab_packed_options pack = SAB_PACKED_OPTIONS_INIT;
    pack.capacities = capacities;
    pack.capacity_count = 2;
    pack.window = window;
    pack.tries = 20;
    sab_sampler *sampler = NULL;
    EXPECT_OK(sab_packed_sampler_new(sizes, &pack, NULL, &sampler));
    uint64_t rows = 0;
    double found[2] = {0};
    sab_batch batch = SAB_BATCH_INIT;
    for (; sab_next_batch(sampler, &batch) == SAB_OK; ++rows)
        for (int j = 0; j < 2; ++j) {
            totals[rows][j] = batch.total[j];
            found[j] += batch.total[j];
            EXPECT(batch.total[j] <= (double)capacities[j]);
        }
    EXPECT(found[0] == sums[0] && found[1] == sums[1]);
    for (uint64_t a = 0; a < rows && window == 0; ++a)
        for (uint64_t b = 0; b < a; ++b)
            EXPECT(totals[a][0] + totals[b][0] > (double)capacities[0] ||
                   totals[a][1] + totals[b][1] > (double)capacities[1]);
    sab_sampler_free(sampler);
    return rows;
}

/* Many small samples, and one that takes up most of a row. */
static void Rows_OfSamplesThatFitTogether_AreOne(void) {
    static int32_t numbers[2][TOGETHER];
    const int32_t small[] = {1, 2, 50};
    uint64_t seed = 3;
    for (int round = 0; round < ROUNDS_OF(40); ++round) {
        double sums[2] = {0};
        const size_t count = 50 + (size_t)round * 23;
        for (size_t i = 0; i < count; ++i)
            for (int j = 0; j < 2; ++j) {
                seed = seed * 6364136223846793005u + 1442695040888963407u;
                numbers[j][i] = j == 0 ? 1 + (int32_t)(seed >> 40) % 49 : small[(seed >> 40) % 3];
                if (j == 0 && i == 7) numbers[0][7] = 10000;
                sums[j] += numbers[j][i];
            }
        sab_sizes *parts[] = {sizes_of(numbers[0], count), sizes_of(numbers[1], count)};
        sab_sizes *sizes = NULL;
        EXPECT_OK(sab_sizes_columns_new((const sab_sizes *const *)parts, NULL, 2, &sizes));
        const uint64_t all[] = {(uint64_t)sums[0], (uint64_t)sums[1]},
                       more[] = {(uint64_t)(1.5 * sums[0]), (uint64_t)(1.05 * sums[1])},
                       half[] = {(uint64_t)fmax(10000, 0.55 * sums[0]), (uint64_t)(0.6 * sums[1])};
        EXPECT(rows_apart(sizes, all, 0, sums) == 1);
        EXPECT(rows_apart(sizes, more, 0, sums) == 1);
        EXPECT(rows_apart(sizes, more, 3, sums) == 1); /* fewer than a row has */
        EXPECT(rows_apart(sizes, half, 0, sums) <= 3);
        sab_sizes_free(sizes);
        sab_sizes_free(parts[0]);
        sab_sizes_free(parts[1]);
    }
}

enum { MATES = 2000, MATE_EPOCHS = 8 };

/* Pairs of samples that share a row in one epoch and in the next one, too. */
static int met_again(const int32_t rows[MATE_EPOCHS][MATES]) {
    int again = 0;
    for (int epoch = 1; epoch < MATE_EPOCHS; ++epoch)
        for (int a = 0; a < MATES; ++a)
            for (int b = 0; b < a; ++b)
                again +=
                    rows[epoch - 1][a] == rows[epoch - 1][b] && rows[epoch][a] == rows[epoch][b];
    return again;
}

/* Shuffled samples, each into the last row if that has room for it. */
static void fill_randomly(const int32_t *images, const int32_t *tokens, const uint64_t *capacities,
                          int32_t *rows) {
    int order[MATES], row = 0;
    for (int i = 0; i < MATES; ++i) {
        const uint32_t other = drawn() % (uint32_t)(i + 1);
        order[i] = order[other];
        order[other] = i;
    }
    uint64_t used[2] = {0, 0};
    for (int i = 0; i < MATES; ++i) {
        const uint64_t here[2] = {(uint64_t)images[order[i]], (uint64_t)tokens[order[i]]};
        if (used[0] + here[0] > capacities[0] || used[1] + here[1] > capacities[1]) {
            ++row;
            used[0] = used[1] = 0;
        }
        rows[order[i]] = row;
        for (int j = 0; j < 2; ++j) used[j] += here[j];
    }
}

static void Rows_GiveMatesThatSeldomMeetAgain(void) {
    static int32_t images[MATES], tokens[MATES], rows[MATE_EPOCHS][MATES];
    for (int i = 0; i < MATES; ++i) {
        images[i] = (int32_t)(drawn() % 12);
        tokens[i] = (int32_t)(20 + 40 * (uint32_t)images[i] + drawn() % 300);
    }
    sab_sizes *parts[2], *sizes = NULL;
    EXPECT_OK(sab_sizes_new(images, MATES, SAB_INT32, NULL, &parts[0]));
    EXPECT_OK(sab_sizes_new(tokens, MATES, SAB_INT32, NULL, &parts[1]));
    EXPECT_OK(sab_sizes_columns_new((const sab_sizes *const *)parts, NULL, 2, &sizes));
    const uint64_t capacities[] = {20, 1500};
    sab_packed_options pack = SAB_PACKED_OPTIONS_INIT;
    pack.capacities = capacities;
    pack.capacity_count = 2;
    sab_sampler *sampler = NULL;
    EXPECT_OK(sab_packed_sampler_new(sizes, &pack, NULL, &sampler));
    for (int epoch = 0; epoch < MATE_EPOCHS; ++epoch) {
        EXPECT_OK(sab_sampler_set_epoch(sampler, (uint64_t)epoch));
        sab_batch batch = SAB_BATCH_INIT;
        for (int32_t row = 0; sab_next_batch(sampler, &batch) == SAB_OK; ++row)
            for (uint64_t i = 0; i < batch.count; ++i) rows[epoch][batch.indices[i]] = row;
    }
    const int again = met_again((const int32_t (*)[MATES])rows);
    for (int epoch = 0; epoch < MATE_EPOCHS; ++epoch)
        fill_randomly(images, tokens, capacities, rows[epoch]);
    const int at_random = met_again((const int32_t (*)[MATES])rows);
    EXPECT(at_random > 0 && again <= 3 * at_random);
    sab_sampler_free(sampler);
    sab_sizes_free(sizes);
    sab_sizes_free(parts[0]);
    sab_sizes_free(parts[1]);
}

/* Report */

/* What walking all ranks finds; `pack` by squares. */
static sab_balanced_report walked_report(const int32_t *numbers, size_t count,
                                         const sab_packed_options *pack,
                                         sab_sampler_options options) {
    sab_balanced_report report = SAB_BALANCED_REPORT_INIT;
    static double total, imbalance, largest_imbalance, micro_batch_imbalance, time_sum, least_time;
    total = imbalance = largest_imbalance = micro_batch_imbalance = time_sum = least_time = 0;
    report.totals = &total;
    report.rank_imbalance = &imbalance;
    report.largest_rank_imbalance = &largest_imbalance;
    report.micro_batch_imbalance = &micro_batch_imbalance;
    report.time = &time_sum;
    report.least_time = &least_time;
    sab_sampler *samplers[8];
    sab_batch batch = SAB_BATCH_INIT;
    for (uint64_t rank = 0; rank < options.world_size; ++rank) {
        options.rank = rank;
        samplers[rank] = packed(numbers, count, pack, &options);
    }
    uint64_t batches = 0;
    EXPECT_OK(sab_sampler_get_batch_count(samplers[0], &batches));
    report.steps = (batches + options.micro_batches - 1) / options.micro_batches;
    for (uint64_t position = 0; position < batches; position += options.micro_batches) {
        double most = 0, most_of_part = 0, sum = 0;
        for (uint64_t rank = 0; rank < options.world_size; ++rank) {
            double cost = 0;
            for (uint64_t k = position; k < position + options.micro_batches && k < batches; ++k) {
                EXPECT_OK(sab_sampler_at(samplers[rank], k, &batch));
                const int32_t *cu_seqlens = cu_seqlens_of(samplers[rank]);
                double part = 0;
                for (uint64_t i = 0; i < batch.count; ++i) {
                    const double length = cu_seqlens[i + 1] - cu_seqlens[i];
                    part += length * length;
                }
                total += batch.total[0];
                most_of_part = fmax(most_of_part, part);
                cost += part;
            }
            most = fmax(most, cost);
            sum += cost;
        }
        const double ranks = (double)options.world_size, parts = ranks * options.micro_batches;
        imbalance += most * ranks / sum / (double)report.steps;
        largest_imbalance = fmax(largest_imbalance, most * ranks / sum);
        micro_batch_imbalance += most_of_part * parts / sum / (double)report.steps;
        time_sum += most;
        least_time += sum / ranks;
    }
    for (uint64_t rank = 0; rank < options.world_size; ++rank) sab_sampler_free(samplers[rank]);
    return report;
}

static int is_near(double got, double expected) {
    return fabs(got - expected) <= 1e-9 * expected;
}

static void Report_IsWhatWalkingAllRanksFinds(void) {
    int32_t numbers[700];
    draw_lengths(numbers, COUNT(numbers), 90);
    sab_packed_options pack = into(100);
    for (uint64_t world_size = 1; world_size <= 8; ++world_size)
        for (uint64_t micro_batches = 1; micro_batches <= 3; micro_batches += 2) {
            sab_sampler_options options = of_rank(world_size - 1, world_size);
            options.micro_batches = micro_batches;
            options.last_step = SAB_LAST_STEP_DROP; /* whole rows only */
            sab_sampler *sampler = packed(numbers, COUNT(numbers), &pack, &options);
            EXPECT_OK(sab_sampler_seek(sampler, 2));
            sab_balanced_report report = SAB_BALANCED_REPORT_INIT;
            EXPECT_OK(sab_balanced_sampler_get_report(sampler, NULL, &report));
            uint64_t epoch = 0, position = 0;
            EXPECT_OK(sab_sampler_tell(sampler, &epoch, &position));
            EXPECT(position == 2);
            const sab_balanced_report walked =
                walked_report(numbers, COUNT(numbers), &pack, options);
            const sab_packed_info info = info_of(sampler);
            EXPECT(report.samples == COUNT(numbers) && report.skipped == 0);
            EXPECT(report.columns == 1 && report.balance_count == 1);
            EXPECT(report.steps == walked.steps && report.fill == info.fill);
            EXPECT(report.totals[0] == walked.totals[0]);
            EXPECT(is_near(report.rank_imbalance[0], walked.rank_imbalance[0]));
            EXPECT(is_near(report.largest_rank_imbalance[0], walked.largest_rank_imbalance[0]));
            EXPECT(is_near(report.micro_batch_imbalance[0], walked.micro_batch_imbalance[0]));
            EXPECT(is_near(report.time[0], walked.time[0]));
            EXPECT(is_near(report.least_time[0], walked.least_time[0]));
            EXPECT((report.dropped > 0) == (info.bins % (world_size * micro_batches) != 0));
            sab_sampler_free(sampler);
        }
}

/* The row of each sample in the present epoch. Gives the standard deviation of the mean length. */
static double rows_of_samples(sab_sampler *sampler, int32_t *rows) {
    double sum = 0, squares = 0;
    int32_t row = 0;
    sab_batch batch = SAB_BATCH_INIT;
    for (; sab_next_batch(sampler, &batch) == SAB_OK; ++row) {
        const double mean = *batch.total / (double)batch.count;
        sum += mean;
        squares += mean * mean;
        for (uint64_t i = 0; i < batch.count; ++i) rows[batch.indices[i]] = row;
    }
    return sqrt(squares / row - sum / row * (sum / row));
}

static void Report_CountsRowMatesThatMeetAgain(void) {
    enum { count = 600 };
    int32_t numbers[count], rows[2][count];
    draw_lengths(numbers, count, 90);
    for (sab_pack_method method = SAB_PACK_SHUFFLED; method <= SAB_PACK_HISTOGRAM; ++method) {
        sab_packed_options pack = into(500);
        pack.method = method;
        sab_sampler *sampler = packed(numbers, count, &pack, NULL);
        EXPECT_OK(sab_sampler_set_epoch(sampler, 3));
        const sab_balanced_report report = report_of(sampler);
        const double deviation = rows_of_samples(sampler, rows[0]);
        EXPECT_OK(sab_sampler_set_epoch(sampler, 4));
        rows_of_samples(sampler, rows[1]);
        double pairs = 0, again = 0;
        for (int a = 0; a < count; ++a)
            for (int b = 0; b < a; ++b)
                if (rows[0][a] == rows[0][b]) {
                    ++pairs;
                    again += rows[1][a] == rows[1][b];
                }
        EXPECT(is_near(report.meet_again, again / pairs) && again > 0);
        EXPECT(fabs(report.length_deviation - deviation) < 1e-6);
        /* random rows have about as many pairs as those that mix lengths */
        const double all = count * (count - 1) / 2.0;
        EXPECT(method != SAB_PACK_SHUFFLED || (report.random_meet_again > 0.8 * pairs / all &&
                                               report.random_meet_again < 1.25 * pairs / all));
        EXPECT(report.random_length_deviation > 0);
        sab_sampler_free(sampler);
    }
}

static void Report_CountsEverySampleWhereNothingIsDropped(void) {
    int32_t numbers[500];
    draw_lengths(numbers, COUNT(numbers), 90);
    double total = 0;
    for (size_t i = 0; i < COUNT(numbers); ++i) total += numbers[i];
    for (sab_pack_method method = SAB_PACK_SHUFFLED; method <= SAB_PACK_CONCAT; ++method) {
        sab_packed_options pack = into(100);
        pack.method = method;
        const sab_sampler_options options = of_rank(1, 7);
        sab_sampler *sampler = packed(numbers, COUNT(numbers), &pack, &options);
        sab_balanced_report report = SAB_BALANCED_REPORT_INIT;
        EXPECT_OK(sab_balanced_sampler_get_report(sampler, NULL, &report));
        EXPECT(report.totals[0] == total && report.dropped == 0);
        EXPECT(report.rank_imbalance[0] >= 1 && report.time[0] >= report.least_time[0]);
        const double steps = (double)report.steps;
        EXPECT(report.rank_imbalance[0] <= report.largest_rank_imbalance[0]);
        EXPECT(ceil((double)info_of(sampler).bins / 7) == steps);
        uint64_t at_once = 0;
        EXPECT_FAILS(sab_balanced_sampler_get_report(sampler, a_progress(stop, &at_once), &report),
                     SAB_E_CANCELLED, "");
        sab_sampler_free(sampler);
    }
}

int main(void) {
    RUN(BestFit_TakesTheFullestBinWithRoom);
    RUN(Histogram_TakesTheEmptiestBinWithRoom);
    RUN(MaxSequences_LimitsEveryMethod);
    RUN(Histogram_WastesLittleUnderALimit);
    RUN(Shuffled_HasFewRows);
    RUN(Shuffled_MixesLengths);
    RUN(Shuffled_SamplesThatFitIntoARow_AreOne);
    RUN(EmptySamples_TakeNoRoom);
    RUN(Split_GivesFullPiecesAndARemainder);
    RUN(Batch_IsOneRowOfTheCapacity);
    RUN(LowerBound_KnowsThatLongSequencesStandAlone);
    RUN(Bins_AreThoseOfATextbook);
    RUN(Epoch_HasEverySampleOnceOverAllRanks);
    RUN(Steps_CostNearlyTheSameOnAllRanks);
    RUN(Balance_SaysWhatABinCosts);
    RUN(Mates_ChangeBetweenEpochs);
    RUN(State_GoesOnAtAnyStepWithAnyRanks);
    RUN(At_SeekAndBlocks_GiveTheSameBins);
    RUN(CostliestFirst_BeginsWithTheCostliestBins);
    RUN(Million_SamplesFillTheirBins);
    RUN(Refuses_BadOptions);
    RUN(Refuses_BadBalance);
    RUN(Refuses_SizesThatDoNotFit);
    RUN(Skip_CountsAndListsWhatIsLonger);
    RUN(Concat_CutsShuffledSamplesAtTheCapacity);
    RUN(Rows_KeepTheCapacityOfEachColumn);
    RUN(Rows_OfSamplesThatFitTogether_AreOne);
    RUN(Rows_GiveMatesThatSeldomMeetAgain);
    RUN(Report_IsWhatWalkingAllRanksFinds);
    RUN(Report_CountsRowMatesThatMeetAgain);
    RUN(Report_CountsEverySampleWhereNothingIsDropped);
    return finish();
}
