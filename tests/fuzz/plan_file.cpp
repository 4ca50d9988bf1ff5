/// Bytes as a plan file, with the checksums made right so that the deeper checks are reached. What
/// is accepted must be used safely, in memory and in a mapped file that is damaged after it was
/// opened.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "../plan_image.h"
#include "fuzz.h"

namespace {

constexpr uint64_t most_batches = 10000;

bool is_expected(sab_status status) {
    return status == SAB_OK || status == SAB_E_FORMAT;
}

/// Walks until the end or a refused batch. Returns whether it came to the end.
bool walks(sab_sampler* sampler, uint64_t samples) {
    sab_batch batch = SAB_BATCH_INIT;
    sab_status status = SAB_OK;
    while ((status = sab_next_batch(sampler, &batch)) == SAB_OK)
        for (uint64_t i = 0; i < batch.count; ++i)
            PROMISE(batch.indices[i] >= 0 && static_cast<uint64_t>(batch.indices[i]) < samples);
    PROMISE(status == SAB_END || status == SAB_E_FORMAT);
    sab_sampler_free(sampler);
    return status == SAB_END;
}

sab_plan_info info_of(const sab_plan* plan) {
    sab_plan_info info = SAB_PLAN_INFO_INIT;
    PROMISE(sab_plan_get_info(plan, &info) == SAB_OK);
    return info;
}

std::vector<uint8_t> image_of(const sab_plan* plan) {
    size_t size = 0;
    PROMISE(sab_plan_write(plan, nullptr, 0, &size) == SAB_OK);
    std::vector<uint8_t> image(size);
    PROMISE(sab_plan_write(plan, image.data(), image.size(), &size) == SAB_OK);
    return image;
}

/// All that takes a plan: a wrong element is an error of the call that reads it. `image`: what the
/// plan was opened from. What differs by now is found by each call that reads everything.
void use(const sab_plan* plan, const std::vector<uint8_t>& image) {
    const sab_plan_info info = info_of(plan);
    if (info.batches >= most_batches) return;
    const bool is_damaged = image_of(plan) != image;
    const sab_status checked = sab_plan_check(plan);
    PROMISE(checked == SAB_E_FORMAT || (checked == SAB_OK && !is_damaged));
    bool comes_to_end = true;
    sab_sampler* sampler = nullptr;
    PROMISE(sab_sequential_sampler_new(plan, nullptr, &sampler) == SAB_OK);
    comes_to_end = walks(sampler, info.samples) && comes_to_end;
    PROMISE(sab_costliest_sampler_new(plan, 5, &sampler) == SAB_OK);
    comes_to_end = walks(sampler, info.samples) && comes_to_end;
    PROMISE(sab_bucket_sampler_new(plan, nullptr, &sampler) == SAB_OK);
    comes_to_end = walks(sampler, info.samples) && comes_to_end;
    sab_bionemo_options bionemo = SAB_BIONEMO_OPTIONS_INIT;
    if (sab_bionemo_sampler_new(plan, &bionemo, &sampler) == SAB_OK)
        comes_to_end = walks(sampler, info.samples) && comes_to_end;
    PROMISE(comes_to_end || checked != SAB_OK);
    if (checked == SAB_OK) walk_ranks(plan, info.samples, 3, 1, true, true);
    sab_plan_report report = SAB_PLAN_REPORT_INIT;
    PROMISE(is_expected(sab_plan_get_report(plan, nullptr, nullptr, &report)));
    int64_t skipped[64];
    size_t count = 0;
    PROMISE(is_expected(sab_plan_get_skipped(plan, skipped, 64, &count)));
    sab_plan* copy = nullptr;
    PROMISE(sab_plan_copy_new(plan, &copy) == (is_damaged ? SAB_E_FORMAT : SAB_OK));
    sab_plan_free(copy);
    PROMISE(sab_plan_save(plan, "/dev/shm/sab_fuzz.plan") == SAB_OK);
}

/// The batches of a plan whose file was damaged before it was opened are those of the sound plan,
/// up to an error.
void compare(const sab_plan* damaged, const sab_plan* sound) {
    sab_sampler *ours = nullptr, *theirs = nullptr;
    const sab_status status = sab_bucket_sampler_new(damaged, nullptr, &ours);
    PROMISE(is_expected(status));
    if (status != SAB_OK) return;
    if (sab_bucket_sampler_new(sound, nullptr, &theirs) == SAB_OK) {
        sab_batch a = SAB_BATCH_INIT, b = SAB_BATCH_INIT;
        while (sab_next_batch(ours, &a) == SAB_OK) {
            PROMISE(sab_next_batch(theirs, &b) == SAB_OK && a.count == b.count);
            PROMISE(std::equal(a.indices, a.indices + a.count, b.indices));
            PROMISE(*a.total == *b.total && *a.padded_length == *b.padded_length);
        }
    }
    sab_sampler_free(ours);
    sab_sampler_free(theirs);
}

void overwrite(int file, const std::vector<uint8_t>& image) {
    PROMISE(pwrite(file, image.data(), image.size(), 0) == static_cast<ssize_t>(image.size()));
}

/// Puts (place, byte) pairs of the input into an image.
void patch(std::vector<uint8_t>& image, Input& input, size_t pairs) {
    for (; pairs > 0 && input.left() > 0; --pairs) {
        const size_t place = input.take<uint16_t>() % image.size();
        image[place] = input.take<uint8_t>();
    }
}

/// The same in a file, which changes after it was opened: first as the rest of the input says, then
/// everywhere behind the header.
void use_mapped(const std::vector<uint8_t>& image, Input& input) {
    const int file = memfd_create("plan", 0);
    PROMISE(file >= 0);
    overwrite(file, image);
    const std::string path = "/proc/self/fd/" + std::to_string(file);
    sab_plan* plan = nullptr;
    PROMISE(sab_plan_file_new(path.c_str(), &plan) == SAB_OK);
    use(plan, image);
    sab_plan* unused = nullptr;  // its buckets are read after the change
    PROMISE(sab_plan_file_new(path.c_str(), &unused) == SAB_OK);
    std::vector<uint8_t> changed = image;
    patch(changed, input, input.left());
    overwrite(file, changed);
    use(plan, image);
    sab_plan *fresh = nullptr, *sound = nullptr;
    PROMISE(is_expected(sab_plan_file_new(path.c_str(), &fresh)));
    if (fresh != nullptr) {
        PROMISE(sab_plan_bytes_new(image.data(), image.size(), &sound) == SAB_OK);
        if (info_of(sound).batches < most_batches) compare(fresh, sound);
    }
    sab_plan_free(fresh);
    sab_plan_free(sound);
    sab_sampler* sampler = nullptr;
    const sab_status status = sab_bucket_sampler_new(unused, nullptr, &sampler);
    PROMISE(status == SAB_OK || (status == SAB_E_FORMAT && sampler == nullptr));
    if (status == SAB_OK) use(unused, image);
    sab_sampler_free(sampler);
    sab_plan_free(unused);
    for (size_t i = 352; i < changed.size(); i += 1 + i % 7)
        changed[i] = static_cast<uint8_t>(changed[i] * 31 + i);
    overwrite(file, changed);
    use(plan, image);
    sab_plan_free(plan);
    close(file);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    // The input is a real plan, a list of (place, byte) pairs for its image, and one for its file
    // after that was opened; or, with its first bit set, the raw image.
    Input input(data, size);
    std::vector<uint8_t> image;
    if (input.take<uint8_t>() & 1) {
        image.assign(input.data(), input.data() + input.left());
        input = Input(data, 0);
    } else {
        std::vector<uint8_t> sizes(1 + input.take<uint8_t>() % 40);
        for (uint8_t& each : sizes) each = input.take<uint8_t>() % 50;
        sab_sizes* handle = nullptr;
        sab_plan* plan = nullptr;
        sab_plan_options options = SAB_PLAN_OPTIONS_INIT;
        SET_BUDGET(options, 120);
        options.tail = input.take<uint8_t>() % 3;
        PROMISE(sab_sizes_new(sizes.data(), sizes.size(), SAB_UINT8, nullptr, &handle) == SAB_OK);
        PROMISE(sab_plan_new(handle, &options, &plan) == SAB_OK);
        image = image_of(plan);
        sab_plan_free(plan);
        sab_sizes_free(handle);
        patch(image, input, input.take<uint8_t>() % 16);
    }
    repair_plan(image, [](const void* bytes, size_t count) { return XXH3_64bits(bytes, count); });
    sab_plan* plan = nullptr;
    const sab_status status = sab_plan_bytes_new(image.data(), image.size(), &plan);
    PROMISE(status == SAB_OK || (status == SAB_E_FORMAT && plan == nullptr));
    if (status != SAB_OK) return 0;
    use(plan, image);
    sab_plan_free(plan);
    use_mapped(image, input);
    return 0;
}
