/* Samples of different shapes to one padded array, and back. */
#include <stdlib.h>

#include "helpers.h"

static sab_ragged of_rank_one(int64_t *values, const int64_t *lengths, uint64_t samples) {
    sab_ragged ragged = SAB_RAGGED_INIT;
    ragged.samples = samples;
    ragged.dimensions = 1;
    ragged.element_size = sizeof *values;
    ragged.shapes = lengths;
    ragged.values = values;
    return ragged;
}

static void sentences_are_padded_and_come_back(void) {
    int64_t values[] = {1, 2, 3, 4, 5, 6};
    const int64_t lengths[] = {1, 3, 0, 2};
    const sab_ragged sentences = of_rank_one(values, lengths, 4);
    int64_t shape[1], padded[4][3];
    EXPECT_OK(sab_ragged_get_padded_shape(&sentences, NULL, 4, shape));
    EXPECT(shape[0] == 3);
    EXPECT_OK(sab_ragged_pad(&sentences, NULL, 4, shape, NULL, padded));
    const int64_t expected[4][3] = {{1, 0, 0}, {2, 3, 4}, {0, 0, 0}, {5, 6, 0}};
    EXPECT(memcmp(padded, expected, sizeof expected) == 0);

    int64_t back[6] = {0};
    const sab_ragged room = of_rank_one(back, lengths, 4);
    EXPECT_OK(sab_ragged_unpad(padded, shape, NULL, 4, NULL, &room));
    EXPECT(memcmp(back, values, sizeof values) == 0);
}

static void a_group_is_padded_to_its_own_longest(void) {
    int64_t values[] = {1, 2, 3, 4, 5, 6};
    const int64_t lengths[] = {1, 3, 0, 2};
    const sab_ragged sentences = of_rank_one(values, lengths, 4);
    const double thresholds[] = {2};
    sab_sizes *sizes = NULL;
    EXPECT_OK(sab_sizes_new(lengths, 4, SAB_INT64, NULL, &sizes));
    const sab_grouping_dimension dimension = {sizes, thresholds, 1};
    sab_grouping *grouping = NULL;
    EXPECT_OK(sab_grouping_thresholds_new(&dimension, 1, &grouping));
    sab_grouping_view groups = SAB_GROUPING_VIEW_INIT;
    EXPECT_OK(sab_grouping_get_view(grouping, &groups));
    EXPECT(groups.groups == 2);
    int64_t shape[1], padded[3][2], back[6] = {0};
    const int64_t minus = -1;
    sab_pad_options options = SAB_PAD_OPTIONS_INIT;
    options.value = &minus;
    const size_t count = (size_t)groups.offsets[1];
    EXPECT_OK(sab_ragged_get_padded_shape(&sentences, groups.permutation, count, shape));
    EXPECT(count == 3 && shape[0] == 2);
    EXPECT_OK(sab_ragged_pad(&sentences, groups.permutation, count, shape, &options, padded));
    const int64_t expected[3][2] = {{1, -1}, {-1, -1}, {5, 6}};
    EXPECT(memcmp(padded, expected, sizeof expected) == 0);
    const sab_ragged room = of_rank_one(back, lengths, 4);
    EXPECT_OK(sab_ragged_unpad(padded, shape, groups.permutation, count, NULL, &room));
    const int64_t rest[] = {1, 0, 0, 0, 5, 6}; /* what is in the other group is not touched */
    EXPECT(memcmp(back, rest, sizeof rest) == 0);
    sab_grouping_free(grouping);
    sab_sizes_free(sizes);
}

static void rotations_are_padded_with_the_identity(void) {
    float values[3][2][2] = {{{1, 2}, {3, 4}}, {{5, 6}, {7, 8}}, {{9, 10}, {11, 12}}};
    const int64_t shapes[] = {1, 2, 2, 2, 2, 2}, shape[] = {3, 2, 2};
    const float identity[] = {1, 0, 0, 1};
    sab_ragged ragged = SAB_RAGGED_INIT;
    ragged.samples = 2;
    ragged.dimensions = 3;
    ragged.element_size = sizeof(float);
    ragged.shapes = shapes;
    ragged.values = values;
    sab_pad_options options = SAB_PAD_OPTIONS_INIT;
    options.value = identity;
    options.value_dims = 6; /* dimensions 1 and 2 */
    float padded[2][3][2][2];
    EXPECT_OK(sab_ragged_pad(&ragged, NULL, 2, shape, &options, padded));
    const float expected[2][3][2][2] = {{{{1, 2}, {3, 4}}, {{1, 0}, {0, 1}}, {{1, 0}, {0, 1}}},
                                        {{{5, 6}, {7, 8}}, {{9, 10}, {11, 12}}, {{1, 0}, {0, 1}}}};
    EXPECT(memcmp(padded, expected, sizeof expected) == 0);
}

static void masks_say_what_is_a_samples_own(void) {
    const int64_t lengths[] = {1, 2, 2, 1, 0, 3}, shape[] = {2, 3};
    uint8_t mask[3][2][3];
    const uint8_t all[3][2][3] = {
        {{1, 1, 0}, {0, 0, 0}}, {{1, 0, 0}, {1, 0, 0}}, {{0, 0, 0}, {0, 0, 0}}};
    EXPECT_OK(sab_ragged_mask(lengths, 3, shape, 2, SAB_MASK_ALL, &mask[0][0][0]));
    EXPECT(memcmp(mask, all, sizeof all) == 0);
    const uint8_t any[3][2][3] = {
        {{1, 1, 1}, {1, 1, 0}}, {{1, 1, 1}, {1, 1, 1}}, {{1, 1, 1}, {1, 1, 1}}};
    EXPECT_OK(sab_ragged_mask(lengths, 3, shape, 2, SAB_MASK_ANY, &mask[0][0][0]));
    EXPECT(memcmp(mask, any, sizeof any) == 0);
}

/* Any samples, and what a padded array of them should be, place by place. */
#define MOST_DIMENSIONS 4
typedef struct any_samples {
    uint64_t dimensions, count, size, batch_dim, value_dims;
    sab_pad_rule padding;
    int64_t shapes[6 * MOST_DIMENSIONS], strides[6 * MOST_DIMENSIONS], offsets[6],
        shape[MOST_DIMENSIONS];
    unsigned char memory[16384], value[512];
    void *data[6];
} any_samples;

/* The bytes that stand at `index` of a sample's padded array. */
static const unsigned char *expected_at(const any_samples *all, uint64_t sample,
                                        const int64_t *index) {
    const int64_t *const own = all->shapes + sample * all->dimensions;
    int64_t at = all->offsets[sample], at_value = 0;
    int is_own = 1, can_repeat = 1;
    for (uint64_t d = 0; d < all->dimensions; ++d) {
        if (index[d] >= own[d]) is_own = 0;
        if (own[d] == 0) can_repeat = 0;
        const int64_t place = index[d] < own[d] ? index[d] : own[d] - 1;
        at += place * all->strides[sample * all->dimensions + d];
        if (all->value_dims >> d & 1) at_value = at_value * all->shape[d] + index[d];
    }
    if (is_own || (all->padding == SAB_PADDING_REPEAT && can_repeat))
        return all->memory + at * (int64_t)all->size;
    return all->value + at_value * (int64_t)all->size;
}

static void make_any_samples(any_samples *all) {
    static const uint64_t sizes[] = {1, 2, 4, 8, 3, 16};
    all->dimensions = below(MOST_DIMENSIONS + 1);
    all->count = below(7) % 6;
    all->size = sizes[below(6)];
    all->batch_dim = below((uint32_t)all->dimensions + 1);
    all->padding = below(3) == 0 ? SAB_PADDING_REPEAT : SAB_PADDING_CONSTANT;
    all->value_dims = 0;
    for (uint64_t d = 0; d < all->dimensions; ++d) {
        all->shape[d] = 1 + below(3);
        const int is_same = below(2) == 0;
        if (is_same && below(2) == 0) all->value_dims |= 1u << d;
        for (uint64_t i = 0; i < all->count; ++i)
            all->shapes[i * all->dimensions + d] =
                is_same ? all->shape[d] : (int64_t)below((uint32_t)all->shape[d] + 1);
    }
    int64_t next = 0;
    for (uint64_t i = 0; i < all->count; ++i) {
        /* Dimensions lie in memory in any order, with gaps. */
        uint64_t order[MOST_DIMENSIONS] = {0, 1, 2, 3};
        for (uint64_t d = all->dimensions; d > 1; --d) {
            const uint64_t other = below((uint32_t)d), kept = order[d - 1];
            order[d - 1] = order[other];
            order[other] = kept;
        }
        int64_t stride = 1 + below(2);
        for (uint64_t d = 0; d < all->dimensions; ++d) {
            all->strides[i * all->dimensions + order[d]] = stride;
            stride *= all->shapes[i * all->dimensions + order[d]] > 0
                          ? all->shapes[i * all->dimensions + order[d]]
                          : 1;
        }
        all->offsets[i] = next;
        all->data[i] = all->memory + next * (int64_t)all->size;
        next += stride;
    }
    for (size_t i = 0; i < sizeof all->memory; ++i) all->memory[i] = (unsigned char)below(256);
    const int is_zero = below(3) == 0;
    for (size_t i = 0; i < sizeof all->value; ++i)
        all->value[i] = is_zero ? 0 : (unsigned char)below(256);
}

static void any_samples_are_padded_as_by_hand(void) {
    static any_samples all;
    static unsigned char padded[8192], memory[sizeof all.memory];
    random_state = 99;
    for (int round = 0; round < ROUNDS_OF(3000); ++round) {
        make_any_samples(&all);
        sab_ragged ragged = SAB_RAGGED_INIT;
        ragged.samples = all.count;
        ragged.dimensions = all.dimensions;
        ragged.element_size = all.size;
        ragged.shapes = all.shapes;
        ragged.strides = all.strides;
        const int by_pointers = below(2) == 0;
        if (by_pointers)
            ragged.data = all.data;
        else
            ragged.values = all.memory, ragged.offsets = all.offsets;
        int64_t indices[8];
        const size_t count = all.count == 0 ? 0 : below(9);
        for (size_t i = 0; i < count; ++i) indices[i] = below((uint32_t)all.count);
        sab_pad_options options = SAB_PAD_OPTIONS_INIT;
        options.batch_dim = all.batch_dim;
        options.padding = all.padding;
        options.value = all.value;
        options.value_dims = all.value_dims;
        memset(padded, 0xAA, sizeof padded);
        EXPECT_OK(sab_ragged_pad(&ragged, indices, count, all.shape, &options, padded));
        uint64_t places = count;
        for (uint64_t d = 0; d < all.dimensions; ++d) places *= (uint64_t)all.shape[d];
        int is_right = 1;
        for (uint64_t place = 0; place < places; ++place) {
            int64_t index[MOST_DIMENSIONS], sample = 0;
            uint64_t left = place;
            for (uint64_t d = all.dimensions + 1; d-- > 0;) {
                if (d == all.batch_dim) {
                    sample = indices[left % count];
                    left /= count;
                } else {
                    const uint64_t own = d < all.batch_dim ? d : d - 1;
                    index[own] = (int64_t)(left % (uint64_t)all.shape[own]);
                    left /= (uint64_t)all.shape[own];
                }
            }
            is_right =
                is_right && memcmp(padded + place * all.size,
                                   expected_at(&all, (uint64_t)sample, index), all.size) == 0;
        }
        EXPECT(is_right);
        EXPECT(padded[places * all.size] == 0xAA); /* nothing behind the end */
        /* Back into the same memory, which must come to no change; then into other memory, which
         * must differ where no sample is only. */
        memcpy(memory, all.memory, sizeof memory);
        EXPECT_OK(sab_ragged_unpad(padded, all.shape, indices, count, &options, &ragged));
        EXPECT(memcmp(memory, all.memory, sizeof memory) == 0);
        for (size_t i = 0; i < sizeof all.memory; ++i) all.memory[i] = (unsigned char)~memory[i];
        EXPECT_OK(sab_ragged_unpad(padded, all.shape, indices, count, &options, &ragged));
        uint64_t written = 0, expected = 0;
        for (size_t i = 0; i < sizeof all.memory; ++i) {
            written += all.memory[i] == memory[i];
            EXPECT(all.memory[i] == memory[i] || all.memory[i] == (unsigned char)~memory[i]);
        }
        for (uint64_t i = 0; i < all.count; ++i) {
            uint64_t of_sample = all.size;
            for (uint64_t d = 0; d < all.dimensions; ++d)
                of_sample *= (uint64_t)all.shapes[i * all.dimensions + d];
            for (size_t k = 0; k < count; ++k)
                if ((uint64_t)indices[k] == i) {
                    expected += of_sample;
                    break;
                }
        }
        EXPECT(written == expected);
    }
}

static void short_rows_are_those_of_any_stride(void) {
    random_state = 5;
    for (int round = 0; round < ROUNDS_OF(300); ++round) {
        enum { SAMPLES = 20 };
        static const uint64_t sizes[] = {1, 2, 4, 8, 12};
        int64_t shapes[SAMPLES][2], strides[SAMPLES][2], shape[2] = {1 + below(9), 1 + below(4)};
        unsigned char values[SAMPLES * 9 * 4 * 12], value[12], one[SAMPLES * 9 * 4 * 12],
            other[SAMPLES * 9 * 4 * 12];
        for (int i = 0; i < SAMPLES; ++i) {
            shapes[i][0] = below((uint32_t)shape[0] + 1);
            shapes[i][1] = shape[1];
            strides[i][0] = shape[1];
            strides[i][1] = 1;
        }
        for (size_t i = 0; i < sizeof values; ++i) values[i] = (unsigned char)below(256);
        for (size_t i = 0; i < sizeof value; ++i) value[i] = (unsigned char)below(256);
        sab_ragged ragged = SAB_RAGGED_INIT;
        ragged.samples = SAMPLES;
        ragged.dimensions = 2;
        ragged.element_size = sizes[below(5)];
        ragged.shapes = shapes[0];
        ragged.values = values;
        sab_pad_options options = SAB_PAD_OPTIONS_INIT;
        options.value = below(4) == 0 ? NULL : value;
        EXPECT_OK(sab_ragged_pad(&ragged, NULL, SAMPLES, shape, &options, one));
        ragged.strides = strides[0];
        EXPECT_OK(sab_ragged_pad(&ragged, NULL, SAMPLES, shape, &options, other));
        EXPECT(memcmp(one, other,
                      SAMPLES * (size_t)shape[0] * (size_t)shape[1] *
                          (size_t)ragged.element_size) == 0);
    }
}

static void threads_write_the_same(void) {
    enum { SAMPLES = 30000, LONGEST = 60 };
    int64_t *lengths = malloc(SAMPLES * sizeof *lengths), total = 0;
    for (int i = 0; i < SAMPLES; ++i) total += lengths[i] = below(LONGEST + 1);
    int64_t *values = malloc((size_t)total * sizeof *values),
            *back = calloc((size_t)total, sizeof *back);
    for (int64_t i = 0; i < total; ++i) values[i] = i;
    int64_t *one = malloc(sizeof(int64_t) * SAMPLES * LONGEST),
            *many = malloc(sizeof(int64_t) * SAMPLES * LONGEST);
    const sab_ragged ragged = of_rank_one(values, lengths, SAMPLES),
                     room = of_rank_one(back, lengths, SAMPLES);
    const int64_t shape[] = {LONGEST}, filler = 1 << 20;
    for (uint64_t batch_dim = 0; batch_dim < 2; ++batch_dim) {
        sab_pad_options options = SAB_PAD_OPTIONS_INIT;
        options.batch_dim = batch_dim;
        options.value = &filler;
        options.threads = 1;
        EXPECT_OK(sab_ragged_pad(&ragged, NULL, SAMPLES, shape, &options, one));
        for (options.threads = 0; options.threads < 6; ++options.threads) {
            memset(many, 0, sizeof(int64_t) * SAMPLES * LONGEST);
            EXPECT_OK(sab_ragged_pad(&ragged, NULL, SAMPLES, shape, &options, many));
            EXPECT(memcmp(one, many, sizeof(int64_t) * SAMPLES * LONGEST) == 0);
            memset(back, 0, (size_t)total * sizeof *back);
            EXPECT_OK(sab_ragged_unpad(many, shape, NULL, SAMPLES, &options, &room));
            EXPECT(memcmp(back, values, (size_t)total * sizeof *back) == 0);
        }
    }
    free(lengths), free(values), free(back), free(one), free(many);
}

static void nothing_is_padded_to_nothing(void) {
    int64_t shape[2] = {5, 5};
    sab_ragged none = SAB_RAGGED_INIT;
    none.element_size = 4;
    none.dimensions = 2;
    EXPECT_OK(sab_ragged_get_padded_shape(&none, NULL, 0, shape));
    EXPECT(shape[0] == 0 && shape[1] == 0);
    EXPECT_OK(sab_ragged_pad(&none, NULL, 0, shape, NULL, NULL));
    EXPECT_OK(sab_ragged_unpad(NULL, shape, NULL, 0, NULL, &none));
    const int64_t empty[] = {0, 7}, wide[] = {0, 7};
    none.samples = 1;
    none.shapes = empty;
    EXPECT_OK(sab_ragged_pad(&none, NULL, 1, wide, NULL, NULL));
    int32_t padded[14];
    const int64_t two[] = {2, 7};
    memset(padded, 1, sizeof padded);
    /* a sample without elements needs no memory */
    EXPECT_OK(sab_ragged_pad(&none, NULL, 1, two, NULL, padded));
    EXPECT(padded[0] == 0 && padded[13] == 0);
    int32_t scalars[] = {3, 4, 5};
    sab_ragged numbers = SAB_RAGGED_INIT;
    numbers.samples = 3;
    numbers.element_size = 4;
    numbers.values = scalars;
    const int64_t which[] = {2, 0};
    EXPECT_OK(sab_ragged_pad(&numbers, which, 2, NULL, NULL, padded));
    EXPECT(padded[0] == 5 && padded[1] == 3);
    uint8_t mask = 9;
    EXPECT_OK(sab_ragged_mask(NULL, 0, two, 2, SAB_MASK_ALL, NULL));
    EXPECT_OK(sab_ragged_mask(empty, 1, wide, 2, SAB_MASK_ALL, NULL));
    const int64_t endless[] = {INT64_MAX, 0, INT64_MAX};
    EXPECT_OK(sab_ragged_mask(endless, 1, endless, 3, SAB_MASK_ANY, NULL)); /* at once */
    EXPECT(mask == 9);
    none.dimensions = 3;
    none.shapes = endless;
    const int64_t any_strides[] = {INT64_MAX, INT64_MIN, -1};
    EXPECT_OK(sab_ragged_pad(&none, NULL, 1, endless, NULL, NULL));
    const int64_t one[] = {1, 0, 1}, room[] = {1, 2, 1};
    none.shapes = one;
    none.strides = any_strides; /* which have no meaning here */
    EXPECT_OK(sab_ragged_pad(&none, NULL, 1, room, NULL, padded));
    EXPECT(padded[0] == 0 && padded[1] == 0);
    /* nor is a value looked at that nothing is padded with */
    sab_pad_options options = SAB_PAD_OPTIONS_INIT;
    options.value = &mask;
    options.value_dims = 1;
    const int64_t huge[] = {INT64_MAX / 8, 1, 1};
    EXPECT_OK(sab_ragged_pad(&none, &huge[0], 0, huge, &options, NULL));
}

static void strides_of_any_sign_are_read_and_written(void) {
    int32_t values[] = {1, 2, 3, 4, 5, 6}, padded[2][3], back[6] = {0};
    void *data[] = {values + 5, values + 2}, *room[] = {back + 5, back + 2};
    const int64_t shapes[] = {3, 2}, strides[] = {-1, -2}, zeros[] = {0, 0}, shape[] = {3};
    sab_ragged ragged = SAB_RAGGED_INIT;
    ragged.samples = 2;
    ragged.dimensions = 1;
    ragged.element_size = sizeof *values;
    ragged.shapes = shapes;
    ragged.strides = strides;
    ragged.data = data;
    EXPECT_OK(sab_ragged_pad(&ragged, NULL, 2, shape, NULL, padded));
    const int32_t expected[2][3] = {{6, 5, 4}, {3, 1, 0}};
    EXPECT(memcmp(padded, expected, sizeof expected) == 0);
    ragged.data = room;
    EXPECT_OK(sab_ragged_unpad(padded, shape, NULL, 2, NULL, &ragged));
    const int32_t came[] = {1, 0, 3, 4, 5, 6};
    EXPECT(memcmp(back, came, sizeof came) == 0);
    ragged.data = data;
    ragged.strides = zeros; /* one element that stands for all */
    EXPECT_OK(sab_ragged_pad(&ragged, NULL, 2, shape, NULL, padded));
    const int32_t same[2][3] = {{6, 6, 6}, {3, 3, 0}};
    EXPECT(memcmp(padded, same, sizeof same) == 0);
}

static void wrong_arguments_are_refused(void) {
    int64_t values[6] = {1, 2, 3, 4, 5, 6}, padded[64] = {77}, shape[] = {3};
    int64_t lengths[] = {1, 3, 0, 2};
    sab_ragged ragged = of_rank_one(values, lengths, 4);
    const int64_t wrong[] = {0, 4}, negative[] = {-1};
    EXPECT_FAILS(sab_ragged_pad(NULL, NULL, 4, shape, NULL, padded), SAB_E_ARGUMENT, "samples");
    EXPECT_FAILS(sab_ragged_pad(&ragged, NULL, 4, NULL, NULL, padded), SAB_E_ARGUMENT, "shape");
    EXPECT_FAILS(sab_ragged_pad(&ragged, NULL, 4, shape, NULL, NULL), SAB_E_ARGUMENT, "padded");
    EXPECT_FAILS(sab_ragged_pad(&ragged, NULL, 3, shape, NULL, padded), SAB_E_ARGUMENT,
                 "count = 3: must be the number of samples, 4");
    EXPECT_FAILS(sab_ragged_pad(&ragged, wrong, 2, shape, NULL, padded), SAB_E_ARGUMENT,
                 "indices[1] = 4: must be at least 0 and below the number of samples, 4");
    EXPECT_FAILS(sab_ragged_pad(&ragged, negative, 1, shape, NULL, padded), SAB_E_ARGUMENT,
                 "indices[0] = -1");
    shape[0] = 2;
    EXPECT_FAILS(
        sab_ragged_pad(&ragged, NULL, 4, shape, NULL, padded), SAB_E_ARGUMENT,
        "shape[0] = 2: must be at least as large as that of each sample, such as 3 of samples[1]");
    EXPECT_FAILS(sab_ragged_unpad(padded, shape, NULL, 4, NULL, &ragged), SAB_E_ARGUMENT,
                 "such as 3 of samples[1]");
    shape[0] = -1;
    EXPECT_FAILS(sab_ragged_pad(&ragged, NULL, 4, shape, NULL, padded), SAB_E_ARGUMENT,
                 "shape[0] = -1: must be at least 0");
    shape[0] = INT64_MAX / 8;
    EXPECT_FAILS(sab_ragged_pad(&ragged, NULL, 4, shape, NULL, padded), SAB_E_ARGUMENT,
                 "take more than 2^63 bytes");
    shape[0] = 3;
    ragged.struct_size = 8;
    EXPECT_FAILS(sab_ragged_pad(&ragged, NULL, 4, shape, NULL, padded), SAB_E_ARGUMENT,
                 "samples.struct_size = 8");
    ragged = of_rank_one(values, NULL, 4);
    EXPECT_FAILS(sab_ragged_get_padded_shape(&ragged, NULL, 4, shape), SAB_E_ARGUMENT,
                 "samples.shapes");
    ragged = of_rank_one(NULL, lengths, 4);
    EXPECT_FAILS(sab_ragged_pad(&ragged, NULL, 4, shape, NULL, padded), SAB_E_ARGUMENT,
                 "samples.values");
    void *data[] = {values, NULL, NULL, values};
    ragged.data = data;
    EXPECT_FAILS(sab_ragged_pad(&ragged, NULL, 4, shape, NULL, padded), SAB_E_ARGUMENT,
                 "samples.data[1] = NULL");
    ragged.values = values;
    EXPECT_FAILS(sab_ragged_pad(&ragged, NULL, 4, shape, NULL, padded), SAB_E_ARGUMENT,
                 "must be NULL where samples.values are given");
    lengths[2] = -5;
    ragged = of_rank_one(values, lengths, 4);
    EXPECT_FAILS(sab_ragged_get_padded_shape(&ragged, NULL, 4, shape), SAB_E_ARGUMENT,
                 "samples.shapes[2][0] = -5: must be at least 0");
    /* where samples lie end to end, all count */
    EXPECT_FAILS(sab_ragged_pad(&ragged, wrong, 1, shape, NULL, padded), SAB_E_ARGUMENT,
                 "samples.shapes[2][0] = -5");
    ragged.dimensions = 17;
    EXPECT_FAILS(sab_ragged_get_padded_shape(&ragged, NULL, 4, shape), SAB_E_ARGUMENT,
                 "samples.dimensions = 17: must be at most 16");
    ragged.dimensions = 1;
    ragged.element_size = 0;
    EXPECT_FAILS(sab_ragged_get_padded_shape(&ragged, NULL, 4, shape), SAB_E_ARGUMENT,
                 "samples.element_size = 0");
    EXPECT(padded[0] == 77);
}

static void wrong_pad_options_are_refused(void) {
    int64_t values[6] = {1, 2, 3, 4, 5, 6}, lengths[] = {1, 3, 0, 2}, padded[64] = {77};
    const int64_t shape[] = {3};
    const sab_ragged ragged = of_rank_one(values, lengths, 4);
    sab_pad_options options = SAB_PAD_OPTIONS_INIT;
    options.batch_dim = 2;
    EXPECT_FAILS(sab_ragged_pad(&ragged, NULL, 4, shape, &options, padded), SAB_E_ARGUMENT,
                 "options.batch_dim = 2: must be at most the number of dimensions, 1");
    options.batch_dim = 0;
    options.padding = 2;
    EXPECT_FAILS(sab_ragged_pad(&ragged, NULL, 4, shape, &options, padded), SAB_E_ARGUMENT,
                 "options.padding = 2");
    options.padding = SAB_PADDING_CONSTANT;
    options.value_dims = 2;
    EXPECT_FAILS(sab_ragged_pad(&ragged, NULL, 4, shape, &options, padded), SAB_E_ARGUMENT,
                 "options.value_dims = 2: has a bit beyond the number of dimensions, 1");
    options.value_dims = 1;
    EXPECT_FAILS(sab_ragged_pad(&ragged, NULL, 4, shape, &options, padded), SAB_E_ARGUMENT,
                 "samples[0] is padded along dimension 0");
    options.value_dims = 0;
    options.struct_size = 8;
    EXPECT_FAILS(sab_ragged_pad(&ragged, NULL, 4, shape, &options, padded), SAB_E_ARGUMENT,
                 "options.struct_size = 8");
    EXPECT(padded[0] == 77);
}

static void wrong_masks_are_refused(void) {
    const int64_t lengths[] = {1, 3, -5, 2};
    uint8_t mask[8];
    const int64_t three[] = {3};
    EXPECT_FAILS(sab_ragged_mask(lengths, 4, three, 0, SAB_MASK_ALL, mask), SAB_E_ARGUMENT,
                 "dimensions = 0");
    EXPECT_FAILS(sab_ragged_mask(lengths, 4, three, 1, 2, mask), SAB_E_ARGUMENT, "rule = 2");
    EXPECT_FAILS(sab_ragged_mask(lengths, 4, three, 1, SAB_MASK_ALL, mask), SAB_E_ARGUMENT,
                 "lengths[2][0] = -5: must be from 0 to shape[0], 3");
    EXPECT_FAILS(sab_ragged_mask(NULL, 4, three, 1, SAB_MASK_ALL, mask), SAB_E_ARGUMENT, "lengths");
    EXPECT_FAILS(sab_ragged_mask(lengths, 4, NULL, 1, SAB_MASK_ALL, mask), SAB_E_ARGUMENT, "shape");
    EXPECT_FAILS(sab_ragged_mask(lengths, 2, three, 1, SAB_MASK_ALL, NULL), SAB_E_ARGUMENT, "mask");
}

int main(void) {
    RUN(sentences_are_padded_and_come_back);
    RUN(a_group_is_padded_to_its_own_longest);
    RUN(rotations_are_padded_with_the_identity);
    RUN(masks_say_what_is_a_samples_own);
    RUN(any_samples_are_padded_as_by_hand);
    RUN(short_rows_are_those_of_any_stride);
    RUN(threads_write_the_same);
    RUN(nothing_is_padded_to_nothing);
    RUN(strides_of_any_sign_are_read_and_written);
    RUN(wrong_arguments_are_refused);
    RUN(wrong_pad_options_are_refused);
    RUN(wrong_masks_are_refused);
    return finish();
}
