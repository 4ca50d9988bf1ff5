#include "balance/shared_branches.h"

#include <algorithm>
#include <limits>

namespace sab {
namespace {

constexpr std::size_t most_looked = 8;  // children that do not fit
constexpr double nothing[SAB_MAX_BUDGETS + 1] = {};
constexpr double largest_number = std::numeric_limits<double>::max();

/// Of LeastTree: what is not taken.
Load anything() {
    Load limits;
    limits.fill(largest_number);
    return limits;
}

/// A node of which the first child is known.
struct Found {
    uint32_t level, leaf, first, next;  // `first` child, `next` sibling; ~0u: none
};

}  // namespace

void SharedBranches::build(std::span<const uint32_t> leaves) {
    std::vector<Found> found;
    std::vector<uint32_t> open;  // nodes that may get more children; first of all that of the trees
    found.push_back({0, 0, none, none});
    open.push_back(0);
    for (std::size_t i = leaves.size(); i-- > 0;) {
        const uint32_t leaf = leaves[i];
        auto node = static_cast<uint32_t>(found.size());
        found.push_back({none, leaf, none, none});
        uint32_t least = none, level = 0;  // of what it shares with the leaf before
        if (i > 0 && items_->tree[leaves[i - 1]] == items_->tree[leaf]) {
            least = items_->least_shared(leaves[i - 1], leaf);
            level = items_->levels[least];
        }
        const auto put_below = [&](uint32_t parent) {
            found[node].next = found[parent].first;
            found[parent].first = node;
        };
        for (; found[open.back()].level > level; open.pop_back()) {
            put_below(open.back());
            node = open.back();
        }
        if (found[open.back()].level < level) {
            open.push_back(static_cast<uint32_t>(found.size()));
            found.push_back({level, least, none, none});
        }
        put_below(open.back());
    }
    nodes_.clear();
    std::vector<uint32_t> own;  // of each node, that of `found`
    const auto add_children = [&](uint32_t parent, uint32_t of) {
        for (uint32_t at = found[of].first; at != none; at = found[at].next) {
            nodes_.push_back({parent, 0, 0, found[at].leaf, 0});
            own.push_back(at);
        }
        return static_cast<uint32_t>(nodes_.size());
    };
    trees_ = add_children(none, 0);
    for (uint32_t node = 0; node < nodes_.size(); ++node) {
        const auto first = static_cast<uint32_t>(nodes_.size());
        const uint32_t end = add_children(node, own[node]);
        nodes_[node].first = first;
        nodes_[node].end = end;
    }
    find_loads();
}

void SharedBranches::find_loads() {
    const std::size_t kinds = items_->kinds;
    loads_.reset(nodes_.size(), kinds, [&](std::size_t at, std::span<double> load) {
        const auto node = static_cast<uint32_t>(at);
        if (is_leaf(node)) {
            nodes_[node].leaves = 1;
            std::copy_n(&items_->alone[nodes_[node].leaf * kinds], kinds, load.begin());
            return;
        }
        const double* const value = value_of(node);
        std::copy_n(value, kinds, load.begin());
        for (uint32_t child = nodes_[node].first; child < nodes_[node].end; ++child) {
            nodes_[node].leaves += nodes_[child].leaves;
            for (std::size_t k = 0; k < kinds; ++k) load[k] += loads_[child][k] - value[k];
        }
    });
}

Load SharedBranches::load_of(uint32_t node) const {
    Load load{};
    std::ranges::copy(loads_[node], load.begin());
    return load;
}

/// `above`: what is already taken of the tokens above it.
bool SharedBranches::choose_whole(uint32_t node, const double* above, const Load& limits) {
    const std::span<const double> own = loads_[node];
    for (std::size_t k = 0; k < items_->kinds; ++k)
        if (sum_[k] + (own[k] - above[k]) > limits[k]) return false;
    for (std::size_t k = 0; k < items_->kinds; ++k) sum_[k] += own[k] - above[k];
    chosen_.push_back(node);
    return true;
}

/// Those that fit. The first that do not are skipped.
void SharedBranches::choose_children(uint32_t node, const double* above, const Load& limits) {
    const Load any = anything();
    const std::size_t end = nodes_[node].end;
    std::size_t looked = 0;
    for (std::size_t at = nodes_[node].first; at < end; ++at) {
        Load room;
        for (std::size_t k = 0; k < items_->kinds; ++k)
            room[k] = std::min(limits[k] - sum_[k] + above[k], largest_number);
        const std::size_t fitting = loads_.first(at, end, room.data());
        for (; looked < most_looked; ++looked, ++at) {
            at = loads_.first(at, fitting, any.data());
            if (at == fitting) break;
            if (!is_leaf(static_cast<uint32_t>(at))) skipped_.push_back(static_cast<uint32_t>(at));
        }
        at = fitting;
        if (at < end && choose_whole(static_cast<uint32_t>(at), above, limits))
            above = value_of(node);
    }
}

/// The first child that no micro-batch holds.
uint32_t SharedBranches::too_large_child(uint32_t node, const Load& limits) const {
    const Load any = anything();
    std::size_t at = nodes_[node].first;
    for (std::size_t looked = 0; looked < most_looked; ++looked, ++at) {
        at = loads_.first(at, nodes_[node].end, any.data());
        if (at == nodes_[node].end) break;
        const auto child = static_cast<uint32_t>(at);
        for (std::size_t k = 0; k < items_->kinds && !is_leaf(child); ++k)
            if (loads_[child][k] > limits[k]) return child;
    }
    return none;
}

/// What the choice has of the tokens above a node.
const double* SharedBranches::value_above(uint32_t node) const {
    for (uint32_t at = nodes_[node].parent; at != none; at = nodes_[at].parent)
        if (std::ranges::binary_search(path_, at)) return value_of(at);
    return nothing;
}

/// Below the skipped node that computes least again. False when nothing more is to be chosen.
bool SharedBranches::choose_below(double share, const Load& limits) {
    if (skipped_.empty()) return false;
    const auto again = [&](uint32_t node) { return value_of(node)[0] - value_above(node)[0]; };
    const uint32_t node = *std::ranges::min_element(skipped_, {}, again);
    const double more = again(node);
    const Load before = sum_;
    const std::size_t count = chosen_.size();
    skipped_.clear();
    choose_children(node, value_above(node), limits);
    if (chosen_.size() == count) return true;
    if (count > 0 && more > share * (sum_[0] - before[0])) {
        chosen_.resize(count);
        sum_ = before;
        return false;
    }
    path_.assign(1, node);
    return true;
}

bool SharedBranches::choose(uint32_t root, const Load& load, const Load& limits, double share) {
    chosen_.clear();
    skipped_.clear();
    sum_ = load;
    if (choose_whole(root, nothing, limits) || is_leaf(root)) return !chosen_.empty();
    path_.assign(1, root);
    for (uint32_t at = root; (at = too_large_child(at, limits)) != none;) path_.push_back(at);
    for (std::size_t i = path_.size(), below = none; i-- > 0; below = path_[i]) {
        choose_children(path_[i], chosen_.empty() ? nothing : value_of(path_[i]), limits);
        std::erase(skipped_, below);
        if (chosen_.empty()) path_.pop_back();
    }
    while (choose_below(share, limits)) {
    }
    return !chosen_.empty();
}

void SharedBranches::add_to_parent(Changes& changes, uint32_t node, const Change& change) const {
    const uint32_t parent = nodes_[node].parent;
    if (parent == none) return;
    Change& sum = changes[parent];
    const bool is_gone = change.leaves == nodes_[node].leaves;
    for (std::size_t k = 0; k < items_->kinds; ++k)
        sum.less[k] += is_gone ? loads_[node][k] - value_of(parent)[k] : change.less[k];
    sum.leaves += change.leaves;
}

/// Visits the nodes above what is chosen, upwards, with their changes. Returns what the tree takes
/// less.
template <class Visit>
Load SharedBranches::lessen(Visit&& visit) const {
    Changes changes;
    for (const uint32_t node : chosen_) add_to_parent(changes, node, {{}, nodes_[node].leaves});
    if (changes.empty()) return load_of(chosen_.back());
    while (true) {
        const auto [node, change] = *changes.begin();
        changes.erase(changes.begin());
        add_to_parent(changes, node, change);
        const Load less = change.leaves == nodes_[node].leaves ? load_of(node) : change.less;
        visit(node, change);
        if (nodes_[node].parent == none) return less;
    }
}

Load SharedBranches::less() const {
    return lessen([](uint32_t, const Change&) {});
}

void SharedBranches::take() {
    const auto take_all_of = [this](uint32_t node) {
        nodes_[node].leaves = 0;
        loads_.change(node,
                      [](std::span<double> load) { std::ranges::fill(load, LeastTree::infinity); });
    };
    lessen([&](uint32_t node, const Change& change) {
        if (change.leaves == nodes_[node].leaves) return take_all_of(node);
        nodes_[node].leaves -= change.leaves;
        loads_.change(node, [&](std::span<double> load) {
            for (std::size_t k = 0; k < load.size(); ++k) load[k] -= change.less[k];
        });
    });
    for (const uint32_t node : chosen_) {
        for_each_leaf(node, [this](uint32_t at) { nodes_[at].leaves = 0; });
        take_all_of(node);
    }
}

}  // namespace sab
