#include "plan/boundaries.h"

#include <algorithm>

#include "base/rounding.h"
#include "plan/segmentation.h"
#include "plan/shared_runs.h"

namespace sab {

BoundaryFinder::BoundaryFinder(const SizeCounts& counts, uint64_t begin, uint64_t end,
                               std::function<double(double)> padded,
                               std::function<uint64_t(double)> batch_size_for)
    : counts_(counts),
      begin_(begin),
      end_(end),
      padded_(std::move(padded)),
      batch_size_for_(std::move(batch_size_for)) {
    totals_.reserve(counts.distinct_sizes.size() + 1);
    double sum = 0;
    for (std::size_t distinct = 0; distinct < counts.distinct_sizes.size(); ++distinct) {
        totals_.push_back(sum);
        sum +=
            counts.distinct_sizes[distinct] *
            static_cast<double>(counts.first_places[distinct + 1] - counts.first_places[distinct]);
    }
    totals_.push_back(sum);
    batch_sizes_.resize(counts.distinct_sizes.size());
}

double BoundaryFinder::total_before(uint64_t offset) const {
    if (offset == counts_.count) return totals_.back();
    const std::size_t distinct = distinct_at(offset);
    return totals_[distinct] + counts_.distinct_sizes[distinct] *
                                   static_cast<double>(offset - counts_.first_places[distinct]);
}

/// distinct_at(), faster if the result is `hint` or a little below.
std::size_t BoundaryFinder::distinct_near(uint64_t offset, std::size_t hint) const {
    const std::vector<uint64_t>& first = counts_.first_places;
    if (first[hint + 1] <= offset) return distinct_at(offset);
    std::size_t low = hint, high = hint + 1;
    for (std::size_t step = 1; first[low] > offset; step *= 2) {
        high = low;
        low -= std::min(step, low);
    }
    const auto at = [&](std::size_t distinct) {
        return first.begin() + static_cast<std::ptrdiff_t>(distinct);
    };
    return static_cast<std::size_t>(std::upper_bound(at(low), at(high), offset) - first.begin()) -
           1;
}

uint64_t BoundaryFinder::batch_size_of(std::size_t distinct) {
    uint64_t& known = batch_sizes_[distinct];
    if (known == 0) known = batch_size_for_(counts_.distinct_sizes[distinct]);
    return known;
}

BucketRange BoundaryFinder::range(uint64_t begin, uint64_t end) {
    return {begin, end, end > begin ? batch_size_at(end - 1) : 1};
}

std::vector<BucketRange> BoundaryFinder::by_boundaries(const std::vector<double>& boundaries) {
    const auto place_of = [&](double boundary) {
        const auto distinct = std::ranges::lower_bound(counts_.distinct_sizes, boundary) -
                              counts_.distinct_sizes.begin();
        return std::clamp(counts_.first_places[static_cast<std::size_t>(distinct)], begin_, end_);
    };
    std::vector<BucketRange> ranges;
    for (std::size_t i = 0; i + 1 < boundaries.size(); ++i)
        ranges.push_back(range(place_of(boundaries[i]), place_of(boundaries[i + 1])));
    return ranges;
}

std::vector<uint64_t> BoundaryFinder::optimal_ends(std::size_t count, const Progress& progress) {
    // Candidates: the place of each distinct size, and the two ends.
    std::vector<uint64_t> boundaries{begin_};
    for (const uint64_t first : counts_.first_places)
        if (first > begin_ && first < end_) boundaries.push_back(first);
    boundaries.push_back(end_);
    const std::size_t distinct_count = boundaries.size() - 1;
    count = std::min(count, distinct_count);
    std::vector<double> longest(distinct_count);
    const std::vector<double> nothing(distinct_count), places(boundaries.begin(), boundaries.end());
    for (std::size_t distinct = 0; distinct < distinct_count; ++distinct)
        longest[distinct] = padded_at(boundaries[distinct + 1] - 1);

    std::vector<uint64_t> ends;
    for (const uint32_t end :
         optimal_segments(all_ends(distinct_count, count, false), Rows::divided, progress,
                          LinearCost{nothing.data(), longest.data(), places.data()}))
        ends.push_back(boundaries[end]);
    return ends;
}

std::vector<BucketRange> BoundaryFinder::optimal(std::size_t count, const Progress& progress) {
    std::vector<BucketRange> ranges;
    uint64_t begin = begin_;
    for (const uint64_t end : optimal_ends(count, progress)) {
        ranges.push_back(range(begin, end));
        begin = end;
    }
    return ranges;
}

std::vector<BucketRange> BoundaryFinder::equal_buckets(uint64_t batches, bool join) {
    std::vector<BucketRange> ranges;
    std::size_t distinct = counts_.distinct_sizes.size() - 1;
    for (uint64_t end = end_; end > begin_;) {
        distinct = distinct_near(end - 1, distinct);
        const uint64_t size = batch_size_of(distinct), fits = (end - begin_) / size;
        uint64_t begin = fits > 0 ? end - size * std::min(batches, fits) : begin_;
        // The remaining shorter samples are too few for another bucket.
        if (join && begin > begin_ &&
            (begin - begin_) / batch_size_of(distinct_near(begin - 1, distinct)) < batches)
            begin = begin_;
        ranges.push_back({begin, end, size});
        end = begin;
    }
    std::ranges::reverse(ranges);
    return ranges;
}

Waste BoundaryFinder::waste(const std::vector<BucketRange>& ranges) const {
    Waste sum;
    std::size_t distinct = counts_.distinct_sizes.size() - 1;
    for (std::size_t i = ranges.size(); i-- > 0;) {
        const BucketRange& range = ranges[i];
        if (range.begin == range.end) continue;
        distinct = distinct_near(range.end - 1, distinct);
        sum.padded += padded_(counts_.distinct_sizes[distinct]) *
                      static_cast<double>(range.end - range.begin);
        sum.batches += range.batches();
    }
    if (!ranges.empty()) sum.padding = sum.padded - total(ranges.front().begin, ranges.back().end);
    return sum;
}

Waste BoundaryFinder::waste_of_singles(uint64_t begin, uint64_t end) const {
    Waste sum;
    sum.padding = -total(begin, end);
    while (begin < end) {
        const std::size_t distinct = distinct_at(begin);
        const uint64_t next = std::min(end, counts_.first_places[distinct + 1]);
        sum.padded += padded_(counts_.distinct_sizes[distinct]) * static_cast<double>(next - begin);
        sum.batches += next - begin;
        begin = next;
    }
    sum.padding += sum.padded;
    return sum;
}

/// Samples of which a bucket may leave so many.
struct BoundaryFinder::Middle {
    uint64_t least, most;
};

std::vector<BucketRange> BoundaryFinder::by_fewest_batches(uint64_t fewest,
                                                           const std::vector<BucketRange>& equal) {
    std::vector<BucketRange> found = by_fewest_batches(fewest, samples(), waste(equal), 0, {});
    return found.empty() ? equal : found;
}

std::vector<BucketRange> BoundaryFinder::between(std::span<const BucketRange> others,
                                                 uint64_t fewest, uint64_t least, uint64_t most) {
    std::vector<Middle> middles;
    for (const BucketRange& other : others) {
        const uint64_t quarter = (other.end - other.begin) / 4;
        middles.push_back({other.begin + quarter - begin_, other.end - quarter - begin_});
    }
    return by_fewest_batches(fewest, others.back().end - begin_, Waste{0, 0, most + 1}, least,
                             middles);
}

/// Of so many samples, from the shortest on, with at least so many batches. Empty if they would be
/// no better than `limit`.
/// `middles`: where buckets may begin, ascending; empty: anywhere.
std::vector<BucketRange> BoundaryFinder::by_fewest_batches(uint64_t fewest, uint64_t samples,
                                                           const Waste& limit, uint64_t at_least,
                                                           const std::vector<Middle>& middles) {
    const uint64_t offsets = end_ - begin_;
    // Numbers of batches are multiples of `step`, which bounds time and memory: with many batches
    // in a bucket, or few samples in a batch, one batch more or less matters little. The bound is
    // small compared with sorting, and of a histogram, which is sorted already, takes seconds.
    const uint64_t most_work = std::max<uint64_t>(
        1 << 14, std::min(offsets / 8, std::clamp<uint64_t>(offsets / 64, 1 << 17, 1 << 20)));
    uint64_t step = 1;
    while ((limit.batches / step) * (fewest / step) > most_work) step *= 2;
    if ((step > 1 && step >= fewest) || limit.batches < 2 * fewest) return {};
    const uint64_t few = next_multiple(fewest_of_longest(fewest), step),
                   many = next_multiple(fewest, step), most = (limit.batches - few) / step * step;

    /// The best way to leave only the `left` shortest samples, for a number of batches.
    struct Way {
        uint64_t left;
        uint64_t run;   ///< batches of the last bucket
        double padded;  ///< of all buckets so far
    };
    const uint64_t unreached = offsets + 1, longest = offsets - offsets / 100;
    std::vector<Way> ways(most / step + 1, {unreached, 0, 0});
    ways[0] = {samples, 0, 0};
    // This near to the end, a bucket may leave too few samples for another one, or must be longer.
    const uint64_t near_end = many * batch_size_at(begin_);
    const auto is_enough = [&](uint64_t left, std::size_t distinct_above) {
        const uint64_t size = batch_size_of(distinct_near(begin_ + left - 1, distinct_above));
        return left / size >= (left > longest ? few : many);
    };
    uint64_t least = limit.batches, last = ways.size();
    double least_padded = limit.padded;
    std::size_t distinct = counts_.distinct_sizes.size() - 1;
    for (uint64_t batches = 0; batches <= most; batches += step) {
        const Way way = ways[batches / step];
        if (way.left == unreached) continue;
        distinct = distinct_near(begin_ + way.left - 1, distinct);
        const uint64_t size = batch_size_of(distinct), room = way.left / size,
                       first = way.left > longest ? few : many;
        const double padded_length = padded_(counts_.distinct_sizes[distinct]);
        // All remaining samples may be the last bucket.
        const uint64_t all = batches + (way.left + size - 1) / size;
        const double all_padded = way.padded + padded_length * static_cast<double>(way.left);
        if (all >= at_least && (all < least || (all == least && all_padded < least_padded))) {
            least = all;
            least_padded = all_padded;
            last = batches / step;
        }
        // So may the first one where borders are limited.
        const bool is_at_end = way.left < 2 * near_end || (batches == 0 && !middles.empty());
        const uint64_t longest_run = is_at_end ? 4 * many : first + many - 1,
                       end = std::min({longest_run, room, most - batches});
        auto above = std::ranges::upper_bound(middles, way.left, {}, &Middle::least);
        for (uint64_t run = first; run <= end; run += step) {
            const uint64_t left = way.left - run * size;
            if (left < near_end && (left == 0 || !is_enough(left, distinct))) continue;
            while (above != middles.begin() && std::prev(above)->least > left) --above;
            if (!middles.empty() && (above == middles.begin() || std::prev(above)->most < left))
                continue;
            const Way next{left, run, way.padded + padded_length * static_cast<double>(run * size)};
            Way& known = ways[(batches + run) / step];
            if (next.left < known.left || (next.left == known.left && next.padded < known.padded))
                known = next;
        }
    }
    std::vector<BucketRange> ranges;
    if (last == ways.size()) return ranges;
    for (uint64_t begin = begin_;; begin = ranges.back().end, last -= ways[last].run / step) {
        ranges.push_back(range(begin, begin_ + ways[last].left));
        if (last == 0) return ranges;
    }
}

BoundaryFinder::Tried BoundaryFinder::best_with(uint64_t batches, double target,
                                                const OverheadOf& overhead_of) {
    std::vector<BucketRange> equal = equal_buckets(batches);
    Tried found{by_fewest_batches(batches, equal), batches, 0};
    found.overhead = overhead_of(found.buckets);
    // fewer batches may pad more if the cost is not proportional to the length
    if (found.overhead > target)
        if (const double overhead = overhead_of(equal); overhead < found.overhead)
            found = {std::move(equal), batches, overhead};
    return found;
}

/// Two samples of a class meet in any of its buckets. Others share at most those buckets of `next`
/// that their bucket reaches into.
double BoundaryFinder::meet_again(const std::vector<BucketRange>& ranges,
                                  const std::vector<BucketRange>& next, bool are_exchanged) const {
    const auto common = [](const auto& a, const auto& b) {
        const uint64_t begin = std::max(a.begin, b.begin), end = std::min(a.end, b.end);
        return static_cast<double>(end - std::min(begin, end));
    };
    const auto each_common = [](const auto& all, std::size_t& first, const BucketRange& range,
                                auto&& visit) {
        while (first < all.size() && all[first].end <= range.begin) ++first;
        for (std::size_t i = first; i < all.size() && all[i].begin < range.end; ++i) visit(i);
    };
    std::vector<uint64_t> borders;
    for (const BucketRange& range : next)
        if (range.begin < range.end) borders.push_back(range.begin);
    borders.push_back(next.back().end);
    std::vector<SharedRun> runs;
    if (are_exchanged) runs = runs_across(counts_, borders, padded_);
    const auto batches = [](const BucketRange& range) {
        return static_cast<double>(std::max<uint64_t>(1, range.batches()));
    };
    const auto share = [&](const SharedRun& run, const BucketRange& range) {
        return common(run, range) / static_cast<double>(run.end - run.begin);
    };
    std::vector<double> own(runs.size());  // chance that two of a class meet
    std::size_t first_run = 0, first_next = 0;
    for (const BucketRange& range : next)
        each_common(runs, first_run, range, [&](std::size_t k) {
            own[k] += share(runs[k], range) * share(runs[k], range) / batches(range);
        });
    double met = 0, pairs = 0;
    first_run = 0;
    for (const BucketRange& range : ranges) {
        const auto samples = static_cast<double>(range.end - range.begin);
        if (samples == 0) continue;
        double together = 0;
        each_common(runs, first_run, range, [&](std::size_t k) {
            const double in_class = common(runs[k], range) / samples;
            together += in_class * in_class * own[k];
        });
        each_common(next, first_next, range, [&](std::size_t b) {
            const BucketRange both{std::max(range.begin, next[b].begin),
                                   std::min(range.end, next[b].end), 1};
            double sum = common(range, next[b]), squares = 0;
            std::size_t k = first_run;
            each_common(runs, k, next[b], [&](std::size_t of) {
                const double moved = common(runs[of], range) * share(runs[of], next[b]);
                sum += moved - common(runs[of], both);
                squares += moved * moved;
            });
            together += (sum * sum - squares) / (samples * samples * batches(next[b]));
        });
        const double weight = samples * static_cast<double>(range.batch_size - 1);
        met += weight * together;
        pairs += weight;
    }
    return pairs > 0 ? met / pairs : 1;
}

BoundaryFinder::Tried BoundaryFinder::automatic(double target, uint64_t fewest, uint64_t most,
                                                const OverheadOf& overhead_of,
                                                const Progress& progress) {
    uint64_t done = 0;
    const auto best = [&](uint64_t batches) {
        ++done;
        progress.report(done, done + 1);
        return best_with(batches, target, overhead_of);
    };
    // by_fewest_batches() is not exact for many batches or few buckets. The result is at least as
    // good as equal buckets of these numbers of batches.
    const auto add_equal = [&](std::vector<Tried>& tried, double& nearest) {
        for (const uint64_t batches : {16, 8, 4}) {
            if (nearest <= target || batches <= fewest) break;
            std::vector<BucketRange> equal = equal_buckets(batches);
            if (const double overhead = overhead_of(equal); overhead < nearest)
                tried.push_back({std::move(equal), batches, nearest = overhead});
        }
    };
    return find_automatic(target, fewest, most, best, add_equal);
}

std::vector<BucketRange> BoundaryFinder::by_shapes(std::size_t count, const Progress& progress) {
    // Buckets from the longest down, each with the given number of full batches. The shortest
    // samples are the last bucket and have the one tail.
    const auto lay_out = [&](const std::vector<uint64_t>& batches) {
        std::vector<BucketRange> ranges;
        uint64_t end = end_;
        for (const uint64_t wanted : batches) {
            if (end == begin_) break;
            const uint64_t size = batch_size_at(end - 1);
            const uint64_t fits = std::min(wanted, (end - begin_) / size);
            if (fits == 0) continue;
            ranges.push_back({end - fits * size, end, size});
            end = ranges.back().begin;
        }
        if (end > begin_) ranges.push_back(range(begin_, end));
        std::ranges::reverse(ranges);
        return ranges;
    };
    // At first a bucket holds its optimal interval and fills its last batch from the next interval.
    const std::vector<uint64_t> ends = optimal_ends(count, progress);
    std::vector<uint64_t> batches;
    uint64_t end = end_;
    for (std::size_t b = ends.size(); b-- > 1 && end > begin_;) {
        const uint64_t begin = ends[b - 1];
        const uint64_t size = batch_size_at(end - 1);
        batches.push_back(end > begin ? (end - begin + size - 1) / size : 0);
        end -= std::min(batches.back() * size, end - begin_);
    }
    // Then batches move between neighbours while that reduces the padding.
    std::vector<BucketRange> best = lay_out(batches);
    double least = waste(best).padded;
    for (bool improves = true; improves;) {
        improves = false;
        for (uint64_t& run : batches)
            for (const int64_t change : {-8, -4, -2, -1, 1, 2, 4, 8}) {
                const uint64_t before = run;
                if (change < 0 && before < static_cast<uint64_t>(-change)) continue;
                run = before + static_cast<uint64_t>(change);
                std::vector<BucketRange> ranges = lay_out(batches);
                if (const double padded = waste(ranges).padded; padded < least) {
                    least = padded;
                    best = std::move(ranges);
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
