/// Bytes as sizes and options of a step plan: every sample is in one micro-batch, no budget is
/// exceeded, and groups stay on one rank.
#include <cmath>

#include "fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    Input input(data, size);
    sab_step_plan_options options = SAB_STEP_PLAN_OPTIONS_INIT;
    options.world_size = 1 + input.take<uint8_t>() % 9;
    options.micro_batches = input.take<uint8_t>() % 8;
    options.multiple = 1 + input.take<uint8_t>() % 4;
    options.padded = input.take<uint8_t>() % 2;
    options.order = input.take<uint8_t>() % 3;
    const uint8_t sharing = input.take<uint8_t>();  // bit 0: groups, 1: a prefix, 2: they are whole
    const bool is_grouped = sharing % 2, has_prefix = is_grouped && (sharing >> 1) % 2,
               is_whole = input.take<uint8_t>() % 2;
    const sab_budget budget{nullptr, static_cast<double>(1 + input.take<uint16_t>()), {}};
    options.budgets = &budget;
    options.budget_count = 1;
    std::vector<double> sizes;
    std::vector<int64_t> groups;
    while (input.left() > 0) {
        groups.push_back(input.take<uint8_t>() % 16);
        sizes.push_back(input.take<uint16_t>() / (is_whole ? 1 : 7.0));
    }
    if (is_grouped) options.groups = groups.data();
    std::vector<int64_t> prefix;
    for (const int64_t group : groups) prefix.push_back(group * 7);
    for (std::size_t i = 0; i < sizes.size() && has_prefix; ++i)
        sizes[i] = std::floor(sizes[i]) + static_cast<double>(prefix[i]);
    if (has_prefix) {
        options.padded = 0;
        options.prefix = prefix.data();
        options.whole_groups = (sharing >> 2) % 2;
    }
    sab_sizes* handle = nullptr;
    PROMISE(sab_sizes_new(sizes.data(), sizes.size(), SAB_FLOAT64, nullptr, &handle) == SAB_OK);
    sab_step_plan *plan = nullptr, *again = nullptr;
    const sab_status status = sab_step_plan_new(handle, &options, &plan);
    PROMISE(status == SAB_OK || status == SAB_E_ARGUMENT);
    if (status == SAB_OK) {
        PROMISE(sab_step_plan_new(handle, &options, &again) == SAB_OK);
        sab_step_plan_view view = SAB_STEP_PLAN_VIEW_INIT, same = SAB_STEP_PLAN_VIEW_INIT;
        PROMISE(sab_step_plan_get_view(plan, &view) == SAB_OK);
        PROMISE(sab_step_plan_get_view(again, &same) == SAB_OK);
        std::vector<int> seen(sizes.size());
        std::vector<uint64_t> rank_of(16, ~uint64_t{0});
        for (uint64_t k = 0; k < view.world_size * view.micro_batches; ++k) {
            double total = 0, longest = 0;
            std::vector<bool> is_seen(16);
            for (uint64_t at = view.offsets[k]; at < view.offsets[k + 1]; ++at) {
                const auto i = static_cast<size_t>(view.indices[at]);
                PROMISE(i < sizes.size() && ++seen[i] == 1 && same.indices[at] == view.indices[at]);
                const auto group = static_cast<size_t>(groups[i]);
                total += sizes[i];
                if (has_prefix && is_seen[group]) total -= static_cast<double>(prefix[i]);
                is_seen[group] = true;
                longest = std::max(longest, sizes[i]);
                uint64_t& rank = rank_of[group];
                if (rank == ~uint64_t{0}) rank = k / view.micro_batches;
                const bool may_be_cut = !is_grouped || (has_prefix && options.whole_groups == 0);
                PROMISE(may_be_cut || rank == k / view.micro_batches);
            }
            const auto count = static_cast<double>(view.offsets[k + 1] - view.offsets[k]);
            PROMISE((options.padded == 0 ? total : count * longest) <= budget.limit);
        }
        PROMISE(view.offsets[view.world_size * view.micro_batches] == sizes.size());
    }
    sab_step_plan_free(plan);
    sab_step_plan_free(again);
    sab_sizes_free(handle);
    return 0;
}
