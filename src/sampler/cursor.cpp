#include "sampler/cursor.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <cstring>

namespace sab {
namespace {

constexpr uint32_t state_version = 1;
constexpr uint32_t order_version = 1;
constexpr uint64_t largest_world_size = 0xFFFFFFFFu;

/// A saved state, format version 1: 112 bytes, little-endian.
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
    uint64_t reserved;
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
}

uint64_t Cursor::batch_count() const {
    const uint64_t left = sequence_->batches() - start_position_;
    const uint64_t world = options_.world_size;
    return start_step_ + left / world + (options_.last_step != SAB_LAST_STEP_DROP && left % world != 0);
}

void Cursor::seek(uint64_t step) {
    const uint64_t count = batch_count();
    check(step >= start_step_, "position", step, "must not be before step ", start_step_, ", up to which another number of ranks went");
    check(step <= count, "position", step, "must be at most the number of steps, ", count);
    step_ = step;
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
        const Share part = share(step_, options_.rank);
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
    const uint64_t count = batch_count();
    check(step >= start_step_, "position", step, "must not be before step ", start_step_, ", up to which another number of ranks went");
    check(step < count, "position", step, "must be below the number of steps, ", count);
    const Share part = share(step, rank);
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
    if (options_.step_totals != 0) add_step_totals(batch);
}

Cursor::Share Cursor::share(uint64_t step, uint64_t rank) const {
    const uint64_t first = position_of(step);
    const uint64_t batches = sequence_->batches();
    if (first + options_.world_size > batches && options_.last_step == SAB_LAST_STEP_SPLIT) return split_share(first, batches - first, rank);
    const uint64_t position = (first + rank) % batches;  // past the end only under SAB_LAST_STEP_WRAP
    return {position, 0, sequence_->samples(position)};
}

Cursor::Share Cursor::split_share(uint64_t first_position, uint64_t batches, uint64_t rank) const {
    // Fewer batches than ranks: the least `most` is searched for with which the pieces that cost at most that are no more than the ranks. Pieces left
    // over go to the first batches that can be cut further; ranks left over get nothing. Nothing is kept, so that memory does not grow with the ranks.
    const auto pieces = [&](uint64_t i, double most) {
        const uint64_t position = first_position + i;
        return pieces_of(sequence_->samples(position), sequence_->cost(position), most);
    };
    const auto count_pieces = [&](double most) {
        uint64_t sum = 0;
        for (uint64_t i = 0; i < batches && sum <= options_.world_size; ++i) sum += pieces(i, most);
        return sum;
    };
    double high = 1e-300;
    for (uint64_t i = 0; i < batches; ++i) high = std::max(high, sequence_->cost(first_position + i));
    double low = high / (2 * static_cast<double>(options_.world_size));
    for (int round = 0; round < 40; ++round) {
        const double middle = (low + high) / 2;
        (count_pieces(middle) <= options_.world_size ? high : low) = middle;
    }
    uint64_t spare = options_.world_size - count_pieces(high);
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

void Cursor::add_step_totals(PlacedBatch& batch) const {
    if (options_.world_size == 1) {
        batch.step_samples = batch.batch.count;
        batch.step_total = batch.batch.total;
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
    const uint64_t first = position_of(batch.step);
    batch.step_total = 0;
    if (options_.last_step != SAB_LAST_STEP_WRAP) {
        add(first, std::min(first + options_.world_size, batches), 1);
    } else {  // more ranks than batches see the epoch several times over
        if (options_.world_size >= batches) add(0, batches, options_.world_size / batches);
        add(first, first + options_.world_size % batches, 1);
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
    const uint64_t left = batches - state.start_position;
    const uint64_t steps = left / state.world_size + (options_.last_step != SAB_LAST_STEP_DROP && left % state.world_size != 0);
    const uint64_t taken = state.step - state.start_step;
    sound(taken <= steps && state.start_step <= state.start_position && state.reserved == 0);

    arrangement_ = {options_.seed, state.epoch, state.group, options_.worst_first};
    sequence_->arrange(arrangement_);
    step_ = state.step;
    if (state.world_size == options_.world_size) {
        start_step_ = state.start_step;
        start_position_ = state.start_position;
    } else {
        start_step_ = state.step;
        start_position_ = taken == steps ? batches : state.start_position + taken * state.world_size;
    }
}

}  // namespace sab
