#include "balance/step_rows.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "balance/micro_batches.h"
#include "balance/rank_evener.h"
#include "balance/tight_bins.h"
#include "base/sorting.h"

namespace sab {
namespace {

constexpr std::size_t most_together = 8192;  // samples, where capacities are tight
constexpr std::size_t most_again = 2048;     // to make ranks more even
constexpr std::size_t most_searched = 256;   // by search_fitting()
constexpr std::size_t most_exchanged = 256;  // groups, where ranks do not fit
constexpr double most_uneven = 1.0015;       // the costliest rank, to what it cannot be below
// Above this load one more micro-batch is allowed, so the search is short: fewer samples are
// assigned together. Few ranks may fail, and few samples may need more than longest-first.
constexpr double high_load = 0.98;
constexpr std::size_t few_together = 512, few_failed = 4, few_partitioned = 8192;

}  // namespace

void StepRows::begin(const StepItems& samples, uint64_t world_size) {
    samples_ = &samples;
    ranks_ = static_cast<uint32_t>(world_size);
    units_ = samples.group_of.empty() ? samples.count : samples.group_counts.size();
    by_cost_ = by_descending(samples.cost_table()[0]);
    find_units();
}

/// The costs and weights of samples, or their sums in each group.
void StepRows::find_units() {
    unit_costs_ = samples().costs;
    unit_weights_ = samples().weights;
    if (samples().group_of.empty()) return;
    unit_costs_ = group_costs_ = samples().cost_table().sums(samples().group_of, units_);
    unit_weights_ = group_weights_ = samples().weight_table().sums(samples().group_of, units_);
}

uint64_t StepRows::least() const {
    double least = 1;
    for (std::size_t b = 0; b < samples().capacities.size(); ++b) {
        const std::span<const double> weights = samples().weight_table()[b];
        const double capacity = samples().capacities[b],
                     bins = least_bins(weights, capacity,
                                       samples().is_one_cost ? by_cost_ : by_descending(weights));
        const double unit = std::ranges::max(unit_weights_.subspan(b * units_, units_));
        least =
            std::max({least, std::ceil(bins / ranks_), std::ceil(unit / capacity * (1 - 1e-12))});
    }
    return static_cast<uint64_t>(least);
}

uint64_t StepRows::enough() const {
    if (has_groups() || samples().capacities.size() < 2) return 0;
    std::vector<uint32_t> bins(samples().count);
    return (pack_first_fit(samples(), samples().count, bins) + ranks_ - 1) / ranks_;
}

bool StepRows::assign(uint64_t micro_batches, Effort effort, std::span<uint32_t> part_of) {
    micro_batches_ = static_cast<uint32_t>(micro_batches);
    part_of_ = part_of;
    find_units();  // again, since weights may have been rounded
    for (std::size_t b = 0; b < samples().capacities.size(); ++b)
        if (is_impossible(samples().weight_table()[b], micro_batches * ranks_,
                          samples().capacities[b]))
            return false;
    effort_ = effort;
    is_short_ = effort == Effort::less && load() > high_load && samples().count > few_together;
    is_long_ = effort != Effort::usual && samples().count <= most_searched;
    is_each_ = effort != Effort::usual && samples().cost_table().kinds > 1;
    best_.clear();
    if (is_each_ ? assign_each(effort) : assign_usual()) return true;
    if (has_groups() && best_.empty())
        return (!samples().is_one_cost && by_ranks(Aim::weights)) ||
               (is_long_ && search_fitting(samples(), ranks_, micro_batches_, part_of_));
    if (!has_groups() && !begins_together() && samples().count <= most_at_once() && all_together())
        return true;
    std::ranges::copy(best_, part_of_.begin());
    return !best_.empty();
}

/// By ranks that are even in one cost, or in all of several. Whether they are even enough.
bool StepRows::assign_usual() {
    if (begins_together() && all_together()) return true;
    if (by_ranks(Aim::costs) && (!is_mended_ || is_even_enough())) return true;
    return (has_groups() ? best_.empty() : !samples().is_one_cost) && by_ranks(Aim::capacities) &&
           is_even_enough();
}

/// The same where there is time to look at each of several costs alone, too.
bool StepRows::assign_each(Effort effort) {
    if (begins_together()) all_together();  // is_even_enough() keeps it
    if (by_each_cost(effort)) return true;
    if ((best_.empty() || samples().count <= most_again) && by_ranks(Aim::costs) &&
        is_even_enough())
        return true;
    return best_.empty() && by_ranks(Aim::capacities) && is_even_enough();
}

/// As for each of several costs alone, so that none of them gives ranks that are more even. Whether
/// the most even ranks so far are even enough.
bool StepRows::by_each_cost(Effort effort) {
    StepItems alone = samples();
    StepRows rows;
    bool is_enough = !best_.empty() && most_of_best_ <= most_uneven;
    for (std::size_t kind = 0; kind < samples().cost_table().kinds; ++kind) {
        const std::span<const double> costs = samples().cost_table()[kind];
        alone.costs.assign(costs.begin(), costs.end());
        rows.begin(alone, ranks_);  // it writes the assignment of this one
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
    return most <= most_uneven;
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
    if (ranks_ == 1 && aim != Aim::costs) return false;  // the same again
    if (!to_ranks(aim)) return false;
    collect_ranks();
    std::vector<uint32_t> failed;
    partitioned_ = 0;
    for (uint32_t rank = 0; rank < ranks_; ++rank) {
        if (!assign_rank(rank)) failed.push_back(rank);
        if (is_short_ && (failed.size() > few_failed || partitioned_ > few_partitioned))
            return false;
        if (!has_groups() && !failed.empty() && !may_join(failed.size())) return false;
    }
    is_mended_ = !failed.empty() && !has_groups();
    if (is_mended_ && !with_others(failed)) return false;
    if (!failed.empty() && has_groups() && !with_other_groups(failed)) return false;
    if (samples().cost_table().kinds == 1) even_micro_steps();
    return true;
}

/// A few ranks whose groups do not fit: each exchanges one of them for another rank's, of about the
/// same weight.
bool StepRows::with_other_groups(std::span<const uint32_t> failed) {
    const std::size_t work = samples().count * std::max<std::size_t>(micro_batches_, 16);
    std::size_t tries = std::min(most_exchanged, (std::size_t{1} << 24) / work);
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
    // Each pass pairs every other group with another one of this rank, so that none is tried first.
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

/// Whether so many ranks are few enough for as many others to join them.
bool StepRows::may_join(std::size_t ranks) const {
    return ranks * 4 <= ranks_ &&
           ranks * 2 * (samples().count / ranks_) <= (is_short_ ? few_together : most_together);
}

/// A few ranks whose samples do not fit: together with others, more and more of them.
bool StepRows::with_others(std::span<const uint32_t> failed) {
    std::vector<uint32_t> ranks(failed.begin(), failed.end());
    std::vector<bool> is_taken(ranks_);
    for (const uint32_t rank : ranks) is_taken[rank] = true;
    uint32_t next = 0;
    while (may_join(ranks.size())) {
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

/// Micro-batches under several budgets. Not for balanced samplers, whose states keep their order.
bool StepRows::pack_first(const StepItems& some, uint64_t parts, std::span<uint32_t> part_of) {
    return effort_ != Effort::usual && some.capacities.size() > 1 &&
           pack_first_fit(some, parts, part_of) > 0;
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
                                {parts, false, 0, looks}, part_of) &&
        !pack_fullest(some, parts, part_of) && !pack_first(some, parts, part_of) &&
        !(is_long_ && items.size() == samples().count && search_fitting(some, 1, parts, part_of)))
        return false;
    const std::vector<double> sums = costs.sums(part_of, parts);
    parts_to_ranks({sums, costs.kinds, parts}, ranks.size(), part_of);
    if (costs.kinds == 1 && ranks.size() > 1)
        even_ranks(some, static_cast<uint32_t>(ranks.size()), micro_batches_, 1e-5, part_of);
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
    PartitionRules rules{ranks_, false, 0, looks};
    rules.is_longest_first = true;
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

void StepRows::collect_ranks() {
    const auto rank_of = [&](std::size_t sample) {
        return rank_of_unit_[samples().group_of.empty() ? sample : samples().group_of[sample]];
    };
    by_rank_.resize(samples().count);
    group_items(
        samples().count, ranks_, rank_begin_, [&](std::size_t i) { return rank_of(by_cost_[i]); },
        [&](std::size_t i, uint32_t place) { by_rank_[place] = by_cost_[i]; });
}

}  // namespace sab
