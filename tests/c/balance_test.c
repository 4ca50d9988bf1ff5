/* Partitions and steps of equal cost. */
#define _GNU_SOURCE
#include <math.h>
#include <stdlib.h>

#include "helpers.h"
#include "one.h"

/* Many short, few long. */
static double random_length(void) {
    return 1 + below(1 + below(1 + below(4096)));
}

/* One weight an item, and its capacity. */
#define SET_CAPACITY(options, ...) \
    ((options).capacities = (const double[1]){__VA_ARGS__}, (options).capacity_count = 1)

#define MOST_ITEMS 5000
#define MOST_PARTS 300

static uint32_t part_of[MOST_ITEMS];

/* The largest sum of costs of a part; the cap and equal counts are kept, and every item has a part.
 */
static double largest_of(const double *costs, size_t count, uint64_t parts,
                         const sab_partition_options *options) {
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
        EXPECT(options->weights == NULL || held[part] <= *options->capacities);
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
    for (size_t i = 0; i < COUNT(cases); ++i) {
        sab_partition_options options = SAB_PARTITION_OPTIONS_INIT;
        options.equal_counts = cases[i].equal_counts;
        EXPECT_OK(
            sab_items_partition(cases[i].costs, cases[i].count, cases[i].parts, &options, part_of));
        EXPECT(largest_of(cases[i].costs, cases[i].count, cases[i].parts, &options) ==
               cases[i].optimum);
    }
    EXPECT_OK(sab_items_partition(NULL, 0, 3, NULL, NULL));
}

static void Partition_OfRandomCosts_IsNearTheBound(void) {
    static double costs[MOST_ITEMS];
    random_state = 1;
    for (int round = 0; round < ROUNDS_OF(300); ++round) {
        const uint64_t parts = 1 + below(round % 3 == 0 ? MOST_PARTS : 20);
        size_t count = 1 + below(round % 10 == 0 ? MOST_ITEMS : 400);
        const int32_t equal_counts = round % 2;
        if (equal_counts) count = count < parts ? parts : count - count % parts;
        double sum = 0, most = 0;
        for (size_t i = 0; i < count; ++i) {
            costs[i] = random_length();
            if (round % 4 == 2) costs[i] *= costs[i];
            /* half of them 0, the others no whole numbers */
            if (round % 4 == 3) costs[i] = below(2) * costs[i] / 3;
            sum += costs[i];
            most = fmax(most, costs[i]);
        }
        sab_partition_options options = SAB_PARTITION_OPTIONS_INIT;
        options.equal_counts = equal_counts;
        EXPECT_OK(sab_items_partition(costs, count, parts, &options, part_of));
        const double largest = largest_of(costs, count, parts, &options);
        EXPECT(largest <= sum / (double)parts + most);
        const double bound = fmax(most, sum / (double)parts);
        if (count >= 16 * parts && round % 4 < 2) EXPECT(largest <= bound * 1.001 + 1);
    }
}

static void EqualCosts_ArePartedTheSameEveryTime(void) {
    double costs[64];
    for (int i = 0; i < 64; ++i) costs[i] = i % 4;
    const uint32_t expected[] = {0, 1, 2, 3};
    uint32_t again[64];
    EXPECT_OK(sab_items_partition(costs, 64, 7, NULL, part_of));
    EXPECT_OK(sab_items_partition(costs, 64, 7, NULL, again));
    EXPECT(memcmp(part_of, again, sizeof again) == 0);
    /* Ties go by index. */
    const double ones[] = {1, 1, 1, 1};
    EXPECT_OK(sab_items_partition(ones, 4, 4, NULL, part_of));
    EXPECT(memcmp(part_of, expected, sizeof expected) == 0);
}

static void Capacity_IsKeptWhereItCanBe(void) {
    static double costs[MOST_ITEMS], weights[MOST_ITEMS];
    random_state = 5;
    int refused = 0;
    for (int round = 0; round < ROUNDS_OF(300); ++round) {
        const uint64_t parts = 1 + below(40);
        const size_t count = parts * (4 + below(30));
        double sum = 0, most = 0, cost = 0;
        for (size_t i = 0; i < count; ++i) {
            weights[i] = random_length();
            costs[i] = round % 3 == 0   ? weights[i] * weights[i]
                       : round % 3 == 1 ? random_length()
                                        : 1000 / weights[i];
            sum += weights[i];
            most = fmax(most, weights[i]);
            cost += costs[i];
        }
        sab_partition_options options = SAB_PARTITION_OPTIONS_INIT;
        options.weights = weights;
        SET_CAPACITY(options, fmax(sum / (double)parts, most) * (1.02 + below(50) / 100.0));
        options.equal_counts = round % 5 == 0;
        const sab_status status = sab_items_partition(costs, count, parts, &options, part_of);
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
    sab_partition_options options = SAB_PARTITION_OPTIONS_INIT;
    options.weights = weights;
    SET_CAPACITY(options, 10);
    EXPECT_OK(sab_items_partition(costs, 5, 2, &options, part_of));
    EXPECT(largest_of(costs, 5, 2, &options) == 17);
}

/* .1 + .2 + .3 is more than .6, .3 + .2 + .1 is not: the order of the items counts, whatever they
 * cost. */
static void Capacity_IsThatOfSumsInTheOrderOfTheItems(void) {
    const double rising[] = {.1, .2, .3}, falling[] = {.3, .2, .1},
                 costs[][3] = {{1, 2, 3}, {3, 2, 1}, {2, 2, 2}};
    for (size_t i = 0; i < COUNT(costs); ++i) {
        sab_partition_options options = SAB_PARTITION_OPTIONS_INIT;
        SET_CAPACITY(options, .6);
        options.weights = rising;
        EXPECT_FAILS(sab_items_partition(costs[i], 3, 1, &options, part_of), SAB_E_ARGUMENT,
                     "the weights sum to 0.6000000000000001, which is more than 1 parts hold");
        options.weights = falling;
        EXPECT_OK(sab_items_partition(costs[i], 3, 1, &options, part_of));
    }
}

/* Caps that the sums of some parts meet exactly, in one order and not in another. */
static void TightCapacities_OfTenths_AreKept(void) {
    double costs[40], weights[40];
    random_state = 9;
    int held = 0;
    for (int round = 0; round < ROUNDS_OF(2000); ++round) {
        const uint64_t parts = 1 + below(5);
        const size_t count = parts * (1 + below(8));
        double sums[5] = {0}, most = 0;
        for (size_t i = 0; i < count; ++i) {
            weights[i] = (1 + below(9)) / 10.0;
            costs[i] = round % 2 ? weights[i] : below(1000);
            sums[i % parts] += weights[i];
        }
        for (uint64_t part = 0; part < parts; ++part) most = fmax(most, sums[part]);
        sab_partition_options options = SAB_PARTITION_OPTIONS_INIT;
        options.weights = weights;
        SET_CAPACITY(options, most);
        options.equal_counts = round % 5 == 0;
        if (sab_items_partition(costs, count, parts, &options, part_of) != SAB_OK) continue;
        largest_of(costs, count, parts, &options); /* sums in the order of the items */
        ++held;
    }
    EXPECT(held > ROUNDS_OF(1800));
}

/* As many parts as there may be, or half as many as items: hours, if each item or exchange looked
 * at them all. */
static void ManyParts_TakeAboutTheTimeOfSorting(void) {
    enum { items = ROUNDS_OF(200000) };
    double *costs = malloc(items * sizeof *costs), *weights = malloc(items * sizeof *weights),
           *sums = malloc(items * sizeof *sums);
    uint32_t *found = malloc(items * sizeof *found);
    random_state = 3;
    for (int i = 0; i < items; ++i) {
        costs[i] = below(1 << 24);
        weights[i] = below(1 << 24) / 3.0;
    }
    const uint64_t parts[] = {1000, items / 2, items, 1 << 20};
    for (size_t p = 0; p < COUNT(parts); ++p)
        for (int capped = 0; capped < 2; ++capped)
            for (int equal_counts = 0; equal_counts < 2 && (!equal_counts || items % parts[p] == 0);
                 ++equal_counts) {
                sab_partition_options options = SAB_PARTITION_OPTIONS_INIT;
                options.equal_counts = equal_counts;
                const double capacity =
                    fmax((1 << 24) / 3.0, items / (double)parts[p] * (1 << 23) / 3.0 * 1.1);
                if (capped) {
                    options.weights = weights;
                    options.capacities = &capacity;
                    options.capacity_count = 1;
                }
                EXPECT_OK(sab_items_partition(costs, items, parts[p], &options, found));
                double largest = 0;
                memset(sums, 0, items * sizeof *sums);
                for (int i = 0; i < items && p < 3; ++i)
                    largest = fmax(largest, sums[found[i]] += costs[i]);
                const double mean = items / (double)parts[p] * (1 << 23);
                EXPECT(largest < fmax((capped ? 2 : 1.01) * mean, 1 << 24));
                if (!capped) continue;
                memset(sums, 0, items * sizeof *sums);
                for (int i = 0; i < items && p < 3; ++i) {
                    sums[found[i]] += weights[i];
                    EXPECT(sums[found[i]] <= capacity);
                }
            }
    free(costs);
    free(weights);
    free(sums);
    free(found);
}

/* Room for all together and for each alone is seen before any search. */
static void ImpossibleCapacities_AreRefusedAtOnce(void) {
    enum { items = 500000 };
    double *costs = malloc(items * sizeof *costs);
    uint32_t *found = malloc(items * sizeof *found);
    for (int i = 0; i < items; ++i) costs[i] = 1 + i % 7;
    sab_partition_options options = SAB_PARTITION_OPTIONS_INIT;
    options.weights = costs;
    SET_CAPACITY(options, 8);
    for (int i = 0; i < 100; ++i)
        EXPECT_FAILS(sab_items_partition(costs, items, items / 4, &options, found), SAB_E_ARGUMENT,
                     "which is more than 125000 parts hold");
    costs[items - 1] = 9;
    for (int i = 0; i < 100; ++i)
        EXPECT_FAILS(sab_items_partition(costs, items, items, &options, found), SAB_E_ARGUMENT,
                     "options.weights[499999] = 9 alone is more");
    free(costs);
    free(found);
}

static void WrongPartitions_AreRefusedByName(void) {
    const double costs[] = {1, 2, 3, 4}, weights[] = {5, 5, 5, 6};
    double broken[] = {1, 2, NAN, 4};
    uint32_t parts[4] = {9, 9, 9, 9};
    const sab_partition_options macro = SAB_PARTITION_OPTIONS_INIT;
    sab_partition_options options = macro;
    EXPECT_FAILS(sab_items_partition(NULL, 4, 2, NULL, parts), SAB_E_ARGUMENT,
                 "costs = NULL: must be given");
    EXPECT_FAILS(sab_items_partition(costs, 4, 2, NULL, NULL), SAB_E_ARGUMENT,
                 "part_of = NULL: must be given");
    EXPECT_FAILS(sab_items_partition(costs, (size_t)1 << 32, 2, NULL, parts), SAB_E_ARGUMENT,
                 "count = 4294967296: must be at most 4294967295");
    EXPECT_FAILS(sab_items_partition(costs, 4, 0, NULL, parts), SAB_E_ARGUMENT,
                 "parts = 0: must be from 1 to 1048576");
    EXPECT_FAILS(sab_items_partition(costs, 4, 1048577, NULL, parts), SAB_E_ARGUMENT,
                 "parts = 1048577: must be from 1 to 1048576");
    EXPECT_FAILS(sab_items_partition(broken, 4, 2, NULL, parts), SAB_E_ARGUMENT,
                 "costs[2] = nan: must be finite and at least 0");
    broken[2] = -1;
    EXPECT_FAILS(sab_items_partition(broken, 4, 2, NULL, parts), SAB_E_ARGUMENT,
                 "costs[2] = -1: must be finite and at least 0");
    broken[2] = broken[3] = 1e308;
    EXPECT_FAILS(sab_items_partition(broken, 4, 2, NULL, parts), SAB_E_ARGUMENT,
                 "costs: must have a finite sum");
    options.struct_size = 4;
    EXPECT_FAILS(sab_items_partition(costs, 4, 2, &options, parts), SAB_E_ARGUMENT,
                 "options.struct_size = 4");
    options = macro;
    options.cost_count = 9;
    EXPECT_FAILS(sab_items_partition(costs, 4, 2, &options, parts), SAB_E_ARGUMENT,
                 "options.cost_count = 9: must be from 1 to 8");
    options = macro;
    options.capacity_count = 9;
    EXPECT_FAILS(sab_items_partition(costs, 4, 2, &options, parts), SAB_E_ARGUMENT,
                 "options.capacity_count = 9: must be at most 8");
    options.capacity_count = 1;
    options.weights = weights;
    EXPECT_FAILS(sab_items_partition(costs, 4, 2, &options, parts), SAB_E_ARGUMENT,
                 "options.capacities = NULL: must be given");
    options = macro;
    options.equal_counts = 2;
    EXPECT_FAILS(sab_items_partition(costs, 4, 2, &options, parts), SAB_E_ARGUMENT,
                 "options.equal_counts = 2: must be 0 or 1");
    options.equal_counts = 1;
    EXPECT_FAILS(sab_items_partition(costs, 4, 3, &options, parts), SAB_E_ARGUMENT,
                 "count = 4: must be a multiple of parts = 3");
    for (int i = 0; i < 4; ++i) EXPECT(parts[i] == 9);
}

static void WrongCapacitiesOfPartitions_AreRefusedByName(void) {
    const double costs[] = {1, 2, 3, 4}, weights[] = {5, 5, 5, 6}, broken[] = {1, -2, 3, 4};
    uint32_t parts[4] = {9, 9, 9, 9};
    sab_partition_options options = SAB_PARTITION_OPTIONS_INIT;
    SET_CAPACITY(options, 5);
    EXPECT_FAILS(sab_items_partition(costs, 4, 2, &options, parts), SAB_E_ARGUMENT,
                 "options.weights = NULL: must be given");
    options.weights = weights;
    SET_CAPACITY(options, 0);
    EXPECT_FAILS(sab_items_partition(costs, 4, 2, &options, parts), SAB_E_ARGUMENT,
                 "options.capacities[0] = 0: must be finite and above 0");
    SET_CAPACITY(options, 5);
    EXPECT_FAILS(sab_items_partition(costs, 4, 2, &options, parts), SAB_E_ARGUMENT,
                 "options.capacities[0] = 5: options.weights[3] = 6 alone is more");
    EXPECT_FAILS(sab_items_partition(costs, 4, 9, &options, parts), SAB_E_ARGUMENT,
                 "options.capacities[0] = 5: options.weights[3] = 6 alone is more");
    SET_CAPACITY(options, 6);
    EXPECT_FAILS(sab_items_partition(costs, 4, 3, &options, parts), SAB_E_ARGUMENT,
                 "the weights sum to 21, which is more than 3 parts hold");
    SET_CAPACITY(options, 10);
    EXPECT_FAILS(sab_items_partition(costs, 4, 2, &options, parts), SAB_E_ARGUMENT,
                 "the weights sum to 21, which is more than 2 parts hold");
    SET_CAPACITY(options, 10.5);
    EXPECT_FAILS(sab_items_partition(costs, 4, 2, &options, parts), SAB_E_ARGUMENT,
                 "options.capacities: no assignment of 4 items to 2 parts that keeps it "
                 "was found");
    options.weights = broken;
    EXPECT_FAILS(sab_items_partition(costs, 4, 2, &options, parts), SAB_E_ARGUMENT,
                 "options.weights[1] = -2: must be finite and at least 0");
    for (int i = 0; i < 4; ++i) EXPECT(parts[i] == 9);
}

/* Two costs and two weights of each item: both costs are even, both capacities are kept. */
static void SeveralCosts_AreAllEven(void) {
    enum { ITEMS = 2048, PARTS = 32 };
    static double costs[2 * ITEMS], weights[2 * ITEMS];
    random_state = 11;
    for (int round = 0; round < 20; ++round) {
        double sums[2][2] = {{0}};
        for (int i = 0; i < ITEMS; ++i) {
            costs[i] = 1 + below(5);
            costs[ITEMS + i] = 100 * costs[i] + below(500) / (round % 2 ? 3.0 : 1.0);
            weights[i] = below(100);
            weights[ITEMS + i] = below(1000) / 7.0;
            for (int k = 0; k < 2; ++k) {
                sums[0][k] += costs[k * ITEMS + i];
                sums[1][k] += weights[k * ITEMS + i];
            }
        }
        sab_partition_options options = SAB_PARTITION_OPTIONS_INIT;
        options.cost_count = 2;
        options.equal_counts = round % 3 == 0;
        const double capacities[] = {sums[1][0] / PARTS * 1.05, sums[1][1] / PARTS * 1.03};
        if (round % 4 > 1) {
            options.weights = weights;
            options.capacities = capacities;
            options.capacity_count = 2;
        }
        EXPECT_OK(sab_items_partition(costs, ITEMS, PARTS, &options, part_of));
        for (int k = 0; k < 2; ++k) {
            double cost[PARTS] = {0}, held[PARTS] = {0};
            int items[PARTS] = {0};
            for (int i = 0; i < ITEMS; ++i) {
                cost[part_of[i]] += costs[k * ITEMS + i];
                held[part_of[i]] += weights[k * ITEMS + i];
                ++items[part_of[i]];
            }
            for (int part = 0; part < PARTS; ++part) {
                EXPECT(cost[part] <= 1.01 * sums[0][k] / PARTS);
                EXPECT(options.capacity_count == 0 || held[part] <= capacities[k]);
                EXPECT(!options.equal_counts || items[part] == ITEMS / PARTS);
            }
        }
    }
}

/* A cost that one item makes uneven leaves the others to be evened out. */
static void ACostThatCannotBeEven_LeavesTheOthers(void) {
    enum { ITEMS = 256, PARTS = 8 };
    static double costs[2 * ITEMS];
    random_state = 12;
    double sum = 0, most = 0;
    for (int i = 0; i < ITEMS; ++i) {
        costs[i] = i == 7 ? 1e6 : 1;
        sum += costs[ITEMS + i] = 1 + below(100);
    }
    sab_partition_options options = SAB_PARTITION_OPTIONS_INIT;
    options.cost_count = 2;
    EXPECT_OK(sab_items_partition(costs, ITEMS, PARTS, &options, part_of));
    double cost[PARTS] = {0};
    for (int i = 0; i < ITEMS; ++i) cost[part_of[i]] += costs[ITEMS + i];
    for (int part = 0; part < PARTS; ++part) most = fmax(most, cost[part]);
    EXPECT(most <= 1.01 * sum / PARTS);
}

struct follower {
    int calls, cancel_at;
    int is_ascending;
    uint64_t done;
};

static int32_t follow(void *ctx, uint64_t done, uint64_t total) {
    struct follower *follower = (struct follower *)ctx;
    follower->is_ascending = follower->is_ascending && done >= follower->done && done <= total;
    follower->done = done;
    return ++follower->calls == follower->cancel_at ? 55 : 0;
}

static void Partition_CanBeFollowedAndCancelledAllTheWay(void) {
    enum { ITEMS = 100000, PARTS = 50 };
    double *costs = (double *)malloc(ITEMS * sizeof(double));
    uint32_t *found = (uint32_t *)malloc(ITEMS * sizeof(uint32_t)),
             *again = (uint32_t *)malloc(ITEMS * sizeof(uint32_t));
    random_state = 1;
    for (size_t i = 0; i < ITEMS; ++i) costs[i] = random_length() + 1.0 / (double)(i + 1);
    sab_partition_options options = SAB_PARTITION_OPTIONS_INIT;
    EXPECT(sab_items_partition(costs, ITEMS, PARTS, &options, found) == SAB_OK);
    struct follower follower = {0, 0, 1, 0};
    options.progress = follow;
    options.progress_ctx = &follower;
    EXPECT(sab_items_partition(costs, ITEMS, PARTS, &options, again) == SAB_OK);
    EXPECT(memcmp(found, again, ITEMS * sizeof(uint32_t)) == 0);
    EXPECT(follower.calls >= 10 && follower.is_ascending);
    const int calls = follower.calls;
    for (int at = 1; at <= calls; ++at) {
        follower.calls = 0;
        follower.done = 0;
        follower.cancel_at = at;
        memset(again, 0xFF, ITEMS * sizeof(uint32_t));
        EXPECT(sab_items_partition(costs, ITEMS, PARTS, &options, again) == SAB_E_CANCELLED);
        EXPECT(sab_last_error_code() == 55 && follower.calls == at && again[0] == 0xFFFFFFFFu &&
               again[ITEMS - 1] == 0xFFFFFFFFu);
    }
    free(costs);
    free(found);
    free(again);
}

static sab_sampler *balanced_with(const sab_balanced_options *balanced,
                                  const sab_sampler_options *options) {
    sab_sizes *sizes = sizes_of(skewed(), SKEWED);
    sab_sampler *sampler = NULL;
    EXPECT_OK(sab_balanced_sampler_new(sizes, balanced, options, &sampler));
    sab_sizes_free(sizes);
    return sampler;
}

static double cost_of(const sab_balanced_options *balanced, double size) {
    return balanced->balance_count > 0 ? size * size : size;
}

/* What an epoch must be on all ranks together. */
static void check_epoch(const sab_balanced_options *balanced, uint64_t world_size,
                        uint64_t micro_batches) {
    static sab_sampler *samplers[16];
    static int seen[SKEWED];
    const int32_t *sizes = skewed();
    memset(seen, 0, sizeof seen);
    for (uint64_t r = 0; r < world_size; ++r) {
        sab_sampler_options options = ranks(r, world_size);
        options.micro_batches = micro_batches;
        samplers[r] = balanced_with(balanced, &options);
    }
    sab_balanced_report report = SAB_BALANCED_REPORT_INIT;
    EXPECT_OK(sab_balanced_sampler_get_report(samplers[0], NULL, &report));
    uint64_t count = 0;
    EXPECT_OK(sab_sampler_get_batch_count(samplers[0], &count));
    EXPECT(count == report.steps * micro_batches);
    double time = 0, all = 0;
    struct step_samples sums = {0};
    for (uint64_t step = 0; step < report.steps; ++step) {
        double slowest = 0, step_total = 0, told = -1;
        uint64_t step_samples = 0, told_samples = 0;
        for (uint64_t r = 0; r < world_size; ++r) {
            double cost = 0;
            for (uint64_t m = 0; m < micro_batches; ++m) {
                sab_batch batch = SAB_BATCH_INIT;
                EXPECT_OK(sab_next_batch(samplers[r], &batch));
                double total = 0, longest = 0;
                const sab_rows rows = rows_of(samplers[r]);
                const int32_t *cu_seqlens = rows.cu_seqlens[0];
                EXPECT(batch.layout == SAB_LAYOUT_ROW && rows.starts == NULL &&
                       *rows.capacity == -1 && cu_seqlens[0] == 0);
                for (uint64_t i = 0; i < batch.count; ++i) {
                    EXPECT(cu_seqlens[i + 1] - cu_seqlens[i] == sizes[batch.indices[i]]);
                    ++seen[batch.indices[i]];
                    total += sizes[batch.indices[i]];
                    longest = fmax(longest, sizes[batch.indices[i]]);
                    cost += cost_of(balanced, sizes[batch.indices[i]]);
                }
                EXPECT(*batch.total == total && *batch.longest == longest &&
                       *batch.padded_length == total && padded_total(&batch) == total);
                const sab_step said = step_of(samplers[r]);
                EXPECT(batch.step == step && batch.micro_batch == m &&
                       said.micro_batches == micro_batches && batch.bucket == -1);
                EXPECT(balanced->budget_count == 0 || total <= balanced->budgets[0].limit);
                step_total += total;
                step_samples += batch.count;
                told = *said.totals;
                told_samples = said.samples;
            }
            slowest = fmax(slowest, cost);
            all += cost;
        }
        EXPECT(told == step_total && told_samples == step_samples && step_samples > 0);
        EXPECT(balanced->samples == 0 || step_samples <= balanced->samples);
        time += slowest;
        add_step_samples(&sums, step_samples);
    }
    EXPECT(all_are(seen, SKEWED, 1) && HAS_STEP_SAMPLES(report, &sums));
    EXPECT(fabs(report.time[0] - time) <= 1e-9 * time &&
           fabs(report.least_time[0] * (double)world_size - all) <= 1e-9 * all);
    EXPECT(report.rank_imbalance[0] >= 1 &&
           report.rank_imbalance[0] <= report.largest_rank_imbalance[0]);
    for (uint64_t r = 0; r < world_size; ++r) {
        sab_batch batch = SAB_BATCH_INIT;
        EXPECT(sab_next_batch(samplers[r], &batch) == SAB_END &&
               sab_next_batch(samplers[r], &batch) == SAB_END);
        sab_sampler_free(samplers[r]);
    }
}

static void every_sample_once_in_equal_steps_under_the_cap(void) {
    for (uint64_t world_size = 1; world_size <= 8; world_size = 2 * world_size - world_size / 3)
        for (uint64_t micro_batches = 1; micro_batches <= 3; ++micro_batches)
            for (int i = 0; i < 8; ++i) {
                sab_balanced_options balanced = SAB_BALANCED_OPTIONS_INIT;
                if (i % 2 == 1) BALANCE_SQUARES(balanced);
                if (i / 2 % 2 == 0 || i >= 4) SET_BUDGET(balanced, i < 4 ? 1000 : 800);
                if (i / 2 % 2 == 1) balanced.samples = 60;
                if (i == 7) balanced.fill = 1;
                check_epoch(&balanced, world_size, micro_batches);
            }
}

static void costs_are_even(void) {
    sab_balanced_options balanced = SAB_BALANCED_OPTIONS_INIT;
    const sab_sampler_options options = ranks(0, 4);
    SET_BUDGET(balanced, 4000);
    for (int quadratic = 0; quadratic < 2; ++quadratic) {
        if (quadratic) BALANCE_SQUARES(balanced);
        sab_sampler *sampler = balanced_with(&balanced, &options);
        sab_balanced_report report = SAB_BALANCED_REPORT_INIT;
        EXPECT_OK(sab_balanced_sampler_get_report(sampler, NULL, &report));
        EXPECT(report.rank_imbalance[0] < (quadratic ? 1.02 : 1.001));
        EXPECT(report.samples == SKEWED && report.skipped == 0 && report.dropped == 0);
        EXPECT(report.fill > 0.6 && report.fill <= 0.95); /* the last step may be nearly empty */
        sab_sampler_free(sampler);
    }
}

static void the_order_is_random_and_changes(void) {
    sab_balanced_options balanced = SAB_BALANCED_OPTIONS_INIT;
    balanced.samples = 50;
    const sab_sampler_options options = ranks(0, 1);
    sab_sampler *sampler = balanced_with(&balanced, &options);
    sab_batch batch = SAB_BATCH_INIT;
    EXPECT_OK(sab_next_batch(sampler, &batch));
    int64_t first[50];
    EXPECT(batch.count == 50);
    memcpy(first, batch.indices, sizeof first);
    EXPECT_OK(sab_sampler_set_epoch(sampler, 1));
    EXPECT_OK(sab_next_batch(sampler, &batch));
    EXPECT(memcmp(first, batch.indices, sizeof first) != 0);
    EXPECT_OK(sab_sampler_set_epoch(sampler, 0));
    EXPECT_OK(sab_next_batch(sampler, &batch));
    EXPECT(memcmp(first, batch.indices, sizeof first) == 0);
    EXPECT_OK(sab_sampler_at(sampler, 7, &batch));
    EXPECT(batch.step == 7);
    sab_sampler_free(sampler);
}

static void last_steps(void) {
    for (int policy = SAB_LAST_STEP_SPLIT; policy <= SAB_LAST_STEP_WRAP; ++policy) {
        int seen[SKEWED] = {0}, sum = 0;
        uint64_t steps = 0;
        for (uint64_t r = 0; r < 3; ++r) {
            sab_balanced_options balanced = SAB_BALANCED_OPTIONS_INIT;
            balanced.samples = 64;
            sab_sampler_options options = ranks(r, 3);
            options.last_step = policy;
            sab_sampler *sampler = balanced_with(&balanced, &options);
            steps = walk(sampler, seen);
            sab_sampler_free(sampler);
        }
        for (int i = 0; i < SKEWED; ++i) sum += seen[i];
        EXPECT(steps == (policy == SAB_LAST_STEP_DROP ? SKEWED / 64 : (SKEWED + 63) / 64));
        EXPECT(sum == (policy == SAB_LAST_STEP_SPLIT ? SKEWED : (int)steps * 64));
        if (policy == SAB_LAST_STEP_WRAP) EXPECT(!all_are(seen, SKEWED, 1));
    }
}

/* Takes `steps` micro-batches on each of some ranks from a state, and gives the next one. */
static void go_on(uint64_t world_size, uint64_t micro_batches, uint64_t samples, int64_t count,
                  struct state *state, int *seen) {
    struct state first;
    for (uint64_t r = 0; r < world_size; ++r) {
        sab_balanced_options balanced = SAB_BALANCED_OPTIONS_INIT;
        balanced.samples = samples;
        SET_BUDGET(balanced, 900);
        BALANCE_SQUARES(balanced);
        sab_sampler_options options = ranks(r, world_size);
        options.micro_batches = micro_batches;
        sab_sampler *sampler = balanced_with(&balanced, &options);
        if (state->size != 0) EXPECT_OK(restore_state(sampler, state));
        sab_batch batch = SAB_BATCH_INIT;
        for (int64_t i = 0; i != count && sab_next_batch(sampler, &batch) == SAB_OK; ++i)
            for (uint64_t k = 0; k < batch.count; ++k) ++seen[batch.indices[k]];
        struct state own;
        EXPECT_OK(save_state(sampler, &own));
        if (r == 0) first = own;
        EXPECT(memcmp(&first, &own, sizeof own) == 0);
        sab_sampler_free(sampler);
    }
    *state = first;
}

static void a_state_goes_on_with_other_ranks(void) {
    for (uint64_t begun = 1; begun <= 5; ++begun)
        for (uint64_t then = 1; then <= 7; then += 2) {
            struct state state = {0, {0}};
            int seen[SKEWED] = {0};
            go_on(begun, 2, 0, 4, &state, seen);
            go_on(then, 1, 0, 3, &state, seen);
            go_on(begun + 1, 3, 40, 6, &state, seen);
            go_on(then + 1, 2, 0, -1, &state, seen);
            EXPECT(all_are(seen, SKEWED, 1));
        }
}

static void a_state_inside_a_step(void) {
    struct state state = {0, {0}};
    int seen[SKEWED] = {0};
    go_on(2, 3, 0, 4, &state, seen); /* one step and a third */
    struct state again = state;
    sab_balanced_options balanced = SAB_BALANCED_OPTIONS_INIT;
    SET_BUDGET(balanced, 900);
    sab_sampler_options options = ranks(0, 3);
    options.micro_batches = 3;
    sab_sampler *sampler = balanced_with(&balanced, &options);
    EXPECT_FAILS(restore_state(sampler, &state), SAB_E_MISMATCH,
                 "inside a step, after micro-batch 1 of 3");
    int fresh[SKEWED] = {0};
    walk(sampler, fresh); /* as if nothing had been */
    sab_sampler_free(sampler);
    go_on(2, 3, 0, -1, &again, seen);
    EXPECT(all_are(seen, SKEWED, 1));
}

/* What is left of an epoch that other options began: no sample twice, and none lost but those that
 * no longer fit. */
static void a_state_goes_on_with_other_costs_and_caps(void) {
    const int32_t *sizes = skewed();
    for (int i = 0; i < 6; ++i) {
        sab_balanced_options before = SAB_BALANCED_OPTIONS_INIT, after = SAB_BALANCED_OPTIONS_INIT;
        SET_BUDGET(before, i % 2 == 0 ? 1000 : 850);
        const uint64_t micro_batches = 1 + (uint64_t)i % 3;
        BALANCE_SQUARES(before);
        after = before;
        if (i < 2) after.balance_count = 0, after.balance = NULL;
        if (i >= 2) SET_BUDGET(after, i < 4 ? 400 : 2000);
        after.oversize = SAB_OVERSIZE_SKIP;
        int seen[SKEWED] = {0};
        struct state state, again;
        for (int part = 0; part < 2; ++part)
            for (uint64_t r = 0; r < 4; ++r) {
                sab_sampler_options options = ranks(r, 4);
                options.micro_batches = micro_batches;
                sab_sampler *sampler = balanced_with(part == 0 ? &before : &after, &options);
                if (part == 1) {
                    EXPECT_OK(restore_state(sampler, &state));
                    /* and once more, as if this rank had been replaced */
                    EXPECT_OK(save_state(sampler, &again));
                    EXPECT_OK(restore_state(sampler, &again));
                    struct state third;
                    EXPECT_OK(save_state(sampler, &third));
                    EXPECT(memcmp(&again, &third, sizeof third) == 0);
                }
                sab_batch batch = SAB_BATCH_INIT;
                for (uint64_t k = 0; part == 1 || k < 3 * micro_batches; ++k) {
                    if (sab_next_batch(sampler, &batch) != SAB_OK) break;
                    EXPECT(*batch.total <= (part == 0 ? before : after).budgets[0].limit);
                    for (uint64_t j = 0; j < batch.count; ++j) ++seen[batch.indices[j]];
                }
                if (part == 0 && r == 3) EXPECT_OK(save_state(sampler, &state));
                sab_sampler_free(sampler);
            }
        for (int k = 0; k < SKEWED; ++k)
            EXPECT(seen[k] == 1 || (seen[k] == 0 && i >= 2 && i < 4 && sizes[k] > 400));
    }
}

static void the_end_of_an_epoch_is_a_state_too(void) {
    for (int policy = SAB_LAST_STEP_SPLIT; policy <= SAB_LAST_STEP_WRAP; ++policy)
        for (uint64_t samples = 3; samples < 90; samples += 13) {
            sab_balanced_options balanced = SAB_BALANCED_OPTIONS_INIT;
            balanced.samples = samples;
            sab_sampler_options options = ranks(0, 1);
            options.micro_batches = 3;
            options.last_step = policy;
            sab_sampler *sampler = balanced_with(&balanced, &options);
            int seen[SKEWED] = {0};
            walk(sampler, seen);
            struct state state;
            EXPECT_OK(save_state(sampler, &state));
            EXPECT_OK(restore_state(sampler, &state));
            EXPECT(walk(sampler, seen) == 0);
            sab_sampler_free(sampler);
        }
}

static void caps_hold_whatever_the_rounding(void) {
    static double sizes[SKEWED];
    random_state = 7;
    for (int i = 0; i < SKEWED; ++i) sizes[i] = 0.1 * (1 + below(9));
    const sab_cost_term terms[] = {{1e17, 0, POWERS(0)}, {1, 1, POWERS(1)}};
    sab_cost *memory = NULL;
    EXPECT_OK(sab_cost_terms_new(terms, COUNT(terms), &memory));
    const sab_budget budgets[] = {{NULL, 1.5}, {memory, 1e17 + 16}};
    sab_sizes *handle = NULL;
    EXPECT_OK(sab_sizes_new(sizes, SKEWED, SAB_FLOAT64, NULL, &handle));
    for (int i = 0; i < 2; ++i) {
        sab_balanced_options balanced = SAB_BALANCED_OPTIONS_INIT;
        balanced.fill = 1;
        balanced.budgets = budgets;
        balanced.budget_count = (size_t)i + 1;
        const sab_sampler_options options = ranks(0, 2);
        sab_sampler *sampler = NULL;
        EXPECT_OK(sab_balanced_sampler_new(handle, &balanced, &options, &sampler));
        sab_batch batch = SAB_BATCH_INIT;
        uint64_t steps = 0;
        for (; sab_next_batch(sampler, &batch) == SAB_OK; ++steps)
            EXPECT(*batch.total <= 1.5 && cu_seqlens_of(sampler) == NULL);
        EXPECT(steps > 100);
        sab_sampler_free(sampler);
    }
    sab_sizes_free(handle);
    sab_cost_free(memory);
}

/* Walks all ranks: each has samples in every batch before the last step. */
static void expect_samples_before_the_last_step(const sab_sizes *sizes,
                                                const sab_balanced_options *balanced,
                                                uint64_t world_size) {
    for (uint64_t r = 0; r < world_size; ++r) {
        const sab_sampler_options options = ranks(r, world_size);
        sab_sampler *sampler = NULL;
        uint64_t count = 0;
        EXPECT_OK(sab_balanced_sampler_new(sizes, balanced, &options, &sampler));
        EXPECT_OK(sab_sampler_get_batch_count(sampler, &count));
        sab_batch batch = SAB_BATCH_INIT;
        for (uint64_t step = 0; step + 1 < count; ++step) {
            EXPECT_OK(sab_next_batch(sampler, &batch));
            EXPECT(batch.count > 0);
        }
        sab_sampler_free(sampler);
    }
}

/* A few light samples among heavy ones. */
static void no_micro_batch_is_empty_before_the_last_step(void) {
    static int32_t sizes[SKEWED];
    for (int i = 0; i < SKEWED; ++i) sizes[i] = i % 50 == 0 ? 10 : 90 + i % 11;
    sab_sizes *handle = sizes_of(sizes, SKEWED);
    sab_balanced_options balanced = SAB_BALANCED_OPTIONS_INIT;
    SET_BUDGET(balanced, 100);
    expect_samples_before_the_last_step(handle, &balanced, 8);
    sab_sizes_free(handle);
}

/* The last two steps share their samples, which would not suffice for two full steps. */
static void a_step_that_gives_samples_to_the_last_keeps_enough(void) {
    for (size_t count = 10; count < 80; ++count) {
        int32_t sizes[80];
        for (size_t i = 0; i < count; ++i) sizes[i] = 1 + (int32_t)(i % 3);
        sab_sizes *handle = sizes_of(sizes, count);
        sab_balanced_options balanced = SAB_BALANCED_OPTIONS_INIT;
        SET_BUDGET(balanced, 7);
        balanced.fill = 0.56;
        expect_samples_before_the_last_step(handle, &balanced, 9);
        sab_sizes_free(handle);
    }
}

static void foreign_states(void) {
    sab_balanced_options balanced = SAB_BALANCED_OPTIONS_INIT;
    SET_BUDGET(balanced, 900);
    sab_sampler_options options = ranks(0, 2);
    sab_sampler *sampler = balanced_with(&balanced, &options);
    struct state state;
    EXPECT_OK(save_state(sampler, &state));
    EXPECT_FAILS(sab_sampler_state_restore(sampler, state.bytes, 100), SAB_E_FORMAT, "100 bytes");
    state.bytes[40] ^= 1;
    EXPECT_FAILS(restore_state(sampler, &state), SAB_E_FORMAT, "checksum");
    options.seed = 12;
    sab_sampler *other = balanced_with(&balanced, &options);
    EXPECT_OK(save_state(other, &state));
    EXPECT_FAILS(restore_state(sampler, &state), SAB_E_MISMATCH, "seed 12");
    sab_sampler_free(other);
    sab_plan *plan = a_plan();
    other = rank_of(plan, 0, 2);
    EXPECT_OK(save_state(other, &state));
    EXPECT_FAILS(restore_state(sampler, &state), SAB_E_MISMATCH, "another kind of sampler");
    EXPECT_FAILS(sab_balanced_sampler_get_report(other, NULL,
                                                 &(sab_balanced_report)SAB_BALANCED_REPORT_INIT),
                 SAB_E_ARGUMENT, "sab_balanced_sampler_new");
    sab_sampler_free(other);
    sab_plan_free(plan);
    sab_sampler_free(sampler);
}

static void memory_budgets(void) {
    /* 1000 + 3 a token + 0.01 a token squared, and tokens besides. */
    const sab_cost_term terms[] = {{1000, 0, POWERS(0)}, {3, 1, POWERS(1)}, {0.01, 1, POWERS(2)}};
    sab_cost *memory = NULL;
    EXPECT_OK(sab_cost_terms_new(terms, COUNT(terms), &memory));
    const sab_budget budgets[] = {{memory, 12000}, {NULL, 1500}};
    const int32_t *sizes = skewed();
    for (int with_tokens = 0; with_tokens < 2; ++with_tokens) {
        sab_balanced_options balanced = SAB_BALANCED_OPTIONS_INIT;
        balanced.budgets = budgets;
        balanced.budget_count = with_tokens ? 2 : 1;
        BALANCE_SQUARES(balanced);
        const sab_sampler_options options = ranks(1, 3);
        sab_sampler *sampler = balanced_with(&balanced, &options);
        sab_batch batch = SAB_BATCH_INIT;
        while (sab_next_batch(sampler, &batch) == SAB_OK) {
            double bytes = 1000;
            for (uint64_t i = 0; i < batch.count; ++i) {
                const double size = sizes[batch.indices[i]];
                bytes += 3 * size + 0.01 * size * size;
            }
            EXPECT(bytes <= 12000 * (1 + 1e-12));
            EXPECT(!with_tokens || *batch.total <= 1500);
        }
        sab_sampler_free(sampler);
    }
    sab_cost_free(memory);
}

/* The first budget's cost is what is evened out, unless `balance` says otherwise. */
static void balance_is_the_first_budget_by_default(void) {
    sab_cost *costs[2] = {new_quadratic(), NULL};
    EXPECT_OK(sab_cost_padded_new(NULL, 1, &costs[1]));
    const sab_budget by_squares[] = {{costs[0], 3e6}, {NULL, 4000}},
                     by_tokens[] = {{NULL, 4000}, {costs[0], 3e6}};
    const sab_sampler_options options = ranks(0, 4);
    sab_balanced_report reports[4];
    double least_times[4];
    for (int i = 0; i < 4; ++i) {
        sab_balanced_options balanced = SAB_BALANCED_OPTIONS_INIT;
        balanced.budgets = i % 2 == 0 ? by_squares : by_tokens;
        balanced.budget_count = 2;
        if (i >= 2) {
            balanced.balance = (const sab_cost *const *)&costs[i == 2];
            balanced.balance_count = 1;
        }
        sab_sampler *sampler = balanced_with(&balanced, &options);
        reports[i] = (sab_balanced_report)SAB_BALANCED_REPORT_INIT;
        EXPECT_OK(sab_balanced_sampler_get_report(sampler, NULL, &reports[i]));
        least_times[i] = reports[i].least_time[0];
        sab_sampler_free(sampler);
    }
    double squares_of_all = 0, all = 0;
    for (int i = 0; i < SKEWED; ++i) {
        all += skewed()[i];
        squares_of_all += (double)skewed()[i] * skewed()[i];
    }
    EXPECT(least_times[0] == squares_of_all / 4 && least_times[1] == all / 4);
    EXPECT(least_times[2] == all / 4 && least_times[3] == squares_of_all / 4);
    for (size_t i = 0; i < COUNT(costs); ++i) sab_cost_free(costs[i]);
}

static int32_t cube(void *ctx, uint64_t count, const double *lengths, const double *totals,
                    size_t columns, double *cost) {
    if (count != 1 || columns != 1 || totals[0] != lengths[0]) return 5;
    *cost = lengths[0] * lengths[0] * lengths[0];
    return ++*(int *)ctx == 40 ? 77 : 0;
}

static int32_t stop(void *ctx, uint64_t done, uint64_t total) {
    (void)done;
    (void)total;
    return ++*(int *)ctx == 3 ? 9 : 0;
}

static void costs_of_all_kinds(void) {
    const sab_cost_term terms[] = {{100, 1, POWERS(1)}, {1, 1, POWERS(2)}, {5, 0, POWERS(0)}};
    sab_cost *cost = NULL;
    EXPECT_OK(sab_cost_terms_new(terms, COUNT(terms), &cost));
    const sab_cost *balance[] = {cost};
    sab_sampler_options options = ranks(0, 2);
    sab_balanced_options balanced = SAB_BALANCED_OPTIONS_INIT;
    SET_BUDGET(balanced, 2000);
    balanced.balance = balance;
    balanced.balance_count = 1;
    sab_sampler_free(balanced_with(&balanced, &options));
    int calls = 100;
    sab_cost_free(cost);
    balance[0] = cost = new_callback(cube, &calls);
    sab_sampler_free(balanced_with(&balanced, &options));
    calls = 0;
    sab_sizes *sizes = sizes_of(skewed(), SKEWED);
    sab_sampler *sampler = NULL;
    EXPECT_FAILS(sab_balanced_sampler_new(sizes, &balanced, &options, &sampler), SAB_E_CALLBACK,
                 "77");
    EXPECT(sab_last_error_code() == 77 && sampler == NULL);
    balanced.balance_count = 0, balanced.balance = NULL;
    calls = 0;
    SET_BUDGET_OF(balanced, cost, 1e12);
    EXPECT_FAILS(sab_balanced_sampler_new(sizes, &balanced, &options, &sampler), SAB_E_CALLBACK,
                 "77");
    sab_cost_free(cost);
    SET_BUDGET(balanced, 2000);
    calls = 0;
    balanced.progress = stop;
    balanced.progress_ctx = &calls;
    EXPECT_FAILS(sab_balanced_sampler_new(sizes, &balanced, &options, &sampler), SAB_E_CANCELLED,
                 "");
    EXPECT(sab_last_error_code() == 9);
    sab_sizes_free(sizes);
}

/* `...` are statements that change `balanced` or `options`. */
#define REFUSED(words, ...)                                                          \
    do {                                                                             \
        sab_sampler *sampler = (sab_sampler *)&sizes;                                \
        sab_balanced_options balanced = SAB_BALANCED_OPTIONS_INIT;                   \
        sab_sampler_options options = ranks(0, 4);                                   \
        SET_BUDGET(balanced, 1000);                                                  \
        __VA_ARGS__;                                                                 \
        EXPECT_FAILS(sab_balanced_sampler_new(sizes, &balanced, &options, &sampler), \
                     SAB_E_ARGUMENT, words);                                         \
        EXPECT(sampler == NULL);                                                     \
    } while (0)

static void bad_costs(void) {
    sab_sizes *sizes = sizes_of(skewed(), SKEWED);
    const sab_cost_term terms[][2] = {{{1, 2, POWERS(1)}, {1, 1, POWERS(1)}},
                                      {{10, 0, POWERS(0)}, {1, 1, POWERS(1)}},
                                      {{2, 0, POWERS(1)}, {1, 1, POWERS(1)}},
                                      {{-5000, 1, POWERS(0)}, {1, 1, POWERS(1)}},
                                      {{1, 1, POWERS(0, 1)}, {1, 1, POWERS(1)}}};
    sab_cost *costs[COUNT(terms)] = {NULL};
    for (size_t i = 0; i < COUNT(terms); ++i) EXPECT_OK(sab_cost_terms_new(terms[i], 2, &costs[i]));
    const sab_budget second[] = {{NULL, 1000}, {costs[1], 600}};
    const sab_cost *const none[] = {NULL}, *const squared_count[] = {costs[0]},
                          *const negative[] = {costs[3]}, *const columns[] = {costs[4]};
    REFUSED("must fit balanced.budgets[1].limit = 600 alone", balanced.budgets = second;
            balanced.budget_count = 2);
    REFUSED("balanced.budgets[0].cost: its term 0 has a count_power of 2",
            SET_BUDGET_OF(balanced, costs[0], 1e9));
    REFUSED("balanced.budgets[0].cost: its term 0 has a count_power of 0",
            SET_BUDGET_OF(balanced, costs[2], 1e9));
    REFUSED("balanced.budgets[0].cost: uses 2 columns", SET_BUDGET_OF(balanced, costs[4], 1e9));
    REFUSED("more than the cost's constant term, 10", SET_BUDGET_OF(balanced, costs[1], 10));
    REFUSED("balanced.budgets[0].cost: a sample of length 1 costs -4999",
            SET_BUDGET_OF(balanced, costs[3], 1e9));
    REFUSED("balanced.balance_count = 9", balanced.balance_count = 9);
    REFUSED("balanced.balance = NULL", balanced.balance_count = 1);
    REFUSED("balanced.balance[0] = NULL", balanced.balance = none; balanced.balance_count = 1);
    REFUSED("balanced.balance[0]: its term 0", balanced.balance = squared_count;
            balanced.balance_count = 1);
    REFUSED("balanced.balance[0]: a sample of length 1 costs -4999", balanced.balance = negative;
            balanced.balance_count = 1);
    REFUSED("balanced.balance[0]: uses 2 columns", balanced.balance = columns;
            balanced.balance_count = 1);
    for (size_t i = 0; i < COUNT(costs); ++i) sab_cost_free(costs[i]);
    sab_sizes_free(sizes);
}

static void bad_options(void) {
    sab_sizes *sizes = sizes_of(skewed(), SKEWED);
    REFUSED("options.micro_batches = 1048577: must be at most 1048576",
            options.micro_batches = (1 << 20) + 1);
    REFUSED("world_size = 4", options.micro_batches = 1 << 19);
    REFUSED("balanced.budgets[0].limit = -1", SET_BUDGET(balanced, -1));
    REFUSED("balanced.budgets[0].limit = inf", SET_BUDGET(balanced, INFINITY));
    REFUSED("samples of a step, or a budget", balanced.budget_count = 0);
    REFUSED("samples = 3: must be at least the number of micro-batches of a step, 4",
            balanced.samples = 3);
    REFUSED("fill = -1", balanced.fill = -1);
    REFUSED("fill = nan", balanced.fill = NAN);
    REFUSED("oversize = 2", balanced.oversize = SAB_OVERSIZE_SINGLE);
    REFUSED(
        "must fit balanced.budgets[0].limit = 700 alone; 7 of 1500 samples do not. Set "
        "balanced.oversize to SAB_OVERSIZE_SKIP (1), or use a larger budget",
        SET_BUDGET(balanced, 700));
    REFUSED("no sample is left", SET_BUDGET(balanced, 0.5); balanced.oversize = SAB_OVERSIZE_SKIP);
    REFUSED("balanced.budgets = NULL", balanced.budgets = NULL);
    REFUSED("options.rank = 4", options.rank = 4);
    REFUSED("struct_size", balanced.struct_size = 8);
    sab_sampler *sampler = NULL;
    sab_balanced_options balanced = SAB_BALANCED_OPTIONS_INIT;
    SET_BUDGET(balanced, 1000);
    EXPECT_FAILS(sab_balanced_sampler_new(sizes, NULL, NULL, &sampler), SAB_E_ARGUMENT, "balanced");
    EXPECT_FAILS(sab_balanced_sampler_new(NULL, &balanced, NULL, &sampler), SAB_E_ARGUMENT,
                 "sizes");
    EXPECT_FAILS(sab_balanced_sampler_new(sizes, &balanced, NULL, NULL), SAB_E_ARGUMENT, "sampler");
    sab_sizes_free(sizes);
}

static void skips_what_no_budget_holds(void) {
    sab_sizes *sizes = sizes_of(skewed(), SKEWED);
    sab_sampler *sampler = NULL;
    sab_balanced_options balanced = SAB_BALANCED_OPTIONS_INIT;
    balanced.oversize = SAB_OVERSIZE_SKIP;
    SET_BUDGET(balanced, 50);
    EXPECT_OK(sab_balanced_sampler_new(sizes, &balanced, NULL, &sampler));
    size_t skipped = 0, over = 0;
    int64_t indices[SKEWED];
    for (int i = 0; i < SKEWED; ++i) over += skewed()[i] > 50;
    EXPECT_OK(sab_sampler_get_skipped(sampler, indices, SKEWED, &skipped));
    EXPECT(skipped == over);
    for (size_t i = 0; i < skipped; ++i)
        EXPECT(skewed()[indices[i]] > 50 &&
               (i == 0 || skewed()[indices[i]] >= skewed()[indices[i - 1]]));
    EXPECT_FAILS(sab_sampler_seek(sampler, 1u << 30), SAB_E_ARGUMENT, "position");
    EXPECT_FAILS(sab_sampler_set_budget(sampler, 0, 10), SAB_E_UNSUPPORTED, "");
    sab_sampler_free(sampler);
    sab_sizes_free(sizes);
}

/* More micro-batches than samples, samples that cost nothing, one sample. */
static void little_data(void) {
    const int32_t zeros[5] = {0, 0, 0, 0, 0}, one[1] = {3};
    for (int i = 0; i < 2; ++i) {
        const size_t count = i == 0 ? 5 : 1;
        int seen[5] = {0};
        for (uint64_t r = 0; r < 8; ++r) {
            sab_sizes *sizes = sizes_of(i == 0 ? zeros : one, count);
            sab_balanced_options balanced = SAB_BALANCED_OPTIONS_INIT;
            SET_BUDGET(balanced, 10);
            const sab_sampler_options options = ranks(r, 8);
            sab_sampler *sampler = NULL;
            EXPECT_OK(sab_balanced_sampler_new(sizes, &balanced, &options, &sampler));
            EXPECT(walk(sampler, seen) == 1);
            sab_sampler_free(sampler);
            sab_sizes_free(sizes);
        }
        EXPECT(all_are(seen, count, 1));
    }
}

int main(void) {
    RUN(Partition_OfSmallCases_IsTheOptimum);
    RUN(Partition_OfRandomCosts_IsNearTheBound);
    RUN(EqualCosts_ArePartedTheSameEveryTime);
    RUN(Capacity_IsKeptWhereItCanBe);
    RUN(TightCapacity_IsFoundByPackingAlone);
    RUN(Capacity_IsThatOfSumsInTheOrderOfTheItems);
    RUN(TightCapacities_OfTenths_AreKept);
    RUN(ManyParts_TakeAboutTheTimeOfSorting);
    RUN(ImpossibleCapacities_AreRefusedAtOnce);
    RUN(SeveralCosts_AreAllEven);
    RUN(ACostThatCannotBeEven_LeavesTheOthers);
    RUN(WrongPartitions_AreRefusedByName);
    RUN(WrongCapacitiesOfPartitions_AreRefusedByName);
    RUN(Partition_CanBeFollowedAndCancelledAllTheWay);
    RUN(every_sample_once_in_equal_steps_under_the_cap);
    RUN(costs_are_even);
    RUN(the_order_is_random_and_changes);
    RUN(last_steps);
    RUN(a_state_goes_on_with_other_ranks);
    RUN(a_state_inside_a_step);
    RUN(a_state_goes_on_with_other_costs_and_caps);
    RUN(the_end_of_an_epoch_is_a_state_too);
    RUN(caps_hold_whatever_the_rounding);
    RUN(no_micro_batch_is_empty_before_the_last_step);
    RUN(a_step_that_gives_samples_to_the_last_keeps_enough);
    RUN(foreign_states);
    RUN(memory_budgets);
    RUN(balance_is_the_first_budget_by_default);
    RUN(costs_of_all_kinds);
    RUN(bad_costs);
    RUN(bad_options);
    RUN(skips_what_no_budget_holds);
    RUN(little_data);
    return finish();
}
