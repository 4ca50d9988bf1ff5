#include "balance/samples.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "balance/partition.h"
#include "base/hasher.h"
#include "base/log.h"
#include "base/sorting.h"
#include "cost/cost.h"
#include "plan/points.h"
#include "plan/sorted.h"

namespace sab {
namespace {

/// What samples cost in a row, or padded micro-batches of one sample, asked for in the order of the
/// distinct ones.
class SampleCost {
public:
    /// `name` is that of the cost in messages.
    SampleCost(Cost cost, std::string name, bool is_padded)
        : cost_(std::move(cost)), name_(std::move(name)), is_padded_(is_padded) {
        if (!is_padded) cost_.check_row(name_);
        if (is_padded && cost_.is_callback())
            refuse_argument(name_, no_value,
                            "is a callback: padded micro-batches are made when they are needed, "
                            "and must have costs of terms");
    }
    double operator()(std::span<const double> sizes) {
        const double cost = is_padded_ ? cost_(1, sizes) : cost_.in_row(sizes, name_);
        const bool is_longer =
            std::ranges::equal(sizes, first_of(sizes_before_, sizes.size()), std::greater_equal());
        if (is_longer && cost < before_)
            refuse_argument(name_, no_value, "a sample of length ", lengths_text(sizes), " costs ",
                            cost, ", a shorter one ", before_, ": must never decrease");
        std::ranges::copy(sizes, sizes_before_.begin());
        return before_ = cost;
    }

private:
    Cost cost_;
    std::string name_;
    bool is_padded_;
    double before_ = 0;
    PerColumn sizes_before_{};
};

/// The weights if the cost of a row is a constant and a weighted sum of its totals.
std::optional<PerColumn> weights_in_row(const Cost& cost) {
    if (cost.is_callback()) return std::nullopt;
    PerColumn weights{};
    for (const CostTerm& term : cost.terms()) {
        const uint32_t power =
            std::accumulate(term.length_powers.begin(), term.length_powers.end(), 0u);
        if (term.count_power == 0 && power == 0) continue;
        if (term.count_power != 1 || power != 1) return std::nullopt;
        for (std::size_t j = 0; j < weights.size(); ++j)
            weights[j] += term.coefficient * term.length_powers[j];
    }
    return weights;
}

Multiples multiples_of(const sab_balanced_options& balanced, std::size_t columns) {
    const Multiples multiples{
        read_multiples(balanced.length_multiples, balanced.length_multiple_count, columns,
                       "balanced.length_multiple"),
        read_multiples(balanced.row_multiples, balanced.row_multiple_count, columns,
                       "balanced.row_multiple")};
    check(balanced.padded == 0 || !multiples.round_rows(), "balanced.row_multiples[0]",
          multiples.rows[0], "must be 0 with balanced.padded, which makes no rows");
    return multiples;
}

/// What micro-batches may hold: how much of it each sample takes.
class Budgets {
public:
    Budgets(const sab_balanced_options& balanced, ColumnNames columns)
        : multiples_(multiples_of(balanced, columns.size())),
          columns_(columns.size()),
          is_padded_(balanced.padded != 0),
          is_one_column_(columns.size() == 1),
          has_shares_(is_one_column_ && !is_padded_ && balanced.budget_count > 1) {
        for (Budget& budget :
             read_budgets(balanced.budgets, balanced.budget_count, columns, "balanced.budgets")) {
            are_totals_ = are_totals_ && budget.cost.is_total();
            const std::string name = text("balanced.budgets[", all_.size(), "].cost");
            One one{{budget.cost, name, is_padded_}, budget.limit, 0, 0, {}};
            one.most = budget.limit - (is_padded_ ? 0 : budget.cost.constant());
            one.shared = one.most;
            if (multiples_.round_rows()) leave_padding(one, budget.cost, name);
            all_.push_back(std::move(one));
        }
    }

    const Multiples& multiples() const { return multiples_; }

    std::size_t count() const { return all_.size(); }
    /// Takes the next sample; false when it exceeds a budget alone.
    bool take(std::span<const double> sizes) {
        for (exceeded_ = 0; exceeded_ < all_.size(); ++exceeded_) {
            One& one = all_[exceeded_];
            one.needs = one.takes = one.cost(sizes);
            if (one.needs <= one.shared) continue;
            if (!fits_alone(one, sizes)) return false;
            if (one.needs > 0) one.takes = one.room();
        }
        return true;
    }
    /// Of a budget, by the sample that was taken last.
    double needs(std::size_t i) const { return all_[i].needs; }

    /// In a row, samples of one column take the largest of their shares of several budgets: if
    /// these sum to at most 1, no budget is exceeded. Others take of each budget.
    std::size_t weights() const { return has_shares_ ? 1 : all_.size(); }
    void add_weights(std::vector<double>& weights) const {
        if (!has_shares_) {
            for (const One& one : all_) weights.push_back(one.takes);
            return;
        }
        double share = 0;
        for (const One& one : all_) share = std::max(share, one.takes / one.room());
        weights.push_back(share);
    }
    /// Of a weight. Sums of whole numbers are exact. Others are rounded, differently in each order:
    /// a little room ensures that none of them is over the budget.
    double capacity(std::size_t weight, bool is_whole) const {
        const double room = has_shares_ ? 1 : all_[weight].room();
        const bool is_exact =
            is_padded_ || (is_whole && (!is_one_column_ || (!has_shares_ && are_totals_)));
        return is_exact ? room : room * (1 - rounding_of_sums);
    }
    /// "balanced.budgets[0].limit = 16", of the budget that the sample taken last exceeded.
    std::string exceeded() const {
        return text("balanced.budgets[", exceeded_, "].limit = ", all_[exceeded_].limit);
    }

private:
    struct One {
        SampleCost cost;
        double limit;
        double most;    ///< the limit without the constant of the cost
        double shared;  ///< of it, for the samples of a row: the rest is kept for its padding
        std::optional<PerColumn> weights;  ///< of columns, if the cost of rounded rows is linear
        double needs = 0;                  ///< by the sample taken last
        double takes = 0;                  ///< of the room; all of it, if it must be alone

        /// Nothing is divided by 0: where this is 1, each sample needs nothing or is alone.
        double room() const { return shared > 0 ? shared : 1; }
    };

    /// The padding of a row is one more sequence. A total of one column ends at a whole multiple;
    /// for other costs the longest padding is kept free.
    void leave_padding(One& one, const Cost& cost, const std::string& name) const {
        PerColumn most = multiples_.rows;
        for (std::size_t j = 0; j < columns_; ++j) {
            const double row = most[j], length = multiples_.lengths[j];
            // Totals of whole multiples are so much nearer to the next one.
            if (row > 0 && length > 0 && std::fmod(row, length) == 0) most[j] -= length;
        }
        one.weights = weights_in_row(cost);
        if (one.weights && std::ranges::count(*one.weights, 0.0) == SAB_MAX_COLUMNS - 1) {
            const double unit = cost.in_row(first_of(multiples_.rows, columns_), name);
            if (unit > 0) one.shared = std::floor(one.most / unit) * unit;
        } else {
            one.shared = one.most - cost.in_row(first_of(most, columns_), name);
        }
    }
    /// Whether a sample that leaves no room for the longest padding fits with its own.
    bool fits_alone(const One& one, std::span<const double> sizes) const {
        if (!one.weights) return false;
        double cost = 0;
        for (std::size_t j = 0; j < columns_; ++j)
            cost += (*one.weights)[j] * multiples_.row(sizes[j], j);
        return cost <= one.most;
    }

    std::vector<One> all_;
    Multiples multiples_;
    std::size_t columns_;
    bool is_padded_, is_one_column_, has_shares_;
    std::size_t exceeded_ = 0;
    bool are_totals_ = true;
};

/// Sorts the samples of one column.
void sort_one(WeighedSamples& samples, const Sizes& sizes, const Progress& progress) {
    Sorted sorted = sort_by_size(sizes, true, progress);
    samples.order = std::move(sorted.order);
    samples.extents = std::move(sorted.distinct_sizes);
    samples.first_offsets = std::move(sorted.first_offsets);
}

/// Sorts the samples of several columns.
void sort_several(WeighedSamples& samples, const Columns& sizes, const Progress& progress) {
    const Points points = sort_points(sizes, {}, progress);
    const std::size_t columns = points.columns, distinct = points.size();
    const auto samples_of = [&](std::size_t point) {
        return static_cast<uint32_t>(points.first_offsets[point + 1] - points.first_offsets[point]);
    };
    PerColumn totals{};
    for (std::size_t point = 0; point < distinct; ++point)
        for (std::size_t j = 0; j < columns; ++j)
            totals[j] += points.value(point, j) * samples_of(point);
    std::vector<double> extents(distinct);
    for (std::size_t point = 0; point < distinct; ++point)
        for (std::size_t j = 0; j < columns; ++j)
            if (totals[j] > 0)
                extents[point] =
                    std::max(extents[point], points.value(point, j) *
                                                 static_cast<double>(points.count) / totals[j]);
    samples.order = make_huge_array<uint32_t>(points.count);
    uint32_t offset = 0;
    for (const uint32_t point : by_ascending(extents)) {
        samples.first_offsets.push_back(offset);
        samples.extents.push_back(extents[point]);
        for (std::size_t j = 0; j < columns; ++j) samples.sizes.push_back(points.value(point, j));
        std::copy_n(points.order.get() + points.first_offsets[point], samples_of(point),
                    samples.order.get() + offset);
        offset += samples_of(point);
    }
    samples.first_offsets.push_back(offset);
}

/// `sizes[3]` and `17`; of several columns `(17, 20)`.
NamedValue named_size(const WeighedSamples& samples, uint32_t offset) {
    const std::string sizes = lengths_text(samples.sizes_of(offset));
    return {text("sizes[", samples.order[offset], "]"),
            samples.columns == 1 ? sizes : text("(", sizes, ")")};
}

/// Names the first of the samples that no micro-batch can hold.
[[noreturn]] void refuse_oversize(const WeighedSamples& samples, Budgets& budgets) {
    uint32_t first = 0;
    bool is_found = false;
    for (uint32_t offset = 0; offset < samples.count; ++offset) {
        if (!samples.is_left_out[samples.distinct_of[offset]]) continue;
        if (!is_found || samples.order[offset] < samples.order[first]) first = offset;
        is_found = true;
    }
    if (samples.columns > 1) budgets.take(samples.laid_sizes_of(first));
    refuse_argument(
        named_size(samples, first), "must fit ", std::string_view(budgets.exceeded()), " alone",
        std::string_view(samples.multiples.hint()), "; ", samples.count - samples.kept, " of ",
        samples.count,
        " samples do not. Set balanced.oversize to SAB_OVERSIZE_SKIP (1), or use a larger budget");
}

/// The costs to be balanced; none: those of budgets.
std::vector<SampleCost> balanced_costs(const sab_balanced_options& balanced, ColumnNames columns) {
    std::vector<SampleCost> costs;
    for (Cost& cost :
         read_balances(balanced.balance, balanced.balance_count, columns, "balanced.balance"))
        costs.emplace_back(std::move(cost), text("balanced.balance[", costs.size(), "]"),
                           balanced.padded != 0);
    return costs;
}

/// Null: micro-batches are rows.
std::shared_ptr<const PaddedRules> padded_rules(const sab_balanced_options& balanced,
                                                ColumnNames columns) {
    if (balanced.padded == 0) return nullptr;
    PaddedRules rules{
        read_budgets(balanced.budgets, balanced.budget_count, columns, "balanced.budgets"),
        read_balances(balanced.balance, balanced.balance_count, columns, "balanced.balance")};
    if (rules.balance.empty() && rules.budgets.empty())
        rules.balance.emplace_back(nullptr, columns.size());
    for (std::size_t i = 0; i < rules.budgets.size() && balanced.balance_count == 0; ++i)
        if (i == 0 || columns.size() > 1) rules.balance.push_back(rules.budgets[i].cost);
    return std::make_shared<const PaddedRules>(std::move(rules));
}

/// The costs, weights and capacities of the distinct ones, and which are left out.
void weigh(WeighedSamples& samples, Budgets& budgets, std::vector<SampleCost>& balance) {
    const std::size_t columns = samples.columns, distinct = samples.extents.size();
    const std::vector<double>& true_sizes = columns == 1 ? samples.extents : samples.sizes;
    samples.multiples = budgets.multiples();
    if (samples.multiples.round_lengths())
        for (std::size_t i = 0; i < true_sizes.size(); ++i)
            samples.laid_sizes.push_back(samples.multiples.length(true_sizes[i], i % columns));
    const std::vector<double>& all_sizes =
        samples.laid_sizes.empty() ? true_sizes : samples.laid_sizes;
    const auto is_whole = [](double size) { return size == std::floor(size); };
    samples.has_whole_sizes =
        std::ranges::all_of(true_sizes, is_whole) && std::ranges::all_of(all_sizes, is_whole);
    // Without a balance: the costs of the budgets, of one column that of the first.
    const std::size_t defaults =
        columns == 1 ? std::min<std::size_t>(budgets.count(), 1) : budgets.count();
    samples.balances = std::max<std::size_t>(1, balance.empty() ? defaults : balance.size());
    samples.end = samples.count;
    samples.kept = 0;
    samples.is_left_out.resize(distinct);
    for (std::size_t i = 0; i < distinct; ++i) {
        const std::span sizes(all_sizes.data() + i * columns, columns);
        const uint32_t begin = samples.first_offsets[i];
        if (begin >= samples.end || !budgets.take(sizes)) {
            samples.is_left_out[i] = true;
            if (columns == 1) samples.end = std::min<uint64_t>(samples.end, begin);
            samples.costs.resize(samples.costs.size() + samples.balances);
            samples.weights.resize(samples.weights.size() + budgets.weights());
            continue;
        }
        for (std::size_t k = 0; k < samples.balances; ++k)
            samples.costs.push_back(!balance.empty() ? balance[k](sizes)
                                    : budgets.count() > 0
                                        ? budgets.needs(k)
                                        : std::accumulate(sizes.begin(), sizes.end(), 0.0));
        budgets.add_weights(samples.weights);
        samples.kept += samples.first_offsets[i + 1] - begin;
    }
}

/// The capacities, and the weights that are no more than these, when all weights are known.
void limit_weights(WeighedSamples& samples, const Budgets& budgets) {
    const std::size_t weights = budgets.weights();
    for (std::size_t j = 0; j < weights; ++j) {
        bool is_whole = samples.has_whole_sizes;
        double sum = 0;
        for (std::size_t i = j; i < samples.weights.size() && samples.columns > 1; i += weights) {
            const double weight = samples.weights[i];
            const std::size_t distinct = i / weights;
            sum += weight * (samples.first_offsets[distinct + 1] - samples.first_offsets[distinct]);
            is_whole = is_whole && weight == std::floor(weight) && sum < largest_size;
        }
        const double capacity = budgets.capacity(j, is_whole);
        samples.capacities.push_back(capacity);
        for (std::size_t i = j; i < samples.weights.size(); i += weights)
            samples.weights[i] = samples.is_left_out[i / weights]
                                     ? capacity
                                     : std::min(samples.weights[i], capacity);
    }
}

/// `has_balance`: the costs are those of balanced.balance, else those of the budgets.
void find_means(WeighedSamples& samples, bool has_balance) {
    PerBudget costs{}, weights{};
    const std::size_t caps = samples.capacities.size();
    for (std::size_t i = 0; i < samples.extents.size(); ++i) {
        if (samples.is_left_out[i]) continue;
        const uint32_t count = samples.first_offsets[i + 1] - samples.first_offsets[i];
        for (std::size_t k = 0; k < samples.balances; ++k)
            costs[k] += samples.costs[i * samples.balances + k] * count;
        for (std::size_t j = 0; j < caps; ++j) weights[j] += samples.weights[i * caps + j] * count;
        if (caps > 0)
            samples.mean_share += samples.share_of(samples.first_offsets[i]) * count /
                                  static_cast<double>(samples.kept);
    }
    for (std::size_t k = 0; k < samples.balances; ++k) {
        if (!std::isfinite(costs[k])) {
            const std::string name = has_balance ? text("balanced.balance[", k, "]")
                                                 : text("balanced.budgets[", k, "].cost");
            refuse_argument(name, no_value, "costs must have a finite sum");
        }
        samples.mean_cost[k] = costs[k] / static_cast<double>(samples.kept);
    }
    for (std::size_t j = 0; j < caps; ++j)
        samples.mean_weight[j] = weights[j] / static_cast<double>(samples.kept);
}

/// Sorts and weighs samples. `is_error`: those that are too large are refused.
std::shared_ptr<WeighedSamples> weigh_all(const Columns& sizes, Budgets budgets,
                                          std::vector<SampleCost> balance, bool is_error,
                                          const Progress& progress) {
    auto samples = std::make_shared<WeighedSamples>();
    samples->count = sizes.count();
    samples->columns = sizes.size();
    if (sizes.size() == 1)
        sort_one(*samples, sizes[0], progress);
    else
        sort_several(*samples, sizes, progress);
    samples->distinct_of.resize(samples->count);
    for (std::size_t i = 0; i < samples->extents.size(); ++i)
        std::fill(samples->distinct_of.begin() + samples->first_offsets[i],
                  samples->distinct_of.begin() + samples->first_offsets[i + 1],
                  static_cast<uint32_t>(i));
    weigh(*samples, budgets, balance);
    limit_weights(*samples, budgets);
    const uint64_t over = samples->count - samples->kept;
    if (over > 0 && is_error) refuse_oversize(*samples, budgets);
    if (samples->kept == 0)
        refuse_argument("sizes", no_value, "no sample is left: all ", over,
                        " are over a budget of a micro-batch alone");
    if (over > 0)
        log(SAB_LOG_WARNING, "skipped ", over, " of ", samples->count,
            " samples: each over a budget of a micro-batch alone");
    find_means(*samples, !balance.empty());
    return samples;
}

/// Of a source, an epoch has some samples once more than others: which ones is as if drawn.
/// `possible`: the samples that any epoch has.
double deviation_of(const WeighedSamples& possible, const EpochChoice& choice) {
    struct Sums {
        double count = 0, shares = 0, squares = 0;
    };
    std::vector<Sums> sums(choice.sources());
    for (std::size_t offset = 0; offset < possible.count && !possible.capacities.empty();
         ++offset) {
        const double share = possible.share_of(offset);
        Sums& of_source = sums[choice.source_of()[possible.order[offset]]];
        of_source.count += 1;
        of_source.shares += share;
        of_source.squares += share * share;
    }
    double mean = 0, variance = 0;
    const std::vector<SourceTurns> turns = choice.source_turns(0);
    for (std::size_t s = 0; s < sums.size(); ++s) {
        if (sums[s].count == 0) continue;
        const double each = sums[s].shares / sums[s].count, extra = turns[s].extra;
        mean += each * (turns[s].least * static_cast<double>(turns[s].count) + extra);
        variance += extra * (1 - extra / turns[s].count) *
                    std::max(0.0, sums[s].squares / sums[s].count - each * each);
    }
    return mean > 0 ? std::sqrt(variance) / mean : 0;
}

void refuse_callbacks(const sab_balanced_options& balanced) {
    const auto refuse = [](const sab_cost* cost, std::string_view name) {
        if (cost != nullptr && cost->impl.is_callback())
            refuse_argument(name, no_value,
                            "is a callback: the samples of a mixture are weighed again in each "
                            "epoch, and must have costs of terms");
    };
    for (std::size_t i = 0; i < balanced.budget_count; ++i)
        refuse(balanced.budgets[i].cost, text("balanced.budgets[", i, "].cost"));
    for (std::size_t i = 0; i < balanced.balance_count; ++i)
        refuse(balanced.balance[i], text("balanced.balance[", i, "]"));
}

}  // namespace

double WeighedSamples::share_of(std::size_t offset) const {
    const double* const weights_here = weights_of(offset);
    if (capacities.size() == 1) return weights_here[0];
    double share = 0;
    for (std::size_t j = 0; j < capacities.size(); ++j)
        share = std::max(share, weights_here[j] / capacities[j]);
    return share;
}

std::size_t WeighedSamples::left_out(std::span<int64_t> room) const {
    std::size_t found = 0;
    for (std::size_t i = 0; i < extents.size() && found < room.size(); ++i)
        for (uint32_t k = first_offsets[i]; is_left_out[i] && k < first_offsets[i + 1]; ++k)
            if (found < room.size()) room[found++] = order[k];
    return count - kept;
}

uint64_t WeighedSamples::fingerprint() const {
    Hasher hash;
    hash.add_all(std::span(columns == 1 ? extents : sizes));
    hash.add_all(std::span(first_offsets));
    hash.add_bytes(order.get(), count * sizeof(uint32_t));
    return hash.digest();
}

EpochSamples::Weigh EpochSamples::weigh_by(const sab_balanced_options& balanced,
                                           ColumnNames columns) {
    const Budgets budgets(balanced, columns);
    const std::vector<SampleCost> costs = balanced_costs(balanced, columns);
    const bool is_error = balanced.oversize == SAB_OVERSIZE_ERROR;
    const auto padded = padded_rules(balanced, columns);
    return [budgets, costs, padded, is_error](const Columns& sizes, const Progress& progress) {
        const auto samples = weigh_all(sizes, budgets, costs, is_error, progress);
        samples->padded = padded;
        return samples;
    };
}

EpochSamples::EpochSamples(const Columns& sizes, const sab_balanced_options& balanced,
                           const Progress& progress) {
    Weigh weigh = weigh_by(balanced, sizes.names());
    if (sizes.choice() == nullptr) {
        all_ = weigh(sizes, progress);
        fingerprint_ = all_->fingerprint();
        return;
    }
    sizes.refuse_shard();
    refuse_callbacks(balanced);
    // A later epoch may take samples that are too large: they are refused now.
    const auto possible = weigh(sizes.of_samples(sizes.choice()->possible_samples()), progress);
    Hasher hash;
    hash.add(possible->fingerprint());
    hash.add(sizes.choice()->fingerprint());
    fingerprint_ = hash.digest();
    choice_ = sizes.choice();
    deviation_ = deviation_of(*possible, *choice_);
    sizes_ = sizes;
    weigh_ = std::move(weigh);
}

std::shared_ptr<const WeighedSamples> EpochSamples::of(uint64_t epoch,
                                                       const Progress& progress) const {
    if (choice_ == nullptr) return all_;
    const std::vector<uint32_t> samples = choice_->samples(epoch);
    const std::shared_ptr<WeighedSamples> weighed = weigh_(sizes_->of_samples(samples), progress);
    for (uint32_t& place : std::span(weighed->order.get(), weighed->count)) place = samples[place];
    return weighed;
}

}  // namespace sab
