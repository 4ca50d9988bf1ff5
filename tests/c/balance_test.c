/* Work dealt out evenly: partitions of items. */
#include <math.h>
#include <stdlib.h>

#include "helpers.h"

static uint32_t random_state;

static uint32_t random_below(uint32_t bound) {
    random_state = random_state * 1664525u + 1013904223u;
    return (uint32_t)(((uint64_t)(random_state >> 8) * bound) >> 24);
}

/* Many short, few long. */
static double random_length(void) { return 1 + random_below(1 + random_below(1 + random_below(4096))); }

static sab_partition_options by(sab_partition_method method) {
    sab_partition_options options = SAB_PARTITION_OPTIONS_INIT;
    options.method = method;
    return options;
}

#define MOST_ITEMS 5000
#define MOST_PARTS 300

static uint32_t part_of[MOST_ITEMS];

/* The largest sum of costs of a part; the cap and equal counts are kept, and every item has a part. */
static double largest_of(const double *costs, size_t count, uint64_t parts, const sab_partition_options *options) {
    double sums[MOST_PARTS] = {0}, held[MOST_PARTS] = {0}, largest = 0;
    size_t items[MOST_PARTS] = {0};
    for (size_t i = 0; i < count; ++i) {
        EXPECT(part_of[i] < parts);
        sums[part_of[i]] += costs[i];
        if (options->weights != NULL) held[part_of[i]] += options->weights[i];
        ++items[part_of[i]];
    }
    for (uint64_t part = 0; part < parts; ++part) {
        largest = fmax(largest, sums[part]);
        EXPECT(options->weights == NULL || held[part] <= options->capacity);
        EXPECT(!options->equal_counts || items[part] * parts == count);
    }
    return largest;
}

static void Partition_OfSmallCases_IsTheOptimum(void) {
    const struct {
        size_t count;
        double costs[12];
        uint64_t parts;
        int32_t equal_counts;
        double optimum;
    } cases[] = {
        {5, {4, 5, 6, 7, 8}, 2, 0, 15},
        {5, {4, 5, 6, 7, 8}, 3, 0, 11},
        {5, {3, 3, 2, 2, 2}, 2, 0, 6},
        {7, {5, 5, 4, 4, 3, 3, 3}, 3, 0, 9},
        {6, {9, 7, 6, 5, 5, 4}, 3, 1, 13},
        {4, {10, 1, 1, 1}, 2, 1, 11},
        {4, {10, 1, 1, 1}, 2, 0, 10},
        {3, {1, 2, 3}, 5, 0, 3},
        {3, {0, 0, 0}, 2, 0, 0},
        {1, {7}, 1, 1, 7},
        {4, {0.5, 0.25, 0.25, 1}, 2, 0, 1},
        {4, {1, 2, 3, 4}, 1, 0, 10},
    };
    for (size_t i = 0; i < COUNT(cases); ++i)
        for (sab_partition_method method = SAB_PARTITION_KARMARKAR_KARP; method <= SAB_PARTITION_LONGEST_FIRST; ++method) {
            sab_partition_options options = by(method);
            options.equal_counts = cases[i].equal_counts;
            EXPECT_OK(sab_partition(cases[i].costs, cases[i].count, cases[i].parts, &options, part_of));
            EXPECT(largest_of(cases[i].costs, cases[i].count, cases[i].parts, &options) == cases[i].optimum);
        }
    EXPECT_OK(sab_partition(NULL, 0, 3, NULL, NULL));
}

static void Partition_OfRandomCosts_IsNearTheBound(void) {
    static double costs[MOST_ITEMS];
    random_state = 1;
    double differencing = 0, longest_first = 0;
    for (int round = 0; round < 300; ++round) {
        const uint64_t parts = 1 + random_below(round % 3 == 0 ? MOST_PARTS : 20);
        size_t count = 1 + random_below(round % 10 == 0 ? MOST_ITEMS : 400);
        const int32_t equal_counts = round % 2;
        if (equal_counts) count = count < parts ? parts : count - count % parts;
        double sum = 0, most = 0;
        for (size_t i = 0; i < count; ++i) {
            costs[i] = random_length();
            if (round % 4 == 2) costs[i] *= costs[i];
            if (round % 4 == 3) costs[i] = random_below(2) * costs[i] / 3; /* half of them 0, the others no whole numbers */
            sum += costs[i];
            most = fmax(most, costs[i]);
        }
        double largest[2];
        for (sab_partition_method method = 0; method < 2; ++method) {
            sab_partition_options options = by(method);
            options.equal_counts = equal_counts;
            EXPECT_OK(sab_partition(costs, count, parts, &options, part_of));
            largest[method] = largest_of(costs, count, parts, &options);
            EXPECT(largest[method] <= sum / (double)parts + most);
        }
        const double bound = fmax(most, sum / (double)parts);
        differencing += largest[0] / bound;
        longest_first += largest[1] / bound;
        if (count >= 16 * parts && round % 4 < 2) EXPECT(largest[0] <= bound * 1.001 + 1);
    }
    EXPECT(differencing <= longest_first * 1.0001);
}

static void EqualCosts_ArePartedTheSameEveryTime(void) {
    double costs[64];
    for (int i = 0; i < 64; ++i) costs[i] = i % 4;
    const uint32_t expected[] = {0, 1, 2, 3};
    uint32_t again[64];
    EXPECT_OK(sab_partition(costs, 64, 7, NULL, part_of));
    EXPECT_OK(sab_partition(costs, 64, 7, NULL, again));
    EXPECT(memcmp(part_of, again, sizeof again) == 0);
    /* Ties go by index. */
    const double ones[] = {1, 1, 1, 1};
    EXPECT_OK(sab_partition(ones, 4, 4, NULL, part_of));
    EXPECT(memcmp(part_of, expected, sizeof expected) == 0);
}

static void Capacity_IsKeptWhereItCanBe(void) {
    static double costs[MOST_ITEMS], weights[MOST_ITEMS];
    random_state = 5;
    int refused = 0;
    for (int round = 0; round < 300; ++round) {
        const uint64_t parts = 1 + random_below(40);
        const size_t count = parts * (4 + random_below(30));
        double sum = 0, most = 0, cost = 0;
        for (size_t i = 0; i < count; ++i) {
            weights[i] = random_length();
            costs[i] = round % 3 == 0 ? weights[i] * weights[i] : round % 3 == 1 ? random_length() : 1000 / weights[i];
            sum += weights[i];
            most = fmax(most, weights[i]);
            cost += costs[i];
        }
        sab_partition_options options = by(round % 2);
        options.weights = weights;
        options.capacity = fmax(sum / (double)parts, most) * (1.02 + random_below(50) / 100.0);
        options.equal_counts = round % 5 == 0;
        const sab_status status = sab_partition(costs, count, parts, &options, part_of);
        if (status == SAB_OK) {
            const double largest = largest_of(costs, count, parts, &options);
            EXPECT(largest <= cost);
        } else {
            ++refused;
            EXPECT(strstr(sab_last_error_message(), "that keeps it was found") != NULL);
        }
    }
    EXPECT(refused == 0); /* none of these is that tight */
}

static void TightCapacity_IsFoundByPackingAlone(void) {
    /* Only 6 + 4 and 5 + 3 + 2 fill both parts: balance by cost would not have it. */
    const double weights[] = {6, 5, 4, 3, 2}, costs[] = {9, 1, 8, 1, 1};
    sab_partition_options options = by(SAB_PARTITION_KARMARKAR_KARP);
    options.weights = weights;
    options.capacity = 10;
    EXPECT_OK(sab_partition(costs, 5, 2, &options, part_of));
    EXPECT(largest_of(costs, 5, 2, &options) == 17);
}

static void WrongPartitions_AreRefusedByName(void) {
    const double costs[] = {1, 2, 3, 4}, weights[] = {5, 5, 5, 6};
    double broken[] = {1, 2, NAN, 4};
    uint32_t parts[4] = {9, 9, 9, 9};
    sab_partition_options options = SAB_PARTITION_OPTIONS_INIT, filled;
    sab_partition_options_init(&filled);
    EXPECT(memcmp(&options, &filled, sizeof options) == 0);
    sab_partition_options_init(NULL);
    EXPECT_FAILS(sab_partition(NULL, 4, 2, NULL, parts), SAB_E_ARGUMENT, "costs = NULL: must be given");
    EXPECT_FAILS(sab_partition(costs, 4, 2, NULL, NULL), SAB_E_ARGUMENT, "part_of = NULL: must be given");
    EXPECT_FAILS(sab_partition(costs, (size_t)1 << 32, 2, NULL, parts), SAB_E_ARGUMENT, "count = 4294967296: must be at most 4294967295");
    EXPECT_FAILS(sab_partition(costs, 4, 0, NULL, parts), SAB_E_ARGUMENT, "parts = 0: must be from 1 to 1048576");
    EXPECT_FAILS(sab_partition(costs, 4, 1048577, NULL, parts), SAB_E_ARGUMENT, "parts = 1048577: must be from 1 to 1048576");
    EXPECT_FAILS(sab_partition(broken, 4, 2, NULL, parts), SAB_E_ARGUMENT, "costs[2] = nan: must be finite and at least 0");
    broken[2] = -1;
    EXPECT_FAILS(sab_partition(broken, 4, 2, NULL, parts), SAB_E_ARGUMENT, "costs[2] = -1: must be finite and at least 0");
    broken[2] = broken[3] = 1e308;
    EXPECT_FAILS(sab_partition(broken, 4, 2, NULL, parts), SAB_E_ARGUMENT, "costs: must have a finite sum");
    options.struct_size = 4;
    EXPECT_FAILS(sab_partition(costs, 4, 2, &options, parts), SAB_E_ARGUMENT, "options.struct_size = 4");
    options = by(2);
    EXPECT_FAILS(sab_partition(costs, 4, 2, &options, parts), SAB_E_ARGUMENT, "options.method = 2: must be");
    options = by(0);
    options.equal_counts = 2;
    EXPECT_FAILS(sab_partition(costs, 4, 2, &options, parts), SAB_E_ARGUMENT, "options.equal_counts = 2: must be 0 or 1");
    options.equal_counts = 1;
    EXPECT_FAILS(sab_partition(costs, 4, 3, &options, parts), SAB_E_ARGUMENT, "count = 4: must be a multiple of parts = 3");
    options.equal_counts = 0;
    options.capacity = 5;
    EXPECT_FAILS(sab_partition(costs, 4, 2, &options, parts), SAB_E_ARGUMENT, "options.capacity = 5: needs options.weights");
    options.weights = weights;
    options.capacity = 0;
    EXPECT_FAILS(sab_partition(costs, 4, 2, &options, parts), SAB_E_ARGUMENT, "options.capacity = 0: must be finite and above 0");
    options.capacity = 5;
    EXPECT_FAILS(sab_partition(costs, 4, 2, &options, parts), SAB_E_ARGUMENT, "options.capacity = 5: options.weights[3] = 6 alone is more");
    options.capacity = 6;
    EXPECT_FAILS(sab_partition(costs, 4, 3, &options, parts), SAB_E_ARGUMENT, "the weights sum to 21, which is more than 3 parts hold");
    options.capacity = 10;
    EXPECT_FAILS(sab_partition(costs, 4, 2, &options, parts), SAB_E_ARGUMENT, "the weights sum to 21, which is more than 2 parts hold");
    options.capacity = 10.5;
    EXPECT_FAILS(sab_partition(costs, 4, 2, &options, parts), SAB_E_ARGUMENT,
                 "options.capacity = 10.5: no assignment of 4 items to 2 parts that keeps it was found");
    options.weights = broken;
    broken[1] = -2;
    EXPECT_FAILS(sab_partition(costs, 4, 2, &options, parts), SAB_E_ARGUMENT, "options.weights[1] = -2: must be finite and at least 0");
    for (int i = 0; i < 4; ++i) EXPECT(parts[i] == 9);
}

int main(void) {
    RUN(Partition_OfSmallCases_IsTheOptimum);
    RUN(Partition_OfRandomCosts_IsNearTheBound);
    RUN(EqualCosts_ArePartedTheSameEveryTime);
    RUN(Capacity_IsKeptWhereItCanBe);
    RUN(TightCapacity_IsFoundByPackingAlone);
    RUN(WrongPartitions_AreRefusedByName);
    return finish();
}
