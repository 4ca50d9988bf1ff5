/// Bytes as costs, weights and rules of a partition: every item gets a part, counts are equal and
/// the cap is kept where they are asked for.
#include "fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    Input input(data, size);
    sab_partition_options options = SAB_PARTITION_OPTIONS_INIT;
    options.equal_counts = input.take<uint8_t>() % 2;
    const bool is_capped = input.take<uint8_t>() % 2, is_wild = input.take<uint8_t>() % 8 == 0;
    const uint64_t parts = 1 + input.take<uint8_t>() % 20;
    const double capacity = input.take<uint16_t>();
    std::vector<double> costs, weights;
    while (input.left() > 0) {
        costs.push_back(is_wild ? input.take<double>() : input.take<uint16_t>());
        weights.push_back(input.take<uint8_t>());
    }
    if (options.equal_counts) costs.resize(costs.size() / parts * parts);
    if (is_capped) {
        options.weights = weights.data();
        options.capacities = &capacity;
        options.capacity_count = 1;
    }
    std::vector<uint32_t> part_of(costs.size()), again(costs.size());
    const sab_status status =
        sab_items_partition(costs.data(), costs.size(), parts, &options, part_of.data());
    PROMISE(status == SAB_OK || (status == SAB_E_ARGUMENT && (is_capped || is_wild)));
    if (status != SAB_OK) return 0;
    PROMISE(sab_items_partition(costs.data(), costs.size(), parts, &options, again.data()) ==
                SAB_OK &&
            part_of == again);
    std::vector<uint64_t> items(parts);
    std::vector<double> held(parts);
    for (size_t i = 0; i < costs.size(); ++i) {
        PROMISE(part_of[i] < parts);
        ++items[part_of[i]];
        held[part_of[i]] += weights[i];
    }
    for (uint64_t part = 0; part < parts; ++part) {
        PROMISE(!options.equal_counts || items[part] * parts == costs.size());
        PROMISE(!is_capped || held[part] <= capacity);
    }
    return 0;
}
