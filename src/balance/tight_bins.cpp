#include "balance/tight_bins.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "balance/least_tree.h"
#include "base/sorting.h"

namespace sab {
namespace {

/// A bin holds at most k items of which k + 1 would exceed its capacity.
double least_bins_by_count(std::span<const double> weights, double capacity) {
    constexpr std::size_t most = 16;
    std::array<std::size_t, most + 1> counts{};  // items of which a bin holds so many
    for (const double weight : weights)
        if (const double fitting = capacity / weight * (1 + 1e-12); fitting < most + 1)
            ++counts[static_cast<std::size_t>(fitting)];
    double least = 0;
    std::size_t count = 0;
    for (std::size_t k = 1; k <= most; ++k) {
        count += counts[k];
        least = std::max(least, std::ceil(static_cast<double>(count) / static_cast<double>(k)));
    }
    return least;
}

/// Samples by the largest share of a capacity that each takes, largest first.
std::vector<uint32_t> by_largest_share(const StepItems& samples) {
    std::vector<double> most(samples.count);
    for (std::size_t b = 0; b < samples.capacities.size(); ++b)
        for (std::size_t i = 0; i < samples.count; ++i)
            most[i] = std::max(most[i], samples.weight_table()[b][i] / samples.capacities[b]);
    return by_descending(most);
}

/// Bins one after the other: each takes the heaviest sample that is left, and other samples that
/// leave little room. The last resort, where little room is free: it does not look at costs.
class FullestBins {
public:
    explicit FullestBins(const StepItems& samples) : samples_(samples) {}

    bool pack(uint64_t bins, std::span<uint32_t> part_of) {
        if (samples_.capacities.size() != 1 || bins * samples_.count > most_work) return false;
        const std::span<const double> weights = samples_.weights;
        const double free =
            samples_.capacities[0] -
            std::accumulate(weights.begin(), weights.end(), 0.0) / static_cast<double>(bins);
        sorted_ = by_descending(weights);
        // A bin that is as full as possible takes the small samples that later ones need.
        return std::ranges::any_of(std::array{0.0, 0.25, 0.5, 1.0, 2.0}, [&](double share) {
            return pack_leaving(share * free, bins, part_of);
        });
    }

private:
    bool pack_leaving(double enough, uint64_t bins, std::span<uint32_t> part_of) {
        left_.assign(sorted_.begin(), sorted_.end());
        enough_ = enough;
        for (uint32_t bin = 0; bin < bins && !left_.empty(); ++bin) {
            const double room = samples_.capacities[0] - weight(0);
            least_room_ = room;
            chosen_ = best_ = {0};
            tries_ = most_tries;
            search(1, room);
            for (std::size_t k = best_.size(); k-- > 0;) {
                part_of[left_[best_[k]]] = bin;
                left_.erase(left_.begin() + static_cast<std::ptrdiff_t>(best_[k]));
            }
        }
        return left_.empty();
    }

    static constexpr std::size_t most_work = std::size_t{1} << 24, most_tries = 4096;

    double weight(std::size_t place) const { return samples_.weights[left_[place]]; }

    void search(std::size_t first, double room) {
        const auto fits = [&](uint32_t item) { return samples_.weights[item] > room; };
        first = static_cast<std::size_t>(
            std::partition_point(left_.begin() + static_cast<std::ptrdiff_t>(first), left_.end(),
                                 fits) -
            left_.begin());
        for (std::size_t at = first; at < left_.size(); ++at) {
            if (at > first && weight(at) == weight(at - 1)) continue;  // the same was tried
            if (tries_ == 0 || least_room_ <= enough_) return;
            --tries_;
            chosen_.push_back(at);
            if (room - weight(at) < least_room_) {
                least_room_ = room - weight(at);
                best_ = chosen_;
            }
            search(at + 1, room - weight(at));
            chosen_.pop_back();
        }
    }

    const StepItems& samples_;
    std::vector<uint32_t> sorted_;
    std::vector<uint32_t> left_;              ///< heaviest first
    std::vector<std::size_t> chosen_, best_;  ///< places in left_
    double least_room_ = 0, enough_ = 0;
    std::size_t tries_ = 0;
};

/// Depth first: each sample, the largest first, to each micro-batch that has room for all of its
/// weights, until all have one. Groups stay on one rank. The work is bounded, so of many samples an
/// assignment may be missed.
class FittingSearch {
public:
    FittingSearch(const StepItems& samples, uint64_t ranks, uint64_t micro_batches)
        : samples_(samples),
          ranks_(static_cast<uint32_t>(ranks)),
          micro_batches_(static_cast<uint32_t>(micro_batches)),
          parts_(ranks * micro_batches),
          weights_(parts_ * samples.capacities.size()),
          counts_(parts_),
          rank_of_(samples.group_counts.size(), no_rank),
          groups_(ranks),
          order_(by_largest_share(samples)) {}

    bool find(std::span<uint32_t> part_of) {
        part_of_ = part_of;
        return place(0);
    }

private:
    static constexpr std::size_t most_looks = std::size_t{1} << 18;  // at micro-batches
    static constexpr uint32_t no_rank = ~0u;

    bool place(std::size_t at) {
        if (at == order_.size()) return true;
        const uint32_t item = order_[at];
        if (samples_.group_of.empty()) {
            for (uint32_t rank = 0; rank < ranks_; ++rank)
                if (place_on(rank, item, at)) return true;
            return false;
        }
        uint32_t& rank_of = rank_of_[samples_.group_of[item]];
        if (rank_of != no_rank) return place_on(rank_of, item, at);
        bool is_any_free = false;
        for (uint32_t rank = 0; rank < ranks_; ++rank) {
            if (groups_[rank] == 0 && std::exchange(is_any_free, true)) continue;  // all alike
            rank_of = rank;
            ++groups_[rank];
            if (place_on(rank, item, at)) return true;
            --groups_[rank];
        }
        rank_of = no_rank;
        return false;
    }

    bool place_on(uint32_t rank, uint32_t item, std::size_t at) {
        bool is_any_empty = false;
        for (uint32_t part = rank * micro_batches_; part < (rank + 1) * micro_batches_; ++part) {
            if (looks_ == 0) return false;
            --looks_;
            if ((counts_[part] == 0 && std::exchange(is_any_empty, true)) || !has_room(part, item))
                continue;
            part_of_[item] = part;
            put(part, item, 1);
            if (place(at + 1)) return true;
            put(part, item, -1);
        }
        return false;
    }

    bool has_room(uint32_t part, uint32_t item) const {
        for (std::size_t b = 0; b < samples_.capacities.size(); ++b)
            if (weights_[b * parts_ + part] + samples_.weight_table()[b][item] >
                samples_.capacities[b])
                return false;
        return true;
    }

    void put(uint32_t part, uint32_t item, int sign) {
        counts_[part] += static_cast<uint32_t>(sign);
        for (std::size_t b = 0; b < samples_.capacities.size(); ++b)
            weights_[b * parts_ + part] += sign * samples_.weight_table()[b][item];
    }

    const StepItems& samples_;
    const uint32_t ranks_, micro_batches_;
    const std::size_t parts_;
    std::vector<double> weights_;    ///< that each micro-batch holds, by budget
    std::vector<uint32_t> counts_;   ///< samples of each micro-batch
    std::vector<uint32_t> rank_of_;  ///< of each group
    std::vector<uint32_t> groups_;   ///< of each rank
    std::vector<uint32_t> order_;
    std::span<uint32_t> part_of_;
    std::size_t looks_ = most_looks;
};

}  // namespace

/// Martello and Toth's bound on the bins of some weights. For a weight w the items above
/// capacity - w and those above half of the capacity are alone in their bins; items from w up to
/// half of the capacity fill what these leave free, and further bins. `order`: heaviest first.
double least_bins(std::span<const double> weights, double capacity,
                  std::span<const uint32_t> order) {
    const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
    // sums are rounded
    double least =
        std::max(std::ceil(sum / capacity * (1 - 1e-12)), least_bins_by_count(weights, capacity));
    if (weights[order[0]] <= capacity / 2) return least;
    std::vector<double> sorted;
    for (const uint32_t item : order) sorted.push_back(weights[item]);
    std::vector<double> sums(sorted.size() + 1);
    std::partial_sum(sorted.begin(), sorted.end(), sums.begin() + 1);
    const auto is_above = [&](double limit) {
        return static_cast<std::size_t>(
            std::ranges::partition_point(sorted, [&](double each) { return each > limit; }) -
            sorted.begin());
    };
    const std::size_t large = is_above(capacity / 2);
    least = std::max(least, static_cast<double>(large));
    std::size_t alone = large;  // those above capacity - weight
    for (std::size_t i = large; i < sorted.size(); ++i) {
        while (alone > 0 && sorted[alone - 1] <= capacity - sorted[i]) --alone;
        if (i + 1 < sorted.size() && sorted[i + 1] == sorted[i]) continue;
        const double free =
            static_cast<double>(large - alone) * capacity - (sums[large] - sums[alone]);
        const double more = (sums[i + 1] - sums[large] - free) / capacity;
        least = std::max(least, static_cast<double>(large) +
                                    std::ceil(std::max(0.0, more - 1e-12 * sum / capacity)));
    }
    return least;
}

uint64_t pack_first_fit(const StepItems& samples, uint64_t bins, std::span<uint32_t> part_of) {
    constexpr std::size_t most_looks = 1024;  // at nodes, for each sample
    const std::size_t kinds = samples.capacities.size();
    LeastTree held;
    held.reset(bins, kinds,
               [](std::size_t, std::span<double> weights) { std::ranges::fill(weights, 0.0); });
    std::array<double, SAB_MAX_BUDGETS> room{};
    std::size_t used = 0;
    for (const uint32_t item : by_largest_share(samples)) {
        for (std::size_t b = 0; b < kinds; ++b)
            room[b] = samples.capacities[b] - samples.weight_table()[b][item];
        std::size_t bin = held.first(0, used, room.data(), most_looks);
        if (bin == used) bin = held.first(used, bins, room.data(), most_looks);  // an empty one
        if (bin == bins) return 0;
        held.change(bin, [&](std::span<double> weights) {
            for (std::size_t b = 0; b < kinds; ++b) weights[b] += samples.weight_table()[b][item];
        });
        part_of[item] = static_cast<uint32_t>(bin);
        used = std::max(used, bin + 1);
    }
    return used;
}

bool pack_fullest(const StepItems& samples, uint64_t bins, std::span<uint32_t> part_of) {
    return FullestBins(samples).pack(bins, part_of);
}

bool search_fitting(const StepItems& samples, uint64_t ranks, uint64_t micro_batches,
                    std::span<uint32_t> part_of) {
    return FittingSearch(samples, ranks, micro_batches).find(part_of);
}

}  // namespace sab
