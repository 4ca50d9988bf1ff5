#include "balance/vector_partition.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/callback.h"
#include "base/error.h"
#include "base/options.h"
#include "base/progress.h"
#include "sizes/sizes.h"

namespace sab {
namespace {

constexpr double even_enough = 1.001;   // the costliest part, to the mean
constexpr std::size_t most_shown = 64;  // items of a part that are looked at together
constexpr double infinity = std::numeric_limits<double>::infinity();

}  // namespace

bool VectorPartitioner::partition(const ItemTable& costs, const ItemTable& weights,
                                  std::span<const double> capacities, const PartitionRules& rules,
                                  std::span<uint32_t> part_of) {
    rules_ = rules;
    if (costs.kinds == 1 && weights.kinds <= 1) {
        rules_.capacity = weights.kinds == 1 ? capacities[0] : 0;
        return single_.partition(costs.numbers, weights.numbers, rules_, part_of);
    }
    for (std::size_t kind = 0; kind < weights.kinds; ++kind)
        if (is_impossible(weights[kind], rules.parts, capacities[kind])) return false;
    part_of_ = part_of;
    work_ = std::min(std::size_t{512} * (costs.items + rules.parts), std::size_t{1} << 26);
    round_ = unreported_ = 0;
    dimensions_.clear();
    lowered_.clear();
    add_weights(weights, capacities);
    add_costs(costs);
    const std::size_t all = dimensions_.size();

    start_by_sum(weights.kinds, all);
    bool is_found = even_out(0, weights.kinds, true);
    if (!is_found) {
        start_by_sum(0, weights.kinds);
        is_found = even_out(0, weights.kinds, true);
    }
    if (!is_found) is_found = start_by_shares(weights.kinds) && even_out(0, weights.kinds, true);
    if (!is_found) return false;
    even_out(weights.kinds, all, false);
    return keep(weights, capacities);
}

/// Whether the weights of each part, added up in the order of the items, are within the capacities.
bool VectorPartitioner::keep(const ItemTable& weights, std::span<const double> capacities) {
    for (std::size_t kind = 0; kind < weights.kinds; ++kind) {
        sums_.assign(rules_.parts, 0);
        for (std::size_t item = 0; item < weights.items; ++item)
            sums_[part_of_[item]] += weights[kind][item];
        if (std::ranges::max(sums_) > capacities[kind]) return false;
    }
    return true;
}

void VectorPartitioner::add_weights(const ItemTable& weights, std::span<const double> capacities) {
    for (std::size_t kind = 0; kind < weights.kinds; ++kind) {
        std::span<const double> numbers = weights[kind];
        double limit = capacities[kind];
        if (!are_whole(numbers)) {
            // Sums are rounded, but an item alone may take all of the capacity.
            limit -= limit * rounding_share(weights.items);
            std::vector<double>& lowered = lowered_.emplace_back(numbers.begin(), numbers.end());
            for (double& each : lowered) each = std::min(each, limit);
            numbers = lowered;
        }
        dimensions_.push_back({numbers, 1 / capacities[kind], limit, limit});
    }
}

void VectorPartitioner::add_costs(const ItemTable& costs) {
    for (std::size_t kind = 0; kind < costs.kinds; ++kind) {
        const std::span<const double> numbers = costs[kind];
        const double mean = std::accumulate(numbers.begin(), numbers.end(), 0.0) /
                            static_cast<double>(rules_.parts);
        const double largest = numbers.empty() ? 0 : std::ranges::max(numbers);
        const double least = std::max(mean, largest);
        const double enough =
            std::max(least * even_enough, are_whole(numbers) ? std::ceil(mean) : 0);
        dimensions_.push_back({numbers, least > 0 ? 1 / least : 0, enough, infinity});
    }
}

/// By the sum of some dimensions, whatever the capacities.
void VectorPartitioner::start_by_sum(std::size_t first, std::size_t end) {
    sums_.assign(part_of_.size(), 0);
    for (const Dimension& each : std::span(dimensions_).subspan(first, end - first))
        for (std::size_t item = 0; item < sums_.size(); ++item)
            sums_[item] += each.numbers[item] * each.scale;
    rules_.capacity = 0;
    single_.partition(sums_, {}, rules_, part_of_);
    collect_items();
}

/// By the largest share of the capacities that each item takes: if these sum to at most 1, no
/// capacity is exceeded.
bool VectorPartitioner::start_by_shares(std::size_t weights) {
    sums_.assign(part_of_.size(), 0);
    for (const Dimension& each : std::span(dimensions_).first(weights))
        for (std::size_t item = 0; item < sums_.size(); ++item)
            sums_[item] = std::max(sums_[item], each.numbers[item] / each.limit);
    rules_.capacity = 1;
    const bool is_found = single_.partition(sums_, sums_, rules_, part_of_);
    if (is_found) collect_items();
    return is_found;
}

void VectorPartitioner::collect_items() {
    items_.resize(std::max<std::size_t>(items_.size(), rules_.parts));
    for (uint32_t part = 0; part < rules_.parts; ++part) items_[part].clear();
    for (std::size_t item = 0; item < part_of_.size(); ++item)
        items_[part_of_[item]].push_back(static_cast<uint32_t>(item));
    for (Dimension& each : dimensions_) {
        each.loads.assign(rules_.parts, 0);
        for (std::size_t item = 0; item < part_of_.size(); ++item)
            each.loads[part_of_[item]] += each.numbers[item];
    }
}

void VectorPartitioner::worked(std::size_t pairs) {
    work_ -= std::min(work_, pairs);
    unreported_ += pairs;
    if (unreported_ < std::size_t{1} << 20) return;
    unreported_ = 0;
    report_progress(1, 1);
}

/// Lowers the largest load of the dimensions [first, end), the least even one first, until all are
/// even or no exchange helps; those before `first` keep their limits. `must_reach`: false when a
/// dimension is not low enough.
bool VectorPartitioner::even_out(std::size_t first, std::size_t end, bool must_reach) {
    for (std::size_t d = 0; d < dimensions_.size(); ++d) {
        Dimension& each = dimensions_[d];
        each.is_open = d >= first && d < end;
        each.parts_by_load.clear();
        if (!each.is_open) continue;
        if (!must_reach) each.limit = infinity;
        std::vector<std::pair<double, uint32_t>> loads;
        loads.reserve(rules_.parts);
        for (uint32_t part = 0; part < rules_.parts; ++part)
            loads.emplace_back(each.loads[part], part);
        std::ranges::sort(loads);
        each.parts_by_load = PartsByLoad(loads.begin(), loads.end());
    }
    const auto close = [](Dimension& each, double limit) {
        each.is_open = false;
        each.limit = limit;
    };
    while (true) {
        Dimension* worst = nullptr;
        for (Dimension& each : std::span(dimensions_).subspan(first, end - first)) {
            if (!each.is_open) continue;
            const double load = each.parts_by_load.rbegin()->first;
            if (load <= each.enough)
                close(each, each.enough);
            else if (worst == nullptr ||
                     load * each.scale > worst->parts_by_load.rbegin()->first * worst->scale)
                worst = &each;
        }
        if (worst == nullptr) return true;
        const auto [load, part] = *worst->parts_by_load.rbegin();
        if (lower(*worst, part)) continue;
        if (must_reach) return false;
        close(*worst, load);
    }
}

/// Lowers the load of a part, the largest of the dimension, by an exchange with another one.
bool VectorPartitioner::lower(Dimension& dimension, uint32_t from) {
    const double load = dimension.loads[from];
    const double worst = load * dimension.scale * (1 - 1e-12);  // less could be rounding
    show(from, given_);
    for (const auto& [other, to] : dimension.parts_by_load) {
        if (other >= load || work_ == 0) return false;
        const Exchange exchange = best_exchange(from, to, worst);
        if (exchange.given == Exchange::nothing) continue;
        apply(exchange, from, to);
        return true;
    }
    return false;
}

/// All items of a part, or others of them each time.
void VectorPartitioner::show(uint32_t part, Shown& shown) const {
    const std::vector<uint32_t>& items = items_[part];
    const std::size_t count = std::min(items.size(), most_shown);
    shown.places.resize(count);
    for (std::size_t i = 0; i < count; ++i)
        shown.places[i] = count == items.size() ? i : (round_ * most_shown + i) % items.size();
    shown.numbers.resize(count * dimensions_.size());
    double* to = shown.numbers.data();
    for (const Dimension& each : dimensions_)
        for (const std::size_t place : shown.places) *to++ = each.numbers[items[place]];
}

/// The exchange between two parts after which the largest load of either is least, if that is below
/// `worst`.
VectorPartitioner::Exchange VectorPartitioner::best_exchange(uint32_t from, uint32_t to,
                                                             double worst) {
    ++round_;
    show(to, taken_);
    const std::size_t ours = given_.places.size(), theirs = taken_.places.size();
    worked((ours + 1) * (theirs + 1));
    Exchange best;
    best.score = worst;
    scores_.resize(theirs + 1);
    for (std::size_t given = 0; given < ours; ++given) {
        std::ranges::fill(scores_, 0.0);
        for (std::size_t d = 0; d < dimensions_.size(); ++d) {
            const Dimension& each = dimensions_[d];
            const double gives = given_.numbers[d * ours + given];
            const double left = each.loads[from] - gives, more = each.loads[to] + gives;
            const double* const takes = taken_.numbers.data() + d * theirs;
            const double scale = each.is_open ? each.scale : 0;
            const double limit = each.is_open ? infinity : each.limit;
            double* const scores = scores_.data();
            const auto consider = [&](double taken) {
                const double load = std::max(left + taken, more - taken);
                return load > limit ? infinity : load * scale;
            };
            for (std::size_t taken = 0; taken < theirs; ++taken)
                scores[taken] = std::max(scores[taken], consider(takes[taken]));
            scores[theirs] = std::max(scores[theirs], consider(0));
        }
        for (std::size_t taken = 0; taken < theirs + (rules_.equal_counts ? 0 : 1); ++taken)
            if (scores_[taken] < best.score)
                best = {given_.places[given],
                        taken < theirs ? taken_.places[taken] : Exchange::nothing, scores_[taken]};
    }
    return best;
}

void VectorPartitioner::apply(const Exchange& exchange, uint32_t from, uint32_t to) {
    std::vector<uint32_t>&ours = items_[from], &theirs = items_[to];
    if (exchange.taken != Exchange::nothing) {
        std::swap(ours[exchange.given], theirs[exchange.taken]);
        part_of_[ours[exchange.given]] = from;
        part_of_[theirs[exchange.taken]] = to;
    } else {
        theirs.push_back(ours[exchange.given]);
        ours[exchange.given] = ours.back();
        ours.pop_back();
        part_of_[theirs.back()] = to;
    }
    worked((ours.size() + theirs.size()) / 8);
    for (Dimension& each : dimensions_)
        for (const uint32_t part : {from, to}) {
            const double before = each.loads[part];
            double& load = each.loads[part];
            load = 0;
            for (const uint32_t item : items_[part]) load += each.numbers[item];
            if (!each.is_open) continue;
            auto node = each.parts_by_load.extract({before, part});
            node.value().first = load;
            each.parts_by_load.insert(std::move(node));
        }
}

namespace {

void check_numbers(std::span<const double> numbers, std::string_view name) {
    double sum = 0;
    for (std::size_t i = 0; i < numbers.size(); ++i) {
        if (!(numbers[i] >= 0 && std::isfinite(numbers[i])))
            refuse_argument(named(name, "[", i, "]"), numbers[i], "must be finite and at least 0");
        sum += numbers[i];
    }
    if (!std::isfinite(sum)) refuse_argument(name, no_value, "must have a finite sum");
}

void check_rules(const sab_partition_options& options, std::size_t count, uint64_t parts) {
    check(count <= largest_sample_count, "count", count, "must be at most 4294967295");
    check(parts >= 1 && parts <= most_parts, "parts", parts, "must be from 1 to ", most_parts);
    check(options.equal_counts == 0 || options.equal_counts == 1, "options.equal_counts",
          options.equal_counts, "must be 0 or 1");
    check(options.cost_count >= 1 && options.cost_count <= SAB_MAX_BUDGETS, "options.cost_count",
          options.cost_count, "must be from 1 to ", SAB_MAX_BUDGETS);
    check(options.capacity_count <= SAB_MAX_BUDGETS, "options.capacity_count",
          options.capacity_count, "must be at most ", SAB_MAX_BUDGETS);
    items(options.capacities, options.capacity_count, "options.capacities",
          "options.capacity_count");
    if (options.capacity_count > 0 && count > 0) require(options.weights, "options.weights");
    if (options.capacity_count == 0 && options.weights != nullptr)
        refuse_argument("options.weights", "given", "goes with options.capacities only");
    for (std::size_t i = 0; i < options.capacity_count; ++i)
        if (!(options.capacities[i] > 0 && std::isfinite(options.capacities[i])))
            refuse_argument(named("options.capacities[", i, "]"), options.capacities[i],
                            "must be finite and above 0");
    check(options.equal_counts == 0 || count % parts == 0, "count", count,
          "must be a multiple of parts = ", parts, " for equal counts");
}

[[noreturn]] void fail_capacity(const ItemTable& weights, std::span<const double> capacities,
                                uint64_t parts) {
    for (std::size_t kind = 0; kind < weights.kinds; ++kind) {
        const double capacity = capacities[kind];
        const std::string name = text("options.capacities[", kind, "]");
        for (std::size_t i = 0; i < weights.items; ++i)
            check(weights[kind][i] <= capacity, name, capacity, "options.weights[",
                  kind * weights.items + i, "] = ", weights[kind][i], " alone is more");
        const double sum = std::accumulate(weights[kind].begin(), weights[kind].end(), 0.0);
        check(sum <= static_cast<double>(parts) * capacity, name, capacity, "the weights sum to ",
              sum, ", which is more than ", parts, " parts hold");
    }
    refuse_argument("options.capacities", no_value, "no assignment of ", weights.items,
                    " items to ", parts, " parts that keeps ", weights.kinds == 1 ? "it" : "them",
                    " was found");
}

}  // namespace

void partition(const double* costs, std::size_t count, uint64_t parts,
               const sab_partition_options& options, std::span<uint32_t> part_of) {
    check_rules(options, count, parts);
    if (count == 0) return;
    const std::size_t kinds = options.cost_count, caps = options.capacity_count;
    const ItemTable all{{costs, count * kinds}, kinds, count};
    const ItemTable weights{{options.weights, count * caps}, caps, count};
    check_numbers(all.numbers, "costs");
    check_numbers(weights.numbers, "options.weights");
    const std::span capacities(options.capacities, caps);
    const Progress progress(options.progress, options.progress_ctx);
    const CurrentProgress current(&progress);
    std::vector<uint32_t> found(count);  // a failed call changes nothing
    if (!VectorPartitioner().partition(all, weights, capacities, {parts, options.equal_counts != 0},
                                       found))
        fail_capacity(weights, capacities, parts);
    std::ranges::copy(found, part_of.begin());
}

}  // namespace sab
