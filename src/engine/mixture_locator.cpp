#include "engine/mixture_locator.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "engine/deal.h"

namespace sab {

/// As Piece, before the groups are known.
struct MixtureLocator::Part {
    std::size_t bucket;  ///< or `no_group`
    uint64_t source;
    uint64_t begin, count;
};

namespace {

__extension__ using Wide = unsigned __int128;

/// floor(a * b / c), where it has 64 bits.
uint64_t scaled(uint64_t a, uint64_t b, uint64_t c) {
    return static_cast<uint64_t>(Wide{a} * b / c);
}

sab_sampler_options checked(const sab_sampler_options& options, const CountedTurns& turns) {
    check(options.epoch == turns.epoch, "options.epoch", options.epoch,
          "must be the epoch of the plan, ", turns.epoch);
    if (options.steady != 0)
        fail(SAB_E_UNSUPPORTED, "sab_plan_locate: options.steady = ", options.steady,
             ": must be 0 for a plan of a mixture");
    return options;
}

}  // namespace

MixtureLocator::MixtureLocator(std::shared_ptr<const Plan> plan,
                               std::shared_ptr<const CountedTurns> turns,
                               const sab_sampler_options& options)
    : BucketLocator(std::move(plan), checked(options, *turns), options.costliest_first == 0),
      turns_(std::move(turns)) {
    for (const BucketOrder& bucket : buckets_)
        strides_.push_back(
            {even_stride(bucket.batch_size), even_stride(bucket.samples() % bucket.batch_size)});
    uint64_t all = 0;
    for (const EntryTurns& entry : turns_->entries) {
        first_entries_.resize(entry.source + 1, first_turns_.size());
        first_turns_.push_back(std::exchange(all, all + entry.turns));
    }
    first_entries_.push_back(first_turns_.size());
    std::vector<Part> sorted = parts();
    std::ranges::sort(sorted, {}, [](const Part& part) {
        return std::array{uint64_t{part.bucket}, part.source, part.begin};
    });
    std::vector<std::pair<uint64_t, Piece>> pieces;
    const Part* last = nullptr;
    for (const Part& part : sorted) {
        if (part.bucket == no_group) {
            pieces.push_back({part.begin, {no_group, 0}});
            continue;
        }
        const bool is_same_bucket = last != nullptr && last->bucket == part.bucket;
        if (!is_same_bucket || last->source != part.source)
            groups_.push_back({part.bucket,
                               is_same_bucket ? groups_.back().first + groups_.back().count : 0, 0,
                               mix(order_.samples_key(part.bucket) ^ part.source)});
        Group& group = groups_.back();
        // the turns before may go on
        if (group.count == 0 || last->begin + last->count != part.begin)
            pieces.push_back({part.begin, {groups_.size() - 1, group.count}});
        group.count += part.count;
        last = &part;
    }
    std::ranges::sort(pieces, {}, &std::pair<uint64_t, Piece>::first);
    for (const auto& [begin, piece] : pieces) {
        piece_begins_.push_back(begin);
        pieces_.push_back(piece);
    }
}

void check_sources(const sab_plan& plan, const uint32_t* sources, std::size_t count) {
    if (plan.turns && count > 0) require(sources, "sources");
    if (!plan.turns && sources != nullptr)
        fail(SAB_E_ARGUMENT, "sources: must be NULL: the plan is of no epoch of a mixture");
}

/// The plan orders the turns by size, and those of the same size by source.
std::vector<MixtureLocator::Part> MixtureLocator::parts() const {
    std::vector<std::size_t> by_size(turns_->entries.size());
    std::iota(by_size.begin(), by_size.end(), std::size_t{0});
    std::ranges::sort(by_size, [this](std::size_t entry, std::size_t other) {
        return turns_->is_smaller(entry, other) ||
               (entry < other && !turns_->is_smaller(other, entry));
    });
    std::vector<Part> parts;
    const std::span<const uint64_t> runs = plan_->run_places(),
                                    first_places = plan_->first_places();
    uint64_t place = 0;  // by size
    std::size_t run = 0;
    for (const std::size_t k : by_size) {
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
                bucket = no_group;
            } else if (at < buckets_[bucket].end) {
                count = std::min(count, buckets_[bucket].end - at);
            } else {  // buckets have no gaps, so all that follow are in none
                bucket = no_group;
            }
            parts.push_back({bucket, turns_->entries[k].source, begin, count});
            begin += count;
            place += count;
            left -= count;
        }
    }
    return parts;
}

Locator::Found MixtureLocator::find(uint64_t source, const double* sizes, uint64_t number) const {
    if (source + 1 >= first_entries_.size()) return {0};
    const std::size_t columns = turns_->columns, first = first_entries_[source],
                      count = first_entries_[source + 1] - first;
    const double* const known = turns_->sizes.data() + first * columns;
    std::size_t at = 0;
    for (std::size_t left = count; left > 1;) {
        const std::size_t half = left / 2;
        const double* const own = known + (at + half) * columns;
        const bool is_after =
            columns == 1 ? *sizes < *own
                         : std::lexicographical_compare(sizes, sizes + columns, own, own + columns);
        at += is_after ? 0 : half;
        left -= half;
    }
    if (count == 0 || !std::equal(sizes, sizes + columns, known + at * columns)) return {0};
    const std::size_t k = first + at;
    const EntryTurns& entry = turns_->entries[k];
    const uint64_t turns = entry.turns / entry.samples, extra = entry.turns % entry.samples,
                   place_once = first_turns_[k] + number;
    Found found{entry.samples, place_once, place_once + (turns - 1) * entry.samples, turns,
                entry.samples};
    if (extra == 0 || number >= entry.samples) return found;
    const uint64_t place = Permutation(entry.samples, mix(mix(turns_->seed) ^ k))(number),
                   after =
                       place - entry.start + (place < entry.start ? entry.samples : uint64_t{0});
    if (after < extra) {
        ++found.turns;
        found.last = first_turns_[k] + turns * entry.samples + after;
    }
    return found;
}

/// Each row of a deal has one turn of each full batch, in their order. The rest of the bucket,
/// which is its last batch or is left out, takes part in some of the rows, at even distances. The
/// rows are at even distances in a batch, so that parts of it have their shares, too.
uint64_t MixtureLocator::dealt(const BucketOrder& bucket, uint64_t number) const {
    const uint64_t samples = bucket.samples(), rows = bucket.batch_size, full = samples / rows,
                   rest = samples % rows,
                   row = static_cast<uint64_t>((Wide{number + 1} * rows - 1) / samples),
                   batch = number - scaled(row, samples, rows);
    const Strides& strides = strides_[&bucket - buckets_.data()];
    if (batch < full) return batch * rows + row * strides.full % rows;
    return full * rows + scaled(row, rest, rows) * strides.rest % rest;
}

void MixtureLocator::find_batches(std::span<const uint64_t> places, Appearances* found) const {
    const Group* groups[block];
    Permutation own[block];
    const Permutation* permutations[block];
    uint64_t offsets[block];
    std::size_t found_pieces[block];
    last_at_most(piece_begins_, places, found_pieces);
    for (std::size_t i = 0; i < places.size(); ++i) __builtin_prefetch(&pieces_[found_pieces[i]]);
    for (std::size_t i = 0; i < places.size(); ++i) {
        const std::size_t at = found_pieces[i];
        const Piece& piece = pieces_[at];
        groups[i] = piece.group == no_group ? nullptr : &groups_[piece.group];
        offsets[i] = 0;
        permutations[i] = &own[i];
        if (groups[i] == nullptr) continue;
        offsets[i] = piece.offset + (places[i] - piece_begins_[at]);
        own[i] = Permutation(groups[i]->count, groups[i]->key);
    }
    Permutation::invert({permutations, places.size()}, {offsets, places.size()});
    for (std::size_t i = 0; i < places.size(); ++i) {
        found[i].count = 0;
        if (groups[i] == nullptr) continue;
        const BucketOrder& bucket = buckets_[groups[i]->bucket];
        BucketLocator::find_batches(bucket, dealt(bucket, groups[i]->first + offsets[i]), found[i]);
    }
}

}  // namespace sab
