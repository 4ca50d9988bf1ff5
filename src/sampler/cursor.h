#pragma once
/// A rank's way through a sequence: equal steps, splitting, seeking, state.

#include <array>

#include "sampler/rest.h"
#include "sampler/sampler.h"
#include "sampler/sampler_options.h"
#include "sampler/shape_pieces.h"

namespace sab {

struct CursorState;
struct OrderState;

/// Batches of a last step that are divided among ranks together: those from a position on, whose
/// samples follow each other.
struct DividedRun {
    uint64_t position;
    uint64_t batches;
    uint64_t samples;
    uint64_t pieces;
};

/// Refuses a position before `first`, and one that no batch of `end` has. With `or_end` the end can
/// be reached, too.
void check_position(uint64_t position, uint64_t first, uint64_t end, bool or_end);

class Cursor final : public RandomAccess {
public:
    Cursor(std::unique_ptr<Sequence> sequence, const SamplerOptions& options);

    SamplerKind kind() const override { return sequence_->kind(); }
    uint64_t epoch() const override { return schedule_.epoch_options.epoch; }
    uint64_t position() const override { return schedule_.position; }
    std::size_t skipped(std::span<int64_t> room) const override;
    const EpochChoice* choice() const override { return sequence_->choice(); }
    std::optional<uint64_t> known_batch_count() const override { return batch_count(); }
    StepTotals step_of(const EpochBatch& batch) override;
    Cursor& cursor() override { return *this; }
    void own() noexcept override { sequence_->own(); }

    const SamplerOptions& options() const { return options_; }
    const Sequence& sequence() const { return *sequence_; }
    /// Positions before it were taken by another number of ranks or under other options.
    uint64_t first_position() const { return schedule_.first_position; }
    uint64_t batch_count() const { return schedule_.end; }
    /// Shows the batch of this rank at a position from first_position() to below batch_count().
    void at(uint64_t position, EpochBatch& batch) override;
    /// Shows the batch of any rank at such a position.
    void fill(uint64_t position, uint64_t rank, EpochBatch& batch);
    /// Reads the batch of one of the shards of the sequence at such a position.
    void fill_shard(uint64_t position, uint64_t shard, Batch& batch) const {
        sequence_->fill_shard(global_batch_at(position).position, shard, batch);
    }
    /// Of a batch of any rank. A part of a batch costs its share of the samples.
    double cost(uint64_t position, uint64_t rank) const;
    /// See sab_next_block(). False when the epoch has no more batches.
    bool next_block(EpochBatch& scratch, std::size_t most, BatchArrays& block) override;
    void seek(uint64_t position) override;
    std::size_t save(std::span<std::byte> state) const override;
    std::size_t save_at(uint64_t position, std::span<std::byte> state) override;
    void restore(std::span<const std::byte> state) override;
    /// One that is where this one is, for another thread. It stays in this epoch.
    std::unique_ptr<Cursor> copy() const;
    /// Adds what all ranks take at a position.
    void add_totals(uint64_t position, StepTotals& totals) const;
    /// The first position that save_at() takes.
    uint64_t first_saved() const {
        return earlier_.empty() ? first_position() : earlier_.front().first_position;
    }

    /// An epoch that the cursor left: its order, and the place in it.
    class Parked;
    /// As set_epoch() and restore(). Gives the epoch that the cursor was in.
    Parked move_to(uint64_t epoch);
    Parked move_to(std::span<const std::byte> state);
    /// Swaps the epoch with one that the cursor left.
    void exchange(Parked& other) noexcept;
    /// Of the batches of a plan: the shapes that those of the epoch at hand may have from the first
    /// position on. Each is as large as a batch of its count can be.
    std::vector<Shape> shapes() const;
    /// How the batches of the last step are divided; empty where they are not.
    std::vector<DividedRun> last_runs() const;

    /// Whether the budgets of its plan can be lowered and raised again, for the batches to come.
    bool has_adjustable_budget() const {
        return sequence_->plan() != nullptr &&
               sequence_->kind() != kind_of("sab_costliest_sampler_new");
    }
    /// Of such a cursor, as what follows.
    const Plan& plan() const { return *sequence_->plan(); }
    double limit(std::size_t index) const;
    using Limits = std::array<double, SAB_MAX_BUDGETS>;  ///< by budget; 0: the plan's
    const Limits& limits() const { return schedule_.limits; }
    /// As save_at(), with these limits from the position on.
    std::size_t save_at(uint64_t position, const Limits& limits, std::span<std::byte> state) const;
    /// A change that is ready: commit() cannot fail, and without it nothing changes. Goes before
    /// any other call.
    struct Change;
    /// `limit` 0: the plan's own.
    Change prepare_limit(std::size_t index, double limit);

private:
    Cursor(std::unique_ptr<Sequence> sequence, const Cursor& other);
    bool take(EpochBatch& batch) override;
    void go_to_epoch(uint64_t epoch) override;

    /// Samples of a batch that a rank takes.
    struct Slice {
        uint64_t position;
        uint64_t first;
        uint64_t count;
        std::size_t padded_to = own_bucket;  ///< the bucket that has its padded lengths
    };
    static constexpr std::size_t own_bucket = ~std::size_t{0};

    /// What the ranks take from the order together: one batch each, fewer in a last step that is
    /// split.
    struct GlobalBatch {
        uint64_t position = 0;
        uint64_t batches = 0;
        bool operator==(const GlobalBatch&) const = default;
    };

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
        /// of the batches that all ranks take from the first position on; none before one is shown
        std::optional<BatchMean> mean;

        /// Of the order, at the first position.
        uint64_t first_batch() const { return rest ? 0 : begin.batch; }
    };

    bool is_split() const { return options_.last_step == SAB_LAST_STEP_SPLIT; }
    bool has_few_shapes() const { return sequence_->plan() != nullptr && plan().has_few_shapes(); }
    std::vector<BucketShape> order_shapes() const;
    const std::vector<Slice>& divided_by_shapes(const GlobalBatch& global_batch) const;
    const BatchOrder& order(const Schedule& schedule) const;
    const BatchOrder& order() const { return order(schedule_); }
    void check_any_step() const;
    uint64_t fewest() const;
    uint64_t most_pieces(uint64_t batch) const;
    bool is_enough_for_all(uint64_t batch) const;
    GlobalBatch global_batch_at(uint64_t position) const;
    std::vector<uint64_t> most_samples(const Limits& limits) const;
    std::shared_ptr<const Rest> rest_of(const Schedule& schedule) const;
    void lay_out();
    BatchMean mean() const;
    uint64_t rotated_rank(uint64_t position, uint64_t rank) const;
    Slice slice(uint64_t position, uint64_t rank) const;
    bool is_divided(const GlobalBatch& global_batch) const;
    const std::vector<DividedRun>& divided(const GlobalBatch& global_batch) const;
    void take_over(Schedule& schedule, uint64_t position) const;
    std::size_t save(const Schedule& schedule, bool has_ended, std::span<std::byte> state) const;
    void check_state(const OrderState& order, const CursorState& state) const;
    Parked go_to(const OrderState& order, const CursorState& state, std::vector<uint64_t> done);
    Parked go_to_cut(const OrderState& order, std::span<const uint64_t> body);
    void place(const OrderState& order);
    template <class Body>
    Parked attempt(std::unique_ptr<Sequence::EpochOrder> epoch_order, Body&& body);
    void exchange(Schedule& schedule) noexcept;

    std::unique_ptr<Sequence> sequence_;
    SamplerOptions options_;
    Schedule schedule_;
    /// of this epoch, before budgets were changed, the first first; their rests can be made again
    std::vector<Schedule> earlier_;
    /// the global batch that was divided last, and its runs
    mutable GlobalBatch divided_batch_;
    mutable std::vector<DividedRun> divided_;
    mutable std::vector<Slice> slices_;  ///< or what each rank takes of it, where shapes are few
};

class Cursor::Parked {
public:
    uint64_t batch_count() const { return schedule_.end; }

private:
    friend class Cursor;
    std::unique_ptr<Sequence::EpochOrder> order_;
    Schedule schedule_;
    std::vector<Schedule> earlier_;
};

struct Cursor::Change {
    void commit() noexcept;
    Cursor& cursor;
    /// none where the limit is set already: neither a step nor the batches that were read ahead end
    std::optional<Schedule> schedule{};
};

/// The handle of a cursor over a sequence, or of passes over it.
sab_sampler* new_cursor(std::unique_ptr<Sequence> sequence, const SamplerOptions& options);

}  // namespace sab
