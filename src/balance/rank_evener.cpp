#include "balance/rank_evener.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace sab {
namespace {

/// Exchanges samples of the costliest rank for cheaper ones of the cheapest ranks, where the
/// micro-batches of both have room.
class RankEvener {
public:
    RankEvener(const StepItems& samples, uint32_t ranks, uint32_t micro_batches, double enough,
               std::span<uint32_t> part_of)
        : samples_(samples),
          micro_batches_(micro_batches),
          enough_(enough),
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
        for (std::size_t work = most_work; work > 0;) {
            const auto from =
                static_cast<uint32_t>(std::ranges::max_element(loads_) - loads_.begin());
            if (loads_[from] - mean <= mean * enough_) return;
            bool is_lowered = false;
            for (const uint32_t to :
                 cheapest_ranks(loads_, std::min(most_ranks, loads_.size() - 1))) {
                const std::size_t pairs = items_[from].size() * (items_[to].size() + 1);
                work -= std::min(work, pairs + loads_.size());
                is_lowered = lower(from, to);
                if (is_lowered || work == 0) break;
            }
            if (!is_lowered) return;
        }
    }

private:
    static constexpr std::size_t most_work = std::size_t{1} << 22, most_ranks = 8;

    uint32_t rank_of(uint32_t item) const { return part_of_[item] / micro_batches_; }
    double& held(uint32_t part, std::size_t budget) { return weights_[budget * parts_ + part]; }

    /// What the part of an item holds without it.
    double others(uint32_t item, std::size_t budget) {
        return held(part_of_[item], budget) - samples_.weight_table()[budget][item];
    }

    /// The items of a rank side by side, since all pairs are looked at.
    void read_theirs(std::span<const uint32_t> items) {
        theirs_.clear();
        for (const uint32_t item : items) {
            theirs_.push_back(samples_.costs[item]);
            for (std::size_t b = 0; b < samples_.capacities.size(); ++b) {
                theirs_.push_back(samples_.weight_table()[b][item]);
                theirs_.push_back(others(item, b));
            }
        }
    }

    bool lower(uint32_t from, uint32_t to) {
        const double gap = loads_[from] - loads_[to];
        const std::size_t budgets = samples_.capacities.size();
        double best = gap / 2 - loads_[from] * 1e-12;
        std::size_t given = 0, taken = 0;
        bool is_found = false;
        read_theirs(items_[to]);
        std::vector<double> weights(budgets), left(budgets);  // of `ours`
        for (std::size_t i = 0; i < items_[from].size(); ++i) {
            const uint32_t ours = items_[from][i];
            for (std::size_t b = 0; b < budgets; ++b) {
                weights[b] = samples_.weight_table()[b][ours];
                left[b] = others(ours, b);
            }
            const double* theirs = theirs_.data();
            for (std::size_t j = 0; j < items_[to].size(); ++j, theirs += 1 + 2 * budgets) {
                const double score = std::abs(samples_.costs[ours] - theirs[0] - gap / 2);
                if (score >= best) continue;
                bool has_room = true;
                for (std::size_t b = 0; b < budgets && has_room; ++b)
                    has_room = left[b] + theirs[1 + 2 * b] <= samples_.capacities[b] &&
                               theirs[2 + 2 * b] + weights[b] <= samples_.capacities[b];
                if (!has_room) continue;
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
    const double enough_;  ///< what the costliest rank may be over the mean, as a share of it
    std::span<uint32_t> part_of_;
    const std::size_t parts_;
    std::vector<double> weights_;               ///< that each micro-batch holds, by budget
    std::vector<double> loads_;                 ///< of the ranks
    std::vector<std::vector<uint32_t>> items_;  ///< of the ranks
    std::vector<double> theirs_;  ///< of each item of a rank: its cost, and for each budget its
                                  ///< weight and what its part holds without it
};

}  // namespace

std::vector<uint32_t> cheapest_ranks(std::span<const double> costs, std::size_t count) {
    std::vector<uint32_t> ranks(costs.size());
    std::iota(ranks.begin(), ranks.end(), 0u);
    std::ranges::partial_sort(ranks, ranks.begin() + static_cast<std::ptrdiff_t>(count), {},
                              [&](uint32_t rank) { return std::pair(costs[rank], rank); });
    ranks.resize(count);
    return ranks;
}

void even_ranks(const StepItems& samples, uint32_t ranks, uint32_t micro_batches, double enough,
                std::span<uint32_t> part_of) {
    RankEvener(samples, ranks, micro_batches, enough, part_of).even_out();
}

}  // namespace sab
