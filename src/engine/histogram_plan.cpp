#include "engine/histogram_plan.h"

namespace sab {

std::shared_ptr<const Plan> make_plan(const Histogram& histogram, const sab_plan_options& options) {
    constexpr const char* caller = "sab_histogram_plan_new";
    if (histogram.sources() > 0)
        fail(SAB_E_UNSUPPORTED, caller, ": the histogram is of a mixture: must be of one data set");
    if (histogram.columns() > 1)
        fail(SAB_E_UNSUPPORTED, caller, ": the histogram has ", histogram.columns(),
             " columns: must have one");
    if (options.separate_by != nullptr)
        fail(SAB_E_UNSUPPORTED, caller,
             ": options.separate_by is given: a histogram has no samples that ids separate");
    check(histogram.samples() > 0, "samples of the histogram", histogram.samples(),
          "must be at least 1");
    std::vector<uint64_t> places{0};
    places.reserve(histogram.entries() + 1);
    for (const uint64_t count : histogram.counts()) places.push_back(places.back() + count);
    return Plan::make_counted({histogram.sizes(), std::move(places)}, options,
                              histogram.names()[0]);
}

}  // namespace sab
