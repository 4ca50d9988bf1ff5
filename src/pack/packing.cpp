#include "pack/packing.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <map>
#include <optional>

#include "base/hasher.h"
#include "base/log.h"
#include "cost/cost.h"
#include "sampler/permutation.h"

namespace sab {
namespace {

constexpr uint64_t largest_window = uint64_t{1} << 20;
constexpr uint64_t default_window = 256;
constexpr uint64_t largest_tries = uint64_t{1} << 20;
constexpr uint32_t unlimited = 0xFFFFFFFFu;

/// What a size gives: so many bins that it fills alone, and one sequence that is packed.
struct Pieces {
    uint64_t full = 0;
    uint32_t rest = 0;
    bool has_rest = false;
};

Pieces pieces_of(double size, uint32_t capacity) {
    const auto tokens = static_cast<uint64_t>(size);
    if (tokens <= capacity) return {0, static_cast<uint32_t>(tokens), true};
    return {tokens / capacity, static_cast<uint32_t>(tokens % capacity), tokens % capacity > 0};
}

/// Collects bin patterns and assigns the sequences of each length to them.
class Collector {
public:
    explicit Collector(Packing& packing) : packing_(packing), next_(packing.lengths.size()) {}

    void begin(uint64_t bins) {
        packing_.patterns.push_back({packing_.parts.size(), bins, 0, 0, 0});
    }
    void add(uint32_t length, uint32_t count) {
        BinPattern& pattern = packing_.patterns.back();
        packing_.parts.push_back({length, count, next_[length]});
        next_[length] += pattern.bins * count;
        const uint32_t tokens = packing_.lengths[length].length;
        pattern.sequences += count;
        pattern.total += count * tokens;
    }

private:
    Packing& packing_;
    std::vector<uint64_t> next_;  ///< sequence of each length that is in no bin yet
};

/// Packs from the longest length down. Bins with the same contents are a bin set, and the sequences
/// of a length are placed into whole bin sets, so that time and memory depend on the number of
/// distinct lengths. The result is that of placing the sequences one by one: a bin that took a
/// sequence is also the best one for the next sequence of that length as long as it has room.
class BinSetPacker {
public:
    /// `ahead`: bins opened before the first sequence, at most as many as there must be.
    BinSetPacker(const Packing& packing, const sab_packed_options& options, uint64_t ahead,
                 const Progress& progress)
        : packing_(packing),
          is_best_fit_(options.method == SAB_PACK_BEST_FIT),
          most_(most_sequences(options)),
          shortest_(packing.lengths.back().length) {
        if (ahead > 0)
            open_.emplace(key(packing.capacity, 0), BinSet{ahead, packing.capacity, 0, none});
        for (uint32_t i = 0; i < packing_.lengths.size(); ++i) {
            if (i % 1024 == 0) progress.report(i, packing_.lengths.size());
            place(i);
        }
        for (const auto& [key, set] : open_)
            if (set.sequences > 0) full_.push_back(set);
    }

    uint64_t bins() const {
        uint64_t bins = 0;
        for (const BinSet& set : full_) bins += set.bins;
        return bins;
    }

    void write(Packing& packing) const {
        Collector collector(packing);
        std::vector<uint32_t> chain;
        for (const BinSet& set : full_) {
            chain.clear();
            for (uint32_t step = set.last; step != none; step = steps_[step].before)
                chain.push_back(step);
            collector.begin(set.bins);
            for (std::size_t i = chain.size(); i-- > 0;)
                collector.add(steps_[chain[i]].length, steps_[chain[i]].count);
        }
    }

private:
    static constexpr uint32_t none = 0xFFFFFFFFu;

    /// The contents of bins as a linked list: `count` sequences of a length, after those of the
    /// step `before`. Bin sets that were divided share the beginning of their list.
    struct Step {
        uint32_t before;
        uint32_t length;
        uint32_t count;
    };
    struct BinSet {
        uint64_t bins;
        uint32_t room;
        uint32_t sequences;
        uint32_t last;  ///< number of the last step
    };
    using Open = std::multimap<uint64_t, BinSet>;

    /// Fullest first, and among those equally full that with the most sequences.
    static uint64_t key(uint32_t room, uint32_t sequences) {
        return uint64_t{room} << 32 | (none - sequences);
    }

    void place(uint32_t which) {
        const uint32_t length = packing_.lengths[which].length;
        uint64_t left = packing_.lengths[which].count;
        const BinSet fresh{~uint64_t{0}, packing_.capacity, 0, none};
        while (left > 0) {
            auto found = is_best_fit_ || open_.empty() ? open_.lower_bound(key(length, none))
                                                       : std::prev(open_.end());
            if (found != open_.end() && found->second.room < length) found = open_.end();
            const BinSet set = found == open_.end() ? fresh : found->second;
            const uint32_t fits = length == 0 ? most_ - set.sequences
                                              : std::min(most_ - set.sequences, set.room / length);
            const uint32_t each = is_best_fit_ || found == open_.end()
                                      ? static_cast<uint32_t>(std::min<uint64_t>(fits, left))
                                      : evenly(found, length, fits, left);
            const uint64_t bins = std::min(set.bins, left / each);
            if (found != open_.end()) {
                found->second.bins -= bins;
                if (found->second.bins == 0) open_.erase(found);
            }
            put(set, bins, which, each);
            left -= bins * each;
        }
    }

    /// How many sequences each bin of the emptiest bin set takes until another set is emptier.
    uint32_t evenly(Open::iterator emptiest, uint32_t length, uint32_t fits, uint64_t left) const {
        const BinSet& set = emptiest->second;
        const bool is_alone = emptiest == open_.begin();
        const uint32_t ahead = is_alone ? unlimited : set.room - std::prev(emptiest)->second.room;
        const uint32_t turns = length > 0 ? ahead / length : ahead > 0 ? unlimited : 1;
        return static_cast<uint32_t>(
            std::clamp(std::min<uint64_t>(turns, left / set.bins), uint64_t{1}, uint64_t{fits}));
    }

    void put(const BinSet& set, uint64_t bins, uint32_t which, uint32_t each) {
        Step step{set.last, which, each};
        if (set.last != none && steps_[set.last].length == which)
            step = {steps_[set.last].before, which, steps_[set.last].count + each};
        const BinSet next{bins, set.room - each * packing_.lengths[which].length,
                          set.sequences + each, static_cast<uint32_t>(steps_.size())};
        steps_.push_back(step);
        if (next.room < shortest_ || next.sequences == most_)
            full_.push_back(next);
        else
            open_.emplace(key(next.room, next.sequences), next);
    }

    const Packing& packing_;
    bool is_best_fit_;
    uint32_t most_;
    uint32_t shortest_;
    Open open_;
    std::vector<BinSet> full_;  ///< sets that take no more; at the end all sets
    std::vector<Step> steps_;
};

void pack_from_the_longest(Packing& packing, const sab_packed_options& options,
                           const Progress& progress) {
    const BinSetPacker packer(packing, options, 0, progress);
    // Bins that open as they are needed get long sequences or short ones, and a limit on their
    // number leaves those with short ones empty. Where the bins are there from the beginning each
    // gets some of both.
    if (options.method == SAB_PACK_HISTOGRAM && options.max_sequences > 0) {
        const BinSetPacker other(packing, options, packing.info.lower_bound, progress);
        if (other.bins() < packer.bins()) return other.write(packing);
    }
    packer.write(packing);
}

/// Packs as the sequences come, into the oldest of the open bins that has room.
class WindowPacker {
public:
    WindowPacker(Packing& packing, const sab_packed_options& options)
        : packing_(packing),
          collector_(packing),
          most_(most_sequences(options)),
          window_(static_cast<uint32_t>(options.window > 0 ? options.window : default_window)),
          slots_(std::bit_ceil(2 * window_)),
          tree_(2 * std::size_t{slots_}),
          bins_(slots_) {}

    /// A pattern of `count` bins with one sequence each.
    void alone(uint32_t which, uint64_t count) {
        collector_.begin(count);
        collector_.add(which, 1);
    }

    void add(uint32_t which) {
        const uint32_t length = packing_.lengths[which].length;
        const uint32_t slot = tree_[1] > length ? first_with(length) : open();
        std::vector<uint32_t>& bin = bins_[slot];
        bin.push_back(which);
        const uint32_t room = tree_[slots_ + slot] - 1 - length;
        if (room == 0 || bin.size() == most_)
            close(slot);
        else
            set(slot, room + 1);
    }

    void finish() {
        while (live_ > 0) close(first_with(0));
    }

private:
    // Leaves are slots in the order of age, nodes the largest of their leaves: room left plus one;
    // 0 for a slot without a bin.

    uint32_t first_with(uint32_t room) const {
        uint32_t node = 1;
        while (node < slots_) node = 2 * node + (tree_[std::size_t{2} * node] <= room);
        return node - slots_;
    }

    void set(uint32_t slot, uint32_t value) {
        uint32_t node = slots_ + slot;
        tree_[node] = value;
        while (node > 1) {
            value = std::max(value, tree_[node ^ 1]);
            node /= 2;
            tree_[node] = value;
        }
    }

    uint32_t open() {
        if (live_ == window_) close(first_with(0));
        if (end_ == slots_) move_up();
        ++live_;
        set(end_, packing_.capacity + 1);
        return end_++;
    }

    /// Closes the gaps that bins left.
    void move_up() {
        end_ = 0;
        for (uint32_t slot = 0; slot < slots_; ++slot) {
            const uint32_t value = tree_[slots_ + slot];
            if (value == 0 || slot == end_++) continue;
            bins_[slot].swap(bins_[end_ - 1]);
            set(slot, 0);
            set(end_ - 1, value);
        }
    }

    void close(uint32_t slot) {
        std::vector<uint32_t>& bin = bins_[slot];
        std::ranges::sort(bin);
        collector_.begin(1);
        for (std::size_t i = 0, end = 0; i < bin.size(); i = end) {
            while (end < bin.size() && bin[end] == bin[i]) ++end;
            collector_.add(bin[i], static_cast<uint32_t>(end - i));
        }
        bin.clear();
        set(slot, 0);
        --live_;
    }

    Packing& packing_;
    Collector collector_;
    uint32_t most_;
    uint32_t window_;
    uint32_t slots_;
    std::vector<uint32_t> tree_;
    std::vector<std::vector<uint32_t>> bins_;  ///< lengths in each slot's bin
    uint32_t end_ = 0;                         ///< slots used
    uint32_t live_ = 0;
};

void pack_as_they_come(Packing& packing, const SizeCounts& counts,
                       const sab_packed_options& options, const Progress& progress) {
    const auto index_of = [&](uint32_t length) {
        return static_cast<uint32_t>(std::ranges::lower_bound(packing.lengths, length,
                                                              std::ranges::greater{},
                                                              &Length::length) -
                                     packing.lengths.begin());
    };
    packing.parts.reserve(counts.count);  // room that is not used is not touched
    WindowPacker packer(packing, options);
    // Sequences that fill a bin alone are one pattern.
    if (packing.lengths[0].length == packing.capacity) packer.alone(0, packing.lengths[0].count);
    std::vector<uint32_t> rest(counts.count, unlimited);  // by sample: which length is packed of it
    for (std::size_t distinct = 0, offset = 0; offset < counts.count - packing.info.skipped;
         ++distinct) {
        const Pieces pieces_here = pieces_of(counts.distinct_sizes[distinct], packing.capacity);
        const uint32_t which = pieces_here.has_rest && pieces_here.rest < packing.capacity
                                   ? index_of(pieces_here.rest)
                                   : unlimited;
        for (; offset < counts.first_places[distinct + 1]; ++offset)
            rest[counts.order[offset]] = which;
    }
    progress.blocks(counts.count, 0, counts.count, [&](std::size_t first, std::size_t last) {
        for (std::size_t i = first; i < last; ++i)
            if (rest[i] != unlimited) packer.add(rest[i]);
    });
    packer.finish();
}

/// The lengths and where their sequences come from, and what the sizes are refused for.
void split(Packing& packing, const SizeCounts& counts, const sab_packed_options& options) {
    struct Source {
        uint32_t length;
        uint64_t count;
        Segment segment;
    };
    std::vector<Source> sources;
    sab_packed_info& info = packing.info;
    info.samples = counts.count;
    const uint64_t most =
        counts.order != nullptr ? largest_sample_count : Permutation::largest_count;
    for (std::size_t distinct = 0; distinct < counts.distinct_sizes.size(); ++distinct) {
        const uint64_t offset = counts.first_places[distinct],
                       samples = counts.first_places[distinct + 1] - offset;
        const double size = counts.distinct_sizes[distinct];
        if (size != std::floor(size))
            refuse_argument(named_size(counts, offset),
                            "must be a whole number, since cumulative lengths are");
        if (size > packing.capacity && !packing.splits) {
            info.skipped = counts.count - offset;
            if (options.oversize == SAB_OVERSIZE_ERROR)
                refuse_argument(
                    named_size(counts, first_sample(counts, offset, counts.count)),
                    "must be at most the capacity, ", packing.capacity, "; ", info.skipped, " of ",
                    counts.count,
                    " samples are longer. Set pack.oversize to SAB_OVERSIZE_SKIP (1) or "
                    "pack.split to 1, or use a larger capacity");
            break;
        }
        const Pieces pieces_here = pieces_of(size, packing.capacity);
        const uint64_t pieces = pieces_here.full + (pieces_here.has_rest ? 1 : 0);
        if (pieces > (most - info.sequences) / samples)
            refuse_argument("sizes", no_value, "split into pieces of ", packing.capacity,
                            " they are more than ", most);
        info.sequences += pieces * samples;
        info.split += pieces_here.full > 0 ? samples : 0;
        info.total += size * static_cast<double>(samples);
        if (pieces_here.full > 0)
            sources.push_back(
                {packing.capacity, pieces_here.full * samples, {0, offset, pieces_here.full, 0}});
        if (pieces_here.has_rest)
            sources.push_back(
                {pieces_here.rest, samples, {0, offset, 1, pieces_here.full * packing.capacity}});
    }
    if (sources.empty())
        refuse_argument("sizes", no_value, "no sample is left: all ", counts.count,
                        " are longer than the capacity, ", packing.capacity);
    // the lower bound counts tokens, and the room of as many bins as there are long sequences
    check(info.total <= 0x1p62, "sizes", no_value, "their sum is ", info.total,
          ": must be at most 2^62");
    std::ranges::stable_sort(sources, std::ranges::greater{}, &Source::length);
    for (Source& source : sources) {
        const auto at = static_cast<uint32_t>(packing.segments.size());
        if (packing.lengths.empty() || packing.lengths.back().length != source.length)
            packing.lengths.push_back({0, source.length, at, at});
        Length& length = packing.lengths.back();
        length.count += source.count;
        length.segment_end = at + 1;
        source.segment.end = length.count;
        packing.segments.push_back(source.segment);
    }
}

/// No packing has fewer bins. L2 of Martello and Toth (1990): for any k of at most half a bin,
/// sequences longer than a bin less k stand alone; those longer than half a bin have a bin each,
/// too; and those of at least k go into the room that the latter leave, or into more bins.
uint64_t lower_bound(const Packing& packing, uint32_t most) {
    const int64_t capacity = packing.capacity;
    const std::vector<Length>& lengths = packing.lengths;
    std::vector<int64_t> sequences{0}, tokens{0};  // of the lengths before each
    for (const Length& each : lengths) {
        const auto count = static_cast<int64_t>(each.count);
        sequences.push_back(sequences.back() + count);
        tokens.push_back(tokens.back() + count * each.length);
    }
    const auto first_at_most = [&](int64_t length) {
        return static_cast<std::size_t>(
            std::ranges::lower_bound(lengths, length, std::ranges::greater{},
                                     [](const Length& each) { return int64_t{each.length}; }) -
            lengths.begin());
    };
    const std::size_t half = first_at_most(capacity / 2);
    int64_t bins = std::max<int64_t>(1, (sequences.back() + most - 1) / most);
    for (std::size_t i = half; i <= lengths.size(); ++i) {
        // k is the length before i; at first none that is to go into the room.
        const std::size_t alone = i > half ? first_at_most(capacity - lengths[i - 1].length) : 0;
        const int64_t room =
            (sequences[half] - sequences[alone]) * capacity - (tokens[half] - tokens[alone]);
        const int64_t over = std::max<int64_t>(0, tokens[i] - tokens[half] - room);
        bins = std::max(bins, sequences[half] + (over + capacity - 1) / capacity);
    }
    return static_cast<uint64_t>(bins);
}

/// What a sequence of each length adds to the cost of its bin.
std::vector<double> costs_of_lengths(const Packing& packing, const std::optional<Cost>& balance) {
    const Cost squares({{1, 1, {2}, 0}}, false);
    std::vector<double> costs;
    costs.reserve(packing.lengths.size());
    for (const Length& length : packing.lengths) {
        const double tokens = length.length;
        costs.push_back((balance ? *balance : squares).in_row({&tokens, 1}, "pack.balance[0]"));
    }
    return costs;
}

void sort_by_cost(Packing& packing, std::span<const double> costs) {
    double sum = 0;
    for (std::size_t i = 0; i < packing.patterns.size(); ++i) {
        const std::size_t end = i + 1 < packing.patterns.size() ? packing.patterns[i + 1].part_begin
                                                                : packing.parts.size();
        for (std::size_t part = packing.patterns[i].part_begin; part < end; ++part)
            packing.patterns[i].cost +=
                packing.parts[part].count * costs[packing.parts[part].length];
        sum += static_cast<double>(packing.patterns[i].bins) * packing.patterns[i].cost;
    }
    if (!std::isfinite(sum))
        refuse_argument("pack.balance[0]", no_value, "costs must have a finite sum");
    std::ranges::stable_sort(packing.patterns, std::ranges::greater{}, &BinPattern::cost);
}

/// `costs`: of lengths, if the caller has given them.
uint64_t fingerprint_of(const Packing& packing, const SizeCounts& counts,
                        const sab_packed_options& options, std::span<const double> costs) {
    const uint64_t rules[] = {static_cast<uint64_t>(options.method),
                              options.capacities[0],
                              options.max_sequences,
                              static_cast<uint64_t>(options.split),
                              options.method != SAB_PACK_FIRST_FIT ? 0
                              : options.window > 0                 ? options.window
                                                                   : default_window,
                              packing.info.skipped};
    Hasher hash;
    hash.add(rules);
    if (counts.order != nullptr) {
        hash.add_bytes(counts.order, counts.count * sizeof(uint32_t));
        hash.add_all(std::vector<uint32_t>(counts.first_places.begin(), counts.first_places.end()));
    } else {
        hash.add_all(counts.first_places);
    }
    hash.add_all(counts.distinct_sizes);
    hash.add_all(costs);
    return hash.digest();
}

}  // namespace

void check_pack_options(const sab_packed_options& options, std::span<const std::string> names) {
    check(options.method >= SAB_PACK_BEST_FIT && options.method <= SAB_PACK_CONCAT, "pack.method",
          options.method, "must be one of SAB_PACK_BEST_FIT (0) to SAB_PACK_CONCAT (3)");
    const std::size_t columns = names.size();
    check(options.capacity_count == columns, "pack.capacity_count", options.capacity_count,
          "must be ", columns, ", one capacity for each column of the sizes");
    require(options.capacities, "pack.capacities");
    for (std::size_t j = 0; j < columns; ++j)
        if (options.capacities[j] < 1 || options.capacities[j] > largest_capacity)
            refuse_argument(
                named("pack.capacities[", j, "]"), options.capacities[j],
                "must be from 1 to 2^31 - 1",
                columns > 1 && !names[j].empty() ? text(", for column \"", names[j], "\"") : "");
    check(options.split == 0 || options.split == 1, "pack.split", options.split, "must be 0 or 1");
    check(options.oversize == SAB_OVERSIZE_SKIP || options.oversize == SAB_OVERSIZE_ERROR,
          "pack.oversize", options.oversize,
          "must be SAB_OVERSIZE_ERROR (0) or SAB_OVERSIZE_SKIP (1): no bin holds a sample longer "
          "than the capacity");
    check(options.window <= largest_window, "pack.window", options.window, "must be at most ",
          largest_window);
    check(options.window == 0 || columns > 1 || options.method == SAB_PACK_FIRST_FIT, "pack.window",
          options.window, "goes with SAB_PACK_FIRST_FIT (2) and sizes of several columns only");
    check(options.tries <= largest_tries, "pack.tries", options.tries, "must be at most ",
          largest_tries);
    check(options.tries == 0 || columns > 1, "pack.tries", options.tries,
          "goes with sizes of several columns only");
}

Packing pack(const SizeCounts& counts, std::span<const std::string> names,
             const sab_packed_options& options) {
    const std::optional<Cost> balance =
        read_balance(options.balance, options.balance_count, names, "pack.balance");
    const Progress progress(options.progress, options.progress_ctx);
    Packing packing;
    packing.capacity = static_cast<uint32_t>(options.capacities[0]);
    packing.splits = options.split == 1;
    split(packing, counts, options);

    sab_packed_info& info = packing.info;
    info.lower_bound = lower_bound(packing, most_sequences(options));
    if (options.method == SAB_PACK_FIRST_FIT)
        pack_as_they_come(packing, counts, options, progress);
    else
        pack_from_the_longest(packing, options, progress);
    const std::vector<double> costs = costs_of_lengths(packing, balance);
    sort_by_cost(packing, costs);

    for (const BinPattern& pattern : packing.patterns) {
        info.bins += pattern.bins;
        info.most_sequences = std::max<uint64_t>(info.most_sequences, pattern.sequences);
    }
    info.fill = info.total / (static_cast<double>(info.bins) * packing.capacity);
    info.fingerprint = fingerprint_of(packing, counts, options,
                                      balance ? std::span(costs) : std::span<const double>());
    if (info.skipped > 0)
        log(SAB_LOG_WARNING, "skipped ", info.skipped, " of ", info.samples,
            " samples: longer than the capacity, ", packing.capacity);
    progress.report(counts.count, counts.count);
    return packing;
}

Packing pack(const Columns& columns, const sab_packed_options& options) {
    const Sizes& sizes = columns.only();
    check(sizes.count() > 0, "sizes.count", sizes.count(), "must be at least 1");
    Sorted sorted = sort_by_size(sizes, true, Progress(options.progress, options.progress_ctx));
    Packing packing = pack(SizeCounts(sorted), columns.names(), options);
    packing.order = std::move(sorted.order);
    packing.skipped = {packing.order.get() + sorted.count - packing.info.skipped,
                       static_cast<std::size_t>(packing.info.skipped)};
    return packing;
}

}  // namespace sab
