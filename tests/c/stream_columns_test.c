/* Streams of records with several sizes: batches under budgets, lists under several capacities. */
#include <math.h>

#include "helpers.h"
#include "one.h"

enum { RECORDS = 3000 };

/* A record is its number and its two sizes. */
struct item {
    int32_t number;
    int32_t sizes[2];
};
static struct item items[RECORDS];

static sab_stream *source(void) {
    uint32_t x = 1;
    for (int i = 0; i < RECORDS; ++i) {
        x = x * 1664525u + 1013904223u;
        items[i].number = i;
        items[i].sizes[0] = (int32_t)(x >> 8) % 12;
        items[i].sizes[1] = 20 + 40 * items[i].sizes[0] + (int32_t)(x >> 16) % 300;
    }
    sab_stream *stream = NULL;
    EXPECT_OK(array_stream(items, sizeof items[0], RECORDS, NULL, &stream));
    return stream;
}

/* What the callback knows. */
struct sizes {
    int calls;
    int fails_at; /* the call that fails; 0: none */
    int released;
};

static int32_t set_sizes(void *ctx, const sab_record *record, double *sizes) {
    struct sizes *given = ctx;
    ++given->calls;
    if (given->calls == given->fails_at) return 77;
    const struct item *item = record->data;
    for (int j = 0; j < 2; ++j) sizes[j] = item->sizes[j];
    return 0;
}

static void release(void *ctx) {
    ++((struct sizes *)ctx)->released;
}

static const double capacities[] = {20, 1500};

/* The ways to cut windows. */
enum { IN_ORDER, CARRYING, PACKED, KINDS };

static sab_readahead_stream_options reading(int kind, struct sizes *sizes) {
    sab_readahead_stream_options options = SAB_READAHEAD_STREAM_OPTIONS_INIT;
    options.read_ahead = 500;
    options.budgets = one_budget(8000), options.budget_count = 1;
    options.carry_over = kind == CARRYING;
    options.no_shuffle = kind == IN_ORDER;
    options.seed = 3;
    options.sizes_fn = set_sizes;
    options.columns = 2;
    options.ctx = sizes;
    options.release = release;
    return options;
}

static sab_pack_stream_options packing(struct sizes *sizes) {
    sab_pack_stream_options options = SAB_PACK_STREAM_OPTIONS_INIT;
    options.read_ahead = 500;
    options.seed = 3;
    options.sizes_fn = set_sizes;
    options.ctx = sizes;
    options.release = release;
    options.capacities = capacities;
    options.capacity_count = 2;
    return options;
}

static sab_stream *cut(int kind, struct sizes *sizes) {
    sab_stream *stream = source();
    if (kind == PACKED) {
        const sab_pack_stream_options options = packing(sizes);
        EXPECT_OK(sab_pack_stream_new(stream, &options, &stream));
    } else {
        const sab_readahead_stream_options options = reading(kind, sizes);
        EXPECT_OK(sab_readahead_stream_new(stream, &options, &stream));
    }
    return stream;
}

static const struct item *item_of(const sab_record *list, size_t place) {
    return ((const sab_record *)list->data)[place].data;
}

/* Counts the records of a list in `seen`; gives its sums and its largest sizes. */
static void look(const sab_record *list, int *seen, double *sums, double *largest) {
    for (int j = 0; j < 2; ++j) sums[j] = largest[j] = 0;
    for (size_t i = 0; i < list->length; ++i) {
        const struct item *item = item_of(list, i);
        ++seen[item->number];
        for (int j = 0; j < 2; ++j) {
            sums[j] += item->sizes[j];
            largest[j] = fmax(largest[j], item->sizes[j]);
        }
    }
}

static void expect_each_once(const int *seen) {
    for (int i = 0; i < RECORDS; ++i) EXPECT(seen[i] == 1);
}

/* Padded positions over the sum of all sizes. */
static double padding_of(sab_stream *stream, double limit) {
    int seen[RECORDS] = {0};
    double sums[2], largest[2], total = 0, padded = 0;
    sab_record list = {0};
    while (sab_stream_next(stream, &list) == SAB_OK) {
        look(&list, seen, sums, largest);
        const double cost = (double)list.length * (largest[0] + largest[1]);
        EXPECT(list.length > 0 && cost <= limit);
        padded += cost;
        total += sums[0] + sums[1];
    }
    expect_each_once(seen);
    sab_stream_free(stream);
    return padded / total;
}

static void Readahead_KeepsTheBudgetOfTheSum(void) {
    struct sizes sizes = {0, 0, 0};
    const double in_order = padding_of(cut(IN_ORDER, &sizes), 8000),
                 carrying = padding_of(cut(CARRYING, &sizes), 8000);
    EXPECT(sizes.released == 2 && sizes.calls == 2 * RECORDS);
    EXPECT(carrying < in_order && in_order < 1.25);
}

static void Readahead_KeepsSeveralBudgetsAndABatchSize(void) {
    struct sizes sizes = {0, 0, 0};
    sab_readahead_stream_options options = reading(CARRYING, &sizes);
    const double weights[] = {1, 0};
    sab_cost *images = NULL, *product = NULL;
    EXPECT_OK(sab_cost_padded_new(weights, 2, &images));
    const sab_cost_term term = {1, 1, POWERS(1, 1)};
    EXPECT_OK(sab_cost_terms_new(&term, 1, &product));
    const sab_budget budgets[] = {{images, 60}, {product, 30000}};
    options.budgets = one_budget(0), options.budget_count = 1;
    options.budgets = budgets;
    options.budget_count = 2;
    options.batch_size = 12;
    sab_stream *stream = source();
    EXPECT_OK(sab_readahead_stream_new(stream, &options, &stream));
    sab_cost_free(images); /* the stream keeps what it needs */
    sab_cost_free(product);
    int seen[RECORDS] = {0};
    size_t largest_count = 0;
    double sums[2], largest[2];
    sab_record list = {0};
    while (sab_stream_next(stream, &list) == SAB_OK) {
        look(&list, seen, sums, largest);
        const double count = (double)list.length;
        EXPECT(count <= 12 && count * largest[0] <= 60 && count * largest[0] * largest[1] <= 30000);
        if (list.length > largest_count) largest_count = list.length;
    }
    expect_each_once(seen);
    EXPECT(largest_count == 12);
    sab_stream_free(stream);
    options.budget_count = 0, options.budgets = NULL; /* the batch size alone */
    stream = source();
    EXPECT_OK(sab_readahead_stream_new(stream, &options, &stream));
    EXPECT_OK(sab_stream_next(stream, &list));
    EXPECT(list.length == 12);
    sab_stream_free(stream);
}

static void Pack_KeepsEachCapacity(void) {
    for (uint64_t most = 0; most <= 4; most += 4) {
        struct sizes sizes = {0, 0, 0};
        sab_pack_stream_options options = packing(&sizes);
        options.max_records = most;
        sab_stream *stream = source();
        EXPECT_OK(sab_pack_stream_new(stream, &options, &stream));
        int seen[RECORDS] = {0};
        double sums[2], largest[2], totals[2] = {0, 0};
        size_t lists = 0;
        sab_record list = {0};
        while (sab_stream_next(stream, &list) == SAB_OK) {
            look(&list, seen, sums, largest);
            EXPECT(list.length > 0 && (most == 0 || list.length <= most));
            for (size_t i = 1; i < list.length; ++i) /* in the order of the stream */
                EXPECT(item_of(&list, i - 1)->number < item_of(&list, i)->number);
            for (int j = 0; j < 2; ++j) {
                EXPECT(sums[j] <= (double)capacities[j]);
                totals[j] += sums[j];
            }
            ++lists;
        }
        expect_each_once(seen);
        const double bound = fmax(totals[0] / 20, totals[1] / 1500);
        if (most == 0) EXPECT((double)lists < 1.02 * bound);
        sab_stream_free(stream);
        EXPECT(sizes.released == 1 && sizes.calls == RECORDS);
    }
}

/* The first numbers of the lists that are left. */
static size_t rest_of(sab_stream *stream, int *firsts) {
    size_t count = 0;
    sab_record list = {0};
    for (; sab_stream_next(stream, &list) == SAB_OK; ++count)
        firsts[count] = item_of(&list, 0)->number;
    return count;
}

static void State_GoesOnAtAnyList(void) {
    static unsigned char state[1 << 12];
    static int expected[RECORDS], given[RECORDS];
    for (int kind = 0; kind < KINDS; ++kind) {
        struct sizes sizes = {0, 0, 0};
        for (size_t taken = 0; taken < 400; taken += taken < 3 ? 1 : 97) {
            sab_stream *first = cut(kind, &sizes), *second = cut(kind, &sizes);
            sab_record list = {0};
            for (size_t i = 0; i < taken; ++i) EXPECT(sab_stream_next(first, &list) >= SAB_OK);
            size_t size = 0;
            EXPECT_OK(sab_stream_state_save(first, state, sizeof state, &size));
            EXPECT(size <= sizeof state);
            EXPECT_OK(sab_stream_state_restore(second, state, size));
            const size_t count = rest_of(first, expected);
            EXPECT(rest_of(second, given) == count &&
                   memcmp(given, expected, count * sizeof *given) == 0);
            EXPECT_OK(sab_stream_rewind(first));
            EXPECT_OK(sab_stream_rewind(second));
            const size_t whole = rest_of(first, expected);
            EXPECT(whole >= count && rest_of(second, given) == whole &&
                   memcmp(given, expected, whole * sizeof *given) == 0);
            sab_stream_free(first);
            sab_stream_free(second);
        }
    }
}

static void State_OfOtherColumns_IsRefused(void) {
    static unsigned char state[1 << 12];
    struct sizes sizes = {0, 0, 0};
    size_t size = 0;
    sab_stream *stream = cut(PACKED, &sizes), *other = source();
    EXPECT_OK(sab_stream_state_save(stream, state, sizeof state, &size));
    sab_pack_stream_options options = packing(&sizes);
    const double swapped[] = {1500, 20};
    options.capacities = swapped;
    EXPECT_OK(sab_pack_stream_new(other, &options, &other));
    EXPECT_FAILS(sab_stream_state_restore(other, state, size), SAB_E_MISMATCH, "");
    sab_stream_free(stream);
    sab_stream_free(other);
}

static void Sizes_ThatFail_LoseNoRecord(void) {
    for (int kind = 0; kind < KINDS; ++kind) {
        struct sizes sizes = {0, 777, 0};
        sab_stream *stream = cut(kind, &sizes);
        int seen[RECORDS] = {0}, failures = 0;
        double sums[2], largest[2];
        sab_record list = {0};
        for (sab_status status; (status = sab_stream_next(stream, &list)) != SAB_END;) {
            if (status == SAB_OK) {
                look(&list, seen, sums, largest);
                continue;
            }
            EXPECT(status == SAB_E_CALLBACK && sab_last_error_code() == 77 && ++failures == 1);
        }
        expect_each_once(seen);
        EXPECT(failures == 1 && sizes.calls == RECORDS + 1);
        sab_stream_free(stream);
    }
}

static int32_t odd_sizes(void *ctx, const sab_record *record, double *sizes) {
    const struct item *item = record->data;
    sizes[0] = 1;
    sizes[1] = item->number == 5 ? *(double *)ctx : 2;
    return 0;
}

static void Sizes_ThatBreakARule_AreNamed(void) {
    static const char *const messages[] = {
        "record 5: sizes[1] = -1: must not be negative", "record 5: sizes[1] = nan: must be",
        "record 5: sizes[1] = 2.5: must be a whole number",
        "record 5: has sizes 1, 1501: must be at most options.capacities[1] = 1500"};
    double values[] = {-1, NAN, 2.5, 1501};
    for (size_t i = 0; i < COUNT(values); ++i) {
        sab_pack_stream_options options = packing(NULL);
        options.sizes_fn = odd_sizes;
        options.ctx = &values[i];
        options.release = NULL;
        sab_stream *stream = source();
        EXPECT_OK(sab_pack_stream_new(stream, &options, &stream));
        sab_record list = {0};
        for (int again = 0; again < 2; ++again)
            EXPECT_FAILS(sab_stream_next(stream, &list), SAB_E_ARGUMENT, messages[i]);
        sab_stream_free(stream);
    }
}

static void Oversize_OfOneColumn_IsRefusedSkippedOrAlone(void) {
    double large = 9000;
    sab_readahead_stream_options options = reading(CARRYING, NULL);
    options.sizes_fn = odd_sizes;
    options.ctx = &large;
    options.release = NULL;
    sab_stream *stream = source();
    sab_record list = {0};
    EXPECT_OK(sab_readahead_stream_new(stream, &options, &stream));
    for (int again = 0; again < 2; ++again)
        EXPECT_FAILS(
            sab_stream_next(stream, &list), SAB_E_ARGUMENT,
            "record 5: has sizes 1, 9000 and cost 9001: must be at most options.budgets[0].limit = "
            "8000. Set options.oversize to SAB_OVERSIZE_SKIP (1) or SAB_OVERSIZE_SINGLE");
    sab_stream_free(stream);
    for (sab_oversize oversize = SAB_OVERSIZE_SKIP; oversize <= SAB_OVERSIZE_SINGLE; ++oversize) {
        options.oversize = oversize;
        stream = source();
        EXPECT_OK(sab_readahead_stream_new(stream, &options, &stream));
        int alone = 0;
        size_t records = 0;
        while (sab_stream_next(stream, &list) == SAB_OK) {
            records += list.length;
            for (size_t i = 0; i < list.length; ++i)
                if (item_of(&list, i)->number == 5) alone += list.length == 1;
        }
        uint64_t skipped = 9;
        EXPECT_OK(sab_stream_get_skipped_count(stream, &skipped));
        EXPECT(oversize == SAB_OVERSIZE_SKIP ? skipped == 1 && records == RECORDS - 1
                                             : skipped == 0 && records == RECORDS && alone == 1);
        sab_stream_free(stream);
    }
}

static int32_t any_cost(void *ctx, uint64_t count, const double *lengths, const double *totals,
                        size_t columns, double *cost) {
    (void)ctx, (void)lengths, (void)totals, (void)columns;
    *cost = (double)count;
    return 0;
}

static void Readahead_RefusesBadOptions(void) {
    sab_stream *from = source(), *stream = NULL;
    struct sizes sizes = {0, 0, 0};
    sab_cost *callback = NULL;
    EXPECT_OK(sab_cost_callback_new(any_cost, NULL, NULL, &callback));
    const sab_budget budgets[] = {{NULL, 9}, {callback, 9}}, zero = {NULL, 0};
    const sab_readahead_stream_options good = reading(IN_ORDER, &sizes);
    sab_readahead_stream_options options = good;
#define EXPECT_REFUSED(message) \
    EXPECT_FAILS(sab_readahead_stream_new(from, &options, &stream), SAB_E_ARGUMENT, message)
    options.columns = 9;
    EXPECT_REFUSED("options.columns = 9: must be from 2 to 8");
    options.columns = 0;
    EXPECT_REFUSED("options.columns = 0: must be from 2 to 8");
    options = good;
    options.sizes_fn = NULL;
    EXPECT_REFUSED("options.sizes_fn = NULL");
    options = good;
    options.budgets = budgets;
    options.budget_count = 2;
    EXPECT_REFUSED("options.budgets[1].cost: must not be a callback");
    options.budgets = &zero;
    options.budget_count = 1;
    EXPECT_REFUSED("options.budgets[0].limit = 0");
    options.sizes_fn = NULL;
    options.columns = 0;
    EXPECT_REFUSED("options.budgets[0].limit = 0");
    options = good;
    options.budget_count = 0, options.budgets = NULL;
    EXPECT_REFUSED("must be given");
    options = good;
    options.read_ahead = (uint64_t)1 << 31;
    EXPECT_REFUSED("options.read_ahead = 2147483648: must be at most 2^30");
#undef EXPECT_REFUSED
    EXPECT(sizes.released == 0);
    sab_cost_free(callback);
    sab_stream_free(from);
}

static void Pack_RefusesBadOptions(void) {
    sab_stream *from = source(), *stream = NULL;
    struct sizes sizes = {0, 0, 0};
    const double zero[] = {20, 0};
    const sab_pack_stream_options good = packing(&sizes);
    sab_pack_stream_options options = good;
#define EXPECT_REFUSED(message) \
    EXPECT_FAILS(sab_pack_stream_new(from, &options, &stream), SAB_E_ARGUMENT, message)
    options.capacities = zero;
    EXPECT_REFUSED("options.capacities[1] = 0: must be a whole number from 1 to 2^31 - 1");
    options.capacities = NULL;
    EXPECT_REFUSED("options.capacities = NULL");
    options = good;
    options.capacity_count = 9;
    EXPECT_REFUSED("options.capacity_count = 9: must be from 2 to 8");
    options.capacity_count = 1;
    EXPECT_REFUSED("options.capacity_count = 1: must be from 2 to 8");
    options = good;
    options.sizes_fn = NULL;
    EXPECT_REFUSED("options.sizes_fn = NULL");
#undef EXPECT_REFUSED
    EXPECT(sizes.released == 0);
    sab_stream_free(from);
}

int main(void) {
    RUN(Readahead_KeepsTheBudgetOfTheSum);
    RUN(Readahead_KeepsSeveralBudgetsAndABatchSize);
    RUN(Pack_KeepsEachCapacity);
    RUN(State_GoesOnAtAnyList);
    RUN(State_OfOtherColumns_IsRefused);
    RUN(Sizes_ThatFail_LoseNoRecord);
    RUN(Sizes_ThatBreakARule_AreNamed);
    RUN(Oversize_OfOneColumn_IsRefusedSkippedOrAlone);
    RUN(Readahead_RefusesBadOptions);
    RUN(Pack_RefusesBadOptions);
    return finish();
}
