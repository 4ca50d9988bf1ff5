/* Seconds of a packing and of what no packing can do without: packing LENGTHS COUNT METHOD
 * CAPACITY. LENGTHS is a file of COUNT int32.
 *
 * Prints, each the best of several runs taken in turns: a counting sort that gives the order, a
 * copy of the lengths, the packing, an epoch of all its bins; then bins, lower bound and fill. */
#include <string.h>

#include "timing.h"

int main(int argc, char** argv) {
    if (argc != 5) return 2;
    const size_t count = strtoull(argv[2], NULL, 10);
    sab_packed_options pack = SAB_PACKED_OPTIONS_INIT;
    pack.method = atoi(argv[3]);
    const uint64_t capacity = strtoull(argv[4], NULL, 10);
    pack.capacities = &capacity;
    pack.capacity_count = 1;
    int32_t *lengths = malloc(count * sizeof *lengths), *copy = malloc(count * sizeof *copy);
    uint32_t *order = malloc(count * sizeof *order), *next = malloc((capacity + 2) * sizeof *next);
    FILE* file = fopen(argv[1], "rb");
    if (lengths == NULL || copy == NULL || order == NULL || next == NULL || file == NULL ||
        fread(lengths, sizeof *lengths, count, file) != count)
        return 1;
    fclose(file);
    sab_sizes* sizes = NULL;
    check(sab_sizes_new(lengths, count, SAB_INT32, NULL, &sizes));
    double sorting = 0, copying = 0, packing = 0, walking = 0;
    sab_packed_info info = SAB_PACKED_INFO_INIT;
    for (int run = 0; run < 7; ++run) {
        double begin = now();
        memset(next, 0, (capacity + 2) * sizeof *next);
        for (size_t i = 0; i < count; ++i) ++next[lengths[i] + 1];
        for (size_t k = 1; k < capacity + 2; ++k) next[k] += next[k - 1];
        for (size_t i = 0; i < count; ++i) order[next[lengths[i]]++] = (uint32_t)i;
        least(&sorting, begin, 1);
        begin = now();
        memcpy(copy, lengths, count * sizeof *copy);
        least(&copying, begin, 1);
        sab_sampler* sampler = NULL;
        begin = now();
        check(sab_packed_sampler_new(sizes, &pack, NULL, &sampler));
        least(&packing, begin, 1);
        check(sab_packed_sampler_get_info(sampler, &info));
        sab_batch batch = SAB_BATCH_INIT;
        begin = now();
        while (sab_next_batch(sampler, &batch) == SAB_OK) continue;
        least(&walking, begin, 1);
        sab_sampler_free(sampler);
    }
    printf(
        "{\"sort\": %g, \"copy\": %g, \"pack\": %g, \"epoch\": %g, \"bins\": %.0f, "
        "\"lower_bound\": %.0f, \"fill\": %.9f}\n",
        sorting, copying, packing, walking, (double)info.bins, (double)info.lower_bound, info.fill);
    sab_sizes_free(sizes);
    free(lengths), free(copy), free(order), free(next);
    return 0;
}
