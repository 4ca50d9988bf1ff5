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

/// The body of a saved state: where the ranks were in the order of the epoch.
struct CursorState {
    OrderState order;
    // Where these ranks, micro-batches or this budget took over:
    uint64_t first_position;
    uint64_t first_step;
    uint64_t first_batch;
    uint64_t step_batches;  ///< world size that began the epoch
    uint64_t costliest_first;
    uint32_t steady;
    uint32_t step_micro_batches;  ///< of each rank that began the epoch
    uint64_t remainder_position;  ///< the rest of a global batch; see Cursor::Schedule
    uint64_t remainder_first;
    uint64_t remainder_batches;
    /// of the plan's budgets, for the batches to come; 0: the plan's
    std::array<double, SAB_MAX_BUDGETS> limits;
};
static_assert(sizeof(CursorState) == sizeof(OrderState) + (std::size_t{9} + SAB_MAX_BUDGETS) * 8);

void check_sampler_options(const sab_sampler_options& options) {
    check(options.world_size >= 1 && options.world_size <= largest_world_size, "options.world_size",
          options.world_size, "must be from 1 to 2^32 - 1");
    check(options.rank < options.world_size, "options.rank", options.rank,
          "must be below the world size, ", options.world_size);
    check(options.last_step >= SAB_LAST_STEP_SPLIT && options.last_step <= SAB_LAST_STEP_WRAP,
          "options.last_step", options.last_step,
          "must be one of SAB_LAST_STEP_SPLIT (0) to SAB_LAST_STEP_WRAP (2)");
    check(options.micro_batches >= 1 && options.micro_batches <= most_micro_batches,
          "options.micro_batches", options.micro_batches, "must be from 1 to ", most_micro_batches);
    check(options.steady <= most_steady, "options.steady", options.steady, "must be at most ",
          most_steady, " steps");
}

void check_not_steady(const sab_sampler_options& options) {
    check(options.steady == 0, "options.steady", options.steady,
          "must be 0 for this sampler; bucket, packed and balanced samplers of data sets that are "
          "no mixture can be steady");
}

void check_any_step(const sab_sampler_options& options, uint64_t epoch, uint64_t batches) {
    if (batches > 0 || options.last_step != SAB_LAST_STEP_DROP) return;
    fail(SAB_E_ARGUMENT, "options.last_step = SAB_LAST_STEP_DROP (1): must leave a step; epoch ",
         epoch, " does not fill one: options.world_size = ", options.world_size,
         ", options.micro_batches = ", options.micro_batches);
}

Cursor::Cursor(std::unique_ptr<Sequence> sequence, const sab_sampler_options& options)
    : sequence_(std::move(sequence)), options_(options) {
    check_sampler_options(options);
    if (!sequence_->can_be_steady()) check_not_steady(options);
    schedule_.world_size = options.world_size;
    schedule_.micro_batches = options.micro_batches;
    Cursor::go_to_epoch(options.epoch);
}

sab_sampler* new_cursor(std::unique_ptr<Sequence> sequence, const sab_sampler_options& options) {
    return new_handle(std::make_unique<Cursor>(std::move(sequence), options));
}

std::unique_ptr<RandomAccess> Cursor::copy() const {
    return std::unique_ptr<RandomAccess>(new Cursor(sequence_->copy(), *this));
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

void Cursor::go_to_epoch(uint64_t epoch) {
    const EpochOptions epoch_options{options_.seed,        epoch,
                                     schedule_.world_size, options_.costliest_first,
                                     options_.steady,      schedule_.micro_batches};
    attempt(sequence_->make_epoch_order(epoch_options), [&] {
        schedule_.epoch_options = epoch_options;
        schedule_.first_position = schedule_.first_step = schedule_.first_batch =
            schedule_.position = 0;
        schedule_.remainder = {};
        schedule_.pricing = priced(schedule_.pricing.limits);  // the buckets may be others
        count_batches();
        check_any_step(options_, epoch, schedule_.end);
    });
}

/// Those that the batches left need, without what SAB_LAST_STEP_WRAP repeats.
uint64_t Cursor::global_batches() const {
    const uint64_t left = sequence_->batches() - schedule_.first_batch;
    const uint64_t world = schedule_.world_size;
    return left / world + (options_.last_step != SAB_LAST_STEP_DROP && left % world != 0);
}

Cursor::GlobalBatch Cursor::global_batch_from(uint64_t position) const {
    const uint64_t world = schedule_.world_size;
    return {position, 0,
            options_.last_step == SAB_LAST_STEP_WRAP
                ? world
                : std::min(world, sequence_->batches() - position)};
}

Cursor::GlobalBatch Cursor::global_batch_of(uint64_t index) const {
    return global_batch_from(schedule_.first_batch + index * schedule_.world_size);
}

Cursor::Substep Cursor::substep_of(uint64_t position) const {
    uint64_t after = position - schedule_.first_position;
    if (after < schedule_.remainder_count)
        return {schedule_.remainder, after, schedule_.remainder_count};
    after -= schedule_.remainder_count;
    if (schedule_.count_before.empty()) return {global_batch_of(after), 0, 1};
    const auto next = std::ranges::upper_bound(schedule_.count_before, after);
    const auto index = static_cast<uint64_t>(next - schedule_.count_before.begin()) - 1;
    return {global_batch_of(index), after - schedule_.count_before[index],
            *next - schedule_.count_before[index]};
}

/// The batches of each rank. Whole steps, unless the last step is split.
void Cursor::count_batches() {
    split_batch_ = {};
    schedule_.remainder_count = micro_batches_of(schedule_.remainder);
    schedule_.count_before.clear();
    uint64_t needed = schedule_.remainder_count + global_batches();
    if (schedule_.pricing.is_lowered()) {
        schedule_.count_before.reserve(global_batches() + 1);
        schedule_.count_before.push_back(0);
        for (uint64_t index = 0, count = global_batches(); index < count; ++index)
            add_global_batch();
        needed = schedule_.remainder_count + schedule_.count_before.back();
    }
    const uint64_t over = needed % schedule_.micro_batches;
    if (over > 0 && options_.last_step == SAB_LAST_STEP_DROP) needed -= over;
    if (over > 0 && options_.last_step == SAB_LAST_STEP_WRAP) {
        needed += schedule_.micro_batches - over;
        while (schedule_.pricing.is_lowered() &&
               schedule_.remainder_count + schedule_.count_before.back() < needed)
            add_global_batch();
    }
    schedule_.end = schedule_.first_position + needed;
}

/// Under a lowered budget: counts the micro-batches of the next global batch.
void Cursor::add_global_batch() {
    const uint64_t index = schedule_.count_before.size() - 1;
    schedule_.count_before.push_back(schedule_.count_before.back() +
                                     micro_batches_of(global_batch_of(index)));
}

/// The fewest micro-batches in which no piece exceeds a budget.
uint64_t Cursor::micro_batches_of(const GlobalBatch& global_batch) const {
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

/// Another world size, number of micro-batches or budget takes over at `position`. Earlier
/// positions cannot be reached any more. A step of which the ranks took a part ends here.
void Cursor::take_over(uint64_t position) {
    const uint64_t all = sequence_->batches();
    const uint64_t remainder_end = schedule_.first_position + schedule_.remainder_count;
    const uint64_t steps = (position - schedule_.first_position + schedule_.micro_batches - 1) /
                           schedule_.micro_batches;
    if (position >= schedule_.end) {
        schedule_.first_batch = all;
        schedule_.remainder = {};
    } else if (const Substep substep = substep_of(position);
               position < remainder_end || substep.index > 0) {
        if (position >= remainder_end)
            schedule_.first_batch =
                std::min(substep.global_batch.position + schedule_.world_size, all);
        // The first piece of the next micro-batch is where the rest begins: pieces are dealt in
        // order.
        const std::vector<uint64_t>& pieces = split(substep);
        uint64_t index = 0, before = substep.index * schedule_.world_size;
        for (; before >= pieces[index]; ++index) before -= pieces[index];
        const Slice batch = batch_of(substep.global_batch, index);
        const uint64_t first = substep.global_batch.position + index;
        schedule_.remainder = {};  // what SAB_LAST_STEP_WRAP would repeat is done
        if (first < all)
            schedule_.remainder = {first, batch.first + batch.count * before / pieces[index],
                                   std::min(substep.global_batch.batches - index, all - first)};
    } else {
        schedule_.remainder = {};
        schedule_.first_batch = std::min(substep.global_batch.position, all);
    }
    schedule_.first_position = position;
    schedule_.first_step += steps;
}

struct Cursor::NewSchedule : AdjustableBudget::Change {
    explicit NewSchedule(Cursor& of) : cursor(of), schedule(of.schedule_) {}
    void commit() noexcept override {
        cursor.exchange(schedule);
        ++cursor.changes_;
    }

    Cursor& cursor;
    Schedule schedule;
};

/// Of a limit that is set already: neither a step nor the batches that were read ahead end here.
struct NoChange : AdjustableBudget::Change {
    void commit() noexcept override {}
};

void Cursor::exchange(Schedule& schedule) noexcept {
    std::swap(schedule_, schedule);
    split_batch_ = {};
}

std::unique_ptr<AdjustableBudget::Change> Cursor::prepare_limit(std::size_t index, double limit) {
    Limits limits = schedule_.pricing.limits;
    const double own = plan().budgets()[index].limit;
    limits[index] = own == 0 || limit < own ? limit : 0;
    if (limits == schedule_.pricing.limits) return std::make_unique<NoChange>();
    auto change = std::make_unique<NewSchedule>(*this);
    attempt(nullptr, [&] {
        Pricing pricing = priced(limits);
        take_over(schedule_.position);
        schedule_.pricing = std::move(pricing);
        count_batches();
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
            const PerColumn lengths = plan().priced(cost, plan().lengths(b).padded_length);
            pricing.most_samples[b] = cost.largest_count(first_of(lengths, plan().columns()),
                                                         limits[i], pricing.most_samples[b]);
        }
    }
    pricing.limits = limits;
    return pricing;
}

double Cursor::limit(std::size_t index) const {
    const double lowered = schedule_.pricing.limits[index];
    return lowered > 0 ? lowered : plan().budgets()[index].limit;
}

uint64_t Cursor::read(uint64_t position, uint64_t room, EpochBatch& batch) {
    const Slice part = slice(substep_of(position), rotated_rank(position, options_.rank));
    if (part.count > 0 && part.count <= room)
        sequence_->fill(part.position, part.first, part.count, batch.batch);
    return part.count;
}

void Cursor::fill(uint64_t position, uint64_t rank, EpochBatch& batch) {
    const Slice part = slice(substep_of(position), rotated_rank(position, rank));
    sequence_->fill(part.position, part.first, part.count, batch.batch);
    batch.epoch = schedule_.epoch_options.epoch;
    batch.position = position;
    const uint64_t after = position - schedule_.first_position,
                   steps = after / schedule_.micro_batches;
    batch.step = schedule_.first_step + steps;
    batch.micro_batch = after - steps * schedule_.micro_batches;
}

double Cursor::cost(uint64_t position, uint64_t rank) const {
    const Slice part = slice(substep_of(position), rotated_rank(position, rank));
    if (part.count == 0) return 0;
    return sequence_->cost(part.position) * static_cast<double>(part.count) /
           static_cast<double>(sequence_->samples(part.position));
}

uint64_t Cursor::rotated_rank(uint64_t position, uint64_t rank) const {
    return schedule_.world_size == 1
               ? 0
               : sequence_->rotated_rank(position, rank, schedule_.world_size);
}

Cursor::Slice Cursor::slice(const Substep& substep, uint64_t rotated) const {
    if (substep.count == 1 && substep.global_batch.batches == schedule_.world_size)
        return batch_of(substep.global_batch, rotated);
    const std::vector<uint64_t>& pieces = split(substep);
    uint64_t piece = substep.index * schedule_.world_size + rotated;
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

/// The number of pieces of each batch of a global batch. All slots of its micro-batches get a piece
/// if there are enough samples. Bisection finds the least cost such that pieces of at most this
/// cost fit the slots. Slots that are left go to the first batches that can be split further.
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
    const uint64_t slots = substep.count * schedule_.world_size;
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

std::vector<uint64_t> Cursor::last_pieces() const {
    if (schedule_.position == schedule_.end) return {};
    const Substep last = substep_of(schedule_.end - 1);
    if (last.global_batch.batches == schedule_.world_size) return {};
    return split(last);
}

StepTotals Cursor::step_of(const EpochBatch& batch) {
    const uint64_t first = batch.position - batch.micro_batch,
                   end = std::min(first + schedule_.micro_batches, schedule_.end);
    StepTotals totals{end - first};
    if (schedule_.world_size == 1 && totals.micro_batches == 1 && !sequence_->has_others()) {
        totals.samples = batch.batch.count;
        totals.total = batch.batch.total;
        return totals;
    }
    for (uint64_t position = first; position < end; ++position)
        add_totals(substep_of(position), totals);
    return totals;
}

/// Adds what all ranks take in a micro-batch.
void Cursor::add_totals(const Substep& substep, StepTotals& totals) const {
    const GlobalBatch& global_batch = substep.global_batch;
    if (sequence_->has_others()) {
        totals.samples += sequence_->samples_of_ranks(global_batch.position);
        totals.total.fill(-1);
        return;
    }
    if (substep.count > 1 || global_batch.first > 0) {
        for (uint64_t rotated = 0; rotated < schedule_.world_size; ++rotated) {
            const Slice part = slice(substep, rotated);
            if (part.count == 0) continue;
            sequence_->fill(part.position, part.first, part.count, scratch_);
            totals.samples += scratch_.count;
            sab::add(scratch_.total, 1, totals.total);
        }
        return;
    }
    // Whole batches, or all the pieces of them.
    const uint64_t batches = sequence_->batches();
    const auto add = [&](uint64_t first, uint64_t end, uint64_t times) {
        for (uint64_t position = first; position < end; ++position) {
            totals.samples += times * sequence_->samples(position % batches);
            sab::add(sequence_->total(position % batches), static_cast<double>(times),
                     totals.total);
        }
    };
    // more ranks than batches see the epoch several times over
    if (global_batch.batches >= batches) add(0, batches, global_batch.batches / batches);
    add(global_batch.position, global_batch.position + global_batch.batches % batches, 1);
}

std::size_t Cursor::save(std::span<std::byte> out) const {
    const CursorState state{order_state(),
                            schedule_.first_position,
                            schedule_.first_step,
                            schedule_.first_batch,
                            schedule_.epoch_options.step_batches,
                            options_.costliest_first,
                            static_cast<uint32_t>(options_.steady),
                            static_cast<uint32_t>(schedule_.epoch_options.micro_batches),
                            schedule_.remainder.position,
                            schedule_.remainder.first,
                            schedule_.remainder.batches,
                            schedule_.pricing.limits};
    return write_state(kind(), fingerprint(), choice(), state.order,
                       std::as_bytes(std::span(&state, 1)), out);
}

/// Refuses a state with impossible fields, as far as this can be seen without the order of the
/// epoch.
void Cursor::check_state(const CursorState& state) const {
    check_consistent(state.step_batches >= 1 && state.step_batches <= largest_world_size &&
                     state.step_micro_batches >= 1 &&
                     state.step_micro_batches <= most_micro_batches);
    check_consistent(state.order.position >= state.first_position &&
                     state.first_position >= state.first_step &&
                     state.remainder_batches <= largest_world_size);
    for (std::size_t i = 0; i < state.limits.size(); ++i)
        check_consistent(state.limits[i] == 0 ||
                         (state.limits[i] > 0 && std::isfinite(state.limits[i]) &&
                          has_adjustable_budget() && i < plan().budgets().size() &&
                          !plan().budgets()[i].cost.is_callback()));
    // only a lowered budget leaves the rest of a global batch
    const bool is_lowered =
        std::ranges::any_of(state.limits, [](double limit) { return limit > 0; });
    if (is_lowered || state.remainder_batches > 0) {
        check_consistent(state.order.world_size <= most_ranks_lowered);
        check_lowered_ranks(schedule_.world_size);
    }
}

/// Goes where a state was saved, as a cursor of the ranks that saved it.
void Cursor::go_to(const CursorState& state) {
    check_consistent(state.first_batch <= sequence_->batches());
    check_consistent(state.remainder_batches == 0 ||
                     (state.remainder_position < state.first_batch &&
                      state.remainder_batches <= state.first_batch - state.remainder_position));
    schedule_.world_size = state.order.world_size;
    schedule_.micro_batches = state.order.micro_batches;
    schedule_.first_position = state.first_position;
    schedule_.first_step = state.first_step;
    schedule_.first_batch = state.first_batch;
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
    count_batches();
    check_consistent(state.order.position <= schedule_.end);
    schedule_.position = state.order.position;
}

bool Cursor::go_to_state(std::span<const std::byte> bytes) {
    CursorState state{};
    read_state(bytes, kind(), fingerprint(), choice(), state.order,
               std::as_writable_bytes(std::span(&state, 1)));
    match_order(state.order, options_);
    match_state("costliest_first", state.costliest_first, options_.costliest_first);
    match_state("steady", state.steady, options_.steady);
    check_state(state);
    const EpochOptions epoch_options{options_.seed,      state.order.epoch,
                                     state.step_batches, options_.costliest_first,
                                     options_.steady,    state.step_micro_batches};
    attempt(sequence_->make_epoch_order(epoch_options), [&] {
        schedule_.epoch_options = epoch_options;
        go_to(state);
        if (state.order.world_size != options_.world_size ||
            state.order.micro_batches != options_.micro_batches) {
            take_over(schedule_.position);
            schedule_.world_size = options_.world_size;
            schedule_.micro_batches = options_.micro_batches;
            count_batches();
        }
    });
    return state.order.has_ended == 1;
}

}  // namespace sab
