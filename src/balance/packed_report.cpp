#include "balance/packed_report.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "balance/balanced.h"
#include "pack/packed_sequence.h"
#include "sampler/cursor.h"

namespace sab {
namespace {

/// Adds the costs of a step from `first` to before `end`.
void measure(const Cursor& cursor, uint64_t first, uint64_t end, sab_balanced_report& report) {
    const uint64_t world_size = cursor.options().world_size;
    std::vector<double> ranks(world_size), parts;
    for (uint64_t position = first; position < end; ++position)
        for (uint64_t rank = 0; rank < world_size; ++rank) {
            parts.push_back(cursor.cost(position, rank));
            ranks[rank] += parts.back();
        }
    const double sum = std::accumulate(ranks.begin(), ranks.end(), 0.0);
    const double imbalance = imbalance_of(ranks, sum);
    report.rank_imbalance[0] += imbalance;
    report.largest_rank_imbalance[0] = std::max(report.largest_rank_imbalance[0], imbalance);
    report.micro_batch_imbalance[0] += imbalance_of(parts, sum);
    report.time[0] += std::ranges::max(ranks);
    report.least_time[0] += sum / static_cast<double>(world_size);
}

}  // namespace

sab_balanced_report report_of_rows(Sampler& sampler, const Progress& progress) {
    const sab_packed_info info = packed_rows_of(sampler).info();
    auto& cursor = static_cast<Cursor&>(sampler);
    sab_balanced_report report = SAB_BALANCED_REPORT_INIT;
    report.samples = info.samples;
    report.skipped = info.skipped;
    report.fill = info.fill;
    report.columns = cursor.columns();
    report.balance_count = 1;
    const uint64_t of_step = cursor.options().micro_batches, count = cursor.batch_count();
    uint64_t seen = 0;
    EpochBatch placed;
    for (uint64_t first = cursor.first_position(); first < count; first += of_step) {
        if (report.steps % 256 == 0) progress.report(first, count);
        cursor.fill(first, 0, placed);
        const StepTotals totals = cursor.step_of(placed);
        seen += totals.samples;
        for (std::size_t j = 0; j < report.columns; ++j) report.total[j] += totals.total[j];
        measure(cursor, first, std::min(first + of_step, count), report);
        ++report.steps;
    }
    // what came before is not known
    report.dropped =
        cursor.options().last_step == SAB_LAST_STEP_DROP && cursor.first_position() == 0
            ? info.sequences - seen
            : 0;
    const auto steps = static_cast<double>(std::max<uint64_t>(report.steps, 1));
    report.rank_imbalance[0] /= steps;
    report.micro_batch_imbalance[0] /= steps;
    progress.report(count, count);
    return report;
}

}  // namespace sab
