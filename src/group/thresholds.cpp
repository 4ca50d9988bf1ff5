#include "group/thresholds.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <type_traits>
#include <utility>

#include "base/bits.h"
#include "base/python_random.h"
#include "cost/cost.h"
#include "plan/segmentation.h"
#include "plan/sorted.h"

namespace sab {
namespace {

// up to so many distinct lengths the costs of all groups are computed at most once
constexpr std::size_t most_tabled = 1024;
constexpr uint64_t steps_between_reports = uint64_t{1} << 16;

/// The costs of groups. A group is a range of the distinct lengths, which are numbered in ascending
/// order. A threshold is such a number, too: group g has the lengths after threshold g - 1 up to
/// threshold g.
class Groups {
public:
    Groups(Sorted sorted, Cost cost, bool per_sample)
        : sorted_(std::move(sorted)),
          first_(sorted_.first_offsets.begin(), sorted_.first_offsets.end()),
          cost_(std::move(cost)) {
        // its answers are checked where they are given
        if (cost_.is_callback() && !per_sample) return;
        const uint32_t degree = per_sample ? 1 : cost_.count_degree();
        by_count_.resize(std::size_t{degree} + 1);
        for (uint32_t power = 0; power <= degree; ++power)
            for (std::size_t number = 0; number < length_count(); ++number) {
                const double each = length(number);
                by_count_[power].push_back(!per_sample  ? cost_.by_count(power, {&each, 1})
                                           : power == 1 ? cost_(1, each)
                                                        : 0);
            }
        const double one = of(1, 0), two = of(2, 0);
        if (!(one >= 0 && two >= one))
            refuse_argument(
                "options.cost", no_value, "cost(1, ", length(0), ") = ", one, " and cost(2, ",
                length(0), ") = ", two,
                " must not be negative nor decrease: they do not hold for lengths so short");
        for (std::size_t number = 0; number < length_count(); ++number)
            check_sum(of(static_cast<double>(sorted_.count), number),
                      "of all samples in one group");
    }

    std::size_t length_count() const { return sorted_.distinct_sizes.size(); }
    double threshold(std::size_t number) const { return sorted_.distinct_sizes[number]; }
    /// Factors of the powers of the count, for each distinct length as the longest of a group.
    /// Empty for a callback.
    const std::vector<std::vector<double>>& by_count() const { return by_count_; }
    /// Number of samples shorter than each distinct length.
    const double* first() const { return first_.data(); }

    /// Cost of the group of the distinct lengths [begin, end).
    double operator()(std::size_t begin, std::size_t end) const {
        const uint32_t count = sorted_.first_offsets[end] - sorted_.first_offsets[begin];
        if (count == 0) return 0;
        return by_count_.empty() ? cost_(count, length(end - 1)) : of(count, end - 1);
    }

    /// Checks what the exact methods rely on, without further calls of a callback.
    void check_rising() const {
        for (std::size_t number = 1; !by_count_.empty() && number < length_count(); ++number)
            if (const double here = of(1, number), before = of(1, number - 1); here < before)
                refuse_argument("options.cost", no_value, "cost(1, ", length(number), ") = ", here,
                                " is less than cost(1, ", length(number - 1), ") = ", before,
                                ": must never decrease");
    }

    static void check_sum(double cost, std::string_view what) {
        check(std::isfinite(cost), "options.cost", cost, what, " must be finite");
    }

private:
    double length(std::size_t number) const {
        if (sorted_.distinct_sizes[number] > 0) return sorted_.distinct_sizes[number];
        // an empty sample takes a row all the same
        return length_count() > 1 ? sorted_.distinct_sizes[1] : 1;
    }

    double of(double count, std::size_t number) const {
        double cost = 0;  // Horner's rule
        for (std::size_t power = by_count_.size(); power-- > 0;)
            cost = cost * count + by_count_[power][number];
        return cost;
    }

    Sorted sorted_;
    std::vector<double> first_;
    Cost cost_;
    std::vector<std::vector<double>> by_count_;
};

using LengthNumbers = std::vector<uint32_t>;  // thresholds, ascending

/// Calls `use(rows, cost)` with the costs in the form that is fastest to evaluate many times.
template <class Use>
LengthNumbers with_costs(const Groups& groups, const Use& use) {
    const std::size_t length_count = groups.length_count();
    const auto& by_count = groups.by_count();
    if (by_count.size() == 2)
        return use(Rows::divided,
                   LinearCost{by_count[0].data(), by_count[1].data(), groups.first()});
    using AnyCost = std::function<double(std::size_t, std::size_t)>;
    if (!by_count.empty() || length_count > most_tabled)
        return use(Rows::divided,
                   AnyCost([&](std::size_t begin, std::size_t end) { return groups(begin, end); }));
    std::vector<double> table(length_count * (length_count + 1), -1);  // negative: not computed yet
    return use(Rows::plain, AnyCost([&](std::size_t begin, std::size_t end) {
                   double& known = table[begin * (length_count + 1) + end];
                   if (known < 0) known = groups(begin, end);
                   return known;
               }));
}

LengthNumbers thresholds_of(const std::vector<uint32_t>& ends, std::size_t k,
                            std::size_t length_count) {
    LengthNumbers thresholds(ends.begin(), ends.end());
    for (uint32_t& end : thresholds) --end;
    // a group fewer: its threshold is the longest
    thresholds.resize(k, static_cast<uint32_t>(length_count - 1));
    return thresholds;
}

LengthNumbers least_total(const Groups& groups, std::size_t k, const Progress& progress) {
    return with_costs(groups, [&](Rows rows, const auto& cost) {
        return thresholds_of(
            optimal_segments(all_ends(groups.length_count(), k + 1, true), rows, progress, cost), k,
            groups.length_count());
    });
}

/// The most that fits, at most `limit`, when all below it fits: by steps that double, then halve.
template <class Fits>
std::size_t most_that(std::size_t limit, const Fits& fits) {
    std::size_t most = 0, step = 1;
    for (; step <= limit - most && fits(most + step); step *= 2) most += step;
    while ((step /= 2) > 0)
        if (step <= limit - most && fits(most + step)) most += step;
    return most;
}

/// Groups of at most so much cost, by a cost that never falls with count and length.
template <class CostOf>
struct Capped {
    const CostOf& cost;
    std::size_t length_count;
    double most;

    double operator()(std::size_t begin, std::size_t end) const {
        const double given = cost(begin, end);
        return given <= most ? given : std::numeric_limits<double>::infinity();
    }

    /// The largest end of a group that begins at `begin`; `begin` itself if not even one length
    /// fits.
    std::size_t latest_end(std::size_t begin) const {
        return begin + most_that(length_count - begin,
                                 [&](std::size_t n) { return cost(begin, begin + n) <= most; });
    }

    /// The smallest beginning of a group that ends at `end`, which is above 0. One length is
    /// assumed to fit.
    std::size_t earliest_begin(std::size_t end) const {
        return end - std::max<std::size_t>(1, most_that(end, [&](std::size_t n) {
                                               return cost(end - n, end) <= most;
                                           }));
    }

    bool allows(const std::vector<uint32_t>& ends) const {
        std::size_t begin = 0;
        return std::ranges::all_of(
            ends, [&](std::size_t end) { return cost(std::exchange(begin, end), end) <= most; });
    }

    /// The range of ends of each group for which all groups before and after it fit.
    std::vector<Ends> ends(std::size_t count) const {
        std::vector<Ends> ends = all_ends(length_count, count, true);
        std::size_t end = 0, begin = length_count;
        for (std::size_t group = 0; group + 1 < count; ++group)
            ends[group].high = std::min(ends[group].high, end = latest_end(end));
        for (std::size_t group = count - 1; group-- > 0 && begin > 0;)
            ends[group].low = std::max(ends[group].low, begin = earliest_begin(begin));
        const bool is_lawful =
            std::ranges::all_of(ends, [](const Ends& each) { return each.low <= each.high; });
        return is_lawful ? ends : all_ends(length_count, count, true);
    }
};

/// Whether trying them costs more than the quick way of LinearCost.
bool are_wide(const std::vector<Ends>& ends) {
    std::size_t all = 0;
    for (const Ends& each : ends) all += each.high - each.low;
    return all > ends.back().high;
}

/// The cost of the costliest of `count` groups when that is least.
template <class CostOf>
double least_largest(const CostOf& cost, std::size_t length_count, std::size_t count) {
    // Groups as long as `most` allows, from the shortest length on: whether `count` reach the end,
    // the costliest, and the cheapest that was too long.
    struct Walk {
        bool suffices;
        double largest, least_refused;
    };
    const auto walk = [&](double most) {
        Walk found{false, 0, std::numeric_limits<double>::infinity()};
        std::size_t begin = 0;
        for (std::size_t group = 0; group < count && begin < length_count; ++group) {
            const std::size_t end = Capped<CostOf>{cost, length_count, most}.latest_end(begin);
            if (end < length_count)
                found.least_refused = std::min(found.least_refused, cost(begin, end + 1));
            if (end == begin) return found;
            found.largest = std::max(found.largest, cost(begin, end));
            begin = end;
        }
        found.suffices = begin == length_count;
        return found;
    };
    // Numbers from 0 on stand in the order of their bits. What is too little remains so up to the
    // cheapest group refused; enough is never more than the costliest group made.
    double low = cost(length_count - 1, length_count) + 0.0, most = cost(0, length_count) + 0.0;
    while (low < most) {
        const uint64_t from = bits_of(low), middle = from + (bits_of(most) - from) / 2;
        const Walk found = walk(number_of(middle));
        if (found.suffices)  // the bounds are for callbacks that do not say the same twice
            most = std::min(found.largest + 0.0, number_of(middle));
        else
            low = std::max(found.least_refused, number_of(middle + 1));
    }
    return most;
}

LengthNumbers least_largest(const Groups& groups, std::size_t k, const Progress& progress) {
    const std::size_t length_count = groups.length_count();
    return with_costs(groups, [&](Rows rows, const auto& cost) {
        const Capped<std::decay_t<decltype(cost)>> capped{cost, length_count,
                                                          least_largest(cost, length_count, k + 1)};
        const std::vector<Ends> ends = capped.ends(k + 1);
        if constexpr (std::is_same_v<std::decay_t<decltype(cost)>, LinearCost>)
            // few cuts are ruled out, so that the quick way is likely to keep to the rest
            if (are_wide(ends)) {
                const std::vector<uint32_t> found = optimal_segments(ends, rows, progress, cost);
                if (capped.allows(found)) return thresholds_of(found, k, length_count);
            }
        return thresholds_of(optimal_segments(ends, rows, progress, capped), k, length_count);
    });
}

/// How a randomised search ended.
enum class Ending { even, repeated, not_tolerated, extreme, narrow };

/// Finds groups of about the same cost by steps from random thresholds.
class Search {
public:
    Search(const Groups& groups, std::size_t k, uint64_t tolerate, const Progress& progress)
        : groups_(groups), tolerate_(tolerate), progress_(progress), costs_(k + 1) {}

    LengthNumbers at;       ///< where the search began, then where it ended
    double difference = 0;  ///< the largest there

    Ending run(uint64_t trial, uint64_t trials) {
        const std::size_t k = at.size();
        for (std::size_t group = 0; group <= k; ++group) price(group);
        before_.clear();
        uint64_t tolerated = 0;
        double difference_before = 0;
        for (uint64_t step = 1;; ++step) {
            if (step % steps_between_reports == 0) progress_.report(trial, trials);
            std::size_t j = 0;
            difference = -1;
            for (std::size_t i = 0; i < k; ++i)
                if (const double apart = std::abs(costs_[i + 1] - costs_[i]); apart > difference) {
                    difference = apart;
                    j = i;
                }
            if (difference == 0) return Ending::even;
            const auto back = [&](Ending ending) {
                difference = difference_before;
                undo();
                return ending;
            };
            if (step > 1 && difference >= difference_before) {
                if (++tolerated > tolerate_) return back(Ending::not_tolerated);
                if (before_.size() == 2 && before_[0].threshold == before_[1].threshold &&
                    before_[0].is_up != before_[1].is_up)
                    return back(Ending::repeated);
            }
            const bool is_up = costs_[j + 1] > costs_[j];
            if (is_up ? j + 1 == k : j == 0) {
                if (at[j] == (is_up ? groups_.length_count() - 1 : 0)) return Ending::extreme;
            } else if (is_up ? at[j + 1] - at[j] == 1 : at[j] - at[j - 1] == 1) {
                return Ending::narrow;
            }
            difference_before = difference;
            if (before_.size() == 2) before_.erase(before_.begin());
            before_.push_back({j, is_up});
            move(before_.back());
        }
    }

private:
    struct Step {
        std::size_t threshold;
        bool is_up;
    };

    void price(std::size_t group) {
        costs_[group] = groups_(group == 0 ? 0 : at[group - 1] + 1,
                                group == at.size() ? groups_.length_count() : at[group] + 1);
    }

    void move(Step step) {
        step.is_up ? ++at[step.threshold] : --at[step.threshold];
        price(step.threshold);
        price(step.threshold + 1);
    }

    void undo() { move({before_.back().threshold, !before_.back().is_up}); }

    const Groups& groups_;
    uint64_t tolerate_;
    const Progress& progress_;
    std::vector<double> costs_;
    /// the last two steps: when the second takes back the first, the search goes round in circles
    std::vector<Step> before_;
};

/// CPython's `random.sample(range(count), k)`.
LengthNumbers sample(PythonRandom& random, std::size_t count, std::size_t k) {
    double set_size = 21;  // a list of all costs less than a set of those taken
    if (k > 5)
        set_size += std::pow(4.0, std::ceil(std::log(static_cast<double>(k) * 3) / std::log(4.0)));
    LengthNumbers taken(k);
    if (static_cast<double>(count) <= set_size) {
        LengthNumbers pool(count);
        std::iota(pool.begin(), pool.end(), 0u);
        for (std::size_t i = 0; i < k; ++i) {
            const uint64_t j = random.below(count - i);
            taken[i] = pool[j];
            pool[j] = pool[count - i - 1];
        }
    } else {
        std::vector<bool> is_taken(count);
        for (uint32_t& each : taken) {
            uint64_t j = random.below(count);
            while (is_taken[j]) j = random.below(count);
            is_taken[j] = true;
            each = static_cast<uint32_t>(j);
        }
    }
    return taken;
}

LengthNumbers given_start(const uint64_t* start, std::size_t trial, std::size_t length_count,
                          std::size_t k) {
    LengthNumbers taken;
    for (std::size_t i = 0; i < k; ++i) {
        if (start[i] >= length_count)
            refuse_argument(named("options.starts[", trial * k + i, "]"), start[i],
                            "must be below the number of distinct lengths, ", length_count);
        taken.push_back(static_cast<uint32_t>(start[i]));
    }
    std::ranges::sort(taken);
    if (const auto twin = std::ranges::adjacent_find(taken); twin != taken.end())
        refuse_argument("options.starts", no_value, *twin, " stands there twice for search ", trial,
                        ": must differ from each other");
    return taken;
}

LengthNumbers randomised(const Groups& groups, std::size_t k, const sab_thresholds_options& options,
                         const Progress& progress, sab_thresholds_info& info) {
    const std::size_t length_count = groups.length_count();
    const uint64_t tolerated = options.patience == 0 ? 2 * length_count : options.patience - 1;
    Search search(groups, k, tolerated, progress);
    PythonRandom random(options.seed);
    LengthNumbers best;
    double least = 0;
    const uint32_t trials = options.num_trials == 0 ? 100 : options.num_trials;
    for (std::size_t trial = 0; trial < trials; ++trial) {
        progress.report(trial, trials);
        search.at = options.starts != nullptr
                        ? given_start(options.starts + trial * k, trial, length_count, k)
                        : sample(random, length_count, k);
        std::ranges::sort(search.at);
        switch (search.run(trial, trials)) {
            case Ending::even: ++info.even; break;
            case Ending::repeated: ++info.repeated; break;
            case Ending::not_tolerated: ++info.not_tolerated; break;
            case Ending::extreme: ++info.extreme; break;
            case Ending::narrow: ++info.narrow; break;
        }
        if (trial == 0 || search.difference < least) {
            best = search.at;
            least = search.difference;
        }
    }
    return best;
}

void price(const Groups& groups, const LengthNumbers& thresholds, sab_thresholds_info& info) {
    double before = 0;
    for (std::size_t group = 0; group <= thresholds.size(); ++group) {
        const double cost =
            groups(group == 0 ? 0 : thresholds[group - 1] + 1,
                   group == thresholds.size() ? groups.length_count() : thresholds[group] + 1);
        info.total += cost;
        info.largest = std::max(info.largest, cost);
        if (group > 0)
            info.largest_difference = std::max(info.largest_difference, std::abs(cost - before));
        before = cost;
    }
    Groups::check_sum(info.total, "of all groups");
}

}  // namespace

static void check_randomised(const sab_thresholds_options& options) {
    if (options.method == SAB_THRESHOLDS_RANDOMISED) return;
    const auto refuse = [](bool holds, std::string_view name, const auto& value) {
        check(holds, name, value, "goes with SAB_THRESHOLDS_RANDOMISED (2) only");
    };
    refuse(options.num_trials == 0, "options.num_trials", options.num_trials);
    refuse(options.patience == 0, "options.patience", options.patience);
    refuse(options.seed == 0, "options.seed", options.seed);
    refuse(options.starts == nullptr, "options.starts", "given");
}

std::vector<double> find_thresholds(const Columns& columns, uint64_t k,
                                    const sab_thresholds_options& options,
                                    sab_thresholds_info& info) {
    const Sizes& lengths = columns.only("lengths");
    check(
        options.method >= SAB_THRESHOLDS_LEAST_TOTAL && options.method <= SAB_THRESHOLDS_RANDOMISED,
        "options.method", options.method,
        "must be one of SAB_THRESHOLDS_LEAST_TOTAL (0) to SAB_THRESHOLDS_RANDOMISED (2)");
    check(options.cost_per_sample == 0 || options.cost_per_sample == 1, "options.cost_per_sample",
          options.cost_per_sample, "must be 0 or 1");
    check_randomised(options);
    check(lengths.count() >= 1 && lengths.count() <= largest_sample_count, "lengths.count",
          lengths.count(), "must be from 1 to 4294967295");
    Cost cost = read_cost(options.cost, columns.names(), "options.cost");

    const Progress progress(options.progress, options.progress_ctx);
    Sorted sorted = sort_by_size(lengths, false, progress);
    const std::size_t length_count = sorted.distinct_sizes.size();
    check(k >= 1 && k < length_count, "k", k,
          "must be at least 1 and below the number of distinct lengths, ", length_count);
    const Groups groups(std::move(sorted), std::move(cost), options.cost_per_sample == 1);
    if (options.method != SAB_THRESHOLDS_RANDOMISED) groups.check_rising();
    const auto count = static_cast<std::size_t>(k);
    const LengthNumbers found = options.method == SAB_THRESHOLDS_LEAST_TOTAL
                                    ? least_total(groups, count, progress)
                                : options.method == SAB_THRESHOLDS_LEAST_LARGEST
                                    ? least_largest(groups, count, progress)
                                    : randomised(groups, count, options, progress, info);
    price(groups, found, info);
    std::vector<double> thresholds;
    for (const uint32_t number : found) thresholds.push_back(groups.threshold(number));
    return thresholds;
}

}  // namespace sab
