#pragma once
/// Rules that plans of one column and of several have in common.

#include <string>
#include <vector>

#include "plan/automatic.h"
#include "plan/batch_sizes.h"
#include "plan/plan.h"

namespace sab {

/// The numbers of batches in a bucket that find_automatic() tries.
struct AutomaticRange {
    uint64_t fewest, most;
};
AutomaticRange automatic_range(const PlanOptions& options, uint64_t lower_bound, uint64_t samples);

/// What buckets waste, as a share: the larger of padding and, under a budget, batches over the
/// bound.
double overhead(const Waste& waste, uint64_t lower_bound, bool has_budget);

/// A sum of shares of batches as a number of batches.
uint64_t bound_of(double batches);

/// What the options and the number of samples tell.
PlanFacts facts_of(const BatchSizes& batch_sizes, uint64_t samples);
/// Whether all sizes are whole numbers, and so are all sums of them.
bool are_whole(std::span<const double> distinct_sizes, double total);

/// Sets the batches of a bucket, whose samples are set: `size` is the largest one of a batch.
void set_batches(Bucket& bucket, uint64_t size, sab_tail tail);

/// Some samples of a bucket that have a batch size of their own; 0: they are left out.
struct HeldPart {
    uint64_t samples, batch_size;
};
/// The parts of a bucket, from its shortest samples on, whose batches have at least
/// `min_batch_size` samples. As few samples as can be are left out.
std::vector<HeldPart> parts_for_fewest(uint64_t samples, uint64_t batch_size,
                                       const PlanOptions& options);

/// The fewest shapes of buckets. `has_inside`: some samples are in batches under the budget.
std::size_t fewest_shapes(const PlanOptions& options, bool has_inside, bool has_singles);
void check_shapes(std::size_t shapes, std::size_t fewest);
/// The most shapes that a plan which chooses their number may have. `limit`: 0: none. `lengths`:
/// how many buckets there can be; more shapes change nothing.
std::size_t most_shapes(std::size_t limit, std::size_t fewest, std::size_t lengths);

/// Samples that are outside the boundaries or over a budget.
struct Outside {
    uint64_t samples, of;
    NamedValue first;     ///< sample
    PerColumn padded;     ///< lengths of the first
    bool is_over_budget;  ///< the first; otherwise it is outside the boundaries
    bool have_indices;
};
/// Names the first one, and what helps.
[[noreturn]] void refuse_oversize(const Outside& outside, const BatchSizes& batch_sizes);
/// Says that all `samples` are outside. `smallest`: described; "" if it is not known.
[[noreturn]] void refuse_all(uint64_t samples, const BatchSizes& batch_sizes,
                             const std::string& smallest = "");
/// Says that no batch has `min_batch_size` samples.
[[noreturn]] void refuse_fewest(uint64_t samples, const PlanOptions& options);

}  // namespace sab
