/* Sizes of Arrow arrays and streams, which the tests make by hand. */
#include <math.h>
#include <stdlib.h>

#include "helpers.h"

static int released_arrays, released_streams;

static void release_array(struct ArrowArray *array) {
    ++released_arrays;
    array->release = NULL;
}
static void release_schema(struct ArrowSchema *schema) {
    schema->release = NULL;
}

static struct ArrowSchema type(const char *format, const char *name) {
    struct ArrowSchema schema = {0};
    schema.format = format;
    schema.name = name;
    schema.release = release_schema;
    return schema;
}

/* The arguments after `length` are the buffers; the first is the bitmap of valid samples. */
#define ARRAY(length, ...)                                                         \
    array_of(length, sizeof((const void *[]){__VA_ARGS__}) / sizeof(const void *), \
             (const void *[]){__VA_ARGS__})
static struct ArrowArray array_of(int64_t length, size_t n_buffers, const void **buffers) {
    struct ArrowArray array = {0};
    array.length = length;
    array.null_count = buffers[0] == NULL ? 0 : -1;
    array.n_buffers = (int64_t)n_buffers;
    array.buffers = buffers;
    array.release = release_array;
    return array;
}

static struct ArrowArray slice(struct ArrowArray array, int64_t offset, int64_t length) {
    array.offset += offset;
    array.length = length;
    return array;
}

static sab_sizes_arrow_options reading(sab_null_rule nulls, sab_text_unit text_unit) {
    sab_sizes_arrow_options options = SAB_SIZES_ARROW_OPTIONS_INIT;
    options.nulls = nulls;
    options.text_unit = text_unit;
    return options;
}

/* Reads the sizes one by one, in a range, and by a sampler that takes over the array. */
static void expect_read(struct ArrowArray array, const struct ArrowSchema *schema,
                        const char *column, const sab_sizes_arrow_options *options,
                        const double *expected, size_t count, int line) {
    const int failures_before = failures_of_test, released_before = released_arrays;
    sab_sizes *sizes = NULL;
    sab_sampler *sampler = NULL;
    EXPECT_OK(sab_sizes_arrow_new(&array, schema, column, options, &sizes));
    EXPECT(array.release == NULL && sab_sizes_count(sizes) == count);
    for (size_t i = 0; i < count; ++i) {
        double value = -1;
        EXPECT_OK(sab_sizes_get(sizes, i, 1, &value));
        EXPECT(value == expected[i]);
    }
    double values[64];
    EXPECT(count <= COUNT(values));
    EXPECT_OK(sab_sizes_get(sizes, 0, count, values));
    EXPECT(count == 0 || memcmp(values, expected, count * sizeof *values) == 0);
    EXPECT_OK(sab_ordered_sampler_new(NULL, count, sizes, 1e18, NULL, &sampler));
    sab_sizes_free(sizes);
    sab_batch batch = SAB_BATCH_INIT;
    double total = 0;
    for (size_t i = 0; i < count; ++i) total += expected[i];
    EXPECT(sab_next_batch(sampler, &batch) == (count > 0 ? SAB_OK : SAB_END));
    if (count > 0) EXPECT(batch.count == count && *batch.total == total);
    sab_sampler_free(sampler);
    EXPECT(released_arrays == released_before + 1);
    if (failures_of_test > failures_before) fprintf(stderr, "the array is in line %d\n", line);
}
#define EXPECT_READ(array, schema, column, options, ...)                       \
    expect_read(array, schema, column, options, (const double[]){__VA_ARGS__}, \
                sizeof((const double[]){__VA_ARGS__}) / sizeof(double), __LINE__)

/* A failed call leaves the array to its caller. */
static void expect_refused(struct ArrowArray array, const struct ArrowSchema *schema,
                           const char *column, const sab_sizes_arrow_options *options,
                           const char *words, int line) {
    const int failures_before = failures_of_test, released_before = released_arrays;
    const int was_released = array.release == NULL;
    sab_sizes *sizes = NULL;
    EXPECT_FAILS(sab_sizes_arrow_new(&array, schema, column, options, &sizes), SAB_E_ARGUMENT,
                 words);
    EXPECT(sizes == NULL && released_arrays == released_before);
    EXPECT((array.release == NULL) == was_released);
    if (failures_of_test > failures_before) fprintf(stderr, "the array is in line %d\n", line);
}
#define EXPECT_REFUSED(array, schema, column, options, words) \
    expect_refused(array, schema, column, options, words, __LINE__)

/* Four samples, of which tests read the last three: 3, 0, 5. */
static const int32_t offsets32[] = {0, 9, 12, 12, 17};
static const int64_t offsets64[] = {0, 9, 12, 12, 17};
static const char *const texts = "123456789abcdefgh";

static void Numbers_OfEveryType_AreSizes(void) {
#define TRY_NUMBERS(element, format)                                                     \
    do {                                                                                 \
        const element numbers[] = {9, 3, 0, 5};                                          \
        const struct ArrowSchema schema = type(format, NULL);                            \
        EXPECT_READ(slice(ARRAY(4, NULL, numbers), 1, 3), &schema, NULL, NULL, 3, 0, 5); \
    } while (0)
    TRY_NUMBERS(int8_t, "c");
    TRY_NUMBERS(int16_t, "s");
    TRY_NUMBERS(int32_t, "i");
    TRY_NUMBERS(int64_t, "l");
    TRY_NUMBERS(uint8_t, "C");
    TRY_NUMBERS(uint16_t, "S");
    TRY_NUMBERS(uint32_t, "I");
    TRY_NUMBERS(uint64_t, "L");
    TRY_NUMBERS(float, "f");
    TRY_NUMBERS(double, "g");
    const struct ArrowSchema half = type("e", NULL);
    const uint16_t halves[] = {0x4880, 0x4200, 0x8000, 0x4500, 0x0001, 0x03FF, 0x7BFF, 0x3555};
    EXPECT_READ(slice(ARRAY(8, NULL, halves), 1, 7), &half, NULL, NULL, 3, 0, 5, 1.0 / 16777216,
                1023.0 / 16777216, 65504, 1365.0 / 4096);
}

static void Sampler_OverNumbersInPlace_KeepsTheArray(void) {
    int32_t numbers[] = {3, 1, 2};
    const struct ArrowSchema schema = type("i", NULL);
    struct ArrowArray array = ARRAY(3, NULL, numbers);
    sab_sizes *sizes = NULL;
    sab_sampler *sampler = NULL;
    released_arrays = 0;
    EXPECT_OK(sab_sizes_arrow_new(&array, &schema, NULL, NULL, &sizes));
    EXPECT_OK(sab_ordered_sampler_new(NULL, 3, sizes, 10, NULL, &sampler));
    sab_sizes_free(sizes);
    EXPECT(released_arrays == 0);
    sab_batch batch = SAB_BATCH_INIT;
    numbers[0] = 4; /* nothing was copied */
    EXPECT_OK(sab_next_batch(sampler, &batch));
    EXPECT(*batch.longest == 4);
    sab_sampler_free(sampler);
    EXPECT(released_arrays == 1);
}

static void Float16_ThatIsNoSize_IsRefused(void) {
    const struct ArrowSchema half = type("e", NULL);
    const struct {
        uint16_t bits;
        const char *words;
    } bad[] = {{0x7C00, "sizes[1] = inf: must be finite"},
               {0x7E00, "sizes[1] = nan: must be a number"},
               {0xC500, "sizes[1] = -5: must not be negative"}};
    for (size_t i = 0; i < COUNT(bad); ++i) {
        const uint16_t halves[] = {0x4880, bad[i].bits};
        struct ArrowArray array = ARRAY(2, NULL, halves);
        sab_sizes *sizes = NULL;
        sab_plan *plan = NULL;
        const sab_plan_options options = budget(100);
        EXPECT_OK(sab_sizes_arrow_new(&array, &half, NULL, NULL, &sizes));
        EXPECT_FAILS(sab_plan_new(sizes, &options, &plan), SAB_E_ARGUMENT, bad[i].words);
        sab_sizes_free(sizes);
    }
}

static void Lengths_OfEveryLayout_AreSizes(void) {
    const struct {
        const char *format;
        const void *offsets;
    } by_offsets[] = {{"u", offsets32}, {"z", offsets32},  {"U", offsets64},
                      {"Z", offsets64}, {"+l", offsets32}, {"+L", offsets64}};
    for (size_t i = 0; i < COUNT(by_offsets); ++i) {
        const struct ArrowSchema schema = type(by_offsets[i].format, NULL);
        EXPECT_READ(slice(ARRAY(4, NULL, by_offsets[i].offsets, texts), 1, 3), &schema, NULL, NULL,
                    3, 0, 5);
    }
    const int32_t views[16] = {[0] = 9, [4] = 3, [8] = 0, [12] = 5};
    const int64_t no_buffers[1] = {0};
    const int32_t sizes32[] = {9, 3, 0, 5};
    const int64_t sizes64[] = {9, 3, 0, 5};
    const struct ArrowSchema view = type("vu", NULL), binary_view = type("vz", NULL);
    const struct ArrowSchema list_view = type("+vl", NULL), large_list_view = type("+vL", NULL);
    EXPECT_READ(slice(ARRAY(4, NULL, views, no_buffers), 1, 3), &view, NULL, NULL, 3, 0, 5);
    EXPECT_READ(slice(ARRAY(4, NULL, views, no_buffers), 1, 3), &binary_view, NULL, NULL, 3, 0, 5);
    EXPECT_READ(slice(ARRAY(4, NULL, offsets32, sizes32), 1, 3), &list_view, NULL, NULL, 3, 0, 5);
    EXPECT_READ(slice(ARRAY(4, NULL, offsets64, sizes64), 1, 3), &large_list_view, NULL, NULL, 3, 0,
                5);
    const struct ArrowSchema fixed = type("w:7", NULL), fixed_list = type("+w:0", NULL);
    EXPECT_READ(slice(ARRAY(4, NULL, texts), 1, 2), &fixed, NULL, NULL, 7, 7);
    EXPECT_READ(slice(ARRAY(4, NULL), 1, 3), &fixed_list, NULL, NULL, 0, 0, 0);
}

static void Array_OfNoSamples_NeedsNoBuffers(void) {
    const char *const formats[] = {"i", "u", "+L", "vu", "w:3", "n"};
    for (size_t i = 0; i < COUNT(formats); ++i) {
        const struct ArrowSchema schema = type(formats[i], NULL);
        expect_read(ARRAY(0, NULL, NULL, NULL), &schema, NULL, NULL, NULL, 0, __LINE__);
    }
}

static void Dictionaries_AreReadByTheirIndices(void) {
    struct ArrowSchema values = type("u", NULL), numbers = type("g", NULL);
    struct ArrowArray elements = slice(ARRAY(4, NULL, offsets32, texts), 1, 3);
    const double fractions[] = {0.5, 0.25};
    struct ArrowArray real = ARRAY(2, NULL, fractions);
#define TRY_INDICES(element, format)                                    \
    do {                                                                \
        const element indices[] = {7, 2, 0, 1, 2};                      \
        struct ArrowSchema schema = type(format, NULL);                 \
        struct ArrowArray array = slice(ARRAY(5, NULL, indices), 1, 4); \
        schema.dictionary = &values;                                    \
        array.dictionary = &elements;                                   \
        EXPECT_READ(array, &schema, NULL, NULL, 5, 3, 0, 5);            \
        schema.dictionary = &numbers;                                   \
        array.dictionary = &real;                                       \
        array = slice(array, 1, 2);                                     \
        EXPECT_READ(array, &schema, NULL, NULL, 0.5, 0.25);             \
    } while (0)
    TRY_INDICES(int8_t, "c");
    TRY_INDICES(int16_t, "s");
    TRY_INDICES(int32_t, "i");
    TRY_INDICES(int64_t, "l");
    TRY_INDICES(uint8_t, "C");
    TRY_INDICES(uint16_t, "S");
    TRY_INDICES(uint32_t, "I");
    TRY_INDICES(uint64_t, "L");
}

static void Dictionaries_ThatAreDamaged_AreRefused(void) {
    struct ArrowSchema values = type("u", NULL), schema = type("i", NULL);
    struct ArrowArray elements = ARRAY(4, NULL, offsets32, texts);
    const int32_t outside[] = {3, 4}, negative[] = {0, -1};
    struct ArrowArray array = ARRAY(2, NULL, outside);
    schema.dictionary = &values;
    EXPECT_REFUSED(array, &schema, NULL, NULL, "the array, dictionary: the array is missing");
    array.dictionary = &elements;
    EXPECT_REFUSED(
        array, &schema, NULL, NULL,
        "dictionary indices[1] = 4: must be from 0 to below the elements of the dictionary, 4");
    array.buffers = (const void *[]){NULL, negative};
    EXPECT_REFUSED(array, &schema, NULL, NULL, "dictionary indices[1] = -1: must be from 0");
    array.buffers = (const void *[]){NULL, offsets32};
    struct ArrowSchema number = type("i", NULL);
    struct ArrowArray bad_elements = ARRAY(2, NULL, negative);
    schema.dictionary = &number;
    array.dictionary = &bad_elements;
    const int32_t used[] = {0, 1};
    array.buffers = (const void *[]){NULL, used};
    EXPECT_REFUSED(array, &schema, NULL, NULL, "dictionary[1] = -1: must not be negative");
    number.format = "L";
    const uint64_t large[] = {5, UINT64_MAX}, above[] = {5, (UINT64_C(1) << 53) + 1};
    bad_elements.buffers = (const void *[]){NULL, large};
    EXPECT_REFUSED(array, &schema, NULL, NULL, "dictionary[1] = 18446744073709551615: must be");
    bad_elements.buffers = (const void *[]){NULL, above};
    EXPECT_REFUSED(array, &schema, NULL, NULL, "dictionary[1] = 9007199254740993: must be");
    schema.format = "f";
    EXPECT_REFUSED(array, &schema, NULL, NULL, "\"f\" of a dictionary's indices");
    schema.format = "u";
    EXPECT_REFUSED(array, &schema, NULL, NULL, "\"u\" of a dictionary's indices");
    schema.format = "i";
    number.dictionary = &values;
    EXPECT_REFUSED(array, &schema, NULL, NULL, "a dictionary of dictionaries");
}

static void Dictionaries_WithABadElementThatNoSampleHas_AreRead(void) {
    struct ArrowSchema numbers = type("g", NULL), schema = type("c", NULL);
    const double sizes[] = {3, NAN, -1, 5};
    const int8_t indices[] = {3, 0, 1, 3};
    struct ArrowArray elements = ARRAY(4, NULL, sizes);
    struct ArrowArray array = ARRAY(2, NULL, indices);
    schema.dictionary = &numbers;
    array.dictionary = &elements;
    EXPECT_READ(array, &schema, NULL, NULL, 5, 3);
    const sab_sizes_arrow_options zero = reading(SAB_NULLS_ZERO, SAB_TEXT_BYTES);
    array = ARRAY(4, "", indices); /* the sample that has it is null */
    array.dictionary = &elements;
    EXPECT_READ(array, &schema, NULL, &zero, 5, 3, 0, 5);
    array.null_count = 0;
    EXPECT_REFUSED(array, &schema, NULL, &zero, "dictionary[1] = nan: must be a number");
}

static void Dictionary_WithoutAFormat_IsRefused(void) {
    struct ArrowSchema numbers = type(NULL, NULL), schema = type("c", NULL);
    schema.dictionary = &numbers;
    const struct ArrowArray array = ARRAY(0, NULL, NULL);
    EXPECT_REFUSED(array, &schema, NULL, NULL, "schema.format = NULL");
}

static void Columns_WhoseNamesHaveDots_AreFoundByTheLongestName(void) {
    struct ArrowSchema inner = type("i", "c"), outer = type("+s", "a"), dotted = type("+s", "a.b");
    struct ArrowSchema shorter = type("i", "b.d");
    struct ArrowSchema *inners[] = {&inner}, *shorters[] = {&shorter};
    outer.n_children = dotted.n_children = 1;
    outer.children = shorters;
    dotted.children = inners;
    const int32_t first[] = {1, 2}, second[] = {3, 4};
    struct ArrowArray one = ARRAY(2, NULL, first), two = ARRAY(2, NULL, second);
    struct ArrowArray *ones[] = {&one}, *twos[] = {&two};
    struct ArrowArray of_outer = ARRAY(2, NULL), of_dotted = ARRAY(2, NULL);
    of_outer.n_children = of_dotted.n_children = 1;
    of_outer.children = ones;
    of_dotted.children = twos;
    for (int is_swapped = 0; is_swapped < 2; ++is_swapped) {
        struct ArrowSchema table = type("+s", NULL);
        struct ArrowArray array = ARRAY(2, NULL);
        struct ArrowSchema *columns[] = {&outer, &dotted};
        struct ArrowArray *arrays[] = {&of_outer, &of_dotted};
        if (is_swapped) {
            columns[0] = &dotted, columns[1] = &outer;
            arrays[0] = &of_dotted, arrays[1] = &of_outer;
        }
        table.n_children = array.n_children = 2;
        table.children = columns;
        array.children = arrays;
        EXPECT_READ(array, &table, "a.b.c", NULL, 3, 4);
    }
}

static void Nulls_AreRefusedByRowOrCountAsZero(void) {
    const sab_sizes_arrow_options zero = reading(SAB_NULLS_ZERO, SAB_TEXT_BYTES);
    const struct ArrowSchema text = type("u", NULL);
    static uint8_t valid[3];
    static int32_t numbers[20];
    for (int32_t i = 0; i < 20; ++i) numbers[i] = i + 1;
    const struct ArrowSchema int32 = type("i", NULL);
    for (int64_t offset = 0; offset < 12; ++offset)
        for (int64_t null = offset; null < offset + 8; ++null) {
            double expected[8];
            char words[64];
            memset(valid, 255, sizeof valid);
            valid[null / 8] &= (uint8_t)~(1u << (null % 8));
            if (offset > 0) valid[(offset - 1) / 8] &= (uint8_t)~(1u << ((offset - 1) % 8));
            valid[(offset + 8) / 8] &= (uint8_t)~(1u << ((offset + 8) % 8));
            for (int64_t i = 0; i < 8; ++i)
                expected[i] = offset + i == null ? 0 : (double)(offset + i + 1);
            snprintf(words, sizeof words, "the array[%d]: is null", (int)(null - offset));
            struct ArrowArray array = slice(ARRAY(20, valid, numbers), offset, 8);
            EXPECT_REFUSED(array, &int32, NULL, NULL, words);
            expect_read(array, &int32, NULL, &zero, expected, 8, __LINE__);
        }
    memset(valid, 255, sizeof valid);
    EXPECT_READ(slice(ARRAY(20, valid, numbers), 9, 2), &int32, NULL, NULL, 10, 11);
    const uint8_t second[] = {5};
    EXPECT_READ(ARRAY(3, second, offsets32, texts), &text, NULL, &zero, 9, 0, 0);
    struct ArrowArray no_nulls = ARRAY(3, second, offsets32, texts);
    no_nulls.null_count = 0; /* the bitmap says nothing then */
    EXPECT_READ(no_nulls, &text, NULL, NULL, 9, 3, 0);
    const struct ArrowSchema nothing = type("n", NULL);
    struct ArrowArray nulls = ARRAY(2, NULL);
    nulls.n_buffers = 0;
    EXPECT_REFUSED(nulls, &nothing, NULL, NULL, "[0]: is null");
    EXPECT_READ(nulls, &nothing, NULL, &zero, 0, 0);
}

static void Nulls_OfDictionaries_AreNulls(void) {
    const sab_sizes_arrow_options zero = reading(SAB_NULLS_ZERO, SAB_TEXT_BYTES);
    struct ArrowSchema values = type("u", NULL), schema = type("i", NULL);
    const uint8_t without_first[] = {0xFE}, without_second[] = {0xFD};
    struct ArrowArray elements = ARRAY(4, without_first, offsets32, texts);
    const int32_t indices[] = {1, 99, 3, 0}; /* that of a null may be anything */
    struct ArrowArray array = ARRAY(3, without_second, indices);
    schema.dictionary = &values;
    array.dictionary = &elements;
    EXPECT_REFUSED(array, &schema, NULL, NULL, "[1]: is null");
    EXPECT_READ(array, &schema, NULL, &zero, 3, 0, 5);
    array = ARRAY(2, NULL, indices + 2);
    array.dictionary = &elements;
    EXPECT_REFUSED(array, &schema, NULL, NULL, "[1]: is null");
    EXPECT_READ(array, &schema, NULL, &zero, 5, 0);
    EXPECT_READ(slice(array, 0, 1), &schema, NULL, NULL, 5); /* no row has the null */
}

/* Structs: {"id": int32, "audio": {"frames": int32, "text": string}, "audio.rate": int32}. */
struct tree {
    struct ArrowSchema schema, of_id, of_audio, of_rate, of_frames, of_text;
    struct ArrowSchema *columns[3], *of_audio_columns[2];
    struct ArrowArray array, id, audio, rate, frames, text;
    struct ArrowArray *arrays[3], *audio_arrays[2];
};
static const int32_t tree_numbers[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
static const uint8_t odd_rows[] = {0xAA, 0xAA};

static struct ArrowArray struct_array(int64_t length, const void **buffers, int64_t n_children,
                                      struct ArrowArray **children) {
    struct ArrowArray array = array_of(length, 1, buffers);
    array.n_children = n_children;
    array.children = children;
    return array;
}

static void make_tree(struct tree *tree) {
    static const void *numbers[] = {NULL, tree_numbers}, *none[] = {NULL};
    static const void *lengths[] = {NULL, offsets32, NULL};
    memset(tree, 0, sizeof *tree);
    tree->of_id = type("i", "id");
    tree->of_audio = type("+s", "audio");
    tree->of_rate = type("i", "audio.rate");
    tree->of_frames = type("i", "frames");
    tree->of_text = type("u", "text");
    tree->schema = type("+s", "");
    memcpy(tree->columns, (struct ArrowSchema *[]){&tree->of_id, &tree->of_audio, &tree->of_rate},
           sizeof tree->columns);
    memcpy(tree->of_audio_columns, (struct ArrowSchema *[]){&tree->of_frames, &tree->of_text},
           sizeof tree->of_audio_columns);
    tree->schema.n_children = 3;
    tree->schema.children = tree->columns;
    tree->of_audio.n_children = 2;
    tree->of_audio.children = tree->of_audio_columns;
    tree->id = tree->rate = array_of(10, 2, numbers);
    tree->frames = slice(array_of(10, 2, numbers), 1, 9);
    tree->text = array_of(4, 3, lengths);
    memcpy(tree->audio_arrays, (struct ArrowArray *[]){&tree->frames, &tree->text},
           sizeof tree->audio_arrays);
    tree->audio = slice(struct_array(0, none, 2, tree->audio_arrays), 2, 6);
    memcpy(tree->arrays, (struct ArrowArray *[]){&tree->id, &tree->audio, &tree->rate},
           sizeof tree->arrays);
    tree->array = slice(struct_array(0, none, 3, tree->arrays), 3, 2);
}

static void Columns_AreFoundByPathAndOffset(void) {
    struct tree tree;
    make_tree(&tree);
    EXPECT_READ(tree.array, &tree.schema, "id", NULL, 3, 4);
    EXPECT_READ(tree.array, &tree.schema, "audio.rate", NULL, 3, 4);
    /* The offsets of the structs and that of the column itself add up. */
    EXPECT_READ(tree.array, &tree.schema, "audio.frames", NULL, 6, 7);
    EXPECT_REFUSED(tree.array, &tree.schema, "audio.text", NULL,
                   "column \"audio.text\": length = 4: must be at least offset + length of the "
                   "struct around it, 7");
    tree.audio.offset = 0;
    tree.array = slice(tree.array, -2, 3);
    EXPECT_READ(tree.array, &tree.schema, "audio.text", NULL, 3, 0, 5);
    tree.schema.n_children = 1; /* the only column */
    EXPECT_READ(tree.array, &tree.schema, NULL, NULL, 1, 2, 3);
    tree.columns[0] = &tree.of_audio;
    tree.arrays[0] = &tree.audio;
    tree.of_audio.n_children = 1;
    EXPECT_READ(tree.array, &tree.schema, NULL, NULL, 2, 3, 4);
}

static void Columns_ThatDoNotExist_AreListed(void) {
    struct tree tree;
    make_tree(&tree);
    const struct {
        const char *column, *words;
    } bad[] = {
        {NULL, "column = NULL: must be one of \"id\", \"audio\", \"audio.rate\""},
        {"Id", "column = \"Id\": must be one of \"id\", \"audio\", \"audio.rate\""},
        {"", "column = \"\": must be one of \"id\", \"audio\", \"audio.rate\""},
        {"id.frames", "column = \"id.frames\": must be one of \"id\", \"audio\", \"audio.rate\""},
        {"audio.pitch", "\"audio.pitch\": must be one of \"audio.frames\", \"audio.text\""},
        {"audio", "\"audio\": is a struct, must be one of \"audio.frames\", \"audio.text\""}};
    for (size_t i = 0; i < COUNT(bad); ++i)
        EXPECT_REFUSED(tree.array, &tree.schema, bad[i].column, NULL, bad[i].words);
    EXPECT_REFUSED(tree.id, &tree.of_id, "id", NULL,
                   "column = \"id\": must not be given, since the array is not a struct");
    tree.of_rate.name = "id";
    EXPECT_REFUSED(tree.array, &tree.schema, "id", NULL,
                   "column = \"id\": two columns have this name");
    tree.of_rate.name = NULL;
    EXPECT_REFUSED(tree.array, &tree.schema, NULL, NULL, "\"id\", \"audio\", \"\"");
    EXPECT_READ(tree.array, &tree.schema, "", NULL, 3, 4);
    tree.schema.n_children = 0;
    EXPECT_REFUSED(tree.array, &tree.schema, NULL, NULL, "must be one of none");
    struct ArrowSchema *many[50];
    for (size_t i = 0; i < COUNT(many); ++i) many[i] = &tree.of_id;
    tree.schema.n_children = 50;
    tree.schema.children = many;
    EXPECT_REFUSED(tree.array, &tree.schema, NULL, NULL, "\"id\" and 10 more");
}

static void Nulls_OfStructs_AreNullsOfTheirColumns(void) {
    const sab_sizes_arrow_options zero = reading(SAB_NULLS_ZERO, SAB_TEXT_BYTES);
    struct tree tree;
    make_tree(&tree);
    const void *const odd[] = {odd_rows}, *const numbers[] = {"\xDF\xFF", tree_numbers};
    tree.audio.buffers = (const void **)odd;
    tree.audio.null_count = -1; /* rows 3 and 4 of the table are rows 5 and 6 of this struct */
    EXPECT_REFUSED(tree.array, &tree.schema, "audio.frames", NULL,
                   "column \"audio.frames\"[1]: is null");
    EXPECT_READ(tree.array, &tree.schema, "audio.frames", &zero, 6, 0);
    EXPECT_READ(tree.array, &tree.schema, "id", NULL, 3, 4);
    tree.frames.buffers = (const void **)numbers;
    tree.frames.offset = 0; /* its row 5 is null, too */
    tree.frames.null_count = 1;
    EXPECT_READ(tree.array, &tree.schema, "audio.frames", &zero, 0, 0);
}

static void Arrays_ThatAreDamaged_AreRefused(void) {
    const struct ArrowSchema number = type("i", NULL), text = type("u", NULL);
    const struct ArrowSchema large = type("+L", NULL), view = type("+vl", NULL);
    const struct ArrowArray good = ARRAY(4, NULL, offsets32);
    struct ArrowArray bad = good;
#define REFUSE_FIELD(field, value, words)                \
    do {                                                 \
        bad = good;                                      \
        bad.field = value;                               \
        EXPECT_REFUSED(bad, &number, NULL, NULL, words); \
    } while (0)
    REFUSE_FIELD(release, NULL, "the array was released already");
    REFUSE_FIELD(length, -1, "length = -1: must be from 0 to 2^48");
    REFUSE_FIELD(length, INT64_C(1) << 33, "length = 8589934592: must be at most 4294967295");
    REFUSE_FIELD(length, INT64_MAX, "must be from 0 to 2^48");
    REFUSE_FIELD(offset, -1, "offset = -1: must be from 0 to 2^48");
    REFUSE_FIELD(offset, INT64_MAX, "must be from 0 to 2^48");
    REFUSE_FIELD(null_count, -2, "null_count = -2: must be at least -1");
    REFUSE_FIELD(n_buffers, -1, "n_buffers = -1: must not be negative");
    REFUSE_FIELD(n_buffers, 1, "n_buffers = 1: must be at least 2");
    REFUSE_FIELD(buffers, NULL, "buffers = NULL: must be given");
    EXPECT_REFUSED(ARRAY(4, NULL, NULL), &number, NULL, NULL, "buffers[1] = NULL: must be given");
    const int32_t falling[] = {0, 9, 8, 12}, negative[] = {-1, 0, 1}, sizes[] = {1, -2};
    const int64_t falling64[] = {0, 9, INT64_MIN}, negative64[] = {-5, 0};
    EXPECT_REFUSED(ARRAY(3, NULL, falling, texts), &text, NULL, NULL,
                   "offsets[2] = 8: must be at least offsets[1] = 9");
    EXPECT_READ(slice(ARRAY(3, NULL, falling, texts), 2, 1), &text, NULL, NULL, 4);
    EXPECT_REFUSED(ARRAY(2, NULL, negative, texts), &text, NULL, NULL,
                   "offsets[0] = -1: must not be negative");
    EXPECT_REFUSED(ARRAY(2, NULL, falling64), &large, NULL, NULL,
                   "offsets[2] = -9223372036854775808: must be at least offsets[1] = 9");
    EXPECT_REFUSED(ARRAY(1, NULL, negative64), &large, NULL, NULL, "offsets[0] = -5");
    struct ArrowArray negative_sizes = ARRAY(2, NULL, offsets32, sizes);
    sab_sizes *made = NULL;
    double value = 0;
    EXPECT_OK(sab_sizes_arrow_new(&negative_sizes, &view, NULL, NULL, &made));
    EXPECT_FAILS(sab_sizes_get(made, 1, 1, &value), SAB_E_ARGUMENT, "sizes[1] = -2");
    sab_sizes_free(made);
    struct tree tree;
    make_tree(&tree);
    tree.array.n_children = 1;
    EXPECT_REFUSED(tree.array, &tree.schema, "audio.frames", NULL,
                   "n_children = 1: must be that of the schema");
    tree.array.n_children = 3;
    tree.audio_arrays[0] = NULL;
    EXPECT_REFUSED(tree.array, &tree.schema, "audio.frames", NULL, "the array is missing");
}

static void Types_WithoutASize_AreRefused(void) {
    const char *const formats[] = {"b", "tdD", "+us:0", "d:3,1", "+m", "+r", "", "ii"};
    const struct ArrowArray array = ARRAY(2, NULL, offsets32, texts);
    struct ArrowSchema schema = type("i", NULL);
    for (size_t i = 0; i < COUNT(formats); ++i) {
        char words[64];
        schema.format = formats[i];
        snprintf(words, sizeof words, "Arrow format \"%s\" has no size", formats[i]);
        EXPECT_REFUSED(array, &schema, NULL, NULL, words);
    }
    const char *const sizes[] = {"w:", "w:x", "w:-1", "w:3x", "+w:99999999999"};
    for (size_t i = 0; i < COUNT(sizes); ++i) {
        schema.format = sizes[i];
        EXPECT_REFUSED(array, &schema, NULL, NULL, "the size must be a whole number");
    }
    schema.format = NULL;
    EXPECT_REFUSED(array, &schema, NULL, NULL, "schema.format = NULL");
    schema = type("+s", NULL);
    schema.n_children = -1;
    EXPECT_REFUSED(array, &schema, NULL, NULL, "schema.n_children = -1");
    schema.n_children = 1;
    EXPECT_REFUSED(array, &schema, NULL, NULL, "schema.children = NULL");
    schema.children = (struct ArrowSchema *[]){NULL};
    EXPECT_REFUSED(array, &schema, NULL, NULL, "schema = NULL");
    schema.release = NULL;
    EXPECT_REFUSED(array, &schema, NULL, NULL, "schema: was released already");
}

static void Words_OfTexts_AreCounted(void) {
    const sab_sizes_arrow_options words = reading(SAB_NULLS_REFUSE, SAB_TEXT_WORDS);
    const sab_sizes_arrow_options zero = reading(SAB_NULLS_ZERO, SAB_TEXT_WORDS);
    const char *const text = "two words a\tb\n c \xC3\xA4 \v\f\r";
    const int32_t ends32[] = {0, 9, 9, 17, 23};
    const int64_t ends64[] = {0, 9, 9, 17, 23};
    const struct ArrowSchema string = type("u", NULL), large = type("U", NULL);
    const struct ArrowSchema binary = type("z", NULL), number = type("i", NULL);
    EXPECT_READ(ARRAY(4, NULL, ends32, text), &string, NULL, &words, 2, 0, 3, 1);
    EXPECT_READ(slice(ARRAY(4, NULL, ends64, text), 2, 2), &large, NULL, &words, 3, 1);
    EXPECT_READ(ARRAY(4, "\xFB", ends32, text), &string, NULL, &zero, 2, 0, 0, 1);
    EXPECT_READ(ARRAY(3, NULL, ends32), &number, NULL, &words, 0, 9, 9);
    EXPECT_REFUSED(ARRAY(4, NULL, ends32, text), &binary, NULL, &words,
                   "binary values have no words");
    EXPECT_REFUSED(ARRAY(4, NULL, ends32, NULL), &string, NULL, &words, "buffers[2] = NULL");
    struct ArrowSchema indices = type("i", NULL);
    struct ArrowArray elements = ARRAY(4, NULL, ends32, text);
    const int32_t places[] = {2, 0};
    struct ArrowArray array = ARRAY(2, NULL, places);
    indices.dictionary = (struct ArrowSchema *)&string;
    array.dictionary = &elements;
    EXPECT_READ(array, &indices, NULL, &words, 3, 2);
}

static void Words_OfViews_AreReadInsideOfTheirBuffers(void) {
    const sab_sizes_arrow_options words = reading(SAB_NULLS_REFUSE, SAB_TEXT_WORDS);
    const sab_sizes_arrow_options zero = reading(SAB_NULLS_ZERO, SAB_TEXT_WORDS);
    const struct ArrowSchema schema = type("vu", NULL);
    const char *const text = "..one two three four";
    const int64_t sizes[] = {20};
    struct {
        int32_t size;
        union {
            char text[12];
            int32_t at[3]; /* first characters, buffer, offset */
        };
    } views[2] = {{5, {.text = "a b c"}}, {18, {.at = {0, 0, 2}}}};
    EXPECT_READ(ARRAY(2, NULL, views, text, sizes), &schema, NULL, &words, 3, 4);
    const struct {
        int32_t size, buffer, offset;
    } bad[] = {{18, 1, 2}, {18, -1, 2}, {18, 0, -1}, {18, 0, 3}, {INT32_MAX, 0, INT32_MAX}};
    for (size_t i = 0; i < COUNT(bad); ++i) {
        views[1].size = bad[i].size;
        views[1].at[1] = bad[i].buffer;
        views[1].at[2] = bad[i].offset;
        EXPECT_REFUSED(ARRAY(2, NULL, views, text, sizes), &schema, NULL, &words,
                       "the array[1]: the view must lie in one of the array's buffers");
        EXPECT_READ(ARRAY(2, "\x1", views, text, sizes), &schema, NULL, &zero, 3, 0);
    }
    views[1].size = -1;
    EXPECT_REFUSED(ARRAY(2, NULL, views, text, sizes), &schema, NULL, &words,
                   "[1]: length = -1: must not be negative");
}

static void Texts_ThatAreNumbers_AreRefusedOrRead(void) {
    const sab_sizes_arrow_options values = reading(SAB_NULLS_ZERO, SAB_TEXT_VALUE);
    const sab_sizes_arrow_options bytes = reading(SAB_NULLS_REFUSE, SAB_TEXT_ALL_BYTES);
    const sab_sizes_arrow_options zero = reading(SAB_NULLS_ZERO, SAB_TEXT_BYTES);
    const char *const text = "3.25 7 1e3x";
    const int32_t ends[] = {0, 4, 6, 6, 10, 11};
    const struct ArrowSchema string = type("u", NULL), binary = type("z", NULL);
    const char *const rule = "all texts of the array are numbers, such as \"3.25\": SAB_TEXT_VALUE";
    EXPECT_REFUSED(ARRAY(2, NULL, ends, text), &string, NULL, NULL, rule);
    EXPECT_REFUSED(ARRAY(4, NULL, ends, text), &binary, NULL, NULL, rule); /* one is empty */
    EXPECT_REFUSED(ARRAY(3, "\xFB", ends, text), &string, NULL, &zero, rule);
    EXPECT_READ(ARRAY(5, NULL, ends, text), &string, NULL, NULL, 4, 2, 0, 4, 1);
    EXPECT_READ(ARRAY(2, NULL, ends, text), &string, NULL, &bytes, 4, 2);
    EXPECT_READ(ARRAY(4, "\xFB", ends, text), &string, NULL, &values, 3.25, 7, 0, 1000);
    EXPECT_READ(ARRAY(2, NULL, ends, text), &binary, NULL, &values, 3.25, 7);
    EXPECT_REFUSED(ARRAY(3, NULL, ends, text), &string, NULL, &values, "[2] = \"\": must be a n");
    EXPECT_REFUSED(slice(ARRAY(5, NULL, ends, text), 4, 1), &string, NULL, &values,
                   "[0] = \"x\": must be a number from 0 to 2^53");
    const int64_t pairs[] = {4, 4, 4};
    const struct ArrowSchema number = type("l", NULL);
    EXPECT_READ(ARRAY(3, NULL, pairs), &number, NULL, &values, 4, 4, 4);
}

static void Lists_OfASingleList_AreRefused(void) {
    const int32_t outer[] = {0, 1, 2, 4}, inner[] = {0, 4, 6, 7, 9};
    struct ArrowSchema list = type("+l", NULL), item = type("+l", "item"), leaf = type("i", "item");
    struct ArrowSchema *const items[] = {&item}, *const leaves[] = {&leaf};
    list.n_children = item.n_children = 1;
    list.children = (struct ArrowSchema **)items;
    item.children = (struct ArrowSchema **)leaves;
    EXPECT_REFUSED(ARRAY(2, NULL, outer), &list, NULL, NULL,
                   "the array: each list holds a single list, of the shape (1, length)");
    EXPECT_READ(ARRAY(3, NULL, outer), &list, NULL, NULL, 1, 1, 2);
    EXPECT_READ(ARRAY(4, NULL, inner), &item, NULL, NULL, 4, 2, 1, 2);
}

static void Arguments_ThatAreBad_AreNamed(void) {
    struct ArrowArray array = ARRAY(4, NULL, offsets32);
    const struct ArrowSchema schema = type("i", NULL);
    sab_sizes *sizes = NULL;
    EXPECT_FAILS(sab_sizes_arrow_new(NULL, &schema, NULL, NULL, &sizes), SAB_E_ARGUMENT,
                 "array = NULL");
    EXPECT_FAILS(sab_sizes_arrow_new(&array, NULL, NULL, NULL, &sizes), SAB_E_ARGUMENT,
                 "schema = NULL");
    EXPECT_FAILS(sab_sizes_arrow_new(&array, &schema, NULL, NULL, NULL), SAB_E_ARGUMENT,
                 "sizes = NULL");
    EXPECT_FAILS(sab_sizes_arrow_stream_new(NULL, NULL, NULL, &sizes), SAB_E_ARGUMENT,
                 "stream = NULL");
    sab_sizes_arrow_options options = reading(2, 0);
    EXPECT_REFUSED(array, &schema, NULL, &options, "options.nulls = 2: must be");
    options = reading(0, -1);
    EXPECT_REFUSED(array, &schema, NULL, &options, "options.text_unit = -1: must be");
    options = reading(0, 0);
    options.struct_size = 4;
    EXPECT_REFUSED(array, &schema, NULL, &options, "options.struct_size = 4");
}

/* A stream of arrays of strings: the lengths in `of_arrays`, -1 for its end. */
struct source {
    const int64_t *of_arrays;
    int fails_at; /* of the calls of get_next; -1: never; -2: get_schema fails */
    int calls;
    const char *format;
    const uint8_t *validity;
};

static int schema_of_source(struct ArrowArrayStream *stream, struct ArrowSchema *out) {
    const struct source *const source = stream->private_data;
    if (source->fails_at == -2) return 5;
    *out = type(source->format, NULL);
    return 0;
}
static int next_of_source(struct ArrowArrayStream *stream, struct ArrowArray *out) {
    static const void *buffers[3];
    struct source *const source = stream->private_data;
    const int64_t length = source->of_arrays[source->calls];
    memset(out, 0, sizeof *out);
    if (source->calls == source->fails_at) return 22;
    if (length < 0) return 0;
    ++source->calls;
    buffers[0] = source->validity;
    buffers[1] = offsets32;
    buffers[2] = texts;
    *out = array_of(length, 3, buffers);
    return 0;
}
static const char *error_of_source(struct ArrowArrayStream *stream) {
    (void)stream;
    return "the disk is gone";
}
static void release_source(struct ArrowArrayStream *stream) {
    ++released_streams;
    stream->release = NULL;
}
static struct ArrowArrayStream stream_of(struct source *source) {
    released_arrays = released_streams = 0;
    return (struct ArrowArrayStream){schema_of_source, next_of_source, error_of_source,
                                     release_source, source};
}

static void Stream_Arrays_FollowOneAnother(void) {
    struct source source = {(const int64_t[]){2, 0, 4, 1, -1}, -1, 0, "u", NULL};
    struct ArrowArrayStream stream = stream_of(&source);
    sab_sizes *sizes = NULL, *joined = NULL;
    EXPECT_OK(sab_sizes_arrow_stream_new(&stream, NULL, NULL, &sizes));
    EXPECT(stream.release == NULL && released_streams == 0);
    EXPECT(strcmp(info_of_sizes(sizes).description, "Arrow string: 7 texts") == 0);
    EXPECT_OK(sab_sizes_join_new((const sab_sizes *const[]){sizes, sizes}, 2, &joined));
    sab_sizes_free(sizes);
    EXPECT(released_arrays == 1 && released_streams == 0); /* the empty one */
    const double expected[] = {9, 3, 9, 3, 0, 5, 9};
    for (size_t i = 0; i < 14; ++i) {
        double value = -1;
        EXPECT_OK(sab_sizes_get(joined, i, 1, &value));
        EXPECT(value == expected[i % 7]);
    }
    sab_sizes_free(joined);
    EXPECT(released_arrays == 4 && released_streams == 1);
}

static void Stream_WithoutArrays_HasNoSizes(void) {
    struct source source = {(const int64_t[]){-1}, -1, 0, "u", NULL};
    struct ArrowArrayStream stream = stream_of(&source);
    const sab_sizes_arrow_options options = SAB_SIZES_ARROW_OPTIONS_INIT;
    sab_sizes *sizes = NULL;
    EXPECT_OK(sab_sizes_arrow_stream_new(&stream, NULL, &options, &sizes));
    EXPECT(sab_sizes_count(sizes) == 0 && stream.release == NULL);
    sab_sizes_free(sizes);
    EXPECT(released_streams == 1);
}

static void Stream_ThatFails_StaysTheCallers(void) {
    const int64_t lengths_of_arrays[] = {2, 4, -1};
    const struct {
        int fails_at;
        const char *format;
        const uint8_t *validity;
        sab_status status;
        const char *words;
        int code, arrays;
    } cases[] = {{-2, "u", NULL, SAB_E_CALLBACK, "failed with code 5: the disk is gone", 5, 0},
                 {1, "u", NULL, SAB_E_CALLBACK, "failed with code 22: the disk is gone", 22, 1},
                 {-1, "tdD", NULL, SAB_E_ARGUMENT, "has no size", 0, 1},
                 {-1, "u", (const uint8_t *)"\xF7", SAB_E_ARGUMENT, "the array[5]: is null", 0, 2}};
    for (size_t i = 0; i < COUNT(cases); ++i) {
        struct source source = {lengths_of_arrays, cases[i].fails_at, 0, cases[i].format,
                                cases[i].validity};
        struct ArrowArrayStream stream = stream_of(&source);
        sab_sizes *sizes = NULL;
        EXPECT_FAILS(sab_sizes_arrow_stream_new(&stream, NULL, NULL, &sizes), cases[i].status,
                     cases[i].words);
        EXPECT(sab_last_error_code() == cases[i].code);
        EXPECT(stream.release != NULL && released_streams == 0);
        EXPECT(released_arrays == cases[i].arrays);
    }
    struct source source = {lengths_of_arrays, 0, 0, "u", NULL};
    struct ArrowArrayStream stream = stream_of(&source);
    sab_sizes *sizes = NULL;
    stream.get_last_error = NULL;
    EXPECT_FAILS(sab_sizes_arrow_stream_new(&stream, NULL, NULL, &sizes), SAB_E_CALLBACK,
                 "the Arrow stream failed with code 22");
    stream.get_next = NULL;
    EXPECT_FAILS(sab_sizes_arrow_stream_new(&stream, NULL, NULL, &sizes), SAB_E_ARGUMENT,
                 "stream.get_next = NULL");
    stream.get_schema = NULL;
    EXPECT_FAILS(sab_sizes_arrow_stream_new(&stream, NULL, NULL, &sizes), SAB_E_ARGUMENT,
                 "stream.get_schema = NULL");
    stream.release = NULL;
    EXPECT_FAILS(sab_sizes_arrow_stream_new(&stream, NULL, NULL, &sizes), SAB_E_ARGUMENT,
                 "stream: was released already");
}

static void Descriptions_NameTypeAndColumn(void) {
    struct tree tree;
    make_tree(&tree);
    sab_sizes *sizes = NULL;
    EXPECT_OK(sab_sizes_arrow_new(&tree.array, &tree.schema, "audio.frames", NULL, &sizes));
    EXPECT(strcmp(info_of_sizes(sizes).description,
                  "Arrow int32 column \"audio.frames\": 2 sizes") == 0);
    sab_sizes_free(sizes);
    const sab_sizes_arrow_options words = reading(SAB_NULLS_REFUSE, SAB_TEXT_WORDS);
    struct ArrowSchema text = type("u", NULL), indices = type("i", NULL);
    struct ArrowArray array = ARRAY(4, NULL, offsets32, texts);
    EXPECT_OK(sab_sizes_arrow_new(&array, &text, NULL, &words, &sizes));
    EXPECT(strcmp(info_of_sizes(sizes).description, "Arrow string: words of 4 texts") == 0);
    sab_sizes_free(sizes);
    struct ArrowArray elements = ARRAY(4, NULL, offsets32, texts);
    array = ARRAY(1, NULL, offsets32);
    array.dictionary = &elements;
    indices.dictionary = &text;
    EXPECT_OK(sab_sizes_arrow_new(&array, &indices, NULL, NULL, &sizes));
    EXPECT(strcmp(info_of_sizes(sizes).description, "Arrow dictionary of string: 1 text") == 0);
    sab_sizes_free(sizes);
}

int main(void) {
    RUN(Numbers_OfEveryType_AreSizes);
    RUN(Sampler_OverNumbersInPlace_KeepsTheArray);
    RUN(Float16_ThatIsNoSize_IsRefused);
    RUN(Lengths_OfEveryLayout_AreSizes);
    RUN(Array_OfNoSamples_NeedsNoBuffers);
    RUN(Dictionaries_AreReadByTheirIndices);
    RUN(Dictionaries_ThatAreDamaged_AreRefused);
    RUN(Dictionaries_WithABadElementThatNoSampleHas_AreRead);
    RUN(Dictionary_WithoutAFormat_IsRefused);
    RUN(Columns_WhoseNamesHaveDots_AreFoundByTheLongestName);
    RUN(Nulls_AreRefusedByRowOrCountAsZero);
    RUN(Nulls_OfDictionaries_AreNulls);
    RUN(Columns_AreFoundByPathAndOffset);
    RUN(Columns_ThatDoNotExist_AreListed);
    RUN(Nulls_OfStructs_AreNullsOfTheirColumns);
    RUN(Arrays_ThatAreDamaged_AreRefused);
    RUN(Types_WithoutASize_AreRefused);
    RUN(Words_OfTexts_AreCounted);
    RUN(Words_OfViews_AreReadInsideOfTheirBuffers);
    RUN(Texts_ThatAreNumbers_AreRefusedOrRead);
    RUN(Lists_OfASingleList_AreRefused);
    RUN(Arguments_ThatAreBad_AreNamed);
    RUN(Stream_Arrays_FollowOneAnother);
    RUN(Stream_WithoutArrays_HasNoSizes);
    RUN(Stream_ThatFails_StaysTheCallers);
    RUN(Descriptions_NameTypeAndColumn);
    return finish();
}
