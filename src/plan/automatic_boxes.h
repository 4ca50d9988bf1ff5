#pragma once
/// The boxes of SAB_BUCKETS_AUTO: cuts, and sorted cuts where those would have far fewer batches.

#include <vector>

#include "plan/automatic.h"
#include "plan/batch_sizes.h"
#include "plan/boxes.h"
#include "plan/plan_rules.h"
#include "plan/sorted_cuts.h"

namespace sab {

class AutomaticBoxes {
public:
    using Tried = Automatic<std::vector<Box>>;

    /// `lower_bound`: of the number of batches. `singles`: what batches of one sample, which are
    /// counted in it, add to the waste. `parts`: the cells are one of so many.
    AutomaticBoxes(const Cells& cells, const BatchSizes& batch_sizes, double target,
                   uint64_t lower_bound, const Waste& singles, std::size_t parts);

    Tried find(const Progress& progress);

private:
    const PlanOptions& options() const { return batch_sizes_.options(); }
    Tried tried(std::vector<Box> boxes, uint64_t fewest) const;
    Tried by_cuts(const BoxFinder& finder, uint64_t most, const Progress& progress) const;
    Tried by_orders(uint64_t most, const Progress& progress);
    bool has_few_batches(const Tried& tried, const Progress& progress);
    bool meets_target(const Tried& tried) const { return tried.overhead <= target_; }
    void add_orders(const Progress& progress);

    const Cells& cells_;
    const BatchSizes& batch_sizes_;
    double target_;
    uint64_t lower_bound_;
    Waste singles_;
    std::size_t parts_;
    AutomaticRange range_{};
    BoxFinder finder_;
    SortedCuts orders_;
};

}  // namespace sab
