#pragma once
/// Samples that share their first tokens: the leaves of a forest of nodes, each with its tokens.

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "sab/balance.h"

namespace sab {

/// A group with a prefix is a tree of depth one. Nodes are in preorder: each behind its parent, and
/// siblings in the order of the caller.
struct Forest {
    static constexpr uint32_t none = std::numeric_limits<uint32_t>::max();

    struct Node {
        uint32_t parent;  ///< `none` of a root
        uint32_t level;   ///< 1 of a root
        uint32_t tree;    ///< number of its root
        uint32_t sample;  ///< of a leaf; else `none`
        int64_t index;    ///< in sab_step_segment
        double begin;     ///< tokens of its samples before it
        double end;       ///< tokens of its samples up to its end
    };
    bool has_parents;  ///< else groups with a prefix
    std::vector<Node> nodes;
    std::vector<uint32_t> leaf_of;  ///< of each sample, its node
    std::vector<int64_t> indices;   ///< of each sample, that of the caller; ascending

    /// Of options.parents, or of options.prefix and the groups. Throws for what sab/balance.h says
    /// is refused. `sizes`: of the caller. `group_of`: of each sample.
    Forest(std::span<const double> sizes, const sab_step_plan_options& options,
           std::span<const uint32_t> group_of);

    /// The nodes of some samples, given by number: each once, in preorder.
    std::vector<uint32_t> nodes_of(std::span<const int64_t> samples);

private:
    /// A node before they are in preorder.
    struct Given {
        uint32_t parent;
        double tokens;
        int64_t index;
        bool is_sample;
    };
    static std::vector<Given> read_parents(std::span<const double> sizes, const int64_t* parents);
    static std::vector<Given> read_prefixes(std::span<const double> sizes,
                                            const sab_step_plan_options& options,
                                            std::span<const uint32_t> group_of);
    void put_in_preorder(std::span<const Given> given);

    std::vector<uint32_t> seen_;  ///< of each node, the call of nodes_of() that has found it
    uint32_t calls_ = 0;
};

/// The tokens that each micro-batch computes once. `offsets`: of its samples in `samples`, given by
/// number.
void list_segments(Forest& forest, std::span<const int64_t> samples,
                   std::span<const uint64_t> offsets, std::vector<sab_step_segment>& segments,
                   std::vector<uint64_t>& segment_offsets);

}  // namespace sab
