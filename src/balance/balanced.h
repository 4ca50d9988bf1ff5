#pragma once
/// Steps of samples in random order whose micro-batches have nearly equal cost, under budgets.

#include <optional>

#include "balance/partition.h"
#include "base/progress.h"
#include "cost/cost.h"
#include "plan/sorted.h"
#include "sab/balance.h"
#include "sampler/permutation.h"
#include "sampler/sampler.h"

namespace sab {

/// The order of an epoch is a permutation of units. Most units are one sample. A unit of heavy
/// samples has one for each micro-batch of a step. A step takes the next samples of the order until
/// it is full. README.md in this folder has the details.
struct BalancedState;

class BalancedSampler : public RandomAccess {
public:
    BalancedSampler(const Sizes& sizes, const sab_balanced_options& balanced,
                    const sab_sampler_options& options);
    /// The one that sab_balanced_sampler_new() made; refuses another sampler.
    static BalancedSampler& of(Sampler& sampler);

    SamplerKind kind() const override { return kind_of("sab_balanced_sampler_new"); }
    uint64_t epoch() const override { return schedule_.epoch; }
    uint64_t position() const override { return position_; }
    std::size_t skipped(std::span<int64_t> room) const override {
        return copy_indices<uint32_t>({sorted_.order.get() + kept_, sorted_.count - kept_}, room);
    }
    uint64_t batch_count() const override {
        return schedule_.first_position + (starts_.size() - 1) * options_.micro_batches;
    }
    StepTotals step_of(const EpochBatch& batch) override;
    std::size_t save(std::span<std::byte> state) const override;

    const sab_sampler_options& options() const override { return options_; }
    uint64_t fingerprint() const override { return fingerprint_; }

    sab_balanced_report report(const Progress& progress);

private:
    /// What a size costs, and how much of a micro-batch's capacity it takes.
    struct SampleCost {
        double cost;
        double weight;
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
        /// micro-batches of a step, over all ranks, of those who began the epoch
        uint64_t cohort = 1;
        uint64_t heavy = 0;  ///< samples in cohorts, a multiple of that
        uint64_t kept =
            0;  ///< samples, in ascending order of size, that were not too large for those
        UnitPosition first;  ///< of what can be reached
        uint64_t first_step = 0;
        uint64_t first_position = 0;  ///< micro-batches that each rank had taken
        /// position at which these options took over: first_position, or before it
        uint64_t took_over = 0;
    };

    /// Samples of nearly the same size, by descending size up to `end`: their order changes from
    /// epoch to epoch.
    struct Band {
        uint64_t end;
        Permutation offsets;
    };

    uint64_t parts() const { return options_.world_size * options_.micro_batches; }
    uint64_t cohorts() const { return schedule_.heavy / schedule_.cohort; }
    uint64_t units() const { return cohorts() + (schedule_.kept - schedule_.heavy); }
    double room() const { return fill_ * capacity_ * static_cast<double>(parts()); }
    const SampleCost& sample_cost(uint32_t offset) const {
        return sample_costs_[distinct_of_[offset]];
    }
    uint64_t heavy_of(uint64_t cohort) const;
    uint64_t rules() const;

    class Budgets;
    void weigh(const sab_balanced_options& balanced, Budgets& budgets,
               const std::optional<Cost>& balance);
    template <class Body>
    void attempt(Body&& body);
    void permute_units();
    uint32_t permuted(uint64_t unit);
    void append(UnitPosition& at, uint64_t most);
    void gather(UnitPosition at, UnitPosition end);
    void make_steps(const Progress& progress);
    void even_out();
    double weight_from(std::size_t first) const;
    UnitPosition next_start(UnitPosition at, bool& is_full);
    bool assign();
    void load(uint64_t step);
    void check_state(const BalancedState& state) const;
    void go_to(const BalancedState& state, bool is_alike);

    void go_to_epoch(uint64_t epoch) override;
    bool go_to_state(std::span<const std::byte> state) override;
    uint64_t first_position() const override { return schedule_.first_position; }
    void fill(uint64_t position, EpochBatch& batch) override;
    uint64_t read(uint64_t position, uint64_t room, EpochBatch& batch) override;
    void move_to(uint64_t position) noexcept override { position_ = position; }

    sab_sampler_options options_;
    uint64_t samples_;     ///< of a step; 0: as many as there is room for
    double fill_;          ///< of the room that a step may fill
    double capacity_ = 0;  ///< of a micro-batch; 0: no budget
    sab_partition_method method_;
    uint64_t rules_ = 0;        ///< hash of all that says where steps end
    uint64_t fingerprint_ = 0;  ///< of the samples
    Sorted sorted_;
    std::vector<uint32_t>
        distinct_of_;  ///< index of the distinct size, by offset in the sorted order
    std::vector<SampleCost> sample_costs_;
    uint64_t kept_ =
        0;  ///< samples, in ascending order of size, that are not too large for these caps
    double mean_cost_ = 0, mean_weight_ = 0;
    bool has_whole_sizes_ = false;

    Schedule schedule_;
    std::vector<Band> bands_;
    Permutation units_;
    std::vector<UnitPosition>
        starts_;  ///< of the steps from schedule_.first on; one more at the end
    uint64_t position_ = 0;
    std::vector<uint32_t> ahead_;  ///< permuted units from ahead_first_ on
    uint64_t ahead_first_ = 0;

    // The step at hand:
    Partitioner partitioner_;
    std::optional<uint64_t> loaded_;
    std::vector<uint32_t> offsets_;  ///< its samples, in the order of the epoch
    std::vector<double> costs_, weights_, part_costs_;
    std::vector<uint32_t> part_of_, rank_of_part_, slot_of_part_, dealt_;
    std::vector<std::size_t> slot_begin_;
    double total_ = 0;
};

}  // namespace sab
