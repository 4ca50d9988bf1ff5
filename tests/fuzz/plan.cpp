/// Bytes as sizes and options: every plan that is made keeps its promises: coverage, equal steps,
/// budget, the same again from its file.
#include "../c/one.h"
#include "fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    Input input(data, size);
    sab_plan_options options = SAB_PLAN_OPTIONS_INIT;
    const double limit = 1 + input.take<uint16_t>() % 2000;
    options.bucket_rule = input.take<uint8_t>() % 3;
    options.tail = input.take<uint8_t>() % 3;
    options.oversize = input.take<uint8_t>() % 3;
    static sab_cost* const squares = new_quadratic();
    // The padded total, its squares, or both.
    const uint8_t costs = input.take<uint8_t>() % 3;
    const sab_budget budgets[] = {{nullptr, limit}, {squares, limit}};
    options.budgets = budgets + (costs == 1 ? 1 : 0);
    options.budget_count = costs == 2 ? 2 : 1;
    options.batch_size_multiple = 1 + input.take<uint8_t>() % 9;
    options.length_multiples = one_number(input.take<uint8_t>() % 17),
    options.length_multiple_count = 1;
    options.max_batch_size = input.take<uint8_t>() % 40;
    options.bucket_count =
        options.bucket_rule == SAB_BUCKETS_OPTIMAL ? 1 + input.take<uint8_t>() % 12 : 0;
    options.bucket_batches =
        options.bucket_rule == SAB_BUCKETS_AUTO ? input.take<uint8_t>() % 12 : 0;
    if (options.bucket_rule == SAB_BUCKETS_AUTO && input.take<uint8_t>() % 3 == 0) {
        options.max_shapes = one_count(2 + input.take<uint8_t>() % 6), options.max_shape_count = 1;
        options.bucket_batches = 0;
    }
    const double boundaries[] = {0, 5, 20, 60, 200};
    if (options.bucket_rule == SAB_BUCKETS_BOUNDARIES) {
        options.boundaries = boundaries;
        options.boundary_count = 2 + input.take<uint8_t>() % 4;
    }
    const uint64_t world_size = 1 + input.take<uint8_t>() % 9, seed = input.take<uint64_t>();
    std::vector<uint8_t> sizes(input.data(),
                               input.data() + (input.left() < 400 ? input.left() : 400));
    sab_sizes* handle = nullptr;
    PROMISE(sab_sizes_new(sizes.data(), sizes.size(), SAB_UINT8, nullptr, &handle) == SAB_OK);
    sab_plan* plan = nullptr;
    const sab_status status = sab_plan_new(handle, &options, &plan);
    sab_sizes_free(handle);
    PROMISE(status == SAB_OK || status == SAB_E_ARGUMENT);
    if (status != SAB_OK) return 0;

    walk_ranks(plan, sizes.size(), world_size, seed, options.tail == SAB_TAIL_DROP,
               options.tail == SAB_TAIL_WRAP);
    sab_sampler* sampler = nullptr;
    PROMISE(sab_sequential_sampler_new(plan, nullptr, &sampler) == SAB_OK);
    sab_batch batch = SAB_BATCH_INIT;
    while (sab_next_batch(sampler, &batch) == SAB_OK) {
        double total = 0, longest = 0;
        for (uint64_t i = 0; i < batch.count; ++i) {
            const double one = sizes[static_cast<size_t>(batch.indices[i])];
            total += one;
            longest = one > longest ? one : longest;
        }
        PROMISE(*batch.total == total && *batch.longest == longest &&
                *batch.padded_length >= longest);
        const double padded_total = static_cast<double>(batch.count) * *batch.padded_length;
        double cost = 0;
        for (size_t i = 0; i < options.budget_count; ++i) {
            const double own = options.budgets[i].cost != nullptr
                                   ? padded_total * *batch.padded_length
                                   : padded_total;
            cost = own > cost ? own : cost;
        }
        PROMISE(cost <= limit || (batch.count == 1 && options.oversize == SAB_OVERSIZE_SINGLE));
    }
    sab_sampler_free(sampler);
    sab_plan_report report = SAB_PLAN_REPORT_INIT;
    PROMISE(sab_plan_get_report(plan, nullptr, nullptr, &report) == SAB_OK);
    PROMISE(options.max_shape_count == 0 || options.oversize == SAB_OVERSIZE_SINGLE ||
            report.shapes <= options.max_shapes[0]);
    PROMISE(report.padding >= 0 && report.meet_again >= 0 && report.meet_again <= 1 &&
            report.rank_imbalance >= 1 - 1e-9);

    size_t needed = 0;
    PROMISE(sab_plan_write(plan, nullptr, 0, &needed) == SAB_OK);
    std::vector<uint8_t> image(needed);
    PROMISE(sab_plan_write(plan, image.data(), needed, &needed) == SAB_OK);
    sab_plan* again = nullptr;
    PROMISE(sab_plan_bytes_new(image.data(), image.size(), &again) == SAB_OK);
    sab_plan_free(again);
    sab_plan_free(plan);
    return 0;
}
