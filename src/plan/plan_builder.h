#pragma once
/// The buckets of samples with one size each.

#include <string>
#include <vector>

#include "plan/batch_sizes.h"
#include "plan/boundaries.h"
#include "plan/plan.h"

namespace sab {

/// Refuses options that break the rules, whatever the sizes are.
void check_plan_options(const sab_plan_options& options);

/// At most so many threads sort.
inline std::size_t planning_threads(const sab_plan_options& options) {
    return static_cast<std::size_t>(std::max<uint64_t>(options.threads, 1));
}

/// Of sizes with one column: ascending, checked.
std::vector<double> read_boundaries(const sab_plan_options& options);

/// The numbers of batches in a bucket that find_automatic() tries.
struct AutomaticRange {
    uint64_t fewest, most;
};
AutomaticRange automatic_range(const sab_plan_options& options, uint64_t lower_bound,
                               uint64_t samples);

/// What buckets waste, as a share: the larger of padding and, under a budget, batches over the
/// bound.
double overhead(double padding, double padded, uint64_t batches, uint64_t lower_bound,
                bool has_budget);

uint64_t batches_of(uint64_t samples, uint64_t batch_size, sab_tail tail);

/// Says that no batch has `min_batch_size` samples.
[[noreturn]] void refuse_fewest(const sab_plan_options& options, uint64_t samples);

/// Samples that are taken from a bucket, since its last batch would have fewer than
/// `min_batch_size`: for batches of `batch_size` of their own, or, if it is 0, to be left out.
struct Taken {
    uint64_t samples, batch_size;
};
Taken taken_for_fewest(uint64_t samples, uint64_t batch_size, const sab_plan_options& options);

/// The steps of making a plan of one column. The counts and the options must outlive it.
class PlanBuilder {
public:
    /// `name`: of the column; "" if it has none.
    PlanBuilder(const SizeCounts& counts, const sab_plan_options& options, const std::string& name);

    const BatchSizes& batch_sizes() const { return batch_sizes_; }
    /// Whether no sample fits the boundaries and the budgets, and none is alone in a batch.
    bool is_empty() const { return begin_ == end_ && !has_singles(); }
    void check_any_left() const;
    [[noreturn]] void refuse_fewest() const { sab::refuse_fewest(options_, count_); }
    BoundaryFinder finder() const {
        return BoundaryFinder(
            counts_, begin_, end_, [this](double size) { return batch_sizes_.padded(size, 0); },
            [this](double size) { return std::max<uint64_t>(largest_batch(size), 1); });
    }
    PlanFacts facts(const BoundaryFinder& finder) const;
    /// Divides the samples into buckets; sets the lower bound and the targets of the facts.
    std::vector<BucketRange> ranges(BoundaryFinder& finder, PlanFacts& facts) const;
    /// Adds the bucket of the range number `number`, and its BucketLengths.
    void add_bucket(const BoundaryFinder& finder, const BucketRange& range, std::size_t number,
                    std::vector<Bucket>& buckets, std::vector<double>& lengths) const;

private:
    bool has_singles() const { return options_.oversize == SAB_OVERSIZE_SINGLE; }
    uint64_t outside() const { return count_ - (end_ - begin_); }
    uint64_t largest_batch(double size) const {
        const double length = batch_sizes_.padded(size, 0);
        return batch_sizes_.largest({&length, 1});
    }
    void find_usable_samples();
    [[noreturn]] void refuse_oversize() const;
    double least_batches() const;
    void hold_fewest(const BoundaryFinder& finder, std::vector<BucketRange>& ranges,
                     PlanFacts& facts) const;
    std::vector<BucketRange> shaped_ranges(BoundaryFinder& finder, std::size_t shapes) const;
    std::vector<BucketRange> singles(BoundaryFinder& finder, std::size_t& shapes) const;

    const SizeCounts& counts_;
    const sab_plan_options& options_;
    const std::vector<double> boundaries_;
    const std::span<const double> distinct_;
    const BatchSizes batch_sizes_;
    const Progress progress_;
    const uint64_t count_;
    uint64_t begin_ = 0, end_ = 0;  ///< the samples within the boundaries and the budget
};

}  // namespace sab
