#pragma once
/// How many batches a bucket has at least, when the plan decides it.

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "plan/shapes.h"

namespace sab {

/// What buckets waste.
struct Waste {
    double padded = 0;   ///< each sample padded to the longest of its bucket, over all columns
    double padding = 0;  ///< of that, what is not data
    uint64_t batches = 0;
    double share() const { return padded > 0 ? padding / padded : 0; }
    Waste& operator+=(const Waste& other) {
        padded += other.padded;
        padding += other.padding;
        batches += other.batches;
        return *this;
    }
    friend Waste operator+(Waste a, const Waste& b) { return a += b; }
};

/// Buckets that were tried.
template <class Buckets>
struct Automatic {
    Buckets buckets;
    uint64_t fewest;     ///< least number of batches in a bucket
    double overhead;     ///< what they waste, as a share
    double nearest = 0;  ///< the target if it was met, else the least overhead found
};

/// The buckets of the largest `fewest` whose overhead is at most `target`. `best_with(fewest)`
/// makes them. Begins with `most`; goes up while the target is met, or down to `fewest` while it is
/// missed. `add_others(tried, nearest)` may then add others.
template <class BestWith, class AddOthers>
auto find_automatic(double target, uint64_t fewest, uint64_t most, BestWith&& best_with,
                    AddOthers&& add_others) {
    using Tried = decltype(best_with(most));
    std::vector<Tried> tried{best_with(most)};
    double nearest = tried[0].overhead;
    while (tried.back().overhead > target && tried.back().fewest > fewest) {
        tried.push_back(best_with(std::max(fewest, tried.back().fewest / 2)));
        nearest = std::min(nearest, tried.back().overhead);
    }
    if (nearest > target) add_others(tried, nearest);
    // If the target cannot be met, most of the waste may come from batches that no whole number of
    // samples fills. Smaller buckets would then mix fewer samples and save little.
    const double goal = nearest <= target ? target : fewest < most ? 1.25 * nearest : nearest;
    auto chosen =
        std::ranges::find_if(tried, [&](const Tried& each) { return each.overhead <= goal; });
    uint64_t missed = chosen == tried.begin() ? 0 : std::prev(chosen)->fewest;
    Tried best = std::move(*chosen);
    while (nearest <= target && missed == 0 && best.buckets.size() > 1) {
        Tried larger = best_with(2 * best.fewest);
        if (larger.overhead <= target)
            best = std::move(larger);
        else
            missed = larger.fewest;
    }
    while (nearest <= target && missed > best.fewest + std::max<uint64_t>(1, best.fewest / 8)) {
        Tried between = best_with(best.fewest + (missed - best.fewest) / 2);
        if (between.overhead <= target)
            best = std::move(between);
        else
            missed = between.fewest;
    }
    best.nearest = std::max(target, nearest);
    return best;
}

/// The buckets of the fewest shapes, from `fewest` to `most`, whose padding is at most `target`. If
/// there are none, those of the fewest shapes that waste at most a quarter more than the least
/// found. `make(shapes)` gives buckets and their padding; `tried` gets all of them, by number.
template <class Make>
auto by_fewest_shapes(double target, std::size_t fewest, std::size_t most, Make&& make,
                      std::vector<ShapePadding>& tried) {
    const auto attempt = [&](std::size_t shapes) {
        auto made = make(shapes);
        tried.push_back({shapes, made.second});
        return made;
    };
    std::size_t shapes = fewest, missed = fewest;
    auto best = attempt(shapes);
    while (best.second > target && shapes < most) {
        missed = shapes;
        shapes = std::min(most, shapes + std::max<std::size_t>(1, shapes / 2));
        best = attempt(shapes);
    }
    if (best.second > target) {
        const double goal = 1.25 * std::ranges::min(tried, {}, &ShapePadding::padding).padding;
        const auto chosen = std::ranges::find_if(
            tried, [&](const ShapePadding& each) { return each.padding <= goal; });
        return make(chosen->shapes);
    }
    while (shapes > missed + 1) {
        const std::size_t middle = missed + (shapes - missed) / 2;
        auto between = attempt(middle);
        if (between.second > target) {
            missed = middle;
        } else {
            shapes = middle;
            best = std::move(between);
        }
    }
    std::ranges::sort(tried, {}, &ShapePadding::shapes);
    return best;
}

}  // namespace sab
