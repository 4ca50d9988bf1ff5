#include "pack/packing.h"

#include <algorithm>
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
constexpr uint64_t largest_tries = uint64_t{1} << 20;
constexpr uint32_t unlimited = 0xFFFFFFFFu;

/// What a size gives: so many bins that it fills alone, and one sequence that is packed.
struct Pieces {
    uint64_t full = 0;
    uint32_t rest = 0;
    bool has_rest = false;
};

/// The capacity is a multiple of what the rest is rounded up to.
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

/// The lengths and where their sequences come from, and what the sizes are refused for.
void split(Packing& packing, const SizeCounts& counts, const sab_packed_options& options) {
    struct Source {
        uint32_t length;  ///< rounded up
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
        const auto rest = static_cast<uint32_t>(packing.multiples.length(pieces_here.rest, 0));
        info.total += size * static_cast<double>(samples);
        packing.laid_total += (size + (rest - pieces_here.rest)) * static_cast<double>(samples);
        if (pieces_here.full > 0)
            sources.push_back({packing.capacity,
                               pieces_here.full * samples,
                               {0, offset, pieces_here.full, 0, packing.capacity}});
        if (pieces_here.has_rest)
            sources.push_back(
                {rest,
                 samples,
                 {0, offset, 1, pieces_here.full * packing.capacity, pieces_here.rest}});
    }
    if (sources.empty())
        refuse_argument("sizes", no_value, "no sample is left: all ", counts.count,
                        " are longer than the capacity, ", packing.capacity);
    // the lower bound counts tokens, and the room of as many bins as there are long sequences
    check(packing.laid_total <= 0x1p62, "sizes", no_value, "their sum is ", packing.laid_total,
          std::string_view(packing.multiples.hint()), ": must be at most 2^62");
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

void check_multiples(const sab_packed_options& options, std::string_view name, std::size_t count,
                     const PerColumn& multiples) {
    for (std::size_t j = 0; j < options.capacity_count; ++j) {
        const double multiple = multiples[j];
        const std::string own = text(name, "[", count > 1 ? j : 0, "]");
        check(multiple == std::floor(multiple), own, multiple, "must be a whole number");
        if (multiple > 0 && std::fmod(static_cast<double>(options.capacities[j]), multiple) != 0)
            refuse_argument(named("pack.capacities[", j, "]"), options.capacities[j],
                            "must be a multiple of ", own, " = ", multiple);
    }
}

}  // namespace

Multiples multiples_of(const sab_packed_options& options) {
    const std::size_t columns = options.capacity_count;
    return {read_multiples(options.length_multiples, options.length_multiple_count, columns,
                           "pack.length_multiple"),
            read_multiples(options.row_multiples, options.row_multiple_count, columns,
                           "pack.row_multiple")};
}

void check_pack_options(const sab_packed_options& options, std::span<const std::string> names) {
    check(options.method >= SAB_PACK_SHUFFLED && options.method <= SAB_PACK_CONCAT, "pack.method",
          options.method, "must be one of SAB_PACK_SHUFFLED (0) to SAB_PACK_CONCAT (3)");
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
    const Multiples multiples = multiples_of(options);
    check_multiples(options, "pack.length_multiples", options.length_multiple_count,
                    multiples.lengths);
    check_multiples(options, "pack.row_multiples", options.row_multiple_count, multiples.rows);
    check(options.split == 0 || options.split == 1, "pack.split", options.split, "must be 0 or 1");
    check(options.oversize == SAB_OVERSIZE_SKIP || options.oversize == SAB_OVERSIZE_ERROR,
          "pack.oversize", options.oversize,
          "must be SAB_OVERSIZE_ERROR (0) or SAB_OVERSIZE_SKIP (1): no bin holds a sample longer "
          "than the capacity");
    check(options.window <= largest_window, "pack.window", options.window, "must be at most ",
          largest_window);
    check(options.tries <= largest_tries, "pack.tries", options.tries, "must be at most ",
          largest_tries);
    if (options.method == SAB_PACK_SHUFFLED) return;
    constexpr const char* alone = "must be 0 except with SAB_PACK_SHUFFLED (0)";
    check(options.window == 0, "pack.window", options.window, alone);
    check(options.tries == 0, "pack.tries", options.tries, alone);
}

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

uint64_t fingerprint_of(const Packing& packing, const SizeCounts& counts,
                        const sab_packed_options& options, std::span<const double> costs) {
    const uint64_t rules[] = {static_cast<uint64_t>(options.method),
                              options.capacities[0],
                              options.max_sequences,
                              static_cast<uint64_t>(options.split),
                              options.window,
                              options.tries,
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
    packing.multiples.add_to(hash);
    return hash.digest();
}

Packing lengths_of(const SizeCounts& counts, const sab_packed_options& options) {
    Packing packing;
    packing.capacity = static_cast<uint32_t>(options.capacities[0]);
    packing.multiples = multiples_of(options);
    packing.splits = options.split == 1;
    split(packing, counts, options);
    packing.info.lower_bound = lower_bound(packing, most_sequences(options));
    if (packing.info.skipped > 0)
        log(SAB_LOG_WARNING, "skipped ", packing.info.skipped, " of ", packing.info.samples,
            " samples: longer than the capacity, ", packing.capacity);
    return packing;
}

Packing best_fit(const std::vector<Length>& lengths, uint32_t capacity, uint32_t most) {
    sab_packed_options options = SAB_PACKED_OPTIONS_INIT;
    options.method = SAB_PACK_BEST_FIT;
    options.max_sequences = most;
    Packing packing;
    packing.capacity = capacity;
    packing.lengths = lengths;
    pack_from_the_longest(packing, options, Progress(nullptr, nullptr));
    for (const BinPattern& pattern : packing.patterns) packing.info.bins += pattern.bins;
    return packing;
}

Packing pack(const SizeCounts& counts, std::span<const std::string> names,
             const sab_packed_options& options) {
    const std::optional<Cost> balance =
        read_balance(options.balance, options.balance_count, names, "pack.balance");
    const Progress progress(options.progress, options.progress_ctx);
    Packing packing = lengths_of(counts, options);
    sab_packed_info& info = packing.info;
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
