#include "sampler/passes.h"

#include "base/rounding.h"
#include "sampler/state.h"

namespace sab {
/// What a state of passes begins with. The cursor's states follow: at the start of the pass, and at
/// the position.
struct PassesState {
    char magic[4];
    uint32_t version;
    uint64_t checksum;  ///< XXH3 (64 bits) of all that follows it
    uint32_t length;    ///< of the whole state
    uint32_t start_length;
    uint64_t steps_per_epoch;
    uint64_t epoch;
    uint64_t position;
    uint64_t base_position;
    uint64_t base_step;
    uint64_t world_size;
    uint32_t micro_batches;
    uint32_t has_ended;
};
static_assert(sizeof(PassesState) == 80);

namespace {

constexpr uint32_t passes_version = 1;
constexpr uint64_t most_batches = uint64_t{1} << 62;  // before a pass, in all epochs of the data

std::vector<std::byte> saved(const Cursor& cursor) {
    std::vector<std::byte> state(cursor.save({}));
    cursor.save(state);
    return state;
}

std::vector<double> limits_of(const Cursor& cursor) {
    std::vector<double> limits;
    if (!cursor.has_adjustable_budget()) return limits;
    for (std::size_t i = 0; i < cursor.plan().budgets().size(); ++i)
        limits.push_back(cursor.limit(i));
    return limits;
}

void set_limits(Cursor& cursor, std::span<const double> limits) {
    for (std::size_t i = 0; i < limits.size(); ++i)
        if (cursor.limit(i) != limits[i]) cursor.prepare_limit(i, limits[i]).commit();
}

PassesState read_passes(std::span<const std::byte> state) {
    if (state.size() >= 4 && std::memcmp(state.data(), "SABS", 4) == 0)
        mismatch_state(
            "was saved without steps_per_epoch, this sampler has it; begin its epoch with "
            "sab_sampler_set_epoch()");
    const auto read =
        read_sealed<PassesState>(state, "SABP", "a sampler with steps_per_epoch", passes_version);
    check_consistent(read.start_length <= state.size() - sizeof read && read.steps_per_epoch >= 1 &&
                     read.steps_per_epoch <= most_epoch_steps && read.micro_batches >= 1 &&
                     read.micro_batches <= most_micro_batches && read.world_size >= 1 &&
                     read.world_size <= largest_world_size && read.base_position <= read.position &&
                     read.base_step <= most_epoch_steps && read.position <= most_batches &&
                     read.has_ended <= 1 && (read.has_ended == 0 || read.position > 0));
    return read;
}

}  // namespace

sab_sampler* new_cursor(std::unique_ptr<Sequence> sequence, const SamplerOptions& options) {
    if (options.steps_per_epoch == 0)
        return new_handle(std::make_unique<Cursor>(std::move(sequence), options));
    SamplerOptions of_data = options;
    of_data.epoch = 0;
    auto cursor = std::make_unique<Cursor>(std::move(sequence), of_data);
    return new_handle(std::make_unique<Passes>(std::move(cursor), options.epoch));
}

Passes::Passes(std::unique_ptr<Cursor> cursor, uint64_t pass) : cursor_(std::move(cursor)) {
    if (cursor_->batch_count() == 0)
        refuse_argument("options.steps_per_epoch", steps(),
                        "must be 0: the sampler has no batches");
    bases_.reserve(1);
    begin_pass(0);
    if (pass > 0) Passes::go_to_epoch(pass);
}

/// Where steps are counted from, after each change of a budget. Called before the cursor moves.
const std::vector<Passes::Base>& Passes::bases() const {
    const bool has_changed = noted_changes_ != cursor_->changes();
    if (!has_changed && !start_.empty()) return bases_;
    const uint64_t took_over = cursor_->first_position() + shift_;
    if (has_changed && took_over > 0) {
        Base base{took_over, step_after(took_over), took_over, cursor_->limits(), saved(*cursor_)};
        if (bases_.back().position == took_over) bases_.pop_back();
        bases_.push_back(std::move(base));
        other_.reset();  // under the limits before
    } else {
        start_ = saved(*cursor_);
        bases_.front().limits = cursor_->limits();
    }
    noted_changes_ = cursor_->changes();
    return bases_;
}

/// The last one that is not after a position.
const Passes::Base& Passes::base_at(uint64_t position) const {
    const auto after = std::ranges::upper_bound(bases_, position, {}, &Base::position);
    return after == bases_.begin() ? bases_.front() : *(after - 1);
}

/// The number of the step that begins at a position where others take over. A step of which the
/// ranks took a part before it ends there.
uint64_t Passes::step_after(uint64_t position) const {
    const Base& before = base_at(position);
    return before.step + ceiling(position - before.position, micro_batches());
}

uint64_t Passes::end() const {
    const Base& last = bases().back();
    if (saved_end_) return *saved_end_;
    return last.position + (steps() - std::min(steps(), last.step)) * micro_batches();
}

/// Gives a batch of the cursor its place in the pass.
void Passes::place(EpochBatch& batch) {
    batch.epoch = pass_number_;
    batch.position += shift_;
    const Base& base = base_at(batch.position);
    batch.step = base.step + (batch.position - base.position) / micro_batches();
    batch.micro_batch = (batch.position - base.position) % micro_batches();
    batch.changes = changes();
}

void Passes::swap(Part& other) noexcept {
    cursor_->exchange(other.parked);
    std::swap(shift_, other.shift);
}

/// After the cursor has left an epoch of the data.
void Passes::leave(Cursor::Parked left, uint64_t shift, Home& home) {
    if (!home) home = Part{std::move(left), shift_};
    shift_ = shift;
}

/// Goes to the next epoch of the data.
void Passes::cross(Home& home) {
    const uint64_t border = cursor_->batch_count() + shift_;
    leave(cursor_->move_to(cursor_->epoch() + 1), border, home);
    if (cursor_->batch_count() == 0)
        refuse_argument("options.steps_per_epoch", steps(), "must be 0: epoch ", cursor_->epoch(),
                        " of the data has no batches");
}

/// Goes to the epoch of the data that has a position, which is this one or a later one.
void Passes::go_on(uint64_t position, Home& home) {
    while (!has(position)) {
        cross(home);
        const uint64_t batches = cursor_->batch_count(), epochs = (position - shift_) / batches;
        if (epochs == 0 || !cursor_->sequence().has_equal_epochs()) continue;
        Cursor::Parked left = cursor_->move_to(cursor_->epoch() + epochs);
        leave(std::move(left), shift_ + epochs * batches, home);
    }
}

/// Goes where others took over, or where the pass begins.
void Passes::go_back(const Base& base, Home& home) {
    Cursor::Parked left =
        cursor_->move_to(std::span<const std::byte>(base.state.empty() ? start_ : base.state));
    leave(std::move(left), base.reach - cursor_->position(), home);
}

/// Goes to the batch at a position in reach.
void Passes::go(uint64_t position, Home& home) {
    if (is_in_other(position) && !has(position)) {
        home = std::move(other_);
        other_.reset();
        swap(*home);
    } else if (position < first_of(shift_)) {
        go_back(bases_.back(), home);
    }
    go_on(position, home);
    cursor_->seek(position - shift_);
}

/// Goes behind the batch before a position in reach, so that a position is always in one epoch of
/// the data.
void Passes::go_behind(uint64_t position, Home& home) {
    const uint64_t before = position - (position > 0);
    const Base& base = bases_.back();
    if (!has(before)) {
        if (position == base.reach)
            go_back(base, home);
        else
            go(before, home);
    }
    cursor_->seek(position - shift_);
}

/// Under the budgets that hold now.
void Passes::go_to_start(Home& home) {
    if (bases_.back().position == 0 && first_of(shift_) == 0) {
        cursor_->seek(0 - shift_);
        return;
    }
    const std::vector<double> limits = limits_of(*cursor_);
    go_back(Base{}, home);
    set_limits(*cursor_, limits);
}

/// Moves the cursor. A failure leaves it where it was.
template <class Body>
void Passes::attempt(Body&& body) {
    bases();
    const uint64_t position = cursor_->position();
    Home home;
    try {
        body(home);
    } catch (...) {
        if (home) swap(*home);
        cursor_->seek(position);
        noted_changes_ = cursor_->changes();
        throw;
    }
    if (home) other_ = std::move(home);
}

/// Moves the cursor, and comes back.
template <class Body>
void Passes::visit(Body&& body) {
    bases();
    const uint64_t before = cursor_->position();
    Home home;
    const auto come_back = [&] {
        if (home) {
            swap(*home);
            other_ = std::move(home);
        }
        cursor_->seek(before);
    };
    try {
        body(home);
    } catch (...) {
        come_back();
        throw;
    }
    come_back();
}

void Passes::begin_pass(uint64_t pass) noexcept {
    pass_number_ = pass;
    start_.clear();
    shift_ = 0 - cursor_->position();
    other_.reset();
    saved_end_.reset();
    bases_.assign(1, {});  // there is room
    noted_changes_ = cursor_->changes();
}

void Passes::go_to_epoch(uint64_t pass) {
    const uint64_t batches = steps() * micro_batches();
    check(pass <= most_batches / batches, "epoch", pass, "must be at most ", most_batches / batches,
          " with steps_per_epoch = ", steps());
    attempt([&](Home& home) {
        if (pass == pass_number_) {
            go_to_start(home);
        } else if (pass > pass_number_) {
            go(end() + (pass - pass_number_ - 1) * batches, home);
        } else {
            leave(cursor_->move_to(uint64_t{0}), 0, home);
            go_on(pass * batches, home);
            cursor_->seek(pass * batches - shift_);
        }
    });
    begin_pass(pass);
}

bool Passes::take(EpochBatch& batch) {
    const uint64_t next = position();
    if (next >= end()) return false;
    attempt([&](Home& home) {
        go(next, home);
        cursor_->next(batch);
    });
    place(batch);
    return true;
}

bool Passes::next_block(EpochBatch& scratch, std::size_t most, BatchArrays& block) {
    const uint64_t next = position(), left = end() - next;
    scratch.changes = EpochBatch::nothing_shown;
    if (left == 0) {
        pass_ = Pass::ended;
        return false;
    }
    attempt([&](Home& home) {
        go(next, home);
        cursor_->next_block(scratch, std::min<uint64_t>(most, left), block);
    });
    scratch.changes = EpochBatch::nothing_shown;
    const Base& base = base_at(next);
    block.place(pass_number_, base.step, next - base.position, micro_batches());
    pass_ = Pass::running;
    return true;
}

void Passes::at(uint64_t position, EpochBatch& batch) {
    check_position(position, bases().back().reach, end(), false);
    visit([&](Home& home) {
        go(position, home);
        cursor_->fill(position - shift_, cursor_->options().rank, batch);
        place(batch);
    });
}

void Passes::seek(uint64_t position) {
    check_position(position, bases().back().reach, end(), true);
    attempt([&](Home& home) { go_behind(position, home); });
    pass_ = Pass::ready;
}

StepTotals Passes::step_of(const EpochBatch& batch) {
    const uint64_t first = batch.position - batch.micro_batch,
                   last = std::min(first + micro_batches(), end());
    StepTotals totals{last - first};
    for (uint64_t position = first; position < last; ++position)
        visit([&](Home& home) {
            go(position, home);
            cursor_->add_totals(position - shift_, totals);
        });
    return totals;
}

std::size_t Passes::save(std::span<std::byte> out) const {
    const Base& base = (bases(), base_at(position()));
    return write(position(), base.position, base.step, pass_ == Pass::ended, saved(*cursor_), out);
}

std::size_t Passes::save_at(uint64_t position, std::span<std::byte> out) {
    check_position(position, bases().front().reach, end(), true);
    const Base& base = base_at(position);
    const Cursor::Limits limits = cursor_->limits();
    const bool is_last = &base == &bases_.back();
    std::vector<std::byte> place;
    const auto read = [&] {
        place.resize(cursor_->save_at(position - shift_, limits, {}));
        cursor_->save_at(position - shift_, limits, place);
    };
    if (has(position - (position > 0)) && position - shift_ >= cursor_->first_saved()) {
        read();
    } else {
        visit([&](Home& home) {
            if (is_last) {
                go_behind(position, home);
            } else {
                go_back(base, home);
                if (position > base.reach) go_on(position - 1, home);
            }
            read();
        });
        if (!is_last) other_.reset();  // under other limits
    }
    if (base.limits == limits) return write(position, base.position, base.step, false, place, out);
    return write(position, position, step_after(position), false, place, out);
}

std::size_t Passes::write(uint64_t position, uint64_t base_position, uint64_t base_step,
                          bool has_ended, std::span<const std::byte> place,
                          std::span<std::byte> out) const {
    const std::size_t size = sizeof(PassesState) + start_.size() + place.size();
    if (out.size() < size) return size;
    const PassesState state{{'S', 'A', 'B', 'P'},
                            passes_version,
                            0,
                            static_cast<uint32_t>(size),
                            static_cast<uint32_t>(start_.size()),
                            steps(),
                            pass_number_,
                            position,
                            base_position,
                            base_step,
                            cursor_->options().world_size,
                            static_cast<uint32_t>(micro_batches()),
                            has_ended};
    write_sealed(state, {start_, place}, out.first(size));
    return size;
}

/// Moves the cursor to the start and then to the position of a state.
void Passes::take_state(const PassesState& read, std::span<const std::byte> state, Home& home) {
    const auto start = state.subspan(sizeof read, read.start_length),
               place = state.subspan(sizeof read + read.start_length);
    leave(cursor_->move_to(start), 0, home);
    const uint64_t epoch = cursor_->epoch(), first = 0 - cursor_->position();
    leave(cursor_->move_to(place), 0, home);
    shift_ = read.position - cursor_->position();
    check_consistent(cursor_->epoch() == epoch
                         ? shift_ == first
                         : cursor_->epoch() > epoch && shift_ > 0 && shift_ <= read.position);
}

/// Where steps are counted from after a state. Positions before what it has of its epoch of the
/// data are out of reach, unless nobody took over since the pass began.
Passes::Base Passes::restored_base(const PassesState& read) {
    const SamplerOptions& own = cursor_->options();
    Base base{read.base_position, read.base_step, 0, cursor_->limits(), {}};
    if (own.world_size != read.world_size || own.micro_batches != read.micro_batches) {
        base.position = read.position;
        base.step += ceiling(read.position - read.base_position, read.micro_batches);
    }
    if (base.position == 0) return base;
    base.reach = std::max(base.position, first_of(cursor_->first_position() + shift_));
    base.state.resize(cursor_->save_at(base.reach - shift_, {}));
    cursor_->save_at(base.reach - shift_, base.state);
    return base;
}

void Passes::restore(std::span<const std::byte> state) {
    const PassesState read = read_passes(state);
    const auto start = state.subspan(sizeof read, read.start_length);
    std::vector<std::byte> kept(start.begin(), start.end());
    Base base;
    attempt([&](Home& home) {
        take_state(read, state, home);
        base = restored_base(read);
    });
    start_ = std::move(kept);
    other_.reset();
    saved_end_.reset();
    bases_.clear();
    bases_.push_back(std::move(base));  // there is room
    noted_changes_ = cursor_->changes();
    pass_number_ = read.epoch;
    if (read.has_ended == 1 || end() < read.position) saved_end_ = read.position;
    pass_ = read.has_ended == 1 ? Pass::ended : Pass::ready;
    ++changes_;
}

}  // namespace sab
