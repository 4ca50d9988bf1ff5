/* Ten thousand random calls, most of them bad: none may crash, and every failure has a message. */
#include <math.h>
#include <stdlib.h>

#include "helpers.h"
#include "one.h"

static uint64_t any_count(void) {
    const uint64_t numbers[] = {
        0, 1, 2, 3, 7, 100, 4294967295u, 4294967296u, UINT64_MAX / 2, UINT64_MAX, random_word()};
    return numbers[below(11)];
}

static int32_t any_choice(void) {
    const int32_t numbers[] = {0, 0, 1, 2, 3, 4, -1, INT32_MAX, INT32_MIN, (int32_t)random_word()};
    return numbers[below(10)];
}

static double any_number(void) {
    const double numbers[] = {0,        1,
                              0.5,      -1,
                              10,       300,
                              1e300,    -1e300,
                              INFINITY, -INFINITY,
                              NAN,      9007199254740992.0,
                              5e-324,   (double)random_word()};
    return numbers[below(14)];
}

static int32_t wild_cost(void *ctx, uint64_t count, const double *lengths, const double *totals,
                         size_t columns, double *cost) {
    (void)ctx, (void)count, (void)lengths, (void)columns;
    *cost = below(20) ? totals[0] : any_number();
    return below(500) ? 0 : any_choice();
}

static int32_t wild_size(void *ctx, int64_t index, double *size) {
    (void)ctx;
    *size = below(200) ? (double)(index % 90) : any_number();
    return below(500) ? 0 : any_choice();
}

static int32_t wild_index(void *ctx, uint64_t epoch, uint64_t position, int64_t *index,
                          double *size) {
    (void)ctx, (void)epoch;
    *index = (int64_t)random_word();
    *size = below(50) ? 3 : any_number();
    return position > 40 ? SAB_END : below(60) ? 0 : any_choice();
}

static int32_t wild_progress(void *ctx, uint64_t done, uint64_t total) {
    (void)ctx;
    return done > total || below(50) == 0;
}

#define HANDLES 8
static sab_sizes *sizes[HANDLES];
static sab_plan *plans[HANDLES];
static sab_sampler *samplers[HANDLES];
static int32_t numbers[64];
static double reals[64];
static uint64_t words[1024];
static int64_t longs[1024];
static unsigned char bytes[1 << 16];
static long failed, succeeded;

static void note(sab_status status) {
    if (status < 0) {
        ++failed;
        if (sab_last_error_message()[0] == '\0') {
            fprintf(stderr, "%s without a message\n", sab_status_name(status));
            exit(1);
        }
        if (status == SAB_E_INTERNAL) {
            fprintf(stderr, "internal: %s\n", sab_last_error_message());
            exit(1);
        }
    } else {
        ++succeeded;
    }
}

/* NULL one time in eight. */
#define MAYBE(pointer) (below(8) ? (pointer) : NULL)

/* One of a few costs, made anew from time to time; NULL where it was refused. */
static sab_cost *any_cost(void) {
    static sab_cost *costs[4];
    sab_cost **cost = &costs[below(4)];
    if (below(4) > 0) return *cost;
    sab_cost_free(*cost);
    const uint64_t kind = below(3);
    if (kind == 0) {
        note(sab_cost_callback_new(below(8) ? wild_cost : NULL, NULL, NULL, cost));
    } else if (kind == 1) {
        note(sab_cost_padded_new(MAYBE(reals), below(4), cost));
    } else {
        sab_cost_term terms[3];
        uint32_t powers[3];
        for (int i = 0; i < 3; ++i) {
            powers[i] = (uint32_t)below(4);
            terms[i] = (sab_cost_term){any_number(), (uint32_t)below(3), 1, &powers[i], {0, 0}};
        }
        note(sab_cost_terms_new(MAYBE(terms), below(4), cost));
    }
    return *cost;
}

static sab_plan_options wild_plan_options(void) {
    sab_plan_options options = SAB_PLAN_OPTIONS_INIT;
    SET_BUDGET(options, below(4) ? 300 : any_number());
    if (below(2)) options.bucket_rule = any_choice();
    if (below(3) == 0) SET_BUDGET_OF(options, any_cost(), 300);
    if (below(8) == 0) options.padding_target = any_number();
    if (below(3) == 0) {
        options.bucket_rule = SAB_BUCKETS_BOUNDARIES;
        options.boundaries = MAYBE(reals);
        options.boundary_count = below(12);
    }
    if (below(3) == 0) options.bucket_count = (size_t)any_count();
    if (below(3) == 0) options.bucket_batches = any_count();
    if (below(4) == 0) {
        words[0] = any_count();
        options.batch_sizes = MAYBE(words);
        options.batch_size_count = below(4);
    }
    if (below(4) == 0) options.max_batch_size = any_count();
    if (below(4) == 0) options.batch_size_multiple = any_count();
    if (below(4) == 0)
        options.length_multiples = one_number(any_number()), options.length_multiple_count = 1;
    if (below(3) == 0) options.tail = any_choice();
    if (below(3) == 0) options.oversize = any_choice();
    if (below(8) == 0) options.shapes = any_choice();
    if (below(4) == 0)
        options.max_shapes = one_count(below(2) ? below(9) : (size_t)any_count()),
        options.max_shape_count = 1;
    options.progress = below(2) ? wild_progress : NULL;
    if (below(20) == 0) options.struct_size = below(2) ? below(300) : (size_t)any_count();
    /* what lies behind is not ours to read */
    if (options.struct_size > sizeof options) options.struct_size = sizeof options;
    return options;
}

static sab_sampler_options wild_sampler_options(void) {
    sab_sampler_options options = SAB_SAMPLER_OPTIONS_INIT;
    options.seed = any_count();
    options.epoch = any_count();
    if (below(2)) {
        options.world_size = below(3) ? 1 + below(9) : any_count();
        options.rank = below(3) ? below(options.world_size ? options.world_size : 1) : any_count();
    }
    if (below(3) == 0) options.last_step = any_choice();
    if (below(3) == 0) options.micro_batches = below(9) ? below(9) : UINT64_MAX;
    if (below(3) == 0) options.costliest_first = any_count();
    if (below(20) == 0) options.struct_size = below(sizeof options + 1);
    return options;
}

static sab_packed_options wild_pack_options(void) {
    sab_packed_options pack = SAB_PACKED_OPTIONS_INIT;
    pack.capacities = one_count(below(4) ? 1 + below(300) : any_count()), pack.capacity_count = 1;
    if (below(2)) pack.method = below(8) ? (int32_t)below(3) : any_choice();
    if (below(3) == 0) pack.max_sequences = below(4) ? below(9) : any_count();
    if (below(3) == 0) pack.window = below(4) ? 1 + below(9) : any_count();
    if (below(3) == 0) pack.split = any_choice();
    if (below(3) == 0) pack.oversize = any_choice();
    if (below(4) == 0) pack.progress = wild_progress;
    if (below(20) == 0) pack.struct_size = below(sizeof pack + 1);
    return pack;
}

static void wild_thresholds(const sab_sizes *lengths) {
    sab_thresholds_options options = SAB_THRESHOLDS_OPTIONS_INIT;
    sab_thresholds_info info = SAB_THRESHOLDS_INFO_INIT;
    double thresholds[256];
    if (below(2)) options.method = below(8) ? (int32_t)below(3) : any_choice();
    if (below(3) == 0) options.cost = any_cost();
    if (below(3) == 0) options.cost_per_sample = any_choice();
    options.num_trials = (uint32_t)below(5);
    if (below(3) == 0) options.patience = below(4) ? (int64_t)below(99) : (int64_t)random_word();
    if (options.patience > 1000) options.patience = 1000;
    options.seed = random_word();
    for (int i = 0; i < 64; ++i) words[i] = below(30) ? below(20) : any_count();
    const uint64_t k = below(4) ? below(9) : any_count();
    options.starts = below(4) == 0 && k <= 9 ? words : NULL;
    options.progress = below(2) ? wild_progress : NULL;
    if (below(20) == 0) options.struct_size = below(sizeof options + 1);
    if (below(20) == 0) info.struct_size = below(sizeof info + 1);
    note(sab_thresholds_find(lengths, k, MAYBE(&options), MAYBE(thresholds), MAYBE(&info)));
}

static void wild_grouping(const sab_sizes *first, const sab_sizes *second) {
    sab_grouping *grouping = NULL;
    for (int i = 0; i < 64; ++i) {
        longs[i] = below(60) ? (int64_t)below(6) : (int64_t)random_word();
        words[i] = below(60) ? below(6) : any_count();
        /* as many as there are indices, and memory */
        if (words[i] > 300 && words[i] <= 4294967295u) words[i] = 300;
    }
    const sab_grouping_dimension dimensions[] = {{first, MAYBE(reals), below(9)},
                                                 {second, MAYBE(reals), below(9)}};
    switch (below(4)) {
        case 0:
            note(sab_grouping_thresholds_new(MAYBE(dimensions),
                                             below(8) ? below(3) : 65 + below(100), &grouping));
            break;
        case 1:
            note(sab_grouping_predefined_new(MAYBE(longs), below(64),
                                             below(8) ? below(9) : SIZE_MAX,
                                             below(8) ? &grouping : NULL));
            break;
        case 2:
            note(sab_grouping_partition_new(MAYBE(longs), MAYBE(words), below(3), &grouping));
            break;
        default: note(sab_grouping_partition_new(NULL, MAYBE(words), below(9), &grouping)); break;
    }
    sab_grouping_view groups = SAB_GROUPING_VIEW_INIT;
    if (below(16) == 0) groups.struct_size = below(sizeof groups + 1);
    note(sab_grouping_get_view(grouping, MAYBE(&groups)));
    sab_grouping_free(grouping);
}

/* Calls are numbered; each of the next three functions makes those that it knows. */
enum { CHOICES = 28 };

static void call_plan(unsigned choice) {
    sab_sizes **size = &sizes[below(HANDLES)];
    sab_plan **plan = &plans[below(HANDLES)];
    sab_plan_info info = SAB_PLAN_INFO_INIT;
    sab_bucket bucket = SAB_BUCKET_INIT;
    sab_plan_report report = SAB_PLAN_REPORT_INIT;
    if (below(16) == 0) {
        info.struct_size = below(sizeof info + 1);
        bucket.struct_size = below(sizeof bucket + 1);
        report.struct_size = below(sizeof report + 1);
    }
    size_t count = 0;
    double real = 0;
    const sab_plan_options plan_options = wild_plan_options();
    sab_sizes_options sizes_options = SAB_SIZES_OPTIONS_INIT;
    if (below(4) == 0) sizes_options.copy = any_choice();
    switch (choice) {
        case 0:
            sab_sizes_free(*size);
            *size = NULL;
            note(sab_sizes_new(MAYBE(numbers), below(64), below(8) ? SAB_INT32 : any_choice() % 4,
                               MAYBE(&sizes_options), size));
            break;
        case 1:
            sab_sizes_free(*size);
            note(sab_sizes_callback_new(below(200), MAYBE(wild_size), NULL,
                                        a_progress(wild_progress, NULL), size));
            break;
        case 2:
            note(sab_sizes_get(*size, (size_t)any_count(), 1, MAYBE(&real)));
            note(sab_sizes_get(*size, (size_t)any_count(),
                               below(4) ? below(65) : SIZE_MAX - below(65), MAYBE(reals)));
            break;
        case 3:
            note(sab_bionemo_create_buckets(*size, (int64_t)any_count(), (int64_t)any_count(),
                                            longs, longs + 512, below(256), MAYBE(&count)));
            break;
        case 4:
        case 5:
        case 6:
            sab_plan_free(*plan);
            note(sab_plan_new(*size, MAYBE(&plan_options), plan));
            break;
        case 7: note(sab_plan_get_info(*plan, MAYBE(&info))); break;
        case 8:
            note(sab_plan_get_bucket(*plan, below(2) ? 0 : (size_t)any_count(), MAYBE(&bucket)));
            break;
        case 9: note(sab_plan_get_skipped(*plan, MAYBE(longs), below(64), MAYBE(&count))); break;
        case 10:
            if (sab_plan_write(*plan, bytes, sizeof bytes, &count) == SAB_OK &&
                count <= sizeof bytes) {
                if (below(2)) bytes[below(count)] ^= (unsigned char)(1 + below(255));
                sab_plan *read = NULL;
                note(sab_plan_bytes_new(MAYBE(bytes), below(4) ? count : below(count + 1), &read));
                sab_plan_free(read);
            }
            break;
        case 23: {
            sab_sampler_options small = wild_sampler_options();
            if (small.world_size > 64) small.world_size = 3; /* a report walks every rank */
            note(sab_plan_get_report(*plan, MAYBE(&small), a_progress(wild_progress, NULL),
                                     MAYBE(&report)));
            break;
        }
        case 26: wild_thresholds(*size); break;
        case 27: wild_grouping(*size, sizes[below(HANDLES)]); break;
        default: break;
    }
}

static void call_constructor(unsigned choice) {
    const sab_sizes *size = sizes[below(HANDLES)];
    const sab_plan *plan = plans[below(HANDLES)];
    sab_sampler **sampler = &samplers[below(HANDLES)];
    const sab_sampler_options sampler_options = wild_sampler_options();
    switch (choice) {
        case 11:
        case 12:
            sab_sampler_free(*sampler);
            note(sab_bucket_sampler_new(plan, MAYBE(&sampler_options), sampler));
            break;
        case 13:
            sab_sampler_free(*sampler);
            note(below(2) ? sab_sequential_sampler_new(plan, MAYBE(&sampler_options), sampler)
                          : sab_costliest_sampler_new(plan, any_count(), sampler));
            break;
        case 14:
            sab_sampler_free(*sampler);
            for (int i = 0; i < 32; ++i)
                longs[i] = below(50) ? (int64_t)below(20) : (int64_t)random_word();
            note(sab_ordered_sampler_new(MAYBE(longs), below(32), size, any_number(),
                                         MAYBE(&sampler_options), sampler));
            break;
        case 15:
            sab_sampler_free(*sampler);
            note(sab_bionemo_size_aware_stream_sampler_new(MAYBE(wild_index), NULL, NULL,
                                                           any_number(), sampler));
            break;
        case 16: {
            sab_bionemo_options options = SAB_BIONEMO_OPTIONS_INIT;
            options.shuffle = any_choice();
            options.limit = any_number();
            options.size = below(8) ? wild_size : NULL;
            sab_sampler_free(*sampler);
            note(sab_bionemo_sampler_new(plan, MAYBE(&options), sampler));
            break;
        }
        case 24: {
            const sab_packed_options pack = wild_pack_options();
            sab_sampler_free(*sampler);
            note(sab_packed_sampler_new(size, MAYBE(&pack), MAYBE(&sampler_options), sampler));
            break;
        }
        default: break;
    }
}

static void call_sampler(unsigned choice) {
    sab_sampler *sampler = samplers[below(HANDLES)];
    sab_batch batch = SAB_BATCH_INIT;
    if (below(16) == 0) batch.struct_size = below(sizeof batch + 1);
    sab_block block = SAB_BLOCK_INIT;
    sab_rows rows = SAB_ROWS_INIT;
    sab_step step = SAB_STEP_INIT;
    uint64_t number = 0, other = 0;
    size_t count = 0;
    switch (choice) {
        case 17:
            note(sab_next_batch(sampler, MAYBE(&batch)));
            note(sab_sampler_get_rows(sampler, MAYBE(&rows)));
            note(sab_sampler_get_step(sampler, MAYBE(&step)));
            if (below(4) == 0) note(sab_sampler_begin(sampler));
            break;
        case 18:
            if (below(16) == 0) block.struct_size = below(sizeof block + 1);
            note(sab_next_block(sampler, below(100), MAYBE(&block)));
            break;
        case 19: note(sab_sampler_at(sampler, any_count(), MAYBE(&batch))); break;
        case 20:
            note(below(2) ? sab_sampler_seek(sampler, any_count())
                          : sab_sampler_set_epoch(sampler, any_count()));
            note(sab_sampler_tell(sampler, MAYBE(&number), MAYBE(&other)));
            break;
        case 21:
            note(below(2)
                     ? sab_sampler_get_batch_count(sampler, MAYBE(&number))
                     : sab_sampler_get_skipped(sampler, MAYBE(longs), below(64), MAYBE(&count)));
            break;
        case 22: {
            unsigned char saved[256] = {0};
            size_t size = 0;
            note(sab_sampler_state_save_at(sampler, any_count(), MAYBE(saved), sizeof saved,
                                           MAYBE(&size)));
            note(sab_sampler_state_save(sampler, MAYBE(saved), below(4) ? sizeof saved : 0,
                                        below(16) ? &size : NULL));
            if (below(2)) saved[below(sizeof saved)] ^= (unsigned char)(1 + below(255));
            note(sab_sampler_state_restore(samplers[below(HANDLES)], MAYBE(saved),
                                           below(4) ? size : below(sizeof saved)));
            break;
        }
        case 25: {
            sab_packed_info facts = SAB_PACKED_INFO_INIT;
            if (below(16) == 0) facts.struct_size = below(sizeof facts + 1);
            note(sab_packed_sampler_get_info(sampler, MAYBE(&facts)));
            break;
        }
        default: break;
    }
}

static void call(void) {
    const unsigned choice = (unsigned)below(CHOICES);
    call_plan(choice);
    call_constructor(choice);
    call_sampler(choice);
}

static void RandomCalls_NeverCrashAndFailWithAMessage(void) {
    for (int i = 0; i < 64; ++i) {
        numbers[i] = (int32_t)below(90);
        reals[i] = i < 8 ? 12.5 * i : any_number();
    }
    for (int i = 0; i < 10000; ++i) {
        if (i % 100 == 0) numbers[below(64)] = below(3) ? (int32_t)below(90) : -(int32_t)below(9);
        call();
    }
    for (int i = 0; i < HANDLES; ++i) {
        sab_sampler_free(samplers[i]);
        sab_plan_free(plans[i]);
        sab_sizes_free(sizes[i]);
    }
    printf("10000 rounds: %ld calls refused, %ld done\n", failed, succeeded);
    EXPECT(succeeded > 1000 && failed > 1000);
}

int main(void) {
    RUN(RandomCalls_NeverCrashAndFailWithAMessage);
    return finish();
}
