#include "plan/sorted_cuts.h"

#include <algorithm>
#include <numeric>

#include "base/sorting.h"

namespace sab {
namespace {

/// Batches of a box whose samples differ, at most: bounds the time.
constexpr uint64_t most_batches = 1024;

constexpr std::size_t most_orders = 4;

}  // namespace

/// The samples from a place on that fit into a number of batches.
class SortedCuts::Walk {
public:
    Walk(const SortedCuts& cuts, const Order& order, const Place& place)
        : cuts_(cuts), order_(order), place_(place) {}

    /// Samples of each of `batches` batches, as many as fit; 0 where fewer are left than batches.
    /// The very last batch need not be a multiple.
    /// `batches` must not fall from call to call.
    uint64_t size(uint64_t batches) {
        while (place_.at < order_.cells.size()) {
            const PerColumn lengths = cuts_.joined(longest_, order_.cells[place_.at]);
            const uint64_t most = batches * cuts_.size_for(lengths);
            if (most <= samples_) break;
            const uint64_t here = cuts_.left(order_, place_),
                           taken = std::min(here, most - samples_);
            longest_ = lengths;
            samples_ += taken;
            place_.used += taken;
            if (taken < here) break;
            place_ = {place_.at + 1, 0};
        }
        const bool is_last = batches == 1 && place_.at == order_.cells.size();
        return is_last ? samples_ : cuts_.whole(samples_ / batches);
    }

private:
    const SortedCuts& cuts_;
    const Order& order_;
    Place place_;
    PerColumn longest_{};
    uint64_t samples_ = 0;
};

SortedCuts::SortedCuts(const Cells& cells, BoxFinder::BatchSizeFor batch_size_for,
                       uint64_t multiple)
    : cells_(cells), batch_size_for_(std::move(batch_size_for)), multiple_(multiple) {}

/// At least 1: samples that are over the budget together are alone in their batches.
uint64_t SortedCuts::size_for(const PerColumn& lengths) const {
    return std::max<uint64_t>(batch_size_for_(first_of(lengths, cells_.columns)), 1);
}

PerColumn SortedCuts::joined(PerColumn lengths, std::size_t cell) const {
    for (std::size_t j = 0; j < cells_.columns; ++j)
        lengths[j] = std::max(lengths[j], cells_.of(cell)[j]);
    return lengths;
}

void SortedCuts::advance(const Order& order, Place& place, uint64_t samples) const {
    while (samples > 0) {
        const uint64_t taken = std::min(samples, left(order, place));
        samples -= taken;
        place.used += taken;
        if (left(order, place) == 0) place = {place.at + 1, 0};
    }
}

/// The whole batches of the samples of one cell.
SortedCuts::Run SortedCuts::equal_ones(const Order& order, const Place& place) const {
    const uint64_t size = size_for(joined({}, order.cells[place.at])),
                   batches = left(order, place) / size;
    return {batches, size, batches};
}

uint64_t SortedCuts::count_batches(const Order& order) const {
    uint64_t batches = 0;
    for (Place place; place.at < order.cells.size();) {
        Run run = equal_ones(order, place);
        if (run.batches == 0) run = {1, Walk(*this, order, place).size(1), 1};
        batches += run.batches;
        advance(order, place, run.batches * run.size);
    }
    return batches;
}

void SortedCuts::add_order(std::span<const double> keys, std::span<const double> ties) {
    Order order;
    order.cells.resize(keys.size());
    std::iota(order.cells.rbegin(), order.cells.rend(), 0u);  // lengths ascend with the number
    std::vector<double> known(keys.size());
    for (const std::span<const double> by : {ties, keys}) {
        std::ranges::transform(order.cells, known.begin(), [&](uint32_t cell) { return by[cell]; });
        std::vector<uint32_t> sorted = by_descending(known);
        for (uint32_t& place : sorted) place = order.cells[place];
        order.cells = std::move(sorted);
    }
    order.rest.resize(keys.size());
    PerColumn longest{};
    for (std::size_t i = keys.size(); i-- > 0;)
        order.rest[i] = longest = joined(longest, order.cells[i]);
    order.batches = count_batches(order);
    orders_.insert(std::ranges::upper_bound(orders_, order.batches, {}, &Order::batches),
                   std::move(order));
    if (orders_.size() > most_orders) orders_.pop_back();
}

/// The longest run of up to `most` batches whose samples the sorted cut does not put into much
/// fewer ones.
SortedCuts::Run SortedCuts::run_at(const Order& order, const Place& place, uint64_t most) const {
    if (const Run run = equal_ones(order, place); run.batches >= most) return run;
    Walk walk(*this, order, place);
    Place next = place;  // of the batch that the sorted cut makes next
    uint64_t cut = 0, samples = 0, size_of_next = Walk(*this, order, place).size(1);
    Run found{1, size_of_next, 1};
    for (uint64_t batches = 1; batches <= most; ++batches) {
        const uint64_t size = walk.size(batches);
        if (size == 0) break;
        while (size_of_next > 0 && samples + size_of_next <= batches * size) {
            samples += size_of_next;
            ++cut;
            advance(order, next, size_of_next);
            size_of_next =
                next.at < order.cells.size() ? Walk(*this, order, next).size(1) : uint64_t{0};
        }
        if (is_near(batches, cut)) found = {batches, size, cut};
        if (!is_near(batches, cut + 3)) break;  // the ratio does not fall again
    }
    return found;
}

Box SortedCuts::taken(const Order& order, Place& place, uint64_t samples, uint64_t size) const {
    Box box;
    box.samples = samples;
    box.batch_size = size;
    while (samples > 0) {
        const uint32_t cell = order.cells[place.at];
        const uint64_t count = std::min(samples, left(order, place));
        box.runs.push_back({cell, place.used, count});
        box.padded = joined(box.padded, cell);
        advance(order, place, count);
        samples -= count;
    }
    return box;
}

std::vector<Box> SortedCuts::boxes(std::size_t number, uint64_t most) const {
    const Order& order = orders_[number];
    most = std::min(most, most_batches);
    std::vector<Box> boxes;
    uint64_t samples = 0, cut = order.batches;
    for (const uint64_t count : cells_.counts) samples += count;
    for (Place place; samples > 0;) {
        const uint64_t size = size_for(order.rest[place.at]), batches = (samples + size - 1) / size;
        if (batches == 1 || (batches < 2 * most && is_near(batches, cut))) {
            const bool is_one = batches == 1 && whole(samples) == samples;
            boxes.push_back(taken(order, place, samples, is_one ? samples : size));
            break;
        }
        const Run run = run_at(order, place, most);
        boxes.push_back(taken(order, place, run.batches * run.size, run.size));
        samples -= run.batches * run.size;
        cut -= std::min(cut, run.cut);
    }
    BoxFinder::sort(boxes);
    return boxes;
}

}  // namespace sab
