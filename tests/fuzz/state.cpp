/// Bytes as a saved state of a bucket or a balanced sampler, with the checksum made right. What is
/// accepted leaves the sampler somewhere in its epoch.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "fuzz.h"

static sab_sizes* make_sizes() {
    static uint8_t sizes[60];
    for (size_t i = 0; i < sizeof sizes; ++i) sizes[i] = static_cast<uint8_t>(1 + i * 37 % 50);
    sab_sizes* handle = nullptr;
    PROMISE(sab_sizes_new(sizes, sizeof sizes, SAB_UINT8, nullptr, &handle) == SAB_OK);
    return handle;
}

static sab_plan* make_plan(const sab_sizes* sizes) {
    sab_plan* plan = nullptr;
    sab_plan_options options = SAB_PLAN_OPTIONS_INIT;
    SET_BUDGET(options, 100);
    PROMISE(sab_plan_new(sizes, &options, &plan) == SAB_OK);
    return plan;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    static sab_sizes* const sizes = make_sizes();
    static sab_plan* const plan = make_plan(sizes);
    Input input(data, size);
    sab_sampler_options options = SAB_SAMPLER_OPTIONS_INIT;
    options.world_size = 1 + input.take<uint8_t>() % 8;
    options.rank = input.take<uint8_t>() % options.world_size;
    options.last_step = input.take<uint8_t>() % 3;
    sab_sampler* sampler = nullptr;
    const uint8_t kind = input.take<uint8_t>();
    options.micro_batches = 1 + kind / 2 % 4;
    sab_status made = SAB_OK;
    if (kind % 2 == 0) {
        made = sab_bucket_sampler_new(plan, &options, &sampler);
    } else {
        sab_balanced_options balanced = SAB_BALANCED_OPTIONS_INIT;
        SET_BUDGET(balanced, 100);
        BALANCE_SQUARES(balanced);
        made = sab_balanced_sampler_new(sizes, &balanced, &options, &sampler);
    }
    // an epoch that does not fill a step is refused
    if (made == SAB_E_ARGUMENT && options.last_step == SAB_LAST_STEP_DROP) return 0;
    PROMISE(made == SAB_OK);
    size_t state_size = 0;
    PROMISE(sab_sampler_state_save(sampler, nullptr, 0, &state_size) == SAB_OK);
    std::vector<uint8_t> state(state_size);
    PROMISE(sab_sampler_state_save(sampler, state.data(), state_size, &state_size) == SAB_OK);
    while (input.left() > 0) {
        const auto place = input.take<uint8_t>() % state_size;
        state[place] = input.take<uint8_t>();
    }
    // after magic and version, of all that follows it
    const uint64_t checksum = XXH3_64bits(state.data() + 16, state_size - 16);
    std::memcpy(state.data() + 8, &checksum, sizeof checksum);
    const sab_status status = sab_sampler_state_restore(sampler, state.data(), state_size);
    PROMISE(status == SAB_OK || status == SAB_E_FORMAT || status == SAB_E_MISMATCH);
    uint64_t count = 0, epoch = 0, step = 0, walked = 0;
    PROMISE(sab_sampler_get_batch_count(sampler, &count) == SAB_OK &&
            sab_sampler_tell(sampler, &epoch, &step) == SAB_OK && step <= count);
    sab_batch batch = SAB_BATCH_INIT;
    sab_step whole = SAB_STEP_INIT;
    for (; sab_next_batch(sampler, &batch) == SAB_OK; ++walked)
        PROMISE(sab_sampler_get_step(sampler, &whole) == SAB_OK && whole.samples >= batch.count &&
                batch.micro_batch < whole.micro_batches);
    // a micro-batch has a sample of some rank; a last step that wraps around has more of them
    PROMISE(walked == count - step && walked <= 1920);
    sab_sampler_free(sampler);
    return 0;
}
