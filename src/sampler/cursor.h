#pragma once
/// A rank's way through a sequence: equal steps, splitting, seeking, state.

#include <array>

#include "sampler/sampler.h"

namespace sab {

/// Checks what the options say of ranks and policies.
void check_sampler_options(const sab_sampler_options& options);

/// SAB_E_ARGUMENT if the options ask for steady steps.
void check_not_steady(const sab_sampler_options& options);

/// SAB_E_ARGUMENT for an epoch of which SAB_LAST_STEP_DROP leaves nothing. `batches`: of each rank.
void check_any_step(const sab_sampler_options& options, uint64_t epoch, uint64_t batches);

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
        sequence_->fill_shard(substep_of(position).global_batch.position, shard, batch);
    }
    uint64_t first_position() const override { return schedule_.first_position; }
    void fill(uint64_t position, uint64_t rank, EpochBatch& batch) override;
    /// Of a batch of any rank. A part of a batch costs its share of the samples.
    double cost(uint64_t position, uint64_t rank) const;

private:
    Cursor(std::unique_ptr<Sequence> sequence, const Cursor& other)
        : sequence_(std::move(sequence)), options_(other.options_), schedule_(other.schedule_) {}
    void go_to_epoch(uint64_t epoch) override;
    bool go_to_state(std::span<const std::byte> state) override;
    uint64_t read(uint64_t position, uint64_t room, EpochBatch& batch) override;
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

    /// What the ranks take from the order together: so many batches from `position` of the order
    /// on, the first of them from its sample `first` on. A global batch is one micro-batch, or
    /// several under a lowered budget. Their slots, one for each rank and micro-batch, are filled
    /// with pieces of the batches.
    struct GlobalBatch {
        uint64_t position = 0;
        uint64_t first = 0;
        uint64_t batches = 0;
        bool operator==(const GlobalBatch&) const = default;
    };

    /// A micro-batch of a global batch.
    struct Substep {
        GlobalBatch global_batch;
        uint64_t index;
        uint64_t count;  ///< of the global batch
    };

    using Limits = std::array<double, SAB_MAX_BUDGETS>;  ///< by budget; 0: the plan's

    /// What lowered budgets pay for.
    struct Pricing {
        Limits limits{};
        std::vector<uint64_t> most_samples;  ///< by bucket; none when no budget is lowered
        bool is_lowered() const { return !most_samples.empty(); }
    };

    /// All that changes as the cursor moves on.
    struct Schedule {
        uint64_t world_size = 1;
        uint64_t micro_batches = 1;  ///< of a step, of each rank
        EpochOptions epoch_options;
        // Where these ranks, micro-batches or this budget took over: at the beginning of the epoch,
        // or later.
        uint64_t first_position = 0;
        uint64_t first_step = 0;
        uint64_t first_batch = 0;  ///< of the order
        /// the rest of a global batch that another number of ranks, or another budget, began; 0
        /// batches: nothing
        GlobalBatch remainder;
        uint64_t remainder_count = 0;  ///< micro-batches of it
        uint64_t position = 0;         ///< of the next batch
        uint64_t end = 0;              ///< number of batches of each rank
        Pricing pricing;
        /// under a lowered budget: micro-batches before each global batch, then their total; empty:
        /// each global batch is one micro-batch
        std::vector<uint64_t> count_before;
    };
    struct NewSchedule;

    uint64_t global_batches() const;
    GlobalBatch global_batch_from(uint64_t position) const;
    GlobalBatch global_batch_of(uint64_t index) const;
    Substep substep_of(uint64_t position) const;
    Pricing priced(const Limits& limits) const;
    void count_batches();
    void add_global_batch();
    uint64_t micro_batches_of(const GlobalBatch& global_batch) const;
    Slice batch_of(const GlobalBatch& global_batch, uint64_t index) const;
    uint64_t least_pieces(const Slice& batch) const;
    uint64_t rotated_rank(uint64_t position, uint64_t rank) const;
    Slice slice(const Substep& substep, uint64_t rotated) const;
    const std::vector<uint64_t>& split(const Substep& substep) const;
    void take_over(uint64_t position);
    void check_state(const CursorState& state) const;
    void go_to(const CursorState& state);
    template <class Body>
    void attempt(std::unique_ptr<Sequence::EpochOrder> epoch_order, Body&& body);
    void exchange(Schedule& schedule) noexcept;
    void add_totals(const Substep& substep, StepTotals& totals) const;

    std::unique_ptr<Sequence> sequence_;
    sab_sampler_options options_;
    Schedule schedule_;
    mutable Batch scratch_;
    /// the global batch that was split last, and the number of pieces of each of its batches
    mutable GlobalBatch split_batch_;
    mutable std::vector<uint64_t> pieces_;
};

/// The handle of a cursor over a sequence.
sab_sampler* new_cursor(std::unique_ptr<Sequence> sequence, const sab_sampler_options& options);

}  // namespace sab
