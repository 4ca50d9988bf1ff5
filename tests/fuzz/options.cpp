/// Bytes as option structs of any struct_size. Pointers in them are made to point at something; the
/// rest is as it comes.
#include "fuzz.h"

template <class Options>
static Options* raw_options(Input& input, std::vector<uint64_t>& room, const Options& defaults) {
    room.assign(64, 0);
    auto* bytes = reinterpret_cast<uint8_t*>(room.data());
    std::memcpy(bytes, &defaults, sizeof defaults);
    for (int patches = input.take<uint8_t>() % 12; patches > 0; --patches) {
        const size_t place = sizeof(size_t) + input.take<uint16_t>() % (512 - 2 * sizeof(size_t));
        const auto value = input.take<uint64_t>();
        std::memcpy(bytes + place, &value, input.take<uint8_t>() % 9 % (512 - place));
    }
    const size_t size = input.take<uint16_t>() % 513;
    if (input.take<uint8_t>() & 1) std::memcpy(bytes, &size, sizeof size);
    return reinterpret_cast<Options*>(bytes);
}

/// Rows of one column or of two.
static void pack_rows(Input& input, const sab_sizes* one, const sab_sizes* two) {
    static const sab_cost* const costs[64] = {new_quadratic()};
    static const uint64_t capacities[64] = {60, 50, 40};
    std::vector<uint64_t> room;
    auto* pack = raw_options<sab_packed_options>(input, room, SAB_PACKED_OPTIONS_INIT);
    pack->balance = costs;
    pack->balance_count %= 64;
    pack->capacities = capacities;
    const bool is_two = input.take<uint8_t>() & 1;
    if (input.take<uint8_t>() & 1) pack->capacity_count = is_two ? 2 : 1;
    pack->progress = nullptr;
    if (pack->tries <= 1 << 20) pack->tries %= 200;  // more take long
    sab_sampler* sampler = nullptr;
    const sab_status packed = sab_packed_sampler_new(is_two ? two : one, pack, nullptr, &sampler);
    PROMISE(packed == SAB_OK ? sampler != nullptr : sampler == nullptr && packed == SAB_E_ARGUMENT);
    sab_batch batch = SAB_BATCH_INIT;
    while (packed == SAB_OK && sab_next_batch(sampler, &batch) == SAB_OK)
        PROMISE(batch.columns == 1 || (batch.total[0] <= 60 && batch.total[1] <= 50));
    sab_sampler_free(sampler);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    Input input(data, size);
    static const double numbers[64] = {0, 10, 20, 30, 40, 50};
    static sab_cost* const squares = new_quadratic();
    static const sab_budget budgets[64] = {
        {nullptr, 60, {}}, {squares, 900, {}}, {nullptr, 100, {}}};
    static const uint64_t batch_sizes[64] = {3, 4, 5, 6};
    static const uint8_t sample_sizes[30] = {1, 7, 3, 44, 23, 12, 9, 9, 9, 31};
    std::vector<uint64_t> plan_room, sampler_room;
    auto* plan_options = raw_options<sab_plan_options>(input, plan_room, SAB_PLAN_OPTIONS_INIT);
    plan_options->boundaries = numbers;
    plan_options->boundary_count %= 64;
    plan_options->batch_sizes = batch_sizes;
    plan_options->batch_size_count %= 64;
    plan_options->budgets = budgets;
    plan_options->budget_count %= 64;
    plan_options->progress = nullptr;
    static const int64_t ids[30] = {1, 2, 1, 2, 3};
    static const uint64_t shapes[64] = {3, 4, 5};
    plan_options->length_multiples = numbers + 1;
    plan_options->length_multiple_count %= 64;
    if (plan_options->separate_by != nullptr) plan_options->separate_by = ids;
    plan_options->max_shapes = shapes;
    plan_options->max_shape_count %= 64;
    if (plan_options->budget_count == 0) plan_options->budget_count = 1;
    sab_sizes* sizes = nullptr;
    sab_plan* plan = nullptr;
    PROMISE(sab_sizes_new(sample_sizes, sizeof sample_sizes, SAB_UINT8, nullptr, &sizes) == SAB_OK);
    const sab_status planned = sab_plan_new(sizes, plan_options, &plan);
    PROMISE(planned == SAB_OK ? plan != nullptr : plan == nullptr && planned == SAB_E_ARGUMENT);
    auto* options = raw_options<sab_sampler_options>(input, sampler_room, SAB_SAMPLER_OPTIONS_INIT);
    sab_sampler* sampler = nullptr;
    const sab_status sampled = sab_bucket_sampler_new(plan, options, &sampler);
    PROMISE(sampled == SAB_OK || sampled == SAB_E_ARGUMENT);
    sab_batch batch = SAB_BATCH_INIT;
    for (int i = 0; sampled == SAB_OK && i < 100 && sab_next_batch(sampler, &batch) == SAB_OK; ++i)
        PROMISE(batch.count <= 4096);
    sab_sampler_free(sampler);
    sab_plan_free(plan);
    const sab_sizes* const both[] = {sizes, sizes};
    sab_sizes* columns = nullptr;
    PROMISE(sab_sizes_columns_new(both, nullptr, 2, &columns) == SAB_OK);
    pack_rows(input, sizes, columns);
    sab_sizes_free(columns);
    sab_sizes_free(sizes);
    return 0;
}
