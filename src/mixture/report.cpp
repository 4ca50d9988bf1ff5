#include "mixture/report.h"

#include <algorithm>
#include <numeric>

#include "sampler/capabilities.h"

namespace sab {
namespace {

/// What a batch takes up, over all columns: of a padded batch a sample, of a row the whole row.
double taken_up(const Batch& batch) {
    return std::accumulate(batch.padded_length.begin(),
                           batch.padded_length.begin() + static_cast<std::ptrdiff_t>(batch.columns),
                           0.0);
}

class Reporter {
public:
    Reporter(const EpochChoice& choice)
        : choice_(choice), reports_(choice.sources()), times_(choice.source_of().size()) {}

    void add(const Batch& batch) {
        if (batch.count == 0) return;
        const double taken = taken_up(batch);
        const double total = std::accumulate(batch.total.begin(), batch.total.end(), 0.0);
        for (uint64_t i = 0; i < batch.count; ++i) {
            const auto sample = static_cast<std::size_t>(batch.buffer[i]);
            sab_mixture_report& report = reports_[choice_.source_of()[sample]];
            ++report.samples;
            report.distinct += times_[sample]++ == 0;
            report.most = std::max<uint64_t>(report.most, times_[sample]);
            const bool is_piece = batch.is_row && !batch.starts.empty();
            const double size = is_piece ? batch.cu_seqlens[0][i + 1] - batch.cu_seqlens[0][i]
                                         : choice_.size_of(sample);
            report.total += size;
            report.padded_total += !batch.is_row ? taken : total > 0 ? taken * size / total : 0;
        }
    }

    std::vector<sab_mixture_report> made(std::span<const double> deviation) && {
        double all = 0;
        for (const sab_mixture_report& report : reports_) all += report.total;
        for (std::size_t s = 0; s < reports_.size(); ++s) {
            sab_mixture_report& report = reports_[s];
            report.padding = report.padded_total > 0 ? 1 - report.total / report.padded_total : 0;
            report.proportion = all > 0 ? report.total / all : 0;
            if (!deviation.empty()) report.deviation = deviation[s];
        }
        return std::move(reports_);
    }

private:
    const EpochChoice& choice_;
    std::vector<sab_mixture_report> reports_;
    std::vector<uint32_t> times_;  ///< of each sample
};

}  // namespace

std::vector<sab_mixture_report> report_sources(Sampler& sampler, const Progress& progress,
                                               std::size_t count) {
    const EpochChoice* const choice = sampler.choice();
    if (choice == nullptr) fail(SAB_E_ARGUMENT, "sampler: its sizes are no mixture");
    check(count == choice->sources(), "count", count, "must be the number of sources, ",
          choice->sources());
    const std::unique_ptr<RandomAccess> walk =
        need_random_access(sampler, "sab_mixture_get_report").copy();
    const uint64_t ranks = std::max(walk->options().world_size, walk->shards());
    Reporter reporter(*choice);
    EpochBatch placed;
    const uint64_t first = walk->first_position(), end = walk->batch_count();
    for (uint64_t position = first; position < end; ++position) {
        if (position % 256 == 0) progress.report(position - first, end - first);
        for (uint64_t rank = 0; rank < ranks; ++rank) {
            if (walk->shards() > 1)
                walk->fill_shard(position, rank, placed.batch);
            else
                walk->fill(position, rank, placed);
            reporter.add(placed.batch);
        }
    }
    progress.report(end - first, end - first);
    return std::move(reporter).made(sampler.deviation());
}

}  // namespace sab
