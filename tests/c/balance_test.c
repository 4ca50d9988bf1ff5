/* Work dealt out evenly: partitions of items, and the load-balancing samplers. */
#include <math.h>
#include <stdlib.h>

#include "helpers.h"

static uint32_t random_state;

static uint32_t random_below(uint32_t bound) {
    random_state = random_state * 1664525u + 1013904223u;
    return (uint32_t)(((uint64_t)(random_state >> 8) * bound) >> 24);
}

/* Many short, few long. */
static double random_length(void) {
    return 1 + random_below(1 + random_below(1 + random_below(4096)));
}

static sab_partition_options by(sab_partition_method method) {
    sab_partition_options options = SAB_PARTITION_OPTIONS_INIT;
    options.method = method;
    return options;
}

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
        for (sab_partition_method method = SAB_PARTITION_KARMARKAR_KARP;
             method <= SAB_PARTITION_LONGEST_FIRST; ++method) {
            sab_partition_options options = by(method);
            options.equal_counts = cases[i].equal_counts;
            EXPECT_OK(
                sab_partition(cases[i].costs, cases[i].count, cases[i].parts, &options, part_of));
            EXPECT(largest_of(cases[i].costs, cases[i].count, cases[i].parts, &options) ==
                   cases[i].optimum);
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
            /* half of them 0, the others no whole numbers */
            if (round % 4 == 3) costs[i] = random_below(2) * costs[i] / 3;
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
    EXPECT(differencing <= longest_first);
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
            costs[i] = round % 3 == 0   ? weights[i] * weights[i]
                       : round % 3 == 1 ? random_length()
                                        : 1000 / weights[i];
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

/* .1 + .2 + .3 is more than .6, .3 + .2 + .1 is not: the order of the items counts, whatever they
 * cost. */
static void Capacity_IsThatOfSumsInTheOrderOfTheItems(void) {
    const double rising[] = {.1, .2, .3}, falling[] = {.3, .2, .1},
                 costs[][3] = {{1, 2, 3}, {3, 2, 1}, {2, 2, 2}};
    for (sab_partition_method method = 0; method < 2; ++method)
        for (size_t i = 0; i < COUNT(costs); ++i) {
            sab_partition_options options = by(method);
            options.capacity = .6;
            options.weights = rising;
            EXPECT_FAILS(sab_partition(costs[i], 3, 1, &options, part_of), SAB_E_ARGUMENT,
                         "the weights sum to 0.6000000000000001, which is more than 1 parts hold");
            options.weights = falling;
            EXPECT_OK(sab_partition(costs[i], 3, 1, &options, part_of));
        }
}

/* Caps that the sums of some parts meet exactly, in one order and not in another. */
static void TightCapacities_OfTenths_AreKept(void) {
    double costs[40], weights[40];
    random_state = 9;
    int held = 0;
    for (int round = 0; round < 2000; ++round) {
        const uint64_t parts = 1 + random_below(5);
        const size_t count = parts * (1 + random_below(8));
        double sums[5] = {0}, most = 0;
        for (size_t i = 0; i < count; ++i) {
            weights[i] = (1 + random_below(9)) / 10.0;
            costs[i] = round % 2 ? weights[i] : random_below(1000);
            sums[i % parts] += weights[i];
        }
        for (uint64_t part = 0; part < parts; ++part) most = fmax(most, sums[part]);
        sab_partition_options options = by(round / 2 % 2);
        options.weights = weights;
        options.capacity = most;
        options.equal_counts = round % 5 == 0;
        if (sab_partition(costs, count, parts, &options, part_of) != SAB_OK) continue;
        largest_of(costs, count, parts, &options); /* sums in the order of the items */
        ++held;
    }
    EXPECT(held > 1800);
}

/* As many parts as there may be, or half as many as items: hours, if each item or exchange looked
 * at them all. */
static void ManyParts_TakeAboutTheTimeOfSorting(void) {
    enum { items = 200000 };
    double *costs = malloc(items * sizeof *costs), *weights = malloc(items * sizeof *weights),
           *sums = malloc(items * sizeof *sums);
    uint32_t *found = malloc(items * sizeof *found);
    random_state = 3;
    for (int i = 0; i < items; ++i) {
        costs[i] = random_below(1 << 24);
        weights[i] = random_below(1 << 24) / 3.0;
    }
    const uint64_t parts[] = {1000, items / 2, items, 1 << 20};
    for (size_t p = 0; p < COUNT(parts); ++p)
        for (sab_partition_method method = 0; method < 2; ++method)
            for (int capped = 0; capped < 2; ++capped)
                for (int equal_counts = 0;
                     equal_counts < 2 && (!equal_counts || items % parts[p] == 0); ++equal_counts) {
                    sab_partition_options options = by(method);
                    options.equal_counts = equal_counts;
                    if (capped) {
                        options.weights = weights;
                        options.capacity =
                            fmax((1 << 24) / 3.0, items / (double)parts[p] * (1 << 23) / 3.0 * 1.1);
                    }
                    EXPECT_OK(sab_partition(costs, items, parts[p], &options, found));
                    double largest = 0;
                    memset(sums, 0, items * sizeof *sums);
                    for (int i = 0; i < items && p < 3; ++i)
                        largest = fmax(largest, sums[found[i]] += costs[i]);
                    const double mean = items / (double)parts[p] * (1 << 23);
                    EXPECT(largest < fmax((capped ? 2 : 1.01) * mean, 1 << 24));
                    if (!capped) continue;
                    memset(sums, 0, items * sizeof *sums);
                    for (int i = 0; i < items && p < 3; ++i)
                        EXPECT((sums[found[i]] += weights[i]) <= options.capacity);
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
    options.capacity = 8;
    for (int i = 0; i < 100; ++i)
        EXPECT_FAILS(sab_partition(costs, items, items / 4, &options, found), SAB_E_ARGUMENT,
                     "which is more than 125000 parts hold");
    costs[items - 1] = 9;
    for (int i = 0; i < 100; ++i)
        EXPECT_FAILS(sab_partition(costs, items, items, &options, found), SAB_E_ARGUMENT,
                     "options.weights[499999] = 9 alone is more");
    free(costs);
    free(found);
}

static void WrongPartitions_AreRefusedByName(void) {
    const double costs[] = {1, 2, 3, 4}, weights[] = {5, 5, 5, 6};
    double broken[] = {1, 2, NAN, 4};
    uint32_t parts[4] = {9, 9, 9, 9};
    static const sab_partition_options macro = SAB_PARTITION_OPTIONS_INIT;
    sab_partition_options options, filled;
    sab_partition_options_init(&filled, sizeof filled);
    EXPECT(memcmp(&macro, &filled, sizeof macro) == 0);
    options = macro;
    sab_partition_options_init(NULL, sizeof(sab_partition_options));
    EXPECT_FAILS(sab_partition(NULL, 4, 2, NULL, parts), SAB_E_ARGUMENT,
                 "costs = NULL: must be given");
    EXPECT_FAILS(sab_partition(costs, 4, 2, NULL, NULL), SAB_E_ARGUMENT,
                 "part_of = NULL: must be given");
    EXPECT_FAILS(sab_partition(costs, (size_t)1 << 32, 2, NULL, parts), SAB_E_ARGUMENT,
                 "count = 4294967296: must be at most 4294967295");
    EXPECT_FAILS(sab_partition(costs, 4, 0, NULL, parts), SAB_E_ARGUMENT,
                 "parts = 0: must be from 1 to 1048576");
    EXPECT_FAILS(sab_partition(costs, 4, 1048577, NULL, parts), SAB_E_ARGUMENT,
                 "parts = 1048577: must be from 1 to 1048576");
    EXPECT_FAILS(sab_partition(broken, 4, 2, NULL, parts), SAB_E_ARGUMENT,
                 "costs[2] = nan: must be finite and at least 0");
    broken[2] = -1;
    EXPECT_FAILS(sab_partition(broken, 4, 2, NULL, parts), SAB_E_ARGUMENT,
                 "costs[2] = -1: must be finite and at least 0");
    broken[2] = broken[3] = 1e308;
    EXPECT_FAILS(sab_partition(broken, 4, 2, NULL, parts), SAB_E_ARGUMENT,
                 "costs: must have a finite sum");
    options.struct_size = 4;
    EXPECT_FAILS(sab_partition(costs, 4, 2, &options, parts), SAB_E_ARGUMENT,
                 "options.struct_size = 4");
    options = by(2);
    EXPECT_FAILS(sab_partition(costs, 4, 2, &options, parts), SAB_E_ARGUMENT,
                 "options.method = 2: must be");
    options = by(0);
    options.equal_counts = 2;
    EXPECT_FAILS(sab_partition(costs, 4, 2, &options, parts), SAB_E_ARGUMENT,
                 "options.equal_counts = 2: must be 0 or 1");
    options.equal_counts = 1;
    EXPECT_FAILS(sab_partition(costs, 4, 3, &options, parts), SAB_E_ARGUMENT,
                 "count = 4: must be a multiple of parts = 3");
    options.equal_counts = 0;
    options.capacity = 5;
    EXPECT_FAILS(sab_partition(costs, 4, 2, &options, parts), SAB_E_ARGUMENT,
                 "options.capacity = 5: needs options.weights");
    options.weights = weights;
    options.capacity = 0;
    EXPECT_FAILS(sab_partition(costs, 4, 2, &options, parts), SAB_E_ARGUMENT,
                 "options.capacity = 0: must be finite and above 0");
    options.capacity = 5;
    EXPECT_FAILS(sab_partition(costs, 4, 2, &options, parts), SAB_E_ARGUMENT,
                 "options.capacity = 5: options.weights[3] = 6 alone is more");
    EXPECT_FAILS(sab_partition(costs, 4, 9, &options, parts), SAB_E_ARGUMENT,
                 "options.capacity = 5: options.weights[3] = 6 alone is more");
    options.capacity = 6;
    EXPECT_FAILS(sab_partition(costs, 4, 3, &options, parts), SAB_E_ARGUMENT,
                 "the weights sum to 21, which is more than 3 parts hold");
    options.capacity = 10;
    EXPECT_FAILS(sab_partition(costs, 4, 2, &options, parts), SAB_E_ARGUMENT,
                 "the weights sum to 21, which is more than 2 parts hold");
    options.capacity = 10.5;
    EXPECT_FAILS(
        sab_partition(costs, 4, 2, &options, parts), SAB_E_ARGUMENT,
        "options.capacity = 10.5: no assignment of 4 items to 2 parts that keeps it was found");
    options.weights = broken;
    broken[1] = -2;
    EXPECT_FAILS(sab_partition(costs, 4, 2, &options, parts), SAB_E_ARGUMENT,
                 "options.weights[1] = -2: must be finite and at least 0");
    for (int i = 0; i < 4; ++i) EXPECT(parts[i] == 9);
}

/* Load-balancing samplers */

#define SAMPLES 150

static int32_t complexity_of(int64_t index) {
    return (int32_t)(index * 7919 % 97);
}

static sab_sizes *complexities(size_t count) {
    static int32_t made[1000];
    for (size_t i = 0; i < count; ++i) made[i] = complexity_of((int64_t)i);
    return sizes_of(made, count);
}

static sab_sampler_options ranks(uint64_t rank, uint64_t world_size) {
    sab_sampler_options options = SAB_SAMPLER_OPTIONS_INIT;
    options.rank = rank;
    options.world_size = world_size;
    return options;
}

/* Batches of 1, 2, 3, 1, 2, ... samples, beginning where the first index says: ranks have different
 * numbers of them. */
struct maker {
    int calls;
    int fails_at; /* the call that fails with code 42; 0: none */
    int released;
};

static int32_t make_batches(void *ctx, const int64_t *indices, size_t count, sab_batches *batches) {
    struct maker *maker = ctx;
    if (++maker->calls == maker->fails_at) return 42;
    size_t size = count == 0 ? 1 : 1 + (size_t)indices[0] % 3;
    for (size_t first = 0; first < count; first += size, size = 1 + size % 3)
        EXPECT_OK(
            sab_batches_add(batches, indices + first, first + size < count ? size : count - first));
    return 0;
}

static void release(void *ctx) {
    ++((struct maker *)ctx)->released;
}

static sab_load_balancing_options made_by(struct maker *maker) {
    sab_load_balancing_options balancing = SAB_LOAD_BALANCING_OPTIONS_INIT;
    balancing.make_batches = make_batches;
    balancing.make_batches_ctx = maker;
    balancing.release = release;
    return balancing;
}

static void LoadBalancing_GivesThePublishedOrder(void) {
    /* Of Bagua's LoadBalancingDistributedSampler with torch, over 30 samples, 4 ranks. */
    const struct {
        uint64_t seed, epoch, rank;
        int32_t shuffle, drop_last;
        double random_level;
        int64_t order[8];
    } cases[] = {
        {0, 0, 0, 1, 0, 0, {19, 0, 14, 21, 2, 12, 6, 4}},
        {0, 0, 3, 1, 0, 0, {27, 8, 11, 29, 10, 20, 3, 1}},
        {0, 2, 3, 1, 0, 0, {11, 1, 27, 10, 3, 8, 20, 29}},
        {1, 0, 3, 1, 0, 0.5, {24, 20, 17, 7, 11, 9, 19, 10}},
        {1, 2, 0, 1, 0, 0.5, {2, 0, 15, 5, 25, 26, 17, 27}},
        {0, 2, 3, 0, 1, 0, {8, 27, 10, 29, 1, 20, 3}},
        {7, 2, 0, 1, 1, 0, {0, 19, 12, 21, 2, 4, 6}},
    };
    sab_sizes *sizes = complexities(30);
    for (size_t i = 0; i < COUNT(cases); ++i) {
        sab_load_balancing_options balancing = SAB_LOAD_BALANCING_OPTIONS_INIT;
        balancing.shuffle = cases[i].shuffle;
        balancing.drop_last = cases[i].drop_last;
        balancing.random_level = cases[i].random_level;
        sab_sampler_options options = ranks(cases[i].rank, 4);
        options.seed = cases[i].seed;
        options.epoch = cases[i].epoch;
        sab_sampler *sampler = NULL;
        EXPECT_OK(sab_load_balancing_sampler_new(sizes, &balancing, &options, &sampler));
        sab_batch batch = SAB_BATCH_INIT;
        uint64_t steps = 0;
        for (; sab_next_batch(sampler, &batch) == SAB_OK; ++steps)
            EXPECT(batch.count == 1 && batch.indices[0] == cases[i].order[steps] &&
                   batch.total == complexity_of(batch.indices[0]));
        EXPECT(steps == (cases[i].drop_last ? 7 : 8));
        sab_sampler_free(sampler);
    }
    sab_sizes_free(sizes);
}

static void LoadBalancing_CoversEverySampleInEqualSteps(void) {
    const size_t counts[] = {1, 2, 7, 64, SAMPLES};
    for (size_t c = 0; c < COUNT(counts); ++c)
        for (uint64_t world_size = 1; world_size <= 9; ++world_size)
            for (uint64_t batch_size = 1; batch_size <= 5; batch_size += 2)
                for (int32_t drop_last = 0; drop_last <= 1; ++drop_last) {
                    const size_t count = counts[c];
                    sab_sizes *sizes = complexities(count);
                    int seen[SAMPLES] = {0};
                    uint64_t samples = 0, steps = 0, said = 0;
                    for (uint64_t rank = 0; rank < world_size; ++rank) {
                        sab_load_balancing_options balancing = SAB_LOAD_BALANCING_OPTIONS_INIT;
                        balancing.drop_last = drop_last;
                        balancing.batch_size = batch_size;
                        const sab_sampler_options options = ranks(rank, world_size);
                        sab_sampler *sampler = NULL;
                        EXPECT_OK(
                            sab_load_balancing_sampler_new(sizes, &balancing, &options, &sampler));
                        EXPECT_OK(sab_sampler_batch_count(sampler, &said));
                        steps = walk(sampler, seen);
                        EXPECT(steps == said);
                        sab_sampler_free(sampler);
                    }
                    const uint64_t per_rank =
                        count / world_size + (!drop_last && count % world_size != 0);
                    EXPECT(steps == (per_rank + batch_size - 1) / batch_size);
                    for (size_t i = 0; i < count; ++i) {
                        samples += (uint64_t)seen[i];
                        EXPECT(drop_last ? seen[i] <= 1 : seen[i] >= 1);
                    }
                    EXPECT(samples == per_rank * world_size);
                    sab_sizes_free(sizes);
                }
}

static void RanksOfAStep_GetNeighboursByComplexity(void) {
    sab_sizes *sizes = complexities(SAMPLES);
    sab_sampler *of_rank[5];
    for (uint64_t rank = 0; rank < 5; ++rank) {
        const sab_sampler_options options = ranks(rank, 5);
        EXPECT_OK(sab_load_balancing_sampler_new(sizes, NULL, &options, &of_rank[rank]));
    }
    sab_batch batch = SAB_BATCH_INIT;
    for (uint64_t step = 0; step < SAMPLES / 5; ++step) {
        double least = INFINITY, most = 0, total = 0, said = 0;
        for (uint64_t rank = 0; rank < 5; ++rank) {
            EXPECT_OK(sab_next_batch(of_rank[rank], &batch));
            least = fmin(least, batch.total);
            most = fmax(most, batch.total);
            total += batch.total;
            said = batch.step_total;
        }
        EXPECT(most - least <= 5 && total == said);
    }
    for (uint64_t rank = 0; rank < 5; ++rank) sab_sampler_free(of_rank[rank]);
    sab_sizes_free(sizes);
}

static sab_sampler *batch_sampler(const sab_sizes *sizes, struct maker *maker, int32_t drop_last,
                                  uint64_t rank, uint64_t world_size) {
    sab_load_balancing_options balancing = made_by(maker);
    balancing.drop_last = drop_last;
    const sab_sampler_options options = ranks(rank, world_size);
    sab_sampler *sampler = NULL;
    EXPECT_OK(sab_load_balancing_batch_sampler_new(sizes, &balancing, &options, &sampler));
    return sampler;
}

static void MadeBatches_AreAsManyOnEveryRank(void) {
    sab_sizes *sizes = complexities(SAMPLES);
    for (uint64_t world_size = 1; world_size <= 9; ++world_size)
        for (int32_t drop_last = 0; drop_last <= 1; ++drop_last)
            for (uint64_t epoch = 0; epoch < 2; ++epoch) {
                int seen[SAMPLES] = {0};
                uint64_t steps = 0;
                for (uint64_t rank = 0; rank < world_size; ++rank) {
                    struct maker maker = {0, 0, 0};
                    sab_sampler *sampler =
                        batch_sampler(sizes, &maker, drop_last, rank, world_size);
                    EXPECT(maker.calls == (int)world_size);
                    EXPECT_OK(sab_sampler_set_epoch(sampler, epoch));
                    /* the epoch at hand is known */
                    EXPECT(maker.calls == (int)(world_size * (epoch + 1)));
                    const uint64_t walked = walk(sampler, seen);
                    EXPECT(rank == 0 || walked == steps);
                    steps = walked;
                    sab_sampler_free(sampler);
                    EXPECT(maker.released == 1);
                }
                for (int i = 0; i < SAMPLES; ++i) EXPECT(drop_last ? seen[i] <= 2 : seen[i] >= 1);
            }
    sab_sizes_free(sizes);
}

static int32_t one_batch_or_all(void *ctx, const int64_t *indices, size_t count,
                                sab_batches *batches) {
    /* sample 0, the least complex, is the first of rank 0: one batch of all its samples; the
     * others: a batch a sample */
    (void)ctx;
    if (indices[0] == 0) return sab_batches_add(batches, indices, count);
    for (size_t i = 0; i < count; ++i)
        if (sab_batches_add(batches, indices + i, 1) != SAB_OK) return 1;
    return 0;
}

static void ARankThatLacksMoreThanItHas_GoesRoundAgain(void) {
    sab_sizes *sizes = complexities(20);
    sab_load_balancing_options balancing = SAB_LOAD_BALANCING_OPTIONS_INIT;
    balancing.make_batches = one_batch_or_all;
    balancing.shuffle = 0;
    const sab_sampler_options options = ranks(0, 4);
    sab_sampler *sampler = NULL;
    EXPECT_OK(sab_load_balancing_batch_sampler_new(sizes, &balancing, &options, &sampler));
    sab_batch batch = SAB_BATCH_INIT;
    for (int step = 0; step < 5; ++step) {
        EXPECT_OK(sab_next_batch(sampler, &batch));
        EXPECT(batch.count == 5 && batch.indices[0] == 0);
    }
    EXPECT(sab_next_batch(sampler, &batch) == SAB_END);
    sab_sampler_free(sampler);
    balancing.drop_last = 1;
    EXPECT_OK(sab_load_balancing_batch_sampler_new(sizes, &balancing, &options, &sampler));
    EXPECT_OK(sab_next_batch(sampler, &batch));
    EXPECT(sab_next_batch(sampler, &batch) == SAB_END);
    sab_sampler_free(sampler);
    sab_sizes_free(sizes);
}

static void MaxTotal_MakesBatchesWithoutACallback(void) {
    sab_sizes *sizes = complexities(SAMPLES);
    sab_load_balancing_options balancing = SAB_LOAD_BALANCING_OPTIONS_INIT;
    balancing.max_total = 200;
    int seen[SAMPLES] = {0};
    for (uint64_t rank = 0; rank < 3; ++rank) {
        const sab_sampler_options options = ranks(rank, 3);
        sab_sampler *sampler = NULL;
        EXPECT_OK(sab_load_balancing_batch_sampler_new(sizes, &balancing, &options, &sampler));
        sab_batch batch = SAB_BATCH_INIT;
        while (sab_next_batch(sampler, &batch) == SAB_OK) {
            EXPECT(batch.total <= 200 && batch.count > 0);
            for (uint64_t i = 0; i < batch.count; ++i) ++seen[batch.indices[i]];
        }
        sab_sampler_free(sampler);
    }
    for (int i = 0; i < SAMPLES; ++i) EXPECT(seen[i] >= 1);
    sab_sizes_free(sizes);
}

/* Adds what `sampler` gives to `seen`, at most so many batches. */
static void take(sab_sampler *sampler, uint64_t most, int *seen) {
    sab_batch batch = SAB_BATCH_INIT;
    for (uint64_t step = 0; step < most && sab_next_batch(sampler, &batch) == SAB_OK; ++step)
        for (uint64_t i = 0; i < batch.count; ++i) ++seen[batch.indices[i]];
}

static void State_GoesOnWithTheSameOrOtherRanks(void) {
    sab_sizes *sizes = complexities(SAMPLES);
    for (int makes = 0; makes <= 1; ++makes)
        for (uint64_t world_size = 1; world_size <= 5; ++world_size)
            for (uint64_t other_size = 1; other_size <= 5; ++other_size)
                for (uint64_t stop = 0; stop < 40; stop += 13) {
                    int whole[SAMPLES] = {0}, seen[SAMPLES] = {0};
                    unsigned char state[SAB_STATE_SIZE], again[SAB_STATE_SIZE];
                    struct maker maker = {0, 0, 0};
                    sab_load_balancing_options balancing = made_by(&maker);
                    for (uint64_t rank = 0; rank < world_size + other_size; ++rank) {
                        const int is_first = rank < world_size;
                        sab_sampler_options options = ranks(is_first ? rank : rank - world_size,
                                                            is_first ? world_size : other_size);
                        /* the state says where, not the options */
                        options.epoch = is_first ? 3 : 0;
                        sab_sampler *sampler = NULL;
                        EXPECT_OK(makes ? sab_load_balancing_batch_sampler_new(sizes, &balancing,
                                                                               &options, &sampler)
                                        : sab_load_balancing_sampler_new(sizes, &balancing,
                                                                         &options, &sampler));
                        if (is_first) {
                            walk(sampler, whole);
                            EXPECT_OK(sab_sampler_set_epoch(sampler, 3));
                            take(sampler, stop, seen);
                            EXPECT_OK(sab_sampler_state_save(sampler, state));
                        } else {
                            EXPECT_OK(sab_sampler_state_restore(sampler, state, sizeof state));
                            EXPECT_OK(sab_sampler_state_save(sampler, again));
                            EXPECT(world_size != other_size ||
                                   memcmp(state, again, sizeof state) == 0);
                            take(sampler, UINT64_MAX, seen);
                        }
                        sab_sampler_free(sampler);
                    }
                    EXPECT(memcmp(whole, seen, sizeof whole) == 0);
                }
    sab_sizes_free(sizes);
}

static void ACallbackThatFails_ComesBackUnchangedAndChangesNothing(void) {
    sab_sizes *sizes = complexities(SAMPLES);
    struct maker maker = {0, 2, 0};
    sab_load_balancing_options balancing = made_by(&maker);
    const sab_sampler_options options = ranks(1, 3);
    sab_sampler *sampler = NULL, *other;
    EXPECT_FAILS(sab_load_balancing_batch_sampler_new(sizes, &balancing, &options, &sampler),
                 SAB_E_CALLBACK, "the batch callback failed with code 42");
    EXPECT(sampler == NULL && sab_last_callback_code() == 42 && maker.released == 0);

    maker = (struct maker){0, 0, 0};
    struct maker sound = {0, 0, 0};
    EXPECT_OK(sab_load_balancing_batch_sampler_new(sizes, &balancing, &options, &sampler));
    other = batch_sampler(sizes, &sound, 0, 0, 2);
    unsigned char state[SAB_STATE_SIZE], before[SAB_STATE_SIZE], after[SAB_STATE_SIZE];
    EXPECT_OK(sab_sampler_set_epoch(other, 1));
    EXPECT_OK(sab_sampler_seek(other, 5));
    EXPECT_OK(sab_sampler_state_save(other, state));
    EXPECT_OK(sab_sampler_seek(sampler, 7));
    EXPECT_OK(sab_sampler_state_save(sampler, before));
    sab_batch batch = SAB_BATCH_INIT;
    EXPECT_OK(sab_sampler_at(sampler, 7, &batch));
    const int64_t first = batch.indices[0];
    maker.fails_at = maker.calls + 1;
    EXPECT_FAILS(sab_sampler_set_epoch(sampler, 1), SAB_E_CALLBACK, "code 42");
    maker.fails_at = maker.calls + 2; /* of two ranks, the second */
    EXPECT_FAILS(sab_sampler_state_restore(sampler, state, sizeof state), SAB_E_CALLBACK,
                 "code 42");
    EXPECT_OK(sab_sampler_state_save(sampler, after));
    EXPECT(memcmp(before, after, sizeof before) == 0);
    EXPECT_OK(sab_next_batch(sampler, &batch));
    EXPECT(batch.step == 7 && batch.epoch == 0 && batch.indices[0] == first);
    EXPECT_OK(sab_sampler_state_restore(sampler, state, sizeof state));
    sab_sampler_free(sampler);
    sab_sampler_free(other);
    EXPECT(maker.released == 1);
    sab_sizes_free(sizes);
}

static int32_t one_by_one(void *ctx, const int64_t *indices, size_t count, sab_batches *batches) {
    (void)ctx;
    for (size_t i = 0; i < count; ++i) EXPECT_OK(sab_batches_add(batches, indices + i, 1));
    return 0;
}

static void StateOfACallbackThatMadeMore_IsRefusedWithoutAskingTwice(void) {
    sab_sizes *sizes = complexities(SAMPLES);
    struct maker maker = {0, 0, 0};
    sab_sampler *sampler = batch_sampler(sizes, &maker, 0, 0, 2), *other = NULL;
    sab_load_balancing_options balancing = SAB_LOAD_BALANCING_OPTIONS_INIT;
    balancing.make_batches = one_by_one;
    sab_sampler_options options = ranks(0, 2);
    options.epoch = 1;
    EXPECT_OK(sab_load_balancing_batch_sampler_new(sizes, &balancing, &options, &other));
    EXPECT_OK(sab_sampler_seek(other, 70));
    unsigned char state[SAB_STATE_SIZE], before[SAB_STATE_SIZE], after[SAB_STATE_SIZE];
    EXPECT_OK(sab_sampler_state_save(other, state));
    sab_batch batch = SAB_BATCH_INIT;
    EXPECT_OK(sab_next_batch(sampler, &batch));
    const int64_t first = batch.indices[0];
    EXPECT_OK(sab_sampler_state_save(sampler, before));
    EXPECT_FAILS(sab_sampler_state_restore(sampler, state, sizeof state), SAB_E_FORMAT,
                 "its place in the epoch cannot be");
    EXPECT(maker.calls == 4); /* two ranks, epochs 0 and 1 */
    EXPECT_OK(sab_sampler_state_save(sampler, after));
    EXPECT(memcmp(before, after, sizeof before) == 0);
    EXPECT_OK(sab_sampler_at(sampler, 0, &batch));
    EXPECT(batch.indices[0] == first);
    sab_sampler_free(sampler);
    sab_sampler_free(other);
    sab_sizes_free(sizes);
}

static int32_t wrong_index(void *ctx, const int64_t *indices, size_t count, sab_batches *batches) {
    (void)ctx, (void)indices, (void)count;
    const int64_t wrong[] = {3, SAMPLES};
    EXPECT_FAILS(sab_batches_add(batches, wrong, 2), SAB_E_ARGUMENT,
                 "indices[1] = 150: must be from 0 to below the number of samples, 150");
    EXPECT_FAILS(sab_batches_add(batches, wrong, 0), SAB_E_ARGUMENT,
                 "count = 0: must be at least 1");
    EXPECT_FAILS(sab_batches_add(batches, NULL, 1), SAB_E_ARGUMENT, "indices = NULL");
    EXPECT_FAILS(sab_batches_add(NULL, wrong, 1), SAB_E_ARGUMENT, "batches = NULL");
    return 0; /* takes no notice */
}

static int32_t none_of_the_first(void *ctx, const int64_t *indices, size_t count,
                                 sab_batches *batches) {
    (void)ctx;
    return indices[0] == 0 ? 0 : sab_batches_add(batches, indices, count);
}

static void WrongLoadBalancing_IsRefusedByName(void) {
    sab_sizes *sizes = complexities(SAMPLES);
    sab_sampler *sampler = NULL;
    static const sab_load_balancing_options macro = SAB_LOAD_BALANCING_OPTIONS_INIT;
    sab_load_balancing_options options, filled;
    sab_load_balancing_options_init(&filled, sizeof filled);
    EXPECT(memcmp(&macro, &filled, sizeof macro) == 0);
    options = macro;
    sab_load_balancing_options_init(NULL, sizeof(sab_load_balancing_options));
    EXPECT_FAILS(sab_load_balancing_sampler_new(NULL, NULL, NULL, &sampler), SAB_E_ARGUMENT,
                 "complexity = NULL: must be given");
    EXPECT_FAILS(sab_load_balancing_sampler_new(sizes, NULL, NULL, NULL), SAB_E_ARGUMENT,
                 "sampler = NULL: must be given");
    EXPECT_FAILS(sab_load_balancing_batch_sampler_new(sizes, NULL, NULL, &sampler), SAB_E_ARGUMENT,
                 "balancing.max_total = 0: must be set where balancing.make_batches is not");
    const struct {
        sab_load_balancing_options options;
        const char *words;
    } wrong[] = {
        {{4, 1, 0, 0, 1, 0, NULL, NULL, NULL}, "balancing.struct_size = 4"},
        {{sizeof options, 2, 0, 0, 1, 0, NULL, NULL, NULL},
         "balancing.shuffle = 2: must be 0 or 1"},
        {{sizeof options, 1, -1, 0, 1, 0, NULL, NULL, NULL},
         "balancing.drop_last = -1: must be 0 or 1"},
        {{sizeof options, 1, 0, 1.5, 1, 0, NULL, NULL, NULL},
         "balancing.random_level = 1.5: must be from 0 to 1"},
        {{sizeof options, 1, 0, NAN, 1, 0, NULL, NULL, NULL},
         "balancing.random_level = nan: must be from 0 to 1"},
        {{sizeof options, 1, 0, 0, 0, 0, NULL, NULL, NULL},
         "balancing.batch_size = 0: must be at least 1"},
    };
    for (size_t i = 0; i < COUNT(wrong); ++i)
        EXPECT_FAILS(sab_load_balancing_sampler_new(sizes, &wrong[i].options, NULL, &sampler),
                     SAB_E_ARGUMENT, wrong[i].words);
    options.max_total = INFINITY;
    EXPECT_FAILS(sab_load_balancing_batch_sampler_new(sizes, &options, NULL, &sampler),
                 SAB_E_ARGUMENT, "balancing.max_total = inf: must be finite");
    options.max_total = 95;
    EXPECT_FAILS(sab_load_balancing_batch_sampler_new(sizes, &options, NULL, &sampler),
                 SAB_E_ARGUMENT, "balancing.max_total = 95: sample 61 alone has complexity 96");
    options.make_batches = wrong_index;
    EXPECT_FAILS(sab_load_balancing_batch_sampler_new(sizes, &options, NULL, &sampler),
                 SAB_E_ARGUMENT,
                 "balancing.max_total = 95: must not be set beside balancing.make_batches");
    options.max_total = 0;
    EXPECT_FAILS(sab_load_balancing_batch_sampler_new(sizes, &options, NULL, &sampler),
                 SAB_E_ARGUMENT, "indices[1] = 150: must be");
    options.make_batches = none_of_the_first;
    options.shuffle = 0;
    sab_sampler_options two = ranks(0, 2);
    EXPECT_FAILS(sab_load_balancing_batch_sampler_new(sizes, &options, &two, &sampler),
                 SAB_E_ARGUMENT, "made no batch for rank 0 and 1 for another");
    two.world_size = 1048577;
    EXPECT_FAILS(sab_load_balancing_sampler_new(sizes, NULL, &two, &sampler), SAB_E_ARGUMENT,
                 "options.world_size = 1048577: load is balanced over at most");
    two = ranks(2, 2);
    EXPECT_FAILS(sab_load_balancing_sampler_new(sizes, NULL, &two, &sampler), SAB_E_ARGUMENT,
                 "options.rank = 2: must be below");
    const double negative[] = {1, -1};
    sab_sizes *broken = NULL;
    EXPECT_OK(sab_sizes_new(negative, 2, SAB_FLOAT64, NULL, &broken));
    EXPECT_FAILS(sab_load_balancing_sampler_new(broken, NULL, NULL, &sampler), SAB_E_ARGUMENT,
                 "complexity[1] = -1: must not be negative");
    sab_sizes_free(broken);

    sab_sampler *batches = NULL;
    options.make_batches = NULL;
    options.max_total = 100;
    EXPECT_OK(sab_load_balancing_sampler_new(sizes, NULL, NULL, &sampler));
    EXPECT_OK(sab_load_balancing_batch_sampler_new(sizes, &options, NULL, &batches));
    unsigned char state[SAB_STATE_SIZE];
    EXPECT_OK(sab_sampler_state_save(batches, state));
    EXPECT_FAILS(sab_sampler_state_restore(sampler, state, sizeof state), SAB_E_MISMATCH,
                 "order 7, this sampler has 6");
    EXPECT_FAILS(sab_sampler_set_budget(sampler, 5), SAB_E_UNSUPPORTED, "not a plan's");
    sab_sampler_free(sampler);
    sab_sampler_free(batches);

    sab_sizes *none = complexities(0);
    EXPECT_OK(sab_load_balancing_sampler_new(none, NULL, NULL, &sampler));
    sab_batch batch = SAB_BATCH_INIT;
    EXPECT(sab_next_batch(sampler, &batch) == SAB_END);
    sab_sampler_free(sampler);
    sab_sizes_free(none);
    sab_sizes_free(sizes);
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
    for (int method = SAB_PARTITION_KARMARKAR_KARP; method <= SAB_PARTITION_LONGEST_FIRST;
         ++method) {
        sab_partition_options options = by(method);
        EXPECT(sab_partition(costs, ITEMS, PARTS, &options, found) == SAB_OK);
        struct follower follower = {0, 0, 1, 0};
        options.progress = follow;
        options.progress_ctx = &follower;
        EXPECT(sab_partition(costs, ITEMS, PARTS, &options, again) == SAB_OK);
        EXPECT(memcmp(found, again, ITEMS * sizeof(uint32_t)) == 0);
        EXPECT(follower.calls >= 10 && follower.is_ascending);
        const int calls = follower.calls;
        for (int at = 1; at <= calls; ++at) {
            follower.calls = 0;
            follower.done = 0;
            follower.cancel_at = at;
            memset(again, 0xFF, ITEMS * sizeof(uint32_t));
            EXPECT(sab_partition(costs, ITEMS, PARTS, &options, again) == SAB_E_CANCELLED);
            EXPECT(sab_last_callback_code() == 55 && follower.calls == at &&
                   again[0] == 0xFFFFFFFFu && again[ITEMS - 1] == 0xFFFFFFFFu);
        }
    }
    free(costs);
    free(found);
    free(again);
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
    RUN(WrongPartitions_AreRefusedByName);
    RUN(Partition_CanBeFollowedAndCancelledAllTheWay);
    RUN(LoadBalancing_GivesThePublishedOrder);
    RUN(LoadBalancing_CoversEverySampleInEqualSteps);
    RUN(RanksOfAStep_GetNeighboursByComplexity);
    RUN(MadeBatches_AreAsManyOnEveryRank);
    RUN(ARankThatLacksMoreThanItHas_GoesRoundAgain);
    RUN(MaxTotal_MakesBatchesWithoutACallback);
    RUN(State_GoesOnWithTheSameOrOtherRanks);
    RUN(ACallbackThatFails_ComesBackUnchangedAndChangesNothing);
    RUN(StateOfACallbackThatMadeMore_IsRefusedWithoutAskingTwice);
    RUN(WrongLoadBalancing_IsRefusedByName);
    return finish();
}
