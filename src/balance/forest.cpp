#include "balance/forest.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/sorting.h"

namespace sab {
namespace {

constexpr double most_tokens = 9007199254740992;  // of a sample: sums of fewer are exact

void check_tokens(std::span<const double> sizes, std::string_view option) {
    for (std::size_t i = 0; i < sizes.size(); ++i)
        if (sizes[i] != std::floor(sizes[i]))
            refuse_argument(named("sizes[", i, "]"), sizes[i], "must be a whole number with ",
                            option);
}

}  // namespace

std::vector<Forest::Given> Forest::read_parents(std::span<const double> sizes,
                                                const int64_t* parents) {
    check_tokens(sizes, "options.parents");
    std::vector<Given> given;
    given.reserve(sizes.size());
    for (std::size_t i = 0; i < sizes.size(); ++i) {
        const bool is_node = parents[i] >= 0 && static_cast<uint64_t>(parents[i]) < sizes.size();
        if (parents[i] != -1 && !is_node)
            refuse_argument(named("options.parents[", i, "]"), parents[i],
                            "must be -1, or below the number of nodes, ", sizes.size());
        given.push_back({is_node ? static_cast<uint32_t>(parents[i]) : none, sizes[i],
                         static_cast<int64_t>(i), true});
    }
    for (const int64_t parent : std::span(parents, sizes.size()))
        if (parent >= 0) given[static_cast<std::size_t>(parent)].is_sample = false;
    return given;
}

std::vector<Forest::Given> Forest::read_prefixes(std::span<const double> sizes,
                                                 const sab_step_plan_options& options,
                                                 std::span<const uint32_t> group_of) {
    check_tokens(sizes, "options.prefix");
    struct Group {
        std::size_t first = 0;
        uint32_t node = none;
        bool is_known = false;
    };
    std::vector<Group> groups(sizes.size());
    std::vector<Given> given;
    given.reserve(sizes.size() * 2);
    for (std::size_t i = 0; i < sizes.size(); ++i) {
        const int64_t prefix = options.prefix[i];
        const auto tokens = static_cast<double>(prefix);
        if (!(prefix >= 0 && tokens <= sizes[i]))
            refuse_argument(named("options.prefix[", i, "]"), prefix,
                            "must be from 0 to the size of the sample, ", sizes[i]);
        Group& group = groups[group_of[i]];
        if (group.is_known && prefix != options.prefix[group.first])
            refuse_argument(named("options.prefix[", i, "]"), prefix, "must be ",
                            options.prefix[group.first], ", that of sample ", group.first,
                            " of the same group");
        if (!group.is_known) {
            group = {i, none, true};
            if (prefix > 0) {
                group.node = static_cast<uint32_t>(given.size());
                given.push_back({none, tokens, -1, false});
            }
        }
        given.push_back({group.node, sizes[i] - tokens, static_cast<int64_t>(i), true});
    }
    return given;
}

void Forest::put_in_preorder(std::span<const Given> given) {
    const std::size_t count = given.size();  // stands for the parent of roots
    std::vector<uint32_t> open, place(count), children(count), begins;
    group_items(
        count, count + 1, begins,
        [&](std::size_t node) { return std::min<std::size_t>(given[node].parent, count); },
        [&](std::size_t node, uint32_t at) { children[at] = static_cast<uint32_t>(node); });
    const auto add_children = [&](std::size_t of) {
        for (std::size_t i = begins[of + 1]; i-- > begins[of];) open.push_back(children[i]);
    };
    nodes.reserve(given.size());
    uint32_t trees = 0;
    for (add_children(count); !open.empty();) {
        const uint32_t at = open.back();
        open.pop_back();
        const Given& each = given[at];
        place[at] = static_cast<uint32_t>(nodes.size());
        Node node{none, 1, 0, none, each.index, 0, each.tokens};
        if (each.parent != none) {
            node.parent = place[each.parent];
            const Node& parent = nodes[node.parent];
            node.level = parent.level + 1;
            node.tree = parent.tree;
            node.begin = parent.end;
            node.end = parent.end + each.tokens;
        } else {
            node.tree = trees++;
        }
        if (node.end > most_tokens)
            refuse_argument(named("sizes[", each.index, "]"), each.tokens,
                            "a sample must have at most 2^53 tokens");
        nodes.push_back(node);
        add_children(at);
    }
    for (std::size_t at = 0; at < given.size(); ++at) {
        if (!given[at].is_sample) continue;
        nodes[place[at]].sample = static_cast<uint32_t>(leaf_of.size());
        leaf_of.push_back(place[at]);
        indices.push_back(given[at].index);
    }
}

Forest::Forest(std::span<const double> sizes, const sab_step_plan_options& options,
               std::span<const uint32_t> group_of)
    : has_parents(options.parents != nullptr) {
    const std::vector<Given> given = has_parents ? read_parents(sizes, options.parents)
                                                 : read_prefixes(sizes, options, group_of);
    put_in_preorder(given);
    seen_.resize(nodes.size());
    if (nodes.size() == given.size()) return;
    // What no root leads to is a cycle, or below one.
    std::vector<bool> is_reached(given.size());
    for (const Node& node : nodes) is_reached[static_cast<std::size_t>(node.index)] = true;
    std::size_t node = 0;
    while (is_reached[node]) ++node;
    for (std::size_t steps = 0; steps < given.size(); ++steps) node = given[node].parent;
    refuse_argument(named("options.parents[", node, "]"), options.parents[node],
                    "its node must not be above itself");
}

std::vector<uint32_t> Forest::nodes_of(std::span<const int64_t> samples) {
    std::vector<uint32_t> found;
    ++calls_;
    for (const int64_t sample : samples)
        for (uint32_t node = leaf_of[static_cast<std::size_t>(sample)];
             node != none && seen_[node] != calls_; node = nodes[node].parent) {
            seen_[node] = calls_;
            found.push_back(node);
        }
    std::ranges::sort(found);
    return found;
}

void list_segments(Forest& forest, std::span<const int64_t> samples,
                   std::span<const uint64_t> offsets, std::vector<sab_step_segment>& segments,
                   std::vector<uint64_t>& segment_offsets) {
    std::vector<int64_t> place(forest.nodes.size());
    segment_offsets.assign(1, 0);
    for (std::size_t part = 0; part + 1 < offsets.size(); ++part) {
        const std::size_t first = segments.size();
        int64_t offset = 0;
        for (const uint32_t at :
             forest.nodes_of(samples.subspan(offsets[part], offsets[part + 1] - offsets[part]))) {
            const Forest::Node& node = forest.nodes[at];
            const auto length = static_cast<int64_t>(node.end - node.begin);
            place[at] = static_cast<int64_t>(segments.size() - first);
            segments.push_back({node.index,
                                node.sample == Forest::none ? -1 : forest.indices[node.sample],
                                node.parent == Forest::none ? -1 : place[node.parent],
                                static_cast<int64_t>(node.begin), offset, length});
            offset += length;
        }
        for (std::size_t k = segments.size(); k-- > first;) {  // the first sample of those below
            const sab_step_segment& below = segments[k];
            if (below.parent < 0) continue;
            int64_t& sample = segments[first + static_cast<std::size_t>(below.parent)].sample;
            if (sample < 0 || below.sample < sample) sample = below.sample;
        }
        segment_offsets.push_back(segments.size());
    }
}

}  // namespace sab
