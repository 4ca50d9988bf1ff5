/* Lengths that are rounded up, of packed and balanced samplers: budgets hold with the rounding, and
 * batches say both lengths. */
#include <math.h>
#include <stdlib.h>

#include "helpers.h"
#include "one.h"

enum { SAMPLES = 600, RANKS = 3 };

static double rounded(double length, double multiple) {
    return multiple > 0 ? ceil(length / multiple) * multiple : length;
}

/* Many short, few long; some of no size. */
static const int32_t *drawn_sizes(uint64_t most) {
    static int32_t made[SAMPLES];
    for (size_t i = 0; i < SAMPLES; ++i)
        made[i] = below(30) == 0 ? 0 : (int32_t)(1 + below(1 + below(most)));
    return made;
}

/* What a sampler is made of, one column. */
struct rounding {
    double length, row;
    double capacity; /* that padded_length is without `row`; 0: the total */
};

/* The sums of all batches of all ranks. */
struct seen {
    uint64_t tokens[SAMPLES], times[SAMPLES];
    double total, laid;
    struct weights weights;
};

/* Checks a row, whose lengths are true and rounded. */
static void check_row(sab_sampler *sampler, const sab_batch *batch, const int32_t *sizes,
                      const struct rounding *how, struct seen *seen) {
    const sab_rows rows = rows_of(sampler);
    const int32_t *laid = rows.cu_seqlens[0];
    EXPECT((rows.cu_seqlens_unpadded != NULL) == (how->length > 0));
    const int32_t *own = how->length > 0 ? rows.cu_seqlens_unpadded[0] : laid;
    int32_t longest = 0;
    EXPECT(laid[0] == 0 && own[0] == 0);
    for (size_t i = 0; i < batch->count; ++i) {
        const int32_t length = own[i + 1] - own[i], sample = sizes[batch->indices[i]];
        EXPECT(laid[i + 1] - laid[i] == rounded(length, how->length));
        EXPECT(rows.starts != NULL ? rows.starts[i] + length <= sample : length == sample);
        seen->tokens[batch->indices[i]] += (uint64_t)length;
        seen->times[batch->indices[i]] += rows.starts == NULL || rows.starts[i] == 0;
        if (length > longest) longest = length;
    }
    const double end = laid[batch->count], row = rounded(end, how->row);
    EXPECT(*batch->total == own[batch->count] && *batch->longest == longest);
    EXPECT(how->capacity == 0 || end <= how->capacity);
    EXPECT(*batch->padded_length == (batch->count == 0                    ? 0
                                     : how->row > 0 || how->capacity == 0 ? row
                                                                          : how->capacity));
    seen->laid += row;
    seen->total += *batch->total;
    add_weights(&seen->weights, batch);
}

/* Each token of the samples is in one row; blocks have what batches have. */
static void check_all(sab_sampler *const *ranks_of, const int32_t *sizes,
                      const struct rounding *how) {
    static struct seen seen;
    memset(&seen, 0, sizeof seen);
    for (int rank = 0; rank < RANKS; ++rank) {
        sab_batch batch = SAB_BATCH_INIT;
        while (sab_next_batch(ranks_of[rank], &batch) == SAB_OK)
            check_row(ranks_of[rank], &batch, sizes, how, &seen);
    }
    for (size_t i = 0; i < SAMPLES; ++i)
        EXPECT(seen.times[i] == 1 && seen.tokens[i] == (uint64_t)sizes[i]);
    EXPECT(have_mean_one(&seen.weights));
    sab_balanced_report report = SAB_BALANCED_REPORT_INIT;
    EXPECT_OK(sab_balanced_sampler_get_report(ranks_of[0], NULL, &report));
    EXPECT(report.totals[0] == seen.total && report.padded_totals[0] == seen.laid);
    sab_block block = SAB_BLOCK_INIT;
    EXPECT_OK(sab_sampler_begin(ranks_of[0]));
    EXPECT_OK(sab_next_block(ranks_of[0], 3, &block));
    const int32_t *const *own = how->length > 0 ? block.cu_seqlens_unpadded : block.cu_seqlens;
    EXPECT((block.cu_seqlens_unpadded != NULL) == (how->length > 0));
    EXPECT(own[0][block.offsets[block.count] + block.count - 1] == block.total[block.count - 1]);
}

/* The first of these has its ranks and micro-batches set. */
static void packed_ranks(const int32_t *sizes, const sab_packed_options *pack,
                         sab_sampler **samplers) {
    sab_sizes *handle = sizes_of(sizes, SAMPLES);
    for (uint64_t rank = 0; rank < RANKS; ++rank) {
        const sab_sampler_options options = ranks(rank, RANKS);
        EXPECT_OK(sab_packed_sampler_new(handle, pack, &options, &samplers[rank]));
    }
    sab_sizes_free(handle);
}

static void free_ranks(sab_sampler **samplers) {
    for (int rank = 0; rank < RANKS; ++rank) sab_sampler_free(samplers[rank]);
}

static void Packed_RoundsSequencesWithinTheCapacity(void) {
    for (int round = 0; round < 48; ++round) {
        sab_packed_options pack = SAB_PACKED_OPTIONS_INIT;
        pack.method = round % 4;
        pack.split = round % 3 == 0 && pack.method != SAB_PACK_CONCAT;
        const int is_cut = pack.split || pack.method == SAB_PACK_CONCAT;
        const int32_t *sizes = drawn_sizes(is_cut ? 300 : 96);
        const struct rounding how = {round % 5 == 0 ? 0 : (double)(UINT64_C(1) << below(5)),
                                     round % 2 ? 32 : 0, 96};
        pack.capacities = one_count(96), pack.capacity_count = 1;
        pack.length_multiples = one_number(how.length), pack.length_multiple_count = 1;
        pack.row_multiples = one_number(how.row), pack.row_multiple_count = 1;
        sab_sampler *samplers[RANKS];
        packed_ranks(sizes, &pack, samplers);
        sab_packed_info info = SAB_PACKED_INFO_INIT;
        EXPECT_OK(sab_packed_sampler_get_info(samplers[0], &info));
        check_all(samplers, sizes, &how);
        EXPECT(nearly_equal(info.fill, info.total / ((double)info.bins * 96)));
        EXPECT(info.bins >= info.lower_bound);
        free_ranks(samplers);
        if (pack.method != SAB_PACK_SHUFFLED) continue;
        /* no more rows than best fit of the rounded lengths */
        pack.method = SAB_PACK_BEST_FIT;
        packed_ranks(sizes, &pack, samplers);
        sab_packed_info best = SAB_PACKED_INFO_INIT;
        EXPECT_OK(sab_packed_sampler_get_info(samplers[0], &best));
        EXPECT(info.bins <= best.bins && info.lower_bound == best.lower_bound);
        free_ranks(samplers);
    }
}

static void Multiples_OfOne_ChangeNothing(void) {
    const int32_t *sizes = drawn_sizes(90);
    for (int32_t method = SAB_PACK_SHUFFLED; method <= SAB_PACK_CONCAT; ++method) {
        sab_sampler *plain[RANKS], *same[RANKS];
        sab_packed_options pack = SAB_PACKED_OPTIONS_INIT;
        pack.method = method;
        pack.capacities = one_count(96), pack.capacity_count = 1;
        packed_ranks(sizes, &pack, plain);
        pack.length_multiples = one_number(1), pack.length_multiple_count = 1;
        pack.row_multiples = one_number(96), pack.row_multiple_count = 1;
        packed_ranks(sizes, &pack, same);
        sab_batch batch = SAB_BATCH_INIT, other = SAB_BATCH_INIT;
        while (sab_next_batch(plain[1], &batch) == SAB_OK) {
            EXPECT_OK(sab_next_batch(same[1], &other));
            EXPECT(batch.count == other.count && *batch.total == *other.total &&
                   *batch.padded_length == *other.padded_length);
            EXPECT(memcmp(batch.indices, other.indices, batch.count * sizeof *batch.indices) == 0);
        }
        /* but they are another packing for states */
        unsigned char state[1024];
        size_t size = 0;
        EXPECT_OK(sab_sampler_state_save(plain[0], state, sizeof state, &size));
        EXPECT_FAILS(sab_sampler_state_restore(same[0], state, size), SAB_E_MISMATCH, "");
        free_ranks(plain);
        free_ranks(same);
    }
}

static void Columns_HaveMultiplesEach(void) {
    int32_t images[SAMPLES], tokens[SAMPLES];
    for (size_t i = 0; i < SAMPLES; ++i) {
        images[i] = (int32_t)(1 + below(4));
        tokens[i] = (int32_t)(20 * images[i] + (int32_t)below(50));
    }
    sab_sizes *columns[] = {sizes_of(images, SAMPLES), sizes_of(tokens, SAMPLES)}, *both = NULL;
    EXPECT_OK(sab_sizes_columns_new((const sab_sizes *const *)columns, NULL, 2, &both));
    const uint64_t capacities[] = {12, 512};
    const double multiples[] = {0, 16}, rows[] = {4, 128};
    sab_packed_options pack = SAB_PACKED_OPTIONS_INIT;
    pack.capacities = capacities, pack.capacity_count = 2;
    pack.length_multiples = multiples, pack.length_multiple_count = 2;
    pack.row_multiples = rows, pack.row_multiple_count = 2;
    sab_sampler *sampler = NULL;
    EXPECT_OK(sab_packed_sampler_new(both, &pack, NULL, &sampler));
    sab_batch batch = SAB_BATCH_INIT;
    uint64_t seen = 0;
    while (sab_next_batch(sampler, &batch) == SAB_OK) {
        const sab_rows shown = rows_of(sampler);
        for (int j = 0; j < 2; ++j) {
            const int32_t *laid = shown.cu_seqlens[j], *own = shown.cu_seqlens_unpadded[j];
            const int32_t *sizes = j == 0 ? images : tokens;
            for (size_t i = 0; i < batch.count; ++i) {
                EXPECT(own[i + 1] - own[i] == sizes[batch.indices[i]]);
                EXPECT(laid[i + 1] - laid[i] == rounded(own[i + 1] - own[i], multiples[j]));
            }
            EXPECT(batch.padded_length[j] == rounded(laid[batch.count], rows[j]));
            EXPECT(batch.padded_length[j] <= (double)capacities[j]);
            EXPECT(batch.total[j] == own[batch.count]);
        }
        seen += batch.count;
    }
    EXPECT(seen == SAMPLES);
    sab_sampler_free(sampler);
    sab_sizes_free(both);
    sab_sizes_free(columns[0]);
    sab_sizes_free(columns[1]);
}

/* 2 + length + length^2 / 100, of a row or of a padded batch. */
static double cost_of(double count, double length) {
    return count * (length + length * length / 100);
}

static sab_cost *a_cost(void) {
    const sab_cost_term terms[] = {{2, 0, POWERS(0)}, {1, 1, POWERS(1)}, {0.01, 1, POWERS(2)}};
    sab_cost *cost = NULL;
    EXPECT_OK(sab_cost_terms_new(terms, COUNT(terms), &cost));
    return cost;
}

static void Balanced_RowsKeepBudgetsWithTheirRounding(void) {
    sab_cost *cost = a_cost();
    for (int round = 0; round < 24; ++round) {
        const int32_t *sizes = drawn_sizes(120);
        const int is_total = round % 2;
        const sab_budget budgets[] = {{NULL, 256}, {cost, 700}};
        const struct rounding how = {round % 3 == 0 ? 0 : 8, round % 4 < 2 ? 64 : 0, 0};
        sab_balanced_options balanced = SAB_BALANCED_OPTIONS_INIT;
        balanced.budgets = budgets, balanced.budget_count = is_total ? 1 : 2;
        balanced.fill = round % 5 == 0 ? 1 : 0;
        balanced.length_multiples = one_number(how.length), balanced.length_multiple_count = 1;
        balanced.row_multiples = one_number(how.row), balanced.row_multiple_count = 1;
        sab_sizes *handle = sizes_of(sizes, SAMPLES);
        sab_sampler *samplers[RANKS];
        for (uint64_t rank = 0; rank < RANKS; ++rank) {
            sab_sampler_options options = ranks(rank, RANKS);
            options.micro_batches = 1 + (uint64_t)round % 3;
            EXPECT_OK(sab_balanced_sampler_new(handle, &balanced, &options, &samplers[rank]));
        }
        sab_sizes_free(handle);
        check_all(samplers, sizes, &how);
        EXPECT_OK(sab_sampler_begin(samplers[0]));
        sab_batch batch = SAB_BATCH_INIT;
        while (sab_next_batch(samplers[0], &batch) == SAB_OK) {
            const int32_t *laid = cu_seqlens_of(samplers[0]);
            double sum = 2 + cost_of(1, *batch.padded_length - laid[batch.count]);
            for (size_t i = 0; i < batch.count; ++i) sum += cost_of(1, laid[i + 1] - laid[i]);
            EXPECT(*batch.padded_length <= 256 && (is_total || sum <= 700 * (1 + 1e-12)));
        }
        free_ranks(samplers);
    }
    sab_cost_free(cost);
}

static void Balanced_PaddedKeepBudgetsWithTheirRounding(void) {
    sab_cost *cost = a_cost();
    for (int round = 0; round < 6; ++round) {
        const int32_t *sizes = drawn_sizes(100);
        const double multiple = (double)(UINT64_C(4) << round % 3);
        const sab_budget limit = {cost, 900};
        sab_balanced_options balanced = SAB_BALANCED_OPTIONS_INIT;
        balanced.padded = 1;
        balanced.budgets = &limit, balanced.budget_count = 1;
        balanced.length_multiples = &multiple, balanced.length_multiple_count = 1;
        sab_sampler_options options = ranks(0, 1);
        options.micro_batches = 4;
        sab_sizes *handle = sizes_of(sizes, SAMPLES);
        sab_sampler *sampler = NULL;
        EXPECT_OK(sab_balanced_sampler_new(handle, &balanced, &options, &sampler));
        sab_batch batch = SAB_BATCH_INIT;
        uint64_t seen = 0;
        double padded = 0;
        while (sab_next_batch(sampler, &batch) == SAB_OK) {
            EXPECT(batch.layout == SAB_LAYOUT_PADDED);
            EXPECT(*batch.padded_length == rounded(*batch.longest, multiple));
            EXPECT(2 + cost_of((double)batch.count, *batch.padded_length) <= 900);
            seen += batch.count;
            padded += padded_total(&batch);
        }
        sab_balanced_report report = SAB_BALANCED_REPORT_INIT;
        EXPECT_OK(sab_balanced_sampler_get_report(sampler, NULL, &report));
        EXPECT(seen == SAMPLES && report.padded_totals[0] == padded);
        sab_sampler_free(sampler);
        sab_sizes_free(handle);
    }
    sab_cost_free(cost);
}

static void Refuses_BadMultiples(void) {
    const int32_t numbers[] = {5, 12, 3, 11};
    sab_sizes *sizes = sizes_of(numbers, 4);
    sab_sampler *sampler = NULL;
    const struct {
        double length, row;
        const char *words;
    } packed[] = {{2.5, 0, "pack.length_multiples[0] = 2.5: must be a whole number"},
                  {0, -4, "pack.row_multiples[0] = -4: must be from 0 to 2^53"},
                  {16, 0,
                   "pack.capacities[0] = 40: must be a multiple of "
                   "pack.length_multiples[0] = 16"},
                  {4, 16,
                   "pack.capacities[0] = 40: must be a multiple of "
                   "pack.row_multiples[0] = 16"}};
    for (size_t i = 0; i < COUNT(packed); ++i) {
        sab_packed_options pack = SAB_PACKED_OPTIONS_INIT;
        pack.capacities = one_count(40), pack.capacity_count = 1;
        pack.length_multiples = &packed[i].length, pack.length_multiple_count = 1;
        pack.row_multiples = &packed[i].row, pack.row_multiple_count = 1;
        EXPECT_FAILS(sab_packed_sampler_new(sizes, &pack, NULL, &sampler), SAB_E_ARGUMENT,
                     packed[i].words);
    }
    sab_balanced_options balanced = SAB_BALANCED_OPTIONS_INIT;
    SET_BUDGET(balanced, 14);
    balanced.length_multiples = one_number(8), balanced.length_multiple_count = 3;
    EXPECT_FAILS(sab_balanced_sampler_new(sizes, &balanced, NULL, &sampler), SAB_E_ARGUMENT,
                 "balanced.length_multiple_count = 3: must be 0, 1 or the number of columns, 1");
    balanced.length_multiple_count = 1;
    EXPECT_FAILS(sab_balanced_sampler_new(sizes, &balanced, NULL, &sampler), SAB_E_ARGUMENT,
                 "sizes[1] = 12: must fit balanced.budgets[0].limit = 14 alone (lengths are "
                 "rounded up to multiples of 8); 2 of 4 samples do not");
    balanced.padded = 1;
    balanced.row_multiples = one_number(4), balanced.row_multiple_count = 1;
    EXPECT_FAILS(sab_balanced_sampler_new(sizes, &balanced, NULL, &sampler), SAB_E_ARGUMENT,
                 "balanced.row_multiples[0] = 4: must be 0 with balanced.padded");
    EXPECT(sampler == NULL);
    sab_sizes_free(sizes);
}

int main(void) {
    RUN(Packed_RoundsSequencesWithinTheCapacity);
    RUN(Multiples_OfOne_ChangeNothing);
    RUN(Columns_HaveMultiplesEach);
    RUN(Balanced_RowsKeepBudgetsWithTheirRounding);
    RUN(Balanced_PaddedKeepBudgetsWithTheirRounding);
    RUN(Refuses_BadMultiples);
    return finish();
}
