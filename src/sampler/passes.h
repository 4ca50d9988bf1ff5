#pragma once
/// Epochs of a number of steps that the caller chooses: passes over the epochs of the data.

#include <optional>
#include <vector>

#include "sampler/cursor.h"

namespace sab {

struct PassesState;

/// Cuts the epochs of the data, one after the other, into epochs of equal numbers of steps. A
/// cursor walks the epochs of the data. Positions are those of the new epochs, which are called
/// passes here; those of the cursor are smaller by `shift_`, modulo 2^64.
class Passes final : public RandomAccess {
public:
    /// The cursor is at the beginning of epoch 0 of the data.
    Passes(std::unique_ptr<Cursor> cursor, uint64_t pass);

    SamplerKind kind() const override { return cursor_->kind(); }
    uint64_t epoch() const override { return pass_number_; }
    uint64_t position() const override { return cursor_->position() + shift_; }
    const EpochChoice* choice() const override { return cursor_->choice(); }
    std::size_t skipped(std::span<int64_t> room) const override { return cursor_->skipped(room); }
    std::optional<uint64_t> known_batch_count() const override { return end(); }
    StepTotals step_of(const EpochBatch& batch) override;
    uint64_t changes() const override { return changes_ + cursor_->changes(); }
    void own() noexcept override { cursor_->own(); }
    Cursor& cursor() override { return *cursor_; }

    void at(uint64_t position, EpochBatch& batch) override;
    bool next_block(EpochBatch& scratch, std::size_t most, BatchArrays& block) override;
    void seek(uint64_t position) override;
    std::size_t save(std::span<std::byte> state) const override;
    std::size_t save_at(uint64_t position, std::span<std::byte> state) override;
    void restore(std::span<const std::byte> state) override;

private:
    /// Where steps are counted from: the beginning of the pass, or where other ranks or another
    /// budget took over, which ends a step.
    struct Base {
        uint64_t position = 0, step = 0;
        /// the first position that can be reached; later than `position` only after a state that
        /// was saved in a later epoch of the data
        uint64_t reach = 0;
        Cursor::Limits limits{};
        std::vector<std::byte> state;  ///< of the cursor at `reach`; empty: `start_`
    };
    /// Another epoch of the data that the pass is in, and what belongs to it.
    struct Part {
        Cursor::Parked parked;
        uint64_t shift;
        bool has(uint64_t position) const {
            return first_of(shift) <= position && position < parked.batch_count() + shift;
        }
    };
    /// Where the cursor was before it left its epoch.
    using Home = std::optional<Part>;

    bool take(EpochBatch& batch) override;
    void go_to_epoch(uint64_t pass) override;

    static uint64_t first_of(uint64_t shift) { return shift >> 63 == 0 ? shift : 0; }
    uint64_t steps() const { return cursor_->options().steps_per_epoch; }
    uint64_t micro_batches() const { return cursor_->options().micro_batches; }
    bool has(uint64_t position) const {
        return first_of(shift_) <= position && position < cursor_->batch_count() + shift_;
    }
    bool is_in_other(uint64_t position) const { return other_ && other_->has(position); }
    const std::vector<Base>& bases() const;
    const Base& base_at(uint64_t position) const;
    uint64_t step_after(uint64_t position) const;
    uint64_t end() const;
    void place(EpochBatch& batch);

    void swap(Part& other) noexcept;
    void leave(Cursor::Parked left, uint64_t shift, Home& home);
    void cross(Home& home);
    void go_on(uint64_t position, Home& home);
    void go_back(const Base& base, Home& home);
    void go(uint64_t position, Home& home);
    void go_behind(uint64_t position, Home& home);
    void go_to_start(Home& home);
    template <class Body>
    void attempt(Body&& body);
    template <class Body>
    void visit(Body&& body);
    void begin_pass(uint64_t pass) noexcept;
    std::size_t write(uint64_t position, uint64_t base_position, uint64_t base_step, bool has_ended,
                      std::span<const std::byte> place, std::span<std::byte> out) const;
    Base restored_base(const PassesState& read);
    void take_state(const PassesState& read, std::span<const std::byte> state, Home& home);

    std::unique_ptr<Cursor> cursor_;
    uint64_t pass_number_ = 0;
    uint64_t shift_ = 0;
    /// of a pass that had ended, or was longer, when it was saved
    std::optional<uint64_t> saved_end_;
    // Brought up to date when another budget took over:
    mutable Home other_;  ///< another epoch of the data that the pass has, to go back to
    mutable std::vector<std::byte>
        start_;                        ///< state of the cursor where the pass begins; empty: there
    mutable std::vector<Base> bases_;  ///< of the pass, the first first
    mutable uint64_t noted_changes_ = 0;  ///< of the cursor
};

}  // namespace sab
