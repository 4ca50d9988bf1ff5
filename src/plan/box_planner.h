#pragma once
/// The buckets of samples with several sizes.

#include <span>
#include <vector>

#include "plan/boxes.h"
#include "plan/coded_plan.h"

namespace sab {

/// Divides the samples of each id into boxes. The samples must outlive it.
class BoxPlanner {
public:
    explicit BoxPlanner(const CodedSamples& samples);

    /// The samples that are left out, since they are outside the boundaries or over a budget.
    const std::vector<Stretch>& outside() const { return outside_; }
    Division divide(std::size_t id_number, double target) const;

private:
    /// Points whose samples are padded alike, as boxes are made of them.
    struct Grouped {
        Cells cells;
        std::vector<uint32_t> points;  ///< of each cell, one after the other
        std::vector<uint32_t> first;   ///< of each cell; one more: how many there are
    };

    void find_usable_points();
    [[noreturn]] void refuse_oversize(uint64_t outside) const;
    Waste waste_of(std::span<const Stretch> singles) const;
    std::vector<Box> boxes_of(const Grouped& grouped, std::size_t shapes, double target,
                              Division& division) const;
    std::vector<Box> boxes_of_shapes(const BoxFinder& finder, const Grouped& grouped,
                                     std::size_t count) const;
    bool are_within(const std::vector<Box>& boxes) const;
    void check_within(const std::vector<Box>& boxes, std::size_t shapes) const;
    std::vector<Box> boxes_of_boundaries(const BoxFinder& finder, const Grouped& grouped) const;
    std::size_t boundary_of(std::size_t point) const;
    Grouped grouped(std::span<const uint32_t> points) const;
    void add_boxes(const Grouped& grouped, const std::vector<Box>& boxes, int64_t id,
                   Division& division) const;
    void hold_fewest(std::size_t number, Division& division) const;

    const CodedSamples& samples_;
    const Points& points_;
    const PlanOptions& options_;
    const BatchSizes& batch_sizes_;
    std::vector<bool> is_outside_;  ///< of each point
    std::vector<Stretch> outside_{};
};

}  // namespace sab
