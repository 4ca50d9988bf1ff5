#include "engine/locator.h"

#include <algorithm>

#include "sampler/bucket_classes.h"
#include "sampler/cursor.h"

namespace sab {

Locator::Locator(const std::shared_ptr<const Plan>& plan, const sab_sampler_options& options)
    : plan_(plan), options_(options) {
    plan->need_one_column("sab_plan_locate");
    const Cursor cursor(make_bucket_sequence(plan), options);
    const std::vector<BucketClass> classes = bucket_classes(*plan);
    order_ = cost_order(classes).with_options({options.seed, options.epoch, options.world_size,
                                               options.costliest_first, options.steady,
                                               options.micro_batches});
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

    std::vector<BucketOrder> all(plan->buckets().size());
    for (std::size_t b = 0; b < all.size(); ++b) {
        const Bucket& bucket = plan->buckets()[b];
        all[b].begin = bucket.begin;
        all[b].end = bucket.end;
        all[b].batch_size = bucket.batch_size;
        if (bucket.samples() > 0)
            all[b].permutation = Permutation(bucket.samples(), order_.samples_key(b));
    }
    const std::vector<CostOrder::ClassIds> ids = order_.class_ids();
    for (std::size_t k = 0; k < classes.size(); ++k) {
        BucketOrder& bucket = all[classes[k].bucket];
        const uint64_t samples = classes[k].batches.samples * classes[k].batches.batches;
        bucket.all = std::max(bucket.all, classes[k].first + samples);
        // the class of full batches; a tail is alone in its class, and has fewer samples
        if (classes[k].batches.samples == bucket.batch_size) {
            bucket.full = samples;
            bucket.full_ids = ids[k];
        } else {
            bucket.tail_id = ids[k].of(0);
        }
    }
    std::ranges::copy_if(all, std::back_inserter(buckets_),
                         [](const BucketOrder& bucket) { return bucket.samples() > 0; });
    std::ranges::sort(buckets_, {}, &BucketOrder::begin);
    for (const BucketOrder& bucket : buckets_) begins_.push_back(bucket.begin);
}

std::vector<uint64_t> Locator::find(std::span<const double> sizes,
                                    std::span<const uint64_t> numbers) const {
    const std::span<const double> distinct = plan_->distinct_sizes();
    std::vector<uint64_t> places(sizes.size());
    for (std::size_t i = 0; i < sizes.size(); ++i) {
        const double* first = distinct.data();
        for (std::size_t left = distinct.size(); left > 1;) {  // without branches
            const std::size_t half = left / 2;
            first = first[half] <= sizes[i] ? first + half : first;
            left -= half;
        }
        if (*first != sizes[i]) [[unlikely]]
            fail(SAB_E_ARGUMENT, "sizes[", i, "] = ", sizes[i],
                 ": must be the size of samples of the plan");
        const auto found = static_cast<std::size_t>(first - distinct.data());
        const uint64_t begin = plan_->first_place(found),
                       count = plan_->first_place(found + 1) - begin;
        if (numbers[i] >= count) [[unlikely]]
            fail(SAB_E_ARGUMENT, "numbers[", i, "] = ", numbers[i],
                 ": must be below the number of samples of size ", sizes[i], ", ", count);
        places[i] = begin + numbers[i];
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

/// In blocks, each in several passes, so that a sample does not wait for the memory and the
/// permutations of the one before.
void Locator::locate(std::span<const uint64_t> places, const uint64_t* which,
                     const sab_places& out) const {
    Found found[block];
    uint64_t ids[2 * block];  // then positions
    for (std::size_t first = 0; first < places.size(); first += block) {
        const std::size_t count = std::min(block, places.size() - first);
        find_offsets(places.subspan(first, count), found);
        std::size_t batches = 0;
        for (std::size_t i = 0; i < count; ++i) batches += find_batches(found[i], ids + batches);
        order_.positions_of({ids, batches});
        batches = 0;
        for (std::size_t i = 0; i < count; ++i) {
            std::copy_n(ids + batches, found[i].appearances, found[i].position);
            batches += found[i].appearances;
            write(found[i], which != nullptr ? which[first + i] : 0, first + i, out);
        }
    }
}

/// The bucket of each place, and the offset in the bucket's permutation.
void Locator::find_offsets(std::span<const uint64_t> places, Found* found) const {
    const Permutation* permutations[block];
    uint64_t offsets[block];
    for (std::size_t i = 0; i < places.size(); ++i) {
        const uint64_t* first = begins_.data();
        for (std::size_t left = begins_.size(); left > 1;) {  // without branches
            const std::size_t half = left / 2;
            first = first[half] <= places[i] ? first + half : first;
            left -= half;
        }
        const BucketOrder& bucket = buckets_[static_cast<std::size_t>(first - begins_.data())];
        for (std::size_t byte = 0; byte < sizeof bucket; byte += 64)
            __builtin_prefetch(reinterpret_cast<const char*>(&bucket) + byte);
        found[i].bucket = &bucket;
    }
    for (std::size_t i = 0; i < places.size(); ++i) {
        const BucketOrder& bucket = *found[i].bucket;
        found[i].is_in_bucket = places[i] >= bucket.begin && places[i] < bucket.end;
        permutations[i] = &bucket.permutation;
        offsets[i] = found[i].is_in_bucket ? places[i] - bucket.begin : 0;
    }
    Permutation::invert({permutations, places.size()}, {offsets, places.size()});
    for (std::size_t i = 0; i < places.size(); ++i) found[i].offset = offsets[i];
}

/// The ids and slots in the bucket's batches: none for a sample that is left out, two for one that
/// SAB_TAIL_WRAP repeats. Returns their number.
uint32_t Locator::find_batches(Found& found, uint64_t* ids) const {
    const BucketOrder& bucket = *found.bucket;
    found.appearances = 0;
    if (!found.is_in_bucket) return 0;
    for (uint64_t offset = found.offset; offset < bucket.all; offset += bucket.samples()) {
        uint32_t& k = found.appearances;
        if (offset >= bucket.full) {
            ids[k] = bucket.tail_id;
            found.slot[k] = offset - bucket.full;
        } else {
            const uint64_t batch = offset / bucket.batch_size;
            ids[k] = bucket.full_ids.of(batch);
            found.slot[k] = offset - batch * bucket.batch_size;
        }
        ++k;
    }
    return found.appearances;
}

void Locator::write(Found& found, uint64_t asked, std::size_t i, const sab_places& out) const {
    const uint64_t batches = order_.batches();
    const auto set = [i](int64_t* array, uint64_t value) {
        if (array != nullptr) array[i] = static_cast<int64_t>(value);
    };
    if (found.appearances == 2 && found.position[1] < found.position[0]) {
        std::swap(found.position[0], found.position[1]);
        std::swap(found.slot[0], found.slot[1]);
    }
    uint64_t count = 0;
    for (uint32_t k = 0; k < found.appearances; ++k)
        if (found.position[k] < limit_)
            count += limit_ <= batches ? 1 : (limit_ - 1 - found.position[k]) / batches + 1;
    set(out.counts, count);
    if (asked >= count) {
        for (int64_t* const array : {out.ranks, out.batches, out.steps, out.slots})
            set(array, ~uint64_t{0});
        return;
    }
    const uint64_t k = found.appearances == 2 ? asked % 2 : 0,
                   round = found.appearances == 2 ? asked / 2 : asked;
    const Taken at = taken(found.position[k] + round * batches, found.slot[k]);
    set(out.ranks, at.rank);
    set(out.batches, at.batch);
    set(out.steps, options_.micro_batches == 1 ? at.batch : at.batch / options_.micro_batches);
    set(out.slots, at.slot);
}

}  // namespace sab
