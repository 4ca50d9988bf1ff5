/// Bytes as a plan file, with the checksum made right so that the deeper checks are reached. What
/// is accepted must walk safely.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    // The input is a patch list on a real plan: (place, byte) pairs; or, with its first bit set,
    // the raw image.
    Input input(data, size);
    std::vector<uint8_t> image;
    if (input.take<uint8_t>() & 1) {
        image.assign(input.data(), input.data() + input.left());
    } else {
        std::vector<uint8_t> sizes(1 + input.take<uint8_t>() % 40);
        for (uint8_t& each : sizes) each = input.take<uint8_t>() % 50;
        sab_sizes* handle = nullptr;
        sab_plan* plan = nullptr;
        sab_plan_options options = SAB_PLAN_OPTIONS_INIT;
        SET_BUDGET(options, 120);
        options.tail = input.take<uint8_t>() % 4;
        PROMISE(sab_sizes_new(sizes.data(), sizes.size(), SAB_UINT8, nullptr, &handle) == SAB_OK);
        PROMISE(sab_plan_new(handle, &options, &plan) == SAB_OK);
        size_t needed = 0;
        PROMISE(sab_plan_write(plan, nullptr, 0, &needed) == SAB_OK);
        image.resize(needed);
        PROMISE(sab_plan_write(plan, image.data(), image.size(), &needed) == SAB_OK);
        sab_plan_free(plan);
        sab_sizes_free(handle);
        while (input.left() > 0) {
            const auto place = input.take<uint16_t>() % image.size();
            image[place] = input.take<uint8_t>();
        }
    }
    if (image.size() > 24) {
        const uint64_t checksum = XXH3_64bits(image.data() + 24, image.size() - 24);
        std::memcpy(image.data() + 16, &checksum, sizeof checksum);
    }
    sab_plan* plan = nullptr;
    const sab_status status = sab_plan_bytes_new(image.data(), image.size(), &plan);
    PROMISE(status == SAB_OK || (status == SAB_E_FORMAT && plan == nullptr));
    if (status != SAB_OK) return 0;
    sab_plan_info info = SAB_PLAN_INFO_INIT;
    PROMISE(sab_plan_get_info(plan, &info) == SAB_OK);
    // An order that names a sample twice passes the cheap checks: all that is promised then is that
    // nothing breaks.
    if (info.batches < 10000) walk_ranks(plan, info.samples, 3, 1, true, true);
    sab_plan_free(plan);
    return 0;
}
