#pragma once
/// A rank's way through a sequence: equal steps, splitting, seeking, state.

#include "sampler/sampler.h"

namespace sab {

/// Checks what the options say of ranks and policies.
void check_sampler_options(const sab_sampler_options& options);

struct CursorState;

class Cursor : public RandomAccess, private AdjustableBudget {
public:
    Cursor(std::unique_ptr<Sequence> sequence, const sab_sampler_options& options);

    SamplerKind kind() const override { return sequence_->kind(); }
    void set_epoch(uint64_t epoch) override;
    uint64_t epoch() const override { return course_.arrangement.epoch; }
    uint64_t step() const override { return course_.step; }
    uint64_t skipped() const override { return sequence_->skipped(); }
    uint64_t batch_count() const override;
    AdjustableBudget* adjustable_budget() override {
        return has_adjustable_budget() ? this : nullptr;
    }
    void own() noexcept override { sequence_->own(); }
    const sab_sampler_options& options() const override { return options_; }
    uint64_t fingerprint() const override { return sequence_->fingerprint(); }
    const Sequence& sequence() const { return *sequence_; }
    void save(std::span<std::byte, SAB_STATE_SIZE> state) const override;
    void restore(std::span<const std::byte> state) override;

    /// The batch of any rank; for reports.
    void fill(uint64_t step, uint64_t rank, PlacedBatch& batch);

private:
    uint64_t first_position() const override { return course_.start_step; }
    void fill(uint64_t step, PlacedBatch& batch) override { fill(step, options_.rank, batch); }
    uint64_t read(uint64_t step, uint64_t room, PlacedBatch& batch) override;
    void move_to(uint64_t step) noexcept override { course_.step = step; }

    const Plan& plan() const override { return *sequence_->plan(); }
    double budget() const override;
    std::unique_ptr<Change> prepare_budget(double budget) override;
    bool has_adjustable_budget() const {
        return sequence_->plan() != nullptr && sequence_->kind() != SamplerKind::worst;
    }

    /// A rank's share of a batch.
    struct Share {
        uint64_t position;
        uint64_t first;
        uint64_t count;
    };

    /// What the ranks take from the order together: so many batches from `position` on, the first
    /// of them from its sample `first` on. A round takes one step, or several under a lowered
    /// budget, whose world size times steps places are dealt pieces of the batches.
    struct Round {
        uint64_t position = 0;
        uint64_t first = 0;
        uint64_t batches = 0;
        bool operator==(const Round&) const = default;
    };

    /// A step of a round.
    struct Place {
        Round round;
        uint64_t step;
        uint64_t steps;
    };

    /// What a lowered budget pays for.
    struct Pricing {
        double budget = 0;                   ///< 0: the plan's
        std::vector<uint64_t> most_samples;  ///< by bucket
    };

    /// All that changes as the cursor moves on.
    struct Course {
        uint64_t world_size = 1;
        Arrangement arrangement;
        // Where this number of ranks or this budget took over: at the beginning of the epoch, or
        // later.
        uint64_t start_step = 0;
        uint64_t start_position = 0;
        /// what is left of a round that others began; 0 batches: nothing
        Round lead;
        uint64_t lead_steps = 0;
        uint64_t step = 0;
        Pricing pricing;
        /// under a lowered budget: steps before each round, and at last their number; empty: a step
        /// a round
        std::vector<uint64_t> steps_before;
    };
    struct NewCourse;

    uint64_t rounds() const;
    Round round_from(uint64_t position) const;
    Place place_of(uint64_t step) const;
    Pricing priced(double budget) const;
    void count_steps();
    uint64_t steps_of(const Round& round) const;
    Share batch_of(const Round& round, uint64_t index) const;
    uint64_t least_pieces(const Share& batch) const;
    uint64_t turn_of(uint64_t step, uint64_t rank) const;
    Share share(const Place& place, uint64_t turn) const;
    const std::vector<uint64_t>& cut(const Place& place) const;
    void take_over(uint64_t step);
    void check_sound(const CursorState& state) const;
    void go_to(const CursorState& state);
    template <class Body>
    void attempt(std::unique_ptr<Sequence::Layout> layout, Body&& body);
    void exchange(Course& course) noexcept;
    void add_step_totals(const Place& place, PlacedBatch& batch) const;

    std::unique_ptr<Sequence> sequence_;
    sab_sampler_options options_;
    Course course_;
    mutable Batch scratch_;
    /// the round that was cut last, and into how many pieces each of its batches
    mutable Round cut_round_;
    mutable std::vector<uint64_t> pieces_;
};

/// The handle of a cursor over a sequence.
sab_sampler* new_cursor(std::unique_ptr<Sequence> sequence, const sab_sampler_options& options);

}  // namespace sab
