#include "sampler/cursor.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "sampler/state.h"

namespace sab {
namespace {

constexpr uint64_t most_ranks_lowered = uint64_t{1} << 20;  // each is a number in memory

void check_lowered_ranks(uint64_t world_size) {
    check(world_size <= most_ranks_lowered, "options.world_size", world_size,
          "a budget is lowered for at most ", most_ranks_lowered, " ranks");
}

/// How many pieces a batch is split into so that none costs more than `most`.
uint64_t pieces_of(uint64_t samples, double cost, double most) {
    const double pieces = std::ceil(cost / most);
    return pieces < static_cast<double>(samples)
               ? std::max<uint64_t>(1, static_cast<uint64_t>(pieces))
               : samples;
}

}  // namespace

/// The body of a saved state: where a world stood in the order of the epoch.
struct CursorState {
    OrderState order;
    uint64_t step;        ///< the next one
    uint64_t start_step;  ///< where this number of ranks, or this budget, took over
    uint64_t start_position;
    uint64_t world_size;
    uint64_t step_batches;  ///< world size that began the epoch
    uint64_t costliest_first;
    uint64_t remainder_position;  ///< the rest of a global batch; see Cursor::Schedule
    uint64_t remainder_first;
    uint64_t remainder_batches;
    /// of the plan's budgets, for the batches to come; 0: the plan's
    std::array<double, SAB_MAX_BUDGETS> limits;
};
static_assert(sizeof(StateHeader) + sizeof(CursorState) == SAB_STATE_SIZE);

void check_sampler_options(const sab_sampler_options& options) {
    check(options.world_size >= 1 && options.world_size <= largest_world_size, "options.world_size",
          options.world_size, "must be from 1 to 2^32 - 1");
    check(options.rank < options.world_size, "options.rank", options.rank,
          "must be below the world size, ", options.world_size);
    check(options.last_step >= SAB_LAST_STEP_SPLIT && options.last_step <= SAB_LAST_STEP_WRAP,
          "options.last_step", options.last_step,
          "must be one of SAB_LAST_STEP_SPLIT (0) to SAB_LAST_STEP_WRAP (2)");
    check(options.step_totals == 0 || options.step_totals == 1, "options.step_totals",
          options.step_totals, "must be 0 or 1");
}

Cursor::Cursor(std::unique_ptr<Sequence> sequence, const sab_sampler_options& options)
    : sequence_(std::move(sequence)), options_(options) {
    check_sampler_options(options);
    schedule_.world_size = options.world_size;
    set_epoch(options.epoch);
}

sab_sampler* new_cursor(std::unique_ptr<Sequence> sequence, const sab_sampler_options& options) {
    return new_handle(std::make_unique<Cursor>(std::move(sequence), options));
}

/// Takes an epoch order, if there is one, and changes the schedule. A failure leaves both
/// unchanged.
template <class Body>
void Cursor::attempt(std::unique_ptr<Sequence::EpochOrder> epoch_order, Body&& body) {
    Schedule before = schedule_;
    if (epoch_order) sequence_->exchange(*epoch_order);
    try {
        body();
    } catch (...) {
        schedule_ = std::move(before);
        split_batch_ = {};
        if (epoch_order) sequence_->exchange(*epoch_order);
        throw;
    }
}

void Cursor::set_epoch(uint64_t epoch) {
    const EpochOptions epoch_options{options_.seed, epoch, schedule_.world_size,
                                     options_.costliest_first};
    attempt(sequence_->make_epoch_order(epoch_options), [&] {
        schedule_.epoch_options = epoch_options;
        schedule_.start_step = schedule_.start_position = schedule_.step = 0;
        schedule_.remainder = {};
        count_steps();
    });
}

uint64_t Cursor::global_batches() const {
    const uint64_t left = sequence_->batches() - schedule_.start_position;
    const uint64_t world = schedule_.world_size;
    return left / world + (options_.last_step != SAB_LAST_STEP_DROP && left % world != 0);
}

uint64_t Cursor::batch_count() const {
    return schedule_.start_step + schedule_.remainder_steps +
           (schedule_.steps_before.empty() ? global_batches() : schedule_.steps_before.back());
}

Cursor::GlobalBatch Cursor::global_batch_from(uint64_t position) const {
    const uint64_t world = schedule_.world_size, left = sequence_->batches() - position;
    return {position, 0, options_.last_step == SAB_LAST_STEP_WRAP ? world : std::min(world, left)};
}

Cursor::Substep Cursor::substep_of(uint64_t step) const {
    uint64_t after = step - schedule_.start_step;
    if (after < schedule_.remainder_steps)
        return {schedule_.remainder, after, schedule_.remainder_steps};
    after -= schedule_.remainder_steps;
    if (schedule_.steps_before.empty())
        return {global_batch_from(schedule_.start_position + after * schedule_.world_size), 0, 1};
    const auto next = std::ranges::upper_bound(schedule_.steps_before, after);
    const auto index = static_cast<uint64_t>(next - schedule_.steps_before.begin()) - 1;
    return {global_batch_from(schedule_.start_position + index * schedule_.world_size),
            after - schedule_.steps_before[index], *next - schedule_.steps_before[index]};
}

void Cursor::count_steps() {
    split_batch_ = {};
    schedule_.remainder_steps = steps_of(schedule_.remainder);
    schedule_.steps_before.clear();
    if (!schedule_.pricing.is_lowered()) return;
    schedule_.steps_before.reserve(global_batches() + 1);
    schedule_.steps_before.push_back(0);
    for (uint64_t global_batch = 0, count = global_batches(); global_batch < count; ++global_batch)
        schedule_.steps_before.push_back(
            schedule_.steps_before.back() +
            steps_of(
                global_batch_from(schedule_.start_position + global_batch * schedule_.world_size)));
}

/// The fewest steps in which no piece exceeds a budget.
uint64_t Cursor::steps_of(const GlobalBatch& global_batch) const {
    uint64_t pieces = 0, batches = global_batch.batches;
    // the epoch several times over
    if (const uint64_t all = sequence_->batches();
        global_batch.first == 0 && all > 0 && batches > all) {
        for (uint64_t i = 0; i < all; ++i) pieces += least_pieces(batch_of(global_batch, i));
        pieces *= batches / all;
        batches %= all;
    }
    for (uint64_t i = 0; i < batches; ++i) pieces += least_pieces(batch_of(global_batch, i));
    return pieces / schedule_.world_size + (pieces % schedule_.world_size != 0);
}

Cursor::Slice Cursor::batch_of(const GlobalBatch& global_batch, uint64_t index) const {
    // past the end only under SAB_LAST_STEP_WRAP
    const uint64_t position = (global_batch.position + index) % sequence_->batches();
    const uint64_t first = index == 0 ? global_batch.first : 0;
    return {position, first, sequence_->samples(position) - first};
}

uint64_t Cursor::least_pieces(const Slice& batch) const {
    if (!schedule_.pricing.is_lowered()) return 1;
    const uint64_t most = schedule_.pricing.most_samples[sequence_->bucket(batch.position)];
    return most == 0 ? batch.count : (batch.count + most - 1) / most;
}

/// Another world size or budget takes over at `step`. Earlier steps cannot be reached any more.
void Cursor::take_over(uint64_t step) {
    if (step >= batch_count()) {
        schedule_.start_position = sequence_->batches();
        schedule_.remainder = {};
    } else if (const Substep substep = substep_of(step);
               step < schedule_.start_step + schedule_.remainder_steps || substep.step > 0) {
        if (step >= schedule_.start_step + schedule_.remainder_steps)
            schedule_.start_position = std::min(
                substep.global_batch.position + schedule_.world_size, sequence_->batches());
        // The first piece of the next step is where the rest begins: pieces are dealt in order.
        const std::vector<uint64_t>& pieces = split(substep);
        uint64_t index = 0, before = substep.step * schedule_.world_size;
        for (; before >= pieces[index]; ++index) before -= pieces[index];
        const Slice batch = batch_of(substep.global_batch, index);
        const uint64_t position = substep.global_batch.position + index, all = sequence_->batches();
        schedule_.remainder = {};  // what SAB_LAST_STEP_WRAP would repeat is done
        if (position < all)
            schedule_.remainder = {position, batch.first + batch.count * before / pieces[index],
                                   std::min(substep.global_batch.batches - index, all - position)};
    } else {
        schedule_.remainder = {};
        schedule_.start_position = substep.global_batch.position;
    }
    schedule_.start_step = step;
}

struct Cursor::NewSchedule : AdjustableBudget::Change {
    explicit NewSchedule(Cursor& of) : cursor(of), schedule(of.schedule_) {}
    void commit() noexcept override { cursor.exchange(schedule); }

    Cursor& cursor;
    Schedule schedule;
};

void Cursor::exchange(Schedule& schedule) noexcept {
    std::swap(schedule_, schedule);
    split_batch_ = {};
}

std::unique_ptr<AdjustableBudget::Change> Cursor::prepare_limit(std::size_t index, double limit) {
    auto change = std::make_unique<NewSchedule>(*this);
    attempt(nullptr, [&] {
        Limits limits = schedule_.pricing.limits;
        const double own = plan().budgets()[index].limit;
        limits[index] = own == 0 || limit < own ? limit : 0;
        Pricing pricing = priced(limits);
        take_over(schedule_.step);
        schedule_.pricing = std::move(pricing);
        count_steps();
    });
    exchange(change->schedule);
    return change;
}

Cursor::Pricing Cursor::priced(const Limits& limits) const {
    Pricing pricing;
    for (std::size_t i = 0; i < limits.size(); ++i) {
        if (limits[i] == 0) continue;
        const Cost& cost = plan().budgets()[i].cost;
        check_lowered_ranks(schedule_.world_size);
        check(limits[i] > cost.constant(), "limit", limits[i],
              "must be more than the cost's constant term, ", cost.constant());
        if (!pricing.is_lowered())
            for (const Bucket& bucket : plan().buckets())
                pricing.most_samples.push_back(bucket.batch_size);
        for (std::size_t b = 0; b < pricing.most_samples.size(); ++b) {
            const double length = plan().priced(plan().buckets()[b].padded_length);
            pricing.most_samples[b] =
                cost.largest_count(length, limits[i], pricing.most_samples[b]);
        }
    }
    pricing.limits = limits;
    return pricing;
}

double Cursor::limit(std::size_t index) const {
    const double lowered = schedule_.pricing.limits[index];
    return lowered > 0 ? lowered : plan().budgets()[index].limit;
}

uint64_t Cursor::read(uint64_t step, uint64_t room, EpochBatch& batch) {
    const Slice part = slice(substep_of(step), rotated_rank(step, options_.rank));
    if (part.count > 0 && part.count <= room)
        sequence_->fill(part.position, part.first, part.count, batch.batch);
    return part.count;
}

void Cursor::fill(uint64_t step, uint64_t rank, EpochBatch& batch) {
    const Substep substep = substep_of(step);
    const Slice part = slice(substep, rotated_rank(step, rank));
    sequence_->fill(part.position, part.first, part.count, batch.batch);
    batch.epoch = schedule_.epoch_options.epoch;
    batch.step = step;
    batch.step_samples = 0;
    batch.step_total = -1;
    if (options_.step_totals != 0) add_step_totals(substep, batch);
}

uint64_t Cursor::rotated_rank(uint64_t step, uint64_t rank) const {
    return schedule_.world_size == 1 ? 0
                                     : sequence_->rotated_rank(step, rank, schedule_.world_size);
}

Cursor::Slice Cursor::slice(const Substep& substep, uint64_t rotated) const {
    if (substep.steps == 1 && substep.global_batch.batches == schedule_.world_size)
        return batch_of(substep.global_batch, rotated);
    const std::vector<uint64_t>& pieces = split(substep);
    uint64_t piece = substep.step * schedule_.world_size + rotated;
    for (uint64_t i = 0; i < pieces.size(); ++i) {
        if (piece < pieces[i]) {
            const Slice batch = batch_of(substep.global_batch, i);
            // samples and pieces are below 2^32: their product cannot overflow
            const auto boundary = [&](uint64_t at) { return batch.count * at / pieces[i]; };
            return {batch.position, batch.first + boundary(piece),
                    boundary(piece + 1) - boundary(piece)};
        }
        piece -= pieces[i];
    }
    return {0, 0, 0};
}

/// The number of pieces of each batch of a global batch. All slots of its steps get a piece if
/// there are enough samples. Bisection finds the least cost such that pieces of at most this cost
/// fit the slots. Slots that are left go to the first batches that can be split further.
const std::vector<uint64_t>& Cursor::split(const Substep& substep) const {
    const GlobalBatch& global_batch = substep.global_batch;
    if (global_batch == split_batch_) return pieces_;
    struct Whole {
        uint64_t samples;
        uint64_t least;
        double cost;
    };
    std::vector<Whole> batches;
    double high = 1e-300;
    for (uint64_t i = 0; i < global_batch.batches; ++i) {
        const Slice batch = batch_of(global_batch, i);
        const double slice = static_cast<double>(batch.count) /
                             static_cast<double>(sequence_->samples(batch.position));
        batches.push_back(
            {batch.count, least_pieces(batch), slice * sequence_->cost(batch.position)});
        high = std::max(high, batches.back().cost);
    }
    const uint64_t slots = substep.steps * schedule_.world_size;
    const auto count_pieces = [&](double most) {
        uint64_t sum = 0;
        for (uint64_t i = 0; i < batches.size() && sum <= slots; ++i)
            sum += std::max(batches[i].least, pieces_of(batches[i].samples, batches[i].cost, most));
        return sum;
    };
    double low = high / (2 * static_cast<double>(slots));
    for (int i = 0; i < 40; ++i) {
        const double middle = (low + high) / 2;
        (count_pieces(middle) <= slots ? high : low) = middle;
    }
    uint64_t spare = slots - count_pieces(high);
    split_batch_ = {};
    pieces_.clear();
    for (const Whole& batch : batches) {
        const uint64_t pieces = std::max(batch.least, pieces_of(batch.samples, batch.cost, high));
        const uint64_t more = std::min(spare, batch.samples - pieces);
        spare -= more;
        pieces_.push_back(pieces + more);
    }
    split_batch_ = global_batch;
    return pieces_;
}

void Cursor::add_step_totals(const Substep& substep, EpochBatch& batch) const {
    const uint64_t world = schedule_.world_size;
    if (sequence_->has_others()) {
        batch.step_samples = sequence_->step_samples(substep.global_batch.position);
        return;
    }
    if (world == 1) {
        batch.step_samples = batch.batch.count;
        batch.step_total = batch.batch.total;
        return;
    }
    batch.step_total = 0;
    const GlobalBatch& global_batch = substep.global_batch;
    if (substep.steps > 1 || global_batch.first > 0) {
        for (uint64_t rotated = 0; rotated < world; ++rotated) {
            const Slice part = slice(substep, rotated);
            if (part.count == 0) continue;
            sequence_->fill(part.position, part.first, part.count, scratch_);
            batch.step_samples += scratch_.count;
            batch.step_total += scratch_.total;
        }
        return;
    }
    // Whole batches, or all the pieces of them.
    const uint64_t batches = sequence_->batches();
    const auto add = [&](uint64_t first, uint64_t end, uint64_t times) {
        for (uint64_t position = first; position < end; ++position) {
            batch.step_samples += times * sequence_->samples(position % batches);
            batch.step_total += static_cast<double>(times) * sequence_->total(position % batches);
        }
    };
    // more ranks than batches see the epoch several times over
    if (global_batch.batches >= batches) add(0, batches, global_batch.batches / batches);
    add(global_batch.position, global_batch.position + global_batch.batches % batches, 1);
}

void Cursor::save(std::span<std::byte, SAB_STATE_SIZE> out) const {
    const CursorState state{order_state(schedule_.epoch_options.epoch, options_),
                            schedule_.step,
                            schedule_.start_step,
                            schedule_.start_position,
                            schedule_.world_size,
                            schedule_.epoch_options.step_batches,
                            options_.costliest_first,
                            schedule_.remainder.position,
                            schedule_.remainder.first,
                            schedule_.remainder.batches,
                            schedule_.pricing.limits};
    write_state(kind(), fingerprint(), std::as_bytes(std::span(&state, 1)), out);
}

/// Refuses a state with impossible fields, as far as this can be seen without the order of the
/// epoch.
void Cursor::check_state(const CursorState& state) const {
    check_consistent(state.world_size >= 1 && state.world_size <= largest_world_size &&
                     state.step_batches >= 1 && state.step_batches <= largest_world_size);
    check_consistent(state.step >= state.start_step &&
                     state.remainder_batches <= largest_world_size);
    for (std::size_t i = 0; i < state.limits.size(); ++i)
        check_consistent(state.limits[i] == 0 ||
                         (state.limits[i] > 0 && std::isfinite(state.limits[i]) &&
                          has_adjustable_budget() && i < plan().budgets().size() &&
                          !plan().budgets()[i].cost.is_callback()));
    check_consistent(state.start_step <= uint64_t{1} << 62);
    // only a lowered budget leaves the rest of a global batch
    const bool is_lowered =
        std::ranges::any_of(state.limits, [](double limit) { return limit > 0; });
    if (is_lowered || state.remainder_batches > 0) {
        check_consistent(state.world_size <= most_ranks_lowered);
        check_lowered_ranks(schedule_.world_size);
    }
}

/// Goes where a state was saved, as a cursor of the world that saved it does.
void Cursor::go_to(const CursorState& state) {
    check_consistent(state.start_position <= sequence_->batches());
    check_consistent(state.remainder_batches == 0 ||
                     (state.remainder_position < state.start_position &&
                      state.remainder_batches <= state.start_position - state.remainder_position));
    schedule_.world_size = state.world_size;
    schedule_.start_step = state.start_step;
    schedule_.start_position = state.start_position;
    schedule_.remainder = {state.remainder_position, state.remainder_first,
                           state.remainder_batches};
    check_consistent(
        schedule_.remainder.first == 0 ||
        (schedule_.remainder.batches > 0 &&
         schedule_.remainder.first < sequence_->samples(schedule_.remainder.position)));
    try {
        schedule_.pricing = priced(state.limits);
    } catch (const Error&) {
        check_consistent(false);
    }
    count_steps();
    check_consistent(state.step <= batch_count());
    schedule_.step = state.step;
}

void Cursor::restore(std::span<const std::byte> bytes) {
    CursorState state{};
    read_state(bytes, kind(), fingerprint(), std::as_writable_bytes(std::span(&state, 1)));
    match_order(state.order, options_);
    match_state("costliest_first", state.costliest_first, options_.costliest_first);
    check_state(state);
    const EpochOptions epoch_options{options_.seed, state.order.epoch, state.step_batches,
                                     options_.costliest_first};
    attempt(sequence_->make_epoch_order(epoch_options), [&] {
        const uint64_t own = schedule_.world_size;
        schedule_.epoch_options = epoch_options;
        go_to(state);
        if (own != state.world_size) {
            take_over(schedule_.step);
            schedule_.world_size = own;
            count_steps();
        }
    });
}

}  // namespace sab
