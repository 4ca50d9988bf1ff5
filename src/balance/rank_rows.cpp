// StepRows: the samples of a rank to its micro-batches.
#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "balance/step_rows.h"
#include "balance/tight_bins.h"

namespace sab {
namespace {

constexpr uint32_t most_scanned = 64;  // micro-batches that are looked at for each sample

}  // namespace

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
    std::vector<uint32_t> in_order(items.begin(), items.end());
    std::ranges::sort(in_order);
    const StepItems some = samples().of(in_order);
    parts_.resize(some.count);
    if (!of_rank_.partition(some.cost_table(), some.weight_table(), some.capacities,
                            {micro_batches_, false, 0, looks}, parts_))
        return false;
    for (std::size_t i = 0; i < some.count; ++i) part_of_[in_order[i]] = first_part + parts_[i];
    return true;
}

/// Samples that may not go to another rank: micro-batches as full as possible.
bool StepRows::fill_rank(std::span<const uint32_t> items, uint32_t first_part) {
    const StepItems some = samples().of(items);
    parts_.resize(items.size());
    if (!pack_fullest(some, micro_batches_, parts_) && !pack_first(some, micro_batches_, parts_))
        return false;
    for (std::size_t i = 0; i < items.size(); ++i) part_of_[items[i]] = first_part + parts_[i];
    return true;
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

}  // namespace sab
