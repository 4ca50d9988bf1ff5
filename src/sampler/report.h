#pragma once
/// What an epoch of the bucket order is like.

#include <cstddef>
#include <vector>

#include "base/progress.h"
#include "plan/plan.h"
#include "sab/plan.h"
#include "sampler/sampler_options.h"

namespace sab {

/// Fills the arrays that `report` names, and the report.
void make_report(const sab_plan& plan, SamplerOptions options, const Progress& progress,
                 sab_plan_report* report);

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
