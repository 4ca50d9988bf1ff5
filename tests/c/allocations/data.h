// Data that scenarios share.
#ifndef ALLOCATIONS_DATA_H
#define ALLOCATIONS_DATA_H

#include "../budgets.h"
#include "harness.h"

/// Lengths that look like text: many short, few long.
inline const std::vector<double> &lengths() {
    static const std::vector<double> made = [] {
        std::vector<double> all;
        uint32_t x = 1;
        for (int i = 0; i < 120; ++i) {
            x = x * 1664525u + 1013904223u;
            all.push_back(1 + (x >> 16) % (1 + (x >> 8) % 47));
        }
        return all;
    }();
    return made;
}

inline sab_sizes *sizes_of(Run &run, const std::vector<double> &numbers) {
    sab_sizes *sizes = nullptr;
    CALL_INTO(sizes, sab_sizes_new(numbers.data(), numbers.size(), SAB_FLOAT64, nullptr, &sizes));
    return sizes;
}

inline sab_plan *plan_with(Run &run, const sab_plan_options &options) {
    sab_sizes *const sizes = sizes_of(run, lengths());
    sab_plan *plan = nullptr;
    CALL_INTO(plan, sab_plan_new(sizes, &options, &plan));
    CALL_PLAIN(sab_sizes_free(sizes));
    return plan;
}

inline sab_plan_options with_budget(double budget) {
    sab_plan_options options = SAB_PLAN_OPTIONS_INIT;
    SET_BUDGET(options, budget);
    return options;
}

/// Batches of 8 in buckets by boundaries, which leave out two of the samples.
inline sab_plan_options with_boundaries() {
    static const double boundaries[] = {0, 10, 20, 45};
    static const uint64_t size = 8;
    sab_plan_options options = SAB_PLAN_OPTIONS_INIT;
    options.bucket_rule = SAB_BUCKETS_BOUNDARIES;
    options.boundaries = boundaries;
    options.boundary_count = 4;
    options.batch_sizes = &size;
    options.batch_size_count = 1;
    options.oversize = SAB_OVERSIZE_SKIP;
    return options;
}

inline sab_sampler_options rank_options() {
    sab_sampler_options options = SAB_SAMPLER_OPTIONS_INIT;
    options.seed = 5;
    options.rank = 1;
    options.world_size = 3;
    options.micro_batches = 2;
    return options;
}

/// The next batches with their steps and rows, `most` at most.
inline void walk(Run &run, sab_sampler *sampler, int most = 10000) {
    sab_batch batch = SAB_BATCH_INIT;
    for (int i = 0; i < most; ++i) {
        if (CALL_INTO(batch, sab_next_batch(sampler, &batch)) != SAB_OK) break;
        run.note_batch(batch);
        sab_step step = SAB_STEP_INIT;
        CALL_INTO(step, sab_batch_step(sampler, &step));
        run.note_step(step);
        sab_rows rows = SAB_ROWS_INIT;
        if (batch.layout == SAB_LAYOUT_PADDED) continue;
        CALL_INTO(rows, sab_batch_rows(sampler, &rows));
        run.note_rows(batch, rows);
    }
}

/// Several batches in one call, at most `most` and of at most `room` samples together.
inline void take_block(Run &run, sab_sampler *sampler, std::size_t most, std::size_t room) {
    std::vector<int64_t> indices(room);
    std::vector<uint64_t> offsets(most + 1);
    std::size_t count = 0;
    CALL_OR_SKIP(
        sab_sampler_next_batches(sampler, most, indices.data(), room, offsets.data(), &count));
}

inline std::vector<unsigned char> state_of(Run &run, const sab_sampler *sampler) {
    std::size_t size = 0;
    CALL(sab_sampler_state_save(sampler, nullptr, 0, &size));
    std::vector<unsigned char> state(size);
    CALL_INTO(state, sab_sampler_state_save(sampler, state.data(), state.size(), &size));
    return state;
}

#endif
