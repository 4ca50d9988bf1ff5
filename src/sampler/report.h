#pragma once
/// What an epoch of the bucket order is like.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/progress.h"
#include "plan/plan.h"
#include "sab/plan.h"
#include "sampler/sampler_options.h"

namespace sab {

/// Fills the arrays that `report` names, and the report.
void make_report(const sab_plan& plan, SamplerOptions options, const Progress& progress,
                 sab_plan_report* report);

/// The samples of the steps of an epoch.
class SamplesOfSteps {
public:
    void add(uint64_t samples) {
        least_ = steps_ == 0 ? samples : std::min(least_, samples);
        most_ = std::max(most_, samples);
        ++steps_;
        sum_ += samples;
        const double number = static_cast<double>(samples), before = number - mean_;
        mean_ = static_cast<double>(sum_) / static_cast<double>(steps_);
        squares_ += before * (number - mean_);
    }
    uint64_t sum() const { return sum_; }
    template <class Report>
    void write_to(Report& report) const {
        report.steps = steps_;
        report.least_step_samples = least_;
        report.most_step_samples = most_;
        if (steps_ > 0)
            report.step_samples_deviation = std::sqrt(squares_ / static_cast<double>(steps_));
    }

private:
    uint64_t steps_ = 0, least_ = 0, most_ = 0, sum_ = 0;
    double mean_ = 0, squares_ = 0;  ///< of the distances from the mean
};

/// The pairs of equal numbers, which are sorted.
template <class Number>
double equal_pairs(const std::vector<Number>& sorted) {
    double pairs = 0;
    for (std::size_t i = 0, end = 0; i < sorted.size(); i = end) {
        while (end < sorted.size() && sorted[end] == sorted[i]) ++end;
        pairs += static_cast<double>(end - i) * static_cast<double>(end - i - 1) / 2;
    }
    return pairs;
}

}  // namespace sab
