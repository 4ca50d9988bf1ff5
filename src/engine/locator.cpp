#include "engine/locator.h"

#include <algorithm>
#include <string>

#include "sampler/cursor.h"

namespace sab {

Locator::Locator(std::unique_ptr<Sequence> sequence, CostOrder order, const SamplerOptions& options,
                 std::string_view owner)
    : order_(std::move(order)), options_(options), owner_(owner), columns_(sequence->columns()) {
    const Cursor cursor(std::move(sequence), options);
    order_ =
        order_.with_options({options.seed, options.epoch, options.world_size,
                             options.costliest_first, options.micro_batches, options.mix_lengths});
    batch_count_ = cursor.batch_count();
    limit_ = batch_count_ * options.world_size;
    if (options.last_step == SAB_LAST_STEP_SPLIT) limit_ = std::min(limit_, order_.batches());
    if (options.last_step == SAB_LAST_STEP_SPLIT) last_runs_ = cursor.last_runs();
    uint64_t before = 0;
    for (const DividedRun& run : last_runs_) {
        pieces_before_.push_back(before);
        before += run.pieces;
    }
}

/// The key of each sample.
std::vector<uint64_t> Locator::find_all(const uint32_t* sources, std::span<const double> sizes,
                                        std::span<const uint64_t> numbers) const {
    std::vector<uint64_t> all(numbers.size());
    for (std::size_t i = 0; i < numbers.size(); ++i) {
        const Found same =
            find(sources != nullptr ? sources[i] : 0, &sizes[i * columns_], numbers[i]);
        if (numbers[i] >= same.count) [[unlikely]] {
            std::string own =
                columns_ == 1 ? text(sizes[i])
                              : text("(", lengths_text(sizes.subspan(i * columns_, columns_)), ")");
            if (sources != nullptr) own += text(" of source ", sources[i]);
            if (same.count == 0)
                refuse_argument(named("sizes[", i, "]"), std::string_view(own),
                                "must be the size of samples of the ", owner_);
            refuse_argument(named("numbers[", i, "]"), numbers[i],
                            "must be below the number of samples of size ", std::string_view(own),
                            ", ", same.count);
        }
        all[i] = same.key;
    }
    return all;
}

Locator::Taken Locator::taken(uint64_t position, uint64_t slot) const {
    const uint64_t world = options_.world_size, batch = world == 1 ? position : position / world;
    uint64_t rotated = position - batch * world;
    if (!last_runs_.empty() && position >= last_runs_[0].position) {
        const auto after =
            std::ranges::upper_bound(last_runs_, position, {}, &DividedRun::position);
        const auto number = static_cast<std::size_t>(after - last_runs_.begin() - 1);
        const DividedRun& run = last_runs_[number];
        for (uint64_t before = run.position; before < position; ++before)
            slot += order_.batch_class(order_.find(before).batch_class).samples;
        // piece k of n begins at the sample floor(samples * k / n)
        const uint64_t piece = ((slot + 1) * run.pieces - 1) / run.samples;
        slot -= run.samples * piece / run.pieces;
        rotated = pieces_before_[number] + piece;
    }
    if (world == 1) return {0, batch, slot};
    // rank 0 takes the batch number `shift`, the others those that follow
    const uint64_t shift = order_.rotated_rank(batch, 0, world);
    return {rotated >= shift ? rotated - shift : rotated + world - shift, batch, slot};
}

/// In blocks, each in several passes, so that a sample does not wait for the one before.
void Locator::locate(const uint32_t* sources, std::span<const double> sizes,
                     std::span<const uint64_t> numbers, const uint64_t* which,
                     const sab_places& out) const {
    const std::vector<uint64_t> all = find_all(sources, sizes, numbers);
    std::vector<uint64_t> places, ids;  // the ids become positions
    std::vector<Appearances> found;
    std::vector<Slot> slots;
    uint64_t turns[block];
    for (std::size_t first = 0; first < all.size(); first += block) {
        const std::size_t count = std::min(block, all.size() - first);
        find_places(std::span(all).subspan(first, count), numbers.subspan(first, count), places,
                    turns);
        found.resize(places.size());
        ids.resize(2 * places.size());
        slots.resize(2 * places.size());
        for (std::size_t k = 0; k < places.size(); k += block)
            find_batches(std::span(places).subspan(k, std::min(block, places.size() - k)),
                         &found[k]);
        std::size_t taken = 0;
        for (const Appearances& own : found)
            for (uint32_t k = 0; k < own.count; ++k) ids[taken++] = own.position[k];
        find_positions(std::span(ids).first(taken));
        std::size_t place = 0;
        taken = 0;
        for (std::size_t i = 0; i < count; ++i) {
            const std::size_t begin = taken;
            for (const std::size_t end = place + turns[i]; place < end; ++place)
                for (uint32_t k = 0; k < found[place].count; ++k, ++taken)
                    slots[taken] = {ids[taken], found[place].slot[k]};
            write(std::span(slots).subspan(begin, taken - begin),
                  which != nullptr ? which[first + i] : 0, first + i, out);
        }
    }
}

void Locator::write(std::span<Slot> slots, uint64_t asked, std::size_t i,
                    const sab_places& out) const {
    const uint64_t batches = order_.batches();
    const auto set = [i](int64_t* array, uint64_t value) {
        if (array != nullptr) array[i] = static_cast<int64_t>(value);
    };
    if (slots.size() > 1) std::ranges::sort(slots, {}, &Slot::position);
    uint64_t count = 0;
    for (const Slot& each : slots)
        if (each.position < limit_)
            count += limit_ <= batches ? 1 : (limit_ - 1 - each.position) / batches + 1;
    set(out.counts, count);
    if (asked >= count) {
        for (int64_t* const array : {out.ranks, out.batches, out.steps, out.slots})
            set(array, ~uint64_t{0});
        return;
    }
    const bool is_once = slots.size() == 1;
    const Slot& own = slots[is_once ? 0 : asked % slots.size()];
    const uint64_t round = is_once ? asked : asked / slots.size();
    const Taken at = taken(own.position + round * batches, own.slot);
    set(out.ranks, at.rank);
    set(out.batches, at.batch);
    set(out.steps, options_.micro_batches == 1 ? at.batch : at.batch / options_.micro_batches);
    set(out.slots, at.slot);
}

}  // namespace sab
