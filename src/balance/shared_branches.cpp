#include "balance/shared_branches.h"

#include <algorithm>

namespace sab {

void SharedBranches::build(std::span<const uint32_t> leaves) {
    nodes_.clear();
    loads_.clear();
    roots_.clear();
    open_.clear();
    for (std::size_t i = leaves.size(); i-- > 0;) {
        const uint32_t leaf = leaves[i];
        auto first = static_cast<uint32_t>(nodes_.size());
        add_leaf(leaf);
        uint32_t least = none, level = 0;  // of what it shares with the leaf before
        if (i > 0 && items_->tree[leaves[i - 1]] == items_->tree[leaf]) {
            least = items_->least_shared(leaves[i - 1], leaf);
            level = items_->levels[least];
        }
        for (; !open_.empty() && open_.back().level > level; open_.pop_back()) {
            close(open_.back());
            first = open_.back().first;
        }
        if (level == 0)
            roots_.push_back(static_cast<uint32_t>(nodes_.size() - 1));
        else if (open_.empty() || open_.back().level < level)
            open_.push_back({level, first, least});
    }
    std::ranges::reverse(roots_);
}

void SharedBranches::add_leaf(uint32_t leaf) {
    const auto node = static_cast<uint32_t>(nodes_.size());
    nodes_.push_back({node, leaf, none, 1, none, none});
    for (std::size_t k = 0; k < items_->kinds; ++k)
        loads_.push_back(items_->alone[leaf * items_->kinds + k]);
}

/// Its children are all there.
void SharedBranches::close(const Open& open) {
    const auto node = static_cast<uint32_t>(nodes_.size());
    const double* const value = &items_->shared[open.leaf * items_->kinds];
    Load load{};
    uint32_t leaves = 0;
    for (uint32_t child = node - 1; child != none;) {
        Node& below = nodes_[child];
        for (std::size_t k = 0; k < items_->kinds; ++k)
            load[k] += loads_[child * items_->kinds + k] - (leaves == 0 ? 0 : value[k]);
        leaves += below.leaves;
        below.parent = node;
        below.next = below.first > open.first ? below.first - 1 : none;
        child = below.next;
    }
    nodes_.push_back({open.first, open.leaf, none, leaves, node - 1, none});
    for (std::size_t k = 0; k < items_->kinds; ++k) loads_.push_back(load[k]);
}

Load SharedBranches::load_of(uint32_t node) const {
    Load load{};
    for (std::size_t k = 0; k < items_->kinds; ++k) load[k] = loads_[node * items_->kinds + k];
    return load;
}

const double* SharedBranches::value_of(uint32_t node) const {
    return &items_->shared[nodes_[node].leaf * items_->kinds];
}

/// `above`: what is already taken of the tokens above it.
bool SharedBranches::choose_node(uint32_t node, const Load& above, const Load& limits) {
    const double* const own = &loads_[node * items_->kinds];
    for (std::size_t k = 0; k < items_->kinds; ++k)
        if (sum_[k] + (own[k] - above[k]) > limits[k]) return false;
    for (std::size_t k = 0; k < items_->kinds; ++k) sum_[k] += own[k] - above[k];
    chosen_.push_back(node);
    return true;
}

/// Returns the first child that does not fit.
uint32_t SharedBranches::choose_children(uint32_t node, Load above, const Load& limits) {
    const double* const value = value_of(node);
    uint32_t next = none;
    for (uint32_t* at = &nodes_[node].child; *at != none;) {
        const uint32_t child = *at;
        if (nodes_[child].leaves == 0) {
            *at = nodes_[child].next;  // not looked at again
            continue;
        }
        if (choose_node(child, above, limits))
            std::copy_n(value, items_->kinds, above.begin());
        else if (next == none)
            next = child;
        at = &nodes_[child].next;
    }
    return next;
}

bool SharedBranches::choose(uint32_t root, const Load& load, const Load& limits, double share) {
    chosen_.clear();
    sum_ = load;
    Load above{};
    for (uint32_t node = root; !choose_node(node, above, limits) && !is_leaf(node);) {
        const Load before = sum_;
        const std::size_t count = chosen_.size();
        const uint32_t next = choose_children(node, above, limits);
        if (chosen_.size() > count) {
            const double* const value = value_of(node);
            if (count > 0 && value[0] - above[0] > share * (sum_[0] - before[0])) {
                chosen_.resize(count);
                sum_ = before;
                break;
            }
            std::copy_n(value, items_->kinds, above.begin());
        }
        if (next == none) break;
        node = next;
    }
    return !chosen_.empty();
}

/// Visits the nodes above what is chosen, upwards, with what each then takes less and how many
/// leaves less it has. Returns the former of the root.
template <class Visit>
Load SharedBranches::lessen(Visit&& visit) const {
    Load less{};
    uint32_t leaves = 0, gone = none;  // `gone`: the node below, if it has no more leaves
    std::size_t left = chosen_.size();
    uint32_t at = nodes_[chosen_.back()].parent;
    if (at == none) return load_of(chosen_.back());
    for (; at != none; at = nodes_[at].parent) {
        const double* const value = value_of(at);
        const auto remove = [&](uint32_t node) {
            for (std::size_t k = 0; k < items_->kinds; ++k)
                less[k] += loads_[node * items_->kinds + k] - value[k];
        };
        if (gone != none) {
            less = {};
            remove(gone);
        }
        for (; left > 0 && nodes_[chosen_[left - 1]].parent == at; --left) {
            remove(chosen_[left - 1]);
            leaves += nodes_[chosen_[left - 1]].leaves;
        }
        gone = leaves == nodes_[at].leaves ? at : none;
        if (gone != none) less = load_of(at);
        visit(at, less, leaves);
    }
    return less;
}

Load SharedBranches::less() const {
    return lessen([](uint32_t, const Load&, uint32_t) {});
}

void SharedBranches::take() {
    lessen([this](uint32_t node, const Load& less, uint32_t leaves) {
        nodes_[node].leaves -= leaves;
        if (nodes_[node].leaves == 0) return;
        for (std::size_t k = 0; k < items_->kinds; ++k) loads_[node * items_->kinds + k] -= less[k];
    });
    for (const uint32_t node : chosen_) nodes_[node].leaves = 0;
}

}  // namespace sab
