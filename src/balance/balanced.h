#pragma once
/// Steps of samples in random order whose micro-batches have nearly equal cost, under budgets.

#include <optional>

#include "balance/runs.h"
#include "balance/step_cuts.h"
#include "sampler/sampler.h"

namespace sab {

/// A step takes the next samples of the order of units until it is full. README.md in this folder
/// has the details. Batch (step * micro_batches + m) * world_size + r is micro-batch m of rank r.
class BalancedSequence : public Sequence {
public:
    BalancedSequence(const Columns& sizes, const sab_balanced_options& balanced,
                     const SamplerOptions& options);

    std::unique_ptr<Sequence> copy() const override {
        return std::make_unique<BalancedSequence>(*this);
    }
    SamplerKind kind() const override { return kind_of("sab_balanced_sampler_new"); }
    uint64_t fingerprint() const override { return samples_of_->fingerprint(); }
    std::size_t skipped(std::span<int64_t> room) const override {
        return epoch_samples().left_out(room);
    }
    const EpochChoice* choice() const override { return samples_of_->choice(); }
    std::size_t columns() const override { return epoch_samples().columns; }
    void own() noexcept override { progress_ = {}; }
    std::unique_ptr<EpochOrder> make_epoch_order(const EpochOptions& epoch_options) const override;
    void exchange(EpochOrder& epoch_order) noexcept override;
    std::vector<uint64_t> state_body(uint64_t step) const override;
    Restored restored(const OrderState& order, std::span<const uint64_t> body) const override;

    uint64_t batches() const override { return present_.cuts.steps() * rules_.parts(); }
    uint64_t samples(uint64_t position) const override { return offsets_at(position).size(); }
    double cost(uint64_t position) const override;
    PerColumn total(uint64_t position) const override;
    BatchSums sums() const override { return present_.cuts.sums(); }
    void fill(uint64_t position, uint64_t first, uint64_t count, Batch& batch) const override;

    const WeighedSamples& epoch_samples() const { return *present_.cuts.samples(); }
    // Of a step, counted from the first of the order:
    const StepItems& items(uint64_t step) const;
    /// Of the micro-batches, by one of the balanced costs.
    std::span<const double> part_costs(uint64_t step, std::size_t balance) const;
    /// Of the micro-batches.
    std::vector<PaddedShape> part_shapes(uint64_t step) const;

private:
    /// An epoch, or what is left of it where these options took over.
    struct Present {
        StepCuts cuts;
        uint64_t rules = 0;       ///< StepRules::hash()
        uint64_t first_step = 0;  ///< of the optimizer, in which these options took over
        uint64_t took_over = 0;   ///< position at which these options took over
    };
    /// The step at hand, by micro-batches.
    struct StepParts {
        std::optional<uint64_t> step;
        std::vector<double> costs;  ///< the first of all micro-batches, then the second of all, ...
        std::vector<std::size_t> begins;  ///< of each micro-batch, in offsets; one more at the end
        std::vector<uint32_t> offsets;    ///< samples by micro-batch
    };

    std::shared_ptr<const WeighedSamples> samples_at(uint64_t epoch) const;
    UnitCounts unit_counts(const WeighedSamples& all) const {
        return rules_.unit_counts(all, choice() != nullptr);
    }
    StepCuts uncut(std::shared_ptr<const WeighedSamples> all, uint64_t epoch,
                   const UnitCounts& counts) const {
        return {rules_, std::move(all), choice(), epoch, counts};
    }
    void find_steps();
    [[noreturn]] void refuse_samples(StepCuts& cuts) const;
    bool cut_epoch(StepCuts& cuts) const;
    void load(uint64_t step) const;
    std::vector<double> costs_of(std::span<const uint32_t> part_of) const;
    void number_parts(uint64_t step, std::span<uint32_t> part_of) const;
    uint64_t part_at(uint64_t position) const;
    std::span<const uint32_t> offsets_at(uint64_t position) const;
    void fill_row(std::span<const uint32_t> offsets, Batch& batch) const;

    StepRules rules_;
    Pace pace_;              ///< of each epoch with as many samples as epoch 0
    std::size_t count_ = 0;  ///< samples of epoch 0
    Progress progress_;      ///< of the constructor's call; then none
    std::shared_ptr<const EpochSamples> samples_of_;
    mutable Present present_;
    mutable StepParts step_parts_;
};

/// How even the present epoch of a sampler of sab_balanced_sampler_new() or
/// sab_packed_sampler_new() is on all ranks; refuses another sampler.
/// The arrays are the handle's.
sab_balanced_report report_balance(sab_sampler& handle, const Progress& progress);

}  // namespace sab
