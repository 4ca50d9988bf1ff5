/* Version, option structs, callbacks, cancelling, log, locale. */
#define _GNU_SOURCE
#include <locale.h>
#include <pthread.h>
#include <unistd.h>

#include "helpers.h"
#include "one.h"

static void Library_SaysItsVersion(void) {
    EXPECT(strncmp(sab_version_string(), "0.", 2) == 0);
    EXPECT(sab_abi_version() >= 1 && sab_abi_version() < 1000); /* 0.1 or a later 0.x */
    EXPECT(strcmp(sab_status_name(SAB_E_MISMATCH), "SAB_E_MISMATCH") == 0);
    EXPECT(strcmp(sab_status_name(12345), "unknown status") == 0);
}

static int32_t fails_at_index(void *ctx, int64_t index, double *size) {
    *size = (double)index;
    return index == *(const int *)ctx ? 77 : 0;
}

static void Callbacks_ThatFail_GiveTheirCodeBack(void) {
    sab_sizes *sizes = NULL;
    int fails_at = 3;
    EXPECT_FAILS(sab_sizes_callback_new(5, fails_at_index, &fails_at, NULL, &sizes), SAB_E_CALLBACK,
                 "code 77 at index 3");
    EXPECT(sab_last_error_code() == 77 && sizes == NULL);
    fails_at = -1;
    EXPECT_FAILS(sab_sizes_callback_new(1000000, fails_at_index, &fails_at,
                                        a_progress(stop_at_half, NULL), &sizes),
                 SAB_E_CANCELLED, "code 55");
    EXPECT(sab_last_error_code() == 55);
    EXPECT_FAILS(sab_sizes_callback_new(5, NULL, NULL, NULL, &sizes), SAB_E_ARGUMENT,
                 "size = NULL");
    EXPECT(sab_last_error_code() == 0);
    EXPECT_OK(sab_sizes_callback_new(5, fails_at_index, &fails_at, NULL, &sizes));
    double value = 0;
    EXPECT_OK(sab_sizes_get(sizes, 4, 1, &value));
    EXPECT(value == 4);
    sab_sizes_free(sizes);
}

static void Options_OfOtherSizes_AreReadByRule(void) {
    sab_sizes *sizes = sizes_of(lengths(50), 50);
    sab_plan *plan = NULL;
    struct {
        sab_plan_options known;
        char more[24];
    } larger;
    memset(&larger, 0, sizeof larger);
    larger.known = budget(300);
    larger.known.struct_size = sizeof larger;
    EXPECT_OK(sab_plan_new(sizes, &larger.known, &plan));
    sab_plan_free(plan);
    larger.more[23] = 1;
    EXPECT_FAILS(sab_plan_new(sizes, &larger.known, &plan), SAB_E_ARGUMENT,
                 "is set, but this library knows only the first");
    sab_plan_options options = budget(300);
    options.struct_size = sizeof options - 1;
    EXPECT_FAILS(sab_plan_new(sizes, &options, &plan), SAB_E_ARGUMENT, "options.struct_size");
    options.struct_size = 0;
    EXPECT_FAILS(sab_plan_new(sizes, &options, &plan), SAB_E_ARGUMENT, "options.struct_size = 0");

    plan = a_plan();
    sab_plan_info info = SAB_PLAN_INFO_INIT;
    info.struct_size = 4;
    EXPECT_FAILS(sab_plan_get_info(plan, &info), SAB_E_ARGUMENT, "info.struct_size = 4");
    sab_bucket bucket = SAB_BUCKET_INIT;
    bucket.struct_size = 4;
    EXPECT_FAILS(sab_plan_get_bucket(plan, 0, &bucket), SAB_E_ARGUMENT, "bucket.struct_size = 4");
    sab_plan_report report = SAB_PLAN_REPORT_INIT;
    report.struct_size = 4;
    EXPECT_FAILS(sab_plan_get_report(plan, NULL, NULL, &report), SAB_E_ARGUMENT,
                 "report.struct_size = 4");
    sab_sampler *sampler = rank_of(plan, 0, 1);
    struct {
        sab_batch known;
        char more[8];
    } batch = {SAB_BATCH_INIT, "ffffff"};
    batch.known.struct_size = sizeof batch;
    EXPECT_OK(sab_next_batch(sampler, &batch.known));
    EXPECT(batch.known.struct_size == sizeof batch && strcmp(batch.more, "ffffff") == 0);
    batch.known.struct_size = 8;
    EXPECT_FAILS(sab_next_batch(sampler, &batch.known), SAB_E_ARGUMENT, "batch.struct_size = 8");
    sab_sampler_free(sampler);
    sab_plan_free(plan);
    sab_sizes_free(sizes);
}

static int cancel_flag;

static int32_t cancelled(void *ctx, uint64_t done, uint64_t total) {
    (void)ctx, (void)done, (void)total;
    return __atomic_load_n(&cancel_flag, __ATOMIC_ACQUIRE);
}

static int32_t slow_size(void *ctx, int64_t index, double *size) {
    (void)ctx;
    *size = (double)(index % 100);
    if (index % 1000 == 0) usleep(100);
    return 0;
}

static void *cancel_soon(void *ctx) {
    usleep(20000);
    __atomic_store_n(&cancel_flag, 66, __ATOMIC_RELEASE);
    return ctx;
}

static void LongBuild_IsCancelledFromAnotherThread(void) {
    pthread_t thread;
    sab_sizes *sizes = NULL;
    pthread_create(&thread, NULL, cancel_soon, NULL);
    EXPECT_FAILS(
        sab_sizes_callback_new(400000000, slow_size, NULL, a_progress(cancelled, NULL), &sizes),
        SAB_E_CANCELLED, "code 66");
    EXPECT(sizes == NULL && sab_last_error_code() == 66);
    pthread_join(thread, NULL);
    const int32_t numbers[] = {1, 2, 3};
    sizes = sizes_of(numbers, 3);
    sab_plan_options options = budget(4);
    options.progress = cancelled;
    sab_plan *plan = NULL;
    EXPECT_FAILS(sab_plan_new(sizes, &options, &plan), SAB_E_CANCELLED, "code 66");
    sab_sizes_free(sizes);
}

static char logged[256];
static int log_lines;

static void keep_log(void *ctx, sab_log_level level, const char *message) {
    EXPECT(ctx == logged && level == SAB_LOG_WARNING);
    snprintf(logged, sizeof logged, "%s", message);
    ++log_lines;
}

static void Log_SaysOnceWhatIsSkipped(void) {
    sab_plan_options options = budget(40);
    options.oversize = SAB_OVERSIZE_SKIP;
    sab_log_set_callback(keep_log, logged);
    sab_plan *plan = plan_with(lengths(500), 500, &options);
    sab_log_set_callback(NULL, NULL);
    EXPECT(log_lines == 1 && strstr(logged, "skipped") != NULL &&
           strstr(logged, "of 500 samples") != NULL);
    sab_plan_free(plan);
    plan = plan_with(lengths(500), 500, &options);
    EXPECT(log_lines == 1);
    sab_plan_free(plan);
}

static void Messages_DoNotDependOnTheLocale(void) {
    if (setlocale(LC_ALL, "de_DE.UTF-8") == NULL) setlocale(LC_ALL, "");
    sab_plan_options options = budget(-1.5);
    sab_sizes *sizes = sizes_of(lengths(5), 5);
    sab_plan *plan = NULL;
    EXPECT_FAILS(sab_plan_new(sizes, &options, &plan), SAB_E_ARGUMENT,
                 "options.budgets[0].limit = -1.5");
    sab_sizes_free(sizes);
    setlocale(LC_ALL, "C");
}

int main(void) {
    EXPECT(strcmp(sab_last_error_message(), "") == 0);
    RUN(Library_SaysItsVersion);
    RUN(Callbacks_ThatFail_GiveTheirCodeBack);
    RUN(Options_OfOtherSizes_AreReadByRule);
    RUN(LongBuild_IsCancelledFromAnotherThread);
    RUN(Log_SaysOnceWhatIsSkipped);
    RUN(Messages_DoNotDependOnTheLocale);
    return finish();
}
