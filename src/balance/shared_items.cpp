#include "balance/shared_items.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <ranges>
#include <utility>

#include "balance/partition.h"
#include "base/error.h"
#include "base/sorting.h"

namespace sab {
namespace {

constexpr uint32_t none = Forest::none;

/// Micro-batches that have samples below each node, at least; then what all cost and weigh.
class BoundFinder {
public:
    BoundFinder(const Forest& forest, const SharedItems& items, std::span<const double> values)
        : forest_(forest),
          items_(items),
          values_(values),
          below_(forest.nodes.size()),
          counts_(forest.nodes.size(), 1) {}

    SharedBounds find(std::span<const uint32_t> unit_of, std::size_t units) {
        std::vector<Load> of_unit(units);
        for (std::size_t at = forest_.nodes.size(); at-- > 0;) {
            const Forest::Node& node = forest_.nodes[at];
            for (std::size_t k = items_.first_weight; k < items_.kinds; ++k) {
                const double room = items_.limits[k] - value(at, k);
                if (below_[at][k] > 0 && room > 0)
                    counts_[at] =
                        std::max(counts_[at], std::ceil(below_[at][k] / room * (1 - 1e-12)));
            }
            Load& to = node.parent == none ? of_unit[unit_of[node.tree]] : below_[node.parent];
            for (std::size_t k = 0; k < items_.kinds; ++k) {
                const double before = node.parent == none ? 0 : value(node.parent, k);
                to[k] += counts_[at] * (value(at, k) - before) + below_[at][k];
            }
            if (node.parent != none)
                counts_[node.parent] = std::max(counts_[node.parent], counts_[at]);
        }
        return sum_of(of_unit);
    }

private:
    double value(std::size_t node, std::size_t kind) const {
        return values_[node * items_.kinds + kind];
    }

    SharedBounds sum_of(std::span<const Load> of_unit) const {
        SharedBounds bounds;
        Load all{};
        for (const Load& each : of_unit) {
            bounds.unit_cost = std::max(bounds.unit_cost, each[0]);
            for (std::size_t k = 0; k < items_.kinds; ++k) all[k] += each[k];
            for (std::size_t k = items_.first_weight; k < items_.kinds; ++k)
                bounds.unit_filled = std::max(bounds.unit_filled, each[k] / items_.limits[k]);
        }
        bounds.cost = all[0];
        for (std::size_t k = items_.first_weight; k < items_.kinds; ++k)
            bounds.filled = std::max(bounds.filled, all[k] / items_.limits[k]);
        return bounds;
    }

    const Forest& forest_;
    const SharedItems& items_;
    std::span<const double> values_;
    std::vector<Load> below_;     ///< of each node, what the micro-batches below it take
    std::vector<double> counts_;  ///< of each node
};

}  // namespace

SharedItems::SharedItems(const Forest& forest, const StepSamples& samples, SharedBounds& bounds)
    : count(samples.count) {
    const std::vector<double> values = values_of(forest, samples);
    set_limits(samples, values);
    std::vector<uint32_t> unit_of;  // of each tree
    for (const Forest::Node& node : forest.nodes) {
        if (node.sample == none || node.tree < unit_of.size()) continue;
        unit_of.resize(node.tree + 1, samples.group_of[node.sample]);
    }
    bounds = BoundFinder(forest, *this, values).find(unit_of, samples.group_counts.size());
    put_in_order(forest, values);
}

/// What a sample costs and weighs up to the end of each node.
std::vector<double> SharedItems::values_of(const Forest& forest, const StepSamples& samples) {
    first_weight = samples.is_one_cost ? 0 : 1;
    kinds = first_weight + samples.budgets.size();
    std::vector<double> values;
    values.reserve(forest.nodes.size() * kinds);
    for (const Forest::Node& node : forest.nodes)
        for (std::size_t k = 0; k < kinds; ++k) {
            const bool is_balance = k < first_weight;
            const Cost& cost =
                is_balance ? samples.balance[0] : samples.budgets[k - first_weight].cost;
            const std::string name = is_balance
                                         ? "options.balance[0]"
                                         : text("options.budgets[", k - first_weight, "].cost");
            const double lengths[] = {node.end};
            const double value = cost.is_total() ? node.end : cost.in_row(lengths, name);
            if (node.parent != none && value < values[node.parent * kinds + k])
                refuse_argument(name, no_value, "must not be less for ", node.end,
                                " tokens, which cost ", value, ", than for ", node.begin);
            values.push_back(value);
        }
    return values;
}

/// Sums that are not of whole numbers may be off by their rounding. A sample alone always fits.
void SharedItems::set_limits(const StepSamples& samples, std::span<const double> values) {
    limits.fill(std::numeric_limits<double>::infinity());
    std::vector<double> each(values.size() / kinds);
    for (std::size_t k = first_weight; k < kinds; ++k) {
        const Budget& budget = samples.budgets[k - first_weight];
        limits[k] = budget.limit - budget.cost.constant();
        for (std::size_t node = 0; node < each.size(); ++node)
            each[node] = values[node * kinds + k];
        if (!are_whole(each))
            limits[k] = std::max(limits[k] * (1 - 2 * rounding_share(each.size())),
                                 std::ranges::max(samples.weight_table()[k - first_weight]));
    }
}

/// Children with most tokens first.
void SharedItems::put_in_order(const Forest& forest, std::span<const double> values) {
    const std::size_t nodes = forest.nodes.size();
    std::vector<double> tokens(nodes);
    for (std::size_t at = nodes; at-- > 0;) {
        const Forest::Node& node = forest.nodes[at];
        tokens[at] += node.end - node.begin;
        if (node.parent != none) tokens[node.parent] += tokens[at];
    }
    std::vector<uint32_t> next(nodes, none), first_child(nodes + 1, none), open;
    const std::vector<uint32_t> by_tokens = by_descending(tokens);
    for (const uint32_t at : by_tokens | std::views::reverse) {
        const uint32_t parent = forest.nodes[at].parent;
        next[at] = std::exchange(first_child[parent == none ? nodes : parent], at);
    }
    alone.reserve(count * kinds);
    shared.reserve(count * kinds);
    uint32_t turn = none;  // what a leaf and the one before are both below
    bool is_behind_leaf = true;
    for (open.push_back(first_child[nodes]); !open.empty();) {
        const uint32_t at = open.back();
        if (at == none) {
            open.pop_back();
            continue;
        }
        const Forest::Node& node = forest.nodes[at];
        if (std::exchange(is_behind_leaf, false)) turn = node.parent;
        open.back() = next[at];
        if (node.sample == none) {
            open.push_back(first_child[at]);
            continue;
        }
        for (std::size_t k = 0; k < kinds; ++k) {
            alone.push_back(values[at * kinds + k]);
            shared.push_back(turn == none ? 0 : values[turn * kinds + k]);
        }
        levels.push_back(turn == none ? 0 : forest.nodes[turn].level);
        tree.push_back(node.tree);
        sample.push_back(node.sample);
        is_behind_leaf = true;
    }
}

SharedItems SharedItems::of(std::span<const uint32_t> some) const {
    SharedItems chosen;
    chosen.count = some.size();
    chosen.kinds = kinds;
    chosen.first_weight = first_weight;
    chosen.limits = limits;
    for (std::size_t i = 0; i < some.size(); ++i) {
        const uint32_t leaf = some[i];
        const bool is_first = i == 0 || tree[some[i - 1]] != tree[leaf];
        const uint32_t least = is_first ? leaf : least_shared(some[i - 1], leaf);
        for (std::size_t k = 0; k < kinds; ++k) {
            chosen.alone.push_back(alone[leaf * kinds + k]);
            chosen.shared.push_back(is_first ? 0 : shared[least * kinds + k]);
        }
        chosen.levels.push_back(is_first ? 0 : levels[least]);
        chosen.tree.push_back(tree[leaf]);
        chosen.sample.push_back(static_cast<uint32_t>(i));
    }
    return chosen;
}

uint32_t SharedItems::least_shared(uint32_t before, uint32_t leaf) const {
    uint32_t least = leaf;
    for (uint32_t at = before + 1; at < leaf && levels[least] > 1; ++at)
        if (levels[at] < levels[least]) least = at;
    return least;
}

Load SharedItems::load_of(std::span<const uint32_t> leaves) const {
    Load load{};
    for (std::size_t i = 0; i < leaves.size(); ++i)
        i == 0 ? add_first(load, leaves[0]) : add(load, leaves[i - 1], leaves[i]);
    return load;
}

std::vector<Load> SharedItems::loads_of(std::span<const uint32_t> part_of,
                                        std::size_t parts) const {
    std::vector<Load> loads(parts);
    std::vector<uint32_t> last(parts, none);
    for (uint32_t leaf = 0; leaf < count; ++leaf) {
        const uint32_t part = part_of[leaf], before = std::exchange(last[part], leaf);
        before == none ? add_first(loads[part], leaf) : add(loads[part], before, leaf);
    }
    return loads;
}

}  // namespace sab
