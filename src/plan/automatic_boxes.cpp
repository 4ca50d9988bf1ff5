#include "plan/automatic_boxes.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>

namespace sab {
namespace {

/// Of more cells, equal ones are sorted in one way only, so that the time stays in proportion.
constexpr std::size_t most_tied = 512;
/// Boxes of orders are not tried among more cells if the cuts have few batches.
constexpr std::size_t most_tried = std::size_t{1} << 12;
/// Among more cells, cuts by numbers that are not whole, of which there are many, are only quick.
constexpr std::size_t most_followed = std::size_t{1} << 14;

constexpr uint64_t unlimited = std::numeric_limits<uint64_t>::max();

uint64_t batches_of(const std::vector<Box>& boxes) {
    uint64_t sum = 0;
    for (const Box& box : boxes) sum += box.batches();
    return sum;
}

}  // namespace

AutomaticBoxes::AutomaticBoxes(const Cells& cells, const BatchSizes& batch_sizes, double target,
                               uint64_t lower_bound, const Waste& singles, std::size_t parts)
    : cells_(cells),
      batch_sizes_(batch_sizes),
      target_(target),
      lower_bound_(lower_bound),
      singles_(singles),
      parts_(parts),
      range_(
          automatic_range(options(), lower_bound,
                          std::accumulate(cells.counts.begin(), cells.counts.end(), uint64_t{0}))),
      finder_(
          cells, [&](auto lengths) { return batch_sizes.largest(lengths); },
          [&](auto lengths) { return static_cast<double>(batch_sizes.estimate(lengths)); }),
      orders_(
          cells, [&](auto lengths) { return batch_sizes.largest(lengths); },
          options().batch_size_multiple) {}

AutomaticBoxes::Tried AutomaticBoxes::tried(std::vector<Box> boxes, uint64_t fewest) const {
    Tried tried{std::move(boxes), fewest, 0};
    tried.overhead =
        overhead(finder_.waste(tried.buckets) + singles_, lower_bound_, !options().budgets.empty());
    return tried;
}

/// `most`: boxes of more batches are not tried.
AutomaticBoxes::Tried AutomaticBoxes::by_cuts(const BoxFinder& finder, uint64_t most,
                                              const Progress& progress) const {
    const auto quick = [&](uint64_t fewest) {
        if (fewest > most) return Tried{{}, fewest, std::numeric_limits<double>::infinity()};
        return tried(finder.by_cuts(fewest, true, progress), fewest);
    };
    Tried found = find_automatic(target_, range_.fewest, range_.most, quick, [](auto&, double&) {});
    if (most < unlimited && cells_.size() > most_followed) return found;
    Tried better = tried(finder.by_cuts(found.fewest, false, progress), found.fewest);
    if (better.overhead >= found.overhead) return found;
    better.nearest = std::max(target_, std::min(found.nearest, better.overhead));
    return better;
}

/// By the cost of a sample under each budget, by the largest share of a budget, and by each column.
/// Equal samples are in the order of the shares, and among few cells also of each other key, up and
/// down, unless a cost is a callback, which may be slow.
void AutomaticBoxes::add_orders(const Progress& progress) {
    const std::size_t columns = cells_.columns;
    std::vector<std::vector<double>> keys;
    std::vector<double> shares(cells_.size());
    for (const Budget& budget : batch_sizes_.budgets()) {
        std::vector<double>& costs = keys.emplace_back(cells_.size());
        for (std::size_t cell = 0; cell < cells_.size(); ++cell) {
            costs[cell] = budget.cost(1, cells_.of(cell));
            shares[cell] = std::max(shares[cell], costs[cell] / budget.limit);
        }
    }
    for (std::size_t j = 0; j < columns; ++j) {
        std::vector<double>& lengths = keys.emplace_back(cells_.size());
        for (std::size_t cell = 0; cell < cells_.size(); ++cell) lengths[cell] = cells_.of(cell)[j];
    }
    std::vector<std::vector<double>> ties{shares};
    keys.push_back(std::move(shares));
    const bool is_quick = std::ranges::none_of(
        batch_sizes_.budgets(), [](const Budget& budget) { return budget.cost.is_callback(); });
    for (std::size_t i = 0; i < keys.size() && cells_.size() <= most_tied && is_quick; ++i) {
        ties.push_back(keys[i]);
        std::ranges::transform(keys[i], ties.emplace_back(cells_.size()).begin(), std::negate());
    }
    for (std::size_t i = 0; i < keys.size(); ++i)
        for (const std::vector<double>& tie : ties) {
            progress.report(i, keys.size());
            orders_.add_order(keys[i], tie);
        }
}

/// Whether boxes have at most 1.3 times as many batches as a sorted cut, or one more. The samples
/// of several ids are not to have one more each.
bool AutomaticBoxes::has_few_batches(const Tried& tried, const Progress& progress) {
    const uint64_t batches = batches_of(tried.buckets);
    const auto is_enough = [&](uint64_t cut) {
        return is_near(batches, cut) || (parts_ == 1 && batches <= cut + 1);
    };
    if (is_enough(lower_bound_ - singles_.batches)) return true;
    if (orders_.size() == 0) add_orders(progress);
    return is_enough(orders_.fewest_batches());
}

/// The boxes of the best order. Their batches are those of the sorted cut in the end.
AutomaticBoxes::Tried AutomaticBoxes::by_orders(uint64_t most, const Progress& progress) {
    if (orders_.size() == 0) add_orders(progress);
    for (;; most /= 2) {
        Tried best{{}, most, 0};
        for (std::size_t order = 0; order < orders_.size(); ++order)
            if (Tried next = tried(orders_.boxes(order, most), most);
                (most == 1 || has_few_batches(next, progress)) &&
                (best.buckets.empty() || next.overhead < best.overhead))
                best = std::move(next);
        if (!best.buckets.empty()) return best;
    }
}

AutomaticBoxes::Tried AutomaticBoxes::find(const Progress& progress) {
    std::vector<Tried> all{by_cuts(finder_, unlimited, progress)};
    if (meets_target(all[0]) || has_few_batches(all[0], progress)) return std::move(all[0]);
    // With whole numbers of samples, or if another budget still limits them, no single cut may
    // save batches where several do. A number that is not whole shows what each one is worth.
    const bool keeps_tails = options().keeps_tail();
    const BoxFinder finer(
        cells_, [&](auto lengths) { return batch_sizes_.largest(lengths); },
        [&](auto lengths) { return batch_sizes_.smooth(lengths); }, keeps_tails);
    // Boxes of fewer batches are cut off whatever the fewest are, so larger ones never end.
    all.push_back(by_cuts(finer, range_.most, progress));
    if (!has_few_batches(all[1], progress) ||
        (!meets_target(all[1]) && cells_.size() <= most_tried)) {
        all.push_back(by_orders(range_.most, progress));
        if (!meets_target(all[2]) && range_.most > 1) all.push_back(by_orders(1, progress));
    }
    double nearest = all[0].nearest;
    for (const Tried& each : all) nearest = std::min(nearest, each.overhead);
    auto chosen = std::ranges::find_if(all, [&](const Tried& each) { return meets_target(each); });
    if (chosen == all.end())
        chosen = std::find_if(all.begin(), all.end() - 1,
                              [&](const Tried& each) { return has_few_batches(each, progress); });
    chosen->nearest = std::max(target_, nearest);
    return std::move(*chosen);
}

}  // namespace sab
