#pragma once
/// An epoch of a balanced sampler, cut into steps.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "balance/runs.h"
#include "balance/samples.h"
#include "balance/step_rows.h"
#include "balance/step_samples.h"
#include "balance/unit_order.h"
#include "base/progress.h"
#include "sampler/sampler_options.h"
#include "sampler/sequence.h"

namespace sab {

/// What says, beside the samples, where a step ends and who takes what of it.
struct StepRules {
    SamplerOptions options;
    uint64_t samples = 0;  ///< of a step; 0: as many as there is room for
    double fill = 1;       ///< of the room that a step of rows may fill

    StepRules() = default;
    /// Refuses options that break a rule.
    StepRules(const sab_balanced_options& balanced, const SamplerOptions& options);

    uint64_t parts() const { return options.world_size * options.micro_batches; }
    bool wraps() const { return options.last_step == SAB_LAST_STEP_WRAP; }
    /// Of a budget, that the samples of a step may fill.
    double room(const WeighedSamples& all, std::size_t budget) const {
        return fill * all.capacities[budget] * static_cast<double>(parts());
    }
    /// Of those who begin an epoch.
    UnitCounts unit_counts(const WeighedSamples& all, bool is_mixture) const;
    /// Of these rules and of what the samples cost and weigh.
    uint64_t hash(const WeighedSamples& all) const;
};

/// A position in the order: a unit, and the samples of it that are before the position.
/// SAB_LAST_STEP_WRAP goes on past the last unit with the first.
struct UnitPosition {
    uint64_t unit = 0;
    uint64_t offset = 0;
    bool operator==(const UnitPosition&) const = default;
};

/// Into how many steps an epoch is cut.
struct Pace {
    uint64_t steps = 0;
    /// What the last steps have less than the others, in steps: room for what steps do not hold.
    double spared = 0;
};

/// README.md in this folder says how steps are cut.
class StepCuts {
public:
    StepCuts() = default;
    StepCuts(const StepRules& rules, std::shared_ptr<const WeighedSamples> samples,
             const EpochChoice* choice, uint64_t epoch, const UnitCounts& counts);

    /// Cuts what is left of the epoch from a position on into the fewest steps that are found, but
    /// at least those of `least`. Returns their number, with one that SAB_LAST_STEP_DROP leaves
    /// out. Refuses a position that cannot be, of a state.
    Pace cut(UnitPosition first, Pace least, const Progress& progress);
    /// The same into so many steps. False when the samples do not fit.
    bool cut_into(UnitPosition first, const Pace& pace, const Progress& progress);
    /// Steps that all have as many samples as a step is to have; 0 where that is not given.
    uint64_t all_samples_steps() const;
    /// The first step, of as many padded samples as a step is to have, that needs too many
    /// micro-batches.
    struct Overfull {
        uint64_t step = 0;
        uint64_t needed = 0;  ///< micro-batches of this step, over all ranks
        uint64_t most = 0;    ///< the same of any step of the epoch
    };
    Overfull overfull();
    uint64_t steps() const { return starts_.size() - 1; }
    /// Whether cut_into() succeeded.
    bool is_all_cut() const { return left_over_ == 0; }
    /// Of a step, or the end of the last one.
    const UnitPosition& start(uint64_t step) const { return starts_[step]; }
    /// Of all steps.
    const BatchSums& sums() const { return sums_; }

    const std::shared_ptr<const WeighedSamples>& samples() const { return samples_; }
    uint64_t epoch() const { return epoch_; }
    const UnitCounts& counts() const { return counts_; }

    /// Makes a step the one at hand.
    void load(uint64_t step);
    // Of the step at hand:
    std::span<const uint32_t> offsets() const { return offsets_; }  ///< its samples
    const StepItems& items() const { return step_; }                ///< the same
    /// of each sample; micro-batch m of rank r is r * micro_batches + m
    const std::vector<uint32_t>& part_of() const { return part_of_; }

private:
    /// What samples take of the budgets together.
    struct Load {
        PerBudget weights{};
        double share = 0;    ///< the sum of their largest shares; with one budget their weight
        double largest = 0;  ///< of these shares

        void add(const Load& more);
    };
    /// What is not cut yet.
    struct Left {
        uint64_t samples = 0;
        double share = 0;  ///< as that of a load
    };
    /// Where a step ends, if all of it fits.
    struct Aim {
        uint64_t least;        ///< of its samples, if there is room
        uint64_t most;         ///< of its samples
        double share;          ///< of rows, as that of a load, with at least `least` samples
        uint64_t likely_most;  ///< of padded samples, where the search begins
    };
    /// A step up to a position. Its samples are in offsets_.
    struct Cut {
        UnitPosition end;
        Load load{};
        bool is_full = false;  ///< no more would have fitted
    };

    bool has_budgets() const { return !samples_->capacities.empty(); }
    bool is_kept(uint64_t offset) const {
        return offset < samples_->end &&
               (samples_->columns == 1 || !samples_->is_left_out[samples_->distinct_of[offset]]);
    }
    void append(UnitPosition& at, uint64_t most);
    void gather(UnitPosition at, UnitPosition end);
    Load load_from(std::size_t first) const;
    bool exceeds_room(const Load& load, const PerBudget& more) const;
    bool may_not_fit(const Load& load) const;
    Left left_from(UnitPosition at);
    Pace fastest_pace(UnitPosition first, const Progress& progress);
    Aim aim_of(const Left& all, const Left& left, uint64_t step, const Pace& pace) const;
    Aim full_aim(const Left& left) const;
    Cut next_step(UnitPosition begin, const Aim& aim);
    Cut next_rows(UnitPosition begin, const Aim& aim);
    void take_unit(Cut& cut, uint64_t most_samples);
    void shorten(UnitPosition begin, Cut& cut);
    Cut next_padded(UnitPosition begin, const Aim& aim);
    void take(UnitPosition& at, uint64_t count);
    void sort_first(std::size_t count);
    void read_lengths(std::size_t count);
    bool assign_padded();
    void add_to_sums();
    bool assign();

    StepRules rules_;
    std::shared_ptr<const WeighedSamples> samples_;  ///< of the epoch
    uint64_t epoch_ = 0;
    UnitCounts counts_;
    UnitOrder order_;
    std::vector<UnitPosition> starts_;  ///< of the steps; one more at the end
    BatchSums sums_;
    uint64_t left_over_ = 0;  ///< samples that cut_into() found no step for; 0: it succeeded

    // The step at hand:
    std::vector<uint32_t> offsets_;  ///< its samples, in the order of the epoch
    StepItems step_;                 ///< these
    StepRows rows_;                  ///< assigns them
    std::optional<Runs> runs_;       ///< the same, padded
    /// the first of the offsets, those of the longest samples first, each with its place
    std::vector<uint64_t> sorted_;
    std::vector<double> lengths_;  ///< of some of these
    std::vector<uint32_t> part_of_;
};

}  // namespace sab
