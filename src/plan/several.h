#pragma once
/// Plans of several columns, and of samples that ids separate.

#include <span>
#include <string>
#include <vector>

#include "plan/boxes.h"
#include "plan/plan.h"
#include "plan/points.h"
#include "plan/sorted.h"

namespace sab {

/// The steps of making such a plan. The options must outlive it.
class SeveralPlanner {
public:
    SeveralPlanner(Points points, std::vector<std::string> names, const sab_plan_options& options);

    std::span<const Budget> budgets() const { return batch_sizes_.budgets(); }
    PlanArrays make();

private:
    /// Samples of one point, at successive places of the points' order.
    struct Stretch {
        uint64_t first;
        uint64_t count;
    };
    /// A bucket before its samples are put in place.
    struct Draft {
        std::vector<Stretch> stretches{};
        uint64_t batch_size = 1;
        int64_t id = 0;
        std::size_t boundary = 0;  ///< that ends it; 0: none
        uint64_t samples() const;
    };
    /// Points whose samples are padded alike, as boxes are made of them.
    struct Grouped {
        Cells cells;
        std::vector<uint32_t> points;  ///< of each cell, one after the other
        std::vector<uint32_t> first;   ///< of each cell; one more: how many there are
    };

    bool has_singles() const { return options_.oversize == SAB_OVERSIZE_SINGLE; }
    PerColumn sizes_of(std::size_t point) const;
    PerColumn padded_of(std::size_t point) const;
    uint64_t samples_of(std::size_t point) const {
        return points_.first_offsets[point + 1] - points_.first_offsets[point];
    }
    /// The point at a place of the order.
    std::size_t point_at(uint64_t place) const { return distinct_of(points_.first_offsets, place); }
    std::span<const double> cut(const PerColumn& lengths) const {
        return first_of(lengths, points_.columns);
    }
    void find_usable_points();
    [[noreturn]] void refuse_oversize(uint64_t outside) const;
    std::size_t shapes_of(std::size_t id_number) const;
    void divide(std::size_t id_number, PlanFacts& facts);
    void divide_one_column(std::size_t id_number, PlanFacts& facts);
    BoxFinder::Waste waste_of(std::span<const Stretch> singles) const;
    std::vector<Box> boxes_of(const Grouped& grouped, std::size_t shapes, uint64_t lower_bound,
                              const BoxFinder::Waste& singles, PlanFacts& facts) const;
    std::vector<Box> boxes_of_shapes(const BoxFinder& finder, const Grouped& grouped,
                                     std::size_t count) const;
    std::vector<Box> boxes_of_boundaries(const BoxFinder& finder, const Grouped& grouped) const;
    std::size_t boundary_of(std::size_t point) const;
    Grouped grouped(std::span<const uint32_t> points) const;
    void add_boxes(const Grouped& grouped, std::vector<Box>& boxes, int64_t id);
    void hold_fewest(std::size_t number);
    void put_longest_last(Draft& draft) const;
    void add_bucket(const Draft& draft, PlanArrays& arrays, uint64_t place) const;
    double cost_of_last(const Draft& draft, uint64_t count) const;
    void write_order(std::span<const Stretch> stretches, PlanArrays& arrays) const;
    void write_runs(std::span<const Stretch> stretches, PlanArrays& arrays) const;
    void sort_stretches(Draft& draft) const;

    const sab_plan_options& options_;
    const Progress progress_;
    Points points_;
    const std::vector<std::span<const double>> distinct_;
    const std::vector<PerColumn> boundaries_;  ///< the first: the lower end of all sizes
    const std::vector<std::string> names_;
    const BatchSizes batch_sizes_;
    std::vector<bool> is_outside_;  ///< of each point
    std::vector<Draft> drafts_{};
    std::vector<Stretch> skipped_{};
};

}  // namespace sab
