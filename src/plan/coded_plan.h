#pragma once
/// Plans that keep the sizes of each sample as codes: of several columns, and of samples that ids
/// separate.

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "plan/automatic.h"
#include "plan/batch_sizes.h"
#include "plan/plan.h"
#include "plan/points.h"

namespace sab {

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

/// What the samples of an id are divided into.
struct Division {
    std::vector<Draft> drafts{};
    std::vector<Stretch> skipped{};
    uint64_t lower_bound = 0;
    double padding_target = 0, nearest_target = 0;
    Waste waste{};  ///< of automatic buckets
    std::vector<ShapePadding> shape_paddings{};
};

/// The samples of such a plan, and the sizes of their batches.
class CodedSamples {
public:
    CodedSamples(Points points, PlanOptions options);

    const Points& points() const { return points_; }
    const PlanOptions& options() const { return batch_sizes_.options(); }
    const BatchSizes& batch_sizes() const { return batch_sizes_; }
    /// The distinct sizes of each column.
    std::span<const std::span<const double>> distinct() const { return distinct_; }
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
    /// The shapes of an id's buckets: its share of all sizes, but at least what it needs.
    std::size_t shapes_of(std::size_t id_number) const;
    /// Puts stretches of samples that cost more later; equal ones keep their order.
    void sort(Draft& draft) const;

private:
    const Points points_;
    const std::vector<std::span<const double>> distinct_;
    const BatchSizes batch_sizes_;
};

/// `divide` is called with the number of each id and the padding target. `skipped`: the first
/// samples that are left out.
PlanArrays make_coded(const CodedSamples& samples, std::vector<Stretch> skipped,
                      const std::function<Division(std::size_t, double)>& divide);

/// The samples of an id, which have one size each, are divided by a PlanBuilder.
Division divide_by_size(const CodedSamples& samples, std::size_t id_number, double target);

}  // namespace sab
