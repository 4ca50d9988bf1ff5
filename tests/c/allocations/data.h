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

/// The first of them, for what would otherwise have thousands of allocations.
inline const std::vector<double> &few_lengths() {
    static const std::vector<double> made(lengths().begin(), lengths().begin() + 36);
    return made;
}

inline sab_sizes *sizes_of(Run &run, const std::vector<double> &numbers) {
    sab_sizes *sizes = nullptr;
    CALL_INTO(sizes, sab_sizes_new(numbers.data(), numbers.size(), SAB_FLOAT64, nullptr, &sizes));
    return sizes;
}

inline sab_plan *plan_with(Run &run, const sab_plan_options &options,
                           const std::vector<double> &numbers = lengths()) {
    sab_sizes *const sizes = sizes_of(run, numbers);
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
        CALL_INTO(step, sab_sampler_get_step(sampler, &step));
        run.note_step(step);
        sab_rows rows = SAB_ROWS_INIT;
        if (batch.layout == SAB_LAYOUT_PADDED) continue;
        CALL_INTO(rows, sab_sampler_get_rows(sampler, &rows));
        run.note_rows(batch, rows);
    }
}

/// So many batches in blocks. Where memory runs out after the first batch, the block ends there and
/// a later one goes on.
inline void take_blocks(Run &run, sab_sampler *sampler, std::size_t batches) {
    std::vector<int64_t> indices;
    while (batches > 0) {
        sab_block block = SAB_BLOCK_INIT;
        if (CALL_INTO(block, sab_next_block(sampler, batches, &block)) != SAB_OK) break;
        indices.insert(indices.end(), block.indices, block.indices + block.offsets[block.count]);
        batches -= block.count;
    }
    run.note(indices.data(), indices.size() * sizeof indices[0]);
}

inline std::vector<unsigned char> state_of(Run &run, const sab_sampler *sampler) {
    std::size_t size = 0;
    CALL(sab_sampler_state_save(sampler, nullptr, 0, &size));
    std::vector<unsigned char> state(size);
    CALL_INTO(state, sab_sampler_state_save(sampler, state.data(), state.size(), &size));
    return state;
}

#if SAB_WITH_BALANCE
/// The numbers of a report; its arrays are the sampler's.
inline void note_balance(Run &run, sab_balanced_report report) {
    for (const double *sums : {report.totals, report.padded_totals})
        run.note(sums, report.columns * sizeof *sums);
    for (const double *costs : {report.rank_imbalance, report.largest_rank_imbalance,
                                report.micro_batch_imbalance, report.time, report.least_time})
        run.note(costs, report.balance_count * sizeof *costs);
    report.totals = report.padded_totals = report.rank_imbalance = report.largest_rank_imbalance =
        report.micro_batch_imbalance = report.time = report.least_time = nullptr;
    run.note(&report, sizeof report);
}
#endif

#endif
