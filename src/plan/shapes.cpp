#include "plan/shapes.h"

#include <algorithm>

#include "plan/plan.h"

namespace sab {

std::vector<BucketShape> bucket_shapes(const Plan& plan) {
    std::vector<BucketShape> shapes;
    for (std::size_t b = 0; b < plan.buckets().size(); ++b) {
        const Bucket& bucket = plan.buckets()[b];
        const uint64_t full = plan.facts().tail == SAB_TAIL_WRAP
                                  ? bucket.batches
                                  : bucket.samples() / bucket.batch_size;
        if (full > 0) shapes.push_back({bucket.batch_size, b});
        if (bucket.batches > full) shapes.push_back({bucket.samples() % bucket.batch_size, b});
    }
    return shapes;
}

void ShapeList::add(const Plan& plan, std::span<const BucketShape> shapes) {
    const Cost cost = plan.cost();
    for (const BucketShape& each : shapes) {
        const std::span<const double> lengths = plan.lengths(each.bucket).padded_length;
        all_.push_back({cost(each.samples, lengths), {each.samples, lengths}});
    }
}

std::vector<Shape> ShapeList::sorted() && {
    const auto comes_before = [](const Priced& a, const Priced& b) {
        if (a.cost != b.cost) return a.cost > b.cost;
        if (a.shape.count != b.shape.count) return a.shape.count > b.shape.count;
        return std::ranges::lexicographical_compare(b.shape.padded_length, a.shape.padded_length);
    };
    std::ranges::sort(all_, comes_before);
    std::vector<Shape> shapes;
    for (std::size_t i = 0; i < all_.size(); ++i)
        if (i == 0 || comes_before(all_[i - 1], all_[i])) shapes.push_back(all_[i].shape);
    return shapes;
}

}  // namespace sab
