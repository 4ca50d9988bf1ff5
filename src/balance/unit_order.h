#pragma once
/// The order of an epoch of a balanced sampler: a permutation of units. Most units are one sample.
/// A unit of heavy samples, a cohort, has one for each micro-batch of a step.

#include <memory>
#include <span>
#include <vector>

#include "balance/samples.h"
#include "sampler/permutation.h"
#include "sizes/choice.h"

namespace sab {

/// Which samples are in cohorts, for those who began the epoch.
struct UnitCounts {
    uint64_t cohort = 1;  ///< micro-batches of a step, over all ranks
    uint64_t heavy = 0;   ///< samples in cohorts, a multiple of that
    uint64_t kept = 0;    ///< WeighedSamples::end
    /// how often the order was drawn again because it did not fit into the steps of an epoch
    uint64_t redraws = 0;
};

/// If no order of an epoch fits into its steps, it has that of epoch 0, which does.
inline constexpr uint64_t most_redraws = 16;

class UnitOrder {
public:
    UnitOrder() = default;
    /// `choice`: of a mixture, whose units are laid out such that every source stays near its due;
    /// null: any order.
    UnitOrder(std::shared_ptr<const WeighedSamples> samples, const UnitCounts& counts,
              uint64_t seed, uint64_t epoch, const EpochChoice* choice);

    uint64_t units() const { return units_.count(); }
    uint64_t cohorts() const { return counts_.heavy / counts_.cohort; }
    /// The unit at a place in the order. Cohorts have the lowest numbers.
    uint32_t at(uint64_t place);
    uint64_t samples_of(uint32_t unit) const { return unit < cohorts() ? counts_.cohort : 1; }
    /// The offset of one of the samples of a unit.
    uint32_t offset(uint32_t unit, uint64_t i) const;

private:
    /// Samples of nearly the same size, by descending size up to `end`: their order changes from
    /// epoch to epoch.
    struct Band {
        uint64_t end;
        Permutation offsets;
    };

    std::shared_ptr<const WeighedSamples> samples_;
    UnitCounts counts_;
    std::vector<Band> bands_;
    Permutation units_;
    std::shared_ptr<const std::vector<uint32_t>> laid_out_;  ///< all units, or null
    std::vector<uint32_t> ahead_;  ///< permuted units from ahead_first_ on
    uint64_t ahead_first_ = 0;
};

}  // namespace sab
