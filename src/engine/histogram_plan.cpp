#include "engine/histogram_plan.h"

namespace sab {

std::shared_ptr<const Plan> make_plan(const Histogram& histogram, const sab_plan_options& options) {
    constexpr const char* caller = "sab_histogram_plan_new";
    if (options.separate_by != nullptr)
        fail(SAB_E_UNSUPPORTED, caller,
             ": options.separate_by is given: a histogram has no samples that ids separate");
    refuse_several(histogram, caller);
    return Plan::make_counted({histogram.sizes(), histogram.first_places()}, options,
                              histogram.names()[0]);
}

}  // namespace sab
