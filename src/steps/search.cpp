#include "steps/search.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <optional>

#include "base/log.h"
#include "base/options.h"
#include "base/progress.h"
#include "base/sorting.h"

namespace sab {
namespace {

void check_options(const sab_max_batch_options& options) {
    check(options.search >= SAB_SEARCH_PREDICT && options.search <= SAB_SEARCH_HALVE,
          "options.search", options.search,
          "must be one of SAB_SEARCH_PREDICT (0) to SAB_SEARCH_HALVE (3)");
    check(options.rounding >= SAB_ROUND_NONE && options.rounding <= SAB_ROUND_MULTIPLE,
          "options.rounding", options.rounding,
          "must be one of SAB_ROUND_NONE (0) to SAB_ROUND_MULTIPLE (2)");
    const bool is_multiple = options.rounding == SAB_ROUND_MULTIPLE;
    check(is_multiple ? options.multiple >= 1 : options.multiple == 0, "options.multiple",
          options.multiple,
          is_multiple ? "must be at least 1" : "goes with SAB_ROUND_MULTIPLE only");
    check(options.max_batch_size >= 1 && options.max_batch_size <= uint64_t{1} << 53,
          "options.max_batch_size", options.max_batch_size, "must be from 1 to 2^53");
    check(options.limit >= 0, "options.limit", options.limit, "must be at least 0");
    const auto lengths =
        items(options.lengths, options.length_count, "options.lengths", "options.length_count");
    for (std::size_t i = 0; i < lengths.size(); ++i)
        if (!(lengths[i] > 0 && std::isfinite(lengths[i])))
            refuse_argument(named("options.lengths[", i, "]"), lengths[i],
                            "must be finite and above 0");
}

/// Runs trials, the same ones on all ranks, and tells what the worst rank saw. A rank that fails
/// reports it in its next call of `reduce`.
class Trials {
public:
    Trials(Probe& probe, sab_trial_fn trial, void* ctx, const sab_max_batch_options& options)
        : probe_(probe),
          trial_(trial),
          ctx_(ctx),
          options_(options),
          progress_(options.progress, options.progress_ctx) {}

    void begin() {
        check_options(options_);
        rng_.emplace(probe_);
        const sab_probe_stats stats = probe_.read();
        if (options_.limit == 0 && stats.total < 0)
            refuse_argument("options.limit", "0",
                            "must be given, since the probe does not know the device's total");
        budget_ = least_of({options_.limit > 0 ? options_.limit : stats.total, 0})[0];
    }

    void end() {
        rng_->restore();
        least_of({0, 0});
    }

    /// In a handler: of a failure that the other ranks have not heard of, since this rank met them
    /// last.
    void tell_failure() noexcept {
        if (options_.reduce == nullptr || is_over_) return;
        int64_t failed[3] = {0, 0, 0};
        try {
            options_.reduce(options_.reduce_ctx, failed, std::size(failed));
        } catch (...) {  // ignored: the failure of the search is reported
        }
    }

    struct Seen {
        bool fits;
        bool ran_out;
        double peak;  ///< the largest of the ranks', where it did not run out
    };

    Seen run(uint64_t count, double length) {
        progress_.report(trials_, 0);
        rng_->restore();
        probe_.release_cache();
        std::array<int64_t, 2> seen{1, 0};
        {
            const Measuring measuring(probe_);
            ++trials_;
            const int32_t code = probe_.work("trial", [&] { return trial_(ctx_, count, length); });
            if (code != 0 && code != SAB_OUT_OF_MEMORY)
                fail_callback(text("trial of ", count, " samples of length ", length), code);
            seen = {code == SAB_OUT_OF_MEMORY ? 0 : 1, -measuring.span().most(probe_.peak())};
        }
        seen = least_of(seen);
        out_of_memory_ += seen[0] == 0;
        return {seen[0] == 1 && -seen[1] <= budget_, seen[0] == 0, static_cast<double>(-seen[1])};
    }

    uint64_t trials() const { return trials_; }
    uint64_t out_of_memory() const { return out_of_memory_; }
    double budget() const { return static_cast<double>(budget_); }

private:
    /// The least of what the ranks came to. The first number that crosses says whether a rank has
    /// failed: then all fail.
    std::array<int64_t, 2> least_of(const std::array<int64_t, 2>& own) {
        if (options_.reduce == nullptr) return own;
        is_over_ = true;  // unless all goes well
        int64_t values[3] = {1, own[0], own[1]};
        Probe::hook([&] { return options_.reduce(options_.reduce_ctx, values, std::size(values)); },
                    "reduce");
        if (values[0] != 1)
            fail(SAB_E_MISMATCH, "another rank failed in its search for the largest batch");
        is_over_ = false;
        return {values[1], values[2]};
    }

    Probe& probe_;
    sab_trial_fn trial_;
    void* ctx_;
    const sab_max_batch_options& options_;
    Progress progress_;
    std::optional<Probe::Rng> rng_;
    int64_t budget_ = 0;
    uint64_t trials_ = 0;
    uint64_t out_of_memory_ = 0;
    bool is_over_ = false;  ///< the ranks do not meet again
};

struct Found {
    uint64_t count;
    double peak;
    double slope = 0;  ///< bytes of one more sample; 0: not known
};

[[noreturn]] void fail_one(const Trials& trials, double length) {
    fail(SAB_E_DEVICE_MEMORY, "not enough memory even for a batch of one: a sample of length ",
         length, " does not fit ", trials.budget(), " bytes");
}

Found search_binary(Trials& trials, double length, uint64_t max_batch_size) {
    Found best{0, 0};
    for (uint64_t low = 1, high = max_batch_size; low <= high;) {
        const uint64_t middle = low + (high - low) / 2;
        const auto seen = trials.run(middle, length);
        if (seen.fits)
            best = {middle, seen.peak}, low = middle + 1;
        else
            high = middle - 1;
    }
    if (best.count == 0) fail_one(trials, length);
    return best;
}

Found search_halving(Trials& trials, double length, uint64_t max_batch_size) {
    for (uint64_t count = max_batch_size; count > 0; count /= 2)
        if (const auto seen = trials.run(count, length); seen.fits) return {count, seen.peak};
    fail_one(trials, length);
}

Found search_difference(Trials& trials, double length, uint64_t max_batch_size) {
    const auto one = trials.run(1, length);
    if (!one.fits) fail_one(trials, length);
    if (max_batch_size == 1) return {1, one.peak};
    const auto two = trials.run(2, length);
    if (!two.fits) return {1, one.peak};
    const double each = std::max(two.peak - one.peak, 1.0);
    const double count =
        std::clamp(std::floor(trials.budget() / each), 1.0, static_cast<double>(max_batch_size));
    return {static_cast<uint64_t>(count), one.peak + (count - 1) * each};
}

struct MeasuredPeak {
    double count, peak;
};

/// Bytes of one more sample after the last point: by the last two, not less than on average.
double slope_of(std::span<const MeasuredPeak> points) {
    const auto between = [](const MeasuredPeak& a, const MeasuredPeak& b) {
        return (b.peak - a.peak) / (b.count - a.count);
    };
    return points.size() < 2 ? 0
                             : std::max(between(points[points.size() - 2], points.back()),
                                        between(points.front(), points.back()));
}

/// The count at which the curve through the last points reaches the budget: a parabola where it
/// bends upwards, else a line.
double count_at(double budget, std::span<const MeasuredPeak> points) {
    const MeasuredPeak& last = points.back();
    const double room = budget - last.peak;
    double slope = slope_of(points), bend = 0;
    if (const std::size_t n = points.size(); n >= 3) {
        const MeasuredPeak &a = points[n - 3], &b = points[n - 2];
        const double late = (last.peak - b.peak) / (last.count - b.count);
        bend = (late - (b.peak - a.peak) / (b.count - a.count)) / (last.count - a.count);
        if (bend > 0) slope = late + bend * (last.count - b.count);
    }
    bend = std::max(bend, 0.0);
    if (slope <= 0) return std::numeric_limits<double>::infinity();
    return std::floor(last.count + 2 * room / (slope + std::sqrt(slope * slope + 4 * bend * room)));
}

/// Peaks are taken to be the largest of several lines (the phases of a step), none below zero where
/// it begins.
///   Safe: peak(n) <= peak(m) * n / m for n > m.
///   Hoped for: where the curve through the points so far reaches the budget.
/// Steps go to the safe count, or further: the way to the hoped-for count is divided so that each
/// step is as many times longer than what is known as the others, and early ones could be much
/// costlier than predicted without running out. The last hundredth is not gone, since it is there
/// that a prediction that is a little off runs out.
Found search_predicting(Trials& trials, double length, uint64_t max_batch_size,
                        std::optional<Found> longer) {
    constexpr uint64_t planned = 6, most = 30;  // a curve with kinks takes more than planned
    // times what is known, where memory has not grown yet
    constexpr double boldest = 16;
    std::vector<MeasuredPeak> points;
    const double budget = trials.budget();
    double ceiling = static_cast<double>(max_batch_size);  // no count above `ceiling` is looked at
    bool has_run_out = false;
    const uint64_t first = trials.trials();
    const auto run = [&](double count) {
        const auto seen = trials.run(static_cast<uint64_t>(count), length);
        if (!seen.fits) {
            ceiling = std::min(ceiling, count - 1);
            if (seen.ran_out)
                has_run_out = true;
            else if (!points.empty() && seen.peak > points.back().peak)
                ceiling = std::min(ceiling, std::floor(points.back().count +
                                                       (budget - points.back().peak) *
                                                           (count - points.back().count) /
                                                           (seen.peak - points.back().peak)));
            return false;
        }
        points.push_back({count, seen.peak});
        return true;
    };
    double slope = 0;
    if (longer && run(static_cast<double>(longer->count)))
        slope = longer->slope;  // a sample of this length needs no more
    else if (!run(1))
        fail_one(trials, length);
    while (points.back().count < ceiling && trials.trials() - first < most) {
        const MeasuredPeak last = points.back();
        const auto left = std::max(
            static_cast<double>(planned) - static_cast<double>(trials.trials() - first), 1.0);
        const double safe =
            std::floor(std::min(ceiling, last.count * budget / std::max(last.peak, 1.0)));
        double next = safe;
        if (has_run_out) {
            if (ceiling - last.count <= last.count / 100) break;
            next = last.count + std::ceil((ceiling - last.count) / 2);
        } else if (points.size() == 1) {
            // Only where nothing is known at all may one sample more be one too many.
            if (slope > 0)
                next = std::max(next, last.count + std::floor((budget - last.peak) / slope));
            if (slope == 0) next = std::max(next, last.count + 1);
        } else {
            const double hoped = std::min(ceiling, count_at(budget, points));
            const double aim = hoped <= 50 ? hoped : std::floor(0.99 * hoped);
            if (aim <= last.count && safe <= std::max(hoped, last.count)) break;
            const double known = last.count - points.front().count;
            const double share =
                std::max(2.0, std::pow(std::max(aim - last.count, 1.0) / known, 1 / left));
            const double step = known * (slope_of(points) > 0 ? share : std::min(share, boldest));
            next = std::max(next, std::min(aim, last.count + std::floor(step)));
        }
        next = std::min(next, ceiling);
        if (next <= last.count) break;
        run(next);
    }
    if (trials.trials() - first >= most)
        log(SAB_LOG_WARNING, "the largest batch of length ", length, " is not settled after ", most,
            " steps: ", points.back().count, " samples fit, more may");
    return {static_cast<uint64_t>(points.back().count), points.back().peak,
            points.size() >= 2 ? slope_of(points) : slope};
}

uint64_t rounded(uint64_t count, const sab_max_batch_options& options) {
    if (options.rounding == SAB_ROUND_POWER_OF_TWO) return std::bit_floor(count);
    if (options.rounding == SAB_ROUND_MULTIPLE && count >= options.multiple)
        return count - count % options.multiple;
    return count;
}

/// What was found for each length, in their order.
std::vector<Found> find_each(Trials& trials, std::span<const double> lengths,
                             const sab_max_batch_options& options) {
    std::vector<Found> found(lengths.size());
    std::optional<Found> longer;  // what fits for a longer length fits here
    for (const uint32_t i : by_descending(lengths)) {
        switch (options.search) {
            case SAB_SEARCH_BINARY:
                found[i] = search_binary(trials, lengths[i], options.max_batch_size);
                break;
            case SAB_SEARCH_HALVE:
                found[i] = search_halving(trials, lengths[i], options.max_batch_size);
                break;
            case SAB_SEARCH_DIFFERENCE:
                found[i] = search_difference(trials, lengths[i], options.max_batch_size);
                break;
            default:
                found[i] = search_predicting(trials, lengths[i], options.max_batch_size, longer);
                break;
        }
        longer = found[i];
    }
    return found;
}

}  // namespace

sab_max_batch find_max_batch(Probe& probe, sab_trial_fn trial, void* ctx,
                             const sab_max_batch_options& options,
                             std::span<uint64_t> batch_sizes) {
    Trials trials(probe, trial, ctx, options);
    const double one = 1;
    const std::span<const double> lengths = options.length_count > 0
                                                ? std::span(options.lengths, options.length_count)
                                                : std::span(&one, 1);
    std::vector<Found> found;
    try {
        trials.begin();
        found = find_each(trials, lengths, options);
        trials.end();
    } catch (...) {
        trials.tell_failure();
        throw;
    }
    for (std::size_t i = 0; i < batch_sizes.size(); ++i)
        batch_sizes[i] = rounded(found[i].count, options);
    const Found& first =
        found[static_cast<std::size_t>(std::ranges::max_element(lengths) - lengths.begin())];
    const uint64_t count = rounded(first.count, options);
    // Rounded down, the peak is less; by how much is not known.
    return {0,
            count,
            trials.trials(),
            trials.out_of_memory(),
            first.peak,
            static_cast<int64_t>(trials.budget())};
}

}  // namespace sab
