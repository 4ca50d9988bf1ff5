/* Tensors of a device, taken and dropped through libsab's C interface, and what its probe reports:
 * native DEVICE STEP... A step n > 0 takes a tensor of n int64; a step -k drops the k-th of those
 * held, from 1; 0 does nothing. After each step a line: bytes held, their peak, peak of the
 * reserved bytes. */
#include <stdio.h>
#include <stdlib.h>

#include <sab.h>

/* The head of DLPack's struct, version 0: dlpack.h is not needed for more. */
struct DLManagedTensor {
    struct {
        void* data;
        struct {
            int32_t type, id;
        } device;
        int32_t ndim;
        struct {
            uint8_t code, bits;
            uint16_t lanes;
        } dtype;
        int64_t *shape, *strides;
        uint64_t byte_offset;
    } tensor;
    void* manager_ctx;
    void (*deleter)(struct DLManagedTensor* self);
};

static int fail(void) {
    fprintf(stderr, "%s\n", sab_last_error_message());
    return 1;
}

static sab_status take(const char* device, size_t count, struct DLManagedTensor** tensor) {
    int64_t* indices = calloc(count, sizeof *indices);
    if (indices == NULL) return SAB_E_NO_MEMORY;
    sab_batch batch = SAB_BATCH_INIT;
    batch.indices = indices;
    batch.count = count;
    const sab_status status = sab_torch_indices_new(&batch, device, tensor);
    free(indices);
    return status;
}

int main(int argc, char** argv) {
    const char* device = argc > 1 ? argv[1] : "cuda:0";
    sab_probe* probe = NULL;
    if (sab_torch_open(NULL, NULL) < 0 || sab_probe_new(device, NULL, &probe) < 0) return fail();
    struct DLManagedTensor** held = calloc((size_t)argc, sizeof *held);
    if (held == NULL) return 1;
    size_t count = 0;
    int status = 0;
    for (int i = 2; i < argc && status == 0; ++i) {
        const long long step = atoll(argv[i]);
        if (step > 0) {
            if (take(device, (size_t)step, &held[count]) < 0)
                status = fail();
            else
                ++count;
        } else if ((size_t)-step <= count && step < 0) {
            struct DLManagedTensor** const dropped = &held[-step - 1];
            (*dropped)->deleter(*dropped);
            *dropped = held[--count];
        }
        sab_probe_stats stats = SAB_PROBE_STATS_INIT;
        if (status == 0 && sab_probe_get_stats(probe, &stats) < 0) status = fail();
        if (status == 0)
            printf("%lld %lld %lld\n", (long long)stats.current, (long long)stats.peak,
                   (long long)stats.reserved_peak);
    }
    while (count > 0) {
        --count;
        held[count]->deleter(held[count]);
    }
    free(held);
    sab_probe_free(probe);
    return status;
}
