/// Bytes as lengths, costs and a method: thresholds are lengths that occur, ascending, exact ones
/// never worse than others; and groups by them hold what they should.
#include <algorithm>
#include <cmath>

#include "fuzz.h"

namespace {

/// Obeys no rule but that it is a cost, and always the same.
int32_t any_cost(void* ctx, uint64_t count, const double* lengths, const double*, size_t,
                 double* cost) {
    const auto mixed = (count * 0x9E3779B97F4A7C15u) ^
                       (static_cast<uint64_t>(lengths[0]) * 0xC2B2AE3D27D4EB4Fu) ^
                       *static_cast<uint8_t*>(ctx);
    *cost = static_cast<double>((mixed * 0xBF58476D1CE4E5B9u) >> 50);
    return 0;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    Input input(data, size);
    sab_thresholds_options options = SAB_THRESHOLDS_OPTIONS_INIT;
    options.num_trials = 1 + input.take<uint8_t>() % 4;
    options.patience = input.take<uint8_t>();
    options.seed = input.take<uint16_t>();
    const uint8_t kind = input.take<uint8_t>() % 4;
    options.cost_per_sample = input.take<uint8_t>() % 2;
    const uint64_t k = 1 + input.take<uint8_t>() % 12;
    uint8_t mixer = input.take<uint8_t>();
    const bool is_wild = input.take<uint8_t>() % 8 == 0;
    sab_cost_term terms[3] = {};
    uint32_t powers[3] = {};
    for (std::size_t i = 0; i < 3; ++i) {
        sab_cost_term& term = terms[i];
        term.column_count = 1;
        term.length_powers = &powers[i];
        term.coefficient = is_wild ? input.take<double>() : input.take<uint8_t>();
        term.count_power = input.take<uint8_t>() % (is_wild ? 10u : 4u);
        powers[i] = input.take<uint8_t>() % (is_wild ? 10u : 4u);
    }
    sab_cost* cost = kind == 1 ? new_quadratic() : nullptr;
    if (kind == 2) PROMISE((sab_cost_terms_new(terms, 3, &cost) == SAB_OK) == (cost != nullptr));
    if (kind == 3) cost = new_callback(any_cost, &mixer);
    options.cost = cost;
    std::vector<double> lengths;
    while (input.left() > 0)
        lengths.push_back(is_wild ? input.take<double>() : input.take<uint8_t>());
    sab_sizes* sizes = nullptr;
    PROMISE(sab_sizes_new(lengths.data(), lengths.size(), SAB_FLOAT64, nullptr, &sizes) == SAB_OK);

    const bool is_lawful = !is_wild && kind != 3;
    double total[3] = {0}, worst[3] = {0};
    int done = 0;
    for (const sab_thresholds_method method :
         {SAB_THRESHOLDS_LEAST_TOTAL, SAB_THRESHOLDS_LEAST_LARGEST, SAB_THRESHOLDS_RANDOMISED}) {
        options.method = method;
        double thresholds[12];
        sab_thresholds_info info = SAB_THRESHOLDS_INFO_INIT;
        const sab_status status = sab_thresholds_find(sizes, k, &options, thresholds, &info);
        PROMISE(status == SAB_OK || status == SAB_E_ARGUMENT);
        if (status != SAB_OK) continue;
        ++done;
        total[method] = info.total;
        worst[method] = info.largest;
        for (uint64_t i = 0; i < k; ++i) {
            PROMISE(i == 0 || thresholds[i] > thresholds[i - 1]);
            PROMISE(std::ranges::find(lengths, thresholds[i]) != lengths.end());
        }
        const sab_grouping_dimension dimensions[] = {{sizes, thresholds, k},
                                                     {sizes, thresholds, 1}};
        sab_grouping* grouping = nullptr;
        PROMISE(sab_grouping_thresholds_new(dimensions, 2, &grouping) == SAB_OK);
        sab_grouping_view groups = SAB_GROUPING_VIEW_INIT;
        PROMISE(sab_grouping_get_view(grouping, &groups) == SAB_OK &&
                groups.samples == lengths.size() && groups.groups <= k + 1 && groups.groups >= k);
        for (uint64_t i = 0; i < groups.samples; ++i) {
            PROMISE(groups.permutation[groups.inverse[i]] == static_cast<int64_t>(i));
            const int64_t interval = groups.intervals[2 * groups.group_of[i]];
            PROMISE(interval == 0 || lengths[i] > thresholds[interval - 1]);
            PROMISE(interval == static_cast<int64_t>(k) || lengths[i] <= thresholds[interval]);
        }
        sab_grouping_free(grouping);
    }
    if (is_lawful && done == 3) {
        PROMISE(total[SAB_THRESHOLDS_LEAST_TOTAL] <=
                total[SAB_THRESHOLDS_RANDOMISED] * (1 + 1e-12));
        PROMISE(total[SAB_THRESHOLDS_LEAST_TOTAL] <=
                total[SAB_THRESHOLDS_LEAST_LARGEST] * (1 + 1e-12));
        PROMISE(worst[SAB_THRESHOLDS_LEAST_LARGEST] <=
                worst[SAB_THRESHOLDS_RANDOMISED] * (1 + 1e-12));
        PROMISE(worst[SAB_THRESHOLDS_LEAST_LARGEST] <=
                worst[SAB_THRESHOLDS_LEAST_TOTAL] * (1 + 1e-12));
    }
    sab_sizes_free(sizes);
    sab_cost_free(cost);
    return 0;
}
