#pragma once
/// Leaves of trees that are taken one set after the other.

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <vector>

#include "balance/least_tree.h"
#include "balance/shared_items.h"

namespace sab {

/// The trees of some leaves, without the nodes that have one child. Their roots are the first
/// nodes. A choice costs time in proportion to the nodes that it chooses and to their depth.
class SharedBranches {
public:
    explicit SharedBranches(const SharedItems& items) : items_(&items) {}

    /// Of leaves in ascending order.
    void build(std::span<const uint32_t> leaves);
    uint32_t trees() const { return trees_; }
    /// Those that are not taken.
    std::size_t leaves_of(uint32_t node) const { return nodes_[node].leaves; }
    /// What they take in an empty micro-batch.
    Load load_of(uint32_t node) const;
    /// What the leaves of an inner node have in common.
    const double* value_of(uint32_t node) const {
        return &items_->shared[nodes_[node].leaf * items_->kinds];
    }

    /// Chooses of a tree what a micro-batch with a load has room for. It goes down to a node whose
    /// children fit an empty micro-batch, and chooses children that fit the room, of this node and
    /// then of those above it. Then it goes on below children that do not fit, but not where more
    /// than `share` of the cost of what is chosen there is for tokens that are computed again.
    /// Returns whether any leaves fit.
    bool choose(uint32_t root, const Load& load, const Load& limits, double share);
    /// Chooses all of a tree.
    void choose_all(uint32_t root) { chosen_.assign(1, root); }
    /// The load of the micro-batch with what choose() has chosen.
    const Load& sum() const { return sum_; }
    /// By how much the tree takes less without what is chosen.
    Load less() const;
    /// Takes what is chosen.
    void take();
    /// Visits the leaves of what is chosen.
    template <class Visit>
    void for_each_chosen(Visit&& visit) const {
        for (const uint32_t node : chosen_)
            for_each_leaf(node, [&](uint32_t at) { visit(nodes_[at].leaf); });
    }

private:
    static constexpr uint32_t none = Forest::none;

    /// Nodes are level by level, so the children of one are neighbours.
    struct Node {
        uint32_t parent;      ///< `none` of a root
        uint32_t first, end;  ///< children
        uint32_t leaf;        ///< itself; of an inner node one that shares it with the leaf before
        uint32_t leaves;      ///< below it that are not taken
    };
    /// By how much a node takes less, and has fewer leaves.
    struct Change {
        Load less{};
        uint32_t leaves = 0;
    };
    using Changes = std::map<uint32_t, Change, std::greater<>>;

    bool is_leaf(uint32_t node) const { return nodes_[node].first == nodes_[node].end; }
    template <class Visit>
    void for_each_leaf(uint32_t node, Visit&& visit) const {
        for (uint32_t first = node, end = node + 1; first < end;) {  // a level below it
            for (uint32_t at = first; at < end; ++at)
                if (is_leaf(at) && nodes_[at].leaves > 0) visit(at);
            first = nodes_[first].first;
            end = nodes_[end - 1].end;
        }
    }
    void find_loads();
    const double* value_above(uint32_t node) const;
    void add_to_parent(Changes& changes, uint32_t node, const Change& change) const;
    template <class Visit>
    Load lessen(Visit&& visit) const;
    bool choose_whole(uint32_t node, const double* above, const Load& limits);
    void choose_children(uint32_t node, const double* above, const Load& limits);
    bool choose_below(double share, const Load& limits);
    uint32_t too_large_child(uint32_t node, const Load& limits) const;

    const SharedItems* items_;
    uint32_t trees_ = 0;
    std::vector<Node> nodes_;
    LeastTree loads_;  ///< of each node; infinite where no leaves are left
    std::vector<uint32_t> chosen_;
    std::vector<uint32_t> path_;     ///< nodes whose tokens the choice has; ascending
    std::vector<uint32_t> skipped_;  ///< below which it may go on
    Load sum_{};
};

}  // namespace sab
