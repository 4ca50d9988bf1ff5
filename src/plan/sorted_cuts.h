#pragma once
/// Boxes of samples that are taken in one order, the costliest first.

#include <cstdint>
#include <span>
#include <vector>

#include "plan/boxes.h"

namespace sab {

/// Orders of the same cells. A sorted cut takes the samples of an order, each batch as many as fit.
class SortedCuts {
public:
    /// `multiple`: batch sizes are multiples of it where at least one fits.
    SortedCuts(const Cells& cells, BoxFinder::BatchSizeFor batch_size_for, uint64_t multiple);

    /// Adds the order of descending keys, one a cell; among equal ones that of descending ties,
    /// then of lengths. Those whose sorted cuts have the fewest batches are kept, the best first.
    void add_order(std::span<const double> keys, std::span<const double> ties);
    std::size_t size() const { return orders_.size(); }
    /// Batches of the sorted cut that has the fewest.
    uint64_t fewest_batches() const { return orders_.front().batches; }

    /// Boxes of up to `most` batches, larger ones of equal samples only. A box has at most 1.3
    /// times as many batches as the sorted cut makes of its samples, so it may be a single batch.
    /// All have whole batches but for the last one. With 1 they are the batches of the sorted cut.
    std::vector<Box> boxes(std::size_t order, uint64_t most) const;

private:
    /// Of a sample in an order.
    struct Place {
        std::size_t at = 0;  ///< cell, as a number in the order
        uint64_t used = 0;   ///< samples of the cell before it
    };
    struct Order {
        std::vector<uint32_t> cells{};
        std::vector<PerColumn> rest{};  ///< longest of each cell and those after it
        uint64_t batches = 0;           ///< of the sorted cut
    };
    /// `batches` of `size` samples. The sorted cut makes at least `cut` batches of them.
    struct Run {
        uint64_t batches, size, cut;
    };
    class Walk;

    uint64_t left(const Order& order, const Place& place) const {
        return cells_.counts[order.cells[place.at]] - place.used;
    }
    uint64_t size_for(const PerColumn& lengths) const;
    uint64_t whole(uint64_t size) const {
        return size < multiple_ ? size : size - size % multiple_;
    }
    PerColumn joined(PerColumn lengths, std::size_t cell) const;
    void advance(const Order& order, Place& place, uint64_t samples) const;
    Run equal_ones(const Order& order, const Place& place) const;
    Run run_at(const Order& order, const Place& place, uint64_t most) const;
    Box taken(const Order& order, Place& place, uint64_t samples, uint64_t size) const;
    uint64_t count_batches(const Order& order) const;

    const Cells& cells_;
    BoxFinder::BatchSizeFor batch_size_for_;
    uint64_t multiple_;
    std::vector<Order> orders_{};
};

/// Whether so many batches are at most 1.3 times as many as those of a sorted cut.
inline bool is_near(uint64_t batches, uint64_t cut) {
    return 10 * batches <= 13 * cut;
}

}  // namespace sab
