/* Arrays for options that take one number a column, where a test has one number. They stay valid
 * until 256 more were made in the thread. */
#ifndef SAB_TESTS_ONE_H
#define SAB_TESTS_ONE_H

#include <sab.h>

#ifdef __cplusplus
#define SAB_TEST_THREAD_LOCAL thread_local
#else
#define SAB_TEST_THREAD_LOCAL _Thread_local
#endif

/* Declares `one`, the next of 256 objects of a type. */
#define SAB_TEST_ONE(type)                       \
    static SAB_TEST_THREAD_LOCAL type kept[256]; \
    static SAB_TEST_THREAD_LOCAL unsigned next;  \
    type *const one = &kept[next = (next + 1) % 256]

static inline const uint64_t *one_count(uint64_t value) {
    SAB_TEST_ONE(uint64_t);
    *one = value;
    return one;
}

static inline const double *one_number(double value) {
    SAB_TEST_ONE(double);
    *one = value;
    return one;
}

static inline const sab_budget *one_budget(double limit) {
    SAB_TEST_ONE(sab_budget);
    one->limit = limit;
    return one;
}

static inline const sab_progress_options *a_progress(sab_progress_fn progress, void *ctx) {
    static SAB_TEST_THREAD_LOCAL sab_progress_options made;
    made.struct_size = sizeof made;
    made.progress = progress;
    made.progress_ctx = ctx;
    return &made;
}

#if SAB_WITH_STEPS
static inline const sab_verification_options *a_verification(uint64_t count,
                                                             sab_progress_fn progress, void *ctx) {
    static SAB_TEST_THREAD_LOCAL sab_verification_options made;
    made.struct_size = sizeof made;
    made.count = count;
    made.progress = progress;
    made.progress_ctx = ctx;
    return &made;
}
#endif

#ifdef __cplusplus
#include <deque>
#include <vector>

inline sab_cost_term term_of(double coefficient, uint32_t count_power,
                             std::vector<uint32_t> powers) {
    static thread_local std::deque<std::vector<uint32_t>> kept;
    kept.push_back(std::move(powers));
    return {coefficient,
            count_power,
            static_cast<uint32_t>(kept.back().size()),
            kept.back().data(),
            {}};
}
#else
/* The powers of the lengths of a sab_cost_term. */
#define POWERS(...)                                                                      \
    (uint32_t)(sizeof(uint32_t[]){__VA_ARGS__} / sizeof(uint32_t)), (const uint32_t[]) { \
        __VA_ARGS__                                                                      \
    }
#endif

#endif
