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
    uint64_t position_of(uint64_t step) const { return start_position_ + (step - start_step_) * options_.world_size; }
    Share share(uint64_t step, uint64_t rank) const;
    Share split_share(uint64_t first_position, uint64_t batches, uint64_t rank) const;
    void add_step_totals(PlacedBatch& batch) const;

    std::unique_ptr<Sequence> sequence_;
    sab_sampler_options options_;
    Arrangement arrangement_;
    // Where this number of ranks took over: step 0 and position 0, or later after a restore from another number of ranks.
    uint64_t start_step_ = 0;
    uint64_t start_position_ = 0;
    uint64_t step_ = 0;
};

}  // namespace sab
