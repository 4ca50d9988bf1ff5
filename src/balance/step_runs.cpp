#include "balance/step_runs.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <utility>

#include "balance/micro_batches.h"
#include "base/rounding.h"
#include "base/sorting.h"

namespace sab {
namespace {

/// Of the balanced costs: 1 / mean of the samples alone.
PerBudget scales_of(const StepSamples& samples) {
    PerBudget scales{};
    for (std::size_t k = 0; k < samples.balance.size(); ++k) {
        const std::span<const double> costs = samples.cost_table()[k];
        const double sum = std::accumulate(costs.begin(), costs.end(), 0.0);
        scales[k] = sum > 0 ? static_cast<double>(samples.count) / sum : 0;
    }
    return scales;
}

/// Groups to ranks, none of which has more than some number of runs. Depth first: the costliest
/// group that is left, to the rank that costs least so far and may take it. The work is bounded.
class RankSearch {
public:
    using Runs = std::function<std::size_t(std::span<const uint32_t> sorted)>;

    /// `all`: the samples, longest first. `costs`: of the groups, perhaps several of each.
    RankSearch(const StepSamples& samples, std::span<const uint32_t> all,
               std::span<const double> costs, uint64_t ranks, uint64_t most_runs, Runs runs)
        : costs_(costs.first(samples.group_counts.size())),
          most_runs_(most_runs),
          runs_(std::move(runs)),
          order_(by_descending(costs_)),
          groups_(costs_.size()),
          places_(std::min<uint64_t>(ranks, groups_.size())),
          loads_(places_.size()),
          levels_(costs_.size()),
          all_(all) {
        for (uint32_t place = 0; place < all.size(); ++place)
            groups_[samples.group_of[all[place]]].push_back(place);
    }

    /// Changes `rank_of` only when it succeeds.
    bool find(std::vector<uint32_t>& rank_of) {
        found_.resize(rank_of.size());
        if (order_.size() > most_groups || !place(0)) return false;
        rank_of = found_;
        return true;
    }

private:
    static constexpr std::size_t most_groups = 256, most_work = std::size_t{1} << 16;

    /// Kept from one call to the next, so that the search allocates little.
    struct Level {
        std::vector<uint32_t> ranks;  ///< those that cost least first
        std::vector<uint32_t> both;   ///< places of a rank before its last group, or with it
    };

    bool place(std::size_t at) {
        if (at == order_.size()) return true;
        const uint32_t group = order_[at];
        auto& [ranks, both] = levels_[at];
        ranks.resize(loads_.size());
        std::iota(ranks.begin(), ranks.end(), 0u);
        std::ranges::sort(ranks, {}, [&](uint32_t rank) { return std::pair(loads_[rank], rank); });
        bool is_any_free = false;
        for (const uint32_t rank : ranks) {
            if (places_[rank].empty() && std::exchange(is_any_free, true)) continue;  // all alike
            both.resize(places_[rank].size() + groups_[group].size());
            if (both.size() > work_) return false;
            work_ -= both.size();
            std::ranges::merge(places_[rank], groups_[group], both.begin());
            sorted_.resize(both.size());
            std::ranges::transform(both, sorted_.begin(), [&](uint32_t one) { return all_[one]; });
            if (runs_(sorted_) > most_runs_) continue;
            found_[group] = rank;
            loads_[rank] += costs_[group];
            both.swap(places_[rank]);
            if (place(at + 1)) return true;
            both.swap(places_[rank]);
            loads_[rank] -= costs_[group];
        }
        return false;
    }

    std::span<const double> costs_;
    uint64_t most_runs_;
    Runs runs_;
    std::vector<uint32_t> order_;
    std::vector<std::vector<uint32_t>> groups_,
        places_;                 ///< of each group, and of each rank that may have one: in all_
    std::vector<double> loads_;  ///< of the ranks
    std::vector<Level> levels_;  ///< by the number of groups that are placed
    std::vector<uint32_t> sorted_;
    std::span<const uint32_t> all_;
    std::vector<uint32_t> found_;
    std::size_t work_ = most_work;
};

}  // namespace

StepRuns::StepRuns(const StepSamples& samples, uint64_t world_size)
    : samples_(samples),
      ranks_(world_size),
      scales_(scales_of(samples)),
      runs_(samples.columns, samples.budgets, samples.balance, scales_) {
    sort();
}

/// By the largest share of a budget that a sample takes alone, then by size. A group goes to a rank
/// by the sum of the costs of its samples alone.
void StepRuns::sort() {
    const std::size_t count = samples_.count;
    std::vector<double> shares(count);
    const ItemTable& keys =
        samples_.budgets.empty() ? samples_.cost_table() : samples_.weight_table();
    for (std::size_t kind = 0; kind < keys.kinds; ++kind)
        for (std::size_t i = 0; i < count; ++i)
            shares[i] = std::max(shares[i], samples_.budgets.empty()
                                                ? keys[kind][i] * scales_[kind]
                                                : keys[kind][i] / samples_.capacities[kind]);
    std::vector<uint32_t> all(count);
    std::iota(all.begin(), all.end(), 0u);
    std::ranges::stable_sort(all, [&](uint32_t a, uint32_t b) {
        if (shares[a] != shares[b]) return shares[a] > shares[b];
        for (std::size_t j = 0; j < samples_.columns; ++j) {
            const double left = samples_.sizes[j * count + a],
                         right = samples_.sizes[j * count + b];
            if (left != right) return left > right;
        }
        return false;
    });
    find_least(all);
    if (!samples_.group_of.empty()) {
        group_ranks(all);
        return;
    }
    needed_ = ceiling(runs_in(all), ranks_);
    sorted_.push_back(std::move(all));
}

/// Groups to ranks: evenly by cost, or if a rank then has more runs than it need have, by
/// RankSearch.
void StepRuns::group_ranks(std::span<const uint32_t> all) {
    const std::size_t groups = samples_.group_counts.size(), kinds = samples_.balance.size();
    const std::vector<double> sums = samples_.cost_table().sums(samples_.group_of, groups);
    std::vector<uint32_t> rank_of(groups);
    VectorPartitioner().partition({sums, kinds, groups}, {}, {}, {ranks_, false}, rank_of);
    give_groups(all, rank_of);
    const auto runs_of = [&](std::span<const uint32_t> sorted) { return runs_in(sorted); };
    while (needed_ > least_ &&
           RankSearch(samples_, all, sums, ranks_, needed_ - 1, runs_of).find(rank_of))
        give_groups(all, rank_of);
}

void StepRuns::give_groups(std::span<const uint32_t> all, std::span<const uint32_t> rank_of) {
    sorted_.assign(ranks_, {});
    for (const uint32_t sample : all) sorted_[rank_of[samples_.group_of[sample]]].push_back(sample);
    needed_ = 1;
    for (const std::vector<uint32_t>& sorted : sorted_)
        needed_ = std::max<uint64_t>(needed_, runs_in(sorted));
}

/// Of one column the greedy cut has the fewest runs that there can be, of all samples and of those
/// of a group. Otherwise samples of a cost that grows with their number take what they take alone.
void StepRuns::find_least(std::span<const uint32_t> all) {
    if (samples_.columns == 1) {
        least_ = ceiling(runs_in(all), ranks_);
        std::vector<std::vector<uint32_t>> groups(samples_.group_counts.size());
        for (std::size_t i = 0; i < all.size() && !groups.empty(); ++i)
            groups[samples_.group_of[all[i]]].push_back(all[i]);
        for (const std::vector<uint32_t>& group : groups)
            least_ = std::max<uint64_t>(least_, runs_in(group));
        return;
    }
    for (std::size_t b = 0; b < samples_.budgets.size(); ++b) {
        if (!samples_.budgets[b].cost.is_proportional()) continue;
        const std::span<const double> weights = samples_.weight_table()[b];
        const double sum = std::accumulate(weights.begin(), weights.end(), 0.0),
                     room = samples_.capacities[b] * static_cast<double>(ranks_);
        least_ = std::max(least_, static_cast<uint64_t>(std::ceil(sum / room * (1 - 1e-12))));
    }
}

/// Of samples sorted by size.
std::vector<double> StepRuns::lengths_of(std::span<const uint32_t> sorted) const {
    std::vector<double> lengths;
    lengths.reserve(sorted.size() * samples_.columns);
    for (const uint32_t sample : sorted)
        for (std::size_t j = 0; j < samples_.columns; ++j)
            lengths.push_back(samples_.sizes[j * samples_.count + sample]);
    return lengths;
}

void StepRuns::assign(uint64_t micro_batches, std::span<uint32_t> part_of) const {
    const bool is_one = samples_.group_of.empty();
    const uint64_t parts = micro_batches * ranks_;
    std::vector<double> costs(samples_.balance.size() * parts);
    for (std::size_t rank = 0; rank < sorted_.size(); ++rank)
        runs_.divide(lengths_of(sorted_[rank]), is_one ? parts : micro_batches,
                     rank * micro_batches, costs,
                     [&](std::size_t i, uint32_t part) { part_of[sorted_[rank][i]] = part; });
    if (is_one) parts_to_ranks({costs, samples_.balance.size(), parts}, ranks_, part_of);
}

}  // namespace sab
