#include "sampler/cost_order.h"

#include <algorithm>
#include <numeric>

#include "base/sorting.h"

namespace sab {

CostOrder::CostOrder(std::vector<BatchClass> classes, const EpochOptions& epoch_options)
    : classes_(std::move(classes)) {
    for (const BatchClass& batch_class : classes_) batches_ += batch_class.batches;
    set_options(epoch_options);
}

CostOrder CostOrder::with_options(const EpochOptions& epoch_options) const {
    CostOrder order = *this;
    order.set_options(epoch_options);
    return order;
}

void CostOrder::set_options(const EpochOptions& epoch_options) {
    if (ranges_.empty() || epoch_options.step_batches != epoch_options_.step_batches ||
        epoch_options.costliest_first != epoch_options_.costliest_first)
        lay_out_steps(epoch_options);
    epoch_options_ = epoch_options;
    found_position_ = nowhere;
    const auto key = [&](Purpose purpose, uint64_t which) {
        return permutation_key(epoch_options.seed, epoch_options.epoch, purpose, which);
    };
    ranks_key_ = epoch_key(epoch_options.seed, epoch_options.epoch, Purpose::ranks);
    samples_key_ = epoch_key(epoch_options.seed, epoch_options.epoch, Purpose::samples);
    steps_ = Permutation(full_step_batches_ / epoch_options.step_batches - costliest_steps_,
                         key(Purpose::steps, 0));
    uint64_t first = costliest_steps_ * epoch_options.step_batches;
    for (std::size_t b = 0; b < bands_.size(); ++b) {
        bands_[b].batches = Permutation(bands_[b].end_id - first, key(Purpose::batches, b));
        first = bands_[b].end_id;
    }
}

void CostOrder::lay_out_steps(const EpochOptions& epoch_options) {
    // The batches that do not fill a step are taken from the classes with the most samples.
    uint64_t over = batches_ % epoch_options.step_batches;
    full_step_batches_ = batches_ - over;
    std::vector<double> samples;
    for (std::size_t k = 0; k < classes_.size() && over > 0; ++k)
        samples.push_back(static_cast<double>(classes_[k].samples));
    const std::vector<uint32_t> by_samples = by_descending(samples);
    std::vector<uint64_t> taken(classes_.size());
    std::vector<std::size_t> last;
    for (std::size_t i = 0; i < by_samples.size() && over > 0; ++i) {
        const std::size_t k = by_samples[i];
        taken[k] = std::min(over, classes_[k].batches);
        over -= taken[k];
        last.push_back(k);
    }
    ranges_.clear();
    uint64_t id = 0;
    for (std::size_t k = 0; k < classes_.size(); ++k)
        if (classes_[k].batches > taken[k])
            ranges_.push_back({k, 0, id += classes_[k].batches - taken[k]});
    std::ranges::sort(last);  // by cost again
    for (const std::size_t k : last)
        ranges_.push_back({k, classes_[k].batches - taken[k], id += taken[k]});

    const uint64_t costliest = std::min(epoch_options.costliest_first, full_step_batches_);
    costliest_steps_ =
        costliest / epoch_options.step_batches + (costliest % epoch_options.step_batches != 0);
    // A band ends before the batch that costs less than nine tenths of its first.
    bands_.clear();
    const uint64_t first = costliest_steps_ * epoch_options.step_batches;
    double top = 0;
    for (const IdRange& range : ranges_) {
        if (range.end_id > full_step_batches_) break;
        if (range.end_id <= first) continue;
        const double cost = classes_[range.batch_class].cost;
        if (bands_.empty() || cost < 0.9 * top) {
            bands_.push_back({range.end_id, Permutation()});
            top = cost;
        }
        bands_.back().end_id = range.end_id;
    }
}

CostOrder::Found CostOrder::find(uint64_t position) const {
    if (position == found_position_) return found_;
    uint64_t id = position;
    if (position < full_step_batches_) {
        const uint64_t step = position / epoch_options_.step_batches;
        if (step >= costliest_steps_) {
            id =
                (costliest_steps_ + steps_(step - costliest_steps_)) * epoch_options_.step_batches +
                position % epoch_options_.step_batches;
            const auto band = std::ranges::upper_bound(bands_, id, {}, &Band::end_id);
            const uint64_t first = band->end_id - band->batches.count();
            id = first + band->batches(id - first);
        }
    }
    const auto range = ranges_.size() == batches_  // one batch each
                           ? ranges_.begin() + static_cast<std::ptrdiff_t>(id)
                           : std::ranges::upper_bound(ranges_, id, {}, &IdRange::end_id);
    const uint64_t first = range == ranges_.begin() ? 0 : std::prev(range)->end_id;
    found_position_ = position;
    return found_ = {range->batch_class, range->first + (id - first)};
}

std::vector<CostOrder::Found> CostOrder::find_all() const {
    const uint64_t world = epoch_options_.step_batches;
    std::vector<uint32_t> steps(full_step_batches_ / world), ids(batches_), range_of(batches_);
    const auto permute = [](std::span<uint32_t> numbers, uint64_t first, const Permutation& by) {
        const std::span<uint32_t> part = numbers.subspan(first, by.count());
        by.fill(0, part);
        for (uint32_t& number : part) number += static_cast<uint32_t>(first);
    };
    std::iota(steps.begin(), steps.end(), 0u);
    permute(steps, costliest_steps_, steps_);
    std::iota(ids.begin(), ids.end(), 0u);
    uint64_t first = costliest_steps_ * world;
    for (const Band& band : bands_) {
        permute(ids, first, band.batches);
        first = band.end_id;
    }
    const auto begin_of = [&](std::size_t range) {
        return range == 0 ? 0 : ranges_[range - 1].end_id;
    };
    for (std::size_t range = 0; range < ranges_.size(); ++range)
        std::fill(range_of.begin() + static_cast<std::ptrdiff_t>(begin_of(range)),
                  range_of.begin() + static_cast<std::ptrdiff_t>(ranges_[range].end_id),
                  static_cast<uint32_t>(range));
    std::vector<Found> all(batches_);
    for (uint64_t position = 0; position < batches_; ++position) {
        uint64_t place = position;
        if (place < full_step_batches_) place = steps[place / world] * world + place % world;
        const uint32_t id = ids[place], range = range_of[id];
        all[position] = {ranges_[range].batch_class, ranges_[range].first + (id - begin_of(range))};
    }
    return all;
}

}  // namespace sab
