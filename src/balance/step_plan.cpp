#include "balance/step_plan.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "balance/micro_batches.h"
#include "balance/shared_rows.h"
#include "balance/step_rows.h"
#include "balance/step_runs.h"
#include "base/callback.h"
#include "base/rounding.h"
#include "base/sorting.h"

namespace sab {
namespace {

void check_sharing(const sab_step_plan_options& options) {
    const bool has_parents = options.parents != nullptr, has_groups = options.groups != nullptr;
    if (has_parents && (has_groups || options.prefix != nullptr))
        refuse_argument("options.parents", no_value, "must be NULL with ",
                        has_groups ? "options.groups" : "options.prefix");
    if (options.prefix != nullptr && !has_groups)
        refuse_argument("options.prefix", no_value, "options.groups must be given, too");
    check(options.whole_groups == 0 || options.whole_groups == 1, "options.whole_groups",
          options.whole_groups, "must be 0 or 1");
    check(options.whole_groups == 0 || has_groups || has_parents, "options.whole_groups",
          options.whole_groups, "must be 0 without options.groups or options.parents");
    if (options.padded != 0 && (options.prefix != nullptr || has_parents))
        refuse_argument(has_parents ? "options.parents" : "options.prefix", no_value,
                        "is for micro-batches in rows, not for padded ones");
}

void check_options(const sab_step_plan_options& options) {
    check(options.world_size >= 1 && options.world_size <= most_parts, "options.world_size",
          options.world_size, "must be from 1 to ", most_parts);
    if (options.micro_batches == 0 && options.budget_count == 0)
        refuse_argument("options.micro_batches", "0",
                        "micro-batches of a rank, or a budget, must be given");
    check(options.multiple >= 1 && options.multiple <= most_parts, "options.multiple",
          options.multiple, "must be from 1 to ", most_parts);
    check(options.padded == 0 || options.padded == 1, "options.padded", options.padded,
          "must be 0 or 1");
    check(options.order >= SAB_MICRO_BATCHES_DESCENDING && options.order <= SAB_MICRO_BATCHES_BELL,
          "options.order", options.order,
          "must be SAB_MICRO_BATCHES_DESCENDING (0), SAB_MICRO_BATCHES_ASCENDING (1) or "
          "SAB_MICRO_BATCHES_BELL (2)");
    check_sharing(options);
}

/// Divides samples among ranks and micro-batches, as the options say.
class Planner {
public:
    Planner(const Columns& sizes, const sab_step_plan_options& options)
        : options_(options), samples_(sizes, options), part_of_(samples_.count) {}

    StepPlan make() {
        plan_.world_size = options_.world_size;
        if (samples_.forest) {
            assign_shared();
        } else {
            samples_.is_padded ? assign_padded() : assign_rows();
            fill_empty(samples_.cost_table()[0], parts(), plan_.micro_batches,
                       samples_.group_of.empty(), part_of_);
            find_costs();
        }
        order();
        measure();
        describe();
        return std::move(plan_);
    }

private:
    uint64_t parts() const { return plan_.world_size * plan_.micro_batches; }

    /// The given number of micro-batches, or the first that is tried.
    uint64_t first_count(uint64_t least) const {
        const uint64_t given = options_.micro_batches > 0 ? options_.micro_batches : least;
        check_count(given);
        return next_multiple(given, options_.multiple);
    }

    void check_count(uint64_t micro_batches) const {
        const uint64_t most = most_parts / options_.world_size;
        if (micro_batches <= most_parts && next_multiple(micro_batches, options_.multiple) <= most)
            return;
        if (micro_batches <= most)
            refuse_argument(
                "options.multiple", options_.multiple, micro_batches,
                " micro-batches of a rank, rounded up to a multiple, times options.world_size = ",
                options_.world_size, " must be at most ", most_parts);
        const std::string rule = text("times options.world_size = ", options_.world_size,
                                      " must be at most ", most_parts);
        check(options_.micro_batches == 0, "options.micro_batches", micro_batches, rule);
        refuse_argument("sizes", no_value, micro_batches,
                        " micro-batches of a rank are needed: ", rule);
    }

    void assign_rows() {
        rows_.begin(samples_, plan_.world_size);
        const uint64_t least = rows_.least();
        plan_.least_micro_batches = next_multiple(least, options_.multiple);
        plan_.micro_batches = first_count(least);
        if (plan_.micro_batches < least) refuse_count(least);
        if (fits_rows(options_.micro_batches > 0 ? StepRows::Effort::more : StepRows::Effort::less))
            return;
        if (options_.micro_batches > 0) refuse_count(0);
        search_count(plan_.micro_batches);
    }

    /// A number above `failed` with an assignment. The next ones are tried one by one, then others
    /// in growing steps, and back in halves: where samples are large, many numbers may fail.
    void search_count(uint64_t failed) {
        constexpr int one_by_one = 3;
        const uint64_t multiple = options_.multiple,
                       most = most_parts / plan_.world_size / multiple * multiple,
                       enough = next_multiple(rows_.enough(), multiple);
        const auto fits = [&](uint64_t micro_batches) {
            plan_.micro_batches = micro_batches;
            return fits_rows(StepRows::Effort::more);
        };
        uint64_t step = multiple;
        for (int tries = 1;; ++tries) {
            check_count(failed + 1);
            const uint64_t next = std::min(failed + step, most);
            if (fits(failed < enough ? std::min(next, enough) : next)) break;
            failed = plan_.micro_batches;
            if (tries >= one_by_one) step *= 2;
        }
        uint64_t fitting = plan_.micro_batches;
        std::vector<uint32_t> found = part_of_;
        while (fitting - failed > multiple) {
            const uint64_t middle = failed + (fitting - failed) / multiple / 2 * multiple;
            if (fits(middle)) {
                fitting = middle;
                found = part_of_;
            } else {
                failed = middle;
            }
        }
        plan_.micro_batches = fitting;
        part_of_ = std::move(found);
    }

    bool fits_rows(StepRows::Effort effort) {
        const auto assign = [&](bool is_strict) {
            samples_.round_capacities(is_strict);
            return rows_.assign(plan_.micro_batches, effort, part_of_);
        };
        if (!assign(false)) return false;
        if (samples_.keep_budgets(part_of_, parts())) return true;
        const bool is_found = assign(true);
        samples_.round_capacities(false);
        return is_found;
    }

    void assign_padded() {
        const StepRuns runs(samples_, plan_.world_size);
        plan_.least_micro_batches = next_multiple(runs.least(), options_.multiple);
        plan_.micro_batches = first_count(runs.needed());
        if (plan_.micro_batches < runs.needed())
            refuse_count(runs.least() == runs.needed() ? runs.needed() : 0);
        runs.assign(plan_.micro_batches, part_of_);
    }

    void assign_shared() {
        SharedRows rows(*samples_.forest, samples_, options_);
        plan_.least_micro_batches = next_multiple(rows.least(), options_.multiple);
        uint64_t given = options_.micro_batches;
        if (given > 0) {
            check_count(given);
            given = next_multiple(given, options_.multiple);
            if (given < rows.least()) refuse_count(rows.least());
        }
        plan_.micro_batches = rows.assign(given, part_of_);
        if (plan_.micro_batches == 0) refuse_count(0);
        check_count(plan_.micro_batches);
        plan_.costs = rows.costs(part_of_, parts());
    }

    /// `least`: a lower bound; 0: no assignment was found.
    [[noreturn]] void refuse_count(uint64_t least) const {
        refuse_group();
        std::string limits;
        for (std::size_t b = 0; b < samples_.budgets.size(); ++b)
            limits += (b > 0 ? ", " : "") + samples_.limit_text(b);
        if (least > 0)
            refuse_argument("options.micro_batches", options_.micro_batches, "must be at least ",
                            least, " to keep ", limits);
        refuse_argument("options.micro_batches", options_.micro_batches, "no assignment of ",
                        samples_.count, " samples that keeps ", limits,
                        " was found; use more micro-batches, or a larger budget");
    }

    /// Names a group that no rank can hold.
    void refuse_group() const {
        if (samples_.group_of.empty() || samples_.is_padded || samples_.forest) return;
        for (std::size_t b = 0; b < samples_.budgets.size(); ++b) {
            std::vector<double> sums(samples_.group_counts.size());
            for (std::size_t i = 0; i < samples_.count; ++i) {
                const uint32_t group = samples_.group_of[i];
                sums[group] += samples_.weight_table()[b][i];
                const double room =
                    samples_.capacities[b] * static_cast<double>(plan_.micro_batches);
                if (sums[group] <= room) continue;
                refuse_argument(named("options.groups[", i, "]"), options_.groups[i],
                                "its samples must fit ", plan_.micro_batches, " micro-batches of ",
                                samples_.limit_text(b), ", which hold ", room,
                                "; use more micro-batches, or a larger budget");
            }
        }
    }

    /// The indices of each micro-batch.
    void list() {
        plan_.indices.resize(samples_.count);
        group_items(
            samples_.count, parts(), plan_.offsets, [&](std::size_t i) { return part_of_[i]; },
            [&](std::size_t i, uint64_t at) { plan_.indices[at] = static_cast<int64_t>(i); });
    }

    void find_costs() {
        const ItemTable costs = samples_.cost_table();
        plan_.balances = costs.kinds;
        if (!samples_.is_padded) {
            plan_.costs = costs.sums(part_of_, parts());
            return;
        }
        std::vector<PaddedShape> shapes(parts());
        for (std::size_t i = 0; i < samples_.count; ++i)
            shapes[part_of_[i]].add(first_of(samples_.lengths_of(i), samples_.columns));
        for (const Cost& cost : samples_.balance)
            for (const PaddedShape& shape : shapes)
                plan_.costs.push_back(shape.cost(cost, samples_.columns));
    }

    /// The micro-batches of each rank in the order of the options.
    void order() {
        const auto count = static_cast<uint32_t>(plan_.micro_batches);
        std::vector<uint32_t> place =
            places_by_cost({plan_.costs, plan_.balances, parts()}, plan_.micro_batches);
        for (uint32_t part = 0; part < place.size(); ++part)
            place[part] = part - part % count + place_of(place[part], count);
        std::vector<double> costs(plan_.costs.size());
        for (std::size_t k = 0; k < plan_.balances; ++k)
            for (std::size_t part = 0; part < place.size(); ++part)
                costs[k * parts() + place[part]] = plan_.costs[k * parts() + part];
        plan_.costs = std::move(costs);
        for (uint32_t& part : part_of_) part = place[part];
        list();
    }

    /// Of the micro-batch that is the costliest but for `costlier` others.
    uint32_t place_of(uint32_t costlier, uint32_t count) const {
        if (options_.order == SAB_MICRO_BATCHES_DESCENDING) return costlier;
        if (options_.order == SAB_MICRO_BATCHES_ASCENDING) return count - 1 - costlier;
        // Bell: to both sides of the middle in turns.
        const uint32_t middle = (count - 1) / 2, distance = (costlier + 1) / 2;
        return costlier % 2 == 1 ? middle + distance : middle - distance;
    }

    void measure() {
        const uint64_t ranks = plan_.world_size, count = plan_.micro_batches;
        for (std::size_t k = 0; k < plan_.balances; ++k) {
            const std::span<const double> costs =
                std::span(plan_.costs).subspan(k * parts(), parts());
            std::vector<double> of_rank(ranks), of_micro_step(count);
            for (uint64_t part = 0; part < parts(); ++part) {
                of_rank[part / count] += costs[part];
                double& largest = of_micro_step[part % count];
                largest = std::max(largest, costs[part]);
            }
            const double sum = std::accumulate(of_rank.begin(), of_rank.end(), 0.0),
                         mean = sum / static_cast<double>(ranks);
            const double steps = std::accumulate(of_micro_step.begin(), of_micro_step.end(), 0.0);
            plan_.rank_imbalance[k] = mean > 0 ? std::ranges::max(of_rank) / mean : 1;
            plan_.micro_step_imbalance[k] = mean > 0 ? steps / mean : 1;
            plan_.least_rank_imbalance[k] = least_imbalance(k, mean);
        }
    }

    double least_imbalance(std::size_t k, double mean) const {
        const std::span<const double> costs = samples_.cost_table()[k];
        double least = std::ranges::max(costs);
        if (!samples_.is_padded && !samples_.forest) {
            std::vector<double> groups(samples_.group_counts.size());
            for (std::size_t i = 0; i < samples_.group_of.size(); ++i)
                least = std::max(least, groups[samples_.group_of[i]] += costs[i]);
            if (are_whole(costs)) least = std::max(least, std::ceil(mean));
        }
        return mean > 0 ? std::max(1.0, least / mean) : 1;
    }

    /// All that does not depend on costs.
    void describe() {
        const std::size_t count = samples_.count, columns = samples_.columns;
        plan_.columns = columns;
        plan_.inverse.resize(count);
        for (std::size_t at = 0; at < count; ++at)
            plan_.inverse[static_cast<std::size_t>(plan_.indices[at])] = static_cast<int64_t>(at);
        plan_.totals.assign(count, 0);
        for (std::size_t j = 0; j < columns; ++j)
            for (std::size_t i = 0; i < count; ++i)
                plan_.totals[i] += samples_.sizes[j * count + i];
        plan_.nodes = count;
        if (samples_.forest)
            list_shared();
        else if (!samples_.is_padded)
            list_cu_seqlens();
        plan_.group_of = std::move(samples_.group_of);
        plan_.group_counts = std::move(samples_.group_counts);
    }

    /// Adds the cumulative lengths of what each micro-batch has, from `begins` on. False where one
    /// is not a whole number of 32 bits.
    template <class LengthOf>
    bool add_ends(std::span<const uint64_t> begins, const LengthOf& length_of) {
        for (uint64_t part = 0; part < parts(); ++part) {
            double sum = 0;
            plan_.cu_seqlens.push_back(0);
            for (uint64_t at = begins[part]; at < begins[part + 1]; ++at) {
                const double length = length_of(at);
                sum += length;
                if (length != std::floor(length) || sum > std::numeric_limits<int32_t>::max())
                    return false;
                plan_.cu_seqlens.push_back(static_cast<int32_t>(sum));
            }
        }
        return true;
    }

    void list_cu_seqlens() {
        const std::size_t count = samples_.count, columns = samples_.columns;
        plan_.cu_seqlens.reserve(columns * (count + parts()));
        for (std::size_t j = 0; j < columns; ++j)
            if (!add_ends(plan_.offsets, [&](uint64_t at) {
                    return samples_.sizes[j * count + static_cast<std::size_t>(plan_.indices[at])];
                }))
                return;
        for (std::size_t j = 0; j < columns; ++j)
            plan_.cu_seqlens_of.push_back(plan_.cu_seqlens.data() + j * (count + parts()));
    }

    void list_shared() {
        Forest& forest = *samples_.forest;
        list_segments(forest, plan_.indices, plan_.offsets, plan_.segments, plan_.segment_offsets);
        if (add_ends(plan_.segment_offsets,
                     [&](uint64_t at) { return static_cast<double>(plan_.segments[at].length); }))
            plan_.cu_seqlens_of.push_back(plan_.cu_seqlens.data());
        if (!forest.has_parents) return;
        plan_.nodes = forest.nodes.size();
        for (int64_t& index : plan_.indices)
            index = forest.indices[static_cast<std::size_t>(index)];
        plan_.leaves = std::move(forest.indices);
    }

    StepPlan plan_;
    const sab_step_plan_options& options_;
    StepSamples samples_;
    StepRows rows_;
    std::vector<uint32_t> part_of_;  ///< micro-batch of each sample
};

}  // namespace

StepPlan make_step_plan(const Columns& sizes, const sab_step_plan_options& options) {
    check_options(options);
    const Progress progress(options.progress, options.progress_ctx);
    const CurrentProgress current(&progress);
    progress.report(0, sizes.count());
    return Planner(sizes, options).make();
}

sab_step_plan_view StepPlan::view() const {
    sab_step_plan_view view SAB_STEP_PLAN_VIEW_INIT;
    view.world_size = world_size;
    view.micro_batches = micro_batches;
    view.least_micro_batches = least_micro_batches;
    view.samples = indices.size();
    view.nodes = nodes;
    view.columns = columns;
    view.indices = indices.data();
    view.offsets = offsets.data();
    view.inverse = inverse.data();
    view.cu_seqlens = cu_seqlens_of.empty() ? nullptr : cu_seqlens_of.data();
    view.segments = segment_offsets.empty() ? nullptr : segments.data();
    view.segment_offsets = segment_offsets.empty() ? nullptr : segment_offsets.data();
    view.balance_count = balances;
    view.costs = costs.data();
    view.rank_imbalance = rank_imbalance.data();
    view.least_rank_imbalance = least_rank_imbalance.data();
    view.micro_step_imbalance = micro_step_imbalance.data();
    return view;
}

void StepPlan::loss_weights(sab_loss_weighting weighting, const double* tokens,
                            std::span<double> weights) const {
    check(weighting >= SAB_LOSS_BY_SAMPLE && weighting <= SAB_LOSS_BY_GROUP, "weighting", weighting,
          "must be SAB_LOSS_BY_SAMPLE (0), SAB_LOSS_BY_TOKEN (1) or SAB_LOSS_BY_GROUP (2)");
    const std::size_t count = indices.size();
    const bool is_by_group = weighting == SAB_LOSS_BY_GROUP && !group_of.empty();
    const auto groups = static_cast<double>(is_by_group ? group_counts.size() : count);
    const auto place = [&](std::size_t sample) {
        return leaves.empty() ? sample : static_cast<std::size_t>(leaves[sample]);
    };
    const auto counted = [&](std::size_t sample) {
        return tokens != nullptr ? tokens[place(sample)] : totals[sample];
    };
    double sum = 0;
    for (std::size_t i = 0; i < count && weighting == SAB_LOSS_BY_TOKEN; ++i) {
        if (!(counted(i) >= 0 && std::isfinite(counted(i))))
            refuse_argument(named("tokens[", place(i), "]"), counted(i),
                            "must be finite and at least 0");
        sum += counted(i);
    }
    if (weighting == SAB_LOSS_BY_TOKEN && !(sum > 0 && std::isfinite(sum)))
        refuse_argument("tokens", no_value, "their sum is ", sum, ": must be finite and above 0");
    std::ranges::fill(weights, 0.0);
    for (std::size_t i = 0; i < count; ++i)
        weights[place(i)] = weighting == SAB_LOSS_BY_TOKEN
                                ? counted(i) / sum
                                : 1 / (groups * (is_by_group ? group_counts[group_of[i]] : 1));
}

}  // namespace sab
