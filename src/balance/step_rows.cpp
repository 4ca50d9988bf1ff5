#include "balance/step_rows.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace sab {
namespace {

constexpr uint32_t most_scanned = 64;  // micro-batches of a rank that are looked at for each sample

/// Martello and Toth's bound on the bins of some weights. For a weight w the items above
/// capacity - w and those above half of the capacity are alone in their bins; items from w up to
/// half of the capacity fill what these leave free, and further bins.
double least_bins(std::span<const double> weights, double capacity) {
    const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
    // sums are rounded
    double least = std::ceil(sum / capacity * (1 - 1e-12));
    if (std::ranges::none_of(weights, [&](double each) { return each > capacity / 2; }))
        return least;
    std::vector<double> sorted(weights.begin(), weights.end());
    std::ranges::sort(sorted, std::greater());
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

}  // namespace

uint64_t least_rows(const StepSamples& samples, uint64_t world_size) {
    double least = 1;
    for (std::size_t b = 0; b < samples.budgets.size(); ++b) {
        const std::span<const double> weights = samples.weight_table()[b];
        const double capacity = samples.capacities[b];
        least = std::max(least, std::ceil(least_bins(weights, capacity) /
                                          static_cast<double>(world_size)));
        std::vector<double> groups(samples.group_counts.size());
        for (std::size_t i = 0; i < samples.group_of.size(); ++i)
            groups[samples.group_of[i]] += weights[i];
        for (const double group : groups)
            least = std::max(least, std::ceil(group / capacity * (1 - 1e-12)));
    }
    return static_cast<uint64_t>(least);
}

void parts_to_ranks(const ItemTable& part_costs, uint64_t world_size,
                    std::span<uint32_t> part_of) {
    const std::size_t parts = part_costs.items;
    std::vector<uint32_t> rank_of(parts), next(world_size);
    VectorPartitioner().partition(part_costs, {}, {},
                                  {SAB_PARTITION_KARMARKAR_KARP, world_size, true}, rank_of);
    const auto of_rank = static_cast<uint32_t>(parts / world_size);
    for (uint32_t& rank : rank_of) rank = rank * of_rank + next[rank]++;
    for (uint32_t& part : part_of) part = rank_of[part];
}

StepRows::StepRows(const StepSamples& samples, uint64_t world_size)
    : samples_(samples),
      ranks_(static_cast<uint32_t>(world_size)),
      units_(samples.group_of.empty() ? samples.count : samples.group_counts.size()) {
    by_cost_.resize(samples.count);
    std::iota(by_cost_.begin(), by_cost_.end(), 0u);
    std::ranges::sort(by_cost_, [&](uint32_t a, uint32_t b) {
        return samples.costs[a] != samples.costs[b] ? samples.costs[a] > samples.costs[b] : a < b;
    });
    find_units();
}

/// The costs and weights of samples, or their sums in each group.
void StepRows::find_units() {
    unit_costs_ = samples_.costs;
    unit_weights_ = samples_.weights;
    if (samples_.group_of.empty()) return;
    const auto add_up = [&](const ItemTable& table, std::vector<double>& sums) {
        sums.assign(table.kinds * units_, 0);
        for (std::size_t kind = 0; kind < table.kinds; ++kind)
            for (std::size_t i = 0; i < table.items; ++i)
                sums[kind * units_ + samples_.group_of[i]] += table[kind][i];
        return std::span<const double>(sums);
    };
    unit_costs_ = add_up(samples_.cost_table(), group_costs_);
    unit_weights_ = add_up(samples_.weight_table(), group_weights_);
}

bool StepRows::assign(uint64_t micro_batches, std::span<uint32_t> part_of) {
    micro_batches_ = static_cast<uint32_t>(micro_batches);
    part_of_ = part_of;
    if (by_ranks(false)) return true;
    if (!samples_.group_of.empty()) return !samples_.is_one_cost && by_ranks(true);
    const uint64_t parts = micro_batches * ranks_;
    if (!partitioner_.partition(samples_.cost_table(), samples_.weight_table(),
                                samples_.capacities, {SAB_PARTITION_KARMARKAR_KARP, parts, false},
                                part_of))
        return false;
    const ItemTable costs = samples_.cost_table();
    std::vector<double> sums(costs.kinds * parts);
    for (std::size_t kind = 0; kind < costs.kinds; ++kind)
        for (std::size_t i = 0; i < costs.items; ++i)
            sums[kind * parts + part_of[i]] += costs[kind][i];
    parts_to_ranks({sums, costs.kinds, parts}, ranks_, part_of);
    return true;
}

/// First to ranks, then those of each rank to its micro-batches.
bool StepRows::by_ranks(bool by_weight) {
    if (!to_ranks(by_weight)) return false;
    collect_ranks();
    for (uint32_t rank = 0; rank < ranks_; ++rank) {
        const std::span items =
            std::span(by_rank_).subspan(rank_begin_[rank], rank_begin_[rank + 1] - rank_begin_[rank]);
        const uint32_t first_part = rank * micro_batches_;
        if (!longest_first(items, first_part) && !partition_rank(items, first_part)) return false;
    }
    return true;
}

/// Units to ranks. A rank leaves half of the free capacity, so that its samples fit.
bool StepRows::to_ranks(bool by_weight) {
    rank_of_unit_.resize(units_);
    const PartitionRules rules{SAB_PARTITION_LONGEST_FIRST, ranks_, false};
    const ItemTable weights{unit_weights_, samples_.budgets.size(), units_};
    if (by_weight)
        return partitioner_.partition(weights, {}, {}, rules, rank_of_unit_);
    const ItemTable costs{unit_costs_, samples_.balance.size(), units_};
    // Even costs are even weights.
    if (samples_.is_one_cost) return partitioner_.partition(costs, {}, {}, rules, rank_of_unit_);
    std::vector<double> capacities;
    for (std::size_t b = 0; b < weights.kinds; ++b) {
        const std::span<const double> each = weights[b];
        const double room = samples_.capacities[b] * micro_batches_,
                     mean = std::accumulate(each.begin(), each.end(), 0.0) / ranks_;
        capacities.push_back(std::max(std::floor((room + mean) / 2), std::ranges::max(each)));
        if (mean > room || capacities.back() > room) return false;
    }
    return partitioner_.partition(costs, weights, capacities, rules, rank_of_unit_);
}

void StepRows::collect_ranks() {
    const auto rank_of = [&](std::size_t sample) {
        return rank_of_unit_[samples_.group_of.empty() ? sample : samples_.group_of[sample]];
    };
    rank_begin_.assign(ranks_ + 1, 0);
    for (std::size_t i = 0; i < samples_.count; ++i) ++rank_begin_[rank_of(i) + 1];
    std::partial_sum(rank_begin_.begin(), rank_begin_.end(), rank_begin_.begin());
    by_rank_.resize(samples_.count);
    std::vector<uint32_t> next(rank_begin_.begin(), rank_begin_.end() - 1);
    for (const uint32_t sample : by_cost_) by_rank_[next[rank_of(sample)]++] = sample;
}

/// Each sample to the micro-batch that costs least so far and has room. Of several costs and
/// budgets the first is looked at.
bool StepRows::longest_first(std::span<const uint32_t> items, uint32_t first_part) {
    const uint32_t parts = micro_batches_;
    const std::size_t caps = samples_.budgets.size();
    if (samples_.balance.size() > 1 || caps > 1 || parts > most_scanned) return false;
    costs_.assign(parts, 0);
    weights_.assign(parts, 0);
    counts_.assign(parts, 0);
    const double capacity = caps > 0 ? samples_.capacities[0] : 0;
    for (const uint32_t item : items) {
        const double weight = caps > 0 ? samples_.weights[item] : 0;
        uint32_t best = parts;
        for (uint32_t part = 0; part < parts; ++part) {
            if (weights_[part] + weight > capacity) continue;
            if (best == parts || costs_[part] < costs_[best] ||
                (costs_[part] == costs_[best] && counts_[part] < counts_[best]))
                best = part;
        }
        if (best == parts) return false;
        costs_[best] += samples_.costs[item];
        weights_[best] += weight;
        ++counts_[best];
        part_of_[item] = first_part + best;
    }
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
    const ItemTable costs = gather(samples_.cost_table(), costs_),
                    weights = gather(samples_.weight_table(), weights_);
    parts_.resize(count);
    if (!of_rank_.partition(costs, weights, samples_.capacities,
                            {SAB_PARTITION_KARMARKAR_KARP, micro_batches_, false}, parts_))
        return false;
    for (std::size_t i = 0; i < count; ++i) part_of_[in_order[i]] = first_part + parts_[i];
    return true;
}

}  // namespace sab
