#include <algorithm>

#include "base/guard.h"
#include "group/grouping.h"
#include "group/padding.h"
#include "group/thresholds.h"
#include "sab/group.h"
#include "sizes/columns.h"

namespace {

sab::Samples read_samples(const sab_ragged* samples, const int64_t* indices, std::size_t count,
                          const int64_t* shape) {
    sab::require(samples, "samples");
    const auto given = sab::read_options(samples, "samples");
    if (given.dimensions > 0) sab::require(shape, "shape");
    return {given, indices, count};
}

}  // namespace

extern "C" {

sab_status sab_thresholds_find(const sab_sizes* lengths, uint64_t k,
                               const sab_thresholds_options* options, double* thresholds,
                               sab_thresholds_info* info) noexcept {
    return sab::guard([&] {
        sab::require(lengths, "lengths");
        sab::require(thresholds, "thresholds");
        if (info != nullptr) sab::check_result(info, "info");
        const auto given = sab::read_options(options);
        sab_thresholds_info own SAB_THRESHOLDS_INFO_INIT;
        const std::vector<double> found = sab::find_thresholds(lengths->impl, k, given, own);
        std::ranges::copy(found, thresholds);
        if (info != nullptr) sab::write_result(own, info);
    });
}

sab_status sab_grouping_thresholds_new(const sab_grouping_dimension* dimensions, size_t count,
                                       sab_grouping** grouping) noexcept {
    return sab::guard_new(grouping, "grouping", [&] {
        sab::require(dimensions, "dimensions");
        return new sab_grouping{{}, sab::group_by_thresholds({dimensions, count})};
    });
}

sab_status sab_grouping_predefined_new(const int64_t* group_of, size_t samples, size_t groups,
                                       sab_grouping** grouping) noexcept {
    return sab::guard_new(grouping, "grouping", [&] {
        if (samples > 0) sab::require(group_of, "group_of");
        return new sab_grouping{{}, sab::group_by_numbers({group_of, samples}, groups)};
    });
}

sab_status sab_grouping_partition_new(const int64_t* indices, const uint64_t* counts, size_t groups,
                                      sab_grouping** grouping) noexcept {
    return sab::guard_new(grouping, "grouping", [&] {
        if (groups > 0) sab::require(counts, "counts");
        return new sab_grouping{{}, sab::group_by_partition(indices, {counts, groups})};
    });
}

sab_status sab_grouping_get_view(const sab_grouping* grouping, sab_grouping_view* groups) noexcept {
    return sab::guard([&] {
        sab::require(grouping, "grouping");
        sab::check_result(groups, "groups");
        sab::write_result(grouping->impl.view(), groups);
    });
}

void sab_grouping_free(sab_grouping* grouping) noexcept {
    sab::free_handle(grouping);
}

sab_status sab_ragged_get_padded_shape(const sab_ragged* samples, const int64_t* indices,
                                       size_t count, int64_t* shape) noexcept {
    return sab::guard([&] {
        const sab::Samples given = read_samples(samples, indices, count, shape);
        std::copy_n(given.longest().begin(), given.dimensions(), shape);
    });
}

sab_status sab_ragged_pad(const sab_ragged* samples, const int64_t* indices, size_t count,
                          const int64_t* shape, const sab_pad_options* options,
                          void* padded) noexcept {
    return sab::guard([&] {
        sab::Samples given = read_samples(samples, indices, count, shape);
        given.need_memory();
        sab::pad(given, shape, sab::read_options(options), padded);
    });
}

sab_status sab_ragged_unpad(const void* padded, const int64_t* shape, const int64_t* indices,
                            size_t count, const sab_pad_options* options,
                            const sab_ragged* samples) noexcept {
    return sab::guard([&] {
        sab::Samples given = read_samples(samples, indices, count, shape);
        given.need_memory();
        sab::unpad(padded, shape, nullptr, sab::read_options(options), given);
    });
}

sab_status sab_ragged_mask(const int64_t* lengths, size_t count, const int64_t* shape,
                           size_t dimensions, sab_mask_rule rule, uint8_t* mask) noexcept {
    return sab::guard([&] {
        sab::require(shape, "shape");
        sab::fill_length_mask(lengths, count, {shape, dimensions}, rule, mask);
    });
}

}  // extern "C"
