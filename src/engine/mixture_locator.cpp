#include "engine/mixture_locator.h"

#include <algorithm>
#include <utility>

#include "engine/even_stride.h"

namespace sab {

namespace {

__extension__ using Wide = unsigned __int128;

/// floor((a * b + add) / c), where it has 64 bits.
uint64_t scaled(uint64_t a, uint64_t b, uint64_t c, uint64_t add = 0) {
    const Wide number = Wide{a} * b + add;
    return number >> 64 == 0 ? static_cast<uint64_t>(number) / c
                             : static_cast<uint64_t>(number / c);
}

SamplerOptions checked(const SamplerOptions& options, const CountedTurns& turns) {
    check(options.epoch == turns.epoch, "options.epoch", options.epoch,
          "must be the epoch of the plan, ", turns.epoch);
    return options;
}

}  // namespace

MixtureLocator::MixtureLocator(const std::shared_ptr<const Plan>& plan,
                               std::shared_ptr<const CountedTurns> turns,
                               const SamplerOptions& options)
    : BucketLocator(plan, checked(options, *turns)), turns_(std::move(turns)) {
    keep_full_step();  // its batches are others than those of the sorted order
    for (const BucketOrder& bucket : buckets_)
        strides_.push_back(
            {even_stride(bucket.batch_size), even_stride(bucket.samples() % bucket.batch_size)});
    uint64_t all = 0;
    for (const EntryTurns& entry : turns_->entries) {
        first_entries_.resize(entry.source + 1, first_turns_.size());
        first_turns_.push_back(std::exchange(all, all + entry.turns));
    }
    first_entries_.push_back(first_turns_.size());
    std::vector<Part> by_entry = parts();
    exchange(by_entry);
    make_groups(by_entry);
    for (const Part& part : by_entry) {
        // the turns before may go on
        if (!pieces_.empty() && pieces_.back().group == part.piece.group) continue;
        piece_begins_.push_back(part.begin);
        pieces_.push_back(part.piece);
    }
}

void check_sources(bool is_of_mixture, const uint32_t* sources, std::size_t count) {
    if (is_of_mixture && count > 0) require(sources, "sources");
    if (!is_of_mixture && sources != nullptr)
        refuse_argument("sources", no_value, "must be NULL: the plan is of no epoch of a mixture");
}

/// By entry. The plan orders the turns by size, and those of the same size by source.
std::vector<MixtureLocator::Part> MixtureLocator::parts() const {
    std::vector<Part> by_size;
    std::vector<std::size_t> first_parts(first_turns_.size());
    const std::span<const uint64_t> runs = plan_->run_places(),
                                    first_places = plan_->first_places();
    uint64_t place = 0;  // by size
    std::size_t run = 0;
    for (const std::size_t k : turns_->by_size()) {
        first_parts[k] = by_size.size();
        uint64_t begin = first_turns_[k];
        for (uint64_t left = turns_->entries[k].turns; left > 0;) {
            uint64_t at = place, count = left;
            if (!runs.empty()) {
                while (first_places[run + 1] <= place) ++run;
                at = runs[run] + (place - first_places[run]);
                count = std::min(count, first_places[run + 1] - place);
            }
            std::size_t bucket = last_at_most<uint64_t>(begins_, at);
            if (at < begins_[bucket]) {
                count = std::min(count, begins_[bucket] - at);
                bucket = buckets_.size();
            } else if (at < buckets_[bucket].end) {
                count = std::min(count, buckets_[bucket].end - at);
            } else {  // buckets have no gaps, so all that follow are in none
                bucket = buckets_.size();
            }
            by_size.push_back({bucket, k, begin, count});
            begin += count;
            place += count;
            left -= count;
        }
    }
    std::vector<Part> by_entry;
    for (std::size_t k = 0; k < first_parts.size(); ++k)
        for (std::size_t i = first_parts[k]; i < by_size.size() && by_size[i].entry == k; ++i)
            by_entry.push_back(by_size[i]);
    return by_entry;
}

/// The turns of an entry that lies in several buckets are permuted.
void MixtureLocator::exchange(std::span<const Part> by_entry) {
    exchange_of_.assign(first_turns_.size(), none);
    if (plan_->facts().bucket_rule == SAB_BUCKETS_BOUNDARIES) return;
    const EpochOptions& of = order_.epoch_options();
    for (std::size_t i = 1; i < by_entry.size(); ++i) {
        const std::size_t k = by_entry[i].entry;
        if (by_entry[i - 1].entry != k || by_entry[i - 1].bucket == by_entry[i].bucket ||
            exchange_of_[k] != none)
            continue;
        exchange_of_[k] = static_cast<uint32_t>(exchanges_.size());
        exchanges_.emplace_back(turns_->entries[k].turns,
                                permutation_key(of.seed, of.epoch, Purpose::sizes, k));
    }
}

/// `parts`: by entry. Gives each its piece.
void MixtureLocator::make_groups(std::span<Part> parts) {
    std::vector<std::size_t> next(buckets_.size() + 2);
    std::vector<Part*> by_bucket(parts.size());  // then by entry, so by source
    for (const Part& part : parts) ++next[part.bucket + 1];
    for (std::size_t b = 1; b < next.size(); ++b) next[b] += next[b - 1];
    for (Part& part : parts) by_bucket[next[part.bucket]++] = &part;
    uint64_t before = 0;  // in the bucket
    for (std::size_t i = 0; i < by_bucket.size();) {
        const std::size_t first = i, bucket = by_bucket[i]->bucket;
        const auto source_of = [&](std::size_t k) {
            return turns_->entries[by_bucket[k]->entry].source;
        };
        uint64_t count = 0;
        for (; i < by_bucket.size() && by_bucket[i]->bucket == bucket &&
               source_of(i) == source_of(first);
             ++i)
            by_bucket[i]->piece = {groups_.size(),
                                   std::exchange(count, count + by_bucket[i]->count)};
        if (groups_.empty() || groups_.back().bucket != bucket) before = 0;
        const uint64_t key = mix(order_.samples_key(bucket) ^ source_of(first));
        groups_.push_back({bucket, std::exchange(before, before + count), Permutation(count, key)});
    }
}

Locator::Found MixtureLocator::find(uint64_t source, const double* sizes, uint64_t) const {
    if (source + 1 >= first_entries_.size()) return {0};
    const std::size_t columns = turns_->columns, first = first_entries_[source],
                      count = first_entries_[source + 1] - first;
    const double* const known = turns_->sizes.data() + first * columns;
    std::size_t at = 0;
    if (columns == 1) {
        at = last_at_most({known, count}, *sizes);
    } else {
        for (std::size_t left = count; left > 1;) {
            const std::size_t half = left / 2;
            const double* const own = known + (at + half) * columns;
            if (!std::lexicographical_compare(sizes, sizes + columns, own, own + columns))
                at += half;
            left -= half;
        }
    }
    if (count == 0 || !std::equal(sizes, sizes + columns, known + at * columns)) return {0};
    return {turns_->entries[first + at].samples, first + at};
}

void MixtureLocator::find_places(std::span<const uint64_t> found, std::span<const uint64_t> numbers,
                                 std::vector<uint64_t>& places, uint64_t* turns) const {
    places.clear();
    for (const uint64_t k : found) {
        prefetch(turns_->entries[k]);
        prefetch(first_turns_[k]);
    }
    for (std::size_t i = 0; i < found.size(); ++i) {
        const EntryTurns& entry = turns_->entries[found[i]];
        const uint64_t least = entry.turns / entry.samples, extra = entry.turns % entry.samples,
                       first = first_turns_[found[i]];
        const uint32_t exchange = exchange_of_[found[i]];
        const auto add = [&](uint64_t turn) {
            places.push_back(first + (exchange == none ? turn : exchanges_[exchange](turn)));
        };
        turns[i] = least;
        for (uint64_t turn = 0; turn < least; ++turn) add(turn * entry.samples + numbers[i]);
        if (extra == 0) continue;
        const uint64_t place = Permutation(entry.samples,
                                           mix(mix(turns_->seed) ^ found[i]))(numbers[i]),
                       after = place - entry.start +
                               (place < entry.start ? entry.samples : uint64_t{0});
        if (after >= extra) continue;
        ++turns[i];
        add(least * entry.samples + after);
    }
}

/// Turns are spread over the batches row by row: a row has one turn of each full batch, in their
/// order. The rest of the bucket, which is its last batch or is left out, takes part in some of the
/// rows, at even distances. The rows are at even distances in a batch, so that parts of it have
/// their shares, too.
uint64_t MixtureLocator::spread_place(std::size_t bucket, uint64_t number) const {
    const uint64_t samples = buckets_[bucket].samples(), rows = buckets_[bucket].batch_size,
                   full = samples / rows, rest = samples % rows,
                   row = scaled(number, rows, samples, rows - 1),
                   batch = number - scaled(row, samples, rows);
    if (batch < full) return batch * rows + row * strides_[bucket].full % rows;
    return full * rows + scaled(row, rest, rows) * strides_[bucket].rest % rest;
}

/// In several passes, as find_batches() of the base.
void MixtureLocator::find_batches(std::span<const uint64_t> places, Appearances* found) const {
    const Group* groups[block];
    const Permutation* permutations[block];
    uint64_t offsets[block];
    std::size_t pieces[block];
    last_at_most(piece_begins_, places, pieces);
    for (std::size_t i = 0; i < places.size(); ++i) prefetch(pieces_[pieces[i]]);
    for (std::size_t i = 0; i < places.size(); ++i) {
        const Piece& piece = pieces_[pieces[i]];
        groups[i] = &groups_[piece.group];
        prefetch(*groups[i]);
        offsets[i] = piece.offset + (places[i] - piece_begins_[pieces[i]]);
    }
    for (std::size_t i = 0; i < places.size(); ++i) {
        permutations[i] = &groups[i]->permutation;
        if (groups[i]->bucket == buckets_.size()) continue;
        prefetch(buckets_[groups[i]->bucket]);
        prefetch(strides_[groups[i]->bucket]);
    }
    Permutation::invert({permutations, places.size()}, {offsets, places.size()});
    for (std::size_t i = 0; i < places.size(); ++i) {
        const std::size_t bucket = groups[i]->bucket;
        found[i].count = 0;
        if (bucket == buckets_.size()) continue;
        BucketLocator::find_batches(buckets_[bucket],
                                    spread_place(bucket, groups[i]->first + offsets[i]), found[i]);
    }
}

}  // namespace sab
