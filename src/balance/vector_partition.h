#pragma once
/// Items with several costs to parts, under several capacities.

#include <cstdint>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "balance/partition.h"
#include "sab/balance.h"

namespace sab {

/// Several numbers an item: the first of all items, then the second of all, and so on.
struct ItemTable {
    std::span<const double> numbers;
    std::size_t kinds = 0;
    std::size_t items = 0;

    std::span<const double> operator[](std::size_t kind) const {
        return numbers.subspan(kind * items, items);
    }
    /// Those of the parts that the items are in: the first of all parts, then the second of all.
    std::vector<double> sums(std::span<const uint32_t> part_of, std::size_t parts) const {
        std::vector<double> sums(kinds * parts);
        for (std::size_t kind = 0; kind < kinds; ++kind)
            for (std::size_t i = 0; i < items; ++i)
                sums[kind * parts + part_of[i]] += numbers[kind * items + i];
        return sums;
    }
};

/// Assigns items as Partitioner does if they have one cost and at most one weight. Otherwise moves
/// and exchanges lower the costliest part by the cost that is least even. Keeps its scratch memory
/// between calls.
class VectorPartitioner {
public:
    /// Fills `part_of`; false when no assignment under the capacities was found. Of each weight the
    /// sum of a part, added up in the order of the items, is at most its capacity. Costs and
    /// weights are finite and at least 0. Throws when the thread's progress asks to stop.
    bool partition(const ItemTable& costs, const ItemTable& weights,
                   std::span<const double> capacities, const PartitionRules& rules,
                   std::span<uint32_t> part_of);

private:
    using PartsByLoad = std::set<std::pair<double, uint32_t>>;  ///< by load, then by index

    /// A cost or a weight of the items, and its sum in each part, the load.
    struct Dimension {
        std::span<const double> numbers;
        double scale;         ///< a load times this is compared with those of other dimensions
        double enough;        ///< a load that need not be lowered
        double limit;         ///< that loads keep, once they are not lowered any more
        bool is_open = true;  ///< the largest load is being lowered
        std::vector<double> loads{};
        PartsByLoad parts_by_load{};  ///< while it is open
    };

    /// An item that goes to another part, perhaps for one that comes back: places in their items.
    struct Exchange {
        static constexpr std::size_t nothing = ~std::size_t{0};
        std::size_t given = nothing, taken = nothing;
        double score = 0;  ///< the largest load of the two parts after it, scaled
    };

    /// Some items of a part: places in its items, and their numbers by dimension.
    struct Shown {
        std::vector<std::size_t> places;
        std::vector<double> numbers;
    };

    void add_costs(const ItemTable& costs);
    void add_weights(const ItemTable& weights, std::span<const double> capacities);
    bool keep(const ItemTable& weights, std::span<const double> capacities);
    void start_by_sum(std::size_t first, std::size_t end);
    bool start_by_shares(std::size_t weights);
    void collect_items();
    bool even_out(std::size_t first, std::size_t end, bool must_reach);
    bool lower(Dimension& dimension, uint32_t from);
    void show(uint32_t part, Shown& shown) const;
    Exchange best_exchange(uint32_t from, uint32_t to, double worst);
    void apply(const Exchange& exchange, uint32_t from, uint32_t to);
    void worked(std::size_t pairs);

    Partitioner single_;
    // Of the call under way:
    PartitionRules rules_;
    std::span<uint32_t> part_of_;
    std::vector<Dimension> dimensions_;         ///< weights, then costs
    std::vector<std::vector<double>> lowered_;  ///< weights that are not those of the caller
    std::vector<std::vector<uint32_t>> items_;  ///< of each part
    std::vector<double> sums_, scores_;
    Shown given_, taken_;
    std::size_t work_ = 0;  ///< pairs of items that may still be looked at
    std::size_t unreported_ = 0;
    uint64_t round_ = 0;
};

/// sab_items_partition(): checks what it is given. Changes `part_of` only when it succeeds.
void partition(const double* costs, std::size_t count, uint64_t parts,
               const sab_partition_options& options, std::span<uint32_t> part_of);

}  // namespace sab
