#include "balance/shared_filler.h"

#include <algorithm>
#include <iterator>

#include "base/progress.h"
#include "base/sorting.h"

namespace sab {
namespace {

constexpr std::size_t most_tries = 4;  // trees of which a part is looked at for each micro-batch
constexpr double rounding = 1e-9;      // of a micro-batch

}  // namespace

SharedFiller::SharedFiller(const SharedItems& items) : items_(items) {
    std::vector<double> paths;  // what the leaves of each tree have in common
    for (uint32_t leaf = 0; leaf < items.count; ++leaf) {
        if (leaf == 0 || items.tree[leaf] != items.tree[leaf - 1]) {
            all_.emplace_back();
            paths.push_back(0);
        } else {
            const double shared = items.shared[leaf * items.kinds];
            paths.back() = all_.back().leaves.size() == 1 ? shared : std::min(paths.back(), shared);
        }
        all_.back().leaves.push_back(leaf);
    }
    for (Rest& rest : all_) measure(rest);
    by_path_ = by_ascending(paths);
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

std::size_t SharedFiller::fill(const Load& limits, double waste, std::size_t most,
                               std::span<uint32_t> part_of) {
    report_progress(0, items_.count);  // so that a caller can stop
    limits_ = limits;
    waste_ = waste;
    part_of_ = part_of;
    rests_ = all_;
    open_ = by_path_;
    by_size_.clear();
    for (uint32_t tree = 0; tree < rests_.size(); ++tree) {
        rests_[tree].size = size_of(rests_[tree].load);
        by_size_.insert({rests_[tree].size, tree});
    }
    for (uint32_t part = 0; part < most; ++part) {
        if (!fill_part(part)) return 0;
        if (by_size_.empty()) return part + 1;
    }
    return 0;
}

/// False when no leaf fits.
bool SharedFiller::fill_part(uint32_t part) {
    Load load{};
    bool is_empty = true;
    for (bool may_cut = true; !by_size_.empty(); is_empty = false) {
        const auto above = by_size_.upper_bound({room_of(load) + rounding, 0});
        const bool is_too_large = is_empty && by_size_.rbegin()->first > 1 + rounding;
        if (above != by_size_.begin() && !is_too_large &&
            take_whole(std::prev(above)->second, load, part))
            continue;
        if (!may_cut || !take_some(load, is_empty, part)) break;
        may_cut = false;
    }
    return !is_empty;
}

bool SharedFiller::take_whole(uint32_t tree, Load& load, uint32_t part) {
    const Rest& rest = rests_[tree];
    Load sum = load;
    for (std::size_t k = 0; k < items_.kinds; ++k) sum[k] += rest.load[k];
    if (!fits(sum)) return false;
    load = sum;
    for (const uint32_t leaf : rest.leaves) part_of_[leaf] = part;
    by_size_.erase({rest.size, tree});
    return true;
}

/// Of an empty micro-batch the largest tree, which it does not hold. Otherwise of several with
/// little in common the one that uses most room.
bool SharedFiller::take_some(Load& load, bool is_empty, uint32_t part) {
    if (is_empty) {
        const uint32_t largest = by_size_.rbegin()->second;
        choose(rests_[largest], load);
        if (!chosen_.empty()) take_chosen(largest, load, part);
        return !chosen_.empty();
    }
    if (room_of(load) <= waste_) return false;
    double most = std::max(waste_, rounding);
    uint32_t best_tree = Forest::none;
    std::size_t tries = 0, looked = 0, kept = 0;
    for (; looked < open_.size() && tries < most_tries; ++looked) {
        const uint32_t tree = open_[looked];
        const Rest& rest = rests_[tree];
        if (!by_size_.contains({rest.size, tree})) continue;  // not looked at again
        open_[kept++] = tree;
        if (rest.leaves.size() < 2) continue;
        ++tries;
        choose(rest, load);
        const double used = used_room(rest);
        if (used <= most) continue;
        most = used;
        best_tree = tree;
        best_ = chosen_;
    }
    open_.erase(open_.begin() + static_cast<std::ptrdiff_t>(kept),
                open_.begin() + static_cast<std::ptrdiff_t>(looked));
    if (best_tree == Forest::none) return false;
    chosen_ = best_;
    take_chosen(best_tree, load, part);
    return true;
}

/// What fits of a tree: of a node whose leaves do not all fit, the children that fit as a whole,
/// and then a part of the first that does not.
void SharedFiller::choose(const Rest& rest, const Load& load) {
    chosen_.clear();
    Load sum = load, above{};  // what is already taken of the tokens above the leaves in question
    const auto take = [&](Range range) {
        const Load own = load_of(rest, range);
        Load next = sum;
        for (std::size_t k = 0; k < items_.kinds; ++k) next[k] += own[k] - above[k];
        if (!fits(next)) return false;
        sum = next;
        const auto begin = rest.leaves.begin();
        chosen_.insert(chosen_.end(), begin + static_cast<std::ptrdiff_t>(range.first),
                       begin + static_cast<std::ptrdiff_t>(range.end));
        return true;
    };
    for (Range node{0, rest.leaves.size()}; !take(node) && node.end - node.first > 1;) {
        const auto levels = rest.levels.begin();
        const auto least = std::min_element(levels + static_cast<std::ptrdiff_t>(node.first) + 1,
                                            levels + static_cast<std::ptrdiff_t>(node.end));
        const double* const own =
            &items_.shared[rest.least[static_cast<std::size_t>(least - levels)] * items_.kinds];
        Range next{0, 0};
        for (Range child{node.first, node.first}; child.end < node.end; child.first = child.end) {
            do ++child.end;
            while (child.end < node.end && rest.levels[child.end] > *least);
            if (take(child))
                std::copy_n(own, items_.kinds, above.begin());
            else if (next.end == 0)
                next = child;
        }
        if (next.end == 0) break;
        node = next;
    }
    std::ranges::sort(chosen_);
}

std::span<const uint32_t> SharedFiller::choose_some(std::span<const uint32_t> leaves,
                                                    const Load& load, const Load& limits) {
    limits_ = limits;
    some_.leaves.assign(leaves.begin(), leaves.end());
    measure(some_);
    choose(some_, load);
    return chosen_;
}

/// By the chosen leaves, without what the others compute again.
double SharedFiller::used_room(const Rest& rest) {
    list_others(rest);
    Load used = rest.load;  // less what is left
    const Load left = items_.load_of(others_);
    for (std::size_t k = 0; k < items_.kinds; ++k) used[k] -= left[k];
    return size_of(used);
}

/// What some leaves of a tree take in an empty micro-batch.
Load SharedFiller::load_of(const Rest& rest, Range range) const {
    Load load{};
    items_.add_first(load, rest.leaves[range.first]);
    for (std::size_t i = range.first + 1; i < range.end; ++i)
        items_.add_more(load, rest.least[i], rest.leaves[i]);
    return load;
}

void SharedFiller::measure(Rest& rest) const {
    rest.least.assign(1, rest.leaves[0]);
    rest.levels.assign(1, 0);
    for (std::size_t i = 1; i < rest.leaves.size(); ++i) {
        rest.least.push_back(items_.least_shared(rest.leaves[i - 1], rest.leaves[i]));
        rest.levels.push_back(items_.levels[rest.least[i]]);
    }
    rest.load = load_of(rest, {0, rest.leaves.size()});
}

void SharedFiller::list_others(const Rest& rest) {
    others_.clear();
    std::ranges::set_difference(rest.leaves, chosen_, std::back_inserter(others_));
}

void SharedFiller::take_chosen(uint32_t tree, Load& load, uint32_t part) {
    Rest& rest = rests_[tree];
    by_size_.erase({rest.size, tree});
    const Load taken = items_.load_of(chosen_);
    for (std::size_t k = 0; k < items_.kinds; ++k) load[k] += taken[k];
    for (const uint32_t leaf : chosen_) part_of_[leaf] = part;
    list_others(rest);
    rest.leaves = others_;
    if (rest.leaves.empty()) return;
    measure(rest);
    rest.size = size_of(rest.load);
    by_size_.insert({rest.size, tree});
}

}  // namespace sab
