#include "balance/shared_filler.h"

#include <algorithm>
#include <iterator>
#include <numeric>

#include "base/progress.h"
#include "base/sorting.h"

namespace sab {
namespace {

constexpr std::size_t most_tries = 4;  // trees of which a part is looked at for each micro-batch
constexpr double rounding = 1e-9;      // of a micro-batch

}  // namespace

void TreesBySize::reset(std::span<const double> sizes) {
    count_ = sizes.size();
    cut_.clear();
    if (all_.size() != count_) {
        all_.resize(count_);
        for (uint32_t tree = 0; tree < count_; ++tree) all_[tree].second = tree;
    }
    for (Sized& each : all_) each.first = sizes[each.second];
    if (!std::ranges::is_sorted(all_)) std::ranges::sort(all_);  // mostly as in the fill before
    places_.resize(count_);
    for (uint32_t place = 0; place < count_; ++place) places_[all_[place].second] = place;
    ends_.resize(count_ + 1);
    std::iota(ends_.begin(), ends_.end(), 0u);
}

uint32_t TreesBySize::last_before(std::size_t end) {
    auto at = static_cast<uint32_t>(end);
    while (ends_[at] != at) at = ends_[at] = ends_[ends_[at]];
    return at;
}

TreesBySize::Sized TreesBySize::last(std::size_t end, Cut::const_iterator cut_end) {
    const uint32_t found = last_before(end);
    const bool has_cut = cut_end != cut_.begin();
    if (found == 0) return has_cut ? *std::prev(cut_end) : Sized{0, Forest::none};
    return has_cut ? std::max(all_[found - 1], *std::prev(cut_end)) : all_[found - 1];
}

TreesBySize::Sized TreesBySize::largest_up_to(double size) {
    const Sized most{size, 0};
    return last(static_cast<std::size_t>(std::ranges::upper_bound(all_, most) - all_.begin()),
                cut_.upper_bound(most));
}

void TreesBySize::erase(const Sized& tree) {
    --count_;
    uint32_t& place = places_[tree.second];
    if (place == Forest::none) {
        cut_.erase(tree);
        return;
    }
    ends_[place + 1] = place;
    place = Forest::none;
}

void TreesBySize::insert(const Sized& tree) {
    ++count_;
    cut_.insert(tree);
}

SharedFiller::SharedFiller(const SharedItems& items) : items_(items), all_(items), rests_(items) {
    std::vector<uint32_t> leaves(items.count);
    std::iota(leaves.begin(), leaves.end(), 0u);
    all_.build(leaves);
    sizes_.resize(all_.trees());
    std::vector<double> paths;  // what the leaves of each tree have in common
    paths.reserve(all_.trees());
    for (uint32_t tree = 0; tree < all_.trees(); ++tree)
        paths.push_back(all_.leaves_of(tree) > 1 ? all_.value_of(tree)[0] : 0);
    by_path_ = by_ascending(paths);
    std::erase_if(by_path_, [&](uint32_t tree) { return all_.leaves_of(tree) < 2; });
}

/// The largest share of a limit.
double SharedFiller::size_of(const Load& load) const {
    double size = 0;
    for (std::size_t k = 0; k < items_.kinds; ++k) size = std::max(size, load[k] / limits_[k]);
    return size;
}

/// The least share of a limit that a micro-batch has free.
double SharedFiller::room_of(const Load& load) const {
    double room = 1;
    for (std::size_t k = 0; k < items_.kinds; ++k) room = std::min(room, 1 - load[k] / limits_[k]);
    return room;
}

bool SharedFiller::fits(const Load& load) const {
    for (std::size_t k = 0; k < items_.kinds; ++k)
        if (load[k] > limits_[k]) return false;
    return true;
}

std::size_t SharedFiller::fill(const Load& limits, const Cutting& cutting, std::size_t most,
                               std::span<uint32_t> part_of) {
    limits_ = limits;
    cutting_ = cutting;
    part_of_ = part_of;
    left_ = items_.count;
    rests_ = all_;
    open_ = by_path_;
    for (uint32_t tree = 0; tree < sizes_.size(); ++tree)
        sizes_[tree] = size_of(all_.load_of(tree));
    by_size_.reset(sizes_);
    for (uint32_t part = 0; part < most; ++part) {
        if (part % 64 == 0) report_progress(items_.count - left_, items_.count);
        if (!fill_part(part)) return 0;
        if (by_size_.is_empty()) return part + 1;
    }
    return 0;
}

/// False when no leaf fits.
bool SharedFiller::fill_part(uint32_t part) {
    Load load{};
    bool is_empty = true;
    for (bool may_cut = true; !by_size_.is_empty(); is_empty = false) {
        const uint32_t tree = by_size_.largest_up_to(room_of(load) + rounding).second;
        const bool is_too_large = is_empty && by_size_.largest().first > 1 + rounding;
        if (tree != Forest::none && !is_too_large && take_whole(tree, load, part)) continue;
        if (!may_cut || !take_some(load, is_empty, part)) break;
        may_cut = false;
    }
    return !is_empty;
}

bool SharedFiller::take_whole(uint32_t tree, Load& load, uint32_t part) {
    Load sum = load;
    const Load more = rests_.load_of(tree);
    for (std::size_t k = 0; k < items_.kinds; ++k) sum[k] += more[k];
    if (!fits(sum)) return false;
    load = sum;
    rests_.choose_all(tree);
    write_chosen(part);
    by_size_.erase({sizes_[tree], tree});
    return true;
}

/// Of an empty micro-batch the largest tree, which it does not hold. Otherwise of several with
/// little in common the one that uses most room, without what the others compute again.
bool SharedFiller::take_some(Load& load, bool is_empty, uint32_t part) {
    if (is_empty) {
        const uint32_t largest = by_size_.largest().second;
        if (!rests_.choose(largest, load, limits_, cutting_.share)) return false;
        take_chosen(largest, load, part);
        return true;
    }
    if (room_of(load) <= cutting_.waste) return false;
    double most = std::max(cutting_.waste, rounding);
    uint32_t best = Forest::none, last = Forest::none;
    std::size_t tries = 0, looked = 0, kept = 0;
    for (; looked < open_.size() && tries < most_tries; ++looked) {
        const uint32_t tree = open_[looked];
        if (rests_.leaves_of(tree) < 2) continue;  // not looked at again
        open_[kept++] = tree;
        ++tries;
        last = tree;
        if (!rests_.choose(tree, load, limits_, cutting_.share)) continue;
        const double used = size_of(rests_.less());
        if (used <= most) continue;
        most = used;
        best = tree;
    }
    open_.erase(open_.begin() + static_cast<std::ptrdiff_t>(kept),
                open_.begin() + static_cast<std::ptrdiff_t>(looked));
    if (best == Forest::none) return false;
    if (best != last) rests_.choose(best, load, limits_, cutting_.share);
    take_chosen(best, load, part);
    return true;
}

void SharedFiller::take_chosen(uint32_t tree, Load& load, uint32_t part) {
    by_size_.erase({sizes_[tree], tree});
    load = rests_.sum();
    write_chosen(part);
    if (rests_.leaves_of(tree) == 0) return;
    sizes_[tree] = size_of(rests_.load_of(tree));
    by_size_.insert({sizes_[tree], tree});
}

}  // namespace sab
