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

/// How many pieces a batch is cut into so that none costs more than `most`.
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
    uint64_t group;  ///< world size that began the epoch
    uint64_t costliest_first;
    double budget;           ///< of the batches to come; 0: the plan's
    uint64_t lead_position;  ///< a round that others began; see Cursor::Round
    uint64_t lead_first;
    uint64_t lead_batches;
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
    course_.world_size = options.world_size;
    set_epoch(options.epoch);
}

sab_sampler* new_cursor(std::unique_ptr<Sequence> sequence, const sab_sampler_options& options) {
    return new_handle(std::make_unique<Cursor>(std::move(sequence), options));
}

/// Takes a layout, if there is one, and changes the course. A failure leaves both as they were.
template <class Body>
void Cursor::attempt(std::unique_ptr<Sequence::Layout> layout, Body&& body) {
    Course before = course_;
    if (layout) sequence_->exchange(*layout);
    try {
        body();
    } catch (...) {
        course_ = std::move(before);
        cut_round_ = {};
        if (layout) sequence_->exchange(*layout);
        throw;
    }
}

void Cursor::set_epoch(uint64_t epoch) {
    const Arrangement arrangement{options_.seed, epoch, course_.world_size,
                                  options_.costliest_first};
    attempt(sequence_->lay_out(arrangement), [&] {
        course_.arrangement = arrangement;
        course_.start_step = course_.start_position = course_.step = 0;
        course_.lead = {};
        count_steps();
    });
}

uint64_t Cursor::rounds() const {
    const uint64_t left = sequence_->batches() - course_.start_position;
    const uint64_t world = course_.world_size;
    return left / world + (options_.last_step != SAB_LAST_STEP_DROP && left % world != 0);
}

uint64_t Cursor::batch_count() const {
    return course_.start_step + course_.lead_steps +
           (course_.steps_before.empty() ? rounds() : course_.steps_before.back());
}

Cursor::Round Cursor::round_from(uint64_t position) const {
    const uint64_t world = course_.world_size, left = sequence_->batches() - position;
    return {position, 0, options_.last_step == SAB_LAST_STEP_WRAP ? world : std::min(world, left)};
}

Cursor::Place Cursor::place_of(uint64_t step) const {
    uint64_t after = step - course_.start_step;
    if (after < course_.lead_steps) return {course_.lead, after, course_.lead_steps};
    after -= course_.lead_steps;
    if (course_.steps_before.empty())
        return {round_from(course_.start_position + after * course_.world_size), 0, 1};
    const auto next = std::ranges::upper_bound(course_.steps_before, after);
    const auto index = static_cast<uint64_t>(next - course_.steps_before.begin()) - 1;
    return {round_from(course_.start_position + index * course_.world_size),
            after - course_.steps_before[index], *next - course_.steps_before[index]};
}

void Cursor::count_steps() {
    cut_round_ = {};
    course_.lead_steps = steps_of(course_.lead);
    course_.steps_before.clear();
    if (course_.pricing.budget == 0) return;
    course_.steps_before.reserve(rounds() + 1);
    course_.steps_before.push_back(0);
    for (uint64_t round = 0, count = rounds(); round < count; ++round)
        course_.steps_before.push_back(
            course_.steps_before.back() +
            steps_of(round_from(course_.start_position + round * course_.world_size)));
}

/// The fewest steps in which no piece costs more than the budget.
uint64_t Cursor::steps_of(const Round& round) const {
    uint64_t pieces = 0, batches = round.batches;
    // the epoch several times over
    if (const uint64_t all = sequence_->batches(); round.first == 0 && all > 0 && batches > all) {
        for (uint64_t i = 0; i < all; ++i) pieces += least_pieces(batch_of(round, i));
        pieces *= batches / all;
        batches %= all;
    }
    for (uint64_t i = 0; i < batches; ++i) pieces += least_pieces(batch_of(round, i));
    return pieces / course_.world_size + (pieces % course_.world_size != 0);
}

Cursor::Share Cursor::batch_of(const Round& round, uint64_t index) const {
    // past the end only under SAB_LAST_STEP_WRAP
    const uint64_t position = (round.position + index) % sequence_->batches();
    const uint64_t first = index == 0 ? round.first : 0;
    return {position, first, sequence_->samples(position) - first};
}

uint64_t Cursor::least_pieces(const Share& batch) const {
    if (course_.pricing.budget == 0) return 1;
    const uint64_t most = course_.pricing.most_samples[sequence_->bucket(batch.position)];
    return most == 0 ? batch.count : (batch.count + most - 1) / most;
}

/// From `step` on other rules hold: what lies before is not to be reached any more.
void Cursor::take_over(uint64_t step) {
    if (step >= batch_count()) {
        course_.start_position = sequence_->batches();
        course_.lead = {};
    } else if (const Place place = place_of(step);
               step < course_.start_step + course_.lead_steps || place.step > 0) {
        if (step >= course_.start_step + course_.lead_steps)
            course_.start_position =
                std::min(place.round.position + course_.world_size, sequence_->batches());
        // The first piece of the next step is where the rest begins: pieces are dealt in order.
        const std::vector<uint64_t>& pieces = cut(place);
        uint64_t index = 0, before = place.step * course_.world_size;
        for (; before >= pieces[index]; ++index) before -= pieces[index];
        const Share batch = batch_of(place.round, index);
        const uint64_t position = place.round.position + index, all = sequence_->batches();
        course_.lead = {};  // what SAB_LAST_STEP_WRAP would repeat is done
        if (position < all)
            course_.lead = {position, batch.first + batch.count * before / pieces[index],
                            std::min(place.round.batches - index, all - position)};
    } else {
        course_.lead = {};
        course_.start_position = place.round.position;
    }
    course_.start_step = step;
}

struct Cursor::NewCourse : AdjustableBudget::Change {
    explicit NewCourse(Cursor& of) : cursor(of), course(of.course_) {}
    void commit() noexcept override { cursor.exchange(course); }

    Cursor& cursor;
    Course course;
};

void Cursor::exchange(Course& course) noexcept {
    std::swap(course_, course);
    cut_round_ = {};
}

std::unique_ptr<AdjustableBudget::Change> Cursor::prepare_budget(double budget) {
    auto change = std::make_unique<NewCourse>(*this);
    attempt(nullptr, [&] {
        Pricing pricing = priced(budget);
        take_over(course_.step);
        course_.pricing = std::move(pricing);
        count_steps();
    });
    exchange(change->course);
    return change;
}

Cursor::Pricing Cursor::priced(double budget) const {
    Pricing pricing;
    if (budget == 0 || (plan().facts().budget > 0 && budget >= plan().facts().budget))
        return pricing;
    const Cost cost = plan().cost();
    check_lowered_ranks(course_.world_size);
    check(budget > cost.constant(), "budget", budget,
          "must be more than the cost's constant term, ", cost.constant());
    for (const Bucket& bucket : plan().buckets())
        pricing.most_samples.push_back(
            cost.largest_count(plan().priced(bucket.padded_length), budget, bucket.batch_size));
    pricing.budget = budget;
    return pricing;
}

double Cursor::budget() const {
    return course_.pricing.budget > 0 ? course_.pricing.budget : plan().facts().budget;
}

uint64_t Cursor::read(uint64_t step, uint64_t room, PlacedBatch& batch) {
    const Share part = share(place_of(step), turn_of(step, options_.rank));
    if (part.count > 0 && part.count <= room)
        sequence_->fill(part.position, part.first, part.count, batch.batch);
    return part.count;
}

void Cursor::fill(uint64_t step, uint64_t rank, PlacedBatch& batch) {
    const Place place = place_of(step);
    const Share part = share(place, turn_of(step, rank));
    sequence_->fill(part.position, part.first, part.count, batch.batch);
    batch.epoch = course_.arrangement.epoch;
    batch.step = step;
    batch.step_samples = 0;
    batch.step_total = -1;
    if (options_.step_totals != 0) add_step_totals(place, batch);
}

uint64_t Cursor::turn_of(uint64_t step, uint64_t rank) const {
    return course_.world_size == 1 ? 0 : sequence_->turn(step, rank, course_.world_size);
}

Cursor::Share Cursor::share(const Place& place, uint64_t turn) const {
    if (place.steps == 1 && place.round.batches == course_.world_size)
        return batch_of(place.round, turn);
    const std::vector<uint64_t>& pieces = cut(place);
    uint64_t piece = place.step * course_.world_size + turn;
    for (uint64_t i = 0; i < pieces.size(); ++i) {
        if (piece < pieces[i]) {
            const Share batch = batch_of(place.round, i);
            // samples and pieces are below 2^32: their product cannot overflow
            const auto edge = [&](uint64_t at) { return batch.count * at / pieces[i]; };
            return {batch.position, batch.first + edge(piece), edge(piece + 1) - edge(piece)};
        }
        piece -= pieces[i];
    }
    return {0, 0, 0};
}

/// Into how many pieces each batch of a round is cut, as many together as there are places for
/// them. The least cost is searched for with which the pieces that cost at most that find a place
/// each. Places left over go to the first batches that can be cut further; those left over then get
/// nothing.
const std::vector<uint64_t>& Cursor::cut(const Place& place) const {
    const Round& round = place.round;
    if (round == cut_round_) return pieces_;
    struct Whole {
        uint64_t samples;
        uint64_t least;
        double cost;
    };
    std::vector<Whole> batches;
    double high = 1e-300;
    for (uint64_t i = 0; i < round.batches; ++i) {
        const Share batch = batch_of(round, i);
        const double share = static_cast<double>(batch.count) /
                             static_cast<double>(sequence_->samples(batch.position));
        batches.push_back(
            {batch.count, least_pieces(batch), share * sequence_->cost(batch.position)});
        high = std::max(high, batches.back().cost);
    }
    const uint64_t places = place.steps * course_.world_size;
    const auto count_pieces = [&](double most) {
        uint64_t sum = 0;
        for (uint64_t i = 0; i < batches.size() && sum <= places; ++i)
            sum += std::max(batches[i].least, pieces_of(batches[i].samples, batches[i].cost, most));
        return sum;
    };
    double low = high / (2 * static_cast<double>(places));
    for (int i = 0; i < 40; ++i) {
        const double middle = (low + high) / 2;
        (count_pieces(middle) <= places ? high : low) = middle;
    }
    uint64_t spare = places - count_pieces(high);
    cut_round_ = {};
    pieces_.clear();
    for (const Whole& batch : batches) {
        const uint64_t pieces = std::max(batch.least, pieces_of(batch.samples, batch.cost, high));
        const uint64_t more = std::min(spare, batch.samples - pieces);
        spare -= more;
        pieces_.push_back(pieces + more);
    }
    cut_round_ = round;
    return pieces_;
}

void Cursor::add_step_totals(const Place& place, PlacedBatch& batch) const {
    const uint64_t world = course_.world_size;
    if (sequence_->has_others()) {
        batch.step_samples = sequence_->step_samples(place.round.position);
        return;
    }
    if (world == 1) {
        batch.step_samples = batch.batch.count;
        batch.step_total = batch.batch.total;
        return;
    }
    batch.step_total = 0;
    const Round& round = place.round;
    if (place.steps > 1 || round.first > 0) {
        for (uint64_t turn = 0; turn < world; ++turn) {
            const Share part = share(place, turn);
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
    if (round.batches >= batches) add(0, batches, round.batches / batches);
    add(round.position, round.position + round.batches % batches, 1);
}

void Cursor::save(std::span<std::byte, SAB_STATE_SIZE> out) const {
    const CursorState state{order_state(course_.arrangement.epoch, options_),
                            course_.step,
                            course_.start_step,
                            course_.start_position,
                            course_.world_size,
                            course_.arrangement.group,
                            options_.costliest_first,
                            course_.pricing.budget,
                            course_.lead.position,
                            course_.lead.first,
                            course_.lead.batches};
    write_state(kind(), fingerprint(), std::as_bytes(std::span(&state, 1)), out);
}

/// Refuses a state whose fields cannot be, as far as they show it without the epoch's layout.
void Cursor::check_sound(const CursorState& state) const {
    check_place(state.world_size >= 1 && state.world_size <= largest_world_size &&
                state.group >= 1 && state.group <= largest_world_size);
    check_place(state.step >= state.start_step && state.lead_batches <= largest_world_size);
    check_place(state.budget == 0 ||
                (state.budget > 0 && std::isfinite(state.budget) && has_adjustable_budget() &&
                 plan().facts().cost != SAB_COST_CALLBACK));
    check_place(state.start_step <= uint64_t{1} << 62);
    // only a lowered budget leaves a part of a round
    if (state.budget > 0 || state.lead_batches > 0) {
        check_place(state.world_size <= most_ranks_lowered);
        check_lowered_ranks(course_.world_size);
    }
}

/// Goes where a state was saved, as a cursor of the world that saved it does.
void Cursor::go_to(const CursorState& state) {
    check_place(state.start_position <= sequence_->batches());
    check_place(state.lead_batches == 0 ||
                (state.lead_position < state.start_position &&
                 state.lead_batches <= state.start_position - state.lead_position));
    course_.world_size = state.world_size;
    course_.start_step = state.start_step;
    course_.start_position = state.start_position;
    course_.lead = {state.lead_position, state.lead_first, state.lead_batches};
    check_place(course_.lead.first == 0 ||
                (course_.lead.batches > 0 &&
                 course_.lead.first < sequence_->samples(course_.lead.position)));
    try {
        course_.pricing = priced(state.budget);
    } catch (const Error&) {
        check_place(false);
    }
    count_steps();
    check_place(state.step <= batch_count());
    course_.step = state.step;
}

void Cursor::restore(std::span<const std::byte> bytes) {
    CursorState state{};
    read_state(bytes, kind(), fingerprint(), std::as_writable_bytes(std::span(&state, 1)));
    match_order(state.order, options_);
    match_state("costliest_first", state.costliest_first, options_.costliest_first);
    check_sound(state);
    const Arrangement arrangement{options_.seed, state.order.epoch, state.group,
                                  options_.costliest_first};
    attempt(sequence_->lay_out(arrangement), [&] {
        const uint64_t own = course_.world_size;
        course_.arrangement = arrangement;
        go_to(state);
        if (own != state.world_size) {
            take_over(course_.step);
            course_.world_size = own;
            count_steps();
        }
    });
}

}  // namespace sab
