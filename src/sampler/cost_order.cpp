#include "sampler/cost_order.h"

#include <algorithm>
#include <functional>

namespace sab {

CostOrder::CostOrder(std::vector<BatchKind> kinds) : kinds_(std::move(kinds)) {
    for (const BatchKind& kind : kinds_) batches_ += kind.batches;
    arrange({});
}

CostOrder CostOrder::arranged(const Arrangement& arrangement) const {
    CostOrder order = *this;
    order.arrange(arrangement);
    return order;
}

void CostOrder::arrange(const Arrangement& arrangement) {
    if (runs_.empty() || arrangement.group != arrangement_.group ||
        arrangement.costliest_first != arrangement_.costliest_first)
        lay_out(arrangement);
    arrangement_ = arrangement;
    found_position_ = nowhere;
    const auto key = [&](Purpose purpose, uint64_t which) {
        return permutation_key(arrangement.seed, arrangement.epoch, purpose, which);
    };
    ranks_key_ = epoch_key(arrangement.seed, arrangement.epoch, Purpose::ranks);
    samples_key_ = epoch_key(arrangement.seed, arrangement.epoch, Purpose::samples);
    groups_ = Permutation(grouped_ / arrangement.group - worst_groups_, key(Purpose::steps, 0));
    uint64_t first = worst_groups_ * arrangement.group;
    for (std::size_t b = 0; b < bands_.size(); ++b) {
        bands_[b].batches = Permutation(bands_[b].end_id - first, key(Purpose::batches, b));
        first = bands_[b].end_id;
    }
}

void CostOrder::lay_out(const Arrangement& arrangement) {
    // The batches over a multiple of the group are taken from the kinds with the most samples.
    uint64_t over = batches_ % arrangement.group;
    grouped_ = batches_ - over;
    std::vector<std::size_t> by_samples(over > 0 ? kinds_.size() : 0);
    for (std::size_t k = 0; k < by_samples.size(); ++k) by_samples[k] = k;
    std::ranges::stable_sort(by_samples, std::ranges::greater{},
                             [&](std::size_t k) { return kinds_[k].samples; });
    std::vector<uint64_t> taken(kinds_.size());
    std::vector<std::size_t> last;
    for (std::size_t i = 0; i < by_samples.size() && over > 0; ++i) {
        const std::size_t k = by_samples[i];
        taken[k] = std::min(over, kinds_[k].batches);
        over -= taken[k];
        last.push_back(k);
    }
    runs_.clear();
    uint64_t id = 0;
    for (std::size_t k = 0; k < kinds_.size(); ++k)
        if (kinds_[k].batches > taken[k])
            runs_.push_back({k, 0, id += kinds_[k].batches - taken[k]});
    std::ranges::sort(last);  // by cost again
    for (const std::size_t k : last)
        runs_.push_back({k, kinds_[k].batches - taken[k], id += taken[k]});

    worst_groups_ =
        std::min(grouped_ / arrangement.group,
                 (arrangement.costliest_first + arrangement.group - 1) / arrangement.group);
    // A band ends before the batch that costs less than nine tenths of its first.
    bands_.clear();
    const uint64_t first = worst_groups_ * arrangement.group;
    double top = 0;
    for (const Run& run : runs_) {
        if (run.end_id > grouped_) break;
        if (run.end_id <= first) continue;
        const double cost = kinds_[run.kind].cost;
        if (bands_.empty() || cost < 0.9 * top) {
            bands_.push_back({run.end_id, Permutation()});
            top = cost;
        }
        bands_.back().end_id = run.end_id;
    }
}

CostOrder::Found CostOrder::find(uint64_t position) const {
    if (position == found_position_) return found_;
    uint64_t id = position;
    if (position < grouped_) {
        const uint64_t group = position / arrangement_.group;
        if (group >= worst_groups_) {
            id = (worst_groups_ + groups_(group - worst_groups_)) * arrangement_.group +
                 position % arrangement_.group;
            const auto band = std::ranges::upper_bound(bands_, id, {}, &Band::end_id);
            const uint64_t first = band->end_id - band->batches.count();
            id = first + band->batches(id - first);
        }
    }
    const auto run = std::ranges::upper_bound(runs_, id, {}, &Run::end_id);
    const uint64_t first = run == runs_.begin() ? 0 : std::prev(run)->end_id;
    found_position_ = position;
    return found_ = {run->kind, run->first + (id - first)};
}

}  // namespace sab
