/* A corpus in chunks of gzip, larger than memory maybe, as shuffled, size-aware batches for one of
 * several ranks, that go on at exactly the next one after a stop: on another machine, or on another
 * number of ranks. stream CHUNK... */
#include <sab.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(sab_status status) {
    if (status == SAB_OK) return;
    fprintf(stderr, "%s: %s\n", sab_status_name(status), sab_last_error_message());
    exit(1);
}

/* A batch counts words, not bytes. Runs in threads. */
static int32_t count_words(void *ctx, const sab_record *line, sab_record *made) {
    const char *text = line->data;
    double words = 0;
    (void)ctx;
    for (size_t i = 0; i < line->length; ++i)
        words += text[i] != ' ' && (i == 0 || text[i - 1] == ' ');
    made->size = words;
    return 0;
}

/* Cuts a line at a random word now and then: what is drawn is part of the state. */
static int32_t crop(void *ctx, sab_random *random, const sab_record *line, sab_record *made) {
    const char *text = line->data;
    (void)ctx;
    if (line->length < 40 || sab_random_draw_real(random) > 0.1) return 0;
    made->length = 40 + (size_t)(sab_random_draw_real(random) * (double)(line->length - 39));
    while (made->length < line->length && text[made->length] != ' ') ++made->length;
    return 0;
}

/* Puts a number before each line: the state of a recurrent stage. What it points to is copied when
 * it returns; each pipeline runs it in a thread of its own. */
static int32_t number(void *ctx, const sab_record *state, const sab_record *line, sab_record *next,
                      sab_record *made) {
    static _Thread_local uint64_t count;
    static _Thread_local char text[1 << 16];
    (void)ctx;
    count = 0;
    memcpy(&count, state->data, state->length);
    made->length = (size_t)snprintf(text, sizeof text, "%llu %.*s", (unsigned long long)count,
                                    (int)(line->length < 60000 ? line->length : 60000),
                                    (const char *)line->data);
    made->data = text;
    ++count;
    next->data = &count;
    next->length = sizeof count;
    return 0;
}

static sab_stream *pipeline(char **chunks, int count, uint64_t rank, uint64_t world_size) {
    sab_record *names = calloc((size_t)count, sizeof *names);
    for (int i = 0; i < count; ++i) {
        names[i].data = chunks[i];
        names[i].length = strlen(chunks[i]);
    }
    sab_list_stream_options order = SAB_LIST_STREAM_OPTIONS_INIT;
    /* the chunks in another order each time through, for ever */
    order.infinite = order.shuffle = 1;
    order.seed = 1;
    sab_map_stream_options words = SAB_MAP_STREAM_OPTIONS_INIT;
    words.map = count_words;
    words.threads = 2;
    sab_readahead_stream_options batches = SAB_READAHEAD_STREAM_OPTIONS_INIT;
    const sab_budget budget = {.limit = 1024}; /* padded words */
    batches.budgets = &budget;
    batches.budget_count = 1;
    batches.carry_over = 1;
    sab_stream *s = NULL;
    check(sab_list_stream_new(names, (size_t)count, &order, &s));        /* 1: chunks */
    check(sab_files_stream_new(s, NULL, &s));                            /* 2: their lines */
    check(sab_prefetch_stream_new(s, 10000, &s));                        /* 3: read in a thread */
    check(sab_shuffle_stream_new(s, SAB_SHUFFLE_BLOCKS, 100000, 2, &s)); /* 4: shuffled in blocks */
    check(sab_recurrent_stream_new(s, number, NULL, NULL, NULL, NULL, &s)); /* 5: numbered */
    check(sab_random_map_stream_new(s, crop, NULL, NULL, 3, NULL, &s)); /* 6: cropped by chance */
    /* 7: measured, in two threads */
    check(sab_map_stream_new(s, &words, &s));
    /* 8: batches of like sizes */
    check(sab_readahead_stream_new(s, &batches, &s));
    check(sab_prefetch_stream_new(s, 16, &s));            /* 9: made ahead */
    check(sab_shard_stream_new(s, rank, world_size, &s)); /* 10: this rank's */
    free(names);
    return s;
}

int main(int argc, char **argv) {
    if (argc < 2) {
        fprintf(stderr, "usage: stream CHUNK...\n");
        return 2;
    }
    sab_stream *stream = pipeline(argv + 1, argc - 1, 0, 2), *resumed[4];
    sab_record batch = {0}, same = {0};
    double words = 0, padded = 0;
    for (int i = 0; i < 200; ++i) {
        check(sab_stream_next(stream, &batch));
        const sab_record *lines = batch.data; /* the longest comes first */
        words += batch.size;
        padded += (double)batch.length * lines[0].size;
    }
    size_t size = 0;
    check(sab_stream_state_save(stream, NULL, 0, &size));
    void *state = malloc(size);
    check(sab_stream_state_save(stream, state, size, &size));
    /* as other processes would, on four ranks instead of two */
    for (uint64_t rank = 0; rank < 4; ++rank) {
        resumed[rank] = pipeline(argv + 1, argc - 1, rank, 4);
        check(sab_stream_state_restore(resumed[rank], state, size));
    }
    free(state);
    int differ = 0;
    /* rank 0 of two sees every other batch of what four ranks see */
    for (int i = 0; i < 100; ++i) {
        check(sab_stream_next(stream, &batch));
        check(sab_stream_next(resumed[i % 2 * 2], &same));
        const sab_record *a = batch.data, *b = same.data;
        differ += batch.length != same.length || a[0].length != b[0].length ||
                  memcmp(a[0].data, b[0].data, a[0].length) != 0;
    }
    printf(
        "10 stages, 200 batches, %.1f %% padding; the state has %d bytes; 100 batches after it on "
        "four ranks instead of two, %d of them different\n",
        100 * (1 - words / padded), (int)size, differ);
    for (int rank = 0; rank < 4; ++rank) sab_stream_free(resumed[rank]);
    sab_stream_free(stream);
    return differ;
}
