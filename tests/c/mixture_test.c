/* Mixtures of data sets: which samples an epoch has, how often, and when. */
#define _GNU_SOURCE
#include <math.h>
#include <stdlib.h>

#include "helpers.h"
#include "one.h"

enum { MOST_SOURCES = 64, MOST_SAMPLES = 6000, MOST_BATCHES = 4000 };

/* Sources whose samples have random sizes, of one or two columns. */
struct sources {
    size_t count, samples, columns;
    size_t first[MOST_SOURCES + 1]; /* index of the first sample of each */
    int32_t numbers[2][MOST_SAMPLES];
};

static struct sources drawn_sources(size_t count, const size_t *samples, size_t columns) {
    static struct sources made;
    random_state = 4711;
    made.count = count;
    made.columns = columns;
    made.samples = 0;
    for (size_t s = 0; s < count; ++s) {
        made.first[s] = made.samples;
        for (size_t i = 0; i < samples[s]; ++i, ++made.samples)
            for (size_t j = 0; j < 2; ++j)
                made.numbers[j][made.samples] =
                    (int32_t)(1 + below(1 + below(20 + 40 * (1 + s % 4))));
    }
    made.first[count] = made.samples;
    return made;
}

static struct sources three_sources(void) {
    const size_t samples[] = {700, 1100, 150};
    return drawn_sources(3, samples, 1);
}

static size_t source_of(const struct sources *of, int64_t index) {
    size_t source = 0;
    while (of->first[source + 1] <= (size_t)index) ++source;
    return source;
}

static double size_of(const struct sources *of, int64_t index) {
    return of->numbers[0][index] + (of->columns > 1 ? of->numbers[1][index] : 0);
}

/* The sizes of the samples from `first` to `end`. */
static sab_sizes *part_of(const struct sources *of, size_t first, size_t end) {
    sab_sizes *columns[2] = {NULL, NULL}, *sizes = NULL;
    sab_sizes_options copied = SAB_SIZES_OPTIONS_INIT;
    copied.copy = 1;
    for (size_t j = 0; j < of->columns; ++j)
        EXPECT_OK(
            sab_sizes_new(of->numbers[j] + first, end - first, SAB_INT32, &copied, &columns[j]));
    if (of->columns == 1) return columns[0];
    EXPECT_OK(sab_sizes_columns_new((const sab_sizes *const *)columns, NULL, of->columns, &sizes));
    for (size_t j = 0; j < of->columns; ++j) sab_sizes_free(columns[j]);
    return sizes;
}

static sab_status make_mixture(const struct sources *of, const sab_mixture_options *options,
                               sab_sizes **mixture) {
    sab_sizes *parts[MOST_SOURCES];
    for (size_t s = 0; s < of->count; ++s) parts[s] = part_of(of, of->first[s], of->first[s + 1]);
    const sab_status status =
        sab_mixture_new((const sab_sizes *const *)parts, of->count, options, mixture);
    for (size_t s = 0; s < of->count; ++s) sab_sizes_free(parts[s]);
    return status;
}

static sab_sizes *mixture_with(const struct sources *of, const sab_mixture_options *options) {
    sab_sizes *mixture = NULL;
    EXPECT_OK(make_mixture(of, options, &mixture));
    return mixture;
}

static sab_mixture_options repeated(const double *repeats, size_t count) {
    sab_mixture_options options = SAB_MIXTURE_OPTIONS_INIT;
    options.repeats = repeats;
    options.repeat_count = count;
    return options;
}

static const double three_repeats[] = {1, 0.5, 3};

static sab_sizes *three_mixed(const struct sources *of) {
    const sab_mixture_options options = repeated(three_repeats, 3);
    return mixture_with(of, &options);
}

static sab_mixture_source source_in(const sab_sizes *mixture, size_t index, uint64_t epoch) {
    sab_mixture_source source = SAB_MIXTURE_SOURCE_INIT;
    EXPECT_OK(sab_mixture_get_source(mixture, index, epoch, &source));
    return source;
}

/* ---- Which samples, and how often ---- */

/* Of n samples with r repeats: round(n * r) samples, each floor(r) or ceil(r) times, and over all
 * epochs no sample more than once more than another. */
static void check_counts(const struct sources *of, const sab_sizes *mixture,
                         const double *const *repeats, size_t epochs) {
    uint32_t *const counts = malloc(of->samples * sizeof *counts);
    uint64_t *const sums = calloc(of->samples, sizeof *sums);
    for (uint64_t epoch = 0; epoch < epochs; ++epoch) {
        EXPECT_OK(sab_mixture_get_counts(mixture, epoch, counts, of->samples));
        for (size_t s = 0; s < of->count; ++s) {
            const double repeat = repeats[epoch][s],
                         samples = (double)(of->first[s + 1] - of->first[s]);
            uint64_t all = 0, most = 0, least = UINT64_MAX;
            for (size_t i = of->first[s]; i < of->first[s + 1]; ++i) {
                EXPECT(counts[i] >= floor(repeat) && counts[i] <= ceil(repeat));
                all += counts[i];
                sums[i] += counts[i];
                most = sums[i] > most ? sums[i] : most;
                least = sums[i] < least ? sums[i] : least;
            }
            EXPECT(most - least <= 1);
            EXPECT((double)all == nearbyint(samples * repeat)); /* halves to even */
            const sab_mixture_source source = source_in(mixture, s, epoch);
            EXPECT(source.repeat == repeat && source.epoch_samples == all &&
                   source.samples == (uint64_t)samples && source.id == (int64_t)s);
        }
    }
    free(counts);
    free(sums);
}

static void Counts_OverManyEpochs_AreExactAndRotate(void) {
    enum { EPOCHS = 60 };
    random_state = 3;
    for (int round = 0; round < 25; ++round) {
        size_t samples[5];
        double repeats[5];
        const uint64_t state = random_state;
        for (size_t s = 0; s < 5; ++s) samples[s] = 1 + below(90);
        for (size_t s = 0; s < 5; ++s) repeats[s] = below(3) == 0 ? uniform() : 4 * uniform();
        repeats[round % 5] = (double)below(4) / 2 + 0.5; /* halves */
        const struct sources of = drawn_sources(5, samples, 1);
        random_state = state + 1;
        sab_mixture_options options = repeated(repeats, 5);
        options.seed = (uint64_t)round;
        sab_sizes *const mixture = mixture_with(&of, &options);
        const double *of_epoch[EPOCHS];
        for (size_t i = 0; i < EPOCHS; ++i) of_epoch[i] = repeats;
        check_counts(&of, mixture, of_epoch, EPOCHS);
        sab_sizes_free(mixture);
    }
}

static void Halves_AreRoundedToEven(void) {
    const size_t samples[] = {1, 3, 5, 7, 10};
    const double repeats[] = {0.5, 0.5, 0.5, 0.5, 0.25};
    const uint64_t expected[] = {0, 2, 2, 4, 2};
    const struct sources of = drawn_sources(5, samples, 1);
    const sab_mixture_options options = repeated(repeats, 5);
    sab_sizes *const mixture = mixture_with(&of, &options);
    for (size_t s = 0; s < 5; ++s) EXPECT(source_in(mixture, s, 3).epoch_samples == expected[s]);
    sab_sizes_free(mixture);
}

static void Schedule_ChangesTheRepeats_AndGoesOnInTheOrder(void) {
    enum { EPOCHS = 40 };
    const size_t samples[] = {31, 17, 8};
    const double first[] = {0.4, 1.7, 1}, later[] = {2.5, 0, 0.3, 0.1, 0.9, 3};
    const uint64_t epochs[] = {3, 11};
    const struct sources of = drawn_sources(3, samples, 1);
    sab_mixture_options options = repeated(first, 3);
    options.schedule_epochs = epochs;
    options.schedule_repeats = later;
    options.schedule_count = 2;
    sab_sizes *const mixture = mixture_with(&of, &options);
    const double *of_epoch[EPOCHS];
    for (size_t i = 0; i < EPOCHS; ++i) of_epoch[i] = i < 3 ? first : i < 11 ? later : later + 3;
    check_counts(&of, mixture, of_epoch, EPOCHS);
    sab_sizes_free(mixture);
}

static void Proportions_AreThoseOfTheEpoch(void) {
    const struct sources of = three_sources();
    const double shares[] = {3, 1, 4};
    double sizes[3] = {0}, all_size = 0;
    for (size_t i = 0; i < of.samples; ++i) {
        sizes[source_of(&of, (int64_t)i)] += size_of(&of, (int64_t)i);
        all_size += size_of(&of, (int64_t)i);
    }
    for (sab_mixture_unit unit = SAB_MIXTURE_SAMPLES; unit <= SAB_MIXTURE_SIZE; ++unit) {
        sab_mixture_options options = SAB_MIXTURE_OPTIONS_INIT;
        options.proportions = shares;
        options.proportion_count = 3;
        options.unit = unit;
        sab_sizes *mixture = mixture_with(&of, &options);
        for (size_t s = 0; s < 3; ++s) {
            const sab_mixture_source source = source_in(mixture, s, 0);
            const double all = unit == SAB_MIXTURE_SIZE ? all_size : (double)of.samples,
                         own = unit == SAB_MIXTURE_SIZE ? sizes[s] : (double)source.samples;
            EXPECT(fabs(source.repeat * own - shares[s] / 8 * all) <= 1e-9 * all);
        }
        sab_sizes_free(mixture);
        options.proportions = NULL;
        options.proportion_count = 0;
        options.temperature = 1;
        mixture = mixture_with(&of, &options);
        for (size_t s = 0; s < 3; ++s) {
            const sab_mixture_source source = source_in(mixture, s, 0);
            EXPECT(source.epoch_samples == source.samples);
        }
        sab_sizes_free(mixture);
        options.temperature = 2; /* shares are proportional to roots */
        mixture = mixture_with(&of, &options);
        const sab_mixture_source one = source_in(mixture, 0, 0), other = source_in(mixture, 1, 0);
        const double amounts[] = {unit == SAB_MIXTURE_SIZE ? sizes[0] : 700,
                                  unit == SAB_MIXTURE_SIZE ? sizes[1] : 1100};
        EXPECT(fabs(one.repeat * amounts[0] / (other.repeat * amounts[1]) -
                    sqrt(amounts[0] / amounts[1])) < 1e-12);
        sab_sizes_free(mixture);
    }
}

static void FlatMixture_IsThatOfItsParts(void) {
    const size_t samples[] = {12, 20, 7};
    const struct sources of = drawn_sources(3, samples, 1);
    const char *const names[] = {"wiki", "code", "web"};
    sab_mixture_options options = repeated(three_repeats, 3);
    options.names = names;
    options.name_count = 3;
    sab_sizes *const parts = mixture_with(&of, &options);
    sab_sizes *const sizes = part_of(&of, 0, of.samples), *flat = NULL;
    int64_t ids[39];
    for (size_t i = 0; i < of.samples; ++i) ids[i] = (int64_t)(10 * source_of(&of, (int64_t)i) + 3);
    EXPECT_OK(mixture_by_ids(sizes, ids, of.samples, &options, &flat));
    sab_sizes_free(sizes);
    uint32_t counts[39], same[39];
    for (uint64_t epoch = 0; epoch < 5; ++epoch) {
        EXPECT_OK(sab_mixture_get_counts(parts, epoch, counts, of.samples));
        EXPECT_OK(sab_mixture_get_counts(flat, epoch, same, of.samples));
        EXPECT(memcmp(counts, same, sizeof counts) == 0);
    }
    for (size_t s = 0; s < 3; ++s) {
        EXPECT(strcmp(source_in(flat, s, 0).name, names[s]) == 0);
        EXPECT(source_in(flat, s, 0).id == (int64_t)(10 * s + 3));
    }
    EXPECT(info_of_sizes(parts).sources == 3 && info_of_sizes(flat).sources == 3);
    EXPECT(sab_sizes_count(flat) == of.samples);
    double size = 0;
    EXPECT_OK(sab_sizes_get(parts, 20, 1, &size));
    EXPECT(size == of.numbers[0][20]);
    sab_sizes_free(parts);
    sab_sizes_free(flat);
}

static void Locate_OfInterleavedSources_CountsTheirOwnSamples(void) {
    const int32_t numbers[] = {5, 6, 7, 8, 9, 10};
    const int64_t ids[] = {70, 4, 70, 9, 4, 70};
    const size_t sources[] = {2, 0, 2, 1, 0, 2}, rows[] = {0, 0, 1, 0, 1, 2};
    sab_sizes *const sizes = sizes_of(numbers, 6), *mixture = NULL;
    EXPECT_OK(mixture_by_ids(sizes, ids, 6, NULL, &mixture));
    for (size_t i = 0; i < 6; ++i) {
        size_t source = 99, row = 99;
        EXPECT_OK(sab_sizes_locate(mixture, i, &source, &row));
        EXPECT(source == sources[i] && row == rows[i]);
    }
    EXPECT(source_in(mixture, 2, 0).id == 70);
    EXPECT(strcmp(source_in(mixture, 2, 0).name, "70") == 0);
    EXPECT(source_in(mixture, 0, 0).samples == 2 && source_in(mixture, 0, 9).repeat == 1);
    sab_sizes_free(mixture);
    sab_sizes_free(sizes);
}

/* ---- Epochs ---- */

/* Makes a sampler of some kind. */
typedef sab_sampler *make_sampler(const sab_sizes *mixture, const sab_sampler_options *options);

static sab_plan *mixed_plan(const sab_sizes *mixture, double limit) {
    const sab_plan_options options = budget(limit);
    sab_plan *plan = NULL;
    EXPECT_OK(sab_plan_new(mixture, &options, &plan));
    return plan;
}

static sab_sampler *bucket(const sab_sizes *mixture, const sab_sampler_options *options) {
    sab_plan *const plan = mixed_plan(mixture, 700);
    sab_sampler *sampler = NULL;
    EXPECT_OK(sab_bucket_sampler_new(plan, options, &sampler));
    sab_plan_free(plan);
    return sampler;
}

static sab_sampler *sequential(const sab_sizes *mixture, const sab_sampler_options *options) {
    sab_plan *const plan = mixed_plan(mixture, 700);
    sab_sampler_options unshuffled = *options;
    unshuffled.seed = 0;
    sab_sampler *sampler = NULL;
    EXPECT_OK(sab_sequential_sampler_new(plan, &unshuffled, &sampler));
    sab_plan_free(plan);
    return sampler;
}

static sab_sampler *packed_by(const sab_sizes *mixture, const sab_sampler_options *options,
                              sab_pack_method method) {
    sab_packed_options pack = SAB_PACKED_OPTIONS_INIT;
    pack.capacities = one_count(700), pack.capacity_count = 1;
    pack.method = method;
    sab_sampler *sampler = NULL;
    EXPECT_OK(sab_packed_sampler_new(mixture, &pack, options, &sampler));
    return sampler;
}

static sab_sampler *best_fit(const sab_sizes *mixture, const sab_sampler_options *options) {
    return packed_by(mixture, options, SAB_PACK_BEST_FIT);
}
static sab_sampler *histogram(const sab_sizes *mixture, const sab_sampler_options *options) {
    return packed_by(mixture, options, SAB_PACK_HISTOGRAM);
}
static sab_sampler *shuffled(const sab_sizes *mixture, const sab_sampler_options *options) {
    return packed_by(mixture, options, SAB_PACK_SHUFFLED);
}

/* A step of an epoch: what all ranks take. */
struct mixed_step {
    double sizes[MOST_SOURCES];
};

/* What a walk over all ranks found. */
struct walked {
    size_t steps;
    double largest;                  /* batch of whole steps */
    double totals[MOST_SOURCES + 1]; /* of each source, then of all */
    struct mixed_step step[MOST_BATCHES];
    uint32_t times[MOST_SAMPLES]; /* that each sample was seen */
    struct weights weights;
};

static void walk_rank(const struct sources *of, sab_sampler *sampler, struct walked *found) {
    uint64_t count = 0;
    EXPECT_OK(sab_sampler_get_batch_count(sampler, &count));
    sab_batch batch = SAB_BATCH_INIT;
    uint64_t seen = 0;
    while (sab_next_batch(sampler, &batch) == SAB_OK) {
        double total = 0;
        for (size_t i = 0; i < batch.count; ++i) {
            const size_t source = source_of(of, batch.indices[i]);
            const double size = size_of(of, batch.indices[i]);
            found->step[seen].sizes[source] += size;
            found->totals[source] += size;
            found->totals[of->count] += size;
            ++found->times[batch.indices[i]];
            total += size;
        }
        if (total > found->largest) found->largest = total;
        add_weights(&found->weights, &batch);
        ++seen;
    }
    EXPECT(seen == count);                             /* the number of batches is exact */
    EXPECT(found->steps == 0 || found->steps == seen); /* and the same on all ranks */
    found->steps = (size_t)seen;
}

/* Walks an epoch on all ranks. */
static struct walked *walk_ranks(const struct sources *of, const sab_sizes *mixture,
                                 make_sampler *make, uint64_t world_size, uint64_t epoch) {
    static struct walked found;
    memset(&found, 0, sizeof found);
    for (uint64_t rank = 0; rank < world_size; ++rank) {
        sab_sampler_options options = ranks(rank, world_size);
        options.seed = 5;
        options.epoch = epoch;
        sab_sampler *const sampler = make(mixture, &options);
        walk_rank(of, sampler, &found);
        sab_sampler_free(sampler);
    }
    EXPECT(have_mean_one(&found.weights));
    return &found;
}

static void check_times(const sab_sizes *mixture, const struct walked *found, uint64_t epoch) {
    uint32_t counts[MOST_SAMPLES];
    const size_t count = sab_sizes_count(mixture);
    EXPECT_OK(sab_mixture_get_counts(mixture, epoch, counts, count));
    EXPECT(memcmp(counts, found->times, count * sizeof *counts) == 0);
}

/* The largest distance of any source from its due after a step, in batches. */
static double largest_deviation(const struct sources *of, const struct walked *found) {
    double given[MOST_SOURCES] = {0}, all = 0, most = 0;
    for (size_t i = 0; i < found->steps; ++i) {
        for (size_t s = 0; s < of->count; ++s) {
            given[s] += found->step[i].sizes[s];
            all += found->step[i].sizes[s];
        }
        for (size_t s = 0; s < of->count; ++s)
            most = fmax(most, fabs(given[s] - all * found->totals[s] / found->totals[of->count]));
    }
    return most / found->largest;
}

static void Epochs_OfEverySampler_HaveTheirCounts_AndKeepToTheDues(void) {
    make_sampler *const samplers[] = {bucket, best_fit, histogram, shuffled};
    const uint64_t worlds[] = {1, 2, 5, 8};
    const struct sources of = three_sources();
    sab_sizes *const mixture = three_mixed(&of);
    for (size_t i = 0; i < COUNT(samplers); ++i)
        for (size_t w = 0; w < COUNT(worlds); ++w)
            for (uint64_t epoch = 0; epoch < 3; ++epoch) {
                const struct walked *const found =
                    walk_ranks(&of, mixture, samplers[i], worlds[w], epoch);
                check_times(mixture, found, epoch);
                EXPECT(largest_deviation(&of, found) <= 1);
            }
    const struct walked *const found = walk_ranks(&of, mixture, sequential, 3, 2);
    check_times(mixture, found, 2); /* in its own order */
    sab_sizes_free(mixture);
}

static void Windows_OfAHundredBatches_HaveTheProportions(void) {
    make_sampler *const samplers[] = {bucket, best_fit};
    const size_t samples[] = {3000, 2000, 700};
    const struct sources of = drawn_sources(3, samples, 1);
    const double repeats[] = {1, 0.5, 3};
    const sab_mixture_options options = repeated(repeats, 3);
    sab_sizes *const mixture = mixture_with(&of, &options);
    for (size_t i = 0; i < COUNT(samplers); ++i) {
        const struct walked *const found = walk_ranks(&of, mixture, samplers[i], 1, 1);
        EXPECT(found->steps > 200);
        for (size_t first = 0; first + 100 <= found->steps; ++first) {
            double given[3] = {0}, all = 0;
            for (size_t b = first; b < first + 100; ++b)
                for (size_t s = 0; s < 3; ++s) {
                    given[s] += found->step[b].sizes[s];
                    all += found->step[b].sizes[s];
                }
            for (size_t s = 0; s < 3; ++s)
                EXPECT(fabs(given[s] / all - found->totals[s] / found->totals[3]) <= 0.02);
        }
    }
    sab_sizes_free(mixture);
}

static void Epochs_OfManySources_KeepToTheDues(void) {
    size_t samples[8];
    double repeats[8];
    for (size_t s = 0; s < 8; ++s) {
        samples[s] = 100 + 90 * s;
        repeats[s] = (double)(8 - s) * 0.3;
    }
    const struct sources of = drawn_sources(8, samples, 1);
    const sab_mixture_options options = repeated(repeats, 8);
    sab_sizes *const mixture = mixture_with(&of, &options);
    for (uint64_t epoch = 0; epoch < 4; ++epoch) {
        const struct walked *const found = walk_ranks(&of, mixture, bucket, 2, epoch);
        check_times(mixture, found, epoch);
        EXPECT(largest_deviation(&of, found) <= 1);
    }
    sab_sizes_free(mixture);
}

static sab_sampler *rows_of_two(const sab_sizes *mixture, const sab_sampler_options *options) {
    const uint64_t capacities[] = {700, 600};
    sab_packed_options pack = SAB_PACKED_OPTIONS_INIT;
    pack.capacities = capacities;
    pack.capacity_count = 2;
    sab_sampler *sampler = NULL;
    EXPECT_OK(sab_packed_sampler_new(mixture, &pack, options, &sampler));
    return sampler;
}

static void SeveralColumns_AreMeasuredTogether(void) {
    const size_t samples[] = {500, 700, 90};
    const struct sources of = drawn_sources(3, samples, 2);
    sab_sizes *const mixture = three_mixed(&of);
    make_sampler *const samplers[] = {bucket, rows_of_two};
    EXPECT(info_of_sizes(mixture).columns == 2);
    for (size_t i = 0; i < COUNT(samplers); ++i)
        for (uint64_t epoch = 0; epoch < 2; ++epoch) {
            const struct walked *const found = walk_ranks(&of, mixture, samplers[i], 2, epoch);
            check_times(mixture, found, epoch);
            EXPECT(largest_deviation(&of, found) <= 1);
        }
    sab_sizes_free(mixture);
}

/* Rows that may hold pieces: all positions of each sample as often as the epoch takes it. */
static void check_pieces(const sab_sizes *mixture, const struct sources *of,
                         const sab_packed_options *pack, uint64_t epoch) {
    static uint32_t counts[MOST_SAMPLES];
    static double seen[MOST_SAMPLES];
    sab_mixture_report reports[3] = {SAB_MIXTURE_REPORT_INIT, SAB_MIXTURE_REPORT_INIT,
                                     SAB_MIXTURE_REPORT_INIT};
    memset(seen, 0, sizeof seen);
    for (uint64_t rank = 0; rank < 2; ++rank) {
        sab_sampler_options options = ranks(rank, 2);
        options.epoch = epoch;
        sab_sampler *sampler = NULL;
        EXPECT_OK(sab_packed_sampler_new(mixture, pack, &options, &sampler));
        sab_batch batch = SAB_BATCH_INIT;
        while (sab_next_batch(sampler, &batch) == SAB_OK) {
            const sab_rows rows = rows_of(sampler);
            EXPECT(batch.total[0] <= (double)pack->capacities[0] && rows.starts != NULL);
            for (size_t i = 0; i < batch.count; ++i) {
                const int64_t index = batch.indices[i];
                const int32_t length = rows.cu_seqlens[0][i + 1] - rows.cu_seqlens[0][i];
                EXPECT(rows.starts[i] + length <= of->numbers[0][index]);
                seen[index] += length;
            }
        }
        if (rank == 0) EXPECT_OK(sab_mixture_get_report(sampler, NULL, reports, 3));
        sab_sampler_free(sampler);
    }
    EXPECT_OK(sab_mixture_get_counts(mixture, epoch, counts, of->samples));
    for (size_t i = 0; i < of->samples; ++i)
        EXPECT(seen[i] == (double)of->numbers[0][i] * counts[i]);
    for (size_t s = 0; s < 3; ++s) { /* samples, not their pieces */
        uint64_t samples = 0, distinct = 0, most = 0;
        for (size_t i = of->first[s]; i < of->first[s + 1]; ++i) {
            samples += counts[i];
            distinct += counts[i] > 0;
            most = counts[i] > most ? counts[i] : most;
        }
        EXPECT(reports[s].samples == samples && reports[s].distinct == distinct &&
               reports[s].most == most);
    }
}

static void Rows_WithPieces_HaveEachSampleAsOften(void) {
    const size_t samples[] = {60, 90, 20};
    const struct sources of = drawn_sources(3, samples, 1);
    sab_sizes *const mixture = three_mixed(&of);
    for (int concat = 0; concat < 2; ++concat) {
        sab_packed_options pack = SAB_PACKED_OPTIONS_INIT;
        pack.capacities = one_count(50), pack.capacity_count = 1; /* less than the longest sample */
        if (concat)
            pack.method = SAB_PACK_CONCAT;
        else
            pack.split = 1;
        for (uint64_t epoch = 0; epoch < 3; ++epoch) check_pieces(mixture, &of, &pack, epoch);
    }
    sab_sizes_free(mixture);
}

static void SourcesThatAreSeparated_NeverShareABatch_AndTheBatchSaysWhich(void) {
    const struct sources of = three_sources();
    sab_sizes *const mixture = three_mixed(&of);
    int64_t ids[MOST_SAMPLES];
    for (size_t i = 0; i < of.samples; ++i) ids[i] = 100 + (int64_t)source_of(&of, (int64_t)i);
    sab_plan_options options = budget(700);
    options.separate_by = ids;
    options.separate_by_count = of.samples;
    sab_plan *plan = NULL;
    EXPECT_OK(sab_plan_new(mixture, &options, &plan));
    memset(ids, 0, sizeof ids); /* they were read during the call */
    for (uint64_t epoch = 0; epoch < 3; ++epoch) {
        static struct walked found;
        memset(&found, 0, sizeof found);
        sab_sampler_options of_epoch = ranks(0, 1);
        of_epoch.epoch = epoch;
        sab_sampler *sampler = NULL;
        EXPECT_OK(sab_bucket_sampler_new(plan, &of_epoch, &sampler));
        sab_batch batch = SAB_BATCH_INIT;
        while (sab_next_batch(sampler, &batch) == SAB_OK)
            for (size_t i = 0; i < batch.count; ++i)
                EXPECT(batch.id == 100 + (int64_t)source_of(&of, batch.indices[i]));
        sab_mixture_report reports[3] = {SAB_MIXTURE_REPORT_INIT, SAB_MIXTURE_REPORT_INIT,
                                         SAB_MIXTURE_REPORT_INIT};
        EXPECT_OK(sab_mixture_get_report(sampler, NULL, reports, 3));
        for (size_t s = 0; s < 3; ++s) EXPECT(reports[s].deviation < 1);
        EXPECT_OK(sab_sampler_set_epoch(sampler, epoch));
        walk_rank(&of, sampler, &found);
        check_times(mixture, &found, epoch);
        EXPECT(largest_deviation(&of, &found) < 1);
        sab_sampler_free(sampler);
    }
    sab_plan_free(plan);
    sab_sizes_free(mixture);
}

static void SourceWithoutASampleInAnEpoch_IsNotThere(void) {
    const size_t samples[] = {300, 200, 1};
    const double first[] = {1, 0, 0.25}, later[] = {0, 2, 1};
    const uint64_t from = 2;
    const struct sources of = drawn_sources(3, samples, 1);
    sab_mixture_options options = repeated(first, 3);
    options.schedule_epochs = &from;
    options.schedule_repeats = later;
    options.schedule_count = 1;
    sab_sizes *const mixture = mixture_with(&of, &options);
    EXPECT(source_in(mixture, 2, 0).epoch_samples == 0);
    uint64_t steps[4];
    for (uint64_t epoch = 0; epoch < 4; ++epoch) {
        const struct walked *const found = walk_ranks(&of, mixture, bucket, 2, epoch);
        check_times(mixture, found, epoch);
        EXPECT((found->totals[0] > 0) == (epoch < 2) && (found->totals[1] > 0) == (epoch >= 2));
        steps[epoch] = found->steps;
    }
    EXPECT(steps[0] == steps[1] && steps[1] != steps[2] && steps[2] == steps[3]);
    sab_sizes_free(mixture);
}

static void Shapes_OfIds_AreThoseOfTheSourcesThatAnEpochHas(void) {
    const size_t samples[] = {300, 200, 100};
    const double first[] = {1, 0, 0.25}, later[] = {0, 2, 1};
    const uint64_t from = 1;
    const struct sources of = drawn_sources(3, samples, 1);
    sab_mixture_options options = repeated(first, 3);
    options.schedule_epochs = &from;
    options.schedule_repeats = later;
    options.schedule_count = 1;
    sab_sizes *const mixture = mixture_with(&of, &options);
    int64_t ids[600];
    for (size_t i = 0; i < of.samples; ++i) ids[i] = (int64_t)source_of(&of, (int64_t)i);
    const size_t shapes[] = {4, 3, 2};
    sab_plan_options of_plan = budget(700);
    of_plan.separate_by = ids;
    of_plan.separate_by_count = of.samples;
    of_plan.max_shapes = shapes;
    of_plan.max_shape_count = 2; /* of the ids of epoch 0 */
    sab_plan *plan = NULL;
    EXPECT_FAILS(sab_plan_new(mixture, &of_plan, &plan), SAB_E_ARGUMENT,
                 "options.max_shape_count = 2: must be the number of ids, 3");
    of_plan.max_shape_count = 3;
    EXPECT_OK(sab_plan_new(mixture, &of_plan, &plan));
    sab_sampler *sampler = NULL;
    EXPECT_OK(sab_bucket_sampler_new(plan, NULL, &sampler));
    sab_plan_free(plan);
    for (uint64_t epoch = 0; epoch < 3; ++epoch) {
        double lengths[3][5];
        size_t counts[3] = {0};
        EXPECT_OK(sab_sampler_set_epoch(sampler, epoch));
        sab_batch batch = SAB_BATCH_INIT;
        while (sab_next_batch(sampler, &batch) == SAB_OK) {
            size_t i = 0;
            while (i < counts[batch.id] && lengths[batch.id][i] != *batch.padded_length) ++i;
            if (i == counts[batch.id] && i < 5)
                lengths[batch.id][counts[batch.id]++] = *batch.padded_length;
        }
        for (size_t s = 0; s < 3; ++s) EXPECT(counts[s] <= shapes[s]);
        EXPECT((counts[0] > 0) == (epoch == 0) && (counts[1] > 0) == (epoch > 0));
    }
    sab_sampler_free(sampler);
    sab_sizes_free(mixture);
}

/* ---- Seek and state ---- */

static void Seek_ShowsWhatTheWalkShowed(void) {
    const struct sources of = three_sources();
    sab_sizes *const mixture = three_mixed(&of);
    sab_sampler_options options = ranks(1, 2);
    options.epoch = 1;
    sab_sampler *const walked = bucket(mixture, &options), *const other = bucket(mixture, &options);
    sab_batch batch = SAB_BATCH_INIT, same = SAB_BATCH_INIT;
    EXPECT_OK(sab_sampler_set_epoch(other, 4));
    EXPECT_OK(sab_sampler_set_epoch(other, 1)); /* by another way */
    for (uint64_t position = 0; sab_next_batch(walked, &batch) == SAB_OK; ++position) {
        EXPECT_OK(sab_sampler_seek(other, position));
        EXPECT_OK(sab_next_batch(other, &same));
        EXPECT(batch.count == same.count &&
               memcmp(batch.indices, same.indices, batch.count * sizeof *batch.indices) == 0);
        EXPECT_OK(sab_sampler_at(other, position, &same));
        EXPECT(batch.count == same.count &&
               memcmp(batch.indices, same.indices, batch.count * sizeof *batch.indices) == 0);
    }
    sab_sampler_free(walked);
    sab_sampler_free(other);
    sab_sizes_free(mixture);
}

static sab_sampler *concatenated(const sab_sizes *mixture, const sab_sampler_options *options) {
    return packed_by(mixture, options, SAB_PACK_CONCAT);
}

/* Takes `steps` batches on `before` ranks and the rest on `after`: each sample as often as ever. */
static void check_resume(const struct sources *of, const sab_sizes *mixture, make_sampler *make,
                         uint64_t before, uint64_t after, uint64_t steps) {
    static int seen[MOST_SAMPLES];
    struct state state;
    memset(seen, 0, sizeof seen);
    sab_batch batch = SAB_BATCH_INIT;
    for (uint64_t rank = 0; rank < before; ++rank) {
        sab_sampler_options options = ranks(rank, before);
        options.epoch = 1;
        sab_sampler *const sampler = make(mixture, &options);
        for (uint64_t i = 0; i < steps; ++i) {
            EXPECT_OK(sab_next_batch(sampler, &batch));
            for (size_t k = 0; k < batch.count; ++k) ++seen[batch.indices[k]];
        }
        EXPECT_OK(save_state(sampler, &state));
        sab_sampler_free(sampler);
    }
    uint64_t steps_left = 0;
    for (uint64_t rank = 0; rank < after; ++rank) {
        const sab_sampler_options options = ranks(rank, after);
        sab_sampler *const sampler = make(mixture, &options);
        EXPECT_OK(restore_state(sampler, &state));
        const uint64_t taken = walk(sampler, seen);
        EXPECT(rank == 0 || taken == steps_left);
        steps_left = taken;
        sab_sampler_free(sampler);
    }
    uint32_t counts[MOST_SAMPLES];
    EXPECT_OK(sab_mixture_get_counts(mixture, 1, counts, of->samples));
    if (make == concatenated) return; /* pieces of a sample are counted elsewhere */
    for (size_t i = 0; i < of->samples; ++i) EXPECT((uint32_t)seen[i] == counts[i]);
}

static void State_IsContinuedByAnotherNumberOfRanks(void) {
    make_sampler *const samplers[] = {bucket, best_fit, sequential, concatenated};
    const uint64_t worlds[][2] = {{2, 3}, {3, 2}, {5, 1}, {1, 8}, {4, 4}};
    const struct sources of = three_sources();
    sab_sizes *const mixture = three_mixed(&of);
    for (size_t i = 0; i < COUNT(samplers); ++i)
        for (size_t w = 0; w < COUNT(worlds); ++w)
            check_resume(&of, mixture, samplers[i], worlds[w][0], worlds[w][1], 7);
    sab_sizes_free(mixture);
}

static sab_sampler *few_buckets(const sab_sizes *mixture, const sab_sampler_options *options) {
    sab_plan *const plan = mixed_plan(mixture, 100);
    sab_sampler *sampler = NULL;
    EXPECT_OK(sab_bucket_sampler_new(plan, options, &sampler));
    sab_plan_free(plan);
    return sampler;
}

static sab_sampler *few_separate(const sab_sizes *mixture, const sab_sampler_options *options) {
    static int64_t ids[706];
    for (size_t i = 0; i < COUNT(ids); ++i) ids[i] = i >= 640;
    sab_plan_options of_plan = budget(100);
    of_plan.separate_by = ids;
    of_plan.separate_by_count = COUNT(ids);
    sab_plan *plan = NULL;
    sab_sampler *sampler = NULL;
    EXPECT_OK(sab_plan_new(mixture, &of_plan, &plan));
    EXPECT_OK(sab_bucket_sampler_new(plan, options, &sampler));
    sab_plan_free(plan);
    return sampler;
}

static sab_sampler *few_rows(const sab_sizes *mixture, const sab_sampler_options *options) {
    sab_packed_options pack = SAB_PACKED_OPTIONS_INIT;
    pack.capacities = one_count(100), pack.capacity_count = 1;
    sab_sampler *sampler = NULL;
    EXPECT_OK(sab_packed_sampler_new(mixture, &pack, options, &sampler));
    return sampler;
}

/* Most batches have one sample, and the others are of the other source: the last step has too few
 * batches that can be divided, unless they are far from the dues. */
static void LastStepOfFewSamples_KeepsToTheDues(void) {
    make_sampler *const samplers[] = {few_buckets, few_separate, few_rows};
    const uint64_t worlds[] = {64, 256};
    static struct sources of = {.count = 2, .samples = 706, .columns = 1, .first = {0, 640, 706}};
    for (size_t i = 0; i < of.samples; ++i) of.numbers[0][i] = i < 640 ? 100 : 33;
    const double once[] = {1, 1};
    const sab_mixture_options options = repeated(once, 2);
    sab_sizes *const mixture = mixture_with(&of, &options);
    for (size_t i = 0; i < COUNT(samplers); ++i)
        for (size_t w = 0; w < COUNT(worlds); ++w) {
            const struct walked *const found = walk_ranks(&of, mixture, samplers[i], worlds[w], 1);
            check_times(mixture, found, 1);
            EXPECT(found->steps == (662 + worlds[w] - 1) / worlds[w]);
            EXPECT(largest_deviation(&of, found) <= 1);
            check_resume(&of, mixture, samplers[i], worlds[w], 24, 2);
        }
    sab_sizes_free(mixture);
}

static void State_OfAnotherMixture_IsRefused(void) {
    const struct sources of = three_sources();
    const double other[] = {1, 0.5, 2}, same_count[] = {1, 0.5, 3.001};
    const uint64_t from = 5;
    sab_sizes *const mixture = three_mixed(&of);
    const sab_sampler_options of_rank = ranks(0, 2);
    make_sampler *const samplers[] = {bucket, best_fit};
    static const char *const words[] = {
        "state: was saved with other repeats: source 2 had 3 repeats in epoch 0, this sampler has "
        "2",
        "state: was saved with other repeats: source 2 had 3 repeats in epoch 0, this sampler has "
        "3.001",
        "state: was saved with the seed 0 of the mixture, this sampler has 1",
        "state: was saved with another schedule of repeats, though those of epoch 0 are the same"};
    for (size_t i = 0; i < COUNT(samplers); ++i) {
        sab_sampler *const saved = samplers[i](mixture, &of_rank);
        struct state state;
        EXPECT_OK(save_state(saved, &state));
        for (int what = 0; what < 4; ++what) {
            sab_mixture_options options = repeated(three_repeats, 3);
            if (what == 0) options.repeats = other;
            if (what == 1) options.repeats = same_count;
            if (what == 2) options.seed = 1;
            if (what == 3) {
                options.schedule_epochs = &from;
                options.schedule_repeats = other;
                options.schedule_count = 1;
            }
            sab_sizes *const changed = mixture_with(&of, &options);
            sab_sampler *const sampler = samplers[i](changed, &of_rank);
            EXPECT_FAILS(restore_state(sampler, &state), SAB_E_MISMATCH, words[what]);
            sab_sampler_free(sampler);
            sab_sizes_free(changed);
        }
        /* Fewer sources, and none. */
        const struct sources fewer = drawn_sources(2, (const size_t[]){700, 1250}, 1);
        const sab_mixture_options two = repeated(three_repeats, 2);
        sab_sizes *const changed = mixture_with(&fewer, &two);
        sab_sampler *const sampler = samplers[i](changed, &of_rank);
        EXPECT_FAILS(restore_state(sampler, &state), SAB_E_MISMATCH,
                     "state: was saved with a mixture of 3 sources, this sampler has 2");
        sab_sampler_free(sampler);
        sab_sizes_free(changed);
        sab_sampler_free(saved);
    }
    sab_sizes_free(mixture);
}

/* ---- Budgets ---- */

static void LoweredBudget_HoldsInTheNextEpoch(void) {
    const struct sources of = three_sources();
    sab_sizes *const mixture = three_mixed(&of);
    static int seen[MOST_SAMPLES];
    uint32_t counts[MOST_SAMPLES];
    for (uint64_t epoch = 0; epoch < 2; ++epoch) {
        memset(seen, 0, sizeof seen);
        for (uint64_t rank = 0; rank < 2; ++rank) {
            const sab_sampler_options options = ranks(rank, 2);
            sab_sampler *const sampler = bucket(mixture, &options);
            sab_batch batch = SAB_BATCH_INIT;
            for (int i = 0; i < 5; ++i) {
                EXPECT_OK(sab_next_batch(sampler, &batch));
                for (size_t k = 0; epoch == 0 && k < batch.count; ++k) ++seen[batch.indices[k]];
            }
            EXPECT_OK(sab_sampler_set_budget(sampler, 0, 400));
            if (epoch == 1) EXPECT_OK(sab_sampler_set_epoch(sampler, 1));
            uint64_t count = 0;
            EXPECT_OK(sab_sampler_get_batch_count(sampler, &count));
            uint64_t taken = epoch == 0 ? 5 : 0;
            for (; sab_next_batch(sampler, &batch) == SAB_OK; ++taken) {
                EXPECT(padded_total(&batch) <= 400);
                for (size_t k = 0; k < batch.count; ++k) ++seen[batch.indices[k]];
            }
            EXPECT(taken == count);
            double limit = 0;
            EXPECT_OK(sab_sampler_get_budget(sampler, 0, &limit));
            EXPECT(limit == 400);
            sab_sampler_free(sampler);
        }
        EXPECT_OK(sab_mixture_get_counts(mixture, epoch, counts, of.samples));
        for (size_t i = 0; i < of.samples; ++i) EXPECT((uint32_t)seen[i] == counts[i]);
    }
    sab_sizes_free(mixture);
}

static void OversizeSample_OfALaterEpoch_IsRefusedAtOnce(void) {
    int32_t numbers[20];
    int64_t ids[20];
    for (int i = 0; i < 20; ++i) {
        numbers[i] = i < 10 ? 5 : 6;
        ids[i] = i / 10;
    }
    numbers[17] = 900;
    sab_sizes *const sizes = sizes_of(numbers, 20);
    const double none[] = {1, 0}, both[] = {1, 1}, half[] = {1, 0.1};
    const uint64_t from = 4;
    for (int what = 0; what < 3; ++what) {
        sab_mixture_options options = repeated(what == 2 ? half : none, 2);
        if (what == 1) {
            options.schedule_epochs = &from;
            options.schedule_repeats = both;
            options.schedule_count = 1;
        }
        sab_sizes *mixture = NULL;
        EXPECT_OK(mixture_by_ids(sizes, ids, 20, &options, &mixture));
        sab_plan_options of_plan = budget(100);
        sab_packed_options pack = SAB_PACKED_OPTIONS_INIT;
        pack.capacities = one_count(100), pack.capacity_count = 1;
        sab_plan *plan = NULL;
        sab_sampler *sampler = NULL;
        if (what == 0) { /* no epoch has it */
            EXPECT_OK(sab_plan_new(mixture, &of_plan, &plan));
            EXPECT_OK(sab_packed_sampler_new(mixture, &pack, NULL, &sampler));
        } else {
            EXPECT_FAILS(sab_plan_new(mixture, &of_plan, &plan), SAB_E_ARGUMENT, "17");
            EXPECT_FAILS(sab_packed_sampler_new(mixture, &pack, NULL, &sampler), SAB_E_ARGUMENT,
                         "17");
            of_plan.oversize = SAB_OVERSIZE_SKIP;
            EXPECT_OK(sab_plan_new(mixture, &of_plan, &plan));
            EXPECT_OK(sab_bucket_sampler_new(plan, NULL, &sampler));
            for (uint64_t epoch = 0; epoch < 12; ++epoch) {
                uint32_t counts[20];
                int64_t skipped[3] = {0};
                size_t count = 99;
                EXPECT_OK(sab_mixture_get_counts(mixture, epoch, counts, 20));
                EXPECT_OK(sab_sampler_set_epoch(sampler, epoch));
                EXPECT_OK(sab_sampler_get_skipped(sampler, skipped, 3, &count));
                EXPECT(count == counts[17] && (count == 0 || skipped[0] == 17));
            }
        }
        sab_sampler_free(sampler);
        sab_plan_free(plan);
        sab_sizes_free(mixture);
    }
    sab_sizes_free(sizes);
}

/* ---- Reports ---- */

static void Report_IsThatOfAWalk(void) {
    make_sampler *const samplers[] = {bucket, best_fit};
    const struct sources of = three_sources();
    sab_sizes *const mixture = three_mixed(&of);
    for (size_t i = 0; i < COUNT(samplers); ++i) {
        sab_sampler_options options = ranks(0, 1);
        options.seed = 5;
        options.epoch = 1;
        sab_sampler *const sampler = samplers[i](mixture, &options);
        sab_batch batch = SAB_BATCH_INIT;
        EXPECT_OK(sab_next_batch(sampler, &batch));
        const int64_t index = batch.indices[0];
        sab_mixture_report reports[3] = {SAB_MIXTURE_REPORT_INIT, SAB_MIXTURE_REPORT_INIT,
                                         SAB_MIXTURE_REPORT_INIT};
        EXPECT_OK(sab_mixture_get_report(sampler, NULL, reports, 3));
        EXPECT(batch.indices[0] == index); /* the batch that was shown stays */
        uint64_t epoch = 0, position = 0;
        EXPECT_OK(sab_sampler_tell(sampler, &epoch, &position));
        EXPECT(epoch == 1 && position == 1);
        const struct walked *const found = walk_ranks(&of, mixture, samplers[i], 1, 1);
        double deviation = 0, padded = 0, shares = 0;
        for (size_t s = 0; s < 3; ++s) {
            uint64_t samples = 0, distinct = 0, most = 0;
            for (size_t k = of.first[s]; k < of.first[s + 1]; ++k) {
                samples += found->times[k];
                distinct += found->times[k] > 0;
                most = found->times[k] > most ? found->times[k] : most;
            }
            EXPECT(reports[s].samples == samples && reports[s].distinct == distinct &&
                   reports[s].most == most);
            EXPECT(reports[s].total == found->totals[s]);
            EXPECT(fabs(reports[s].proportion - found->totals[s] / found->totals[3]) < 1e-12);
            EXPECT(fabs(reports[s].padding - (1 - reports[s].total / reports[s].padded_total)) <
                   1e-12);
            deviation = fmax(deviation, reports[s].deviation);
            padded += reports[s].padded_total;
            shares += reports[s].proportion;
        }
        EXPECT(fabs(deviation - largest_deviation(&of, found)) < 1e-9);
        EXPECT(fabs(shares - 1) < 1e-12);
        double walked = 0;
        EXPECT_OK(sab_sampler_seek(sampler, 0));
        while (sab_next_batch(sampler, &batch) == SAB_OK) walked += padded_total(&batch);
        EXPECT(fabs(walked - padded) < 1e-6 * padded);
        sab_sampler_free(sampler);
    }
    sab_sizes_free(mixture);
}

static void PlanReport_CountsRepeatsOfTheMixtureAsItsOwn(void) {
    const struct sources of = three_sources();
    sab_sizes *const mixture = three_mixed(&of);
    sab_plan *const plan = mixed_plan(mixture, 700);
    sab_plan_info info = SAB_PLAN_INFO_INIT;
    EXPECT_OK(sab_plan_get_info(plan, &info));
    EXPECT(info.samples == 700 + 550 + 450);
    sab_sampler_options options = ranks(0, 2);
    for (uint64_t epoch = 0; epoch < 2; ++epoch) {
        options.epoch = epoch;
        sab_plan_report report = SAB_PLAN_REPORT_INIT;
        EXPECT_OK(sab_plan_get_report(plan, &options, NULL, &report));
        EXPECT(report.samples == 1700 && report.repeated == 0 && report.dropped == 0);
        sab_sampler *sampler = NULL;
        EXPECT_OK(sab_bucket_sampler_new(plan, &options, &sampler));
        uint64_t count = 0;
        EXPECT_OK(sab_sampler_get_batch_count(sampler, &count));
        EXPECT(report.steps == count);
        sab_sampler_free(sampler);
    }
    sab_plan_free(plan);
    sab_sizes_free(mixture);
}

static void CostliestBatches_AreThoseOfTheEpoch(void) {
    const struct sources of = three_sources();
    sab_sizes *const mixture = three_mixed(&of);
    sab_plan *const plan = mixed_plan(mixture, 700);
    sab_sampler *costliest = NULL, *sampler = NULL;
    EXPECT_OK(sab_costliest_sampler_new(plan, 5, &costliest));
    EXPECT_OK(sab_bucket_sampler_new(plan, NULL, &sampler));
    sab_batch batch = SAB_BATCH_INIT;
    EXPECT_OK(sab_next_batch(costliest, &batch));
    const double most = padded_total(&batch);
    while (sab_next_batch(sampler, &batch) == SAB_OK) EXPECT(padded_total(&batch) <= most);
    sab_sampler_free(costliest);
    sab_sampler_free(sampler);
    sab_sampler_options options = ranks(0, 2);
    options.costliest_first = 3;
    EXPECT_OK(sab_bucket_sampler_new(plan, &options, &sampler));
    EXPECT_OK(sab_next_batch(sampler, &batch));
    EXPECT(padded_total(&batch) > 0.8 * most);
    sab_sampler_free(sampler);
    sab_plan_free(plan);
    sab_sizes_free(mixture);
}

/* ---- Bad input ---- */

#define REFUSED(words)                                                               \
    do {                                                                             \
        sab_sizes *refused_ = NULL;                                                  \
        EXPECT_FAILS(make_mixture(&of, &options, &refused_), SAB_E_ARGUMENT, words); \
        EXPECT(refused_ == NULL);                                                    \
        sab_sizes_free(refused_);                                                    \
        options = fresh;                                                             \
    } while (0)

static void BadRepeats_AreNamed(void) {
    const size_t samples[] = {10, 20, 4};
    const struct sources of = drawn_sources(3, samples, 1);
    const sab_mixture_options fresh = SAB_MIXTURE_OPTIONS_INIT;
    sab_mixture_options options = fresh;
    const double negative[] = {1, -0.5, 1}, no_number[] = {1, 1, NAN},
                 infinite[] = {INFINITY, 1, 1}, zeros[] = {0, 0, 0}, few[] = {0.01, 0.01, 0.1},
                 many[] = {1, 3e8, 1};
    const uint64_t first[] = {0}, same[] = {2, 2}, from[] = {4};
    const double ones[] = {1, 1, 1, 1, 1, 1};
    options = repeated(negative, 3);
    REFUSED("options.repeats[1] = -0.5: source 1 must have a number of at least 0");
    options = repeated(no_number, 3);
    REFUSED("options.repeats[2] = nan: source 2 must have");
    options = repeated(infinite, 3);
    REFUSED("options.repeats[0] = inf: source 0 must have");
    options = repeated(zeros, 3);
    REFUSED("options.repeats: are all 0: at least one must be above 0");
    options = repeated(few, 3);
    REFUSED("options.repeats: epoch 0 has no sample: one source must give at least one");
    options = repeated(many, 3);
    REFUSED("options.repeats: epoch 0 has 6000000014 samples: must have at most 4294967295");
    options = repeated(ones, 2);
    REFUSED("options.repeat_count = 2: must be the number of sources, 3");
    options = repeated(NULL, 3);
    REFUSED("options.repeats = NULL: must be given");
    options = repeated(ones, 0);
    REFUSED("options.repeat_count = 0: must be at least 1 where options.repeats is given");
    options.schedule_count = 1;
    options.schedule_epochs = first;
    options.schedule_repeats = ones;
    REFUSED("options.schedule_epochs[0] = 0: must be above the one before, 0");
    options.schedule_count = 2;
    options.schedule_epochs = same;
    options.schedule_repeats = ones;
    REFUSED("options.schedule_epochs[1] = 2: must be above the one before, 2");
    options.schedule_count = 1;
    options.schedule_epochs = from;
    REFUSED("options.schedule_repeats = NULL: must be given");
    options.schedule_count = 1;
    options.schedule_repeats = ones;
    REFUSED("options.schedule_epochs = NULL: must be given");
    options.schedule_count = 1;
    options.schedule_epochs = from;
    options.schedule_repeats = negative;
    REFUSED("options.schedule_repeats[1] = -0.5: source 1 must have");
    options.schedule_count = 1;
    options.schedule_epochs = from;
    options.schedule_repeats = zeros;
    REFUSED("options.schedule_repeats: are all 0");
    options.schedule_count = 1;
    options.schedule_epochs = from;
    options.schedule_repeats = few;
    REFUSED("epoch 4 has no sample");
}

static void BadProportions_AreNamed(void) {
    const size_t samples[] = {10, 20, 4};
    struct sources of = drawn_sources(3, samples, 1);
    const sab_mixture_options fresh = SAB_MIXTURE_OPTIONS_INIT;
    sab_mixture_options options = fresh;
    const double negative[] = {1, 1, -3}, zeros[] = {0, 0, 0}, ones[] = {1, 1, 1};
    options.proportions = negative;
    options.proportion_count = 3;
    REFUSED("options.proportions[2] = -3: source 2 must have a number of at least 0");
    options.proportions = zeros;
    options.proportion_count = 3;
    REFUSED("options.proportions: are all 0");
    options.proportions = ones;
    options.proportion_count = 4;
    REFUSED("options.proportion_count = 4: must be the number of sources, 3");
    options.proportion_count = 3;
    REFUSED("options.proportions = NULL: must be given");
    options.proportions = ones;
    options.proportion_count = 3;
    options.repeats = ones;
    options.repeat_count = 3;
    REFUSED("only one of options.repeats, options.proportions and options.temperature");
    options.temperature = 2;
    options.repeats = ones;
    options.repeat_count = 3;
    REFUSED("only one of options.repeats, options.proportions and options.temperature");
    options.temperature = -1;
    REFUSED("options.temperature = -1: must be above 0, or 0 where it is not given");
    options.temperature = NAN;
    REFUSED("options.temperature = nan: must be above 0");
    options.unit = 2;
    REFUSED("options.unit = 2: must be SAB_MIXTURE_SAMPLES (0) or SAB_MIXTURE_SIZE (1)");
    options.unit = -1;
    REFUSED("options.unit = -1: must be");
    for (size_t i = of.first[1]; i < of.first[2]; ++i) of.numbers[0][i] = 0;
    options.proportions = ones;
    options.proportion_count = 3;
    options.unit = SAB_MIXTURE_SIZE;
    REFUSED("source 1 has the size 0, and cannot have a share of all sizes");
    of.numbers[0][15] = -4;
    REFUSED("-4");
}

static void BadNames_AreNamed(void) {
    const size_t samples[] = {10, 20, 4};
    const struct sources of = drawn_sources(3, samples, 1);
    const sab_mixture_options fresh = SAB_MIXTURE_OPTIONS_INIT;
    sab_mixture_options options = fresh;
    const char *const twice[] = {"wiki", "code", "wiki"}, *const none[] = {"wiki", NULL, "web"},
                      *const empty[] = {"wiki", "code", ""};
    char text[SAB_MAX_COLUMN_NAME + 2];
    memset(text, 'a', sizeof text);
    text[sizeof text - 1] = '\0';
    const char *const large[] = {text, "code", "web"};
    options.names = twice;
    options.name_count = 3;
    REFUSED("options.names[2] = \"wiki\": is the name of source 0, too");
    options.names = none;
    options.name_count = 3;
    REFUSED("options.names[1] = NULL: must be given");
    options.names = empty;
    options.name_count = 3;
    REFUSED("options.names[2] = \"\": must have 1 to 63 bytes");
    options.names = large;
    options.name_count = 3;
    REFUSED("options.names[0] = \"aaaa");
    options.names = twice;
    options.name_count = 2;
    REFUSED("options.name_count = 2: must be the number of sources, 3");
    options.name_count = 3;
    REFUSED("options.names = NULL: must be given");
    options.struct_size = 4;
    REFUSED("options.struct_size = 4");
}

static void BadSources_AreNamed(void) {
    const int32_t numbers[] = {1, 2, 3};
    sab_sizes *const one = sizes_of(numbers, 3), *const empty = sizes_of(numbers, 0), *made = NULL,
                     *named = NULL, *pair = NULL;
    EXPECT_OK(named_sizes(one, "tokens", &named));
    const sab_sizes *const both[] = {one, one};
    EXPECT_OK(sab_sizes_columns_new(both, NULL, 2, &pair));
    const sab_sizes *const with_empty[] = {one, empty}, *const with_none[] = {one, NULL},
                           *const with_name[] = {one, named}, *const with_pair[] = {one, pair};
#define REFUSED_OF(words, of, count) \
    EXPECT_FAILS(sab_mixture_new(of, count, NULL, &made), SAB_E_ARGUMENT, words)
    REFUSED_OF("sources[1]: has no sample: must have at least one", with_empty, 2);
    REFUSED_OF("sources[1] = NULL: must be given", with_none, 2);
    REFUSED_OF("sources[1]: has 1 column, tokens: must have the columns of sources[0], 1 column",
               with_name, 2);
    REFUSED_OF("sources[1]: has 2 columns: must have the columns of sources[0]", with_pair, 2);
    REFUSED_OF("count = 0: must be from 1 to 65535", both, 0);
    REFUSED_OF("count = 65536: must be from 1 to 65535", both, 65536);
    REFUSED_OF("sources = NULL: must be given", NULL, 2);
    EXPECT_FAILS(sab_mixture_new(both, 2, NULL, NULL), SAB_E_ARGUMENT, "sizes = NULL");
    const int64_t ids[] = {0, 4, 0}, negative[] = {0, 2, -7};
    EXPECT_FAILS(mixture_by_ids(one, negative, 3, NULL, &made), SAB_E_ARGUMENT,
                 "options.ids[2] = -7: must be at least 0");
    EXPECT_FAILS(mixture_by_ids(one, ids, 2, NULL, &made), SAB_E_ARGUMENT,
                 "options.id_count = 2: must be the number of samples, 3");
    EXPECT_FAILS(mixture_by_ids(one, NULL, 3, NULL, &made), SAB_E_ARGUMENT, "options.ids = NULL");
    EXPECT_FAILS(mixture_by_ids(NULL, ids, 3, NULL, &made), SAB_E_ARGUMENT, "sources[0] = NULL");
    EXPECT_FAILS(mixture_by_ids(empty, ids, 0, NULL, &made), SAB_E_ARGUMENT,
                 "options.id_count = 0: must be at least 1");
    sab_mixture_options by_ids = SAB_MIXTURE_OPTIONS_INIT;
    by_ids.ids = ids, by_ids.id_count = 3;
    EXPECT_FAILS(sab_mixture_new(both, 2, &by_ids, &made), SAB_E_ARGUMENT,
                 "count = 2: must be 1 with options.ids");
    EXPECT(made == NULL);
    sab_sizes *const all[] = {one, empty, named, pair};
    for (size_t i = 0; i < COUNT(all); ++i) sab_sizes_free(all[i]);
}

static void TooManySources_AreRefused(void) {
    enum { IDS = SAB_MAX_SOURCES + 1 };
    int32_t *const numbers = malloc(IDS * sizeof *numbers);
    int64_t *const ids = malloc(IDS * sizeof *ids);
    for (int i = 0; i < IDS; ++i) {
        numbers[i] = 1;
        ids[i] = IDS - i;
    }
    sab_sizes *const sizes = sizes_of(numbers, IDS), *mixture = NULL;
    EXPECT_FAILS(mixture_by_ids(sizes, ids, IDS, NULL, &mixture), SAB_E_ARGUMENT,
                 "options.ids[65535] = 1: is one source more than 65535");
    ids[IDS - 1] = 2;
    EXPECT_OK(mixture_by_ids(sizes, ids, IDS, NULL, &mixture));
    EXPECT(info_of_sizes(mixture).sources == SAB_MAX_SOURCES);
    sab_sizes_free(mixture);
    sab_sizes_free(sizes);
    free(numbers);
    free(ids);
}

static void Questions_WithBadArguments_AreNamed(void) {
    const size_t samples[] = {10, 20, 4};
    const struct sources of = drawn_sources(3, samples, 1);
    sab_sizes *const mixture = three_mixed(&of), *const sizes = part_of(&of, 0, 10);
    sab_mixture_source source = SAB_MIXTURE_SOURCE_INIT, small = SAB_MIXTURE_SOURCE_INIT;
    small.struct_size = 3;
    uint32_t counts[34];
    size_t row = 7, number = 7;
    EXPECT(info_of_sizes(sizes).sources == 0);
#define REFUSED_CALL(words, call) EXPECT_FAILS(call, SAB_E_ARGUMENT, words)
    REFUSED_CALL("index = 3: must be below the number of sources, 3",
                 sab_mixture_get_source(mixture, 3, 0, &source));
    REFUSED_CALL("sizes: are no mixture", sab_mixture_get_source(sizes, 0, 0, &source));
    REFUSED_CALL("sizes = NULL", sab_mixture_get_source(NULL, 0, 0, &source));
    REFUSED_CALL("source = NULL", sab_mixture_get_source(mixture, 0, 0, NULL));
    REFUSED_CALL("source.struct_size = 3", sab_mixture_get_source(mixture, 0, 0, &small));
    REFUSED_CALL("index = 34: must be below the count, 34",
                 sab_sizes_locate(mixture, 34, &number, &row));
    REFUSED_CALL("sizes = NULL", sab_sizes_locate(NULL, 0, &number, &row));
    REFUSED_CALL("part = NULL", sab_sizes_locate(mixture, 0, NULL, &row));
    REFUSED_CALL("row = NULL", sab_sizes_locate(mixture, 0, &number, NULL));
    EXPECT(row == 7 && number == 7);
    REFUSED_CALL("sizes: are no mixture", sab_mixture_get_counts(sizes, 0, counts, 10));
    REFUSED_CALL("sizes = NULL", sab_mixture_get_counts(NULL, 0, counts, 34));
    REFUSED_CALL("count = 33: must be the number of samples, 34",
                 sab_mixture_get_counts(mixture, 0, counts, 33));
    REFUSED_CALL("counts = NULL", sab_mixture_get_counts(mixture, 0, NULL, 34));
    EXPECT_OK(sab_mixture_get_counts(mixture, UINT64_MAX, counts, 34)); /* any epoch */
    sab_sizes_free(mixture);
    sab_sizes_free(sizes);
}

static void Reports_WithBadArguments_AreNamed(void) {
    const struct sources of = three_sources();
    sab_sizes *const mixture = three_mixed(&of);
    const sab_sampler_options options = ranks(0, 1);
    sab_sampler *const sampler = bucket(mixture, &options);
    sab_mixture_report reports[3] = {SAB_MIXTURE_REPORT_INIT, SAB_MIXTURE_REPORT_INIT,
                                     SAB_MIXTURE_REPORT_INIT};
    REFUSED_CALL("count = 2: must be the number of sources, 3",
                 sab_mixture_get_report(sampler, NULL, reports, 2));
    REFUSED_CALL("sampler = NULL", sab_mixture_get_report(NULL, NULL, reports, 3));
    REFUSED_CALL("reports = NULL", sab_mixture_get_report(sampler, NULL, NULL, 3));
    EXPECT_FAILS(sab_mixture_get_report(sampler, a_progress(stop_at_half, NULL), reports, 3),
                 SAB_E_CANCELLED, "");
    EXPECT(sab_last_error_code() == 55);
    reports[1].struct_size = 2;
    REFUSED_CALL("reports[1].struct_size = 2", sab_mixture_get_report(sampler, NULL, reports, 3));
    reports[1].struct_size = sizeof *reports;
    for (size_t s = 0; s < 3; ++s) EXPECT(reports[s].samples == 0);
    sab_plan *const plan = a_plan();
    sab_sampler *const other = rank_of(plan, 0, 1);
    REFUSED_CALL("sampler: its sizes are no mixture",
                 sab_mixture_get_report(other, NULL, reports, 3));
    sab_sampler_free(other);
    sab_plan_free(plan);
    sab_sampler_free(sampler);
    sab_sizes_free(mixture);
}

static int32_t padded_cost(void *ctx, uint64_t count, const double *lengths, const double *totals,
                           size_t columns, double *cost) {
    (void)ctx, (void)totals, (void)columns;
    *cost = (double)count * lengths[0];
    return 0;
}

static void FunctionsOfOneDataSet_RefuseMixtures(void) {
    const size_t samples[] = {40, 30, 20};
    const struct sources of = drawn_sources(3, samples, 1);
    sab_sizes *const mixture = three_mixed(&of);
    sab_sizes *const plain = part_of(&of, 0, 40), *made = NULL;
    const sab_sizes *const both[] = {plain, mixture}, *const only[] = {mixture};
    const int64_t ids[90] = {0};
    const char words[] = "is a mixture: must be the sizes of one data set";
    REFUSED_CALL("parts[1]: is a mixture", sab_sizes_join_new(both, 2, &made));
    REFUSED_CALL("columns[0]: is a mixture", sab_sizes_columns_new(only, NULL, 1, &made));
    REFUSED_CALL(words, named_sizes(mixture, "tokens", &made));
    REFUSED_CALL("sources[1]: is a mixture", sab_mixture_new(both, 2, NULL, &made));
    REFUSED_CALL(words, mixture_by_ids(mixture, ids, 90, NULL, &made));
    sab_sampler *sampler = NULL;
    const sab_bagua_options bagua = SAB_BAGUA_OPTIONS_INIT;
    sab_bagua_options batches = bagua;
    batches.limit = 100;
    REFUSED_CALL(words, sab_ordered_sampler_new(NULL, 90, mixture, 200, NULL, &sampler));
    REFUSED_CALL(words, sab_bagua_sampler_new(mixture, &bagua, NULL, &sampler));
    REFUSED_CALL(words, sab_bagua_sampler_new(mixture, &batches, NULL, &sampler));
    int64_t boundaries[51], counts[50];
    size_t count = 0;
    REFUSED_CALL(words, sab_bionemo_create_buckets(mixture, 10, 5, boundaries, counts, 50, &count));
#if SAB_WITH_GROUP
    double thresholds[4];
    REFUSED_CALL(words, sab_thresholds_find(mixture, 3, NULL, thresholds, NULL));
#endif
    sab_plan *const plan = mixed_plan(mixture, 700);
    const sab_bionemo_options bionemo = SAB_BIONEMO_OPTIONS_INIT;
    EXPECT_FAILS(sab_bionemo_sampler_new(plan, &bionemo, &sampler), SAB_E_UNSUPPORTED,
                 "sab_bionemo_sampler_new: the plan is of a mixture");
    EXPECT_FAILS(sab_plan_save(plan, "mixture.plan"), SAB_E_UNSUPPORTED,
                 "sab_plan_save: the plan is of a mixture");
    EXPECT_FAILS(sab_plan_write(plan, NULL, 0, &count), SAB_E_UNSUPPORTED,
                 "sab_plan_write: the plan is of a mixture");
    sab_plan_free(plan);
    sab_cost *const callback = new_callback(padded_cost, NULL);
    sab_plan_options options = SAB_PLAN_OPTIONS_INIT;
    SET_BUDGET_OF(options, callback, 700);
    sab_plan *refused = NULL;
    REFUSED_CALL("options.budgets[0].cost: is a callback",
                 sab_plan_new(mixture, &options, &refused));
    sab_packed_options pack = SAB_PACKED_OPTIONS_INIT;
    const sab_cost *const balance[] = {callback};
    pack.capacities = one_count(700), pack.capacity_count = 1;
    pack.balance = balance;
    pack.balance_count = 1;
    REFUSED_CALL("pack.balance[0]: is a callback",
                 sab_packed_sampler_new(mixture, &pack, NULL, &sampler));
    EXPECT(made == NULL && sampler == NULL && refused == NULL);
    sab_cost_free(callback);
    sab_sizes_free(mixture);
    sab_sizes_free(plain);
}

int main(void) {
    RUN(Counts_OverManyEpochs_AreExactAndRotate);
    RUN(Halves_AreRoundedToEven);
    RUN(Schedule_ChangesTheRepeats_AndGoesOnInTheOrder);
    RUN(Proportions_AreThoseOfTheEpoch);
    RUN(FlatMixture_IsThatOfItsParts);
    RUN(Locate_OfInterleavedSources_CountsTheirOwnSamples);
    RUN(Epochs_OfEverySampler_HaveTheirCounts_AndKeepToTheDues);
    RUN(Windows_OfAHundredBatches_HaveTheProportions);
    RUN(Epochs_OfManySources_KeepToTheDues);
    RUN(SeveralColumns_AreMeasuredTogether);
    RUN(Rows_WithPieces_HaveEachSampleAsOften);
    RUN(SourcesThatAreSeparated_NeverShareABatch_AndTheBatchSaysWhich);
    RUN(SourceWithoutASampleInAnEpoch_IsNotThere);
    RUN(Shapes_OfIds_AreThoseOfTheSourcesThatAnEpochHas);
    RUN(Seek_ShowsWhatTheWalkShowed);
    RUN(State_IsContinuedByAnotherNumberOfRanks);
    RUN(LastStepOfFewSamples_KeepsToTheDues);
    RUN(State_OfAnotherMixture_IsRefused);
    RUN(LoweredBudget_HoldsInTheNextEpoch);
    RUN(OversizeSample_OfALaterEpoch_IsRefusedAtOnce);
    RUN(Report_IsThatOfAWalk);
    RUN(PlanReport_CountsRepeatsOfTheMixtureAsItsOwn);
    RUN(CostliestBatches_AreThoseOfTheEpoch);
    RUN(BadRepeats_AreNamed);
    RUN(BadProportions_AreNamed);
    RUN(BadNames_AreNamed);
    RUN(BadSources_AreNamed);
    RUN(TooManySources_AreRefused);
    RUN(Questions_WithBadArguments_AreNamed);
    RUN(Reports_WithBadArguments_AreNamed);
    RUN(FunctionsOfOneDataSet_RefuseMixtures);
    return finish();
}
