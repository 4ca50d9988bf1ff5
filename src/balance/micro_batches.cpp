#include "balance/micro_batches.h"

#include <algorithm>
#include <numeric>

#include "base/sorting.h"

namespace sab {

void parts_to_ranks(const ItemTable& part_costs, uint64_t world_size, std::span<uint32_t> part_of) {
    const std::size_t parts = part_costs.items;
    std::vector<uint32_t> rank_of(parts), next(world_size);
    VectorPartitioner().partition(part_costs, {}, {}, {world_size, true}, rank_of);
    const auto of_rank = static_cast<uint32_t>(parts / world_size);
    for (uint32_t& rank : rank_of) rank = rank * of_rank + next[rank]++;
    for (uint32_t& part : part_of) part = rank_of[part];
}

namespace {

/// `own`: successive micro-batches that may give samples to each other.
void fill_from_others(std::span<const double> costs, uint64_t parts, uint64_t own,
                      std::span<uint32_t> part_of) {
    std::vector<uint32_t> counts(parts);
    for (const uint32_t part : part_of) ++counts[part];
    std::vector<std::vector<uint32_t>> empty(parts / own);
    bool is_any = false;
    for (std::size_t part = counts.size(); part-- > 0;) {
        if (counts[part] > 0) continue;
        empty[part / own].push_back(static_cast<uint32_t>(part));
        is_any = true;
    }
    if (!is_any) return;
    for (const uint32_t sample : by_ascending(costs.first(part_of.size()))) {
        uint32_t& part = part_of[sample];
        std::vector<uint32_t>& room = empty[part / own];
        if (counts[part] < 2 || room.empty()) continue;
        --counts[part];
        part = room.back();
        room.pop_back();
        ++counts[part];
    }
}

}  // namespace

void fill_empty(std::span<const double> costs, uint64_t parts, uint64_t micro_batches,
                bool may_change_rank, std::span<uint32_t> part_of) {
    fill_from_others(costs, parts, micro_batches, part_of);
    if (may_change_rank) fill_from_others(costs, parts, parts, part_of);
}

std::vector<uint32_t> places_by_cost(const ItemTable& part_costs, uint64_t micro_batches) {
    const auto count = static_cast<uint32_t>(micro_batches);
    std::vector<double> keys(part_costs.items);
    for (std::size_t kind = 0; kind < part_costs.kinds; ++kind) {
        const std::span<const double> costs = part_costs[kind];
        const double sum = std::accumulate(costs.begin(), costs.end(), 0.0);
        for (std::size_t part = 0; part < keys.size() && sum > 0; ++part)
            keys[part] = std::max(keys[part], costs[part] / sum);
    }
    std::vector<uint32_t> places(keys.size());
    for (uint32_t first = 0; first < keys.size(); first += count) {
        uint32_t place = 0;
        for (const uint32_t part : by_descending(std::span(keys).subspan(first, count)))
            places[first + part] = place++;
    }
    return places;
}

}  // namespace sab
