#pragma once
/// Steps of samples in random order whose micro-batches have nearly equal cost, under budgets.

#include <optional>

#include "balance/samples.h"
#include "balance/step_rows.h"
#include "balance/step_samples.h"
#include "balance/unit_order.h"
#include "base/progress.h"
#include "sab/balance.h"
#include "sampler/sampler.h"

namespace sab {

/// How uneven some costs are: the largest of them, to their mean. 1 where all are 0.
double imbalance_of(std::span<const double> costs, double sum);

struct BalancedState;

/// A step takes the next samples of the order of units until it is full. README.md in this folder
/// has the details.
class BalancedSampler : public RandomAccess {
public:
    BalancedSampler(const Columns& sizes, const sab_balanced_options& balanced,
                    const sab_sampler_options& options);
    /// The one that sab_balanced_sampler_new() made; refuses another sampler.
    static BalancedSampler& of(Sampler& sampler);

    SamplerKind kind() const override { return kind_of("sab_balanced_sampler_new"); }
    uint64_t epoch() const override { return schedule_.epoch; }
    uint64_t position() const override { return position_; }
    const EpochChoice* choice() const override { return samples_of_->choice(); }
    std::size_t skipped(std::span<int64_t> room) const override { return weighed_->left_out(room); }
    uint64_t batch_count() const override {
        return schedule_.first_position + (starts_.size() - 1) * options_.micro_batches;
    }
    StepTotals step_of(const EpochBatch& batch) override;
    std::size_t save(std::span<std::byte> state) const override;

    const sab_sampler_options& options() const override { return options_; }
    uint64_t fingerprint() const override { return samples_of_->fingerprint(); }
    std::size_t columns() const override { return weighed_->columns; }
    std::unique_ptr<RandomAccess> copy() const override {
        return std::make_unique<BalancedSampler>(*this);
    }
    uint64_t first_position() const override { return schedule_.first_position; }
    void fill(uint64_t position, uint64_t rank, EpochBatch& batch) override;

    sab_balanced_report report(const Progress& progress);

private:
    /// What samples take of the budgets together.
    struct Load {
        PerBudget weights{};
        double share = 0;    ///< the sum of their largest shares; with one budget their weight
        double largest = 0;  ///< of these shares
    };

    /// A position in the order: a unit, and the samples of it that are before the position.
    /// SAB_LAST_STEP_WRAP goes on past the last unit with the first.
    struct UnitPosition {
        uint64_t unit = 0;
        uint64_t offset = 0;
        bool operator==(const UnitPosition&) const = default;
    };

    /// How an epoch is laid out, and where these options took over.
    struct Schedule {
        uint64_t epoch = 0;
        UnitCounts counts;
        UnitPosition first;  ///< of what can be reached
        uint64_t first_step = 0;
        uint64_t first_position = 0;  ///< micro-batches that each rank had taken
        /// position at which these options took over: first_position, or before it
        uint64_t took_over = 0;
    };

    uint64_t parts() const { return options_.world_size * options_.micro_batches; }
    /// Of a budget, that the samples of a step may fill.
    double room(std::size_t budget) const {
        return fill_ * weighed_->capacities[budget] * static_cast<double>(parts());
    }
    bool has_budgets() const { return !weighed_->capacities.empty(); }
    bool is_kept(uint64_t offset) const {
        return offset < weighed_->end &&
               (weighed_->columns == 1 || !weighed_->is_left_out[weighed_->distinct_of[offset]]);
    }
    uint64_t heavy_of(uint64_t cohort) const;
    UnitCounts unit_counts() const;
    uint64_t rules() const;

    template <class Body>
    void attempt(Body&& body);
    void take_samples(uint64_t epoch, const Progress& progress);
    void begin_epoch(uint64_t epoch);
    void order_units();
    void append(UnitPosition& at, uint64_t most);
    void gather(UnitPosition at, UnitPosition end);
    void make_steps(const Progress& progress);
    void even_out();
    Load load_from(std::size_t first) const;
    bool exceeds_room(const Load& load, const PerBudget& more) const;
    bool may_not_fit(const Load& load) const;
    UnitPosition next_start(UnitPosition at, bool& is_full);
    bool assign();
    void add_up_costs();
    void number_parts(uint64_t step);
    void load(uint64_t step);
    void show(std::span<const uint32_t> offsets, Batch& batch) const;
    void measure(std::size_t balance, sab_balanced_report& report) const;
    bool check_state(const BalancedState& state) const;
    void go_to(const BalancedState& state, bool is_alike);

    void go_to_epoch(uint64_t epoch) override;
    bool go_to_state(std::span<const std::byte> state) override;
    void move_to(uint64_t position) noexcept override { position_ = position; }

    sab_sampler_options options_;
    uint64_t samples_;  ///< of a step; 0: as many as there is room for
    double fill_;       ///< of the room that a step may fill
    std::shared_ptr<const EpochSamples> samples_of_;  ///< the epochs

    std::shared_ptr<const WeighedSamples> weighed_;  ///< of the epoch
    uint64_t rules_ = 0;                             ///< hash of all that says where steps end
    Schedule schedule_;
    UnitOrder order_;
    std::vector<UnitPosition>
        starts_;  ///< of the steps from schedule_.first on; one more at the end
    uint64_t position_ = 0;

    // The step at hand:
    std::optional<uint64_t> loaded_;
    std::vector<uint32_t> offsets_;  ///< its samples, in the order of the epoch
    StepItems step_;                 ///< these
    StepRows rows_;                  ///< assigns them
    /// of each sample; micro-batch m of rank r is r * micro_batches + m
    std::vector<uint32_t> part_of_;
    std::vector<double> part_costs_;  ///< the first of all parts, then the second of all, and so on
    std::vector<std::size_t> part_begin_;  ///< of each part, in dealt_
    std::vector<uint32_t> dealt_;          ///< samples by part
    PerColumn total_{};
};

}  // namespace sab
