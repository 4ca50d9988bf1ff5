/* Thresholds between groups of like lengths, and samples in groups. */
#include <math.h>

#include "helpers.h"
#include "one.h"
#ifndef ROUNDS
#define ROUNDS 900
#endif

static sab_thresholds_options by(sab_thresholds_method method) {
    sab_thresholds_options options = SAB_THRESHOLDS_OPTIONS_INIT;
    options.method = method;
    return options;
}

/* Costs as the tests price them themselves; `steps` is one that satisfies no quadrangle inequality.
 */
typedef double price(double count, double longest);
static double padded(double count, double longest) {
    return count * longest;
}
static double quadratic(double count, double longest) {
    return count * longest * longest;
}
static double with_constant(double count, double longest) {
    return 40 + count * (2 + longest);
}
static double model(double count, double longest) {
    return 100 + count * count + 3 * count * longest * longest;
}
static double short_of(double count, double longest) {
    return 5 + count * (3 * longest - 2);
}
static double steps(double count, double longest) {
    return ceil(count / 8) * 8 * ceil(longest / 16);
}

static int32_t ask(void *ctx, uint64_t count, const double *lengths, const double *totals,
                   size_t columns, double *cost) {
    (void)totals, (void)columns;
    *cost = (*(price *const *)ctx)((double)count, lengths[0]);
    return 0;
}

static int32_t fail_after(void *ctx, uint64_t count, const double *lengths, const double *totals,
                          size_t columns, double *cost) {
    (void)count, (void)lengths, (void)columns;
    *cost = totals[0];
    return --*(int *)ctx < 0 ? 42 : 0;
}

static int32_t falling(void *ctx, uint64_t count, const double *lengths, const double *totals,
                       size_t columns, double *cost) {
    (void)ctx, (void)totals, (void)columns;
    *cost = (double)count / lengths[0];
    return 0;
}

static int32_t cancel(void *ctx, uint64_t done, uint64_t total) {
    (void)ctx, (void)done, (void)total;
    return 7;
}

#define MOST 24
typedef struct groups {
    double lengths[MOST];
    int counts[MOST];
    int levels;
} groups;

/* What a group up to a level is padded to: a length of zero costs as much as the next. */
static double longest_of(const groups *all, int level) {
    return all->lengths[level > 0 ? level : all->lengths[0] == 0];
}

/* The least over all ways to cut: in sum where no group costs more than `cap`, and of the worst
 * group. */
static void try_all(const groups *all, price *cost, int begin, int left, double sum, double worst,
                    double cap, double *least_sum, double *least_largest) {
    for (int end = left == 0 ? all->levels : begin + 1; end <= all->levels - left; ++end) {
        int count = 0;
        for (int i = begin; i < end; ++i) count += all->counts[i];
        const double one = cost(count, longest_of(all, end - 1));
        if (left > 0) {
            try_all(all, cost, end, left - 1, sum + one, fmax(worst, one), cap, least_sum,
                    least_largest);
        } else {
            if (fmax(worst, one) <= cap) *least_sum = fmin(*least_sum, sum + one);
            *least_largest = fmin(*least_largest, fmax(worst, one));
        }
    }
}

static void price_groups(const groups *all, price *cost, const double *thresholds, int k,
                         sab_thresholds_info *info) {
    int level = 0;
    double before = 0;
    for (int g = 0; g <= k; ++g) {
        int count = 0;
        double longest = 0;
        for (; level < all->levels && (g == k || all->lengths[level] <= thresholds[g]); ++level) {
            count += all->counts[level];
            longest = longest_of(all, level);
        }
        const double one = count > 0 ? cost(count, longest) : 0;
        info->total += one;
        info->largest = fmax(info->largest, one);
        if (g > 0) info->largest_difference = fmax(info->largest_difference, fabs(one - before));
        before = one;
    }
}

static int near(double a, double b) {
    return fabs(a - b) <= 1e-9 * fmax(fabs(a), fabs(b));
}

static void exact_methods_equal_trying_all(void) {
    const sab_cost_term polynomial[] = {{40, 0, POWERS(0)}, {2, 1, POWERS(0)}, {1, 1, POWERS(1)}},
                        terms[] = {{100, 0, POWERS(0)}, {1, 2, POWERS(0)}, {3, 1, POWERS(2)}},
                        linear[] = {{5, 0, POWERS(0)}, {-2, 1, POWERS(0)}, {3, 1, POWERS(1)}};
    const sab_cost_term *const terms_of[9] = {[2] = polynomial, [3] = terms, [8] = linear};
    static price *const prices[] = {padded,        quadratic, with_constant, model,   padded,
                                    with_constant, steps,     quadratic,     short_of};
    for (int round = 0; round < ROUNDS; ++round) {
        groups all = {{0}, {0}, 3 + (int)below(7)};
        int32_t numbers[MOST * 9];
        size_t samples = 0;
        for (int i = 0; i < all.levels; ++i) {
            all.lengths[i] = i > 0 ? all.lengths[i - 1] + 1 + below(30) : below(10);
            all.counts[i] = 1 + (int)below(9);
            for (int j = 0; j < all.counts[i]; ++j) numbers[samples++] = (int32_t)all.lengths[i];
        }
        const int k = 1 + (int)below((uint32_t)all.levels - 1), kind = round % 9;
        price *cost = prices[kind];
        sab_cost *handle = NULL; /* of kind 0: the default */
        if (kind == 1)
            handle = new_quadratic();
        else if (terms_of[kind] != NULL)
            EXPECT_OK(sab_cost_terms_new(terms_of[kind], 3, &handle));
        else if (kind != 0)
            handle = new_callback(ask, &cost);
        for (int method = SAB_THRESHOLDS_LEAST_TOTAL; method <= SAB_THRESHOLDS_RANDOMISED;
             ++method) {
            sab_thresholds_options options = by(method);
            options.cost = handle;
            options.cost_per_sample = kind == 7;
            double thresholds[MOST];
            sab_thresholds_info info = SAB_THRESHOLDS_INFO_INIT, own = SAB_THRESHOLDS_INFO_INIT;
            sab_sizes *sizes = sizes_of(numbers, samples);
            EXPECT_OK(sab_thresholds_find(sizes, (uint64_t)k, &options, thresholds, &info));
            sab_sizes_free(sizes);
            for (int i = 1; i < k; ++i) EXPECT(thresholds[i] > thresholds[i - 1]);
            price_groups(&all, cost, thresholds, k, &own);
            EXPECT(near(info.total, own.total) && near(info.largest, own.largest) &&
                   fabs(info.largest_difference - own.largest_difference) <= 1e-9 * own.total);
            double least = INFINITY, worst = INFINITY, least_capped = INFINITY;
            for (int fewer = 0; fewer < 2; ++fewer)
                try_all(&all, cost, 0, k - fewer, 0, 0, INFINITY, &least, &worst);
            for (int fewer = 0; fewer < 2; ++fewer)
                try_all(&all, cost, 0, k - fewer, 0, 0, worst, &least_capped, &worst);
            if (method == SAB_THRESHOLDS_LEAST_TOTAL) EXPECT(near(info.total, least));
            if (method == SAB_THRESHOLDS_LEAST_LARGEST)
                EXPECT(near(info.largest, worst) && near(info.total, least_capped));
            EXPECT(info.total >= least * (1 - 1e-9) && info.largest >= worst * (1 - 1e-9));
            const uint64_t searches =
                info.even + info.repeated + info.not_tolerated + info.extreme + info.narrow;
            EXPECT(searches == (method == SAB_THRESHOLDS_RANDOMISED ? 100 : 0));
        }
        sab_cost_free(handle);
    }
}

/* Lengths 1, 4, 16, 64, in inverse proportion: each group costs the same. */
static sab_sizes *powers_of_four(void) {
    static int32_t numbers[85];
    for (int i = 0; i < 85; ++i) numbers[i] = i < 64 ? 1 : i < 80 ? 4 : i < 84 ? 16 : 64;
    return sizes_of(numbers, 85);
}

static void equal_costs_are_found_by_all(void) {
    sab_sizes *sizes = powers_of_four();
    for (int method = SAB_THRESHOLDS_LEAST_TOTAL; method <= SAB_THRESHOLDS_RANDOMISED; ++method) {
        const sab_thresholds_options options = by(method);
        double found[3];
        sab_thresholds_info info = SAB_THRESHOLDS_INFO_INIT;
        EXPECT_OK(sab_thresholds_find(sizes, 3, &options, found, &info));
        EXPECT(found[0] == 1 && found[1] == 4 && found[2] == 16);
        EXPECT(info.total == 256 && info.largest == 64 && info.largest_difference == 0);
        EXPECT(method != SAB_THRESHOLDS_RANDOMISED || info.even > 0);
    }
    double found[3];
    EXPECT_OK(sab_thresholds_find(sizes, 3, NULL, found, NULL));
    EXPECT(found[0] == 1 && found[1] == 4 && found[2] == 16);
    sab_sizes_free(sizes);
}

/* One search by hand. Lengths 1 to 5, once each; cost count * length; one threshold, from the
 * shortest: 1 | 20, 4 | 15, 9 | 10, 16 | 5. */
static void a_search_goes_as_described(void) {
    const int32_t numbers[] = {1, 2, 3, 4, 5};
    sab_sizes *sizes = sizes_of(numbers, 5);
    sab_thresholds_options options = by(SAB_THRESHOLDS_RANDOMISED);
    const uint64_t starts[] = {0, 4};
    options.starts = starts;
    options.num_trials = 1;
    double found = 0;
    sab_thresholds_info info = SAB_THRESHOLDS_INFO_INIT;
    EXPECT_OK(sab_thresholds_find(sizes, 1, &options, &found, &info));
    /* up to 4, back, up again: in circles */
    EXPECT(found == 3 && info.largest_difference == 1 && info.repeated == 1);
    options.patience = 1;
    EXPECT_OK(sab_thresholds_find(sizes, 1, &options, &found, &info));
    EXPECT(found == 3 && info.largest_difference == 1 && info.not_tolerated == 1 &&
           info.repeated == 0);
    options.num_trials = 2; /* the second comes from the longest: 25 | 0, 16 | 5, 9 | 10, 16 | 5 */
    EXPECT_OK(sab_thresholds_find(sizes, 1, &options, &found, &info));
    EXPECT(found == 3 && info.not_tolerated == 2);
    const uint64_t two[] = {0, 1};
    options = by(SAB_THRESHOLDS_RANDOMISED);
    options.starts = two;
    options.num_trials = 1;
    /* 1 | 2 | 15: the second goes up, 1 | 6 | 10, 1 | 12 | 5, where the first has to */
    EXPECT_OK(sab_thresholds_find(sizes, 2, &options, (double[2]){0}, &info));
    EXPECT(info.even + info.repeated + info.not_tolerated + info.extreme + info.narrow == 1);
    sab_sizes_free(sizes);
}

static void seeds_decide_where_searches_begin(void) {
    sab_sizes *sizes = sizes_of(lengths(2000), 2000);
    sab_thresholds_options options = by(SAB_THRESHOLDS_RANDOMISED);
    options.num_trials = 1;
    double first[8], again[8], other[8];
    EXPECT_OK(sab_thresholds_find(sizes, 8, &options, first, NULL));
    EXPECT_OK(sab_thresholds_find(sizes, 8, &options, again, NULL));
    EXPECT(memcmp(first, again, sizeof first) == 0);
    int differ = 0;
    for (options.seed = 1; options.seed < 10; ++options.seed) {
        EXPECT_OK(sab_thresholds_find(sizes, 8, &options, other, NULL));
        differ |= memcmp(first, other, sizeof first) != 0;
    }
    EXPECT(differ);
    sab_sizes_free(sizes);
}

/* With a constant that is worth more than padding, the last group is left empty. */
static void a_group_fewer_where_one_more_costs_more(void) {
    const int32_t numbers[] = {1, 2, 3};
    const sab_cost_term terms[] = {{1000, 0, POWERS(0)}, {1, 1, POWERS(1)}};
    sab_cost *cost = NULL;
    EXPECT_OK(sab_cost_terms_new(terms, COUNT(terms), &cost));
    sab_sizes *sizes = sizes_of(numbers, 3);
    sab_thresholds_options options = by(SAB_THRESHOLDS_LEAST_TOTAL);
    options.cost = cost;
    double found[2];
    sab_thresholds_info info = SAB_THRESHOLDS_INFO_INIT;
    EXPECT_OK(sab_thresholds_find(sizes, 1, &options, found, &info));
    EXPECT(found[0] == 3 && info.total == 1009);
    EXPECT_OK(sab_thresholds_find(sizes, 2, &options, found, &info));
    EXPECT(found[0] == 1 && found[1] == 3 && info.total == 2007);
    sab_sizes_free(sizes);
    sab_cost_free(cost);
}

static void an_empty_sample_costs_as_much_as_the_shortest(void) {
    const int32_t numbers[] = {0, 0, 5, 9};
    sab_sizes *sizes = sizes_of(numbers, 4);
    double found = -1;
    sab_thresholds_info info = SAB_THRESHOLDS_INFO_INIT;
    const sab_thresholds_options options = by(SAB_THRESHOLDS_LEAST_TOTAL);
    EXPECT_OK(sab_thresholds_find(sizes, 1, &options, &found, &info));
    EXPECT(found == 5 && info.total == 24);
    sab_sizes_free(sizes);
}

static void many_lengths_by_a_callback(void) {
    static double numbers[5000];
    for (int i = 0; i < 5000; ++i) numbers[i] = 1 + i / 7.0;
    sab_sizes *sizes = NULL;
    EXPECT_OK(sab_sizes_new(numbers, 5000, SAB_FLOAT64, NULL, &sizes));
    for (int method = SAB_THRESHOLDS_LEAST_TOTAL; method <= SAB_THRESHOLDS_LEAST_LARGEST;
         ++method) {
        sab_thresholds_options options = by(method);
        double formula[7], asked[7];
        EXPECT_OK(sab_thresholds_find(sizes, 7, &options, formula, NULL));
        sab_cost *cost = new_callback(ask, &(price *){padded});
        options.cost = cost;
        EXPECT_OK(sab_thresholds_find(sizes, 7, &options, asked, NULL));
        EXPECT(memcmp(formula, asked, sizeof asked) == 0);
        options.cost_per_sample = 1;
        EXPECT_OK(sab_thresholds_find(sizes, 7, &options, asked, NULL));
        EXPECT(memcmp(formula, asked, sizeof asked) == 0);
        sab_cost_free(cost);
    }
    sab_sizes_free(sizes);
}

/* As many groups as lengths, and one fewer: each length is a group of its own, but for the two that
 * are padded least together. */
static void many_groups(void) {
    enum { count = 100000 };
    static int32_t numbers[count];
    double sum = 0;
    for (int i = 0; i < count; ++i) sum += numbers[i] = 1000 + 2 * i - (i > 70000);
    static double found[count - 1];
    sab_sizes *sizes = sizes_of(numbers, count);
    for (int method = SAB_THRESHOLDS_LEAST_TOTAL; method <= SAB_THRESHOLDS_LEAST_LARGEST; ++method)
        for (int fewer = 0; fewer < 2; ++fewer) {
            const sab_thresholds_options options = by(method);
            sab_thresholds_info info = SAB_THRESHOLDS_INFO_INIT;
            EXPECT_OK(
                sab_thresholds_find(sizes, count - 1 - (uint64_t)fewer, &options, found, &info));
            /* else the two that are one apart would be the costliest group */
            const int is_total = method == SAB_THRESHOLDS_LEAST_TOTAL;
            EXPECT(info.total == sum + (fewer ? is_total ? 1 : 2 : 0) &&
                   info.largest == (fewer && is_total ? 2 * numbers[70001] : numbers[count - 1]));
            if (is_total)
                for (int i = 0; i < count - 1 - fewer; ++i)
                    EXPECT(found[i] == numbers[i + (fewer && i >= 70000)]);
        }
    sab_sizes_free(sizes);
}

static void thresholds_refuse_bad_options(void) {
    sab_sizes *sizes = powers_of_four();
    double found[4] = {-1, -1, -1, -1};
    EXPECT_FAILS(sab_thresholds_find(NULL, 1, NULL, found, NULL), SAB_E_ARGUMENT, "lengths");
    EXPECT_FAILS(sab_thresholds_find(sizes, 1, NULL, NULL, NULL), SAB_E_ARGUMENT, "thresholds");
    EXPECT_FAILS(sab_thresholds_find(sizes, 0, NULL, found, NULL), SAB_E_ARGUMENT,
                 "k = 0: must be at least 1");
    EXPECT_FAILS(sab_thresholds_find(sizes, 4, NULL, found, NULL), SAB_E_ARGUMENT,
                 "k = 4: must be at least 1 and below the number of distinct lengths, 4");
    sab_thresholds_options options = by(3);
    EXPECT_FAILS(sab_thresholds_find(sizes, 1, &options, found, NULL), SAB_E_ARGUMENT,
                 "options.method = 3");
    const uint64_t twice[] = {2, 2}, beyond[] = {0, 4};
    options = by(SAB_THRESHOLDS_RANDOMISED);
    options.num_trials = 1;
    options.starts = twice;
    EXPECT_FAILS(sab_thresholds_find(sizes, 2, &options, found, NULL), SAB_E_ARGUMENT,
                 "options.starts: 2 stands there twice for search 0");
    options.starts = beyond;
    EXPECT_FAILS(sab_thresholds_find(sizes, 2, &options, found, NULL), SAB_E_ARGUMENT,
                 "options.starts[1] = 4: must be below the number of distinct lengths, 4");
    options = by(SAB_THRESHOLDS_LEAST_LARGEST);
    options.starts = beyond;
    EXPECT_FAILS(sab_thresholds_find(sizes, 2, &options, found, NULL), SAB_E_ARGUMENT,
                 "options.starts = given: goes with SAB_THRESHOLDS_RANDOMISED (2) only");
    options = by(SAB_THRESHOLDS_LEAST_LARGEST);
    options.patience = 2;
    EXPECT_FAILS(sab_thresholds_find(sizes, 2, &options, found, NULL), SAB_E_ARGUMENT,
                 "options.patience = 2: goes with SAB_THRESHOLDS_RANDOMISED (2) only");
    options = by(SAB_THRESHOLDS_LEAST_TOTAL);
    options.progress = cancel;
    EXPECT_FAILS(sab_thresholds_find(sizes, 2, &options, found, NULL), SAB_E_CANCELLED, "code 7");
    EXPECT(found[0] == -1 && found[1] == -1);
    sab_sizes_free(sizes);
    sab_sizes *none = sizes_of(NULL, 0);
    EXPECT_FAILS(sab_thresholds_find(none, 1, NULL, found, NULL), SAB_E_ARGUMENT,
                 "lengths.count = 0");
    sab_sizes_free(none);
}

static void thresholds_refuse_bad_costs(void) {
    sab_sizes *sizes = powers_of_four();
    double found[4] = {-1, -1, -1, -1};
    sab_thresholds_options options = by(SAB_THRESHOLDS_LEAST_TOTAL);
    int answers = 2;
    const double weights[] = {1, 1};
    sab_cost *costs[6] = {new_callback(fail_after, &answers), new_callback(falling, NULL)};
    EXPECT_OK(sab_cost_padded_new(weights, 2, &costs[5]));
    options.cost = costs[5];
    EXPECT_FAILS(sab_thresholds_find(sizes, 2, &options, found, NULL), SAB_E_ARGUMENT,
                 "options.cost: uses 2 columns: must use at most 1");
    options.cost = costs[0];
    EXPECT_FAILS(sab_thresholds_find(sizes, 2, &options, found, NULL), SAB_E_CALLBACK,
                 "failed with code 42");
    EXPECT(sab_last_error_code() == 42);
    options.cost = costs[1];
    options.cost_per_sample = 1;
    EXPECT_FAILS(sab_thresholds_find(sizes, 2, &options, found, NULL), SAB_E_ARGUMENT,
                 "must never decrease");
    options.method = SAB_THRESHOLDS_RANDOMISED; /* which takes any cost */
    EXPECT_OK(sab_thresholds_find(sizes, 2, &options, (double[2]){0}, NULL));
    const sab_cost_term huge[] = {{1e308, 1, POWERS(0)}};
    EXPECT_OK(sab_cost_terms_new(huge, 1, &costs[2]));
    options = by(SAB_THRESHOLDS_LEAST_TOTAL);
    options.cost = costs[2];
    EXPECT_FAILS(sab_thresholds_find(sizes, 2, &options, found, NULL), SAB_E_ARGUMENT,
                 "of all samples in one group must be finite");
    /* each group is finite, and all three are not */
    const sab_cost_term constants[] = {{1e308, 0, POWERS(0)}, {1, 1, POWERS(0)}};
    EXPECT_OK(sab_cost_terms_new(constants, 2, &costs[3]));
    options.cost = costs[3];
    EXPECT_FAILS(sab_thresholds_find(sizes, 2, &options, found, NULL), SAB_E_ARGUMENT,
                 "options.cost = inf: of all groups must be finite");
    const sab_cost_term terms[] = {{-100, 1, POWERS(0)}, {1, 1, POWERS(1)}};
    EXPECT_OK(sab_cost_terms_new(terms, 2, &costs[4]));
    for (int method = SAB_THRESHOLDS_LEAST_TOTAL; method <= SAB_THRESHOLDS_RANDOMISED; ++method)
        for (int per_sample = 0; per_sample < 2; ++per_sample) {
            options = by(method);
            options.cost = costs[4];
            options.cost_per_sample = per_sample;
            EXPECT_FAILS(sab_thresholds_find(sizes, 2, &options, found, NULL), SAB_E_ARGUMENT,
                         "cost(1, 1) = -99 and cost(2, 1) = -198 must not be negative");
        }
    EXPECT(found[0] == -1 && found[1] == -1);
    for (size_t i = 0; i < COUNT(costs); ++i) sab_cost_free(costs[i]);
    sab_sizes_free(sizes);
}

/* Groupings */

static int are(const int64_t *given, const int64_t *expected, size_t count) {
    return memcmp(given, expected, count * sizeof *given) == 0;
}
#define ARE(given, ...)                        \
    are(given, (const int64_t[]){__VA_ARGS__}, \
        sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t))

/* What holds of every grouping. */
static sab_grouping_view shown(const sab_grouping *grouping) {
    sab_grouping_view all = SAB_GROUPING_VIEW_INIT;
    EXPECT_OK(sab_grouping_get_view(grouping, &all));
    EXPECT(all.offsets[0] == 0 && all.offsets[all.groups] == (int64_t)all.samples &&
           (all.dimensions > 0 || all.intervals == NULL));
    for (uint64_t g = 0; g < all.groups; ++g) {
        EXPECT(all.offsets[g] <= all.offsets[g + 1]);
        for (int64_t place = all.offsets[g]; place < all.offsets[g + 1]; ++place)
            EXPECT(all.inverse[all.permutation[place]] == place &&
                   all.group_of[all.permutation[place]] == (int64_t)g);
    }
    return all;
}

static void one_length_in_groups(void) {
    const int32_t numbers[] = {16, 1, 5, 64, 4, 1};
    const double thresholds[] = {16, 1, 2, 4}; /* in any order; none is above 1 and up to 2 */
    sab_sizes *sizes = sizes_of(numbers, 6);
    const sab_grouping_dimension dimension = {sizes, thresholds, 4};
    sab_grouping *grouping = NULL;
    EXPECT_OK(sab_grouping_thresholds_new(&dimension, 1, &grouping));
    sab_sizes_free(sizes);
    const sab_grouping_view all = shown(grouping);
    EXPECT(all.samples == 6 && all.groups == 4 && all.dimensions == 1);
    EXPECT(ARE(all.offsets, 0, 2, 3, 5, 6) && ARE(all.permutation, 1, 5, 4, 0, 2, 3) &&
           ARE(all.inverse, 3, 0, 4, 5, 2, 1));
    EXPECT(ARE(all.group_of, 2, 0, 2, 3, 1, 0) && ARE(all.intervals, 0, 2, 3, 4));
    sab_grouping_free(grouping);
}

static void two_lengths_in_groups(void) {
    const int32_t residues[] = {10, 20, 12, 30, 11}, atoms[] = {3, 6, 20, 4, 2};
    const double residue_threshold = 15, atom_thresholds[] = {5, 10};
    sab_sizes *first = sizes_of(residues, 5), *second = sizes_of(atoms, 5);
    const sab_grouping_dimension dimensions[] = {{first, &residue_threshold, 1},
                                                 {second, atom_thresholds, 2}};
    sab_grouping *grouping = NULL;
    EXPECT_OK(sab_grouping_thresholds_new(dimensions, 2, &grouping));
    const sab_grouping_view all = shown(grouping);
    EXPECT(all.groups == 4 && all.dimensions == 2 && ARE(all.offsets, 0, 2, 3, 4, 5));
    EXPECT(ARE(all.permutation, 0, 4, 2, 3, 1) && ARE(all.intervals, 0, 0, 0, 2, 1, 0, 1, 1));
    sab_grouping_free(grouping);
    sab_sizes_free(first);
    sab_sizes_free(second);
}

static void many_dimensions_as_a_slow_way_has_them(void) {
    for (int round = 0; round < 200; ++round) {
        enum { samples = 60 };
        const size_t dims = 1 + below(4);
        int32_t numbers[4][samples];
        double thresholds[4][3];
        sab_sizes *sizes[4];
        sab_grouping_dimension dimensions[4];
        for (size_t d = 0; d < dims; ++d) {
            for (int i = 0; i < samples; ++i) numbers[d][i] = (int32_t)below(12);
            for (int t = 0; t < 3; ++t) thresholds[d][t] = 4 * t + below(8) / 2.0;
            sizes[d] = sizes_of(numbers[d], samples);
            dimensions[d] = (sab_grouping_dimension){sizes[d], thresholds[d], 1 + below(3)};
        }
        sab_grouping *grouping = NULL;
        EXPECT_OK(sab_grouping_thresholds_new(dimensions, dims, &grouping));
        const sab_grouping_view all = shown(grouping);
        int64_t key[samples] = {0};
        for (size_t d = 0; d < dims; ++d)
            for (int i = 0; i < samples; ++i) {
                int64_t interval = 0;
                for (size_t t = 0; t < dimensions[d].threshold_count; ++t)
                    interval += numbers[d][i] > thresholds[d][t];
                EXPECT(all.intervals[(size_t)all.group_of[i] * dims + d] == interval);
                key[i] = 4 * key[i] + interval;
            }
        for (int place = 1; place < samples; ++place) {
            const int64_t before = all.permutation[place - 1], here = all.permutation[place];
            EXPECT(key[before] < key[here] || (key[before] == key[here] && before < here));
            EXPECT((key[before] == key[here]) == (all.group_of[before] == all.group_of[here]));
        }
        for (size_t d = 0; d < dims; ++d) sab_sizes_free(sizes[d]);
        sab_grouping_free(grouping);
    }
}

static void given_groups(void) {
    const int64_t group_of[] = {2, 0, 2, 0};
    sab_grouping *grouping = NULL;
    EXPECT_OK(sab_grouping_predefined_new(group_of, 4, 4, &grouping));
    sab_grouping_view all = shown(grouping);
    EXPECT(all.groups == 4 && all.dimensions == 0 && ARE(all.offsets, 0, 2, 2, 4, 4) &&
           ARE(all.permutation, 1, 3, 0, 2) && ARE(all.group_of, 2, 0, 2, 0));
    sab_grouping_free(grouping);

    const int64_t indices[] = {3, 0, 2, 1};
    const uint64_t counts[] = {1, 0, 3};
    EXPECT_OK(sab_grouping_partition_new(indices, counts, 3, &grouping));
    all = shown(grouping);
    EXPECT(all.groups == 3 && ARE(all.offsets, 0, 1, 1, 4) && ARE(all.permutation, 3, 0, 2, 1) &&
           ARE(all.inverse, 1, 3, 2, 0) && ARE(all.group_of, 2, 2, 2, 0));
    sab_grouping_free(grouping);

    EXPECT_OK(sab_grouping_partition_new(NULL, counts, 3, &grouping));
    all = shown(grouping);
    EXPECT(all.samples == 4 && ARE(all.offsets, 0, 1, 1, 4) && ARE(all.permutation, 0, 1, 2, 3) &&
           ARE(all.group_of, 0, 2, 2, 2));
    sab_grouping_free(grouping);

    EXPECT_OK(sab_grouping_partition_new(NULL, &counts[2], 1, &grouping));
    all = shown(grouping);
    EXPECT(all.groups == 1 && ARE(all.offsets, 0, 3) && ARE(all.permutation, 0, 1, 2) &&
           ARE(all.group_of, 0, 0, 0));
    sab_grouping_free(grouping);
}

static void groupings_of_nothing(void) {
    sab_grouping *grouping = NULL;
    const uint64_t no_sample = 0;
    EXPECT_OK(sab_grouping_partition_new(NULL, &no_sample, 1, &grouping));
    EXPECT(shown(grouping).groups == 1);
    sab_grouping_free(grouping);
    EXPECT_OK(sab_grouping_predefined_new(NULL, 0, 0, &grouping));
    EXPECT(shown(grouping).groups == 0);
    sab_grouping_free(grouping);
    EXPECT_OK(sab_grouping_partition_new(NULL, NULL, 0, &grouping));
    EXPECT(shown(grouping).groups == 0);
    sab_grouping_free(grouping);
    EXPECT_OK(sab_grouping_partition_new(NULL, NULL, 0, &grouping));
    sab_grouping_free(grouping);
    sab_sizes *none = sizes_of(NULL, 0);
    const double threshold = 1;
    const sab_grouping_dimension dimension = {none, &threshold, 1};
    EXPECT_OK(sab_grouping_thresholds_new(&dimension, 1, &grouping));
    const sab_grouping_view all = shown(grouping);
    EXPECT(all.groups == 0 && all.samples == 0 && all.dimensions == 1);
    sab_grouping_free(grouping);
    sab_sizes_free(none);
    sab_grouping_free(NULL);
}

static void groupings_refusals(void) {
    sab_sizes *sizes = powers_of_four(), *fewer = sizes_of(lengths(3), 3);
    const double wrong[] = {1, 2, 1, NAN}, negative = -1;
    sab_grouping *grouping = NULL;
    sab_grouping_dimension two[] = {{sizes, wrong, 2}, {fewer, wrong, 2}};
    EXPECT_FAILS(sab_grouping_thresholds_new(NULL, 1, &grouping), SAB_E_ARGUMENT,
                 "dimensions = NULL");
    EXPECT_FAILS(sab_grouping_thresholds_new(two, 0, &grouping), SAB_E_ARGUMENT,
                 "count = 0: must be from 1 to 64");
    EXPECT_FAILS(sab_grouping_thresholds_new(two, 1, NULL), SAB_E_ARGUMENT, "grouping = NULL");
    EXPECT_FAILS(sab_grouping_thresholds_new(two, 2, &grouping), SAB_E_ARGUMENT,
                 "dimensions[1].lengths.count = 3: must be that of dimensions[0], 85");
    two[0].threshold_count = 3;
    EXPECT_FAILS(sab_grouping_thresholds_new(two, 1, &grouping), SAB_E_ARGUMENT,
                 "dimensions[0].thresholds: 1 stands there twice");
    two[0].threshold_count = 4;
    EXPECT_FAILS(sab_grouping_thresholds_new(two, 1, &grouping), SAB_E_ARGUMENT,
                 "dimensions[0].thresholds[3] = nan");
    two[0].threshold_count = 0;
    EXPECT_FAILS(sab_grouping_thresholds_new(two, 1, &grouping), SAB_E_ARGUMENT,
                 "dimensions[0].threshold_count = 0");
    two[0] = (sab_grouping_dimension){NULL, wrong, 1};
    EXPECT_FAILS(sab_grouping_thresholds_new(two, 1, &grouping), SAB_E_ARGUMENT,
                 "dimensions[0].lengths = NULL");
    sab_sizes *bad = NULL;
    EXPECT_OK(sab_sizes_new(&negative, 1, SAB_FLOAT64, NULL, &bad));
    two[0].lengths = bad;
    EXPECT_FAILS(sab_grouping_thresholds_new(two, 1, &grouping), SAB_E_ARGUMENT, "sizes[0] = -1");
    const int64_t numbers[] = {0, 2}, twice[] = {1, 1};
    const uint64_t counts[] = {1, 1}, many[] = {1, UINT64_MAX};
    EXPECT_FAILS(sab_grouping_predefined_new(numbers, 2, 2, &grouping), SAB_E_ARGUMENT,
                 "group_of[1] = 2: must be at least 0 and below the number of groups, 2");
    EXPECT_FAILS(sab_grouping_predefined_new(NULL, 2, 2, &grouping), SAB_E_ARGUMENT,
                 "group_of = NULL");
    EXPECT_FAILS(sab_grouping_predefined_new(NULL, 0, SIZE_MAX, &grouping), SAB_E_ARGUMENT,
                 "groups = ");
    EXPECT_FAILS(sab_grouping_predefined_new(numbers, SIZE_MAX, 2, &grouping), SAB_E_ARGUMENT,
                 "samples = ");
    EXPECT_FAILS(sab_grouping_partition_new(numbers, counts, 2, &grouping), SAB_E_ARGUMENT,
                 "indices[1] = 2: must be at least 0 and below the number of samples, 2");
    EXPECT_FAILS(sab_grouping_partition_new(twice, counts, 2, &grouping), SAB_E_ARGUMENT,
                 "indices[1] = 1: stands there for the second time");
    EXPECT_FAILS(
        sab_grouping_partition_new(NULL, many, 2, &grouping), SAB_E_ARGUMENT,
        "counts[1] = 18446744073709551615: there must be at most 4294967295 samples, with 1");
    EXPECT_FAILS(sab_grouping_partition_new(NULL, NULL, 2, &grouping), SAB_E_ARGUMENT,
                 "counts = NULL");
    EXPECT(grouping == NULL);
    sab_grouping_view all = SAB_GROUPING_VIEW_INIT;
    EXPECT_FAILS(sab_grouping_get_view(NULL, &all), SAB_E_ARGUMENT, "grouping = NULL");
    EXPECT_OK(sab_grouping_partition_new(NULL, counts, 1, &grouping));
    all.struct_size = 1;
    EXPECT_FAILS(sab_grouping_get_view(grouping, &all), SAB_E_ARGUMENT, "groups.struct_size = 1");
    sab_grouping_free(grouping);
    sab_sizes_free(bad);
    sab_sizes_free(fewer);
    sab_sizes_free(sizes);
}

int main(void) {
    RUN(exact_methods_equal_trying_all);
    RUN(equal_costs_are_found_by_all);
    RUN(a_search_goes_as_described);
    RUN(seeds_decide_where_searches_begin);
    RUN(a_group_fewer_where_one_more_costs_more);
    RUN(an_empty_sample_costs_as_much_as_the_shortest);
    RUN(many_lengths_by_a_callback);
    RUN(many_groups);
    RUN(thresholds_refuse_bad_options);
    RUN(thresholds_refuse_bad_costs);
    RUN(one_length_in_groups);
    RUN(two_lengths_in_groups);
    RUN(many_dimensions_as_a_slow_way_has_them);
    RUN(given_groups);
    RUN(groupings_of_nothing);
    RUN(groupings_refusals);
    return finish();
}
