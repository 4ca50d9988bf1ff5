#pragma once
/// What the fuzz targets share. Each is a function from bytes to calls of the public header; a
/// broken promise traps.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>

#include <sab.h>

#include "../c/budgets.h"

#define PROMISE(kept)                                                               \
    do {                                                                            \
        if (!(kept))                                                                \
            std::fprintf(stderr, "%s:%d: broken: %s\n", __FILE__, __LINE__, #kept), \
                __builtin_trap();                                                   \
    } while (0)

/// Takes values off the front of the input; zeros when it is used up.
class Input {
public:
    Input(const uint8_t* data, size_t size) : data_(data), size_(size) {}
    template <class Value>
    Value take() {
        Value value{};
        const size_t n = size_ < sizeof value ? size_ : sizeof value;
        std::memcpy(&value, data_, n);
        data_ += n;
        size_ -= n;
        return value;
    }
    size_t left() const { return size_; }
    const uint8_t* data() const { return data_; }

private:
    const uint8_t* data_;
    size_t size_;
};

/// Walks every rank of an epoch: each sample at most once (exactly once unless `may_drop`), equal
/// steps, at == next.
inline void walk_ranks(const sab_plan* plan, uint64_t samples, uint64_t world_size, uint64_t seed,
                       bool may_drop, bool may_repeat) {
    std::vector<uint8_t> seen(samples);
    uint64_t steps = 0, sum = 0;
    for (uint64_t rank = 0; rank < world_size; ++rank) {
        sab_sampler_options options = SAB_SAMPLER_OPTIONS_INIT;
        options.seed = seed;
        options.rank = rank;
        options.world_size = world_size;
        options.micro_batches = 1 + seed % 4;
        sab_sampler *sampler = nullptr, *other = nullptr;
        PROMISE(sab_bucket_sampler_new(plan, &options, &sampler) == SAB_OK &&
                sab_bucket_sampler_new(plan, &options, &other) == SAB_OK);
        sab_batch batch = SAB_BATCH_INIT, again = SAB_BATCH_INIT;
        uint64_t walked = 0;
        while (sab_next_batch(sampler, &batch) == SAB_OK) {
            PROMISE(sab_sampler_at(other, walked, &again) == SAB_OK && again.count == batch.count);
            PROMISE(batch.count == 0 ||
                    std::memcmp(batch.indices, again.indices, batch.count * sizeof(int64_t)) == 0);
            for (uint64_t i = 0; i < batch.count; ++i) {
                PROMISE(batch.indices[i] >= 0 && static_cast<uint64_t>(batch.indices[i]) < samples);
                PROMISE(may_repeat || ++seen[static_cast<size_t>(batch.indices[i])] == 1);
            }
            sum += batch.count;
            ++walked;
        }
        PROMISE(rank == 0 || walked == steps);
        steps = walked;
        sab_sampler_free(sampler);
        sab_sampler_free(other);
    }
    sab_plan_info info = SAB_PLAN_INFO_INIT;
    PROMISE(sab_plan_get_info(plan, &info) == SAB_OK);
    if (!may_drop && !may_repeat) PROMISE(sum == samples - info.skipped);
}
