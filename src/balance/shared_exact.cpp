#include "balance/shared_exact.h"

#include <algorithm>
#include <limits>

namespace sab {
namespace {

constexpr double impossible = std::numeric_limits<double>::infinity();

/// Each part of a set that has its first leaf.
template <class Visit>
void for_each_first(uint32_t set, Visit&& visit) {
    const uint32_t rest = set & (set - 1);
    for (uint32_t some = rest;; some = (some - 1) & rest) {
        visit(some | (set ^ rest));
        if (some == 0) return;
    }
}

}  // namespace

SharedExact::SharedExact(const SharedItems& items, uint64_t ranks,
                         std::span<const uint32_t> unit_of)
    : items_(items),
      ranks_(static_cast<std::size_t>(std::min<uint64_t>(ranks, items.count))),
      all_((Set{1} << items.count) - 1),
      loads_(all_ + 1, impossible),
      is_whole_(all_ + 1, true),
      costs_(all_ + 1, impossible) {
    std::vector<uint32_t> leaves;
    for (Set set = 0; set <= all_; ++set) {
        leaves.clear();
        for (uint32_t leaf = 0; leaf < items.count; ++leaf)
            if ((set >> leaf & 1) != 0) leaves.push_back(leaf);
        const Load load = items.load_of(leaves);
        if (items.fits(load)) loads_[set] = load[0];
        for (uint32_t leaf = 0; leaf < unit_of.size(); ++leaf)
            for (const uint32_t other : leaves)
                if (unit_of[leaf] == unit_of[other] && (set >> leaf & 1) == 0)
                    is_whole_[set] = false;
    }
    costs_[0] = 0;
}

double SharedExact::next() {
    std::vector<double> costs = costs_;
    std::vector<Set>& part = parts_.emplace_back(all_ + 1);
    for (Set set = 1; set <= all_; ++set)
        for_each_first(set, [&](Set some) {
            const double cost = loads_[some] + costs_[set & ~some];
            if (cost >= costs[set]) return;
            costs[set] = cost;
            part[set] = some;
        });
    costs_ = std::move(costs);
    rank_sets_.assign(1, std::vector<Set>(all_ + 1));
    std::vector<double> most(all_ + 1, impossible), before;  // of the costliest rank
    for (Set set = 0; set <= all_; ++set)
        if (is_whole_[set]) most[set] = costs_[set];
    for (Set set = 0; set <= all_; ++set) rank_sets_[0][set] = set;
    for (std::size_t rank = 1; rank < ranks_; ++rank) {
        before = most;
        std::vector<Set>& first = rank_sets_.emplace_back(all_ + 1);
        for (Set set = 1; set <= all_; ++set)
            for_each_first(set, [&](Set some) {
                const double cost = std::max(costs_[some], before[set & ~some]);
                if (!is_whole_[some] || cost >= most[set]) return;
                most[set] = cost;
                first[set] = some;
            });
    }
    return most[all_];
}

void SharedExact::write(uint64_t micro_batches, std::span<uint32_t> part_of) const {
    Set left = all_;
    for (std::size_t rank = ranks_; rank-- > 0;) {
        Set own = rank_sets_[rank][left];
        left &= ~own;
        for (std::size_t m = parts_.size(); m-- > 0;) {
            const Set some = parts_[m][own];
            own &= ~some;
            for (uint32_t leaf = 0; leaf < items_.count; ++leaf)
                if ((some >> leaf & 1) != 0)
                    part_of[leaf] = static_cast<uint32_t>(rank * micro_batches + m);
        }
    }
}

}  // namespace sab
