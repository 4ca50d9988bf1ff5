#include "plan/boxes.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace sab {
namespace {

/// A node of more items is cut by the usual bias, so that the time stays in proportion.
constexpr std::size_t most_considered = std::size_t{1} << 14;

}  // namespace

/// A division on its way: the node that is next, and the higher sides that wait for it.
class BoxFinder::Division {
public:
    /// `is_last`: the last box keeps what does not fill a batch.
    Division(const BoxFinder& finder, Node node, std::size_t column, bool is_last)
        : finder_(finder), node_(std::move(node)), column_(column), is_last_(is_last) {}

    bool is_done() const { return is_done_; }
    /// The node is taken as it is: its cut left a lower side without a whole batch, which only a
    /// cost that changes from call to call can do.
    bool is_stuck() const { return is_stuck_; }
    const Node& node() const { return node_; }

    void cut(const Cut& cut) {
        auto [low, high] = finder_.divided(node_, cut);
        waiting_.push_back({std::move(high), column_});
        node_ = std::move(low);
        column_ = cut.column;
    }

    /// Takes the node as a box. What does not fill a batch joins the next node.
    Node take(uint64_t batch_size) {
        Node box = std::move(node_);
        is_done_ = waiting_.empty();
        if (is_done_ && is_last_) return box;
        const uint64_t rest = keeps_tail(box, batch_size) ? 0 : box.samples % batch_size;
        std::vector<Item> tail = finder_.cut_tail(box, column_, rest);
        is_stuck_ = box.samples == 0;
        left_ = is_done_ ? tail_size(tail) : 0;
        if (is_done_) return box;
        node_ = std::move(waiting_.back().first);
        column_ = waiting_.back().second;
        waiting_.pop_back();
        finder_.add(std::move(tail), node_);
        return box;
    }

    /// The batches of the rest of the node if it is cut so, and then by the usual bias.
    double batches_after(const Cut& cut, uint64_t fewest) const {
        Division rest(finder_, node_, column_, is_last_ && waiting_.empty());
        rest.cut(cut);
        double batches = 0;
        while (!rest.is_done()) {
            if (!rest.is_stuck())
                if (const Cut next = finder_.best_cut(rest.node(), fewest); next.score > 0) {
                    rest.cut(next);
                    continue;
                }
            const uint64_t size = finder_.batch_size(rest.node());
            batches +=
                std::ceil(static_cast<double>(rest.take(size).samples) / static_cast<double>(size));
        }
        return batches +
               static_cast<double>(rest.left_) / static_cast<double>(finder_.batch_size(node_));
    }

private:
    /// Whether what does not fill a batch remains: it would be more batches in the next node.
    bool keeps_tail(const Node& box, uint64_t batch_size) const {
        if (!finder_.allows_few_ || is_done_) return false;
        return box.samples < batch_size ||
               box.samples % batch_size > finder_.batch_size(waiting_.back().first);
    }
    static uint64_t tail_size(const std::vector<Item>& tail) {
        uint64_t size = 0;
        for (const Item& item : tail) size += item.count;
        return size;
    }

    const BoxFinder& finder_;
    Node node_;
    std::size_t column_;  ///< of the cut below which the node is
    bool is_last_, is_done_ = false, is_stuck_ = false;
    uint64_t left_ = 0;  ///< samples that the last box does not keep
    std::vector<std::pair<Node, std::size_t>> waiting_{};
};

/// Makes boxes of nodes, and counts how many samples of each cell they have.
class BoxFinder::Boxes {
public:
    explicit Boxes(const BoxFinder& finder) : finder_(finder), used_(finder.cells_.size()) {}

    void add(const Node& node, uint64_t batch_size) {
        if (node.samples == 0) return;
        Box& box = boxes_.emplace_back();
        box.samples = node.samples;
        box.batch_size = batch_size;
        for (const Item& item : node.by_length[0]) {
            for (std::size_t j = 0; j < finder_.cells_.columns; ++j)
                box.padded[j] = std::max(box.padded[j], finder_.length(item, j));
            box.runs.push_back({item.cell, used_[item.cell], item.count});
            used_[item.cell] += item.count;
        }
    }
    std::vector<Box> finish() {
        sort(boxes_);
        return std::move(boxes_);
    }

private:
    const BoxFinder& finder_;
    std::vector<uint64_t> used_;
    std::vector<Box> boxes_{};
};

BoxFinder::BoxFinder(const Cells& cells, BatchSizeFor batch_size_for, SamplesOf estimate,
                     bool allows_few)
    : cells_(cells),
      batch_size_for_(std::move(batch_size_for)),
      estimate_(std::move(estimate)),
      allows_few_(allows_few) {}

BoxFinder::Node BoxFinder::all() const {
    Node node;
    std::vector<Item> items;
    items.reserve(cells_.size());
    for (std::size_t cell = 0; cell < cells_.size(); ++cell)
        items.push_back({static_cast<uint32_t>(cell), cells_.counts[cell]});
    node.by_length.resize(cells_.columns);
    add(std::move(items), node);
    return node;
}

PerColumn BoxFinder::corner(const Node& node) const {
    PerColumn corner{};
    for (std::size_t j = 0; j < cells_.columns && node.samples > 0; ++j)
        corner[j] = length(node.by_length[j].back(), j);
    return corner;
}

uint64_t BoxFinder::batch_size(const Node& node) const {
    const PerColumn lengths = corner(node);
    return std::max<uint64_t>(batch_size_for_(first_of(lengths, cells_.columns)), 1);
}

bool BoxFinder::is_over(const Node& node) const {
    const PerColumn lengths = corner(node);
    return node.samples > 0 && batch_size_for_(first_of(lengths, cells_.columns)) == 0;
}

/// Adds items, which keep the order of each column.
void BoxFinder::add(std::vector<Item> items, Node& node) const {
    for (const Item& item : items) node.samples += item.count;
    for (std::size_t j = 0; j < cells_.columns; ++j) {
        const auto is_shorter = [&](const Item& a, const Item& b) {
            return length(a, j) < length(b, j);
        };
        std::ranges::stable_sort(items, is_shorter);
        std::vector<Item>& known = node.by_length[j];
        const auto middle = static_cast<std::ptrdiff_t>(known.size());
        known.insert(known.end(), items.begin(), items.end());
        std::inplace_merge(known.begin(), known.begin() + middle, known.end(), is_shorter);
    }
}

/// Takes the `tail` longest samples of a column from the node. The others are then in
/// `by_length[0]`, in the order of that column.
std::vector<BoxFinder::Item> BoxFinder::cut_tail(Node& node, std::size_t column,
                                                 uint64_t tail) const {
    std::vector<Item> taken;
    node.samples -= tail;
    std::vector<Item>& items = node.by_length[column];
    while (tail > 0) {
        Item& last = items.back();
        const uint64_t count = std::min(last.count, tail);
        taken.push_back({last.cell, count});
        tail -= count;
        last.count -= count;
        if (last.count == 0) items.pop_back();
    }
    if (column > 0 && !taken.empty()) node.by_length[0].swap(items);
    return taken;
}

/// The cut after which the fewest batches follow.
BoxFinder::Cut BoxFinder::considered_cut(const Division& division, uint64_t fewest) const {
    std::vector<Cut> cuts, distinct;
    find_cuts(division.node(), fewest, estimate_, cuts);
    for (const Cut& cut : cuts)
        if (cut.score > 0 && std::ranges::find(distinct, cut) == distinct.end())
            distinct.push_back(cut);
    if (distinct.empty()) return {};
    std::size_t best = 0;
    double least = 0;
    for (std::size_t i = 0; i < distinct.size() && distinct.size() > 1; ++i)
        if (const double batches = division.batches_after(distinct[i], fewest);
            i == 0 || batches < least) {
            least = batches;
            best = i;
        }
    return distinct[best];
}

std::vector<Box> BoxFinder::by_cuts(uint64_t fewest, bool is_quick,
                                    const Progress& progress) const {
    Boxes boxes(*this);
    Division division(*this, all(), 0, true);
    const uint64_t samples = division.node().samples;
    for (uint64_t done = 0; !division.is_done();) {
        progress.report(done, samples);
        const Node& node = division.node();
        const Cut cut = is_quick || node.by_length[0].size() > most_considered
                            ? best_cut(node, fewest)
                            : considered_cut(division, fewest);
        if (cut.score > 0 && !division.is_stuck()) {
            division.cut(cut);
            continue;
        }
        const uint64_t size = batch_size(node);
        const Node box = division.take(size);
        done += box.samples;
        boxes.add(box, size);
    }
    return boxes.finish();
}

/// A part of a tree of cuts.
struct BoxFinder::Branch {
    Node node{};
    Cut cut{};
    std::size_t low = 0, high = 0;  ///< 0: it is not cut
};

/// The cut that saves most batches, or, of a node over the budget, padding.
BoxFinder::Cut BoxFinder::cut_of_shapes(const Node& node) const {
    const bool is_urgent = is_over(node);
    const auto by_padding = [](std::span<const double> lengths) {
        return 1 / std::accumulate(lengths.begin(), lengths.end(), 0.0);
    };
    std::vector<Cut> cuts;
    find_cuts(node, is_urgent || allows_few_ ? 0 : 1, is_urgent ? SamplesOf(by_padding) : estimate_,
              cuts);
    Cut best;
    for (std::size_t i = is_urgent ? usual_bias : 0; i < cuts.size(); i += bias_count)
        if (cuts[i].score > best.score) best = cuts[i];
    if (is_urgent && best.score > 0) best.score = std::numeric_limits<double>::infinity();
    return best;
}

/// The leaf that a tail joins: where the cuts of the next branch lead, or, where that would then be
/// over the budget, the first one that would not; none if all would.
std::optional<std::size_t> BoxFinder::leaf_for(const Item& item, const std::vector<Branch>& tree,
                                               const Waiting& waiting) const {
    std::size_t next = waiting.back().first;
    while (tree[next].low != 0)
        next = length(item, tree[next].cut.column) <= tree[next].cut.length ? tree[next].low
                                                                            : tree[next].high;
    const auto holds = [&](const Node& node) {
        PerColumn lengths = corner(node);
        for (std::size_t j = 0; j < cells_.columns; ++j)
            lengths[j] = std::max(lengths[j], length(item, j));
        return batch_size_for_(first_of(lengths, cells_.columns)) > 0;
    };
    if (holds(tree[next].node)) return next;
    Waiting others = waiting;
    while (!others.empty()) {
        const std::size_t at = others.back().first;
        others.pop_back();
        if (tree[at].low == 0 && holds(tree[at].node)) return at;
        if (tree[at].low == 0) continue;
        others.emplace_back(tree[at].high, 0);
        others.emplace_back(tree[at].low, 0);
    }
    return std::nullopt;
}

std::vector<Box> BoxFinder::by_shapes(std::size_t count, const Progress& progress) const {
    std::vector<Branch> tree(1);
    tree[0].node = all();
    tree[0].cut = cut_of_shapes(tree[0].node);
    for (std::size_t leaves = 1; leaves < count; ++leaves) {
        progress.report(leaves, count);
        std::size_t best = 0;
        double most = 0;
        for (std::size_t i = 0; i < tree.size(); ++i)
            if (tree[i].low == 0 && tree[i].cut.score > most) {
                most = tree[i].cut.score;
                best = i;
            }
        if (most == 0) break;
        auto [low, high] = divided(tree[best].node, tree[best].cut);
        tree[best].node = {};
        tree[best].low = tree.size();
        tree[best].high = tree.size() + 1;
        const Cut low_cut = cut_of_shapes(low), high_cut = cut_of_shapes(high);
        tree.push_back({std::move(low), low_cut});
        tree.push_back({std::move(high), high_cut});
    }

    Boxes boxes(*this);
    Waiting waiting{{0, 0}};
    while (!waiting.empty()) {
        const auto [at, column] = waiting.back();
        waiting.pop_back();
        if (tree[at].low != 0) {
            waiting.emplace_back(tree[at].high, column);
            waiting.emplace_back(tree[at].low, tree[at].cut.column);
            continue;
        }
        Node& node = tree[at].node;
        uint64_t size = batch_size(node);
        if (allows_few_ && !waiting.empty() && node.samples > 0)  // fewer samples move
            size = node.samples / ((node.samples + size - 1) / size);
        if (!waiting.empty()) {
            std::vector<Item> kept;
            for (const Item& item : cut_tail(node, column, node.samples % size))
                if (const auto leaf = leaf_for(item, tree, waiting))
                    add({item}, tree[*leaf].node);
                else
                    kept.push_back(item);
            if (!kept.empty()) add(std::move(kept), node);
            while (node.samples % size != 0) --size;  // a smaller last batch would be another shape
        }
        boxes.add(node, size);
    }
    return boxes.finish();
}

std::vector<Box> BoxFinder::by_number(std::size_t count,
                                      const std::function<std::size_t(std::size_t)>& box_of) const {
    std::vector<Box> boxes(count);
    for (std::size_t cell = 0; cell < cells_.size(); ++cell) {
        Box& box = boxes[box_of(cell)];
        box.runs.push_back({static_cast<uint32_t>(cell), 0, cells_.counts[cell]});
        box.samples += cells_.counts[cell];
        for (std::size_t j = 0; j < cells_.columns; ++j)
            box.padded[j] = std::max(box.padded[j], cells_.of(cell)[j]);
    }
    for (Box& box : boxes)
        if (box.samples > 0)
            box.batch_size =
                std::max<uint64_t>(batch_size_for_(first_of(box.padded, cells_.columns)), 1);
    return boxes;
}

Waste BoxFinder::waste(std::span<const Box> boxes) const {
    Waste sum;
    for (const Box& box : boxes) {
        sum.batches += box.batches();
        for (std::size_t j = 0; j < cells_.columns; ++j)
            sum.padded += box.padded[j] * static_cast<double>(box.samples);
    }
    sum.padding = sum.padded - cells_.total;
    return sum;
}

void BoxFinder::sort(std::vector<Box>& boxes) {
    std::ranges::stable_sort(boxes, [](const Box& a, const Box& b) {
        return a.batch_size != b.batch_size ? a.batch_size > b.batch_size : a.padded < b.padded;
    });
}

}  // namespace sab
