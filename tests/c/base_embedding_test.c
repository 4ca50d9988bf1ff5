/* libsab as a guest: several copies in a process, unloaded under threads, and processes that do
 * what processes do. embedding_test EMBEDDED_SO */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "caches.h"
#include "copies.h"
#include "one.h"

static char folder[64];
static const char *embedded;   /* a shared object that has the static library inside */
static char library[PATH_MAX]; /* the one that this program is linked to */

#define FILL(function) function,
static const copy own = {NULL, EACH_FUNCTION(FILL)};

static copy functions_of(void *handle) {
    copy made;
    made.library = handle;
#define FIND(function) *(void **)&made.function = dlsym(handle, #function);
    EACH_FUNCTION(FIND)
    return made;
}

/* The library's file under another name: for the loader another library, of the same soname. */
static const char *copied(void) {
    static char path[128];
    char command[PATH_MAX + 256];
    snprintf(path, sizeof path, "%s/XXXXXX", folder);
    EXPECT(mkdtemp(path) != NULL);
    strcat(path, "/libsab.so.0");
    snprintf(command, sizeof command, "cp -L '%s' '%s'", library, path);
    EXPECT(system(command) == 0);
    return path;
}

static void *opened_library(const char *path, int flags) {
    void *handle = dlopen(path, flags);
    if (handle == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1); /* of no use without it */
    }
    return handle;
}

enum { COPY, COPY_BOUND_TO_ITSELF, NEW_NAMESPACE, INSIDE, WAYS };

static copy another(int way) {
    copy made = {0};
    switch (way) {
        case COPY: return functions_of(opened_library(copied(), RTLD_NOW | RTLD_LOCAL));
#ifdef __GLIBC__
        case COPY_BOUND_TO_ITSELF:
            return functions_of(opened_library(copied(), RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND));
        case NEW_NAMESPACE: {
            void *handle = dlmopen(LM_ID_NEWLM, library, RTLD_NOW);
            if (handle == NULL) fprintf(stderr, "%s\n", dlerror()), exit(1);
            return functions_of(handle);
        }
#endif
        default: {
            void *handle = opened_library(embedded, RTLD_NOW | RTLD_LOCAL);
            void (*fill)(copy *) = NULL;
            *(void **)&fill = dlsym(handle, "embedded_functions");
            fill(&made);
            made.library = handle;
#ifdef __GLIBC__ /* elsewhere the linker may lack the means */
            EXPECT(dlsym(handle, "sab_sizes_new") == NULL); /* its own affair */
#endif
            return made;
        }
    }
}

/* In a child, whose crash is a failure like another. */
static void in_child(void (*test)(void)) {
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        test();
        fflush(NULL);
        _exit(failures_of_test == 0 ? 0 : 1);
    }
    int status = 1;
    EXPECT(waitpid(child, &status, 0) == child);
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    if (WIFSIGNALED(status)) fprintf(stderr, "it died of signal %d\n", WTERMSIG(status));
}

/* ---- what is done with a copy ---- */

static sab_sampler *sampler_of(const copy *of, double most) {
    sab_sizes *sizes = NULL;
    sab_plan *plan = NULL;
    sab_sampler *sampler = NULL;
    sab_plan_options options = budget(most);
    options.oversize = SAB_OVERSIZE_SKIP;
    EXPECT(of->sab_sizes_new(lengths(500), 500, SAB_INT32, NULL, &sizes) == SAB_OK);
    EXPECT(of->sab_plan_new(sizes, &options, &plan) == (most < 0 ? SAB_E_ARGUMENT : SAB_OK));
    if (plan != NULL) EXPECT(of->sab_bucket_sampler_new(plan, NULL, &sampler) == SAB_OK);
    of->sab_plan_free(plan);
    of->sab_sizes_free(sizes);
    return sampler;
}

/* A number that no two epochs share. */
static uint64_t epoch_of(const copy *of) {
    sab_sampler *sampler = sampler_of(of, 300);
    sab_batch batch = SAB_BATCH_INIT;
    uint64_t hash = 1;
    while (of->sab_next_batch(sampler, &batch) == SAB_OK)
        for (uint64_t i = 0; i < batch.count; ++i)
            hash = hash * 6364136223846793005u + (uint64_t)batch.indices[i] + batch.step;
    of->sab_sampler_free(sampler);
    return hash;
}

static void count_line(void *ctx, sab_log_level level, const char *message) {
    (void)level, (void)message;
    ++*(int *)ctx;
}

static atomic_int taken;

static int32_t endless(void *ctx, sab_record *record) {
    (void)ctx;
    wait_ms(1);
    atomic_fetch_add(&taken, 1);
    record->data = "a";
    record->length = 1;
    return 0;
}

static sab_stream *running_stream(const copy *of) {
    sab_source_functions functions = SAB_SOURCE_FUNCTIONS_INIT;
    functions.next = endless;
    sab_stream *stream = NULL;
    sab_record record = {0};
    EXPECT(of->sab_callback_stream_new(&functions, &stream) == SAB_OK);
    EXPECT(of->sab_prefetch_stream_new(stream, 1 << 20, &stream) == SAB_OK);
    EXPECT(of->sab_stream_next(stream, &record) == SAB_OK);
    return stream;
}

static void expect_more_is_taken(void) {
    const int before = atomic_load(&taken);
    for (int i = 0; i < 20000 && atomic_load(&taken) < before + 20; ++i) wait_ms(1);
    EXPECT(atomic_load(&taken) >= before + 20);
}

static sab_cache *cache_of(const copy *of) {
    char path[128], url[160];
    sab_cache *cache = NULL;
    snprintf(path, sizeof path, "%s/XXXXXX", folder);
    EXPECT(mkdtemp(path) != NULL);
    snprintf(url, sizeof url, "lmdb:%s/values.mdb", path);
    EXPECT(of->sab_cache_new(url, NULL, &cache) == SAB_OK);
    EXPECT(of->sab_cache_put(cache, "key", 3, "value", 5) == SAB_OK);
    return cache;
}

static int has_value(const copy *of, sab_cache *cache) {
    sab_cache_value *value = NULL;
    size_t size = 0;
    const int is_there = of->sab_cache_get(cache, "key", 3, &value) == SAB_OK && value != NULL &&
                         memcmp(of->sab_cache_value_data(value, &size), "value", 5) == 0;
    of->sab_cache_value_free(value);
    return is_there;
}

/* ---- several copies ---- */

static void copies_do_not_disturb_each_other(int way) {
    const copy other = another(way);
    EXPECT(other.sab_next_batch != own.sab_next_batch);
    EXPECT(epoch_of(&other) == epoch_of(&own));

    /* the last error */
    sampler_of(&own, -1);
    EXPECT(strstr(own.sab_last_error_message(), "limit = -1") != NULL &&
           other.sab_last_error_message()[0] == '\0');
    sampler_of(&other, -2);
    EXPECT(strstr(own.sab_last_error_message(), "limit = -1") != NULL &&
           strstr(other.sab_last_error_message(), "limit = -2") != NULL);

    /* the log: samples that are too long are skipped, which is told */
    int lines = 0, other_lines = 0;
    own.sab_log_set_callback(count_line, &lines);
    other.sab_sampler_free(sampler_of(&other, 20));
    EXPECT(lines == 0);
    other.sab_log_set_callback(count_line, &other_lines);
    other.sab_sampler_free(sampler_of(&other, 20));
    EXPECT(lines == 0 && other_lines > 0);
    own.sab_log_set_callback(NULL, NULL);
    other.sab_log_set_callback(NULL, NULL);

    /* threads, files and a fork */
    sab_stream *streams[] = {running_stream(&own), running_stream(&other)};
    sab_cache *caches[] = {cache_of(&own), cache_of(&other)};
    const copy *both[] = {&own, &other};
    fflush(NULL);
    const pid_t child = fork();
    sab_record record = {0};
    for (int i = 0; i < 2; ++i) /* fork() of one C library does not tell another's handlers */
        if (child != 0 || way != NEW_NAMESPACE || i == 0) EXPECT(has_value(both[i], caches[i]));
    if (child != 0) /* a child's own thread would need a source that rewinds */
        for (int i = 0; i < 2; ++i) EXPECT(both[i]->sab_stream_next(streams[i], &record) == SAB_OK);
    if (child != 0 || way != NEW_NAMESPACE)
        for (int i = 0; i < 2; ++i)
            both[i]->sab_stream_free(streams[i]), both[i]->sab_cache_free(caches[i]);
    if (child == 0) _exit(failures_of_test == 0 ? 0 : 1);
    int status = 1;
    EXPECT(waitpid(child, &status, 0) == child && status == 0);
}

static void copy_beside_this_one(void) {
    copies_do_not_disturb_each_other(COPY);
}
static void copy_inside_a_shared_object(void) {
    copies_do_not_disturb_each_other(INSIDE);
}
static void CopyBesideThisOne_SharesNothingWithIt(void) {
    in_child(copy_beside_this_one);
}
static void StaticLibraryInASharedObject_SharesNothingWithThisOne(void) {
    in_child(copy_inside_a_shared_object);
}
#ifdef __GLIBC__ /* the only one that loads in these ways */
static void copy_bound_to_itself(void) {
    copies_do_not_disturb_each_other(COPY_BOUND_TO_ITSELF);
}
static void copy_in_a_new_namespace(void) {
    copies_do_not_disturb_each_other(NEW_NAMESPACE);
}
static void CopyBoundToItself_SharesNothingWithThisOne(void) {
    in_child(copy_bound_to_itself);
}
static void CopyInANewNamespace_SharesNothingWithThisOne(void) {
    in_child(copy_in_a_new_namespace);
}
#endif

/* The component lies beside the copy that looks for it, though the first copy's functions come
 * first in the process. */
static void a_copy_looks_beside_itself(void) {
    unsetenv("SAB_TORCH_LIBRARY");
    const char *path = copied();
    char component[PATH_MAX];
    snprintf(component, sizeof component, "%.*s/libsab_torch.so.0",
             (int)(strrchr(path, '/') - path), path);
    FILE *file = fopen(component, "w");
    EXPECT(file != NULL && fputs("no library", file) >= 0 && fclose(file) == 0);
    const copy other = functions_of(opened_library(path, RTLD_NOW | RTLD_LOCAL));
    EXPECT(other.sab_torch_open(NULL, NULL) == SAB_E_IO &&
           strstr(other.sab_last_error_message(), component) != NULL);
}

static void CopyOfTheLibrary_LooksForItsComponentBesideItself(void) {
    in_child(a_copy_looks_beside_itself);
}

/* ---- dlclose ---- */

static void closed_while_a_thread_runs(int way) {
    const copy other = another(way);
    sab_stream *stream = running_stream(&other);
    expect_more_is_taken();
    EXPECT(dlclose(other.library) == 0);
    expect_more_is_taken(); /* the thread came back from this program into the library */
    sab_record record = {0};
    EXPECT(other.sab_stream_next(stream, &record) == SAB_OK);
    other.sab_stream_free(stream);
}

static pthread_barrier_t barrier;

static void *fails_and_stays(void *of) {
    const copy *other = of;
    sampler_of(other, -1);
    const char *message = other->sab_last_error_message();
    pthread_barrier_wait(&barrier); /* closed after this ... */
    pthread_barrier_wait(&barrier); /* ... before this */
    EXPECT(strstr(message, "limit = -1") != NULL);
    sampler_of(other, -2);
    EXPECT(strstr(other->sab_last_error_message(), "limit = -2") != NULL);
    return NULL;
}

static void closed_while_a_thread_has_a_message(void) {
    copy other = another(COPY);
    pthread_t thread;
    pthread_barrier_init(&barrier, NULL, 2);
    EXPECT(pthread_create(&thread, NULL, fails_and_stays, &other) == 0);
    pthread_barrier_wait(&barrier);
    EXPECT(dlclose(other.library) == 0);
    pthread_barrier_wait(&barrier);
    EXPECT(pthread_join(thread, NULL) == 0);
}

static void closed_before_a_fork(void) {
    const copy other = another(COPY);
    sab_cache *cache = cache_of(&other);
    sab_stream *stream = running_stream(&other);
    EXPECT(dlclose(other.library) == 0);
    const pid_t child = fork();
    /* that the fork was told shows here: the child may not touch the parent's file */
    EXPECT(has_value(&other, cache));
    other.sab_cache_free(cache);
    other.sab_stream_free(stream);
    if (child == 0) _exit(failures_of_test == 0 ? 0 : 1);
    int status = 1;
    EXPECT(waitpid(child, &status, 0) == child && status == 0);
}

static void copy_closed_while_a_thread_runs(void) {
    closed_while_a_thread_runs(COPY);
}
static void shared_object_closed_while_a_thread_runs(void) {
    closed_while_a_thread_runs(INSIDE);
}
static void ClosedLibrary_ItsThreadsGoOn(void) {
    in_child(copy_closed_while_a_thread_runs);
}
static void ClosedSharedObjectWithTheStaticLibrary_ItsThreadsGoOn(void) {
    in_child(shared_object_closed_while_a_thread_runs);
}
static void ClosedLibrary_MessagesOfThreadsStay(void) {
    in_child(closed_while_a_thread_has_a_message);
}
static void ClosedLibrary_ForksAreStillTold(void) {
    in_child(closed_before_a_fork);
}

static int open_files(void) {
    int count = 0;
    for (int file = 0; file < 1024; ++file) count += fcntl(file, F_GETFD) != -1;
    return count;
}

static size_t bytes_in_use(void) {
#ifdef __GLIBC__
    return mallinfo2().uordblks;
#else
    return 0; /* nobody tells */
#endif
}

/* Handles of every kind that owns something, made and freed. */
static void make_and_free(const copy *of, const char *url) {
    EXPECT(epoch_of(of) != 0);
    sampler_of(of, -1);
    of->sab_stream_free(running_stream(of));
    sab_cache *cache = NULL;
    EXPECT(of->sab_cache_new(url, NULL, &cache) == SAB_OK);
    EXPECT(of->sab_cache_put(cache, "key", 3, "value", 5) == SAB_OK && has_value(of, cache));
    of->sab_cache_free(cache);
}

static void opened_and_closed_again_and_again(void) {
    char path[128], url[128];
    snprintf(path, sizeof path, "%s", copied());
    snprintf(url, sizeof url, "lmdb:%s/cycles.mdb", folder);
    int files = 0;
    size_t bytes = 0;
    for (int i = 0; i < 200; ++i) {
        const copy other = functions_of(opened_library(path, RTLD_NOW | RTLD_LOCAL));
        make_and_free(&other, url);
        EXPECT(dlclose(other.library) == 0);
        if (i == 20) { /* what is kept for good is there */
            files = open_files();
            bytes = bytes_in_use();
        }
    }
    EXPECT(open_files() == files);
    EXPECT(bytes_in_use() < bytes + 16 * 1024); /* less than a hundred bytes a cycle */
}

static void LibraryOpenedAgainAndAgain_LeaksNeitherFilesNorMemory(void) {
    in_child(opened_and_closed_again_and_again);
}

/* ---- threads and processes of others ---- */

#define LEAST_STACK (64 * 1024) /* what the header says */

static void *all_sorts_of_work(void *server) {
    char url[128];
    snprintf(url, sizeof url, "lmdb:%s/work.mdb", folder);
    make_and_free(&own, url);
    if (server != NULL) make_and_free(&own, server);
    sab_sampler *sampler = sampler_of(&own, 300);
    sab_batch batch = SAB_BATCH_INIT;
    EXPECT(sab_sampler_at(sampler, 1, &batch) == SAB_OK);
    sab_sampler_free(sampler);
    sab_plan *plan = a_plan();
    sab_plan_report report = SAB_PLAN_REPORT_INIT;
    EXPECT_OK(sab_plan_get_report(plan, NULL, NULL, &report));
    sab_plan_free(plan);
    const double boundaries[] = {0, 20, 100};
    sab_plan_options options = budget(300);
    options.bucket_rule = SAB_BUCKETS_BOUNDARIES;
    options.boundaries = boundaries;
    options.boundary_count = 3;
    plan = plan_with(lengths(500), 500, &options);
    EXPECT_OK(sab_bionemo_sampler_new(plan, NULL, &sampler));
    EXPECT_OK(sab_next_batch(sampler, &batch));
    sab_sampler_free(sampler);
    sab_plan_free(plan);
    sab_sizes *sizes = sizes_of(lengths(500), 500);
    sab_packed_options pack = SAB_PACKED_OPTIONS_INIT;
    pack.capacities = one_count(100), pack.capacity_count = 1;
    EXPECT_OK(sab_packed_sampler_new(sizes, &pack, NULL, &sampler));
    EXPECT_OK(sab_next_batch(sampler, &batch));
    sab_sampler_free(sampler);
    double thresholds[8];
    sab_thresholds_info info = SAB_THRESHOLDS_INFO_INIT;
    EXPECT_OK(sab_thresholds_find(sizes, 4, NULL, thresholds, &info));
    double costs[500];
    uint32_t part_of[500];
    for (int i = 0; i < 500; ++i) costs[i] = lengths(500)[i];
    EXPECT_OK(sab_items_partition(costs, 500, 7, NULL, part_of));
    sab_sizes_free(sizes);
    return NULL;
}

static void ThreadWithASmallStack_CanUseTheLibrary(void) {
    pthread_attr_t attributes;
    pthread_t thread;
    const long system_least = sysconf(_SC_THREAD_STACK_MIN); /* more than that on some processors */
    EXPECT(pthread_attr_init(&attributes) == 0 &&
           pthread_attr_setstacksize(
               &attributes, system_least > LEAST_STACK ? (size_t)system_least : LEAST_STACK) == 0);
    EXPECT(pthread_create(&thread, &attributes, all_sorts_of_work, "redis-server:") == 0);
    EXPECT(pthread_join(thread, NULL) == 0);
    pthread_attr_destroy(&attributes);
}

static void ThreadWithAllSignalsBlocked_CanUseTheLibraryAndKeepsItsMask(void) {
    sigset_t all, before, after;
    sigfillset(&all);
    EXPECT(pthread_sigmask(SIG_SETMASK, &all, &before) == 0);
    all_sorts_of_work(NULL);
    EXPECT(pthread_sigmask(SIG_SETMASK, &before, &after) == 0);
    for (int number = 1; number < 32; ++number)
        EXPECT(sigismember(&after, number) == (number != SIGKILL && number != SIGSTOP));
}

static void without_standard_streams(const char *url) {
    close(0), close(1), close(2);
    sab_cache *cache = NULL;
    EXPECT(sab_cache_new(url, NULL, &cache) == SAB_OK);
    EXPECT(sab_cache_put(cache, "key", 3, "value", 5) == SAB_OK && has_value(&own, cache));
    /* and not into a file or a connection of the cache's */
    for (int file = 0; file < 3; ++file) EXPECT(write(file, "printed by somebody", 19) < 0);
    EXPECT(has_value(&own, cache));
    sab_cache_free(cache);
    EXPECT(fcntl(0, F_GETFD) == -1 && fcntl(1, F_GETFD) == -1 && fcntl(2, F_GETFD) == -1);
}

static void a_file_without_standard_streams(void) {
    char url[128];
    snprintf(url, sizeof url, "lmdb:%s/no_streams.mdb", folder);
    without_standard_streams(url);
}

static void a_connection_without_standard_streams(void) {
    without_standard_streams("redis-server:");
}

static void ProcessWithoutStandardStreams_PrintsIntoNoFileOfTheLibrary(void) {
    in_child(a_file_without_standard_streams);
}
static void ProcessWithoutStandardStreams_PrintsIntoNoConnectionOfTheLibrary(void) {
    in_child(a_connection_without_standard_streams);
}

int main(int argc, char **argv) {
    Dl_info info;
    embedded = argc > 1 ? argv[1] : "";
    if (dladdr(dlsym(RTLD_DEFAULT, "sab_plan_new"), &info) == 0 ||
        realpath(info.dli_fname, library) == NULL)
        return 1;
    snprintf(folder, sizeof folder, "/tmp/sab_embedding_XXXXXX");
    if (mkdtemp(folder) == NULL) return 1;
    RUN(CopyBesideThisOne_SharesNothingWithIt);
#ifdef __GLIBC__
    RUN(CopyBoundToItself_SharesNothingWithThisOne);
    RUN(CopyInANewNamespace_SharesNothingWithThisOne);
#endif
    RUN(StaticLibraryInASharedObject_SharesNothingWithThisOne);
    RUN(CopyOfTheLibrary_LooksForItsComponentBesideItself);
    RUN(ClosedLibrary_ItsThreadsGoOn);
    RUN(ClosedSharedObjectWithTheStaticLibrary_ItsThreadsGoOn);
    RUN(ClosedLibrary_MessagesOfThreadsStay);
    RUN(ClosedLibrary_ForksAreStillTold);
    RUN(LibraryOpenedAgainAndAgain_LeaksNeitherFilesNorMemory);
    RUN(ThreadWithASmallStack_CanUseTheLibrary);
    RUN(ThreadWithAllSignalsBlocked_CanUseTheLibraryAndKeepsItsMask);
    RUN(ProcessWithoutStandardStreams_PrintsIntoNoFileOfTheLibrary);
    RUN(ProcessWithoutStandardStreams_PrintsIntoNoConnectionOfTheLibrary);
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", folder);
    if (system(command) != 0) return 1;
    return finish();
}
