#include "engine/histogram_plan.h"

#include <algorithm>

#include "plan/points.h"

namespace sab {
namespace {

Points points_of(const Histogram& histogram) {
    const std::size_t entries = histogram.entries(), columns = histogram.columns();
    check(entries <= largest_sample_count, "histogram.entries", entries,
          "must be at most 2^32 - 1");
    Points points;
    points.columns = columns;
    points.count = histogram.samples();
    points.first_offsets = histogram.first_places();
    points.codes.resize(entries * columns);
    points.ids = {0};
    points.first_points = {0, static_cast<uint32_t>(entries)};
    for (std::size_t j = 0; j < columns; ++j) {
        std::vector<double>& distinct = points.distinct.emplace_back();
        for (std::size_t i = 0; i < entries; ++i)
            distinct.push_back(histogram.sizes()[i * columns + j]);
        std::ranges::sort(distinct);
        distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
        for (std::size_t i = 0; i < entries; ++i)
            points.codes[i * columns + j] = static_cast<uint32_t>(
                std::ranges::lower_bound(distinct, histogram.sizes()[i * columns + j]) -
                distinct.begin());
    }
    return points;
}

}  // namespace

std::shared_ptr<const Plan> make_plan(const Histogram& histogram, const PlanOptions& options) {
    constexpr const char* caller = "sab_histogram_plan_new";
    if (options.has_ids)
        fail(SAB_E_UNSUPPORTED, caller,
             ": options.separate_by is given: a histogram has no samples that ids separate");
    if (histogram.turns()) {
        PlanOptions of_epoch = options;
        of_epoch.has_one_set = true;
        return make_plan(histogram.without_sources(), of_epoch);
    }
    refuse_mixture(histogram, caller);
    if (histogram.columns() > 1)
        return Plan::make_coded(points_of(histogram), options, histogram.names());
    return Plan::make_counted({histogram.sizes(), histogram.first_places()}, options,
                              histogram.names()[0]);
}

}  // namespace sab
