#pragma once
/// A rank's way through a sequence: equal steps, splitting, seeking, state.

#include <array>

#include "sampler/rest.h"
#include "sampler/sampler.h"

namespace sab {

/// Checks what the options say of ranks and policies.
void check_sampler_options(const sab_sampler_options& options);

/// SAB_E_ARGUMENT for an epoch of which SAB_LAST_STEP_DROP, or the `fewest` samples of a batch,
/// leave nothing. `batches`: of each rank.
void check_any_step(const sab_sampler_options& options, uint64_t epoch, uint64_t batches,
                    uint64_t fewest = 1);

struct CursorState;

class Cursor : public RandomAccess, private AdjustableBudget {
public:
    Cursor(std::unique_ptr<Sequence> sequence, const sab_sampler_options& options);

    SamplerKind kind() const override { return sequence_->kind(); }
    uint64_t epoch() const override { return schedule_.epoch_options.epoch; }
    uint64_t position() const override { return schedule_.position; }
    std::size_t skipped(std::span<int64_t> room) const override { return sequence_->skipped(room); }
    const EpochChoice* choice() const override { return sequence_->choice(); }
    uint64_t batch_count() const override { return schedule_.end; }
    StepTotals step_of(const EpochBatch& batch) override;
    AdjustableBudget* adjustable_budget() override {
        return has_adjustable_budget() ? this : nullptr;
    }
    void own() noexcept override { sequence_->own(); }
    const sab_sampler_options& options() const override { return options_; }
    uint64_t fingerprint() const override { return sequence_->fingerprint(); }
    const Sequence& sequence() const { return *sequence_; }
    /// In how many pieces each batch of the last step is divided; empty where it is not.
    std::vector<uint64_t> last_pieces() const;
    std::size_t save(std::span<std::byte> state) const override;
    std::unique_ptr<RandomAccess> copy() const override;
    std::size_t columns() const override { return sequence_->columns(); }
    bool knows_all_ranks() const override { return !sequence_->has_others(); }
    uint64_t shards() const override { return sequence_->shards(); }
    void fill_shard(uint64_t position, uint64_t shard, Batch& batch) const override {
        sequence_->fill_shard(global_batch_at(position).position, shard, batch);
    }
    uint64_t first_position() const override { return schedule_.first_position; }
    void fill(uint64_t position, uint64_t rank, EpochBatch& batch) override;
    /// Of a batch of any rank. A part of a batch costs its share of the samples.
    double cost(uint64_t position, uint64_t rank) const;

private:
    Cursor(std::unique_ptr<Sequence> sequence, const Cursor& other);
    void go_to_epoch(uint64_t epoch) override;
    bool go_to_state(std::span<const std::byte> state) override;
    void move_to(uint64_t position) noexcept override { schedule_.position = position; }

    const Plan& plan() const override { return *sequence_->plan(); }
    double limit(std::size_t index) const override;
    std::unique_ptr<Change> prepare_limit(std::size_t index, double limit) override;
    bool has_adjustable_budget() const {
        return sequence_->plan() != nullptr &&
               sequence_->kind() != kind_of("sab_costliest_sampler_new");
    }

    /// Samples of a batch that a rank takes.
    struct Slice {
        uint64_t position;
        uint64_t first;
        uint64_t count;
    };

    /// What the ranks take from the order together: one batch each, fewer in a last step that is
    /// split.
    struct GlobalBatch {
        uint64_t position = 0;
        uint64_t batches = 0;
        bool operator==(const GlobalBatch&) const = default;
    };

    using Limits = std::array<double, SAB_MAX_BUDGETS>;  ///< by budget; 0: the plan's

    /// All that changes as the cursor moves on.
    struct Schedule {
        uint64_t world_size = 1;
        uint64_t micro_batches = 1;  ///< of a step, of each rank
        EpochOptions epoch_options;
        // Where these ranks, micro-batches or budgets took over: at the beginning of the epoch, or
        // later.
        uint64_t first_position = 0;
        uint64_t first_step = 0;
        RestBegin begin;
        /// the batches from there on, where they are not those of the epoch: under lowered budgets,
        /// and in the rest of an epoch after them; else null
        std::shared_ptr<const Rest> rest;
        uint64_t position = 0;  ///< of the next batch
        uint64_t end = 0;       ///< number of batches of each rank
        Limits limits{};        ///< of lowered budgets
    };
    struct NewSchedule;

    const BatchOrder& order() const;
    uint64_t fewest() const;
    uint64_t most_pieces(uint64_t batch) const;
    bool is_enough_for_all(uint64_t batch) const;
    uint64_t first_batch() const;
    GlobalBatch global_batch_at(uint64_t position) const;
    std::vector<uint64_t> most_samples() const;
    void lay_out();
    uint64_t rotated_rank(uint64_t position, uint64_t rank) const;
    Slice slice(uint64_t position, uint64_t rank) const;
    const std::vector<uint64_t>& split(const GlobalBatch& global_batch) const;
    void take_over(uint64_t position);
    void check_state(const CursorState& state) const;
    void go_to(const CursorState& state, std::vector<uint64_t> done);
    template <class Body>
    void attempt(std::unique_ptr<Sequence::EpochOrder> epoch_order, Body&& body);
    void exchange(Schedule& schedule) noexcept;
    void add_totals(const GlobalBatch& global_batch, StepTotals& totals) const;

    std::unique_ptr<Sequence> sequence_;
    sab_sampler_options options_;
    Schedule schedule_;
    /// the global batch that was split last, and the number of pieces of each of its batches
    mutable GlobalBatch split_batch_;
    mutable std::vector<uint64_t> pieces_;
};

/// The handle of a cursor over a sequence.
sab_sampler* new_cursor(std::unique_ptr<Sequence> sequence, const sab_sampler_options& options);

}  // namespace sab
