/* Handles in several threads and in children after fork(). */
#define _GNU_SOURCE
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "helpers.h"

#define SAMPLES 200

static int32_t size_of_index(void *ctx, int64_t index, double *size) {
    (void)ctx;
    *size = (double)(1 + index % 40);
    return 0;
}

static int32_t index_from_zero(void *ctx, uint64_t epoch, uint64_t position, int64_t *index,
                               double *size) {
    (void)epoch;
    if (position == SAMPLES) return SAB_END;
    *index = (int64_t)position;
    return size_of_index(ctx, *index, size);
}

static sab_sizes *new_sizes(void) {
    sab_sizes *sizes = NULL;
    EXPECT_OK(sab_sizes_callback_new(SAMPLES, size_of_index, NULL, NULL, &sizes));
    return sizes;
}

static sab_plan *new_plan(void) {
    static const double boundaries[] = {0, 15, 50};
    sab_plan_options options = budget(120);
    options.bucket_rule = SAB_BUCKETS_BOUNDARIES;
    options.boundaries = boundaries;
    options.boundary_count = 3;
    sab_sizes *sizes = new_sizes();
    sab_plan *plan = NULL;
    EXPECT_OK(sab_plan_new(sizes, &options, &plan));
    sab_sizes_free(sizes);
    return plan;
}

enum kind { NATIVE, SEQUENTIAL, COSTLIEST, SIZE_AWARE, STREAM, TORCH, OPENED, READ, KINDS };

/* A sampler by every constructor there is; whatever it was made from is freed already. */
static sab_sampler *new_sampler(enum kind kind) {
    sab_sizes *sizes = new_sizes();
    sab_plan *plan = new_plan(), *again = NULL;
    sab_sampler *sampler = NULL;
    char path[] = "/tmp/sab_test_XXXXXX";
    unsigned char *image = NULL;
    size_t size = 0;
    switch (kind) {
        case NATIVE: EXPECT_OK(sab_bucket_sampler_new(plan, NULL, &sampler)); break;
        case SEQUENTIAL: EXPECT_OK(sab_sequential_sampler_new(plan, NULL, &sampler)); break;
        case COSTLIEST: EXPECT_OK(sab_costliest_sampler_new(plan, UINT64_MAX, &sampler)); break;
        case SIZE_AWARE:
            EXPECT_OK(sab_ordered_sampler_new(NULL, SAMPLES, sizes, 120, NULL, &sampler));
            break;
        case STREAM:
            EXPECT_OK(sab_bionemo_size_aware_stream_sampler_new(index_from_zero, NULL, NULL, 120,
                                                                &sampler));
            break;
        case TORCH: EXPECT_OK(sab_bionemo_sampler_new(plan, NULL, &sampler)); break;
        case OPENED:
            close(mkstemp(path));
            EXPECT_OK(sab_plan_save(plan, path));
            EXPECT_OK(sab_plan_file_new(path, &again));
            unlink(path);
            EXPECT_OK(sab_bucket_sampler_new(again, NULL, &sampler));
            break;
        default:
            EXPECT_OK(sab_plan_write(plan, NULL, 0, &size));
            image = malloc(size);
            EXPECT_OK(sab_plan_write(plan, image, size, &size));
            EXPECT_OK(sab_plan_bytes_new(image, size, &again));
            EXPECT_OK(sab_bucket_sampler_new(again, NULL, &sampler));
    }
    free(image);
    sab_plan_free(again);
    sab_plan_free(plan);
    sab_sizes_free(sizes);
    return sampler;
}

static void ForkInTheMiddle_ParentAndChildBothFinish(void) {
    for (enum kind kind = NATIVE; kind < KINDS; ++kind) {
        sab_sampler *sampler = new_sampler(kind);
        int seen[SAMPLES] = {0};
        sab_batch batch = SAB_BATCH_INIT;
        for (int i = 0; i < 3; ++i) {
            EXPECT_OK(sab_next_batch(sampler, &batch));
            for (uint64_t k = 0; k < batch.count; ++k) ++seen[batch.indices[k]];
        }
        const pid_t child = fork();
        if (child == 0) {
            failures_of_test = 0;
            walk(sampler, seen);
            EXPECT(all_are(seen, SAMPLES, 1));
            sab_sampler_free(sampler);
            /* everything works in the child as well */
            for (enum kind other = NATIVE; other < KINDS; ++other) {
                int again[SAMPLES] = {0};
                sampler = new_sampler(other);
                walk(sampler, again);
                EXPECT(all_are(again, SAMPLES, 1));
                sab_sampler_free(sampler);
            }
            EXPECT_FAILS(sab_next_batch(NULL, &batch), SAB_E_ARGUMENT, "sampler = NULL");
            _exit(failures_of_test > 0);
        }
        walk(sampler, seen);
        EXPECT(all_are(seen, SAMPLES, 1));
        sab_sampler_free(sampler);
        int status = -1;
        EXPECT(waitpid(child, &status, 0) == child && WIFEXITED(status) &&
               WEXITSTATUS(status) == 0);
    }
}

#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)

static int is_over;

static void *keep_busy(void *ctx) {
    while (!__atomic_load_n(&is_over, __ATOMIC_ACQUIRE)) {
        sab_batch batch = SAB_BATCH_INIT;
        sab_sampler *sampler = NULL;
        if (sab_bucket_sampler_new(ctx, NULL, &sampler) == SAB_OK)
            while (sab_next_batch(sampler, &batch) == SAB_OK) continue;
        sab_sampler_free(sampler);
        (void)sab_next_batch(NULL, &batch);
    }
    return NULL;
}

static void ForkBesideABusyThread_LeavesNoLockHeld(void) {
    sab_plan *plan = new_plan();
    pthread_t thread;
    is_over = 0;
    pthread_create(&thread, NULL, keep_busy, plan);
    for (int i = 0; i < 50; ++i) {
        const pid_t child = fork();
        if (child == 0) {
            alarm(60); /* a lock that nobody will open any more */
            int seen[SAMPLES] = {0};
            sab_sampler *sampler = new_sampler(NATIVE);
            walk(sampler, seen);
            _exit(!all_are(seen, SAMPLES, 1));
        }
        int status = -1;
        EXPECT(waitpid(child, &status, 0) == child && WIFEXITED(status) &&
               WEXITSTATUS(status) == 0);
    }
    __atomic_store_n(&is_over, 1, __ATOMIC_RELEASE);
    pthread_join(thread, NULL);
    sab_plan_free(plan);
}

static void count_lines(void *ctx, sab_log_level level, const char *message) {
    (void)level, (void)message;
    ++*(int *)ctx;
}

static void *set_log_often(void *ctx) {
    while (!__atomic_load_n(&is_over, __ATOMIC_ACQUIRE)) sab_log_set_callback(count_lines, ctx);
    return NULL;
}

static void ForkBesideAThreadThatSetsTheLog_LetsTheChildSetIt(void) {
    const int32_t numbers[] = {1, 99, 2};
    sab_sizes *sizes = sizes_of(numbers, 3);
    int lines = 0;
    pthread_t thread;
    is_over = 0;
    pthread_create(&thread, NULL, set_log_often, &lines);
    for (int i = 0; i < 200; ++i) {
        const pid_t child = fork();
        if (child == 0) {
            alarm(60);
            int of_child = 0;
            sab_sampler *sampler = NULL;
            sab_log_set_callback(count_lines, &of_child);
            const sab_status made = sab_ordered_sampler_new(NULL, 3, sizes, 10, NULL, &sampler);
            _exit(made != SAB_OK || of_child != 1);
        }
        int status = -1;
        EXPECT(waitpid(child, &status, 0) == child && WIFEXITED(status) &&
               WEXITSTATUS(status) == 0);
    }
    __atomic_store_n(&is_over, 1, __ATOMIC_RELEASE);
    pthread_join(thread, NULL);
    sab_log_set_callback(NULL, NULL);
    sab_sizes_free(sizes);
}

#endif

struct worker {
    const sab_sizes *sizes;
    const sab_plan *plan;
    uint64_t rank;
    int is_right;
};

static void *work(void *ctx) {
    struct worker *worker = ctx;
    const sab_plan_options options = budget(120);
    worker->is_right = 1;
    for (int round = 0; round < 30; ++round) {
        sab_plan *own = NULL;
        sab_sampler *sampler = NULL;
        sab_batch batch = SAB_BATCH_INIT;
        sab_sampler_options ranks = SAB_SAMPLER_OPTIONS_INIT;
        ranks.rank = worker->rank;
        ranks.world_size = 4;
        ranks.epoch = (uint64_t)round;
        sab_plan_report report = SAB_PLAN_REPORT_INIT;
        worker->is_right &= sab_plan_new(worker->sizes, &options, &own) == SAB_OK;
        worker->is_right &= sab_bucket_sampler_new(worker->plan, &ranks, &sampler) == SAB_OK;
        uint64_t steps = 0, count = 0;
        worker->is_right &= sab_sampler_get_batch_count(sampler, &count) == SAB_OK;
        while (sab_next_batch(sampler, &batch) == SAB_OK) ++steps;
        worker->is_right &= steps == count &&
                            sab_plan_get_report(worker->plan, &ranks, NULL, &report) == SAB_OK &&
                            report.steps == steps;
        char wrong[64];
        snprintf(wrong, sizeof wrong, "index = %d", (int)(1000 + worker->rank));
        sab_bucket bucket = SAB_BUCKET_INIT;
        worker->is_right &=
            sab_plan_get_bucket(own, (size_t)(1000 + worker->rank), &bucket) == SAB_E_ARGUMENT;
        /* each thread has its own message */
        worker->is_right &= strstr(sab_last_error_message(), wrong) != NULL;
        sab_sampler_free(sampler);
        sab_plan_free(own);
    }
    return NULL;
}

static void share(sab_plan *plan) {
    sab_sizes *sizes = new_sizes();
    struct worker workers[4];
    pthread_t threads[4];
    for (uint64_t rank = 0; rank < 4; ++rank) {
        workers[rank] = (struct worker){sizes, plan, rank, 0};
        pthread_create(&threads[rank], NULL, work, &workers[rank]);
    }
    for (int i = 0; i < 4; ++i) {
        pthread_join(threads[i], NULL);
        EXPECT(workers[i].is_right);
    }
    sab_plan_free(plan);
    sab_sizes_free(sizes);
}

static void Threads_ShareSizesAndPlan(void) {
    share(new_plan());
}

/* The buckets of a file are read by the first call that needs them: here by all threads at once. */
static void Threads_ShareAPlanFile(void) {
    for (int round = 0; round < 20; ++round) {
        char path[] = "/tmp/sab_test_XXXXXX";
        close(mkstemp(path));
        sab_plan *plan = new_plan(), *opened = NULL;
        EXPECT_OK(sab_plan_save(plan, path));
        sab_plan_free(plan);
        EXPECT_OK(sab_plan_file_new(path, &opened));
        share(opened);
        unlink(path);
    }
}

struct log {
    int lines;
    char last[200];
};

static void keep(void *ctx, sab_log_level level, const char *message) {
    struct log *log = ctx;
    EXPECT(level == SAB_LOG_WARNING && strchr(message, '\n') == NULL);
    ++log->lines;
    snprintf(log->last, sizeof log->last, "%s", message);
}

static int32_t one_in_five_is_long(void *ctx, uint64_t epoch, uint64_t position, int64_t *index,
                                   double *size) {
    (void)ctx, (void)epoch;
    *index = (int64_t)position;
    *size = position % 5 == 3 ? 99 : 1;
    return position < 10 ? 0 : SAB_END;
}

static void Log_TellsOfEachWayToSkip(void) {
    struct log log = {0, ""}, other = {0, ""};
    const int32_t numbers[] = {1, 99, 2};
    sab_sizes *sizes = sizes_of(numbers, 3);
    sab_sampler *sampler = NULL;
    sab_batch batch = SAB_BATCH_INIT;
    sab_log_set_callback(keep, &log);
    EXPECT_OK(sab_ordered_sampler_new(NULL, 3, sizes, 10, NULL, &sampler));
    EXPECT(log.lines == 1 && strstr(log.last, "skipped 1 of 3 samples") != NULL);
    sab_sampler_free(sampler);
    EXPECT_OK(
        sab_bionemo_size_aware_stream_sampler_new(one_in_five_is_long, NULL, NULL, 10, &sampler));
    EXPECT_OK(sab_next_batch(sampler, &batch));
    EXPECT(batch.count == 8 && log.lines == 3 &&
           strstr(log.last, "skipped sample 8: size 99") != NULL);
    sab_sampler_free(sampler);
    sab_log_set_callback(keep, &other); /* the first is retired */
    EXPECT_OK(sab_ordered_sampler_new(NULL, 3, sizes, 10, NULL, &sampler));
    sab_sampler_free(sampler);
    EXPECT(log.lines == 3 && other.lines == 1);
    EXPECT_OK(sab_ordered_sampler_new(NULL, 3, sizes, 100, NULL, &sampler));
    sab_sampler_free(sampler);
    EXPECT(other.lines == 1); /* nothing skipped, nothing said */
    sab_log_set_callback(NULL, NULL);
    sab_sizes_free(sizes);
}

#ifndef _WIN32

static void Fork_ChildAndParentGoOn(void) {
    sab_plan *plan = a_plan();
    sab_sampler *sampler = rank_of(plan, 0, 1);
    sab_batch batch = SAB_BATCH_INIT;
    EXPECT_OK(sab_next_batch(sampler, &batch));
    int seen[500] = {0};
    for (uint64_t i = 0; i < batch.count; ++i) ++seen[batch.indices[i]];
    const pid_t child = fork();
    if (child == 0) {
        walk(sampler, seen);
        sab_sampler_free(sampler);
        sab_plan *fresh = a_plan();
        sab_plan_free(fresh);
        sab_plan_free(plan);
        _exit(all_are(seen, 500, 1) ? 0 : 1);
    }
    int status = -1;
    EXPECT(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    walk(sampler, seen);
    EXPECT(all_are(seen, 500, 1));
    sab_sampler_free(sampler);
    sab_plan_free(plan);
}

#endif

int main(void) {
    RUN(ForkInTheMiddle_ParentAndChildBothFinish);
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
    RUN(ForkBesideABusyThread_LeavesNoLockHeld);
    RUN(ForkBesideAThreadThatSetsTheLog_LetsTheChildSetIt);
#endif
    RUN(Threads_ShareSizesAndPlan);
    RUN(Threads_ShareAPlanFile);
    RUN(Log_TellsOfEachWayToSkip);
#ifndef _WIN32
    RUN(Fork_ChildAndParentGoOn);
#endif
    return finish();
}
