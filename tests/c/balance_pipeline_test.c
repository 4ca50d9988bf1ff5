/* Pipelines: when each task runs, and orders of the micro-batches. */
#include <math.h>
#include <stdlib.h>

#include "helpers.h"

#define MOST 16

static sab_pipeline_report REPORT = SAB_PIPELINE_REPORT_INIT;

static sab_pipeline_options with(uint64_t chunks, double transfer) {
    sab_pipeline_options options = SAB_PIPELINE_OPTIONS_INIT;
    options.chunks = chunks;
    options.transfer = transfer;
    return options;
}

static double makespan_of(const double *forward, const double *backward, size_t count,
                          uint64_t stages, const uint32_t *order,
                          const sab_pipeline_options *options) {
    sab_pipeline_report report = REPORT;
    EXPECT_OK(
        sab_pipeline_simulate(forward, backward, count, stages, order, options, NULL, &report));
    EXPECT(report.lower_bound <= report.makespan);
    EXPECT(report.idle >= 0 && report.idle < 1);
    return report.makespan;
}

static void draw_times(double *forward, double *backward, size_t count) {
    for (size_t i = 0; i < count; ++i) {
        forward[i] = below(3) == 0 ? 10 * uniform() : uniform();
        backward[i] = forward[i] * (1 + uniform());
    }
}

/* 1F1B in other words: a rank takes a backward pass when it has as many micro-batches in flight as
 * there are ranks from it to the last, or no more to begin. Time goes from one end of a task to the
 * next. */
static double simulated_by_events(const double *forward, const double *backward, size_t count,
                                  size_t stages, const uint32_t *order, double transfer) {
    double forward_end[MOST][MOST], backward_end[MOST][MOST], free_from[MOST] = {0}, last = 0;
    size_t begun[MOST] = {0}, ended[MOST] = {0};
    for (size_t left = 2 * count * stages; left > 0;) {
        for (size_t rank = 0; rank < stages; ++rank) {
            const size_t f = begun[rank], b = ended[rank];
            if (f < count && f - b < stages - rank) {
                if (rank > 0 && begun[rank - 1] <= f) continue;
                const double ready = rank == 0 ? 0 : forward_end[rank - 1][f] + transfer;
                forward_end[rank][f] = fmax(ready, free_from[rank]) + forward[order[f]];
                free_from[rank] = forward_end[rank][f];
                ++begun[rank];
                --left;
            } else if (b < f) {
                const int is_last = rank + 1 == stages;
                if (!is_last && ended[rank + 1] <= b) continue;
                const double ready =
                    is_last ? forward_end[rank][b] : backward_end[rank + 1][b] + transfer;
                backward_end[rank][b] = fmax(ready, free_from[rank]) + backward[order[b]];
                free_from[rank] = backward_end[rank][b];
                ++ended[rank];
                --left;
            }
        }
    }
    for (size_t rank = 0; rank < stages; ++rank) last = fmax(last, free_from[rank]);
    return last;
}

static void shuffle(uint32_t *order, size_t count) {
    for (size_t i = 0; i < count; ++i) order[i] = (uint32_t)i;
    for (size_t i = count; i > 1; --i) {
        const size_t other = (size_t)below(i);
        const uint32_t kept = order[i - 1];
        order[i - 1] = order[other];
        order[other] = kept;
    }
}

static void OneForwardOneBackward_TakesTheTimeOfAnotherSimulation(void) {
    random_state = 11;
    double forward[MOST], backward[MOST];
    uint32_t order[MOST];
    for (int round = 0; round < 300; ++round) {
        const size_t count = (size_t)below(MOST), stages = 1 + (size_t)below(MOST);
        draw_times(forward, backward, count);
        shuffle(order, count);
        const double transfer = below(2) == 0 ? 0 : uniform();
        const sab_pipeline_options options = with(1, transfer);
        const double expected =
            simulated_by_events(forward, backward, count, stages, order, transfer);
        const double found = makespan_of(forward, backward, count, stages, order, &options);
        EXPECT(fabs(found - expected) <= 1e-12 * expected);
    }
}

typedef struct {
    double start, end;
    int is_there;
} Span;

/* Each task begins at the later of two times: when the rank is free, and when what it needs has
 * come. */
static void check_tasks(const sab_pipeline_task *tasks, const double *forward,
                        const double *backward, size_t count, size_t stages, size_t chunks,
                        double transfer, const uint32_t *order) {
    const size_t parts = stages * chunks, per_rank = 2 * count * chunks;
    Span *spans = calloc(2 * count * parts + 1, sizeof *spans);
    for (size_t rank = 0; rank < stages; ++rank) {
        size_t next_forward[MOST] = {0}, next_backward[MOST] = {0};
        for (size_t i = 0; i < per_rank; ++i) {
            const sab_pipeline_task *task = &tasks[rank * per_rank + i];
            EXPECT(task->micro_batch < count && task->chunk < chunks);
            size_t *next = (task->is_backward ? next_backward : next_forward) + task->chunk;
            EXPECT(order[(*next)++] == task->micro_batch); /* the same order on all ranks */
            const double time =
                (task->is_backward ? backward : forward)[task->micro_batch] / (double)chunks;
            EXPECT(fabs(task->end - task->start - time) <= 1e-9);
            const size_t part = task->chunk * stages + rank;
            Span *span = &spans[(2 * task->micro_batch + (size_t)task->is_backward) * parts + part];
            EXPECT(!span->is_there);
            *span = (Span){task->start, task->end, 1};
        }
    }
    for (size_t rank = 0; rank < stages; ++rank) {
        double free_from = 0;
        for (size_t i = 0; i < per_rank; ++i) {
            const sab_pipeline_task *task = &tasks[rank * per_rank + i];
            const size_t part = task->chunk * stages + rank;
            const Span *ahead = &spans[2 * task->micro_batch * parts];
            const Span *back = ahead + parts;
            double ready = 0;
            if (!task->is_backward && part > 0)
                ready = ahead[part - 1].end + (stages > 1 ? transfer : 0);
            if (task->is_backward && part + 1 == parts) ready = ahead[part].end;
            if (task->is_backward && part + 1 < parts)
                ready = back[part + 1].end + (stages > 1 ? transfer : 0);
            EXPECT(fabs(task->start - fmax(free_from, ready)) <= 1e-9);
            if (task->is_backward) EXPECT(task->start >= ahead[part].end);
            free_from = task->end;
        }
    }
    free(spans);
}

static void Tasks_OfAllSchedules_RunAsSoonAsTheyCan(void) {
    random_state = 12;
    double forward[MOST], backward[MOST];
    uint32_t order[MOST];
    static sab_pipeline_task tasks[2 * MOST * MOST * 4];
    for (int round = 0; round < 200; ++round) {
        const size_t stages = 1 + (size_t)below(5), chunks = 1 + (size_t)below(4);
        const size_t count = chunks == 1 ? (size_t)below(MOST) : stages * (size_t)below(4);
        draw_times(forward, backward, count);
        shuffle(order, count);
        const double transfer = below(2) == 0 ? 0 : uniform();
        const sab_pipeline_options options = with(chunks, transfer);
        sab_pipeline_report report = REPORT;
        EXPECT_OK(sab_pipeline_simulate(forward, backward, count, stages, order, &options, tasks,
                                        &report));
        check_tasks(tasks, forward, backward, count, stages, chunks, transfer, order);
        double last = 0, work = 0;
        for (size_t i = 0; i < 2 * count * chunks * stages; ++i) {
            last = fmax(last, tasks[i].end);
            work += tasks[i].end - tasks[i].start;
        }
        EXPECT(report.makespan == last);
        EXPECT(last == 0 || fabs(report.idle - (1 - work / last / (double)stages)) <= 1e-9);
    }
}

/* The formula of the papers: the ranks wait (stages - 1) / chunks micro-batches. */
static void EqualMicroBatches_WaitAsThePapersSay(void) {
    double forward[24], backward[24];
    for (size_t i = 0; i < 24; ++i) forward[i] = 1, backward[i] = 2;
    for (uint64_t stages = 1; stages <= 6; ++stages)
        for (uint64_t chunks = 1; chunks <= 4; ++chunks)
            for (uint64_t rounds = 1; rounds <= 4; ++rounds) {
                const sab_pipeline_options options = with(chunks, 0);
                const size_t count = (size_t)(stages * rounds);
                sab_pipeline_report report = REPORT;
                EXPECT_OK(sab_pipeline_simulate(forward, backward, count, stages, NULL, &options,
                                                NULL, &report));
                const double waits = 3 * (double)(stages - 1) / (double)chunks;
                EXPECT(fabs(report.makespan - 3 * (double)count - waits) <= 1e-9);
                EXPECT(fabs(report.lower_bound - report.makespan) <= 1e-9);
                EXPECT(fabs(report.idle - waits / report.makespan) <= 1e-9);
            }
}

/* How many forward passes a rank has before its first backward pass limits its activations. */
static void ForwardPassesBeforeTheFirstBackwardPass_AreThoseOfThePapers(void) {
    double forward[24];
    static sab_pipeline_task tasks[2 * 24 * 6 * 4];
    for (size_t i = 0; i < 24; ++i) forward[i] = 1;
    for (size_t stages = 1; stages <= 6; ++stages)
        for (size_t chunks = 1; chunks <= 4; ++chunks) {
            const sab_pipeline_options options = with(chunks, 0);
            const size_t count = 4 * stages, per_rank = 2 * count * chunks;
            EXPECT_OK(
                sab_pipeline_simulate(forward, NULL, count, stages, NULL, &options, tasks, NULL));
            for (size_t rank = 0; rank < stages; ++rank) {
                size_t found = 0;
                while (!tasks[rank * per_rank + found].is_backward) ++found;
                const size_t behind = stages - 1 - rank;
                const size_t first = chunks == 1 ? behind : 2 * behind + (chunks - 1) * stages;
                EXPECT(found == first + 1); /* and the one of the first pair */
            }
        }
}

static void NoBackwardTimes_AreTwiceTheForwardTimes(void) {
    const double forward[] = {1, 5, 2}, backward[] = {2, 10, 4};
    EXPECT(makespan_of(forward, NULL, 3, 2, NULL, NULL) ==
           makespan_of(forward, backward, 3, 2, NULL, NULL));
}

/* The least makespan of all orders. */
static double least_of_orders(const double *forward, const double *backward, size_t count,
                              uint64_t stages, const sab_pipeline_options *options, uint32_t *order,
                              size_t place) {
    if (place == count) return makespan_of(forward, backward, count, stages, order, options);
    double least = INFINITY;
    for (size_t i = place; i < count; ++i) {
        const uint32_t kept = order[place];
        order[place] = order[i];
        order[i] = kept;
        least = fmin(least,
                     least_of_orders(forward, backward, count, stages, options, order, place + 1));
        order[i] = order[place];
        order[place] = kept;
    }
    return least;
}

static void Order_OfSmallCases_IsTheOptimum(void) {
    random_state = 13;
    double forward[MOST], backward[MOST];
    const struct {
        size_t count;
        uint64_t stages, chunks;
    } cases[] = {{1, 3, 1}, {4, 2, 1}, {5, 4, 1}, {6, 3, 1}, {6, 3, 2}, {4, 2, 2}, {7, 4, 1}};
    for (size_t i = 0; i < COUNT(cases); ++i) {
        const size_t count = cases[i].count;
        draw_times(forward, backward, count);
        const sab_pipeline_options options = with(cases[i].chunks, i % 2 ? 0.3 : 0);
        uint32_t order[MOST] = {0, 1, 2, 3, 4, 5, 6, 7}, found[MOST];
        const double least =
            least_of_orders(forward, backward, count, cases[i].stages, &options, order, 0);
        sab_pipeline_report report = REPORT;
        EXPECT_OK(sab_pipeline_order_find(forward, backward, count, cases[i].stages, &options,
                                          found, &report));
        EXPECT(report.makespan == least);
        EXPECT(report.lower_bound <= least);
        EXPECT(makespan_of(forward, backward, count, cases[i].stages, found, &options) == least);
    }
}

static double time_of_both(const double *forward, const double *backward, uint32_t i) {
    return forward[i] + backward[i];
}

static void Order_IsNeverWorseThanSimpleOnes(void) {
    random_state = 14;
    double forward[MOST], backward[MOST];
    for (int round = 0; round < 4; ++round) {
        const uint64_t stages = 2 + below(3), chunks = 1 + below(2);
        const size_t count = (size_t)stages * 3;
        draw_times(forward, backward, count);
        const sab_pipeline_options options = with(chunks, 0);
        uint32_t given[MOST], ascending[MOST], descending[MOST], found[MOST];
        for (uint32_t i = 0; i < count; ++i) {
            given[i] = i;
            size_t place = i;
            for (; place > 0 && time_of_both(forward, backward, ascending[place - 1]) >
                                    time_of_both(forward, backward, i);
                 --place)
                ascending[place] = ascending[place - 1];
            ascending[place] = i;
        }
        for (size_t i = 0; i < count; ++i) descending[i] = ascending[count - 1 - i];
        sab_pipeline_report report = REPORT;
        EXPECT_OK(
            sab_pipeline_order_find(forward, backward, count, stages, &options, found, &report));
        const uint32_t *simple[] = {given, ascending, descending};
        for (size_t i = 0; i < COUNT(simple); ++i)
            EXPECT(report.makespan <=
                   makespan_of(forward, backward, count, stages, simple[i], &options));
        int is_seen[MOST] = {0};
        for (size_t i = 0; i < count; ++i) EXPECT(found[i] < count && is_seen[found[i]]++ == 0);
    }
}

static void NoMicroBatches_TakeNoTime(void) {
    sab_pipeline_report report = REPORT;
    EXPECT_OK(sab_pipeline_simulate(NULL, NULL, 0, 4, NULL, NULL, NULL, &report));
    EXPECT(report.makespan == 0 && report.lower_bound == 0 && report.idle == 0);
    EXPECT_OK(sab_pipeline_order_find(NULL, NULL, 0, 4, NULL, NULL, NULL));
    const double none[] = {0, 0};
    EXPECT(makespan_of(none, NULL, 2, 4, NULL, NULL) == 0);
}

static void WrongPipelines_AreRefusedByName(void) {
    const double forward[] = {1, 2, -1}, nan[] = {1, NAN}, huge[] = {1e308, 1e308};
    const uint32_t twice[] = {1, 1}, above[] = {0, 2};
    uint32_t order[3];
    sab_pipeline_report report = REPORT;
    EXPECT_FAILS(sab_pipeline_simulate(forward, NULL, 2, 0, NULL, NULL, NULL, &report),
                 SAB_E_ARGUMENT, "stages = 0: must be from 1 to");
    EXPECT_FAILS(sab_pipeline_simulate(NULL, NULL, 2, 1, NULL, NULL, NULL, &report), SAB_E_ARGUMENT,
                 "forward = NULL");
    EXPECT_FAILS(sab_pipeline_simulate(forward, NULL, 3, 1, NULL, NULL, NULL, &report),
                 SAB_E_ARGUMENT, "forward[2] = -1: must be finite and at least 0");
    EXPECT_FAILS(sab_pipeline_simulate(forward, nan, 2, 1, NULL, NULL, NULL, &report),
                 SAB_E_ARGUMENT, "backward[1] = nan: must be finite and at least 0");
    EXPECT_FAILS(sab_pipeline_simulate(huge, NULL, 2, 1, NULL, NULL, NULL, &report), SAB_E_ARGUMENT,
                 "the sum of all times, with the transfers, must be finite");
    EXPECT_FAILS(sab_pipeline_simulate(forward, NULL, 2, 1, twice, NULL, NULL, &report),
                 SAB_E_ARGUMENT, "order[1] = 1: must not come twice");
    EXPECT_FAILS(sab_pipeline_simulate(forward, NULL, 2, 1, above, NULL, NULL, &report),
                 SAB_E_ARGUMENT, "order[1] = 2: must be below 2");
    EXPECT_FAILS(sab_pipeline_simulate(forward, NULL, (size_t)1 << 21, 1, NULL, NULL, NULL, NULL),
                 SAB_E_ARGUMENT, "forward = 2097152 micro-batches: must be at most 1048576");
    EXPECT_FAILS(sab_pipeline_simulate(forward, NULL, 2, (uint64_t)1 << 22, NULL, NULL, NULL, NULL),
                 SAB_E_ARGUMENT,
                 "forward = 2 micro-batches: must be at most 1 with 4194304 stages and "
                 "options.chunks = 1");
    sab_pipeline_options options = with(0, 0);
    EXPECT_FAILS(sab_pipeline_simulate(forward, NULL, 2, 2, NULL, &options, NULL, NULL),
                 SAB_E_ARGUMENT, "options.chunks = 0: must be from 1 to 1024");
    options = with(2, 0);
    EXPECT_FAILS(sab_pipeline_simulate(forward, NULL, 1, 2, NULL, &options, NULL, NULL),
                 SAB_E_ARGUMENT, "forward = 1 micro-batches: must be a multiple of 2, the stages");
    options = with(1, -1);
    EXPECT_FAILS(sab_pipeline_simulate(forward, NULL, 2, 2, NULL, &options, NULL, NULL),
                 SAB_E_ARGUMENT, "options.transfer = -1: must be finite and at least 0");
    report.struct_size = 1;
    EXPECT_FAILS(sab_pipeline_simulate(forward, NULL, 2, 2, NULL, NULL, NULL, &report),
                 SAB_E_ARGUMENT, "report.struct_size = 1");
    EXPECT_FAILS(sab_pipeline_order_find(forward, NULL, 2, 2, NULL, NULL, NULL), SAB_E_ARGUMENT,
                 "order = NULL");
    EXPECT_FAILS(sab_pipeline_order_find(forward, NULL, 3, 2, NULL, order, NULL), SAB_E_ARGUMENT,
                 "forward[2] = -1");
}

static int32_t count_calls(void *ctx, uint64_t done, uint64_t total) {
    EXPECT(done <= total);
    int *left = ctx;
    return --*left == 0 ? 9 : 0;
}

static void Order_CanBeCancelled(void) {
    random_state = 15;
    double forward[MOST], backward[MOST];
    draw_times(forward, backward, MOST);
    int left = 1000000;
    sab_pipeline_options options = with(1, 0);
    options.progress = count_calls;
    options.progress_ctx = &left;
    uint32_t order[MOST];
    EXPECT_OK(sab_pipeline_order_find(forward, backward, MOST, 4, &options, order, NULL));
    const int calls = 1000000 - left;
    EXPECT(calls > 20);
    for (int last = 1; last <= calls; last += 30) {
        left = last;
        order[0] = 77;
        EXPECT_FAILS(sab_pipeline_order_find(forward, backward, MOST, 4, &options, order, NULL),
                     SAB_E_CANCELLED, "code 9");
        EXPECT(order[0] == 77);
    }
}

/* The time would be unbearable if it grew with the square of the stages. */
static void ManyStages_AreSimulated(void) {
    const double forward[] = {1, 2, 3};
    const uint64_t stages = (uint64_t)1 << 19;
    sab_pipeline_report report = REPORT;
    EXPECT_OK(sab_pipeline_simulate(forward, NULL, 3, stages, NULL, NULL, NULL, &report));
    EXPECT(report.makespan >= 9 * (double)stages && report.makespan < 9.001 * (double)stages);
}

static void SearchOfAllOrders_CanBeCancelled(void) {
    const double forward[] = {5, 1, 4, 2, 6, 3};
    int left = 2;
    sab_pipeline_options options = with(1, 0);
    options.progress = count_calls;
    options.progress_ctx = &left;
    uint32_t order[6];
    EXPECT_FAILS(sab_pipeline_order_find(forward, NULL, 6, 100, &options, order, NULL),
                 SAB_E_CANCELLED, "code 9");
}

int main(void) {
    RUN(OneForwardOneBackward_TakesTheTimeOfAnotherSimulation);
    RUN(Tasks_OfAllSchedules_RunAsSoonAsTheyCan);
    RUN(EqualMicroBatches_WaitAsThePapersSay);
    RUN(ForwardPassesBeforeTheFirstBackwardPass_AreThoseOfThePapers);
    RUN(NoBackwardTimes_AreTwiceTheForwardTimes);
    RUN(Order_OfSmallCases_IsTheOptimum);
    RUN(Order_IsNeverWorseThanSimpleOnes);
    RUN(NoMicroBatches_TakeNoTime);
    RUN(WrongPipelines_AreRefusedByName);
    RUN(Order_CanBeCancelled);
    RUN(ManyStages_AreSimulated);
    RUN(SearchOfAllOrders_CanBeCancelled);
    return finish();
}
