/* Checks golden vectors of step plans, or writes their results: golden_steps [--write] FILE. The
 * format is in README.md. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sab.h>
#include "../c/one.h"

#define MOST 2048

static void die(const char* what, const char* why) {
    fprintf(stderr, "golden_steps: %s: %s\n", what, why);
    exit(2);
}

static void check(sab_status status, const char* what) {
    if (status < 0) die(what, sab_last_error_message());
}

/* A case as it is read. */
static struct {
    char name[64];
    size_t count, columns, budgets;
    uint32_t sizes[2][MOST];
    int64_t groups[MOST], prefix[MOST], parents[MOST];
    sab_budget budget[2];
    const sab_cost* balance[1];
    sab_step_plan_options options;
    uint64_t expected[16 * MOST]; /* micro-batches, indices, offsets, segments */
    size_t expected_count;
} given;

static sab_cost* squares;

static void begin_case(const char* name) {
    const sab_step_plan_options defaults = SAB_STEP_PLAN_OPTIONS_INIT;
    memset(&given, 0, sizeof given);
    snprintf(given.name, sizeof given.name, "%s", name);
    given.options = defaults;
}

static size_t read_numbers(char* words, int64_t* numbers) {
    size_t count = 0;
    for (char* word = strtok(words, " "); word != NULL; word = strtok(NULL, " ")) {
        if (count == MOST) die(given.name, "too many numbers");
        numbers[count++] = strtoll(word, NULL, 10);
    }
    return count;
}

static int32_t one_of(const char* word, const char* const* names) {
    for (int32_t i = 0; names[i] != NULL; ++i)
        if (strcmp(word, names[i]) == 0) return i;
    die(word, "is not a known word");
    return 0;
}

static int is_result(const char* key) {
    return strcmp(key, "plan") == 0 || strcmp(key, "indices") == 0 || strcmp(key, "offsets") == 0 ||
           strcmp(key, "segments") == 0;
}

static void read_line(const char* key, char* rest) {
    static const char* const layouts[] = {"row", "padded", NULL};
    static const char* const orders[] = {"descending", "ascending", "bell", NULL};
    int64_t numbers[MOST];
    sab_step_plan_options* options = &given.options;
    if (strcmp(key, "sizes") == 0) {
        given.count = read_numbers(rest, numbers);
        for (size_t i = 0; i < given.count; ++i)
            given.sizes[given.columns][i] = (uint32_t)numbers[i];
        ++given.columns;
    } else if (strcmp(key, "groups") == 0) {
        read_numbers(rest, given.groups);
        options->groups = given.groups;
    } else if (strcmp(key, "prefix") == 0) {
        read_numbers(rest, given.prefix);
        options->prefix = given.prefix;
    } else if (strcmp(key, "parents") == 0) {
        read_numbers(rest, given.parents);
        options->parents = given.parents;
    } else if (strcmp(key, "whole_groups") == 0) {
        options->whole_groups = atoi(rest);
    } else if (strcmp(key, "budget") == 0) {
        sab_budget* budget = &given.budget[given.budgets++];
        budget->limit = strtod(strtok(rest, " "), NULL);
        budget->cost = strtok(NULL, " ") != NULL ? squares : NULL;
        options->budgets = given.budget;
        options->budget_count = given.budgets;
    } else if (strcmp(key, "balance") == 0) {
        given.balance[0] = squares;
        options->balance = given.balance;
        options->balance_count = 1;
    } else if (strcmp(key, "layout") == 0) {
        options->padded = one_of(rest, layouts);
    } else if (strcmp(key, "order") == 0) {
        options->order = one_of(rest, orders);
    } else if (strcmp(key, "world_size") == 0) {
        options->world_size = strtoull(rest, NULL, 10);
    } else if (strcmp(key, "micro_batches") == 0) {
        options->micro_batches = strtoull(rest, NULL, 10);
    } else if (strcmp(key, "multiple") == 0) {
        options->multiple = strtoull(rest, NULL, 10);
    } else if (is_result(key)) {
        const size_t count = read_numbers(rest, numbers);
        for (size_t i = 0; i < count; ++i)
            given.expected[given.expected_count++] = (uint64_t)numbers[i];
    } else {
        die(key, "is not a known word");
    }
}

static sab_sizes* sizes_of_case(void) {
    sab_sizes *first = NULL, *second = NULL, *both = NULL;
    check(sab_sizes_new(given.sizes[0], given.count, SAB_UINT32, NULL, &first), given.name);
    if (given.columns == 1) return first;
    check(sab_sizes_new(given.sizes[1], given.count, SAB_UINT32, NULL, &second), given.name);
    const sab_sizes* const columns[2] = {first, second};
    check(sab_sizes_columns_new(columns, NULL, 2, &both), given.name);
    sab_sizes_free(first);
    sab_sizes_free(second);
    return both;
}

/* Micro-batches, indices, offsets, and six numbers a segment. */
static size_t list_results(const sab_step_plan_view* view, uint64_t* results) {
    const uint64_t parts = view->world_size * view->micro_batches;
    size_t count = 0;
    results[count++] = view->micro_batches;
    for (size_t i = 0; i < view->samples; ++i) results[count++] = (uint64_t)view->indices[i];
    for (uint64_t k = 0; k <= parts; ++k) results[count++] = view->offsets[k];
    for (uint64_t k = 0; view->segments != NULL && k < view->segment_offsets[parts]; ++k) {
        const sab_step_segment* each = &view->segments[k];
        results[count++] = (uint64_t)each->node;
        results[count++] = (uint64_t)each->sample;
        results[count++] = (uint64_t)each->parent;
        results[count++] = (uint64_t)each->position;
        results[count++] = (uint64_t)each->offset;
        results[count++] = (uint64_t)each->length;
    }
    return count;
}

static void write_plan(const sab_step_plan_view* view, FILE* out) {
    uint64_t results[16 * MOST];
    const size_t count = list_results(view, results), offsets = 1 + view->samples,
                 segments = offsets + (size_t)(view->world_size * view->micro_batches) + 1;
    for (size_t i = 0; i < count; ++i) {
        if (i == 0) fprintf(out, "plan");
        if (i == 1) fprintf(out, "\nindices");
        if (i == offsets) fprintf(out, "\noffsets");
        if (i == segments) fprintf(out, "\nsegments");
        fprintf(out, " %" PRId64, (int64_t)results[i]);
    }
    fprintf(out, "\nend\n");
}

/* Whether the plan is the one that was read. */
static int is_expected(const sab_step_plan_view* view) {
    uint64_t results[16 * MOST];
    return list_results(view, results) == given.expected_count &&
           memcmp(results, given.expected, given.expected_count * sizeof *results) == 0;
}

int main(int argc, char** argv) {
    const int writes = argc == 3 && strcmp(argv[1], "--write") == 0;
    if (argc != 2 && !writes) die("usage", "golden_steps [--write] FILE");
    const sab_cost_term term = {1, 1, POWERS(2)};
    check(sab_cost_terms_new(&term, 1, &squares), "cost");
    FILE* in = fopen(argv[argc - 1], "r");
    if (in == NULL) die(argv[argc - 1], "cannot be read");
    static char line[1 << 16], words[1 << 16];
    size_t cases = 0;
    while (fgets(line, sizeof line, in) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        const char* key = strtok(strcpy(words, line), " ");
        char* rest = key == NULL ? NULL : words + strlen(key) + (strlen(key) < strlen(line));
        if (key != NULL && strcmp(key, "end") == 0) {
            sab_sizes* sizes = sizes_of_case();
            sab_step_plan* plan = NULL;
            sab_step_plan_view view = SAB_STEP_PLAN_VIEW_INIT;
            check(sab_step_plan_new(sizes, &given.options, &plan), given.name);
            check(sab_step_plan_get_view(plan, &view), given.name);
            if (writes)
                write_plan(&view, stdout);
            else if (!is_expected(&view))
                die(given.name, "another plan");
            sab_step_plan_free(plan);
            sab_sizes_free(sizes);
            ++cases;
            continue;
        }
        if (writes && (key == NULL || !is_result(key))) puts(line);
        if (key == NULL || key[0] == '#') continue;
        if (strcmp(key, "case") == 0)
            begin_case(rest);
        else
            read_line(key, rest);
    }
    fclose(in);
    sab_cost_free(squares);
    if (cases == 0) die(argv[argc - 1], "has no cases");
    if (!writes) printf("%zu cases\n", cases);
    return 0;
}
