/* More than one machine: histograms, plans without indices, and the place of a sample. */
#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "helpers.h"
#include "one.h"

enum { MOST = 300, MOST_RANKS = 5, MOST_ROUNDS = 400 };

static sab_histogram *histogram_of(const int32_t *numbers, size_t count) {
    sab_histogram *histogram = NULL;
    sab_sizes *sizes = sizes_of(numbers, count);
    EXPECT_OK(sab_histogram_new(&histogram));
    EXPECT_OK(sab_histogram_add(histogram, sizes, NULL));
    sab_sizes_free(sizes);
    return histogram;
}

static sab_histogram_info info_of(const sab_histogram *histogram) {
    sab_histogram_info info = SAB_HISTOGRAM_INFO_INIT;
    EXPECT_OK(sab_histogram_get_info(histogram, &info));
    return info;
}

struct bytes {
    size_t size;
    unsigned char data[8192];
};

static struct bytes bytes_of(const sab_histogram *histogram) {
    struct bytes bytes = {0};
    EXPECT_OK(sab_histogram_write(histogram, bytes.data, sizeof bytes.data, &bytes.size));
    EXPECT(bytes.size <= sizeof bytes.data);
    return bytes;
}

static int are_equal(const sab_histogram *one, const sab_histogram *other) {
    const struct bytes a = bytes_of(one), b = bytes_of(other);
    return a.size == b.size && memcmp(a.data, b.data, a.size) == 0;
}

static sab_plan *plan_of(const sab_histogram *histogram, const sab_plan_options *options) {
    sab_plan *plan = NULL;
    EXPECT_OK(sab_histogram_plan_new(histogram, options, &plan));
    return plan;
}

static sab_plan_info facts_of(const sab_plan *plan) {
    sab_plan_info info = SAB_PLAN_INFO_INIT;
    EXPECT_OK(sab_plan_get_info(plan, &info));
    return info;
}

static void entries_are_sorted_counts_of_sizes(void) {
    const int32_t numbers[] = {7, 3, 7, 9, 3, 7};
    sab_histogram *histogram = histogram_of(numbers, 6);
    const sab_histogram_info info = info_of(histogram);
    const double *const sizes = info.entry_sizes;
    const uint64_t *const counts = info.entry_counts;
    EXPECT(sizes[0] == 3 && sizes[1] == 7 && sizes[2] == 9);
    EXPECT(counts[0] == 2 && counts[1] == 3 && counts[2] == 1);
    EXPECT(info.entry_sources == NULL);
    EXPECT(info.samples == 6 && info.entries == 3 && info.total == 36);
    EXPECT(info.columns == 1 && info.sources == 0);
    sab_histogram_free(histogram);
    sab_histogram_free(NULL);
}

/* Parts of 300 samples, merged in two orders. */
static void merging_in_any_order_gives_the_same_bytes(void) {
    sab_histogram *parts[10], *forward = NULL, *backward = NULL;
    sab_histogram *whole = histogram_of(lengths(MOST), MOST);
    EXPECT_OK(sab_histogram_new(&forward));
    EXPECT_OK(sab_histogram_new(&backward));
    for (size_t i = 0; i < 10; ++i) parts[i] = histogram_of(lengths(MOST) + 30 * i, 30);
    for (size_t i = 0; i < 10; ++i) {
        EXPECT_OK(sab_histogram_merge(forward, parts[i]));
        EXPECT_OK(sab_histogram_merge(backward, parts[9 - i]));
    }
    EXPECT(are_equal(forward, whole) && are_equal(backward, whole));
    EXPECT(info_of(forward).fingerprint == info_of(whole).fingerprint);
    /* what is subtracted was never there */
    EXPECT_OK(sab_histogram_subtract(forward, parts[3]));
    EXPECT(!are_equal(forward, whole));
    EXPECT_OK(sab_histogram_merge(forward, parts[3]));
    EXPECT(are_equal(forward, whole));
    EXPECT_OK(sab_histogram_merge(forward, forward));
    EXPECT(info_of(forward).samples == 2 * MOST);
    EXPECT_OK(sab_histogram_subtract(forward, forward));
    EXPECT(info_of(forward).samples == 0 && info_of(forward).entries == 0);
    for (size_t i = 0; i < 10; ++i) sab_histogram_free(parts[i]);
    sab_histogram_free(whole);
    sab_histogram_free(forward);
    sab_histogram_free(backward);
}

static void subtracting_more_than_there_is_changes_nothing(void) {
    const int32_t few[] = {3, 5, 5}, many[] = {5, 5, 5};
    sab_histogram *histogram = histogram_of(few, 3), *other = histogram_of(many, 3);
    const struct bytes before = bytes_of(histogram);
    EXPECT_FAILS(sab_histogram_subtract(histogram, other), SAB_E_ARGUMENT,
                 "other: has 3 samples of size 5: must have at most 2");
    const struct bytes after = bytes_of(histogram);
    EXPECT(after.size == before.size && memcmp(after.data, before.data, after.size) == 0);
    sab_histogram_free(histogram);
    sab_histogram_free(other);
}

static void numbers_count_samples_of_the_same_size(void) {
    const int32_t first[] = {7, 3, 7}, second[] = {7, 4, 3, 7};
    sab_histogram *histogram = histogram_of(first, 3);
    sab_sizes *sizes = sizes_of(second, 4);
    uint64_t numbers[4];
    EXPECT_OK(sab_histogram_add(histogram, sizes, numbers));
    EXPECT(numbers[0] == 2 && numbers[1] == 0 && numbers[2] == 1 && numbers[3] == 3);
    EXPECT(info_of(histogram).samples == 7);
    sab_sizes_free(sizes);
    sab_histogram_free(histogram);
}

static void columns_and_sources_are_kept_apart(void) {
    const int32_t a[] = {5, 5, 5, 2}, b[] = {1, 2, 1, 9};
    sab_sizes *parts[] = {sizes_of(a, 4), sizes_of(b, 4)}, *pairs = NULL, *mixture = NULL;
    sab_histogram *histogram = NULL, *mixed = NULL, *copy = NULL;
    uint64_t numbers[8];
    EXPECT_OK(sab_sizes_columns_new((const sab_sizes *const *)parts, NULL, 2, &pairs));
    EXPECT_OK(sab_histogram_new(&histogram));
    EXPECT_OK(sab_histogram_add(histogram, pairs, numbers));
    EXPECT(numbers[0] == 0 && numbers[1] == 0 && numbers[2] == 1 && numbers[3] == 0);
    EXPECT(info_of(histogram).entries == 3 && info_of(histogram).columns == 2);
    EXPECT(info_of(histogram).total == 30);
    EXPECT(info_of(histogram).column_names == NULL);

    EXPECT_OK(sab_mixture_new((const sab_sizes *const *)parts, 2, NULL, &mixture));
    EXPECT_OK(sab_histogram_new(&mixed));
    EXPECT_OK(sab_histogram_add(mixed, mixture, numbers));
    EXPECT(numbers[2] == 2 && numbers[5] == 0 && numbers[6] == 1);
    const double *const sizes = info_of(mixed).entry_sizes;
    const uint32_t *const sources = info_of(mixed).entry_sources;
    EXPECT(info_of(mixed).entries == 5 && info_of(mixed).sources == 2);
    EXPECT(sizes[0] == 2 && sources[0] == 0 && sizes[2] == 1 && sources[2] == 1);

    EXPECT_FAILS(sab_histogram_merge(mixed, histogram), SAB_E_MISMATCH, "has 2 columns");
    EXPECT_FAILS(sab_histogram_add(mixed, parts[0], NULL), SAB_E_MISMATCH, "sizes has 0 sources");
    sab_plan_options options = budget(100);
    sab_plan *plan = NULL;
    EXPECT_FAILS(sab_histogram_plan_new(mixed, &options, &plan), SAB_E_UNSUPPORTED, "a mixture");
    const struct bytes bytes = bytes_of(mixed);
    EXPECT_OK(sab_histogram_bytes_new(bytes.data, bytes.size, &copy));
    EXPECT(are_equal(copy, mixed));
    sab_histogram_free(copy);
    sab_histogram_free(mixed);
    sab_histogram_free(histogram);
    sab_sizes_free(mixture);
    sab_sizes_free(pairs);
    sab_sizes_free(parts[0]);
    sab_sizes_free(parts[1]);
}

static void columns_have_their_names(void) {
    sab_sizes *plain = sizes_of(lengths(9), 9), *named = NULL;
    sab_histogram *histogram = NULL;
    EXPECT_OK(named_sizes(plain, "tokens", &named));
    EXPECT_OK(sab_histogram_new(&histogram));
    EXPECT_OK(sab_histogram_add(histogram, named, NULL));
    EXPECT(strcmp(info_of(histogram).column_names[0], "tokens") == 0);
    sab_histogram_free(histogram);
    sab_sizes_free(named);
    sab_sizes_free(plain);
}

static void damaged_bytes_are_refused(void) {
    sab_histogram *histogram = histogram_of(lengths(100), 100), *copy = NULL;
    struct bytes bytes = bytes_of(histogram);
    EXPECT_OK(sab_histogram_bytes_new(bytes.data, bytes.size, &copy));
    EXPECT(are_equal(copy, histogram));
    sab_histogram_free(copy);
    for (size_t size = 0; size < bytes.size; size += 1 + size / 8)
        EXPECT_FAILS(sab_histogram_bytes_new(bytes.data, size, &copy), SAB_E_FORMAT,
                     "not a valid histogram");
    for (size_t at = 0; at < bytes.size; ++at) {
        bytes.data[at] ^= 4;
        EXPECT_FAILS(sab_histogram_bytes_new(bytes.data, bytes.size, &copy), SAB_E_FORMAT, "data");
        EXPECT(copy == NULL);
        bytes.data[at] ^= 4;
    }
    sab_histogram_free(histogram);
}

/* Random sizes and a plan of them. */
struct planned {
    size_t count;
    int32_t numbers[MOST];
    double sizes[2 * MOST]; /* of two columns a pair for each */
    uint64_t within[MOST];  /* the number of each within its size */
    double boundaries[4];
    uint64_t batch_size;
    sab_plan_options options;
};

static void draw_plan(struct planned *of) {
    of->count = 1 + below(1 + below(MOST));
    const uint64_t widest = 1 + below(1 + below(60));
    sab_histogram *histogram = NULL;
    for (size_t i = 0; i < of->count; ++i) {
        of->numbers[i] = (int32_t)(1 + below(widest));
        of->sizes[i] = of->numbers[i];
    }
    sab_sizes *sizes = sizes_of(of->numbers, of->count);
    EXPECT_OK(sab_histogram_new(&histogram));
    EXPECT_OK(sab_histogram_add(histogram, sizes, of->within));
    sab_sizes_free(sizes);
    sab_histogram_free(histogram);
    of->options = budget(below(4) == 0 ? 20 : (double)(60 + below(400)));
    of->options.tail = (sab_tail)below(3);
    of->options.oversize = below(2) == 0 ? SAB_OVERSIZE_SKIP : SAB_OVERSIZE_SINGLE;
    of->options.bucket_rule = (sab_bucket_rule)below(3);
    of->options.max_batch_size = below(3) == 0 ? 1 + below(20) : 0;
    if (of->options.bucket_rule == SAB_BUCKETS_AUTO && below(3) == 0)
        of->options.bucket_batches = 1 + below(5);
    if (of->options.bucket_rule == SAB_BUCKETS_OPTIMAL) of->options.bucket_count = 1 + below(6);
    if (of->options.bucket_rule == SAB_BUCKETS_BOUNDARIES) {
        for (int i = 0; i < 4; ++i) of->boundaries[i] = i * (double)(1 + below(15)) + i;
        of->boundaries[3] = 1000;
        of->boundaries[1] = 5;
        of->boundaries[2] = 12 + (double)below(9);
        of->options.boundaries = of->boundaries;
        of->options.boundary_count = 4;
    }
    if (of->options.bucket_rule == SAB_BUCKETS_AUTO && below(3) == 0)
        of->options.max_shapes = one_count(4), of->options.max_shape_count = 1;
}

/* The same buckets and facts, except the fingerprint. */
static int have_equal_buckets(const sab_plan *one, const sab_plan *other) {
    sab_plan_info a = facts_of(one), b = facts_of(other);
    a.fingerprint = b.fingerprint = 0;
    a.limits = b.limits = NULL;
    a.column_names = b.column_names = NULL;
    if (memcmp(&a, &b, sizeof a) != 0) return 0;
    for (size_t i = 0; i < a.buckets; ++i) {
        sab_bucket p = SAB_BUCKET_INIT, q = SAB_BUCKET_INIT;
        EXPECT_OK(sab_plan_get_bucket(one, i, &p));
        EXPECT_OK(sab_plan_get_bucket(other, i, &q));
        if (p.samples != q.samples || p.batch_size != q.batch_size || p.batches != q.batches ||
            p.cost != q.cost)
            return 0;
        for (size_t j = 0; j < a.columns; ++j)
            if (p.lower[j] != q.lower[j] || p.upper[j] != q.upper[j] ||
                p.shortest[j] != q.shortest[j] || p.longest[j] != q.longest[j] ||
                p.total[j] != q.total[j] || p.padded_length[j] != q.padded_length[j])
                return 0;
    }
    return 1;
}

/* An order of batches, and its inverse. */
struct order {
    const sab_plan *plan;       /* NULL: rows */
    const sab_packing *packing; /* of the rows */
    const sab_sizes *sizes;
    const sab_packed_options *pack;
};

static sab_status new_sampler(struct order order, const sab_sampler_options *options,
                              sab_sampler **sampler) {
    return order.plan != NULL ? sab_bucket_sampler_new(order.plan, options, sampler)
                              : sab_packed_sampler_new(order.sizes, order.pack, options, sampler);
}

/* The options, with another policy where none of the batches would be left. */
static sab_sampler_options settled(struct order order, sab_sampler_options options) {
    sab_sampler *sampler = NULL;
    if (leaves_nothing(new_sampler(order, &options, &sampler)))
        options.last_step = SAB_LAST_STEP_SPLIT;
    sab_sampler_free(sampler);
    return options;
}

static sab_status locate(struct order order, const sab_sampler_options *options,
                         const struct planned *of, const uint64_t *which,
                         const sab_places *places) {
    return order.plan != NULL ? sab_histogram_plan_locate(order.plan, options, NULL, of->sizes,
                                                          of->within, which, of->count, places)
                              : sab_packing_locate(order.packing, options, of->sizes, of->within,
                                                   which, of->count, places);
}

/* The samples that each rank takes, as its sampler shows them. */
struct taken {
    uint64_t batches[MOST_RANKS];
    int64_t *samples[MOST_RANKS][4 * MOST]; /* of each batch; ended by -1 */
    int64_t step[4 * MOST];
    uint64_t slots;
};

static void take_all(struct order order, sab_sampler_options options, struct taken *taken) {
    taken->slots = 0;
    for (options.rank = 0; options.rank < options.world_size; ++options.rank) {
        sab_sampler *sampler = NULL;
        sab_batch batch = SAB_BATCH_INIT;
        uint64_t b = 0;
        EXPECT_OK(new_sampler(order, &options, &sampler));
        for (; sab_next_batch(sampler, &batch) == SAB_OK && b < 4 * MOST; ++b) {
            int64_t *const copy = malloc((size_t)(batch.count + 1) * sizeof *copy);
            if (batch.count > 0) memcpy(copy, batch.indices, (size_t)batch.count * sizeof *copy);
            copy[batch.count] = -1;
            taken->samples[options.rank][b] = copy;
            taken->step[b] = (int64_t)batch.step;
            taken->slots += batch.count;
        }
        taken->batches[options.rank] = b;
        sab_sampler_free(sampler);
    }
}

static void free_taken(struct taken *taken, uint64_t world_size) {
    for (uint64_t rank = 0; rank < world_size; ++rank)
        for (uint64_t b = 0; b < taken->batches[rank]; ++b) free(taken->samples[rank][b]);
}

/* All places of all samples are those that the samplers show, each once, in order. */
static void expect_places(const struct planned *of, struct order order,
                          const sab_sampler_options *options, const struct taken *taken) {
    int64_t counts[MOST], ranks[MOST], batches[MOST], steps[MOST], slots[MOST], before[MOST];
    uint64_t which[MOST], found = 0;
    uint64_t batch_count = 0;
    const sab_places places = {sizeof places, counts, ranks, batches, steps, slots, &batch_count};
    for (size_t i = 0; i < of->count; ++i) before[i] = -1;
    int64_t most = 1;
    for (uint64_t asked = 0; asked <= (uint64_t)most; ++asked) {
        for (size_t i = 0; i < of->count; ++i) which[i] = asked;
        EXPECT_OK(locate(order, options, of, asked == 0 ? NULL : which, &places));
        for (size_t i = 0; i < of->count; ++i) {
            if (counts[i] > most) most = counts[i];
            if (asked >= (uint64_t)counts[i]) {
                EXPECT(ranks[i] == -1 && batches[i] == -1 && steps[i] == -1 && slots[i] == -1);
                continue;
            }
            ++found;
            EXPECT(ranks[i] >= 0 && ranks[i] < (int64_t)options->world_size);
            EXPECT(batches[i] >= 0 && batches[i] < (int64_t)taken->batches[ranks[i]]);
            if (failures_of_test > 0) return;
            int64_t *const samples = taken->samples[ranks[i]][batches[i]];
            for (int64_t k = 0; k < slots[i]; ++k) EXPECT(samples[k] != -1);
            EXPECT(samples[slots[i]] == (int64_t)i);
            EXPECT(steps[i] == taken->step[batches[i]]);
            EXPECT(batches[i] >= before[i]);
            before[i] = batches[i];
        }
    }
    EXPECT(found == taken->slots);
    EXPECT(batch_count == taken->batches[0]);
}

static sab_sampler_options draw_order(void) {
    sab_sampler_options options = SAB_SAMPLER_OPTIONS_INIT;
    options.seed = random_word();
    options.epoch = below(5);
    options.world_size = 1 + below(MOST_RANKS);
    options.micro_batches = 1 + below(3);
    options.last_step = (sab_last_step)below(3);
    options.costliest_first = below(3) == 0 ? below(9) : 0;
    return options;
}

static void places_are_those_of_the_samplers(void) {
    static struct planned of;
    static struct taken taken;
    random_state = 27;
    for (int round = 0; round < MOST_ROUNDS && failures_of_test == 0; ++round) {
        sab_plan *plan = NULL, *counted = NULL;
        do {
            draw_plan(&of);
            sab_sizes *sizes = sizes_of(of.numbers, of.count);
            (void)sab_plan_new(sizes, &of.options, &plan); /* may have no sample left */
            sab_sizes_free(sizes);
        } while (plan == NULL);
        sab_histogram *histogram = histogram_of(of.numbers, of.count);
        counted = plan_of(histogram, &of.options);
        EXPECT(have_equal_buckets(plan, counted));
        const struct order with_indices = {plan, NULL, NULL, NULL};
        const struct order without_indices = {counted, NULL, NULL, NULL};
        const sab_sampler_options options = settled(with_indices, draw_order());
        take_all(with_indices, options, &taken);
        expect_places(&of, with_indices, &options, &taken);
        expect_places(&of, without_indices, &options, &taken);
        if (failures_of_test > 0) fprintf(stderr, "in round %d\n", round);
        free_taken(&taken, options.world_size);
        sab_histogram_free(histogram);
        sab_plan_free(plan);
        sab_plan_free(counted);
    }
}

static sab_sizes *pairs_of(const int32_t *first, const int32_t *second, size_t count) {
    sab_sizes *parts[] = {sizes_of(first, count), sizes_of(second, count)}, *pairs = NULL;
    EXPECT_OK(sab_sizes_columns_new((const sab_sizes *const *)parts, NULL, 2, &pairs));
    sab_sizes_free(parts[0]);
    sab_sizes_free(parts[1]);
    return pairs;
}

/* Random sizes of two columns; corners are the boundaries. */
static sab_sizes *draw_pairs(struct planned *of, sab_histogram **histogram) {
    static double corners[] = {0, 0, 6, 9, 20, 9, 100, 100};
    static int32_t second[MOST];
    of->count = 1 + below(1 + below(MOST));
    const uint64_t widest = 1 + below(1 + below(40));
    for (size_t i = 0; i < of->count; ++i) {
        of->numbers[i] = (int32_t)below(widest);
        second[i] = (int32_t)(1 + below(widest));
        of->sizes[2 * i] = of->numbers[i];
        of->sizes[2 * i + 1] = second[i];
    }
    sab_sizes *pairs = pairs_of(of->numbers, second, of->count);
    EXPECT_OK(sab_histogram_new(histogram));
    EXPECT_OK(sab_histogram_add(*histogram, pairs, of->within));
    of->options = budget(below(4) == 0 ? 30 : (double)(80 + below(400)));
    of->options.tail = (sab_tail)below(3);
    of->options.oversize = below(2) == 0 ? SAB_OVERSIZE_SKIP : SAB_OVERSIZE_SINGLE;
    of->options.max_batch_size = below(3) == 0 ? 1 + below(20) : 0;
    of->options.length_multiples = one_number(below(3) == 0 ? 4 : 0),
    of->options.length_multiple_count = 1;
    if (below(3) == 0) {
        of->options.bucket_rule = SAB_BUCKETS_BOUNDARIES;
        of->options.boundaries = corners;
        of->options.boundary_count = 4;
    } else if (below(3) == 0) {
        of->options.max_shapes = one_count(4 + below(4)), of->options.max_shape_count = 1;
    }
    return pairs;
}

static void places_of_several_columns_are_those_of_the_samplers(void) {
    static struct planned of;
    static struct taken taken;
    static unsigned char bytes[1 << 17];
    random_state = 28;
    for (int round = 0; round < MOST_ROUNDS && failures_of_test == 0; ++round) {
        sab_plan *plan = NULL, *counted = NULL, *copy = NULL;
        sab_histogram *histogram = NULL;
        size_t size = 0;
        do {
            sab_histogram_free(histogram);
            sab_sizes *pairs = draw_pairs(&of, &histogram);
            (void)sab_plan_new(pairs, &of.options, &plan); /* may have no sample left */
            sab_sizes_free(pairs);
        } while (plan == NULL);
        counted = plan_of(histogram, &of.options);
        EXPECT(have_equal_buckets(plan, counted));
        EXPECT_OK(sab_plan_write(counted, bytes, sizeof bytes, &size));
        EXPECT_OK(sab_plan_bytes_new(bytes, size, &copy));
        const struct order with_indices = {plan, NULL, NULL, NULL};
        const struct order without_indices = {copy, NULL, NULL, NULL};
        const sab_sampler_options options = settled(with_indices, draw_order());
        take_all(with_indices, options, &taken);
        expect_places(&of, without_indices, &options, &taken);
        if (failures_of_test > 0) fprintf(stderr, "in round %d\n", round);
        free_taken(&taken, options.world_size);
        sab_histogram_free(histogram);
        sab_plan_free(plan);
        sab_plan_free(counted);
        sab_plan_free(copy);
    }
}

static sab_packed_info packed_info_of(const sab_packing *packing) {
    sab_packed_info info = SAB_PACKED_INFO_INIT;
    EXPECT_OK(sab_packing_get_info(packing, &info));
    return info;
}

/* What the patterns hold. */
struct patterns {
    size_t count;
    const uint64_t *bins, *begins;
    const uint32_t *lengths, *sequences;
};

static struct patterns patterns_of(const sab_packing *packing) {
    struct patterns all = {0};
    EXPECT_OK(sab_packing_get_patterns(packing, &all.count, &all.bins, &all.begins, &all.lengths,
                                       &all.sequences));
    return all;
}

/* A number for the lengths of a bin so far. */
static uint64_t with_length(uint64_t lengths, uint64_t length) {
    return (lengths ^ (length + 1)) * UINT64_C(0x100000001B3) + (lengths >> 29);
}

static int compare_bins(const void *one, const void *other) {
    const uint64_t a = *(const uint64_t *)one, b = *(const uint64_t *)other;
    return a < b ? -1 : a > b;
}

/* The bins of the sampler are those of the patterns, in any order. */
static void expect_bins(const struct patterns *all, const sab_sizes *sizes,
                        const sab_packed_options *pack) {
    static uint64_t shown[100 * MOST], packed[100 * MOST];
    size_t bins = 0, packed_bins = 0;
    sab_sampler *sampler = NULL;
    sab_batch batch = SAB_BATCH_INIT;
    EXPECT_OK(sab_packed_sampler_new(sizes, pack, NULL, &sampler));
    for (; sab_next_batch(sampler, &batch) == SAB_OK && bins < 100 * MOST; ++bins) {
        sab_rows rows = SAB_ROWS_INIT;
        EXPECT_OK(sab_sampler_get_rows(sampler, &rows));
        shown[bins] = 0;
        for (uint64_t k = 0; k < batch.count; ++k)
            shown[bins] = with_length(
                shown[bins], (uint64_t)(rows.cu_seqlens[0][k + 1] - rows.cu_seqlens[0][k]));
    }
    sab_sampler_free(sampler);
    for (size_t i = 0; i < all->count; ++i) {
        uint64_t bin = 0;
        for (uint64_t p = all->begins[i]; p < all->begins[i + 1]; ++p)
            for (uint32_t k = 0; k < all->sequences[p]; ++k)
                bin = with_length(bin, all->lengths[p]);
        for (uint64_t k = 0; k < all->bins[i] && packed_bins < 100 * MOST; ++k)
            packed[packed_bins++] = bin;
    }
    EXPECT(bins == packed_bins);
    qsort(shown, bins, sizeof *shown, compare_bins);
    qsort(packed, packed_bins, sizeof *packed, compare_bins);
    EXPECT(memcmp(shown, packed, bins * sizeof *shown) == 0);
}

static void packings_and_their_places_are_those_of_the_sampler(void) {
    static struct planned of;
    static struct taken taken;
    random_state = 11;
    for (int round = 0; round < MOST_ROUNDS && failures_of_test == 0; ++round) {
        draw_plan(&of);
        if (below(2) == 0)
            for (size_t i = 0; i < of.count; ++i) of.sizes[i] = --of.numbers[i]; /* some empty */
        sab_packed_options pack = SAB_PACKED_OPTIONS_INIT;
        pack.method = below(2) == 0 ? SAB_PACK_BEST_FIT : SAB_PACK_HISTOGRAM;
        pack.capacities = one_count(1 + below(below(2) == 0 ? 60 : 400)), pack.capacity_count = 1;
        pack.max_sequences = below(2) == 0 ? 1 + below(20) : 0;
        pack.split = below(3) == 0;
        pack.oversize = SAB_OVERSIZE_SKIP;
        sab_sizes *sizes = sizes_of(of.numbers, of.count);
        sab_histogram *histogram = histogram_of(of.numbers, of.count);
        sab_sampler *sampler = NULL;
        sab_packing *packing = NULL;
        const sab_status status = sab_packed_sampler_new(sizes, &pack, NULL, &sampler);
        EXPECT(sab_histogram_packing_new(histogram, &pack, &packing) == status);
        if (status == SAB_OK) { /* it may have no sample left */
            sab_packed_info info = SAB_PACKED_INFO_INIT, counted = packed_info_of(packing);
            EXPECT_OK(sab_packed_sampler_get_info(sampler, &info));
            info.fingerprint = counted.fingerprint;
            EXPECT(memcmp(&info, &counted, sizeof info) == 0);
            const struct patterns all = patterns_of(packing);
            expect_bins(&all, sizes, &pack);
            const struct order rows = {NULL, packing, sizes, &pack};
            const sab_sampler_options options = settled(rows, draw_order());
            const sab_places none = SAB_PLACES_INIT;
            if (info.split > 0) {
                EXPECT_FAILS(locate(rows, &options, &of, NULL, &none), SAB_E_UNSUPPORTED,
                             "samples are split");
            } else {
                take_all(rows, options, &taken);
                expect_places(&of, rows, &options, &taken);
                free_taken(&taken, options.world_size);
            }
        }
        if (failures_of_test > 0) fprintf(stderr, "in round %d\n", round);
        sab_packing_free(packing);
        sab_sampler_free(sampler);
        sab_histogram_free(histogram);
        sab_sizes_free(sizes);
    }
}

/* 10^11 samples of 1,000 sizes. */
static sab_histogram *many_times(
    sab_histogram *histogram) { /* of 1,000 samples, which it changes */
    sab_histogram *sum = NULL;
    EXPECT_OK(sab_histogram_new(&sum));
    for (uint64_t left = 100000000; left > 0; left /= 2) { /* by its binary digits */
        if (left % 2 == 1) EXPECT_OK(sab_histogram_merge(sum, histogram));
        EXPECT_OK(sab_histogram_merge(histogram, histogram));
    }
    EXPECT(info_of(sum).samples == UINT64_C(100000000000));
    return sum;
}

static sab_histogram *large_histogram(void) {
    static int32_t numbers[1000];
    for (int i = 0; i < 1000; ++i) numbers[i] = i + 1;
    sab_histogram *histogram = histogram_of(numbers, 1000), *sum = many_times(histogram);
    sab_histogram_free(histogram);
    return sum;
}

/* Four samples of a plan that has 10^8 of each size lie on its ranks and in its batches. */
static void expect_places_of_four(const sab_plan *plan, const sab_sampler_options *at,
                                  const double *sizes) {
    const uint64_t numbers[] = {0, 99999999, 12345678, 99999999};
    int64_t batches[4], ranks[4], counts[4];
    const sab_places places = {sizeof places, counts, ranks, batches, NULL, NULL, NULL};
    EXPECT_OK(sab_histogram_plan_locate(plan, at, NULL, sizes, numbers, NULL, 4, &places));
    for (int i = 0; i < 4; ++i) {
        EXPECT(counts[i] == 1 && ranks[i] >= 0 && (uint64_t)ranks[i] < at->world_size);
        EXPECT(batches[i] >= 0 &&
               (uint64_t)batches[i] * at->world_size < facts_of(plan).batches + at->world_size);
    }
}

static void plans_of_more_samples_than_memory_have_places(void) {
    sab_histogram *histogram = large_histogram();
    sab_plan_options options = budget(16384);
    sab_plan *plan = plan_of(histogram, &options);
    const sab_plan_info info = facts_of(plan);
    EXPECT(info.samples == UINT64_C(100000000000) && info.skipped == 0);
    EXPECT(info.batches >= info.lower_bound && info.batches < info.lower_bound * 1.04);
    sab_sampler_options at = SAB_SAMPLER_OPTIONS_INIT;
    at.world_size = 4096;
    at.seed = 5;
    const double sizes[] = {1, 500, 1000, 1000};
    const sab_places places = SAB_PLACES_INIT;
    expect_places_of_four(plan, &at, sizes);
    const uint64_t beyond[] = {0, 100000000, 0, 0};
    EXPECT_FAILS(sab_histogram_plan_locate(plan, &at, NULL, sizes, beyond, NULL, 4, &places),
                 SAB_E_ARGUMENT,
                 "numbers[1] = 100000000: must be below the number of samples of size 500");
    EXPECT_FAILS(sab_histogram_subtract(NULL, histogram), SAB_E_ARGUMENT, "histogram = NULL");
    sab_plan_free(plan);
    for (int i = 0; i < 11; ++i) EXPECT_OK(sab_histogram_merge(histogram, histogram));
    EXPECT_FAILS(sab_histogram_merge(histogram, histogram), SAB_E_ARGUMENT, "at most 2^48");
    sab_histogram_free(histogram);
}

/* Pairs (i, 1001 - i), and 10^11 samples. */
static void pairs_of_more_samples_than_memory_have_places(void) {
    static int32_t first[1000], second[1000];
    for (int i = 0; i < 1000; ++i) second[999 - i] = first[i] = i + 1;
    sab_sizes *pairs = pairs_of(first, second, 1000);
    sab_histogram *histogram = NULL;
    EXPECT_OK(sab_histogram_new(&histogram));
    EXPECT_OK(sab_histogram_add(histogram, pairs, NULL));
    sab_sizes_free(pairs);
    sab_plan_options options = budget(16384);
    sab_histogram *const all = many_times(histogram);
    sab_plan *plan = plan_of(all, &options);
    const sab_plan_info info = facts_of(plan);
    EXPECT(info.samples == UINT64_C(100000000000) && info.skipped == 0 && info.columns == 2);
    EXPECT(info.batches >= info.lower_bound && info.batches < info.lower_bound * 1.1);
    sab_sampler_options at = SAB_SAMPLER_OPTIONS_INIT;
    at.world_size = 4096;
    const double sizes[] = {1, 1000, 400, 601, 1000, 1, 1000, 1};
    const sab_places places = SAB_PLACES_INIT;
    expect_places_of_four(plan, &at, sizes);
    const double other[] = {1, 999}, none[] = {NAN, 1000};
    const uint64_t beyond = 100000000;
    EXPECT_FAILS(sab_histogram_plan_locate(plan, &at, NULL, other, &beyond, NULL, 1, &places),
                 SAB_E_ARGUMENT, "sizes[0] = (1, 999): must be the size of samples of the plan");
    EXPECT_FAILS(sab_histogram_plan_locate(plan, &at, NULL, none, &beyond, NULL, 1, &places),
                 SAB_E_ARGUMENT, "sizes[0] = (nan, 1000)");
    EXPECT_FAILS(sab_histogram_plan_locate(plan, &at, NULL, sizes, &beyond, NULL, 1, &places),
                 SAB_E_ARGUMENT,
                 "must be below the number of samples of size (1, 1000), 100000000");
    sab_plan_free(plan);
    sab_histogram_free(histogram);
    sab_histogram_free(all);
}

static void damaged_runs_are_refused(void) {
    sab_sizes *pairs = pairs_of(lengths(200), lengths(201) + 1, 200);
    sab_histogram *histogram = NULL;
    sab_plan *copy = NULL;
    static unsigned char bytes[1 << 15];
    size_t size = 0;
    EXPECT_OK(sab_histogram_new(&histogram));
    EXPECT_OK(sab_histogram_add(histogram, pairs, NULL));
    sab_plan_options options = budget(300);
    sab_plan *plan = plan_of(histogram, &options);
    EXPECT_OK(sab_plan_write(plan, bytes, sizeof bytes, &size));
    for (size_t at = 0; at < size; at += 1 + at % 3) {
        bytes[at] ^= 1;
        EXPECT_FAILS(sab_plan_bytes_new(bytes, size, &copy), SAB_E_FORMAT, "data");
        bytes[at] ^= 1;
        EXPECT_FAILS(sab_plan_bytes_new(bytes, at, &copy), SAB_E_FORMAT, "data");
    }
    EXPECT_OK(sab_plan_check(plan));
    sab_plan_free(plan);
    sab_histogram_free(histogram);
    sab_sizes_free(pairs);
}

static void packings_of_more_samples_than_memory_have_places(void) {
    sab_histogram *histogram = large_histogram();
    for (sab_pack_method method = SAB_PACK_BEST_FIT; method <= SAB_PACK_HISTOGRAM; ++method) {
        sab_packed_options pack = SAB_PACKED_OPTIONS_INIT;
        sab_packing *packing = NULL;
        pack.method = method;
        pack.capacities = one_count(4096), pack.capacity_count = 1;
        EXPECT_OK(sab_histogram_packing_new(histogram, &pack, &packing));
        const sab_packed_info info = packed_info_of(packing);
        EXPECT(info.samples == UINT64_C(100000000000) && info.sequences == info.samples);
        EXPECT(info.bins >= info.lower_bound && info.bins < info.lower_bound + 100);
        const struct patterns all = patterns_of(packing);
        uint64_t bins = 0, in_bins[1001] = {0};
        for (size_t i = 0; i < all.count; ++i) {
            uint64_t total = 0;
            bins += all.bins[i];
            for (uint64_t p = all.begins[i]; p < all.begins[i + 1]; ++p) {
                total += (uint64_t)all.sequences[p] * all.lengths[p];
                in_bins[all.lengths[p]] += all.bins[i] * all.sequences[p];
            }
            EXPECT(total <= 4096);
        }
        EXPECT(bins == info.bins);
        for (int length = 1; length <= 1000; ++length) EXPECT(in_bins[length] == 100000000);

        sab_sampler_options at = SAB_SAMPLER_OPTIONS_INIT;
        at.world_size = 4096;
        at.seed = 5;
        const double sizes[] = {1, 500, 1000, 1000};
        const uint64_t numbers[] = {0, 99999999, 12345678, 99999999};
        int64_t batches[4], ranks[4], counts[4], slots[4];
        const sab_places places = {sizeof places, counts, ranks, batches, NULL, slots, NULL};
        EXPECT_OK(sab_packing_locate(packing, &at, sizes, numbers, NULL, 4, &places));
        for (int i = 0; i < 4; ++i) {
            EXPECT(counts[i] == 1 && ranks[i] >= 0 && ranks[i] < 4096);
            EXPECT(batches[i] >= 0 && (uint64_t)batches[i] * 4096 < info.bins + 4096);
            EXPECT(slots[i] >= 0 && (uint64_t)slots[i] < info.most_sequences);
        }
        sab_packing_free(packing);
    }
    sab_histogram_free(histogram);
}

static void packings_of_other_histograms_are_refused(void) {
    const int32_t a[] = {5, 5, 50, 2};
    const double half[] = {0.5, 2}, size = 5, odd = 5.5, skipped = 50;
    const uint64_t number = 0, beyond = 2;
    sab_sizes *parts[] = {sizes_of(a, 4), NULL}, *pairs = NULL, *mixture = NULL;
    sab_histogram *whole = histogram_of(a, 4), *halves = NULL, *two = NULL, *mixed = NULL;
    sab_packed_options pack = SAB_PACKED_OPTIONS_INIT;
    sab_packing *packing = NULL;
    pack.method = SAB_PACK_BEST_FIT;
    parts[1] = parts[0];
    EXPECT_OK(sab_histogram_new(&halves));
    EXPECT_OK(sab_histogram_new(&two));
    EXPECT_OK(sab_histogram_new(&mixed));
    EXPECT_OK(sab_sizes_columns_new((const sab_sizes *const *)parts, NULL, 2, &pairs));
    EXPECT_OK(sab_mixture_new((const sab_sizes *const *)parts, 2, NULL, &mixture));
    EXPECT_OK(sab_histogram_add(two, pairs, NULL));
    EXPECT_OK(sab_histogram_add(mixed, mixture, NULL));
    sab_sizes_free(mixture);
    sab_sizes_free(pairs);
    sab_sizes_free(parts[0]);
    EXPECT_OK(sab_sizes_new(half, 2, SAB_FLOAT64, NULL, &parts[0]));

    EXPECT_FAILS(sab_histogram_packing_new(whole, &pack, &packing), SAB_E_ARGUMENT,
                 "pack.capacity_count = 0: must be 1");
    pack.capacities = one_count(10), pack.capacity_count = 1;
    EXPECT_FAILS(sab_histogram_packing_new(halves, &pack, &packing), SAB_E_ARGUMENT,
                 "histogram.samples = 0: must be at least 1");
    EXPECT_OK(sab_histogram_add(halves, parts[0], NULL));
    EXPECT_FAILS(sab_histogram_packing_new(halves, &pack, &packing), SAB_E_ARGUMENT,
                 "size = 0.5: must be a whole number");
    EXPECT_FAILS(sab_histogram_packing_new(two, &pack, &packing), SAB_E_UNSUPPORTED,
                 "has 2 columns");
    EXPECT_FAILS(sab_histogram_packing_new(mixed, &pack, &packing), SAB_E_UNSUPPORTED, "a mixture");
    EXPECT_FAILS(sab_histogram_packing_new(whole, &pack, &packing), SAB_E_ARGUMENT,
                 "size = 50: must be at most the capacity, 10; 1 of 4 samples are longer");
    EXPECT_FAILS(sab_histogram_packing_new(whole, NULL, &packing), SAB_E_ARGUMENT, "pack = NULL");
    EXPECT_FAILS(sab_histogram_packing_new(NULL, &pack, &packing), SAB_E_ARGUMENT,
                 "histogram = NULL");
    EXPECT_FAILS(sab_packing_get_info(NULL, NULL), SAB_E_ARGUMENT, "packing = NULL");
    EXPECT_FAILS(sab_packing_get_patterns(NULL, NULL, NULL, NULL, NULL, NULL), SAB_E_ARGUMENT,
                 "packing = NULL");
    EXPECT(packing == NULL);
    pack.oversize = SAB_OVERSIZE_SKIP;
    for (pack.method = SAB_PACK_SHUFFLED; pack.method <= SAB_PACK_CONCAT;
         pack.method += SAB_PACK_CONCAT - SAB_PACK_SHUFFLED)
        EXPECT_FAILS(sab_histogram_packing_new(whole, &pack, &packing), SAB_E_UNSUPPORTED,
                     "pack the samples in their order");
    pack.method = SAB_PACK_BEST_FIT;

    EXPECT_OK(sab_histogram_packing_new(whole, &pack, &packing));
    int64_t slot = 7, count = 7;
    sab_places places = SAB_PLACES_INIT;
    places.counts = &count;
    places.slots = &slot;
    EXPECT_FAILS(sab_packing_locate(packing, NULL, &odd, &number, NULL, 1, &places), SAB_E_ARGUMENT,
                 "sizes[0] = 5.5: must be the size of samples of the packing");
    EXPECT_FAILS(sab_packing_locate(packing, NULL, &size, &beyond, NULL, 1, &places),
                 SAB_E_ARGUMENT, "numbers[0] = 2: must be below the number of samples of size 5");
    EXPECT_FAILS(sab_packing_locate(NULL, NULL, &size, &number, NULL, 1, &places), SAB_E_ARGUMENT,
                 "packing = NULL");
    EXPECT(slot == 7 && count == 7);
    EXPECT_OK(sab_packing_locate(packing, NULL, &skipped, &number, NULL, 1, &places));
    EXPECT(slot == -1 && count == 0);
    EXPECT_OK(sab_packing_locate(packing, NULL, NULL, NULL, NULL, 0, &places));
    sab_packing_free(packing);
    pack.split = 1;
    pack.capacities = one_count(4), pack.capacity_count = 1;
    for (int i = 0; i < 45; ++i) EXPECT_OK(sab_histogram_merge(whole, whole));
    EXPECT_FAILS(sab_histogram_packing_new(whole, &pack, &packing), SAB_E_ARGUMENT,
                 "split into pieces of 4 they are more than 281474976710656");
    pack.capacities = one_count(1000000000), pack.capacity_count = 1;
    EXPECT_OK(sab_histogram_packing_new(whole, &pack, &packing));
    EXPECT(packed_info_of(packing).total == 62 * 0x1p45);
    sab_packing_free(packing);
    sab_packing_free(NULL);
    sab_sizes_free(parts[0]);
    sab_histogram_free(whole);
    sab_histogram_free(halves);
    sab_histogram_free(two);
    sab_histogram_free(mixed);
}

/* 2^62 tokens are the most. */
static void packings_of_too_many_tokens_are_refused(void) {
    const int32_t numbers[] = {2147483647, 2147483647};
    sab_histogram *histogram = histogram_of(numbers, 2);
    sab_packed_options pack = SAB_PACKED_OPTIONS_INIT;
    sab_packing *packing = NULL;
    pack.method = SAB_PACK_BEST_FIT;
    pack.capacities = one_count(2147483647), pack.capacity_count = 1;
    for (int i = 0; i < 30; ++i) EXPECT_OK(sab_histogram_merge(histogram, histogram));
    EXPECT_OK(sab_histogram_packing_new(histogram, &pack, &packing));
    EXPECT(packed_info_of(packing).bins == UINT64_C(1) << 31);
    EXPECT(packed_info_of(packing).lower_bound == UINT64_C(1) << 31);
    sab_packing_free(packing);
    EXPECT_OK(sab_histogram_merge(histogram, histogram));
    EXPECT_FAILS(sab_histogram_packing_new(histogram, &pack, &packing), SAB_E_ARGUMENT,
                 "must be at most 2^62");
    sab_histogram_free(histogram);
}

static void plans_without_indices_are_saved_and_refuse_samplers(void) {
    sab_histogram *histogram = histogram_of(lengths(500), 500);
    sab_plan_options options = budget(300);
    sab_plan *plan = plan_of(histogram, &options), *copy = NULL;
    static unsigned char bytes[1 << 16];
    size_t size = 0;
    EXPECT_OK(sab_plan_write(plan, bytes, sizeof bytes, &size));
    EXPECT(size > 0 && size <= sizeof bytes);
    EXPECT_OK(sab_plan_bytes_new(bytes, size, &copy));
    EXPECT(facts_of(copy).fingerprint == facts_of(plan).fingerprint);
    EXPECT(have_equal_buckets(copy, plan));
    EXPECT_OK(sab_plan_check(copy));
    sab_plan_free(copy);
    EXPECT_OK(sab_plan_copy_new(plan, &copy));
    EXPECT(have_equal_buckets(copy, plan));
    sab_plan_free(copy);
    for (size_t at = 0; at < size; at += 1 + at % 5) {
        bytes[at] ^= 1;
        EXPECT_FAILS(sab_plan_bytes_new(bytes, size, &copy), SAB_E_FORMAT, "data");
        bytes[at] ^= 1;
    }
    sab_sampler *sampler = NULL;
    sab_plan_report report = SAB_PLAN_REPORT_INIT;
    size_t skipped = 0;
    sab_bionemo_options bionemo = SAB_BIONEMO_OPTIONS_INIT;
    EXPECT_FAILS(sab_bucket_sampler_new(plan, NULL, &sampler), SAB_E_UNSUPPORTED, "no sample ind");
    EXPECT_FAILS(sab_sequential_sampler_new(plan, NULL, &sampler), SAB_E_UNSUPPORTED, "histogram");
    EXPECT_FAILS(sab_costliest_sampler_new(plan, 1, &sampler), SAB_E_UNSUPPORTED, "histogram");
    EXPECT_FAILS(sab_bionemo_sampler_new(plan, &bionemo, &sampler), SAB_E_UNSUPPORTED, "histogram");
    EXPECT_FAILS(sab_plan_get_report(plan, NULL, NULL, &report), SAB_E_UNSUPPORTED, "histogram");
    EXPECT_FAILS(sab_plan_get_skipped(plan, NULL, 0, &skipped), SAB_E_UNSUPPORTED, "histogram");
    sab_plan_free(plan);
    sab_histogram_free(histogram);
}

static void wrong_arguments_are_refused(void) {
    sab_histogram *histogram = histogram_of(lengths(50), 50), *none = NULL, *empty = NULL;
    sab_plan_options options = budget(300);
    sab_plan *plan = plan_of(histogram, &options), *other = NULL;
    const double size = lengths(50)[0], odd = size + 0.5, no_number = NAN;
    const uint64_t number = 0;
    int64_t rank = 7;
    sab_places places = SAB_PLACES_INIT;
    places.ranks = &rank;
    EXPECT_FAILS(sab_histogram_plan_locate(plan, NULL, NULL, &odd, &number, NULL, 1, &places),
                 SAB_E_ARGUMENT, "must be the size of samples of the plan");
    EXPECT_FAILS(sab_histogram_plan_locate(plan, NULL, NULL, &no_number, &number, NULL, 1, &places),
                 SAB_E_ARGUMENT, "sizes[0] = nan");
    EXPECT_FAILS(sab_histogram_plan_locate(NULL, NULL, NULL, &size, &number, NULL, 1, &places),
                 SAB_E_ARGUMENT, "plan = NULL");
    EXPECT_FAILS(sab_histogram_plan_locate(plan, NULL, NULL, NULL, &number, NULL, 1, &places),
                 SAB_E_ARGUMENT, "sizes = NULL");
    EXPECT_FAILS(sab_histogram_plan_locate(plan, NULL, NULL, &size, NULL, NULL, 1, &places),
                 SAB_E_ARGUMENT, "numbers = NULL");
    EXPECT_FAILS(sab_histogram_plan_locate(plan, NULL, NULL, &size, &number, NULL, 1, NULL),
                 SAB_E_ARGUMENT, "places = NULL");
    EXPECT(rank == 7);
    EXPECT_OK(sab_histogram_plan_locate(plan, NULL, NULL, &size, &number, NULL, 1, &places));
    EXPECT(rank == 0);
    EXPECT_OK(sab_histogram_plan_locate(plan, NULL, NULL, NULL, NULL, NULL, 0, &places));
    EXPECT_OK(sab_histogram_new(&empty));
    EXPECT(info_of(empty).columns == 0 && info_of(empty).samples == 0);
    EXPECT_FAILS(sab_histogram_plan_new(empty, &options, &other), SAB_E_ARGUMENT,
                 "must be at least 1");
    const int64_t id = 1;
    options.separate_by = &id;
    options.separate_by_count = 1;
    EXPECT_FAILS(sab_histogram_plan_new(histogram, &options, &other), SAB_E_UNSUPPORTED,
                 "separate_by");
    EXPECT_FAILS(sab_histogram_bytes_new(NULL, 1, &none), SAB_E_ARGUMENT, "data = NULL");
    EXPECT_FAILS(sab_histogram_new(NULL), SAB_E_ARGUMENT, "histogram = NULL");
    sab_histogram_free(empty);
    sab_histogram_free(histogram);
    sab_plan_free(plan);
}

static void plans_whose_order_has_no_inverse_are_refused(void) {
    const int32_t a[] = {5, 5, 5, 2}, b[] = {1, 2, 1, 9};
    const int64_t ids[] = {0, 1, 0, 1};
    sab_sizes *parts[] = {sizes_of(a, 4), sizes_of(b, 4)}, *pairs = NULL, *mixture = NULL;
    const double size = 5;
    const uint64_t number = 0;
    const sab_places places = SAB_PLACES_INIT;
    sab_plan *plan = NULL;
    sab_plan_options options = budget(100);
    EXPECT_OK(sab_sizes_columns_new((const sab_sizes *const *)parts, NULL, 2, &pairs));
    EXPECT_OK(sab_mixture_new((const sab_sizes *const *)parts, 2, NULL, &mixture));
    EXPECT_OK(sab_plan_new(pairs, &options, &plan));
    EXPECT_FAILS(sab_histogram_plan_locate(plan, NULL, NULL, &size, &number, NULL, 1, &places),
                 SAB_E_UNSUPPORTED, "2 columns");
    sab_plan_free(plan);
    EXPECT_OK(sab_plan_new(mixture, &options, &plan));
    EXPECT_FAILS(sab_histogram_plan_locate(plan, NULL, NULL, &size, &number, NULL, 1, &places),
                 SAB_E_UNSUPPORTED, "mixture");
    sab_plan_free(plan);
    options.separate_by = ids;
    options.separate_by_count = 4;
    EXPECT_OK(sab_plan_new(parts[0], &options, &plan));
    EXPECT_FAILS(sab_histogram_plan_locate(plan, NULL, NULL, &size, &number, NULL, 1, &places),
                 SAB_E_UNSUPPORTED, "ids separate");
    sab_plan_free(plan);
    sab_sizes_free(mixture);
    sab_sizes_free(pairs);
    sab_sizes_free(parts[0]);
    sab_sizes_free(parts[1]);
}

/* Samples of a mixture, of one column or of two. */
struct mixed {
    size_t count, columns, sources;
    int32_t numbers[2][MOST];
    int64_t ids[MOST];
    uint32_t sources_of[MOST];
    double sizes[2 * MOST];
    uint64_t within[MOST];
    double repeats[4];
    sab_plan_options options;
};

static sab_histogram *draw_mixture(struct mixed *of) {
    static const double repeats[] = {0, 0.3, 0.5, 1, 1, 1.75, 2, 4.2};
    sab_mixture_options once = SAB_MIXTURE_OPTIONS_INIT;
    sab_sizes *sizes = NULL, *mixture = NULL;
    sab_histogram *histogram = NULL;
    of->columns = 1 + below(2);
    of->sources = 1 + below(4);
    of->count = of->sources + below(1 + below(MOST - 4));
    const uint64_t widest = 1 + below(1 + below(40));
    for (size_t i = 0; i < of->count; ++i) {
        of->ids[i] = (int64_t)(i < of->sources ? i : below(of->sources));
        of->sources_of[i] = (uint32_t)of->ids[i];
        for (size_t j = 0; j < of->columns; ++j) {
            of->numbers[j][i] = (int32_t)(1 + below(widest));
            of->sizes[of->columns * i + j] = of->numbers[j][i];
        }
    }
    for (size_t s = 0; s < of->sources; ++s) of->repeats[s] = repeats[below(8)];
    of->repeats[0] += 0.5;
    sizes = of->columns == 1 ? sizes_of(of->numbers[0], of->count)
                             : pairs_of(of->numbers[0], of->numbers[1], of->count);
    EXPECT_OK(mixture_by_ids(sizes, of->ids, of->count, &once, &mixture));
    EXPECT_OK(sab_histogram_new(&histogram));
    EXPECT_OK(sab_histogram_add(histogram, mixture, of->within));
    sab_sizes_free(sizes);
    sab_sizes_free(mixture);
    of->options = budget(below(4) == 0 ? 30 : (double)(80 + below(400)));
    of->options.tail = (sab_tail)below(3);
    of->options.oversize = below(2) == 0 ? SAB_OVERSIZE_SKIP : SAB_OVERSIZE_SINGLE;
    of->options.max_batch_size = below(3) == 0 ? 1 + below(20) : 0;
    return histogram;
}

/* The sizes of the samples of an epoch, each as often as it appears. */
static sab_sizes *sizes_of_epoch(const sab_histogram *of_epoch) {
    static int32_t numbers[2][8 * MOST];
    const sab_histogram_info info = info_of(of_epoch);
    const double *const sizes = info.entry_sizes;
    const uint64_t *const counts = info.entry_counts;
    size_t all = 0;
    for (size_t k = 0; k < info.entries; ++k)
        for (uint64_t i = 0; i < counts[k] && all < 8 * MOST; ++i, ++all)
            for (size_t j = 0; j < info.columns; ++j)
                numbers[j][all] = (int32_t)sizes[k * info.columns + j];
    EXPECT(all == info.samples);
    return info.columns == 1 ? sizes_of(numbers[0], all) : pairs_of(numbers[0], numbers[1], all);
}

/* A place of a sample, in one number that sorts by rank, batch and slot. */
struct place {
    uint64_t key;
    size_t sample;
};

static int compare_places(const void *one, const void *other) {
    const uint64_t a = ((const struct place *)one)->key, b = ((const struct place *)other)->key;
    return a < b ? -1 : a > b;
}

/* Finds all places of all samples, in order. Returns their number. */
static size_t all_places(const sab_plan *plan, const struct mixed *of,
                         const sab_sampler_options *options, int64_t *counts, struct place *all) {
    int64_t ranks[MOST], batches[MOST], steps[MOST], slots[MOST], before[MOST], most = 1;
    uint64_t which[MOST], batch_count = 0;
    size_t found = 0;
    const sab_places places = {sizeof places, counts, ranks, batches, steps, slots, &batch_count};
    for (uint64_t asked = 0; asked <= (uint64_t)most; ++asked) {
        for (size_t i = 0; i < of->count; ++i) which[i] = asked;
        EXPECT_OK(sab_histogram_plan_locate(plan, options, of->sources_of, of->sizes, of->within,
                                            asked == 0 ? NULL : which, of->count, &places));
        for (size_t i = 0; i < of->count; ++i) {
            if (counts[i] > most) most = counts[i];
            if (asked >= (uint64_t)counts[i]) {
                EXPECT(ranks[i] == -1 && batches[i] == -1 && steps[i] == -1 && slots[i] == -1);
                continue;
            }
            EXPECT(ranks[i] >= 0 &&
                   (uint64_t)ranks[i] < (options->world_size > 0 ? options->world_size : 1));
            EXPECT(batches[i] >= 0 && (uint64_t)batches[i] < batch_count);
            EXPECT(steps[i] ==
                   batches[i] / (int64_t)(options->micro_batches > 0 ? options->micro_batches : 1));
            EXPECT(slots[i] >= 0 && slots[i] < 1 << 20);
            EXPECT(asked == 0 || batches[i] >= before[i]);
            before[i] = batches[i];
            all[found++] = (struct place){
                ((uint64_t)ranks[i] << 20 | (uint64_t)batches[i]) << 20 | (uint64_t)slots[i], i};
        }
    }
    qsort(all, found, sizeof *all, compare_places);
    return found;
}

/* The slots of a batch follow each other from 0, and hold the budget. */
static void expect_batches(const struct place *all, size_t count, const struct mixed *of) {
    for (size_t k = 0, first = 0; k < count; ++k) {
        const int is_new = k == 0 || all[k].key >> 20 != all[k - 1].key >> 20;
        if (is_new) first = k;
        EXPECT((all[k].key & 0xFFFFF) == k - first);
        double longest[2] = {0, 0};
        for (size_t i = first; i <= k; ++i)
            for (size_t j = 0; j < of->columns; ++j)
                longest[j] = fmax(longest[j], of->sizes[of->columns * all[i].sample + j]);
        if (k > first)
            EXPECT((longest[0] + longest[1]) * (double)(k - first + 1) <=
                   of->options.budgets[0].limit);
    }
}

static void epochs_of_mixtures_have_plans_and_places(void) {
    static struct mixed of;
    static struct taken taken;
    static struct place all[16 * MOST];
    static unsigned char bytes[1 << 17];
    random_state = 31;
    for (int round = 0; round < MOST_ROUNDS && failures_of_test == 0; ++round) {
        sab_histogram *histogram = draw_mixture(&of), *of_epoch = NULL;
        sab_sampler_options options = draw_order();
        EXPECT_OK(sab_histogram_epoch_new(histogram, of.repeats, of.sources, options.epoch, 3,
                                          &of_epoch));
        sab_sizes *sizes = sizes_of_epoch(of_epoch);
        sab_plan *plan = NULL, *counted = NULL, *copy = NULL;
        const sab_status status = sab_plan_new(sizes, &of.options, &plan);
        EXPECT(sab_histogram_plan_new(of_epoch, &of.options, &counted) == status);
        if (status == SAB_OK) { /* it may have no sample left */
            const struct order order = {plan, NULL, NULL, NULL};
            options = settled(order, options);
            size_t size = 0;
            int64_t counts[MOST];
            EXPECT(facts_of(plan).second_buckets > 0 || have_equal_buckets(plan, counted));
            EXPECT_OK(sab_plan_write(counted, bytes, sizeof bytes, &size));
            EXPECT_OK(sab_plan_bytes_new(bytes, size, &copy));
            EXPECT(facts_of(copy).fingerprint == facts_of(counted).fingerprint);
            const size_t found = all_places(copy, &of, &options, counts, all);
            expect_batches(all, found, &of);
            if (options.last_step == SAB_LAST_STEP_SPLIT) {
                take_all(order, options, &taken);
                EXPECT(found == taken.slots);
                free_taken(&taken, options.world_size);
            }
        }
        if (failures_of_test > 0) fprintf(stderr, "in round %d\n", round);
        sab_sizes_free(sizes);
        sab_histogram_free(histogram);
        sab_histogram_free(of_epoch);
        sab_plan_free(plan);
        sab_plan_free(counted);
        sab_plan_free(copy);
    }
}

static void samples_of_a_source_appear_equally_often_over_epochs(void) {
    static struct mixed of;
    static struct place all[16 * MOST];
    random_state = 32;
    for (int round = 0; round < 40 && failures_of_test == 0; ++round) {
        int64_t sums[MOST] = {0}, counts[MOST];
        sab_histogram *histogram = draw_mixture(&of);
        of.options = budget(10000);
        for (uint64_t epoch = 0; epoch < 12; ++epoch) {
            sab_histogram *of_epoch = NULL;
            sab_sampler_options options = SAB_SAMPLER_OPTIONS_INIT;
            int64_t least[4], most[4], taken[4] = {0}, samples[4] = {0};
            options.epoch = epoch;
            EXPECT_OK(
                sab_histogram_epoch_new(histogram, of.repeats, of.sources, epoch, 9, &of_epoch));
            sab_plan *plan = plan_of(of_epoch, &of.options);
            (void)all_places(plan, &of, &options, counts, all);
            for (size_t s = 0; s < of.sources; ++s) least[s] = INT64_MAX, most[s] = 0;
            for (size_t i = 0; i < of.count; ++i) {
                const uint32_t s = of.sources_of[i];
                EXPECT((double)counts[i] > of.repeats[s] - 1 &&
                       (double)counts[i] < of.repeats[s] + 1);
                sums[i] += counts[i];
                taken[s] += counts[i];
                ++samples[s];
                if (sums[i] < least[s]) least[s] = sums[i];
                if (sums[i] > most[s]) most[s] = sums[i];
            }
            for (size_t s = 0; s < of.sources; ++s) {
                EXPECT(most[s] - least[s] <= 1);
                EXPECT(taken[s] == (int64_t)nearbyint((double)samples[s] * of.repeats[s]));
            }
            sab_plan_free(plan);
            sab_histogram_free(of_epoch);
        }
        sab_histogram_free(histogram);
    }
}

/* Many samples of three sources, of which some appear twice in an epoch and some not. */
enum { MANY = 20000 };
struct many {
    int32_t numbers[MANY];
    int64_t ids[MANY];
    uint32_t sources[MANY];
    double sizes[MANY];
    uint64_t within[MANY];
};

/* The sizes of a source are near 20 * 4^source, or near 20. */
static sab_histogram *histogram_of_many(struct many *of, int are_alike) {
    sab_mixture_options once = SAB_MIXTURE_OPTIONS_INIT;
    sab_sizes *sizes = NULL, *mixture = NULL;
    sab_histogram *histogram = NULL;
    random_state = 33;
    for (size_t i = 0; i < MANY; ++i) {
        of->sources[i] = (uint32_t)(i < 3 ? i : below(3));
        of->ids[i] = of->sources[i];
        const int32_t mean = are_alike ? 20 : 20 << (2 * of->sources[i]);
        of->numbers[i] = mean + (int32_t)below((uint64_t)mean);
        of->sizes[i] = of->numbers[i];
    }
    sizes = sizes_of(of->numbers, MANY);
    EXPECT_OK(mixture_by_ids(sizes, of->ids, MANY, &once, &mixture));
    EXPECT_OK(sab_histogram_new(&histogram));
    EXPECT_OK(sab_histogram_add(histogram, mixture, of->within));
    sab_sizes_free(sizes);
    sab_sizes_free(mixture);
    return histogram;
}

/* The largest distance of a source from its due after a step, in sizes of the largest batch; and
 * the largest difference of the numbers of its samples in two batches. */
static void measure_sources(const sab_plan *plan, const struct many *of, uint64_t world_size,
                            double *distance, int *difference) {
    static double steps[MANY][3];
    static int samples[MANY][3];
    static int64_t counts[MANY], ranks[MANY], batches[MANY];
    static uint64_t which[MANY];
    uint64_t batch_count = 0;
    double all[3] = {0}, so_far[3] = {0}, total = 0, total_so_far = 0;
    int64_t most = 1;
    sab_sampler_options options = SAB_SAMPLER_OPTIONS_INIT;
    const sab_places places = {sizeof places, counts, ranks, batches, NULL, NULL, &batch_count};
    options.world_size = world_size;
    memset(steps, 0, sizeof steps);
    memset(samples, 0, sizeof samples);
    for (int64_t asked = 0; asked < most; ++asked) {
        for (size_t i = 0; i < MANY; ++i) which[i] = (uint64_t)asked;
        EXPECT_OK(sab_histogram_plan_locate(plan, &options, of->sources, of->sizes, of->within,
                                            which, MANY, &places));
        for (size_t i = 0; i < MANY; ++i) {
            if (counts[i] > most) most = counts[i];
            if (asked >= counts[i]) continue;
            steps[batches[i]][of->sources[i]] += of->sizes[i];
            ++samples[batches[i] * (int64_t)world_size + ranks[i]][of->sources[i]];
            all[of->sources[i]] += of->sizes[i];
            total += of->sizes[i];
        }
    }
    *distance = 0;
    *difference = 0;
    for (uint64_t b = 0; b < batch_count; ++b) {
        for (int s = 0; s < 3; ++s) {
            so_far[s] += steps[b][s];
            total_so_far += steps[b][s];
        }
        for (int s = 0; s < 3; ++s) {
            const double here = fabs(so_far[s] - all[s] / total * total_so_far) / 2000;
            if (here > *distance) *distance = here;
            const int other = abs(samples[b][s] - samples[0][s]);
            if (other > *difference) *difference = other;
        }
    }
}

static void sources_are_near_their_dues(void) {
    static struct many of;
    const double repeats[] = {0.7, 1.5, 1};
    double distance = 0;
    int difference = 0;
    sab_histogram *histogram = histogram_of_many(&of, 0), *of_epoch = NULL;
    EXPECT_OK(sab_histogram_epoch_new(histogram, repeats, 3, 0, 0, &of_epoch));
    sab_plan_options options = budget(2000);
    sab_plan *plan = plan_of(of_epoch, &options);
    measure_sources(plan, &of, 1, &distance, &difference);
    EXPECT(distance < 5);
    measure_sources(plan, &of, 8, &distance, &difference);
    EXPECT(distance < 3 * 8);
    sab_plan_free(plan);
    sab_histogram_free(histogram);
    sab_histogram_free(of_epoch);
}

static void batches_of_a_bucket_have_the_share_of_each_source(void) {
    static struct many of;
    const double repeats[] = {0.3, 1.4, 1}, boundaries[] = {0, 50};
    double distance = 0;
    int difference = 0;
    sab_histogram *histogram = histogram_of_many(&of, 1), *of_epoch = NULL;
    EXPECT_OK(sab_histogram_epoch_new(histogram, repeats, 3, 0, 0, &of_epoch));
    sab_plan_options options = budget(2000);
    options.bucket_rule = SAB_BUCKETS_BOUNDARIES;
    options.boundaries = boundaries;
    options.boundary_count = 2;
    options.tail = SAB_TAIL_DROP;
    sab_plan *plan = plan_of(of_epoch, &options);
    EXPECT(facts_of(plan).buckets == 1);
    measure_sources(plan, &of, 1, &distance, &difference);
    EXPECT(difference == 1);
    EXPECT(distance < 1);
    sab_plan_free(plan);
    sab_histogram_free(histogram);
    sab_histogram_free(of_epoch);
}

static void epochs_of_whole_repeats_have_the_buckets_of_the_mixture(void) {
    sab_sizes *parts[] = {sizes_of(lengths(300), 300), sizes_of(lengths(500) + 300, 200)};
    const double repeats[] = {2, 1};
    sab_mixture_options mixed = SAB_MIXTURE_OPTIONS_INIT;
    mixed.repeats = repeats;
    mixed.repeat_count = 2;
    sab_sizes *mixture = NULL;
    sab_histogram *histogram = NULL, *of_epoch = NULL;
    sab_plan *plan = NULL;
    EXPECT_OK(sab_mixture_new((const sab_sizes *const *)parts, 2, &mixed, &mixture));
    EXPECT_OK(sab_histogram_new(&histogram));
    EXPECT_OK(sab_histogram_add(histogram, mixture, NULL));
    EXPECT_OK(sab_histogram_epoch_new(histogram, repeats, 2, 3, 0, &of_epoch));
    sab_plan_options options = budget(300);
    EXPECT_OK(sab_plan_new(mixture, &options, &plan));
    sab_plan *counted = plan_of(of_epoch, &options);
    EXPECT(have_equal_buckets(plan, counted));
    sab_plan_free(plan);
    sab_plan_free(counted);
    sab_histogram_free(of_epoch);
    sab_histogram_free(histogram);
    sab_sizes_free(mixture);
    sab_sizes_free(parts[0]);
    sab_sizes_free(parts[1]);
}

/* What every release and every language gives. */
static void places_of_an_epoch_stay_the_same(void) {
    const int32_t numbers[] = {3, 5, 3, 9, 5, 3, 7, 9, 3, 5};
    const int64_t ids[] = {0, 0, 0, 0, 0, 1, 1, 1, 1, 1};
    const uint32_t sources[] = {0, 0, 0, 0, 0, 1, 1, 1, 1, 1};
    const double sizes[] = {3, 5, 3, 9, 5, 3, 7, 9, 3, 5}, repeats[] = {1, 1.4};
    const int64_t expected[3][10] = {{1, 1, 1, 1, 1, 1, 1, 2, 2, 1},
                                     {3, 3, 0, 2, 0, 1, 2, 4, 0, 1},
                                     {1, 0, 1, 0, 0, 0, 1, 1, 2, 1}};
    sab_mixture_options once = SAB_MIXTURE_OPTIONS_INIT;
    sab_sizes *plain = sizes_of(numbers, 10), *mixture = NULL;
    sab_histogram *histogram = NULL, *of_epoch = NULL;
    uint64_t within[10];
    int64_t counts[10], batches[10], slots[10];
    EXPECT_OK(mixture_by_ids(plain, ids, 10, &once, &mixture));
    EXPECT_OK(sab_histogram_new(&histogram));
    EXPECT_OK(sab_histogram_add(histogram, mixture, within));
    EXPECT_OK(sab_histogram_epoch_new(histogram, repeats, 2, 1, 7, &of_epoch));
    sab_plan_options options = budget(18);
    sab_plan *plan = plan_of(of_epoch, &options);
    sab_sampler_options order = SAB_SAMPLER_OPTIONS_INIT;
    order.seed = 5;
    order.epoch = 1;
    const sab_places places = {sizeof places, counts, NULL, batches, NULL, slots, NULL};
    EXPECT_OK(sab_histogram_plan_locate(plan, &order, sources, sizes, within, NULL, 10, &places));
    for (int i = 0; i < 10; ++i)
        EXPECT(counts[i] == expected[0][i] && batches[i] == expected[1][i] &&
               slots[i] == expected[2][i]);
    sab_plan_free(plan);
    sab_histogram_free(of_epoch);
    sab_histogram_free(histogram);
    sab_sizes_free(mixture);
    sab_sizes_free(plain);
}

static void epochs_of_more_samples_than_memory_have_places(void) {
    static struct many of;
    const char path[] = "engine_test_epoch.plan";
    const double repeats[] = {0.7, 1.5, 1};
    sab_histogram *histogram = histogram_of_many(&of, 0), *of_epoch = NULL;
    for (int i = 0; i < 22; ++i) EXPECT_OK(sab_histogram_merge(histogram, histogram));
    EXPECT_OK(sab_histogram_epoch_new(histogram, repeats, 3, 5, 0, &of_epoch));
    EXPECT(info_of(of_epoch).samples > UINT64_C(80000000000));
    sab_plan_options options = budget(16384);
    sab_plan *made = plan_of(of_epoch, &options), *plan = NULL;
    EXPECT_OK(sab_plan_save(made, path));
    EXPECT_OK(sab_plan_file_new(path, &plan));
    EXPECT_OK(sab_plan_check(plan));
    EXPECT(facts_of(plan).samples == info_of(of_epoch).samples);
    EXPECT(facts_of(plan).fingerprint == facts_of(made).fingerprint);
    const sab_plan_info info = facts_of(plan);
    sab_sampler_options at = SAB_SAMPLER_OPTIONS_INIT;
    at.epoch = 5;
    at.world_size = 4096;
    static int64_t counts[MANY], ranks[MANY], batches[MANY];
    const sab_places places = {sizeof places, counts, ranks, batches, NULL, NULL, NULL};
    EXPECT_OK(
        sab_histogram_plan_locate(plan, &at, of.sources, of.sizes, of.within, NULL, MANY, &places));
    double appearances[3] = {0}, samples[3] = {0};
    for (size_t i = 0; i < MANY; ++i) {
        appearances[of.sources[i]] += (double)counts[i];
        ++samples[of.sources[i]];
        if (counts[i] == 0) continue;
        EXPECT(ranks[i] >= 0 && ranks[i] < 4096);
        EXPECT(batches[i] >= 0 && (uint64_t)batches[i] * 4096 < info.batches + 4096);
    }
    for (int s = 0; s < 3; ++s) EXPECT(fabs(appearances[s] / samples[s] - repeats[s]) < 0.03);
    remove(path);
    sab_plan_free(plan);
    sab_plan_free(made);
    sab_histogram_free(histogram);
    sab_histogram_free(of_epoch);
}

static void wrong_arguments_of_epochs_are_refused(void) {
    const int32_t a[] = {5, 5, 50, 2};
    sab_sizes *parts[] = {sizes_of(a, 4), sizes_of(a, 3)}, *mixture = NULL;
    sab_histogram *plain = histogram_of(a, 4), *histogram = NULL, *of_epoch = NULL, *other = NULL;
    const double repeats[] = {1, -1}, none[] = {0, 0}, most[] = {1e15, 1};
    const double size = 50;
    const uint64_t number = 0, beyond = 2;
    const uint32_t source = 1, unknown = 2;
    static unsigned char bytes[1 << 14];
    size_t written = 0;
    EXPECT_OK(sab_mixture_new((const sab_sizes *const *)parts, 2, NULL, &mixture));
    EXPECT_OK(sab_histogram_new(&histogram));
    EXPECT_OK(sab_histogram_add(histogram, mixture, NULL));
    EXPECT_FAILS(sab_histogram_epoch_new(NULL, NULL, 0, 0, 0, &of_epoch), SAB_E_ARGUMENT,
                 "histogram = NULL");
    EXPECT_FAILS(sab_histogram_epoch_new(plain, NULL, 0, 0, 0, &of_epoch), SAB_E_ARGUMENT,
                 "must be of a mixture");
    EXPECT_FAILS(sab_histogram_epoch_new(histogram, NULL, 2, 0, 0, &of_epoch), SAB_E_ARGUMENT,
                 "repeats = NULL");
    EXPECT_FAILS(sab_histogram_epoch_new(histogram, repeats, 1, 0, 0, &of_epoch), SAB_E_ARGUMENT,
                 "repeat_count = 1: must be the number of sources, 2");
    EXPECT_FAILS(sab_histogram_epoch_new(histogram, repeats, 2, 0, 0, &of_epoch), SAB_E_ARGUMENT,
                 "repeats[1] = -1: must be at least 0");
    EXPECT_FAILS(sab_histogram_epoch_new(histogram, none, 2, 0, 0, &of_epoch), SAB_E_ARGUMENT,
                 "repeats: give 0 samples: must give at least 1");
    EXPECT_FAILS(sab_histogram_epoch_new(histogram, most, 2, 0, 0, &of_epoch), SAB_E_ARGUMENT,
                 "must give at most 2^48");
    EXPECT(of_epoch == NULL);
    EXPECT_OK(sab_histogram_epoch_new(histogram, NULL, 0, 4, 0, &of_epoch));
    EXPECT(info_of(of_epoch).samples == 7);
    EXPECT_FAILS(sab_histogram_epoch_new(of_epoch, NULL, 0, 0, 0, &other), SAB_E_ARGUMENT,
                 "is of an epoch");
    EXPECT_FAILS(sab_histogram_merge(of_epoch, histogram), SAB_E_UNSUPPORTED, "is of an epoch");
    EXPECT_FAILS(sab_histogram_merge(histogram, of_epoch), SAB_E_UNSUPPORTED, "is of an epoch");
    EXPECT_FAILS(sab_histogram_write(of_epoch, bytes, sizeof bytes, &written), SAB_E_UNSUPPORTED,
                 "is of an epoch");

    sab_plan_options options = budget(100);
    sab_plan *plan = plan_of(of_epoch, &options), *without = plan_of(plain, &options), *copy = NULL;
    sab_sampler_options order = SAB_SAMPLER_OPTIONS_INIT;
    int64_t count = 7;
    sab_places places = SAB_PLACES_INIT;
    places.counts = &count;
    EXPECT_FAILS(sab_histogram_plan_locate(plan, &order, &source, &size, &number, NULL, 1, &places),
                 SAB_E_ARGUMENT, "options.epoch = 0: must be the epoch of the plan, 4");
    order.epoch = 4;
    EXPECT_FAILS(sab_histogram_plan_locate(plan, &order, NULL, &size, &number, NULL, 1, &places),
                 SAB_E_ARGUMENT, "sources = NULL");
    EXPECT_FAILS(
        sab_histogram_plan_locate(without, &order, &source, &size, &number, NULL, 1, &places),
        SAB_E_ARGUMENT, "sources: must be NULL");
    EXPECT_FAILS(
        sab_histogram_plan_locate(plan, &order, &unknown, &size, &number, NULL, 1, &places),
        SAB_E_ARGUMENT, "sizes[0] = 50 of source 2: must be the size of samples");
    EXPECT_FAILS(sab_histogram_plan_locate(plan, &order, &source, &size, &beyond, NULL, 1, &places),
                 SAB_E_ARGUMENT, "must be below the number of samples of size 50 of source 1, 1");
    EXPECT(count == 7);
    EXPECT_OK(sab_histogram_plan_locate(plan, &order, &source, &size, &number, NULL, 1, &places));
    EXPECT(count == 1);
    EXPECT_OK(sab_histogram_plan_locate(plan, &order, NULL, NULL, NULL, NULL, 0, &places));
    EXPECT_OK(sab_plan_write(plan, bytes, sizeof bytes, &written));
    EXPECT(written <= sizeof bytes);
    for (size_t at = 0; at < written; at += 1 + at % 3) {
        bytes[at] ^= 1;
        EXPECT_FAILS(sab_plan_bytes_new(bytes, written, &copy), SAB_E_FORMAT, "data");
        bytes[at] ^= 1;
    }
    sab_plan_free(plan);
    sab_plan_free(without);
    sab_histogram_free(plain);
    sab_histogram_free(histogram);
    sab_histogram_free(of_epoch);
    sab_sizes_free(mixture);
    sab_sizes_free(parts[0]);
    sab_sizes_free(parts[1]);
}

int main(void) {
    RUN(entries_are_sorted_counts_of_sizes);
    RUN(merging_in_any_order_gives_the_same_bytes);
    RUN(subtracting_more_than_there_is_changes_nothing);
    RUN(numbers_count_samples_of_the_same_size);
    RUN(columns_and_sources_are_kept_apart);
    RUN(columns_have_their_names);
    RUN(damaged_bytes_are_refused);
    RUN(places_are_those_of_the_samplers);
    RUN(places_of_several_columns_are_those_of_the_samplers);
    RUN(plans_of_more_samples_than_memory_have_places);
    RUN(pairs_of_more_samples_than_memory_have_places);
    RUN(damaged_runs_are_refused);
    RUN(packings_and_their_places_are_those_of_the_sampler);
    RUN(packings_of_more_samples_than_memory_have_places);
    RUN(packings_of_other_histograms_are_refused);
    RUN(packings_of_too_many_tokens_are_refused);
    RUN(plans_without_indices_are_saved_and_refuse_samplers);
    RUN(wrong_arguments_are_refused);
    RUN(plans_whose_order_has_no_inverse_are_refused);
    RUN(epochs_of_mixtures_have_plans_and_places);
    RUN(samples_of_a_source_appear_equally_often_over_epochs);
    RUN(sources_are_near_their_dues);
    RUN(batches_of_a_bucket_have_the_share_of_each_source);
    RUN(epochs_of_whole_repeats_have_the_buckets_of_the_mixture);
    RUN(places_of_an_epoch_stay_the_same);
    RUN(epochs_of_more_samples_than_memory_have_places);
    RUN(wrong_arguments_of_epochs_are_refused);
    return finish();
}
