#include <algorithm>

#include "base/guard.h"
#include "group/grouping.h"
#include "group/thresholds.h"
#include "sab/group.h"

namespace {

constexpr std::size_t first_thresholds_options_size = sizeof(sab_thresholds_options);
constexpr std::size_t first_thresholds_info_size = sizeof(sab_thresholds_info);
constexpr std::size_t first_groups_size = sizeof(sab_groups);
constexpr std::size_t most_dimensions = 64;

void check_groups(std::size_t groups) { sab::check(groups <= sab::largest_sample_count, "groups", groups, "must be at most 4294967295"); }

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

sab_status sab_grouping_thresholds_new(const sab_grouping_dimension* dimensions, size_t count, sab_grouping** grouping) noexcept {
    return sab::guard_new(grouping, "grouping", [&] {
        sab::require(dimensions, "dimensions");
        sab::check(count >= 1 && count <= most_dimensions, "count", count, "must be from 1 to ", most_dimensions);
        return new sab_grouping{sab::group_by_thresholds({dimensions, count})};
    });
}

sab_status sab_grouping_uni_new(size_t samples, sab_grouping** grouping) noexcept {
    return sab::guard_new(grouping, "grouping", [&] {
        sab::check(samples <= sab::largest_sample_count, "samples", samples, "must be at most 4294967295");
        const uint64_t all = samples;
        return new sab_grouping{sab::group_consecutively({&all, 1})};
    });
}

sab_status sab_grouping_predefined_new(const int64_t* group_of, size_t samples, size_t groups, sab_grouping** grouping) noexcept {
    return sab::guard_new(grouping, "grouping", [&] {
        if (samples > 0) sab::require(group_of, "group_of");
        sab::check(samples <= sab::largest_sample_count, "samples", samples, "must be at most 4294967295");
        check_groups(groups);
        return new sab_grouping{sab::group_by_numbers({group_of, samples}, groups)};
    });
}

sab_status sab_grouping_partition_new(const int64_t* indices, const uint64_t* counts, size_t groups, sab_grouping** grouping) noexcept {
    return sab::guard_new(grouping, "grouping", [&] {
        if (groups > 0) sab::require(counts, "counts");
        check_groups(groups);
        return new sab_grouping{sab::group_by_partition(indices, {counts, groups})};
    });
}

sab_status sab_grouping_consecutive_new(const uint64_t* counts, size_t groups, sab_grouping** grouping) noexcept {
    return sab::guard_new(grouping, "grouping", [&] {
        if (groups > 0) sab::require(counts, "counts");
        check_groups(groups);
        return new sab_grouping{sab::group_consecutively({counts, groups})};
    });
}

sab_status sab_grouping_get(const sab_grouping* grouping, sab_groups* groups) noexcept {
    return sab::guard([&] {
        sab::require(grouping, "grouping");
        sab::check_result(groups, first_groups_size, "groups");
        const sab::Grouping& own = grouping->impl;
        sab::write_result(sab_groups{0, own.permutation.size(), own.groups(), own.dimensions, own.offsets.data(), own.permutation.data(), own.inverse.data(), own.group_of.data(),
                                     own.dimensions > 0 ? own.intervals.data() : nullptr},
                          groups);
    });
}

void sab_grouping_free(sab_grouping* grouping) noexcept { delete grouping; }

}  // extern "C"
