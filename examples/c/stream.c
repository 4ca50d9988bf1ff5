/* A corpus in gzip chunks, larger than memory maybe: shuffled, size-aware batches that go on at exactly the next one after a stop.
 * stream CHUNK... */
#include <sab.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(sab_status status) {
    if (status == SAB_OK) return;
    fprintf(stderr, "%s: %s\n", sab_status_name(status), sab_last_error_message());
    exit(1);
}

/* A batch counts words, not bytes. */
static int32_t count_words(void *ctx, const sab_record *line, sab_record *made) {
    const char *text = line->data;
    double words = 0;
    (void)ctx;
    for (size_t i = 0; i < line->length; ++i) words += text[i] != ' ' && (i == 0 || text[i - 1] == ' ');
    made->size = words;
    return 0;
}

static sab_stream *pipeline(char **chunks, int count) {
    sab_record *names = calloc((size_t)count, sizeof *names);
    for (int i = 0; i < count; ++i) {
        names[i].struct_size = sizeof *names;
        names[i].data = chunks[i];
        names[i].length = strlen(chunks[i]);
    }
    sab_list_stream_options order = SAB_LIST_STREAM_OPTIONS_INIT;
    order.infinite = order.shuffle = 1; /* the chunks in another order each time through, for ever */
    order.seed = 1;
    sab_readahead_stream_options batches = SAB_READAHEAD_STREAM_OPTIONS_INIT;
    batches.budget = 1024; /* padded words */
    sab_stream *chunk, *line, *shuffled, *counted, *batched; /* each takes the one before */
    check(sab_list_stream_new(names, (size_t)count, &order, &chunk));
    check(sab_lines_stream_new(chunk, NULL, &line));
    check(sab_block_shuffle_stream_new(line, 100000, 2, &shuffled));
    check(sab_map_stream_new(shuffled, count_words, NULL, NULL, &counted));
    check(sab_readahead_stream_new(counted, &batches, &batched));
    free(names);
    return batched;
}

int main(int argc, char **argv) {
    if (argc < 2) {
        fprintf(stderr, "usage: stream CHUNK...\n");
        return 2;
    }
    sab_stream *stream = pipeline(argv + 1, argc - 1), *resumed = pipeline(argv + 1, argc - 1);
    sab_record batch = SAB_RECORD_INIT, same = SAB_RECORD_INIT;
    double words = 0, padded = 0;
    for (int i = 0; i < 300; ++i) {
        check(sab_stream_next(stream, &batch));
        words += batch.size;
        padded += (double)batch.item_count * batch.items[0].size; /* the largest comes first */
    }
    size_t size = 0;
    check(sab_stream_state_save(stream, NULL, 0, &size));
    void *state = malloc(size);
    check(sab_stream_state_save(stream, state, size, &size));
    check(sab_stream_state_restore(resumed, state, size)); /* as another process would */
    free(state);
    int differ = 0;
    for (int i = 0; i < 100; ++i) {
        check(sab_stream_next(stream, &batch));
        check(sab_stream_next(resumed, &same));
        differ += batch.item_count != same.item_count || batch.items[0].length != same.items[0].length ||
                  memcmp(batch.items[0].data, same.items[0].data, same.items[0].length) != 0;
    }
    printf("300 batches, %.1f %% padding; the state has %d bytes; 100 batches after it, %d of them different\n", 100 * (1 - words / padded), (int)size, differ);
    sab_stream_free(stream);
    sab_stream_free(resumed);
    return differ;
}
