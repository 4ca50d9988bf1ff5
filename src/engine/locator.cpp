#include "engine/locator.h"

#include <algorithm>
#include <string>

#include "sampler/cursor.h"

namespace sab {

Locator::Locator(std::unique_ptr<Sequence> sequence, CostOrder order,
                 const sab_sampler_options& options, std::string_view owner)
    : order_(std::move(order)), options_(options), owner_(owner), columns_(sequence->columns()) {
    const Cursor cursor(std::move(sequence), options);
    order_ = order_.with_options({options.seed, options.epoch, options.world_size,
                                  options.costliest_first, options.steady, options.micro_batches});
    order_.make_invertible();
    batch_count_ = cursor.batch_count();
    limit_ = options.last_step == SAB_LAST_STEP_SPLIT ? order_.batches()
                                                      : batch_count_ * options.world_size;
    if (options.last_step == SAB_LAST_STEP_SPLIT) pieces_ = cursor.last_pieces();
    uint64_t before = 0;
    for (const uint64_t pieces : pieces_) {
        pieces_before_.push_back(before);
        before += pieces;
    }
}

/// The place of each sample in the order.
std::vector<uint64_t> Locator::find_all(std::span<const double> sizes,
                                        std::span<const uint64_t> numbers) const {
    std::vector<uint64_t> places(numbers.size());
    for (std::size_t i = 0; i < numbers.size(); ++i) {
        const Found same = find(&sizes[i * columns_], numbers[i]);
        if (numbers[i] >= same.count) [[unlikely]] {
            const std::string own =
                columns_ == 1 ? text(sizes[i])
                              : text("(", lengths_text(sizes.subspan(i * columns_, columns_)), ")");
            if (same.count == 0)
                fail(SAB_E_ARGUMENT, "sizes[", i, "] = ", std::string_view(own),
                     ": must be the size of samples of the ", owner_);
            fail(SAB_E_ARGUMENT, "numbers[", i, "] = ", numbers[i],
                 ": must be below the number of samples of size ", std::string_view(own), ", ",
                 same.count);
        }
        places[i] = same.place;
    }
    return places;
}

Locator::Taken Locator::taken(uint64_t position, uint64_t slot) const {
    const uint64_t world = options_.world_size, batch = world == 1 ? position : position / world;
    uint64_t rotated = position - batch * world;
    if (!pieces_.empty() && position >= order_.batches() - pieces_.size()) {
        // piece k of n begins at the sample floor(samples * k / n)
        const uint64_t pieces = pieces_[rotated],
                       samples = order_.batch_class(order_.find(position).batch_class).samples,
                       piece = ((slot + 1) * pieces - 1) / samples;
        slot -= samples * piece / pieces;
        rotated = pieces_before_[rotated] + piece;
    }
    if (world == 1) return {0, batch, slot};
    // rank 0 takes the batch number `shift`, the others those that follow
    const uint64_t shift = order_.rotated_rank(batch, 0, world);
    return {rotated >= shift ? rotated - shift : rotated + world - shift, batch, slot};
}

/// In blocks, each in several passes, so that a sample does not wait for the one before.
void Locator::locate(std::span<const double> sizes, std::span<const uint64_t> numbers,
                     const uint64_t* which, const sab_places& out) const {
    const std::vector<uint64_t> places = find_all(sizes, numbers);
    Appearances found[block];
    uint64_t ids[2 * block];  // then positions
    for (std::size_t first = 0; first < places.size(); first += block) {
        const std::size_t count = std::min(block, places.size() - first);
        find_batches(std::span(places).subspan(first, count), found);
        std::size_t batches = 0;
        for (std::size_t i = 0; i < count; ++i)
            for (uint32_t k = 0; k < found[i].count; ++k) ids[batches++] = found[i].position[k];
        order_.positions_of({ids, batches});
        batches = 0;
        for (std::size_t i = 0; i < count; ++i) {
            for (uint32_t k = 0; k < found[i].count; ++k) found[i].position[k] = ids[batches++];
            write(found[i], which != nullptr ? which[first + i] : 0, first + i, out);
        }
    }
}

void Locator::write(Appearances& found, uint64_t asked, std::size_t i,
                    const sab_places& out) const {
    const uint64_t batches = order_.batches();
    const auto set = [i](int64_t* array, uint64_t value) {
        if (array != nullptr) array[i] = static_cast<int64_t>(value);
    };
    if (found.count == 2 && found.position[1] < found.position[0]) {
        std::swap(found.position[0], found.position[1]);
        std::swap(found.slot[0], found.slot[1]);
    }
    uint64_t count = 0;
    for (uint32_t k = 0; k < found.count; ++k)
        if (found.position[k] < limit_)
            count += limit_ <= batches ? 1 : (limit_ - 1 - found.position[k]) / batches + 1;
    set(out.counts, count);
    if (asked >= count) {
        for (int64_t* const array : {out.ranks, out.batches, out.steps, out.slots})
            set(array, ~uint64_t{0});
        return;
    }
    const uint64_t k = found.count == 2 ? asked % 2 : 0,
                   round = found.count == 2 ? asked / 2 : asked;
    const Taken at = taken(found.position[k] + round * batches, found.slot[k]);
    set(out.ranks, at.rank);
    set(out.batches, at.batch);
    set(out.steps, options_.micro_batches == 1 ? at.batch : at.batch / options_.micro_batches);
    set(out.slots, at.slot);
}

}  // namespace sab
