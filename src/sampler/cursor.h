#pragma once
/// A rank's way through a sequence: equal steps, splitting, seeking, state.

#include "sampler/sampler.h"

namespace sab {

/// Checks what the options say of ranks and policies.
void check_sampler_options(const sab_sampler_options& options);

class Cursor : public Sampler {
public:
    Cursor(std::unique_ptr<Sequence> sequence, const sab_sampler_options& options);

    bool next(PlacedBatch& batch) override;
    void set_epoch(uint64_t epoch) override;
    uint64_t epoch() const override { return arrangement_.epoch; }
    uint64_t step() const override { return step_; }
    uint64_t skipped() const override { return sequence_->skipped(); }
    uint64_t batch_count() const override;
    void seek(uint64_t step) override;
    BatchBlock next_block(PlacedBatch& scratch, std::size_t most, std::span<int64_t> indices, uint64_t* offsets) override;
    void at(uint64_t step, PlacedBatch& batch) override { fill(step, options_.rank, batch); }
    void set_budget(double budget) override;
    double budget() const override;
    const Plan* plan() const override { return sequence_->plan(); }
    void save(std::span<std::byte, SAB_STATE_SIZE> state) const override;
    void restore(std::span<const std::byte> state) override;

    /// The batch of any rank; for reports.
    void fill(uint64_t step, uint64_t rank, PlacedBatch& batch);

private:
    /// A rank's share of a batch.
    struct Share {
        uint64_t position;
        uint64_t first;
        uint64_t count;
    };

    /// A round is what `world` ranks take from the order together: a batch each, from `position` on. Under a lowered budget a round is cut into
    /// `parts` and takes several steps. Its pieces are numbered part by part, rank by rank.
    struct Round {
        uint64_t position = 0;
        uint64_t world = 0;
        uint64_t parts = 1;
        uint64_t piece = 0;  ///< the next
        uint64_t pieces_left() const { return world * parts - piece; }
    };

    uint64_t rounds() const;
    uint64_t lead_steps() const { return (lead_.pieces_left() + options_.world_size - 1) / options_.world_size; }
    Round round_at(uint64_t step) const;  ///< its `piece` is that of rank 0
    void price(double budget);
    void count_parts();
    uint64_t parts_of(uint64_t position) const;
    Share share(uint64_t first, uint64_t world, uint64_t rank) const;
    Share split_share(uint64_t first_position, uint64_t batches, uint64_t world, uint64_t rank) const;
    Share piece(const Round& round, uint64_t piece) const;
    void take_over(uint64_t step);
    void check_step(uint64_t step) const;
    void add_step_totals(const Round& round, PlacedBatch& batch) const;

    std::unique_ptr<Sequence> sequence_;
    sab_sampler_options options_;
    Arrangement arrangement_;
    // Where this number of ranks or this budget took over: at the beginning of the epoch, or later.
    uint64_t start_step_ = 0;
    uint64_t start_position_ = 0;
    Round lead_;          ///< what is left of a round that others began; no pieces: nothing
    uint64_t step_ = 0;
    double budget_ = 0;   ///< 0: the plan's
    std::vector<uint64_t> most_samples_;  ///< under `budget_`, by bucket
    std::vector<uint64_t> steps_before_;  ///< under `budget_`: steps before each round, and at last their number; empty: a step a round
    mutable Batch scratch_;
};

}  // namespace sab
