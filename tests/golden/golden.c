/* Checks a file of golden vectors against the library, or writes it: golden [--write] FILE [KIND].
 * The format is in README.md. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sab.h>

#include "../c/constructors.h"
#include "../c/one.h"

#define MAX_WORDS 4096
#define MAX_SOURCES 16
#define MAX_CHANGES 4

static void die(const char* what, const char* why) {
    fprintf(stderr, "golden: %s: %s\n", what, why);
    exit(2);
}

static void check(sab_status status, const char* what) {
    if (status < 0) die(what, sab_last_error_message());
}

static double number(const char* word) {
    char* end;
    double value = strtod(word, &end);
    if (*end != '\0') die(word, "is not a number");
    return value;
}

static int32_t one_of(const char* word, const char* const* names) {
    for (int32_t i = 0; names[i] != NULL; ++i)
        if (strcmp(word, names[i]) == 0) return i;
    die(word, "is not a known word");
    return 0;
}

/* Budgets. Those with weights limit the padded total by these, the others all have one cost. */
struct limits {
    sab_budget budgets[SAB_MAX_BUDGETS];
    double weights[SAB_MAX_BUDGETS][SAB_MAX_COLUMNS];
    size_t weight_counts[SAB_MAX_BUDGETS], count;
    int32_t cost; /* of `costs` */
};

/* What a case has said so far. */
struct golden_case {
    char name[64];
    uint32_t* sizes[SAB_MAX_COLUMNS]; /* of each column */
    sab_sizes* column_handles[SAB_MAX_COLUMNS];
    size_t size_count, columns;
    sab_plan_options plan;
    struct limits plan_limits;
    double boundaries[64], length_multiples[SAB_MAX_COLUMNS];
    int64_t ids[MAX_WORDS];
    size_t id_shapes[64];
    double rounds[SAB_MAX_COLUMNS], row_rounds[SAB_MAX_COLUMNS]; /* of a packing, or balanced */
    uint64_t batch_size, capacities[SAB_MAX_COLUMNS];
    struct inputs inputs; /* of the sampler */
    sab_mixture_options mixture;
    int64_t sources[MAX_SOURCES]; /* samples of each; none: the sizes are no mixture */
    size_t source_count;
    double repeats[MAX_SOURCES], schedule_repeats[MAX_SOURCES * MAX_CHANGES];
    uint64_t schedule_epochs[MAX_CHANGES];
    struct limits balanced_limits;
    int balances_squares;
    int has_rounding; /* a batch is followed by its padded length */
    int has_steps;    /* the option micro_batches is set, so a batch is followed by its step */
    char kind[32];
    sab_sizes* sab_sizes_handle;
    sab_plan* plan_handle;
    sab_sampler* sampler;
};

static void begin_case(struct golden_case* c, const char* name) {
    memset(c, 0, sizeof *c);
    snprintf(c->name, sizeof c->name, "%s", name);
    c->plan = (sab_plan_options)SAB_PLAN_OPTIONS_INIT;
    c->mixture = (sab_mixture_options)SAB_MIXTURE_OPTIONS_INIT;
    c->inputs = default_inputs();
    c->inputs.balanced = (sab_balanced_options)SAB_BALANCED_OPTIONS_INIT;
    c->inputs.plan_options = &c->plan;
}

static void end_case(struct golden_case* c) {
    sab_sampler_free(c->sampler);
    sab_plan_free(c->plan_handle);
    if (c->sab_sizes_handle != c->column_handles[0]) sab_sizes_free(c->sab_sizes_handle);
    for (size_t j = 0; j < c->columns; ++j) {
        sab_sizes_free(c->column_handles[j]);
        free(c->sizes[j]);
    }
    c->sampler = NULL;
}

/* The sizes, or those of another column. */
static void set_sizes(struct golden_case* c, char** words, size_t count) {
    const int by_rule = strcmp(words[0], "sizes_rule") == 0;
    const size_t column = c->columns++;
    c->size_count = by_rule ? (size_t)number(words[1]) : count - 1;
    uint32_t* const sizes = malloc(c->size_count * sizeof *sizes);
    if (sizes == NULL || column == SAB_MAX_COLUMNS) die(c->name, "no memory");
    uint64_t x = 1;
    for (size_t i = 0; i < c->size_count; ++i) {
        x = x * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        sizes[i] = by_rule ? (uint32_t)(1 + (x >> 33) % (uint64_t)number(words[2]))
                           : (uint32_t)number(words[i + 1]);
    }
    c->sizes[column] = sizes;
    check(sab_sizes_new(sizes, c->size_count, SAB_UINT32, NULL, &c->column_handles[column]),
          c->name);
}

static const char* const costs[] = {"padded", "quadratic", "product", NULL};

/* Reads "budget LIMIT WEIGHT...". */
static void add_budget(struct limits* limits, char** words, size_t count) {
    const size_t index = limits->count++;
    limits->budgets[index].limit = number(words[2]);
    limits->weight_counts[index] = count - 3;
    for (size_t j = 3; j < count; ++j) limits->weights[index][j - 3] = number(words[j]);
}

/* The cost of this name, NULL for the default. */
static sab_cost* named_cost(struct golden_case* c, int32_t name) {
    uint32_t powers[SAB_MAX_COLUMNS] = {2};
    sab_cost_term term = {1, 1, 1, powers, {0}};
    sab_cost* cost = NULL;
    if (name == 0) return NULL;
    if (name == 2) {
        term.column_count = (uint32_t)c->columns;
        for (size_t j = 0; j < c->columns; ++j) powers[j] = 1;
    }
    check(sab_cost_terms_new(&term, 1, &cost), c->name);
    return cost;
}

/* Makes the costs of budgets, which free_costs() frees. */
static void make_costs(struct golden_case* c, struct limits* limits) {
    for (size_t i = 0; i < limits->count; ++i) {
        sab_cost* cost = NULL;
        if (limits->weight_counts[i] > 0)
            check(sab_cost_padded_new(limits->weights[i], limits->weight_counts[i], &cost),
                  c->name);
        else
            cost = named_cost(c, limits->cost);
        limits->budgets[i].cost = cost;
    }
}

static void free_costs(struct limits* limits) {
    for (size_t i = 0; i < limits->count; ++i) sab_cost_free((sab_cost*)limits->budgets[i].cost);
}

/* Reads the numbers after the name of an option. */
static size_t set_numbers(double* numbers, char** words, size_t count) {
    for (size_t i = 2; i < count; ++i) numbers[i - 2] = number(words[i]);
    return count - 2;
}

static void set_plan(struct golden_case* c, char** words, size_t count) {
    static const char* const buckets[] = {"auto", "boundaries", "optimal", NULL};
    static const char* const tails[] = {"keep", "drop", "wrap", NULL};
    static const char* const oversize[] = {"error", "skip", "single", NULL};
    static const char* const shapes[] = {"any", "auto", NULL};
    const char *key = words[1], *value = words[2];
    if (strcmp(key, "budget") == 0)
        add_budget(&c->plan_limits, words, count);
    else if (strcmp(key, "batch_size") == 0) {
        c->batch_size = (uint64_t)number(value);
        c->plan.batch_sizes = &c->batch_size;
        c->plan.batch_size_count = 1;
    } else if (strcmp(key, "cost") == 0)
        c->plan_limits.cost = one_of(value, costs);
    else if (strcmp(key, "length_multiples") == 0) {
        c->plan.length_multiples = c->length_multiples;
        c->plan.length_multiple_count = set_numbers(c->length_multiples, words, count);
    } else if (strcmp(key, "separate_by") == 0) {
        for (size_t i = 2; i < count; ++i) c->ids[i - 2] = strtoll(words[i], NULL, 10);
        c->plan.separate_by = c->ids;
        c->plan.separate_by_count = count - 2;
    } else if (strcmp(key, "id_shapes") == 0) {
        for (size_t i = 2; i < count; ++i) c->id_shapes[i - 2] = (size_t)number(words[i]);
        c->plan.max_shapes = c->id_shapes;
        c->plan.max_shape_count = count - 2;
    } else if (strcmp(key, "tail") == 0)
        c->plan.tail = one_of(value, tails);
    else if (strcmp(key, "oversize") == 0)
        c->plan.oversize = one_of(value, oversize);
    else if (strcmp(key, "length_multiple") == 0)
        c->plan.length_multiples = one_number(number(value)), c->plan.length_multiple_count = 1;
    else if (strcmp(key, "batch_size_multiple") == 0)
        c->plan.batch_size_multiple = (uint64_t)number(value);
    else if (strcmp(key, "max_batch_size") == 0)
        c->plan.max_batch_size = (uint64_t)number(value);
    else if (strcmp(key, "shapes") == 0)
        c->plan.shapes = one_of(value, shapes);
    else if (strcmp(key, "max_shapes") == 0)
        c->plan.max_shapes = one_count((size_t)number(value)), c->plan.max_shape_count = 1;
    else if (strcmp(key, "boundaries") == 0) {
        c->plan.bucket_rule = SAB_BUCKETS_BOUNDARIES;
        c->plan.boundaries = c->boundaries;
        c->plan.boundary_count = set_numbers(c->boundaries, words, count) / c->columns;
    } else if (strcmp(key, "buckets") == 0) {
        c->plan.bucket_rule = one_of(value, buckets);
        if (c->plan.bucket_rule == SAB_BUCKETS_OPTIMAL)
            c->plan.bucket_count = (size_t)number(words[3]);
    } else
        die(key, "is not a known option of a plan");
}

static void make_plan(struct golden_case* c) {
    check(sab_plan_new(c->sab_sizes_handle, &c->plan, &c->plan_handle), c->name);
}

static void set_mixture(struct golden_case* c, char** words, size_t count) {
    const char* const key = words[1];
    if (strcmp(key, "sources") == 0) {
        c->source_count = count - 2;
        for (size_t i = 2; i < count; ++i) c->sources[i - 2] = strtoll(words[i], NULL, 10);
    } else if (strcmp(key, "repeats") == 0) {
        c->mixture.repeat_count = set_numbers(c->repeats, words, count);
        c->mixture.repeats = c->repeats;
    } else if (strcmp(key, "schedule") == 0) {
        const size_t change = c->mixture.schedule_count++;
        c->schedule_epochs[change] = strtoull(words[2], NULL, 10);
        set_numbers(c->schedule_repeats + change * (count - 3), words + 1, count - 1);
        c->mixture.schedule_epochs = c->schedule_epochs;
        c->mixture.schedule_repeats = c->schedule_repeats;
    } else if (strcmp(key, "seed") == 0)
        c->mixture.seed = strtoull(words[2], NULL, 10);
    else
        die(key, "is not a known option of a mixture");
}

/* Makes a mixture of the sizes. */
static void make_mixture(struct golden_case* c) {
    sab_sizes* const sizes = c->sab_sizes_handle;
    int64_t* const ids = malloc(c->size_count * sizeof *ids);
    if (ids == NULL) die(c->name, "no memory");
    size_t source = 0;
    int64_t left = c->sources[0];
    for (size_t i = 0; i < c->size_count; ++i, --left) {
        if (left == 0) left = c->sources[++source];
        ids[i] = (int64_t)source;
    }
    c->mixture.ids = ids, c->mixture.id_count = c->size_count;
    const sab_sizes* const only = sizes;
    check(sab_mixture_new(&only, 1, &c->mixture, &c->sab_sizes_handle), c->name);
    free(ids);
    if (c->columns > 1) sab_sizes_free(sizes);
}

/* Reads "length_multiple 16", or several of the columns, or those of rows; 0: it is neither. */
static int set_rounding(struct golden_case* c, char** words, size_t count, const double** lengths,
                        size_t* length_count, const double** rows, size_t* row_count) {
    const int of_rows = strncmp(words[1], "row_multiple", 12) == 0;
    if (!of_rows && strncmp(words[1], "length_multiple", 15) != 0) return 0;
    double* const numbers = of_rows ? c->row_rounds : c->rounds;
    *(of_rows ? row_count : length_count) = set_numbers(numbers, words, count);
    *(of_rows ? rows : lengths) = numbers;
    c->has_rounding = 1;
    return 1;
}

static void set_pack(struct golden_case* c, char** words, size_t count) {
    static const char* const methods[] = {"shuffled", "best_fit", "histogram", "concat", NULL};
    static const char* const oversize[] = {"error", "skip", NULL};
    const char *key = words[1], *value = words[2];
    sab_packed_options* const packed = &c->inputs.packed;
    if (set_rounding(c, words, count, &packed->length_multiples, &packed->length_multiple_count,
                     &packed->row_multiples, &packed->row_multiple_count))
        return;
    if (strcmp(key, "method") == 0)
        c->inputs.packed.method = one_of(value, methods);
    else if (strcmp(key, "capacity") == 0)
        c->inputs.packed.capacities = one_count((uint64_t)number(value)),
        c->inputs.packed.capacity_count = 1;
    else if (strcmp(key, "max_sequences") == 0)
        c->inputs.packed.max_sequences = (uint64_t)number(value);
    else if (strcmp(key, "split") == 0)
        c->inputs.packed.split = (int32_t)number(value);
    else if (strcmp(key, "oversize") == 0)
        c->inputs.packed.oversize = one_of(value, oversize);
    else if (strcmp(key, "window") == 0)
        c->inputs.packed.window = (uint64_t)number(value);
    else if (strcmp(key, "tries") == 0)
        c->inputs.packed.tries = (uint64_t)number(value);
    else if (strcmp(key, "capacities") == 0) {
        for (size_t i = 2; i < count; ++i) c->capacities[i - 2] = (uint64_t)number(words[i]);
        c->inputs.packed.capacities = c->capacities;
        c->inputs.packed.capacity_count = count - 2;
    } else
        die(key, "is not a known option of a packing");
}

static void set_balanced(struct golden_case* c, char** words, size_t count) {
    static const char* const oversize[] = {"error", "skip", NULL};
    const char *key = words[1], *value = words[2];
    sab_balanced_options* const balanced = &c->inputs.balanced;
    if (set_rounding(c, words, count, &balanced->length_multiples, &balanced->length_multiple_count,
                     &balanced->row_multiples, &balanced->row_multiple_count))
        return;
    if (strcmp(key, "samples") == 0)
        c->inputs.balanced.samples = (uint64_t)number(value);
    else if (strcmp(key, "budget") == 0)
        add_budget(&c->balanced_limits, words, count);
    else if (strcmp(key, "cost") == 0)
        c->balanced_limits.cost = one_of(value, costs);
    else if (strcmp(key, "balance") == 0)
        c->balances_squares = one_of(value, costs);
    else if (strcmp(key, "fill") == 0)
        c->inputs.balanced.fill = number(value);
    else if (strcmp(key, "padded") == 0)
        c->inputs.balanced.padded = (int32_t)number(value);
    else if (strcmp(key, "oversize") == 0)
        c->inputs.balanced.oversize = one_of(value, oversize);
    else
        die(key, "is not a known option of a balanced sampler");
}

static void set_option(struct golden_case* c, char** words) {
    static const char* const last_steps[] = {"split", "drop", "wrap", NULL};
    const char *key = words[1], *value = words[2];
    if (strcmp(key, "seed") == 0)
        c->inputs.options.seed = strtoull(value, NULL, 10);
    else if (strcmp(key, "rank") == 0)
        c->inputs.options.rank = strtoull(value, NULL, 10);
    else if (strcmp(key, "world_size") == 0)
        c->inputs.options.world_size = strtoull(value, NULL, 10);
    else if (strcmp(key, "micro_batches") == 0) {
        c->inputs.options.micro_batches = strtoull(value, NULL, 10);
        c->has_steps = 1;
    } else if (strcmp(key, "costliest_first") == 0)
        c->inputs.options.costliest_first = strtoull(value, NULL, 10);
    else if (strcmp(key, "mix_lengths") == 0)
        c->inputs.options.mix_lengths = (int32_t)strtoull(value, NULL, 10);
    else if (strcmp(key, "steps_per_epoch") == 0)
        c->inputs.options.steps_per_epoch = strtoull(value, NULL, 10);
    else if (strcmp(key, "last_step") == 0)
        c->inputs.options.last_step = one_of(value, last_steps);
    else
        die(key, "is not a known option of a sampler");
}

static void make_sampler(struct golden_case* c) {
    const struct constructor* constructor = constructor_of(c->kind);
    if (constructor == NULL) die(c->kind, "is not a known sampler");
    c->sab_sizes_handle = c->column_handles[0];
    if (c->columns > 1)
        check(sab_sizes_columns_new((const sab_sizes* const*)c->column_handles, NULL, c->columns,
                                    &c->sab_sizes_handle),
              c->name);
    if (c->source_count > 0) make_mixture(c);
    make_costs(c, &c->plan_limits);
    make_costs(c, &c->balanced_limits);
    c->plan.budgets = c->plan_limits.count > 0 ? c->plan_limits.budgets : NULL;
    c->plan.budget_count = c->plan_limits.count;
    c->inputs.balanced.budgets = c->balanced_limits.count > 0 ? c->balanced_limits.budgets : NULL;
    c->inputs.balanced.budget_count = c->balanced_limits.count;
    if (constructor->source == OF_PLAN || constructor->source == OF_BOUNDARIES) make_plan(c);
    sab_cost* const squares = named_cost(c, 1);
    const sab_cost* const balance = squares;
    if (c->balances_squares) c->inputs.balanced.balance = &balance;
    c->inputs.balanced.balance_count = c->balances_squares;
    c->inputs.sizes = c->sab_sizes_handle;
    c->inputs.plan = c->plan_handle;
    check(constructor->make(&c->inputs, &c->sampler), c->name);
    sab_cost_free(squares);
    free_costs(&c->plan_limits);
    free_costs(&c->balanced_limits);
}

static uint64_t hash_word(uint64_t hash, uint64_t word) {
    for (int i = 0; i < 8; ++i) hash = (hash ^ ((word >> (8 * i)) & 255)) * UINT64_C(1099511628211);
    return hash;
}

/* The rest of the epoch as "STEPS HASH". */
static void digest(struct golden_case* c, char* out, size_t room) {
    uint64_t hash = UINT64_C(14695981039346656037), steps = 0;
    sab_batch batch = SAB_BATCH_INIT;
    sab_status status;
    while ((status = sab_next_batch(c->sampler, &batch)) == SAB_OK) {
        hash = hash_word(hash, batch.count);
        for (uint64_t i = 0; i < batch.count; ++i)
            hash = hash_word(hash, (uint64_t)batch.indices[i]);
        ++steps;
    }
    check(status, c->name);
    snprintf(out, room, "%" PRIu64 " %016" PRIx64, steps, hash);
}

static size_t split(char* line, char** words) {
    size_t count = 0;
    for (char* word = strtok(line, " \n"); word != NULL && count < MAX_WORDS;
         word = strtok(NULL, " \n"))
        words[count++] = word;
    return count;
}

static sab_rows rows_of(struct golden_case* c) {
    sab_rows rows = SAB_ROWS_INIT;
    check(sab_sampler_get_rows(c->sampler, &rows), c->name);
    return rows;
}

static sab_step step_of(struct golden_case* c) {
    sab_step step = SAB_STEP_INIT;
    check(sab_sampler_get_step(c->sampler, &step), c->name);
    return step;
}

/* Appends numbers to a text. */
static void append_numbers(char* out, size_t room, const double* numbers, size_t count) {
    for (size_t j = 0; j < count; ++j) {
        const size_t length = strlen(out);
        snprintf(out + length, room - length, " %.0f", numbers[j]);
    }
}

/* "step STEP MICRO_BATCH MICRO_BATCHES SAMPLES TOTAL..." of the last batch. */
static void describe_step(struct golden_case* c, const sab_batch* batch, char* out, size_t room) {
    const sab_step step = step_of(c);
    snprintf(out, room, "step %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64, batch->step,
             batch->micro_batch, step.micro_batches, step.samples);
    append_numbers(out, room, step.totals, step.columns);
}

/* "padded_length LENGTH..." of a batch. */
static void describe_lengths(const sab_batch* batch, char* out, size_t room) {
    snprintf(out, room, "padded_length");
    append_numbers(out, room, batch->padded_length, batch->columns);
}

/* A line of cumulative lengths for each column; none where there are none. */
static void write_ends(struct golden_case* c, const char* name, const int32_t* const* ends,
                       size_t count, FILE* write) {
    for (size_t j = 0; ends != NULL && j < c->columns; ++j) {
        fprintf(write, "\n%s", name);
        for (size_t i = 0; i <= count; ++i) fprintf(write, " %" PRId32, ends[j][i]);
    }
}

static void write_batch(struct golden_case* c, const sab_batch* batch, FILE* write) {
    char text[256];
    fputs("batch", write);
    for (size_t i = 0; i < batch->count; ++i) fprintf(write, " %" PRId64, batch->indices[i]);
    if (c->columns > 1 || c->has_rounding) {
        describe_lengths(batch, text, sizeof text);
        fprintf(write, "\n%s", text);
    }
    if (batch->layout == SAB_LAYOUT_ROW) {
        const sab_rows rows = rows_of(c);
        write_ends(c, "cu_seqlens", rows.cu_seqlens, batch->count, write);
        write_ends(c, "cu_seqlens_unpadded", rows.cu_seqlens_unpadded, batch->count, write);
        if (rows.starts != NULL) fputs("\nstarts", write);
        for (size_t i = 0; rows.starts != NULL && i < batch->count; ++i)
            fprintf(write, " %" PRId64, rows.starts[i]);
    }
    if (c->has_steps) {
        describe_step(c, batch, text, sizeof text);
        fprintf(write, "\n%s", text);
    }
    fputs("\n", write);
}

/* Writes the epoch that begins, a long one as a digest. */
static void write_epoch(struct golden_case* c, FILE* write) {
    if (c->size_count > 200) {
        char text[64];
        digest(c, text, sizeof text);
        fprintf(write, "digest %s\n", text);
        return;
    }
    sab_batch batch = SAB_BATCH_INIT;
    sab_status status;
    while ((status = sab_next_batch(c->sampler, &batch)) == SAB_OK) write_batch(c, &batch, write);
    check(status, c->name);
}

/* Whether the numbers of the last batch are those of the words after the first. */
static int has_words(const int32_t* narrow, const int64_t* wide, char** words, size_t count) {
    if (narrow == NULL && wide == NULL) return count == 1;
    for (size_t i = 1; i < count; ++i)
        if ((narrow != NULL ? narrow[i - 1] : wide[i - 1]) != (int64_t)strtoll(words[i], NULL, 10))
            return 0;
    return 1;
}

static int is_any_of(const char* key, const char* const* keys) {
    for (; *keys != NULL; ++keys)
        if (strcmp(key, *keys) == 0) return 1;
    return 0;
}

/* Whether the words are those of a text. */
static int has_text(const char* text, char** words, size_t count) {
    char expected[256] = "";
    for (size_t i = 0; i < count; ++i) {
        const size_t length = strlen(expected);
        snprintf(expected + length, sizeof expected - length, i > 0 ? " %s" : "%s", words[i]);
    }
    return strcmp(text, expected) == 0;
}

/* Whether the library's next batch, or what it says of its last one, is that of a line. `column` of
 * the batch is next. */
static int is_as_recorded(struct golden_case* c, sab_batch* batch, char** words, size_t count,
                          size_t* column) {
    const char* const key = words[0];
    if (strcmp(key, "batch") == 0) {
        *column = 0;
        return sab_next_batch(c->sampler, batch) == SAB_OK && batch->count == count - 1 &&
               has_words(NULL, batch->indices, words, count);
    }
    if (strncmp(key, "cu_seqlens", 10) == 0) {
        const sab_rows rows = rows_of(c);
        const int is_true = strcmp(key, "cu_seqlens_unpadded") == 0;
        const int32_t* const* const ends = is_true ? rows.cu_seqlens_unpadded : rows.cu_seqlens;
        const size_t at = (*column)++ - (is_true ? c->columns : 0);
        if (count != batch->count + 2 || at >= c->columns || ends == NULL) return 0;
        return has_words(ends[at], NULL, words, count);
    }
    if (strcmp(key, "starts") == 0)
        return count == batch->count + 1 && has_words(NULL, rows_of(c).starts, words, count);
    char text[256];
    if (strcmp(key, "digest") == 0) {
        digest(c, text, sizeof text);
        return has_text(text, words + 1, count - 1);
    }
    if (strcmp(key, "step") == 0)
        describe_step(c, batch, text, sizeof text);
    else
        describe_lengths(batch, text, sizeof text);
    return has_text(text, words, count);
}

/* Reads a line that describes the inputs of a case. */
static void set_input(struct golden_case* c, char** words, size_t count) {
    const char* const key = words[0];
    if (strcmp(key, "case") == 0)
        begin_case(c, words[1]);
    else if (strcmp(key, "sizes") == 0 || strcmp(key, "sizes_rule") == 0)
        set_sizes(c, words, count);
    else if (strcmp(key, "mixture") == 0)
        set_mixture(c, words, count);
    else if (strcmp(key, "plan") == 0)
        set_plan(c, words, count);
    else if (strcmp(key, "pack") == 0)
        set_pack(c, words, count);
    else if (strcmp(key, "balanced") == 0)
        set_balanced(c, words, count);
    else if (strcmp(key, "option") == 0)
        set_option(c, words);
    else if (strcmp(key, "sampler") == 0) {
        snprintf(c->kind, sizeof c->kind, "%s", words[1]);
        if (count > 2) c->inputs.number = number(words[2]);
    } else if (strcmp(key, "epoch") == 0) {
        if (c->sampler == NULL) make_sampler(c);
        check(sab_sampler_set_epoch(c->sampler, strtoull(words[1], NULL, 10)), c->name);
    } else
        die(key, "is not a known line");
}

/* Reads the file; where `write` is a file, copies the inputs there and puts the library's batches
 * in place of the file's. `kind`: of the sampler of each case; NULL: the file's. */
static int run(const char* path, FILE* write, char* kind) {
    static const char* const outputs[] = {
        "batch",  "padded_length", "cu_seqlens", "cu_seqlens_unpadded",
        "starts", "step",          "digest",     NULL};
    static char line[1 << 16], copy[1 << 16];
    static char* words[MAX_WORDS];
    FILE* file = fopen(path, "r");
    if (file == NULL) die(path, "cannot be read");
    struct golden_case c;
    memset(&c, 0, sizeof c);
    int passed = 0, failed = 0, wrong = 0, expects_end = 0;
    size_t column = 0;
    sab_batch batch = SAB_BATCH_INIT;
    while (fgets(line, sizeof line, file) != NULL) {
        memcpy(copy, line, strlen(line) + 1);
        const size_t count = line[0] == '#' ? 0 : split(line, words);
        const char* const key = count > 0 ? words[0] : "";
        const int is_output = is_any_of(key, outputs);
        if (kind != NULL && strcmp(key, "sampler") == 0) {
            words[1] = kind;
            snprintf(copy, sizeof copy, "sampler %s\n", kind);
        }
        if (write != NULL && !is_output) fputs(copy, write);
        if (expects_end && !is_output) {
            if (write == NULL && sab_next_batch(c.sampler, &batch) != SAB_END) wrong = 1;
            expects_end = 0;
        }
        if (count == 0) continue;
        if (is_output) {
            expects_end = 1;
            if (write == NULL && !is_as_recorded(&c, &batch, words, count, &column)) wrong = 1;
        } else if (strcmp(key, "end") == 0) {
            end_case(&c);
            if (wrong) fprintf(stderr, "golden: %s differs\n", c.name);
            wrong ? ++failed : ++passed;
            wrong = 0;
        } else {
            set_input(&c, words, count);
            if (write != NULL && strcmp(key, "epoch") == 0) write_epoch(&c, write);
        }
    }
    fclose(file);
    if (write == NULL) printf("%d passed, %d failed\n", passed, failed);
    return failed > 0;
}

int main(int argc, char** argv) {
    if (argc == 2) return run(argv[1], NULL, NULL);
    if (argc < 3 || argc > 4 || strcmp(argv[1], "--write") != 0)
        die("usage", "golden FILE, or golden --write FILE [KIND]");
    char scratch[4096];
    snprintf(scratch, sizeof scratch, "%s.new", argv[2]);
    FILE* write = fopen(scratch, "w");
    if (write == NULL) die(scratch, "cannot be written");
    run(argv[2], write, argc == 4 ? argv[3] : NULL);
    if (fclose(write) != 0 || rename(scratch, argv[2]) != 0) die(argv[2], "cannot be written");
    return 0;
}
