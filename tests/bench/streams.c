/* Records a second of a pipeline from C: streams HOW CHUNK... Lines of gzip, shuffled in blocks of
 * 100,000, in batches of 16,384 bytes read 10,000 ahead. HOW: the number of readers; "prefetch" for
 * none and a thread that prefetches the lines; "read" for the lines alone, in one thread. */
#include <string.h>

#include "timing.h"

int main(int argc, char** argv) {
    if (argc < 3) return 2;
    const int is_reading_only = strcmp(argv[1], "read") == 0;
    sab_record *names = calloc((size_t)argc, sizeof *names), record = {0};
    for (int i = 2; i < argc; ++i) {
        names[i - 2].data = argv[i];
        names[i - 2].length = strlen(argv[i]);
    }
    sab_list_stream_options order = SAB_LIST_STREAM_OPTIONS_INIT;
    order.infinite = order.shuffle = 1;
    sab_readahead_stream_options batches = SAB_READAHEAD_STREAM_OPTIONS_INIT;
    const sab_budget budget = {.limit = 16384};
    batches.budgets = &budget;
    batches.budget_count = 1;
    sab_stream* s = NULL;
    check(sab_list_stream_new(names, (size_t)argc - 2, &order, &s));
    sab_files_stream_options options = SAB_FILES_STREAM_OPTIONS_INIT;
    options.readers = (uint64_t)atoi(argv[1]); /* 0 of a word */
    check(sab_files_stream_new(s, &options, &s));
    if (strcmp(argv[1], "prefetch") == 0) check(sab_prefetch_stream_new(s, 100000, &s));
    if (!is_reading_only) {
        check(sab_shuffle_stream_new(s, SAB_SHUFFLE_BLOCKS, 100000, 1, &s));
        check(sab_readahead_stream_new(s, &batches, &s));
    }
    double best = 0;
    for (int run = 0; run < 5; ++run) {
        double count = 0;
        const double begin = now();
        while (count < 2e6) {
            check(sab_stream_next(s, &record));
            count += record.kind == SAB_RECORD_LIST ? (double)record.length : 1;
        }
        const double rate = count / (now() - begin);
        best = rate > best ? rate : best;
    }
    printf("%.0f\n", best);
    sab_stream_free(s);
    free(names);
    return 0;
}
