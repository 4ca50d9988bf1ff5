#include "balance/shared_evener.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

#include "balance/rank_evener.h"
#include "base/progress.h"

namespace sab {
namespace {

constexpr double even_to = 1.0005;          // the costliest rank, to the mean
constexpr double most_repeated = 0.1;       // of the cost of a part of a tree
constexpr std::size_t most_receivers = 2;   // ranks that a part of a tree may go to
constexpr std::size_t moves_of_a_rank = 3;  // at most, on average

std::vector<uint32_t> without(std::span<const uint32_t> all, std::span<const uint32_t> some) {
    std::vector<uint32_t> others;
    std::ranges::set_difference(all, some, std::back_inserter(others));
    return others;
}

std::vector<uint32_t> with(std::span<const uint32_t> all, std::span<const uint32_t> some) {
    std::vector<uint32_t> both;
    std::ranges::merge(all, some, std::back_inserter(both));
    return both;
}

}  // namespace

SharedEvener::SharedEvener(const SharedItems& items, uint32_t ranks, uint32_t micro_batches,
                           std::span<uint32_t> part_of)
    : items_(items),
      micro_batches_(micro_batches),
      part_of_(part_of),
      branches_(items),
      leaves_(std::size_t{ranks} * micro_batches),
      loads_(items.loads_of(part_of, leaves_.size())),
      costs_(ranks) {
    for (uint32_t leaf = 0; leaf < items.count; ++leaf) leaves_[part_of[leaf]].push_back(leaf);
    for (uint32_t part = 0; part < loads_.size(); ++part) cost_of(part) += loads_[part][0];
}

void SharedEvener::even_out() {
    const std::size_t ranks = costs_.size(), receivers = std::min(most_receivers, ranks - 1);
    const std::size_t most_moves = moves_of_a_rank * ranks;
    for (std::size_t moves = 0; moves < most_moves; ++moves) {
        report_progress(moves, most_moves);
        const auto from = static_cast<uint32_t>(std::ranges::max_element(costs_) - costs_.begin());
        const double mean =
            std::accumulate(costs_.begin(), costs_.end(), 0.0) / static_cast<double>(ranks);
        if (costs_[from] <= mean * even_to) return;
        Move best{0, 0, costs_[from] * (1 - 1e-6), {}};
        for (const uint32_t to : cheapest_ranks(costs_, receivers)) find_moves(from, to, best);
        if (best.leaves.empty()) return;
        apply(best);
    }
}

uint32_t SharedEvener::emptiest_part(uint32_t rank) const {
    const auto share = [&](uint32_t part) {
        double most = 0;
        for (std::size_t k = items_.first_weight; k < items_.kinds; ++k)
            most = std::max(most, loads_[part][k] / items_.limits[k]);
        return items_.first_weight == items_.kinds ? loads_[part][0] : most;
    };
    uint32_t best = rank * micro_batches_;
    for (uint32_t part = best; part < (rank + 1) * micro_batches_; ++part)
        if (share(part) < share(best)) best = part;
    return best;
}

/// Of each tree of the costliest rank leaves that cost up to half of the gap.
void SharedEvener::find_moves(uint32_t from, uint32_t to, Move& best) {
    const uint32_t part = emptiest_part(to);
    const Load& load = loads_[part];
    Load limits = items_.limits;
    limits[0] = std::min(limits[0], load[0] + (costs_[from] - costs_[to]) / 2);
    for (uint32_t other = from * micro_batches_; other < (from + 1) * micro_batches_; ++other) {
        branches_.build(leaves_[other]);
        for (uint32_t root = 0; root < branches_.trees(); ++root) {
            if (!branches_.choose(root, load, limits, most_repeated)) continue;
            std::vector<uint32_t> leaves;
            branches_.for_each_chosen([&](uint32_t leaf) { leaves.push_back(leaf); });
            std::ranges::sort(leaves);
            const double more = items_.load_of(with(leaves_[part], leaves))[0] - load[0];
            const double cost = std::max(costs_[from] - branches_.less()[0], costs_[to] + more);
            if (cost < best.cost) best = {other, part, cost, std::move(leaves)};
        }
    }
}

void SharedEvener::apply(const Move& move) {
    for (const uint32_t leaf : move.leaves) part_of_[leaf] = move.to;
    leaves_[move.from] = without(leaves_[move.from], move.leaves);
    leaves_[move.to] = with(leaves_[move.to], move.leaves);
    for (const uint32_t part : {move.from, move.to}) {
        cost_of(part) -= loads_[part][0];
        loads_[part] = items_.load_of(leaves_[part]);
        cost_of(part) += loads_[part][0];
    }
}

}  // namespace sab
