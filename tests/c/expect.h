/* The few lines that these tests need of a test framework: what they check is only the installed
 * library. */
#ifndef EXPECT_H
#define EXPECT_H

#include <stdio.h>
#include <string.h>

#include <sab.h>

#include "../rounds.h"

static int failures_of_test;
static int passed_tests, failed_tests;

#define EXPECT(condition)                                                           \
    do {                                                                            \
        if (!(condition)) {                                                         \
            ++failures_of_test;                                                     \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
        }                                                                           \
    } while (0)

/* A call fails with `status`, and the message says what it should. */
#define EXPECT_FAILS(call, status, words)                                                        \
    do {                                                                                         \
        const sab_status got_ = (call);                                                          \
        if (got_ != (status) || strstr(sab_last_error_message(), (words)) == NULL) {             \
            ++failures_of_test;                                                                  \
            fprintf(stderr, "%s:%d: %s gave %s \"%s\", expected %s with \"%s\"\n", __FILE__,     \
                    __LINE__, #call, sab_status_name(got_),                                      \
                    got_ < 0 ? sab_last_error_message() : "", sab_status_name(status), (words)); \
        }                                                                                        \
    } while (0)

#define EXPECT_OK(call)                                                              \
    do {                                                                             \
        const sab_status got_ = (call);                                              \
        if (got_ != SAB_OK) {                                                        \
            ++failures_of_test;                                                      \
            fprintf(stderr, "%s:%d: %s gave %s \"%s\"\n", __FILE__, __LINE__, #call, \
                    sab_status_name(got_), sab_last_error_message());                \
        }                                                                            \
    } while (0)

#define RUN(test)                                  \
    do {                                           \
        failures_of_test = 0;                      \
        test();                                    \
        if (failures_of_test == 0) {               \
            ++passed_tests;                        \
        } else {                                   \
            ++failed_tests;                        \
            fprintf(stderr, "FAILED %s\n", #test); \
        }                                          \
    } while (0)

static int finish(void) {
    printf("%d passed, %d failed\n", passed_tests, failed_tests);
    return failed_tests > 0;
}

#endif
