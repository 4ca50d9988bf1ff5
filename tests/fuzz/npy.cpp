/// Bytes as a .npy file.
#include <unistd.h>
#include <cstdio>
#include <cstdlib>

#include "fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    static char path[] = "/tmp/sab_fuzz_npy_XXXXXX";
    static const int file = mkstemp(path);
    PROMISE(file >= 0 && ftruncate(file, 0) == 0);
    // A magic and a right header length make most inputs interesting.
    std::vector<uint8_t> bytes{0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, 0, 0};
    Input input(data, size);
    const bool is_raw = input.take<uint8_t>() & 1;
    if (is_raw) bytes.clear();
    bytes.insert(bytes.end(), input.data(), input.data() + input.left());
    if (!is_raw) bytes[8] = static_cast<uint8_t>(input.left() < 128 ? input.left() : 128);
    PROMISE(pwrite(file, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
    sab_sizes* sizes = nullptr;
    const sab_status status = sab_sizes_npy_new(path, &sizes);
    PROMISE(status == SAB_OK ? sizes != nullptr : sizes == nullptr && status == SAB_E_FORMAT);
    sab_sizes* copied = nullptr;
    PROMISE(sab_sizes_npy_read(bytes.data(), bytes.size(), &copied) == status &&
            sab_sizes_count(copied) == sab_sizes_count(sizes));
    sab_sizes_free(copied);
    double value = 0;
    for (size_t i = 0; i < sab_sizes_count(sizes) && i < 100; ++i) sab_sizes_get(sizes, i, &value);
    if (sab_sizes_count(sizes) > 0) sab_sizes_get(sizes, sab_sizes_count(sizes) - 1, &value);
    sab_sizes_free(sizes);
    return 0;
}
