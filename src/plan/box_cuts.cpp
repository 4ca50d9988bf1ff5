#include <algorithm>
#include <cmath>

#include "plan/boxes.h"

namespace sab {

/// Cuts that save much but leave a side almost empty lead nowhere, and so do even cuts that save
/// little. What a cut saves is divided by a power of 4 f (1 - f), f the lower side's share of the
/// batches. No power is best everywhere, so these are tried: 0, 1/2, 3/4. Only operations with the
/// same result on every machine.
std::array<double, BoxFinder::bias_count> BoxFinder::scores_of(double saving, double share) {
    const double root = std::sqrt(4 * share * (1 - share));
    return {saving, saving / root, saving / (root * std::sqrt(root))};
}

/// Whether a cut saves enough to leave fewer batches in a box than there should be.
static bool saves_much(double low_batches, double high_batches, double whole) {
    return 1.3 * (std::ceil(low_batches) + std::ceil(high_batches)) <= whole;
}

std::pair<BoxFinder::Node, BoxFinder::Node> BoxFinder::divided(const Node& node,
                                                               const Cut& cut) const {
    std::pair<Node, Node> sides;
    sides.first.by_length.resize(cells_.columns);
    sides.second.by_length.resize(cells_.columns);
    for (std::size_t j = 0; j < cells_.columns; ++j)
        for (const Item& item : node.by_length[j]) {
            Node& side = length(item, cut.column) <= cut.length ? sides.first : sides.second;
            side.by_length[j].push_back(item);
            if (j == 0) side.samples += item.count;
        }
    return sides;
}

/// The best cut of each column with each bias: `bias_count` for each column. `per_batch`: samples
/// of a batch with these lengths.
void BoxFinder::find_cuts(const Node& node, uint64_t fewest, const SamplesOf& per_batch,
                          std::vector<Cut>& cuts) const {
    const std::size_t columns = cells_.columns;
    cuts.assign(columns * bias_count, {});
    const PerColumn lengths = corner(node);
    const double samples = static_cast<double>(node.samples),
                 whole = samples / per_batch(first_of(lengths, columns));
    std::vector<double> high(node.by_length[0].size());  // samples of a batch above each item
    for (std::size_t column = 0; column < columns; ++column) {
        const std::vector<Item>& items = node.by_length[column];
        const auto extend = [&](PerColumn& reach, const Item& item) {
            for (std::size_t j = 0; j < columns; ++j)
                reach[j] = std::max(reach[j], length(item, j));
        };
        const auto is_end = [&](std::size_t i) {
            return length(items[i], column) != length(items[i + 1], column);
        };
        PerColumn reach{};
        for (std::size_t i = items.size() - 1; i-- > 0;) {
            extend(reach, items[i + 1]);
            if (is_end(i)) high[i] = per_batch(first_of(reach, columns));
        }
        reach = {};
        double below = 0;
        for (std::size_t i = 0; i + 1 < items.size(); ++i) {
            extend(reach, items[i]);
            below += static_cast<double>(items[i].count);
            if (!is_end(i)) continue;
            const double low_batches = below / per_batch(first_of(reach, columns)),
                         high_batches = (samples - below) / high[i];
            const double cut_batches = low_batches + high_batches;
            if (std::min(low_batches, high_batches) < static_cast<double>(fewest) &&
                !(allows_few_ && saves_much(low_batches, high_batches, whole)))
                continue;
            if (cut_batches >= whole) continue;
            const auto scores = scores_of(whole - cut_batches, low_batches / cut_batches);
            for (std::size_t bias = 0; bias < bias_count; ++bias)
                if (Cut& best = cuts[column * bias_count + bias]; scores[bias] > best.score)
                    best = {column, length(items[i], column), scores[bias]};
        }
    }
}

BoxFinder::Cut BoxFinder::best_cut(const Node& node, uint64_t fewest) const {
    std::vector<Cut> cuts;
    find_cuts(node, fewest, estimate_, cuts);
    Cut best;
    for (std::size_t i = usual_bias; i < cuts.size(); i += bias_count)
        if (cuts[i].score > best.score) best = cuts[i];
    return best;
}

}  // namespace sab
