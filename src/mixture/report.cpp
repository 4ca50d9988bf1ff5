#include "mixture/report.h"

#include <algorithm>
#include <cmath>
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
        : choice_(choice),
          reports_(choice.sources()),
          times_(choice.source_of().size()),
          seen_(choice.source_of().size()),
          in_step_(choice.sources()) {}

    void add(const Batch& batch) {
        if (batch.count == 0) return;
        double size_of_batch = 0;
        const double taken = taken_up(batch);
        const double total = std::accumulate(batch.total.begin(), batch.total.end(), 0.0);
        for (uint64_t i = 0; i < batch.count; ++i) {
            const auto sample = static_cast<std::size_t>(batch.buffer[i]);
            const uint16_t source = choice_.source_of()[sample];
            sab_mixture_report& report = reports_[source];
            const bool is_piece = batch.is_row && !batch.starts.empty();
            if (!is_piece || batch.starts[i] == 0) {  // else it is counted already
                ++report.samples;
                report.distinct += times_[sample]++ == 0;
                report.most = std::max<uint64_t>(report.most, times_[sample]);
                report.together += copies_found(sample);
            }
            const int32_t* const ends = is_piece ? &batch.true_cu_seqlens(0)[i] : nullptr;
            const double size = is_piece ? ends[1] - ends[0] : choice_.size_of(sample);
            report.total += size;
            size_of_batch += size;
            if (in_step_[source] == 0) found_.push_back(source);
            in_step_[source] += size;
            report.padded_total += !batch.is_row ? taken : total > 0 ? taken * size / total : 0;
        }
        largest_batch_ = std::max(largest_batch_, size_of_batch);
        ++batch_;
    }

    /// After the batches of all ranks.
    void end_step() {
        for (const uint16_t source : found_) {
            sources_.push_back(source);
            amounts_.push_back(in_step_[source]);
            in_step_[source] = 0;
        }
        found_.clear();
        step_ends_.push_back(sources_.size());
    }

    std::vector<sab_mixture_report> made() && {
        double all = 0;
        for (const sab_mixture_report& report : reports_) all += report.total;
        for (std::size_t s = 0; s < reports_.size(); ++s) {
            sab_mixture_report& report = reports_[s];
            report.padding = report.padded_total > 0 ? 1 - report.total / report.padded_total : 0;
            report.proportion = all > 0 ? report.total / all : 0;
        }
        measure_deviations();
        return std::move(reports_);
    }

private:
    /// How many copies more are known now to be in the batch at hand with another one: the second
    /// one is, and then the first.
    uint64_t copies_found(std::size_t sample) {
        Seen& seen = seen_[sample];
        const uint32_t before = seen.batch == batch_ ? seen.copies : 0;
        seen = {batch_, before + 1};
        return before == 1 ? 2 : static_cast<uint64_t>(before > 1);
    }

    /// A source is farthest from its due after a step that has some of it, or just before one.
    void measure_deviations() {
        if (largest_batch_ == 0) return;
        std::vector<double> given(reports_.size());
        double total = 0;
        std::size_t i = 0;
        const auto measure = [&](std::size_t source, double all) {
            double& most = reports_[source].deviation;
            most = std::max(
                most, std::abs(given[source] - reports_[source].proportion * all) / largest_batch_);
        };
        for (const std::size_t end : step_ends_) {
            const double before = total;
            for (std::size_t j = i; j < end; ++j) total += amounts_[j];
            for (; i < end; ++i) {
                measure(sources_[i], before);
                given[sources_[i]] += amounts_[i];
                measure(sources_[i], total);
            }
        }
    }

    const EpochChoice& choice_;
    std::vector<sab_mixture_report> reports_;
    std::vector<uint32_t> times_;  ///< of each sample
    struct Seen {
        uint32_t batch = 0;  ///< the last one that has the sample
        uint32_t copies = 0;
    };
    std::vector<Seen> seen_;
    uint32_t batch_ = 1;
    double largest_batch_ = 0;  ///< its size
    // of the step at hand:
    std::vector<double> in_step_;  ///< of each source, by size
    std::vector<uint16_t> found_;  ///< the sources of some size
    // of all steps, one after the other:
    std::vector<uint16_t> sources_;
    std::vector<double> amounts_;
    std::vector<std::size_t> step_ends_;
};

}  // namespace

std::vector<sab_mixture_report> report_sources(Sampler& sampler, const Progress& progress,
                                               std::size_t count) {
    const EpochChoice* const choice = sampler.choice();
    if (choice == nullptr) refuse_argument("sampler", no_value, "its sizes are no mixture");
    check(count == choice->sources(), "count", count, "must be the number of sources, ",
          choice->sources());
    const std::unique_ptr<Cursor> walk =
        need_random_access(sampler, "sab_mixture_get_report").cursor().copy();
    const uint64_t ranks = std::max(walk->options().world_size, walk->sequence().shards());
    Reporter reporter(*choice);
    EpochBatch placed;
    const uint64_t first = walk->first_position(), end = walk->batch_count();
    for (uint64_t position = first; position < end; ++position) {
        if (position % 256 == 0) progress.report(position - first, end - first);
        for (uint64_t rank = 0; rank < ranks; ++rank) {
            if (walk->sequence().shards() > 1)
                walk->fill_shard(position, rank, placed.batch);
            else
                walk->fill(position, rank, placed);
            reporter.add(placed.batch);
        }
        if ((position + 1) % walk->options().micro_batches == 0 || position + 1 == end)
            reporter.end_step();
    }
    progress.report(end - first, end - first);
    return std::move(reporter).made();
}

}  // namespace sab
