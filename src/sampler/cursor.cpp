#include "sampler/cursor.h"

#include <algorithm>
#include <cmath>

#include "base/callback.h"
#include "base/log.h"
#include "sampler/pieces.h"
#include "sampler/state.h"

namespace sab {
/// The body of a saved state: where the ranks were in the order of the epoch.
struct CursorState {
    // Where these ranks, micro-batches or budgets took over; with the numbers after the body:
    uint64_t first_position;
    uint64_t first_step;
    uint64_t first_batch;
    // What the epoch began with:
    uint64_t step_batches;  ///< world size
    uint64_t micro_batches;
    uint64_t costliest_first;
    uint64_t mix_lengths;
    /// of the plan's budgets, for the batches to come; 0: the plan's
    std::array<double, SAB_MAX_BUDGETS> limits;
};
static_assert(sizeof(CursorState) == (std::size_t{7} + SAB_MAX_BUDGETS) * 8);

Cursor::Cursor(std::unique_ptr<Sequence> sequence, const SamplerOptions& options)
    : sequence_(std::move(sequence)), options_(options) {
    schedule_.world_size = options.world_size;
    schedule_.micro_batches = options.micro_batches;
    Cursor::go_to_epoch(options.epoch);
}

Cursor::Cursor(std::unique_ptr<Sequence> sequence, const Cursor& other)
    : sequence_(std::move(sequence)), options_(other.options_), schedule_(other.schedule_) {
    if (schedule_.rest) schedule_.rest = std::make_shared<const Rest>(*schedule_.rest, *sequence_);
}

std::unique_ptr<Cursor> Cursor::copy() const {
    return std::unique_ptr<Cursor>(new Cursor(sequence_->copy(), *this));
}

/// Those of the sequence, then those of this epoch that lowered budgets leave out.
std::size_t Cursor::skipped(std::span<int64_t> room) const {
    const std::size_t count = sequence_->skipped(room);
    if (!schedule_.rest || fewest() == 1) return count;
    const std::vector<int64_t> left_out = schedule_.rest->left_out();
    return count + copy_indices<int64_t>(left_out, room.subspan(std::min(count, room.size())));
}

bool Cursor::take(EpochBatch& batch) {
    const uint64_t next = position();
    if (next >= batch_count()) return false;
    fill(next, options_.rank, batch);
    ++schedule_.position;
    return true;
}

void Cursor::at(uint64_t position, EpochBatch& batch) {
    check_position(position, first_position(), batch_count(), false);
    fill(position, options_.rank, batch);
    batch.changes = changes_;
}

void Cursor::seek(uint64_t position) {
    check_position(position, first_position(), batch_count(), true);
    schedule_.position = position;
    pass_ = Pass::ready;
}

void check_position(uint64_t position, uint64_t first, uint64_t end, bool or_end) {
    check(position >= first, "position", position, "must not be before position ", first,
          ", where a state of other ranks or another budget took over");
    check(position < end || (or_end && position == end), "position", position,
          or_end ? "must be at most the number of batches of the rank, "
                 : "must be below the number of batches of the rank, ",
          end);
}

bool Cursor::next_block(EpochBatch& scratch, std::size_t most, BatchArrays& block) {
    const uint64_t first = position(), end = batch_count();
    scratch.changes = EpochBatch::nothing_shown;
    if (first >= end) {
        pass_ = Pass::ended;
        return false;
    }
    block.clear();
    uint64_t next = first;
    try {
        for (; block.count() < most && next < end; ++next) {
            fill(next, options_.rank, scratch);
            if (!block.add(scratch)) break;
        }
    } catch (const ThreadEnd&) {
        throw;
    } catch (...) {
        if (next == first) throw;
        // The block ends here: the next call begins with the batch that failed.
    }
    schedule_.position = next;
    pass_ = Pass::running;
    return true;
}

/// Takes an epoch order, if there is one, and changes the schedule. A failure leaves both
/// unchanged. Gives what was before.
template <class Body>
Cursor::Parked Cursor::attempt(std::unique_ptr<Sequence::EpochOrder> epoch_order, Body&& body) {
    Parked before;
    before.schedule_ = schedule_;
    before.earlier_ = earlier_;
    if (epoch_order) sequence_->exchange(*epoch_order);
    try {
        body();
    } catch (...) {
        schedule_ = std::move(before.schedule_);
        divided_batch_ = {};
        if (epoch_order) sequence_->exchange(*epoch_order);
        throw;
    }
    before.order_ = std::move(epoch_order);
    return before;
}

void Cursor::exchange(Parked& other) noexcept {
    if (other.order_) sequence_->exchange(*other.order_);
    std::swap(earlier_, other.earlier_);
    exchange(other.schedule_);
}

void Cursor::go_to_epoch(uint64_t epoch) {
    move_to(epoch);
}

Cursor::Parked Cursor::move_to(uint64_t epoch) {
    const EpochOptions epoch_options{options_.seed,
                                     epoch,
                                     schedule_.world_size,
                                     options_.costliest_first,
                                     schedule_.micro_batches,
                                     options_.mix_lengths,
                                     is_split()};
    Parked before = attempt(sequence_->make_epoch_order(epoch_options), [&] {
        schedule_.epoch_options = epoch_options;
        schedule_.first_position = schedule_.first_step = schedule_.position = 0;
        schedule_.begin = {};
        lay_out();
        check_any_step();
    });
    earlier_.clear();
    return before;
}

/// Refuses an epoch of which SAB_LAST_STEP_DROP, or the fewest samples of a batch, leave nothing.
void Cursor::check_any_step() const {
    if (schedule_.end > 0) return;
    if (fewest() > 1)
        refuse_argument("options.world_size", options_.world_size, "must be so small that epoch ",
                        epoch(), " has ", fewest(),
                        " samples, the plan's min_batch_size, for each rank");
    if (options_.last_step == SAB_LAST_STEP_DROP)
        refuse_argument("options.last_step", "SAB_LAST_STEP_DROP", "must leave a step; epoch ",
                        epoch(), " does not fill one: options.world_size = ", options_.world_size,
                        ", options.micro_batches = ", options_.micro_batches);
}

/// The batches that the ranks take.
const BatchOrder& Cursor::order(const Schedule& schedule) const {
    if (schedule.rest) return *schedule.rest;
    return *sequence_;
}

/// The fewest samples that the plan allows in a batch.
uint64_t Cursor::fewest() const {
    return sequence_->plan() == nullptr ? 1 : plan().fewest();
}

uint64_t Cursor::most_pieces(uint64_t batch) const {
    return std::max<uint64_t>(order().samples(batch) / fewest(), 1);
}

/// Whether the ranks can take the batches from this one on as one step, in pieces.
bool Cursor::is_enough_for_all(uint64_t batch) const {
    uint64_t pieces = 0;
    for (; batch < order().batches(); ++batch) pieces += most_pieces(batch);
    return pieces >= schedule_.world_size;
}

Cursor::GlobalBatch Cursor::global_batch_at(uint64_t position) const {
    const uint64_t world = schedule_.world_size,
                   first = schedule_.first_batch() + (position - schedule_.first_position) * world;
    return {first, options_.last_step == SAB_LAST_STEP_WRAP
                       ? world
                       : std::min(world, order().batches() - first)};
}

/// The batches of each rank. Whole steps, unless the last step is split.
void Cursor::lay_out() {
    divided_batch_ = {};
    schedule_.mean.reset();
    schedule_.rest = rest_of(schedule_);
    if (schedule_.rest && fewest() > 1)
        if (const std::size_t count = schedule_.rest->left_out().size(); count > 0)
            log(SAB_LOG_WARNING, "the lowered budget leaves out ", count, " samples of epoch ",
                epoch(), ": no batch of ", fewest(),
                " samples, the plan's min_batch_size, has room for them");
    const uint64_t left = order().batches() - schedule_.first_batch(), world = schedule_.world_size;
    const bool has_part = options_.last_step != SAB_LAST_STEP_DROP && left % world != 0 &&
                          (options_.last_step == SAB_LAST_STEP_WRAP || fewest() == 1 ||
                           is_enough_for_all(order().batches() - left % world));
    uint64_t needed = left / world + has_part;
    const uint64_t over = needed % schedule_.micro_batches;
    if (over > 0 && options_.last_step == SAB_LAST_STEP_DROP) needed -= over;
    if (over > 0 && options_.last_step == SAB_LAST_STEP_WRAP)
        needed += schedule_.micro_batches - over;
    schedule_.end = schedule_.first_position + needed;
}

/// Of all batches, but for those before the first position and those that the last step leaves out,
/// and with those that it repeats.
BatchMean Cursor::mean() const {
    const uint64_t first = schedule_.first_batch(), all = order().batches(),
                   taken = (schedule_.end - schedule_.first_position) * schedule_.world_size,
                   end = first + taken;
    BatchSums sums;
    const auto add = [&](uint64_t from, uint64_t to, double times) {
        for (; from < to; ++from) sums.add(order().sums_at(from), times);
    };
    if (end > all && options_.last_step == SAB_LAST_STEP_WRAP) {
        const uint64_t repeated = end - all, rounds = 1 + repeated / all;
        sums.add(order().sums(), static_cast<double>(rounds));
        add(0, repeated % all, 1);
        add(0, first, -1);
    } else if (first <= all / 2) {  // as few as can be are read one by one
        sums = order().sums();
        add(0, first, -1);
        add(end, all, -1);
    } else {
        add(first, std::min(end, all), 1);
    }
    return {sums, static_cast<double>(taken)};
}

/// The batches from the first position on, where they are not those of the epoch.
std::shared_ptr<const Rest> Cursor::rest_of(const Schedule& schedule) const {
    if (schedule.limits == Limits{} && schedule.begin.done.empty()) return nullptr;
    return std::make_shared<const Rest>(*sequence_, schedule.begin, most_samples(schedule.limits),
                                        fewest(), schedule.world_size, schedule.epoch_options);
}

/// Of a batch that the budgets pay for, by bucket.
std::vector<uint64_t> Cursor::most_samples(const Limits& limits) const {
    std::vector<uint64_t> most;
    for (const Bucket& bucket : plan().buckets()) most.push_back(bucket.batch_size);
    for (std::size_t i = 0; i < limits.size(); ++i) {
        const double limit = limits[i];
        if (limit == 0) continue;
        const Cost& cost = plan().budgets()[i].cost;
        check(limit > cost.constant(), "limit", limit,
              "must be more than the cost's constant term, ", cost.constant());
        for (std::size_t b = 0; b < most.size(); ++b)
            most[b] = cost.largest_count(plan().lengths(b).padded_length, limit, most[b]);
        check(fewest() == 1 || std::ranges::max(most) >= fewest(), "limit", limit, "must pay for ",
              fewest(), " samples, the plan's min_batch_size, of one of its buckets");
    }
    return most;
}

/// Another world size, number of micro-batches or budget takes over at `position`. Earlier
/// positions cannot be reached any more. A step of which the ranks took a part ends here.
void Cursor::take_over(Schedule& schedule, uint64_t position) const {
    const uint64_t taken = position - schedule.first_position,
                   batch = std::min(order(schedule).batches(),
                                    schedule.first_batch() + taken * schedule.world_size);
    if (position >= schedule.end)  // also what the last step or a budget leaves out is done
        schedule.begin = {sequence_->batches(), {}};
    else if (schedule.rest)
        schedule.begin = schedule.rest->after(batch);
    else
        schedule.begin.batch = batch;
    schedule.first_position = position;
    schedule.first_step += (taken + schedule.micro_batches - 1) / schedule.micro_batches;
}

void Cursor::Change::commit() noexcept {
    if (!schedule) return;
    cursor.exchange(*schedule);
    ++cursor.changes_;
    schedule->rest = nullptr;
    if (schedule->first_position < cursor.first_position())
        cursor.earlier_.push_back(std::move(*schedule));  // prepare_limit() made room
}

void Cursor::exchange(Schedule& schedule) noexcept {
    std::swap(schedule_, schedule);
    divided_batch_ = {};
}

Cursor::Change Cursor::prepare_limit(std::size_t index, double limit) {
    Limits limits = schedule_.limits;
    const double own = plan().budgets()[index].limit;
    limits[index] = own == 0 || limit < own ? limit : 0;
    Change change{*this};
    if (limits == schedule_.limits) return change;
    change.schedule = schedule_;
    earlier_.reserve(earlier_.size() + 1);
    attempt(nullptr, [&] {
        take_over(schedule_, schedule_.position);
        schedule_.limits = limits;
        lay_out();
    });
    exchange(*change.schedule);
    return change;
}

double Cursor::limit(std::size_t index) const {
    const double lowered = schedule_.limits[index];
    return lowered > 0 ? lowered : plan().budgets()[index].limit;
}

void Cursor::fill(uint64_t position, uint64_t rank, EpochBatch& batch) {
    if (!schedule_.mean) schedule_.mean = mean();
    const Slice part = slice(position, rank);
    order().fill(part.position, part.first, part.count, batch.batch);
    if (part.padded_to != own_bucket) pad_to(plan(), part.padded_to, batch.batch);
    batch.weigh(*schedule_.mean);
    batch.epoch = schedule_.epoch_options.epoch;
    batch.position = position;
    // Most have one micro-batch a step, and a division takes as long as much else here.
    const uint64_t after = position - schedule_.first_position, each = schedule_.micro_batches,
                   steps = each == 1 ? after : after / each;
    batch.step = schedule_.first_step + steps;
    batch.micro_batch = after - steps * each;
}

double Cursor::cost(uint64_t position, uint64_t rank) const {
    const Slice part = slice(position, rank);
    if (part.count == 0) return 0;
    return order().cost(part.position) * static_cast<double>(part.count) /
           static_cast<double>(order().samples(part.position));
}

uint64_t Cursor::rotated_rank(uint64_t position, uint64_t rank) const {
    return schedule_.world_size == 1 ? 0
                                     : order().rotated_rank(position, rank, schedule_.world_size);
}

Cursor::Slice Cursor::slice(uint64_t position, uint64_t rank) const {
    const GlobalBatch global_batch = global_batch_at(position);
    const uint64_t rotated = rotated_rank(position, rank);
    if (!is_divided(global_batch)) {
        uint64_t batch = global_batch.position + rotated;
        if (options_.last_step == SAB_LAST_STEP_WRAP) batch %= order().batches();
        return {batch, 0, order().samples(batch)};
    }
    if (has_few_shapes()) {
        const std::vector<Slice>& slices = divided_by_shapes(global_batch);
        return rotated < slices.size() ? slices[rotated] : Slice{0, 0, 0};
    }
    uint64_t piece = rotated;
    for (const DividedRun& run : divided(global_batch)) {
        if (piece < run.pieces) {
            // samples and pieces are below 2^32: their product cannot overflow
            const auto boundary = [&](uint64_t at) { return run.samples * at / run.pieces; };
            return {run.position, boundary(piece), boundary(piece + 1) - boundary(piece)};
        }
        piece -= run.pieces;
    }
    return {0, 0, 0};
}

/// Whether the ranks divide the samples of the batches, as in a last step.
bool Cursor::is_divided(const GlobalBatch& global_batch) const {
    return global_batch.batches < schedule_.world_size ||
           (is_split() && global_batch.position + global_batch.batches == order().batches() &&
            !has_few_shapes());
}

/// The runs of a last step. All ranks get a piece if there are enough samples.
const std::vector<DividedRun>& Cursor::divided(const GlobalBatch& global_batch) const {
    if (global_batch == divided_batch_) return divided_;
    std::vector<BatchRun> runs;
    divided_batch_ = {};
    divided_.clear();
    for (uint64_t i = 0; i < global_batch.batches; ++i) {
        const uint64_t batch = global_batch.position + i;
        if (i == 0 || !order().is_continued(batch - 1)) {
            runs.push_back({0, 0, 0});
            divided_.push_back({batch, 0, 0, 0});
        }
        ++runs.back().batches;
        runs.back().cost += order().cost(batch);
        ++divided_.back().batches;
        divided_.back().samples += order().samples(batch);
    }
    for (std::size_t i = 0; i < runs.size(); ++i)
        runs[i].most_pieces = std::max(divided_[i].samples / fewest(), runs[i].batches);
    const std::vector<uint64_t> pieces = divide(runs, schedule_.world_size);
    for (std::size_t i = 0; i < runs.size(); ++i) divided_[i].pieces = pieces[i];
    divided_batch_ = global_batch;
    return divided_;
}

/// Without those of the pieces of a last step.
std::vector<BucketShape> Cursor::order_shapes() const {
    return schedule_.rest ? schedule_.rest->shapes() : bucket_shapes(plan());
}

std::vector<Shape> Cursor::shapes() const {
    std::vector<BucketShape> shapes = order_shapes();
    if (is_split() && !has_few_shapes() && schedule_.end > schedule_.first_position)
        if (const GlobalBatch last = global_batch_at(schedule_.end - 1); is_divided(last))
            for (const DividedRun& run : divided(last)) {
                const std::size_t b = order().bucket(run.position);
                const uint64_t least = run.samples / run.pieces;
                if (least > 0) shapes.push_back({least, b});
                if (run.samples % run.pieces > 0) shapes.push_back({least + 1, b});
            }
    ShapeList list;
    list.add(plan(), shapes);
    return std::move(list).sorted();
}

/// What each rank takes of a last step whose batches have few shapes: as many pieces as there are
/// ranks, or as many as these shapes allow.
const std::vector<Cursor::Slice>& Cursor::divided_by_shapes(const GlobalBatch& global_batch) const {
    if (global_batch == divided_batch_) return slices_;
    divided_batch_ = {};
    slices_.clear();
    std::vector<DivisibleBatch> batches;
    for (uint64_t i = 0; i < global_batch.batches; ++i) {
        const uint64_t batch = global_batch.position + i;
        batches.push_back({order().bucket(batch), order().samples(batch), 1});
    }
    const std::vector<BucketShape> shapes = order_shapes();
    std::vector<std::vector<std::size_t>> pieces(batches.size());
    for (DividedBatches& divided :
         divide_by_shapes(plan(), shapes, batches, schedule_.world_size - global_batch.batches, 1))
        pieces[divided.which] = std::move(divided.shapes);
    for (std::size_t i = 0; i < batches.size(); ++i) {
        const uint64_t batch = global_batch.position + i;
        if (pieces[i].empty()) slices_.push_back({batch, 0, batches[i].samples});
        for (uint64_t first = 0; const std::size_t k : pieces[i]) {
            slices_.push_back({batch, first, shapes[k].samples, shapes[k].bucket});
            first += shapes[k].samples;
        }
    }
    divided_batch_ = global_batch;
    return slices_;
}

std::vector<DividedRun> Cursor::last_runs() const {
    if (schedule_.position == schedule_.end || has_few_shapes()) return {};
    const GlobalBatch last = global_batch_at(schedule_.end - 1);
    return is_divided(last) ? divided(last) : std::vector<DividedRun>();
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
    for (uint64_t position = first; position < end; ++position) add_totals(position, totals);
    return totals;
}

void Cursor::add_totals(uint64_t position, StepTotals& totals) const {
    const GlobalBatch global_batch = global_batch_at(position);
    if (sequence_->has_others()) {
        totals.samples += sequence_->samples_of_ranks(global_batch.position);
        totals.total.fill(-1);
        return;
    }
    // Whole batches, or all the pieces of them.
    const uint64_t batches = order().batches();
    const auto add = [&](uint64_t first, uint64_t end, uint64_t times) {
        for (uint64_t batch = first; batch < end; ++batch) {
            totals.samples += times * order().samples(batch % batches);
            sab::add(order().total(batch % batches), static_cast<double>(times), totals.total);
        }
    };
    // more ranks than batches see the epoch several times over
    if (global_batch.batches >= batches) add(0, batches, global_batch.batches / batches);
    add(global_batch.position, global_batch.position + global_batch.batches % batches, 1);
}

std::size_t Cursor::save(std::span<std::byte> out) const {
    return save(schedule_, pass_ == Pass::ended, out);
}

std::size_t Cursor::save_at(uint64_t position, std::span<std::byte> out) {
    return save_at(position, schedule_.limits, out);
}

std::size_t Cursor::save_at(uint64_t position, const Limits& limits,
                            std::span<std::byte> out) const {
    Schedule then = schedule_;
    for (std::size_t i = earlier_.size(); position < then.first_position && i > 0; --i)
        then = earlier_[i - 1];
    check_position(position, then.first_position, then.end, true);
    then.position = position;
    if (then.limits != limits) {
        then.rest = rest_of(then);
        take_over(then, position);
        then.limits = limits;
    }
    return save(then, false, out);
}

std::size_t Cursor::save(const Schedule& schedule, bool has_ended, std::span<std::byte> out) const {
    const OrderState order{order_version,
                           options_.last_step,
                           options_.seed,
                           epoch(),
                           schedule.position,
                           options_.world_size,
                           static_cast<uint32_t>(options_.micro_batches),
                           has_ended};
    const CursorState state{schedule.first_position,
                            schedule.first_step,
                            schedule.begin.batch,
                            schedule.epoch_options.step_batches,
                            schedule.epoch_options.micro_batches,
                            options_.costliest_first,
                            options_.mix_lengths,
                            schedule.limits};
    const std::vector<uint64_t> cut = sequence_->state_body(
        (schedule.position - schedule.first_position) / schedule.micro_batches);
    return write_state(
        kind(), sequence_->fingerprint(), choice(), order,
        cut.empty() ? std::as_bytes(std::span(&state, 1)) : std::as_bytes(std::span(cut)),
        schedule.begin.done, out);
}

/// Refuses a state with impossible fields, as far as this can be seen without the order of the
/// epoch.
void Cursor::check_state(const OrderState& order, const CursorState& state) const {
    check_consistent(state.step_batches >= 1 && state.step_batches <= largest_world_size &&
                     state.micro_batches >= 1 && state.micro_batches <= most_micro_batches);
    check_consistent(order.position >= state.first_position &&
                     state.first_position >= state.first_step);
    for (std::size_t i = 0; i < state.limits.size(); ++i)
        check_consistent(state.limits[i] == 0 ||
                         (std::isfinite(state.limits[i]) && has_adjustable_budget() &&
                          i < plan().budgets().size() && !plan().budgets()[i].cost.is_callback() &&
                          state.limits[i] > plan().budgets()[i].cost.constant()));
}

/// Lays the epoch out and goes to the position of a state.
void Cursor::place(const OrderState& order) {
    lay_out();
    check_consistent(order.position <= schedule_.end);
    schedule_.position = order.position;
}

/// Goes where a state was saved, as a cursor of the ranks that saved it. Then these take over.
/// `done`: as of RestBegin.
Cursor::Parked Cursor::go_to(const OrderState& order, const CursorState& state,
                             std::vector<uint64_t> done) {
    match_state("costliest_first", state.costliest_first, options_.costliest_first);
    match_state("mix_lengths", state.mix_lengths, options_.mix_lengths);
    check_state(order, state);
    const EpochOptions epoch_options{
        options_.seed,       order.epoch,          state.step_batches, options_.costliest_first,
        state.micro_batches, options_.mix_lengths, is_split()};
    return attempt(sequence_->make_epoch_order(epoch_options), [&] {
        check_consistent(state.first_batch <= sequence_->batches());
        check_consistent(done.empty() ||
                         (has_adjustable_budget() && done.size() == plan().buckets().size()));
        schedule_.epoch_options = epoch_options;
        schedule_.world_size = order.world_size;
        schedule_.micro_batches = order.micro_batches;
        schedule_.first_position = state.first_position;
        schedule_.first_step = state.first_step;
        schedule_.begin = {state.first_batch, std::move(done)};
        schedule_.limits = state.limits;
        place(order);
        if (order.world_size != options_.world_size ||
            order.micro_batches != options_.micro_batches) {
            take_over(schedule_, schedule_.position);
            schedule_.world_size = options_.world_size;
            schedule_.micro_batches = options_.micro_batches;
            lay_out();
        }
    });
}

/// The same where the sequence cuts its batches for these ranks.
Cursor::Parked Cursor::go_to_cut(const OrderState& order, std::span<const uint64_t> body) {
    Sequence::Restored restored = sequence_->restored(order, body);
    return attempt(std::move(restored.epoch_order), [&] {
        schedule_.epoch_options.epoch = order.epoch;
        schedule_.first_position = restored.first_position;
        schedule_.first_step = restored.first_step;
        place(order);
    });
}

void Cursor::restore(std::span<const std::byte> state) {
    move_to(state);
    ++changes_;
}

Cursor::Parked Cursor::move_to(std::span<const std::byte> bytes) {
    OrderState order{};
    CursorState state{};
    std::vector<uint64_t> cut = sequence_->state_body(0);  // is overwritten
    std::vector<uint64_t> done =
        read_state(bytes, kind(), sequence_->fingerprint(), choice(), order,
                   cut.empty() ? std::as_writable_bytes(std::span(&state, 1))
                               : std::as_writable_bytes(std::span(cut)));
    match_order(order, options_);
    check_consistent(cut.empty() || done.empty());
    Parked before = cut.empty() ? go_to(order, state, std::move(done)) : go_to_cut(order, cut);
    earlier_.clear();
    // Under SAB_LAST_STEP_DROP other options could make a step of what was left out.
    if (order.has_ended == 1) schedule_.position = schedule_.end;
    pass_ = order.has_ended == 1 ? Pass::ended : Pass::ready;
    return before;
}

}  // namespace sab
