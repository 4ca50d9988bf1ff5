#pragma once
/// Items to parts, so that the costliest part costs little more than the mean.

#include <cstdint>
#include <set>
#include <span>
#include <utility>
#include <vector>

namespace sab {

inline constexpr uint64_t most_parts = uint64_t{1} << 20;

struct PartitionRules {
    uint64_t parts = 1;
    bool equal_counts = false;  ///< the number of items must be a multiple of the parts
    double capacity = 0;        ///< of the weights of a part; used when there are weights
    std::size_t looks = 512;    ///< under a capacity: work for each item and part, to lower costs
    /// the items, costliest first, as by_descending() sorts them; empty: not known
    std::span<const uint32_t> by_cost{};
    /// begins with each item, costliest first, in the part that costs least so far: faster than
    /// differencing, less even
    bool is_longest_first = false;
};

/// Whole numbers whose sum is exact in any order.
bool are_whole(std::span<const double> numbers);

/// What a sum of some of so many numbers, added in any order and taken from again, may be off by,
/// as a share of the largest sum.
double rounding_share(std::size_t count);

/// Whether one weight, or all together, are more than the capacity allows, so that no search is
/// needed.
bool is_impossible(std::span<const double> weights, uint64_t parts, double capacity);

/// Keeps its scratch memory between calls.
class Partitioner {
public:
    /// Fills `part_of`; false when no assignment under the capacity was found: the weights of a
    /// part, added up in the order of the items, are never more. Costs and weights are finite and
    /// at least 0; no weights: no capacity. Throws when the thread's progress asks to stop.
    bool partition(std::span<const double> costs, std::span<const double> weights,
                   const PartitionRules& rules, std::span<uint32_t> part_of);

private:
    /// Karmarkar-Karp: a partial partition. Its parts that have items stand in `slots_`: where all
    /// have, as a heap, the cheapest in front; otherwise costliest first. A part is named by the
    /// first of its items.
    struct State {
        double spread;  ///< costliest less cheapest part
        double largest;
        uint32_t slots;  ///< parts with items
        uint32_t block;  ///< where in slots_, in blocks of `width_`
        bool is_sorted;  ///< a heap that is sorted
    };

    /// A part of the assignment that is being improved.
    struct Part {
        double cost = 0;
        double weight = 0;
        std::vector<uint32_t> items;  ///< costliest first
    };

    using PartsByLoad = std::set<std::pair<double, uint32_t>>;  ///< parts by a load, then by index

    /// Neighbours in a part's items.
    struct ItemRange {
        std::size_t first = 0;
        std::size_t count = 0;
    };

    /// Items that go to another part, perhaps for some that come back.
    struct Exchange {
        ItemRange given, taken;
        double score = 0;  ///< the lower, the better
        bool is_found() const { return given.count > 0; }
    };

    /// Counts items looked at. Tells the thread's progress about every 2^16 of them, so that a
    /// caller can stop a long call within milliseconds.
    void worked(std::size_t items) {
        unreported_ += items;
        if (unreported_ >= reported_work) report_work();
    }
    void report_work();
    bool differencing();
    void difference();
    State merge(const State& a, const State& b);
    State merge(const State& state, uint32_t item);
    State full(uint32_t block, double largest, bool is_sorted);
    uint32_t new_block();
    uint32_t* slots_of(uint32_t block);
    void join(uint32_t part, uint32_t other);
    bool before(uint32_t a, uint32_t b) const;

    bool longest_first();
    bool best_fit(double slack);
    static void change_load(PartsByLoad& parts_by_load, uint32_t part, double from, double to,
                            bool stays = true);
    void collect_items();
    std::span<Part> open_parts();
    PartsByLoad sorted_parts(double Part::* load);
    double largest_cost();
    bool keeps_capacity();
    bool keeps_capacity(const Part& part) const;
    bool repair();
    void improve();
    Exchange best_exchange(const Part& from, const Part& to) const;
    Exchange best_exchange_of_ranges(const Part& from, const Part& to) const;
    Exchange best_relief(const Part& from, const Part& to, bool with_swaps) const;
    void apply(const Exchange& exchange, uint32_t from, uint32_t to, double Part::* load,
               PartsByLoad& parts_by_load);
    void put(uint32_t item, Part& part);
    void count(Part& part) const;

    double weight(uint32_t item) const { return weights_.empty() ? 0 : weights_[item]; }

    // Of the call under way:
    std::span<const double> costs_, weights_;
    std::span<uint32_t> part_of_;
    PartitionRules rules_;
    bool whole_ = false;  ///< costs are whole numbers whose sum is exact
    /// of the capacity, where sums of weights may be rounded
    double slack_ = 0;
    static constexpr std::size_t reported_work = std::size_t{1} << 16;
    std::size_t unreported_ = 0;
    uint64_t done_ = 0;  ///< items looked at

    std::vector<uint32_t> sorted_;       ///< by_cost_, if it was not given
    std::span<const uint32_t> by_cost_;  ///< items, costliest first, then by index
    std::vector<uint32_t> next_, last_;  ///< lists of items; last_ by the first item of a list
    std::vector<double> sum_;            ///< by the first item of a list
    std::vector<uint32_t> slots_, free_blocks_;
    std::vector<State> heap_;
    uint32_t width_ = 1;
    std::vector<Part> parts_;
    std::vector<uint32_t> kept_;
};

}  // namespace sab
