/// Bytes as lengths, options and ranks of a packing: every token once over the ranks, no bin over
/// the capacity, equal steps.
#include "fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    Input input(data, size);
    sab_packed_options pack = SAB_PACKED_OPTIONS_INIT;
    pack.method = input.take<uint8_t>() % 5;
    const uint64_t capacity =
        input.take<uint8_t>() & 1 ? input.take<uint16_t>() : input.take<uint32_t>();
    pack.capacities = &capacity;
    pack.capacity_count = 1;
    pack.max_sequences = input.take<uint8_t>() % 8;
    pack.split = input.take<uint8_t>() % 2;
    pack.oversize = input.take<uint8_t>() % 4;
    const uint8_t window = input.take<uint8_t>();
    if (pack.method == SAB_PACK_FIRST_FIT) pack.window = window;
    const uint64_t world_size = 1 + input.take<uint8_t>() % 6, seed = input.take<uint64_t>();
    const bool is_cut = pack.split || pack.method == SAB_PACK_CONCAT;
    // or there are too many pieces to walk
    const uint32_t largest = is_cut ? 70000 : UINT32_MAX;
    std::vector<uint32_t> lengths;
    while (input.left() > 0) {
        const uint32_t length =
            input.take<uint8_t>() & 1 ? input.take<uint8_t>() : input.take<uint32_t>() % largest;
        const uint8_t times = input.take<uint8_t>() % 32;
        lengths.insert(lengths.end(), times, length);
    }
    uint64_t pieces = 0;
    for (const uint32_t length : lengths) pieces += 1 + length / (capacity + 1);
    if (is_cut && pieces > 100000) return 0;
    sab_sizes* sizes = nullptr;
    PROMISE(sab_sizes_new(lengths.data(), lengths.size(), SAB_UINT32, nullptr, &sizes) == SAB_OK);
    std::vector<uint64_t> tokens(lengths.size());
    uint64_t steps = 0, skipped = 0;
    for (uint64_t rank = 0; rank < world_size; ++rank) {
        sab_sampler_options options = SAB_SAMPLER_OPTIONS_INIT;
        options.seed = seed;
        options.rank = rank;
        options.world_size = world_size;
        sab_sampler* sampler = nullptr;
        const sab_status status = sab_packed_sampler_new(sizes, &pack, &options, &sampler);
        PROMISE(status == SAB_OK || (status == SAB_E_ARGUMENT && sampler == nullptr && rank == 0));
        if (status != SAB_OK) {
            sab_sizes_free(sizes);
            return 0;
        }
        sab_packed_info info = SAB_PACKED_INFO_INIT;
        PROMISE(sab_packed_sampler_get_info(sampler, &info) == SAB_OK &&
                info.lower_bound <= info.bins && info.bins <= info.sequences);
        skipped = info.skipped;
        sab_batch batch = SAB_BATCH_INIT;
        uint64_t walked = 0;
        for (; sab_next_batch(sampler, &batch) == SAB_OK; ++walked) {
            PROMISE(*batch.total <= static_cast<double>(capacity) &&
                    (pack.max_sequences == 0 || batch.count <= pack.max_sequences));
            sab_rows rows = SAB_ROWS_INIT;
            PROMISE(sab_sampler_get_rows(sampler, &rows) == SAB_OK);
            const int32_t* const cu_seqlens = rows.cu_seqlens[0];
            for (uint64_t i = 0; i < batch.count; ++i) {
                const int32_t length = cu_seqlens[i + 1] - cu_seqlens[i];
                const uint64_t index = static_cast<uint64_t>(batch.indices[i]),
                               start = rows.starts != nullptr
                                           ? static_cast<uint64_t>(rows.starts[i])
                                           : 0;
                PROMISE(index < lengths.size() && length >= 0 &&
                        start + static_cast<uint64_t>(length) <= lengths[index]);
                tokens[index] += static_cast<uint64_t>(length);
            }
        }
        PROMISE(rank == 0 || walked == steps);
        steps = walked;
        sab_sampler_free(sampler);
    }
    for (size_t i = 0; i < lengths.size(); ++i) {
        const bool is_skipped = lengths[i] > capacity && !is_cut;
        skipped -= is_skipped;
        PROMISE(tokens[i] == (is_skipped ? 0 : lengths[i]));
    }
    PROMISE(skipped == 0);
    sab_sizes_free(sizes);
    return 0;
}
