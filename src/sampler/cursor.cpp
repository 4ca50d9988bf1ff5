#include "sampler/cursor.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <tuple>

namespace sab {
namespace {

constexpr uint32_t state_version = 1;
constexpr uint32_t order_version = 1;
constexpr uint64_t largest_world_size = 0xFFFFFFFFu;

/// A saved state, format version 1: 144 bytes, little-endian.
struct State {
    char magic[4];
    uint32_t version;
    uint32_t length;
    uint32_t order;          ///< sab::Order
    uint64_t fingerprint;    ///< of the plan, or of what else the batches are made from
    uint64_t seed;
    uint64_t epoch;
    uint64_t step;           ///< the next one
    uint64_t start_step;     ///< where this number of ranks took over
    uint64_t start_position;
    uint64_t world_size;
    uint64_t group;          ///< world size that began the epoch
    uint32_t last_step;
    uint32_t order_version;
    uint64_t worst_first;
    double budget;           ///< of the batches to come; 0: the plan's
    uint64_t lead_position;  ///< a round that others began; see Cursor::Round
    uint64_t lead_world;
    uint64_t lead_parts;
    uint64_t lead_piece;
    uint64_t checksum;       ///< XXH3 (64 bits) of all before it
};
static_assert(sizeof(State) == SAB_STATE_SIZE);

uint64_t checksum_of(const State& state) { return XXH3_64bits(&state, offsetof(State, checksum)); }

/// How many pieces a batch is cut into so that none costs more than `most`.
uint64_t pieces_of(uint64_t samples, double cost, double most) {
    const double pieces = std::ceil(cost / most);
    return pieces < static_cast<double>(samples) ? std::max<uint64_t>(1, static_cast<uint64_t>(pieces)) : samples;
}

}  // namespace

void check_sampler_options(const sab_sampler_options& options) {
    check(options.world_size >= 1 && options.world_size <= largest_world_size, "options.world_size", options.world_size, "must be from 1 to 2^32 - 1");
    check(options.rank < options.world_size, "options.rank", options.rank, "must be below the world size, ", options.world_size);
    check(options.last_step >= SAB_LAST_STEP_SPLIT && options.last_step <= SAB_LAST_STEP_WRAP, "options.last_step", options.last_step,
          "must be one of SAB_LAST_STEP_SPLIT (0) to SAB_LAST_STEP_WRAP (2)");
    check(options.step_totals == 0 || options.step_totals == 1, "options.step_totals", options.step_totals, "must be 0 or 1");
}

Cursor::Cursor(std::unique_ptr<Sequence> sequence, const sab_sampler_options& options) : sequence_(std::move(sequence)), options_(options) {
    check_sampler_options(options);
    set_epoch(options.epoch);
}

void Cursor::set_epoch(uint64_t epoch) {
    arrangement_ = {options_.seed, epoch, options_.world_size, options_.worst_first};
    sequence_->arrange(arrangement_);
    start_step_ = start_position_ = step_ = 0;
    lead_ = {};
    count_parts();
}

uint64_t Cursor::rounds() const {
    const uint64_t left = sequence_->batches() - start_position_;
    const uint64_t world = options_.world_size;
    return left / world + (options_.last_step != SAB_LAST_STEP_DROP && left % world != 0);
}

uint64_t Cursor::batch_count() const {
    return start_step_ + lead_steps() + (steps_before_.empty() ? rounds() : steps_before_.back());
}

void Cursor::check_step(uint64_t step) const {
    check(step >= start_step_, "position", step, "must not be before step ", start_step_, ", up to which another number of ranks or another budget went");
}

void Cursor::seek(uint64_t step) {
    check_step(step);
    check(step <= batch_count(), "position", step, "must be at most the number of steps, ", batch_count());
    step_ = step;
}

Cursor::Round Cursor::round_at(uint64_t step) const {
    const uint64_t world = options_.world_size;
    uint64_t after = step - start_step_;
    if (const uint64_t lead = lead_steps(); after < lead) {
        Round round = lead_;
        round.piece += after * world;
        return round;
    } else {
        after -= lead;
    }
    if (steps_before_.empty()) return {start_position_ + after * world, world, 1, 0};
    const auto next = std::ranges::upper_bound(steps_before_, after);
    const auto index = static_cast<uint64_t>(next - steps_before_.begin()) - 1;
    return {start_position_ + index * world, world, *next - steps_before_[index], (after - steps_before_[index]) * world};
}

void Cursor::count_parts() {
    steps_before_.clear();
    if (budget_ == 0) return;
    steps_before_.reserve(rounds() + 1);
    steps_before_.push_back(0);
    for (uint64_t round = 0, count = rounds(); round < count; ++round)
        steps_before_.push_back(steps_before_.back() + parts_of(start_position_ + round * options_.world_size));
}

/// Into how many parts the round at `position` is cut so that none costs more than the budget.
uint64_t Cursor::parts_of(uint64_t position) const {
    uint64_t parts = 1;
    for (uint64_t rank = 0; rank < options_.world_size; ++rank) {
        const Share whole = share(position, options_.world_size, rank);
        if (whole.count == 0) continue;
        const uint64_t most = most_samples_[sequence_->bucket(whole.position)];
        parts = std::max(parts, most == 0 ? whole.count : (whole.count + most - 1) / most);
    }
    return parts;
}

Cursor::Share Cursor::piece(const Round& round, uint64_t piece) const {
    if (piece >= round.world * round.parts) return {0, 0, 0};
    Share whole = share(round.position, round.world, piece % round.world);
    if (round.parts == 1) return whole;
    // samples and parts are below 2^32: their product cannot overflow
    const uint64_t part = piece / round.world;
    const uint64_t begin = whole.count * part / round.parts, end = whole.count * (part + 1) / round.parts;
    return {whole.position, whole.first + begin, end - begin};
}

/// From `step` on other rules hold: what lies before is not to be reached any more.
void Cursor::take_over(uint64_t step) {
    if (step >= batch_count()) {
        start_position_ = sequence_->batches();
        lead_ = {};
    } else if (const Round now = round_at(step); now.piece > 0) {
        if (step >= start_step_ + lead_steps()) start_position_ = now.position + now.world;
        lead_ = now;
    } else {
        lead_ = {};
        start_position_ = now.position;
    }
    start_position_ = std::min(start_position_, sequence_->batches());
    start_step_ = step;
}

void Cursor::set_budget(double budget) {
    if (plan() == nullptr || sequence_->order() == Order::worst) return Sampler::set_budget(budget);
    if (plan()->facts().cost == SAB_COST_CALLBACK)
        fail(SAB_E_UNSUPPORTED, "sab_sampler_set_budget: the plan was priced by a callback, which is not kept: price it by terms");
    price(budget);
    take_over(step_);
    if (lead_.pieces_left() > 0 && lead_.piece % lead_.world == 0) {  // what was begun is cut finer where its parts allow
        uint64_t finer = 1;
        for (uint64_t rank = 0; rank < lead_.world && budget_ > 0; ++rank) {
            const Share whole = share(lead_.position, lead_.world, rank);
            if (whole.count == 0) continue;
            const uint64_t largest = (whole.count + lead_.parts - 1) / lead_.parts;
            const uint64_t most = std::max<uint64_t>(most_samples_[sequence_->bucket(whole.position)], 1);
            finer = std::max(finer, (largest + most - 1) / most);
        }
        lead_.parts *= finer;
        lead_.piece *= finer;
    }
    count_parts();
}

/// Works out how many samples of each bucket `budget` pays for.
void Cursor::price(double budget) {
    std::vector<uint64_t> most;
    if (plan() != nullptr && plan()->facts().budget > 0 && budget >= plan()->facts().budget) budget = 0;
    if (budget > 0) {
        const Cost cost(plan()->facts().cost, {plan()->coefficients().begin(), plan()->coefficients().end()}, nullptr, nullptr);
        check(budget > cost.constant(), "budget", budget, "must be more than the cost's constant term, ", cost.constant());
        for (const Bucket& bucket : plan()->buckets())
            most.push_back(cost.largest_count(bucket.padded_length, budget, bucket.batch_size));
    }
    most_samples_ = std::move(most);
    budget_ = budget;
}

double Cursor::budget() const {
    return plan() == nullptr ? Sampler::budget() : budget_ > 0 ? budget_ : plan()->facts().budget;
}

bool Cursor::next(PlacedBatch& batch) {
    if (step_ >= batch_count()) return false;
    fill(step_, options_.rank, batch);
    ++step_;
    return true;
}

BatchBlock Cursor::next_block(PlacedBatch& scratch, std::size_t most, std::span<int64_t> indices, uint64_t* offsets) {
    const uint64_t steps = batch_count();
    if (step_ >= steps) return {0, true};
    BatchBlock block;
    offsets[0] = 0;
    for (; block.count < most && step_ < steps; ++step_) {
        const Round round = round_at(step_);
        const Share part = piece(round, round.piece + options_.rank);
        const uint64_t used = offsets[block.count];
        if (part.count > indices.size() - used) {
            if (block.count == 0) offsets[1] = part.count;
            break;
        }
        if (part.count > 0) sequence_->fill(part.position, part.first, part.count, scratch.batch);
        std::copy_n(scratch.batch.buffer.begin(), part.count, indices.begin() + static_cast<std::ptrdiff_t>(used));
        offsets[++block.count] = used + part.count;
    }
    return block;
}

void Cursor::fill(uint64_t step, uint64_t rank, PlacedBatch& batch) {
    check_step(step);
    check(step < batch_count(), "position", step, "must be below the number of steps, ", batch_count());
    const Round round = round_at(step);
    const Share part = piece(round, round.piece + rank);
    if (part.count > 0) {
        sequence_->fill(part.position, part.first, part.count, batch.batch);
    } else {
        batch.batch.room(0);
        batch.batch.longest = batch.batch.total = batch.batch.padded_length = 0;
        batch.batch.bucket = -1;
    }
    batch.epoch = arrangement_.epoch;
    batch.step = step;
    batch.step_samples = 0;
    batch.step_total = -1;
    if (options_.step_totals != 0) add_step_totals(round, batch);
}

Cursor::Share Cursor::share(uint64_t first, uint64_t world, uint64_t rank) const {
    const uint64_t batches = sequence_->batches();
    if (first + world > batches && options_.last_step == SAB_LAST_STEP_SPLIT) return split_share(first, batches - first, world, rank);
    const uint64_t position = (first + rank) % batches;  // past the end only under SAB_LAST_STEP_WRAP
    return {position, 0, sequence_->samples(position)};
}

Cursor::Share Cursor::split_share(uint64_t first_position, uint64_t batches, uint64_t world, uint64_t rank) const {
    // Fewer batches than ranks: the least `most` is searched for with which the pieces that cost at most that are no more than the ranks. Pieces left
    // over go to the first batches that can be cut further; ranks left over get nothing. Nothing is kept, so that memory does not grow with the ranks.
    const auto pieces = [&](uint64_t i, double most) {
        const uint64_t position = first_position + i;
        return pieces_of(sequence_->samples(position), sequence_->cost(position), most);
    };
    const auto count_pieces = [&](double most) {
        uint64_t sum = 0;
        for (uint64_t i = 0; i < batches && sum <= world; ++i) sum += pieces(i, most);
        return sum;
    };
    double high = 1e-300;
    for (uint64_t i = 0; i < batches; ++i) high = std::max(high, sequence_->cost(first_position + i));
    double low = high / (2 * static_cast<double>(world));
    for (int round = 0; round < 40; ++round) {
        const double middle = (low + high) / 2;
        (count_pieces(middle) <= world ? high : low) = middle;
    }
    uint64_t spare = world - count_pieces(high);
    for (uint64_t i = 0; i < batches; ++i) {
        const uint64_t samples = sequence_->samples(first_position + i);
        uint64_t cut = pieces(i, high);
        const uint64_t more = std::min(spare, samples - cut);
        spare -= more;
        cut += more;
        if (rank < cut) {
            // samples and piece are below 2^32: their product cannot overflow
            const auto edge = [&](uint64_t piece) { return samples * piece / cut; };
            return {first_position + i, edge(rank), edge(rank + 1) - edge(rank)};
        }
        rank -= cut;
    }
    return {0, 0, 0};
}

void Cursor::add_step_totals(const Round& round, PlacedBatch& batch) const {
    const uint64_t world = options_.world_size;
    if (world == 1) {
        batch.step_samples = batch.batch.count;
        batch.step_total = batch.batch.total;
        return;
    }
    batch.step_total = 0;
    if (round.parts > 1 || round.world != world) {
        for (uint64_t rank = 0; rank < world; ++rank) {
            const Share part = piece(round, round.piece + rank);
            if (part.count == 0) continue;
            sequence_->fill(part.position, part.first, part.count, scratch_);
            batch.step_samples += scratch_.count;
            batch.step_total += scratch_.total;
        }
        return;
    }
    // Whole batches: a split step has the same totals as the batches that were split.
    const uint64_t batches = sequence_->batches();
    const auto add = [&](uint64_t first, uint64_t end, uint64_t times) {
        for (uint64_t position = first; position < end; ++position) {
            batch.step_samples += times * sequence_->samples(position % batches);
            batch.step_total += static_cast<double>(times) * sequence_->total(position % batches);
        }
    };
    const uint64_t first = round.position;
    if (options_.last_step != SAB_LAST_STEP_WRAP) {
        add(first, std::min(first + world, batches), 1);
    } else {  // more ranks than batches see the epoch several times over
        if (world >= batches) add(0, batches, world / batches);
        add(first, first + world % batches, 1);
    }
}

void Cursor::save(std::span<std::byte, SAB_STATE_SIZE> out) const {
    State state{};
    std::memcpy(state.magic, "SABS", 4);
    state.version = state_version;
    state.length = sizeof state;
    state.order = static_cast<uint32_t>(sequence_->order());
    state.fingerprint = sequence_->fingerprint();
    state.seed = options_.seed;
    state.epoch = arrangement_.epoch;
    state.step = step_;
    state.start_step = start_step_;
    state.start_position = start_position_;
    state.world_size = options_.world_size;
    state.group = arrangement_.group;
    state.last_step = static_cast<uint32_t>(options_.last_step);
    state.order_version = order_version;
    state.worst_first = options_.worst_first;
    state.budget = budget_;
    state.lead_position = lead_.position;
    state.lead_world = lead_.world;
    state.lead_parts = lead_.parts;
    state.lead_piece = lead_.piece;
    state.checksum = checksum_of(state);
    std::memcpy(out.data(), &state, sizeof state);
}

void Cursor::restore(std::span<const std::byte> bytes) {
    if (bytes.size() < 8 || std::memcmp(bytes.data(), "SABS", 4) != 0) fail(SAB_E_FORMAT, "state: does not begin as a state does");
    State state{};
    std::memcpy(&state, bytes.data(), std::min(bytes.size(), sizeof state));
    if (state.version != state_version) fail(SAB_E_FORMAT, "state: has version ", state.version, ", this library reads ", state_version);
    if (bytes.size() != sizeof state || state.length != sizeof state)
        fail(SAB_E_FORMAT, "state: has ", bytes.size(), " bytes, must have ", sizeof state);
    if (state.checksum != checksum_of(state)) fail(SAB_E_FORMAT, "state: its checksum does not match: it is damaged");

    const auto match = [](const char* what, uint64_t saved, uint64_t own) {
        if (saved != own) fail(SAB_E_MISMATCH, "state: was saved with ", what, " ", saved, ", this sampler has ", own);
    };
    match("order", state.order, static_cast<uint32_t>(sequence_->order()));
    match("order version", state.order_version, order_version);
    match("fingerprint", state.fingerprint, sequence_->fingerprint());
    match("seed", state.seed, options_.seed);
    match("last_step", state.last_step, static_cast<uint32_t>(options_.last_step));
    match("worst_first", state.worst_first, options_.worst_first);

    const auto sound = [](bool kept) {
        if (!kept) fail(SAB_E_FORMAT, "state: its place in the epoch cannot be");
    };
    const uint64_t batches = sequence_->batches();
    sound(state.world_size >= 1 && state.world_size <= largest_world_size && state.group >= 1 && state.group <= largest_world_size);
    sound(state.start_position <= batches && state.step >= state.start_step);
    sound(state.lead_world <= largest_world_size && state.lead_parts >= 1 && state.lead_parts <= largest_world_size &&
          state.lead_piece <= state.lead_world * state.lead_parts &&
          (state.lead_world == 0 || (state.lead_position < batches && state.lead_piece > 0)));
    sound(state.budget == 0 || (state.budget > 0 && std::isfinite(state.budget) && plan() != nullptr && plan()->facts().cost != SAB_COST_CALLBACK));

    sound(state.start_step <= uint64_t{1} << 62);

    // The place is worked out as a cursor of the world that saved has it. A state that cannot be leaves this cursor as it was.
    auto mine = std::tie(options_.world_size, arrangement_, start_step_, start_position_, lead_, step_, budget_, most_samples_, steps_before_);
    auto before = std::make_tuple(options_.world_size, arrangement_, start_step_, start_position_, lead_, step_, budget_, most_samples_, steps_before_);
    try {
        options_.world_size = state.world_size;
        arrangement_ = {options_.seed, state.epoch, state.group, options_.worst_first};
        sequence_->arrange(arrangement_);
        start_step_ = state.start_step;
        start_position_ = state.start_position;
        lead_ = {state.lead_position, state.lead_world, state.lead_parts, state.lead_piece};
        price(state.budget);
        count_parts();
        sound(state.step <= batch_count());
        step_ = state.step;
        if (const uint64_t own = std::get<0>(before); own != state.world_size) {
            take_over(step_);
            options_.world_size = own;
            count_parts();
        }
    } catch (...) {
        mine = std::move(before);
        sequence_->arrange(arrangement_);
        throw;
    }
}

}  // namespace sab
