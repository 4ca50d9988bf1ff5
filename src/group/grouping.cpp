#include "group/grouping.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "sizes/columns.h"

namespace sab {
namespace {

constexpr std::size_t most_grouping_dimensions = 64;

void check_sample_count(std::size_t samples) {
    check(samples <= largest_sample_count, "samples", samples, "must be at most 4294967295");
}

void check_group_count(std::size_t groups) {
    check(groups <= largest_sample_count, "groups", groups, "must be at most 4294967295");
}

std::vector<double> read_thresholds(const sab_grouping_dimension& dimension, std::size_t number) {
    const std::string name = text("dimensions[", number, "].threshold");
    check(dimension.threshold_count >= 1 && dimension.threshold_count < largest_sample_count,
          name + "_count", dimension.threshold_count, "must be from 1 to below 4294967295");
    require(dimension.thresholds, name + "s");
    std::vector<double> thresholds(dimension.thresholds,
                                   dimension.thresholds + dimension.threshold_count);
    for (std::size_t i = 0; i < thresholds.size(); ++i)
        if (std::isnan(thresholds[i]))
            refuse_argument(named(name, "s[", i, "]"), "nan", "must be a number");
    std::ranges::sort(thresholds);
    if (const auto twin = std::ranges::adjacent_find(thresholds); twin != thresholds.end())
        refuse_argument(named(name, "s"), no_value, *twin,
                        " stands there twice: thresholds must differ from each other");
    return thresholds;
}

/// Offsets of groups of so many samples; their sum is in the last.
std::vector<int64_t> offsets_of(std::span<const uint64_t> counts) {
    std::vector<int64_t> offsets{0};
    offsets.reserve(counts.size() + 1);
    uint64_t sum = 0;
    for (std::size_t group = 0; group < counts.size(); ++group) {
        if (counts[group] > largest_sample_count - sum)
            refuse_argument(named("counts[", group, "]"), counts[group],
                            "there must be at most 4294967295 samples, with ", sum,
                            " in the groups before");
        sum += counts[group];
        offsets.push_back(static_cast<int64_t>(sum));
    }
    return offsets;
}

/// Fills what follows from offsets and permutation.
void invert(Grouping& made) {
    made.inverse.resize(made.permutation.size());
    made.group_of.resize(made.permutation.size());
    for (std::size_t group = 0; group < made.groups(); ++group)
        for (int64_t slot = made.offsets[group]; slot < made.offsets[group + 1]; ++slot) {
            const auto sample =
                static_cast<std::size_t>(made.permutation[static_cast<std::size_t>(slot)]);
            made.inverse[sample] = slot;
            made.group_of[sample] = static_cast<int64_t>(group);
        }
}

/// `order`, sorted by `key` of its samples, equal ones as they stood.
std::vector<uint32_t> sorted_by(const std::vector<uint32_t>& order,
                                const std::vector<uint32_t>& key, std::size_t keys) {
    std::vector<uint32_t> next(keys + 1), sorted(order.size());
    for (const uint32_t sample : order) ++next[key[sample] + 1];
    std::partial_sum(next.begin(), next.end(), next.begin());
    for (const uint32_t sample : order) sorted[next[key[sample]]++] = sample;
    return sorted;
}

}  // namespace

Grouping group_by_thresholds(std::span<const sab_grouping_dimension> dimensions) {
    check(dimensions.size() >= 1 && dimensions.size() <= most_grouping_dimensions, "count",
          dimensions.size(), "must be from 1 to ", most_grouping_dimensions);
    std::vector<std::vector<uint32_t>> interval(dimensions.size());  // of each sample, by dimension
    std::vector<std::size_t> widths;
    for (std::size_t d = 0; d < dimensions.size(); ++d) {
        require(dimensions[d].lengths, text("dimensions[", d, "].lengths"));
        const Sizes& lengths =
            dimensions[d].lengths->impl.only(text("dimensions[", d, "].lengths"));
        const std::size_t count = lengths.count();
        check(count <= largest_sample_count, text("dimensions[", d, "].lengths.count"), count,
              "must be at most 4294967295");
        if (d > 0)
            check(count == interval[0].size(), text("dimensions[", d, "].lengths.count"), count,
                  "must be that of dimensions[0], ", interval[0].size());
        const std::vector<double> thresholds = read_thresholds(dimensions[d], d);
        widths.push_back(thresholds.size() + 1);
        interval[d].resize(count);
        lengths.dense().visit([&](auto view) {
            for (std::size_t i = 0; i < count; ++i)
                interval[d][i] = static_cast<uint32_t>(
                    std::ranges::lower_bound(thresholds, checked_size(view[i], i)) -
                    thresholds.begin());
        });
    }
    std::vector<uint32_t> order(interval[0].size());
    std::iota(order.begin(), order.end(), 0u);
    for (std::size_t d = dimensions.size(); d-- > 0;)
        order = sorted_by(order, interval[d], widths[d]);

    Grouping made;
    made.dimensions = dimensions.size();
    made.permutation.assign(order.begin(), order.end());
    for (std::size_t slot = 0; slot < order.size(); ++slot) {
        const auto differs = [&](const std::vector<uint32_t>& key) {
            return key[order[slot]] != key[order[slot - 1]];
        };
        if (slot > 0 && std::ranges::none_of(interval, differs)) continue;
        made.offsets.push_back(static_cast<int64_t>(slot));
        for (const auto& key : interval) made.intervals.push_back(key[order[slot]]);
    }
    made.offsets.push_back(static_cast<int64_t>(order.size()));
    invert(made);
    return made;
}

Grouping group_by_numbers(std::span<const int64_t> group_of, std::size_t groups) {
    check_sample_count(group_of.size());
    check_group_count(groups);
    std::vector<uint64_t> counts(groups);
    for (std::size_t i = 0; i < group_of.size(); ++i) {
        if (group_of[i] < 0 || static_cast<uint64_t>(group_of[i]) >= groups)
            refuse_argument(named("group_of[", i, "]"), group_of[i],
                            "must be at least 0 and below the number of groups, ", groups);
        ++counts[static_cast<std::size_t>(group_of[i])];
    }
    Grouping made;
    made.offsets = offsets_of(counts);
    made.permutation.resize(group_of.size());
    std::vector<int64_t> next = made.offsets;
    for (std::size_t i = 0; i < group_of.size(); ++i)
        made.permutation[static_cast<std::size_t>(next[static_cast<std::size_t>(group_of[i])]++)] =
            static_cast<int64_t>(i);
    invert(made);
    return made;
}

Grouping group_by_partition(const int64_t* indices, std::span<const uint64_t> counts) {
    check_group_count(counts.size());
    Grouping made;
    made.offsets = offsets_of(counts);
    const auto samples = static_cast<std::size_t>(made.offsets.back());
    if (indices == nullptr) {
        made.permutation.resize(samples);
        std::iota(made.permutation.begin(), made.permutation.end(), int64_t{0});
        invert(made);
        return made;
    }
    std::vector<bool> is_taken(samples);
    for (std::size_t slot = 0; slot < samples; ++slot) {
        if (indices[slot] < 0 || static_cast<uint64_t>(indices[slot]) >= samples)
            refuse_argument(named("indices[", slot, "]"), indices[slot],
                            "must be at least 0 and below the number of samples, ", samples);
        if (is_taken[static_cast<std::size_t>(indices[slot])])
            refuse_argument(named("indices[", slot, "]"), indices[slot],
                            "stands there for the second time");
        is_taken[static_cast<std::size_t>(indices[slot])] = true;
    }
    made.permutation.assign(indices, indices + samples);
    invert(made);
    return made;
}

sab_grouping_view Grouping::view() const {
    return {0,
            permutation.size(),
            groups(),
            dimensions,
            offsets.data(),
            permutation.data(),
            inverse.data(),
            group_of.data(),
            dimensions > 0 ? intervals.data() : nullptr};
}

}  // namespace sab
