#include "plan/edges.h"

#include <algorithm>

#include "plan/least_cuts.h"

namespace sab {

Cutter::Cutter(const Sorted& sorted, uint32_t begin, uint32_t end, std::function<double(double)> padded,
               std::function<uint64_t(double)> capacity)
    : sorted_(sorted), begin_(begin), end_(end), padded_(std::move(padded)), capacity_(std::move(capacity)) {
    totals_.reserve(sorted.level_size.size() + 1);
    double sum = 0;
    for (std::size_t level = 0; level < sorted.level_size.size(); ++level) {
        totals_.push_back(sum);
        sum += sorted.level_size[level] * (sorted.level_first[level + 1] - sorted.level_first[level]);
    }
    totals_.push_back(sum);
}

std::size_t Cutter::level_at(uint32_t place) const {
    return static_cast<std::size_t>(std::ranges::upper_bound(sorted_.level_first, place) - sorted_.level_first.begin()) - 1;
}

double Cutter::total_before(uint32_t place) const {
    if (place == sorted_.count) return totals_.back();
    const std::size_t level = level_at(place);
    return totals_[level] + sorted_.level_size[level] * (place - sorted_.level_first[level]);
}

uint64_t Cutter::capacity_at(uint32_t place) {
    const std::size_t level = level_at(place);
    if (const auto known = capacities_.find(level); known != capacities_.end()) return known->second;
    return capacities_[level] = capacity_(sorted_.level_size[level]);
}

Cut Cutter::cut(uint32_t begin, uint32_t end) { return {begin, end, end > begin ? capacity_at(end - 1) : 1}; }

double Cutter::padding(const Cut& cut) {
    return cut.end > cut.begin ? padded_at(cut.end - 1) * (cut.end - cut.begin) - total(cut.begin, cut.end) : 0;
}

std::vector<Cut> Cutter::by_boundaries(const std::vector<double>& boundaries) {
    const auto place_of = [&](double boundary) {
        const auto level = std::ranges::lower_bound(sorted_.level_size, boundary) - sorted_.level_size.begin();
        return std::clamp(sorted_.level_first[static_cast<std::size_t>(level)], begin_, end_);
    };
    std::vector<Cut> cuts;
    for (std::size_t i = 0; i + 1 < boundaries.size(); ++i) cuts.push_back(cut(place_of(boundaries[i]), place_of(boundaries[i + 1])));
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
    for (std::size_t level = 0; level < levels; ++level) longest[level] = padded_at(edges[level + 1] - 1);

    std::vector<uint32_t> ends = least_cuts(all_ends(levels, count, false), Rows::divided, progress, LinearCost{nothing.data(), longest.data(), edges.data()});
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

std::vector<Cut> Cutter::runs(uint64_t fewest, const std::function<uint64_t(uint32_t, uint64_t, uint64_t)>& wanted) {
    std::vector<Cut> cuts;
    for (uint32_t end = end_; end > begin_;) {
        const uint64_t size = capacity_at(end - 1);
        const uint64_t most = (end - begin_) / size;
        uint32_t begin = begin_;
        if (most > 0) begin = end - static_cast<uint32_t>(size * std::clamp<uint64_t>(wanted(end, size, most), 1, most));
        // What would be left for the shorter samples is too little for a run of its own.
        if (begin > begin_ && (begin - begin_) / capacity_at(begin - 1) < fewest) begin = begin_;
        cuts.push_back({begin, end, size});
        end = begin;
    }
    std::ranges::reverse(cuts);
    return cuts;
}

std::vector<Cut> Cutter::by_rank(uint64_t batches) {
    return runs(batches, [&](uint32_t, uint64_t, uint64_t) { return batches; });
}

Cutter::Waste Cutter::waste(const std::vector<Cut>& cuts) {
    Waste sum;
    for (const Cut& cut : cuts) {
        const double padded = padded_at(cut.end - 1) * (cut.end - cut.begin);
        sum.padded += padded;
        sum.padding += padded - total(cut.begin, cut.end);
        sum.batches += cut.batches();
    }
    return sum;
}

std::vector<Cut> Cutter::automatic(double target, uint64_t fewest, uint64_t most, uint64_t lower_bound, const Progress& progress) {
    const uint32_t longest_percent = end_ - (end_ - begin_) / 100;
    uint64_t batches = most;
    const auto cut_with = [&](double allowance) {
        return runs(batches, [&](uint32_t end, uint64_t size, uint64_t room) {
            uint64_t fits = 0, too_many = room + 1;  // batches whose padding stays within the allowance
            while (too_many - fits > 1) {
                const uint64_t middle = fits + (too_many - fits) / 2;
                const auto begin = end - static_cast<uint32_t>(size * middle);
                (padding({begin, end, size}) <= allowance ? fits : too_many) = middle;
            }
            return std::max(fits, end > longest_percent ? uint64_t{1} : batches);
        });
    };
    const double most_batches = (1 + target) * static_cast<double>(lower_bound);
    const auto pads_little = [&](const Waste& waste) { return waste.padding <= target * waste.padded; };
    const auto are_few = [&](const Waste& waste) { return static_cast<double>(waste.batches) <= most_batches; };

    // The least that can be had, with buckets of many batches if that is little enough, or else of fewer.
    std::vector<Cut> best = cut_with(0);
    while (batches > fewest && !pads_little(waste(best))) {
        batches = std::max(fewest, batches / 2);
        best = cut_with(0);
    }
    const Waste least = waste(best);
    if (!pads_little(least)) return best;
    const bool count_batches = lower_bound > 0 && are_few(least);  // out of reach even so, the number of batches does not count
    double low = 0, high = std::max(1.0, least.padded);
    for (int round = 0; round < 60 && high - low > 1e-3 * high; ++round) {
        progress.report(static_cast<uint64_t>(round), 60);
        const double allowance = (low + high) / 2;
        std::vector<Cut> cuts = cut_with(allowance);
        const Waste wasted = waste(cuts);
        if (pads_little(wasted) && (!count_batches || are_few(wasted))) {
            low = allowance;
            if (cuts.size() <= best.size()) best = std::move(cuts);
        } else {
            high = allowance;
        }
    }
    return best;
}

std::vector<Cut> Cutter::by_shapes(std::size_t count, const Progress& progress) {
    // Runs from the longest down, each of so many full batches; the shortest samples are the last run and have the one tail.
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
    // At first a run holds its optimal interval, and of the next one what its last batch has room for.
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
