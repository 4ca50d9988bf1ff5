#include "plan/points.h"

#include <algorithm>
#include <numeric>

namespace sab {
namespace {

using Order = HugeArray<uint32_t>;

/// Sorts `order` by the codes of the samples, which are below `first.size()`; equal ones keep their
/// order. `first` is where each code begins.
template <class Code>
void sort_stable(Order& order, Order& room, std::size_t count, std::vector<uint32_t> first,
                 Code&& code) {
    for (std::size_t k = 0; k < count; ++k) room[first[code(order[k])]++] = order[k];
    order.swap(room);
}

/// Where each code begins among the codes of all samples, in ascending order.
std::vector<uint32_t> begins_of(std::span<const uint32_t> codes, std::size_t distinct) {
    std::vector<uint32_t> first(distinct + 1);
    for (const uint32_t code : codes) ++first[code + 1];
    std::partial_sum(first.begin(), first.end(), first.begin());
    return first;
}

/// The number of each sample's id among the distinct ids, which become those of `points`.
std::vector<uint32_t> number_ids(std::span<const int64_t> ids, Points& points) {
    points.ids = ids_in_order(ids);
    std::vector<uint32_t> numbers(ids.size());
    std::ranges::transform(ids, numbers.begin(), [&](int64_t id) {
        return static_cast<uint32_t>(std::ranges::lower_bound(points.ids, id) - points.ids.begin());
    });
    return numbers;
}

}  // namespace

std::vector<int64_t> ids_in_order(std::span<const int64_t> ids) {
    std::vector<int64_t> sorted(ids.begin(), ids.end());
    std::ranges::sort(sorted);
    sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
    return sorted;
}

Points sort_points(const Columns& sizes, std::span<const int64_t> ids, const Progress& progress,
                   std::size_t threads) {
    Points points;
    const std::size_t columns = points.columns = sizes.size(), count = points.count = sizes.count();
    std::vector<std::vector<uint32_t>> codes(columns);  // of each sample
    points.order = make_huge_array<uint32_t>(count);
    std::iota(points.order.get(), points.order.get() + count, 0u);
    Order room = make_huge_array<uint32_t>(count);
    for (std::size_t j = columns; j-- > 0;) {
        Sorted sorted = sort_by_size(sizes[j], true, progress, sizes.described(j), threads);
        codes[j].resize(count);
        for (std::size_t d = 0; d < sorted.distinct_sizes.size(); ++d)
            for (uint32_t k = sorted.first_offsets[d]; k < sorted.first_offsets[d + 1]; ++k)
                codes[j][sorted.order[k]] = static_cast<uint32_t>(d);
        sort_stable(points.order, room, count, std::move(sorted.first_offsets),
                    [&](uint32_t sample) { return codes[j][sample]; });
        points.distinct.insert(points.distinct.begin(), std::move(sorted.distinct_sizes));
    }
    std::vector<uint32_t> id_of;
    points.ids = {0};
    if (!ids.empty()) {
        id_of = number_ids(ids, points);
        sort_stable(points.order, room, count, begins_of(id_of, points.ids.size()),
                    [&](uint32_t sample) { return id_of[sample]; });
    }
    room.reset();

    const auto is_new = [&](uint32_t sample, uint32_t before) {
        return std::ranges::any_of(codes,
                                   [&](auto& column) { return column[sample] != column[before]; });
    };
    for (std::size_t k = 0; k < count; ++k) {
        const uint32_t sample = points.order[k], before = k > 0 ? points.order[k - 1] : 0;
        const bool is_new_id = k == 0 || (!id_of.empty() && id_of[sample] != id_of[before]);
        if (!is_new_id && !is_new(sample, before)) continue;
        if (is_new_id)
            points.first_points.push_back(static_cast<uint32_t>(points.first_offsets.size()));
        points.first_offsets.push_back(k);
        for (const auto& column : codes) points.codes.push_back(column[sample]);
    }
    points.first_points.push_back(static_cast<uint32_t>(points.first_offsets.size()));
    points.first_offsets.push_back(count);
    return points;
}

}  // namespace sab
