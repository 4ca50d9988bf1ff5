#include <algorithm>

#include "base/guard.h"
#include "group/thresholds.h"
#include "sab/group.h"

namespace {

constexpr std::size_t first_thresholds_options_size = sizeof(sab_thresholds_options);
constexpr std::size_t first_thresholds_info_size = sizeof(sab_thresholds_info);

}  // namespace

extern "C" {

void sab_thresholds_options_init(sab_thresholds_options* options) noexcept {
    if (options != nullptr) *options = sab_thresholds_options SAB_THRESHOLDS_OPTIONS_INIT;
}

sab_status sab_find_thresholds(const sab_sizes* lengths, uint64_t k, const sab_thresholds_options* options, double* thresholds, sab_thresholds_info* info) noexcept {
    return sab::guard([&] {
        sab::require(lengths, "lengths");
        sab::require(thresholds, "thresholds");
        if (info != nullptr) sab::check_result(info, first_thresholds_info_size, "info");
        const auto given = sab::read_options(options, sab_thresholds_options SAB_THRESHOLDS_OPTIONS_INIT, first_thresholds_options_size);
        sab_thresholds_info own SAB_THRESHOLDS_INFO_INIT;
        const std::vector<double> found = sab::find_thresholds(lengths->impl, k, given, own);
        std::ranges::copy(found, thresholds);
        if (info != nullptr) sab::write_result(own, info);
    });
}

}  // extern "C"
