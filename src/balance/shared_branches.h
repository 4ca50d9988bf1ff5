#pragma once
/// Leaves of trees that are taken one set after the other.

#include <cstdint>
#include <span>
#include <vector>

#include "balance/shared_items.h"

namespace sab {

/// The trees of some leaves, without the nodes that have one child. A choice costs time in
/// proportion to the children on the way that it takes down a tree.
class SharedBranches {
public:
    /// A share of the cost of a part of a tree.
    static constexpr double most_again = 0.1;

    explicit SharedBranches(const SharedItems& items) : items_(&items) {}

    /// Of leaves in ascending order.
    void build(std::span<const uint32_t> leaves);
    /// A node of each tree.
    std::span<const uint32_t> roots() const { return roots_; }
    /// Those that are not taken.
    std::size_t leaves_of(uint32_t node) const { return nodes_[node].leaves; }
    /// What they take in an empty micro-batch.
    Load load_of(uint32_t node) const;
    /// What the leaves of an inner node have in common.
    const double* value_of(uint32_t node) const;

    /// Chooses of a tree what a micro-batch with a load has room for: of a node whose leaves do not
    /// all fit, the children that fit as a whole, and then a part of the first that does not. But
    /// no such part of whose cost more than `share` is for tokens that are computed
    /// again. Returns whether any leaves fit.
    bool choose(uint32_t root, const Load& load, const Load& limits, double share);
    /// The load of the micro-batch with what is chosen.
    const Load& sum() const { return sum_; }
    /// By how much the tree takes less without what is chosen.
    Load less() const;
    /// Takes what is chosen.
    void take();
    /// Takes all leaves of a tree.
    void take_all(uint32_t root) { nodes_[root].leaves = 0; }

    /// Nodes whose leaves are chosen.
    const std::vector<uint32_t>& chosen() const { return chosen_; }
    /// The leaves of a node that are not taken, in ascending order.
    template <class Visit>
    void for_each_leaf(uint32_t node, Visit&& visit) const {
        for (int64_t at = node, first = nodes_[node].first; at >= first;) {
            const Node& each = nodes_[static_cast<std::size_t>(at)];
            if (each.leaves > 0 && each.first == at) visit(each.leaf);
            at = each.leaves > 0 ? at - 1 : int64_t{each.first} - 1;
        }
    }

private:
    static constexpr uint32_t none = Forest::none;

    /// Nodes are in the reverse of a preorder: those below one are directly before it, the first
    /// child last.
    struct Node {
        uint32_t first;   ///< node below it
        uint32_t leaf;    ///< itself; of an inner node one that shares it with the leaf before
        uint32_t parent;  ///< `none` of a root
        uint32_t leaves;  ///< below it that are not taken
        uint32_t child;   ///< the first that may have some
        uint32_t next;    ///< likewise of the siblings behind it
    };
    /// A node whose first children are not yet known.
    struct Open {
        uint32_t level, first, leaf;
    };

    bool is_leaf(uint32_t node) const { return nodes_[node].first == node; }
    void add_leaf(uint32_t leaf);
    void close(const Open& open);
    bool choose_node(uint32_t node, const Load& above, const Load& limits);
    uint32_t choose_children(uint32_t node, Load above, const Load& limits);
    template <class Visit>
    Load lessen(Visit&& visit) const;

    const SharedItems* items_;
    std::vector<Node> nodes_;
    std::vector<double> loads_;  ///< of each node, for each kind
    std::vector<uint32_t> roots_, chosen_;
    std::vector<Open> open_;
    Load sum_{};
};

}  // namespace sab
