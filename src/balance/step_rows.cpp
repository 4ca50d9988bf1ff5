#include "balance/step_rows.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <utility>

#include "balance/micro_batches.h"
#include "base/sorting.h"

namespace sab {
namespace {

constexpr std::size_t most_together = 8192;  // samples, where capacities are tight
constexpr std::size_t most_again = 2048;     // to make ranks more even
constexpr std::size_t most_searched = 256;   // by FittingSearch
constexpr std::size_t looks = 64;            // in PartitionRules
constexpr double even_enough = 1.0015;       // the costliest rank, to what it cannot be below
constexpr uint32_t most_scanned = 64;  // micro-batches of a rank that are looked at for each sample
// Above this load one more micro-batch is allowed, so the search is short: fewer samples are
// assigned together. Few ranks may fail, and few samples may need more than longest-first.
constexpr double high_load = 0.98;
constexpr std::size_t most_exchanged = 256;  // groups, where ranks do not fit
constexpr std::size_t few_together = 512, few_failed = 4, few_partitioned = 8192;

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
        sorted_ = order_.sort(weights);
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
    CostliestFirst order_;
    std::span<const uint32_t> sorted_;
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
          groups_(ranks) {
        std::vector<double> shares(samples.count);
        for (std::size_t b = 0; b < samples.capacities.size(); ++b)
            for (std::size_t i = 0; i < samples.count; ++i)
                shares[i] =
                    std::max(shares[i], samples.weight_table()[b][i] / samples.capacities[b]);
        order_ = by_descending(shares);
    }

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

/// Exchanges samples of the costliest rank for cheaper ones of the cheapest ranks, where the
/// micro-batches of both have room.
class RankEvener {
public:
    RankEvener(const StepItems& samples, uint32_t ranks, uint32_t micro_batches,
               std::span<uint32_t> part_of)
        : samples_(samples),
          micro_batches_(micro_batches),
          part_of_(part_of),
          parts_(std::size_t{ranks} * micro_batches),
          weights_(parts_ * samples.capacities.size()),
          loads_(ranks),
          items_(ranks) {
        for (uint32_t i = 0; i < samples.count; ++i) {
            loads_[rank_of(i)] += samples.costs[i];
            items_[rank_of(i)].push_back(i);
            for (std::size_t b = 0; b < samples.capacities.size(); ++b)
                held(part_of[i], b) += samples.weight_table()[b][i];
        }
    }

    void even_out() {
        const double mean =
            std::accumulate(loads_.begin(), loads_.end(), 0.0) / static_cast<double>(loads_.size());
        std::vector<uint32_t> cheapest(loads_.size());
        for (std::size_t work = most_work; work > 0;) {
            std::iota(cheapest.begin(), cheapest.end(), 0u);
            const std::size_t shown = std::min(most_ranks, cheapest.size() - 1);
            std::ranges::partial_sort(
                cheapest, cheapest.begin() + static_cast<std::ptrdiff_t>(shown),
                [&](uint32_t a, uint32_t b) {
                    return loads_[a] != loads_[b] ? loads_[a] < loads_[b] : a < b;
                });
            const auto from =
                static_cast<uint32_t>(std::ranges::max_element(loads_) - loads_.begin());
            if (loads_[from] - mean <= mean * even_enough) return;
            bool is_lowered = false;
            for (std::size_t k = 0; k < shown && !is_lowered && work > 0; ++k) {
                const std::size_t pairs = items_[from].size() * (items_[cheapest[k]].size() + 1);
                work -= std::min(work, pairs + loads_.size());
                is_lowered = lower(from, cheapest[k]);
            }
            if (!is_lowered) return;
        }
    }

private:
    static constexpr std::size_t most_work = std::size_t{1} << 22, most_ranks = 8;
    static constexpr double even_enough = 1e-5;

    uint32_t rank_of(uint32_t item) const { return part_of_[item] / micro_batches_; }
    double& held(uint32_t part, std::size_t budget) { return weights_[budget * parts_ + part]; }

    /// Whether the part of an item has room when another comes for it.
    bool has_room(uint32_t item, uint32_t other) {
        for (std::size_t b = 0; b < samples_.capacities.size(); ++b) {
            const std::span<const double> weights = samples_.weight_table()[b];
            if (held(part_of_[item], b) - weights[item] + weights[other] > samples_.capacities[b])
                return false;
        }
        return true;
    }

    bool lower(uint32_t from, uint32_t to) {
        const double gap = loads_[from] - loads_[to];
        double best = gap / 2 - loads_[from] * 1e-12;
        std::size_t given = 0, taken = 0;
        bool is_found = false;
        for (std::size_t i = 0; i < items_[from].size(); ++i) {
            for (std::size_t j = 0; j < items_[to].size(); ++j) {
                const uint32_t ours = items_[from][i], theirs = items_[to][j];
                const double score =
                    std::abs(samples_.costs[ours] - samples_.costs[theirs] - gap / 2);
                if (score >= best || !has_room(ours, theirs) || !has_room(theirs, ours)) continue;
                best = score;
                given = i;
                taken = j;
                is_found = true;
            }
        }
        if (is_found) exchange(items_[from][given], items_[to][taken]);
        return is_found;
    }

    void exchange(uint32_t& ours, uint32_t& theirs) {
        const double more = samples_.costs[ours] - samples_.costs[theirs];
        loads_[rank_of(ours)] -= more;
        loads_[rank_of(theirs)] += more;
        for (std::size_t b = 0; b < samples_.capacities.size(); ++b) {
            const std::span<const double> weights = samples_.weight_table()[b];
            held(part_of_[ours], b) += weights[theirs] - weights[ours];
            held(part_of_[theirs], b) += weights[ours] - weights[theirs];
        }
        std::swap(part_of_[ours], part_of_[theirs]);
        std::swap(ours, theirs);
    }

    const StepItems& samples_;
    const uint32_t micro_batches_;
    std::span<uint32_t> part_of_;
    const std::size_t parts_;
    std::vector<double> weights_;               ///< that each micro-batch holds, by budget
    std::vector<double> loads_;                 ///< of the ranks
    std::vector<std::vector<uint32_t>> items_;  ///< of the ranks
};

}  // namespace

void StepRows::begin(const StepItems& samples, uint64_t world_size) {
    samples_ = &samples;
    ranks_ = static_cast<uint32_t>(world_size);
    units_ = samples.group_of.empty() ? samples.count : samples.group_counts.size();
    by_cost_ = sort_.sort(samples.cost_table()[0]);
    find_units();
}

/// The costs and weights of samples, or their sums in each group.
void StepRows::find_units() {
    unit_costs_ = samples().costs;
    unit_weights_ = samples().weights;
    if (samples().group_of.empty()) return;
    const auto add_up = [&](const ItemTable& table, std::vector<double>& sums) {
        sums.assign(table.kinds * units_, 0);
        for (std::size_t kind = 0; kind < table.kinds; ++kind)
            for (std::size_t i = 0; i < table.items; ++i)
                sums[kind * units_ + samples().group_of[i]] += table[kind][i];
        return std::span<const double>(sums);
    };
    unit_costs_ = add_up(samples().cost_table(), group_costs_);
    unit_weights_ = add_up(samples().weight_table(), group_weights_);
}

uint64_t StepRows::least() const {
    double least = 1;
    CostliestFirst sort;
    for (std::size_t b = 0; b < samples().capacities.size(); ++b) {
        const std::span<const double> weights = samples().weight_table()[b];
        const double capacity = samples().capacities[b],
                     bins = least_bins(weights, capacity,
                                       samples().is_one_cost ? by_cost_ : sort.sort(weights));
        const double unit = std::ranges::max(unit_weights_.subspan(b * units_, units_));
        least = std::max({least, std::ceil(bins / ranks_),
                          std::ceil(unit / capacity * (1 - 1e-12))});
    }
    return static_cast<uint64_t>(least);
}

bool StepRows::assign(uint64_t micro_batches, Effort effort, std::span<uint32_t> part_of) {
    micro_batches_ = static_cast<uint32_t>(micro_batches);
    part_of_ = part_of;
    find_units();  // again, since weights may have been rounded
    for (std::size_t b = 0; b < samples().capacities.size(); ++b)
        if (is_impossible(samples().weight_table()[b], micro_batches * ranks_,
                          samples().capacities[b]))
            return false;
    is_short_ = effort == Effort::less && load() > high_load && samples().count > few_together;
    is_long_ = effort != Effort::usual && samples().count <= most_searched;
    is_each_ = effort != Effort::usual && samples().cost_table().kinds > 1;
    best_.clear();
    const bool has_groups = !samples().group_of.empty(),
               is_all_first = samples().cost_table().kinds > 1 && !has_groups && !is_short_;
    if (is_all_first && all_together() && !is_each_) return true;
    if (is_each_ && by_each_cost(effort)) return true;
    if (by_ranks(Aim::costs) && ((!is_each_ && !is_mended_) || is_even_enough())) return true;
    if ((has_groups || is_each_ ? best_.empty() : !samples().is_one_cost) &&
        by_ranks(Aim::capacities) &&
        is_even_enough())
        return true;
    if (has_groups && best_.empty())
        return (!samples().is_one_cost && by_ranks(Aim::weights)) ||
               (is_long_ && FittingSearch(samples(), ranks_, micro_batches_).find(part_of_));
    if (!has_groups && !is_all_first && samples().count <= most_at_once() && all_together())
        return true;
    std::ranges::copy(best_, part_of_.begin());
    return !best_.empty();
}

/// As for each of several costs alone, so that none of them gives ranks that are more even. Whether
/// the most even ranks so far are even enough.
bool StepRows::by_each_cost(Effort effort) {
    StepItems alone = samples();
    StepRows rows;
    bool is_enough = !best_.empty() && most_of_best_ <= even_enough;
    for (std::size_t kind = 0; kind < samples().cost_table().kinds; ++kind) {
        const std::span<const double> costs = samples().cost_table()[kind];
        alone.costs.assign(costs.begin(), costs.end());
        rows.begin(alone, ranks_);
        if (rows.assign(micro_batches_, effort, part_of_) && is_even_enough()) is_enough = true;
    }
    if (is_enough) std::ranges::copy(best_, part_of_.begin());
    return is_enough;
}

bool StepRows::all_together() {
    rank_of_unit_.assign(units_, 0);
    collect_ranks();
    std::vector<uint32_t> all(ranks_);
    std::iota(all.begin(), all.end(), 0u);
    return together(all) && is_even_enough();
}

/// Samples that are assigned to all micro-batches at once, at most. Many samples whose even ranks
/// do not fit leave next to no room: one more micro-batch.
std::size_t StepRows::most_at_once() const {
    if (!best_.empty()) return most_again;
    if (is_short_) return 0;
    return samples().is_one_cost ? most_together : samples().count;
}

/// Whether the costs of ranks need not be more even. Keeps the most even assignment.
bool StepRows::is_even_enough() {
    const ItemTable costs = samples().cost_table();
    double most = 0;  // cost of the costliest rank, to what it cannot be below
    std::vector<double> sums(ranks_);
    for (std::size_t kind = 0; kind < costs.kinds; ++kind) {
        sums.assign(ranks_, 0);
        for (std::size_t i = 0; i < samples().count; ++i)
            sums[part_of_[i] / micro_batches_] += costs[kind][i];
        const double mean = std::accumulate(sums.begin(), sums.end(), 0.0) / ranks_,
                     largest = std::ranges::max(costs[kind]),
                     least = std::max(are_whole(costs[kind]) ? std::ceil(mean) : mean, largest);
        // Other ranks may have no micro-batch as costly as that sample: no other way helps.
        if (!is_each_ && largest * micro_batches_ > mean) continue;
        if (least > 0) most = std::max(most, std::ranges::max(sums) / least);
    }
    if (best_.empty() || most < most_of_best_) {
        best_.assign(part_of_.begin(), part_of_.end());
        most_of_best_ = most;
    }
    return most <= even_enough;
}

/// The largest share of a budget that the samples fill.
double StepRows::load() const {
    double most = 0;
    for (std::size_t b = 0; b < samples().capacities.size(); ++b) {
        const std::span<const double> weights = samples().weight_table()[b];
        const double room = samples().capacities[b] * micro_batches_ * ranks_;
        most = std::max(most, std::accumulate(weights.begin(), weights.end(), 0.0) / room);
    }
    return most;
}

/// First to ranks, then those of each rank to its micro-batches.
bool StepRows::by_ranks(Aim aim) {
    if (!to_ranks(aim)) return false;
    collect_ranks();
    std::vector<uint32_t> failed;
    partitioned_ = 0;
    for (uint32_t rank = 0; rank < ranks_; ++rank) {
        if (!assign_rank(rank)) failed.push_back(rank);
        if (is_short_ && (failed.size() > few_failed || partitioned_ > few_partitioned))
            return false;
    }
    const bool has_groups = !samples().group_of.empty();
    is_mended_ = !failed.empty() && !has_groups;
    if (is_mended_ && !with_others(failed)) return false;
    if (!failed.empty() && has_groups && !with_other_groups(failed)) return false;
    if (samples().cost_table().kinds == 1) even_micro_steps();
    return true;
}

/// Longest first looks at one cost only.
bool StepRows::assign_rank(uint32_t rank) {
    const std::span<const uint32_t> items = items_of(rank);
    const uint32_t first_part = rank * micro_batches_;
    if (samples().cost_table().kinds > 1)
        return partition_rank(items, first_part) || longest_first(items, first_part);
    if (longest_first(items, first_part)) return true;
    partitioned_ += items.size();
    return partition_rank(items, first_part) ||
           (!samples().group_of.empty() && fill_rank(items, first_part));
}

/// Samples that may not go to another rank: micro-batches as full as possible.
bool StepRows::fill_rank(std::span<const uint32_t> items, uint32_t first_part) {
    parts_.resize(items.size());
    if (!FullestBins(samples().of(items)).pack(micro_batches_, parts_)) return false;
    for (std::size_t i = 0; i < items.size(); ++i) part_of_[items[i]] = first_part + parts_[i];
    return true;
}

/// A few ranks whose groups do not fit: each exchanges one of them for another rank's, of about the
/// same weight.
bool StepRows::with_other_groups(std::span<const uint32_t> failed) {
    std::size_t tries = std::min(most_exchanged, (std::size_t{1} << 20) / samples().count);
    for (const uint32_t rank : failed)
        if (!assign_rank(rank) && !exchange_group(rank, tries)) return false;
    collect_ranks();
    for (uint32_t rank = 0; rank < ranks_; ++rank)
        if (!assign_rank(rank)) return false;
    return true;
}

bool StepRows::exchange_group(uint32_t rank, std::size_t& tries) {
    std::vector<uint32_t> own;
    for (uint32_t unit = 0; unit < units_; ++unit)
        if (rank_of_unit_[unit] == rank) own.push_back(unit);
    const double free = 1 - load();
    const auto are_alike = [&](uint32_t a, uint32_t b) {
        for (std::size_t k = 0; k < samples().capacities.size(); ++k)
            if (std::abs(unit_weights_[k * units_ + a] - unit_weights_[k * units_ + b]) >
                free * micro_batches_ * samples().capacities[k])
                return false;
        return true;
    };
    for (std::size_t shift = 0; shift < own.size(); ++shift)
        for (uint32_t unit = 0; unit < units_ && tries > 0; ++unit) {
            const uint32_t given = own[(unit + shift) % own.size()], other = rank_of_unit_[unit];
            if (other == rank || !are_alike(given, unit)) continue;
            --tries;
            std::swap(rank_of_unit_[given], rank_of_unit_[unit]);
            collect_ranks();
            if (assign_rank(rank) && assign_rank(other)) return true;
            std::swap(rank_of_unit_[given], rank_of_unit_[unit]);
        }
    return false;
}

/// A few ranks whose samples do not fit: together with others, more and more of them.
bool StepRows::with_others(std::span<const uint32_t> failed) {
    std::vector<uint32_t> ranks(failed.begin(), failed.end());
    std::vector<bool> is_taken(ranks_);
    for (const uint32_t rank : ranks) is_taken[rank] = true;
    uint32_t next = 0;
    const std::size_t of_rank = samples().count / ranks_,
                      most = is_short_ ? few_together : most_together;
    while (ranks.size() * 4 <= ranks_ && ranks.size() * 2 * of_rank <= most) {
        for (std::size_t count = ranks.size() * 2; ranks.size() < count; ++next) {
            if (is_taken[next]) continue;
            is_taken[next] = true;
            ranks.push_back(next);
        }
        if (!together(ranks)) continue;
        collect_ranks();
        return true;
    }
    return false;
}

/// All samples of some ranks to all their micro-batches, and these to the ranks.
bool StepRows::together(std::span<const uint32_t> ranks) {
    std::vector<uint32_t> items;
    for (const uint32_t rank : ranks)
        items.insert(items.end(), items_of(rank).begin(), items_of(rank).end());
    std::ranges::sort(items);
    const StepItems some = samples().of(items);
    const ItemTable costs = some.cost_table();
    const uint64_t parts = uint64_t{micro_batches_} * ranks.size();
    std::vector<uint32_t> part_of(items.size());
    if (!partitioner_.partition(costs, some.weight_table(), some.capacities,
                                {SAB_PARTITION_KARMARKAR_KARP, parts, false, 0, looks}, part_of) &&
        !FullestBins(some).pack(parts, part_of) &&
        !(is_long_ && items.size() == samples().count &&
          FittingSearch(some, 1, parts).find(part_of)))
        return false;
    std::vector<double> sums(costs.kinds * parts);
    for (std::size_t kind = 0; kind < costs.kinds; ++kind)
        for (std::size_t i = 0; i < costs.items; ++i)
            sums[kind * parts + part_of[i]] += costs[kind][i];
    parts_to_ranks({sums, costs.kinds, parts}, ranks.size(), part_of);
    if (costs.kinds == 1 && ranks.size() > 1)
        RankEvener(some, static_cast<uint32_t>(ranks.size()), micro_batches_, part_of).even_out();
    for (std::size_t i = 0; i < items.size(); ++i) {
        const uint32_t rank = ranks[part_of[i] / micro_batches_];
        part_of_[items[i]] = rank * micro_batches_ + part_of[i] % micro_batches_;
        rank_of_unit_[items[i]] = rank;
    }
    return true;
}

/// Units to ranks.
bool StepRows::to_ranks(Aim aim) {
    rank_of_unit_.resize(units_);
    PartitionRules rules{SAB_PARTITION_LONGEST_FIRST, ranks_, false, 0, looks};
    const ItemTable costs{unit_costs_, samples().cost_table().kinds, units_},
        weights{unit_weights_, samples().capacities.size(), units_};
    if (aim == Aim::costs && costs.kinds == 1 && samples().group_of.empty())
        rules.by_cost = by_cost_;
    if (aim != Aim::capacities)
        return partitioner_.partition(aim == Aim::costs ? costs : weights, {}, {}, rules,
                                      rank_of_unit_);
    // A rank leaves half of the free capacity, so that its samples fit its micro-batches.
    std::vector<double> capacities;
    for (std::size_t b = 0; b < weights.kinds; ++b) {
        const std::span<const double> each = weights[b];
        const double room = samples().capacities[b] * micro_batches_,
                     mean = std::accumulate(each.begin(), each.end(), 0.0) / ranks_;
        capacities.push_back(std::max((room + mean) / 2, std::ranges::max(each)));
        if (mean > room || capacities.back() > room) return false;
    }
    return partitioner_.partition(costs, weights, capacities, rules, rank_of_unit_);
}

/// The largest cost of each micro-step, when the micro-batches of each rank are sorted by cost.
std::vector<double> StepRows::profile() const {
    std::vector<double> costs(std::size_t{ranks_} * micro_batches_), largest(micro_batches_);
    for (std::size_t i = 0; i < samples().count; ++i) costs[part_of_[i]] += samples().costs[i];
    for (uint32_t rank = 0; rank < ranks_; ++rank) {
        const std::span<double> own =
            std::span(costs).subspan(std::size_t{rank} * micro_batches_, micro_batches_);
        std::ranges::sort(own, std::greater());
        for (uint32_t m = 0; m < micro_batches_; ++m) largest[m] = std::max(largest[m], own[m]);
    }
    return largest;
}

/// Where some ranks have a sample that costs more than a mean micro-batch, the others make their
/// first micro-batch costly, too: so their later ones need not be waited for.
void StepRows::even_micro_steps() {
    constexpr int most_rounds = 4;
    constexpr double even_enough = 1.003;
    if (ranks_ == 1 || micro_batches_ == 1) return;
    const auto sum_of = [](const std::vector<double>& numbers) {
        return std::accumulate(numbers.begin(), numbers.end(), 0.0);
    };
    const double mean = sum_of(samples().costs) / ranks_;
    std::vector<double> largest = profile(), targets(micro_batches_);
    std::vector<uint32_t> before;
    for (int round = 0; round < most_rounds && sum_of(largest) > mean * even_enough; ++round) {
        before.assign(part_of_.begin(), part_of_.end());
        for (uint32_t rank = 0; rank < ranks_; ++rank) {
            const std::span<const uint32_t> items = items_of(rank);
            double own = 0;
            for (const uint32_t item : items) own += samples().costs[item];
            std::ranges::transform(largest, targets.begin(),
                                   [&](double cost) { return cost * own / sum_of(largest); });
            if (longest_first(items, rank * micro_batches_, targets)) continue;
            for (const uint32_t item : items) part_of_[item] = before[item];
        }
        std::vector<double> found = profile();
        if (sum_of(found) >= sum_of(largest)) {
            std::ranges::copy(before, part_of_.begin());
            return;
        }
        largest = std::move(found);
    }
}

void StepRows::collect_ranks() {
    const auto rank_of = [&](std::size_t sample) {
        return rank_of_unit_[samples().group_of.empty() ? sample : samples().group_of[sample]];
    };
    rank_begin_.assign(ranks_ + 1, 0);
    for (std::size_t i = 0; i < samples().count; ++i) ++rank_begin_[rank_of(i) + 1];
    std::partial_sum(rank_begin_.begin(), rank_begin_.end(), rank_begin_.begin());
    by_rank_.resize(samples().count);
    std::vector<uint32_t> next(rank_begin_.begin(), rank_begin_.end() - 1);
    for (const uint32_t sample : by_cost_) by_rank_[next[rank_of(sample)]++] = sample;
}

/// Each sample, costliest first, to the micro-batch that costs least so far and has room, or with
/// `targets` the one that lacks most of its target. Of several costs the first is looked at.
bool StepRows::longest_first(std::span<const uint32_t> items, uint32_t first_part,
                             std::span<const double> targets) {
    const uint32_t parts = micro_batches_;
    if (parts > most_scanned) return false;
    costs_.assign(parts, 0);
    std::ranges::transform(targets, costs_.begin(), std::negate());
    weights_.assign(parts * samples().capacities.size(), 0);
    counts_.assign(parts, 0);
    const auto cheapest = [&](auto&& is_allowed) {
        uint32_t best = parts;
        for (uint32_t part = 0; part < parts; ++part)
            if (is_allowed(part) &&
                (best == parts || costs_[part] < costs_[best] ||
                 (costs_[part] == costs_[best] && counts_[part] < counts_[best])))
                best = part;
        return best;
    };
    for (const uint32_t item : items) {
        uint32_t best = cheapest([](uint32_t) { return true; });
        if (!has_room(best, item, nullptr))
            best = cheapest([&](uint32_t part) { return has_room(part, item, nullptr); });
        if (best == parts) return false;
        put(best, item, 1);
        ++counts_[best];
        part_of_[item] = first_part + best;
    }
    exchange(items, first_part);
    return true;
}

/// Exchanges samples of the micro-batch that costs most, or is farthest over its target, for
/// samples of the one that costs least.
void StepRows::exchange(std::span<const uint32_t> items, uint32_t first_part) {
    constexpr int most_exchanges = 4;
    constexpr double even_enough = 1e-3;  // of a mean micro-batch
    double sum = 0;
    for (const uint32_t item : items) sum += samples().costs[item];
    for (int k = 0; k < most_exchanges; ++k) {
        const auto [low, high] = std::ranges::minmax_element(costs_);
        const double gap = *high - *low;
        if (gap * micro_batches_ <= sum * even_enough) return;
        const auto from = static_cast<uint32_t>(high - costs_.begin()),
                   to = static_cast<uint32_t>(low - costs_.begin());
        if (!exchange(items, first_part, from, to, gap)) return;
    }
}

/// Exchanges the two samples that differ by nearly half of the gap.
bool StepRows::exchange(std::span<const uint32_t> items, uint32_t first_part, uint32_t from,
                        uint32_t to, double gap) {
    given_.resize(items.size());
    taken_.resize(items.size());
    std::size_t given = 0, taken = 0;
    for (const uint32_t item : items) {  // costliest first; without branches
        given_[given] = taken_[taken] = item;
        given += static_cast<std::size_t>(part_of_[item] == first_part + from);
        taken += static_cast<std::size_t>(part_of_[item] == first_part + to);
    }
    given_.resize(given);
    taken_.resize(taken);
    double best = gap / 2 * (1 - 1e-9);  // less could be rounding
    const uint32_t *ours = nullptr, *theirs = nullptr;
    std::size_t near = 0;
    for (const uint32_t& item : given_) {
        const double wanted = samples().costs[item] - gap / 2;
        while (near < taken_.size() && samples().costs[taken_[near]] > wanted) ++near;
        for (std::size_t at = near - std::min<std::size_t>(near, 1);
             at < std::min(near + 1, taken_.size()); ++at) {
            const double distance = std::abs(samples().costs[taken_[at]] - wanted);
            if (distance >= best || !has_room(to, item, &taken_[at]) ||
                !has_room(from, taken_[at], &item))
                continue;
            best = distance;
            ours = &item;
            theirs = &taken_[at];
        }
    }
    if (ours == nullptr) return false;
    const auto move = [&](uint32_t item, uint32_t before, uint32_t after) {
        put(before, item, -1);
        put(after, item, 1);
        part_of_[item] = first_part + after;
    };
    move(*ours, from, to);
    move(*theirs, to, from);
    return true;
}

bool StepRows::partition_rank(std::span<const uint32_t> items, uint32_t first_part) {
    const std::size_t count = items.size();
    std::vector<uint32_t> in_order(items.begin(), items.end());
    std::ranges::sort(in_order);
    const auto gather = [&](const ItemTable& table, std::vector<double>& numbers) {
        numbers.clear();
        for (std::size_t kind = 0; kind < table.kinds; ++kind)
            for (const uint32_t item : in_order) numbers.push_back(table[kind][item]);
        return ItemTable{numbers, table.kinds, count};
    };
    const ItemTable costs = gather(samples().cost_table(), costs_),
                    weights = gather(samples().weight_table(), weights_);
    parts_.resize(count);
    if (!of_rank_.partition(costs, weights, samples().capacities,
                            {SAB_PARTITION_KARMARKAR_KARP, micro_batches_, false, 0, looks},
                            parts_))
        return false;
    for (std::size_t i = 0; i < count; ++i) part_of_[in_order[i]] = first_part + parts_[i];
    return true;
}

}  // namespace sab
