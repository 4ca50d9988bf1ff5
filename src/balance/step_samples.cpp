#include "balance/step_samples.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/options.h"

namespace sab {

StepItems::StepItems(std::span<const uint32_t> offsets, const WeighedSamples& epoch)
    : count(offsets.size()),
      costs(count * epoch.balances),
      weights(count * epoch.capacities.size()),
      capacities(epoch.capacities) {
    for (std::size_t i = 0; i < count; ++i) {
        const double* const own_costs = epoch.costs_of(offsets[i]);
        const double* const own_weights = epoch.weights_of(offsets[i]);
        for (std::size_t k = 0; k < epoch.balances; ++k) costs[k * count + i] = own_costs[k];
        for (std::size_t j = 0; j < capacities.size(); ++j) weights[j * count + i] = own_weights[j];
    }
}

StepItems StepItems::of(std::span<const uint32_t> some) const {
    StepItems chosen;
    chosen.count = some.size();
    chosen.is_one_cost = is_one_cost;
    chosen.capacities = capacities;
    const auto gather = [&](const ItemTable& table, std::vector<double>& numbers) {
        for (std::size_t kind = 0; kind < table.kinds; ++kind)
            for (const uint32_t item : some) numbers.push_back(table[kind][item]);
    };
    gather(cost_table(), chosen.costs);
    gather(weight_table(), chosen.weights);
    return chosen;
}

StepSamples::StepSamples(const Columns& all_sizes, const sab_step_plan_options& options)
    : columns(all_sizes.size()), is_padded(options.padded == 1) {
    count = all_sizes.count();
    all_sizes.refuse_choice("sizes");
    check(count > 0, "sizes.count", count, "must be at least 1");
    read_costs(options, all_sizes.names());
    sizes.resize(count * columns);
    for (std::size_t j = 0; j < columns; ++j)
        all_sizes[j].read(0, std::span(sizes).subspan(j * count, count), all_sizes.described(j));
    if (options.prefix != nullptr || options.parents != nullptr) share(options);
    weigh();
    round_capacities(false);
    if (options.groups != nullptr && !forest) read_groups(options.groups);
}

void StepSamples::share(const sab_step_plan_options& options) {
    const std::string_view option =
        options.parents != nullptr ? "options.parents" : "options.prefix";
    check(columns == 1, "sizes.columns", columns, "must be 1 with ", option);
    check(balance.size() == 1, "options.balance_count", balance.size(), "must be at most 1 with ",
          option);
    if (options.groups != nullptr) read_groups(options.groups);
    forest.emplace(sizes, options, group_of);
    if (!has_parents()) return;
    count = forest->leaf_of.size();
    sizes.clear();
    for (const uint32_t leaf : forest->leaf_of) {
        const Forest::Node& node = forest->nodes[leaf];
        sizes.push_back(node.end);
        group_of.push_back(node.tree);
        group_counts.resize(std::max<std::size_t>(group_counts.size(), node.tree + 1));
        ++group_counts[node.tree];
    }
}

std::string StepSamples::limit_text(std::size_t budget) const {
    return text("options.budgets[", budget, "].limit = ", budgets[budget].limit);
}

void StepSamples::read_costs(const sab_step_plan_options& options, ColumnNames names) {
    budgets = read_budgets(options.budgets, options.budget_count, names, "options.budgets");
    for (std::size_t i = 0; i < budgets.size() && !is_padded; ++i)
        budgets[i].cost.check_row(text("options.budgets[", i, "].cost"));
    balance = read_balances(options.balance, options.balance_count, names, "options.balance");
    for (std::size_t k = 0; k < balance.size() && !is_padded; ++k)
        balance[k].check_row(text("options.balance[", k, "]"));
    is_one_cost = balance.empty() && budgets.size() == 1;
    if (balance.empty())
        balance.push_back(budgets.empty() ? Cost(nullptr, columns) : budgets[0].cost);
}

/// What each sample costs alone.
void StepSamples::evaluate(const Cost& cost, const std::string& name, std::span<double> out) const {
    if (cost.is_total()) {
        std::copy_n(sizes.begin(), count, out.begin());
        return;
    }
    const double constant = is_padded ? cost.constant() : 0;
    double sum = 0;
    for (std::size_t i = 0; i < count; ++i) {
        const PerColumn lengths = lengths_of(i);
        const std::span<const double> given = first_of(lengths, columns);
        out[i] = is_padded ? std::max(0.0, cost(1, given) - constant) : cost.in_row(given, name);
        sum += out[i];
    }
    if (!std::isfinite(sum)) refuse_argument(name, no_value, "costs must have a finite sum");
}

void StepSamples::weigh() {
    weights.resize(budgets.size() * count);
    for (std::size_t b = 0; b < budgets.size(); ++b) {
        const std::span<double> out = std::span(weights).subspan(b * count, count);
        evaluate(budgets[b].cost, text("options.budgets[", b, "].cost"), out);
        capacities.push_back(budgets[b].limit - budgets[b].cost.constant());
        refuse_oversize(b);
    }
    rooms_ = capacities;
    for (std::size_t b = 0; b < budgets.size(); ++b)
        is_rounded = is_rounded || !are_whole(weight_table()[b]);
    if (is_rounded) given_weights_ = weights;
    if (is_one_cost) {
        costs = weights;
        return;
    }
    costs.resize(balance.size() * count);
    for (std::size_t k = 0; k < balance.size(); ++k)
        evaluate(balance[k], text("options.balance[", k, "]"),
                 std::span(costs).subspan(k * count, count));
}

void StepSamples::refuse_oversize(std::size_t budget) const {
    const std::span<const double> taken = weight_table()[budget];
    const auto is_over = [&](double each) { return each > capacities[budget]; };
    const auto over = std::ranges::find_if(taken, is_over);
    if (over == taken.end()) return;
    const auto sample = static_cast<std::size_t>(over - taken.begin());
    const PerColumn lengths = lengths_of(sample);
    const std::string size = lengths_text(first_of(lengths, columns));
    const auto others = std::ranges::count_if(taken, is_over);
    if (has_parents()) {
        const Forest::Node& leaf = forest->nodes[forest->leaf_of[sample]];
        refuse_argument(named("sizes[", leaf.index, "]"), leaf.end - leaf.begin, "its sample, of ",
                        leaf.end, " tokens, must fit ", limit_text(budget), " alone; ", others,
                        " of ", count, " samples do not");
    }
    refuse_argument(named("sizes[", sample, "]"), columns == 1 ? size : text("(", size, ")"),
                    "must fit ", limit_text(budget), " alone; ", others, " of ", count,
                    " samples do not");
}

void StepSamples::round_capacities(bool is_strict) {
    const double share = 2 * rounding_share(count) * (is_strict ? -1 : 1);
    for (std::size_t b = 0; b < budgets.size() && is_rounded; ++b) {
        const std::span<const double> given = std::span(given_weights_).subspan(b * count, count);
        if (are_whole(given)) continue;
        capacities[b] = rooms_[b] * (1 + share);
        std::ranges::transform(given, weights.begin() + static_cast<std::ptrdiff_t>(b * count),
                               [&](double each) { return std::min(each, capacities[b]); });
    }
}

bool StepSamples::keep_budgets(std::span<const uint32_t> part_of, uint64_t parts) const {
    std::vector<double> sums(parts);
    for (std::size_t b = 0; b < budgets.size() && is_rounded; ++b) {
        std::ranges::fill(sums, 0.0);
        for (std::size_t i = 0; i < count; ++i) sums[part_of[i]] += given_weights_[b * count + i];
        if (std::ranges::max(sums) > rooms_[b]) return false;
    }
    return true;
}

/// Groups are numbered by their first samples.
void StepSamples::read_groups(const int64_t* ids) {
    std::vector<uint32_t> by_id(count);
    std::iota(by_id.begin(), by_id.end(), 0u);
    std::ranges::stable_sort(by_id, {}, [&](uint32_t i) { return ids[i]; });
    std::vector<uint32_t> first(count);  // sample of its group
    for (std::size_t k = 0; k < count; ++k)
        first[by_id[k]] =
            k > 0 && ids[by_id[k]] == ids[by_id[k - 1]] ? first[by_id[k - 1]] : by_id[k];
    group_of.resize(count);
    for (uint32_t i = 0; i < count; ++i) {
        if (first[i] == i) group_counts.push_back(0);
        group_of[i] =
            first[i] == i ? static_cast<uint32_t>(group_counts.size() - 1) : group_of[first[i]];
        ++group_counts[group_of[i]];
    }
}

}  // namespace sab
