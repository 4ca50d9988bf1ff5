/* What benches in C share. */
#ifndef TIMING_H
#define TIMING_H

#include <sab.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static inline void check(sab_status status) {
    if (status == SAB_OK) return;
    fprintf(stderr, "%s\n", sab_last_error_message());
    exit(1);
}

static inline double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* Keeps the least of what one of `count` took. */
static inline void least(double* best, double began, int count) {
    const double spent = (now() - began) / count;
    if (*best == 0 || spent < *best) *best = spent;
}

#endif
