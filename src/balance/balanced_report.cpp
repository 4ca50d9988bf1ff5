#include "balance/balanced.h"

#include <algorithm>
#include <vector>

#include "pack/packed_sequence.h"
#include "pack/row_mixing.h"
#include "sampler/capabilities.h"
#include "sampler/report.h"

namespace sab {
namespace {

/// How uneven some costs are: the largest of them, to their mean. 1 where all are 0.
double imbalance_of(std::span<const double> costs, double sum) {
    return sum > 0 ? std::ranges::max(costs) * static_cast<double>(costs.size()) / sum : 1;
}

/// Adds a step, by one of the balanced costs. Micro-batch m of rank r is r * of_rank + m.
void add_step(std::span<const double> costs, uint64_t of_rank, std::size_t balance,
              sab_sampler::BalanceArrays& report) {
    std::vector<double> ranks(costs.size() / of_rank);
    double sum = 0;
    for (std::size_t part = 0; part < costs.size(); ++part) {
        ranks[part / of_rank] += costs[part];
        sum += costs[part];
    }
    const double imbalance = imbalance_of(ranks, sum);
    report.rank_imbalance[balance] += imbalance;
    report.largest_rank_imbalance[balance] =
        std::max(report.largest_rank_imbalance[balance], imbalance);
    report.micro_batch_imbalance[balance] += imbalance_of(costs, sum);
    report.time[balance] += std::ranges::max(ranks);
    report.least_time[balance] += sum;
}

/// Adds the padded micro-batches of a step, and what they take of each budget.
void add_padded(std::span<const PaddedShape> shapes, const PaddedRules& rules, PerBudget& weights,
                sab_sampler::BalanceArrays& report, std::size_t columns) {
    for (const PaddedShape& shape : shapes) {
        for (std::size_t j = 0; j < columns; ++j)
            report.padded_totals[j] += static_cast<double>(shape.count) * shape.longest[j];
        for (std::size_t i = 0; i < rules.budgets.size(); ++i)
            weights[i] += shape.cost(rules.budgets[i].cost, columns);
    }
}

/// Adds the rows of all ranks at a position, with what they are rounded up to.
void add_rows(Cursor& cursor, uint64_t position, const Multiples& multiples, bool is_packed,
              PerColumn& totals) {
    EpochBatch placed;
    for (uint64_t rank = 0; rank < cursor.options().world_size; ++rank) {
        cursor.fill(position, rank, placed);
        const Batch& batch = placed.batch;
        for (std::size_t j = 0; j < batch.columns; ++j)
            totals[j] +=
                is_packed ? multiples.row(batch.cu_seqlens[j].back(), j) : batch.padded_length[j];
    }
}

/// Of the rows from `first` to before `end`.
std::vector<double> row_costs(const Cursor& cursor, uint64_t first, uint64_t end) {
    std::vector<double> costs;
    for (uint64_t rank = 0; rank < cursor.options().world_size; ++rank)
        for (uint64_t position = first; position < end; ++position)
            costs.push_back(cursor.cost(position, rank));
    return costs;
}

/// Returns how many samples and pieces an epoch has.
uint64_t add_packing(Sampler& sampler, sab_balanced_report& report) {
    const Cursor& cursor = sampler.random_access()->cursor();
    const sab_packed_info info = packed_rows_of(sampler).info();
    report.samples = info.samples;
    report.skipped = info.skipped;
    report.fill = info.fill;
    const RowMixing mixing =
        measure_mixing(cursor.sequence(), cursor.options().seed, cursor.epoch());
    report.meet_again = mixing.meet_again;
    report.random_meet_again = mixing.random_meet_again;
    report.length_deviation = mixing.length_deviation;
    report.random_length_deviation = mixing.random_length_deviation;
    return info.sequences;
}

}  // namespace

sab_balanced_report report_balance(sab_sampler& handle, const Progress& progress) {
    Sampler& sampler = *handle.impl;
    const bool is_packed = sampler.kind() == kind_of("sab_packed_sampler_new");
    if (!is_packed) need_kind(sampler, "sab_balanced_sampler_new");
    Cursor& cursor = sampler.random_access()->cursor();
    const auto* const balanced =
        is_packed ? nullptr : static_cast<const BalancedSequence*>(&cursor.sequence());
    const uint64_t of_step = cursor.options().micro_batches, first = cursor.first_position(),
                   end = cursor.batch_count();
    sab_balanced_report report = SAB_BALANCED_REPORT_INIT;
    sab_sampler::BalanceArrays arrays;
    report.columns = cursor.sequence().columns();
    report.balance_count = is_packed ? 1 : balanced->epoch_samples().balances;
    SamplesOfSteps step_samples;
    PerBudget weights{};
    const Multiples& multiples =
        is_packed ? packed_rows_of(sampler).multiples() : balanced->epoch_samples().multiples;
    const bool has_rows = is_packed || !balanced->epoch_samples().padded;
    const bool is_laid_out = has_rows && (multiples.round_lengths() || multiples.round_rows());
    EpochBatch placed;
    for (uint64_t position = first; position < end; position += of_step, ++report.steps) {
        if (report.steps % 16 == 0) progress.report(position - first, end - first);
        cursor.fill(position, 0, placed);
        const StepTotals totals = cursor.step_of(placed);
        step_samples.add(totals.samples);
        for (std::size_t j = 0; j < report.columns; ++j) arrays.totals[j] += totals.total[j];
        for (uint64_t row = position; is_laid_out && row < std::min(position + of_step, end); ++row)
            add_rows(cursor, row, multiples, is_packed, arrays.padded_totals);
        if (is_packed) {
            const uint64_t here = std::min(of_step, end - position);
            add_step(row_costs(cursor, position, position + here), here, 0, arrays);
            continue;
        }
        const PaddedRules* const padded = balanced->epoch_samples().padded.get();
        if (padded != nullptr)
            add_padded(balanced->part_shapes(report.steps), *padded, weights, arrays,
                       report.columns);
        const ItemTable table = balanced->items(report.steps).weight_table();
        for (std::size_t j = 0; j < table.kinds && padded == nullptr; ++j)
            for (const double weight : table[j]) weights[j] += weight;
        for (std::size_t k = 0; k < report.balance_count; ++k)
            add_step(balanced->part_costs(report.steps, k), of_step, k, arrays);
    }
    progress.report(end - first, end - first);
    step_samples.write_to(report);
    const auto steps = static_cast<double>(std::max<uint64_t>(report.steps, 1));
    for (std::size_t k = 0; k < report.balance_count; ++k) {
        arrays.rank_imbalance[k] /= steps;
        arrays.micro_batch_imbalance[k] /= steps;
        arrays.least_time[k] /= static_cast<double>(cursor.options().world_size);
    }
    uint64_t all = 0;  // that an epoch has without SAB_LAST_STEP_DROP
    if (is_packed) {
        all = add_packing(sampler, report);
    } else {
        report.samples = balanced->epoch_samples().count;
        report.skipped = cursor.skipped({});
        const std::vector<double>& capacities = balanced->epoch_samples().capacities;
        const auto batches = static_cast<double>(std::max<uint64_t>(balanced->batches(), 1));
        for (std::size_t j = 0; j < capacities.size(); ++j)
            report.fill = std::max(report.fill, weights[j] / (capacities[j] * batches));
        all = balanced->epoch_samples().kept;
    }
    // what came before is not known
    if (cursor.options().last_step == SAB_LAST_STEP_DROP && first == 0)
        report.dropped = all - step_samples.sum();
    if (has_rows && !is_laid_out) arrays.padded_totals = arrays.totals;
    handle.balance = arrays;
    report.totals = handle.balance.totals.data();
    report.padded_totals = handle.balance.padded_totals.data();
    report.rank_imbalance = handle.balance.rank_imbalance.data();
    report.largest_rank_imbalance = handle.balance.largest_rank_imbalance.data();
    report.micro_batch_imbalance = handle.balance.micro_batch_imbalance.data();
    report.time = handle.balance.time.data();
    report.least_time = handle.balance.least_time.data();
    return report;
}

}  // namespace sab
