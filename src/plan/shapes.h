#pragma once
/// The shapes of batches.

#include <cstdint>
#include <span>
#include <vector>

#include "sab/plan.h"

namespace sab {

class Plan;

/// A number of samples that are padded to the lengths of a bucket.
struct BucketShape {
    uint64_t samples;
    std::size_t bucket;
};

/// Those of the full batches and of the tails of a plan's buckets.
std::vector<BucketShape> bucket_shapes(const Plan& plan);

/// A number of samples and their padded lengths, one a column, which are memory of the plan.
struct Shape {
    uint64_t count;
    std::span<const double> padded_length;
};

/// As the C ABI shows it.
inline sab_shape shown(const Shape& shape) {
    return {0, shape.count, shape.padded_length.size(), shape.padded_length.data()};
}

/// Collects shapes of plans.
class ShapeList {
public:
    void add(const Plan& plan, std::span<const BucketShape> shapes);
    /// Each once, the costliest first.
    std::vector<Shape> sorted() &&;

private:
    struct Priced {
        double cost;
        Shape shape;
    };
    std::vector<Priced> all_{};
};

/// A number of shapes, and the padding that so many leave.
struct ShapePadding {
    uint64_t shapes;
    double padding;
};

}  // namespace sab
