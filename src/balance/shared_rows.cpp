#include "balance/shared_rows.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <numeric>
#include <utility>

#include "balance/micro_batches.h"
#include "balance/rank_evener.h"
#include "balance/shared_evener.h"
#include "balance/shared_exact.h"
#include "base/progress.h"
#include "base/rounding.h"

namespace sab {
namespace {

constexpr double never = std::numeric_limits<double>::infinity();
// The first cuts least, the last fills micro-batches at any cost.
constexpr Cutting cuttings[] = {{1, 0},        {1, 0.1},       {0.25, 0.1},
                                {0.0625, 0.2}, {0.03125, 0.4}, {0, 1}};
constexpr int most_halvings = 8;
constexpr double near_even = 1.0005;        // the costliest rank, to the mean of the cheapest way
constexpr double micro_batch_share = 0.05;  // of a full one's cost, in the choice of their number
constexpr std::size_t looks = 64;           // in PartitionRules
constexpr std::size_t most_pieces = 4096;   // of trees, that are divided by it

double sum_of(std::span<const Load> loads) {
    double sum = 0;
    for (const Load& load : loads) sum += load[0];
    return sum;
}

}  // namespace

SharedDivider::SharedDivider(const SharedItems& items, uint64_t ranks)
    : items_(items),
      ranks_(static_cast<uint32_t>(ranks)),
      filler_(items),
      part_of_(items.count),
      best_(items.count) {
    for (const Cutting& cutting : cuttings) {
        const ProgressPart own(ways_.size(), std::size(cuttings));
        const std::size_t parts = filler_.fill(items.limits, cutting, items.count, part_of_);
        if (ways_.empty()) whole_ = part_of_;
        ways_.push_back({cutting, parts, sum_of(items.loads_of(part_of_, parts))});
        if (parts <= 1) break;
    }
}

const SharedDivider::Way* SharedDivider::best_way(std::size_t parts) const {
    const Way* best = nullptr;
    for (const Way& way : ways_)
        if (way.parts <= parts && (best == nullptr || way.cost < best->cost)) best = &way;
    return best;
}

double SharedDivider::divide(uint64_t micro_batches, std::span<uint32_t> part_of) {
    if (items_.count == 0) return 0;
    micro_batches_ = static_cast<uint32_t>(micro_batches);
    const std::size_t parts = std::size_t{ranks_} * micro_batches_;
    most_ = never;
    constexpr uint64_t assignments = 3;
    if (const Way* const way = best_way(parts)) {
        const ProgressPart own(0, assignments);
        filler_.fill(items_.limits, way->cutting, parts, part_of_);
        keep_if_better();
    }
    const double even = std::ranges::min(ways_, {}, &Way::cost).cost / ranks_;
    if (ranks_ > 1 && most_ > even * near_even) {
        const ProgressPart own(1, assignments);
        fill_evenly(parts);
    }
    if (ranks_ > 1 && most_ > even * near_even) {
        const ProgressPart own(2, assignments);
        partition_pieces(parts);
    }
    if (most_ < never) std::ranges::copy(best_, part_of.begin());
    return most_;
}

SharedDivider::Pieces SharedDivider::pieces_of(std::span<const uint32_t> part_of,
                                               std::size_t parts) const {
    Pieces pieces;
    pieces.of_leaf.resize(items_.count);
    std::vector<Load> loads;
    std::vector<uint32_t> piece_of(parts), last(parts, Forest::none);  // leaf of each part
    for (uint32_t leaf = 0; leaf < items_.count; ++leaf) {
        const uint32_t part = part_of[leaf], before = std::exchange(last[part], leaf);
        if (before == Forest::none || items_.tree[before] != items_.tree[leaf]) {
            piece_of[part] = static_cast<uint32_t>(loads.size());
            pieces.part_of.push_back(part);
            items_.add_first(loads.emplace_back(), leaf);
        } else {
            items_.add(loads[piece_of[part]], before, leaf);
        }
        pieces.of_leaf[leaf] = piece_of[part];
    }
    StepItems& items = pieces.items;
    items.count = loads.size();
    items.is_one_cost = items_.first_weight == 0;
    for (const Load& load : loads) items.costs.push_back(load[0]);
    for (std::size_t k = items_.first_weight; k < items_.kinds; ++k) {
        items.capacities.push_back(items_.limits[k]);
        for (const Load& load : loads) items.weights.push_back(load[k]);
    }
    return pieces;
}

/// The pieces of the way that cuts no tree, to micro-batches that are even.
void SharedDivider::partition_pieces(std::size_t parts) {
    const Pieces pieces = pieces_of(whole_, std::max(parts, ways_[0].parts));
    if (pieces.items.count > most_pieces) return;
    std::vector<uint32_t> part_of(pieces.items.count);
    if (!partitioner_.partition(pieces.items.cost_table(), pieces.items.weight_table(),
                                pieces.items.capacities, {parts, false, 0, looks}, part_of))
        return;
    for (std::size_t leaf = 0; leaf < items_.count; ++leaf)
        part_of_[leaf] = part_of[pieces.of_leaf[leaf]];
    keep_if_better();
}

/// Up to the lowest cost of all with which there are not too many.
void SharedDivider::fill_evenly(std::size_t parts) {
    Load limits = items_.limits;
    double low = 0, high = limits[0];
    for (uint32_t leaf = 0; leaf < items_.count; ++leaf)
        low = std::max(low, items_.alone[leaf * items_.kinds]);
    low = std::max(low, ways_[0].cost / static_cast<double>(parts) * 0.98);
    if (high == never) high = std::max(low, ways_[0].cost);
    std::vector<uint32_t> found;
    for (int k = 0; k < most_halvings && low < high; ++k) {
        limits[0] = k == 0 ? high : (low + high) / 2;
        if (filler_.fill(limits, {0, 0.1}, parts, part_of_) > 0) {
            high = limits[0];
            found = part_of_;
        } else if (k == 0) {
            return;
        } else {
            low = limits[0];
        }
    }
    if (found.empty()) return;
    part_of_ = std::move(found);
    keep_if_better();
}

/// The same number of micro-batches to each rank, so that ranks cost the same.
void SharedDivider::put_on_ranks() {
    if (ranks_ == 1) return;
    const std::size_t parts = std::size_t{ranks_} * micro_batches_;
    std::vector<double> costs;
    costs.reserve(parts);
    for (const Load& load : items_.loads_of(part_of_, parts)) costs.push_back(load[0]);
    parts_to_ranks({costs, 1, parts}, ranks_, part_of_);
    if (costliest_rank() <= sum_of(items_.loads_of(part_of_, parts)) / ranks_ * near_even) return;
    Pieces pieces = pieces_of(part_of_, parts);
    even_ranks(pieces.items, ranks_, micro_batches_, near_even - 1, pieces.part_of);
    for (std::size_t leaf = 0; leaf < items_.count; ++leaf)
        part_of_[leaf] = pieces.part_of[pieces.of_leaf[leaf]];
    SharedEvener(items_, ranks_, micro_batches_, part_of_).even_out();
}

double SharedDivider::costliest_rank() const {
    const std::vector<Load> loads = items_.loads_of(part_of_, std::size_t{ranks_} * micro_batches_);
    double most = 0;
    for (std::size_t part = 0; part < loads.size(); part += micro_batches_)
        most = std::max(most, sum_of(std::span(loads).subspan(part, micro_batches_)));
    return most;
}

void SharedDivider::keep_if_better() {
    put_on_ranks();
    const double most = costliest_rank();
    if (most >= most_) return;
    most_ = most;
    best_ = part_of_;
}

SharedRows::SharedRows(const Forest& forest, const StepSamples& samples,
                       const sab_step_plan_options& options)
    : options_(options) {
    SharedBounds bounds;
    items_ = SharedItems(forest, samples, bounds);
    const auto ranks = static_cast<double>(options.world_size);
    double filled = bounds.filled / ranks;
    if (options.whole_groups != 0) {
        filled = std::max(filled, bounds.unit_filled);
        for (const uint32_t sample : items_.sample) unit_of_.push_back(samples.group_of[sample]);
    }
    least_ = std::max(uint64_t{1}, static_cast<uint64_t>(std::ceil(filled * (1 - 1e-12))));
    least_cost_ = bounds.cost / ranks;
    part_value_ = micro_batch_share * least_cost_ / static_cast<double>(least_);
}

uint64_t SharedRows::rounded(uint64_t micro_batches) const {
    return next_multiple(micro_batches, options_.multiple);
}

uint64_t SharedRows::assign(uint64_t given, std::span<uint32_t> part_of) {
    std::vector<uint32_t> part_of_leaf(items_.count);
    const uint64_t micro_batches = items_.count <= SharedExact::most_leaves
                                       ? assign_few(given, part_of_leaf)
                                       : assign_many(given, part_of_leaf);
    for (std::size_t leaf = 0; leaf < items_.count && micro_batches > 0; ++leaf)
        part_of[items_.sample[leaf]] = part_of_leaf[leaf];
    return micro_batches;
}

uint64_t SharedRows::assign_few(uint64_t given, std::span<uint32_t> part_of) {
    SharedExact exact(items_, options_.world_size, unit_of_);
    const uint64_t most = std::min<uint64_t>(given > 0 ? given : items_.count, items_.count);
    uint64_t best = 0;
    double least = never;
    for (uint64_t count = 1; count <= most; ++count) {
        if (least_cost_ + value_of(rounded(count)) >= least) break;
        const uint64_t micro_batches = given > 0 ? given : rounded(count);
        const double cost = exact.next();
        if (cost == never || (count < most && (given > 0 || count < micro_batches))) continue;
        if (cost + value_of(micro_batches) >= least) continue;
        least = cost + value_of(micro_batches);
        best = micro_batches;
        exact.write(micro_batches, part_of);
    }
    return best;
}

uint64_t SharedRows::assign_many(uint64_t given, std::span<uint32_t> part_of) {
    divide_units();
    std::vector<SharedDivider> dividers;
    const std::size_t count = of_ranks_.size();
    dividers.reserve(count);
    for (const SharedItems& each : of_ranks_) {
        const ProgressPart own_part(dividers.size(), 2 * count);
        dividers.emplace_back(each, options_.world_size / count);
    }
    const uint64_t micro_batches = given > 0 ? given : choose_count(dividers);
    if (micro_batches > most_parts / options_.world_size) return micro_batches;  // to be refused
    std::vector<uint32_t> own;
    for (std::size_t rank = 0; rank < count; ++rank) {
        const ProgressPart own_part(count + rank, 2 * count);
        own.resize(of_ranks_[rank].count);
        if (dividers[rank].divide(micro_batches, own) == never) return 0;
        const auto first = static_cast<uint32_t>(rank * micro_batches);
        for (std::size_t i = 0; i < own.size(); ++i)
            part_of[leaves_of_rank_[rank][i]] = first + own[i];
    }
    return micro_batches;
}

/// The leaves of each rank where units are whole, else one set for all ranks.
void SharedRows::divide_units() {
    if (unit_of_.empty()) {
        leaves_of_rank_.resize(1);
        leaves_of_rank_[0].resize(items_.count);
        std::iota(leaves_of_rank_[0].begin(), leaves_of_rank_[0].end(), 0u);
        of_ranks_.push_back(items_);
        return;
    }
    std::vector<std::vector<uint32_t>> units(std::ranges::max(unit_of_) + 1);
    for (uint32_t leaf = 0; leaf < items_.count; ++leaf) units[unit_of_[leaf]].push_back(leaf);
    std::vector<double> costs;
    costs.reserve(units.size());
    for (const std::vector<uint32_t>& unit : units) costs.push_back(items_.load_of(unit)[0]);
    std::vector<uint32_t> rank_of(units.size());
    VectorPartitioner().partition({costs, 1, costs.size()}, {}, {},
                                  {options_.world_size, false, 0, looks}, rank_of);
    leaves_of_rank_.resize(options_.world_size);
    for (uint32_t leaf = 0; leaf < items_.count; ++leaf)
        leaves_of_rank_[rank_of[unit_of_[leaf]]].push_back(leaf);
    for (const std::vector<uint32_t>& leaves : leaves_of_rank_)
        of_ranks_.push_back(items_.of(leaves));
}

/// By what the ways cost, if ranks could be even.
uint64_t SharedRows::choose_count(std::span<const SharedDivider> dividers) const {
    const auto ranks = options_.world_size / dividers.size();
    std::vector<uint64_t> counts;
    for (const SharedDivider& each : dividers)
        for (const SharedDivider::Way& way : each.ways())
            counts.push_back(rounded(std::max<uint64_t>(least_, (way.parts + ranks - 1) / ranks)));
    std::ranges::sort(counts);
    counts.erase(std::ranges::unique(counts).begin(), counts.end());
    uint64_t best = counts.back();
    double least = never;
    for (const uint64_t count : counts) {
        double most = 0;  // cost of the costliest rank
        for (const SharedDivider& each : dividers)
            if (const SharedDivider::Way* const way = each.best_way(count * ranks))
                most = std::max(most, way->cost / static_cast<double>(ranks));
            else
                most = never;
        if (most + value_of(count) >= least) continue;
        least = most + value_of(count);
        best = count;
    }
    return best;
}

std::vector<double> SharedRows::costs(std::span<const uint32_t> part_of, std::size_t parts) const {
    std::vector<uint32_t> part_of_leaf;
    part_of_leaf.reserve(items_.count);
    for (const uint32_t sample : items_.sample) part_of_leaf.push_back(part_of[sample]);
    std::vector<double> costs;
    costs.reserve(parts);
    for (const Load& load : items_.loads_of(part_of_leaf, parts)) costs.push_back(load[0]);
    return costs;
}

}  // namespace sab
