/// Buckets of few batches, for samples that have no room for many: small data, and few samples much
/// longer than the others.
#include <algorithm>
#include <cmath>
#include <limits>

#include "plan/boundaries.h"

namespace sab {

uint64_t BoundaryFinder::sorted_cut() {
    uint64_t batches = 0;
    std::size_t distinct = counts_.distinct_sizes.size() - 1;
    for (uint64_t end = end_; end > begin_;) {
        distinct = distinct_near(end - 1, distinct);
        const uint64_t size = batch_size_of(distinct),
                       same = end - std::max(begin_, counts_.first_places[distinct]),
                       whole = std::max<uint64_t>(same / size, 1);
        batches += whole;
        end -= std::min(whole * size, end - begin_);
    }
    return batches;
}

std::vector<BucketRange> BoundaryFinder::by_least_charge(const Charges& charges) {
    // Runs and charges are in steps of batches, which bounds time, memory and the buckets.
    const uint64_t step = (charges.cut >> 16) + 1, samples = end_ - begin_, unreached = samples + 1;
    const auto steps = [&](uint64_t batches) { return (batches + step - 1) / step; };
    const uint64_t longest = samples - samples / 100, many = steps(charges.fewest),
                   few = steps(fewest_of_longest(charges.fewest)), extra = steps(charges.surcharge);

    /// The best way to leave only the `left` shortest samples, for a charge.
    struct Way {
        uint64_t left;
        uint64_t charged;  ///< for the last bucket
        double padded;     ///< of all buckets so far
    };
    std::vector<Way> ways{{samples, 0, 0}};
    uint64_t least = UINT64_MAX, last = 0;
    double least_padded = 0;
    std::size_t distinct = counts_.distinct_sizes.size() - 1;
    const auto is_short = [&](uint64_t left) {
        return left < charges.least_tail &&
               left < batch_size_of(distinct_near(begin_ + left - 1, distinct));
    };
    for (uint64_t charge = 0; charge < ways.size() && charge < least; ++charge) {
        const Way way = ways[charge];
        if (way.left == unreached) continue;
        distinct = distinct_near(begin_ + way.left - 1, distinct);
        const uint64_t size = batch_size_of(distinct), enough = way.left > longest ? few : many,
                       all_steps = steps((way.left + size - 1) / size),
                       all = charge + all_steps + (all_steps < enough ? extra : 0);
        const double length = padded_(counts_.distinct_sizes[distinct]),
                     all_padded = way.padded + length * static_cast<double>(way.left);
        if (all < least || (all == least && all_padded < least_padded)) {
            least = all;
            least_padded = all_padded;
            last = charge;
        }
        const uint64_t most = std::min(enough + many - 1, (way.left - 1) / (size * step));
        for (uint64_t run = 1; run <= most; ++run) {
            const uint64_t count = run * step * size, left = way.left - count,
                           charged = run + (run < enough ? extra : 0);
            if (charge + charged >= least) break;
            if (charges.least_tail > 1 && is_short(left)) continue;
            if (charge + charged >= ways.size())
                ways.resize(charge + charged + 1, {unreached, 0, 0});
            Way& known = ways[charge + charged];
            const double padded = way.padded + length * static_cast<double>(count);
            if (left < known.left || (left == known.left && padded < known.padded))
                known = {left, charged, padded};
        }
    }
    std::vector<BucketRange> ranges;
    for (uint64_t begin = begin_;; begin = ranges.back().end, last -= ways[last].charged) {
        ranges.push_back(range(begin, begin_ + ways[last].left));
        if (last == 0) return ranges;
    }
}

std::vector<BucketRange> BoundaryFinder::by_borders(const Charges& charges) {
    std::vector<uint64_t> borders{begin_};
    double kept = -1;
    for (std::size_t distinct = distinct_at(begin_) + 1;
         distinct < counts_.distinct_sizes.size() && counts_.first_places[distinct] < end_;
         ++distinct) {
        const double below = counts_.distinct_sizes[distinct - 1];
        if (below <= kept * (1 + 1.0 / 64)) continue;
        kept = below;
        borders.push_back(counts_.first_places[distinct]);
    }
    borders.push_back(end_);

    const uint64_t longest = end_ - (end_ - begin_) / 100, few = fewest_of_longest(charges.fewest);
    const double each = static_cast<double>(charges.cut) / std::max(total(begin_, end_), 1e-300);
    std::vector<double> best(borders.size(), std::numeric_limits<double>::infinity());
    std::vector<std::size_t> from(borders.size());
    best[0] = 0;
    for (std::size_t end = 1; end < borders.size(); ++end) {
        const uint64_t size = batch_size_at(borders[end] - 1),
                       enough = borders[end] > longest ? few : charges.fewest;
        const double length = padded_at(borders[end] - 1) * each;
        for (std::size_t begin = 0; begin < end; ++begin) {
            const uint64_t samples = borders[end] - borders[begin],
                           batches = (samples + size - 1) / size,
                           charge = batches + (batches < enough ? charges.surcharge : 0);
            const double sum =
                best[begin] + static_cast<double>(charge) + length * static_cast<double>(samples);
            if (sum < best[end]) {
                best[end] = sum;
                from[end] = begin;
            }
        }
    }
    std::vector<BucketRange> ranges;
    for (std::size_t end = borders.size() - 1; end > 0; end = from[end])
        ranges.push_back(range(borders[from[end]], borders[end]));
    std::ranges::reverse(ranges);
    return ranges;
}

std::vector<BucketRange> BoundaryFinder::by_few_shapes(std::size_t most, sab_tail tail,
                                                       uint64_t limit) {
    constexpr uint64_t most_work = uint64_t{1} << 26;
    if (most * limit * limit > most_work) return {};
    const uint64_t unreached = end_ - begin_ + 1;
    /// The best way to leave only the `left` shortest samples.
    struct Way {
        uint64_t left;
        uint64_t run;   ///< batches of the last bucket
        double padded;  ///< of all buckets so far
    };
    // by number of buckets, then of batches
    std::vector<std::vector<Way>> ways(most, std::vector<Way>(limit + 1, {unreached, 0, 0}));
    ways[0][0] = {end_ - begin_, 0, 0};
    uint64_t least = limit + 1, last = 0;
    std::size_t buckets = 0;
    double least_padded = 0;
    const auto is_better = [](uint64_t a, double padded_a, uint64_t b, double padded_b) {
        return a < b || (a == b && padded_a < padded_b);
    };
    for (std::size_t number = 0; number < most; ++number)
        for (uint64_t batches = 0; batches <= limit; ++batches) {
            const Way way = ways[number][batches];
            if (way.left == unreached) continue;
            const std::size_t distinct = distinct_at(begin_ + way.left - 1);
            const uint64_t size = batch_size_of(distinct), full = way.left / size,
                           rest = way.left % size, all = batches + full + (rest > 0);
            const double length = padded_(counts_.distinct_sizes[distinct]),
                         padded = way.padded + length * static_cast<double>(way.left);
            const std::size_t shapes =
                number + (tail == SAB_TAIL_KEEP && full > 0 && rest > 0 ? 2 : 1);
            if (shapes <= most && (tail != SAB_TAIL_DROP || full > 0) &&
                is_better(all, padded, least, least_padded)) {
                least = all;
                least_padded = padded;
                buckets = number;
                last = batches;
            }
            for (uint64_t run = 1; number + 1 < most && run * size < way.left; ++run) {
                if (batches + run > limit) break;
                const Way next{way.left - run * size, run,
                               way.padded + length * static_cast<double>(run * size)};
                Way& known = ways[number + 1][batches + run];
                if (is_better(next.left, next.padded, known.left, known.padded)) known = next;
            }
        }
    std::vector<BucketRange> ranges;
    if (least > limit) return ranges;
    for (uint64_t begin = begin_;; begin = ranges.back().end, last -= ways[buckets--][last].run) {
        ranges.push_back(range(begin, begin_ + ways[buckets][last].left));
        if (buckets == 0) return ranges;
    }
}

std::vector<uint32_t> BoundaryFinder::left_out(uint64_t fewest) {
    constexpr uint64_t most = uint64_t{1} << 20;
    std::vector<uint32_t> left(std::min(samples(), most) + 1);
    // The next batch ends in a window of places that moves up with its begin. In the window those
    // are kept that leave out less than all after them.
    std::vector<uint32_t> window(left.size());
    std::size_t first = 0, last = 0;
    for (uint64_t count = 1, distinct = distinct_at(begin_); count < left.size(); ++count) {
        while (counts_.first_places[distinct + 1] < begin_ + count) ++distinct;
        if (count >= fewest) {
            const auto next = static_cast<uint32_t>(count - fewest);
            while (last > first && left[window[last - 1]] >= left[next]) --last;
            window[last++] = next;
        }
        while (first < last && window[first] + batch_size_of(distinct) < count) ++first;
        left[count] = first < last ? left[window[first]] : static_cast<uint32_t>(count);
    }
    return left;
}

std::vector<BucketRange> BoundaryFinder::with_least_left_out(std::span<const BucketRange> ranges,
                                                             std::span<const uint32_t> left_out) {
    const auto left_at = [&](uint64_t place) { return left_out[place - begin_]; };
    const uint64_t reach = begin_ + left_out.size() - 1;
    std::vector<BucketRange> made;
    uint64_t border = 0, least = UINT64_MAX;
    for (std::size_t i = ranges.size(); i-- > 0;) {
        const auto [begin, end, size] = ranges[i];
        const uint64_t beyond = end > reach ? (end - reach + size - 1) / size : 0;
        for (uint64_t batch = beyond; batch <= (end - begin) / size; ++batch) {
            const uint64_t place = end - batch * size;
            if (left_at(place) > least) continue;
            least = left_at(place);
            border = place;
        }
    }
    for (std::size_t i = ranges.size(); i > 0 && ranges[i - 1].end > border; --i)
        made.push_back(
            {std::max(ranges[i - 1].begin, border), ranges[i - 1].end, ranges[i - 1].batch_size});
    while (least < UINT64_MAX && border - begin_ > least) {
        uint64_t size = std::min(batch_size_at(border - 1), border - begin_);
        while (left_at(border - size) > least) --size;
        if (!made.empty() && made.back().batch_size == size)
            made.back().begin -= size;
        else
            made.push_back({border - size, border, size});
        border -= size;
    }
    std::ranges::reverse(made);
    return made;
}

BoundaryFinder::Tried BoundaryFinder::with_small_buckets(double target, Charges charges,
                                                         uint64_t limit, uint64_t loose_limit,
                                                         const OverheadOf& overhead_of,
                                                         const Progress& progress) {
    struct Candidate {
        Tried tried;
        Waste waste;
    };
    std::vector<Candidate> candidates;
    const auto add = [&](std::vector<BucketRange> ranges, bool is_last) {
        const Waste own = waste(ranges);
        if (own.batches > loose_limit && !(is_last && candidates.empty())) return;
        const double overhead = overhead_of(ranges);
        candidates.push_back({{std::move(ranges), charges.fewest, overhead, overhead}, own});
    };
    for (const uint64_t surcharge : {16, 8, 4, 2, 1, 0}) {
        charges.surcharge = surcharge;
        if (charges.least_tail == 1) add(by_borders(charges), false);
        // Without a surcharge they are within the limit, unless each bucket needs a whole batch.
        add(by_least_charge(charges), surcharge == 0);
        progress.report(16 - surcharge, 17);
    }
    double nearest = std::numeric_limits<double>::infinity();
    for (const Candidate& each : candidates) nearest = std::min(nearest, each.tried.overhead);
    const auto first_within = [&](uint64_t most) {
        double least = std::numeric_limits<double>::infinity();
        for (const Candidate& each : candidates)
            if (each.waste.batches <= most) least = std::min(least, each.waste.padded);
        return std::ranges::find_if(candidates, [&](const Candidate& each) {
            return each.waste.batches <= most &&
                   (nearest <= target ? each.tried.overhead <= target
                                      : 0.75 * each.waste.padded <= least);
        });
    };
    const auto work = [](const Candidate& each) {
        return each.waste.padded * static_cast<double>(each.waste.batches);
    };
    auto chosen = first_within(limit);
    const auto other = first_within(std::max(loose_limit, candidates.back().waste.batches));
    // More batches are taken only if they save more of the padded total than they add.
    if (chosen == candidates.end() || (nearest > target && work(*other) < 0.75 * work(*chosen)))
        chosen = other;
    chosen->tried.nearest = nearest;
    return std::move(chosen->tried);
}

}  // namespace sab
