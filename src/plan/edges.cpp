#include "plan/edges.h"

#include <algorithm>

#include "plan/least_cuts.h"

namespace sab {

Cutter::Cutter(const Sorted& sorted, uint32_t begin, uint32_t end,
               std::function<double(double)> padded, std::function<uint64_t(double)> capacity)
    : sorted_(sorted),
      begin_(begin),
      end_(end),
      padded_(std::move(padded)),
      capacity_(std::move(capacity)) {
    totals_.reserve(sorted.level_size.size() + 1);
    double sum = 0;
    for (std::size_t level = 0; level < sorted.level_size.size(); ++level) {
        totals_.push_back(sum);
        sum +=
            sorted.level_size[level] * (sorted.level_first[level + 1] - sorted.level_first[level]);
    }
    totals_.push_back(sum);
    capacities_.resize(sorted.level_size.size());
}

std::size_t Cutter::level_at(uint32_t place) const {
    return level_of(sorted_.level_first, place);
}

double Cutter::total_before(uint32_t place) const {
    if (place == sorted_.count) return totals_.back();
    const std::size_t level = level_at(place);
    return totals_[level] + sorted_.level_size[level] * (place - sorted_.level_first[level]);
}

/// level_at(), quick where the level is `hint` or a little below.
std::size_t Cutter::level_near(uint32_t place, std::size_t hint) const {
    const std::vector<uint32_t>& first = sorted_.level_first;
    if (first[hint + 1] <= place) return level_at(place);
    std::size_t low = hint, high = hint + 1;
    for (std::size_t step = 1; first[low] > place; step *= 2) {
        high = low;
        low -= std::min(step, low);
    }
    const auto at = [&](std::size_t level) {
        return first.begin() + static_cast<std::ptrdiff_t>(level);
    };
    return static_cast<std::size_t>(std::upper_bound(at(low), at(high), place) - first.begin()) - 1;
}

uint64_t Cutter::capacity_of(std::size_t level) {
    uint64_t& known = capacities_[level];
    if (known == 0) known = capacity_(sorted_.level_size[level]);
    return known;
}

Cut Cutter::cut(uint32_t begin, uint32_t end) {
    return {begin, end, end > begin ? capacity_at(end - 1) : 1};
}

std::vector<Cut> Cutter::by_boundaries(const std::vector<double>& boundaries) {
    const auto place_of = [&](double boundary) {
        const auto level =
            std::ranges::lower_bound(sorted_.level_size, boundary) - sorted_.level_size.begin();
        return std::clamp(sorted_.level_first[static_cast<std::size_t>(level)], begin_, end_);
    };
    std::vector<Cut> cuts;
    for (std::size_t i = 0; i + 1 < boundaries.size(); ++i)
        cuts.push_back(cut(place_of(boundaries[i]), place_of(boundaries[i + 1])));
    return cuts;
}

std::vector<uint32_t> Cutter::optimal_ends(std::size_t count, const Progress& progress) {
    // Candidate edges: where a distinct size begins, and the two ends.
    std::vector<uint32_t> edges{begin_};
    for (const uint32_t first : sorted_.level_first)
        if (first > begin_ && first < end_) edges.push_back(first);
    edges.push_back(end_);
    const std::size_t levels = edges.size() - 1;
    count = std::min(count, levels);
    std::vector<double> longest(levels);
    const std::vector<double> nothing(levels);
    for (std::size_t level = 0; level < levels; ++level)
        longest[level] = padded_at(edges[level + 1] - 1);

    std::vector<uint32_t> ends =
        least_cuts(all_ends(levels, count, false), Rows::divided, progress,
                   LinearCost{nothing.data(), longest.data(), edges.data()});
    for (uint32_t& end : ends) end = edges[end];
    return ends;
}

std::vector<Cut> Cutter::optimal(std::size_t count, const Progress& progress) {
    std::vector<Cut> cuts;
    uint32_t begin = begin_;
    for (const uint32_t end : optimal_ends(count, progress)) {
        cuts.push_back(cut(begin, end));
        begin = end;
    }
    return cuts;
}

std::vector<Cut> Cutter::by_rank(uint64_t batches) {
    std::vector<Cut> cuts;
    std::size_t level = sorted_.level_size.size() - 1;
    for (uint32_t end = end_; end > begin_;) {
        level = level_near(end - 1, level);
        const uint64_t size = capacity_of(level), fits = (end - begin_) / size;
        uint32_t begin =
            fits > 0 ? end - static_cast<uint32_t>(size * std::min(batches, fits)) : begin_;
        // What would be left for the shorter samples is too little for a run of its own.
        if (begin > begin_ &&
            (begin - begin_) / capacity_of(level_near(begin - 1, level)) < batches)
            begin = begin_;
        cuts.push_back({begin, end, size});
        end = begin;
    }
    std::ranges::reverse(cuts);
    return cuts;
}

Cutter::Waste Cutter::waste(const std::vector<Cut>& cuts) const {
    Waste sum;
    std::size_t level = sorted_.level_size.size() - 1;
    for (std::size_t i = cuts.size(); i-- > 0;) {
        const Cut& cut = cuts[i];
        if (cut.begin == cut.end) continue;
        level = level_near(cut.end - 1, level);
        sum.padded += padded_(sorted_.level_size[level]) * (cut.end - cut.begin);
        sum.batches += cut.batches();
    }
    if (!cuts.empty()) sum.padding = sum.padded - total(cuts.front().begin, cuts.back().end);
    return sum;
}

/// The fewest batches of a run whose longest sample is among the longest 1 %, where few samples
/// must not cost many batches.
static uint64_t fewest_of_longest(uint64_t fewest) {
    return std::max(std::min<uint64_t>(fewest, 4), fewest / 4);
}

std::vector<Cut> Cutter::by_fewest_batches(uint64_t fewest, std::vector<Cut> equal) {
    const Waste limit = waste(equal);
    const uint64_t places = end_ - begin_;
    // Numbers of batches are multiples of `step`: with many batches in a run, or few samples in a
    // batch, one batch more or less matters little. Bounds the time and the memory. little beside
    // sorting
    const uint64_t most_work =
        std::max<uint64_t>(1 << 14, std::min(places / 8, std::max<uint64_t>(1 << 17, places / 64)));
    uint64_t step = 1;
    while ((limit.batches / step) * (fewest / step) > most_work) step *= 2;
    if ((step > 1 && step >= fewest) || limit.batches < 2 * fewest) return equal;
    const auto rounded = [&](uint64_t batches) { return (batches + step - 1) / step * step; };
    const uint64_t few = rounded(fewest_of_longest(fewest)), many = rounded(fewest),
                   most = (limit.batches - few) / step * step;

    /// How to come to `left` shortest samples with a number of batches.
    struct Way {
        uint32_t left;
        uint32_t run;   ///< batches of the last run
        double padded;  ///< of all runs
    };
    const auto unreached = static_cast<uint32_t>(places + 1),
               longest = static_cast<uint32_t>(places - places / 100);
    std::vector<Way> ways(most / step + 1, {unreached, 0, 0});
    ways[0] = {unreached - 1, 0, 0};
    // Nearer to the end than this, a run may leave too few samples for another one, or be longer so
    // that it does not.
    const uint64_t near_end = many * capacity_at(begin_);
    const auto is_enough = [&](uint64_t left, std::size_t level_above) {
        const uint64_t size =
            capacity_of(level_near(static_cast<uint32_t>(begin_ + left - 1), level_above));
        return left / size >= (left > longest ? few : many);
    };
    uint64_t least = limit.batches, last = ways.size();
    double least_padded = limit.padded;
    std::size_t level = sorted_.level_size.size() - 1;
    for (uint64_t batches = 0; batches <= most; batches += step) {
        const Way way = ways[batches / step];
        if (way.left == unreached) continue;
        level = level_near(begin_ + way.left - 1, level);
        const uint64_t size = capacity_of(level), room = way.left / size,
                       first = way.left > longest ? few : many;
        const double padded_length = padded_(sorted_.level_size[level]);
        // All that are left may be the last run.
        const uint64_t all = batches + (way.left + size - 1) / size;
        const double all_padded = way.padded + padded_length * way.left;
        if (all < least || (all == least && all_padded < least_padded)) {
            least = all;
            least_padded = all_padded;
            last = batches / step;
        }
        const uint64_t longest_run = way.left < 2 * near_end ? 4 * many : first + many - 1,
                       end = std::min({longest_run, room, most - batches});
        for (uint64_t run = first; run <= end; run += step) {
            if (const uint64_t left = way.left - run * size;
                left < near_end && (left == 0 || !is_enough(left, level)))
                continue;
            const Way next{static_cast<uint32_t>(way.left - run * size), static_cast<uint32_t>(run),
                           way.padded + padded_length * static_cast<double>(run * size)};
            Way& known = ways[(batches + run) / step];
            if (next.left < known.left || (next.left == known.left && next.padded < known.padded))
                known = next;
        }
    }
    if (last == ways.size()) return equal;
    std::vector<Cut> cuts;
    for (uint32_t begin = begin_;; begin = cuts.back().end, last -= ways[last].run / step) {
        cuts.push_back(cut(begin, begin_ + ways[last].left));
        if (last == 0) return cuts;
    }
}

Cutter::Automatic Cutter::automatic(double target, uint64_t fewest, uint64_t most,
                                    const std::function<double(const std::vector<Cut>&)>& share_of,
                                    const Progress& progress) {
    uint64_t done = 0;
    const auto best_with = [&](uint64_t batches) {
        ++done;
        progress.report(done, done + 1);
        std::vector<Cut> equal = by_rank(batches);
        Automatic found{by_fewest_batches(batches, equal), batches, 0, 0};
        found.share = share_of(found.cuts);
        // fewer batches may pad more, where a cost is not in proportion to the length
        if (found.share > target)
            if (const double share = share_of(equal); share < found.share)
                found = {std::move(equal), batches, share, 0};
        return found;
    };
    std::vector<Automatic> tried{best_with(most)};
    double nearest = tried[0].share;
    while (tried.back().share > target && tried.back().fewest > fewest) {
        tried.push_back(best_with(std::max(fewest, tried.back().fewest / 2)));
        nearest = std::min(nearest, tried.back().share);
    }
    // by_fewest_batches() is not exact for many batches or few runs: what equal runs of these
    // lengths reach is promised.
    for (const uint64_t batches : {16, 8, 4}) {
        if (nearest <= target || batches <= fewest) break;
        std::vector<Cut> equal = by_rank(batches);
        if (const double share = share_of(equal); share < nearest)
            tried.push_back({std::move(equal), batches, nearest = share, 0});
    }
    // Out of reach, most of the waste may come from batches that no whole number of samples fills:
    // then smaller buckets would cost mates and save little.
    const double goal = nearest <= target ? target : fewest < most ? 1.25 * nearest : nearest;
    auto chosen =
        std::ranges::find_if(tried, [&](const Automatic& each) { return each.share <= goal; });
    uint64_t missed = chosen == tried.begin() ? 0 : std::prev(chosen)->fewest;
    Automatic best = std::move(*chosen);
    while (nearest <= target && missed == 0 && best.cuts.size() > 1) {
        Automatic larger = best_with(2 * best.fewest);
        if (larger.share <= target)
            best = std::move(larger);
        else
            missed = larger.fewest;
    }
    while (nearest <= target && missed > best.fewest + std::max<uint64_t>(1, best.fewest / 8)) {
        Automatic between = best_with(best.fewest + (missed - best.fewest) / 2);
        if (between.share <= target)
            best = std::move(between);
        else
            missed = between.fewest;
    }
    best.nearest = std::max(target, nearest);
    return best;
}

std::vector<Cut> Cutter::by_shapes(std::size_t count, const Progress& progress) {
    // Runs from the longest down, each of so many full batches; the shortest samples are the last
    // run and have the one tail.
    const auto lay_out = [&](const std::vector<uint64_t>& batches) {
        std::vector<Cut> cuts;
        uint32_t end = end_;
        for (const uint64_t wanted : batches) {
            if (end == begin_) break;
            const uint64_t size = capacity_at(end - 1);
            const uint64_t fits = std::min(wanted, (end - begin_) / size);
            if (fits == 0) continue;
            cuts.push_back({end - static_cast<uint32_t>(fits * size), end, size});
            end = cuts.back().begin;
        }
        if (end > begin_) cuts.push_back(cut(begin_, end));
        std::ranges::reverse(cuts);
        return cuts;
    };
    // At first a run holds its optimal interval, and of the next one what its last batch has room
    // for.
    const std::vector<uint32_t> ends = optimal_ends(count, progress);
    std::vector<uint64_t> batches;
    uint32_t end = end_;
    for (std::size_t b = ends.size(); b-- > 1 && end > begin_;) {
        const uint32_t begin = ends[b - 1];
        const uint64_t size = capacity_at(end - 1);
        batches.push_back(end > begin ? (end - begin + size - 1) / size : 0);
        end -= static_cast<uint32_t>(std::min<uint64_t>(batches.back() * size, end - begin_));
    }
    // Then batches move between neighbours while that pads less.
    std::vector<Cut> best = lay_out(batches);
    double least = waste(best).padded;
    for (bool improves = true; improves;) {
        improves = false;
        for (uint64_t& run : batches)
            for (const int64_t change : {-8, -4, -2, -1, 1, 2, 4, 8}) {
                const uint64_t before = run;
                if (change < 0 && before < static_cast<uint64_t>(-change)) continue;
                run = before + static_cast<uint64_t>(change);
                std::vector<Cut> cuts = lay_out(batches);
                if (const double padded = waste(cuts).padded; padded < least) {
                    least = padded;
                    best = std::move(cuts);
                    improves = true;
                } else {
                    run = before;
                }
            }
        progress.report(count, count);
    }
    return best;
}

}  // namespace sab
