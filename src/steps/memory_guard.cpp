#include "steps/memory_guard.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/log.h"
#include "sampler/capabilities.h"

namespace sab {
namespace {

constexpr double nowhere = std::numeric_limits<double>::infinity();
/// Shares of the budget cross the ranks as whole numbers of this many parts.
constexpr double parts = 1099511627776.0;  // 2^40

/// Least squares y = a + b x.
struct Line {
    double a, b, b_error;
};
template <class Points, class X, class Y>
Line fit_line(const Points& points, X&& x, Y&& y) {
    const auto n = static_cast<double>(points.size());
    double mean_x = 0, mean_y = 0, xx = 0, xy = 0, squares = 0;
    for (const auto& point : points) mean_x += x(point) / n, mean_y += y(point) / n;
    for (const auto& point : points)
        xx += (x(point) - mean_x) * (x(point) - mean_x),
            xy += (x(point) - mean_x) * (y(point) - mean_y);
    const double b = xx > 0 ? xy / xx : 0;
    for (const auto& point : points) {
        const double off = y(point) - mean_y - b * (x(point) - mean_x);
        squares += off * off;
    }
    return {mean_y - b * mean_x, b, xx > 0 && n > 2 ? std::sqrt(squares / (n - 2) / xx) : nowhere};
}

void check_shape(const sab_batch& batch, std::size_t columns) {
    require(batch.padded_length, "batch.padded_length");
    check(batch.columns == columns, "batch.columns", batch.columns, "must be those of the plan, ",
          columns);
    for (std::size_t j = 0; j < columns; ++j) {
        const double length = batch.padded_length[j];
        check(length >= 0 && std::isfinite(length), text("batch.padded_length[", j, "]"), length,
              "must be finite and not negative");
    }
}

}  // namespace

MemoryGuard::MemoryGuard(std::shared_ptr<Probe> probe, Sampler& sampler,
                         const sab_memory_guard_options& options)
    : probe_(std::move(probe)),
      sampler_(need_lowerable(sampler, 0, "sab_memory_guard_new")),
      options_(options),
      cost_(sampler_.plan().cost()),
      in_bytes_(cost_.is_in_bytes()),
      ran_out_cost_(nowhere) {
    check(options.limit >= 0, "options.limit", options.limit, "must be at least 0");
    check(options.interval >= 1, "options.interval", options.interval, "must be at least 1");
    check(options.window >= 8 && options.window <= 65536, "options.window", options.window,
          "must be from 8 to 65536");
    if (sampler_.plan().budget_count() == 0)
        fail_about(SAB_E_UNSUPPORTED, "sampler", no_value,
                   "its plan has no budget that could be lowered");
    budget_ = options.limit > 0 ? options.limit : probe_->read().total;
    if (budget_ < 0)
        refuse_argument("options.limit", "0",
                        "must be given, since the probe does not know the device's total");
    window_.reserve(options.window);
}

void MemoryGuard::begin() {
    span_ = nullptr;
    span_ = std::make_unique<Probe::Span>(*probe_);
}

void MemoryGuard::step(const sab_batch& batch, const std::function<Outcome(Probe&)>& work) {
    Outcome outcome = Outcome::failed;
    std::exception_ptr failure;
    try {
        check_shape(batch, sampler_.plan().columns());
        if (batch.count > 0) {
            begin();
            outcome = work(*probe_);
        }
    } catch (const Error& error) {
        failure = std::current_exception();
        if (error.status() == SAB_E_DEVICE_MEMORY) outcome = Outcome::ran_out;
    } catch (...) {
        failure = std::current_exception();
    }
    finish(batch, outcome, std::move(failure));
}

void MemoryGuard::end(const sab_batch& batch, bool ran_out) {
    std::exception_ptr failure;
    try {
        check_shape(batch, sampler_.plan().columns());
    } catch (...) {
        failure = std::current_exception();
    }
    finish(batch,
           failure   ? Outcome::failed
           : ran_out ? Outcome::ran_out
                     : Outcome::whole,
           std::move(failure));
}

/// The other ranks count the step and wait for this one where the budget is judged, so a step that
/// failed is counted and judged, too. The first failure is told.
void MemoryGuard::finish(const sab_batch& batch, Outcome outcome, std::exception_ptr failure) {
    const auto attempt = [&](auto&& call) {
        try {
            call();
        } catch (...) {
            if (!failure) failure = std::current_exception();
        }
    };
    attempt([&] { record(batch, outcome); });
    if (++steps_ % options_.interval == 0) attempt([&] { judge(); });
    if (failure) std::rethrow_exception(failure);
}

void MemoryGuard::record(const sab_batch& batch, Outcome outcome) {
    const std::unique_ptr<Probe::Span> span = std::move(span_);
    if (batch.count > 0 && outcome != Outcome::failed) {
        const double cost =
            cost_(batch.count, std::span(batch.padded_length, sampler_.plan().columns()));
        const int64_t peak = span != nullptr ? span->most(probe_->peak()) : probe_->peak();
        if (outcome == Outcome::ran_out) {  // its peak is that of its parts
            ++out_of_memory_;
            ran_out_cost_ = std::min(ran_out_cost_, cost);
        } else if (outcome == Outcome::whole) {
            has_whole_ = true;
            const Step step{static_cast<double>(steps_), cost, static_cast<double>(peak)};
            if (window_.size() < options_.window)
                window_.push_back(step);
            else
                window_[oldest_] = step, oldest_ = (oldest_ + 1) % options_.window;
        }
        peak_ = std::max(peak_, peak);
        peaks_ += static_cast<double>(peak);
        ++peak_count_;
    }
}

MemoryGuard::Refit MemoryGuard::refit() const {
    const auto cost = [](const Step& step) { return step.cost; };
    Refit fitted{0, 1, 0};
    if (!in_bytes_) {
        const Line line = fit_line(window_, cost, [](const Step& step) { return step.peak; });
        double peaks = 0, costs = 0;
        for (const Step& step : window_) peaks += step.peak, costs += step.cost;
        const auto n = static_cast<double>(window_.size());
        // An uncertain slope is the steepest that the steps allow. Where costs are all alike no
        // constant can be told from them: the peak is taken to be a multiple of the cost. Peaks
        // that do not grow with the cost have a slope above 0, because it divides.
        const double multiple = costs > 0 ? peaks / costs : 1;
        const double steepest =
            std::min(multiple, std::max(line.b + 4 * line.b_error, 1e-6 * multiple));
        fitted = line.b > 4 * line.b_error && line.a >= 0
                     ? Refit{line.a, line.b, 0}
                     : Refit{(peaks - steepest * costs) / n, steepest, 0};
    }
    const auto above = [&](const Step& step) {
        return step.peak - fitted.constant - fitted.slope * step.cost;
    };
    const Line trend = fit_line(window_, [](const Step& step) { return step.number; }, above);
    const double rise = trend.b > 3 * trend.b_error ? trend.b : 0;
    const auto soon = static_cast<double>(steps_ + 2 * options_.interval);
    fitted.creep = -nowhere;
    for (const Step& step : window_)
        fitted.creep = std::max(fitted.creep, above(step) + rise * (soon - step.number));
    return fitted;
}

void MemoryGuard::judge() {
    const double limit = sampler_.limit(0);
    // Where no step was whole, nothing tells how much memory there is now: halves are tried.
    double allowed = (has_whole_ ? 0.95 : 0.5) * ran_out_cost_;
    ran_out_cost_ = nowhere;
    has_whole_ = false;
    if (window_.size() >= std::min<std::size_t>(8, options_.window)) {
        const Refit fitted = refit();
        creep_ = fitted.creep;
        allowed =
            std::min(allowed, (static_cast<double>(budget_) - fitted.constant - fitted.creep) /
                                  fitted.slope);
    }
    // Not below what the cheapest sample alone costs: there is nothing to gain there.
    double floor = nowhere;
    const Plan& plan = sampler_.plan();
    for (std::size_t b = 0; b < plan.buckets().size(); ++b)
        if (const double cost = cost_(1, plan.lengths(b).padded_length);
            cost > 0 && plan.buckets()[b].batches > 0)
            floor = std::min(floor, cost);
    allowed = std::max(allowed, std::max(floor, cost_.constant() * (1 + 1e-9)));

    auto share = static_cast<int64_t>(std::clamp(allowed / limit, 0.0, 1.0) * parts);
    if (options_.reduce != nullptr)
        Probe::hook([&] { return options_.reduce(options_.reduce_ctx, &share, 1); }, "reduce");
    if (static_cast<double>(share) >= 0.998 * parts) return;
    const double least = limit * (static_cast<double>(share) / parts);
    if (!lower(least))
        fail(SAB_E_MISMATCH, "another rank could not lower its budget; all ranks keep theirs");
    ++lowered_;
    log(SAB_LOG_WARNING,
        "memory is scarcer than planned: the budget of the batches to come is lowered from ", limit,
        " to ", least, " after step ", steps_, " (largest peak ", peak_, " of ", budget_,
        " bytes)");
}

/// Lowers the budget on all ranks or, where it fails on one of them, on none: their batches must
/// stay those of one order. False when it failed on another rank.
bool MemoryGuard::lower(double limit) {
    int64_t all_can = 1;
    const auto agree = [&] {
        Probe::hook([&] { return options_.reduce(options_.reduce_ctx, &all_can, 1); }, "reduce");
    };
    Cursor::Change change = [&] {
        try {
            return sampler_.prepare_limit(0, limit);
        } catch (...) {
            all_can = 0;
            if (options_.reduce != nullptr) {
                try {
                    agree();
                } catch (...) {  // ignored: the failure of the preparation is reported
                }
            }
            throw;
        }
    }();
    if (options_.reduce != nullptr) agree();
    if (all_can == 1) change.commit();
    return all_can == 1;
}

sab_memory_guard_info MemoryGuard::info() const {
    const double mean = peak_count_ > 0 ? peaks_ / static_cast<double>(peak_count_) : 0;
    return {0, steps_, out_of_memory_, lowered_, sampler_.limit(0), peak_, mean, creep_};
}

}  // namespace sab
