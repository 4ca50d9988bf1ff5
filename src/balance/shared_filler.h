#pragma once
/// Micro-batches that are filled one after the other.

#include <cstdint>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "balance/shared_items.h"

namespace sab {

/// Keeps its scratch memory between calls.
class SharedFiller {
public:
    explicit SharedFiller(const SharedItems& items);

    /// Fills `part_of` with the number of a micro-batch for each leaf. Each micro-batch takes the
    /// largest tree, or rest of a tree, that fits; and then a part of one where that uses at least
    /// `waste` of its room, without what is computed again. Returns the number of micro-batches; 0
    /// if there would be more than `most`. `limits`: of a micro-batch, for each kind.
    std::size_t fill(const Load& limits, double waste, std::size_t most,
                     std::span<uint32_t> part_of);

    /// Leaves of one tree for which a micro-batch with a load has room. Valid until the next call.
    std::span<const uint32_t> choose_some(std::span<const uint32_t> leaves, const Load& load,
                                          const Load& limits);

private:
    /// What is left of a tree.
    struct Rest {
        std::vector<uint32_t> leaves;
        std::vector<uint32_t> least;   ///< of SharedItems, for each leaf and the one before
        std::vector<uint32_t> levels;  ///< of `least`
        Load load;
        double size;
    };
    struct Range {
        std::size_t first, end;
    };

    double size_of(const Load& load) const;
    double room_of(const Load& load) const;
    bool fits(const Load& load) const;
    bool fill_part(uint32_t part);
    bool take_whole(uint32_t tree, Load& load, uint32_t part);
    bool take_some(Load& load, bool is_empty, uint32_t part);
    Load load_of(const Rest& rest, Range range) const;
    void measure(Rest& rest) const;
    void choose(const Rest& rest, const Load& load);
    double used_room(const Rest& rest);
    void list_others(const Rest& rest);
    void take_chosen(uint32_t tree, Load& load, uint32_t part);

    const SharedItems& items_;
    std::vector<Rest> all_, rests_;
    Rest some_;
    std::vector<uint32_t> by_path_;  ///< trees, those with the least in common first
    std::vector<uint32_t> open_;     ///< the same, without most of those that are taken
    std::set<std::pair<double, uint32_t>> by_size_;  ///< the rests
    Load limits_{};
    double waste_ = 0;
    std::span<uint32_t> part_of_;
    std::vector<uint32_t> chosen_, best_, others_;
};

}  // namespace sab
